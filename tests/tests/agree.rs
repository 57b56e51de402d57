//! Every backend gives the bits of the oracle, and writes nothing else.

use rope_core::{Direction, Pairing};
use rope_tests::number::{paint, special, values};
use rope_tests::{
    Angles, Form, Number, Placed, Source, Stored, Turn, bodies, each_element, each_element_pair,
    run,
};

/// The shape, from tensors without gaps to tensors anywhere.
fn place(source: &mut Source<'_>, shape: [usize; 4]) -> Placed {
    Placed::any(source, shape)
}

/// In place, both pairings, all directions.
fn in_place<E: Number>(source: &mut Source<'_>, shape: [usize; 4], rows: &Stored) {
    for turn in Turn::in_place() {
        let place = place(source, shape);
        let x = values::<E>(source, place.len);
        run::in_place(turn, rows, &x, &place);
    }
}

/// Into another tensor, all pairings, all directions.
fn into<I: Number, O: Number>(source: &mut Source<'_>, shape: [usize; 4], rows: &Stored) {
    for turn in Turn::all() {
        let (from, to) = (place(source, shape), place(source, shape));
        let x = values::<I>(source, from.len);
        let y = paint::<O>(source, to.len);
        run::into(turn, rows, (&x, &from), (&y, &to));
    }
}

/// Everything that can be done with a shape.
fn all(source: &mut Source<'_>, shape: [usize; 4], rotary_dim: usize) {
    let [batch, tokens, _, _] = shape;
    for rows in [tokens, batch * tokens] {
        let rows = Stored::any(source, rows, rotary_dim / 2);
        each_element!(in_place(source, shape, &rows));
        each_element_pair!(into(source, shape, &rows));
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
        all(source, shape, head_dim & !1);
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

/// More pairs than any backend keeps in registers, with every kind of remainder.
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

/// More tokens than are walked at a time, in both orders of heads and tokens.
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

/// Every way to store rows and to pick them out of a table.
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

/// A tensor whose heads have a special value each, at every channel in turn; the other channels are ordinary.
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
            // Beside it another one: they may meet in a pair.
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

/// Any rows; and rows that turn nothing, so that a special value comes out beside ordinary ones, to be rounded.
fn every_lane_rows(source: &mut Source<'_>, tokens: usize, pairs: usize) -> [Stored; 2] {
    let identity = Angles {
        rows: tokens,
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
            let turn = Turn {
                direction: source.one_of(&Direction::ALL),
                ..Turn::forward(pairing)
            };
            run::in_place(turn, &rows, &x, &place);
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
        for turn in Turn::all().filter(|turn| turn.direction == Direction::Forward) {
            run::into(turn, &rows, (&x, &place), (&y, &place));
        }
    }
}

/// 16 + 15 pairs, or channels that pass, reach every kind of vector and every lane of it.
#[test]
fn special_values_in_every_lane() {
    let source = &mut Source::random("special_values_in_every_lane");
    for (head_dim, rotary_dim) in [(62, 62), (33, 2)] {
        each_element!(every_lane_in_place(source, head_dim, rotary_dim));
        each_element_pair!(every_lane_into(source, head_dim, rotary_dim));
    }
}

#[test]
fn anything() {
    let source = &mut Source::random("anything");
    for _ in 0..3000 {
        bodies::rotate(source);
    }
}
