//! The unit of compiled work: the loop over the heads of a line.
//!
//! ```text
//! for head in line {
//!     for pair in head {
//!         (x, y) = read(pair)
//!         write(x cos - y sin, x sin + y cos)
//!     }
//! }
//! ```
//!
//! is the whole algorithm, and [`RotateLine::plain`] is exactly that. The other two loops differ as follows:
//!
//! - *Vectors.* One group, two vectors of pairs, is rotated at a time. Two, because 16-bit elements come in twos: one
//!   register of them is two of f32.
//! - *cos and sin stay in registers* during all heads of a token ([`RotateLine::shared`]): as many groups as fit the
//!   registers, with one pass over the heads for each such set. (Loading them again per head doubles the time of a
//!   rotation in cache.) If each head has its own row, nothing is kept ([`RotateLine::each`]).
//! - *Incomplete groups* are left to the next narrower instruction set: a call of its kernel, from a pair on.
//! - *Later heads are prefetched* at the distance that the walk sets, if it sets one.

use core::hint::{black_box, cold_path};
use core::marker::PhantomData;
use core::mem::take;

use bytemuck::{Pod, cast_slice, cast_slice_mut};

use super::normed::{LineNorm, Prologue};
use super::pairs::{PairLayout, VectorPair};
use super::rotation::{
    self, AngleVectors, ConstOrder, LaneOrder, RowFactors, deinterleave, interleave, rotate,
    with_order,
};
use crate::simd::element::Convert;
use crate::simd::shared_heads::{HeadFormat, SharedHeads};
use crate::simd::{InstructionSet, LineKernels, MemoryKernel, Scalar, Simd};

/// Heads at equal distances in a memory, and their rows. Every index in it has been checked against the tensor.
///
/// The memory goes to the kernels beside it ([`MemoryKernel`]): the target's elements as bytes, from the first head on.
/// A line has no type, but its kernel has.
#[derive(Clone, Copy)]
pub(crate) struct Line<'a> {
    /// Elements from one head to the next.
    pub(crate) step: usize,
    /// The number of heads.
    pub(crate) heads: usize,
    /// Channels per head.
    pub(crate) head_dim: usize,
    /// The rows of the heads. One copy serves all lines of a call.
    pub(crate) rows: &'a LineRows<'a>,
    /// Elements from a head to the one that is prefetched with it, wrapping; 0 for none.
    pub(crate) ahead: usize,
    /// The memory before the line, where that one may lie.
    pub(crate) before: &'a [u8],
    /// Tokens after that of the line, which an in-place rotation includes.
    pub(crate) more: &'a MoreTokens<'a>,
}

/// Heads at equal distances that a kernel only reads, as many as in its line.
#[derive(Clone, Copy)]
pub(crate) struct SourceLine<'a> {
    /// The elements as bytes.
    pub(crate) memory: &'a [u8],
    /// Index of the first head.
    pub(crate) at: usize,
    /// Elements from one head to the next.
    pub(crate) step: usize,
    /// Elements from a head to the one that is prefetched with it, wrapping; 0 for none.
    pub(crate) ahead: usize,
}

/// The rows of a line.
#[derive(Clone, Copy)]
pub(crate) struct LineRows<'a> {
    pub(crate) cos: &'a [f32],
    pub(crate) sin: &'a [f32],
    /// Values of a row in each of cos and sin.
    pub(crate) pairs: usize,
    pub(crate) starts: Starts<'a>,
    /// The factors on cos and sin, or `None` for 1. A reference: two f32 written by a walk and read by a kernel as
    /// eight bytes wait for all stores in flight.
    pub(crate) factors: Option<&'a RowFactors>,
}

/// Tokens after that of a line: their heads lie at the same distances, and share one row per token.
#[derive(Clone, Copy)]
pub(crate) struct MoreTokens<'a> {
    /// The start of each token's row.
    pub(crate) starts: &'a [usize],
    /// Elements from one token to the next.
    pub(crate) step: usize,
}

impl MoreTokens<'_> {
    pub(crate) const NONE: MoreTokens<'static> = MoreTokens {
        starts: &[],
        step: 0,
    };
}

/// The starts of rows, in cos and in sin.
#[derive(Clone, Copy)]
pub(crate) enum Starts<'a> {
    /// The start of the row that all heads share.
    Shared(usize),
    /// The start of each head's row.
    Each(&'a [usize]),
}

