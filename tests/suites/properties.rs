//! The mathematical properties of a rotation: it keeps lengths, it can be undone, scores depend only on distances, and
//! its transpose is its gradient. All backends give the same bits (see `agree`); these tests therefore use the fastest
//! one.

use std::hint::black_box;

use approx::assert_abs_diff_eq;
use rope_core::{Backend, Direction, Frequencies, Pairing, Rope, Scaling, TensorMut, Yarn};
use rope_tests::{Angles, Number, Rotation, Source, Stored, bounds, each_element, exact};

use crate::models::{far, members, ordinary, same};

fn llama() -> Frequencies<'static> {
    Frequencies::new(128, 5e5, &Scaling::Default).expect("frequencies")
}

/// Returns frequencies with an attention factor of about 1.27.
fn yarn() -> Frequencies<'static> {
    let scaling = Scaling::Yarn(Yarn::new(16.0, 8192));
    Frequencies::new(128, 5e5, &scaling).expect("frequencies")
}

const TOKENS: usize = 500;

/// Heads of 128 channels, one for each token, and their pairing.
#[derive(Clone)]
struct Heads<E> {
    pairing: Pairing,
    x: Vec<E>,
}

impl<E: Number> Heads<E> {
    fn any(source: &mut Source<'_>, pairing: Pairing) -> Self {
        let x = ordinary(source, TOKENS * 128);
        Heads { pairing, x }
    }

    /// Rotates the heads by these frequencies at these positions.
    fn rotated(&self, frequencies: &Frequencies<'_>, ids: &[i64], direction: Direction) -> Self {
        let rows = frequencies.rows(ids).expect("ids");
        let mut heads = self.clone();
        let mut tensor = TensorMut::new(&mut heads.x, [1, TOKENS, 1, 128]).expect("a tensor");
        let rope = Rope::new(self.pairing).with_direction(direction);
        rope.rotate(&mut tensor, &rows).expect("rows that fit");
        heads
    }

    fn pair(&self, token: usize, pair: usize) -> [f64; 2] {
        members(self.pairing, pair, 64)
            .map(|channel| f64::from(self.x[128 * token + channel].to_f32()))
    }
}

/// Returns the worst error of a pair, without pairs that are too short for f16's precision.
fn worst<E: Number>(x: &Heads<E>, y: &Heads<E>, error: fn([f64; 2], [f64; 2]) -> f64) -> f64 {
    let pairs = (0..TOKENS).flat_map(|token| (0..64).map(move |pair| (token, pair)));
    let worst = pairs
        .map(|(token, pair)| (x.pair(token, pair), y.pair(token, pair)))
        .filter(|([a, b], _)| a.hypot(*b) >= 0.125)
        .map(|(x, y)| error(x, y))
        // `max` of a number and a NaN is the number.
        .inspect(|error| assert!(error.is_finite()))
        .fold(0.0, f64::max);
    println!("{}, {}: {worst:.3e}", E::NAME, x.pairing);
    worst
}

/// Returns the same choices every time, for the figures of [`bounds`]; a bound is tested with other choices as well.
fn sample() -> Vec<u8> {
    let mut state = 1_u64;
    let word = |_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        ((state >> 32) as u32).to_le_bytes()
    };
    (0..TOKENS * 132).flat_map(word).collect()
}

/// Returns a bound in units of `u` for f32; the rounding to 16 bits is a bound already.
fn bound<E: Number>(units: f64, figure: f64) -> f64 {
    match E::NAME {
        "f32" => units * bounds::of::<E>().u,
        _ => figure,
    }
}

fn norm<E: Number>(source: &mut Source<'_>, pairing: Pairing, bound: f64) {
    let x = Heads::<E>::any(source, pairing);
    let y = x.rotated(&llama(), &far(source, TOKENS), Direction::Forward);
    let error = |[a, b]: [f64; 2], [c, d]: [f64; 2]| (c.hypot(d) / a.hypot(b) - 1.0).abs();
    assert!(worst(&x, &y, error) <= bound);
}

fn keeps_lengths<E: Number>(sample: &[u8], random: &mut Source<'_>) {
    let bounds = bounds::of::<E>();
    for pairing in Pairing::ALL {
        norm::<E>(&mut Source::bytes(sample), pairing, bounds.norm);
        norm::<E>(random, pairing, bound::<E>(bounds.pair, bounds.norm));
    }
}

