//! From C: a norm, a rotation and E4M3 codes in a paged cache by a prepared call, beside Rust's verb.

use std::mem::zeroed;

use anyhow::{Result, ensure};
use half::bf16;
use rope::{
    rope_cache, rope_cache_format, rope_cache_layout, rope_cache_layout_kind, rope_call,
    rope_call_run, rope_element, rope_ids, rope_layout, rope_norm, rope_norm_formula,
    rope_norm_init, rope_number, rope_operand, rope_pairing, rope_plan, rope_prepare_into,
    rope_quant_scale, rope_quant_scale_kind, rope_rows_joined, rope_slots, rope_slots_kind,
    rope_status, rope_weights,
};
use rope_core::norm::{Norm, NormFormula};
use rope_core::{Backend, Frequencies, Layout, Pairing, Rope, Scaling, Tensor};
use rope_report::results::Pass;

use super::{BLOCK, Calls, E4M3, HEAD_DIM, agree};
use crate::cases::Alignment;
use crate::formulations::capi;
use crate::measure::memory::Memory;
use crate::measure::{Effort, Subject};

const EPS: f32 = 1e-6;

/// Measures one token and 64 tokens of 8 heads of bf16.
pub fn passes(backend: Backend, effort: Effort) -> Result<Vec<Pass>> {
    let rope = Rope::new(Pairing::Half).with_backend(backend)?;
    let pass = |shape| Calls::new(rope, shape, effort)?.prepared();
    [[1, 8], [64, 8]].into_iter().map(pass).collect()
}

impl Calls {
    fn prepared(&self) -> Result<Pass> {
        let (x, weights) = (self.keys(), vec![bf16::from_f32(0.75); HEAD_DIM]);
        let norm = Norm::new(NormFormula::LLAMA, EPS).with_weight(&weights);
        let (chain, source) = (self.rope.with_norm(norm), Tensor::new(&x, self.shape())?);
        let frequencies = Frequencies::new(HEAD_DIM, 500_000.0, &Scaling::Default)?;
        let mut rows = vec![0.0; self.tokens * HEAD_DIM];
        frequencies
            .at(4096..4096 + self.tokens as u32)?
            .rows_in(&mut rows)?;
        let mut subjects = [
            self.prepared_call(&x, &weights, &rows),
            self.on_cache(E4M3, |y| {
                chain.rotate_into(&source, &mut y.slots(&self.slots), &self.rows)
            }),
        ];
        let mut memory = Memory::new(self.layout.end());
        let bytes = memory.slice(Alignment::Line, self.layout.end());
        agree(&mut subjects, bytes)?;
        let name = "norm, rotation, e4m3 cache: prepared from C";
        self.beside(name, "Rust's rotate_into", &mut subjects, bytes)
    }

    /// Returns a call that is prepared when it gets other bytes.
    fn prepared_call<'a>(
        &'a self,
        x: &'a [bf16],
        weights: &'a [bf16],
        rows: &'a [f32],
    ) -> Subject<'a> {
        let mut prepared = None;
        Box::new(move |bytes, times| {
            let start = bytes.as_mut_ptr();
            let call = match prepared {
                Some((at, call)) if at == start => call,
                _ => self.prepare(bytes, x, weights, rows)?,
            };
            prepared = Some((start, call));
            for _ in 0..times {
                // SAFETY: the call borrows the bytes, and the slices, which outlive it.
                let status = unsafe { rope_call_run(&call) };
                ensure!(status == rope_status::Ok, "{status:?}");
            }
            Ok(())
        })
    }

    fn prepare(
        &self,
        bytes: &mut [u8],
        x: &[bf16],
        weights: &[bf16],
        rows: &[f32],
    ) -> Result<rope_call> {
        let ok = |status| {
            ensure!(status == rope_status::Ok, "{status:?}");
            Ok(())
        };
        // SAFETY: structs of numbers and pointers, for which zeros are values.
        let (mut norm, cache, slots, plan): (rope_norm, rope_cache, rope_slots, rope_plan) =
            unsafe { zeroed() };
        // SAFETY: a struct.
        ok(unsafe { rope_norm_init(&mut norm, rope_norm_formula::Llama as i32, EPS) })?;
        norm.weight = rope_weights {
            data: weights.as_ptr().cast(),
            count: weights.len(),
            element: rope_element::Bf16 as i32,
        };
        let plan = rope_plan {
            pairing: rope_pairing::Half as i32,
            backend: capi::backend(self.rope.backend()),
            norm: &norm,
            ..plan
        };
        let extents = self.layout.shape();
        let cache = rope_cache {
            memory: bytes.as_mut_ptr().cast(),
            bytes: bytes.len(),
            format: rope_cache_format::E4m3 as i32,
            layout: rope_cache_layout {
                kind: rope_cache_layout_kind::Nhd as i32,
                extents: [extents.blocks, BLOCK, self.heads, HEAD_DIM, 0],
                ..cache.layout
            },
            scale: rope_quant_scale {
                kind: rope_quant_scale_kind::Multiply as i32,
                same: 0.5,
                ..cache.scale
            },
            ..cache
        };
        let slots = rope_slots {
            kind: rope_slots_kind::Mapping as i32,
            slots: rope_ids {
                values: self.slots.as_ptr().cast(),
                count: self.slots.len(),
                number: rope_number::I64 as i32,
            },
            ..slots
        };
        // SAFETY: as above.
        let operand: rope_operand = unsafe { zeroed() };
        let source = rope_operand {
            data: x.as_ptr().cast_mut().cast(),
            len: x.len(),
            element: rope_element::Bf16 as i32,
            layout: rope_layout::from(Layout::bshd(self.shape())?),
            ..operand
        };
        let target = rope_operand {
            cache: &cache,
            slots: &slots,
            ..operand
        };
        let angles = rope_rows_joined(rows.as_ptr(), rows.len(), HEAD_DIM);
        let mut call = rope_call { words: [0; 256] };
        // SAFETY: the structs and the slices are there.
        ok(unsafe { rope_prepare_into(&plan, &source, &target, &angles, &mut call) })?;
        Ok(call)
    }
}
