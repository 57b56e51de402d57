//! Every error of a tensor, of rows and of a plan without stages: it has the value and the limit, and nothing was
//! written.

use std::fmt::Debug;

use half::{bf16, f16};
use rope_core::Dimension::{Batch, Channels, Heads, Tokens};
use rope_core::norm::{Norm, NormFormula};
use rope_core::stages::Normed;
use rope_core::{
    Backend, Direction, Error, Layout, Pairing, Rope, Rows, Shape, Strides, Tensor, TensorMut,
};
use rope_tests::number::paint;
use rope_tests::{Number, Source, each_element};

use errors as error;
use verbs::{Operands, READ, ROTATE, ROTATE_INTO, ROTATE_QK, ROTATIONS, SHIFT, Verb, WRITE};

pub(crate) mod errors;
#[cfg(feature = "capi")]
mod overlapping;
pub(crate) mod verbs;

/// Asserts the error, field by field, and each field's value in its text. The suite `messages` compares the place of
/// each value in the text.
#[track_caller]
pub(crate) fn refused<T: Debug, E: std::error::Error + Send + Sync + 'static>(
    result: Result<T, E>,
    error: E,
) {
    let got = result.expect_err("a refusal");
    let fields = format!("{got:?}");
    // NaNs compare unequal.
    assert_eq!(fields, format!("{error:?}"));
    let text = got.to_string();
    let values = fields.split(['{', ',', '}', ')']);
    for (_, value) in values.filter_map(|field| field.split_once(": ")) {
        let value = value.trim_end().trim_matches('"');
        // Names are in lower case, and 0.0 is written as 0.
        let forms = [value, &value.to_lowercase(), value.trim_end_matches(".0")];
        let named = forms.iter().any(|form| has_word(&text, form));
        assert!(named, "{value:?} is not in {text:?}");
    }
    // The error can be passed on like any other.
    let boxed: Box<dyn std::error::Error + Send + Sync> = Box::new(got);
    assert_eq!(boxed.to_string(), text);
}

fn has_word(text: &str, word: &str) -> bool {
    // A whole word: 13 does not contain 3.
    let whole = |c: char| !c.is_alphanumeric() && c != '-' && c != '_';
    match word.contains(whole) {
        true => text.contains(word),
        false => text.split(whole).any(|part| part == word),
    }
}

/// Numbers from 0 on as rows.
pub(crate) fn numbers(shape: [usize; 2]) -> Rows<'static> {
    let numbers = (0..shape[0] * shape[1]).map(|i| i as f32);
    Rows::from_vec(numbers.collect(), shape).expect("whole rows")
}

fn rows(values: &[f32], shape: [usize; 2]) -> Rows<'_> {
    Rows::new(values, shape).expect("whole rows")
}

pub(crate) fn tensor<E: Number>(memory: &mut [E], shape: [usize; 4]) -> TensorMut<'_, E> {
    TensorMut::new(memory, shape).expect("valid")
}

/// Ones as a tensor.
pub(crate) fn ones(shape: [usize; 4]) -> Tensor<'static, f32> {
    static ONES: [f32; 96] = [1.0; 96];
    Tensor::new(&ONES[..shape.iter().product()], shape).expect("valid")
}

pub(crate) fn rope() -> Rope {
    Rope::new(Pairing::Half)
}

/// A chain without stages.
pub(crate) fn chain() -> Rope<Normed<'static>> {
    rope().into()
}

/// A norm without weights.
pub(crate) fn norm() -> Norm<'static> {
    Norm::new(NormFormula::LLAMA4, 1e-6)
}

pub(crate) fn strides(batch: usize, token: usize, head: usize) -> Strides {
    Strides { batch, token, head }
}

/// Runs calls with painted data and asserts the same bits afterwards.
pub(crate) fn untouched<E: Number>(len: usize, f: impl FnOnce(&mut [E])) {
    let before = paint::<E>(&mut Source::random("untouched"), len);
    let mut after = before.clone();
    f(&mut after);
    let bits = |data: &[E]| data.iter().map(|value| value.bits()).collect::<Vec<_>>();
    assert_eq!(bits(&before), bits(&after));
}

