//! The verbs of every kind of plan.

use super::call::Call;
use super::check::check_query_and_key;
use super::operand::{Angles, AnglesKind, Source, SourceKind, Target, TargetKind};
use super::outputs::Output;
use super::parts::PartsCall;
use super::{Rope, Stages};
use crate::kernel::element::Element;
use crate::pass::{Operand, OperandMut, PassKernels};
use crate::{Error, Tensor, TensorMut};

impl<S: Stages> Rope<S> {
    /// Rotates the first `rotary_dim` channels of every head, in place; the others stay as they are.
    ///
    /// Each output is `x cos - y sin` or `x sin + y cos` in f32, each of the three operations rounded by itself, then
    /// rounded to the element: the same bits on every backend. With `v` the length of the pair and `u = 2^-24`, an f32
    /// output is within `2 u v` of the exact rotation by the row's cos and sin.
    ///
    /// # Cached keys
    ///
    /// A context shift rotates the slots of a cache in place, by the angles of
    /// [`Frequencies::shift`](crate::Frequencies::shift), one per slot.
    ///
    /// A head is read as f32, rotated, and rounded once to the format of the cache; computed scales are recomputed. If
    /// the row of a slot is the identity (every cos 1, every sin 0), the slot keeps its bits: a token that does not
    /// move does not change. With rows per head, the rows of all heads must be the identity.
    ///
    /// A slot moves once. Tokens may share one, as sequences share the pages of a prefix, if their rows have the same
    /// bits (for token angles: the same positions). [`SlotsError::Repeated`] names a slot whose tokens have
    /// different rows.
    ///
    /// Cached keys already have the model's attention factor, so rows with a factor are refused: the
    /// [`Frequencies::rows`](crate::Frequencies::rows) of a YaRN model would apply it twice. Given rows have the factor
    /// 1 unless [`Rows::with_attention_factor`](crate::Rows::with_attention_factor) sets another. The angles of
    /// [`Frequencies::shift_from`](crate::Frequencies::shift_from) have the quotient of two factors, which is applied.
    ///
    /// Cached keys also have the plan's norm, so plans with a norm are refused. A scale is not applied: it commutes
    /// with the rotation. A Hadamard transform does not commute: it is undone before the rotation and repeated after
    /// it.
    ///
    /// # Errors
    ///
    /// [`RowsError::RotaryDimExceedsHead`](crate::error::RowsError::RotaryDimExceedsHead) if the rows rotate more
    /// channels than a head has; [`RowsError::Count`](crate::error::RowsError::Count) unless there is one row per
    /// token, or one per token of every sequence; [`RowsError::Heads`](crate::error::RowsError::Heads) if rows per head
    /// are for another number of heads; [`RowsError::Sequences`](crate::error::RowsError::Sequences) if strided rows
    /// are for other sequences; [`RowsError::Magnitude`](crate::error::RowsError::Magnitude) if the direction is
    /// [`Direction::Inverse`](crate::Direction::Inverse) and given rows are not rotations times their attention factor;
    /// [`PlanError::PairingChangesInPlace`](crate::error::PlanError::PairingChangesInPlace) if the plan's output
    /// pairing differs from its input pairing; [`PlanError::HeadDim`](crate::error::PlanError::HeadDim) for heads of
    /// another size than the plan's ([`Rope::with_head_dim`]).
    ///
    /// For [`TokenAngles`](crate::TokenAngles):
    /// [`FrequenciesError::RotaryDimOnStack`](crate::error::FrequenciesError::RotaryDimOnStack) for rows of more than
    /// 2048 channels (of all heads together if each has its own, unless a plain plan rotates a tensor).
    ///
    /// For [`FullRows`](crate::FullRows): [`RowsError::FullWidth`](crate::error::RowsError::FullWidth) in a cache, and
    /// if the direction is [`Direction::Inverse`](crate::Direction::Inverse).
    ///
    /// In a cache: [`CacheError::ShiftFactor`](crate::error::CacheError::ShiftFactor) for an attention factor other
    /// than 1; [`PlanError::NormInCache`](crate::error::PlanError::NormInCache) for a plan with a norm;
    /// [`SlotsError::Repeated`] if tokens with different rows share a slot;
    /// [`SlotsError::PartOfGroup`](crate::error::SlotsError::PartOfGroup) for a part of a group of slots that share
    /// scales by channel; and the errors of [`Rope::rotate_into`] a cache.
    ///
    /// The target is untouched then.
    ///
    /// [`SlotsError::Repeated`]: crate::error::SlotsError::Repeated
    #[doc(alias(
        "apply_rotary_emb",
        "apply_rope",
        "rotary_embedding",
        "ggml_rope",
        "rope_ext",
        "rotate_at"
    ))]
    #[inline]
    pub fn rotate(&self, x: &mut impl Target, angles: &impl Angles) -> Result<(), Error> {
        let (kernels, angles) = (x.kernels::<S>(), angles.angles());
        match (S::plain(self), x.target(), kernels.in_place, angles) {
            (
                Some(rope),
                TargetKind::Whole(OperandMut::Tensor(x, _)),
                Some(element),
                Some(AnglesKind::Rows(rows)),
            ) => rope.rotate_bytes(x, element, rows),
            (
                Some(rope),
                TargetKind::Whole(OperandMut::Tensor(x, _)),
                Some(element),
                Some(AnglesKind::At(at)),
            ) => rope.rotate_bytes_at(x, element, at.angles()),
            (
                Some(rope),
                TargetKind::Whole(OperandMut::Tensor(mut x, element)),
                _,
                Some(AnglesKind::Full(rows, full)),
            ) if rope.is_direct(element) => rope.rotate_bytes_full(&mut x, rows, full),
            (_, target, ..) => self.run_kind_in_place(target, kernels, angles),
        }
    }

    /// Rotates Q and K in place by the same rows: [`Rope::rotate`] twice, with both checked before either is written.
    ///
    /// Rows per head must match the heads of both. If Q has more heads than K, rotate each by itself, with its own
    /// rows.
    ///
    /// Q and K are two slices. If they are in one, as a packed QKV projection writes them, [`Rope::rotate`] rotates
    /// both at once, as one tensor of their heads ([the guide](crate::guide::packed_qkv)).
    ///
    /// # Errors
    ///
    /// The errors of [`Rope::rotate`], and [`ShapeError::QueryKeyMismatch`](crate::error::ShapeError::QueryKeyMismatch)
    /// unless Q and K differ in their heads only.
    #[doc(alias = "apply_rotary_pos_emb")]
    pub fn rotate_qk<Q: Element, K: Element>(
        &self,
        q: &mut TensorMut<'_, Q>,
        k: &mut TensorMut<'_, K>,
        angles: &impl Angles,
    ) -> Result<(), Error> {
        match (S::plain(self), angles.angles()) {
            (Some(rope), Some(AnglesKind::Rows(rows))) => {
                let tensors = [(q.bytes_mut(), Q::IN_PLACE), (k.bytes_mut(), K::IN_PLACE)];
                rope.rotate_qk_bytes(tensors, rows)
            }
            (_, angles) => {
                check_query_and_key(q.shape(), k.shape())?;
                let kernels = [q.kernels::<S>(), k.kernels::<S>()];
                let tensors = &mut [
                    OperandMut::Tensor(q.bytes_mut(), Q::OUT_OF_PLACE),
                    OperandMut::Tensor(k.bytes_mut(), K::OUT_OF_PLACE),
                ];
                self.erased(&mut |rope| rope.run_query_and_key(tensors, kernels, angles))
            }
        }
    }

    /// Rotates a source into a target. The source is a tensor, or cached keys that are not rotated yet. The target is a
    /// tensor, possibly of another element and pairing, or the slots of a cache, possibly paged and of another element
    /// or a quantized format.
    ///
    /// The channels after `rotary_dim` are copied, as bits if the element stays the same. Slots are one per token of
    /// each sequence. A token with a negative slot is skipped. If two tokens have the same slot, the later one stays.
    ///
    /// Heads from a cache are read as f32, so nothing between the stages is rounded. A Hadamard transform is then the
    /// first stage, and undoes the transform of the cached heads. From one cache into another, each slot is a token of
    /// one sequence. Such heads already have the scale of their plan; a transform is undone before the rotation and
    /// repeated after it.
    ///
    /// Both operands may have heads in parts, side by side: an array of tensors, or a cache of parts
    /// ([`CachePartsMut`](crate::cache::CachePartsMut)). The channels that rotate are in one part, unless the plan has
    /// stages: these run on whole heads, in the order of all other calls.
    ///
    /// # Errors
    ///
    /// [`ShapeError::Mismatch`](crate::error::ShapeError::Mismatch) if two tensors have different shapes; the errors of
    /// [`Rope::rotate`] about rows and positions.
    ///
    /// For slots: [`ShapeError::HeadDimOnStack`](crate::error::ShapeError::HeadDimOnStack);
    /// [`CacheError::Heads`](crate::error::CacheError::Heads) if the cache has other heads;
    /// [`SlotsError::Count`](crate::error::SlotsError::Count) unless there is one slot per token of each sequence;
    /// [`SlotsError::Slot`](crate::error::SlotsError::Slot), [`SlotsError::Offset`](crate::error::SlotsError::Offset)
    /// and [`SlotsError::PagePosition`](crate::error::SlotsError::PagePosition) for a slot that the cache, or its
    /// sequence, does not have; [`SlotsError::Page`](crate::error::SlotsError::Page) and
    /// [`SlotsError::NegativePage`](crate::error::SlotsError::NegativePage); [`Error::Count`] for page tables of
    /// another length; [`CacheError::Layout`](crate::error::CacheError::Layout) for
    /// [`Slots::offsets`](crate::cache::Slots::offsets) if scales are addressed by slot;
    /// [`SlotsError::PartOfGroup`](crate::error::SlotsError::PartOfGroup) for a part of a group of slots that share
    /// scales by channel ([`CacheFormat::by_channel`](crate::cache::CacheFormat::by_channel)). From one cache
    /// into another: [`PlanError::NormInCache`](crate::error::PlanError::NormInCache) for a plan with a norm.
    ///
    /// For parts: [`CacheError::PartDivided`](crate::error::CacheError::PartDivided) if the operands divide a head at
    /// other channels, or one that rotates; [`ShapeError::Part`](crate::error::ShapeError::Part) for tensors of
    /// other shapes. For a plan with a stage: [`PlanError::StagesInParts`](crate::error::PlanError::StagesInParts) for
    /// parts with scales by channel, and [`PlanError::PartsOnStack`](crate::error::PlanError::PartsOnStack) if all
    /// heads of a token have more than 4096 channels.
    ///
    /// The target is untouched then.
    #[doc(alias(
        "reshape_and_cache",
        "rope_quantize_fp8",
        "rotate_into_cache",
        "rotate_from_cache",
        "rotate_into_caches"
    ))]
    #[inline]
    pub fn rotate_into(
        &self,
        x: &impl Source,
        y: &mut impl Target,
        angles: &impl Angles,
    ) -> Result<(), Error> {
        match (S::plain(self), x.source(), y.target(), angles.angles()) {
            (
                Some(rope),
                SourceKind::Whole(Operand::Tensor(x, read)),
                TargetKind::Whole(OperandMut::Tensor(mut y, written)),
                Some(AnglesKind::Rows(rows)),
            ) => rope.rotate_bytes_into((x, read), (&mut y, written), rows),
            (_, source, target, angles) => self.run_kinds(source, x.normed::<S>(), target, angles),
        }
    }

    /// Rotates one tensor into several targets, tensors and caches, each with its own angles: one [`Rope::rotate_into`]
    /// per target, which together read the source once. All targets are checked before any is written.
    ///
    /// The targets alternate: a few tokens of the source go into each target while they are in the CPU's caches, then
    /// the next tokens follow. On cores that gain from it, tensors that together exceed the CPU's caches are written
    /// past them. The stages of the plan run per target. A target in parts, or with scales by channel, is a call of its
    /// own.
    ///
    /// ```
    /// use rope_core::{Output, Pairing, Rope, Rows, Tensor, TensorMut};
    ///
    /// let (x, mut y, mut z) = ([1.0_f32, 2.0], [0.0_f32; 2], [0.0_f32; 2]);
    /// let x = Tensor::new(&x, [1, 1, 1, 2])?;
    /// let [quarter, half] = [[0.0, 1.0], [-1.0, 0.0]];
    /// let (quarter, half) = (Rows::new(&quarter, [1, 2])?, Rows::new(&half, [1, 2])?);
    /// Rope::new(Pairing::Half).rotate_into_each(
    ///     &x,
    ///     &mut [
    ///         Output::new(&mut TensorMut::new(&mut y, [1, 1, 1, 2])?, &quarter),
    ///         Output::new(&mut TensorMut::new(&mut z, [1, 1, 1, 2])?, &half),
    ///     ],
    /// )?;
    /// assert_eq!((y, z), ([-2.0, 1.0], [-1.0, -2.0]));
    /// # Ok::<(), rope_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`Rope::rotate_into`], for the first target that has one. No target is written then.
    pub fn rotate_into_each<I: Element>(
        &self,
        x: &Tensor<'_, I>,
        outputs: &mut [Output<'_>],
    ) -> Result<(), Error> {
        let kernels = PassKernels {
            in_place: None,
            normed: S::normed::<I>(),
        };
        let (x, kernels) = (x.bytes(), (I::OUT_OF_PLACE, kernels));
        self.erased(&mut |rope| rope.run_into_each(x, kernels, outputs))
    }

    /// Runs the stages in place without the rotation: for queries and keys of layers that norm and do not rotate, and
    /// for the attention's output, to undo the Hadamard transform of values. A plain plan has no stages, and changes
    /// nothing. Heads in the slots of a cache already have the stages, and stay as they are.
    ///
    /// # Errors
    ///
    /// The errors of [`Rope::rotate`], except those of rows.
    #[doc(alias("rms_norm", "run_stages"))]
    pub fn apply(&self, x: &mut impl Target) -> Result<(), Error> {
        self.run_kind_in_place(x.target(), PassKernels::default(), None)
    }

    /// Runs the stages from a source into a target without the rotation: for values, which are converted and written
    /// (and normed in some models), and for cached heads, to read them as f32, f16 or bf16.
    ///
    /// # Errors
    ///
    /// The errors of [`Rope::rotate_into`], except those of rows.
    #[doc(alias(
        "copy",
        "set_rows",
        "append_paged_kv_cache",
        "copy_into_cache",
        "copy_from_cache"
    ))]
    pub fn apply_into(&self, x: &impl Source, y: &mut impl Target) -> Result<(), Error> {
        self.run_kinds(x.source(), None, y.target(), None)
    }

    /// Checks [`Rope::rotate`], and returns it as a [`Call`] that cannot fail, so that several calls run all or none.
    /// With the angles [`NoRotation`](crate::NoRotation) it is [`Rope::apply`].
    ///
    /// The verbs themselves make no `Call`, which costs some 100 ns more.
    ///
    /// # Errors
    ///
    /// The errors of [`Rope::rotate`].
    #[doc(alias = "query_and_key")]
    pub fn prepare<'a>(
        &'a self,
        x: &'a mut impl Target,
        angles: &'a impl Angles,
    ) -> Result<Call<'a>, Error> {
        let kernels = x.kernels::<S>();
        match x.target() {
            TargetKind::Whole(target) => {
                Call::in_place(self.lowered(), target, kernels, angles.angles())
            }
            target => Call::on_parts(
                self.lowered(),
                PartsCall {
                    source: None,
                    target,
                    kernels,
                    angles: angles.angles(),
                },
            ),
        }
    }

    /// Checks [`Rope::rotate_into`], and returns it as a [`Call`] that cannot fail. With the angles
    /// [`NoRotation`](crate::NoRotation) it is [`Rope::apply_into`].
    ///
    /// The call borrows its operands. Bind slots and made rows that are temporaries to a name first:
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
    /// The errors of [`Rope::rotate_into`].
    pub fn prepare_into<'a>(
        &'a self,
        x: &'a impl Source,
        y: &'a mut impl Target,
        angles: &'a impl Angles,
    ) -> Result<Call<'a>, Error> {
        match (x.source(), y.target()) {
            (SourceKind::Whole(source), TargetKind::Whole(target)) => {
                let source = (source, x.normed::<S>());
                Call::between(self.lowered(), source, target, angles.angles())
            }
            (source, target) => Call::on_parts(
                self.lowered(),
                PartsCall {
                    source: Some(source),
                    target,
                    kernels: PassKernels::default(),
                    angles: angles.angles(),
                },
            ),
        }
    }
}
