//! Every error of a chain, a cache or a shift: its message has the value and the limit, and nothing was written to a
//! tensor, a cache or its scales.

use half::bf16;
use rope_core::axes::Axes;
use rope_core::cache::{
    BlockFormat, Cache, CacheFormat, CacheLayout, CacheMut, CacheStrides, HeadScales, IntoSlots,
    QuantFormat, QuantScale, ScaleLayout, ScalePlace, Slots,
};
use rope_core::error::{CacheError, SlotsError};
use rope_core::norm::{Norm, NormFormula, NormReach};
use rope_core::shard::{Shard, ShardKind};
use rope_core::stages::{Hadamard, Scale, StageOrder, WithStages};
use rope_core::{Dimension, Error, Frequencies, Layout, Pairing, Positions, Rope, Scaling, Tensor};

use crate::refused::errors as error;
use crate::refused::verbs::{
    APPLY, APPLY_CACHE, Operands, READ, ROTATE, ROTATE_INTO, SHIFT, WRITE, keys_and_values,
};
use crate::refused::{norm, numbers, refused, refused_with, strides, tensor, untouched};

const ROPE: fn() -> Rope = || Rope::new(Pairing::Half);

fn chain() -> Rope<WithStages<'static>> {
    ROPE().into()
}

/// `[2, 3, 2, 8]`, in all tests below.
const SHAPE: [usize; 4] = [2, 3, 2, 8];
const LEN: usize = 96;
static ONES: [f32; LEN] = [1.0; LEN];

fn ones(shape: [usize; 4]) -> Tensor<'static, f32> {
    Tensor::new(&ONES[..shape.iter().product()], shape).expect("valid")
}

fn nhd(shape: [usize; 4]) -> CacheLayout {
    CacheLayout::nhd(shape).expect("a small cache")
}

/// Operands with a row and a slot for each token.
fn operands() -> Operands<'static> {
    Operands::new(SHAPE, numbers([6, 8]))
}

/// Calls each writing verb of a chain.
#[track_caller]
fn each_verb<'a>(plan: impl Into<Rope<WithStages<'a>>>, error: Error) {
    let verbs = &[ROTATE, ROTATE_INTO, APPLY, READ, WRITE, APPLY_CACHE];
    operands().refused::<bf16>(verbs, &plan.into(), error);
}

#[test]
fn parameters_of_norms() {
    for eps in [-1e-6, f32::INFINITY] {
        let error = error::parameter("eps", eps.into(), "finite and not negative");
        each_verb(ROPE().norm(Norm::new(NormFormula::LLAMA, eps)), error);
    }
    // NaNs compare unequal.
    untouched::<f32>(LEN, |data| {
        let norm = Norm::new(NormFormula::LLAMA, f32::NAN);
        let refusal = ROPE().norm(norm).apply(&mut tensor(data, SHAPE));
        let error = refusal.expect_err("a refusal");
        assert!(matches!(error, Error::Parameter { name: "eps", value, .. } if value.is_nan()));
        assert!(error.to_string().contains("NaN"));
    });
    for len in [0, 7, 9, 15, 17] {
        for (reach, needed) in [(NormReach::Head, 8), (NormReach::Token, 16)] {
            let norm = Norm::new(NormFormula::LLAMA, 1e-6).with_reach(reach);
            for (name, norm) in [
                ("weight", norm.weight(&ONES[..len])),
                ("bias", norm.without_weight().bias(&ONES[..len])),
            ] {
                let error = error::count(name, len, needed);
                each_verb(ROPE().norm(norm), error);
                let norm = norm.with_order(StageOrder::AfterRotation);
                each_verb(ROPE().norm(norm), error);
            }
        }
    }
}

/// A missing weight would still produce text, and so would a weight that the formula lacks.
#[test]
fn weights_of_norms() {
    let one = &ONES[..16];
    for formula in [
        NormFormula::LLAMA,
        NormFormula::OLMO2,
        NormFormula::GEMMA,
        NormFormula::LAYER_NORM,
        NormFormula::CHAMELEON,
        NormFormula::ONCE,
    ] {
        let norm = Norm::new(formula, 1e-6);
        for norm in [
            norm,
            norm.bias(one),
            norm.with_reach(NormReach::Token),
            norm.with_order(StageOrder::AfterRotation),
        ] {
            each_verb(ROPE().norm(norm), error::weight_missing(8));
        }
        // Explicitly, it is a norm without weights, also after weights were given.
        let without = norm.without_weight();
        assert!(!without.formula().weighted);
        for norm in [without, norm.weight(one).without_weight()] {
            let mut data = [bf16::ONE; LEN];
            let chain = ROPE().norm(norm);
            assert_eq!(chain.apply(&mut tensor(&mut data, SHAPE)), Ok(()));
        }
        let norm = norm.without_weight().weight(&one[..8]);
        each_verb(ROPE().norm(norm), error::weight_unused(8));
    }
    for given in [0, 8, 16] {
        let norm = norm().weight(&one[..given]);
        each_verb(ROPE().norm(norm), error::weight_unused(given));
    }
    // The sums that ranks exchange need no weights.
    let norm = Norm::new(NormFormula::LLAMA, 1e-6);
    let sums = ROPE().sum_of_squares(norm, &ones(SHAPE), &mut [0.0; 12]);
    assert_eq!(sums, Ok(()));
}

