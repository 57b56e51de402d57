//! The verbs of every kind of plan.

use super::call::Call;
use super::erased::{AnglesKind, SourceKind, TargetKind};
use super::kinds::in_place;
use super::operand::{Angles, LowerTarget, Source, Target};
use super::{Plain, Rope, Stages};
use crate::kernel::element::Element;
use crate::{Error, TensorMut};

impl<S: Stages> Rope<S> {
    /// Rotates the first `rotary_dim` channels of every head, in place; the others stay as they are.
    ///
    /// Each output is the f32 that `x cos - y sin` or `x sin + y cos` gives when each of the three operations is
    /// rounded by itself, then rounded to the element: the same bits on every backend. With `v` the length of the pair
    /// and `u = 2^-24`, an f32 output is within `2 u v` of the exact rotation by the row's cos and sin.
    ///
    /// # Keys that stay in a cache
    ///
    /// The slots of a cache are rotated in place by the rows of [`Frequencies::shift`](crate::Frequencies::shift), one
    /// for each slot: a context shift.
    ///
    /// A head is read as f32, rotated, and rounded once to the cache's format; scales that are computed are computed
    /// anew. A row that is the identity (every cos 1, every sin 0) leaves the bits of its slot, so that tokens which do
    /// not move keep theirs. Where each head has a row of its own, those of all heads have to be.
    ///
    /// Cached keys have the model's attention factor, so rows with one are refused: those of
    /// [`Frequencies::rows`](crate::Frequencies::rows) of a YaRN model would apply it twice. Given rows have the factor
    /// 1 unless [`Rows::with_attention_factor`](crate::Rows::with_attention_factor) says another. The rows of
    /// [`Frequencies::shift_from`](crate::Frequencies::shift_from) have the quotient of two factors, which is applied.
    ///
    /// Cached keys have the plan's norm too, so plans with a norm are refused. A scale is not applied: it commutes with
    /// the rotation. A Hadamard transform does not: it is undone before the rotation, and done again after it.
    ///
    /// # Errors
    ///
    /// [`Error::RotaryDimExceedsHead`] if the rows rotate more channels than a head has, [`Error::RowCount`] unless
    /// there is one row per token or one per token of every sequence, [`Error::RowHeads`] if rows of each head are
    /// those of another number of heads, [`Error::RowSequences`] if strided rows are those of other sequences,
    /// [`Error::RowMagnitude`] if the direction is [`Direction::Inverse`](crate::Direction::Inverse) and given rows are
    /// no rotations times their attention factor, [`Error::PairingChangesInPlace`] if the plan's output pairing is
    /// another than its input pairing.
    ///
    /// Of frequencies at positions: [`Error::RotaryDimOnStack`] for rows of more than 2048 channels (of all heads
    /// together, where each has its own, unless a plain plan rotates a tensor); [`Error::PositionsPerAxis`] and
    /// [`Error::Coordinate`] as [`Frequencies::rows`](crate::Frequencies::rows).
    ///
    /// In a cache: [`Error::FullWidthRows`] of full-width rows, [`Error::ShiftFactor`] of an attention factor other
    /// than 1, [`Error::NormInCache`] of a plan with a norm, and those of [`Rope::rotate_into`] a cache.
    ///
    /// The target is untouched then.
    #[inline]
    pub fn rotate(&self, x: &mut impl Target, angles: &impl Angles) -> Result<(), Error> {
        match S::plain(self) {
            Some(rope) => LowerTarget::rotate(x, rope, angles),
            None => x.run(self, angles.angles()),
        }
    }

    /// Rotates Q and K, in place, with the same rows: [`Rope::rotate`] twice, checked before either is touched.
    ///
    /// Rows per head have to have the heads of either; where Q has more heads than K, each is rotated by itself, with
    /// its own rows.
    ///
    /// They are two slices. Where they lie in one, as a packed QKV projection writes them, [`Rope::rotate`] takes both
    /// at once, as one tensor of their heads ([the guide](crate::guide::packed_qkv)).
    ///
    /// # Errors
    ///
    /// Those of [`Rope::rotate`], and [`Error::QueryKeyMismatch`] unless the two differ in their heads only.
    pub fn rotate_qk<Q: Element, K: Element>(
        &self,
        q: &mut TensorMut<'_, Q>,
        k: &mut TensorMut<'_, K>,
        angles: &impl Angles,
    ) -> Result<(), Error> {
        let (mut q, mut k) = (q.bytes_mut(), k.bytes_mut());
        match (S::plain(self), angles.angles().0) {
            (Some(rope), Some(AnglesKind::Rows(rows))) => {
                rope.rotate_qk_bytes((&mut q, Q::IN_PLACE), (&mut k, K::IN_PLACE), rows)
            }
            (_, angles) => {
                let (of_q, of_k) = (in_place::<Q, S>(), in_place::<K, S>());
                self.erased(&mut |rope| rope.query_and_key((&mut q, of_q), (&mut k, of_k), angles))
            }
        }
    }

