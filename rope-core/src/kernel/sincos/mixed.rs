//! Rows of mixed axes: each pair has a step on every axis, and its angle is the sum over the axes.
//!
//! # How
//!
//! 1. *Reduce.* Per axis, the product `x * high` is the exact sum of two f64: the rounded product, and its rounding
//!    error. The whole quarter turns of the first are subtracted exactly. The sum of the remainders is kept as two f64
//!    too (Knuth), and whole quarter turns are subtracted from it once more. Nothing is rounded before the large parts
//!    have canceled, so an angle that is small because two axes cancel is as accurate as any other.
//! 2. *Evaluate, round, doubt*: as in [`sincos`](super), with the same polynomials.
//!
//! An axis with a zero coordinate or step adds nothing: it changes no bit of the sum and causes no doubt. Grids have a
//! row and a column of zeros, and frequencies of fixed axes have mostly zeros.
//!
//! A chunk of two axes takes 62 operations; one of a single axis takes 37.
//!
//! # Error
//!
//! `p` is the sum over the axes of `|x * 4 step|`, each at most 2^34; `r` the remainder in quarter turns.
//!
//! | source | absolute |
//! |---|---|
//! | `high + low` is the step within 2^-106 of it | 1 * 2^-106 p |
//! | `x low` below 2^-52 of `x high`, rounded | 2 * 2^-106 p |
//! | its sum with what `x high` lost, below 1.5 * 2^-52, rounded | 3 * 2^-106 p |
//! | six sums of low parts, of 1.5 * 2^-51 p at most, each rounded | 36 * 2^-106 p |
//! | sum | 42 * 2^-106 p |
//!
//! A remainder is in doubt unless `r^2 >= 2^-100` times the sum of the squares of `x * 4 step`, which is at least `p^2
//! / 4`. Therefore `r >= 2^-51 p`, and the error is 42 * 2^-55 of `r`, 11 units in the last place of its sine. The
//! rounding of `r` itself adds one. The reduction is thus 12 units where [`sincos`](super) has 8, and the total 64,
//! with [`DOUBT`] at 128. A cosine is off by 1.2 times the error of `r`, less than a unit.
//!
//! With `p` up to 2^10, remainders below 2^-41 are in doubt; with 2^36, those below 2^-15. Results are normal f32
//! numbers, because a remainder below 2^-100 is in doubt as well unless all products are zero.

use super::chunk::{FrequencyChunk, power_of_two, quarters};
use super::oracle::{RADIAN, Remainder};
use super::position::AxisPosition;
use super::{DOUBT, Doubtful, Octet, PairAngle, ROUND, SinCosVectors};
use crate::simd::{Scalar, SimdF64};

/// The least square of a remainder, relative to the sum of the squares of all products.
const LEAST_RELATIVE: f64 = power_of_two(-100);
/// The least square of a remainder if not all products are zero.
const LEAST_SQUARE: f64 = power_of_two(-200);

/// The definition of the angle of a token's coordinates and a pair's steps. The chunks hold eight pairs, one chunk per
/// axis.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MixedSum {
    /// The exact sum.
    Exact,
    /// The angle in f32 and in radians: each product rounded, and each sum, axis 0 first.
    ///
    /// The product of two 24-bit numbers is exact in f64. Their sum is rounded to f64 first, which moves no sum across
    /// a midpoint of f32 numbers, because 53 is at least two times 24 plus two (Figueroa).
    ///
    /// An angle is at most 2^36 quarter turns in the fast path, four times the limit of
    /// [`RowAngle::HuggingFace`](super::RowAngle::HuggingFace): the 6 units in the last place of the reduction become
    /// 24, and the sum 78.
    F32,
}

impl PairAngle for MixedSum {
    #[inline(always)]
    fn chunks(axes: usize) -> usize {
        axes
    }

    fn is_exact(self) -> bool {
        matches!(self, MixedSum::Exact)
    }

