//! Extreme arguments of every public function of rope-core, of every function of the C API, and of rope-models'
//! functions of numbers: sizes near `usize::MAX`, zero, one off, near powers of two; ids near both ends of their types;
//! numbers that are none. No call panics, aborts or loops, and a refused verb writes nothing. `public-api.txt` has the
//! functions: one without a case fails the test.

use std::collections::BTreeSet;
use std::sync::mpsc;
use std::time::Duration;

use rope_core::axes::{Axes, MixedAngle, MixedFrequencies};
use rope_core::cache::{
    Asymmetric, Cache, CacheFormat, CacheLayout, CacheMut, CacheParts, CachePartsMut, CacheShape,
    CacheStrides, ChannelCodes, GroupCodes, HeadScales, MxScale, QuantFormat, QuantScale,
    ScaleLayout, ScalePlace, Slots, TileScale,
};
use rope_core::dual_chunk::{DualChunk, DualChunkQuery};
use rope_core::gradient::{PairGradients, convert_to_base, convert_to_ratio};
use rope_core::norm::{Norm, NormFormula, NormReach, NormSum, Weights};
use rope_core::shard::{Shard, ShardKind};
use rope_core::stages::{Hadamard, HadamardFactor, Linear, Normed, Scale, StageOrder, Stages};
use rope_core::{
    Angle, Angles, AnyRows, Coordinates, Dimension, Direction, Error, Frequencies, FrequencyChunk,
    FullRows, Ids, Layout, LongRope, NoRotation, Output, Pairing, Positions, Rope, Rows, Scaling,
    Shape, Strides, Tensor, TensorMut, TokenAngles, Yarn,
};
use rope_models::{Config, Gguf, GgufValue, GridIndexing, initial_axial, initial_mixed};
use rope_tests::quantize::BLOCKS;
use rope_tests::{Source, seed};

/// A case: the functions that it calls, `Type: names` for each type; its name; and the function.
type Case = (&'static [&'static str], &'static str, fn(&mut Source<'_>));

macro_rules! cases {
    ($($name:ident: $($type:literal)+;)+) => {
        &[$((&[$($type),+], stringify!($name), $name)),+]
    };
}

/// The functions that each case calls, itself or by those below it.
const CASES: &[Case] = cases! {
    layouts:
        "Layout: bhsd bshd end narrow offset sbhd shape strided strides thd"
        "Shape: difference elements from";
    tensors:
        "Tensor: head layout narrow new shape split_at"
        "TensorMut: as_tensor layout narrow new reborrow shape split_at";
    cache_layouts:
        "CacheLayout: bytes end hdn hdnx hnd hndx narrow_channels nhd shape strided strides with_offset"
        "CacheFormat: by_channel by_group element from quantized"
        "ScaleLayout: hn nh with_groups";
    caches:
        "Cache: coded coded_with_scales layout new slots"
        "CacheMut: as_cache coded coded_with_scales layout move_slots new reborrow slots"
        "Slots: from offsets pages sequences table"
        "HeadScales: from";
    cache_parts:
        "CacheParts: new of slots"
        "CachePartsMut: as_parts move_slots new new_with_scales of slots";
    lists:
        "Positions: axis_major from packed packed_from token_major"
        "Ids: from";
    shards:
        "Shard: new packed tokens"
        "ShardTokens: is_empty iter len position";
    chunks:
        "DualChunk: id new positions";
    axes:
        "Axes: from ggml_imrope ggml_mrope given mrope mrope_alternating mrope_interleaved mrope_spread per_axis \
         pixtral vision wan"
        "FrequencyChunk: count"
        "Yarn: new";
    frequencies:
        "Frequencies: angle arranged at attention_factor axes from_inverse from_inverse_in iter new new_in \
         rotary_dim rows shift shift_from softmax_factor with_angle with_attention_factor with_softmax_factor"
        "TokenAngles: rows rows_in";
    mixed:
        "MixedFrequencies: angle at attention_factor axes chunks frequency heads new new_in rotary_dim rows \
         with_angle";
    rows:
        "AnyRows: check_shape from rotary_dim rows"
        "FullRows: new rows"
        "Rows: attention_factor check_shape from_cos_sin from_vec gather heads inverted is_empty len narrow narrow_pairs new repeated rotary_dim row strided \
         with_attention_factor with_heads";
    sums:
        "PairGradients: cos_sin frequencies new positions split_at total"
        "gradient: convert_to_base convert_to_ratio";
    plans:
        "Norm: new with_bias with_order with_reach with_sum with_sum_of_squares with_weight without_weight"
        "Weights: from"
        "Hadamard: new with_factor"
        "Scale: constant per_token per_token_and_head with_order without_rounding"
        "Pairing: channel_in";
    verbs:
        "Rope: apply apply_into from new prepare prepare_into rotate rotate_into rotate_into_each rotate_qk \
         sum_of_squares with_direction with_hadamard with_head_dim with_norm with_output_pairing with_parts \
         with_scale with_window without_rounding"
        "Output: head_groups new"
        "Call: run";
    backward:
        "Rope: angle_gradients backward backward_into channel_gradients cos_sin_gradients factor_gradients";
    models:
        "GridIndexing: positions_in"
        "rope_models: initial_axial initial_mixed"
        "Rotation: rope_for"
        "Config: with_length"
        "Gguf: with_context"
        "Layers: get";
};

/// The C API: every function of the header, as the suite `kinds` checks.
#[cfg(feature = "capi")]
const OF_C: &[Case] = &[(&[], "c", rope_tests::bodies::calls)];
#[cfg(not(feature = "capi"))]
const OF_C: &[Case] = &[];

/// The functions without a case: `Type::name`, or the name for every type, with the reason.
const EXEMPT: &[(&str, &str)] = &[
    (
        "fmt",
        "it takes no value; the suite `messages` has its texts",
    ),
    ("name", "it takes no value"),
    ("Backend::available", "it takes no value"),
    ("Backend::best", "it takes no value"),
    ("Backend::is_available", "it takes no value"),
    ("Error::kind", "it takes no value"),
    ("FrequencyChunk::eq", "it compares memory of one size"),
    (
        "Rope::with_backend",
        "it takes an instruction set; the suite `backends` has all",
    ),
    ("Rope::backend", "it takes no value"),
    (
        "Rope::with_threads",
        "it takes no value; the suite `parallel` has it",
    ),
    (
        "Frequencies::with_backend",
        "it takes an instruction set; the suite `rows` has all",
    ),
    (
        "Gguf::with_freq_factors",
        "it takes a list; the suite `gguf` has wrong ones",
    ),
    (
        "MixedFrequencies::with_backend",
        "it takes an instruction set; the suite `mixed` has all",
    ),
];

/// The seconds after which a round of a case counts as a loop. A round takes milliseconds. Seconds in which the whole
/// process stands still do not count.
const PATIENCE: u64 = 60;

const SMALLEST_OF_LARGE: u32 = if usize::BITS == 64 { 44 } else { 28 };

/// Returns a size: mostly a small one; otherwise zero, one off a power of two, or near the largest one. Sizes of which
/// an allocator has the memory are at most 1025.
fn size(source: &mut Source<'_>) -> usize {
    let off = |source: &mut Source<'_>, size: usize| match source.below(3) {
        0 => size.wrapping_sub(1),
        1 => size,
        _ => size.wrapping_add(1),
    };
    match source.below(10) {
        0..6 => source.below(5),
        6 => {
            let small = 1 << source.below(11);
            off(source, small)
        }
        7 => {
            let bits = source.within(SMALLEST_OF_LARGE as usize, usize::BITS as usize - 1);
            off(source, 1 << bits)
        }
        8 => usize::MAX - source.below(10),
        _ => {
            let part = usize::MAX / source.within(2, 9);
            off(source, part)
        }
    }
}

