//! Rows computed within a call: frequencies of either kind at positions.

#[cfg(feature = "alloc")]
use alloc::vec::Vec;
use core::ops::Range;

use crate::base::debug::debug;
use crate::base::error::Result;
#[cfg(feature = "alloc")]
use crate::base::memory::out_of_memory;
use crate::base::memory::{MaybeOwned, part_of_storage};
use crate::describe::positions::ResolvedPositions;
use crate::error::{CacheError, FrequenciesError};
use crate::{Error, Rows};

/// Frequencies at positions: angles whose rows the call computes itself, a block of tokens at a time, on the stack (8
/// KiB; 17 KiB for heads of at most 64 channels). Needs no table and no allocator.
///
/// Made by [`Frequencies::at`](crate::Frequencies::at) and [`MixedFrequencies::at`](crate::axes::MixedFrequencies::at).
/// The number of positions must be that of rows: one per token, or one per token of every sequence. The bits equal
/// those of rows made in advance. With 32 heads a call takes little longer than with ready rows. With few heads, ready
/// rows shared by several layers are faster. Rows per head take longer to compute than the rotation: keep them if the
/// frequencies do not change.
///
/// ```
/// # #[cfg(feature = "alloc")] {
/// use rope_core::{Frequencies, Pairing, Rope, Scaling, TensorMut};
///
/// let frequencies = Frequencies::new(64, 10_000.0, &Scaling::Default)?;
/// let mut q = [1.0_f32; 3 * 2 * 64];
/// let mut q = TensorMut::new(&mut q, [1, 3, 2, 64])?;
/// Rope::new(Pairing::Half).rotate(&mut q, &frequencies.at(7..10))?;
/// # }
/// # Ok::<(), rope_core::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct RowsAt<'a> {
    /// A trait object, so that a program links only the kinds of frequencies that it names.
    pub(crate) frequencies: &'a (dyn FillRows + Sync),
    /// The checked positions, or why the call will be refused: no part of a call checks them again.
    pub(crate) positions: Result<ResolvedPositions<'a>>,
}

impl RowsAt<'_> {
    pub(crate) fn rotary_dim(&self) -> usize {
        self.frequencies.kind().rotary_dim
    }

    pub(crate) fn attention_factor(&self) -> f64 {
        self.frequencies.kind().attention_factor
    }

    /// Returns true if two existing tokens have the same position on every axis, and so the same row.
    pub(crate) fn is_same(&self, first: usize, second: usize) -> bool {
        let positions = self.positions.as_ref();
        positions.is_ok_and(|positions| positions.is_same(first, second))
    }

    /// Refuses rows that would apply the attention factor twice to cached keys.
    pub(crate) fn check_moves(&self) -> Result<()> {
        match self.attention_factor() {
            1.0 => Ok(()),
            factor => Err(Error::Cache(CacheError::ShiftFactor { factor })),
        }
    }
}

debug!(RowsAt<'_>, |rows| positions: rows.positions);

/// The shape of the rows that frequencies make.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowKind {
    /// Heads with separate rows, or 1.
    pub(crate) heads: usize,
    pub(crate) rotary_dim: usize,
    pub(crate) attention_factor: f64,
}

impl RowKind {
    /// Returns the values of the rows of `tokens` tokens. `fill` computes them.
    #[cfg(feature = "alloc")]
    pub(super) fn values(self, tokens: usize, fill: impl FnOnce(&mut [f32])) -> Result<Vec<f32>> {
        let count = self.count(tokens)?;
        // The pages come zeroed from the system, so a table is written once, not twice.
        let mut values = bytemuck::allocation::try_zeroed_vec(count)
            .map_err(|()| out_of_memory::<f32>(count))?;
        fill(&mut values);
        Ok(values)
    }

    /// Returns the values of the rows of `tokens` tokens, in the caller's storage. `fill` computes them.
    pub(super) fn values_in(
        self,
        tokens: usize,
        storage: &mut [f32],
        fill: impl FnOnce(&mut [f32]),
    ) -> Result<&mut [f32]> {
        let values = part_of_storage(storage, "values of storage", self.count(tokens)?)?;
        fill(values);
        Ok(values)
    }

    /// Returns the rows with these values.
    pub(super) fn rows<'r>(self, values: impl Into<MaybeOwned<'r, f32>>) -> Result<Rows<'r>> {
        Rows::computed(values, self.rotary_dim)
            .of_heads(self.heads)
            .of_magnitude(self.attention_factor)
    }

    /// Returns the number of values of the rows of `tokens` tokens.
    fn count(self, tokens: usize) -> Result<usize> {
        // The most values that a slice can have.
        const MOST: usize = isize::MAX as usize / size_of::<f32>();
        let (tokens, rotary_dim) = (tokens.saturating_mul(self.heads), self.rotary_dim);
        let values = tokens.checked_mul(rotary_dim);
        values
            .filter(|&values| values <= MOST)
            .ok_or(Error::Frequencies(FrequenciesError::RowsTooLong {
                tokens,
                rotary_dim,
            }))
    }
}

/// Frequencies of either kind, as used by a call.
pub(crate) trait FillRows {
    fn kind(&self) -> RowKind;
    /// Fills `[tokens, heads, [cos | sin]]` of some heads, from a token on.
    fn fill(
        &self,
        positions: &ResolvedPositions<'_>,
        first_token: usize,
        heads: Range<usize>,
        values: &mut [f32],
    );
}
