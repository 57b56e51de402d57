//! Writes rotated keys into a cache of bf16, from keys of f32, beside queries that are rotated in place.
//!
//! The cache is heads-major and has room for more tokens than there are. Each step rotates its keys out of place into
//! the slots after the full ones: one rounding to bf16, no temporary, and no other slot is written.
//!
//! `cargo run -p rope-core --example kv_cache`

use half::bf16;
use rope_core::{Dimension, Error, Frequencies, Layout, Pairing, Rope, Scaling, Tensor, TensorMut};

const HEADS: usize = 8;
const KV_HEADS: usize = 2;
const HEAD_DIM: usize = 128;
const CAPACITY: usize = 16;

pub(crate) fn main() -> Result<(), Error> {
    let frequencies = Frequencies::new(HEAD_DIM, 500_000.0, &Scaling::Default)?;
    let rope = Rope::new(Pairing::Half);
    let slots = Layout::bhsd([1, KV_HEADS, CAPACITY, HEAD_DIM])?;
    let mut cache = vec![bf16::NAN; KV_HEADS * CAPACITY * HEAD_DIM];
    let mut cached = 0;

    // a prompt of five tokens, then one token at a time
    for tokens in [5, 1, 1] {
        let mut q = vec![0.5_f32; tokens * HEADS * HEAD_DIM];
        let k: Vec<f32> = (0..tokens * KV_HEADS * HEAD_DIM)
            .map(|i| 1.0 / (1 + i + cached) as f32)
            .collect();
        let before = cache.clone();

        let shape = [1, tokens, KV_HEADS, HEAD_DIM];
        let filled = cached..cached + tokens;
        let rows = frequencies.rows(filled.clone())?;
        rope.rotate(
            &mut TensorMut::new(&mut q, [1, tokens, HEADS, HEAD_DIM])?,
            &rows,
        )?;
        rope.rotate_into(
            &Tensor::new(&k, shape)?,
            &mut TensorMut::new(&mut cache, slots.narrow(Dimension::Tokens, filled.clone())?)?,
            &rows,
        )?;

        // What was written is the rotation in f32, rounded once; every other slot has its bits.
        let mut rotated = k;
        rope.rotate(&mut TensorMut::new(&mut rotated, shape)?, &rows)?;
        for (index, (now, before)) in cache.iter().zip(&before).enumerate() {
            let (head, slot) = (index / HEAD_DIM / CAPACITY, index / HEAD_DIM % CAPACITY);
            let expected = if filled.contains(&slot) {
                let from = ((slot - cached) * KV_HEADS + head) * HEAD_DIM + index % HEAD_DIM;
                bf16::from_f32(rotated[from])
            } else {
                *before
            };
            assert_eq!(now.to_bits(), expected.to_bits(), "slot {slot}");
        }
        cached += tokens;
        println!("{tokens} keys rotated into the cache; {cached} of {CAPACITY} slots are full");
    }
    Ok(())
}
