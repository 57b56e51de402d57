//! Whole models of candle-transformers under several rotations, in one process.
//!
//! The models are candle-transformers' own code, small, with weights from a fixed seed: what is compared is one model
//! under two rotations. candle-transformers calls the `rope` of `candle-nn` beside this crate, which is exchanged
//! ([`Rotation`]).

mod model;
mod rotation;
mod weights;

pub use model::{Kind, Model, Size};
pub use rotation::Rotation;
pub use weights::Seeded;

/// The length of the difference of two vectors, as a part of the length of the second.
///
/// # Panics
///
/// If they differ in length.
pub fn distance(given: &[f64], exact: &[f64]) -> f64 {
    assert_eq!(given.len(), exact.len());
    let square = |sum: f64, value: f64| sum + value * value;
    let difference = given.iter().zip(exact).map(|(given, exact)| given - exact);
    (difference.fold(0.0, square) / exact.iter().copied().fold(0.0, square)).sqrt()
}
