//! Unsigned codes with a scale and an offset for each channel of a group of tokens: OpenVINO's u8 and u4 by channel,
//! and KIVI's keys of 2 and 4 bits.
//!
//! `most` is the largest code, and `min` and `max` are the bounds of a channel over the tokens of a group.
//!
//! | | OpenVINO, each operation rounded to f32 | KIVI, each operation rounded to f16 |
//! |---|---|---|
//! | scale | `(max - min) (1 / most)`; 0.0001 if that is 0 | `(max - min) / most` |
//! | offset | a zero point `-min / scale` | `min` |
//! | code of `x` | `x (1 / scale) + offset` by a fused multiply-add | `(x - offset) / scale` |
//! | value of a code | `(code - offset) scale` | `code scale + offset`, in f32 |
//!
//! Both round codes to nearest, ties to even, and saturate at 0 and at `most`. KIVI's values are rounded to f16 first.
//! The formulas of OpenVINO are those of its vector code on x86; its plain code divides by `most`, and rounds
//! `x / scale + offset`, halves away from zero. KIVI decodes in f16 (in Python) or in f32 (in its kernels).
//!
//! The bounds ignore NaNs. NaNs have code 0; so do sums of OpenVINO's from 2^31 on, as `cvtps2dq` makes them. A channel
//! of KIVI's whose scale is 0 decodes to `min`.

use core::marker::PhantomData;

use bytemuck::cast_slice;
use half::f16;

use crate::kernel::values::{MOST_OF_BLOCK, Values};
use crate::proof::Proof;
use crate::simd::convert::{f16_to_f32, f32_to_f16, f32_to_u8_even, mul_add};
use crate::simd::element::Convert;
use crate::simd::{InstructionSet, Kernel, SimdQuant};

