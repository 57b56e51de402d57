//! Caches whose slots have parts: records of bytes put together by hand from calls on each part, arrays of tensors,
//! shifts that leave other parts alone, moves, and refusals that touch nothing.

use std::fmt::Debug;

use half::{bf16, f16};
use rope_core::cache::{
    Asymmetric, Cache, CacheFormat, CacheLayout, CacheMut, CacheParts, CachePartsMut, ChannelCodes,
    GroupCodes, QuantFormat, QuantScale, ScaleLayout, ScalePlace, TileScale,
};
use rope_core::error::{PlanError, SlotsError};
use rope_core::internals::AnySource;
use rope_core::norm::{Norm, NormFormula, NormReach};
use rope_core::stages::{Hadamard, Normed, Scale, StageOrder};
use rope_core::{
    Angles, Backend, Error, Frequencies, Layout, NoRotation, Output, Pairing, Rope, Scaling,
    Tensor, TensorMut, TokenAngles,
};
use rope_tests::{Number, Source};

use crate::refused::errors as error;
use crate::refused::refused;

const LATENT: usize = 512;
const KEY: usize = 64;
const HEAD: usize = LATENT + KEY;
/// Bytes of DeepSeek's record: codes, four scales, and a key in bf16.
const RECORD: usize = 512 + 4 * 4 + 64 * 2;
const PAGES: usize = 3;
const PAGE: usize = 8;
const SLOTS: usize = PAGES * PAGE;

const SCALE: TileScale = TileScale::Quotient {
    least: f32::MIN_POSITIVE,
};

type Parts<const N: usize> = [(CacheLayout, CacheFormat<'static>); N];

fn layout(width: usize, channels: std::ops::Range<usize>) -> CacheLayout {
    CacheLayout::nhd([PAGES, PAGE, 1, width])
        .and_then(|layout| layout.narrow_channels(channels))
        .expect("channels of a head")
}

fn deepseek() -> Parts<2> {
    let latents = CacheFormat::by_group(GroupCodes::E4m3In128(SCALE), ScalePlace::Inline(LATENT));
    let keys = CacheFormat::element::<bf16>();
    let first = (LATENT + 16) / 2;
    [
        (layout(RECORD, 0..LATENT), latents),
        (layout(RECORD / 2, first..first + KEY), keys),
    ]
}

/// Memory that is aligned as elements are.
fn painted(bytes: usize) -> Vec<u32> {
    vec![0x5a5a_5a5a; bytes.div_ceil(4)]
}

fn bytes(memory: &mut [u32]) -> &mut [u8] {
    bytemuck::cast_slice_mut(memory)
}

fn frequencies() -> Frequencies<'static> {
    Frequencies::new(KEY, 10_000.0, &Scaling::Default).expect("valid frequencies")
}

fn rope(backend: Backend) -> Rope {
    Rope::new(Pairing::Interleaved)
        .with_output_pairing(Pairing::Half)
        .with_backend(backend)
        .expect("an available backend")
}

/// Returns the channels of each head that a range selects.
fn columns<E: Copy>(x: &[E], channels: std::ops::Range<usize>) -> Vec<E> {
    let heads = x.chunks_exact(HEAD);
    heads
        .flat_map(|head| &head[channels.clone()])
        .copied()
        .collect()
}

fn tensor<E: Number>(x: &[E], head_dim: usize) -> Tensor<'_, E> {
    Tensor::new(x, [1, x.len() / head_dim, 1, head_dim]).expect("a valid tensor")
}

fn tensor_mut<E: Number>(x: &mut [E], head_dim: usize) -> TensorMut<'_, E> {
    TensorMut::new(x, [1, x.len() / head_dim, 1, head_dim]).expect("a valid tensor")
}

/// The record of each slot, from calls on tensors and on a cache of codes alone.
fn by_hand<E: Number>(backend: Backend, x: &[E], slots: &[i64], start: usize) -> Vec<u8> {
    let (tokens, mut memory) = (slots.len(), painted(SLOTS * RECORD));
    let (latents, keys) = (columns(x, 0..LATENT), columns(x, LATENT..HEAD));
    let (mut codes, mut scales) = (vec![0; tokens * LATENT], vec![0.0_f32; tokens * 4]);
    let place = ScalePlace::Separate(ScaleLayout::nh([tokens, 1]).with_groups(4));
    let dense = CacheLayout::nhd([1, tokens, 1, LATENT]).expect("a layout");
    let format = CacheFormat::by_group(GroupCodes::E4m3In128(SCALE), place);
    let mut coded = CacheMut::coded_with_scales(&mut codes, dense, format, &mut scales)
        .expect("memory for all tokens");
    rope(backend)
        .apply_into(&tensor(&latents, LATENT), &mut coded.slots(0..tokens))
        .expect("slots that are there");
    let mut rotated = vec![bf16::ZERO; tokens * KEY];
    let frequencies = frequencies();
    let angles = frequencies.at(start..start + tokens).expect("positions");
    rope(backend)
        .rotate_into(
            &tensor(&keys, KEY),
            &mut tensor_mut(&mut rotated, KEY),
            &angles,
        )
        .expect("tensors of one shape");
    for (token, &slot) in slots.iter().enumerate().filter(|(_, slot)| **slot >= 0) {
        let record = &mut bytes(&mut memory)[slot as usize * RECORD..][..RECORD];
        record[..512].copy_from_slice(&codes[token * 512..][..512]);
        let scales: &[u8] = bytemuck::cast_slice(&scales[token * 4..][..4]);
        record[512..528].copy_from_slice(scales);
        let key: &[u8] = bytemuck::cast_slice(&rotated[token * KEY..][..KEY]);
        record[528..].copy_from_slice(key);
    }
    bytes(&mut memory).to_vec()
}

/// Finite values: the payload of a NaN may depend on the executor.
fn values<E: Number>(source: &mut Source<'_>, len: usize) -> Vec<E> {
    (0..len)
        .map(|_| E::from_f32((source.unit() - 0.5) * 16.0))
        .collect()
}

#[track_caller]
fn same<T: PartialEq + Debug>(got: &[T], expected: &[T], doing: &str) {
    assert_eq!(got.len(), expected.len(), "{doing}");
    if let Some(at) = (0..got.len()).find(|&at| got[at] != expected[at]) {
        panic!("{doing}: {at} is {:?}, not {:?}", got[at], expected[at]);
    }
}

