//! Four lanes through `wide`: SSE2, NEON, wasm simd128, or arrays where the build's target has none of them. Also the
//! tail of the wider x86 backends, inside which the same code is compiled with their instructions.
//!
//! | operation | SSE2 | wasm |
//! |---|---|---|
//! | `unzip` | `unpcklps`, `unpckhps`, twice | four `i8x16.shuffle` |
//! | `zip` | `unpcklps`, `unpckhps` | two `i8x16.shuffle` |
//! | `order`, `unorder` | nothing: lanes keep their order | |
//!
//! `wide::mul_add` is not used: it fuses on some builds and not on others.

use wide::f32x4;

use super::Simd;
use super::convert::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};
use super::scalar::Scalar;
use crate::kernel::Kernel;

/// Needs nothing beyond the build's target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Portable;

impl Portable {
    pub(crate) fn detect() -> Option<Self> {
        Some(Portable)
    }
}

impl Simd for Portable {
    const LANES: usize = 4;
    const HELD: usize = 4;
    const SHUFFLES: bool = false;
    const DOUBLES: bool = false;
    type F32 = f32x4;
    type Chunk<T: Copy> = [T; 4];
    type Narrower = Scalar;

    #[inline(never)]
    fn enter<K: Kernel>(self, kernel: K) {
        kernel.run(self);
    }

    #[inline(always)]
    fn narrower(self) -> Scalar {
        Scalar
    }

    #[inline(always)]
    fn chunks<T: Copy>(x: &[T]) -> &[[T; 4]] {
        x.as_chunks().0
    }

    #[inline(always)]
    fn chunks_mut<T: Copy>(x: &mut [T]) -> &mut [[T; 4]] {
        x.as_chunks_mut().0
    }

    #[inline(always)]
    fn splat(self, x: f32) -> f32x4 {
        f32x4::splat(x)
    }

    #[inline(always)]
    fn from_f32(self, x: [f32; 4]) -> f32x4 {
        f32x4::new(x)
    }

    #[inline(always)]
    fn to_f32(self, x: f32x4) -> [f32; 4] {
        x.to_array()
    }

    #[inline(always)]
    fn from_f16(self, [a, b, c, d]: [u16; 4]) -> f32x4 {
        f32x4::new([f16_to_f32(a), f16_to_f32(b), f16_to_f32(c), f16_to_f32(d)])
    }

    #[inline(always)]
    fn to_f16(self, x: f32x4) -> [u16; 4] {
        let [a, b, c, d] = x.to_array();
        [f32_to_f16(a), f32_to_f16(b), f32_to_f16(c), f32_to_f16(d)]
    }

    #[inline(always)]
    fn from_bf16(self, [a, b, c, d]: [u16; 4]) -> f32x4 {
        f32x4::new([bf16_to_f32(a), bf16_to_f32(b), bf16_to_f32(c), bf16_to_f32(d)])
    }

    #[inline(always)]
    fn to_bf16(self, x: f32x4, y: f32x4) -> [[u16; 4]; 2] {
        let ([a, b, c, d], [e, f, g, h]) = (x.to_array(), y.to_array());
        [
            [f32_to_bf16(a), f32_to_bf16(b), f32_to_bf16(c), f32_to_bf16(d)],
            [f32_to_bf16(e), f32_to_bf16(f), f32_to_bf16(g), f32_to_bf16(h)],
        ]
    }

    #[inline(always)]
    fn from_bf16_pairs(self, [a, b]: [[u16; 4]; 2]) -> (f32x4, f32x4) {
        self.unzip(self.from_bf16(a), self.from_bf16(b))
    }

    #[inline(always)]
    fn to_bf16_pairs(self, x: f32x4, y: f32x4) -> [[u16; 4]; 2] {
        let (a, b) = self.zip(x, y);
        self.to_bf16(a, b)
    }

    #[inline(always)]
    fn add(self, a: f32x4, b: f32x4) -> f32x4 {
        a + b
    }

    #[inline(always)]
    fn sub(self, a: f32x4, b: f32x4) -> f32x4 {
        a - b
    }

    #[inline(always)]
    fn mul(self, a: f32x4, b: f32x4) -> f32x4 {
        a * b
    }

    #[inline(always)]
    fn swap(self, x: f32x4) -> f32x4 {
        let [a, b, c, d] = x.to_array();
        f32x4::new([b, a, d, c])
    }

    #[inline(always)]
    fn unzip(self, a: f32x4, b: f32x4) -> (f32x4, f32x4) {
        // x0 y0 x1 y1, x2 y2 x3 y3 -> x0 x2 y0 y2, x1 x3 y1 y3 -> x0 x1 x2 x3, y0 y1 y2 y3
        let (even, odd) = (a.unpack_lo(b), a.unpack_hi(b));
        (even.unpack_lo(odd), even.unpack_hi(odd))
    }

    #[inline(always)]
    fn zip(self, x: f32x4, y: f32x4) -> (f32x4, f32x4) {
        (x.unpack_lo(y), x.unpack_hi(y))
    }

    #[inline(always)]
    fn order(self, x: f32x4) -> f32x4 {
        x
    }

    #[inline(always)]
    fn unorder(self, x: f32x4) -> f32x4 {
        x
    }
}
