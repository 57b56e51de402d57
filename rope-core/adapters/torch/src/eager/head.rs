//! One head: its pairs, sixteen at once, and those that are left.

use rope_core::{Direction, Pairing};

use super::short::Short;
use crate::convert::{Convert, LANES};
use crate::plan::Plan;

/// Rotates the channels of a head. `room` has as many, for a result of another pairing.
#[inline(always)]
pub(super) fn rotate<E: Short>(
    head: &mut [E],
    room: &mut [E],
    row: (&[f32], &[f32]),
    plan: &Plan,
    convert: impl Convert,
) {
    let sign = match plan.direction {
        Direction::Forward => 1.0,
        _ => -1.0,
    };
    match (plan.input, plan.output) {
        (Pairing::Half, Pairing::Half) => rotate_halves(head, row, sign, convert),
        (Pairing::Interleaved, Pairing::Interleaved) => {
            rotate_neighbors(head, row, sign, convert);
        }
        (Pairing::Half, Pairing::Interleaved) => {
            rotate_halves(head, row, sign, convert);
            room.copy_from_slice(head);
            let (x, y) = room.split_at(room.len() / 2);
            for (pair, (x, y)) in head.as_chunks_mut().0.iter_mut().zip(x.iter().zip(y)) {
                *pair = [*x, *y];
            }
        }
        (Pairing::Interleaved, Pairing::Half) => {
            rotate_neighbors(head, row, sign, convert);
            room.copy_from_slice(head);
            let (x, y) = head.split_at_mut(room.len() / 2);
            for (pair, (x, y)) in room.as_chunks().0.iter().zip(x.iter_mut().zip(y)) {
                [*x, *y] = *pair;
            }
        }
    }
}

/// Rotates pairs of a channel of the first half and one of the second.
#[inline(always)]
fn rotate_halves<E: Short>(
    head: &mut [E],
    (cos, sin): (&[f32], &[f32]),
    sign: f32,
    convert: impl Convert,
) {
    let (x, y) = head.split_at_mut(cos.len());
    let ((x, x_rest), (y, y_rest)) = (x.as_chunks_mut(), y.as_chunks_mut());
    let ((cos, cos_rest), (sin, sin_rest)) = (cos.as_chunks(), sin.as_chunks());
    for ((x, y), (cos, sin)) in x.iter_mut().zip(y).zip(cos.iter().zip(sin)) {
        E::rotate_halves(x, y, [cos, &signed(sin, sign)], convert);
    }
    if !x_rest.is_empty() {
        let (mut x, mut y) = (filled(x_rest, E::ZERO), filled(y_rest, E::ZERO));
        let (cos, sin) = (filled(cos_rest, 0.0), filled(sin_rest, 0.0));
        E::rotate_halves(&mut x, &mut y, [&cos, &signed(&sin, sign)], convert);
        x_rest.copy_from_slice(&x[..x_rest.len()]);
        y_rest.copy_from_slice(&y[..y_rest.len()]);
    }
}

/// Rotates pairs of neighbors.
#[inline(always)]
fn rotate_neighbors<E: Short>(
    head: &mut [E],
    (cos, sin): (&[f32], &[f32]),
    sign: f32,
    convert: impl Convert,
) {
    let (pairs, rest) = head.as_chunks_mut().0.as_chunks_mut();
    let ((cos, cos_rest), (sin, sin_rest)) = (cos.as_chunks(), sin.as_chunks());
    for (pairs, (cos, sin)) in pairs.iter_mut().zip(cos.iter().zip(sin)) {
        E::rotate_neighbors(pairs, [cos, &signed(sin, sign)], convert);
    }
    if !rest.is_empty() {
        let (cos, sin) = (filled(cos_rest, 0.0), filled(sin_rest, 0.0));
        let mut pairs = filled(rest, [E::ZERO; 2]);
        E::rotate_neighbors(&mut pairs, [&cos, &signed(&sin, sign)], convert);
        rest.copy_from_slice(&pairs[..rest.len()]);
    }
}

#[inline(always)]
fn signed(sin: &[f32; LANES], sign: f32) -> [f32; LANES] {
    let mut signed = *sin;
    for sin in &mut signed {
        *sin *= sign;
    }
    signed
}

/// The values, and others after them.
#[inline(always)]
fn filled<T: Copy>(values: &[T], other: T) -> [T; LANES] {
    let mut all = [other; LANES];
    all[..values.len()].copy_from_slice(values);
    all
}
