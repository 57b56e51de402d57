//! Weights from a seed.

use candle_core::{DType, Device, Result, Shape, Tensor};
use candle_nn::Init;
use candle_nn::var_builder::SimpleBackend;

/// A weight for every name: uniform, with a variance of two over the inputs, rounded to bf16, so that the models of all
/// types have the same. A norm's are between 0.75 and 1.25.
#[derive(Clone, Copy, Debug)]
pub struct Seeded {
    /// Different weights for each.
    pub seed: u64,
    /// Whether the model adds one to the weights of its norms.
    pub norms_from_zero: bool,
}

impl SimpleBackend for Seeded {
    fn get(
        &self,
        shape: Shape,
        name: &str,
        _: Init,
        dtype: DType,
        device: &Device,
    ) -> Result<Tensor> {
        let mut state = name.bytes().fold(self.seed, |state, byte| {
            (state ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        let (middle, width) = match *shape.dims() {
            [_, inputs] => (0.0, (6.0 / inputs as f32).sqrt()),
            _ if name.ends_with("bias") => (0.0, 0.5),
            _ if self.norms_from_zero => (0.0, 0.25),
            _ => (1.0, 0.25),
        };
        let mut uniform = || {
            // SplitMix64.
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((z ^ (z >> 31)) >> 40) as f32 / (1_u64 << 23) as f32 - 1.0
        };
        let values: Vec<f32> = (0..shape.elem_count())
            .map(|_| middle + width * uniform())
            .collect();
        Tensor::from_vec(values, shape, device)?
            .to_dtype(DType::BF16)?
            .to_dtype(dtype)
    }

    fn get_unchecked(&self, name: &str, _: DType, _: &Device) -> Result<Tensor> {
        candle_core::bail!("{name} has no shape")
    }

    fn contains_tensor(&self, _: &str) -> bool {
        true
    }
}
