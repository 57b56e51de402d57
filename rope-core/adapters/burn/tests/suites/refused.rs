//! Refusals: each names the value and the limit, and changes nothing.

use std::panic::{AssertUnwindSafe, catch_unwind};

use burn::tensor::quantization::{Calibration, QuantScheme, compute_q_params, compute_range};
use burn::tensor::{DType, Device, Int, Tensor};
use rope_burn::{Error, RotaryEncodingConfig, RotaryRows, rotate};
use rope_core::axes::Axes;
use rope_core::error::RowsError;
use rope_core::{Frequencies, Layout, Pairing, Scaling, Strides};

use crate::support::{Source, bits, other};

/// Returns the error of a refusal, whose text contains all these words.
pub(crate) fn refused<T: std::fmt::Debug>(result: Result<T, Error>, words: &[&str]) -> Error {
    let error = result.expect_err("should be refused");
    let text = error.to_string();
    for word in words {
        assert!(text.contains(word), "{word:?} is not in {text:?}");
    }
    error
}

#[test]
fn rows_that_are_none() {
    let device = Device::flex();
    let zeros = |dims: [usize; 4]| Tensor::<4>::zeros(dims, &device);
    refused(
        RotaryRows::new(zeros([1, 1, 4, 8]), zeros([1, 1, 5, 8])),
        &["[1, 1, 4, 8]", "[1, 1, 5, 8]"],
    );
    refused(
        RotaryRows::new(zeros([1, 1, 4, 0]), zeros([1, 1, 4, 0])),
        &["rotary_dim is 0", "at least 2"],
    );
    let narrow = zeros([1, 1, 4, 8]).cast(DType::BF16);
    refused(
        RotaryRows::new(zeros([1, 1, 4, 8]), narrow),
        &["BF16", "F32"],
    );
    let frequencies = Frequencies::new(8, 10_000.0, &Scaling::Default).expect("frequencies");
    let strides = Strides {
        batch: 0,
        token: 0,
        head: 0,
    };
    let all_one = Layout::strided([1, usize::MAX, 1, 4], strides).and_then(|layout| {
        let (cos, sin) = (&[1.0; 4], &[0.0; 4]);
        rope_core::Rows::strided(cos, sin, layout)
    });
    let too_many = RotaryRows::from_rows(&all_one.expect("rows that coincide"), 1, &device);
    refused(
        too_many,
        &[&usize::MAX.to_string(), &isize::MAX.to_string()],
    );
    for sequences in [0, 2] {
        let rows = RotaryRows::at(&frequencies, 0..5, sequences, &device);
        refused(rows, &["rows is 5", &format!("{sequences} sequences")]);
    }
}

#[test]
fn tensors_that_do_not_fit_are_not_touched() {
    let (source, device) = (&mut Source::random("refused"), Device::flex());
    let x = source.tensor([2, 3, 4, 8], DType::F32, &device);
    let before = bits(&x);
    for dims in [
        [3, 1, 4, 8],
        [1, 2, 4, 8],
        [2, 3, 3, 8],
        [2, 3, 8, 8],
        [0, 3, 4, 8],
    ] {
        let [sequences, heads, tokens, rotary_dim] = dims;
        let zeros = Tensor::<4>::zeros([sequences, heads, tokens, rotary_dim / 2], &device);
        let rows = RotaryRows::new(zeros.clone(), zeros).expect("rows");
        let y = rotate(x.clone(), &rows, Pairing::Half);
        refused(y, &[&format!("{:?}", rows.dims()), "[2, 3, 4, 8]"]);
    }
    let wide = source.rows([2, 3, 4, 10], 5).on(&device);
    let error = refused(rotate(x.clone(), &wide, Pairing::Half), &["10", "8"]);
    assert!(matches!(
        error,
        Error::Rope(rope_core::Error::Rows(
            RowsError::RotaryDimExceedsHead { .. }
        ))
    ));
    assert!(std::error::Error::source(&error).is_some());

    let rows = source.rows([2, 3, 4, 8], 4);
    let there = rows.on(&other());
    refused(
        rotate(x.clone(), &there, Pairing::Half),
        &["Flex", "NdArray"],
    );
    let one = Tensor::<1>::zeros([8], &device);
    refused(
        rotate(one, &rows.on(&device), Pairing::Half),
        &["of 1 dimension has", "at least 2"],
    );
    assert_eq!(bits(&x), before);
}

#[test]
fn quantized_tensors() {
    let (source, device) = (&mut Source::random("quantized"), Device::flex());
    let x = source.tensor([1, 1, 4, 8], DType::F32, &device);
    let scheme = QuantScheme::default();
    let range = compute_range(&scheme, &x, &Calibration::MinMax);
    let x = x.quantize(&scheme, compute_q_params(&scheme, range));
    let rows = source.rows([1, 1, 4, 8], 4).on(&device);
    let error = refused(rotate(x, &rows, Pairing::Half), &["QFloat", "F32"]);
    assert!(matches!(error, Error::TensorType { .. }));
}

