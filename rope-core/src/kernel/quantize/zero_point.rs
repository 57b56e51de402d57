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

use crate::kernel::values::{MOST_OF_BLOCK, Values};
use crate::proof::Proof;
use crate::simd::{InstructionSet, Kernel};

use super::groups::Widen;
use super::{BlockFormat, RUN};

pub(super) static U8_IN_32: BlockFormat = format::<32, 8>("u8_in_32");
pub(super) static U8_IN_64: BlockFormat = format::<64, 8>("u8_in_64");
pub(super) static U8_IN_128: BlockFormat = format::<128, 8>("u8_in_128");
pub(super) static U4_IN_32: BlockFormat = format::<32, 4>("u4_in_32");
pub(super) static U4_IN_64: BlockFormat = format::<64, 4>("u4_in_64");
pub(super) static U4_IN_128: BlockFormat = format::<128, 4>("u4_in_128");

/// Creates the format of groups of `VALUES` values with codes of `BITS` bits. All formats share their kernels.
const fn format<const VALUES: usize, const BITS: usize>(name: &'static str) -> BlockFormat {
    assert!(VALUES >= 32 && VALUES.is_power_of_two() && VALUES <= MOST_VALUES);
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

/// The most values that are encoded together.
const MOST_VALUES: usize = 1024;

/// Encodes whole groups, from their values and the bits of a code.
fn encode(proof: Proof, [group, bits]: [usize; 2], values: Values<'_>, target: &mut [u8]) {
    let bytes = NUMBERS + group * bits / 8;
    let step = MOST_VALUES.min(RUN * group);
    for (index, blocks) in target.chunks_mut(step / group * bytes).enumerate() {
        let start = index * step;
        let values = values.part(start..start + blocks.len() / bytes * group);
        // Uninitialized unless it is used.
        let mut widened;
        let values = match values {
            Values::F32(values) if values.len().is_multiple_of(MOST_OF_BLOCK) => values,
            // Padded with zeros, whose codes are discarded.
            _ => {
                widened = [0.0; MOST_VALUES];
                proof.run(Widen {
                    values,
                    target: &mut widened,
                });
                &widened[..values.len().next_multiple_of(MOST_OF_BLOCK)]
            }
        };
        let mut codes = [0; MOST_VALUES];
        let mut numbers = [[0.0; RUN]; 2];
        proof.run(EncodeUnsigned {
            group,
            most: (1 << bits) - 1,
            values,
            numbers: &mut numbers,
            codes: &mut codes,
        });
        let [scales, zeros] = numbers;
        let groups = codes.chunks_exact(group).zip(scales.iter().zip(zeros));
        for (block, (codes, (scale, zero))) in blocks.chunks_exact_mut(bytes).zip(groups) {
            let (numbers, target) = block.split_at_mut(NUMBERS);
            numbers[..4].copy_from_slice(&scale.to_le_bytes());
            numbers[4..].copy_from_slice(&zero.to_le_bytes());
            if bits == 8 {
                target.copy_from_slice(codes);
            } else {
                for (byte, [even, odd]) in target.iter_mut().zip(codes.as_chunks().0) {
                    *byte = (*even).min(15) << 4 | (*odd).min(15);
                }
            }
        }
    }
}

/// A kernel that encodes at most [`RUN`] groups, a byte per code, in whole blocks of [`MOST_OF_BLOCK`] values.
struct EncodeUnsigned<'a> {
    group: usize,
    /// The largest code. Codes of 4 bits may exceed it.
    most: u16,
    values: &'a [f32],
    /// The scales and the zero points.
    numbers: &'a mut [[f32; RUN]; 2],
    codes: &'a mut [u8; MOST_VALUES],
}

impl Kernel for EncodeUnsigned<'_> {
    #[inline(always)]
    fn run<S: InstructionSet>(self, s: S) {
        let EncodeUnsigned {
            group,
            most,
            values,
            numbers: [scales, zeros],
            codes,
        } = self;
        let (mut smallest, mut largest) = ([0.0; RUN], [0.0; RUN]);
        let bounds = smallest.as_chunks_mut::<4>().0.iter_mut();
        let mut groups = values.chunks_exact(group).map(|group| S::chunks(group));
        for (smallest, largest) in bounds.zip(largest.as_chunks_mut::<4>().0) {
            if groups.len() == 0 {
                break;
            }
            let mut min = [s.splat(f32::MAX); 4];
            let mut max = [s.splat(-f32::MAX); 4];
            for (min, max) in min.iter_mut().zip(&mut max) {
                for x in groups.next().unwrap_or(&[]) {
                    let x = s.load_f32(*x);
                    *min = s.min_number(*min, x);
                    *max = s.max_number(*max, x);
                }
            }
            *smallest = s.extreme_lanes::<false>(min);
            *largest = s.extreme_lanes::<true>(max);
        }
        let mut factors = [0.0; RUN];
        // All of a run, whose number the compiler knows.
        for index in 0..RUN {
            let scale = (largest[index] - smallest[index]) / f32::from(most);
            let scale = if scale == 0.0 { 0.0001 } else { scale };
            // Zeros of either sign compare as equal, and the bounds are either.
            let zero = (0.0 - smallest[index]) / scale;
            scales[index] = scale;
            // The sign of a new NaN depends on the machine.
            zeros[index] = if zero.is_nan() { f32::NAN } else { zero };
            factors[index] = 1.0 / scale;
        }
        let shift = group.trailing_zeros();
        let blocks = S::chunks(values).as_chunks::<4>().0.iter();
        let targets = codes.chunks_exact_mut(4 * S::LANES);
        for (index, (block, target)) in blocks.zip(targets).enumerate() {
            let mut x = [s.splat(0.0); 4];
            for (vector, (x, values)) in x.iter_mut().zip(block).enumerate() {
                let group = (((4 * index + vector) * S::LANES) >> shift) % RUN;
                let (by, zero) = (s.splat(factors[group]), s.splat(zeros[group]));
                *x = s.mul_add_f32(s.load_f32(*values), by, zero);
            }
            target.copy_from_slice(bytemuck::cast_slice(&s.store_u8_even(x)));
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
            // The compiler vectorizes these loops.
            if self.bits == 8 {
                for (x, code) in values.iter_mut().zip(codes) {
                    *x = (f32::from(*code) - zero) * scale;
                }
            } else {
                for ([x, y], pair) in values.as_chunks_mut().0.iter_mut().zip(codes) {
                    *x = (f32::from(pair >> 4) - zero) * scale;
                    *y = (f32::from(pair & 15) - zero) * scale;
                }
            }
        }
    }
}