fn records_of<E: Number>(source: &mut Source<'_>) {
    let slots = [5_i64, 17, -1, 6, 0];
    let x: Vec<E> = values(source, slots.len() * HEAD);
    let (latents, keys) = (columns(&x, 0..LATENT), columns(&x, LATENT..HEAD));
    for backend in Backend::available() {
        let expected = by_hand(backend, &x, &slots, 100);
        let frequencies = frequencies();
        let angles = frequencies.at(100..105).expect("positions");
        let rope = rope(backend).with_window(LATENT);
        let doing = format!("{backend}, {}", E::NAME);
        for prepared in [false, true] {
            let mut memory = painted(SLOTS * RECORD);
            let mut cache =
                CachePartsMut::new(bytes(&mut memory), deepseek()).expect("parts that fit");
            let (whole, mut target) = (tensor(&x, HEAD), cache.slots(&slots));
            if prepared {
                let call = rope.prepare_into(&whole, &mut target, &angles);
                call.expect("operands that fit").run();
            } else {
                let done = rope.rotate_into(&whole, &mut target, &angles);
                done.expect("operands that fit");
            }
            same(
                bytes(&mut memory),
                &expected,
                &format!("{doing}, prepared {prepared}"),
            );
        }

        // The latent and the key of one token are two tensors, the key among others.
        let mut memory = painted(SLOTS * RECORD);
        let mut cache = CachePartsMut::new(bytes(&mut memory), deepseek()).expect("parts that fit");
        let strided = Layout::bshd([1, slots.len(), 1, HEAD])
            .and_then(|layout| layout.narrow(rope_core::Dimension::Channels, LATENT..HEAD))
            .expect("channels of a head");
        let apart = [
            tensor(&latents, LATENT),
            Tensor::new(&x, strided).expect("a valid tensor"),
        ];
        rope.rotate_into(&apart, &mut cache.slots(&slots), &angles)
            .expect("operands that fit");
        same(bytes(&mut memory), &expected, &format!("{doing}, apart"));

        // Without a rotation: as values.
        let mut cache = CachePartsMut::new(bytes(&mut memory), deepseek()).expect("parts that fit");
        rope.apply_into(
            &[tensor(&latents, LATENT)].map(|_| tensor(&x, HEAD)),
            &mut cache.slots(&slots),
        )
        .expect_err("one part is not two");
        rope.apply_into(&tensor(&x, HEAD), &mut cache.slots(&slots))
            .expect("operands that fit");
        for (token, slot) in [(0, 5), (3, 6), (4, 0)] {
            let key = &bytes(&mut memory)[slot * RECORD + 528..][..128];
            let own = &keys[token * KEY..][..KEY];
            let own: Vec<bf16> = own.iter().map(|x| bf16::from_f32(x.to_f32())).collect();
            same(key, bytemuck::cast_slice(&own), &format!("{doing}, values"));
        }
    }
}

#[test]
fn records() {
    let source = &mut Source::random("records");
    records_of::<bf16>(source);
    records_of::<f32>(source);
}

/// Writes a record in every slot; returns the memory.
fn written(source: &mut Source<'_>) -> Vec<u32> {
    let x: Vec<bf16> = values(source, SLOTS * HEAD);
    let mut memory = painted(SLOTS * RECORD);
    let mut cache = CachePartsMut::new(bytes(&mut memory), deepseek()).expect("parts that fit");
    let frequencies = frequencies();
    rope(Backend::Scalar)
        .with_window(LATENT)
        .rotate_into(
            &tensor(&x, HEAD),
            &mut cache.slots(0..SLOTS),
            &frequencies.at(0..SLOTS).expect("positions"),
        )
        .expect("operands that fit");
    memory
}

#[test]
fn shifts() {
    let memory = written(&mut Source::random("shifts"));
    let frequencies = frequencies();
    let slots = [3_i64, 9, 20];
    let shift = frequencies.shift(&[-7_i64, 0, 4096]).expect("three shifts");
    for backend in Backend::available() {
        let rope = Rope::new(Pairing::Half)
            .with_backend(backend)
            .expect("available");
        for prepared in [false, true] {
            let mut got = memory.clone();
            let mut cache =
                CachePartsMut::new(bytes(&mut got), deepseek()).expect("parts that fit");
            let mut target = cache.slots(&slots);
            let rope = rope.with_window(LATENT);
            if prepared {
                let call = rope.prepare(&mut target, &shift);
                call.expect("operands that fit").run();
            } else {
                rope.rotate(&mut target, &shift).expect("operands that fit");
            }
            // The keys alone, as a cache of their own.
            let mut expected = memory.clone();
            let [_, (keys, format)] = deepseek();
            let mut keys = CacheMut::coded(bytes(&mut expected), keys, format).expect("keys");
            rope.with_window(0)
                .rotate(&mut keys.slots(&slots), &shift)
                .expect("operands that fit");
            assert!(memory != expected, "nothing moved");
            same(&got, &expected, &format!("{backend}, prepared {prepared}"));
        }
    }
}

