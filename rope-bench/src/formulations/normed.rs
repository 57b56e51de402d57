//! rope-core's norm and rotation of Q and of K, each with weights of its own, as in Qwen3 and Gemma 3: in one call, and
//! in a call for Q and a call for K.

use std::hint::black_box;
use std::marker::PhantomData;

use anyhow::{Result, ensure};
use rope_core::norm::{Norm, NormFormula};
use rope_core::{Backend, Frequencies, Rope, Rows, Scaling, TensorMut};

use super::{About, Cost, Formulation, Runner};
use crate::cases::{Case, Float, with_float};
use crate::oracle::NORM_EPS;
use crate::workloads::Part;

/// rope-core on one backend.
#[derive(Clone, Copy, Debug)]
struct Normed {
    backend: Backend,
    two_calls: bool,
}

/// What their names begin with.
pub const PREFIX: &str = "normed/";

/// Both for each backend that this CPU can run.
pub fn every_backend() -> impl Iterator<Item = Box<dyn Formulation>> {
    Backend::available().flat_map(|backend| {
        [false, true].map(|two_calls| {
            let normed = Normed { backend, two_calls };
            Box::new(normed) as Box<dyn Formulation>
        })
    })
}

impl Formulation for Normed {
    fn name(&self) -> String {
        let suffix = if self.two_calls { "/two-calls" } else { "" };
        format!("{PREFIX}{}{suffix}", self.backend)
    }

    fn about(&self) -> About {
        let summary = match self.two_calls {
            false => "norm and rotation in one pass in place, Q and K in one call",
            true => "norm and rotation in one pass in place, a call for Q and a call for K",
        };
        About {
            partial: false,
            ..About::ours("rope-core", summary)
        }
    }

    fn supports(&self, case: &Case) -> Result<(), String> {
        if !case.workload.norms {
            return Err("written for a norm before the rotation".into());
        }
        let mut rotation = case.clone();
        rotation.workload.norms = false;
        self.about().admits(&rotation)
    }

    fn cost(&self, case: &Case) -> Cost {
        // A square and its sum, the root's and the weight's products, and three for the rotation.
        Cost::per_element(case, 2.0, 7.0)
    }

    fn prepare(&self, case: &Case) -> Result<Box<dyn Runner>> {
        with_float!(case.element, E => self.prepare_for::<E>(case))
    }
}

impl Normed {
    fn prepare_for<E: Float>(&self, case: &Case) -> Result<Box<dyn Runner>> {
        let workload = &case.workload;
        let frequencies = Frequencies::new(workload.rotary_dim, workload.base, &Scaling::Default)?;
        let parts = workload.parts()?;
        ensure!(parts.len() == 2, "Q and K");
        Ok(Box::new(PreparedNormed::<E> {
            rope: Rope::new(case.pairing).backend(self.backend)?,
            two_calls: self.two_calls,
            parts,
            rows: frequencies.rows(&workload.positions())?,
            weights: workload.norm_weights().map(|weights| {
                let weights = weights.into_iter();
                weights.map(E::round).collect()
            }),
            element: PhantomData,
        }))
    }
}

struct PreparedNormed<E> {
    rope: Rope,
    two_calls: bool,
    parts: Vec<Part>,
    rows: Rows<'static>,
    weights: [Vec<E>; 2],
    element: PhantomData<E>,
}

impl<E: Float> Runner for PreparedNormed<E> {
    fn run(&mut self, bytes: &mut [u8], times: usize) -> Result<()> {
        let x: &mut [E] = bytemuck::cast_slice_mut(bytes);
        let [q, k] = &*self.parts else { return Ok(()) };
        let [q_norm, k_norm] = self
            .weights
            .each_ref()
            .map(|weights| Norm::new(NormFormula::LLAMA, NORM_EPS).weight(weights));
        let (low, high) = x.split_at_mut(q.range.end);
        let mut q = TensorMut::new(low, q.layout)?;
        let mut k = TensorMut::new(high, k.layout)?;
        if self.two_calls {
            let (query, key) = (self.rope.norm(q_norm), self.rope.norm(k_norm));
            for _ in 0..times {
                query.rotate(black_box(&mut q), &self.rows)?;
                key.rotate(black_box(&mut k), &self.rows)?;
            }
        } else {
            let (query, key) = (self.rope.norm(q_norm), self.rope.norm(k_norm));
            for _ in 0..times {
                let queries = query.prepare(black_box(&mut q), &self.rows)?;
                let keys = key.prepare(black_box(&mut k), &self.rows)?;
                queries.run();
                keys.run();
            }
        }
        Ok(())
    }
}