impl<'a> LineRows<'a> {
    /// Returns a row that all heads share.
    #[inline(always)]
    pub(crate) fn shared(cos: &'a [f32], sin: &'a [f32]) -> Self {
        LineRows {
            cos,
            sin,
            pairs: cos.len(),
            starts: Starts::Shared(0),
            factors: None,
        }
    }

    /// Returns some pairs of the rows, whose values begin at this one of each row.
    #[inline(always)]
    pub(crate) fn of_pairs(&self, begin: usize, pairs: usize) -> Self {
        LineRows {
            cos: &self.cos[begin..],
            sin: &self.sin[begin..],
            pairs,
            ..*self
        }
    }

    /// Returns cos and sin of the row at `start`.
    #[inline(always)]
    pub(super) fn row(&self, start: usize) -> [&'a [f32]; 2] {
        [
            &self.cos[start..][..self.pairs],
            &self.sin[start..][..self.pairs],
        ]
    }
}

/// The ends of a kernel: reads elements `I` of pairing `P`, writes elements `O` of pairing `Q`.
///
/// In place and out of place share one text but are two kernels. A single kernel that selects the source at run time
/// would compile the arithmetic twice as well, and takes 12 more instructions per head.
pub(crate) trait Route {
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
pub(crate) struct PlainRow<'r> {
    pairs: usize,
    from: usize,
    cos: &'r [f32],
    sin: &'r [f32],
    factors: RowFactors,
}

/// The route of an in-place kernel.
pub(crate) struct Same<E, P>(PhantomData<(E, P)>);

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
pub(crate) struct Other<I, P, O, Q>(PhantomData<(I, P, O, Q)>);

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
        let rest = heads.elements.get(heads.step..);
        SourceHeads {
            elements: rest.expect("all heads are inside"),
            ..heads
        }
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

/// The heads of a source as elements.
pub(crate) struct SourceHeads<'h, E: Convert> {
    before: &'h [E::Bits],
    /// From the first head on: saves one addition per head.
    elements: &'h [E::Bits],
    step: usize,
    pub(super) ahead: usize,
}

impl<E: Convert> Clone for SourceHeads<'_, E> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<E: Convert> Copy for SourceHeads<'_, E> {}

impl<'h, E: Convert> SourceHeads<'h, E> {
    #[inline(always)]
    pub(super) fn of(source: &SourceLine<'h>) -> Self {
        let (before, elements) = cast_slice(source.memory).split_at(source.at);
        SourceHeads {
            before,
            elements,
            step: source.step,
            ahead: source.ahead,
        }
    }

    #[inline(always)]
    pub(super) fn head(self, index: usize, head_dim: usize) -> &'h [E::Bits] {
        &self.elements[index * self.step..][..head_dim]
    }

    /// Prefetches the head `ahead` of head `index`. The step of a single head may be any number.
    #[inline(always)]
    pub(super) fn prefetch<S: Simd>(self, s: S, index: usize, head_dim: usize, back: bool) {
        self.prefetch_from(s, index.wrapping_mul(self.step), head_dim, back);
    }

    /// Prefetches for the head at `start`.
    #[inline(always)]
    fn prefetch_from<S: Simd>(self, s: S, start: usize, head_dim: usize, back: bool) {
        let before = if back { self.before } else { &[] };
        let start = start.wrapping_add(self.ahead);
        prefetch(s, [before, self.elements], start, head_dim);
    }
}

/// A kernel that rotates the pairs of a line, and of the tokens after it, from a given pair to the last.
pub(crate) struct RotateLine<'l, R: Route, N = ()> {
    source: R::SourceLine<'l>,
    line: &'l Line<'l>,
    prologue: N,
}

impl<'l, R: Route, N> RotateLine<'l, R, N> {
    #[inline(always)]
    pub(crate) fn new(source: R::SourceLine<'l>, line: &'l Line<'l>, prologue: N) -> Self {
        RotateLine {
            source,
            line,
            prologue,
        }
    }
}

