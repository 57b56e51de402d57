//! Tokens per second of a model, and the time of the function alone: candle's and ours by turns, in one process.

use std::hint::black_box;
use std::time::Instant;

use candle_core::{DType, Device, Result, Tensor};
use rope_candle_models::{Kind, Model, Rotation, Size, spent};

const SIZE: Size = Size {
    vocabulary: 1024,
    layers: 8,
    heads: 8,
    head_dim: 64,
    positions: 1024,
};
const PROMPT: usize = 128;
const DECODED: usize = 16;
const TURNS: usize = 30;

/// The shortest times of two things, in seconds, done by turns: what else the machine does makes times longer.
fn by_turns(mut run: impl FnMut(usize) -> Result<f64>) -> Result<[f64; 2]> {
    let mut shortest = [f64::INFINITY; 2];
    for turn in 0..TURNS {
        // Each is first as often as the other.
        for which in [turn % 2, 1 - turn % 2] {
            shortest[which] = shortest[which].min(run(which)?);
        }
    }
    Ok(shortest)
}

fn seconds<T>(run: impl FnOnce() -> Result<T>) -> Result<f64> {
    let start = Instant::now();
    black_box(run()?);
    Ok(start.elapsed().as_secs_f64())
}

const ROTATIONS: [Rotation<'static>; 2] = [Rotation::Candle, Rotation::Function];

fn decode(model: &mut Model, prompt: &[u32], rotation: Rotation<'_>) -> Result<f64> {
    model.clear();
    model.forward(prompt, 0, rotation)?;
    // Only the tokens count.
    let _ = spent();
    seconds(|| {
        (0..DECODED).try_for_each(|index| model.forward(&[7], PROMPT + index, rotation).map(drop))
    })
}

fn prefill(model: &mut Model, prompt: &[u32], rotation: Rotation<'_>) -> Result<f64> {
    model.clear();
    seconds(|| model.forward(prompt, 0, rotation))
}

pub(crate) fn print() -> Result<()> {
    println!("| Llama | tokens/s: candle | ours | ours : candle |");
    println!("|---|---|---|---|");
    let prompt: Vec<u32> = (0..PROMPT as u32).collect();
    for dtype in [DType::F32, DType::BF16] {
        let mut model = Kind::Llama.small(SIZE, dtype)?;
        let mut row =
            |name: &str,
             tokens: usize,
             run: fn(&mut Model, &[u32], Rotation<'_>) -> Result<f64>| {
                let times = by_turns(|which| run(&mut model, &prompt, ROTATIONS[which]))?;
                let [candle, ours] = times.map(|time| tokens as f64 / time);
                let ratio = ours / candle;
                println!(
                    "| {}, {name} | {candle:.0} | {ours:.0} | {ratio:.2} |",
                    dtype.as_str()
                );
                Ok::<(), candle_core::Error>(())
            };
        row("decode", DECODED, decode)?;
        row("prefill", PROMPT, prefill)?;
    }
    println!("\n| `rope` of 32 heads of 128 | us: candle | ours | candle : ours |");
    println!("|---|---|---|---|");
    for dtype in [DType::F32, DType::BF16] {
        for tokens in [1, 512] {
            function(dtype, tokens)?;
        }
    }
    Ok(())
}

/// A step of a model on tokens; returns its seconds.
type Step = fn(&mut Model, &[u32], Rotation<'_>) -> Result<f64>;

/// Prints the share of a whole model's time that the rotation takes, with candle's function and with ours.
pub(crate) fn print_share(as_json: bool) -> Result<()> {
    if !as_json {
        println!("| Llama | candle's function | ours | times of the model |");
        println!("|---|---|---|---|");
    }
    let prompt: Vec<u32> = (0..PROMPT as u32).collect();
    for dtype in [DType::F32, DType::BF16] {
        let mut model = Kind::Llama.small(SIZE, dtype)?;
        let runs: [(&str, Step); 2] = [("prompt", prefill), ("token", decode)];
        for (name, run) in runs {
            let mut best = [(f64::INFINITY, 0.0); 2];
            by_turns(|which| {
                let rotation = Rotation::Timed(which == 1);
                let (total, rotated) = (run(&mut model, &prompt, rotation)?, spent().as_secs_f64());
                if total < best[which].0 {
                    best[which] = (total, rotated);
                }
                Ok(total)
            })?;
            let [candle, ours] = best.map(|(total, rotated)| rotated / total);
            let whole = best[1].0 / best[0].0;
            let line = format!("{}, {name}", dtype.as_str());
            if as_json {
                let values = serde_json::json!({ "theirs": candle, "ours": ours, "whole": whole });
                println!("{}", serde_json::json!({ "name": line, "values": values }));
            } else {
                let [candle, ours] = [candle, ours].map(|share| 100.0 * share);
                println!("| {line} | {candle:.1} % | {ours:.1} % | {whole:.3} |");
            }
        }
    }
    Ok(())
}

/// The function alone, on what a projection leaves: `[batch, tokens, heads, head_dim]`, transposed.
fn function(dtype: DType, tokens: usize) -> Result<()> {
    let x = Tensor::rand(-1_f32, 1.0, (1, tokens, 32, 128), &Device::Cpu)?.to_dtype(dtype)?;
    let x = x.transpose(1, 2)?;
    let angles = Tensor::rand(-3_f32, 3.0, (tokens, 64), &Device::Cpu)?;
    let (cos, sin) = (
        angles.cos()?.to_dtype(dtype)?,
        angles.sin()?.to_dtype(dtype)?,
    );
    let calls = 2_usize.pow(12) / tokens;
    let times = by_turns(|which| {
        seconds(|| {
            (0..calls).try_for_each(|_| {
                let y = match which {
                    // candle's wants them contiguous.
                    0 => candle_nn::rotary_emb::rope_of_candle(&x.contiguous()?, &cos, &sin)?,
                    _ => rope_candle::rope(&x, &cos, &sin)?,
                };
                black_box(y);
                Ok(())
            })
        })
    })?;
    let [candle, ours] = times.map(|time| time / calls as f64 * 1e6);
    let ratio = candle / ours;
    println!(
        "| {}, {tokens} tokens | {candle:.1} | {ours:.1} | {ratio:.1} |",
        dtype.as_str()
    );
    Ok(())
}
