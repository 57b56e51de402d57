//! Codes of 8 bits, which caches are made of: f32 to codes, and codes to f32, of channels that lie side by side.
//!
//! | code | rounding | beyond its largest | NaN |
//! |---|---|---|---|
//! | [`E4M3`] (E4M3FN of OCP) | to nearest, ties to even | saturates, infinities too | `0x7f`, with its sign |
//! | [`E5M2`], as PyTorch | to nearest, ties to even | infinity | `0x7f`, with its sign |
//! | [`E5M2_SATURATING`] | to nearest, ties to even | saturates, infinities too | `0x7f`, with its sign |
//! | [`INT8_EVEN`] | to nearest, ties to even | saturates at -128 and 127 | 0 |
//! | [`INT8_AWAY`], as vLLM | half is added in f32, the fraction dropped | saturates at -128 and 127 | 0 |
//! | Q8_0 of ggml, by its reference | to nearest, ties away from zero | cannot be | 0 |
//!
//! A value is multiplied or divided in f32, which rounds, and then rounded to the code. The one-lane definitions stand
//! in `simd/convert.rs`.

use core::marker::PhantomData;
use core::slice;

use bytemuck::cast_slice;

use crate::backend::Proof;
use crate::simd::convert::{
    E4M3_LEAST, E5M2_LEAST, f8_to_f32, f16_to_f32, f32_to_f8, f32_to_f16, f32_to_i8_away,
    f32_to_i8_even, i8_to_f32,
};
use crate::simd::{Kernel, Simd};

