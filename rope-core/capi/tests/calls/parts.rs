//! Operands in parts: a latent in codes and its key, in one memory and in two, beside the same calls of rope-core.

use std::ptr::{null, null_mut};

use half::bf16;
use rope::{rope_cache_format as Format, rope_group_scale as Group, *};
use rope_core::cache::{
    CacheFormat, CacheLayout, CacheMut, CachePartsMut, ScaleLayout, ScalePlace, TileScale,
};
use rope_core::{Frequencies, Pairing, Rope, Scaling, Tensor, TensorMut};

use super::c::{detail, in_slots, moved_by, zero};
use super::{frequencies_bytes, plan, tensor};

const LATENT: usize = 128;
const KEY: usize = 32;
const HEAD: usize = LATENT + KEY;
/// Bytes of a slot: codes, a scale and a key in bf16.
const RECORD: usize = LATENT + 4 + 2 * KEY;
const SLOTS: usize = 6;
const TOKENS: usize = 2;

fn cache(
    memory: *mut u8,
    bytes: usize,
    format: Format,
    channels: [usize; 2],
    width: usize,
) -> rope_cache {
    rope_cache {
        memory: memory.cast(),
        bytes,
        format: format as i32,
        layout: rope_cache_layout {
            kind: rope_cache_layout_kind::Nhd as i32,
            extents: [1, SLOTS, 1, width, 0],
            channels,
            ..zero()
        },
        scale: rope_quant_scale {
            kind: rope_quant_scale_kind::MadeInline as i32,
            group: Group::Quotient as i32,
            least: f32::MIN_POSITIVE,
            behind: LATENT,
            ..zero()
        },
        ..zero()
    }
}

/// The parts of a record in memory.
fn record(memory: &mut [u32]) -> [rope_cache; 2] {
    let (bytes, memory) = (size_of_val(memory), memory.as_mut_ptr().cast());
    let key = [(LATENT + 4) / 2, RECORD / 2];
    [
        cache(memory, bytes, Format::E4m3In128, [0, LATENT], RECORD),
        cache(memory, bytes, Format::Bf16, key, RECORD / 2),
    ]
}

fn range(first: usize, count: usize) -> rope_slots {
    rope_slots {
        kind: rope_slots_kind::Range as i32,
        first,
        count,
        ..zero()
    }
}

/// Values that differ, between -2 and 2.
fn values(len: usize) -> Vec<f32> {
    (0..len)
        .map(|i| (i * 37 % 127) as f32 / 32.0 - 1.9)
        .collect()
}

