//! The verbs of a plan that read or write caches.

use super::kinds::{Lowered, PassSource, check_head};
use super::{Linear, Plain, Rope, Stages};
use crate::describe::cache::{Cache, CacheMut, Format, IntoSlots, Slots};
use crate::describe::rows::RowSharing;
use crate::describe::rows::fit::fit;
use crate::describe::tensor::BytesMut;
use crate::execute::choose::{self, SHIFT};
use crate::kernel::element::{Element, ElementKernels};
use crate::kernel::elements::OutOfPlaceKernels;
use crate::pass::{Operand, OperandMut, Pass, PassKernels};
use crate::{Dimension, Error, Rows, Shape, Tensor, TensorMut};

impl<S: Stages> Rope<S> {
    /// Runs the plan from a tensor into the slots of a cache, one slot for each token of each sequence: keys as they
    /// are projected, into a cache that may be paged and of another element or a quantized format.
    ///
    /// A token with a negative slot is left out. Of two tokens with one slot the later one stays.
    ///
    /// # Errors
    ///
    /// Those of [`Rope::rotate`]; [`Error::HeadDimOnStack`]; [`Error::CacheHeads`] if the cache has other heads;
    /// [`Error::SlotCount`] unless there is one slot for each token of each sequence; [`Error::Slot`],
    /// [`Error::SlotOffset`] and [`Error::PagePosition`] for one that the cache, or its sequence, does not have;
    /// [`Error::Page`] and [`Error::NegativePage`]; [`Error::Count`] for page tables of another length;
    /// [`Error::CacheLayout`] for [`Slots::offsets`] where scales are found by slot. The cache is untouched then.
    pub fn rotate_into_cache<'s, I: Element>(
        &self,
        x: &Tensor<'_, I>,
        cache: &mut CacheMut<'_>,
        slots: impl IntoSlots<'s>,
        rows: &Rows<'_>,
    ) -> Result<(), Error> {
        self.rotate_into_cache_by(x, cache, slots, rows).map(drop)
    }

    /// [`Rope::rotate_into_cache`], and the name of the implementation that ran it.
    ///
    /// # Errors
    ///
    /// Those of [`Rope::rotate_into_cache`].
    pub(crate) fn rotate_into_cache_by<'s, I: Element>(
        &self,
        x: &Tensor<'_, I>,
        cache: &mut CacheMut<'_>,
        slots: impl IntoSlots<'s>,
        rows: &Rows<'_>,
    ) -> Result<&'static str, Error> {
        let (x, slots) = (PassSource::of::<I, S>(x), &slots.into_slots());
        self.erased(&mut |rope| rope.run_into_cache(x, cache, slots, Some(rows)))
    }

    /// [`Rope::rotate_into_cache`] without the rotation: values, which are converted and written (and normed, in some
    /// models).
    ///
    /// # Errors
    ///
    /// Those of [`Rope::rotate_into_cache`] but for the rows'.
    pub fn copy_into_cache<'s, I: Element>(
        &self,
        x: &Tensor<'_, I>,
        cache: &mut CacheMut<'_>,
        slots: impl IntoSlots<'s>,
    ) -> Result<(), Error> {
        self.copy_into_cache_by(x, cache, slots).map(drop)
    }

    /// [`Rope::copy_into_cache`], and the name of the implementation that ran it.
    ///
    /// # Errors
    ///
    /// Those of [`Rope::copy_into_cache`].
    pub(crate) fn copy_into_cache_by<'s, I: Element>(
        &self,
        x: &Tensor<'_, I>,
        cache: &mut CacheMut<'_>,
        slots: impl IntoSlots<'s>,
    ) -> Result<&'static str, Error> {
        let (x, slots) = (PassSource::of::<I, Plain>(x), &slots.into_slots());
        self.erased(&mut |rope| rope.run_into_cache(x, cache, slots, None))
    }

    /// Writes keys and values of the same tokens into the same slots: keys through the plan, values converted alone.
    /// (Values with a Hadamard transform of their own take [`Rope::copy_into_cache`].)
    /// Everything is checked before either cache is written.
    ///
    /// # Errors
    ///
    /// Those of [`Rope::rotate_into_cache`] for either, and [`Error::KeyValueMismatch`] if the tokens of the two
    /// tensors are not as many.
    pub fn rotate_into_caches<'s, K: Element, V: Element>(
        &self,
        (k, keys): (&Tensor<'_, K>, &mut CacheMut<'_>),
        (v, values): (&Tensor<'_, V>, &mut CacheMut<'_>),
        slots: impl IntoSlots<'s>,
        rows: &Rows<'_>,
    ) -> Result<(), Error> {
        let slots = slots.into_slots();
        let (key, value) = (k.shape(), v.shape());
        if let Some((dimension @ (Dimension::Batch | Dimension::Tokens), key, value)) =
            key.difference(value)
        {
            return Err(Error::KeyValueMismatch {
                dimension,
                key,
                value,
            });
        }
        values.stored().check(value, &slots, values.len())?;
        check_head(value)?;
        self.rotate_into_cache(k, keys, slots, rows)?;
        self.with(Plain).copy_into_cache(v, values, slots)
    }

    /// Runs the plan from a cache into a tensor, one slot for each token of each sequence: keys that were cached
    /// before their rotation. The source is f32, so nothing between the stages is rounded. A Hadamard transform is the
    /// first stage here, and undoes the transform of the cached heads. A token with a negative slot is left out.
    ///
    /// # Errors
    ///
    /// Those of [`Rope::rotate_into_cache`]. The tensor is untouched then.
    pub fn rotate_from_cache<'s, O: Element>(
        &self,
        cache: &Cache<'_>,
        slots: impl IntoSlots<'s>,
        y: &mut TensorMut<'_, O>,
        rows: &Rows<'_>,
    ) -> Result<(), Error> {
        self.rotate_from_cache_by(cache, slots, y, rows).map(drop)
    }

    /// [`Rope::rotate_from_cache`], and the name of the implementation that ran it.
    ///
    /// # Errors
    ///
    /// Those of [`Rope::rotate_from_cache`].
    pub(crate) fn rotate_from_cache_by<'s, O: Element>(
        &self,
        cache: &Cache<'_>,
        slots: impl IntoSlots<'s>,
        y: &mut TensorMut<'_, O>,
        rows: &Rows<'_>,
    ) -> Result<&'static str, Error> {
        let (slots, y) = (&slots.into_slots(), &mut y.bytes_mut());
        self.erased(&mut |rope| {
            let y = (&mut *y, O::OUT_OF_PLACE);
            rope.run_from_cache(cache, slots, y, Some(rows))
        })
    }

    /// [`Rope::rotate_from_cache`] without the rotation: heads of a cache as f32, f16 or bf16.
    ///
    /// # Errors
    ///
    /// Those of [`Rope::rotate_from_cache`] but for the rows'.
    pub fn copy_from_cache<'s, O: Element>(
        &self,
        cache: &Cache<'_>,
        slots: impl IntoSlots<'s>,
        y: &mut TensorMut<'_, O>,
    ) -> Result<(), Error> {
        let (slots, y) = (&slots.into_slots(), &mut y.bytes_mut());
        self.erased(&mut |rope| {
            let y = (&mut *y, O::OUT_OF_PLACE);
            rope.run_from_cache(cache, slots, y, None)
        })
        .map(drop)
    }
}

