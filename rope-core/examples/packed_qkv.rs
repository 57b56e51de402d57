//! Rotates Q and K of a packed projection in one call, where they lie.
//!
//! A fused projection writes `| Q Q .. Q | K .. K | V .. V |` for each token. Q and K are heads beside each other, so
//! a view of the first of them is a tensor; V is not in it and stays as it is.
//!
//! `cargo run -p rope-core --example packed_qkv`

use half::bf16;
use rope_core::{Dimension, Error, Frequencies, Layout, Pairing, Rope, Scaling, TensorMut};

const TOKENS: usize = 6;
const HEADS: usize = 8;
const KV_HEADS: usize = 2;
const HEAD_DIM: usize = 64;
/// The heads of a token: Q, K and V.
const ALL: usize = HEADS + 2 * KV_HEADS;

pub(crate) fn main() -> Result<(), Error> {
    let frequencies = Frequencies::new(HEAD_DIM, 10_000.0, &Scaling::Default)?;
    let rope = Rope::new(Pairing::Half);
    let rows = frequencies.rows(100..100 + TOKENS)?;
    let projected: Vec<bf16> = (0..TOKENS * ALL * HEAD_DIM)
        .map(|i| bf16::from_f32((i % 97) as f32 / 97.0 - 0.5))
        .collect();
    let packed = Layout::bshd([1, TOKENS, ALL, HEAD_DIM])?;

    // Q and K in one call
    let mut qkv = projected.clone();
    let queries_and_keys = packed.narrow(Dimension::Heads, 0..HEADS + KV_HEADS)?;
    rope.rotate(&mut TensorMut::new(&mut qkv, queries_and_keys)?, &rows)?;

    // V has its bits, and Q and K have changed.
    let bits = |x: &[bf16]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    for token in 0..TOKENS {
        let values = (token * ALL + HEADS + KV_HEADS) * HEAD_DIM..(token + 1) * ALL * HEAD_DIM;
        let rotated = token * ALL * HEAD_DIM..values.start;
        assert_eq!(bits(&qkv[values.clone()]), bits(&projected[values]));
        assert_ne!(bits(&qkv[rotated.clone()]), bits(&projected[rotated]));
    }

    // Q by itself and K by itself give the same bits.
    let mut apart = projected.clone();
    for heads in [0..HEADS, HEADS..HEADS + KV_HEADS] {
        rope.rotate(
            &mut TensorMut::new(&mut apart, packed.narrow(Dimension::Heads, heads)?)?,
            &rows,
        )?;
    }
    assert_eq!(bits(&qkv), bits(&apart));
    println!(
        "{} of {ALL} heads of {TOKENS} tokens rotated in one call; V untouched",
        HEADS + KV_HEADS
    );
    Ok(())
}
