//! Rows of each head have the bits of one call for each head with its row. (`agree`, `parallel`, `stages`, `guard` and
//! the bodies also choose rows of each head and compare them with the oracle.) And the inverse of rows whose pairs
//! differ in magnitude.

use half::{bf16, f16};
use rope_core::error::RowsError;
use rope_core::gradient::PairGradients;
use rope_core::internals::in_stages;
use rope_core::norm::{Norm, NormFormula};
use rope_core::{
    Dimension, Direction, Error, Frequencies, Layout, Pairing, Rope, Rows, Scaling, Strides,
    Tensor, TensorMut,
};
use rope_tests::golden::{Bits, Golden};
use rope_tests::number::{paint, values};
use rope_tests::{
    Angles, Form, Number, Placed, Rotation, Source, Stored, backends, each_element,
    each_element_pair, run,
};

use crate::models::{alike, same};
use crate::refused::errors as error;
use crate::refused::{numbers, refused, strides};

/// Numbers of heads around the heads of a line.
const HEADS: [usize; 6] = [1, 2, 15, 16, 17, 33];

/// Tests rotations in place and into another tensor, tokens-major, heads-major and with any strides.
fn rotated<E: Number>(
    source: &mut Source<'_>,
    shape: [usize; 4],
    mut check: impl FnMut(Rope, &Placed, &[E]),
) {
    for place in [
        Placed::bshd(shape),
        Placed::bhsd(shape),
        Placed::any(source, shape),
    ] {
        let x = values::<E>(source, place.len);
        for rotation in Rotation::in_place() {
            for backend in backends::tested() {
                check(rotation.plan(backend), &place, &x);
            }
        }
    }
}

fn rotate<E: Number>(rope: Rope, x: &[E], layout: Layout, rows: &Rows<'_>) -> Vec<E> {
    let mut y = x.to_vec();
    let mut tensor = TensorMut::new(&mut y, layout).expect("a valid tensor");
    rope.rotate(&mut tensor, rows).expect("rows that fit");
    y
}

/// Returns rotations by any angles.
fn turns(source: &mut Source<'_>, [rows, heads]: [usize; 2], pairs: usize) -> Angles {
    let angle = |_| (f64::from(source.unit()) * std::f64::consts::PI).sin_cos();
    let (sin, cos) = (0..rows * heads * pairs)
        .map(angle)
        .map(|(s, c)| (s as f32, c as f32))
        .unzip();
    Angles {
        rows,
        heads,
        pairs,
        cos,
        sin,
        attention_factor: 1.0,
    }
}

/// Large heads-major tensors run head after head into another tensor, and in f32 also in place. In 16 bits in place,
/// and for a single sequence, which is no large tensor, they run block after block of tokens. Rows that heads share,
/// and rows of each head.
#[test]
fn a_large_tensor_head_after_head() {
    let source = &mut Source::random("a_large_tensor_head_after_head");
    let (shape, sequences) = ([2, 515, 8, 128], [1, 2]);
    let place = Placed::bhsd(shape);
    let x: Vec<bf16> = paint(source, place.len);
    let wide: Vec<f32> = paint(source, place.len);
    for (sequences, heads) in sequences.into_iter().zip([8, 1]) {
        let angles = Stored::plain(turns(source, [515 * sequences, heads], 64));
        for rotation in Rotation::in_place() {
            for backend in backends::tested() {
                let rope = rotation.plan(backend);
                angles.with(|rows| {
                    let expected = rotate(rope, &x, place.layout, rows);
                    let from = Tensor::new(&x, place.layout).expect("a valid tensor");
                    let mut got = vec![bf16::ZERO; place.len];
                    let mut to = TensorMut::new(&mut got, place.layout).expect("a valid tensor");
                    rope.rotate_into(&from, &mut to, rows)
                        .expect("rows that fit");
                    alike(&got, &expected, &format!("{rope:?}, {heads} rows a token"));

                    let mut expected = wide.clone();
                    let all = TensorMut::new(&mut expected, place.layout).expect("a valid tensor");
                    let (first, second) = all.split_at(Dimension::Batch, 1).expect("two sequences");
                    for (mut part, start) in [(first, 0), (second, 515 * (sequences - 1))] {
                        let rows = rows.narrow(start..start + 515).expect("a sequence's rows");
                        rope.rotate(&mut part, &rows).expect("rows that fit");
                    }
                    let got = rotate(rope, &wide, place.layout, rows);
                    alike(
                        &got,
                        &expected,
                        &format!("{rope:?}, f32, {heads} rows a token"),
                    );
                });
            }
        }
    }
}