/// What values are multiplied with, or divided by, in one f32 operation, before they are rounded to codes: one number
/// for all, or one for each of some heads of equal length.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Factors<'a> {
    Multiply(&'a [f32]),
    Divide(&'a [f32]),
}

/// Values, by their factors, to codes.
type EncodeFn = fn(Proof, &[f32], &[f32], &mut [u8]);

/// A code of 8 bits: its kernels. Where lengths differ, the shorter counts.
pub(crate) struct Code {
    /// The largest magnitude that it has on both sides of zero.
    pub(crate) largest: f32,
    multiplied: EncodeFn,
    divided: EncodeFn,
    /// Codes to values times a scale, one f32 product each.
    pub(crate) decode: fn(Proof, &[u8], f32, &mut [f32]),
}

impl Code {
    const fn new<C: Convert8>(largest: f32) -> Self {
        Code {
            largest,
            multiplied: |proof, source, factors, target| {
                proof.run(Encode::<C, false>::new(source, factors, target));
            },
            divided: |proof, source, factors, target| {
                proof.run(Encode::<C, true>::new(source, factors, target));
            },
            decode: |proof, source, scale, target| {
                proof.run(Decode::<C> {
                    source,
                    scale,
                    target,
                    code: PhantomData,
                });
            },
        }
    }

    /// Values, multiplied or divided, to codes.
    ///
    /// A kernel for each of the two: where they were one, the factors came through memory, and to copy them waited for
    /// the stores of the kernel before (5 of 180 ns that a token of 8 heads takes from bf16 to E4M3).
    #[inline(always)]
    pub(crate) fn encode(&self, proof: Proof, values: &[f32], by: Factors<'_>, codes: &mut [u8]) {
        match by {
            Factors::Multiply(factors) => (self.multiplied)(proof, values, factors, codes),
            Factors::Divide(factors) => (self.divided)(proof, values, factors, codes),
        }
    }
}

/// The float of 8 bits with 3 behind the point and no infinities.
pub(crate) static E4M3: Code = Code::new::<E4m3>(448.0);
/// The float of 8 bits with 2 behind the point.
pub(crate) static E5M2: Code = Code::new::<E5m2<0x7c>>(57344.0);
/// The same, of which infinities are not made.
pub(crate) static E5M2_SATURATING: Code = Code::new::<E5m2<0x7b>>(57344.0);
/// Integers, ties to even.
pub(crate) static INT8_EVEN: Code = Code::new::<Int8Even>(127.0);
/// Integers, rounded by adding a half.
pub(crate) static INT8_AWAY: Code = Code::new::<Int8Away>(127.0);

/// A code as a kernel sees it.
trait Convert8 {
    /// Four vectors of values to codes.
    fn write<S: Simd>(s: S, x: [S::F32; 4]) -> [S::Chunk<u8>; 4];
    /// A value rounded to its code.
    fn from_f32(x: f32) -> u8;
    /// The value of a code, exactly.
    fn to_f32(x: u8) -> f32;
}

struct E4m3;

impl Convert8 for E4m3 {
    #[inline(always)]
    fn write<S: Simd>(s: S, x: [S::F32; 4]) -> [S::Chunk<u8>; 4] {
        s.store_f8::<3, E4M3_LEAST, 0x7e>(x)
    }

    #[inline(always)]
    fn from_f32(x: f32) -> u8 {
        f32_to_f8::<3, E4M3_LEAST, 0x7e>(x)
    }

    #[inline(always)]
    fn to_f32(x: u8) -> f32 {
        f8_to_f32::<3, E4M3_LEAST, 0x7f>(x)
    }
}

/// `MOST` is the code of the largest number, or that of the infinity.
struct E5m2<const MOST: u32>;

impl<const MOST: u32> Convert8 for E5m2<MOST> {
    #[inline(always)]
    fn write<S: Simd>(s: S, x: [S::F32; 4]) -> [S::Chunk<u8>; 4] {
        s.store_f8::<2, E5M2_LEAST, MOST>(x)
    }

    #[inline(always)]
    fn from_f32(x: f32) -> u8 {
        f32_to_f8::<2, E5M2_LEAST, MOST>(x)
    }

    #[inline(always)]
    fn to_f32(x: u8) -> f32 {
        f8_to_f32::<2, E5M2_LEAST, 0x7c>(x)
    }
}

struct Int8Even;

impl Convert8 for Int8Even {
    #[inline(always)]
    fn write<S: Simd>(s: S, x: [S::F32; 4]) -> [S::Chunk<u8>; 4] {
        s.store_i8_even(x)
    }

    #[inline(always)]
    fn from_f32(x: f32) -> u8 {
        f32_to_i8_even(x)
    }

    #[inline(always)]
    fn to_f32(x: u8) -> f32 {
        i8_to_f32(x)
    }
}

struct Int8Away;

impl Convert8 for Int8Away {
    #[inline(always)]
    fn write<S: Simd>(s: S, x: [S::F32; 4]) -> [S::Chunk<u8>; 4] {
        s.store_i8_away(x, 0.5)
    }

    #[inline(always)]
    fn from_f32(x: f32) -> u8 {
        f32_to_i8_away(x, 0.5)
    }

    #[inline(always)]
    fn to_f32(x: u8) -> f32 {
        i8_to_f32(x)
    }
}

/// Values to codes.
struct Encode<'a, C, const DIVIDE: bool> {
    source: &'a [f32],
    factors: &'a [f32],
    target: &'a mut [u8],
    code: PhantomData<C>,
}

impl<'a, C, const DIVIDE: bool> Encode<'a, C, DIVIDE> {
    #[inline(always)]
    fn new(source: &'a [f32], factors: &'a [f32], target: &'a mut [u8]) -> Self {
        Encode {
            source,
            factors,
            target,
            code: PhantomData,
        }
    }
}

impl<C: Convert8, const DIVIDE: bool> Kernel for Encode<'_, C, DIVIDE> {
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let len = self.source.len() / self.factors.len().max(1);
        for (head, by) in self.factors.iter().enumerate() {
            let source = &self.source[head * len..][..len];
            let target = self.target.get_mut(head * len..).unwrap_or_default();
            Self::head(s, source, *by, target);
        }
    }
}

