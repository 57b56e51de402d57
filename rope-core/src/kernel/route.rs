//! The two ends of a kernel: in place, or from a source into a target.

use core::marker::PhantomData;

use super::line::SourceLine;
use super::pairs::{PairLayout, VectorPair};
use super::prologue::LineNorm;
use super::rotation::{RowFactors, rotate};
use super::source::SourceHeads;
use crate::simd::element::Convert;
use crate::simd::{Scalar, Simd};

/// The ends of a kernel: reads elements `I` of pairing `P`, writes elements `O` of pairing `Q`.
///
/// In place and out of place share one text but are two kernels. A single kernel that selects the source at run time
/// would compile the arithmetic twice as well, and takes 12 more instructions per head.
pub(super) trait Route {
    /// `true` if the kernel writes the heads that it reads.
    const IN_PLACE: bool;

    type I: Convert;
    type P: PairLayout;
    type O: Convert;
    type Q: PairLayout;

    /// The argument of a kernel beside its line: the source, or nothing in place.
    type SourceLine<'s>: Copy;
    /// The heads of the source as elements.
    type Heads<'h>: Copy;
    /// The groups of a head of the source.
    type Groups<'c, S: Simd>: Copy;

    fn heads<'h>(source: Self::SourceLine<'h>) -> Self::Heads<'h>;

    /// Returns the elements from one head to the next.
    fn step(heads: Self::Heads<'_>) -> usize;

    /// Returns the elements from a head to the one that is prefetched with it; 0 for none.
    fn ahead(heads: Self::Heads<'_>) -> usize;

    /// Returns the heads after the first.
    fn next<'h>(heads: Self::Heads<'h>) -> Self::Heads<'h>;

    /// Returns the groups of the head at `start`.
    fn groups<'c, S: Simd>(
        heads: Self::Heads<'c>,
        start: usize,
        head_dim: usize,
        groups: [usize; 3],
    ) -> Self::Groups<'c, S>;

    /// Loads a group in storage format.
    fn get<S: Simd>(
        source: Self::Groups<'_, S>,
        target: &GroupsMut<'_, S, Self>,
        i: usize,
    ) -> [VectorPair<S, Bits<Self::I>>; 2];

    /// Loads one vector of pairs of a group in storage format.
    fn get_half<S: Simd>(
        source: Self::Groups<'_, S>,
        target: &GroupsMut<'_, S, Self>,
        i: usize,
        half: usize,
    ) -> VectorPair<S, Bits<Self::I>>;

    /// Prefetches for the head at `start` at the source's distance. The result may lie before the line if `back` is
    /// set.
    fn prefetch<S: Simd>(s: S, heads: Self::Heads<'_>, start: usize, head_dim: usize, back: bool);

    /// The source from its first head on, if that is another place.
    fn elements<'h>(heads: Self::Heads<'h>) -> Option<&'h [Bits<Self::I>]>;

    /// Rotates a head, from a pair on, by the definition.
    fn plain(
        heads: Self::Heads<'_>,
        index: usize,
        target: &mut [Bits<Self::O>],
        row: &PlainRow<'_>,
        norm: Option<&LineNorm<'_>>,
    );
}

/// The bits of an element.
pub(super) type Bits<E> = <E as Convert>::Bits;

/// The groups of a head of the target.
pub(super) type GroupsMut<'c, S, R> =
    <<R as Route>::Q as PairLayout>::GroupsMut<'c, VectorPair<S, Bits<<R as Route>::O>>>;

/// A row for the definition: its cos and sin from the first rotated pair on.
pub(super) struct PlainRow<'r> {
    pub(super) pairs: usize,
    pub(super) from: usize,
    pub(super) cos: &'r [f32],
    pub(super) sin: &'r [f32],
    pub(super) factors: RowFactors,
}

/// The route of an in-place kernel.
pub(super) struct Same<E, P>(PhantomData<(E, P)>);

impl<E: Convert, P: PairLayout> Route for Same<E, P> {
    const IN_PLACE: bool = true;

    type I = E;
    type P = P;
    type O = E;
    type Q = P;
    type SourceLine<'s> = ();
    type Heads<'h> = ();
    type Groups<'c, S: Simd> = ();

    #[inline(always)]
    fn heads<'h>((): ())
    where
        'h: 'h,
    {
    }

    #[inline(always)]
    fn step((): ()) -> usize {
        0
    }

    #[inline(always)]
    fn ahead((): ()) -> usize {
        0
    }

    #[inline(always)]
    fn next<'h>((): ())
    where
        'h: 'h,
    {
    }

    #[inline(always)]
    fn groups<'c, S: Simd>((): (), _: usize, _: usize, _: [usize; 3])
    where
        'c: 'c,
    {
    }

    #[inline(always)]
    fn get<S: Simd>(
        (): (),
        target: &GroupsMut<'_, S, Self>,
        i: usize,
    ) -> [VectorPair<S, E::Bits>; 2] {
        P::get(P::reread(target), i)
    }

    #[inline(always)]
    fn get_half<S: Simd>(
        (): (),
        target: &GroupsMut<'_, S, Self>,
        i: usize,
        half: usize,
    ) -> VectorPair<S, E::Bits> {
        P::get_half(P::reread(target), i, half)
    }

