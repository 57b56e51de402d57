//! The kernels that a backend of lines alone has, as a list: the formats that the elements' table rotates in one step.

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

/// Makes the kernels of a backend, and what finds them. `$kernel` is a macro that makes one: of a name, the formats of
/// both ends, and whether they are the `same` memory or the target is an `other`. Those are all that the elements'
/// table (`kernel/elements.rs`) asks for; every other rotation is the narrower instruction set's.
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
                    // SAFETY: the CPU has the instruction set, or `self` would not exist, and the heads were checked
                    // for these formats.
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
