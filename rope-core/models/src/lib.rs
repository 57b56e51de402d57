//! Which rotary position embedding a model has: the files that describe a model, read into what
//! [`rope_core`] rotates with.
//!
//! A `config.json` ([`Config`]) leaves most of it to the code of the model's class, which a table has by model type. A
//! GGUF file ([`Gguf`]) leaves the pairing, the axes and what layers differ by to llama.cpp, which another table has by
//! architecture. Both end in what rope-core knows: [`Frequencies`](rope_core::Frequencies) and a
//! [`Pairing`](rope_core::Pairing), for each layer.
//!
//! ```
//! use rope_core::TensorMut;
//! use rope_models::Config;
//!
//! // once per model
//! let model = Config::from_json(r#"{
//!     "model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "num_hidden_layers": 2,
//!     "rope_theta": 500000.0
//! }"#)?.model()?;
//! let layers = model.layers()?;
//! // once per forward step and rotation; a Llama has one for all layers
//! let rows = layers.rotations()[0].frequencies().rows(1000..1005)?;
//! // per layer
//! let mut q = vec![1.0_f32; 5 * 32 * 128];
//! for rotation in layers.iter().filter_map(|layer| layer.rotation) {
//!     rotation.rotate(&mut TensorMut::new(&mut q, [1, 5, 32, 128])?, &rows)?;
//! }
//! # Ok::<(), rope_models::Error>(())
//! ```
//!
//! What the model's own code answers, this answers with the same values. What cannot be answered rightly is refused,
//! with the key and the reason: a wrong rotation still produces text. A key about the rotation that the code ignores is
//! refused too, unless it changes nothing: [`Config::lenient`] answers as the code does, and [`Model::ignored`] lists
//! such keys.
//!
//! [`explain`](explain()) needs no file: from heads before and after their rotation it finds what a program does.
//! [`initial_mixed`] and [`initial_axial`] are what the learned frequencies of vision transformers start from, and
//! [`GridIndexing`] has the positions of their patches.
//!
//! The [guide] has a page per task, and [the model types](guide::models).
//!
//! The crate is `no_std` and needs an allocator. The default feature `config` is [`Config::from_json`], whose parser of
//! JSON needs `std`.
#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![deny(clippy::missing_errors_doc)]

extern crate alloc;
#[cfg(test)]
extern crate std;

// A configuration goes through these files: `config.rs` finds the part that is meant and the row of its type
// (`types.rs`), `parameters.rs` makes out the rope parameters as transformers does, `reading.rs` puts the two together,
// `axes.rs` arranges the frequencies over the axes, `layers.rs` says which layers there are, `norms.rs` how their
// queries and keys are normed, `ignored.rs` collects what the code ignores, and `model.rs` holds the answers. `json.rs`
// has the values.
mod architecture;
mod architectures;
mod axes;
mod config;
mod error;
mod explain;
mod gguf;
mod grid;
pub mod guide;
mod ignored;
mod initial;
mod json;
mod layers;
mod model;
mod nearest;
mod norms;
mod parameters;
mod reading;
mod types;
mod words;

/// The package's README, compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub use config::Config;
pub use error::Error;
pub use explain::{Convention, Explanation, explain};
pub use gguf::{Gguf, GgufValue};
pub use grid::GridIndexing;
pub use ignored::Ignored;
pub use initial::{initial_axial, initial_mixed};
pub use layers::{Layer, Layers, Rotation};
pub use model::Model;
pub use norms::{ModelNorm, NormWeights};

/// Threads may share all of it. Auto traits are not in `public-api.txt`, so a lost one would go unnoticed.
const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<(
        Config,
        Model,
        Layers,
        Layer<'_>,
        Rotation,
        ModelNorm,
        Ignored,
        Error,
    )>();
    shared::<(Gguf<'_>, Convention, Explanation, GridIndexing)>();
};
