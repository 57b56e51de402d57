//! A time in roofs as a range, so that differences within the noise do not look like differences.

use crate::measuring::Time;
use crate::results::CaseResult;

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

    /// Returns true if some rounds of both took the same time.
    pub fn overlaps(self, other: Range) -> bool {
        self.low <= other.high && other.low <= self.high
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

#[cfg(test)]
mod tests {
    use super::*;

    fn time(minimum: f64, median: f64, spread: f64) -> Time {
        Time {
            minimum,
            median,
            spread,
            rounds: 9,
            passes: Vec::new(),
        }
    }

    #[test]
    fn a_lucky_round_is_no_difference() {
        let steady = Range::of(&time(10.0, 10.2, 0.02), 1.0);
        let lucky = Range::of(&time(8.0, 12.0, 0.3), 1.0);
        let slower = Range::of(&time(11.0, 11.2, 0.02), 1.0);
        assert!(steady.overlaps(lucky) && lucky.overlaps(steady));
        assert!(!steady.overlaps(slower) && !slower.overlaps(steady));
    }
}
