//! Norms and transforms by name, and caches: layouts, moves, groups of slots, ends and refusals. The bodies have every
//! verb, format, scale and form of slots over C, in strided layouts.

use rope_core::Error;
use rope_core::cache::{
    CacheFormat, CacheLayout, CacheMut, ChannelCodes, GroupCodes, HeadScales, MxScale, QuantFormat,
    QuantScale, ScalePlace, TileScale,
};
use rope_core::internals::Renamed;
use rope_core::norm::{NormFormula, NormResult};
use rope_core::stages::Hadamard;

use super::*;
use {
    rope_cache_format as Format, rope_quant_scale_kind as ScaleKind, rope_slots_kind as SlotsKind,
};

const TOKENS: usize = SHAPE[0] * SHAPE[1];
const HEADS: usize = SHAPE[2];
const HEAD_DIM: usize = SHAPE[3];
const BLOCKS: usize = 4;
const BLOCK_SIZE: usize = 8;
/// The extents of a cache for tensors of [`SHAPE`].
const EXTENTS: [usize; 4] = [BLOCKS, BLOCK_SIZE, HEADS, HEAD_DIM];
/// A slot for each token; one is skipped.
const MAPPING: [i32; TOKENS] = [9, 4, -1, 31, 0, 17, 18, 3, 30, 12];
/// Scales that lie apart.
const SCALES: usize = BLOCKS * BLOCK_SIZE * HEADS;

/// A refusal of C is rope-core's, in C's words.
#[track_caller]
fn same(case: &str, got: rope_status, expected: Result<(), Error>) {
    match expected {
        Ok(()) => assert_eq!(got, rope_status::Ok, "{case}: {}", detail()),
        Err(error) => {
            assert_ne!(got, rope_status::Ok, "{case}: {error}");
            let (text, names) = (error, dialect::NAMES);
            assert_eq!(detail(), Renamed { text, names }.to_string(), "{case}");
        }
    }
}

/// Each formula by its name. The match is over all, so that a new one does not compile until it stands here.
#[test]
fn every_formula_matches_rope_core() {
    for &kind in rope_norm_formula::ALL {
        use rope_norm_formula as Kind;
        let formula = match kind {
            Kind::Llama => NormFormula::LLAMA,
            Kind::Olmo2 => NormFormula::OLMO2,
            Kind::Gemma => NormFormula::GEMMA,
            Kind::Llama4 => NormFormula::LLAMA4,
            Kind::Chameleon => NormFormula::CHAMELEON,
            Kind::LayerNorm => NormFormula::LAYER_NORM,
            Kind::Once => NormFormula::ONCE,
        };
        let result = match formula.result {
            NormResult::Kept => rope_norm_result::Kept,
            NormResult::Rounded => rope_norm_result::Rounded,
            NormResult::Promoted => rope_norm_result::Promoted,
        };
        let flags = [
            formula.centered,
            formula.weighted,
            formula.one_plus_weight,
            formula.rounds_normed,
            formula.rounds_product,
        ];
        let got = norm(kind);
        let normed = [got.centered, got.weighted, got.one_plus_weight];
        let got_flags = [&normed[..], &[got.rounds_normed, got.rounds_product]].concat();
        assert_eq!(got_flags, flags.map(i32::from), "{kind:?}");
        let others = (got.result, got.eps, got.reach, got.order, got.sum);
        assert_eq!(others, (result as i32, 1e-6, 0, 0, 0), "{kind:?}");
        assert!(got.weight.data.is_null() && got.bias.data.is_null() && got.sums.is_null());
    }
    let unknown = next(rope_norm_formula::ALL, |kind| kind as i32);
    for unknown in [0, -1, unknown] {
        let status = call!(rope_norm_init(&mut zero(), unknown, 1e-5));
        assert_eq!(status, rope_status::UnknownValue);
    }
}

