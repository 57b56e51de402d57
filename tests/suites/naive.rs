//! Every verb against its definition in `src/naive.rs`, which stands first in the README of the tests. The numbers are
//! small integers, and the norms and transforms have roots that are powers of two: every result is exact, so no
//! rounding and no order of operations hides a difference.

use half::bf16;
use rope_core::cache::{CacheFormat, CacheLayout, CacheMut, HeadScales, QuantFormat, QuantScale};
use rope_core::gradient::PairGradients;
use rope_core::norm::{Norm, NormFormula};
use rope_core::stages::{Hadamard, Scale};
use rope_core::{
    Backend, Direction, Frequencies, FullRows, Pairing, Rope, Rows, Scaling, Tensor, TensorMut,
};
use rope_tests::naive::{self, Cache, Row};
use rope_tests::{Number, Source, each_element};

const TOKENS: usize = 5;
const HEADS: usize = 2;
const HEAD_DIM: usize = 72;
const PAIRS: usize = 32;
const SHAPE: [usize; 4] = [1, TOKENS, HEADS, HEAD_DIM];
const SLOTS: [i64; TOKENS] = [6, -1, 0, 3, 5];

/// Heads of small integers, one after another.
type Heads = Vec<Vec<f64>>;

fn integers(source: &mut Source<'_>, len: usize) -> Vec<f64> {
    (0..len).map(|_| source.below(7) as f64 - 3.0).collect()
}

fn heads(source: &mut Source<'_>) -> Heads {
    let heads = 0..TOKENS * HEADS;
    heads.map(|_| integers(source, HEAD_DIM)).collect()
}

/// Heads whose mean square is 16: parts of eight values, whose squares sum to 128, with any signs.
fn normable(source: &mut Source<'_>) -> Heads {
    let value = |source: &mut Source<'_>, channel: usize| {
        let magnitude = [1.0, 3.0, 3.0, 3.0, 5.0, 5.0, 5.0, 5.0][channel % 8];
        magnitude * source.one_of(&[1.0, -1.0])
    };
    let heads = 0..TOKENS * HEADS;
    heads
        .map(|_| {
            (0..HEAD_DIM)
                .map(|channel| value(source, channel))
                .collect()
        })
        .collect()
}

/// A row of small integers for each token: a linear map, if no rotation.
fn rows(source: &mut Source<'_>, len: usize) -> Vec<Row> {
    let row = |source: &mut Source<'_>| Row {
        cos: integers(source, len),
        sin: integers(source, len),
    };
    (0..TOKENS).map(|_| row(source)).collect()
}

/// Quarter turns.
fn quarters(source: &mut Source<'_>) -> Vec<Row> {
    let turns = |source: &mut Source<'_>| {
        let quarter = [(1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0)];
        let (cos, sin) = (0..PAIRS).map(|_| source.one_of(&quarter)).unzip();
        Row { cos, sin }
    };
    (0..TOKENS).map(|_| turns(source)).collect()
}

fn flat<E: Number>(heads: &Heads) -> Vec<E> {
    let values = heads.iter().flatten();
    values.map(|&x| E::from_f32(x as f32)).collect()
}

fn floats(values: impl IntoIterator<Item = f64>) -> Vec<f32> {
    values.into_iter().map(|x| x as f32).collect()
}

/// Applies a definition to each head, with the row of its token.
fn each(heads: &Heads, rows: &[Row], verb: impl Fn(&Row, &[f64]) -> Vec<f64>) -> Heads {
    let heads = heads.iter().enumerate();
    heads
        .map(|(index, head)| verb(&rows[index / HEADS], head))
        .collect()
}

/// Rows as rope-core takes them: `[cos | sin]` of each token.
fn joined(rows: &[Row]) -> Vec<f32> {
    floats(
        rows.iter()
            .flat_map(|row| [&row.cos[..], &row.sin].concat()),
    )
}

fn given(values: &[f32]) -> Rows<'_> {
    Rows::new(values, [TOKENS, 2 * PAIRS]).expect("rows")
}

fn view<E: Number>(x: &mut [E]) -> TensorMut<'_, E> {
    TensorMut::new(x, SHAPE).expect("a tensor")
}

fn read<E: Number>(x: &[E]) -> Tensor<'_, E> {
    Tensor::new(x, SHAPE).expect("a tensor")
}

