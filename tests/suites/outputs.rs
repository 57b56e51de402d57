//! Several outputs of one read: any targets, parts in caches, and Dual Chunk Attention with golden bits.

use half::{bf16, f16};
use rope_core::cache::{CacheFormat, CacheLayout, CacheMut, QuantFormat, QuantScale};
use rope_core::dual_chunk::{DualChunk, DualChunkQuery};
use rope_core::error::{PositionsError, RowsError, ShapeError, SlotsError};
use rope_core::norm::{Norm, NormFormula, NormReach};
use rope_core::shard::{Shard, ShardKind};
use rope_core::stages::{Normed, Scale};
use rope_core::{
    Backend, Dimension, Error, Frequencies, Layout, Output, Pairing, Positions, Rope, Rows,
    Scaling, Strides, Tensor, TensorMut,
};
use rope_tests::golden::{Bits, Golden, lines};
use rope_tests::{Number, Source, bodies, each_element, seed};

#[test]
fn any_targets() {
    let mut source = Source::random("outputs::any_targets");
    for _ in 0..seed::times(600) {
        bodies::outputs(&mut source);
    }
}

#[test]
fn any_ids_of_dual_chunk_attention() {
    let mut source = Source::random("outputs::any_ids_of_dual_chunk_attention");
    for _ in 0..2000 {
        bodies::dual_chunk(&mut source);
    }
}

/// Tensors of several parts, in every memory order, into tensors and caches: the bytes of one call for each part.
#[test]
fn parts_are_the_whole() {
    let mut source = Source::random("outputs::parts_are_the_whole");
    let (heads, head_dim) = (40, 128);
    let frequencies = Frequencies::new(96, 10_000.0, &Scaling::Default).expect("a base");
    let layouts = |[batch, tokens]: [usize; 2]| {
        [
            Layout::bshd([batch, tokens, heads, head_dim]).expect("valid"),
            Layout::bhsd([batch, heads, tokens, head_dim]).expect("valid"),
            Layout::sbhd([tokens, batch, heads, head_dim]).expect("valid"),
        ]
    };
    for [batch, tokens] in [[1, 77], [2, 33], [50, 1]] {
        let count = batch * tokens;
        let len = count * heads * head_dim;
        let x: Vec<f32> = (0..len).map(|_| source.unit()).collect();
        let shared = frequencies.rows(5..5 + tokens).expect("positions");
        let own = frequencies.rows(100..100 + count).expect("positions");
        let sums: Vec<f32> = (0..count).map(|_| 1.0 + source.unit().abs()).collect();
        let factors: Vec<f32> = (0..count * heads).map(|_| source.unit()).collect();
        let norm = Norm::new(NormFormula::LLAMA, 1e-5).with_reach(NormReach::Token);
        let weight = vec![1.5_f32; head_dim];
        let norm = norm
            .with_weight(&weight)
            .with_sum_of_squares(&sums, heads * head_dim);
        let plain = Rope::<Normed<'_>>::from(Rope::new(Pairing::Half));
        let staged = plain
            .with_norm(norm)
            .with_scale(Scale::per_token_and_head(&factors));
        let layout = CacheLayout::nhd([5, 16, heads, head_dim]).expect("valid");
        let slots: Vec<i64> = (0..count)
            .map(|token| (token * 7 % 80) as i64 - 1)
            .collect();
        for (from, to) in layouts([batch, tokens])
            .into_iter()
            .zip(layouts([batch, tokens]).into_iter().rev())
        {
            for plan in [plain, staged] {
                let source = Tensor::new(&x, from).expect("valid");
                let scale = QuantScale::Multiply(8.0.into());
                let (mut y, mut z) = (vec![0.0_f32; len], vec![half::bf16::ZERO; len]);
                let (mut codes, mut f16) = (
                    vec![0_u8; layout.end()],
                    vec![half::f16::ZERO; layout.end()],
                );
                plan.rotate_into_each(
                    &source,
                    &mut [
                        Output::new(&mut TensorMut::new(&mut y, to).expect("valid"), &own),
                        Output::new(&mut TensorMut::new(&mut z, from).expect("valid"), &shared),
                        Output::new(
                            &mut CacheMut::coded(
                                &mut codes,
                                layout,
                                CacheFormat::quantized(QuantFormat::E4m3, scale),
                            )
                            .expect("valid")
                            .slots(&slots),
                            &shared,
                        ),
                        Output::new(
                            &mut CacheMut::new(&mut f16, layout)
                                .expect("valid")
                                .slots(&slots),
                            &own,
                        ),
                    ],
                )
                .expect("targets that fit");

                let (mut each_y, mut each_z) = (vec![0.0_f32; len], vec![half::bf16::ZERO; len]);
                let (mut each_codes, mut each_f16) = (
                    vec![0_u8; layout.end()],
                    vec![half::f16::ZERO; layout.end()],
                );
                let mut target = TensorMut::new(&mut each_y, to).expect("valid");
                plan.rotate_into(&source, &mut target, &own)
                    .expect("it fits");
                let mut target = TensorMut::new(&mut each_z, from).expect("valid");
                plan.rotate_into(&source, &mut target, &shared)
                    .expect("it fits");
                let mut cache = CacheMut::coded(
                    &mut each_codes,
                    layout,
                    CacheFormat::quantized(QuantFormat::E4m3, scale),
                )
                .expect("valid");
                plan.rotate_into(&source, &mut cache.slots(&slots), &shared)
                    .expect("it fits");
                let mut cache = CacheMut::new(&mut each_f16, layout).expect("valid");
                plan.rotate_into(&source, &mut cache.slots(&slots), &own)
                    .expect("it fits");
                assert!(y == each_y && z == each_z, "tensors of {batch} x {tokens}");
                assert!(
                    codes == each_codes && f16 == each_f16,
                    "caches of {batch} x {tokens}"
                );
            }
        }
    }
}

