//! The kinds of plans: a rotation alone, or with a norm, a scale or a transform.
#![allow(private_interfaces, reason = "the traits are sealed")]

use super::{Plain, Rope};
use crate::describe::norm::{Norm, NormReach};
use crate::describe::scale::Scale;
use crate::describe::tensor::Bytes;
use crate::error::PlanError;
use crate::execute::ops;
use crate::kernel::element::Element;
use crate::kernel::elements::{NormRotateKernels, OutOfPlaceKernels};
use crate::pass::transform::Transform;
use crate::pass::{PartOfCall, PassKernels, PassStages};
use crate::stages::{Hadamard, StageOrder};
use crate::{Error, Tensor};

/// A plan with a [`Scale`], a [`Hadamard`] transform, or both. It is linear: it has a backward pass, and rotates cached
/// keys in place.
///
/// ```text
/// source -> scale -> rotation -> scale -> transform -> destination
/// ```
///
/// Heads from a cache are transformed back first, and not at the end. A shift does both: it dequantizes, transforms,
/// rotates, transforms and quantizes.
#[doc(alias("WithScale", "LinearStages"))]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Linear<'a>(Lowered<'a>);

/// A plan with any of a [`Norm`], a [`Scale`] and a [`Hadamard`] transform: all work between a projection and the
/// attention, in one call.
///
/// ```text
/// source -> norm -> scale -> rotation -> norm -> scale -> transform -> destination
/// ```
///
/// The norm and the scale each run on one side of the rotation, if present. The transform is the last stage; for heads
/// from a cache it is the first, and undoes the transform there. The source is a tensor or a
/// [`Cache`](crate::cache::Cache). The destination is the same tensor, another one, or a
/// [`CacheMut`](crate::cache::CacheMut) of any format. Between two stages a value is f32. The norm, the scale and the
/// plan determine where it is rounded to the element of the source, as in a model that runs the stages one by one.
/// Every backend returns the same bits.
///
/// ```
/// # #[cfg(feature = "alloc")] {
/// use rope_core::norm::{Norm, NormFormula};
/// use rope_core::{Frequencies, Pairing, Rope, Scaling, TensorMut};
///
/// // Qwen3's queries: each head normed, then rotated
/// let (tokens, heads) = (3, 4);
/// let (mut q, weights) = (vec![0.5_f32; tokens * heads * 128], [1.0_f32; 128]);
/// let rows = Frequencies::new(128, 1e6, &Scaling::Default)?.rows(0..tokens)?;
/// let rope = Rope::new(Pairing::Half).with_norm(Norm::new(NormFormula::LLAMA, 1e-6).with_weight(&weights));
/// rope.rotate(&mut TensorMut::new(&mut q, [1, tokens, heads, 128])?, &rows)?;
/// # }
/// # Ok::<(), rope_core::Error>(())
/// ```
///
/// A head has at most 2048 channels. A program that selects the stages at run time starts with none:
/// `Rope<Normed>::from(rope)`.
///
/// # What is fast
///
/// Every call returns the bits of one stage after the other. The stages determine the code that runs:
///
/// | call | how it runs |
/// |---|---|
/// | no stages | as [`Rope::rotate`] and [`Rope::rotate_into`] of a plain plan |
/// | a norm per head, then the rotation of all channels, in place | one kernel reads each head once |
/// | the same into a tensor or slots of the same element | copies heads, and runs that kernel on the copies |
/// | a rotation, after such a norm or none, into a quantized format | over a tile of the element, then quantized |
/// | a transform alone, of f32 in place | in place, without a tile |
/// | everything else | one stage after the other, over a tile of f32 |
///
/// Such a norm has fewer than 512 channels, weights shared by all heads or none, and neither a mean nor a bias; it sums
/// in PyTorch's order. The tile of the element is used unless it would round: after [`Rope::without_rounding`], or a
/// norm whose weights promote its result to f32.
#[doc(alias("Chain", "QueryKeyStages", "WithStages"))]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Normed<'a>(Lowered<'a>);