fn sizes<const N: usize>(source: &mut Source<'_>) -> [usize; N] {
    std::array::from_fn(|_| size(source))
}

/// Returns a size that is mostly small and not zero, so that most calls of several sizes are possible.
fn mostly_small(source: &mut Source<'_>) -> usize {
    match source.once_in(12) {
        true => size(source),
        false => source.within(1, 4),
    }
}

fn mostly_small_sizes<const N: usize>(source: &mut Source<'_>) -> [usize; N] {
    std::array::from_fn(|_| mostly_small(source))
}

fn range(source: &mut Source<'_>) -> std::ops::Range<usize> {
    size(source)..size(source)
}

fn id(source: &mut Source<'_>) -> i64 {
    let near = |source: &mut Source<'_>, id: i64| id.wrapping_add(source.below(5) as i64 - 2);
    match source.below(8) {
        0..5 => source.below(6) as i64 - 1,
        5 => near(source, i64::MIN),
        6 => near(source, i64::MAX),
        _ => {
            // As many rows as a machine has memory for would take minutes: ids may be lengths.
            let bits = match source.once_in(2) {
                true => source.below(11),
                false => source.within(SMALLEST_OF_LARGE as usize, 62),
            };
            near(source, 1 << bits)
        }
    }
}

/// Returns an id that is no length.
fn position(source: &mut Source<'_>) -> i64 {
    match source.once_in(4) {
        true => (1_i64 << source.below(63)).wrapping_add(source.below(5) as i64 - 2),
        false => id(source),
    }
}

fn ids(source: &mut Source<'_>) -> Vec<i64> {
    (0..source.below(9)).map(|_| id(source)).collect()
}

fn real(source: &mut Source<'_>) -> f64 {
    const REALS: [f64; 20] = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        2.0,
        10_000.0,
        1e-300,
        5e-324,
        -5e-324,
        f64::EPSILON,
        f64::MIN_POSITIVE,
        f64::MAX,
        f64::MIN,
        9_223_372_036_854_775_808.0,
        9_223_372_036_854_777_856.0,
        7.9e28,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
    ];
    match source.once_in(2) {
        true => source.one_of(&REALS),
        false => f64::from(source.unit()) * 100.0,
    }
}

fn reals(source: &mut Source<'_>) -> Vec<f64> {
    (0..source.below(9)).map(|_| real(source)).collect()
}

fn floats(source: &mut Source<'_>, len: usize) -> Vec<f32> {
    let odd = source.once_in(3);
    (0..len)
        .map(|_| match odd {
            true => real(source) as f32,
            false => source.unit(),
        })
        .collect()
}

/// Returns floats of a random number.
fn memory(source: &mut Source<'_>) -> Vec<f32> {
    let len = source.below(65);
    floats(source, len)
}

fn dimension(source: &mut Source<'_>) -> Dimension {
    let all = [
        Dimension::Batch,
        Dimension::Tokens,
        Dimension::Heads,
        Dimension::Channels,
    ];
    source.one_of(&all)
}

fn strides(source: &mut Source<'_>) -> Strides {
    let [batch, token, head] = sizes(source);
    Strides { batch, token, head }
}

/// Returns positions of any kind, over the lists.
fn positions<'a>(source: &mut Source<'_>, ids: &'a [i64], reals: &'a [f64]) -> Positions<'a> {
    let first = position(source);
    let made = match source.below(10) {
        0 => return Positions::axis_major(ids),
        1 => return Positions::token_major(ids),
        2 => return Positions::from(reals),
        3 => return Positions::axis_major(reals),
        4 => return Positions::token_major(reals),
        5 => Positions::packed(ids),
        6 => Positions::packed_from(ids, ids),
        7 => return (first..first.saturating_add(source.below(5) as i64)).into(),
        8 => return (id(source)..id(source)).into(),
        _ => return ids.into(),
    };
    made.unwrap_or(first.into())
}

/// Returns slots of any kind, over the lists.
fn slots<'a>(source: &mut Source<'_>, ids: &'a [i64], reals: &'a [f64]) -> Slots<'a> {
    let positions = positions(source, ids, reals);
    match source.below(7) {
        0 => Slots::offsets(ids),
        1 => Slots::pages(ids, ids, ids, positions),
        2 => Slots::sequences(positions),
        3 => Slots::table(ids, sizes(source), positions),
        4 => (id(source)..id(source)).into(),
        5 => (0..source.below(5)).into(),
        _ => Slots::from(ids),
    }
}

fn layout(source: &mut Source<'_>) -> Result<Layout, Error> {
    let extents = mostly_small_sizes(source);
    match source.below(5) {
        0 => Layout::bshd(extents),
        1 => Layout::bhsd(extents),
        2 => Layout::sbhd(extents),
        3 => Layout::thd(mostly_small_sizes(source)),
        _ => Layout::strided(extents, strides(source)),
    }
}

fn layouts(source: &mut Source<'_>) {
    let extents = sizes(source);
    for layout in [
        Layout::bshd(extents),
        Layout::bhsd(extents),
        Layout::sbhd(extents),
        Layout::thd(sizes(source)),
        Layout::strided(extents, strides(source)),
        layout(source),
    ] {
        let Ok(layout) = layout else { continue };
        let _ = (layout.offset(), layout.strides(), layout.end());
        let shape = layout.shape();
        let _ = (
            shape.elements(),
            shape.difference(Shape::from(sizes(source))),
        );
        if let Ok(part) = layout.narrow(dimension(source), range(source)) {
            let _ = part.end();
        }
    }
    let _ = Shape::from(extents).elements();
}

fn tensors(source: &mut Source<'_>) {
    let mut memory = memory(source);
    let Ok(layout) = layout(source) else { return };
    let _ = Tensor::new(&memory, Shape::from(sizes(source)));
    let _ = TensorMut::new(&mut memory, sizes(source));
    if let Ok(tensor) = Tensor::new(&memory, layout) {
        let _ = (tensor.head(sizes(source)), tensor.shape(), tensor.layout());
        let _ = tensor.narrow(dimension(source), range(source));
        let _ = tensor.split_at(dimension(source), size(source));
    }
    if let Ok(mut tensor) = TensorMut::new(&mut memory, layout) {
        let _ = (tensor.as_tensor().shape(), tensor.shape(), tensor.layout());
        let _ = tensor.reborrow().narrow(dimension(source), range(source));
        let _ = tensor.split_at(dimension(source), size(source));
    }
}

fn cache_layout(source: &mut Source<'_>) -> Result<CacheLayout, Error> {
    let (four, five) = match source.once_in(4) {
        true => (sizes(source), sizes(source)),
        false => (mostly_small_sizes(source), mostly_small_sizes(source)),
    };
    let layout = match source.below(6) {
        0 => CacheLayout::nhd(four),
        1 => CacheLayout::hnd(four),
        2 => CacheLayout::hdn(four),
        3 => CacheLayout::hdnx(five),
        4 => CacheLayout::hndx(five),
        _ => {
            let [blocks, block_size, heads, head_dim] = four;
            let shape = CacheShape {
                blocks,
                block_size,
                heads,
                head_dim,
            };
            let strides: [_; 8] = sizes(source);
            let strides = CacheStrides {
                block: strides[0],
                group: strides[1],
                group_stride: strides[2],
                token: strides[3],
                head: strides[4],
                chunk: strides[5],
                chunk_stride: strides[6],
                channel: strides[7],
            };
            CacheLayout::strided(shape, strides)
        }
    }?;
    match source.once_in(4) {
        true => layout.narrow_channels(range(source)),
        false => Ok(layout),
    }
}

