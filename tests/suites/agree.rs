//! Every backend gives the bits of the oracle and writes nothing else.

use half::bf16;
use rope_core::{Direction, Layout, Pairing, Rope, Rows, Strides, TensorMut};
use rope_tests::number::{paint, special, values};
use rope_tests::{
    Angles, Form, Number, Placed, Rotation, Source, Stored, backends, bodies, compare,
    each_element, each_element_pair, oracle, run, seed,
};

/// Places a shape, without gaps or anywhere.
fn place(source: &mut Source<'_>, shape: [usize; 4]) -> Placed {
    Placed::any(source, shape)
}

/// Tests rotations in place, both pairings and all directions.
fn in_place<E: Number>(source: &mut Source<'_>, shape: [usize; 4], rows: &Stored) {
    for rotation in Rotation::in_place() {
        let place = place(source, shape);
        let x = values::<E>(source, place.len);
        run::in_place(rotation, rows, &x, &place);
    }
}

/// Tests rotations into another tensor, all pairings and all directions.
fn into<I: Number, O: Number>(source: &mut Source<'_>, shape: [usize; 4], rows: &Stored) {
    for rotation in Rotation::all() {
        let (from, to) = (place(source, shape), place(source, shape));
        let x = values::<I>(source, from.len);
        let y = paint::<O>(source, to.len);
        run::into(rotation, rows, (&x, &from), (&y, &to));
    }
}

/// Returns rows for a shape: for its tokens, for the tokens of each sequence, or any.
fn rows(source: &mut Source<'_>, shape: [usize; 4], rotary_dim: usize, kind: usize) -> Stored {
    let [batch, tokens, _, _] = shape;
    match kind {
        0 => Stored::any(source, tokens, rotary_dim / 2),
        1 => Stored::any(source, batch * tokens, rotary_dim / 2),
        _ => Stored::for_shape(source, shape, rotary_dim / 2),
    }
}

/// Tests every operation on a shape with given rows.
fn with_rows(source: &mut Source<'_>, shape: [usize; 4], rows: &Stored) {
    each_element!(in_place(source, shape, rows));
    each_element_pair!(into(source, shape, rows));
}

/// Tests every operation on a shape.
fn all(source: &mut Source<'_>, shape: [usize; 4], rotary_dim: usize) {
    for kind in 0..3 {
        let rows = rows(source, shape, rotary_dim, kind);
        with_rows(source, shape, &rows);
    }
}

#[test]
fn every_head_size() {
    let source = &mut Source::random("every_head_size");
    for head_dim in 2..=258 {
        let shape = [
            1 + head_dim % 2,
            source.within(1, 2),
            source.within(1, 2),
            head_dim,
        ];
        // The kinds of rows take turns: each one meets each remainder by 16, the widest vector, five times.
        let rows = rows(source, shape, head_dim & !1, head_dim % 3);
        with_rows(source, shape, &rows);
    }
}

#[test]
fn head_sizes_of_models() {
    let source = &mut Source::random("head_sizes_of_models");
    for head_dim in [64, 72, 80, 96, 112, 128, 160, 192, 256, 576] {
        all(source, [2, 2, 3, head_dim], head_dim);
    }
}

#[test]
fn partial_rotary() {
    let source = &mut Source::random("partial_rotary");
    for (head_dim, rotary_dim) in [
        (128, 32),
        (96, 24),
        (256, 64),
        (80, 32),
        (64, 16),
        (192, 64),
        (576, 64),
        (3, 2),
    ] {
        all(source, [1, 3, 2, head_dim], rotary_dim);
    }
    for _ in 0..20 {
        let head_dim = source.within(3, 200);
        let rotary_dim = 2 * source.within(1, head_dim / 2);
        all(source, [1, 2, 2, head_dim], rotary_dim);
    }
}

