//! Operands and angles of any kind in one type: the C API finds their kinds at run time, and links one copy of a verb.
#![allow(private_interfaces, reason = "the traits are sealed")]

use half::{bf16, f16};

use super::kinds::Stages;
use super::operand::{Angles, AnglesKind, Source, Target};
use crate::describe::cache::{CacheSlots, CacheSlotsMut};
use crate::describe::frequencies::TokenAngles;
use crate::kernel::elements::NormRotateKernels;
use crate::pass::{Operand, OperandMut, PassKernels};
use crate::{Rows, Tensor, TensorMut};

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
}

/// [`Angles`] of any kind.
#[allow(clippy::large_enum_variant, reason = "a call has one")]
#[derive(Debug)]
pub enum AnyAngles<'a> {
    /// Rows that are ready.
    Rows(&'a Rows<'a>),
    /// Frequencies at positions.
    At(TokenAngles<'a>),
    /// A call that does not rotate.
    None,
}

/// Runs a block with the operand that an enumeration holds.
macro_rules! each {
    ($any:ident, $self:expr, $x:ident => $block:expr) => {
        match $self {
            $any::F32($x) => $block,
            $any::F16($x) => $block,
            $any::Bf16($x) => $block,
            $any::Slots($x) => $block,
        }
    };
}

#[doc(hidden)]
impl Source for AnySource<'_> {
    fn source(&self) -> Operand<'_> {
        each!(AnySource, self, x => x.source())
    }

    fn normed<S: Stages>(&self) -> Option<&'static NormRotateKernels> {
        each!(AnySource, self, x => x.normed::<S>())
    }
}

#[doc(hidden)]
impl Target for AnyTarget<'_> {
    fn target(&mut self) -> OperandMut<'_> {
        each!(AnyTarget, self, x => Target::target(x))
    }

    fn kernels<S: Stages>(&self) -> PassKernels {
        each!(AnyTarget, self, x => x.kernels::<S>())
    }
}

#[doc(hidden)]
impl Angles for AnyAngles<'_> {
    fn angles(&self) -> Option<AnglesKind<'_>> {
        match self {
            AnyAngles::Rows(rows) => rows.angles(),
            AnyAngles::At(at) => at.angles(),
            AnyAngles::None => None,
        }
    }
}
