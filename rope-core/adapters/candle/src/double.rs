//! f64, which rope-core does not support: candle's own tensor operations, with their gradients.

use candle_core::{D, DType, Result, Tensor};
use rope_core::Pairing;

use crate::tensor::Order;

/// Returns the rotated tensor. The tables have been checked.
pub(crate) fn rotated(
    xs: &Tensor,
    tables: [&Tensor; 2],
    pairing: Pairing,
    order: Order,
) -> Result<Tensor> {
    let [_, tokens, _, head_dim] = order.extents(xs.layout())?;
    let heads = match order {
        Order::HeadsMajor => D::Minus(3),
        Order::TokensMajor => D::Minus2,
    };
    let table = |table: &Tensor| {
        table
            .narrow(D::Minus2, 0, tokens)?
            .to_dtype(DType::F64)?
            .unsqueeze(heads)
    };
    let (cos, sin) = (table(tables[0])?, table(tables[1])?);
    let pairs = head_dim / 2;
    let (x, y) = match pairing {
        Pairing::Half => (
            xs.narrow(D::Minus1, 0, pairs)?,
            xs.narrow(D::Minus1, pairs, pairs)?,
        ),
        Pairing::Interleaved => {
            let mut split = xs.dims().to_vec();
            split.splice(3.., [pairs, 2]);
            let xs = xs.reshape(split)?;
            (xs.get_on_dim(D::Minus1, 0)?, xs.get_on_dim(D::Minus1, 1)?)
        }
    };
    let rotated = [
        (x.broadcast_mul(&cos)? - y.broadcast_mul(&sin)?)?,
        (x.broadcast_mul(&sin)? + y.broadcast_mul(&cos)?)?,
    ];
    match pairing {
        Pairing::Half => Tensor::cat(&rotated, D::Minus1),
        Pairing::Interleaved => Tensor::stack(&rotated, D::Minus1)?.flatten_from(D::Minus2),
    }
}
