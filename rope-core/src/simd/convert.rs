//! Conversions of one lane by integer and f32 operations, for instruction sets that lack the conversion. They have no
//! branches, so LLVM vectorizes loops of them. `f8` is a float of 8 bits.

/// IEEE binary16 to f32, exactly. Quiets a signaling NaN, as hardware conversions do.
#[inline(always)]
pub(crate) fn f16_to_f32(x: u16) -> f32 {
    let sign = u32::from(x & 0x8000) << 16;
    let magnitude = u32::from(x & 0x7fff) << 13;
    // The exponent has the bias 15 instead of f32's 127. A product with a power of two corrects it and normalizes
    // subnormals. Infinities and NaNs get the exponent 255 first, which the product keeps.
    let special = if x & 0x7c00 == 0x7c00 { 0x7f80_0000 } else { 0 };
    let product = f32::from_bits(magnitude | special) * f32::from_bits((127 + 112) << 23);
    f32::from_bits(sign | product.to_bits())
}

/// f32 to IEEE binary16, to nearest, ties to even.
///
/// Let `2^e` be the largest power of two in the magnitude. The magnitude plus `2^(e + 13)` has the last place of the
/// f16, so the sum is rounded as the conversion requires. Its lowest bits count units of the f16's last place, and its
/// exponent is the f16's with another bias. Subnormals have units of `2^-24`, like the sum with 0.5. 65536 is infinity.
#[inline(always)]
pub(crate) fn f32_to_f16(x: f32) -> u16 {
    let sign = (x.to_bits() >> 16) & 0x8000;
    let magnitude = x.abs();
    // Keeps a NaN: its sum is beyond every code.
    let size = if magnitude > 65536.0 {
        65536.0
    } else {
        magnitude
    };
    let power = f32::from_bits((size.to_bits() & 0x7f80_0000) + (13 << 23));
    let power = if power > 0.5 { power } else { 0.5 };
    let sum = (size + power).to_bits();
    // The exponent of 0.5 is code 0. Signed, because SSE2 compares no unsigned numbers.
    let code = ((sum >> 16) << 3) + (sum & 0xffff) - (126 << 10);
    (sign | code.cast_signed().min(0x7e00).cast_unsigned()) as u16
}

/// bfloat16 to f32, exactly.
#[inline(always)]
pub(crate) fn bf16_to_f32(x: u16) -> f32 {
    f32::from_bits(u32::from(x) << 16)
}

/// f32 to bfloat16, to nearest, ties to even.
#[inline(always)]
pub(crate) fn f32_to_bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1));
    // Rounding could carry a NaN into an infinity or into zero; it is made quiet instead.
    ((if x.is_nan() {
        bits | 0x0040_0000
    } else {
        rounded
    }) >> 16) as u16
}

/// The least normal number of E4M3FN (3 mantissa bits), as bits of f32.
pub(crate) const E4M3_LEAST: u32 = (1.0_f32 / 64.0).to_bits();
/// The number of E5M2 (2 bits).
pub(crate) const E5M2_LEAST: u32 = (1.0_f32 / 16384.0).to_bits();

/// f32 to a float of 8 bits with `MANTISSA` bits of mantissa, to nearest, ties to even. `LEAST` is its least
/// normal number, as bits of f32. Values beyond the code `most` become that code; a NaN becomes the code with all bits
/// set.
///
/// A power of two is added that gives the sum the last place of the code, so the sum is rounded as the code must be.
/// The sum minus the power counts units of the last place, and the power is the exponent.
#[inline(always)]
pub(crate) fn f32_to_f8<const MANTISSA: u32, const LEAST: u32>(x: f32, most: u32) -> u8 {
    let sign = (x.to_bits() >> 24) & 0x80;
    let (size, power, aligned) = f8_places::<MANTISSA, LEAST>(x, most);
    let units = (size + f32::from_bits(aligned)).to_bits() - aligned;
    let code = units + ((power - LEAST) >> (23 - MANTISSA));
    let nan = if x.is_nan() { 0x7f } else { 0 };
    (sign | code | nan) as u8
}

/// The magnitude of the float of 8 bits that `f32_to_f8` rounds to. A NaN stays one.
#[inline(always)]
pub(crate) fn nearest_f8<const MANTISSA: u32, const LEAST: u32>(x: f32, most: u32) -> f32 {
    let (size, _, aligned) = f8_places::<MANTISSA, LEAST>(x, most);
    let aligned = f32::from_bits(aligned);
    let nearest = (size + aligned) - aligned;
    if x.is_nan() { x } else { nearest }
}

