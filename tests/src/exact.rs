//! Angles in fixed point and rotations in f64, the references for the f32 arithmetic.

use std::f64::consts::TAU;

use crate::Number;

/// Returns cos and sin of `position * step`; `step` is in units of 2^-128 turn per position. The product wraps at whole
/// turns, and the only errors are the roundings of f64, some 2^-52.
pub fn cos_sin(position: i64, step: u128) -> (f64, f64) {
    let turn = step.wrapping_mul(position as i128 as u128) as i128;
    // A signed fraction of a turn, times 2^128.
    let angle = turn as f64 * 2.0_f64.powi(-128) * TAU;
    (angle.cos(), angle.sin())
}

/// Returns true if no neighbor of `value` is nearer to a number that is known to within `slack`.
pub fn is_nearest<E: Number>(value: E, exact: f64, slack: f64) -> bool {
    let off = |bits: u32| (f64::from(E::from_bits(bits).to_f32()) - exact).abs();
    let bits = value.bits();
    [bits.wrapping_sub(1), bits.wrapping_add(1)]
        .map(off)
        .into_iter()
        .all(|there| there.is_nan() || off(bits) <= there + slack)
}

/// Rotates a pair.
pub fn rotate((x, y): (f64, f64), (cos, sin): (f64, f64)) -> (f64, f64) {
    (x * cos - y * sin, x * sin + y * cos)
}
