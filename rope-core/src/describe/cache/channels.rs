//! Codes with numbers by channel over a group of tokens: a call writes whole groups.
//!
//! The numbers of a channel depend on all tokens of its group. A group is therefore written in two passes, each of
//! which reads and rotates its tokens: the first one finds the bounds of the channels, the second one encodes. Both
//! compute the same bits. A tile of a group would take 64 KiB of the stack for 128 tokens of 128 channels; the numbers
//! take 26, for any head.
//!
//! A rotation in place reads the old codes in both passes. A head is therefore written in one piece, and its new
//! numbers are stored last.

use core::ops::Range;

use crate::base::error::saturated;
use crate::base::limits::MOST_CHANNELS;
use crate::error::SlotsError;
use crate::kernel::quantize::{self, ChannelKernels, GroupPlace, PIECE};
use crate::kernel::values::Values;
use crate::proof::Proof;
use crate::{Error, Shape};

/// Codes with numbers by channel, and the functions that write them. A reference, so that programs without such a cache
/// link none of them.
#[derive(Debug)]
pub(crate) struct ChannelFormat {
    pub(super) kernels: &'static ChannelKernels,
    /// Checks that tokens with slots are whole groups of slots, in order, by the tokens of a group, of all sequences,
    /// and of each.
    pub(super) check: fn([usize; 3], &dyn GroupSlots) -> Result<(), Error>,
    /// Writes the groups of a call; tokens may share slots if the last argument is true.
    pub(super) write: WriteGroups,
    /// Writes heads of a token, by the index of the first and their number: widens the bounds of their channels, or
    /// encodes them.
    pub(super) write_token: WriteToken,
}

