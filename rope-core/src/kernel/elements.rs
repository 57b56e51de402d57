//! The elements, and the kinds of kernels that each has: one table, which [`compiled`](super::compiled) instantiates.
//!
//! An out-of-place rotation reads one element and pairing, rotates, and writes another. The combinations in the table
//! do so in registers, in one kernel per backend. Every other combination runs its stages in sequence
//! ([`staged`](crate::execute::staged)), with the same bits. A combination belongs in the table if it is common and
//! `rope-bench stages` shows a cost of the tile: into a cache of the same element, which every element has without a
//! line; from f32 into a 16-bit cache; f32 from one pairing to the other, which is the middle stage of every other
//! change of pairing; and bf16 from interleaved to half, for DeepSeek's models. A combination of the table takes 0.3 to
//! 0.6 of the time of its stages over a tile, in the caches and beyond (Zen 5, AVX512-BF16).

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

use super::gradient::GradientLine;
use super::line::{Line, SourceLine};
use super::prologue::LineNorm;
use crate::Pairing::{self, Half, Interleaved};
use crate::proof::Proof;

macro_rules! types {
    ($($Type:ident: $E:ty [$($fused:tt)*];)+) => {
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
        }
    };
}
elements!(types);

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
    pub(super) half: F,
    pub(super) interleaved: F,
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
    pub(super) fused: &'static [FusedKernels],
    pub(crate) to_f32: fn(Proof, &[u8], &mut [f32]),
    pub(crate) from_f32: fn(Proof, &[f32], &mut [u8]),
    /// The element type, for kernels of any element.
    pub(crate) element: ElementType,
}

/// An out-of-place rotation in one kernel, in the list of the source's element.
#[derive(Debug)]
pub(super) struct FusedKernels {
    pub(super) input: Pairing,
    /// The element of the target.
    pub(super) element: ElementType,
    pub(super) output: Pairing,
    pub(super) kernel: OutOfPlaceFn,
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