/// Returns the magnitude of `x` up to the code `most`; the bits of the power of two of its exponent, at least `LEAST`;
/// and those of the power that `f32_to_f8` adds.
#[inline(always)]
fn f8_places<const MANTISSA: u32, const LEAST: u32>(x: f32, most: u32) -> (f32, u32, u32) {
    let finer = 23 - MANTISSA;
    let least = f32::from_bits(LEAST);
    let most = f32::from_bits((most << finer) + LEAST - (1 << 23));
    let magnitude = x.abs();
    // A float minimum: SSE2 has none for integers.
    let size = if magnitude < most { magnitude } else { most };
    let power = f32::from_bits(size.to_bits() & 0x7f80_0000);
    let power = if power > least { power } else { least }.to_bits();
    (size, power, power + (finer << 23))
}

/// A float of 8 bits to f32, exactly: with the constants of `f32_to_f8`. From the magnitude `SPECIAL` on, codes are
/// infinities and NaNs.
#[inline(always)]
pub(crate) const fn f8_to_f32<const MANTISSA: u32, const LEAST: u32, const SPECIAL: u32>(
    x: u8,
) -> f32 {
    let sign = (x as u32 & 0x80) << 24;
    let magnitude = x as u32 & 0x7f;
    let finer = 23 - MANTISSA;
    // The implicit bit of the least normal number counts as one of its exponent.
    let normal = (magnitude << finer) + (LEAST - (1 << 23));
    // A number with the last place of a subnormal, and the subnormal in its lowest bits.
    let aligned = LEAST + (finer << 23);
    let subnormal = (f32::from_bits(aligned | magnitude) - f32::from_bits(aligned)).to_bits();
    let number = if magnitude < 1 << MANTISSA {
        subnormal
    } else {
        normal
    };
    let special = if magnitude < SPECIAL { 0 } else { 0x7f80_0000 };
    f32::from_bits(sign | number | special)
}

/// f32 to an unsigned integer of 8 bits, to nearest, ties to even; saturates. A NaN, and what reaches 2^31, becomes 0,
/// as `cvtps2dq` makes the least integer of both.
#[inline(always)]
pub(crate) fn f32_to_u8_even(x: f32) -> u8 {
    /// From here to its double, floats are at a distance of 1.
    const UNITS: f32 = (1_u32 << 23) as f32;
    let x = if x > 0.0 && x < 2_147_483_648.0 {
        x
    } else {
        0.0
    };
    let x = if x < 255.0 { x } else { 255.0 };
    (x + UNITS).to_bits() as u8
}

/// `a b + c`, rounded once.
///
/// The product is exact in f64. The sum is rounded to odd, which the rounding to f32 cannot tell from the exact sum.
#[inline(always)]
pub(crate) fn mul_add(a: f32, b: f32, c: f32) -> f32 {
    let (product, c) = (f64::from(a) * f64::from(b), f64::from(c));
    let sum = product + c;
    let rest = sum - product;
    let lost = (product - (sum - rest)) + (c - rest);
    let even = sum.to_bits() & 1 == 0;
    let away = (lost > 0.0) == (sum > 0.0);
    // An infinity has lost nothing that compares.
    let odd = if lost.abs() > 0.0 && even {
        if away {
            sum.to_bits() + 1
        } else {
            sum.to_bits() - 1
        }
    } else {
        sum.to_bits()
    };
    f64::from_bits(odd) as f32
}

/// f32 to an integer of 8 bits, to nearest, ties to even; saturates. A NaN becomes 0.
#[inline(always)]
pub(crate) fn f32_to_i8_even(x: f32) -> u8 {
    integer_to_i8(clamp_to_i8(x))
}

/// f32 to an integer of 8 bits: adds `half` to the magnitude, in f32, drops the fraction, and saturates. A NaN becomes
/// 0.
#[inline(always)]
pub(crate) fn f32_to_i8_away(x: f32, half: f32) -> u8 {
    /// Numbers from here on have no fraction.
    const WHOLE: f32 = (1 << 23) as f32;
    let sum = clamp_to_i8(x + half.copysign(x));
    let size = sum.abs();
    let nearest = (size + WHOLE) - WHOLE;
    let whole = if nearest > size {
        nearest - 1.0
    } else {
        nearest
    };
    integer_to_i8(whole.copysign(sum))
}

#[inline(always)]
fn clamp_to_i8(x: f32) -> f32 {
    let number = if x.is_nan() { 0.0 } else { x };
    let inside = if number > -128.0 { number } else { -128.0 };
    if inside < 127.0 { inside } else { 127.0 }
}

/// Rounds a small number to an integer, ties to even.
#[inline(always)]
fn integer_to_i8(x: f32) -> u8 {
    /// Its last place is 1, so the sum has no fraction. Its lowest byte is 0, so the sum's lowest byte is the code.
    const ONES: f32 = 1.5 * (1 << 23) as f32;
    (x + ONES).to_bits() as u8
}

/// An integer of 8 bits to f32.
#[inline(always)]
pub(crate) fn i8_to_f32(x: u8) -> f32 {
    f32::from(x.cast_signed())
}