/// The stages of a plan beside its rotation: [`Plain`], [`Linear`] or [`Normed`]. Sealed.
///
/// ```
/// use rope_core::stages::Stages;
/// use rope_core::{Error, Rope, Rows, TensorMut};
///
/// // Rotates with the stages of any layer.
/// fn keys<S: Stages>(rope: &Rope<S>, k: &mut [f32], rows: &Rows<'_>) -> Result<(), Error> {
///     rope.rotate(&mut TensorMut::new(k, [1, 1, 2, 64])?, rows)
/// }
/// ```
pub trait Stages: Copy {
    /// These stages with a scale or a transform: [`Normed`] if there may be a norm, otherwise [`Linear`].
    type Scaled<'a>: Stages
    where
        Self: 'a;

    #[doc(hidden)]
    fn lowered<'a>(self) -> Lowered<'a>
    where
        Self: 'a;

    #[doc(hidden)]
    fn scaled<'a>(stages: Lowered<'a>) -> Self::Scaled<'a>
    where
        Self: 'a;

    /// Returns the kernels of norms, in programs that have norms.
    #[doc(hidden)]
    fn normed<E: Element>() -> Option<&'static NormRotateKernels> {
        None
    }

    /// Returns the plan if it only rotates: it skips the pass, which would be most of its fixed cost.
    #[doc(hidden)]
    #[inline(always)]
    fn plain(_: &Rope<Self>) -> Option<&Rope> {
        None
    }
}

/// The [`Stages`] that are linear maps, and have a transpose: [`Plain`] and [`Linear`]. A norm is not linear;
/// this does not compile:
///
/// ```compile_fail,E0277
/// # use rope_core::gradient::PairGradients;
/// # use rope_core::norm::{Norm, NormFormula};
/// # use rope_core::{Error, Pairing, Rope, Rows, Tensor, TensorMut};
/// fn backward(
///     y: &Tensor<'_, f32>,
///     dy: &mut TensorMut<'_, f32>,
///     rows: &Rows<'_>,
///     angles: &mut PairGradients<'_>,
/// ) -> Result<(), Error> {
///     let rope = Rope::new(Pairing::Half).with_norm(Norm::new(NormFormula::LLAMA4, 1e-6));
///     rope.backward(y, dy, rows, angles)
/// }
/// ```
///
/// Sealed.
#[diagnostic::on_unimplemented(
    message = "a plan with a norm (`{Self}`) has no backward pass",
    label = "this call requires a plan without a norm: a rotation with a scale and a Hadamard transform at most",
    note = "differentiate the norm by itself, and the rotation by a plan without it: `Rope::new(pairing)`"
)]
pub trait Transpose: Stages {
    /// Returns the stages that take a gradient back: in reverse order.
    #[doc(hidden)]
    fn transposed(self) -> Self;
}

/// The stages of any plan, as passes store them. A plan without stages names no code that runs them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lowered<'a> {
    pub(super) stages: Option<PassStages<'a>>,
    pub(super) rounds: bool,
}

impl<'a> Lowered<'a> {
    /// Returns no stages. A constant would be copied whole.
    #[inline(always)]
    pub(super) fn none() -> Self {
        Lowered {
            stages: None,
            rounds: true,
        }
    }

