//! Where a cache keeps its tokens: equal slots by integers, ranges, offsets, pages and positions, and the bytes of a
//! layout.

use half::bf16;
use rope_core::cache::{
    Cache, CacheFormat, CacheLayout, CacheMut, IntoSlots, QuantFormat, QuantScale, ScaleLayout,
    ScalePlace, Slots,
};
use rope_core::dual_chunk::{DualChunk, DualChunkQuery};
use rope_core::error::CacheIndex;
use rope_core::shard::{Shard, ShardKind};
use rope_core::{Error, Layout, Positions, Strides, Tensor};
use rope_tests::quantize::BLOCKS;

use crate::refused::errors as error;
use crate::refused::{chain, refused, rope};

/// Six tokens of two heads of eight channels.
const SHAPE: [usize; 4] = [2, 3, 2, 8];
const LEN: usize = 96;

fn nhd(shape: [usize; 4]) -> CacheLayout {
    CacheLayout::nhd(shape).expect("a small cache")
}

/// Copies numbers from 1 on into the slots of a cache of zeros, and returns its memory.
fn written<'s>(
    shape: [usize; 4],
    layout: CacheLayout,
    slots: impl IntoSlots<'s>,
) -> Result<Vec<f32>, Error> {
    let x: Vec<f32> = (1..=shape.iter().product())
        .map(|i: usize| i as f32)
        .collect();
    let mut memory = vec![0.0_f32; layout.end()];
    let mut cache = CacheMut::new(&mut memory, layout)?;
    rope().apply_into(&Tensor::new(&x, shape)?, &mut cache.slots(slots))?;
    Ok(memory)
}

/// Slots that no list has may be those of more tokens than a call can visit: all of them skipped, or sharing slots. The
/// call is refused, and a range that is a little longer than the cache is not.
#[cfg(target_pointer_width = "64")]
#[test]
fn more_tokens_than_a_call_can_visit_are_refused() {
    let many = 1_usize << 62;
    let values = [1.0_f32; 16];
    let source = |batch, tokens| {
        let strides = Strides {
            batch: 0,
            token: 0,
            head: 8,
        };
        let layout = Layout::strided([batch, tokens, 2, 8], strides).expect("a broadcast");
        Tensor::new(&values, layout).expect("it fits")
    };
    let layout = nhd([2, 3, 2, 8]);
    let chunks = DualChunk::new(3, 1).expect("chunks");
    let of_chunks = chunks.positions(DualChunkQuery::Intra, 0..many as i64);
    let of_chunks = of_chunks.expect("one axis");
    let refused = |tokens: usize| {
        Err(Error::Parameter {
            name: "tokens",
            value: tokens as f64,
            required: "at most the slots of the cache, or 2^24, as no list has the slots: leave out skipped tokens",
        })
    };
    let negative = -(many as i64)..0;
    for (slots, batch, tokens) in [
        (Slots::from(negative.clone()), 1, many),
        (Slots::sequences(negative.clone()), 1, many),
        (Slots::sequences(-1..0), many, 1),
        (Slots::table(&[0_i32], [1, 1], negative.clone()), 1, many),
        (Slots::sequences(of_chunks), 1, many),
        (Slots::table(&[0_i32], [1, 1], of_chunks), 1, many),
    ] {
        let mut memory = [0.0_f32; LEN];
        let mut cache = CacheMut::new(&mut memory, layout).expect("it fits");
        let x = source(batch, tokens);
        assert_eq!(
            rope().apply_into(&x, &mut cache.slots(slots)),
            refused(batch * tokens),
            "{slots:?}"
        );
        if batch == 1 {
            assert_eq!(
                rope().apply(&mut cache.slots(slots)),
                refused(tokens),
                "{slots:?}"
            );
        }
    }
    let mut memory = [0.0_f32; LEN];
    let mut cache = CacheMut::new(&mut memory, layout).expect("it fits");
    assert_eq!(
        cache.move_slots(Slots::sequences(of_chunks), 0..many),
        refused(many)
    );
    // Skipped tokens before those of all slots, and tokens that share slots.
    let x = source(1, 1006);
    assert_eq!(rope().apply_into(&x, &mut cache.slots(-1000..6)), Ok(()));
    assert_eq!(memory, [1.0; LEN]);
}

