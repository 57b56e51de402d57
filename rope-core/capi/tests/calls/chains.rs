//! Plans with stages, caches and shifts.

use rope_core::cache::{
    Asymmetric, BlockFormat, CacheFormat, CacheLayout, CacheMut, CacheShape, CacheStrides,
    HeadScales, MxScale, QuantFormat, QuantScale, ScaleLayout, ScalePlace, TileScale,
};
use rope_core::internals::Renamed;
use rope_core::norm::{Norm, NormFormula, NormResult};
use rope_core::stages::{Hadamard, HadamardFactor};
use rope_core::{Error, Output, Rope};

use super::*;

const TOKENS: usize = SHAPE[0] * SHAPE[1];
const HEADS: usize = SHAPE[2];
const HEAD_DIM: usize = SHAPE[3];
const BLOCKS: usize = 4;
const BLOCK_SIZE: usize = 8;

/// Numbers of either sign.
fn floats(len: usize) -> Vec<f32> {
    values::<f32>(len)
}

/// Factors above zero.
fn factors(len: usize) -> Vec<f32> {
    (0..len).map(|i| 0.5 + (i % 7) as f32 / 16.0).collect()
}

fn weights<E: Number>(values: &[E]) -> rope_weights {
    rope_weights {
        data: values.as_ptr().cast(),
        count: values.len(),
        element: E::ELEMENT as i32,
    }
}

fn chain_of(norm: *const rope_norm, scale: *const rope_scale) -> rope_plan {
    rope_plan {
        norm,
        scale,
        ..plan(rope_pairing::Half)
    }
}

/// Keys and values in one step: neither cache is written unless both calls are right.
unsafe fn keys_and_values(
    plan: *const rope_plan,
    [k, v]: [*const rope_operand; 2],
    [keys, values]: [*const rope_operand; 2],
    rows: *const rope_angles,
) -> rope_status {
    let mut calls: [rope_call; 2] = zero();
    let [first, second] = &mut calls;
    let bare = super::plan(rope_pairing::Half);
    // SAFETY: as the caller's.
    unsafe {
        let status = rope_prepare_into(plan, k, keys, rows, first);
        if status != rope_status::Ok {
            return status;
        }
        let status = rope_prepare_into(&bare, v, values, null(), second);
        if status != rope_status::Ok {
            return status;
        }
        assert_eq!(rope_call_run(first), rope_status::Ok);
        rope_call_run(second)
    }
}

fn ids<T>(values: &[T], number: rope_number) -> rope_ids {
    rope_ids {
        values: values.as_ptr().cast(),
        count: values.len(),
        number: number as i32,
    }
}

/// One row for each token of each sequence, of some channels.
fn table() -> Vec<f32> {
    let frequencies = Frequencies::new(48, 10_000.0, &Scaling::Default).expect("valid");
    let mut values = vec![0.0; TOKENS * 48];
    frequencies
        .at(3..3 + TOKENS)
        .expect("positions")
        .rows_in(&mut values)
        .expect("valid");
    values
}

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
        let mut norm: rope_norm = zero();
        // SAFETY: a struct.
        let status = unsafe { rope_norm_init(&mut norm, kind as i32, 1e-5) };
        assert_eq!(status, rope_status::Ok);
        let result = match formula.result {
            NormResult::Kept => rope_norm_result::Kept,
            NormResult::Rounded => rope_norm_result::Rounded,
            NormResult::Promoted => rope_norm_result::Promoted,
        };
        let got = (
            norm.centered,
            norm.weighted,
            norm.one_plus_weight,
            norm.rounds_normed,
            norm.rounds_product,
            norm.result,
        );
        let expected = (
            i32::from(formula.centered),
            i32::from(formula.weighted),
            i32::from(formula.one_plus_weight),
            i32::from(formula.rounds_normed),
            i32::from(formula.rounds_product),
            result as i32,
        );
        assert_eq!(got, expected, "{kind:?}");
        assert_eq!(
            (norm.eps, norm.reach, norm.order, norm.sum),
            (1e-5, 0, 0, 0)
        );
        assert!(norm.weight.data.is_null() && norm.bias.data.is_null() && norm.sums.is_null());
    }
    let mut norm: rope_norm = zero();
    let unknown = next(rope_norm_formula::ALL, |kind| kind as i32);
    for unknown in [0, -1, unknown] {
        // SAFETY: a struct.
        let status = unsafe { rope_norm_init(&mut norm, unknown, 1e-5) };
        assert_eq!(status, rope_status::UnknownValue);
    }
}

/// The transforms of engines, and which heads they are refused for.
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
            let mut c = rope_hadamard {
                block: 7,
                factor: 7,
            };
            // SAFETY: a struct.
            let status = unsafe { rope_hadamard_init(&mut c, preset as i32, head_dim) };
            let case = format!("{preset:?} {head_dim}");
            same(&case, status, expected.map(drop));
            let Ok(expected) = expected else {
                assert_eq!((c.block, c.factor), (7, 7), "{case}");
                continue;
            };
            let factor = match c.factor {
                0 => HadamardFactor::Last,
                _ => HadamardFactor::First,
            };
            assert_eq!(c.block, expected.map_or(0, |it| it.block()), "{case}");
            let named =
                (c.block > 0).then(|| Hadamard::new(c.block).expect("valid").with_factor(factor));
            assert_eq!(named, expected, "{case}");
        }
    }
    let mut c: rope_hadamard = zero();
    for unknown in [0, -1, next(Preset::ALL, |preset| preset as i32)] {
        // SAFETY: a struct.
        let status = unsafe { rope_hadamard_init(&mut c, unknown, 128) };
        assert_eq!((status, c.block), (rope_status::UnknownValue, 0));
    }
    unsafe fn keys(hadamard: *mut rope_hadamard) -> rope_status {
        // SAFETY: the caller promises it.
        unsafe { rope_hadamard_init(hadamard, Preset::LlamaCppKeys as i32, 128) }
    }
    each!(keys(&raw mut c;));
}

/// Where the elements of a cache lie, in both languages.
fn layouts() -> Vec<(&'static str, rope_cache_layout, Result<CacheLayout, Error>)> {
    let mut all = Vec::new();
    for &kind in rope_cache_layout_kind::ALL {
        use rope_cache_layout_kind as Kind;
        let mut c: rope_cache_layout = zero();
        let rust = match kind {
            Kind::Nhd => {
                c.extents = [BLOCKS, BLOCK_SIZE, HEADS, HEAD_DIM, 0];
                CacheLayout::nhd([BLOCKS, BLOCK_SIZE, HEADS, HEAD_DIM])
            }
            Kind::Hnd => {
                c.extents = [BLOCKS, HEADS, BLOCK_SIZE, HEAD_DIM, 0];
                CacheLayout::hnd([BLOCKS, HEADS, BLOCK_SIZE, HEAD_DIM])
            }
            Kind::Hdn => {
                c.extents = [BLOCKS, HEADS, HEAD_DIM, BLOCK_SIZE, 0];
                CacheLayout::hdn([BLOCKS, HEADS, HEAD_DIM, BLOCK_SIZE])
            }
            Kind::Hdnx => {
                c.extents = [BLOCKS, HEADS, HEAD_DIM / 8, BLOCK_SIZE, 8];
                CacheLayout::hdnx([BLOCKS, HEADS, HEAD_DIM / 8, BLOCK_SIZE, 8])
            }
            Kind::Hndx => {
                c.extents = [BLOCKS, HEADS, BLOCK_SIZE / 4, HEAD_DIM, 4];
                CacheLayout::hndx([BLOCKS, HEADS, BLOCK_SIZE / 4, HEAD_DIM, 4])
            }
            // Every stride another number: groups of four slots, chunks of 16 channels, gaps everywhere.
            Kind::Strided => {
                c.extents = [BLOCKS, BLOCK_SIZE, HEADS, HEAD_DIM, 0];
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
                CacheLayout::strided(
                    CacheShape {
                        blocks: BLOCKS,
                        block_size: BLOCK_SIZE,
                        heads: HEADS,
                        head_dim: HEAD_DIM,
                    },
                    CacheStrides {
                        block: 3000,
                        group: 4,
                        group_stride: 1400,
                        token: 340,
                        head: 110,
                        chunk: 16,
                        chunk_stride: 26,
                        channel: 1,
                    },
                )
            }
        };
        c.kind = kind as i32;
        all.push(("whole", c, rust));
        if kind == Kind::Nhd {
            // Keys behind 32 other channels, with room for a scale after them.
            let mut part = c;
            (part.extents[3], part.channels) = (128, [32, 32 + HEAD_DIM]);
            let whole = CacheLayout::nhd([BLOCKS, BLOCK_SIZE, HEADS, 128]);
            let rust = whole.and_then(|whole| whole.narrow_channels(32..32 + HEAD_DIM));
            all.push(("part", part, rust));
            part.channels = [100, 32];
            #[expect(clippy::reversed_empty_ranges, reason = "it is refused")]
            all.push((
                "reversed",
                part,
                whole.and_then(|whole| whole.narrow_channels(100..32)),
            ));
            let mut other = c;
            other.extents[2] = HEADS + 1;
            let rust = CacheLayout::nhd([BLOCKS, BLOCK_SIZE, HEADS + 1, HEAD_DIM]);
            all.push(("another head", other, rust));
        }
        let mut large = c;
        large.extents[0] = usize::MAX;
        if kind == Kind::Nhd {
            let rust = CacheLayout::nhd([usize::MAX, BLOCK_SIZE, HEADS, HEAD_DIM]);
            all.push(("large", large, rust));
        }
    }
    all
}

