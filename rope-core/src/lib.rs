//! Rotary position embedding (RoPE): rotate the pairs of x by the angles of its positions.
//!
//! Attention compares a query at position `m` with a key at position `n`. If each pair of channels `(x, y)` of both is
//! rotated by an angle proportional to its position,
//! ```text
//! x' = x cos(p w) - y sin(p w)        p the position, w the pair's inverse frequency, base^(-2i/d)
//! y' = x sin(p w) + y cos(p w)
//! ```
//!
//! their dot product depends on `m - n` alone, because rotations compose (Su et al., *RoFormer*, arXiv:2104.09864).
//! This crate implements that rotation and nothing else: exactly, with the same bits on any machine. The [guide] has a
//! page per task with a whole program (packed QKV, KV caches, M-RoPE, training, threads, firmware), and a
//! [glossary](guide::words). The rotation of a model is described by its `config.json` or its GGUF file; the crate
//! `rope-models` reads both. This crate reads no file: constructors and constants that one model or engine needs have
//! the name of the code whose values they reproduce.
//!
//! # A tensor, a pairing, rows
//!
//! - A **tensor**: [`Tensor`] or [`TensorMut`], a strided view `[batch, tokens, heads, head_dim]` of a slice of `f32`,
//!   [`half::f16`] or [`half::bf16`], checked once at construction.
//! - A **pairing**: [`Pairing::Half`] or [`Pairing::Interleaved`], the two channels that rotate together.
//! - **Rows**: [`Rows`], the cos and sin of each token. A table is rows, as are the rows of one forward step, of images
//!   with two axes and of models with any scaling. [`Frequencies`] and [`Positions`] make them; slices of a runtime
//!   work as well.
//!
//! The verb is [`Rope::rotate`]. A [`Rope`] is a plan, made once: it holds the pairing, the [`Direction`], and the
//! proof that this CPU has the instruction set of its [`Backend`].
//!
//! ```
//! # #[cfg(feature = "alloc")] {
//! use rope_core::{Frequencies, Pairing, Rope, Scaling, TensorMut};
//!
//! let (batch, tokens, heads, kv_heads, start) = (1, 5, 32, 8, 1000);
//! let mut q = vec![1.0_f32; batch * tokens * heads * 128];
//! let mut k = vec![1.0_f32; batch * tokens * kv_heads * 128];
//!
//! // once per model
//! let frequencies = Frequencies::new(128, 500_000.0, &Scaling::Llama3 {
//!     factor: 8.0, low_freq_factor: 1.0, high_freq_factor: 4.0, original_context: 8192,
//! })?;
//! let rope = Rope::new(Pairing::Half);                      // chooses the backend, once
//! // once per forward step, shared by every layer, by Q and by K
//! let rows = frequencies.rows(start..start + tokens)?;      // or &[position ids], or one id per axis
//! // per layer
//! rope.rotate(&mut TensorMut::new(&mut q, [batch, tokens, heads, 128])?, &rows)?;
//! rope.rotate(&mut TensorMut::new(&mut k, [batch, tokens, kv_heads, 128])?, &rows)?;
//! # }
//! # Ok::<(), rope_core::Error>(())
//! ```
//!
//! Without an allocator, [`Frequencies::new_in`] and [`TokenAngles::rows_in`] use the caller's storage. A call by
//! [`Frequencies::at`] makes the rows itself, on the stack.
//!
//! # Exact
//!
//! **The angle.** The angle of position `p` is `p * step` modulo one turn, with the integer `step` within one unit of
//! `2^128 w / 2 pi`, from integer arithmetic. Range reduction is a wrapping multiplication: exact at position 7, at
//! four billion, and at negative positions. cos and sin are the f32 nearest to the true values. (Those
//! of the common f32 product `p * w` are off by up to 8e-3 at position 131,071 and by 6e-2 at a million.)
//!
//! **The rotation.** Each output is two products and a sum, each rounded by itself, and then rounded to the element
//! once. There is one right f32 answer, and every backend, tail, split and thread count gives it: the same bits on
//! every machine, and those of eager PyTorch from the same cos and sin. Only the payload of a NaN is not specified.
//!
//! # How it is built
//!
//! Kernels are monomorphized once, in this crate, not per combination in the caller's: the sealed [`Element`] leads to
//! concrete functions, and the linker drops those that a program does not name. `ARCHITECTURE.md`, beside this crate's
//! `Cargo.toml` in the repository, follows a call from its verb to its stores.
//!
//! # Features
//!
//! - `alloc` (default): frequencies and rows that own their memory.
//! - `rayon`: `Rope::with_threads`, for calls on threads. Needs std.
//!
//! No feature changes the speed or selects a backend; detection needs no std. In debug builds rotations are as slow as
//! all unoptimized code, unless the profile optimizes this crate: `[profile.dev.package.rope-core] opt-level = 3`.
#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(unsafe_code)]
#![deny(clippy::missing_errors_doc)]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(any(test, feature = "rayon"))]
extern crate std;

