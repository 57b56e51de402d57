//! What a rotation is for: it keeps lengths, it can be undone, and scores depend on distances only. And what the
//! documentation says about values that are no ordinary numbers.

use std::hint::black_box;

use approx::assert_abs_diff_eq;
use half::{bf16, f16};
use rope_core::{Backend, Direction, Pairing, Rope, Tensor, TensorMut};
use rope_tests::number::{Temper, paint, values};
use rope_tests::{
    Angles, Number, Placed, Plan, Rotation, Source, Stored, compare, each_element,
    each_element_pair, exact, oracle,
};

/// Exact rows of some positions, rounded once, for random steps of a turn.
fn rows(steps: &[u128], positions: &[i64], attention_factor: f64) -> Stored {
    let (cos, sin) = positions
        .iter()
        .flat_map(|&position| {
            steps
                .iter()
                .map(move |&step| exact::cos_sin(position, step))
        })
        .map(|(cos, sin)| {
            (
                (attention_factor * cos) as f32,
                (attention_factor * sin) as f32,
            )
        })
        .unzip();
    Stored::plain(Angles {
        rows: positions.len(),
        pairs: steps.len(),
        cos,
        sin,
        attention_factor,
    })
}

/// The steps of random frequencies, from a turn every few positions to one in a million.
fn steps(source: &mut Source<'_>, pairs: usize) -> Vec<u128> {
    (0..pairs)
        .map(|_| source.wide() >> source.within(2, 20))
        .collect()
}

fn rotate<E: Number>(
    rotation: Rotation,
    backend: Backend,
    rows: &Stored,
    x: &[E],
    shape: [usize; 4],
) -> Vec<E> {
    let mut y = x.to_vec();
    let mut tensor = TensorMut::new(&mut y, shape).expect("a valid tensor");
    rows.with(|rows| {
        Plan::new(rotation, backend)
            .rotate(&mut tensor, rows)
            .expect("rows that fit")
    });
    y
}

/// The members of each pair of each head.
fn pairs<E: Number>(x: &[E], head_dim: usize, pairing: Pairing) -> impl Iterator<Item = [f64; 2]> {
    let n = head_dim / 2;
    x.chunks(head_dim).flat_map(move |head| {
        (0..n).map(move |i| {
            let [first, second] = match pairing {
                Pairing::Interleaved => [2 * i, 2 * i + 1],
                Pairing::Half => [i, i + n],
            };
            [
                f64::from(head[first].to_f32()),
                f64::from(head[second].to_f32()),
            ]
        })
    })
}

fn dot<E: Number>(x: &[E], y: &[E]) -> f64 {
    x.iter()
        .zip(y)
        // The box keeps s390x from multiplying f32 to f64 at once, which qemu before 8.0 gets wrong (MDEBR).
        .map(|(x, y)| black_box(f64::from(x.to_f32())) * f64::from(y.to_f32()))
        .sum()
}

/// Between 1/2 and 1, or the negative: pairs whose length is not far from 1, so that f16 has no subnormals in them.
fn vector<E: Number>(source: &mut Source<'_>, len: usize) -> Vec<E> {
    (0..len)
        .map(|_| {
            let value = source.unit();
            E::from_f32(value.signum() * (0.5 + value.abs() / 2.0))
        })
        .collect()
}

fn keeps_lengths<E: Number>(source: &mut Source<'_>, bound: f64) {
    let (tokens, head_dim) = (16, 128);
    let shape = [1, tokens, 2, head_dim];
    let steps = steps(source, head_dim / 2);
    let positions: Vec<i64> = (0..tokens).map(|_| source.word().into()).collect();
    let rows = rows(&steps, &positions, 1.0);
    let x = vector::<E>(source, tokens * 2 * head_dim);
    for backend in Backend::available() {
        for rotation in Rotation::in_place() {
            let y = rotate(rotation, backend, &rows, &x, shape);
            let (before, after) = (
                pairs(&x, head_dim, rotation.input),
                pairs(&y, head_dim, rotation.input),
            );
            for (before, after) in before.zip(after) {
                let length = |[x, y]: [f64; 2]| x.hypot(y);
                let error = (length(after) / length(before) - 1.0).abs();
                assert!(
                    error <= bound,
                    "{backend}, {}, {rotation:?}: {before:?} became {after:?}",
                    E::NAME
                );
            }
        }
    }
}