impl<R: Route, N: Prologue> MemoryKernel for RotateLine<'_, R, N> {
    const BF16: bool = R::O::BF16;

    #[inline(always)]
    fn run_in<S: InstructionSet>(self, s: S, memory: &mut [u8], first: usize) {
        let RotateLine {
            source,
            line,
            prologue,
        } = self;
        let (rows, more) = (line.rows, line.more);
        let pairs = rows.pairs;
        let mut heads = Heads::<R>::of(source, memory, line);
        if const { S::LANES == 1 } {
            let rows = &{ *rows };
            return Self::plain(&mut heads, rows, more, first, prologue);
        }
        let mut from = first;
        match rows.starts {
            Starts::Shared(start)
                if !Self::nan_in_any(s, rows, &[start])
                    && !Self::nan_in_any(s, rows, more.starts) =>
            {
                let (mut start, mut place, mut rest) = (start, 0, more.starts.iter());
                heads.are_far_apart =
                    const { Self::MORE_TOKENS } && (1..line.step).contains(&more.step);
                loop {
                    let heads = &mut heads.of_token(place);
                    from = with_order!(Self::lane_order::<S>(true), O => {
                        Self::token::<S, O>(s, heads, rows, start, first, prologue)
                    });
                    match rest.next() {
                        Some(&next) if const { Self::MORE_TOKENS } => {
                            start = next;
                            place += more.step;
                        }
                        _ => break,
                    }
                }
            }
            Starts::Each(starts) if !Self::nan_in_any(s, rows, starts) => {
                from = with_order!(Self::lane_order::<S>(false), O => {
                    Self::each::<S, O>(s, &mut heads, rows, starts, from, prologue)
                });
            }
            // The narrower instruction set rotates the whole line, and it or the next one checks every NaN.
            _ => {}
        }
        if from < pairs {
            s.narrower().enter_in(memory, from, self);
        }
    }

    #[inline(always)]
    fn run_lines<L: LineKernels>(self, lines: L, memory: &mut [u8], from: usize) {
        let formats = [
            HeadFormat::of::<R::I>(R::P::ALTERNATING),
            HeadFormat::of::<R::O>(R::Q::ALTERNATING),
        ];
        if const { N::NORMS } || !L::has(formats) || from != 0 {
            lines.narrower().enter_in(memory, from, self);
            return;
        }
        let (rows, more) = (self.line.rows, self.line.more);
        let mut heads = Heads::<R>::of(self.source, memory, self.line);
        match rows.starts {
            Starts::Shared(start) => {
                let (mut start, mut place, mut rest) = (start, 0, more.starts.iter());
                loop {
                    let len = heads.len;
                    lines.rotate(formats, heads.of_token(place).shared(0, len, rows, start));
                    match rest.next() {
                        Some(&next) if const { Self::MORE_TOKENS } => {
                            start = next;
                            place += more.step;
                        }
                        _ => break,
                    }
                }
            }
            Starts::Each(starts) => {
                for (index, &start) in starts.iter().enumerate() {
                    lines.rotate(formats, heads.shared(index, 1, rows, start));
                }
            }
        }
    }
}

