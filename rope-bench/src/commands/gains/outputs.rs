//! Several outputs of one read, against one call per output: the five queries of Dual Chunk Attention.

use anyhow::Result;
use half::bf16;
use rope_core::{
    Dimension, Error, Frequencies, Layout, Output, Positions, Rows, Scaling, Tensor, TensorMut,
    TokenAngles,
};
use rope_report::results::Pass;

use super::{Calls, HEAD_DIM, agree};
use crate::cases::Alignment;
use crate::measure::Subject;
use crate::measure::memory::Memory;

const OUTPUTS: usize = 5;

impl Calls {
    /// Measures bf16 into five tensors, and into five adjacent groups of heads, in one call and in five.
    pub(super) fn outputs(&self) -> Result<[Pass; 2]> {
        Ok([self.outputs_in(false)?, self.outputs_in(true)?])
    }

    /// Measures bf16 into two tensors, the rows of both made in the call: at real positions, against the same integers.
    pub(super) fn outputs_at(&self) -> Result<Pass> {
        let (x, len) = (self.keys(), self.len());
        let source = &Tensor::new(&x, self.shape())?;
        let frequencies = Frequencies::new(HEAD_DIM, 1e7, &Scaling::Default)?;
        let ids: Vec<u32> = (0..self.tokens as u32).map(|token| 3 * token).collect();
        let coordinates: Vec<f64> = ids.iter().copied().map(f64::from).collect();
        let each = |values: &mut [bf16], angles: &TokenAngles<'_>| {
            let (y, z) = values.split_at_mut(len);
            let (mut y, mut z) = (
                TensorMut::new(y, self.shape())?,
                TensorMut::new(z, self.shape())?,
            );
            let outputs = &mut [Output::new(&mut y, angles), Output::new(&mut z, angles)];
            self.rope.rotate_into_each(source, outputs)
        };
        let bytes = 2 * len * size_of::<bf16>();
        let mut memory = Memory::new(bytes);
        let bytes = memory.slice(Alignment::Line, bytes);
        let call = |positions: Positions<'_>, bytes: &mut [u8], times| {
            let values = bytemuck::cast_slice_mut(bytes);
            Ok((0..times).try_for_each(|_| each(values, &frequencies.at(positions)?))?)
        };
        let mut subjects: [Subject<'_>; 2] = [
            Box::new(|bytes, times| call(Positions::from(&coordinates), bytes, times)),
            Box::new(|bytes, times| call(Positions::from(&ids), bytes, times)),
        ];
        agree(&mut subjects, bytes)?;
        let name = "bf16 into two tensors, at real positions";
        self.beside(name, "at ids", &mut subjects, bytes)
    }

    fn outputs_in(&self, side_by_side: bool) -> Result<Pass> {
        let (x, len) = (self.keys(), self.len());
        let source = &Tensor::new(&x, self.shape())?;
        let frequencies = Frequencies::new(HEAD_DIM, 1e7, &Scaling::Default)?;
        let rows = (0..OUTPUTS as u32).map(|output| {
            let first = 10_000 * output;
            frequencies.rows(first..first + self.tokens as u32)
        });
        let rows = rows.collect::<Result<Vec<Rows<'_>>, _>>()?;
        let whole = Layout::bshd([1, self.tokens, OUTPUTS * self.heads, HEAD_DIM])?;
        let together = |values: &mut [bf16]| {
            if side_by_side {
                let mut y = TensorMut::new(values, whole)?;
                let outputs = &mut [Output::head_groups(&mut y, &rows)];
                return self.rope.rotate_into_each(source, outputs);
            }
            let targets = values.chunks_mut(len);
            let targets = targets.map(|values| TensorMut::new(values, self.shape()));
            let mut targets = targets.collect::<Result<Vec<_>, Error>>()?;
            let targets = targets.iter_mut().zip(&rows);
            let mut outputs: Vec<_> = targets.map(|(y, rows)| Output::new(y, rows)).collect();
            self.rope.rotate_into_each(source, &mut outputs)
        };
        let apart = |values: &mut [bf16]| {
            rows.iter().enumerate().try_for_each(|(output, rows)| {
                let mut y = if side_by_side {
                    let heads = output * self.heads..(output + 1) * self.heads;
                    TensorMut::new(values, whole.narrow(Dimension::Heads, heads)?)?
                } else {
                    TensorMut::new(&mut values[output * len..][..len], self.shape())?
                };
                self.rope.rotate_into(source, &mut y, rows)
            })
        };
        let bytes = OUTPUTS * len * size_of::<bf16>();
        let mut memory = Memory::new(bytes);
        let bytes = memory.slice(Alignment::Line, bytes);
        let mut subjects: [Subject<'_>; 2] = [
            Box::new(|bytes, times| {
                let values = bytemuck::cast_slice_mut(bytes);
                Ok((0..times).try_for_each(|_| together(values))?)
            }),
            Box::new(|bytes, times| {
                let values = bytemuck::cast_slice_mut(bytes);
                Ok((0..times).try_for_each(|_| apart(values))?)
            }),
        ];
        agree(&mut subjects, bytes)?;
        let name = match side_by_side {
            true => "bf16 into five groups of heads, one read",
            false => "bf16 into five tensors, one read",
        };
        self.beside(name, "five of rotate_into", &mut subjects, bytes)
    }
}
