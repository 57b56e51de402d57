//! The elements, and which kernels are compiled for each: one table.
//!
//! A rotation out of place reads an element of a pairing, rotates, and writes an element of a pairing. Those in the
//! table do it in registers, in one kernel for each backend. Every other combination runs its stages one after the
//! other ([`staged`](crate::execute::staged)), which gives the same bits. A combination belongs in the table if it runs
//! all day and `rope-bench stages` says that the tile would cost it something: into a cache of the same element, which
//! every element has without a line; from f32 into a cache of 16 bits; f32 from one pairing to the other, which is the
//! middle stage of every other change of pairing; and bf16 from interleaved to half, which is what DeepSeek's models
//! run.
//!
//! The kernels are compiled in this crate, once. A user's crate names the statics of its elements, and what it does not
//! name the linker leaves out.

/// Calls a macro with all elements: the variant of an enumeration, the type, by a path that is one everywhere, and into
/// what else than itself it is rotated by one kernel.
macro_rules! elements {
    ($read:ident) => {
        $read! {
            F32: f32 [
                Half => f32 as Interleaved, Interleaved => f32 as Half,
                Half => half::f16 as Half, Interleaved => half::f16 as Interleaved,
                Half => half::bf16 as Half, Interleaved => half::bf16 as Interleaved,
            ];
            F16: half::f16 [];
            Bf16: half::bf16 [Interleaved => half::bf16 as Half];
        }
    };
}
pub(crate) use elements;

use core::marker::PhantomData;

use super::backward::BackwardLine;
use super::gradient::{AddTerms, GradientLine};
use super::line::{Line, Other, RotateLine, Same, SourceLine};
use super::normed::{LineNorm, NormRest};
use super::pairs::{self, PairLayout};
use crate::Pairing::{self, Half, Interleaved};
use crate::kernel::element::{Element, ElementKernels};
use crate::proof::Proof;
use crate::simd::element::Convert;
use crate::simd::slices::{FromF32, ToF32};

