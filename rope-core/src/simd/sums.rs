//! The operations that sum gradients.

use super::Simd;

/// The operations of gradients: products of f32 numbers, which are exact as doubles, and sums of them.
pub(crate) trait SimdSums: Simd {
    /// True if a backward pass is one kernel, of 2 to 3 KB for each element and pairing; if not, it is two.
    const BACKWARD: bool = true;

    /// `LANES` f64 lanes.
    type Wide: Copy;

    /// Returns true if a lane is a zero, a subnormal, an infinity or a NaN.
    fn any_not_normal(self, x: [Self::F32; 4]) -> bool;

    /// Array to registers.
    fn load_wide(self, x: Self::Chunk<f64>) -> Self::Wide;
    /// Registers to array.
    fn store_wide(self, x: Self::Wide) -> Self::Chunk<f64>;
    /// Alternating doubles to first and second members, in whatever lane order is cheapest.
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
    /// The lanes as doubles.
    fn widen(self, x: Self::F32) -> Self::Wide;
    /// The same from an array: x86 spreads lanes while it loads, where registers take a shuffle for each.
    fn load_f32_wide(self, x: Self::Chunk<f32>) -> Self::Wide;
    /// `sums + (x1 g2 - x2 g1)`: the products, of numbers that were f32, are exact, the difference is rounded, and so
    /// is the sum.
    fn add_cross(self, sums: Self::Wide, x: [Self::Wide; 2], g: [Self::Wide; 2]) -> Self::Wide;
    /// `sums + (a - b)`: the difference is rounded, and so is the sum.
    fn add_difference(self, sums: Self::Wide, a: Self::F32, b: Self::F32) -> Self::Wide;
    /// `sums + (x1 g1 + x2 g2)`, rounded likewise.
    fn add_dot(self, sums: Self::Wide, x: [Self::Wide; 2], g: [Self::Wide; 2]) -> Self::Wide;
}
