//! 8-bit codes from their definitions, one number at a time: OCP FP8, integers, and ggml's blocks.

use half::f16;
use rope_core::cache::{
    Asymmetric, BlockFormat, CacheFormat, CacheLayout, ChannelCodes, GroupCodes, MxScale,
    QuantFormat, ScalePlace, TileScale,
};

use crate::Source;

/// The factor or divisor of a number before it is rounded to a code.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Factor {
    /// `x / s`
    Divide(f32),
    /// `x m`
    Multiply(f32),
}

/// A format of 8-bit floating-point numbers.
struct Float {
    /// Fraction bits of the significand.
    fraction: u32,
    /// Exponent of the least normal number.
    least: i32,
    /// Code of the largest finite number.
    largest: u8,
    /// Code of larger numbers.
    beyond: u8,
}

const NAN: u8 = 0x7f;

fn float(code: QuantFormat) -> Option<Float> {
    let [e4m3, e5m2] = [(3, -6, 0x7e), (2, -14, 0x7b)];
    let ((fraction, least, largest), beyond) = match code {
        QuantFormat::E4m3 => (e4m3, 0x7e),
        QuantFormat::E5m2 => (e5m2, 0x7c),
        QuantFormat::E5m2Saturating => (e5m2, 0x7b),
        _ => return None,
    };
    Some(Float {
        fraction,
        least,
        largest,
        beyond,
    })
}

/// Returns the largest magnitude of a code; a made scale maps to it.
pub fn largest(code: QuantFormat) -> f32 {
    match float(code) {
        Some(format) => decode(code, format.largest),
        None => 127.0,
    }
}

/// Returns the code of a scaled number.
///
/// # Panics
///
/// If the format is unknown.
pub fn encode(code: QuantFormat, x: f32) -> u8 {
    let integer = |rounded: f32| {
        if rounded.is_nan() {
            0
        } else {
            rounded.clamp(-128.0, 127.0) as i8 as u8
        }
    };
    match code {
        QuantFormat::Int8Even => integer(x.round_ties_even()),
        // The sum is rounded to f32: 0.49999997 becomes 1.
        QuantFormat::Int8RoundAway => integer((x + 0.5_f32.copysign(x)).trunc()),
        _ => {
            let format = float(code).expect("a code of the harness");
            let sign = (x.to_bits() >> 24) as u8 & 0x80;
            sign | magnitude(&format, f64::from(x.abs()))
        }
    }
}

fn magnitude(format: &Float, x: f64) -> u8 {
    if x.is_nan() {
        return NAN;
    }
    // Exponent of the f64, in which every f32 but 0 is normal.
    let exponent = (x.to_bits() >> 52) as i32 - 1023;
    let exponent = exponent.clamp(format.least, 127);
    // Steps of the last place at that exponent, exact before the rounding; a carry moves to the next exponent.
    let steps = (x * 2f64.powi(format.fraction as i32 - exponent)).round_ties_even();
    let code = steps + f64::from((exponent - format.least) << format.fraction);
    if code > f64::from(format.largest) {
        format.beyond
    } else {
        code as u8
    }
}

/// Returns the number of a code.
pub fn decode(code: QuantFormat, bits: u8) -> f32 {
    let Some(format) = float(code) else {
        return f32::from(bits as i8);
    };
    let magnitude = bits & 0x7f;
    let exponent = i32::from(magnitude >> format.fraction);
    let fraction = f32::from(magnitude & ((1 << format.fraction) - 1));
    let value = if code != QuantFormat::E4m3 && magnitude == 0x7c {
        f32::INFINITY
    } else if magnitude > format.largest {
        f32::NAN
    } else if exponent == 0 {
        fraction * 2f32.powi(format.least - format.fraction as i32)
    } else {
        let significand = 1.0 + fraction * 2f32.powi(-(format.fraction as i32));
        significand * 2f32.powi(format.least + exponent - 1)
    };
    if bits & 0x80 == 0 { value } else { -value }
}