#[test]
fn shape_overflow() {
    let shape = [2, usize::MAX, 3, 8];
    let [batch, tokens, heads, head_dim] = shape;
    let error = error::overflow(shape.into());
    refused(Layout::bshd(shape), error);
    refused(Layout::bhsd([batch, heads, tokens, head_dim]), error);
    // Here the strides are small.
    refused(Layout::sbhd([tokens, batch, heads, head_dim]), error);
    // A tensor's constructor gives the error, too.
    untouched::<f32>(8, |data| {
        refused(Tensor::new(&*data, shape), error);
        refused(TensorMut::new(data, shape), error);
    });
    let (most, near) = (usize::MAX, usize::MAX - 7);
    let (half, third) = (most / 2, most / 3);
    let error = error::overflow([1, half, 3, 8].into());
    refused(Layout::thd([half, 3, 8]), error);
    for (shape, strides, dimension, extent, stride) in [
        ([2, 4, 3, 8], strides(5, half, 8), Tokens, 4, half),
        // The last index itself.
        ([2, 1, 1, 8], strides(near, 1, 1), Batch, 2, near),
        // The farthest index, in any dimension.
        ([3, 2, 2, 1], strides(third, half, half), Batch, 3, third),
        ([2, 2, 4, 1], strides(third, half, half), Heads, 4, half),
        ([2, 1, 1, most], strides(1, 0, 0), Channels, most, 1),
    ] {
        let error = error::stride_overflow(dimension, extent, stride);
        refused(Layout::strided(shape, strides), error);
    }
    // An empty tensor has no end that could be exceeded.
    let empty = [usize::MAX, 2, 0, 1];
    assert_eq!(Shape::from(empty).elements(), Some(0));
    assert_eq!(Shape::from(shape).elements(), None);
    assert!(Layout::strided(empty, strides(5, half, 8)).is_ok());
    assert!(Layout::strided([2, 1, 1, 7], strides(near, 1, 1)).is_ok());
}

fn out_of_bounds_of<E: Number>() {
    let error = error::out_of_bounds(48, 47);
    untouched::<E>(47, |data| {
        let layout = Layout::bshd([1, 2, 3, 8]).expect("a small shape");
        let heads = |range| layout.narrow(Heads, range).expect("heads");
        refused(Tensor::new(&*data, layout), error);
        refused(TensorMut::new(data, layout), error);
        // Its last heads are out of bounds as well, its first ones are not.
        refused(TensorMut::new(data, heads(2..3)), error);
        assert!(TensorMut::new(data, heads(0..2)).is_ok());
    });
}

#[test]
fn out_of_bounds() {
    each_element!(out_of_bounds_of());
    let two = Layout::bshd([1, 1, 1, 2]).expect("two elements");
    let error = error::out_of_bounds(2, 0);
    refused(TensorMut::<f32>::new(&mut [], two), error);
}

fn shape_elements_of<E: Number>(extents: [usize; 4], elements: usize, len: usize, hint: &str) {
    let shape = Shape::from(extents);
    let error = error::shape_elements(shape, len);
    let way_out = "; use Layout::bshd for a part of a larger slice";
    let way_out = if elements < len { way_out } else { "" };
    assert_eq!(
        error.to_string(),
        format!("shape {shape} has {elements} elements, but the slice has {len}{hint}{way_out}")
    );
    untouched::<E>(len, |data| {
        refused(Tensor::new(&*data, extents), error);
        refused(Tensor::new(&*data, shape), error);
        refused(TensorMut::new(data, extents), error);
        refused(TensorMut::new(data, shape), error);
        // A layout may cover a part of the slice.
        let layout = Layout::bshd(extents).expect("a small shape");
        assert_eq!(TensorMut::new(data, layout).is_ok(), elements <= len);
    });
}

