//! Rotary position embedding (RoPE) for candle: the kernels of [`rope_core`] on candle's tensors.
//!
//! - [`rope`], [`rope_i`] and [`rope_thd`] have the signatures of `candle_nn::rotary_emb`: a model changes one `use`
//!   line. They support any strides, f32 tables for bf16 and f16, and gradients of x, cos and sin.
//! - [`Rotary`] adds to candle's functions: frequencies of a `config.json`, exact angles, positions of each sequence
//!   and on several axes, partial rotation, Q and K in one call, in place; a norm in the same pass, and keys and values
//!   into the slots of a KV cache, quantized or not.
//! - [`learned_tables`] makes cos and sin of trained frequencies.
//!
//! ```
//! use candle_core::{DType, Device, Tensor};
//! use rope_candle::Rotary;
//!
//! // once per model
//! let rotary = Rotary::from_config(r#"{
//!     "model_type": "llama", "hidden_size": 2048, "num_attention_heads": 32, "num_key_value_heads": 8,
//!     "num_hidden_layers": 16, "rope_theta": 500000.0,
//!     "rope_scaling": {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
//!                      "original_max_position_embeddings": 8192}
//! }"#)?;
//! // once per forward step: tokens 100,000..100,005
//! let rows = rotary.rows(100_000..100_005)?;
//! // per layer: [batch, heads, tokens, head_dim], as the projections leave them
//! let q = Tensor::ones((1, 5, 32, 64), DType::BF16, &Device::Cpu)?.transpose(1, 2)?;
//! let k = Tensor::ones((1, 5, 8, 64), DType::BF16, &Device::Cpu)?.transpose(1, 2)?;
//! let (q, k) = rotary.rotate_qk(&q, &k, &rows)?;
//! assert_eq!((q.dims(), k.dims()), (&[1, 32, 5, 64][..], &[1, 8, 5, 64][..]));
//! # Ok::<(), candle_core::Error>(())
//! ```
//!
//! # Guarantees
//!
//! The bits of rope-core. Given the same cos and sin, f32 has the bits of candle's own functions. bf16 and f16 are
//! rotated in f32 and rounded once, where candle rounds every product and every sum. Angles of [`Rotary`] are exact at
//! any position. A refused call returns a `candle_core::Error` with a message of rope-core or of this crate, and has
//! touched nothing.
//!
//! # Devices and types
//!
//! Tensors of the CPU, in f32, bf16 and f16. The three functions also support f64 through candle's tensor operations;
//! it is refused elsewhere. Tensors of another device are refused, and the error names it.
//!
//! # Structure
//!
//! `tensor.rs` views a candle tensor as a rope-core one. `rotation.rs` is a plan that rotates it, into a new tensor or
//! in place, by rows: of tables (`tables.rs`), or of frequencies (`rotary.rs`, `positions.rs`). `functions.rs` is the
//! operation by tables with its gradients (`gradient.rs`), `rotary.rs` the operation by rows. `learned.rs` makes tables
//! with gradients, `double.rs` is f64, `norm.rs` is a norm whose weights are a tensor, and `cache.rs` writes into two
//! tensors that form a cache.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(unsafe_code)]
#![deny(clippy::missing_errors_doc)]

mod cache;
mod double;
mod functions;
mod gradient;
mod learned;
mod norm;
mod positions;
mod rotary;
mod rotation;
mod tables;
mod tensor;

/// The README, compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// The crate of the frequencies, positions and rows, in the version that this crate uses.
pub use rope_core;
/// The crate that reads models' files.
pub use rope_models;

pub use cache::{CacheFormat, ChannelFormat, GroupFormat};
pub use functions::{rope, rope_i, rope_thd};
pub use learned::learned_tables;
pub use rotary::{Rotary, Rows};
pub use tensor::Order;
