//! Several outputs of one read, beside a call for each: the five queries of Dual Chunk Attention.

use std::hint::black_box;

use anyhow::{Result, ensure};
use half::bf16;
use rope_core::{Frequencies, Layout, Output, Rows, Scaling, Tensor, TensorMut};

use super::{CacheBench, HEAD_DIM, Pass};
use crate::cases::Alignment;
use crate::measuring::Subject;
use crate::memory::Memory;

const OUTPUTS: usize = 5;

impl CacheBench {
    /// bf16 into five tensors, and into five groups of heads side by side, in one call and in five.
    pub(super) fn outputs(&self) -> Result<[Pass; 2]> {
        Ok([self.outputs_in(false)?, self.outputs_in(true)?])
    }

    fn outputs_in(&self, side_by_side: bool) -> Result<Pass> {
        let x = self.keys();
        let source = Tensor::new(&x, self.shape())?;
        let frequencies = Frequencies::new(HEAD_DIM, 1e7, &Scaling::Default)?;
        let rows = (0..OUTPUTS as u32)
            .map(|output| {
                let first = 10_000 * output;
                frequencies.rows(first..first + self.tokens as u32)
            })
            .collect::<Result<Vec<Rows<'_>>, _>>()?;
        let whole = Layout::bshd([1, self.tokens, OUTPUTS * self.heads, HEAD_DIM])?;
        let together = |values: &mut [bf16]| {
            if side_by_side {
                let mut y = TensorMut::new(values, whole)?;
                let outputs = &mut [Output::head_groups(&mut y, &rows)];
                return self.rope.rotate_into_each(black_box(&source), outputs);
            }
            let mut targets = Vec::new();
            for values in values.chunks_mut(self.len()) {
                targets.push(TensorMut::new(values, self.shape())?);
            }
            let targets = targets.iter_mut().zip(&rows);
            let mut outputs: Vec<_> = targets.map(|(y, rows)| Output::tensor(y, rows)).collect();
            self.rope.rotate_into_each(black_box(&source), &mut outputs)
        };
        let apart = |values: &mut [bf16]| {
            for (output, rows) in rows.iter().enumerate() {
                let mut y = if side_by_side {
                    let heads = output * self.heads..(output + 1) * self.heads;
                    TensorMut::new(values, whole.heads(heads)?)?
                } else {
                    let values = &mut values[output * self.len()..][..self.len()];
                    TensorMut::new(values, self.shape())?
                };
                self.rope.rotate_into(black_box(&source), &mut y, rows)?;
            }
            Ok::<(), rope_core::Error>(())
        };
        let len = OUTPUTS * self.len() * size_of::<bf16>();
        let mut memory = Memory::new(len);
        let bytes = memory.slice(Alignment::Line, len);
        let mut other = vec![bf16::ZERO; OUTPUTS * self.len()];
        together(bytemuck::cast_slice_mut(bytes))?;
        apart(&mut other)?;
        ensure!(
            *bytes == *bytemuck::cast_slice::<bf16, u8>(&other),
            "one call and five differ"
        );

        let mut subjects: [Subject<'_>; 2] = [
            Box::new(|bytes, times| {
                (0..times).try_for_each(|_| together(bytemuck::cast_slice_mut(bytes)))?;
                Ok(())
            }),
            Box::new(|bytes, times| {
                (0..times).try_for_each(|_| apart(bytemuck::cast_slice_mut(bytes)))?;
                Ok(())
            }),
        ];
        let name = match side_by_side {
            true => "bf16 into five groups of heads, one read",
            false => "bf16 into five tensors, one read",
        };
        self.pair(name.into(), "five of rotate_into", &mut subjects, bytes)
    }
}
