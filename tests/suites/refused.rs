//! Every error of a call: it has the value and the limit, and nothing was written.

use std::fmt::Debug;

use half::{bf16, f16};
use rope_core::error::{FrequenciesError, PlanError, RowsError, ShapeError};
use rope_core::{
    Backend, Dimension, Direction, Error, Layout, Pairing, Rope, Rows, Shape, Strides, Tensor,
    TensorMut, UnknownName,
};
use rope_tests::number::paint;
use rope_tests::{Number, Source, each_element};

#[cfg(feature = "capi")]
mod overlapping;

/// Asserts the error, value by value, and these words in its text. The suite `messages` compares the place of each
/// value in the text.
#[track_caller]
pub(crate) fn refused<T: Debug, E: PartialEq + std::error::Error + Send + Sync + 'static>(
    result: Result<T, E>,
    error: E,
    words: &[&str],
) {
    let got = result.expect_err("a refusal");
    assert_eq!(got, error);
    let text = got.to_string();
    for word in words {
        // A whole word: 13 does not contain 3.
        let parts: Vec<&str> = text
            .split(|c: char| !c.is_alphanumeric() && c != '-' && c != '_')
            .collect();
        assert!(
            parts.contains(word) || word.contains(' ') && text.contains(word),
            "{word:?} is not in {text:?}"
        );
    }
    // The error can be passed on like any other.
    let boxed: Box<dyn std::error::Error + Send + Sync> = Box::new(got);
    assert_eq!(boxed.to_string(), text);
}