/// A negative slot of any size, or a negative position, skips its token, in any page; and pages that no token needs may
/// be negative.
#[test]
fn negative_slots_skip_tokens() {
    let nothing = Ok(vec![0.0; LEN]);
    assert_eq!(written(SHAPE, nhd(SHAPE), &[i64::MIN; 6]), nothing);
    // Two sequences of two pages of three slots; the last page is padding.
    let table = [0_i64, 1, -1, -9];
    let expected = written(SHAPE, nhd(SHAPE), &[0_i64, 1, 5, -1, -1, -1]);
    assert!(expected.is_ok());
    let slots = Slots::table(&table, [2, 2], &[0_i64, 1, 5, -1, -4, i64::MIN]);
    assert_eq!(written(SHAPE, nhd(SHAPE), slots), expected);
    // One token, and no page.
    let one = |slots: Slots<'_>| written([1, 1, 2, 8], nhd([1, 1, 2, 8]), slots);
    let error = Err(error::negative_page(0, 0, 0, 0, -1));
    assert_eq!(one(Slots::table(&[-1], [1, 1], 0)), error);
    assert_eq!(one(Slots::pages(&[-1], &[0, 1], &[0], 0)), error);
    let skipped = Ok(vec![0.0; 16]);
    assert_eq!(one(Slots::table(&[-1], [1, 1], -1)), skipped);
    assert_eq!(one((-1).into()), skipped);
}

/// Positions of packed sequences give the sequence of each token: a table has a line for each sequence.
#[test]
fn tables_of_packed_sequences() {
    // Three sequences in one batch: four tokens from position 0, none, and two from position 4.
    let (offsets, starts) = ([0_i32, 4, 4, 6], [0_i32, 9, 4]);
    let packed = Positions::packed_from(&offsets, &starts).expect("offsets");
    let table = [1_i64, 3, /* */ -1, -1, /* */ -1, 0];
    let written_to = |slots: Slots<'_>| written([1, 6, 2, 8], nhd([4, 3, 2, 8]), slots);
    let expected = written_to((&[3, 4, 5, 9, 1, 2]).into());
    assert!(expected.is_ok());
    assert_eq!(written_to(Slots::table(&table, [3, 2], packed)), expected);
    // With one list of pages, which needs the sequence of each token.
    let sequences = [0, 0, 0, 0, 2, 2];
    let paged = Slots::pages(&table, &[0, 2, 4, 6], &sequences, packed);
    assert_eq!(written_to(paged), expected);
    // A block for each sequence.
    let written4 = |slots: Slots<'_>| written([1, 4, 2, 8], nhd([3, 4, 2, 8]), slots);
    let short = Positions::packed(&offsets[..3]).expect("offsets");
    assert!(written4((0..4).into()).is_ok());
    assert_eq!(written4(Slots::sequences(short)), written4((0..4).into()));
    let two = Positions::packed_from(&[0, 1, 4], &[3, 1]).expect("offsets");
    let expected = written4((&[3, 5, 6, 7]).into());
    assert_eq!(written4(Slots::sequences(two)), expected);

    // The tokens of a rank, of packed sequences.
    for (kind, rank) in [
        (ShardKind::Zigzag, 0),
        (ShardKind::Zigzag, 1),
        (ShardKind::UnevenZigzag, 0),
        (ShardKind::UnevenZigzag, 1),
        (ShardKind::Striped, 0),
        (ShardKind::Striped, 1),
        (ShardKind::Contiguous, 0),
        (ShardKind::Contiguous, 1),
    ] {
        let shard = Shard::new(kind, rank, 2).expect("a rank");
        let tokens = shard.packed(&[0_u32, 8, 12]).expect("whole chunks");
        assert_eq!(tokens.len(), 6);
        let table = [1_i64, 3, 0, /* */ 2, 3, -1];
        let mut slots = Vec::new();
        for (index, token) in tokens.iter().enumerate() {
            let (line, position) = match token < 8 {
                true => (0, token),
                false => (3, token - 8),
            };
            assert_eq!(tokens.position(index), Some(position as i64));
            slots.push(table[line + position / 3] * 3 + position as i64 % 3);
        }
        let by_table = written_to(Slots::table(&table, [2, 3], tokens));
        assert_eq!(by_table, written_to((&slots).into()), "{kind:?}");
    }

    // Errors: a table of the tensor's batch, a batch that would share the packed sequences, a missing page.
    let late = Positions::packed_from(&offsets, &[0, 9, 2]).expect("offsets");
    let beyond = Positions::packed_from(&offsets, &[0, 9, 5]).expect("offsets");
    for (table, extents, positions, error) in [
        (&table[..2], [1, 2], packed, error::count("table", 2, 6)),
        (&table, [2, 2], packed, error::count("table", 6, 4)),
        (&table, [3, 2], late, error::negative_page(4, 2, 2, 0, -1)),
        (&table, [3, 2], beyond, error::page_position(5, 6, 2, 6)),
    ] {
        refused(written_to(Slots::table(table, extents, positions)), error);
    }
    let three = Positions::packed(&[0, 1, 3]).expect("offsets");
    let slots = Slots::table(&table, [3, 2], three);
    refused(
        written(SHAPE, nhd([4, 3, 2, 8]), slots),
        error::slot_count(3, 3, 2),
    );
}

