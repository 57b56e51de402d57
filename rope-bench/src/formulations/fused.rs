//! rope-core on each backend: one pass in place, with cos and sin in registers during all heads of a token; and the
//! same after norms of Q and K, each with separate weights, as in Qwen3 and Gemma 3.

use std::hint::black_box;

use anyhow::{Result, bail, ensure};
use rope_core::norm::{Norm, NormFormula};
use rope_core::{Backend, Error, Frequencies, Rope, Rows, Scaling, TensorMut};
use rope_report::names::{FUSED, NORMED};

use super::formulation::{About, Formulation, Runner};
use crate::cases::workloads::Part;
use crate::cases::{Case, Float, with_float};
use crate::measure::threads::Team;
use crate::verify::oracle::NORM_EPS;

/// rope-core on one backend.
#[derive(Clone, Copy, Debug)]
pub struct Fused {
    backend: Backend,
    way: Way,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// With rows made once, as for all layers of a model.
    Given,
    /// With rows made in every call.
    OnTheFly,
    /// After norms, Q and K prepared before either runs.
    Normed,
}

/// The rotations on each backend that this CPU can run: with rows given, then with rows made on the fly.
pub fn rotations() -> impl Iterator<Item = Box<dyn Formulation>> {
    let ways = [Way::Given, Way::OnTheFly].into_iter();
    ways.flat_map(|way| Backend::available().map(move |backend| boxed(backend, way)))
}

/// Norms and rotations on each backend that this CPU can run.
pub fn norms() -> impl Iterator<Item = Box<dyn Formulation>> {
    Backend::available().map(|backend| boxed(backend, Way::Normed))
}

fn boxed(backend: Backend, way: Way) -> Box<dyn Formulation> {
    Box::new(Fused { backend, way })
}

impl Fused {
    fn norms(&self) -> bool {
        self.way == Way::Normed
    }

    fn prepare_for<E: Float>(&self, case: &Case) -> Result<Box<dyn Runner>> {
        let workload = &case.workload;
        let frequencies = Frequencies::new(workload.rotary_dim, workload.base, &Scaling::Default)?;
        let frequencies = frequencies.with_backend(self.backend)?;
        let positions = workload.positions();
        let parts = workload.parts()?;
        ensure!(parts.len() == 2 || !self.norms(), "norms of Q and K");
        let weights = workload.norm_weights();
        let weights = weights.map(|of| of.into_iter().map(E::round).collect());
        Ok(Box::new(Prepared::<E> {
            way: self.way,
            rope: Rope::new(case.pairing).with_backend(self.backend)?,
            rows: frequencies.rows(&positions)?,
            storage: vec![0.0; positions.len() * workload.rotary_dim],
            team: Team::new(case.threads)?,
            parts,
            frequencies,
            positions,
            weights,
        }))
    }
}

impl Formulation for Fused {
    fn name(&self) -> String {
        let [prefix, suffix] = match self.way {
            Way::Given => [FUSED, ""],
            Way::OnTheFly => [FUSED, "/on-the-fly"],
            Way::Normed => [NORMED, ""],
        };
        format!("{prefix}{}{suffix}", self.backend)
    }

    fn about(&self) -> About {
        let summary = match self.way {
            Way::Given => {
                "one pass in place, cos and sin shared by the heads of a token, rows made beforehand"
            }
            Way::OnTheFly => {
                "one pass in place, the rows made in every call, correctly rounded: no table"
            }
            Way::Normed => "norm and rotation in one pass in place, Q and K prepared, then run",
        };
        About {
            threads: !self.norms(),
            partial: !self.norms(),
            ..About::ours("rope-core", summary)
        }
    }

    fn supports(&self, case: &Case) -> bool {
        // Norms are its own, and one thread makes the rows.
        let is_shared = self.way == Way::OnTheFly && case.threads > 1;
        let mut rotation = case.clone();
        rotation.workload.norms = false;
        case.workload.norms == self.norms() && !is_shared && self.about().admits(&rotation)
    }

    fn is_usual(&self) -> bool {
        self.way != Way::OnTheFly || self.backend == Backend::best()
    }

    fn prepare(&self, case: &Case) -> Result<Box<dyn Runner>> {
        with_float!(case.element, E => self.prepare_for::<E>(case))
    }
}

struct Prepared<E> {
    way: Way,
    rope: Rope,
    parts: Vec<Part>,
    rows: Rows<'static>,
    frequencies: Frequencies<'static>,
    positions: Vec<u32>,
    storage: Vec<f32>,
    weights: [Vec<E>; 2],
    team: Team,
}

impl<E: Float> Runner for Prepared<E> {
    fn run(&mut self, bytes: &mut [u8], times: usize) -> Result<()> {
        let x: &mut [E] = bytemuck::cast_slice_mut(bytes);
        let (low, high) = x.split_at_mut(self.parts[0].range.end);
        let q = &mut TensorMut::new(low, self.parts[0].layout)?;
        let k = self.parts.get(1).map(|k| TensorMut::new(high, k.layout));
        let k = &mut k.transpose()?;
        let (rope, rows) = (self.rope, &self.rows);
        let norms = self
            .weights
            .each_ref()
            .map(|weights| Norm::new(NormFormula::LLAMA, NORM_EPS).with_weight(weights));
        let (positions, storage) = (&*self.positions, &mut *self.storage);
        match (self.way, k) {
            (Way::Given, k) => {
                let mut rotate = |rope: Rope| match k {
                    None => repeat(times, &mut *q, |q| rope.rotate(*q, rows)),
                    Some(k) => repeat(times, (&mut *q, k), |(q, k)| rope.rotate_qk(*q, *k, rows)),
                };
                match self.team.threads() {
                    1 => rotate(rope),
                    _ => self.team.within(|| rotate(rope.with_threads())),
                }
            }
            (Way::OnTheFly, None) => repeat(times, q, |q| {
                rope.rotate(*q, &self.frequencies.at(positions)?)
            }),
            // Q and K share the rows of the call.
            (Way::OnTheFly, Some(k)) => repeat(times, (q, k), |(q, k)| {
                let rows = self.frequencies.at(positions)?.rows_in(storage)?;
                rope.rotate_qk(q, k, &rows)
            }),
            (Way::Normed, Some(k)) => {
                let [query, key] = norms.map(|norm| rope.with_norm(norm));
                repeat(times, (q, k), |(q, k)| {
                    let (queries, keys) = (query.prepare(*q, rows)?, key.prepare(*k, rows)?);
                    queries.run();
                    keys.run();
                    Ok(())
                })
            }
            (Way::Normed, None) => bail!("no K"),
        }
    }
}

/// Calls `rotate` `times` times.
fn repeat<T>(
    times: usize,
    mut tensors: T,
    mut rotate: impl FnMut(&mut T) -> Result<(), Error>,
) -> Result<()> {
    for _ in 0..times {
        rotate(black_box(&mut tensors))?;
    }
    Ok(())
}