/// Codes with numbers per channel. A group of tokens is a block of bytes for each head: the scales of all channels,
/// their offsets, the codes.
#[derive(Debug)]
pub(crate) struct ChannelKernels {
    /// Bits per code.
    bits: usize,
    /// Bytes of a scale, or of an offset.
    unit: usize,
    /// True if the codes of a channel are contiguous, the first token in the lowest bits. False if the codes of a token
    /// are: codes of 4 bits have the even channel in the high half of a byte.
    along_tokens: bool,
    /// The smallest and the largest value of no values.
    pub(crate) no_bounds: [f32; 2],
    /// Widens the bounds of channels by the values of a token.
    pub(crate) widen_bounds: fn(Proof, Values<'_>, [&mut [f32]; 2]),
    /// Replaces the bounds of channels by factors and offsets, and computes their scales, by the largest code.
    numbers: fn(Proof, f32, [&mut [f32]; 3]),
    encode: fn(Proof, &mut ChannelEncoding<'_>),
    decode: fn(Proof, &mut ChannelDecoding<'_>),
    /// Stores numbers.
    store: fn(Proof, &[f32], &mut [u8]),
}

/// The numbers of a channel.
#[derive(Clone, Copy, Debug)]
struct ChannelNumbers {
    scale: f32,
    offset: f32,
    /// The factor of values, or their divisor.
    factor: f32,
}

/// The channels of a head that have codes in a group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupPlace {
    /// Tokens per group.
    pub(crate) tokens: usize,
    /// Channels of the head.
    pub(crate) head_dim: usize,
    /// The token in the group.
    pub(crate) token: usize,
    /// The first channel.
    pub(crate) channel: usize,
}

/// The most values that are encoded together.
pub(crate) const PIECE: usize = 256;

/// The most values that are decoded together.
const DECODED: usize = 64;

impl ChannelKernels {
    /// Returns the bytes of a head in a group of tokens.
    pub(crate) fn bytes(&self, tokens: usize, head_dim: usize) -> Option<usize> {
        let codes = tokens.checked_mul(head_dim)?.checked_mul(self.bits)? / 8;
        head_dim.checked_mul(2 * self.unit)?.checked_add(codes)
    }

    /// Returns the number of channels in a head of `bytes` bytes.
    pub(crate) fn channels(&self, tokens: usize, bytes: usize) -> usize {
        // Without channels there may be any number of tokens.
        let bits = (tokens.saturating_mul(self.bits)).saturating_add(16 * self.unit);
        bytes / bits * 8 + (bytes % bits).saturating_mul(8) / bits
    }

    /// Returns the number that tokens, or channels, must be a multiple of.
    pub(crate) fn multiples(&self) -> [usize; 2] {
        match self.along_tokens {
            true => [32 / self.bits, 1],
            false => [1, 8 / self.bits],
        }
    }

    /// Replaces the bounds of channels by factors and offsets, and computes their scales.
    pub(crate) fn numbers(&self, proof: Proof, bounds_and_scales: [&mut [f32]; 3]) {
        (self.numbers)(proof, most(self.bits).into(), bounds_and_scales);
    }

    /// Stores the scales and the offsets of channels in a head of a group.
    pub(crate) fn store(
        &self,
        proof: Proof,
        [scales, offsets]: [&[f32]; 2],
        place: GroupPlace,
        head: &mut [u8],
    ) {
        let (of_scales, rest) = head.split_at_mut(place.head_dim * self.unit);
        for (bytes, numbers) in [(of_scales, scales), (rest, offsets)] {
            let first = place.channel * self.unit;
            let bytes = &mut bytes[first..][..numbers.len() * self.unit];
            (self.store)(proof, numbers, bytes);
        }
    }

    /// Encodes at most [`PIECE`] values of a token as channels of a head of a group. If the codes of a channel are
    /// contiguous, `bytes` keeps those of a byte until its last token.
    pub(crate) fn encode(
        &self,
        proof: Proof,
        values: Values<'_>,
        [factors, offsets]: [&[f32]; 2],
        place: GroupPlace,
        (head, bytes): (&mut [u8], &mut [u8]),
    ) {
        let target = &mut head[place.head_dim * 2 * self.unit..];
        let (first, step, shift) = self.first_code(place);
        let target = &mut target[first..];
        let codes = match self.along_tokens {
            true => &mut *bytes,
            false => &mut target[..values.len() * self.bits / 8],
        };
        (self.encode)(
            proof,
            &mut ChannelEncoding {
                values,
                factors,
                offsets,
                bits: self.bits,
                shift,
                codes,
            },
        );
        if self.along_tokens && shift + self.bits == 8 {
            for (target, byte) in target.iter_mut().step_by(step).zip(bytes) {
                *target = *byte;
            }
        }
    }

    /// Returns the byte of the first code. Then, if the codes of a channel are contiguous, the bytes from one channel
    /// to the next, and the first bit.
    fn first_code(&self, place: GroupPlace) -> (usize, usize, usize) {
        let bit = place.token * self.bits;
        let step = place.tokens * self.bits / 8;
        match self.along_tokens {
            true => (place.channel * step + bit / 8, step, bit % 8),
            false => ((bit * place.head_dim + place.channel * self.bits) / 8, 1, 0),
        }
    }

    /// Decodes all channels of a token from a head of a group.
    pub(crate) fn decode(&self, proof: Proof, place: GroupPlace, head: &[u8], values: &mut [f32]) {
        let (scales, rest) = head.split_at(place.head_dim * self.unit);
        let (offsets, source) = rest.split_at(place.head_dim * self.unit);
        let (code, step, shift) = self.first_code(place);
        let (first, byte) = match self.along_tokens {
            true => (0, code),
            false => (code, 0),
        };
        (self.decode)(
            proof,
            &mut ChannelDecoding {
                codes: &source[first..],
                step,
                byte,
                shift,
                bits: self.bits,
                scales,
                offsets,
                values,
            },
        );
    }
}

/// Returns the largest code.
fn most(bits: usize) -> u8 {
    ((1 << bits) - 1) as u8
}

/// Values of a token, their numbers, and the targets of their codes.
#[derive(Debug)]
struct ChannelEncoding<'a> {
    values: Values<'a>,
    factors: &'a [f32],
    offsets: &'a [f32],
    bits: usize,
    /// The first bit of a code, if its byte has those of other tokens.
    shift: usize,
    codes: &'a mut [u8],
}

/// Codes of a token, the bytes of their numbers, and the targets of their values.
#[derive(Debug)]
struct ChannelDecoding<'a> {
    /// The codes of the token; of all tokens, if the codes of a channel are contiguous.
    codes: &'a [u8],
    /// Then, bytes from one channel to the next, the byte of a code, and its first bit.
    step: usize,
    byte: usize,
    shift: usize,
    bits: usize,
    scales: &'a [u8],
    offsets: &'a [u8],
    values: &'a mut [f32],
}

