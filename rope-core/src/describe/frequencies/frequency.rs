//! The frequency of one pair, and the checks of the numbers that it is computed from.

use crate::base::error::{Error, Result};
use crate::base::float128::Float128;
use crate::error::FrequenciesError;
use crate::kernel::sincos::chunk::{Entry, FrequencyChunk, Step};

/// The rotation of one pair per position, and the axis of the positions it follows.
///
/// ```
/// # #[cfg(feature = "alloc")] {
/// use rope_core::{Frequencies, Scaling};
///
/// let frequencies = Frequencies::new(128, 10_000.0, &Scaling::Default)?;
/// let inverse: Vec<f64> = frequencies.iter().map(|pair| pair.inverse).collect();
/// assert_eq!((inverse.len(), inverse[0]), (64, 1.0));
/// # }
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

/// Stores the frequency of a pair in its chunk, from its turns and its inverse frequency, which must correspond. The
/// caller passes both: a given one is exact, and one recomputed from the other would not be.
pub(super) fn store(
    chunk: &mut FrequencyChunk,
    pair: usize,
    turns: Float128,
    inverse: Float128,
    axis: u8,
) -> Result<()> {
    let fits = turns
        .to_fixed()
        .and_then(|(whole, fraction)| Some((i16::try_from(whole).ok()?, fraction)));
    let (whole, fraction) = fits.ok_or(Error::Frequencies(FrequenciesError::TurnsPerPosition {
        pair,
        inverse: inverse.to_f64(),
    }))?;
    let entry = Entry {
        step: Step::new(whole, fraction),
        inverse: inverse.to_f64(),
        inverse_f32: inverse.to_f32(),
        axis,
    };
    chunk.set(pair % 8, entry);
    Ok(())
}

/// Stores the inverse frequency of a pair. Its index in the caller's list is for the error.
#[inline(never)]
pub(super) fn store_given(
    chunk: &mut FrequencyChunk,
    index: usize,
    pair: usize,
    inverse: f64,
    axis: u8,
) -> Result<()> {
    let inverse = finite("inverse", inverse).map_err(|error| error.in_list(index))?;
    let turns = inverse * Float128::INVERSE_TWO_PI;
    store(chunk, pair, turns, inverse, axis)
}

/// Converts a number, or refuses it if it is infinite or NaN.
#[inline(never)]
pub(super) fn finite(name: &'static str, value: f64) -> Result<Float128> {
    required(name, value, value.is_finite(), "finite")
}

/// Converts a number, or refuses it unless it is finite and above zero.
#[inline(never)]
pub(super) fn positive(name: &'static str, value: f64) -> Result<Float128> {
    let fits = value.is_finite() && value > 0.0;
    required(name, value, fits, "positive and finite")
}

/// Checks that the products of a factor with cos and sin are finite f32.
#[inline(never)]
pub(super) fn attention_factor(value: f64) -> Result<f64> {
    let fits = value > 0.0 && value <= f64::from(f32::MAX);
    let text = "positive and finite as an f32";
    required("attention_factor", value, fits, text).map(|_| value)
}

/// Converts a number that fits, or refuses it.
#[inline(never)]
pub(super) fn required(
    name: &'static str,
    value: f64,
    fits: bool,
    required: &'static str,
) -> Result<Float128> {
    match fits {
        true => Ok(Float128::from_f64(value)),
        false => Err(Error::parameter(name, value, required)),
    }
}
