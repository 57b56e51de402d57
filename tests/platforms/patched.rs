//! A program with a patched candle-nn, in which a dependency calls rope-candle.

use candle_core::{Device, Result, Tensor, Var};

fn main() -> Result<()> {
    let x = Var::randn(0_f32, 1.0, (1, 2, 5, 16), &Device::Cpu)?;
    let table = Tensor::randn(0_f32, 1.0, (5, 8), &Device::Cpu)?;
    let gradients = dependent::rotate(&x, &table, &table)?.sum_all()?.backward()?;
    // candle's own op does not propagate gradients.
    assert!(gradients.get(&x).is_some());

    // All three functions, with candle-nn's paths and types; candle's own functions take no strides.
    let x = Tensor::randn(0_f32, 1.0, (1, 5, 5, 16), &Device::Cpu)?.transpose(1, 2)?;
    for (rope, ours) in [
        (candle_nn::rotary_emb::rope as fn(&_, &_, &_) -> Result<Tensor>, rope_candle::rope as fn(&_, &_, &_) -> _),
        (candle_nn::rotary_emb::rope_i, rope_candle::rope_i),
        (candle_nn::rotary_emb::rope_thd, rope_candle::rope_thd),
    ] {
        let (rotated, ours): (Tensor, Tensor) = (rope(&x, &table, &table)?, ours(&x, &table, &table)?);
        assert_eq!(rotated.flatten_all()?.to_vec1::<f32>()?, ours.flatten_all()?.to_vec1::<f32>()?);
    }
    // The rest of candle-nn.
    candle_nn::ops::softmax_last_dim(&x.contiguous()?)?;
    candle_nn::rotary_emb::rope_slow(&x.contiguous()?, &table, &table)?;
    println!("test result: ok. 1 passed: a patched candle-nn");
    Ok(())
}
