//! The rotation of 16-bit tensors with the roundings of eager PyTorch: each product and each sum is rounded to the
//! element. For comparisons with logits of eager models, and for vLLM, whose reference rounds so.

mod head;
mod short;

use rope_core::{AnyRows, Direction, Layout, Rows, Shape};

use self::short::Short;
use crate::convert::{Convert, Work, run};
use crate::parallel::{ANY, cut, rows_of};
use crate::plan::Plan;
use crate::shim::{Dtype, Failure, Result, Tensor, parallel};

/// Returns true if a call needs roundings of its own to equal eager PyTorch; f32 equals it anyway.
pub(crate) fn applies(x: &Tensor, plan: &Plan) -> bool {
    plan.eager && x.dtype() != Dtype::Float32
}

/// Refuses an inverse rotation, and tables of another type.
pub(crate) fn check(x: &Tensor, plan: &Plan, tables: &[&Tensor]) -> Result<()> {
    if plan.direction == Direction::Inverse {
        return Err(Failure::new(
            "rounding=\"eager\" is that of a model's rotation and of its gradient; direction must not be \"inverse\"",
        ));
    }
    for table in tables {
        if table.dtype() != x.dtype() {
            return Err(Failure::new(format!(
                "{table} is {of_table:?}, but {x} is {of_x:?}; rounding=\"eager\" needs one type, as eager PyTorch \
                 would return another: {table}.to({x}.dtype)",
                table = table.name(),
                of_table = table.dtype(),
                x = x.name(),
                of_x = x.dtype(),
            )));
        }
    }
    Ok(())
}

/// Rotates the heads of another tensor of the same shape into `x`, or those of `x` where they lie, on PyTorch's
/// threads. The shapes were checked.
pub(crate) fn rotate<E: Short>(
    from: Option<(&[E], Layout)>,
    x: &mut [E],
    layout: Layout,
    plan: &Plan,
    rows: &AnyRows<'_>,
) -> Result<()> {
    let Some((dimension, ranges)) = cut::<E>(&layout, rows, &ANY) else {
        return run(Heads {
            from,
            x,
            layout,
            plan,
            rows: rows.rows(),
        });
    };
    let (mut rest, mut begin, mut parts) = (x, 0, Vec::with_capacity(ranges.len()));
    for range in ranges {
        let layout = layout.narrow(dimension, range.clone())?;
        // The longest stride is cut, so parts follow one another.
        let (own, after) = rest.split_at_mut(layout.end() - begin);
        let x = &mut own[layout.offset() - begin..];
        (rest, begin) = (after, layout.end());
        parts.push((x, layout, range));
    }
    parallel(parts, |(x, layout, range)| {
        let rows = &rows_of(rows, layout.shape().tokens, dimension, range.clone())?;
        let from = match from {
            Some((from, layout)) => Some((from, layout.narrow(dimension, range)?)),
            None => None,
        };
        run(Heads {
            from,
            x,
            layout,
            plan,
            rows: rows.rows(),
        })
    })
}

/// Heads that one thread rotates. `x` begins with the first element of the layout.
struct Heads<'a, E> {
    from: Option<(&'a [E], Layout)>,
    x: &'a mut [E],
    layout: Layout,
    plan: &'a Plan,
    rows: &'a Rows<'a>,
}

impl<E: Short> Work for Heads<'_, E> {
    type Output = Result<()>;

    #[inline(always)]
    fn run(self, convert: impl Convert) -> Result<()> {
        let Heads {
            from,
            x,
            layout,
            plan,
            rows,
        } = self;
        let Shape {
            batch,
            tokens,
            heads,
            head_dim,
        } = layout.shape();
        // In a heads-major tensor, 16 tokens of each head alternate, so that their rows stay in the cache.
        let strides = layout.strides();
        let block = if strides.head > strides.token { 16 } else { 1 };
        let mut of_block = Vec::with_capacity(block);
        let mut room = vec![E::ZERO; rows.rotary_dim()];
        for sequence in 0..batch {
            let row_of = |token, head| {
                let row = match rows.len() == tokens {
                    true => token,
                    false => sequence * tokens + token,
                };
                let row = rows.row(row, head);
                row.ok_or_else(|| Failure::new("a row is missing"))
            };
            for begin in (0..tokens).step_by(block) {
                let tokens = begin..tokens.min(begin + block);
                of_block.clear();
                for token in tokens.clone() {
                    of_block.push(row_of(token, 0)?);
                }
                for head in 0..heads {
                    for (token, shared) in tokens.clone().zip(&of_block) {
                        let row = match rows.heads() {
                            1 => *shared,
                            _ => row_of(token, head)?,
                        };
                        let at = [sequence, token, head];
                        if block > 1 && head + 1 < heads {
                            let next = [sequence, token, head + 1];
                            let next = &x[index(&layout, next) - layout.offset()..];
                            convert.prefetch(&next[..head_dim]);
                        }
                        let own = &mut x[index(&layout, at) - layout.offset()..][..head_dim];
                        if let Some((from, source)) = from {
                            own.copy_from_slice(&from[index(&source, at)..][..head_dim]);
                        }
                        head::rotate(&mut own[..room.len()], &mut room, row, plan, convert);
                    }
                }
            }
        }
        Ok(())
    }
}

/// The first channel of a head.
#[inline(always)]
fn index(layout: &Layout, [sequence, token, head]: [usize; 3]) -> usize {
    let strides = layout.strides();
    layout.offset() + sequence * strides.batch + token * strides.token + head * strides.head
}