/// Memory for a cache of any element, in words so that it is aligned.
const WORDS: usize = BLOCKS * BLOCK_SIZE * HEADS * 128;
/// Scales that lie apart.
const SCALES: usize = BLOCKS * BLOCK_SIZE * HEADS;

/// Numbers that are valid in every format.
fn memory() -> Vec<u32> {
    (0..WORDS as u32)
        .map(|i| 0x3c00_3c00 + i % 97 * 0x0101)
        .collect()
}

/// Memory as elements.
fn elements<T>(memory: &mut [u32]) -> &mut [T] {
    let len = size_of_val(memory) / size_of::<T>();
    // SAFETY: used for numbers that are no more aligned than words; the words are borrowed.
    unsafe { std::slice::from_raw_parts_mut(memory.as_mut_ptr().cast(), len) }
}

/// A cache of rope-core.
fn rust_cache<'a>(
    memory: &'a mut [u32],
    format: rope_cache_format,
    layout: CacheLayout,
    scale: QuantScale<'a>,
    scales: &'a mut [f32],
) -> Result<CacheMut<'a>, Error> {
    use rope_cache_format as Format;
    let blocks = |memory: &'a mut [u32], format| CacheMut::coded(elements(memory), layout, format);
    let code = match format {
        Format::F32 => return CacheMut::new(elements::<f32>(memory), layout),
        Format::F16 => return CacheMut::new(elements::<f16>(memory), layout),
        Format::Bf16 => return CacheMut::new(elements::<bf16>(memory), layout),
        Format::Q8_0 => return blocks(memory, BlockFormat::Q8_0),
        Format::Q4_0 => return blocks(memory, BlockFormat::Q4_0),
        Format::Q4_1 => return blocks(memory, BlockFormat::Q4_1),
        Format::Q5_0 => return blocks(memory, BlockFormat::Q5_0),
        Format::Q5_1 => return blocks(memory, BlockFormat::Q5_1),
        Format::Iq4Nl => return blocks(memory, BlockFormat::IQ4_NL),
        Format::U8In32 => return blocks(memory, BlockFormat::U8_IN_32),
        Format::U8In64 => return blocks(memory, BlockFormat::U8_IN_64),
        Format::U8In128 => return blocks(memory, BlockFormat::U8_IN_128),
        Format::U4In32 => return blocks(memory, BlockFormat::U4_IN_32),
        Format::U4In64 => return blocks(memory, BlockFormat::U4_IN_64),
        Format::U4In128 => return blocks(memory, BlockFormat::U4_IN_128),
        Format::U8ByChannel | Format::U4ByChannel | Format::Kivi2 | Format::Kivi4 => {
            panic!("{format:?} has groups of slots")
        }
        Format::E4m3 => QuantFormat::E4m3,
        Format::E5m2 => QuantFormat::E5m2,
        Format::E5m2Saturating => QuantFormat::E5m2Saturating,
        Format::Int8Even => QuantFormat::Int8Even,
        Format::Int8RoundAway => QuantFormat::Int8RoundAway,
        Format::Mxfp4
        | Format::Mxfp8
        | Format::Nvfp4
        | Format::E4m3In128
        | Format::E4m3In64
        | Format::U8
        | Format::U4 => {
            panic!("{format:?} has scales of groups")
        }
    };
    CacheMut::coded_with_scales(
        elements(memory),
        layout,
        CacheFormat::quantized(code, scale),
        scales,
    )
}

fn c_cache(
    memory: &mut [u32],
    format: rope_cache_format,
    layout: rope_cache_layout,
    scale: rope_quant_scale,
    scales: &mut [f32],
) -> rope_cache {
    rope_cache {
        memory: memory.as_mut_ptr().cast(),
        bytes: size_of_val(memory),
        format: format as i32,
        layout,
        scale,
        scales: scales.as_mut_ptr().cast(),
        scales_count: scales.len(),
    }
}

/// Ties of a quotient, of which a product with the reciprocal makes none: the kinds of a given scale differ.
#[test]
fn a_quotient_is_no_product() {
    let x: Vec<f32> = (0..64).map(|i| 61.0 * (i as f32 - 31.5)).collect();
    let mut copy = x.clone();
    let from = tensor(&mut copy, [1, 1, 1, 64]);
    let source = Tensor::new(&x, [1, 1, 1, 64]).expect("valid");
    let layout = CacheLayout::nhd([1, 1, 1, 64]).expect("valid");
    let c_layout = rope_cache_layout {
        kind: rope_cache_layout_kind::Nhd as i32,
        extents: [1, 1, 1, 64, 0],
        ..zero()
    };
    let chain = chain_of(null(), null());
    let slots = rope_slots {
        kind: rope_slots_kind::Range as i32,
        count: 1,
        ..zero()
    };
    let mut all = Vec::new();
    for (kind, scale) in [
        (
            rope_quant_scale_kind::Divide,
            QuantScale::Divide(HeadScales::Same(61.0)),
        ),
        (
            rope_quant_scale_kind::Reciprocal,
            QuantScale::Reciprocal(HeadScales::Same(61.0)),
        ),
    ] {
        let format = rope_cache_format::Int8Even;
        let (mut a, mut b) = ([0_u32; 16], [0_u32; 16]);
        let mut cache = rust_cache(&mut a, format, layout, scale, &mut []).expect("valid");
        Rope::new(Pairing::Half)
            .apply_into(&source, &mut cache.slots(0..1))
            .expect("valid");
        let c_scale = rope_quant_scale {
            kind: kind as i32,
            same: 61.0,
            ..zero()
        };
        let cache = c_cache(&mut b, format, c_layout, c_scale, &mut []);
        // SAFETY: what is passed is there.
        let status = unsafe { rope_apply_into(&chain, &from, &in_slots(&cache, &slots)) };
        assert_eq!((status, b), (rope_status::Ok, a), "{kind:?}");
        all.push(b);
    }
    assert_ne!(all[0], all[1]);
}

/// A slot for each token; one is skipped.
const MAPPING: [i32; TOKENS] = [9, 4, -1, 31, 0, 17, 18, 3, 30, 12];

fn mapping() -> rope_slots {
    rope_slots {
        kind: rope_slots_kind::Mapping as i32,
        slots: ids(&MAPPING, rope_number::I32),
        ..zero()
    }
}

