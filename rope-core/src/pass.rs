//! A pass: a call whose every argument has been checked, as its executor gets it. Nothing fails from here on.

pub(crate) mod transform;
pub(crate) mod walk;

use core::ops::Range;

use crate::base::stage_order::StageOrder;
use crate::describe::address::{Addresses, Located, Steps};
use crate::describe::cache::{
    Cache, CacheHeads, CacheHeadsMut, Format, InSlots, Slots, SlotsTarget,
};
use crate::describe::norm::{Norm, NormReach, NormResult, NormSum, Weights};
use crate::describe::rows::{Rotation, View};
use crate::describe::scale::Scale;
use crate::describe::tensor::{Bytes, BytesMut};
use crate::kernel::element::ElementKernels;
use crate::kernel::elements::{InPlaceKernels, NormRotateKernels, OutOfPlaceFn, OutOfPlaceKernels};
use crate::kernel::norm::NormFactors;
use crate::kernel::rotation::RowFactors;
use crate::pass::transform::Transform;
use crate::pass::walk::{LineSpan, Order, Prefetch, Walk};
use crate::proof::Proof;
use crate::tuning::Tuning;
use crate::{Layout, Pairing, Shape};

/// A checked call, lowered: the stages that heads go through.
///
/// ```text
/// read -> transform -> norm -> scale -> rotate -> norm -> scale -> transform -> write
/// ```
///
/// A [`Transform`] stands first where it is undone: in heads that come from a cache, and in gradients.
///
/// Between two stages a value is f32, or was rounded to the element of what is read, as the plan says.
pub(crate) struct Pass<'a> {
    pub(crate) proof: Proof,
    pub(crate) tuning: &'static Tuning,
    /// The element of the source. Intermediate results are rounded to it.
    pub(crate) element: &'static OutOfPlaceKernels,
    pub(crate) kernels: PassKernels,
    pub(crate) shape: Shape,
    /// The sequences and the tokens that run: all of them ([`Shape::whole`]), or some.
    pub(crate) part: [Range<usize>; 2],
    /// The part of the call whose operands it has.
    pub(crate) of: PartOfCall,
    /// The stages beside the rotation, if there are any.
    pub(crate) stages: Option<&'a PassStages<'a>>,
    pub(crate) rotation: Option<Rotation<'a>>,
    /// `true` if the rotated heads are rounded before a norm, a scale or a quantizer reads them.
    pub(crate) rounds: bool,
    /// `true` if a token whose rows are the identity is skipped.
    pub(crate) skips_identity: bool,
    /// `true` if fused stages run one after the other all the same.
    pub(crate) staged: bool,
    /// `true` if the target is written past the caches, by executors that can.
    pub(crate) streams: bool,
}

/// The part of a call that a thread runs: the operands are narrowed to it. What a call has for each of its tokens or
/// heads is not, and is found by their indices in the call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartOfCall {
    /// The first sequence, the first token and the first head.
    pub(crate) origin: [usize; 3],
    /// The shape of the part.
    pub(crate) shape: Shape,
    /// The shape of the call.
    pub(crate) call: Shape,
}

impl PartOfCall {
    /// All of a call.
    #[inline(always)]
    pub(crate) fn whole(call: Shape) -> Self {
        PartOfCall {
            origin: [0; 3],
            shape: call,
            call,
        }
    }

    /// The same part of a tensor of the call.
    pub(crate) fn of_tensor(&self, layout: &Layout) -> Layout {
        let [batch, token, head] = self.origin;
        layout.part_of([
            batch..batch + self.shape.batch,
            token..token + self.shape.tokens,
            head..head + self.shape.heads,
        ])
    }

    /// The token in the call, counted over its sequences, and the head.
    pub(crate) fn index(&self, [batch, token, head]: [usize; 3]) -> [usize; 2] {
        let [first_batch, first_token, first_head] = self.origin;
        let token = (first_batch + batch) * self.call.tokens + first_token + token;
        [token, first_head + head]
    }

    /// Slots of the call, from those of the part on.
    fn slots<'s>(&self, slots: InSlots<'s>) -> InSlots<'s> {
        let [first, _] = self.index([0; 3]);
        InSlots { first, ..slots }
    }
}

/// The kernels of the element that is read, as far as a call can use them: a program links those that it names.
#[derive(Clone, Copy, Default)]
pub(crate) struct PassKernels {
    /// Those that rotate in place.
    pub(crate) in_place: Option<&'static InPlaceKernels>,
    /// Those that norm and rotate in place.
    pub(crate) normed: Option<&'static NormRotateKernels>,
}

