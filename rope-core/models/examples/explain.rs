//! Finds the convention of another program from queries before and after its rotation.
//!
//! Ported weights produce gibberish if pairing, window or direction differ from the original program's. Print the
//! queries of one layer and a few tokens in that program, before and after its rotation, and compare. Here the program
//! is a function with a hidden convention: it rotates the last 64 of 96 channels, reads neighbors and writes halves, as
//! DeepSeek-V3 does.
//!
//! `cargo run -p rope-models --example explain`

use rope_core::{Error, Frequencies, Rows, Scaling, Tensor};
use rope_models::{Convention, Explanation, explain};

const TOKENS: usize = 4;
const HEADS: usize = 2;
const HEAD_DIM: usize = 96;
const SHAPE: [usize; 4] = [1, TOKENS, HEADS, HEAD_DIM];
/// The position of the first token: at 0 nothing rotates.
const START: usize = 20;

/// A program with an unknown convention.
fn their_rotation(x: &[f32]) -> Vec<f32> {
    let mut y = x.to_vec();
    for (head, (x, y)) in x.chunks(HEAD_DIM).zip(y.chunks_mut(HEAD_DIM)).enumerate() {
        let position = (START + head / HEADS) as f32;
        for i in 0..32 {
            let angle = position * 10_000_f32.powf(-(i as f32) / 32.0);
            let (a, b) = (x[32 + 2 * i], x[33 + 2 * i]);
            y[32 + i] = a * angle.cos() - b * angle.sin();
            y[64 + i] = a * angle.sin() + b * angle.cos();
        }
    }
    y
}

fn ask(before: &[f32], after: &[f32], rows: &Rows<'_>) -> Result<Explanation, Error> {
    explain(
        &Tensor::new(before, SHAPE)?,
        &Tensor::new(after, SHAPE)?,
        rows,
    )
}

pub(crate) fn main() -> Result<(), Error> {
    let before: Vec<f32> = (0..TOKENS * HEADS * HEAD_DIM)
        .map(|i| ((i * i + 7 * i) % 113) as f32 / 113.0 - 0.5)
        .collect();
    let after = their_rotation(&before);

    // The frequencies of the model's configuration for 64 channels.
    let frequencies = Frequencies::new(64, 10_000.0, &Scaling::Default)?;
    let rows = frequencies.rows(START..START + TOKENS)?;
    let found = ask(&before, &after, &rows)?;
    let Explanation::Rotation(convention) = found else {
        panic!("{found:?}");
    };
    describe(&convention);
    assert_eq!(convention.window(), 32..96);

    // With the wrong base no rotation explains it, and at position 0 every rotation does.
    let wrong = Frequencies::new(64, 500_000.0, &Scaling::Default)?;
    let found = ask(&before, &after, &wrong.rows(START..START + TOKENS)?)?;
    assert!(
        matches!(found, Explanation::Unexplained { .. }),
        "{found:?}"
    );
    let found = ask(&before, &before, &frequencies.rows(&[0, 0, 0, 0])?)?;
    assert!(matches!(found, Explanation::Ambiguous { .. }), "{found:?}");
    Ok(())
}

fn describe(convention: &Convention) {
    let (input, output) = convention.pairing();
    println!(
        "channels {:?} rotate {}: pairs {input} in, {output} out",
        convention.window(),
        convention.direction()
    );
}
