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
use core::ops::Range;
use core::slice;

use bytemuck::{Pod, cast_slice, cast_slice_mut};
use half::f16;

use crate::kernel::values::{MOST_OF_BLOCK, Values, VectorPairs};
use crate::proof::Proof;
use crate::simd::convert::{f16_to_f32, f32_to_f16, f32_to_u8_even, mul_add};
use crate::simd::element::Convert;
use crate::simd::{InstructionSet, Kernel, Simd, SimdQuant};

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
    /// Widens the bounds of channels by the values of tokens.
    pub(crate) widen_bounds: fn(Proof, TokenValues<'_>, [&mut [f32]; 2]),
    /// Computes the numbers of channels from their bounds and the largest code.
    numbers: fn(Proof, f32, ChannelNumbers<'_>),
    encode: fn(Proof, &mut ChannelEncoding<'_>),
    decode: fn(Proof, &mut ChannelDecoding<'_>),
    /// Stores the numbers of the channels of a head: scales, and offsets.
    store: fn(Proof, ChannelNumbers<'_>, &mut [u8]),
}

/// The numbers of some channels.
#[derive(Debug)]
pub(crate) struct ChannelNumbers<'a> {
    /// The factors of values. Before they are computed, the lower bounds.
    pub(crate) factors: &'a mut [f32],
    /// The offsets. Before they are computed, the upper bounds.
    pub(crate) offsets: &'a mut [f32],
    /// The bits of the scales, if the codes of a token are contiguous; else the codes of tokens that fill no word yet.
    pub(crate) words: &'a mut [u32],
}

/// Values of tokens. The channels of a token are contiguous.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenValues<'a> {
    pub(crate) values: Values<'a>,
    pub(crate) tokens: usize,
    /// Values from one token to the next: a multiple of [`TOKEN_STEP`].
    pub(crate) step: usize,
}

/// The widest pair of vectors.
pub(crate) const TOKEN_STEP: usize = 32;

impl<'a> TokenValues<'a> {
    /// Returns the values of some tokens from a channel on.
    #[inline(always)]
    fn part(self, tokens: Range<usize>, first: usize) -> Self {
        TokenValues {
            values: self
                .values
                .part(tokens.start * self.step + first..self.values.len()),
            tokens: tokens.len(),
            step: self.step,
        }
    }

    /// Loads a block of four vectors of a token.
    #[inline(always)]
    fn load<S: Simd>(
        self,
        s: S,
        pairs: VectorPairs<'a, S>,
        token: usize,
        block: usize,
    ) -> [S::F32; 4] {
        let first = token * (self.step / const { 2 * S::LANES }) + 2 * block;
        let ([a, b], [c, d]) = (pairs.load(s, first), pairs.load(s, first + 1));
        [a, b, c, d]
    }

    /// Converts channels of a token that fill no block.
    #[inline(always)]
    fn rest<S: InstructionSet>(
        self,
        s: S,
        token: usize,
        channels: Range<usize>,
    ) -> [f32; MOST_OF_BLOCK] {
        let mut rest = [0.0; MOST_OF_BLOCK];
        let first = token * self.step;
        let values = self
            .values
            .part(first + channels.start..first + channels.end);
        values.widen(s, &mut rest);
        rest
    }
}

/// The first of some tokens of heads that have codes in a group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupPlace {
    /// Tokens per group.
    pub(crate) tokens: usize,
    /// Channels of a head.
    pub(crate) head_dim: usize,
    /// The token in the group.
    pub(crate) token: usize,
}

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

    /// Computes the numbers of channels from their bounds.
    pub(crate) fn numbers(&self, proof: Proof, channels: ChannelNumbers<'_>) {
        (self.numbers)(proof, ((1 << self.bits) - 1) as f32, channels);
    }

    /// Stores the numbers of the channels of a head in a group.
    pub(crate) fn store(&self, proof: Proof, numbers: ChannelNumbers<'_>, head: &mut [u8]) {
        (self.store)(proof, numbers, head);
    }

    /// Encodes the values of tokens as heads of a group, `stride` bytes from one to the next. Tokens come in order.
    pub(crate) fn encode(
        &self,
        proof: Proof,
        values: TokenValues<'_>,
        numbers: ChannelNumbers<'_>,
        place: GroupPlace,
        (heads, stride): (&mut [u8], usize),
    ) {
        let encoding = &mut ChannelEncoding {
            values,
            numbers,
            bits: self.bits,
            place,
            heads,
            stride,
        };
        (self.encode)(proof, encoding);
    }

    /// Decodes a token of heads of a group, each of `bytes` bytes and next to each other.
    pub(crate) fn decode(
        &self,
        proof: Proof,
        place: GroupPlace,
        (heads, bytes): (&[u8], usize),
        values: &mut [f32],
    ) {
        let decoding = &mut ChannelDecoding {
            bits: self.bits,
            place,
            heads,
            bytes,
            values,
        };
        (self.decode)(proof, decoding);
    }
}

