//! A program whose candle-nn is patched: candle-transformers calls rope-candle.

use candle_core::{DType, Device, Result, Tensor, Var};
use candle_transformers::models::phi3;

fn main() -> Result<()> {
    let config = r#"{"vocab_size": 8, "hidden_act": "silu", "hidden_size": 32, "intermediate_size": 8,
        "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2, "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0, "max_position_embeddings": 64}"#;
    let config: phi3::Config = serde_json::from_str(config).map_err(candle_core::Error::wrap)?;
    let rotary = phi3::RotaryEmbedding::new(DType::F32, &config, &Device::Cpu)?;
    let q = Var::randn(0_f32, 1.0, (1, 2, 5, 16), &Device::Cpu)?;
    let (rotated, _) = rotary.apply_rotary_emb_qkv(&q, &q, 20)?;
    // candle's own cuts the gradient.
    let gradients = rotated.sum_all()?.backward()?;
    assert!(gradients.get(&q).is_some());

    // All three, in candle-nn's place and of its types: candle's own take no strides.
    let x = Tensor::randn(0_f32, 1.0, (1, 5, 5, 16), &Device::Cpu)?.transpose(1, 2)?;
    let table = Tensor::randn(0_f32, 1.0, (5, 8), &Device::Cpu)?;
    for (rope, ours) in [
        (candle_nn::rotary_emb::rope as fn(&_, &_, &_) -> Result<Tensor>, rope_candle::rope as fn(&_, &_, &_) -> _),
        (candle_nn::rotary_emb::rope_i, rope_candle::rope_i),
        (candle_nn::rotary_emb::rope_thd, rope_candle::rope_thd),
    ] {
        let (rotated, ours): (Tensor, Tensor) = (rope(&x, &table, &table)?, ours(&x, &table, &table)?);
        assert_eq!(rotated.flatten_all()?.to_vec1::<f32>()?, ours.flatten_all()?.to_vec1::<f32>()?);
    }
    // And the rest of candle-nn.
    candle_nn::ops::softmax_last_dim(&x.contiguous()?)?;
    candle_nn::rotary_emb::rope_slow(&x.contiguous()?, &table, &table)?;
    println!("test result: ok. 1 passed: a patched candle-nn");
    Ok(())
}
