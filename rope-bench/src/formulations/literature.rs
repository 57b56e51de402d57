//! The common part of the formulations of the literature: f32 on one thread, angles in f32, and, with one exception, a
//! separate result.

use std::hint::black_box;

use anyhow::Result;
use rope_core::Pairing;

use super::{About, Formulation, Runner};
use crate::cases::{Case, Element};
use crate::oracle::{Angle, Arithmetic};
use crate::workloads::{Head, Workload};

/// The largest table, in bytes: beyond it the wait is too long.
const LARGEST_TABLE: usize = 1 << 30;

/// A formulation of the literature.
#[derive(Clone, Copy, Debug)]
pub struct Literature {
    pub name: &'static str,
    pub summary: &'static str,
    pub source: &'static str,
    /// The counting of positions and pairs in the source.
    pub counting: &'static str,
    pub pairing: &'static [Pairing],
    /// The size in bytes of a table that does not stay in a cache.
    pub table: fn(&Workload) -> usize,
    /// Makes tables and temporaries.
    pub prepare: fn(&Case) -> Result<Box<dyn Runner>>,
}

impl Formulation for Literature {
    fn name(&self) -> String {
        self.name.into()
    }

    fn about(&self) -> About {
        About {
            summary: self.summary,
            source: self.source,
            pairings: self.pairing,
            elements: &[Element::F32],
            partial: false,
            threads: false,
            angle: Angle::F32,
            arithmetic: Arithmetic::F32,
            counting: self.counting,
        }
    }

    fn supports(&self, case: &Case) -> bool {
        self.about().admits(case) && (self.table)(&case.workload) <= LARGEST_TABLE
    }

    fn prepare(&self, case: &Case) -> Result<Box<dyn Runner>> {
        (self.prepare)(case)
    }
}

/// A rotation from one tensor into another.
struct OutOfPlace<F> {
    output: Vec<f32>,
    rotate: F,
}

/// Returns a runner of a rotation that reads its first argument and writes its second.
pub(super) fn out_of_place<F>(case: &Case, rotate: F) -> Result<Box<dyn Runner>>
where
    F: FnMut(&[f32], &mut [f32]) -> Result<()> + 'static,
{
    let output = vec![0.0; case.workload.elements()];
    Ok(Box::new(OutOfPlace { output, rotate }))
}

impl<F: FnMut(&[f32], &mut [f32]) -> Result<()>> Runner for OutOfPlace<F> {
    fn run(&mut self, bytes: &mut [u8], times: usize) -> Result<()> {
        for _ in 0..times {
            (self.rotate)(bytemuck::cast_slice(bytes), black_box(&mut self.output))?;
        }
        Ok(())
    }

    fn store(&self, bytes: &mut [u8]) -> Result<()> {
        bytes.copy_from_slice(bytemuck::cast_slice(&self.output));
        Ok(())
    }
}

/// Returns a rotation head by head, by the row of its token in a table.
pub(super) fn by_heads<T: 'static>(
    case: &Case,
    table: Vec<T>,
    rotate: impl Fn(&[T], &[f32], &mut [f32]) + 'static,
) -> Result<Box<dyn Runner>> {
    let workload = case.workload.clone();
    let (dim, row) = (workload.head_dim, table.len() / workload.positions().len());
    out_of_place(case, move |x, output| {
        workload.each_head(|Head { row: token, at }| {
            let output = &mut output[at..][..dim];
            rotate(&table[token * row..][..row], &x[at..][..dim], output);
        });
        Ok(())
    })
}
