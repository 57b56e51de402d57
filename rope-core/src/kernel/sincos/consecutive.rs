//! Rows of consecutive positions, by the addition theorem: for a table or a prompt.
//!
//! With the cos and sin of an anchor `a` and of an offset `b` in f64,
//!
//! `cos(a + b) = cos a cos b - sin a sin b`, `sin(a + b) = sin a cos b + cos a sin b`
//!
//! take four operations where [`sincos`](super) takes 37. An anchor serves [`SPAN`] rows; the offsets `0..`[`SPAN`] of
//! a chunk serve all anchors. A value that could round to two f32 numbers within [`ERROR`] is computed again in the
//! usual way. The rows are therefore those of [`MakeRows`](super::MakeRows), bit for bit.
//!
//! # Error
//!
//! Errors are absolute, in 2^-53 times the factor. Of the cos and sin of an angle, one is above 0.707 and within 7
//! units of the exact value, the other below 0.707 and within 60 (see [`sincos`](super)).
//!
//! | source | |
//! |---|---|
//! | cos and sin of `b` times the errors of the anchor: `60 + 0.707 * 7` at most | 65 |
//! | the same of the offset | 65 |
//! | rounding of two products and a sum | 2 |
//! | rounding of the ends of the interval | 2 |
//! | sum | 134 |
//! | doubted within ([`ERROR`]) | 160 |
//!
//! About one lane in 2^15 is in doubt, but more if an angle is small: a slow chunk takes the usual way.

use core::slice::from_ref;

use super::chunk::{FrequencyChunk, power_of_two};
use super::{AxisPosition, OneAxis, RowAngle, SinCosPolynomials, SinCosVectors, again, make};
use crate::simd::{InstructionSet, Kernel, SimdF64};

/// The fewest rows for which this pays: 16 take 1.07 times as long as the usual way (AVX-512), 32 take 0.83 times.
pub(crate) const LEAST: usize = 32;

/// Rows that share an anchor.
const SPAN: usize = 8;
/// Chunks whose offsets are kept at a time: 8 KiB of stack.
const KEPT: usize = 8;
/// Rows that are completed before the next: 256 KiB with 64 pairs, which stay in a second-level cache during all groups
/// of kept chunks.
const BLOCK: usize = 512;
/// The error bound of a value with factor 1.
pub(super) const ERROR: f64 = 160.0 * power_of_two(-53);
/// The least rotation of every pair of a chunk per position, in quarter turns. With less than 2^-24, sines stay below
/// 2^-14 for a thousand positions, and one in a hundred of them is in doubt.
const LEAST_TURN: f64 = power_of_two(-24);

/// The generation of rows `[cos of all pairs | sin of all pairs]` of consecutive positions, the same on all axes.
#[derive(Debug)]
pub(crate) struct MakeConsecutive<'a> {
    /// The chunks. All places are used: the pairs of a row are a multiple of eight.
    pub(crate) chunks: &'a [FrequencyChunk],
    /// The [`FrequencyChunk::reach`] of the chunks.
    pub(crate) reach: f64,
    pub(crate) polynomials: &'a SinCosPolynomials,
    pub(crate) first: i64,
    pub(crate) rows: &'a mut [f32],
}

impl Kernel for MakeConsecutive<'_> {
    #[inline(always)]
    fn run<S: InstructionSet>(self, s: S) {
        let Self {
            chunks,
            reach,
            polynomials,
            first,
            rows,
        } = self;
        if chunks.is_empty() {
            return;
        }
        let reach = polynomials.reach(reach);
        let (unit, vectors) = (SinCosPolynomials::new(1.0).splat(s), polynomials.splat(s));
        let width = chunks.len();
        let (values, _) = rows.as_chunks_mut::<8>();
        let mut offsets = Offsets::NONE;
        let mut at = first;
        for tokens in values.chunks_mut(2 * width * BLOCK) {
            for (kept, chunks) in chunks.chunks(KEPT).enumerate() {
                offsets.set(s, &unit, chunks);
                let mut at = at;
                for rows in tokens.chunks_mut(2 * width * SPAN) {
                    let offsets = offsets.cos_sin.iter().zip(&offsets.fast);
                    for (index, (chunk, (cos_sin, fast))) in chunks.iter().zip(offsets).enumerate()
                    {
                        let group = Group {
                            chunk,
                            index: kept * KEPT + index,
                            width,
                            polynomials,
                            first: at,
                            reach,
                        };
                        if *fast {
                            group.by_addition(s, &vectors, cos_sin, rows);
                        } else {
                            group.one_by_one(s, &vectors, rows);
                        }
                    }
                    at = at.wrapping_add(SPAN as i64);
                }
            }
            at = at.wrapping_add(BLOCK as i64);
        }
    }
}

/// cos and sin of the offsets of chunks. Aligned to cache lines, because a load across two reads both.
#[repr(align(64))]
struct Offsets {
    cos_sin: [[CosSin; SPAN]; KEPT],
    /// True if all pairs of a chunk rotate by at least [`LEAST_TURN`].
    fast: [bool; KEPT],
}

/// cos and sin of the pairs of a chunk.
type CosSin = [[f64; 8]; 2];

impl Offsets {
    const NONE: Self = Offsets {
        cos_sin: [[[[0.0; 8]; 2]; SPAN]; KEPT],
        fast: [false; KEPT],
    };