fn repeated<E: Number>(source: &mut Source<'_>, heads: usize, sequences: usize) {
    let (pairs, shape) = (9, [2, 3, heads, 20]);
    let shared = turns(source, [3 * sequences, 1], pairs);
    let repeat = |values: &[f32]| -> Vec<f32> {
        let rows = values.chunks(pairs);
        rows.flat_map(|row| row.repeat(heads)).collect()
    };
    let each = Angles {
        heads,
        cos: repeat(&shared.cos),
        sin: repeat(&shared.sin),
        ..shared
    };
    let place = Placed::any(source, [sequences, 3, heads, pairs]);
    let each = [Stored::placed(each.clone(), place), Stored::plain(each)];
    let shared = Stored::plain(shared);
    rotated::<E>(source, shape, |rope, place, x| {
        let expected = shared.with(|rows| rotate(rope, x, place.layout, rows));
        for each in &each {
            let got = each.with(|rows| {
                assert_eq!((rows.len(), rows.heads()), (3 * sequences, heads));
                rotate(rope, x, place.layout, rows)
            });
            alike(
                &got,
                &expected,
                &format!("{rope:?}, {heads} heads at {:?}", place.view.strides),
            );
        }
    });
}

#[test]
fn a_row_that_is_repeated_is_a_row_that_is_shared() {
    let source = &mut Source::random("a_row_that_is_repeated");
    for heads in HEADS {
        for sequences in [1, 2] {
            each_element!(repeated(source, heads, sequences));
        }
    }
}

/// Returns the rows of one head.
fn of_head(angles: &Angles, head: usize) -> Stored {
    let row = angles.heads * angles.pairs;
    let pick = |values: &[f32]| -> Vec<f32> {
        let tokens = values.chunks(row);
        tokens
            .flat_map(|rows| &rows[head * angles.pairs..][..angles.pairs])
            .copied()
            .collect()
    };
    Stored::plain(Angles {
        heads: 1,
        cos: pick(&angles.cos),
        sin: pick(&angles.sin),
        ..*angles
    })
}

fn alone<E: Number>(source: &mut Source<'_>, heads: usize, sequences: usize) {
    let (pairs, shape) = (9, [2, 3, heads, 20]);
    let angles = turns(source, [3 * sequences, heads], pairs);
    let heads_alone: Vec<Stored> = (0..heads).map(|head| of_head(&angles, head)).collect();
    let place = Placed::any(source, [sequences, 3, heads, pairs]);
    let all = Stored::placed(angles, place);
    rotated::<E>(source, shape, |rope, place, x| {
        let got = all.with(|rows| rotate(rope, x, place.layout, rows));
        let mut expected = x.to_vec();
        for (head, rows) in heads_alone.iter().enumerate() {
            let layout = place
                .layout
                .narrow(Dimension::Heads, head..head + 1)
                .expect("a head that is there");
            expected = rows.with(|rows| rotate(rope, &expected, layout, rows));
        }
        alike(
            &got,
            &expected,
            &format!("{rope:?}, {heads} heads at {:?}", place.view.strides),
        );
    });
}

#[test]
fn each_head_alone_is_the_same() {
    let source = &mut Source::random("each_head_alone");
    for heads in HEADS {
        for sequences in [1, 2] {
            each_element!(alone(source, heads, sequences));
        }
    }
}

fn in_place<E: Number>(source: &mut Source<'_>, shape: [usize; 4], rows: &Stored) {
    for rotation in Rotation::in_place() {
        for place in [
            Placed::bshd(shape),
            Placed::bhsd(shape),
            Placed::any(source, shape),
        ] {
            run::in_place(rotation, rows, &values::<E>(source, place.len), &place);
        }
    }
}

fn into<I: Number, O: Number>(source: &mut Source<'_>, shape: [usize; 4], rows: &Stored) {
    for rotation in Rotation::all() {
        let (from, to) = (Placed::any(source, shape), Placed::any(source, shape));
        let (x, y) = (values::<I>(source, from.len), paint::<O>(source, to.len));
        run::into(rotation, rows, (&x, &from), (&y, &to));
    }
}

