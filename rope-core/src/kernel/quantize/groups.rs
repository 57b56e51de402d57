//! Codes with a scale for each group of consecutive channels: the MX formats of OCP, NVFP4, and tiles of FP8.
//!
//! | scale | of a group whose largest magnitude is `m` | code of `x` |
//! |---|---|---|
//! | [`GroupRule::Floor`] | `2^e`, `e` the exponent of `m` less that of the largest code | `x / 2^e` |
//! | [`GroupRule::Even`] | likewise, `m` first rounded to the mantissa of the code | `x / 2^e`; 0 if `2^e` is the least |
//! | [`GroupRule::Up`] | the least `2^e` that is at least `m / largest code` | `x / 2^e` |
//! | [`GroupRule::Tensor`] | E4M3 of `g (m r)`, `g = 1 / factor` and `r = 1 / 6` rounded | `x (1 / (scale (1 / g)))`; 0 if it is 0 |
//! | [`GroupRule::Float`] | `max(m / largest code, least)` in f32 | `x / scale` |
//! | [`GroupRule::PowerOfTwo`] | the least power of two that is at least that | `x / scale` |
//!
//! Magnitudes ignore NaNs. Codes of 8 bits are those of E4M3. Codes of 4 bits are E2M1, to nearest, ties to even, and
//! saturate; NaN is 6. The low half of a byte is the even channel.

use core::marker::PhantomData;

use bytemuck::cast_slice;

use super::{Convert8, E4m3, RUN};
use crate::kernel::values::{MOST_OF_BLOCK, PairsWork, Values};
use crate::proof::Proof;
use crate::simd::element::Convert;
use crate::simd::{E2M1_LEAST, InstructionSet, Kernel, SimdQuant};

/// A code with a scale per group. The scales of all formats are one kernel, and the codes one per code: a kernel for
/// each format takes four times the machine code, and the same time.
#[derive(Debug)]
pub(crate) struct GroupKernels {
    /// Values per group.
    pub(crate) values: usize,
    /// Values per byte of codes.
    pub(crate) per_byte: usize,
    bounds: CodeBounds,
    codes: fn(Proof, &mut GroupCodes<'_>),
    decode: fn(Proof, &mut GroupDecoding<'_>),
}

/// The numbers of a code that decide scales.
#[derive(Clone, Copy, Debug)]
struct CodeBounds {
    /// The largest code, as a number.
    largest: f32,
    /// Its exponent.
    exponent: u32,
    /// Half of the last place of a mantissa, as bits of f32.
    half: u32,
}

/// Some groups, and the targets of their codes and scales.
#[derive(Debug)]
pub(crate) struct GroupEncoding<'a> {
    pub(crate) values: Values<'a>,
    pub(crate) rule: GroupRule,
    pub(crate) codes: &'a mut [u8],
    pub(crate) scales: &'a mut [u8],
}

/// The rule of the scales of groups.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum GroupRule {
    Floor,
    Even,
    Up,
    /// The factor of the tensor.
    Tensor(f32),
    /// The least scale.
    Float(f32),
    /// The least scale before it is rounded up.
    PowerOfTwo(f32),
}

impl GroupRule {
    /// Returns the bytes of a scale.
    #[inline(always)]
    pub(crate) fn bytes(self) -> usize {
        match self {
            GroupRule::Float(_) | GroupRule::PowerOfTwo(_) => 4,
            _ => 1,
        }
    }

