//! What is known about models: how the files that describe one say what its rotary embedding does.
//!
//! A `config.json` leaves most of it to the code of the model's class, which `types.txt` tabulates. The keys of a GGUF
//! file leave the pairing, the axes and what layers differ by to llama.cpp, which `architectures.txt` tabulates. Both
//! end in what the rest of the crate knows: [`Frequencies`](crate::Frequencies) and a [`Pairing`](crate::Pairing).
//! Nothing outside of this room depends on the name of a model.
//!
//! A configuration goes through six files: `config.rs` finds the part that is meant and its line in the table,
//! `parameters.rs` makes out the rope parameters as transformers does, `reading.rs` puts the two together, `axes.rs`
//! arranges the frequencies over the axes, `layers.rs` says which layers there are, and `norms.rs` how their queries
//! and keys are normed. `json.rs` has the values.

mod architecture;
#[cfg(feature = "serde")]
mod axes;
#[cfg(feature = "serde")]
mod config;
mod gguf;
#[cfg(feature = "serde")]
mod json;
#[cfg(feature = "serde")]
mod layers;
mod nearest;
#[cfg(feature = "serde")]
mod norms;
#[cfg(feature = "serde")]
mod parameters;
#[cfg(feature = "serde")]
mod reading;
#[cfg(feature = "serde")]
mod types;

#[cfg(feature = "serde")]
pub use config::Config;
pub use gguf::{Gguf, GgufLayer, GgufLayers, GgufValue};
#[cfg(feature = "serde")]
pub use layers::{Layer, Layers, Rotation};
#[cfg(feature = "serde")]
pub use norms::{ModelNorm, NormWeights};
