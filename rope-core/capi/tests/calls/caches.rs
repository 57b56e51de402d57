//! Norms and transforms by name, and caches: formats, layouts, scales and slots, each where C names it. The bodies have
//! any verb, scale and slots over C, in strided layouts.

use rope_core::Error;
use rope_core::cache::{
    Asymmetric, BlockFormat, CacheFormat, CacheLayout, CacheMut, CacheShape, CacheStrides,
    HeadScales, MxScale, QuantFormat, QuantScale, ScaleLayout, ScalePlace, TileScale,
};
use rope_core::internals::Renamed;
use rope_core::norm::{Norm, NormFormula, NormResult};
use rope_core::stages::{Hadamard, HadamardFactor};

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
        let got = norm(kind);
        let flags = [
            (got.centered, formula.centered),
            (got.weighted, formula.weighted),
            (got.one_plus_weight, formula.one_plus_weight),
            (got.rounds_normed, formula.rounds_normed),
            (got.rounds_product, formula.rounds_product),
        ];
        for (at, (got, expected)) in flags.into_iter().enumerate() {
            assert_eq!(got, i32::from(expected), "{kind:?}, flag {at}");
        }
        assert_eq!((got.result, got.eps), (result as i32, 1e-6), "{kind:?}");
        assert_eq!((got.reach, got.order, got.sum), (0, 0, 0));
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
fn presets_match_rope_core() {
    use rope_hadamard_preset as Preset;
    for &preset in Preset::ALL {
        for head_dim in [0, 32, 64, 80, 96, 128, 192, 576, 2048, 4096, usize::MAX] {
            let expected = match preset {
                Preset::LlamaCppKeys => Hadamard::llama_cpp_keys(head_dim),
                Preset::LlamaCppValues => Ok(Hadamard::llama_cpp_values(head_dim)),
                Preset::Indexer => Hadamard::new(head_dim).map(Some),
            };
            let (block, factor) = (7, 7);
            let mut got = rope_hadamard { block, factor };
            let status = call!(rope_hadamard_init(&mut got, preset as i32, head_dim));
            let case = format!("{preset:?} {head_dim}");
            same(&case, status, expected.map(drop));
            let Ok(expected) = expected else {
                assert_eq!((got.block, got.factor), (7, 7), "{case}");
                continue;
            };
            let factor = match got.factor {
                0 => HadamardFactor::Last,
                _ => HadamardFactor::First,
            };
            let named = (got.block > 0).then(|| Hadamard::new(got.block).expect("valid"));
            assert_eq!(named.map(|it| it.with_factor(factor)), expected, "{case}");
        }
    }
    for unknown in [0, -1, next(Preset::ALL, |preset| preset as i32)] {
        let mut got: rope_hadamard = zero();
        let status = call!(rope_hadamard_init(&mut got, unknown, 128));
        assert_eq!((status, got.block), (rope_status::UnknownValue, 0));
    }
}

