//! A rotation on PyTorch's threads: a part of the tensor for each, cut along the longest stride. The bits are the same.

use std::ops::Range;

use rope_core::stages::WithStages;
use rope_core::{Dimension, Element, Rope, Rows, Tensor, TensorMut};

use crate::shim::{Result, parallel, threads};

/// Bytes below which a part is not worth waking a thread for.
const LEAST_PART: usize = 1 << 18;

/// Rotates a tensor in place.
pub(crate) fn rotate<E: Element>(rope: &Rope, x: TensorMut<'_, E>, rows: &Rows<'_>) -> Result<()> {
    let Some((dimension, parts)) = cut(&x, rows) else {
        let mut x = x;
        return Ok(rope.rotate(&mut x, rows)?);
    };
    let parts = split(x, dimension, &parts)?;
    parallel(parts, |(mut part, range)| {
        let rows = rows_of(rows, &part, dimension, range)?;
        Ok(rope.rotate(&mut part, &rows)?)
    })
}

/// Rotates a tensor into another of the same shape.
pub(crate) fn rotate_into<E: Element>(
    rope: &Rope,
    x: Tensor<'_, E>,
    y: TensorMut<'_, E>,
    rows: &Rows<'_>,
) -> Result<()> {
    let Some((dimension, parts)) = cut(&y, rows) else {
        let mut y = y;
        return Ok(rope.rotate_into(&x, &mut y, rows)?);
    };
    let parts = split(y, dimension, &parts)?;
    parallel(parts, |(mut part, range)| {
        let rows = rows_of(rows, &part, dimension, range.clone())?;
        let x = x.narrow(dimension, range)?;
        Ok(rope.rotate_into(&x, &mut part, &rows)?)
    })
}

/// How to cut a tensor, if it is large enough: along a dimension, into these ranges.
fn cut<E: Element>(
    x: &TensorMut<'_, E>,
    rows: &Rows<'_>,
) -> Option<(Dimension, Vec<Range<usize>>)> {
    let (shape, strides) = (x.shape(), x.layout().strides());
    let bytes = shape.elements()?.checked_mul(size_of::<E>())?;
    let most = bytes / LEAST_PART;
    if most < 2 {
        return None;
    }
    let (dimension, extent, _) = [
        (Dimension::Batch, shape.batch, strides.batch),
        (Dimension::Tokens, shape.tokens, strides.token),
        (Dimension::Heads, shape.heads, strides.head),
    ]
    .into_iter()
    .filter(|(_, extent, _)| *extent > 1)
    .max_by_key(|(_, _, stride)| *stride)?;
    let rows_divide = match dimension {
        Dimension::Tokens => rows.len() == shape.tokens,
        Dimension::Heads => rows.heads() == 1,
        _ => true,
    };
    let count = most.min(threads()).min(extent);
    if !rows_divide || count < 2 {
        return None;
    }
    Some((dimension, ranges(extent, count).collect()))
}

/// Rotates Q and K in place, each by its own plan. Tokens go to threads, which all heads of a token may be needed for;
/// what a part refuses, the first part refuses.
pub(crate) fn rotate_qk<E: Element>(
    [query, key]: [Rope<WithStages<'_>>; 2],
    q: TensorMut<'_, E>,
    k: TensorMut<'_, E>,
    rows: &Rows<'_>,
) -> Result<()> {
    let rotate = |mut q: TensorMut<'_, E>, mut k: TensorMut<'_, E>, rows: &Rows<'_>| {
        let query = query.prepare(&mut q, rows)?;
        let key = key.prepare(&mut k, rows)?;
        query.run();
        key.run();
        Ok(())
    };
    let tokens = q.shape().tokens;
    let bytes = q
        .shape()
        .elements()
        .and_then(|elements| elements.checked_mul(size_of::<E>()));
    let count = (bytes.unwrap_or(0) / LEAST_PART).min(threads()).min(tokens);
    if count < 2 || k.shape().tokens != tokens || rows.len() != tokens {
        return rotate(q, k, rows);
    }
    let ranges: Vec<_> = ranges(tokens, count).collect();
    let parts = split(q, Dimension::Tokens, &ranges)?;
    let parts = parts.into_iter().zip(split(k, Dimension::Tokens, &ranges)?);
    parallel(parts.collect(), |((q, range), (k, _))| {
        rotate(q, k, &rows.range(range)?)
    })
}

fn ranges(extent: usize, count: usize) -> impl Iterator<Item = Range<usize>> {
    (0..count).map(move |part| extent * part / count..extent * (part + 1) / count)
}

type Part<'a, E> = (TensorMut<'a, E>, Range<usize>);

fn split<'a, E: Element>(
    x: TensorMut<'a, E>,
    dimension: Dimension,
    ranges: &[Range<usize>],
) -> Result<Vec<Part<'a, E>>> {
    let (mut rest, mut parts) = (x, Vec::with_capacity(ranges.len()));
    for range in ranges {
        let (part, others) = rest.split_at(dimension, range.len())?;
        parts.push((part, range.clone()));
        rest = others;
    }
    Ok(parts)
}

/// The rows of a part.
fn rows_of<'a, E: Element>(
    rows: &'a Rows<'a>,
    part: &TensorMut<'_, E>,
    dimension: Dimension,
    range: Range<usize>,
) -> Result<Rows<'a>> {
    let tokens = part.shape().tokens;
    Ok(match dimension {
        Dimension::Tokens => rows.range(range)?,
        Dimension::Batch if rows.len() != tokens => {
            rows.range(range.start * tokens..range.end * tokens)?
        }
        _ => rows.clone(),
    })
}
