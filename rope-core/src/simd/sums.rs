//! The operations that sum gradients.

use bytemuck::{Pod, must_cast};

use super::Simd;

/// The operations of gradients: products of f32 numbers, which are exact as doubles, and sums of them.
pub(crate) trait SimdSums: Simd {
    /// True if a backward pass is one kernel (2 to 3 KB per element and pairing) instead of two.
    const BACKWARD: bool = true;

    /// `LANES` f64 lanes.
    type Wide: Pod;

    /// Returns true if a lane is a zero, a subnormal, an infinity or a NaN.
    fn any_not_normal(self, x: [Self::F32; 4]) -> bool;

    /// Loads an array into registers.
    #[inline(always)]
    fn load_wide(self, x: Self::Chunk<f64>) -> Self::Wide {
        must_cast(x)
    }
    /// Stores registers as an array.
    #[inline(always)]
    fn store_wide(self, x: Self::Wide) -> Self::Chunk<f64> {
        must_cast(x)
    }
    /// Separates alternating doubles into first and second members, in the cheapest order of lanes.
    fn unzip_wide(self, ab: [Self::Wide; 2]) -> [Self::Wide; 2];
    /// Undoes `unzip_wide`.
    fn zip_wide(self, xy: [Self::Wide; 2]) -> [Self::Wide; 2];
    /// Puts doubles in the order that `unzip_wide` leaves.
    #[inline(always)]
    fn to_deinterleaved_wide(self, x: Self::Wide) -> Self::Wide {
        x
    }
    /// Undoes `to_deinterleaved_wide`.
    #[inline(always)]
    fn undo_deinterleaved_wide(self, x: Self::Wide) -> Self::Wide {
        x
    }
    /// Converts the lanes to doubles.
    fn widen(self, x: Self::F32) -> Self::Wide;
    /// Converts an array to doubles: x86 spreads lanes during a load, where registers need a shuffle each.
    #[inline(always)]
    fn load_f32_wide(self, x: Self::Chunk<f32>) -> Self::Wide {
        self.widen(self.load_f32(x))
    }
    /// Returns `sums + (x1 g2 - x2 g1)`. The products of former f32 numbers are exact; the difference and the sum are
    /// each rounded.
    fn add_cross(self, sums: Self::Wide, x: [Self::Wide; 2], g: [Self::Wide; 2]) -> Self::Wide;
    /// Returns `sums + (a - b)`; the difference and the sum are each rounded.
    fn add_difference(self, sums: Self::Wide, a: Self::F32, b: Self::F32) -> Self::Wide;
    /// Returns `sums + (x1 g1 + x2 g2)`, rounded likewise.
    fn add_dot(self, sums: Self::Wide, x: [Self::Wide; 2], g: [Self::Wide; 2]) -> Self::Wide;
}