impl<C: Convert8, const DIVIDE: bool> Encode<'_, C, DIVIDE> {
    #[inline(always)]
    fn head<S: Simd>(s: S, source: &[f32], by: f32, target: &mut [u8]) {
        let from = S::chunks(source).as_chunks::<4>().0;
        let to = S::chunks_mut(target).as_chunks_mut::<4>().0;
        let done = from.len().min(to.len()) * 4 * S::LANES;
        let factor = s.splat(by);
        for (x, y) in from.iter().zip(to) {
            let [a, b, c, d] = load(s, *x);
            let x = if DIVIDE {
                [
                    s.div(a, factor),
                    s.div(b, factor),
                    s.div(c, factor),
                    s.div(d, factor),
                ]
            } else {
                [
                    s.mul(a, factor),
                    s.mul(b, factor),
                    s.mul(c, factor),
                    s.mul(d, factor),
                ]
            };
            *y = C::write(s, x);
        }
        let (source, target) = (&source[done..], &mut target[done..]);
        if const { S::LANES > 1 } {
            if !source.is_empty() {
                s.narrower()
                    .enter(Encode::<C, DIVIDE>::new(source, &[by], target));
            }
        } else {
            for (x, y) in source.iter().zip(target) {
                *y = C::from_f32(if DIVIDE { x / by } else { x * by });
            }
        }
    }
}

#[inline(always)]
fn load<S: Simd>(s: S, [a, b, c, d]: [S::Chunk<f32>; 4]) -> [S::F32; 4] {
    [s.load_f32(a), s.load_f32(b), s.load_f32(c), s.load_f32(d)]
}

/// Codes to values.
struct Decode<'a, C> {
    source: &'a [u8],
    scale: f32,
    target: &'a mut [f32],
    code: PhantomData<C>,
}

impl<C: Convert8> Kernel for Decode<'_, C> {
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        // The compiler vectorises it.
        for (x, y) in self.source.iter().zip(self.target) {
            *y = C::to_f32(*x) * self.scale;
        }
    }
}

/// The largest magnitude of each of some heads of equal length, NaNs left out; 0 of none.
pub(crate) fn largest_magnitudes(proof: Proof, heads: &[f32], largest: &mut [f32]) {
    largest.fill(0.0);
    proof.run(Largest {
        values: heads,
        largest,
    });
}

/// The larger of what is there and of the magnitudes of each head.
struct Largest<'a> {
    values: &'a [f32],
    largest: &'a mut [f32],
}

impl Kernel for Largest<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let len = self.values.len() / self.largest.len().max(1);
        for (head, largest) in self.largest.iter_mut().enumerate() {
            let values = &self.values[head * len..][..len];
            let chunks = S::chunks(values);
            // Four at a time: each waits for its own.
            let (groups, rest) = chunks.as_chunks::<4>();
            let mut lanes = [s.splat(*largest); 4];
            for group in groups {
                for (lane, x) in lanes.iter_mut().zip(group) {
                    *lane = s.max_magnitude(*lane, s.load_f32(*x));
                }
            }
            for (lane, x) in lanes.iter_mut().zip(rest) {
                *lane = s.max_magnitude(*lane, s.load_f32(*x));
            }
            let [a, b, c, d] = lanes;
            *largest = s.max_lane(s.max_magnitude(s.max_magnitude(a, b), s.max_magnitude(c, d)));
            let values = &values[chunks.len() * S::LANES..];
            if const { S::LANES > 1 } && !values.is_empty() {
                s.narrower().enter(Largest {
                    values,
                    largest: core::slice::from_mut(largest),
                });
            }
        }
    }
}

/// Values in a block of Q8_0, and its bytes: the distance of its codes, as IEEE binary16, and the codes.
pub(crate) const Q8_0_VALUES: usize = 32;
pub(crate) const Q8_0_BYTES: usize = 2 + Q8_0_VALUES;

