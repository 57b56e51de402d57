//! 8-bit codes from their definitions, one number at a time: OCP FP8, integers, and ggml's blocks.

use half::f16;
use rope_core::cache::{BlockFormat, QuantFormat};

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

/// Returns a block of one of ggml's formats.
///
/// # Panics
///
/// If the format is unknown.
pub fn encode_block(format: &BlockFormat, values: &[f32; 32]) -> Vec<u8> {
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
