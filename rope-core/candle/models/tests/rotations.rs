//! One model under several rotations.

use candle_core::{DType, Result};
use rope_candle_models::{Kind, Rotation, Size, distance};

const SIZE: Size = Size {
    vocabulary: 64,
    layers: 2,
    heads: 4,
    head_dim: 32,
    positions: 100_032,
};
const TOKENS: [u32; 12] = [3, 14, 15, 9, 26, 53, 58, 9, 7, 9, 32, 38];
const POSITIONS: [usize; 3] = [100, 5_000, 100_000];

/// f32: logits bit for bit equal.
#[test]
fn the_function_alone_changes_no_bit_of_f32() -> Result<()> {
    for kind in Kind::ALL {
        let mut model = kind.seeded(SIZE, 1, DType::F32)?;
        for position in POSITIONS {
            let candle = model.decode(&TOKENS, position, Rotation::Candle)?;
            let ours = model.decode(&TOKENS, position, Rotation::Swapped)?;
            assert_eq!(candle, ours, "{kind:?} at {position}");
        }
        // A prompt at once.
        model.clear();
        let candle = model.forward(&TOKENS, 0, Rotation::Candle)?;
        model.clear();
        assert_eq!(
            candle,
            model.forward(&TOKENS, 0, Rotation::Swapped)?,
            "{kind:?}"
        );
    }
    Ok(())
}

/// What rotates changes the logits: were the positions ignored, these tests could not fail.
#[test]
fn positions_matter() -> Result<()> {
    for kind in Kind::ALL {
        let mut model = kind.seeded(SIZE, 1, DType::F32)?;
        let all = model.decode(&TOKENS, 0, Rotation::Exact)?;
        model.clear();
        let mut still = Vec::new();
        for &token in &TOKENS {
            still.extend(model.forward(&[token], 0, Rotation::Exact)?);
        }
        assert!(distance(&still, &all) > 0.05, "{kind:?}");
    }
    Ok(())
}

/// Positions are relative: by exact angles the logits of a window are the same wherever it begins, but for rounding;
/// by angles in bf16 they are others.
#[test]
fn in_bf16_only_exact_angles_stay_near() -> Result<()> {
    for kind in [Kind::Llama, Kind::Qwen2, Kind::Gemma, Kind::Phi3] {
        let mut exact = kind.seeded(SIZE, 1, DType::F64)?;
        let mut model = kind.seeded(SIZE, 1, DType::BF16)?;
        let reference = exact.decode(&TOKENS, 100, Rotation::Reference)?;
        let near = distance(&model.decode(&TOKENS, 100, Rotation::Exact)?, &reference);
        for position in POSITIONS {
            let reference = exact.decode(&TOKENS, position, Rotation::Reference)?;
            let ours = distance(
                &model.decode(&TOKENS, position, Rotation::Exact)?,
                &reference,
            );
            let candle = distance(
                &model.decode(&TOKENS, position, Rotation::Candle)?,
                &reference,
            );
            println!("{kind:?} at {position}: {ours:.4}, candle {candle:.4}");
            assert!(
                ours < 1.5 * near,
                "{kind:?} at {position}: {ours}, at 100 {near}"
            );
            if kind != Kind::Llama && position > 1000 {
                assert!(
                    candle > 4.0 * ours,
                    "{kind:?} at {position}: {candle}, {ours}"
                );
            }
        }
    }
    Ok(())
}
