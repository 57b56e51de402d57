//! What is compiled: one line for each fused chain, and the stages that serve all others.
//!
//! A chain reads an element of a pairing, rotates, and writes an element of a pairing. Those in this list do it in
//! registers, in one kernel for each backend. Every other combination runs its stages one after the other
//! ([`staged`](crate::execute::staged)), which gives the same bits. A chain belongs here if it runs all day and
//! `rope-bench stages` says that the tile would cost it something: in place; into a cache of the same element; from f32
//! into a cache of 16 bits; f32 from one pairing to the other, which is the middle stage of every other change of
//! pairing; and bf16 from interleaved to half, which is what DeepSeek's models run. A norm is fused with the rotation
//! in place behind it, and the sum of gradients with the transpose that takes them back.
//!
//! All functions here are concrete, so they are compiled in this crate, once. A user's crate names the statics of its
//! elements, and what it does not name the linker leaves out.

use core::marker::PhantomData;

use half::{bf16, f16};

use super::backward::BackwardLine;
use super::convert::{FromF32, ToF32};
use super::gradient::{AddTerms, GradientLine};
use super::line::{Line, Other, RotateLine, Same, Source};
use super::norm::ROOTS;
use super::normed::{LineNorm, LineRoots, NormRest};
use super::pairs;
use super::values::Kind;
use crate::Pairing::{self, Half, Interleaved};
use crate::backend::Proof;

