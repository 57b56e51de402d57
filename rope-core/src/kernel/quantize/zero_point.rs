//! Unsigned codes with a scale and a zero point for each group of channels: OpenVINO's u8 and u4.
//!
//! A group is a block of bytes: the scale and the zero point in f32, then the codes. With `most` the largest code,
//! 255 or 15, and `min` and `max` the bounds of the group:
//!
//! | number | formula, each operation rounded to f32 |
//! |---|---|
//! | scale | `(max - min) / most`; 0.0001 if that is 0 |
//! | zero point | `-min / scale` |
//! | code of `x` | `x (1 / scale) + zero point` by a fused multiply-add, to the nearest integer, ties to even |
//!
//! These are the formulas of its vector code on x86. Its plain code, which other machines run, rounds
//! `x / scale + zero point`, halves away from zero.
//!
//! The bounds ignore NaNs. Codes saturate at 0 and at `most`; NaNs, and sums from 2^31 on, have code 0, as `cvtps2dq`
//! makes them.

use bytemuck::cast_slice;

use super::BlockFormat;
use super::groups::Widen;
use crate::kernel::values::{MOST_OF_BLOCK, MOST_WIDENED, PairsWork, Values};
use crate::proof::Proof;
use crate::simd::element::Convert;
use crate::simd::{InstructionSet, Kernel, SimdQuant};

pub(super) static U8_IN_32: BlockFormat = format::<32, 8>("u8_in_32");
pub(super) static U8_IN_64: BlockFormat = format::<64, 8>("u8_in_64");
pub(super) static U8_IN_128: BlockFormat = format::<128, 8>("u8_in_128");
pub(super) static U4_IN_32: BlockFormat = format::<32, 4>("u4_in_32");
pub(super) static U4_IN_64: BlockFormat = format::<64, 4>("u4_in_64");
pub(super) static U4_IN_128: BlockFormat = format::<128, 4>("u4_in_128");

/// Creates the format of groups of `VALUES` values with codes of `BITS` bits. All formats share their kernels.
const fn format<const VALUES: usize, const BITS: usize>(name: &'static str) -> BlockFormat {
    assert!(VALUES >= 32 && VALUES.is_power_of_two());
    BlockFormat {
        name,
        values: VALUES,
        bytes: NUMBERS + VALUES * BITS / 8,
        encode: |proof, source, target| encode(proof, [VALUES, BITS], source, target),
        decode: |proof, source, target| {
            proof.run(DecodeUnsigned {
                group: VALUES,
                bits: BITS,
                source,
                target,
            });
        },
    }
}

/// Bytes of the scale and of the zero point.
const NUMBERS: usize = 8;

/// The most groups whose numbers are computed before their codes.
const GROUPS: usize = 32;

/// Encodes whole groups, from their values and the bits of a code.
fn encode(proof: Proof, [group, bits]: [usize; 2], values: Values<'_>, target: &mut [u8]) {
    let bytes = NUMBERS + group * bits / 8;
    let rest = values.len() % MOST_OF_BLOCK;
    let whole = values.len() - rest;
    let (target, last) = target.split_at_mut(whole / group * bytes);
    proof.run(EncodeUnsigned {
        group,
        bits,
        values: &values.part(0..whole),
        target,
    });
    if rest > 0 {
        // Half a block, padded with zeros, whose codes are discarded.
        let (mut padded, mut both) = ([0.0; MOST_OF_BLOCK], [0; 2 * (NUMBERS + MOST_OF_BLOCK)]);
        proof.run(Widen {
            values: values.part(whole..values.len()),
            target: &mut padded,
        });
        proof.run(EncodeUnsigned {
            group,
            bits,
            values: &Values::F32(&padded),
            target: &mut both[..MOST_OF_BLOCK / group * bytes],
        });
        last.copy_from_slice(&both[..last.len()]);
    }
}

/// Returns the scale and the zero point of a group, from the largest code and the bounds.
#[inline(always)]
pub(super) fn scale_and_zero(most: f32, [min, max]: [f32; 2]) -> [f32; 2] {
    let scale = (max - min) / most;
    let scale = if scale == 0.0 { 0.0001 } else { scale };
    // Zeros of either sign compare as equal, and the bounds are either.
    let zero = (0.0 - min) / scale;
    // The sign of a new NaN depends on the machine.
    [scale, if zero.is_nan() { f32::NAN } else { zero }]
}

