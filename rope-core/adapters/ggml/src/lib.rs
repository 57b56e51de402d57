//! rope-core as a backend of [ggml](https://github.com/ggml-org/ggml): an accelerator device that works on the CPU's
//! buffers and computes `ROPE` and `ROPE_BACK`.
//!
//! An example, pinned to one version of ggml: the structs of a backend change while their version number stays. The
//! README describes what it gains and why it exists.

mod backend;
mod interface;
mod operator;
mod pairs;

pub use backend::{Refused, device, register};
pub use operator::unsupported;
pub use pairs::{Pair, Parameters};