/// Values of tokens, their numbers, and the heads of their codes.
#[derive(Debug)]
struct ChannelEncoding<'a> {
    values: TokenValues<'a>,
    numbers: ChannelNumbers<'a>,
    bits: usize,
    place: GroupPlace,
    heads: &'a mut [u8],
    /// Bytes from one head to the next.
    stride: usize,
}

/// Heads of a group, and the target of the values of one token.
#[derive(Debug)]
struct ChannelDecoding<'a> {
    bits: usize,
    place: GroupPlace,
    heads: &'a [u8],
    /// Bytes of a head.
    bytes: usize,
    values: &'a mut [f32],
}

/// The formulas and the memory of an engine.
trait ChannelRule {
    /// The bytes of a scale, or of an offset.
    type Number: Pod;

    /// [`ChannelKernels::along_tokens`].
    const ALONG_TOKENS: bool;

    /// [`ChannelKernels::no_bounds`].
    const NO_BOUNDS: [f32; 2];

    /// Computes the scale, the offset and the factor of a channel from the largest code and the bounds.
    fn numbers(most: f32, bounds: [f32; 2]) -> [f32; 3];

    /// Computes the offsets and the factors of the first channels likewise, in vectors; returns the number of channels.
    /// The compiler vectorizes `numbers` if it converts nothing.
    fn number_vectors<S: SimdQuant>(_: S, _: f32, _: &mut ChannelNumbers<'_>) -> usize {
        0
    }

    /// Returns the value of a code by its scale and offset.
    fn value(code: f32, scale: f32, offset: f32) -> f32;

    /// Returns the values of a vector of codes likewise.
    fn values<S: SimdQuant>(s: S, code: S::F32, scale: S::F32, offset: S::F32) -> S::F32;

    fn store(number: f32) -> Self::Number;

    fn load(bytes: Self::Number) -> f32;

    fn load_pair<S: SimdQuant>(s: S, bytes: [S::Chunk<Self::Number>; 2]) -> [S::F32; 2];

    /// Returns offsets as `scale` subtracts or adds them.
    fn offsets<S: SimdQuant>(s: S, offsets: [S::F32; 4]) -> [S::F32; 4];

    /// Rounds one value as it is before anything else.
    fn round_lane(x: f32) -> f32;

    /// Rounds and scales values, of f32 if `wide` is set: codes before they become integers. They are at most `most`,
    /// unless codes saturate later.
    fn scale<S: SimdQuant>(
        s: S,
        x: [S::F32; 4],
        numbers: [[S::F32; 4]; 2],
        most: f32,
        wide: bool,
    ) -> [S::F32; 4];

    /// Scales one value likewise.
    fn scale_lane(x: f32, numbers: [f32; 2], most: f32) -> f32;
}

/// OpenVINO's formulas.
struct OpenVino;

impl ChannelRule for OpenVino {
    type Number = [u8; 4];
    const ALONG_TOKENS: bool = false;
    const NO_BOUNDS: [f32; 2] = [f32::MAX, -f32::MAX];

    #[inline(always)]
    fn numbers(most: f32, [min, max]: [f32; 2]) -> [f32; 3] {
        let scale = (max - min) * (1.0 / most);
        let scale = one_nan(if scale == 0.0 { 0.0001 } else { scale });
        // Zeros of either sign compare as equal, and the bounds are either.
        [scale, one_nan((0.0 - min) / scale), 1.0 / scale]
    }

    #[inline(always)]
    fn value(code: f32, scale: f32, offset: f32) -> f32 {
        (code - offset) * scale
    }