/// Codes with a scale for a group, beside the codes and apart, are those of rope-core; so are refusals.
#[test]
fn groups_match_rope_core() {
    use {rope_cache_format as Format, rope_group_scale as Group, rope_quant_scale_kind as Kind};
    const LONG: usize = 128;
    let x = values::<bf16>(TOKENS * LONG);
    let mut copy = x.clone();
    let shape = [1, TOKENS, 1, LONG];
    let (source, from) = (
        Tensor::new(&x, shape).expect("valid"),
        tensor(&mut copy, shape),
    );
    let (rope, c_slots) = (Rope::new(Pairing::Half), mapping());
    let c_plan = plan(rope_pairing::Half);
    let mut written = 0;
    for &format in rope_cache_format::ALL {
        // Channels per byte and per scale, and bytes per scale.
        let (per_byte, values, unit) = match format {
            Format::Mxfp4 => (2, 32, 1),
            Format::Mxfp8 => (1, 32, 1),
            Format::Nvfp4 => (2, 16, 1),
            Format::E4m3In128 => (1, 128, 4),
            Format::E4m3In64 => (1, 64, 4),
            // Two floats for 32 channels are one for 16.
            Format::U8 => (1, 16, 4),
            Format::U4 => (2, 16, 4),
            _ => continue,
        };
        let (codes, count) = (LONG / per_byte, LONG / values);
        for &group in Group::ALL {
            let unit = if group == Group::E8m0 { 1 } else { unit };
            for kind in [Kind::MadeInline, Kind::MadeApart, Kind::Divide] {
                let inline = kind == Kind::MadeInline;
                let at = match inline {
                    true => ScalePlace::Inline(codes),
                    false => ScalePlace::Separate(ScaleLayout {
                        block: BLOCK_SIZE * count,
                        token: count,
                        head: count,
                    }),
                };
                let least = f32::MIN_POSITIVE;
                let power = match group {
                    Group::Floor => Some(MxScale::Floor),
                    Group::Even => Some(MxScale::Even),
                    Group::Up => Some(MxScale::Up),
                    _ => None,
                };
                let tile = match group {
                    Group::Quotient => Some(TileScale::Quotient { least }),
                    Group::PowerOfTwo => Some(TileScale::PowerOfTwo { least }),
                    Group::E8m0 => Some(TileScale::E8m0 { least }),
                    _ => None,
                };
                let rule = match group {
                    Group::ZeroPoint => Some(Asymmetric::ZeroPoint),
                    Group::Minimum => Some(Asymmetric::Minimum),
                    _ => None,
                };
                let made = match format {
                    Format::U8 => rule.map(|rule| CacheFormat::u8(rule, 32, at)),
                    Format::U4 => rule.map(|rule| CacheFormat::u4(rule, 32, at)),
                    Format::Nvfp4 => Some(CacheFormat::nvfp4(0.25, at)),
                    Format::Mxfp4 => power.map(|power| CacheFormat::mxfp4(power, at)),
                    Format::Mxfp8 => power.map(|power| CacheFormat::mxfp8(power, at)),
                    Format::E4m3In128 => tile.map(|tile| CacheFormat::e4m3_in_128(tile, at)),
                    _ => tile.map(|tile| CacheFormat::e4m3_in_64(tile, at)),
                };
                let case = format!("{format:?}, {group:?}, {kind:?}");
                let width = LONG + if inline { count * unit * per_byte } else { 0 };
                let (mut a, mut b) = (memory(), memory());
                let (mut a_scales, mut b_scales) = ([0.5_f32; 512], [0.5_f32; 512]);
                let scale = rope_quant_scale {
                    kind: kind as i32,
                    same: 0.25,
                    least,
                    group: group as i32,
                    channels: 32,
                    behind: codes,
                    strides: [BLOCK_SIZE * count, count, count],
                    ..zero()
                };
                let cache = rope_cache {
                    scales_count: b_scales.len() * 4 / unit,
                    ..c_cache(
                        &mut b,
                        format,
                        rope_cache_layout {
                            kind: rope_cache_layout_kind::Nhd as i32,
                            extents: [BLOCKS, BLOCK_SIZE, 1, width, 0],
                            channels: [0, LONG],
                            ..zero()
                        },
                        scale,
                        &mut b_scales,
                    )
                };
                // SAFETY: what is passed is there.
                let status =
                    unsafe { rope_apply_into(&c_plan, &from, &in_slots(&cache, &c_slots)) };
                let Some(made) = made.filter(|_| kind != Kind::Divide) else {
                    assert_eq!(status, rope_status::UnknownValue, "{case}");
                    assert!(b == memory() && b_scales == [0.5; 512], "{case}");
                    let words = match kind {
                        Kind::Divide => "MADE_INLINE, MADE_APART or MADE_IN_BLOCK",
                        _ => "it must be ROPE_GROUP_SCALE_",
                    };
                    assert!(detail().contains(words), "{case}: {}", detail());
                    continue;
                };
                let layout = CacheLayout::nhd([BLOCKS, BLOCK_SIZE, 1, width])
                    .and_then(|layout| layout.narrow_channels(0..LONG))
                    .expect("valid");
                let bytes = elements::<u8>(&mut a);
                let scales = &mut a_scales[..];
                let cache = match unit {
                    1 => {
                        // SAFETY: floats are bytes, and are borrowed.
                        let scales = unsafe {
                            let len = size_of_val(scales);
                            std::slice::from_raw_parts_mut(scales.as_mut_ptr().cast::<u8>(), len)
                        };
                        CacheMut::coded_with_scales(bytes, layout, made, scales)
                    }
                    _ => CacheMut::coded_with_scales(bytes, layout, made, scales),
                };
                let outcome =
                    rope.apply_into(&source, &mut cache.expect("valid").slots(&MAPPING[..]));
                same(&case, status, outcome);
                assert!(a == b && a_scales == b_scales, "{case}");
                assert!(
                    a != memory() && (a_scales == [0.5; 512]) == inline,
                    "{case}"
                );
                written += 1;
            }
        }
    }
    let groups = Group::ALL.len();
    assert_eq!(written, 2 * (3 + 3 + groups + 3 + 3 + 2 + 2));
}

/// Groups of slots with scales by channel: written, shifted and moved as rope-core does, and a part of one is refused.
#[test]
fn channels_match_rope_core() {
    use rope_cache_format as Format;
    const GROUP: usize = 16;
    const SHAPE: [usize; 4] = [1, 2 * GROUP, 2, 32];
    let x = values::<bf16>(2 * GROUP * 2 * 32);
    let mut copy = x.clone();
    let (source, from) = (
        Tensor::new(&x, SHAPE).expect("valid"),
        tensor(&mut copy, SHAPE),
    );
    let (rope, c_plan) = (Rope::new(Pairing::Half), plan(rope_pairing::Half));
    let frequencies = Frequencies::new(32, 10_000.0, &Scaling::Default).expect("valid");
    let shift = frequencies.shift(&[-7; 2 * GROUP]).expect("valid");
    let mut table = vec![0.0; 2 * GROUP * 32];
    let mut c_table = table.clone();
    let rows = shift.rows_in(&mut table).expect("valid");
    shift.rows_in(&mut c_table).expect("valid");
    let c_rows = rope_rows_joined(c_table.as_ptr(), c_table.len(), 32);
    let layout = CacheLayout::hnd([3, 2, GROUP, 32]).expect("valid");
    let range = |first: usize, count: usize| rope_slots {
        kind: rope_slots_kind::Range as i32,
        first,
        count,
        ..zero()
    };
    for (format, made) in [
        (Format::U8ByChannel, CacheFormat::u8_by_channel(GROUP)),
        (Format::U4ByChannel, CacheFormat::u4_by_channel(GROUP)),
        (Format::Kivi2, CacheFormat::kivi2(GROUP)),
        (Format::Kivi4, CacheFormat::kivi4(GROUP)),
    ] {
        let (mut a, mut b) = (memory(), memory());
        let mut keys = CacheMut::coded(elements(&mut a), layout, made).expect("valid");
        let scale = rope_quant_scale {
            tokens: GROUP,
            ..zero()
        };
        let c_layout = rope_cache_layout {
            kind: rope_cache_layout_kind::Hnd as i32,
            extents: [3, 2, GROUP, 32, 0],
            ..zero()
        };
        let cache = c_cache(&mut b, format, c_layout, scale, &mut []);
        let case = format!("{format:?}");
        // SAFETY: what is passed is there.
        unsafe {
            for (first, slots) in [(16, 16..48), (8, 8..40)] {
                let slots_of_c = range(first, 2 * GROUP);
                let to = in_slots(&cache, &slots_of_c);
                let status = rope_apply_into(&c_plan, &from, &to);
                same(
                    &case,
                    status,
                    rope.apply_into(&source, &mut keys.slots(slots.clone())),
                );
                let status = rope_rotate(&c_plan, &to, &c_rows);
                same(&case, status, rope.rotate(&mut keys.slots(slots), &rows));
            }
            let part = range(8, 2 * GROUP);
            let status = rope_apply_into(&c_plan, &from, &in_slots(&cache, &part));
            assert_eq!(status, rope_status::PartOfGroup, "{case}");
            assert!(detail().contains("groups of 16"), "{case}: {}", detail());
            let (from, to) = (range(32, GROUP), range(0, GROUP));
            let status = rope_move_slots(&cache, &from, &to);
            same(&case, status, keys.move_slots(32..48, 0..16));
            let mut none = cache;
            none.scale.tokens = 0;
            let status = rope_move_slots(&none, &from, &to);
            assert_eq!(status, rope_status::Parameter, "{case}");
        }
        assert!(a == b && a != memory(), "{case}");
    }
}

