//! Error limits of the suites, each number once and with its source. Everything else is compared bit for bit.
//!
//! `u` is half a unit in the last place of 1, and `|v|` is the length of a pair. There are two kinds of limits. A
//! *bound* follows from the arithmetic and holds for any input; suites test it with random input. A *figure* is the
//! error measured on a fixed sample or on the golden models, rounded up; it shows a loss of accuracy long before a
//! bound is broken.

use crate::Number;

/// Returns the bound of a step, in units of 2^-128 turn, for a pair with that many turns per position: 1 up to a
/// radian, in proportion above. The logarithm, the exponential and the scaling are each good to some 2^-127 of their
/// results. (Found: 1 up to a radian, 4 up to a turn, 6 up to four turns.)
pub fn step(turns: f64) -> u128 {
    1 + (6.0 * turns.abs()) as u128
}

/// The bound of a step of `Scaling::Periods` up to a radian; its exponent is the difference of two logarithms (found:
/// 2.1).
pub const PERIODS_STEP: u128 = 3;

/// The least part of the golden models' steps that are nearest to the exact ones. A figure (found: 470 of 480).
pub const NEAREST_STEPS: f64 = 0.97;

/// The error of a pair in f32, in u |v|, for any input: products (the square root of 2), sum (1), cos and sin (the
/// square root of 1/2).
pub const F32_PAIR: f64 = 3.13;

/// Error limits of rotations of one element type.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// `u` of f32, bf16 and f16: 2^-24, 2^-8, 2^-11.
    pub u: f64,
    /// The error of an output of a golden model, in u |v|. f32: a figure (found: 2.29) below the bound of 2.75, which
    /// holds for cos and sin that are correctly rounded and not longer than 1. 16 bits: one rounding, and a hundredth
    /// of one for the f32 arithmetic.
    pub output: f64,
    /// The root mean square of the output errors, in u |v|. A figure.
    pub output_rms: f64,
    /// The least part of the golden models' outputs that are correctly rounded. A figure.
    pub correctly_rounded: f64,
    /// The error of a pair for any input, in u |v|: [`F32_PAIR`], or `output` for 16 bits.
    pub pair: f64,
    /// The relative error of a pair's length: a figure of the sample for f32; for 16 bits the bound, `u` and the error
    /// of the f32 arithmetic.
    pub norm: f64,
    /// The error of a pair that was rotated there and back, over its length, without and with an attention factor. With
    /// one, the inverse square of the factor and its products with cos and sin are rounded too. Figures of the sample
    /// for f32; bounds for 16 bits.
    pub round_trip: [f64; 2],
    /// The error of a score of two vectors against the score at their distance, over the product of their lengths. A
    /// figure of the sample.
    pub score: f64,
}

/// Returns the limits of an element type.
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

/// Returns the relative tolerance of a pair's squared magnitude for an inverse by the attention factor: `(1 + u)^2 -
/// 1`, with the unit `u` of bf16 for bf16 numbers and of f16 for all others, and a little for the f32 arithmetic.
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