impl PassKernels {
    /// The kernels of a norm, and none in place.
    pub(crate) fn normed(normed: Option<&'static NormRotateKernels>) -> Self {
        PassKernels {
            in_place: None,
            normed,
        }
    }
}

/// A norm and the rotation after it that kernels run on heads in place.
#[derive(Clone, Copy)]
pub(crate) struct NormRotate<'a> {
    pub(crate) norm: Norm<'a>,
    pub(crate) kernels: &'static NormRotateKernels,
}

/// The stages of a pass.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PassStages<'a> {
    pub(crate) norm: Option<Norm<'a>>,
    pub(crate) scale: Option<Scale<'a>>,
    pub(crate) transform: Option<Transform>,
    /// The functions that run them over a tile.
    pub(crate) ops: &'static Ops,
}

/// Norms and scales as operations on a tile: by reference, so that programs whose plans have neither link neither.
#[derive(Debug)]
pub(crate) struct Ops {
    /// Runs the stages of a place on the heads of a line, which lie in a tile, with room beside it; by the factors of a
    /// norm over the token, if there is one.
    pub(crate) run: RunStages,
    /// The factors of a norm over all heads of the token that a line begins.
    pub(crate) row_factors: RowFactorsOf,
}

type RunStages = fn(
    &Pass<'_>,
    &PassStages<'_>,
    StageOrder,
    &LineSpan<'_>,
    Option<NormFactors>,
    &mut [f32],
    &mut [f32],
);
type RowFactorsOf = fn(
    &Pass<'_>,
    Norm<'_>,
    &Operands<'_, '_, '_>,
    &LineSpan<'_>,
    &mut [f32],
    &mut [f32],
) -> NormFactors;

impl<'a> PassStages<'a> {
    /// Returns `true` if there is a stage beside a norm.
    pub(crate) fn has_linear(&self) -> bool {
        self.scale.is_some() || self.transform.is_some()
    }

    /// The transform, if it is the only one.
    pub(crate) fn only_transform(&self) -> Option<Transform> {
        let alone = self.norm.is_none() && self.scale.is_none();
        self.transform.filter(|_| alone)
    }

    /// Returns `true` if a stage stands on this side of the rotation.
    pub(crate) fn stand_at(&self, place: StageOrder) -> bool {
        self.norm.is_some_and(|norm| norm.order == place)
            || self.scale.is_some_and(|scale| scale.order == place)
            || self.transform.is_some_and(|transform| match place {
                StageOrder::BeforeRotation => transform.first,
                StageOrder::AfterRotation => transform.last,
            })
    }
}

/// The elements and the pairings of a rotation from one place to another.
#[derive(Clone, Copy)]
pub(crate) struct IoFormats {
    pub(crate) source: &'static OutOfPlaceKernels,
    pub(crate) input: Pairing,
    pub(crate) target: &'static OutOfPlaceKernels,
    pub(crate) output: Pairing,
}

impl IoFormats {
    /// The one kernel that does it all, if there is one.
    pub(crate) fn fused(self) -> Option<OutOfPlaceFn> {
        self.source.fused(self.input, self.target, self.output)
    }
}

/// The source of a call that is not in place.
pub(crate) enum Operand<'s> {
    Tensor(Bytes<'s>, &'static OutOfPlaceKernels),
    Cache(&'s Cache<'s>, &'s Slots<'s>),
}

/// The target of a call.
pub(crate) enum OperandMut<'t, 'm> {
    Tensor(&'t mut BytesMut<'m>, &'static OutOfPlaceKernels),
    Cache(&'t mut SlotsTarget<'m>),
}

impl<'a> Pass<'a> {
    /// The norm, if there is one.
    pub(crate) fn norm(&self) -> Option<Norm<'a>> {
        self.stages?.norm
    }

