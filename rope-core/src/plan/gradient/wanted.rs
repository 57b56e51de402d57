//! The sums of a gradient call, with the tensors of their terms.

use super::PairGradients;
use crate::Tensor;

/// The sums that [`Rope::gradients`](crate::Rope::gradients) adds to, and the two tensors of their terms.
///
/// `x` is the tensor before the rotation and `y` the one after it; `dx` and `dy` are their gradients of the loss. `x`
/// and `dx` have the plan's input pairing, `y` and `dy` its output pairing.
///
/// ```
/// use rope_core::gradient::{Gradients, PairGradients};
/// use rope_core::{Pairing, Rope, Tensor};
///
/// let (y, dy) = ([1.0_f32, 2.0], [3.0_f32, 5.0]);
/// let (y, dy) = (&Tensor::new(&y, [1, 1, 1, 2])?, &Tensor::new(&dy, [1, 1, 1, 2])?);
/// let mut sums = [0.0];
/// let angles = &mut PairGradients::new(&mut sums, [1, 1, 1])?;
/// Rope::new(Pairing::Half).gradients(Gradients::Angles { y, dy, angles })?;
/// assert_eq!(sums, [1.0 * 5.0 - 2.0 * 3.0]);
/// # Ok::<(), rope_core::Error>(())
/// ```
///
/// The views of two sums may have two lifetimes (`'s`, `'t`), as the arguments of a function have.
#[derive(Debug)]
pub enum Gradients<'a, 's, 't, E> {
    /// Adds `y1 dy2 - y2 dy1` to the gradient of the angle of each pair.
    Angles {
        /// The rotated tensor.
        y: &'a Tensor<'a, E>,
        /// The gradient of the loss by the rotated tensor.
        dy: &'a Tensor<'a, E>,
        /// The gradients of the angles.
        angles: &'a mut PairGradients<'s>,
    },
    /// Adds `x1 dx2 - x2 dx1` to the gradient of the angle of each pair: equal to [`Gradients::Angles`] except for
    /// rounding.
    AnglesOfInput {
        /// The tensor before the rotation.
        x: &'a Tensor<'a, E>,
        /// The gradient of the loss by `x`.
        dx: &'a Tensor<'a, E>,
        /// The gradients of the angles.
        angles: &'a mut PairGradients<'s>,
    },
    /// Adds `y1 dy1 + y2 dy2` to the gradient of the logarithm of the factor of each pair. A factor multiplies cos and
    /// sin of a row: an attention factor, or the factor of xPos, one per pair.
    Factors {
        /// The rotated tensor.
        y: &'a Tensor<'a, E>,
        /// The gradient of the loss by the rotated tensor.
        dy: &'a Tensor<'a, E>,
        /// The gradients of the factors' logarithms.
        factors: &'a mut PairGradients<'s>,
    },
    /// Adds `x1 dy1 + x2 dy2` to the gradient of the cos of each row, and `x1 dy2 - x2 dy1` to the gradient of its sin,
    /// for given rows that are parameters. The pairing must not change. ([`PairGradients::cos_sin`] needs no `x`.)
    CosSin {
        /// The tensor before the rotation.
        x: &'a Tensor<'a, E>,
        /// The gradient of the loss by the rotated tensor.
        dy: &'a Tensor<'a, E>,
        /// The gradients of cos.
        cos: &'a mut PairGradients<'s>,
        /// The gradients of sin.
        sin: &'a mut PairGradients<'t>,
    },
    /// Adds to the gradients of full-width rows ([`Rows::full`](crate::Rows::full)): for the channels `i` and `j` of a
    /// pair, `xi dyi` to `cos[i]`, `-xj dyi` to `sin[i]`, `xj dyj` to `cos[j]` and `xi dyj` to `sin[j]`. The sums are
    /// `[rows, heads or 1, rotary_dim]`, one per channel instead of one per pair. The pairing must not change.
    /// ([`Direction::Transpose`](crate::Direction::Transpose) computes `dx` from `dy`.)
    Channels {
        /// The tensor before the rotation.
        x: &'a Tensor<'a, E>,
        /// The gradient of the loss by the rotated tensor.
        dy: &'a Tensor<'a, E>,
        /// The gradients of cos.
        cos: &'a mut PairGradients<'s>,
        /// The gradients of sin.
        sin: &'a mut PairGradients<'t>,
    },
}