    /// Computes the scales of some groups as bits, and what their values are multiplied by, or divided by.
    #[inline(always)]
    fn scales(
        self,
        code: CodeBounds,
        largest: &[f32; RUN],
        bits: &mut [u32; RUN],
        factors: &mut [f32; RUN],
    ) {
        let scales = largest.iter().zip(bits).zip(factors);
        let least = |largest: f32, least: f32| (largest / code.largest).max(least);
        match self {
            GroupRule::Floor => {
                for ((largest, bits), factor) in scales {
                    *bits = (largest.to_bits() >> 23).saturating_sub(code.exponent);
                    *factor = one_over_power(*bits);
                }
            }
            GroupRule::Even => {
                for ((largest, bits), factor) in scales {
                    *bits = ((largest.to_bits() + code.half) >> 23).saturating_sub(code.exponent);
                    *factor = if *bits == 0 {
                        0.0
                    } else {
                        one_over_power(*bits)
                    };
                }
            }
            GroupRule::Up => {
                for ((largest, bits), factor) in scales {
                    let quotient = (largest / code.largest).to_bits();
                    let exponent = ((quotient + FRACTION) >> 23).min(254);
                    // The least scale is subnormal in f32.
                    *bits = if quotient <= LEAST_POWER { 0 } else { exponent };
                    *factor = one_over_power(*bits);
                }
            }
            GroupRule::Tensor(factor) => {
                let [g, back] = of_tensor(factor);
                for ((largest, bits), factor) in scales {
                    let scale = E4m3::CODE.round(g * (largest * ONE_SIXTH));
                    *bits = scale.into();
                    let scale = E4m3::to_f32(scale);
                    *factor = if scale == 0.0 {
                        0.0
                    } else {
                        1.0 / (scale * back)
                    };
                }
            }
            GroupRule::Float(at_least) => {
                for ((largest, bits), factor) in scales {
                    *factor = least(*largest, at_least);
                    *bits = factor.to_bits();
                }
            }
            GroupRule::PowerOfTwo(at_least) => {
                for ((largest, bits), factor) in scales {
                    *bits = (least(*largest, at_least).to_bits() + FRACTION) & !FRACTION;
                    *factor = f32::from_bits(*bits);
                }
            }
        }
    }

    /// Returns true if values are divided.
    #[inline(always)]
    fn divides(self) -> bool {
        self.bytes() == 4
    }

    /// Returns two factors of codes, in their order, from the bytes of a scale.
    #[inline(always)]
    fn decoded(self, scale: &[u8]) -> [f32; 2] {
        match (self, scale) {
            (GroupRule::Tensor(factor), &[scale, ..]) => [E4m3::to_f32(scale), factor],
            (GroupRule::Float(_) | GroupRule::PowerOfTwo(_), &[a, b, c, d, ..]) => {
                [f32::from_ne_bytes([a, b, c, d]), 1.0]
            }
            (_, &[u8::MAX, ..]) => [f32::NAN, 1.0],
            (_, &[scale, ..]) => [
                f32::from_bits((u32::from(scale) << 23).max(LEAST_POWER)),
                1.0,
            ],
            _ => [0.0, 1.0],
        }
    }
}

/// The fraction bits of an f32.
const FRACTION: u32 = 0x007f_ffff;

/// `2^-127`, the least scale of a power of two, as bits of f32.
const LEAST_POWER: u32 = 0x0040_0000;

/// The reciprocal of E2M1's largest code.
const ONE_SIXTH: f32 = 1.0 / 6.0;

/// Returns the reciprocal of a power of two, from its biased exponent: exact.
#[inline(always)]
fn one_over_power(exponent: u32) -> f32 {
    f32::from_bits(((254 - exponent) << 23).max(LEAST_POWER))
}

/// Returns the reciprocal of a tensor's factor, and the reciprocal of that, each rounded.
#[inline(always)]
fn of_tensor(factor: f32) -> [f32; 2] {
    let g = 1.0 / factor;
    [g, 1.0 / g]
}

/// A code in groups.
trait GroupCode: Convert8 {
    /// The code.
    const CODE: Self;
    /// Values per byte.
    const PER_BYTE: usize;
    /// True if a rule divides values by their scale.
    const DIVIDES: bool;
    const BOUNDS: CodeBounds;

    /// Encodes four vectors of values.
    fn put<S: SimdQuant>(s: S, x: [S::F32; 4], target: &mut [u8]);
}

/// Returns the numbers of a float code with `mantissa` bits.
const fn bounds(largest: f32, mantissa: u32) -> CodeBounds {
    CodeBounds {
        largest,
        exponent: (largest.to_bits() >> 23) - 127,
        half: 1 << (22 - mantissa),
    }
}

/// The 4-bit float with one mantissa bit, in the codes of an 8-bit float.
type E2m1 = super::CodedFloat<1, E2M1_LEAST, 8>;

impl GroupCode for E2m1 {
    const CODE: Self = E2m1 { most: 7 };
    const PER_BYTE: usize = 2;
    const DIVIDES: bool = false;
    const BOUNDS: CodeBounds = bounds(Self::LARGEST, 1);

