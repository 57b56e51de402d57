//! Operands and angles of any kind in one type: the C API finds their kinds at run time, and links one copy of a verb.
#![allow(private_interfaces, reason = "the traits are sealed")]

use half::{bf16, f16};

use super::kinds::Stages;
use super::operand::{
    Angles, AnglesKind, Source, SourceKind, SourceParts, Target, TargetKind, TargetParts,
};
use crate::describe::cache::{CacheSlots, CacheSlotsMut, PartSlotsMut};
use crate::describe::frequencies::TokenAngles;
use crate::kernel::elements::NormRotateKernels;
use crate::pass::{Operand, OperandMut, PassKernels};
use crate::{FullRows, Rows, Tensor, TensorMut};

/// A [`Source`] of any kind.
#[derive(Debug)]
pub enum AnySource<'a> {
    /// A tensor of f32.
    F32(Tensor<'a, f32>),
    /// A tensor of f16.
    F16(Tensor<'a, f16>),
    /// A tensor of bf16.
    Bf16(Tensor<'a, bf16>),
    /// Slots of a cache.
    Slots(CacheSlots<'a>),
    /// Two operands whose channels are side by side; neither is a pair.
    Pair(&'a [AnySource<'a>; 2]),
}

/// A [`Target`] of any kind.
#[derive(Debug)]
pub enum AnyTarget<'a> {
    /// A tensor of f32.
    F32(TensorMut<'a, f32>),
    /// A tensor of f16.
    F16(TensorMut<'a, f16>),
    /// A tensor of bf16.
    Bf16(TensorMut<'a, bf16>),
    /// Slots of a cache.
    Slots(CacheSlotsMut<'a>),
    /// Slots of a cache with two parts.
    Parts(PartSlotsMut<'a, 2>),
    /// Two operands whose channels are side by side; neither has parts.
    Pair(&'a mut [AnyTarget<'a>; 2]),
}

/// [`Angles`] of any kind.
#[allow(clippy::large_enum_variant, reason = "a call has one")]
#[derive(Debug)]
pub enum AnyAngles<'a> {
    /// Rows that are ready.
    Rows(&'a Rows<'a>),
    /// Full-width rows.
    Full(FullRows<'a>),
    /// Frequencies at positions.
    At(TokenAngles<'a>),
    /// A call that does not rotate.
    None,
}

/// Runs a block with the operand that an enumeration holds.
macro_rules! each {
    ($any:ident, $self:expr, $x:ident => $block:expr, $($kind:ident($others:pat) => $other:expr),+) => {
        match $self {
            $($any::$kind($others) => $other,)+
            $any::F32($x) => $block,
            $any::F16($x) => $block,
            $any::Bf16($x) => $block,
            $any::Slots($x) => $block,
        }
    };
}

#[doc(hidden)]
impl Source for AnySource<'_> {
    fn source(&self) -> SourceKind<'_> {
        each!(AnySource, self, x => x.source(), Pair(pair) => SourceKind::Parts(*pair))
    }

    fn normed<S: Stages>(&self) -> Option<&'static NormRotateKernels> {
        each!(AnySource, self, x => x.normed::<S>(), Pair(_) => None)
    }
}

#[doc(hidden)]
impl Target for AnyTarget<'_> {
    fn target(&mut self) -> TargetKind<'_> {
        each!(
            AnyTarget, self, x => Target::target(x),
            Parts(x) => Target::target(x), Pair(pair) => TargetKind::Parts(*pair)
        )
    }

    fn kernels<S: Stages>(&self) -> PassKernels {
        each!(
            AnyTarget, self, x => x.kernels::<S>(),
            Parts(x) => x.kernels::<S>(), Pair(pair) => pair[0].kernels::<S>()
        )
    }
}

impl SourceParts for [AnySource<'_>; 2] {
    fn count(&self) -> usize {
        2
    }

    fn part(&self, index: usize) -> Operand<'_> {
        match self[index].source() {
            SourceKind::Whole(operand) => operand,
            SourceKind::Parts(parts) => parts.part(0),
        }
    }
}

impl TargetParts for [AnyTarget<'_>; 2] {
    fn count(&self) -> usize {
        2
    }

    fn part(&mut self, index: usize) -> OperandMut<'_> {
        match Target::target(&mut self[index]) {
            TargetKind::Whole(operand) => operand,
            TargetKind::Parts(parts) => parts.part(0),
        }
    }
}

#[doc(hidden)]
impl Angles for AnyAngles<'_> {
    fn angles(&self) -> Option<AnglesKind<'_>> {
        match self {
            AnyAngles::Rows(rows) => rows.angles(),
            AnyAngles::Full(rows) => rows.angles(),
            AnyAngles::At(at) => at.angles(),
            AnyAngles::None => None,
        }
    }
}
