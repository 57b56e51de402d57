//! Frequencies: scalings, axes, lists and handles; and their rows at positions of every kind.

use rope_core::LongRope;
use rope_core::dual_chunk::{DualChunk, DualChunkQuery};
use rope_core::shard::{Shard, ShardKind};

use super::*;

/// Compares frequencies with those of rope-core: their list and their description.
#[track_caller]
fn same(made: *const rope_frequencies, expected: &Frequencies<'_>) {
    let inverse: Vec<f64> = expected.iter().map(|pair| pair.inverse).collect();
    let (mut got, mut info) = (vec![0.0; inverse.len()], zero::<rope_frequencies_info>());
    ok!(
        rope_frequencies_inverse(made, got.as_mut_ptr(), got.len()),
        rope_frequencies_describe(made, &mut info),
    );
    assert_eq!(got, inverse);
    let (axes, rotary_dim) = (expected.axes(), expected.rotary_dim());
    assert_eq!(
        (info.rotary_dim, info.axes, info.heads),
        (rotary_dim, axes, 1)
    );
    let factors = (expected.attention_factor(), expected.softmax_factor());
    assert_eq!((info.attention_factor, info.softmax_factor), factors);
}

/// Compares frequencies on the heap, and in memory of the least size that is aligned to nothing.
#[track_caller]
fn same_everywhere(
    expected: &Frequencies<'_>,
    init: impl FnOnce(*mut c_void, usize, *mut *mut rope_frequencies) -> rope_status,
    new: impl FnOnce(&mut *mut rope_frequencies) -> rope_status,
    and: impl Fn(*const rope_frequencies),
) {
    let size = frequencies_bytes(expected.rotary_dim());
    let (mut memory, mut placed) = (vec![0x55_u8; size + 1], null_mut());
    let place = memory.as_mut_ptr().wrapping_add(1);
    let status = init(place.cast(), size, &mut placed);
    assert_eq!(status, rope_status::Ok, "{}", detail());
    let owned = Owned::make(new);
    for made in [placed, owned.0] {
        same(made, expected);
        and(made);
    }
    let refused = call!(rope_frequencies_free(placed));
    assert_eq!(refused, rope_status::Handle);
}

/// Each kind reads the fields that it names and no others: every field has a value of its own. The match is over all
/// kinds, so that a new one does not compile until it stands here.
#[test]
fn every_scaling_matches_rope_core() {
    let list = |first: f64| -> Vec<f64> { (0..32).map(|i| first + f64::from(i)).collect() };
    let (short, long) = (list(1.0), list(40.0));
    let alphas: Vec<f64> = (0..32).map(|i| f64::from(i) / -8.0).collect();
    let singles: Vec<f32> = (0..32).map(|i| 2.0 + i as f32).collect();
    let c = with!(
        zero::<rope_scaling>();
        untruncated = 1, factor = 8.0, original_context = 4096, max_position_embeddings = 2048, length = 9000,
        low_freq_factor = 1.25, high_freq_factor = 4.5, beta_fast = 31.0, beta_slow = 1.5, attention_factor = 1.75,
        mscale = 0.75, mscale_all_dim = 0.875, alpha = 1000.0, mixed_b = 0.625, ntk_factor = 0.9375,
        extrapolation_factor = 0.8125, partial_rotary_factor = 0.5, min_period = 0.25, max_period = 64.0,
        short_factor = short.as_ptr(), long_factor = long.as_ptr(), alphas = alphas.as_ptr(),
        freq_factors = singles.as_ptr(), count = 32
    );
    for &kind in rope_scaling_kind::ALL {
        macro_rules! scaling {
            ($($kind:ident $({ $($field:ident),+ })?)+; $($rest:ident => $scaling:expr),+) => {
                match kind {
                    $(rope_scaling_kind::$kind => Scaling::$kind $({ $($field: c.$field),+ })?,)+
                    $(rope_scaling_kind::$rest => $scaling,)+
                }
            };
        }
        let scaling = scaling!(
            Default
            Linear { factor }
            DynamicNtk { factor, max_position_embeddings, length }
            NtkAlpha { alpha }
            NtkFixed { factor }
            NtkMixed { factor, mixed_b }
            NtkByParts { factor, original_context, ntk_factor, extrapolation_factor }
            Llama3 { factor, low_freq_factor, high_freq_factor, original_context }
            Proportional { partial_rotary_factor, factor }
            Turns
            Periods { min_period, max_period };
            FreqFactors => Scaling::FreqFactors { factors: &singles },
            Learned => Scaling::Learned { alphas: &alphas },
            Yarn => Scaling::Yarn(Yarn {
                beta_fast: c.beta_fast, beta_slow: c.beta_slow, truncate: false, mscale: c.mscale,
                attention_factor: Some(c.attention_factor), mscale_all_dim: c.mscale_all_dim,
                ..Yarn::new(c.factor, c.original_context)
            }),
            LongRope => Scaling::LongRope(LongRope {
                short_factor: &short, long_factor: &long, original_context: c.original_context, length: c.length,
                factor: c.factor, attention_factor: Some(c.attention_factor),
            })
        );
        let c = with!(c; kind = kind as i32);
        let expected = Frequencies::new(64, 100.0, &scaling).expect("valid");
        let axes = rope_axes_text(64);
        same_everywhere(
            &expected,
            |at, size, out| call!(rope_frequencies_init(at, size, &axes, 100.0, &c, out)),
            |out| call!(rope_frequencies_new(&axes, 100.0, &c, out)),
            |_| (),
        );
    }
}