/// A suite provokes each error: this one, or the suite of the function that refuses.
#[test]
fn each_error_has_a_test() {
    let suites = concat!(
        include_str!("refused.rs"),
        include_str!("refused_chains.rs"),
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

const ONE: [f32; 2] = [0.0, 1.0];

/// Values of rows, all different.
pub(crate) static NUMBERS: [f32; 64] = {
    let (mut numbers, mut i) = ([0.0; 64], 0);
    while i < 64 {
        numbers[i] = i as f32;
        i += 1;
    }
    numbers
};

fn rows(values: &[f32], shape: [usize; 2]) -> Rows<'_> {
    Rows::new(values, shape).expect("whole rows")
}

/// Runs calls with painted data and asserts the same bits afterwards.
pub(crate) fn untouched<E: Number>(len: usize, f: impl FnOnce(&mut [E])) {
    let before = paint::<E>(&mut Source::random("untouched"), len);
    let mut after = before.clone();
    f(&mut after);
    assert!(
        before
            .iter()
            .zip(&after)
            .all(|(before, after)| before.bits() == after.bits())
    );
}

#[test]
fn shape_overflow() {
    let max = usize::MAX.to_string();
    let shape = [2, usize::MAX, 3, 8];
    let [batch, tokens, heads, head_dim] = shape;
    let bhsd = Layout::bhsd([batch, heads, tokens, head_dim]);
    for layout in [Layout::bshd(shape), bhsd] {
        let error = Error::Shape(ShapeError::Overflow {
            shape: shape.into(),
        });
        refused(layout, error, &["2", &max, "3", "8"]);
    }
    // Here the strides are small.
    let error = Error::Shape(ShapeError::Overflow {
        shape: shape.into(),
    });
    refused(
        Layout::sbhd([tokens, batch, heads, head_dim]),
        error,
        &["2", &max, "3", "8"],
    );
    let thd = Layout::thd([usize::MAX / 2, 3, 8]);
    let error = Error::Shape(ShapeError::Overflow {
        shape: [1, usize::MAX / 2, 3, 8].into(),
    });
    refused(thd, error, &["1", &(usize::MAX / 2).to_string(), "3", "8"]);

    let strides = Strides {
        batch: 5,
        token: usize::MAX / 2,
        head: 8,
    };
    let error = Error::Shape(ShapeError::StrideOverflow {
        dimension: Dimension::Tokens,
        extent: 4,
        stride: usize::MAX / 2,
    });
    refused(
        Layout::strided([2, 4, 3, 8], strides),
        error,
        &["tokens", "4", &(usize::MAX / 2).to_string(), &max],
    );
    // An empty tensor has no end that could be exceeded.
    let empty = [usize::MAX, 2, 0, 1];
    assert_eq!(Shape::from(empty).elements(), Some(0));
    assert_eq!(Shape::from(shape).elements(), None);
    assert!(Layout::strided(empty, strides).is_ok());
    // The last index itself overflows.
    let strides = Strides {
        batch: usize::MAX - 7,
        token: 1,
        head: 1,
    };
    assert!(Layout::strided([2, 1, 1, 7], strides).is_ok());
    let farthest = |dimension, extent, stride| {
        Error::Shape(ShapeError::StrideOverflow {
            dimension,
            extent,
            stride,
        })
    };
    refused(
        Layout::strided([2, 1, 1, 8], strides),
        farthest(Dimension::Batch, 2, usize::MAX - 7),
        &["batch"],
    );
    // The farthest index, in any dimension.
    let strides = |batch, token, head| Strides { batch, token, head };
    let (half, third) = (usize::MAX / 2, usize::MAX / 3);
    for (shape, strides, error) in [
        (
            [3, 2, 2, 1],
            strides(third, half, half),
            farthest(Dimension::Batch, 3, third),
        ),
        (
            [2, 2, 4, 1],
            strides(third, half, half),
            farthest(Dimension::Heads, 4, half),
        ),
        (
            [2, 1, 1, usize::MAX],
            strides(1, 0, 0),
            farthest(Dimension::Channels, usize::MAX, 1),
        ),
    ] {
        refused(Layout::strided(shape, strides), error, &[&max]);
    }
    // A tensor's constructor gives the error, too.
    untouched::<f32>(8, |data| {
        let error = Error::Shape(ShapeError::Overflow {
            shape: shape.into(),
        });
        refused(Tensor::new(&*data, shape), error, &[&max]);
        refused(TensorMut::new(data, shape), error, &[&max]);
    });
}

fn out_of_bounds_of<E: Number>() {
    untouched::<E>(47, |data| {
        let error = Error::Shape(ShapeError::OutOfBounds {
            needed: 48,
            len: 47,
        });
        let layout = Layout::bshd([1, 2, 3, 8]).expect("a small shape");
        refused(Tensor::new(&*data, layout), error, &["48", "47"]);
        refused(TensorMut::new(data, layout), error, &["48", "47"]);
        // Its last heads are out of bounds as well, its first ones are not.
        let last = layout
            .narrow(Dimension::Heads, 2..3)
            .expect("heads that are there");
        refused(TensorMut::new(data, last), error, &["48", "47"]);
        let first = layout
            .narrow(Dimension::Heads, 0..2)
            .expect("heads that are there");
        assert!(TensorMut::new(data, first).is_ok());
    });
}

#[test]
fn out_of_bounds() {
    each_element!(out_of_bounds_of());
    refused(
        TensorMut::<f32>::new(&mut [], Layout::bshd([1, 1, 1, 2]).expect("two elements")),
        Error::Shape(ShapeError::OutOfBounds { needed: 2, len: 0 }),
        &["2", "0"],
    );
}

fn shape_elements_of<E: Number>(extents: [usize; 4], elements: usize, len: usize, words: &[&str]) {
    untouched::<E>(len, |data| {
        let shape = Shape::from(extents);
        let error = Error::ShapeElements { shape, len };
        let has = format!("shape {shape} has {elements} elements, but the slice has {len}");
        let way_out = match elements < len {
            true => "use Layout::bshd for a part",
            false => "but the slice",
        };
        let words = [&[&*has, way_out], words].concat();
        refused(Tensor::new(&*data, extents), error, &words);
        refused(Tensor::new(&*data, shape), error, &words);
        refused(TensorMut::new(data, extents), error, &words);
        refused(TensorMut::new(data, shape), error, &words);
        // A layout may cover a part of the slice.
        let layout = Layout::bshd(extents).expect("a small shape");
        assert_eq!(TensorMut::new(data, layout).is_ok(), elements <= len);
    });
}

/// A shape covers the whole slice.
#[test]
fn shape_elements() {
    // The memory of grouped queries: K's heads on Q's memory, and Q's heads on K's.
    each_element!(shape_elements_of(
        [1, 5, 8, 128],
        5120,
        20480,
        &["heads would be 32"]
    ));
    each_element!(shape_elements_of(
        [1, 5, 32, 128],
        20480,
        5120,
        &["heads would be 8"]
    ));
    each_element!(shape_elements_of(
        [2, 3, 4, 8],
        192,
        48,
        &["heads would be 1"]
    ));
    let no_heads = |extents, elements, len| {
        shape_elements_of::<f32>(extents, elements, len, &[]);
        let error = Tensor::new(&vec![0.0_f32; len], extents).expect_err("a refusal");
        assert!(!error.to_string().contains('('), "{error}");
    };
    no_heads([1, 2, 3, 8], 48, 47);
    no_heads([1, 2, 3, 8], 48, 49);
    no_heads([1, 1, 1, 2], 2, 0);
    // A shape without elements fits only an empty slice.
    no_heads([1, 0, 3, 8], 0, 24);
    no_heads([1, 2, 3, 0], 0, 1);
    assert!(TensorMut::<f32>::new(&mut [], [1, 0, 3, 8]).is_ok());
    each_element!(shape_elements_of([0, 2, 0, 8], 0, 16, &[]));
}

#[test]
fn overlap() {
    let overlap = |shape: [usize; 4],
                   batch,
                   token,
                   head,
                   dimension,
                   stride: usize,
                   needed: usize,
                   name: &str| {
        untouched::<f32>(1000, |data| {
            let layout =
                Layout::strided(shape, Strides { batch, token, head }).expect("a small shape");
            let words = [name, &stride.to_string(), &needed.to_string()];
            refused(
                TensorMut::new(data, layout),
                Error::Shape(ShapeError::Overlap {
                    dimension,
                    stride,
                    needed,
                }),
                &words,
            );
            // Elements that are only read may coincide.
            assert!(Tensor::new(&*data, layout).is_ok());
        });
    };
    overlap([1, 1, 2, 8], 0, 0, 7, Dimension::Heads, 7, 8, "heads");
    overlap([1, 1, 2, 8], 0, 0, 0, Dimension::Heads, 0, 8, "heads");
    overlap([1, 3, 2, 8], 0, 15, 8, Dimension::Tokens, 15, 16, "tokens");
    overlap([2, 3, 2, 8], 47, 16, 8, Dimension::Batch, 47, 48, "batch");
    overlap([2, 1, 2, 8], 0, 16, 8, Dimension::Batch, 0, 16, "batch");
    // The minimal strides suffice: inside a dimension with room, or around all dimensions.
    overlap([2, 5, 4, 8], 0, 32, 8, Dimension::Batch, 0, 160, "batch");
    overlap([2, 5, 4, 8], 0, 64, 8, Dimension::Batch, 0, 32, "batch");
    overlap([2, 3, 1, 8], 25, 20, 8, Dimension::Batch, 25, 48, "batch");
    overlap([1, 3, 2, 8], 0, 8, 23, Dimension::Heads, 23, 24, "heads");
}

/// A window begins at a channel of the tensor, and so does a rotation with a window.
#[test]
fn windows_beyond_a_head() {
    let range = |start, end| {
        Error::Shape(ShapeError::Range {
            dimension: Dimension::Channels,
            start,
            end,
            extent: 4,
        })
    };
    let shape = [1, 2, 3, 4];
    let x = [1.0_f32; 24];
    let from = Tensor::new(&x, shape).expect("valid");
    refused(
        from.narrow(Dimension::Channels, 2..5),
        range(2, 5),
        &["channels"],
    );
    for head in [[1, 0, 0], [0, 2, 0], [0, 0, 3], [usize::MAX; 3]] {
        assert_eq!(from.head(head), None, "{head:?}");
    }
    assert_eq!(from.head([0, 1, 2]), Some(&x[20..]));
    let none = Tensor::<f32>::new(&[], [1, 2, 3, 0]).expect("valid");
    assert_eq!(none.head([0, 1, 2]), Some(&[][..]));
    let rows = Rows::new(&NUMBERS[..8], [2, 4]).expect("two rows");
    let rope = Rope::new(Pairing::Half);
    untouched::<f32>(24, |data| {
        let mut y = TensorMut::new(data, shape).expect("valid");
        let window = y.reborrow().narrow(Dimension::Channels, 5..5);
        refused(window, range(5, 5), &["channels"]);
        let rotated = rope.window(5).rotate_into(&from, &mut y, &rows);
        refused(rotated, range(5, 4), &["channels"]);
        // Of four channels two are left, and the rows have four.
        let rotated = rope.window(2).rotate_into(&from, &mut y, &rows);
        let error = Error::Rows(RowsError::RotaryDimExceedsHead {
            rotary_dim: 4,
            head_dim: 2,
        });
        refused(rotated, error, &["4", "2"]);
    });
    assert_eq!(rows.check_shape(shape), Ok(()));
    assert_eq!(rows.check_shape([3, 2, 1, 4]), Ok(()));
    let error = Error::Rows(RowsError::Count {
        rows: 2,
        tokens: 3,
        batch: 1,
    });
    refused(rows.check_shape([1, 3, 1, 4]), error, &["2", "3"]);
}

#[test]
fn range() {
    let layout = Layout::bshd([2, 3, 4, 8]).expect("a small shape");
    let range = |result, dimension, start: usize, end: usize, extent: usize, name: &str| {
        let words = [
            name,
            &start.to_string(),
            &end.to_string(),
            &extent.to_string(),
        ];
        refused::<Layout, _>(
            result,
            Error::Shape(ShapeError::Range {
                dimension,
                start,
                end,
                extent,
            }),
            &words,
        );
    };
    #[expect(clippy::reversed_empty_ranges, reason = "that is what is refused")]
    let backwards = 3..2;
    range(
        layout.narrow(Dimension::Batch, 1..3),
        Dimension::Batch,
        1,
        3,
        2,
        "batch",
    );
    range(
        layout.narrow(Dimension::Tokens, backwards),
        Dimension::Tokens,
        3,
        2,
        3,
        "tokens",
    );
    range(
        layout.narrow(Dimension::Heads, 5..5),
        Dimension::Heads,
        5,
        5,
        4,
        "heads",
    );
    range(
        layout.narrow(Dimension::Channels, 0..usize::MAX),
        Dimension::Channels,
        0,
        usize::MAX,
        8,
        "channels",
    );
    range(
        layout.narrow(Dimension::Heads, 2..9),
        Dimension::Heads,
        2,
        9,
        4,
        "heads",
    );
    untouched::<f32>(192, |data| {
        let error = |end| {
            Error::Shape(ShapeError::Range {
                dimension: Dimension::Tokens,
                start: 0,
                end,
                extent: 3,
            })
        };
        let tensor = Tensor::new(&*data, layout).expect("a valid tensor");
        refused(
            tensor.split_at(Dimension::Tokens, 4),
            error(4),
            &["tokens", "4", "3"],
        );
        let tensor = TensorMut::new(data, layout).expect("a valid tensor");
        refused(
            tensor.split_at(Dimension::Tokens, 5),
            error(5),
            &["tokens", "5", "3"],
        );
    });
}

#[test]
fn interleaved() {
    for (dimension, name) in [
        (Dimension::Tokens, "tokens"),
        (Dimension::Heads, "heads"),
        (Dimension::Channels, "channels"),
    ] {
        untouched::<f32>(192, |data| {
            let tensor = TensorMut::new(data, [2, 3, 4, 8]).expect("a valid tensor");
            refused(
                tensor.split_at(dimension, 1),
                Error::Shape(ShapeError::PartsInterleave { dimension }),
                &[name],
            );
        });
    }
}

#[test]
fn rotary_dim() {
    for rotary_dim in [0, 1, 3, usize::MAX] {
        let error = Error::Rows(RowsError::RotaryDim {
            rotary_dim,
            required: "even and at least 2",
        });
        let words = [&*rotary_dim.to_string(), "even", "2"];
        refused(Rows::new(&[], [0, rotary_dim]), error, &words);
        refused(Rows::new(&[0.0; 12], [1, rotary_dim]), error, &words);
        refused(
            Rows::from_vec(vec![0.0; 12], [12, rotary_dim]),
            error,
            &words,
        );
        refused(
            Rows::from_cos_sin(&[0.0; 12], &[0.0; 12], [2, 6], rotary_dim),
            error,
            &words,
        );
    }
    for rotary_dim in [0, 1] {
        let error = Error::Rows(RowsError::RotaryDim {
            rotary_dim,
            required: "even and at least 2",
        });
        refused(
            Rows::from_cos_sin(&[], &[], [0, 0], rotary_dim),
            error,
            &["2"],
        );
    }
}

/// The shape of cos and sin determines the number of rows. Without it, a table with each value twice would be read as
/// twice as many rows, and as the rows of two sequences.
#[test]
fn rows_shape() {
    let twice = [0.0; 2 * 8];
    for (shape, len) in [([2, 4], 16), ([3, 4], 16), ([usize::MAX, 4], 16)] {
        let error = Error::Rows(RowsError::Shape {
            len,
            rows: shape[0],
            width: shape[1],
        });
        let words = [
            &*format!("[{}, 4] has {}", shape[0], shape[0].saturating_mul(4)),
            "slice has 16, which is [4, 4]",
        ];
        refused(Rows::from_cos_sin(&twice, &twice, shape, 8), error, &words);
        refused(Rows::new(&twice, shape), error, &words);
        refused(Rows::from_vec(twice.to_vec(), shape), error, &words);
    }
    let error = Error::Rows(RowsError::Shape {
        len: 9,
        rows: 2,
        width: 4,
    });
    refused(
        Rows::new(&[0.0; 9], [2, 4]),
        error,
        &["shape [2, 4] has 8 values, but the slice has 9"],
    );
    let rows = Rows::from_cos_sin(&twice, &twice, [2, 8], 8).expect("two rows");
    assert_eq!(rows.len(), 2);
}

#[test]
fn halves_differ() {
    let once: Vec<f32> = (0..12).map(|i| i as f32).collect();
    let twice: Vec<f32> = once.chunks(4).flat_map(|row| [row, row].concat()).collect();
    let interleaved: Vec<f32> = once.iter().flat_map(|&value| [value, value]).collect();
    let error = Error::Rows(RowsError::HalvesDiffer { row: 2, pair: 0 });
    for [cos, sin] in [[&interleaved, &twice], [&twice, &interleaved]] {
        refused(
            Rows::from_cos_sin(cos, sin, [3, 8], 8),
            error,
            &["row 2", "pair 0", "repeat_interleave"],
        );
    }
    // Compared by bits: a NaN equals itself, and zero differs from minus zero.
    let nan = [f32::NAN, 0.0, f32::NAN, 0.0];
    let zeros = [f32::NAN, 0.0, f32::NAN, -0.0];
    assert!(Rows::from_cos_sin(&nan, &nan, [1, 4], 4).is_ok());
    let error = Error::Rows(RowsError::HalvesDiffer { row: 0, pair: 1 });
    refused(
        Rows::from_cos_sin(&nan, &zeros, [1, 4], 4),
        error,
        &["row 0", "pair 1"],
    );
}

/// PyTorch's cos keeps each value twice: it is no row of cos and sin, and needs `from_cos_sin`.
#[test]
fn halves_equal() {
    let once = &NUMBERS[1..13];
    let twice: Vec<f32> = once.chunks(4).flat_map(|row| row.repeat(2)).collect();
    let error = Error::Rows(RowsError::HalvesEqual { row: 2, width: 8 });
    let words = ["row 2", "same 4", "from_cos_sin"];
    refused(Rows::new(&twice, [3, 8]), error, &words);
    refused(Rows::from_vec(twice.clone(), [3, 8]), error, &words);
    assert!(Rows::from_cos_sin(&twice, &twice, [3, 8], 8).is_ok());
    // The cos of position 0; compared by bits: a NaN equals itself, and zero differs from minus zero.
    let error = Error::Rows(RowsError::HalvesEqual { row: 0, width: 4 });
    for equal in [
        [1.0; 4],
        [0.0, f32::NAN, 0.0, f32::NAN],
        [0.5, -0.25, 0.5, -0.25],
    ] {
        refused(Rows::new(&equal, [1, 4]), error, &["row 0", "same 2"]);
    }
    assert!(Rows::new(&[1.0, 0.0, 1.0, -0.0], [1, 4]).is_ok());
    // Pairs at 45 and 225 degrees, and padding, have one magnitude, and are not all 1.
    for equal in [
        [0.7; 4],
        [0.7, -0.7, 0.7, -0.7],
        [0.0; 4],
        [0.0, -0.0, 0.0, -0.0],
        [-1.0; 4],
        [1.0, -1.0, 1.0, -1.0],
    ] {
        assert!(Rows::new(&equal, [1, 4]).is_ok(), "{equal:?}");
    }
    // One pair, another row than the last, and no rows.
    assert!(Rows::new(&[1.0; 2], [1, 2]).is_ok());
    assert!(Rows::new(&[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0], [2, 4]).is_ok());
    assert!(Rows::new(&[], [0, 4]).is_ok());
}

#[test]
fn cos_sin_length() {
    let error = Error::Rows(RowsError::CosSinLength { cos: 8, sin: 6 });
    refused(
        Rows::from_cos_sin(&[0.0; 8], &[0.0; 6], [4, 2], 4),
        error,
        &["8", "6"],
    );
}

#[test]
fn row_width() {
    for width in [0, 3, 5, 7, 9, 16] {
        let error = Error::Rows(RowsError::Width {
            width,
            rotary_dim: 8,
        });
        refused(
            Rows::from_cos_sin(&[0.0; 12], &[0.0; 12], [1, width], 8),
            error,
            &[&*width.to_string(), "4", "8"],
        );
    }
}

#[test]
fn position_outside_table() {
    let table = rows(&NUMBERS[..20], [5, 4]);
    let outside = |result, index: usize, id: i64, rows: usize| {
        let error = Error::Rows(RowsError::PositionOutsideTable { index, id, rows });
        refused(
            result,
            error,
            &[
                &index.to_string(),
                &id.to_string(),
                &format!("0..{rows}")[3..],
            ],
        );
    };
    outside(table.gather(&[0_i32, 4, -7, 9]), 2, -7, 5);
    outside(table.gather(&[0_i64, 5]), 1, 5, 5);
    outside(table.gather(&[i64::MIN]), 0, i64::MIN, 5);
    outside(table.gather(&[1_i64 << 32]), 0, 1 << 32, 5);
    outside(
        table.gather(&[4_u32, 0, 1, u32::MAX]),
        3,
        u32::MAX.into(),
        5,
    );
    let part = table.range(2..4).expect("rows that are there");
    outside(part.gather(&[1_u32, 2]), 1, 2, 2);
    outside(rows(&[], [0, 4]).gather(&[0_u32]), 0, 0, 0);
    assert!(rows(&[], [0, 4]).gather(&[0_u32; 0]).is_ok());
}

#[test]
fn gathered_twice() {
    let table = rows(&NUMBERS[..20], [5, 4]);
    let gathered = table.gather(&[1_u32, 2]).expect("ids that are there");
    refused(
        gathered.gather(&[0_u32]),
        Error::Rows(RowsError::AlreadyGathered),
        &["gathered"],
    );
    let part = gathered.range(0..1).expect("rows that are there");
    refused(
        part.gather(&[0_i64]),
        Error::Rows(RowsError::AlreadyGathered),
        &["gathered"],
    );
}

#[test]
fn row_range() {
    let table = rows(&NUMBERS[..20], [5, 4]);
    refused(
        table.range(2..6),
        Error::Rows(RowsError::Range {
            start: 2,
            end: 6,
            rows: 5,
        }),
        &["2", "6", "5"],
    );
    #[expect(clippy::reversed_empty_ranges, reason = "that is what is refused")]
    let backwards = table.range(3..1);
    refused(
        backwards,
        Error::Rows(RowsError::Range {
            start: 3,
            end: 1,
            rows: 5,
        }),
        &["3", "1", "5"],
    );
    let gathered = table.gather(&[1_u32, 2]).expect("ids that are there");
    refused(
        gathered.range(0..3),
        Error::Rows(RowsError::Range {
            start: 0,
            end: 3,
            rows: 2,
        }),
        &["0", "3", "2"],
    );
    assert!(table.range(5..5).is_ok_and(|rows| rows.is_empty()));
}

#[test]
fn attention_factor() {
    for (factor, name) in [
        (0.0, "0"),
        (-0.0, "-0"),
        (f64::INFINITY, "inf"),
        (f64::NEG_INFINITY, "-inf"),
    ] {
        refused(
            rows(&ONE, [1, 2]).with_attention_factor(factor),
            Error::Rows(RowsError::AttentionFactor { factor }),
            &[name],
        );
    }
    // NaNs compare unequal.
    let error = rows(&ONE, [1, 2])
        .with_attention_factor(f64::NAN)
        .expect_err("a refusal");
    assert!(matches!(error, Error::Rows(RowsError::AttentionFactor { factor }) if factor.is_nan()));
    assert!(error.to_string().contains("NaN"));
    assert!(
        rows(&ONE, [1, 2])
            .with_attention_factor(-1.5)
            .is_ok_and(|rows| rows.attention_factor() == -1.5)
    );
}

/// Calls each verb with rows that do not fit a `[2, 3, 1, 8]` tensor.
fn each_verb<E: Number>(rows: &Rows<'_>, error: Error, words: &[&str]) {
    for backend in Backend::available() {
        for pairing in Pairing::ALL {
            let rope = Rope::new(pairing)
                .backend(backend)
                .expect("an available backend");
            let shape = [2, 3, 1, 8];
            untouched::<E>(48, |data| {
                refused(
                    rope.rotate(&mut TensorMut::new(data, shape).expect("valid"), rows),
                    error,
                    words,
                );
                let other = data.to_vec();
                let from = Tensor::new(&other, shape).expect("valid");
                refused(
                    rope.rotate_into(
                        &from,
                        &mut TensorMut::new(data, shape).expect("valid"),
                        rows,
                    ),
                    error,
                    words,
                );
                untouched::<E>(48, |other| {
                    let mut q = TensorMut::new(data, shape).expect("valid");
                    let mut k = TensorMut::new(other, shape).expect("valid");
                    refused(rope.rotate_qk(&mut q, &mut k, rows), error, words);
                });
            });
        }
    }
}

#[test]
fn rotary_dim_exceeds_head() {
    let error = Error::Rows(RowsError::RotaryDimExceedsHead {
        rotary_dim: 10,
        head_dim: 8,
    });
    each_element!(each_verb(
        &rows(&NUMBERS[..30], [3, 10]),
        error,
        &["10", "8"]
    ));
}

#[test]
fn row_count() {
    for count in [0, 1, 2, 4, 5, 7] {
        let error = Error::Rows(RowsError::Count {
            rows: count,
            tokens: 3,
            batch: 2,
        });
        let words = [&*count.to_string(), "3", "2"];
        let given = rows(&NUMBERS[..8 * count], [count, 8]);
        each_element!(each_verb(&given, error, &words));
    }
    // The product of sequences and tokens may exceed usize; this must not panic.
    let strides = Strides {
        batch: 0,
        token: 0,
        head: 0,
    };
    let layout = Layout::strided([usize::MAX, usize::MAX, 0, 8], strides).expect("an empty tensor");
    let mut tensor = TensorMut::<f32>::new(&mut [], layout).expect("an empty tensor");
    let error = Error::Rows(RowsError::Count {
        rows: 7,
        tokens: usize::MAX,
        batch: usize::MAX,
    });
    refused(
        Rope::new(Pairing::Half).rotate(&mut tensor, &rows(&NUMBERS[..56], [7, 8])),
        error,
        &["7", &usize::MAX.to_string()],
    );
}

#[test]
fn pairing_changes_in_place() {
    let (input, output) = (Pairing::Interleaved, Pairing::Half);
    let error = Error::Plan(PlanError::PairingChangesInPlace { input, output });
    for backend in Backend::available() {
        let rope = Rope::new(input)
            .output_pairing(output)
            .backend(backend)
            .expect("an available backend");
        untouched::<f32>(2, |q| {
            untouched::<half::bf16>(2, |k| {
                let mut q = TensorMut::new(q, [1, 1, 1, 2]).expect("valid");
                let mut k = TensorMut::new(k, [1, 1, 1, 2]).expect("valid");
                refused(
                    rope.rotate(&mut q, &rows(&ONE, [1, 2])),
                    error,
                    &["interleaved", "half"],
                );
                refused(
                    rope.rotate_qk(&mut q, &mut k, &rows(&ONE, [1, 2])),
                    error,
                    &["interleaved", "half"],
                );
            });
        });
    }
}

#[test]
fn shape_mismatch() {
    let rope = Rope::new(Pairing::Half);
    let x = [1.0_f32; 48];
    for other in [
        [1, 3, 1, 8],
        [2, 2, 1, 8],
        [2, 3, 2, 4],
        [2, 3, 1, 6],
        [3, 2, 1, 8],
    ] {
        untouched::<half::f16>(48, |data| {
            let from = Tensor::new(&x, [2, 3, 1, 8]).expect("valid");
            let part = Layout::bshd(other).expect("a small shape");
            let mut to = TensorMut::new(data, part).expect("valid");
            let shape = Shape::from([2, 3, 1, 8]);
            let differ = shape.difference(other.into());
            let (dimension, source, target) = differ.expect("another shape");
            let error = Error::Shape(ShapeError::Mismatch {
                dimension,
                source,
                target,
            });
            let words = [&source.to_string(), &*target.to_string()];
            refused(
                rope.rotate_into(&from, &mut to, &rows(&NUMBERS[..6], [3, 2])),
                error,
                &words,
            );
        });
    }
}

#[test]
fn query_key_mismatch() {
    let rope = Rope::new(Pairing::Half);
    // Different heads are accepted.
    for (other, dimension, query, key) in [
        ([1, 3, 1, 8], Dimension::Batch, 2, 1),
        ([2, 2, 1, 8], Dimension::Tokens, 3, 2),
        ([2, 3, 1, 6], Dimension::Channels, 8, 6),
        ([2, 3, 2, 4], Dimension::Channels, 8, 4),
    ] {
        untouched::<f32>(48, |q| {
            untouched::<half::f16>(48, |k| {
                let mut q = TensorMut::new(q, [2, 3, 1, 8]).expect("valid");
                let part = Layout::bshd(other).expect("a small shape");
                let mut k = TensorMut::new(k, part).expect("valid");
                let error = Error::Shape(ShapeError::QueryKeyMismatch {
                    dimension,
                    query,
                    key,
                });
                let words = [&query.to_string(), &*key.to_string()];
                refused(
                    rope.rotate_qk(&mut q, &mut k, &rows(&NUMBERS[..6], [3, 2])),
                    error,
                    &words,
                );
            });
        });
    }
}

#[test]
fn rows_per_head() {
    let values = &NUMBERS[..48];
    let error = |heads| Error::Rows(RowsError::PerHead { rows: 12, heads });
    for heads in [0, 5, 24, usize::MAX] {
        let words = ["12", &*heads.to_string()];
        refused(
            rows(values, [12, 4]).with_heads(heads),
            error(heads),
            &words,
        );
    }
    let none = Layout::bshd([3, 4, 0, 2]).expect("an empty layout");
    refused(Rows::strided(values, values, none), error(0), &["12", "0"]);
    let gathered = rows(values, [12, 4]);
    let gathered = gathered.gather(&[1, 0]).expect("ids that are there");
    refused(
        gathered.with_heads(2),
        Error::Rows(RowsError::AlreadyGathered),
        &["gathered"],
    );
    let pairs = Layout::bshd([1, 2, 3, 0]).expect("an empty layout");
    let error = Error::Rows(RowsError::RotaryDim {
        rotary_dim: 0,
        required: "even and at least 2",
    });
    refused(Rows::strided(values, values, pairs), error, &["0"]);
    let layout = Layout::bshd([2, 4, 3, 2]).expect("a small layout");
    for (cos, sin) in [(values, &values[..47]), (&values[..47], values)] {
        let error = Error::Shape(ShapeError::OutOfBounds {
            needed: 48,
            len: 47,
        });
        refused(Rows::strided(cos, sin, layout), error, &["48", "47"]);
    }
    // A layout may cover a part of each slice, a shape covers all of it.
    assert!(Rows::strided(values, &NUMBERS, layout).is_ok());
    assert!(Rows::strided(values, values, layout.shape()).is_ok());
    for other in [&NUMBERS[..47], &NUMBERS[..49]] {
        for (cos, sin) in [(values, other), (other, values)] {
            let error = Error::ShapeElements {
                shape: layout.shape(),
                len: other.len(),
            };
            let words = ["[2, 4, 3, 2] has 48", &format!("slice has {}", other.len())];
            refused(Rows::strided(cos, sin, [2, 4, 3, 2]), error, &words);
            refused(Rows::strided(cos, sin, layout.shape()), error, &words);
        }
    }
    // More rows than usize counts; and as many channels, without sequences.
    let strides = Strides {
        batch: 1,
        token: 0,
        head: 0,
    };
    for shape in [[2, usize::MAX, 1, 2], [0, 1, 1, usize::MAX]] {
        let layout = Layout::strided(shape, strides).expect("a layout");
        let error = Error::Shape(ShapeError::Overflow {
            shape: shape.into(),
        });
        refused(
            Rows::strided(values, values, layout),
            error,
            &[&usize::MAX.to_string()],
        );
    }
}

#[test]
fn row_heads() {
    let table = [0.5_f32; 24];
    let of_three = || rows(&table, [12, 2]).with_heads(3).expect("four tokens");
    let words = ["3", "2"];
    let error = |heads| Error::Rows(RowsError::Heads { rows: 3, heads });
    refused(of_three().with_heads(2), error(2), &words);
    let mut sinusoidal = [7.0; 24];
    refused(
        of_three().sinusoidal(&mut sinusoidal),
        error(1),
        &["3", "1"],
    );
    assert_eq!(sinusoidal, [7.0; 24]);
    let rope = Rope::new(Pairing::Half);
    untouched::<f32>(32, |x| {
        untouched::<f32>(48, |y| {
            let from = [1.0_f32; 32];
            let from = Tensor::new(&from, [1, 4, 2, 4]).expect("valid");
            let mut x = TensorMut::new(x, [1, 4, 2, 4]).expect("valid");
            let mut y = TensorMut::new(y, [1, 4, 3, 4]).expect("valid");
            refused(rope.rotate(&mut x, &of_three()), error(2), &words);
            refused(
                rope.rotate_into(&from, &mut x, &of_three()),
                error(2),
                &words,
            );
            refused(
                rope.rotate_qk(&mut y, &mut x, &of_three()),
                error(2),
                &words,
            );
            refused(
                rope.rotate_qk(&mut x, &mut y, &of_three()),
                error(2),
                &words,
            );
            let chain = rope_core::Rope::<rope_core::stages::WithStages<'_>>::from(rope);
            refused(chain.rotate(&mut x, &of_three()), error(2), &words);
            let seen = rope_models::explain(&from, &from, &of_three());
            refused(seen, error(2), &words);
        });
    });
    let mut slots = [1.0_f32; 32];
    let layout = rope_core::cache::CacheLayout::nhd([1, 4, 2, 4]).expect("a small cache");
    let mut cache = rope_core::cache::CacheMut::new(&mut slots, layout).expect("a cache");
    let from = [1.0_f32; 32];
    let from = Tensor::new(&from, [1, 4, 2, 4]).expect("valid");
    let ids = [0_i64, 1, 2, 3];
    let shifted = rope.rotate(&mut cache.slots(&ids), &of_three());
    refused(shifted, error(2), &words);
    let written = rope.rotate_into(&from, &mut cache.slots(&ids), &of_three());
    refused(written, error(2), &words);
    let mut y = [0.0_f32; 32];
    let mut y = TensorMut::new(&mut y, [1, 4, 2, 4]).expect("valid");
    let read = rope_core::Rope::<rope_core::stages::WithStages<'_>>::from(rope);
    refused(
        read.rotate_into(&cache.as_cache().slots(&ids), &mut y, &of_three()),
        error(2),
        &words,
    );
    assert_eq!(slots, [1.0; 32]);
}

#[test]
fn row_sequences() {
    let values = [0.5_f32; 64];
    let layout = Layout::sbhd([3, 2, 1, 2]).expect("a small layout");
    let strided = Rows::strided(&values, &values, layout).expect("rows inside the slices");
    let error = Error::Rows(RowsError::Sequences {
        sequences: 2,
        tokens: 3,
    });
    let words = ["2", "3"];
    refused(strided.gather(&[0, 1]), error, &words);
    for range in [1..6, 0..4, 2..4, 0..5] {
        refused(strided.range(range), error, &words);
    }
    refused(strided.clone().with_heads(2), error, &words);
    let rope = Rope::new(Pairing::Half);
    for shape in [[3, 2, 1, 8], [1, 6, 1, 8], [6, 1, 1, 8], [2, 6, 1, 4]] {
        untouched::<f32>(48, |x| {
            let mut x = TensorMut::new(x, shape).expect("valid");
            refused(rope.rotate(&mut x, &strided), error, &words);
        });
    }
    let mut x = [1.0_f32; 48];
    let mut x = TensorMut::new(&mut x, [2, 3, 1, 8]).expect("valid");
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
            let given = rows(&values, [4, 4]).with_heads(2).expect("two tokens");
            untouched::<f32>(24, |x| {
                let mut x = TensorMut::new(x, [1, 2, 2, 6]).expect("valid");
                let error = rope.rotate(&mut x, &given).expect_err("a refusal");
                let expected = Error::Rows(RowsError::Magnitude {
                    row,
                    head,
                    pair,
                    cos: if at % 4 < 2 { value } else { values[at - 2] },
                    sin: if at % 4 < 2 { values[at + 2] } else { value },
                    factor: 1.0,
                });
                assert_eq!(format!("{error:?}"), format!("{expected:?}"));
                if !value.is_nan() {
                    let [row, head, pair] =
                        [row, head, pair as usize].map(|number| number.to_string());
                    refused(
                        Err::<(), _>(error),
                        expected,
                        &[&row, &head, &pair, &value.to_string(), "1"],
                    );
                }
            });
        }
    }
    // Every other call, and every other direction, accepts the rows.
    let values = [3.0_f32, 4.0];
    let rows = rows(&values, [1, 2]);
    let error = Error::Rows(RowsError::Magnitude {
        row: 0,
        head: 0,
        pair: 0,
        cos: 3.0,
        sin: 4.0,
        factor: 1.0,
    });
    let words = ["3", "4", "1"];
    let from = [1.0_f32; 4];
    let from = Tensor::new(&from, [1, 1, 2, 2]).expect("valid");
    let chain = rope_core::Rope::<rope_core::stages::WithStages<'_>>::from(rope);
    let mut slots = [1.0_f32; 4];
    let layout = rope_core::cache::CacheLayout::nhd([1, 1, 2, 2]).expect("a small cache");
    let mut cache = rope_core::cache::CacheMut::new(&mut slots, layout).expect("a cache");
    untouched::<f32>(4, |x| {
        untouched::<f32>(4, |y| {
            let mut x = TensorMut::new(x, [1, 1, 2, 2]).expect("valid");
            let mut y = TensorMut::new(y, [1, 1, 2, 2]).expect("valid");
            refused(rope.rotate_qk(&mut x, &mut y, &rows), error, &words);
            let mut none = TensorMut::new(&mut [0.0_f32; 0], [1, 1, 0, 2]).expect("valid");
            refused(rope.rotate_qk(&mut none, &mut y, &rows), error, &words);
            refused(rope.rotate_qk(&mut x, &mut none, &rows), error, &words);
            refused(rope.rotate_into(&from, &mut x, &rows), error, &words);
            refused(chain.rotate(&mut x, &rows), error, &words);
            refused(chain.rotate_into(&from, &mut x, &rows), error, &words);
            refused(
                rope.rotate(&mut cache.slots(&[0_i64]), &rows),
                error,
                &words,
            );
            refused(
                rope.rotate_into(&from, &mut cache.slots(&[0_i64]), &rows),
                error,
                &words,
            );
            let read = chain.rotate_into(&cache.as_cache().slots(&[0_i64]), &mut x, &rows);
            refused(read, error, &words);
        });
    });
    assert_eq!(slots, [1.0; 4]);
    let five = rows.clone().with_attention_factor(5.0).expect("a factor");
    for (direction, rows) in [
        (Direction::Forward, &rows),
        (Direction::Transpose, &rows),
        (Direction::Inverse, &five),
    ] {
        let mut x = [1.0_f32; 4];
        let mut x = TensorMut::new(&mut x, [1, 1, 2, 2]).expect("valid");
        let rope = Rope::new(Pairing::Half).direction(direction);
        assert_eq!(rope.rotate(&mut x, rows), Ok(()), "{direction}");
    }
}

