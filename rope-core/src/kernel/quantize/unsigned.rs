//! Unsigned codes with two numbers for each group of channels: [`super::zero_point`] stores both before the codes of
//! their group, [`super::asymmetric`] apart.
//!
//! | number | [`AsymmetricRule::ZeroPoint`] | [`AsymmetricRule::Minimum`] |
//! |---|---|---|
//! | scale | `(max - min) / most`; 0.0001 if that is 0 | `(max - min) / most`; 1 if `max` is not above `min` |
//! | second number | `zero = -min / scale` | `min` |
//! | code of `x` | `x (1 / scale) + zero`, a fused multiply-add, ties to even | `(x - min) / scale`, ties away from zero |
//! | value | `(code - zero) scale` | `min + code scale` |
//!
//! `most` is the largest code, 255 or 15, and `min` and `max` are the bounds of the group, ignoring NaNs. All other
//! operations are rounded to f32. Codes saturate at 0 and at `most`; a NaN has code 0. With a zero point, sums from
//! 2^31 on have code 0, as `cvtps2dq` makes them.

use core::mem;

use bytemuck::{cast_slice, must_cast};

use super::groups::Widen;
use crate::base::limits::MOST_CHANNELS;
use crate::kernel::values::{MOST_OF_BLOCK, MOST_WIDENED, PairsWork, Values};
use crate::proof::Proof;
use crate::simd::element::Convert;
use crate::simd::{BELOW_HALF, InstructionSet, Kernel, SimdQuant};

/// The second number of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AsymmetricRule {
    ZeroPoint,
    Minimum,
}

/// Bytes of the scale and of the second number.
pub(crate) const NUMBERS: usize = 8;

/// The most groups whose numbers are computed before their codes.
const GROUPS: usize = 32;

/// Codes of 8 or 4 bits in groups. All groups share their kernels.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnsignedGroups {
    pub(super) rule: AsymmetricRule,
    /// Bits of a code, 8 or 4.
    pub(super) bits: usize,
    /// Channels of a group.
    pub(super) channels: usize,
    /// Bytes of a group before its codes: [`NUMBERS`], or 0 if the numbers are apart.
    pub(super) before: usize,
}

/// Some groups of values, the target of their codes, and that of numbers that are apart.
pub(super) struct UnsignedEncoding<'a> {
    pub(super) groups: UnsignedGroups,
    pub(super) values: Values<'a>,
    pub(super) codes: &'a mut [u8],
    pub(super) numbers: &'a mut [u8],
}

impl UnsignedGroups {
    /// Returns the bytes of a group, without numbers that are apart.
    #[inline(always)]
    fn bytes(&self) -> usize {
        self.before + self.channels * self.bits / 8
    }

    /// Returns the largest code.
    #[inline(always)]
    fn most(&self) -> f32 {
        f32::from((1_u16 << self.bits) - 1)
    }
}

/// Encodes whole groups.
pub(super) fn encode(proof: Proof, encoding: &mut UnsignedEncoding<'_>) {
    let (len, channels) = (encoding.values.len(), encoding.groups.channels);
    if !(MOST_OF_BLOCK / 2..=MOST_WIDENED).contains(&channels) || !channels.is_power_of_two() {
        encode_padded(proof, encoding, 0);
    } else if !len.is_multiple_of(MOST_OF_BLOCK) {
        // Without the last group, half a block less.
        encode_padded(proof, encoding, len - channels);
    } else {
        proof.run(EncodeUnsigned(encoding));
    }
}

/// Encodes `whole` values, which fill blocks, and then one group at a time, padded with NaNs.
#[inline(never)]
fn encode_padded(proof: Proof, encoding: &mut UnsignedEncoding<'_>, whole: usize) {
    let UnsignedEncoding { groups, values, .. } = *encoding;
    let (channels, bytes) = (groups.channels, groups.bytes());
    let (codes, last) = encoding.codes.split_at_mut(whole / channels * bytes);
    let (numbers, mut last_numbers) = match groups.before {
        0 => encoding.numbers.split_at_mut(whole / channels * NUMBERS),
        _ => (&mut [][..], &mut [][..]),
    };
    if whole > 0 {
        proof.run(EncodeUnsigned(&mut UnsignedEncoding {
            groups,
            values: values.part(0..whole),
            codes,
            numbers,
        }));
    }
    let padded = channels.next_multiple_of(MOST_OF_BLOCK);
    let (mut tile, mut made) = ([f32::NAN; MOST_CHANNELS], [0; NUMBERS + MOST_CHANNELS]);
    for (index, group) in last.chunks_exact_mut(bytes).enumerate() {
        let start = whole + index * channels;
        proof.run(Widen {
            values: values.part(start..start + channels),
            target: &mut tile[..channels],
        });
        let groups = UnsignedGroups {
            channels: padded,
            ..groups
        };
        let encoding = &mut UnsignedEncoding {
            groups,
            values: Values::F32(&tile[..padded]),
            codes: &mut made[..groups.bytes()],
            numbers: next_numbers(&mut last_numbers, 1),
        };
        proof.run(EncodeUnsigned(encoding));
        group.copy_from_slice(&made[..bytes]);
    }
}

