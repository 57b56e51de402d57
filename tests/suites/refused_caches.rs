//! Every error of a cache or of its slots: it has the value and the limit, and nothing was written to a cache, its
//! scales or a tensor.

use rope_core::Error;
use rope_core::cache::{
    BlockFormat, Cache, CacheFormat, CacheLayout, CacheMut, CacheStrides, HeadScales, IntoSlots,
    QuantFormat, QuantScale, ScaleLayout, ScalePlace, Slots,
};
use rope_core::error::CacheIndex::{Block, Channel, Chunk, Group, Head, Token};
use rope_core::error::SlotsError;
use rope_tests::quantize::BLOCKS;

use crate::refused::errors as error;
use crate::refused::verbs::{APPLY_CACHE, Operands, READ, SHIFT, Verb, WRITE};
use crate::refused::{numbers, ones, refused, rope, untouched};

const SHAPE: [usize; 4] = [2, 3, 2, 8];
/// Elements of a cache of that shape.
const LEN: usize = 96;
/// Slots of its six tokens.
const SLOTS: [i64; 6] = [0, 1, 2, 3, 4, 5];

fn nhd(shape: [usize; 4]) -> CacheLayout {
    CacheLayout::nhd(shape).expect("a small cache")
}

/// Operands with a row and a slot for each token.
fn operands() -> Operands<'static> {
    Operands::new(SHAPE, numbers([6, 8]))
}

/// Values, or slots, that do not fit are found before the keys are written.
#[test]
fn values_that_do_not_fit() {
    let heads = error::cache_heads(1, 8, 2, 8);
    for (other, second, error) in [
        ([1, 5, 1, 8], SHAPE, heads),
        ([2, 3, 1, 8], SHAPE, heads),
        ([1, 5, 2, 8], SHAPE, error::slot_count(6, 5, 1)),
        (SHAPE, [1, 1, 2, 8], error::slot(1, 1, 1)),
    ] {
        let (second, rows) = (nhd(second), numbers([3, 8]));
        let operands = Operands {
            other,
            second,
            rows,
            ..operands()
        };
        operands.refused(&[&[Verb::WriteKeysAndValues]], rope(), error);
    }
}

/// Calls each verb of caches with slots that the cache does not have.
#[track_caller]
fn each_cache_verb<'s>(slots: impl IntoSlots<'s>, error: Error) {
    let operands = Operands {
        slots: slots.into(),
        ..operands()
    };
    operands.refused(&[READ, WRITE, APPLY_CACHE], rope(), error);
    // A shift has one sequence.
    if let Error::Slots(SlotsError::Slot { .. } | SlotsError::Offset { .. }) = error {
        operands.refused(&[SHIFT], rope(), error);
    }
}

#[test]
fn slots() {
    for len in [0, 5] {
        let error = error::slot_count(len, 3, 2);
        each_cache_verb(&SLOTS[..len], error);
        each_cache_verb(0..len, error);
        each_cache_verb(Slots::offsets(&SLOTS[..len]), error);
        each_cache_verb(Slots::sequences(&SLOTS[..len]), error);
    }
    // The last slot.
    each_cache_verb(&[0, -1, 2, 3, -7, 6], error::slot(5, 6, 6));
    each_cache_verb(1..7, error::slot(5, 6, 6));
    let most = i64::MAX;
    each_cache_verb(&[0, most, 2, 3, -7, 6], error::slot(1, most, 6));
    // Beyond `i64`; the value is not negative.
    if let Ok(first) = usize::try_from(most) {
        each_cache_verb(first..first + 6, error::slot(0, most, 6));
        each_cache_verb(first + 1..first + 7, error::slot(0, most, 6));
    }
    for wrong in [81, 96, 97, most] {
        let error = error::slot_offset(3, wrong, 16, LEN);
        each_cache_verb(Slots::offsets(&[0, 80, -1, wrong, 16, 32]), error);
    }
    // A shift has one slot for each row.
    let two_slots = Operands {
        slots: (0..2).into(),
        rows: numbers([3, 8]),
        ..operands()
    };
    two_slots.refused(&[SHIFT], rope(), error::row_count(3, 2, 1));
    let one_row = Operands {
        slots: (0..3).into(),
        rows: numbers([1, 8]),
        ..operands()
    };
    one_row.refused(&[SHIFT], rope(), error::row_count(1, 3, 1));
}

fn computed(at: ScalePlace) -> QuantScale<'static> {
    QuantScale::Computed { least: 1e-6, at }
}