#[test]
fn given_sums() {
    let given = &ONES[..13];
    let norm = norm();
    let centered = Norm::new(NormFormula::LAYER_NORM, 1e-6).without_weight();
    let with_sums = centered.with_sum_of_squares(&given[..12], 8);
    each_verb(ROPE().norm(with_sums), error::centered_sums());
    untouched::<f32>(13, |sums| {
        let x = ones(SHAPE);
        let refusal = ROPE().sum_of_squares(centered, &x, &mut sums[..12]);
        refused(refusal, error::centered_sums());
        for (reach, needed) in [(NormReach::Token, 6), (NormReach::Head, 12)] {
            let norm = norm.with_reach(reach);
            for len in [0, needed - 1, needed + 1] {
                let with_sums = norm.with_sum_of_squares(&given[..len], 16);
                each_verb(ROPE().norm(with_sums), error::count("sums", len, needed));
                // The requested sums.
                let refusal = ROPE().sum_of_squares(norm, &x, &mut sums[..len]);
                refused(refusal, error::storage("sums", len, needed));
            }
            let with_sums = norm.with_sum_of_squares(&given[..needed], 0);
            let error = error::parameter("width", 0.0, "at least 1");
            each_verb(ROPE().norm(with_sums), error);
        }
        let of_tokens = norm.with_reach(NormReach::Token);
        // A row of heads that share elements has no limit: these would be 2^65 terms.
        for (heads, stride) in [(usize::MAX / 2, 0), (2, 3)] {
            let layout = Layout::strided([1, 1, heads, 4], strides(4, 4, stride));
            let x = Tensor::new(&ONES, layout.expect("it can be read")).expect("valid");
            let error = error::overlap(Dimension::Heads, stride, 4);
            refused(ROPE().sum_of_squares(of_tokens, &x, &mut sums[..1]), error);
        }
        // Tokens that share elements are counted as well: these exceed usize.
        let many = 1 << (usize::BITS / 2);
        let layout = Layout::strided([many, many, 1, 4], strides(0, 0, 0));
        let x = Tensor::new(&ONES, layout.expect("it can be read")).expect("valid");
        let refusal = ROPE().sum_of_squares(norm, &x, &mut []);
        refused(refusal, error::storage("sums", 0, usize::MAX));
    });
}

#[test]
fn factors_of_scales() {
    for given in [0, 5, 7, 11, 13] {
        let factors = &ONES[..given];
        let scale = Scale::per_token(factors);
        each_verb(ROPE().scale(scale), error::count("factors", given, 6));
        let scale = Scale::per_token_and_head(factors).with_order(StageOrder::AfterRotation);
        each_verb(ROPE().scale(scale), error::count("factors", given, 12));
    }
}

/// A block that no head has, and a block that does not divide the head.
#[test]
fn blocks_of_transforms() {
    for block in [0, 1, 3, 96, 2049, 4096, usize::MAX, 1 << (usize::BITS - 1)] {
        let error = error::hadamard_block(block);
        refused_with(Hadamard::new(block), error, &["2048"]);
        refused_with(Hadamard::indexer(block), error, &["2048"]);
    }
    let sixteen = Hadamard::new(16).expect("a power of two");
    let error = error::hadamard_head(16, 8);
    each_verb(ROPE().hadamard(sixteen), error);
    each_verb(ROPE().norm(norm()).hadamard(sixteen), error);
    let rope = ROPE().hadamard(sixteen);
    operands().refused::<f32>(&[SHIFT], &rope, error);
    operands().backward_refused::<f32>(&rope, error);
}

#[test]
fn head_dim_on_stack() {
    let error = error::head_dim_on_stack(2049, 2048);
    let shape = [1, 1, 1, 2049];
    let operands = Operands::new(shape, numbers([1, 8]));
    let chain = ROPE().norm(norm());
    let caches = &[READ, WRITE, APPLY_CACHE];
    operands.refused::<f32>(caches, &chain, error);
    operands.refused::<f32>(&[ROTATE, ROTATE_INTO, APPLY], &chain, error);
    operands.refused::<f32>(&[SHIFT], &ROPE(), error);
    let long = vec![1.0_f32; 2049];
    let x = Tensor::new(&long, shape).expect("valid");
    refused(ROPE().sum_of_squares(norm(), &x, &mut [0.0]), error);
    // The longest possible block.
    let mut data = vec![1.0_f32; 2048];
    let mut longest = tensor(&mut data, [1, 1, 1, 2048]);
    assert_eq!(chain.rotate(&mut longest, &operands.rows), Ok(()));
}