/// Every format and layout, each where C names it: a norm, a rotation and the write give rope-core's bits. The bodies
/// have any verb, scale and slots over C, in strided layouts.
#[test]
fn formats_and_layouts_match_rope_core() {
    let (table, weight) = (table(), values::<bf16>(HEAD_DIM));
    let rows = Rows::new(&table, [TOKENS, 48]).expect("valid");
    let c_rows = rope_rows_joined(table.as_ptr(), table.len(), 48);
    let mut norm: rope_norm = zero();
    // SAFETY: a struct.
    let status = unsafe { rope_norm_init(&mut norm, rope_norm_formula::Llama as i32, 1e-6) };
    assert_eq!(status, rope_status::Ok);
    norm.weight = weights(&weight);
    let c_chain = chain_of(&norm, null());
    let chain = Rope::new(Pairing::Half)
        .with_norm(Norm::new(NormFormula::LLAMA, 1e-6).with_weight(&weight[..]));
    let (x, mut copy) = (values::<bf16>(LEN), values::<bf16>(LEN));
    let (source, from) = (
        Tensor::new(&x, SHAPE).expect("valid"),
        tensor(&mut copy, SHAPE),
    );
    let scale = QuantScale::Divide(HeadScales::Same(0.03125));
    let c_scale = rope_quant_scale {
        kind: rope_quant_scale_kind::Divide as i32,
        same: 0.03125,
        ..zero()
    };
    let (c_slots, mut written) = (mapping(), 0);
    // `groups_match_rope_core` and `channels_match_rope_core` have the others.
    let groups = rope_cache_format::Mxfp4 as i32..=rope_cache_format::E4m3In64 as i32;
    let channels = rope_cache_format::U8ByChannel as i32..=rope_cache_format::Kivi4 as i32;
    let asymmetric = rope_cache_format::U8 as i32..=rope_cache_format::U4 as i32;
    let others = |format: &&rope_cache_format| {
        ![&groups, &channels, &asymmetric]
            .iter()
            .any(|all| all.contains(&(**format as i32)))
    };
    for &format in rope_cache_format::ALL.iter().filter(others) {
        for (place, c_layout, layout) in layouts() {
            let case = format!("{format:?}, {place} {}", c_layout.kind);
            let (mut a, mut b) = (memory(), memory());
            let made = layout.and_then(|layout| rust_cache(&mut a, format, layout, scale, &mut []));
            let outcome = made.and_then(|mut cache| {
                chain.rotate_into(&source, &mut cache.slots(&MAPPING[..]), &rows)
            });
            let cache = c_cache(&mut b, format, c_layout, c_scale, &mut []);
            let to = in_slots(&cache, &c_slots);
            // SAFETY: what is passed is there.
            let status = unsafe { rope_rotate_into(&c_chain, &from, &to, &c_rows) };
            same(&case, status, outcome);
            assert!(a == b, "{case}");
            written += usize::from(a != memory());
        }
    }
    // Most cases are right ones.
    assert!(written > 50, "{written}");
}

/// Several targets of one read, and what is refused of them.
#[test]
fn outputs_match_rope_core() {
    let table = table();
    let rows = Rows::new(&table, [TOKENS, 48]).expect("valid");
    let c_rows = rope_rows_joined(table.as_ptr(), table.len(), 48);
    let ids: [u32; TOKENS] = core::array::from_fn(|token| (token * 3 % TOKENS) as u32);
    let other = rows.gather(&ids).expect("ids of the table");
    let c_other = rope_angles {
        ids: ids.as_ptr().cast(),
        ids_count: TOKENS,
        ids_number: rope_number::U32 as i32,
        ..c_rows
    };
    let layout = CacheLayout::nhd([BLOCKS, BLOCK_SIZE, HEADS, HEAD_DIM]).expect("valid");
    let x = values::<bf16>(LEN);
    let source = Tensor::new(&x, SHAPE).expect("valid");
    let mut copy = x.clone();
    let from = tensor(&mut copy, SHAPE);
    let (c_chain, c_slots) = (chain_of(null(), null()), mapping());
    let mut wide = SHAPE;
    wide[2] *= 2;

    let (mut y, mut z) = (vec![0.0_f32; 2 * LEN], vec![f16::ZERO; layout.end()]);
    let (mut c_y, mut c_z) = (y.clone(), z.clone());
    let groups = [rows.clone(), other.clone()];
    Rope::new(Pairing::Half)
        .rotate_into_each(
            &source,
            &mut [
                Output::head_groups(&mut TensorMut::new(&mut y, wide).expect("valid"), &groups),
                Output::cache(
                    &mut CacheMut::new(&mut z, layout).expect("valid"),
                    &MAPPING[..],
                    &other,
                ),
            ],
        )
        .expect("targets that fit");
    let c_groups = [c_rows, c_other];
    let to = tensor(&mut c_y, wide);
    let cache = rope_cache {
        memory: c_z.as_mut_ptr().cast(),
        bytes: size_of_val(&c_z[..]),
        format: rope_cache_format::F16 as i32,
        layout: layouts()[0].1,
        ..zero()
    };
    let to_slots = in_slots(&cache, &c_slots);
    let outputs = [
        rope_output {
            y: &to,
            rows: c_groups.as_ptr(),
            groups: 2,
        },
        rope_output {
            y: &to_slots,
            rows: &c_other,
            groups: 0,
        },
    ];
    let call = |outputs: &[rope_output]| {
        // SAFETY: what is passed is there.
        unsafe { rope_rotate_into_each(&c_chain, &from, outputs.as_ptr(), outputs.len()) }
    };
    assert_eq!(call(&outputs), rope_status::Ok, "{}", detail());
    assert!(c_y == y && c_z == z);

    let [first, second] = outputs;
    let one_group = rope_output { groups: 1, ..first };
    let nowhere = rope_output {
        y: null(),
        ..second
    };
    let without_rows = rope_output {
        rows: null(),
        ..first
    };
    let upon_source = rope_operand {
        data: from.data,
        element: rope_element::Bf16 as i32,
        ..tensor(&mut c_y[..LEN], SHAPE)
    };
    let in_place = rope_output {
        y: &upon_source,
        ..one_group
    };
    use rope_status as S;
    for (outputs, status) in [
        (&[second, one_group][..], S::ShapeMismatch),
        (&[second, nowhere], S::Null),
        (&[second, without_rows], S::Null),
        (&[second, second], S::MemoryOverlap),
        (&[second, in_place], S::MemoryOverlap),
        (&[], S::Ok),
    ] {
        assert_eq!(call(outputs), status, "{}", detail());
        assert!(c_y == y && c_z == z && copy == x);
    }
}