/// Heads of eight codes, with room for a scale after them.
fn heads_and_scales([blocks, block_size, heads]: [usize; 3]) -> CacheLayout {
    let layout = nhd([blocks, block_size, heads, 12]);
    layout.narrow_channels(0..8).expect("a small cache")
}

/// An offset leaves room for the scale after the codes, and separate scales are found by slot.
#[test]
fn offsets_and_scales() {
    let inline = (heads_and_scales([1, 1, 2]), ScalePlace::Inline(8));
    let apart = ScalePlace::Separate(ScaleLayout::nh([1, 2]));
    let by_slots = error::cache_layout(
        "addressed by slots, not by Slots::offsets, because its scales lie apart",
    );
    let no_room = |offset| (inline, offset, Some(error::slot_offset(0, offset, 24, 40)));
    let (x, rows) = (ones([1, 1, 2, 8]), numbers([1, 8]));
    for ((layout, place), offset, error) in [
        (inline, 16, None),
        no_room(17),
        no_room(20),
        no_room(21),
        no_room(24),
        no_room(40),
        ((nhd([1, 1, 2, 8]), apart), 0, Some(by_slots)),
    ] {
        let (mut bytes, mut scales) = ([0x5a_u8; 40], [7.0_f32; 2]);
        let scale = computed(place);
        let cache = CacheMut::coded_with_scales(
            &mut bytes,
            layout,
            CacheFormat::quantized(QuantFormat::E4m3, scale),
            &mut scales,
        );
        let (mut cache, offsets) = (cache.expect("it fits"), [offset]);
        let slots = &mut cache.slots(Slots::offsets(&offsets));
        let Some(error) = error else {
            assert_eq!(rope().rotate_into(&x, slots, &rows), Ok(()));
            continue;
        };
        refused(rope().rotate_into(&x, slots, &rows), error);
        refused(rope().apply_into(&x, slots), error);
        refused(rope().rotate(slots, &rows), error);
        assert!(bytes == [0x5a; 40] && scales == [7.0; 2]);
    }
}

#[test]
fn page_positions() {
    let most = i64::MAX;
    let page_position = error::page_position;
    // Two sequences, of one page and of two; three slots per page.
    let (pages, starts, sequences) = ([1_i64, 0, 1], [0_i64, 1, 3], [0_i64, 0, 0, 1, 1, 1]);
    for (positions, error) in [
        ([0, 1, 3, 0, 1, 2], page_position(2, 3, 0, 3)),
        ([0, 1, 2, 0, 1, 6], page_position(5, 6, 1, 6)),
        ([0, 1, most, 0, 1, 5], page_position(2, most, 0, 3)),
    ] {
        let slots = Slots::pages(&pages, &starts, &sequences, &positions);
        each_cache_verb(slots, error);
    }
    let slots = Slots::pages(&pages, &starts, &sequences[..5], &SLOTS);
    each_cache_verb(slots, error::count("sequences", 5, 6));
    // Missing sequences.
    for sequence in [2, -1, i32::MAX] {
        let (pages, starts, positions) = ([1_i32, 0, 1], [0_i32, 1, 3], [0_i64, 1, 2, 0, 1, 1]);
        let sequences = [0, 0, 0, 1, 1, sequence];
        let slots = Slots::pages(&pages, &starts, &sequences, &positions);
        each_cache_verb(slots, page_position(5, 1, sequence.into(), 0));
    }
    // Pages without a beginning, and missing pages.
    for (starts, error) in [
        ([-1_i64, 3], page_position(0, 0, 0, 0)),
        ([0, 9], page_position(5, 8, 0, 6)),
        ([most, most], page_position(0, 0, 0, 0)),
    ] {
        let positions = [0_i64, 0, 0, 0, 0, 8];
        each_cache_verb(
            Slots::pages(&[0_i64, 0], &starts, &[0_i32; 6], &positions),
            error,
        );
    }
    // A page that the cache does not have is called a page.
    for (number, position) in [(2, 0), (2, 1), (most, 0), (most, 1)] {
        let (pages, positions) = ([number], [position; 6]);
        let slots = Slots::pages(&pages, &[0_i64, 1], &[0_i32; 6], &positions);
        each_cache_verb(slots, error::page(0, position, number, 2));
    }
    let slots = Slots::table(&[0_i64, 2, 0, 0], [2, 2], &[3_i64, 0, 0, 0, 0, 0]);
    each_cache_verb(slots, error::page(0, 3, 2, 2));

    // A line of two blocks for each sequence.
    let table = [0_i64, 1, 1, 0];
    let slots = Slots::table(&table[..3], [2, 2], &SLOTS);
    each_cache_verb(slots, error::count("table", 3, 4));
    let slots = Slots::table(&table, [2, usize::MAX], &SLOTS);
    each_cache_verb(slots, error::count("table", 4, usize::MAX));
    // The block of `3 << 32`, in 32 bits, is the first.
    for position in [6, 3 << 32, most] {
        let positions = [0, 1, 5, -1, position, 0];
        let slots = Slots::table(&table, [2, 2], &positions);
        each_cache_verb(slots, page_position(4, position, 1, 6));
    }
    // One block for each sequence.
    for position in [3, most] {
        let positions = [0, 1, 2, -1, 0, position];
        each_cache_verb(
            Slots::sequences(&positions),
            page_position(5, position, 1, 3),
        );
    }
    let one_block = Operands {
        cache: nhd([1, 3, 2, 8]),
        slots: Slots::sequences(&[0_i64; 6]),
        ..operands()
    };
    one_block.refused(&[WRITE], rope(), error::slot(3, 3, 3));
}

