//! Complex numbers: a pair is a number, a rotation is a product.
//!
//! Llama's reference code: `view_as_complex(x.float().reshape(*, -1, 2)) * polar(ones, outer(t, freqs))`, with the
//! result viewed as real again. It is also the paper's own derivation (eq. 12).

use std::hint::black_box;

use anyhow::Result;
use num_complex::Complex32;
use rope_core::Pairing;

use super::formulation::Runner;
use super::literature::{Literature, angles_f32, by_heads};
use crate::cases::Element;
use crate::cases::workloads::Workload;

/// Into a new result, as published.
pub const COMPLEX: Literature = Literature {
    name: "complex",
    summary: "pairs viewed as complex numbers, times polar(1, angle)",
    source: "meta-llama/llama, model.py: precompute_freqs_cis, apply_rotary_emb",
    counting: "positions and pairs from 0",
    pairing: &[Pairing::Interleaved],
    elements: &[Element::F32, Element::Bf16],
    partial: true,
    table: |_| 0,
    prepare: |case| {
        by_heads(case, table(&case.workload), |row, x, y| {
            let x: &[Complex32] = bytemuck::cast_slice(x);
            let y: &mut [Complex32] = bytemuck::cast_slice_mut(y);
            for ((y, x), rotation) in y.iter_mut().zip(x).zip(row) {
                *y = x * rotation;
            }
        })
    },
};

/// In place, as `x *= freqs_cis` would.
pub const IN_PLACE: Literature = Literature {
    name: "complex/in-place",
    summary: "pairs viewed as complex numbers, multiplied in place",
    prepare: |case| {
        Ok(Box::new(InPlace {
            table: table(&case.workload),
            workload: case.workload.clone(),
        }))
    },
    elements: &[Element::F32],
    partial: false,
    ..COMPLEX
};

/// Returns `freqs_cis`.
fn table(workload: &Workload) -> Vec<Complex32> {
    angles_f32(workload, workload.positions())
        .map(|angle| Complex32::from_polar(1.0, angle))
        .collect()
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
