//! The bounds of errors: each number once, with its derivation. Everything else is compared bit for bit.
//!
//! `u` is half a unit in the last place of 1, `|v|` the length of a pair. Two kinds of numbers must not be confused. A
//! *bound* follows from the arithmetic and holds for any input; suites ask it of random ones. A *figure* is what a
//! fixed sample or the golden models gave, rounded up; it tells when accuracy gets worse long before a bound is broken.

use crate::Number;

/// A step, in units of 2^-128 turn, of a pair with that many turns a position: 1 up to a radian, in proportion above.
/// The logarithm, the exponential and the scaling are each good to some 2^-127 of their results. (Found: 1 up to a
/// radian, 4 up to a turn, 6 up to four turns.)
pub fn step(turns: f64) -> u128 {
    1 + (6.0 * turns.abs()) as u128
}

/// The same of `Scaling::Periods` up to a radian, whose exponent is the difference of two logarithms (found: 2.1).
pub const PERIODS_STEP: u128 = 3;

/// The part of the steps of golden models that are the nearest to the exact ones, at least. A figure (found: 470 of
/// 480).
pub const NEAREST_STEPS: f64 = 0.97;

/// A pair in f32, in u |v|, for any input: products (the square root of 2), sum (1), cos and sin (the square root of
/// 1/2).
pub const F32_PAIR: f64 = 3.13;

/// The largest errors of a rotation of an element type.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// `u`: 2^-24, 2^-8, 2^-11.
    pub u: f64,
    /// An output of a golden model, in u |v|. f32: a figure (found: 2.29) below the bound of 2.75 for cos and sin that
    /// are correctly rounded and not longer than 1. 16 bits: one rounding, and a hundredth of one for the f32
    /// arithmetic.
    pub output: f64,
    /// The root mean square of those errors, in u |v|. A figure.
    pub output_rms: f64,
    /// The part of the outputs of golden models that are correctly rounded, at least. A figure.
    pub correctly_rounded: f64,
    /// A pair for any input, in u |v|: [`F32_PAIR`], or as `output`.
    pub pair: f64,
    /// The length of a pair, relative: a figure of the sample (f32), or the bound, which is `u` and what f32 adds.
    pub norm: f64,
    /// A pair that was rotated there and back, over its length; the same with an attention factor, whose inverse square
    /// is rounded, and its products with cos and sin. Figures of the sample (f32); bounds otherwise.
    pub round_trip: [f64; 2],
    /// A score of two vectors against that of their distance, over the product of their lengths. A figure of the
    /// sample.
    pub score: f64,
}

/// Those of an element type.
pub fn of<E: Number>() -> Bounds {
    match E::NAME {
        "f32" => Bounds {
            u: 2f64.powi(-24),
            output: 2.75,
            output_rms: 0.51,
            correctly_rounded: 0.0,
            pair: F32_PAIR,
            norm: 1.5e-7,
            round_trip: [2.7e-7, 3.3e-7],
            score: 2.5e-8,
        },
        "bf16" => Bounds {
            u: 2f64.powi(-8),
            output: 1.01,
            output_rms: 0.6,
            correctly_rounded: 0.9999,
            pair: 1.01,
            norm: 3.92e-3,
            round_trip: [7.9e-3; 2],
            score: 1e-3,
        },
        "f16" => Bounds {
            u: 2f64.powi(-11),
            output: 1.01,
            output_rms: 0.6,
            correctly_rounded: 0.9995,
            pair: 1.01,
            norm: 4.9e-4,
            round_trip: [9.8e-4; 2],
            score: 1.2e-4,
        },
        other => panic!("no bounds for {other}"),
    }
}

/// The relative error that the squared magnitude of a pair may have for an inverse by the attention factor:
/// `(1 + u)^2 - 1` with the unit `u` of f16 for any numbers, and of bf16 for those that are bf16; and a little for what
/// f32 adds.
pub fn squared_magnitude(cos: f32, sin: f32) -> f32 {
    if [cos, sin]
        .iter()
        .all(|&value| half::bf16::from_f32(value).to_f32() == value)
    {
        2f32.powi(-7) + 2f32.powi(-15)
    } else {
        2f32.powi(-10) + 2f32.powi(-20)
    }
}

/// An output of `nn.LayerNorm`, whose moments are Welford's in eight lanes with fused operations, against a mean and a
/// variance that are summed one after the other: `7 * 2^-24` of the largest magnitude of the row in f32 (measured: 4,
/// and 7 where the mean is large), and one unit in the last place of 16 bits, whose f32 may lie on the other side of a
/// tie.
pub fn layer_norm<E: Number>(largest: f32, expected: f32) -> f64 {
    let in_f32 = 7.0 * 2f64.powi(-24) * f64::from(largest);
    let unit = match E::NAME {
        "f32" => 0.0,
        _ => {
            let next = E::from_bits(E::from_f32(expected.abs()).bits() + 1).to_f32();
            f64::from(next) - f64::from(expected.abs())
        }
    };
    in_f32 + unit
}