fn scale_place(source: &mut Source<'_>) -> ScalePlace {
    match source.below(5) {
        4 => {
            let (first, [block, token, head]) = (size(source), mostly_small_sizes(source));
            let strides = ScaleLayout { block, token, head };
            ScalePlace::InBlock { first, strides }
        }
        0 => ScalePlace::Inline(size(source)),
        1 => ScalePlace::Separate(ScaleLayout::nh(sizes(source)).with_groups(size(source))),
        2 => ScalePlace::Separate(ScaleLayout::hn(mostly_small_sizes(source))),
        _ => {
            let [block, token, head] = sizes(source);
            ScalePlace::Separate(ScaleLayout { block, token, head })
        }
    }
}

fn cache_layouts(source: &mut Source<'_>) {
    let Ok(layout) = cache_layout(source) else {
        return;
    };
    let _ = (layout.shape(), layout.strides(), layout.end());
    let _ = layout.narrow_channels(range(source));
    let _ = layout.bytes(cache_format(source, &[0.5; 2]));
    let _ = layout.bytes(CacheFormat::from(source.one_of(&BLOCKS)));
    let _ = layout.bytes(CacheFormat::element::<f32>());
}

fn head_scales<'a>(source: &mut Source<'_>, list: &'a [f32]) -> HeadScales<'a> {
    match source.once_in(2) {
        true => HeadScales::from(real(source) as f32),
        false => HeadScales::from(list),
    }
}

fn quant_scale<'a>(source: &mut Source<'_>, list: &'a [f32]) -> QuantScale<'a> {
    let scales = head_scales(source, list);
    match source.below(4) {
        0 => QuantScale::Divide(scales),
        1 => QuantScale::Multiply(scales),
        2 => QuantScale::Reciprocal(scales),
        _ => QuantScale::Computed {
            least: real(source) as f32,
            at: scale_place(source),
        },
    }
}

/// A format of codes.
fn cache_format<'a>(source: &mut Source<'_>, list: &'a [f32]) -> CacheFormat<'a> {
    let scale = quant_scale(source, list);
    let (power, at) = (source.one_of(&MxScale::ALL), scale_place(source));
    let least = real(source) as f32;
    let tile = match source.below(3) {
        0 => TileScale::Quotient { least },
        1 => TileScale::PowerOfTwo { least },
        _ => TileScale::E8m0 { least },
    };
    let tokens = size(source);
    let rule = source.one_of(&Asymmetric::ALL);
    let channels = source.one_of(&[0, 1, 2, 16, 80, usize::MAX]);
    match source.below(14) {
        0 => CacheFormat::quantized(QuantFormat::E4m3, scale),
        1 => source.one_of(&BLOCKS).into(),
        2 => CacheFormat::by_group(GroupCodes::Mxfp4(power), at),
        3 => CacheFormat::by_group(GroupCodes::Mxfp8(power), at),
        4 => CacheFormat::by_group(GroupCodes::Nvfp4(least), at),
        5 => CacheFormat::by_group(GroupCodes::E4m3In128(tile), at),
        6 => CacheFormat::by_group(GroupCodes::E4m3In64(tile), at),
        7 => CacheFormat::by_channel(ChannelCodes::U8, tokens),
        8 => CacheFormat::by_channel(ChannelCodes::U4, tokens),
        9 => CacheFormat::by_channel(ChannelCodes::Kivi2, tokens),
        10 => CacheFormat::by_channel(ChannelCodes::Kivi4, tokens),
        11 => CacheFormat::by_group(GroupCodes::U8(rule, channels), at),
        12 => CacheFormat::by_group(GroupCodes::U4(rule, channels), at),
        _ => CacheFormat::quantized(source.one_of(&QuantFormat::ALL), scale),
    }
}

/// Memory of a cache in one of the formats.
struct CacheMemory {
    layout: CacheLayout,
    floats: Vec<f32>,
    bytes: Vec<u8>,
    scales: Vec<f32>,
    zeros: Vec<f32>,
    list: Vec<f32>,
    format: usize,
}

impl CacheMemory {
    fn any(source: &mut Source<'_>) -> Option<Self> {
        let layout = cache_layout(source).ok()?;
        Some(CacheMemory {
            layout,
            floats: vec![0.5; source.below(300)],
            bytes: vec![0x5a; source.below(1200)],
            scales: vec![0.25; source.below(40)],
            zeros: vec![0.25; source.below(40)],
            list: floats(source, 4)[..source.below(5)].to_vec(),
            format: source.below(4),
        })
    }

