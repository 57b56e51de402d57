//! The kernel's view of rows: by sequence, token and head; and the code that rotates by them.

use core::ops::Range;

use crate::describe::tensor::BytesMut;
use crate::describe::window::Window;
use crate::kernel::line::{LineRows, Starts};
use crate::kernel::rotation::RowFactors;
use crate::proof::Proof;
use crate::tuning::Tuning;
use crate::{Ids, Pairing};

/// The rows of each sequence of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowSharing {
    /// One row per token: all sequences share them.
    AllSequences,
    /// One row per token of each sequence, sequence by sequence.
    EachSequence { tokens: usize },
}

impl RowSharing {
    /// Returns the number of rows from one sequence to the next.
    #[inline]
    pub(crate) fn sequence_stride(self) -> usize {
        match self {
            RowSharing::AllSequences => 0,
            RowSharing::EachSequence { tokens } => tokens,
        }
    }
}

/// Rows indexed by sequence, token and head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    pub(super) cos: &'a [f32],
    pub(super) sin: &'a [f32],
    pub(crate) pairs: usize,
    /// The code that rotates by full-width rows, if these are; no other kernel may.
    pub(crate) full: Option<&'static FullWidth>,
    pub(super) ids: Option<Ids<'a>>,
    /// The first row: the index of its first value, or of its id if rows are gathered.
    pub(super) first: usize,
    /// From one sequence to the next, in values or ids. Stored, because the walk reads it for every line.
    pub(super) sequence_stride: usize,
    /// Values from the row of one token to that of the next.
    pub(super) stride: usize,
    /// Heads with a separate row.
    pub(super) heads: usize,
    /// Values from the row of one head to that of the next.
    pub(super) head_stride: usize,
}

/// A rotation, as a stage of a pass.
pub(crate) struct Rotation<'a> {
    pub(crate) rows: View<'a>,
    pub(crate) factors: Option<RowFactors>,
    pub(crate) input: Pairing,
    pub(crate) output: Pairing,
    pub(crate) window: Window,
}

/// The code that rotates by full-width rows. A call refers to it: programs without such rows do not link it.
#[derive(Debug)]
pub(crate) struct FullWidth {
    /// Rotates a tensor of f32 in place.
    pub(crate) in_place: InPlaceByFull,
    /// Rotates heads of this many channels in a tile, from a channel on. If the pairing changes, it writes beside the
    /// tile.
    pub(crate) tile: TileByFull,
}

type InPlaceByFull = fn((Proof, &Tuning), &mut BytesMut<'_>, &Rotation<'_>);
type TileByFull = fn(Proof, &Rotation<'_>, FullHeads<'_>, &mut [f32], &mut [f32]);

/// Heads in a tile that rotate by full-width rows.
#[derive(Clone, Copy)]
pub(crate) struct FullHeads<'a> {
    pub(crate) rows: &'a LineRows<'a>,
    pub(crate) head_dim: usize,
    /// The first rotated channel.
    pub(crate) first: usize,
}

