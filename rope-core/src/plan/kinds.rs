//! The kinds of plans: a rotation alone, or with a norm, a scale or a transform.

use super::{Plain, Rope};
use crate::describe::norm::{Norm, NormReach};
use crate::describe::rows::{Rotation, RowSharing, View};
use crate::describe::scale::Scale;
use crate::describe::tensor::Bytes;
use crate::describe::window::Window;
use crate::error::PlanError;
use crate::execute::ops;
use crate::kernel::element::Element;
use crate::kernel::elements::{NormRotateKernels, OutOfPlaceKernels};
use crate::pass::transform::Transform;
use crate::pass::{PartOfCall, Pass, PassKernels, PassStages};
use crate::plan::gradient::{Gradients, PairGradients};
use crate::stages::{Hadamard, StageOrder};
use crate::{Error, Rows, Tensor, TensorMut};

/// A plan with a [`Scale`], a [`Hadamard`] transform, or both. It is linear: it has a backward pass, and rotates cached
/// keys in place.
///
/// ```text
/// source -> scale -> rotation -> scale -> transform -> destination
/// ```
///
/// Heads from a cache are transformed back first, and not at the end. A shift does both: it dequantizes, transforms,
/// rotates, transforms and quantizes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinearStages<'a> {
    scale: Option<Scale<'a>>,
    pub(super) transform: Option<Transform>,
    rounds: bool,
}

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
/// let rope = Rope::new(Pairing::Half).norm(Norm::new(NormFormula::LLAMA, 1e-6).weight(&weights));
/// rope.rotate(&mut TensorMut::new(&mut q, [1, tokens, heads, 128])?, &rows)?;
/// # }
/// # Ok::<(), rope_core::Error>(())
/// ```
///
/// A head has at most 2048 channels. A program that selects the stages at run time starts with none:
/// `Rope<WithStages>::from(rope)`.
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
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WithStages<'a> {
    norm: Option<Norm<'a>>,
    linear: LinearStages<'a>,
}

/// The stages of a plan beside its rotation: [`Plain`], [`LinearStages`] or [`WithStages`]. Sealed.
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
pub trait Stages: Lower {}

/// The [`Stages`] that are linear maps, and have a transpose: [`Plain`] and [`LinearStages`]. A norm is not linear;
/// this does not compile:
///
/// ```compile_fail,E0599
/// # use rope_core::gradient::PairGradients;
/// # use rope_core::norm::{Norm, NormFormula};
/// # use rope_core::{Error, Pairing, Rope, Rows, Tensor, TensorMut};
/// fn backward(
///     y: &Tensor<'_, f32>,
///     dy: &mut TensorMut<'_, f32>,
///     rows: &Rows<'_>,
///     angles: &mut PairGradients<'_>,
/// ) -> Result<(), Error> {
///     let rope = Rope::new(Pairing::Half).norm(Norm::new(NormFormula::LLAMA4, 1e-6));
///     rope.backward(y, dy, rows, angles)
/// }
/// ```
///
/// Sealed.
pub trait Linear: Stages + LowerLinear {}

impl Stages for Plain {}
impl Stages for LinearStages<'_> {}
impl Stages for WithStages<'_> {}
impl Linear for Plain {}
impl Linear for LinearStages<'_> {}

/// The stages of any plan, as passes store them. A plan without stages names no code that runs them.
#[derive(Clone, Copy, Debug)]
pub struct Lowered<'a> {
    pub(super) stages: Option<PassStages<'a>>,
    rounds: bool,
}

impl<'a> Lowered<'a> {
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

/// The lowering of a kind of plan.
pub trait Lower: Copy {
    #[doc(hidden)]
    fn lowered(&self) -> Lowered<'_>;

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

/// The transpose of a linear plan.
pub trait LowerLinear: Lower {
    /// Returns the stages that take a gradient back: in reverse order.
    #[doc(hidden)]
    fn transposed(&self) -> Self;

    /// Adds the gradients of the angles alone.
    #[doc(hidden)]
    fn angle_gradients<E: Element>(
        rope: &Rope<Self>,
        y: &Tensor<'_, E>,
        dy: &Tensor<'_, E>,
        angles: &mut PairGradients<'_>,
    ) -> Result<(), Error> {
        let angles = Gradients::Angles { y, dy, angles };
        rope.with(Plain).gradients(angles)
    }

    #[doc(hidden)]
    fn backward<E: Element>(
        rope: &Rope<Self>,
        y: &Tensor<'_, E>,
        dy: &mut TensorMut<'_, E>,
        rows: &Rows<'_>,
        angles: &mut PairGradients<'_>,
    ) -> Result<(), Error>;
}

impl Lower for Plain {
    fn lowered(&self) -> Lowered<'_> {
        Lowered {
            stages: None,
            rounds: true,
        }
    }

