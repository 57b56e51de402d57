//! The inverse of rows: the check that one factor undoes all pairs, and the inverse of each pair otherwise.

use super::Rows;
use crate::Error;
use crate::base::error::saturated;
use crate::base::memory::part_of_storage;
use crate::error::{FrequenciesError, RowsError};

/// The relative tolerance between the squared magnitude of a pair and the square of the attention factor. It covers cos
/// and sin rounded to f16, by 2^-11 each: `(1 + 2^-11)^2 - 1 = 2^-10 + 2^-22`, with some room for the rounding to f32.
/// Rows of xPos exceed it one position from the center, by `5 * 2^-10` in their first pair.
const TOLERANCE: f32 = 1.0 / 1024.0 + 1.0 / 1_048_576.0;

/// The tolerance for cos and sin in bf16, as published runtimes store their tables: by 2^-8 each, `2^-7 + 2^-16`.
const TOLERANCE_BF16: f32 = 1.0 / 128.0 + 1.0 / 32_768.0;

/// A pair of a row.
struct Pair {
    row: usize,
    head: usize,
    pair: usize,
    cos: f32,
    sin: f32,
}

impl Pair {
    fn squared_magnitude(&self) -> f64 {
        let (cos, sin) = (f64::from(self.cos), f64::from(self.sin));
        cos * cos + sin * sin
    }

    /// Returns the cos and sin of the inverse.
    fn inverse(&self) -> [f32; 2] {
        let square = self.squared_magnitude();
        let undoes = |value: f32| (f64::from(value) / square) as f32;
        [undoes(self.cos), undoes(-self.sin)]
    }
}

/// Returns true if a pair can be a rotation times a factor, rounded as tables are. Computed in f32, which is exact
/// enough and available on small machines.
fn has_magnitude(cos: f32, sin: f32, factor: f32) -> bool {
    let bf16 = (cos.to_bits() | sin.to_bits()) & 0xffff == 0;
    let tolerance = if bf16 { TOLERANCE_BF16 } else { TOLERANCE };
    let (cos, sin) = (cos / factor, sin / factor);
    // NaN compares false.
    (cos * cos + sin * sin - 1.0).abs() <= tolerance
}

impl Rows<'_> {
    /// Checks that the attention factor is the magnitude of every pair: one factor undoes no others.
    #[inline(never)]
    pub(crate) fn check_magnitudes(&self) -> Result<(), Error> {
        if self.uniform {
            return Ok(());
        }
        let factor = self.attention_factor;
        // Plain loops keep this code small: every program that rotates links it.
        for row in 0..self.len() {
            for head in 0..self.heads {
                let (cos, sin) = self.at(row, head);
                for (pair, (&cos, &sin)) in cos.iter().zip(sin).enumerate() {
                    if !has_magnitude(cos, sin, factor as f32) {
                        return Err(Error::Rows(RowsError::Magnitude {
                            row,
                            head,
                            pair: saturated(pair),
                            cos,
                            sin,
                            factor,
                        }));
                    }
                }
            }
        }
        Ok(())
    }

    /// Iterates over all pairs, in the order of rows, heads and pairs.
    fn all_pairs(&self) -> impl Iterator<Item = Pair> {
        let rows = (0..self.len()).flat_map(|row| (0..self.heads).map(move |head| (row, head)));
        rows.flat_map(|(row, head)| {
            let (cos, sin) = self.at(row, head);
            cos.iter()
                .zip(sin)
                .enumerate()
                .map(move |(pair, (&cos, &sin))| Pair {
                    row,
                    head,
                    pair,
                    cos,
                    sin,
                })
        })
    }

    /// Computes the rows that undo these with [`Direction::Forward`], pair by pair, whatever their magnitudes: `cos /
    /// (cos^2 + sin^2)` and `-sin / (cos^2 + sin^2)` in f64, rounded once. The result lies in the first
    /// `len * heads * rotary_dim` values of `storage`.
    ///
    /// If the magnitude of every pair is the attention factor, [`Direction::Inverse`] undoes the rows without this
    /// call. The pairs of xPos have other magnitudes: each grows or decays at its own rate.
    ///
    /// # Errors
    ///
    /// [`Error::Storage`] if the storage is too short; [`FrequenciesError::RowsTooLong`] for more values than a slice
    /// can have; [`RowsError::NoInverse`] if a pair has no inverse in f32 (both values are 0, or one is not finite);
    /// [`RowsError::AttentionFactor`] if the attention factor has no inverse. The storage is untouched then.
    ///
    /// [`Direction::Forward`]: crate::Direction::Forward
    /// [`Direction::Inverse`]: crate::Direction::Inverse
    pub fn inverted<'o>(&self, storage: &'o mut [f32]) -> Result<Rows<'o>, Error> {
        let rotary_dim = self.rotary_dim();
        let rows = self.len().checked_mul(self.heads);
        let needed = rows.and_then(|rows| rows.checked_mul(rotary_dim));
        let needed = needed.ok_or(Error::Frequencies(FrequenciesError::RowsTooLong {
            tokens: self.len(),
            rotary_dim: rotary_dim.saturating_mul(self.heads),
        }))?;
        let values = part_of_storage(storage, "values of storage", needed)?;
        let none = |pair: &Pair| !pair.inverse().iter().all(|value| value.is_finite());
        if let Some(found) = self.all_pairs().find(none) {
            return Err(Error::Rows(RowsError::NoInverse {
                row: found.row,
                head: found.head,
                pair: found.pair,
                cos: found.cos,
                sin: found.sin,
            }));
        }
        let factor = self.attention_factor;
        if !(1.0 / factor).is_finite() {
            return Err(Error::Rows(RowsError::AttentionFactor { factor }));
        }
        for found in self.all_pairs() {
            let start = (found.row * self.heads + found.head) * rotary_dim + found.pair;
            [values[start], values[start + self.pairs]] = found.inverse();
        }
        let rows = Rows::computed(&*values, rotary_dim).with_attention_factor(1.0 / factor)?;
        Rows {
            moves: self.moves,
            ..rows
        }
        .with_heads(self.heads)
    }
}
