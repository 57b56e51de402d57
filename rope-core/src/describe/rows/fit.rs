//! Rows checked against a tensor, and converted to the kernel's view.

use super::view::{RowSharing, View, row_start};
use super::{Rows, SequenceStride};
use crate::error::RowsError;
use crate::kernel::line::{LineRows, Starts};
use crate::{Error, Shape};

impl Rows<'_> {
    /// Returns the rows as the kernel reads them.
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

    /// Returns the row if it is the only one and all heads share it: such a call makes no [`View`]. Inlined for the
    /// reason of [`Addresses`](crate::describe::address::Addresses).
    #[inline(always)]
    pub(crate) fn only(&self) -> Option<LineRows<'_>> {
        if (self.len, self.heads) != (1, 1) || self.full.is_some() || self.sequences.is_some() {
            return None;
        }
        let start = row_start(self.ids, self.first_id, 0, self.stride);
        let (cos, sin) = self.slices();
        Some(LineRows {
            cos,
            sin,
            pairs: self.pairs,
            starts: Starts::Shared(start),
            factors: None,
        })
    }

    /// Checks that rows per head match the heads of a tensor.
    #[inline]
    pub(crate) fn check_heads(&self, shape: Shape) -> Result<(), Error> {
        let (rows, heads) = (self.heads, shape.heads);
        if rows > 1 && rows != heads {
            return Err(Error::Rows(RowsError::Heads { rows, heads }));
        }
        Ok(())
    }

    /// Checks heads, and that sequences of rows that are apart match the sequences of the tensor.
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

    /// Checks these rows against tensors of that shape: the checks of [`Rope::rotate`](crate::Rope::rotate) that do not
    /// depend on the plan.
    ///
    /// # Errors
    ///
    /// [`RowsError::RotaryDimExceedsHead`] if rows rotate more channels than a head has; [`RowsError::Count`] unless
    /// there is one row per token, or one per token of every sequence; [`RowsError::Heads`] if rows are for another
    /// number of heads; [`RowsError::Sequences`] if strided rows are for other sequences.
    pub fn check_shape(&self, shape: impl Into<Shape>) -> Result<(), Error> {
        fit(shape.into(), self).map(drop)
    }
}

/// Checks rows against a tensor; returns how sequences share them.
#[inline]
pub(crate) fn fit(shape: Shape, rows: &Rows<'_>) -> Result<RowSharing, Error> {
    let sharing = check(shape, rows.rotary_dim(), rows.len())?;
    rows.check_places(shape, sharing)?;
    Ok(sharing)
}

/// Checks the number and width of rows against a tensor; returns how sequences share them.
#[inline]
pub(crate) fn check(shape: Shape, rotary_dim: usize, rows: usize) -> Result<RowSharing, Error> {
    let Shape {
        batch,
        tokens,
        head_dim,
        ..
    } = shape;
    if rotary_dim > head_dim {
        return Err(Error::Rows(RowsError::RotaryDimExceedsHead {
            rotary_dim,
            head_dim,
        }));
    }
    if rows == tokens {
        Ok(RowSharing::AllSequences)
    } else if Some(rows) == batch.checked_mul(tokens) {
        Ok(RowSharing::EachSequence { tokens })
    } else {
        Err(Error::Rows(RowsError::Count {
            rows,
            tokens,
            batch,
        }))
    }
}