#[test]
fn modules_that_cannot_be() {
    let device = Device::flex();
    let config = |d_model| RotaryEncodingConfig::new(8, d_model);
    refused(config(7).try_init(&device), &["rotary_dim is 7"]);
    refused(config(0).try_init(&device), &["rotary_dim is 0"]);
    refused(config(8).with_theta(0.0).try_init(&device), &["base", "0"]);
    refused(
        config(8).with_theta(f64::NAN).try_init(&device),
        &["base", "NaN"],
    );
    refused(
        config(8).with_rotary_dim(Some(10)).try_init(&device),
        &["10", "8"],
    );
    refused(
        RotaryEncodingConfig::new(usize::MAX, 8).try_init(&device),
        &[&usize::MAX.to_string()],
    );
    let frequencies = Frequencies::new(6, 10_000.0, &Scaling::Default).expect("frequencies");
    let four = config(8).with_rotary_dim(Some(4));
    refused(
        four.init_with_frequencies(frequencies, &device),
        &["6", "4"],
    );
    let factor = Scaling::Linear { factor: -1.0 };
    refused(
        config(8).init_with_scaling(&factor, &device),
        &["factor", "-1"],
    );
    let double = config(8).init_with_frequency_scaling(|f| f.cast(DType::F64), &device);
    refused(double, &["F64", "F32"]);
    let short = config(8).init_with_frequency_scaling(|f| f.narrow(0, 0, 3), &device);
    refused(short, &["3", "4"]);
    let infinite = config(8).init_with_frequency_scaling(|f| f / 0.0, &device);
    refused(infinite, &["inverse", "inf"]);
}

/// Returns the text of a panic.
fn panics<T>(call: impl FnOnce() -> T) -> String {
    let panic = catch_unwind(AssertUnwindSafe(call))
        .err()
        .expect("should panic");
    *panic.downcast::<String>().expect("words")
}

#[test]
fn positions_of_another_shape() {
    let device = Device::flex();
    let ids = |dims| Tensor::<4, Int>::zeros(dims, &device);
    let one = RotaryEncodingConfig::new(8, 8).init(&device);
    refused(
        one.rows_at(ids([1, 1, 2, 3])),
        &["[1, 1, 2, 3]", "[batch, tokens]"],
    );
    let axes = Axes::mrope(8, [2, 1, 1]);
    let frequencies = Frequencies::new(axes, 10_000.0, &Scaling::Default).expect("three axes");
    let three = RotaryEncodingConfig::new(8, 8).init_with_frequencies(frequencies, &device);
    let three = three.expect("a module");
    refused(
        three.rows_at(ids([3, 1, 2, 3])),
        &["[3, 1, 2, 3]", "3 axes"],
    );
    let two = Tensor::<2, Int>::zeros([2, 5], &device);
    refused(three.rows_at(two), &["[2, 5]", "[3, batch, tokens]"]);
    let rows = three
        .rows_at(Tensor::<3, Int>::zeros([3, 2, 5], &device))
        .expect("two sequences");
    assert_eq!(rows.dims(), [2, 1, 5, 4]);
}

#[test]
fn burns_signatures_panic_with_the_same_words() {
    let device = Device::flex();
    let mut encoding = RotaryEncodingConfig::new(8, 8).init(&device);
    let config = RotaryEncodingConfig::new(8, 7);
    let error = refused(config.try_init(&device), &["rotary_dim is 7"]);
    assert_eq!(
        panics(|| config.init(&device)),
        format!("RotaryEncoding: {error}")
    );
    let x = Tensor::<4>::zeros([1, 2, 4, 6], &device);
    let error = refused(encoding.try_apply(x.clone(), 0), &["6", "8"]);
    assert_eq!(
        panics(|| encoding.forward(x.clone())),
        format!("RotaryEncoding: {error}")
    );
    refused(encoding.apply_at(x, 0..4), &["6", "8"]);
    let x = Tensor::<4>::zeros([2, 2, 4, 8], &device);
    let largest = usize::MAX.to_string();
    let error = refused(encoding.try_apply(x.clone(), usize::MAX), &[&largest]);
    assert_eq!(
        panics(|| encoding.apply(x.clone(), usize::MAX)),
        format!("RotaryEncoding: {error}")
    );
    refused(
        encoding.apply_at(x.clone(), 0..5),
        &["rows is 5", "2 sequences"],
    );
    refused(
        encoding.apply_at(x.clone(), 0..6),
        &["[2, 1, 3, 4]", "[2, 2, 4, 8]"],
    );
    let one = Tensor::<1>::zeros([8], &device);
    refused(encoding.try_apply(one, 0), &["1 dimension"]);
    assert!(panics(|| encoding.shift(usize::MAX - 7)).contains(&largest));
    // A shift that was refused has moved nothing.
    assert_eq!(
        bits(&encoding.apply(x.clone(), 3)),
        bits(&encoding.apply_at(x, 3..7).expect("rows"))
    );
}
