//! Moves of slots within one cache, without an allocator: in the order of the lists or in its reverse, whichever reads
//! every slot before it is written.

use super::channels::GroupSlots;
use super::seen::SeenSlots;
use super::slots::Found;
use super::{CacheMut, IntoSlots, ScalePlace, SlotAddresses, Slots, Stored};
use crate::Error;
use crate::error::SlotsError;

/// The order in which moves run.
#[derive(Clone, Copy)]
enum MoveOrder {
    Given,
    Reverse,
}

/// Checked moves.
struct SlotMoves<'m> {
    stored: Stored<'m>,
    from: SlotAddresses<'m>,
    to: SlotAddresses<'m>,
    count: usize,
}

/// The slots that moves read, or those that they write.
#[derive(Clone, Copy)]
enum MoveEnd {
    From,
    To,
}

impl GroupSlots for (&SlotMoves<'_>, MoveEnd) {
    fn slot(&self, index: usize) -> Option<usize> {
        let (moves, end) = *self;
        Some(moves.at(index)?[end as usize])
    }

    fn after_skipped(&self, index: usize) -> usize {
        let (from, to) = (&self.0.from, &self.0.to);
        match (from.slot(index), to.slot(index)) {
            (None, _) => from.after_skipped(index),
            _ => to.after_skipped(index),
        }
    }
}

/// Words of the slots that were seen.
const WORDS: usize = 256;

impl CacheMut<'_> {
    /// Moves heads within the cache: copies slot `from[i]` to slot `to[i]`, as bits with their scales, as if all slots
    /// were read before the first is written. Slots in `from` alone keep their heads.
    ///
    /// The branch of a draft that was accepted moves to the slots after its prefix, and the tokens that stay after a
    /// drop close the gap. Keys whose positions change also rotate, by [`Rope::rotate`](crate::Rope::rotate) of the
    /// slots `to` ([`Frequencies::shift`](crate::Frequencies::shift)); values only move.
    ///
    /// ```
    /// use rope_core::cache::{CacheLayout, CacheMut};
    ///
    /// // Slots of one head of two channels. The tokens in slots 1 and 2 were dropped; two follow.
    /// let mut memory = [0.0_f32, 0.1, 1.0, 1.1, 2.0, 2.1, 3.0, 3.1, 4.0, 4.1];
    /// let mut values = CacheMut::new(&mut memory, CacheLayout::nhd([1, 5, 1, 2])?)?;
    /// values.move_slots(3..5, 1..3)?;
    /// assert_eq!(memory[..6], [0.0, 0.1, 3.0, 3.1, 4.0, 4.1]);
    /// # Ok::<(), rope_core::Error>(())
    /// ```
    ///
    /// The moves run in the order of the lists or in its reverse, so nothing is allocated. One of the two fits every
    /// list that keeps the order of its tokens, in any pages. Moves that neither order fits are refused: cycles, as an
    /// exchange of two slots, and lists of which one part moves forward and another backward over each other.
    ///
    /// A move with a negative slot, or at a negative position of a page table, is skipped.
    ///
    /// # Errors
    ///
    /// [`SlotsError::Count`] unless the two lists have one length; [`SlotsError::SameTarget`] if two moves write one
    /// slot; [`SlotsError::MoveOrder`] if neither order reads each slot before it is written;
    /// [`SlotsError::PartOfGroup`] for a part of a group of slots that share scales by channel;
    /// [`CacheError::Layout`](crate::error::CacheError::Layout) for [`Slots::offsets`]; the errors of
    /// [`Rope::rotate_into`](crate::Rope::rotate_into) about slots that the cache does not have. The cache is untouched
    /// then.
    pub fn move_slots<'s>(
        &mut self,
        from: impl IntoSlots<'s>,
        to: impl IntoSlots<'s>,
    ) -> Result<(), Error> {
        let (from, to) = (from.into(), to.into());
        let moves = SlotMoves::new(self, &from, &to)?;
        if self.stored.layout.shape.is_empty() {
            return Ok(());
        }
        let order = moves.order()?;
        for (_, [from, to]) in moves.in_order(order) {
            if from != to && moves.stored.is_first(from) {
                moves.copy(self.memory, &mut self.scales, [from, to]);
            }
        }
        Ok(())
    }
}

impl<'m> SlotMoves<'m> {
    /// Checks that the cache has all slots.
    fn new(cache: &CacheMut<'m>, from: &'m Slots<'m>, to: &'m Slots<'m>) -> Result<Self, Error> {
        let (stored, count) = (cache.stored, from.len());
        let len = cache.memory.len() / stored.size();
        let by_slot = Some("addressed by slots, not by Slots::offsets, to move heads between them");
        for slots in [from, to] {
            slots.check(stored.shape(count), &stored.layout, len, by_slot)?;
        }
        let of = |slots| SlotAddresses {
            slots,
            layout: stored.layout,
            scales: stored.scales(),
            len,
            tokens: count,
            first: 0,
            memory: super::SlotRange::WHOLE,
        };
        let moves = SlotMoves {
            stored,
            from: of(from),
            to: of(to),
            count,
        };
        if let Some((format, tokens)) = stored.channels()
            && !stored.layout.shape.is_empty()
        {
            for end in [MoveEnd::From, MoveEnd::To] {
                (format.check)([tokens, count, count], &(&moves, end))?;
            }
        }
        Ok(moves)
    }

