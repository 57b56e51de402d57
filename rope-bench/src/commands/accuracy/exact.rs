//! The reference: phases in fixed point, from independently computed steps.
//!
//! It shares no code with rope-core. The step of a pair is `round(2^128 * theta / 2 pi)`, computed with 400 bits and
//! stored in a file. Its product with a position, modulo 2^128, is the phase in turns without whole turns. The phase
//! minus its nearest quarter turn is at most an eighth of a turn, and only this rest becomes a floating-point angle.

use std::f64::consts::TAU;

/// The error bound of [`cos_sin`].
///
/// The rounded step is half a unit off: 2^31 positions make 2^-98 turns of it. The remainder, 2 pi and their product
/// are each rounded to 53 bits: 3 * 2^-53 of pi / 4, 2.7e-16. cos and sin of the platform's libm: 1 ulp, 1.2e-16.
pub const ERROR: f64 = 4e-16;

/// Returns cos and sin of `position` steps.
pub fn cos_sin(step: u128, position: u32) -> (f64, f64) {
    const QUARTER: u32 = 126;
    let phase = step.wrapping_mul(u128::from(position));
    let quarters = phase.wrapping_add(1 << (QUARTER - 1)) >> QUARTER;
    let rest = phase.wrapping_sub(quarters << QUARTER).cast_signed();
    let (sin, cos) = (rest as f64 * (TAU * 2.0_f64.powi(-128))).sin_cos();
    match quarters {
        0 => (cos, sin),
        1 => (-sin, cos),
        2 => (-cos, -sin),
        _ => (sin, -cos),
    }
}
