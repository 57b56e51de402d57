//! Operands in parts: a latent in codes and its key, in one memory, beside the same calls of rope-core. The bodies
//! write parts of two memories, with stages.

use rope_core::cache::{
    CacheFormat, CacheLayout, CachePartsMut, GroupCodes, ScalePlace, TileScale,
};
use {rope_cache_format as Format, rope_quant_scale_kind as ScaleKind};

use super::*;

const LATENT: usize = 128;
const KEY: usize = 32;
const HEAD: usize = LATENT + KEY;
/// Bytes of a slot: codes, a scale and a key in bf16.
const RECORD: usize = LATENT + 4 + 2 * KEY;
const SLOTS: usize = 6;
const TOKENS: usize = 2;
const BEFORE: [u32; SLOTS * RECORD / 4] = [0x5a5a_5a5a; SLOTS * RECORD / 4];

/// Returns the parts of a record in memory.
fn record(memory: &mut [u32]) -> [rope_cache; 2] {
    let scale = with!(
        quant_scale(ScaleKind::MadeInline, 0.0);
        group = rope_group_scale::Quotient as i32, least = f32::MIN_POSITIVE, behind = LATENT
    );
    let latent = (Format::E4m3In128, RECORD, [0, LATENT]);
    let key = (Format::Bf16, RECORD / 2, [(LATENT + 4) / 2, RECORD / 2]);
    [latent, key].map(|(format, width, channels)| {
        let layout = with!(nhd([1, SLOTS, 1, width]); channels = channels);
        with!(cache(memory, format, layout); scale = scale)
    })
}

/// Returns an operand with a second part.
fn with_part(first: rope_operand, second: &rope_operand) -> rope_operand {
    with!(first; next = &raw const *second)
}

/// Writes from one tensor and from parts, moves the keys, and reads into parts.
#[test]
fn one_memory() {
    let x = values::<f32>(TOKENS * HEAD);
    let latent: Vec<f32> = x
        .chunks(HEAD)
        .flat_map(|head| head[..LATENT].to_vec())
        .collect();
    let key: Vec<f32> = x
        .chunks(HEAD)
        .flat_map(|head| head[LATENT..].to_vec())
        .collect();
    let least = f32::MIN_POSITIVE;
    let layout = |width, channels| {
        let whole = CacheLayout::nhd([1, SLOTS, 1, width]);
        let part = whole.and_then(|whole| whole.narrow_channels(channels));
        part.expect("channels of a head")
    };
    let at = ScalePlace::Inline(LATENT);
    let codes = CacheFormat::by_group(GroupCodes::E4m3In128(TileScale::Quotient { least }), at);
    let key_layout = layout(RECORD / 2, (LATENT + 4) / 2..RECORD / 2);
    let key_format = CacheFormat::element::<bf16>();
    let parts = [(layout(RECORD, 0..LATENT), codes), (key_layout, key_format)];
    let mut expected = BEFORE.map(u32::to_ne_bytes);
    let mut there = CachePartsMut::new(expected.as_flattened_mut(), parts).expect("parts that fit");
    let theta = Frequencies::new(KEY, 10_000.0, &Scaling::Default).expect("valid");
    let rope = Rope::new(Pairing::Half).with_window(LATENT);
    let whole = Tensor::new(&x, [1, TOKENS, 1, HEAD]).expect("a valid tensor");
    let angles = theta.at(5..7).expect("valid");
    let moves = theta.shift(&[-3_i64, 4]).expect("valid");
    let mut read = vec![0.0_f32; TOKENS * HEAD];
    let y = &mut TensorMut::new(&mut read, [1, TOKENS, 1, HEAD]).expect("a valid tensor");
    let done = [
        rope.rotate_into(&whole, &mut there.slots(1..3), &angles),
        rope.rotate(&mut there.slots(1..3), &moves),
        rope.apply_into(&there.as_parts().slots(1..3), y),
    ];
    assert_eq!(done, [Ok(()); 3]);

    let (made, at) = (Owned::new(KEY), rope_positions_range(5, TOKENS));
    let deltas = [-3_i64, 4];
    let moves = positions(rope_positions_kind::PerToken, &deltas, rope_number::I64);
    let (angles, moves) = (rope_angles_at(made.0, &at), moved_by(made.0, &moves));
    let plan = with!(plan(rope_pairing::Half); first_channel = LATENT);
    let keys = view(&key, [1, TOKENS, 1, KEY]);
    for source in [
        view(&x, [1, TOKENS, 1, HEAD]),
        with_part(view(&latent, [1, TOKENS, 1, LATENT]), &keys),
    ] {
        let mut memory = BEFORE;
        let (parts, slots) = (record(&mut memory), range(1, TOKENS));
        let second = in_slots(&parts[1], null());
        let target = with_part(in_slots(&parts[0], &slots), &second);
        let (mut latents, mut keys) = ([0.0_f32; TOKENS * LATENT], [0.0_f32; TOKENS * KEY]);
        let of_keys = tensor(&mut keys, [1, TOKENS, 1, KEY]);
        let back = with_part(tensor(&mut latents, [1, TOKENS, 1, LATENT]), &of_keys);
        let (mut storage, mut shift) = ([0.0_f32; TOKENS * KEY], zero());
        ok!(
            rope_rotate_into(&plan, &source, &target, &angles),
            rope_rows_fill(&moves, storage.as_mut_ptr(), storage.len(), &mut shift),
            rope_rotate(&plan, &target, &shift),
            rope_apply_into(&plan, &target, &back),
        );
        assert!(memory.map(u32::to_ne_bytes) == expected, "other bytes");
        for (token, head) in read.chunks(HEAD).enumerate() {
            assert_eq!(latents[token * LATENT..][..LATENT], head[..LATENT]);
            assert_eq!(keys[token * KEY..][..KEY], head[LATENT..]);
        }
    }
}

