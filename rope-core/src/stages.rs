//! The stages of a plan beside the rotation: norms, scales and Hadamard transforms of the same heads, in the same call.
//!
//! [`Rope::with_norm`](crate::Rope::with_norm), [`Rope::with_scale`](crate::Rope::with_scale) and
//! [`Rope::with_hadamard`](crate::Rope::with_hadamard) add a stage. A stage runs before the rotation or after it
//! ([`StageOrder`]); the transform is always the last one.
//!
//! ```
//! use rope_core::norm::{Norm, NormFormula};
//! use rope_core::stages::{Scale, StageOrder};
//! use rope_core::{Pairing, Rope, Rows, TensorMut};
//!
//! let (tokens, heads) = (3, 2);
//! let weights = [1.0_f32; 64];
//! let temperatures = [1.0_f32, 0.5, 0.25];
//! // Normalizes each head, rotates it, and multiplies it by the factor of its token.
//! let queries = Rope::new(Pairing::Half)
//!     .with_norm(Norm::new(NormFormula::LLAMA, 1e-6).with_weight(&weights))
//!     .with_scale(Scale::per_token(&temperatures).with_order(StageOrder::AfterRotation));
//!
//! let rows = [0.0_f32; 3 * 64]; // the cos and sin of three tokens
//! let mut q = [1.0_f32; 3 * 2 * 64];
//! let mut q = TensorMut::new(&mut q, [1, tokens, heads, 64])?;
//! queries.rotate(&mut q, &Rows::new(&rows, [tokens, 64])?)?;
//! # Ok::<(), rope_core::Error>(())
//! ```
//!
//! The type of a plan is the kind of its stages. `Rope<Plain>` rotates. `Rope<Linear>` also scales or transforms,
//! and still supports gradients and shifts of cached keys. `Rope<Normed>` has a norm, and supports neither.

pub use crate::base::stage_order::StageOrder;
pub use crate::describe::hadamard::{Hadamard, HadamardFactor};
pub use crate::describe::scale::Scale;
pub use crate::plan::{Linear, Normed, Plain, Stages, Transpose};