/// The transforms of engines, and the heads that they are refused for.
#[test]
fn presets_are_those_of_engines() {
    use rope_hadamard_preset as Preset;
    // The blocks of llama.cpp's keys and values; 0 is none.
    let blocks = [
        (0, 0, 0),
        (32, 0, 0),
        (64, 64, 64),
        (80, 0, 0),
        (96, 0, 0),
        (128, 128, 64),
        (192, 64, 64),
        (256, 256, 64),
        (512, 512, 64),
        (576, 64, 64),
        (2048, 2048, 64),
        (4096, 4096, 64),
        (usize::MAX, 0, 0),
    ];
    let first = rope_hadamard_factor::First as i32;
    let last = rope_hadamard_factor::Last as i32;
    for (head_dim, keys, values) in blocks {
        for &preset in Preset::ALL {
            let (block, factor) = match preset {
                Preset::LlamaCppKeys => (keys, first),
                Preset::LlamaCppValues => (values, first),
                Preset::Indexer => (head_dim, last),
            };
            let expected = match (preset, block) {
                (Preset::LlamaCppKeys | Preset::LlamaCppValues, 0) => Ok(()),
                _ => Hadamard::new(block).map(drop),
            };
            let untouched = rope_hadamard {
                block: 7,
                factor: 7,
            };
            let mut got = untouched;
            let status = call!(rope_hadamard_init(&mut got, preset as i32, head_dim));
            let case = format!("{preset:?} {head_dim}");
            let wanted = match expected {
                Ok(()) => [block as i64, factor.into()],
                Err(_) => [7, 7],
            };
            same(&case, status, expected);
            assert_eq!([got.block as i64, got.factor.into()], wanted, "{case}");
        }
    }
    for unknown in [0, -1, next(Preset::ALL, |preset| preset as i32)] {
        let mut got: rope_hadamard = zero();
        let status = call!(rope_hadamard_init(&mut got, unknown, 128));
        assert_eq!((status, got.block), (rope_status::UnknownValue, 0));
    }
}

/// Returns memory for a cache of any element, aligned to words. Its bytes are valid numbers in every format.
fn memory() -> Vec<u32> {
    let words = (BLOCKS * BLOCK_SIZE * HEADS * 128) as u32;
    (0..words).map(|i| 0x3c00_3c00 + i % 97 * 0x0101).collect()
}

/// Returns memory as elements.
fn elements<T>(memory: &mut [u32]) -> &mut [T] {
    let len = size_of_val(memory) / size_of::<T>();
    // SAFETY: used for numbers that are no more aligned than words; the words are borrowed.
    unsafe { std::slice::from_raw_parts_mut(memory.as_mut_ptr().cast(), len) }
}

/// Every order of a cache, parts of its channels, and extents that do not fit. The match is over all kinds, so that a
/// new one does not compile until it stands here; the bodies have strides.
#[test]
fn layouts_match_rope_core() {
    use rope_cache_layout_kind as Kind;
    let [n, s, h, d] = EXTENTS;
    let orders = Kind::ALL.iter().filter_map(|&kind| {
        let (extents, rust) = match kind {
            Kind::Nhd => ([n, s, h, d, 0], CacheLayout::nhd([n, s, h, d])),
            Kind::Hnd => ([n, h, s, d, 0], CacheLayout::hnd([n, h, s, d])),
            Kind::Hdn => ([n, h, d, s, 0], CacheLayout::hdn([n, h, d, s])),
            Kind::Hdnx => ([n, h, d / 8, s, 8], CacheLayout::hdnx([n, h, d / 8, s, 8])),
            Kind::Hndx => ([n, h, s / 4, d, 4], CacheLayout::hndx([n, h, s / 4, d, 4])),
            Kind::Strided => return None,
        };
        Some((
            with!(nhd([0; 4]); kind = kind as i32, extents = extents),
            rust,
        ))
    });
    // Keys after 32 other channels, and channels that end before they begin; another head; too many blocks.
    let others = [
        ([n, s, h, 128], [32, 96]),
        ([n, s, h, 128], [100, 32]),
        ([n, s, h + 1, d], [0, d]),
        ([usize::MAX, s, h, d], [0, d]),
    ];
    let others = others.map(|(extents, [first, end])| {
        let rust = CacheLayout::nhd(extents).and_then(|it| it.narrow_channels(first..end));
        (with!(nhd(extents); channels = [first, end]), rust)
    });
    let x = values::<bf16>(LEN);
    let (source, from) = (Tensor::new(&x, SHAPE).expect("valid"), view(&x, SHAPE));
    let rope = Rope::new(Pairing::Half);
    let slots = mapping(&MAPPING, rope_number::I32);
    for (c_layout, layout) in orders.chain(others) {
        let [mut a, mut b] = [(); 2].map(|()| memory());
        let made = layout.and_then(|layout| CacheMut::new(elements::<f16>(&mut a), layout));
        let outcome =
            made.and_then(|mut cache| rope.apply_into(&source, &mut cache.slots(&MAPPING[..])));
        let right = outcome.is_ok();
        let cache = cache(&mut b, Format::F16, c_layout);
        let to = in_slots(&cache, &slots);
        let status = call!(rope_apply_into(&plan(rope_pairing::Half), &from, &to));
        let case = format!("{c_layout:?}");
        same(&case, status, outcome);
        assert!(a == b && (a != memory()) == right, "{case}");
    }
}

