//! ggml's blocks of 4 and 5 bits: their definitions, one block at a time in plain code, and the vector code with the
//! same bits.
//!
//! | format | the f16 before the codes | code, in f32, its fraction dropped | value |
//! |---|---|---|---|
//! | Q4_0, Q5_0 | d = m / -8, m / -16 | `x (1 / d) + 8.5`, 16.5, at most 15, 31 | `(code - 8) d`, 16 |
//! | Q4_1, Q5_1 | d = (max - min) / 15, 31; min | `(x - min) (1 / d) + 0.5`, at most 15, 31 | `code d + min` |
//! | IQ4_NL | d of the least squares | the place of the nearest to `x (-127 / m)` in a table | `d table[code]` |
//!
//! `m` is the first value of the largest magnitude. Codes use the `d` before its rounding to f16. The scalar backend
//! runs the definition. The others run it for blocks whose bits depend on the order of their channels: if a zero is the
//! smallest value. In Q4_0 and Q5_0 the largest magnitude has both signs in several of a hundred blocks of bf16; only
//! `d` comes from the definition then. IQ4_NL ([`nonlinear`]) processes channels in order everywhere.

mod block;
mod nonlinear;

use core::hint::black_box;
use core::marker::PhantomData;

use block::{BlockCodes, VALUES, first_largest, pack, unpack, values_at};
use nonlinear::Nonlinear;

use super::{BlockFormat, RUN, halves};
use crate::kernel::values::{Values, VectorPairs};
use crate::simd::convert::{f16_to_f32, f32_to_f16};
use crate::simd::{InstructionSet, Kernel, Scalar, SimdQuant};

pub(super) static Q4_0: BlockFormat = format::<LinearCodes<4, false>>("q4_0");
pub(super) static Q4_1: BlockFormat = format::<LinearCodes<4, true>>("q4_1");
pub(super) static Q5_0: BlockFormat = format::<LinearCodes<5, false>>("q5_0");
pub(super) static Q5_1: BlockFormat = format::<LinearCodes<5, true>>("q5_1");
pub(super) static IQ4_NL: BlockFormat = format::<Nonlinear>("iq4_nl");

const fn format<B: BlockCodes>(name: &'static str) -> BlockFormat {
    BlockFormat {
        name,
        values: VALUES,
        bytes: B::BYTES,
        encode: |proof, source, target| {
            debug_assert!(source.len().is_multiple_of(VALUES));
            proof.run(EncodeBlocks::<B> {
                source,
                target,
                format: PhantomData,
            });
        },
        decode: |proof, source, target| {
            debug_assert!(source.len().is_multiple_of(B::BYTES));
            proof.run(DecodeBlocks::<B> {
                source,
                target,
                format: PhantomData,
            });
        },
    }
}

/// The parameters of a block, computed before its codes.
#[derive(Clone, Copy)]
struct BlockScale {
    /// The smallest and the largest value.
    bounds: [f32; 2],
    /// The factor of channels.
    by: f32,
    /// The distance and the smallest value as IEEE binary16.
    halves: [u16; 2],
}

struct EncodeBlocks<'a, B> {
    source: Values<'a>,
    target: &'a mut [u8],
    format: PhantomData<B>,
}

impl<B: BlockCodes> Kernel for EncodeBlocks<'_, B> {
    #[inline(always)]
    fn run<S: InstructionSet>(self, s: S) {
        let len = self.source.len() / VALUES * B::BYTES;
        if const { S::LANES == 1 } {
            for (index, block) in self.target[..len].chunks_exact_mut(B::BYTES).enumerate() {
                let mut x = [0.0; VALUES];
                let start = index * VALUES;
                self.source.part(start..start + VALUES).widen(s, &mut x);
                B::define(&x, block);
            }
            return;
        }
        let source = self.source.pairs::<S>();
        B::encode(s, source, &mut self.target[..len]);
    }
}