/// Rows that move keys, in the caller's memory and in a table.
#[test]
fn shifts_match_rope_core() {
    let new = |base, scaling: &Scaling<'_>| Frequencies::new(64, base, scaling).expect("valid");
    let yarn = Scaling::Yarn(Yarn::new(4.0, 4096));
    let (old, stretched) = (new(10_000.0, &Scaling::Default), new(10_000.0, &yarn));
    let c_yarn = rope_scaling {
        kind: rope_scaling_kind::Yarn as i32,
        factor: 4.0,
        original_context: 4096,
        beta_fast: 32.0,
        beta_slow: 1.0,
        ..zero()
    };
    let (c_old, mut c_new, axes) = (Owned::new(64), null_mut(), rope_axes_text(64));
    // SAFETY: what is passed is there.
    let status = unsafe { rope_frequencies_new(&axes, 10_000.0, &c_yarn, &mut c_new) };
    assert_eq!(status, rope_status::Ok);
    let c_new = Owned(c_new);
    let deltas = [-100_i64, 0, 7];
    let (from, to) = ([5_i64, 6, 7000], [5_i64, 2, 6900]);
    let listed = |values: &[i64]| {
        rope_positions_per_token(
            values.as_ptr().cast(),
            values.len(),
            rope_number::I64 as i32,
        )
    };
    let (c_deltas, c_from, c_to) = (listed(&deltas), listed(&from), listed(&to));
    let same_rows = |got: &rope_angles, expected: &Rows<'_>| {
        assert_eq!((got.len, got.rotary_dim), (3 * 64, 64));
        assert_eq!(got.attention_factor, expected.attention_factor());
        for token in 0..3 {
            let (cos, sin) = expected.row(token).expect("a row");
            // SAFETY: rows that a call has made.
            let row = unsafe { std::slice::from_raw_parts(got.cos.wrapping_add(64 * token), 64) };
            assert_eq!(row, [cos, sin].concat());
        }
    };
    let (mut rows, mut kept): (rope_angles, rope_angles) = (zero(), zero());
    let mut table = null_mut();
    let mut storage = vec![7.0_f32; 200];
    let room = (storage.as_mut_ptr(), storage.len());
    // SAFETY: what is passed is there.
    unsafe {
        let expected = stretched
            .shift(&deltas)
            .expect("valid")
            .rows()
            .expect("memory");
        let status = rope_rows_fill(&moved_by(c_new.0, &c_deltas), room.0, room.1, &mut rows);
        assert_eq!(status, rope_status::Ok);
        same_rows(&rows, &expected);
        assert_eq!(rows.attention_factor, 1.0);
        let status = rope_table_new(&moved_by(c_new.0, &c_deltas), &mut table);
        assert_eq!(status, rope_status::Ok);
        assert_eq!(rope_table_rows(table, &mut kept), rope_status::Ok);
        same_rows(&kept, &expected);
        assert_eq!(rope_table_free(table), rope_status::Ok);

        let expected = stretched
            .shift_from(&old, &from, &to)
            .expect("valid")
            .rows()
            .expect("memory");
        let fill = |old: *mut rope_frequencies, from, to, len, rows| {
            rope_rows_fill(&moved_from(c_new.0, old, from, to), room.0, len, rows)
        };
        let status = fill(c_old.0, &c_from, &c_to, room.1, &mut rows);
        assert_eq!(status, rope_status::Ok);
        same_rows(&rows, &expected);
        assert!(rows.attention_factor > 1.0);
        let status = rope_table_new(&moved_from(c_new.0, c_old.0, &c_from, &c_to), &mut table);
        assert_eq!(status, rope_status::Ok);
        assert_eq!(rope_table_rows(table, &mut kept), rope_status::Ok);
        same_rows(&kept, &expected);
        assert_eq!(rope_table_free(table), rope_status::Ok);

        // Keys take the quotient of the factors, of these rows and of those that undo them; of rows of positions they
        // would take the model's factor once more.
        let mut keys = [1.0_f32; 3 * 64];
        let cache = rope_cache {
            memory: keys.as_mut_ptr().cast(),
            bytes: size_of_val(&keys),
            format: rope_cache_format::F32 as i32,
            layout: rope_cache_layout {
                kind: rope_cache_layout_kind::Nhd as i32,
                extents: [3, 1, 1, 64, 0],
                ..zero()
            },
            ..zero()
        };
        let chain = chain_of(null(), null());
        let plan = plan(rope_pairing::Half);
        let slots = rope_slots {
            kind: rope_slots_kind::Range as i32,
            count: 3,
            ..zero()
        };
        assert_eq!((rows.moves, kept.moves), (1, 1));
        let mut back = vec![0.0_f32; 3 * 64];
        let mut undone: rope_angles = zero();
        let status = rope_rows_invert(&rows, back.as_mut_ptr(), back.len(), &mut undone);
        assert_eq!((status, undone.moves), (rope_status::Ok, 1));
        assert_eq!(
            rope_rotate(&plan, &in_slots(&cache, &slots), &rows),
            rope_status::Ok
        );
        let square: f32 = keys[..64].iter().map(|x| x * x).sum();
        let expected = 64.0 * rows.attention_factor * rows.attention_factor;
        assert!((f64::from(square) / expected - 1.0).abs() < 1e-5);
        let status = rope_rotate(&chain, &in_slots(&cache, &slots), &undone);
        assert_eq!(status, rope_status::Ok);
        assert!(keys.iter().all(|x| (x - 1.0).abs() < 1e-5));
        let mut of_positions: rope_angles = zero();
        let status = rope_rows_fill(
            &rope_angles_at(c_new.0, &c_from),
            room.0,
            room.1,
            &mut of_positions,
        );
        assert_eq!((status, of_positions.moves), (rope_status::Ok, 0));
        let before = keys;
        for refused in [
            rope_rotate(&plan, &in_slots(&cache, &slots), &of_positions),
            rope_rotate(&chain, &in_slots(&cache, &slots), &of_positions),
        ] {
            assert_eq!(refused, rope_status::ShiftFactor);
        }
        assert_eq!(
            detail(),
            format!(
                "rows.attention_factor is {}, but a shift requires 1, as cached keys have the factor already; make the \
                 rows by rope_rows_fill with rope_angles.moves",
                of_positions.attention_factor
            )
        );
        assert_eq!(keys, before);
        of_positions.attention_factor = 1.0;
        assert_eq!(
            rope_rotate(&plan, &in_slots(&cache, &slots), &of_positions),
            rope_status::Ok
        );
        let filled = fill(c_old.0, &c_from, &c_to, room.1, &mut rows);
        assert_eq!(filled, rope_status::Ok);

        // Refusals, which touch nothing.
        storage.fill(7.0);
        let before = rows;
        let short = listed(&from[..2]);
        let other = Owned::new(32);
        let real = [0.5_f32; 3];
        let real = rope_positions_per_token(real.as_ptr().cast(), 3, rope_number::F32 as i32);
        use rope_status as S;
        assert_eq!(fill(c_old.0, &c_from, &c_to, 191, &mut rows), S::Storage);
        assert_eq!(fill(c_old.0, &short, &c_to, 200, &mut rows), S::Count);
        assert_eq!(fill(other.0, &c_from, &c_to, 200, &mut rows), S::RotaryDim);
        assert_eq!(fill(c_old.0, &real, &c_to, 200, &mut rows), S::NoInteger);
        assert_eq!(fill(c_old.0, &c_from, &real, 200, &mut rows), S::NoInteger);
        let inside = rope_positions {
            values: room.0.cast(),
            ..c_to
        };
        assert_eq!(
            fill(c_old.0, &c_from, &inside, 200, &mut rows),
            S::MemoryOverlap
        );
        assert_eq!(
            fill(c_old.0, &inside, &c_to, 200, &mut rows),
            S::MemoryOverlap
        );
        for wrong in [
            null_mut::<rope_frequencies>(),
            storage.as_mut_ptr().wrapping_byte_add(1).cast(),
        ] {
            let expected = if wrong.is_null() {
                S::Null
            } else {
                S::Misaligned
            };
            // Without old frequencies the positions are deltas.
            if !wrong.is_null() {
                assert_eq!(fill(wrong, &c_from, &c_to, 200, &mut rows), expected);
            }
            let status = rope_rows_fill(&moved_by(wrong, &c_deltas), room.0, 200, &mut rows);
            assert_eq!(status, expected);
            let (wrong, made) = (wrong.cast(), c_old.0);
            assert_eq!(fill(made, wrong, &c_to, 200, &mut rows), expected);
            assert_eq!(fill(made, &c_from, wrong, 200, &mut rows), expected);
            assert_eq!(fill(made, &c_from, &c_to, 200, wrong.cast()), expected);
            let status = rope_rows_fill(&moved_by(made, wrong), room.0, 200, &mut rows);
            assert_eq!(status, expected);
            let status = rope_rows_fill(&moved_by(made, &c_deltas), wrong.cast(), 200, &mut rows);
            assert_eq!(status, expected);
        }
        let status = rope_rows_fill(&moved_by(c_new.0, &c_deltas), room.0, 100, &mut rows);
        assert_eq!(status, S::Storage);
        assert_eq!((rows.cos, rows.len), (before.cos, before.len));
    }
    assert!(storage.iter().all(|&x| x == 7.0));
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