/// Tests more pairs than any backend keeps in registers, with every kind of remainder.
#[test]
fn long_heads() {
    let source = &mut Source::random("long_heads");
    for rotary_dim in [510, 512, 1024, 1150, 2050, 5000] {
        let head_dim = rotary_dim + source.below(3);
        for shape in [[1, 3, 2, head_dim], [1, 1, 1, head_dim]] {
            let rows = Stored::any(source, shape[1], rotary_dim / 2);
            each_element!(in_place(source, shape, &rows));
        }
        let rows = Stored::any(source, 2, rotary_dim / 2);
        each_element_pair!(into(source, [1, 2, 1, head_dim], &rows));
    }
}

/// Tests more tokens than one block has, in both orders of heads and tokens.
#[test]
fn many_tokens() {
    let source = &mut Source::random("many_tokens");
    for tokens in [15, 16, 17, 31, 33, 50] {
        let shape = [2, tokens, 3, 12];
        for rows in [tokens, 2 * tokens] {
            let rows = Stored::any(source, rows, 6);
            each_element!(in_place(source, shape, &rows));
            each_element_pair!(into(source, shape, &rows));
        }
    }
}

/// Tests every way to store rows and to select them from a table.
#[test]
fn rows_in_every_form() {
    let source = &mut Source::random("rows_in_every_form");
    for form in Form::all() {
        let shape = [2, 3, 2, source.within(34, 75)];
        let pairs = source.within(16, shape[3] / 2);
        for rows in [3, 6] {
            let rows = Stored::new(source, rows, pairs, form);
            each_element!(in_place(source, shape, &rows));
            into::<f32, f32>(source, shape, &rows);
        }
    }
}

/// Tests a tensor whose heads have one special value each, at every channel in turn; the other channels are ordinary.
fn every_lane<E: Number>(
    source: &mut Source<'_>,
    head_dim: usize,
    rotary_dim: usize,
) -> (Placed, Vec<E>) {
    let place = Placed::bshd([1, 2 * E::SPECIAL.len(), head_dim, head_dim]);
    let mut x: Vec<E> = (0..place.len).map(|_| E::from_f32(source.unit())).collect();
    for [batch, token, channel] in place.view.heads() {
        let value = E::SPECIAL[token / 2];
        x[place.view.index([batch, token, channel, channel])] = E::from_bits(value);
        if token % 2 == 1 {
            // A second special value beside it; the two may form a pair.
            let other = if source.once_in(2) {
                channel ^ 1
            } else {
                (channel + rotary_dim / 2) % rotary_dim
            };
            x[place.view.index([batch, token, channel, other % head_dim])] = special(source);
        }
    }
    (place, x)
}

/// Tests any rows, and identity rows, whose special results are rounded beside ordinary ones.
fn every_lane_rows(source: &mut Source<'_>, tokens: usize, pairs: usize) -> [Stored; 2] {
    let identity = Angles {
        rows: tokens,
        heads: 1,
        pairs,
        cos: vec![1.0; tokens * pairs],
        sin: vec![0.0; tokens * pairs],
        attention_factor: 1.0,
    };
    [Stored::any(source, tokens, pairs), Stored::plain(identity)]
}

fn every_lane_in_place<E: Number>(source: &mut Source<'_>, head_dim: usize, rotary_dim: usize) {
    let (place, x) = every_lane::<E>(source, head_dim, rotary_dim);
    for rows in every_lane_rows(source, place.view.shape[1], rotary_dim / 2) {
        for pairing in Pairing::ALL {
            let rotation = Rotation {
                direction: source.one_of(&Direction::ALL),
                ..Rotation::forward(pairing)
            };
            run::in_place(rotation, &rows, &x, &place);
        }
    }
}