impl<R: Route, N: Prologue> RotateLine<'_, R, N> {
    /// True if a line may have several tokens ([`MoreTokens`]): in place, without a norm.
    const MORE_TOKENS: bool = R::IN_PLACE && !N::NORMS;

    /// Returns true if elements are read as even and odd: if both ends support it, unless in-order widening costs less.
    /// The even and odd elements of alternating pairs are their members.
    const fn even_odd<S: Simd>() -> bool {
        !N::NORMS
            && R::I::EVEN_ODD
            && R::O::EVEN_ODD
            && (R::P::ALTERNATING || !R::Q::ALTERNATING && !S::WIDENS_IN_ORDER)
    }

    /// Returns true if elements are also written as even and odd: if their order stays the same.
    const fn writes_even_odd<S: Simd>() -> bool {
        Self::even_odd::<S>() && R::P::ALTERNATING == R::Q::ALTERNATING
    }

    /// Returns the lane order of a group, by whether heads share their row.
    const fn lane_order<S: Simd>(shared: bool) -> LaneOrder {
        LaneOrder::of::<S, R::P>(Self::even_odd::<S>(), size_of::<Bits<R::O>>(), shared)
    }

    /// Returns true if a row has a NaN that the instruction set would round wrongly.
    #[inline(always)]
    pub(super) fn nan_in<S: Simd>(s: S, [cos, sin]: [&[f32]; 2]) -> bool {
        if const { !(Self::writes_even_odd::<S>() && S::NARROWS_ARITHMETIC_NAN) } {
            return false;
        }
        let mut sum = s.splat(0.0);
        for (&cos, &sin) in S::chunks(cos).iter().zip(S::chunks(sin)) {
            sum = s.add(sum, s.add(s.load_f32(cos), s.load_f32(sin)));
        }
        s.any_nan(sum)
    }

    /// Returns true if any row of a line has such a NaN.
    #[inline(always)]
    fn nan_in_any<S: Simd>(s: S, rows: &LineRows<'_>, starts: &[usize]) -> bool {
        let mut found = false;
        if const { Self::writes_even_odd::<S>() && S::NARROWS_ARITHMETIC_NAN } {
            for &start in starts {
                found |= Self::nan_in(s, rows.row(start));
            }
        }
        found
    }

    /// Returns the pairs in a group.
    const fn group<S: Simd>() -> usize {
        2 * S::LANES
    }

    /// Returns the number of groups whose cos and sin fit the registers. One more group is read from the stack: with
    /// AVX2, two groups of doubled cos and sin take 1.04 times as long for 16 tokens of 8 heads of f32 on Zen 3, and in
    /// some runs 1.5 times.
    const fn most<S: Simd>() -> usize {
        match Self::lane_order::<S>(true) {
            // A kernel with a norm waits for its arithmetic, not for cos and sin, and is a quarter as large with one
            // group.
            _ if N::NORMS => 1,
            LaneOrder::Doubled => S::DOUBLED_GROUPS,
            _ => S::GROUPS,
        }
    }

    /// The definition: one lane, any number of pairs. All backends agree with it.
    #[inline(always)]
    fn plain(
        heads: &mut Heads<'_, '_, R>,
        rows: &LineRows<'_>,
        more: &MoreTokens<'_>,
        from: usize,
        prologue: N,
    ) {
        let (mut starts, mut place, mut rest) = (rows.starts, 0, more.starts.iter());
        loop {
            let heads = &mut heads.of_token(place);
            for index in 0..heads.len {
                let start = match starts {
                    Starts::Shared(start) => start,
                    Starts::Each(starts) => starts[index],
                };
                let [cos, sin] = rows.row(start);
                // Sliced before the loop: skipping inside it keeps the compiler from vectorizing.
                let row = &PlainRow {
                    pairs: rows.pairs,
                    from,
                    cos: &cos[from..],
                    sin: &sin[from..],
                    factors: *rows.factors.unwrap_or(&RowFactors::UNSCALED),
                };
                let source = heads.source;
                R::plain(source, index, heads.head(index), row, prologue.norm());
            }
            match rest.next() {
                Some(&start) if const { Self::MORE_TOKENS } => {
                    starts = Starts::Shared(start);
                    place += more.step;
                }
                _ => break,
            }
        }
    }

    /// Rotates all whole groups, from a pair on, of the heads of a token, whose row begins at `start`. Returns the next
    /// pair.
    #[inline(always)]
    fn token<S: Simd, O: ConstOrder>(
        s: S,
        heads: &mut Heads<'_, '_, R>,
        rows: &LineRows<'_>,
        start: usize,
        mut from: usize,
        prologue: N,
    ) -> usize {
        // A copy, which stays in registers: the target of a reference is loaded again after every store. One copy per
        // token, because a copy for all tokens would take the registers of the loop over heads.
        let rows = &{ *rows };
        let (row, factors) = (rows.row(start), rows.factors);
        if const { Self::most::<S>() >= 4 } {
            while rows.pairs - from >= 4 * Self::group::<S>() {
                from = Self::shared::<S, O, 4>(s, heads, row, factors, from, prologue);
            }
        }
        if const { Self::most::<S>() >= 2 } {
            while rows.pairs - from >= 2 * Self::group::<S>() {
                from = Self::shared::<S, O, 2>(s, heads, row, factors, from, prologue);
            }
        }
        while rows.pairs - from >= Self::group::<S>() {
            from = Self::shared::<S, O, 1>(s, heads, row, factors, from, prologue);
        }
        from
    }

    /// Rotates `G` groups, from a pair on, of all heads by their shared row. Returns the next pair.
    #[inline(always)]
    fn shared<S: Simd, O: ConstOrder, const G: usize>(
        s: S,
        heads: &mut Heads<'_, '_, R>,
        [cos, sin]: [&[f32]; 2],
        factors: Option<&RowFactors>,
        from: usize,
        prologue: N,
    ) -> usize {
        let (pairs, len) = (cos.len(), G * Self::group::<S>());
        let cos = S::chunks(&cos[from..][..len]).as_chunks().0;
        let sin = S::chunks(&sin[from..][..len]).as_chunks().0;
        // Unrolled by hand, as below. Vectors beyond `G` are never read.
        const { assert!(G == 1 || G == 2 || G == 4) };
        let first = AngleVectors::<S, O>::load(s, cos[0], sin[0], factors);
        let mut angles = [first, first, first, first];
        if const { G > 1 } {
            angles[1] = AngleVectors::load(s, cos[1], sin[1], factors);
        }
        if const { G > 2 } {
            angles[2] = AngleVectors::load(s, cos[2], sin[2], factors);
            angles[3] = AngleVectors::load(s, cos[3], sin[3], factors);
        }
        heads.check(pairs, from, len);
        let ahead = heads.ahead | R::ahead(heads.source);
        let pays = const { S::PREFETCHES_HEADS } || const { S::PREFETCHES } && heads.are_far_apart;
        let prefetches = pays && from == 0 && ahead != 0;
        let (mut heads, mut head) = (heads.of_token(0), Head::FIRST);
        while head.index < heads.len {
            if prefetches {
                cold_path();
                heads.prefetch(s, head, false);
            }
            let mut groups = heads.groups(s, &prologue, head, [pairs, from, G]);
            // Unrolled by hand: the compiler does not unroll a loop with a possible call (the rare cases of 16 bits),
            // and keeps cos and sin in memory for it.
            groups.rotate(s, 0, &angles[0]);
            if const { G > 1 } {
                groups.rotate(s, 1, &angles[1]);
            }
            if const { G > 2 } {
                groups.rotate(s, 2, &angles[2]);
                groups.rotate(s, 3, &angles[3]);
            }
            drop(groups);
            head.index += 1;
            if head.index == heads.len {
                break;
            }
            heads.source = R::next(heads.source);
            // Not an index, whose panic prints two numbers: keeping them takes two instructions per head.
            let rest = take(&mut heads.elements).get_mut(heads.step..);
            heads.elements = rest.expect("all heads are inside");
        }
        from + len
    }

    /// Rotates all whole groups, from a pair on, of all heads, each by its own row. Returns the next pair.
    #[inline(always)]
    fn each<S: Simd, O: ConstOrder>(
        s: S,
        heads: &mut Heads<'_, '_, R>,
        rows: &LineRows<'_>,
        starts: &[usize],
        from: usize,
        prologue: N,
    ) -> usize {
        let rows = &{ *rows };
        let len = (rows.pairs - from) / Self::group::<S>();
        let pairs = len * Self::group::<S>();
        heads.check(rows.pairs, from, pairs);
        let mut head = Head::FIRST;
        for &start in starts {
            heads.prefetch(s, head, true);
            let [cos, sin] = rows.row(start);
            let cos = &S::chunks(&cos[from..][..pairs]).as_chunks().0[..len];
            let sin = &S::chunks(&sin[from..][..pairs]).as_chunks().0[..len];
            let next = heads.next(head);
            let mut groups = heads.groups(s, &prologue, head, [rows.pairs, from, len]);
            // One loop per case, so that no group branches; the rest is one text for both.
            if let Some(factors) = rows.factors {
                for i in 0..len {
                    let angles = AngleVectors::<S, O>::load(s, cos[i], sin[i], Some(factors));
                    groups.rotate(s, i, &angles);
                }
            } else {
                for i in 0..len {
                    let angles = AngleVectors::<S, O>::load(s, cos[i], sin[i], None);
                    groups.rotate(s, i, &angles);
                }
            }
            head = next;
        }
        from + pairs
    }
}

