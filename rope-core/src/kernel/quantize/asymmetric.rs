//! Unsigned codes with two numbers for each group of channels, which may be a whole head: OpenVINO's u8 and u4 with
//! their scales and zero points apart from the codes, and tract's u8.
//!
//! | number | [`AsymmetricRule::ZeroPoint`] | [`AsymmetricRule::Minimum`] |
//! |---|---|---|
//! | scale | `(max - min) / most`; 0.0001 if that is 0 | `(max - min) / most`; 1 if `max` is not above `min` |
//! | second number | `zero = -min / scale` | `min` |
//! | code of `x` | `x (1 / scale) + zero`, a fused multiply-add, ties to even | `(x - min) / scale`, ties away from zero |
//! | value | `(code - zero) scale` | `min + code scale` |
//!
//! `most` is 255 or 15, and `min` and `max` are the bounds of the group, ignoring NaNs. Codes saturate at 0 and at
//! `most`; a NaN has code 0. With a zero point, sums from 2^31 on have code 0, as `cvtps2dq` makes them. The groups of
//! [`super::zero_point`] follow the first rule, and hold their numbers before their codes.

use bytemuck::{Zeroable, cast_slice, cast_slice_mut};

use super::zero_point::{decode, scale_and_zero};
use crate::kernel::values::{Blocks, MOST_OF_BLOCK, Values};
use crate::proof::Proof;
use crate::simd::{BELOW_HALF, InstructionSet, Kernel, SimdQuant};

/// Codes of 8 or 4 bits in groups of any number of channels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AsymmetricGroups {
    kernels: &'static AsymmetricKernels,
    rule: AsymmetricRule,
    /// Bits of a code, 8 or 4.
    bits: usize,
    /// Channels of a group.
    pub(crate) channels: usize,
}

/// The kernels of all groups: the width of a code and the rule are arguments.
#[derive(Debug)]
struct AsymmetricKernels {
    encode: fn(Proof, &mut EncodeAsymmetric<'_>),
    decode: fn(Proof, &mut DecodeAsymmetric<'_>),
}

static KERNELS: AsymmetricKernels = AsymmetricKernels {
    encode: |proof, groups| proof.run(groups),
    decode: |proof, groups| proof.run(groups),
};

/// The second number of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AsymmetricRule {
    ZeroPoint,
    Minimum,
}

/// Bytes of the scale and of the second number, in the byte order of the machine.
pub(crate) const NUMBERS: usize = 8;

impl AsymmetricGroups {
    pub(crate) const fn new(bits: usize, channels: usize, rule: AsymmetricRule) -> Self {
        AsymmetricGroups {
            kernels: &KERNELS,
            rule,
            bits,
            channels,
        }
    }

    /// Returns the codes of a byte.
    #[inline(always)]
    pub(crate) fn per_byte(&self) -> usize {
        8 / self.bits
    }

    /// Encodes whole groups: codes, and two numbers for each.
    pub(crate) fn encode(
        &self,
        proof: Proof,
        values: Values<'_>,
        codes: &mut [u8],
        numbers: &mut [u8],
    ) {
        let groups = &mut EncodeAsymmetric {
            format: *self,
            values,
            codes,
            numbers,
        };
        (self.kernels.encode)(proof, groups);
    }

    /// Decodes whole groups from their codes and numbers.
    pub(crate) fn decode(&self, proof: Proof, [codes, numbers]: [&[u8]; 2], values: &mut [f32]) {
        let groups = &mut DecodeAsymmetric {
            format: *self,
            codes,
            numbers,
            values,
        };
        (self.kernels.decode)(proof, groups);
    }

    fn most(&self) -> u8 {
        if self.bits == 8 { 255 } else { 15 }
    }
}

/// A kernel that encodes groups.
#[derive(Debug)]
struct EncodeAsymmetric<'a> {
    format: AsymmetricGroups,
    values: Values<'a>,
    codes: &'a mut [u8],
    numbers: &'a mut [u8],
}

