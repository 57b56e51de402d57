//! Backward passes and gradients.

use super::count::{Are, Count};
use crate::{Direction, Pairing};

errors! {
    /// A backward pass, or the gradients that it sums.
    ///
    /// [`Error::Gradient`](crate::Error::Gradient) holds it.
    ///
    /// ```
    /// use rope_core::error::GradientError;
    /// use rope_core::gradient::PairGradients;
    /// use rope_core::{Error, Pairing, Rope, Tensor};
    ///
    /// // Two heads of sums, for a tensor of three heads.
    /// let x = [0.0_f32; 12];
    /// let x = Tensor::new(&x, [1, 1, 3, 4])?;
    /// let mut sums = [0.0; 4];
    /// let angles = &mut PairGradients::new(&mut sums, [1, 2, 2])?;
    /// let refused = Rope::new(Pairing::Half).angle_gradients(&x, &x, angles);
    /// let error = GradientError::Heads { gradients: 2, heads: 3 };
    /// assert_eq!(refused, Err(Error::Gradient(error)));
    /// # Ok::<(), Error>(())
    /// ```
    pub enum GradientError =>
    /// [`Rope::backward`](crate::Rope::backward): the plan does not rotate forward, so it has no backward pass here.
    Direction {
        /// The plan's direction.
        direction: Direction,
    }: Operation =>
        "a backward pass requires a plan with Direction::Forward, but its direction is {direction}; pass the plan of \
         the forward pass, which is transposed here",
    /// [`Rope::cos_sin_gradients`](crate::Rope::cos_sin_gradients),
    /// [`Rope::channel_gradients`](crate::Rope::channel_gradients): the plan's output pairing is another than its
    /// input pairing.
    Pairing {
        /// The plan's input pairing.
        input: Pairing,
        /// The plan's output pairing.
        output: Pairing,
    }: Operation =>
        "gradients of cos and sin require a plan with one pairing, but its input pairing is {input} and its output_pairing \
         {output}; use Rope::angle_gradients, Rope::factor_gradients and PairGradients::cos_sin",
    /// The number of heads of the gradients is neither 1 nor the tensor's.
    Heads {
        /// Heads of the gradients.
        gradients: usize,
        /// Heads of the tensor.
        heads: usize,
    }: Shape => |f| {
        let gradients = Count(gradients, "heads");
        write!(f, "the gradients have {gradients}, the tensor has {heads}; give one for all heads, or one per head")
    },
    /// Gradients of another shape than the rows, or than other gradients.
    Shape {
        /// The dimension that differs: rows, heads or pairs.
        what: &'static str,
        /// Its extent in the gradients.
        given: usize,
        /// The required extent.
        needed: usize,
    }: Shape => |f| write!(f, "the gradients have {}, but {needed} {} required", Count(given, what), Are(needed)),
    /// [`PairGradients::cos_sin`](crate::gradient::PairGradients::cos_sin): cos and sin are both zero, so the rotated
    /// tensor says nothing of them.
    RowOfZeros {
        /// The row.
        row: usize,
        /// The head that has it; 0 of a row that all heads share.
        head: usize,
        /// The pair.
        pair: usize,
    }: Value => "cos and sin of pair {pair} of row {row} (head {head}) are both zero; one must not be",
}
