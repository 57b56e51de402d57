//! The bits do not depend on the division of a rotation.

use half::bf16;
use rope_core::error::ShapeError;
use rope_core::{Backend, Dimension, Error, Rope, Rows, Tensor, TensorMut};
use rope_tests::number::{paint, values};
use rope_tests::{
    Number, Placed, Rotation, Source, Stored, backends, compare, each_element, oracle,
};

const DIMENSIONS: [Dimension; 3] = [Dimension::Batch, Dimension::Tokens, Dimension::Heads];

/// The rows of a part: `token` is its first token, `batch` its first sequence.
struct Part {
    batch: usize,
    token: usize,
    /// Number of splits that led to the part.
    depth: usize,
}

/// Rotates a part with its own rows. They are one range, except for some tokens of several sequences with separate
/// rows; these tokens are split off, sequence by sequence.
fn rotate<E: Number>(
    rope: &Rope,
    tensor: TensorMut<'_, E>,
    part: Part,
    rows: &Rows<'_>,
    of: [usize; 4],
) {
    let shape = tensor.shape();
    let [_, tokens, ..] = of;
    let first = if rows.len() == tokens {
        part.token
    } else {
        part.batch * tokens + part.token
    };
    let mut tensor = tensor;
    if rows.len() == tokens || shape.tokens == tokens {
        let sequences = if rows.len() == tokens { 1 } else { shape.batch };
        let rows = rows
            .narrow(first..first + sequences * shape.tokens)
            .expect("rows that are there");
        rope.rotate(&mut tensor, &rows).expect("rows that fit");
        return;
    }
    // Some tokens of each sequence: their rows are no range and are gathered.
    let (mut cos, mut sin) = (Vec::new(), Vec::new());
    for batch in 0..shape.batch {
        for token in 0..shape.tokens {
            let row = rows.row(first + batch * tokens + token, 0);
            let row = row.expect("a row that is there");
            cos.extend_from_slice(row.0);
            sin.extend_from_slice(row.1);
        }
    }
    let (count, pairs) = (shape.batch * shape.tokens, rows.rotary_dim() / 2);
    let rows = Rows::from_cos_sin(&cos, &sin, [count, pairs], 2 * pairs)
        .and_then(|part| part.with_attention_factor(rows.attention_factor()))
        .expect("whole rows");
    rope.rotate(&mut tensor, &rows).expect("rows that fit");
}

/// Splits until nothing is left to split or the source ends, and rotates the parts. Returns their number.
fn divide<E: Number>(
    source: &mut Source<'_>,
    rope: &Rope,
    tensor: TensorMut<'_, E>,
    part: Part,
    rows: &Rows<'_>,
    of: [usize; 4],
) -> usize {
    let shape = tensor.shape();
    if part.depth == 6 || source.once_in(6) {
        rotate(rope, tensor, part, rows, of);
        return 1;
    }
    let dimension = source.one_of(&DIMENSIONS);
    let extent = match dimension {
        Dimension::Batch => shape.batch,
        Dimension::Tokens => shape.tokens,
        _ => shape.heads,
    };
    let at = source.below(extent + 1);
    let (layout, strides) = (*tensor.layout(), tensor.layout().strides());
    let longest = [
        (shape.batch, strides.batch, Dimension::Batch),
        (shape.tokens, strides.token, Dimension::Tokens),
        (shape.heads, strides.head, Dimension::Heads),
    ]
    .into_iter()
    .filter(|&(extent, ..)| extent > 1)
    .map(|(_, stride, dimension)| (stride, dimension))
    .max_by_key(|&(stride, _)| stride);
    let mut tensor = tensor;
    match tensor.reborrow().split_at(dimension, at) {
        Ok((first, second)) => {
            let (batch, token) = match dimension {
                Dimension::Batch => (at, 0),
                Dimension::Tokens => (0, at),
                _ => (0, 0),
            };
            let depth = part.depth + 1;
            let rest = Part {
                batch: part.batch + batch,
                token: part.token + token,
                depth,
            };
            let part = Part { depth, ..part };
            divide(source, rope, first, part, rows, of)
                + divide(source, rope, second, rest, rows, of)
        }
        Err(error) => {
            assert_eq!(
                error,
                Error::Shape(ShapeError::PartsInterleave { dimension })
            );
            assert_ne!(
                longest.map(|(_, longest)| longest),
                Some(dimension),
                "{layout:?} at {at}"
            );
            rotate(rope, tensor, part, rows, of);
            1
        }
    }
}

fn split<E: Number>(source: &mut Source<'_>) {
    let shape = [
        source.within(1, 3),
        source.within(1, 5),
        source.within(1, 4),
        source.within(2, 80),
    ];
    let [batch, tokens, _, head_dim] = shape;
    let rows = source.one_of(&[tokens, batch * tokens]);
    let pairs = source.within(1, head_dim / 2);
    let rows = Stored::any(source, rows, pairs);
    let rotations: Vec<Rotation> = Rotation::in_place().collect();
    let rotation = source.one_of(&rotations).allowed(&rows.angles);
    let place = Placed::any(source, shape);
    let x = values::<E>(source, place.len);
    let expected = oracle::rotated(rotation, &rows.angles, (&x, &place.view), (&x, &place.view));
    for backend in backends::tested() {
        let mut got = x.clone();
        let tensor = TensorMut::new(&mut got, place.layout).expect("a valid tensor");
        let whole = Part {
            batch: 0,
            token: 0,
            depth: 0,
        };
        let plan = rotation.plan(backend);
        let parts = rows.with(|rows| divide(source, &plan, tensor, whole, rows, shape));
        compare(
            &got,
            &expected,
            &place.view,
            &format!("{backend}, {}, {rotation:?} in {parts} parts", E::NAME),
        );
    }
}

