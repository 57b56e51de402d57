//! Which way pairs are rotated.

use core::fmt;
use core::str::FromStr;

use crate::base::names::{Name, UnknownName};

/// Which way a pair is rotated. With `R` the rotation by the angles of the rows, and `A` their attention factor:
///
/// ```text
/// Forward    x <- A R x
/// Transpose  x <- A R^T x      the gradient of Forward
/// Inverse    x <- 1/A R^T x    undoes Forward
/// ```
///
/// A plan reads its pairing and writes its output pairing in every direction. Where the two differ, the plan that takes
/// back what `Rope::new(a).output_pairing(b)` did is `Rope::new(b).output_pairing(a)` with one of the last two
/// directions; [`Rope::backward`](crate::Rope::backward) exchanges them by itself.
///
/// Where `A` is 1, the default of rows, the last two are the same. Where pairs have magnitudes of their own, as in
/// xPos, `Transpose` holds, `Inverse` is refused, and [`Rows::inverted`](crate::Rows::inverted) undoes `Forward`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Direction {
    /// Rotates by the angles of the rows, and scales by their attention factor.
    #[default]
    Forward,
    /// Undoes [`Forward`](Direction::Forward): rotates back, and divides by the attention factor. To undo the
    /// rotation of an attention output, and to move cached keys back by the rows of
    /// [`Frequencies::shift`](crate::Frequencies::shift).
    ///
    /// cos and sin are multiplied by `1/A^2` as f32, one rounding, before use. So `cos^2 + sin^2` has to be `A^2`.
    /// Given rows are looked through at every call, and refused
    /// ([`Error::RowMagnitude`](crate::Error::RowMagnitude)) if a pair is not as near to it as tables of 16 bits are:
    /// relatively within 2^-7 + 2^-15 where both are bf16, and 2^-10 + 2^-20 where they are not. Rows that
    /// [`Frequencies`](crate::Frequencies) made need no look.
    Inverse,
    /// The transpose of [`Forward`](Direction::Forward): rotates back, and multiplies by the attention factor. For
    /// backpropagation; of a plan with another output pairing see [above](Direction).
    Transpose,
}

impl Direction {
    /// All directions.
    pub const ALL: [Direction; 3] = [Direction::Forward, Direction::Inverse, Direction::Transpose];

    /// The name in lower case, as [`FromStr`] reads it.
    pub const fn name(self) -> &'static str {
        match self {
            Direction::Forward => "forward",
            Direction::Inverse => "inverse",
            Direction::Transpose => "transpose",
        }
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Direction {
    type Err = UnknownName;

    /// Reads [`Direction::name`].
    ///
    /// # Errors
    ///
    /// [`UnknownName`] for any other text.
    fn from_str(name: &str) -> Result<Self, UnknownName> {
        Direction::ALL
            .into_iter()
            .find(|direction| direction.name() == name)
            .ok_or(UnknownName {
                kind: "direction",
                name: Name::new(name),
                known: "forward, inverse, transpose",
            })
    }
}
