//! A time in roofs as a range, so that a plot shows the noise.

use crate::results::CaseResult;
use crate::time::Time;

/// The range from the fastest round to about the third quartile.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    pub low: f64,
    /// About the third quartile: a run stores the distance of the quartiles, not their values, and they are assumed at
    /// equal distances from the median.
    pub high: f64,
}

impl Range {
    /// Returns the range of a time, in units of `unit` nanoseconds.
    pub fn of(time: &Time, unit: f64) -> Self {
        Range {
            low: time.minimum / unit,
            high: (time.median * (1.0 + time.spread / 2.0)).max(time.minimum) / unit,
        }
    }
}

/// Returns the nanoseconds of a case's roof.
pub fn roof(case: &CaseResult) -> Range {
    let none = Range {
        low: f64::NAN,
        high: f64::NAN,
    };
    let ranges = case.roofs.iter().map(|roof| Range::of(&roof.time, 1.0));
    ranges
        .min_by(|a, b| a.low.total_cmp(&b.low))
        .unwrap_or(none)
}