#[test]
fn no_inverse() {
    for [cos, sin] in [
        [0.0, -0.0],
        [f32::NAN, 1.0],
        [f32::INFINITY, 0.0],
        [1e-40, 0.0],
    ] {
        let mut values = [1.0_f32, 1.0, 0.0, 0.0].repeat(4);
        (values[13], values[15]) = (cos, sin);
        let rows = rows(&values, [4, 4]).with_heads(2).expect("two tokens");
        let mut storage = [7.0; 16];
        let error = rows.inverted(&mut storage).expect_err("a refusal");
        let expected = Error::Rows(RowsError::NoInverse {
            row: 1,
            head: 1,
            pair: 1,
            cos,
            sin,
        });
        assert_eq!(format!("{error:?}"), format!("{expected:?}"));
        let words = [
            "pair 1",
            "row 1",
            "head 1",
            &format!("{cos:?} and sin {sin:?}"),
        ];
        for word in words {
            assert!(error.to_string().contains(word), "{error}");
        }
        assert_eq!(storage, [7.0; 16]);
    }
    let values = [1.0_f32, 1.0, 0.0, 0.0].repeat(4);
    let rows = rows(&values, [4, 4]).with_heads(2).expect("two tokens");
    let error = Error::Storage {
        what: "values of storage",
        given: 15,
        needed: 16,
    };
    refused(
        rows.inverted(&mut [7.0; 15]).map(|_| ()),
        error,
        &["15", "16"],
    );
    let small = rows.with_attention_factor(1e-320).expect("a factor");
    let error = Error::Rows(RowsError::AttentionFactor { factor: 1e-320 });
    refused(small.inverted(&mut [7.0; 16]).map(|_| ()), error, &[]);
    // Coinciding rows may be more than memory holds.
    let strides = Strides {
        batch: 0,
        token: 0,
        head: 0,
    };
    let layout = Layout::strided([1, usize::MAX, 1, 2], strides).expect("a layout");
    let many = Rows::strided(&values, &values, layout).expect("rows inside the slices");
    let error = Error::Frequencies(FrequenciesError::RowsTooLong {
        tokens: usize::MAX,
        rotary_dim: 4,
    });
    refused(many.inverted(&mut [0.0; 4]).map(|_| ()), error, &["4"]);
}

