//! Rows made on the stack, a block of tokens at a time: the bits of rows made before the call.

use rope_core::axes::{Axes, MixedFrequencies};
use rope_core::error::{FrequenciesError, PlanError, PositionsError, RowsError};
use rope_core::{
    Backend, Direction, Error, Frequencies, FrequencyChunk, Pairing, Positions, Rope, Rows,
    Scaling, TensorMut, Yarn,
};
use rope_tests::number::paint;
use rope_tests::{Number, Placed, Source, each_element};

use crate::models::{far, ordinary, same};

/// Tests both kinds of rows on one backend, with the rows from any backend.
fn both_ways<E: Number>(
    source: &mut Source<'_>,
    rope: Rope,
    frequencies: &Frequencies<'static>,
    positions: Positions<'_>,
    shape: [usize; 4],
) {
    let place = Placed::any(source, shape);
    let x = ordinary::<E>(source, place.len);
    let mut expected = x.clone();
    let rows = frequencies.rows(positions).expect("positions");
    let mut tensor = TensorMut::new(&mut expected, place.layout).expect("a tensor");
    rope.rotate(&mut tensor, &rows).expect("rows that fit");
    let backends: Vec<Backend> = Backend::available().collect();
    for &backend in &backends {
        let rope = rope.with_backend(backend).expect("a backend");
        let other = source.one_of(&backends);
        let frequencies = frequencies.clone().with_backend(other).expect("a backend");
        let mut got = x.clone();
        let mut tensor = TensorMut::new(&mut got, place.layout).expect("a tensor");
        rope.rotate(&mut tensor, &frequencies.at(positions).expect("positions"))
            .expect("positions that fit");
        let doing =
            format!("{backend}, rows by {other}, {rope:?}, {shape:?}, {place:?}, {positions:?}");
        same(&got, &expected, &doing);
    }
}

/// Tests any plan, frequencies and positions.
fn at<E: Number>(source: &mut Source<'_>) {
    let extent = |source: &mut Source<'_>, most: usize| match source.below(8) {
        0 => 0,
        _ => source.within(1, most),
    };
    let (batch, heads) = (extent(source, 3), extent(source, 3));
    // A block has as many tokens as fit in 2048 values.
    let tokens = extent(source, 70);
    let rotary_dim = 4 * source.within(1, 40);
    let head_dim = rotary_dim + source.below(9);
    let shape = [batch, tokens, heads, head_dim];
    let axes = match source.below(3) {
        0 => Axes::vision(rotary_dim),
        1 => Axes::per_axis([
            rotary_dim / 4,
            rotary_dim / 8,
            rotary_dim / 4 - rotary_dim / 8,
        ]),
        _ => Axes::from(rotary_dim),
    };
    let scaling = match source.below(2) {
        0 => Scaling::Default,
        _ => Scaling::Yarn(Yarn::new(16.0, 8192)),
    };
    let frequencies = Frequencies::new(axes, 1e4, &scaling).expect("frequencies");
    let rope =
        Rope::new(source.one_of(&Pairing::ALL)).with_direction(source.one_of(&Direction::ALL));
    let rope = rope.with_parts(source.one_of(&[1, 1, 2]));
    // Rows that sequences share, or rows of each sequence.
    let rows = if source.once_in(2) {
        tokens
    } else {
        batch * tokens
    };
    let all = |source: &mut Source<'_>, positions| {
        both_ways::<E>(source, rope, &frequencies, positions, shape);
    };
    match frequencies.axes() {
        1 => {
            all(source, Positions::from(1000..1000 + rows));
            let half = rows as i64 / 2;
            let offsets = [0, half, half, rows as i64];
            all(
                source,
                Positions::packed_from(&offsets, &[7, 8, -9_i64]).expect("offsets"),
            );
        }
        axes => {
            let ids = far(source, axes * rows);
            all(source, Positions::axis_major(&ids));
            all(source, Positions::token_major(&ids));
            let reals: Vec<f32> = (0..axes * rows).map(|_| source.unit()).collect();
            all(source, Positions::token_major(&reals[..]));
        }
    }
}

#[test]
fn rotate_at_gives_the_bits_of_rows_and_rotate() {
    let source = &mut Source::random("rotate_at_gives_the_bits_of_rows_and_rotate");
    for _ in 0..60 {
        each_element!(at(source));
    }
}

/// Tests frequencies of each head: all heads of a token at a time, some of them, or one.
fn mixed_at<E: Number>(source: &mut Source<'_>) {
    let (batch, tokens) = (source.within(1, 3), source.within(1, 30));
    let heads = source.one_of(&[1, 2, 3, 17, 40]);
    let most = source.one_of(&[40, 40, 200]);
    let pairs = source.within(1, most);
    let axes = source.within(1, 4);
    let own = source.one_of(&[1, heads]);
    let inverse: Vec<f32> = (0..axes * own * pairs).map(|_| source.unit()).collect();
    let frequencies =
        MixedFrequencies::new(&inverse, [axes, own, pairs], 1.25).expect("frequencies");
    let rows = source.one_of(&[tokens, batch * tokens]);
    let ids = far(source, axes * rows);
    let positions = Positions::token_major(&ids);
    let shape = [batch, tokens, heads, 2 * pairs + source.below(3)];
    let place = Placed::any(source, shape);
    let x = ordinary::<E>(source, place.len);
    let rope =
        Rope::new(source.one_of(&Pairing::ALL)).with_direction(source.one_of(&Direction::ALL));
    let mut values = vec![f32::NAN; rows * own * 2 * pairs];
    let angles = frequencies.at(positions).expect("positions");
    angles.rows_in(&mut values).expect("room");
    let ready = Rows::new(&values, [rows * own, 2 * pairs]).expect("whole rows");
    let ready = ready.with_heads(own).expect("rows of each head");
    let ready = ready.with_attention_factor(1.25).expect("a factor");
    let mut expected = x.clone();
    let mut tensor = TensorMut::new(&mut expected, place.layout).expect("a tensor");
    rope.rotate(&mut tensor, &ready).expect("rows that fit");
    for backend in Backend::available() {
        let rope = rope.with_backend(backend).expect("a backend");
        let doing = format!("{backend}, {rope:?}, {frequencies:?}, {shape:?}, {place:?}");
        let mut got = x.clone();
        let mut tensor = TensorMut::new(&mut got, place.layout).expect("a tensor");
        rope.rotate(&mut tensor, &frequencies.at(positions).expect("positions"))
            .expect("positions that fit");
        same(&got, &expected, &doing);
    }
}

