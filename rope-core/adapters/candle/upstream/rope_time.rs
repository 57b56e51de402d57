//! Microseconds of candle-nn's `rope`, the shortest of many: built with the feature `rope-core`, and without.

use std::hint::black_box;
use std::time::Instant;

use candle::{DType, Device, Result, Tensor};

fn main() -> Result<()> {
    let with = if cfg!(feature = "rope-core") { "rope-core" } else { "candle" };
    for dtype in [DType::F32, DType::BF16] {
        for tokens in [1, 512] {
            let x = Tensor::randn(0_f32, 1.0, (1, 32, tokens, 128), &Device::Cpu)?.to_dtype(dtype)?;
            let table = Tensor::randn(0_f32, 1.0, (tokens, 64), &Device::Cpu)?.to_dtype(dtype)?;
            let mut least = f64::INFINITY;
            for _ in 0..if tokens == 1 { 20_000 } else { 100 } {
                let start = Instant::now();
                black_box(candle_nn::rotary_emb::rope(&x, &table, &table)?);
                least = least.min(start.elapsed().as_secs_f64() * 1e6);
            }
            println!("{with}: {dtype:?}, {tokens} tokens x 32 heads x 128: {least:.1} us");
        }
    }
    Ok(())
}
