//! Reductions of the gradients of pairs: to frequencies, positions, cos and sin, and one common factor.

use super::PairGradients;
use crate::base::error::check_count;
use crate::error::GradientError;
use crate::{Error, IntoPositions, Rows};

impl PairGradients<'_> {
    /// Adds to the gradient of the inverse frequencies, `[axes, heads, pairs]` with the heads of these gradients: `sum
    /// over rows of position[row, axis] * dphi[row, head, pair]`, row by row, with each product and each sum rounded to
    /// `f64`.
    ///
    /// If each pair follows one axis, its gradient is the one of that axis. A pair with frequency zero has a gradient
    /// too. A position beyond 2^53 counts as the nearest `f64`.
    ///
    /// # Errors
    ///
    /// [`PositionsError::PerAxis`](crate::error::PositionsError::PerAxis) and
    /// [`PositionsError::Coordinate`](crate::error::PositionsError::Coordinate) as
    /// [`Frequencies::rows`](crate::Frequencies::rows); [`Error::Count`] unless there is one position per row;
    /// [`Error::Storage`] unless `out` has that shape. Nothing is added then.
    pub fn frequencies<'p>(
        &self,
        positions: impl IntoPositions<'p>,
        axes: usize,
        out: &mut [f64],
    ) -> Result<(), Error> {
        let positions = positions.into().on(axes.max(1))?;
        let [rows, heads, pairs] = self.shape();
        check_count("positions", positions.tokens(), rows)?;
        let row = heads * pairs;
        storage("numbers of out", out.len(), axes.saturating_mul(row))?;
        if row == 0 {
            return Ok(());
        }
        for (axis, out) in out.chunks_exact_mut(row).enumerate() {
            for (index, gradients) in self.sums().chunks_exact(row).enumerate() {
                let position = positions.at(index, axis).value();
                for (out, gradient) in out.iter_mut().zip(gradients) {
                    *out += position * gradient;
                }
            }
        }
        Ok(())
    }

    /// Adds to the gradient of learned or computed positions, `[rows, axes]`: `sum over heads and pairs of
    /// inverse[axis, head, pair] * dphi[row, head, pair]`, head by head, and in each pair by pair. The inverse
    /// frequencies, in radians, are `[axes, heads, pairs]` with the heads of these gradients.
    ///
    /// # Errors
    ///
    /// [`Error::Count`] unless `inverse` has that shape; [`Error::Storage`] unless `out` has its shape. Nothing is
    /// added then.
    pub fn positions(&self, inverse: &[f64], axes: usize, out: &mut [f64]) -> Result<(), Error> {
        let [rows, heads, pairs] = self.shape();
        let row = heads * pairs;
        check_count(
            "inverse frequencies",
            inverse.len(),
            axes.saturating_mul(row),
        )?;
        storage("numbers of out", out.len(), rows.saturating_mul(axes))?;
        if row == 0 || axes == 0 {
            return Ok(());
        }
        for (out, gradients) in out
            .chunks_exact_mut(axes)
            .zip(self.sums().chunks_exact(row))
        {
            for (out, inverse) in out.iter_mut().zip(inverse.chunks_exact(row)) {
                for (frequency, gradient) in inverse.iter().zip(gradients) {
                    *out += frequency * gradient;
                }
            }
        }
        Ok(())
    }

    /// Returns the total sum, row by row, head by head, pair by pair: for [`Rope::factor_gradients`], the gradient of
    /// the logarithm of one attention factor.
    ///
    /// [`Rope::factor_gradients`]: crate::Rope::factor_gradients
    pub fn total(&self) -> f64 {
        self.sums().iter().fold(0.0, |sum, gradient| sum + gradient)
    }

    /// Adds to the gradients of the cos and sin of each row, in the same shape, from the gradients of angles (these)
    /// and of the logarithms of factors: with `m = cos^2 + sin^2`
    ///
    /// ```text
    /// d cos = (cos dlnA - sin dphi) / m        d sin = (sin dlnA + cos dphi) / m
    /// ```
    ///
    /// The results are added to `cos` and `sin`. If the tensor before the rotation is at hand,
    /// [`Rope::cos_sin_gradients`] has one rounding less and supports any row.
    ///
    /// # Errors
    ///
    /// [`GradientError::Shape`] unless `factors` and the rows have the shape of these gradients; [`Error::Storage`]
    /// unless `cos` and `sin` have it too; [`GradientError::RowOfZeros`] if cos and sin of a pair are both zero.
    /// Nothing is added then.
    ///
    /// [`Rope::cos_sin_gradients`]: crate::Rope::cos_sin_gradients
    pub fn cos_sin(
        &self,
        factors: &PairGradients<'_>,
        rows: &Rows<'_>,
        cos: &mut [f64],
        sin: &mut [f64],
    ) -> Result<(), Error> {
        let [count, heads, pairs] = self.shape();
        self.check_shape(factors.shape(), "pairs")?;
        let heads_of_rows = if rows.heads() > 1 {
            rows.heads()
        } else {
            heads
        };
        let shape = [rows.len(), heads_of_rows, rows.rotary_dim() / 2];
        self.check_shape(shape, "pairs")?;
        storage("values of cos", cos.len(), self.sums().len())?;
        storage("values of sin", sin.len(), self.sums().len())?;
        for index in 0..count {
            for head in 0..rows.heads() {
                let (c, s) = rows.at(index, head);
                if let Some(pair) = c.iter().zip(s).position(|pair| pair == (&0.0, &0.0)) {
                    let row = index;
                    return Err(Error::Gradient(GradientError::RowOfZeros {
                        row,
                        head,
                        pair,
                    }));
                }
            }
        }
        let angles = self.sums().iter().zip(factors.sums());
        for (at, ((angle, factor), (cos, sin))) in angles.zip(cos.iter_mut().zip(sin)).enumerate() {
            let (c, s) = rows.at(at / (heads * pairs), at / pairs % heads);
            let (c, s) = (f64::from(c[at % pairs]), f64::from(s[at % pairs]));
            let square = c * c + s * s;
            *cos += (c * factor - s * angle) / square;
            *sin += (s * factor + c * angle) / square;
        }
        Ok(())
    }
}

fn storage(what: &'static str, given: usize, needed: usize) -> Result<(), Error> {
    if given != needed {
        return Err(Error::Storage {
            what,
            given,
            needed,
        });
    }
    Ok(())
}