/// The formulas and the memory of an engine.
trait ChannelRule {
    /// Bytes of a scale, or of an offset.
    const UNIT: usize;

    /// [`ChannelKernels::along_tokens`].
    const ALONG_TOKENS: bool;

    /// [`ChannelKernels::no_bounds`].
    const NO_BOUNDS: [f32; 2];

    /// Computes the numbers of a channel from the largest code and the bounds.
    fn numbers(most: f32, bounds: [f32; 2]) -> ChannelNumbers;

    /// Decodes at most [`DECODED`] codes, a byte each, by the bytes of their scales and offsets.
    fn decode<S: InstructionSet>(s: S, codes: &[u8], numbers: [&[u8]; 2], values: &mut [f32]);

    /// Stores numbers.
    fn store<S: InstructionSet>(s: S, numbers: &[f32], bytes: &mut [u8]);

    /// Rounds values as they are before anything else.
    fn round<S: SimdQuant>(s: S, x: [S::F32; 4]) -> [S::F32; 4];

    /// Rounds one value likewise.
    fn round_lane(x: f32) -> f32;

    /// Scales rounded values: codes before they become integers. They are at most `most`, unless codes saturate later.
    fn scale<S: SimdQuant>(
        s: S,
        x: [S::F32; 4],
        numbers: [[S::F32; 4]; 2],
        most: f32,
    ) -> [S::F32; 4];

    /// Scales one value likewise.
    fn scale_lane(x: f32, numbers: [f32; 2], most: f32) -> f32;
}

/// OpenVINO's formulas.
struct OpenVino;

impl ChannelRule for OpenVino {
    const UNIT: usize = 4;
    const ALONG_TOKENS: bool = false;
    const NO_BOUNDS: [f32; 2] = [f32::MAX, -f32::MAX];

    #[inline(always)]
    fn numbers(most: f32, [min, max]: [f32; 2]) -> ChannelNumbers {
        let scale = (max - min) * (1.0 / most);
        let scale = one_nan(if scale == 0.0 { 0.0001 } else { scale });
        ChannelNumbers {
            scale,
            // Zeros of either sign compare as equal, and the bounds are either.
            offset: one_nan((0.0 - min) / scale),
            factor: 1.0 / scale,
        }
    }

    #[inline(always)]
    fn decode<S: InstructionSet>(
        _: S,
        codes: &[u8],
        [scales, offsets]: [&[u8]; 2],
        values: &mut [f32],
    ) {
        let numbers = scales.as_chunks().0.iter().zip(offsets.as_chunks().0);
        for ((x, code), (scale, offset)) in values.iter_mut().zip(codes).zip(numbers) {
            *x = (f32::from(*code) - f32::from_le_bytes(*offset)) * f32::from_le_bytes(*scale);
        }
    }

    #[inline(always)]
    fn store<S: InstructionSet>(_: S, numbers: &[f32], bytes: &mut [u8]) {
        for (bytes, number) in bytes.as_chunks_mut().0.iter_mut().zip(numbers) {
            *bytes = number.to_le_bytes();
        }
    }

    #[inline(always)]
    fn round<S: SimdQuant>(_: S, x: [S::F32; 4]) -> [S::F32; 4] {
        x
    }

    #[inline(always)]
    fn round_lane(x: f32) -> f32 {
        x
    }

    #[inline(always)]
    fn scale<S: SimdQuant>(
        s: S,
        mut x: [S::F32; 4],
        [factors, offsets]: [[S::F32; 4]; 2],
        _: f32,
    ) -> [S::F32; 4] {
        for (x, (factor, offset)) in x.iter_mut().zip(factors.iter().zip(offsets)) {
            *x = s.mul_add_f32(*x, *factor, offset);
        }
        x
    }

    #[inline(always)]
    fn scale_lane(x: f32, [factor, offset]: [f32; 2], _: f32) -> f32 {
        mul_add(x, factor, offset)
    }
}

/// KIVI's formulas.
struct Kivi;

impl ChannelRule for Kivi {
    const UNIT: usize = 2;
    const ALONG_TOKENS: bool = true;
    const NO_BOUNDS: [f32; 2] = [f32::INFINITY, f32::NEG_INFINITY];

