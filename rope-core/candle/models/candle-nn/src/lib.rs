//! candle-nn whose rotary embedding can be switched while a program runs.
pub use real::*;
/// Rotary.
pub mod rotary_emb {
    pub use real::rotary_emb::*;
    pub use rope_candle::{rope, rope_i, rope_thd};
}
