//! candle-nn's `rotary_emb`, on the CPU.
//!
//! Every call allocates its result. cos and sin have the element's type, as the models of candle-transformers make
//! them, and so does all arithmetic: in 16 bits every product and every sum is rounded.

use std::hint::black_box;

use anyhow::Result;
use candle_core::{D, Device, Tensor, WithDType};
use candle_nn::rotary_emb;
use rope_core::Pairing;

use super::super::{About, Cost, Formulation, Runner};
use crate::cases::{Case, Element, Float};
use crate::oracle::{Angle, Arithmetic};
use crate::threads::Team;
use crate::workloads::{Order, Part, Workload};

/// One of its functions.
#[derive(Clone, Copy, Debug)]
struct Candle {
    name: &'static str,
    function: fn(&Tensor, &Tensor, &Tensor) -> candle_core::Result<Tensor>,
    summary: &'static str,
    pairings: &'static [Pairing],
    order: Order,
}

/// `rope`, `rope_i` and `rope_thd`.
pub fn all() -> Vec<Box<dyn Formulation>> {
    vec![
        Box::new(Candle {
            name: "candle/rope",
            function: rotary_emb::rope,
            summary: "[batch, heads, tokens, head_dim] into a new tensor",
            pairings: &[Pairing::Half],
            order: Order::HeadsMajor,
        }),
        Box::new(Candle {
            name: "candle/rope-i",
            function: rotary_emb::rope_i,
            summary: "[batch, heads, tokens, head_dim] into a new tensor",
            pairings: &[Pairing::Interleaved],
            order: Order::HeadsMajor,
        }),
        Box::new(Candle {
            name: "candle/rope-thd",
            function: rotary_emb::rope_thd,
            summary: "[batch, tokens, heads, head_dim] into a new tensor",
            pairings: &[Pairing::Half],
            order: Order::TokensMajor,
        }),
    ]
}

impl Formulation for Candle {
    fn name(&self) -> String {
        self.name.into()
    }

    fn about(&self) -> About {
        About {
            summary: self.summary,
            source: "huggingface/candle: candle_nn::rotary_emb",
            pairings: self.pairings,
            elements: &Element::ALL,
            partial: false,
            threads: true,
            angle: Angle::F32,
            arithmetic: Arithmetic::Element,
            counting: "positions and pairs from 0; the caller picks the rows",
        }
    }

    fn supports(&self, case: &Case) -> Result<(), String> {
        // One token lies the same way in both orders.
        if case.workload.order != self.order && case.workload.tokens > 1 {
            return Err("written for the other order of heads and tokens".into());
        }
        self.about().admits(case)
    }

    fn cost(&self, case: &Case) -> Cost {
        Cost::per_element(case, 2.0, 3.0)
    }

    fn prepare(&self, case: &Case) -> Result<Box<dyn Runner>> {
        Ok(match case.element {
            Element::F32 => self.prepare_for::<f32>(case)?,
            Element::Bf16 => self.prepare_for::<half::bf16>(case)?,
            Element::F16 => self.prepare_for::<half::f16>(case)?,
        })
    }
}

impl Candle {
    fn prepare_for<E: Float + WithDType>(&self, case: &Case) -> Result<Box<dyn Runner>> {
        let angles = angles(&case.workload)?;
        Ok(Box::new(Prepared::<E> {
            candle: *self,
            parts: case.workload.parts()?,
            cos: angles.cos()?.to_dtype(E::DTYPE)?,
            sin: angles.sin()?.to_dtype(E::DTYPE)?,
            team: Team::new(case.threads)?,
            inputs: Vec::new(),
            outputs: Vec::new(),
            element: std::marker::PhantomData,
        }))
    }
}

/// `[tokens, pairs]`, and `[batch, tokens, pairs]` if the sequences are at positions of their own: all in f32.
fn angles(workload: &Workload) -> Result<Tensor> {
    let dim = workload.head_dim;
    let frequencies: Vec<f32> = (0..dim)
        .step_by(2)
        .map(|i| 1.0 / (workload.base as f32).powf(i as f32 / dim as f32))
        .collect();
    let frequencies = Tensor::from_vec(frequencies, (1, dim / 2), &Device::Cpu)?;
    let positions: Vec<f32> = workload.positions().iter().map(|&p| p as f32).collect();
    let positions = Tensor::new(positions, &Device::Cpu)?.unsqueeze(D::Minus1)?;
    let angles = positions.matmul(&frequencies)?;
    Ok(match workload.starts.len() {
        1 => angles,
        sequences => angles.reshape((sequences, workload.tokens, dim / 2))?,
    })
}

struct Prepared<E> {
    candle: Candle,
    parts: Vec<Part>,
    cos: Tensor,
    sin: Tensor,
    team: Team,
    inputs: Vec<Tensor>,
    outputs: Vec<Tensor>,
    element: std::marker::PhantomData<E>,
}

impl<E: Float + WithDType> Runner for Prepared<E> {
    fn load(&mut self, bytes: &[u8]) -> Result<()> {
        let x: &[E] = bytemuck::cast_slice(bytes);
        self.inputs.clear();
        for Part { range, layout } in &self.parts {
            let shape = layout.shape();
            let (outer, inner) = match self.candle.order {
                Order::HeadsMajor => (shape.heads, shape.tokens),
                Order::TokensMajor => (shape.tokens, shape.heads),
            };
            self.inputs.push(Tensor::from_slice(
                &x[range.clone()],
                (shape.batch, outer, inner, shape.head_dim),
                &Device::Cpu,
            )?);
        }
        Ok(())
    }

    fn run(&mut self, _: &mut [u8], times: usize) -> Result<()> {
        let Prepared {
            candle,
            cos,
            sin,
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
                    outputs.push((candle.function)(black_box(x), cos, sin)?);
                }
            }
            Ok(())
        })?
    }

    fn store(&self, bytes: &mut [u8]) -> Result<()> {
        let x: &mut [E] = bytemuck::cast_slice_mut(bytes);
        for (Part { range, .. }, output) in self.parts.iter().zip(&self.outputs) {
            x[range.clone()].copy_from_slice(&output.flatten_all()?.to_vec1::<E>()?);
        }
        Ok(())
    }
}
