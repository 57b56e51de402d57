//! Calls that a knob affects. Every probe runs the same call with several tables of knobs, in the same rounds.

use std::cell::RefCell;
use std::hint::black_box;

use anyhow::Result;
use rope_core::cache::{CacheFormat, CacheLayout, CacheMut, QuantFormat, QuantScale};
use rope_core::gradient::PairGradients;
use rope_core::internals::{Tuning, tuned};
use rope_core::norm::{Norm, NormFormula};
use rope_core::{
    Backend, Dimension, Frequencies, Layout, Output, Pairing, Rope, Rows, Scaling, Tensor,
    TensorMut,
};
use rope_report::time::Samples;

use crate::cases::{Alignment, Element, Float, with_float};
use crate::measure::memory::{Memory, fill, values};
use crate::measure::{Effort, Subject, sample};

const HEAD_DIM: usize = 128;

/// Targets of [`Call::Outputs`].
const OUTPUTS: usize = 5;

/// A call of rope-core on a tensor of `[1, tokens, heads, 128]`.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    pub call: Call,
    pub tokens: usize,
    pub heads: usize,
    pub element: Element,
    pub pairing: Pairing,
}

/// A call of rope-core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Rotates in place, tokens-major.
    InPlace,
    /// Rotates in place, heads-major.
    InPlaceByHead,
    /// Rotates two of three heads in place, as Q of a packed QKV.
    Packed,
    /// Rotates into another tensor, heads-major.
    IntoByHead,
    /// Rotates from a tokens-major into a heads-major tensor.
    IntoHeadsMajor,
    /// Rotates two of three heads into another tensor.
    PackedInto,
    /// Norms and rotates in place.
    Norm,
    /// Norms and rotates in place, heads-major.
    NormByHead,
    /// Rotates into a cache of E4M3.
    Codes,
    /// Rotates a gradient back and sums the terms of its angles.
    Backward,
    /// Rotates a gradient back and sums the terms of its angles, heads-major.
    BackwardByHead,
    /// Sums the terms of the angles alone.
    Gradients,
    /// Rotates into five tensors with one read.
    Outputs,
    /// Rotates in place on all threads, from a thread of the pool.
    InPool,
    /// Rotates in place on all threads, from a thread outside the pool.
    OutsidePool,
}

impl Call {
    /// Returns the layout of the source.
    fn layout(self, shape: [usize; 4]) -> Result<Layout, rope_core::Error> {
        let [batch, tokens, heads, head_dim] = shape;
        match self {
            Call::InPlaceByHead | Call::IntoByHead | Call::NormByHead | Call::BackwardByHead => {
                Layout::bhsd([batch, heads, tokens, head_dim])
            }
            Call::Packed | Call::PackedInto => {
                Layout::bshd([batch, tokens, heads / 2 * 3, head_dim])?
                    .narrow(Dimension::Heads, 0..heads)
            }
            _ => Layout::bshd(shape),
        }
    }
}

