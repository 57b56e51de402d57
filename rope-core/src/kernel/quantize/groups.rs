//! Codes with a scale for each group of consecutive channels: the MX formats of OCP, NVFP4, and tiles of FP8.
//!
//! | scale | of a group whose largest magnitude is `m` | code of `x` |
//! |---|---|---|
//! | [`GroupRule::Floor`] | `2^e`, `e` the exponent of `m` less that of the largest code | `x / 2^e` |
//! | [`GroupRule::Even`] | likewise, `m` first rounded to the mantissa of the code | `x / 2^e`; 0 if `2^e` is the least |
//! | [`GroupRule::Up`] | the least `2^e` that is at least `max(m / largest code, least)` | `x / 2^e` |
//! | [`GroupRule::Tensor`] | E4M3 of `g (m r)`, `g = 1 / factor` and `r = 1 / 6` rounded | `x (1 / (scale (1 / g)))`; 0 if it is 0 |
//! | [`GroupRule::Float`] | `max(m / largest code, least)` in f32 | `x / scale` |
//! | [`GroupRule::PowerOfTwo`] | the least power of two that is at least that | `x / scale` |
//!
//! Magnitudes ignore NaNs. Codes of 8 bits are those of E4M3. Codes of 4 bits are E2M1, to nearest, ties to even, and
//! saturate; NaN is 6. The low half of a byte is the even channel.

use core::marker::PhantomData;
use core::ops::RangeInclusive;

use bytemuck::{cast_slice, must_cast};

use super::{Convert8, E4m3};
use crate::kernel::values::{MOST_OF_BLOCK, MOST_WIDENED, PairsWork, Values};
use crate::proof::Proof;
use crate::simd::convert::{E4M3_LEAST, nearest_f8};
use crate::simd::element::Convert;
use crate::simd::{E2M1_LEAST, InstructionSet, Kernel, SimdQuant};

