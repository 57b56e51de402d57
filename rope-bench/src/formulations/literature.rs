//! The common part of the formulations of the literature: one thread, angles in f32, and, with one exception, a
//! separate result.
//!
//! Those that models run also take bf16 and partial rotations, with the steps of the models' code: the rotating
//! channels are cut out and widened to f32, and the result is rounded and joined with the other channels. They have no
//! f16, which rustc converts without the CPU's instructions.

use std::hint::black_box;

use anyhow::Result;
use rope_core::Pairing;

use super::formulation::{About, Formulation, Runner};
use crate::cases::workloads::{Head, Workload};
use crate::cases::{Case, Element, Float, with_float};
use crate::verify::oracle::{Angle, Arithmetic};

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
    pub elements: &'static [Element],
    /// True if some channels of a head may stay unrotated.
    pub partial: bool,
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
            elements: self.elements,
            partial: self.partial,
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

/// A rotation from one tensor into another, of f32 whose channels all rotate.
struct OutOfPlace<F> {
    case: Case,
    /// The rotating channels as f32; unused if the tensor is that already.
    input: Vec<f32>,
    output: Vec<f32>,
    /// The result in the element of the case, with the other channels; unused likewise.
    joined: Vec<u8>,
    rotate: F,
}

/// Returns a runner of a rotation of [`Workload::rotating`] that reads its first argument and writes its second.
pub(super) fn out_of_place<F>(case: &Case, rotate: F) -> Result<Box<dyn Runner>>
where
    F: FnMut(&[f32], &mut [f32]) -> Result<()> + 'static,
{
    let (rotating, is_cut) = (case.workload.rotating().elements(), is_cut(case));
    Ok(Box::new(OutOfPlace {
        input: vec![0.0; if is_cut { rotating } else { 0 }],
        output: vec![0.0; rotating],
        joined: vec![0; if is_cut { case.bytes() } else { 0 }],
        case: case.clone(),
        rotate,
    }))
}

/// Returns true if a case is not one of f32 whose channels all rotate.
fn is_cut(case: &Case) -> bool {
    case.element != Element::F32 || case.workload.rotary_dim < case.workload.head_dim
}

/// Cuts out the rotating channels of each head, as f32.
fn cut<E: Float>(workload: &Workload, tensor: &[u8], rotating: &mut [f32]) {
    let tensor: &[E] = bytemuck::cast_slice(tensor);
    let heads = tensor.chunks_exact(workload.head_dim);
    for (head, rotating) in heads.zip(rotating.chunks_exact_mut(workload.rotary_dim)) {
        for (widened, x) in rotating.iter_mut().zip(head) {
            *widened = x.widen();
        }
    }
}

/// Rounds rotated channels, and joins each head with its other channels.
fn join<E: Float>(workload: &Workload, rotated: &[f32], tensor: &[u8], joined: &mut [u8]) {
    let (head_dim, rotary_dim) = (workload.head_dim, workload.rotary_dim);
    let (tensor, joined): (&[E], &mut [E]) = (
        bytemuck::cast_slice(tensor),
        bytemuck::cast_slice_mut(joined),
    );
    let heads = tensor.chunks_exact(head_dim);
    let heads = heads.zip(rotated.chunks_exact(rotary_dim));
    for (joined, (head, rotated)) in joined.chunks_exact_mut(head_dim).zip(heads) {
        let (first, rest) = joined.split_at_mut(rotary_dim);
        for (y, x) in first.iter_mut().zip(rotated) {
            *y = E::round(*x);
        }
        rest.copy_from_slice(&head[rotary_dim..]);
    }
}

impl<F: FnMut(&[f32], &mut [f32]) -> Result<()>> Runner for OutOfPlace<F> {
    fn run(&mut self, bytes: &mut [u8], times: usize) -> Result<()> {
        let OutOfPlace {
            case,
            input,
            output,
            joined,
            rotate,
        } = self;
        let Case {
            workload, element, ..
        } = &*case;
        for _ in 0..times {
            if !is_cut(case) {
                rotate(bytemuck::cast_slice(bytes), black_box(output))?;
                continue;
            }
            with_float!(element, E => cut::<E>(workload, bytes, black_box(input)));
            rotate(input, black_box(output))?;
            with_float!(element, E => join::<E>(workload, output, bytes, black_box(joined)));
        }
        Ok(())
    }

    fn store(&self, bytes: &mut [u8]) -> Result<()> {
        let is_cut = is_cut(&self.case);
        bytes.copy_from_slice(match is_cut {
            true => &self.joined,
            false => bytemuck::cast_slice(&self.output),
        });
        Ok(())
    }
}

/// Returns a rotation head by head of [`Workload::rotating`], by the row of its token in a table.
pub(super) fn by_heads<T: 'static>(
    case: &Case,
    table: Vec<T>,
    rotate: impl Fn(&[T], &[f32], &mut [f32]) + 'static,
) -> Result<Box<dyn Runner>> {
    let workload = case.workload.rotating();
    let (dim, row) = (workload.head_dim, table.len() / workload.positions().len());
    out_of_place(case, move |x, output| {
        workload.each_head(|Head { row: token, at }| {
            let output = &mut output[at..][..dim];
            rotate(&table[token * row..][..row], &x[at..][..dim], output);
        });
        Ok(())
    })
}

/// Computes cos and sin of each row and pair as PyTorch code does: frequency, angle, cos and sin all f32.
pub(super) fn cos_sin_f32(workload: &Workload) -> impl Iterator<Item = (f32, f32)> {
    angles_f32(workload, workload.positions()).map(|angle| (angle.cos(), angle.sin()))
}

/// Computes `outer(positions, 1 / base^(2 i / rotary_dim))` in f32.
pub(super) fn angles_f32(workload: &Workload, positions: Vec<u32>) -> impl Iterator<Item = f32> {
    let dim = workload.rotary_dim as f32;
    let base = workload.base as f32;
    let frequency = move |i| 1.0 / base.powf((2 * i) as f32 / dim);
    let frequencies: Vec<f32> = (0..workload.rotary_dim / 2).map(frequency).collect();
    positions.into_iter().flat_map(move |position| {
        let frequencies = frequencies.clone().into_iter();
        frequencies.map(move |frequency| position as f32 * frequency)
    })
}