/// A shape covers the whole slice.
#[test]
fn shape_elements() {
    for (shape, elements, len, hint) in [
        // The memory of grouped queries: K's heads on Q's memory, and Q's heads on K's.
        ([1, 5, 8, 128], 5120, 20480, " (heads would be 32)"),
        ([1, 5, 32, 128], 20480, 5120, " (heads would be 8)"),
        ([2, 3, 4, 8], 192, 48, " (heads would be 1)"),
        ([1, 2, 3, 8], 48, 47, ""),
        ([1, 2, 3, 8], 48, 49, ""),
        ([1, 1, 1, 2], 2, 0, ""),
        // A shape without elements fits only an empty slice.
        ([1, 0, 3, 8], 0, 24, ""),
        ([1, 2, 3, 0], 0, 1, ""),
        ([0, 2, 0, 8], 0, 16, ""),
    ] {
        each_element!(shape_elements_of(shape, elements, len, hint));
    }
    assert!(TensorMut::<f32>::new(&mut [], [1, 0, 3, 8]).is_ok());
}

#[test]
fn overlap() {
    for (shape, strides, dimension, stride, needed) in [
        ([1, 1, 2, 8], strides(0, 0, 7), Heads, 7, 8),
        ([1, 1, 2, 8], strides(0, 0, 0), Heads, 0, 8),
        ([1, 3, 2, 8], strides(0, 15, 8), Tokens, 15, 16),
        ([2, 3, 2, 8], strides(47, 16, 8), Batch, 47, 48),
        ([2, 1, 2, 8], strides(0, 16, 8), Batch, 0, 16),
        // The minimal strides suffice: inside a dimension with room, or around all dimensions.
        ([2, 5, 4, 8], strides(0, 32, 8), Batch, 0, 160),
        ([2, 5, 4, 8], strides(0, 64, 8), Batch, 0, 32),
        ([2, 3, 1, 8], strides(25, 20, 8), Batch, 25, 48),
        ([1, 3, 2, 8], strides(0, 8, 23), Heads, 23, 24),
    ] {
        untouched::<f32>(1000, |data| {
            let layout = Layout::strided(shape, strides).expect("a small shape");
            let error = error::overlap(dimension, stride, needed);
            refused(TensorMut::new(data, layout), error);
            // Elements that are only read may coincide.
            assert!(Tensor::new(&*data, layout).is_ok());
        });
    }
}

/// A window begins at a channel of the tensor, and so does a rotation with a window.
#[test]
fn windows_beyond_a_head() {
    let range = |start, end| error::range(Channels, start, end, 4);
    let shape = [1, 2, 3, 4];
    let x = [1.0_f32; 24];
    let from = Tensor::new(&x, shape).expect("valid");
    refused(from.narrow(Channels, 2..5), range(2, 5));
    for head in [[1, 0, 0], [0, 2, 0], [0, 0, 3], [usize::MAX; 3]] {
        assert_eq!(from.head(head), None, "{head:?}");
    }
    assert_eq!(from.head([0, 1, 2]), Some(&x[20..]));
    let none = Tensor::<f32>::new(&[], [1, 2, 3, 0]).expect("valid");
    assert_eq!(none.head([0, 1, 2]), Some(&[][..]));
    untouched::<f32>(24, |data| {
        let window = tensor(data, shape).narrow(Channels, 5..5);
        refused(window, range(5, 5));
    });
    let operands = Operands::new(shape, numbers([2, 4]));
    operands.refused(ROTATIONS, rope().with_window(5), error::window(5, 4, 4));
    // The window leaves two of four channels, and the rows have four.
    operands.refused(ROTATIONS, rope().with_window(2), error::window(2, 4, 4));
    for parts in [0, 3, usize::MAX] {
        operands.refused(ROTATIONS, rope().with_parts(parts), error::parts(parts, 4));
    }
    // The plan is for heads of another size.
    for other in [2, 6, usize::MAX] {
        let error = error::plan_head_dim(4, other, 0);
        operands.refused(ROTATIONS, rope().with_head_dim(other), error);
        let error = error::plan_head_dim(4, other, 2);
        operands.refused(ROTATIONS, rope().with_window(2).with_head_dim(other), error);
    }
    let rows = operands.rows;
    assert_eq!(rows.check_shape(shape), Ok(()));
    assert_eq!(rows.check_shape([3, 2, 1, 4]), Ok(()));
    refused(rows.check_shape([1, 3, 1, 4]), error::row_count(2, 3, 1));
}