/// Returns the places of the elements of a cache, in both languages.
fn layouts() -> Vec<(rope_cache_layout, Result<CacheLayout, Error>)> {
    let [n, s, h, d] = EXTENTS;
    let mut all = Vec::new();
    for &kind in rope_cache_layout_kind::ALL {
        use rope_cache_layout_kind as Kind;
        let mut c: rope_cache_layout = zero();
        c.kind = kind as i32;
        let rust;
        (c.extents, rust) = match kind {
            Kind::Nhd => ([n, s, h, d, 0], CacheLayout::nhd([n, s, h, d])),
            Kind::Hnd => ([n, h, s, d, 0], CacheLayout::hnd([n, h, s, d])),
            Kind::Hdn => ([n, h, d, s, 0], CacheLayout::hdn([n, h, d, s])),
            Kind::Hdnx => ([n, h, d / 8, s, 8], CacheLayout::hdnx([n, h, d / 8, s, 8])),
            Kind::Hndx => ([n, h, s / 4, d, 4], CacheLayout::hndx([n, h, s / 4, d, 4])),
            // Every stride another number: groups of four slots, chunks of 16 channels, gaps everywhere.
            Kind::Strided => {
                let strides = CacheStrides {
                    block: 3000,
                    group: 4,
                    group_stride: 1400,
                    token: 340,
                    head: 110,
                    chunk: 16,
                    chunk_stride: 26,
                    channel: 1,
                };
                c.strides = rope_cache_strides {
                    block: 3000,
                    group: 4,
                    group_stride: 1400,
                    token: 340,
                    head: 110,
                    chunk: 16,
                    chunk_stride: 26,
                    channel: 1,
                };
                let shape = CacheShape {
                    blocks: n,
                    block_size: s,
                    heads: h,
                    head_dim: d,
                };
                ([n, s, h, d, 0], CacheLayout::strided(shape, strides))
            }
        };
        all.push((c, rust));
    }
    let of = |[blocks, width, heads]: [usize; 3], channels: [usize; 2]| {
        let extents = [blocks, BLOCK_SIZE, heads, width];
        let (c, rust) = (nhd(extents), CacheLayout::nhd(extents));
        let narrowed = |rust: CacheLayout| rust.narrow_channels(channels[0]..channels[1]);
        let part = if channels == [0, 0] {
            rust
        } else {
            rust.and_then(narrowed)
        };
        (rope_cache_layout { channels, ..c }, part)
    };
    all.extend([
        // Keys after 32 other channels, and channels that end before they begin; another head; too many blocks.
        of([BLOCKS, 128, HEADS], [32, 96]),
        of([BLOCKS, 128, HEADS], [100, 32]),
        of([BLOCKS, HEAD_DIM, HEADS + 1], [0, 0]),
        of([usize::MAX, HEAD_DIM, HEADS], [0, 0]),
    ]);
    all
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

/// Returns a format in both languages: of codes with one scale, or with scales of groups that lie apart. The match is
/// over all formats, so that a new one does not compile until it stands here.
fn formats(format: Format) -> (CacheFormat<'static>, rope_quant_scale) {
    let strides = [BLOCK_SIZE * HEADS * HEAD_DIM, HEADS * HEAD_DIM, HEAD_DIM];
    let [block, token, head] = strides;
    let at = ScalePlace::Separate(ScaleLayout { block, token, head });
    let least = f32::MIN_POSITIVE;
    let made = |group: rope_group_scale| rope_quant_scale {
        least,
        group: group as i32,
        strides,
        ..quant_scale(ScaleKind::MadeApart, 0.25)
    };
    let blocks = |format: &'static BlockFormat| (CacheFormat::from(format), zero());
    let scaled = |format| {
        let scale = QuantScale::Divide(HeadScales::Same(0.03125));
        let c_scale = quant_scale(ScaleKind::Divide, 0.03125);
        (CacheFormat::quantized(format, scale), c_scale)
    };
    let grouped = |tokens| rope_quant_scale { tokens, ..zero() };
    let parts = |group| rope_quant_scale {
        channels: 32,
        ..made(group)
    };
    use rope_group_scale::{Even, Floor, Minimum, PowerOfTwo, Quotient, Up, ZeroPoint};
    match format {
        Format::F32 => (CacheFormat::element::<f32>(), zero()),
        Format::F16 => (CacheFormat::element::<f16>(), zero()),
        Format::Bf16 => (CacheFormat::element::<bf16>(), zero()),
        Format::Q8_0 => blocks(BlockFormat::Q8_0),
        Format::Q4_0 => blocks(BlockFormat::Q4_0),
        Format::Q4_1 => blocks(BlockFormat::Q4_1),
        Format::Q5_0 => blocks(BlockFormat::Q5_0),
        Format::Q5_1 => blocks(BlockFormat::Q5_1),
        Format::Iq4Nl => blocks(BlockFormat::IQ4_NL),
        Format::U8In32 => blocks(BlockFormat::U8_IN_32),
        Format::U8In64 => blocks(BlockFormat::U8_IN_64),
        Format::U8In128 => blocks(BlockFormat::U8_IN_128),
        Format::U4In32 => blocks(BlockFormat::U4_IN_32),
        Format::U4In64 => blocks(BlockFormat::U4_IN_64),
        Format::U4In128 => blocks(BlockFormat::U4_IN_128),
        Format::E4m3 => scaled(QuantFormat::E4m3),
        Format::E5m2 => scaled(QuantFormat::E5m2),
        Format::E5m2Saturating => scaled(QuantFormat::E5m2Saturating),
        Format::Int8Even => scaled(QuantFormat::Int8Even),
        Format::Int8RoundAway => scaled(QuantFormat::Int8RoundAway),
        Format::Mxfp4 => (CacheFormat::mxfp4(MxScale::Even, at), made(Even)),
        Format::Mxfp8 => (CacheFormat::mxfp8(MxScale::Up, at), made(Up)),
        Format::Nvfp4 => (CacheFormat::nvfp4(0.25, at), made(Floor)),
        Format::E4m3In128 => {
            let scale = TileScale::PowerOfTwo { least };
            (CacheFormat::e4m3_in_128(scale, at), made(PowerOfTwo))
        }
        Format::E4m3In64 => {
            let scale = TileScale::Quotient { least };
            (CacheFormat::e4m3_in_64(scale, at), made(Quotient))
        }
        Format::U8 => (
            CacheFormat::u8(Asymmetric::ZeroPoint, 32, at),
            parts(ZeroPoint),
        ),
        Format::U4 => (CacheFormat::u4(Asymmetric::Minimum, 32, at), parts(Minimum)),
        Format::U8ByChannel => (CacheFormat::u8_by_channel(BLOCK_SIZE), grouped(BLOCK_SIZE)),
        Format::U4ByChannel => (CacheFormat::u4_by_channel(BLOCK_SIZE), grouped(BLOCK_SIZE)),
        Format::Kivi2 => (CacheFormat::kivi2(BLOCK_SIZE), grouped(BLOCK_SIZE)),
        Format::Kivi4 => (CacheFormat::kivi4(BLOCK_SIZE), grouped(BLOCK_SIZE)),
    }
}

/// Every format in every layout: a norm, a rotation and the write.
#[test]
fn formats_and_layouts_match_rope_core() {
    let (table, weight) = (table(48, 3, TOKENS), values::<bf16>(HEAD_DIM));
    let rows = Rows::new(&table, [TOKENS, 48]).expect("valid");
    let mut c_norm = norm(rope_norm_formula::Llama);
    c_norm.weight = weights(&weight);
    let (c_plan, c_rows) = (stages(&c_norm, null()), joined(&table, 48));
    let norm = Norm::new(NormFormula::LLAMA, 1e-6).with_weight(&weight[..]);
    let rope = Rope::new(Pairing::Half).with_norm(norm);
    let x = values::<bf16>(LEN);
    let (source, from) = (Tensor::new(&x, SHAPE).expect("valid"), view(&x, SHAPE));
    let (slots, mut written) = (mapping(&MAPPING, rope_number::I32), 0);
    for &format in Format::ALL {
        for (c_layout, layout) in layouts() {
            let (rust, scale) = formats(format);
            let [mut a, mut b, mut a_scales, mut b_scales] = [(); 4].map(|()| memory());
            let singles = matches!(
                format,
                Format::E4m3In128 | Format::E4m3In64 | Format::U8 | Format::U4
            );
            let made = layout.and_then(|layout| {
                let (codes, scales) = (elements::<u8>(&mut a), &mut a_scales);
                match singles {
                    true => {
                        CacheMut::coded_with_scales(codes, layout, rust, elements::<f32>(scales))
                    }
                    false => {
                        CacheMut::coded_with_scales(codes, layout, rust, elements::<u8>(scales))
                    }
                }
            });
            let outcome = made.and_then(|mut cache| {
                rope.rotate_into(&source, &mut cache.slots(&MAPPING[..]), &rows)
            });
            let cache = rope_cache {
                scale,
                scales: b_scales.as_mut_ptr().cast(),
                scales_count: b_scales.len() * if singles { 1 } else { 4 },
                ..cache(&mut b, format, c_layout)
            };
            let to = in_slots(&cache, &slots);
            let status = call!(rope_rotate_into(&c_plan, &from, &to, &c_rows));
            let case = format!("{format:?}, {c_layout:?}");
            same(&case, status, outcome);
            assert!(a == b && a_scales == b_scales, "{case}");
            written += usize::from(a != memory());
        }
    }
    // Most cases are right ones.
    assert!(written > 80, "{written}");
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
    let mut table = vec![0.0; 2 * GROUP * 32];
    let rows = shift.rows_in(&mut table).expect("valid");
    let layout = CacheLayout::hnd([3, 2, GROUP, 32]).expect("valid");
    let c_layout = rope_cache_layout {
        kind: rope_cache_layout_kind::Hnd as i32,
        extents: [3, 2, GROUP, 32, 0],
        ..zero()
    };
    let mut c_table = vec![0.0; 2 * GROUP * 32];
    shift.rows_in(&mut c_table).expect("valid");
    let c_rows = joined(&c_table, 32);
    let mut refusals = Refusals::default();
    for (format, made) in [
        (Format::U8ByChannel, CacheFormat::u8_by_channel(GROUP)),
        (Format::U4ByChannel, CacheFormat::u4_by_channel(GROUP)),
        (Format::Kivi2, CacheFormat::kivi2(GROUP)),
        (Format::Kivi4, CacheFormat::kivi4(GROUP)),
    ] {
        let (mut a, mut b) = (memory(), memory());
        let mut keys = CacheMut::coded(elements(&mut a), layout, made).expect("valid");
        let mut cache = cache(&mut b, format, c_layout);
        cache.scale.tokens = GROUP;
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
        let none = rope_cache {
            scale: zero(),
            ..cache
        };
        refused!(
            refusals,
            rope_apply_into(&c_plan, &from, &to),
            rope_move_slots(&none, &from_slots, &to_slots),
        );
        assert!(a == b, "{case}");
    }
    compare!(refusals, "channels");
}

/// Moves of slots, with their scales; and the refusals, which move nothing.
#[test]
fn moves_match_rope_core() {
    let extents = [1, 8, 1, 12];
    let whole = CacheLayout::nhd(extents).expect("valid");
    let layout = whole.narrow_channels(0..8).expect("valid");
    let format = CacheFormat::quantized(
        QuantFormat::E4m3,
        QuantScale::Computed {
            least: 1e-6,
            at: ScalePlace::Inline(8),
        },
    );
    let start: Vec<u32> = memory()[..24].to_vec();
    let (mut a, mut b) = (start.clone(), start.clone());
    let (from, to) = ([2_i32, 3, -1, 7], [0_i64, 1, 4, 2]);
    let mut of_core = CacheMut::coded(elements::<u8>(&mut a), layout, format).expect("valid");
    of_core.move_slots(&from, &to).expect("valid");
    let codes = rope_cache {
        scale: rope_quant_scale {
            least: 1e-6,
            behind: 8,
            ..quant_scale(ScaleKind::MadeInline, 0.0)
        },
        ..cache(
            &mut b,
            Format::E4m3,
            rope_cache_layout {
                channels: [0, 8],
                ..nhd(extents)
            },
        )
    };
    let (c_from, c_to) = (
        mapping(&from, rope_number::I32),
        mapping(&to, rope_number::I64),
    );
    ok!(rope_move_slots(&codes, &c_from, &c_to));
    assert!(b == a && b != start);
    let mut refusals = Refusals::default();
    let inside = rope_slots {
        slots: rope_ids {
            values: codes.memory,
            ..c_from.slots
        },
        ..c_from
    };
    let far = rope_slots {
        slots: ids(&[9, 0, 0, 0], rope_number::I32),
        ..c_from
    };
    refused!(
        refusals,
        rope_move_slots(&codes, &inside, &c_to),
        rope_move_slots(&codes, &c_from, &inside),
        rope_move_slots(&codes, &far, &c_to),
        rope_move_slots(&codes, &range(0, 3), &range(1, 4)),
        rope_move_slots(
            &codes,
            &mapping(&[0, 1], rope_number::I32),
            &mapping(&[1, 0], rope_number::I32)
        ),
        rope_move_slots(&codes, &range(0, 2), &mapping(&[5, 5], rope_number::I32)),
    );
    each!(
        refusals, rope_move_slots(cache, from, to);
        cache = &codes, from = &c_from, to = &c_to
    );
    assert!(b == a);
    compare!(refusals, "moves");
}

/// All that a call with two caches names, to be spoilt.
#[derive(Clone, Copy)]
struct Named {
    norm: rope_norm,
    scale: rope_scale,
    k: rope_operand,
    v: rope_operand,
    keys: rope_cache,
    values: rope_cache,
    slots: rope_slots,
    rows: rope_angles,
}

impl Named {
    /// Writes keys and values in one step: neither cache is written unless both calls are right.
    fn call(&self) -> rope_status {
        let (chain, bare) = (stages(&self.norm, &self.scale), plan(rope_pairing::Half));
        let keys = in_slots(&self.keys, &self.slots);
        let values = in_slots(&self.values, &self.slots);
        let [mut first, mut second] = [zero(); 2];
        let status = call!(rope_prepare_into(
            &chain, &self.k, &keys, &self.rows, &mut first
        ));
        if status != rope_status::Ok {
            return status;
        }
        let status = call!(rope_prepare_into(
            &bare,
            &self.v,
            &values,
            null(),
            &mut second
        ));
        if status == rope_status::Ok {
            ok!(rope_call_run(&first), rope_call_run(&second));
        }
        status
    }
}

/// Arguments that are null, misaligned, unknown, too long, in the way of another, or refused by rope-core. Neither
/// cache is written.
#[test]
fn refusals() {
    let table = table(48, 3, TOKENS);
    let weight = values::<f32>(HEAD_DIM);
    let each: Vec<f32> = (0..TOKENS).map(|i| 0.5 + (i % 7) as f32 / 16.0).collect();
    let [mut k, mut v] = [(); 2].map(|()| values::<f32>(LEN));
    let [mut keys, mut kept] = [memory(), memory()];
    let [mut key_scales, mut value_scales] = [vec![0.5_f32; SCALES], vec![0.5_f32; SCALES]];
    let coded = |memory: &mut [u32], scales: &mut [f32]| rope_cache {
        scale: rope_quant_scale {
            least: 1e-6,
            strides: [BLOCK_SIZE * HEADS, HEADS, 1],
            ..quant_scale(ScaleKind::MadeApart, 0.0)
        },
        scales: scales.as_mut_ptr().cast(),
        scales_count: scales.len(),
        ..cache(memory, Format::E4m3, nhd(EXTENTS))
    };
    let right = Named {
        norm: rope_norm {
            weighted: 1,
            weight: weights(&weight),
            ..norm(rope_norm_formula::Llama4)
        },
        scale: rope_scale {
            kind: rope_scale_kind::PerToken as i32,
            factors: each.as_ptr(),
            count: TOKENS,
            ..zero()
        },
        k: tensor(&mut k, SHAPE),
        v: tensor(&mut v, SHAPE),
        keys: coded(&mut keys, &mut key_scales),
        values: coded(&mut kept, &mut value_scales),
        slots: mapping(&MAPPING, rope_number::I32),
        rows: joined(&table, 48),
    };
    let mut refusals = Refusals::default();
    let mut refused = |spoil: &dyn Fn(&mut Named)| {
        let mut named = right;
        spoil(&mut named);
        refusals.add(named.call(), "keys and values");
    };
    let offsets = |n: &mut Named, offsets| {
        (n.slots.kind, n.slots.count) = (SlotsKind::Offsets as i32, TOKENS);
        n.slots.offsets = offsets;
    };
    let given = |scale: &mut rope_quant_scale, each| {
        (scale.kind, scale.each) = (ScaleKind::Multiply as i32, each);
        scale.each_count = HEADS;
    };

    // Null, then misaligned.
    for null in [true, false] {
        fn lost<T>(null: bool, pointer: *const T) -> *mut T {
            let pointer = pointer.cast_mut();
            if null {
                null_mut()
            } else {
                pointer.wrapping_byte_add(1)
            }
        }
        refused(&|n| n.norm.weight.data = lost(null, n.norm.weight.data));
        refused(&|n| {
            n.norm.bias = n.norm.weight;
            n.norm.bias.data = lost(null, n.norm.bias.data);
        });
        refused(&|n| (n.norm.sums, n.norm.sums_count) = (lost(null, n.scale.factors), TOKENS));
        refused(&|n| n.scale.factors = lost(null, n.scale.factors));
        refused(&|n| n.k.data = lost(null, n.k.data));
        refused(&|n| n.v.data = lost(null, n.v.data));
        refused(&|n| n.keys.scales = lost(null, n.keys.scales));
        refused(&|n| n.values.scales = lost(null, n.values.scales));
        refused(&|n| n.slots.slots.values = lost(null, n.slots.slots.values));
        refused(&|n| offsets(n, lost(null, n.scale.factors.cast())));
        refused(&|n| given(&mut n.keys.scale, lost(null, n.scale.factors)));
        refused(&|n| {
            n.keys.format = Format::Bf16 as i32;
            n.keys.memory = lost(null, n.keys.memory);
        });
    }
    refused(&|n| n.keys.memory = null_mut());
    refused(&|n| n.values.memory = null_mut());

    for number in [-1, 99] {
        refused(&|n| n.norm.result = number);
        refused(&|n| n.norm.reach = number);
        refused(&|n| n.norm.order = number);
        refused(&|n| n.norm.sum = number);
        refused(&|n| n.scale.order = number);
    }
    for number in [0, -1, 99] {
        refused(&|n| n.norm.weight.element = number);
        refused(&|n| n.scale.kind = number);
        refused(&|n| n.k.element = number);
        refused(&|n| n.keys.format = number);
        refused(&|n| n.values.layout.kind = number);
        refused(&|n| n.keys.scale.kind = number);
        refused(&|n| n.slots.kind = number);
        refused(&|n| n.slots.slots.number = number);
    }
    refused(&|n| n.slots.slots.number = rope_number::F64 as i32);

    refused(&|n| n.norm.weight.count = usize::MAX);
    refused(&|n| n.scale.count = usize::MAX / 4);
    refused(&|n| n.keys.bytes = usize::MAX);
    refused(&|n| n.keys.scales_count = usize::MAX);
    refused(&|n| n.slots.slots.count = isize::MAX as usize);
    refused(&|n| n.slots = range(usize::MAX - 3, TOKENS));

    // The written memory is apart from all that is read or written besides.
    refused(&|n| n.v.data = n.values.memory);
    refused(&|n| n.v.data = n.values.memory.wrapping_byte_add(256));
    refused(&|n| n.norm.weight.data = n.keys.memory);
    refused(&|n| {
        n.norm.bias = n.norm.weight;
        n.norm.bias.data = n.keys.memory;
    });
    refused(&|n| (n.norm.sums, n.norm.sums_count) = (n.keys.memory.cast(), TOKENS));
    refused(&|n| n.rows.cos = n.keys.memory.cast());
    refused(&|n| n.values.scales = n.values.memory.cast());
    refused(&|n| n.keys.scales = n.keys.memory.cast());
    refused(&|n| n.k.data = n.keys.memory);
    refused(&|n| n.scale.factors = n.keys.scales.cast());
    refused(&|n| offsets(n, n.keys.memory.cast()));
    refused(&|n| given(&mut n.values.scale, n.values.memory.cast()));
    // Each list of each kind of slots.
    use SlotsKind::{Mapping, PackedTable, Pages, Sequences, Table};
    type List = fn(&mut rope_slots) -> &mut rope_ids;
    let [pages, starts, sequences, positions]: [List; 4] = [
        |slots| &mut slots.pages,
        |slots| &mut slots.starts,
        |slots| &mut slots.sequences,
        |slots| &mut slots.positions,
    ];
    for (kind, lists) in [
        (Mapping, &[(|slots| &mut slots.slots) as List][..]),
        (Pages, &[pages, starts, sequences, positions]),
        (Table, &[pages, positions]),
        (Sequences, &[positions]),
    ] {
        for list in lists {
            refused(&|n| {
                let one = n.slots.slots;
                (n.slots.pages, n.slots.starts) = (one, one);
                (n.slots.sequences, n.slots.positions) = (one, one);
                (n.slots.kind, n.slots.width) = (kind as i32, 1);
                list(&mut n.slots).values = n.keys.memory;
            });
        }
    }

    // One sequence, whose offsets are right ones.
    let mut offsets_of_one = [TOKENS as i32; SCALES];
    offsets_of_one[0] = 0;
    let packed = |n: &mut Named| {
        let one = n.slots.slots;
        (n.slots.kind, n.slots.width) = (PackedTable as i32, 1);
        n.slots.starts = ids(&offsets_of_one[..2], rope_number::I32);
        (n.slots.pages, n.slots.positions) = (one, rope_ids { count: 1, ..one });
    };
    refused(&|n| {
        packed(n);
        n.slots.pages.values = n.keys.memory;
    });
    refused(&|n| {
        packed(n);
        n.slots.positions.values = n.keys.memory;
    });
    refused(&|n| {
        packed(n);
        n.keys.scales = offsets_of_one.as_ptr().cast_mut().cast();
    });

    // Refusals of rope-core.
    refused(&|n| n.norm.eps = f32::NAN);
    refused(&|n| n.norm.weight.count = 63);
    refused(&|n| n.scale.count = 9);
    refused(&|n| {
        (n.norm.sums, n.norm.sums_count) = (n.scale.factors, TOKENS);
        n.norm.centered = 1;
    });
    refused(&|n| n.v.layout.shape[1] = 4);
    refused(&|n| n.v.layout.shape[2] = 2);
    refused(&|n| n.keys.layout.extents[2] = 2);
    refused(&|n| n.keys.layout.extents = [usize::MAX; 5]);
    refused(&|n| n.values.layout.channels = [3, 2]);
    refused(&|n| n.values.bytes = 4000);
    refused(&|n| n.values.scales_count = SCALES - 1);
    refused(&|n| n.slots.slots.count = 9);
    let wrong = [9, 4, -1, 32, 0, 17, 18, 3, 30, 12_i32];
    refused(&|n| n.slots = mapping(&wrong, rope_number::I32));
    let (table, listed) = ([-3_i32, 2], [0_i32, 1, 2, 3, 4, 0, 1, 2, 3, 4]);
    let paged = |n: &mut Named, kind: SlotsKind, starts: &[i32], positions: &[i32]| {
        (n.slots.kind, n.slots.width) = (kind as i32, 1);
        n.slots.pages = ids(&table, rope_number::I32);
        n.slots.starts = ids(starts, rope_number::I32);
        n.slots.positions = ids(positions, rope_number::I32);
    };
    refused(&|n| paged(n, Table, &[], &listed));
    refused(&|n| paged(n, PackedTable, &listed[1..], &listed[..8]));
    refused(&|n| (n.slots.kind, n.slots.positions) = (Sequences as i32, n.slots.slots));
    let far = [i64::MAX; TOKENS];
    refused(&|n| offsets(n, far.as_ptr()));
    refused(&|n| {
        offsets(n, far.as_ptr());
        n.keys.scale = quant_scale(ScaleKind::Divide, 1.0);
        n.values.scale = n.keys.scale;
    });
    // Scales of groups are made, in ways of their own.
    use rope_group_scale::{E8m0, Even, Floor, Minimum, PowerOfTwo, Quotient, Up, ZeroPoint};
    let powers = [Floor, Even, Up].as_slice();
    let tiles = [Quotient, PowerOfTwo, E8m0].as_slice();
    let rules = [ZeroPoint, Minimum].as_slice();
    for (format, own) in [
        (Format::Mxfp4, powers),
        (Format::Mxfp8, powers),
        (Format::Nvfp4, &[]),
        (Format::E4m3In128, tiles),
        (Format::E4m3In64, tiles),
        (Format::U8, rules),
        (Format::U4, rules),
    ] {
        let others = [powers, tiles, rules].into_iter().flatten();
        let others = others
            .filter(|group| !own.contains(group))
            .map(|&group| group as i32);
        let made = others
            .chain([0, 99])
            .map(|group| (ScaleKind::MadeApart, group));
        // A format without a choice reads none.
        let made = made.filter(|_| format != Format::Nvfp4);
        for (kind, group) in made.chain([(ScaleKind::Divide, 0)]) {
            refused(&|n| {
                (n.keys.format, n.keys.scale.kind) = (format as i32, kind as i32);
                (n.keys.scale.group, n.keys.scale.channels) = (group, 32);
            });
        }
    }
    // Parts that do not fill a head.
    for channels in [31, usize::MAX] {
        refused(&|n| {
            (n.keys.format, n.keys.scale.kind) = (Format::U8 as i32, ScaleKind::MadeApart as i32);
            (n.keys.scale.group, n.keys.scale.channels) = (ZeroPoint as i32, channels);
        });
    }
    // Scales in a block lie apart from its codes.
    refused(&|n| {
        let block = BLOCK_SIZE * HEADS * HEAD_DIM;
        (n.keys.scale.kind, n.keys.scale.behind) = (ScaleKind::MadeInBlock as i32, block - 96);
        n.keys.scale.strides = [block, 4 * HEADS, 4];
    });
    // A table without width has no pages.
    refused(&|n| {
        paged(n, Table, &[], &listed);
        n.slots.width = 0;
    });
    refused(&|n| n.rows.len -= 48);
    refused(&|n| {
        (n.v.layout.shape, n.values.layout.extents[3]) = ([0, 5, HEADS, 2049], 2049);
        (n.k.layout.shape[0], n.values.layout.extents[0]) = (0, 0);
        (n.slots.slots.count, n.scale.count, n.rows.len) = (0, 0, 0);
    });
    assert!(
        keys == memory() && kept == memory(),
        "a refused call has written"
    );
    let mut scales = key_scales.iter().chain(&value_scales);
    assert!(scales.all(|&scale| scale == 0.5));
    assert_eq!(right.call(), rope_status::Ok);
    assert!(keys != memory() && kept != memory());
    compare!(refusals, "caches");
}

/// Ties of a quotient, of which a product with the reciprocal makes none: two kinds of a given scale differ.
#[test]
fn a_quotient_is_no_product() {
    let shape = [1, 1, 1, 64];
    let x: Vec<f32> = (0..64).map(|i| 61.0 * (i as f32 - 31.5)).collect();
    let (source, from) = (Tensor::new(&x, shape).expect("valid"), view(&x, shape));
    let (layout, slots) = (CacheLayout::nhd(shape).expect("valid"), range(0, 1));
    let scale = HeadScales::Same(61.0);
    let [quotients, products] = [
        (ScaleKind::Divide, QuantScale::Divide(scale)),
        (ScaleKind::Reciprocal, QuantScale::Reciprocal(scale)),
    ]
    .map(|(kind, scale)| {
        let [mut a, mut b] = [[0_u8; 64]; 2];
        let format = CacheFormat::quantized(QuantFormat::Int8Even, scale);
        let mut target = CacheMut::coded(&mut a, layout, format).expect("valid");
        let rope = Rope::new(Pairing::Half);
        rope.apply_into(&source, &mut target.slots(0..1))
            .expect("valid");
        let cache = rope_cache {
            scale: quant_scale(kind, 61.0),
            ..cache(&mut b, Format::Int8Even, nhd(shape))
        };
        let to = in_slots(&cache, &slots);
        ok!(rope_apply_into(&plan(rope_pairing::Half), &from, &to));
        assert_eq!(b, a, "{kind:?}");
        b
    });
    assert_ne!(quotients, products);
}

/// Slots that are given by their offsets: the last of a cache whose scales lie after the codes, and those of a cache
/// without heads. And more slots than can be looked at one by one.
#[test]
fn offsets_and_ranges_at_the_ends() {
    let (x, plan, mut refusals) = (
        values::<f32>(8),
        plan(rope_pairing::Half),
        Refusals::default(),
    );
    let from = view(&x, [1, 1, 1, 8]);
    let copy = |from: &rope_operand, cache: &rope_cache, slots: rope_slots| {
        call!(rope_apply_into(&plan, from, &in_slots(cache, &slots)))
    };
    let offset = |offset: &i64| rope_slots {
        kind: SlotsKind::Offsets as i32,
        offsets: offset,
        count: 1,
        ..zero()
    };
    let mut memory = [0_u8; 24];
    let layout = rope_cache_layout {
        channels: [0, 8],
        ..nhd([1, 2, 1, 12])
    };
    let inline = rope_cache {
        scale: rope_quant_scale {
            behind: 8,
            ..quant_scale(ScaleKind::MadeInline, 0.0)
        },
        ..cache(&mut memory, Format::E5m2, layout)
    };
    refused!(refusals, copy(&from, &inline, offset(&13)));
    assert_eq!(memory, [0; 24]);
    ok!(copy(&from, &inline, offset(&12)));
    assert!(memory[..12] == [0; 12] && memory[12..20] != [0; 8] && memory[20..] != [0; 4]);

    // A chunk of any number of channels, which lie apart.
    let strided = |extents, strides| rope_cache_layout {
        kind: rope_cache_layout_kind::Strided as i32,
        extents,
        strides,
        ..zero()
    };
    let strides = rope_cache_strides {
        group: usize::MAX,
        chunk: usize::MAX,
        channel: 3,
        ..zero()
    };
    let apart = strided([1, 1, 1, 8, 0], strides);
    let mut wide = [f16::ZERO; 22];
    let narrow = cache(&mut wide[..21], Format::F16, apart);
    refused!(refusals, copy(&from, &narrow, range(0, 1)));
    ok!(copy(
        &from,
        &cache(&mut wide, Format::F16, apart),
        range(0, 1)
    ));
    let written = wide.iter().enumerate().filter(|(_, x)| x.to_bits() != 0);
    assert!(written.map(|(at, _)| at).eq((0..22).step_by(3)));

    let endless = 1 << (usize::BITS - 8);
    let strides = rope_cache_strides {
        group: endless,
        token: 8,
        chunk: 8,
        channel: 1,
        ..zero()
    };
    let none = rope_cache {
        scale: quant_scale(ScaleKind::Divide, 1.0),
        ..cache(
            &mut memory,
            Format::E5m2,
            strided([1, endless, 0, 8, 0], strides),
        )
    };
    let mut empty = from;
    empty.layout.shape[2] = 0;
    ok!(copy(&empty, &none, offset(&24)));
    refused!(refusals, copy(&empty, &none, offset(&25)));
    empty.layout.shape[1] = endless;
    ok!(copy(&empty, &none, range(0, endless)));
    compare!(refusals, "ends");
}
