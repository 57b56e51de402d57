//! Rows as the kernel finds them: by sequence, token and head; and what rotates by them.

use crate::describe::tensor::BytesMut;
use crate::kernel::elements::ElementType;
use crate::kernel::line::{LineRows, Starts};
use crate::kernel::rotation::RowFactors;
use crate::proof::Proof;
use crate::tuning::Tuning;
use crate::{Ids, Pairing};

/// Whose the rows are, of the sequences of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowSharing {
    /// One row for each token: all sequences share them.
    AllSequences,
    /// One row for each of the tokens of each sequence, sequence by sequence.
    EachSequence { tokens: usize },
}

impl RowSharing {
    /// Rows from one sequence to the next.
    #[inline]
    pub(crate) fn sequence_stride(self) -> usize {
        match self {
            RowSharing::AllSequences => 0,
            RowSharing::EachSequence { tokens } => tokens,
        }
    }
}

/// Rows as the kernel finds them by sequence, token and head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    pub(super) cos: &'a [f32],
    pub(super) sin: &'a [f32],
    pub(super) pairs: usize,
    /// What rotates by full-width rows, if these are.
    pub(super) full: Option<&'static FullWidth>,
    pub(super) ids: Option<Ids<'a>>,
    /// The first row: where it starts, in values; of what was gathered, its id's index.
    pub(super) first: usize,
    /// From one sequence to the next, in values, or in ids: found once, because the walk needs it for every line.
    pub(super) sequence_stride: usize,
    /// Values from the row of one token to that of the next.
    pub(super) stride: usize,
    /// Heads that have a row each.
    pub(super) heads: usize,
    /// Values from the row of one head to that of the next.
    pub(super) head_stride: usize,
}

/// A rotation: the stage of a pass.
pub(crate) struct Rotation<'a> {
    pub(crate) rows: View<'a>,
    pub(crate) factors: Option<RowFactors>,
    pub(crate) input: Pairing,
    pub(crate) output: Pairing,
    /// The first channel that rotates.
    pub(crate) first_channel: usize,
}

/// What rotates by full-width rows. They refer to it, so that programs without such rows do not link it.
#[derive(Debug)]
pub(crate) struct FullWidth {
    /// Rotates a tensor in place.
    pub(crate) in_place: InPlaceByFull,
    /// Rotates heads of so many channels in a tile, from a channel on, or beside it, where the pairing changes: tells
    /// which.
    pub(crate) tile: TileByFull,
}

type InPlaceByFull =
    fn((Proof, &'static Tuning), bool, &mut BytesMut<'_>, ElementType, Rotation<'_>);
type TileByFull = fn(Proof, &Rotation<'_>, FullHeads<'_>, &mut [f32], &mut [f32]) -> bool;

/// Heads in a tile, which rotate by full-width rows.
#[derive(Clone, Copy)]
pub(crate) struct FullHeads<'a> {
    pub(crate) rows: &'a LineRows<'a>,
    pub(crate) head_dim: usize,
    /// The first channel that rotates.
    pub(crate) first: usize,
}

impl<'a> View<'a> {
    /// Rows without pairs: those of a pass that rotates nothing.
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

    /// Rows that rotate no channel.
    pub(crate) fn without_pairs(self) -> Self {
        View { pairs: 0, ..self }
    }

    /// Pairs of a row.
    #[inline(always)]
    pub(crate) fn pairs(&self) -> usize {
        self.pairs
    }

    /// What rotates by these rows, if they are full-width: no other kernel may.
    #[inline(always)]
    pub(crate) fn full_width(&self) -> Option<&'static FullWidth> {
        self.full
    }

    /// The rows of a line, which start there.
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

    /// Values from the row of a head to that of the next, if each has its own.
    #[inline(always)]
    pub(crate) fn head_stride(&self) -> Option<usize> {
        (self.heads > 1).then_some(self.head_stride)
    }

    /// Where the row of a token starts, in cos and in sin: that which its heads share, or that of the first.
    #[inline(always)]
    pub(crate) fn start(&self, batch: usize, token: usize) -> usize {
        let first = self.first.wrapping_add(batch * self.sequence_stride);
        row_start(self.ids, first, token, self.stride)
    }

    /// From one token to the next, in values, or in ids.
    #[inline(always)]
    fn token_step(&self) -> usize {
        match self.ids {
            Some(_) => 1,
            None => self.stride,
        }
    }

    /// Where the rows of consecutive tokens start, from one on; or those of its place in consecutive sequences.
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

    /// Where the row of a head of a token starts.
    #[inline(always)]
    pub(crate) fn head_start(&self, [batch, token, head]: [usize; 3]) -> usize {
        self.start(batch, token) + head * self.head_stride
    }

    /// Where the row of the next head starts.
    #[inline(always)]
    pub(crate) fn next_head(&self, start: usize) -> usize {
        start + self.head_stride
    }

    /// Whether the rows of a token, those of all its heads, are the identity; the first pair usually decides.
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

    /// cos and sin of a head of a token.
    pub(super) fn row(&self, batch: usize, token: usize, head: usize) -> (&'a [f32], &'a [f32]) {
        let at = self.start(batch, token) + head * self.head_stride;
        let width = width(self.pairs, self.full);
        (&self.cos[at..][..width], &self.sin[at..][..width])
    }

    /// The same rows, which begin with those of a later sequence and token. (The first row may so lie before the slice;
    /// those before the sequence and the token are never read.)
    pub(crate) fn beginning_at(self, [batch, token]: [usize; 2]) -> Self {
        let before = batch * self.sequence_stride + token * self.stride;
        View {
            first: self.first.wrapping_sub(before),
            ..self
        }
    }

    /// The same rows, seen from a later sequence, token or head.
    pub(crate) fn skip(self, [batch, token, head]: [usize; 3]) -> Self {
        // Rows of heads begin as much later in their table, wherever an id finds it.
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

/// Values of a row in cos, and in sin.
#[inline(always)]
pub(super) fn width(pairs: usize, full: Option<&'static FullWidth>) -> usize {
    if full.is_some() { 2 * pairs } else { pairs }
}

/// Where the row of a token starts. `first` is the first token's row, counted in values; of gathered rows, the index of
/// its id.
#[inline(always)]
pub(super) fn row_start(ids: Option<Ids<'_>>, first: usize, token: usize, stride: usize) -> usize {
    let row = match ids {
        None => return first.wrapping_add(token * stride),
        // `gather` has found every id inside the table.
        Some(Ids::I32(ids)) => ids[first + token] as usize,
        Some(Ids::I64(ids)) => ids[first + token] as usize,
        Some(Ids::U32(ids)) => ids[first + token] as usize,
        Some(Ids::U64(ids)) => ids[first + token] as usize,
        Some(Ids::Usize(ids)) => ids[first + token],
    };
    row * stride
}