#[test]
fn a_rotation_keeps_the_length_of_every_pair() {
    let source = &mut Source::random("a_rotation_keeps_the_length_of_every_pair");
    keeps_lengths::<f32>(source, 1.5e-7);
    keeps_lengths::<bf16>(source, 3.92e-3);
    keeps_lengths::<f16>(source, 4.9e-4);
}

fn is_undone<E: Number>(source: &mut Source<'_>, bound: f64) {
    let (tokens, head_dim) = (16, 128);
    let shape = [1, tokens, 2, head_dim];
    let steps = steps(source, head_dim / 2);
    let positions: Vec<i64> = (0..tokens).map(|_| source.word().into()).collect();
    let x = vector::<E>(source, tokens * 2 * head_dim);
    for (attention_factor, direction) in [
        (1.0, Direction::Inverse),
        (1.0, Direction::Transpose),
        (1.190_238_717_523_3, Direction::Inverse),
        (-0.75, Direction::Inverse),
    ] {
        // The factor 1/A^2 is rounded, and so are the products with it: two or three more roundings of f32.
        let bound = if attention_factor == 1.0 {
            bound
        } else {
            bound + 3e-7
        };
        let rows = rows(&steps, &positions, attention_factor);
        for backend in Backend::available() {
            for pairing in Pairing::ALL {
                let there = Rotation::forward(pairing);
                let back = Rotation { direction, ..there };
                let y = rotate(there, backend, &rows, &x, shape);
                let z = rotate(back, backend, &rows, &y, shape);
                for ([a, b], [c, d]) in
                    pairs(&x, head_dim, pairing).zip(pairs(&z, head_dim, pairing))
                {
                    let error = (a - c).hypot(b - d) / a.hypot(b);
                    assert!(
                        error <= bound,
                        "{backend}, {}, {back:?}, {attention_factor}: {error}",
                        E::NAME
                    );
                }
            }
        }
    }
}

#[test]
fn the_inverse_undoes() {
    let source = &mut Source::random("the_inverse_undoes");
    is_undone::<f32>(source, 2.7e-7);
    is_undone::<bf16>(source, 7.9e-3);
    is_undone::<f16>(source, 9.8e-4);
}

/// The score of two vectors at positions m and n, less that at m + s and n + s, over the product of their lengths.
///
/// `typical` is the largest error seen of T11 of the accuracy targets; its half bounds the root mean square of these.
/// `u` is the most that a component of an output is off, over the length of its pair: four vectors are, in two
/// components each.
fn relative<E: Number>(source: &mut Source<'_>, typical: f64, u: f64) {
    let head_dim = 128;
    let steps = steps(source, head_dim / 2);
    let (mut squares, mut count) = (0.0, 0);
    for _ in 0..64 {
        let [m, n, s] = [source.word(), source.word(), source.word()].map(i64::from);
        let rows = rows(&steps, &[m, n, m + s, n + s], 1.0);
        let (q, k) = (vector::<E>(source, head_dim), vector::<E>(source, head_dim));
        let x = [&q[..], &k, &q, &k].concat();
        for pairing in Pairing::ALL {
            let rotation = Rotation::forward(pairing);
            // The bits of all backends are the same: see `agree`.
            let y = rotate(rotation, Backend::best(), &rows, &x, [1, 4, 1, head_dim]);
            let [here, there] = [0, 2].map(|at| {
                let row = |row: usize| &y[row * head_dim..][..head_dim];
                dot(row(at), row(at + 1))
            });
            let lengths = (dot(&q, &q) * dot(&k, &k)).sqrt();
            let error = (here - there).abs() / lengths;
            assert!(
                error <= 4.0 * 2.0_f64.sqrt() * u,
                "{}, {pairing}, {m} {n} {s}: {error:e}",
                E::NAME
            );
            squares += error * error;
            count += 1;
        }
    }
    let rms = (squares / f64::from(count)).sqrt();
    println!("{}: rms {rms:e}", E::NAME);
    assert!(rms <= typical / 2.0, "{}: {rms:e}", E::NAME);
}