/// Values, or slots, that do not fit are found before the keys are written.
#[test]
fn values_that_do_not_fit() {
    let slots = Slots::from(0..6);
    for (shape, cache, error) in [
        ([1, 5, 1, 8], SHAPE, error::cache_heads(1, 8, 2, 8)),
        ([2, 3, 1, 8], SHAPE, error::cache_heads(1, 8, 2, 8)),
        ([1, 5, 2, 8], SHAPE, error::slot_count(6, 5, 1)),
        (SHAPE, [1, 1, 2, 8], error::slot(1, 1, 1)),
    ] {
        untouched::<f32>(LEN, |keys| {
            untouched::<f32>(LEN, |values| {
                let mut keys = CacheMut::new(keys, nhd(SHAPE)).expect("it fits");
                let mut values = CacheMut::new(values, nhd(cache)).expect("it fits");
                let (k, v, rows) = (ones(SHAPE), ones(shape), numbers([3, 8]));
                let (to_keys, to_values) = ((&k, &mut keys), (&v, &mut values));
                let refusal = keys_and_values(&chain(), to_keys, to_values, slots, &rows);
                refused(refusal, error);
                let (to_keys, to_values) = ((&k, &mut keys), (&v, &mut values));
                let refusal = keys_and_values(&ROPE(), to_keys, to_values, slots, &rows);
                refused(refusal, error);
            });
        });
    }
}

/// Calls each verb of caches with slots that the cache does not have.
#[track_caller]
fn each_cache_verb<'s>(slots: impl IntoSlots<'s>, error: Error) {
    let slots = slots.into();
    let operands = Operands {
        slots,
        ..operands()
    };
    operands.refused::<f32>(&[READ, WRITE, APPLY_CACHE], &chain(), error);
    operands.refused::<f32>(&[WRITE], &ROPE(), error);
    // A shift has one sequence.
    if let Error::Slots(SlotsError::Slot { .. } | SlotsError::Offset { .. }) = error {
        operands.refused::<f32>(&[SHIFT], &ROPE(), error);
    }
}

/// Slots of the six tokens.
const SLOTS: [i64; 6] = [0, 1, 2, 3, 4, 5];

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
    // A negative slot of any size is skipped.
    assert_eq!(
        written(SHAPE, nhd(SHAPE), &[i64::MIN; 6]),
        Ok(vec![0.0; LEN])
    );
    for wrong in [81, 96, 97, i64::MAX] {
        let offsets = [0, 80, -1, wrong, 16, 32];
        let error = error::slot_offset(3, wrong, 16, LEN);
        each_cache_verb(Slots::offsets(&offsets), error);
    }
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
    ROPE().apply_into(&Tensor::new(&x, shape)?, &mut cache.slots(slots))?;
    Ok(memory)
}

fn computed(at: ScalePlace) -> QuantScale<'static> {
    QuantScale::Computed { least: 1e-6, at }
}

/// Heads of eight codes, with room for a scale after them.
fn heads_and_scales(shape: [usize; 3]) -> CacheLayout {
    let [blocks, block_size, heads] = shape;
    let layout = nhd([blocks, block_size, heads, 12]);
    layout.channels(0..8).expect("a small cache")
}

/// An offset leaves room for the scale after the codes, and separate scales are found by slot.
#[test]
fn offsets_and_scales() {
    let inline = (heads_and_scales([1, 1, 2]), ScalePlace::Inline(8));
    let apart = (
        nhd([1, 1, 2, 8]),
        ScalePlace::Separate(ScaleLayout::nh(1, 2)),
    );
    let by_slots = error::cache_layout("addressed by slots, because its scales lie apart");
    let no_room = |offset| (inline, offset, error::slot_offset(0, offset, 24, 40));
    let (x, rows) = (ones([1, 1, 2, 8]), numbers([1, 8]));
    for ((layout, place), offset, error) in [
        no_room(17),
        no_room(20),
        no_room(21),
        no_room(24),
        no_room(40),
        (apart, 0, by_slots),
    ] {
        let (mut bytes, mut scales) = ([0x5a_u8; 40], [7.0_f32; 2]);
        let scale = computed(place);
        let code = QuantFormat::E4m3;
        let cache = CacheMut::quantized(&mut bytes, layout, code, scale, &mut scales);
        let (mut cache, offsets) = (cache.expect("it fits"), [offset]);
        let slots = &mut cache.slots(Slots::offsets(&offsets));
        refused(ROPE().rotate_into(&x, slots, &rows), error);
        refused(ROPE().apply_into(&x, slots), error);
        refused(ROPE().rotate(slots, &rows), error);
        assert!(bytes == [0x5a; 40] && scales == [7.0; 2]);
    }
    let (layout, place) = inline;
    let mut bytes = [0x5a_u8; 40];
    let scale = computed(place);
    let cache = CacheMut::quantized(&mut bytes, layout, QuantFormat::E4m3, scale, &mut []);
    let mut cache = cache.expect("it fits");
    let last = ROPE().rotate_into(&x, &mut cache.slots(Slots::offsets(&[16])), &rows);
    assert_eq!(last, Ok(()));
}