fn every_lane_into<I: Number, O: Number>(
    source: &mut Source<'_>,
    head_dim: usize,
    rotary_dim: usize,
) {
    let (place, x) = every_lane::<I>(source, head_dim, rotary_dim);
    let y = vec![O::from_f32(0.0); place.len];
    for rows in every_lane_rows(source, place.view.shape[1], rotary_dim / 2) {
        for rotation in Rotation::all().filter(|rotation| rotation.direction == Direction::Forward)
        {
            run::into(rotation, &rows, (&x, &place), (&y, &place));
        }
    }
}

/// 32 + 8 + 7 pairs, 16 + 8 + 7 pairs, and channels that pass reach every kind of group and every lane of it.
#[test]
fn special_values_in_every_lane() {
    let source = &mut Source::random("special_values_in_every_lane");
    each_element!(every_lane_in_place(source, 94, 94));
    each_element_pair!(every_lane_into(source, 62, 62));
    // The rounding to bf16 tests for a NaN, or for a subnormal, once in a group of at most 32 pairs.
    every_lane_into::<f32, bf16>(source, 78, 78);
    each_element_pair!(every_lane_into(source, 131, 2));
}

/// Tests rows with a NaN in any place: with all bits set, which rounding would carry into a zero, or signaling.
fn nan_in_any_row<E: Number>(source: &mut Source<'_>, pairs: usize, place: &Placed) {
    let tokens = place.view.shape[1];
    let mut angles = Angles::any(source, tokens, pairs);
    for token in 0..tokens {
        let (bits, at) = (
            source.one_of(&[0x7fff_ffff, 0xffff_ffff, 0x7f80_0001]),
            token % pairs,
        );
        let values = if source.once_in(2) {
            &mut angles.cos
        } else {
            &mut angles.sin
        };
        values[token * pairs + at] = f32::from_bits(bits);
    }
    let rows = Stored::plain(angles);
    for pairing in Pairing::ALL {
        let x = values::<E>(source, place.len);
        run::in_place(Rotation::forward(pairing), &rows, &x, place);
    }
}

#[test]
fn a_nan_in_any_row() {
    let source = &mut Source::random("a_nan_in_any_row");
    for pairs in [32, 63, 64] {
        for place in [
            Placed::bshd([1, pairs + 3, 3, 2 * pairs]),
            Placed::bhsd([1, pairs + 3, 3, 2 * pairs]),
        ] {
            each_element!(nan_in_any_row(source, pairs, &place));
        }
    }
}

/// Tests lines full of one special value: a rare value may be in every lane of every group.
fn full_of_one<E: Number>(source: &mut Source<'_>, pairs: usize) {
    let place = Placed::bshd([1, E::SPECIAL.len(), 3, 2 * pairs]);
    let mut x = vec![E::from_f32(0.0); place.len];
    for (token, &bits) in E::SPECIAL.iter().enumerate() {
        for [batch, token, head] in place.view.heads().filter(|&[_, of, _]| of == token) {
            for channel in 0..2 * pairs {
                x[place.view.index([batch, token, head, channel])] = E::from_bits(bits);
            }
        }
    }
    for rows in every_lane_rows(source, E::SPECIAL.len(), pairs) {
        for pairing in Pairing::ALL {
            run::in_place(Rotation::forward(pairing), &rows, &x, &place);
        }
    }
}

#[test]
fn lines_full_of_one_special_value() {
    let source = &mut Source::random("lines_full_of_one_special_value");
    each_element!(full_of_one(source, 63));
}

/// The stride of a dimension with one index is never used and may be any number.
#[test]
fn strides_that_are_never_taken() {
    let head_dim = 1 << 15;
    let far = usize::MAX / 2;
    let strides = Strides {
        batch: far,
        token: far,
        head: far,
    };
    let layout = Layout::strided([1, 1, 1, head_dim], strides).expect("one head");
    let rows = [[0.6_f32].repeat(head_dim / 2), [0.8].repeat(head_dim / 2)].concat();
    let rows = Rows::new(&rows, [1, head_dim]).expect("one row");
    for backend in backends::tested() {
        let (mut x, mut y) = (vec![1.0_f32; head_dim], vec![1.0_f32; head_dim]);
        let rope = Rope::new(Pairing::Half)
            .with_backend(backend)
            .expect("a backend");
        let mut strided = TensorMut::new(&mut x, layout).expect("inside");
        rope.rotate(&mut strided, &rows).expect("rows that fit");
        let mut dense = TensorMut::new(&mut y, [1, 1, 1, head_dim]).expect("inside");
        rope.rotate(&mut dense, &rows).expect("rows that fit");
        assert_eq!(x, y, "{backend}");
    }
}

