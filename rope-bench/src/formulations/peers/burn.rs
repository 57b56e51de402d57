//! burn-nn's `RotaryEncoding`, on the CPU backend Flex.
//!
//! Every call multiplies the whole tensor by a constant matrix of signs, the product by a table of cos and sin, and
//! sums pairs of the result: three tensors, two of them twice as large as x, allocated in every call.

use std::hint::black_box;

use anyhow::{Context, Result};
use burn::nn::{RotaryEncoding, RotaryEncodingConfig};
use burn::tensor::{Device, Tensor, TensorData};
use rope_core::Pairing;

use super::super::{About, Cost, Formulation, Runner};
use crate::cases::{Case, Element};
use crate::oracle::{Angle, Arithmetic};
use crate::threads::Team;
use crate::workloads::{Order, Part};

/// `RotaryEncoding::apply`.
#[derive(Clone, Copy, Debug)]
struct Burn;

/// burn's only formulation.
pub fn all() -> Vec<Box<dyn Formulation>> {
    vec![Box::new(Burn)]
}

impl Formulation for Burn {
    fn name(&self) -> String {
        "burn".into()
    }

    fn about(&self) -> About {
        About {
            summary: "[batch, heads, tokens, head_dim], transposed if it must be, into a new tensor: a sign matrix, a \
                      product, a sum",
            source: "tracel-ai/burn: burn::nn::RotaryEncoding on Flex",
            pairings: &[Pairing::Interleaved],
            elements: &[Element::F32],
            partial: false,
            threads: true,
            angle: Angle::F32,
            arithmetic: Arithmetic::F32,
            counting: "positions and pairs from 0; one start for all sequences",
        }
    }

    fn supports(&self, case: &Case) -> Result<(), String> {
        if case.workload.starts.len() > 1 {
            return Err("all its sequences start at the same position".into());
        }
        self.about().admits(case)
    }

    fn cost(&self, case: &Case) -> Cost {
        // The matrix: 1 read, 2 written; the product: 2 and 2; the sum: 2 and 1.
        Cost::per_element(case, 10.0, 9.0)
    }

    fn prepare(&self, case: &Case) -> Result<Box<dyn Runner>> {
        let workload = &case.workload;
        let start = workload.starts.first().copied().unwrap_or(0) as usize;
        let device = Device::flex();
        let config = RotaryEncodingConfig::new(start + workload.tokens, workload.head_dim)
            .with_theta(workload.base as f32);
        Ok(Box::new(Prepared {
            encoding: config.init(&device),
            device,
            start,
            order: workload.order,
            parts: workload.parts()?,
            team: Team::new(case.threads)?,
            inputs: Vec::new(),
            outputs: Vec::new(),
        }))
    }
}

struct Prepared {
    encoding: RotaryEncoding,
    device: Device,
    start: usize,
    order: Order,
    parts: Vec<Part>,
    team: Team,
    inputs: Vec<Tensor<4>>,
    outputs: Vec<Tensor<4>>,
}

impl Runner for Prepared {
    fn load(&mut self, bytes: &[u8]) -> Result<()> {
        let x: &[f32] = bytemuck::cast_slice(bytes);
        self.inputs.clear();
        for Part { range, layout } in &self.parts {
            let shape = layout.shape();
            let values = x[range.clone()].to_vec();
            let tensor = |[outer, inner]: [usize; 2]| {
                let shape = [shape.batch, outer, inner, shape.head_dim];
                Tensor::from_data(TensorData::new(values, shape), &self.device)
            };
            self.inputs.push(match self.order {
                Order::HeadsMajor => tensor([shape.heads, shape.tokens]),
                // A view; nothing moves before the call.
                Order::TokensMajor => tensor([shape.tokens, shape.heads]).swap_dims(1, 2),
            });
        }
        Ok(())
    }

    fn run(&mut self, _: &mut [u8], times: usize) -> Result<()> {
        let Prepared {
            encoding,
            start,
            team,
            inputs,
            outputs,
            ..
        } = self;
        team.within(|| {
            for _ in 0..times {
                // Freed first, so that the next ones can take their place.
                outputs.clear();
                for x in &*inputs {
                    outputs.push(encoding.apply(black_box(x).clone(), *start));
                }
            }
        })
    }

    fn store(&self, bytes: &mut [u8]) -> Result<()> {
        let x: &mut [f32] = bytemuck::cast_slice_mut(bytes);
        for (Part { range, .. }, output) in self.parts.iter().zip(&self.outputs) {
            let output = match self.order {
                Order::HeadsMajor => output.clone(),
                Order::TokensMajor => output.clone().swap_dims(1, 2),
            };
            let data = output.into_data();
            let values = data.as_slice::<f32>().ok().context("not f32")?;
            x[range.clone()].copy_from_slice(values);
        }
        Ok(())
    }
}
