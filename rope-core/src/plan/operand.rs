//! The operands of a call beside its plan: the source, the target, and the angles.
#![allow(private_interfaces, reason = "the traits are sealed")]

use super::at::RowMaker;
use super::kinds::Stages;
use crate::describe::cache::{CacheSlots, CacheSlotsMut, PartSlots, PartSlotsMut};
use crate::describe::frequencies::TokenAngles;
use crate::describe::rows::{AnyRows, FullRows, FullWidth, RowSharing, fit};
use crate::execute::full::FULL_WIDTH;
use crate::kernel::element::Element;
use crate::kernel::elements::NormRotateKernels;
use crate::pass::{Operand, OperandMut, PassKernels};
use crate::{Error, Rows, Shape, Tensor, TensorMut};

/// The source of a call: a [`Tensor`], a [`TensorMut`] or the slots of a cache
/// ([`Cache::slots`](crate::cache::Cache::slots)). Sealed.
///
/// ```compile_fail,E0277
/// use rope_core::{Error, Pairing, Rope, Rows, TensorMut};
///
/// fn rotate(x: &[f32], y: &mut TensorMut<'_, f32>, rows: &Rows<'_>) -> Result<(), Error> {
///     Rope::new(Pairing::Half).rotate_into(&x, y, rows) // a slice has no shape: `&Tensor::new(x, ..)?`
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "heads cannot be read from `{Self}`",
    label = "expected `&Tensor`, `&TensorMut` or `&cache.slots(..)`",
    note = "a slice becomes a tensor by `Tensor::new(slice, [batch, tokens, heads, head_dim])`"
)]
pub trait Source {
    #[doc(hidden)]
    fn source(&self) -> SourceKind<'_>;

    /// Returns the kernels of norms for the element of a tensor, in programs that have norms.
    #[doc(hidden)]
    #[inline(always)]
    fn normed<S: Stages>(&self) -> Option<&'static NormRotateKernels> {
        None
    }
}

/// The target of a call, or the heads that it rotates in place: a [`TensorMut`] or the slots of a cache
/// ([`CacheMut::slots`](crate::cache::CacheMut::slots)). Sealed.
///
/// ```compile_fail,E0277
/// use rope_core::{Error, Pairing, Rope, Rows};
///
/// fn rotate(x: &mut [f32; 128], rows: &Rows<'_>) -> Result<(), Error> {
///     Rope::new(Pairing::Half).rotate(x, rows) // an array has no shape: `&mut TensorMut::new(x, ..)?`
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "heads cannot be written to `{Self}`",
    label = "expected `&mut TensorMut` or `&mut cache.slots(..)` of a `CacheMut`",
    note = "a slice becomes a tensor by `TensorMut::new(slice, [batch, tokens, heads, head_dim])`"
)]
pub trait Target {
    #[doc(hidden)]
    fn target(&mut self) -> TargetKind<'_>;

    /// Returns the kernels of a tensor for in-place calls. Those of a cache are in its format.
    #[doc(hidden)]
    #[inline(always)]
    fn kernels<S: Stages>(&self) -> PassKernels {
        PassKernels::default()
    }
}

/// The angles of a call: [`Rows`], [`FullRows`], or [`TokenAngles`], from which the call makes rows. Sealed.
///
/// ```compile_fail,E0277
/// use rope_core::{Error, Frequencies, Pairing, Rope, TensorMut};
///
/// fn rotate(x: &mut TensorMut<'_, f32>, frequencies: &Frequencies<'_>) -> Result<(), Error> {
///     Rope::new(Pairing::Half).rotate(x, frequencies) // at which positions? `&frequencies.at(..)?`
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no cos and sin of tokens",
    label = "expected `&Rows` or `&frequencies.at(positions)?`"
)]
#[doc(alias = "RowSource")]
pub trait Angles {
    /// Returns the angles, if the call rotates.
    #[doc(hidden)]
    fn angles(&self) -> Option<AnglesKind<'_>>;
}

