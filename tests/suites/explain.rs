//! The rotation between heads before and after: found for every pairing, window, direction and element, and never
//! guessed.

use rope_core::error::{RowsError, ShapeError};
use rope_core::{
    Dimension, Direction, Element, Error, Frequencies, Layout, Pairing, Rope, Rows, Scaling,
    Tensor, TensorMut,
};
use rope_models::{Convention, Explanation, explain};
use rope_tests::number::{self, Number};
use rope_tests::{Source, each_element_pair};

/// Heads before and after.
struct Case {
    shape: [usize; 4],
    before: Vec<f32>,
    after: Vec<f32>,
    rows: Rows<'static>,
}

/// The rotation: pairing in and out, direction, first channel.
type Truth = (Pairing, Pairing, Direction, usize);

fn rows(rotary_dim: usize, start: usize, tokens: usize, factor: f64) -> Rows<'static> {
    let frequencies = Frequencies::new(rotary_dim, 1e4, &Scaling::Default).unwrap();
    let mut values = Vec::new();
    for token in start..start + tokens {
        let rows = frequencies.rows(token..token + 1).unwrap();
        let (cos, sin) = rows.row(0, 0).unwrap();
        values.extend(cos.iter().chain(sin).map(|x| x * factor as f32));
    }
    Rows::from_vec(values, [tokens, rotary_dim])
        .unwrap()
        .with_attention_factor(factor)
        .unwrap()
}

/// The values are rounded to `I` before and to `O` after.
fn case<I: Number, O: Number>(
    source: &mut Source<'_>,
    (input, output, direction, offset): Truth,
    rows: Rows<'static>,
    head_dim: usize,
) -> Case {
    let shape = [1, rows.len(), 2, head_dim];
    let len = shape.iter().product();
    let before: Vec<f32> = (0..len)
        .map(|_| I::from_f32(source.unit() * 3.0).to_f32())
        .collect();
    let mut after = before.clone();
    let window = offset..offset + rows.rotary_dim();
    let layout = Layout::bshd(shape)
        .and_then(|layout| layout.narrow(Dimension::Channels, window))
        .unwrap();
    Rope::new(input)
        .with_output_pairing(output)
        .with_direction(direction)
        .rotate_into(
            &Tensor::new(&before, layout).unwrap(),
            &mut TensorMut::new(&mut after, layout).unwrap(),
            &rows,
        )
        .unwrap();
    for value in &mut after {
        *value = O::from_f32(*value).to_f32();
    }
    Case {
        shape,
        before,
        after,
        rows,
    }
}

impl Case {
    fn explain(&self) -> Explanation {
        ask(self.shape, &self.before, &self.after, &self.rows).unwrap()
    }
}

fn ask<I: Element + Into<f32>, O: Element + Into<f32>>(
    shape: [usize; 4],
    before: &[I],
    after: &[O],
    rows: &Rows<'_>,
) -> Result<Explanation, Error> {
    explain(
        &Tensor::new(before, shape)?,
        &Tensor::new(after, shape)?,
        rows,
    )
}

fn truth(convention: Convention) -> Truth {
    let (input, output) = convention.pairing();
    (
        input,
        output,
        convention.direction(),
        convention.window().start,
    )
}

fn every_truth(offsets: &[usize], directions: &[Direction]) -> Vec<Truth> {
    let mut all = Vec::new();
    for input in Pairing::ALL {
        for output in Pairing::ALL {
            for &direction in directions {
                all.extend(
                    offsets
                        .iter()
                        .map(|&offset| (input, output, direction, offset)),
                );
            }
        }
    }
    all
}

/// Elements in and out, all pairings, directions and some windows, with an attention factor, so that the inverse and
/// the transpose differ.
fn finds_what_it_was<I: Number, O: Number>() {
    let source = &mut Source::random("finds_what_it_was");
    for truth in every_truth(&[0, 5, 16], &Direction::ALL) {
        let case = case::<I, O>(source, truth, rows(16, 30, 4, 1.25), 32);
        let found = case.explain();
        let Explanation::Rotation(convention) = found else {
            panic!("{truth:?}: {found:?}");
        };
        assert_eq!(self::truth(convention), truth);
        assert_eq!(convention.window().len(), 16);
        let plan = Rope::new(truth.0)
            .with_output_pairing(truth.1)
            .with_direction(truth.2);
        assert_eq!(convention.rope(), plan);
    }
}

#[test]
fn every_convention_of_every_element_is_found() {
    each_element_pair!(finds_what_it_was());
}