#[test]
fn reads() {
    let mut memory = written(&mut Source::random("reads"));
    let slots = [3_i64, 9, 20, 3];
    let memory = bytes(&mut memory);
    let [(latents, codes), (keys, elements)] = deepseek();
    for backend in Backend::available() {
        let rope = rope(backend);
        let mut expected = [vec![0.0_f32; 4 * LATENT], vec![0.0_f32; 4 * KEY]];
        for ((y, layout), (format, head_dim)) in expected
            .iter_mut()
            .zip([latents, keys])
            .zip([(codes, LATENT), (elements, KEY)])
        {
            let part = Cache::coded(memory, layout, format).expect("a part");
            rope.apply_into(&part.slots(&slots), &mut tensor_mut(y, head_dim))
                .expect("operands that fit");
        }
        let cache = CacheParts::new(memory, deepseek()).expect("parts that fit");
        let mut y = vec![0.5_f32; 4 * HEAD];
        rope.apply_into(&cache.slots(&slots), &mut tensor_mut(&mut y, HEAD))
            .expect("operands that fit");
        same(
            &columns(&y, 0..LATENT),
            &expected[0],
            "the latents of one tensor",
        );
        same(
            &columns(&y, LATENT..HEAD),
            &expected[1],
            "the keys of one tensor",
        );
        let (mut latent, mut key) = (vec![0.5_f32; 4 * LATENT], vec![0.5_f32; 4 * KEY]);
        let mut apart = [tensor_mut(&mut latent, LATENT), tensor_mut(&mut key, KEY)];
        rope.apply_into(&cache.slots(&slots), &mut apart)
            .expect("operands that fit");
        same(&latent, &expected[0], "the latents");
        same(&key, &expected[1], "the keys");

        // Keys that were cached before their rotation rotate as they are read.
        let frequencies = frequencies();
        let angles = frequencies.at(&[1, 2, 3, 4]).expect("positions");
        let rope = rope.with_window(LATENT);
        let mut apart = [tensor_mut(&mut latent, LATENT), tensor_mut(&mut key, KEY)];
        rope.rotate_into(&cache.slots(&slots), &mut apart, &angles)
            .expect("operands that fit");
        same(&latent, &expected[0], "the latents");
        let mut rotated = vec![0.0; 4 * KEY];
        rope.with_window(0)
            .rotate_into(
                &tensor(&expected[1], KEY),
                &mut tensor_mut(&mut rotated, KEY),
                &angles,
            )
            .expect("operands that fit");
        same(&key, &rotated, "rotated keys");
    }
}

/// Tests parts with memories of their own, and a copy into them from a record.
#[test]
fn own_memories() {
    let mut memory = written(&mut Source::random("own memories"));
    let record = CacheParts::new(bytes(&mut memory), deepseek()).expect("parts that fit");
    let (mut latents, mut keys) = (vec![0.0_f32; SLOTS * LATENT], vec![0.0_f32; SLOTS * KEY]);
    let whole = |width| CacheLayout::nhd([PAGES, PAGE, 1, width]).expect("a layout");
    let parts = [
        CacheMut::new(&mut latents, whole(LATENT)).expect("a cache"),
        CacheMut::new(&mut keys, whole(KEY)).expect("a cache"),
    ];
    let mut cache = CachePartsMut::of(parts).expect("parts of one shape");
    let rope = Rope::new(Pairing::Half);
    rope.apply_into(&record.slots(2..7), &mut cache.slots(10..15))
        .expect("operands that fit");
    cache.move_slots(10..15, 9..14).expect("moves in order");
    let mut back = vec![0.0_f32; 5 * HEAD];
    rope.apply_into(
        &cache.as_parts().slots(9..14),
        &mut tensor_mut(&mut back, HEAD),
    )
    .expect("operands that fit");
    let mut expected = vec![0.0_f32; 5 * HEAD];
    rope.apply_into(&record.slots(2..7), &mut tensor_mut(&mut expected, HEAD))
        .expect("operands that fit");
    same(&back, &expected, "moved");
    assert!(expected.iter().any(|&x| x != 0.0));
    assert_eq!(latents[..9 * LATENT], vec![0.0; 9 * LATENT]);
}

/// Tests that one call writes a tensor, records and parts with memories of their own, as calls of their own do.
#[test]
fn outputs() {
    let slots = [5_i64, 17, -1, 6, 0];
    let x: Vec<bf16> = values(&mut Source::random("outputs"), slots.len() * HEAD);
    let frequencies = frequencies();
    let angles = frequencies.at(100..105).expect("positions");
    let whole = |width| CacheLayout::nhd([PAGES, PAGE, 1, width]).expect("a layout");
    for backend in Backend::available() {
        let rope = rope(backend).with_window(LATENT);
        let write = |together: bool| {
            let (mut memory, mut y) = (painted(SLOTS * RECORD), vec![0.0_f32; slots.len() * HEAD]);
            let (mut latents, mut keys) =
                (vec![0.0_f32; SLOTS * LATENT], vec![0.0_f32; SLOTS * KEY]);
            {
                let mut records =
                    CachePartsMut::new(bytes(&mut memory), deepseek()).expect("parts that fit");
                let parts = [
                    CacheMut::new(&mut latents, whole(LATENT)).expect("a cache"),
                    CacheMut::new(&mut keys, whole(KEY)).expect("a cache"),
                ];
                let mut own = CachePartsMut::of(parts).expect("parts of one shape");
                let (mut records, mut own) = (records.slots(&slots), own.slots(&slots));
                let mut y = tensor_mut(&mut y, HEAD);
                let x = &tensor(&x, HEAD);
                let done = if together {
                    let outputs = &mut [
                        Output::new(&mut records, &angles),
                        Output::new(&mut y, &angles),
                        Output::new(&mut own, &NoRotation),
                    ];
                    rope.rotate_into_each(x, outputs)
                } else {
                    rope.rotate_into(x, &mut records, &angles)
                        .and(rope.rotate_into(x, &mut y, &angles))
                        .and(rope.apply_into(x, &mut own))
                };
                done.expect("operands that fit");
            }
            (bytes(&mut memory).to_vec(), [y, latents, keys].concat())
        };
        let (got, expected) = (write(true), write(false));
        same(&got.0, &expected.0, &format!("{backend}, records"));
        same(&got.1, &expected.1, &format!("{backend}, elements"));
    }
    // A later target that is refused leaves the records as they are.
    let (mut memory, mut y) = (painted(SLOTS * RECORD), vec![0.0_f32; HEAD]);
    let mut records = CachePartsMut::new(bytes(&mut memory), deepseek()).expect("parts that fit");
    let (mut records, mut y) = (records.slots(&slots), tensor_mut(&mut y, HEAD));
    let outputs = &mut [
        Output::new(&mut records, &angles),
        Output::new(&mut y, &angles),
    ];
    rope(Backend::Scalar)
        .with_window(LATENT)
        .rotate_into_each(&tensor(&x, HEAD), outputs)
        .expect_err("a tensor of one token");
    assert!(memory == painted(SLOTS * RECORD), "it has written");
}