/// Shared by heads, by sequences, by both and by neither; stored in every form, gathered, and with any strides.
#[test]
fn every_sharing_in_every_form() {
    let source = &mut Source::random("every_sharing_in_every_form");
    for form in Form::all() {
        for (sequences, heads) in [(1, 1), (2, 1), (1, 3), (2, 3)] {
            let shape = [2, 3, 3, source.within(34, 75)];
            let pairs = source.within(16, shape[3] / 2);
            let rows = Stored::of_heads(source, [sequences * 3, heads], pairs, form);
            each_element!(in_place(source, shape, &rows));
        }
    }
    for (sequences, heads) in [(1, 1), (2, 1), (1, 3), (2, 3)] {
        for _ in 0..4 {
            let shape = [2, 3, 3, source.within(34, 75)];
            let pairs = source.within(16, shape[3] / 2);
            let rows = Stored::strided(source, [sequences, 3, heads], pairs);
            each_element!(in_place(source, shape, &rows));
            each_element_pair!(into(source, shape, &rows));
        }
    }
}

/// More heads than a line has, and more tokens than a block.
#[test]
fn many_heads_and_tokens() {
    let source = &mut Source::random("many_heads_and_tokens");
    for heads in HEADS {
        for shape in [
            [1, 3, heads, 66],
            [2, 1, heads, 8],
            [1, 17, heads, 6],
            [2, 33, heads, 2],
        ] {
            let rows = Stored::for_shape(source, shape, shape[3] / 2);
            each_element!(in_place(source, shape, &rows));
            let form = Form::any(source);
            let rows = Stored::of_heads(source, [shape[1], heads], shape[3] / 2, form);
            each_element!(in_place(source, shape, &rows));
            into::<f32, bf16>(source, shape, &rows);
        }
    }
}

/// Norms of heads with rows of each head, in the fused kernel and stage by stage.
#[test]
fn a_norm_before_the_rotation() {
    let source = &mut Source::random("a_norm_before_the_rotation");
    for heads in HEADS {
        let shape = [1, 5, heads, 64];
        let rows = Stored::plain(turns(source, [5, heads], 32));
        for place in [Placed::bshd(shape), Placed::bhsd(shape)] {
            let x = values::<bf16>(source, place.len);
            for backend in backends::tested() {
                let rope = Rotation::forward(Pairing::Half).plan(backend);
                let norm = |rope: Rope| rope.with_norm(Norm::new(NormFormula::LLAMA4, 1e-6));
                let run = |chain: &dyn Fn(&mut TensorMut<'_, bf16>)| {
                    let mut y = x.clone();
                    chain(&mut TensorMut::new(&mut y, place.layout).expect("a valid tensor"));
                    y
                };
                rows.with(|rows| {
                    let apart = run(&|y| {
                        norm(rope).apply(y).expect("a norm that fits");
                        rope.rotate(y, rows).expect("rows that fit");
                    });
                    for rope in [rope, in_stages(rope)] {
                        let one = run(&|y| norm(rope).rotate(y, rows).expect("rows that fit"));
                        alike(&one, &apart, &format!("{backend}, {heads} heads"));
                    }
                });
            }
        }
    }
}

/// A thread that begins at a head begins at the row of that head.
#[cfg(not(target_family = "wasm"))]
#[test]
fn threads_begin_at_their_heads() {
    let source = &mut Source::random("threads_begin_at_their_heads");
    let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build();
    let pool = pool.expect("a few threads");
    let shape = [1, 90, 40, 64];
    for place in [Placed::bshd(shape), Placed::bhsd(shape)] {
        let x = values::<f32>(source, place.len);
        for form in [Form::any(source), Form::any(source)] {
            let rows = Stored::of_heads(source, [90, 40], 32, form);
            rows.with(|rows| {
                let rope = Rope::new(Pairing::Half);
                let expected = rotate(rope, &x, place.layout, rows);
                let mut got = x.clone();
                let mut y = TensorMut::new(&mut got, place.layout).expect("a valid tensor");
                pool.install(|| rope.with_threads().rotate(&mut y, rows))
                    .expect("rows that fit");
                alike(&got, &expected, &format!("{form:?}"));
            });
        }
    }
}

/// HDiT's fixed set of frequencies, distributed over heads: exact angles of the first half of the channels.
#[test]
fn hdit() {
    let file = Golden::file("mixed/hdit_3h_d64.txt");
    let (heads, tokens) = (file.decimal("heads"), file.decimal("tokens"));
    let (head_dim, pairs) = (file.decimal("head_dim"), file.decimal("rotary_dim") / 2);
    let (cos, sin) = (file.bits("cos_cr_exact"), file.bits("sin_cr_exact"));
    let layout = Layout::thd([tokens, heads, pairs]).expect("a small shape");
    let rows = Rows::strided(&cos, &sin, layout).expect("rows as they lie");
    let q = file.bits::<f32>("q_f32");
    let layout = Layout::thd([tokens, heads, head_dim]).expect("a small shape");
    for backend in backends::tested() {
        let rope = Rotation::forward(Pairing::Half).plan(backend);
        let got = rotate(rope, &q, layout, &rows);
        same(&got, &file.bits("q_cr_f32"), backend.name());
    }
}

