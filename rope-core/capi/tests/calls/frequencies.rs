//! Rows that move keys, and refusals of frequencies, positions and rows. The bodies have scalings, axes, lists, and
//! rows at positions of every kind over C.

use super::*;

/// Shards that are refused, and a count without room.
#[test]
fn shards() {
    use rope_positions_kind as Kind;
    let (mut got, mut count, mut refusals) = ([7; 4], 7, Refusals::default());
    let mut call = |positions: rope_positions, len| {
        let (tokens, count) = (got.as_mut_ptr(), &mut count);
        call!(rope_shard_tokens(&positions, tokens, len, count))
    };
    let zigzag = Kind::ZigzagShard as i32;
    refused!(
        refusals,
        call(rope_positions_shard(zigzag, 12, 3, 3), 4),
        call(rope_positions_shard(zigzag, 12, 0, 0), 4),
        call(rope_positions_shard(zigzag, 13, 0, 3), 4),
        call(rope_positions_shard(zigzag, 24, 0, 3), 4),
        call(rope_positions_range(0, 4), 4),
    );
    // Without room the call counts the tokens.
    ok!(call(rope_positions_shard(zigzag, 24, 0, 3), 0));
    assert_eq!((got, count), ([7; 4], 8));
    compare!(refusals, "shards");
}

/// Sizes and queries of Dual Chunk Attention, for a range and for a list.
#[test]
fn dual_chunks() {
    let (made, mut refusals, list) = (Owned::new(8), Refusals::default(), [5, -1, 90, 12]);
    let listed = positions(rope_positions_kind::PerToken, &list, rope_number::I32);
    for &query in rope_dual_chunk_query::ALL {
        let dual_chunk = rope_dual_chunk {
            query: query as i32,
            chunk_size: 16,
            local_size: 4,
        };
        for positions in [rope_positions_range(-3, 40), listed] {
            let at = with!(positions; dual_chunk = dual_chunk);
            ok!(rope_rows_len(&rope_angles_at(made.0, &at), &mut 0));
            spoil!(refusals, at => rope_rows_len(&rope_angles_at(made.0, &at), &mut 0);
                at.dual_chunk.query = 6;
                at.dual_chunk.local_size = 16;
            );
        }
    }
    compare!(refusals, "dual_chunks");
}

