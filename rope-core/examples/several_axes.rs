//! M-RoPE: text around an image, with a time, a row and a column for each token.
//!
//! Each pair of channels follows one of the three axes. A token of text has the same position on all of them, where
//! M-RoPE is plain RoPE; a patch of the image has its own row and column. What comes out are rows like any other.
//!
//! `cargo run -p rope-core --example several_axes`

use rope_core::axes::Axes;
use rope_core::{Error, Frequencies, Pairing, Positions, Rope, Scaling, TensorMut};

const HEADS: usize = 12;
const HEAD_DIM: usize = 128;

/// Positions, token by token: `text` tokens, an image of so many rows and columns, and as much text again.
fn positions(text: i64, [rows, columns]: [i64; 2]) -> Vec<[i64; 3]> {
    let before = (0..text).map(|at| [at; 3]);
    let image =
        (0..rows).flat_map(|row| (0..columns).map(move |column| [text, text + row, text + column]));
    // Text goes on after the largest position of the image.
    let next = text + rows.max(columns);
    let after = (next..next + text).map(|at| [at; 3]);
    before.chain(image).chain(after).collect()
}

pub(crate) fn main() -> Result<(), Error> {
    // Qwen2-VL: 16 pairs follow the time, 24 the row, 24 the column.
    let base = 1_000_000.0;
    let frequencies = Frequencies::new(Axes::mrope(128, [16, 24, 24]), base, &Scaling::Default)?;
    let ids = positions(3, [2, 4]);
    let tokens = ids.len();
    let rows = frequencies.rows(Positions::token_major(ids.as_flattened()))?;

    let mut q = vec![1.0_f32; tokens * HEADS * HEAD_DIM];
    let rope = Rope::new(Pairing::Half);
    rope.rotate(
        &mut TensorMut::new(&mut q, [1, tokens, HEADS, HEAD_DIM])?,
        &rows,
    )?;

    // Where all axes agree, the row is that of plain RoPE, bit for bit; in the image it is not.
    let plain = Frequencies::new(HEAD_DIM, base, &Scaling::Default)?;
    for (token, [time, row, column]) in ids.into_iter().enumerate() {
        let is_text = time == row && row == column;
        let same = rows.row(token, 0) == plain.rows(&[time])?.row(0, 0);
        // The image's first patch lies at one position on all axes, too.
        assert_eq!(same, is_text, "token {token}");
        println!("token {token:2}: time {time}, row {row}, column {column}; as plain RoPE: {same}");
    }
    Ok(())
}