    #[inline(always)]
    fn put<S: SimdQuant>(s: S, x: [S::F32; 4], target: &mut [u8]) {
        target.copy_from_slice(cast_slice(&s.store_e2m1(x)));
    }
}

impl GroupCode for E4m3 {
    const CODE: Self = E4m3 { most: 0x7e };
    const PER_BYTE: usize = 1;
    const DIVIDES: bool = true;
    const BOUNDS: CodeBounds = bounds(Self::LARGEST, 3);

    #[inline(always)]
    fn put<S: SimdQuant>(s: S, x: [S::F32; 4], target: &mut [u8]) {
        target.copy_from_slice(cast_slice(&Self::CODE.write(s, x)));
    }
}

/// Decodes the low half of a byte as a code of [`E2m1`].
#[inline(always)]
fn e2m1_to_f32(half: u8) -> f32 {
    let magnitude = half & 7;
    // Twice the number: 0, 1, 2, 3, 4, 6, 8, 12.
    let double = magnitude + magnitude.saturating_sub(4) + 2 * magnitude.saturating_sub(6);
    let sign = u32::from(half & 8) << 28;
    f32::from_bits((f32::from(double) * 0.5).to_bits() | sign)
}

/// Creates the kernels of groups of `values` values.
const fn kernels<C: GroupCode>(values: usize) -> GroupKernels {
    // Vectors of a padded group must fill whole groups.
    assert!(values.is_power_of_two() && values >= LEAST);
    GroupKernels {
        values,
        per_byte: C::PER_BYTE,
        bounds: C::BOUNDS,
        codes: |proof, codes| {
            proof.run(EncodeGroups::<C> {
                codes,
                code: PhantomData,
            });
        },
        decode: |proof, groups| {
            proof.run(DecodeGroups::<C> {
                groups,
                code: PhantomData,
            });
        },
    }
}

/// The fewest values of a group.
const LEAST: usize = 16;

/// The most values that are encoded together.
const MOST_VALUES: usize = 1024;

pub(crate) static MXFP4: GroupKernels = kernels::<E2m1>(32);
pub(crate) static MXFP8: GroupKernels = kernels::<E4m3>(32);
pub(crate) static NVFP4: GroupKernels = kernels::<E2m1>(16);
pub(crate) static E4M3_IN_64: GroupKernels = kernels::<E4m3>(64);
pub(crate) static E4M3_IN_128: GroupKernels = kernels::<E4m3>(128);

impl GroupKernels {
    /// Returns the groups of some values. A shift: a division would take as long as the codes of a group.
    #[inline]
    pub(crate) fn scales(&self, values: usize) -> usize {
        values >> self.values.trailing_zeros()
    }

    /// Encodes whole groups.
    pub(crate) fn encode(&self, proof: Proof, groups: GroupEncoding<'_>) {
        let GroupEncoding {
            values,
            rule,
            codes,
            scales,
        } = groups;
        let len = values.len();
        let step = MOST_VALUES.min(RUN * self.values);
        for start in (0..len).step_by(step) {
            let end = len.min(start + step);
            let codes = &mut codes[start / self.per_byte..end / self.per_byte];
            let scales = &mut scales[start / self.values * rule.bytes()..]
                [..(end - start) / self.values * rule.bytes()];
            let values = values.part(start..end);
            if values.len().is_multiple_of(MOST_OF_BLOCK) {
                self.encode_run(proof, values, rule, codes, scales);
            } else {
                self.encode_padded(proof, values, rule, codes, scales);
            }
        }
    }

    /// Encodes at most [`RUN`] groups that are padded with zeros.
    #[inline(never)]
    fn encode_padded(
        &self,
        proof: Proof,
        values: Values<'_>,
        rule: GroupRule,
        codes: &mut [u8],
        scales: &mut [u8],
    ) {
        let (mut padded, mut padded_codes) = ([0.0; MOST_VALUES], [0; MOST_VALUES]);
        let len = values.len();
        let target = &mut padded[..len];
        proof.run(Widen { values, target });
        let padded = &padded[..len.next_multiple_of(MOST_OF_BLOCK)];
        let padded_codes = &mut padded_codes[..padded.len() / self.per_byte];
        self.encode_run(proof, Values::F32(padded), rule, padded_codes, scales);
        codes.copy_from_slice(&padded_codes[..codes.len()]);
    }