/// Groups of heads in large tensors, which bypass the caches: the bits of a call for each group, and nothing else is
/// written; with any alignment, with and without gaps between heads, and with shared and separate rows of sequences.
#[test]
fn large_tensors() {
    fn groups<I: Number, O: Number>() {
        let mut source = Source::random("outputs::large_tensors");
        let [batch, tokens, heads, groups] = [2, 3, 9, 3];
        let zero = O::from_f32(0.0);
        let mut memory = vec![zero; (64 << 20) / size_of::<O>()];
        for [head_dim, rotary_dim] in [[32, 24], [128, 128], [76, 76], [1000, 8]] {
            let frequencies = Frequencies::new(rotary_dim, 1e4, &Scaling::Default).expect("a base");
            let len = batch * tokens * heads * head_dim;
            let x: Vec<I> = (0..len).map(|_| I::from_f32(source.unit())).collect();
            let x = Tensor::new(&x, [batch, tokens, heads, head_dim]).expect("valid");
            let count = batch * tokens;
            let rows: Vec<_> = [0..tokens, 7..7 + count, 99..99 + count]
                .map(|positions| frequencies.rows(positions).expect("positions"))
                .into();
            for [before, room] in [[0, 0], [5, 0], [64, 40], [3, 1]] {
                let head = head_dim + room;
                let token = groups * heads * head + room;
                let strides = Strides {
                    batch: tokens * token + room,
                    token,
                    head,
                };
                let shape = [batch, tokens, groups * heads, head_dim];
                let layout = Layout::strided(shape, strides).expect("a small layout");
                for backend in Backend::available() {
                    for pairing in Pairing::ALL {
                        let rope = Rope::new(pairing).with_backend(backend).expect("here");
                        let mut target = TensorMut::new(&mut memory[before..], layout);
                        let target = target.as_mut().expect("valid");
                        rope.rotate_into_each(&x, &mut [Output::head_groups(target, &rows)])
                            .expect("targets that fit");

                        let mut each = vec![zero; before + layout.end() + 100];
                        for (group, rows) in rows.iter().enumerate() {
                            let own =
                                layout.narrow(Dimension::Heads, group * heads..(group + 1) * heads);
                            let target = TensorMut::new(&mut each[before..], own.expect("heads"));
                            rope.rotate_into(&x, &mut target.expect("valid"), rows)
                                .expect("it fits");
                        }
                        let written = &mut memory[..each.len()];
                        let doing = format!("{backend} {pairing} {head_dim} {before} {room}");
                        same(written, &each, &doing);
                        written.fill(zero);
                    }
                }
            }
        }
    }
    groups::<f32, f32>();
    groups::<f16, f16>();
    groups::<bf16, bf16>();
    groups::<f32, bf16>();
}

