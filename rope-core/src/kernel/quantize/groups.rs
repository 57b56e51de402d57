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

use core::hint::black_box;
use core::marker::PhantomData;
use core::mem::size_of_val;

use bytemuck::cast_slice;

use super::{Convert8, E4m3, RUN};
use crate::kernel::values::{MOST_OF_BLOCK, Values, VectorPairs};
use crate::proof::Proof;
use crate::simd::{InstructionSet, Kernel, SimdQuant};

/// The kernels of a code with a scale per group.
#[derive(Debug)]
pub(crate) struct GroupKernels {
    /// Values per group.
    pub(crate) values: usize,
    /// Values per byte of codes.
    pub(crate) per_byte: usize,
    /// Encodes whole groups.
    pub(crate) encode: fn(Proof, &mut GroupEncoding<'_>),
    /// Decodes whole groups: codes, and scales.
    pub(crate) decode: fn(Proof, [&[u8]; 2], GroupRule, &mut [f32]),
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
    fn scales<C: GroupCode>(
        self,
        largest: &[f32; RUN],
        bits: &mut [u32; RUN],
        factors: &mut [f32; RUN],
    ) {
        let scales = largest.iter().zip(bits).zip(factors);
        let least = |largest: f32, least: f32| (largest / C::LARGEST).max(least);
        match self {
            GroupRule::Floor => {
                for ((largest, bits), factor) in scales {
                    *bits = (largest.to_bits() >> 23).saturating_sub(C::EXPONENT);
                    *factor = one_over_power(*bits);
                }
            }
            GroupRule::Even => {
                for ((largest, bits), factor) in scales {
                    *bits = ((largest.to_bits() + C::HALF) >> 23).saturating_sub(C::EXPONENT);
                    *factor = if *bits == 0 {
                        0.0
                    } else {
                        one_over_power(*bits)
                    };
                }
            }
            GroupRule::Up => {
                for ((largest, bits), factor) in scales {
                    let quotient = (largest / C::LARGEST).to_bits();
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
    /// Exponent of the largest code.
    const EXPONENT: u32 = (Self::LARGEST.to_bits() >> 23) - 127;
    /// Half of the last place of a mantissa, as bits of f32.
    const HALF: u32;
}

/// The 4-bit float with one mantissa bit, in the codes of an 8-bit float.
type E2m1 = super::CodedFloat<1, { 1.0_f32.to_bits() }, 8>;

impl GroupCode for E2m1 {
    const CODE: Self = E2m1 { most: 7 };
    const PER_BYTE: usize = 2;
    const HALF: u32 = 1 << 21;
}

impl GroupCode for E4m3 {
    const CODE: Self = E4m3 { most: 0x7e };
    const PER_BYTE: usize = 1;
    const HALF: u32 = 1 << 19;
}

/// Packs two codes of [`E2m1`] into a byte. A NaN has all bits set, and loses its sign, which depends on the machine.
#[inline(always)]
fn pack(pair: [u8; 2]) -> u8 {
    let pair = u16::from_le_bytes(pair);
    let halves = pair & 0x0707 | pair >> 4 & !(pair >> 3) & 0x0808;
    (halves | halves >> 4) as u8
}

/// Unpacks a byte into two codes of [`E2m1`].
#[inline(always)]
fn unpack(byte: u8) -> [u8; 2] {
    [byte, byte >> 4].map(|half| half & 7 | (half & 8) << 4)
}

/// Creates the kernels of groups of `LEN` values.
const fn kernels<C: GroupCode, const LEN: usize>() -> GroupKernels {
    // Vectors of a padded group must fill whole groups.
    assert!(
        LEN.is_multiple_of(16)
            && (MOST_OF_BLOCK.is_multiple_of(LEN) || LEN.is_multiple_of(MOST_OF_BLOCK))
    );
    GroupKernels {
        values: LEN,
        per_byte: C::PER_BYTE,
        encode: |proof, groups| {
            proof.run(EncodeGroups::<C, LEN> {
                groups,
                code: PhantomData,
            });
        },
        decode: |proof, source, rule, target| {
            proof.run(DecodeGroups::<C, LEN> {
                source,
                rule,
                target,
                code: PhantomData,
            });
        },
    }
}

pub(crate) static MXFP4: GroupKernels = kernels::<E2m1, 32>();
pub(crate) static MXFP8: GroupKernels = kernels::<E4m3, 32>();
pub(crate) static NVFP4: GroupKernels = kernels::<E2m1, 16>();
pub(crate) static E4M3_IN_64: GroupKernels = kernels::<E4m3, 64>();
pub(crate) static E4M3_IN_128: GroupKernels = kernels::<E4m3, 128>();

struct EncodeGroups<'e, 'a, C, const LEN: usize> {
    groups: &'e mut GroupEncoding<'a>,
    code: PhantomData<C>,
}

impl<C: GroupCode, const LEN: usize> Kernel for EncodeGroups<'_, '_, C, LEN> {
    #[inline(always)]
    fn run<S: InstructionSet>(self, s: S) {
        let GroupEncoding {
            values,
            rule,
            codes,
            scales,
        } = self.groups;
        let (values, rule, len) = (*values, *rule, values.len());
        let step = RUN * LEN;
        // The rest is padded with zeros, whose codes are discarded.
        let whole = len / MOST_OF_BLOCK * MOST_OF_BLOCK;
        for start in (0..whole).step_by(step) {
            let end = whole.min(start + step);
            let groups = GroupEncoding {
                values: values.part(start..end),
                rule,
                codes: &mut codes[start / C::PER_BYTE..end / C::PER_BYTE],
                scales: &mut scales[start / LEN * rule.bytes()..end / LEN * rule.bytes()],
            };
            Self::run_of(s, groups);
        }
        if whole < len {
            let (mut padded, mut padded_codes) = ([0.0; MOST_OF_BLOCK], [0; MOST_OF_BLOCK]);
            let mut padded_scales = [0; MOST_OF_BLOCK / 16 * 4];
            values.part(whole..len).widen(s, &mut padded);
            let groups = GroupEncoding {
                values: Values::F32(&padded),
                rule,
                codes: &mut padded_codes[..MOST_OF_BLOCK / C::PER_BYTE],
                scales: &mut padded_scales,
            };
            Self::run_of(s, groups);
            let codes = &mut codes[whole / C::PER_BYTE..len / C::PER_BYTE];
            codes.copy_from_slice(&padded_codes[..codes.len()]);
            let scales = &mut scales[whole / LEN * rule.bytes()..len / LEN * rule.bytes()];
            scales.copy_from_slice(&padded_scales[..scales.len()]);
        }
    }
}

impl<C: GroupCode, const LEN: usize> EncodeGroups<'_, '_, C, LEN> {
    /// Encodes at most [`RUN`] groups, in whole blocks of four vectors.
    #[inline(always)]
    fn run_of<S: InstructionSet>(s: S, groups: GroupEncoding<'_>) {
        let GroupEncoding {
            values,
            rule,
            codes,
            scales,
        } = groups;
        let count = values.len() / LEN;
        let mut largest = [0.0; RUN];
        if const { S::LANES == 1 } {
            for (index, largest) in largest.iter_mut().enumerate().take(count) {
                let group = values.part(index * LEN..(index + 1) * LEN);
                *largest = group.largest_magnitude(s);
            }
        } else {
            Self::magnitudes(s, values.pairs::<S>(), count, &mut largest);
        }
        let (mut bits, mut factors) = ([0; RUN], [0.0; RUN]);
        rule.scales::<C>(&largest, &mut bits, &mut factors);
        if rule.bytes() == 1 {
            for (scale, bits) in scales.iter_mut().zip(bits) {
                *scale = bits as u8;
            }
        } else {
            for (scale, bits) in scales.as_chunks_mut().0.iter_mut().zip(bits) {
                *scale = bits.to_ne_bytes();
            }
        }
        if const { S::LANES == 1 } {
            Self::plain(s, values, (&factors, rule.divides()), codes);
        } else {
            Self::codes(s, values.pairs::<S>(), (&factors, rule.divides()), codes);
        }
    }

    /// Computes the largest magnitude of each group, ignoring NaNs.
    #[inline(always)]
    fn magnitudes<S: SimdQuant>(
        s: S,
        values: VectorPairs<'_, S>,
        count: usize,
        largest: &mut [f32; RUN],
    ) {
        let zero = s.splat(0.0);
        for (quad, largest) in largest.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            let first = 4 * quad;
            if first >= count {
                break;
            }
            let mut lanes = [zero; 4];
            if const { S::LANES == LEN } {
                // Whole blocks of four vectors are four groups.
                let ([a, b], [c, d]) = (values.load(s, 2 * quad), values.load(s, 2 * quad + 1));
                for (lanes, x) in lanes.iter_mut().zip([a, b, c, d]) {
                    *lanes = s.max_magnitude(zero, x);
                }
            } else {
                let pairs = const { LEN.div_ceil(2 * S::LANES) };
                for (index, lanes) in lanes.iter_mut().enumerate() {
                    if first + index >= count {
                        break;
                    }
                    for pair in 0..pairs {
                        let pair = (first + index) * pairs + pair;
                        let [a, b] = values.load_in_any_order(s, pair);
                        *lanes = s.max_magnitude(s.max_magnitude(*lanes, a), b);
                    }
                }
            }
            *largest = s.extreme_lanes::<true>(lanes);
        }
    }

    /// Writes the codes of whole blocks of four vectors.
    #[inline(always)]
    fn codes<S: SimdQuant>(
        s: S,
        values: VectorPairs<'_, S>,
        (factors, divides): (&[f32; RUN], bool),
        target: &mut [u8],
    ) {
        let block = const { 4 * S::LANES };
        for (index, target) in target.chunks_exact_mut(block / C::PER_BYTE).enumerate() {
            let by =
                |vector: usize| s.splat(factors[(index * block + vector * S::LANES) / LEN % RUN]);
            let ([a, b], [c, d]) = (values.load(s, 2 * index), values.load(s, 2 * index + 1));
            let x = if divides {
                [
                    s.div(a, by(0)),
                    s.div(b, by(1)),
                    s.div(c, by(2)),
                    s.div(d, by(3)),
                ]
            } else {
                [
                    s.mul(a, by(0)),
                    s.mul(b, by(1)),
                    s.mul(c, by(2)),
                    s.mul(d, by(3)),
                ]
            };
            let codes = C::CODE.write(s, x);
            let bytes: &[u8] = cast_slice(&codes);
            debug_assert_eq!(bytes.len(), size_of_val(&codes));
            put::<C>(bytes, target);
        }
    }

    /// The definition, one lane at a time.
    #[inline(always)]
    fn plain<S: InstructionSet>(
        s: S,
        values: Values<'_>,
        (factors, divides): (&[f32; RUN], bool),
        target: &mut [u8],
    ) {
        let chunks = target.chunks_exact_mut(MOST_OF_BLOCK / C::PER_BYTE);
        for (index, target) in chunks.enumerate() {
            let (mut x, mut codes) = ([0.0; MOST_OF_BLOCK], [0; MOST_OF_BLOCK]);
            let start = index * MOST_OF_BLOCK;
            values.part(start..start + MOST_OF_BLOCK).widen(s, &mut x);
            for (channel, (x, code)) in x.iter().zip(&mut codes).enumerate() {
                let by = factors[(start + channel) / LEN % RUN];
                *code = C::CODE.round(if divides { x / by } else { x * by });
            }
            put::<C>(&codes, target);
        }
    }
}

/// Stores codes, packed if a byte has two.
#[inline(always)]
fn put<C: GroupCode>(codes: &[u8], target: &mut [u8]) {
    if C::PER_BYTE == 2 {
        for (pair, target) in codes.as_chunks().0.iter().zip(target) {
            *target = pack(*pair);
        }
    } else {
        target.copy_from_slice(codes);
    }
}

struct DecodeGroups<'a, C, const LEN: usize> {
    source: [&'a [u8]; 2],
    rule: GroupRule,
    target: &'a mut [f32],
    code: PhantomData<C>,
}

impl<C: GroupCode, const LEN: usize> Kernel for DecodeGroups<'_, C, LEN> {
    #[inline(always)]
    fn run<S: InstructionSet>(self, _: S) {
        let [codes, scales] = self.source;
        let groups = codes.chunks_exact(LEN / C::PER_BYTE);
        let scales = scales.chunks_exact(self.rule.bytes());
        let targets = self.target.as_chunks_mut::<LEN>().0;
        for ((codes, scale), values) in groups.zip(scales).zip(targets) {
            let [scale, factor] = self.rule.decoded(scale);
            let mut bytes = [0; LEN];
            if C::PER_BYTE == 2 {
                for (pair, byte) in bytes.as_chunks_mut().0.iter_mut().zip(codes) {
                    *pair = unpack(*byte);
                }
            } else {
                bytes.copy_from_slice(codes);
            }
            // The compiler vectorizes it.
            for (x, code) in values.iter_mut().zip(bytes) {
                *x = C::to_f32(code) * scale * factor;
            }
            // Without this the compiler would process many groups at once.
            black_box(());
        }
    }
}
