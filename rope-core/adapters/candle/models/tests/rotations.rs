//! One model under several rotations.

use candle_core::{DType, Result};
use rope_candle_models::{Kind, Rotation, Size, distance, double_tables, exact_tables};

const SIZE: Size = Size {
    vocabulary: 64,
    layers: 2,
    heads: 4,
    head_dim: 32,
    positions: 100_032,
};
const TOKENS: [u32; 12] = [3, 14, 15, 9, 26, 53, 58, 9, 7, 9, 32, 38];
const STARTS: [usize; 3] = [100, 5_000, 100_000];

fn positions(start: usize) -> Vec<usize> {
    (start..).take(TOKENS.len()).collect()
}

/// The logits are equal bit for bit in f32.
#[test]
fn the_function_alone_changes_no_bit_of_f32() -> Result<()> {
    for kind in Kind::ALL {
        let mut model = kind.small(SIZE, DType::F32)?;
        for start in STARTS {
            let candle = model.decode(&TOKENS, &positions(start), Rotation::Candle)?;
            let ours = model.decode(&TOKENS, &positions(start), Rotation::Function)?;
            assert_eq!(candle, ours, "{kind:?} at {start}");
        }
        // A prompt at once.
        model.clear();
        let candle = model.forward(&TOKENS, 0, Rotation::Candle)?;
        model.clear();
        let ours = model.forward(&TOKENS, 0, Rotation::Function)?;
        assert_eq!(candle, ours, "{kind:?}");
    }
    Ok(())
}

/// Were positions without effect on these models, the other tests here could not fail.
#[test]
fn positions_matter() -> Result<()> {
    for kind in Kind::ALL {
        let mut model = kind.small(SIZE, DType::F32)?;
        let one_after_another = model.decode(&TOKENS, &positions(0), Rotation::Function)?;
        let all_at_zero = model.decode(&TOKENS, &[0; TOKENS.len()], Rotation::Function)?;
        assert!(
            distance(&all_at_zero, &one_after_another) > 0.05,
            "{kind:?}"
        );
    }
    Ok(())
}

/// With exact angles, a model in bf16 differs from f64 by its rounding, at any position. With angles in bf16, which has
/// no integer between 4992 and 5024 and none between 99,840 and 100,352, it differs by more.
#[test]
fn in_bf16_exact_angles_are_near_everywhere() -> Result<()> {
    for kind in [Kind::Llama, Kind::Qwen2, Kind::Gemma, Kind::Phi3] {
        let mut reference = kind.small(SIZE, DType::F64)?;
        let mut model = kind.small(SIZE, DType::BF16)?;
        let mut far = |start| -> Result<[f64; 2]> {
            let positions = positions(start);
            let (cos, sin) = double_tables(SIZE, &positions)?;
            let wanted = reference.decode(&TOKENS, &positions, Rotation::Tables(&cos, &sin))?;
            let (cos, sin) = exact_tables(&kind.config(SIZE), &positions)?;
            let mut far = |rotation| -> Result<f64> {
                Ok(distance(
                    &model.decode(&TOKENS, &positions, rotation)?,
                    &wanted,
                ))
            };
            Ok([far(Rotation::Tables(&cos, &sin))?, far(Rotation::Candle)?])
        };
        let [near, _] = far(0)?;
        for start in STARTS {
            let [ours, candle] = far(start)?;
            // Another window has other roundings, of the same size.
            assert!(
                ours < 2.0 * near,
                "{kind:?} at {start}: {ours}, at 0 {near}"
            );
            if kind != Kind::Llama && start > 256 {
                assert!(
                    candle > 10.0 * near,
                    "{kind:?} at {start}: {candle}, at 0 {near}"
                );
            }
        }
    }
    Ok(())
}