impl Kernel for &mut EncodeAsymmetric<'_> {
    #[inline(always)]
    fn run<S: InstructionSet>(self, s: S) {
        let EncodeAsymmetric {
            format,
            values,
            codes,
            numbers,
        } = self;
        let (channels, rule) = (format.channels, format.rule);
        let width = channels / format.per_byte();
        // The bounds of four groups become numbers together.
        for (four, numbers) in numbers.chunks_mut(4 * NUMBERS).enumerate() {
            let first = 4 * four;
            let count = numbers.len() / NUMBERS;
            let least = match rule {
                AsymmetricRule::ZeroPoint => f32::MAX,
                AsymmetricRule::Minimum => f32::INFINITY,
            };
            let mut min = [s.splat(least); 4];
            let mut max = [s.splat(-least); 4];
            for group in 0..count {
                let start = (first + group) * channels;
                let group_values = values.part(start..start + channels);
                [min[group], max[group]] = bounds(s, group_values, [min[group], max[group]]);
            }
            let min = s.extreme_lanes::<false>(min);
            let max = s.extreme_lanes::<true>(max);
            for (group, numbers) in numbers.as_chunks_mut::<NUMBERS>().0.iter_mut().enumerate() {
                let pair = rule.numbers(format.most(), [min[group], max[group]]);
                numbers.copy_from_slice(cast_slice(&pair));
                let start = (first + group) * channels;
                let values = values.part(start..start + channels);
                let codes = &mut codes[(first + group) * width..][..width];
                match rule {
                    AsymmetricRule::ZeroPoint => {
                        let [by, zero] = [s.splat(1.0 / pair[0]), s.splat(pair[1])];
                        let most = format.most();
                        let code = ZeroPointCode { by, zero, most };
                        each_block(s, values, codes, format.bits, code);
                    }
                    AsymmetricRule::Minimum => {
                        let [scale, min] = [s.splat(pair[0]), s.splat(pair[1])];
                        let most = s.splat(f32::from(format.most()));
                        each_block(
                            s,
                            values,
                            codes,
                            format.bits,
                            MinimumCode { scale, min, most },
                        );
                    }
                }
            }
        }
    }
}

impl AsymmetricRule {
    /// Returns the scale and the second number of a group.
    #[inline(always)]
    fn numbers(self, most: u8, [min, max]: [f32; 2]) -> [f32; 2] {
        let most = f32::from(most);
        match self {
            AsymmetricRule::ZeroPoint => scale_and_zero(most, [min, max]),
            AsymmetricRule::Minimum if max > min => [(max - min) / most, min + 0.0],
            AsymmetricRule::Minimum => [1.0, min + 0.0],
        }
    }
}

/// Lowers and raises bounds per lane, ignoring NaNs.
#[inline(always)]
fn bounds<S: InstructionSet>(s: S, values: Values<'_>, [min, max]: [S::F32; 2]) -> [S::F32; 2] {
    let mut lanes = [[min; 4], [max; 4]];
    let blocks = values.blocks::<S>();
    for index in 0..blocks.len() {
        lanes = extended(s, lanes, blocks.load(s, index));
    }
    let rest = values.part(blocks.len() * Blocks::<S>::LEN..values.len());
    if rest.len() > 0 {
        let mut padded = [f32::NAN; MOST_OF_BLOCK];
        rest.widen(s, &mut padded);
        lanes = extended(s, lanes, Values::F32(&padded).blocks::<S>().load(s, 0));
    }
    let [[a, b, c, d], [e, f, g, h]] = lanes;
    [
        s.min_number(s.min_number(a, b), s.min_number(c, d)),
        s.max_number(s.max_number(e, f), s.max_number(g, h)),
    ]
}

#[inline(always)]
fn extended<S: SimdQuant>(
    s: S,
    [mut mins, mut maxs]: [[S::F32; 4]; 2],
    x: [S::F32; 4],
) -> [[S::F32; 4]; 2] {
    for (x, (min, max)) in x.into_iter().zip(mins.iter_mut().zip(&mut maxs)) {
        *min = s.min_number(*min, x);
        *max = s.max_number(*max, x);
    }
    [mins, maxs]
}

/// The code of a value of one group, a byte each.
trait UnsignedCode<S: SimdQuant>: Copy {
    fn codes(self, s: S, x: [S::F32; 4]) -> [S::Chunk<u8>; 4];
}