#[test]
fn backend_unavailable() {
    for &backend in Backend::ALL
        .iter()
        .filter(|backend| !backend.is_available())
    {
        let error = Error::Plan(PlanError::BackendUnavailable { backend });
        refused(
            Rope::new(Pairing::Half).backend(backend),
            error,
            &[backend.name()],
        );
    }
}

#[test]
fn unknown_name() {
    let names = |all: &[&'static str]| all.join(if all.contains(&"avx2") { " " } else { ", " });
    for name in ["", "Half", "sse", "half ", "forward,inverse"] {
        let pairings = Pairing::ALL.map(Pairing::name);
        let error = name.parse::<Pairing>().expect_err("a refusal");
        assert!(
            matches!(error, UnknownName { kind: "pairing", known, .. } if known == names(&pairings))
        );
        assert!(error.to_string().contains(&format!("pairing {name:?};")));
        refused(
            name.parse::<Pairing>(),
            error,
            &["pairing", "half", "interleaved"],
        );

        let directions = Direction::ALL.map(Direction::name);
        let error = name.parse::<Direction>().expect_err("a refusal");
        assert!(
            matches!(error, UnknownName { kind: "direction", known, .. } if known == names(&directions))
        );
        assert!(error.to_string().contains(&format!("direction {name:?};")));
        refused(
            name.parse::<Direction>(),
            error,
            &["direction", "forward", "inverse", "transpose"],
        );

        let error = name.parse::<Backend>().expect_err("a refusal");
        assert!(error.to_string().contains(&format!("backend {name:?};")));
        let mut words = vec!["backend"];
        words.extend(Backend::ALL.iter().map(|backend| backend.name()));
        refused(name.parse::<Backend>(), error, &words);
    }
    for pairing in Pairing::ALL {
        assert_eq!(pairing.to_string().parse(), Ok(pairing));
    }
    for direction in Direction::ALL {
        assert_eq!(direction.to_string().parse(), Ok(direction));
    }
    for &backend in Backend::ALL {
        assert_eq!(backend.to_string().parse(), Ok(backend));
    }
}

/// A tensor without elements is not touched; its errors are errors with elements as well.
#[test]
fn empty_tensors_are_fine() {
    let table = [1.0, 0.0];
    let rows = rope_core::Rows::new(&table, [1, 2]).expect("one row");
    let none = rope_core::Rows::new(&[], [0, 2]).expect("no rows");
    for backend in Backend::available() {
        let rope = Rope::new(Pairing::Half)
            .backend(backend)
            .expect("an available backend");
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
            // The strides of an empty tensor have no meaning.
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
