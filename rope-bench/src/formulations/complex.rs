//! Complex numbers: a pair is a number, a rotation is a product.
//!
//! Llama's reference code: `view_as_complex(x.float().reshape(*, -1, 2)) * polar(ones, outer(t, freqs))`, and the
//! result viewed as real again. The paper's own derivation (eq. 12) is this formulation.

use std::hint::black_box;

use anyhow::Result;
use num_complex::Complex32;
use rope_core::Pairing;

use super::{About, Cost, Formulation, Runner, angles_f32};
use crate::cases::{Case, Element};
use crate::oracle::{Angle, Arithmetic};
use crate::workloads::Workload;

const ABOUT: About = About {
    summary: "pairs viewed as complex numbers, times polar(1, angle)",
    source: "meta-llama/llama, model.py: precompute_freqs_cis, apply_rotary_emb",
    pairings: &[Pairing::Interleaved],
    elements: &[Element::F32],
    partial: false,
    threads: false,
    angle: Angle::F32,
    arithmetic: Arithmetic::F32,
    counting: "positions and pairs from 0",
};

/// With a result of its own, as published.
#[derive(Clone, Copy, Debug)]
pub struct Complex;

/// Where it is, as `x *= freqs_cis` would.
#[derive(Clone, Copy, Debug)]
pub struct ComplexInPlace;

impl Formulation for Complex {
    fn name(&self) -> String {
        "complex".into()
    }

    fn about(&self) -> About {
        ABOUT
    }

    fn cost(&self, case: &Case) -> Cost {
        Cost::per_element(case, 2.0, 3.0)
    }

    fn prepare(&self, case: &Case) -> Result<Box<dyn Runner>> {
        let output = vec![Complex32::ZERO; case.workload.elements() / 2];
        Ok(Box::new(OutOfPlace {
            table: table(&case.workload),
            output,
            workload: case.workload.clone(),
        }))
    }
}

impl Formulation for ComplexInPlace {
    fn name(&self) -> String {
        "complex/in-place".into()
    }

    fn about(&self) -> About {
        About {
            summary: "pairs viewed as complex numbers, multiplied in place",
            ..ABOUT
        }
    }

    fn cost(&self, case: &Case) -> Cost {
        Cost::per_element(case, 2.0, 3.0)
    }

    fn prepare(&self, case: &Case) -> Result<Box<dyn Runner>> {
        Ok(Box::new(InPlace {
            table: table(&case.workload),
            workload: case.workload.clone(),
        }))
    }
}

/// `freqs_cis`.
fn table(workload: &Workload) -> Vec<Complex32> {
    angles_f32(workload, workload.positions())
        .map(|angle| Complex32::from_polar(1.0, angle))
        .collect()
}

struct OutOfPlace {
    table: Vec<Complex32>,
    output: Vec<Complex32>,
    workload: Workload,
}

impl Runner for OutOfPlace {
    fn run(&mut self, bytes: &mut [u8], times: usize) -> Result<()> {
        let pairs = self.workload.head_dim / 2;
        let x: &[Complex32] = bytemuck::cast_slice(bytes);
        for _ in 0..times {
            let output = black_box(&mut self.output);
            self.workload.each_head(|head| {
                let at = head.at / 2;
                let row = &self.table[head.row * pairs..][..pairs];
                for ((y, x), rotation) in output[at..][..pairs]
                    .iter_mut()
                    .zip(&x[at..][..pairs])
                    .zip(row)
                {
                    *y = x * rotation;
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

struct InPlace {
    table: Vec<Complex32>,
    workload: Workload,
}

impl Runner for InPlace {
    fn run(&mut self, bytes: &mut [u8], times: usize) -> Result<()> {
        let pairs = self.workload.head_dim / 2;
        for _ in 0..times {
            let x: &mut [Complex32] = bytemuck::cast_slice_mut(black_box(&mut *bytes));
            self.workload.each_head(|head| {
                let row = &self.table[head.row * pairs..][..pairs];
                for (x, rotation) in x[head.at / 2..][..pairs].iter_mut().zip(row) {
                    *x *= rotation;
                }
            });
        }
        Ok(())
    }
}
