//! The same loops where they run: cycles of the backends of this CPU, in its first cache.
//!
//! A virtual machine does not say how fast its core is clocked at the moment, so a chain of additions and exclusive
//! ors, each of which waits for the one before and takes a cycle, is timed in the same rounds. What a call costs beside
//! its heads goes away in the difference of two calls with different numbers of heads.

use std::hint::black_box;

use anyhow::Result;
use rope_core::{Backend, Frequencies, Pairing, Rope, Scaling, TensorMut};

use super::HEAD_DIM;
use crate::cases::{Alignment, Element, Float, with_float};
use crate::measuring::{Effort, Subject, measure};
use crate::memory::{self, Memory};
use crate::results::{CyclesHere, CyclesResult};

/// Heads of the two calls: 16 and 48 of f32 take 8 and 24 KiB.
const HEADS: [usize; 2] = [16, 48];

/// Instructions in the chain, of one cycle each.
const CHAIN: usize = 2048;

/// Fills in what the kernels of this machine's architecture take on its CPU, as far as it can run them.
pub fn measured(result: &mut CyclesResult, cpu: &str, effort: Effort) -> Result<()> {
    let mut memory = Memory::new(4 * HEADS[1] * HEAD_DIM);
    let mut cycle = f64::INFINITY;
    for line in &mut result.kernels {
        if line.architecture != std::env::consts::ARCH {
            continue;
        }
        let backend: Backend = line.backend.parse()?;
        if !backend.is_available() {
            continue;
        }
        let (element, pairing): (Element, Pairing) = (line.element.parse()?, line.pairing.parse()?);
        let bytes = memory.slice(Alignment::Line, element.size() * HEADS[1] * HEAD_DIM);
        memory::fill(bytes, element, &memory::values(HEADS[1] * HEAD_DIM));
        let [few, many] = HEADS;
        let mut subjects = with_float!(element, E => vec![
            subject::<E>(backend, pairing, few)?,
            subject::<E>(backend, pairing, many)?,
        ]);
        subjects.push(Box::new(|_, times| {
            chain(times);
            Ok(())
        }));
        let times = measure(&mut subjects, bytes, effort)?;
        let here = times[2].minimum / CHAIN as f64;
        cycle = cycle.min(here);
        let elements = ((many - few) * HEAD_DIM) as f64;
        line.measured = Some((times[1].minimum - times[0].minimum) / elements / here);
    }
    if cycle.is_finite() {
        result.here = Some(CyclesHere {
            cpu: cpu.into(),
            ns_per_cycle: cycle,
        });
    }
    Ok(())
}

fn subject<'a, E: Float>(backend: Backend, pairing: Pairing, heads: usize) -> Result<Subject<'a>> {
    let rope = Rope::new(pairing).backend(backend)?;
    let frequencies = Frequencies::new(HEAD_DIM, 500_000.0, &Scaling::Default)?;
    let rows = frequencies.rows(4096..4097)?;
    Ok(Box::new(move |bytes, times| {
        let elements = &mut bytemuck::cast_slice_mut::<u8, E>(bytes)[..heads * HEAD_DIM];
        let mut x = TensorMut::<E>::new(elements, [1, 1, heads, HEAD_DIM])?;
        for _ in 0..times {
            rope.rotate(black_box(&mut x), &rows)?;
        }
        Ok(())
    }))
}

/// `CHAIN` instructions, so many times, each of which waits for the one before. What is added is not known when this is
/// compiled, so nothing can be taken together.
fn chain(times: usize) {
    let (mut x, added, flipped) = black_box((1_u64, 0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9));
    for _ in 0..times {
        for _ in 0..CHAIN / 16 {
            for _ in 0..8 {
                x = x.wrapping_add(added) ^ flipped;
            }
        }
        x = black_box(x);
    }
    black_box(x);
}