fn ltx2_of<E: Number + Bits>(file: &Golden) {
    let (heads, head_dim) = (file.decimal("heads"), file.decimal("head_dim"));
    let tokens = file.decimals::<usize>("sampled").len();
    let (cos, sin) = (file.bits("cos_f32"), file.bits("sin_f32"));
    let layout = Layout::bhsd([1, heads, tokens, head_dim / 2]).expect("a small shape");
    let rows = Rows::strided(&cos, &sin, layout).expect("rows as they lie");
    let q = file.bits::<E>(&format!("q_{}", E::NAME));
    let layout = Layout::thd([tokens, heads, head_dim]).expect("a small shape");
    for backend in backends::tested() {
        let rope = Rotation::forward(Pairing::Half).plan(backend);
        let got = rotate(rope, &q, layout, &rows);
        let expected = file.bits::<E>(&format!("q_mulmuladd_{}", E::NAME));
        same(&got, &expected, &format!("{backend}, {}", E::NAME));
    }
}

/// LTX-2's tables as in diffusers, `[heads, tokens, pairs]`.
#[test]
fn ltx2() {
    let file = Golden::file("mixed/ltx2_4h_d32.txt");
    ltx2_of::<f32>(&file);
    ltx2_of::<bf16>(&file);
}

/// A row index selects the rows of all heads of a token, in tables, in ranges and in gathered rows.
#[test]
fn rows_match_tokens() {
    let values: Vec<f32> = (0..4 * 3 * 2).map(|i| i as f32).collect();
    let rows = Rows::new(&values, [12, 2])
        .and_then(|rows| rows.with_heads(3))
        .expect("four tokens");
    assert_eq!((rows.len(), rows.heads(), rows.is_empty()), (4, 3, false));
    let at =
        |rows: &Rows<'_>, index, head| rows.row(index, head).map(|(cos, sin)| [cos[0], sin[0]]);
    assert_eq!(at(&rows, 2, 1), Some([14.0, 15.0]));
    assert_eq!((rows.row(4, 0), rows.row(0, 3)), (None, None));
    let range = rows.narrow(1..3).expect("tokens that are there");
    assert_eq!((range.len(), at(&range, 1, 2)), (2, Some([16.0, 17.0])));
    let gathered = range.gather(&[1, 0, 1]).expect("ids that are there");
    assert_eq!((gathered.len(), gathered.heads()), (3, 3));
    assert_eq!(at(&gathered, 1, 2), Some([10.0, 11.0]));
    let part = gathered.narrow(1..3).expect("ids that are there");
    assert_eq!(at(&part, 1, 0), Some([12.0, 13.0]));
    // Heads that share a row all have it.
    let shared = Rows::new(&values, [12, 2])
        .and_then(|rows| rows.with_heads(1))
        .expect("rows");
    assert_eq!((shared.len(), shared.heads()), (12, 1));
    assert_eq!(at(&shared, 5, 9), Some([10.0, 11.0]));
}