#[test]
fn range() {
    let layout = Layout::bshd([2, 3, 4, 8]).expect("a small shape");
    for (dimension, start, end, extent) in [
        (Batch, 1, 3, 2),
        (Tokens, 3, 2, 3),
        (Heads, 5, 5, 4),
        (Channels, 0, usize::MAX, 8),
        (Heads, 2, 9, 4),
    ] {
        let error = error::range(dimension, start, end, extent);
        refused(layout.narrow(dimension, start..end), error);
    }
    untouched::<f32>(192, |data| {
        let error = |end| error::range(Tokens, 0, end, 3);
        let shared = Tensor::new(&*data, layout).expect("a valid tensor");
        refused(shared.split_at(Tokens, 4), error(4));
        let tensor = TensorMut::new(data, layout).expect("a valid tensor");
        refused(tensor.split_at(Tokens, 5), error(5));
    });
}

#[test]
fn interleaved() {
    for dimension in [Tokens, Heads, Channels] {
        untouched::<f32>(192, |data| {
            let parts = tensor(data, [2, 3, 4, 8]).split_at(dimension, 1);
            refused(parts, error::parts_interleave(dimension));
        });
    }
}

#[test]
fn rotary_dim() {
    for dim in [0, 1, 3, usize::MAX] {
        let error = error::rotary_dim(dim, "even and at least 2");
        let twelve = [0.0; 12];
        refused(Rows::new(&[], [0, dim]), error);
        refused(Rows::new(&twelve, [1, dim]), error);
        refused(Rows::from_vec(twelve.to_vec(), [12, dim]), error);
        refused(Rows::from_cos_sin(&twelve, &twelve, [2, 6], dim), error);
        if dim < 2 {
            refused(Rows::from_cos_sin(&[], &[], [0, 0], dim), error);
        }
    }
    // Twice this many pairs do not fit `usize`.
    let required = "twice the pairs of a range within the rows (Rows::narrow_pairs)";
    let half = usize::MAX / 2 + 1;
    for (pairs, dim) in [(0..half, usize::MAX), (0..4, 8), (2..2, 0), (half..half, 0)] {
        refused(
            numbers([2, 6]).narrow_pairs(pairs),
            error::rotary_dim(dim, required),
        );
    }
}

/// The shape of cos and sin determines the number of rows. Without it, a table with each value twice would be read as
/// twice as many rows, and as the rows of two sequences.
#[test]
fn rows_shape() {
    let twice = [0.0; 2 * 8];
    for rows in [2, 3, usize::MAX] {
        let (shape, error) = ([rows, 4], error::row_shape(16, rows, 4));
        let has = format!("[{rows}, 4] has {}", rows.saturating_mul(4));
        assert!(has_word(&error.to_string(), &has));
        refused(Rows::from_cos_sin(&twice, &twice, shape, 8), error);
        refused(Rows::new(&twice, shape), error);
        refused(Rows::from_vec(twice.to_vec(), shape), error);
    }
    refused(Rows::new(&[0.0; 9], [2, 4]), error::row_shape(9, 2, 4));
    let rows = Rows::from_cos_sin(&twice, &twice, [2, 8], 8).expect("two rows");
    assert_eq!(rows.len(), 2);
}

#[test]
fn halves_differ() {
    let once: Vec<f32> = (0..12).map(|i| i as f32).collect();
    let twice: Vec<f32> = once.chunks(4).flat_map(|row| row.repeat(2)).collect();
    let interleaved: Vec<f32> = once.iter().flat_map(|&value| [value, value]).collect();
    for [cos, sin] in [[&interleaved, &twice], [&twice, &interleaved]] {
        let refusal = Rows::from_cos_sin(cos, sin, [3, 8], 8);
        refused(refusal, error::halves_differ(2, 0));
    }
    // Compared by bits: a NaN equals itself, and zero differs from minus zero.
    let nan = [f32::NAN, 0.0, f32::NAN, 0.0];
    let zeros = [f32::NAN, 0.0, f32::NAN, -0.0];
    assert!(Rows::from_cos_sin(&nan, &nan, [1, 4], 4).is_ok());
    let refusal = Rows::from_cos_sin(&nan, &zeros, [1, 4], 4);
    refused(refusal, error::halves_differ(0, 1));
}