#[test]
fn page_positions() {
    // Two sequences, of one page and of two; three slots per page.
    let (pages, starts) = ([1_i64, 0, 1], [0_i64, 1, 3]);
    let sequences = [0_i64, 0, 0, 1, 1, 1];
    let most = i64::MAX;
    for (positions, index, sequence) in [
        ([0, 1, 3, 0, 1, 2], 2, 0),
        ([0, 1, 2, 0, 1, 6], 5, 1),
        ([0, 1, most, 0, 1, 5], 2, 0),
    ] {
        let error = error::page_position(index, positions[index], sequence);
        let slots = Slots::pages(&pages, &starts, &sequences, &positions);
        each_cache_verb(slots, error);
    }
    // Missing sequences.
    for sequence in [2, -1, i32::MAX] {
        let (pages, starts, positions) = ([1_i32, 0, 1], [0_i32, 1, 3], [0_i64, 1, 2, 0, 1, 1]);
        let sequences = [0, 0, 0, 1, 1, sequence];
        let slots = Slots::pages(&pages, &starts, &sequences, &positions);
        each_cache_verb(slots, error::page_position(5, 1, sequence.into()));
    }
    // Pages without a beginning, and missing pages.
    for (starts, index) in [([-1_i64, 3], 0), ([0, 9], 5), ([most, most], 0)] {
        let positions = [0_i64, 0, 0, 0, 0, 8];
        let slots = Slots::pages(&[0_i64, 0], &starts, &[0_i32; 6], &positions);
        each_cache_verb(slots, error::page_position(index, positions[index], 0));
    }
    // A page that the cache does not have is called a page.
    for (number, position) in [(2, 0), (2, 1), (most, 0), (most, 1)] {
        let (pages, positions) = ([number], [position; 6]);
        let slots = Slots::pages(&pages, &[0_i64, 1], &[0_i32; 6], &positions);
        each_cache_verb(slots, error::page(0, position, number, 2));
    }
    let beyond = [0_i64, 2, 0, 0];
    let slots = Slots::table(&beyond, [2, 2], &[3_i64, 0, 0, 0, 0, 0]);
    each_cache_verb(slots, error::page(0, 3, 2, 2));
    let slots = Slots::pages(&pages, &starts, &sequences[..5], &SLOTS);
    each_cache_verb(slots, error::count("sequences", 5, 6));

    // A line of two blocks for each sequence.
    let table = [0_i64, 1, 1, 0];
    let slots = Slots::table(&table[..3], [2, 2], &SLOTS);
    each_cache_verb(slots, error::count("table", 3, 4));
    let slots = Slots::table(&table, [2, usize::MAX], &SLOTS);
    each_cache_verb(slots, error::count("table", 4, usize::MAX));
    // Its block, in 32 bits, is the first.
    let wraps = 3 << 32;
    for position in [6, wraps, most] {
        let positions = [0, 1, 5, -1, position, 0];
        let slots = Slots::table(&table, [2, 2], &positions);
        each_cache_verb(slots, error::page_position(4, position, 1));
    }
    // One block for each sequence.
    for position in [3, most] {
        let positions = [0, 1, 2, -1, 0, position];
        let error = error::page_position(5, position, 1);
        each_cache_verb(Slots::sequences(&positions), error);
    }
    let one_block = Operands {
        cache: nhd([1, 3, 2, 8]),
        slots: Slots::sequences(&[0_i64; 6]),
        ..operands()
    };
    one_block.refused::<f32>(&[WRITE], &ROPE(), error::slot(3, 3, 3));
}

