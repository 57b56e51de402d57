//! What is known about models: how the files that describe one say what its rotary embedding does.
//!
//! A `config.json` leaves most of it to the code of the model's class, which `types.rs` tabulates. The keys of a GGUF
//! file leave the pairing, the axes and what layers differ by to llama.cpp, which `architectures.txt` tabulates. Both
//! end in what the rest of the crate knows: [`Frequencies`](crate::Frequencies) and a [`Pairing`](crate::Pairing).
//! Nothing outside of this room depends on the name of a model.

mod architecture;
#[cfg(feature = "serde")]
mod config;
mod gguf;
#[cfg(feature = "serde")]
mod types;

#[cfg(feature = "serde")]
pub use config::Config;
pub use gguf::{Gguf, GgufLayer, GgufLayers, GgufValue};
