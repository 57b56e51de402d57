//! [`rope_core`] for [burn](https://burn.dev): rotary position embedding (RoPE) as an operation on tensors, with
//! gradients, and as a module that replaces burn-nn's `RotaryEncoding`.
//!
//! ```
//! use burn::tensor::{Device, Distribution, Tensor};
//! use rope_burn::RotaryEncodingConfig;                     // was: use burn::nn::RotaryEncodingConfig;
//!
//! let device = Device::flex();
//! let encoding = RotaryEncodingConfig::new(512, 64).init(&device);
//! let q = Tensor::<4>::random([1, 8, 16, 64], Distribution::Default, &device);
//! let q = encoding.forward(q);
//! # let _ = q;
//! ```
//!
//! - [`RotaryEncoding`]: the module. Its angles are exact at any position; those of burn-nn, in `f32`, are wrong by
//!   some 4e-3 at position 100,000.
//! - [`RotaryRows`] and [`rotate`]: the same in two calls, for layers that share the rows, and for cos and sin that are
//!   computed or learned.
//! - `norm_rotate`, `rotate_into_caches` and `read_caches`, on Flex: a norm in the pass of the rotation, and keys and
//!   values into the slots of a KV cache and out of them, quantized or not.
//!
//! # Errors
//!
//! Everything is checked before anything is touched. Functions beyond burn-nn return a `Result` with an [`Error`] that
//! names the value and its limit. `init`, `forward`, `apply` and `shift` have burn-nn's signatures, so they panic, as
//! burn's tensor code does, with the message of that error; [`RotaryEncodingConfig::try_init`] and
//! [`RotaryEncoding::try_apply`] do not.
//!
//! # Backends
//!
//! On Flex rope-core's kernels run: `f32`, `f16` and `bf16`, any strides, in place if the tensor is the only handle of
//! its memory. On every other backend, and for `f64`, burn's tensor operations compute the same numbers, if the backend
//! rounds each of them. Both have gradients.
//!
//! # Features
//!
//! - `flex`, a default: the kernels on Flex. Without it no backend is named, and burn's tensor operations rotate.
//! - `models`: `rope_models::Config` reads a model's `config.json`, for `RotaryEncoding::from_rotation`.
//! - `rayon`: tensors of some megabytes rotate on rayon's threads. The bits are the same.
#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(unsafe_code)]
#![deny(clippy::missing_errors_doc)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod config;
mod encoding;
mod error;
#[cfg(feature = "flex")]
mod flex;
mod operation;
mod rows;
mod tensor_operations;

/// The crate of the pairings, scalings, frequencies and positions, in the version that this crate uses.
pub use rope_core;
/// The crate that reads models' files.
#[cfg(feature = "models")]
pub use rope_models;

pub use config::RotaryEncodingConfig;
pub use encoding::RotaryEncoding;
pub use error::Error;
#[cfg(feature = "flex")]
pub use flex::cache::{CacheFormat, ChannelFormat, GroupFormat, read_caches, rotate_into_caches};
#[cfg(feature = "flex")]
pub use flex::norm::norm_rotate;
pub use operation::rotate;
pub use rows::RotaryRows;

/// The package's README, compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