/// Runs the definition, outside the loop of a kernel.
#[cold]
#[inline(never)]
fn defined<B: BlockCodes>(x: &[f32; VALUES], block: &mut [u8]) {
    B::define(x, block);
}

struct DecodeBlocks<'a, B> {
    source: &'a [u8],
    target: &'a mut [f32],
    format: PhantomData<B>,
}

impl<B: BlockCodes> Kernel for DecodeBlocks<'_, B> {
    #[inline(always)]
    fn run<S: InstructionSet>(self, _: S) {
        // The compiler vectorizes it.
        let values = self.target.as_chunks_mut::<VALUES>().0;
        for (block, values) in self.source.chunks_exact(B::BYTES).zip(values) {
            B::decode(block, values);
            // Without this the compiler would process 16 blocks at once and then sort their values: eight times the
            // code, and with AVX-512 up to three times as long.
            black_box(());
        }
    }
}

/// Codes of `BITS` bits at equal distances: around zero, or above the smallest value of the block (`OFFSET`).
struct LinearCodes<const BITS: u32, const OFFSET: bool>;

impl<const BITS: u32, const OFFSET: bool> LinearCodes<BITS, OFFSET> {
    /// The largest code.
    const MOST: u8 = (1 << BITS) - 1;
    /// The code of zero, if codes are around zero.
    const ZERO: i8 = if OFFSET { 0 } else { 1 << (BITS - 1) };
    /// The offset added before truncation.
    const ADDED: f32 = Self::ZERO as f32 + 0.5;
    /// Bytes of the numbers before the codes.
    const NUMBERS: usize = if OFFSET { 4 } else { 2 };

    /// The initial values of the search for the smallest and the largest value.
    const BOUNDS: [f32; 2] = if OFFSET {
        [f32::MAX, -f32::MAX]
    } else {
        [0.0; 2]
    };

    /// Returns the distance of codes, from the smallest and the largest value.
    #[inline(always)]
    fn distance([min, max]: [f32; 2]) -> f32 {
        if OFFSET {
            (max - min) / f32::from(Self::MOST)
        } else {
            largest([min, max]) / -f32::from(Self::ZERO)
        }
    }

    /// Encodes at most [`RUN`] blocks by vectors, from the values of block `first` on.
    #[inline(always)]
    fn encode_run<S: SimdQuant>(s: S, source: VectorPairs<'_, S>, first: usize, blocks: &mut [u8]) {
        let pairs = const { VALUES / 2 / S::LANES };
        let count = blocks.len() / Self::BYTES;
        let (mut smallest, mut largest) = ([0.0; RUN], [0.0; RUN]);
        let quads = smallest
            .chunks_exact_mut(4)
            .zip(largest.chunks_exact_mut(4));
        for (quad, (smallest, largest)) in quads.take(count.div_ceil(4)).enumerate() {
            let [mut min, mut max] = Self::BOUNDS.map(|bound| [s.splat(bound); 4]);
            for (index, (min, max)) in min.iter_mut().zip(&mut max).enumerate() {
                let block = 4 * quad + index;
                if block >= count {
                    break;
                }
                for pair in 0..pairs {
                    let [a, b] = source.load_in_any_order(s, (first + block) * pairs + pair);
                    *min = s.min_number(s.min_number(*min, a), b);
                    *max = s.max_number(s.max_number(*max, a), b);
                }
            }
            smallest.copy_from_slice(&s.extreme_lanes::<false>(min));
            largest.copy_from_slice(&s.extreme_lanes::<true>(max));
        }
        let (mut distances, mut factors) = ([0.0; RUN], [0.0; RUN]);
        for index in 0..RUN {
            let distance = Self::distance([smallest[index], largest[index]]);
            (distances[index], factors[index]) = (distance, reciprocal(distance));
        }
        let (half_distances, half_smallest) = (halves(s, &distances), halves(s, &smallest));
        for (index, block) in blocks.chunks_exact_mut(Self::BYTES).enumerate() {
            let scale = BlockScale {
                bounds: [smallest[index], largest[index]],
                by: factors[index],
                halves: [half_distances[index], half_smallest[index]],
            };
            let at = (first + index) * pairs;
            if !Self::encode_block(s, (source, at), scale, block) {
                defined::<Self>(&values_at(s, source, at), block);
            }
        }
    }