    /// Rotates a source into a target: a tensor into another, whose element type and pairing may differ; keys as they
    /// are projected, into the slots of a cache, which may be paged and of another element or a quantized format; or
    /// keys that were cached before their rotation, into a tensor or another cache.
    ///
    /// The channels after `rotary_dim` are copied; as bits, if the element stays the same. Slots are one for each token
    /// of each sequence. A token with a negative slot is left out. Of two tokens with one slot the later one stays.
    ///
    /// What comes from a cache is read as f32, so nothing between the stages is rounded. A Hadamard transform is the
    /// first stage there, and undoes the transform of the cached heads. From one cache into another each slot is a
    /// token of one sequence; heads have the scale of their plan already, and a transform is undone before the rotation
    /// and done again after it.
    ///
    /// # Errors
    ///
    /// [`Error::ShapeMismatch`] if two tensors have different shapes; those of [`Rope::rotate`] about rows and
    /// positions.
    ///
    /// Of slots: [`Error::HeadDimOnStack`]; [`Error::CacheHeads`] if the cache has other heads; [`Error::SlotCount`]
    /// unless there is one slot for each token of each sequence; [`Error::Slot`], [`Error::SlotOffset`] and
    /// [`Error::PagePosition`] for one that the cache, or its sequence, does not have; [`Error::Page`] and
    /// [`Error::NegativePage`]; [`Error::Count`] for page tables of another length; [`Error::CacheLayout`] for
    /// [`Slots::offsets`](crate::cache::Slots::offsets) where scales are found by slot. From one cache into another:
    /// [`Error::NormInCache`] of a plan with a norm.
    ///
    /// The target is untouched then.
    #[inline]
    pub fn rotate_into(
        &self,
        x: &impl Source,
        y: &mut impl Target,
        angles: &impl Angles,
    ) -> Result<(), Error> {
        let (source, target) = (x.source::<S>(), y.target());
        match (S::plain(self), source.0, target.0, angles.angles().0) {
            (
                Some(rope),
                SourceKind::Tensor(x),
                TargetKind::Tensor(mut y, element),
                Some(AnglesKind::Rows(rows)),
            ) => rope.rotate_bytes_into((x.tensor, x.element), (&mut y, element), rows),
            (_, source, target, angles) => self.run_into(source, target, angles),
        }
    }

    /// Runs the stages in place without the rotation: queries and keys of layers that norm and do not rotate; heads of
    /// an attention's output, whose Hadamard transform is undone so. A plain plan has none, and changes nothing. Heads
    /// in the slots of a cache have the stages already, and stay as they are.
    ///
    /// # Errors
    ///
    /// Those of [`Rope::rotate`] but for the rows'.
    pub fn apply(&self, x: &mut impl Target) -> Result<(), Error> {
        x.apply(self)
    }

    /// Runs the stages from a source into a target without the rotation: values, which are converted and written (and
    /// normed, in some models); heads of a cache as f32, f16 or bf16.
    ///
    /// # Errors
    ///
    /// Those of [`Rope::rotate_into`] but for the rows'.
    pub fn apply_into(&self, x: &impl Source, y: &mut impl Target) -> Result<(), Error> {
        self.run_into(x.source::<Plain>().0, y.target().0, None)
    }

    /// Checks [`Rope::rotate`], and returns it as a [`Call`] that cannot fail: so several calls run all or none. With
    /// [`NoRotation`](crate::NoRotation) for angles it is [`Rope::apply`].
    ///
    /// Verbs themselves do not go through a `Call`, which costs some 100 ns more.
    ///
    /// # Errors
    ///
    /// Those of [`Rope::rotate`].
    pub fn prepare<'a>(
        &'a self,
        x: &'a mut impl Target,
        angles: &'a impl Angles,
    ) -> Result<Call<'a>, Error> {
        x.prepare(self, angles.angles())
    }

    /// Checks [`Rope::rotate_into`], and returns it as a [`Call`] that cannot fail. With
    /// [`NoRotation`](crate::NoRotation) for angles it is [`Rope::apply_into`].
    ///
    /// Slots and made rows that are temporaries have to be bound to a name first, as everything that the call borrows:
    ///
    /// ```
    /// use rope_core::cache::{CacheLayout, CacheMut};
    /// use rope_core::{Pairing, Rope, Rows, Tensor};
    ///
    /// let (k, rows, mut memory) = ([1.0_f32; 2 * 64], [0.0_f32; 64], [0.0_f32; 16 * 2 * 64]);
    /// let (k, rows) = (Tensor::new(&k, [1, 1, 2, 64])?, Rows::new(&rows, [1, 64])?);
    /// let mut keys = CacheMut::new(&mut memory, CacheLayout::nhd([1, 16, 2, 64])?)?;
    /// let mut slot = keys.slots(7..8);
    /// let rope = Rope::new(Pairing::Half);
    /// let call = rope.prepare_into(&k, &mut slot, &rows)?;
    /// call.run();
    /// # Ok::<(), rope_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Rope::rotate_into`].
    pub fn prepare_into<'a>(
        &'a self,
        x: &'a impl Source,
        y: &'a mut impl Target,
        angles: &'a impl Angles,
    ) -> Result<Call<'a>, Error> {
        let rope = self.with(self.stages.lowered());
        Call::between(rope, x.source::<S>().0, y.target().0, angles.angles().0)
    }
}