#[test]
fn anything() {
    let source = &mut Source::random("anything");
    for _ in 0..seed::times(3000) {
        bodies::rotate(source);
    }
}

fn q_and_k<Q: Number, K: Number>(source: &mut Source<'_>) {
    let (batch, tokens, head_dim) = (2, source.within(1, 4), source.within(2, 80));
    let pairs = source.within(1, head_dim / 2);
    let shapes = [4, 1].map(|heads| [batch, tokens, heads, head_dim]);
    let [q, k] = shapes.map(|shape| Placed::any(source, shape));
    let (x, y) = (values::<Q>(source, q.len), values::<K>(source, k.len));
    for row_count in [tokens, batch * tokens] {
        let rows = Stored::any(source, row_count, pairs);
        for rotation in Rotation::in_place() {
            let refusal = oracle::refusal(rotation.direction, &rows.angles, q.view.shape);
            for backend in backends::tested() {
                let (mut got_q, mut got_k) = (x.clone(), y.clone());
                let mut tensor_q = TensorMut::new(&mut got_q, q.layout).expect("a valid tensor");
                let mut tensor_k = TensorMut::new(&mut got_k, k.layout).expect("a valid tensor");
                let plan = rotation.plan(backend);
                let result = rows.with(|rows| plan.rotate_qk(&mut tensor_q, &mut tensor_k, rows));
                oracle::answered(result, refusal);
                let doing = format!("{backend}, Q {}, K {}, {rotation:?}", Q::NAME, K::NAME);
                let expected =
                    oracle::rotated(rotation, &rows.angles, (&x, &q.view), (&x, &q.view));
                compare(&got_q, &expected, &q.view, &doing);
                let expected =
                    oracle::rotated(rotation, &rows.angles, (&y, &k.view), (&y, &k.view));
                compare(&got_k, &expected, &k.view, &doing);
            }
        }
    }
}

#[test]
fn q_and_k_in_one_call_are_two_calls() {
    let source = &mut Source::random("q_and_k_in_one_call_are_two_calls");
    each_element_pair!(q_and_k(source));
}

/// The same plan gives the same bits after any other rotation and in any memory.
#[test]
fn bits_do_not_depend_on_alignment() {
    let source = &mut Source::random("bits_do_not_depend_on_alignment");
    let rows = Stored::any(source, 2, 37);
    let x = values::<bf16>(source, 2 * 3 * 75);
    for rotation in Rotation::in_place() {
        let place = Placed::bshd([1, 2, 3, 75]);
        let expected =
            oracle::rotated(rotation, &rows.angles, (&x, &place.view), (&x, &place.view));
        for backend in backends::tested() {
            for shift in 0..33 {
                let mut buffer = paint::<bf16>(source, shift);
                buffer.extend(&x);
                let mut tensor =
                    TensorMut::new(&mut buffer[shift..], place.layout).expect("a valid tensor");
                let result = rows.with(|rows| rotation.plan(backend).rotate(&mut tensor, rows));
                oracle::answered(
                    result,
                    oracle::refusal(rotation.direction, &rows.angles, place.view.shape),
                );
                compare(
                    &buffer[shift..],
                    &expected,
                    &place.view,
                    &format!("{backend}, {rotation:?}, shifted by {shift}"),
                );
            }
        }
    }
}
