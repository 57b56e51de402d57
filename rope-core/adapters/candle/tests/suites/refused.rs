//! Refusals: each names the value and the limit, and changes nothing.

use crate::random::{Random, bits};
use candle_core::{DType, Device, Result, Tensor, Var};
use rope_candle::rope_core::axes::Axes;
use rope_candle::rope_core::cache::{BlockFormat, QuantFormat};
use rope_candle::rope_core::norm::{Norm, NormFormula};
use rope_candle::rope_core::{Frequencies, Pairing, Scaling};
use rope_candle::{CacheFormat, Rotary, learned_tables, rope, rope_thd};

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
        rope(&x, &table(&[1, 4]), &good),
        &["cos has 1 row, and xs has 5 tokens"],
    );
    says(
        rope(&x, &table(&[5, 1]), &good),
        &["cos has 1 value in a row"],
    );
    says(
        rope(&x, &good, &table(&[2, 5, 4])),
        &["[5, 4]", "[2, 5, 4]"],
    );
    // A tensor of three tokens of five heads has other tokens.
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

/// A call that is refused in place changes neither Q nor K.
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
    // Windows of 8 begin at every element.
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

#[test]
fn norms_that_do_not_fit() -> Result<()> {
    let mut random = Random::new("refused norms");
    let norm = Norm::new(NormFormula::LLAMA, 1e-6);
    let weight = |count, dtype| zeros(&[count], dtype);
    let of = |weight: &Tensor| rotary().with_norm(norm, Some(weight));
    says(of(&weight(8, DType::F64)), &["weight is f64", "bf16"]);
    says(
        of(Var::from_tensor(&weight(8, DType::F32))?.as_tensor()),
        &["weight is tracked", "detach"],
    );
    let rows = rotary().rows(0..5)?;
    let x = random.tensor((1, 4, 5, 8), DType::F32)?;
    let before = bits(&x)?;
    let of_nine = of(&weight(9, DType::F32))?;
    says(of_nine.rotate(&x, &rows), &["9", "8"]);
    says(of_nine.rotate_in_place(&x, &rows), &["9", "8"]);
    says(
        rotary().with_norm(norm, None)?.rotate(&x, &rows),
        &["weight"],
    );
    let of_eight = of(&weight(8, DType::F32))?;
    says(
        of_eight.rotate(Var::from_tensor(&x)?.as_tensor(), &rows),
        &["x is tracked", "no gradient", "detach"],
    );
    says(of_eight.rotate_qk(&x, &x, &rows), &["norm", "one tensor"]);
    says(
        of_eight.rotate_qk_in_place(&x, &x.copy()?, &rows),
        &["norm", "one tensor"],
    );
    assert_eq!(bits(&x)?, before);
    Ok(())
}

/// A refused call writes neither keys nor values.
#[test]
fn caches() -> Result<()> {
    let mut random = Random::new("refused caches");
    let rotary = rotary();
    let rows = rotary.rows(0..5)?;
    let k = random.tensor((1, 2, 5, 8), DType::F32)?;
    let cache = |shape: [usize; 4], dtype| zeros(&shape, dtype);
    let keys = cache([3, 2, 4, 8], DType::F32);
    let elements = CacheFormat::Elements;
    let write = |v: &Tensor, values: &Tensor, format| {
        rotary.rotate_into_caches((&k, &keys), (v, values), format, 0..5, &rows)
    };
    let values = keys.copy()?;
    // The values do not fit, which is found before the keys are written.
    says(
        write(&k, &cache([3, 2, 4, 6], DType::F32), elements),
        &["6", "8"],
    );
    says(
        write(&k, &cache([1, 2, 4, 8], DType::F32), elements),
        &["4"],
    );
    says(
        write(&zeros(&[1, 2, 4, 8], DType::F32), &values, elements),
        &["4", "5"],
    );
    says(
        write(&k, &cache([3, 2, 4, 8], DType::U8), elements),
        &["u8"],
    );
    says(
        write(&k, &zeros(&[3, 4, 8], DType::F32), elements),
        &["rank"],
    );
    let strided = cache([3, 2, 8, 4], DType::F32).transpose(2, 3)?;
    says(write(&k, &strided, elements), &["stride is 4"]);
    let same = cache([1, 2, 4, 8], DType::F32).broadcast_as((3, 2, 4, 8))?;
    says(write(&k, &same, elements), &["repeated elements"]);
    says(write(&k, &keys, elements), &["values and keys", "copy"]);
    says(
        write(&values.narrow(0, 0, 1)?, &values, elements),
        &["v and values share"],
    );
    let tracked = Var::from_tensor(&values)?;
    says(
        write(&k, tracked.as_tensor(), elements),
        &["values is tracked", "detach"],
    );
    let tracked = Var::from_tensor(&k)?;
    says(
        write(tracked.as_tensor(), &values, elements),
        &["v is tracked", "detach"],
    );
    let fp8 = CacheFormat::Quantized(QuantFormat::E4m3, [1.0, 1.0]);
    says(write(&k, &values, fp8), &["keys must be u8"]);
    assert_eq!((bits(&keys)?, bits(&values)?), (vec![0; 192], vec![0; 192]));

    let keys = cache([3, 2, 4, 8], DType::U8);
    let write = |values: &Tensor, format, slots: &[i64]| {
        rotary.rotate_into_caches((&k, &keys), (&k, values), format, slots, &rows)
    };
    let slots = [0, 1, 2, 3, 4];
    let values = keys.copy()?;
    let scaled = |scale| CacheFormat::Quantized(QuantFormat::E4m3, [1.0, scale]);
    says(write(&values, scaled(0.0), &slots), &["scale", "0"]);
    says(write(&values, scaled(1.0), &[0, 1, 2, 3, 12]), &["12"]);
    says(write(&values, scaled(1.0), &slots[1..]), &["4", "5"]);
    says(
        write(&values, CacheFormat::Blocks(BlockFormat::Q8_0), &slots),
        &["keys", "blocks of 34 bytes", "8"],
    );
    assert_eq!((bits(&keys)?, bits(&values)?), (vec![0; 192], vec![0; 192]));
    write(&values, scaled(1.0), &slots)?;

    let read = |values: &Tensor, shape, slots: &[i64], dtype| {
        rotary.read_caches((&keys, values), scaled(1.0), shape, slots, dtype)
    };
    let (f32, shape) = (DType::F32, [1, 5]);
    says(read(&values, [1, 4], &slots, f32), &["5", "4"]);
    says(read(&values, [usize::MAX; 2], &slots, f32), &["memory"]);
    says(read(&values, shape, &[0, 1, 2, 3, 12], f32), &["12"]);
    says(read(&values, shape, &slots, DType::F64), &["f64"]);
    says(
        read(&zeros(&[3, 2, 4, 8], f32), shape, &slots, f32),
        &["values must be u8"],
    );
    let tracked = Var::from_tensor(&values)?;
    says(
        read(tracked.as_tensor(), shape, &slots, f32),
        &["values is tracked", "detach"],
    );
    read(&values, shape, &slots, f32).map(drop)
}
