//! Rows made within a call: a block of tokens at a time, on the stack.

use core::ops::Range;

use crate::describe::frequencies::RowsAt;
use crate::describe::frequencies::source::{FillRows, RowKind};
use crate::describe::positions::ResolvedPositions;
use crate::describe::rows::{RowSharing, Rows, check};
use crate::describe::tensor::BytesMut;
use crate::error::{FrequenciesError, RowsError};
use crate::kernel::elements::InPlaceKernels;
use crate::pass::PartOfCall;
use crate::pass::walk::parts;
use crate::{Error, Rope, Shape};

/// Values of the rows that a call keeps at a time.
const STACK: usize = 2048;

/// Values for a call with few rows: two of 128 channels.
const SMALL_STACK: usize = 256;

/// Values aligned to a cache line: a vector load across two lines costs twice as much.
#[repr(align(64))]
struct StackRows<const LEN: usize>([f32; LEN]);

/// The functions that make rows. A call refers to them, so that programs with ready rows do not link them.
pub(crate) struct MakeFns {
    /// Checks frequencies at positions against the heads of a pass.
    pub(super) check: fn(&RowsAt<'_>, Shape) -> Result<RowSharing, Error>,
    pub(super) same: fn(&RowsAt<'_>, usize, usize) -> bool,
    /// Makes the checked rows, and visits block after block.
    pub(super) each: fn(&RowsAt<'_>, &PartOfCall, &mut VisitRows<'_>),
}

pub(super) static MAKE: MakeFns = MakeFns {
    check: |at, shape| Ok(RowsToMake::of_whole_tokens(at, shape)?.sharing),
    same: |at, first, second| at.is_same(first, second),
    each: |at, part, visit| match RowsToMake::of_whole_tokens(at, part.call) {
        Ok(rows) => rows.each(part.shape, part.origin, visit),
        Err(_) => unreachable!("positions are checked before a pass is made"),
    },
};

/// A visitor of the rows of a block. Receives the sharing of rows, and the sequences, tokens and heads of the block.
pub(super) type VisitRows<'v> = dyn FnMut(&Rows<'_>, RowSharing, [Range<usize>; 3]) + 'v;

/// Rows to be made within a call, checked against the tensor.
#[derive(Clone, Copy)]
pub(crate) struct RowsToMake<'a> {
    frequencies: &'a (dyn FillRows + Sync),
    kind: RowKind,
    positions: ResolvedPositions<'a>,
    sharing: RowSharing,
}

impl<'a> RowsToMake<'a> {
    /// Checks frequencies at positions against a tensor. `fit` checks the width and the number of the rows.
    fn new(
        at: &RowsAt<'a>,
        shape: Shape,
        fit: impl FnOnce(Shape, usize, usize) -> Result<RowSharing, Error>,
    ) -> Result<Self, Error> {
        let RowsAt {
            frequencies,
            positions,
        } = *at;
        let kind = frequencies.kind();
        let (rotary_dim, limit) = (kind.rotary_dim, STACK);
        if rotary_dim > limit {
            return Err(Error::Frequencies(FrequenciesError::RotaryDimOnStack {
                rotary_dim,
                limit,
            }));
        }
        let positions = positions?;
        let sharing = fit(shape, rotary_dim, positions.tokens())?;
        let (rows, heads) = (kind.heads, shape.heads);
        if rows != 1 && rows != heads {
            return Err(Error::Rows(RowsError::Heads { rows, heads }));
        }
        Ok(RowsToMake {
            frequencies,
            kind,
            positions,
            sharing,
        })
    }

    /// Checks frequencies at positions for a pass, whose parts have all heads of a token.
    fn of_whole_tokens(at: &RowsAt<'a>, shape: Shape) -> Result<Self, Error> {
        let rows = RowsToMake::new(at, shape, check)?;
        let (rotary_dim, limit) = (rows.kind.rotary_dim, STACK / rows.kind.heads.max(1));
        if rotary_dim > limit {
            return Err(Error::Frequencies(FrequenciesError::RotaryDimOnStack {
                rotary_dim,
                limit,
            }));
        }
        Ok(rows)
    }

    pub(super) fn attention_factor(&self) -> f64 {
        self.kind.attention_factor
    }

    /// Makes the rows of a tensor, or of a part that begins at a sequence, a token and a head, and visits block after
    /// block.
    pub(crate) fn each(&self, shape: Shape, origin: [usize; 3], visit: &mut VisitRows<'_>) {
        if shape.is_empty() {
            return;
        }
        let kind = &self.kind;
        // A decoding step has few rows; clearing the large block would cost as much as making them.
        if self.positions.tokens() * kind.heads * kind.rotary_dim <= SMALL_STACK {
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
        let RowsToMake {
            frequencies,
            kind,
            ref positions,
            sharing,
        } = *self;
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
            frequencies.fill(positions, first_row, own, values);
            let rows = Rows::computed(&*values, rotary_dim).of_heads(row_heads);
            visit(&rows, sharing_part, [batch, tokens, heads]);
        };
        parts(shape, [sequences, fitting, heads], each);
    }
}

impl Rope {
    #[inline(never)]
    pub(super) fn rotate_bytes_at(
        &self,
        mut x: BytesMut<'_>,
        element: &'static InPlaceKernels,
        at: &RowsAt<'_>,
    ) -> Result<(), Error> {
        let windowed = match self.detour.map(|detour| detour.0.at) {
            Some(Some(spread)) => return spread(self, x, element, at),
            Some(None) => Some(self.window.layout(x.layout, at.rotary_dim())?),
            None => {
                self.window.check_head(x.layout.shape().head_dim)?;
                None
            }
        };
        let layout = windowed.as_ref().unwrap_or(x.layout);
        let rows = self.check_at(layout.shape(), at)?;
        self.run_at(x.part(layout), element, &rows, [0; 3]);
        Ok(())
    }

    pub(super) fn check_at<'f>(
        &self,
        shape: Shape,
        at: &RowsAt<'f>,
    ) -> Result<RowsToMake<'f>, Error> {
        RowsToMake::new(at, shape, |shape, rotary_dim, rows| {
            self.check_in_place_rows(shape, rotary_dim, rows)
        })
    }

    /// Rotates the part of a tensor that begins at a sequence, a token and a head, and its heads with the window.
    pub(super) fn run_at(
        &self,
        mut x: BytesMut<'_>,
        element: &'static InPlaceKernels,
        rows: &RowsToMake<'_>,
        origin: [usize; 3],
    ) {
        let factor = rows.attention_factor();
        rows.each(x.layout.shape(), origin, &mut |rows, sharing, part| {
            let layout = x.layout.part_of(part);
            let (mut x, rows) = (x.part(&layout), rows.view(sharing));
            self.run_in_window(&mut x, element, &rows, factor);
        });
    }
}