/// Groups of slots with scales by channel: written, shifted and moved as rope-core does, and a part of one is refused.
#[test]
fn channels_match_rope_core() {
    const GROUP: usize = 16;
    const SHAPE: [usize; 4] = [1, 2 * GROUP, 2, 32];
    let x = values::<bf16>(2 * GROUP * 2 * 32);
    let (source, from) = (Tensor::new(&x, SHAPE).expect("valid"), view(&x, SHAPE));
    let (rope, c_plan) = (Rope::new(Pairing::Half), plan(rope_pairing::Half));
    let frequencies = Frequencies::new(32, 10_000.0, &Scaling::Default).expect("valid");
    let shift = frequencies.shift(&[-7; 2 * GROUP]).expect("valid");
    let [mut table, mut c_table] = [(); 2].map(|()| vec![0.0; 2 * GROUP * 32]);
    shift.rows_in(&mut c_table).expect("valid");
    let rows = shift.rows_in(&mut table).expect("valid");
    let c_rows = joined(&c_table, 32);
    let layout = CacheLayout::hnd([3, 2, GROUP, 32]).expect("valid");
    let hnd = rope_cache_layout_kind::Hnd as i32;
    let c_layout = with!(nhd([3, 2, GROUP, 32]); kind = hnd);
    let mut refusals = Refusals::default();
    for (format, codes) in [
        (Format::U8ByChannel, ChannelCodes::U8),
        (Format::U4ByChannel, ChannelCodes::U4),
        (Format::Kivi2, ChannelCodes::Kivi2),
        (Format::Kivi4, ChannelCodes::Kivi4),
    ] {
        let (mut a, mut b) = (memory(), memory());
        let made = CacheFormat::by_channel(codes, GROUP);
        let mut keys = CacheMut::coded(elements(&mut a), layout, made).expect("valid");
        let cache = with!(cache(&mut b, format, c_layout); scale.tokens = GROUP);
        let case = format!("{format:?}");
        for (first, slots) in [(16, 16..48), (8, 8..40)] {
            let slots_of_c = range(first, 2 * GROUP);
            let to = in_slots(&cache, &slots_of_c);
            let status = call!(rope_apply_into(&c_plan, &from, &to));
            let expected = rope.apply_into(&source, &mut keys.slots(slots.clone()));
            same(&case, status, expected);
            let status = call!(rope_rotate(&c_plan, &to, &c_rows));
            same(&case, status, rope.rotate(&mut keys.slots(slots), &rows));
        }
        let (from_slots, to_slots) = (range(32, GROUP), range(0, GROUP));
        let status = call!(rope_move_slots(&cache, &from_slots, &to_slots));
        same(&case, status, keys.move_slots(32..48, 0..16));
        assert!(a == b && a != memory(), "{case}");
        let part = range(8, 2 * GROUP);
        let to = in_slots(&cache, &part);
        let none = with!(cache; scale = zero());
        refused!(
            refusals,
            rope_apply_into(&c_plan, &from, &to),
            rope_move_slots(&none, &from_slots, &to_slots),
        );
        assert!(a == b, "{case}");
    }
    compare!(refusals, "channels");
}