/// Sequences with gaps: whole sequences and parts of one are ranges; shared rows count once.
#[test]
fn strided_rows() {
    let values: Vec<f32> = (0..200).map(|i| i as f32).collect();
    let strides = Strides {
        batch: 50,
        token: 7,
        head: 2,
    };
    let layout = Layout::strided([3, 4, 2, 2], strides).expect("a small layout");
    let rows = Rows::strided(&values, &values[1..], layout).expect("rows inside the slices");
    assert_eq!((rows.len(), rows.heads(), rows.rotary_dim()), (12, 2, 4));
    let row = |rows: &Rows<'_>, index, head| {
        rows.row(index, head)
            .map(|(cos, sin)| [cos[0], sin[0], sin[1]])
    };
    assert_eq!(row(&rows, 6, 1), Some([66.0, 67.0, 68.0]));
    let whole = rows.narrow(4..12).expect("two sequences");
    assert_eq!((whole.len(), row(&whole, 5, 1)), (8, row(&rows, 9, 1)));
    let part = rows.narrow(9..11).expect("a part of the last");
    assert_eq!((part.len(), row(&part, 1, 0)), (2, row(&rows, 10, 0)));
    let gathered = part.gather(&[1]).expect("an id that is there");
    assert_eq!(row(&gathered, 0, 0), row(&rows, 10, 0));
    for empty in [0..0, 3..3, 12..12] {
        assert!(rows.narrow(empty).expect("nothing").is_empty());
    }
    let shared = Strides {
        batch: 0,
        token: 7,
        head: 0,
    };
    let layout = Layout::strided([3, 4, 2, 2], shared).expect("a small layout");
    let rows = Rows::strided(&values, &values, layout).expect("rows inside the slices");
    assert_eq!((rows.len(), rows.heads()), (4, 1));
    // Rows of no tokens, with any strides.
    let none = Strides {
        batch: usize::MAX,
        token: 1,
        head: usize::MAX,
    };
    for shape in [[0, 4, 2, 2], [3, 0, 2, 2]] {
        let layout = Layout::strided(shape, none).expect("an empty layout");
        assert!(Rows::strided(&[], &[], layout).expect("no rows").is_empty());
    }
}

#[test]
fn rows_that_are_not_per_head() {
    let forty_nine: Vec<f32> = (0..49).map(|i| i as f32).collect();
    let values = &forty_nine[..48];
    let twelve = numbers([12, 4]);
    let error = |heads| error::rows_per_head(12, heads);
    for heads in [0, 5, 24, usize::MAX] {
        refused(twelve.clone().with_heads(heads), error(heads));
    }
    let none = Layout::bshd([3, 4, 0, 2]).expect("an empty layout");
    refused(Rows::strided(values, values, none), error(0));
    let gathered = twelve.gather(&[1, 0]).expect("ids that are there");
    refused(gathered.with_heads(2), error::already_gathered());
    let pairs = Layout::bshd([1, 2, 3, 0]).expect("an empty layout");
    let error = error::rotary_dim(0, "even and at least 2");
    refused(Rows::strided(values, values, pairs), error);
    let shape = [2, 4, 3, 2];
    let layout = Layout::bshd(shape).expect("a small layout");
    // A layout may cover a part of each slice, a shape covers all of it.
    assert!(Rows::strided(values, &forty_nine, layout).is_ok());
    assert!(Rows::strided(values, values, layout.shape()).is_ok());
    for len in [47, 49] {
        let other = &forty_nine[..len];
        for (cos, sin) in [(values, other), (other, values)] {
            let error = error::shape_elements(shape.into(), len);
            refused(Rows::strided(cos, sin, shape), error);
            refused(Rows::strided(cos, sin, layout.shape()), error);
            if len < 48 {
                let error = error::out_of_bounds(48, len);
                refused(Rows::strided(cos, sin, layout), error);
            }
        }
    }
    // More rows than usize counts; and as many channels, without sequences.
    for shape in [[2, usize::MAX, 1, 2], [0, 1, 1, usize::MAX]] {
        let layout = Layout::strided(shape, strides(1, 0, 0)).expect("a layout");
        let error = error::overflow(shape.into());
        refused(Rows::strided(values, values, layout), error);
    }
}

/// Rows at equal distances are a table, whatever their strides: ids can gather from it, and it rotates any number of
/// tokens up to its own. Sequences with gaps are no table.
#[test]
fn rows_at_equal_distances_are_a_table() {
    let values: Vec<f32> = (0..400).map(|i| i as f32).collect();
    for (batch, tokens, [by_batch, by_token], distance) in [
        // One sequence: the stride of sequences has no meaning.
        (1, 6, [100, 8], Some(8)),
        (1, 6, [8, 8], Some(8)),
        (1, 1, [100, 8], Some(100)),
        // A token of each sequence.
        (3, 1, [10, 7], Some(10)),
        (3, 1, [10, 10], Some(10)),
        // Sequences one after the other.
        (3, 4, [32, 8], Some(8)),
        // With a gap, and overlapping.
        (3, 4, [33, 8], None),
        (2, 4, [8, 8], None),
        (2, 2, [100, 8], None),
    ] {
        let doing = format!("[{batch}, {tokens}] rows, {by_batch} and {by_token} apart");
        let strides = Strides {
            batch: by_batch,
            token: by_token,
            head: 0,
        };
        let layout = Layout::strided([batch, tokens, 1, 2], strides).expect("a small layout");
        let rows = Rows::strided(&values, &values[1..], layout).expect("rows inside the slices");
        let count = batch * tokens;
        assert_eq!(rows.len(), count, "{doing}");
        for index in 0..count {
            let at = (index / tokens * by_batch + index % tokens * by_token) as f32;
            let (cos, sin) = rows.row(index, 0).expect("a row");
            assert_eq!((cos[0], sin[0]), (at, at + 1.0), "{doing}: row {index}");
        }
        let ids = [count - 1, 0];
        match (rows.gather(&ids), distance) {
            (Ok(gathered), Some(distance)) => {
                let first = gathered.row(0, 0).expect("a row").0[0];
                assert_eq!(first, ((count - 1) * distance) as f32, "{doing}");
                assert!(rows.clone().with_heads(count).is_ok(), "{doing}");
            }
            (
                Err(Error::Rows(RowsError::Sequences {
                    sequences,
                    tokens: of,
                })),
                None,
            ) => {
                assert_eq!((sequences, of), (batch, tokens), "{doing}");
            }
            (made, _) => panic!("{doing}: {made:?}"),
        }
    }
}

