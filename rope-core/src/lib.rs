//! Rotary position embedding (RoPE): rotate the pairs of x by the angles of its positions.
//!
//! Attention compares a query at position `m` with a key at position `n`. If each pair of channels `(x, y)` of both is
//! rotated by an angle proportional to its position,
//!
//! ```text
//! x' = x cos(p w) - y sin(p w)        p the position, w the pair's inverse frequency, base^(-2i/d)
//! y' = x sin(p w) + y cos(p w)
//! ```
//!
//! their dot product depends on `m - n` alone, because rotations compose (Su et al., *RoFormer*, arXiv:2104.09864).
//! This crate does that, and nothing else: exactly, at the speed of memory, on any machine. The [guide] has a page per
//! task with a whole program (a model's `config.json`, packed QKV, KV caches, M-RoPE, DeepSeek's MLA, training,
//! threads, firmware), and the [words](guide::words) that are used here.
//!
//! # Three nouns, one verb
//!
//! - A **tensor**: [`Tensor`] or [`TensorMut`], a strided view `[batch, tokens, heads, head_dim]` of a slice of `f32`,
//!   [`half::f16`] or [`half::bf16`], checked once when it is made.
//! - A **pairing**: [`Pairing::Half`] or [`Pairing::Interleaved`], which two channels rotate together.
//! - **Rows**: [`Rows`], the cos and sin of each token. A table is rows, the rows of one step are rows, and so are
//!   those of images with two axes and of models with any scaling. [`Frequencies`] and [`Positions`] make them; slices
//!   that a runtime has already will do as well.
//!
//! The verb is [`Rope::rotate`], of a plan that was made once: [`Rope`] holds the pairing, the [`Direction`], and the
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
//! Without an allocator the same calls take the caller's storage ([`Frequencies::new_in`], [`Frequencies::rows_in`]),
//! and [`Rope::rotate_at`] makes the rows on the stack, a block of tokens at a time.
//!
//! # Exact
//!
//! **The angle.** The angle of position `p` is `p * step` modulo one turn, with the integer `step` within one unit of
//! `2^128 w / 2 pi`, from integer arithmetic. Range reduction is a wrapping multiplication: exact at position 7, at
//! four billion, and at negative ones. cos and sin are the f32 nearest to the true values. (The product `p * w` as f32,
//! which is what is common, is wrong by 8e-3 at position 131,071 and by 6e-2 at a million.)
//!
//! **The rotation.** Each output is two products and a sum, each rounded by itself, and rounded to the element once.
//! There is one right f32 answer, and every backend, tail, split and thread count gives it: bit for bit the same on
//! every machine, and what eager PyTorch gives from the same cos and sin. Only which NaN comes out of a NaN is not
//! promised.
//!
//! # How it is built
//!
//! A rotation is a sum of parts, not a product of all their combinations, and is compiled here, once: the sealed
//! [`Element`] leads to concrete functions of this crate, so the crates that use it compile no kernel, and what they do
//! not name the linker leaves out. `x` walks straight through the files:
//!
//! 1. `rope.rs`, the plan, checks everything, and takes the type off the tensor: from here on it is bytes.
//! 2. `walk.rs` produces lines in the order of memory, and has every threshold of prefetching. A *line* is the heads of
//!    a token, which share a row of cos and sin, or one head of some tokens, each with its own row; heads lie in a
//!    tensor or in the slots of a cache.
//! 3. `kernel/chains.rs` lists what is compiled for a line: a *chain* of stages, from the element that is read to the
//!    element that is written, in one kernel for each instruction set.
//! 4. `kernel/line.rs` is that kernel: the loop over the heads of a line. `kernel/pairs.rs` says where the members of a
//!    pair lie, `element.rs` how bits become f32 lanes and go back, `kernel/rotation.rs` is the arithmetic, with cos
//!    and sin in registers while the heads pass.
//! 5. `kernel/tile.rs` runs the stages of all other chains one after the other, over a tile of f32 that stays in the
//!    first cache, with `kernel/convert.rs` at both ends.
//!
//! A plan of more than a rotation is a `Chain` (`chain.rs`): a norm (`norm.rs`), a scale (`scale.rs`), and a cache
//! (`cache.rs`) at either end, whose `layout` and `slots` say where a head lies. It makes a *pass* (`pass.rs`) of a
//! call, and `implementations.rs` has the table of what runs it: the fastest implementation that admits it. Those of
//! `execute/lines.rs` are rotations and copies line by line; those of `execute/normed.rs` norm and rotate in one kernel
//! (`kernel/normed.rs`); `execute/tiled.rs` quantizes heads of a tile of their own element (`kernel/values.rs`,
//! `kernel/quantise.rs`); and `execute/staged.rs` runs whatever is left, whole heads in a tile of f32, one stage after
//! the other, with the kernels of `kernel/norm.rs` for sums and products. All give the same bits. Programs that use no
//! `Chain` do not link this code.
//!
//! A backward pass (`gradient.rs`) is a rotation by the transpose, and sums of what two tensors have in a pair
//! (`kernel/gradient.rs`). Where the heads of a token share their row and their sums, `kernel/backward.rs` does both to
//! a group while it is in registers; elsewhere one kernel comes after the other, block by block.
//!
//! What is fused is decided by measurement: `rope-bench stages` shows what each chain would cost in stages. In place
//! and from one tensor into another are one text but two kernels, because one that looks for itself where to read is no
//! smaller, and slower (see `kernel/line.rs`).
//!
//! A kernel is generic over `Simd`, the operations of an instruction set as pure functions between arrays and
//! registers; each backend compiles it inside a function that has its CPU features. Memory is touched through slices,
//! so `unsafe` is left to two things: entering a CPU feature, and one macro per instruction set that calls its
//! intrinsics. What fills no group of vectors is left to the next narrower instruction set, by a call of its kernel;
//! `avx512bf16` compiles only what writes bf16, and takes the rest from `avx512`.
//!
//! A position becomes a row on a walk of its own. `positions.rs` finds it in the caller's list: an integer or a
//! coordinate, an `AxisPosition`. `frequencies/generate.rs` chooses the generator. In `kernel/sincos.rs` the position
//! is a double, and so are its cos and sin until they are rounded. What is in doubt goes from the `AxisPosition` once
//! more through `kernel/sincos/oracle.rs`, in code that is compiled once: there a `Remainder` is what is left of the
//! angle without its quarter turns, in 128 bits (`real.rs`, which is also what frequencies are computed in).
//!
//! `explain.rs` goes the other way: from heads before and after to the rotation between them, in plain code.
//!
//! What is known about models (`config.json`, GGUF, the table of model types) is in `model/`, and ends in frequencies
//! and a pairing.
//!
//! Imports go one way: from `model` to `frequencies`, on to `kernel/sincos` (which has the block of frequencies that it
//! reads) and to `positions`; from `chain` to `implementations`, `cache` and `rope`; from both by way of `execute` and
//! `walk` to `kernel`, and on to `element` and `simd`. Three circles stay, because each is one definition in two
//! halves. An error names what it refuses (a pairing, a backend, a shape), and those are refused by an error. A kernel
//! is generic over an instruction set, and an instruction set enters kernels. An element leads to its chains, and the
//! kernel of a chain reads and writes elements.
//!
//! ## To add something
//!
//! This is where a thing begins, in this crate. `CONTRIBUTING.md`, at the top of the repository, lists for each all
//! files that change with it: the C API, the tests, the bench, the words.
//!
//! - *An instruction set*: a file in `simd/`, its module and its token in `simd.rs`, a line in `backend.rs`.
//! - *An element*: the definition of one lane in `simd/convert.rs`, and three `impl`s in `element.rs`; in
//!   `kernel/chains.rs` a line for each pairing and one for the element; its variants in `kernel/values.rs`.
//!   (Instructions of its own: a default of `read` and `write` less.)
//! - *A fused chain*: a line and its entry in `kernel/chains.rs`.
//! - *A pairing*: an `impl` in `kernel/pairs.rs`, its name in `pairing.rs`, and its chains.
//! - *A stage*: a file in `kernel/`, and a call of it in `execute/staged.rs`, or in the loop of `line.rs` where it is
//!   to be fused. *An implementation*: a function in `execute/`, and its line in `implementations.rs`.
//! - *A norm*: a constant of `NormFormula` in `norm.rs`, if its flags can say it.
//! - *A layout of caches*: a constructor in `cache/layout.rs`. *A way to name slots*: a variant in `cache/slots.rs`.
//! - *A code of 8 bits*: its definition of one lane in `simd/convert.rs`, its kernels in `kernel/quantise.rs`, its name
//!   in `cache/code.rs`.
//! - *A scaling*: a variant and a function in `frequencies/scaling.rs`, and its arms in the two matches there. *An
//!   arrangement of axes*: its constructor in `frequencies/axes.rs` and its arms in the four matches there.
//! - *A model type*: a line in `model/types.rs`; for GGUF one in `model/architectures.txt`.
//! - *An error*: an entry in `error.rs`, and the word in the `# Errors` of each function that returns it.
//!
//! # Features
//!
//! - `alloc` (default): frequencies and rows that own their memory.
//! - `serde`: `Config`, which reads a model's `config.json`.
//! - `rayon`: `Rope::rotate_parallel`. Needs std.
//!
//! No feature changes a speed or selects a backend; detection needs no std. In debug builds rotations are as slow as
//! all unoptimised code, unless the profile optimises this crate: `[profile.dev.package.rope-core] opt-level = 3`.
#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(unsafe_code)]
#![deny(clippy::missing_errors_doc)]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(any(test, feature = "rayon"))]
extern crate std;