/// Every plain plan: each pairing on each backend.
fn plans() -> impl Iterator<Item = (Pairing, Rope)> {
    Pairing::ALL.into_iter().flat_map(|pairing| {
        Backend::available().map(move |backend| {
            let rope = Rope::new(pairing).with_backend(backend);
            (pairing, rope.expect("an available backend"))
        })
    })
}

fn rotations<E: Number + PartialEq>(source: &mut Source<'_>) {
    let (x, map, turns) = (heads(source), rows(source, PAIRS), quarters(source));
    let (given_map, given_turns) = (joined(&map), joined(&turns));
    for (pairing, rope) in plans() {
        for (direction, rows, of_rows) in [
            (Direction::Forward, &map, &given_map),
            (Direction::Transpose, &map, &given_map),
            (Direction::Inverse, &turns, &given_turns),
        ] {
            let expected = flat::<E>(&each(&x, rows, |row, head| match direction {
                Direction::Forward => naive::rotate(pairing, row, head),
                _ => naive::rotate_back(pairing, row, head),
            }));
            let (rope, rows) = (rope.with_direction(direction), given(of_rows));
            let mut got = flat::<E>(&x);
            rope.rotate(&mut view(&mut got), &rows).expect("rotated");
            assert_eq!(got, expected, "{rope:?}");
            let (x, mut got) = (flat::<E>(&x), flat::<E>(&x));
            got.fill(E::from_f32(7.0));
            let into = rope.rotate_into(&read(&x), &mut view(&mut got), &rows);
            into.expect("rotated");
            assert_eq!(got, expected, "{rope:?}");
            let (mut q, mut k) = (x.clone(), x);
            rope.rotate_qk(&mut view(&mut q), &mut view(&mut k), &rows)
                .expect("rotated");
            assert!(q == expected && k == expected, "{rope:?}");
        }
    }
}

#[test]
fn rotations_are_the_definition() {
    let source = &mut Source::random("rotations_are_the_definition");
    each_element!(rotations(source));
}

fn full_width<E: Number + PartialEq>(source: &mut Source<'_>) {
    let (x, rows) = (heads(source), rows(source, 2 * PAIRS));
    let cos = floats(rows.iter().flat_map(|row| row.cos.clone()));
    let sin = floats(rows.iter().flat_map(|row| row.sin.clone()));
    let of_channels = Rows::strided(&cos, &sin, [1, TOKENS, 1, 2 * PAIRS]);
    let of_channels = of_channels.and_then(FullRows::new).expect("rows");
    for (pairing, rope) in plans() {
        let expected = each(&x, &rows, |row, head| {
            naive::rotate_full(pairing, row, head)
        });
        let mut got = flat::<E>(&x);
        rope.rotate(&mut view(&mut got), &of_channels)
            .expect("rotated");
        assert_eq!(got, flat::<E>(&expected), "{rope:?}");
    }
}

#[test]
fn full_width_rows_are_the_definition() {
    let source = &mut Source::random("full_width_rows_are_the_definition");
    each_element!(full_width(source));
}

fn gradients<E: Number + PartialEq>(source: &mut Source<'_>) {
    let (y, dy, rows) = (heads(source), heads(source), rows(source, PAIRS));
    let values = joined(&rows);
    for (pairing, rope) in plans() {
        let (mut expected, mut angles) = (Heads::new(), Heads::new());
        for (index, (y, dy)) in y.iter().zip(&dy).enumerate() {
            let (dx, of_angles) = naive::backward(pairing, &rows[index / HEADS], y, dy);
            expected.push(dx);
            angles.push(of_angles);
        }
        let (of_y, mut got) = (flat::<E>(&y), flat::<E>(&dy));
        let mut sums = vec![0.0; TOKENS * HEADS * PAIRS];
        let mut given_sums = PairGradients::new(&mut sums, [TOKENS, HEADS, PAIRS]).expect("sums");
        rope.backward(
            &read(&of_y),
            &mut view(&mut got),
            &given(&values),
            &mut given_sums,
        )
        .expect("a backward pass");
        assert_eq!(got, flat::<E>(&expected), "{rope:?}");
        assert_eq!(sums, angles.concat(), "{rope:?}");
    }
}

#[test]
fn the_backward_pass_is_the_definition() {
    let source = &mut Source::random("the_backward_pass_is_the_definition");
    each_element!(gradients(source));
}