/// Slots take the integers and ranges of positions: each type, with an exclusive or an inclusive end.
#[test]
fn integers_are_slots() {
    fn tokens<'s>(count: usize, slots: impl IntoSlots<'s>) -> Result<Vec<f32>, Error> {
        written([1, count, 2, 8], nhd(SHAPE), slots)
    }
    let (three, one) = (tokens(3, &[2_i64, 3, 4]), tokens(1, &[5_i64]));
    assert!(three.is_ok() && one.is_ok());
    macro_rules! each {
        ($($int:ty),*) => {$(
            assert_eq!(tokens(3, 2 as $int..5), three);
            assert_eq!(tokens(3, 2 as $int..=4), three);
            assert_eq!(tokens(1, 5 as $int), one);
            // One slot too many, or two tokens more than slots.
            assert_eq!(tokens(3, 4 as $int..7), Err(error::slot(2, 6, 6)));
            assert_eq!(tokens(3, 4 as $int..=6), Err(error::slot(2, 6, 6)));
            assert_eq!(tokens(1, 6 as $int), Err(error::slot(0, 6, 6)));
            let most = <$int>::MAX;
            let far = i64::try_from(most).unwrap_or(i64::MAX);
            assert_eq!(tokens(1, most), Err(error::slot(0, far, 6)));
            let first = i64::try_from(most - 1).unwrap_or(i64::MAX);
            assert_eq!(tokens(2, most - 1..=most), Err(error::slot(0, first, 6)));
            assert_eq!(tokens(3, 2 as $int..2), Err(error::slot_count(0, 3, 1)));
            assert_eq!(tokens(3, 5 as $int), Err(error::slot_count(1, 3, 1)));
        )*};
    }
    each!(i32, i64, u32, u64, usize);
    // Negative slots are skipped.
    let two = tokens(3, &[-1_i64, 0, 1]);
    assert!(two.is_ok());
    assert_eq!(tokens(3, -1..2), two);
    assert_eq!(tokens(3, -1_i64..=1), two);
    assert_eq!(tokens(3, i64::MIN..i64::MIN + 3), Ok(vec![0.0; LEN]));
    assert_eq!(tokens(1, -7), Ok(vec![0.0; LEN]));
    let few = written([1, 3, 2, 8], nhd([1, 1, 2, 8]), -1..2);
    assert_eq!(few, Err(error::slot(2, 1, 1)));
}

/// Slots by positions take a range, as rows do, and positions without a list; they refuse coordinates.
#[test]
fn positions_of_slots() {
    let layout = CacheLayout::hnd([2, 2, 5, 8]).expect("a small cache");
    let written_to = |slots: Slots<'_>| written(SHAPE, layout, slots);
    let each = [1_i64, 2, 3, 1, 2, 3];
    // Blocks 0 and 1, one for each sequence.
    let table = [0_u32, 1];
    let expected = written_to(Slots::sequences(&each));
    assert!(expected.is_ok());
    for slots in [
        Slots::sequences(1..4),
        Slots::sequences(&each[..3]),
        Slots::table(&table, [2, 1], 1..4),
        Slots::table(&table, [2, 1], &each),
    ] {
        assert_eq!(written_to(slots), expected);
    }
    let (pages, starts, sequences) = ([0_u32, 1], [0_u32, 1, 2], [0_u32, 0, 0, 1, 1, 1]);
    let packed = Positions::packed(&[0_u32, 3, 6]).expect("two sequences");
    let from_zero = written_to(Slots::sequences(0..3));
    let paged = Slots::pages(&pages, &starts, &sequences, packed);
    assert!(from_zero.is_ok());
    assert_eq!(written_to(paged), from_zero);

    let beyond = error::page_position(2, 5, 0, 5);
    refused(written_to(Slots::sequences(3..6)), beyond);
    let coordinates = Positions::from(&[0.5_f32; 6]);
    for slots in [
        Slots::sequences(coordinates),
        Slots::table(&table, [2, 1], coordinates),
        Slots::pages(&pages, &starts, &sequences, coordinates),
    ] {
        refused(written_to(slots), error::not_an_integer(0.5));
    }

    // As many tokens as usize counts, without elements: no code loops over them.
    let none = Tensor::<f32>::new(&[], [1, usize::MAX, 0, 8]).expect("no elements");
    let mut memory = [0.0_f32; 0];
    let no_heads = CacheLayout::hnd([1, 0, 5, 8]).expect("no heads");
    let mut cache = CacheMut::new(&mut memory, no_heads).expect("a cache that fits");
    let negative = Slots::sequences(i64::MIN..i64::MAX);
    let applied = chain().apply_into(&none, &mut cache.slots(negative));
    assert_eq!(applied, Ok(()));
}

