//! The gain of a fused chain over its separate stages: the reason for each entry of the list of
//! `rope-core/src/kernel/elements.rs`.
//!
//! Both rotate one tensor into another, a cache, in the same rounds. If a chain is not fused they are the same code,
//! and the ratio shows the difference between two measurements of one thing.

use anyhow::Result;
use rope_core::internals::in_stages;
use rope_core::{Backend, Pairing, Rope, Tensor};
use rope_report::results::Pass;

use super::{Calls, on_tensor};
use crate::cases::{Alignment, Element, Float, with_float};
use crate::measure::Effort;
use crate::measure::memory::Memory;

/// A decoding step; a size that fits the second-level cache; and a prompt that fits none.
const SHAPES: [[usize; 2]; 3] = [[1, 32], [16, 32], [2048, 32]];

/// Measures every chain.
pub fn passes(backend: Backend, effort: Effort) -> Result<Vec<Pass>> {
    let mut passes = Vec::new();
    for shape in SHAPES {
        for input in Pairing::ALL {
            for output in Pairing::ALL {
                let rope = Rope::new(input)
                    .with_output_pairing(output)
                    .with_backend(backend)?;
                let (calls, pairings) = (
                    Calls::new(rope, shape, effort)?,
                    format!("{input} to {output}"),
                );
                for from in Element::ALL {
                    for to in Element::ALL {
                        passes.push(with_float!(from, I => with_float!(to, O =>
                            calls.stages::<I, O>(&pairings)?)));
                    }
                }
            }
        }
    }
    Ok(passes)
}

impl Calls {
    fn stages<I: Float, O: Float>(&self, pairings: &str) -> Result<Pass> {
        let zeros = vec![<I as bytemuck::Zeroable>::zeroed(); self.len()];
        let source = &Tensor::new(&zeros, self.shape())?;
        let mut memory = Memory::new(self.len() * size_of::<O>());
        let bytes = memory.slice(Alignment::Line, self.len() * size_of::<O>());
        let into = |rope: Rope| {
            on_tensor::<O>(self.shape(), move |y| {
                rope.rotate_into(source, y, &self.rows)
            })
        };
        let mut subjects = [into(self.rope), into(in_stages(self.rope))];
        let name = format!("{} to {}, {pairings}", I::ELEMENT, O::ELEMENT);
        self.beside(name, "in stages over a tile", &mut subjects, bytes)
    }
}
