//! Without instructions of its own.

use rope_core::half::f16;

use super::work::{Convert, LANES, Work};
use crate::number::Number;

#[derive(Clone, Copy, Debug)]
struct Portable;

/// Runs the work.
pub(crate) fn run<W: Work>(work: W) -> W::Output {
    work.run(Portable)
}

impl Convert for Portable {
    #[inline(always)]
    fn f16_widened(self, values: [f16; LANES]) -> [f32; LANES] {
        values.map(Number::widened)
    }

    #[inline(always)]
    fn f16_narrowed(self, values: [f32; LANES]) -> [f16; LANES] {
        values.map(Number::narrowed)
    }
}