fn layouts() -> [(CacheLayout, CacheFormat<'static>); 2] {
    let scale = TileScale::Quotient {
        least: f32::MIN_POSITIVE,
    };
    let layout = |width, channels| {
        CacheLayout::nhd([1, SLOTS, 1, width])
            .and_then(|layout| layout.narrow_channels(channels))
            .expect("channels of a head")
    };
    [
        (
            layout(RECORD, 0..LATENT),
            CacheFormat::e4m3_in_128(scale, ScalePlace::Inline(LATENT)),
        ),
        (
            layout(RECORD / 2, (LATENT + 4) / 2..RECORD / 2),
            CacheFormat::element::<bf16>(),
        ),
    ]
}

#[test]
fn one_memory() {
    let x = values(TOKENS * HEAD);
    let (mut latent, mut key) = (Vec::new(), Vec::new());
    for head in x.chunks(HEAD) {
        latent.extend_from_slice(&head[..LATENT]);
        key.extend_from_slice(&head[LATENT..]);
    }
    let mut expected = vec![0x5a5a_5a5a_u32; SLOTS * RECORD / 4];
    let len = SLOTS * RECORD;
    // SAFETY: the memory has that many bytes, and is used by the cache alone.
    let bytes = unsafe { std::slice::from_raw_parts_mut(expected.as_mut_ptr().cast(), len) };
    let mut there = CachePartsMut::new(bytes, layouts()).expect("parts that fit");
    let theta = Frequencies::new(KEY, 10_000.0, &Scaling::Default).expect("valid frequencies");
    let rope = Rope::new(Pairing::Half).with_window(LATENT);
    let whole = Tensor::new(&x, [1, TOKENS, 1, HEAD]).expect("a valid tensor");
    rope.rotate_into(
        &whole,
        &mut there.slots(1..3),
        &theta.at(5..7).expect("positions"),
    )
    .expect("operands that fit");
    rope.rotate(
        &mut there.slots(1..3),
        &theta.shift(&[-3_i64, 4]).expect("shifts"),
    )
    .expect("operands that fit");
    let mut read = vec![0.0_f32; TOKENS * HEAD];
    let y = &mut TensorMut::new(&mut read, [1, TOKENS, 1, HEAD]).expect("a valid tensor");
    rope.apply_into(&there.as_parts().slots(1..3), y)
        .expect("operands that fit");

    let mut room = vec![0_u64; frequencies_bytes(KEY).div_ceil(8)];
    let mut frequencies = null_mut();
    let (axes, deltas) = (rope_axes_text(KEY), [-3_i64, 4]);
    let positions = rope_positions_range(5, TOKENS);
    let moves = rope_positions {
        kind: rope_positions_kind::TokenMajor as i32,
        number: rope_number::I64 as i32,
        values: deltas.as_ptr().cast(),
        count: TOKENS,
        ..rope_positions_range(0, 0)
    };
    let plan = rope_plan {
        first_channel: LATENT,
        ..plan(rope_pairing::Half)
    };
    for apart in [false, true] {
        let mut memory = vec![0x5a5a_5a5a_u32; SLOTS * RECORD / 4];
        let parts = record(&mut memory);
        let slots = range(1, TOKENS);
        let second = in_slots(&parts[1], null());
        let target = rope_operand {
            next: &second,
            ..in_slots(&parts[0], &slots)
        };
        let key = tensor(&mut key, [1, TOKENS, 1, KEY]);
        let mut x = x.clone();
        let source = if apart {
            rope_operand {
                next: &key,
                ..tensor(&mut latent, [1, TOKENS, 1, LATENT])
            }
        } else {
            tensor(&mut x, [1, TOKENS, 1, HEAD])
        };
        let mut got = [vec![0.0_f32; TOKENS * LATENT], vec![0.0_f32; TOKENS * KEY]];
        let [latents, keys] = &mut got;
        let of_keys = tensor(keys, [1, TOKENS, 1, KEY]);
        let back = rope_operand {
            next: &of_keys,
            ..tensor(latents, [1, TOKENS, 1, LATENT])
        };
        let (mut storage, mut shift) = ([0.0_f32; TOKENS * KEY], zero());
        // SAFETY: all of it is there.
        let done = unsafe {
            let bytes = room.len() * 8;
            [
                rope_frequencies_init(
                    room.as_mut_ptr().cast(),
                    bytes,
                    &axes,
                    1e4,
                    null(),
                    &mut frequencies,
                ),
                rope_rotate_into(
                    &plan,
                    &source,
                    &target,
                    &rope_angles_at(frequencies, &positions),
                ),
                rope_rows_fill(
                    &moved_by(frequencies, &moves),
                    storage.as_mut_ptr(),
                    storage.len(),
                    &mut shift,
                ),
                rope_rotate(&plan, &target, &shift),
                rope_apply_into(&plan, &target, &back),
            ]
        };
        assert_eq!(done, [rope_status::Ok; 5], "{}", detail());
        assert!(memory == expected, "other bytes");
        for (token, head) in read.chunks(HEAD).enumerate() {
            assert_eq!(got[0][token * LATENT..][..LATENT], head[..LATENT]);
            assert_eq!(got[1][token * KEY..][..KEY], head[LATENT..]);
        }
    }
}

#[test]
fn two_memories() {
    let mut x = values(TOKENS * HEAD);
    let (mut latents, mut keys) = (vec![0.0_f32; SLOTS * LATENT], vec![0.0_f32; SLOTS * KEY]);
    let layout = |width| CacheLayout::nhd([1, SLOTS, 1, width]).expect("a layout");
    let parts = [
        CacheMut::new(&mut latents, layout(LATENT)).expect("a cache"),
        CacheMut::new(&mut keys, layout(KEY)).expect("a cache"),
    ];
    let whole = Tensor::new(&x, [1, TOKENS, 1, HEAD]).expect("a valid tensor");
    let mut there = CachePartsMut::of(parts).expect("parts of one shape");
    Rope::new(Pairing::Half)
        .apply_into(&whole, &mut there.slots(2..4))
        .expect("operands that fit");
    let mut got = (vec![0.0_f32; SLOTS * LATENT], vec![0.0_f32; SLOTS * KEY]);
    let of = |memory: &mut [f32], width| {
        let (memory, bytes) = (memory.as_mut_ptr().cast(), size_of_val(memory));
        cache(memory, bytes, Format::F32, [0, 0], width)
    };
    let parts = [of(&mut got.0, LATENT), of(&mut got.1, KEY)];
    let (slots, plan) = (range(2, TOKENS), plan(rope_pairing::Half));
    let second = in_slots(&parts[1], null());
    let target = rope_operand {
        next: &second,
        ..in_slots(&parts[0], &slots)
    };
    let source = tensor(&mut x, [1, TOKENS, 1, HEAD]);
    // SAFETY: all of it is there.
    let status = unsafe { rope_apply_into(&plan, &source, &target) };
    assert_eq!(status, rope_status::Ok);
    assert_eq!(got, (latents, keys));
}

/// Scales after the codes of a block: pages of 4 slots of 128 codes, then 4 floats.
#[test]
fn scales_in_blocks() {
    const BLOCKS: usize = 2;
    const SIZE: usize = 4;
    const PAGE: usize = SIZE * (LATENT + 4);
    let mut x = values(TOKENS * LATENT);
    let dense = CacheLayout::nhd([BLOCKS, SIZE, 1, LATENT]).expect("a layout");
    let mut strides = dense.strides();
    strides.block = PAGE;
    let layout = CacheLayout::strided(dense.shape(), strides).expect("pages");
    let at = ScalePlace::InBlock {
        first: SIZE * LATENT,
        strides: ScaleLayout {
            block: PAGE,
            token: 4,
            head: 4,
        },
    };
    let scale = TileScale::Quotient {
        least: f32::MIN_POSITIVE,
    };
    let mut expected = vec![0x5a_u8; BLOCKS * PAGE];
    let format = CacheFormat::e4m3_in_128(scale, at);
    let mut there = CacheMut::coded(&mut expected, layout, format).expect("its pages");
    let whole = Tensor::new(&x, [1, TOKENS, 1, LATENT]).expect("a valid tensor");
    Rope::new(Pairing::Half)
        .apply_into(&whole, &mut there.slots(3..5))
        .expect("slots that are there");
    let mut got = vec![0x5a_u8; BLOCKS * PAGE];
    let mut pages = cache(got.as_mut_ptr(), got.len(), Format::E4m3In128, [0, 0], 0);
    pages.layout.kind = rope_cache_layout_kind::Strided as i32;
    pages.layout.extents = [BLOCKS, SIZE, 1, LATENT, 0];
    pages.layout.strides = rope_cache_strides {
        block: PAGE,
        group: SIZE,
        group_stride: 0,
        token: LATENT,
        head: LATENT,
        chunk: LATENT,
        chunk_stride: 0,
        channel: 1,
    };
    pages.scale.kind = rope_quant_scale_kind::MadeInBlock as i32;
    pages.scale.behind = SIZE * LATENT;
    pages.scale.strides = [PAGE, 4, 4];
    let (slots, plan) = (range(3, TOKENS), plan(rope_pairing::Half));
    let source = tensor(&mut x, [1, TOKENS, 1, LATENT]);
    // SAFETY: all of it is there.
    let status = unsafe { rope_apply_into(&plan, &source, &in_slots(&pages, &slots)) };
    assert_eq!(status, rope_status::Ok, "{}", detail());
    assert_eq!(got, expected);
    pages.scale.behind -= 1;
    // SAFETY: all of it is there.
    let status = unsafe { rope_apply_into(&plan, &source, &in_slots(&pages, &slots)) };
    assert_eq!(status, rope_status::CacheLayout);
    assert_eq!(got, expected);
}

#[test]
fn refused() {
    let mut x = values(TOKENS * HEAD);
    let before = vec![0x5a5a_5a5a_u32; SLOTS * RECORD / 4];
    let mut memory = before.clone();
    let mut parts = record(&mut memory);
    let (slots, plan) = (range(1, TOKENS), plan(rope_pairing::Half));
    let source = tensor(&mut x, [1, TOKENS, 1, HEAD]);
    let call = |parts: &[rope_cache; 2], more: bool| {
        let third = in_slots(&parts[1], null());
        let second = rope_operand {
            next: if more { &third } else { null() },
            ..in_slots(&parts[1], null())
        };
        let target = rope_operand {
            next: &second,
            ..in_slots(&parts[0], &slots)
        };
        // SAFETY: all of it is there.
        unsafe { rope_apply_into(&plan, &source, &target) }
    };
    assert_eq!(call(&parts, true), rope_status::Parts);
    assert_eq!(
        detail(),
        "y.next.next is given; an operand has at most 2 parts, so it must be NULL"
    );
    parts[1].layout.channels = [LATENT / 2, LATENT / 2 + KEY];
    assert_eq!(call(&parts, false), rope_status::Parts);
    assert_eq!(
        detail(),
        "parts 0 and 1 of a cache could share bytes; give each its own place: bytes after the codes and scales of the \
         other at the same strides, or a memory of its own"
    );
    // A memory that begins in the other one.
    let mut parts = record(&mut memory);
    parts[1].memory = parts[1].memory.wrapping_byte_add(4);
    parts[1].bytes -= 4;
    assert_eq!(call(&parts, false), rope_status::MemoryOverlap);
    let parts = record(&mut memory);
    let second = in_slots(&parts[1], null());
    let target = rope_operand {
        next: &second,
        ..in_slots(&parts[0], &slots)
    };
    let mut prepared = rope_call { words: [0; 256] };
    let rows = [0.0_f32; TOKENS * KEY];
    let angles = rope_rows_joined(rows.as_ptr(), rows.len(), KEY);
    // SAFETY: all of it is there.
    unsafe {
        let status = rope_prepare_into(&plan, &source, &target, &angles, &mut prepared);
        assert_eq!(status, rope_status::Parts);
        assert_eq!(
            detail(),
            "y.next is given, which a prepared call and one with several outputs do not take; call rope_rotate, \
             rope_rotate_into or rope_apply_into"
        );
        let output = rope_output {
            y: &target,
            rows: &angles,
            groups: 0,
        };
        let status = rope_rotate_into_each(&plan, &source, &output, 1);
        assert_eq!(status, rope_status::Parts);
        assert_eq!(
            rope_rotate_qk(&plan, &target, &source, &angles),
            rope_status::Operand
        );
    }
    assert!(memory == before, "it has written");
}
