//! Elements as numbers: conversions to f32 and back.

use rope_core::Element;
use rope_core::half::{bf16, f16};

use crate::convert::{Convert, LANES};
use crate::shim::Plain;

/// An element with its conversions, which have no branches, so that a loop of them is vector code.
pub(crate) trait Number: Element + Plain {
    /// Converts to f32, which is exact.
    fn widened(self) -> f32;

    /// Rounds to nearest even. A NaN becomes some NaN.
    fn narrowed(value: f32) -> Self;

    /// Converts a register of elements, by the CPU's instruction where it has one.
    #[inline(always)]
    fn all_widened(values: [Self; LANES], _: impl Convert) -> [f32; LANES] {
        values.map(Self::widened)
    }
}

impl Number for f32 {
    #[inline(always)]
    fn widened(self) -> f32 {
        self
    }

    #[inline(always)]
    fn narrowed(value: f32) -> Self {
        value
    }
}

impl Number for bf16 {
    #[inline(always)]
    fn widened(self) -> f32 {
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }

    #[inline(always)]
    fn narrowed(value: f32) -> Self {
        let bits = match value.is_nan() {
            true => 0x7fc0_0000,
            false => rounded_to_bf16(value),
        };
        bf16::from_bits((bits >> 16) as u16)
    }
}

/// Bits whose upper half is the nearest bf16, also of a NaN that operations on bf16 make, whose lower half is zero.
#[inline(always)]
pub(crate) fn rounded_to_bf16(value: f32) -> u32 {
    let bits = value.to_bits();
    bits.wrapping_add(0x7fff + (bits >> 16 & 1))
}

impl Number for f16 {
    #[inline(always)]
    fn widened(self) -> f32 {
        let bits = u32::from(self.to_bits());
        // The exponents of both types differ by 112; f16's subnormals are subnormals before the product, too.
        let value = f32::from_bits((bits & 0x7fff) << 13) * f32::from_bits((127 + 112) << 23);
        let special = f32::from_bits(0x7f80_0000 | (bits & 0x3ff) << 13);
        let magnitude = if bits & 0x7c00 == 0x7c00 {
            special
        } else {
            value
        };
        f32::from_bits(magnitude.to_bits() | (bits & 0x8000) << 16)
    }

    #[inline(always)]
    fn all_widened(values: [Self; LANES], convert: impl Convert) -> [f32; LANES] {
        convert.f16_widened(values)
    }

    #[inline(always)]
    fn narrowed(value: f32) -> Self {
        let magnitude = value.abs();
        let bits = magnitude.to_bits();
        let up = bits.wrapping_add(0xfff + (bits >> 13 & 1));
        let normal = up.wrapping_sub(112 << 23) >> 13;
        // Next to 0.5 a float has f16's least step, and its lowest bits count these.
        let subnormal = (magnitude + 0.5).to_bits() & 0x7ff;
        let least_normal = f32::from_bits((127 - 14) << 23);
        let finite = if magnitude < least_normal {
            subnormal
        } else {
            normal
        };
        let bounded = if magnitude >= 65520.0 { 0x7c00 } else { finite };
        let kept = if value.is_nan() { 0x7e00 } else { bounded };
        f16::from_bits((kept | value.to_bits() >> 16 & 0x8000) as u16)
    }
}
