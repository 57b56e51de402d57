//! From mixed frequencies and positions to rows.

use core::ops::Range;

use super::{MixedAngle, MixedFrequencies, index};
#[cfg(feature = "alloc")]
use crate::Rows;
use crate::describe::frequencies::source::{FillRows, RowKind, TokenAngles};
use crate::kernel::sincos::MakeRows;
use crate::kernel::sincos::mixed::MixedSum;
use crate::{Error, IntoPositions};

impl MixedFrequencies<'_> {
    /// Computes the rows of these positions, per head if frequencies have several: [`TokenAngles::rows`] of
    /// [`MixedFrequencies::at`].
    ///
    /// # Errors
    ///
    /// The errors of [`MixedFrequencies::at`] and [`TokenAngles::rows`].
    #[cfg(feature = "alloc")]
    pub fn rows<'p>(&self, positions: impl IntoPositions<'p>) -> Result<Rows<'static>, Error> {
        self.at(positions)?.rows()
    }

    /// Combines the frequencies with positions: the angles of a call that computes the rows of each head itself, or of
    /// rows, `[tokens, heads, [cos of all pairs | sin of all pairs]]`, times the attention factor.
    ///
    /// With [`MixedAngle::Exact`] each value is the f32 nearest to the exact value of the sum: at every integer
    /// position from -2^63 to 2^63, and for coordinates that are a multiple of 2^-128 (all of 2^-75 and more are;
    /// contributions of others below 2^-256 turn are cut off). Every backend returns the same bits. Beyond 2^32 turns
    /// on an axis a slower path computes them. If an angle is so near to zero that it equals its sine, and it is
    /// half-way between two f32, the sine is either of the two.
    ///
    /// With [`MixedAngle::SummedF32`] the angle is the f32 of timm and rope-vit, and the rest is exact for angles up to
    /// 2^48 radians: within 1 ulp of their results.
    ///
    /// # Errors
    ///
    /// [`PositionsError::PerAxis`](crate::error::PositionsError::PerAxis) unless there is one position per axis of each
    /// token; [`PositionsError::Coordinate`](crate::error::PositionsError::Coordinate) for a coordinate that is not
    /// finite.
    pub fn at<'a, 'p: 'a>(
        &'a self,
        positions: impl IntoPositions<'p>,
    ) -> Result<TokenAngles<'a>, Error> {
        Ok(TokenAngles {
            frequencies: self,
            positions: positions.into().on_each(self.axes)?,
            kind: RowKind {
                heads: self.heads,
                rotary_dim: self.rotary_dim(),
                attention_factor: self.attention_factor,
                exact: self.angle == MixedAngle::Exact,
            },
            old: None,
        })
    }
}

impl FillRows for MixedFrequencies<'_> {
    fn fill(
        &self,
        angles: &TokenAngles<'_>,
        first_token: usize,
        heads: Range<usize>,
        values: &mut [f32],
    ) {
        let positions = &angles.positions;
        let chunks = |head| index(self.shape(), 0, head, 0);
        MakeRows {
            angle: match self.angle {
                MixedAngle::Exact => MixedSum::Exact,
                MixedAngle::SummedF32 => MixedSum::F32,
            },
            chunks: &self.chunks[chunks(heads.start)..chunks(heads.end)],
            reach: self.reach,
            axes: self.axes,
            heads: heads.len(),
            pairs: self.pairs,
            factor: self.attention_factor,
            positions: &|token, axis| positions.at(first_token + token, axis),
            rows: values,
        }
        .run(self.proof);
    }
}

#[cfg(all(test, feature = "alloc"))]
mod tests {
    use super::*;
    use crate::Positions;
    use std::vec::Vec;

    /// A fill of some tokens and heads equals that part of a fill of all.
    #[test]
    fn a_part_of_the_rows() {
        let [axes, heads, pairs, tokens] = [2, 5, 11, 40];
        let inverse: Vec<f64> = (0..axes * heads * pairs).map(|i| 1.0 / i as f64).collect();
        let inverse = [&[2.0], &inverse[1..]].concat();
        let frequencies = MixedFrequencies::new(&inverse, [axes, heads, pairs], 1.0).unwrap();
        let at: Vec<i64> = (0..(axes * tokens) as i64).map(|i| i * i).collect();
        let positions = Positions::token_major(&at);
        let angles = frequencies.at(positions).unwrap();
        let mut all = std::vec![f32::NAN; tokens * heads * 2 * pairs];
        angles.rows_in(&mut all).unwrap();
        for (tokens, part) in [
            (0..40, 0..5),
            (3..4, 2..3),
            (7..39, 1..4),
            (9..20, 4..5),
            (5..5, 0..2),
            (1..9, 3..3),
        ] {
            let mut made = std::vec![f32::NAN; tokens.len() * part.len() * 2 * pairs];
            angles.fill(tokens.start, part.clone(), &mut made);
            let expected: Vec<f32> = tokens
                .flat_map(|token| part.clone().map(move |head| token * heads + head))
                .flat_map(|row| &all[row * 2 * pairs..][..2 * pairs])
                .copied()
                .collect();
            assert_eq!(made, expected, "{part:?}");
        }
    }
}