/// Prepares the calls of records and of two memories, and runs them in the prepared memory and in other memory.
#[test]
fn prepared() {
    let x = values::<f32>(TOKENS * HEAD);
    let other = values::<f32>(2 * TOKENS * HEAD);
    let other = &other[TOKENS * HEAD..];
    let rows = table(KEY, 5, TOKENS);
    let angles = joined(&rows, KEY);
    let plan = with!(plan(rope_pairing::Half); first_channel = LATENT);
    let written = |x: &[f32], first| {
        let mut memory = BEFORE;
        let (parts, slots) = (record(&mut memory), range(first, TOKENS));
        let second = in_slots(&parts[1], null());
        let target = with_part(in_slots(&parts[0], &slots), &second);
        let source = view(x, [1, TOKENS, 1, HEAD]);
        ok!(rope_rotate_into(&plan, &source, &target, &angles));
        memory
    };
    let (mut memory, mut elsewhere, mut call) = (BEFORE, BEFORE, zero());
    {
        // The structs are gone when the call runs.
        let (parts, slots) = (record(&mut memory), range(1, TOKENS));
        let second = in_slots(&parts[1], null());
        let target = with_part(in_slots(&parts[0], &slots), &second);
        let source = view(&x, [1, TOKENS, 1, HEAD]);
        ok!(rope_prepare_into(
            &plan, &source, &target, &angles, &mut call
        ));
    }
    assert!(memory == BEFORE, "it has written");
    ok!(rope_call_run(&call));
    assert!(memory == written(&x, 1), "in the prepared memory");
    let slots = range(3, TOKENS);
    let at = with!(
        zero::<rope_call_memory>();
        x = other.as_ptr().cast_mut().cast(), y = elsewhere.as_mut_ptr().cast(), slots = &raw const slots
    );
    ok!(rope_call_run_at(&call, &at));
    assert!(elsewhere == written(other, 3), "in other memory");
    let mut refusals = Refusals::default();
    spoil!(refusals, at => rope_call_run_at(&call, &at);
        at.y_next = at.y;
        at.x_next = at.x;
        at.scales_next = at.y;
        at.x = at.y;
    );
    assert!(elsewhere == written(other, 3), "it has written");

    // Keys and latents in memories of their own are read into two tensors.
    let [mut latents, mut keys] = [vec![0.0_f32; SLOTS * LATENT], vec![0.0_f32; SLOTS * KEY]];
    let [mut more_latents, mut more_keys] = [latents.clone(), keys.clone()];
    for (index, x) in latents.iter_mut().chain(&mut more_latents).enumerate() {
        *x = index as f32;
    }
    for (index, x) in keys.iter_mut().chain(&mut more_keys).enumerate() {
        *x = -(index as f32);
    }
    let [mut y, mut z] = [[0.0_f32; TOKENS * LATENT]; 2];
    let [mut y_keys, mut z_keys] = [[0.0_f32; TOKENS * KEY]; 2];
    let mut read = zero();
    {
        let first = cache(&mut latents, Format::F32, nhd([1, SLOTS, 1, LATENT]));
        let second = cache(&mut keys, Format::F32, nhd([1, SLOTS, 1, KEY]));
        let (slots, second) = (range(2, TOKENS), in_slots(&second, null()));
        let source = with_part(in_slots(&first, &slots), &second);
        let of_keys = tensor(&mut y_keys, [1, TOKENS, 1, KEY]);
        let target = with_part(tensor(&mut y, [1, TOKENS, 1, LATENT]), &of_keys);
        let call = &mut read;
        ok!(rope_prepare_into(&plan, &source, &target, null(), call));
    }
    let at = with!(
        zero::<rope_call_memory>();
        x = more_latents.as_mut_ptr().cast(), x_next = more_keys.as_mut_ptr().cast(), y = z.as_mut_ptr().cast(),
        y_next = z_keys.as_mut_ptr().cast()
    );
    ok!(rope_call_run(&read), rope_call_run_at(&read, &at));
    assert_eq!(y[..], latents[2 * LATENT..][..TOKENS * LATENT]);
    assert_eq!(y_keys[..], keys[2 * KEY..][..TOKENS * KEY]);
    assert_eq!(z[..], more_latents[2 * LATENT..][..TOKENS * LATENT]);
    assert_eq!(z_keys[..], more_keys[2 * KEY..][..TOKENS * KEY]);
    spoil!(refusals, at => rope_call_run_at(&read, &at);
        at.y_next = null_mut();
        at.y_next = at.x_next;
    );
    compare!(refusals, "prepared_parts");
}