/// A kernel that encodes groups, in whole blocks of [`MOST_OF_BLOCK`] values. The values are a reference: a copy waits
/// for all stores in flight.
struct EncodeUnsigned<'e, 'a> {
    group: usize,
    bits: usize,
    values: &'e Values<'a>,
    target: &'e mut [u8],
}

impl Kernel for EncodeUnsigned<'_, '_> {
    #[inline(always)]
    fn run<S: InstructionSet>(self, s: S) {
        if const { S::GROUPS_OF_ELEMENTS } {
            return self.values.run_on_pairs(s, self);
        }
        let EncodeUnsigned {
            group,
            bits,
            values,
            target,
        } = self;
        let mut widened = [0.0; MOST_WIDENED];
        let bytes = (MOST_WIDENED >> group.trailing_zeros()) * (NUMBERS + group * bits / 8);
        for (index, target) in target.chunks_mut(bytes).enumerate() {
            let start = index * MOST_WIDENED;
            let values = values.part(start..values.len().min(start + MOST_WIDENED));
            let widened = &mut widened[..values.len()];
            values.widen(s, widened);
            let part = EncodeUnsigned {
                group,
                bits,
                values: &values,
                target,
            };
            PairsWork::run::<f32, S>(part, s, S::chunks(widened).as_chunks().0);
        }
    }
}

impl PairsWork for EncodeUnsigned<'_, '_> {
    #[inline(always)]
    fn run<E: Convert, S: SimdQuant>(self, s: S, pairs: &[[S::Chunk<E::Bits>; 2]]) {
        let bytes = NUMBERS + self.group * self.bits / 8;
        let each = self.group / const { 2 * S::LANES };
        let runs = self.target.chunks_mut(GROUPS * bytes);
        for (pairs, blocks) in pairs.chunks(GROUPS * each).zip(runs) {
            let mut numbers = UnsignedNumbers {
                scales: [0.0; GROUPS],
                zeros: [0.0; GROUPS],
                factors: [0.0; GROUPS],
            };
            numbers.of_groups::<E, S>(s, pairs, each, f32::from((1_u16 << self.bits) - 1));
            let both = numbers.scales.iter().zip(&numbers.zeros);
            for (block, (scale, zero)) in blocks.chunks_exact_mut(bytes).zip(both) {
                block[..4].copy_from_slice(&scale.to_le_bytes());
                block[4..NUMBERS].copy_from_slice(&zero.to_le_bytes());
            }
            if self.bits == 8 {
                numbers.codes::<E, S, 8>(s, pairs, self.group, blocks);
            } else {
                numbers.codes::<E, S, 4>(s, pairs, self.group, blocks);
            }
        }
    }
}

/// The numbers of some groups.
struct UnsignedNumbers {
    scales: [f32; GROUPS],
    /// The zero points.
    zeros: [f32; GROUPS],
    /// The reciprocals of the scales.
    factors: [f32; GROUPS],
}

impl UnsignedNumbers {
    /// Computes the numbers of groups of `each` pairs of vectors, for codes up to `most`.
    #[inline(always)]
    fn of_groups<E: Convert, S: SimdQuant>(
        &mut self,
        s: S,
        pairs: &[[S::Chunk<E::Bits>; 2]],
        each: usize,
        most: f32,
    ) {
        let mut groups = pairs.chunks_exact(each);
        let numbers = self.scales.as_chunks_mut::<4>().0.iter_mut();
        let numbers = numbers.zip(self.zeros.as_chunks_mut::<4>().0);
        for ((scales, zeros), factors) in numbers.zip(self.factors.as_chunks_mut::<4>().0) {
            if groups.len() == 0 {
                break;
            }
            let mut min = [s.splat(f32::MAX); 4];
            let mut max = [s.splat(-f32::MAX); 4];
            for (min, max) in min.iter_mut().zip(&mut max) {
                for pair in groups.next().unwrap_or(&[]) {
                    for x in E::read_even_odd(s, *pair) {
                        *min = s.min_number(*min, x);
                        *max = s.max_number(*max, x);
                    }
                }
            }
            let smallest = s.extreme_lanes::<false>(min);
            let largest = s.extreme_lanes::<true>(max);
            // All four, which the compiler computes in vectors.
            for index in 0..4 {
                let [scale, zero] = scale_and_zero(most, [smallest[index], largest[index]]);
                (scales[index], zeros[index], factors[index]) = (scale, zero, 1.0 / scale);
            }
        }
    }

