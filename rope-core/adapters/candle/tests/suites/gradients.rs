//! Gradients against candle's automatic differentiation of the formula in f64.

use crate::random::{Random, bits, doubles};
use candle_core::backprop::GradStore;
use candle_core::{DType, Device, Result, Tensor, Var};
use rope_candle::rope_core::{Frequencies, Pairing, Scaling};
use rope_candle::{Rotary, learned_tables, rope, rope_i, rope_thd};

type Function = fn(&Tensor, &Tensor, &Tensor) -> Result<Tensor>;

const FUNCTIONS: [(Function, bool); 3] = [(rope, false), (rope_i, false), (rope_thd, true)];

fn gradient(gradients: &GradStore, of: &Tensor) -> Result<Tensor> {
    gradients
        .get(of)
        .cloned()
        .ok_or_else(|| candle_core::Error::msg("no gradient"))
}

/// Returns a loss whose gradient by y is `weights`.
fn backward(y: &Tensor, weights: &Tensor) -> Result<GradStore> {
    (y * weights)?.sum_all()?.backward()
}

/// `|given - wanted| <= unit |wanted| + 2^-40 size`: rounded once to the type, sums of doubles.
fn close(given: &Tensor, wanted: &Tensor, unit: f64) -> Result<()> {
    assert_eq!(given.dims(), wanted.dims());
    let wanted = doubles(wanted)?;
    let size = wanted
        .iter()
        .fold(0.0_f64, |size, value| size.max(value.abs()));
    for (given, wanted) in doubles(given)?.into_iter().zip(wanted) {
        let bound = unit * wanted.abs() + size * 2.0_f64.powi(-40);
        assert!((given - wanted).abs() <= bound, "{given} for {wanted}");
    }
    Ok(())
}

#[test]
fn of_x_cos_and_sin() -> Result<()> {
    let mut random = Random::new("gradients");
    for _ in 0..20 {
        for (function, tokens_first) in FUNCTIONS {
            let (batch, tokens, heads) = (
                1 + random.below(3),
                1 + random.below(6),
                1 + random.below(3),
            );
            let (pairs, rows) = (random.one_of(&[1, 3, 8, 32]), tokens + random.below(3));
            let shape = match tokens_first {
                true => (batch, tokens, heads, 2 * pairs),
                false => (batch, heads, tokens, 2 * pairs),
            };
            let dtype = random.one_of(&[DType::F32, DType::BF16, DType::F16]);
            let tables_dtype = random.one_of(&[DType::F32, dtype]);
            let x = random.tensor(shape, dtype)?;
            let weights = random.tensor(shape, dtype)?;
            let (cos, sin) = match random.below(2) {
                0 => random.tables((rows, pairs), tables_dtype)?,
                _ => random.tables((batch, rows, pairs), tables_dtype)?,
            };
            // The formula itself in f64, which candle differentiates.
            let double = |tensor: &Tensor| Var::from_tensor(&tensor.to_dtype(DType::F64)?);
            let (x64, cos64, sin64) = (double(&x)?, double(&cos)?, double(&sin)?);
            let wanted = backward(
                &function(&x64, &cos64, &sin64)?,
                &weights.to_dtype(DType::F64)?,
            )?;

            let (x, cos, sin) = (
                Var::from_tensor(&x)?,
                Var::from_tensor(&cos)?,
                Var::from_tensor(&sin)?,
            );
            let given = backward(&function(&x, &cos, &sin)?, &weights)?;
            let by_x = gradient(&given, &x)?;
            // The transpose: the rotation of the gradient by the opposite angles, bit for bit.
            let transposed = function(&weights, &cos, &sin.neg()?)?;
            assert_eq!(bits(&by_x)?, bits(&transposed)?);
            // Half a unit in the last place of the type; f16 also has subnormals, of 2^-25.
            let unit = |dtype| match dtype {
                DType::F32 => 2.0_f64.powi(-24),
                DType::BF16 => 2.0_f64.powi(-8),
                _ => 2.0_f64.powi(-11),
            };
            for (table, double) in [(&cos, &cos64), (&sin, &sin64)] {
                let by_table = gradient(&given, table)?;
                assert_eq!(
                    (by_table.dtype(), by_table.dims()),
                    (tables_dtype, table.dims())
                );
                if tables_dtype != DType::F16 {
                    close(&by_table, &gradient(&wanted, double)?, unit(tables_dtype))?;
                }
            }
        }
    }
    Ok(())
}

