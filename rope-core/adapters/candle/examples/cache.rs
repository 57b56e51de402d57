//! A layer with the norms of Qwen3 and a paged KV cache: a prompt of five tokens, and one token after it.
//!
//! One call norms, rotates and writes, so that rotated K exists in the cache alone. The pages of the sequence have any
//! order.
//!
//! `cargo run --example cache`

use candle_core::{DType, Device, Result, Tensor};
use rope_candle::rope_core::cache::Slots;
use rope_candle::rope_core::norm::{Norm, NormFormula};
use rope_candle::{CacheFormat, Rotary};

const CONFIG: &str = r#"{
    "model_type": "qwen3", "hidden_size": 1024, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
    "num_hidden_layers": 28, "max_position_embeddings": 40960, "rope_theta": 1000000.0
}"#;
const KV_HEADS: usize = 8;
const HEAD_DIM: usize = 128;
const BLOCK_SIZE: usize = 4;

/// The output of a projection, [batch, heads, tokens, head_dim].
fn projected(tokens: usize) -> Result<Tensor> {
    let x = Tensor::randn(0_f32, 1.0, (1, tokens, KV_HEADS, HEAD_DIM), &Device::Cpu)?;
    x.to_dtype(DType::BF16)?.transpose(1, 2)
}

fn values(x: &Tensor) -> Result<Vec<f32>> {
    x.to_dtype(DType::F32)?.flatten_all()?.to_vec1()
}

fn main() -> Result<()> {
    let rotary = Rotary::from_config(CONFIG)?;
    // once per layer: `k_norm.weight`; Q has a Rotary of `q_norm.weight`
    let weight = Tensor::randn(1_f32, 0.1, HEAD_DIM, &Device::Cpu)?.to_dtype(DType::BF16)?;
    let of_k = rotary
        .clone()
        .with_norm(Norm::new(NormFormula::LLAMA, 1e-6), Some(&weight))?;
    let pages = (8, KV_HEADS, BLOCK_SIZE, HEAD_DIM);
    let key_cache = Tensor::zeros(pages, DType::BF16, &Device::Cpu)?;
    let value_cache = Tensor::zeros(pages, DType::BF16, &Device::Cpu)?;
    // the pages of the sequence: position 0 is in the first slot of page 6, position 4 in that of page 1
    let table = [6_i64, 1];

    let (k, v) = (projected(6)?, projected(6)?);
    for (first, tokens) in [(0, 5), (5, 1)] {
        let positions = first..first + tokens;
        let rows = rotary.rows(positions.clone())?;
        let slots = Slots::table(&table, [1, table.len()], positions);
        of_k.rotate_into_caches(
            (&k.narrow(2, first, tokens)?, &key_cache),
            (&v.narrow(2, first, tokens)?, &value_cache),
            CacheFormat::Elements,
            slots,
            &rows,
        )?;
    }

    // The cache holds all six tokens, normed and rotated.
    let slots = Slots::table(&table, [1, table.len()], 0..6);
    let caches = (&key_cache, &value_cache);
    let (found_k, found_v) =
        rotary.read_caches(caches, CacheFormat::Elements, [1, 6], slots, DType::BF16)?;
    let rotated = of_k.rotate(&k, &rotary.rows(0..6)?)?;
    assert_eq!(values(&found_k)?, values(&rotated)?);
    assert_eq!(values(&found_v)?, values(&v)?);
    println!("6 tokens of {KV_HEADS} heads lie in pages {table:?}");
    Ok(())
}
