//! Measures the time to make rows of cos and sin, against the platform's libm.
//!
//! libm computes the angle of models, `position as f32 * inverse frequency`, which is wrong from a few thousand
//! positions on. rope-core's rows are correctly rounded at every position. All makers of one number of rows run in the
//! same rounds. `fused/BACKEND/on-the-fly` is a rotation that makes its rows.

use std::hint::black_box;
use std::ops::Range;

use anyhow::{Context, Result, ensure};
use rope_core::{Backend, Frequencies, Scaling};
use rope_report::results::{LIBM, Made, RowsResult};

use crate::cases::Alignment;
use crate::measure::memory::Memory;
use crate::measure::{Effort, Subject, measure};

/// Pairs of a row.
pub const PAIRS: usize = 64;

/// A table that a server makes once: 131072 positions.
pub const TABLE: usize = 131_072;

const HEAD_DIM: usize = 2 * PAIRS;
const BASE: f64 = 500_000.0;
/// The first position of all rows except the table's, which starts at 0: a text that continues.
const FIRST: u32 = 4096;

/// The measured numbers of rows.
const MADE: [usize; 4] = [1, 16, 4096, TABLE];

fn positions(tokens: usize) -> Range<u32> {
    let first = if tokens == TABLE { 0 } else { FIRST };
    first..first + tokens as u32
}

/// Measures rows of each number of tokens up to `most`.
pub fn rows(backends: &[Backend], most: usize, effort: Effort) -> Result<RowsResult> {
    ensure!(!backends.is_empty(), "no backend to measure");
    let plain = Frequencies::new(HEAD_DIM, BASE, &Scaling::Default)?;
    let of_backend = |&backend| Ok((backend, plain.clone().with_backend(backend)?));
    let frequencies = backends
        .iter()
        .map(of_backend)
        .collect::<Result<Vec<_>>>()?;
    let numbers = MADE.into_iter().filter(|&tokens| tokens <= most);
    let numbers: Vec<usize> = numbers.collect();
    let largest = numbers.last();
    let largest = largest.with_context(|| format!("no more than {most} tokens: at least 1"))?;
    let mut memory = Memory::new(4 * largest * HEAD_DIM);
    let mut made = Vec::new();
    for tokens in numbers {
        let bytes = memory.slice(Alignment::Line, 4 * tokens * HEAD_DIM);
        made.extend(make(&frequencies, tokens, bytes, effort)?);
    }
    Ok(RowsResult { pairs: PAIRS, made })
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
                black_box(
                    frequencies
                        .at(black_box(positions(tokens)))?
                        .rows_in(storage)?,
                );
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
