//! Where a token is.

use super::chunk::power_of_two;

/// Where a token is on one axis.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AxisPosition {
    Integer(i64),
    /// Finite.
    Coordinate(f64),
}

impl AxisPosition {
    /// The nearest double.
    #[inline(always)]
    pub(crate) fn value(self) -> f64 {
        match self {
            AxisPosition::Integer(position) => position as f64,
            AxisPosition::Coordinate(coordinate) => coordinate,
        }
    }

    /// The position for the fast path, or NaN if that must not have it: beyond `reach` (integers that are no doubles
    /// are), or so small that its sine might not be a normal f32.
    #[inline(always)]
    pub(super) fn within(self, reach: f64) -> f64 {
        const LEAST: f64 = power_of_two(-40);
        let x = self.value();
        let size = x.abs();
        if size <= reach && (size >= LEAST || size == 0.0) {
            x
        } else {
            f64::NAN
        }
    }
}
