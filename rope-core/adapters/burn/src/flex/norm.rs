//! A norm and a rotation in one pass.

use burn_core::backend::Flex;
use burn_core::backend::flex::FlexTensor;
use burn_core::tensor::kind::Basic;
use burn_core::tensor::{BackendPrimitive, DType, Element as BurnElement, Tensor, bf16, f16};
use rope_core::norm::Norm;
use rope_core::{Element, Pairing, Rope, Rows};

use super::{alike, each_element, readable, rotates, rows_of};
use crate::{Error, RotaryRows, operation};

/// Norms `x`, of shape `[.., tokens, head_dim]`, and rotates it by rows, in one pass: [`rotate`](crate::rotate) after
/// the norm of a model. rope-core's [`Norm`] has its formula, eps, reach, order and weights.
///
/// Flex only, and without a gradient. On other backends, and in training, call a norm of burn and then
/// [`rotate`](crate::rotate).
///
/// ```
/// use burn::tensor::{DType, Device, Distribution, Tensor};
/// use rope_burn::rope_core::norm::{Norm, NormFormula};
/// use rope_burn::rope_core::{Frequencies, Pairing, Scaling};
/// use rope_burn::{RotaryRows, norm_rotate};
///
/// let device = Device::flex();
/// let rows = RotaryRows::at(&Frequencies::new(64, 1e6, &Scaling::Default)?, 0..5, 1, &device)?;
/// // once per model: Qwen3's `q_norm`
/// let weight = Tensor::<1>::ones([64], &device).to_data();
/// let weight = weight.as_slice::<f32>().expect("f32");
/// // per layer
/// let q = Tensor::<4>::random([1, 8, 5, 64], Distribution::Default, &device);
/// let norm = Norm::new(NormFormula::LLAMA, 1e-6).with_weight(weight);
/// let q = norm_rotate(q, norm, &rows, Pairing::Half)?;
/// # let _ = q;
/// # Ok::<(), rope_burn::Error>(())
/// ```
///
/// # Errors
///
/// The errors of [`rotate`](crate::rotate); [`Error::Fused`] if a tensor is not on Flex, is on a device with autodiff,
/// or `x` is not `f32`, `f16` or `bf16`; [`Error::Rope`] with the errors of [`rope_core::Rope::rotate`] for a norm.
pub fn norm_rotate<const D: usize>(
    x: Tensor<D>,
    norm: Norm<'_>,
    rows: &RotaryRows,
    pairing: Pairing,
) -> Result<Tensor<D>, Error> {
    let (shape, dims) = (operation::check(&x, rows)?, x.dims());
    let rope = Rope::new(pairing).with_norm(norm);
    // Up to four dimensions, as in rope-core, are kept: reshaping a strided tensor copies it.
    let x = match D {
        ..=4 => on_flex("x", x, rotates)?,
        _ => on_flex("x", x.reshape(shape), rotates)?,
    };
    let x = readable(x);
    let y = with_rows(rows, |rows| for_element!(x, norm_elements(x, rows, &rope)))?;
    let y = if D > 4 { y.reshape(dims.into()) } else { y };
    Ok(Tensor::from_primitive::<Flex>(y))
}

fn norm_elements<E: Element + BurnElement>(
    x: FlexTensor,
    rows: &Rows<'_>,
    rope: &Rope<rope_core::stages::Normed<'_>>,
) -> Result<FlexTensor, Error> {
    Ok(each_element::<E>(
        x,
        |x| rope.rotate(x, rows),
        |x, y| rope.rotate_into(x, y, rows),
    )?)
}

/// Calls a function with rope-core's rows.
pub(super) fn with_rows<T>(
    rows: &RotaryRows,
    run: impl FnOnce(&Rows<'_>) -> Result<T, Error>,
) -> Result<T, Error> {
    let f32 = |dtype| dtype == DType::F32;
    let cos = on_flex("cos", rows.cos.clone(), f32)?;
    let sin = on_flex("sin", rows.sin.clone(), f32)?;
    let [cos, sin] = alike(&cos, &sin);
    run(&rows_of(&cos, &sin)?)
}

/// Returns the tensor of Flex, without tracked gradients.
pub(super) fn on_flex<const D: usize, K>(
    name: &'static str,
    tensor: Tensor<D, K>,
    fits: impl FnOnce(DType) -> bool,
) -> Result<FlexTensor, Error>
where
    K: Basic + BackendPrimitive<Flex, Primitive = FlexTensor>,
{
    let dtype = tensor.dtype();
    match tensor.try_into_primitive::<Flex>() {
        Ok(tensor) if fits(dtype) => Ok(tensor),
        _ => Err(Error::Fused { name, dtype }),
    }
}
