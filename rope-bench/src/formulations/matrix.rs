//! Matrices: the rotation of a head is a product with a block-diagonal matrix.
//!
//! Three forms: [`DENSE`] multiplies by the whole `[d, d]` matrix with its zeros; [`BLOCKS`] keeps only the 2 x 2
//! blocks; [`SIGN`] spreads each pair over four values by a constant matrix of signs and weighs them.

use std::hint::black_box;

use ndarray::linalg::general_mat_mul;
use ndarray::{ArrayView2, ArrayViewMut2, ShapeBuilder};
use rope_core::Pairing;

use super::literature::{Literature, by_heads, cos_sin_f32, out_of_place};
use crate::cases::Element;
use crate::cases::workloads::{Part, Workload};

/// `R[context, d, d]`, a matrix product per token.
pub const DENSE: Literature = Literature {
    name: "matrix/dense",
    summary: "a dense d x d matrix for each position, multiplied with all heads of the token (gemm)",
    source: "the paper's eq. 15 as tutorials write it: get_rotary_matrix(context_window, embedding_dim), bmm",
    counting: "positions from 0; the tutorials put the paper's 2(i-1)/d, meant for i from 1, into loops \
               from 0, and rotate every pair too fast by base^(2/d): corrected here",
    pairing: &[Pairing::Interleaved],
    elements: &[Element::F32],
    partial: false,
    table: |workload| 4 * workload.positions().len() * workload.head_dim * workload.head_dim,
    prepare: |case| {
        let workload = &case.workload;
        let dim = workload.head_dim;
        let mut table = vec![0.0; workload.positions().len() * dim * dim];
        for (index, (cos, sin)) in cos_sin_f32(workload).enumerate() {
            let (row, i) = (index / (dim / 2), index % (dim / 2));
            let matrix = &mut table[row * dim * dim..][..dim * dim];
            matrix[2 * i * dim + 2 * i] = cos;
            matrix[2 * i * dim + 2 * i + 1] = -sin;
            matrix[(2 * i + 1) * dim + 2 * i] = sin;
            matrix[(2 * i + 1) * dim + 2 * i + 1] = cos;
        }
        let (parts, shared) = (workload.parts()?, workload.starts.len() == 1);
        out_of_place(case, move |x, output| {
            for Part { range, layout } in &parts {
                let (shape, strides) = (layout.shape(), layout.strides());
                for token in 0..shape.batch * shape.tokens {
                    let (sequence, position) = (token / shape.tokens, token % shape.tokens);
                    let row = if shared { position } else { token };
                    let at = range.start + sequence * strides.batch + position * strides.token;
                    let heads = (shape.heads, dim).strides((strides.head, 1));
                    let matrix = &table[row * dim * dim..][..dim * dim];
                    let matrix = ArrayView2::from_shape((dim, dim), matrix)?;
                    let x = ArrayView2::from_shape(heads, &x[at..])?;
                    let mut y = ArrayViewMut2::from_shape(heads, &mut output[at..])?;
                    general_mat_mul(1.0, &x, &matrix.t(), 0.0, &mut y);
                }
            }
            Ok(())
        })
    },
};

/// `freqs[row, pair, 2, 2]`: each pair times its block.
pub const BLOCKS: Literature = Literature {
    name: "matrix/blocks",
    summary: "the 2 x 2 blocks of the matrix, one for each pair of each position",
    source: "black-forest-labs/flux, math.py: rope, apply_rope",
    counting: "positions and pairs from 0",
    table: |_| 0,
    prepare: |case| {
        let blocks = cos_sin_f32(&case.workload).map(|(cos, sin)| [[cos, -sin], [sin, cos]]);
        by_heads(case, blocks.collect(), |row, x, y| {
            let (y, _) = y.as_chunks_mut();
            for ((y, x), block) in y.iter_mut().zip(x.as_chunks::<2>().0).zip(row) {
                *y = block.map(|[a, b]| a * x[0] + b * x[1]);
            }
        })
    },
    ..DENSE
};

/// Spreads (x, y) to (x, -y) for the first member and (y, x) for the second, in burn's order.
const SIGNS: [f32; 8] = [1.0, 0.0, 0.0, 1.0, 0.0, -1.0, 1.0, 0.0];

/// `(pairs x signs[2, 4]) * freq_complex[row, d, 2]`, summed over the last dimension.
pub const SIGN: Literature = Literature {
    name: "matrix/sign",
    summary: "pairs times a 2 x 4 matrix of signs, weighed by cos and sin, summed in pairs",
    source: "tracel-ai/burn, rope_encoding.rs: RotaryEncoding",
    counting: "positions and pairs from 0, with a start for a KV cache",
    table: |_| 0,
    prepare: |case| {
        let workload: Workload = case.workload.clone();
        let table: Vec<f32> = cos_sin_f32(&workload)
            .flat_map(|(cos, sin)| [cos, sin, cos, sin])
            .collect();
        let row = 2 * workload.head_dim;
        let mut spread = vec![0.0; 2 * workload.elements()];
        out_of_place(case, move |x, output| {
            let pairs = x.len() / 2;
            let signs = ArrayView2::from_shape((2, 4), &SIGNS)?;
            let x = ArrayView2::from_shape((pairs, 2), x)?;
            let mut product = ArrayViewMut2::from_shape((pairs, 4), black_box(&mut spread[..]))?;
            general_mat_mul(1.0, &x, &signs, 0.0, &mut product);
            workload.each_head(|head| {
                let weights = &table[head.row * row..][..row];
                for (x, weight) in spread[2 * head.at..][..row].iter_mut().zip(weights) {
                    *x *= weight;
                }
            });
            for (y, [a, b]) in output.iter_mut().zip(spread.as_chunks().0) {
                *y = a + b;
            }
            Ok(())
        })
    },
    ..DENSE
};