    /// Returns the plan's stages, to which one is added.
    fn added(&mut self) -> &mut PassStages<'a> {
        self.stages.get_or_insert(ops::NO_STAGES)
    }

    /// Returns the transform.
    #[inline(always)]
    pub(super) fn transform(&self) -> Option<Transform> {
        self.stages?.transform
    }

    /// Returns `true` if a norm sums over all heads of a token.
    pub(super) fn norms_tokens(&self) -> bool {
        let norm = self.stages.and_then(|stages| stages.norm);
        norm.is_some_and(|norm| norm.reach == NormReach::Token && norm.given.is_none())
    }

    /// Moves the transform to the front, where it undoes the transform of heads from a cache.
    pub(super) fn undone(mut self) -> Self {
        if let Some(stages) = &mut self.stages {
            stages.transform = stages.transform.map(Transform::undone);
        }
        self
    }

    /// Returns the stages for cached heads, which already have the norm and the scale: the transform, undone before the
    /// rotation and repeated after it.
    pub(super) fn shifted(mut self) -> Result<Self, Error> {
        if let Some(stages) = &mut self.stages {
            if stages.norm.is_some() {
                return Err(Error::Plan(PlanError::NormInCache));
            }
            stages.scale = None;
            match &mut stages.transform {
                Some(transform) => transform.first = true,
                None => self.stages = None,
            }
        }
        Ok(self)
    }

    /// Returns `true` if there are no stages.
    pub(super) fn is_empty(&self) -> bool {
        self.stages.is_none()
    }
}

impl Stages for Plain {
    type Scaled<'a>
        = Linear<'a>
    where
        Self: 'a;

    #[inline(always)]
    fn lowered<'a>(self) -> Lowered<'a>
    where
        Self: 'a,
    {
        Lowered::none()
    }

    fn scaled<'a>(stages: Lowered<'a>) -> Linear<'a>
    where
        Self: 'a,
    {
        Linear(stages)
    }

    #[inline(always)]
    fn plain(rope: &Rope) -> Option<&Rope> {
        Some(rope)
    }
}

impl Stages for Linear<'_> {
    type Scaled<'a>
        = Linear<'a>
    where
        Self: 'a;

    fn lowered<'a>(self) -> Lowered<'a>
    where
        Self: 'a,
    {
        self.0
    }

    fn scaled<'a>(stages: Lowered<'a>) -> Linear<'a>
    where
        Self: 'a,
    {
        Linear(stages)
    }
}

impl Stages for Normed<'_> {
    type Scaled<'a>
        = Normed<'a>
    where
        Self: 'a;

    fn lowered<'a>(self) -> Lowered<'a>
    where
        Self: 'a,
    {
        self.0
    }

    fn scaled<'a>(stages: Lowered<'a>) -> Normed<'a>
    where
        Self: 'a,
    {
        Normed(stages)
    }

    fn normed<E: Element>() -> Option<&'static NormRotateKernels> {
        Some(E::NORMED)
    }
}

impl Transpose for Plain {
    fn transposed(self) -> Self {
        Plain
    }
}

impl Transpose for Linear<'_> {
    fn transposed(mut self) -> Self {
        if let Some(stages) = &mut self.0.stages {
            let turned = |scale: Scale<'_>| match scale.order {
                StageOrder::BeforeRotation => StageOrder::AfterRotation,
                StageOrder::AfterRotation => StageOrder::BeforeRotation,
            };
            let scale = stages.scale;
            stages.scale = scale.map(|scale| scale.with_order(turned(scale)));
            stages.transform = stages.transform.map(Transform::undone);
        }
        self
    }
}

impl From<Rope> for Rope<Normed<'_>> {
    fn from(rope: Rope) -> Self {
        rope.with(Normed(Lowered::none()))
    }
}

impl<'a> From<Rope<Linear<'a>>> for Rope<Normed<'a>> {
    fn from(rope: Rope<Linear<'a>>) -> Self {
        rope.with(Normed(rope.stages.0))
    }
}

impl From<Rope> for Rope<Linear<'_>> {
    fn from(rope: Rope) -> Self {
        rope.with(Linear(Lowered::none()))
    }
}

