//! Moves of slots within a cache: every slot of every layout and format, against copies one by one; and the moves that
//! no order fits.

use half::{bf16, f16};
use rope_core::cache::{CacheLayout, CacheMut, Slots};
use rope_core::error::{CacheError, SlotsError};
use rope_core::{Error, Frequencies, Pairing, Positions, Rope, Scaling as Scalings};
use rope_tests::cache::{Coded, Elements, Found, Kept};
#[cfg(feature = "capi")]
use rope_tests::over_c;
use rope_tests::seed::times;
use rope_tests::{Number, Source};

use crate::refused::{errors as error, refused};

/// A cache whose slots are copied by plain code.
trait Moved: Kept + Clone {
    /// Copies a slot of another cache of the same layout.
    fn take(&mut self, other: &Self, from: usize, to: usize);
}

impl<E: Number> Moved for Elements<E> {
    fn take(&mut self, other: &Self, from: usize, to: usize) {
        let [from, to] = [from, to].map(|slot| self.paged.slot(slot));
        for head in 0..self.paged.shape.heads {
            for channel in 0..self.paged.shape.head_dim {
                let at = self.paged.channel(head, channel);
                self.values[to + at] = other.values[from + at];
            }
        }
    }
}

impl Moved for Coded {
    fn take(&mut self, other: &Self, from: usize, to: usize) {
        let places = [from, to].map(|slot| self.paged.slot(slot));
        for head in 0..self.paged.shape.heads {
            for channel in 0..self.paged.shape.head_dim {
                let [from, to] = places.map(|place| place + self.paged.channel(head, channel));
                self.bytes[to] = other.bytes[from];
            }
            let found = [from, to].map(|slot| Found {
                element: self.paged.slot(slot),
                slot: Some(slot),
            });
            if let [Some([from, len]), Some([to, _])] =
                found.map(|found| self.scales_at(found, head))
            {
                self.bytes[to..to + len].copy_from_slice(&other.bytes[from..from + len]);
            }
            let [from, to] = found.map(|found| self.apart_at(found, head));
            for ((is_zero, from), to) in from.into_iter().zip(to) {
                let list = if is_zero { &other.zeros } else { &other.scales };
                *self.number(to) = list[from];
            }
        }
    }
}

/// Returns true if an order reads each slot before another move writes it.
fn fits<'a>(moves: impl Iterator<Item = &'a [usize; 2]>) -> bool {
    let mut written = Vec::new();
    for &[from, to] in moves {
        if from != to {
            if written.contains(&from) {
                return false;
            }
            written.push(to);
        }
    }
    true
}

/// Moves slots of a cache, and compares all of it with copies one by one.
fn check(cache: &impl Moved, moves: &[[i64; 2]]) {
    let real: Vec<[usize; 2]> = moves
        .iter()
        .filter(|slots| slots.iter().all(|&slot| slot >= 0))
        .map(|slots| slots.map(|slot| slot as usize))
        .collect();
    let targets = |index: usize| real[..index].iter().any(|&[_, to]| to == real[index][1]);
    let doubled = (0..real.len()).any(targets);
    let right = !doubled && (fits(real.iter()) || fits(real.iter().rev()));
    let mut expected = cache.clone();
    if right {
        for &[from, to] in &real {
            expected.take(cache, from, to);
        }
    }
    let mut got = cache.clone();
    let [from, to]: [Vec<i64>; 2] =
        [0, 1].map(|side| moves.iter().map(|slots| slots[side]).collect());
    let result = got.with_mut(|cache| cache.move_slots(&from, &to));
    match result {
        Ok(()) => assert!(right, "{moves:?}"),
        Err(Error::Slots(SlotsError::SameTarget {
            slot,
            first,
            second,
        })) => {
            assert!(doubled && first < second);
            assert!(
                [first, second]
                    .iter()
                    .all(|&index| moves[index][1] == slot as i64)
            );
        }
        Err(Error::Slots(SlotsError::MoveOrder {
            slot,
            read,
            written,
        })) => {
            assert!(!doubled && !right && written < read, "{moves:?}");
            assert_eq!(
                (moves[read][0], moves[written][1]),
                (slot as i64, slot as i64)
            );
        }
        Err(error) => panic!("{moves:?}: {error}"),
    }
    expected.compare(&got, &format!("{moves:?}"));
    #[cfg(feature = "capi")]
    {
        let mut got = cache.clone();
        if let Some(of_c) = got.over_c() {
            assert_eq!(over_c::move_slots(&of_c, [&from, &to]), right, "{moves:?}");
            expected.compare(&got, &format!("{moves:?}, over C"));
        }
    }
}