/// PyTorch's cos keeps each value twice: it is no row of cos and sin, and needs `from_cos_sin`.
#[test]
fn halves_equal() {
    // The text has half of the width.
    let equal = |rows: Result<Rows<'_>, Error>, row, width| {
        assert_eq!(
            rows.expect_err("a refusal"),
            error::halves_equal(row, width)
        );
    };
    let once: Vec<f32> = (1..13).map(|i| i as f32).collect();
    let twice: Vec<f32> = once.chunks(4).flat_map(|row| row.repeat(2)).collect();
    equal(Rows::new(&twice, [3, 8]), 2, 8);
    equal(Rows::from_vec(twice.clone(), [3, 8]), 2, 8);
    assert!(Rows::from_cos_sin(&twice, &twice, [3, 8], 8).is_ok());
    // The cos of position 0; compared by bits: a NaN equals itself, and zero differs from minus zero.
    let nan = f32::NAN;
    for row in [[1.0; 4], [0.0, nan, 0.0, nan], [0.5, -0.25, 0.5, -0.25]] {
        equal(Rows::new(&row, [1, 4]), 0, 4);
    }
    for different in [
        [1.0, 0.0, 1.0, -0.0],
        // Pairs at 45 and 225 degrees, and padding, have one magnitude, and are not all 1.
        [0.7; 4],
        [0.7, -0.7, 0.7, -0.7],
        [0.0; 4],
        [0.0, -0.0, 0.0, -0.0],
        [-1.0; 4],
        [1.0, -1.0, 1.0, -1.0],
    ] {
        assert!(Rows::new(&different, [1, 4]).is_ok(), "{different:?}");
    }
    // One pair, another row than the last, and no rows.
    assert!(Rows::new(&[1.0; 2], [1, 2]).is_ok());
    assert!(Rows::new(&[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0], [2, 4]).is_ok());
    assert!(Rows::new(&[], [0, 4]).is_ok());
}

#[test]
fn lengths_of_cos_and_sin() {
    let refusal = Rows::from_cos_sin(&[0.0; 8], &[0.0; 6], [4, 2], 4);
    refused(refusal, error::cos_sin_length(8, 6));
    for width in [0, 3, 5, 7, 9, 16] {
        let refusal = Rows::from_cos_sin(&[0.0; 12], &[0.0; 12], [1, width], 8);
        refused(refusal, error::row_width(width, 8));
    }
}

#[test]
fn positions_and_ranges_outside_a_table() {
    let table = numbers([5, 4]);
    let part = table.narrow(2..4).expect("rows that are there");
    let none = rows(&[], [0, 4]);
    let outside = |result: Result<Rows<'_>, Error>, index, id, rows| {
        refused(result, error::outside_table(index, id, rows));
    };
    outside(table.gather(&[0_i32, 4, -7, 9]), 2, -7, 5);
    outside(table.gather(&[0_i64, 5]), 1, 5, 5);
    outside(table.gather(&[i64::MIN]), 0, i64::MIN, 5);
    outside(table.gather(&[1_i64 << 32]), 0, 1 << 32, 5);
    outside(table.gather(&[4, 0, 1, u32::MAX]), 3, u32::MAX.into(), 5);
    outside(part.gather(&[1_u32, 2]), 1, 2, 2);
    outside(none.gather(&[0_u32]), 0, 0, 0);
    assert!(none.gather(&[0_u32; 0]).is_ok());

    let gathered = table.gather(&[1_u32, 2]).expect("ids that are there");
    refused(gathered.gather(&[0_u32]), error::already_gathered());
    let part = gathered.narrow(0..1).expect("rows that are there");
    refused(part.gather(&[0_i64]), error::already_gathered());

    for (rows, start, end, len) in [(&table, 2, 6, 5), (&table, 3, 1, 5), (&gathered, 0, 3, 2)] {
        refused(rows.narrow(start..end), error::row_range(start, end, len));
    }
    assert!(table.narrow(5..5).is_ok_and(|rows| rows.is_empty()));
}

