//! A loop for every instruction set, and what an instruction set converts.

use rope_core::half::f16;

/// The f32 lanes of a register of 512 bits.
pub(crate) const LANES: usize = 16;

/// An instruction set that the CPU has.
pub(crate) trait Convert: Copy {
    fn f16_widened(self, values: [f16; LANES]) -> [f32; LANES];

    /// Rounds to nearest even. A NaN becomes some NaN.
    fn f16_narrowed(self, values: [f32; LANES]) -> [f16; LANES];

    /// Loads the cache lines of values that are needed soon.
    #[inline(always)]
    fn prefetch<T>(self, _: &[T]) {}
}

/// A loop that is compiled for each instruction set.
pub(crate) trait Work {
    type Output;

    fn run(self, convert: impl Convert) -> Self::Output;
}
