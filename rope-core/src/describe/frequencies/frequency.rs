//! The frequency of one pair.

use crate::base::error::{Error, Result};
use crate::base::float128::Float128;
use crate::kernel::sincos::chunk::{Entry, Step};

/// How far one position rotates one pair, and which axis of the positions does.
///
/// ```
/// use rope_core::{Frequencies, Scaling};
///
/// let frequencies = Frequencies::new(128, 10_000.0, &Scaling::Default)?;
/// let inverse: Vec<f64> = frequencies.iter().map(|pair| pair.inverse()).collect();
/// assert_eq!((inverse.len(), inverse[0]), (64, 1.0));
/// # Ok::<(), rope_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Frequency {
    fraction: u128,
    inverse: f64,
    inverse_f32: f32,
    whole: i16,
    axis: u8,
}

impl Frequency {
    /// The turns and the inverse frequency belong together. Both are passed because one that was given is exact, and
    /// computed back from the other it would not be.
    pub(super) fn new(pair: usize, turns: Float128, inverse: Float128, axis: u8) -> Result<Self> {
        let fits = turns
            .to_fixed()
            .and_then(|(whole, fraction)| Some((i16::try_from(whole).ok()?, fraction)));
        let (whole, fraction) = fits.ok_or(Error::TurnsPerPosition {
            pair,
            inverse: inverse.to_f64(),
        })?;
        Ok(Self {
            fraction,
            inverse: inverse.to_f64(),
            inverse_f32: inverse.to_f32(),
            whole,
            axis,
        })
    }

    /// As a chunk keeps it.
    pub(super) fn entry(self) -> Entry {
        Entry {
            step: Step::new(self.whole, self.fraction),
            inverse: self.inverse,
            inverse_f32: self.inverse_f32,
            axis: self.axis,
        }
    }

    /// The pair that a chunk keeps.
    pub(super) fn from_entry(entry: Entry) -> Self {
        let (whole, fraction) = entry.step.whole_and_fraction();
        Self {
            fraction,
            inverse: entry.inverse,
            inverse_f32: entry.inverse_f32,
            whole,
            axis: entry.axis,
        }
    }

    /// The turns of one position without whole turns, in units of 2^-128 turn: what an integer position is multiplied
    /// by, wrapping. It is within one unit of the exact value where the inverse frequency is at most 1 (within three
    /// for [`Scaling::Periods`](crate::Scaling::Periods)), and in proportion above.
    pub const fn step(&self) -> u128 {
        self.fraction
    }

    /// The whole turns of one position, rounded down: all turns are `whole_turns() + step() * 2^-128`. 0 in every
    /// published text model. Only real-valued positions need them.
    pub const fn whole_turns(&self) -> i16 {
        self.whole
    }

    /// The inverse frequency in radians a position, correctly rounded (of the exact formula, or as it was given).
    pub const fn inverse(&self) -> f64 {
        self.inverse
    }

    /// The inverse frequency in radians a position, correctly rounded to `f32` at once (not by way of the `f64`).
    pub const fn inverse_f32(&self) -> f32 {
        self.inverse_f32
    }

    /// The axis of the positions that rotates this pair, 0 to 3.
    pub const fn axis(&self) -> usize {
        self.axis as usize
    }
}