#[test]
fn attention_factor() {
    let with = |factor| numbers([1, 2]).with_attention_factor(factor);
    for factor in [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
        refused(with(factor), error::attention_factor(factor));
    }
    assert!(with(-1.5).is_ok_and(|rows| rows.attention_factor() == -1.5));
}

/// Rows that do not fit a `[2, 3, 1, 8]` tensor, or its slots, in each verb of each plan and element.
fn each_verb_refuses(rows: &Rows<'_>, error: Error, verbs: &[&[Verb]]) {
    let operands = &Operands::new([2, 3, 1, 8], rows.clone());
    for backend in Backend::available() {
        for pairing in Pairing::ALL {
            let plan = Rope::new(pairing)
                .with_backend(backend)
                .expect("it is there");
            operands.backward_refused::<f32>(&plan, error);
            operands.refused(verbs, plan, error);
            operands.refused_as::<f16>(verbs, &plan, error);
            operands.refused_as::<bf16>(verbs, &plan, error);
            if verbs != [SHIFT] {
                operands.refused_as::<bf16>(verbs, &plan.with_norm(norm()), error);
            }
        }
    }
}

#[test]
fn rows_and_heads_that_do_not_fit() {
    let verbs = &[ROTATE, ROTATE_INTO, READ, WRITE];
    let error = error::rotary_dim_exceeds(10, 8);
    each_verb_refuses(&numbers([3, 10]), error, verbs);
    each_verb_refuses(&numbers([6, 10]), error, &[SHIFT]);
    for count in [0, 1, 2, 4, 5, 7] {
        let error = error::row_count(count, 3, 2);
        each_verb_refuses(&numbers([count, 8]), error, verbs);
    }
    // The product of sequences and tokens may exceed usize; this must not panic.
    let many = [usize::MAX, usize::MAX, 0, 8];
    let layout = Layout::strided(many, strides(0, 0, 0)).expect("an empty tensor");
    let mut x = TensorMut::<f32>::new(&mut [], layout).expect("an empty tensor");
    let refusal = rope().rotate(&mut x, &numbers([7, 8]));
    refused(refusal, error::row_count(7, usize::MAX, usize::MAX));
}

#[test]
fn pairing_changes_in_place() {
    let (input, output) = (Pairing::Interleaved, Pairing::Half);
    let error = error::pairing_changes(input, output);
    let operands = Operands::new([1, 1, 1, 2], numbers([1, 2]));
    for backend in Backend::available() {
        let rope = Rope::new(input).with_output_pairing(output);
        let rope = rope.with_backend(backend).expect("an available backend");
        operands.refused(&[ROTATE, SHIFT], rope, error);
        operands.refused(&[ROTATE], rope.with_norm(norm()), error);
    }
}

/// Another shape of the target, or of K, whose heads may differ.
#[test]
fn shape_mismatch() {
    const INTO: &[&[Verb]] = &[ROTATE_INTO, &[Verb::ApplyInto]];
    let shape = [2, 3, 1, 8];
    let between = |other| Operands {
        other,
        ..Operands::new(shape, numbers([3, 2]))
    };
    for (other, dimension, source, target) in [
        ([1, 3, 1, 8], Batch, 2, 1),
        ([2, 2, 1, 8], Tokens, 3, 2),
        ([2, 3, 2, 4], Heads, 1, 2),
        ([2, 3, 1, 6], Channels, 8, 6),
        ([3, 2, 1, 8], Batch, 2, 3),
    ] {
        let differ = Shape::from(shape).difference(other.into());
        assert_eq!(differ, Some((dimension, source, target)));
        let error = error::mismatch(dimension, source, target);
        between(other).refused(INTO, rope(), error);
        between(other).refused(INTO, rope().with_window(2), error);
        between(other).refused(INTO, rope().with_norm(norm()), error);
    }
    for (other, dimension, query, key) in [
        ([1, 3, 1, 8], Batch, 2, 1),
        ([2, 2, 1, 8], Tokens, 3, 2),
        ([2, 3, 1, 6], Channels, 8, 6),
        ([2, 3, 2, 4], Channels, 8, 4),
    ] {
        let error = error::query_key(dimension, query, key);
        between(other).refused(ROTATE_QK, rope(), error);
        between(other).refused(ROTATE_QK, rope().with_norm(norm()), error);
    }
}