/// Scales in one list and zero points in another, which are too short, collide, or which the codes have not. The bodies
/// write, read, shift and move such caches, and prepare the calls.
#[test]
fn refused_zeros() {
    const COUNT: usize = SCALES * 2;
    let (x, mut memory, mut refusals) = (values::<bf16>(LEN), memory(), Refusals::default());
    let [mut scales, mut zeros] = [(); 2].map(|()| vec![0.5_f32; COUNT]);
    let (from, slots) = (view(&x, SHAPE), mapping(&MAPPING, rope_number::I32));
    let (plan, zero_point) = (plan(rope_pairing::Half), rope_group_scale::ZeroPoint);
    let made = with!(
        quant_scale(ScaleKind::MadeApart, 0.0);
        group = zero_point as i32, channels = HEAD_DIM / 2, strides = [2 * BLOCK_SIZE * HEADS, 2 * HEADS, 2]
    );
    let right = with!(
        cache(&mut memory, Format::U8, nhd(EXTENTS));
        scale = made, scales = scales.as_mut_ptr().cast(), scales_count = COUNT, zeros = zeros.as_mut_ptr().cast()
    );
    let call = |cache: &rope_cache| call!(rope_apply_into(&plan, &from, &in_slots(cache, &slots)));
    spoil!(refusals, right => call(&right);
        right.scales_count -= 1;
        right.zeros = right.scales;
        right.zeros = right.memory;
        right.zeros = right.zeros.wrapping_byte_add(1);
        right.zeros = null_mut();
        right.format = Format::E4m3 as i32;
    );
    let (to, mut prepared) = (in_slots(&right, &slots), zero());
    ok!(rope_prepare_into(&plan, &from, &to, null(), &mut prepared));
    let unused = with!(zero::<rope_call_memory>(); zeros_next = right.zeros);
    refused!(refusals, rope_call_run_at(&prepared, &unused));
    assert!(memory == self::memory() && [scales, zeros] == [(); 2].map(|()| vec![0.5; COUNT]));
    compare!(refusals, "zeros");
}

/// Moves of slots that are refused, and move nothing. The suite `moves` has any moves of any cache over C.
#[test]
fn refused_moves() {
    let (start, mut refusals) = (memory(), Refusals::default());
    let mut memory = start.clone();
    let codes = with!(
        cache(&mut memory, Format::E4m3, nhd([1, 8, 1, 12]));
        layout.channels = [0, 8], scale = quant_scale(ScaleKind::MadeInline, 0.0), scale.behind = 8
    );
    let list = |slots: &[i32]| mapping(slots, rope_number::I32);
    let (from, to) = (list(&[2, 3, -1, 7]), list(&[0, 1, 4, 2]));
    let inside = with!(from; slots.values = codes.memory);
    refused!(
        refusals,
        rope_move_slots(&codes, &inside, &to),
        rope_move_slots(&codes, &from, &inside),
        rope_move_slots(&codes, &list(&[9, 0, 0, 0]), &to),
        rope_move_slots(&codes, &range(0, 3), &range(1, 4)),
        rope_move_slots(&codes, &list(&[0, 1]), &list(&[1, 0])),
        rope_move_slots(&codes, &range(0, 2), &list(&[5, 5])),
    );
    each!(rope_move_slots(cache, from, to); cache = &codes, from = &from, to = &to);
    assert!(memory == start);
    compare!(refusals, "moves");
}

/// All that a write names, to be spoilt.
#[derive(Clone, Copy)]
struct Named {
    norm: rope_norm,
    scale: rope_scale,
    k: rope_operand,
    keys: rope_cache,
    slots: rope_slots,
    rows: rope_angles,
}

impl Named {
    fn call(&self) -> rope_status {
        let to = in_slots(&self.keys, &self.slots);
        let plan = stages(&self.norm, &self.scale);
        call!(rope_rotate_into(&plan, &self.k, &to, &self.rows))
    }

    /// Takes the slots by their offsets.
    fn offsets(&mut self, offsets: *const i64) {
        self.slots = with!(
            zero::<rope_slots>();
            kind = SlotsKind::Offsets as i32, count = TOKENS, offsets = offsets
        );
    }

    /// Takes one list for all lists of slots of a kind.
    fn listed(&mut self, kind: SlotsKind, list: rope_ids) {
        self.slots = with!(
            zero::<rope_slots>();
            kind = kind as i32, width = 1, slots = list, pages = list, starts = list, sequences = list,
            positions = list
        );
    }