    #[inline(always)]
    fn plain(rope: &Rope) -> Option<&Rope> {
        Some(rope)
    }
}

impl LowerLinear for Plain {
    fn transposed(&self) -> Self {
        Plain
    }

    fn backward<E: Element>(
        rope: &Rope,
        y: &Tensor<'_, E>,
        dy: &mut TensorMut<'_, E>,
        rows: &Rows<'_>,
        angles: &mut PairGradients<'_>,
    ) -> Result<(), Error> {
        rope.backward_together(y, dy, rows, angles)
    }
}

impl Lower for LinearStages<'_> {
    fn lowered(&self) -> Lowered<'_> {
        self.lower()
    }
}

impl LowerLinear for LinearStages<'_> {
    fn transposed(&self) -> Self {
        let turned = |scale: Scale<'_>| match scale.order {
            StageOrder::BeforeRotation => StageOrder::AfterRotation,
            StageOrder::AfterRotation => StageOrder::BeforeRotation,
        };
        LinearStages {
            scale: self.scale.map(|scale| scale.with_order(turned(scale))),
            transform: self.transform.map(Transform::undone),
            ..*self
        }
    }

    fn backward<E: Element>(
        rope: &Rope<Self>,
        y: &Tensor<'_, E>,
        dy: &mut TensorMut<'_, E>,
        rows: &Rows<'_>,
        angles: &mut PairGradients<'_>,
    ) -> Result<(), Error> {
        let sum = E::SUMMED.0.of(rope.output);
        let tensors = (&y.bytes(), &mut dy.bytes_mut());
        rope.backward_bytes(tensors, in_place::<E, Self>(), sum, rows, angles)
    }

    fn angle_gradients<E: Element>(
        rope: &Rope<Self>,
        y: &Tensor<'_, E>,
        dy: &Tensor<'_, E>,
        angles: &mut PairGradients<'_>,
    ) -> Result<(), Error> {
        let (sum, tensors) = (E::SUMMED.0.of(rope.output), [&y.bytes(), &dy.bytes()]);
        rope.add_angles(tensors, E::OUT_OF_PLACE, sum, angles)
    }
}

impl<'a> LinearStages<'a> {
    const NONE: Self = LinearStages {
        scale: None,
        transform: None,
        rounds: true,
    };

    fn lower(self) -> Lowered<'a> {
        Lowered {
            stages: ops::stages(None, self.scale, self.transform),
            rounds: self.rounds,
        }
    }
}

impl Lower for WithStages<'_> {
    fn lowered(&self) -> Lowered<'_> {
        Lowered {
            stages: ops::stages(self.norm, self.linear.scale, self.linear.transform),
            rounds: self.linear.rounds,
        }
    }

    fn normed<E: Element>() -> Option<&'static NormRotateKernels> {
        Some(E::NORMED)
    }
}

/// The addition of a stage to a plan.
pub trait AddStages<'a>: Lower {
    /// The stages with a scale or a transform: [`WithStages`] if there is a norm, otherwise [`LinearStages`].
    type Linear: Stages;

    #[doc(hidden)]
    fn with(self, set: impl FnOnce(&mut LinearStages<'a>)) -> Self::Linear;

    #[doc(hidden)]
    fn with_any(self) -> WithStages<'a>;
}

impl<'a> AddStages<'a> for Plain {
    type Linear = LinearStages<'a>;

    fn with(self, set: impl FnOnce(&mut LinearStages<'a>)) -> LinearStages<'a> {
        LinearStages::NONE.with(set)
    }

    fn with_any(self) -> WithStages<'a> {
        LinearStages::NONE.with_any()
    }
}

impl<'a> AddStages<'a> for LinearStages<'a> {
    type Linear = Self;

    fn with(mut self, set: impl FnOnce(&mut LinearStages<'a>)) -> Self {
        set(&mut self);
        self
    }

    fn with_any(self) -> WithStages<'a> {
        WithStages {
            norm: None,
            linear: self,
        }
    }
}

impl<'a> AddStages<'a> for WithStages<'a> {
    type Linear = Self;

    fn with(mut self, set: impl FnOnce(&mut LinearStages<'a>)) -> Self {
        set(&mut self.linear);
        self
    }

    fn with_any(self) -> WithStages<'a> {
        self
    }
}

impl From<Rope> for Rope<WithStages<'_>> {
    fn from(rope: Rope) -> Self {
        rope.with(rope.stages.with_any())
    }
}

impl<'a> From<Rope<LinearStages<'a>>> for Rope<WithStages<'a>> {
    fn from(rope: Rope<LinearStages<'a>>) -> Self {
        rope.with(rope.stages.with_any())
    }
}

