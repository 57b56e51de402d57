//! Rotations that make their rows on the way: a block of tokens at a time, on the stack.

use crate::axes::RowSource;
use crate::describe::frequencies::source::{FillRows, RowKind};
use crate::describe::positions::ResolvedPositions;
use crate::describe::rows::RowSharing;
use crate::describe::tensor::BytesMut;
use crate::kernel::element::Element;
use crate::kernel::elements::InPlaceKernels;
use crate::pass::walk::parts;
use crate::{Error, IntoPositions, Positions, Rope, Rows, Shape, TensorMut};

/// Values of the rows that [`Rope::rotate_at`] keeps at a time.
const STACK: usize = 2048;

/// The same for a call with few rows: two of 128 channels.
const SMALL_STACK: usize = 256;

/// Aligned to a cache line: a vector load that crosses two costs twice as much.
#[repr(align(64))]
struct StackRows<const LEN: usize>([f32; LEN]);

/// Rows that are made on the way, found to fit the tensor.
pub(crate) struct RowsToMake<'a> {
    frequencies: &'a (dyn FillRows + Sync),
    kind: RowKind,
    positions: ResolvedPositions<'a>,
    sharing: RowSharing,
}

impl Rope {
    /// Rotates as [`Rope::rotate`] does, making the rows itself, a block of tokens at a time, on the stack (8 KiB; 17
    /// for heads of at most 64 channels): no table and no allocator. There are as many positions as rows would have to
    /// be: one per token, or one per token of every sequence. Frequencies of each head
    /// ([`MixedFrequencies`](crate::axes::MixedFrequencies)) make rows of each head.
    ///
    /// The bits equal those of [`Rope::rotate`] by rows that were made before. With 32 heads it takes little longer
    /// than with ready rows; with few, ready rows that several layers share are faster. Rows of each head take longer
    /// to make than the rotation: where frequencies stay the same, keep them.
    ///
    /// # Errors
    ///
    /// [`Error::RotaryDimOnStack`] beyond 2048 rotated channels; [`Error::PositionsPerAxis`] and [`Error::Coordinate`]
    /// as [`Frequencies::rows`](crate::Frequencies::rows); [`Error::RowHeads`] unless the frequencies are of one head
    /// or of the tensor's; those of [`Rope::rotate`].
    pub fn rotate_at<'p, E: Element>(
        &self,
        x: &mut TensorMut<'_, E>,
        frequencies: &impl RowSource,
        positions: impl IntoPositions<'p>,
    ) -> Result<(), Error> {
        self.rotate_bytes_at(
            x.bytes_mut(),
            E::IN_PLACE,
            frequencies.source().0,
            positions.into_positions(),
        )
    }

    #[inline(never)]
    fn rotate_bytes_at(
        &self,
        x: BytesMut<'_>,
        element: &'static InPlaceKernels,
        frequencies: &(dyn FillRows + Sync),
        positions: Positions<'_>,
    ) -> Result<(), Error> {
        let rows = self.check_at(x.layout.shape(), frequencies, positions)?;
        self.run_at(x, element, &rows, [0; 3]);
        Ok(())
    }

    pub(crate) fn check_at<'f>(
        &self,
        shape: Shape,
        frequencies: &'f (dyn FillRows + Sync),
        positions: Positions<'f>,
    ) -> Result<RowsToMake<'f>, Error> {
        let kind = frequencies.kind();
        let (rotary_dim, limit) = (kind.rotary_dim, STACK);
        if rotary_dim > limit {
            return Err(Error::RotaryDimOnStack { rotary_dim, limit });
        }
        let positions = frequencies.resolve(positions)?;
        let sharing = self.check_in_place_rows(shape, rotary_dim, positions.tokens())?;
        let (rows, heads) = (kind.heads, shape.heads);
        if rows != 1 && rows != heads {
            return Err(Error::RowHeads { rows, heads });
        }
        Ok(RowsToMake {
            frequencies,
            kind,
            positions,
            sharing,
        })
    }

    /// Rotates the part of a tensor that begins at a sequence, a token and a head.
    pub(crate) fn run_at(
        &self,
        x: BytesMut<'_>,
        element: &'static InPlaceKernels,
        rows: &RowsToMake<'_>,
        origin: [usize; 3],
    ) {
        if x.layout.shape().is_empty() {
            return;
        }
        let RowsToMake {
            kind, positions, ..
        } = rows;
        // A decoding step has few rows; to clear the large block would cost as much as to make them.
        if positions.tokens() * kind.heads * kind.rotary_dim <= SMALL_STACK {
            let mut values = StackRows([0.0; SMALL_STACK]);
            self.run_blocks_at(x, element, rows, origin, &mut values.0);
        } else {
            let mut values = StackRows([0.0; STACK]);
            self.run_blocks_at(x, element, rows, origin, &mut values.0);
        }
    }

    /// Makes as many rows as fit, rotates their part of the tensor, and so on. Not inlined: each stack would have
    /// it, 4 KB.
    #[inline(never)]
    fn run_blocks_at(
        &self,
        mut x: BytesMut<'_>,
        element: &'static InPlaceKernels,
        rows: &RowsToMake<'_>,
        [first_sequence, first_token, first_head]: [usize; 3],
        values: &mut [f32],
    ) {
        let RowsToMake {
            frequencies,
            kind,
            ref positions,
            sharing,
        } = *rows;
        let rotary_dim = kind.rotary_dim;
        let shape = x.layout.shape();
        let fitting = values.len() / rotary_dim;
        // Heads that share a row go together; of those with rows of their own as many as have room.
        let (heads, row_heads) = match kind.heads {
            1 => (shape.heads, 1),
            _ => (fitting, shape.heads.min(fitting)),
        };
        let fitting = fitting / row_heads;
        // Sequences that share their rows go together; of those with rows of their own as many as have room, if all of
        // their tokens are here, so that their rows follow one another.
        let sequences = match sharing {
            RowSharing::AllSequences => shape.batch,
            RowSharing::EachSequence { tokens } if tokens == shape.tokens => fitting / tokens,
            RowSharing::EachSequence { .. } => 1,
        };
        parts(
            shape,
            [sequences, fitting, heads],
            |[batch, tokens, heads]| {
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
                let rows = Rows::computed(values, rotary_dim).of_heads(row_heads);
                let layout = x.layout.part_of([batch, tokens, heads]);
                let (mut x, rows) = (x.part(&layout), rows.view(sharing_part));
                self.run_in_place(&mut x, element, &rows, kind.attention_factor);
            },
        );
    }
}
