//! The angles of tokens: frequencies of either kind at positions.

use core::ops::Range;

use crate::base::debug::debug;
use crate::base::error::Result;
#[cfg(feature = "alloc")]
use crate::base::memory::out_of_memory;
use crate::base::memory::{MaybeOwned, part_of_storage};
use crate::describe::positions::ResolvedPositions;
use crate::error::{CacheError, FrequenciesError};
use crate::{Error, Frequencies, Rows};

/// The angles of tokens: frequencies at checked positions. They are the angles of a call, which then computes the rows
/// itself, a block of tokens at a time, on the stack (8 KiB; 17 KiB for heads of at most 64 channels); or they make
/// rows for several calls.
///
/// Made by [`Frequencies::at`](crate::Frequencies::at), [`MixedFrequencies::at`](crate::axes::MixedFrequencies::at),
/// [`Frequencies::shift`](crate::Frequencies::shift) and [`Frequencies::shift_from`](crate::Frequencies::shift_from).
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
/// let angles = frequencies.at(7..10)?;
/// let (mut q, mut k) = ([1.0_f32; 3 * 2 * 64], [1.0_f32; 3 * 2 * 64]);
/// let rope = Rope::new(Pairing::Half);
/// rope.rotate(&mut TensorMut::new(&mut q, [1, 3, 2, 64])?, &angles)?;
/// // The same, from rows in the caller's storage.
/// let mut storage = [0.0_f32; 3 * 64];
/// rope.rotate(&mut TensorMut::new(&mut k, [1, 3, 2, 64])?, &angles.rows_in(&mut storage)?)?;
/// assert_eq!(q, k);
/// # }
/// # Ok::<(), rope_core::Error>(())
/// ```
#[doc(alias = "RowsAt")]
#[derive(Clone, Copy)]
pub struct TokenAngles<'a> {
    /// A trait object, so that a program links only the kinds of frequencies that it names.
    pub(super) frequencies: &'a (dyn FillRows + Sync),
    pub(super) positions: ResolvedPositions<'a>,
    pub(super) kind: RowKind,
    /// The angles that the tokens have, if they are keys that move to other frequencies.
    pub(super) old: Option<OldAngles<'a>>,
}

/// The frequencies and positions of keys before a shift to others.
#[derive(Clone, Copy)]
pub(super) struct OldAngles<'a> {
    pub(super) new: &'a Frequencies<'a>,
    pub(super) old: &'a Frequencies<'a>,
    pub(super) positions: ResolvedPositions<'a>,
    /// Computes the rows: a reference, so that programs without such a shift do not link it.
    pub(super) fill: fn(&OldAngles<'_>, &TokenAngles<'_>, usize, &mut [f32]),
}

impl TokenAngles<'_> {
    /// Computes the rows: `[cos | sin]` of each token, per head if the frequencies of heads differ, times the attention
    /// factor. The rows of positions `0..n` form a table for [`Rows::gather`].
    ///
    /// # Errors
    ///
    /// [`FrequenciesError::RowsTooLong`] for more values than a slice can have; [`Error::OutOfMemory`] if the
    /// allocation fails.
    #[cfg(feature = "alloc")]
    pub fn rows(&self) -> Result<Rows<'static>> {
        let count = self.count()?;
        // The pages come zeroed from the system, so a table is written once, not twice.
        let mut values = bytemuck::allocation::try_zeroed_vec(count)
            .map_err(|()| out_of_memory::<f32>(count))?;
        self.fill(0, 0..self.kind.heads, &mut values);
        self.made(values)
    }

    /// Computes [`TokenAngles::rows`] in the caller's storage. Uses its first `tokens * heads * rotary_dim` values,
    /// with 1 for `heads` if all share their rows.
    ///
    /// # Errors
    ///
    /// [`FrequenciesError::RowsTooLong`] for more values than a slice can have; [`Error::Storage`] if the storage is
    /// too short. The storage is untouched then.
    #[doc(alias("shift_in", "shift_from_in", "values_in"))]
    pub fn rows_in<'r>(&self, storage: &'r mut [f32]) -> Result<Rows<'r>> {
        let values = part_of_storage(storage, "values of storage", self.count()?)?;
        self.fill(0, 0..self.kind.heads, values);
        self.made(&*values)
    }

    /// Returns the rows with these values.
    fn made<'r>(&self, values: impl Into<MaybeOwned<'r, f32>>) -> Result<Rows<'r>> {
        let rows = Rows::computed(values, self.kind.rotary_dim)
            .of_heads(self.kind.heads)
            .of_magnitude(self.kind.attention_factor)?;
        Ok(match self.old {
            Some(_) => rows.moving(),
            None => rows,
        })
    }

    /// Returns the number of values of the rows.
    fn count(&self) -> Result<usize> {
        // The most values that a slice can have.
        const MOST: usize = isize::MAX as usize / size_of::<f32>();
        let tokens = self.positions.tokens().saturating_mul(self.kind.heads);
        let rotary_dim = self.kind.rotary_dim;
        let values = tokens.checked_mul(rotary_dim);
        values
            .filter(|&values| values <= MOST)
            .ok_or(Error::Frequencies(FrequenciesError::RowsTooLong {
                tokens,
                rotary_dim,
            }))
    }

    /// Fills `[tokens, heads, [cos | sin]]` of some heads, from a token on.
    pub(crate) fn fill(&self, first_token: usize, heads: Range<usize>, values: &mut [f32]) {
        match &self.old {
            None => self.frequencies.fill(self, first_token, heads, values),
            Some(old) => (old.fill)(old, self, first_token, values),
        }
    }

    /// Returns the number of tokens.
    pub(crate) fn tokens(&self) -> usize {
        self.positions.tokens()
    }

    /// Returns the shape of the rows.
    pub(crate) fn kind(&self) -> RowKind {
        self.kind
    }

    /// Returns true if two existing tokens have the same positions on every axis, and so the same row.
    pub(crate) fn is_same(&self, first: usize, second: usize) -> bool {
        let same = |positions: &ResolvedPositions<'_>| positions.is_same(first, second);
        same(&self.positions) && self.old.is_none_or(|old| same(&old.positions))
    }

    /// Refuses rows that would apply the attention factor twice to cached keys.
    pub(crate) fn check_moves(&self) -> Result<()> {
        match self.kind.attention_factor {
            factor if factor != 1.0 && self.old.is_none() => {
                Err(Error::Cache(CacheError::ShiftFactor { factor }))
            }
            _ => Ok(()),
        }
    }
}

debug!(TokenAngles<'_>, |angles| positions: angles.positions);

/// The rows that frequencies make.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowKind {
    /// Heads with separate rows, or 1.
    pub(crate) heads: usize,
    pub(crate) rotary_dim: usize,
    pub(crate) attention_factor: f64,
    /// True if the angle is the exact one, whatever the frequencies define.
    pub(crate) exact: bool,
}

/// Frequencies of either kind, as [`TokenAngles`] use them.
pub(crate) trait FillRows {
    /// Fills `[tokens, heads, [cos | sin]]` of some heads, from a token on.
    fn fill(
        &self,
        angles: &TokenAngles<'_>,
        first_token: usize,
        heads: Range<usize>,
        values: &mut [f32],
    );
}