    fn cache(&self, source: &mut Source<'_>) -> Result<Cache<'_>, Error> {
        match self.format {
            0 => Cache::new(&self.floats, self.layout),
            1 => Cache::coded(&self.bytes, self.layout, source.one_of(&BLOCKS)),
            2 => {
                let (format, both) = (
                    cache_format(source, &self.list),
                    [&self.scales, &self.zeros],
                );
                Cache::coded_with_scales(&self.bytes, self.layout, format, both)
            }
            _ => {
                let format = cache_format(source, &self.list);
                Cache::coded_with_scales(&self.bytes, self.layout, format, &self.scales)
            }
        }
    }

    fn cache_mut(&mut self, source: &mut Source<'_>) -> Result<CacheMut<'_>, Error> {
        match self.format {
            0 => CacheMut::new(&mut self.floats, self.layout),
            1 => CacheMut::coded(&mut self.bytes, self.layout, source.one_of(&BLOCKS)),
            2 => {
                let format = cache_format(source, &self.list);
                let both = [&mut self.scales, &mut self.zeros];
                CacheMut::coded_with_scales(&mut self.bytes, self.layout, format, both)
            }
            _ => {
                let format = cache_format(source, &self.list);
                CacheMut::coded_with_scales(&mut self.bytes, self.layout, format, &mut self.scales)
            }
        }
    }

    fn bits(&self) -> ([Vec<u32>; 3], Vec<u8>) {
        let bits = |floats: &Vec<f32>| floats.iter().map(|x| x.to_bits()).collect();
        (
            [&self.floats, &self.scales, &self.zeros].map(bits),
            self.bytes.clone(),
        )
    }
}

/// A tensor's memory and the extents that a cache accepts, mostly.
fn heads_of(source: &mut Source<'_>, layout: &CacheLayout) -> [usize; 4] {
    let shape = layout.shape();
    let [batch, tokens, heads, head_dim] = mostly_small_sizes(source);
    match source.once_in(5) {
        true => [batch, tokens, heads, head_dim],
        false => [batch.min(2), tokens, shape.heads, shape.head_dim],
    }
}

fn caches(source: &mut Source<'_>) {
    let Some(mut of) = CacheMemory::any(source) else {
        return;
    };
    let (one, other, real) = (ids(source), ids(source), reals(source));
    let (from, to) = (slots(source, &one, &real), slots(source, &other, &real));
    let extents = heads_of(source, &of.layout);
    let len = Shape::from(extents)
        .elements()
        .filter(|len| *len < 4096)
        .unwrap_or(0);
    let mut x = vec![0.5_f32; len];
    let rows = generated(source);
    let plan = plan(source);
    if let Ok(cache) = of.cache(source) {
        let _ = cache.layout().end();
        if let Ok(mut x) = TensorMut::new(&mut x, extents) {
            let _ = plan.apply_into(&cache.slots(from), &mut x);
            let _ = plan.rotate_into(&cache.slots(to), &mut x, &rows);
        }
    }
    let before = of.bits();
    let verb = source.below(4);
    let made = of.cache_mut(source).and_then(|mut cache| {
        let _ = (cache.layout().end(), cache.as_cache().layout().end());
        let mut cache = cache.reborrow();
        match verb {
            0 => cache.move_slots(from, to),
            1 => plan.rotate(&mut cache.slots(to), &rows),
            2 => plan.apply(&mut cache.slots(to)),
            _ => {
                let x = Tensor::new(&x, extents)?;
                plan.rotate_into(&x, &mut cache.slots(to), &rows)
            }
        }
    });
    assert!(
        made.is_ok() || of.bits() == before,
        "{made:?} wrote to a cache"
    );
}

fn cache_parts(source: &mut Source<'_>) {
    let Ok(first) = cache_layout(source) else {
        return;
    };
    let second = match source.once_in(3) {
        true => cache_layout(source),
        false => first.with_offset(size(source)),
    };
    let Ok(second) = second else { return };
    let list = [0.5; 2];
    let format = |source: &mut Source<'_>| match source.once_in(2) {
        true => CacheFormat::element::<f32>(),
        false => cache_format(source, &list),
    };
    let parts = [(first, format(source)), (second, format(source))];
    let memory = vec![0x5a5a_5a5a_u32; source.below(600)];
    let scales = vec![0.25_f32; source.below(40)];
    let floats = [(); 2].map(|()| vec![0.5_f32; source.below(300)]);
    let (one, other, real) = (ids(source), ids(source), reals(source));
    let (from, to) = (slots(source, &one, &real), slots(source, &other, &real));
    let [batch, tokens, heads, own] = heads_of(source, &first);
    let head_dim = own.saturating_add(second.shape().head_dim);
    let len = Shape::from([batch, tokens, heads, head_dim]).elements();
    let mut x = vec![0.5_f32; len.filter(|len| *len < 4096).unwrap_or(0)];
    let (rows, plan) = (generated(source), plan(source));
    let extents = [batch, tokens, heads, head_dim];
    let widths = [own, second.shape().head_dim].map(|width| [batch, tokens, heads, width]);

    let read = match source.below(2) {
        0 => CacheParts::new(bytemuck::cast_slice(&memory), parts),
        _ => Cache::new(&floats[0], first)
            .and_then(|latents| CacheParts::of([latents, Cache::new(&floats[1], second)?])),
    };
    if let (Ok(cache), Ok(mut x)) = (read, TensorMut::new(&mut x, extents)) {
        let _ = plan.apply_into(&cache.slots(from), &mut x);
        let _ = plan.rotate_into(&cache.slots(to), &mut x, &rows);
    }
    let (mut got, mut kept, mut own) = (memory.clone(), scales.clone(), floats.clone());
    let (kind, verb) = (source.below(3), source.below(5));
    let made = (|| {
        let [latents, keys] = &mut own;
        let bytes = bytemuck::cast_slice_mut(&mut got);
        let mut cache = match kind {
            0 => CachePartsMut::new(bytes, parts),
            1 => CachePartsMut::new_with_scales(bytes, parts, &mut kept),
            _ => CachePartsMut::of([CacheMut::new(latents, first)?, CacheMut::new(keys, second)?]),
        }?;
        let _ = cache.as_parts();
        match verb {
            0 => cache.move_slots(from, to),
            1 => plan.rotate(&mut cache.slots(to), &rows),
            2 => plan.apply(&mut cache.slots(to)),
            3 => plan.rotate_into(&Tensor::new(&x, extents)?, &mut cache.slots(to), &rows),
            _ => {
                let [latents, keys] = widths;
                let source = [Tensor::new(&x, latents)?, Tensor::new(&x, keys)?];
                plan.rotate_into(&source, &mut cache.slots(to), &rows)
            }
        }
    })();
    let bits = |floats: &[f32]| -> Vec<u32> { floats.iter().map(|x| x.to_bits()).collect() };
    let same = got == memory
        && bits(&kept) == bits(&scales)
        && own
            .iter()
            .map(|x| bits(x))
            .eq(floats.iter().map(|x| bits(x)));
    assert!(made.is_ok() || same, "{made:?} wrote to a cache of parts");
}

/// Makes the rows of angles, in memory of their own and in some storage.
fn in_storage(angles: Result<TokenAngles<'_>, Error>, storage: &mut [f32]) {
    if let Ok(angles) = angles {
        let _ = angles.rows_in(storage);
        let _ = angles.rows();
    }
}

fn lists(source: &mut Source<'_>) {
    let (ids, reals) = (ids(source), reals(source));
    let _ = Ids::from(&ids);
    let short: Vec<f32> = reals.iter().map(|&real| real as f32).collect();
    let first = position(source);
    let axes = Axes::per_axis([1, 1]);
    let set = Frequencies::new(axes, 1e4, &Scaling::Default).expect("valid");
    for positions in [
        Positions::axis_major(Coordinates::F64(&reals)),
        Positions::axis_major(first..first.saturating_add(source.below(9) as i64)),
        Positions::token_major(first..=first.saturating_add(source.below(9) as i64)),
        Positions::axis_major(&ids),
        Positions::token_major(&ids),
        Positions::from(&short),
        Positions::axis_major(&short),
        Positions::token_major(&reals),
        Positions::packed(&ids).unwrap_or(Positions::from(0..2)),
        Positions::packed_from(&ids, &ids).unwrap_or(Positions::from(0..2)),
        positions(source, &ids, &reals),
    ] {
        let mut storage = [0.0; 64];
        let len = source.below(65);
        in_storage(set.at(positions), &mut storage[..len]);
        let _ = set.rows(positions);
    }
}

fn shard(source: &mut Source<'_>) -> Result<Shard, Error> {
    let kinds = [
        ShardKind::Contiguous,
        ShardKind::Striped,
        ShardKind::Zigzag,
        ShardKind::UnevenZigzag,
    ];
    Shard::new(source.one_of(&kinds), size(source), size(source))
}

fn shards(source: &mut Source<'_>) {
    let Ok(shard) = shard(source) else { return };
    let ids = ids(source);
    for tokens in [shard.tokens(size(source)), shard.packed(&ids)] {
        let Ok(tokens) = tokens else { continue };
        let _ = (
            tokens.len(),
            tokens.is_empty(),
            tokens.position(size(source)),
        );
        let _ = tokens.iter().take(9).count();
        let _ = tokens.iter().len();
        let set = Frequencies::new(4, 1e4, &Scaling::Default).expect("valid");
        let mut storage = [0.0; 64];
        in_storage(set.at(Positions::from(tokens)), &mut storage);
    }
}

fn chunks(source: &mut Source<'_>) {
    let Ok(chunks) = DualChunk::new(size(source), size(source)) else {
        return;
    };
    let query = source.one_of(&DualChunkQuery::ALL);
    let _ = chunks.id(query, position(source));
    let (ids, reals) = (ids(source), reals(source));
    let Ok(positions) = chunks.positions(query, positions(source, &ids, &reals)) else {
        return;
    };
    let set = Frequencies::new(4, 1e4, &Scaling::Default).expect("valid");
    let mut storage = [0.0; 64];
    in_storage(set.at(positions), &mut storage);
}

/// Returns axes of any scheme; most of them add up.
fn any_axes<'a>(source: &mut Source<'_>, given: &'a [u8]) -> Axes<'a> {
    let rotary_dim = match source.once_in(3) {
        true => size(source),
        false => 2 * source.within(1, 4),
    };
    let [a, b, c, d] = mostly_small_sizes(source);
    match source.below(13) {
        0 => Axes::ggml_imrope(rotary_dim, [a, b, c, d]),
        1 => Axes::ggml_mrope(rotary_dim, sizes(source)),
        2 => Axes::given(given),
        3 => Axes::mrope(rotary_dim, [a, b, c]),
        4 => Axes::mrope_alternating(rotary_dim, [a, b, c]),
        5 => Axes::mrope_interleaved(rotary_dim, sizes(source)),
        6 => Axes::mrope_spread(rotary_dim, [a, b, c]),
        7 => Axes::per_axis([a, b, c, d]),
        8 => Axes::per_axis(sizes::<2>(source)),
        9 => Axes::pixtral(rotary_dim),
        10 => Axes::vision(rotary_dim),
        11 => Axes::wan(rotary_dim),
        _ => Axes::from(rotary_dim),
    }
}

fn scaling<'a>(source: &mut Source<'_>, lists: [&'a [f64]; 2], floats: &'a [f32]) -> Scaling<'a> {
    let length = |source: &mut Source<'_>| id(source) as u64;
    let factor = real(source);
    let [a, b, c] = [real(source), real(source), real(source)];
    match source.below(16) {
        0 => Scaling::DynamicNtk {
            factor,
            max_position_embeddings: length(source),
            length: length(source),
        },
        1 => Scaling::FreqFactors { factors: floats },
        2 => Scaling::Learned { alphas: lists[0] },
        3 => Scaling::Linear { factor },
        4 => Scaling::Llama3 {
            factor,
            low_freq_factor: a,
            high_freq_factor: b,
            original_context: length(source),
        },
        5 => Scaling::LongRope(LongRope {
            short_factor: lists[0],
            long_factor: lists[1],
            original_context: length(source),
            length: length(source),
            factor,
            attention_factor: source.once_in(2).then_some(a),
        }),
        6 => Scaling::NtkAlpha { alpha: factor },
        7 => Scaling::NtkByParts {
            factor,
            ntk_factor: a,
            extrapolation_factor: b,
            original_context: length(source),
        },
        8 => Scaling::NtkFixed { factor },
        9 => Scaling::NtkMixed { factor, mixed_b: a },
        10 => Scaling::Periods {
            min_period: a,
            max_period: b,
        },
        11 => Scaling::Proportional {
            factor,
            partial_rotary_factor: a,
        },
        12 => Scaling::Turns,
        13 => Scaling::Yarn(Yarn::new(factor, length(source))),
        14 => Scaling::Yarn(Yarn {
            beta_fast: a,
            beta_slow: b,
            mscale: c,
            mscale_all_dim: real(source),
            attention_factor: source.once_in(2).then_some(a),
            truncate: source.once_in(2),
            ..Yarn::new(factor, length(source))
        }),
        _ => Scaling::Default,
    }
}