/// The elements themselves, not their values as f32; strided, and with rows for each sequence.
#[test]
fn tensors_are_read_as_they_lie() {
    let source = &mut Source::random("tensors_are_read_as_they_lie");
    let (batch, tokens, heads, head_dim) = (2, 3, 2, 24);
    let layout = Layout::bhsd([batch, heads, tokens, head_dim]).unwrap();
    let before: Vec<half::bf16> = (0..layout.end())
        .map(|_| half::bf16::from_f32(source.unit()))
        .collect();
    let mut after = vec![half::f16::ZERO; before.len()];
    let rows = rows(24, 11, batch * tokens, 1.0);
    let plan = Rope::new(Pairing::Interleaved);
    let x = Tensor::new(&before, layout).unwrap();
    plan.rotate_into(&x, &mut TensorMut::new(&mut after, layout).unwrap(), &rows)
        .unwrap();
    let found = explain(&x, &Tensor::new(&after, layout).unwrap(), &rows).unwrap();
    let Explanation::Rotation(convention) = found else {
        panic!("{found:?}");
    };
    assert_eq!(convention.rope(), plan);
}

/// Without an attention factor the inverse is the transpose, and two channels are one pair.
#[test]
fn what_is_the_same_has_one_name() {
    let source = &mut Source::random("what_is_the_same_has_one_name");
    for direction in [Direction::Inverse, Direction::Transpose] {
        let truth = (Pairing::Half, Pairing::Half, direction, 8);
        let case = case::<f32, f32>(source, truth, rows(8, 30, 4, 1.0), 16);
        let found = case.explain();
        assert!(
            matches!(found, Explanation::Rotation(convention) if convention.direction() == Direction::Transpose),
            "{found:?}"
        );
    }
    for pairing in Pairing::ALL {
        let truth = (pairing, pairing, Direction::Forward, 1);
        let case = case::<f32, f32>(source, truth, rows(2, 30, 4, 1.0), 4);
        let found = case.explain();
        assert!(
            matches!(found, Explanation::Rotation(convention) if convention.pairing() == (Pairing::Half, Pairing::Half)),
            "{found:?}"
        );
    }
}

/// The rotation of Hugging Face's code in bf16: cos and sin, both products and the sum are rounded.
#[test]
fn every_operation_may_be_rounded_to_bf16() {
    use half::bf16;
    let source = &mut Source::random("every_operation_may_be_rounded_to_bf16");
    let rows = rows(64, 200, 4, 1.0);
    let shape = [1, 4, 2, 64];
    let before: Vec<bf16> = (0..512).map(|_| bf16::from_f32(source.unit())).collect();
    let mut after = before.clone();
    for (head, (x, y)) in before.chunks(64).zip(after.chunks_mut(64)).enumerate() {
        let (cos, sin) = rows.row(head / 2, 0).unwrap();
        for i in 0..32 {
            let [cos, sin] = [cos[i], sin[i]].map(bf16::from_f32);
            y[i] = x[i] * cos - x[i + 32] * sin;
            y[i + 32] = x[i] * sin + x[i + 32] * cos;
        }
    }
    let found = ask(shape, &before, &after, &rows).unwrap();
    let half = (Pairing::Half, Pairing::Half, Direction::Forward, 0);
    assert!(
        matches!(found, Explanation::Rotation(convention) if truth(convention) == half),
        "{found:?}"
    );
}

#[test]
fn noise_of_a_hundredth_is_no_matter_and_a_tenth_is() {
    let source = &mut Source::random("noise");
    for (noise, explained) in [(0.01, true), (0.1, false)] {
        let truth = (Pairing::Half, Pairing::Half, Direction::Forward, 0);
        let mut case = case::<f32, f32>(source, truth, rows(32, 50, 8, 1.0), 32);
        for value in &mut case.after {
            *value += 3.0 * noise * source.unit();
        }
        let found = case.explain();
        match found {
            Explanation::Rotation(convention) => {
                assert!(explained && self::truth(convention) == truth)
            }
            Explanation::Unexplained { nearest, apart } => {
                // The rotation is still the nearest, and as far as the noise.
                assert!(
                    !explained && nearest.map(self::truth) == Some(truth),
                    "{nearest:?}"
                );
                assert!((0.001..0.1).contains(&apart), "{apart}");
            }
            _ => panic!("{found:?}"),
        }
    }
}

/// Shuffled channels, other positions, another base, a scale between: each is no rotation by these rows.
#[test]
fn what_is_no_rotation_by_these_rows_is_not_explained() {
    let source = &mut Source::random("what_is_no_rotation");
    let truth = (Pairing::Half, Pairing::Half, Direction::Forward, 0);
    let made = |source: &mut Source<'_>| case::<f32, f32>(source, truth, rows(32, 50, 4, 1.0), 32);
    let refused = |case: &Case, what: &str| {
        let found = case.explain();
        assert!(
            matches!(found, Explanation::Unexplained { .. }),
            "{what}: {found:?}"
        );
    };
    for _ in 0..20 {
        let mut case = made(source);
        let mut order: Vec<usize> = (0..32).collect();
        for last in (1..32).rev() {
            order.swap(last, source.below(last + 1));
        }
        for head in case.after.chunks_mut(32) {
            let own = head.to_vec();
            for (value, &from) in head.iter_mut().zip(&order) {
                *value = own[from];
            }
        }
        refused(&case, "shuffled channels");
    }
    let mut case = made(source);
    case.rows = rows(32, 51, 4, 1.0);
    refused(&case, "other positions");
    let other = Frequencies::new(32, 5e5, &Scaling::Default).unwrap();
    case.rows = other.rows(50..54).unwrap();
    refused(&case, "another base");
    case.rows = rows(16, 50, 4, 1.0);
    refused(&case, "another rotary_dim");
    let mut case = made(source);
    case.after.iter_mut().for_each(|value| *value *= 1.1);
    refused(&case, "a scale");
    let mut case = made(source);
    case.before = case.before.iter().map(|_| source.unit()).collect();
    refused(&case, "unrelated values");
}

