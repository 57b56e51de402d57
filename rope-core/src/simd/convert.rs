//! Conversions of one lane with integer and f32 operations only: what instruction sets without their own use. Free of
//! branches, so that the compiler vectorizes a loop of them. A float of 8 bits is written `f8`.

/// IEEE binary16 to f32, exactly. Quiets a signaling NaN, as hardware conversions do.
#[inline(always)]
pub(crate) fn f16_to_f32(x: u16) -> f32 {
    let sign = u32::from(x & 0x8000) << 16;
    let magnitude = u32::from(x & 0x7fff) << 13;
    // The exponent is now biased by 15 where f32 wants 127; a product with a power of two corrects it and normalizes
    // subnormals. Infinities and NaNs get the exponent of an f32's first: a product keeps it.
    let special = if x & 0x7c00 == 0x7c00 { 0x7f80_0000 } else { 0 };
    let product = f32::from_bits(magnitude | special) * f32::from_bits((127 + 112) << 23);
    f32::from_bits(sign | product.to_bits())
}

/// f32 to IEEE binary16, to nearest, ties to even.
///
/// With `2^e` the largest power of two in the magnitude, the last bit of the magnitude plus `2^(e + 13)` is that of the
/// f16, so this sum rounds as the conversion must. Its lowest bits count units of the f16's last place, and its
/// exponent is the f16's with another bias. Subnormals have units of `2^-24`, as the sum with 0.5 has; 65536 is
/// infinity.
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
/// normal number, as bits of f32. What is beyond the code `most` becomes that code, and a NaN the one with all bits
/// set.
///
/// A sum with a power of two whose last bit is that of the code rounds as the code does. What the sum exceeds that
/// power by counts units of the last place, and the power itself is the exponent.
#[inline(always)]
pub(crate) fn f32_to_f8<const MANTISSA: u32, const LEAST: u32>(x: f32, most: u32) -> u8 {
    let finer = 23 - MANTISSA;
    let least = f32::from_bits(LEAST);
    let most = f32::from_bits((most << finer) + LEAST - (1 << 23));
    let sign = (x.to_bits() >> 24) & 0x80;
    let magnitude = x.abs();
    // Of floats, because SSE2 has no minimum of integers.
    let size = if magnitude < most { magnitude } else { most };
    let power = f32::from_bits(size.to_bits() & 0x7f80_0000);
    let power = if power > least { power } else { least }.to_bits();
    let aligned = power + (finer << 23);
    let units = (size + f32::from_bits(aligned)).to_bits() - aligned;
    let code = units + ((power - LEAST) >> finer);
    let nan = if x.is_nan() { 0x7f } else { 0 };
    (sign | code | nan) as u8
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
    // A number whose last bit is that of a subnormal, and the subnormal in its lowest bits.
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

/// f32 to an integer of 8 bits, to nearest, ties to even. What is beyond saturates; a NaN becomes 0.
#[inline(always)]
pub(crate) fn f32_to_i8_even(x: f32) -> u8 {
    integer_to_i8(clamp_to_i8(x))
}

/// f32 to an integer of 8 bits: `half` is added to the magnitude, in f32, and the fraction dropped. What is beyond
/// saturates; a NaN becomes 0.
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
    /// Its last bit is 1, so a sum with it has no fraction; and its lowest byte is 0, so that of the sum is the code.
    const ONES: f32 = 1.5 * (1 << 23) as f32;
    (x + ONES).to_bits() as u8
}

/// An integer of 8 bits to f32.
#[inline(always)]
pub(crate) fn i8_to_f32(x: u8) -> f32 {
    f32::from(x.cast_signed())
}