fn axes(source: &mut Source<'_>) {
    let given: Vec<u8> = (0..source.below(9))
        .map(|_| source.below(6) as u8)
        .collect();
    let (lists, floats) = ([reals(source), reals(source)], memory(source));
    let axes = any_axes(source, &given);
    let scaling = scaling(source, [&lists[0], &lists[1]], &floats);
    let (base, factor) = (real(source), real(source));
    let count = FrequencyChunk::count(size(source));
    let mut chunks = [FrequencyChunk::EMPTY; 4];
    let chunks = &mut chunks[..count.min(source.below(5))];
    let _ = Frequencies::new_in(chunks, axes, base, &scaling);
    let _ = Frequencies::from_inverse_in(chunks, axes, &lists[0], factor);
    let _ = Frequencies::new(axes, base, &scaling);
    let _ = Frequencies::from_inverse(axes, &lists[1], factor);
}

fn frequencies(source: &mut Source<'_>) {
    let (base, pairs) = (1.0 + real(source).abs().min(1e6), source.within(1, 4));
    let make = |base| Frequencies::new(2 * pairs, base, &Scaling::Default);
    let (Ok(set), Ok(old)) = (make(base), make(10_000.0)) else {
        return;
    };
    let (list, real_list) = (ids(source), reals(source));
    let set = set.with_angle(source.one_of(&[Angle::Exact, Angle::HuggingFaceF32]));
    let set = match set.with_attention_factor(real(source)) {
        Ok(set) => set,
        Err(_) => return,
    };
    let Ok(set) = set.with_softmax_factor(real(source)) else {
        return;
    };
    let _ = (
        set.angle(),
        set.attention_factor(),
        set.softmax_factor(),
        set.axes(),
    );
    let _ = (set.rotary_dim(), set.iter().count());
    let arranged: Vec<(usize, usize)> = (0..source.below(5))
        .map(|_| (mostly_small(source), mostly_small(source)))
        .collect();
    let _ = set.arranged(mostly_small(source), &arranged);
    let mut storage = [0.0; 64];
    let len = source.below(65);
    let (from, to) = (
        positions(source, &list, &real_list),
        positions(source, &list, &real_list),
    );
    let _ = set.rows(from);
    in_storage(set.at(from), &mut storage[..len]);
    in_storage(set.shift(to), &mut storage[..len]);
    in_storage(set.shift_from(&old, from, to), &mut storage[..len]);
    let mut x = [0.5_f32; 64];
    let extents = [1, source.below(5), 1, 2 * pairs];
    let elements = extents.iter().product();
    let mut tensor = TensorMut::new(&mut x[..elements], extents).expect("valid");
    let rope = Rope::new(Pairing::Half);
    let rotated = set
        .at(from)
        .and_then(|angles| rope.rotate(&mut tensor, &angles));
    assert!(
        rotated.is_ok() || x == [0.5; 64],
        "{rotated:?} wrote to a tensor"
    );
}

fn mixed(source: &mut Source<'_>) {
    let shape = mostly_small_sizes(source);
    let _ = MixedFrequencies::chunks(sizes(source));
    let len = shape
        .iter()
        .fold(1_usize, |all, &n| all.saturating_mul(n))
        .min(64);
    let inverse: Vec<f64> = match source.once_in(3) {
        true => reals(source),
        false => vec![0.5; len],
    };
    let factor = real(source);
    let mut chunks = [FrequencyChunk::EMPTY; 8];
    let _ = MixedFrequencies::new_in(&mut chunks[..source.below(9)], &inverse, shape, factor);
    let Ok(set) = MixedFrequencies::new(&inverse, shape, factor) else {
        return;
    };
    let set = set.with_angle(source.one_of(&[MixedAngle::Exact, MixedAngle::SummedF32]));
    let _ = (
        set.angle(),
        set.attention_factor(),
        set.axes(),
        set.heads(),
        set.rotary_dim(),
    );
    let [axis, head, pair] = sizes(source);
    let _ = set.frequency(axis, head, pair);
    let (ids, reals) = (ids(source), reals(source));
    let positions = positions(source, &ids, &reals);
    let mut storage = [0.0; 64];
    let len = source.below(65);
    let _ = set.rows(positions);
    in_storage(set.at(positions), &mut storage[..len]);
    let mut x = [0.5_f32; 16];
    if let Ok(mut tensor) = TensorMut::new(&mut x, [1, 2, 2, 4]) {
        let rope = Rope::new(Pairing::Half);
        let _ = set
            .at(positions)
            .and_then(|angles| rope.rotate(&mut tensor, &angles));
    }
}