    /// Takes one given scale for each head.
    fn given(&mut self, each: *const f32) {
        let given = quant_scale(ScaleKind::Multiply, 0.0);
        self.keys.scale = with!(given; each = each, each_count = HEADS);
    }

    /// Takes a scale that the call makes for groups of 32 channels.
    fn grouped(&mut self, format: Format, group: i32) {
        self.keys.format = format as i32;
        (self.keys.scale.group, self.keys.scale.channels) = (group, 32);
    }
}

/// Arguments that are null, misaligned, unknown, too long, in the way of another, or refused by rope-core. The cache is
/// not written.
#[test]
fn refusals() {
    let (table, weight) = (table(48, 3, TOKENS), values::<f32>(HEAD_DIM));
    let each: Vec<f32> = (0..TOKENS).map(|i| 0.5 + (i % 7) as f32 / 16.0).collect();
    let (mut k, mut keys, mut scales) = (values::<f32>(LEN), memory(), vec![0.5_f32; SCALES]);
    let made = with!(
        quant_scale(ScaleKind::MadeApart, 0.0);
        least = 1e-6, strides = [BLOCK_SIZE * HEADS, HEADS, 1]
    );
    let right = Named {
        norm: with!(norm(rope_norm_formula::Llama4); weighted = 1, weight = weights(&weight)),
        scale: with!(
            zero::<rope_scale>();
            kind = rope_scale_kind::PerToken as i32, factors = each.as_ptr(), count = TOKENS
        ),
        k: tensor(&mut k, SHAPE),
        keys: with!(
            cache(&mut keys, Format::E4m3, nhd(EXTENTS));
            scale = made, scales = scales.as_mut_ptr().cast(), scales_count = SCALES
        ),
        slots: mapping(&MAPPING, rope_number::I32),
        rows: joined(&table, 48),
    };
    let mut refusals = Refusals::default();
    for wrong in [rope_status::Null, rope_status::Misaligned] {
        spoil!(refusals, right => right.call();
            right.norm.weight.data = right.norm.weight.data.spoil(true, wrong);
            {
                right.norm.bias = right.norm.weight;
                right.norm.bias.data = right.norm.bias.data.spoil(true, wrong);
            };
            (right.norm.sums, right.norm.sums_count) = (right.scale.factors.spoil(true, wrong), TOKENS);
            right.scale.factors = right.scale.factors.spoil(true, wrong);
            right.k.data = right.k.data.spoil(true, wrong);
            right.keys.scales = right.keys.scales.spoil(true, wrong);
            right.slots.slots.values = right.slots.slots.values.spoil(true, wrong);
            right.offsets(right.scale.factors.spoil(true, wrong).cast());
            right.given(right.scale.factors.spoil(true, wrong));
            {
                right.keys.format = Format::Bf16 as i32;
                right.keys.memory = right.keys.memory.spoil(true, wrong);
            };
        );
    }
    let far = [i64::MAX; TOKENS];
    spoil!(refusals, right => right.call();
        right.keys.memory = null_mut();
        right.norm.result = 99;
        right.norm.reach = 99;
        right.norm.order = 99;
        right.norm.sum = 99;
        right.scale.order = 99;
        right.slots.slots.number = rope_number::F64 as i32;

        right.norm.weight.count = usize::MAX;
        right.scale.count = usize::MAX / 4;
        right.keys.bytes = usize::MAX;
        right.keys.scales_count = usize::MAX;
        right.slots.slots.count = isize::MAX as usize;
        right.slots = range(usize::MAX - 3, TOKENS);

        // The written memory is apart from all that is read or written besides.
        right.k.data = right.keys.memory;
        right.k.data = right.keys.memory.wrapping_byte_add(256);
        right.norm.weight.data = right.keys.memory;
        right.norm.bias = with!(right.norm.weight; data = right.keys.memory);
        (right.norm.sums, right.norm.sums_count) = (right.keys.memory.cast(), TOKENS);
        right.rows.cos = right.keys.memory.cast();
        right.keys.scales = right.keys.memory.cast();
        right.scale.factors = right.keys.scales.cast();
        right.offsets(right.keys.memory.cast());
        right.given(right.keys.memory.cast());

        // Refusals of rope-core.
        right.norm.eps = f32::NAN;
        right.norm.weight.count = 63;
        right.scale.count = 9;
        (right.norm.sums, right.norm.sums_count, right.norm.centered) = (right.scale.factors, TOKENS, 1);
        right.keys.layout.extents[2] = 2;
        right.keys.layout.extents = [usize::MAX; 5];
        right.keys.layout.channels = [3, 2];
        right.keys.bytes = 4000;
        right.keys.scales_count = SCALES - 1;
        right.slots.slots.count = 9;
        right.slots = mapping(&[9, 4, -1, 32, 0, 17, 18, 3, 30, 12], rope_number::I32);
        right.listed(SlotsKind::Sequences, right.slots.slots);
        right.offsets(far.as_ptr());
        { right.offsets(far.as_ptr()); right.keys.scale = quant_scale(ScaleKind::Divide, 1.0) };
        right.rows.len -= 48;
    );
    for number in [0, 99] {
        spoil!(refusals, right => right.call();
            right.norm.weight.element = number;
            right.scale.kind = number;
            right.k.element = number;
            right.keys.format = number;
            right.keys.layout.kind = number;
            right.keys.scale.kind = number;
            right.slots.kind = number;
            right.slots.slots.number = number;
        );
    }

    // Each list of each kind of slots lies in the cache.
    use SlotsKind::{Mapping, PackedTable, Pages, Sequences, Table};
    let (list, inside) = (right.slots.slots, right.keys.memory.cast_const());
    for kind in [Mapping, Pages, Table, Sequences] {
        let used: &[&str] = match kind {
            Mapping => &["slots"],
            Pages => &["pages", "starts", "sequences", "positions"],
            Table => &["pages", "positions"],
            _ => &["positions"],
        };
        for list_of in used {
            let mut named = right;
            named.listed(kind, list);
            match *list_of {
                "slots" => named.slots.slots.values = inside,
                "pages" => named.slots.pages.values = inside,
                "starts" => named.slots.starts.values = inside,
                "sequences" => named.slots.sequences.values = inside,
                _ => named.slots.positions.values = inside,
            }
            refusals.add(named.call(), list_of);
        }
    }
    // One sequence, whose offsets are right ones; and tables of two sequences with a negative page.
    let offsets_of_one = [0, TOKENS as i32];
    let (pages, listed) = ([-3_i32, 2], [0_i32, 1, 2, 3, 4, 0, 1, 2, 3, 4]);
    let (mut packed, mut table) = (right, right);
    packed.listed(PackedTable, list);
    packed.slots.starts = ids(&offsets_of_one, rope_number::I32);
    packed.slots.positions.count = 1;
    table.listed(Table, ids(&pages, rope_number::I32));
    table.slots.positions = ids(&listed, rope_number::I32);
    spoil!(refusals, packed => packed.call();
        packed.slots.pages.values = inside;
        packed.slots.positions.values = inside;
        packed.keys.scales = offsets_of_one.as_ptr().cast_mut().cast();
        {
            packed.slots.pages = ids(&pages, rope_number::I32);
            packed.slots.starts = ids(&listed[1..], rope_number::I32);
            packed.slots.positions = ids(&listed[..8], rope_number::I32);
        };
    );
    // A table without width has no pages.
    refused!(refusals, table.call());
    spoil!(refusals, table => table.call(); table.slots.width = 0;);

    let block = BLOCK_SIZE * HEADS * HEAD_DIM;
    use rope_group_scale::{E8m0, Even, Floor, Minimum, PowerOfTwo, Quotient, Up, ZeroPoint};
    spoil!(refusals, right => right.call();
        // Scales of groups are made, in ways of their own.
        right.grouped(Format::Mxfp4, Quotient as i32);
        right.grouped(Format::E4m3In64, Floor as i32);
        right.grouped(Format::U4, Floor as i32);
        right.grouped(Format::Mxfp8, 99);
        { right.grouped(Format::Nvfp4, 0); right.keys.scale.kind = ScaleKind::Divide as i32 };
        // Parts that do not fill a head.
        { right.grouped(Format::U8, ZeroPoint as i32); right.keys.scale.channels = 31 };
        { right.grouped(Format::U8, ZeroPoint as i32); right.keys.scale.channels = usize::MAX };
        // Scales in a block lie apart from its codes.
        {
            right.keys.scale = quant_scale(ScaleKind::MadeInBlock, 0.0);
            (right.keys.scale.behind, right.keys.scale.strides) = (block - 96, [block, 4 * HEADS, 4]);
        };
        {
            (right.k.layout.shape, right.keys.layout.extents) = ([0, 5, HEADS, 2049], [0, 8, HEADS, 2049, 0]);
            (right.slots.slots.count, right.scale.count, right.rows.len) = (0, 0, 0);
        };
    );
    assert!(keys == memory(), "a refused call has written");
    assert!(scales.iter().all(|&scale| scale == 0.5));
    assert_eq!(right.call(), rope_status::Ok);
    assert!(keys != memory());
    compare!(refusals, "caches");
    for (format, own) in [
        (Format::Mxfp4, &[Floor, Even, Up][..]),
        (Format::Mxfp8, &[Floor, Even, Up]),
        (Format::E4m3In128, &[Quotient, PowerOfTwo, E8m0]),
        (Format::E4m3In64, &[Quotient, PowerOfTwo, E8m0]),
        (Format::U8, &[ZeroPoint, Minimum]),
        (Format::U4, &[ZeroPoint, Minimum]),
    ] {
        for &group in rope_group_scale::ALL {
            let mut named = right;
            named.grouped(format, group as i32);
            let known = named.call() != rope_status::UnknownValue;
            assert_eq!(known, own.contains(&group), "{format:?}, {group:?}");
        }
    }
}