/// What is null, misaligned, unknown, too long, in the way of something else, or refused by rope-core is refused, and
/// neither cache is touched.
#[test]
fn refusals_of_caches() {
    let table = table();
    let (weight, each) = (values::<f32>(HEAD_DIM), factors(TOKENS));
    let (mut k, mut v) = (values::<f32>(LEN), values::<f32>(LEN));
    let (k, v) = (tensor(&mut k, SHAPE), tensor(&mut v, SHAPE));
    let (mut keys, mut values) = (memory(), memory());
    let (mut key_scales, mut value_scales) = (vec![0.5; SCALES], vec![0.5; SCALES]);
    let apart = rope_quant_scale {
        kind: rope_quant_scale_kind::MadeApart as i32,
        least: 1e-6,
        strides: [BLOCK_SIZE * HEADS, HEADS, 1],
        ..zero()
    };
    let format = rope_cache_format::E4m3;
    let whole = layouts()[0].1;
    let right = Named {
        norm: rope_norm {
            eps: 1e-6,
            weighted: 1,
            weight: weights(&weight),
            ..zero()
        },
        scale: rope_scale {
            kind: rope_scale_kind::PerToken as i32,
            factors: each.as_ptr(),
            count: TOKENS,
            ..zero()
        },
        k,
        v,
        keys: c_cache(&mut keys, format, whole, apart, &mut key_scales),
        values: c_cache(&mut values, format, whole, apart, &mut value_scales),
        slots: mapping(),
        rows: rope_rows_joined(table.as_ptr(), table.len(), 48),
    };
    let call = |named: &Named| {
        let chain = chain_of(&named.norm, &named.scale);
        // SAFETY: what is passed is there, or longer than memory.
        unsafe {
            let keys = in_slots(&named.keys, &named.slots);
            let values = in_slots(&named.values, &named.slots);
            keys_and_values(&chain, [&named.k, &named.v], [&keys, &values], &named.rows)
        }
    };
    use rope_status as S;
    #[track_caller]
    fn check(right: &Named, call: impl Fn(&Named) -> S, expected: S, spoil: impl Fn(&mut Named)) {
        let mut named = *right;
        spoil(&mut named);
        assert_eq!(call(&named), expected, "{}", detail());
    }
    let refused = |expected, spoil: &dyn Fn(&mut Named)| check(&right, call, expected, spoil);

    let null_of = |expected| {
        let lost = |pointer: *const c_void| match expected {
            S::Null => null(),
            _ => pointer.wrapping_byte_add(1),
        };
        refused(expected, &|n| n.norm.weight.data = lost(n.norm.weight.data));
        refused(expected, &|n| {
            (n.norm.bias.data, n.norm.bias.count, n.norm.bias.element) =
                (lost(n.norm.weight.data), HEAD_DIM, rope_element::F32 as i32)
        });
        refused(expected, &|n| {
            (n.norm.sums, n.norm.sums_count) = (lost(n.scale.factors.cast()).cast(), TOKENS)
        });
        refused(expected, &|n| {
            n.scale.factors = lost(n.scale.factors.cast()).cast()
        });
        refused(expected, &|n| n.k.data = lost(n.k.data).cast_mut());
        refused(expected, &|n| n.v.data = lost(n.v.data).cast_mut());
        refused(expected, &|n| {
            n.keys.scales = lost(n.keys.scales.cast()).cast_mut().cast()
        });
        refused(expected, &|n| {
            n.values.scales = lost(n.values.scales.cast()).cast_mut().cast()
        });
        refused(expected, &|n| {
            n.slots.slots.values = lost(n.slots.slots.values)
        });
        refused(expected, &|n| {
            (n.slots.kind, n.slots.count) = (rope_slots_kind::Offsets as i32, TOKENS);
            n.slots.offsets = lost(n.scale.factors.cast()).cast();
        });
        refused(expected, &|n| {
            n.keys.scale.kind = rope_quant_scale_kind::Divide as i32;
            (n.keys.scale.each, n.keys.scale.each_count) =
                (lost(n.scale.factors.cast()).cast(), HEADS);
        });
        refused(expected, &|n| {
            n.keys.format = rope_cache_format::Bf16 as i32;
            n.keys.memory = lost(n.keys.memory).cast_mut();
        });
    };
    null_of(S::Null);
    null_of(S::Misaligned);
    refused(S::Null, &|n| n.keys.memory = null_mut());
    refused(S::Null, &|n| n.values.memory = null_mut());

    for number in [-1, 99] {
        refused(S::UnknownValue, &|n| n.norm.result = number);
        refused(S::UnknownValue, &|n| n.norm.reach = number);
        refused(S::UnknownValue, &|n| n.norm.order = number);
        refused(S::UnknownValue, &|n| n.norm.sum = number);
        refused(S::UnknownValue, &|n| n.scale.order = number);
    }
    for number in [0, -1, 99] {
        refused(S::UnknownValue, &|n| n.norm.weight.element = number);
        refused(S::UnknownValue, &|n| n.scale.kind = number);
        refused(S::UnknownValue, &|n| n.k.element = number);
        refused(S::UnknownValue, &|n| n.keys.format = number);
        refused(S::UnknownValue, &|n| n.values.layout.kind = number);
        refused(S::UnknownValue, &|n| n.keys.scale.kind = number);
        refused(S::UnknownValue, &|n| n.slots.kind = number);
        refused(S::UnknownValue, &|n| n.slots.slots.number = number);
    }
    refused(S::UnknownValue, &|n| {
        n.slots.slots.number = rope_number::F64 as i32
    });

    refused(S::Length, &|n| n.norm.weight.count = usize::MAX);
    refused(S::Length, &|n| n.scale.count = usize::MAX / 4);
    refused(S::Length, &|n| n.keys.bytes = usize::MAX);
    refused(S::Length, &|n| n.keys.scales_count = usize::MAX);
    refused(S::Length, &|n| n.slots.slots.count = isize::MAX as usize);
    refused(S::Length, &|n| {
        (n.slots.kind, n.slots.first) = (rope_slots_kind::Range as i32, usize::MAX - 3);
        n.slots.count = TOKENS;
    });

    // What is written is apart from all that is read or written besides.
    refused(S::MemoryOverlap, &|n| n.v.data = n.values.memory);
    refused(S::MemoryOverlap, &|n| n.norm.weight.data = n.keys.memory);
    refused(S::MemoryOverlap, &|n| n.rows.cos = n.keys.memory.cast());
    refused(S::MemoryOverlap, &|n| {
        n.values.scales = n.values.memory.cast()
    });
    refused(S::MemoryOverlap, &|n| n.keys.scales = n.keys.memory.cast());
    refused(S::MemoryOverlap, &|n| n.k.data = n.keys.memory);
    refused(S::MemoryOverlap, &|n| {
        n.scale.factors = n.keys.scales.cast()
    });
    refused(S::MemoryOverlap, &|n| n.slots.slots.values = n.keys.memory);
    refused(S::MemoryOverlap, &|n| {
        n.values.scale.kind = rope_quant_scale_kind::Multiply as i32;
        (n.values.scale.each, n.values.scale.each_count) = (n.values.memory.cast(), HEADS);
    });

    // What rope-core refuses.
    refused(S::Parameter, &|n| n.norm.eps = f32::NAN);
    refused(S::Count, &|n| n.norm.weight.count = 63);
    refused(S::Count, &|n| n.scale.count = 9);
    refused(S::CenteredSums, &|n| {
        (n.norm.centered, n.norm.sums, n.norm.sums_count) = (1, n.scale.factors, TOKENS);
    });
    refused(S::SlotCount, &|n| n.v.layout.shape[1] = 4);
    refused(S::CacheHeads, &|n| n.v.layout.shape[2] = 2);
    refused(S::CacheHeads, &|n| n.keys.layout.extents[2] = 2);
    refused(S::CacheLayout, &|n| n.keys.layout.extents = [usize::MAX; 5]);
    refused(S::CacheLayout, &|n| n.values.layout.channels = [3, 2]);
    refused(S::OutOfBounds, &|n| n.values.bytes = 4000);
    refused(S::Storage, &|n| n.values.scales_count = SCALES - 1);
    refused(S::SlotCount, &|n| n.slots.slots.count = 9);
    let wrong = [9, 4, -1, 32, 0, 17, 18, 3, 30, 12_i32];
    refused(S::Slot, &|n| n.slots.slots.values = wrong.as_ptr().cast());
    assert_eq!(
        detail(),
        "slot 32 (of token 3) is outside the cache's 0..32"
    );
    let (pages, positions) = ([-3_i32, 2], [0_i32, 1, 2, 3, 4, 0, 1, 2, 3, 4]);
    refused(S::NegativePage, &|n| {
        (n.slots.kind, n.slots.width) = (rope_slots_kind::Table as i32, 1);
        n.slots.pages = ids(&pages, rope_number::I32);
        n.slots.positions = ids(&positions, rope_number::I32);
    });
    assert_eq!(
        detail(),
        "page 0 of sequence 0 is -3, but position 0 (of token 0) is in it; a token is skipped by a negative position"
    );
    refused(S::Offsets, &|n| {
        (n.slots.kind, n.slots.width) = (rope_slots_kind::PackedTable as i32, 1);
        n.slots.pages = ids(&pages, rope_number::I32);
        n.slots.starts = ids(&positions[1..], rope_number::I32);
        n.slots.positions = ids(&positions[..8], rope_number::I32);
    });
    refused(S::PagePosition, &|n| {
        (n.slots.kind, n.slots.positions) = (rope_slots_kind::Sequences as i32, n.slots.slots);
    });
    let far = [i64::MAX; TOKENS];
    refused(S::CacheLayout, &|n| {
        (n.slots.kind, n.slots.count) = (rope_slots_kind::Offsets as i32, TOKENS);
        n.slots.offsets = far.as_ptr();
    });
    refused(S::SlotOffset, &|n| {
        (n.slots.kind, n.slots.count) = (rope_slots_kind::Offsets as i32, TOKENS);
        n.slots.offsets = far.as_ptr();
        for cache in [&mut n.keys, &mut n.values] {
            (cache.scale.kind, cache.scale.same) = (rope_quant_scale_kind::Divide as i32, 1.0);
        }
    });
    refused(S::RowCount, &|n| n.rows.len -= 48);
    refused(S::HeadDimOnStack, &|n| {
        (n.v.layout.shape, n.values.layout.extents[3]) = ([0, 5, HEADS, 2049], 2049);
        (
            n.k.layout.shape[0],
            n.values.layout.extents[0],
            n.slots.slots.count,
        ) = (0, 0, 0);
        (n.scale.count, n.rows.len) = (0, 0);
    });

    assert!(
        keys == memory() && values == memory(),
        "a refused call has written"
    );
    assert!(
        key_scales
            .iter()
            .chain(&value_scales)
            .all(|&scale| scale == 0.5)
    );
    assert_eq!(call(&right), S::Ok);
    assert!(keys != memory() && values != memory());
}

