//! The list of a line backend's kernels: the formats that the table of elements rotates in one step.

/// The bytes of elements.
macro_rules! bytes {
    (f32 * $n:expr) => {
        4 * $n
    };
    ($E:ident * $n:expr) => {
        2 * $n
    };
}
pub(crate) use bytes;

/// Implements `LineKernels` for a backend. The macro `$kernel` defines one kernel by its name, the
/// formats of source and target, and `same` for rotations in place or `other` for another target. The table of elements
/// (`kernel/elements.rs`) uses these kernels only; the narrower instruction set runs every other rotation.
macro_rules! line_kernels {
    ($kernel:ident, $Token:ty, $Narrower:ty, narrower: |$token:pat_param| $narrower:expr) => {
        line_kernels! { @ $kernel, $Token, $Narrower, |$token| $narrower,
            f32 Half => f32 Half, same: f32_half;
            f32 Interleaved => f32 Interleaved, same: f32_interleaved;
            f16 Half => f16 Half, same: f16_half;
            f16 Interleaved => f16 Interleaved, same: f16_interleaved;
            bf16 Half => bf16 Half, same: bf16_half;
            bf16 Interleaved => bf16 Interleaved, same: bf16_interleaved;
            f32 Half => f32 Half, other: f32_half_to_f32_half;
            f32 Interleaved => f32 Interleaved, other: f32_interleaved_to_f32_interleaved;
            f32 Half => f32 Interleaved, other: f32_half_to_f32_interleaved;
            f32 Interleaved => f32 Half, other: f32_interleaved_to_f32_half;
            f32 Half => f16 Half, other: f32_half_to_f16_half;
            f32 Interleaved => f16 Interleaved, other: f32_interleaved_to_f16_interleaved;
            f32 Half => bf16 Half, other: f32_half_to_bf16_half;
            f32 Interleaved => bf16 Interleaved, other: f32_interleaved_to_bf16_interleaved;
            f16 Half => f16 Half, other: f16_half_to_f16_half;
            f16 Interleaved => f16 Interleaved, other: f16_interleaved_to_f16_interleaved;
            bf16 Half => bf16 Half, other: bf16_half_to_bf16_half;
            bf16 Interleaved => bf16 Interleaved, other: bf16_interleaved_to_bf16_interleaved;
            bf16 Interleaved => bf16 Half, other: bf16_interleaved_to_bf16_half;
        }
    };
    (
        @ $kernel:ident, $Token:ty, $Narrower:ty, |$token:pat_param| $narrower:expr,
        $($I:ident $P:ident => $O:ident $Q:ident, $place:ident: $name:ident;)+
    ) => {
        $($kernel!($name: $I $P => $O $Q, $place);)+

        impl $crate::simd::LineKernels for $Token {
            type Narrower = $Narrower;

            #[inline(always)]
            fn narrower(self) -> $Narrower {
                let $token = self;
                $narrower
            }

            #[inline(always)]
            fn has(formats: [$crate::simd::shared_heads::HeadFormat; 2]) -> bool {
                false $(|| formats == [line_kernels!(@$I $P), line_kernels!(@$O $Q)])+
            }

            fn rotate(
                self,
                formats: [$crate::simd::shared_heads::HeadFormat; 2],
                heads: $crate::simd::shared_heads::SharedHeads<'_>,
            ) {
                let Some(heads) = HeadAddresses::new(formats, heads) else {
                    return;
                };
                $(if formats == [line_kernels!(@$I $P), line_kernels!(@$O $Q)]
                    && heads.in_place == line_kernels!(@$place)
                {
                    // SAFETY: `self` proves that the CPU has the instruction set, and `HeadAddresses::new` has checked
                    // the heads for these formats.
                    return unsafe { $name(&heads) };
                })+
                unreachable!("a rotation without a kernel");
            }
        }
    };
    (@f32 $P:ident) => { line_kernels!(@@F32 $P) };
    (@f16 $P:ident) => { line_kernels!(@@F16 $P) };
    (@bf16 $P:ident) => { line_kernels!(@@Bf16 $P) };
    (@@$kind:ident $P:ident) => {
        $crate::simd::shared_heads::HeadFormat {
            kind: $crate::simd::element::FloatKind::$kind,
            pairing: $crate::Pairing::$P,
        }
    };
    (@same) => { true };
    (@other) => { false };
}
pub(crate) use line_kernels;
