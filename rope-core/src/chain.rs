//! The plan of more than a rotation: norm, scale, rotation, and a cache at either end. Checks everything, then runs.

use crate::cache::{Cache, CacheMut, Format, MOST_CHANNELS, Slots};
use crate::element::Element;
use crate::implementations::{self, IN_PLACE, OUT_OF_PLACE, SHIFT};
use crate::kernel::chains::{Across, F32};
use crate::norm::{Norm, NormReach};
use crate::pass::{Kernels, Operand, OperandMut, Pass, Rotation};
use crate::rope::{Rope, fit, fit_across};
use crate::rows::RowSharing;
use crate::scale::Scale;

use crate::tensor::{Bytes, BytesMut};
use crate::{Error, Rows, Shape, Tensor, TensorMut};

/// A plan with more stages than the rotation: all that stands between a projection and the attention, in one call.
///
/// ```text
/// read -> norm -> scale -> rotate -> norm -> scale -> write
/// ```
///
/// The norm and the scale stand on either side, or are left out. What is read is a tensor or a [`Cache`]; what is
/// written is the same tensor, another one, or a [`CacheMut`] of any element or code. Between the stages a value is
/// f32; a norm, a scale and the plan say where it is rounded to the element of what is read, as a model would that runs
/// one after the other. The bits are the same on every backend.
///
/// ```
/// # #[cfg(feature = "alloc")] {
/// use rope_core::{Frequencies, Norm, NormFormula, Pairing, Rope, Scaling, TensorMut};
///
/// // Qwen3's queries: each head normed, then rotated
/// let (tokens, heads) = (3, 4);
/// let (mut q, weights) = (vec![0.5_f32; tokens * heads * 128], [1.0_f32; 128]);
/// let rows = Frequencies::new(128, 1e6, &Scaling::Default)?.rows(0..tokens)?;
/// let chain = Rope::new(Pairing::Half).norm(Norm::new(NormFormula::LLAMA, 1e-6).weight(&weights));
/// chain.rotate(&mut TensorMut::new(&mut q, [1, tokens, heads, 128])?, &rows)?;
/// # }
/// # Ok::<(), rope_core::Error>(())
/// ```
///
/// A head has at most 2048 channels.
///
/// # What is fast
///
/// All calls give the bits of one stage after the other. Of the ways to run one, the first that fits is taken:
///
/// | call | how it runs |
/// |---|---|
/// | no norm and no scale | as [`Rope::rotate`] and [`Rope::rotate_into`] |
/// | a norm per head, then the rotation of all channels, in place | each head is read once, in one kernel |
/// | the same into a tensor or slots of the same element | heads are copied, and normed where they are written |
/// | a rotation, after such a norm or none, into codes | over a tile of the element, from which codes are made |
/// | everything else | one stage after the other, over a tile of f32 |
///
/// Such a norm has fewer than 512 channels, weights that all heads share or none, and neither a mean nor a bias; it
/// sums in PyTorch's order. Codes are made from a tile unless that would round: after [`Chain::straight`], or a norm
/// whose weights promote its result to f32.
#[derive(Clone, Copy, Debug, PartialEq)]
#[must_use]
pub struct Chain<'a> {
    rope: Rope,
    norm: Option<Norm<'a>>,
    scale: Option<Scale<'a>>,
    rounds: bool,
}

impl From<Rope> for Chain<'_> {
    fn from(rope: Rope) -> Self {
        Chain {
            rope,
            norm: None,
            scale: None,
            rounds: true,
        }
    }
}

