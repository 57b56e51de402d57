//! The operation on Flex: selected by the tensor's backend, and run by burn's dispatch, with or without autodiff.

use core::ops::ControlFlow;

use burn_core as burn;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, DispatchTensorKind, Flex, backend_extension};
use burn::tensor::Tensor;
use rope_core::{Pairing, Rope};

use crate::{RotaryRows, flex};

/// Rotates `x` if it is on Flex, with an element of rope-core; otherwise returns it.
///
/// `x` and the rows must match; `shape` is `[batch, heads, tokens, head_dim]`.
pub(crate) fn rotate<const D: usize>(
    x: Tensor<D>,
    shape: [usize; 4],
    rows: &RotaryRows,
    pairing: Pairing,
) -> ControlFlow<Tensor<D>, Tensor<D>> {
    let (dims, dtype) = (x.dims(), x.dtype());
    let x = x.into_dispatch();
    if !(is_on_flex(&x.kind) && flex::rotates(dtype)) {
        return ControlFlow::Continue(Tensor::from_dispatch(x));
    }
    // Up to four dimensions, as in rope-core, are kept: reshaping a strided tensor copies it.
    let x = match D {
        ..=4 => x,
        _ => Tensor::<D>::from_dispatch(x).reshape(shape).into_dispatch(),
    };
    let RotaryRows { cos, sin } = rows.clone();
    let (cos, sin) = (cos.into_dispatch(), sin.into_dispatch());
    let y = Dispatch::rotary(x, cos, sin, Rope::new(pairing));
    ControlFlow::Break(match D {
        ..=4 => Tensor::from_dispatch(y),
        _ => Tensor::<4>::from_dispatch(y).reshape(dims),
    })
}

/// Returns true if a tensor is on Flex, with or without autodiff.
fn is_on_flex(kind: &DispatchTensorKind) -> bool {
    match kind {
        DispatchTensorKind::Autodiff(inner) => is_on_flex(inner),
        kind => matches!(kind, DispatchTensorKind::Flex(_)),
    }
}

/// The operation of Flex and its autodiff.
#[backend_extension(Flex, Autodiff)]
pub(crate) trait RotaryOperation: Backend {
    /// Rotates `x`, of two to four dimensions, by matching cos and sin.
    fn rotary(
        x: FloatTensor<Self>,
        cos: FloatTensor<Self>,
        sin: FloatTensor<Self>,
        rope: Rope,
    ) -> FloatTensor<Self>;
}

impl RotaryOperation for Flex {
    fn rotary(
        x: FloatTensor<Self>,
        cos: FloatTensor<Self>,
        sin: FloatTensor<Self>,
        rope: Rope,
    ) -> FloatTensor<Self> {
        flex::rotate(x, &cos, &sin, rope)
    }
}