/// Rotates a line in place, and the tokens after it.
pub(crate) type InPlaceFn = fn(Proof, &mut Line<'_>);

/// Rotates heads of a source into a line.
pub(crate) type OutOfPlaceFn = fn(Proof, &SourceLine<'_>, &mut Line<'_>);

/// Norms and rotates a line.
pub(crate) type NormRotateFn = fn(Proof, &mut Line<'_>, &LineNorm<'_>);

/// Adds the terms of a line to the sums of its angles.
pub(crate) type GradientFn = fn(Proof, &mut GradientLine<'_>);

/// Takes gradients of a line back, and adds the terms of its angles, which its heads share.
pub(crate) type BackwardFn = fn(Proof, &SourceLine<'_>, &mut [f64], &mut Line<'_>);

/// One kernel for each pairing.
#[derive(Debug)]
pub(crate) struct PerPairing<F> {
    half: F,
    interleaved: F,
}

impl<F: Copy> PerPairing<F> {
    #[inline]
    pub(crate) fn of(&self, pairing: Pairing) -> F {
        match pairing {
            Half => self.half,
            Interleaved => self.interleaved,
        }
    }
}

/// The kernels of an element that is rotated in place.
#[derive(Debug)]
pub struct InPlaceKernels(pub(crate) PerPairing<InPlaceFn>, pub(crate) ElementType);

/// The kernels of an element that is normed and rotated in place.
#[derive(Debug)]
pub struct NormRotateKernels {
    pub(crate) rotate: PerPairing<NormRotateFn>,
    /// Norms the channels from an even one on, which do not rotate.
    pub(crate) rest: fn(Proof, &mut Line<'_>, &LineNorm<'_>, usize),
}

/// The kernels of an element whose gradients are summed.
#[derive(Debug)]
pub struct GradientKernels(pub(crate) PerPairing<GradientFn>);

/// The kernels of an element whose gradients are taken back and summed at once.
#[derive(Debug)]
pub struct BackwardKernels(pub(crate) PerPairing<BackwardFn>);

/// The kernels of an element that is read, or written, in a tensor of its own.
#[derive(Debug)]
pub struct OutOfPlaceKernels {
    /// Bytes of an element.
    pub(crate) size: usize,
    fused: &'static [FusedKernels],
    pub(crate) to_f32: fn(Proof, &[u8], &mut [f32]),
    pub(crate) from_f32: fn(Proof, &[f32], &mut [u8]),
    /// What a kernel of any element reads.
    pub(crate) element: ElementType,
}

/// A rotation into another tensor in one kernel, in the list of the element that is read.
#[derive(Debug)]
struct FusedKernels {
    input: Pairing,
    /// What it writes.
    element: ElementType,
    output: Pairing,
    kernel: OutOfPlaceFn,
}

impl OutOfPlaceKernels {
    /// The kernel into another element, if there is one.
    pub(crate) fn fused(
        &self,
        input: Pairing,
        element: &OutOfPlaceKernels,
        output: Pairing,
    ) -> Option<OutOfPlaceFn> {
        let wanted = (input, element.element, output);
        let mut fused = self.fused.iter();
        let found = fused.find(|fused| (fused.input, fused.element, fused.output) == wanted);
        found.map(|fused| fused.kernel)
    }

    /// Whether both are of the same element.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.element == other.element
    }
}

/// The stage of f32 of a rotation that has no kernel of its own.
#[derive(Clone, Copy)]
pub(crate) enum RotateF32 {
    InPlace(InPlaceFn),
    /// The pairing changes.
    OutOfPlace(OutOfPlaceFn),
}

impl RotateF32 {
    pub(crate) fn of(input: Pairing, output: Pairing) -> Self {
        match (input, output) {
            (Half, Half) => RotateF32::InPlace(in_place::<f32, pairs::Half>),
            (Interleaved, Interleaved) => RotateF32::InPlace(in_place::<f32, pairs::Interleaved>),
            (Half, Interleaved) => {
                RotateF32::OutOfPlace(out_of_place::<f32, pairs::Half, f32, pairs::Interleaved>)
            }
            (Interleaved, Half) => {
                RotateF32::OutOfPlace(out_of_place::<f32, pairs::Interleaved, f32, pairs::Half>)
            }
        }
    }
}

#[inline(never)]
fn in_place<E: Convert, P: PairLayout>(proof: Proof, line: &mut Line<'_>) {
    proof.run(RotateLine::<Same<E, P>>::new((), line, ()));
}

#[inline(never)]
fn out_of_place<I: Convert, P: PairLayout, O: Convert, Q: PairLayout>(
    proof: Proof,
    source: &SourceLine<'_>,
    line: &mut Line<'_>,
) {
    proof.run(RotateLine::<Other<I, P, O, Q>>::new(source, line, ()));
}

#[inline(never)]
fn normed<E: Convert, P: PairLayout>(proof: Proof, line: &mut Line<'_>, norm: &LineNorm<'_>) {
    proof.run(RotateLine::<Same<E, P>, _>::new((), line, norm));
}

/// The kernels of an element: a static, which is compiled here for all who name it. The unit tests name none, and with
/// constants, which are compiled where they are named, build in a third of the time.
macro_rules! kernels {
    ($Kernels:ident $fields:tt) => {{
        #[cfg(not(test))]
        static KERNELS: $Kernels = $Kernels $fields;
        #[cfg(test)]
        const KERNELS: $Kernels = $Kernels $fields;
        &KERNELS
    }};
}

macro_rules! compiled {
    ($($Type:ident: $E:ty [$($P:ident => $O:ty as $Q:ident),* $(,)?];)+) => {
        /// An element where it is known when a program runs.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum ElementType {
            $($Type,)+
        }

        impl ElementType {
            /// Its kernels out of place; those of every element are linked with it.
            pub(crate) fn out_of_place(self) -> &'static OutOfPlaceKernels {
                match self {
                    $(ElementType::$Type => <$E>::OUT_OF_PLACE,)+
                }
            }
        }

        $(impl Element for $E {}

        impl ElementKernels for $E {
            const TYPE: ElementType = ElementType::$Type;
            const IN_PLACE: &'static InPlaceKernels = kernels!(InPlaceKernels(PerPairing {
                half: in_place::<$E, pairs::Half>,
                interleaved: in_place::<$E, pairs::Interleaved>,
            }, ElementType::$Type));
            const OUT_OF_PLACE: &'static OutOfPlaceKernels = kernels!(OutOfPlaceKernels {
                size: size_of::<$E>(),
                fused: &[
                    fused!($E as Half => $E as Half),
                    fused!($E as Interleaved => $E as Interleaved),
                    $(fused!($E as $P => $O as $Q),)*
                ],
                to_f32: |proof, source, target| proof.run(ToF32::<$E>::new(source, target)),
                from_f32: |proof, source, target| proof.run(FromF32::<$E>::new(source, target)),
                element: ElementType::$Type,
            });
            const NORMED: &'static NormRotateKernels = kernels!(NormRotateKernels {
                rotate: PerPairing {
                    half: normed::<$E, pairs::Half>,
                    interleaved: normed::<$E, pairs::Interleaved>,
                },
                rest: |proof, line, norm, from| {
                    let element = PhantomData::<$E>;
                    proof.run(NormRest { line, norm, from, element });
                },
            });
            const SUMMED: &'static GradientKernels = kernels!(GradientKernels(PerPairing {
                half: |proof, line| proof.run(AddTerms::<$E, pairs::Half>::new(line)),
                interleaved: |proof, line| proof.run(AddTerms::<$E, pairs::Interleaved>::new(line)),
            }));
            const BACKWARD: &'static BackwardKernels = kernels!(BackwardKernels(PerPairing {
                half: |proof, y, sums, line| {
                    proof.run(BackwardLine::<$E, pairs::Half>::new(y, sums, line));
                },
                interleaved: |proof, y, sums, line| {
                    proof.run(BackwardLine::<$E, pairs::Interleaved>::new(y, sums, line));
                },
            }));
        })+
    };
}

macro_rules! fused {
    ($I:ty as $P:ident => $O:ty as $Q:ident) => {
        FusedKernels {
            input: $P,
            element: <$O as ElementKernels>::TYPE,
            output: $Q,
            kernel: out_of_place::<$I, pairs::$P, $O, pairs::$Q>,
        }
    };
}

elements!(compiled);