    #[inline(always)]
    fn cos_sin<S: SimdF64>(self, s: S, vectors: &SinCosVectors<S>, of: Octet<'_>) -> Doubtful<S> {
        let Octet { x, chunks, part } = of;
        if let MixedSum::F32 = self {
            let (high, low) = const { quarters(RADIAN) };
            return vectors.at(s, radians(s, of), s.splat_f64(high), s.splat_f64(low));
        }
        let first = reduce(s, &chunks[0], x[0], part);
        // The remainder of all axes is `sum + low`.
        let (mut sum, mut low, mut whole) = (first.rest, first.below, first.whole);
        let mut squares = s.mul_f64(first.product, first.product);
        for (chunk, &x) in chunks.iter().zip(x).skip(1) {
            let next = reduce(s, chunk, x, part);
            let lost;
            (sum, lost) = exact_sum(s, sum, next.rest);
            low = add(s, low, add(s, lost, next.below));
            whole = add(s, whole, next.whole);
            squares = s.mul_add(next.product, next.product, squares);
        }
        let rounded = add(s, sum, s.splat_f64(ROUND));
        let r = add(
            s,
            s.sub_f64(sum, s.sub_f64(rounded, s.splat_f64(ROUND))),
            low,
        );
        let square = s.mul_f64(r, r);
        let (cos, sin) = vectors.evaluate(s, r, square);
        let above_least = s.mul_add(squares, s.splat_f64(-LEAST_RELATIVE), square);
        let doubt = s.any_doubt::<DOUBT>([cos, sin], squares, above_least, LEAST_SQUARE);
        let (cos, sin) = s.quarter_turns(add(s, rounded, whole), cos, sin);
        (cos, sin, doubt)
    }

    fn remainder(self, at: &[AxisPosition; 4], of: Octet<'_>) -> Remainder {
        match self {
            MixedSum::Exact => {
                let steps = of.chunks.iter().map(|chunk| chunk.step[of.part]);
                Remainder::sum(at.iter().copied().zip(steps))
            }
            MixedSum::F32 => {
                let x = &at.map(AxisPosition::value);
                let radians = radians(Scalar, Octet { x, ..of });
                Remainder::new(AxisPosition::Coordinate(radians), RADIAN)
            }
        }
    }
}

/// The quarter turns of one axis: `whole + rest + below`. All digits but the last are exact.
struct Reduced<F> {
    /// The product, rounded to f64.
    product: F,
    whole: F,
    rest: F,
    below: F,
}

#[inline(always)]
fn reduce<S: SimdF64>(s: S, chunk: &FrequencyChunk, x: f64, part: usize) -> Reduced<S::F64> {
    let (x, high) = (s.splat_f64(x), s.load_f64(&chunk.high, part));
    let product = s.mul_f64(x, high);
    let lost = s.mul_sub(x, high, product);
    let whole = s.sub_f64(add(s, product, s.splat_f64(ROUND)), s.splat_f64(ROUND));
    Reduced {
        product,
        whole,
        rest: s.sub_f64(product, whole),
        below: s.mul_add(x, s.load_f64(&chunk.low, part), lost),
    }
}

/// Returns the sum in radians as f32.
#[inline(always)]
fn radians<S: SimdF64>(s: S, of: Octet<'_>) -> S::F64 {
    let mut radians = s.splat_f64(0.0);
    for (chunk, &x) in of.chunks.iter().zip(of.x) {
        let product = s.mul_f64(s.splat_f64(x), s.load_f64(&chunk.inverse_f32, of.part));
        radians = s.round_to_f32(add(s, radians, s.round_to_f32(product)));
    }
    radians
}

/// Returns `a + b`, rounded once.
#[inline(always)]
fn add<S: SimdF64>(s: S, a: S::F64, b: S::F64) -> S::F64 {
    s.mul_add(a, s.splat_f64(1.0), b)
}

/// Returns `a + b`, and its rounding error (Knuth).
#[inline(always)]
fn exact_sum<S: SimdF64>(s: S, a: S::F64, b: S::F64) -> (S::F64, S::F64) {
    let sum = add(s, a, b);
    let of_b = s.sub_f64(sum, a);
    let of_a = s.sub_f64(sum, of_b);
    (sum, add(s, s.sub_f64(a, of_a), s.sub_f64(b, of_b)))
}

#[cfg(test)]
mod tests;
