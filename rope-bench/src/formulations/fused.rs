//! rope-core: one pass, in place, cos and sin in registers while the heads of a token pass. One per backend.

use std::hint::black_box;
use std::marker::PhantomData;
use std::ops::Range;

use anyhow::{Result, ensure};
use rope_core::Dimension::{Batch, Channels, Heads, Tokens};
use rope_core::{Backend, Frequencies, Pairing, Rope, Rows, Scaling, TensorMut};

use super::{About, Cost, Formulation, Runner};
use crate::cases::{Case, Element, Float, with_float};
use crate::oracle::{Angle, Arithmetic};
use crate::threads::Team;
use crate::workloads::{Order, Part, Workload};

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
        About {
            summary: match self.source {
                Source::Given => {
                    "one pass in place, cos and sin shared by the heads of a token, rows made beforehand"
                }
                Source::OnTheFly => {
                    "one pass in place, the rows made in every call, correctly rounded: no table"
                }
            },
            source: "rope-core",
            pairings: &Pairing::ALL,
            elements: &Element::ALL,
            partial: true,
            threads: true,
            angle: Angle::Exact,
            arithmetic: Arithmetic::F32,
            counting: "positions and pairs from 0",
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

    fn cost(&self, case: &Case) -> Cost {
        Cost::per_element(case, 2.0, 3.0)
    }

    fn prepare(&self, case: &Case) -> Result<Box<dyn Runner>> {
        with_float!(case.element, E => self.prepare_for::<E>(case))
    }
}

impl Fused {
    fn prepare_for<E: Float>(&self, case: &Case) -> Result<Box<dyn Runner>> {
        let rope = Rope::new(case.pairing).backend(self.backend)?;
        let workload = case.workload.clone();
        let frequencies = Frequencies::new(workload.rotary_dim, workload.base, &Scaling::Default)?;
        let frequencies = frequencies.with_backend(self.backend)?;
        let positions = workload.positions();
        let rows = frequencies.rows(&positions)?;
        let parts = workload.parts()?;
        Ok(match self.source {
            Source::Given => {
                let team = Team::new(case.threads)?;
                Box::new(Prepared::<E> {
                    rope,
                    workload,
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

struct Prepared<E> {
    rope: Rope,
    workload: Workload,
    parts: Vec<Part>,
    rows: Rows<'static>,
    team: Team,
    element: PhantomData<E>,
}

impl<E: Float> Prepared<E> {
    /// Each thread has a share of every tensor, and the rows of that share.
    fn run_shared(&mut self, x: &mut [E], times: usize) -> Result<()> {
        let mut shares = Vec::new();
        let mut rest = x;
        for part in &self.parts {
            let (tensor, behind) = rest.split_at_mut(part.range.len());
            rest = behind;
            let tensor = TensorMut::new(tensor, part.layout)?;
            split(
                tensor,
                (&self.rows, 0..self.rows.len()),
                &self.workload,
                self.team.threads(),
                &mut shares,
            )?;
        }
        for _ in 0..times {
            self.team
                .each(black_box(&mut shares), |(tensor, rows, done)| {
                    *done = self.rope.rotate(tensor, rows).is_ok()
                });
        }
        ensure!(
            shares.iter().all(|(.., done)| *done),
            "a thread's share was refused"
        );
        Ok(())
    }
}

impl<E: Float> Runner for Prepared<E> {
    fn run(&mut self, bytes: &mut [u8], times: usize) -> Result<()> {
        let x: &mut [E] = bytemuck::cast_slice_mut(bytes);
        if self.team.threads() > 1 {
            return self.run_shared(x, times);
        }
        let Prepared {
            rope, parts, rows, ..
        } = self;
        match parts.as_slice() {
            [q] => {
                let mut q = TensorMut::new(&mut x[q.range.clone()], q.layout)?;
                for _ in 0..times {
                    rope.rotate(black_box(&mut q), rows)?;
                }
            }
            [q, k, ..] => {
                let (low, high) = x.split_at_mut(q.range.end);
                let mut q = TensorMut::new(low, q.layout)?;
                let mut k = TensorMut::new(high, k.layout)?;
                for _ in 0..times {
                    rope.rotate_qk(black_box(&mut q), black_box(&mut k), rows)?;
                }
            }
            [] => {}
        }
        Ok(())
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
                    rope.rotate_at(black_box(&mut q), frequencies, &*positions)?;
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

/// A part of a tensor, its rows, and whether its last rotation went well.
type Share<'a, 'r, E> = (TensorMut<'a, E>, Rows<'r>, bool);

/// Splits a tensor in as many parts as there are threads, along the dimension that lies outside.
fn split<'a, 'r, E: Float>(
    x: TensorMut<'a, E>,
    rows: (&'r Rows<'static>, Range<usize>),
    workload: &Workload,
    threads: usize,
    shares: &mut Vec<Share<'a, 'r, E>>,
) -> Result<()> {
    let (shape, (rows, Range { start, end })) = (x.shape(), rows);
    let extents = match workload.order {
        Order::TokensMajor => [
            (Batch, shape.batch),
            (Tokens, shape.tokens),
            (Heads, shape.heads),
        ],
        Order::HeadsMajor => [
            (Batch, shape.batch),
            (Heads, shape.heads),
            (Tokens, shape.tokens),
        ],
    };
    let Some((dimension, extent)) = extents
        .into_iter()
        .find(|&(_, extent)| threads > 1 && extent > 1)
    else {
        shares.push((x, rows.range(start..end)?, false));
        return Ok(());
    };
    let first = threads / 2;
    let at = (extent * first / threads).max(1);
    // Heads share rows, and so do sequences that start at the same position.
    let (low_rows, high_rows) = match dimension {
        Batch if workload.starts.len() > 1 => (
            start..start + at * shape.tokens,
            start + at * shape.tokens..end,
        ),
        Tokens => (start..start + at, start + at..end),
        Batch | Heads | Channels => (start..end, start..end),
    };
    let (low, high) = x.split_at(dimension, at)?;
    split(low, (rows, low_rows), workload, first, shares)?;
    split(high, (rows, high_rows), workload, threads - first, shares)
}