#[test]
fn a_layer_without_position_is_unrotated() {
    let source = &mut Source::random("a_layer_without_position");
    let truth = (Pairing::Half, Pairing::Half, Direction::Forward, 0);
    let mut case = case::<f32, f32>(source, truth, rows(32, 50, 4, 1.0), 48);
    case.after.clone_from(&case.before);
    assert_eq!(case.explain(), Explanation::Unrotated);
}

/// Position 0 rotates nothing, position 1 with slow pairs next to nothing; zeros and no tokens say nothing at all.
#[test]
fn too_little_data_is_ambiguous() {
    let source = &mut Source::random("too_little_data");
    let truth = (Pairing::Half, Pairing::Half, Direction::Forward, 0);
    let ambiguous = |case: &Case, what: &str| {
        let found = case.explain();
        assert!(
            matches!(found, Explanation::Ambiguous { .. }),
            "{what}: {found:?}"
        );
    };
    ambiguous(
        &case::<f32, f32>(source, truth, rows(32, 0, 1, 1.0), 32),
        "position 0",
    );
    let mut zeros = case::<f32, f32>(source, truth, rows(32, 50, 1, 1.0), 32);
    zeros.before.fill(0.0);
    zeros.after.fill(0.0);
    ambiguous(&zeros, "zeros");
    ambiguous(
        &case::<f32, f32>(source, truth, rows(32, 0, 0, 1.0), 32),
        "no tokens",
    );

    // One pair that moves by a thousandth of a radian: bf16 does not show it, and f32 may have been bf16.
    let row = [0.999_999_5, 1.0, 0.001, 0.0];
    let slow = Rows::from_vec(row.to_vec(), [1, 4]).unwrap();
    let case_in_bf16 = case::<half::bf16, half::bf16>(source, truth, slow.clone(), 64);
    ambiguous(&case_in_bf16, "slow in bf16");
    let case_in_f32 = case::<f32, f32>(source, truth, slow, 8);
    ambiguous(&case_in_f32, "slow in f32");
}

#[test]
fn shapes_that_do_not_fit_are_refused() {
    let x = [0.0_f32; 64];
    let rows = rows(8, 0, 2, 1.0);
    let ask = |source: [usize; 4], target: [usize; 4]| {
        let [source, target] = [Layout::bshd(source)?, Layout::bshd(target)?];
        explain(&Tensor::new(&x, source)?, &Tensor::new(&x, target)?, &rows)
    };
    let refused = ask([1, 2, 2, 16], [1, 2, 4, 8]);
    assert!(matches!(
        refused,
        Err(Error::Shape(ShapeError::Mismatch { .. }))
    ));
    let refused = ask([1, 2, 2, 4], [1, 2, 2, 4]);
    let error = Error::Rows(RowsError::RotaryDimExceedsHead {
        rotary_dim: 8,
        head_dim: 4,
    });
    assert_eq!(refused, Err(error));
    let refused = ask([1, 3, 2, 8], [1, 3, 2, 8]);
    let error = Error::Rows(RowsError::Count {
        rows: 2,
        tokens: 3,
        batch: 1,
    });
    assert_eq!(refused, Err(error));
}

/// NaN and infinities in any place, and rows of anything.
fn takes_any_values<I: Number + Element + Into<f32>, O: Number + Element + Into<f32>>() {
    let source = &mut Source::random("takes_any_values");
    for _ in 0..30 {
        let (tokens, heads, pairs) = (source.below(3), source.below(3), source.within(1, 4));
        let head_dim = 2 * pairs + source.below(4);
        let shape = [1, tokens, heads, head_dim];
        let len = shape.iter().product();
        let (before, after) = (
            number::values::<I>(source, len),
            number::values::<O>(source, len),
        );
        let cos: Vec<f32> = number::values(source, tokens * pairs);
        let sin: Vec<f32> = number::values(source, tokens * pairs);
        let rows = Rows::from_cos_sin(&cos, &sin, [tokens, pairs], 2 * pairs).unwrap();
        let found = ask(shape, &before, &after, &rows).unwrap();
        if after.iter().any(|value| value.is_nan()) {
            let Explanation::Unexplained { apart, .. } = found else {
                panic!("{found:?}");
            };
            assert!(apart.is_nan());
        }
    }
}

#[test]
fn any_values_are_taken() {
    each_element_pair!(takes_any_values());
}
