//! The rotary position embedding of a model: reads the files that describe a model into the types of [`rope_core`].
//!
//! A `config.json` ([`Config`]) leaves most of the rotation to the code of the model's class; a table has it by model
//! type. A GGUF file ([`Gguf`]) leaves the pairing, the axes and the differences of layers to llama.cpp; another table
//! has them by architecture. Both result in [`Frequencies`](rope_core::Frequencies) and a
//! [`Pairing`](rope_core::Pairing) of rope-core, per layer.
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
//!     rotation.rope().rotate(&mut TensorMut::new(&mut q, [1, 5, 32, 128])?, &rows)?;
//! }
//! # Ok::<(), rope_models::Error>(())
//! ```
//!
//! If the model's own code computes a rotation, this crate returns the same values. It refuses everything else, with
//! the key and the reason, because a wrong rotation still produces text. A key about the rotation that the code ignores
//! is refused too, unless it changes nothing: [`Config::lenient`] follows the code, and [`Model::ignored`] lists such
//! keys.
//!
//! [`explain`](explain()) needs no file: it finds the convention of a program from heads before and after their
//! rotation. [`initial_mixed`] and [`initial_axial`] are the initial values of the learned frequencies of vision
//! transformers, and [`GridIndexing`] computes the positions of their patches.
//!
//! The [guide] has a page per task, and [the model types](guide::models).
//!
//! The crate is `no_std` and needs an allocator. The default feature `config` adds [`Config::from_json`], whose JSON
//! parser needs `std`.
#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![deny(clippy::missing_errors_doc)]

extern crate alloc;
#[cfg(test)]
extern crate std;

// Layers, from above. Each imports from those below it alone, as the suite `imports` tests.
//
// crate      config gguf explain grid initial   what users name
// reading    reading                            a configuration and the row of its type to a model
// model      model                              the results: rotations, norms, layers, ignored keys
// tables     types architecture architectures   the behavior of model types and of GGUF architectures
// base       base                               errors, JSON, lists of words
mod architecture;
mod architectures;
mod base;
mod config;
mod explain;
mod gguf;
mod grid;
pub mod guide;
mod initial;
mod model;
mod reading;
mod types;

/// The package's README, compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub use base::error::Error;
pub use config::Config;
pub use explain::{Convention, Explanation, explain};
pub use gguf::{Gguf, GgufValue};
pub use grid::GridIndexing;
pub use initial::{initial_axial, initial_mixed};
pub use model::{Ignored, Layer, Layers, Model, ModelNorm, NormWeights, Rotation};

/// Asserts that threads may share every public type. `public-api.txt` has no auto traits, and would miss a lost one.
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