    #[inline(always)]
    fn numbers(most: f32, [min, max]: [f32; 2]) -> ChannelNumbers {
        // Never a negative zero, as the bounds are zeros of either sign.
        let scale = one_nan(to_f16(to_f16(max - min) / most) + 0.0);
        ChannelNumbers {
            scale,
            offset: min + 0.0,
            factor: scale,
        }
    }

    #[inline(always)]
    fn decode<S: InstructionSet>(s: S, codes: &[u8], numbers: [&[u8]; 2], values: &mut [f32]) {
        let [scales, offsets] = numbers;
        let (scales, offsets) = (widen_f16(s, scales), widen_f16(s, offsets));
        // A loop of a known length.
        let mut decoded = [0.0; DECODED];
        let numbers = scales.iter().zip(offsets);
        for ((x, code), (scale, offset)) in decoded.iter_mut().zip(codes).zip(numbers) {
            *x = f32::from(*code) * scale + offset;
        }
        values.copy_from_slice(&decoded[..values.len()]);
    }

    #[inline(always)]
    fn store<S: InstructionSet>(_: S, numbers: &[f32], bytes: &mut [u8]) {
        for (bytes, number) in bytes.as_chunks_mut().0.iter_mut().zip(numbers) {
            *bytes = f32_to_f16(*number).to_le_bytes();
        }
    }

    #[inline(always)]
    fn round<S: SimdQuant>(s: S, [a, b, c, d]: [S::F32; 4]) -> [S::F32; 4] {
        let [[a, b], [c, d]] = f16::round(s, [[a, b], [c, d]]);
        [a, b, c, d]
    }

    #[inline(always)]
    fn round_lane(x: f32) -> f32 {
        to_f16(x)
    }

    #[inline(always)]
    fn scale<S: SimdQuant>(
        s: S,
        mut x: [S::F32; 4],
        [factors, offsets]: [[S::F32; 4]; 2],
        most: f32,
    ) -> [S::F32; 4] {
        for (x, offset) in x.iter_mut().zip(offsets) {
            *x = s.sub(*x, offset);
        }
        x = Self::round(s, x);
        for (x, factor) in x.iter_mut().zip(factors) {
            *x = s.div(*x, factor);
        }
        x = Self::round(s, x);
        // A NaN is 0, and an infinity the largest code.
        let (zero, most) = (s.splat(0.0), s.splat(most));
        for x in &mut x {
            *x = s.min_number(most, s.max_number(zero, *x));
        }
        x
    }

    #[inline(always)]
    fn scale_lane(x: f32, [factor, offset]: [f32; 2], most: f32) -> f32 {
        let x = to_f16(to_f16(x - offset) / factor);
        let x = if x > 0.0 { x } else { 0.0 };
        if x < most { x } else { most }
    }
}

/// Reads numbers in f16, as many as there are.
#[inline(always)]
fn widen_f16<S: InstructionSet>(s: S, bytes: &[u8]) -> [f32; DECODED] {
    let (mut bits, mut numbers) = ([0; DECODED], [0.0; DECODED]);
    for (bits, bytes) in bits.iter_mut().zip(bytes.as_chunks().0) {
        *bits = u16::from_le_bytes(*bytes);
    }
    Values::F16(&bits).widen(s, &mut numbers);
    numbers
}

/// Rounds a number to f16.
#[inline(always)]
fn to_f16(x: f32) -> f32 {
    f16_to_f32(f32_to_f16(x))
}

/// Replaces a NaN: the sign of a new one depends on the machine.
#[inline(always)]
fn one_nan(x: f32) -> f32 {
    if x.is_nan() { f32::NAN } else { x }
}

const fn kernels<R: ChannelRule>(bits: usize) -> ChannelKernels {
    ChannelKernels {
        bits,
        unit: R::UNIT,
        along_tokens: R::ALONG_TOKENS,
        no_bounds: R::NO_BOUNDS,
        widen_bounds: |proof, values, bounds| {
            proof.run(WidenBounds::<R> {
                values,
                bounds,
                rule: PhantomData,
            });
        },
        numbers: |proof, most, bounds_and_scales| {
            proof.run(ComputeNumbers::<R> {
                most,
                bounds_and_scales,
                rule: PhantomData,
            });
        },
        encode: |proof, encoding| {
            proof.run(EncodeChannels::<R> {
                encoding,
                rule: PhantomData,
            });
        },
        decode: |proof, decoding| {
            proof.run(DecodeChannels::<R> {
                decoding,
                rule: PhantomData,
            });
        },
        store: |proof, numbers, bytes| {
            proof.run(StoreNumbers::<R> {
                numbers,
                bytes,
                rule: PhantomData,
            });
        },
    }
}