/// The angles of a call that does not rotate. With them, [`Rope::prepare_into`](crate::Rope::prepare_into)
/// prepares [`Rope::apply_into`](crate::Rope::apply_into).
///
/// ```
/// use rope_core::cache::{CacheLayout, CacheMut};
/// use rope_core::{NoRotation, Pairing, Rope, Rows, Tensor};
///
/// let rope = Rope::new(Pairing::Half);
/// let (k, v, values) = ([1.0_f32; 2 * 64], [0.5_f32; 2 * 64], [0.0_f32; 64]);
/// let (k, v) = (Tensor::new(&k, [1, 1, 2, 64])?, Tensor::new(&v, [1, 1, 2, 64])?);
/// let (rows, layout) = (Rows::new(&values, [1, 64])?, CacheLayout::nhd([1, 16, 2, 64])?);
/// let (mut key_memory, mut value_memory) = ([0.0_f32; 16 * 2 * 64], [0.0_f32; 16 * 2 * 64]);
/// let mut keys = CacheMut::new(&mut key_memory, layout)?;
/// let mut values = CacheMut::new(&mut value_memory, layout)?;
///
/// // Neither cache is written unless both calls are right.
/// let (mut keys, mut values) = (keys.slots(7..8), values.slots(7..8));
/// let write_keys = rope.prepare_into(&k, &mut keys, &rows)?;
/// let write_values = rope.prepare_into(&v, &mut values, &NoRotation)?;
/// write_keys.run();
/// write_values.run();
/// # Ok::<(), rope_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoRotation;

/// Type-erased heads to read.
#[derive(Clone, Copy)]
pub(crate) enum SourceKind<'a> {
    Whole(Operand<'a>),
    Parts(&'a (dyn SourceParts + 'a)),
}

/// Type-erased heads to write.
pub(crate) enum TargetKind<'a> {
    Whole(OperandMut<'a>),
    Parts(&'a mut (dyn TargetParts + 'a)),
}

/// Heads to read, in parts.
pub(crate) trait SourceParts: Send + Sync {
    fn count(&self) -> usize;

    fn part(&self, index: usize) -> Operand<'_>;
}

/// Heads to write, in parts.
pub(crate) trait TargetParts: Send + Sync {
    fn count(&self) -> usize;

    fn part(&mut self, index: usize) -> OperandMut<'_>;
}

/// Type-erased angles.
#[derive(Clone, Copy)]
pub(crate) enum AnglesKind<'a> {
    Rows(&'a Rows<'a>),
    /// Full-width rows, and the code that rotates by them.
    Full(&'a FullRows<'a>, &'static FullWidth),
    At(&'a (dyn RowMaker + Sync)),
}

impl AnglesKind<'_> {
    /// Returns the number of channels that rotate.
    pub(super) fn rotary_dim(&self) -> usize {
        match self {
            AnglesKind::Rows(rows) => rows.rotary_dim(),
            AnglesKind::Full(rows, _) => rows.rotary_dim(),
            AnglesKind::At(at) => at.angles().kind().rotary_dim,
        }
    }

    /// Checks the angles against a tensor; returns how sequences share their rows.
    #[inline(always)]
    pub(super) fn fit(&self, shape: Shape) -> Result<RowSharing, Error> {
        match self {
            AnglesKind::Rows(rows) => fit(shape, rows),
            AnglesKind::Full(rows, _) => rows.fit(shape),
            AnglesKind::At(at) => at.check(shape),
        }
    }

    /// Returns true if two existing tokens have the same row.
    pub(super) fn is_same(&self, first: usize, second: usize) -> bool {
        match self {
            AnglesKind::Rows(rows) => rows.is_same(first, second),
            AnglesKind::Full(rows, _) => rows.rows().is_same(first, second),
            AnglesKind::At(at) => at.is_same(first, second),
        }
    }
}

impl<E: Element> Source for Tensor<'_, E> {
    #[inline(always)]
    fn source(&self) -> SourceKind<'_> {
        SourceKind::Whole(Operand::Tensor(self.bytes(), E::OUT_OF_PLACE))
    }

    #[inline(always)]
    fn normed<S: Stages>(&self) -> Option<&'static NormRotateKernels> {
        S::normed::<E>()
    }
}

impl<E: Element> Source for TensorMut<'_, E> {
    #[inline(always)]
    fn source(&self) -> SourceKind<'_> {
        SourceKind::Whole(Operand::Tensor(self.bytes(), E::OUT_OF_PLACE))
    }

    #[inline(always)]
    fn normed<S: Stages>(&self) -> Option<&'static NormRotateKernels> {
        S::normed::<E>()
    }
}

