//! Every error of a call: it has the value and the limit, and nothing was written.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use half::{bf16, f16};
use rope_core::Dimension::{Batch, Channels, Heads, Tokens};
use rope_core::norm::{Norm, NormFormula};
use rope_core::stages::WithStages;
use rope_core::{
    Backend, Direction, Error, Layout, Pairing, Rope, Rows, Shape, Strides, Tensor, TensorMut,
    UnknownName,
};
use rope_tests::number::paint;
use rope_tests::{Number, Source, each_element};

use errors as error;
use verbs::{Operands, READ, ROTATE, ROTATE_INTO, SHIFT, Verb, WRITE};

pub(crate) mod errors;
#[cfg(feature = "capi")]
mod overlapping;
pub(crate) mod verbs;

/// Asserts the error, field by field, and each field's value in its text. The suite `messages` compares the place of
/// each value in the text.
#[track_caller]
pub(crate) fn refused<T: Debug, E: PartialEq + std::error::Error + Send + Sync + 'static>(
    result: Result<T, E>,
    error: E,
) {
    let got = result.expect_err("a refusal");
    assert_eq!(got, error);
    let text = got.to_string();
    for field in format!("{got:?}").split(['{', ',', '}', ')']) {
        let Some((_, value)) = field.split_once(": ") else {
            continue;
        };
        let value = value.trim_end();
        match value.parse::<f64>() {
            // An integer may exceed the exact ones of f64; 0.0 is written as 0.
            Ok(number) if value.contains('.') && !text.contains(value) => {
                assert_words(&text, &[&number.to_string()]);
            }
            Ok(_) => assert_words(&text, &[value]),
            Err(_) if value.starts_with('"') => assert_words(&text, &[value.trim_matches('"')]),
            Err(_) => assert_words(&text, &[&value.to_lowercase()]),
        }
    }
    // The error can be passed on like any other.
    let boxed: Box<dyn std::error::Error + Send + Sync> = Box::new(got);
    assert_eq!(boxed.to_string(), text);
}

/// Asserts the error like [`refused`], and more words in its text.
#[track_caller]
pub(crate) fn refused_with<T: Debug, E: PartialEq + std::error::Error + Send + Sync + 'static>(
    result: Result<T, E>,
    error: E,
    words: &[&str],
) {
    assert_words(&error.to_string(), words);
    refused(result, error);
}

#[track_caller]
fn assert_words(text: &str, words: &[&str]) {
    // A whole word: 13 does not contain 3.
    let whole = |c: char| !c.is_alphanumeric() && c != '-' && c != '_';
    let parts: Vec<&str> = text.split(whole).collect();
    for word in words {
        let found = match word.contains(whole) {
            true => text.contains(word),
            false => parts.contains(word),
        };
        assert!(found, "{word:?} is not in {text:?}");
    }
}

/// A suite provokes each error: this one, or the suite of the function that refuses.
#[test]
fn each_error_has_a_test() {
    let suites = concat!(
        include_str!("refused/errors.rs"),
        include_str!("config.rs"),
        include_str!("operands.rs"),
        include_str!("rotate_at.rs"),
        include_str!("frequencies.rs"),
        include_str!("gguf.rs"),
        include_str!("gguf_files.rs"),
        include_str!("gradient.rs"),
        include_str!("ignored.rs"),
        include_str!("rows.rs"),
        include_str!("full.rs"),
        include_str!("shards.rs"),
        include_str!("shift.rs"),
    );
    let words: Vec<&str> = suites
        .split(|c: char| !c.is_alphanumeric() && c != ':')
        .collect();
    let of_models = ("", rope_models::Error::NAMES);
    for (group, names) in rope_core::internals::ERRORS.iter().chain([&of_models]) {
        for name in *names {
            let error = format!("{group}Error::{name}");
            assert!(words.contains(&&*error), "no suite provokes {error}");
        }
    }
}

