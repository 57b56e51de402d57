//! The gradient stage of a backward pass: for each pair, adds `x1 g2 - x2 g1` of two tensors, or `x1 g1 + x2 g2`, to an
//! f64.
//!
//! The product of two f32 is exact in f64 (48 of 53 bits), so a term is rounded once, and once more when it is added.
//! Lanes are pairs: no sum crosses lanes, and each has the order of its heads. All instruction sets therefore give the
//! same bits, whether or not a product is fused with the next operation, and whether or not 16-bit elements, whose
//! products are exact in f32, are multiplied there.

use core::marker::PhantomData;

use super::line::SourceLine;
use super::pairs::{PairLayout, VectorPair};
use super::rotation::deinterleave;
use super::source::SourceHeads;
use crate::simd::element::{Convert, Products};
use crate::simd::{InstructionSet, Kernel, Scalar, SimdSums};

/// Heads of two tensors, and the sums of their pairs. Every index in it has been checked.
pub(crate) struct GradientLine<'a> {
    /// The first tensor.
    pub(crate) x: SourceLine<'a>,
    /// The second.
    pub(crate) g: SourceLine<'a>,
    pub(crate) heads: usize,
    pub(crate) head_dim: usize,
    pub(crate) pairs: usize,
    pub(crate) term: GradientTerm,
    pub(crate) sums: &'a mut [f64],
    /// Sums from one head to the next: 0 if all heads add to the same.
    pub(crate) sums_step: usize,
}

/// The term of a pair `(x1, x2)` of one tensor and `(g1, g2)` of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GradientTerm {
    /// `x1 g2 - x2 g1`: the gradient of the pair's angle.
    Cross,
    /// `x1 g1 + x2 g2`: the gradient of its magnitude.
    Dot,
}

/// A kernel that adds the terms of a line of elements `E`, from a pair on.
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
    pub(super) fn from(line: &'l mut GradientLine<'a>, from: usize) -> Self {
        AddTerms {
            line,
            from,
            chain: PhantomData,
        }
    }
}

impl<E: Convert, P: PairLayout> Kernel for AddTerms<'_, '_, E, P> {
    #[inline(always)]
    fn run<S: InstructionSet>(self, s: S) {
        let AddTerms { line, mut from, .. } = self;
        if const { S::LANES == 1 } {
            return Self::plain(line, from);
        }
        let group = const { 2 * S::LANES };
        while line.pairs - from >= group {
            match line.term {
                GradientTerm::Cross => Self::group::<S, false>(s, line, from),
                GradientTerm::Dot => Self::group::<S, true>(s, line, from),
            }
            from += group;
        }
        if from < line.pairs {
            s.narrower().enter(Self::from(line, from));
        }
    }
}

impl<E: Convert, P: PairLayout> AddTerms<'_, '_, E, P> {
    /// Adds the terms of a group of all heads. The sums stay in registers if the heads share them.
    #[inline(always)]
    fn group<S: SimdSums, const DOT: bool>(s: S, line: &mut GradientLine<'_>, from: usize) {
        let GradientLine {
            ref x,
            ref g,
            heads,
            head_dim,
            pairs,
            sums_step,
            ..
        } = *line;
        let (x, g) = (SourceHeads::<E>::of(x), SourceHeads::<E>::of(g));
        let prefetches = const { S::PREFETCHES_HEADS } && from == 0 && g.ahead != 0;
        let len = const { 2 * S::LANES };
        assert!(P::has(head_dim, pairs, from, len));
        // Heads with shared sums are one run; heads with separate sums are runs of one.
        let run = if sums_step == 0 { heads } else { 1 };
        let mut head = 0;
        while head < heads {
            let sums = &mut line.sums[head * sums_step + from..][..len];
            let places = S::chunks_mut(sums);
            let mut added = Self::load(s, places);
            for head in head..head + run {
                if prefetches {
                    x.prefetch(s, head, head_dim, true);
                    g.prefetch(s, head, head_dim, true);
                }
                let x = P::groups::<S, E::Bits>(x.head(head, head_dim), pairs, from, 1);
                let g = P::groups::<S, E::Bits>(g.head(head, head_dim), pairs, from, 1);
                let (x, g) = (P::get(x, 0), P::get(g, 0));
                added = Self::add::<S, DOT>(s, added, x, g);
            }
            Self::store(s, added, places);
            head += run;
        }
    }

    /// Loads the sums of a group, in the lane order of its terms.
    #[inline(always)]
    pub(super) fn load<S: SimdSums>(s: S, places: &[S::Chunk<f64>]) -> [S::Wide; 2] {
        let [first, second] = [s.load_wide(places[0]), s.load_wide(places[1])];
        if const { Self::UNZIPPED } {
            return [
                s.to_deinterleaved_wide(first),
                s.to_deinterleaved_wide(second),
            ];
        }
        if const { Self::EVEN_ODD } {
            let [even, odd] = s.unzip_wide([first, second]);
            return [
                s.undo_deinterleaved_wide(even),
                s.undo_deinterleaved_wide(odd),
            ];
        }
        [first, second]
    }

    /// Stores the sums of a group: the inverse of `load`.
    #[inline(always)]
    pub(super) fn store<S: SimdSums>(s: S, sums: [S::Wide; 2], places: &mut [S::Chunk<f64>]) {
        let [mut first, mut second] = sums;
        if const { Self::UNZIPPED } {
            [first, second] = [
                s.undo_deinterleaved_wide(first),
                s.undo_deinterleaved_wide(second),
            ];
        }
        if const { Self::EVEN_ODD } {
            [first, second] = s.zip_wide([
                s.to_deinterleaved_wide(first),
                s.to_deinterleaved_wide(second),
            ]);
        }
        [places[0], places[1]] = [s.store_wide(first), s.store_wide(second)];
    }