/// A negative page that a position needs is an error; its token would be lost silently. A negative position skips its
/// token in any page, and pages that no token needs may be negative.
#[test]
fn negative_pages() {
    // Two sequences of two pages of three slots; the last page is padding.
    let table = [0_i64, 1, -1, -9];
    for (positions, error) in [
        (
            [0_i64, 1, 5, 0, -1, -1],
            error::negative_page(3, 0, 1, 0, -1),
        ),
        ([0, 1, 5, -1, -1, 4], error::negative_page(5, 4, 1, 1, -9)),
        ([0, 1, 5, 2, 4, -1], error::negative_page(3, 2, 1, 0, -1)),
    ] {
        each_cache_verb(Slots::table(&table, [2, 2], &positions), error);
        let (starts, sequences) = ([0_i64, 2, 4], [0_i64, 0, 0, 1, 1, 1]);
        let slots = Slots::pages(&table, &starts, &sequences, &positions);
        each_cache_verb(slots, error);
    }
    let positions = [0_i64, 1, 5, -1, -4, i64::MIN];
    let expected = written(SHAPE, nhd(SHAPE), &[0_i64, 1, 5, -1, -1, -1]);
    assert!(expected.is_ok());
    let slots = Slots::table(&table, [2, 2], &positions);
    assert_eq!(written(SHAPE, nhd(SHAPE), slots), expected);
    // One token, and no page.
    let one = [1, 1, 2, 8];
    let error = Err(error::negative_page(0, 0, 0, 0, -1));
    let skipped = Ok(vec![0.0; 16]);
    let by_table = |position| written(one, nhd(one), Slots::table(&[-1], [1, 1], position));
    assert_eq!(by_table(0), error);
    assert_eq!(by_table(-1), skipped);
    let slots = Slots::pages(&[-1], &[0, 1], &[0], 0);
    assert_eq!(written(one, nhd(one), slots), error);
    assert_eq!(written(one, nhd(one), -1), skipped);
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
        (&table, [3, 2], beyond, error::page_position(5, 6, 2)),
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

/// Given scales are one number or a list of any form.
#[test]
fn lists_are_scales() {
    let each = [0.5_f32, 0.25];
    let expected = HeadScales::Each(&each);
    assert_eq!(HeadScales::from(&each), expected);
    assert_eq!(HeadScales::from(&each[..]), expected);
    assert_eq!(HeadScales::from(&each.to_vec()), expected);
    let divide = QuantScale::Divide((&each).into());
    assert_eq!(divide, QuantScale::Divide(expected));
    assert_eq!(HeadScales::from(0.5), HeadScales::Same(0.5));
}

#[test]
fn heads_of_caches() {
    for [heads, head_dim] in [[1, 8], [2, 6]] {
        let operands = Operands {
            shape: [2, 3, heads, head_dim],
            rows: numbers([3, 4]),
            ..operands()
        };
        let error = error::cache_heads(heads, head_dim, 2, 8);
        operands.refused::<f32>(&[READ, WRITE, APPLY_CACHE], &chain(), error);
    }
    // Channels of Q8_0 are values, not bytes.
    let mut bytes = [0x5a_u8; 68];
    let cache = CacheMut::blocks(&mut bytes, nhd([1, 1, 1, 64]), BlockFormat::Q8_0);
    let mut cache = cache.expect("whole blocks");
    let refusal = ROPE().apply_into(&ones([1, 1, 1, 68]), &mut cache.slots(0..1));
    refused(refusal, error::cache_heads(1, 68, 1, 64));
    assert_eq!(bytes, [0x5a; 68]);
}

#[test]
fn layouts_of_caches() {
    let shape = nhd([2, 4, 3, 8]).shape();
    let good = || CacheStrides {
        block: 96,
        group: 2,
        group_stride: 48,
        token: 24,
        head: 8,
        chunk: 4,
        chunk_stride: 4,
        channel: 1,
    };
    let members = error::cache_layout("of groups and chunks with at least one member");
    let overlap = error::cache_layout("of strides with which no two indices name one element");
    let too_large = error::cache_layout("of indices that fit usize");
    assert!(CacheLayout::strided(shape, good()).is_ok());
    type Field = fn(&mut CacheStrides) -> &mut usize;
    let cases: [(Field, usize, Error); 12] = [
        (|strides| &mut strides.group, 0, members),
        (|strides| &mut strides.chunk, 0, members),
        (|strides| &mut strides.block, 95, overlap),
        (|strides| &mut strides.group_stride, 47, overlap),
        (|strides| &mut strides.token, 23, overlap),
        (|strides| &mut strides.head, 7, overlap),
        (|strides| &mut strides.head, 24, overlap),
        (|strides| &mut strides.chunk_stride, 3, overlap),
        (|strides| &mut strides.channel, 0, overlap),
        (|strides| &mut strides.channel, 2, overlap),
        (|strides| &mut strides.block, usize::MAX, too_large),
        (|strides| &mut strides.block, usize::MAX - 90, too_large),
    ];
    for (field, value, error) in cases {
        let mut strides = good();
        *field(&mut strides) = value;
        refused(CacheLayout::strided(shape, strides), error);
    }
    let half = usize::MAX / 2 + 1;
    for layout in [
        CacheLayout::nhd([2, 2, half, 2]),
        CacheLayout::nhd([2, half, 1, 1]),
        CacheLayout::hnd([2, 2, half, 2]),
        CacheLayout::hdn([1, 2, half, 2]),
        CacheLayout::hdnx([1, 1, half, 1, 2]),
        CacheLayout::hndx([1, 1, half, 1, 2]),
    ] {
        refused(layout, too_large);
    }
    assert!(CacheLayout::nhd([1, 1, 1, usize::MAX]).is_ok());

    let outside = error::cache_layout("narrowed to channels that a head has");
    for (start, end) in [(0, 9), (9, 9), (4, 2), (0, usize::MAX)] {
        refused(nhd([1, 1, 2, 8]).channels(start..end), outside);
    }
    let hdn = CacheLayout::hdn([1, 1, 8, 4]).expect("a small cache");
    let apart = error::cache_layout(
        "one whose heads have their channels side by side, to be narrowed to some of them",
    );
    refused(hdn.channels(0..4), apart);
}

/// [`CacheLayout::bytes`] is the exact size of the memory that a cache of each format requires.
#[test]
fn bytes_of_layouts() {
    let wrong_layout = |bytes| matches!(bytes, Err(Error::Cache(CacheError::Layout { .. })));
    let layout = nhd([2, 3, 2, 64]);
    let values = 2 * 3 * 2 * 64;
    assert_eq!(layout.bytes(CacheFormat::element::<f32>()), Ok(4 * values));
    assert_eq!(layout.bytes(CacheFormat::element::<bf16>()), Ok(2 * values));
    let mut memory = vec![0_u8; 4 * values];
    let short = |bytes: usize| error::cache_memory(bytes, bytes - 1);
    for format in BlockFormat::ALL {
        let bytes = layout.bytes(format).expect("whole blocks");
        assert_eq!(bytes, values / 32 * format.bytes);
        assert!(CacheMut::blocks(&mut memory[..bytes], layout, format).is_ok());
        let refusal = CacheMut::blocks(&mut memory[..bytes - 1], layout, format);
        refused(refusal, short(bytes));
    }
    // A scale after the codes of each head, of 68 bytes in all; none for separate scales.
    let heads = nhd([2, 3, 2, 68]).channels(0..64).expect("a small cache");
    let inline = ScalePlace::Inline(64);
    let apart = ScalePlace::Separate(ScaleLayout::nh(3, 2));
    for code in QuantFormat::ALL {
        assert_eq!(layout.bytes(code), Ok(values));
        for (layout, at, bytes) in [(heads, inline, 12 * 68), (layout, apart, values)] {
            assert_eq!(layout.bytes((code, at)), Ok(bytes));
            let mut scales = [0.0; 12];
            let mut made = |memory: &mut [u8]| {
                CacheMut::quantized(memory, layout, code, computed(at), &mut scales).map(|_| ())
            };
            refused(made(&mut memory[..bytes - 1]), short(bytes));
            assert_eq!(made(&mut memory[..bytes]), Ok(()));
        }
        assert!(wrong_layout(layout.bytes((code, inline))));
    }
    // 65 channels make no blocks, and the bytes of so many elements exceed usize.
    assert!(wrong_layout(nhd([2, 3, 2, 65]).bytes(BlockFormat::Q8_0)));
    let huge = nhd([usize::MAX / 2, 1, 1, 1]);
    assert!(wrong_layout(huge.bytes(CacheFormat::element::<f32>())));
}

#[test]
fn memory_of_caches() {
    untouched::<f32>(95, |data| {
        let error = error::cache_memory(384, 380);
        refused(Cache::new(&*data, nhd(SHAPE)), error);
        refused(CacheMut::new(data, nhd(SHAPE)), error);
    });
    let mut bytes = [0x5a_u8; 144];
    let code = QuantFormat::E4m3;
    let mut coded = |len: usize, layout, scale| {
        let read = Cache::quantized(&bytes[..len], layout, code, scale, &[]).map(|_| ());
        let memory = &mut bytes[..len];
        let written = CacheMut::quantized(memory, layout, code, scale, &mut []).map(|_| ());
        assert_eq!(read, written);
        assert_eq!(bytes, [0x5a; 144]);
        written
    };
    let divide = QuantScale::Divide(HeadScales::Same(1.0));
    refused(coded(95, nhd(SHAPE), divide), error::cache_memory(96, 95));
    // With scales after the codes of their heads.
    let long = heads_and_scales([2, 3, 2]);
    let inline = |behind| computed(ScalePlace::Inline(behind));
    refused(coded(143, long, inline(8)), error::cache_memory(144, 143));
    assert_eq!(coded(144, long, inline(8)), Ok(()));
    // Over codes of its head, or of the next one; beyond all memory; with channels that are not adjacent; an end that
    // does not fit usize.
    let error = error::cache_layout(
        "of heads with their channels side by side, and room for a scale after them",
    );
    for behind in [0, 7, 9, usize::MAX - 4, usize::MAX] {
        refused(coded(144, long, inline(behind)), error);
    }
    let hdn = CacheLayout::hdn([1, 1, 8, 4]).expect("a small cache");
    refused(coded(144, hdn, inline(8)), error);
    let one = nhd([1, 1, 1, 64]).channels(60..64).expect("a small cache");
    refused(coded(144, one, inline(usize::MAX - 4)), error);
}

#[test]
fn scales_of_caches() {
    let mut bytes = [0x5a_u8; LEN];
    let mut coded = |scale: QuantScale<'_>, scales: &mut [f32]| {
        let code = QuantFormat::Int8Even;
        CacheMut::quantized(&mut bytes, nhd(SHAPE), code, scale, scales).map(|_| ())
    };
    let required = "finite and above zero";
    for value in [0.0, -1.0, f32::INFINITY] {
        let error = error::parameter("scale", value.into(), required);
        let entry = error::list_entry("scales", 1, value.into(), required);
        let list = [1.0, value];
        for make in [
            QuantScale::Divide,
            QuantScale::Reciprocal,
            QuantScale::Multiply,
        ] {
            refused(coded(make(value.into()), &mut []), error);
            let refusal = coded(make(HeadScales::Each(&list)), &mut []);
            refused_with(refusal, entry, &["scales[1] is"]);
        }
    }
    let nan = coded(QuantScale::Divide(f32::NAN.into()), &mut []).expect_err("a refusal");
    assert!(nan.to_string().contains("scale is NaN"), "{nan}");
    for given in [0, 1, 3] {
        let scale = QuantScale::Multiply(HeadScales::Each(&ONES[..given]));
        let error = error::count("scales", given, 2);
        refused(coded(scale, &mut []), error);
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
        for layout in [apart(most, 2, 1), apart(6, half, 1), apart(most - 4, 2, 1)] {
            let refusal = coded(layout, scales).expect_err("a refusal");
            assert!(matches!(refusal, Error::Storage { given: 12, needed, .. } if needed > half));
        }
    });
    assert_eq!(bytes, [0x5a; LEN]);
}

