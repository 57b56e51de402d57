//! Plans and their stages.

use crate::base::limits::{MOST_CHANNELS, MOST_PARTS};
use crate::{Backend, Pairing};

errors! {
    /// A plan or one of its stages, or a call that the plan does not support.
    ///
    /// [`Error::Plan`](crate::Error::Plan) holds it.
    ///
    /// ```
    /// use rope_core::error::PlanError;
    /// use rope_core::stages::Hadamard;
    /// use rope_core::Error;
    ///
    /// let error = Hadamard::new(48).unwrap_err();
    /// assert_eq!(error, Error::Plan(PlanError::HadamardBlock { block: 48 }));
    /// ```
    pub enum PlanError =>
    /// [`Rope::rotate`](crate::Rope::rotate) and the other verbs that work in place, of a plan whose output pairing
    /// is another than its input pairing: use [`Rope::rotate_into`](crate::Rope::rotate_into).
    PairingChangesInPlace {
        /// The plan's input pairing.
        input: Pairing,
        /// The plan's output pairing.
        output: Pairing,
    }: Operation =>
        "the plan reads {input} pairs and its output_pairing is {output}, which no call in place can change; use one \
         that writes another tensor, as rotate_into, or leave out output_pairing",
    /// [`Rope::with_head_dim`](crate::Rope::with_head_dim): heads of another size, whose rotated channels may be
    /// others.
    HeadDim {
        /// Channels of a head of the call.
        given: usize,
        /// Channels of a head of the plan.
        head_dim: usize,
        /// The plan's first rotated channel.
        first: usize,
    }: Shape => |f| {
        write!(f, "head_dim is {given}, but the plan is for heads of {head_dim}")?;
        // The same channels from the end of the head.
        match given.saturating_add(first).checked_sub(head_dim) {
            Some(at) if first > 0 => write!(
                f,
                ", which rotate from channel {first} on; for the last ones of these heads set Rope::with_window to \
                 {at}, without a head_dim"
            ),
            _ => write!(
                f,
                "; for the same channels of these heads set Rope::with_window to {first}, without a head_dim"
            ),
        }
    },
    /// [`Rope::with_backend`](crate::Rope::with_backend): this CPU, or this build, lacks the instruction set.
    BackendUnavailable {
        /// The backend asked for.
        backend: Backend,
    }: Backend => |f| {
        write!(f, "backend {backend} is not available here; there are:")?;
        Backend::available().try_for_each(|backend| write!(f, " {backend}"))
    },
    /// A rotation of keys that stay in a cache: the plan has a norm, which cached keys have already.
    NormInCache: Operation =>
        "the plan has a norm, which the keys of a cache have already; rotate them by a plan without it",
    /// A call on parts of heads whose plan has a norm, a scale or a transform: the parts cannot become whole heads.
    StagesInParts {
        /// The obstacle, as a clause of the message.
        reason: &'static str,
    }: Operation =>
        "the plan has a norm, a scale or a transform, which need whole heads, but {reason}; run these stages on a \
         tensor first, and write the parts by a plan without them",
    /// A call on parts of heads whose plan has a norm, a scale or a transform: the heads of a token, which such a call
    /// holds on the stack, are too many.
    PartsOnStack {
        /// Channels of all heads of a token.
        channels: usize,
    }: Shape =>
        "heads * head_dim is {channels}; it must be at most {MOST_PARTS} in a call on parts by a plan with a norm, a \
         scale or a transform; run these stages on a tensor first, and write the parts by a plan without them",
    /// [`Hadamard`](crate::stages::Hadamard): a block that is no power of two, or too short or long.
    HadamardBlock {
        /// Channels of the block.
        block: usize,
    }: Value => "block is {block}; a Hadamard block must be a power of two from 2 to {MOST_CHANNELS}",
    /// [`Rope::with_hadamard`](crate::Rope::with_hadamard): the block does not divide a head.
    HadamardHead {
        /// Channels of the block.
        block: usize,
        /// Channels of a head.
        head_dim: usize,
    }: Shape => |f| write!(
        f,
        "block is {block}; a Hadamard block must divide head_dim ({head_dim}), and the largest power of two that does \
         is {}",
        if head_dim == 0 { 0 } else { 1 << head_dim.trailing_zeros() }
    ),
    /// [`Norm`](crate::norm::Norm): the formula has weights, and none were given.
    WeightMissing {
        /// The required number, if all heads share them.
        needed: usize,
    }: Operation =>
        "the norm's formula has weights, but none were given; give {needed} (or {needed} per head) to \
         Norm::with_weight, or call Norm::without_weight",
    /// [`Norm`](crate::norm::Norm): weights for a formula that has none.
    WeightUnused {
        /// The given number.
        given: usize,
    }: Operation =>
        "the norm's formula has no weights, but {given} were given; leave them out, or use a formula that is `weighted`",
    /// [`Norm::with_sum_of_squares`](crate::norm::Norm::with_sum_of_squares) of a norm that is centered: it has a mean
    /// of its own to take off.
    CenteredSums: Operation =>
        "a centered norm needs the mean, which sums of squares do not have; leave out Norm::with_sum_of_squares",
}
