//! The stage of a backward pass that sums gradients: for each pair `x1 g2 - x2 g1` of two tensors, or `x1 g1 + x2 g2`,
//! is added to a double.
//!
//! The product of two f32 is exact in a double (48 of 53 bits), so a term is rounded once, and once more when it is
//! added. Lanes are pairs: no sum goes across lanes, and each has the order in which its heads come. So all instruction
//! sets give the same bits, and whether a product is fused with what follows makes no difference.

use core::marker::PhantomData;

use bytemuck::cast_slice;

use super::line::ask_for;
use super::pairs::PairLayout;
use super::rotation::part;
use crate::element::Convert;
use crate::simd::{Kernel, Simd};

/// Heads of two tensors, and the sums of their pairs. Every index in it has been checked.
pub(crate) struct GradientLine<'a> {
    /// The first tensor, as bytes from the first head of the line on, and its elements from one head to the next.
    pub(crate) x: (&'a [u8], usize),
    /// The second.
    pub(crate) g: (&'a [u8], usize),
    pub(crate) heads: usize,
    pub(crate) head_dim: usize,
    pub(crate) pairs: usize,
    pub(crate) term: Term,
    pub(crate) sums: &'a mut [f64],
    /// Sums from one head to the next: 0 where all add to the same.
    pub(crate) sums_step: usize,
    /// Elements from a head of either tensor to the one that is asked for while it is read; 0 where none is. It may be
    /// any number.
    pub(crate) ahead: [usize; 2],
}

/// What is added for a pair `(x1, x2)` of one tensor and `(g1, g2)` of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Term {
    /// `x1 g2 - x2 g1`: what the angle of the pair changes.
    Cross,
    /// `x1 g1 + x2 g2`: what its magnitude changes.
    Dot,
}

/// Adds the terms of a line of elements `E`, from a pair on.
pub(crate) struct AddTerms<'l, 'a, E, P> {
    line: &'l mut GradientLine<'a>,
    from: usize,
    chain: PhantomData<(E, P)>,
}

impl<'l, 'a, E, P> AddTerms<'l, 'a, E, P> {
    #[inline(always)]
    pub(crate) fn new(line: &'l mut GradientLine<'a>) -> Self {
        AddTerms::from(line, 0)
    }

    #[inline(always)]
    fn from(line: &'l mut GradientLine<'a>, from: usize) -> Self {
        AddTerms {
            line,
            from,
            chain: PhantomData,
        }
    }
}

impl<E: Convert, P: PairLayout> Kernel for AddTerms<'_, '_, E, P> {
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let AddTerms { line, mut from, .. } = self;
        if const { S::LANES == 1 } {
            return Self::plain(line, from);
        }
        let group = const { 2 * S::LANES };
        while line.pairs - from >= group {
            match line.term {
                Term::Cross => Self::group::<S, false>(s, line, from),
                Term::Dot => Self::group::<S, true>(s, line, from),
            }
            from += group;
        }
        if from < line.pairs {
            s.narrower().enter(Self::from(line, from));
        }
    }
}

impl<E: Convert, P: PairLayout> AddTerms<'_, '_, E, P> {
    /// A group of all heads, whose sums stay in registers where the heads share them.
    #[inline(always)]
    fn group<S: Simd, const DOT: bool>(s: S, line: &mut GradientLine<'_>, from: usize) {
        let GradientLine {
            x: (x, x_step),
            g: (g, g_step),
            heads,
            head_dim,
            pairs,
            sums_step,
            ahead,
            ..
        } = *line;
        let asks = const { S::AHEAD > 0 } && from == 0 && ahead[0] > 0;
        let (x, g): (&[E::Bits], &[E::Bits]) = (cast_slice(x), cast_slice(g));
        let len = const { 2 * S::LANES };
        assert!(P::has(head_dim, pairs, from, len));
        // Heads that share their sums are one run; those with sums of their own are runs of one.
        let run = if sums_step == 0 { heads } else { 1 };
        let mut head = 0;
        while head < heads {
            let sums = &mut line.sums[head * sums_step + from..][..len];
            let doubles = S::chunks_mut(sums);
            let mut first = s.load_wide(doubles[0]);
            let mut second = s.load_wide(doubles[1]);
            for head in head..head + run {
                if asks {
                    ask_for(s, x, ahead[0].wrapping_add(head * x_step), head_dim);
                    ask_for(s, g, ahead[1].wrapping_add(head * g_step), head_dim);
                }
                let [x1, x2] = Self::read(s, &x[head * x_step..][..head_dim], pairs, from);
                let [g1, g2] = Self::read(s, &g[head * g_step..][..head_dim], pairs, from);
                let (x, g) = (
                    [[x1[0], x2[0]], [x1[1], x2[1]]],
                    [[g1[0], g2[0]], [g1[1], g2[1]]],
                );
                if DOT {
                    first = s.add_dot(first, x[0], g[0]);
                    second = s.add_dot(second, x[1], g[1]);
                } else {
                    first = s.add_cross(first, x[0], g[0]);
                    second = s.add_cross(second, x[1], g[1]);
                }
            }
            doubles[0] = s.store_wide(first);
            doubles[1] = s.store_wide(second);
            head += run;
        }
    }

    /// The first members of a group of a head, and the second ones, in their own order.
    #[inline(always)]
    fn read<S: Simd>(s: S, head: &[E::Bits], pairs: usize, from: usize) -> [[S::Wide; 2]; 2] {
        let groups = P::groups::<S, E::Bits>(head, pairs, from, 1);
        let [a, b] = P::get(groups, 0);
        if const { P::ALTERNATING } {
            let group = [E::read(s, a, false), E::read(s, b, false)];
            let [[a, b], [c, d]] = part(s, group);
            [[s.widen(a), s.widen(b)], [s.widen(c), s.widen(d)]]
        } else {
            [E::read_wide(s, a), E::read_wide(s, b)]
        }
    }

    /// The loop as it is written down: the definition.
    #[inline(always)]
    fn plain(line: &mut GradientLine<'_>, from: usize) {
        let (x, g): (&[E::Bits], &[E::Bits]) = (cast_slice(line.x.0), cast_slice(line.g.0));
        for head in 0..line.heads {
            let x = &x[head * line.x.1..][..line.head_dim];
            let g = &g[head * line.g.1..][..line.head_dim];
            let sums = &mut line.sums[head * line.sums_step..][..line.pairs];
            for (pair, sum) in sums.iter_mut().enumerate().skip(from) {
                let [first, second] = P::members(line.pairs, pair);
                let double = |x: E::Bits| f64::from(E::to_f32(x));
                let (x1, x2) = (double(x[first]), double(x[second]));
                let (g1, g2) = (double(g[first]), double(g[second]));
                *sum += match line.term {
                    Term::Cross => x1 * g2 - x2 * g1,
                    Term::Dot => x1 * g1 + x2 * g2,
                };
            }
        }
    }
}