#[test]
fn refusals() {
    let rope = Rope::new(Pairing::Half);
    let (x, values) = ([1.0_f32; 4 * 2 * 4], [[1.0_f32, 1.0, 0.0, 0.0]; 4]);
    let rows = Rows::new(values.as_flattened(), [4, 4]).expect("rows");
    let few = rows.narrow(0..3).expect("rows");
    let tensor = Tensor::new(&x, [1, 4, 2, 4]).expect("valid");
    let (mut y, mut z, mut memory) = ([7.0_f32; 32], [7.0_f32; 64], [7.0_f32; 32]);
    let layout = CacheLayout::nhd([1, 4, 2, 4]).expect("valid");
    let mut check = |rows_of_z: &[Rows<'_>], slots: &[i64], last: &Rows<'_>, error| {
        let result = rope.rotate_into_each(
            &tensor,
            &mut [
                Output::new(
                    &mut TensorMut::new(&mut y, [1, 4, 2, 4]).expect("valid"),
                    &rows,
                ),
                Output::head_groups(
                    &mut TensorMut::new(&mut z, [1, 4, 4, 4]).expect("valid"),
                    rows_of_z,
                ),
                Output::new(
                    &mut CacheMut::new(&mut memory, layout)
                        .expect("valid")
                        .slots(slots),
                    last,
                ),
            ],
        );
        assert_eq!(result, Err(error));
        assert!(
            y.iter().chain(&z).chain(&memory).all(|&x| x == 7.0),
            "{error:?}"
        );
    };
    let pair = [rows.clone(), rows.clone()];
    let mismatch = |source| {
        Error::Shape(ShapeError::Mismatch {
            dimension: rope_core::Dimension::Heads,
            source,
            target: 4,
        })
    };
    check(&pair[..1], &[0, 1, 2, 3], &rows, mismatch(2));
    check(&[], &[0, 1, 2, 3], &rows, mismatch(0));
    let few_rows = Error::Rows(RowsError::Count {
        rows: 3,
        tokens: 4,
        batch: 1,
    });
    check(&[rows.clone(), few.clone()], &[0, 1, 2, 3], &rows, few_rows);
    check(&pair, &[0, 1, 2, 3], &few, few_rows);
    let slot = Error::Slots(SlotsError::Slot {
        index: 3,
        slot: 4,
        slots: 4,
    });
    check(&pair, &[0, 1, 2, 4], &rows, slot);
    // No targets, and an empty source.
    assert_eq!(rope.rotate_into_each(&tensor, &mut []), Ok(()));
    let empty = Tensor::new(&x[..0], [0, 4, 2, 4]).expect("valid");
    let mut target = TensorMut::new(&mut y[..0], [0, 4, 2, 4]).expect("valid");
    let outputs = &mut [Output::new(&mut target, &rows)];
    assert_eq!(rope.rotate_into_each(&empty, outputs), Ok(()));
}

/// A source with coinciding elements may have any number of sequences: a call without an output does nothing.
#[test]
fn nothing_is_written_at_once() {
    let strides = Strides {
        batch: 0,
        token: 0,
        head: 0,
    };
    let (x, batch) = ([1.0_f32, 2.0], usize::MAX / 4);
    let layout = |heads| Layout::strided([batch, 1, heads, 2], strides).expect("it can be read");
    let x = Tensor::new(&x, layout(1)).expect("valid");
    let rope = Rope::new(Pairing::Half);
    assert_eq!(rope.rotate_into_each(&x, &mut []), Ok(()));
    let mut y = TensorMut::<f32>::new(&mut [], layout(0)).expect("empty");
    let groups = Output::head_groups(&mut y, &[]);
    assert_eq!(rope.rotate_into_each(&x, &mut [groups]), Ok(()));
}

/// A row that all tokens share gives the bits of a list that repeats its id.
#[test]
fn repeated_rows() {
    let frequencies = Frequencies::new(16, 100.0, &Scaling::Default).expect("a base");
    let table = frequencies.rows(0..12).expect("positions");
    let ids = [3_i64, 9, 11];
    let of_heads = table.clone().with_heads(3).expect("four tokens");
    let mut source = Source::random("outputs::repeated_rows");
    let x: Vec<f32> = (0..5 * 3 * 24).map(|_| source.unit()).collect();
    let tensor = Tensor::new(&x, [1, 5, 3, 24]).expect("valid");
    let turned = |rows: &Rows<'_>| {
        let mut y = vec![0.0_f32; x.len()];
        let mut target = TensorMut::new(&mut y, [1, 5, 3, 24]).expect("valid");
        Rope::new(Pairing::Interleaved)
            .with_direction(rope_core::Direction::Inverse)
            .rotate_into(&tensor, &mut target, rows)
            .expect("rows that fit");
        y
    };
    let gathered = table.gather(&ids).expect("ids");
    for (rows, index, table, id) in [
        (&table, 7, &table, 7_u32),
        (&gathered, 1, &table, 9),
        (&of_heads, 2, &of_heads, 2),
    ] {
        let repeated = rows.repeated(index, 5).expect("a row");
        assert_eq!((repeated.len(), repeated.heads()), (5, rows.heads()));
        assert_eq!(repeated.row(4, 2), rows.row(index, 2));
        let list = [id; 5];
        assert_eq!(
            turned(&repeated),
            turned(&table.gather(&list).expect("ids"))
        );
    }
    let outside = Error::Rows(RowsError::Range {
        start: 12,
        end: 13,
        rows: 12,
    });
    assert_eq!(table.repeated(12, 1).map(drop), Err(outside));
    assert!(table.repeated(usize::MAX, 1).is_err());
    assert_eq!(table.repeated(0, 0).map(|rows| rows.len()), Ok(0));
}