/// Returns true if two codes are one number or both NaN; the sign of a computed NaN depends on the machine.
pub fn same(code: QuantFormat, a: u8, b: u8) -> bool {
    a == b || float(code).is_some() && decode(code, a).is_nan() && decode(code, b).is_nan()
}

/// Returns the codes of a head.
pub fn encode_head(code: QuantFormat, factor: Factor, values: &[f32]) -> Vec<u8> {
    let scaled = |x: &f32| match factor {
        Factor::Divide(scale) => x / scale,
        Factor::Multiply(scale) => x * scale,
    };
    values.iter().map(|x| encode(code, scaled(x))).collect()
}

/// Returns the scale made for a head: its largest magnitude, without NaNs, maps to the largest code.
pub fn made(code: QuantFormat, least: f32, values: &[f32]) -> f32 {
    let magnitudes = values.iter().map(|x| x.abs()).filter(|x| !x.is_nan());
    (magnitudes.fold(0.0, f32::max) / largest(code)).max(least)
}

/// Returns a block of ggml's Q8_0 by `quantize_row_q8_0_ref`. Where C leaves the result open, a NaN becomes 0 and
/// numbers beyond the integers become the nearest one.
pub fn encode_q8_0(values: &[f32; 32]) -> [u8; 34] {
    let magnitudes = values.iter().map(|x| x.abs()).filter(|x| !x.is_nan());
    let scale = magnitudes.fold(0.0, f32::max) / 127.0;
    let reciprocal = if scale == 0.0 { 0.0 } else { 1.0 / scale };
    let mut block = [0; 34];
    let (head, codes) = block.split_at_mut(2);
    head.copy_from_slice(&f16::from_f32(scale).to_le_bytes());
    for (code, x) in codes.iter_mut().zip(values) {
        // `round` rounds halves away from zero; `as` saturates and turns a NaN into 0.
        *code = (x * reciprocal).round() as i8 as u8;
    }
    block
}

/// Returns the numbers of a Q8_0 block.
pub fn decode_q8_0(block: &[u8; 34]) -> [f32; 32] {
    let scale = f16::from_le_bytes([block[0], block[1]]).to_f32();
    std::array::from_fn(|index| f32::from(block[2 + index] as i8) * scale)
}

/// OpenVINO's block formats.
pub const OPENVINO: [&BlockFormat; 6] = [
    BlockFormat::U8_IN_32,
    BlockFormat::U8_IN_64,
    BlockFormat::U8_IN_128,
    BlockFormat::U4_IN_32,
    BlockFormat::U4_IN_64,
    BlockFormat::U4_IN_128,
];

/// All block formats: ggml's and OpenVINO's.
pub const BLOCKS: [&BlockFormat; 12] = {
    let ([a, b, c, d, e, f], [g, h, i, j, k, l]) = (BlockFormat::ALL, OPENVINO);
    [a, b, c, d, e, f, g, h, i, j, k, l]
};

/// Returns the bits of a code in a block of OpenVINO's.
fn of_openvino(format: &BlockFormat) -> Option<u32> {
    match format.name.split_once("_in_")?.0 {
        "u8" => Some(8),
        _ => Some(4),
    }
}

/// Returns a block of one of the formats.
///
/// # Panics
///
/// If the format is unknown.
pub fn encode_block(format: &BlockFormat, values: &[f32]) -> Vec<u8> {
    if let Some(bits) = of_openvino(format) {
        let ([scale, zero], codes) = unsigned(bits, Asymmetric::ZeroPoint, values);
        let numbers = [scale, zero].map(f32::to_le_bytes);
        return [numbers.concat(), codes].concat();
    }
    let values = values.try_into().expect("a block of 32 values");
    match format.name {
        "q8_0" => encode_q8_0(values).to_vec(),
        "q4_0" => encode_around_zero(values, 8),
        "q5_0" => encode_around_zero(values, 16),
        "q4_1" => encode_from_smallest(values, 15),
        "q5_1" => encode_from_smallest(values, 31),
        "iq4_nl" => encode_iq4_nl(values),
        name => panic!("{name} is no format of the harness"),
    }
}

