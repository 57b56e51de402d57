//! Published initial values of learned frequencies.

use alloc::vec::Vec;
use rope_core::error::RowsError;
use rope_core::{Error, Frequencies, Positions, Scaling};

/// Computes the initial frequencies of RoPE-Mixed (`init_random_2d_freqs` in rope-vit and timm), `[2, heads, pairs]`,
/// for [`MixedFrequencies::new`](rope_core::axes::MixedFrequencies::new).
///
/// Pair `k` of the first half of a head has the magnitude `theta^(-2k / pairs)` and points in the head's direction, an
/// angle in radians: `cos(direction)` of the magnitude on axis 0, `sin(direction)` on axis 1. The second half has the
/// same magnitudes and points a quarter turn further. Directions are the caller's random numbers, published as uniform
/// in `[0, 2 pi)`, one per head; for several blocks of a model in sequence, one per head of each.
///
/// Each frequency is the f32 nearest to the product of the exact cos or sin and the magnitude, correctly rounded to
/// f64. The values of rope-vit and timm differ by up to 2e-7. Uses the first `2 * heads * pairs` numbers of `inverse`.
///
/// ```
/// use rope_core::axes::MixedFrequencies;
/// use rope_core::Positions;
/// use rope_models::{GridIndexing, initial_mixed};
///
/// // 2 heads of 4 pairs, each head looking along a direction of its own
/// let mut learned = [0.0_f32; 2 * 2 * 4];
/// initial_mixed(10.0, &[0.3_f32, 4.1], 4, &mut learned)?;
/// let frequencies = MixedFrequencies::new(&learned, [2, 2, 4], 1.0)?;
///
/// // an image of 3 x 5 patches: axis 0 is the column, axis 1 the row
/// let mut grid = [0_i32; 2 * 15];
/// let grid = GridIndexing::Xy.positions_in([3, 5], &mut grid)?;
/// assert_eq!(frequencies.rows(Positions::axis_major(&*grid))?.len(), 15);
/// # Ok::<(), rope_core::Error>(())
/// ```
///
/// # Errors
///
/// [`RowsError::RotaryDim`] unless `pairs` is even; [`Error::Parameter`] for a
/// `theta` that is not positive; [`Error::ListEntry`] for a direction beyond 2^20; [`Error::Storage`] if `inverse` is
/// too short; and [`FrequenciesError::TurnsPerPosition`](rope_core::error::FrequenciesError::TurnsPerPosition) for a
/// `theta` so far below 1 that a magnitude is above 205887. `inverse` is untouched then.
pub fn initial_mixed<T: Copy + Into<f64>>(
    theta: f64,
    directions: &[T],
    pairs: usize,
    inverse: &mut [f32],
) -> Result<(), Error> {
    let heads = directions.len();
    let magnitudes = magnitudes(theta, pairs)?;
    let [x, y] = axes(heads, pairs, inverse)?;
    let directions: Vec<f64> = directions
        .iter()
        .map(|&direction| direction.into())
        .collect();
    for (index, &direction) in directions.iter().enumerate() {
        checked(index, direction)?;
    }
    let half = pairs / 2;
    for (k, magnitude) in magnitudes.iter().enumerate() {
        // A row per direction: its cos and sin times the magnitude, rounded once. All refusals have been checked.
        let unit = Frequencies::from_inverse(2, &[1.0], magnitude.inverse)?;
        let rows = unit.rows(Positions::from(&directions))?;
        for head in 0..heads {
            if let Some(([cos], [sin])) = rows.row(head, 0) {
                let at = head * pairs + k;
                (x[at], x[at + half]) = (*cos, 0.0 - sin);
                (y[at], y[at + half]) = (*sin, *cos);
            }
        }
    }
    Ok(())
}

/// Computes the initial frequencies of rope-vit's and timm's axial variant (`rotate=False`), `[2, heads, pairs]`:
/// [`initial_mixed`] with direction 0 for all heads. The first half of the pairs points along axis 0 and the second
/// along axis 1. (The originals have the cosine of a rounded quarter turn, 4e-8, where this has zero.)
///
/// # Errors
///
/// The errors of [`initial_mixed`].
pub fn initial_axial(
    theta: f64,
    heads: usize,
    pairs: usize,
    inverse: &mut [f32],
) -> Result<(), Error> {
    let magnitudes = magnitudes(theta, pairs)?;
    let [x, y] = axes(heads, pairs, inverse)?;
    let half = pairs / 2;
    for (x, y) in x.chunks_exact_mut(pairs).zip(y.chunks_exact_mut(pairs)) {
        for (k, magnitude) in magnitudes.iter().enumerate() {
            let magnitude = magnitude.inverse_f32;
            (x[k], x[k + half]) = (magnitude, 0.0);
            (y[k], y[k + half]) = (0.0, magnitude);
        }
    }
    Ok(())
}

/// Returns the initial magnitudes of the pairs of half a head.
fn magnitudes(theta: f64, pairs: usize) -> Result<Frequencies<'static>, Error> {
    if !(theta.is_finite() && theta > 0.0) {
        return Err(Error::Parameter {
            name: "theta",
            value: theta,
            required: "positive and finite",
        });
    }
    match pairs {
        2..=32768 if pairs.is_multiple_of(2) => Frequencies::new(pairs, theta, &Scaling::Default),
        _ => Err(Error::Rows(RowsError::RotaryDim {
            rotary_dim: pairs.saturating_mul(2),
            required: "a multiple of 4 between 4 and 65536",
        })),
    }
}

/// Returns the numbers of both axes.
fn axes(heads: usize, pairs: usize, inverse: &mut [f32]) -> Result<[&mut [f32]; 2], Error> {
    let (given, each) = (inverse.len(), heads.saturating_mul(pairs));
    let needed = each.saturating_mul(2);
    let inverse = inverse.get_mut(..needed).ok_or(Error::Storage {
        what: "numbers of inverse",
        given,
        needed,
    })?;
    Ok(inverse.split_at_mut(each).into())
}

/// Checks that a direction is small enough for an accurate quarter turn.
fn checked(index: usize, direction: f64) -> Result<(), Error> {
    match direction.abs() <= f64::from(1 << 20) {
        true => Ok(()),
        false => Err(Error::ListEntry {
            name: "directions",
            index: u32::try_from(index).unwrap_or(u32::MAX),
            value: direction,
            required: "an angle in radians, 2^20 at most in magnitude",
        }),
    }
}
