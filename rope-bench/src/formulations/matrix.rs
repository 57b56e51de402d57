//! Matrices: the rotation of a head is a block-diagonal matrix, so multiply by it.
//!
//! Three forms: [`Dense`] multiplies by the whole `[d, d]` matrix, zeros and all; [`Blocks`] keeps only the 2 x 2
//! blocks; [`Sign`] spreads each pair over four values by a constant matrix of signs and weighs them.

use std::hint::black_box;

use anyhow::Result;
use ndarray::linalg::general_mat_mul;
use ndarray::{ArrayView2, ArrayViewMut2, ShapeBuilder};
use rope_core::Pairing;

use super::{About, Cost, Formulation, Runner, cos_sin_f32};
use crate::cases::{Case, Element};
use crate::oracle::{Angle, Arithmetic};
use crate::workloads::{Part, Workload};

/// Tables beyond this are not worth the wait.
const LARGEST_TABLE: usize = 1 << 30;

const ABOUT: About = About {
    summary: "",
    source: "",
    pairings: &[Pairing::Interleaved],
    elements: &[Element::F32],
    partial: false,
    threads: false,
    angle: Angle::F32,
    arithmetic: Arithmetic::F32,
    counting: "",
};

/// `R[context, d, d]`, a matrix product for each token.
#[derive(Clone, Copy, Debug)]
pub struct Dense;

impl Formulation for Dense {
    fn name(&self) -> String {
        "matrix/dense".into()
    }

    fn about(&self) -> About {
        About {
            summary: "a dense d x d matrix for each position, multiplied with all heads of the token (gemm)",
            source: "the paper's eq. 15 as tutorials write it: get_rotary_matrix(context_window, embedding_dim), bmm",
            counting: "positions from 0; the tutorials put the paper's 2(i-1)/d, meant for i from 1, into loops \
                       from 0, and rotate every pair too fast by base^(2/d): corrected here",
            ..ABOUT
        }
    }

    fn supports(&self, case: &Case) -> Result<(), String> {
        self.about().admits(case)?;
        let Workload { head_dim, .. } = case.workload;
        let bytes = 4 * case.workload.positions().len() * head_dim * head_dim;
        if bytes > LARGEST_TABLE {
            return Err(format!("its table would take {} MiB", bytes >> 20));
        }
        Ok(())
    }

    fn cost(&self, case: &Case) -> Cost {
        let Workload { head_dim, .. } = case.workload;
        let matrices = (4 * case.workload.positions().len() * head_dim * head_dim) as f64;
        let Cost { bytes, flops } = Cost::per_element(case, 2.0, 2.0 * head_dim as f64);
        Cost {
            bytes: bytes + matrices,
            flops,
        }
    }

    fn prepare(&self, case: &Case) -> Result<Box<dyn Runner>> {
        let workload = case.workload.clone();
        let dim = workload.head_dim;
        let mut table = vec![0.0; workload.positions().len() * dim * dim];
        for (index, (cos, sin)) in cos_sin_f32(&workload).enumerate() {
            let (row, i) = (index / (dim / 2), index % (dim / 2));
            let matrix = &mut table[row * dim * dim..][..dim * dim];
            matrix[2 * i * dim + 2 * i] = cos;
            matrix[2 * i * dim + 2 * i + 1] = -sin;
            matrix[(2 * i + 1) * dim + 2 * i] = sin;
            matrix[(2 * i + 1) * dim + 2 * i + 1] = cos;
        }
        let output = vec![0.0; workload.elements()];
        Ok(Box::new(DensePrepared {
            table,
            output,
            parts: workload.parts()?,
            shared: workload.starts.len() == 1,
        }))
    }
}

struct DensePrepared {
    table: Vec<f32>,
    output: Vec<f32>,
    parts: Vec<Part>,
    shared: bool,
}

impl Runner for DensePrepared {
    fn run(&mut self, bytes: &mut [u8], times: usize) -> Result<()> {
        let x: &[f32] = bytemuck::cast_slice(bytes);
        for _ in 0..times {
            let output = black_box(&mut self.output);
            for Part { range, layout } in &self.parts {
                let (shape, strides) = (layout.shape(), layout.strides());
                let dim = shape.head_dim;
                for sequence in 0..shape.batch {
                    for token in 0..shape.tokens {
                        let row = if self.shared {
                            token
                        } else {
                            sequence * shape.tokens + token
                        };
                        let at = range.start + sequence * strides.batch + token * strides.token;
                        let heads = (shape.heads, dim).strides((strides.head, 1));
                        let matrix = ArrayView2::from_shape(
                            (dim, dim),
                            &self.table[row * dim * dim..][..dim * dim],
                        )?;
                        let x = ArrayView2::from_shape(heads, &x[at..])?;
                        let mut y = ArrayViewMut2::from_shape(heads, &mut output[at..])?;
                        general_mat_mul(1.0, &x, &matrix.t(), 0.0, &mut y);
                    }
                }
            }
        }
        Ok(())
    }

