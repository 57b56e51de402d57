//! Operands and angles of any kind in one type: the C API finds their kinds at run time, and links one copy of a verb.

use half::{bf16, f16};

use super::call::Call;
use super::erased::{AnglesOf, SourceOf, TargetOf, TensorOf};
use super::kinds::Lower;
use super::operand::{Angles, LowerAngles, LowerSource, LowerTarget, Source, Target};
use super::{Rope, Stages};
use crate::describe::cache::{CacheSlots, CacheSlotsMut};
use crate::describe::frequencies::RowsAt;
use crate::{Error, NoRotation, Rows, Tensor, TensorMut};

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
#[derive(Debug)]
pub enum AnyAngles<'a> {
    /// Rows that are ready.
    Rows(&'a Rows<'a>),
    /// Frequencies at positions.
    At(RowsAt<'a>),
    /// A call that does not rotate.
    None,
}

impl Source for AnySource<'_> {}
impl Target for AnyTarget<'_> {}
impl Angles for AnyAngles<'_> {}

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

impl LowerSource for AnySource<'_> {
    fn source<S: Lower>(&self) -> SourceOf<'_> {
        each!(AnySource, self, x => x.source::<S>())
    }
}

impl LowerTarget for AnyTarget<'_> {
    fn target(&mut self) -> TargetOf<'_> {
        each!(AnyTarget, self, x => LowerTarget::target(x))
    }

    fn run<S: Stages>(&mut self, rope: &Rope<S>, angles: AnglesOf<'_>) -> Result<(), Error> {
        each!(AnyTarget, self, x => x.run(rope, angles))
    }

    fn apply<S: Stages>(&mut self, rope: &Rope<S>) -> Result<(), Error> {
        each!(AnyTarget, self, x => LowerTarget::apply(x, rope))
    }

    fn rotate(&mut self, rope: &Rope, angles: &impl Angles) -> Result<(), Error> {
        each!(AnyTarget, self, x => LowerTarget::rotate(x, rope, angles))
    }

    fn prepare<'a, S: Stages>(
        &'a mut self,
        rope: &'a Rope<S>,
        angles: AnglesOf<'a>,
    ) -> Result<Call<'a>, Error> {
        each!(AnyTarget, self, x => LowerTarget::prepare(x, rope, angles))
    }
}

impl LowerAngles for AnyAngles<'_> {
    fn angles(&self) -> AnglesOf<'_> {
        match self {
            AnyAngles::Rows(rows) => rows.angles(),
            AnyAngles::At(at) => at.angles(),
            AnyAngles::None => NoRotation.angles(),
        }
    }

    fn rotate(&self, rope: &Rope, tensor: TensorOf<'_>) -> Result<(), Error> {
        match self {
            AnyAngles::Rows(rows) => LowerAngles::rotate(*rows, rope, tensor),
            AnyAngles::At(at) => LowerAngles::rotate(at, rope, tensor),
            AnyAngles::None => Ok(()),
        }
    }
}
