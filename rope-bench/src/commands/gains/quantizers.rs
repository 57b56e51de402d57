//! Rows of f32 into blocks, without a rotation, against the quantizers of [runners](crate::formulations::runners).
//!
//! Both write the same bytes with rare exceptions, which is checked. Each runs in its own process, in alternation.

use anyhow::{Context, Result, ensure};
use rope_core::cache::BlockFormat;
use rope_core::stages::Normed;
use rope_core::{Rope, Tensor};
use rope_report::results::Pass;

use super::{Calls, HEAD_DIM, Kept};
use crate::cases::Alignment;
use crate::formulations::runners::Quantizer;
use crate::measure::memory::{Memory, values};

/// One byte of this number may differ. rope-core follows ggml's plain code. A compiler that fuses its products with its
/// sums, and ggml's own vectors for Q8_0, round a value halfway between two codes to the other one.
const MAY_DIFFER: usize = 10_000;

/// Turns of both.
const TURNS: usize = 4;

impl Calls {
    /// Measures every format of the quantizer.
    pub(super) fn quantizers(&self, quantizer: &Quantizer) -> Result<Vec<Pass>> {
        let formats = BlockFormat::ALL.into_iter();
        let known = formats.filter(|format| quantizer.formats.iter().any(|of| of == format.name));
        let passes = known.map(|format| {
            let pass = self.quantized(quantizer, format);
            pass.with_context(|| format!("{} to {}", quantizer.name, format.name))
        });
        passes.collect()
    }

    fn quantized(&self, quantizer: &Quantizer, format: &'static BlockFormat) -> Result<Pass> {
        let name = format.name;
        let x = values(self.len());
        let source = Tensor::new(&x, self.shape())?;
        let chain = Rope::<Normed<'_>>::from(self.rope);
        let slots: Vec<i64> = (0..self.tokens as i64).collect();
        // Blocks may be larger than bytes.
        let room = 2 * self.layout.end();
        let mut memory = Memory::new(room);
        let bytes = memory.slice(Alignment::Line, room);
        let mut theirs = vec![0; self.len() / format.values * format.bytes];
        let mut ours = [self.on_cache(Kept::Blocks(format), |cache| {
            chain.apply_into(&source, &mut cache.slots(&slots))
        })];
        let (mut one, mut other) = (f64::INFINITY, f64::INFINITY);
        for _ in 0..TURNS {
            one = one.min(self.measure(&mut ours, bytes)?[0]);
            let (row, effort) = (self.heads * HEAD_DIM, self.effort.of_a_pass());
            other = other.min(quantizer.quantize(name, &x, row, &mut theirs, effort)?);
            let differ = theirs.iter().zip(&*bytes).filter(|(a, b)| a != b).count();
            let len = theirs.len();
            ensure!(
                differ <= len / MAY_DIFFER,
                "{differ} of {len} bytes are not rope-core's"
            );
        }
        Ok(self.pass(
            format!("f32 to {name}"),
            quantizer.name.clone().leak(),
            one,
            other,
        ))
    }
}
