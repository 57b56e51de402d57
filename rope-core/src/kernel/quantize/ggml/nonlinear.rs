//! IQ4_NL: the code of a channel is the index of the value nearest to `x (-127 / m)` in a table of 16, and `d` has the
//! least squared error, from two sums over the channels in order.
//!
//! The order of the sums makes each lane a block. A vector then adds one channel of as many blocks, and the sums of a
//! block never cross lanes. (With channels as lanes, each block waited for 64 additions of one lane, and read its 32
//! values from a table by scalar loads.)
//!
//! Vector instructions for one channel of 16 blocks with AVX-512, and of 8 with AVX2:
//!
//! | | AVX-512 | AVX2 |
//! |---|---|---|
//! | four channels each of some blocks in a vector; four vectors transposed | 4 + 2 | 2 + 2 |
//! | the first of the largest magnitude; a store and a load | 6 | 6 |
//! | product, code by four comparisons, value | 14 | 17 |
//! | terms and sums | 6 | 6 |
//! | codes to words | 1.5 | 2 |
//! | per value | 2.1 | 4.4 |
//!
//! Fifteen comparisons and as many additions would be 1.9 and 3.8 per value, without the table.

use core::slice;

use bytemuck::{Zeroable, cast_slice, cast_slice_mut, must_cast};

use super::block::{BlockCodes, VALUES, first_largest, pack, unpack, values_at};
use crate::kernel::quantize::{RUN, halves};
use crate::kernel::values::VectorPairs;
use crate::simd::convert::{f16_to_f32, f32_to_f16};
use crate::simd::{NONLINEAR, Scalar, SimdQuant};

/// The IQ4_NL format.
pub(super) struct Nonlinear;

/// The most lanes of a vector.
const MOST_LANES: usize = 16;

/// The least magnitude: blocks below it are zeros.
const LEAST: f32 = 1e-15;

/// Returns the factor of channels, from the first value of the largest magnitude.
#[inline(always)]
fn factor(largest: f32) -> f32 {
    1.0 / (largest / f32::from(NONLINEAR[0]))
}

/// Returns `d`, from the sums of the products of channels and values, and of the squares of values.
#[inline(always)]
fn distance(dot: f32, square: f32) -> f32 {
    if square > 0.0 { dot / square } else { 0.0 }
}

/// Returns `d` as IEEE binary16. A NaN is that of x86, with its sign, on every machine.
#[inline(always)]
fn half(distance: f32, half: u16) -> u16 {
    const NAN: u16 = 0xfe00;
    if distance.is_nan() { NAN } else { half }
}

impl BlockCodes for Nonlinear {
    const BYTES: usize = 18;

    #[inline(always)]
    fn define(x: &[f32; VALUES], block: &mut [u8]) {
        let largest = first_largest(x);
        if largest.abs() < LEAST {
            block.fill(0);
            return;
        }
        let by = factor(largest);
        let mut codes = [0; VALUES];
        let (mut dot, mut square) = (0.0, 0.0);
        for (x, code) in x.iter().zip(&mut codes) {
            let value;
            ([*code], value) = Scalar.nearest_nonlinear(x * by);
            let weighted = x * x * value;
            dot += weighted * x;
            square += weighted * value;
        }
        let d = distance(dot, square);
        block[..2].copy_from_slice(&half(d, f32_to_f16(d)).to_le_bytes());
        pack::<4, _>(Scalar, &codes, &mut block[2..]);
    }

    #[inline(always)]
    fn encode<S: SimdQuant>(s: S, source: VectorPairs<'_, S>, blocks: &mut [u8]) {
        let pairs = const { VALUES / 2 / S::LANES };
        let mut rows = [[0.0; VALUES]; MOST_LANES];
        let mut channels = [[s.splat(0.0); 4]; VALUES / 4];
        for (run, blocks) in blocks.chunks_mut(RUN * Self::BYTES).enumerate() {
            let (mut largest, mut distances) = ([0.0; RUN], [0.0; RUN]);
            let lanes = largest
                .chunks_exact_mut(S::LANES)
                .zip(distances.chunks_exact_mut(S::LANES));
            let groups = blocks.chunks_mut(S::LANES * Self::BYTES).zip(lanes);
            for (group, (blocks, (largest, distances))) in groups.enumerate() {
                let first = run * RUN + group * S::LANES;
                let blocks = blocks.chunks_exact_mut(Self::BYTES);
                for (index, row) in rows[..blocks.len()].iter_mut().enumerate() {
                    *row = values_at(s, source, (first + index) * pairs);
                }
                let codes = Self::encode_lanes(s, &rows, &mut channels, largest, distances);
                let codes: &[[u8; 16]] = cast_slice(&codes);
                for (lane, block) in blocks.enumerate() {
                    let codes = codes[lane % 4 * (S::LANES / 4) + lane / 4];
                    block[2..].copy_from_slice(&codes);
                }
            }
            let halves = halves(s, &distances);
            for (index, block) in blocks.chunks_exact_mut(Self::BYTES).enumerate() {
                if largest[index].abs() < LEAST {
                    block.fill(0);
                } else {
                    let half = half(distances[index], halves[index]);
                    block[..2].copy_from_slice(&half.to_le_bytes());
                }
            }
        }
    }

