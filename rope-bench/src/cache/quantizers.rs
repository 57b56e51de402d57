//! Rows of f32 into blocks, without a rotation, beside the quantizers of [runners](crate::runners).
//!
//! Both write the same bytes but for rare ones, which is checked, each in a process of its own, in turns.

use std::hint::black_box;

use anyhow::{Context, Result, ensure};
use rope_core::cache::{BlockFormat, CacheMut};
use rope_core::stages::WithStages;
use rope_core::{Rope, Tensor};

use super::{CacheBench, HEAD_DIM, Pass};
use crate::cases::Alignment;
use crate::measuring::Subject;
use crate::memory::{Memory, values};
use crate::runners::Quantizer;

/// Of so many bytes one may differ. rope-core follows ggml's plain code. A compiler that fuses its products with its
/// sums, and ggml's own vectors for Q8_0, give a value halfway between two codes the other one.
const MAY_DIFFER: usize = 10_000;

/// Turns of both.
const TURNS: usize = 4;

impl CacheBench {
    /// In every format that the quantizer has.
    pub(super) fn beside(&self, quantizer: &Quantizer) -> Result<Vec<Pass>> {
        let mut passes = Vec::new();
        for format in BlockFormat::ALL {
            if quantizer.formats.iter().any(|known| known == format.name()) {
                let pass = self.quantized(quantizer, format);
                passes.push(
                    pass.with_context(|| format!("{} to {}", quantizer.name, format.name()))?,
                );
            }
        }
        Ok(passes)
    }

    fn quantized(&self, quantizer: &Quantizer, format: &'static BlockFormat) -> Result<Pass> {
        let name = format.name();
        let x = values(self.len());
        let source = Tensor::new(&x, self.shape())?;
        let chain = Rope::<WithStages<'_>>::from(self.rope);
        let slots: Vec<i64> = (0..self.tokens as i64).collect();
        // Blocks may be larger than bytes.
        let room = 2 * self.layout.end();
        let mut memory = Memory::new(room);
        let len = self.len() / format.values() * format.bytes();
        let bytes = memory.slice(Alignment::Line, room);
        let mut theirs = vec![0; len];
        let effort = self.effort.of_a_pass();
        let (mut one, mut other) = (f64::INFINITY, f64::INFINITY);
        for _ in 0..TURNS {
            let mut subjects: [Subject<'_>; 1] = [Box::new(|bytes, times| {
                let mut cache = CacheMut::blocks(bytes, self.layout, format)?;
                for _ in 0..times {
                    chain.apply_into(black_box(&source), &mut cache.slots(&slots))?;
                }
                Ok(())
            })];
            one = one.min(self.measure(&mut subjects, bytes)?[0]);
            let row = self.heads * HEAD_DIM;
            let time = quantizer.quantize(name, &x, row, &mut theirs, effort)?;
            other = other.min(time);
            let differ = theirs.iter().zip(&*bytes).filter(|(a, b)| a != b).count();
            ensure!(
                differ <= len / MAY_DIFFER,
                "{differ} of {len} bytes are not rope-core's"
            );
        }
        let beside = quantizer.name.clone().leak();
        Ok(self.pass(format!("f32 to {name}"), beside, &[one, other], None))
    }
}