/// A code with a scale per group. Scales and codes are one kernel per code: a kernel for each format takes more machine
/// code, and the same time, and kernels apart wait for the stores between them.
#[derive(Debug)]
pub(crate) struct GroupKernels {
    /// Values per group.
    pub(crate) values: usize,
    /// Values per byte of codes.
    pub(crate) per_byte: usize,
    /// Encodes whole blocks of [`MOST_OF_BLOCK`] values in groups. The argument is a reference: a copy waits for all
    /// stores in flight.
    blocks: fn(Proof, usize, &mut GroupEncoding<'_>),
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
    /// The least scale before it is rounded up; 0 if there is none.
    Up(f32),
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

    /// Computes scales of a byte from the largest magnitudes of some groups, and the factors of their values.
    #[inline(always)]
    fn byte_scales(
        self,
        code: CodeBounds,
        largest: &[f32; LEAST],
        factors: &mut [f32; LEAST],
    ) -> [u8; LEAST] {
        let mut bits = [0; LEAST];
        let scales = largest.iter().zip(&mut bits).zip(factors);
        match self {
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
            GroupRule::Up(at_least) => {
                for ((largest, bits), factor) in scales {
                    let quotient = (largest / code.largest).max(at_least).to_bits();
                    let exponent = ((quotient + FRACTION) >> 23).min(254);
                    // The least scale is subnormal in f32.
                    *bits = if quotient <= LEAST_POWER { 0 } else { exponent };
                    *factor = one_over_power(*bits);
                }
            }
            GroupRule::Tensor(factor) => {
                let [g, back] = of_tensor(factor);
                for ((largest, bits), factor) in scales {
                    let exact = g * (largest * ONE_SIXTH);
                    *bits = E4m3::CODE.round(exact).into();
                    let scale = nearest_f8::<3, E4M3_LEAST>(exact, E4m3::CODE.most);
                    *factor = if scale == 0.0 {
                        0.0
                    } else {
                        1.0 / (scale * back)
                    };
                }
            }
            _ => {
                for ((largest, bits), factor) in scales {
                    *bits = (largest.to_bits() >> 23).saturating_sub(code.exponent);
                    *factor = one_over_power(*bits);
                }
            }
        }
        bits.map(|bits| bits as u8)
    }

    /// Computes scales in f32, which values are divided by, from the largest magnitudes of some groups.
    #[inline(always)]
    fn float_scales(self, code: CodeBounds, largest: &[f32; LEAST], scales: &mut [f32; LEAST]) {
        let (at_least, fraction) = match self {
            GroupRule::PowerOfTwo(least) => (least, FRACTION),
            GroupRule::Float(least) => (least, 0),
            _ => (0.0, 0),
        };
        for (largest, scale) in largest.iter().zip(scales) {
            let quotient = (largest / code.largest).max(at_least);
            *scale = f32::from_bits((quotient.to_bits() + fraction) & !fraction);
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

    /// The fewest values of a group.
    const LEAST: usize;

    /// Returns true if [`GroupCode::put`] encodes even and odd elements.
    fn interleaves<S: SimdQuant>() -> bool;

    /// Encodes four vectors of values, or two pairs of even and odd ones. If values are quotients, `signs` has their
    /// signs, and otherwise the values.
    fn put<S: SimdQuant>(
        s: S,
        x: [S::F32; 4],
        signs: [S::F32; 4],
        even_odd: bool,
        target: &mut [u8],
    );
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
    const LEAST: usize = LEAST;

    #[inline(always)]
    fn interleaves<S: SimdQuant>() -> bool {
        S::PAIRS_E2M1
    }

    #[inline(always)]
    fn put<S: SimdQuant>(
        s: S,
        x: [S::F32; 4],
        _signs: [S::F32; 4],
        even_odd: bool,
        target: &mut [u8],
    ) {
        let codes = if even_odd {
            s.store_e2m1_even_odd(x)
        } else {
            s.store_e2m1(x)
        };
        target.copy_from_slice(cast_slice(&codes));
    }
}

impl GroupCode for E4m3 {
    const CODE: Self = E4m3 { most: 0x7e };
    const PER_BYTE: usize = 1;
    const DIVIDES: bool = true;
    const BOUNDS: CodeBounds = bounds(Self::LARGEST, 3);
    const LEAST: usize = 2 * LEAST;

    #[inline(always)]
    fn interleaves<S: SimdQuant>() -> bool {
        S::INTERLEAVES_CODES
    }

    #[inline(always)]
    fn put<S: SimdQuant>(
        s: S,
        x: [S::F32; 4],
        signs: [S::F32; 4],
        even_odd: bool,
        target: &mut [u8],
    ) {
        let mut codes = s.store_signed_f8::<3, E4M3_LEAST>(x, signs, Self::CODE.most);
        if even_odd {
            codes = s.interleave_codes(codes);
        }
        target.copy_from_slice(cast_slice(&codes));
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
    assert!(values.is_power_of_two() && values >= C::LEAST);
    GroupKernels {
        values,
        per_byte: C::PER_BYTE,
        blocks: |proof, group, groups| {
            proof.run(EncodeGroups::<C> {
                group,
                groups,
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

/// The fewest values of a group, and the groups whose scales are made together.
const LEAST: usize = 16;

/// Groups whose scales are computed before their codes: of NVFP4, 1024 values. Codes that wait for scales leave the CPU
/// nothing to do.
const RUN: usize = 64;

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
    pub(crate) fn encode(&self, proof: Proof, groups: &mut GroupEncoding<'_>) {
        if groups.values.len().is_multiple_of(MOST_OF_BLOCK) {
            (self.blocks)(proof, self.values, groups);
        } else {
            self.encode_padded(proof, groups);
        }
    }

    /// Encodes whole blocks, and the rest padded with zeros.
    #[inline(never)]
    fn encode_padded(&self, proof: Proof, groups: &mut GroupEncoding<'_>) {
        let GroupEncoding { values, rule, .. } = *groups;
        let whole = values.len() / MOST_OF_BLOCK * MOST_OF_BLOCK;
        let (codes, last_codes) = groups.codes.split_at_mut(whole / self.per_byte);
        let scales = self.scales(whole) * rule.bytes();
        let (scales, last_scales) = groups.scales.split_at_mut(scales);
        let blocks = &mut GroupEncoding {
            values: values.part(0..whole),
            rule,
            codes,
            scales,
        };
        (self.blocks)(proof, self.values, blocks);
        let mut padded = [0.0; MOST_OF_BLOCK];
        let (mut codes, mut scales) = ([0; MOST_OF_BLOCK], [0; MOST_OF_BLOCK / LEAST]);
        proof.run(Widen {
            values: values.part(whole..values.len()),
            target: &mut padded,
        });
        let blocks = &mut GroupEncoding {
            values: Values::F32(&padded),
            rule,
            codes: &mut codes[..MOST_OF_BLOCK / self.per_byte],
            scales: &mut scales[..self.scales(MOST_OF_BLOCK) * rule.bytes()],
        };
        (self.blocks)(proof, self.values, blocks);
        last_codes.copy_from_slice(&codes[..last_codes.len()]);
        last_scales.copy_from_slice(&scales[..last_scales.len()]);
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

/// A kernel that encodes whole blocks of [`MOST_OF_BLOCK`] values in groups of `group`.
struct EncodeGroups<'e, 'a, C> {
    group: usize,
    groups: &'e mut GroupEncoding<'a>,
    code: PhantomData<C>,
}

impl<C: GroupCode> Kernel for EncodeGroups<'_, '_, C> {
    #[inline(always)]
    fn run<S: InstructionSet>(self, s: S) {
        if const { S::GROUPS_OF_ELEMENTS } {
            return self.groups.values.run_on_pairs(s, self);
        }
        let (group, mut widened) = (self.group, [0.0; MOST_WIDENED]);
        let GroupEncoding {
            values,
            rule,
            codes,
            scales,
        } = self.groups;
        let parts = codes
            .chunks_mut(MOST_WIDENED / C::PER_BYTE)
            .zip(scales.chunks_mut((MOST_WIDENED >> group.trailing_zeros()) * rule.bytes()));
        for (index, (codes, scales)) in parts.enumerate() {
            let start = index * MOST_WIDENED;
            let values = values.part(start..values.len().min(start + MOST_WIDENED));
            let widened = &mut widened[..values.len()];
            values.widen(s, widened);
            let groups = &mut GroupEncoding {
                values,
                rule: *rule,
                codes,
                scales,
            };
            let part = EncodeGroups::<C> {
                group,
                groups,
                code: PhantomData,
            };
            PairsWork::run::<f32, S>(part, s, S::chunks(widened).as_chunks().0);
        }
    }
}

impl<C: GroupCode> PairsWork for EncodeGroups<'_, '_, C> {
    #[inline(always)]
    fn run<E: Convert, S: SimdQuant>(self, s: S, pairs: &[[S::Chunk<E::Bits>; 2]]) {
        let GroupEncoding {
            rule,
            codes,
            scales,
            ..
        } = self.groups;
        let step = RUN * self.group;
        let runs = pairs
            .chunks(step / const { 2 * S::LANES })
            .zip(codes.chunks_mut(step / C::PER_BYTE));
        for ((pairs, codes), scales) in runs.zip(scales.chunks_mut(RUN * rule.bytes())) {
            let (mut factors, mut reciprocals) = ([0.0; RUN], [0.0; RUN]);
            let divides = C::DIVIDES && rule.divides();
            let each = self.group / const { 2 * S::LANES };
            let fours = 4 * self.group / const { 2 * S::LANES };
            let mut largest = [0.0; RUN];
            let found = match each {
                0 | 1 => largest_of_bits::<1, E, S>(s, pairs, each == 0, &mut largest),
                2 if C::DIVIDES => largest_of_bits::<2, E, S>(s, pairs, false, &mut largest),
                4 if C::DIVIDES => largest_of_bits::<4, E, S>(s, pairs, false, &mut largest),
                _ => false,
            };
            if !found {
                largest_of_all::<E, S>(s, pairs, [each, fours], &mut largest);
            }
            // Groups whose number the compiler knows.
            let of_groups = largest.as_chunks::<LEAST>().0.iter();
            let of_groups = of_groups.zip(factors.as_chunks_mut::<LEAST>().0);
            let mut fuses = S::FUSES;
            if divides {
                let of_groups = of_groups.zip(reciprocals.as_chunks_mut::<LEAST>().0);
                for (((largest, factors), reciprocals), scales) in
                    of_groups.zip(scales.chunks_mut(4 * LEAST))
                {
                    rule.float_scales(C::BOUNDS, largest, factors);
                    if S::FUSES {
                        fuses &= reciprocals_of(factors, largest, reciprocals);
                    }
                    let made: [[u8; 16]; LEAST / 4] = must_cast(*factors);
                    for (made, scales) in made.iter().zip(scales.chunks_mut(16)) {
                        copy_prefix(made, scales);
                    }
                }
            } else {
                for ((largest, factors), scales) in of_groups.zip(scales.chunks_mut(LEAST)) {
                    let made = rule.byte_scales(C::BOUNDS, largest, factors);
                    copy_prefix(&made, scales);
                }
            }
            let by = if !divides {
                GroupOperation::Multiply
            } else if fuses {
                GroupOperation::Quotient(&reciprocals)
            } else {
                GroupOperation::Divide
            };
            encode_groups::<C, E, S>(s, pairs, (&factors, by, self.group), codes);
        }
    }
}

/// Copies as many bytes as the target has: all of them without a call.
#[inline(always)]
fn copy_prefix<const LEN: usize>(bytes: &[u8; LEN], target: &mut [u8]) {
    if let Some(target) = target.first_chunk_mut() {
        *target = *bytes;
    } else {
        target.copy_from_slice(&bytes[..target.len()]);
    }
}

/// Computes the largest magnitudes of at most [`RUN`] groups of `EACH` pairs of vectors, or of half a pair, from the
/// bits of elements. Returns false without an operation for that, and if an element is a NaN.
#[inline(always)]
fn largest_of_bits<const EACH: usize, E: Convert, S: SimdQuant>(
    s: S,
    pairs: &[[S::Chunk<E::Bits>; 2]],
    halves: bool,
    largest: &mut [f32; RUN],
) -> bool {
    let mut targets = S::chunks_mut(largest).iter_mut();
    for groups in pairs.as_chunks::<EACH>().0.chunks(16) {
        let Some(bits) = E::largest_bits(s, groups) else {
            return false;
        };
        let [low, high] = E::read(s, bits);
        if halves {
            let groups = s.interleave([low, high]);
            for (groups, target) in groups.into_iter().zip(&mut targets) {
                *target = s.store_f32(groups);
            }
        } else if let Some(target) = targets.next() {
            *target = s.store_f32(s.max_number(low, high));
        }
    }
    true
}

/// Computes the largest magnitudes of at most [`RUN`] groups of `each` pairs of vectors, ignoring NaNs.
///
/// Each store has the size of the loads after it, which would wait for several smaller ones.
#[inline(always)]
fn largest_of_all<E: Convert, S: SimdQuant>(
    s: S,
    pairs: &[[S::Chunk<E::Bits>; 2]],
    [each, fours]: [usize; 2],
    largest: &mut [f32; RUN],
) {
    if const { S::LANES == LEAST } && each == 0 {
        let zero = s.splat(0.0);
        let runs = largest.as_chunks_mut::<16>().0.iter_mut();
        for (largest, pairs) in runs.zip(pairs.chunks(8)) {
            let mut halves = [zero; 8];
            for (index, half) in halves.iter_mut().enumerate() {
                if let Some(pair) = pairs.get(index) {
                    *half = halves_of::<E, S>(s, *pair);
                }
            }
            *largest = s.largest_of_halves(halves);
        }
        return;
    }
    let mut pairs = pairs.chunks(fours);
    if const { S::LANES <= 4 } {
        for (largest, pairs) in largest.as_chunks_mut().0.iter_mut().zip(pairs) {
            *largest = largest_of_four::<E, S>(s, pairs, each);
        }
    } else {
        for largest in S::chunks_mut(largest) {
            if pairs.len() == 0 {
                break;
            }
            let mut lanes = s.splat(0.0);
            for _ in 0..const { S::LANES / 4 } {
                let four = match pairs.next() {
                    Some(pairs) => largest_of_four::<E, S>(s, pairs, each),
                    None => [0.0; 4],
                };
                lanes = s.append_four(lanes, four);
            }
            *largest = s.store_f32(lanes);
        }
    }
}

/// Returns the largest magnitudes of at most four groups of `each` pairs of vectors, ignoring NaNs. With fewer groups,
/// the other results are not used.
#[inline(always)]
fn largest_of_four<E: Convert, S: SimdQuant>(
    s: S,
    pairs: &[[S::Chunk<E::Bits>; 2]],
    each: usize,
) -> [f32; 4] {
    let zero = s.splat(0.0);
    let mut lanes = [zero; 4];
    // Four chains at a time. The first group stands for those that are missing.
    let first = pairs.get(..each).unwrap_or(&[]);
    let [b, c, d] = [1, 2, 3].map(|group| {
        let start = group * each;
        pairs.get(start..start + each).unwrap_or(first)
    });
    for (((a, b), c), d) in first.iter().zip(b).zip(c).zip(d) {
        let [of_a, of_b, of_c, of_d] = lanes;
        lanes = [
            larger::<E, S>(s, of_a, *a),
            larger::<E, S>(s, of_b, *b),
            larger::<E, S>(s, of_c, *c),
            larger::<E, S>(s, of_d, *d),
        ];
    }
    s.extreme_lanes::<true>(lanes)
}

/// Returns the magnitudes of a pair of vectors, which is two groups, ignoring NaNs: the larger ones of each group in a
/// half.
#[inline(always)]
fn halves_of<E: Convert, S: SimdQuant>(s: S, pair: [S::Chunk<E::Bits>; 2]) -> S::F32 {
    let zero = s.splat(0.0);
    if E::EVEN_ODD {
        return larger::<E, S>(s, zero, pair);
    }
    let [a, b] = E::read(s, pair);
    s.fold_halves([s.max_magnitude(zero, a), s.max_magnitude(zero, b)])
}

/// Returns, per lane, the larger of `largest` and the magnitudes of a pair of vectors, ignoring NaNs.
#[inline(always)]
fn larger<E: Convert, S: SimdQuant>(s: S, largest: S::F32, pair: [S::Chunk<E::Bits>; 2]) -> S::F32 {
    let [a, b] = E::read_even_odd(s, pair);
    s.max_magnitude(s.max_magnitude(largest, a), b)
}

/// The operation on values and the number of their group.
#[derive(Clone, Copy)]
enum GroupOperation<'a> {
    Multiply,
    Divide,
    /// Divides by means of reciprocals ([`reciprocals_of`]).
    Quotient(&'a [f32; RUN]),
}

/// Computes the reciprocals of scales. Returns true if [`quotient`] can use all of them.
#[inline(always)]
fn reciprocals_of(
    scales: &[f32; LEAST],
    largest: &[f32; LEAST],
    reciprocals: &mut [f32; LEAST],
) -> bool {
    // Between them, no remainder that matters to a code is subnormal, nor is a reciprocal.
    const USABLE: RangeInclusive<f32> =
        f32::from_bits((127 - 80) << 23)..=f32::from_bits((127 + 80) << 23);
    let mut usable = true;
    let numbers = scales.iter().zip(largest).zip(reciprocals);
    for ((scale, largest), reciprocal) in numbers {
        let inside = USABLE.contains(scale);
        *reciprocal = if inside { 1.0 / scale } else { 0.0 };
        usable &= inside | ((*scale > 0.0) & (*largest == 0.0));
    }
    usable
}

/// Computes quotients that have the codes of rounded quotients, except for the signs of zeros.
///
/// The product with the reciprocal is within 1.5 units in the last place of the quotient. The remainder corrects it to
/// a relative error below `2^-45`, before it is rounded again. Only a quotient that close to a bound of rounding is
/// rounded to another number, and only next to the midpoint of two codes does that change its code. With `x` and the
/// scale as integers of 24 bits, and the midpoint as `m` in 5 bits, `x 2^k` is then within 16 of
/// `scale (2^20 m + 1)` or `scale (2^20 m - 1)`, or within 32 next to a power of two. So the scale is within 32 of a
/// multiple of `2^20`. The suite `micro` tests all of these quotients.
#[inline(always)]
fn quotient<S: SimdQuant>(s: S, x: S::F32, negative_scale: S::F32, reciprocal: S::F32) -> S::F32 {
    let near = s.mul(x, reciprocal);
    let remainder = s.mul_add_f32(near, negative_scale, x);
    s.mul_add_f32(remainder, reciprocal, near)
}

/// Returns the numbers of the groups of four vectors, whose groups are `after` the first one.
#[inline(always)]
fn of_groups<C: GroupCode, S: SimdQuant>(
    s: S,
    numbers: &[f32; RUN],
    first: usize,
    after: [usize; 4],
    even_odd: bool,
) -> [S::F32; 4] {
    let [a, b, c, d] = after.map(|after| numbers[(first + after) % RUN]);
    if !even_odd {
        return [s.splat(a), s.splat(b), s.splat(c), s.splat(d)];
    }
    let [ab, cd] = if const { C::LEAST < 2 * S::LANES } {
        [s.splat_halves([a, b]), s.splat_halves([c, d])]
    } else {
        // A pair of vectors is in one group.
        [s.splat(a), s.splat(c)]
    };
    [ab, ab, cd, cd]
}

/// Encodes at most [`RUN`] groups by their factors, or their divisors.
#[inline(always)]
fn encode_groups<C: GroupCode, E: Convert, S: SimdQuant>(
    s: S,
    pairs: &[[S::Chunk<E::Bits>; 2]],
    (factors, by, group): (&[f32; RUN], GroupOperation<'_>, usize),
    codes: &mut [u8],
) {
    let block = const { 4 * S::LANES };
    let shift = group.trailing_zeros();
    // The groups of the vectors of a block, from its first one on.
    let after = [0, 1, 2, 3].map(|vector| (vector * S::LANES) >> shift);
    let even_odd = E::EVEN_ODD && C::interleaves::<S>();
    let targets = codes.chunks_exact_mut(block / C::PER_BYTE);
    for (index, ([ab, cd], target)) in pairs.as_chunks().0.iter().zip(targets).enumerate() {
        let first = (index * block) >> shift;
        let ([a, b], [c, d]) = if even_odd {
            (E::read_even_odd(s, *ab), E::read_even_odd(s, *cd))
        } else {
            (E::read(s, *ab), E::read(s, *cd))
        };
        let x = [a, b, c, d];
        let of = of_groups::<C, S>(s, factors, first, after, even_odd);
        match by {
            GroupOperation::Multiply => {
                let x = s.products(x, of);
                C::put(s, x, x, even_odd, target);
            }
            GroupOperation::Divide => {
                let x = [
                    s.div(a, of[0]),
                    s.div(b, of[1]),
                    s.div(c, of[2]),
                    s.div(d, of[3]),
                ];
                C::put(s, x, x, even_odd, target);
            }
            GroupOperation::Quotient(reciprocals) => {
                let [e, f, g, h] = of_groups::<C, S>(s, reciprocals, first, after, even_odd);
                let zero = s.splat(-0.0);
                let quotients = [
                    quotient(s, a, s.sub(zero, of[0]), e),
                    quotient(s, b, s.sub(zero, of[1]), f),
                    quotient(s, c, s.sub(zero, of[2]), g),
                    quotient(s, d, s.sub(zero, of[3]), h),
                ];
                C::put(s, quotients, x, even_odd, target);
            }
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
