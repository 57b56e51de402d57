//! A pass: a call after all checks, as passed to its executor. No later step can fail.

pub(crate) mod transform;
pub(crate) mod walk;

use core::ops::Range;

use crate::base::stage_order::StageOrder;
use crate::describe::address::{Addresses, Steps, TokenAddress};
use crate::describe::cache::{
    Cache, CacheHeads, CacheHeadsMut, Format, SlotAddresses, Slots, SlotsTarget,
};
use crate::describe::norm::{Norm, NormReach, NormResult, NormSum, Weights};
use crate::describe::rows::{Rotation, View};
use crate::describe::scale::Scale;
use crate::describe::tensor::{Bytes, BytesMut};
use crate::kernel::element::Element;
use crate::kernel::elements::{InPlaceKernels, NormRotateKernels, OutOfPlaceFn, OutOfPlaceKernels};
use crate::kernel::norm::NormFactors;
use crate::kernel::rotation::RowFactors;
use crate::pass::transform::Transform;
use crate::pass::walk::{LineSpan, Order, Walk};
use crate::proof::Proof;
use crate::tuning::Tuning;
use crate::{Layout, Pairing, Shape};

/// A checked call, lowered: the stages of its heads.
///
/// ```text
/// read -> transform -> norm -> scale -> rotate -> norm -> scale -> transform -> write
/// ```
///
/// A [`Transform`] is the first stage if it is undone: for heads from a cache, and in gradients.
///
/// Between two stages a value is f32, or rounded to the element of the source, as the plan determines.
pub(crate) struct Pass<'a> {
    pub(crate) proof: Proof,
    pub(crate) tuning: &'static Tuning,
    /// The element of the source. Intermediate results are rounded to it.
    pub(crate) element: &'static OutOfPlaceKernels,
    pub(crate) kernels: PassKernels,
    pub(crate) shape: Shape,
    /// The sequences and the tokens that run: all ([`Shape::whole`]), or some.
    pub(crate) part: [Range<usize>; 2],
    /// The part of the call that its operands cover.
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

/// The part of a call that a thread runs. The operands are narrowed to it. Data per token or head of the call is not
/// narrowed, and is indexed by the call's indices.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartOfCall {
    /// The first sequence, token and head.
    pub(crate) origin: [usize; 3],
    /// The shape of the part.
    pub(crate) shape: Shape,
    /// The shape of the call.
    pub(crate) call: Shape,
}

impl PartOfCall {
    /// Returns the part that is the whole call.
    #[inline(always)]
    pub(crate) fn whole(call: Shape) -> Self {
        PartOfCall {
            origin: [0; 3],
            shape: call,
            call,
        }
    }

    /// Returns the part's layout in a tensor of the call.
    pub(crate) fn of_tensor(&self, layout: &Layout) -> Layout {
        let [batch, token, head] = self.origin;
        layout.part_of([
            batch..batch + self.shape.batch,
            token..token + self.shape.tokens,
            head..head + self.shape.heads,
        ])
    }

    /// Returns the token, counted over the sequences of the call, and the head.
    pub(crate) fn index(&self, [batch, token, head]: [usize; 3]) -> [usize; 2] {
        let [first_batch, first_token, first_head] = self.origin;
        let token = (first_batch + batch) * self.call.tokens + first_token + token;
        [token, first_head + head]
    }

    /// Returns the slots of the call from the part's first token on.
    fn slots<'s>(&self, slots: SlotAddresses<'s>) -> SlotAddresses<'s> {
        let [first, _] = self.index([0; 3]);
        SlotAddresses { first, ..slots }
    }
}

/// The kernels of the source's element that a call can use: a program links those that it names.
#[derive(Clone, Copy, Default)]
pub(crate) struct PassKernels {
    /// The kernels that rotate in place.
    pub(crate) in_place: Option<&'static InPlaceKernels>,
    /// The kernels that norm and rotate in place.
    pub(crate) normed: Option<&'static NormRotateKernels>,
}

/// A norm followed by a rotation, as one kernel runs them on heads in place.
#[derive(Clone, Copy)]
pub(crate) struct NormRotate<'a> {
    pub(crate) norm: Norm<'a>,
    pub(crate) kernels: &'static NormRotateKernels,
}