#[test]
fn rotate_at_makes_rows_of_each_head() {
    let source = &mut Source::random("rotate_at_makes_rows_of_each_head");
    for _ in 0..40 {
        each_element!(mixed_at(source));
    }
}

#[test]
fn rotate_at_refuses_other_heads() {
    let inverse = [0.5; 2 * 3 * 4];
    let frequencies = MixedFrequencies::new(&inverse, [2, 3, 4], 1.0).expect("frequencies");
    let ids = [0_i64; 10];
    for heads in [1, 2, 4] {
        let mut x = vec![1.0_f32; 5 * heads * 8];
        let mut tensor = TensorMut::new(&mut x, [1, 5, heads, 8]).expect("a tensor");
        let refusal = Rope::new(Pairing::Half).rotate(
            &mut tensor,
            &frequencies
                .at(Positions::axis_major(&ids))
                .expect("positions"),
        );
        assert_eq!(
            refusal,
            Err(Error::Rows(RowsError::Heads { rows: 3, heads }))
        );
        assert!(x.iter().all(|x| *x == 1.0));
    }
}

/// One row of the greatest length that fits, without an allocator.
#[test]
fn rotate_at_takes_rows_of_2048() {
    let source = &mut Source::random("rotate_at_takes_rows_of_2048");
    let mut blocks = [FrequencyChunk::EMPTY; FrequencyChunk::count(2050)];
    for dim in [2046, 2048] {
        let frequencies = Frequencies::new_in(&mut blocks, dim, 1e4, &Scaling::Default);
        let frequencies = frequencies.expect("frequencies");
        let x = ordinary::<f32>(source, 3 * 2050);
        let [mut got, mut expected] = [x.clone(), x];
        let shape = [1, 3, 1, 2050];
        let rope = Rope::new(Pairing::Half);
        let mut tensor = TensorMut::new(&mut got, shape).expect("a tensor");
        rope.rotate(&mut tensor, &frequencies.at(5..8).expect("positions"))
            .expect("positions");
        let rows = frequencies.rows(5..8).expect("positions");
        let mut tensor = TensorMut::new(&mut expected, shape).expect("a tensor");
        rope.rotate(&mut tensor, &rows).expect("rows that fit");
        same(&got, &expected, "2048");
    }
}

#[test]
fn rotate_at_refuses_and_writes_nothing() {
    let wide = Frequencies::new(2050, 1e4, &Scaling::Default).expect("frequencies");
    let vision = Frequencies::new(Axes::vision(64), 1e4, &Scaling::Default).expect("frequencies");
    let half = Rope::new(Pairing::Half);
    let refused =
        |rope: Rope, frequencies: &Frequencies<'_>, positions: Positions<'_>, head_dim| {
            let source = &mut Source::random("rotate_at_refuses_and_writes_nothing");
            let before = paint::<f32>(source, 2 * 3 * head_dim);
            let mut after = before.clone();
            let mut tensor = TensorMut::new(&mut after, [2, 3, 1, head_dim]).expect("a tensor");
            let error = frequencies
                .at(positions)
                .and_then(|angles| rope.rotate(&mut tensor, &angles))
                .expect_err("a refusal");
            assert!(
                before
                    .iter()
                    .zip(&after)
                    .all(|(before, after)| before.bits() == after.bits())
            );
            error
        };
    let error = refused(half, &wide, (0..3).into(), 2050);
    let (rotary_dim, limit) = (2050, 2048);
    assert_eq!(
        error,
        Error::Frequencies(FrequenciesError::RotaryDimOnStack { rotary_dim, limit })
    );
    let text = "rotary_dim is 2050; rows that are computed on the stack have at most 2048 channels; make wider ones before the call";
    assert_eq!(error.to_string(), text);

    let error = refused(half, &vision, (0..4).into(), 64);
    let (rows, tokens, batch) = (4, 3, 2);
    assert_eq!(
        error,
        Error::Rows(RowsError::Count {
            rows,
            tokens,
            batch
        })
    );
    let error = refused(half, &vision, (0..3).into(), 62);
    let (rotary_dim, head_dim) = (64, 62);
    assert_eq!(
        error,
        Error::Rows(RowsError::RotaryDimExceedsHead {
            rotary_dim,
            head_dim
        })
    );
    let error = refused(half, &vision, Positions::axis_major(&[0_i32; 7]), 64);
    assert_eq!(
        error,
        Error::Positions(PositionsError::PerAxis { given: 7, axes: 2 })
    );
    let value = f64::INFINITY;
    let error = refused(half, &vision, Positions::from(&[0.0, 0.0, value]), 64);
    assert_eq!(
        error,
        Error::Positions(PositionsError::Coordinate { index: 2, value })
    );
    let (input, output) = (Pairing::Half, Pairing::Interleaved);
    let error = refused(half.with_output_pairing(output), &vision, (0..3).into(), 64);
    assert_eq!(
        error,
        Error::Plan(PlanError::PairingChangesInPlace { input, output })
    );
}
