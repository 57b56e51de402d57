//! The element types as bits, with conversions of their own, and their special values.

use std::fmt::Debug;

use half::{bf16, f16};
use rope_core::Element;

use crate::Source;

/// An element type as the harness sees it.
pub trait Number: Element + Debug {
    /// Name of the type in messages.
    const NAME: &'static str;

    /// Bits of the special values.
    const SPECIAL: &'static [u32];

    /// Returns the bits.
    fn bits(self) -> u32;

    /// Returns the value of the low bits.
    fn from_bits(bits: u32) -> Self;

    /// Converts to f32 exactly.
    fn to_f32(self) -> f32;

    /// Rounds an f32 to nearest, ties to even.
    fn from_f32(x: f32) -> Self;

    /// Returns true for a NaN.
    fn is_nan(self) -> bool {
        self.to_f32().is_nan()
    }
}

impl Number for f32 {
    const NAME: &'static str = "f32";

    #[rustfmt::skip]
    const SPECIAL: &'static [u32] = &[
        0x0000_0000, 0x8000_0000, // zeros
        0x3f80_0000, 0xbf80_0000, // ones
        0x7f80_0000, 0xff80_0000, // infinities
        0x7fc0_0000, 0xffc1_2345, // quiet NaNs
        0x7f80_0001, 0xff80_0001, // signaling NaNs whose payload 16 bits do not hold
        0x7fff_ffff, 0xffff_ffff, // NaNs that a rounding carry would turn into zeros
        0x0000_0001, 0x807f_ffff, // least and greatest subnormal
        0x0080_0000, 0x8080_0000, // least normal
        0x7f7f_ffff, 0xff7f_ffff, // greatest
        0x7f7f_7fff, 0x7f7f_8000, // either side of the overflow of bf16
        0x477f_efff, 0x477f_f000, // either side of the overflow of f16
        0x3f80_8000, 0x3f81_8000, // ties of bf16, to the even neighbor below and above
        0x3f80_1000, 0x3f80_3000, // ties of f16
        0x0000_8000, 0x0001_8000, 0x0000_8001, // ties of subnormal bf16
        0x3300_0000, 0x3300_0001, 0x33c0_0000, // ties of subnormal f16
        0x387f_f000, 0x387f_efff, 0x3880_0000, // where f16 becomes normal
    ];

    fn bits(self) -> u32 {
        self.to_bits()
    }

    fn from_bits(bits: u32) -> Self {
        f32::from_bits(bits)
    }

    fn to_f32(self) -> f32 {
        self
    }

    fn from_f32(x: f32) -> Self {
        x
    }
}

impl Number for f16 {
    const NAME: &'static str = "f16";

    #[rustfmt::skip]
    const SPECIAL: &'static [u32] = &[
        0x0000, 0x8000, 0x3c00, 0xbc00, // zeros and ones
        0x7c00, 0xfc00, // infinities
        0x7e00, 0xfe01, 0x7c01, 0xfc01, 0x7fff, 0xffff, // NaNs
        0x0001, 0x83ff, 0x0400, 0x8400, // subnormals, least normals
        0x7bff, 0xfbff, // greatest
        0x3c01, 0x3555,
    ];

    fn bits(self) -> u32 {
        self.to_bits().into()
    }

    fn from_bits(bits: u32) -> Self {
        f16::from_bits(bits as u16)
    }

    fn to_f32(self) -> f32 {
        f16::to_f32(self)
    }

    fn from_f32(x: f32) -> Self {
        f16::from_f32(x)
    }
}

impl Number for bf16 {
    const NAME: &'static str = "bf16";

    #[rustfmt::skip]
    const SPECIAL: &'static [u32] = &[
        0x0000, 0x8000, 0x3f80, 0xbf80, // zeros and ones
        0x7f80, 0xff80, // infinities
        0x7fc0, 0xffc1, 0x7f81, 0xff81, 0x7fff, 0xffff, // NaNs
        0x0001, 0x807f, 0x0080, 0x8080, // subnormals, least normals
        0x7f7f, 0xff7f, // greatest
        0x3f81, 0x3eab,
    ];

    fn bits(self) -> u32 {
        self.to_bits().into()
    }

    fn from_bits(bits: u32) -> Self {
        bf16::from_bits(bits as u16)
    }

    fn to_f32(self) -> f32 {
        bf16::to_f32(self)
    }

    fn from_f32(x: f32) -> Self {
        bf16::from_f32(x)
    }
}

/// The distribution of a tensor's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Temper {
    /// Between -4 and 4, with every bit of the significand at random.
    Ordinary,
    /// Ordinary values, one in eight replaced by a special value.
    Spiked,
    /// Any finite magnitude.
    Wide,
    /// Any bits.
    Wild,
    /// f32 values midway between two bf16 or two f16 values.
    Ties,
}

impl Temper {
    /// All tempers.
    pub const ALL: [Temper; 5] = [
        Temper::Ordinary,
        Temper::Spiked,
        Temper::Wide,
        Temper::Wild,
        Temper::Ties,
    ];

    /// Returns a value of this temper.
    pub fn value<E: Number>(self, source: &mut Source<'_>) -> E {
        match self {
            Temper::Spiked if source.once_in(8) => special(source),
            Temper::Ordinary | Temper::Spiked => E::from_f32(4.0 * source.unit()),
            Temper::Wild => E::from_bits(source.word()),
            Temper::Wide => {
                let value = E::from_bits(source.word());
                if value.to_f32().is_finite() {
                    value
                } else {
                    E::from_f32(source.unit())
                }
            }
            Temper::Ties => {
                let bits = source.word();
                // f16 is finite from 2^-24 to 2^16.
                let exponent = (127 - 26 + source.below(43) as u32) << 23;
                E::from_f32(f32::from_bits(if bits & 1 == 0 {
                    bits & 0xffff_0000 | 0x8000
                } else {
                    bits & 0x807f_e000 | exponent | 0x1000
                }))
            }
        }
    }
}

/// Returns one of the special values.
pub fn special<E: Number>(source: &mut Source<'_>) -> E {
    E::from_bits(source.one_of(E::SPECIAL))
}

/// Returns values of one temper, chosen by the source.
pub fn values<E: Number>(source: &mut Source<'_>, len: usize) -> Vec<E> {
    let temper = source.one_of(&Temper::ALL);
    (0..len).map(|_| temper.value(source)).collect()
}

/// Returns any bits, the contents of a buffer before it is written.
pub fn paint<E: Number>(source: &mut Source<'_>, len: usize) -> Vec<E> {
    (0..len).map(|_| E::from_bits(source.word())).collect()
}