/// The stages of a pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PassStages<'a> {
    pub(crate) norm: Option<Norm<'a>>,
    pub(crate) scale: Option<Scale<'a>>,
    pub(crate) transform: Option<Transform>,
    /// The functions that run the stages over a tile.
    pub(crate) ops: &'static Ops,
}

/// Norms and scales as operations on a tile. A reference, so that programs whose plans have neither link neither.
#[derive(Debug)]
pub(crate) struct Ops {
    /// Runs the stages of one side on the heads of a line in a tile, with scratch beside it, and with the factors of a
    /// norm over the token, if there is one.
    pub(crate) run: RunStages,
    /// Computes the factors of a norm over all heads of the token at the start of a line.
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
    &Operands<'_, '_>,
    &LineSpan<'_>,
    &mut [f32],
    &mut [f32],
) -> NormFactors;

impl PartialEq for Ops {
    // There is one.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<'a> PassStages<'a> {
    /// Returns `true` if there is a stage beside a norm.
    pub(crate) fn has_linear(&self) -> bool {
        self.scale.is_some() || self.transform.is_some()
    }

    /// Returns the transform if it is the only stage.
    pub(crate) fn only_transform(&self) -> Option<Transform> {
        let alone = self.norm.is_none() && self.scale.is_none();
        self.transform.filter(|_| alone)
    }

    /// Returns `true` if a stage runs on this side of the rotation.
    pub(crate) fn stand_at(&self, place: StageOrder) -> bool {
        self.norm.is_some_and(|norm| norm.order == place)
            || self.scale.is_some_and(|scale| scale.order == place)
            || self.transform.is_some_and(|transform| match place {
                StageOrder::BeforeRotation => transform.first,
                StageOrder::AfterRotation => transform.last,
            })
    }
}

/// The elements and the pairings of an out-of-place rotation.
#[derive(Clone, Copy)]
pub(crate) struct IoFormats {
    pub(crate) source: &'static OutOfPlaceKernels,
    pub(crate) input: Pairing,
    pub(crate) target: &'static OutOfPlaceKernels,
    pub(crate) output: Pairing,
}

impl IoFormats {
    /// Returns the one kernel for these formats, if it exists.
    pub(crate) fn fused(self) -> Option<OutOfPlaceFn> {
        self.source.fused(self.input, self.target, self.output)
    }
}

/// The source of an out-of-place call.
#[derive(Clone, Copy)]
pub(crate) enum Operand<'s> {
    Tensor(Bytes<'s>, &'static OutOfPlaceKernels),
    Cache(&'s Cache<'s>, &'s Slots<'s>),
}

/// The target of a call.
pub(crate) enum OperandMut<'t> {
    Tensor(BytesMut<'t>, &'static OutOfPlaceKernels),
    Cache(SlotsTarget<'t>),
}

impl<'a> Pass<'a> {
    /// Creates a pass without other stages than its rotation.
    #[inline(always)]
    pub(crate) fn new(
        (proof, tuning): (Proof, &'static Tuning),
        (element, kernels): (&'static OutOfPlaceKernels, PassKernels),
        of: PartOfCall,
        rotation: Option<Rotation<'a>>,
        staged: bool,
    ) -> Self {
        Pass {
            proof,
            tuning,
            element,
            kernels,
            shape: of.shape,
            part: of.shape.whole(),
            of,
            stages: None,
            rotation,
            rounds: false,
            skips_identity: false,
            staged,
            streams: false,
        }
    }

    /// Returns the norm.
    pub(crate) fn norm(&self) -> Option<Norm<'a>> {
        self.stages?.norm
    }

    /// Returns the scale.
    pub(crate) fn scale(&self) -> Option<Scale<'a>> {
        self.stages?.scale
    }

    /// Returns the transform.
    pub(crate) fn transform(&self) -> Option<Transform> {
        self.stages?.transform
    }

    /// Returns `true` if the pairing changes.
    pub(crate) fn moves(&self) -> bool {
        let [input, output] = self.pairings();
        input != output
    }

