//! Elements as bits, and their conversions to f32 lanes and back.

use bytemuck::Pod;
use half::{bf16, f16};

use super::{Simd, SimdQuant, SimdSums, convert};

/// The pairs of elements whose product is an f32 number, so that f32 multiplies them exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Products {
    /// Few.
    Few,
    /// The normal numbers: their bits fit.
    Normal,
    /// All.
    All,
}

/// The encoding of a number in the bits of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(any(target_arch = "riscv64", target_arch = "aarch64")),
    allow(dead_code, reason = "only line backends choose kernels by it")
)]
pub(crate) enum FloatKind {
    F32,
    F16,
    Bf16,
}

/// A group of `EACH` pairs of vectors of elements.
pub(crate) type VectorGroup<E, S, const EACH: usize> =
    [[<S as Simd>::Chunk<<E as Convert>::Bits>; 2]; EACH];

/// An element of a kernel: its bits, and its conversions, defined for one lane. `read` and `write` use the vector
/// conversions of an instruction set where there are any.
pub(crate) trait Convert {
    /// The type of its bits.
    type Bits: Pod;

    /// The encoding of numbers in the bits.
    const KIND: FloatKind;

    /// True if the kernel writes bf16, for which one instruction set has kernels of its own.
    #[cfg_attr(
        not(any(target_arch = "x86", target_arch = "x86_64")),
        allow(dead_code, reason = "only x86 has an instruction set for it")
    )]
    const BF16: bool = false;

    /// True if separating two vectors into even and odd elements costs less than into first and second half.
    const EVEN_ODD: bool = false;

    /// The pairs of elements with an exact f32 product.
    const PRODUCTS: Products;

    /// Returns the value, exactly.
    fn to_f32(x: Self::Bits) -> f32;

    /// Rounds a value to the element.
    fn from_f32(x: f32) -> Self::Bits;

    /// Loads two vectors of elements.
    #[inline(always)]
    fn read<S: Simd>(s: S, x: [S::Chunk<Self::Bits>; 2]) -> [S::F32; 2] {
        let [a, b] = x;
        [
            s.load_f32(S::map(a, Self::to_f32)),
            s.load_f32(S::map(b, Self::to_f32)),
        ]
    }

    /// Loads two vectors of elements as even and odd elements; without [`Convert::EVEN_ODD`], the same as `read`.
    #[inline(always)]
    fn read_even_odd<S: Simd>(s: S, x: [S::Chunk<Self::Bits>; 2]) -> [S::F32; 2] {
        Self::read(s, x)
    }

    /// Loads two vectors of elements as doubles.
    #[inline(always)]
    fn read_wide<S: SimdSums>(s: S, x: [S::Chunk<Self::Bits>; 2]) -> [S::Wide; 2] {
        let [a, b] = Self::read(s, x);
        [s.widen(a), s.widen(b)]
    }

    /// Returns the largest magnitudes of groups by [`SimdQuant::largest_words`], as elements; `None` if one is a NaN.
    #[inline(always)]
    fn largest_bits<const EACH: usize, S: SimdQuant>(
        _: S,
        _groups: &[VectorGroup<Self, S, EACH>],
    ) -> Option<[S::Chunk<Self::Bits>; 2]>
    where
        Self: Sized,
    {
        None
    }

    /// Undoes `read` on the two halves of a group, rounding.
    #[inline(always)]
    fn write<S: Simd>(s: S, group: [[S::F32; 2]; 2]) -> [[S::Chunk<Self::Bits>; 2]; 2] {
        let [[a, b], [c, d]] = group;
        [
            [
                S::map(s.store_f32(a), Self::from_f32),
                S::map(s.store_f32(b), Self::from_f32),
            ],
            [
                S::map(s.store_f32(c), Self::from_f32),
                S::map(s.store_f32(d), Self::from_f32),
            ],
        ]
    }

    /// Undoes `read_even_odd`, likewise.
    #[inline(always)]
    fn write_even_odd<S: Simd>(s: S, group: [[S::F32; 2]; 2]) -> [[S::Chunk<Self::Bits>; 2]; 2] {
        Self::write(s, group)
    }

    /// Rounds a group to elements and converts it back. Its NaNs come from arithmetic or from elements.
    #[inline(always)]
    fn round<S: Simd>(s: S, group: [[S::F32; 2]; 2]) -> [[S::F32; 2]; 2] {
        let [a, b] = Self::write(s, group);
        [Self::read(s, a), Self::read(s, b)]
    }
}