#[test]
fn a_rotation_keeps_the_length_of_every_pair() {
    let source = &mut Source::random("a_rotation_keeps_the_length_of_every_pair");
    let sample = sample();
    each_element!(keeps_lengths(&sample, source));
}

fn round_trip<E: Number>(
    source: &mut Source<'_>,
    pairing: Pairing,
    frequencies: &Frequencies<'_>,
    bound: f64,
) {
    let x = Heads::<E>::any(source, pairing);
    let ids = far(source, TOKENS);
    let there = x.rotated(frequencies, &ids, Direction::Forward);
    let back = there.rotated(frequencies, &ids, Direction::Inverse);
    let error = |[a, b]: [f64; 2], [c, d]: [f64; 2]| (a - c).hypot(b - d) / a.hypot(b);
    assert!(worst(&x, &back, error) <= bound);

    // Positions of the other sign rotate back as well if there is no factor to undo; the transpose does, too.
    if frequencies.attention_factor() == 1.0 {
        let minus: Vec<i64> = ids.iter().map(|id| -id).collect();
        let other = there.rotated(frequencies, &minus, Direction::Forward);
        same(&other.x, &back.x, "positions of the other sign");
        let other = there.rotated(frequencies, &ids, Direction::Transpose);
        same(&other.x, &back.x, "the transpose");
    }
}

fn is_undone<E: Number>(sample: &[u8], random: &mut Source<'_>) {
    let bounds = bounds::of::<E>();
    for frequencies in [llama(), yarn()] {
        // A factor adds two roundings: of its inverse square, and of the product of this square with cos and sin.
        let (figure, units) = match frequencies.attention_factor() {
            1.0 => (bounds.round_trip[0], 2.0 * bounds.pair),
            _ => (bounds.round_trip[1], 2.0 * bounds.pair + 2.0),
        };
        for pairing in Pairing::ALL {
            round_trip::<E>(&mut Source::bytes(sample), pairing, &frequencies, figure);
            round_trip::<E>(random, pairing, &frequencies, bound::<E>(units, figure));
        }
    }
}

#[test]
fn the_inverse_undoes() {
    let source = &mut Source::random("the_inverse_undoes");
    let sample = sample();
    each_element!(is_undone(&sample, source));
}

/// Compares the scores of queries and keys, rotated at positions up to 2^32, with the scores at their distances;
/// returns the worst error, and the worst error of a pair in units of u.
fn scores<E: Number>(source: &mut Source<'_>, pairing: Pairing) -> (f64, f64) {
    let frequencies = llama();
    let steps: Vec<u128> = frequencies.iter().map(|pair| pair.step).collect();
    let x = Heads::<E>::any(source, pairing);
    let ids: Vec<i64> = (0..TOKENS).map(|_| source.word().into()).collect();
    let y = x.rotated(&frequencies, &ids, Direction::Forward);
    let (mut worst, mut worst_pair) = (0f64, 0f64);
    for query in 0..TOKENS {
        let key = (7 * query + 1) % TOKENS;
        let (mut error, mut norms) = (0.0, [0.0; 2]);
        for (i, &step) in steps.iter().enumerate() {
            let ([a, b], k) = (x.pair(query, i), x.pair(key, i));
            // <R(m) q, R(n) k> = <R(m - n) q, k>
            let angle = exact::cos_sin(ids[query] - ids[key], step);
            let (c, d) = exact::rotate((a, b), angle);
            let (q, r) = (y.pair(query, i), y.pair(key, i));
            let off = q[0] * r[0] + q[1] * r[1] - (c * k[0] + d * k[1]);
            assert!(off.is_finite());
            let squares = [a * a + b * b, k[0] * k[0] + k[1] * k[1]];
            if squares.iter().all(|square| square.sqrt() >= 0.125) {
                worst_pair = worst_pair.max(off.abs() / (squares[0] * squares[1]).sqrt());
            }
            error += off;
            norms = [norms[0] + squares[0], norms[1] + squares[1]];
        }
        worst = worst.max(error.abs() / (norms[0] * norms[1]).sqrt());
    }
    let units = worst_pair / bounds::of::<E>().u;
    println!(
        "{}, {pairing}: {worst:.3e} |q||k|, a pair {units:.3} u|q||k|",
        E::NAME
    );
    (worst, units)
}