    fn store(&self, bytes: &mut [u8]) -> Result<()> {
        bytes.copy_from_slice(bytemuck::cast_slice(&self.output));
        Ok(())
    }
}

/// `freqs[row, pair, 2, 2]`: each pair times its block.
#[derive(Clone, Copy, Debug)]
pub struct Blocks;

impl Formulation for Blocks {
    fn name(&self) -> String {
        "matrix/blocks".into()
    }

    fn about(&self) -> About {
        About {
            summary: "the 2 x 2 blocks of the matrix, one for each pair of each position",
            source: "black-forest-labs/flux, math.py: rope, apply_rope",
            counting: "positions and pairs from 0",
            ..ABOUT
        }
    }

    fn cost(&self, case: &Case) -> Cost {
        Cost::per_element(case, 2.0, 3.0)
    }

    fn prepare(&self, case: &Case) -> Result<Box<dyn Runner>> {
        let workload = case.workload.clone();
        let table = cos_sin_f32(&workload)
            .map(|(cos, sin)| [[cos, -sin], [sin, cos]])
            .collect();
        Ok(Box::new(BlocksPrepared {
            table,
            output: vec![[0.0; 2]; workload.elements() / 2],
            workload,
        }))
    }
}

struct BlocksPrepared {
    table: Vec<[[f32; 2]; 2]>,
    output: Vec<[f32; 2]>,
    workload: Workload,
}

impl Runner for BlocksPrepared {
    fn run(&mut self, bytes: &mut [u8], times: usize) -> Result<()> {
        let pairs = self.workload.head_dim / 2;
        let x: &[[f32; 2]] = bytemuck::cast_slice(bytes);
        for _ in 0..times {
            let output = black_box(&mut self.output);
            self.workload.each_head(|head| {
                let at = head.at / 2;
                let row = &self.table[head.row * pairs..][..pairs];
                for ((y, x), block) in output[at..][..pairs]
                    .iter_mut()
                    .zip(&x[at..][..pairs])
                    .zip(row)
                {
                    *y = block.map(|[a, b]| a * x[0] + b * x[1]);
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

/// `(pairs x signs[2, 4]) * freq_complex[row, d, 2]`, summed over the last dimension.
#[derive(Clone, Copy, Debug)]
pub struct Sign;

/// Spreads (x, y) to (x, -y) for the first member and (y, x) for the second, in burn's order.
const SIGNS: [f32; 8] = [1.0, 0.0, 0.0, 1.0, 0.0, -1.0, 1.0, 0.0];

impl Formulation for Sign {
    fn name(&self) -> String {
        "matrix/sign".into()
    }

    fn about(&self) -> About {
        About {
            summary: "pairs times a 2 x 4 matrix of signs, weighed by cos and sin, summed in pairs",
            source: "tracel-ai/burn, rope_encoding.rs: RotaryEncoding",
            counting: "positions and pairs from 0, with a start for a KV cache",
            ..ABOUT
        }
    }

    fn cost(&self, case: &Case) -> Cost {
        // The product of matrices: 1 read, 2 written, 6 operations for each of 2 values an element (its zeros are
        // multiplied too: 2 products and a sum each); the weights: 2 read, 2 written; the sums: 2 read, 1 written.
        Cost::per_element(case, 10.0, 6.0 + 2.0 + 1.0)
    }

    fn prepare(&self, case: &Case) -> Result<Box<dyn Runner>> {
        let workload = case.workload.clone();
        let table = cos_sin_f32(&workload)
            .flat_map(|(cos, sin)| [cos, sin, cos, sin])
            .collect();
        let elements = workload.elements();
        Ok(Box::new(SignPrepared {
            table,
            spread: vec![0.0; 2 * elements],
            output: vec![0.0; elements],
            workload,
        }))
    }
}

struct SignPrepared {
    table: Vec<f32>,
    spread: Vec<f32>,
    output: Vec<f32>,
    workload: Workload,
}

impl Runner for SignPrepared {
    fn run(&mut self, bytes: &mut [u8], times: usize) -> Result<()> {
        let row = 2 * self.workload.head_dim;
        let x: &[f32] = bytemuck::cast_slice(bytes);
        let pairs = x.len() / 2;
        let signs = ArrayView2::from_shape((2, 4), &SIGNS)?;
        for _ in 0..times {
            let x = ArrayView2::from_shape((pairs, 2), x)?;
            let mut spread = ArrayViewMut2::from_shape((pairs, 4), black_box(&mut self.spread))?;
            general_mat_mul(1.0, &x, &signs, 0.0, &mut spread);
            self.workload.each_head(|head| {
                let weights = &self.table[head.row * row..][..row];
                for (x, weight) in self.spread[2 * head.at..][..row].iter_mut().zip(weights) {
                    *x *= weight;
                }
            });
            for (y, [a, b]) in black_box(&mut self.output)
                .iter_mut()
                .zip(self.spread.as_chunks().0)
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
