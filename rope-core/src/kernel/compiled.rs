//! The kernels of each element, compiled once, in this crate: the table of [`elements`](super::elements) as statics.
//! Another crate names the statics of its elements, and the linker drops the others.

use core::marker::PhantomData;

use super::backward::BackwardLine;
use super::element::Element;
use super::elements::{
    BackwardKernels, ElementType, FusedKernels, GradientKernels, InPlaceFn, InPlaceKernels,
    NormRotateKernels, OutOfPlaceFn, OutOfPlaceKernels, PerPairing, elements,
};
use super::gradient::AddTerms;
use super::line::{Line, SourceLine};
use super::normed::NormRest;
use super::pairs::{self, PairLayout};
use super::prologue::LineNorm;
use super::rotate::RotateLine;
use super::route::{Other, Same};
use crate::Pairing::{self, Half, Interleaved};
use crate::proof::Proof;
use crate::simd::element::Convert;
use crate::simd::slices::{FromF32, ToF32};

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
        $(impl Element for $E {
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
            element: <$O as Element>::TYPE,
            output: $Q,
            kernel: out_of_place::<$I, pairs::$P, $O, pairs::$Q>,
        }
    };
}

elements!(compiled);