/// Each kind deals the pairs out as rope-core does, and reads the fields that it names and no others: every field has a
/// value of its own, and a token another position on each axis, so that a pair on another axis has another angle. The
/// match is over all kinds, so that a new one does not compile until it stands here.
#[test]
fn every_kind_of_axes_matches_rope_core() {
    let given = [3, 0, 1, 2_u8];
    let position = [3_i64, 1000, 70_000, -11];
    let kinds = rope_axes_kind::ALL.iter();
    for (&kind, count) in kinds.flat_map(|kind| (1..=4).map(move |count| (kind, count))) {
        use rope_axes_kind as Kind;
        let [a, b, c, d] = match kind {
            // As many of height as of width.
            Kind::MropeAlternating => [10, 10, 12, 8],
            _ => [12, 10, 9, 8],
        };
        let rotary_dim = match kind {
            Kind::Mrope => 2 * [a, b, c, d][..count].iter().sum::<usize>(),
            Kind::MropeInterleaved | Kind::MropeAlternating | Kind::MropeSpread => 2 * (a + b + c),
            _ => 100,
        };
        macro_rules! counted {
            ($axes:path $(, $first:expr)?) => {
                match count {
                    1 => $axes($($first,)? [a]),
                    2 => $axes($($first,)? [a, b]),
                    3 => $axes($($first,)? [a, b, c]),
                    _ => $axes($($first,)? [a, b, c, d]),
                }
            };
        }
        let axes = match kind {
            Kind::Text => Axes::from(rotary_dim),
            Kind::Mrope => counted!(Axes::mrope, rotary_dim),
            Kind::MropeInterleaved => Axes::mrope_interleaved(rotary_dim, [a, b, c]),
            Kind::MropeAlternating => Axes::mrope_alternating(rotary_dim, [a, b, c]),
            Kind::MropeSpread => Axes::mrope_spread(rotary_dim, [a, b, c]),
            Kind::GgmlMrope => Axes::ggml_mrope(rotary_dim, [a, b, c, d]),
            Kind::GgmlImrope => Axes::ggml_imrope(rotary_dim, [a, b, c, d]),
            Kind::PerAxis => counted!(Axes::per_axis),
            Kind::Vision => Axes::vision(rotary_dim),
            Kind::Pixtral => Axes::pixtral(rotary_dim),
            Kind::Wan => Axes::wan(rotary_dim),
            Kind::Given => Axes::given(&given[..count]),
        };
        let expected = Frequencies::new(axes, 100.0, &Scaling::Default).expect("valid");
        let position = &position[..expected.axes()];
        let angles = expected
            .at(Positions::token_major(position))
            .expect("valid");
        let axes = with!(
            rope_axes_text(rotary_dim);
            kind = kind as i32, sections = [a, b, c, d], count = count, given = given.as_ptr()
        );
        let listed = positions(rope_positions_kind::TokenMajor, position, rope_number::I64);
        same_everywhere(
            &expected,
            |at, size, out| call!(rope_frequencies_init(at, size, &axes, 100.0, null(), out)),
            |out| call!(rope_frequencies_new(&axes, 100.0, null(), out)),
            |made| drop(same_rows(&rope_angles_at(made, &listed), &angles)),
        );
    }
}