/// Writes a tensor, a record, and parts in memories of their own by one call.
#[test]
fn outputs() {
    let x = values::<f32>(TOKENS * HEAD);
    let rows = table(KEY, 5, TOKENS);
    let angles = joined(&rows, KEY);
    let plan = with!(plan(rope_pairing::Half); first_channel = LATENT);
    let source = view(&x, [1, TOKENS, 1, HEAD]);
    let write = |alone: bool| {
        let (mut memory, mut y) = (BEFORE, [0.0_f32; TOKENS * HEAD]);
        let [mut latents, mut keys] = [vec![0.0_f32; SLOTS * LATENT], vec![0.0_f32; SLOTS * KEY]];
        {
            let (parts, slots) = (record(&mut memory), range(1, TOKENS));
            let second = in_slots(&parts[1], null());
            let in_record = with_part(in_slots(&parts[0], &slots), &second);
            let first = cache(&mut latents, Format::F32, nhd([1, SLOTS, 1, LATENT]));
            let second = cache(&mut keys, Format::F32, nhd([1, SLOTS, 1, KEY]));
            let second = in_slots(&second, null());
            let apart = with_part(in_slots(&first, &slots), &second);
            let dense = tensor(&mut y, [1, TOKENS, 1, HEAD]);
            let targets = [&in_record, &dense, &apart];
            if alone {
                for y in targets {
                    ok!(rope_rotate_into(&plan, &source, y, &angles));
                }
            } else {
                let (rows, groups) = (&raw const angles, 0);
                let outputs = targets.map(|y| rope_output { y, rows, groups });
                ok!(rope_rotate_into_each(&plan, &source, outputs.as_ptr(), 3));
                // Nothing is written if one target is refused.
                let twice = [outputs[0], outputs[0]];
                let refused = call!(rope_rotate_into_each(&plan, &source, twice.as_ptr(), 2));
                assert_eq!(refused, rope_status::MemoryOverlap);
            }
        }
        (memory, y.map(f32::to_bits), latents, keys)
    };
    let together = write(false);
    assert!(together.0 != BEFORE && together == write(true));
}

#[test]
fn refusals() {
    let (x, mut memory, mut refusals) = (values::<f32>(TOKENS * HEAD), BEFORE, Refusals::default());
    let source = view(&x, [1, TOKENS, 1, HEAD]);
    let (slots, plan) = (range(1, TOKENS), plan(rope_pairing::Half));
    let right = record(&mut memory);
    let call = |parts: &[rope_cache; 2], third: *const rope_operand| {
        let second = with!(in_slots(&parts[1], null()); next = third);
        let target = with_part(in_slots(&parts[0], &slots), &second);
        call!(rope_apply_into(&plan, &source, &target))
    };
    let channels = [LATENT / 2, LATENT / 2 + KEY];
    let within = [right[0], with!(right[1]; layout.channels = channels)];
    // A memory that begins in the other one.
    let (memory_at, bytes) = (right[1].memory.wrapping_byte_add(4), right[1].bytes - 4);
    let later = [right[0], with!(right[1]; memory = memory_at, bytes = bytes)];
    let second = in_slots(&right[1], null());
    let target = with_part(in_slots(&right[0], &slots), &second);
    let rows = [0.0_f32; TOKENS * KEY];
    let angles = joined(&rows, KEY);
    refused!(
        refusals,
        call(&right, &second),
        call(&within, null()),
        call(&later, null()),
        rope_rotate_qk(&plan, &target, &source, &angles),
    );
    // Null is no second part.
    let odd = with!(target; next = target.next.wrapping_byte_add(1));
    refused!(refusals, rope_apply_into(&plan, &source, &odd));
    assert!(memory == BEFORE, "it has written");
    compare!(refusals, "parts");
}
