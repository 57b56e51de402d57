//! Calls on caches with numbers by channel: the slots of a call in groups, and the heads of each group.

use super::channels::{ChannelFormat, GroupCall, GroupHeads, GroupNumbers, GroupSlots};
use super::slots::SlotAddresses;
use super::{Codes, Format, SlotsTarget, Stored};
use crate::Shape;
use crate::proof::Proof;

/// Runs a call on some tokens: the first and their number, and true if it may skip tokens that do not rotate.
type RunOnGroup<'r> = dyn FnMut([usize; 2], bool, &mut SlotsTarget<'_>) + 'r;

/// A call that writes groups of slots.
struct SlotsCall<'c, 't, 'r> {
    target: &'c mut SlotsTarget<'t>,
    slots: SlotAddresses<'t>,
    tokens: usize,
    run: &'c mut RunOnGroup<'r>,
}

impl GroupCall for SlotsCall<'_, '_, '_> {
    fn slots(&self) -> &dyn GroupSlots {
        &self.slots
    }

    fn run(&mut self, first: usize, skips: bool, numbers: &mut GroupNumbers) {
        let target = &mut SlotsTarget {
            memory: self.target.memory,
            scales: super::reborrowed(&mut self.target.scales),
            numbers: Some(numbers),
            range: self.target.range,
            stored: self.target.stored,
            slots: self.target.slots,
            len: self.target.len,
        };
        (self.run)([first, self.tokens], skips, target);
    }

    fn heads(&mut self, slot: usize) -> GroupHeads<'_> {
        let stored = self.target.stored;
        let at = stored.layout.slot(slot) - self.target.range.element;
        let extent = stored.layout.head_extent();
        GroupHeads {
            memory: &mut self.target.memory[at..][..extent],
            ..stored.group_heads(stored.head_dim(), self.tokens)
        }
    }
}

impl Stored<'_> {
    /// Returns the format of numbers by channel, and the tokens of a group.
    #[inline]
    pub(crate) fn channels(&self) -> Option<(&'static ChannelFormat, usize)> {
        match self.format {
            Format::Codes(Codes::Channels(format, tokens)) => Some((format, tokens)),
            _ => None,
        }
    }

    /// Returns true if a slot is the first of those with its address.
    pub(super) fn is_first(&self, slot: usize) -> bool {
        self.channels()
            .is_none_or(|(_, tokens)| slot.is_multiple_of(tokens))
    }

    /// Returns the heads of a group, without their memory.
    pub(super) fn group_heads<'m>(&self, head_dim: usize, tokens: usize) -> GroupHeads<'m> {
        GroupHeads {
            memory: &mut [],
            stride: self.layout.strides.head,
            bytes: self.layout.shape.head_dim,
            head_dim,
            tokens,
        }
    }
}

impl SlotsTarget<'_> {
    /// Runs a call on one group after another, if the cache has numbers by channel.
    pub(crate) fn write_groups(
        &mut self,
        proof: Proof,
        shape: Shape,
        repeats: bool,
        run: &mut RunOnGroup<'_>,
    ) {
        let Some((format, tokens)) = self.stored.channels().filter(|_| !shape.is_empty()) else {
            return;
        };
        let call = &mut SlotsCall {
            slots: self.in_slots(shape.tokens),
            target: self,
            tokens,
            run,
        };
        (format.write)((format.kernels, proof), call, tokens, shape, repeats);
    }
}