/// Splits off the numbers of some groups; none if they are not apart.
#[inline(always)]
fn next_numbers<'n>(numbers: &mut &'n mut [u8], groups: usize) -> &'n mut [u8] {
    let len = numbers.len().min(groups * NUMBERS);
    let (next, rest) = mem::take(numbers).split_at_mut(len);
    *numbers = rest;
    next
}

/// A kernel that encodes groups of whole pairs of vectors, in whole blocks of [`MOST_OF_BLOCK`] values. The argument is
/// a reference: a copy waits for all stores in flight.
struct EncodeUnsigned<'e, 'a>(&'e mut UnsignedEncoding<'a>);

impl Kernel for EncodeUnsigned<'_, '_> {
    #[inline(always)]
    fn run<S: InstructionSet>(self, s: S) {
        if const { S::GROUPS_OF_ELEMENTS } {
            return self.0.values.run_on_pairs(s, self);
        }
        let UnsignedEncoding {
            groups,
            values,
            codes,
            numbers,
        } = self.0;
        // Whole groups, which become f32 before their codes.
        let together = match values {
            Values::F32(values) => values.len() / groups.channels,
            _ => MOST_WIDENED / groups.channels,
        };
        let (mut widened, mut numbers) = ([0.0; MOST_WIDENED], &mut numbers[..]);
        for (index, codes) in codes
            .chunks_mut((together * groups.bytes()).max(1))
            .enumerate()
        {
            let start = index * together * groups.channels;
            let end = start + together * groups.channels;
            let part = values.part(start..end.min(values.len()));
            let pairs = match part {
                Values::F32(values) => values,
                _ => {
                    let widened = &mut widened[..part.len()];
                    part.widen(s, widened);
                    widened
                }
            };
            let encoding = &mut UnsignedEncoding {
                groups: *groups,
                values: part,
                codes,
                numbers: next_numbers(&mut numbers, together),
            };
            let pairs = S::chunks(pairs).as_chunks().0;
            PairsWork::run::<f32, S>(EncodeUnsigned(encoding), s, pairs);
        }
    }
}

impl PairsWork for EncodeUnsigned<'_, '_> {
    #[inline(always)]
    fn run<E: Convert, S: SimdQuant>(self, s: S, pairs: &[[S::Chunk<E::Bits>; 2]]) {
        let UnsignedEncoding {
            groups,
            codes,
            numbers: apart,
            ..
        } = self.0;
        let (bytes, before) = (groups.bytes(), groups.before);
        let each = groups.channels / const { 2 * S::LANES };
        // A group whose length is no power of two comes by itself.
        let shift = groups.channels.next_power_of_two().trailing_zeros() as usize;
        let mut apart = &mut apart[..];
        let runs = codes.chunks_mut(GROUPS * bytes);
        for (pairs, codes) in pairs.chunks(GROUPS * each).zip(runs) {
            let mut numbers = UnsignedNumbers {
                scales: [0.0; GROUPS],
                seconds: [0.0; GROUPS],
                factors: [0.0; GROUPS],
            };
            numbers.of_groups::<E, S>(s, pairs, each, groups);
            let both = numbers.scales.iter().zip(&numbers.seconds);
            if before == 0 {
                let apart = next_numbers(&mut apart, GROUPS)
                    .as_chunks_mut::<NUMBERS>()
                    .0;
                for (apart, (scale, second)) in apart.iter_mut().zip(both) {
                    apart.copy_from_slice(cast_slice(&[*scale, *second]));
                }
            } else {
                for (group, (scale, second)) in codes.chunks_exact_mut(bytes).zip(both) {
                    if let Some(numbers) = group.first_chunk_mut::<NUMBERS>() {
                        *numbers = must_cast([scale.to_le_bytes(), second.to_le_bytes()]);
                    }
                }
            }
            let place = [shift, before];
            match (groups.rule, groups.bits) {
                (AsymmetricRule::ZeroPoint, 8) => {
                    numbers.codes::<E, S, 8, false>(s, pairs, place, codes);
                }
                (AsymmetricRule::ZeroPoint, _) => {
                    numbers.codes::<E, S, 4, false>(s, pairs, place, codes);
                }
                (AsymmetricRule::Minimum, 8) => {
                    numbers.codes::<E, S, 8, true>(s, pairs, place, codes);
                }
                (AsymmetricRule::Minimum, _) => {
                    numbers.codes::<E, S, 4, true>(s, pairs, place, codes);
                }
            }
        }
    }
}

