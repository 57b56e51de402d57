//! Gradients of pairs from their definition: one sum of doubles for each pair, term by term.

use rope_core::Pairing;

use crate::oracle::members;
use crate::{Number, View};

/// The term that is added for a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Term {
    /// `x1 g2 - x2 g1`.
    Cross,
    /// `x1 g1 + x2 g2`.
    Dot,
}

/// Adds the terms of two tensors to sums `[rows, heads, pairs]`: sequence by sequence, token by token, head by head.
/// The pairs are in equal parts of the rotated channels.
///
/// A product of two elements is exact in a double, and a term is rounded once.
pub fn add<E: Number>(
    term: Term,
    (pairing, parts): (Pairing, usize),
    (x, from): (&[E], &View),
    (g, to): (&[E], &View),
    sums: &mut [f64],
    [rows, heads, pairs]: [usize; 3],
) {
    assert_eq!(from.shape, to.shape);
    assert_eq!(sums.len(), rows * heads * pairs);
    for [batch, token, head] in to.heads() {
        let row = if rows == to.shape[1] {
            token
        } else {
            batch * to.shape[1] + token
        };
        for pair in 0..pairs {
            let members = members(pairing, [pairs, parts], pair);
            let values = |data: &[E], view: &View| {
                members.map(|channel| {
                    f64::from(data[view.index([batch, token, head, channel])].to_f32())
                })
            };
            let ([x1, x2], [g1, g2]) = (values(x, from), values(g, to));
            let sum = &mut sums[(row * heads + if heads == 1 { 0 } else { head }) * pairs + pair];
            *sum += match term {
                Term::Cross => x1 * g2 - x2 * g1,
                Term::Dot => x1 * g1 + x2 * g2,
            };
        }
    }
}
