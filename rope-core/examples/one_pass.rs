//! One decoding step of a model like Qwen3, from the projection to the cache: queries normed and rotated in place, keys
//! normed, rotated and written as FP8 into the pages of a cache, values beside them. Then the context shifts.
//!
//! Each call is held to the separate passes that it stands for.
//!
//! `cargo run -p rope-core --example one_pass`

use half::bf16;
use rope_core::cache::{CacheFormat, CacheLayout, CacheMut, QuantFormat, QuantScale, Slots};
use rope_core::norm::{Norm, NormFormula};
use rope_core::{Error, Frequencies, Pairing, Rope, Scaling, Tensor, TensorMut};

const HEADS: usize = 4;
const KV_HEADS: usize = 2;
const HEAD_DIM: usize = 128;
const PAGES: usize = 8;
const PAGE: usize = 16;

pub(crate) fn main() -> Result<(), Error> {
    let frequencies = Frequencies::new(HEAD_DIM, 1_000_000.0, &Scaling::Default)?;
    let rope = Rope::new(Pairing::Half);
    let numbers = |len: usize, from: usize| -> Vec<bf16> {
        let number = |i: usize| ((i * 37 + from) % 255) as f32 / 128.0 - 1.0;
        (0..len).map(|i| bf16::from_f32(number(i))).collect()
    };
    let (q_weight, k_weight) = (numbers(HEAD_DIM, 3), numbers(HEAD_DIM, 5));
    let norm = Norm::new(NormFormula::LLAMA, 1e-6);
    let (queries, keys) = (
        rope.with_norm(norm.with_weight(&q_weight)),
        rope.with_norm(norm.with_weight(&k_weight)),
    );

    // Two sequences of one token each, at positions 1000 and 40; the scheduler has given each a page and a slot in it.
    let (batch, positions, slots) = (
        2,
        [1000_i64, 40],
        [3 * PAGE as i64 + 8, 6 * PAGE as i64 + 8],
    );
    let rows = frequencies.rows(&positions)?;
    let shape = [batch, 1, KV_HEADS, HEAD_DIM];

    let mut q = numbers(batch * HEADS * HEAD_DIM, 1);
    let mut apart = q.clone();
    queries.rotate(
        &mut TensorMut::new(&mut q, [batch, 1, HEADS, HEAD_DIM])?,
        &rows,
    )?;
    let mut passes = TensorMut::new(&mut apart, [batch, 1, HEADS, HEAD_DIM])?;
    queries.apply(&mut passes)?;
    rope.rotate(&mut passes, &rows)?;
    assert_eq!(q, apart);
    println!("{HEADS} heads of queries normed and rotated in one call: the bits of two");

    let layout = CacheLayout::nhd([PAGES, PAGE, KV_HEADS, HEAD_DIM])?;
    let scale = QuantScale::Divide(0.02.into());
    let (mut key_memory, mut value_memory) = (vec![0_u8; layout.end()], vec![0_u8; layout.end()]);
    let (k, v) = (
        numbers(batch * KV_HEADS * HEAD_DIM, 7),
        numbers(batch * KV_HEADS * HEAD_DIM, 11),
    );
    let mut key_cache = CacheMut::coded(
        &mut key_memory,
        layout,
        CacheFormat::quantized(QuantFormat::E4m3, scale),
    )?;
    let mut value_cache = CacheMut::coded(
        &mut value_memory,
        layout,
        CacheFormat::quantized(QuantFormat::E4m3, scale),
    )?;
    keys.rotate_into(
        &Tensor::new(&k, shape)?,
        &mut key_cache.slots(&slots),
        &rows,
    )?;
    rope.apply_into(&Tensor::new(&v, shape)?, &mut value_cache.slots(&slots))?;

    let mut apart = k.clone();
    keys.rotate(&mut TensorMut::new(&mut apart, shape)?, &rows)?;
    let mut memory = vec![0_u8; layout.end()];
    let mut cache = CacheMut::coded(
        &mut memory,
        layout,
        CacheFormat::quantized(QuantFormat::E4m3, scale),
    )?;
    rope.apply_into(&Tensor::new(&apart, shape)?, &mut cache.slots(&slots))?;
    assert_eq!(key_memory, memory);
    println!(
        "{KV_HEADS} heads of keys and values as E4M3 in slots {slots:?} of {} pages",
        PAGES
    );

    // The first sequence drops its oldest 256 tokens; the second keeps its own.
    let mut key_cache = CacheMut::coded(
        &mut key_memory,
        layout,
        CacheFormat::quantized(QuantFormat::E4m3, scale),
    )?;
    rope.rotate(
        &mut key_cache.slots(&slots),
        &frequencies.shift(&[-256_i64, 0])?,
    )?;
    let mut shifted = vec![0.0_f32; k.len()];
    let mut y = TensorMut::new(&mut shifted, shape)?;
    rope.apply_into(&key_cache.as_cache().slots(Slots::from(&slots)), &mut y)?;

    let mut exact: Vec<f32> = k.iter().map(|k| k.to_f32()).collect();
    let moved = frequencies.rows(&[1000_i64 - 256, 40])?;
    keys.rotate(&mut TensorMut::new(&mut exact, shape)?, &moved)?;
    let distance = |a: &[f32], b: &[f32]| -> f32 {
        let squares =
            |pairs: &mut dyn Iterator<Item = f32>| pairs.map(|x| x * x).sum::<f32>().sqrt();
        squares(&mut a.iter().zip(b).map(|(a, b)| a - b)) / squares(&mut b.iter().copied())
    };
    let token = KV_HEADS * HEAD_DIM;
    let (once, still) = (
        distance(&shifted[..token], &exact[..token]),
        distance(&shifted[token..], &exact[token..]),
    );
    assert!(still < 0.035, "E4M3 has three bits behind the point");
    assert!(once < 0.05, "and a shift rounds once more");
    assert_eq!(
        key_memory[6 * PAGE * token + 8 * token..][..token],
        memory[6 * PAGE * token + 8 * token..][..token]
    );
    println!(
        "shifted by -256 where they lie: {once:.3} of the keys' length off, {still:.3} without a shift"
    );
    Ok(())
}