    #[inline(always)]
    fn values<S: SimdQuant>(s: S, code: S::F32, scale: S::F32, offset: S::F32) -> S::F32 {
        s.mul(s.sub(code, offset), scale)
    }

    #[inline(always)]
    fn store(number: f32) -> [u8; 4] {
        number.to_le_bytes()
    }

    #[inline(always)]
    fn load(bytes: [u8; 4]) -> f32 {
        f32::from_le_bytes(bytes)
    }

    #[inline(always)]
    fn load_pair<S: SimdQuant>(s: S, bytes: [S::Chunk<[u8; 4]>; 2]) -> [S::F32; 2] {
        let [a, b] = bytes;
        [
            s.load_f32(S::map(a, f32::from_le_bytes)),
            s.load_f32(S::map(b, f32::from_le_bytes)),
        ]
    }

    #[inline(always)]
    fn offsets<S: SimdQuant>(_: S, offsets: [S::F32; 4]) -> [S::F32; 4] {
        offsets
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
        _: bool,
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
    type Number = [u8; 2];
    const ALONG_TOKENS: bool = true;
    const NO_BOUNDS: [f32; 2] = [f32::INFINITY, f32::NEG_INFINITY];

    #[inline(always)]
    fn numbers(most: f32, [min, max]: [f32; 2]) -> [f32; 3] {
        // Never a negative zero, as the bounds are zeros of either sign.
        let scale = one_nan(to_f16(to_f16(max - min) * (1.0 / most)) + 0.0);
        [scale, min + 0.0, 1.0 / scale]
    }

    #[inline(always)]
    fn number_vectors<S: SimdQuant>(s: S, most: f32, channels: &mut ChannelNumbers<'_>) -> usize {
        let (one, zero, part) = (s.splat(1.0), s.splat(0.0), s.splat(1.0 / most));
        let factors = S::chunks_mut(channels.factors).as_chunks_mut::<4>().0;
        let offsets = S::chunks_mut(channels.offsets).as_chunks_mut::<4>().0;
        let done = factors.len() * const { 4 * S::LANES };
        for (factors, offsets) in factors.iter_mut().zip(offsets) {
            let low = round(s, factors.map(|x| s.load_f32(x)));
            let mut x = round(s, offsets.map(|x| s.load_f32(x)));
            for (x, low) in x.iter_mut().zip(low) {
                *x = s.sub(*x, low);
            }
            x = round(s, x);
            for x in &mut x {
                *x = s.mul(*x, part);
            }
            x = round(s, x);
            *factors = x.map(|x| s.store_f32(s.div(one, s.add(x, zero))));
            *offsets = low.map(|low| s.store_f32(s.add(low, zero)));
        }
        done
    }

    #[inline(always)]
    fn value(code: f32, scale: f32, offset: f32) -> f32 {
        code * scale + offset
    }

    #[inline(always)]
    fn values<S: SimdQuant>(s: S, code: S::F32, scale: S::F32, offset: S::F32) -> S::F32 {
        s.add(s.mul(code, scale), offset)
    }

    #[inline(always)]
    fn store(number: f32) -> [u8; 2] {
        f32_to_f16(number).to_le_bytes()
    }

    #[inline(always)]
    fn load(bytes: [u8; 2]) -> f32 {
        f16_to_f32(u16::from_le_bytes(bytes))
    }

    #[inline(always)]
    fn load_pair<S: SimdQuant>(s: S, bytes: [S::Chunk<[u8; 2]>; 2]) -> [S::F32; 2] {
        let [a, b] = bytes;
        s.load_f16([S::map(a, u16::from_le_bytes), S::map(b, u16::from_le_bytes)])
    }

    #[inline(always)]
    fn offsets<S: SimdQuant>(s: S, mut offsets: [S::F32; 4]) -> [S::F32; 4] {
        let rounder = s.splat(SUBNORMALS);
        for offset in &mut offsets {
            *offset = s.add(*offset, rounder);
        }
        offsets
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
        wide: bool,
    ) -> [S::F32; 4] {
        if wide {
            x = round(s, x);
        }
        let (rounder, zero, most) = (s.splat(SUBNORMALS), s.splat(0.0), s.splat(most));
        for (x, (factor, offset)) in x.iter_mut().zip(factors.iter().zip(offsets)) {
            // The offset has the same number added: both sums are exact for values of f16.
            let difference = s.sub(s.add(*x, rounder), offset);
            // The product becomes the number of f16 that the quotient would: a midpoint of two normal numbers has 12
            // bits and the scale 11, so that the quotient is more than 2^-23 away from it. Subnormal ones have code 0.
            let product = s.mul(significand_of_f16(s, difference), *factor);
            // A NaN is 0, and an infinity the largest code.
            let product = s.min_number(most, s.max_number(zero, product));
            *x = significand_of_f16(s, product);
        }
        x
    }

    #[inline(always)]
    fn scale_lane(x: f32, [factor, offset]: [f32; 2], most: f32) -> f32 {
        let x = to_f16(to_f16(x - offset) * factor);
        let x = if x > 0.0 { x } else { 0.0 };
        if x < most { x } else { most }
    }
}

/// Added to a number of bf16 or f16, it rounds it as f16 rounds subnormal numbers, to multiples of 2^-24, and otherwise
/// changes none that are finite in f16. Channels with others have the scale infinity or NaN, and their codes are 0.
const SUBNORMALS: f32 = 0.75;

/// Rounds numbers to the 11 bits of f16, ties to even, from zero on. Subnormal numbers of f16 have no more bits; larger
/// numbers remain finite.
///
/// `8192 x` is exact, and `8191 x` is rounded to its eleventh bit, or for the least significands to its twelfth, where
/// no number is midway. The low bits of `8192 x` are zero if `x` is midway, so that ties become even in `x` too.
#[inline(always)]
fn significand_of_f16<S: SimdQuant>(s: S, x: S::F32) -> S::F32 {
    let rest = s.mul(x, s.splat(-8191.0));
    s.add_exact_product(x, s.splat(8192.0), rest)
}

/// Rounds numbers to f16.
#[inline(always)]
fn round<S: SimdQuant>(s: S, [a, b, c, d]: [S::F32; 4]) -> [S::F32; 4] {
    let [[a, b], [c, d]] = f16::round(s, [[a, b], [c, d]]);
    [a, b, c, d]
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
        unit: size_of::<R::Number>(),
        along_tokens: R::ALONG_TOKENS,
        no_bounds: R::NO_BOUNDS,
        widen_bounds: |proof, values, bounds| {
            proof.run(WidenBounds::<R> {
                values,
                bounds,
                rule: PhantomData,
            });
        },
        numbers: |proof, most, channels| {
            proof.run(ComputeNumbers::<R> {
                most,
                channels,
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
        store: |proof, numbers, head| {
            proof.run(StoreNumbers::<R> {
                numbers,
                head,
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
    values: TokenValues<'a>,
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
        let pairs = values.values.pairs::<S>();
        let len = smallest.len();
        let done = len / const { 4 * S::LANES } * const { 4 * S::LANES };
        let (smallest, rest_of_smallest) = smallest.split_at_mut(done);
        let (largest, rest_of_largest) = largest.split_at_mut(done);
        let smallest = S::chunks_mut(smallest).as_chunks_mut::<4>().0.iter_mut();
        let bounds = smallest.zip(S::chunks_mut(largest).as_chunks_mut::<4>().0);
        for (block, (smallest, largest)) in bounds.enumerate() {
            let (&mut [a, b, c, d], &mut [e, f, g, h]) = (&mut *smallest, &mut *largest);
            let mut low = [s.load_f32(a), s.load_f32(b), s.load_f32(c), s.load_f32(d)];
            let mut high = [s.load_f32(e), s.load_f32(f), s.load_f32(g), s.load_f32(h)];
            for token in 0..values.tokens {
                let x = values.load(s, pairs, token, block);
                for (x, (low, high)) in x.into_iter().zip(low.iter_mut().zip(&mut high)) {
                    *low = s.min_number(*low, x);
                    *high = s.max_number(*high, x);
                }
            }
            *smallest = low.map(|x| s.store_f32(x));
            *largest = high.map(|x| s.store_f32(x));
        }
        if done == len {
            return;
        }
        for token in 0..values.tokens {
            let rest = values.rest(s, token, done..len);
            let bounds = rest_of_smallest.iter_mut().zip(&mut *rest_of_largest);
            for (x, (smallest, largest)) in rest.into_iter().zip(bounds) {
                if x < *smallest {
                    *smallest = x;
                }
                if x > *largest {
                    *largest = x;
                }
            }
        }
    }
}

/// A kernel that computes the numbers of channels.
struct ComputeNumbers<'a, R> {
    most: f32,
    channels: ChannelNumbers<'a>,
    rule: PhantomData<R>,
}

impl<R: ChannelRule> Kernel for ComputeNumbers<'_, R> {
    #[inline(always)]
    fn run<S: InstructionSet>(mut self, s: S) {
        let done = R::number_vectors(s, self.most, &mut self.channels);
        let ChannelNumbers {
            factors,
            offsets,
            words,
        } = self.channels;
        let (factors, offsets) = (&mut factors[done..], &mut offsets[done..]);
        for ((factor, offset), word) in factors.iter_mut().zip(offsets).zip(&mut words[done..]) {
            // Rounding keeps the order of values, and is done once per group.
            let bounds = [*factor, *offset].map(R::round_lane);
            let [scale, new_offset, new_factor] = R::numbers(self.most, bounds);
            (*factor, *offset, *word) = (new_factor, new_offset, scale.to_bits());
        }
    }
}

/// A kernel that stores the numbers of the channels of a head. The compiler vectorizes its loops.
struct StoreNumbers<'a, R> {
    numbers: ChannelNumbers<'a>,
    head: &'a mut [u8],
    rule: PhantomData<R>,
}

impl<R: ChannelRule> Kernel for StoreNumbers<'_, R> {
    #[inline(always)]
    fn run<S: InstructionSet>(self, _: S) {
        let ChannelNumbers {
            factors,
            offsets,
            words,
        } = self.numbers;
        let bytes = factors.len() * size_of::<R::Number>();
        let (scales, rest) = self.head.split_at_mut(bytes);
        if R::ALONG_TOKENS {
            // The words have codes. A scale of 11 bits is its reciprocal's, which is rounded to 24.
            let numbers = factors.iter().map(|factor| one_nan(1.0 / *factor));
            store_all::<R>(scales, numbers);
        } else {
            let numbers = words.iter().map(|word| f32::from_bits(*word));
            store_all::<R>(scales, numbers);
        }
        store_all::<R>(&mut rest[..bytes], offsets.iter().copied());
    }
}

/// Stores numbers.
#[inline(always)]
fn store_all<R: ChannelRule>(target: &mut [u8], numbers: impl Iterator<Item = f32>) {
    let target: &mut [R::Number] = cast_slice_mut(target);
    for (bytes, number) in target.iter_mut().zip(numbers) {
        *bytes = R::store(number);
    }
}

/// A kernel that encodes values of tokens.
struct EncodeChannels<'e, 'a, R> {
    encoding: &'e mut ChannelEncoding<'a>,
    rule: PhantomData<R>,
}

impl<R: ChannelRule> Kernel for EncodeChannels<'_, '_, R> {
    #[inline(always)]
    fn run<S: InstructionSet>(self, s: S) {
        let ChannelEncoding {
            values,
            numbers,
            bits,
            place,
            heads,
            stride,
        } = self.encoding;
        let head_dim = place.head_dim;
        let most = ((1 << *bits) - 1) as f32;
        // The codes of a token, or of the first token.
        let first = 2 * size_of::<R::Number>() * head_dim;
        let [first, width] = match R::ALONG_TOKENS {
            true => [first, 0],
            false => {
                let width = head_dim * *bits / 8;
                [first + place.token * width, width]
            }
        };
        let mut token = 0;
        while token < values.tokens {
            let word = &TokensInWord::new(place, place.token + token, *bits);
            let tokens = match R::ALONG_TOKENS {
                true => token..values.tokens.min(token + word.left),
                false => token..values.tokens,
            };
            token = tokens.end;
            let is_last = tokens.len() == word.left;
            let channels = numbers.factors.chunks_exact(head_dim);
            let channels = channels.zip(numbers.offsets.chunks_exact(head_dim));
            let channels = channels.zip(numbers.words.chunks_exact_mut(head_dim));
            for (head, ((factors, offsets), words)) in channels.enumerate() {
                let target = &mut heads[head * *stride + first..];
                let codes = &mut TokenCodes {
                    bits: *bits,
                    bytes: &mut *target,
                    width,
                    words,
                };
                let values = values.part(tokens.clone(), head * head_dim);
                codes.encode::<R, S>(s, values, [factors, offsets], most);
                if R::ALONG_TOKENS && is_last {
                    let channels = target.chunks_exact_mut(word.bytes);
                    for (channel, codes) in channels.zip(&*words) {
                        channel[word.at..][..4].copy_from_slice(&codes.to_le_bytes());
                    }
                }
            }
        }
    }
}

/// Tokens in the words of their codes.
struct TokensInWord {
    /// Bytes of the codes of a channel.
    bytes: usize,
    /// The first byte of the word.
    at: usize,
    /// The tokens from one on.
    left: usize,
}

impl TokensInWord {
    #[inline(always)]
    fn new(place: &GroupPlace, token: usize, bits: usize) -> Self {
        let each = 32 / bits;
        TokensInWord {
            bytes: place.tokens * bits / 8,
            at: token / each * 4,
            left: each - token % each,
        }
    }
}

/// The codes of tokens and a head.
struct TokenCodes<'a> {
    bits: usize,
    /// The codes of tokens, `width` bytes each.
    bytes: &'a mut [u8],
    width: usize,
    /// The words of codes that are apart, one per channel.
    words: &'a mut [u32],
}

impl TokenCodes<'_> {
    #[inline(always)]
    fn encode<R: ChannelRule, S: InstructionSet>(
        &mut self,
        s: S,
        values: TokenValues<'_>,
        [factors, offsets]: [&[f32]; 2],
        most: f32,
    ) {
        let len = const { 4 * S::LANES };
        let pairs = values.values.pairs::<S>();
        let wide = matches!(values.values, Values::F32(_));
        let numbers = S::chunks(factors).as_chunks::<4>().0.iter();
        let numbers = numbers.zip(S::chunks(offsets).as_chunks::<4>().0);
        let mut done = 0;
        for (block, (&[a, b, c, d], &[e, f, g, h])) in numbers.enumerate() {
            let factors = [s.load_f32(a), s.load_f32(b), s.load_f32(c), s.load_f32(d)];
            let offsets = [s.load_f32(e), s.load_f32(f), s.load_f32(g), s.load_f32(h)];
            let offsets = R::offsets(s, offsets);
            for token in 0..values.tokens {
                let x = values.load(s, pairs, token, block);
                let x = R::scale(s, x, [factors, offsets], most, wide);
                if R::ALONG_TOKENS {
                    match self.bits {
                        2 => self.add_block::<S, 2>(s, done, x),
                        _ => self.add_block::<S, 4>(s, done, x),
                    }
                    continue;
                }
                let codes = s.store_u8_even(x);
                let bytes = &mut self.bytes[token * self.width..];
                if self.bits == 8 {
                    bytes[done..][..len].copy_from_slice(cast_slice(&codes));
                } else {
                    let packed = s.pack_u4(codes);
                    bytes[done / 2..][..len / 2].copy_from_slice(cast_slice(&packed));
                }
            }
            done += len;
        }
        if done == factors.len() {
            return;
        }
        for token in 0..values.tokens {
            let mut codes = [0; MOST_OF_BLOCK];
            let rest = values.rest(s, token, done..factors.len());
            let numbers = factors[done..].iter().zip(&offsets[done..]);
            for ((code, x), (factor, offset)) in codes.iter_mut().zip(rest).zip(numbers) {
                let x = R::scale_lane(R::round_lane(x), [*factor, *offset], most);
                *code = f32_to_u8_even(x);
            }
            let codes = &codes[..factors.len() - done];
            if R::ALONG_TOKENS {
                self.add(done, codes);
                continue;
            }
            let bytes = &mut self.bytes[token * self.width..][..self.width];
            if self.bits == 8 {
                bytes[done..].copy_from_slice(codes);
            } else {
                let target = bytes[done / 2..].iter_mut();
                for (byte, [even, odd]) in target.zip(codes.as_chunks().0) {
                    *byte = (*even).min(15) << 4 | (*odd).min(15);
                }
            }
        }
    }

