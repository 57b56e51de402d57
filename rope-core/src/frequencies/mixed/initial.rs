//! What learned frequencies start from, as published.

use super::{MAX_ROTARY_DIM, MixedFrequencies, Result, scaling};
use crate::Error;
use crate::kernel::sincos::oracle::{RADIAN, Remainder, cos_sin_by};
use crate::positions::AxisPosition;
use crate::real::Real;

impl MixedFrequencies<'_> {
    /// The frequencies that RoPE-Mixed starts from (`init_random_2d_freqs` in rope-vit and timm), `[2, heads, pairs]`.
    ///
    /// Pair `k` of the first half of a head has the magnitude `theta^(-2k / pairs)` and looks along the head's
    /// direction, an angle in radians: `cos(direction)` of the magnitude on axis 0, `sin(direction)` on axis 1. The
    /// second half has the same magnitudes and looks a quarter turn further. Directions are the caller's random
    /// numbers, published as uniform in `[0, 2 pi)`, one for each head; for the blocks of a model one after the other,
    /// one for each head of each.
    ///
    /// Each frequency is the f32 nearest to the exact value. What rope-vit and timm compute differs from it by up to
    /// 2e-7. The first `2 * heads * pairs` numbers of `inverse` are used.
    ///
    /// # Errors
    ///
    /// [`Error::RotaryDim`] unless `pairs` is even, [`Error::Parameter`] for a `theta` that is not positive,
    /// [`Error::ListEntry`] for a direction beyond 2^20, and [`Error::Storage`] if `inverse` is too short; it is
    /// untouched then.
    pub fn initial_mixed<T: Copy + Into<f64>>(
        theta: f64,
        directions: &[T],
        pairs: usize,
        inverse: &mut [f32],
    ) -> Result<()> {
        let heads = directions.len();
        let magnitudes = Magnitudes::new(theta, pairs)?;
        let inverse = magnitudes.storage(heads, inverse)?;
        for (index, &direction) in directions.iter().enumerate() {
            checked(index, direction.into())?;
        }
        for (head, &direction) in directions.iter().enumerate() {
            magnitudes.write(direction.into(), [head, heads], inverse);
        }
        Ok(())
    }

    /// The frequencies of rope-vit's and timm's axial start (`rotate=False`), `[2, heads, pairs]`:
    /// [`MixedFrequencies::initial_mixed`] with the direction 0 for all heads, so that the first half of the pairs
    /// looks along axis 0 and the second along axis 1. (Theirs has the cosine of a rounded quarter turn, 4e-8, where
    /// this has zero.)
    ///
    /// # Errors
    ///
    /// Those of [`MixedFrequencies::initial_mixed`].
    pub fn initial_axial(
        theta: f64,
        heads: usize,
        pairs: usize,
        inverse: &mut [f32],
    ) -> Result<()> {
        let magnitudes = Magnitudes::new(theta, pairs)?;
        let inverse = magnitudes.storage(heads, inverse)?;
        for head in 0..heads {
            magnitudes.write(0.0, [head, heads], inverse);
        }
        Ok(())
    }
}

/// How fast the pairs of a head rotate at first, whatever their direction.
struct Magnitudes {
    log2_theta: Real,
    pairs: usize,
}

impl Magnitudes {
    fn new(theta: f64, pairs: usize) -> Result<Self> {
        let log2_theta = scaling::positive("theta", theta)?.log2();
        match pairs {
            2.. if pairs.is_multiple_of(2) && pairs <= MAX_ROTARY_DIM / 2 => {
                Ok(Self { log2_theta, pairs })
            }
            _ => Err(Error::RotaryDim {
                rotary_dim: pairs.saturating_mul(2),
                required: "a multiple of 4 between 4 and 65536",
            }),
        }
    }

    /// The numbers of two axes.
    fn storage<'i>(&self, heads: usize, inverse: &'i mut [f32]) -> Result<&'i mut [f32]> {
        let (given, needed) = (inverse.len(), heads.saturating_mul(2 * self.pairs));
        inverse
            .get_mut(..needed)
            .ok_or(Error::Storage { given, needed })
    }

    /// Those of one head, `[head, heads]`.
    #[inline(never)]
    fn write(&self, direction: f64, [head, heads]: [usize; 2], inverse: &mut [f32]) {
        let (x, y) = inverse.split_at_mut(heads * self.pairs);
        let half = self.pairs / 2;
        // Below 2^20 the remainder is known within 2^-109 turn.
        let direction = Remainder::new(AxisPosition::Coordinate(direction), RADIAN);
        for k in 0..half {
            let part = Real::ratio(2 * k as u64, self.pairs as u64);
            let magnitude = (-(self.log2_theta * part)).exp2();
            let (cos, sin) = cos_sin_by(direction, magnitude);
            let at = head * self.pairs + k;
            (x[at], x[at + half]) = (cos, 0.0 - sin);
            (y[at], y[at + half]) = (sin, cos);
        }
    }
}

/// A direction within which a quarter turn is known well enough.
fn checked(index: usize, direction: f64) -> Result<()> {
    match direction.abs() <= f64::from(1 << 20) {
        true => Ok(()),
        false => Err(Error::ListEntry {
            name: "directions",
            index,
            value: direction,
            required: "an angle in radians, 2^20 at most in magnitude",
        }),
    }
}