    /// Writes the codes of groups of `group` values to their blocks.
    #[inline(always)]
    fn codes<E: Convert, S: SimdQuant, const BITS: usize>(
        &self,
        s: S,
        pairs: &[[S::Chunk<E::Bits>; 2]],
        group: usize,
        blocks: &mut [u8],
    ) {
        let (shift, bytes) = (group.trailing_zeros(), NUMBERS + group * BITS / 8);
        // A group is at least half of four vectors.
        let half = const { 2 * S::LANES * BITS / 8 };
        let even_odd = const { S::INTERLEAVES_CODES && E::EVEN_ODD };
        for (index, [ab, cd]) in pairs.as_chunks().0.iter().enumerate() {
            let value = index * const { 4 * S::LANES };
            let [first, second] =
                [value, value + const { 2 * S::LANES }].map(|value| (value >> shift) % GROUPS);
            let of = |group: usize| (s.splat(self.factors[group]), s.splat(self.zeros[group]));
            let ((by, zero), (by_second, zero_second)) = (of(first), of(second));
            let ([a, b], [c, d]) = if even_odd {
                (E::read_even_odd(s, *ab), E::read_even_odd(s, *cd))
            } else {
                (E::read(s, *ab), E::read(s, *cd))
            };
            let mut codes = s.store_u8_even([
                s.mul_add_f32(a, by, zero),
                s.mul_add_f32(b, by, zero),
                s.mul_add_f32(c, by_second, zero_second),
                s.mul_add_f32(d, by_second, zero_second),
            ]);
            if even_odd {
                codes = s.interleave_codes(codes);
            }
            let packed;
            let codes: &[u8] = if BITS == 8 {
                cast_slice(&codes)
            } else {
                packed = s.pack_u4(codes);
                cast_slice(&packed)
            };
            let at = first * bytes + NUMBERS + (value & (group - 1)) * BITS / 8;
            if first == second {
                blocks[at..][..const { 4 * S::LANES * BITS / 8 }].copy_from_slice(codes);
            } else {
                let (low, high) = codes.split_at(half);
                blocks[at..][..half].copy_from_slice(low);
                blocks[at + bytes..][..half].copy_from_slice(high);
            }
        }
    }
}

/// A kernel that decodes groups: each code less the zero point, times the scale.
struct DecodeUnsigned<'a> {
    group: usize,
    bits: usize,
    source: &'a [u8],
    target: &'a mut [f32],
}

impl Kernel for DecodeUnsigned<'_> {
    #[inline(always)]
    fn run<S: InstructionSet>(self, _: S) {
        let blocks = self
            .source
            .chunks_exact(NUMBERS + self.group * self.bits / 8);
        for (block, values) in blocks.zip(self.target.chunks_exact_mut(self.group)) {
            let (&[a, b, c, d, e, f, g, h], codes) =
                block.split_first_chunk().unwrap_or((&[0; NUMBERS], &[]));
            let [scale, zero] = [[a, b, c, d], [e, f, g, h]].map(f32::from_le_bytes);
            decode(codes, values, self.bits, |code| (code - zero) * scale);
        }
    }
}

/// Decodes the codes of a group. The compiler vectorizes these loops.
#[inline(always)]
pub(super) fn decode(codes: &[u8], values: &mut [f32], bits: usize, value: impl Fn(f32) -> f32) {
    if bits == 8 {
        for (x, code) in values.iter_mut().zip(codes) {
            *x = value(f32::from(*code));
        }
    } else {
        for ([x, y], pair) in values.as_chunks_mut().0.iter_mut().zip(codes) {
            *x = value(f32::from(pair >> 4));
            *y = value(f32::from(pair & 15));
        }
    }
}