impl Source for CacheSlots<'_> {
    #[inline(always)]
    fn source(&self) -> SourceKind<'_> {
        SourceKind::Whole(Operand::Cache(self.cache, &self.slots))
    }
}

impl<E: Element> Target for TensorMut<'_, E> {
    #[inline(always)]
    fn target(&mut self) -> TargetKind<'_> {
        TargetKind::Whole(OperandMut::Tensor(self.bytes_mut(), E::OUT_OF_PLACE))
    }

    #[inline(always)]
    fn kernels<S: Stages>(&self) -> PassKernels {
        PassKernels {
            in_place: Some(E::IN_PLACE),
            normed: S::normed::<E>(),
        }
    }
}

impl Target for CacheSlotsMut<'_> {
    #[inline(always)]
    fn target(&mut self) -> TargetKind<'_> {
        TargetKind::Whole(OperandMut::Cache(self.target()))
    }
}

/// Tensors with the channels of a head side by side: the first has the first ones.
impl<E: Element, const N: usize> Source for [Tensor<'_, E>; N] {
    #[inline(always)]
    fn source(&self) -> SourceKind<'_> {
        SourceKind::Parts(self)
    }
}

impl Source for PartSlots<'_> {
    #[inline(always)]
    fn source(&self) -> SourceKind<'_> {
        SourceKind::Parts(self)
    }
}

/// Tensors with the channels of a head side by side: the first has the first ones.
impl<E: Element, const N: usize> Target for [TensorMut<'_, E>; N] {
    #[inline(always)]
    fn target(&mut self) -> TargetKind<'_> {
        TargetKind::Parts(self)
    }

    #[inline(always)]
    fn kernels<S: Stages>(&self) -> PassKernels {
        PassKernels {
            in_place: Some(E::IN_PLACE),
            normed: None,
        }
    }
}

impl<const N: usize> Target for PartSlotsMut<'_, N> {
    #[inline(always)]
    fn target(&mut self) -> TargetKind<'_> {
        TargetKind::Parts(self)
    }
}

impl Angles for Rows<'_> {
    #[inline(always)]
    fn angles(&self) -> Option<AnglesKind<'_>> {
        Some(AnglesKind::Rows(self))
    }
}

impl Angles for FullRows<'_> {
    #[inline(always)]
    fn angles(&self) -> Option<AnglesKind<'_>> {
        Some(AnglesKind::Full(self, &FULL_WIDTH))
    }
}

impl Angles for AnyRows<'_> {
    #[inline(always)]
    fn angles(&self) -> Option<AnglesKind<'_>> {
        match self {
            AnyRows::Pairs(rows) => rows.angles(),
            AnyRows::Channels(rows) => rows.angles(),
        }
    }
}

impl Angles for TokenAngles<'_> {
    #[inline(always)]
    fn angles(&self) -> Option<AnglesKind<'_>> {
        Some(AnglesKind::At(self))
    }
}

impl Angles for NoRotation {
    #[inline(always)]
    fn angles(&self) -> Option<AnglesKind<'_>> {
        None
    }
}

impl<E: Element, const N: usize> SourceParts for [Tensor<'_, E>; N] {
    fn count(&self) -> usize {
        N
    }

    fn part(&self, index: usize) -> Operand<'_> {
        Operand::Tensor(self[index].bytes(), E::OUT_OF_PLACE)
    }
}

impl<E: Element, const N: usize> TargetParts for [TensorMut<'_, E>; N] {
    fn count(&self) -> usize {
        N
    }

    fn part(&mut self, index: usize) -> OperandMut<'_> {
        OperandMut::Tensor(self[index].bytes_mut(), E::OUT_OF_PLACE)
    }
}

impl SourceParts for PartSlots<'_> {
    fn count(&self) -> usize {
        self.parts.len()
    }

    fn part(&self, index: usize) -> Operand<'_> {
        Operand::Cache(&self.parts[index], &self.slots)
    }
}

impl<const N: usize> TargetParts for PartSlotsMut<'_, N> {
    fn count(&self) -> usize {
        N
    }

    fn part(&mut self, index: usize) -> OperandMut<'_> {
        OperandMut::Cache(self.target(index))
    }
}
