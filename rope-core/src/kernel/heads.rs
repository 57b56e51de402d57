//! The heads of a line as elements of a route: their places, their groups, and the stages on a group in registers.

use core::hint::cold_path;

use bytemuck::{cast_slice, cast_slice_mut};

use super::line::{Line, LineRows};
use super::pairs::PairLayout;
use super::prologue::Prologue;
use super::rotation::{AngleVectors, ConstOrder, RowFactors, deinterleave, interleave};
use super::route::{Bits, GroupsMut, Route};
use super::source::prefetch;
use crate::simd::Simd;
use crate::simd::element::Convert;
use crate::simd::shared_heads::SharedHeads;

/// A head of a line: its index and its start. Starts are added up from head to head. With a multiplication, the factor
/// is loaded from the stack and waits there for the stores of the previous heads (39 ns instead of 35, for 8 heads of
/// f32 on Zen 4).
#[derive(Clone, Copy)]
pub(super) struct Head {
    pub(super) index: usize,
    /// In the source, if there is one, and in the target.
    starts: [usize; 2],
}

impl Head {
    pub(super) const FIRST: Self = Head {
        index: 0,
        starts: [0; 2],
    };
}

/// The heads of a line as elements.
pub(super) struct Heads<'s, 'h, R: Route> {
    pub(super) source: R::Heads<'s>,
    before: &'h [u8],
    pub(super) elements: &'h mut [Bits<R::O>],
    pub(super) step: usize,
    pub(super) len: usize,
    head_dim: usize,
    pub(super) ahead: usize,
    /// True if heads are farther apart than tokens, as in a heads-major tensor. No CPU's prefetcher follows them all.
    pub(super) are_far_apart: bool,
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
    pub(super) fn of_token(&mut self, place: usize) -> Heads<'s, '_, R> {
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
    pub(super) fn next(&self, head: Head) -> Head {
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
    pub(super) fn shared<'c>(
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