/// Returns the numbers of a block.
///
/// # Panics
///
/// If the format is unknown.
pub fn decode_block(format: &BlockFormat, block: &[u8]) -> Vec<f32> {
    if let Some(bits) = of_openvino(format) {
        let number = |at: usize| f32::from_le_bytes(*block[at..].first_chunk().expect("a number"));
        return signed(
            bits,
            Asymmetric::ZeroPoint,
            [number(0), number(4)],
            &block[8..],
        );
    }
    let number = |at: usize| f16::from_le_bytes([block[at], block[at + 1]]).to_f32();
    let d = number(0);
    let values = |start: usize, fifth: bool, value: &dyn Fn(u8) -> f32| -> Vec<f32> {
        let bytes = &block[start + if fifth { 4 } else { 0 }..];
        let code = |channel: usize| {
            let four = bytes[channel % 16] >> (channel / 16 * 4) & 15;
            match fifth && block[start + channel / 8] >> (channel % 8) & 1 == 1 {
                true => four + 16,
                false => four,
            }
        };
        (0..32).map(|channel| value(code(channel))).collect()
    };
    match format.name {
        "q8_0" => decode_q8_0(block.try_into().expect("a block")).to_vec(),
        "q4_0" => values(2, false, &|code| (f32::from(code) - 8.0) * d),
        "q5_0" => values(2, true, &|code| (f32::from(code) - 16.0) * d),
        "q4_1" => values(4, false, &|code| f32::from(code) * d + number(2)),
        "q5_1" => values(4, true, &|code| f32::from(code) * d + number(2)),
        "iq4_nl" => values(2, false, &|code| d * f32::from(IQ4_NL[usize::from(code)])),
        name => panic!("{name} is no format of the harness"),
    }
}

/// The values of IQ4_NL codes.
const IQ4_NL: [i8; 16] = [
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113,
];

/// Returns f16 numbers and codes as bytes: the fifth bits, then the half bytes.
fn block(numbers: &[f32], codes: &[u8], fifth: bool) -> Vec<u8> {
    let mut bytes: Vec<u8> = numbers
        .iter()
        .flat_map(|number| match number.is_nan() {
            // x86's default NaN.
            true => 0xfe00_u16.to_le_bytes(),
            false => f16::from_f32(*number).to_le_bytes(),
        })
        .collect();
    if fifth {
        let mut bits = 0_u32;
        for (channel, code) in codes.iter().enumerate() {
            bits |= u32::from(code >> 4) << channel;
        }
        bytes.extend(bits.to_le_bytes());
    }
    bytes.extend((0..16).map(|byte| codes[byte] & 15 | (codes[byte + 16] & 15) << 4));
    bytes
}

/// Returns a number without its fraction; 0 where C leaves the result undefined.
fn whole(x: f32) -> u8 {
    if (0.0..256.0).contains(&x) {
        x as u8
    } else {
        0
    }
}

fn inverse(d: f32) -> f32 {
    if d == 0.0 { 0.0 } else { 1.0 / d }
}

/// Returns the values that are no NaN.
fn numbers(values: &[f32; 32]) -> impl Iterator<Item = f32> {
    values.iter().copied().filter(|x| !x.is_nan())
}

/// Returns the first value of the largest magnitude.
fn first_largest(values: &[f32; 32]) -> f32 {
    numbers(values).fold(0.0, |max, x| if x.abs() > max.abs() { x } else { max })
}