    #[inline(always)]
    fn set<S: SimdF64>(&mut self, s: S, unit: &SinCosVectors<S>, chunks: &[FrequencyChunk]) {
        for (fast, chunk) in self.fast.iter_mut().zip(chunks) {
            *fast = chunk.high.iter().all(|turn| turn.abs() >= LEAST_TURN);
        }
        // One loop over chunks and offsets: a separate loop over the offsets of a chunk is unrolled eight times, 2 KB.
        for (index, [cos, sin]) in self.cos_sin.as_flattened_mut().iter_mut().enumerate() {
            let Some(chunk) = chunks.get(index / SPAN) else {
                break;
            };
            let x = s.splat_f64((index % SPAN) as f64);
            for part in 0..8 / S::F64_LANES {
                let (high, low) = (s.load_f64(&chunk.high, part), s.load_f64(&chunk.low, part));
                let (c, n, _) = unit.at(s, x, high, low);
                s.store_f64(c, cos, part);
                s.store_f64(n, sin, part);
            }
        }
    }
}

/// A chunk of the rows of an anchor.
#[derive(Clone, Copy)]
struct Group<'a> {
    chunk: &'a FrequencyChunk,
    /// Its index among the cosines of a row, and among the sines.
    index: usize,
    /// Chunks of cosines in a row.
    width: usize,
    polynomials: &'a SinCosPolynomials,
    first: i64,
    reach: f64,
}

impl Group<'_> {
    /// Returns the places of the cosines and of the sines in a row.
    #[inline(always)]
    fn places(self, row: &mut [[f32; 8]]) -> [&mut [f32; 8]; 2] {
        let (cos, sin) = row.split_at_mut(self.width);
        [&mut cos[self.index], &mut sin[self.index]]
    }

    #[inline(always)]
    fn by_addition<S: SimdF64>(
        self,
        s: S,
        vectors: &SinCosVectors<S>,
        offsets: &[CosSin; SPAN],
        rows: &mut [[f32; 8]],
    ) {
        let error = ERROR * self.polynomials.factor.abs();
        let (below, minus_width) = (s.splat_f64(-error), s.splat_f64(-2.0 * error));
        let x = s.splat_f64(AxisPosition::Integer(self.first).within(self.reach));
        let mut doubt = 0;
        for part in 0..8 / S::F64_LANES {
            let high = s.load_f64(&self.chunk.high, part);
            let low = s.load_f64(&self.chunk.low, part);
            let (cos_a, sin_a, _) = vectors.at(s, x, high, low);
            let minus_sin_a = s.sub_f64(s.splat_f64(0.0), sin_a);
            let mut rows = &mut *rows;
            for [cos_b, sin_b] in offsets {
                // Splitting costs a subtraction. Iterators over chunks divide, and multiply if zipped.
                let Some((row, rest)) = rows.split_at_mut_checked(2 * self.width) else {
                    break;
                };
                rows = rest;
                let [cos, sin] = self.places(row);
                let (cos_b, sin_b) = (s.load_f64(cos_b, part), s.load_f64(sin_b, part));
                // The lower ends of the intervals; the upper ends follow from them.
                let c = s.mul_add(cos_a, cos_b, s.mul_add(minus_sin_a, sin_b, below));
                let n = s.mul_add(sin_a, cos_b, s.mul_add(cos_a, sin_b, below));
                s.store_as_f32(c, cos, part);
                s.store_as_f32(n, sin, part);
                let apart = s.differ_as_f32(c, s.sub_f64(c, minus_width))
                    | s.differ_as_f32(n, s.sub_f64(n, minus_width));
                doubt |= apart << (part * S::F64_LANES);
            }
        }
        if doubt != 0 {
            self.again(doubt, rows);
        }
    }

    /// Computes the rows as [`MakeRows`](super::MakeRows) does.
    #[inline(always)]
    fn one_by_one<S: SimdF64>(self, s: S, vectors: &SinCosVectors<S>, rows: &mut [[f32; 8]]) {
        let mut doubt = false;
        for (b, row) in rows.chunks_exact_mut(2 * self.width).enumerate() {
            let at = AxisPosition::Integer(self.first.wrapping_add(b as i64));
            let [cos, sin] = self.places(row);
            let x = [at.within(self.reach), 0.0, 0.0, 0.0];
            doubt |= make(s, OneAxis, from_ref(self.chunk), vectors, &x, cos, sin);
        }
        if doubt {
            self.again(u32::MAX, rows);
        }
    }

    /// Computes the lanes in doubt again.
    #[cold]
    #[inline(never)]
    fn again(self, doubt: u32, rows: &mut [[f32; 8]]) {
        for (b, row) in rows.chunks_exact_mut(2 * self.width).enumerate() {
            let at = AxisPosition::Integer(self.first.wrapping_add(b as i64));
            let [cos, sin] = self.places(row);
            let x = [at.within(self.reach); 4];
            for lane in (0..8).filter(|lane| doubt >> lane & 1 != 0) {
                let chunk = from_ref(self.chunk);
                (cos[lane], sin[lane]) =
                    again(RowAngle::Exact, chunk, lane, self.polynomials, &[at; 4], &x);
            }
        }
    }
}
