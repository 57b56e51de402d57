//! The stage before the rotation of a line, in registers: a norm, or nothing.

use super::pairs::{PairLayout, VectorPair};
use crate::simd::Simd;
use crate::simd::element::Convert;

/// The norm of a line.
#[derive(Clone, Copy)]
pub(crate) struct LineNorm<'a> {
    /// The reciprocal root of each head.
    pub(crate) roots: &'a [f32],
    /// A weight per channel of a head. The only NaN is that of arithmetic.
    pub(crate) weights: &'a [f32],
    /// True if the normed value is rounded to the element before the weight.
    pub(crate) rounds_normed: bool,
    /// True if the product is rounded to the element.
    pub(crate) rounds_product: bool,
}

/// The stage before the rotation of a line: a norm, or nothing.
pub(super) trait Prologue: Copy {
    /// True if there is a norm. Its weights are in channel order, so elements are read in this order too.
    const NORMS: bool;

    /// The norm of one head of the line.
    type Head<'n, S: Simd, P: PairLayout>;

    fn norm(&self) -> Option<&LineNorm<'_>>;

    /// Returns the norm of a head, from a pair on.
    fn head<'n, S: Simd, P: PairLayout>(
        &'n self,
        s: S,
        head: usize,
        groups: [usize; 3],
    ) -> Self::Head<'n, S, P>;

    /// Norms a group, whose elements are in order.
    fn apply<E: Convert, S: Simd, P: PairLayout>(
        head: &Self::Head<'_, S, P>,
        s: S,
        i: usize,
        group: [[S::F32; 2]; 2],
    ) -> [[S::F32; 2]; 2];
}

impl Prologue for () {
    const NORMS: bool = false;
    type Head<'n, S: Simd, P: PairLayout> = ();

    #[inline(always)]
    fn norm(&self) -> Option<&LineNorm<'_>> {
        None
    }

    #[inline(always)]
    fn head<S: Simd, P: PairLayout>(&self, _: S, _: usize, _: [usize; 3]) {}

    #[inline(always)]
    fn apply<E: Convert, S: Simd, P: PairLayout>(
        (): &(),
        _: S,
        _: usize,
        group: [[S::F32; 2]; 2],
    ) -> [[S::F32; 2]; 2] {
        group
    }
}

impl Prologue for &LineNorm<'_> {
    const NORMS: bool = true;
    type Head<'n, S: Simd, P: PairLayout> = HeadNorm<'n, S, P>;

    #[inline(always)]
    fn norm(&self) -> Option<&LineNorm<'_>> {
        Some(self)
    }

    #[inline(always)]
    fn head<'n, S: Simd, P: PairLayout>(
        &'n self,
        s: S,
        head: usize,
        [pairs, from, groups]: [usize; 3],
    ) -> HeadNorm<'n, S, P> {
        HeadNorm {
            root: s.splat(self.roots[head]),
            weights: P::groups::<S, f32>(self.weights, pairs, from, groups),
            rounds_normed: self.rounds_normed,
            rounds_product: self.rounds_product,
        }
    }

    #[inline(always)]
    fn apply<E: Convert, S: Simd, P: PairLayout>(
        head: &HeadNorm<'_, S, P>,
        s: S,
        i: usize,
        [[a, b], [c, d]]: [[S::F32; 2]; 2],
    ) -> [[S::F32; 2]; 2] {
        let root = head.root;
        let mut group = [
            [s.mul(a, root), s.mul(b, root)],
            [s.mul(c, root), s.mul(d, root)],
        ];
        if head.rounds_normed {
            group = E::round(s, group);
        }
        let [[wa, wb], [wc, wd]] = P::get(head.weights, i);
        let [[a, b], [c, d]] = group;
        group = [
            [s.mul(a, s.load_f32(wa)), s.mul(b, s.load_f32(wb))],
            [s.mul(c, s.load_f32(wc)), s.mul(d, s.load_f32(wd))],
        ];
        if head.rounds_product {
            group = E::round(s, group);
        }
        group
    }
}

impl LineNorm<'_> {
    /// Norms a channel of a head.
    #[inline(always)]
    pub(super) fn channel<E: Convert>(&self, head: usize, channel: usize, x: f32) -> f32 {
        let rounded = |x: f32, rounds: bool| if rounds { E::to_f32(E::from_f32(x)) } else { x };
        let normed = rounded(x * self.roots[head], self.rounds_normed);
        rounded(normed * self.weights[channel], self.rounds_product)
    }
}

/// The norm of groups of a head.
#[derive(Clone, Copy)]
pub(super) struct HeadNorm<'n, S: Simd, P: PairLayout> {
    root: S::F32,
    weights: P::Groups<'n, VectorPair<S, f32>>,
    rounds_normed: bool,
    rounds_product: bool,
}