/// A negative page that a position needs is an error; its token would be lost silently.
#[test]
fn negative_pages() {
    // Two sequences of two pages of three slots; the last page is padding.
    let table = [0_i64, 1, -1, -9];
    let (starts, sequences) = ([0_i64, 2, 4], [0_i64, 0, 0, 1, 1, 1]);
    for (positions, error) in [
        (
            [0_i64, 1, 5, 0, -1, -1],
            error::negative_page(3, 0, 1, 0, -1),
        ),
        ([0, 1, 5, -1, -1, 4], error::negative_page(5, 4, 1, 1, -9)),
        ([0, 1, 5, 2, 4, -1], error::negative_page(3, 2, 1, 0, -1)),
    ] {
        each_cache_verb(Slots::table(&table, [2, 2], &positions), error);
        let slots = Slots::pages(&table, &starts, &sequences, &positions);
        each_cache_verb(slots, error);
    }
}

#[test]
fn heads_of_caches() {
    for [heads, head_dim] in [[1, 8], [2, 6]] {
        let shape = [2, 3, heads, head_dim];
        let operands = Operands {
            shape,
            other: shape,
            rows: numbers([3, 4]),
            ..operands()
        };
        let error = error::cache_heads(heads, head_dim, 2, 8);
        operands.refused(&[READ, WRITE, APPLY_CACHE], rope(), error);
    }
    // Channels of Q8_0 are values, not bytes.
    let mut bytes = [0x5a_u8; 68];
    let cache = CacheMut::coded(&mut bytes, nhd([1, 1, 1, 64]), BlockFormat::Q8_0);
    let mut cache = cache.expect("whole blocks");
    let refusal = rope().apply_into(&ones([1, 1, 1, 68]), &mut cache.slots(0..1));
    refused(refusal, error::cache_heads(1, 68, 1, 64));
    assert_eq!(bytes, [0x5a; 68]);
}

