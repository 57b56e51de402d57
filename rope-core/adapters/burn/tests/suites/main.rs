//! The tests of rotations in burn, in one program, which is linked once.

mod against_burn;
mod bits;
mod caches;
mod encoding;
mod gradients;
mod refused;
mod support;