/// Tensors and sums that would be written and read at once, and every pointer of the verbs.
#[test]
fn refusals_of_chains() {
    let (tokens, shape) = (1, [1, 1, 1, HEAD_DIM]);
    let made = Owned::new(HEAD_DIM);
    let (mut x, mut y) = (floats(HEAD_DIM), floats(HEAD_DIM));
    let before = x.clone();
    let (view, out) = (tensor(&mut x, shape), tensor(&mut y, shape));
    let from = view;
    let table = floats(HEAD_DIM);
    let rows = rope_rows_joined(table.as_ptr(), HEAD_DIM, HEAD_DIM);
    let norm: rope_norm = rope_norm {
        eps: 1e-6,
        ..zero()
    };
    let chain = chain_of(&norm, null());
    let mut memory = vec![0_u32; HEAD_DIM];
    let layout = rope_cache_layout {
        kind: rope_cache_layout_kind::Nhd as i32,
        extents: [1, 1, 1, HEAD_DIM, 0],
        ..zero()
    };
    let cache = c_cache(&mut memory, rope_cache_format::F32, layout, zero(), &mut []);
    let mut other = vec![0_u32; HEAD_DIM];
    let values = c_cache(&mut other, rope_cache_format::F32, layout, zero(), &mut []);
    let slots = rope_slots {
        kind: rope_slots_kind::Range as i32,
        count: tokens,
        ..zero()
    };
    let plan = plan(rope_pairing::Half);
    let other_scale: rope_scale = zero();
    let mut sums = [7.0_f32];
    let (keys, in_cache) = (in_slots(&cache, &slots), in_slots(&values, &slots));
    each!(rope_rotate(&raw const chain, &raw const view, &raw const rows;));
    each!(rope_apply(&raw const chain, &raw const view;));
    each!(rope_rotate_into(&raw const chain, &raw const from, &raw const keys, &raw const rows;));
    each!(rope_rotate_into(&raw const chain, &raw const in_cache, &raw const out, &raw const rows;));
    each!(rope_sum_of_squares(&raw const chain, &raw const from, sums.as_mut_ptr(); 1));
    // The pointers of an operand.
    unsafe fn shift(
        plan: *const rope_plan,
        cache: *const rope_cache,
        slots: *const rope_slots,
        rows: *const rope_angles,
    ) -> rope_status {
        match cache.is_null() {
            // A tensor without data.
            true => rope_status::Null,
            // SAFETY: as the caller's.
            false => unsafe { rope_rotate(plan, &in_slots(cache, slots), rows) },
        }
    }
    each!(shift(&raw const plan, &raw const cache, &raw const slots, &raw const rows;));
    let output = rope_output {
        y: &raw const out,
        rows: &raw const rows,
        groups: 0,
    };
    each!(rope_rotate_into_each(&raw const chain, &raw const from, &raw const output; 1));
    let linear = chain_of(null(), null());

    use rope_status as S;
    // SAFETY: pointers that are there, but for those that are misaligned.
    unsafe {
        let odd = rope_plan {
            norm: (&raw const norm).wrapping_byte_add(1),
            ..chain
        };
        assert_eq!(rope_rotate(&odd, &view, &rows), S::Misaligned);
        assert_eq!(
            detail(),
            "norm is misaligned; its address must be a multiple of 8"
        );
        let odd = rope_plan {
            scale: (&raw const other_scale).wrapping_byte_add(1),
            ..chain
        };
        assert_eq!(rope_rotate(&odd, &view, &rows), S::Misaligned);

        let own = rope_norm {
            weighted: 1,
            weight: weights(&x),
            ..norm
        };
        let own = rope_plan {
            norm: &own,
            ..chain
        };
        assert_eq!(rope_rotate(&own, &view, &rows), S::MemoryOverlap);
        let bytes = 4 * HEAD_DIM;
        let words = format!("x is written and overlaps weight, in {bytes} bytes from byte 0 of x");
        assert_eq!(detail(), words + "; they must be disjoint");
        assert_eq!(rope_apply(&own, &view), S::MemoryOverlap);
        let into = |chain, x, y, rows| rope_rotate_into(chain, x, y, rows);
        assert_eq!(into(&own, &out, &view, &rows), S::MemoryOverlap);
        assert_eq!(into(&chain, &from, &view, &rows), S::MemoryOverlap);
        let forgotten = rope_norm {
            weighted: 1,
            ..norm
        };
        let forgotten = rope_plan {
            norm: &forgotten,
            ..chain
        };
        assert_eq!(rope_rotate(&forgotten, &view, &rows), S::WeightMissing);
        let unused = rope_norm {
            weight: weights(&table),
            ..norm
        };
        let unused = rope_plan {
            norm: &unused,
            ..chain
        };
        assert_eq!(rope_rotate(&unused, &view, &rows), S::WeightUnused);
        let in_the_way = rope_rows_joined(x.as_ptr(), HEAD_DIM, HEAD_DIM);
        assert_eq!(rope_rotate(&chain, &view, &in_the_way), S::MemoryOverlap);
        assert_eq!(into(&chain, &out, &view, &in_the_way), S::MemoryOverlap);
        let squares = |chain, sums: *mut f32| rope_sum_of_squares(chain, &from, sums, 1);
        assert_eq!(squares(&chain, view.data.cast()), S::MemoryOverlap);
        let given = rope_norm {
            sums: sums.as_ptr(),
            sums_count: 1,
            sums_width: 1,
            ..norm
        };
        let given = rope_plan {
            norm: &given,
            ..chain
        };
        assert_eq!(squares(&given, sums.as_mut_ptr()), S::MemoryOverlap);

        let inside = rope_operand {
            data: cache.memory,
            ..view
        };
        let copied = rope_apply_into(&chain, &in_slots(&cache, &slots), &inside);
        assert_eq!(copied, S::MemoryOverlap);
        let rotated = rope_rotate_into(&chain, &in_slots(&cache, &slots), &inside, &rows);
        assert_eq!(rotated, S::MemoryOverlap);
        let listed = rope_slots {
            kind: rope_slots_kind::Mapping as i32,
            slots: ids(&x[..1], rope_number::I32),
            ..zero()
        };
        let copied = rope_apply_into(&chain, &in_slots(&cache, &listed), &view);
        assert_eq!(copied, S::MemoryOverlap);
        let copied = rope_apply_into(&own, &in_slots(&cache, &slots), &view);
        assert_eq!(copied, S::MemoryOverlap);
        let rotated = rope_rotate_into(&chain, &in_slots(&cache, &slots), &view, &in_the_way);
        assert_eq!(rotated, S::MemoryOverlap);
        let in_the_way = rope_rows_joined(cache.memory.cast(), HEAD_DIM, HEAD_DIM);
        let shifted = rope_rotate(&plan, &in_slots(&cache, &slots), &in_the_way);
        assert_eq!(shifted, S::MemoryOverlap);
        let shifted = rope_rotate(&linear, &in_slots(&cache, &slots), &in_the_way);
        assert_eq!(shifted, S::MemoryOverlap);
        let inside = rope_scale {
            kind: rope_scale_kind::PerToken as i32,
            factors: cache.memory.cast(),
            count: 1,
            ..zero()
        };
        let inside = chain_of(null(), &inside);
        let shifted = rope_rotate(&inside, &in_slots(&cache, &slots), &rows);
        assert_eq!(shifted, S::MemoryOverlap);
        let shifted = rope_rotate(&chain, &in_slots(&cache, &slots), &rows);
        assert_eq!(shifted, S::NotLinear);
        assert_eq!(
            detail(),
            "the plan has a norm, which the keys of a cache have already; rotate them by a plan without it"
        );
        let listed = rope_slots {
            kind: rope_slots_kind::Mapping as i32,
            slots: ids(&memory[..1], rope_number::I32),
            ..zero()
        };
        let shifted = rope_rotate(&plan, &in_slots(&cache, &listed), &rows);
        assert_eq!(shifted, S::MemoryOverlap);
        let shifted = rope_rotate(&linear, &in_slots(&cache, &listed), &rows);
        assert_eq!(shifted, S::MemoryOverlap);
    }
    assert_eq!((x, sums), (before, [7.0]));
    assert!(memory.iter().chain(&other).all(|&word| word == 0));
    drop(made);
}