#[test]
fn layouts_of_caches() {
    let good = CacheStrides {
        block: 96,
        group: 2,
        group_stride: 48,
        token: 24,
        head: 8,
        chunk: 4,
        chunk_stride: 4,
        channel: 1,
    };
    type Change = fn(&mut CacheStrides);
    let strided = |change: Change| {
        let mut strides = good;
        change(&mut strides);
        CacheLayout::strided(nhd([2, 4, 3, 8]).shape(), strides)
    };
    assert!(strided(|_| ()).is_ok());
    let no_slots = error::cache_layout(
        "of groups of at least 1 slot, but group is 0; without groups it is block_size",
    );
    let no_channels = error::cache_layout(
        "of chunks of at least 1 channel, but chunk is 0; without chunks it is head_dim",
    );
    let overlap =
        |index, stride, other, least| error::cache_overlap("elements", index, stride, other, least);
    let too_large = error::cache_too_large;
    let cases: [(Change, Error); 12] = [
        (|strides| strides.group = 0, no_slots),
        (|strides| strides.chunk = 0, no_channels),
        (|strides| strides.block = 95, overlap(Block, 95, Group, 96)),
        (
            |strides| strides.group_stride = 47,
            overlap(Group, 47, Token, 48),
        ),
        (|strides| strides.token = 23, overlap(Token, 23, Head, 24)),
        (|strides| strides.head = 7, overlap(Head, 7, Chunk, 8)),
        (|strides| strides.head = 24, overlap(Head, 24, Token, 32)),
        (
            |strides| strides.chunk_stride = 3,
            overlap(Chunk, 3, Channel, 4),
        ),
        (
            |strides| strides.channel = 0,
            overlap(Channel, 0, Channel, 1),
        ),
        (|strides| strides.channel = 2, overlap(Chunk, 4, Channel, 7)),
        (
            |strides| strides.block = usize::MAX,
            too_large(2, usize::MAX),
        ),
        (
            |strides| strides.block = usize::MAX - 90,
            too_large(2, usize::MAX - 90),
        ),
    ];
    for (change, error) in cases {
        refused(strided(change), error);
    }
    let half = usize::MAX / 2 + 1;
    for (layout, extent, stride) in [
        (CacheLayout::nhd([2, 2, half, 2]), half, 2),
        (CacheLayout::nhd([2, half, 1, 1]), 2, half),
        (CacheLayout::hnd([2, 2, half, 2]), half, 2),
        (CacheLayout::hdn([1, 2, half, 2]), half, 2),
        (CacheLayout::hdnx([1, 1, half, 1, 2]), half, 2),
        (CacheLayout::hndx([1, 1, half, 1, 2]), half, 2),
    ] {
        refused(layout, too_large(extent, stride));
    }
    assert!(CacheLayout::nhd([1, 1, 1, usize::MAX]).is_ok());

    for (start, end) in [(0, 9), (9, 9), (4, 2), (0, usize::MAX)] {
        let error = error::cache_channels(start, end, 8);
        refused(nhd([1, 1, 2, 8]).narrow_channels(start..end), error);
    }
    let hdn = CacheLayout::hdn([1, 1, 8, 4]).expect("a small cache");
    let apart = error::cache_channels_apart(8, 1, 4, 1);
    refused(hdn.narrow_channels(0..4), apart);
}

/// Codes over which a scale would lie: of its head, or of the next one; beyond all memory; channels that are not
/// adjacent; and an end that does not fit usize.
#[test]
fn scales_after_codes() {
    let long = heads_and_scales([2, 3, 2]);
    let hdn = CacheLayout::hdn([1, 1, 8, 4]).expect("a small cache");
    let last = nhd([1, 1, 1, 64])
        .narrow_channels(60..64)
        .expect("a small cache");
    let (code, mut bytes) = (QuantFormat::E4m3, [0x5a_u8; 144]);
    let among = error::cache_scale_among_codes;
    let too_large = error::cache_too_large;
    let most = usize::MAX;
    for (layout, behind, error) in [
        (long, 0, among(0, 8)),
        (long, 7, among(7, 8)),
        (long, 9, error::cache_scale_room(13, 8, Head, 12, 13)),
        (
            long,
            most - 4,
            error::cache_scale_room(most, 8, Head, 12, most),
        ),
        (long, most, too_large(most, 1)),
        (hdn, 8, error::cache_channels_apart(8, 1, 4, 1)),
        (last, most - 4, too_large(most, 1)),
    ] {
        let scale = computed(ScalePlace::Inline(behind));
        refused(
            Cache::coded(&bytes, layout, CacheFormat::quantized(code, scale)),
            error,
        );
        let cache = CacheMut::coded(&mut bytes, layout, CacheFormat::quantized(code, scale));
        refused(cache, error);
    }
    assert_eq!(bytes, [0x5a; 144]);
}