/// Returns xPos as in rotary-embedding-torch: the rows of queries times `zeta^p`, those of keys times `zeta^-p`.
fn xpos(positions: usize, rotary_dim: usize, sign: f64) -> Vec<f32> {
    let rows = Frequencies::new(rotary_dim, 1e4, &Scaling::Default)
        .and_then(|frequencies| frequencies.rows(0..positions))
        .expect("good frequencies");
    let scaled = |position: usize| {
        let (cos, sin) = rows.row(position, 0).expect("a row that is there");
        let power = sign * (position as f64 - (positions / 2) as f64) / 512.0;
        let of = |values: &[f32]| -> Vec<f32> {
            let pairs = values.iter().enumerate();
            let zeta = |pair: usize| {
                (2.0 * pair as f64 + 0.4 * rotary_dim as f64) / (1.4 * rotary_dim as f64)
            };
            pairs
                .map(|(pair, &value)| (f64::from(value) * zeta(pair).powf(power)) as f32)
                .collect()
        };
        [of(cos), of(sin)].concat()
    };
    (0..positions).flat_map(scaled).collect()
}

/// The inverse by rows of xPos is refused; the inverted rows undo the rotation, and the transpose keeps its meaning.
#[test]
fn inverted_rows_undo_xpos() {
    let source = &mut Source::random("inverted_rows_undo_xpos");
    let (tokens, heads, rotary_dim) = (600, 2, 64);
    let shape = [1, tokens, heads, 70];
    let place = Placed::bshd(shape);
    for (sign, of_heads) in [(1.0, false), (-1.0, false), (1.0, true)] {
        // Rows of each head: two tables one after another, of which a head has every second row.
        let values = match of_heads {
            false => xpos(tokens, rotary_dim, sign),
            true => xpos(heads * tokens, rotary_dim, sign),
        };
        let given = if of_heads { heads } else { 1 };
        let rows = Rows::new(&values, [tokens * given, rotary_dim])
            .and_then(|rows| rows.with_heads(given))
            .expect("rows");
        let mut storage = vec![f32::NAN; values.len() + 3];
        let scaled = rows.clone().with_attention_factor(4.0);
        let scaled = scaled.expect("a factor other than zero");
        let inverted = scaled.inverted(&mut storage);
        let factor = inverted.map(|inverted| inverted.attention_factor());
        assert_eq!(factor, Ok(0.25));
        let inverted = rows.inverted(&mut storage).expect("rows with an inverse");
        assert_eq!((inverted.len(), inverted.heads()), (tokens, given));
        let x: Vec<f32> = (0..place.len).map(|_| source.unit()).collect();
        for backend in backends::tested() {
            let rope = Rotation::forward(Pairing::Half).plan(backend);
            let there = rotate(rope, &x, place.layout, &rows);
            let back = rotate(rope, &there, place.layout, &inverted);
            let mut refused = there.clone();
            let mut tensor = TensorMut::new(&mut refused, shape).expect("a valid tensor");
            let result = rope
                .with_direction(Direction::Inverse)
                .rotate(&mut tensor, &rows);
            assert!(
                matches!(
                    result,
                    Err(Error::Rows(RowsError::Magnitude {
                        row: 0,
                        head: 0,
                        pair: 0,
                        ..
                    }))
                ),
                "{result:?}"
            );
            same(&refused, &there, "refused");
            for (at, (x, back)) in x.iter().zip(&back).enumerate() {
                // Relative to the length of a pair, at most sqrt(2), each rotation has an error of 2 units of 2^-24,
                // and the two values of an inverted pair together one of sqrt(2).
                let bound = 2f64.sqrt() * (4.0 + 2f64.sqrt()) * 2f64.powi(-24);
                assert!(
                    (f64::from(*x) - f64::from(*back)).abs() < bound,
                    "{backend}, {at}: {x} came back as {back}"
                );
            }
            // Each head of each token by its own row, transposed.
            let transposed = rotate(
                rope.with_direction(Direction::Transpose),
                &x,
                place.layout,
                &rows,
            );
            for [_, token, head] in place.view.heads() {
                let (cos, sin) = rows.row(token, head).expect("a row that is there");
                let at = |channel| place.view.index([0, token, head, channel]);
                for (pair, (cos, sin)) in cos.iter().zip(sin).enumerate() {
                    let [first, second] = [at(pair), at(pair + rotary_dim / 2)];
                    assert_eq!(
                        transposed[first].to_bits(),
                        (x[first] * cos + x[second] * sin).to_bits()
                    );
                    assert_eq!(
                        transposed[second].to_bits(),
                        (x[second] * cos - x[first] * sin).to_bits()
                    );
                }
            }
        }
        // The inverse of the inverse gives the original rows.
        let mut storage = vec![0.0; values.len()];
        let again = inverted
            .inverted(&mut storage)
            .expect("rows with an inverse");
        for index in 0..tokens {
            let ((cos, sin), (was, of)) = (
                again.row(index, 0).expect("a row"),
                rows.row(index, 0).expect("a row"),
            );
            for (got, wanted) in cos.iter().chain(sin).zip(was.iter().chain(of)) {
                assert!(
                    (got - wanted).abs() <= wanted.abs().max(1e-3) * 5e-7,
                    "{got} for {wanted}"
                );
            }
        }
    }
}