#[test]
fn blocks_of_ggml() {
    macro_rules! required {
        ($name:literal) => {
            concat!(
                "of heads with their channels side by side, and strides that are multiples of 32, for ",
                $name
            )
        };
    }
    for (required, format) in [
        (required!("Q8_0"), BlockFormat::Q8_0),
        (required!("Q4_0"), BlockFormat::Q4_0),
        (required!("Q4_1"), BlockFormat::Q4_1),
        (required!("Q5_0"), BlockFormat::Q5_0),
        (required!("Q5_1"), BlockFormat::Q5_1),
        (required!("IQ4_NL"), BlockFormat::IQ4_NL),
    ] {
        let error = error::cache_layout(required);
        let needed = 4 * format.bytes;
        let mut bytes = vec![0x5a_u8; needed];
        let whole = nhd([1, 2, 1, 64]);
        for layout in [
            CacheLayout::nhd([1, 1, 1, 48]),
            CacheLayout::nhd([1, 1, 1, 31]),
            CacheLayout::hdn([1, 1, 32, 2]),
            whole.channels(16..48),
            whole.channels(0..63),
        ] {
            let layout = layout.expect("a small cache");
            refused(Cache::blocks(&bytes, layout, format), error);
            refused(CacheMut::blocks(&mut bytes, layout, format), error);
        }
        let short = error::cache_memory(needed, needed - 1);
        let memory = &mut bytes[..needed - 1];
        refused(Cache::blocks(memory, whole, format), short);
        refused(CacheMut::blocks(memory, whole, format), short);
        let part = whole.channels(32..64).expect("a block");
        assert!(Cache::blocks(&bytes, part, format).is_ok());
        // Values that fit usize, in bytes that do not; and an end that does not fit.
        let many = usize::MAX & !31;
        let huge = nhd([1, 1, 1, many]);
        let far = huge.channels(usize::MAX / 2 + 1..many).expect("channels");
        for layout in [huge, far] {
            // Blocks of fewer bytes than values always fit.
            let refusal = CacheMut::blocks(&mut bytes, layout, format);
            match (layout.shape().head_dim / 32).checked_mul(format.bytes) {
                None => refused(refusal, error),
                Some(_) => assert!(refusal.is_err()),
            }
        }
        assert_eq!(bytes, vec![0x5a; needed]);
    }
}