// Plans come first: rustdoc lists the methods of a type by module.
mod describe;
mod plan;

pub mod axes;
mod base;
pub mod error;
mod execute;
// Its programs use rows that own their memory.
#[cfg(any(feature = "alloc", not(doctest)))]
pub mod guide;
#[doc(hidden)]
pub mod internals;
mod kernel;
mod pass;
mod proof;
#[allow(
    unsafe_code,
    reason = "enters instruction sets, and calls their intrinsics"
)]
mod simd;
pub mod stages;
mod tuning;

/// The package's README, compiled. The crate of the tests compiles the README of the workspace.
#[cfg(all(doctest, feature = "alloc"))]
#[doc = include_str!("../README.md")]
struct Readme;

/// The crate of the tensor elements `f16` and `bf16`, in the version that this crate uses.
pub use half;

pub use base::backend::Backend;
pub use base::direction::Direction;
pub use base::error::{Error, ErrorKind};
pub use base::names::UnknownName;
pub use base::pairing::Pairing;
pub use base::shape::{Dimension, Shape};
pub use describe::frequencies::{
    Angle, Frequencies, Frequency, LongRope, Scaling, TokenAngles, Yarn,
};
pub use describe::ids::{Coordinates, Id, Ids, Integers, IntoIds, List, Number, Numbers};
pub use describe::positions::{IntoPositions, Positions};
pub use describe::rows::{AnyRows, FullRows, Rows};
pub use describe::tensor::{IntoLayout, Layout, Strides, Tensor, TensorMut};
pub use describe::{cache, dual_chunk, norm, shard};
pub use kernel::element::Element;
pub use kernel::sincos::chunk::FrequencyChunk;
pub use plan::gradient;
pub use plan::{Angles, Call, NoRotation, Output, Rope, Source, Target};

/// Asserts that threads may share every public type. `public-api.txt` has no auto traits, and would miss a lost one.
const _: () = {
    use axes::{Axes, MixedAngle, MixedFrequencies};
    use cache::{Cache, CacheMut, Slots};
    use norm::Norm;
    use stages::{Hadamard, Linear, Normed, Scale};

    const fn shared<T: Send + Sync>() {}
    shared::<(Rope, Rows<'_>, Layout, Ids<'_>, Positions<'_>)>();
    shared::<(Tensor<'_, f32>, TensorMut<'_, f32>, Error)>();
    shared::<(Frequencies<'_>, Frequency, FrequencyChunk, Axes<'_>)>();
    shared::<(MixedFrequencies<'_>, MixedAngle)>();
    shared::<Scaling<'_>>();
    shared::<(
        Rope<Linear<'_>>,
        Rope<Normed<'_>>,
        Norm<'_>,
        Scale<'_>,
        Hadamard,
        Cache<'_>,
        CacheMut<'_>,
        Slots<'_>,
        Call<'_>,
    )>();
};
