//! A model's attention before and after the change of one `use` line.
//!
//! The two modules below differ in that line alone. In f32 their results are equal bit for bit. The rest shows inputs
//! that candle's function refuses: q as the projection returns it, f32 tables for bf16, and a gradient.
//!
//! `cargo run --example swap`

use candle_core::{DType, Device, Result, Tensor, Var};

mod before {
    use candle_core::{Result, Tensor};
    use candle_nn::rotary_emb::rope;

    pub(crate) fn scores(q: &Tensor, k: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<Tensor> {
        let q = rope(&q.transpose(1, 2)?.contiguous()?, cos, sin)?;
        let k = rope(&k.transpose(1, 2)?.contiguous()?, cos, sin)?;
        q.matmul(&k.t()?)
    }
}

mod after {
    use candle_core::{Result, Tensor};
    use rope_candle::rope;

    pub(crate) fn scores(q: &Tensor, k: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<Tensor> {
        let q = rope(&q.transpose(1, 2)?.contiguous()?, cos, sin)?;
        let k = rope(&k.transpose(1, 2)?.contiguous()?, cos, sin)?;
        q.matmul(&k.t()?)
    }
}

fn bits(tensor: &Tensor) -> Result<Vec<u32>> {
    let values: Vec<f32> = tensor.flatten_all()?.to_vec1()?;
    Ok(values.into_iter().map(f32::to_bits).collect())
}

fn main() -> Result<()> {
    let (tokens, heads, head_dim) = (7, 4, 64);
    let random = || Tensor::randn(0_f32, 1.0, (1, tokens, heads, head_dim), &Device::Cpu);
    let (q, k) = (random()?, random()?);
    let angles = Tensor::rand(-3_f32, 3.0, (tokens, head_dim / 2), &Device::Cpu)?;
    let (cos, sin) = (angles.cos()?, angles.sin()?);

    let before = before::scores(&q, &k, &cos, &sin)?;
    let after = after::scores(&q, &k, &cos, &sin)?;
    assert_eq!(bits(&before)?, bits(&after)?);
    println!("f32: the same bits");

    // candle's own function requires a copy.
    let strided = q.transpose(1, 2)?;
    assert!(candle_nn::rotary_emb::rope(&strided, &cos, &sin).is_err());
    let rotated = rope_candle::rope(&strided, &cos, &sin)?;
    let of_copy = rope_candle::rope(&strided.contiguous()?, &cos, &sin)?;
    assert_eq!(bits(&rotated)?, bits(&of_copy)?);
    println!("strided: no .contiguous()");

    // Rotated in f32, and rounded once.
    let half = strided.to_dtype(DType::BF16)?;
    assert!(candle_nn::rotary_emb::rope(&half.contiguous()?, &cos, &sin).is_err());
    let rotated = rope_candle::rope(&half, &cos, &sin)?;
    let wide = rope_candle::rope(&half.to_dtype(DType::F32)?, &cos, &sin)?;
    let once = wide.to_dtype(DType::BF16)?;
    let f32s = |tensor: &Tensor| tensor.to_dtype(DType::F32);
    assert_eq!(bits(&f32s(&rotated)?)?, bits(&f32s(&once)?)?);
    println!("bf16 with tables in f32: rounded once");

    let q = Var::from_tensor(&strided)?;
    let cut = candle_nn::rotary_emb::rope(&q.contiguous()?, &cos, &sin)?;
    let whole = rope_candle::rope(&q, &cos, &sin)?;
    assert!(cut.sum_all()?.backward()?.get(&q).is_none());
    assert!(whole.sum_all()?.backward()?.get(&q).is_some());
    println!("gradient: it reaches q");
    Ok(())
}
