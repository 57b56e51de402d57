//! Angles in fixed point and rotations in f64: what the f32 arithmetic approximates.

use std::f64::consts::TAU;

/// cos and sin of `position * step`, where `step` is a turn per position, times 2^128. The product wraps at whole
/// turns, so that the only errors are those of f64, some 2^-52.
pub fn cos_sin(position: i64, step: u128) -> (f64, f64) {
    let turn = step.wrapping_mul(position as i128 as u128) as i128;
    // A signed fraction of a turn, times 2^128.
    let angle = turn as f64 * 2.0_f64.powi(-128) * TAU;
    (angle.cos(), angle.sin())
}

/// The rotation of a pair.
pub fn rotate((x, y): (f64, f64), (cos, sin): (f64, f64)) -> (f64, f64) {
    (x * cos - y * sin, x * sin + y * cos)
}