pub(crate) static U8_BY_CHANNEL: ChannelKernels = kernels::<OpenVino>(8);
pub(crate) static U4_BY_CHANNEL: ChannelKernels = kernels::<OpenVino>(4);
pub(crate) static KIVI_2: ChannelKernels = kernels::<Kivi>(2);
pub(crate) static KIVI_4: ChannelKernels = kernels::<Kivi>(4);

/// A kernel that widens the bounds of channels.
struct WidenBounds<'a, R> {
    values: Values<'a>,
    /// The smallest and the largest value of each channel.
    bounds: [&'a mut [f32]; 2],
    rule: PhantomData<R>,
}

impl<R: ChannelRule> Kernel for WidenBounds<'_, R> {
    #[inline(always)]
    fn run<S: InstructionSet>(self, s: S) {
        let WidenBounds {
            values,
            bounds: [smallest, largest],
            ..
        } = self;
        let pairs = values.pairs::<S>();
        let blocks = values.len() / const { 4 * S::LANES };
        let (smallest, rest_of_smallest) = smallest.split_at_mut(blocks * 4 * S::LANES);
        let (largest, rest_of_largest) = largest.split_at_mut(blocks * 4 * S::LANES);
        let smallest = S::chunks_mut(smallest).as_chunks_mut::<4>().0.iter_mut();
        let bounds = smallest.zip(S::chunks_mut(largest).as_chunks_mut::<4>().0);
        for (index, (smallest, largest)) in bounds.enumerate() {
            let ([a, b], [c, d]) = (pairs.load(s, 2 * index), pairs.load(s, 2 * index + 1));
            let x = R::round(s, [a, b, c, d]);
            for (x, (smallest, largest)) in x.into_iter().zip(smallest.iter_mut().zip(largest)) {
                *smallest = s.store_f32(s.min_number(s.load_f32(*smallest), x));
                *largest = s.store_f32(s.max_number(s.load_f32(*largest), x));
            }
        }
        let mut rest = [0.0; MOST_OF_BLOCK];
        let done = blocks * 4 * S::LANES;
        values.part(done..values.len()).widen(s, &mut rest);
        let bounds = rest_of_smallest.iter_mut().zip(rest_of_largest);
        for (x, (smallest, largest)) in rest.into_iter().zip(bounds) {
            let x = R::round_lane(x);
            if x < *smallest {
                *smallest = x;
            }
            if x > *largest {
                *largest = x;
            }
        }
    }
}

/// A kernel that encodes values of a token.
struct EncodeChannels<'e, 'a, R> {
    encoding: &'e mut ChannelEncoding<'a>,
    rule: PhantomData<R>,
}

impl<R: ChannelRule> Kernel for EncodeChannels<'_, '_, R> {
    #[inline(always)]
    fn run<S: InstructionSet>(self, s: S) {
        let ChannelEncoding {
            values,
            factors,
            offsets,
            bits,
            shift,
            codes,
        } = self.encoding;
        let (most, len) = (f32::from(most(*bits)), const { 4 * S::LANES });
        let pairs = values.pairs::<S>();
        let numbers = S::chunks(factors).as_chunks::<4>().0.iter();
        let numbers = numbers.zip(S::chunks(offsets).as_chunks::<4>().0);
        for (index, (factors, offsets)) in numbers.enumerate() {
            let numbers = [factors, offsets].map(|[a, b, c, d]| {
                [
                    s.load_f32(*a),
                    s.load_f32(*b),
                    s.load_f32(*c),
                    s.load_f32(*d),
                ]
            });
            let ([a, b], [c, d]) = (pairs.load(s, 2 * index), pairs.load(s, 2 * index + 1));
            let x = R::round(s, [a, b, c, d]);
            let block = s.store_u8_even(R::scale(s, x, numbers, most));
            if R::ALONG_TOKENS {
                join(cast_slice(&block), *shift, &mut codes[index * len..][..len]);
            } else if *bits == 8 {
                codes[index * len..][..len].copy_from_slice(cast_slice(&block));
            } else {
                let packed = s.pack_u4(block);
                codes[index * len / 2..][..len / 2].copy_from_slice(cast_slice(&packed));
            }
        }
        let done = values.len() / len * len;
        let mut rest = [0.0; MOST_OF_BLOCK];
        values.part(done..values.len()).widen(s, &mut rest);
        let mut rest_of_codes = [0; MOST_OF_BLOCK];
        let numbers = factors[done..].iter().zip(&offsets[done..]);
        for ((code, x), (factor, offset)) in rest_of_codes.iter_mut().zip(rest).zip(numbers) {
            let x = R::scale_lane(R::round_lane(x), [*factor, *offset], most);
            *code = f32_to_u8_even(x);
        }
        if R::ALONG_TOKENS {
            join(&rest_of_codes, *shift, &mut codes[done..values.len()]);
        } else if *bits == 8 {
            let rest = &mut codes[done..];
            rest.copy_from_slice(&rest_of_codes[..rest.len()]);
        } else {
            let pairs = rest_of_codes.as_chunks().0;
            for (byte, [even, odd]) in codes[done / 2..].iter_mut().zip(pairs) {
                *byte = (*even).min(15) << 4 | (*odd).min(15);
            }
        }
    }
}

