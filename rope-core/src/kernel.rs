//! What runs inside a backend: code written once, and compiled for each instruction set, in this crate and nowhere
//! else.
//!
//! A rotation goes through these files from top to bottom: [`elements`] is the list of what is compiled for an element,
//! [`mod@line`] the loop over the heads of a line, [`pairs`] finds the members of pairs in a head, [`rotation`] is the
//! arithmetic with cos and sin in registers. [`norm`] has the sums and products of a norm, and [`normed`] what norms on
//! the way. [`full`] rotates by rows with an angle for each channel, [`hadamard`] transforms blocks of f32.
//! [`quantize`] has the kernels of codes of 8 bits, which read [`values`] of any element; [`gradient`] those that sum
//! gradients, and [`backward`] those that sum and rotate them at once.

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