#[test]
fn empty_caches_are_fine() {
    let none: [i64; 0] = [];
    for shape in [[0, 1, 1, 1], [1, 0, 1, 1], [1, 1, 0, 1], [1, 1, 1, 0]] {
        let [blocks, block_size, heads, head_dim] = shape;
        let layout = nhd(shape);
        assert_eq!(layout.end(), 0, "{layout:?}");
        let mut data = [0.0_f32; 0];
        let mut cache = CacheMut::new(&mut data, layout).expect("an empty cache");
        let mut into = |tokens, slots: Slots<'_>| {
            let x = ones([1, tokens, heads, head_dim]);
            chain().apply_into(&x, &mut cache.slots(slots)).is_ok()
        };
        assert!(into(0, (&none).into()));
        let there = blocks * block_size > 0;
        assert_eq!(into(1, (0..1).into()), there, "{shape:?}");
        assert!(into(1, (&[-1_i64]).into()));
        // Heads without elements fit at any offset; other heads do not.
        let fits = heads * head_dim == 0;
        assert_eq!(into(1, Slots::offsets(&[0])), fits, "{shape:?}");
        assert!(into(1, Slots::offsets(&[-1])));
        for code in QuantFormat::ALL {
            let apart = ScalePlace::Separate(ScaleLayout::nh(block_size, heads));
            for at in [apart, ScalePlace::Inline(head_dim)] {
                let scale = QuantScale::Computed { least: 0.0, at };
                assert!(CacheMut::quantized(&mut [], layout, code, scale, &mut []).is_ok());
            }
        }
        if head_dim != 1 {
            for format in BlockFormat::ALL {
                assert!(CacheMut::blocks(&mut [], layout, format).is_ok());
            }
        }
    }
    // A shift without rows, and sums without tokens.
    let mut data = [1.0_f32; LEN];
    let mut cache = CacheMut::new(&mut data, nhd(SHAPE)).expect("a cache that fits");
    let shifted = ROPE().rotate(&mut cache.slots(&none), &numbers([0, 8]));
    assert_eq!(shifted, Ok(()));
    let sums = ROPE().sum_of_squares(norm(), &ones([2, 0, 2, 8]), &mut []);
    assert_eq!(sums, Ok(()));
}

