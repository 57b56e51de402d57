//! The operands of a call beside its plan: the source, the target, and the angles.

use super::at::MAKE;
use super::call::Call;
use super::erased::{
    AnglesKind, AnglesOf, SourceKind, SourceOf, TargetKind, TargetOf, TensorOf, TensorSource,
};
use super::kinds::{Lower, in_place};
use super::{Rope, Stages};
use crate::describe::cache::{CacheSlots, CacheSlotsMut};
use crate::describe::frequencies::RowsAt;
use crate::kernel::element::Element;
use crate::pass::PassKernels;
use crate::{Error, Rows, Tensor, TensorMut};

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
pub trait Source: LowerSource {}

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
pub trait Target: LowerTarget {}

/// The angles of a call: [`Rows`], or frequencies at positions, from which the call makes rows
/// ([`Frequencies::at`](crate::Frequencies::at), [`MixedFrequencies::at`](crate::axes::MixedFrequencies::at)). Sealed.
///
/// ```compile_fail,E0277
/// use rope_core::{Error, Frequencies, Pairing, Rope, TensorMut};
///
/// fn rotate(x: &mut TensorMut<'_, f32>, frequencies: &Frequencies<'_>) -> Result<(), Error> {
///     Rope::new(Pairing::Half).rotate(x, frequencies) // at which positions? `&frequencies.at(..)`
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no cos and sin of tokens",
    label = "expected `&Rows` or `&frequencies.at(positions)`"
)]
pub trait Angles: LowerAngles {}

impl<E: Element> Source for Tensor<'_, E> {}
impl<E: Element> Source for TensorMut<'_, E> {}
impl Source for CacheSlots<'_> {}
impl<E: Element> Target for TensorMut<'_, E> {}
impl Target for CacheSlotsMut<'_> {}
impl Angles for Rows<'_> {}
impl Angles for RowsAt<'_> {}
impl Angles for NoRotation {}

/// The angles of a call that does not rotate. With them, [`Rope::prepare_into`] prepares [`Rope::apply_into`].
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

/// The lowering of a source.
pub trait LowerSource {
    #[doc(hidden)]
    fn source<S: Lower>(&self) -> SourceOf<'_>;
}

/// The lowering of a target.
pub trait LowerTarget {
    #[doc(hidden)]
    fn target(&mut self) -> TargetOf<'_>;

    /// Runs a plan in place.
    #[doc(hidden)]
    fn run<S: Stages>(&mut self, rope: &Rope<S>, angles: AnglesOf<'_>) -> Result<(), Error>;

    /// Runs the stages of a plan in place.
    #[doc(hidden)]
    fn apply<S: Stages>(&mut self, rope: &Rope<S>) -> Result<(), Error>;

    /// Rotates in place by a plain plan.
    #[doc(hidden)]
    fn rotate(&mut self, rope: &Rope, angles: &impl Angles) -> Result<(), Error>;

    /// Checks an in-place call.
    #[doc(hidden)]
    fn prepare<'a, S: Stages>(
        &'a mut self,
        rope: &'a Rope<S>,
        angles: AnglesOf<'a>,
    ) -> Result<Call<'a>, Error>;
}

/// The lowering of angles.
pub trait LowerAngles {
    #[doc(hidden)]
    fn angles(&self) -> AnglesOf<'_>;

    /// Rotates a tensor in place by a plain plan.
    #[doc(hidden)]
    fn rotate(&self, rope: &Rope, tensor: TensorOf<'_>) -> Result<(), Error>;
}

impl<E: Element> LowerSource for Tensor<'_, E> {
    #[inline(always)]
    fn source<S: Lower>(&self) -> SourceOf<'_> {
        SourceOf(SourceKind::Tensor(TensorSource::of::<E, S>(self.bytes())))
    }
}

impl<E: Element> LowerSource for TensorMut<'_, E> {
    #[inline(always)]
    fn source<S: Lower>(&self) -> SourceOf<'_> {
        SourceOf(SourceKind::Tensor(TensorSource::of::<E, S>(self.bytes())))
    }
}