impl From<Rope> for Rope<LinearStages<'_>> {
    fn from(rope: Rope) -> Self {
        rope.with(LinearStages::NONE)
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
            let plan = self.with(Lowered {
                stages: ops::stages(Some(norm), None, None),
                rounds: true,
            });
            let whole = PartOfCall::whole(shape);
            let pass = plan.checked_pass(whole, (element, PassKernels::default()), None);
            pass.squares((x, element), norm, sums);
        }
        Ok(())
    }
}

impl<S: Stages> Rope<S> {
    /// Sets the norm, which runs before the scale on its side of the rotation.
    pub fn norm<'a>(self, norm: Norm<'a>) -> Rope<WithStages<'a>>
    where
        S: AddStages<'a>,
    {
        self.with(WithStages {
            norm: Some(norm),
            ..self.stages.with_any()
        })
    }

    /// Sets the scale, which runs after the norm on its side of the rotation.
    pub fn scale<'a>(self, scale: Scale<'a>) -> Rope<S::Linear>
    where
        S: AddStages<'a>,
    {
        self.with(self.stages.with(|stages| stages.scale = Some(scale)))
    }

    /// Sets the Hadamard transform, the last stage.
    pub fn hadamard<'a>(self, hadamard: Hadamard) -> Rope<S::Linear>
    where
        S: AddStages<'a>,
    {
        let transform = Some(Transform::new(hadamard));
        self.with(self.stages.with(|stages| stages.transform = transform))
    }

    /// Passes the f32 of the rotation, and of a Hadamard transform, to the next stage: a norm, a scale, the transform,
    /// or a quantized format. By default it is first rounded to the element of the source, which gives the bits of
    /// separate steps.
    ///
    /// A destination of f32, f16 or bf16 directly after the rotation receives the f32 either way, and rounds it once. A
    /// final scale or norm rounds its own result to the element of the source before the destination does, unless it is
    /// set not to ([`Scale::without_rounding`], [`NormResult::Kept`](crate::norm::NormResult::Kept)).
    pub fn without_rounding<'a>(self) -> Rope<S::Linear>
    where
        S: AddStages<'a>,
    {
        self.with(self.stages.with(|stages| stages.rounds = false))
    }
}

impl Rope<Lowered<'_>> {
    /// Returns `true` if the plan has a stage beside the rotation.
    pub(super) fn has_stages(&self) -> bool {
        self.stages.stages.is_some()
    }

    /// Returns the rotation of a pass by these rows.
    #[inline]
    pub(super) fn rotation<'r>(&self, rows: View<'r>, attention_factor: f64) -> Rotation<'r> {
        Rotation {
            rows,
            factors: self.factors(attention_factor),
            input: self.input,
            output: self.output,
            window: self.window,
        }
    }

    /// Returns the pass of a checked call. Not a `Result`, which would copy the pass.
    pub(super) fn checked_pass<'s>(
        &'s self,
        of: PartOfCall,
        (element, kernels): (&'static OutOfPlaceKernels, PassKernels),
        rows: Option<(&'s Rows<'_>, RowSharing)>,
    ) -> Pass<'s> {
        Pass {
            proof: self.proof,
            tuning: self.tuning,
            element,
            kernels,
            shape: of.shape,
            part: of.shape.whole(),
            of,
            stages: self.stages.stages.as_ref(),
            rotation: rows.map(|(rows, sharing)| {
                let view = rows.view(sharing).skip(of.origin);
                self.rotation(view, rows.attention_factor())
            }),
            rounds: self.stages.rounds,
            skips_identity: false,
            // No other kernel supports full-width rows, or a window.
            staged: self.staged
                || self.window != Window::WHOLE
                || rows.is_some_and(|(rows, _)| rows.is_full_width()),
            streams: false,
        }
    }
}

impl<S: Lower> Rope<S> {
    /// Calls `run` with the plan without the type of its stages, on which no pass depends. One copy per kind of plan:
    /// inlined there was one per verb and element, 20 KB of librope.so, and a result through memory waits for its
    /// stores, 15 ns.
    #[inline(never)]
    pub(super) fn erased<T>(
        &self,
        run: &mut dyn FnMut(&Rope<Lowered<'_>>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        run(&self.with(self.stages.lowered()))
    }
}

/// Returns the kernels of an in-place plan.
pub(super) fn in_place<E: Element, S: Lower>() -> (&'static OutOfPlaceKernels, PassKernels) {
    let kernels = PassKernels {
        in_place: Some(E::IN_PLACE),
        normed: S::normed::<E>(),
    };
    (E::OUT_OF_PLACE, kernels)
}