/// A norm, a factor, the rotation and the transform, in this order; and each stage alone.
fn stages<E: Number + PartialEq>(source: &mut Source<'_>) {
    let (x, rows) = (normable(source), quarters(source));
    let (weight, values) = (integers(source, HEAD_DIM), joined(&rows));
    let (of_weight, root) = (floats(weight.clone()), 4.0);
    let normed: Heads = (x.iter().map(|head| naive::norm(&weight, 0.0, head))).collect();
    // In blocks of 4, each output of the transform is half a sum of 4.
    for (pairing, rope) in plans() {
        let rotated = each(&normed, &rows, |row, head| {
            let doubled: Vec<f64> = head.iter().map(|x| 2.0 * x).collect();
            naive::hadamard(4, &naive::rotate(pairing, row, &doubled))
        });
        let norm = Norm::new(NormFormula::LLAMA, 0.0).with_weight(&of_weight[..]);
        let transform = Hadamard::new(4).expect("a power of two");
        let plan = rope.with_norm(norm).with_scale(Scale::constant(2.0));
        let plan = plan.with_hadamard(transform);
        let mut got = flat::<E>(&x);
        plan.rotate(&mut view(&mut got), &given(&values))
            .expect("rotated");
        assert_eq!(got, flat::<E>(&rotated), "{rope:?}");

        let mut got = flat::<E>(&x);
        (rope.with_norm(norm).apply(&mut view(&mut got))).expect("normed");
        assert_eq!(got, flat::<E>(&normed), "{rope:?}");
        let transformed = x.iter().map(|head| naive::hadamard(4, head)).collect();
        let (from, mut got) = (flat::<E>(&x), flat::<E>(&x));
        let plan = rope.with_hadamard(transform);
        (plan.apply_into(&read(&from), &mut view(&mut got))).expect("transformed");
        assert_eq!(got, flat::<E>(&transformed), "{rope:?}");

        let mut sums = vec![0.0; TOKENS * HEADS];
        rope.sum_of_squares(norm, &read(&from), &mut sums)
            .expect("sums");
        let expected = x.iter().map(|head| naive::sum_of_squares(head));
        assert_eq!(sums, floats(expected), "{rope:?}");
        assert_eq!(f64::from(sums[0]), root * root * HEAD_DIM as f64);
    }
}

#[test]
fn stages_are_the_definition() {
    let source = &mut Source::random("stages_are_the_definition");
    each_element!(stages(source));
}

/// Writes to a cache, reads from it, and rotations of the keys in it.
fn caches<E: Number + PartialEq>(source: &mut Source<'_>) {
    let (x, rows, again) = (heads(source), rows(source, PAIRS), quarters(source));
    let (values, of_again) = (joined(&rows), joined(&again));
    let layout = CacheLayout::nhd([2, 4, HEADS, HEAD_DIM]).expect("a layout");
    let format =
        || CacheFormat::quantized(QuantFormat::E4m3, QuantScale::Divide(HeadScales::Same(0.5)));
    let painted = Cache {
        slots: vec![vec![0x38; HEADS * HEAD_DIM]; 8],
        scale: 0.5,
    };
    for (pairing, rope) in plans() {
        let mut expected = painted.clone();
        let rotated = each(&x, &rows, |row, head| naive::rotate(pairing, row, head));
        for (heads, slot) in rotated.chunks(HEADS).zip(SLOTS) {
            expected.write(slot, &heads.concat());
        }
        let mut codes = painted.slots.concat();
        let (from, mut cache) = (
            flat::<E>(&x),
            CacheMut::coded(&mut codes, layout, format()).expect("a cache"),
        );
        rope.rotate_into(&read(&from), &mut cache.slots(&SLOTS[..]), &given(&values))
            .expect("written");
        assert_eq!(codes, expected.slots.concat(), "{rope:?}");

        // Reads leave the target of a skipped token alone.
        let mut wanted: Vec<E> = vec![E::from_f32(7.0); x.concat().len()];
        let mut got = wanted.clone();
        for (token, slot) in SLOTS.into_iter().enumerate() {
            if let Ok(slot) = usize::try_from(slot) {
                let tokens = wanted.chunks_mut(HEADS * HEAD_DIM);
                let target = tokens.into_iter().nth(token).expect("a token");
                target.copy_from_slice(&flat::<E>(&vec![expected.read(slot)]));
            }
        }
        let cache = CacheMut::coded(&mut codes, layout, format()).expect("a cache");
        let copied = rope.apply_into(&cache.as_cache().slots(&SLOTS[..]), &mut view(&mut got));
        copied.expect("read");
        assert_eq!(got, wanted, "{rope:?}");

        for (token, slot) in SLOTS.into_iter().enumerate() {
            if let Ok(at) = usize::try_from(slot) {
                let heads: Heads = expected
                    .read(at)
                    .chunks(HEAD_DIM)
                    .map(<[f64]>::to_vec)
                    .collect();
                let moved = heads
                    .iter()
                    .map(|head| naive::rotate(pairing, &again[token], head));
                expected.write(slot, &moved.collect::<Heads>().concat());
            }
        }
        let mut cache = CacheMut::coded(&mut codes, layout, format()).expect("a cache");
        rope.rotate(&mut cache.slots(&SLOTS[..]), &given(&of_again))
            .expect("moved");
        assert_eq!(codes, expected.slots.concat(), "{rope:?}");
    }
}