mod backend;
mod cache;
mod chain;
mod element;
mod error;
mod execute;
mod explain;
mod frequencies;
pub mod gradient;
pub mod guide;
mod implementations;
mod kernel;
mod model;
mod norm;
mod pairing;
#[cfg(feature = "rayon")]
mod parallel;
mod pass;
mod positions;
mod real;
mod rope;
mod rows;
mod scale;
#[allow(
    unsafe_code,
    reason = "enters instruction sets, and calls their intrinsics"
)]
mod simd;
mod tensor;
mod walk;

/// The package's README, compiled. (The workspace's is compiled in the crate of the tests.)
#[cfg(all(doctest, feature = "alloc"))]
#[doc = include_str!("../README.md")]
struct Readme;

/// The crate whose `f16` and `bf16` tensors are made of, in the version that this one takes.
pub use half;

pub use backend::Backend;
pub use cache::{
    Cache, CacheLayout, CacheMut, CacheShape, CacheStrides, Code, CodeScale, HeadScales,
    ScaleLayout, ScalePlace, Slots,
};
pub use chain::Chain;
pub use element::Element;
pub use error::{Choice, Error, Name};
pub use explain::{Convention, Explanation, explain};
pub use frequencies::{
    Angle, Axes, Frequencies, Frequency, GridIndexing, LongRope, MixedAngle, MixedFrequencies,
    RowSource, Scaling, Yarn,
};
pub use kernel::sincos::block::FrequencyBlock;
#[cfg(feature = "serde")]
pub use model::{Config, Layer, Layers, ModelNorm, NormWeights, Rotation};
pub use model::{Gguf, GgufLayer, GgufLayers, GgufValue};
pub use norm::{Norm, NormFormula, NormReach, NormResult, NormSum, Place, Weights};
pub use pairing::Pairing;
pub use positions::{Coordinates, Ids, IntoPositions, Positions};
pub use rope::{Direction, Rope};
pub use rows::Rows;
pub use scale::Scale;
pub use tensor::{Dimension, IntoLayout, Layout, Shape, Strides, Tensor, TensorMut};

/// Threads may share all of it. Auto traits are not in `public-api.txt`, and one is lost without a word.
const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<(Rope, Rows<'_>, Layout, Ids<'_>, Positions<'_>)>();
    shared::<(Tensor<'_, f32>, TensorMut<'_, f32>, Error)>();
    shared::<(Convention, Explanation)>();
    shared::<(Frequencies<'_>, Frequency, FrequencyBlock, Axes<'_>)>();
    shared::<(MixedFrequencies<'_>, MixedAngle, GridIndexing)>();
    shared::<(Scaling<'_>, Gguf<'_>, GgufLayers<'_>)>();
    shared::<(
        Chain<'_>,
        Norm<'_>,
        Scale<'_>,
        Cache<'_>,
        CacheMut<'_>,
        Slots<'_>,
    )>();
    #[cfg(feature = "serde")]
    shared::<Config>();
};