type WriteGroups =
    fn((&'static ChannelKernels, Proof), &mut dyn GroupCall, [usize; 2], Shape, bool);

type WriteToken =
    fn(&ChannelKernels, &mut GroupNumbers, Proof, GroupHeads<'_>, [usize; 2], Values<'_>);

/// The slots of tokens.
pub(super) trait GroupSlots {
    /// Returns the slot of a token, or `None` if it is skipped.
    fn slot(&self, token: usize) -> Option<usize>;

    /// Returns the token after those that are skipped with a token.
    fn after_skipped(&self, token: usize) -> usize;
}

/// A call that writes groups.
pub(super) trait GroupCall {
    fn slots(&self) -> &dyn GroupSlots;

    /// Runs the call on the tokens of a group, from the first on. It may skip tokens that do not rotate if `skips` is
    /// set.
    fn run(&mut self, first: usize, skips: bool, numbers: &mut GroupNumbers);

    /// Returns the heads of the group with a slot.
    fn heads(&mut self, slot: usize) -> GroupHeads<'_>;
}

/// The heads of a group.
pub(super) struct GroupHeads<'m> {
    /// The memory from the first head on.
    pub(super) memory: &'m mut [u8],
    /// Bytes from one head to the next.
    pub(super) stride: usize,
    /// Bytes of a head.
    pub(super) bytes: usize,
    /// Channels of a head.
    pub(super) head_dim: usize,
    /// Tokens of the group.
    pub(super) tokens: usize,
    /// A token of the group.
    pub(super) token: usize,
}

const fn format(kernels: &'static ChannelKernels) -> ChannelFormat {
    ChannelFormat {
        kernels,
        check,
        write,
        write_token,
    }
}

pub(super) static U8_BY_CHANNEL: ChannelFormat = format(&quantize::U8_BY_CHANNEL);
pub(super) static U4_BY_CHANNEL: ChannelFormat = format(&quantize::U4_BY_CHANNEL);
pub(super) static KIVI_2: ChannelFormat = format(&quantize::KIVI_2);
pub(super) static KIVI_4: ChannelFormat = format(&quantize::KIVI_4);

/// The most values of a token whose numbers are found together: the longest head.
const VALUES: usize = MOST_CHANNELS;

/// Some channels of the group that a call writes.
pub(super) struct GroupNumbers {
    stage: Stage,
    /// The first value of a token, over all heads, and one past the last.
    first: usize,
    end: usize,
    /// The tokens that were seen.
    tokens: usize,
    /// The bounds of channels; then their factors and offsets.
    numbers: [[f32; VALUES]; 2],
    /// The scales.
    scales: [f32; VALUES],
    /// Bytes with codes of several tokens.
    bytes: [u8; VALUES],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Bounds,
    Codes,
}

impl ChannelFormat {
    /// Checks the tokens of a group.
    pub(super) fn check_tokens(&self, tokens: usize) -> Result<(), Error> {
        let [multiple, _] = self.kernels.multiples();
        let required = match multiple {
            1 => "at least 1",
            8 => "a multiple of 8, above zero",
            _ => "a multiple of 16, above zero",
        };
        match tokens > 0 && tokens.is_multiple_of(multiple) {
            true => Ok(()),
            false => Err(Error::parameter("tokens", tokens as f64, required)),
        }
    }
}

fn check([group, count, tokens]: [usize; 3], slots: &dyn GroupSlots) -> Result<(), Error> {
    let mut index = 0;
    while index < count {
        let Some(first) = slots.slot(index) else {
            index = slots.after_skipped(index);
            continue;
        };
        let most = group.min(tokens - index % tokens);
        let next = |&next: &usize| slots.slot(index + next) == Some(first + next);
        let found = 1 + (1..most).take_while(next).count();
        if found < group || !first.is_multiple_of(group) {
            return Err(Error::Slots(SlotsError::PartOfGroup {
                index: saturated(index),
                slot: first,
                found,
                tokens: group,
            }));
        }
        index += group;
    }
    Ok(())
}

fn write(
    kernels: (&'static ChannelKernels, Proof),
    call: &mut dyn GroupCall,
    [group, values]: [usize; 2],
    shape: Shape,
    repeats: bool,
) {
    let numbers = &mut GroupNumbers {
        stage: Stage::Bounds,
        first: 0,
        end: 0,
        tokens: 0,
        numbers: [[0.0; VALUES]; 2],
        scales: [0.0; VALUES],
        bytes: [0; VALUES],
    };
    // Whole heads. Those of a cache fit.
    let piece = VALUES - VALUES % shape.head_dim;
    let mut index = 0;
    while index < shape.batch.saturating_mul(shape.tokens) {
        let Some(slot) = call.slots().slot(index) else {
            index = call.slots().after_skipped(index);
            continue;
        };
        // In place, a group moves once.
        let is_earlier = |earlier| call.slots().slot(earlier) == Some(slot);
        if !(repeats && (0..index).any(is_earlier)) {
            for first in (0..values).step_by(piece) {
                (numbers.first, numbers.end) = (first, values.min(first + piece));
                if !write_channels(kernels, call, [group, index, slot], numbers) {
                    break;
                }
            }
        }
        index += group;
    }
}

/// Writes some channels of a group, by its number of tokens, its first token and its slot; returns false if no token
/// rotates.
fn write_channels(
    (kernels, proof): (&ChannelKernels, Proof),
    call: &mut dyn GroupCall,
    [group, index, slot]: [usize; 3],
    numbers: &mut GroupNumbers,
) -> bool {
    numbers.stage = Stage::Bounds;
    numbers.tokens = 0;
    for (bounds, none) in numbers.numbers.iter_mut().zip(kernels.no_bounds) {
        bounds.fill(none);
    }
    call.run(index, true, numbers);
    if numbers.tokens == 0 {
        return false;
    }
    if numbers.tokens < group {
        call.run(index, false, numbers);
    }
    let count = numbers.end - numbers.first;
    let [factors, offsets] = &mut numbers.numbers;
    let all = [factors, offsets, &mut numbers.scales].map(|all| &mut all[..count]);
    kernels.numbers(proof, all);
    numbers.stage = Stage::Codes;
    call.run(index, false, numbers);
    call.heads(slot).store(kernels, proof, numbers);
    true
}

fn write_token(
    kernels: &ChannelKernels,
    numbers: &mut GroupNumbers,
    proof: Proof,
    heads: GroupHeads<'_>,
    [first_head, count]: [usize; 2],
    values: Values<'_>,
) {
    let head_dim = heads.head_dim;
    for head in first_head..first_head + count {
        let start = head * head_dim;
        if (start..start + head_dim).contains(&numbers.first) {
            numbers.tokens += 1;
        }
        let all = overlap(numbers.first..numbers.end, start..start + head_dim);
        for first in all.clone().step_by(PIECE) {
            let end = all.end.min(first + PIECE);
            let begin = first_head * head_dim;
            let values = values.part(first - begin..end - begin);
            let channels = first - numbers.first..end - numbers.first;
            let [one, two] = &mut numbers.numbers;
            let [one, two] = [one, two].map(|all| &mut all[channels.clone()]);
            if numbers.stage == Stage::Bounds {
                (kernels.widen_bounds)(proof, values, [one, two]);
                continue;
            }
            let place = GroupPlace {
                tokens: heads.tokens,
                head_dim,
                token: heads.token,
                channel: first - start,
            };
            let memory = &mut heads.memory[head * heads.stride..][..heads.bytes];
            let bytes = &mut numbers.bytes[channels];
            kernels.encode(proof, values, [one, two], place, (memory, bytes));
        }
    }
}

fn overlap(a: Range<usize>, b: Range<usize>) -> Range<usize> {
    a.start.max(b.start)..a.end.min(b.end)
}

impl GroupHeads<'_> {
    /// Stores the numbers of some channels.
    fn store(self, kernels: &ChannelKernels, proof: Proof, numbers: &GroupNumbers) {
        let &GroupNumbers { first, end, .. } = numbers;
        let head_dim = self.head_dim;
        let mut value = first;
        while value < end {
            let (head, channel) = (value / head_dim, value % head_dim);
            let next = end.min(value + head_dim - channel);
            let memory = &mut self.memory[head * self.stride..][..self.bytes];
            let place = GroupPlace {
                tokens: self.tokens,
                head_dim,
                token: self.token,
                channel,
            };
            let [_, offsets] = &numbers.numbers;
            let of_head = [&numbers.scales, offsets].map(|all| &all[value - first..next - first]);
            kernels.store(proof, of_head, place, memory);
            value = next;
        }
    }
}
