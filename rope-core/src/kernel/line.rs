//! A line: heads at equal distances in a memory, with their rows, without a type of element.

use super::rotation::RowFactors;

/// Heads at equal distances in a memory, and their rows. Every index in it has been checked against the tensor.
///
/// The memory goes to the kernels beside it ([`MemoryKernel`](crate::simd::MemoryKernel)): the target's elements as
/// bytes, from the first head on. A line has no type, but its kernel has.
#[derive(Clone, Copy)]
pub(crate) struct Line<'a> {
    /// Elements from one head to the next.
    pub(crate) step: usize,
    /// The number of heads.
    pub(crate) heads: usize,
    /// Channels per head.
    pub(crate) head_dim: usize,
    /// The rows of the heads. One copy serves all lines of a call.
    pub(crate) rows: &'a LineRows<'a>,
    /// Elements from a head to the one that is prefetched with it, wrapping; 0 for none.
    pub(crate) ahead: usize,
    /// The memory before the line, where that one may lie.
    pub(crate) before: &'a [u8],
    /// Tokens after that of the line, which an in-place rotation includes.
    pub(crate) more: &'a MoreTokens<'a>,
}

/// Heads at equal distances that a kernel only reads, as many as in its line.
#[derive(Clone, Copy)]
pub(crate) struct SourceLine<'a> {
    /// The elements as bytes.
    pub(crate) memory: &'a [u8],
    /// Index of the first head.
    pub(crate) at: usize,
    /// Elements from one head to the next.
    pub(crate) step: usize,
    /// Elements from a head to the one that is prefetched with it, wrapping; 0 for none.
    pub(crate) ahead: usize,
}

/// The rows of a line.
#[derive(Clone, Copy)]
pub(crate) struct LineRows<'a> {
    pub(crate) cos: &'a [f32],
    pub(crate) sin: &'a [f32],
    /// Values of a row in each of cos and sin.
    pub(crate) pairs: usize,
    pub(crate) starts: Starts<'a>,
    /// The factors on cos and sin, or `None` for 1. A reference: two f32 written by a walk and read by a kernel as
    /// eight bytes wait for all stores in flight.
    pub(crate) factors: Option<&'a RowFactors>,
}

/// Tokens after that of a line: their heads lie at the same distances, and share one row per token.
#[derive(Clone, Copy)]
pub(crate) struct MoreTokens<'a> {
    /// The start of each token's row.
    pub(crate) starts: &'a [usize],
    /// Elements from one token to the next.
    pub(crate) step: usize,
}

impl MoreTokens<'_> {
    pub(crate) const NONE: MoreTokens<'static> = MoreTokens {
        starts: &[],
        step: 0,
    };
}

/// The starts of rows, in cos and in sin.
#[derive(Clone, Copy)]
pub(crate) enum Starts<'a> {
    /// The start of the row that all heads share.
    Shared(usize),
    /// The start of each head's row.
    Each(&'a [usize]),
}

impl<'a> LineRows<'a> {
    /// Returns a row that all heads share.
    #[inline(always)]
    pub(crate) fn shared(cos: &'a [f32], sin: &'a [f32]) -> Self {
        LineRows {
            cos,
            sin,
            pairs: cos.len(),
            starts: Starts::Shared(0),
            factors: None,
        }
    }

    /// Returns some pairs of the rows, whose values begin at this one of each row.
    #[inline(always)]
    pub(crate) fn of_pairs(&self, begin: usize, pairs: usize) -> Self {
        LineRows {
            cos: &self.cos[begin..],
            sin: &self.sin[begin..],
            pairs,
            ..*self
        }
    }

    /// Returns cos and sin of the row at `start`.
    #[inline(always)]
    pub(super) fn row(&self, start: usize) -> [&'a [f32]; 2] {
        [
            &self.cos[start..][..self.pairs],
            &self.sin[start..][..self.pairs],
        ]
    }
}
