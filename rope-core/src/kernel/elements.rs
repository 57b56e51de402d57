//! The elements, and the kernels compiled for each: one table.
//!
//! An out-of-place rotation reads one element and pairing, rotates, and writes another. The combinations in the table
//! do so in registers, in one kernel per backend. Every other combination runs its stages in sequence
//! ([`staged`](crate::execute::staged)), with the same bits. A combination belongs in the table if it is common and
//! `rope-bench stages` shows a cost of the tile: into a cache of the same element, which every element has without a
//! line; from f32 into a 16-bit cache; f32 from one pairing to the other, which is the middle stage of every other
//! change of pairing; and bf16 from interleaved to half, for DeepSeek's models.
//!
//! The kernels are compiled once, in this crate. Another crate names the statics of its elements, and the linker drops
//! the others.

/// Calls a macro with all elements: the variant of an enumeration, the type as a path valid everywhere, and the other
/// elements that one kernel rotates it into.
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

/// Rotates a line in place, with the tokens after it.
pub(crate) type InPlaceFn = fn(Proof, &mut [u8], &Line<'_>);

/// Rotates heads of a source into a line.
pub(crate) type OutOfPlaceFn = fn(Proof, &SourceLine<'_>, &mut [u8], &Line<'_>);

/// Norms and rotates a line.
pub(crate) type NormRotateFn = fn(Proof, &mut [u8], &Line<'_>, &LineNorm<'_>);

/// Adds the terms of a line to the sums of its angles.
pub(crate) type GradientFn = fn(Proof, &mut GradientLine<'_>);

/// Rotates gradients of a line back, and adds the terms of its angles, which its heads share.
pub(crate) type BackwardFn = fn(Proof, &SourceLine<'_>, &mut [f64], &mut [u8], &Line<'_>);

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
    pub(crate) rest: fn(Proof, &mut [u8], &Line<'_>, &LineNorm<'_>, usize),
}

/// The kernels that sum gradients of an element.
#[derive(Debug)]
pub struct GradientKernels(pub(crate) PerPairing<GradientFn>);

/// The kernels that rotate gradients of an element back and sum them at once.
#[derive(Debug)]
pub struct BackwardKernels(pub(crate) PerPairing<BackwardFn>);

/// The kernels of an element in the source or target of an out-of-place call.
#[derive(Debug)]
pub struct OutOfPlaceKernels {
    /// Bytes per element.
    pub(crate) size: usize,
    fused: &'static [FusedKernels],
    pub(crate) to_f32: fn(Proof, &[u8], &mut [f32]),
    pub(crate) from_f32: fn(Proof, &[f32], &mut [u8]),
    /// The element type, for kernels of any element.
    pub(crate) element: ElementType,
}

/// An out-of-place rotation in one kernel, in the list of the source's element.
#[derive(Debug)]
struct FusedKernels {
    input: Pairing,
    /// The element of the target.
    element: ElementType,
    output: Pairing,
    kernel: OutOfPlaceFn,
}

impl OutOfPlaceKernels {
    /// Returns the kernel into another element, if there is one.
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

    /// Returns true if both have the same element.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.element == other.element
    }
}

/// The f32 stage of a rotation without a kernel of its own.
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
fn in_place<E: Convert, P: PairLayout>(proof: Proof, memory: &mut [u8], line: &Line<'_>) {
    proof.run_in(memory, 0, RotateLine::<Same<E, P>>::new((), line, ()));
}

#[inline(never)]
fn out_of_place<I: Convert, P: PairLayout, O: Convert, Q: PairLayout>(
    proof: Proof,
    source: &SourceLine<'_>,
    memory: &mut [u8],
    line: &Line<'_>,
) {
    proof.run_in(
        memory,
        0,
        RotateLine::<Other<I, P, O, Q>>::new(source, line, ()),
    );
}

#[inline(never)]
fn normed<E: Convert, P: PairLayout>(
    proof: Proof,
    memory: &mut [u8],
    line: &Line<'_>,
    norm: &LineNorm<'_>,
) {
    proof.run_in(memory, 0, RotateLine::<Same<E, P>, _>::new((), line, norm));
}

/// Defines the kernels of an element: a static, compiled here for all crates that name it. The unit tests name none;
/// with constants instead, which are compiled where they are named, they build in a third of the time.
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
        /// An element type at run time.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum ElementType {
            $($Type,)+
        }

        impl ElementType {
            /// Returns the bytes of an element.
            pub(crate) fn size(self) -> usize {
                match self {
                    $(ElementType::$Type => size_of::<$E>(),)+
                }
            }

            /// Returns the out-of-place kernels. A program that calls this links those of every element.
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
                rest: |proof, memory, line, norm, from| {
                    let element = PhantomData::<$E>;
                    proof.run_in(memory, from, NormRest { line, norm, element });
                },
            });
            const SUMMED: &'static GradientKernels = kernels!(GradientKernels(PerPairing {
                half: |proof, line| proof.run(AddTerms::<$E, pairs::Half>::new(line)),
                interleaved: |proof, line| proof.run(AddTerms::<$E, pairs::Interleaved>::new(line)),
            }));
            const BACKWARD: &'static BackwardKernels = kernels!(BackwardKernels(PerPairing {
                half: |proof, y, sums, memory, line| {
                    proof.run_in(memory, 0, BackwardLine::<$E, pairs::Half>::new(y, sums, line));
                },
                interleaved: |proof, y, sums, memory, line| {
                    proof.run_in(memory, 0, BackwardLine::<$E, pairs::Interleaved>::new(y, sums, line));
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
