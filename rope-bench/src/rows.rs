//! Measures the time to make rows of cos and sin, against the platform's libm.
//!
//! libm computes the angle of models, `position as f32 * inverse frequency`, which is wrong from a few thousand
//! positions on. rope-core's rows are correctly rounded at every position. All makers of one number of rows run in the
//! same rounds, as do the rotation with ready rows and the one that makes them.

use std::hint::black_box;
use std::ops::Range;

use anyhow::{Result, ensure};
use rope_core::{Backend, Frequencies, Pairing, Rope, Scaling};

use crate::cases::{Alignment, Element};
use crate::gains::on_tensor;
use crate::measuring::{Effort, Subject, measure};
use crate::memory::{self, Memory};
use crate::results::{Made, RotatedAt, RowsResult};

/// The name of the platform's sinf and cosf among the makers.
pub const LIBM: &str = "libm";

/// Pairs of a row.
pub const PAIRS: usize = 64;

/// A table that a server makes once: 131072 positions.
pub const TABLE: usize = 131_072;

/// Heads that share the rows in a rotation.
pub const HEADS: usize = 32;

const HEAD_DIM: usize = 2 * PAIRS;
const BASE: f64 = 500_000.0;
/// The first position of all rows except the table's, which starts at 0: a text that continues.
const FIRST: u32 = 4096;

/// The measured numbers of rows.
const MADE: [usize; 4] = [1, 16, 4096, TABLE];
/// The measured numbers of tokens: a decoding step, a size in a near cache, and a long prompt.
const ROTATED: [usize; 3] = [1, 16, 2048];

fn positions(tokens: usize) -> Range<u32> {
    let first = if tokens == TABLE { 0 } else { FIRST };
    first..first + tokens as u32
}

/// Measures rows and rotations of each number of tokens up to `most`.
pub fn rows(backends: &[Backend], most: usize, effort: Effort) -> Result<RowsResult> {
    ensure!(!backends.is_empty(), "no backend to measure");
    let plain = Frequencies::new(HEAD_DIM, BASE, &Scaling::Default)?;
    let of_backend = |&backend| Ok((backend, plain.clone().backend(backend)?));
    let frequencies = backends
        .iter()
        .map(of_backend)
        .collect::<Result<Vec<_>>>()?;
    let within = |numbers: &[usize]| -> Vec<usize> {
        let numbers = numbers.iter().copied();
        numbers.filter(|&tokens| tokens <= most).collect()
    };
    let (made, rotated) = (within(&MADE), within(&ROTATED));
    ensure!(!made.is_empty(), "no more than {most} tokens: at least 1");
    let largest = |numbers: &[usize]| numbers.iter().copied().max().unwrap_or(0);
    let rotated_values = largest(&rotated) * HEADS * HEAD_DIM;
    let mut memory = Memory::new(4 * rotated_values.max(largest(&made) * HEAD_DIM));
    let mut result = RowsResult {
        pairs: PAIRS,
        ..RowsResult::default()
    };
    for tokens in made {
        let bytes = memory.slice(Alignment::Line, 4 * tokens * HEAD_DIM);
        let made = make(&frequencies, tokens, bytes, effort)?;
        result.made.extend(made);
    }
    let values = memory::values(rotated_values);
    for tokens in rotated {
        let len = tokens * HEADS * HEAD_DIM;
        let bytes = memory.slice(Alignment::Line, 4 * len);
        memory::fill(bytes, Element::F32, &values[..len]);
        let rotated = rotate(&frequencies, tokens, bytes, effort)?;
        result.rotated.extend(rotated);
    }
    Ok(result)
}

type OfBackend = (Backend, Frequencies<'static>);

fn make(
    frequencies: &[OfBackend],
    tokens: usize,
    bytes: &mut [u8],
    effort: Effort,
) -> Result<Vec<Made>> {
    let mut names = Vec::new();
    let mut subjects: Vec<Subject<'_>> = Vec::new();
    for (backend, frequencies) in frequencies {
        names.push(backend.name());
        subjects.push(Box::new(move |bytes, times| {
            let storage: &mut [f32] = bytemuck::cast_slice_mut(bytes);
            for _ in 0..times {
                black_box(frequencies.rows_in(black_box(positions(tokens)), storage)?);
            }
            Ok(())
        }));
    }
    let pairs = frequencies.iter().take(1).flat_map(|of| of.1.iter());
    let inverse: Vec<f32> = pairs.map(|pair| pair.inverse_f32).collect();
    names.push(LIBM);
    subjects.push(Box::new(move |bytes, times| {
        for _ in 0..times {
            let rows = bytemuck::cast_slice_mut(black_box(&mut *bytes));
            by_libm(black_box(positions(tokens)), &inverse, rows);
        }
        Ok(())
    }));
    let times = measure(&mut subjects, bytes, effort)?;
    let made = names.into_iter().zip(times).map(|(maker, time)| Made {
        maker: maker.into(),
        tokens,
        ns_per_pair: time.minimum / (tokens * PAIRS) as f64,
        time,
    });
    Ok(made.collect())
}

/// The common loop.
fn by_libm(positions: Range<u32>, inverse: &[f32], rows: &mut [f32]) {
    for (position, row) in positions.zip(rows.chunks_exact_mut(2 * inverse.len())) {
        let (cos, sin) = row.split_at_mut(inverse.len());
        for ((inverse, cos), sin) in inverse.iter().zip(cos).zip(sin) {
            let angle = position as f32 * inverse;
            (*cos, *sin) = (angle.cos(), angle.sin());
        }
    }
}

fn rotate(
    frequencies: &[OfBackend],
    tokens: usize,
    bytes: &mut [u8],
    effort: Effort,
) -> Result<Vec<RotatedAt>> {
    let shape = [1, tokens, HEADS, HEAD_DIM];
    let mut subjects: Vec<Subject<'_>> = Vec::new();
    for (backend, frequencies) in frequencies {
        let rope = Rope::new(Pairing::Half).backend(*backend)?;
        let rows = frequencies.rows(positions(tokens))?;
        subjects.push(on_tensor::<f32>(shape, move |x| rope.rotate(x, &rows)));
        subjects.push(on_tensor::<f32>(shape, move |x| {
            rope.rotate(x, &frequencies.at(black_box(positions(tokens))))
        }));
    }
    let times = measure(&mut subjects, bytes, effort)?;
    let pairs = frequencies.iter().zip(times.as_chunks::<2>().0);
    let rotated = pairs.map(|((backend, _), [rotate, rotate_at])| RotatedAt {
        backend: backend.name().into(),
        tokens,
        heads: HEADS,
        ratio: rotate_at.minimum / rotate.minimum,
        rotate: rotate.clone(),
        rotate_at: rotate_at.clone(),
    });
    Ok(rotated.collect())
}
