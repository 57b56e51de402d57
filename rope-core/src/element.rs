//! Element types: how they are stored, and how they become f32 lanes and go back.

use bytemuck::Pod;
use half::{bf16, f16};

use crate::simd::Simd;

/// A type that tensors are made of: `f32`, [`half::f16`] or [`half::bf16`].
///
/// Whatever the element, the arithmetic is f32, and its result is rounded to the element once, to nearest, ties to
/// even. Converting up is exact.
///
/// Special values: infinities, subnormals and the sign of zero are kept by both conversions (nothing is flushed), and
/// what rounds beyond the largest finite value becomes an infinity. A NaN stays a NaN; which one is not promised,
/// because instruction sets differ in the payload they pass on.
pub trait Element: Convert {}

impl Element for f32 {}
impl Element for f16 {}
impl Element for bf16 {}

/// An element as the kernel sees it. Sealed: a new element is one implementation here.
pub trait Convert: Pod + Send + Sync {
    /// The type its bits are kept in.
    type Bits: Pod;

    /// Whether [`load_pairs`](Convert::load_pairs) leaves lanes in the order of [`Simd::unzip`] rather than their own.
    const SHUFFLED: bool;

    /// A vector of elements.
    fn load<S: Simd>(s: S, x: S::Chunk<Self::Bits>) -> S::F32;

    /// Two vectors of elements, rounded. Two, because instruction sets that narrow to 16 bits do it two at a time.
    fn store<S: Simd>(s: S, x: S::F32, y: S::F32) -> [S::Chunk<Self::Bits>; 2];

    /// Two vectors of alternating elements as their first and second members.
    fn load_pairs<S: Simd>(s: S, xy: [S::Chunk<Self::Bits>; 2]) -> (S::F32, S::F32);

    /// Undoes [`load_pairs`](Convert::load_pairs), rounding.
    fn store_pairs<S: Simd>(s: S, x: S::F32, y: S::F32) -> [S::Chunk<Self::Bits>; 2];
}

impl Convert for f32 {
    type Bits = f32;
    const SHUFFLED: bool = true;

    #[inline(always)]
    fn load<S: Simd>(s: S, x: S::Chunk<f32>) -> S::F32 {
        s.load_f32(x)
    }

    #[inline(always)]
    fn store<S: Simd>(s: S, x: S::F32, y: S::F32) -> [S::Chunk<f32>; 2] {
        [s.store_f32(x), s.store_f32(y)]
    }

    #[inline(always)]
    fn load_pairs<S: Simd>(s: S, [a, b]: [S::Chunk<f32>; 2]) -> (S::F32, S::F32) {
        s.unzip(s.load_f32(a), s.load_f32(b))
    }

    #[inline(always)]
    fn store_pairs<S: Simd>(s: S, x: S::F32, y: S::F32) -> [S::Chunk<f32>; 2] {
        let (a, b) = s.zip(x, y);
        [s.store_f32(a), s.store_f32(b)]
    }
}

impl Convert for f16 {
    type Bits = u16;
    const SHUFFLED: bool = true;

    #[inline(always)]
    fn load<S: Simd>(s: S, x: S::Chunk<u16>) -> S::F32 {
        s.load_f16(x)
    }

    #[inline(always)]
    fn store<S: Simd>(s: S, x: S::F32, y: S::F32) -> [S::Chunk<u16>; 2] {
        [s.store_f16(x), s.store_f16(y)]
    }

    #[inline(always)]
    fn load_pairs<S: Simd>(s: S, [a, b]: [S::Chunk<u16>; 2]) -> (S::F32, S::F32) {
        s.unzip(s.load_f16(a), s.load_f16(b))
    }

    #[inline(always)]
    fn store_pairs<S: Simd>(s: S, x: S::F32, y: S::F32) -> [S::Chunk<u16>; 2] {
        let (a, b) = s.zip(x, y);
        [s.store_f16(a), s.store_f16(b)]
    }
}

/// A pair of bf16 is one 32-bit word, and each member's f32 is that word shifted or masked: pairs come apart in their
/// own order for less than unzipping costs.
impl Convert for bf16 {
    type Bits = u16;
    const SHUFFLED: bool = false;

    #[inline(always)]
    fn load<S: Simd>(s: S, x: S::Chunk<u16>) -> S::F32 {
        s.load_bf16(x)
    }

    #[inline(always)]
    fn store<S: Simd>(s: S, x: S::F32, y: S::F32) -> [S::Chunk<u16>; 2] {
        s.store_bf16(x, y)
    }

    #[inline(always)]
    fn load_pairs<S: Simd>(s: S, xy: [S::Chunk<u16>; 2]) -> (S::F32, S::F32) {
        s.load_bf16_pairs(xy)
    }

    #[inline(always)]
    fn store_pairs<S: Simd>(s: S, x: S::F32, y: S::F32) -> [S::Chunk<u16>; 2] {
        s.store_bf16_pairs(x, y)
    }
}
