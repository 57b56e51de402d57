//! Rows computed within a call: frequencies of either kind at positions.

use core::ops::Range;

use super::mixed::MixedFrequencies;
use crate::base::debug::debug;
use crate::describe::positions::ResolvedPositions;
use crate::error::CacheError;
use crate::{Error, Frequencies, IntoPositions, Positions};

/// Frequencies at positions: angles whose rows the call computes itself, a block of tokens at a time, on the stack (8
/// KiB; 17 KiB for heads of at most 64 channels). Needs no table and no allocator.
///
/// Made by [`Frequencies::at`] and [`MixedFrequencies::at`](crate::axes::MixedFrequencies::at). The number of positions
/// must be that of rows: one per token, or one per token of every sequence. The bits equal those of rows made in
/// advance. With 32 heads a call takes little longer than with ready rows. With few heads, ready rows shared by several
/// layers are faster. Rows per head take longer to compute than the rotation: keep them if the frequencies do not
/// change.
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
    pub(crate) positions: Positions<'a>,
}

impl RowsAt<'_> {
    pub(crate) fn rotary_dim(&self) -> usize {
        self.frequencies.kind().rotary_dim
    }

    pub(crate) fn attention_factor(&self) -> f64 {
        self.frequencies.kind().attention_factor
    }

    /// Refuses rows that would apply the attention factor twice to cached keys.
    pub(crate) fn check_moves(&self) -> Result<(), Error> {
        match self.attention_factor() {
            1.0 => Ok(()),
            factor => Err(Error::Cache(CacheError::ShiftFactor { factor })),
        }
    }
}

debug!(RowsAt<'_>, |rows| positions: rows.positions);

impl Frequencies<'_> {
    /// Combines the frequencies with positions, as the angles of a call that computes the rows itself.
    pub fn at<'a, 'p: 'a>(&'a self, positions: impl IntoPositions<'p>) -> RowsAt<'a> {
        RowsAt {
            frequencies: self,
            positions: positions.into(),
        }
    }
}

impl MixedFrequencies<'_> {
    /// Combines the frequencies with positions, as the angles of a call that computes the rows of each head itself.
    pub fn at<'a, 'p: 'a>(&'a self, positions: impl IntoPositions<'p>) -> RowsAt<'a> {
        RowsAt {
            frequencies: self,
            positions: positions.into(),
        }
    }
}

/// The shape of the rows that frequencies make.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowKind {
    /// Heads with separate rows, or 1.
    pub(crate) heads: usize,
    pub(crate) rotary_dim: usize,
    pub(crate) attention_factor: f64,
}

/// Frequencies of either kind, as used by a call.
pub(crate) trait FillRows {
    fn kind(&self) -> RowKind;
    /// Checks positions against the axes.
    fn resolve<'p>(&self, positions: Positions<'p>) -> Result<ResolvedPositions<'p>, Error>;
    /// Fills `[tokens, heads, [cos | sin]]` of some heads, from a token on.
    fn fill(
        &self,
        positions: &ResolvedPositions<'_>,
        first_token: usize,
        heads: Range<usize>,
        values: &mut [f32],
    );
}

impl FillRows for Frequencies<'_> {
    fn kind(&self) -> RowKind {
        RowKind {
            heads: 1,
            rotary_dim: self.rotary_dim(),
            attention_factor: self.attention_factor(),
        }
    }
    fn resolve<'p>(&self, positions: Positions<'p>) -> Result<ResolvedPositions<'p>, Error> {
        positions.on(self.axes())
    }
    fn fill(
        &self,
        positions: &ResolvedPositions<'_>,
        first_token: usize,
        _: Range<usize>,
        values: &mut [f32],
    ) {
        self.fill(positions, first_token, values);
    }
}

impl FillRows for MixedFrequencies<'_> {
    fn kind(&self) -> RowKind {
        RowKind {
            heads: self.heads(),
            rotary_dim: self.rotary_dim(),
            attention_factor: self.attention_factor(),
        }
    }
    fn resolve<'p>(&self, positions: Positions<'p>) -> Result<ResolvedPositions<'p>, Error> {
        positions.on_each(self.axes())
    }
    fn fill(
        &self,
        positions: &ResolvedPositions<'_>,
        first_token: usize,
        heads: Range<usize>,
        values: &mut [f32],
    ) {
        self.fill(positions, first_token, heads, values);
    }
}
