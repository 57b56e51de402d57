//! The distance of a model's logits from those of the same model in f64.

use candle_core::{DType, Result};
use rope_candle_models::{Kind, Model, Rotation, Size, distance, double_tables, exact_tables};

const SIZE: Size = Size {
    vocabulary: 256,
    layers: 4,
    heads: 4,
    head_dim: 64,
    positions: 100_032,
};
const STARTS: [usize; 3] = [100, 5_000, 100_000];

pub(crate) fn print() -> Result<()> {
    println!(
        "| model | position | f32: candle | function, tables | bf16: candle | function | function, tables |"
    );
    println!("|---|---|---|---|---|---|---|");
    let tokens: Vec<u32> = (0..32).map(|token| token * token * 7 % 251).collect();
    let models = [
        ("Llama", Kind::Llama),
        ("Qwen2", Kind::Qwen2),
        ("Gemma", Kind::Gemma),
        ("Phi-3", Kind::Phi3),
    ];
    for (name, kind) in models {
        let mut reference = kind.small(SIZE, DType::F64)?;
        let mut single = kind.small(SIZE, DType::F32)?;
        let mut bf16 = kind.small(SIZE, DType::BF16)?;
        for start in STARTS {
            let positions: Vec<usize> = (start..).take(tokens.len()).collect();
            let (cos, sin) = double_tables(SIZE, &positions)?;
            let wanted = reference.decode(&tokens, &positions, Rotation::Tables(&cos, &sin))?;
            let (cos, sin) = exact_tables(&kind.config(SIZE), &positions)?;
            let exact = Rotation::Tables(&cos, &sin);
            let far = |model: &mut Model, rotation| -> Result<f64> {
                Ok(distance(
                    &model.decode(&tokens, &positions, rotation)?,
                    &wanted,
                ))
            };
            println!(
                "| {name} | {start} | {:.0e} | {:.0e} | {:.3} | {:.3} | {:.3} |",
                far(&mut single, Rotation::Candle)?,
                far(&mut single, exact)?,
                far(&mut bf16, Rotation::Candle)?,
                far(&mut bf16, Rotation::Function)?,
                far(&mut bf16, exact)?,
            );
        }
    }
    Ok(())
}
