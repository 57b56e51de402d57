//! A call on PyTorch's threads: a part of the tensor for each, cut along the longest stride. The bits are the same.

use std::ops::Range;

use rope_core::stages::Stages;
use rope_core::{AnyRows, Dimension, Element, FullRows, Layout, Rope, Tensor, TensorMut};

use crate::shim::{Result, parallel, threads};

/// Bytes below which a part is not worth waking a thread for.
const LEAST_PART: usize = 1 << 18;

/// The dimensions along which a plain rotation may be cut.
pub(crate) const ANY: [Dimension; 3] = [Dimension::Batch, Dimension::Tokens, Dimension::Heads];

/// Rotates a tensor in place. What a part refuses, the first part refuses.
pub(crate) fn rotate<E: Element, S: Stages + Sync>(
    rope: &Rope<S>,
    x: TensorMut<'_, E>,
    rows: &AnyRows<'_>,
    along: &[Dimension],
) -> Result<()> {
    let Some((dimension, parts)) = cut::<E>(x.layout(), rows, along) else {
        let mut x = x;
        return Ok(rope.rotate(&mut x, rows)?);
    };
    let parts = split(x, dimension, &parts)?;
    parallel(parts, |(mut part, range)| {
        let rows = rows_of(rows, part.shape().tokens, dimension, range)?;
        Ok(rope.rotate(&mut part, &rows)?)
    })
}

/// Rotates a tensor into another of the same shape.
pub(crate) fn rotate_into<E: Element>(
    rope: &Rope,
    x: Tensor<'_, E>,
    y: TensorMut<'_, E>,
    rows: &AnyRows<'_>,
) -> Result<()> {
    let Some((dimension, parts)) = cut::<E>(y.layout(), rows, &ANY) else {
        let mut y = y;
        return Ok(rope.rotate_into(&x, &mut y, rows)?);
    };
    let parts = split(y, dimension, &parts)?;
    parallel(parts, |(mut part, range)| {
        let rows = rows_of(rows, part.shape().tokens, dimension, range.clone())?;
        let x = x.narrow(dimension, range)?;
        Ok(rope.rotate_into(&x, &mut part, &rows)?)
    })
}

/// How to cut a tensor, if it is large enough: into these ranges of the dimension with the longest stride, which has to
/// be one of `along`.
pub(crate) fn cut<E>(
    layout: &Layout,
    rows: &AnyRows<'_>,
    along: &[Dimension],
) -> Option<(Dimension, Vec<Range<usize>>)> {
    let (shape, strides) = (layout.shape(), layout.strides());
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
        Dimension::Tokens => rows.rows().len() == shape.tokens,
        Dimension::Heads => rows.rows().heads() == 1,
        _ => true,
    };
    let count = most.min(threads()).min(extent);
    if !rows_divide || !along.contains(&dimension) || count < 2 {
        return None;
    }
    Some((dimension, ranges(extent, count).collect()))
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

/// The rows of a part, which has this number of tokens.
pub(crate) fn rows_of<'a>(
    rows: &'a AnyRows<'a>,
    tokens: usize,
    dimension: Dimension,
    range: Range<usize>,
) -> Result<AnyRows<'a>> {
    let all = rows.rows();
    let part = match dimension {
        Dimension::Tokens => all.narrow(range)?,
        Dimension::Batch if all.len() != tokens => {
            all.narrow(range.start * tokens..range.end * tokens)?
        }
        _ => all.clone(),
    };
    Ok(match rows {
        AnyRows::Pairs(_) => AnyRows::Pairs(part),
        AnyRows::Channels(_) => AnyRows::Channels(FullRows::new(part)?),
    })
}