#[test]
fn scales_of_caches() {
    let mut bytes = [0x5a_u8; LEN];
    let mut coded = |scale: QuantScale<'_>, scales: &mut [f32]| {
        let code = QuantFormat::Int8Even;
        CacheMut::coded_with_scales(
            &mut bytes,
            nhd(SHAPE),
            CacheFormat::quantized(code, scale),
            scales,
        )
        .map(|_| ())
    };
    let required = "finite and above zero";
    for value in [0.0, -1.0, f32::INFINITY, f32::NAN] {
        let error = error::parameter("scale", value.into(), required);
        let entry = error::list_entry("scales", 1, value.into(), required);
        let list = [1.0, value];
        for make in [
            QuantScale::Divide,
            QuantScale::Reciprocal,
            QuantScale::Multiply,
        ] {
            refused(coded(make(value.into()), &mut []), error);
            refused(coded(make(HeadScales::Each(&list)), &mut []), entry);
        }
    }
    for given in [0, 1, 3] {
        let scale = QuantScale::Multiply(HeadScales::Each(&[1.0; 3][..given]));
        refused(coded(scale, &mut []), error::count("scales", given, 2));
    }
    for least in [-1e-6, f32::INFINITY] {
        let at = ScalePlace::Inline(8);
        let error = error::parameter("least", least.into(), "finite and not negative");
        refused(coded(QuantScale::Computed { least, at }, &mut []), error);
    }
    // Twelve, of two blocks of three slots of two heads.
    let apart =
        |block, token, head| computed(ScalePlace::Separate(ScaleLayout { block, token, head }));
    untouched::<f32>(12, |scales| {
        let refusal = coded(apart(6, 2, 1), &mut scales[..11]);
        refused(refusal, error::storage("scales", 11, 12));
        assert_eq!(coded(apart(6, 2, 1), scales), Ok(()));
        let (most, half) = (usize::MAX, usize::MAX / 2);
        let needed = error::storage("scales", 12, half + 6);
        refused(coded(apart(half, 2, 1), scales), needed);
        for ([block, token, head], extent, stride) in [
            ([most, 2, 1], 2, most),
            ([6, half, 1], 3, half),
            ([most - 4, 2, 1], 2, most - 4),
        ] {
            refused(
                coded(apart(block, token, head), scales),
                error::cache_too_large(extent, stride),
            );
        }
        // A scale of a head that another head would overwrite.
        let overlap = |index, stride, other, least| {
            error::cache_overlap("scales", index, stride, other, least)
        };
        for ([block, token, head], error) in [
            ([0, 0, 0], overlap(Block, 0, Block, 1)),
            ([6, 1, 1], overlap(Token, 1, Head, 2)),
            ([3, 2, 1], overlap(Block, 3, Token, 6)),
            ([5, 2, 1], overlap(Block, 5, Token, 6)),
            ([6, 1, 2], overlap(Head, 2, Token, 3)),
        ] {
            refused(coded(apart(block, token, head), scales), error);
        }
        // Any order of the dimensions is a layout.
        for [block, token, head] in [[6, 1, 3], [1, 4, 2], [3, 1, 6], [2, 4, 1], [1, 2, 6]] {
            assert_eq!(coded(apart(block, token, head), scales), Ok(()));
        }
    });
    assert_eq!(bytes, [0x5a; LEN]);
}

#[test]
fn blocks_of_channels() {
    for format in BLOCKS {
        let values = format.values;
        let needed = 4 * format.bytes;
        let mut bytes = vec![0x5a_u8; needed];
        let (half, whole) = (values / 2, nhd([1, 2, 1, 2 * values]));
        let part = |of, given| error::cache_part_of_block(of, given, values);
        let apart = error::cache_channels_apart(values, 1, 2, 1);
        let heads = nhd([1, 1, 2, 3 * half]);
        let odd = 2 * values - 1;
        for (layout, error) in [
            (
                CacheLayout::nhd([1, 1, 1, 3 * half]),
                part("head_dim", 3 * half),
            ),
            (
                CacheLayout::nhd([1, 1, 1, values - 1]),
                part("head_dim", values - 1),
            ),
            (CacheLayout::hdn([1, 1, values, 2]), apart),
            (
                whole.narrow_channels(half..3 * half),
                part("the first channel", half),
            ),
            (whole.narrow_channels(0..odd), part("head_dim", odd)),
            (
                heads.narrow_channels(0..values),
                part("the stride of head", 3 * half),
            ),
        ] {
            let layout = layout.expect("a small cache");
            refused(Cache::coded(&bytes, layout, format), error);
            refused(CacheMut::coded(&mut bytes, layout, format), error);
        }
        let part = whole.narrow_channels(values..2 * values).expect("a block");
        assert!(Cache::coded(&bytes, part, format).is_ok());
        // Values that fit usize, in bytes that do not; and an end that does not fit.
        let many = usize::MAX & !(values - 1);
        let huge = nhd([1, 1, 1, many]);
        let far = huge
            .narrow_channels(usize::MAX / 2 + 1..many)
            .expect("channels");
        for layout in [huge, far] {
            // Blocks of fewer bytes than values always fit.
            let refusal = CacheMut::coded(&mut bytes, layout, format);
            match (layout.shape().head_dim / values).checked_mul(format.bytes) {
                None => refused(refusal, error::cache_too_large(many / values, format.bytes)),
                Some(_) => assert!(refusal.is_err()),
            }
        }
        assert_eq!(bytes, vec![0x5a; needed]);
    }
}