#[test]
fn rows_without_an_inverse() {
    let (nan, infinity) = (f32::NAN, f32::INFINITY);
    fn of_two_heads(values: &[f32]) -> Rows<'_> {
        let rows = Rows::new(values, [4, 4]).expect("whole rows");
        rows.with_heads(2).expect("two tokens")
    }
    let mut values = [1.0_f32, 1.0, 0.0, 0.0].repeat(4);
    for [cos, sin] in [[0.0, -0.0], [nan, 1.0], [infinity, 0.0], [1e-40, 0.0]] {
        (values[13], values[15]) = (cos, sin);
        let rows = of_two_heads(&values);
        let mut storage = [7.0; 16];
        let refusal = rows.inverted(&mut storage).map(|_| ());
        refused(refusal, error::no_inverse(1, 1, 1, cos, sin));
        assert_eq!(storage, [7.0; 16]);
    }
    (values[13], values[15]) = (1.0, 0.0);
    let rows = of_two_heads(&values);
    let error = error::storage("values of storage", 15, 16);
    refused(rows.inverted(&mut [7.0; 15]).map(|_| ()), error);
    let small = rows.with_attention_factor(1e-320).expect("a factor");
    let refusal = small.inverted(&mut [7.0; 16]).map(|_| ());
    assert_eq!(refusal, Err(error::attention_factor(1e-320)));
    // Coinciding rows may be more than memory holds.
    let many = Layout::strided([1, usize::MAX, 1, 2], strides(0, 0, 0)).expect("a layout");
    let many = Rows::strided(&values, &values, many).expect("rows inside the slices");
    let error = error::rows_too_long(usize::MAX, 4);
    refused(many.inverted(&mut [0.0; 4]).map(|_| ()), error);
}

fn rounded<E: Number>(values: &[f32]) -> Vec<f32> {
    values
        .iter()
        .map(|&value| E::from_f32(value).to_f32())
        .collect()
}