#[test]
fn f64_has_the_gradients_of_candles_formula() -> Result<()> {
    let mut random = Random::new("f64");
    let x = Var::from_tensor(&random.tensor((2, 3, 4, 8), DType::F64)?)?;
    let weights = random.tensor((2, 3, 4, 8), DType::F64)?;
    let (cos, sin) = random.tables((4, 4), DType::F64)?;
    let (cos, sin) = (Var::from_tensor(&cos)?, Var::from_tensor(&sin)?);
    let pairs: [(Function, Function); 2] = [
        (rope, |x, cos, sin| {
            // candle's slow function requires one table for all sequences, which these are.
            candle_nn::rotary_emb::rope_slow(x, cos, sin)
        }),
        (rope_i, candle_nn::rotary_emb::rope_i_slow),
    ];
    for (ours, candle) in pairs {
        let (ours, candle) = (ours(&x, &cos, &sin)?, candle(&x, &cos, &sin)?);
        let (given, wanted) = (backward(&ours, &weights)?, backward(&candle, &weights)?);
        for variable in [&x, &cos, &sin] {
            close(
                &gradient(&given, variable)?,
                &gradient(&wanted, variable)?,
                1e-15,
            )?;
        }
    }
    Ok(())
}

#[test]
fn only_what_is_tracked_has_one() -> Result<()> {
    let mut random = Random::new("tracked");
    let x = random.tensor((1, 2, 3, 8), DType::F32)?;
    let weights = random.tensor((1, 2, 3, 8), DType::F32)?;
    let (cos, sin) = random.tables((3, 4), DType::F32)?;
    let variable = Var::from_tensor(&cos)?;
    let gradients = backward(&rope(&x, &variable, &sin)?, &weights)?;
    assert!(gradients.get(&variable).is_some());
    assert!(gradients.get(&x).is_none() && gradients.get(&sin).is_none());
    let variable = Var::from_tensor(&x)?;
    let gradients = backward(&rope(&variable, &cos, &sin)?, &weights)?;
    assert!(gradients.get(&variable).is_some());
    assert!(gradients.get(&cos).is_none() && gradients.get(&sin).is_none());
    // Untracked tensors record nothing.
    assert!(!rope(&x, &cos, &sin)?.track_op());
    Ok(())
}

/// Both tensors are strided: x is a transposed projection, and its gradient comes back through a sum, which broadcasts
/// it.
#[test]
fn reach_through_views() -> Result<()> {
    let mut random = Random::new("views");
    let (batch, tokens, heads, head_dim) = (2, 3, 4, 8);
    let x = Var::from_tensor(&random.tensor((batch, tokens, heads * head_dim), DType::F32)?)?;
    let (cos, sin) = random.tables((tokens, head_dim / 2), DType::F32)?;
    let cos = Var::from_tensor(&cos)?;
    let heads_first = x
        .reshape((batch, tokens, heads, head_dim))?
        .transpose(1, 2)?;
    let strided = rope(&heads_first, &cos, &sin)?.sum_all()?.backward()?;
    let contiguous = rope(&heads_first.contiguous()?, &cos, &sin)?
        .sum_all()?
        .backward()?;
    for variable in [&x, &cos] {
        let (strided, contiguous) = (
            gradient(&strided, variable)?,
            gradient(&contiguous, variable)?,
        );
        assert_eq!(bits(&strided)?, bits(&contiguous)?);
    }
    Ok(())
}

#[test]
fn gradients_of_rotary_match_its_tables() -> Result<()> {
    let mut random = Random::new("rotary");
    let frequencies =
        Frequencies::new(16, 10_000.0, &Scaling::Default).map_err(candle_core::Error::wrap)?;
    let rotary = Rotary::new(frequencies, Pairing::Half);
    let rows = rotary.rows(70_000..70_003)?;
    let (cos, sin) = rows.cos_sin()?;
    let x = Var::from_tensor(&random.tensor((2, 2, 3, 16), DType::F32)?)?;
    let weights = random.tensor((2, 2, 3, 16), DType::F32)?;
    let by_rows = backward(&rotary.rotate(&x, &rows)?, &weights)?;
    let by_tables = backward(&rope(&x, &cos, &sin)?, &weights)?;
    assert_eq!(
        bits(&gradient(&by_rows, &x)?)?,
        bits(&gradient(&by_tables, &x)?)?
    );
    Ok(())
}