    /// Encodes at most [`RUN`] groups, in whole blocks of [`MOST_OF_BLOCK`] values.
    fn encode_run(
        &self,
        proof: Proof,
        values: Values<'_>,
        rule: GroupRule,
        codes: &mut [u8],
        scales: &mut [u8],
    ) {
        let (mut bits, mut factors) = ([0; RUN], [0.0; RUN]);
        proof.run(&mut GroupScales {
            values,
            group: self.values,
            code: self.bounds,
            rule,
            bits: &mut bits,
            factors: &mut factors,
        });
        // All of a run, in vectors.
        if rule.bytes() == 1 {
            scales.copy_from_slice(&bits.map(|bits| bits as u8)[..scales.len()]);
        } else {
            scales.copy_from_slice(&cast_slice(&bits)[..scales.len()]);
        }
        let codes = &mut GroupCodes {
            values,
            group: self.values,
            factors: &factors,
            divides: rule.divides(),
            codes,
        };
        (self.codes)(proof, codes);
    }

    /// Decodes whole groups: codes, and scales.
    pub(crate) fn decode(
        &self,
        proof: Proof,
        [codes, scales]: [&[u8]; 2],
        rule: GroupRule,
        values: &mut [f32],
    ) {
        let groups = &mut GroupDecoding {
            codes,
            scales,
            group: self.values,
            rule,
            values,
        };
        (self.decode)(proof, groups);
    }
}

/// A kernel that converts values to f32.
pub(super) struct Widen<'a> {
    pub(super) values: Values<'a>,
    pub(super) target: &'a mut [f32],
}

impl Kernel for Widen<'_> {
    #[inline(always)]
    fn run<S: InstructionSet>(self, s: S) {
        self.values.widen(s, self.target);
    }
}

/// A kernel for the scales of at most [`RUN`] groups.
struct GroupScales<'a> {
    values: Values<'a>,
    /// Values per group.
    group: usize,
    code: CodeBounds,
    rule: GroupRule,
    /// The scales.
    bits: &'a mut [u32; RUN],
    /// The factors, or divisors, of the values of each group.
    factors: &'a mut [f32; RUN],
}

impl Kernel for &mut GroupScales<'_> {
    #[inline(always)]
    fn run<S: InstructionSet>(self, s: S) {
        let mut largest = [0.0; RUN];
        let (group, target) = (self.group, &mut largest);
        self.values.run_on_pairs(s, Magnitudes { group, target });
        // All of a run, whose number the compiler knows.
        self.rule
            .scales(self.code, &largest, self.bits, self.factors);
    }
}

/// Computes the largest magnitude of each group, ignoring NaNs.
struct Magnitudes<'a> {
    group: usize,
    target: &'a mut [f32; RUN],
}

impl PairsWork for Magnitudes<'_> {
    #[inline(always)]
    fn run<E: Convert, S: SimdQuant>(self, s: S, pairs: &[[S::Chunk<E::Bits>; 2]]) {
        let zero = s.splat(0.0);
        let targets = self.target.as_chunks_mut::<4>().0;
        match self.group / const { 2 * S::LANES } {
            0 => {
                // Two pairs of vectors are four groups.
                for ([ab, cd], target) in pairs.as_chunks().0.iter().zip(targets) {
                    let ([a, b], [c, d]) = (E::read(s, *ab), E::read(s, *cd));
                    let lanes = [
                        s.max_magnitude(zero, a),
                        s.max_magnitude(zero, b),
                        s.max_magnitude(zero, c),
                        s.max_magnitude(zero, d),
                    ];
                    *target = s.extreme_lanes::<true>(lanes);
                }
            }
            1 if const { S::LANES > 4 } => {
                for (quad, target) in pairs.chunks(4).zip(targets) {
                    let mut lanes = [zero; 4];
                    for (lanes, pair) in lanes.iter_mut().zip(quad) {
                        *lanes = largest_of_pair::<E, S>(s, zero, *pair);
                    }
                    *target = s.extreme_lanes::<true>(lanes);
                }
            }
            each => {
                let mut groups = pairs.chunks(each);
                for target in targets.iter_mut().take(pairs.len().div_ceil(4 * each)) {
                    let mut lanes = [zero; 4];
                    for lanes in &mut lanes {
                        for pair in groups.next().unwrap_or(&[]) {
                            *lanes = largest_of_pair::<E, S>(s, *lanes, *pair);
                        }
                    }
                    *target = s.extreme_lanes::<true>(lanes);
                }
            }
        }
    }
}

