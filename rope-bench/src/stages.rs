//! What a fused chain gains over its stages, one after the other: why it is in the list of
//! `rope-core/src/kernel/elements.rs`, or why another is not.
//!
//! Both rotate one tensor into another, a cache, in the same rounds. Where a chain is not fused they are the same code,
//! and the ratio says how far two measurements of one thing differ.

use std::hint::black_box;

use anyhow::{Result, ensure};
use rope_core::internals::in_stages;
use rope_core::{Backend, Frequencies, Pairing, Rope, Scaling, Tensor, TensorMut};

use crate::cache::Pass;
use crate::cases::{Alignment, Element, Float, with_float};
use crate::measuring::{Effort, Subject, measure};
use crate::memory::Memory;

const HEADS: usize = 32;
const HEAD_DIM: usize = 128;

/// A decoding step; what fits the second cache; and a prompt that fits none.
const TOKENS: [usize; 3] = [1, 16, 2048];

/// Measures every chain.
pub fn stages(backend: Backend, effort: Effort) -> Result<Vec<Pass>> {
    let mut passes = Vec::new();
    for tokens in TOKENS {
        for input in Pairing::ALL {
            for output in Pairing::ALL {
                let plan = Plan {
                    rope: Rope::new(input).output_pairing(output).backend(backend)?,
                    pairings: format!("{input} to {output}"),
                    tokens,
                    effort,
                };
                for from in Element::ALL {
                    for to in Element::ALL {
                        passes.push(
                            with_float!(from, I => with_float!(to, O => plan.measure::<I, O>()?)),
                        );
                    }
                }
            }
        }
    }
    Ok(passes)
}

/// A rotation of some tokens from one tensor into another.
struct Plan {
    rope: Rope,
    pairings: String,
    tokens: usize,
    effort: Effort,
}

impl Plan {
    fn measure<I: Float, O: Float>(&self) -> Result<Pass> {
        let shape = [1, self.tokens, HEADS, HEAD_DIM];
        let len = self.tokens * HEADS * HEAD_DIM;
        let frequencies = Frequencies::new(HEAD_DIM, 500_000.0, &Scaling::Default)?;
        let rows = frequencies.rows(4096..4096 + self.tokens as u32)?;
        let source = vec![<I as bytemuck::Zeroable>::zeroed(); len];
        let mut memory = Memory::new(len * size_of::<O>());
        let bytes = memory.slice(Alignment::Line, len * size_of::<O>());
        let mut subjects: Vec<Subject<'_>> = Vec::new();
        for rope in [self.rope, in_stages(self.rope)] {
            let (source, rows) = (&source, &rows);
            subjects.push(Box::new(move |bytes, times| {
                let source = Tensor::new(source, shape)?;
                let mut target = TensorMut::<O>::new(bytemuck::cast_slice_mut(bytes), shape)?;
                for _ in 0..times {
                    rope.rotate_into(black_box(&source), black_box(&mut target), rows)?;
                }
                Ok(())
            }));
        }
        let times = measure(&mut subjects, bytes, self.effort)?;
        ensure!(times.len() == 2, "two subjects have two times");
        Ok(Pass {
            name: format!("{} to {}, {}", I::ELEMENT, O::ELEMENT, self.pairings),
            tokens: self.tokens,
            heads: HEADS,
            beside: "in stages over a tile",
            one: times[0].minimum,
            other: times[1].minimum,
            roof: None,
        })
    }
}
