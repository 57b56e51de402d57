//! How far a model's logits are from those of the same model in f64.

use candle_core::{DType, Result};
use rope_candle_models::{Kind, Rotation, Size, distance};

const SIZE: Size = Size {
    vocabulary: 256,
    layers: 4,
    heads: 4,
    head_dim: 64,
    positions: 100_032,
};
const POSITIONS: [usize; 3] = [100, 5_000, 100_000];
const SEED: u64 = 1;

pub(crate) fn print() -> Result<()> {
    println!(
        "| model | position | f32: candle | exact | bf16: candle | function | function, tables |"
    );
    println!("|---|---|---|---|---|---|---|");
    let tokens: Vec<u32> = (0..32).map(|token| token * token * 7 % 251).collect();
    for kind in [Kind::Llama, Kind::Qwen2, Kind::Gemma, Kind::Phi3] {
        let mut reference = kind.seeded(SIZE, SEED, DType::F64)?;
        let mut single = kind.seeded(SIZE, SEED, DType::F32)?;
        let mut bf16 = kind.seeded(SIZE, SEED, DType::BF16)?;
        for position in POSITIONS {
            let wanted = reference.decode(&tokens, position, Rotation::Reference)?;
            let far = |model: &mut rope_candle_models::Model, rotation| {
                Ok::<f64, candle_core::Error>(distance(
                    &model.decode(&tokens, position, rotation)?,
                    &wanted,
                ))
            };
            println!(
                "| {kind:?} | {position} | {:.1e} | {:.1e} | {:.4} | {:.4} | {:.4} |",
                far(&mut single, Rotation::Candle)?,
                far(&mut single, Rotation::Exact)?,
                far(&mut bf16, Rotation::Candle)?,
                far(&mut bf16, Rotation::Swapped)?,
                far(&mut bf16, Rotation::Exact)?,
            );
        }
    }
    Ok(())
}