/// Inverse frequencies of both types.
#[test]
fn inverse_frequencies_match_rope_core() {
    fn one<T: Copy + Into<f64>>(inverse: [T; 4], number: rope_number) {
        let expected = Frequencies::from_inverse(8, &inverse, 1.25).expect("valid");
        let (axes, list, of) = (rope_axes_text(8), inverse.as_ptr().cast(), number as i32);
        same_everywhere(
            &expected,
            |at, size, out| {
                let (axes, count) = (&axes, 4);
                call!(rope_frequencies_init_inverse(
                    at, size, axes, list, count, of, 1.25, out
                ))
            },
            |out| call!(rope_frequencies_new_inverse(&axes, list, 4, of, 1.25, out)),
            |_| (),
        );
    }
    let doubles = [1.0, 0.3, 0.1, 1e-3];
    one::<f64>(doubles, rope_number::F64);
    one(doubles.map(|inverse| inverse as f32), rope_number::F32);
}

/// Positions of all kinds and types.
#[test]
fn positions_match_rope_core() {
    let axes = Axes::mrope(12, [2, 3, 1]);
    let frequencies = Frequencies::new(axes, 100.0, &Scaling::Default).expect("valid");
    let axes = with!(
        rope_axes_text(12);
        kind = rope_axes_kind::Mrope as i32, sections = [2, 3, 1, 0], count = 3
    );
    let made = Owned::make(|out| call!(rope_frequencies_new(&axes, 100.0, null(), out)));
    let ints = [5, -3, 7, 1000, 2, 9];
    let longs = [1_i64 << 40, 3, -9, 0, 0, 1];
    let words = [0, 1, 2, u32::MAX, 4, 5];
    let long_words = [0, 1, u64::MAX, 1 << 40, 4, 5];
    let singles = [0.5_f32, 0.25, -1.0, 3.5, 2.0, 1e-3];
    let doubles = [0.5, 0.25, -1.0, 3.5, 2.0, 1e-3];
    let (offsets, starts) = ([0, 2, 2, 5], [100, 0, -4]);
    use rope_number::{F32, F64, I32, I64, U32, U64};
    use rope_positions_kind::{AxisMajor, Packed, PerToken, TokenMajor};
    let packed = positions(Packed, &offsets, I32);
    let started = with!(packed; starts = starts.as_ptr().cast());
    let packed_from = Positions::packed_from(&offsets, &starts).expect("valid");
    for (c, expected) in rows!(
        rope_positions_range(-2, 4), Positions::from(-2_i64..2);
        rope_positions_range(i64::MAX, 0), Positions::from(0..0);
        positions(PerToken, &ints, I32), Positions::from(&ints);
        positions(PerToken, &words, U32), Positions::from(&words);
        positions(PerToken, &long_words, U64), Positions::from(&long_words);
        positions(AxisMajor, &ints, I32), Positions::axis_major(&ints);
        positions(TokenMajor, &longs, I64), Positions::token_major(&longs);
        positions(PerToken, &singles, F32), Positions::real(&singles);
        positions(AxisMajor, &doubles, F64), Positions::real_axis_major(&doubles);
        positions(TokenMajor, &singles, F32), Positions::real_token_major(&singles);
        packed, Positions::packed(&offsets).expect("valid");
        started, packed_from;
    ) {
        let angles = frequencies.at(expected).expect("valid");
        let values = same_rows(&rope_angles_at(made.0, &c), &angles);
        let (rows, mut got) = (joined(&values, 12), vec![0.0; values.len()]);
        let sinusoidal: Vec<f32> = (values.chunks(12))
            .flat_map(|row| (0..6).flat_map(|pair| [row[6 + pair], row[pair]]))
            .collect();
        ok!(rope_sinusoidal(&rows, got.as_mut_ptr(), got.len()));
        assert_eq!(got, sinusoidal);
    }
}

