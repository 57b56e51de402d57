//! The heads that a kernel only reads, as elements, and their prefetch.

use core::hint::black_box;

use bytemuck::{Pod, cast_slice};

use super::line::SourceLine;
use crate::simd::Simd;
use crate::simd::element::Convert;

/// The heads of a source as elements.
pub(super) struct SourceHeads<'h, E: Convert> {
    before: &'h [E::Bits],
    /// From the first head on: saves one addition per head.
    pub(super) elements: &'h [E::Bits],
    pub(super) step: usize,
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

    /// Returns the heads after the first.
    #[inline(always)]
    pub(super) fn next(self) -> Self {
        let rest = self.elements.get(self.step..);
        SourceHeads {
            elements: rest.expect("all heads are inside"),
            ..self
        }
    }

    /// Prefetches the head `ahead` of head `index`. The step of a single head may be any number.
    #[inline(always)]
    pub(super) fn prefetch<S: Simd>(self, s: S, index: usize, head_dim: usize, back: bool) {
        self.prefetch_from(s, index.wrapping_mul(self.step), head_dim, back);
    }

    /// Prefetches for the head at `start`.
    #[inline(always)]
    pub(super) fn prefetch_from<S: Simd>(self, s: S, start: usize, head_dim: usize, back: bool) {
        let before = if back { self.before } else { &[] };
        let start = start.wrapping_add(self.ahead);
        prefetch(s, [before, self.elements], start, head_dim);
    }
}

/// Prefetches the cache lines of some elements, clipped to memory. They begin at an index of the second slice, or, if
/// it wraps, in the first slice, which lies before it. A loop of few instructions, because every head pays for it, even
/// if the caches hold everything.
#[inline(always)]
pub(super) fn prefetch<S: Simd, T: Pod>(
    s: S,
    [before, elements]: [&[T]; 2],
    start: usize,
    len: usize,
) {
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