/// Rules that random values seldom tell apart: ties of a quotient, of which a product with the reciprocal makes none,
/// and scales of one group.
#[test]
fn rules_match_rope_core() {
    const CHANNELS: usize = 64;
    // The maxima of two groups: a rule rounds one of them up.
    let step = |i| if i < 32 { 52.0 } else { 61.0 };
    let x: Vec<f32> = (0..CHANNELS).map(|i| step(i) * (i as f32 - 31.5)).collect();
    let (shape, whole) = ([1, 1, 1, CHANNELS], [1, 1, 1, 2 * CHANNELS]);
    let (source, from) = (Tensor::new(&x, shape).expect("valid"), view(&x, shape));
    let layout = CacheLayout::nhd(whole).and_then(|it| it.narrow_channels(0..CHANNELS));
    let layout = layout.expect("valid");
    let c_layout = with!(nhd(whole); channels = [0, CHANNELS]);
    let (at, given) = (ScalePlace::Inline(CHANNELS), HeadScales::Same(61.0));
    let made = |group: rope_group_scale| {
        let scale = quant_scale(ScaleKind::MadeInline, 0.0);
        with!(scale; least = 1e-6, behind = CHANNELS, group = group as i32)
    };
    type Given = fn(HeadScales<'static>) -> QuantScale<'static>;
    let int8 = |format, code, kind, scale: Given| {
        let rust = CacheFormat::quantized(code, scale(given));
        (format, quant_scale(kind, 61.0), rust)
    };
    let mx = |group, rule| {
        (
            Format::Mxfp4,
            made(group),
            CacheFormat::by_group(GroupCodes::Mxfp4(rule), at),
        )
    };
    let tile = |group, rule| {
        let rust = CacheFormat::by_group(GroupCodes::E4m3In64(rule), at);
        (Format::E4m3In64, made(group), rust)
    };
    use QuantFormat::{Int8Even, Int8RoundAway};
    use ScaleKind::{Divide, Reciprocal};
    use rope_group_scale::{E8m0, Even, Floor, PowerOfTwo, Quotient, Up};
    let (least, away) = (1e-6, Format::Int8RoundAway);
    let mut seen: Vec<(Format, [u8; 2 * CHANNELS])> = Vec::new();
    for (format, scale, rust) in [
        int8(Format::Int8Even, Int8Even, Divide, QuantScale::Divide),
        int8(
            Format::Int8Even,
            Int8Even,
            Reciprocal,
            QuantScale::Reciprocal,
        ),
        int8(away, Int8RoundAway, Divide, QuantScale::Divide),
        mx(Floor, MxScale::Floor),
        mx(Even, MxScale::Even),
        mx(Up, MxScale::Up),
        tile(E8m0, TileScale::E8m0 { least }),
        tile(Quotient, TileScale::Quotient { least }),
        tile(PowerOfTwo, TileScale::PowerOfTwo { least }),
    ] {
        let [mut a, mut b] = [[0_u8; 2 * CHANNELS]; 2];
        let mut target = CacheMut::coded(&mut a, layout, rust).expect("valid");
        let rope = Rope::new(Pairing::Half);
        rope.apply_into(&source, &mut target.slots(0..1))
            .expect("valid");
        let cache = with!(cache(&mut b, format, c_layout); scale = scale);
        let slots = range(0, 1);
        let to = in_slots(&cache, &slots);
        ok!(rope_apply_into(&plan(rope_pairing::Half), &from, &to));
        assert_eq!(b, a, "{format:?}");
        seen.push((format, b));
    }
    for (index, code) in seen.iter().enumerate() {
        assert!(!seen[..index].contains(code), "{index}: {code:?}");
    }
}

/// Slots that are given by their offsets: the last of a cache whose scales lie after the codes, and those of a cache
/// without heads. And more slots than can be looked at one by one.
#[test]
fn offsets_and_ranges_at_the_ends() {
    let x = values::<f32>(8);
    let plan = plan(rope_pairing::Half);
    let mut refusals = Refusals::default();
    let from = view(&x, [1, 1, 1, 8]);
    let copy = |from: &rope_operand, cache: &rope_cache, slots: rope_slots| {
        call!(rope_apply_into(&plan, from, &in_slots(cache, &slots)))
    };
    let offset = |offset: &i64| {
        let (kind, none) = (SlotsKind::Offsets as i32, zero::<rope_slots>());
        with!(none; kind = kind, offsets = offset, count = 1)
    };
    let mut memory = [0_u8; 24];
    let layout = with!(nhd([1, 2, 1, 12]); channels = [0, 8]);
    let inline = with!(quant_scale(ScaleKind::MadeInline, 0.0); behind = 8);
    let inline = with!(cache(&mut memory, Format::E5m2, layout); scale = inline);
    refused!(refusals, copy(&from, &inline, offset(&13)));
    assert_eq!(memory, [0; 24]);
    ok!(copy(&from, &inline, offset(&12)));
    assert!(memory[..12] == [0; 12] && memory[12..20] != [0; 8] && memory[20..] != [0; 4]);

    // A chunk of any number of channels, which lie apart.
    let strided = with!(nhd([1, 1, 1, 8]); kind = rope_cache_layout_kind::Strided as i32);
    let apart = with!(
        strided;
        strides.group = usize::MAX, strides.chunk = usize::MAX, strides.channel = 3
    );
    let mut wide = [f16::ZERO; 22];
    let narrow = cache(&mut wide[..21], Format::F16, apart);
    refused!(refusals, copy(&from, &narrow, range(0, 1)));
    let wider = cache(&mut wide, Format::F16, apart);
    ok!(copy(&from, &wider, range(0, 1)));
    let written = wide.iter().enumerate().filter(|(_, x)| x.to_bits() != 0);
    assert!(written.map(|(at, _)| at).eq((0..22).step_by(3)));

    let endless = 1 << (usize::BITS - 8);
    let none = with!(
        strided;
        extents = [1, endless, 0, 8, 0], strides.group = endless, strides.token = 8, strides.chunk = 8,
        strides.channel = 1
    );
    let none = cache(&mut memory, Format::E5m2, none);
    let none = with!(none; scale = quant_scale(ScaleKind::Divide, 1.0));
    let mut empty = with!(from; layout.shape = [1, 1, 0, 8]);
    ok!(copy(&empty, &none, offset(&24)));
    refused!(refusals, copy(&empty, &none, offset(&25)));
    empty.layout.shape[1] = endless;
    ok!(copy(&empty, &none, range(0, endless)));
    compare!(refusals, "ends");
}
