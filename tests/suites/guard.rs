//! No access beyond the buffers, which lie beside an unreadable page, before or after them. A fault ends the process;
//! `--test-threads 1` then shows the test.

use rope_core::cache::{
    Asymmetric, BlockFormat, Cache, CacheFormat, CacheLayout, CacheMut, ChannelCodes, GroupCodes,
    MxScale, QuantFormat, QuantScale, ScaleLayout, ScalePlace, TileScale,
};
use rope_core::norm::{Norm, NormFormula, NormReach};
use rope_core::stages::Scale;
use rope_core::{Pairing, Rope, Rows, Tensor, TensorMut};
use rope_tests::guard::{Edge, Guarded};
use rope_tests::number::{paint, values};
use rope_tests::quantize::BLOCKS;
use rope_tests::{
    Angles, Number, Placed, Rotation, Source, backends, compare, each_element, each_element_pair,
    oracle,
};

/// Rows beside an unreadable page.
struct GuardedRows {
    angles: Angles,
    joined: Guarded<f32>,
    cos: Guarded<f32>,
    sin: Guarded<f32>,
}

impl GuardedRows {
    /// Returns rows for several heads, or a row that the heads share.
    fn new(source: &mut Source<'_>, shape: [usize; 4], pairs: usize, edge: Edge) -> Self {
        let [_, rows, heads, _] = shape;
        let heads = source.one_of(&[1, heads]);
        let angles = Angles::of_heads(source, [rows, heads], pairs);
        let row = |row: usize| row * pairs..(row + 1) * pairs;
        let joined: Vec<f32> = (0..rows * heads)
            .flat_map(|i| [&angles.cos[row(i)], &angles.sin[row(i)]].concat())
            .collect();
        GuardedRows {
            joined: Guarded::new(&joined, edge),
            cos: Guarded::new(&angles.cos, edge),
            sin: Guarded::new(&angles.sin, edge),
            angles,
        }
    }

    /// Returns the rows, joined and separate.
    fn rows(&self) -> [Rows<'_>; 2] {
        let Angles {
            rows,
            heads,
            pairs,
            attention_factor: factor,
            ..
        } = self.angles;
        [
            Rows::new(&self.joined, [rows * heads, 2 * pairs]),
            Rows::from_cos_sin(&self.cos, &self.sin, [rows * heads, pairs], 2 * pairs),
        ]
        .map(|rows| {
            rows.and_then(|rows| rows.with_heads(heads)?.with_attention_factor(factor))
                .expect("whole rows")
        })
    }
}

fn places(shape: [usize; 4]) -> [Placed; 2] {
    [Placed::bshd(shape), Placed::bhsd(shape)]
}

fn in_place<E: Number>(source: &mut Source<'_>, shape: [usize; 4], rows: &GuardedRows, edge: Edge) {
    for rotation in Rotation::in_place() {
        for place in places(shape) {
            let x = values::<E>(source, place.len);
            let expected =
                oracle::rotated(rotation, &rows.angles, (&x, &place.view), (&x, &place.view));
            for backend in backends::tested() {
                for given in rows.rows() {
                    let mut got = Guarded::new(&x, edge);
                    let mut tensor =
                        TensorMut::new(&mut got, place.layout).expect("a valid tensor");
                    let result = rotation.plan(backend).rotate(&mut tensor, &given);
                    let refusal = oracle::refusal(rotation.direction, &rows.angles, shape);
                    oracle::answered(result, refusal);
                    let doing = format!("{backend}, {} in place, {rotation:?}, {edge:?}", E::NAME);
                    compare(&got, &expected, &place.view, &doing);
                }
            }
        }
    }
}

