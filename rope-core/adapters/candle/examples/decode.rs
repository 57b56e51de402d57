//! Decodes after 100,000 tokens: the rows of a forward step, which all layers share, from the model's `config.json`.
//!
//! q and k are windows of one packed projection in bf16, rotated where they lie.
//!
//! `cargo run --example decode`

use candle_core::{DType, Device, Result, Tensor};
use rope_candle::{Order, Rotary};

const CONFIG: &str = r#"{
    "model_type": "qwen2", "hidden_size": 896, "num_attention_heads": 14, "num_key_value_heads": 2,
    "num_hidden_layers": 24, "max_position_embeddings": 131072, "rope_theta": 1000000.0
}"#;
const HEADS: usize = 14;
const KV_HEADS: usize = 2;
const HEAD_DIM: usize = 64;

/// The output of a layer's projection: [batch, tokens, heads of q, of k and of v, head_dim].
fn projected() -> Result<Tensor> {
    let shape = (1, 1, HEADS + 2 * KV_HEADS, HEAD_DIM);
    Tensor::randn(0_f32, 1.0, shape, &Device::Cpu)?.to_dtype(DType::BF16)
}

/// The product of the first heads.
fn score(q: &Tensor, k: &Tensor) -> Result<f32> {
    let head = |x: &Tensor| x.narrow(2, 0, 1)?.flatten_all()?.to_dtype(DType::F32);
    (head(q)? * head(k)?)?.sum_all()?.to_scalar()
}

fn main() -> Result<()> {
    let rotary = Rotary::from_config(CONFIG)?.order(Order::TokensMajor);
    for position in [0, 100_000] {
        let now = rotary.rows(position..position + 1)?;
        let elsewhere = rotary.rows(7..8)?;
        for layer in 0..3 {
            let qkv = projected()?;
            let q = qkv.narrow(2, 0, HEADS)?;
            let k = qkv.narrow(2, HEADS, KV_HEADS)?;
            let (other_q, other_k) = rotary.rotate_qk(&q, &k, &elsewhere)?;
            rotary.rotate_qk_in_place(&q, &k, &now)?;

            // The product of a query and a key of one token is the same at any position, up to four roundings to bf16,
            // each at most 2^-9.
            let (here, there) = (score(&q, &k)?, score(&other_q, &other_k)?);
            println!("layer {layer}: q k = {here:.2} at {position}, {there:.2} at 7");
            let lengths = (score(&q, &q)? * score(&k, &k)?).sqrt();
            assert!((here - there).abs() <= 4.0 / 512.0 * lengths);
        }
    }
    Ok(())
}