/// A head of a line: its index and its start. Starts are added up from head to head. With a multiplication, the factor
/// is loaded from the stack and waits there for the stores of the previous heads (39 ns instead of 35, for 8 heads of
/// f32 on Zen 4).
#[derive(Clone, Copy)]
pub(super) struct Head {
    index: usize,
    /// In the source, if there is one, and in the target.
    starts: [usize; 2],
}

impl Head {
    const FIRST: Self = Head {
        index: 0,
        starts: [0; 2],
    };
}

/// The heads of a line as elements.
pub(super) struct Heads<'s, 'h, R: Route> {
    source: R::Heads<'s>,
    before: &'h [u8],
    elements: &'h mut [Bits<R::O>],
    step: usize,
    len: usize,
    head_dim: usize,
    pub(super) ahead: usize,
    /// True if heads are farther apart than tokens, as in a heads-major tensor. No CPU's prefetcher follows them all.
    are_far_apart: bool,
}

impl<'s, 'h, R: Route> Heads<'s, 'h, R> {
    #[inline(always)]
    pub(super) fn of(source: R::SourceLine<'s>, memory: &'h mut [u8], line: &'h Line<'_>) -> Self {
        Heads {
            source: R::heads(source),
            before: line.before,
            elements: cast_slice_mut(memory),
            step: line.step,
            len: line.heads,
            head_dim: line.head_dim,
            ahead: line.ahead,
            are_far_apart: false,
        }
    }