fn depend_on_distances<E: Number>(sample: &[u8], random: &mut Source<'_>) {
    let bounds = bounds::of::<E>();
    for pairing in Pairing::ALL {
        assert!(scores::<E>(&mut Source::bytes(sample), pairing).0 <= bounds.score);
        // A pair: the errors of query and key, and their product.
        assert!(
            scores::<E>(random, pairing).1 <= 2.0 * bounds.pair + bounds.u * bounds.pair.powi(2)
        );
    }
}

#[test]
fn scores_depend_on_distances() {
    let source = &mut Source::random("scores_depend_on_distances");
    let sample = sample();
    each_element!(depend_on_distances(&sample, source));
}

/// Returns exact rows of positions, rounded once, for random steps of a turn.
pub(crate) fn rows(steps: &[u128], positions: &[i64], attention_factor: f64) -> Stored {
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
        heads: 1,
        pairs: steps.len(),
        cos,
        sin,
        attention_factor,
    })
}

/// Returns the steps of random frequencies, from a turn every few positions to one in a million.
pub(crate) fn steps(source: &mut Source<'_>, pairs: usize) -> Vec<u128> {
    (0..pairs)
        .map(|_| source.wide() >> source.within(2, 20))
        .collect()
}

pub(crate) fn rotate_by<E: Number>(
    rotation: Rotation,
    backend: Backend,
    rows: &Stored,
    x: &[E],
    shape: [usize; 4],
) -> Vec<E> {
    let mut y = x.to_vec();
    let mut tensor = TensorMut::new(&mut y, shape).expect("a valid tensor");
    rows.with(|rows| {
        rotation
            .plan(backend)
            .rotate(&mut tensor, rows)
            .expect("rows that fit")
    });
    y
}

/// Returns the dot product of two heads.
fn dot<E: Number>(x: &[E], y: &[E]) -> f64 {
    x.iter()
        .zip(y)
        // The box keeps s390x from multiplying f32 to f64 in one instruction (MDEBR), which qemu before 8.0 emulates
        // wrongly.
        .map(|(x, y)| black_box(f64::from(x.to_f32())) * f64::from(y.to_f32()))
        .sum()
}

/// Returns values between 1/2 and 1, or the negative: pairs of a length near 1, in which f16 has no subnormals.
fn vector<E: Number>(source: &mut Source<'_>, len: usize) -> Vec<E> {
    (0..len)
        .map(|_| {
            let value = source.unit();
            E::from_f32(value.signum() * (0.5 + value.abs() / 2.0))
        })
        .collect()
}

/// Tests `<R x, y> = <x, R^T y>`: with small integers for all values, every operation and the equation are exact.
fn gradient<E: Number>(source: &mut Source<'_>) {
    let shape = [2, 3, 2, 74];
    let small = |source: &mut Source<'_>| source.below(7) as f32 - 3.0;
    let pairs = 33;
    let angles = Angles {
        rows: 3,
        heads: 1,
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
            let left = dot(&rotate_by(forward, backend, &rows, &x, shape), &y);
            let right = dot(&x, &rotate_by(transpose, backend, &rows, &y, shape));
            assert_eq!(left, right, "{backend}, {}, {pairing}", E::NAME);
        }
    }
}

#[test]
fn the_transpose_is_the_gradient() {
    let source = &mut Source::random("the_transpose_is_the_gradient");
    each_element!(gradient(source));
    // With angles, within the rounding of two times 128 products.
    let steps = steps(source, 64);
    let rows = rows(&steps, &[123_456_789], 1.25);
    let (x, y) = (vector::<f32>(source, 128), vector::<f32>(source, 128));
    let transpose = Rotation {
        direction: Direction::Transpose,
        ..Rotation::forward(Pairing::Half)
    };
    let left = dot(
        &rotate_by(
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
        &rotate_by(transpose, Backend::best(), &rows, &y, [1, 1, 1, 128]),
    );
    assert_abs_diff_eq!(
        left,
        right,
        epsilon = 128.0 * 4.0 * 2.75 * f64::from(f32::EPSILON)
    );
}

/// The finite difference of the loss `<R x, y>` is the transpose; with an attention factor the inverse differs from it.
#[test]
fn inverse_and_transpose_differ_by_the_square_of_the_attention_factor() {
    let rows = rows(&[1 << 125], &[1], 2.0);
    let rotated = |direction| {
        let rotation = Rotation {
            direction,
            ..Rotation::forward(Pairing::Half)
        };
        rotate_by(
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