    /// Rounds a block of numbers up to the largest code, and shifts them into the words of their channels: the token
    /// that fills a word leaves the first one in its lowest bits.
    #[inline(always)]
    fn add_block<S: SimdQuant, const BITS: u32>(&mut self, s: S, first: usize, x: [S::F32; 4]) {
        // A sum of at least 2^23 is an integer, to nearest, ties to even, in its lowest bits.
        let integer = s.splat(8_388_608.0);
        let words = S::chunks_mut(&mut self.words[first..]);
        for (words, x) in words.iter_mut().zip(x) {
            let sums = s.store_f32(s.add(x, integer));
            let words: &mut [u32] = cast_slice_mut(slice::from_mut(words));
            let sums: &[u32] = cast_slice(slice::from_ref(&sums));
            for (word, sum) in words.iter_mut().zip(sums) {
                *word = *word >> BITS | *sum << (32 - BITS);
            }
        }
    }

    /// Shifts codes into the words of their channels.
    #[inline(always)]
    fn add(&mut self, first: usize, codes: &[u8]) {
        let bits = self.bits as u32;
        for (word, code) in self.words[first..].iter_mut().zip(codes) {
            *word = *word >> bits | u32::from(*code) << (32 - bits);
        }
    }
}

/// A kernel that decodes a token.
struct DecodeChannels<'e, 'a, R> {
    decoding: &'e mut ChannelDecoding<'a>,
    rule: PhantomData<R>,
}