    /// Checks that every head has these pairs, in the source and in the target, as the plan guarantees. Runs before the
    /// loop over heads, so that the compiler need not check each.
    #[inline(always)]
    pub(super) fn check(&self, pairs: usize, from: usize, len: usize) {
        assert!(
            R::P::has(self.head_dim, pairs, from, len)
                && R::Q::has(self.head_dim, pairs, from, len)
        );
    }

    /// Returns the heads of a token, the first of which begins at `place`.
    #[inline(always)]
    fn of_token(&mut self, place: usize) -> Heads<'s, '_, R> {
        Heads {
            elements: &mut self.elements[place..],
            ..*self
        }
    }

    /// Returns the head at `index`.
    #[inline(always)]
    pub(super) fn at(&self, index: usize) -> Head {
        let steps = [R::step(self.source), self.step];
        Head {
            index,
            starts: steps.map(|step| index.wrapping_mul(step)),
        }
    }

    /// Returns the head after `head`. The step of a single head may be any number.
    #[inline(always)]
    fn next(&self, head: Head) -> Head {
        let [source, target] = head.starts;
        Head {
            index: head.index + 1,
            starts: [
                source.wrapping_add(R::step(self.source)),
                target.wrapping_add(self.step),
            ],
        }
    }

    /// Prefetches for one of the heads at the distances of the line and its source. The result may lie before the line
    /// if `back` is set.
    #[inline(always)]
    pub(super) fn prefetch<S: Simd>(&self, s: S, head: Head, back: bool) {
        if const { !S::PREFETCHES } {
            return;
        }
        let [source, target] = head.starts;
        R::prefetch(s, self.source, source, self.head_dim, back);
        if self.ahead != 0 {
            cold_path();
            let start = target.wrapping_add(self.ahead);
            let before = if back { cast_slice(self.before) } else { &[] };
            prefetch(s, [before, self.elements], start, self.head_dim);
        }
    }

    #[inline(always)]
    pub(super) fn head(&mut self, index: usize) -> &mut [Bits<R::O>] {
        &mut self.elements[index * self.step..][..self.head_dim]
    }

    /// Some of the heads, which share the row that starts there.
    #[inline(always)]
    fn shared<'c>(
        &'c mut self,
        first: usize,
        len: usize,
        rows: &LineRows<'c>,
        start: usize,
    ) -> SharedHeads<'c>
    where
        's: 'c,
    {
        let [cos, sin] = rows.row(start);
        let factors = rows.factors.unwrap_or(&RowFactors::UNSCALED);
        let step = R::step(self.source);
        let source: Option<&'c [Bits<R::I>]> = R::elements(self.source);
        SharedHeads {
            source: source.map(|elements| (cast_slice(&elements[first * step..]), step)),
            target: cast_slice_mut(&mut self.elements[first * self.step..]),
            step: self.step,
            heads: len,
            cos,
            sin,
            factors: [factors.cos, factors.sin],
        }
    }

    #[inline(always)]
    pub(super) fn groups<'c, S: Simd, N: Prologue>(
        &'c mut self,
        s: S,
        prologue: &'c N,
        head: Head,
        [pairs, from, groups]: [usize; 3],
    ) -> HeadGroups<'s, 'c, S, R, N> {
        let [source, target] = head.starts;
        let elements = &mut self.elements[target..][..self.head_dim];
        HeadGroups {
            norm: prologue.head(s, head.index, [pairs, from, groups]),
            source: R::groups::<S>(self.source, source, self.head_dim, [pairs, from, groups]),
            target: R::Q::groups_mut::<S, _>(elements, pairs, from, groups),
        }
    }
}

