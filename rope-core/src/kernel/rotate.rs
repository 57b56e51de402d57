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

use core::hint::cold_path;
use core::mem::take;

use super::heads::{Head, Heads};
use super::line::{Line, LineRows, MoreTokens, Starts};
use super::pairs::PairLayout;
use super::prologue::Prologue;
use super::rotation::{self, AngleVectors, ConstOrder, LaneOrder, RowFactors, with_order};
use super::route::{Bits, PlainRow, Route};
use crate::simd::element::Convert;
use crate::simd::shared_heads::HeadFormat;
use crate::simd::{InstructionSet, LineKernels, MemoryKernel, Simd};

/// A kernel that rotates the pairs of a line, and of the tokens after it, from a given pair to the last.
pub(super) struct RotateLine<'l, R: Route, N = ()> {
    source: R::SourceLine<'l>,
    line: &'l Line<'l>,
    prologue: N,
}

impl<'l, R: Route, N> RotateLine<'l, R, N> {
    #[inline(always)]
    pub(super) fn new(source: R::SourceLine<'l>, line: &'l Line<'l>, prologue: N) -> Self {
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
            // Between unlike ends too: with one group rope-core has 6 % less code and builds in 6 % less CPU time, but
            // 2048 tokens of 32 heads take 1.14 to 1.97 times as long (Zen 5, AVX512-BF16).
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
