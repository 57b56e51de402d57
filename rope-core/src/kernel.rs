//! What runs inside a backend: code written once, and compiled for each instruction set.

pub(crate) mod members;
pub(crate) mod place;
pub(crate) mod rotate;
pub(crate) mod sincos;

use crate::simd::Simd;

/// A piece of work, generic over the instruction set. A backend runs it inside a function that has its CPU features;
/// `run` and all that it calls must be `#[inline(always)]` to be compiled with them.
pub trait Kernel {
    fn run<S: Simd>(self, s: S);
}