fn encode_around_zero(values: &[f32; 32], zero: u8) -> Vec<u8> {
    let d = first_largest(values) / -f32::from(zero);
    let code = |x: f32| whole(x * inverse(d) + (f32::from(zero) + 0.5)).min(2 * zero - 1);
    block(&[d], &values.map(code), zero == 16)
}

fn encode_from_smallest(values: &[f32; 32], most: u8) -> Vec<u8> {
    let min = numbers(values).fold(f32::MAX, |min, x| if x < min { x } else { min });
    let max = numbers(values).fold(f32::MIN, |max, x| if x > max { x } else { max });
    let d = (max - min) / f32::from(most);
    let code = |x: f32| whole((x - min) * inverse(d) + 0.5).min(most);
    block(&[d, min], &values.map(code), most == 31)
}

fn encode_iq4_nl(values: &[f32; 32]) -> Vec<u8> {
    let largest = first_largest(values);
    if largest.abs() < 1e-15 {
        return vec![0; 18];
    }
    let id = 1.0 / (largest / -127.0);
    let value = |code: u8| f32::from(IQ4_NL[usize::from(code)]);
    let nearest = |x: f32| {
        let a = x * id;
        if a <= -127.0 {
            return 0;
        }
        // The first larger value, if there is one; no value is larger than a NaN.
        let Some(above) = (1..16).find(|&code| a < value(code)) else {
            return 15;
        };
        match a - value(above - 1) < value(above) - a {
            true => above - 1,
            false => above,
        }
    };
    let codes = values.map(nearest);
    let (mut dot, mut square) = (0.0_f32, 0.0_f32);
    for (&x, &code) in values.iter().zip(&codes) {
        let w = x * x;
        dot += (w * value(code)) * x;
        square += (w * value(code)) * value(code);
    }
    let d = if square > 0.0 { dot / square } else { 0.0 };
    block(&[d], &codes, false)
}

/// Returns the scale and the zero point or the minimum of a group, and its codes in bytes.
fn unsigned(bits: u32, rule: Asymmetric, values: &[f32]) -> ([f32; 2], Vec<u8>) {
    let most = (1_u32 << bits) as f32 - 1.0;
    let of_numbers = || values.iter().copied().filter(|x| !x.is_nan());
    let (code, numbers): (Box<dyn Fn(f32) -> f32>, [f32; 2]) = match rule {
        Asymmetric::ZeroPoint => {
            let min = of_numbers().fold(f32::MAX, f32::min);
            let max = of_numbers().fold(f32::MIN, f32::max);
            let scale = match (max - min) / most {
                0.0 => 0.0001,
                scale => scale,
            };
            // A zero of either sign is 0.
            let zero = match (0.0 - min) / scale {
                zero if zero.is_nan() => f32::NAN,
                zero => zero,
            };
            let by = 1.0 / scale;
            let code = move |x: f32| match x.mul_add(by, zero) {
                sum if sum < 2_147_483_648.0 => sum.round_ties_even(),
                _ => 0.0,
            };
            (Box::new(code), [scale, zero])
        }
        _ => {
            let min = of_numbers().fold(f32::INFINITY, f32::min) + 0.0;
            let max = of_numbers().fold(f32::NEG_INFINITY, f32::max);
            let scale = if max > min { (max - min) / most } else { 1.0 };
            let code = move |x: f32| ((x - min) / scale).min(most).round();
            // The smaller of a NaN and a number is the number.
            let code = move |x: f32| match ((x - min) / scale).is_nan() {
                true => 0.0,
                false => code(x),
            };
            (Box::new(code), [scale, min])
        }
    };
    let codes: Vec<u8> = values
        .iter()
        .map(|x| code(*x).clamp(0.0, most) as u8)
        .collect();
    let codes = match bits {
        8 => codes,
        _ => codes.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect(),
    };
    (numbers, codes)
}