/// Blocks of values to blocks of ggml's Q8_0, by `quantize_row_q8_0_ref` of its ggml-quants.c. What the formula leaves
/// undefined, a code of a NaN or beyond 127, is 0 or saturates; the largest of a block is found without its NaNs.
pub(crate) fn encode_q8_0(proof: Proof, source: &[f32], target: &mut [u8]) {
    debug_assert!(source.len().is_multiple_of(Q8_0_VALUES));
    proof.run(EncodeQ8_0 { source, target });
}

/// Blocks of Q8_0 to values.
pub(crate) fn decode_q8_0(proof: Proof, source: &[u8], target: &mut [f32]) {
    debug_assert!(source.len().is_multiple_of(Q8_0_BYTES));
    proof.run(DecodeQ8_0 { source, target });
}

struct EncodeQ8_0<'a> {
    source: &'a [f32],
    target: &'a mut [u8],
}

impl Kernel for EncodeQ8_0<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        /// Before a half: a tie still becomes the next integer, because the sum is rounded to even, and no less does.
        const HALF: f32 = 0.5_f32.next_down();
        // A group of four vectors is two blocks of 16 lanes, one of 8, half a one of 4.
        let together = const { (4 * S::LANES).div_ceil(Q8_0_VALUES) };
        let from = self.source.as_chunks::<Q8_0_VALUES>().0;
        let to = self.target.as_chunks_mut::<Q8_0_BYTES>().0;
        let len = from.len().min(to.len());
        let done = len - len % together;
        let (from, source) = from[..len].split_at(done);
        let (to, target) = to[..len].split_at_mut(done);
        for (values, blocks) in from
            .chunks_exact(together)
            .zip(to.chunks_exact_mut(together))
        {
            let mut factors = [0.0; 2];
            for ((values, block), factor) in values.iter().zip(&mut *blocks).zip(&mut factors) {
                let mut lanes = s.splat(0.0);
                for x in S::chunks(values) {
                    lanes = s.max_magnitude(lanes, s.load_f32(*x));
                }
                let d = s.max_lane(lanes) / 127.0;
                *factor = if d == 0.0 { 0.0 } else { 1.0 / d };
                [block[0], block[1]] = f32_to_f16(d).to_le_bytes();
            }
            let groups = S::chunks(values.as_flattened()).as_chunks::<4>().0;
            for (index, group) in groups.iter().enumerate() {
                let block = |vector: usize| (4 * index + vector) * S::LANES / Q8_0_VALUES;
                let [a, b, c, d] = load(s, *group);
                let codes = s.store_i8_away(
                    [
                        s.mul(a, s.splat(factors[block(0)])),
                        s.mul(b, s.splat(factors[block(1)])),
                        s.mul(c, s.splat(factors[block(2)])),
                        s.mul(d, s.splat(factors[block(3)])),
                    ],
                    HALF,
                );
                for (vector, codes) in codes.iter().enumerate() {
                    let start = 2 + (4 * index + vector) * S::LANES % Q8_0_VALUES;
                    blocks[block(vector)][start..][..S::LANES]
                        .copy_from_slice(cast_slice(slice::from_ref(codes)));
                }
            }
        }
        if !source.is_empty() {
            s.narrower().enter(EncodeQ8_0 {
                source: source.as_flattened(),
                target: target.as_flattened_mut(),
            });
        }
    }
}

struct DecodeQ8_0<'a> {
    source: &'a [u8],
    target: &'a mut [f32],
}

impl Kernel for DecodeQ8_0<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let from = self.source.as_chunks::<Q8_0_BYTES>().0;
        let to = self.target.as_chunks_mut::<Q8_0_VALUES>().0;
        for (block, values) in from.iter().zip(to) {
            let [low, high, codes @ ..] = block;
            let d = s.splat(f16_to_f32(u16::from_le_bytes([*low, *high])));
            for (x, code) in S::chunks_mut(values).iter_mut().zip(S::chunks(codes)) {
                *x = s.store_f32(s.mul(s.load_f32(S::map(*code, i8_to_f32)), d));
            }
        }
    }
}

#[cfg(test)]
mod tests;
