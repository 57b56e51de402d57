//! Tensors of heads: their layout as rope-core has it, copies, and new ones.

use rope_core::{Layout, Strides};

use crate::plan::Plan;
use crate::shim::{Dtype, Failure, Result, Tensor};

/// Numbers for each dimension as `[batch, tokens, heads, channels]`; three dimensions have no batch.
fn four(x: &Tensor, numbers: &[usize], batch: usize, plan: &Plan) -> Result<[usize; 4]> {
    match *numbers {
        [second, third, channels] => Ok(Plan::sorted(
            [batch, second, third, channels],
            plan.tokens_major,
        )),
        [batch, second, third, channels] => Ok(Plan::sorted(
            [batch, second, third, channels],
            plan.tokens_major,
        )),
        _ => Err(Failure::new(format!(
            "{} is {:?}; it must be [batch, {order}, head_dim] or [{order}, head_dim]",
            x.name(),
            x.sizes(),
            order = if plan.tokens_major {
                "tokens, heads"
            } else {
                "heads, tokens"
            },
        ))),
    }
}

/// `[batch, tokens, heads, head_dim]`.
pub(crate) fn extents(x: &Tensor, plan: &Plan) -> Result<[usize; 4]> {
    four(x, x.sizes(), 1, plan)
}

/// Returns true if the channels of a head are contiguous, as the kernels need them.
fn has_adjacent_channels(x: &Tensor) -> bool {
    let last = (x.sizes().last(), x.strides().last());
    matches!(last, (Some(0 | 1), _) | (_, Some(1)))
}

/// Where the elements lie.
pub(crate) fn layout(x: &Tensor, plan: &Plan) -> Result<Layout> {
    let [batch, token, head, channel] = four(x, x.strides(), 0, plan)?;
    if !has_adjacent_channels(x) {
        return Err(Failure::new(format!(
            "{} has a stride of {channel} between the channels of a head; it must be 1: call contiguous()",
            x.name()
        )));
    }
    Ok(Layout::strided(
        extents(x, plan)?,
        Strides { batch, token, head },
    )?)
}

/// The tensor, or a copy of it whose channels are contiguous.
pub(crate) fn with_adjacent_channels(x: Tensor) -> Result<Tensor> {
    if has_adjacent_channels(&x) || !(3..=4).contains(&x.sizes().len()) {
        return Ok(x);
    }
    let mut copy = like(x.name(), &x)?;
    copy.copy_from(&x)?;
    Ok(copy)
}

/// An uninitialized tensor of the same shape, without gaps. Of the two dimensions before the last, which are heads and
/// tokens, that with the longer stride has the longer one here too: attention reads the result in the order in which
/// the projection wrote `x`.
pub(crate) fn like(name: &'static str, x: &Tensor) -> Result<Tensor> {
    let sizes = x.sizes();
    let mut order = [0, 1, 2, 3, 4];
    let order = &mut order[..sizes.len()];
    if let [.., second, third, _] = *x.strides()
        && second < third
    {
        let last = order.len() - 1;
        order.swap(last - 2, last - 1);
    }
    let (mut strides, mut next) = ([0; Tensor::MAX_RANK], 1_usize);
    for &mut dimension in order.iter_mut().rev() {
        strides[dimension] = next;
        next = next
            .checked_mul(sizes[dimension].max(1))
            .ok_or_else(|| Failure::new(format!("{} is too large", x.name())))?;
    }
    Tensor::uninitialized(name, sizes, &strides[..sizes.len()], x.dtype())
}

/// Refuses Q and K that are known to have elements in common. Views of one projection have equal strides from token to
/// token and from sequence to sequence; if they share anything, a head of the first token of one lies on the other.
pub(crate) fn check_apart(q: (&Tensor, Layout), k: (&Tensor, Layout)) -> Result<()> {
    match q.0.overlaps(k.0) && (begins_on(q, k) || begins_on(k, q)) {
        false => Ok(()),
        true => Err(Failure::new(
            "q and k have elements in common, which would be rotated twice",
        )),
    }
}

/// Returns true if a head of the first token of a tensor shares a byte with another tensor, whose heads are as long.
fn begins_on((x, x_layout): (&Tensor, Layout), (y, y_layout): (&Tensor, Layout)) -> bool {
    let (shape, strides) = (y_layout.shape(), y_layout.strides());
    // The stride of one index may be any number.
    let mut dimensions = [
        (shape.batch, strides.batch),
        (shape.tokens, strides.token),
        (shape.heads, strides.head),
    ]
    .map(|(extent, stride)| (extent, stride.saturating_mul(y.element_size())));
    dimensions.sort_by_key(|&(_, stride)| std::cmp::Reverse(stride));
    let begin = y.memory().start;
    let covers = |address: usize| {
        address.checked_sub(begin).is_some_and(|mut rest| {
            for (extent, stride) in dimensions {
                let index = rest.checked_div(stride).unwrap_or(0);
                rest -= index.min(extent - 1) * stride;
            }
            rest < shape.head_dim * y.element_size()
        })
    };
    let (own, empty) = (
        x_layout.shape(),
        x.memory().is_empty() || y.memory().is_empty(),
    );
    let first = |head| x.memory().start + head * x_layout.strides().head * x.element_size();
    !empty
        && (0..own.heads)
            .map(first)
            .any(|at| covers(at) || covers(at + own.head_dim * x.element_size() - 1))
}

pub(crate) fn unsupported(x: &Tensor) -> Failure {
    let dtype: Dtype = x.dtype();
    Failure::new(format!(
        "{} is {dtype:?}; operators rotate float32, bfloat16 and float16",
        x.name()
    ))
}

/// Evaluates `$body` with `$E` as the type of a tensor's elements, if rope-core rotates it.
macro_rules! with_elements {
    ($x:expr, $E:ident => $body:expr) => {
        match $x.dtype() {
            $crate::shim::Dtype::Float32 => {
                type $E = f32;
                $body
            }
            _ => $crate::tensor::with_short_elements!($x, $E => $body),
        }
    };
}

/// Evaluates `$body` with `$E` as the type of a tensor's elements, if it has 16 bits and rope-core rotates it.
macro_rules! with_short_elements {
    ($x:expr, $E:ident => $body:expr) => {
        match $x.dtype() {
            $crate::shim::Dtype::Bfloat16 => {
                type $E = rope_core::half::bf16;
                $body
            }
            $crate::shim::Dtype::Float16 => {
                type $E = rope_core::half::f16;
                $body
            }
            _ => Err($crate::tensor::unsupported(&$x)),
        }
    };
}
pub(crate) use {with_elements, with_short_elements};