#[test]
fn scores_depend_on_distances() {
    let source = &mut Source::random("scores_depend_on_distances");
    relative::<f32>(source, 2.5e-8, 2.75 * 2.0_f64.powi(-24));
    relative::<bf16>(source, 1e-3, 1.01 * 2.0_f64.powi(-8));
    relative::<f16>(source, 1.2e-4, 1.01 * 2.0_f64.powi(-11));
}

/// `<R x, y> = <x, R^T y>`: with small whole numbers for everything, every operation is exact, and so is this.
fn gradient<E: Number>(source: &mut Source<'_>) {
    let shape = [2, 3, 2, 74];
    let small = |source: &mut Source<'_>| source.below(7) as f32 - 3.0;
    let pairs = 33;
    let angles = Angles {
        rows: 3,
        pairs,
        cos: (0..3 * pairs).map(|_| small(source)).collect(),
        sin: (0..3 * pairs).map(|_| small(source)).collect(),
        attention_factor: 1.5,
    };
    let rows = Stored::plain(angles);
    let mut vector = || {
        (0..12 * 74)
            .map(|_| E::from_f32(small(source)))
            .collect::<Vec<E>>()
    };
    let (x, y) = (vector(), vector());
    for backend in Backend::available() {
        for pairing in Pairing::ALL {
            let forward = Rotation::forward(pairing);
            let transpose = Rotation {
                direction: Direction::Transpose,
                ..forward
            };
            let left = dot(&rotate(forward, backend, &rows, &x, shape), &y);
            let right = dot(&x, &rotate(transpose, backend, &rows, &y, shape));
            assert_eq!(left, right, "{backend}, {}, {pairing}", E::NAME);
        }
    }
}

#[test]
fn the_transpose_is_the_gradient() {
    let source = &mut Source::random("the_transpose_is_the_gradient");
    each_element!(gradient(source));
    // And with angles, to within the rounding of two times 128 products.
    let steps = steps(source, 64);
    let rows = rows(&steps, &[123_456_789], 1.25);
    let (x, y) = (vector::<f32>(source, 128), vector::<f32>(source, 128));
    let transpose = Rotation {
        direction: Direction::Transpose,
        ..Rotation::forward(Pairing::Half)
    };
    let left = dot(
        &rotate(
            Rotation::forward(Pairing::Half),
            Backend::best(),
            &rows,
            &x,
            [1, 1, 1, 128],
        ),
        &y,
    );
    let right = dot(
        &x,
        &rotate(transpose, Backend::best(), &rows, &y, [1, 1, 1, 128]),
    );
    assert_abs_diff_eq!(
        left,
        right,
        epsilon = 128.0 * 4.0 * 2.75 * f64::from(f32::EPSILON)
    );
}