/// The rows of a shift.
#[test]
fn shifts() {
    let frequencies =
        |axes: Axes<'_>| Frequencies::new(axes, 1e4, &Scaling::Default).expect("sane parameters");
    let (new, old) = (frequencies(Axes::from(8)), frequencies(Axes::from(6)));
    let three = frequencies(Axes::mrope(8, [1, 1, 2]));
    let integers = || Positions::from(0..3);
    let real = || Positions::real(&[1.5_f32, 2.0, 3.0]);
    let four = || Positions::axis_major(&[0_i64; 4]);
    let many = || Positions::from(0..usize::MAX / 8);
    let real_error = error::not_an_integer(1.5);
    let other_dim = error::rotary_dim(6, "the same in the old frequencies as in the new");
    let other_count = error::count("from", 2, 3);
    let too_long = error::rows_too_long(usize::MAX / 8, 8);
    let storage = &mut [7.0_f32; 24];
    for (new, old, from, to, error) in [
        (&new, &old, integers(), integers(), other_dim),
        (&new, &new, (0..2).into(), integers(), other_count),
        (&new, &new, real(), integers(), real_error),
        (&new, &new, integers(), real(), real_error),
        (&three, &three, four(), four(), error::per_axis(4, 3)),
        (&new, &new, many(), many(), too_long),
    ] {
        refused(new.shift_from(old, from, to), error);
        if error != too_long {
            refused(new.shift_from_in(old, from, to, storage), error);
        }
    }
    refused(three.shift(four()), error::per_axis(4, 3));
    refused(new.shift(many()), too_long);
    let error = error::storage("values of storage", 23, 24);
    let short = &mut storage[..23];
    refused(new.shift_from_in(&new, 0..3, 0..3, short), error);
    refused(new.shift_in(0..3, short), error);
    assert_eq!(storage, &[7.0; 24]);
    // One slot for each row.
    let two_slots = Operands {
        slots: (0..2).into(),
        rows: new.shift(0..3).expect("deltas"),
        ..operands()
    };
    two_slots.refused::<f32>(&[SHIFT], &ROPE(), error::slot_count(2, 3, 1));
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

    let beyond = error::page_position(2, 5, 0);
    refused(written_to(Slots::sequences(3..6)), beyond);
    let coordinates = Positions::real(&[0.5_f32; 6]);
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
    assert_eq!(
        chain().apply_into(&none, &mut cache.slots(negative)),
        Ok(())
    );
}
