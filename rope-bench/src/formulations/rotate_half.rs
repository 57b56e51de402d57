//! Rotate-half: `x * cos + rotate_half(x) * sin`, in whole tensors.
//!
//! GPT-NeoX, and Hugging Face's code for nearly every model since. Each step is a pass over the whole tensor with a
//! temporary of its own: the half-rotated copy, the two products, and their sum. cos and sin are kept twice,
//! `cat(freqs, freqs)`, in a table of all positions; a step that follows a KV cache reads it from the cache's length
//! on.

use std::hint::black_box;

use anyhow::Result;
use rope_core::Pairing;

use super::{About, Cost, Formulation, Runner, angles_f32};
use crate::cases::{Case, Element};
use crate::oracle::{Angle, Arithmetic};
use crate::workloads::Workload;

/// Four passes, three temporaries and a result.
#[derive(Clone, Copy, Debug)]
pub struct RotateHalf;

impl Formulation for RotateHalf {
    fn name(&self) -> String {
        "rotate-half".into()
    }

    fn about(&self) -> About {
        About {
            summary: "x cos + rotate_half(x) sin in whole tensors, with three temporaries",
            source: "huggingface/transformers: apply_rotary_pos_emb; EleutherAI/gpt-neox",
            pairings: &[Pairing::Half],
            elements: &[Element::F32],
            partial: false,
            threads: false,
            angle: Angle::F32,
            arithmetic: Arithmetic::F32,
            counting: "positions and pairs from 0; a step starts at the length of the KV cache",
        }
    }

    fn cost(&self, case: &Case) -> Cost {
        // The copy: 1 read, 1 write; the products: 2 and 2; the sum: 2 and 1. Negation, two products, a sum.
        Cost::per_element(case, 9.0, 3.5)
    }

    fn prepare(&self, case: &Case) -> Result<Box<dyn Runner>> {
        let workload = case.workload.clone();
        let (pairs, positions) = (workload.head_dim / 2, workload.positions());
        let all = (0..=positions.iter().copied().max().unwrap_or(0)).collect();
        let angles: Vec<f32> = angles_f32(&workload, all).collect();
        let twice = |f: fn(f32) -> f32| -> Vec<f32> {
            angles
                .chunks(pairs)
                .flat_map(|row| row.iter().chain(row).map(move |&angle| f(angle)))
                .collect()
        };
        let empty = || vec![0.0; workload.elements()];
        Ok(Box::new(PreparedRotateHalf {
            cos: twice(f32::cos),
            sin: twice(f32::sin),
            positions,
            rotated: empty(),
            with_cos: empty(),
            with_sin: empty(),
            output: empty(),
            workload,
        }))
    }
}

struct PreparedRotateHalf {
    cos: Vec<f32>,
    sin: Vec<f32>,
    positions: Vec<u32>,
    rotated: Vec<f32>,
    with_cos: Vec<f32>,
    with_sin: Vec<f32>,
    output: Vec<f32>,
    workload: Workload,
}

impl Runner for PreparedRotateHalf {
    fn run(&mut self, bytes: &mut [u8], times: usize) -> Result<()> {
        let PreparedRotateHalf {
            cos,
            sin,
            positions,
            rotated,
            with_cos,
            with_sin,
            output,
            workload,
        } = self;
        let dim = workload.head_dim;
        let x: &[f32] = bytemuck::cast_slice(bytes);
        for _ in 0..times {
            rotate_half(x, black_box(rotated), dim);
            multiply(x, cos, black_box(with_cos), positions, workload);
            multiply(rotated, sin, black_box(with_sin), positions, workload);
            for ((y, a), b) in black_box(&mut *output)
                .iter_mut()
                .zip(&*with_cos)
                .zip(&*with_sin)
            {
                *y = a + b;
            }
        }
        Ok(())
    }

    fn store(&self, bytes: &mut [u8]) -> Result<()> {
        bytes.copy_from_slice(bytemuck::cast_slice(&self.output));
        Ok(())
    }
}

/// `cat(-x2, x1)`.
fn rotate_half(x: &[f32], rotated: &mut [f32], dim: usize) {
    for (x, rotated) in x.chunks_exact(dim).zip(rotated.chunks_exact_mut(dim)) {
        let (x1, x2) = x.split_at(dim / 2);
        let (first, second) = rotated.split_at_mut(dim / 2);
        for (y, x) in first.iter_mut().zip(x2) {
            *y = -x;
        }
        second.copy_from_slice(x1);
    }
}

/// `x * table[positions]`, the same for all heads of a token.
fn multiply(x: &[f32], table: &[f32], product: &mut [f32], positions: &[u32], workload: &Workload) {
    let dim = workload.head_dim;
    workload.each_head(|head| {
        let row = &table[positions[head.row] as usize * dim..][..dim];
        for ((y, x), c) in product[head.at..][..dim]
            .iter_mut()
            .zip(&x[head.at..][..dim])
            .zip(row)
        {
            *y = x * c;
        }
    });
}