impl Rope {
    /// Computes the sums of squares of a tensor for a norm before the rotation: one per token of each sequence for a
    /// norm over the token, one per head of each token for a norm over heads. Ranks that hold some of the heads add up
    /// their sums, and pass them to [`Norm::with_sum_of_squares`].
    ///
    /// # Errors
    ///
    /// [`Error::Storage`] unless `sums` has exactly this length;
    /// [`ShapeError::HeadDimOnStack`](crate::error::ShapeError::HeadDimOnStack); [`PlanError::CenteredSums`] for a
    /// centered norm; and [`ShapeError::Overlap`](crate::error::ShapeError::Overlap) for a norm over tokens whose heads
    /// share elements: each element of a token counts once.
    #[doc(alias = "squares")]
    pub fn sum_of_squares<E: Element>(
        &self,
        norm: Norm<'_>,
        x: &Tensor<'_, E>,
        sums: &mut [f32],
    ) -> Result<(), Error> {
        self.squares(norm, (&x.bytes(), E::OUT_OF_PLACE), sums)
    }

    #[inline(never)]
    fn squares(
        &self,
        norm: Norm<'_>,
        (x, element): (&Bytes<'_>, &'static OutOfPlaceKernels),
        sums: &mut [f32],
    ) -> Result<(), Error> {
        let shape = x.layout.shape();
        shape.check_head_on_stack()?;
        if norm.formula.centered {
            return Err(Error::Plan(PlanError::CenteredSums));
        }
        let rows = shape.batch.saturating_mul(shape.tokens);
        let each = if norm.reach == NormReach::Token {
            x.layout.check_heads_disjoint()?;
            1
        } else {
            shape.heads
        };
        let (given, needed) = (sums.len(), rows.saturating_mul(each));
        if given != needed {
            return Err(Error::Storage {
                what: "sums",
                given,
                needed,
            });
        }
        if !shape.is_empty() {
            let norm = Norm {
                order: StageOrder::BeforeRotation,
                ..norm
            };
            let plan = self.with_norm(norm);
            let kernels = (element, PassKernels::default());
            let plan = plan.lowered();
            let pass = plan.checked_pass(PartOfCall::whole(shape), kernels, None);
            pass.squares((x, element), norm, sums);
        }
        Ok(())
    }
}

impl<S: Stages> Rope<S> {
    /// Sets the norm, which runs before the scale on its side of the rotation.
    #[doc(alias(
        "q_norm",
        "k_norm",
        "qk_norm",
        "query_norm",
        "key_norm",
        "norm_and_scale"
    ))]
    pub fn with_norm<'a>(self, norm: Norm<'a>) -> Rope<Normed<'a>>
    where
        S: 'a,
    {
        let mut stages = self.stages.lowered();
        stages.added().norm = Some(norm);
        self.with(Normed(stages))
    }

    /// Sets the scale, which runs after the norm on its side of the rotation.
    #[doc(alias = "query_scale")]
    pub fn with_scale<'a>(self, scale: Scale<'a>) -> Rope<S::Scaled<'a>>
    where
        S: 'a,
    {
        let mut stages = self.stages.lowered();
        stages.added().scale = Some(scale);
        self.with(S::scaled(stages))
    }

    /// Sets the Hadamard transform, the last stage.
    #[doc(alias("hadamard_transform", "fwht"))]
    pub fn with_hadamard<'a>(self, hadamard: Hadamard) -> Rope<S::Scaled<'a>>
    where
        S: 'a,
    {
        let mut stages = self.stages.lowered();
        stages.added().transform = Some(Transform::new(hadamard));
        self.with(S::scaled(stages))
    }

    /// Passes the f32 of the rotation, and of a Hadamard transform, to the next stage: a norm, a scale, the transform,
    /// or a quantized format. By default it is first rounded to the element of the source, which gives the bits of
    /// separate steps.
    ///
    /// A destination of f32, f16 or bf16 directly after the rotation receives the f32 either way, and rounds it once. A
    /// final scale or norm rounds its own result to the element of the source before the destination does, unless it is
    /// set not to ([`Scale::without_rounding`], [`NormResult::Kept`](crate::norm::NormResult::Kept)).
    pub fn without_rounding<'a>(self) -> Rope<S::Scaled<'a>>
    where
        S: 'a,
    {
        let rounds = false;
        let stages = self.stages.lowered();
        self.with(S::scaled(Lowered { rounds, ..stages }))
    }
}
