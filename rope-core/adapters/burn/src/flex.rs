//! rope-core on the tensors of Flex, which share the memory.

use alloc::vec;
use alloc::vec::Vec;

use burn_core::backend::Flex;
use burn_core::backend::flex::FlexTensor;
use burn_core::backend::ops::FloatTensorOps;
use burn_core::tensor::{DType, Element as BurnElement, TensorData, bf16, f16};
use rope_core::gradient::PairGradients;
use rope_core::{Element, Layout, Rope, Rows, Strides, Tensor, TensorMut};

/// Returns true if rope-core has kernels for elements of this type.
pub(crate) fn rotates(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F16 | DType::BF16)
}

/// Calls a function for the type of a tensor's elements, which [`rotates`] accepts.
macro_rules! for_element {
    ($tensor:expr, $function:ident($($argument:expr),*)) => {
        match $tensor.dtype() {
            DType::F32 => $function::<f32>($($argument),*),
            DType::F16 => $function::<f16>($($argument),*),
            DType::BF16 => $function::<bf16>($($argument),*),
            dtype => unreachable!("a rotation of {dtype:?} was asked of Flex"),
        }
    };
}

mod autodiff;
pub(crate) mod cache;
pub(crate) mod norm;
pub(crate) mod operation;

/// Rotates `x`, of two to four dimensions, by cos and sin of shape `[sequences, heads, tokens, pairs]`: in place if
/// possible, and otherwise into new memory.
///
/// # Panics
///
/// If they do not match, which [`rotate`](crate::rotate) has checked.
pub(crate) fn rotate(x: FlexTensor, cos: &FlexTensor, sin: &FlexTensor, rope: Rope) -> FlexTensor {
    let [cos, sin] = alike(cos, sin);
    let rotated = rows_of(&cos, &sin)
        .and_then(|rows| for_element!(x, rotate_elements(readable(x), &rows, rope)));
    rotated.unwrap_or_else(|error| panic!("rotary position embedding: {error}"))
}

fn rotate_elements<E: Element + BurnElement>(
    x: FlexTensor,
    rows: &Rows<'_>,
    rope: Rope,
) -> Result<FlexTensor, rope_core::Error> {
    #[cfg(feature = "rayon")]
    let rope = rope.with_threads();
    let (in_place, across) = (
        |x: &mut TensorMut<'_, E>| rope.rotate(x, rows),
        |x: &Tensor<'_, E>, y: &mut TensorMut<'_, E>| rope.rotate_into(x, y, rows),
    );
    each_element::<E>(x, in_place, across)
}