/// Returns any moves within some slots: shifted runs, permutations, and lists of any slots.
fn any_moves(source: &mut Source<'_>, slots: usize) -> Vec<[i64; 2]> {
    let count = source.below(slots.min(12)) + 1;
    let mut moves: Vec<[i64; 2]> = match source.below(3) {
        0 => {
            let [from, to] = [0, 1].map(|_| source.below(slots - count + 1) as i64);
            (0..count as i64)
                .map(|index| [from + index, to + index])
                .collect()
        }
        1 => {
            let mut targets: Vec<i64> = (0..slots as i64).collect();
            for index in (1..targets.len()).rev() {
                targets.swap(index, source.below(index + 1));
            }
            (0..count)
                .map(|index| [source.below(slots) as i64, targets[index]])
                .collect()
        }
        _ => (0..count)
            .map(|_| [0, 1].map(|_| source.below(slots) as i64))
            .collect(),
    };
    if source.once_in(3) {
        let index = source.below(moves.len());
        moves[index][source.below(2)] = -1 - source.below(3) as i64;
    }
    if source.once_in(3) {
        moves.reverse();
    }
    moves
}

/// Any moves of any cache are right, or refused and touch nothing.
#[test]
fn any_moves_of_any_cache() {
    let source = &mut Source::random("any_moves_of_any_cache");
    for _ in 0..times(600) {
        let (blocks, heads) = (
            source.below(3) + 1,
            [source.below(3) + 1, 2 * (source.below(20) + 1)],
        );
        macro_rules! of {
            ($cache:expr) => {{
                let cache = $cache;
                let moves = any_moves(source, cache.paged().slots());
                check(&cache, &moves);
            }};
        }
        match source.below(4) {
            0 => of!(Elements::<f32>::any(source, blocks, heads, true)),
            1 => of!(Elements::<f16>::any(source, blocks, heads, true)),
            2 => of!(Elements::<bf16>::any(source, blocks, heads, true)),
            _ => of!(Coded::any(source, blocks, heads)),
        }
    }
}

/// Moves in a cache of more slots than one pass compares.
#[test]
fn moves_across_a_long_cache() {
    let slots = 100_000;
    let layout = CacheLayout::nhd([slots / 10, 10, 1, 1]).expect("a cache");
    let before: Vec<f32> = (0..slots).map(|slot| slot as f32).collect();
    let mut memory = before.clone();
    let mut cache = CacheMut::new(&mut memory, layout).expect("a cache that fits");
    cache.move_slots(7..slots, 0..slots - 7).expect("forward");
    assert_eq!(memory[..slots - 7], before[7..]);
    let mut cache = CacheMut::new(&mut memory, layout).expect("a cache that fits");
    cache.move_slots(0..slots - 7, 7..slots).expect("backward");
    assert_eq!(memory[7..], before[7..]);
    let unchanged = memory.clone();
    let mut cache = CacheMut::new(&mut memory, layout).expect("a cache that fits");
    let far = [3_i64, 99_999, 50_000];
    let cycle = Error::Slots(SlotsError::MoveOrder {
        slot: 50_000,
        read: 2,
        written: 0,
    });
    refused(cache.move_slots(&far, &[50_000_i64, 3, 99_999]), cycle);
    let twice = Error::Slots(SlotsError::SameTarget {
        slot: 70_000,
        first: 0,
        second: 2,
    });
    refused(cache.move_slots(&far, &[70_000_i64, 5, 70_000]), twice);
    assert_eq!(memory, unchanged);
}