/// Joins the codes of a token to those of earlier ones.
#[inline(always)]
fn join(codes: &[u8], shift: usize, bytes: &mut [u8]) {
    for (byte, code) in bytes.iter_mut().zip(codes) {
        let earlier = if shift == 0 { 0 } else { *byte };
        *byte = earlier | code << shift;
    }
}

/// A kernel that decodes codes of a token.
struct DecodeChannels<'d, 'a, R> {
    decoding: &'d mut ChannelDecoding<'a>,
    rule: PhantomData<R>,
}

impl<R: ChannelRule> Kernel for DecodeChannels<'_, '_, R> {
    #[inline(always)]
    fn run<S: InstructionSet>(self, s: S) {
        let &mut ChannelDecoding {
            codes: source,
            step,
            byte,
            shift,
            bits,
            scales,
            offsets,
            ref mut values,
        } = self.decoding;
        let most = most(bits);
        for (index, values) in values.chunks_mut(DECODED).enumerate() {
            let first = index * DECODED;
            let mut unpacked = [0; DECODED];
            let codes = if R::ALONG_TOKENS {
                let channels = source[first * step..].chunks_exact(step);
                for (code, bytes) in unpacked[..values.len()].iter_mut().zip(channels) {
                    *code = bytes[byte];
                }
                for code in &mut unpacked {
                    *code = *code >> shift & most;
                }
                &unpacked
            } else if bits == 8 {
                &source[first..][..values.len()]
            } else {
                let bytes = source[first / 2..].iter();
                for ([even, odd], byte) in unpacked.as_chunks_mut().0.iter_mut().zip(bytes) {
                    (*even, *odd) = (byte >> 4, byte & 15);
                }
                &unpacked[..]
            };
            let [scales, offsets] = [scales, offsets].map(|bytes| &bytes[first * R::UNIT..]);
            R::decode(s, codes, [scales, offsets], values);
        }
    }
}

/// A kernel that computes the numbers of channels.
struct ComputeNumbers<'a, R> {
    most: f32,
    /// The smallest values, which become factors; the largest ones, which become offsets; the scales.
    bounds_and_scales: [&'a mut [f32]; 3],
    rule: PhantomData<R>,
}

impl<R: ChannelRule> Kernel for ComputeNumbers<'_, R> {
    #[inline(always)]
    fn run<S: InstructionSet>(self, _: S) {
        let [smallest, largest, scales] = self.bounds_and_scales;
        for ((first, second), to) in smallest.iter_mut().zip(largest).zip(scales) {
            let ChannelNumbers {
                scale,
                offset,
                factor,
            } = R::numbers(self.most, [*first, *second]);
            (*first, *second, *to) = (factor, offset, scale);
        }
    }
}

/// A kernel that stores numbers.
struct StoreNumbers<'a, R> {
    numbers: &'a [f32],
    bytes: &'a mut [u8],
    rule: PhantomData<R>,
}

impl<R: ChannelRule> Kernel for StoreNumbers<'_, R> {
    #[inline(always)]
    fn run<S: InstructionSet>(self, s: S) {
        R::store(s, self.numbers, self.bytes);
    }
}