fn into<I: Number, O: Number>(
    source: &mut Source<'_>,
    shape: [usize; 4],
    rows: &GuardedRows,
    edge: Edge,
) {
    for rotation in Rotation::all() {
        for place in places(shape) {
            let x = values::<I>(source, place.len);
            let y = paint::<O>(source, place.len);
            let expected =
                oracle::rotated(rotation, &rows.angles, (&x, &place.view), (&y, &place.view));
            let x = Guarded::new(&x, edge);
            let mut got = Guarded::new(&y, edge);
            let [given, _] = rows.rows();
            for backend in backends::tested() {
                got.copy_from_slice(&y);
                let from = Tensor::new(&x, place.layout).expect("a valid tensor");
                let mut to = TensorMut::new(&mut got, place.layout).expect("a valid tensor");
                let result = rotation.plan(backend).rotate_into(&from, &mut to, &given);
                let refusal = oracle::refusal(rotation.direction, &rows.angles, shape);
                oracle::answered(result, refusal);
                let doing = format!(
                    "{backend}, {} to {}, {rotation:?}, {edge:?}",
                    I::NAME,
                    O::NAME
                );
                compare(&got, &expected, &place.view, &doing);
            }
        }
    }
}

#[test]
fn nothing_beyond_the_buffers() {
    let source = &mut Source::random("nothing_beyond_the_buffers");
    // (head_dim, rotary_dim): every remainder of every vector, and channels that pass.
    let small = (2..=66).map(|head_dim| (head_dim, head_dim & !1));
    let large = [
        (96, 24),
        (128, 128),
        (130, 128),
        (160, 158),
        (192, 64),
        (256, 254),
        (300, 298),
        (576, 576),
    ];
    for edge in Edge::ALL {
        for (head_dim, rotary_dim) in small.clone().chain(large) {
            let shape = [1, source.within(1, 2), source.within(1, 2), head_dim];
            let rows = GuardedRows::new(source, shape, rotary_dim / 2, edge);
            each_element!(in_place(source, shape, &rows, edge));
            each_element_pair!(into(source, shape, &rows, edge));
        }
    }
}

/// The pages guard: a child process that reads one element too far dies. Emulators that cannot start a process skip
/// this test by its name (`platforms/common.sh`).
#[cfg(not(miri))]
#[test]
fn the_pages_are_unreadable() {
    const CHILD: &str = "ROPE_GUARD_CHILD";
    if let Ok(edge) = std::env::var(CHILD) {
        let edge = if edge == "before" {
            Edge::Before
        } else {
            Edge::After
        };
        let buffer = Guarded::new(&[1.0_f32; 3], edge);
        let outside = match edge {
            Edge::Before => buffer.as_ptr().wrapping_sub(1),
            Edge::After => buffer.as_ptr().wrapping_add(3),
        };
        // SAFETY: none. The read must fault, in a process started for it.
        let value = unsafe { outside.read_volatile() };
        println!("read {value}");
        return;
    }
    let this = std::env::current_exe().expect("a path");
    for edge in ["before", "after"] {
        let child = std::process::Command::new(&this)
            .args(["--exact", "guard::the_pages_are_unreadable", "--nocapture"])
            .env(CHILD, edge)
            .output()
            .expect("a child process that starts");
        use std::os::unix::process::ExitStatusExt;
        let signal = child.status.signal();
        assert!(
            matches!(signal, Some(libc::SIGSEGV | libc::SIGBUS)),
            "{edge}: {child:?}"
        );
    }
}

