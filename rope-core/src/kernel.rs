//! The code inside a backend: written once, and compiled for each instruction set, in this crate and nowhere else.
//!
//! A rotation uses these files from top to bottom: [`elements`] lists the kernels of each element, [`mod@line`] is the
//! loop over the heads of a line, [`pairs`] locates the members of pairs in a head, and [`rotation`] is the arithmetic
//! with cos and sin in registers. [`norm`] has the sums and products of a norm, and [`normed`] norms fused with a
//! rotation. [`full`] rotates by rows with one angle per channel, and [`hadamard`] transforms blocks of f32.
//! [`quantize`] has the kernels of 8-bit codes, which read [`values`] of any element. [`gradient`] sums gradients, and
//! [`backward`] sums and rotates them at once.

pub(crate) mod backward;
pub(crate) mod element;
pub(crate) mod elements;
pub(crate) mod full;
pub(crate) mod gradient;
pub(crate) mod hadamard;
pub(crate) mod line;
pub(crate) mod norm;
pub(crate) mod normed;
pub(crate) mod pairs;
pub(crate) mod quantize;
pub(crate) mod rotation;
pub(crate) mod sincos;
pub(crate) mod values;
