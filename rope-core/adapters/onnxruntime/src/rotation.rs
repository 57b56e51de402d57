//! Rotates heads by rows, on ONNX Runtime's threads.

use std::sync::Mutex;
use std::thread::available_parallelism;

use rope_core::stages::Stages;
use rope_core::{Element, Rope, Rows, Shape, Tensor, TensorMut};

use crate::heads::{Heads, Order};
use crate::runtime::{Buffers, Result, Threads, invalid};

/// Bytes below which a part is not worth the waking of a thread.
const LEAST_PART: usize = 1 << 18;

/// Rotates all of a tensor, or nothing where an error is returned.
pub(crate) fn rotate<E: Element, S: Stages + Sync>(
    rope: &Rope<S>,
    heads: &Heads,
    rows: &Rows<'_>,
    buffers: Buffers<'_, E>,
    threads: Threads<'_>,
) -> Result<()> {
    rows.check_shape(heads.shape)?;
    let parts = parts(heads, size_of::<E>());
    if parts < 2 {
        return rotate_part(rope, heads, rows, buffers);
    }
    // Locks, so that parts can be given to threads; each is taken once.
    let parts: Vec<_> = cut(heads, rows, buffers, parts)?
        .into_iter()
        .map(|part| Mutex::new(Some(part)))
        .collect();
    threads.run(parts.len(), &|index| {
        let part = parts[index].lock().ok().and_then(|mut part| part.take());
        let (heads, rows, buffers) = part.ok_or_else(|| invalid("a part was rotated twice"))?;
        rotate_part(rope, &heads, &rows, buffers)
    })
}

fn rotate_part<E: Element, S: Stages>(
    rope: &Rope<S>,
    heads: &Heads,
    rows: &Rows<'_>,
    buffers: Buffers<'_, E>,
) -> Result<()> {
    let layout = heads.layout()?;
    match buffers {
        Buffers::InPlace(x) => rope.rotate(&mut TensorMut::new(x, layout)?, rows)?,
        Buffers::Across(x, y) => {
            rope.rotate_into(
                &Tensor::new(x, layout)?,
                &mut TensorMut::new(y, layout)?,
                rows,
            )?;
        }
    }
    Ok(())
}

/// How many parts are worth it.
fn parts(heads: &Heads, size: usize) -> usize {
    let elements = heads.shape.elements().unwrap_or(0);
    let worth = elements.saturating_mul(size) / LEAST_PART;
    // The runtime does not tell how many threads a session has. No more than there are cores are of use.
    if worth < 2 {
        1
    } else {
        worth.min(available_parallelism().map_or(1, Into::into))
    }
}

type Part<'a, E> = (Heads, Rows<'a>, Buffers<'a, E>);

/// Parts that follow one another in memory, at least one for each sequence: tokens, or heads where these lie outermost.
fn cut<'a, E: Element>(
    heads: &Heads,
    rows: &'a Rows<'_>,
    buffers: Buffers<'a, E>,
    parts: usize,
) -> Result<Vec<Part<'a, E>>> {
    let Shape {
        batch,
        tokens,
        heads: count,
        head_dim,
    } = heads.shape;
    let (extent, inner) = match heads.order {
        Order::TokensMajor => (tokens, count * head_dim),
        Order::HeadsMajor => (count, tokens * head_dim),
    };
    let step = extent.div_ceil(parts.div_ceil(batch)).max(1);
    let of_each_sequence = if rows.len() == tokens { 0 } else { tokens };
    let mut rest = buffers;
    let mut cut = Vec::new();
    for sequence in 0..batch {
        let first_row = sequence * of_each_sequence;
        for start in (0..extent).step_by(step) {
            let end = extent.min(start + step);
            let (shape, rows) = match heads.order {
                Order::TokensMajor => (
                    [1, end - start, count, head_dim],
                    rows.narrow(first_row + start..first_row + end)?,
                ),
                Order::HeadsMajor => (
                    [1, tokens, end - start, head_dim],
                    rows.narrow(first_row..first_row + tokens)?,
                ),
            };
            let part;
            (part, rest) = split(rest, (end - start) * inner);
            let heads = Heads {
                shape: shape.into(),
                ..*heads
            };
            cut.push((heads, rows, part));
        }
    }
    Ok(cut)
}

fn split<E>(buffers: Buffers<'_, E>, at: usize) -> (Buffers<'_, E>, Buffers<'_, E>) {
    match buffers {
        Buffers::InPlace(x) => {
            let (part, rest) = x.split_at_mut(at);
            (Buffers::InPlace(part), Buffers::InPlace(rest))
        }
        Buffers::Across(x, y) => {
            let ((x, x_rest), (y, y_rest)) = (x.split_at(at), y.split_at_mut(at));
            (Buffers::Across(x, y), Buffers::Across(x_rest, y_rest))
        }
    }
}