impl LowerSource for CacheSlots<'_> {
    #[inline(always)]
    fn source<S: Lower>(&self) -> SourceOf<'_> {
        SourceOf(SourceKind::Slots(self.cache, &self.slots))
    }
}

impl<E: Element> LowerTarget for TensorMut<'_, E> {
    #[inline(always)]
    fn target(&mut self) -> TargetOf<'_> {
        TargetOf(TargetKind::Tensor(self.bytes_mut(), E::OUT_OF_PLACE))
    }

    fn run<S: Stages>(&mut self, rope: &Rope<S>, angles: AnglesOf<'_>) -> Result<(), Error> {
        let (x, kernels) = (&mut self.bytes_mut(), in_place::<E, S>());
        rope.erased(&mut |rope| rope.in_tensor(x, kernels, angles.0))
    }

    fn apply<S: Stages>(&mut self, rope: &Rope<S>) -> Result<(), Error> {
        let kernels = (E::OUT_OF_PLACE, PassKernels::default());
        let x = &mut self.bytes_mut();
        rope.erased(&mut |rope| rope.in_tensor(x, kernels, None))
    }

    fn prepare<'a, S: Stages>(
        &'a mut self,
        rope: &'a Rope<S>,
        angles: AnglesOf<'a>,
    ) -> Result<Call<'a>, Error> {
        let rope = rope.with(rope.stages.lowered());
        Call::in_tensor(rope, self.bytes_mut(), in_place::<E, S>(), angles.0)
    }

    #[inline(always)]
    fn rotate(&mut self, rope: &Rope, angles: &impl Angles) -> Result<(), Error> {
        LowerAngles::rotate(angles, rope, TensorOf(self.bytes_mut(), E::IN_PLACE))
    }
}

impl LowerTarget for CacheSlotsMut<'_> {
    #[inline(always)]
    fn target(&mut self) -> TargetOf<'_> {
        TargetOf(TargetKind::Slots(self.target()))
    }

    fn run<S: Stages>(&mut self, rope: &Rope<S>, angles: AnglesOf<'_>) -> Result<(), Error> {
        rope.with(rope.stages.lowered())
            .in_slots(self.target(), angles.0)
    }

    fn apply<S: Stages>(&mut self, rope: &Rope<S>) -> Result<(), Error> {
        self.run(rope, AnglesOf(None))
    }

    fn prepare<'a, S: Stages>(
        &'a mut self,
        rope: &'a Rope<S>,
        angles: AnglesOf<'a>,
    ) -> Result<Call<'a>, Error> {
        let rope = rope.with(rope.stages.lowered());
        Call::in_slots(rope, self.target(), angles.0)
    }

    fn rotate(&mut self, rope: &Rope, angles: &impl Angles) -> Result<(), Error> {
        self.run(rope, angles.angles())
    }
}

impl LowerAngles for Rows<'_> {
    #[inline(always)]
    fn angles(&self) -> AnglesOf<'_> {
        AnglesOf(Some(AnglesKind::Rows(self)))
    }

    #[inline(always)]
    fn rotate(&self, rope: &Rope, TensorOf(mut x, element): TensorOf<'_>) -> Result<(), Error> {
        rope.rotate_bytes(&mut x, element, self)
    }
}

impl LowerAngles for RowsAt<'_> {
    #[inline(always)]
    fn angles(&self) -> AnglesOf<'_> {
        AnglesOf(Some(AnglesKind::At(self, &MAKE)))
    }

    #[inline(always)]
    fn rotate(&self, rope: &Rope, TensorOf(x, element): TensorOf<'_>) -> Result<(), Error> {
        rope.rotate_bytes_at(x, element, self)
    }
}

impl LowerAngles for NoRotation {
    #[inline(always)]
    fn angles(&self) -> AnglesOf<'_> {
        AnglesOf(None)
    }

    #[inline(always)]
    fn rotate(&self, _: &Rope, _: TensorOf<'_>) -> Result<(), Error> {
        Ok(())
    }
}