/// Returns rows of a table of its own, mostly as many as small tensors have tokens.
fn generated(source: &mut Source<'_>) -> Rows<'static> {
    let [count, pairs] = [source.within(1, 4), source.within(1, 4)];
    let made = Rows::from_vec(floats(source, 2 * count * pairs), [count, 2 * pairs]);
    made.unwrap_or_else(|_| Rows::from_vec(vec![0.5; 2], [1, 2]).expect("valid"))
}

fn rows(source: &mut Source<'_>) {
    let (cos, sin) = (memory(source), memory(source));
    let _ = Rows::new(&cos, sizes(source));
    let _ = Rows::from_vec(cos.clone(), sizes(source));
    let _ = Rows::from_cos_sin(&cos, &sin, sizes(source), size(source));
    if let Ok(layout) = layout(source) {
        let _ = Rows::strided(&cos, &sin, layout);
    }
    let [count, pairs] = [source.below(5), source.within(1, 4)];
    let (cos, sin) = (
        floats(source, count * 2 * pairs),
        floats(source, count * 2 * pairs),
    );
    let half = count * pairs;
    let extents = [count, 1, 1, pairs];
    for rows in [
        Rows::new(&cos, [count, 2 * pairs]),
        Rows::from_cos_sin(&cos[..half], &sin[..half], [count, pairs], 2 * pairs),
        Rows::strided(&cos, &sin, extents),
    ] {
        let Ok(rows) = rows else { continue };
        chained(source, &rows, 3);
        if let Ok(rows) = FullRows::new(rows) {
            chained(source, rows.rows(), 2);
            let _ = AnyRows::from(rows.rows().clone());
            let any = AnyRows::Channels(rows);
            let _ = (
                any.rotary_dim(),
                any.rows().len(),
                any.check_shape(sizes(source)),
            );
        }
    }
}

/// Calls every function of rows, and then, a few times, those of the rows that it returned.
fn chained(source: &mut Source<'_>, rows: &Rows<'_>, depth: usize) {
    let _ = (rows.heads(), rows.is_empty(), rows.len());
    let _ = (rows.attention_factor(), rows.rotary_dim());
    let _ = rows.row(size(source), size(source));
    let _ = rows.check_shape(sizes(source));
    let mut storage = [0.0; 128];
    let len = source.below(129);
    let ids = ids(source);
    let Some(depth) = depth.checked_sub(1) else {
        return;
    };
    let copy = rows.narrow(0..rows.len());
    let made = match source.below(7) {
        0 => rows.gather(&ids),
        1 => rows.narrow_pairs(range(source)),
        2 => rows.narrow(range(source)),
        3 => rows.repeated(size(source), size(source)),
        4 => copy.and_then(|rows| rows.with_attention_factor(real(source))),
        5 => copy.and_then(|rows| rows.with_heads(size(source))),
        _ => rows.inverted(&mut storage[..len]),
    };
    if let Ok(rows) = made {
        chained(source, &rows, depth);
        let mut x = [0.5_f32; 64];
        let extents = [1, rows.len().min(4), 1, 4];
        let elements = extents.iter().product();
        if let Ok(mut tensor) = TensorMut::new(&mut x[..elements], extents) {
            let _ = plan(source).rotate(&mut tensor, &rows);
        }
    }
}

fn sums(source: &mut Source<'_>) {
    let (one, two, three) = (reals(source), reals(source), reals(source));
    let _ = convert_to_base(real(source), &one, &two);
    let mut target = three.clone();
    convert_to_ratio(&one, &mut target);
    let mut memory = vec![0.5; source.below(65)];
    let _ = PairGradients::new(&mut memory, sizes(source));
    let shape = mostly_small_sizes(source);
    let len = shape
        .iter()
        .fold(1_usize, |all, &n| all.saturating_mul(n))
        .min(4096);
    let (mut memory, mut other) = (vec![0.5; len], vec![0.25; len]);
    let Ok(gradients) = PairGradients::new(&mut memory, shape) else {
        return;
    };
    let _ = gradients.total();
    let ids = ids(source);
    let positions = positions(source, &ids, &one);
    let _ = gradients.frequencies(positions, size(source), &mut target);
    let _ = gradients.positions(&two, size(source), &mut target);
    if let Ok(other) = PairGradients::new(&mut other, shape) {
        let rows = generated(source);
        let (mut cos, mut sin) = (vec![0.0; source.below(17)], vec![0.0; source.below(17)]);
        let _ = gradients.cos_sin(&other, &rows, &mut cos, &mut sin);
    }
    let _ = gradients.split_at(size(source));
}

fn backward(source: &mut Source<'_>) {
    let extents: [usize; 4] = mostly_small_sizes(source);
    let len = Shape::from(extents)
        .elements()
        .filter(|len| *len < 4096)
        .unwrap_or(0);
    let (x, y) = (vec![0.5_f32; len], vec![0.25_f32; len]);
    let (Ok(x), Ok(y)) = (Tensor::new(&x, extents), Tensor::new(&y, extents)) else {
        return;
    };
    let rows = generated(source);
    let shape = match source.once_in(3) {
        true => mostly_small_sizes(source),
        false => [extents[1], 1, rows.rotary_dim() / 2],
    };
    let sums = shape
        .iter()
        .fold(1_usize, |all, &n| all.saturating_mul(n))
        .min(4096);
    let (mut one, mut two) = (vec![0.0; sums], vec![0.0; sums]);
    let Ok(mut one) = PairGradients::new(&mut one, shape) else {
        return;
    };
    let Ok(mut two) = PairGradients::new(&mut two, shape) else {
        return;
    };
    let plain = plain(source);
    let linear = plain.with_scale(Scale::constant(2.0));
    let mut target = vec![0.125_f32; len];
    let mut dy = TensorMut::new(&mut target, extents).expect("the same extents");
    let refused = match source.below(9) {
        0 => plain.backward(&y, &mut dy, &rows, &mut one),
        1 => linear.backward(&y, &mut dy, &rows, &mut one),
        2 => plain.backward_into(&y, &x, &mut dy, &rows, &mut one),
        3 => linear.backward_into(&y, &x, &mut dy, &rows, &mut one),
        4 => plain.angle_gradients(&y, &x, &mut one),
        5 => linear.backward(&x, &mut dy, &rows, &mut two),
        6 => {
            let (cos, sin) = (&mut one, &mut two);
            plain.channel_gradients(&y, &x, cos, sin)
        }
        7 => {
            let (cos, sin) = (&mut one, &mut two);
            plain.cos_sin_gradients(&y, &x, cos, sin)
        }
        _ => plain.factor_gradients(&y, &x, &mut one),
    };
    if refused.is_err() {
        assert!(one.total() == 0.0, "{refused:?} wrote sums");
        assert!(
            target.iter().all(|x| *x == 0.125),
            "{refused:?} wrote to a tensor"
        );
    }
}

/// Sets the sizes and choices of a plan.
fn set<S: Copy>(source: &mut Source<'_>, mut rope: Rope<S>) -> Rope<S> {
    if source.once_in(3) {
        rope = rope.with_head_dim(mostly_small(source));
    }
    if source.once_in(3) {
        rope = rope.with_window(size(source));
    }
    if source.once_in(3) {
        rope = rope.with_parts(size(source));
    }
    if source.once_in(3) {
        rope = rope.with_output_pairing(source.one_of(&Pairing::ALL));
    }
    rope.with_direction(source.one_of(&Direction::ALL))
}

fn plain(source: &mut Source<'_>) -> Rope {
    let pairing = source.one_of(&Pairing::ALL);
    set(source, Rope::new(pairing))
}

const FORMULAS: [NormFormula; 7] = [
    NormFormula::CHAMELEON,
    NormFormula::GEMMA,
    NormFormula::LAYER_NORM,
    NormFormula::LLAMA,
    NormFormula::LLAMA4,
    NormFormula::OLMO2,
    NormFormula::ONCE,
];

const ORDERS: [StageOrder; 2] = [StageOrder::BeforeRotation, StageOrder::AfterRotation];

/// Returns lists of the lengths that small tensors need, or of others.
fn list(source: &mut Source<'_>) -> &'static [f32] {
    static ONES: [f32; 64] = [1.0; 64];
    let len = match source.once_in(3) {
        true => source.below(65),
        false => source.within(1, 4) * source.within(1, 4),
    };
    &ONES[..len]
}

fn norm(source: &mut Source<'_>) -> Norm<'static> {
    let eps = match source.once_in(4) {
        true => real(source) as f32,
        false => 1e-6,
    };
    let norm = Norm::new(source.one_of(&FORMULAS), eps);
    let norm = match source.below(4) {
        0 => norm,
        1 => norm.without_weight(),
        _ => norm.with_weight(Weights::from(list(source))),
    };
    let norm = match source.once_in(4) {
        true => norm.with_bias(list(source)),
        false => norm,
    };
    let norm = match source.once_in(4) {
        true => norm.with_sum_of_squares(list(source), size(source)),
        false => norm,
    };
    norm.with_reach(source.one_of(&[NormReach::Head, NormReach::Token]))
        .with_order(source.one_of(&ORDERS))
        .with_sum(source.one_of(&[NormSum::PyTorch, NormSum::F64]))
}

fn scale(source: &mut Source<'_>) -> Scale<'static> {
    let scale = match source.below(3) {
        0 => Scale::constant(real(source) as f32),
        1 => Scale::per_token(list(source)),
        _ => Scale::per_token_and_head(list(source)),
    };
    match source.once_in(2) {
        true => scale.with_order(source.one_of(&ORDERS)),
        false => scale.without_rounding(),
    }
}

/// Returns a plan with any stages.
fn plan(source: &mut Source<'_>) -> Rope<Normed<'static>> {
    let plain = plain(source);
    let rope = match source.below(4) {
        0 => Rope::<Normed<'_>>::from(plain),
        1 => plain.with_norm(norm(source)),
        2 => Rope::<Linear<'_>>::from(plain)
            .with_scale(scale(source))
            .into(),
        _ => plain.without_rounding().into(),
    };
    match Hadamard::new(1 << source.below(4)) {
        Ok(block) if source.once_in(3) => {
            let factors = [HadamardFactor::First, HadamardFactor::Last];
            rope.with_hadamard(block.with_factor(source.one_of(&factors)))
        }
        _ => rope,
    }
}

fn plans(source: &mut Source<'_>) {
    let [channel, rotary_dim] = sizes(source);
    for pairing in Pairing::ALL {
        let _ = pairing.channel_in(source.one_of(&Pairing::ALL), channel, rotary_dim);
    }
    let _ = Hadamard::new(size(source));
    let norm = norm(source);
    let x = memory(source);
    let Ok(x) = Tensor::new(&x, mostly_small_sizes(source)) else {
        return;
    };
    let mut sums = vec![0.125; source.below(17)];
    let made = Rope::new(Pairing::Half).sum_of_squares(norm, &x, &mut sums);
    assert!(
        made.is_ok() || sums.iter().all(|sum| *sum == 0.125),
        "{made:?} wrote sums"
    );
}

/// Calls every verb with tensors of the extents.
fn each_verb<S: Stages>(
    source: &mut Source<'_>,
    rope: &Rope<S>,
    [from, to]: [[usize; 4]; 2],
    angles: &impl Angles,
) {
    let len = |extents| {
        Shape::from(extents)
            .elements()
            .filter(|len| *len < 4096)
            .unwrap_or(0)
    };
    let x = vec![0.5_f32; len(from)];
    let (mut y, mut z) = (vec![0.25_f32; len(to)], vec![0.25_f32; len(to)]);
    let Ok(x) = Tensor::new(&x, from) else { return };
    let verb = source.below(9);
    let made = {
        let Ok(mut y) = TensorMut::new(&mut y, to) else {
            return;
        };
        let mut z = TensorMut::new(&mut z, to).expect("the same extents");
        match verb {
            0 => rope.rotate(&mut y, angles),
            1 => rope.rotate_into(&x, &mut y, angles),
            2 => rope.rotate_qk(&mut y, &mut z, angles),
            3 => rope.apply(&mut y),
            4 => rope.apply_into(&x, &mut y),
            5 => rope.prepare(&mut y, angles).map(|call| call.run()),
            6 => rope.prepare_into(&x, &mut y, angles).map(|call| call.run()),
            _ => {
                let outputs = &mut [
                    Output::new(&mut y, angles),
                    Output::new(&mut z, &NoRotation),
                ];
                rope.rotate_into_each(&x, &mut outputs[..source.below(3)])
            }
        }
    };
    let untouched = y.iter().chain(&z).all(|y| *y == 0.25);
    assert!(
        made.is_ok() || untouched,
        "{made:?} of verb {verb} wrote to a tensor"
    );
}

fn verbs(source: &mut Source<'_>) {
    let from = mostly_small_sizes(source);
    let to = match source.once_in(5) {
        true => mostly_small_sizes(source),
        false => from,
    };
    let rows = generated(source);
    let set_of_plan = Frequencies::new(rows.rotary_dim(), 1e4, &Scaling::Default).expect("valid");
    let (ids, reals) = (ids(source), reals(source));
    let angles = set_of_plan
        .at(positions(source, &ids, &reals))
        .or_else(|_| set_of_plan.at(0..source.below(5)))
        .expect("a range");
    let plain = plain(source);
    each_verb(source, &plain, [from, to], &rows);
    each_verb(source, &plain, [from, to], &angles);
    let staged = plan(source);
    each_verb(source, &staged, [from, to], &rows);
    each_verb(source, &staged, [from, to], &angles);
    each_verb(source, &staged, [from, to], &NoRotation);

    // Outputs of other kinds.
    let Some(mut of) = CacheMemory::any(source) else {
        return;
    };
    let extents = heads_of(source, &of.layout);
    let len = Shape::from(extents)
        .elements()
        .filter(|len| *len < 4096)
        .unwrap_or(0);
    let x = vec![0.5_f32; len];
    let mut y = vec![0.25_f32; len];
    let groups = [generated(source), generated(source)];
    let before = of.bits();
    let made = (|| {
        let x = Tensor::new(&x, extents)?;
        let mut y = TensorMut::new(&mut y, extents)?;
        let mut cache = of.cache_mut(source)?;
        let mut slots = cache.slots(slots(source, &ids, &reals));
        let outputs = &mut [
            Output::new(&mut slots, &rows),
            Output::head_groups(&mut y, &groups[..source.below(3)]),
        ];
        match source.once_in(2) {
            true => staged.rotate_into_each(&x, outputs),
            false => plain.rotate_into_each(&x, outputs),
        }
    })();
    let untouched = of.bits() == before && y.iter().all(|y| *y == 0.25);
    assert!(made.is_ok() || untouched, "{made:?} wrote to an output");
}

fn models(source: &mut Source<'_>) {
    let (numbers, mut storage) = (reals(source), memory(source));
    let (theta, pairs) = (real(source), size(source));
    let _ = initial_axial(theta, size(source), pairs, &mut storage);
    let _ = initial_mixed(theta, &numbers, pairs, &mut storage);
    let [rows, columns] = sizes(source).map(|size: usize| size as u16);
    let _ = GridIndexing::Xy.positions_in([rows, columns], &mut storage);
    let texts = [
        r#"{"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 3,
            "rope_theta": 1e4, "max_position_embeddings": 64, "rope_scaling": {"rope_type": "dynamic", "factor": 4.0}}"#,
        r#"{"model_type": "phi3", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 3,
            "max_position_embeddings": 64, "original_max_position_embeddings": 16, "rope_theta": 1e4, "rope_scaling":
            {"type": "longrope", "short_factor": [1, 1, 1, 1, 1, 1, 1, 1], "long_factor": [2, 2, 2, 2, 2, 2, 2, 2]}}"#,
    ];
    let config = Config::from_json(source.one_of(&texts)).expect("JSON");
    let model = config.with_length(id(source) as u64).model();
    let model = model.expect("every length is one of the model's");
    let _ = model
        .rotation()
        .expect("one for all layers")
        .rope_for(size(source));
    let _ = model.layers().expect("three layers").get(size(source));
    let keys = [
        ("general.architecture", GgufValue::Text("llama")),
        ("llama.block_count", GgufValue::Integer(2)),
        ("llama.attention.head_count", GgufValue::Integer(4)),
        ("llama.embedding_length", GgufValue::Integer(64)),
        ("llama.rope.dimension_count", GgufValue::Integer(id(source))),
        ("llama.rope.freq_base", GgufValue::Float(theta)),
    ];
    let file = Gguf::new(&keys).expect("an architecture");
    let model = file
        .with_freq_factors(None)
        .with_context(id(source) as u64)
        .model();
    let _ = model.map(|model| {
        model
            .rotation()
            .map(|rotation| rotation.rope_for(size(source)).is_ok())
    });
}

/// Runs each case with many extreme arguments. A round that does not end fails the test by its case.
#[test]
fn nothing_panics_or_loops() {
    let (begun, watched) = mpsc::channel();
    let rounds = std::thread::spawn(move || {
        for &(_, name, case) in CASES.iter().chain(OF_C) {
            let source = &mut Source::random(name);
            for round in 0..seed::times(400) {
                // The test has failed if nobody listens.
                let _ = begun.send((name, round));
                case(source);
            }
        }
    });
    let (mut last, mut waited) = (("no case", 0), 0);
    let repeat = format!("{}={}", seed::VARIABLE, seed::seed());
    loop {
        match watched.recv_timeout(Duration::from_secs(1)) {
            Ok(now) => (last, waited) = (now, 0),
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                waited += 1;
                let (case, round) = last;
                assert!(
                    waited < PATIENCE,
                    "round {round} of the case `{case}` does not end; {repeat}"
                );
            }
        }
    }
    let (case, round) = last;
    assert!(
        rounds.join().is_ok(),
        "round {round} of the case `{case}` panicked; {repeat}"
    );
}

/// Returns the functions of a list of public items, as (type or module, name).
fn functions(list: &str) -> BTreeSet<(String, String)> {
    let declared = list.lines().filter_map(|line| {
        let line = line.strip_prefix("pub ")?;
        line.strip_prefix("const ")
            .unwrap_or(line)
            .strip_prefix("fn ")
    });
    declared
        .map(|line| {
            // `module::Type<'a>::name<T>(..)`: without generics, the last two of the path.
            let mut path = String::new();
            let mut depth = 0;
            for c in line.chars() {
                match c {
                    '<' => depth += 1,
                    '>' => depth -= 1,
                    '(' if depth == 0 => break,
                    c if depth == 0 => path.push(c),
                    _ => {}
                }
            }
            let mut path = path.rsplit("::");
            let name = path.next().unwrap_or_default().to_string();
            (path.next().unwrap_or_default().to_string(), name)
        })
        .collect()
}

/// Returns true if a text calls a function: as a method, by the path of its type, or, without a type, by its name.
fn calls(text: &str, of: &str, name: &str) -> bool {
    let mut calls = vec![
        format!(".{name}("),
        format!("{of}::{name}("),
        format!("{of}::{name}::<"),
    ];
    match of {
        "gradient" | "rope_models" => calls.push(format!(" {name}(")),
        // The type of a plan has a parameter.
        "Rope" => calls.push(format!("<'_>>::{name}(")),
        _ => {}
    }
    calls.iter().any(|call| text.contains(call))
}

#[test]
fn every_public_function_has_a_case() {
    let mut all = functions(include_str!("../../rope-core/public-api.txt"));
    assert!(all.len() > 180, "{}", all.len());
    // rope-models has cases for its functions of numbers alone.
    let models = include_str!("../../rope-core/models/public-api.txt").lines();
    let of_numbers = models.filter(|line| {
        let arguments = line
            .split_once('(')
            .and_then(|(_, rest)| rest.split_once(") ->"));
        let of_numbers = |(arguments, _): (&str, &str)| {
            ["usize", "u64", "u16", "f64", "f32"]
                .iter()
                .any(|number| arguments.contains(number))
        };
        arguments.is_some_and(of_numbers)
    });
    all.extend(functions(&of_numbers.collect::<Vec<_>>().join("\n")));
    let text = include_str!("extremes.rs");
    let exempt = |of: &str, name: &str| {
        let full = format!("{of}::{name}");
        EXEMPT
            .iter()
            .any(|(exempt, _)| *exempt == name || *exempt == full)
    };
    let mut listed = BTreeSet::new();
    for line in CASES.iter().flat_map(|case| case.0) {
        let (of, names) = line.split_once(": ").expect("a type and its functions");
        for name in names.split_whitespace() {
            assert!(calls(text, of, name), "no case calls {of}::{name}");
            listed.insert((of.to_string(), name.to_string()));
        }
    }
    let missing: Vec<_> = all
        .difference(&listed)
        .filter(|(of, name)| !exempt(of, name))
        .collect();
    assert!(
        missing.is_empty(),
        "no case calls {missing:?}; add calls, or reasons to EXEMPT"
    );
    let gone: Vec<_> = listed.difference(&all).collect();
    assert!(gone.is_empty(), "cases list {gone:?}, which are not public");
    for (exempt, reason) in EXEMPT {
        assert!(!reason.is_empty(), "{exempt} has no reason");
        let stale = !all
            .iter()
            .any(|(of, name)| *exempt == name || *exempt == format!("{of}::{name}"));
        assert!(!stale, "there is no {exempt}");
    }
}