#[inline(always)]
fn largest_of_pair<E: Convert, S: SimdQuant>(
    s: S,
    largest: S::F32,
    pair: [S::Chunk<E::Bits>; 2],
) -> S::F32 {
    let [a, b] = E::read_even_odd(s, pair);
    s.max_magnitude(s.max_magnitude(largest, a), b)
}

/// Values of some groups with the factors of each group, and the target of their codes.
#[derive(Debug)]
struct GroupCodes<'a> {
    values: Values<'a>,
    /// Values per group.
    group: usize,
    factors: &'a [f32; RUN],
    /// True if values are divided.
    divides: bool,
    codes: &'a mut [u8],
}

struct EncodeGroups<'e, 'a, C> {
    codes: &'e mut GroupCodes<'a>,
    code: PhantomData<C>,
}

impl<C: GroupCode> Kernel for EncodeGroups<'_, '_, C> {
    #[inline(always)]
    fn run<S: InstructionSet>(self, s: S) {
        self.codes.values.run_on_pairs(s, self);
    }
}

impl<C: GroupCode> PairsWork for EncodeGroups<'_, '_, C> {
    #[inline(always)]
    fn run<E: Convert, S: SimdQuant>(self, s: S, pairs: &[[S::Chunk<E::Bits>; 2]]) {
        let GroupCodes {
            group,
            factors,
            divides,
            codes,
            ..
        } = self.codes;
        let (shift, divides) = (group.trailing_zeros(), C::DIVIDES && *divides);
        let factor = |value: usize| factors[(value >> shift) % RUN];
        let block = const { 4 * S::LANES };
        let targets = codes.chunks_exact_mut(block / C::PER_BYTE);
        for (index, ([ab, cd], target)) in pairs.as_chunks().0.iter().zip(targets).enumerate() {
            let by = |vector: usize| s.splat(factor(index * block + vector * S::LANES));
            let by = [by(0), by(1), by(2), by(3)];
            let ([a, b], [c, d]) = (E::read(s, *ab), E::read(s, *cd));
            let x = if divides {
                [
                    s.div(a, by[0]),
                    s.div(b, by[1]),
                    s.div(c, by[2]),
                    s.div(d, by[3]),
                ]
            } else {
                s.products([a, b, c, d], by)
            };
            C::put(s, x, target);
        }
    }
}

/// Codes and scales of some groups, and the target of their values.
#[derive(Debug)]
struct GroupDecoding<'a> {
    codes: &'a [u8],
    scales: &'a [u8],
    /// Values per group.
    group: usize,
    rule: GroupRule,
    values: &'a mut [f32],
}

struct DecodeGroups<'e, 'a, C> {
    groups: &'e mut GroupDecoding<'a>,
    code: PhantomData<C>,
}

impl<C: GroupCode> Kernel for DecodeGroups<'_, '_, C> {
    #[inline(always)]
    fn run<S: InstructionSet>(self, s: S) {
        let GroupDecoding {
            codes,
            scales,
            group,
            rule,
            values,
        } = self.groups;
        // The compiler vectorizes these loops.
        if C::PER_BYTE == 1 {
            for (x, code) in values.iter_mut().zip(*codes) {
                *x = C::to_f32(*code);
            }
        } else {
            let mut unpacked = [0; 2 * UNPACKED];
            for (bytes, values) in codes.chunks(UNPACKED).zip(values.chunks_mut(2 * UNPACKED)) {
                for (pair, byte) in unpacked.as_chunks_mut().0.iter_mut().zip(bytes) {
                    *pair = [*byte, *byte >> 4];
                }
                for (x, code) in values.iter_mut().zip(&unpacked) {
                    *x = e2m1_to_f32(*code);
                }
            }
        }
        let scales = scales.chunks_exact(rule.bytes());
        for (values, scale) in values.chunks_exact_mut(*group).zip(scales) {
            let [scale, factor] = rule.decoded(scale);
            let (scale, factor) = (s.splat(scale), s.splat(factor));
            for x in S::chunks_mut(values) {
                *x = s.store_f32(s.mul(s.mul(s.load_f32(*x), scale), factor));
            }
        }
    }
}

/// Bytes of codes that are unpacked together.
const UNPACKED: usize = 64;
