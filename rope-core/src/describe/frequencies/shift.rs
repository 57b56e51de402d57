//! Rows that move rotated keys: by a delta, or from old frequencies and positions to new ones.

use super::source::{FillRows, RowKind};
use super::{Angle, Frequencies, FrequencyChunks};
use crate::base::error::check_count;
use crate::describe::positions::ResolvedPositions;
use crate::error::{PositionsError, RowsError};
use crate::kernel::sincos::AxisPosition;
use crate::kernel::sincos::chunk::Step;
use crate::kernel::sincos::oracle::{Remainder, cos_sin};
use crate::{Error, IntoPositions, Rows};

impl Frequencies<'_> {
    /// Computes the rows that move rotated keys by `deltas`, for [`Rope::rotate`](crate::Rope::rotate): the rows of the
    /// deltas as positions, with magnitude 1, because the keys already have the attention factor. On several axes a
    /// token has one delta per axis.
    ///
    /// # Errors
    ///
    /// The errors of [`Frequencies::rows`].
    #[doc(alias("seq_add", "seq_rm", "k_shift", "context_shift"))]
    #[cfg(feature = "alloc")]
    pub fn shift<'p>(&self, deltas: impl IntoPositions<'p>) -> Result<Rows<'static>, Error> {
        self.of_magnitude_one().rows(deltas)
    }

    /// Computes [`Frequencies::shift`] in the caller's storage. Uses its first `tokens * rotary_dim` values.
    ///
    /// # Errors
    ///
    /// The errors of [`Frequencies::rows_in`].
    pub fn shift_in<'p, 'r>(
        &self,
        deltas: impl IntoPositions<'p>,
        storage: &'r mut [f32],
    ) -> Result<Rows<'r>, Error> {
        self.of_magnitude_one().rows_in(deltas, storage)
    }

    /// Computes the rows that move keys from other frequencies and positions to these, for dynamic NTK, YaRN or
    /// LongRoPE whose frequencies changed with the length of a sequence. `old` are the frequencies that rotated the
    /// keys, `from` their old positions, `to` their new ones.
    ///
    /// An angle is the exact difference `to * new - from * old`, in turns. Its cos and sin, times the new attention
    /// factor over the old, are correctly rounded. Each pair takes 0.2 microseconds.
    ///
    /// # Errors
    ///
    /// The errors of [`Frequencies::rows`]; [`RowsError::RotaryDim`] if the numbers of pairs differ; [`Error::Count`]
    /// if the lengths of `from` and `to` differ; and [`PositionsError::NotAnInteger`] for positions that are
    /// coordinates.
    #[cfg(feature = "alloc")]
    pub fn shift_from<'p>(
        &self,
        old: &Frequencies<'_>,
        from: impl IntoPositions<'p>,
        to: impl IntoPositions<'p>,
    ) -> Result<Rows<'static>, Error> {
        let moves = self.moves(old, from, to)?;
        let kind = moves.kind();
        let values = kind.values(moves.to.tokens(), |values| moves.fill(values))?;
        kind.rows(values).map(Rows::moving)
    }

    /// Computes [`Frequencies::shift_from`] in the caller's storage. Uses its first `tokens * rotary_dim` values.
    ///
    /// # Errors
    ///
    /// The errors of [`Frequencies::shift_from`], and [`Error::Storage`] if the storage is too short; it is untouched
    /// then.
    pub fn shift_from_in<'p, 'r>(
        &self,
        old: &Frequencies<'_>,
        from: impl IntoPositions<'p>,
        to: impl IntoPositions<'p>,
        storage: &'r mut [f32],
    ) -> Result<Rows<'r>, Error> {
        let moves = self.moves(old, from, to)?;
        let kind = moves.kind();
        let values = kind.values_in(moves.to.tokens(), storage, |values| moves.fill(values))?;
        kind.rows(&*values).map(Rows::moving)
    }

    fn of_magnitude_one(&self) -> Frequencies<'_> {
        Frequencies {
            chunks: FrequencyChunks::from(self.chunks.iter().as_slice()),
            attention_factor: 1.0,
            angle: Angle::Exact,
            ..*self
        }
    }

    fn moves<'m, 'p: 'm>(
        &'m self,
        old: &'m Frequencies<'_>,
        from: impl IntoPositions<'p>,
        to: impl IntoPositions<'p>,
    ) -> Result<Moves<'m>, Error> {
        if old.rotary_dim() != self.rotary_dim() {
            return Err(Error::Rows(RowsError::RotaryDim {
                rotary_dim: old.rotary_dim(),
                required: "the same in the old frequencies as in the new",
            }));
        }
        let from = from.into().on(old.axes())?;
        let to = to.into().on(self.axes())?;
        check_count("from", from.tokens(), to.tokens())?;
        for positions in [&from, &to] {
            if let Some(value) = positions.first_coordinate() {
                return Err(Error::Positions(PositionsError::NotAnInteger { value }));
            }
        }
        Ok(Moves {
            old,
            new: self,
            from,
            to,
        })
    }
}

/// A change of frequencies and positions of keys.
struct Moves<'m> {
    old: &'m Frequencies<'m>,
    new: &'m Frequencies<'m>,
    from: ResolvedPositions<'m>,
    to: ResolvedPositions<'m>,
}

impl Moves<'_> {
    fn kind(&self) -> RowKind {
        RowKind {
            attention_factor: self.new.attention_factor / self.old.attention_factor,
            ..self.new.kind()
        }
    }

    fn fill(&self, values: &mut [f32]) {
        let factor = self.kind().attention_factor;
        let pairs = self.new.pairs;
        for (token, row) in values.chunks_exact_mut(2 * pairs).enumerate() {
            let (cos, sin) = row.split_at_mut(pairs);
            for (pair, (cos, sin)) in cos.iter_mut().zip(sin).enumerate() {
                let turns = |frequencies: &Frequencies<'_>, positions: &ResolvedPositions<'_>| {
                    let entry = frequencies.chunks[pair / 8].get(pair % 8);
                    let (_, fraction) = entry.step.whole_and_fraction();
                    match positions.at(token, entry.axis.into()) {
                        // Whole turns vanish, from the product as from the step.
                        AxisPosition::Integer(position) => fraction.wrapping_mul(position as u128),
                        AxisPosition::Coordinate(_) => 0,
                    }
                };
                let difference =
                    turns(self.new, &self.to).wrapping_sub(turns(self.old, &self.from));
                let one = AxisPosition::Integer(1);
                let angle = Remainder::new(one, Step::new(0, difference));
                (*cos, *sin) = cos_sin(angle, factor);
            }
        }
    }
}