/// Values of rows, all different.
pub(crate) static NUMBERS: [f32; 64] = {
    let (mut numbers, mut i) = ([0.0; 64], 0);
    while i < 64 {
        numbers[i] = i as f32;
        i += 1;
    }
    numbers
};

/// The first numbers as rows.
pub(crate) fn numbers(shape: [usize; 2]) -> Rows<'static> {
    rows(&NUMBERS[..shape[0] * shape[1]], shape)
}

fn rows(values: &[f32], shape: [usize; 2]) -> Rows<'_> {
    Rows::new(values, shape).expect("whole rows")
}

pub(crate) fn tensor<E: Number>(memory: &mut [E], shape: [usize; 4]) -> TensorMut<'_, E> {
    TensorMut::new(memory, shape).expect("valid")
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
    let max = usize::MAX.to_string();
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
        refused_with(TensorMut::new(data, shape), error, &[&max]);
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
        refused_with(Layout::strided(shape, strides), error, &[&max]);
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

fn shape_elements_of<E: Number>(extents: [usize; 4], elements: usize, len: usize, words: &[&str]) {
    let shape = Shape::from(extents);
    let error = error::shape_elements(shape, len);
    let text = error.to_string();
    let has = format!("shape {shape} has {elements} elements, but the slice has {len}");
    assert_words(&text, &[&[&*has], words].concat());
    assert_eq!(text.contains('('), !words.is_empty(), "{text}");
    assert_eq!(text.contains("use Layout::bshd"), elements < len, "{text}");
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
    for (shape, elements, len, words) in [
        // The memory of grouped queries: K's heads on Q's memory, and Q's heads on K's.
        ([1, 5, 8, 128], 5120, 20480, &["heads would be 32"][..]),
        ([1, 5, 32, 128], 20480, 5120, &["heads would be 8"]),
        ([2, 3, 4, 8], 192, 48, &["heads would be 1"]),
        ([1, 2, 3, 8], 48, 47, &[]),
        ([1, 2, 3, 8], 48, 49, &[]),
        ([1, 1, 1, 2], 2, 0, &[]),
        // A shape without elements fits only an empty slice.
        ([1, 0, 3, 8], 0, 24, &[]),
        ([1, 2, 3, 0], 0, 1, &[]),
        ([0, 2, 0, 8], 0, 16, &[]),
    ] {
        each_element!(shape_elements_of(shape, elements, len, words));
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
    let verbs = &[ROTATE, ROTATE_INTO, READ, WRITE, SHIFT];
    let rope = Rope::new(Pairing::Half);
    operands.refused::<f32>(verbs, &rope.window(5), range(5, 4));
    // The window leaves two of four channels, and the rows have four.
    let error = error::rotary_dim_exceeds(4, 2);
    operands.refused::<f32>(verbs, &rope.window(2), error);
    for parts in [0, 3, usize::MAX] {
        operands.refused::<f32>(verbs, &rope.parts(parts), error::parts(parts, 4));
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
}

/// The shape of cos and sin determines the number of rows. Without it, a table with each value twice would be read as
/// twice as many rows, and as the rows of two sequences.
#[test]
fn rows_shape() {
    let twice = [0.0; 2 * 8];
    for rows in [2, 3, usize::MAX] {
        let (shape, error) = ([rows, 4], error::row_shape(16, rows, 4));
        let has = format!("[{rows}, 4] has {}", rows.saturating_mul(4));
        let words = [&*has, "slice has 16, which is [4, 4]"];
        refused_with(Rows::from_cos_sin(&twice, &twice, shape, 8), error, &words);
        refused_with(Rows::new(&twice, shape), error, &words);
        refused_with(Rows::from_vec(twice.to_vec(), shape), error, &words);
    }
    let words = ["shape [2, 4] has 8 values, but the slice has 9"];
    let error = error::row_shape(9, 2, 4);
    refused_with(Rows::new(&[0.0; 9], [2, 4]), error, &words);
    let rows = Rows::from_cos_sin(&twice, &twice, [2, 8], 8).expect("two rows");
    assert_eq!(rows.len(), 2);
}

#[test]
fn halves_differ() {
    let once: Vec<f32> = (0..12).map(|i| i as f32).collect();
    let twice: Vec<f32> = once.chunks(4).flat_map(|row| [row, row].concat()).collect();
    let interleaved: Vec<f32> = once.iter().flat_map(|&value| [value, value]).collect();
    for [cos, sin] in [[&interleaved, &twice], [&twice, &interleaved]] {
        let words = ["row 2", "pair 0", "repeat_interleave"];
        let refusal = Rows::from_cos_sin(cos, sin, [3, 8], 8);
        refused_with(refusal, error::halves_differ(2, 0), &words);
    }
    // Compared by bits: a NaN equals itself, and zero differs from minus zero.
    let nan = [f32::NAN, 0.0, f32::NAN, 0.0];
    let zeros = [f32::NAN, 0.0, f32::NAN, -0.0];
    assert!(Rows::from_cos_sin(&nan, &nan, [1, 4], 4).is_ok());
    let refusal = Rows::from_cos_sin(&nan, &zeros, [1, 4], 4);
    refused_with(refusal, error::halves_differ(0, 1), &["row 0", "pair 1"]);
}

/// PyTorch's cos keeps each value twice: it is no row of cos and sin, and needs `from_cos_sin`.
#[test]
fn halves_equal() {
    let once = &NUMBERS[1..13];
    let twice: Vec<f32> = once.chunks(4).flat_map(|row| row.repeat(2)).collect();
    let error = error::halves_equal(2, 8);
    let words = ["row 2", "same 4", "from_cos_sin"];
    assert_words(&error.to_string(), &words);
    assert_eq!(Rows::new(&twice, [3, 8]).expect_err("a refusal"), error);
    let refusal = Rows::from_vec(twice.clone(), [3, 8]);
    assert_eq!(refusal.expect_err("a refusal"), error);
    assert!(Rows::from_cos_sin(&twice, &twice, [3, 8], 8).is_ok());
    // The cos of position 0; compared by bits: a NaN equals itself, and zero differs from minus zero.
    let nan = f32::NAN;
    for equal in [[1.0; 4], [0.0, nan, 0.0, nan], [0.5, -0.25, 0.5, -0.25]] {
        let refusal = Rows::new(&equal, [1, 4]).expect_err("a refusal");
        assert_eq!(refusal, error::halves_equal(0, 4));
        assert_words(&refusal.to_string(), &["row 0", "same 2"]);
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
        refused_with(refusal, error::row_width(width, 8), &["4"]);
    }
}

#[test]
fn positions_and_ranges_outside_a_table() {
    let table = numbers([5, 4]);
    let part = table.range(2..4).expect("rows that are there");
    let none = rows(&[], [0, 4]);
    let outside = |result, index, id, rows: usize| {
        let error = error::outside_table(index, id, rows);
        refused_with::<Rows<'_>, _>(result, error, &[&format!("0..{rows}")]);
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
    let part = gathered.range(0..1).expect("rows that are there");
    refused(part.gather(&[0_i64]), error::already_gathered());

    for (rows, start, end, len) in [(&table, 2, 6, 5), (&table, 3, 1, 5), (&gathered, 0, 3, 2)] {
        refused(rows.range(start..end), error::row_range(start, end, len));
    }
    assert!(table.range(5..5).is_ok_and(|rows| rows.is_empty()));
}

#[test]
fn attention_factor() {
    let rows = || numbers([1, 2]);
    for factor in [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY] {
        let words = [&*factor.to_string()];
        let error = error::attention_factor(factor);
        refused_with(rows().with_attention_factor(factor), error, &words);
    }
    // NaNs compare unequal.
    let refusal = rows().with_attention_factor(f64::NAN);
    let error = refusal.expect_err("a refusal");
    let expected = error::attention_factor(f64::NAN);
    assert_eq!(format!("{error:?}"), format!("{expected:?}"));
    assert!(error.to_string().contains("NaN"));
    let negative = rows().with_attention_factor(-1.5);
    assert!(negative.is_ok_and(|rows| rows.attention_factor() == -1.5));
}

/// Rows that do not fit a `[2, 3, 1, 8]` tensor, or its slots, in each verb of each plan and element.
fn each_verb_refuses(rows: &Rows<'_>, error: Error, verbs: &[&[Verb]]) {
    let operands = &Operands::new([2, 3, 1, 8], rows.clone());
    for backend in Backend::available() {
        for pairing in Pairing::ALL {
            let plan = Rope::new(pairing).backend(backend).expect("it is there");
            operands.backward_refused::<f32>(&plan, error);
            operands.refused::<f32>(verbs, &plan, error);
            operands.refused::<f16>(verbs, &plan, error);
            operands.refused::<bf16>(verbs, &plan, error);
            operands.refused::<bf16>(verbs, &Rope::<WithStages<'_>>::from(plan), error);
            if verbs != [SHIFT] {
                operands.refused::<bf16>(verbs, &plan.norm(norm()), error);
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
    let refusal = Rope::new(Pairing::Half).rotate(&mut x, &numbers([7, 8]));
    refused(refusal, error::row_count(7, usize::MAX, usize::MAX));
}

#[test]
fn pairing_changes_in_place() {
    let (input, output) = (Pairing::Interleaved, Pairing::Half);
    let error = error::pairing_changes(input, output);
    let operands = Operands::new([1, 1, 1, 2], numbers([1, 2]));
    for backend in Backend::available() {
        let rope = Rope::new(input).output_pairing(output);
        let rope = rope.backend(backend).expect("an available backend");
        operands.refused::<f32>(&[ROTATE, SHIFT], &rope, error);
        let chain = Rope::<WithStages<'_>>::from(rope);
        operands.refused::<bf16>(&[ROTATE, SHIFT], &chain, error);
        operands.refused::<f32>(&[ROTATE], &rope.norm(norm()), error);
        untouched::<f32>(2, |q| {
            untouched::<bf16>(2, |k| {
                let (mut q, mut k) = (tensor(q, [1, 1, 1, 2]), tensor(k, [1, 1, 1, 2]));
                refused(rope.rotate_qk(&mut q, &mut k, &operands.rows), error);
            });
        });
    }
}

/// Another shape of the target, or of K, whose heads may differ.
#[test]
fn shape_mismatch() {
    let rope = Rope::new(Pairing::Half);
    let chain = rope.norm(norm());
    let (x, rows) = ([1.0_f32; 48], numbers([3, 2]));
    let from = Tensor::new(&x, [2, 3, 1, 8]).expect("valid");
    for (other, dimension, source, target) in [
        ([1, 3, 1, 8], Batch, 2, 1),
        ([2, 2, 1, 8], Tokens, 3, 2),
        ([2, 3, 2, 4], Heads, 1, 2),
        ([2, 3, 1, 6], Channels, 8, 6),
        ([3, 2, 1, 8], Batch, 2, 3),
    ] {
        let differ = from.layout().shape().difference(other.into());
        assert_eq!(differ, Some((dimension, source, target)));
        untouched::<f16>(48, |data| {
            let part = Layout::bshd(other).expect("a small shape");
            let mut to = TensorMut::new(data, part).expect("valid");
            let error = error::mismatch(dimension, source, target);
            refused(rope.rotate_into(&from, &mut to, &rows), error);
            refused(chain.rotate_into(&from, &mut to, &rows), error);
            refused(rope.apply_into(&from, &mut to), error);
            let call = rope.prepare_into(&from, &mut to, &rows);
            refused(call.map(|_| ()), error);
        });
    }
    for (other, dimension, query, key) in [
        ([1, 3, 1, 8], Batch, 2, 1),
        ([2, 2, 1, 8], Tokens, 3, 2),
        ([2, 3, 1, 6], Channels, 8, 6),
        ([2, 3, 2, 4], Channels, 8, 4),
    ] {
        untouched::<f32>(48, |q| {
            untouched::<f16>(48, |k| {
                let mut q = tensor(q, [2, 3, 1, 8]);
                let part = Layout::bshd(other).expect("a small shape");
                let mut k = TensorMut::new(k, part).expect("valid");
                let error = error::query_key(dimension, query, key);
                refused(rope.rotate_qk(&mut q, &mut k, &rows), error);
                refused(chain.rotate_qk(&mut q, &mut k, &rows), error);
            });
        });
    }
}

#[test]
fn rows_per_head() {
    let values = &NUMBERS[..48];
    let twelve = || numbers([12, 4]);
    let error = |heads| error::rows_per_head(12, heads);
    for heads in [0, 5, 24, usize::MAX] {
        refused(twelve().with_heads(heads), error(heads));
    }
    let none = Layout::bshd([3, 4, 0, 2]).expect("an empty layout");
    refused(Rows::strided(values, values, none), error(0));
    let twelve = twelve();
    let gathered = twelve.gather(&[1, 0]).expect("ids that are there");
    refused(gathered.with_heads(2), error::already_gathered());
    let pairs = Layout::bshd([1, 2, 3, 0]).expect("an empty layout");
    let error = error::rotary_dim(0, "even and at least 2");
    refused(Rows::strided(values, values, pairs), error);
    let shape = [2, 4, 3, 2];
    let layout = Layout::bshd(shape).expect("a small layout");
    // A layout may cover a part of each slice, a shape covers all of it.
    assert!(Rows::strided(values, &NUMBERS, layout).is_ok());
    assert!(Rows::strided(values, values, layout.shape()).is_ok());
    for len in [47, 49] {
        let other = &NUMBERS[..len];
        for (cos, sin) in [(values, other), (other, values)] {
            let error = error::shape_elements(shape.into(), len);
            let words = ["[2, 4, 3, 2] has 48", &format!("slice has {len}")];
            refused_with(Rows::strided(cos, sin, shape), error, &words);
            refused_with(Rows::strided(cos, sin, layout.shape()), error, &words);
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

#[test]
fn row_heads() {
    let table = [0.5_f32; 24];
    let of_three = || rows(&table, [12, 2]).with_heads(3).expect("four tokens");
    let error = |heads| error::row_heads(3, heads);
    refused(of_three().with_heads(2), error(2));
    let mut sinusoidal = [7.0; 24];
    refused(of_three().sinusoidal(&mut sinusoidal), error(1));
    assert_eq!(sinusoidal, [7.0; 24]);
    let operands = Operands::new([1, 4, 2, 4], of_three());
    let verbs = &[ROTATE, ROTATE_INTO, READ, WRITE, SHIFT];
    let rope = Rope::new(Pairing::Half);
    operands.refused::<f32>(verbs, &rope, error(2));
    operands.refused::<f32>(verbs, &Rope::<WithStages<'_>>::from(rope), error(2));
    untouched::<f32>(32, |x| {
        untouched::<f32>(48, |y| {
            let (mut x, mut y) = (tensor(x, [1, 4, 2, 4]), tensor(y, [1, 4, 3, 4]));
            refused(rope.rotate_qk(&mut y, &mut x, &of_three()), error(2));
            refused(rope.rotate_qk(&mut x, &mut y, &of_three()), error(2));
        });
    });
    let x = [1.0_f32; 32];
    let x = Tensor::new(&x, [1, 4, 2, 4]).expect("valid");
    refused(rope_models::explain(&x, &x, &of_three()), error(2));
}

#[test]
fn row_sequences() {
    let values = [0.5_f32; 64];
    let layout = Layout::sbhd([3, 2, 1, 2]).expect("a small layout");
    let strided = Rows::strided(&values, &values, layout).expect("rows inside the slices");
    let error = error::sequences(2, 3);
    refused(strided.gather(&[0, 1]), error);
    for range in [1..6, 0..4, 2..4, 0..5] {
        refused(strided.range(range), error);
    }
    refused(strided.clone().with_heads(2), error);
    let rope = Rope::new(Pairing::Half);
    for shape in [[3, 2, 1, 8], [1, 6, 1, 8], [6, 1, 1, 8], [2, 6, 1, 4]] {
        let operands = Operands::new(shape, strided.clone());
        operands.refused::<f32>(&[ROTATE, ROTATE_INTO, READ, WRITE], &rope, error);
    }
    let mut x = [1.0_f32; 48];
    let mut x = tensor(&mut x, [2, 3, 1, 8]);
    assert_eq!(rope.rotate(&mut x, &strided), Ok(()));
}

#[test]
fn row_magnitude() {
    let rope = Rope::new(Pairing::Half).direction(Direction::Inverse);
    // Two tokens of two heads of two pairs; all but one are rotations by a zero angle.
    for (at, row, head, pair) in [(0, 0, 0, 0), (5, 0, 1, 1), (8, 1, 0, 0), (13, 1, 1, 1)] {
        for value in [2.0_f32, 0.0, f32::NAN, f32::INFINITY] {
            let mut values = [1.0_f32, 1.0, 0.0, 0.0].repeat(4);
            values[at] = value;
            let first = at - at % 4 + pair as usize;
            let error = error::magnitude(row, head, pair, values[first], values[first + 2], 1.0);
            let given = rows(&values, [4, 4]).with_heads(2).expect("two tokens");
            untouched::<f32>(24, |x| {
                let refusal = rope.rotate(&mut tensor(x, [1, 2, 2, 6]), &given);
                let got = refusal.expect_err("a refusal");
                assert_eq!(format!("{got:?}"), format!("{error:?}"));
                if !value.is_nan() {
                    refused(refusal, error);
                }
            });
        }
    }
    // Every other call, and every other direction, accepts the rows.
    let error = error::magnitude(0, 0, 0, 3.0, 4.0, 1.0);
    let values = [3.0_f32, 4.0];
    let operands = Operands::new([1, 1, 2, 2], rows(&values, [1, 2]));
    let verbs = &[ROTATE, ROTATE_INTO, READ, WRITE, SHIFT];
    operands.refused::<f32>(verbs, &rope, error);
    operands.refused::<f32>(verbs, &Rope::<WithStages<'_>>::from(rope), error);
    let rows = &operands.rows;
    untouched::<f32>(4, |y| {
        let mut y = tensor(y, [1, 1, 2, 2]);
        let mut none = TensorMut::new(&mut [0.0_f32; 0], [1, 1, 0, 2]).expect("valid");
        refused(rope.rotate_qk(&mut none, &mut y, rows), error);
        refused(rope.rotate_qk(&mut y, &mut none, rows), error);
    });
    let five = rows.clone().with_attention_factor(5.0).expect("a factor");
    for (direction, rows) in [
        (Direction::Forward, rows),
        (Direction::Transpose, rows),
        (Direction::Inverse, &five),
    ] {
        let mut x = [1.0_f32; 4];
        let rope = Rope::new(Pairing::Half).direction(direction);
        let rotated = rope.rotate(&mut tensor(&mut x, [1, 1, 2, 2]), rows);
        assert_eq!(rotated, Ok(()), "{direction}");
    }
}

#[test]
fn no_inverse() {
    let (nan, infinity) = (f32::NAN, f32::INFINITY);
    for [cos, sin] in [[0.0, -0.0], [nan, 1.0], [infinity, 0.0], [1e-40, 0.0]] {
        let mut values = [1.0_f32, 1.0, 0.0, 0.0].repeat(4);
        (values[13], values[15]) = (cos, sin);
        let rows = rows(&values, [4, 4]).with_heads(2).expect("two tokens");
        let mut storage = [7.0; 16];
        let error = rows.inverted(&mut storage).expect_err("a refusal");
        let expected = error::no_inverse(1, 1, 1, cos, sin);
        assert_eq!(format!("{error:?}"), format!("{expected:?}"));
        let both = format!("{cos:?} and sin {sin:?}");
        assert_words(&error.to_string(), &["pair 1", "row 1", "head 1", &both]);
        assert_eq!(storage, [7.0; 16]);
    }
    let values = [1.0_f32, 1.0, 0.0, 0.0].repeat(4);
    let rows = rows(&values, [4, 4]).with_heads(2).expect("two tokens");
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

#[test]
fn backend_unavailable() {
    let missing = |backend: &&Backend| !backend.is_available();
    for &backend in Backend::ALL.iter().filter(missing) {
        let refusal = Rope::new(Pairing::Half).backend(backend);
        let error = error::backend_unavailable(backend);
        refused_with(refusal, error, &[backend.name()]);
    }
}

fn unknown<T>(kind: &'static str, all: &[T])
where
    T: Copy + Debug + Display + PartialEq + FromStr<Err = UnknownName>,
{
    let names: Vec<String> = all.iter().map(T::to_string).collect();
    for name in ["", "Half", "sse", "half ", "forward,inverse"] {
        let error = name.parse::<T>().expect_err("a refusal");
        assert!(matches!(error, UnknownName { kind: of, .. } if of == kind));
        let mut words: Vec<&str> = error.known.split([',', ' ']).collect();
        words.retain(|word| !word.is_empty());
        assert_eq!(words, names);
        let text = error.to_string();
        assert!(text.contains(&format!("{kind} {name:?};")), "{text}");
        assert_words(&text, &words);
        let boxed: Box<dyn std::error::Error + Send + Sync> = Box::new(error);
        assert_eq!(boxed.to_string(), text);
    }
    for each in all {
        assert_eq!(each.to_string().parse(), Ok(*each));
    }
}

#[test]
fn unknown_name() {
    unknown("pairing", &Pairing::ALL);
    unknown("direction", &Direction::ALL);
    unknown("backend", Backend::ALL);
}

/// A tensor without elements is not touched; its errors are errors with elements as well.
#[test]
fn empty_tensors_are_fine() {
    let (one, none) = (numbers([1, 2]), numbers([0, 2]));
    let huge = usize::MAX;
    for backend in Backend::available() {
        let rope = Rope::new(Pairing::Half)
            .backend(backend)
            .expect("it is there");
        for (shape, rows) in [
            ([0, 1, 1, 2], &one),
            ([1, 0, 1, 2], &none),
            ([1, 1, 0, 2], &one),
            ([huge, 1, 0, 2], &one),
            ([huge, 0, 1, 2], &none),
            ([huge, 0, huge, 2], &none),
            ([0, 1, huge, huge], &one),
        ] {
            // The strides of an empty tensor have no meaning.
            let layout = Layout::strided(shape, strides(huge, huge, huge)).expect("no elements");
            let mut x = TensorMut::<f32>::new(&mut [], layout).expect("an empty tensor");
            assert_eq!(rope.rotate(&mut x, rows), Ok(()));
            let from = Tensor::<f16>::new(&[], layout).expect("an empty tensor");
            assert_eq!(rope.rotate_into(&from, &mut x, rows), Ok(()));
            let mut k = TensorMut::<bf16>::new(&mut [], layout).expect("an empty tensor");
            assert_eq!(rope.rotate_qk(&mut x, &mut k, rows), Ok(()));
        }
    }
}
