//! Rows as the kernel finds them: by sequence, token and head.

use super::{Rows, SequenceStride};
use crate::execute::full::FullWidth;
use crate::kernel::line::{LineRows, Starts};
use crate::{Error, Ids, Shape};

/// Whose the rows are, of the sequences of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowSharing {
    /// One row for each token: all sequences share them.
    AllSequences,
    /// One row for each of the tokens of each sequence, sequence by sequence.
    EachSequence { tokens: usize },
}

impl RowSharing {
    /// That of as many rows as fit a tensor.
    pub(crate) fn of(rows: usize, shape: Shape) -> Self {
        match shape.tokens {
            tokens if rows == tokens => RowSharing::AllSequences,
            tokens => RowSharing::EachSequence { tokens },
        }
    }

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
    cos: &'a [f32],
    sin: &'a [f32],
    pairs: usize,
    /// What rotates by full-width rows, if these are.
    full: Option<&'static FullWidth>,
    ids: Option<Ids<'a>>,
    /// The first row: where it starts, in values; of what was gathered, its id's index.
    first: usize,
    /// From one sequence to the next, in values, or in ids: found once, because the walk needs it for every line.
    sequence_stride: usize,
    /// Values from the row of one token to that of the next.
    stride: usize,
    /// Heads that have a row each.
    heads: usize,
    /// Values from the row of one head to that of the next.
    head_stride: usize,
}

impl Rows<'_> {
    /// What the kernel reads.
    #[inline]
    pub(crate) fn view(&self, sharing: RowSharing) -> View<'_> {
        let (cos, sin) = self.slices();
        let sequence_stride = match (sharing, self.sequences, &self.ids) {
            (RowSharing::AllSequences, ..) => 0,
            (_, Some(sequences), _) => sequences.stride,
            (RowSharing::EachSequence { tokens }, None, Some(_)) => tokens,
            (RowSharing::EachSequence { tokens }, None, None) => tokens.saturating_mul(self.stride),
        };
        View {
            cos,
            sin,
            pairs: self.pairs,
            full: self.full,
            ids: self.ids,
            first: self.first_id,
            sequence_stride,
            stride: self.stride,
            heads: self.heads,
            head_stride: self.head_stride,
        }
    }

    /// The row, if there is one and all heads share it: no [`View`] is made for that. (Inlined: see
    /// [`Addresses`](crate::walk::Addresses).)
    #[inline(always)]
    pub(crate) fn only(&self) -> Option<LineRows<'_>> {
        if (self.len, self.heads) != (1, 1) || self.full.is_some() || self.sequences.is_some() {
            return None;
        }
        let (cos, sin) = self.slices();
        Some(LineRows {
            cos,
            sin,
            pairs: self.pairs,
            starts: Starts::Shared(row_start(self.ids, self.first_id, 0, self.stride)),
            factors: None,
        })
    }

    /// Whether rows of each head are those of the heads of a tensor.
    #[inline]
    pub(crate) fn check_heads(&self, shape: Shape) -> Result<(), Error> {
        let (rows, heads) = (self.heads, shape.heads);
        if rows > 1 && rows != heads {
            return Err(Error::RowHeads { rows, heads });
        }
        Ok(())
    }

    /// The same, and whether rows that lie as sequences are those of the sequences of the tensor.
    #[inline]
    pub(crate) fn check_places(&self, shape: Shape, sharing: RowSharing) -> Result<(), Error> {
        self.check_heads(shape)?;
        match (self.sequences, sharing) {
            (Some(SequenceStride { tokens, .. }), RowSharing::EachSequence { tokens: of })
                if tokens == of =>
            {
                Ok(())
            }
            _ => self.at_equal_distances(),
        }
    }
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

    /// All cos and all sin, which rows start in.
    #[inline(always)]
    pub(crate) fn values(&self) -> (&'a [f32], &'a [f32]) {
        (self.cos, self.sin)
    }

    /// Values from the row of a head to that of the next, if each has its own.
    #[inline(always)]
    pub(crate) fn head_stride(&self) -> Option<usize> {
        (self.heads > 1).then_some(self.head_stride)
    }

    /// Where the row of a token starts, in cos and in sin: that which its heads share, or that of the first.
    #[inline(always)]
    pub(crate) fn start(&self, batch: usize, token: usize) -> usize {
        let first = self.first + batch * self.sequence_stride;
        row_start(self.ids, first, token, self.stride)
    }

    /// Where the rows of consecutive tokens start, from one on; or those of its place in consecutive sequences.
    #[inline(always)]
    pub(crate) fn starts(
        &self,
        [batch, token]: [usize; 2],
        of_sequences: bool,
        starts: &mut [usize],
    ) {
        match self.ids {
            None => {
                let step = if of_sequences {
                    self.sequence_stride
                } else {
                    self.stride
                };
                let first = self.start(batch, token);
                for (index, start) in starts.iter_mut().enumerate() {
                    *start = first + index * step;
                }
            }
            Some(_) => {
                for (index, start) in starts.iter_mut().enumerate() {
                    *start = if of_sequences {
                        self.start(batch + index, token)
                    } else {
                        self.start(batch, token + index)
                    };
                }
            }
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

    /// The same rows, seen from a later sequence, token or head.
    pub(crate) fn skip(self, [batch, token, head]: [usize; 3]) -> Self {
        let tokens = match self.ids {
            Some(_) => token,
            None => token * self.stride,
        };
        // Rows of heads begin as much later in their table, wherever an id finds it.
        let begin = head * self.head_stride;
        let [cos, sin] = [self.cos, self.sin].map(|values| &values[begin..]);
        View {
            cos,
            sin,
            first: self.first + batch * self.sequence_stride + tokens,
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
fn row_start(ids: Option<Ids<'_>>, first: usize, token: usize, stride: usize) -> usize {
    let row = match ids {
        None => return first + token * stride,
        // `gather` has found every id inside the table.
        Some(Ids::I32(ids)) => ids[first + token] as usize,
        Some(Ids::I64(ids)) => ids[first + token] as usize,
        Some(Ids::U32(ids)) => ids[first + token] as usize,
        Some(Ids::U64(ids)) => ids[first + token] as usize,
        Some(Ids::Usize(ids)) => ids[first + token],
    };
    row * stride
}