/// Lists that do not belong together, or to the cache, are refused before anything moves.
#[test]
fn wrong_lists_are_refused() {
    let layout = CacheLayout::nhd([2, 3, 2, 4]).expect("a cache");
    let mut memory = [1.0_f32; 48];
    memory[0] = 2.0;
    let before = memory;
    let mut cache = CacheMut::new(&mut memory, layout).expect("a cache that fits");
    refused(cache.move_slots(0..3, 3..5), error::slot_count(2, 3, 1));
    refused(cache.move_slots(0..2, 5..7), error::slot(1, 6, 6));
    refused(cache.move_slots(&[0_i32, 9], 0..2), error::slot(1, 9, 6));
    let offsets = [0_i64, 8];
    assert!(matches!(
        cache.move_slots(Slots::offsets(&offsets), 0..2),
        Err(Error::Cache(CacheError::Layout { .. }))
    ));
    let pages = [1_i32, 0];
    refused(
        cache.move_slots(
            Slots::table(&pages, [1, 2], 0..7),
            Slots::table(&pages, [1, 2], 0..7),
        ),
        error::page_position(6, 6, 0, 6),
    );
    refused(
        cache.move_slots(&[0_i64, 1], &[1_i64, 0]),
        Error::Slots(SlotsError::MoveOrder {
            slot: 1,
            read: 1,
            written: 0,
        }),
    );
    assert_eq!(cache.move_slots(0..0, 0..0), Ok(()));
    assert_eq!(memory, before);
    let none = CacheLayout::nhd([usize::MAX, 1, 0, 4]).expect("no elements");
    let mut cache = CacheMut::new::<f32>(&mut [], none).expect("a cache that fits");
    assert_eq!(cache.move_slots(0..usize::MAX - 1, 1..usize::MAX), Ok(()));
}

/// Moved keys that then rotate by one delta are the keys of their new positions.
#[test]
fn a_move_and_one_delta() {
    let frequencies = Frequencies::new(64, 1e4, &Scalings::Default).expect("valid");
    let layout = CacheLayout::nhd([3, 16, 2, 64]).expect("a cache");
    let mut memory: Vec<f32> = (0..3 * 16 * 128).map(|i| (i % 19) as f32 / 8.0).collect();
    let before = memory.clone();
    let rope = Rope::new(Pairing::Half);
    let shift = frequencies
        .shift(-11)
        .expect("valid")
        .rows()
        .expect("memory");
    let mut keys = CacheMut::new(&mut memory, layout).expect("a cache that fits");
    keys.move_slots(15..40, 4..29).expect("forward");
    let all = shift.repeated(0, 25).expect("one row");
    rope.rotate(&mut keys.slots(4..29), &all)
        .expect("a row per slot");
    let mut expected = before.clone();
    expected.copy_within(15 * 128..40 * 128, 4 * 128);
    let mut moved = CacheMut::new(&mut expected, layout).expect("a cache that fits");
    let each = frequencies.shift(&[-11_i64; 25]).expect("valid");
    rope.rotate(&mut moved.slots(4..29), &each)
        .expect("a row per slot");
    assert_eq!(memory, expected);
}

/// Positions that a range has before 0 are skipped, however many they are.
#[test]
fn skipped_positions_take_no_time() {
    let layout = CacheLayout::nhd([2, 3, 1, 1]).expect("a cache");
    let mut memory = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0_f32];
    let mut cache = CacheMut::new(&mut memory, layout).expect("a cache that fits");
    let pages = [1_i32, 0];
    let many = 1_i64 << (usize::BITS.min(48) - 4);
    let (far, least) = (-many, -4 * many);
    let at = |first: i64, end: i64| Slots::table(&pages, [1, 2], first..end);
    // Positions 0 and 1 move to 1 and 2, in the reverse order.
    assert_eq!(cache.move_slots(at(far, 2), at(far + 1, 3)), Ok(()));
    assert_eq!(memory, [0.0, 1.0, 2.0, 3.0, 3.0, 4.0]);
    let mut cache = CacheMut::new(&mut memory, layout).expect("a cache that fits");
    assert_eq!(cache.move_slots(far..2, far + 1..3), Ok(()));
    assert_eq!(memory, [0.0, 0.0, 1.0, 3.0, 3.0, 4.0]);
    // Two packed sequences, of which the first has no position.
    let offsets = [0, many, many + 2];
    let (from, to) = ([least, 0], [least, 1]);
    let from = Positions::packed_from(&offsets, &from).expect("offsets");
    let to = Positions::packed_from(&offsets, &to).expect("offsets");
    let pages = [0_i32, 1, 1, 0];
    let mut cache = CacheMut::new(&mut memory, layout).expect("a cache that fits");
    let (from, to) = (
        Slots::table(&pages, [2, 2], from),
        Slots::table(&pages, [2, 2], to),
    );
    assert_eq!(cache.move_slots(from, to), Ok(()));
    assert_eq!(memory, [0.0, 0.0, 1.0, 3.0, 3.0, 3.0]);
}