    /// The scale, if there is one.
    pub(crate) fn scale(&self) -> Option<Scale<'a>> {
        self.stages?.scale
    }

    /// The transform, if there is one.
    pub(crate) fn transform(&self) -> Option<Transform> {
        self.stages?.transform
    }

    /// Returns `true` if the pairing changes.
    pub(crate) fn moves(&self) -> bool {
        let [input, output] = self.pairings();
        input != output
    }

    /// The rows of the rotation, or those that rotate nothing.
    pub(crate) fn rows(&self) -> &View<'a> {
        match &self.rotation {
            Some(rotation) => &rotation.rows,
            None => &View::NONE,
        }
    }

    /// The first channel that rotates.
    pub(crate) fn first_channel(&self) -> usize {
        self.rotation.as_ref().map_or(0, |it| it.first_channel)
    }

    /// The pairings that are read and written.
    pub(crate) fn pairings(&self) -> [Pairing; 2] {
        match &self.rotation {
            Some(rotation) => [rotation.input, rotation.output],
            None => [Pairing::Half; 2],
        }
    }

    /// The direction's factors on cos and sin.
    pub(crate) fn rotation_factors(&self) -> Option<&RowFactors> {
        self.rotation.as_ref()?.factors.as_ref()
    }

    /// The rotation from one element to another.
    pub(crate) fn ends(
        &self,
        source: &'static OutOfPlaceKernels,
        target: &'static OutOfPlaceKernels,
    ) -> IoFormats {
        let [input, output] = self.pairings();
        IoFormats {
            source,
            input,
            target,
            output,
        }
    }

    /// The walk over the heads of a target, and of the source if there is one.
    pub(crate) fn walk<'w>(
        &'w self,
        source: Option<&Operand<'w>>,
        target: &OperandMut<'w, '_>,
    ) -> Walk<'w, Option<Places<'w>>, Places<'w>> {
        let source = source.map(|source| source.places(&self.of));
        let target = target.places(&self.of);
        let order = match (source, target) {
            (None, Places::Strided(target)) => Order::of(None, target),
            (Some(Places::Strided(source)), Places::Strided(target)) => {
                Order::of(Some(source), target)
            }
            _ => Order::BY_TOKEN,
        };
        self.walk_of(order, source, target)
    }

    /// The walk over the heads of two tensors, which are not asked for their kind of places every line.
    pub(crate) fn walk_between<'w>(
        &'w self,
        source: &'w Layout,
        target: &'w Layout,
    ) -> Walk<'w, &'w Layout, &'w Layout> {
        self.walk_of(Order::of(Some(source), target), source, target)
    }

    /// The walk over the heads of a tensor and over their slots.
    pub(crate) fn walk_into_slots<'w>(
        &'w self,
        source: &'w Layout,
        target: &SlotsTarget<'w>,
    ) -> Walk<'w, Option<Places<'w>>, Places<'w>> {
        let slots = Places::Slots(self.of.slots(target.in_slots(self.of.call.tokens)));
        self.walk_of(Order::BY_TOKEN, Some(Places::Strided(source)), slots)
    }

    #[inline(always)]
    fn walk_of<S, T>(&self, order: Order, source: S, target: T) -> Walk<'_, S, T> {
        let [batch, tokens] = &self.part;
        Walk {
            shape: Shape {
                batch: batch.end,
                tokens: tokens.end,
                ..self.shape
            },
            first: [batch.start, tokens.start],
            order,
            source,
            target,
            rows: self.rows(),
            factors: self.rotation_factors(),
            most: usize::MAX,
            prefetch: Prefetch::NONE,
            by_head: false,
        }
    }

    /// The norm and the rotation after it that kernels run on heads in place: of short heads, each by itself, with
    /// weights that they share.
    pub(crate) fn norm_rotate(&self) -> Option<NormRotate<'a>> {
        let (norm, kernels) = (self.norm()?, self.kernels.normed?);
        let head_dim = self.shape.head_dim;
        let shared = norm.weight.is_none_or(|weights| weights.len() == head_dim);
        let plain = !norm.formula.centered && norm.bias.is_none() && norm.given.is_none();
        let over_heads = norm.reach == NormReach::Head && norm.order == StageOrder::BeforeRotation;
        let short = head_dim < crate::kernel::normed::TOO_LONG;
        let stays = self.rotation.is_some() && !self.moves();
        let fused = shared && plain && over_heads && short && stays;
        let alone = self.stages.is_some_and(|stages| !stages.has_linear());
        (fused && norm.sum == NormSum::PyTorch && alone).then_some(NormRotate { norm, kernels })
    }

    /// The element of the values after the stages of a side: f32 after a norm whose weights promote its result.
    pub(crate) fn flowing(&self, place: StageOrder) -> &'static OutOfPlaceKernels {
        let passed =
            |norm: Norm<'_>| norm.order == StageOrder::BeforeRotation || norm.order == place;
        match self.norm() {
            Some(norm) if passed(norm) && self.promotes(norm) => f32::OUT_OF_PLACE,
            _ => self.element,
        }
    }

    /// Some of the weights, the first of which is at `start`, as f32.
    pub(crate) fn widen(
        &self,
        weights: Weights<'_>,
        one_plus: bool,
        start: usize,
        values: &mut [f32],
    ) {
        let (element, bytes) = weights.bytes();
        let bytes = &bytes[start * element.size..][..values.len() * element.size];
        (element.to_f32)(self.proof, bytes, values);
        if one_plus {
            for value in values {
                *value += 1.0;
            }
        }
    }

    /// Returns `true` if the result of a norm is f32 because its weights or biases have another element.
    pub(crate) fn promotes(&self, norm: Norm<'_>) -> bool {
        let other = |weights: Weights<'_>| !self.element.is(weights.bytes().0);
        norm.formula.result == NormResult::Promoted
            && (norm.weight.is_some_and(other) || norm.bias.is_some_and(other))
    }

    /// The element that the result of a norm is rounded to.
    pub(crate) fn result(&self, norm: Norm<'_>) -> &'static OutOfPlaceKernels {
        match norm.formula.result {
            NormResult::Kept => f32::OUT_OF_PLACE,
            NormResult::Promoted if self.promotes(norm) => f32::OUT_OF_PLACE,
            NormResult::Promoted | NormResult::Rounded => self.element,
        }
    }
}

