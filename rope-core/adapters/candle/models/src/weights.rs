//! Weights that formulas make of their names.

use candle_core::{DType, Device, Result, Shape, Tensor};
use candle_nn::Init;
use candle_nn::var_builder::SimpleBackend;

/// The weights of a model: uniform numbers of SplitMix64, seeded with the FNV-1a hash of the tensor's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weights {
    /// Matrices of a variance of two over their inputs; norms between 0.75 and 1.25. Rounded to bf16, so that the
    /// models of all types have the same.
    Even,
    /// The same for a model that adds one to the weights of its norms.
    EvenNormsFromZero,
    /// The weights of `tests/golden/logits.py`, with which transformers' logits were computed.
    Golden,
}

impl Weights {
    /// The middle and half the width of what a tensor's elements are drawn from.
    fn spread(self, name: &str, shape: &Shape) -> (f32, f32) {
        match (self, shape.dims()) {
            (Weights::Golden, [_, _]) if name.contains("embed") => (0.0, 1.0),
            (Weights::Golden, [_, 64]) => (0.0, 0.25),
            (Weights::Golden, [_, _]) => (0.0, 0.125),
            (Weights::Golden, _) => (1.0, 0.125),
            (_, &[_, inputs]) => (0.0, (6.0 / inputs as f32).sqrt()),
            _ if name.ends_with("bias") => (0.0, 0.5),
            (Weights::EvenNormsFromZero, _) => (0.0, 0.25),
            _ => (1.0, 0.25),
        }
    }
}

impl SimpleBackend for Weights {
    fn get(
        &self,
        shape: Shape,
        name: &str,
        _: Init,
        dtype: DType,
        device: &Device,
    ) -> Result<Tensor> {
        let mut state = name
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325, |state: u64, byte| {
                (state ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
            });
        let (middle, width) = self.spread(name, &shape);
        // 24 bits, from -1 to 1.
        let mut uniform = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((z ^ (z >> 31)) >> 40) as f32 / (1_u64 << 23) as f32 - 1.0
        };
        let values: Vec<f32> = (0..shape.elem_count())
            .map(|_| middle + width * uniform())
            .collect();
        let weight = Tensor::from_vec(values, shape, device)?;
        match self {
            Weights::Golden => weight.to_dtype(dtype),
            _ => weight.to_dtype(DType::BF16)?.to_dtype(dtype),
        }
    }

    fn get_unchecked(&self, name: &str, _: DType, _: &Device) -> Result<Tensor> {
        candle_core::bail!("{name} has no shape")
    }

    fn contains_tensor(&self, _: &str) -> bool {
        true
    }
}