/// Codes that are unpacked together.
const UNPACKED: usize = 128;

impl<R: ChannelRule> Kernel for DecodeChannels<'_, '_, R> {
    #[inline(always)]
    fn run<S: InstructionSet>(self, s: S) {
        let ChannelDecoding {
            bits,
            place,
            heads,
            bytes,
            values,
        } = self.decoding;
        let head_dim = place.head_dim;
        let width = head_dim * size_of::<R::Number>();
        let heads = heads.chunks_exact(*bytes);
        for (head, values) in heads.zip(values.chunks_exact_mut(head_dim)) {
            let (numbers, codes) = head.split_at(2 * width);
            let (scales, offsets) = numbers.split_at(width);
            let (scales, offsets) = (cast_slice(scales), cast_slice(offsets));
            if R::ALONG_TOKENS {
                let (each, bit) = (place.tokens * *bits / 8, place.token * *bits);
                let mut unpacked = [0; UNPACKED];
                for (index, values) in values.chunks_mut(UNPACKED).enumerate() {
                    let first = index * UNPACKED;
                    let (bytes, codes) = (&codes[first * each..], &mut unpacked[..values.len()]);
                    // Strides that the compiler knows: of 2 and of 4 bits in groups of 32 tokens.
                    match each {
                        8 => gather_words(bytes, [bit, *bits], codes),
                        16 => gather(bytes.as_chunks::<16>().0, [bit, *bits], codes),
                        _ => gather(bytes.chunks_exact(each), [bit, *bits], codes),
                    }
                    decode::<R, S>(s, codes, [&scales[first..], &offsets[first..]], values);
                }
            } else if *bits == 8 {
                let codes = &codes[place.token * head_dim..][..head_dim];
                decode::<R, S>(s, codes, [scales, offsets], values);
            } else {
                let codes = &codes[place.token * head_dim / 2..][..head_dim / 2];
                let mut unpacked = [0; UNPACKED];
                let parts = codes.chunks(UNPACKED / 2).zip(values.chunks_mut(UNPACKED));
                for (index, (codes, values)) in parts.enumerate() {
                    for (pair, byte) in unpacked.as_chunks_mut().0.iter_mut().zip(codes) {
                        *pair = [*byte >> 4, *byte & 15];
                    }
                    let first = index * UNPACKED;
                    decode::<R, S>(s, &unpacked, [&scales[first..], &offsets[first..]], values);
                }
            }
        }
    }
}