/// Returns the numbers of a group of unsigned codes.
fn signed(bits: u32, rule: Asymmetric, [scale, second]: [f32; 2], codes: &[u8]) -> Vec<f32> {
    let codes = codes.iter().flat_map(|byte| match bits {
        8 => vec![*byte],
        _ => vec![byte >> 4, byte & 15],
    });
    let value = |code: u8| match rule {
        Asymmetric::ZeroPoint => (f32::from(code) - second) * scale,
        _ => second + f32::from(code) * scale,
    };
    codes.map(value).collect()
}

/// A format with a scale per group of channels.
#[derive(Clone, Copy, Debug)]
pub enum Grouped {
    /// E2M1 and a power of two for 32 channels.
    Mxfp4(MxScale),
    /// E4M3 and a power of two for 32 channels.
    Mxfp8(MxScale),
    /// E2M1, a scale of E4M3 for 16 channels, and a factor.
    Nvfp4(f32),
    /// E4M3 and a float, or a power of two in a byte, for 64 or 128 channels.
    Tiles(usize, TileScale),
    /// Unsigned codes of some bits, with two floats for some channels.
    Asymmetric(u32, usize, Asymmetric),
}

/// A format whose numbers a call computes and stores with the codes, in a memory of its own.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A format of blocks.
    Blocks(&'static BlockFormat),
    /// Numbers per group of channels.
    Groups(Grouped),
    /// Numbers per channel of a group of tokens.
    Channels(ChannelCodes),
}

impl Kind {
    /// Returns every format that fits heads of this width, and blocks of this many slots.
    pub fn all(head_dim: usize, block_size: usize) -> Vec<Kind> {
        let blocks = BLOCKS.into_iter().map(Kind::Blocks);
        let tiles = [
            TileScale::Quotient { least: 1e-6 },
            TileScale::PowerOfTwo { least: 1e-6 },
            TileScale::E8m0 { least: 1e-6 },
        ];
        let mx = MxScale::ALL.map(|scale| [Grouped::Mxfp4(scale), Grouped::Mxfp8(scale)]);
        let tiles = tiles.map(|scale| [64, 128].map(|values| Grouped::Tiles(values, scale)));
        // Whole heads, and halves of them.
        let unsigned = [(8, 1), (8, 2), (4, 1), (4, 2)].map(|(bits, groups)| {
            Asymmetric::ALL.map(|rule| Grouped::Asymmetric(bits, head_dim / groups, rule))
        });
        let groups = mx.into_iter().chain(tiles).chain(unsigned).flatten();
        let groups = groups.chain([Grouped::Nvfp4(0.3)]).map(Kind::Groups);
        let channels = ChannelCodes::ALL.into_iter().map(Kind::Channels);
        let all = blocks.chain(groups).chain(channels);
        all.filter(|kind| kind.fits(head_dim, block_size)).collect()
    }

    fn fits(self, head_dim: usize, block_size: usize) -> bool {
        let divides = |unit: usize| unit > 0 && head_dim.is_multiple_of(unit);
        match self {
            Kind::Blocks(format) => divides(format.values),
            Kind::Groups(format) => {
                divides(format.values()) && format.values().is_multiple_of(format.per_byte())
            }
            Kind::Channels(codes) => {
                let [tokens, channels] = match codes {
                    ChannelCodes::U4 => [1, 2],
                    ChannelCodes::Kivi4 => [8, 1],
                    ChannelCodes::Kivi2 => [16, 1],
                    _ => [1, 1],
                };
                block_size > 0 && block_size.is_multiple_of(tokens) && divides(channels)
            }
        }
    }

    /// Returns true if the slots of a block are one group.
    pub fn is_by_channel(self) -> bool {
        matches!(self, Kind::Channels(_))
    }