    /// Returns the rows of the rotation, or rows without pairs.
    pub(crate) fn rows(&self) -> &View<'a> {
        match &self.rotation {
            Some(rotation) => &rotation.rows,
            None => &View::NONE,
        }
    }

    /// Returns the first rotated channel.
    pub(crate) fn first_channel(&self) -> usize {
        self.rotation.as_ref().map_or(0, |it| it.window.first)
    }

    /// Returns the pairings of input and output.
    pub(crate) fn pairings(&self) -> [Pairing; 2] {
        match &self.rotation {
            Some(rotation) => [rotation.input, rotation.output],
            None => [Pairing::Half; 2],
        }
    }

    /// Returns the direction's factors on cos and sin.
    pub(crate) fn rotation_factors(&self) -> Option<&RowFactors> {
        self.rotation.as_ref()?.factors.as_ref()
    }

    /// Returns the formats of a rotation from one element to another.
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

    /// Returns the walk over the heads of a target, and of the source if there is one.
    pub(crate) fn walk<'w>(
        &'w self,
        source: Option<&Operand<'w>>,
        target: &OperandMut<'w>,
    ) -> Walk<'w, Option<OperandAddresses<'w>>, OperandAddresses<'w>> {
        let source = source.map(|source| source.addresses(&self.of));
        let target = target.addresses(&self.of);
        let order = match (source, target) {
            (None, OperandAddresses::Strided(target)) => Order::of(None, target),
            (Some(OperandAddresses::Strided(source)), OperandAddresses::Strided(target)) => {
                Order::of(Some(source), target)
            }
            _ => Order::BY_TOKEN,
        };
        self.walk_of(order, source, target)
    }

    /// Returns the walk over the heads of two tensors. It does not branch on the kind of addresses per line.
    pub(crate) fn walk_between<'w>(
        &'w self,
        source: &'w Layout,
        target: &'w Layout,
    ) -> Walk<'w, &'w Layout, &'w Layout> {
        self.walk_of(Order::of(Some(source), target), source, target)
    }

    /// Returns the walk over the heads of a tensor and their slots.
    pub(crate) fn walk_into_slots<'w>(
        &'w self,
        source: &'w Layout,
        target: &SlotsTarget<'w>,
    ) -> Walk<'w, Option<OperandAddresses<'w>>, OperandAddresses<'w>> {
        let slots = OperandAddresses::Slots(self.of.slots(target.in_slots(self.of.call.tokens)));
        let source = Some(OperandAddresses::Strided(source));
        self.walk_of(Order::BY_TOKEN, source, slots)
    }

    #[inline(always)]
    fn walk_of<S, T>(&self, order: Order, source: S, target: T) -> Walk<'_, S, T> {
        let (rows, factors) = (self.rows(), self.rotation_factors());
        Walk::new(self.shape, order, (source, target), rows, factors).within(&self.part)
    }

    /// Returns the norm and the rotation after it if in-place kernels run both: short heads, normed by themselves, with
    /// shared weights.
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

    /// Returns the element of the values after the stages of a side: f32 after a norm whose weights promote its result.
    pub(crate) fn flowing(&self, place: StageOrder) -> &'static OutOfPlaceKernels {
        let passed =
            |norm: Norm<'_>| norm.order == StageOrder::BeforeRotation || norm.order == place;
        match self.norm() {
            Some(norm) if passed(norm) && self.promotes(norm) => f32::OUT_OF_PLACE,
            _ => self.element,
        }
    }

    /// Returns the element that the values are rounded to for a quantizer alone: after a rotation or a transform whose
    /// f32 a target of elements receives.
    pub(crate) fn rounded_for_codes(&self) -> Option<&'static OutOfPlaceKernels> {
        let after = StageOrder::AfterRotation;
        let stands = self.stages.is_some_and(|stages| stages.stand_at(after));
        let transformed = self.transform().is_some_and(|transform| transform.last);
        let is_last = transformed || self.rotation.is_some() && !stands;
        (self.rounds && is_last).then(|| self.flowing(after))
    }

    /// Converts some of the weights to f32, from index `start` on.
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

    /// Returns the element that the result of a norm is rounded to.
    pub(crate) fn result(&self, norm: Norm<'_>) -> &'static OutOfPlaceKernels {
        match norm.formula.result {
            NormResult::Kept => f32::OUT_OF_PLACE,
            NormResult::Promoted if self.promotes(norm) => f32::OUT_OF_PLACE,
            NormResult::Promoted | NormResult::Rounded => self.element,
        }
    }
}