/// Rows that move keys by deltas, and from other frequencies and positions; and the keys that they move.
#[test]
fn shifts_match_rope_core() {
    let yarn = Scaling::Yarn(Yarn::new(4.0, 4096));
    let of = |scaling: &Scaling<'_>| Frequencies::new(64, 10_000.0, scaling).expect("valid");
    let (old, stretched) = (of(&Scaling::Default), of(&yarn));
    let (mut c_yarn, kind) = (zero(), rope_scaling_kind::Yarn as i32);
    ok!(rope_scaling_init(&mut c_yarn, kind));
    (c_yarn.factor, c_yarn.original_context) = (4.0, 4096);
    let axes = rope_axes_text(64);
    let c_new = Owned::make(|out| call!(rope_frequencies_new(&axes, 1e4, &c_yarn, out)));
    let c_old = Owned::new(64);
    let (deltas, from, to) = ([-100_i64, 0, 7], [5_i64, 6, 7000], [5_i64, 2, 6900]);
    let listed = |list: &[i64]| positions(rope_positions_kind::PerToken, list, rope_number::I64);
    let (c_deltas, c_from, c_to) = (listed(&deltas), listed(&from), listed(&to));
    let by = moved_by(c_new.0, &c_deltas);
    let moved = moved_from(c_new.0, c_old.0, &c_from, &c_to);
    let [mut expected, mut values, mut storage] = [[0.0_f32; 3 * 64]; 3];
    let (mut rows, out) = (zero::<rope_angles>(), values.as_mut_ptr());
    let moves = stretched.shift(&deltas).expect("valid");
    moves.rows_in(&mut expected).expect("room");
    ok!(rope_rows_fill(&by, out, 192, &mut rows));
    assert_eq!(
        (values, rows.moves, rows.attention_factor),
        (expected, 0, 1.0)
    );
    let moves = stretched.shift_from(&old, &from, &to).expect("valid");
    moves.rows_in(&mut expected).expect("room");

    // Keys take the quotient of the factors, of these rows and of those that undo them. Rows of positions would give
    // them the model's factor once more.
    let [mut back, mut at] = [[0.0_f32; 3 * 64]; 2];
    let [mut undone, mut of_positions] = [zero::<rope_angles>(); 2];
    let c_at = rope_angles_at(c_new.0, &c_from);
    ok!(
        rope_rows_fill(&moved, storage.as_mut_ptr(), 192, &mut rows),
        rope_rows_invert(&rows, back.as_mut_ptr(), 192, &mut undone),
        rope_rows_fill(&c_at, at.as_mut_ptr(), 192, &mut of_positions),
    );
    assert_eq!((rows.moves, undone.moves, of_positions.moves), (1, 1, 0));
    assert_eq!(storage, expected);
    let mut keys = [1.0_f32; 3 * 64];
    let cache = cache(&mut keys, rope_cache_format::F32, nhd([3, 1, 1, 64]));
    let slots = range(0, 3);
    let (keys_in, plan) = (in_slots(&cache, &slots), plan(rope_pairing::Half));
    ok!(rope_rotate(&plan, &keys_in, &rows));
    let square: f32 = keys[..64].iter().map(|x| x * x).sum();
    let expected = 64.0 * rows.attention_factor * rows.attention_factor;
    assert!(rows.attention_factor > 1.0 && (f64::from(square) / expected - 1.0).abs() < 1e-5);
    ok!(rope_rotate(&plan, &keys_in, &undone));
    assert!(keys.iter().all(|x| (x - 1.0).abs() < 1e-5));
    let (before, mut refusals) = (keys, Refusals::default());
    refused!(refusals, rope_rotate(&plan, &keys_in, &of_positions));
    assert_eq!(keys, before);
    of_positions.attention_factor = 1.0;
    ok!(rope_rotate(&plan, &keys_in, &of_positions));

    storage.fill(7.0);
    let (before, out) = (rows, storage.as_mut_ptr());
    let (other, per_token) = (Owned::new(32), rope_positions_kind::PerToken);
    let real = positions(per_token, &[0.5_f32; 3], rope_number::F32);
    let short = listed(&from[..2]);
    let inside = with!(c_to; values = out.cast_const().cast());
    let mut fill = |old, from, to, len| {
        let moved = moved_from(c_new.0, old, from, to);
        call!(rope_rows_fill(&moved, out, len, &mut rows))
    };
    refused!(
        refusals,
        fill(c_old.0, &c_from, &c_to, 191),
        fill(c_old.0, &short, &c_to, 192),
        fill(other.0, &c_from, &c_to, 192),
        fill(c_old.0, &real, &c_to, 192),
        fill(c_old.0, &c_from, &real, 192),
        fill(c_old.0, &c_from, &inside, 192),
        fill(c_old.0, &inside, &c_to, 192),
        rope_rows_fill(&by, out, 100, &mut rows),
    );
    assert_eq!((rows.cos, rows.len), (before.cos, before.len));
    assert!(storage.iter().all(|&x| x == 7.0));
    compare!(refusals, "shifts");
}