    /// Returns the layout of a cache of `[blocks, block_size, heads, head_dim]`, and its format.
    pub fn dense(
        self,
        [blocks, block_size, heads, head_dim]: [usize; 4],
    ) -> (CacheLayout, CacheFormat<'static>) {
        let dense = CacheLayout::nhd([blocks, block_size, heads, head_dim]);
        let (layout, format) = match self {
            Kind::Blocks(format) => (dense, format.into()),
            Kind::Groups(format) => {
                let codes = head_dim / format.per_byte();
                let scales = head_dim / format.values().max(1) * format.unit();
                let width = (codes + scales) * format.per_byte();
                let layout = CacheLayout::nhd([blocks, block_size, heads, width]);
                let layout = layout.and_then(|layout| layout.narrow_channels(0..head_dim));
                (layout, format.at(ScalePlace::Inline(codes)))
            }
            Kind::Channels(codes) => (
                CacheLayout::hnd([blocks, heads, block_size, head_dim]),
                CacheFormat::by_channel(codes, block_size),
            ),
        };
        (layout.expect("a small cache"), format)
    }
}

/// The numbers of E2M1.
const E2M1: [f32; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];

impl Grouped {
    /// Returns any format whose groups divide a head, if there is one.
    pub fn any(source: &mut Source<'_>, head_dim: usize) -> Option<Self> {
        let (mx, least) = (source.one_of(&MxScale::ALL), source.one_of(&[1e-4, 1e-30]));
        let tile = match source.below(3) {
            0 => TileScale::Quotient { least },
            1 => TileScale::PowerOfTwo { least },
            _ => TileScale::E8m0 { least },
        };
        let (bits, rule) = (source.one_of(&[8, 4]), source.one_of(&Asymmetric::ALL));
        // Even, for two codes in a byte; a head has at most 64 groups.
        let even = (1..=head_dim / 2).map(|half| 2 * half);
        let divisors: Vec<usize> = even
            .filter(|width| head_dim.is_multiple_of(*width) && head_dim / width <= 64)
            .collect();
        let channels = match divisors[..] {
            [] => head_dim.max(1),
            _ => source.one_of(&divisors),
        };
        let bits = if channels.is_multiple_of(2) { bits } else { 8 };
        let factor = source.one_of(&[1.0, 0.0625, 0.3]);
        let all = [
            Grouped::Mxfp4(mx),
            Grouped::Mxfp8(mx),
            Grouped::Nvfp4(factor),
            Grouped::Tiles(64, tile),
            Grouped::Tiles(128, tile),
            Grouped::Asymmetric(bits, channels, rule),
            Grouped::Asymmetric(bits, channels, rule),
        ];
        let fit = all
            .into_iter()
            .filter(|it| head_dim.is_multiple_of(it.values()));
        let fit: Vec<Grouped> = fit.collect();
        (!fit.is_empty()).then(|| source.one_of(&fit))
    }

    /// Returns the channels of a group.
    pub fn values(self) -> usize {
        match self {
            Grouped::Mxfp4(_) | Grouped::Mxfp8(_) => 32,
            Grouped::Nvfp4(_) => 16,
            Grouped::Tiles(values, _) | Grouped::Asymmetric(_, values, _) => values,
        }
    }

    /// Returns the channels of a byte.
    pub fn per_byte(self) -> usize {
        match self {
            Grouped::Mxfp4(_) | Grouped::Nvfp4(_) => 2,
            Grouped::Mxfp8(_) | Grouped::Tiles(..) => 1,
            Grouped::Asymmetric(bits, ..) => 8 / bits as usize,
        }
    }

    /// Returns the bytes of a scale, with its zero point.
    pub fn unit(self) -> usize {
        match self {
            Grouped::Tiles(_, TileScale::E8m0 { .. }) => 1,
            Grouped::Tiles(..) => 4,
            Grouped::Asymmetric(..) => 8,
            _ => 1,
        }
    }

    /// Returns true if codes are floats of 8 bits, of which some are NaNs.
    pub fn is_float(self) -> bool {
        matches!(self, Grouped::Mxfp8(_) | Grouped::Tiles(..))
    }