impl Rope {
    /// The plan with a norm.
    pub fn norm(self, norm: Norm<'_>) -> Chain<'_> {
        Chain::from(self).norm(norm)
    }

    /// The plan with a scale.
    pub fn scale(self, scale: Scale<'_>) -> Chain<'_> {
        Chain::from(self).scale(scale)
    }

    /// Rotates keys into the slots of a cache: [`Chain::rotate_into_cache`] of this plan alone.
    ///
    /// # Errors
    ///
    /// Those of [`Chain::rotate_into_cache`].
    pub fn rotate_into_cache<'s, I: Element>(
        &self,
        x: &Tensor<'_, I>,
        cache: &mut CacheMut<'_>,
        slots: impl Into<Slots<'s>>,
        rows: &Rows<'_>,
    ) -> Result<(), Error> {
        // It names no kernel of norms.
        let (chain, x) = (
            Chain::from(*self),
            (x.bytes(), I::ACROSS, Kernels::default()),
        );
        chain
            .run_into_cache(x, cache, slots.into(), Some(rows))
            .map(drop)
    }

    /// Rotates keys that lie in a cache, in place, one row for each slot: a context shift by the rows of
    /// [`Frequencies::shift`](crate::Frequencies::shift).
    ///
    /// A head is read as f32, rotated, and rounded once to what the cache keeps; scales that are made are made anew. A
    /// row that rotates by nothing (every cos 1, every sin 0) leaves the bits of its slot, so that tokens which do not
    /// move keep theirs. Where each head has a row of its own, those of all heads have to.
    ///
    /// # Errors
    ///
    /// [`Error::SlotCount`] unless there is one slot for each row, and those of [`Chain::rotate_into_cache`]. The cache
    /// is untouched then.
    pub fn shift<'s>(
        &self,
        cache: &mut CacheMut<'_>,
        slots: impl Into<Slots<'s>>,
        rows: &Rows<'_>,
    ) -> Result<(), Error> {
        let shape = Shape {
            batch: 1,
            tokens: rows.len(),
            heads: cache.layout().shape().heads,
            head_dim: cache.stored().head_dim(),
        };
        let chain = Chain::from(*self);
        let sharing = self.fit_in_place(shape, rows)?;
        let slots = slots.into();
        cache.stored().check(shape, &slots, cache.len())?;
        let kernels = Kernels {
            in_place: match cache.stored().format {
                Format::Element(_, in_place) => Some(in_place),
                Format::Codes(_) => None,
            },
            normed: None,
        };
        let pass = Pass {
            skips_identity: true,
            ..chain.pass(shape, (&F32, kernels), Some((rows, sharing)))?
        };
        let target = &mut OperandMut::Cache(cache, slots);
        implementations::run(SHIFT, &pass, &Operand::Target, target);
        Ok(())
    }
}

impl<'a> Chain<'a> {
    /// Norms the heads.
    pub fn norm(self, norm: Norm<'a>) -> Self {
        Chain {
            norm: Some(norm),
            ..self
        }
    }

    /// Scales the heads.
    pub fn scale(self, scale: Scale<'a>) -> Self {
        Chain {
            scale: Some(scale),
            ..self
        }
    }

    /// Takes the f32 of the rotation as it is for what comes behind it: a norm, a scale, a code of 8 bits. Unless this
    /// is said it is rounded to the element of what is read first, which gives the bits of separate steps. (Elements of
    /// f32, f16 and bf16 are always made of the f32.)
    pub fn straight(self) -> Self {
        Chain {
            rounds: false,
            ..self
        }
    }

    /// Runs the chain in place.
    ///
    /// # Errors
    ///
    /// Those of [`Rope::rotate`]; [`Error::HeadDimOnStack`] for heads of more than 2048 channels; for a norm or a scale
    /// that does not fit, [`Error::Parameter`] (an eps that is negative or not finite), [`Error::Count`] (weights,
    /// biases, sums or factors of another number), [`Error::WeightMissing`], [`Error::WeightUnused`] and
    /// [`Error::CentredSums`]. The tensor is untouched then.
    pub fn rotate<E: Element>(
        &self,
        x: &mut TensorMut<'_, E>,
        rows: &Rows<'_>,
    ) -> Result<(), Error> {
        self.rotate_by(x, rows).map(drop)
    }

