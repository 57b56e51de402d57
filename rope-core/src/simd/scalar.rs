//! One lane, in plain Rust: the reference, the tail of every other backend, and the fallback of CPUs without vectors.

use super::Simd;
use super::convert::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};
use crate::kernel::Kernel;

/// Needs nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scalar;

impl Scalar {
    pub(crate) fn detect() -> Option<Self> {
        Some(Scalar)
    }
}

impl Simd for Scalar {
    const LANES: usize = 1;
    // Read per head in a plain loop, which the compiler vectorises for the target's own baseline.
    const HELD: usize = 0;
    const SHUFFLES: bool = false;
    const DOUBLES: bool = false;
    type F32 = f32;
    type Chunk<T: Copy> = [T; 1];
    type Narrower = Scalar;

    #[inline(never)]
    fn enter<K: Kernel>(self, kernel: K) {
        kernel.run(self);
    }

    #[inline(always)]
    fn narrower(self) -> Scalar {
        self
    }

    #[inline(always)]
    fn chunks<T: Copy>(x: &[T]) -> &[[T; 1]] {
        x.as_chunks().0
    }

    #[inline(always)]
    fn chunks_mut<T: Copy>(x: &mut [T]) -> &mut [[T; 1]] {
        x.as_chunks_mut().0
    }

    #[inline(always)]
    fn splat(self, x: f32) -> f32 {
        x
    }

    #[inline(always)]
    fn from_f32(self, [x]: [f32; 1]) -> f32 {
        x
    }

    #[inline(always)]
    fn to_f32(self, x: f32) -> [f32; 1] {
        [x]
    }

    #[inline(always)]
    fn from_f16(self, [x]: [u16; 1]) -> f32 {
        f16_to_f32(x)
    }

    #[inline(always)]
    fn to_f16(self, x: f32) -> [u16; 1] {
        [f32_to_f16(x)]
    }

    #[inline(always)]
    fn from_bf16(self, [x]: [u16; 1]) -> f32 {
        bf16_to_f32(x)
    }

    #[inline(always)]
    fn to_bf16(self, x: f32, y: f32) -> [[u16; 1]; 2] {
        [[f32_to_bf16(x)], [f32_to_bf16(y)]]
    }

    #[inline(always)]
    fn from_bf16_pairs(self, [[x], [y]]: [[u16; 1]; 2]) -> (f32, f32) {
        (bf16_to_f32(x), bf16_to_f32(y))
    }

    #[inline(always)]
    fn to_bf16_pairs(self, x: f32, y: f32) -> [[u16; 1]; 2] {
        self.to_bf16(x, y)
    }

    #[inline(always)]
    fn add(self, a: f32, b: f32) -> f32 {
        a + b
    }

    #[inline(always)]
    fn sub(self, a: f32, b: f32) -> f32 {
        a - b
    }

    #[inline(always)]
    fn mul(self, a: f32, b: f32) -> f32 {
        a * b
    }

    #[inline(always)]
    fn swap(self, x: f32) -> f32 {
        // One lane holds no pair, and a backend that does not double does not ask.
        x
    }

    #[inline(always)]
    fn unzip(self, a: f32, b: f32) -> (f32, f32) {
        (a, b)
    }

    #[inline(always)]
    fn zip(self, x: f32, y: f32) -> (f32, f32) {
        (x, y)
    }

    #[inline(always)]
    fn order(self, x: f32) -> f32 {
        x
    }

    #[inline(always)]
    fn unorder(self, x: f32) -> f32 {
        x
    }
}