/// Gradients of frequencies against candle's differentiation of `cos(p f)` and `sin(p f)` in f64, where the product is
/// exact enough.
#[test]
fn of_learned_frequencies() -> Result<()> {
    let mut random = Random::new("learned");
    let (tokens, pairs) = (7, 5);
    let inverse: Vec<f32> = (0..pairs)
        .map(|pair| 0.3_f32.powi(pair) * (1.0 + random.number() / 1024.0))
        .collect();
    let x = random.tensor((2, 3, tokens, 10), DType::F32)?;
    let weights = random.tensor((2, 3, tokens, 10), DType::F32)?;
    let positions: Vec<i64> = (0..tokens)
        .map(|_| random.below(2000) as i64 - 1000)
        .collect();
    let positions = Tensor::new(positions, &Device::Cpu)?;

    let frequencies = Var::new(inverse.as_slice(), &Device::Cpu)?;
    let (cos, sin) = learned_tables(&frequencies, &positions)?;
    let given = gradient(&backward(&rope(&x, &cos, &sin)?, &weights)?, &frequencies)?;
    assert_eq!(
        (given.dtype(), given.dims()),
        (DType::F32, &[pairs as usize][..])
    );

    let double = |tensor: &Tensor| tensor.to_dtype(DType::F64);
    let frequencies = Var::from_tensor(&double(&frequencies)?)?;
    let angles = double(&positions)?
        .unsqueeze(1)?
        .broadcast_mul(&frequencies)?;
    let (cos64, sin64) = (angles.cos()?, angles.sin()?);
    // The expected value is the nearest f32; its angles have an error of 2^-53 times a thousand.
    for (given, exact) in [(&cos, &cos64), (&sin, &sin64)] {
        for (given, exact) in doubles(given)?.into_iter().zip(doubles(exact)?) {
            assert!(
                (given - exact).abs() <= 2.0_f64.powi(-25) + 1e-12,
                "{given} for {exact}"
            );
        }
    }
    let (x, weights) = (double(&x)?, double(&weights)?);
    let wanted = backward(&rope(&x, &cos64, &sin64)?, &weights)?;
    let wanted = doubles(&gradient(&wanted, &frequencies)?)?;
    // The gradients of cos and sin were rounded to f32, and so were cos and sin: three roundings of 2^-24 of each term.
    let (cos64, sin64) = (Var::from_tensor(&cos64)?, Var::from_tensor(&sin64)?);
    let tables = backward(&rope(&x, &cos64, &sin64)?, &weights)?;
    let terms = (gradient(&tables, &cos64)?.abs()? + gradient(&tables, &sin64)?.abs()?)?;
    let terms = double(&positions)?
        .abs()?
        .unsqueeze(1)?
        .broadcast_mul(&terms)?;
    let bounds = doubles(&(terms.sum(0)? * (3.0 * 2.0_f64.powi(-24)))?)?;
    for ((given, wanted), bound) in doubles(&given)?.into_iter().zip(wanted).zip(bounds) {
        assert!(
            (given - wanted).abs() <= bound,
            "{given} for {wanted}, {bound}"
        );
    }
    Ok(())
}

/// Training finds the frequencies that rotated its data.
#[test]
fn train() -> Result<()> {
    let mut random = Random::new("train");
    let planted = Tensor::new(&[0.9_f32, 0.31, 0.08, 0.02], &Device::Cpu)?;
    let positions = Tensor::arange(0_u32, 12, &Device::Cpu)?;
    // Pairs of length 1, so that the loss curves alike in all frequencies: 2 (0 + 1 + 4 + .. + 121) = 1012.
    let (x, y) = random.tables((1, 1, 12, 4), DType::F32)?;
    let x = Tensor::cat(&[x, y], 3)?;
    let (cos, sin) = learned_tables(&planted, &positions)?;
    let wanted = rope(&x, &cos, &sin)?;
    let learned = Var::new(&[0.88_f32, 0.33, 0.07, 0.03], &Device::Cpu)?;
    let loss = || -> Result<Tensor> {
        let (cos, sin) = learned_tables(&learned, &positions)?;
        (rope(&x, &cos, &sin)? - &wanted)?.sqr()?.sum_all()
    };
    let before: f32 = loss()?.to_scalar()?;
    for _ in 0..20 {
        let by_frequency = gradient(&loss()?.backward()?, &learned)?;
        learned.set(&(learned.as_tensor() - (by_frequency / 1012.0)?)?)?;
    }
    let after: f32 = loss()?.to_scalar()?;
    assert!(after < 1e-3 * before, "{before} became {after}");
    Ok(())
}
