//! The cost of the angles' gradient in a backward pass: relative to the transpose alone, which is all that other
//! kernels compute, and to two calls, one for the gradient and one for the transpose.

use std::hint::black_box;

use anyhow::Result;
use rope_core::gradient::PairGradients;
use rope_core::{Backend, Direction, Error, Layout, Pairing, Rope, Tensor, TensorMut};
use rope_report::results::Pass;

use super::{Calls, HEAD_DIM, agree, filled};
use crate::cases::{Alignment, Element, Float, with_float};
use crate::measure::memory::{Memory, fill, values};
use crate::measure::{Effort, Subject};

/// Measures all shapes.
pub fn passes(backend: Backend, effort: Effort) -> Result<Vec<Pass>> {
    let mut passes = Vec::new();
    // W3, W4 and W1 of the workloads.
    for [tokens, heads] in [[1, 40], [64, 32], [2048, 32]] {
        for element in [Element::F32, Element::Bf16] {
            for pairing in Pairing::ALL {
                let rope = Rope::new(pairing).with_backend(backend)?;
                let calls = Calls::new(rope, [tokens, heads], effort)?;
                let layout = Layout::bshd(calls.shape())?;
                let name = format!("backward, {element}, {pairing}");
                passes.extend(with_float!(element, E => calls.backward::<E>(&name, layout)?));
            }
        }
    }
    let rope = Rope::new(Pairing::Half).with_backend(backend)?;
    let layout = Layout::bhsd([1, 8, 4096, HEAD_DIM])?;
    let name = "backward, f32, half, heads-major";
    passes.extend(Calls::new(rope, [4096, 8], effort)?.backward::<f32>(name, layout)?);
    Ok(passes)
}

impl Calls {
    /// The gradient of the result precedes the sums of the angles' gradients.
    fn backward<E: Float>(&self, name: &str, layout: Layout) -> Result<[Pass; 2]> {
        let (len, of_sums) = (self.len(), [self.tokens, 1, HEAD_DIM / 2]);
        let gradients = len * size_of::<E>();
        let all = gradients + of_sums.iter().product::<usize>() * size_of::<f64>();
        let (mut memory, mut others) = (Memory::new(gradients), Memory::new(all));
        let y = &Tensor::<E>::new(bytemuck::cast_slice(filled::<E>(&mut memory, len)), layout)?;
        let bytes = others.slice(Alignment::Line, all);
        fill(&mut bytes[..gradients], E::ELEMENT, &values(2 * len)[len..]);

        let subject = |call: fn(
            &Self,
            &Tensor<'_, E>,
            &mut TensorMut<'_, E>,
            &mut PairGradients<'_>,
        ) -> _| {
            let subject: Subject<'_> = Box::new(move |bytes, times| {
                let (dy, sums) = bytes.split_at_mut(gradients);
                let mut dy = TensorMut::new(bytemuck::cast_slice_mut(dy), layout)?;
                let mut sums = PairGradients::new(bytemuck::cast_slice_mut(sums), of_sums)?;
                for _ in 0..times {
                    call(self, y, black_box(&mut dy), &mut sums)?;
                }
                Ok(())
            });
            subject
        };
        let mut subjects = [
            subject(|calls, y, dy, sums| calls.rope.backward(y, dy, &calls.rows, sums)),
            subject(|calls, y, dy, angles| {
                let dy = &dy.as_tensor();
                calls.rope.angle_gradients(y, dy, angles)
            }),
            subject(|calls, _, dy, _| calls.transpose(dy)),
        ];
        agree(&mut subjects, bytes)?;
        let times = self.measure(&mut subjects, bytes)?;
        let alone = self.pass(name, "the transpose alone", times[0], times[2]);
        Ok([
            alone,
            self.pass(name, "two calls", times[0], times[1] + times[2]),
        ])
    }

    fn transpose<E: Float>(&self, dy: &mut TensorMut<'_, E>) -> Result<(), Error> {
        let transpose = self.rope.with_direction(Direction::Transpose);
        transpose.rotate(dy, &self.rows)
    }
}
