//! The code inside a backend: written once, and compiled for each instruction set, in this crate and nowhere else.
//!
//! A rotation uses these files from top to bottom:
//!
//! - [`elements`] lists the kernels of each element, and [`compiled`] instantiates them.
//! - [`mod@line`] describes heads at equal distances, and [`rotate`] loops over them. A [`route`] has the elements and
//!   pairings of both ends; [`heads`] and [`source`] are a line as elements.
//! - [`pairs`] locates the members of pairs in a head, and [`rotation`] is the arithmetic with cos and sin in
//!   registers.
//!
//! [`norm`] has the sums and products of a norm; [`prologue`] and [`normed`] fuse norms with a rotation. [`full`]
//! rotates by rows with one angle per channel, and [`hadamard`] transforms blocks of f32. [`quantize`] has the kernels
//! of 8-bit codes, which read [`values`] of any element. [`gradient`] sums gradients, and [`backward`] sums and rotates
//! them at once.

pub(crate) mod backward;
pub(crate) mod compiled;
pub(crate) mod element;
pub(crate) mod elements;
pub(crate) mod full;
pub(crate) mod gradient;
pub(crate) mod hadamard;
mod heads;
pub(crate) mod line;
pub(crate) mod norm;
pub(crate) mod normed;
pub(crate) mod pairs;
pub(crate) mod prologue;
pub(crate) mod quantize;
mod rotate;
pub(crate) mod rotation;
mod route;
pub(crate) mod sincos;
mod source;
pub(crate) mod values;
