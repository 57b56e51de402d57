//! candle-nn whose `rope` can be exchanged while a program runs, and whose RMS norm also takes f64.
//!
//! candle-transformers is built against this one, so that a model runs under several rotations in one process.

use std::ops::Deref;

use candle_core::{DType, Result, Tensor};

pub use real::*;

/// candle's rotary embedding, with a `rope` that [`within`](rotary_emb::within) exchanges.
pub mod rotary_emb {
    use std::cell::Cell;

    use candle_core::{Result, Tensor};

    pub use real::rotary_emb::*;

    /// The type of `rope`, of x, cos and sin.
    pub type Rope = fn(&Tensor, &Tensor, &Tensor) -> Result<Tensor>;

    thread_local! {
        static ROPE: Cell<Rope> = const { Cell::new(real::rotary_emb::rope) };
    }

    /// Runs something with this function as `rope`, on this thread.
    pub fn within<T>(rope: Rope, run: impl FnOnce() -> T) -> T {
        let before = ROPE.replace(rope);
        let result = run();
        ROPE.set(before);
        result
    }

    pub use real::rotary_emb::rope as rope_of_candle;

    /// The one in use.
    pub fn rope(xs: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<Tensor> {
        ROPE.get()(xs, cos, sin)
    }
}

/// candle's RMS norm. Its kernel has no f64; its tensor operations have.
#[derive(Clone, Debug)]
pub struct RmsNorm(real::RmsNorm);

impl RmsNorm {
    /// candle's.
    pub fn new(weight: Tensor, eps: f64) -> Self {
        RmsNorm(real::RmsNorm::new(weight, eps))
    }

    /// candle's.
    pub fn into_inner(self) -> LayerNorm {
        self.0.into_inner()
    }
}

impl Deref for RmsNorm {
    type Target = real::RmsNorm;

    fn deref(&self) -> &real::RmsNorm {
        &self.0
    }
}

impl Module for RmsNorm {
    fn forward(&self, xs: &Tensor) -> Result<Tensor> {
        match xs.dtype() {
            DType::F64 => self.0.forward_diff(xs),
            _ => self.0.forward(xs),
        }
    }
}

/// candle's.
pub fn rms_norm(size: usize, eps: f64, vb: VarBuilder<'_>) -> Result<RmsNorm> {
    real::rms_norm(size, eps, vb).map(RmsNorm)
}
