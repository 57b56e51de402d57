//! From frequencies and positions to rows: selects the generator and the storage.

use core::ops::Range;

use super::source::{FillRows, RowKind, RowsAt};
use super::{Angle, Frequencies};
use crate::describe::positions::ResolvedPositions;
use crate::kernel::sincos::consecutive::{self, MakeConsecutive};
use crate::kernel::sincos::{MakeRows, RowAngle, SinCosPolynomials};
use crate::{Error, IntoPositions, Positions, Rows};

impl Frequencies<'_> {
    /// Computes the rows of these positions: `[cos | sin]` of `position * frequency`, times the attention factor. Each
    /// value is the f32 nearest to the exact one (0.5 ulp) at every integer position and every coordinate from -2^63 to
    /// 2^63; coordinates beyond are refused. Every backend returns the same bits. Beyond 2^32 turns a slower path
    /// computes them. If a coordinate is so near to zero that the sine equals the angle, and the angle is half-way
    /// between two f32, the sine is either of the two.
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
        let positions = self.resolve(positions.into())?;
        let fill = |values: &mut [f32]| self.fill(&positions, 0, 0..1, values);
        let values = self.kind().values(positions.tokens(), fill)?;
        self.kind().rows(values)
    }

    /// Computes [`Frequencies::rows`] in the caller's storage. Uses its first `tokens * rotary_dim` values.
    ///
    /// # Errors
    ///
    /// The errors of [`Frequencies::rows`], and [`Error::Storage`] if the storage is too short; it is untouched then.
    pub fn rows_in<'p, 'r>(
        &self,
        positions: impl IntoPositions<'p>,
        storage: &'r mut [f32],
    ) -> Result<Rows<'r>, Error> {
        let positions = self.resolve(positions.into())?;
        let fill = |values: &mut [f32]| self.fill(&positions, 0, 0..1, values);
        let values = self.kind().values_in(positions.tokens(), storage, fill)?;
        self.kind().rows(&*values)
    }

    /// Combines the frequencies with positions, as the angles of a call that computes the rows itself. Checks the
    /// positions once; a call with positions that are refused returns their error.
    pub fn at<'a, 'p: 'a>(&'a self, positions: impl IntoPositions<'p>) -> RowsAt<'a> {
        RowsAt {
            frequencies: self,
            positions: self.resolve(positions.into()),
        }
    }

    /// Checks positions against the axes.
    fn resolve<'p>(&self, positions: Positions<'p>) -> Result<ResolvedPositions<'p>, Error> {
        positions.on(self.axes)
    }
}

impl FillRows for Frequencies<'_> {
    fn kind(&self) -> RowKind {
        RowKind {
            heads: 1,
            rotary_dim: self.rotary_dim(),
            attention_factor: self.attention_factor,
        }
    }

    fn fill(
        &self,
        positions: &ResolvedPositions<'_>,
        first: usize,
        _: Range<usize>,
        rows: &mut [f32],
    ) {
        if let Some(first) = positions.consecutive(first, rows.len() / self.rotary_dim().max(1))
            && self.angle == Angle::Exact
            && self.pairs.is_multiple_of(8)
            && rows.len() >= consecutive::LEAST * self.rotary_dim()
        {
            return self.proof.run(MakeConsecutive {
                chunks: self.chunks.iter().as_slice(),
                reach: self.reach,
                polynomials: &SinCosPolynomials::new(self.attention_factor),
                first,
                rows,
            });
        }
        MakeRows {
            angle: match self.angle {
                Angle::Exact => RowAngle::Exact,
                Angle::HuggingFaceF32 => RowAngle::HuggingFace,
            },
            chunks: self.chunks.iter().as_slice(),
            reach: self.reach,
            axes: self.axes,
            heads: 1,
            pairs: self.pairs,
            factor: self.attention_factor,
            positions: &|token, axis| positions.at(first + token, axis),
            rows,
        }
        .run(self.proof);
    }
}