/// The numbers of some groups.
struct UnsignedNumbers {
    scales: [f32; GROUPS],
    /// The zero points, or the minima.
    seconds: [f32; GROUPS],
    /// The factors of values, or their divisors.
    factors: [f32; GROUPS],
}

impl UnsignedNumbers {
    /// Computes the numbers of groups of `each` pairs of vectors.
    #[inline(always)]
    fn of_groups<E: Convert, S: SimdQuant>(
        &mut self,
        s: S,
        pairs: &[[S::Chunk<E::Bits>; 2]],
        each: usize,
        of: &UnsignedGroups,
    ) {
        let (most, least) = match of.rule {
            AsymmetricRule::ZeroPoint => (of.most(), f32::MAX),
            AsymmetricRule::Minimum => (of.most(), f32::INFINITY),
        };
        let mut groups = pairs.chunks_exact(each);
        let numbers = self.scales.as_chunks_mut::<4>().0.iter_mut();
        let numbers = numbers.zip(self.seconds.as_chunks_mut::<4>().0);
        for ((scales, seconds), factors) in numbers.zip(self.factors.as_chunks_mut::<4>().0) {
            if groups.len() == 0 {
                break;
            }
            let mut min = [s.splat(least); 4];
            let mut max = [s.splat(-least); 4];
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
            [*scales, *seconds, *factors] = match of.rule {
                AsymmetricRule::ZeroPoint => zero_points(most, smallest, largest),
                AsymmetricRule::Minimum => minima(most, smallest, largest),
            };
        }
    }

    /// Writes the codes of groups of `1 << shift` values, each group after `before` bytes.
    #[inline(always)]
    fn codes<E: Convert, S: SimdQuant, const BITS: usize, const MINIMUM: bool>(
        &self,
        s: S,
        pairs: &[[S::Chunk<E::Bits>; 2]],
        [shift, before]: [usize; 2],
        codes: &mut [u8],
    ) {
        // A group is at least half of four vectors.
        let half = const { 2 * S::LANES * BITS / 8 };
        let even_odd = const { S::INTERLEAVES_CODES && E::EVEN_ODD };
        let (group, bytes) = (1 << shift, before + (BITS << shift) / 8);
        for (index, [ab, cd]) in pairs.as_chunks().0.iter().enumerate() {
            let value = index * const { 4 * S::LANES };
            let [first, next] =
                [value, value + const { 2 * S::LANES }].map(|value| (value >> shift) % GROUPS);
            let [by, by_next] = [s.splat(self.factors[first]), s.splat(self.factors[next])];
            let [second, second_next] = [s.splat(self.seconds[first]), s.splat(self.seconds[next])];
            let ([a, b], [c, d]) = if even_odd {
                (E::read_even_odd(s, *ab), E::read_even_odd(s, *cd))
            } else {
                (E::read(s, *ab), E::read(s, *cd))
            };
            let mut block = if MINIMUM {
                let x = [
                    s.div(s.sub(a, second), by),
                    s.div(s.sub(b, second), by),
                    s.div(s.sub(c, second_next), by_next),
                    s.div(s.sub(d, second_next), by_next),
                ];
                from_minimum(s, x, const { ((1 << BITS) - 1) as f32 })
            } else {
                s.store_u8_even([
                    s.mul_add_f32(a, by, second),
                    s.mul_add_f32(b, by, second),
                    s.mul_add_f32(c, by_next, second_next),
                    s.mul_add_f32(d, by_next, second_next),
                ])
            };
            if even_odd {
                block = s.interleave_codes(block);
            }
            let packed;
            let block: &[u8] = if BITS == 8 {
                cast_slice(&block)
            } else {
                packed = s.pack_u4(block);
                cast_slice(&packed)
            };
            let at = first * bytes + before + (value & (group - 1)) * BITS / 8;
            if before == 0 || first == next {
                codes[at..][..const { 4 * S::LANES * BITS / 8 }].copy_from_slice(block);
            } else {
                let (low, high) = block.split_at(half);
                codes[at..][..half].copy_from_slice(low);
                codes[at + bytes..][..half].copy_from_slice(high);
            }
        }
    }
}