impl<'a> View<'a> {
    /// The rows without pairs of a pass without a rotation.
    pub(crate) const NONE: View<'static> = View {
        cos: &[],
        sin: &[],
        pairs: 0,
        full: None,
        ids: None,
        first: 0,
        sequence_stride: 0,
        stride: 0,
        heads: 1,
        head_stride: 0,
    };

    /// Returns the rows of a range of the pairs. Without tokens there may be no values.
    pub(crate) fn of_pairs(self, pairs: Range<usize>) -> Self {
        let begin = self.values(pairs.start);
        let [cos, sin] = [self.cos, self.sin].map(|values| values.get(begin..).unwrap_or_default());
        View {
            cos,
            sin,
            pairs: pairs.len(),
            ..self
        }
    }

    /// Returns the number of cos (or sin) values of these pairs.
    #[inline(always)]
    pub(crate) fn values(&self, pairs: usize) -> usize {
        if self.full.is_some() {
            2 * pairs
        } else {
            pairs
        }
    }

    /// Returns the rows of a line, from their start.
    #[inline(always)]
    pub(crate) fn line_rows<'r>(
        &self,
        starts: Starts<'r>,
        factors: Option<&'r RowFactors>,
    ) -> LineRows<'r>
    where
        'a: 'r,
    {
        LineRows {
            cos: self.cos,
            sin: self.sin,
            pairs: self.pairs,
            starts,
            factors,
        }
    }

    /// Returns the values from the row of one head to that of the next, if each has its own.
    #[inline(always)]
    pub(crate) fn head_stride(&self) -> Option<usize> {
        (self.heads > 1).then_some(self.head_stride)
    }

    /// Returns the start of a token's row in cos and sin: of the shared row, or of the first head's.
    #[inline(always)]
    pub(crate) fn start(&self, batch: usize, token: usize) -> usize {
        let first = self.first.wrapping_add(batch * self.sequence_stride);
        row_start(self.ids, first, token, self.stride)
    }

    /// Returns the distance of tokens, in values or ids.
    #[inline(always)]
    fn token_step(&self) -> usize {
        match self.ids {
            Some(_) => 1,
            None => self.stride,
        }
    }

    /// Returns the starts of the rows of consecutive tokens, or of one token in consecutive sequences.
    #[inline(always)]
    pub(crate) fn starts(
        &self,
        [batch, token]: [usize; 2],
        of_sequences: bool,
        starts: &mut [usize],
    ) {
        let token_step = self.token_step();
        let first = self
            .first
            .wrapping_add(batch * self.sequence_stride + token * token_step);
        let step = if of_sequences {
            self.sequence_stride
        } else {
            token_step
        };
        for (index, start) in starts.iter_mut().enumerate() {
            *start = row_start(self.ids, first.wrapping_add(index * step), 0, self.stride);
        }
    }

    /// Returns the start of the row of a head.
    #[inline(always)]
    pub(crate) fn head_start(&self, [batch, token, head]: [usize; 3]) -> usize {
        self.start(batch, token) + head * self.head_stride
    }

    /// Returns the start of the row of the next head.
    #[inline(always)]
    pub(crate) fn next_head(&self, start: usize) -> usize {
        start + self.head_stride
    }

    /// Returns true if the rows of a token, for all heads, are the identity; the first pair usually decides.
    #[inline(always)]
    pub(crate) fn is_identity(&self, batch: usize, token: usize) -> bool {
        let start = self.start(batch, token);
        let first = (self.cos[start], self.sin[start]);
        first == (1.0, 0.0) && self.are_identity(batch, token)
    }

    #[inline(never)]
    fn are_identity(&self, batch: usize, token: usize) -> bool {
        (0..self.heads).all(|head| {
            let (cos, sin) = self.row(batch, token, head);
            cos.iter().all(|&cos| cos == 1.0) && sin.iter().all(|&sin| sin == 0.0)
        })
    }

    /// Returns the cos and sin of a head.
    pub(super) fn row(&self, batch: usize, token: usize, head: usize) -> (&'a [f32], &'a [f32]) {
        let at = self.head_start([batch, token, head]);
        let width = self.values(self.pairs);
        (&self.cos[at..][..width], &self.sin[at..][..width])
    }

    /// Rebases the rows so that they begin at a later sequence and token. The first row may then lie before the slice;
    /// rows before the sequence and token are never read.
    pub(crate) fn beginning_at(self, [batch, token]: [usize; 2]) -> Self {
        let before = batch * self.sequence_stride + token * self.stride;
        View {
            first: self.first.wrapping_sub(before),
            ..self
        }
    }

    /// Skips to a later sequence, token or head.
    pub(crate) fn skip(self, [batch, token, head]: [usize; 3]) -> Self {
        // The rows of a later head start later in the table, for every id.
        let begin = head * self.head_stride;
        let [cos, sin] = [self.cos, self.sin].map(|values| &values[begin..]);
        View {
            cos,
            sin,
            first: self
                .first
                .wrapping_add(batch * self.sequence_stride + token * self.token_step()),
            ..self
        }
    }
}

/// Returns the start of the row of a token. `first` is the start of the first token's row, in values; for gathered
/// rows, the index of its id.
#[inline(always)]
pub(super) fn row_start(ids: Option<Ids<'_>>, first: usize, token: usize, stride: usize) -> usize {
    let Some(ids) = ids else {
        return first.wrapping_add(token * stride);
    };
    // `gather` has checked that every id is inside the table.
    ids.at(first + token) as usize * stride
}