/// Applies one of two functions to a [`readable`] tensor: in place if it is the only handle of its memory, and
/// otherwise into new memory.
fn each_element<E: Element + BurnElement>(
    mut x: FlexTensor,
    in_place: impl FnOnce(&mut TensorMut<'_, E>) -> Result<(), rope_core::Error>,
    across: impl FnOnce(&Tensor<'_, E>, &mut TensorMut<'_, E>) -> Result<(), rope_core::Error>,
) -> Result<FlexTensor, rope_core::Error> {
    let layout = layout(&x)?;
    let start = x.layout().start_offset();
    let own = x.try_storage_mut::<E>();
    let own = own.map(|storage| storage.get_mut(start..).unwrap_or_default());
    // A broadcast tensor has elements that coincide, and is refused.
    if let Some(Ok(mut target)) = own.map(|elements| TensorMut::new(elements, layout)) {
        in_place(&mut target)?;
        return Ok(x);
    }
    let mut y = FlexTensor::empty(x.layout().shape().clone(), x.dtype());
    let [batch, heads, tokens, head_dim] = extents(&x).map(|(extent, _)| extent);
    let source = Tensor::new(elements::<E>(&x), layout)?;
    let dense = Layout::bhsd([batch, heads, tokens, head_dim])?;
    let mut target = TensorMut::new(y.storage_mut::<E>(), dense)?;
    across(&source, &mut target)?;
    Ok(y)
}

/// Returns the gradients of cos and sin, of their shape `[sequences, heads, tokens, pairs]`: sums over everything that
/// shares them, from `x`, the tensor before the rotation, and `dy`, the gradient of the one after it.
///
/// # Panics
///
/// As [`rotate`].
pub(crate) fn cos_sin_gradients(
    x: FlexTensor,
    dy: FlexTensor,
    shape: [usize; 4],
    rope: Rope,
) -> [FlexTensor; 2] {
    let [x, dy] = [x, dy].map(readable);
    let [sequences, heads, tokens, pairs] = shape;
    let rows = [sequences * tokens, heads, pairs];
    let sums = for_element!(x, sum_elements(&x, &dy, rows, rope));
    let sums = sums.unwrap_or_else(|error| panic!("gradients of cos and sin: {error}"));
    sums.map(|sums| {
        let data = TensorData::new(sums, [sequences, tokens, heads, pairs]);
        Flex::float_swap_dims(FlexTensor::from_data(data), 1, 2)
    })
}

fn sum_elements<E: Element + BurnElement>(
    x: &FlexTensor,
    dy: &FlexTensor,
    [rows, heads, pairs]: [usize; 3],
    rope: Rope,
) -> Result<[Vec<f32>; 2], rope_core::Error> {
    let mut sums = [(); 2].map(|()| vec![0.0_f64; rows * heads * pairs]);
    let [cos, sin] = &mut sums;
    rope.cos_sin_gradients(
        &Tensor::new(elements::<E>(x), layout(x)?)?,
        &Tensor::new(elements::<E>(dy), layout(dy)?)?,
        &mut PairGradients::new(cos, [rows, heads, pairs])?,
        &mut PairGradients::new(sin, [rows, heads, pairs])?,
    )?;
    Ok(sums.map(|sums| sums.into_iter().map(|sum| sum as f32).collect()))
}

/// Returns the tensor itself if rope-core can read it, and otherwise a copy: strides must not be negative, and channels
/// must be contiguous.
fn readable(x: FlexTensor) -> FlexTensor {
    let strides = x.layout().strides();
    if strides.iter().all(|&stride| stride >= 0) && strides.last() == Some(&1) {
        return x;
    }
    x.to_contiguous()
}

/// Returns cos and sin with the same strides.
fn alike(cos: &FlexTensor, sin: &FlexTensor) -> [FlexTensor; 2] {
    let [a, b] = [cos.clone(), sin.clone()].map(readable);
    if a.layout().strides() == b.layout().strides() {
        return [a, b];
    }
    [a, b].map(|tensor| tensor.to_contiguous())
}

/// Views cos and sin as rows.
fn rows_of<'a>(cos: &'a FlexTensor, sin: &'a FlexTensor) -> Result<Rows<'a>, rope_core::Error> {
    Rows::strided(elements(cos), elements(sin), layout(cos)?)
}

/// Returns the elements from the first one on; none if the tensor is empty.
fn elements<E: Element + BurnElement>(x: &FlexTensor) -> &[E] {
    let start = x.layout().start_offset();
    x.storage().get(start..).unwrap_or_default()
}

/// Returns extent and stride of each dimension, `[batch, heads, tokens, head_dim]`, of a tensor of two to four.
fn extents(x: &FlexTensor) -> [(usize, usize); 4] {
    let (shape, strides) = (x.layout().shape(), x.layout().strides());
    let of = |dimension: usize| (shape[dimension], strides[dimension].unsigned_abs());
    match strides.len() {
        2 => [(1, 0), (1, 0), of(0), of(1)],
        3 => [of(0), (1, 0), of(1), of(2)],
        _ => [of(0), of(1), of(2), of(3)],
    }
}

/// Returns the layout of a [`readable`] tensor, from its first element on.
fn layout(x: &FlexTensor) -> Result<Layout, rope_core::Error> {
    let [
        (batch, sequence),
        (heads, head),
        (tokens, token),
        (head_dim, _),
    ] = extents(x);
    Layout::strided(
        [batch, tokens, heads, head_dim],
        Strides {
            batch: sequence,
            token,
            head,
        },
    )
}
