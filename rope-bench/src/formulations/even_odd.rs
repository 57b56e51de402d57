//! Even and odd: elementwise products of the even channels and the odd ones, each taken with a stride of two.
//!
//! ```text
//! y[0::2] = x[0::2] cos - x[1::2] sin
//! y[1::2] = x[0::2] sin + x[1::2] cos
//! ```
//!
//! torchtune and RoFormer's own code are of this form (they stack the two results, which is the strided write).

use std::hint::black_box;

use anyhow::Result;
use rope_core::Pairing;

use super::{About, Cost, Formulation, Runner, cos_sin_f32};
use crate::cases::{Case, Element};
use crate::oracle::{Angle, Arithmetic};
use crate::workloads::Workload;

/// One pass for the even channels and one for the odd, head by head.
#[derive(Clone, Copy, Debug)]
pub struct EvenOdd;

impl Formulation for EvenOdd {
    fn name(&self) -> String {
        "even-odd".into()
    }

    fn about(&self) -> About {
        About {
            summary: "elementwise, over even and odd channels with a stride of two",
            source: "ZhuiyiTechnology/roformer; meta-pytorch/torchtune, position_embeddings.py",
            pairings: &[Pairing::Interleaved],
            elements: &[Element::F32],
            partial: false,
            threads: false,
            angle: Angle::F32,
            arithmetic: Arithmetic::F32,
            counting: "positions and pairs from 0 in the code; the paper (arXiv:2104.09864) counts both from 1",
        }
    }

    fn cost(&self, case: &Case) -> Cost {
        Cost::per_element(case, 2.0, 3.0)
    }

    fn prepare(&self, case: &Case) -> Result<Box<dyn Runner>> {
        let workload = case.workload.clone();
        let (cos, sin) = cos_sin_f32(&workload).unzip();
        Ok(Box::new(PreparedEvenOdd {
            cos,
            sin,
            output: vec![0.0; workload.elements()],
            workload,
        }))
    }
}

struct PreparedEvenOdd {
    cos: Vec<f32>,
    sin: Vec<f32>,
    output: Vec<f32>,
    workload: Workload,
}

impl Runner for PreparedEvenOdd {
    fn run(&mut self, bytes: &mut [u8], times: usize) -> Result<()> {
        let dim = self.workload.head_dim;
        let pairs = dim / 2;
        let x: &[f32] = bytemuck::cast_slice(bytes);
        for _ in 0..times {
            let output = black_box(&mut self.output);
            self.workload.each_head(|head| {
                let (cos, sin) = (
                    &self.cos[head.row * pairs..][..pairs],
                    &self.sin[head.row * pairs..][..pairs],
                );
                let (x, y) = (&x[head.at..][..dim], &mut output[head.at..][..dim]);
                let even = || x.iter().step_by(2);
                let odd = || x.iter().skip(1).step_by(2);
                for ((y, (x0, x1)), (c, s)) in y
                    .iter_mut()
                    .step_by(2)
                    .zip(even().zip(odd()))
                    .zip(cos.iter().zip(sin))
                {
                    *y = x0 * c - x1 * s;
                }
                let y = y.iter_mut().skip(1).step_by(2);
                for ((y, (x0, x1)), (c, s)) in y.zip(even().zip(odd())).zip(cos.iter().zip(sin)) {
                    *y = x0 * s + x1 * c;
                }
            });
        }
        Ok(())
    }

    fn store(&self, bytes: &mut [u8]) -> Result<()> {
        bytes.copy_from_slice(bytemuck::cast_slice(&self.output));
        Ok(())
    }
}
