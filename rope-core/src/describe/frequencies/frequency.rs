//! The frequency of one pair.

use crate::base::error::{Error, Result};
use crate::base::float128::Float128;
use crate::error::FrequenciesError;
use crate::kernel::sincos::chunk::{Entry, Step};

/// The rotation of one pair per position, and the axis of the positions it follows.
///
/// ```
/// use rope_core::{Frequencies, Scaling};
///
/// let frequencies = Frequencies::new(128, 10_000.0, &Scaling::Default)?;
/// let inverse: Vec<f64> = frequencies.iter().map(|pair| pair.inverse).collect();
/// assert_eq!((inverse.len(), inverse[0]), (64, 1.0));
/// # Ok::<(), rope_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Frequency {
    /// The turns per position without whole turns, in units of 2^-128 turn: the wrapping multiplier of an integer
    /// position. It is within one unit of the exact value if the inverse frequency is at most 1 (within three for
    /// [`Scaling::Periods`](crate::Scaling::Periods)), and in proportion above.
    pub step: u128,
    /// The inverse frequency in radians per position, correctly rounded from the exact formula or the given value.
    pub inverse: f64,
    /// The inverse frequency in radians per position, correctly rounded to `f32` in one step, not through the `f64`.
    pub inverse_f32: f32,
    /// The whole turns per position, rounded down: all turns are `whole_turns + step * 2^-128`. 0 in every published
    /// text model; only real-valued positions need them.
    pub whole_turns: i16,
    /// The axis of the positions that rotates this pair, 0 to 3.
    pub axis: usize,
}

impl Frequency {
    /// Creates a frequency from its turns and inverse frequency, which must correspond. The caller passes both: a given
    /// one is exact, and one recomputed from the other would not be.
    pub(super) fn new(pair: usize, turns: Float128, inverse: Float128, axis: u8) -> Result<Self> {
        let fits = turns
            .to_fixed()
            .and_then(|(whole, fraction)| Some((i16::try_from(whole).ok()?, fraction)));
        let (whole, fraction) =
            fits.ok_or(Error::Frequencies(FrequenciesError::TurnsPerPosition {
                pair,
                inverse: inverse.to_f64(),
            }))?;
        Ok(Self {
            step: fraction,
            inverse: inverse.to_f64(),
            inverse_f32: inverse.to_f32(),
            whole_turns: whole,
            axis: axis.into(),
        })
    }

    /// Converts to the entry of a chunk.
    pub(super) fn entry(self) -> Entry {
        Entry {
            step: Step::new(self.whole_turns, self.step),
            inverse: self.inverse,
            inverse_f32: self.inverse_f32,
            axis: self.axis as u8,
        }
    }

    /// Converts from the entry of a chunk.
    pub(super) fn from_entry(entry: Entry) -> Self {
        let (whole, fraction) = entry.step.whole_and_fraction();
        Self {
            step: fraction,
            inverse: entry.inverse,
            inverse_f32: entry.inverse_f32,
            whole_turns: whole,
            axis: entry.axis.into(),
        }
    }
}
