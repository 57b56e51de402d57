//! candle-nn, with the rotary embedding of rope-candle on the CPU.
//!
//! A program that has
//!
//! ```toml
//! [dependencies]
//! candle-nn = { path = "../rope/rope-core/adapters/candle/patch", version = "=0.11.99" }
//!
//! [patch.crates-io]
//! candle-nn = { path = "../rope/rope-core/adapters/candle/patch", version = "=0.11.99" }
//! ```
//!
//! and whatever it depends on, candle-transformers first of all, then calls these three functions. Everything else is
//! candle-nn's own.

pub use real::*;

/// candle's rotary embedding, with the three functions that rope-candle has.
pub mod rotary_emb {
    use candle_core::{Result, Tensor};

    pub use real::rotary_emb::*;

    macro_rules! replaced {
        ($($name:ident)*) => {$(
            #[doc = concat!("[`rope_candle::", stringify!($name), "`] on the CPU; on other devices candle's own.")]
            ///
            /// # Errors
            ///
            /// Theirs.
            pub fn $name(xs: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<Tensor> {
                if xs.device().is_cpu() {
                    rope_candle::$name(xs, cos, sin)
                } else {
                    real::rotary_emb::$name(xs, cos, sin)
                }
            }
        )*};
    }
    replaced! { rope rope_i rope_thd }
}