/// [`CacheLayout::bytes`] is the exact size of the memory that a cache of each format requires.
#[test]
fn bytes_of_layouts() {
    let layout = nhd([2, 3, 2, 64]);
    let values = 2 * 3 * 2 * 64;
    assert_eq!(layout.bytes(CacheFormat::element::<f32>()), Ok(4 * values));
    assert_eq!(layout.bytes(CacheFormat::element::<bf16>()), Ok(2 * values));
    let mut floats = vec![0.0_f32; values];
    assert!(CacheMut::new(&mut floats, layout).is_ok());
    let error = error::cache_memory(4 * values, 4 * values - 4);
    refused(Cache::new(&floats[1..], layout), error);
    refused(CacheMut::new(&mut floats[1..], layout), error);
    let mut memory = vec![0x5a_u8; 4 * values];
    let short = |bytes| error::cache_memory(bytes, bytes - 1);
    let wide = nhd([2, 3, 1, 128]);
    for format in BLOCKS {
        let layout = if format.values > 64 { wide } else { layout };
        let bytes = layout.bytes(format).expect("whole blocks");
        assert_eq!(bytes, values / format.values * format.bytes);
        assert!(CacheMut::coded(&mut memory[..bytes], layout, format).is_ok());
        let memory = &mut memory[..bytes - 1];
        refused(Cache::coded(memory, layout, format), short(bytes));
        refused(CacheMut::coded(memory, layout, format), short(bytes));
    }
    // A scale after the codes of each head, of 68 bytes in all; none for separate scales.
    let heads = nhd([2, 3, 2, 68])
        .narrow_channels(0..64)
        .expect("a small cache");
    let inline = ScalePlace::Inline(64);
    let apart = ScalePlace::Separate(ScaleLayout::nh([3, 2]));
    for code in QuantFormat::ALL {
        let given = CacheFormat::quantized(code, QuantScale::Divide(0.5.into()));
        assert_eq!(layout.bytes(given), Ok(values));
        let computed = |at| CacheFormat::quantized(code, QuantScale::Computed { least: 1e-6, at });
        for (layout, at, bytes) in [(heads, inline, 12 * 68), (layout, apart, values)] {
            let (format, scales) = (computed(at), &mut [0.0; 12]);
            assert_eq!(layout.bytes(format), Ok(bytes));
            let whole = &mut memory[..bytes];
            assert!(CacheMut::coded_with_scales(whole, layout, format, &mut *scales).is_ok());
            let part = &mut memory[..bytes - 1];
            refused(
                Cache::coded_with_scales(part, layout, format, &*scales),
                short(bytes),
            );
            refused(
                CacheMut::coded_with_scales(part, layout, format, scales),
                short(bytes),
            );
        }
        let no_room = error::cache_scale_room(68, 64, CacheIndex::Head, 64, 68);
        refused(layout.bytes(computed(inline)), no_room);
    }
    assert!(memory.iter().all(|&byte| byte == 0x5a));
    // 65 channels make no blocks, and the bytes of so many elements exceed usize.
    let part = error::cache_part_of_block("head_dim", 65, 32);
    refused(nhd([2, 3, 2, 65]).bytes(BLOCKS[0]), part);
    let huge = nhd([usize::MAX / 2, 1, 1, 1]);
    let too_large = error::cache_too_large(usize::MAX / 2, 4);
    refused(huge.bytes(CacheFormat::element::<f32>()), too_large);
}