#[test]
fn moves() {
    let memory = written(&mut Source::random("moves"));
    let mut got = memory.clone();
    let mut cache = CachePartsMut::new(bytes(&mut got), deepseek()).expect("parts that fit");
    cache
        .move_slots(&[4_i64, 5, 20], &[3_i64, 4, 0])
        .expect("moves in order");
    let mut expected = memory;
    for [from, to] in [[4, 3], [5, 4], [20, 0]] {
        bytes(&mut expected).copy_within(from * RECORD..(from + 1) * RECORD, to * RECORD);
    }
    same(&got, &expected, "moves");
}

/// Tests parts in regions of a page, with scales in a slice, against the same parts in memories of their own.
#[test]
fn regions_of_a_page() {
    let source = &mut Source::random("regions");
    let x: Vec<f32> = values(source, 6 * 2 * 96);
    let strides = |head_dim: usize, block: usize| {
        let mut strides = CacheLayout::nhd([2, 4, 2, head_dim])
            .expect("a layout")
            .strides();
        strides.block = block;
        strides
    };
    let shape = |head_dim| {
        CacheLayout::nhd([2, 4, 2, head_dim])
            .expect("a layout")
            .shape()
    };
    let of = |head_dim, block| CacheLayout::strided(shape(head_dim), strides(head_dim, block));
    // A page has the codes of 4 slots of 2 heads of 64 channels, and then their 32 channels in f32.
    let page = 4 * 2 * (64 + 32 * 4);
    let codes = of(64, page).expect("a layout");
    let place = ScalePlace::Separate(ScaleLayout::nh([4, 2]));
    let format = CacheFormat::quantized(
        QuantFormat::E4m3,
        QuantScale::Computed {
            least: 1e-6,
            at: place,
        },
    );
    let second = of(32, page / 4).and_then(|layout| layout.with_offset(4 * 2 * 64 / 4));
    let second = second.expect("a layout");
    let parts = [(codes, format), (second, CacheFormat::element::<f32>())];
    let (mut memory, mut scales) = (painted(2 * page), vec![0.0_f32; 2 * 4 * 2]);
    let mut cache = CachePartsMut::new_with_scales(bytes(&mut memory), parts, &mut scales)
        .expect("regions of a page");
    let rope = Rope::new(Pairing::Half);
    let x = Tensor::new(&x, [1, 6, 2, 96]).expect("a valid tensor");
    rope.apply_into(&x, &mut cache.slots(1..7))
        .expect("operands that fit");
    let mut got = vec![0.0_f32; 6 * 2 * 96];
    let y = &mut TensorMut::new(&mut got, [1, 6, 2, 96]).expect("a valid tensor");
    rope.apply_into(&cache.as_parts().slots(1..7), y)
        .expect("operands that fit");

    let mut own = (
        vec![0_u8; 2 * 4 * 2 * 64],
        vec![0.0_f32; 2 * 4 * 2],
        vec![0.0_f32; 2 * 4 * 2 * 32],
    );
    let whole = |head_dim| CacheLayout::nhd([2, 4, 2, head_dim]).expect("a layout");
    let parts = [
        CacheMut::coded_with_scales(&mut own.0, whole(64), format, &mut own.1).expect("a cache"),
        CacheMut::new(&mut own.2, whole(32)).expect("a cache"),
    ];
    let mut apart = CachePartsMut::of(parts).expect("parts of one shape");
    rope.apply_into(&x, &mut apart.slots(1..7))
        .expect("operands that fit");
    let mut expected = vec![0.0_f32; 6 * 2 * 96];
    let y = &mut TensorMut::new(&mut expected, [1, 6, 2, 96]).expect("a valid tensor");
    rope.apply_into(&apart.as_parts().slots(1..7), y)
        .expect("operands that fit");
    same(&got, &expected, "read back");
    same(&scales, &own.1, "scales");
    for block in 0..2 {
        let page_bytes = &bytes(&mut memory)[block * page..][..page];
        let begin = if block == 0 { 2 * 64 } else { 0 };
        let end = if block == 1 { 3 * 2 * 64 } else { 512 };
        same(
            &page_bytes[begin..end],
            &own.0[block * 512..][begin..end],
            "codes",
        );
    }
}

/// Codes in one memory with keys, and their scales and minima in two lists, hold what parts with memories of their own
/// hold.
#[test]
fn two_lists_of_a_part() {
    let source = &mut Source::random("two_lists_of_a_part");
    let x: Vec<f32> = (0..6 * 2 * 96).map(|_| source.unit() - 0.5).collect();
    let at = ScalePlace::Separate(ScaleLayout::nh([4, 2]).with_groups(2));
    let format = CacheFormat::by_group(GroupCodes::U8(Asymmetric::Minimum, 32), at);
    let layout = |head_dim| CacheLayout::nhd([2, 4, 2, head_dim]).expect("a layout");
    // A head has 64 codes, and then 32 channels in f32.
    let codes = layout(64 + 32 * 4).narrow_channels(0..64).expect("codes");
    let keys = layout(16 + 32).narrow_channels(16..48).expect("keys");
    let parts = [(codes, format), (keys, CacheFormat::element::<f32>())];
    let rope = Rope::new(Pairing::Half);
    let through = |cache: &mut CachePartsMut<'_, 2>| {
        let x = Tensor::new(&x, [1, 6, 2, 96]).expect("a valid tensor");
        rope.apply_into(&x, &mut cache.slots(1..7))
            .expect("operands that fit");
        cache.move_slots(2..5, 1..4).expect("moves in order");
        let mut y = vec![0.0_f32; 6 * 2 * 96];
        let back = &mut TensorMut::new(&mut y, [1, 6, 2, 96]).expect("a valid tensor");
        rope.apply_into(&cache.as_parts().slots(1..7), back)
            .expect("operands that fit");
        y
    };
    let mut memory = painted(2 * 4 * 2 * 192);
    let [mut scales, mut zeros] = [(); 2].map(|()| vec![0.25_f32; 2 * 4 * 2 * 2]);
    let both = [&mut scales, &mut zeros];
    let mut cache = CachePartsMut::new_with_scales(bytes(&mut memory), parts, both)
        .expect("parts of one memory");
    let got = through(&mut cache);

    let (mut own, mut keys) = (vec![0_u8; 2 * 4 * 2 * 64], vec![0.0_f32; 2 * 4 * 2 * 32]);
    let lists = &mut [(); 2].map(|()| vec![0.25_f32; 2 * 4 * 2 * 2]);
    let both = lists.each_mut();
    let parts = [
        CacheMut::coded_with_scales(&mut own, layout(64), format, both).expect("a cache"),
        CacheMut::new(&mut keys, layout(32)).expect("a cache"),
    ];
    let mut apart = CachePartsMut::of(parts).expect("parts of one shape");
    same(&got, &through(&mut apart), "read back");
    same(&scales, &lists[0], "scales");
    same(&zeros, &lists[1], "minima");
}

