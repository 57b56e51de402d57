//! Splits a cache into parts that share no memory, for threads that write at the same time.

use alloc::vec::Vec;
use core::ops::Range;

use super::slots::Found;
use super::{CacheShape, ScalePlace, SlotRange, SlotsTarget};
use crate::describe::cache::CacheLayout;

/// A part of a cache, and the range from the first to the last of its tokens.
pub(crate) type PartOfCache<'t> = (SlotsTarget<'t>, Range<usize>);

impl<'t> SlotsTarget<'t> {
    /// Cuts the cache into at most `parts` parts with about equally many of `tokens` tokens. Cuts lie between blocks,
    /// or between the slots of a cache with one block, or its groups of slots with numbers by channel. Tokens with the
    /// same slot therefore stay together, in order. A cache whose blocks interleave, and tokens addressed by element,
    /// give one part.
    pub(crate) fn cut(self, parts: usize, tokens: usize) -> Vec<PartOfCache<'t>> {
        let Some(unit) = self.slots_of_a_unit() else {
            return Vec::from([(self, 0..tokens)]);
        };
        let in_slots = self.in_slots(tokens);
        let mut found = Vec::with_capacity(tokens);
        for token in 0..tokens {
            match in_slots.found(token) {
                None => {}
                Some(Found::Slot(slot)) => found.push((slot / unit, token)),
                Some(Found::Element(_)) => return Vec::from([(self, 0..tokens)]),
            }
        }
        // Each part visits its tokens in their order.
        found.sort_unstable();
        let (mut cut, mut rest) = (Vec::with_capacity(parts), self);
        let mut begin = 0;
        for part in 1..=parts {
            let mut end = found.len() * part / parts;
            while end > begin && end < found.len() && found[end].0 == found[end - 1].0 {
                end += 1;
            }
            if end <= begin {
                continue;
            }
            let tokens = found[begin..end].iter().map(|&(_, token)| token);
            let tokens = tokens.clone().min().unwrap_or(0)..tokens.max().map_or(0, |last| last + 1);
            begin = end;
            let Some(&(next, _)) = found.get(end) else {
                cut.push((rest, tokens));
                break;
            };
            let first;
            (first, rest) = rest.split_at(next * unit);
            cut.push((first, tokens));
        }
        cut
    }

    /// Returns the number of slots between two possible cuts: a block, or in a cache with one block a slot, or a group
    /// of slots with numbers by channel. `None` if the memory of neighbors interleaves.
    fn slots_of_a_unit(&self) -> Option<usize> {
        let CacheLayout { shape, strides, .. } = self.stored.layout;
        let separate = self.stored.separate_scales();
        let layout = match self.stored.computed_scales() {
            Some(ScalePlace::Inline(behind)) => {
                let bytes = self.stored.scale_bytes();
                self.stored.layout.with_scale(behind, bytes).ok()?
            }
            _ => self.stored.layout,
        };
        let extent = |blocks, block_size| {
            let shape = CacheShape {
                blocks,
                block_size,
                ..layout.shape
            };
            CacheLayout { shape, ..layout }.end() - layout.offset
        };
        let last = |extent: usize, stride: usize| extent.saturating_sub(1).saturating_mul(stride);
        // The scales of a head are side by side.
        let count = self.stored.scale_bytes() / self.stored.unit().max(1);
        let heads = |head| last(shape.heads, head).saturating_add(count.saturating_sub(1));
        if let Some(ScalePlace::InBlock { first, strides: it }) = self.stored.computed_scales() {
            // All bytes of a block must be between its first code and that of the next block.
            let bytes = last(shape.block_size, it.token)
                .saturating_add(last(shape.heads, it.head))
                .saturating_add(self.stored.scale_bytes());
            let ends = |begin: usize| begin.saturating_add(bytes) <= strides.block;
            let inside = first.checked_sub(layout.offset).is_some_and(ends);
            let apart = strides.block >= extent(1, shape.block_size) && it.block == strides.block;
            return (shape.blocks > 1 && inside && apart).then_some(shape.block_size);
        }
        if shape.blocks > 1 {
            let apart = |it: super::ScaleLayout| {
                it.block > last(shape.block_size, it.token).saturating_add(heads(it.head))
            };
            let apart = strides.block >= extent(1, shape.block_size) && separate.is_none_or(apart);
            return apart.then_some(shape.block_size);
        }
        if let Some((_, tokens)) = self.stored.channels() {
            return (strides.group_stride >= extent(1, tokens)).then_some(tokens);
        }
        let grouped = strides.group < shape.block_size;
        let apart = |it: super::ScaleLayout| it.token > heads(it.head);
        let apart = strides.token >= extent(1, 1) && separate.is_none_or(apart);
        (apart && !grouped).then_some(1)
    }

    /// Splits into the slots before `slot`, and the slots from `slot` on.
    fn split_at(self, slot: usize) -> (Self, Self) {
        let before = self.range;
        let layout = &self.stored.layout;
        let start = layout.slot(slot);
        let bytes = (start - before.element) * self.stored.size();
        let separate = self.stored.separate_scales();
        let scale_start = match (separate, self.stored.scales()) {
            (Some(scales), _) => layout.scale(scales, slot),
            // The place of a slot in its group.
            (None, Some(_)) if self.stored.channels().is_some() => 0,
            (None, Some(_)) => start,
            (None, None) => 0,
        };
        let scales_before = match separate {
            Some(_) => scale_start.saturating_sub(before.scale) * self.stored.unit(),
            None => 0,
        };
        let (memory, rest_memory) = self.memory.split_at_mut(bytes);
        let [scales, zeros] = self.scales;
        let (scales, rest_scales) = scales.split_at_mut(scales_before);
        let zeros_before = match self.stored.is_pair {
            true => scales_before,
            false => 0,
        };
        let (zeros, rest_zeros) = zeros.split_at_mut(zeros_before);
        let range = SlotRange {
            count: slot - before.first,
            ..before
        };
        let rest_range = SlotRange {
            first: slot,
            count: usize::MAX - slot,
            element: start,
            scale: scale_start,
        };
        (
            SlotsTarget {
                memory,
                scales: [scales, zeros],
                range,
                numbers: None,
                ..self
            },
            SlotsTarget {
                memory: rest_memory,
                scales: [rest_scales, rest_zeros],
                range: rest_range,
                numbers: None,
                ..self
            },
        )
    }
}