#[test]
fn any_split_gives_the_same_bits() {
    let source = &mut Source::random("any_split_gives_the_same_bits");
    for _ in 0..400 {
        each_element!(split(source));
    }
}

/// Source and target, split alike.
#[test]
fn into_another_tensor() {
    let source = &mut Source::random("into_another_tensor");
    let shape = [2, 3, 4, 38];
    for (dimension, extent) in [
        (Dimension::Batch, 2),
        (Dimension::Tokens, 3),
        (Dimension::Heads, 4),
    ] {
        for at in 0..=extent {
            let rows = Stored::any(source, 3, 16);
            let (from, to) = (Placed::bhsd(shape), Placed::any(source, shape));
            let (x, y) = (
                values::<f32>(source, from.len),
                paint::<bf16>(source, to.len),
            );
            for rotation in Rotation::all() {
                let rotation = rotation.allowed(&rows.angles);
                let expected =
                    oracle::rotated(rotation, &rows.angles, (&x, &from.view), (&y, &to.view));
                let mut got = y.clone();
                let tensor = Tensor::new(&x, from.layout).expect("a valid tensor");
                let (x1, x2) = tensor
                    .split_at(dimension, at)
                    .expect("a tensor to read always splits");
                let target = TensorMut::new(&mut got, to.layout).expect("a valid tensor");
                let (mut y1, mut y2) = match target.split_at(dimension, at) {
                    Ok(parts) => parts,
                    Err(error) => {
                        assert_eq!(
                            error,
                            Error::Shape(ShapeError::PartsInterleave { dimension })
                        );
                        break;
                    }
                };
                let middle = if dimension == Dimension::Tokens {
                    at
                } else {
                    3
                };
                let rest = if dimension == Dimension::Tokens {
                    at
                } else {
                    0
                };
                let plan = rotation.plan(Backend::best());
                rows.with(|rows| {
                    let first = rows.narrow(0..middle).expect("rows that are there");
                    plan.rotate_into(&x1, &mut y1, &first)
                        .expect("rows that fit");
                    let second = rows.narrow(rest..3).expect("rows that are there");
                    plan.rotate_into(&x2, &mut y2, &second)
                        .expect("rows that fit");
                });
                compare(
                    &got,
                    &expected,
                    &to.view,
                    &format!("{rotation:?}, {dimension} at {at}"),
                );
            }
        }
    }
}

/// The dimension with the longest stride can always be split; a dimension that others reach over cannot, unless a part
/// is empty.
#[test]
fn parts_that_interleave_are_refused() {
    let mut data = vec![0.0_f32; 192];
    let shape = [2, 3, 4, 8];
    for (place, order) in [
        (
            Placed::bshd(shape),
            [Dimension::Batch, Dimension::Tokens, Dimension::Heads],
        ),
        (
            Placed::bhsd(shape),
            [Dimension::Batch, Dimension::Heads, Dimension::Tokens],
        ),
    ] {
        let mut split = |dimension, at| {
            let tensor = TensorMut::new(&mut data, place.layout).expect("a valid tensor");
            tensor
                .split_at(dimension, at)
                .map(|(first, second)| (first.shape(), second.shape()))
        };
        let [outer, middle, inner] = order;
        assert!(split(outer, 1).is_ok());
        assert_eq!(
            split(middle, 1),
            Err(Error::Shape(ShapeError::PartsInterleave {
                dimension: middle
            }))
        );
        assert_eq!(
            split(inner, 1),
            Err(Error::Shape(ShapeError::PartsInterleave {
                dimension: inner
            }))
        );
        for (dimension, extent) in [
            (Dimension::Batch, 2),
            (Dimension::Tokens, 3),
            (Dimension::Heads, 4),
        ] {
            assert!(split(dimension, 0).is_ok(), "{dimension}");
            assert!(split(dimension, extent).is_ok(), "{dimension}");
        }
    }
}

/// Threads share a plan and rows.
#[test]
#[cfg(not(target_family = "wasm"))]
fn threads_share_a_rotation() {
    let source = &mut Source::random("threads_share_a_rotation");
    let shape = [1, 16, 3, 70];
    let place = Placed::bshd(shape);
    let x = values::<f32>(source, place.len);
    let rows = Stored::any(source, 16, 32);
    for rotation in Rotation::in_place() {
        let rotation = rotation.allowed(&rows.angles);
        let expected =
            oracle::rotated(rotation, &rows.angles, (&x, &place.view), (&x, &place.view));
        let mut got = x.clone();
        let plan = rotation.plan(Backend::best());
        rows.with(|rows| {
            std::thread::scope(|scope| {
                let mut rest = TensorMut::new(&mut got, place.layout).expect("a valid tensor");
                for start in (0..16).step_by(4) {
                    let (mut part, others) = rest
                        .split_at(Dimension::Tokens, 4)
                        .expect("tokens are outermost");
                    rest = others;
                    scope.spawn(move || {
                        let rows = rows.narrow(start..start + 4).expect("rows that are there");
                        plan.rotate(&mut part, &rows).expect("rows that fit");
                    });
                }
            });
        });
        compare(&got, &expected, &place.view, &format!("{rotation:?}"));
    }
}
