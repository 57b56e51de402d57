//! The expected result: angles, cos, sin and the rotation in f64.
//!
//! At the positions and sizes of a bench this is exact enough to judge f32: an f64 angle below 2^15 is off by less than
//! 2^-37, a thousandth of the resolution of f32. (The tests of rope-core have a better oracle, and larger positions.)

use anyhow::{Result, ensure};
use serde::Deserialize;

use crate::cases::workloads::Workload;
use crate::cases::{Case, Element, Float, with_float};

/// The number that a norm adds to the mean of squares.
pub const NORM_EPS: f32 = 1e-6;

/// Returns cos and sin of every row and pair, of frequencies `base^(-2 i / rotary_dim)`.
pub fn rotations(workload: &Workload) -> Vec<(f64, f64)> {
    let dim = workload.rotary_dim;
    let frequency = |i| workload.base.powf(-((2 * i) as f64) / dim as f64);
    let frequencies: Vec<f64> = (0..dim / 2).map(frequency).collect();
    let positions = workload.positions().into_iter();
    let angles = positions.flat_map(|position| {
        let frequencies = frequencies.iter();
        frequencies.map(move |frequency| f64::from(position) * frequency)
    });
    angles.map(|angle| (angle.cos(), angle.sin())).collect()
}

/// Returns the largest error of a result, relative to the lengths of the pairs.
///
/// `input` is the former content of the buffer, as f32; `output` is the result of a formulation.
pub fn error(case: &Case, rotations: &[(f64, f64)], input: &[f32], output: &[u8]) -> Result<f64> {
    fn error<E: Float>(
        case: &Case,
        rotations: &[(f64, f64)],
        input: &[f32],
        output: &[u8],
    ) -> Result<f64> {
        let workload = &case.workload;
        let pairs = workload.rotary_dim / 2;
        let output: &[E] = bytemuck::cast_slice(output);
        let mut worst = 0.0_f64;
        let mut passed = true;
        let weights = workload.norms.then(|| workload.norm_weights());
        let q_end = workload.batch * workload.tokens * workload.heads * workload.head_dim;
        workload.each_head(|head| {
            let channels = head.at..head.at + workload.head_dim;
            let (input, output) = (&input[channels.clone()], &output[channels]);
            let given = |channel: usize| f64::from(E::round(input[channel]).widen());
            let squares = || (0..input.len()).map(|channel| given(channel).powi(2));
            let norm = weights.as_ref().map(|[q, k]| {
                let mean = squares().sum::<f64>() / input.len() as f64;
                let weights = if head.at < q_end { q } else { k };
                ((mean + f64::from(NORM_EPS)).sqrt().recip(), weights)
            });
            let value = |channel: usize| match norm {
                Some((factor, weights)) => given(channel) * factor * f64::from(weights[channel]),
                None => given(channel),
            };
            for (i, (cos, sin)) in rotations[head.row * pairs..][..pairs].iter().enumerate() {
                let (first, second) = case.pair(i);
                let (x, y) = (value(first), value(second));
                let [u, v] = [first, second].map(|channel| f64::from(output[channel].widen()));
                let off = (u - (x * cos - y * sin)).abs();
                let off = off.max((v - (x * sin + y * cos)).abs());
                let off = off / x.hypot(y);
                // `f64::max` would ignore a NaN.
                worst = worst.max(if off.is_nan() { f64::INFINITY } else { off });
            }
            passed &= (workload.rotary_dim..workload.head_dim)
                .all(|channel| output[channel].widen() == E::round(input[channel]).widen());
        });
        ensure!(passed, "channels after rotary_dim were changed");
        Ok(worst)
    }
    with_float!(case.element, E => error::<E>(case, rotations, input, output))
}

/// Returns the error bound of a correct formulation.
///
/// In f32 a formulation rounds two factors, two products and a sum; the limit leaves room for additional roundings. In
/// 16 bits it rounds the result once more, to 8 or 11 bits, or every step. Angles computed in f32 add their own error.
pub fn limit(case: &Case, angle: Angle, arithmetic: Arithmetic) -> f64 {
    let unit = |bits: i32| 2.0_f64.powi(-bits);
    let element = match case.element {
        Element::F32 => unit(24),
        Element::Bf16 => unit(8),
        // The smallest f16 are subnormal: the rounding of pairs shorter than 2^-14 is relative to that.
        Element::F16 => unit(11) + 1e-4,
    };
    let arithmetic = match (arithmetic, case.element) {
        (Arithmetic::F32, Element::F32) => 4.0 * element,
        (Arithmetic::F32, Element::Bf16 | Element::F16) => element + 4.0 * unit(24),
        (Arithmetic::Element, _) => 4.0 * element,
    };
    // A norm rounds its root, its factors and their product, and the result to the element.
    let arithmetic = arithmetic * if case.workload.norms { 3.0 } else { 1.0 };
    let largest = case.workload.positions().into_iter().max().unwrap_or(0);
    arithmetic
        + match angle {
            Angle::Exact => 0.0,
            // The frequency and its product with the position are rounded, and the frequency's power is inexact too.
            Angle::F32 => (f64::from(largest) + 1.0) * 4.0 * unit(24),
            // The angle of pair i is the product of i ratios, each rounded, so it has i relative errors. It is also
            // smaller by base^(2 i / rotary_dim). i over that is largest at i = rotary_dim / (2 ln base), where it is i
            // / e.
            Angle::F32Iterated => {
                let most = case.workload.rotary_dim as f64 / (2.0 * case.workload.base.ln());
                (f64::from(largest) + 1.0) * (4.0 + 2.0 * most) * unit(24)
            }
        }
}

/// The arithmetic of a formulation with cos and sin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arithmetic {
    /// In f32; the result is rounded to the element once.
    F32,
    /// In the element: cos and sin are rounded to it, as is every product and sum.
    Element,
}

/// The angles of a formulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Angle {
    /// Exactly, or in f64.
    Exact,
    /// The product of an f32 frequency and an f32 position, as in PyTorch models.
    F32,
    /// The f32 product of the previous pair's angle and a ratio, as in ggml.
    #[serde(rename = "f32-iterated")]
    F32Iterated,
}