    /// Encodes a block by vectors, from a pair of them on; returns `false` if only the definition has its bits.
    #[inline(always)]
    fn encode_block<S: SimdQuant>(
        s: S,
        (source, at): (VectorPairs<'_, S>, usize),
        scale: BlockScale,
        block: &mut [u8],
    ) -> bool {
        let [min, max] = scale.bounds;
        if OFFSET && min == 0.0 {
            return false;
        }
        let (mut by, [mut half_distance, half_min]) = (scale.by, scale.halves);
        // `distance` is 0 then, and one integer comparison excludes nearly all other blocks.
        if !OFFSET && half_distance << 1 == 0 && has_both_signs([min, max]) {
            (by, half_distance) = Self::by_first(&values_at(s, source, at), max);
        }
        let by = s.splat(by);
        let [half_distance, half_min] = [half_distance, half_min].map(u16::to_le_bytes);
        block[..2].copy_from_slice(&half_distance);
        if OFFSET {
            block[2..4].copy_from_slice(&half_min);
        }
        let mut codes = [0; VALUES];
        let chunks = S::chunks_mut(&mut codes).as_chunks_mut::<2>().0;
        for (pair, codes) in chunks.iter_mut().enumerate() {
            let pair = source.load(s, at + pair);
            for (codes, x) in codes.iter_mut().zip(pair) {
                let from_min = if OFFSET { s.sub(x, s.splat(min)) } else { x };
                *codes = s.truncate(s.add(s.mul(from_min, by), s.splat(Self::ADDED)));
            }
        }
        for code in &mut codes {
            *code = (*code).min(i32::from(Self::MOST));
        }
        pack::<BITS, _>(s, &codes, &mut block[Self::NUMBERS..]);
        true
    }

    /// Returns the factor of channels, and the distance as IEEE binary16, by the first value of the largest magnitude.
    #[cold]
    #[inline(never)]
    fn by_first(x: &[f32; VALUES], largest: f32) -> (f32, u16) {
        let first = x.iter().find(|x| x.abs() == largest);
        let sign = if first == Some(&-largest) { 1.0 } else { -1.0 };
        let d = sign * largest / f32::from(Self::ZERO);
        (reciprocal(d), f32_to_f16(d))
    }
}

impl<const BITS: u32, const OFFSET: bool> BlockCodes for LinearCodes<BITS, OFFSET> {
    const BYTES: usize = Self::NUMBERS + VALUES * BITS as usize / 8;

    #[inline(always)]
    fn define(x: &[f32; VALUES], block: &mut [u8]) {
        let bounds = if OFFSET {
            bounds(x)
        } else {
            [first_largest(x); 2]
        };
        let (d, min) = (Self::distance(bounds), bounds[0]);
        let by = reciprocal(d);
        block[..2].copy_from_slice(&f32_to_f16(d).to_le_bytes());
        if OFFSET {
            block[2..4].copy_from_slice(&f32_to_f16(min).to_le_bytes());
        }
        let code = |x: f32| {
            let from_min = if OFFSET { x - min } else { x };
            // `as` converts NaN to 0.
            ((from_min * by + Self::ADDED) as u8).min(Self::MOST)
        };
        pack::<BITS, _>(
            Scalar,
            &x.map(code).map(i32::from),
            &mut block[Self::NUMBERS..],
        );
    }

    #[inline(always)]
    fn encode<S: SimdQuant>(s: S, source: VectorPairs<'_, S>, blocks: &mut [u8]) {
        for (run, blocks) in blocks.chunks_mut(RUN * Self::BYTES).enumerate() {
            Self::encode_run(s, source, run * RUN, blocks);
        }
    }

