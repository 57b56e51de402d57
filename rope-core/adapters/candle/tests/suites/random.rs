//! Random tensors from a seed, and their bits.

use std::sync::LazyLock;

use candle_core::{DType, Device, Result, Shape, Tensor};

/// `ROPE_SEED`, or one of the clock, printed.
static SEED: LazyLock<u64> = LazyLock::new(|| {
    let seed = match std::env::var("ROPE_SEED") {
        Ok(seed) => seed.parse().expect("ROPE_SEED is a number"),
        Err(_) => std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .expect("later than 1970")
            .subsec_nanos()
            .into(),
    };
    println!("ROPE_SEED={seed}");
    seed
});

/// SplitMix64.
pub(crate) struct Random(u64);

impl Random {
    /// Creates the sequence of a test.
    pub(crate) fn new(test: &str) -> Self {
        Random(
            test.bytes()
                .fold(*SEED, |seed, byte| seed.wrapping_mul(31) ^ u64::from(byte)),
        )
    }

    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.bits() % limit as u64) as usize
    }

    pub(crate) fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// Returns a number that is uniform in (-1, 1) times a power of two between 2^-8 and 2^8, so that sums round.
    pub(crate) fn number(&mut self) -> f32 {
        let uniform = (self.bits() >> 40) as f32 / (1_u64 << 23) as f32 - 1.0;
        uniform * 2.0_f32.powi(self.below(17) as i32 - 8)
    }

    pub(crate) fn tensor(&mut self, shape: impl Into<Shape>, dtype: DType) -> Result<Tensor> {
        let shape = shape.into();
        let values: Vec<f32> = (0..shape.elem_count()).map(|_| self.number()).collect();
        Tensor::from_vec(values, shape, &Device::Cpu)?.to_dtype(dtype)
    }

    /// Returns cos and sin of random angles.
    pub(crate) fn tables(
        &mut self,
        shape: impl Into<Shape>,
        dtype: DType,
    ) -> Result<(Tensor, Tensor)> {
        let angles = (self.tensor(shape, DType::F32)? * 3.0)?;
        Ok((
            angles.cos()?.to_dtype(dtype)?,
            angles.sin()?.to_dtype(dtype)?,
        ))
    }
}

/// Returns the elements in their order, as bits. f32 and 16 bits widen to f64 exactly; the sign of a zero stays.
pub(crate) fn bits(tensor: &Tensor) -> Result<Vec<u64>> {
    let values: Vec<f64> = tensor.flatten_all()?.to_dtype(DType::F64)?.to_vec1()?;
    Ok(values.into_iter().map(f64::to_bits).collect())
}

pub(crate) fn doubles(tensor: &Tensor) -> Result<Vec<f64>> {
    tensor.flatten_all()?.to_dtype(DType::F64)?.to_vec1()
}