/// Asserts that a call on records is refused, and that it touches no byte.
#[track_caller]
fn untouched(call: impl FnOnce(&mut CachePartsMut<'_, 2>) -> Result<(), Error>, error: Error) {
    let mut memory = painted(SLOTS * RECORD);
    let mut cache = CachePartsMut::new(bytes(&mut memory), deepseek()).expect("parts that fit");
    refused(call(&mut cache), error);
    assert!(memory == painted(SLOTS * RECORD), "it has written");
}

fn four_of<'f>(frequencies: &'f Frequencies<'_>) -> TokenAngles<'f> {
    frequencies.at(0..4).expect("positions")
}

/// Parts that do not become whole heads.
#[test]
fn refused_stages() {
    let rope = Rope::new(Pairing::Half).with_norm(Norm::new(NormFormula::LLAMA4, 1e-6));
    let hnd = |head_dim| CacheLayout::hnd([1, 1, 16, head_dim]).expect("a layout");
    let by_channel = CacheFormat::by_channel(ChannelCodes::U8, 16);
    let mut memory = (vec![0x5a_u8; 2048], vec![0.5_f32; 16 * 16]);
    let parts = [
        CacheMut::coded(&mut memory.0, hnd(16), by_channel).expect("a cache"),
        CacheMut::new(&mut memory.1, hnd(16)).expect("a cache"),
    ];
    let mut cache = CachePartsMut::of(parts).expect("parts of one shape");
    let x = vec![1.0_f32; 16 * 32];
    refused(
        rope.apply_into(
            &Tensor::new(&x, [1, 16, 1, 32]).expect("a valid tensor"),
            &mut cache.slots(0..16),
        ),
        error::stages_in_parts(
            "a part has scales by channel, which are computed from whole groups of tokens",
        ),
    );
    assert_eq!(memory, (vec![0x5a; 2048], vec![0.5; 16 * 16]));
    // The element of the source rounds between stages, and slots determine which stages run.
    let mixed = error::stages_in_parts(
        "operands side by side have several elements, or are tensors and slots",
    );
    let (first, second) = ([1.0_f32; 4 * 16], [bf16::ONE; 4 * 16]);
    let shape = [1, 4, 1, 16];
    let floats = || AnySource::F32(Tensor::new(&first, shape).expect("a valid tensor"));
    let halves = AnySource::Bf16(Tensor::new(&second, shape).expect("a valid tensor"));
    let layout = CacheLayout::nhd([1, 4, 1, 16]).expect("a layout");
    let cache = Cache::new(&first, layout).expect("a cache");
    let slots = AnySource::Slots(cache.slots(0..4));
    let mut y = vec![0.5_f32; 4 * 32];
    let target = &mut TensorMut::new(&mut y, [1, 4, 1, 32]).expect("a valid tensor");
    for pair in [[floats(), halves], [slots, floats()]] {
        let source = AnySource::Pair(&pair);
        refused(rope.apply_into(&source, target), mixed);
        let prepared = rope.prepare_into(&source, target, &NoRotation);
        refused(prepared.map(drop), mixed);
    }
    assert_eq!(y, [0.5; 4 * 32]);
    // Three heads of 2048 channels are too many.
    let x = vec![1.0_f32; 3 * 2048];
    let mut y = [vec![0.5_f32; 3 * 1024], vec![0.5_f32; 3 * 1024]];
    let [first, second] = &mut y;
    let mut halves =
        [first, second].map(|y| TensorMut::new(y, [1, 1, 3, 1024]).expect("a valid tensor"));
    refused(
        rope.apply_into(
            &Tensor::new(&x, [1, 1, 3, 2048]).expect("a valid tensor"),
            &mut halves,
        ),
        error::parts_on_stack(3 * 2048),
    );
    assert!(y.iter().flatten().all(|y| *y == 0.5));
}

/// Parts whose formats a whole head can have: codes in tiles of 64, and bf16.
fn tiled() -> Parts<2> {
    let codes = CacheFormat::by_group(GroupCodes::E4m3In64(SCALE), ScalePlace::Inline(LATENT));
    let width = LATENT + 8 * 4 + 2 * KEY;
    let first = (LATENT + 8 * 4) / 2;
    [
        (layout(width, 0..LATENT), codes),
        (
            layout(width / 2, first..first + KEY),
            CacheFormat::element::<bf16>(),
        ),
    ]
}

const TILED: usize = LATENT + 8 * 4 + 2 * KEY;

/// Writes whole heads by two calls of one format each, and returns the records of both.
fn by_formats<E: Number>(
    rope: Rope<Normed<'_>>,
    x: &[E],
    slots: &[i64],
    angles: &impl Angles,
) -> Vec<u8> {
    let width = HEAD + 9 * 4;
    let codes = CacheFormat::by_group(GroupCodes::E4m3In64(SCALE), ScalePlace::Inline(HEAD));
    let mut coded = vec![0x5a_u8; SLOTS * width];
    let mut cache = CacheMut::coded(&mut coded, layout(width, 0..HEAD), codes).expect("a cache");
    rope.rotate_into(&tensor(x, HEAD), &mut cache.slots(slots), angles)
        .expect("operands that fit");
    let mut elements = vec![bf16::ZERO; SLOTS * HEAD];
    let mut cache = CacheMut::new(&mut elements, layout(HEAD, 0..HEAD)).expect("a cache");
    rope.rotate_into(&tensor(x, HEAD), &mut cache.slots(slots), angles)
        .expect("operands that fit");
    let mut memory = painted(SLOTS * TILED);
    for &slot in slots.iter().filter(|slot| **slot >= 0) {
        let slot = slot as usize;
        let record = &mut bytes(&mut memory)[slot * TILED..][..TILED];
        let head = &coded[slot * width..][..width];
        record[..LATENT].copy_from_slice(&head[..LATENT]);
        record[LATENT..LATENT + 32].copy_from_slice(&head[HEAD..HEAD + 32]);
        let key: &[u8] = bytemuck::cast_slice(&elements[slot * HEAD + LATENT..][..KEY]);
        record[LATENT + 32..].copy_from_slice(key);
    }
    bytes(&mut memory).to_vec()
}

/// Returns plans with each stage, and with several.
fn plans<'a>(
    rope: Rope,
    weights: [&'a [f32]; 2],
    factors: &'a [f32],
) -> Vec<(&'static str, Rope<Normed<'a>>)> {
    let norm = Norm::new(NormFormula::LLAMA, 1e-6).with_weight(weights[0]);
    let gemma = Norm::new(NormFormula::GEMMA, 1e-6).with_weight(weights[1]);
    let after = norm.with_order(StageOrder::AfterRotation);
    let hadamard = Hadamard::new(64).expect("a block");
    let scale = Scale::per_token(factors);
    let scale_after = scale.with_order(StageOrder::AfterRotation);
    let plain = Rope::<Normed<'_>>::from(rope);
    vec![
        ("norm", rope.with_norm(norm)),
        ("gemma", rope.with_norm(gemma)),
        ("norm after", rope.with_norm(after)),
        (
            "norm of tokens",
            rope.with_norm(norm.with_reach(NormReach::Token)),
        ),
        ("scale", plain.with_scale(scale)),
        ("scale after", plain.with_scale(scale_after)),
        (
            "f32 after the scale",
            plain.with_scale(scale_after.without_rounding()),
        ),
        ("hadamard", plain.with_hadamard(hadamard)),
        (
            "all",
            (rope.with_norm(norm))
                .with_scale(scale_after)
                .with_hadamard(hadamard),
        ),
        (
            "all in f32",
            (rope.with_norm(norm))
                .with_hadamard(hadamard)
                .without_rounding(),
        ),
    ]
}

fn stages_of<E: Number>(source: &mut Source<'_>, window: usize) {
    let slots = [5_i64, 17, -1, 6, 0, 8, 9, 3];
    let x: Vec<E> = values(source, slots.len() * HEAD);
    let factors: Vec<f32> = values(source, slots.len());
    let (own, wide): (Vec<f32>, Vec<f32>) = (values(source, HEAD), values(source, HEAD));
    let (latents, keys) = (columns(&x, 0..LATENT), columns(&x, LATENT..HEAD));
    let frequencies = frequencies();
    let angles = frequencies.at(100..100 + slots.len()).expect("positions");
    let rows = frequencies
        .rows(100..100 + slots.len())
        .expect("rows of tokens");
    let run = |write: &mut dyn FnMut(&mut CachePartsMut<'_, 2>) -> Result<(), Error>| {
        let mut memory = painted(SLOTS * TILED);
        let mut cache = CachePartsMut::new(bytes(&mut memory), tiled()).expect("parts that fit");
        write(&mut cache).expect("operands that fit");
        bytes(&mut memory).to_vec()
    };
    for backend in Backend::available() {
        let rope = rope(backend).with_window(window);
        for (name, plan) in plans(rope, [&own, &wide], &factors) {
            let doing = |way: &str| format!("{backend}, {}, {name}, from {window}, {way}", E::NAME);
            let (whole, apart) = (
                tensor(&x, HEAD),
                [tensor(&latents, LATENT), tensor(&keys, KEY)],
            );
            let expected = by_formats(plan, &x, &slots, &angles);
            let got = run(&mut |cache| plan.rotate_into(&whole, &mut cache.slots(&slots), &angles));
            same(&got, &expected, &doing("one call"));
            let threads = plan.with_threads();
            let got =
                run(&mut |cache| threads.rotate_into(&whole, &mut cache.slots(&slots), &angles));
            same(&got, &expected, &doing("with threads"));
            let got = run(&mut |cache| plan.rotate_into(&apart, &mut cache.slots(&slots), &rows));
            same(&got, &expected, &doing("tensors side by side, and rows"));
            let got = run(&mut |cache| {
                let slots = &mut cache.slots(&slots);
                plan.prepare_into(&whole, slots, &angles)
                    .map(|call| call.run())
            });
            same(&got, &expected, &doing("prepared"));
            let (mut y, mut alone) = (vec![0.0_f32; x.len()], vec![0.0_f32; x.len()]);
            let got = run(&mut |cache| {
                let (mut slots, y) = (cache.slots(&slots), &mut tensor_mut(&mut y, HEAD));
                let outputs = &mut [Output::new(&mut slots, &angles), Output::new(y, &angles)];
                plan.rotate_into_each(&whole, outputs)
            });
            same(&got, &expected, &doing("one of several targets"));
            plan.rotate_into(&whole, &mut tensor_mut(&mut alone, HEAD), &angles)
                .expect("operands that fit");
            same(&y, &alone, &doing("the other target"));
            // A source of f32 is rounded nowhere: the stages, and then the parts.
            if E::NAME == f32::NAME {
                let y = &tensor(&alone, HEAD);
                let got = run(&mut |cache| rope.apply_into(y, &mut cache.slots(&slots)));
                same(&got, &expected, &doing("one after the other"));
            }
            // Tensors side by side as a target, and in place.
            let (mut latent, mut key) = (vec![0.0_f32; latents.len()], vec![0.0_f32; keys.len()]);
            let mut sides = [tensor_mut(&mut latent, LATENT), tensor_mut(&mut key, KEY)];
            plan.rotate_into(&whole, &mut sides, &angles)
                .expect("operands that fit");
            same(&latent, &columns(&alone, 0..LATENT), &doing("latents"));
            same(&key, &columns(&alone, LATENT..HEAD), &doing("keys"));
            let rope = plan.with_output_pairing(Pairing::Interleaved);
            let (mut whole, mut latent, mut key) = (x.clone(), latents.clone(), keys.clone());
            rope.rotate(&mut tensor_mut(&mut whole, HEAD), &angles)
                .expect("operands that fit");
            let mut sides = [tensor_mut(&mut latent, LATENT), tensor_mut(&mut key, KEY)];
            rope.rotate(&mut sides, &angles).expect("operands that fit");
            let bits = |x: &[E]| x.iter().map(|x| x.bits()).collect::<Vec<_>>();
            let [first, second] = [0..LATENT, LATENT..HEAD].map(|it| bits(&columns(&whole, it)));
            same(&bits(&latent), &first, &doing("latents in place"));
            same(&bits(&key), &second, &doing("keys in place"));
        }
    }
}

/// Tests that stages run on whole heads, whose parts then have the bits of calls into one format each. The channels
/// that rotate are the second part, or straddle both.
#[test]
fn stages() {
    let source = &mut Source::random("stages");
    stages_of::<bf16>(source, LATENT);
    stages_of::<f32>(source, LATENT);
    stages_of::<f16>(source, LATENT);
    stages_of::<bf16>(source, LATENT - KEY / 2);
    stages_of::<f32>(source, LATENT - KEY + 1);
}

/// Tests transformed records: read, shifted in place and copied, against the same steps on caches of f32.
#[test]
fn transformed_records() {
    let memory = written(&mut Source::random("transformed records"));
    transformed(&memory, LATENT);
    transformed(&memory, LATENT - KEY / 2);
}

/// Tests records whose channels rotate from `window` on.
fn transformed(memory: &[u32], window: usize) {
    let frequencies = frequencies();
    let slots = [3_i64, 9, 20, 9, -1, 4];
    let shift = frequencies
        .shift(&[-7_i64, 5, 4096, 5, 8, 0])
        .expect("six shifts");
    let hadamard = Hadamard::new(64).expect("a block");
    let whole = CacheLayout::nhd([1, slots.len(), 1, HEAD]).expect("a layout");
    for backend in Backend::available() {
        let rope = Rope::new(Pairing::Half).with_backend(backend);
        let rope = rope.expect("an available backend").with_window(window);
        let plan = rope.with_hadamard(hadamard);
        let mut record = memory.to_vec();
        let parts = CacheParts::new(bytes(&mut record), deepseek()).expect("parts that fit");
        let mut plain = vec![0.0_f32; slots.len() * HEAD];
        rope.apply_into(&parts.slots(&slots), &mut tensor_mut(&mut plain, HEAD))
            .expect("operands that fit");
        let cache = Cache::new(&plain, whole).expect("a cache");
        // The skipped token of a cache is not read.
        let there = [0_i64, 1, 2, 3, -1, 5];
        let mut expected = vec![0.0_f32; slots.len() * HEAD];
        plan.rotate_into(
            &cache.slots(&there),
            &mut tensor_mut(&mut expected, HEAD),
            &shift,
        )
        .expect("operands that fit");
        let mut got = vec![0.0_f32; slots.len() * HEAD];
        plan.rotate_into(
            &parts.slots(&slots),
            &mut tensor_mut(&mut got, HEAD),
            &shift,
        )
        .expect("operands that fit");
        let read = |y: &[f32]| {
            let heads = y.chunks(HEAD).zip(slots).filter(|(_, slot)| *slot >= 0);
            heads
                .flat_map(|(head, _)| head.to_vec())
                .collect::<Vec<_>>()
        };
        same(
            &read(&got),
            &read(&expected),
            &format!("{backend}, from {window}, read"),
        );

        // Copied: transformed again after the rotation.
        rope.with_window(0)
            .with_hadamard(hadamard)
            .apply(&mut tensor_mut(&mut expected, HEAD))
            .expect("operands that fit");
        let copied = |write: &mut dyn FnMut(&mut CachePartsMut<'_, 2>) -> Result<(), Error>| {
            let mut target = memory.to_vec();
            let mut cache = CachePartsMut::new(bytes(&mut target), deepseek()).expect("parts");
            write(&mut cache).expect("operands that fit");
            target
        };
        let to = [0_i64, 1, 2, 5, -1, 6];
        let wanted =
            copied(&mut |cache| rope.apply_into(&tensor(&expected, HEAD), &mut cache.slots(&to)));
        let got = copied(&mut |cache| {
            plan.rotate_into(&parts.slots(&slots), &mut cache.slots(&to), &shift)
        });
        same(&got, &wanted, &format!("{backend}, from {window}, copied"));

        // In place: a slot of two tokens once, and one that does not move not at all.
        let in_place = [3_i64, 9, 20, 9, -1, -1];
        let wanted = copied(&mut |cache| {
            rope.apply_into(&tensor(&expected, HEAD), &mut cache.slots(&in_place))
        });
        for prepared in [false, true] {
            let got = copied(&mut |cache| {
                let slots = &mut cache.slots(&slots);
                match prepared {
                    true => plan.prepare(slots, &shift).map(|call| call.run()),
                    false => plan.rotate(slots, &shift),
                }
            });
            same(
                &got,
                &wanted,
                &format!("{backend}, from {window}, in place, prepared {prepared}"),
            );
        }
        let got = copied(&mut |cache| plan.apply(&mut cache.slots(&slots)));
        same(
            &got,
            memory,
            &format!("{backend}, from {window}, without a rotation"),
        );
    }
}

#[test]
fn refused_calls() {
    let frequencies = frequencies();
    let (x, rope) = (
        vec![1.0_f32; 4 * 640],
        Rope::new(Pairing::Half).with_window(LATENT),
    );
    let tensor = |tokens: usize, head_dim: usize| {
        let x = &x[..tokens * head_dim];
        Tensor::new(x, [1, tokens, 1, head_dim]).expect("a valid tensor")
    };
    let (three, angles) = (tensor(3, HEAD), frequencies.at(0..3).expect("positions"));
    for window in [500, 512 - 64 + 1] {
        untouched(
            |cache| {
                rope.with_window(window)
                    .rotate_into(&three, &mut cache.slots(0..3), &angles)
            },
            error::cache_part_divided(window, window + 64, 512),
        );
        untouched(
            |cache| {
                rope.with_window(window)
                    .rotate(&mut cache.slots(0..3), &angles)
            },
            error::cache_part_divided(window, window + 64, 512),
        );
    }
    untouched(
        |cache| {
            rope.with_window(513)
                .rotate_into(&three, &mut cache.slots(0..3), &angles)
        },
        error::window(513, 64, 576),
    );
    untouched(
        |cache| {
            rope.with_head_dim(192)
                .rotate_into(&three, &mut cache.slots(0..3), &angles)
        },
        error::plan_head_dim(576, 192, 512),
    );
    untouched(
        |cache| rope.apply_into(&tensor(3, 640), &mut cache.slots(0..3)),
        error::cache_heads(1, 640, 1, 576),
    );
    untouched(
        |cache| rope.apply_into(&[tensor(3, 500), tensor(3, 76)], &mut cache.slots(0..3)),
        error::cache_part_divided(0, 512, 500),
    );
    untouched(
        |cache| rope.apply_into(&[tensor(3, 512), tensor(4, 64)], &mut cache.slots(0..3)),
        error::operand_part(1, "tokens", 4, 3),
    );
    untouched(
        |cache| {
            let none: [Tensor<'_, f32>; 0] = [];
            rope.apply_into(&none, &mut cache.slots(0..3))
        },
        error::operand_part(0, "parts", 0, 1),
    );
    let memory = [0.0_f32; 4 * HEAD];
    let other = Cache::new(
        &memory,
        CacheLayout::nhd([1, 4, 1, HEAD]).expect("a layout"),
    );
    let other = other.expect("a cache");
    untouched(
        |cache| rope.apply_into(&other.slots(0..3), &mut cache.slots(0..3)),
        error::cache_part_divided(0, 576, 512),
    );
    let normed = rope.with_norm(Norm::new(NormFormula::LLAMA4, 1e-6));
    untouched(
        |cache| normed.rotate(&mut cache.slots(0..3), &angles),
        Error::Plan(PlanError::NormInCache),
    );
    untouched(
        |cache| normed.rotate_into(&three, &mut cache.slots(0..3), &four_of(&frequencies)),
        error::row_count(4, 3, 1),
    );
    untouched(
        |cache| normed.rotate_into(&three, &mut cache.slots(&[0_i64, 1, 24]), &angles),
        error::slot(2, 24, 24),
    );
    untouched(
        |cache| normed.apply_into(&tensor(3, 640), &mut cache.slots(0..3)),
        error::cache_heads(1, 640, 1, 576),
    );
    untouched(
        |cache| {
            let hadamard = Hadamard::new(128).expect("a block");
            let rope = rope.with_hadamard(hadamard);
            rope.apply_into(&three, &mut cache.slots(0..3))
        },
        error::hadamard_head(128, 576),
    );
    // The latents are right, and are not written if the keys are wrong.
    let four = frequencies.at(0..4).expect("positions");
    untouched(
        |cache| rope.rotate_into(&three, &mut cache.slots(0..3), &four),
        error::row_count(4, 3, 1),
    );
    untouched(
        |cache| {
            rope.prepare_into(&three, &mut cache.slots(0..3), &four)
                .map(|call| call.run())
        },
        error::row_count(4, 3, 1),
    );
    untouched(
        |cache| rope.rotate_into(&three, &mut cache.slots(&[0_i64, 1, 24]), &angles),
        error::slot(2, 24, 24),
    );
    untouched(
        |cache| {
            rope.prepare_into(&three, &mut cache.slots(0..2), &NoRotation)
                .map(|call| call.run())
        },
        error::slot_count(2, 3, 1),
    );
    untouched(
        |cache| cache.move_slots(&[0_i64, 1], &[1_i64, 0]),
        Error::Slots(SlotsError::MoveOrder {
            slot: 1,
            read: 1,
            written: 0,
        }),
    );
    let swapped = rope.with_output_pairing(Pairing::Interleaved);
    untouched(
        |cache| swapped.rotate(&mut cache.slots(0..3), &angles),
        error::pairing_changes(Pairing::Half, Pairing::Interleaved),
    );
}

#[test]
fn refused_parts() {
    let [latents, keys] = deepseek();
    let format = keys.1;
    #[track_caller]
    fn overlap(of: &'static str, parts: Parts<2>) {
        let mut memory = painted(SLOTS * RECORD);
        let error = error::cache_part_overlap(of, 0, 1);
        refused(CacheParts::new(bytes(&mut memory), parts), error);
        refused(CachePartsMut::new(bytes(&mut memory), parts), error);
        let [first, second] = parts;
        refused(
            CachePartsMut::new(bytes(&mut memory), [second, first]),
            error,
        );
    }
    // The keys would begin among the scales, and among the codes.
    for first in [0, 255, 256, 263] {
        overlap(
            "bytes",
            [latents, (layout(RECORD / 2, first..first + KEY), format)],
        );
    }
    // The record of the keys is longer by a channel than that of the latents.
    let longer =
        CacheLayout::nhd([PAGES, PAGE, 1, 330]).and_then(|it| it.narrow_channels(264..328));
    let short =
        CacheLayout::nhd([PAGES, PAGE - 1, 1, 328]).and_then(|it| it.narrow_channels(264..328));
    let mut memory = painted(2 * SLOTS * RECORD);
    refused(
        CachePartsMut::new(
            bytes(&mut memory),
            [latents, (longer.expect("a layout"), format)],
        ),
        error::cache_part_overlap("bytes", 0, 1),
    );
    refused(
        CachePartsMut::new(
            bytes(&mut memory),
            [latents, (short.expect("a layout"), format)],
        ),
        error::operand_part(1, "slots per block", 7, 8),
    );
    refused(
        CachePartsMut::new(bytes(&mut memory), []),
        error::cache_layout("of one part at least"),
    );
    let place = ScalePlace::Separate(ScaleLayout::nh([PAGE, 1]));
    let computed = CacheFormat::quantized(
        QuantFormat::E4m3,
        QuantScale::Computed {
            least: 1e-6,
            at: place,
        },
    );
    let halves = [0..64, 64..128].map(|channels| (layout(128, channels), computed));
    let mut scales = vec![0.0_f32; SLOTS];
    refused(
        CachePartsMut::new_with_scales(bytes(&mut memory), halves, &mut scales),
        error::cache_part_overlap("separate scales", 0, 1),
    );
    refused(
        CachePartsMut::new(&mut bytes(&mut memory)[..SLOTS * RECORD - 1], deepseek()),
        error::cache_memory(SLOTS * RECORD, SLOTS * RECORD - 1),
    );
}