/// Tests a chain into a cache of these elements and out of it.
fn cache_of_elements<I: Number, O: Number>(
    source: &mut Source<'_>,
    shape: [usize; 4],
    rows: &GuardedRows,
    edge: Edge,
) {
    let [_, tokens, heads, head_dim] = shape;
    let layouts = [
        CacheLayout::nhd([tokens, 1, heads, head_dim]),
        CacheLayout::hnd([1, heads, tokens, head_dim]),
        CacheLayout::hdn([1, heads, head_dim, tokens]),
    ];
    let x = Guarded::new(&values::<I>(source, tokens * heads * head_dim), edge);
    let [given, _] = rows.rows();
    // A shift refuses rows with another factor.
    let given = given.with_attention_factor(1.0).expect("a factor");
    for layout in layouts.map(|layout| layout.expect("a small cache")) {
        let memory = paint::<O>(source, layout.end());
        for backend in backends::tested() {
            let rope = Rotation::forward(Pairing::Half).plan(backend);
            let from = Tensor::new(&x, shape).expect("a valid tensor");
            // A cache without guard pages has the expected values.
            let mut expected = memory.clone();
            let mut cache = CacheMut::new(&mut expected, layout).expect("a cache that fits");
            rope.rotate_into(&from, &mut cache.slots(0..tokens), &given)
                .expect("slots that fit");
            let mut guarded = Guarded::new(&memory, edge);
            let mut cache = CacheMut::new(&mut guarded, layout).expect("a cache that fits");
            rope.rotate_into(&from, &mut cache.slots(0..tokens), &given)
                .expect("slots that fit");
            let same = |a: &O, b: &O| a.bits() == b.bits() || a.is_nan() && b.is_nan();
            assert!(guarded.iter().zip(&expected).all(|(a, b)| same(a, b)));
            let mut cache = CacheMut::new(&mut guarded, layout).expect("a cache that fits");
            rope.rotate(&mut cache.slots(0..tokens), &given)
                .expect("slots that fit");
            let cache = Cache::new(&guarded, layout).expect("a cache that fits");
            let mut back = Guarded::new(&x, edge);
            let mut to = TensorMut::new(&mut back, shape).expect("a valid tensor");
            rope.rotate_into(&cache.slots(0..tokens), &mut to, &given)
                .expect("slots that fit");
        }
    }
}

/// Writes, shifts and reads the first slots of a cache, one for each token.
fn through(
    rope: &Rope,
    (x, shape): (&Guarded<f32>, [usize; 4]),
    (rows, edge): (&Rows<'_>, Edge),
    cache: &mut CacheMut<'_>,
) {
    let slots = 0..shape[1];
    let from = Tensor::new(x, shape).expect("a valid tensor");
    rope.rotate_into(&from, &mut cache.slots(slots.clone()), rows)
        .expect("slots that fit");
    rope.rotate(&mut cache.slots(slots.clone()), rows)
        .expect("slots that fit");
    let mut back = Guarded::new(x, edge);
    let mut to = TensorMut::new(&mut back, shape).expect("a valid tensor");
    rope.apply_into(&cache.as_cache().slots(slots), &mut to)
        .expect("slots that fit");
}

/// Tests 8-bit codes, in blocks and with separate scales.
fn cache_of_codes(source: &mut Source<'_>, shape: [usize; 4], rows: &GuardedRows, edge: Edge) {
    let [_, tokens, heads, head_dim] = shape;
    let layout = CacheLayout::nhd([tokens, 1, heads, head_dim]).expect("a small cache");
    let long = CacheLayout::nhd([tokens, 1, heads, head_dim + 4])
        .and_then(|layout| layout.narrow_channels(0..head_dim))
        .expect("a small cache");
    let x = Guarded::new(&values::<f32>(source, tokens * heads * head_dim), edge);
    let [given, _] = rows.rows();
    let given = given.with_attention_factor(1.0).expect("a factor");
    let made = |at| QuantScale::Computed { least: 1e-6, at };
    let apart = made(ScalePlace::Separate(ScaleLayout::nh([1, heads])));
    let inline = made(ScalePlace::Inline(head_dim));
    let mut scales = Guarded::new(&vec![0.5; tokens * heads], edge);
    for backend in backends::tested() {
        let rope = Rotation::forward(Pairing::Half).plan(backend);
        let through = |cache: &mut CacheMut<'_>| {
            through(&rope, (&x, shape), (&given, edge), cache);
        };
        let bytes = |len| vec![0x5a_u8; len];
        for code in QuantFormat::ALL {
            let given = QuantScale::Divide(0.25.into());
            let mut memory = Guarded::new(&bytes(layout.end()), edge);
            through(
                &mut CacheMut::coded(&mut memory, layout, CacheFormat::quantized(code, given))
                    .expect("fits"),
            );
            through(
                &mut CacheMut::coded_with_scales(
                    &mut memory,
                    layout,
                    CacheFormat::quantized(code, apart),
                    &mut scales[..],
                )
                .expect("fits"),
            );
            let mut memory = Guarded::new(&bytes(long.end() + 4), edge);
            through(
                &mut CacheMut::coded(&mut memory, long, CacheFormat::quantized(code, inline))
                    .expect("fits"),
            );
        }
        let whole = |format: &&BlockFormat| head_dim.is_multiple_of(format.values);
        for format in BLOCKS.into_iter().filter(whole) {
            let len = layout.end() / format.values * format.bytes;
            let mut memory = Guarded::new(&bytes(len), edge);
            through(&mut CacheMut::coded(&mut memory, layout, format).expect("whole blocks"));
        }
    }
}