#[test]
fn ids_of_dual_chunk_attention() {
    let mut count = 0;
    for line in lines("dca/ids.txt") {
        let numbers: Vec<i64> = line[1..]
            .iter()
            .map(|word| word.parse().expect("a number"))
            .collect();
        let &[chunk, local, position, ref ids @ ..] = &numbers[..] else {
            panic!("{line:?}")
        };
        let chunks = DualChunk::new(chunk as usize, local as usize).expect("sizes");
        let ours = DualChunkQuery::ALL.map(|query| chunks.id(query, position));
        assert_eq!(ours, ids[..5], "{line:?}");
        assert_eq!(ours[0], ids[5], "the key of {line:?}");
        count += 1;
    }
    assert!(count > 30, "{count} lines");
    let refused = |chunk, local| DualChunk::new(chunk, local).map(drop);
    let error = |name, value, required| Error::Parameter {
        name,
        value,
        required,
    };
    let sizes = error("chunk_size", 0.0, "1 to 2^32 - 1");
    assert_eq!(refused(0, 0), Err(sizes));
    let local = error("local_size", 8.0, "below chunk_size");
    assert_eq!(refused(8, 8), Err(local));
    assert!(refused(8, usize::MAX).is_err());
    // Only where a usize can exceed the limit.
    if let Ok(beyond) = usize::try_from(1_u64 << 32) {
        assert!(refused(beyond, 0).is_err());
    }
    assert!(refused(u32::MAX as usize, 0).is_ok());
}

