//! Whole models of candle-transformers under several rotations, in one process.
//!
//! The models are candle-transformers' own code, small, with weights of a formula: what is compared is one model under
//! two rotations. candle-transformers calls the `rope` of the `candle-nn` beside this crate, which is exchanged
//! ([`Rotation`]).

mod model;
mod rotation;
mod weights;

pub use model::{Kind, Model, Size, distance, double_tables, exact_tables};
pub use rotation::{Rotation, spent};
pub use weights::Weights;
