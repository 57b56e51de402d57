//! Trains frequencies: planted ones are found again from what they rotated.
//!
//! `cargo run --example learn`

use candle_core::{Device, Result, Tensor, Var};
use rope_candle::{learned_tables, rope_i};

fn main() -> Result<()> {
    let (tokens, pairs) = (16, 4);
    let positions = Tensor::arange(0_u32, tokens, &Device::Cpu)?;
    let rotated = |frequencies: &Tensor, x: &Tensor| -> Result<Tensor> {
        let (cos, sin) = learned_tables(frequencies, &positions)?;
        rope_i(x, &cos, &sin)
    };

    let planted = [0.9_f32, 0.31, 0.08, 0.02];
    let x = Tensor::randn(0_f32, 1.0, (1, 8, tokens as usize, 2 * pairs), &Device::Cpu)?;
    let wanted = rotated(&Tensor::new(&planted, &Device::Cpu)?, &x)?;

    let frequencies = Var::new(&[0.88_f32, 0.33, 0.07, 0.03], &Device::Cpu)?;
    for step in 0..=100 {
        let loss = (rotated(&frequencies, &x)? - &wanted)?.sqr()?.mean_all()?;
        if step % 25 == 0 {
            println!("step {step}: loss {:.1e}", loss.to_scalar::<f32>()?);
        }
        let gradients = loss.backward()?;
        let Some(gradient) = gradients.get(&frequencies) else {
            candle_core::bail!("no gradient");
        };
        frequencies.set(&(frequencies.as_tensor() - (gradient * 0.02)?)?)?;
    }

    let found: Vec<f32> = frequencies.to_vec1()?;
    println!("planted {planted:?}, found {found:?}");
    for (found, planted) in found.iter().zip(planted) {
        assert!((found - planted).abs() < 1e-3, "{found} for {planted}");
    }
    Ok(())
}
