//! Rotates by cos and sin that a runtime has already.
//!
//! PyTorch code keeps cos and sin in tables of `[positions, head_dim]` whose second half repeats the first. Such a
//! table is rows as it is, and the ids of a step pick from it; nothing is copied. The result has the bits of the plain
//! arithmetic in f32.
//!
//! `cargo run -p rope-core --example given_rows`

use rope_core::{Error, Pairing, Rope, Rows, TensorMut};

const HEADS: usize = 4;
const HEAD_DIM: usize = 32;
const POSITIONS: usize = 50;

/// The cos and sin of `LlamaRotaryEmbedding`, one function of the angle: f32 throughout.
fn table(function: fn(f32) -> f32) -> Vec<f32> {
    let mut table = Vec::new();
    for position in 0..POSITIONS {
        let half = (0..HEAD_DIM / 2).map(|i| {
            let inverse = 1.0 / 10_000_f32.powf(2.0 * i as f32 / HEAD_DIM as f32);
            function(position as f32 * inverse)
        });
        table.extend(half.clone().chain(half));
    }
    table
}

pub(crate) fn main() -> Result<(), Error> {
    let (cos, sin) = (table(f32::cos), table(f32::sin));
    let all = Rows::from_cos_sin(&cos, &sin, [POSITIONS, HEAD_DIM], HEAD_DIM)?;
    let ids = [7_i64, 0, 49];
    let rows = all.gather(&ids)?;
    assert_eq!((all.len(), rows.len()), (POSITIONS, ids.len()));

    let x: Vec<f32> = (0..ids.len() * HEADS * HEAD_DIM)
        .map(|i| (i % 23) as f32 - 11.0)
        .collect();
    let mut rotated = x.clone();
    Rope::new(Pairing::Half).rotate(
        &mut TensorMut::new(&mut rotated, [1, ids.len(), HEADS, HEAD_DIM])?,
        &rows,
    )?;

    let heads = x.as_chunks::<HEAD_DIM>().0;
    for (head, (x, y)) in heads
        .iter()
        .zip(rotated.as_chunks::<HEAD_DIM>().0)
        .enumerate()
    {
        let row = ids[head / HEADS] as usize * HEAD_DIM;
        for i in 0..HEAD_DIM / 2 {
            let (first, second) = (x[i], x[i + HEAD_DIM / 2]);
            let (cos, sin) = (cos[row + i], sin[row + i]);
            let expected = [first * cos - second * sin, first * sin + second * cos];
            let made = [y[i], y[i + HEAD_DIM / 2]];
            assert_eq!(made.map(f32::to_bits), expected.map(f32::to_bits));
        }
    }
    println!(
        "{} heads at positions {ids:?}: the bits of the plain arithmetic",
        heads.len()
    );
    Ok(())
}
