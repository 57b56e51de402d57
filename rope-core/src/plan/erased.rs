//! Type-erased operands and angles: the results of lowering in `operand.rs`.

use core::fmt;

use super::at::MakeFns;
use super::kinds::Lower;
use crate::Rows;
use crate::describe::cache::{Cache, Slots, SlotsTarget};
use crate::describe::frequencies::RowsAt;
use crate::describe::tensor::{Bytes, BytesMut};
use crate::kernel::element::Element;
use crate::kernel::elements::{InPlaceKernels, OutOfPlaceKernels};
use crate::pass::{Operand, OperandMut, PassKernels};

/// A type-erased source.
#[derive(Clone, Copy)]
pub struct SourceOf<'s>(pub(super) SourceKind<'s>);

#[derive(Clone, Copy)]
pub(super) enum SourceKind<'s> {
    Tensor(TensorSource<'s>),
    Slots(&'s Cache<'s>, &'s Slots<'s>),
}

/// The source tensor of a pass, with its kernels.
#[derive(Clone, Copy)]
pub(super) struct TensorSource<'x> {
    pub(super) tensor: Bytes<'x>,
    pub(super) element: &'static OutOfPlaceKernels,
    pub(super) kernels: PassKernels,
}

impl<'x> TensorSource<'x> {
    /// Combines a tensor with the kernels that plans of kind `S` name.
    #[inline(always)]
    pub(super) fn of<E: Element, S: Lower>(tensor: Bytes<'x>) -> Self {
        TensorSource {
            tensor,
            element: E::OUT_OF_PLACE,
            kernels: PassKernels::normed(S::normed::<E>()),
        }
    }
}

/// A type-erased target.
pub struct TargetOf<'t>(pub(super) TargetKind<'t>);

pub(super) enum TargetKind<'t> {
    Tensor(BytesMut<'t>, &'static OutOfPlaceKernels),
    Slots(SlotsTarget<'t>),
}

impl<'s> SourceKind<'s> {
    /// Returns the source as the operand of a pass.
    pub(super) fn operand(&self) -> Operand<'s> {
        match *self {
            SourceKind::Tensor(TensorSource {
                tensor, element, ..
            }) => Operand::Tensor(tensor, element),
            SourceKind::Slots(cache, slots) => Operand::Cache(cache, slots),
        }
    }
}

impl<'t> TargetKind<'t> {
    /// Returns the target as the operand of a pass.
    pub(super) fn operand(&mut self) -> OperandMut<'_, 't> {
        match self {
            TargetKind::Tensor(y, element) => OperandMut::Tensor(y, element),
            TargetKind::Slots(target) => OperandMut::Cache(target),
        }
    }
}

/// Type-erased angles, if the call rotates.
#[derive(Clone, Copy)]
pub struct AnglesOf<'a>(pub(super) Option<AnglesKind<'a>>);

#[derive(Clone, Copy)]
pub(super) enum AnglesKind<'a> {
    Rows(&'a Rows<'a>),
    At(&'a RowsAt<'a>, &'static MakeFns),
}

impl AnglesKind<'_> {
    /// Returns the number of channels that rotate.
    pub(super) fn rotary_dim(&self) -> usize {
        match self {
            AnglesKind::Rows(rows) => rows.rotary_dim(),
            AnglesKind::At(at, _) => at.rotary_dim(),
        }
    }
}

/// A tensor that is rotated in place.
pub struct TensorOf<'t>(pub(super) BytesMut<'t>, pub(super) &'static InPlaceKernels);

macro_rules! opaque {
    ($($name:ident)*) => {$(
        impl fmt::Debug for $name<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(stringify!($name))
            }
        }
    )*};
}
opaque! { SourceOf TargetOf AnglesOf TensorOf }