/// Sizes, numbers and lists that frequencies and rows refuse.
#[test]
fn refusals() {
    let (axes, made, mut refusals) = (rope_axes_text(64), Owned::new(64), Refusals::default());
    let (mut memory, mut out) = ([0_u8; 4096 + 64], null_mut());
    let place = aligned(&mut memory);
    let mut init = |size, axes: &rope_axes, base| {
        let (scaling, out) = (null(), &mut out);
        call!(rope_frequencies_init(place, size, axes, base, scaling, out))
    };
    refused!(
        refusals,
        init(500, &axes, 1e4),
        init(0, &axes, 1e4),
        init(usize::MAX, &axes, 1e4),
        init(4096, &axes, f64::NAN),
        init(4096, &rope_axes_text(63), 1e4),
        init(4096, &rope_axes_text(ROPE_ROTARY_DIM_MAX), 1e4),
        init(4096, &rope_axes_text(ROPE_ROTARY_DIM_MAX + 2), 1e4),
        init(4096, &rope_axes_text(usize::MAX - 1), 1e4),
        init(4096, &rope_axes { kind: 0, ..axes }, 1e4),
    );
    use rope_axes_kind::{Given, Mrope, MropeAlternating, MropeInterleaved, MropeSpread};
    let of = |kind: rope_axes_kind, count| {
        let axes = with!(rope_axes_text(128); sections = [20, 20, 20, 0], given = place.cast());
        with!(axes; kind = kind as i32, count = count)
    };
    refused!(refusals, init(4096, &of(Mrope, 5), 1e4));
    for kind in [Mrope, MropeInterleaved, MropeAlternating, MropeSpread] {
        refused!(refusals, init(4096, &of(kind, 3), 1e4));
    }
    // The list of axes is in the memory of the frequencies.
    refused!(refusals, init(4096, &of(Given, 32), 1e4));
    let unknown = next(rope_scaling_kind::ALL, |kind| kind as i32);
    let (scaling, inverse) = (with!(zero::<rope_scaling>(); kind = unknown), [1e6_f64; 32]);
    let new = |count, number: rope_number| {
        let (axes, inverse, out) = (&axes, inverse.as_ptr().cast(), &mut null_mut());
        call!(rope_frequencies_new_inverse(
            axes,
            inverse,
            count,
            number as i32,
            1.0,
            out
        ))
    };
    refused!(
        refusals,
        rope_frequencies_new(&axes, 1e4, &scaling, &mut out),
        new(32, rope_number::F64),
        new(31, rope_number::F64),
        new(32, rope_number::I32),
    );
    assert!(out.is_null());
    let mut list = [7.0; 32];
    let list_at = list.as_mut_ptr();
    refused!(
        refusals,
        rope_frequencies_inverse(made.0, list_at, usize::MAX),
        rope_frequencies_inverse(made.0, list_at, 31),
    );

    let (mut storage, mut rows) = ([7.0_f32; 128], zero::<rope_angles>());
    let out = storage.as_mut_ptr();
    let mut fill = |positions: rope_positions| {
        let angles = rope_angles_at(made.0, &positions);
        call!(rope_rows_fill(&angles, out, 128, &mut rows))
    };
    use rope_positions_kind::{Packed, PerToken};
    let inside = rope_positions_per_token(out.cast(), 2, rope_number::I32 as i32);
    let falls = [0, 3, 2];
    let packed = positions(Packed, &falls, rope_number::I32);
    // The type is refused before the numbers are read.
    let real = with!(packed; number = rope_number::F64 as i32);
    refused!(
        refusals,
        fill(rope_positions_range(0, 3)),
        fill(rope_positions_range(i64::MAX, 2)),
        fill(inside),
        fill(positions(PerToken, &[f32::NAN; 2], rope_number::F32)),
        fill(packed),
        fill(real),
    );
    // The description of the rows lies in the positions, or in other rows.
    let mut words = [0_u64; 64];
    let inside: *mut rope_angles = words.as_mut_ptr().cast();
    let listed = rope_positions_per_token(inside.cast(), 2, rope_number::I64 as i32);
    let zeros = rope_rows_joined(inside.cast(), 128, 64);
    refused!(
        refusals,
        rope_rows_fill(&rope_angles_at(made.0, &listed), out, 128, inside),
        rope_rows_invert(&zeros, out, 128, inside),
    );
    assert!(rows.cos.is_null() && storage == [7.0; 128] && list == [7.0; 32]);
    assert_eq!(words, [0; 64]);
    let huge = rope_positions_range(0, usize::MAX / 4);
    // 2^60 bytes.
    #[cfg(target_pointer_width = "64")]
    let large = rope_positions_range(0, 1 << 52);
    refused!(
        refusals,
        rope_rows_len(&rope_angles_at(made.0, &huge), &mut 0)
    );
    #[cfg(target_pointer_width = "64")]
    refused!(
        refusals,
        rope_table_new(&rope_angles_at(made.0, &large), &mut null_mut())
    );
    compare!(refusals, "frequencies");
}
