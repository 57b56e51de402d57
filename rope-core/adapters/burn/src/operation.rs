//! The operation: its arguments are checked here, once; then rope-core rotates tensors on Flex, and burn's tensor
//! operations all others.

#[cfg(feature = "flex")]
use core::ops::ControlFlow;

use burn_core as burn;

use burn::tensor::{DType, Tensor};
use rope_core::Pairing;
use rope_core::error::RowsError;

use crate::{Error, RotaryRows, tensor_operations};

/// Rotates `x`, of shape `[.., tokens, head_dim]`, by rows: the first `rows.rotary_dim()` channels of every head. The
/// others pass through.
///
/// The first dimension of three or more is the batch, and dimensions between it and the tokens are heads: `[batch,
/// heads, tokens, head_dim]`, `[batch, tokens, head_dim]`, `[tokens, head_dim]`.
///
/// On Flex rope-core rotates `f32`, `f16` and `bf16`: with the strides of `x` (`swap_dims` costs no copy; negative
/// strides and channels that are not contiguous cost one), and in place if `x` is the only handle of its memory. On
/// other backends, and for other types, a few tensor operations compute the same numbers. The arithmetic is that of
/// `f32` (of `f64` for `f64`), whatever the type of `x`.
///
/// Gradients flow to `x`, and to cos and sin if they are tracked; on Flex the latter are summed in `f64`.
///
/// ```
/// use burn::tensor::{Device, Distribution, Tensor};
/// use rope_burn::{RotaryRows, rotate};
/// use rope_core::{Frequencies, Pairing, Scaling};
///
/// let device = Device::flex();
/// let frequencies = Frequencies::new(64, 10_000.0, &Scaling::Default)?;
/// let rows = RotaryRows::at(&frequencies, 0..5, 1, &device)?;        // once per forward step
/// let q = Tensor::<4>::random([1, 5, 8, 64], Distribution::Default, &device).swap_dims(1, 2);
/// let q = rotate(q, &rows, Pairing::Half)?;                           // per layer
/// assert_eq!(q.dims(), [1, 8, 5, 64]);
/// # Ok::<(), rope_burn::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::Dimensions`] if `x` has fewer than two dimensions; [`Error::TensorType`] for quantized elements;
/// [`Error::RowsShape`] if the rows have other sequences, heads or tokens; [`Error::Rope`]
/// ([`rope_core::error::RowsError::RotaryDimExceedsHead`]) if they rotate more channels than a head has;
/// [`Error::Device`] if they are on another device.
///
/// # Panics
///
/// As burn's operations do, if `x`, cos and sin differ in their gradient checkpointing.
pub fn rotate<const D: usize>(
    x: Tensor<D>,
    rows: &RotaryRows,
    pairing: Pairing,
) -> Result<Tensor<D>, Error> {
    let shape = check(&x, rows)?;
    #[cfg(feature = "flex")]
    let x = match crate::flex::operation::rotate(x, shape, rows, pairing) {
        ControlFlow::Break(rotated) => return Ok(rotated),
        ControlFlow::Continue(elsewhere) => elsewhere,
    };
    let dims = x.dims();
    let RotaryRows { cos, sin } = rows.clone();
    Ok(tensor_operations::rotate(x.reshape(shape), cos, sin, pairing).reshape(dims))
}

/// Returns the shape `[batch, heads, tokens, head_dim]` of a tensor that matches the rows.
pub(crate) fn check<const D: usize>(x: &Tensor<D>, rows: &RotaryRows) -> Result<[usize; 4], Error> {
    let (dims, dtype) = (x.dims(), x.dtype());
    if !matches!(
        dtype,
        DType::F32 | DType::F16 | DType::BF16 | DType::Flex32 | DType::F64
    ) {
        return Err(Error::TensorType { dtype });
    }
    let (batch, heads, tokens, head_dim) = match dims[..] {
        [tokens, head_dim] => (1, 1, tokens, head_dim),
        [batch, ref heads @ .., tokens, head_dim] => {
            (batch, heads.iter().product(), tokens, head_dim)
        }
        _ => return Err(Error::Dimensions { dimensions: D }),
    };
    let shape = [batch, heads, tokens, head_dim];
    let row_shape = rows.dims();
    let [sequences, row_heads, row_tokens, pairs] = row_shape;
    if (sequences != 1 && sequences != batch)
        || (row_heads != 1 && row_heads != heads)
        || row_tokens != tokens
    {
        return Err(Error::RowsShape {
            rows: row_shape,
            x: shape,
        });
    }
    let rotary_dim = 2 * pairs;
    if rotary_dim > head_dim {
        return Err(rope_core::Error::Rows(RowsError::RotaryDimExceedsHead {
            rotary_dim,
            head_dim,
        })
        .into());
    }
    let device = x.device();
    for rows in [rows.cos.device(), rows.sin.device()] {
        if rows != device {
            return Err(Error::Device {
                rows: rows.into(),
                x: device.into(),
            });
        }
    }
    Ok(shape)
}