/// 16-bit tables, as runtimes keep them, are rotations; rows of xPos are none, except at the central position.
#[test]
fn the_inverse_takes_tables_that_were_rounded() {
    let frequencies = Frequencies::new(128, 1e4, &Scaling::Default).expect("good frequencies");
    for factor in [1.0, 1.138_629_436_111_989, 0.1, -1.0] {
        let rows = frequencies.rows(0..1000).expect("few rows");
        let values: Vec<f32> = (0..1000)
            .flat_map(|index| {
                let (cos, sin) = rows.row(index, 0).expect("a row that is there");
                [cos, sin].concat()
            })
            .map(|value| (f64::from(value) * factor) as f32)
            .collect();
        for values in [rounded::<bf16>(&values), rounded::<f16>(&values), values] {
            let rows =
                Rows::new(&values, [1000, 128]).and_then(|rows| rows.with_attention_factor(factor));
            let rows = rows.expect("whole rows");
            let mut x = vec![1.0_f32; 1000 * 128];
            let mut tensor = TensorMut::new(&mut x, [1, 1000, 1, 128]).expect("a valid tensor");
            let inverse = Rope::new(Pairing::Half).with_direction(Direction::Inverse);
            inverse
                .rotate(&mut tensor, &rows)
                .expect("rows that are rotations");
            // Another factor is refused unless its difference is below the bound.
            let other = rows
                .clone()
                .with_attention_factor(factor * 1.0045)
                .expect("a factor");
            let result = inverse.rotate(&mut tensor, &other);
            assert!(
                matches!(result, Err(Error::Rows(RowsError::Magnitude { .. }))),
                "{result:?}"
            );
        }
    }
    let values = xpos(3, 64, 1.0);
    let rows = Rows::new(&values, [3, 64]).expect("whole rows");
    let inverse = Rope::new(Pairing::Half).with_direction(Direction::Inverse);
    let mut x = [1.0_f32; 64];
    let mut rotate = |index: usize| {
        let row = rows.narrow(index..index + 1).expect("a row that is there");
        inverse.rotate(
            &mut TensorMut::new(&mut x, [1, 1, 1, 64]).expect("valid"),
            &row,
        )
    };
    assert!(matches!(
        rotate(0),
        Err(Error::Rows(RowsError::Magnitude { pair: 0, .. }))
    ));
    assert_eq!(rotate(1), Ok(()));
    assert!(matches!(
        rotate(2),
        Err(Error::Rows(RowsError::Magnitude { pair: 0, .. }))
    ));
}

/// Gradients by cos and sin of each head equal those of a call for that head with its row.
#[test]
fn gradients_of_rows_of_each_head() {
    let source = &mut Source::random("gradients_of_rows_of_each_head");
    let (tokens, heads, pairs) = (3, 4, 5);
    let angles = turns(source, [tokens, heads], pairs);
    let rows = Stored::plain(angles.clone());
    let shape = [1, tokens, heads, 2 * pairs];
    let mut unit = || -> Vec<f32> {
        (0..tokens * heads * 2 * pairs)
            .map(|_| source.unit())
            .collect()
    };
    let (y, dy) = (unit(), unit());
    let rope = Rope::new(Pairing::Half);
    let gradients = |rows: &Rows<'_>, head: Option<usize>| {
        let heads_here = head.map_or(0..heads, |head| head..head + 1);
        let layout = Layout::bshd(shape)
            .and_then(|layout| layout.narrow(Dimension::Heads, heads_here.clone()));
        let layout = layout.expect("heads that are there");
        let of = [tokens, heads_here.len(), pairs];
        let len = of.iter().product();
        let (mut angles, mut factors) = (vec![0.0; len], vec![0.0; len]);
        let mut angles = PairGradients::new(&mut angles, of).expect("sums of that shape");
        let mut factors = PairGradients::new(&mut factors, of).expect("sums of that shape");
        let y = Tensor::new(&y, layout).expect("a valid tensor");
        let dy_read = Tensor::new(&dy, layout).expect("a valid tensor");
        rope.factor_gradients(&y, &dy_read, &mut factors)
            .expect("sums that fit");
        let mut dx = dy.clone();
        let mut tensor = TensorMut::new(&mut dx, layout).expect("a valid tensor");
        rope.backward(&y, &mut tensor, rows, &mut angles)
            .expect("rows that fit");
        let (mut cos, mut sin) = (vec![0.0; len], vec![0.0; len]);
        angles
            .cos_sin(&factors, rows, &mut cos, &mut sin)
            .expect("rows that are not zero");
        (dx, cos, sin)
    };
    let (dx, cos, sin) = rows.with(|rows| gradients(rows, None));
    for head in 0..heads {
        let (own_dx, own_cos, own_sin) =
            of_head(&angles, head).with(|rows| gradients(rows, Some(head)));
        for token in 0..tokens {
            let (all, own) = ((token * heads + head) * pairs, token * pairs);
            assert_eq!(cos[all..][..pairs], own_cos[own..][..pairs]);
            assert_eq!(sin[all..][..pairs], own_sin[own..][..pairs]);
            assert_eq!(dx[2 * all..][..2 * pairs], own_dx[2 * all..][..2 * pairs]);
        }
    }
}