    /// [`Chain::rotate`], and the name of the implementation that ran it.
    ///
    /// # Errors
    ///
    /// Those of [`Chain::rotate`].
    #[doc(hidden)]
    pub fn rotate_by<E: Element>(
        &self,
        x: &mut TensorMut<'_, E>,
        rows: &Rows<'_>,
    ) -> Result<&'static str, Error> {
        let kernels = Kernels {
            in_place: Some(E::IN_PLACE),
            normed: Some(E::NORMED),
        };
        self.run_in_place(&mut x.bytes_mut(), (E::ACROSS, kernels), Some(rows))
    }

    /// Runs the chain in place without its rotation: queries and keys of layers that norm and do not rotate.
    ///
    /// # Errors
    ///
    /// Those of [`Chain::rotate`] but for the rows'.
    pub fn norm_and_scale<E: Element>(&self, x: &mut TensorMut<'_, E>) -> Result<(), Error> {
        let kernels = (E::ACROSS, Kernels::default());
        self.run_in_place(&mut x.bytes_mut(), kernels, None)
            .map(drop)
    }

    /// Runs the chain from one tensor into another, whose element type and pairing may differ.
    ///
    /// # Errors
    ///
    /// Those of [`Rope::rotate_into`] and of [`Chain::rotate`]. The target is untouched then.
    pub fn rotate_into<I: Element, O: Element>(
        &self,
        x: &Tensor<'_, I>,
        y: &mut TensorMut<'_, O>,
        rows: &Rows<'_>,
    ) -> Result<(), Error> {
        self.rotate_into_by(x, y, rows).map(drop)
    }

    /// [`Chain::rotate_into`], and the name of the implementation that ran it.
    ///
    /// # Errors
    ///
    /// Those of [`Chain::rotate_into`].
    #[doc(hidden)]
    pub fn rotate_into_by<I: Element, O: Element>(
        &self,
        x: &Tensor<'_, I>,
        y: &mut TensorMut<'_, O>,
        rows: &Rows<'_>,
    ) -> Result<&'static str, Error> {
        let x = (x.bytes(), I::ACROSS, Kernels::normed(I::NORMED));
        self.run_across(x, (&mut y.bytes_mut(), O::ACROSS), rows)
    }

    /// Runs the chain from a tensor into the slots of a cache, one slot for each token of each sequence: keys as they
    /// are projected, into a cache that may be paged and of another element or code.
    ///
    /// A token with a negative slot is left out. Of two tokens with one slot the later one stays.
    ///
    /// # Errors
    ///
    /// Those of [`Chain::rotate`]; [`Error::CacheHeads`] if the cache has other heads; [`Error::SlotCount`] unless
    /// there is one slot for each token of each sequence; [`Error::Slot`], [`Error::SlotOffset`] and
    /// [`Error::PagePosition`] for one that the cache, or its sequence, does not have; [`Error::Count`] for page tables
    /// of another length; [`Error::CacheLayout`] for [`Slots::offsets`] where scales are found by slot. The cache is
    /// untouched then.
    pub fn rotate_into_cache<'s, I: Element>(
        &self,
        x: &Tensor<'_, I>,
        cache: &mut CacheMut<'_>,
        slots: impl Into<Slots<'s>>,
        rows: &Rows<'_>,
    ) -> Result<(), Error> {
        self.rotate_into_cache_by(x, cache, slots, rows).map(drop)
    }

    /// [`Chain::rotate_into_cache`], and the name of the implementation that ran it.
    ///
    /// # Errors
    ///
    /// Those of [`Chain::rotate_into_cache`].
    #[doc(hidden)]
    pub fn rotate_into_cache_by<'s, I: Element>(
        &self,
        x: &Tensor<'_, I>,
        cache: &mut CacheMut<'_>,
        slots: impl Into<Slots<'s>>,
        rows: &Rows<'_>,
    ) -> Result<&'static str, Error> {
        let x = (x.bytes(), I::ACROSS, Kernels::normed(I::NORMED));
        self.run_into_cache(x, cache, slots.into(), Some(rows))
    }

    /// The same without the rotation: values, which are converted and written (and normed, in some models).
    ///
    /// # Errors
    ///
    /// Those of [`Chain::rotate_into_cache`] but for the rows'.
    pub fn copy_into_cache<'s, I: Element>(
        &self,
        x: &Tensor<'_, I>,
        cache: &mut CacheMut<'_>,
        slots: impl Into<Slots<'s>>,
    ) -> Result<(), Error> {
        self.copy_into_cache_by(x, cache, slots).map(drop)
    }

    /// [`Chain::copy_into_cache`], and the name of the implementation that ran it.
    ///
    /// # Errors
    ///
    /// Those of [`Chain::copy_into_cache`].
    #[doc(hidden)]
    pub fn copy_into_cache_by<'s, I: Element>(
        &self,
        x: &Tensor<'_, I>,
        cache: &mut CacheMut<'_>,
        slots: impl Into<Slots<'s>>,
    ) -> Result<&'static str, Error> {
        let x = (x.bytes(), I::ACROSS, Kernels::default());
        self.run_into_cache(x, cache, slots.into(), None)
    }

    /// Keys and values of the same tokens into the same slots: keys through the chain, values converted alone. All is
    /// checked before either cache is written.
    ///
    /// # Errors
    ///
    /// Those of [`Chain::rotate_into_cache`] for either, and [`Error::KeyValueMismatch`] if the tokens of the two
    /// tensors are not as many.
    pub fn rotate_into_caches<'s, K: Element, V: Element>(
        &self,
        (k, keys): (&Tensor<'_, K>, &mut CacheMut<'_>),
        (v, values): (&Tensor<'_, V>, &mut CacheMut<'_>),
        slots: impl Into<Slots<'s>>,
        rows: &Rows<'_>,
    ) -> Result<(), Error> {
        let slots = slots.into();
        let (key, value) = (k.shape(), v.shape());
        if (key.batch, key.tokens) != (value.batch, value.tokens) {
            return Err(Error::KeyValueMismatch { key, value });
        }
        values.stored().check(value, &slots, values.len())?;
        check_head(value)?;
        let k = (k.bytes(), K::ACROSS, Kernels::normed(K::NORMED));
        self.run_into_cache(k, keys, slots, Some(rows))?;
        let v = (v.bytes(), V::ACROSS, Kernels::default());
        Chain::from(self.rope)
            .run_into_cache(v, values, slots, None)
            .map(drop)
    }

    /// Runs the chain from a cache into a tensor, one slot for each token of each sequence: keys that were cached
    /// before their rotation. What is read is f32, so nothing between the stages is rounded. A token with a negative
    /// slot is left out.
    ///
    /// # Errors
    ///
    /// Those of [`Chain::rotate_into_cache`]. The tensor is untouched then.
    pub fn rotate_from_cache<'s, O: Element>(
        &self,
        cache: &Cache<'_>,
        slots: impl Into<Slots<'s>>,
        y: &mut TensorMut<'_, O>,
        rows: &Rows<'_>,
    ) -> Result<(), Error> {
        self.rotate_from_cache_by(cache, slots, y, rows).map(drop)
    }

    /// [`Chain::rotate_from_cache`], and the name of the implementation that ran it.
    ///
    /// # Errors
    ///
    /// Those of [`Chain::rotate_from_cache`].
    #[doc(hidden)]
    pub fn rotate_from_cache_by<'s, O: Element>(
        &self,
        cache: &Cache<'_>,
        slots: impl Into<Slots<'s>>,
        y: &mut TensorMut<'_, O>,
        rows: &Rows<'_>,
    ) -> Result<&'static str, Error> {
        let y = (&mut y.bytes_mut(), O::ACROSS);
        self.run_from_cache(cache, slots.into(), y, Some(rows))
    }

    /// The same without the rotation: heads of a cache as f32, f16 or bf16.
    ///
    /// # Errors
    ///
    /// Those of [`Chain::rotate_from_cache`] but for the rows'.
    pub fn copy_from_cache<'s, O: Element>(
        &self,
        cache: &Cache<'_>,
        slots: impl Into<Slots<'s>>,
        y: &mut TensorMut<'_, O>,
    ) -> Result<(), Error> {
        let y = (&mut y.bytes_mut(), O::ACROSS);
        self.run_from_cache(cache, slots.into(), y, None).map(drop)
    }

    /// The sums of squares that the norm takes of a tensor, before its rotation: one for each token of each sequence
    /// where it is over the row, one for each head of those where it is over heads. Ranks that have some heads each add
    /// theirs up, and give them to [`Norm::given_sums`]. Nothing without a norm.
    ///
    /// # Errors
    ///
    /// [`Error::Storage`] unless `sums` has exactly as many; [`Error::HeadDimOnStack`], and [`Error::CentredSums`] of a
    /// norm that is centred.
    pub fn squares<E: Element>(&self, x: &Tensor<'_, E>, sums: &mut [f32]) -> Result<(), Error> {
        let Some(norm) = self.norm else {
            return Ok(());
        };
        let shape = x.shape();
        check_head(shape)?;
        if norm.formula.centred {
            return Err(Error::CentredSums);
        }
        let rows = shape.batch.saturating_mul(shape.tokens);
        let each = if norm.reach == NormReach::Row {
            1
        } else {
            shape.heads
        };
        let (given, needed) = (sums.len(), rows.saturating_mul(each));
        if given != needed {
            return Err(Error::Storage { given, needed });
        }
        if !shape.is_empty() {
            let norm = Norm {
                place: crate::Place::BeforeRotation,
                ..norm
            };
            let pass = self.unchecked_pass(shape, (E::ACROSS, Kernels::default()), None);
            pass.squares((&x.bytes(), E::ACROSS), norm, sums);
        }
        Ok(())
    }

    #[inline(never)]
    fn run_in_place(
        &self,
        x: &mut BytesMut<'_>,
        (element, kernels): (&'static Across, Kernels),
        rows: Option<&Rows<'_>>,
    ) -> Result<&'static str, Error> {
        let shape = x.layout.shape();
        let rows = match rows {
            Some(rows) => Some((rows, self.rope.fit_in_place(shape, rows)?)),
            None => None,
        };
        let pass = self.pass(shape, (element, kernels), rows)?;
        let target = &mut OperandMut::Tensor(x, element);
        Ok(implementations::run(
            IN_PLACE,
            &pass,
            &Operand::Target,
            target,
        ))
    }

    #[inline(never)]
    fn run_across(
        &self,
        (x, element, kernels): (Bytes<'_>, &'static Across, Kernels),
        (y, target): (&mut BytesMut<'_>, &'static Across),
        rows: &Rows<'_>,
    ) -> Result<&'static str, Error> {
        let shape = x.layout.shape();
        let sharing = fit_across(shape, y.layout.shape(), rows)?;
        let pass = self.pass(shape, (element, kernels), Some((rows, sharing)))?;
        let (source, target) = (Operand::Tensor(x, element), OperandMut::Tensor(y, target));
        Ok(out_of_place(&pass, &source, target))
    }

    #[inline(never)]
    fn run_into_cache(
        &self,
        (x, element, kernels): (Bytes<'_>, &'static Across, Kernels),
        cache: &mut CacheMut<'_>,
        slots: Slots<'_>,
        rows: Option<&Rows<'_>>,
    ) -> Result<&'static str, Error> {
        let shape = x.layout.shape();
        let rows = fitting(shape, rows)?;
        cache.stored().check(shape, &slots, cache.len())?;
        let pass = self.pass(shape, (element, kernels), rows)?;
        let (source, target) = (Operand::Tensor(x, element), OperandMut::Cache(cache, slots));
        Ok(out_of_place(&pass, &source, target))
    }

    #[inline(never)]
    fn run_from_cache(
        &self,
        cache: &Cache<'_>,
        slots: Slots<'_>,
        (y, element): (&mut BytesMut<'_>, &'static Across),
        rows: Option<&Rows<'_>>,
    ) -> Result<&'static str, Error> {
        let shape = y.layout.shape();
        let rows = fitting(shape, rows)?;
        cache.stored().check(shape, &slots, cache.len())?;
        let pass = self.pass(shape, (&F32, Kernels::default()), rows)?;
        let (source, target) = (
            Operand::Cache(cache, &slots),
            OperandMut::Tensor(y, element),
        );
        Ok(out_of_place(&pass, &source, target))
    }

    /// What runs, if norm and scale fit the heads, and the direction the rows.
    fn pass<'s>(
        &'s self,
        shape: Shape,
        element: (&'static Across, Kernels),
        rows: Option<(&'s Rows<'_>, RowSharing)>,
    ) -> Result<Pass<'s>, Error> {
        check_head(shape)?;
        let tokens = shape.batch.saturating_mul(shape.tokens);
        if let Some(norm) = self.norm {
            norm.check(tokens, shape.heads, shape.head_dim)?;
        }
        if let Some(scale) = self.scale {
            scale.check(tokens, shape.heads)?;
        }
        if let Some((rows, _)) = rows {
            self.rope.check_direction(shape, rows)?;
        }
        Ok(self.unchecked_pass(shape, element, rows))
    }

    fn unchecked_pass<'s>(
        &'s self,
        shape: Shape,
        element: (&'static Across, Kernels),
        rows: Option<(&'s Rows<'_>, RowSharing)>,
    ) -> Pass<'s> {
        let (input, output) = self.rope.pairings();
        let (element, kernels) = element;
        Pass {
            proof: self.rope.proof(),
            element,
            kernels,
            shape,
            norm: self.norm,
            scale: self.scale,
            rotation: rows.map(|(rows, sharing)| Rotation {
                rows: rows.view(sharing),
                factors: self.rope.factors(rows.attention_factor()),
                input,
                output,
            }),
            rounds: self.rounds,
            skips_identity: false,
            staged: self.rope.is_staged(),
        }
    }
}

fn out_of_place(
    pass: &Pass<'_>,
    source: &Operand<'_>,
    mut target: OperandMut<'_, '_>,
) -> &'static str {
    implementations::run(OUT_OF_PLACE, pass, source, &mut target)
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

fn check_head(shape: Shape) -> Result<(), Error> {
    let (head_dim, limit) = (shape.head_dim, MOST_CHANNELS);
    if head_dim > limit {
        return Err(Error::HeadDimOnStack { head_dim, limit });
    }
    Ok(())
}
