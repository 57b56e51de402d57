//! Rows made within a call: a block of tokens at a time, on the stack.

use core::ops::Range;

use crate::describe::frequencies::TokenAngles;
use crate::describe::rows::{RowSharing, Rows, check};
use crate::error::{FrequenciesError, RowsError};
use crate::pass::PartOfCall;
use crate::pass::walk::parts;
use crate::{Error, Shape};

/// Values of the rows that a call keeps at a time.
const STACK: usize = 2048;

/// Values for a call with few rows: two of 128 channels.
const SMALL_STACK: usize = 256;

/// Values aligned to a cache line: a vector load across two lines costs twice as much.
#[repr(align(64))]
struct StackRows<const LEN: usize>([f32; LEN]);

/// Angles from which a call makes rows. A trait object, so that programs with ready rows do not link the maker.
pub(crate) trait RowMaker {
    fn angles(&self) -> &TokenAngles<'_>;

    fn is_same(&self, first: usize, second: usize) -> bool;

    /// Checks the angles against the heads of a pass, whose parts have all heads of a token.
    fn check(&self, shape: Shape) -> Result<RowSharing, Error>;

    /// Makes the checked rows of a part of a call, and visits block after block.
    fn each(&self, sharing: RowSharing, part: &PartOfCall, visit: &mut VisitRows<'_>);
}

impl RowMaker for TokenAngles<'_> {
    fn angles(&self) -> &TokenAngles<'_> {
        self
    }

    fn is_same(&self, first: usize, second: usize) -> bool {
        self.is_same(first, second)
    }

    fn check(&self, shape: Shape) -> Result<RowSharing, Error> {
        let rows = RowsToMake::new(self, shape, check)?;
        let kind = self.kind();
        check_on_stack(kind.rotary_dim, STACK / kind.heads.max(1))?;
        Ok(rows.sharing)
    }

    fn each(&self, sharing: RowSharing, part: &PartOfCall, visit: &mut VisitRows<'_>) {
        let rows = RowsToMake {
            angles: self,
            sharing,
        };
        rows.each(part.shape, part.origin, visit);
    }
}

/// Refuses rows of more channels than a call keeps on the stack.
fn check_on_stack(rotary_dim: usize, limit: usize) -> Result<(), Error> {
    if rotary_dim > limit {
        return Err(Error::Frequencies(FrequenciesError::RotaryDimOnStack {
            rotary_dim,
            limit,
        }));
    }
    Ok(())
}

/// A visitor of the rows of a block. Receives the sharing of rows, and the sequences, tokens and heads of the block.
pub(super) type VisitRows<'v> = dyn FnMut(&Rows<'_>, RowSharing, [Range<usize>; 3]) + 'v;

/// Rows to be made within a call, checked against the tensor.
#[derive(Clone, Copy)]
pub(crate) struct RowsToMake<'a> {
    angles: &'a TokenAngles<'a>,
    sharing: RowSharing,
}

impl<'a> RowsToMake<'a> {
    /// Checks angles against a tensor. `fit` checks the width and the number of the rows.
    pub(super) fn new(
        angles: &'a TokenAngles<'a>,
        shape: Shape,
        fit: impl FnOnce(Shape, usize, usize) -> Result<RowSharing, Error>,
    ) -> Result<Self, Error> {
        let kind = angles.kind();
        check_on_stack(kind.rotary_dim, STACK)?;
        let sharing = fit(shape, kind.rotary_dim, angles.tokens())?;
        let (rows, heads) = (kind.heads, shape.heads);
        if rows != 1 && rows != heads {
            return Err(Error::Rows(RowsError::Heads { rows, heads }));
        }
        Ok(RowsToMake { angles, sharing })
    }

    /// Makes the rows of a tensor, or of a part that begins at a sequence, a token and a head, and visits block after
    /// block.
    pub(super) fn each(&self, shape: Shape, origin: [usize; 3], visit: &mut VisitRows<'_>) {
        if shape.is_empty() {
            return;
        }
        let kind = self.angles.kind();
        // A decoding step has few rows; clearing the large block would cost as much as making them.
        if self.angles.tokens() * kind.heads * kind.rotary_dim <= SMALL_STACK {
            self.blocks(shape, origin, &mut StackRows([0.0; SMALL_STACK]).0, visit);
        } else {
            self.blocks(shape, origin, &mut StackRows([0.0; STACK]).0, visit);
        }
    }

    /// Not inlined: each stack size would have a copy of 4 KB.
    #[inline(never)]
    fn blocks(
        &self,
        shape: Shape,
        [first_sequence, first_token, first_head]: [usize; 3],
        values: &mut [f32],
        visit: &mut VisitRows<'_>,
    ) {
        let RowsToMake { angles, sharing } = *self;
        let kind = angles.kind();
        let rotary_dim = kind.rotary_dim;
        let fitting = values.len() / rotary_dim;
        // Heads that share a row go together; heads with separate rows go as many at a time as have room.
        let (heads, row_heads) = match kind.heads {
            1 => (shape.heads, 1),
            _ => (fitting, shape.heads.min(fitting)),
        };
        let fitting = fitting / row_heads;
        // Sequences that share rows go together. Sequences with separate rows go as many at a time as have room, if all
        // of their tokens are in this part: then their rows are contiguous.
        let sequences = match sharing {
            RowSharing::AllSequences => shape.batch,
            RowSharing::EachSequence { tokens } if tokens == shape.tokens => fitting / tokens,
            RowSharing::EachSequence { .. } => 1,
        };
        let each: &mut dyn FnMut(_) = &mut |[batch, tokens, heads]: [Range<usize>; 3]| {
            let (rows, sharing_part) = match sharing {
                RowSharing::AllSequences => (tokens.len(), sharing),
                RowSharing::EachSequence { .. } => {
                    let tokens = tokens.len();
                    (batch.len() * tokens, RowSharing::EachSequence { tokens })
                }
            };
            let sequence = first_sequence + batch.start;
            let first_row = sequence * sharing.sequence_stride() + first_token + tokens.start;
            let own = match kind.heads {
                1 => 0..1,
                _ => first_head + heads.start..first_head + heads.end,
            };
            let row_heads = own.len();
            let values = &mut values[..rows * row_heads * rotary_dim];
            angles.fill(first_row, own, values);
            let rows = Rows::computed(&*values, rotary_dim).of_heads(row_heads);
            visit(&rows, sharing_part, [batch, tokens, heads]);
        };
        parts(shape, [sequences, fitting, heads], each);
    }
}
