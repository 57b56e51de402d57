//! What the gradient of the angles costs in a backward pass, beside the transpose alone, which is all that other
//! kernels give; and beside two calls, one for the gradient and one for the transpose.
//!
//! One call and two are first compared bit for bit.

use std::hint::black_box;

use anyhow::{Result, ensure};
use rope_core::gradient::{Gradients, PairGradients};
use rope_core::{
    Backend, Direction, Frequencies, Layout, Pairing, Rope, Rows, Scaling, Tensor, TensorMut,
};

use crate::cache::Pass;
use crate::cases::{Alignment, Element, Float, with_float};
use crate::measuring::{Effort, Subject, measure};
use crate::memory::{Memory, fill, values};

const HEAD_DIM: usize = 128;

/// Measures all shapes.
pub fn passes(backend: Backend, effort: Effort) -> Result<Vec<Pass>> {
    let mut passes = Vec::new();
    // W3, W4 and W1 of the workloads.
    for [tokens, heads] in [[1, 40], [64, 32], [2048, 32]] {
        for element in [Element::F32, Element::Bf16] {
            for pairing in Pairing::ALL {
                let rope = Rope::new(pairing).backend(backend)?;
                let layout = Layout::bshd([1, tokens, heads, HEAD_DIM])?;
                let bench = BackwardBench::new(rope, pairing, layout, effort)?;
                passes.extend(with_float!(element, E => bench.measure::<E>()?));
            }
        }
    }
    let rope = Rope::new(Pairing::Half).backend(backend)?;
    let heads_major = Layout::bhsd([1, 8, 4096, HEAD_DIM])?;
    passes.extend(BackwardBench::new(rope, Pairing::Half, heads_major, effort)?.measure::<f32>()?);
    Ok(passes)
}

/// A rotated tensor, and where its tokens are.
struct BackwardBench {
    rope: Rope,
    pairing: Pairing,
    layout: Layout,
    effort: Effort,
    rows: Rows<'static>,
}

impl BackwardBench {
    fn new(rope: Rope, pairing: Pairing, layout: Layout, effort: Effort) -> Result<Self> {
        let frequencies = Frequencies::new(HEAD_DIM, 500_000.0, &Scaling::Default)?;
        let rows = frequencies.rows(4096..4096 + layout.shape().tokens as u32)?;
        Ok(BackwardBench {
            rope,
            pairing,
            layout,
            effort,
            rows,
        })
    }

    fn measure<E: Float>(&self) -> Result<[Pass; 2]> {
        let shape = self.layout.shape();
        let len = shape.elements().unwrap_or_default();
        let of_sums = [shape.tokens, 1, HEAD_DIM / 2];
        let transpose = self.rope.direction(Direction::Transpose);
        let mut memory = [(); 2].map(|()| Memory::new(len * size_of::<E>()));
        let [y, dy] = memory
            .each_mut()
            .map(|memory| memory.slice(Alignment::Line, len * size_of::<E>()));
        let all = values(2 * len);
        fill(y, E::ELEMENT, &all[..len]);
        fill(dy, E::ELEMENT, &all[len..]);
        let y = Tensor::<E>::new(bytemuck::cast_slice(y), self.layout)?;

        let sums = || vec![0.0; of_sums.iter().product()];
        let run =
            |bytes: &mut [u8],
             sums: &mut [f64],
             times: usize,
             work: &dyn Fn(&mut TensorMut<'_, E>, &mut PairGradients<'_>) -> _| {
                let mut dy = TensorMut::new(bytemuck::cast_slice_mut(bytes), self.layout)?;
                let mut sums = PairGradients::new(sums, of_sums)?;
                for _ in 0..times {
                    work(black_box(&mut dy), &mut sums)?;
                }
                Ok::<(), rope_core::Error>(())
            };
        let one = |dy: &mut TensorMut<'_, E>, sums: &mut PairGradients<'_>| {
            self.rope.backward(black_box(&y), dy, &self.rows, sums)
        };
        let two = |dy: &mut TensorMut<'_, E>, sums: &mut PairGradients<'_>| {
            self.rope.gradients(Gradients::Angles {
                y: black_box(&y),
                dy: &dy.as_tensor(),
                angles: sums,
            })?;
            transpose.rotate(dy, &self.rows)
        };
        let alone =
            |dy: &mut TensorMut<'_, E>, _: &mut PairGradients<'_>| transpose.rotate(dy, &self.rows);

        let mut apart: Vec<E> = bytemuck::cast_slice(dy).to_vec();
        let (mut of_one, mut of_two) = (sums(), sums());
        run(dy, &mut of_one, 1, &one)?;
        run(bytemuck::cast_slice_mut(&mut apart), &mut of_two, 1, &two)?;
        ensure!(
            *dy == *bytemuck::cast_slice::<E, u8>(&apart) && of_one == of_two,
            "one call and two differ"
        );

        let mut kept = [sums(), sums(), sums()];
        let [a, b, c] = &mut kept;
        let mut subjects: Vec<Subject<'_>> = vec![
            Box::new(|bytes, times| Ok(run(bytes, a, times, &one)?)),
            Box::new(|bytes, times| Ok(run(bytes, b, times, &two)?)),
            Box::new(|bytes, times| Ok(run(bytes, c, times, &alone)?)),
        ];
        let times = measure(&mut subjects, dy, self.effort)?;
        let [one, two, alone] = [0, 1, 2].map(|index| times[index].minimum);
        let order = if self.layout.strides().head < self.layout.strides().token || shape.tokens == 1
        {
            ""
        } else {
            ", heads-major"
        };
        let pass = |beside, other| Pass {
            name: format!("backward, {}, {}{order}", E::ELEMENT, self.pairing),
            tokens: shape.tokens,
            heads: shape.heads,
            beside,
            one,
            other,
            roof: None,
        };
        Ok([pass("the transpose alone", alone), pass("two calls", two)])
    }
}
