//! Conversions of one lane with integer and f32 operations only: what instruction sets without their own use. Free of
//! branches, so that the compiler vectorises a loop of them.

/// IEEE binary16 to f32, exactly.
#[inline(always)]
pub(crate) fn f16_to_f32(x: u16) -> f32 {
    let sign = u32::from(x & 0x8000) << 16;
    let magnitude = u32::from(x & 0x7fff) << 13;
    // The exponent is now biased by 15 where f32 wants 127; a product with a power of two corrects it and normalises
    // subnormals. It leaves infinities and NaNs at exponent 31 + 112, so they are put right by hand.
    let finite = (f32::from_bits(magnitude) * f32::from_bits((127 + 112) << 23)).to_bits();
    let special = magnitude | 0x7f80_0000;
    f32::from_bits(
        sign | if x & 0x7c00 == 0x7c00 {
            special
        } else {
            finite
        },
    )
}

/// f32 to IEEE binary16, to nearest, ties to even.
#[inline(always)]
pub(crate) fn f32_to_f16(x: f32) -> u16 {
    let bits = x.to_bits();
    let sign = (bits >> 16) & 0x8000;
    let magnitude = bits & 0x7fff_ffff;
    // Half an ulp less one, and one more if the bit that will be last is odd.
    let normal = magnitude
        .wrapping_sub(112 << 23)
        .wrapping_add(0xfff + ((magnitude >> 13) & 1))
        >> 13;
    // Below 2^-14 the spacing is 2^-24, which is an ulp of 0.5: the sum rounds as it should.
    let subnormal = (f32::from_bits(magnitude) + 0.5)
        .to_bits()
        .wrapping_sub(0.5_f32.to_bits());
    let special = if magnitude > 0x7f80_0000 {
        0x7e00
    } else {
        0x7c00
    };
    let rounded = if magnitude < 113 << 23 {
        subnormal
    } else if magnitude >= (127 + 16) << 23 {
        special
    } else {
        normal
    };
    (sign | rounded) as u16
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