#[test]
fn nothing_beyond_a_cache() {
    let source = &mut Source::random("nothing_beyond_a_cache");
    let small = (2..=40).map(|head_dim| (head_dim, head_dim & !1));
    let large = [(64, 64), (96, 24), (130, 128), (160, 158), (288, 254)];
    for edge in Edge::ALL {
        for (head_dim, rotary_dim) in small.clone().chain(large) {
            let shape = [1, source.within(1, 2), source.within(1, 2), head_dim];
            let rows = GuardedRows::new(source, shape, rotary_dim / 2, edge);
            each_element_pair!(cache_of_elements(source, shape, &rows, edge));
            cache_of_codes(source, shape, &rows, edge);
        }
    }
}

/// Codes with scales of groups, apart, and with numbers by channel.
#[test]
fn nothing_beyond_codes_of_groups() {
    const TOKENS: usize = 16;
    let source = &mut Source::random("nothing_beyond_codes_of_groups");
    let least = 1e-6;
    for (edge, head_dim) in Edge::ALL
        .into_iter()
        .flat_map(|edge| [32, 48, 64, 96, 128, 160, 288].map(|head_dim| (edge, head_dim)))
    {
        let heads = source.within(1, 2);
        let shape = [1, TOKENS, heads, head_dim];
        let x = Guarded::new(&values::<f32>(source, TOKENS * heads * head_dim), edge);
        let rows = GuardedRows::new(source, shape, head_dim / 2, edge);
        let [given, _] = rows.rows();
        let given = given.with_attention_factor(1.0).expect("a factor");
        let through = |cache: &mut CacheMut<'_>| {
            for backend in backends::tested() {
                let rope = Rotation::forward(Pairing::Half).plan(backend);
                through(&rope, (&x, shape), (&given, edge), cache);
            }
        };
        let layout = CacheLayout::nhd([1, TOKENS, heads, head_dim]).expect("a small cache");
        let at = |channels| {
            let scales = ScaleLayout::nh([TOKENS, heads]).with_groups(head_dim / channels);
            ScalePlace::Separate(scales)
        };
        let even = MxScale::Even;
        let bytes = [
            (32, CacheFormat::by_group(GroupCodes::Mxfp4(even), at(32))),
            (32, CacheFormat::by_group(GroupCodes::Mxfp8(even), at(32))),
            (16, CacheFormat::by_group(GroupCodes::Nvfp4(0.25), at(16))),
            (
                64,
                CacheFormat::by_group(GroupCodes::E4m3In64(TileScale::E8m0 { least }), at(64)),
            ),
        ];
        for (channels, format) in bytes.into_iter().filter(|of| head_dim % of.0 == 0) {
            let mut codes = Guarded::new(&vec![0x5a; layout.bytes(format).expect("few")], edge);
            let mut scales = Guarded::new(&vec![1_u8; TOKENS * heads * head_dim / channels], edge);
            let cache = CacheMut::coded_with_scales(&mut codes, layout, format, &mut scales[..]);
            through(&mut cache.expect("a cache that fits"));
        }
        // Two floats for 32 channels are one for 16.
        let floats = [
            (
                128,
                CacheFormat::by_group(
                    GroupCodes::E4m3In128(TileScale::Quotient { least }),
                    at(128),
                ),
            ),
            (
                16,
                CacheFormat::by_group(GroupCodes::U8(Asymmetric::ZeroPoint, 32), at(16)),
            ),
            (
                16,
                CacheFormat::by_group(GroupCodes::U4(Asymmetric::Minimum, 32), at(16)),
            ),
        ];
        let fits = |of: &(usize, _)| head_dim % of.0.max(32) == 0;
        for (channels, format) in floats.into_iter().filter(fits) {
            let mut codes = Guarded::new(&vec![0x5a; layout.bytes(format).expect("few")], edge);
            let count = TOKENS * heads * head_dim / channels;
            let mut scales = Guarded::new(&vec![1.0_f32; count], edge);
            let cache = CacheMut::coded_with_scales(&mut codes, layout, format, &mut scales[..]);
            through(&mut cache.expect("a cache that fits"));
        }
        // Two lists, of scales and of zero points.
        for bits in [8, 4].into_iter().filter(|_| head_dim % 32 == 0) {
            let codes = match bits {
                8 => GroupCodes::U8(Asymmetric::Minimum, 32),
                _ => GroupCodes::U4(Asymmetric::ZeroPoint, 32),
            };
            let format = CacheFormat::by_group(codes, at(32));
            let mut codes = Guarded::new(&vec![0x5a; layout.bytes(format).expect("few")], edge);
            let list = vec![1.0_f32; TOKENS * heads * head_dim / 32];
            let [mut scales, mut zeros] = [(); 2].map(|()| Guarded::new(&list, edge));
            let both = [&mut scales[..], &mut zeros[..]];
            let cache = CacheMut::coded_with_scales(&mut codes, layout, format, both);
            through(&mut cache.expect("a cache that fits"));
        }
        let layout = CacheLayout::hnd([1, heads, TOKENS, head_dim]).expect("a small cache");
        for format in [
            CacheFormat::by_channel(ChannelCodes::U8, TOKENS),
            CacheFormat::by_channel(ChannelCodes::U4, 8),
            CacheFormat::by_channel(ChannelCodes::Kivi2, TOKENS),
            CacheFormat::by_channel(ChannelCodes::Kivi4, 8),
        ] {
            let mut codes = Guarded::new(&vec![0x5a; layout.bytes(format).expect("few")], edge);
            let cache = CacheMut::coded(&mut codes, layout, format);
            through(&mut cache.expect("a cache that fits"));
        }
    }
}

