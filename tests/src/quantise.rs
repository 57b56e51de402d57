//! Codes of 8 bits, one number at a time, from their definitions: OCP FP8, integers, and ggml's Q8_0.

use half::f16;
use rope_core::Code;

/// What a number is multiplied with, or divided by, before it is rounded to a code.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Factor {
    /// `x / s`
    Divide(f32),
    /// `x m`
    Multiply(f32),
}

/// A format of floating-point numbers of 8 bits.
struct Float {
    /// Bits of the significand behind the point.
    fraction: u32,
    /// Exponent of the least normal number.
    least: i32,
    /// The code of the largest finite number.
    largest: u8,
    /// The code that what is larger becomes.
    beyond: u8,
}

const NAN: u8 = 0x7f;

fn float(code: Code) -> Option<Float> {
    let [e4m3, e5m2] = [(3, -6, 0x7e), (2, -14, 0x7b)];
    let ((fraction, least, largest), beyond) = match code {
        Code::E4m3 => (e4m3, 0x7e),
        Code::E5m2 => (e5m2, 0x7c),
        Code::E5m2Saturating => (e5m2, 0x7b),
        _ => return None,
    };
    Some(Float {
        fraction,
        least,
        largest,
        beyond,
    })
}

/// The largest magnitude that a code has, which a scale is made for.
pub fn largest(code: Code) -> f32 {
    match float(code) {
        Some(format) => decode(code, format.largest),
        None => 127.0,
    }
}

/// The code of a number that has been scaled.
///
/// # Panics
///
/// If the code is unknown.
pub fn encode(code: Code, x: f32) -> u8 {
    let integer = |rounded: f32| {
        if rounded.is_nan() {
            0
        } else {
            rounded.clamp(-128.0, 127.0) as i8 as u8
        }
    };
    match code {
        Code::Int8Even => integer(x.round_ties_even()),
        // The sum is rounded to f32, so that 0.49999997 becomes 1.
        Code::Int8Away => integer((x + 0.5_f32.copysign(x)).trunc()),
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
    // The exponent of the f64, which every f32 but 0 has as a normal number.
    let exponent = (x.to_bits() >> 52) as i32 - 1023;
    let exponent = exponent.clamp(format.least, 127);
    // Steps of the last place at that exponent, exact but for the rounding; a carry gives the next exponent.
    let steps = (x * 2f64.powi(format.fraction as i32 - exponent)).round_ties_even();
    let code = steps + f64::from((exponent - format.least) << format.fraction);
    if code > f64::from(format.largest) {
        format.beyond
    } else {
        code as u8
    }
}

/// The number of a code.
pub fn decode(code: Code, bits: u8) -> f32 {
    let Some(format) = float(code) else {
        return f32::from(bits as i8);
    };
    let magnitude = bits & 0x7f;
    let exponent = i32::from(magnitude >> format.fraction);
    let fraction = f32::from(magnitude & ((1 << format.fraction) - 1));
    let value = if code != Code::E4m3 && magnitude == 0x7c {
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

/// Whether two codes are one number, or each a NaN: what the sign of a computed NaN is depends on the machine.
pub fn same(code: Code, a: u8, b: u8) -> bool {
    a == b || float(code).is_some() && decode(code, a).is_nan() && decode(code, b).is_nan()
}

/// The codes of a head.
pub fn encode_head(code: Code, factor: Factor, values: &[f32]) -> Vec<u8> {
    let scaled = |x: &f32| match factor {
        Factor::Divide(scale) => x / scale,
        Factor::Multiply(scale) => x * scale,
    };
    values.iter().map(|x| encode(code, scaled(x))).collect()
}

/// The scale that is made for a head: its largest magnitude gets the largest code. NaNs are left out.
pub fn made(code: Code, least: f32, values: &[f32]) -> f32 {
    let magnitudes = values.iter().map(|x| x.abs()).filter(|x| !x.is_nan());
    (magnitudes.fold(0.0, f32::max) / largest(code)).max(least)
}

/// A block of ggml's Q8_0, by `quantize_row_q8_0_ref`. What C leaves open: a NaN becomes 0, and what is beyond the
/// integers the nearest of them.
pub fn encode_q8_0(values: &[f32; 32]) -> [u8; 34] {
    let magnitudes = values.iter().map(|x| x.abs()).filter(|x| !x.is_nan());
    let scale = magnitudes.fold(0.0, f32::max) / 127.0;
    let reciprocal = if scale == 0.0 { 0.0 } else { 1.0 / scale };
    let mut block = [0; 34];
    let (head, codes) = block.split_at_mut(2);
    head.copy_from_slice(&f16::from_f32(scale).to_le_bytes());
    for (code, x) in codes.iter_mut().zip(values) {
        // `round` takes halves away from zero; `as` saturates and makes 0 of a NaN.
        *code = (x * reciprocal).round() as i8 as u8;
    }
    block
}

/// The numbers of such a block.
pub fn decode_q8_0(block: &[u8; 34]) -> [f32; 32] {
    let scale = f16::from_le_bytes([block[0], block[1]]).to_f32();
    std::array::from_fn(|index| f32::from(block[2 + index] as i8) * scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_of_a_format_is_its_own_code() {
        for code in Code::ALL {
            for bits in 0..=u8::MAX {
                let value = decode(code, bits);
                if code == Code::E5m2Saturating && value.is_infinite() {
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
