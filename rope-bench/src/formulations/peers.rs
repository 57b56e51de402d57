//! RoPE as other libraries ship it. Each is one file below, one line in [`all`], and one feature that builds it in.
//!
//! They rotate the same tensors at the same positions in the same process, through the interface that their users have,
//! in the layouts that it takes. Tables are made as their users make them, in `prepare`. What can only work in memory
//! of its own is given a copy of the tensors before the clock starts.

#[cfg(feature = "peer-burn")]
pub mod burn;
#[cfg(feature = "peer-candle")]
pub mod candle;
#[cfg(feature = "peer-ggml")]
#[allow(unsafe_code, reason = "calls C")]
pub mod ggml;
#[cfg(feature = "peer-ort")]
pub mod ort;

use super::Formulation;

/// The peers that were built in.
pub fn all() -> Vec<Box<dyn Formulation>> {
    type All = fn() -> Vec<Box<dyn Formulation>>;
    let peers: &[All] = &[
        #[cfg(feature = "peer-candle")]
        candle::all,
        #[cfg(feature = "peer-ggml")]
        ggml::all,
        #[cfg(feature = "peer-ort")]
        ort::all,
        #[cfg(feature = "peer-burn")]
        burn::all,
    ];
    peers.iter().flat_map(|all| all()).collect()
}