/// The tokens of ranks, and rows of their positions.
#[test]
fn shards_match_rope_core() {
    let offsets = [0, 12, 12, 36];
    let frequencies = Frequencies::new(8, 10_000.0, &Scaling::Default).expect("valid");
    let made = Owned::new(8);
    use rope_positions_kind as Kind;
    for (c_kind, kind) in [
        (Kind::ContiguousShard, ShardKind::Contiguous),
        (Kind::ZigzagShard, ShardKind::Zigzag),
        (Kind::UnevenZigzagShard, ShardKind::UnevenZigzag),
        (Kind::StripedShard, ShardKind::Striped),
    ] {
        for (rank, tokens) in [(0, 36), (1, 36), (2, 36), (0, 37), (2, 37)] {
            let shard = Shard::new(kind, rank, 3).expect("a rank");
            let one = rope_positions_shard(c_kind as i32, tokens, rank, 3);
            let packed = positions(c_kind, &offsets, rope_number::I32);
            let packed = with!(packed; rank = rank, ranks = 3);
            let expected = [shard.tokens(tokens).ok(), shard.packed(&offsets).ok()];
            for (c, expected) in [one, packed].into_iter().zip(expected) {
                let (mut got, mut count) = ([usize::MAX; 40], 0);
                let status = call!(rope_shard_tokens(&c, got.as_mut_ptr(), 40, &mut count));
                let Some(expected) = expected else {
                    assert_eq!((status, count), (rope_status::ShardTokens, 0));
                    continue;
                };
                assert_eq!((status, count), (rope_status::Ok, expected.len()));
                assert!(got[..count].iter().copied().eq(expected.iter()));
                assert_eq!(got[count], usize::MAX);
                let angles = frequencies.at(expected).expect("valid");
                same_rows(&rope_angles_at(made.0, &c), &angles);
            }
        }
    }
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

/// The ids of Dual Chunk Attention for a range and for a list.
#[test]
fn dual_chunks_match_rope_core() {
    let frequencies = Frequencies::new(8, 10_000.0, &Scaling::Default).expect("valid");
    let (made, mut refusals) = (Owned::new(8), Refusals::default());
    let chunks = DualChunk::new(16, 4).expect("sizes");
    let list = [5, -1, 90, 12];
    let listed = positions(rope_positions_kind::PerToken, &list, rope_number::I32);
    for (&c_query, query) in rope_dual_chunk_query::ALL.iter().zip(DualChunkQuery::ALL) {
        let (chunk_size, local_size) = (16, 4);
        let right = rope_dual_chunk {
            query: c_query as i32,
            chunk_size,
            local_size,
        };
        for (positions, of_core) in [
            (rope_positions_range(-3, 40), Positions::from(-3..37)),
            (listed, Positions::from(&list)),
        ] {
            let at = with!(positions; dual_chunk = right);
            let ids = chunks.positions(query, of_core).expect("one axis");
            let angles = frequencies.at(ids).expect("valid");
            same_rows(&rope_angles_at(made.0, &at), &angles);
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
    same_rows(&by, &stretched.shift(&deltas).expect("valid"));
    let moved = moved_from(c_new.0, c_old.0, &c_from, &c_to);
    let expected = stretched.shift_from(&old, &from, &to).expect("valid");
    same_rows(&moved, &expected);

    // Keys take the quotient of the factors, of these rows and of those that undo them. Rows of positions would give
    // them the model's factor once more.
    let [mut storage, mut back, mut at] = [[0.0_f32; 3 * 64]; 3];
    let [mut rows, mut undone, mut of_positions] = [zero::<rope_angles>(); 3];
    let c_at = rope_angles_at(c_new.0, &c_from);
    ok!(
        rope_rows_fill(&moved, storage.as_mut_ptr(), 192, &mut rows),
        rope_rows_invert(&rows, back.as_mut_ptr(), 192, &mut undone),
        rope_rows_fill(&c_at, at.as_mut_ptr(), 192, &mut of_positions),
    );
    assert_eq!((rows.moves, undone.moves, of_positions.moves), (1, 1, 0));
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
