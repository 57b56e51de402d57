//! The position of a token.

use super::chunk::power_of_two;

/// The position of a token on one axis.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AxisPosition {
    Integer(i64),
    /// A finite coordinate.
    Coordinate(f64),
}

impl AxisPosition {
    /// Returns the nearest f64.
    #[inline(always)]
    pub(crate) fn value(self) -> f64 {
        match self {
            AxisPosition::Integer(position) => position as f64,
            AxisPosition::Coordinate(coordinate) => coordinate,
        }
    }

    /// Returns the position for the fast path, or NaN if it takes the slow path: beyond `reach` (as all integers that
    /// are not f64 are), or so small that its sine might not be a normal f32.
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