/// The finite difference of the loss `<R x, y>` is the transpose, which the inverse is not when there is an attention
/// factor.
#[test]
fn inverse_and_transpose_differ_by_the_square_of_the_attention_factor() {
    let rows = rows(&[1 << 125], &[1], 2.0);
    let rotated = |direction| {
        let rotation = Rotation {
            direction,
            ..Rotation::forward(Pairing::Half)
        };
        rotate(
            rotation,
            Backend::best(),
            &rows,
            &[1.0_f32, 0.0],
            [1, 1, 1, 2],
        )
    };
    let (inverse, transpose) = (rotated(Direction::Inverse), rotated(Direction::Transpose));
    assert_eq!(
        inverse.iter().map(|x| 4.0 * x).collect::<Vec<f32>>(),
        transpose
    );
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
            for backend in Backend::available() {
                let (mut got_q, mut got_k) = (x.clone(), y.clone());
                let mut tensor_q = TensorMut::new(&mut got_q, q.layout).expect("a valid tensor");
                let mut tensor_k = TensorMut::new(&mut got_k, k.layout).expect("a valid tensor");
                let plan = Plan::new(rotation, backend);
                rows.with(|rows| {
                    plan.rotate_qk(&mut tensor_q, &mut tensor_k, rows)
                        .expect("rows that fit")
                });
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

/// Of a head of 40 channels whose first 36 rotate by nothing, channel by channel.
fn through<I: Number, O: Number>(backend: Backend, pairing: Pairing, x: &[I]) -> Vec<O> {
    let angles = Angles {
        rows: 1,
        pairs: 18,
        cos: vec![1.0; 18],
        sin: vec![0.0; 18],
        attention_factor: 1.0,
    };
    let mut y = vec![O::from_f32(1.0); 40];
    let source = Tensor::new(x, [1, 1, 1, 40]).expect("a valid tensor");
    let mut target = TensorMut::new(&mut y, [1, 1, 1, 40]).expect("a valid tensor");
    Stored::plain(angles)
        .with(|rows| {
            Plan::new(Rotation::forward(pairing), backend).rotate_into(&source, &mut target, rows)
        })
        .expect("rows that fit");
    y
}

/// The documentation of `Element`: infinities, subnormals and the sign of zero are kept by the conversions, what rounds
/// beyond the largest value is an infinity, a NaN stays one.
fn special_values<I: Number, O: Number>() {
    for backend in Backend::available() {
        for pairing in Pairing::ALL {
            for &special in I::SPECIAL {
                let value = I::from_bits(special);
                for channel in 0..40 {
                    // Zeros beside it: -0 where it rotates with a second member, so that the sum has the sign of that.
                    let mut x = vec![I::from_f32(0.0); 40];
                    let second = match pairing {
                        Pairing::Half => (18..36).contains(&channel),
                        Pairing::Interleaved => channel < 36 && channel % 2 == 1,
                    };
                    if second {
                        x = vec![I::from_f32(-0.0); 40];
                    }
                    x[channel] = value;
                    let y = through::<I, O>(backend, pairing, &x)[channel];
                    let wide = value.to_f32();
                    let doing = format!(
                        "{backend}, {} to {}, {pairing}, {value:?}: {y:?}",
                        I::NAME,
                        O::NAME
                    );
                    assert_eq!(y.is_nan(), wide.is_nan(), "{doing}");
                    if !wide.is_nan() {
                        assert_eq!(
                            y.to_f32().is_sign_negative(),
                            wide.is_sign_negative(),
                            "{doing}"
                        );
                        assert_eq!(y.bits(), O::from_f32(wide).bits(), "{doing}");
                    }
                    if I::NAME == O::NAME && channel >= 36 {
                        assert_eq!(y.bits(), special, "{doing}: copied as bits");
                    }
                }
            }
        }
    }
}

#[test]
fn special_values_are_kept() {
    each_element_pair!(special_values());
}

/// A special value reaches the two members of its pair, and no other channel.
fn stays_in_its_pair<E: Number>(source: &mut Source<'_>) {
    let shape = [1, 1, 1, 100];
    let rows = rows(&steps(source, 48), &[77], 1.0);
    let clean: Vec<E> = (0..100).map(|_| Temper::Ordinary.value(source)).collect();
    for backend in Backend::available() {
        for rotation in Rotation::in_place() {
            let before = rotate(rotation, backend, &rows, &clean, shape);
            for channel in 0..100 {
                for special in [f32::NAN, f32::INFINITY] {
                    let mut x = clean.clone();
                    x[channel] = E::from_f32(special);
                    let after = rotate(rotation, backend, &rows, &x, shape);
                    let partner = match rotation.input {
                        _ if channel >= 96 => channel,
                        Pairing::Half => (channel + 48) % 96,
                        Pairing::Interleaved => channel ^ 1,
                    };
                    for (i, (before, after)) in before.iter().zip(&after).enumerate() {
                        let same = before.bits() == after.bits();
                        let reached = i == channel || i == partner;
                        assert_eq!(
                            same,
                            !reached,
                            "{backend}, {}, {rotation:?}: {special} at {channel}, {i}",
                            E::NAME
                        );
                        assert!(!reached || !after.to_f32().is_finite());
                    }
                }
            }
        }
    }
}

#[test]
fn a_special_value_stays_in_its_pair() {
    let source = &mut Source::random("a_special_value_stays_in_its_pair");
    each_element!(stays_in_its_pair(source));
}

/// An infinity times zero: the angle of position 0 makes a NaN of an infinity's partner, as the definition does.
#[test]
fn an_infinity_beside_a_sine_of_zero_makes_its_partner_not_a_number() {
    for backend in Backend::available() {
        for pairing in Pairing::ALL {
            let rows = rows(&[1 << 100], &[0], 1.0);
            let y = rotate(
                Rotation::forward(pairing),
                backend,
                &rows,
                &[f32::INFINITY, 1.0],
                [1, 1, 1, 2],
            );
            assert_eq!(y[0], f32::INFINITY);
            assert!(y[1].is_nan());
        }
    }
}

/// What is finite may overflow, in the product, in the sum, and where it is rounded.
#[test]
fn overflow_is_an_infinity() {
    let rows = Stored::plain(Angles {
        rows: 1,
        pairs: 1,
        cos: vec![0.75],
        sin: vec![0.75],
        attention_factor: 1.0,
    });
    for backend in Backend::available() {
        for pairing in Pairing::ALL {
            let rotation = Rotation::forward(pairing);
            let y = rotate(
                rotation,
                backend,
                &rows,
                &[f32::MAX, f32::MAX],
                [1, 1, 1, 2],
            );
            assert_eq!(y, [0.0, f32::INFINITY]);
            let y = rotate(
                rotation,
                backend,
                &rows,
                &[f16::MAX, f16::MIN],
                [1, 1, 1, 2],
            );
            assert_eq!(y, [f16::INFINITY, f16::from_f32(0.0)]);
            let y = rotate(
                rotation,
                backend,
                &rows,
                &[bf16::MIN, bf16::MIN],
                [1, 1, 1, 2],
            );
            assert_eq!(y, [bf16::from_f32(0.0), bf16::NEG_INFINITY]);
        }
    }
}

/// The same plan gives the same bits, whatever was rotated before, and in whatever memory.
#[test]
fn bits_do_not_depend_on_alignment() {
    let source = &mut Source::random("bits_do_not_depend_on_alignment");
    let rows = Stored::any(source, 2, 37);
    let x = values::<bf16>(source, 2 * 3 * 75);
    for rotation in Rotation::in_place() {
        let place = Placed::bshd([1, 2, 3, 75]);
        let expected =
            oracle::rotated(rotation, &rows.angles, (&x, &place.view), (&x, &place.view));
        for backend in Backend::available() {
            for shift in 0..33 {
                let mut buffer = paint::<bf16>(source, shift);
                buffer.extend(&x);
                let mut tensor =
                    TensorMut::new(&mut buffer[shift..], place.layout).expect("a valid tensor");
                rows.with(|rows| {
                    Plan::new(rotation, backend)
                        .rotate(&mut tensor, rows)
                        .expect("rows that fit")
                });
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

/// A tensor without elements is not touched, and refuses nothing that it would take with elements.
#[test]
fn empty_tensors_are_fine() {
    let table = [1.0, 0.0];
    let rows = rope_core::Rows::new(&table, 2).expect("one row");
    let none = rope_core::Rows::new(&[], 2).expect("no rows");
    for backend in Backend::available() {
        let rope = Plan(
            Rope::new(Pairing::Half)
                .backend(backend)
                .expect("an available backend"),
        );
        let huge = usize::MAX;
        for (shape, rows) in [
            ([0, 1, 1, 2], &rows),
            ([1, 0, 1, 2], &none),
            ([1, 1, 0, 2], &rows),
            ([huge, 1, 0, 2], &rows),
            ([huge, 0, 1, 2], &none),
            ([huge, 0, huge, 2], &none),
            ([0, 1, huge, huge], &rows),
        ] {
            // The strides of an empty tensor mean nothing.
            let strides = rope_core::Strides {
                batch: huge,
                token: huge,
                head: huge,
            };
            let layout = rope_core::Layout::strided(shape, strides).expect("an empty tensor");
            let mut x = TensorMut::<f32>::new(&mut [], layout).expect("an empty tensor");
            rope.rotate(&mut x, rows).expect("rows that fit");
            let from = Tensor::<f16>::new(&[], layout).expect("an empty tensor");
            rope.rotate_into(&from, &mut x, rows)
                .expect("rows that fit");
            let mut k = TensorMut::<bf16>::new(&mut [], layout).expect("an empty tensor");
            rope.rotate_qk(&mut x, &mut k, rows).expect("rows that fit");
        }
    }
}
