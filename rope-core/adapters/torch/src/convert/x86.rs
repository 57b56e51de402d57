//! 64-bit x86: AVX-512, AVX2 with F16C, or neither.

use std::arch::x86_64::*;
use std::mem::transmute;

use rope_core::half::f16;

use super::portable;
use super::work::{Convert, LANES, Work};

/// Runs the work by the best instructions that the CPU has.
pub(crate) fn run<W: Work>(work: W) -> W::Output {
    if let Some(avx512) = Avx512::detect() {
        return avx512.run(work);
    }
    if let Some(avx2) = Avx2::detect() {
        return avx2.run(work);
    }
    portable::run(work)
}

/// Exists only where the CPU has AVX2 and F16C.
#[derive(Clone, Copy, Debug)]
struct Avx2(());

impl Avx2 {
    fn detect() -> Option<Self> {
        (is_x86_feature_detected!("avx2") && is_x86_feature_detected!("f16c")).then_some(Avx2(()))
    }

    fn run<W: Work>(self, work: W) -> W::Output {
        #[target_feature(enable = "avx2,f16c")]
        fn enter<W: Work>(avx2: Avx2, work: W) -> W::Output {
            work.run(avx2)
        }
        // SAFETY: `self` proves both.
        unsafe { enter(self, work) }
    }
}

impl Convert for Avx2 {
    #[inline(always)]
    fn f16_widened(self, values: [f16; LANES]) -> [f32; LANES] {
        // SAFETY: arrays and registers of one size, of which any bits are a value; `self` proves F16C.
        unsafe {
            let [low, high]: [__m128i; 2] = transmute(values);
            transmute([_mm256_cvtph_ps(low), _mm256_cvtph_ps(high)])
        }
    }

    #[inline(always)]
    fn f16_narrowed(self, values: [f32; LANES]) -> [f16; LANES] {
        // SAFETY: as above.
        unsafe {
            let [low, high]: [__m256; 2] = transmute(values);
            transmute([
                _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(low),
                _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(high),
            ])
        }
    }

    #[inline(always)]
    fn prefetch<T>(self, values: &[T]) {
        prefetch(values);
    }
}

/// Exists only where the CPU has AVX-512 F, BW, DQ and VL, and VBMI2 as the mark of a core where 512-bit registers pay.
#[derive(Clone, Copy, Debug)]
struct Avx512(());

impl Avx512 {
    fn detect() -> Option<Self> {
        let found = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512vbmi2");
        found.then_some(Avx512(()))
    }

    fn run<W: Work>(self, work: W) -> W::Output {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
        fn enter<W: Work>(avx512: Avx512, work: W) -> W::Output {
            work.run(avx512)
        }
        // SAFETY: `self` proves all of them.
        unsafe { enter(self, work) }
    }
}

impl Convert for Avx512 {
    #[inline(always)]
    fn f16_widened(self, values: [f16; LANES]) -> [f32; LANES] {
        // SAFETY: arrays and registers of one size, of which any bits are a value; `self` proves AVX-512 F.
        unsafe { transmute(_mm512_cvtph_ps(transmute::<[f16; LANES], __m256i>(values))) }
    }

    #[inline(always)]
    fn f16_narrowed(self, values: [f32; LANES]) -> [f16; LANES] {
        // SAFETY: as above.
        unsafe {
            let wide: __m512 = transmute(values);
            transmute(_mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(wide))
        }
    }

    #[inline(always)]
    fn prefetch<T>(self, values: &[T]) {
        prefetch(values);
    }
}

#[inline(always)]
fn prefetch<T>(values: &[T]) {
    const LINE: usize = 64;
    for line in 0..size_of_val(values).div_ceil(LINE) {
        // SAFETY: the address is within the slice, and any address may be prefetched.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(values.as_ptr().cast::<i8>().add(line * LINE)) };
    }
}