/// Gathers the codes of a token from the bytes of each channel, by the first bit and the bits of a code.
#[inline(always)]
fn gather<'a, C: AsRef<[u8]> + ?Sized + 'a>(
    channels: impl IntoIterator<Item = &'a C>,
    [bit, bits]: [usize; 2],
    codes: &mut [u8],
) {
    for (code, channel) in codes.iter_mut().zip(channels) {
        *code = channel.as_ref()[bit / 8];
    }
    for code in codes {
        *code = *code >> (bit % 8) & ((1 << bits) - 1);
    }
}

/// Gathers them from a word of 8 bytes per channel, likewise. The compiler vectorizes it.
#[inline(always)]
fn gather_words(bytes: &[u8], [bit, bits]: [usize; 2], codes: &mut [u8]) {
    let mask = (1_u64 << bits) - 1;
    for (code, word) in codes.iter_mut().zip(bytes.as_chunks().0) {
        *code = (u64::from_le_bytes(*word) >> bit & mask) as u8;
    }
}

/// Decodes codes by their scales and offsets.
#[inline(always)]
fn decode<R: ChannelRule, S: SimdQuant>(
    s: S,
    codes: &[u8],
    [scales, offsets]: [&[R::Number]; 2],
    values: &mut [f32],
) {
    let whole = values.len() / const { 2 * S::LANES } * const { 2 * S::LANES };
    let (blocks, rest) = values.split_at_mut(whole);
    let numbers = S::chunks(scales).as_chunks().0.iter();
    let numbers = numbers.zip(S::chunks(offsets).as_chunks().0);
    let blocks = S::chunks_mut(blocks).as_chunks_mut::<2>().0.iter_mut();
    let blocks = blocks.zip(S::chunks(codes).as_chunks::<2>().0);
    for ((values, codes), (scales, offsets)) in blocks.zip(numbers) {
        let (scales, offsets) = (R::load_pair(s, *scales), R::load_pair(s, *offsets));
        let vectors = values.iter_mut().zip(codes);
        for ((x, code), (scale, offset)) in vectors.zip(scales.into_iter().zip(offsets)) {
            let code = s.load_f32(S::map(*code, |code: u8| f32::from(code)));
            *x = s.store_f32(R::values(s, code, scale, offset));
        }
    }
    let numbers = scales[whole..].iter().zip(&offsets[whole..]);
    for ((x, code), (scale, offset)) in rest.iter_mut().zip(&codes[whole..]).zip(numbers) {
        *x = R::value(f32::from(*code), R::load(*scale), R::load(*offset));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All significands of a difference and of a scale. Their exponents change nothing up to the least normal number.
    #[test]
    fn products_of_kivi_become_codes_as_quotients() {
        for difference in 1024_u16..2048 {
            for scale in 1024_u16..2048 {
                let [difference, scale] = [difference, scale].map(f32::from);
                let quotient = to_f16(difference / scale);
                assert_eq!(
                    to_f16(difference * (1.0 / scale)),
                    quotient,
                    "{difference} / {scale}"
                );
            }
        }
    }

    /// All significands; a power of two as a factor changes none of the operations.
    #[test]
    fn significands_of_kivi_are_those_of_f16() {
        let s = crate::simd::Scalar;
        for x in (1.0_f32.to_bits()..=2.0_f32.to_bits()).map(f32::from_bits) {
            let [rounded] = s.store_f32(significand_of_f16(s, s.splat(x)));
            assert_eq!(rounded, to_f16(x), "{x}");
        }
    }

    /// All numbers of bf16 that are finite in f16.
    #[test]
    fn sums_round_subnormal_numbers_of_kivi() {
        for x in (0..=u16::MAX).map(|bits| half::bf16::from_bits(bits).to_f32()) {
            if to_f16(x).is_finite() {
                assert_eq!(x + SUBNORMALS - SUBNORMALS, to_f16(x), "{x}");
            }
        }
    }

    #[test]
    fn products_of_kivi_become_scales_as_quotients() {
        for range in (0..=0x7c00_u16).map(f16_to_f32) {
            for most in [3.0, 15.0] {
                let quotient = to_f16(range / most);
                assert_eq!(to_f16(range * (1.0 / most)), quotient, "{range} / {most}");
            }
        }
    }

    #[test]
    fn scales_of_kivi_are_those_of_their_reciprocals() {
        for bits in (0..=0x7c00_u16).chain([0xfc00, 0x7e00]) {
            let factor = 1.0 / f16_to_f32(bits);
            assert_eq!(f32_to_f16(one_nan(1.0 / factor)), bits);
        }
    }
}
