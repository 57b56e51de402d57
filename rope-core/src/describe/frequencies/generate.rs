//! From frequencies and positions to rows: selects the generator and the storage.

#[cfg(feature = "alloc")]
use super::zeros;
use super::{Angle, Frequencies};
use crate::describe::positions::ResolvedPositions;
use crate::error::FrequenciesError;
use crate::kernel::sincos::consecutive::{self, MakeConsecutive};
use crate::kernel::sincos::{MakeRows, RowAngle, SinCosPolynomials};
use crate::{Error, IntoPositions, Rows};

impl Frequencies<'_> {
    /// Computes the rows of these positions: `[cos | sin]` of `position * frequency`, times the attention factor. Each
    /// value is the f32 nearest to the exact one (0.5 ulp) at every integer position from -2^63 to 2^63, and for every
    /// finite coordinate. Every backend returns the same bits. Beyond 2^32 turns a slower path computes them. If a
    /// coordinate is so near to zero that the sine equals the angle, and the angle is half-way between two f32, the
    /// sine is either of the two.
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
    /// is not finite; [`FrequenciesError::RowsTooLong`] for more values than a slice can have; [`Error::OutOfMemory`]
    /// if the allocation fails.
    #[cfg(feature = "alloc")]
    pub fn rows<'p>(&self, positions: impl IntoPositions<'p>) -> Result<Rows<'static>, Error> {
        let positions = positions.into().on(self.axes())?;
        let mut values = zeros(self.values(&positions)?)?;
        self.fill(&positions, 0, &mut values);
        Rows::computed_vec(values, self.rotary_dim()).of_magnitude(self.attention_factor())
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
        let positions = positions.into().on(self.axes())?;
        let (given, needed) = (storage.len(), self.values(&positions)?);
        let values = storage.get_mut(..needed).ok_or(Error::Storage {
            what: "values of storage",
            given,
            needed,
        })?;
        self.fill(&positions, 0, values);
        Rows::computed(values, self.rotary_dim()).of_magnitude(self.attention_factor())
    }

    pub(super) fn values(&self, positions: &ResolvedPositions<'_>) -> Result<usize, Error> {
        // The most values that a slice can have.
        const MOST: usize = isize::MAX as usize / size_of::<f32>();
        let (tokens, rotary_dim) = (positions.tokens(), self.rotary_dim());
        tokens
            .checked_mul(rotary_dim)
            .filter(|&values| values <= MOST)
            .ok_or(Error::Frequencies(FrequenciesError::RowsTooLong {
                tokens,
                rotary_dim,
            }))
    }

    /// Fills as many rows as fit, from token `first` on.
    pub(crate) fn fill(&self, positions: &ResolvedPositions<'_>, first: usize, rows: &mut [f32]) {
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
            axes: self.axes(),
            heads: 1,
            pairs: self.pairs,
            factor: self.attention_factor,
            positions: &|token, axis| positions.at(first + token, axis),
            rows,
        }
        .run(self.proof);
    }
}
