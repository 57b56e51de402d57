//! rope-core: one pass, in place, cos and sin in registers while the heads of a token pass. One per backend.

use std::hint::black_box;
use std::marker::PhantomData;

use anyhow::Result;
use rope_core::{Backend, Frequencies, Rope, Rows, Scaling, TensorMut};

use super::{About, Formulation, Runner};
use crate::cases::{Case, Float, with_float};
use crate::threads::Team;
use crate::workloads::Part;

/// rope-core on one backend.
#[derive(Clone, Copy, Debug)]
pub struct Fused {
    backend: Backend,
    source: Source,
}

/// Where the rows come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// Made once, as for all layers of a model.
    Given,
    /// Made in every call.
    OnTheFly,
}

/// What their names begin with.
pub const PREFIX: &str = "fused/";

/// With rows given, one for each backend that this CPU can run; then with rows made on the fly.
pub fn every_backend() -> impl Iterator<Item = Box<dyn Formulation>> {
    [Source::Given, Source::OnTheFly]
        .into_iter()
        .flat_map(|source| {
            Backend::available()
                .map(move |backend| Box::new(Fused { backend, source }) as Box<dyn Formulation>)
        })
}

impl Formulation for Fused {
    fn name(&self) -> String {
        let suffix = if self.source == Source::OnTheFly {
            "/on-the-fly"
        } else {
            ""
        };
        format!("{PREFIX}{}{suffix}", self.backend)
    }

    fn about(&self) -> About {
        let summary = match self.source {
            Source::Given => {
                "one pass in place, cos and sin shared by the heads of a token, rows made beforehand"
            }
            Source::OnTheFly => {
                "one pass in place, the rows made in every call, correctly rounded: no table"
            }
        };
        About {
            threads: true,
            ..About::ours("rope-core", summary)
        }
    }

    fn supports(&self, case: &Case) -> Result<(), String> {
        if self.source == Source::OnTheFly && case.threads > 1 {
            return Err("one thread makes the rows".into());
        }
        self.about().admits(case)
    }

    fn is_usual(&self) -> bool {
        self.source == Source::Given || self.backend == Backend::best()
    }

    fn prepare(&self, case: &Case) -> Result<Box<dyn Runner>> {
        with_float!(case.element, E => self.prepare_for::<E>(case))
    }
}

impl Fused {
    fn prepare_for<E: Float>(&self, case: &Case) -> Result<Box<dyn Runner>> {
        let rope = Rope::new(case.pairing).backend(self.backend)?;
        let workload = &case.workload;
        let frequencies = Frequencies::new(workload.rotary_dim, workload.base, &Scaling::Default)?;
        let frequencies = frequencies.backend(self.backend)?;
        let positions = workload.positions();
        let rows = frequencies.rows(&positions)?;
        let parts = workload.parts()?;
        Ok(match self.source {
            Source::Given => {
                let team = Team::new(case.threads)?;
                Box::new(PreparedFused::<E> {
                    rope,
                    parts,
                    rows,
                    team,
                    element: PhantomData,
                })
            }
            Source::OnTheFly => {
                let storage = vec![0.0; positions.len() * workload.rotary_dim];
                Box::new(OnTheFly::<E> {
                    rope,
                    parts,
                    frequencies,
                    positions,
                    storage,
                    element: PhantomData,
                })
            }
        })
    }
}

struct PreparedFused<E> {
    rope: Rope,
    parts: Vec<Part>,
    rows: Rows<'static>,
    team: Team,
    element: PhantomData<E>,
}

impl<E: Float> Runner for PreparedFused<E> {
    fn run(&mut self, bytes: &mut [u8], times: usize) -> Result<()> {
        let x: &mut [E] = bytemuck::cast_slice_mut(bytes);
        let PreparedFused {
            rope,
            parts,
            rows,
            team,
            ..
        } = self;
        let on_threads = team.threads() > 1;
        let mut tensors = Vec::new();
        let mut rest = x;
        for part in &*parts {
            let (tensor, behind) = rest.split_at_mut(part.range.len());
            tensors.push(TensorMut::new(tensor, part.layout)?);
            rest = behind;
        }
        let mut rotate = || {
            for _ in 0..times {
                match black_box(tensors.as_mut_slice()) {
                    [q] if on_threads => rope.rotate_parallel(q, rows)?,
                    [q] => rope.rotate(q, rows)?,
                    [q, k] if on_threads => rope.rotate_qk_parallel(q, k, rows)?,
                    [q, k] => rope.rotate_qk(q, k, rows)?,
                    _ => {}
                }
            }
            Ok(())
        };
        if on_threads {
            team.within(rotate)?
        } else {
            rotate()
        }
    }
}

struct OnTheFly<E> {
    rope: Rope,
    parts: Vec<Part>,
    frequencies: Frequencies<'static>,
    positions: Vec<u32>,
    storage: Vec<f32>,
    element: PhantomData<E>,
}

impl<E: Float> Runner for OnTheFly<E> {
    fn run(&mut self, bytes: &mut [u8], times: usize) -> Result<()> {
        let OnTheFly {
            rope,
            parts,
            frequencies,
            positions,
            storage,
            ..
        } = self;
        let x: &mut [E] = bytemuck::cast_slice_mut(bytes);
        match parts.as_slice() {
            [q] => {
                let mut q = TensorMut::new(&mut x[q.range.clone()], q.layout)?;
                for _ in 0..times {
                    rope.rotate(black_box(&mut q), &frequencies.at(&*positions))?;
                }
            }
            // Q and K share the rows that are made.
            [q, k, ..] => {
                let (low, high) = x.split_at_mut(q.range.end);
                let mut q = TensorMut::new(low, q.layout)?;
                let mut k = TensorMut::new(high, k.layout)?;
                for _ in 0..times {
                    let rows = frequencies.rows_in(&*positions, storage)?;
                    rope.rotate_qk(black_box(&mut q), black_box(&mut k), &rows)?;
                }
            }
            [] => {}
        }
        Ok(())
    }
}