    #[inline(always)]
    fn decode(block: &[u8], values: &mut [f32; VALUES]) {
        let d = f16_at(block, 0);
        let codes = unpack::<BITS>(&block[Self::NUMBERS..]);
        if OFFSET {
            let min = f16_at(block, 2);
            for (x, code) in values.iter_mut().zip(codes) {
                *x = f32::from(code) * d + min;
            }
        } else {
            for (x, code) in values.iter_mut().zip(codes) {
                *x = f32::from(code.cast_signed() - Self::ZERO) * d;
            }
        }
    }
}

/// Returns the first of the smallest and of the largest values, ignoring NaNs, by integer comparison.
#[inline(always)]
fn bounds(x: &[f32; VALUES]) -> [f32; 2] {
    // Both zeros compare as 0.
    let order = |x: f32| {
        let magnitude = (x.to_bits() & 0x7fff_ffff).cast_signed();
        if x.is_sign_negative() {
            -magnitude
        } else {
            magnitude
        }
    };
    let infinity = f32::INFINITY.to_bits().cast_signed();
    let (mut min, mut max) = (f32::MAX, -f32::MAX);
    for &x in x {
        let place = order(x);
        if place.abs() > infinity {
            continue;
        }
        if place < order(min) {
            min = x;
        }
        if place > order(max) {
            max = x;
        }
    }
    [min, max]
}

/// Returns the value of the largest magnitude, from a smallest value of at most 0 and a largest one of at least 0; 0 if
/// both signs have it. The definition passes one value twice, which is returned.
#[inline(always)]
fn largest([min, max]: [f32; 2]) -> f32 {
    let low = if max < -min { min } else { 0.0 };
    if max > -min { max } else { low }
}

/// Returns true if the largest magnitude occurs with both signs, where the first one counts.
#[inline(always)]
fn has_both_signs([min, max]: [f32; 2]) -> bool {
    max == -min && max != 0.0
}

/// Returns the factor of channels. If it is not finite, every product is infinite or NaN, whose codes are 0 in ggml on
/// x86: all become NaN.
#[inline(always)]
fn reciprocal(d: f32) -> f32 {
    let by = 1.0 / d;
    if d == 0.0 {
        0.0
    } else if by.is_finite() {
        by
    } else {
        f32::NAN
    }
}

#[inline(always)]
fn f16_at(block: &[u8], start: usize) -> f32 {
    f16_to_f32(u16::from_le_bytes([block[start], block[start + 1]]))
}

#[cfg(test)]
mod tests {
    use std::vec;
    use std::vec::Vec;

    use super::*;
    use crate::Backend;
    use crate::simd::NONLINEAR;

    /// A kernel that encodes a block by vectors, and returns whether they have its bits.
    struct ByVectors<'a, const BITS: u32, const OFFSET: bool> {
        x: &'a [f32; VALUES],
        block: &'a mut [u8],
        known: &'a mut bool,
    }