/// The groups of a head, in the target, and in the source if it is another place.
pub(super) struct HeadGroups<'s, 'c, S: Simd, R: Route, N: Prologue> {
    norm: N::Head<'c, S, R::P>,
    source: R::Groups<'s, S>,
    pub(super) target: GroupsMut<'c, S, R>,
}

impl<S: Simd, R: Route, N: Prologue> HeadGroups<'_, '_, S, R, N> {
    /// Reads a group, norms it, rotates it and writes it: all stages of a chain, in registers.
    #[inline(always)]
    pub(super) fn rotate<O: ConstOrder>(&mut self, s: S, i: usize, angles: &AngleVectors<S, O>) {
        if const { Self::WRITES_HALVES } {
            self.rotate_half(s, [i, 0], angles);
            self.rotate_half(s, [i, 1], angles);
            return;
        }
        let [a, b] = R::get::<S>(self.source, &self.target, i);
        let group = if const { O::EVEN_ODD } {
            // Without a norm: its weights are in the order of the channels.
            [R::I::read_even_odd(s, a), R::I::read_even_odd(s, b)]
        } else {
            let group = [R::I::read(s, a), R::I::read(s, b)];
            N::apply::<R::I, S, R::P>(&self.norm, s, i, group)
        };
        let mut rotated = angles.rotate(s, group);
        if const { R::P::ALTERNATING && !R::Q::ALTERNATING } {
            rotated = if const { O::EVEN_ODD } {
                // Even and odd elements are already separate.
                let [[x0, y0], [x1, y1]] = rotated;
                [[x0, x1], [y0, y1]]
            } else {
                deinterleave(s, rotated)
            };
        }
        if const { !R::P::ALTERNATING && R::Q::ALTERNATING } {
            rotated = interleave(s, rotated);
        }
        let written = if const { O::EVEN_ODD && R::P::ALTERNATING == R::Q::ALTERNATING } {
            R::O::write_even_odd(s, rotated)
        } else {
            R::O::write(s, rotated)
        };
        R::Q::set(&mut self.target, i, written);
    }
}

impl<S: Simd, R: Route, N: Prologue> HeadGroups<'_, '_, S, R, N> {
    /// True if half a group is written before the next half is read: for f32, whose vectors convert one by one.
    const WRITES_HALVES: bool = S::WRITES_HALVES
        && !N::NORMS
        && R::P::ALTERNATING == R::Q::ALTERNATING
        && size_of::<Bits<R::I>>() == 4
        && size_of::<Bits<R::O>>() == 4;

    /// Reads a group, norms it and writes it.
    #[inline(always)]
    pub(super) fn norm(&mut self, s: S, i: usize) {
        let [a, b] = R::get::<S>(self.source, &self.target, i);
        let group = [R::I::read(s, a), R::I::read(s, b)];
        let normed = N::apply::<R::I, S, R::P>(&self.norm, s, i, group);
        R::Q::set(&mut self.target, i, R::O::write(s, normed));
    }

    /// Reads one vector of pairs, rotates it and writes it.
    #[inline(always)]
    fn rotate_half<O: ConstOrder>(
        &mut self,
        s: S,
        [i, half]: [usize; 2],
        angles: &AngleVectors<S, O>,
    ) {
        let xy = R::get_half::<S>(self.source, &self.target, i, half);
        let rotated = angles.rotate_half(s, half, R::I::read(s, xy));
        let [written, _] = R::O::write(s, [rotated, rotated]);
        R::Q::set_half(&mut self.target, i, half, written);
    }
}

/// Prefetches the cache lines of some elements, clipped to memory. They begin at an index of the second slice, or, if
/// it wraps, in the first slice, which lies before it. A loop of few instructions, because every head pays for it, even
/// if the caches hold everything.
#[inline(always)]
fn prefetch<S: Simd, T: Pod>(s: S, [before, elements]: [&[T]; 2], start: usize, len: usize) {
    if const { !S::PREFETCHES } {
        return;
    }
    let elements = match elements.get(start..) {
        Some(elements) => elements,
        None => before
            .get(before.len().wrapping_add(start)..)
            .unwrap_or_default(),
    };
    let elements = &elements[..len.min(elements.len())];
    // The compiler must not know the step: it would unroll the loop eight times in each of a hundred kernels, which
    // makes the crate a tenth larger and nothing faster.
    let step = black_box(const { 64 / size_of::<T>() });
    let mut at = 0;
    while let Some(element) = elements.get(at) {
        s.prefetch(element);
        at += step;
    }
}
