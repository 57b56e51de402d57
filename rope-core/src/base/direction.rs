//! The direction of a rotation.

use crate::base::names::named;

/// The direction of a rotation. With `R` the rotation by the angles of the rows, and `A` their attention factor:
///
/// ```text
/// Forward    x <- A R x
/// Transpose  x <- A R^T x      the gradient of Forward
/// Inverse    x <- 1/A R^T x    undoes Forward
/// ```
///
/// In every direction a plan reads its input pairing and writes its output pairing. If they differ, the inverse or
/// transpose of `Rope::new(a).with_output_pairing(b)` is `Rope::new(b).with_output_pairing(a)` with that direction;
/// [`Rope::backward`](crate::Rope::backward) exchanges the pairings itself.
///
/// With `A` = 1, the default of rows, `Transpose` and `Inverse` are the same. If pairs have different magnitudes, as in
/// xPos, `Transpose` holds, `Inverse` is refused, and [`Rows::inverted`](crate::Rows::inverted) undoes `Forward`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Direction {
    /// Rotates by the angles of the rows, and scales by their attention factor.
    #[default]
    Forward,
    /// Undoes [`Forward`](Direction::Forward): rotates back, and divides by the attention factor. For an attention
    /// output that was rotated, and to move cached keys back by the rows of
    /// [`Frequencies::shift`](crate::Frequencies::shift).
    ///
    /// cos and sin are first multiplied by `1/A^2` as f32, one rounding; this requires `cos^2 + sin^2 = A^2`. Every
    /// call checks given rows, and returns [`RowsError::Magnitude`](crate::error::RowsError::Magnitude) if a pair is
    /// further off than tables of 16 bits are: relatively 2^-7 + 2^-15 if both values are bf16, and 2^-10 + 2^-20
    /// otherwise. Rows made by [`Frequencies`](crate::Frequencies) skip the check.
    Inverse,
    /// The transpose of [`Forward`](Direction::Forward): rotates back, and multiplies by the attention factor. For
    /// backpropagation; for a plan with another output pairing see [above](Direction).
    Transpose,
}

impl Direction {
    /// All directions.
    pub const ALL: [Direction; 3] = [Direction::Forward, Direction::Inverse, Direction::Transpose];

    /// Returns the name in lower case, as parsed by [`FromStr`](core::str::FromStr).
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Direction::Forward => "forward",
            Direction::Inverse => "inverse",
            Direction::Transpose => "transpose",
        }
    }
}

named!(Direction, "direction", "forward, inverse, transpose");
