//! The plan.

use rope_core::Rope;

use crate::failure::Failure;
use crate::memory::plain;
use crate::names::{rope_backend, rope_direction, rope_pairing};

/// A plan: pairing, direction, backend. It is a plain value, which every call looks up anew; that takes nanoseconds.
///
/// A plan with everything but `pairing` at zero, {ROPE_PAIRING_HALF, 0, 0, 0}, rotates forward, keeps the pairing,
/// and takes the fastest backend.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rope_plan {
    /// Which channels of what is read are pairs (`enum rope_pairing`).
    pub pairing: i32,
    /// Which channels of what is written are pairs (`enum rope_pairing`); 0: the same as `pairing`. Only calls that
    /// write other memory than they read can change the pairing.
    pub output_pairing: i32,
    /// Which way pairs rotate (`enum rope_direction`).
    pub direction: i32,
    /// The instruction set (`enum rope_backend`).
    pub backend: i32,
}
plain!(rope_plan);

impl rope_plan {
    #[inline]
    pub(crate) fn rope(&self) -> Result<Rope, Failure> {
        let pairing = rope_pairing::from_c(self.pairing)?;
        let output = match self.output_pairing {
            0 => pairing,
            other => rope_pairing::from_c(other)?,
        };
        let rope = Rope::new(pairing.pairing())
            .output_pairing(output.pairing())
            .direction(rope_direction::from_c(self.direction)?.direction());
        Ok(match rope_backend::from_c(self.backend)?.backend() {
            None => rope,
            Some(backend) => rope.backend(backend)?,
        })
    }
}
