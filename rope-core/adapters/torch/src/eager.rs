//! The rotation of 16-bit tensors with the roundings of eager PyTorch: each product and each sum is rounded to the
//! element. For comparisons with logits of eager models; it is neither as exact nor as fast as one rounding.

use rope_core::half::{bf16, f16};
use rope_core::{Direction, Element, Layout, Pairing, Rows, Shape};

use crate::plan::Plan;
use crate::shim::{Dtype, Failure, Plain, Result, Tensor};

/// An element with its rounding, to nearest even.
pub(crate) trait Number: Element + Plain + Into<f32> {
    fn rounded(value: f32) -> Self;
}

impl Number for f32 {
    fn rounded(value: f32) -> Self {
        value
    }
}

impl Number for bf16 {
    fn rounded(value: f32) -> Self {
        bf16::from_f32(value)
    }
}

impl Number for f16 {
    fn rounded(value: f32) -> Self {
        f16::from_f32(value)
    }
}

/// Whether a call rounds as eager PyTorch does: f32 needs no other way.
pub(crate) fn applies(x: &Tensor, plan: &Plan) -> bool {
    plan.eager && x.dtype() != Dtype::Float32
}

/// What a call with these roundings refuses.
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

/// The index of the first channel of each head, with its row and its head.
fn heads(layout: Layout, rows: &Rows<'_>) -> impl Iterator<Item = (usize, usize, usize)> {
    let (
        Shape {
            batch,
            tokens,
            heads,
            ..
        },
        strides,
    ) = (layout.shape(), layout.strides());
    let (of_sequence, of_head) = (rows.len() != tokens, rows.heads() != 1);
    let each = (0..batch)
        .flat_map(move |b| (0..tokens).flat_map(move |t| (0..heads).map(move |h| (b, t, h))));
    each.map(move |(b, t, h)| {
        let first = b * strides.batch + t * strides.token + h * strides.head;
        (
            first,
            if of_sequence { b * tokens + t } else { t },
            if of_head { h } else { 0 },
        )
    })
}

/// Copies heads from one layout into another of the same shape.
pub(crate) fn copy<E: Copy>(
    from: &[E],
    source: Layout,
    into: &mut [E],
    target: Layout,
    rows: &Rows<'_>,
) {
    let channels = source.shape().head_dim;
    for ((from_first, ..), (into_first, ..)) in heads(source, rows).zip(heads(target, rows)) {
        into[into_first..][..channels].copy_from_slice(&from[from_first..][..channels]);
    }
}

/// Rotates heads where they lie; the shapes were checked.
pub(crate) fn rotate<E: Number>(
    x: &mut [E],
    layout: Layout,
    plan: &Plan,
    rows: &Rows<'_>,
) -> Result<()> {
    let pairs = rows.rotary_dim() / 2;
    let channels = |pairing: Pairing, pair: usize| match pairing {
        Pairing::Half => (pair, pair + pairs),
        Pairing::Interleaved => (2 * pair, 2 * pair + 1),
    };
    let sign = if plan.direction == Direction::Forward {
        1.0
    } else {
        -1.0
    };
    let mut before = vec![E::rounded(0.0); 2 * pairs];
    for (first, row, head) in heads(layout, rows) {
        let (cos, sin) = rows
            .row_of(row, head)
            .ok_or_else(|| Failure::new("a row is missing"))?;
        let rotated = &mut x[first..][..2 * pairs];
        before.copy_from_slice(rotated);
        for (pair, (cos, sin)) in cos.iter().zip(sin).enumerate() {
            let (from, into) = (channels(plan.input, pair), channels(plan.output, pair));
            let (x1, x2): (f32, f32) = (before[from.0].into(), before[from.1].into());
            let sin = sign * sin;
            let product = |a: f32, b: f32| -> f32 { E::rounded(a * b).into() };
            rotated[into.0] = E::rounded(product(x1, *cos) + product(-x2, sin));
            rotated[into.1] = E::rounded(product(x2, *cos) + product(x1, sin));
        }
    }
    Ok(())
}