impl<S: Linear> Rope<S> {
    /// Rotates keys that lie in a cache, in place, one row for each slot: a context shift by the rows of
    /// [`Frequencies::shift`](crate::Frequencies::shift).
    ///
    /// A head is read as f32, rotated, and rounded once to the cache's format; scales that are computed are computed
    /// anew. A row that is the identity (every cos 1, every sin 0) leaves the bits of its slot, so that tokens which do
    /// not move keep theirs. Where each head has a row of its own, those of all heads have to be.
    ///
    /// Cached keys have the model's attention factor, so rows with one are refused: those of
    /// [`Frequencies::rows`](crate::Frequencies::rows) of a YaRN model would apply it twice. Given rows have the factor
    /// 1 unless [`Rows::with_attention_factor`] says another. The rows of
    /// [`Frequencies::shift_from`](crate::Frequencies::shift_from) have the quotient of two factors, which is applied.
    ///
    /// A scale is not applied: cached keys have it, and it commutes with the rotation. A Hadamard transform does not:
    /// it is undone before the rotation, and done again after it.
    ///
    /// # Errors
    ///
    /// [`Error::FullWidthRows`] of full-width rows, [`Error::ShiftFactor`] of rows with an attention factor other than
    /// 1, [`Error::SlotCount`] unless there is one slot for each row, and
    /// those of [`Rope::rotate_into_cache`]. The cache is untouched then.
    pub fn shift<'s>(
        &self,
        cache: &mut CacheMut<'_>,
        slots: impl IntoSlots<'s>,
        rows: &Rows<'_>,
    ) -> Result<(), Error> {
        let plan = self.with(self.stages.shifted());
        plan.shift_slots(cache, &slots.into_slots(), rows)
    }
}

