//! Rows that a call makes itself: frequencies of either kind at positions.

use core::fmt;
use core::ops::Range;

use super::mixed::MixedFrequencies;
use crate::describe::positions::ResolvedPositions;
use crate::{Error, Frequencies, IntoPositions, Positions};

/// Frequencies at positions: the angles of a call that makes the rows itself, a block of tokens at a time, on the stack
/// (8 KiB; 17 for heads of at most 64 channels). No table and no allocator is needed.
///
/// Made by [`Frequencies::at`] and [`MixedFrequencies::at`](crate::axes::MixedFrequencies::at). There are as many
/// positions as rows would have to be: one per token, or one per token of every sequence. The bits equal those of rows
/// that were made before. With 32 heads a call takes little longer than with ready rows; with few, ready rows that
/// several layers share are faster. Rows of each head take longer to make than the rotation: where frequencies stay the
/// same, keep them.
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
    /// A pointer to the functions of one kind: a program that names one kind links no other.
    pub(crate) frequencies: &'a (dyn FillRows + Sync),
    pub(crate) positions: Positions<'a>,
}

impl RowsAt<'_> {
    pub(crate) fn attention_factor(&self) -> f64 {
        self.frequencies.kind().attention_factor
    }

    /// Refuses rows that would apply the attention factor to keys that have it already.
    pub(crate) fn check_moves(&self) -> Result<(), Error> {
        match self.attention_factor() {
            1.0 => Ok(()),
            factor => Err(Error::ShiftFactor { factor }),
        }
    }
}

impl fmt::Debug for RowsAt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowsAt")
            .field("positions", &self.positions)
            .finish_non_exhaustive()
    }
}

impl Frequencies<'_> {
    /// These frequencies at positions, as the angles of a call: the rows are made on the way.
    pub fn at<'a, 'p: 'a>(&'a self, positions: impl IntoPositions<'p>) -> RowsAt<'a> {
        RowsAt {
            frequencies: self,
            positions: positions.into_positions(),
        }
    }
}

impl MixedFrequencies<'_> {
    /// These frequencies at positions, as the angles of a call: the rows are made on the way, for each head.
    pub fn at<'a, 'p: 'a>(&'a self, positions: impl IntoPositions<'p>) -> RowsAt<'a> {
        RowsAt {
            frequencies: self,
            positions: positions.into_positions(),
        }
    }
}

/// The rows that frequencies make.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowKind {
    /// Heads that have rows of their own, or 1.
    pub(crate) heads: usize,
    pub(crate) rotary_dim: usize,
    pub(crate) attention_factor: f64,
}

/// Frequencies of either kind, as a call needs them.
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
