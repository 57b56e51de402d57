//! From frequencies and positions to rows: selects the generator.

use core::ops::Range;

use super::source::{FillRows, RowKind, TokenAngles};
use super::{Angle, Frequencies};
#[cfg(feature = "alloc")]
use crate::Rows;
use crate::kernel::sincos::consecutive::{self, MakeConsecutive};
use crate::kernel::sincos::{MakeRows, RowAngle, SinCosPolynomials};
use crate::{Error, IntoPositions, Positions};

impl Frequencies<'_> {
    /// Computes the rows of these positions, [`TokenAngles::rows`] of [`Frequencies::at`]: `[cos | sin]` of `position *
    /// frequency`, times the attention factor. Each value is the f32 nearest to the exact one (0.5 ulp) at every
    /// integer position and every coordinate from -2^63 to 2^63; coordinates beyond are refused. Every backend returns
    /// the same bits. Beyond 2^32 turns a slower path computes them. If a coordinate is so near to zero that the sine
    /// equals the angle, and the angle is half-way between two f32, the sine is either of the two.
    ///
    /// With [`Angle::HuggingFaceF32`] the angle is the f32 of Hugging Face's code, and the rest is exact: within 1 ulp
    /// of its results (2 if an attention factor enlarges its errors).
    ///
    /// The rows of positions `0..n` form a table for [`Rows::gather`].
    ///
    /// # Errors
    ///
    /// [`PositionsError::PerAxis`](crate::error::PositionsError::PerAxis) for a list of positions that does not divide
    /// among the axes; [`PositionsError::Coordinate`](crate::error::PositionsError::Coordinate) for a coordinate that
    /// is not a number or beyond 2^63;
    /// [`FrequenciesError::RowsTooLong`](crate::error::FrequenciesError::RowsTooLong) for more values than a slice can
    /// have; [`Error::OutOfMemory`] if the allocation fails.
    #[doc(alias = "precompute_freqs_cis")]
    #[cfg(feature = "alloc")]
    pub fn rows<'p>(&self, positions: impl IntoPositions<'p>) -> Result<Rows<'static>, Error> {
        self.at_positions(positions.into())?.rows()
    }

    /// Combines the frequencies with positions: the angles of a call that computes the rows itself, or of rows in the
    /// caller's storage ([`TokenAngles::rows_in`]).
    ///
    /// # Errors
    ///
    /// [`PositionsError::PerAxis`](crate::error::PositionsError::PerAxis) and
    /// [`PositionsError::Coordinate`](crate::error::PositionsError::Coordinate) as [`Frequencies::rows`].
    pub fn at<'a, 'p: 'a>(
        &'a self,
        positions: impl IntoPositions<'p>,
    ) -> Result<TokenAngles<'a>, Error> {
        self.at_positions(positions.into())
    }

    pub(super) fn at_positions<'a>(
        &'a self,
        positions: Positions<'a>,
    ) -> Result<TokenAngles<'a>, Error> {
        Ok(TokenAngles {
            frequencies: self,
            positions: positions.on(self.axes)?,
            kind: RowKind {
                heads: 1,
                rotary_dim: self.rotary_dim(),
                attention_factor: self.attention_factor,
                exact: self.angle == Angle::Exact,
            },
            old: None,
        })
    }
}

impl FillRows for Frequencies<'_> {
    fn fill(&self, angles: &TokenAngles<'_>, first: usize, _: Range<usize>, rows: &mut [f32]) {
        let TokenAngles {
            positions, kind, ..
        } = angles;
        if let Some(first) = positions.consecutive(first, rows.len() / self.rotary_dim().max(1))
            && kind.exact
            && self.pairs.is_multiple_of(8)
            && rows.len() >= consecutive::LEAST * self.rotary_dim()
        {
            return self.proof.run(MakeConsecutive {
                chunks: self.chunks.iter().as_slice(),
                reach: self.reach,
                polynomials: &SinCosPolynomials::new(kind.attention_factor),
                first,
                rows,
            });
        }
        MakeRows {
            angle: match kind.exact {
                true => RowAngle::Exact,
                false => RowAngle::HuggingFace,
            },
            chunks: self.chunks.iter().as_slice(),
            reach: self.reach,
            axes: self.axes,
            heads: 1,
            pairs: self.pairs,
            factor: kind.attention_factor,
            positions: &|token, axis| positions.at(first + token, axis),
            rows,
        }
        .run(self.proof);
    }
}