fn chain_in_place<E: Number>(source: &mut Source<'_>, shape: [usize; 4], edge: Edge) {
    let [_, tokens, heads, head_dim] = shape;
    let rows = GuardedRows::new(source, shape, head_dim / 2, edge);
    let weights = values::<E>(source, head_dim);
    let (weight, each) = (
        Guarded::new(&weights, edge),
        Guarded::new(&weights.repeat(heads), edge),
    );
    let factors = Guarded::new(&vec![0.5; tokens * heads], edge);
    let x = values::<E>(source, tokens * heads * head_dim);
    let [given, _] = rows.rows();
    for backend in backends::tested() {
        for weights in [&weight, &each] {
            for reach in [NormReach::Head, NormReach::Token] {
                for formula in [NormFormula::LLAMA, NormFormula::LAYER_NORM] {
                    let norm = Norm::new(formula, 1e-6)
                        .with_weight(&weights[..])
                        .with_reach(reach);
                    let chain = Rotation::forward(Pairing::Half)
                        .plan(backend)
                        .with_norm(norm);
                    for chain in [chain, chain.with_scale(Scale::per_token_and_head(&factors))] {
                        let mut got = Guarded::new(&x, edge);
                        let mut tensor = TensorMut::new(&mut got, shape).expect("a valid tensor");
                        chain.rotate(&mut tensor, &given).expect("a norm that fits");
                    }
                }
            }
        }
    }
}

#[test]
fn nothing_beyond_the_lists_of_a_chain() {
    let source = &mut Source::random("nothing_beyond_the_lists_of_a_chain");
    for edge in Edge::ALL {
        for head_dim in (2..=66).step_by(2).chain([96, 128, 160, 288, 576]) {
            let shape = [1, source.within(1, 2), source.within(1, 3), head_dim];
            each_element!(chain_in_place(source, shape, edge));
        }
    }
}