    /// Adds the terms of a group of a head, by the shortest way for the element. `a` and `b` are the members of `x` in
    /// the first half of the group, `c` and `d` those in the second; `e` to `h` are the members of `g`.
    #[inline(always)]
    pub(super) fn add<S: SimdSums, const DOT: bool>(
        s: S,
        [first, second]: [S::Wide; 2],
        x: [VectorPair<S, E::Bits>; 2],
        g: [VectorPair<S, E::Bits>; 2],
    ) -> [S::Wide; 2] {
        if const { Self::WIDE } {
            let (x, g) = (Self::read_wide(s, x), Self::read_wide(s, g));
            return [
                Self::add_wide::<S, DOT>(s, first, x[0], g[0]),
                Self::add_wide::<S, DOT>(s, second, x[1], g[1]),
            ];
        }
        let ([[a, c], [b, d]], [[e, g], [f, h]]) = (Self::read(s, x), Self::read(s, g));
        if const { !DOT } {
            // Converts half as many numbers to f64.
            let products = [s.mul(a, f), s.mul(b, e), s.mul(c, h), s.mul(d, g)];
            if const { matches!(E::PRODUCTS, Products::All) } || !s.any_not_normal(products) {
                let [p, q, r, t] = products;
                return [
                    s.add_difference(first, p, q),
                    s.add_difference(second, r, t),
                ];
            }
        }
        let ([a, b, c, d], [e, f, g, h]) = (
            [s.widen(a), s.widen(b), s.widen(c), s.widen(d)],
            [s.widen(e), s.widen(f), s.widen(g), s.widen(h)],
        );
        [
            Self::add_wide::<S, DOT>(s, first, [a, b], [e, f]),
            Self::add_wide::<S, DOT>(s, second, [c, d], [g, h]),
        ]
    }

    #[inline(always)]
    fn add_wide<S: SimdSums, const DOT: bool>(
        s: S,
        sums: S::Wide,
        x: [S::Wide; 2],
        g: [S::Wide; 2],
    ) -> S::Wide {
        if DOT {
            s.add_dot(sums, x, g)
        } else {
            s.add_cross(sums, x, g)
        }
    }

    /// True if elements are converted to f64 as they are loaded: 32-bit elements.
    const WIDE: bool = matches!(E::PRODUCTS, Products::Few);

    /// True if pairs have the order that unzipping alternating f64 leaves.
    const UNZIPPED: bool = Self::WIDE && P::ALTERNATING;

    /// True if a group's even pairs precede its odd ones: if the element loads cheaper in this order, and its members
    /// do not alternate. The sums are then reordered once for all heads that share them, as for unzipped pairs.
    const EVEN_ODD: bool = E::EVEN_ODD && !P::ALTERNATING;

    /// Loads the first and second members of the first half of a group, and of the second half, as f64.
    #[inline(always)]
    fn read_wide<S: SimdSums>(s: S, [x, y]: [VectorPair<S, E::Bits>; 2]) -> [[S::Wide; 2]; 2] {
        let ([a, b], [c, d]) = (E::read_wide(s, x), E::read_wide(s, y));
        if const { P::ALTERNATING } {
            [s.unzip_wide([a, b]), s.unzip_wide([c, d])]
        } else {
            [[a, c], [b, d]]
        }
    }

    /// Loads the first members of a group, and the second ones.
    #[inline(always)]
    fn read<S: SimdSums>(s: S, [a, b]: [VectorPair<S, E::Bits>; 2]) -> [[S::F32; 2]; 2] {
        if const { P::ALTERNATING && E::EVEN_ODD } {
            let ([a, b], [c, d]) = (E::read_even_odd(s, a), E::read_even_odd(s, b));
            return [[a, c], [b, d]];
        }
        let group = if const { Self::EVEN_ODD } {
            [E::read_even_odd(s, a), E::read_even_odd(s, b)]
        } else {
            [E::read(s, a), E::read(s, b)]
        };
        if const { P::ALTERNATING } {
            deinterleave(s, group)
        } else {
            group
        }
    }

    /// The definition: the loop without vectors.
    #[inline(always)]
    fn plain(line: &mut GradientLine<'_>, from: usize) {
        let (x, g) = (SourceHeads::<E>::of(&line.x), SourceHeads::<E>::of(&line.g));
        for head in 0..line.heads {
            let x = x.head(head, line.head_dim);
            let g = g.head(head, line.head_dim);
            let sums = &mut line.sums[head * line.sums_step..][..line.pairs];
            for (pair, sum) in sums.iter_mut().enumerate().skip(from) {
                let [first, second] = P::members(line.pairs, pair);
                let double = |x: E::Bits| f64::from(E::to_f32(x));
                let (x1, x2) = (double(x[first]), double(x[second]));
                let (g1, g2) = (double(g[first]), double(g[second]));
                *sum = match line.term {
                    GradientTerm::Cross => Scalar.add_cross(*sum, [x1, x2], [g1, g2]),
                    GradientTerm::Dot => Scalar.add_dot(*sum, [x1, x2], [g1, g2]),
                };
            }
        }
    }
}
