//! A factor on queries or keys, applied with their rotation.

use crate::Error;
use crate::base::error::check_count;
use crate::base::stage_order::StageOrder;

/// A factor on the heads of a tensor: a stage of a plan ([`Rope::with_scale`](crate::Rope::with_scale)).
///
/// Covers Mistral 4's factor per token after the rotation, a temperature per token and head, and the query's `1 /
/// sqrt(head_dim)`. On its side of the rotation it follows the norm.
///
/// ```
/// use rope_core::stages::{Scale, StageOrder};
/// use rope_core::{Pairing, Rope};
///
/// let query = Rope::new(Pairing::Half).with_scale(Scale::constant(0.125)); // 1 / sqrt(64)
/// let temperatures = [1.0_f32, 1.0, 1.1];
/// let mistral4 = Rope::new(Pairing::Half)
///     .with_scale(Scale::per_token(&temperatures).with_order(StageOrder::AfterRotation));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[must_use]
pub struct Scale<'a> {
    pub(crate) factors: Factors<'a>,
    pub(crate) order: StageOrder,
    pub(crate) rounds: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Factors<'a> {
    Constant(f32),
    /// One factor per token of each sequence.
    Tokens(&'a [f32]),
    /// One factor per head of each token.
    Heads(&'a [f32]),
}

impl<'a> Scale<'a> {
    /// Creates a constant factor, applied before the rotation.
    pub const fn constant(factor: f32) -> Self {
        Scale::new(Factors::Constant(factor))
    }

    /// Creates factors per token of each sequence, `[batch, tokens]`, applied before the rotation.
    pub const fn per_token(factors: &'a [f32]) -> Self {
        Scale::new(Factors::Tokens(factors))
    }

    /// Creates factors per head of each token, `[batch, tokens, heads]`, applied before the rotation.
    pub const fn per_token_and_head(factors: &'a [f32]) -> Self {
        Scale::new(Factors::Heads(factors))
    }

    const fn new(factors: Factors<'a>) -> Self {
        Scale {
            factors,
            order: StageOrder::BeforeRotation,
            rounds: true,
        }
    }

    /// Sets the order: before the rotation, or after it.
    pub const fn with_order(self, order: StageOrder) -> Self {
        Scale { order, ..self }
    }

    /// Passes the f32 product to the next stage, instead of rounding it to the element of the source tensor.
    pub const fn without_rounding(self) -> Self {
        Scale {
            rounds: false,
            ..self
        }
    }

    pub(crate) fn check(&self, rows: usize, heads: usize) -> Result<(), Error> {
        let (given, needed) = match self.factors {
            Factors::Constant(_) => return Ok(()),
            Factors::Tokens(factors) => (factors.len(), rows),
            Factors::Heads(factors) => (factors.len(), rows.saturating_mul(heads)),
        };
        check_count("factors", given, needed)
    }

    /// Returns the factor of a head; `row` is the token among those of all sequences.
    pub(crate) fn of(&self, row: usize, head: usize, heads: usize) -> f32 {
        match self.factors {
            Factors::Constant(factor) => factor,
            Factors::Tokens(factors) => factors[row],
            Factors::Heads(factors) => factors[row * heads + head],
        }
    }
}
