//! rope-core's rotations as custom operators of ONNX Runtime.
//!
//! The library exports `RegisterCustomOps`, which `SessionOptions.register_custom_ops_library` in Python, and
//! `with_operator_library` of the crate `ort`, load and call. Sessions that were made with such options run
//! `com.microsoft::RotaryEmbedding` and `ai.onnx::RotaryEmbedding` by this crate, with unchanged models.
//!
//! | file | one idea |
//! |---|---|
//! | `runtime` | ONNX Runtime's C API as safe calls: all that is `unsafe` |
//! | `operators` | the registered operators |
//! | `operator` | the trait of an operator, and its kernel for each element type |
//! | `embedding` | the two built-in operators: attributes and inputs to heads and rows |
//! | `exact` | the operators of a domain of its own: exact angles of positions, a norm before the rotation |
//! | `attributes` | attributes that several operators have |
//! | `tables` | tables of cos and sin, and position ids: the rows of a call |
//! | `heads` | a tensor of rank 3 or 4 as batch, tokens, heads and channels |
//! | `dialect` | Python's names for Rust's, in messages |
//! | `rotation` | rotates heads by rows, on ONNX Runtime's threads |

mod attributes;
// A link to rope-torch's file.
mod dialect;
mod embedding;
mod exact;
mod heads;
mod operator;
mod operators;
#[cfg(feature = "probes")]
mod probes;
mod rotation;
mod runtime;
mod tables;
