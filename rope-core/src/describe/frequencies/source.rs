//! The source of rows: frequencies of either kind, as seen by `rotate_at`.

use core::ops::Range;

use super::mixed::MixedFrequencies;
use crate::describe::positions::ResolvedPositions;
use crate::{Error, Frequencies, Positions};

/// Frequencies that rows are made of: [`Frequencies`] or [`MixedFrequencies`]. Sealed.
///
/// ```
/// use rope_core::axes::RowSource;
/// use rope_core::{Error, Pairing, Rope, TensorMut};
///
/// fn rotate<F: RowSource>(x: &mut [f32], frequencies: &F) -> Result<(), Error> {
///     Rope::new(Pairing::Half).rotate_at(&mut TensorMut::new(x, [1, 1, 2, 64])?, frequencies, 7)
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "no rows are made of `{Self}`",
    label = "neither `Frequencies` nor `MixedFrequencies`"
)]
pub trait RowSource: Sealed {}

impl<T: Sealed> RowSource for T {}

/// As the crates of users see it.
pub trait Sealed {
    #[doc(hidden)]
    fn source(&self) -> FrequencySource<'_>;
}

/// A pointer to the functions of one kind: a program that names one kind links no other.
pub struct FrequencySource<'a>(pub(crate) &'a (dyn FillRows + Sync));

impl core::fmt::Debug for FrequencySource<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("FrequencySource")
    }
}

/// What [`Rope::rotate_at`](crate::Rope::rotate_at) asks of frequencies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowKind {
    /// Heads that have rows of their own, or 1.
    pub(crate) heads: usize,
    pub(crate) rotary_dim: usize,
    pub(crate) attention_factor: f64,
}

/// Frequencies as [`Rope::rotate_at`](crate::Rope::rotate_at) sees them.
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

impl Sealed for Frequencies<'_> {
    fn source(&self) -> FrequencySource<'_> {
        FrequencySource(self)
    }
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

impl Sealed for MixedFrequencies<'_> {
    fn source(&self) -> FrequencySource<'_> {
        FrequencySource(self)
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