    /// Returns the crate's format.
    pub fn at(self, place: ScalePlace) -> CacheFormat<'static> {
        let codes = match self {
            Grouped::Mxfp4(scale) => GroupCodes::Mxfp4(scale),
            Grouped::Mxfp8(scale) => GroupCodes::Mxfp8(scale),
            Grouped::Nvfp4(factor) => GroupCodes::Nvfp4(factor),
            Grouped::Tiles(64, scale) => GroupCodes::E4m3In64(scale),
            Grouped::Tiles(_, scale) => GroupCodes::E4m3In128(scale),
            Grouped::Asymmetric(8, channels, rule) => GroupCodes::U8(rule, channels),
            Grouped::Asymmetric(_, channels, rule) => GroupCodes::U4(rule, channels),
        };
        CacheFormat::by_group(codes, place)
    }

    fn code(self, x: f32) -> u8 {
        if self.per_byte() == 1 {
            return encode(QuantFormat::E4m3, x);
        }
        if x.is_nan() {
            return 7;
        }
        let distance = |code: &usize| f64::from((E2M1[*code] - x.abs().min(6.0)).abs());
        let nearest = (0..8).map(|code| distance(&code)).fold(8.0, f64::min);
        // A tie goes to the even code.
        let tied = (0..8_usize).filter(|code| distance(code) == nearest);
        let code = tied.min_by_key(|code| code % 2).expect("a nearest code");
        code as u8 | if x.is_sign_negative() { 8 } else { 0 }
    }

    fn number(self, code: u8) -> f32 {
        match self.per_byte() {
            1 => decode(QuantFormat::E4m3, code),
            _ if code & 8 == 0 => E2M1[usize::from(code)],
            _ => -E2M1[usize::from(code & 7)],
        }
    }

    /// Returns the bits of the scale of a group, and its values before they are rounded to codes.
    fn scaled(self, values: &[f32]) -> (u32, Vec<f32>) {
        let numbers = values.iter().filter(|x| !x.is_nan());
        let largest = numbers.fold(0.0_f32, |largest, x| largest.max(x.abs()));
        let most = if self.per_byte() == 2 { 6.0 } else { 448.0 };
        let products = |factor: f32| values.iter().map(|x| x * factor).collect();
        let power = |bits: u32| (127.0 - f64::from(bits)).exp2() as f32;
        match self {
            Grouped::Mxfp4(scale) | Grouped::Mxfp8(scale) => {
                // The exponent of the largest code, and half a unit of its mantissa.
                let (exponent, half) = if most == 6.0 {
                    (2, 1 << 21)
                } else {
                    (8, 1 << 19)
                };
                let of = |bits: u32| (bits >> 23).saturating_sub(exponent);
                let bits = match scale {
                    MxScale::Floor => of(largest.to_bits()),
                    MxScale::Even => of(largest.to_bits() + half),
                    _ => {
                        let quotient = f64::from(largest / most);
                        (0..255)
                            .find(|bits| (f64::from(*bits) - 127.0).exp2() >= quotient)
                            .unwrap_or(254)
                    }
                };
                match (scale, bits) {
                    (MxScale::Even, 0) => (0, products(0.0)),
                    _ => (bits, products(power(bits))),
                }
            }
            Grouped::Nvfp4(factor) => {
                let g = 1.0 / factor;
                let code = encode(QuantFormat::E4m3, g * (largest * (1.0 / 6.0)));
                let scale = decode(QuantFormat::E4m3, code);
                let factor = if scale == 0.0 {
                    0.0
                } else {
                    1.0 / (scale * (1.0 / g))
                };
                (code.into(), products(factor))
            }
            Grouped::Tiles(_, rule) => {
                let scale = match rule {
                    TileScale::Quotient { least } => (largest / most).max(least),
                    TileScale::PowerOfTwo { least } => {
                        let scale = (largest / most).max(least);
                        let powers = (-149..128).map(|power| f64::from(power).exp2() as f32);
                        powers
                            .into_iter()
                            .find(|power| *power >= scale)
                            .unwrap_or(f32::INFINITY)
                    }
                    TileScale::E8m0 { least } => {
                        let quotient = f64::from((largest / most).max(least));
                        let bits = (0..255)
                            .find(|bits| (f64::from(*bits) - 127.0).exp2() >= quotient)
                            .unwrap_or(254);
                        return (bits, products(power(bits)));
                    }
                    _ => unreachable!("no other rule"),
                };
                (scale.to_bits(), values.iter().map(|x| x / scale).collect())
            }
            Grouped::Asymmetric(..) => unreachable!("two numbers per group"),
        }
    }

    /// Returns the codes and the scales of a head.
    pub fn encode(self, values: &[f32]) -> [Vec<u8>; 2] {
        let (mut codes, mut scales) = (Vec::new(), Vec::new());
        for group in values.chunks(self.values()) {
            if let Grouped::Asymmetric(bits, _, rule) = self {
                let (numbers, bytes) = unsigned(bits, rule, group);
                scales.extend(numbers.map(f32::to_ne_bytes).concat());
                codes.extend(bytes);
                continue;
            }
            let (bits, scaled) = self.scaled(group);
            match self.unit() {
                1 => scales.push(bits as u8),
                _ => scales.extend(bits.to_ne_bytes()),
            }
            let group = scaled.chunks(self.per_byte()).map(|pair| {
                let codes = pair.iter().map(|x| self.code(*x));
                codes
                    .enumerate()
                    .fold(0, |byte, (at, code)| byte | code << (4 * at))
            });
            codes.extend(group);
        }
        [codes, scales]
    }

    /// Returns the numbers of a head.
    pub fn decode(self, codes: &[u8], scales: &[u8]) -> Vec<f32> {
        let bytes = self.values() / self.per_byte();
        let groups = codes.chunks(bytes).zip(scales.chunks(self.unit()));
        let number = |group: &[u8], scale: &[u8]| -> Vec<f32> {
            if let Grouped::Asymmetric(bits, _, rule) = self {
                let number =
                    |at: usize| f32::from_ne_bytes(*scale[at..].first_chunk().expect("a number"));
                return signed(bits, rule, [number(0), number(4)], group);
            }
            let codes = group.iter().flat_map(|byte| match self.per_byte() {
                1 => vec![*byte],
                _ => vec![byte & 15, byte >> 4],
            });
            let scaled = |code: u8| match self {
                Grouped::Mxfp4(_)
                | Grouped::Mxfp8(_)
                | Grouped::Tiles(_, TileScale::E8m0 { .. }) => {
                    let scale = match scale[0] {
                        255 => f32::NAN,
                        bits => (f64::from(bits) - 127.0).exp2() as f32,
                    };
                    self.number(code) * scale
                }
                Grouped::Nvfp4(factor) => {
                    self.number(code) * decode(QuantFormat::E4m3, scale[0]) * factor
                }
                Grouped::Asymmetric(..) => unreachable!("two numbers per group"),
                Grouped::Tiles(..) => {
                    let scale = scale.first_chunk().expect("four bytes");
                    self.number(code) * f32::from_ne_bytes(*scale)
                }
            };
            codes.map(scaled).collect()
        };
        groups
            .flat_map(|(group, scale)| number(group, scale))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_of_a_format_is_its_own_code() {
        for code in QuantFormat::ALL {
            for bits in 0..=u8::MAX {
                let value = decode(code, bits);
                if code == QuantFormat::E5m2Saturating && value.is_infinite() {
                    assert_eq!(encode(code, value), bits - 1);
                } else {
                    assert!(
                        same(code, encode(code, value), bits),
                        "{code:?} {bits:#04x}"
                    );
                }
            }
        }
    }
}