    #[inline(always)]
    fn prefetch<S: Simd>(_: S, (): (), _: usize, _: usize, _: bool) {}

    #[inline(always)]
    fn elements<'h>((): ()) -> Option<&'h [E::Bits]>
    where
        'h: 'h,
    {
        None
    }

    #[inline(always)]
    fn plain(
        (): (),
        index: usize,
        target: &mut [E::Bits],
        row: &PlainRow<'_>,
        norm: Option<&LineNorm<'_>>,
    ) {
        let PlainRow {
            pairs,
            from,
            cos,
            sin,
            factors: RowFactors { cos: c, sin: n },
        } = *row;
        if let Some(norm) = norm {
            for (i, (cos, sin)) in cos.iter().zip(sin).enumerate() {
                let [x, y] = P::members(pairs, from + i);
                let normed = |channel: usize, bits: E::Bits| {
                    norm.channel::<E>(index, channel, E::to_f32(bits))
                };
                let xy = [normed(x, target[x]), normed(y, target[y])];
                let [u, v] = rotate(Scalar, xy, cos * c, sin * n);
                [target[x], target[y]] = [E::from_f32(u), E::from_f32(v)];
            }
        } else {
            P::replace(target, pairs, from, [cos, sin], |[x, y], cos, sin| {
                let [u, v] = rotate(Scalar, [E::to_f32(x), E::to_f32(y)], cos * c, sin * n);
                [E::from_f32(u), E::from_f32(v)]
            });
        }
    }
}

/// The route of an out-of-place kernel. It has no norm before the rotation.
pub(super) struct Other<I, P, O, Q>(PhantomData<(I, P, O, Q)>);

impl<I: Convert, P: PairLayout, O: Convert, Q: PairLayout> Route for Other<I, P, O, Q> {
    const IN_PLACE: bool = false;

    type I = I;
    type P = P;
    type O = O;
    type Q = Q;
    type SourceLine<'s> = &'s SourceLine<'s>;
    type Heads<'h> = SourceHeads<'h, I>;
    type Groups<'c, S: Simd> = P::Groups<'c, VectorPair<S, I::Bits>>;

    #[inline(always)]
    fn heads<'h>(source: &'h SourceLine<'h>) -> SourceHeads<'h, I>
    where
        'h: 'h,
    {
        SourceHeads::of(source)
    }

    #[inline(always)]
    fn step(heads: SourceHeads<'_, I>) -> usize {
        heads.step
    }

    #[inline(always)]
    fn ahead(heads: SourceHeads<'_, I>) -> usize {
        heads.ahead
    }

    #[inline(always)]
    fn next<'h>(heads: SourceHeads<'h, I>) -> SourceHeads<'h, I>
    where
        'h: 'h,
    {
        heads.next()
    }

    #[inline(always)]
    fn groups<'c, S: Simd>(
        heads: SourceHeads<'c, I>,
        start: usize,
        head_dim: usize,
        [pairs, from, groups]: [usize; 3],
    ) -> Self::Groups<'c, S>
    where
        'c: 'c,
    {
        P::groups::<S, _>(&heads.elements[start..][..head_dim], pairs, from, groups)
    }

    #[inline(always)]
    fn get<S: Simd>(
        source: Self::Groups<'_, S>,
        _: &GroupsMut<'_, S, Self>,
        i: usize,
    ) -> [VectorPair<S, I::Bits>; 2] {
        P::get(source, i)
    }

    #[inline(always)]
    fn get_half<S: Simd>(
        source: Self::Groups<'_, S>,
        _: &GroupsMut<'_, S, Self>,
        i: usize,
        half: usize,
    ) -> VectorPair<S, I::Bits> {
        P::get_half(source, i, half)
    }

    #[inline(always)]
    fn prefetch<S: Simd>(
        s: S,
        heads: SourceHeads<'_, I>,
        start: usize,
        head_dim: usize,
        back: bool,
    ) {
        if heads.ahead != 0 {
            heads.prefetch_from(s, start, head_dim, back);
        }
    }

    #[inline(always)]
    fn elements<'h>(heads: SourceHeads<'h, I>) -> Option<&'h [I::Bits]>
    where
        'h: 'h,
    {
        Some(heads.elements)
    }

    #[inline(always)]
    fn plain(
        heads: SourceHeads<'_, I>,
        index: usize,
        target: &mut [O::Bits],
        row: &PlainRow<'_>,
        _: Option<&LineNorm<'_>>,
    ) {
        let source = heads.head(index, target.len());
        let PlainRow {
            pairs,
            from,
            cos,
            sin,
            factors: RowFactors { cos: c, sin: n },
        } = *row;
        for (i, (cos, sin)) in cos.iter().zip(sin).enumerate() {
            let [x, y] = P::members(pairs, from + i);
            let xy = [I::to_f32(source[x]), I::to_f32(source[y])];
            let [u, v] = rotate(Scalar, xy, cos * c, sin * n);
            let [x, y] = Q::members(pairs, from + i);
            [target[x], target[y]] = [O::from_f32(u), O::from_f32(v)];
        }
    }
}