impl Rope<Lowered<'_>> {
    #[inline(never)]
    fn shift_slots(
        &self,
        cache: &mut CacheMut<'_>,
        slots: &Slots<'_>,
        rows: &Rows<'_>,
    ) -> Result<(), Error> {
        let shape = Shape {
            batch: 1,
            tokens: rows.len(),
            heads: cache.layout().shape().heads,
            head_dim: cache.stored().head_dim(),
        };
        let sharing = self.with(Plain).fit_in_place(shape, rows)?;
        rows.check_moves()?;
        cache.stored().check(shape, slots, cache.len())?;
        self.check_stages(shape, Some(rows))?;
        let kernels = PassKernels {
            in_place: match cache.stored().format {
                Format::Element(_, in_place) => Some(in_place),
                Format::Codes(_) => None,
            },
            normed: None,
        };
        let pass = Pass {
            skips_identity: true,
            ..self.checked_pass(shape, (f32::OUT_OF_PLACE, kernels), Some((rows, sharing)))
        };
        let target = &mut OperandMut::Cache(cache, slots);
        choose::in_place(SHIFT, &pass, target);
        Ok(())
    }

    #[inline(never)]
    fn run_into_cache(
        &self,
        x: PassSource<'_>,
        cache: &mut CacheMut<'_>,
        slots: &Slots<'_>,
        rows: Option<&Rows<'_>>,
    ) -> Result<&'static str, Error> {
        let shape = x.tensor.layout.shape();
        let rows = fitting(shape, rows)?;
        cache.stored().check(shape, slots, cache.len())?;
        self.run_into(x, &mut OperandMut::Cache(cache, slots), rows)
    }

    #[inline(never)]
    fn run_from_cache(
        &self,
        cache: &Cache<'_>,
        slots: &Slots<'_>,
        (y, element): (&mut BytesMut<'_>, &'static OutOfPlaceKernels),
        rows: Option<&Rows<'_>>,
    ) -> Result<&'static str, Error> {
        let shape = y.layout.shape();
        let rows = fitting(shape, rows)?;
        cache.stored().check(shape, slots, cache.len())?;
        let plan = self.with(self.stages.undone());
        plan.check_stages(shape, rows.map(|(rows, _)| rows))?;
        let pass = plan.checked_pass(shape, (f32::OUT_OF_PLACE, PassKernels::default()), rows);
        let source = Operand::Cache(cache, slots);
        let target = &mut OperandMut::Tensor(y, element);
        Ok(choose::out_of_place(&pass, &source, target))
    }
}

/// Rows with whose they are, if they fit the tensor.
fn fitting<'r, 'v>(
    shape: Shape,
    rows: Option<&'r Rows<'v>>,
) -> Result<Option<(&'r Rows<'v>, RowSharing)>, Error> {
    match rows {
        Some(rows) => Ok(Some((rows, fit(shape, rows)?))),
        None => Ok(None),
    }
}
