//! A norm fused with the rotation after it: a head is read from memory once, and both products are computed in
//! registers before the rotation.
//!
//! The sums of all heads of a line come first ([`LineRoots`]), side by side, because each ends in a latency of some
//! hundred cycles: eight additions, a root, two quotients. The heads are in the first-level cache when they are read
//! again.

use core::marker::PhantomData;

use super::elements::{ElementType, elements};
use super::line::{Heads, Line, Same, SourceHeads, SourceLine};
use super::norm::{LANES, ROOTS, Term, add_blocks, add_rest, fold_lanes, roots};
use super::pairs::{Interleaved, PairLayout, VectorPair};
use crate::simd::element::Convert;
use crate::simd::{InstructionSet, Kernel, MemoryKernel, Simd};

/// Channels of a head from which a sum is a cascade, and a norm is not fused.
pub(crate) const TOO_LONG: usize = 512;

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
pub(crate) trait Prologue: Copy {
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
    pub(crate) fn channel<E: Convert>(&self, head: usize, channel: usize, x: f32) -> f32 {
        let rounded = |x: f32, rounds: bool| if rounds { E::to_f32(E::from_f32(x)) } else { x };
        let normed = rounded(x * self.roots[head], self.rounds_normed);
        rounded(normed * self.weights[channel], self.rounds_product)
    }
}

/// The norm of groups of a head.
#[derive(Clone, Copy)]
pub(crate) struct HeadNorm<'n, S: Simd, P: PairLayout> {
    root: S::F32,
    weights: P::Groups<'n, VectorPair<S, f32>>,
    rounds_normed: bool,
    rounds_product: bool,
}

/// A kernel that norms the channels of each head that do not rotate, from an even one on.
pub(crate) struct NormRest<'l, 'n, E> {
    pub(crate) line: &'l Line<'l>,
    pub(crate) norm: &'n LineNorm<'n>,
    pub(crate) element: PhantomData<E>,
}

impl<E: Convert> MemoryKernel for NormRest<'_, '_, E> {
    const BF16: bool = E::BF16;

    #[inline(always)]
    fn run_in<S: InstructionSet>(self, s: S, memory: &mut [u8], from: usize) {
        let NormRest { line, norm, .. } = self;
        let (head_dim, count) = (line.head_dim, line.heads);
        let mut heads = Heads::<Same<E, Interleaved>>::of((), memory, line);
        if const { S::LANES == 1 } {
            for index in 0..count {
                for (channel, x) in heads.head(index).iter_mut().enumerate().skip(from) {
                    *x = E::from_f32(norm.channel::<E>(index, channel, E::to_f32(*x)));
                }
            }
            return;
        }
        // Neighbors form pairs: two vectors of them are a group, which is four vectors of channels.
        let groups = (head_dim - from) / const { 4 * S::LANES };
        let (pair, pairs) = (from / 2, groups * const { 2 * S::LANES });
        heads.check(0, pair, pairs);
        for index in 0..count {
            let mut head = heads.groups(s, &norm, heads.at(index), [0, pair, groups]);
            for i in 0..groups {
                head.norm(s, i);
            }
        }
        let from = from + 2 * pairs;
        if from < head_dim {
            s.narrower().enter_in(memory, from, self);
        }
    }
}

/// A kernel for the reciprocal roots of the heads of a line: sums of squares in the order of [`norm`](super::norm), of
/// heads below [`TOO_LONG`], at most [`ROOTS`] of them. One kernel for all elements, with one branch on the element.
pub(crate) struct LineRoots<'a> {
    pub(crate) element: ElementType,
    pub(crate) heads: &'a SourceLine<'a>,
    pub(crate) head_dim: usize,
    pub(crate) len: usize,
    pub(crate) eps: f32,
    pub(crate) roots: &'a mut [f32; ROOTS],
}

impl Kernel for LineRoots<'_> {
    #[inline(always)]
    fn run<S: InstructionSet>(mut self, s: S) {
        // First the vectors of all heads, then the serial ends of their sums, then the roots: no step waits for its own
        // result.
        let mut eights = [[0.0_f32; 8]; ROOTS];
        self.squares(s, &mut eights);
        for (sum, eight) in self.roots.iter_mut().zip(&eights).take(self.len) {
            *sum = eight.iter().fold(*sum, |sum, lane| sum + lane);
        }
        roots(s, self.roots, self.len, self.head_dim as f32, self.eps);
    }
}

macro_rules! squares {
    ($($Type:ident: $E:ty [$($fused:tt)*];)+) => {
        impl LineRoots<'_> {
            #[inline(always)]
            fn squares<S: InstructionSet>(&mut self, s: S, eights: &mut [[f32; 8]; ROOTS]) {
                match self.element {
                    $(ElementType::$Type => self.squares_of::<$E, S>(s, eights),)+
                }
            }
        }
    };
}
elements!(squares);

impl LineRoots<'_> {
    /// Computes the sums of squares of the heads: eight lanes each, and the rest below eight values in the place of its
    /// root.
    #[inline(always)]
    fn squares_of<E: Convert, S: InstructionSet>(&mut self, s: S, eights: &mut [[f32; 8]; ROOTS]) {
        let heads = SourceHeads::<E>::of(self.heads);
        let sums = eights.iter_mut().zip(&mut *self.roots).take(self.len);
        for (index, (eight, sum)) in sums.enumerate() {
            if const { S::PREFETCHES_HEADS } && heads.ahead != 0 {
                heads.prefetch(s, index, self.head_dim, false);
            }
            let (blocks, rest) = heads.head(index, self.head_dim).as_chunks::<LANES>();
            let mut lanes = add_blocks::<E, S>(s, Term::Square, [0.0; LANES], blocks, 0.0);
            *sum = 0.0;
            if !rest.is_empty() {
                let mut values = [0.0; LANES];
                for (value, x) in values.iter_mut().zip(rest) {
                    *value = E::to_f32(*x);
                }
                *sum = add_rest(Term::Square, &mut lanes, &values[..rest.len()], 0.0);
            }
            *eight = fold_lanes(s, &lanes);
        }
    }
}
