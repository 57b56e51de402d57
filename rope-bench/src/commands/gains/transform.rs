//! A Hadamard transform in place, against the same butterflies in C intrinsics.

use anyhow::Result;
use rope_core::stages::Hadamard;
use rope_report::results::Pass;

use super::{Calls, HEAD_DIM, agree, filled, on_tensor};
use crate::formulations::intrinsics;
use crate::measure::Subject;
use crate::measure::memory::Memory;

const _: () = assert!(HEAD_DIM == intrinsics::HADAMARD);

impl Calls {
    /// Measures f32 heads in the first-level cache, if this CPU has a loop in C.
    pub(super) fn transform(&self) -> Result<Option<Pass>> {
        let Some(in_c) = intrinsics::hadamard() else {
            return Ok(None);
        };
        let plan = self.rope.with_hadamard(Hadamard::new(HEAD_DIM)?);
        let mut memory = Memory::new(self.len() * size_of::<f32>());
        let bytes = filled::<f32>(&mut memory, self.len());
        let mut subjects: [Subject<'_>; 2] = [
            on_tensor::<f32>(self.shape(), |x| plan.apply(x)),
            Box::new(|bytes, times| {
                for _ in 0..times {
                    in_c(bytemuck::cast_slice_mut(bytes));
                }
                Ok(())
            }),
        ];
        agree(&mut subjects, bytes)?;
        let name = "Hadamard transform of f32";
        self.beside(name, "C intrinsics", &mut subjects, bytes)
            .map(Some)
    }
}