    impl<const BITS: u32, const OFFSET: bool> Kernel for ByVectors<'_, BITS, OFFSET> {
        #[inline(always)]
        fn run<S: InstructionSet>(self, s: S) {
            // One lane runs the definition.
            if const { S::LANES == 1 } {
                LinearCodes::<BITS, OFFSET>::define(self.x, self.block);
                *self.known = !OFFSET || bounds(self.x)[0] != 0.0;
                return;
            }
            let [min, max] = bounds(self.x);
            let [least, most] = LinearCodes::<BITS, OFFSET>::BOUNDS;
            let bounds = [min.min(least), max.max(most)];
            let distance = LinearCodes::<BITS, OFFSET>::distance(bounds);
            let scale = BlockScale {
                bounds,
                by: reciprocal(distance),
                halves: [distance, bounds[0]].map(f32_to_f16),
            };
            let source = Values::F32(self.x).pairs::<S>();
            *self.known =
                LinearCodes::<BITS, OFFSET>::encode_block(s, (source, 0), scale, self.block);
        }
    }

    fn by_vectors<const BITS: u32, const OFFSET: bool>(x: &[f32; VALUES], known: bool) {
        let (mut defined, bytes) = ([0x5a; 24], LinearCodes::<BITS, OFFSET>::BYTES);
        LinearCodes::<BITS, OFFSET>::define(x, &mut defined[..bytes]);
        for proof in Backend::available().filter_map(Backend::prove) {
            let (mut block, mut found) = ([0x5a; 24], !known);
            proof.run(ByVectors::<BITS, OFFSET> {
                x,
                block: &mut block[..bytes],
                known: &mut found,
            });
            assert_eq!(found, known, "{}", proof.backend());
            assert!(!known || block == defined, "{}", proof.backend());
        }
    }

    /// The definition is the exception: a block that vectors leave to it takes many times as long.
    #[test]
    fn vectors_make_all_blocks_but_those_above_a_zero() {
        let mut x: [f32; VALUES] = core::array::from_fn(|i| i as f32 - 7.25);
        by_vectors::<4, false>(&x, true);
        by_vectors::<4, true>(&x, true);
        by_vectors::<5, false>(&x, true);
        by_vectors::<5, true>(&x, true);
        x[0] = -x[31];
        by_vectors::<4, false>(&x, true);
        by_vectors::<5, false>(&x, true);
        x = x.map(f32::abs);
        x[9] = 0.0;
        by_vectors::<4, true>(&x, false);
        by_vectors::<5, true>(&x, false);
    }

    /// Blocks as in caches, and blocks for which a formula in another order has other bits.
    fn blocks() -> Vec<[f32; VALUES]> {
        let mut state = 1_u32;
        let mut blocks: Vec<[f32; VALUES]> = (0..67)
            .map(|block| {
                [0; VALUES].map(|_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    // The largest magnitude often has both signs.
                    let coarse = f32::from((state >> 24) as u8) - 127.5;
                    let fine = (state >> 8) as f32 / 16_777_216.0;
                    if block % 2 == 0 {
                        coarse
                    } else {
                        coarse * fine
                    }
                })
            })
            .collect();
        blocks[3] = [0.0; VALUES];
        blocks[4] = [1e-16; VALUES];
        blocks[5][7] = f32::NAN;
        blocks[6][0] = f32::NEG_INFINITY;
        blocks[8] = [f32::NAN; VALUES];
        blocks[9] = [1e20; VALUES];
        // Halfway between two values of the table, and next to it.
        for (block, step) in [(10, 0), (11, 1), (12, -1)] {
            blocks[block][0] = -127.0;
            for code in 0..15 {
                let limit = f32::midpoint(NONLINEAR[code].into(), NONLINEAR[code + 1].into());
                blocks[block][code + 1] = match step {
                    0 => limit,
                    1 => limit.next_up(),
                    _ => limit.next_down(),
                };
            }
        }
        blocks
    }

    #[test]
    fn every_number_of_blocks_is_encoded_as_its_definition() {
        let blocks = blocks();
        let mut defined = vec![[0x5a; Nonlinear::BYTES]; blocks.len()];
        for (x, block) in blocks.iter().zip(&mut defined) {
            Nonlinear::define(x, block);
        }
        for proof in Backend::available().filter_map(Backend::prove) {
            for count in 0..=blocks.len() {
                let mut encoded = vec![[0x5a; Nonlinear::BYTES]; blocks.len()];
                let source = Values::F32(blocks[..count].as_flattened());
                let target = encoded[..count].as_flattened_mut();
                (IQ4_NL.encode)(proof, source, target);
                let same = encoded[..count] == defined[..count];
                assert!(same, "{} of {count}", proof.backend());
            }
        }
    }
}