/// The places of the heads of an operand.
#[derive(Clone, Copy)]
#[allow(
    clippy::large_enum_variant,
    reason = "there are two of them, as long as a call runs"
)]
pub(crate) enum Places<'a> {
    Strided(&'a Layout),
    Slots(InSlots<'a>),
}

impl Addresses for Places<'_> {
    fn token(&self, batch: usize, token: usize) -> Option<Located> {
        match self {
            Places::Strided(layout) => layout.token(batch, token),
            Places::Slots(slots) => slots.token(batch, token),
        }
    }

    fn steps(&self) -> Steps {
        match self {
            Places::Strided(layout) => layout.steps(),
            Places::Slots(slots) => slots.steps(),
        }
    }
}

impl<'s> Operand<'s> {
    /// Where heads of a part of a call lie.
    fn places(&self, part: &PartOfCall) -> Places<'s> {
        match self {
            Operand::Tensor(x, _) => Places::Strided(x.layout),
            Operand::Cache(cache, slots) => {
                Places::Slots(part.slots(cache.in_slots(slots, part.call.tokens)))
            }
        }
    }

    /// Its memory.
    pub(crate) fn memory(&self) -> &'s [u8] {
        match self {
            Operand::Tensor(x, _) => x.bytes,
            Operand::Cache(cache, _) => cache.memory(),
        }
    }

    /// Its heads.
    pub(crate) fn heads(&self) -> CacheHeads<'_> {
        match self {
            Operand::Tensor(x, element) => CacheHeads::Lines(x.bytes, element),
            Operand::Cache(cache, _) => cache.heads(),
        }
    }
}

impl<'t, 'm> OperandMut<'t, 'm> {
    /// Where heads of a part of a call lie.
    fn places(&self, part: &PartOfCall) -> Places<'t> {
        match self {
            OperandMut::Tensor(y, _) => Places::Strided(y.layout),
            OperandMut::Cache(cache) => Places::Slots(part.slots(cache.in_slots(part.call.tokens))),
        }
    }

    /// Its heads, to read.
    pub(crate) fn heads(&self) -> CacheHeads<'_> {
        match self {
            OperandMut::Tensor(y, element) => CacheHeads::Lines(y.bytes, element),
            OperandMut::Cache(cache) => cache.heads(),
        }
    }

    /// Its heads.
    pub(crate) fn heads_mut(&mut self) -> CacheHeadsMut<'_, 'm> {
        match self {
            OperandMut::Tensor(y, element) => CacheHeadsMut::Lines(y.bytes, element),
            OperandMut::Cache(cache) => cache.heads_mut(),
        }
    }

    /// Its memory.
    pub(crate) fn memory_mut(&mut self) -> &mut [u8] {
        match self {
            OperandMut::Tensor(y, _) => y.bytes,
            OperandMut::Cache(cache) => cache.memory_mut(),
        }
    }

    /// Returns `true` if it stores codes.
    pub(crate) fn is_coded(&self) -> bool {
        match self {
            OperandMut::Tensor(..) => false,
            OperandMut::Cache(cache) => matches!(cache.stored.format, Format::Codes(_)),
        }
    }
}

/// Both ends of a pass that may be in place.
pub(crate) struct Operands<'o, 't, 'm> {
    pub(crate) source: Option<&'o Operand<'o>>,
    pub(crate) target: &'o mut OperandMut<'t, 'm>,
}