#[test]
fn caches_are_the_definition() {
    let source = &mut Source::random("caches_are_the_definition");
    each_element!(caches(source));
}

/// Rows of positions: each value is the definition's, rounded once, and a call at positions rotates by these rows.
#[test]
fn rows_of_positions_are_the_definition() {
    let frequencies = Frequencies::new(2 * PAIRS, 1e4, &Scaling::Default).expect("frequencies");
    let ids = [0_i64, 1, -7, 100, 4095];
    let rows = frequencies.rows(&ids).expect("rows");
    for (token, &id) in ids.iter().enumerate() {
        let (cos, sin) = rows.row(token, 0).expect("a row");
        let Row { cos: c, sin: s } = naive::row(1e4, 2 * PAIRS, id);
        for (got, exact) in cos.iter().chain(sin).zip(c.iter().chain(&s)) {
            // Half a unit of f32 in the last place, and the error of the angle in f64.
            let bound = exact.abs() * f64::from(f32::EPSILON) / 2.0 + 4095.0 * f64::EPSILON;
            assert!((f64::from(*got) - exact).abs() <= bound, "position {id}");
        }
    }
    let source = &mut Source::random("rows_of_positions_are_the_definition");
    let x = flat::<bf16>(&heads(source));
    for (_, rope) in plans() {
        let (mut got, mut expected) = (x.clone(), x.clone());
        rope.rotate(
            &mut view(&mut got),
            &frequencies.at(&ids).expect("positions"),
        )
        .expect("rotated");
        rope.rotate(&mut view(&mut expected), &rows)
            .expect("rotated");
        assert_eq!(got, expected, "{rope:?}");
    }
}

/// Properties of the definitions themselves: a mistake in one would break its property.
#[test]
fn definitions_have_their_properties() {
    let source = &mut Source::random("definitions_have_their_properties");
    let (x, y) = (integers(source, HEAD_DIM), integers(source, HEAD_DIM));
    let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
    for pairing in Pairing::ALL {
        let [turn, map] = [quarters(source).remove(0), rows(source, PAIRS).remove(0)];
        // A rotation keeps lengths and is undone; its transpose moves to the other side of a product.
        let rotated = naive::rotate(pairing, &turn, &x);
        assert_eq!(naive::sum_of_squares(&rotated), naive::sum_of_squares(&x));
        assert_eq!(naive::rotate_back(pairing, &turn, &rotated), x);
        let (left, right) = (
            naive::rotate(pairing, &map, &x),
            naive::rotate_back(pairing, &map, &y),
        );
        assert_eq!(dot(&left, &y), dot(&x, &right));
        // Scores depend on distances: positions 1003 and 1010 score as 3 and 10.
        let score = |first: i64| {
            let [q, k] = [(first, &x), (first + 7, &y)]
                .map(|(id, head)| naive::rotate(pairing, &naive::row(1e4, 2 * PAIRS, id), head));
            dot(&q, &k)
        };
        assert!((score(3) - score(1003)).abs() < 1e-9);
    }
    // The transform is its own inverse, and a norm makes the mean square 1.
    assert_eq!(naive::hadamard(4, &naive::hadamard(4, &x)), x);
    let normed = naive::norm(&[1.0; HEAD_DIM], 0.0, &x);
    assert!((naive::sum_of_squares(&normed) - HEAD_DIM as f64).abs() < 1e-9);
    // Every code but NaN stands for its own value.
    let codes = (0..=255).filter(|&code| !naive::e4m3(code).is_nan());
    for code in codes {
        assert_eq!(naive::to_e4m3(naive::e4m3(code)), code);
    }
    assert_eq!(naive::to_e4m3(1e9), 0x7e, "numbers beyond 448 saturate");
}
