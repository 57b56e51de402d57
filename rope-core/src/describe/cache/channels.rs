//! Codes with numbers by channel over a group of tokens: a call writes whole groups.
//!
//! The numbers of a channel depend on all tokens of its group. A group is therefore written in two stages: the first
//! one finds the bounds of the channels, the second one encodes. Both process the rotated values of some tokens at a
//! time, kept in 66 KiB of the stack. A group that fits is rotated once: 32 tokens of 8 heads of 128 channels of 16
//! bits. Any other is rotated again for its codes, with the same bits. The numbers take 24 KiB, for 2048 channels.
//!
//! A rotation in place reads the old codes in both passes. The new numbers of a head are therefore stored last, and a
//! head is written in one piece: its other channels would be rotated with the new codes.

use core::ops::Range;

use crate::base::error::saturated;
use crate::base::limits::MOST_CHANNELS;
use crate::error::SlotsError;
use crate::kernel::elements::ElementType;
use crate::kernel::quantize::{
    self, ChannelKernels, ChannelNumbers, GroupPlace, TOKEN_STEP, TokenValues,
};
use crate::kernel::values::Values;
use crate::proof::Proof;
use crate::simd::scratch::Scratch;
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
    /// Keeps heads of a token, by the index of the first and their number, after widening the bounds by earlier ones,
    /// or encoding these, if there is no room.
    pub(super) write_token: WriteToken,
}

type WriteGroups = fn((&ChannelKernels, Proof), &mut dyn GroupCall, usize, Shape, bool);
type WriteToken =
    fn(&ChannelKernels, &mut GroupNumbers, Proof, &mut GroupHeads<'_>, [usize; 2], Values<'_>);

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

/// Bytes of the rotated values that are kept.
const KEPT: usize = 66 << 10;

/// Some heads of the group that a call writes. The numbers come first, aligned to cache lines: a vector across two
/// lines costs twice as much.
#[repr(C, align(64))]
pub(super) struct GroupNumbers {
    /// [`ChannelNumbers`].
    factors: [f32; VALUES],
    offsets: [f32; VALUES],
    words: [u32; VALUES],
    /// The rotated values of the last tokens, and their number.
    kept: Scratch<KEPT>,
    kept_tokens: usize,
    element: ElementType,
    stage: Stage,
    /// Channels of a head. Computing them from the bytes of a head takes two divisions.
    pub(super) head_dim: usize,
    /// The first head, and one past the last.
    first: usize,
    end: usize,
    /// The tokens that were seen.
    tokens: usize,
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
    on: (&ChannelKernels, Proof),
    call: &mut dyn GroupCall,
    group: usize,
    shape: Shape,
    repeats: bool,
) {
    let numbers = &mut GroupNumbers {
        stage: Stage::Bounds,
        head_dim: 0,
        first: 0,
        end: 0,
        tokens: 0,
        factors: [0.0; VALUES],
        offsets: [0.0; VALUES],
        words: [0; VALUES],
        kept: Scratch::new(),
        kept_tokens: 0,
        element: ElementType::F32,
    };
    let heads = VALUES / shape.head_dim.max(1);
    let mut index = 0;
    while index < shape.batch.saturating_mul(shape.tokens) {
        let Some(slot) = call.slots().slot(index) else {
            index = call.slots().after_skipped(index);
            continue;
        };
        // In place, a group moves once.
        let is_earlier = |earlier| call.slots().slot(earlier) == Some(slot);
        if !(repeats && (0..index).any(is_earlier)) {
            for first in (0..shape.heads).step_by(heads) {
                (numbers.first, numbers.end) = (first, shape.heads.min(first + heads));
                if !write_heads(on, call, [group, index, slot], numbers) {
                    break;
                }
            }
        }
        index += group;
    }
}