impl Convert for f32 {
    type Bits = f32;
    const KIND: FloatKind = FloatKind::F32;
    const PRODUCTS: Products = Products::Few;

    #[inline(always)]
    fn round<S: Simd>(_: S, group: [[S::F32; 2]; 2]) -> [[S::F32; 2]; 2] {
        group
    }

    #[inline(always)]
    fn to_f32(x: f32) -> f32 {
        x
    }

    #[inline(always)]
    fn from_f32(x: f32) -> f32 {
        x
    }

    #[inline(always)]
    fn read<S: Simd>(s: S, [a, b]: [S::Chunk<f32>; 2]) -> [S::F32; 2] {
        [s.load_f32(a), s.load_f32(b)]
    }

    #[inline(always)]
    fn read_wide<S: SimdSums>(s: S, [a, b]: [S::Chunk<f32>; 2]) -> [S::Wide; 2] {
        [s.load_f32_wide(a), s.load_f32_wide(b)]
    }

    #[inline(always)]
    fn write<S: Simd>(s: S, group: [[S::F32; 2]; 2]) -> [[S::Chunk<f32>; 2]; 2] {
        let [[a, b], [c, d]] = group;
        [
            [s.store_f32(a), s.store_f32(b)],
            [s.store_f32(c), s.store_f32(d)],
        ]
    }
}

impl Convert for f16 {
    type Bits = u16;
    const KIND: FloatKind = FloatKind::F16;
    const PRODUCTS: Products = Products::All;

    #[inline(always)]
    fn to_f32(x: u16) -> f32 {
        convert::f16_to_f32(x)
    }

    #[inline(always)]
    fn from_f32(x: f32) -> u16 {
        convert::f32_to_f16(x)
    }

    #[inline(always)]
    fn read<S: Simd>(s: S, x: [S::Chunk<u16>; 2]) -> [S::F32; 2] {
        s.load_f16(x)
    }

    #[inline(always)]
    fn largest_bits<const EACH: usize, S: SimdQuant>(
        s: S,
        groups: &[VectorGroup<Self, S, EACH>],
    ) -> Option<[S::Chunk<u16>; 2]> {
        s.largest_words(groups, f16::INFINITY.to_bits())
    }

    #[inline(always)]
    fn write<S: Simd>(s: S, [a, b]: [[S::F32; 2]; 2]) -> [[S::Chunk<u16>; 2]; 2] {
        [s.store_f16(a), s.store_f16(b)]
    }
}

/// Two bf16 are one 32-bit word. A shift or a mask of the word is the f32 of each, so separating even and odd elements
/// costs less than widening.
impl Convert for bf16 {
    type Bits = u16;
    const KIND: FloatKind = FloatKind::Bf16;
    const PRODUCTS: Products = Products::Normal;
    const BF16: bool = true;
    const EVEN_ODD: bool = true;

    #[inline(always)]
    fn to_f32(x: u16) -> f32 {
        convert::bf16_to_f32(x)
    }

    #[inline(always)]
    fn from_f32(x: f32) -> u16 {
        convert::f32_to_bf16(x)
    }

    /// Even and odd elements need no shuffle, neither to be packed nor to be separated.
    #[inline(always)]
    fn round<S: Simd>(s: S, group: [[S::F32; 2]; 2]) -> [[S::F32; 2]; 2] {
        let [a, b] = s.store_bf16_even_odd(group);
        [s.load_bf16_even_odd(a), s.load_bf16_even_odd(b)]
    }

    #[inline(always)]
    fn read<S: Simd>(s: S, x: [S::Chunk<u16>; 2]) -> [S::F32; 2] {
        s.load_bf16(x)
    }

    #[inline(always)]
    fn largest_bits<const EACH: usize, S: SimdQuant>(
        s: S,
        groups: &[VectorGroup<Self, S, EACH>],
    ) -> Option<[S::Chunk<u16>; 2]> {
        s.largest_words(groups, bf16::INFINITY.to_bits())
    }

    #[inline(always)]
    fn read_even_odd<S: Simd>(s: S, x: [S::Chunk<u16>; 2]) -> [S::F32; 2] {
        s.load_bf16_even_odd(x)
    }

    #[inline(always)]
    fn write<S: Simd>(s: S, group: [[S::F32; 2]; 2]) -> [[S::Chunk<u16>; 2]; 2] {
        s.store_bf16(group)
    }

    #[inline(always)]
    fn write_even_odd<S: Simd>(s: S, group: [[S::F32; 2]; 2]) -> [[S::Chunk<u16>; 2]; 2] {
        s.store_bf16_even_odd(group)
    }
}