/// Slots that are given by their offsets: the last of a cache whose scales lie after the codes, and those of a cache
/// without heads. And more slots than can be looked at one by one.
#[test]
fn offsets_and_ranges_at_the_ends() {
    let one = rope_cache_layout {
        kind: rope_cache_layout_kind::Nhd as i32,
        extents: [1, 2, 1, 12, 0],
        channels: [0, 8],
        ..zero()
    };
    let inline = rope_quant_scale {
        kind: rope_quant_scale_kind::MadeInline as i32,
        behind: 8,
        ..zero()
    };
    let mut x = floats(8);
    let from = tensor(&mut x, [1, 1, 1, 8]);
    let mut memory = [0_u32; 6];
    let format = rope_cache_format::E5m2;
    let cache = c_cache(&mut memory, format, one, inline, &mut []);
    let chain = chain_of(null(), null());
    let slots = |kind: rope_slots_kind, offsets: &[i64], count| rope_slots {
        kind: kind as i32,
        offsets: offsets.as_ptr(),
        count,
        ..zero()
    };
    let copy = |from: &rope_operand, cache: &rope_cache, slots: rope_slots| {
        // SAFETY: what is passed is there.
        unsafe { rope_apply_into(&chain, from, &in_slots(cache, &slots)) }
    };
    use rope_slots_kind::{Offsets, Range};
    let refused = copy(&from, &cache, slots(Offsets, &[13], 1));
    assert_eq!(refused, rope_status::SlotOffset);
    assert_eq!(
        detail(),
        "offset 13 (of token 0) leaves no room for the 12 of its heads in the cache's 24; offsets count elements, and \
         bytes where the cache has codes"
    );
    assert_eq!(memory, [0; 6]);
    let written = copy(&from, &cache, slots(Offsets, &[12], 1));
    assert_eq!(written, rope_status::Ok);
    assert!(memory[..3] == [0; 3] && memory[3..].iter().all(|&word| word != 0));

    // A chunk of any number of channels, which lie apart.
    let mut apart = cache;
    apart.scale.kind = rope_quant_scale_kind::Divide as i32;
    apart.scale.same = 1.0;
    apart.layout = rope_cache_layout {
        kind: rope_cache_layout_kind::Strided as i32,
        extents: [1, 1, 1, 8, 0],
        strides: rope_cache_strides {
            group: usize::MAX,
            chunk: usize::MAX,
            channel: 3,
            ..zero()
        },
        ..zero()
    };
    apart.format = rope_cache_format::F16 as i32;
    apart.bytes = 24;
    let narrow = copy(&from, &apart, slots(Range, &[], 1));
    assert_eq!(narrow, rope_status::OutOfBounds);
    let mut wide = [0_u32; 11];
    (apart.memory, apart.bytes) = (wide.as_mut_ptr().cast(), 44);
    let spread = copy(&from, &apart, slots(Range, &[], 1));
    assert_eq!(spread, rope_status::Ok);
    let written = elements::<u16>(&mut wide)
        .iter()
        .map(|&bits| usize::from(bits != 0))
        .sum::<usize>();
    assert_eq!(written, 8);

    let endless = 1 << (usize::BITS - 8);
    let mut none = cache;
    none.scale.kind = rope_quant_scale_kind::Divide as i32;
    none.scale.same = 1.0;
    none.layout = rope_cache_layout {
        kind: rope_cache_layout_kind::Strided as i32,
        extents: [1, endless, 0, 8, 0],
        strides: rope_cache_strides {
            group: endless,
            token: 8,
            chunk: 8,
            channel: 1,
            ..zero()
        },
        ..zero()
    };
    let mut empty = from;
    empty.layout.shape[2] = 0;
    let nothing = copy(&empty, &none, slots(Offsets, &[24], 1));
    assert_eq!(nothing, rope_status::Ok);
    let beyond = copy(&empty, &none, slots(Offsets, &[25], 1));
    assert_eq!(beyond, rope_status::SlotOffset);
    empty.layout.shape[1] = endless;
    let nothing = copy(&empty, &none, slots(Range, &[], endless));
    assert_eq!(nothing, rope_status::Ok);
}