/// Writes some heads of a group, by its number of tokens, its first token and its slot; returns false if no token
/// rotates.
fn write_heads(
    (kernels, proof): (&ChannelKernels, Proof),
    call: &mut dyn GroupCall,
    [group, index, slot]: [usize; 3],
    numbers: &mut GroupNumbers,
) -> bool {
    let [lower, upper] = kernels.no_bounds;
    let head_dim = call.heads(slot).head_dim;
    numbers.head_dim = head_dim;
    let all = 0..(numbers.end - numbers.first) * head_dim;
    numbers.factors[all.clone()].fill(lower);
    numbers.offsets[all.clone()].fill(upper);
    numbers.start(Stage::Bounds);
    call.run(index, true, numbers);
    if numbers.tokens == 0 {
        return false;
    }
    if numbers.tokens < group {
        numbers.start(Stage::Bounds);
        call.run(index, false, numbers);
    }
    numbers.process_kept(kernels, proof, &mut call.heads(slot));
    kernels.numbers(proof, numbers.part(all));
    if numbers.kept_tokens < group {
        numbers.start(Stage::Codes);
        call.run(index, false, numbers);
    }
    numbers.stage = Stage::Codes;
    let heads = &mut call.heads(slot);
    numbers.process_kept(kernels, proof, heads);
    for head in numbers.first..numbers.end {
        let start = (head - numbers.first) * head_dim;
        let memory = &mut heads.memory[head * heads.stride..][..heads.bytes];
        kernels.store(proof, numbers.part(start..start + head_dim), memory);
    }
    true
}

fn write_token(
    kernels: &ChannelKernels,
    numbers: &mut GroupNumbers,
    proof: Proof,
    heads: &mut GroupHeads<'_>,
    [first_head, count]: [usize; 2],
    values: Values<'_>,
) {
    let head_dim = heads.head_dim;
    let first = first_head.max(numbers.first);
    let end = (first_head + count).min(numbers.end);
    if first >= end {
        return;
    }
    let values = values.part((first - first_head) * head_dim..(end - first_head) * head_dim);
    let (element, bytes) = values.bytes();
    let token_bytes = numbers.step() * element.size();
    if first == numbers.first {
        if (numbers.kept_tokens + 1) * token_bytes > KEPT {
            numbers.process_kept(kernels, proof, heads);
            numbers.forget();
        }
        numbers.element = element;
        numbers.kept_tokens += 1;
        numbers.tokens += 1;
    }
    let start = (first - numbers.first) * head_dim * element.size();
    let start = (numbers.kept_tokens - 1) * token_bytes + start;
    numbers.kept.write(start, bytes);
}

impl GroupNumbers {
    /// Starts a stage.
    fn start(&mut self, stage: Stage) {
        self.stage = stage;
        self.tokens = 0;
        self.forget();
    }

    /// Forgets the kept tokens.
    fn forget(&mut self) {
        self.kept_tokens = 0;
        self.kept.clear();
    }

    /// Returns the values from one kept token to the next. At a distance of a power of two they would share few sets of
    /// the first-level cache.
    fn step(&self) -> usize {
        let values = (self.end - self.first) * self.head_dim;
        values.next_multiple_of(TOKEN_STEP) + TOKEN_STEP
    }

    /// Widens the bounds by the kept tokens, or encodes these.
    fn process_kept(&mut self, kernels: &ChannelKernels, proof: Proof, heads: &mut GroupHeads<'_>) {
        let step = self.step();
        let values = TokenValues {
            values: Values::of(self.element, self.kept.written()),
            tokens: self.kept_tokens,
            step,
        };
        let channels = 0..(self.end - self.first) * self.head_dim;
        let numbers = ChannelNumbers {
            factors: &mut self.factors[channels.clone()],
            offsets: &mut self.offsets[channels.clone()],
            words: &mut self.words[channels],
        };
        match self.stage {
            Stage::Bounds => {
                (kernels.widen_bounds)(proof, values, [numbers.factors, numbers.offsets]);
            }
            Stage::Codes => {
                let place = GroupPlace {
                    tokens: heads.tokens,
                    head_dim: self.head_dim,
                    token: self.tokens - self.kept_tokens,
                };
                let memory = &mut heads.memory[self.first * heads.stride..];
                kernels.encode(proof, values, numbers, place, (memory, heads.stride));
            }
        }
    }

    /// Returns the numbers of some channels, counted from the first head.
    fn part(&mut self, channels: Range<usize>) -> ChannelNumbers<'_> {
        ChannelNumbers {
            factors: &mut self.factors[channels.clone()],
            offsets: &mut self.offsets[channels.clone()],
            words: &mut self.words[channels],
        }
    }
}