impl Probe {
    /// Returns the nanoseconds of a call in the rounds of one pass, for each table.
    ///
    /// # Errors
    ///
    /// The errors of rope-core.
    pub fn run(
        &self,
        backend: Backend,
        tunings: &[&'static Tuning],
        effort: Effort,
    ) -> Result<Vec<Samples>> {
        let rope = Rope::new(self.pairing).with_backend(backend)?;
        let sample = || with_float!(self.element, E => self.sample::<E>(rope, tunings, effort));
        match self.call {
            Call::InPool => rayon::scope(|_| sample()),
            _ => sample(),
        }
    }

    fn sample<E: Float>(
        &self,
        rope: Rope,
        tunings: &[&'static Tuning],
        effort: Effort,
    ) -> Result<Vec<Samples>> {
        let frequencies = Frequencies::new(HEAD_DIM, 500_000.0, &Scaling::Default)?;
        let rows = frequencies.rows(4096..4096 + self.tokens as u32)?;
        // In packed tensors two of three heads rotate.
        let source = self.tokens * self.heads / 2 * 3 * HEAD_DIM * size_of::<E>();
        let target = source
            * if self.call == Call::Outputs {
                OUTPUTS
            } else {
                1
            };
        let [mut read, mut written] = [source, target].map(Memory::new);
        let source = read.slice(Alignment::Line, source);
        let target = written.slice(Alignment::Line, target);
        let random = values(source.len() / size_of::<E>());
        for elements in target.chunks_mut(source.len()).chain([&mut *source]) {
            fill(elements, E::ELEMENT, &random);
        }
        let source: &[E] = bytemuck::cast_slice(source);
        let sums = RefCell::new(vec![0.0; self.tokens * HEAD_DIM / 2]);
        let mut subjects: Vec<Subject<'_>> = Vec::new();
        for tuning in tunings {
            let (rope, rows, sums) = (tuned(rope, tuning), &rows, &sums);
            subjects.push(Box::new(move |bytes, times| {
                for _ in 0..times {
                    let (bytes, sums) = (black_box(&mut *bytes), &mut sums.borrow_mut());
                    self.call::<E>(rope, black_box(source), rows, sums, bytes)?;
                }
                Ok(())
            }));
        }
        sample(&mut subjects, target, effort)
    }

    fn call<E: Float>(
        &self,
        rope: Rope,
        source: &[E],
        rows: &Rows<'_>,
        sums: &mut [f64],
        bytes: &mut [u8],
    ) -> Result<()> {
        let shape = [1, self.tokens, self.heads, HEAD_DIM];
        let layout = self.call.layout(shape)?;
        let whole = self.tokens * self.heads * HEAD_DIM;
        let x = Tensor::new(source, layout)?;
        if self.call == Call::Codes {
            let layout = CacheLayout::nhd([1, self.tokens, self.heads, HEAD_DIM])?;
            let scale = QuantScale::Multiply(0.5.into());
            let mut cache = CacheMut::coded(
                &mut bytes[..whole],
                layout,
                CacheFormat::quantized(QuantFormat::E4m3, scale),
            )?;
            return Ok(rope.rotate_into(&x, &mut cache.slots(0..self.tokens), rows)?);
        }
        let values: &mut [E] = bytemuck::cast_slice_mut(bytes);
        if self.call == Call::Outputs {
            let mut targets = Vec::new();
            for values in values.chunks_mut(whole).take(OUTPUTS) {
                targets.push(TensorMut::new(values, shape)?);
            }
            let outputs = targets.iter_mut().map(|y| Output::new(y, rows));
            return Ok(rope.rotate_into_each(&x, &mut outputs.collect::<Vec<_>>())?);
        }
        match self.call {
            Call::IntoByHead | Call::IntoHeadsMajor => {
                let target = Layout::bhsd([1, self.heads, self.tokens, HEAD_DIM])?;
                let mut y = TensorMut::new(values, target)?;
                rope.rotate_into(&x, &mut y, rows)?;
            }
            Call::PackedInto => {
                let mut y = TensorMut::new(&mut values[..whole], shape)?;
                rope.rotate_into(&x, &mut y, rows)?;
            }
            Call::Norm | Call::NormByHead => {
                let norm = Norm::new(NormFormula::LLAMA, 1e-6).without_weight();
                rope.with_norm(norm)
                    .rotate(&mut TensorMut::new(values, layout)?, rows)?;
            }
            Call::Backward | Call::BackwardByHead | Call::Gradients => {
                let mut sums = PairGradients::new(sums, [self.tokens, 1, HEAD_DIM / 2])?;
                let mut dy = TensorMut::new(values, layout)?;
                match self.call {
                    Call::Gradients => rope.angle_gradients(&x, &dy.as_tensor(), &mut sums)?,
                    _ => rope.backward(&x, &mut dy, rows, &mut sums)?,
                }
            }
            Call::InPool | Call::OutsidePool => {
                rope.with_threads()
                    .rotate(&mut TensorMut::new(values, layout)?, rows)?;
            }
            _ => rope.rotate(&mut TensorMut::new(values, layout)?, rows)?,
        }
        Ok(())
    }
}