/// Rotates a line in place.
pub(crate) type InPlaceFn = fn(Proof, &mut Line<'_>);

/// Rotates heads of a source into a line.
pub(crate) type OutOfPlaceFn = fn(Proof, &Source<'_>, &mut Line<'_>);

/// The kernels of an element that is rotated in place.
#[derive(Debug)]
pub struct InPlace {
    half: InPlaceFn,
    interleaved: InPlaceFn,
}

impl InPlace {
    #[inline]
    pub(crate) fn kernel(&self, pairing: Pairing) -> InPlaceFn {
        match pairing {
            Half => self.half,
            Interleaved => self.interleaved,
        }
    }
}

/// Norms and rotates a line.
pub(crate) type NormedFn = fn(Proof, &mut Line<'_>, &LineNorm<'_>);

/// The kernels of an element that is normed and rotated in place.
#[derive(Debug)]
pub struct Normed {
    half: NormedFn,
    interleaved: NormedFn,
    /// The reciprocal roots of the heads of a line, by their channels, their number, and eps.
    pub(crate) roots: fn(Proof, &Source<'_>, [usize; 2], f32, &mut [f32; ROOTS]),
    /// Norms the channels from an even one on, which do not rotate.
    pub(crate) rest: fn(Proof, &mut Line<'_>, &LineNorm<'_>, usize),
}

impl Normed {
    #[inline]
    pub(crate) fn kernel(&self, pairing: Pairing) -> NormedFn {
        match pairing {
            Half => self.half,
            Interleaved => self.interleaved,
        }
    }
}

/// The kernels of an element whose gradients are summed.
#[derive(Debug)]
pub struct Summed {
    half: fn(Proof, &mut GradientLine<'_>),
    interleaved: fn(Proof, &mut GradientLine<'_>),
}

impl Summed {
    pub(crate) fn kernel(&self, pairing: Pairing) -> fn(Proof, &mut GradientLine<'_>) {
        match pairing {
            Half => self.half,
            Interleaved => self.interleaved,
        }
    }
}

/// Takes gradients of a line back, and adds the terms of its angles, which its heads share.
pub(crate) type BackwardFn = fn(Proof, &Source<'_>, &mut [f64], &mut Line<'_>);

/// The kernels of an element whose gradients are taken back and summed at once.
#[derive(Debug)]
pub struct Backward {
    half: BackwardFn,
    interleaved: BackwardFn,
}

impl Backward {
    pub(crate) fn kernel(&self, pairing: Pairing) -> BackwardFn {
        match pairing {
            Half => self.half,
            Interleaved => self.interleaved,
        }
    }
}

/// The kernels of an element that is read, or written, in a tensor of its own.
#[derive(Debug)]
pub struct Across {
    /// Bytes of an element.
    pub(crate) size: usize,
    fused: &'static [Fused],
    pub(crate) to_f32: fn(Proof, &[u8], &mut [f32]),
    pub(crate) from_f32: fn(Proof, &[f32], &mut [u8]),
    /// What a kernel of any element reads.
    pub(crate) kind: Kind,
}

/// A chain in one kernel, of the element that has it in its list.
#[derive(Debug)]
struct Fused {
    input: Pairing,
    /// What it writes.
    element: Kind,
    output: Pairing,
    kernel: OutOfPlaceFn,
}

impl Across {
    /// The fused chain into another element, if there is one.
    pub(crate) fn fused(
        &self,
        input: Pairing,
        element: &Across,
        output: Pairing,
    ) -> Option<OutOfPlaceFn> {
        let wanted = (input, element.kind, output);
        let mut chains = self.fused.iter();
        let chain = chains.find(|chain| (chain.input, chain.element, chain.output) == wanted);
        chain.map(|chain| chain.kernel)
    }

    /// Whether both are of the same element.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.kind == other.kind
    }
}

/// The stage of f32 that all chains have which are not fused.
#[derive(Clone, Copy)]
pub(crate) enum RotateF32 {
    InPlace(InPlaceFn),
    /// The pairing changes.
    OutOfPlace(OutOfPlaceFn),
}

impl RotateF32 {
    pub(crate) fn of(input: Pairing, output: Pairing) -> Self {
        match (input, output) {
            (Half, Half) => RotateF32::InPlace(f32_half_in_place),
            (Interleaved, Interleaved) => RotateF32::InPlace(f32_interleaved_in_place),
            (Half, Interleaved) => RotateF32::OutOfPlace(f32_half_to_interleaved),
            (Interleaved, Half) => RotateF32::OutOfPlace(f32_interleaved_to_half),
        }
    }
}

/// The kernels of an element: a static, which is compiled here for all who name it. The unit tests name none, and with
/// constants, which are compiled where they are named, build in a third of the time.
macro_rules! kernels {
    ($name:ident: $Kernels:ident = $kernels:expr) => {
        #[cfg(not(test))]
        pub(crate) static $name: $Kernels = $kernels;
        #[cfg(test)]
        pub(crate) const $name: $Kernels = $kernels;
    };
}

macro_rules! in_place {
    ($($name:ident: $E:ident $P:ident;)+) => {$(
        #[inline(never)]
        fn $name(proof: Proof, line: &mut Line<'_>) {
            proof.run(RotateLine::<Same<$E, pairs::$P>>::new((), line, ()));
        }
    )+};
}

macro_rules! across {
    ($($name:ident: $I:ident $P:ident => $O:ident $Q:ident;)+) => {$(
        #[inline(never)]
        fn $name(proof: Proof, source: &Source<'_>, line: &mut Line<'_>) {
            proof.run(RotateLine::<Other<$I, pairs::$P, $O, pairs::$Q>>::new(source, line, ()));
        }
    )+};
}

macro_rules! normed {
    ($($normed:ident: $E:ident, $half:ident, $interleaved:ident;)+) => {$(
        #[inline(never)]
        fn $half(proof: Proof, line: &mut Line<'_>, norm: &LineNorm<'_>) {
            proof.run(RotateLine::<Same<$E, pairs::Half>, _>::new((), line, norm));
        }
        #[inline(never)]
        fn $interleaved(proof: Proof, line: &mut Line<'_>, norm: &LineNorm<'_>) {
            proof.run(RotateLine::<Same<$E, pairs::Interleaved>, _>::new((), line, norm));
        }
        kernels!($normed: Normed = Normed {
            half: $half,
            interleaved: $interleaved,
            roots: |proof, heads, [head_dim, len], eps, roots| {
                let element = PhantomData::<$E>;
                proof.run(LineRoots { heads, head_dim, len, eps, roots, element });
            },
            rest: |proof, line, norm, from| {
                let element = PhantomData::<$E>;
                proof.run(NormRest { line, norm, from, element });
            },
        });
    )+};
}

macro_rules! summed {
    ($($summed:ident: $E:ident;)+) => {$(
        kernels!($summed: Summed = Summed {
            half: |proof, line| proof.run(AddTerms::<$E, pairs::Half>::new(line)),
            interleaved: |proof, line| proof.run(AddTerms::<$E, pairs::Interleaved>::new(line)),
        });
    )+};
}

macro_rules! backward {
    ($($backward:ident: $E:ident;)+) => {$(
        kernels!($backward: Backward = Backward {
            half: |proof, y, sums, line| proof.run(BackwardLine::<$E, pairs::Half>::new(y, sums, line)),
            interleaved: |proof, y, sums, line| proof.run(BackwardLine::<$E, pairs::Interleaved>::new(y, sums, line)),
        });
    )+};
}

in_place! {
    f32_half_in_place: f32 Half;
    f32_interleaved_in_place: f32 Interleaved;
    f16_half_in_place: f16 Half;
    f16_interleaved_in_place: f16 Interleaved;
    bf16_half_in_place: bf16 Half;
    bf16_interleaved_in_place: bf16 Interleaved;
}

normed! {
    F32_NORMED: f32, f32_normed_half, f32_normed_interleaved;
    F16_NORMED: f16, f16_normed_half, f16_normed_interleaved;
    BF16_NORMED: bf16, bf16_normed_half, bf16_normed_interleaved;
}

summed! {
    F32_SUMMED: f32;
    F16_SUMMED: f16;
    BF16_SUMMED: bf16;
}

backward! {
    F32_BACKWARD: f32;
    F16_BACKWARD: f16;
    BF16_BACKWARD: bf16;
}

across! {
    f32_half: f32 Half => f32 Half;
    f32_interleaved: f32 Interleaved => f32 Interleaved;
    f16_half: f16 Half => f16 Half;
    f16_interleaved: f16 Interleaved => f16 Interleaved;
    bf16_half: bf16 Half => bf16 Half;
    bf16_interleaved: bf16 Interleaved => bf16 Interleaved;
    bf16_interleaved_to_half: bf16 Interleaved => bf16 Half;
    f32_half_to_interleaved: f32 Half => f32 Interleaved;
    f32_interleaved_to_half: f32 Interleaved => f32 Half;
    f32_to_f16_half: f32 Half => f16 Half;
    f32_to_f16_interleaved: f32 Interleaved => f16 Interleaved;
    f32_to_bf16_half: f32 Half => bf16 Half;
    f32_to_bf16_interleaved: f32 Interleaved => bf16 Interleaved;
}

macro_rules! element {
    ($in_place:ident, $across:ident: $E:ident $Kind:ident, $half:ident, $interleaved:ident,
     [$($P:ident => $to:ident $Q:ident: $kernel:ident,)*]) => {
        kernels!($in_place: InPlace = InPlace { half: $half, interleaved: $interleaved });
        kernels!($across: Across = Across {
            size: size_of::<$E>(),
            fused: &[$(Fused { input: $P, element: Kind::$to, output: $Q, kernel: $kernel },)*],
            to_f32: |proof, source, target| proof.run(ToF32::<$E>::new(source, target)),
            from_f32: |proof, source, target| proof.run(FromF32::<$E>::new(source, target)),
            kind: Kind::$Kind,
        });
    };
}

element!(F32_IN_PLACE, F32: f32 F32, f32_half_in_place, f32_interleaved_in_place, [
    Half => F32 Half: f32_half,
    Interleaved => F32 Interleaved: f32_interleaved,
    Half => F32 Interleaved: f32_half_to_interleaved,
    Interleaved => F32 Half: f32_interleaved_to_half,
    Half => F16 Half: f32_to_f16_half,
    Interleaved => F16 Interleaved: f32_to_f16_interleaved,
    Half => Bf16 Half: f32_to_bf16_half,
    Interleaved => Bf16 Interleaved: f32_to_bf16_interleaved,
]);
element!(F16_IN_PLACE, F16: f16 F16, f16_half_in_place, f16_interleaved_in_place, [
    Half => F16 Half: f16_half,
    Interleaved => F16 Interleaved: f16_interleaved,
]);
element!(BF16_IN_PLACE, BF16: bf16 Bf16, bf16_half_in_place, bf16_interleaved_in_place, [
    Half => Bf16 Half: bf16_half,
    Interleaved => Bf16 Interleaved: bf16_interleaved,
    Interleaved => Bf16 Half: bf16_interleaved_to_half,
]);