/// Returns the scales and the zero points of four groups, and the factors of their values. The compiler computes all
/// four in vectors.
#[inline(always)]
fn zero_points(most: f32, min: [f32; 4], max: [f32; 4]) -> [[f32; 4]; 3] {
    let [mut scales, mut zeros, mut factors] = [[0.0; 4]; 3];
    for (index, scale) in scales.iter_mut().enumerate() {
        *scale = (max[index] - min[index]) / most;
        *scale = if *scale == 0.0 { 0.0001 } else { *scale };
    }
    for (index, zero) in zeros.iter_mut().enumerate() {
        // Zeros of either sign compare as equal, and the bounds are either.
        *zero = (0.0 - min[index]) / scales[index];
        // The sign of a new NaN depends on the machine.
        *zero = if zero.is_nan() { f32::NAN } else { *zero };
    }
    for (factor, scale) in factors.iter_mut().zip(scales) {
        *factor = 1.0 / scale;
    }
    [scales, zeros, factors]
}

/// Returns the scales and the minima of four groups, and the divisors of their values, likewise.
#[inline(always)]
fn minima(most: f32, min: [f32; 4], max: [f32; 4]) -> [[f32; 4]; 3] {
    let mut scales = [0.0; 4];
    for (index, scale) in scales.iter_mut().enumerate() {
        *scale = (max[index] - min[index]) / most;
        *scale = if max[index] > min[index] { *scale } else { 1.0 };
    }
    [scales, min.map(|min| min + 0.0), scales]
}

/// Rounds quotients to codes up to `most`, ties away from zero.
#[inline(always)]
fn from_minimum<S: SimdQuant>(s: S, x: [S::F32; 4], most: f32) -> [S::Chunk<u8>; 4] {
    let (zero, half, most) = (s.splat(0.0), s.splat(BELOW_HALF), s.splat(most));
    let [a, b, c, d] = x;
    s.store_u8_truncated([
        s.add(s.min_number(most, s.max_number(zero, a)), half),
        s.add(s.min_number(most, s.max_number(zero, b)), half),
        s.add(s.min_number(most, s.max_number(zero, c)), half),
        s.add(s.min_number(most, s.max_number(zero, d)), half),
    ])
}

/// A kernel that decodes groups: codes, and numbers that are apart.
pub(super) struct DecodeUnsigned<'a> {
    pub(super) groups: UnsignedGroups,
    pub(super) codes: &'a [u8],
    pub(super) numbers: &'a [u8],
    pub(super) values: &'a mut [f32],
}

impl Kernel for DecodeUnsigned<'_> {
    #[inline(always)]
    fn run<S: InstructionSet>(self, _: S) {
        match self.groups.rule {
            AsymmetricRule::ZeroPoint => self.decode(|code, [scale, zero]| (code - zero) * scale),
            AsymmetricRule::Minimum => self.decode(|code, [scale, min]| min + code * scale),
        }
    }
}

impl DecodeUnsigned<'_> {
    /// Decodes groups by the value of a code and its numbers. The compiler vectorizes the inner loops.
    #[inline(always)]
    fn decode(self, value: impl Fn(f32, [f32; 2]) -> f32) {
        let groups = self.groups;
        let mut apart = self.numbers.as_chunks::<NUMBERS>().0.iter();
        let values = self.values.chunks_exact_mut(groups.channels);
        for (group, values) in self.codes.chunks_exact(groups.bytes()).zip(values) {
            let (before, codes) = group.split_at(groups.before);
            let numbers = match (before.first_chunk(), apart.next()) {
                (Some(&[a, b, c, d, e, f, g, h]), _) => {
                    [[a, b, c, d], [e, f, g, h]].map(f32::from_le_bytes)
                }
                (_, Some(&[a, b, c, d, e, f, g, h])) => {
                    [[a, b, c, d], [e, f, g, h]].map(f32::from_ne_bytes)
                }
                _ => [0.0; 2],
            };
            if groups.bits == 8 {
                for (x, code) in values.iter_mut().zip(codes) {
                    *x = value(f32::from(*code), numbers);
                }
            } else {
                for ([x, y], pair) in values.as_chunks_mut().0.iter_mut().zip(codes) {
                    *x = value(f32::from(pair >> 4), numbers);
                    *y = value(f32::from(pair & 15), numbers);
                }
            }
        }
    }
}
