//! What is refused: in words that name the value and the limit, with nothing touched.

use crate::random::{Random, bits};
use candle_core::{DType, Device, Result, Tensor, Var};
use rope_candle::rope_core::axes::Axes;
use rope_candle::rope_core::{Frequencies, Pairing, Scaling};
use rope_candle::{Rotary, learned_tables, rope, rope_thd};

#[track_caller]
fn says<T>(result: Result<T>, words: &[&str]) {
    let Err(error) = result else {
        panic!("not refused: {words:?}");
    };
    let error = error.to_string();
    for words in words {
        assert!(error.contains(words), "{error:?} does not say {words:?}");
    }
}

fn zeros(shape: &[usize], dtype: DType) -> Tensor {
    Tensor::zeros(shape, dtype, &Device::Cpu).expect("small")
}

#[test]
fn tables_that_do_not_fit() {
    let x = zeros(&[2, 3, 5, 8], DType::F32);
    let table = |shape: &[usize]| zeros(shape, DType::F32);
    let good = table(&[5, 4]);
    says(
        rope(&x, &table(&[4, 4]), &good),
        &["cos has 4 rows", "5 tokens"],
    );
    says(
        rope(&x, &good, &table(&[5, 3])),
        &["sin has 3 values", "8 channels"],
    );
    says(
        rope(&x, &table(&[3, 5, 4]), &good),
        &["cos must be", "[2, tokens", "[3, 5, 4]"],
    );
    says(rope(&x, &table(&[5]), &good), &["cos must be", "[5]"]);
    says(
        rope(&x, &good, &table(&[2, 5, 4])),
        &["[5, 4]", "[2, 5, 4]"],
    );
    // Three tokens of five heads are other tokens.
    assert!(rope_thd(&x, &good, &good).is_ok());
    says(
        rope_thd(&x, &table(&[2, 4]), &good),
        &["cos has 2 rows", "3 tokens"],
    );
    says(
        rope(&table(&[3, 5, 8]), &good, &good),
        &["unexpected rank", "4"],
    );
    // An odd head has no pairs for all of its channels.
    says(
        rope(&table(&[1, 1, 5, 9]), &good, &good),
        &["4 values", "9 channels"],
    );
}

#[test]
fn types_that_do_not_fit() {
    let table = zeros(&[5, 4], DType::F32);
    let x = |dtype| zeros(&[2, 3, 5, 8], dtype);
    says(
        rope(&x(DType::U32), &table, &table),
        &["f32, bf16 and f16", "u32"],
    );
    let half = zeros(&[5, 4], DType::F16);
    says(
        rope(&x(DType::BF16), &half, &table),
        &["cos must be f32", "bf16", "f16"],
    );
    says(
        rope(&x(DType::F32), &table, &half),
        &["sin must be f32", "f16"],
    );
    let double = zeros(&[5, 4], DType::F64);
    says(
        rope(&x(DType::F32), &double, &double),
        &["cos must be f32", "f64"],
    );
    let rotary = rotary();
    let rows = rotary.rows(0..5).expect("five");
    says(
        rotary.rotate(&x(DType::F64), &rows),
        &["f32, bf16 and f16", "f64"],
    );
    says(
        rotary.rotate_in_place(&x(DType::F64), &rows),
        &["f32, bf16 and f16", "f64"],
    );
}

fn rotary() -> Rotary {
    let frequencies = Frequencies::new(8, 10_000.0, &Scaling::Default).expect("they exist");
    Rotary::new(frequencies, Pairing::Half)
}

#[test]
fn rows_that_do_not_fit() -> Result<()> {
    let rotary = rotary();
    let rows = rotary.rows(0..5)?;
    says(
        rotary.rotate(&zeros(&[2, 3, 4, 8], DType::F32), &rows),
        &["5", "4"],
    );
    says(
        rotary.rotate(&zeros(&[2, 3, 5, 6], DType::F32), &rows),
        &["8", "6"],
    );
    says(
        rotary.rotate(&zeros(&[3, 5, 8], DType::F32), &rows),
        &["rank"],
    );
    Ok(())
}

#[test]
fn positions_that_are_none() -> Result<()> {
    let rotary = rotary();
    let positions = |dtype| zeros(&[5], dtype);
    says(
        rotary.rows_at(&positions(DType::BF16)),
        &["positions", "bf16"],
    );
    let nan = Tensor::new(&[0.0_f32, f32::NAN], &Device::Cpu)?;
    says(rotary.rows_at(&nan), &["NaN"]);
    let axes = Frequencies::new(Axes::mrope(8, [1, 1, 2]), 10_000.0, &Scaling::Default);
    let axes = Rotary::new(axes.map_err(candle_core::Error::wrap)?, Pairing::Half);
    says(axes.rows_at(&positions(DType::U32)), &["3 axes", "[5]"]);
    Ok(())
}

#[test]
fn frequencies_that_cannot_be_trained() {
    let positions = zeros(&[5], DType::U32);
    says(
        learned_tables(&zeros(&[2, 2], DType::F32), &positions),
        &["rank"],
    );
    says(
        learned_tables(&zeros(&[4], DType::BF16), &positions),
        &["f32 or f64"],
    );
    says(
        learned_tables(&zeros(&[0], DType::F32), &positions),
        &["rotary_dim"],
    );
}

/// Whatever is refused in place has touched nothing, neither Q nor K.
#[test]
fn in_place() -> Result<()> {
    let mut random = Random::new("refused in place");
    let rotary = rotary();
    let rows = rotary.rows(0..5)?;
    let q = random.tensor((1, 4, 5, 8), DType::F32)?;
    let before = bits(&q)?;
    let k = |shape: [usize; 4]| zeros(&shape, DType::F32);
    let qk = |k: &Tensor| rotary.rotate_qk_in_place(&q, k, &rows);
    says(
        qk(&k([1, 4, 4, 8])),
        &["more than their heads", "[1, 4, 4, 8]"],
    );
    says(qk(&k([1, 2, 5, 10])), &["more than their heads"]);
    says(qk(&zeros(&[1, 2, 5, 8], DType::F64)), &["f64"]);
    says(
        qk(&k([1, 1, 5, 8]).broadcast_as((1, 2, 5, 8))?),
        &["coincide"],
    );
    // Windows of 8 that begin at every element.
    let windows = zeros(&[1, 2, 12], DType::F32).unfold(2, 8, 1)?;
    assert_eq!(windows.dims(), [1, 2, 5, 8]);
    says(qk(&windows), &["coincide"]);
    says(qk(&q), &["elements in common"]);
    says(qk(&q.narrow(1, 2, 2)?), &["elements in common"]);
    says(qk(&k([1, 2, 8, 5]).transpose(2, 3)?), &["stride is 5"]);
    says(
        qk(Var::from_tensor(&k([1, 2, 5, 8]))?.as_tensor()),
        &["k is rotated in place", "tracked"],
    );
    says(rotary.rotate_in_place(&q, &rotary.rows(0..6)?), &["6", "5"]);
    says(
        rotary.rotate_qk_in_place(&q, &k([1, 2, 5, 8]), &rotary.rows(0..6)?),
        &["6", "5"],
    );
    assert_eq!(bits(&q)?, before);
    Ok(())
}