    /// Returns the slots that move `index` reads and writes, or `None` if it is skipped.
    fn at(&self, index: usize) -> Option<[usize; 2]> {
        match (self.from.found(index)?, self.to.found(index)?) {
            (Found::Slot(from), Found::Slot(to)) => Some([from, to]),
            _ => None,
        }
    }

    /// Iterates over the moves in an order: the index and the slots of each.
    fn in_order(&self, order: MoveOrder) -> impl Iterator<Item = (usize, [usize; 2])> {
        let mut rest = 0..self.count;
        core::iter::from_fn(move || {
            while !rest.is_empty() {
                let index = match order {
                    MoveOrder::Given => rest.start,
                    MoveOrder::Reverse => rest.end - 1,
                };
                let found = self.at(index);
                let skipped = |list: &SlotAddresses<'_>| match found {
                    Some(_) => index..index + 1,
                    None => list.slots.skipped_around(index),
                };
                let (from, to) = (skipped(&self.from), skipped(&self.to));
                match order {
                    MoveOrder::Given => rest.start = from.end.max(to.end),
                    MoveOrder::Reverse => rest.end = from.start.min(to.start),
                }
                if let Some(slots) = found {
                    return Some((index, slots));
                }
            }
            None
        })
    }

    /// Returns an order in which each slot is read before it is written.
    fn order(&self) -> Result<MoveOrder, Error> {
        let wrote = |slot: usize| {
            let mut moves = self.in_order(MoveOrder::Given);
            moves.find_map(|(index, [_, to])| (to == slot).then_some(index))
        };
        if let Some((second, slot)) = self.seen(MoveOrder::Given, |seen, [_, to]| {
            (seen.see(to) == Some(true)).then_some(to)
        }) {
            let first = wrote(slot).unwrap_or(0);
            return Err(Error::Slots(SlotsError::SameTarget {
                slot,
                first,
                second,
            }));
        }
        let too_late = |seen: &mut SeenSlots<WORDS>, [from, to]: [usize; 2]| {
            if from == to {
                return None;
            }
            let late = seen.has_seen(from).then_some(from);
            seen.see(to);
            late
        };
        let Some((read, slot)) = self.seen(MoveOrder::Given, too_late) else {
            return Ok(MoveOrder::Given);
        };
        match self.seen(MoveOrder::Reverse, too_late) {
            None => Ok(MoveOrder::Reverse),
            Some(_) => Err(Error::Slots(SlotsError::MoveOrder {
                slot,
                read,
                written: wrote(slot).unwrap_or(0),
            })),
        }
    }

    /// Visits the moves in an order, once for each window of the slots that they write; returns the first slot that
    /// `visit` returns, and the index of its move.
    fn seen(
        &self,
        order: MoveOrder,
        visit: impl Fn(&mut SeenSlots<WORDS>, [usize; 2]) -> Option<usize>,
    ) -> Option<(usize, usize)> {
        SeenSlots::each_window(|seen| {
            let mut moves = self.in_order(order);
            moves.find_map(|(index, slots)| Some((index, visit(seen, slots)?)))
        })
    }

    /// Copies the heads of a slot to another one, with their scales.
    fn copy(&self, memory: &mut [u8], scales: &mut [&mut [u8]; 2], slots: [usize; 2]) {
        let (layout, size) = (&self.stored.layout, self.stored.size());
        let (shape, strides) = (layout.shape, layout.strides);
        let mut copy = |[from, to]: [usize; 2], len: usize| {
            memory.copy_within(from * size..(from + len) * size, to * size);
        };
        let first = slots.map(|slot| layout.slot(slot));
        if layout.contiguous() && strides.head == shape.head_dim {
            copy(first, shape.heads * shape.head_dim);
        } else {
            for head in 0..shape.heads {
                for channel in (0..shape.head_dim).step_by(strides.chunk) {
                    let chunk =
                        head * strides.head + channel / strides.chunk * strides.chunk_stride;
                    let channels = strides.chunk.min(shape.head_dim - channel);
                    let (copies, each) = match strides.channel {
                        1 => (1, channels),
                        _ => (channels, 1),
                    };
                    for place in 0..copies {
                        copy(
                            first.map(|first| first + chunk + place * strides.channel),
                            each,
                        );
                    }
                }
            }
        }
        match self.stored.computed_scales() {
            None => {}
            Some(ScalePlace::Inline(behind)) => {
                for head in 0..shape.heads {
                    let first = first.map(|first| first + head * strides.head + behind);
                    copy(first, self.stored.scale_bytes());
                }
            }
            Some(ScalePlace::InBlock { first, strides }) => {
                for head in 0..shape.heads {
                    let scale = |slot| first + layout.scale(strides, slot) + head * strides.head;
                    copy(slots.map(scale), self.stored.scale_bytes());
                }
            }
            Some(ScalePlace::Separate(place)) => {
                let (unit, bytes) = (self.stored.unit(), self.stored.scale_bytes());
                for head in 0..shape.heads {
                    let [from, to] =
                        slots.map(|slot| (layout.scale(place, slot) + head * place.head) * unit);
                    for scales in &mut scales[..1 + usize::from(self.stored.is_pair)] {
                        scales.copy_within(from..from + bytes, to);
                    }
                }
            }
        }
    }
}
