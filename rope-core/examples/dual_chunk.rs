//! Dual Chunk Attention, as Qwen2.5-1M uses it: queries rotated to five positions and keys to one,
//! each with one read; queries side by side as vLLM and sglang lay them, keys into the pages of a
//! cache.
//!
//! Each output is held to a call of its own.
//!
//! `cargo run -p rope-core --example dual_chunk`

use half::bf16;
use rope_core::cache::{CacheLayout, CacheMut};
use rope_core::dual_chunk::{DualChunk, DualChunkQuery};
use rope_core::{
    Dimension, Error, Frequencies, Layout, Output, Pairing, Rope, Rows, Scaling, Tensor, TensorMut,
};

const HEADS: usize = 4;
const KV_HEADS: usize = 2;
const HEAD_DIM: usize = 128;
const TOKENS: usize = 48;
const PAGE: usize = 16;

pub(crate) fn main() -> Result<(), Error> {
    // Qwen2.5-1M; a part of a prompt that begins 20 tokens before the second chunk.
    let chunks = DualChunk::new(262_144, 8192)?;
    let frequencies = Frequencies::new(HEAD_DIM, 1e7, &Scaling::Default)?;
    let first = 262_144 - 8192 - 20;
    let positions = first..first + TOKENS;
    let rope = Rope::new(Pairing::Half);
    let numbers = |len: usize, from: usize| -> Vec<bf16> {
        let number = |i: usize| ((i * 37 + from) % 255) as f32 / 128.0 - 1.0;
        (0..len).map(|i| bf16::from_f32(number(i))).collect()
    };

    // Once per forward step, without a list of ids. Of one the row is the same for all tokens.
    let rows_of = |query| frequencies.rows(chunks.positions(query, positions.clone())?);
    let [intra, succ, _, succ_critical, inter_critical] = DualChunkQuery::ALL;
    let inter = frequencies.rows(chunks.id(DualChunkQuery::Inter, 0))?;
    let rows: [Rows<'_>; 5] = [
        rows_of(intra)?,
        rows_of(succ)?,
        inter.repeated(0, TOKENS)?,
        rows_of(succ_critical)?,
        rows_of(inter_critical)?,
    ];

    // Per layer: [tokens, 5, heads, head_dim], by one read of the queries.
    let q = numbers(TOKENS * HEADS * HEAD_DIM, 1);
    let queries = Tensor::new(&q, [1, TOKENS, HEADS, HEAD_DIM])?;
    let mut five = vec![bf16::ZERO; 5 * q.len()];
    let layout = Layout::bshd([1, TOKENS, 5 * HEADS, HEAD_DIM])?;
    let mut side_by_side = TensorMut::new(&mut five, layout)?;
    rope.rotate_into_each(
        &queries,
        &mut [Output::head_groups(&mut side_by_side, &rows)],
    )?;
    for (group, rows) in rows.iter().enumerate() {
        let mut apart = vec![bf16::ZERO; q.len()];
        let mut target = TensorMut::new(&mut apart, [1, TOKENS, HEADS, HEAD_DIM])?;
        rope.rotate_into(&queries, &mut target, rows)?;
        let heads = layout.narrow(Dimension::Heads, group * HEADS..(group + 1) * HEADS)?;
        let written = Tensor::new(&five, heads)?;
        for token in 0..TOKENS {
            for head in 0..HEADS {
                let at = [0, token, head];
                assert_eq!(written.head(at), target.as_tensor().head(at));
            }
        }
    }
    println!(
        "{TOKENS} tokens of {HEADS} heads at five positions each in one call: the bits of five"
    );

    // Keys have the first of the positions: into a cache, and into a tensor for this step.
    let k = numbers(TOKENS * KV_HEADS * HEAD_DIM, 7);
    let keys = Tensor::new(&k, [1, TOKENS, KV_HEADS, HEAD_DIM])?;
    let pages = CacheLayout::nhd([4, PAGE, KV_HEADS, HEAD_DIM])?;
    let slots: Vec<i64> = (0..TOKENS).map(|token| (token + PAGE) as i64).collect();
    let (mut memory, mut now) = (vec![bf16::ZERO; pages.end()], vec![0.0_f32; k.len()]);
    rope.rotate_into_each(
        &keys,
        &mut [
            Output::new(
                &mut CacheMut::new(&mut memory, pages)?.slots(&slots),
                &rows[0],
            ),
            Output::new(
                &mut TensorMut::new(&mut now, [1, TOKENS, KV_HEADS, HEAD_DIM])?,
                &rows[0],
            ),
        ],
    )?;
    let cached = &memory[PAGE * KV_HEADS * HEAD_DIM..][..k.len()];
    assert!(
        cached
            .iter()
            .zip(&now)
            .all(|(cached, now)| *cached == bf16::from_f32(*now))
    );
    println!(
        "{KV_HEADS} heads of keys in {} slots, and as f32 beside them",
        slots.len()
    );

    // The first token of the new chunk and the last of the old one are neighbors, by `Succ` too.
    let (query, key) = (first as i64 + 20, first as i64 + 19);
    let distance = chunks.id(succ, query) - chunks.id(intra, key);
    assert_eq!(distance, 1);
    println!("across the border of chunks the positions are {distance} apart");
    Ok(())
}
