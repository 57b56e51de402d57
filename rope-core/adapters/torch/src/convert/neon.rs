//! 64-bit ARM, which always has NEON.

use std::arch::aarch64::*;
use std::mem::transmute;

use rope_core::half::f16;

use super::work::{Convert, LANES, Work};

#[derive(Clone, Copy, Debug)]
struct Neon;

/// Runs the work.
pub(crate) fn run<W: Work>(work: W) -> W::Output {
    work.run(Neon)
}

impl Convert for Neon {
    #[inline(always)]
    fn f16_widened(self, values: [f16; LANES]) -> [f32; LANES] {
        // SAFETY: arrays and registers of one size, of which any bits are a value; the CPU has NEON.
        unsafe {
            let quarters: [float16x4_t; 4] = transmute(values);
            transmute(quarters.map(|quarter| vcvt_f32_f16(quarter)))
        }
    }

    #[inline(always)]
    fn f16_narrowed(self, values: [f32; LANES]) -> [f16; LANES] {
        // SAFETY: as above.
        unsafe {
            let quarters: [float32x4_t; 4] = transmute(values);
            transmute(quarters.map(|quarter| vcvt_f16_f32(quarter)))
        }
    }
}
