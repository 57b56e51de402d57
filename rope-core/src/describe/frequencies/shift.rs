//! The angles that move rotated keys: by a delta, or from old frequencies and positions to new ones.

use super::Frequencies;
use super::source::{OldAngles, TokenAngles};
use crate::base::error::check_count;
use crate::describe::positions::ResolvedPositions;
use crate::error::{PositionsError, RowsError};
use crate::kernel::sincos::AxisPosition;
use crate::kernel::sincos::chunk::Step;
use crate::kernel::sincos::oracle::{Remainder, cos_sin};
use crate::{Error, IntoPositions};

impl Frequencies<'_> {
    /// Returns the angles that move rotated keys by `deltas`, for [`Rope::rotate`](crate::Rope::rotate): the angles of
    /// the deltas as positions, exact and with magnitude 1, because the keys already have the attention factor. On
    /// several axes a token has one delta per axis.
    ///
    /// # Errors
    ///
    /// The errors of [`Frequencies::at`].
    #[doc(alias("seq_add", "seq_rm", "k_shift", "context_shift"))]
    pub fn shift<'a, 'p: 'a>(
        &'a self,
        deltas: impl IntoPositions<'p>,
    ) -> Result<TokenAngles<'a>, Error> {
        let mut angles = self.at_positions(deltas.into())?;
        angles.kind.attention_factor = 1.0;
        angles.kind.exact = true;
        Ok(angles)
    }

    /// Returns the angles that move keys from other frequencies and positions to these, for dynamic NTK, YaRN or
    /// LongRoPE whose frequencies changed with the length of a sequence. `old` are the frequencies that rotated the
    /// keys, `from` their old positions, `to` their new ones.
    ///
    /// An angle is the exact difference `to * new - from * old`, in turns. Its cos and sin, times the new attention
    /// factor over the old, are correctly rounded. Each pair takes 0.2 microseconds.
    ///
    /// # Errors
    ///
    /// The errors of [`Frequencies::at`]; [`RowsError::RotaryDim`] if the numbers of pairs differ; [`Error::Count`]
    /// if the lengths of `from` and `to` differ; and [`PositionsError::NotAnInteger`] for positions that are
    /// coordinates.
    pub fn shift_from<'a, 'p: 'a>(
        &'a self,
        old: &'a Frequencies<'_>,
        from: impl IntoPositions<'p>,
        to: impl IntoPositions<'p>,
    ) -> Result<TokenAngles<'a>, Error> {
        if old.rotary_dim() != self.rotary_dim() {
            return Err(Error::Rows(RowsError::RotaryDim {
                rotary_dim: old.rotary_dim(),
                required: "the same in the old frequencies as in the new",
            }));
        }
        let from = from.into().on(old.axes())?;
        let mut angles = self.at_positions(to.into())?;
        check_count("from", from.tokens(), angles.tokens())?;
        for positions in [&from, &angles.positions] {
            if let Some(value) = positions.first_coordinate() {
                return Err(Error::Positions(PositionsError::NotAnInteger { value }));
            }
        }
        angles.kind.attention_factor = self.attention_factor / old.attention_factor;
        angles.old = Some(OldAngles {
            new: self,
            old,
            positions: from,
            fill: fill_differences,
        });
        Ok(angles)
    }
}

/// Computes the rows of the differences of new angles and old.
fn fill_differences(
    old: &OldAngles<'_>,
    angles: &TokenAngles<'_>,
    first_token: usize,
    values: &mut [f32],
) {
    let pairs = old.new.pairs;
    for (token, row) in (first_token..).zip(values.chunks_exact_mut(2 * pairs)) {
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
            let (to, from) = (
                turns(old.new, &angles.positions),
                turns(old.old, &old.positions),
            );
            let one = AxisPosition::Integer(1);
            let angle = Remainder::new(one, Step::new(0, to.wrapping_sub(from)));
            (*cos, *sin) = cos_sin(angle, angles.kind.attention_factor);
        }
    }
}