/// Positions of Dual Chunk Attention without a list equal the list of ids, wherever rows are made from them.
#[test]
fn positions_of_dual_chunk_attention() {
    let frequencies = Frequencies::new(64, 1e7, &Scaling::Default).expect("a base");
    let chunks = DualChunk::new(48, 16).expect("sizes");
    let listed = [-40_i64, -1, 0, 31, 32, 47, 48, 1 << 40, i64::MIN, i64::MAX];
    let offsets = [0_u32, 40, 40, 90];
    let shard = Shard::new(ShardKind::Zigzag, 1, 2).expect("a rank");
    let cases: [(Positions<'_>, Vec<i64>); 5] = [
        ((-50..200).into(), (-50..200).collect()),
        (
            (i64::MAX - 40..i64::MAX).into(),
            (i64::MAX - 40..i64::MAX).collect(),
        ),
        ((&listed).into(), listed.to_vec()),
        (
            Positions::packed(&offsets).expect("offsets"),
            (0..40).chain(0..50).collect(),
        ),
        (
            shard.tokens(160).expect("a multiple").into(),
            (40..120).collect(),
        ),
    ];
    for (positions, each) in cases {
        for query in DualChunkQuery::ALL {
            let ids: Vec<i64> = each
                .iter()
                .map(|&position| chunks.id(query, position))
                .collect();
            let given = chunks.positions(query, positions).expect("one axis");
            let (rows, expected) = (frequencies.rows(given), frequencies.rows(&ids));
            let (rows, expected) = (rows.expect("rows"), expected.expect("rows"));
            assert_eq!(rows.len(), ids.len());
            for index in 0..ids.len() {
                assert_eq!(
                    rows.row(index, 0),
                    expected.row(index, 0),
                    "{query:?}, {index}"
                );
            }
            let [mut x, mut y] = [vec![1.0_f32; ids.len() * 64], vec![1.0_f32; ids.len() * 64]];
            let shape = [1, ids.len(), 1, 64];
            let rope = Rope::new(Pairing::Half);
            let mut tensor = TensorMut::new(&mut x, shape).expect("valid");
            rope.rotate(&mut tensor, &frequencies.at(given).expect("positions"))
                .expect("positions");
            let mut tensor = TensorMut::new(&mut y, shape).expect("valid");
            rope.rotate(&mut tensor, &rows).expect("rows that fit");
            assert!(x == y, "{query:?} on the way");
        }
    }
    let several = Positions::axis_major(&[0_i32, 1]);
    let twice = chunks
        .positions(DualChunkQuery::Succ, 0..3)
        .expect("one axis");
    for positions in [several, Positions::from(&[0.5_f32]), twice] {
        let refused = chunks.positions(DualChunkQuery::Intra, positions).map(drop);
        assert_eq!(refused, Err(Error::Positions(PositionsError::DualChunk)));
    }
}

#[track_caller]
fn same<E: Number>(got: &[E], expected: &[E], doing: &str) {
    let bits = |values: &[E]| values.iter().map(|x| x.bits()).collect::<Vec<_>>();
    assert_eq!(bits(got), bits(expected), "{doing}");
}

/// The five queries and the key of vLLM's and sglang's class, side by side in each token as it writes them.
#[test]
fn dual_chunk_attention() {
    fn one<E: Number + Bits>(file: &Golden) {
        // sglang's class on a CPU has no f16.
        if E::NAME == "f16" {
            return;
        }
        let [head_dim, rotary_dim, tokens] =
            ["head_dim", "rotary_dim", "tokens"].map(|key| file.decimal(key));
        let chunks =
            DualChunk::new(file.decimal("chunk_size"), file.decimal("local_size")).expect("sizes");
        let base = file.bits::<f64>("base")[0];
        let frequencies = Frequencies::new(rotary_dim, base, &Scaling::Default).expect("a base");
        let positions: Vec<i64> = file.decimals("positions");
        let bits = |key: &str| file.bits::<E>(&format!("{key}_{}", E::NAME));
        let widen = |key: &str| bits(key).iter().map(|x| x.to_f32()).collect::<Vec<f32>>();

        let names = [
            "intra",
            "succ",
            "inter",
            "succ_critical",
            "inter_critical",
            "key",
        ];
        let queries = DualChunkQuery::ALL
            .into_iter()
            .chain([DualChunkQuery::Intra]);
        let mut exact = Vec::new();
        for (name, query) in names.iter().zip(queries) {
            let ids: Vec<i64> = positions.iter().map(|&p| chunks.id(query, p)).collect();
            assert_eq!(ids, file.decimals::<i64>(&format!("ids_{name}")));
            let given = chunks.positions(query, &positions).expect("one axis");
            let rows = frequencies.rows(given).expect("positions");
            let [cos, sin] =
                ["cos", "sin"].map(|key| file.bits::<f32>(&format!("{key}_cr_{name}")));
            for token in 0..tokens {
                let width = rotary_dim / 2;
                let (ours_cos, ours_sin) = rows.row(token, 0).expect("a row");
                same(ours_cos, &cos[token * width..][..width], name);
                same(ours_sin, &sin[token * width..][..width], name);
            }
            exact.push(rows);
        }
        // One row for all tokens.
        let inter = frequencies
            .rows(chunks.id(DualChunkQuery::Inter, 0))
            .expect("a row");
        exact[2] = inter.repeated(0, tokens).expect("a row");

        let tables: Vec<[Vec<f32>; 2]> = (0..6)
            .map(|i| ["cos", "sin"].map(|key| widen(&format!("{key}_{i}"))))
            .collect();
        let given: Vec<Rows<'_>> = tables
            .iter()
            .map(|[cos, sin]| {
                let width = cos.len() / tokens;
                Rows::from_cos_sin(cos, sin, [tokens, width], rotary_dim).expect("rows")
            })
            .collect();

        let rope = Rope::new(file.pairings().0);
        let rotated = |tensor: &str, heads: usize, rows: &[Rows<'_>]| {
            let x = bits(&format!("{tensor}_in"));
            let mut y = vec![E::from_f32(0.0); rows.len() * x.len()];
            let shape = [1, tokens, rows.len() * heads, head_dim];
            let mut target = TensorMut::new(&mut y, shape).expect("valid");
            let source = Tensor::new(&x, [1, tokens, heads, head_dim]).expect("valid");
            rope.rotate_into_each(&source, &mut [Output::head_groups(&mut target, rows)])
                .expect("targets that fit");
            y
        };
        for (tensor, range) in [("q", 0..5), ("k", 5..6)] {
            let heads = file.decimal(&format!("{tensor}_heads"));
            let doing = format!("{} of {}, {}", tensor, file.name, E::NAME);
            let of_exact = rotated(tensor, heads, &exact[range.clone()]);
            same(&of_exact, &bits(&format!("{tensor}_cr")), &doing);
            let once = rotated(tensor, heads, &given[range.clone()]);
            if E::NAME == "f32" {
                same(&once, &bits(&format!("{tensor}_out")), &doing);
                continue;
            }
            same(&once, &bits(&format!("{tensor}_once")), &doing);
            // The engine itself rounds every operation.
            let x = bits(&format!("{tensor}_in"));
            let mut every = Vec::new();
            let (round, n) = (|x: f32| E::from_f32(x).to_f32(), rotary_dim / 2);
            for head in 0..tokens * range.len() * heads {
                let (token, group) = (head / (range.len() * heads), head / heads % range.len());
                let x = &x[(token * heads + head % heads) * head_dim..][..head_dim];
                let [cos, sin] = &tables[range.start + group];
                let at = |table: &[f32], i| table[token * (table.len() / tokens) + i];
                every.extend((0..head_dim).map(|channel| {
                    let own = x[channel].to_f32();
                    let (i, other) = match channel {
                        low if low < n => (low, -x[low + n].to_f32()),
                        high if high < 2 * n => (high - n, x[high - n].to_f32()),
                        _ => return x[channel],
                    };
                    E::from_f32(round(own * at(cos, i)) + round(other * at(sin, i)))
                }));
            }
            same(&every, &bits(&format!("{tensor}_out")), &doing);
        }
    }
    let mut files = 0;
    for file in Golden::all("dca") {
        if file.name.starts_with("half_") {
            each_element!(one(&file));
            files += 1;
        }
    }
    assert_eq!(files, 2);
}
