//! Rotate-half: `x * cos + rotate_half(x) * sin`, on whole tensors.
//!
//! GPT-NeoX, and Hugging Face's code for nearly every model since. Each step is a pass over the whole tensor with its
//! own temporary: the half-rotated copy, the two products, and their sum. cos and sin are stored twice, `cat(freqs,
//! freqs)`, in a table of all positions; a step after a KV cache reads it from the cache's length on.

use std::hint::black_box;

use rope_core::Pairing;

use super::literature::{Literature, angles_f32, out_of_place};
use crate::cases::Element;
use crate::cases::workloads::Workload;

/// Four passes, three temporaries and a result.
pub const ROTATE_HALF: Literature = Literature {
    name: "rotate-half",
    summary: "x cos + rotate_half(x) sin in whole tensors, with three temporaries",
    source: "huggingface/transformers: apply_rotary_pos_emb; EleutherAI/gpt-neox",
    counting: "positions and pairs from 0; a step starts at the length of the KV cache",
    pairing: &[Pairing::Half],
    elements: &[Element::F32, Element::Bf16],
    partial: true,
    table: |_| 0,
    prepare: |case| {
        let workload = case.workload.rotating();
        let (dim, positions) = (workload.head_dim, workload.positions());
        let all = (0..=positions.iter().copied().max().unwrap_or(0)).collect();
        let angles: Vec<f32> = angles_f32(&workload, all).collect();
        let twice = |f: fn(f32) -> f32| -> Vec<f32> {
            angles
                .chunks(dim / 2)
                .flat_map(|row| row.iter().chain(row).map(move |&angle| f(angle)))
                .collect()
        };
        let (cos, sin) = (twice(f32::cos), twice(f32::sin));
        let [mut rotated, mut with_cos, mut with_sin] =
            [(); 3].map(|()| vec![0.0; workload.elements()]);
        out_of_place(case, move |x, output| {
            rotate_half(x, black_box(&mut rotated), dim);
            multiply(x, &cos, black_box(&mut with_cos), &positions, &workload);
            multiply(
                &rotated,
                &sin,
                black_box(&mut with_sin),
                &positions,
                &workload,
            );
            for ((y, a), b) in output.iter_mut().zip(&with_cos).zip(&with_sin) {
                *y = a + b;
            }
            Ok(())
        })
    },
};

/// Computes `cat(-x2, x1)`.
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

/// Computes `x * table[positions]`, the same for all heads of a token.
fn multiply(x: &[f32], table: &[f32], product: &mut [f32], positions: &[u32], workload: &Workload) {
    let dim = workload.head_dim;
    workload.each_head(|head| {
        let row = &table[positions[head.row] as usize * dim..][..dim];
        let (x, product) = (&x[head.at..][..dim], &mut product[head.at..][..dim]);
        for ((y, x), c) in product.iter_mut().zip(x).zip(row) {
            *y = x * c;
        }
    });
}