#[derive(Clone, Copy)]
struct ZeroPointCode<V> {
    by: V,
    zero: V,
    most: u8,
}

impl<S: SimdQuant> UnsignedCode<S> for ZeroPointCode<S::F32> {
    #[inline(always)]
    fn codes(self, s: S, [a, b, c, d]: [S::F32; 4]) -> [S::Chunk<u8>; 4] {
        let mut codes = s.store_u8_even([
            s.mul_add_f32(a, self.by, self.zero),
            s.mul_add_f32(b, self.by, self.zero),
            s.mul_add_f32(c, self.by, self.zero),
            s.mul_add_f32(d, self.by, self.zero),
        ]);
        for code in cast_slice_mut::<_, u8>(&mut codes) {
            *code = (*code).min(self.most);
        }
        codes
    }
}

#[derive(Clone, Copy)]
struct MinimumCode<V> {
    scale: V,
    min: V,
    most: V,
}

impl<S: SimdQuant> UnsignedCode<S> for MinimumCode<S::F32> {
    #[inline(always)]
    fn codes(self, s: S, x: [S::F32; 4]) -> [S::Chunk<u8>; 4] {
        let (zero, half) = (s.splat(0.0), s.splat(BELOW_HALF));
        let mut codes = [S::Chunk::<u8>::zeroed(); 4];
        for (codes, x) in codes.iter_mut().zip(x) {
            let x = s.max_number(zero, s.div(s.sub(x, self.min), self.scale));
            let x = s.add(s.min_number(self.most, x), half);
            *codes = S::map(s.truncate(x), |code: i32| code as u8);
        }
        codes
    }
}

/// Encodes the values of a group, four vectors at a time.
#[inline(always)]
fn each_block<S: InstructionSet>(
    s: S,
    values: Values<'_>,
    codes: &mut [u8],
    bits: usize,
    code: impl UnsignedCode<S>,
) {
    let blocks = values.blocks::<S>();
    let len = Blocks::<S>::LEN;
    for index in 0..blocks.len() {
        let mut block = code.codes(s, blocks.load(s, index));
        if blocks.even_odd() {
            block = s.interleave_codes(block);
        }
        put(
            cast_slice(&block),
            &mut codes[index * len * bits / 8..][..len * bits / 8],
            bits,
        );
    }
    let done = blocks.len() * len;
    let rest = values.part(done..values.len());
    if rest.len() > 0 {
        let block = code.codes(s, rest.padded(s));
        put(cast_slice(&block), &mut codes[done * bits / 8..], bits);
    }
}

/// Stores codes, two in a byte if they have 4 bits, the even channel in the high half.
#[inline(always)]
fn put(codes: &[u8], target: &mut [u8], bits: usize) {
    if bits == 8 {
        target.copy_from_slice(&codes[..target.len()]);
    } else {
        for (byte, [even, odd]) in target.iter_mut().zip(codes.as_chunks().0) {
            *byte = even << 4 | odd;
        }
    }
}

/// A kernel that decodes groups.
#[derive(Debug)]
struct DecodeAsymmetric<'a> {
    format: AsymmetricGroups,
    codes: &'a [u8],
    numbers: &'a [u8],
    values: &'a mut [f32],
}

impl Kernel for &mut DecodeAsymmetric<'_> {
    #[inline(always)]
    fn run<S: InstructionSet>(self, _: S) {
        let format = self.format;
        let groups = self.codes.chunks_exact(format.channels / format.per_byte());
        let groups = groups.zip(self.numbers.as_chunks::<NUMBERS>().0);
        let values = self.values.chunks_exact_mut(format.channels);
        for ((codes, &[a, b, c, d, e, f, g, h]), values) in groups.zip(values) {
            let [scale, second] = [[a, b, c, d], [e, f, g, h]].map(f32::from_ne_bytes);
            match format.rule {
                AsymmetricRule::ZeroPoint => {
                    decode(codes, values, format.bits, |code| (code - second) * scale);
                }
                AsymmetricRule::Minimum => {
                    decode(codes, values, format.bits, |code| second + code * scale);
                }
            }
        }
    }
}
