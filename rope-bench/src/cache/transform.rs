//! A Hadamard transform in place, beside the same butterflies in C intrinsics.

use std::hint::black_box;

use anyhow::{Result, ensure};
use rope_core::TensorMut;
use rope_core::stages::Hadamard;

use super::{CacheBench, HEAD_DIM, Pass};
use crate::cases::{Alignment, Element};
use crate::formulations::intrinsics;
use crate::measuring::Subject;
use crate::memory::{Memory, fill, values};

const _: () = assert!(HEAD_DIM == intrinsics::HADAMARD);

impl CacheBench {
    /// f32 heads in the first cache, where this CPU has a loop in C.
    pub(super) fn transform(&self) -> Result<Option<Pass>> {
        let Some(in_c) = intrinsics::hadamard() else {
            return Ok(None);
        };
        let plan = self.rope.hadamard(Hadamard::new(HEAD_DIM)?);
        let ours = |bytes: &mut [u8]| {
            let mut x = TensorMut::<f32>::new(bytemuck::cast_slice_mut(bytes), self.shape())?;
            plan.apply(black_box(&mut x))
        };
        let len = self.len() * size_of::<f32>();
        let mut memory = Memory::new(len);
        let bytes = memory.slice(Alignment::Line, len);
        fill(bytes, Element::F32, &values(self.len()));
        let mut other: Vec<f32> = bytemuck::cast_slice(bytes).to_vec();
        in_c(&mut other);
        ours(bytes)?;
        ensure!(
            *bytes == *bytemuck::cast_slice::<f32, u8>(&other),
            "rope-core's transform and that in C differ"
        );
        let mut subjects: [Subject<'_>; 2] = [
            Box::new(|bytes, times| {
                (0..times).try_for_each(|_| ours(bytes))?;
                Ok(())
            }),
            Box::new(|bytes, times| {
                for _ in 0..times {
                    in_c(black_box(bytemuck::cast_slice_mut(bytes)));
                }
                Ok(())
            }),
        ];
        let name = "Hadamard transform of f32".into();
        self.pair(name, "C intrinsics", &mut subjects, bytes)
            .map(Some)
    }
}
