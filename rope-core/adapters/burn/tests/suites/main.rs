//! What is true of rotations in burn: one program, so that it is linked once.

mod against_burn;
mod bits;
mod caches;
mod encoding;
mod gradients;
mod refused;
mod support;