#[test]
fn row_heads() {
    let table = [0.5_f32; 24];
    let of_three = || rows(&table, [12, 2]).with_heads(3).expect("four tokens");
    let error = error::row_heads(3, 2);
    refused(of_three().with_heads(2), error);
    let two = [1, 4, 2, 4];
    let operands = Operands::new(two, of_three());
    operands.refused(ROTATIONS, rope(), error);
    // K alone.
    let operands = Operands {
        shape: [1, 4, 3, 4],
        ..operands
    };
    operands.refused(ROTATE_QK, rope(), error);
    let x = [1.0_f32; 32];
    let x = Tensor::new(&x, two).expect("valid");
    refused(rope_models::explain(&x, &x, &of_three()), error);
}

#[test]
fn row_sequences() {
    let values = [0.5_f32; 64];
    let layout = Layout::sbhd([3, 2, 1, 2]).expect("a small layout");
    let strided = Rows::strided(&values, &values, layout).expect("rows inside the slices");
    let error = error::sequences(2, 3);
    refused(strided.gather(&[0, 1]), error);
    for range in [1..6, 0..4, 2..4, 0..5] {
        refused(strided.narrow(range), error);
    }
    refused(strided.clone().with_heads(2), error);
    for shape in [[3, 2, 1, 8], [1, 6, 1, 8], [6, 1, 1, 8], [2, 6, 1, 4]] {
        let operands = Operands::new(shape, strided.clone());
        operands.refused(&[ROTATE, ROTATE_INTO, READ, WRITE], rope(), error);
    }
    let mut x = [1.0_f32; 48];
    let mut x = tensor(&mut x, [2, 3, 1, 8]);
    assert_eq!(rope().rotate(&mut x, &strided), Ok(()));
}

#[test]
fn row_magnitude() {
    let inverse = rope().with_direction(Direction::Inverse);
    // Two tokens of two heads of two pairs; all but one are rotations by a zero angle.
    for (at, row, head, pair) in [(0, 0, 0, 0), (5, 0, 1, 1), (8, 1, 0, 0), (13, 1, 1, 1)] {
        for value in [2.0_f32, 0.0, f32::NAN, f32::INFINITY] {
            let mut values = [1.0_f32, 1.0, 0.0, 0.0].repeat(4);
            values[at] = value;
            let first = at - at % 4 + pair as usize;
            let error = error::magnitude(row, head, pair, values[first], values[first + 2], 1.0);
            let given = rows(&values, [4, 4]).with_heads(2).expect("two tokens");
            Operands::new([1, 2, 2, 6], given).refused(&[ROTATE], inverse, error);
        }
    }
    let error = error::magnitude(0, 0, 0, 3.0, 4.0, 1.0);
    let operands = Operands::new([1, 1, 2, 2], rows(&[3.0, 4.0], [1, 2]));
    operands.refused(ROTATIONS, inverse, error);
    // Q or K without heads.
    for (shape, other) in [([1, 1, 0, 2], [1, 1, 2, 2]), ([1, 1, 2, 2], [1, 1, 0, 2])] {
        let operands = Operands {
            shape,
            other,
            ..operands.clone()
        };
        operands.refused(ROTATE_QK, inverse, error);
    }
    // Every other direction accepts the rows, and so does their attention factor.
    let rows = &operands.rows;
    let five = rows.clone().with_attention_factor(5.0).expect("a factor");
    for (direction, rows) in [
        (Direction::Forward, rows),
        (Direction::Transpose, rows),
        (Direction::Inverse, &five),
    ] {
        let mut x = [1.0_f32; 4];
        let rope = rope().with_direction(direction);
        let rotated = rope.rotate(&mut tensor(&mut x, [1, 1, 2, 2]), rows);
        assert_eq!(rotated, Ok(()), "{direction}");
    }
}

#[test]
fn backend_unavailable() {
    let missing = |backend: &&Backend| !backend.is_available();
    for &backend in Backend::ALL.iter().filter(missing) {
        let error = error::backend_unavailable(backend);
        assert!(has_word(&error.to_string(), backend.name()));
        refused(rope().with_backend(backend), error);
    }
}
