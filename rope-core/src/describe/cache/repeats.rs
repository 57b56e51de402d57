//! Tokens that share a slot. A rotation in place moves the heads of a slot once: by the row of its first token, which
//! all its tokens must have.
//!
//! There may be no allocator, so the slots that were seen are bits on the stack. For `n` tokens:
//!
//! | slots | steps |
//! |---|---|
//! | ascending | `n` |
//! | at most 64 runs of consecutive slots | `n`, and 2016 comparisons of runs |
//! | any other | `n` per window of 131,072 slots that has any |
//!
//! A window in which slots repeat takes `n` more steps per 2048 slots of it that repeat.

use core::ops::Range;

use super::seen::SeenSlots;
use super::slots::{Found, SlotAddresses};
use crate::Error;
use crate::error::SlotsError;

/// Words of the slots that were seen.
const WORDS: usize = 2048;
/// Runs that are compared with each other.
const RUNS: usize = 64;

/// Consecutive slots of consecutive tokens.
#[derive(Clone, Copy)]
struct SlotRun {
    slot: usize,
    token: usize,
    len: usize,
}

impl SlotRun {
    fn end(&self) -> usize {
        self.slot + self.len
    }
}

/// The slots of all tokens, divided by what all distances between them are multiples of.
struct SlotKeys<'s, 'a> {
    slots: &'s SlotAddresses<'a>,
    least: usize,
    unit: usize,
}

impl SlotKeys<'_, '_> {
    fn get(&self, token: usize) -> Option<usize> {
        Some((key(self.slots, token)? - self.least) / self.unit)
    }
}

/// Returns the slot of a token, or its first element.
fn key(slots: &SlotAddresses<'_>, token: usize) -> Option<usize> {
    Some(match slots.found(token)? {
        Found::Slot(slot) | Found::Element(slot) => slot,
    })
}

impl SlotAddresses<'_> {
    /// Returns true if tokens share slots. Refuses those whose rows differ.
    pub(super) fn repeats(&self, is_same: &dyn Fn(usize, usize) -> bool) -> Result<bool, Error> {
        let mut last = None;
        let ascends = (0..self.tokens).all(|token| match key(self, token) {
            None => true,
            slot => {
                let above = slot > last;
                last = slot;
                above
            }
        });
        match ascends {
            true => Ok(false),
            false => self.repeats_anywhere(&|slot, first, second| match is_same(first, second) {
                true => Ok(()),
                false => Err(Error::Slots(SlotsError::Repeated {
                    slot,
                    first,
                    second,
                })),
            }),
        }
    }

    #[inline(never)]
    fn repeats_anywhere(
        &self,
        check: &dyn Fn(usize, usize, usize) -> Result<(), Error>,
    ) -> Result<bool, Error> {
        let none = SlotRun {
            slot: 0,
            token: 0,
            len: 0,
        };
        let (mut runs, mut count) = ([none; RUNS], 0);
        for token in 0..self.tokens {
            let Some(slot) = key(self, token) else {
                continue;
            };
            if let Some(run) = runs[..count].last_mut()
                && (slot, token) == (run.end(), run.token + run.len)
            {
                run.len += 1;
                continue;
            }
            if count == RUNS {
                return self.repeats_in_windows(check);
            }
            runs[count] = SlotRun {
                slot,
                token,
                len: 1,
            };
            count += 1;
        }
        let mut repeats = false;
        for (index, second) in runs[..count].iter().enumerate() {
            for first in &runs[..index] {
                for slot in first.slot.max(second.slot)..first.end().min(second.end()) {
                    let [one, other] = [first, second].map(|run| run.token + slot - run.slot);
                    check(slot, one, other)?;
                    repeats = true;
                }
            }
        }
        Ok(repeats)
    }

    #[inline(never)]
    fn repeats_in_windows(
        &self,
        check: &dyn Fn(usize, usize, usize) -> Result<(), Error>,
    ) -> Result<bool, Error> {
        let keys = self.keys();
        let mut repeats = false;
        let refused = SeenSlots::<WORDS>::each_window(|seen| {
            // One bit per 2048 slots of the window.
            let mut again = 0_u64;
            for slot in (0..self.tokens).filter_map(|token| keys.get(token)) {
                if seen.see(slot) == Some(true) {
                    again |= 1 << ((slot - seen.first) / WORDS);
                }
            }
            repeats |= again != 0;
            for part in (0..64).filter(|part| again >> part & 1 == 1) {
                // The words become the first token of each slot, counted from 1.
                let (first, tokens) = (seen.first + part * WORDS, &mut seen.words);
                tokens.fill(0);
                for token in 0..self.tokens {
                    let at = keys.get(token).and_then(|slot| slot.checked_sub(first));
                    match at.and_then(|at| tokens.get_mut(at)) {
                        Some(empty @ 0) => *empty = token as u64 + 1,
                        Some(earlier) => {
                            let slot = key(self, token).unwrap_or_default();
                            let checked = check(slot, *earlier as usize - 1, token);
                            if let Err(error) = checked {
                                return Some(error);
                            }
                        }
                        None => {}
                    }
                }
            }
            None
        });
        refused.map_or(Ok(repeats), Err)
    }

    /// Visits ranges of tokens, in which each slot occurs once in all.
    pub(crate) fn each_once(&self, visit: &mut dyn FnMut(Range<usize>)) {
        let keys = self.keys();
        SeenSlots::<WORDS>::each_window(|seen| {
            let mut range = 0..0;
            for token in 0..self.tokens {
                if keys.get(token).and_then(|slot| seen.see(slot)) != Some(false) {
                    continue;
                }
                if token != range.end || range.is_empty() {
                    if !range.is_empty() {
                        visit(range);
                    }
                    range = token..token;
                }
                range.end = token + 1;
            }
            if !range.is_empty() {
                visit(range);
            }
            None::<()>
        });
    }

    /// Returns the slots relative to the least one, in the largest unit.
    fn keys(&self) -> SlotKeys<'_, '_> {
        let slots = || (0..self.tokens).filter_map(|token| key(self, token));
        let least = slots().min().unwrap_or(0);
        let unit = slots().fold(0, |unit, slot| match unit {
            1 => 1,
            unit => divisor(slot - least, unit),
        });
        SlotKeys {
            slots: self,
            least,
            unit: unit.max(1),
        }
    }
}

/// Returns the greatest common divisor.
fn divisor(mut a: usize, mut b: usize) -> usize {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