/// The addresses of the heads of an operand.
#[derive(Clone, Copy)]
#[allow(
    clippy::large_enum_variant,
    reason = "there are two of them, as long as a call runs"
)]
pub(crate) enum OperandAddresses<'a> {
    Strided(&'a Layout),
    Slots(SlotAddresses<'a>),
}

impl Addresses for OperandAddresses<'_> {
    fn token(&self, batch: usize, token: usize) -> Option<TokenAddress> {
        match self {
            OperandAddresses::Strided(layout) => layout.token(batch, token),
            OperandAddresses::Slots(slots) => slots.token(batch, token),
        }
    }

    fn steps(&self) -> Steps {
        match self {
            OperandAddresses::Strided(layout) => layout.steps(),
            OperandAddresses::Slots(slots) => slots.steps(),
        }
    }
}

impl<'s> Operand<'s> {
    /// Returns the addresses of the heads of a part of a call.
    fn addresses(&self, part: &PartOfCall) -> OperandAddresses<'s> {
        match self {
            Operand::Tensor(x, _) => OperandAddresses::Strided(x.layout),
            Operand::Cache(cache, slots) => {
                OperandAddresses::Slots(part.slots(cache.in_slots(slots, part.call.tokens)))
            }
        }
    }

    /// Returns the element of a tensor, or f32.
    pub(crate) fn element(&self) -> &'static OutOfPlaceKernels {
        match self {
            Operand::Tensor(_, element) => element,
            Operand::Cache(..) => f32::OUT_OF_PLACE,
        }
    }

    /// Returns the memory.
    pub(crate) fn memory(&self) -> &'s [u8] {
        match self {
            Operand::Tensor(x, _) => x.bytes,
            Operand::Cache(cache, _) => cache.memory(),
        }
    }

    /// Returns the heads.
    pub(crate) fn heads(&self) -> CacheHeads<'_> {
        match self {
            Operand::Tensor(x, element) => CacheHeads::Lines(x.bytes, element),
            Operand::Cache(cache, _) => cache.heads(),
        }
    }
}

impl<'t> OperandMut<'t> {
    /// Returns the addresses of the heads of a part of a call.
    fn addresses(&self, part: &PartOfCall) -> OperandAddresses<'t> {
        match self {
            OperandMut::Tensor(y, _) => OperandAddresses::Strided(y.layout),
            OperandMut::Cache(cache) => {
                OperandAddresses::Slots(part.slots(cache.in_slots(part.call.tokens)))
            }
        }
    }

    /// Returns the heads, for reading.
    pub(crate) fn heads(&self) -> CacheHeads<'_> {
        match self {
            OperandMut::Tensor(y, element) => CacheHeads::Lines(y.bytes, element),
            OperandMut::Cache(cache) => cache.heads(),
        }
    }

    /// Returns the heads, for writing.
    pub(crate) fn heads_mut(&mut self) -> CacheHeadsMut<'_, 't> {
        match self {
            OperandMut::Tensor(y, element) => CacheHeadsMut::Lines(y.bytes, element),
            OperandMut::Cache(cache) => cache.heads_mut(),
        }
    }

    /// Returns the memory.
    pub(crate) fn memory_mut(&mut self) -> &mut [u8] {
        match self {
            OperandMut::Tensor(y, _) => y.bytes,
            OperandMut::Cache(cache) => cache.memory_mut(),
        }
    }

    /// Returns `true` if the target stores codes.
    pub(crate) fn is_coded(&self) -> bool {
        match self {
            OperandMut::Tensor(..) => false,
            OperandMut::Cache(cache) => matches!(cache.stored.format, Format::Codes(_)),
        }
    }
}

/// The source, if not in place, and the target of a pass.
pub(crate) struct Operands<'o, 't> {
    pub(crate) source: Option<&'o Operand<'o>>,
    pub(crate) target: &'o mut OperandMut<'t>,
}