    #[inline(always)]
    fn decode(block: &[u8], values: &mut [f32; VALUES]) {
        let d = f16_to_f32(u16::from_le_bytes([block[0], block[1]]));
        // Each product once.
        let products = NONLINEAR.map(|value| f32::from(value) * d);
        for (x, code) in values.iter_mut().zip(unpack::<4>(&block[2..])) {
            *x = products[usize::from(code & 15)];
        }
    }
}

impl Nonlinear {
    /// Computes the codes of one block per lane, four channels per row of `channels`; and per block the first value of
    /// the largest magnitude, and its `d`.
    ///
    /// Each vector of codes holds every fourth block.
    #[inline(always)]
    fn encode_lanes<S: SimdQuant>(
        s: S,
        rows: &[[f32; VALUES]; MOST_LANES],
        channels: &mut [[S::F32; 4]; VALUES / 4],
        first: &mut [f32],
        distances: &mut [f32],
    ) -> [S::Chunk<f32>; 4] {
        let zero = s.splat(0.0);
        let mut largest = [zero; 2];
        for (four, channels) in channels.iter_mut().enumerate() {
            for (row, vector) in channels.iter_mut().enumerate() {
                // Four lanes from each block.
                let mut lanes = S::Chunk::<f32>::zeroed();
                let quarters = cast_slice_mut(slice::from_mut(&mut lanes)).as_chunks_mut();
                for (quarter, lanes) in quarters.0.iter_mut().enumerate() {
                    *lanes = rows[4 * quarter + row].as_chunks::<4>().0[four];
                }
                *vector = s.load_f32(lanes);
            }
            *channels = s.transpose(*channels);
            for x in channels {
                largest = s.first_largest(largest, *x);
            }
        }
        let largest = s.store_f32(largest[1]);
        first.copy_from_slice(cast_slice(slice::from_ref(&largest)));
        let by = s.load_f32(S::map(largest, factor));
        let mut words = [S::Chunk::<u32>::zeroed(); 4];
        let (mut dot, mut square) = (zero, zero);
        for (half, channels) in channels.as_chunks::<4>().0.iter().enumerate() {
            for (channels, words) in channels.iter().zip(&mut words) {
                let mut word = S::Chunk::<u32>::zeroed();
                for (place, x) in channels.iter().enumerate() {
                    let (codes, value) = s.nearest_nonlinear(s.mul(*x, by));
                    let weighted = s.mul(s.mul(*x, *x), value);
                    dot = s.add(dot, s.mul(weighted, *x));
                    square = s.add(square, s.mul(weighted, value));
                    let codes: &[u32] = cast_slice(slice::from_ref(&codes));
                    let word: &mut [u32] = cast_slice_mut(slice::from_mut(&mut word));
                    for (word, code) in word.iter_mut().zip(codes) {
                        *word |= code << (8 * place);
                    }
                }
                let words: &mut [u32] = cast_slice_mut(slice::from_mut(words));
                let word: &[u32] = cast_slice(slice::from_ref(&word));
                for (words, word) in words.iter_mut().zip(word) {
                    *words |= word << (4 * half);
                }
            }
        }
        let sums = [s.store_f32(dot), s.store_f32(square)];
        let (dots, squares) = cast_slice::<_, f32>(&sums).split_at(S::LANES);
        for (d, (dot, square)) in distances.iter_mut().zip(dots.iter().zip(squares)) {
            *d = distance(*dot, *square);
        }
        let [a, b, c, d] = words.map(|words| s.load_f32(must_cast(S::map(words, u32::to_le))));
        let [a, b, c, d] = s.transpose([a, b, c, d]);
        [
            s.store_f32(a),
            s.store_f32(b),
            s.store_f32(c),
            s.store_f32(d),
        ]
    }
}
