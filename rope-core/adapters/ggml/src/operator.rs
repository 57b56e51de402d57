//! One `ROPE` or `ROPE_BACK`: the check that this backend supports it, and its computation.

use std::slice;

use half::f16;
use llama_cpp_sys_2 as c;
use rope_core::axes::Axes;
use rope_core::{
    Direction, Element, Frequencies, Layout, Positions, Rope, Strides, Tensor, TensorMut,
};

use crate::pairs::{Pair, Parameters};

/// Returns the reason why the backend leaves an operator to others, or `None` if it takes it.
///
/// # Safety
///
/// The sources of an operator `ROPE` or `ROPE_BACK` are those that ggml's constructors give it.
pub unsafe fn unsupported(operator: &c::ggml_tensor) -> Option<String> {
    if ![c::GGML_OP_ROPE, c::GGML_OP_ROPE_BACK].contains(&operator.op) {
        return Some("the operator is neither ROPE nor ROPE_BACK".into());
    }
    // SAFETY: by contract.
    unsafe { check(operator) }.err()
}

/// # Safety
///
/// As [`unsupported`].
unsafe fn check(operator: &c::ggml_tensor) -> Result<(), String> {
    let parameters = Parameters::read(operator)?;
    // SAFETY: by contract.
    let (x, positions, factors) = unsafe { sources(operator) };
    let size = match (x.type_, operator.type_) {
        (c::GGML_TYPE_F32, c::GGML_TYPE_F32) => size_of::<f32>(),
        (c::GGML_TYPE_F16, c::GGML_TYPE_F16) => size_of::<f16>(),
        (from, to) => return Err(format!("types are {from} and {to}; f32 and f16 rotate")),
    };
    for (name, tensor) in [("source", x), ("result", operator)] {
        if tensor.nb[0] != size || tensor.nb.iter().any(|bytes| bytes % size != 0) {
            return Err(format!("the {name}'s strides are {:?} bytes", tensor.nb));
        }
    }
    let tokens = usize::try_from(x.ne[2]).unwrap_or(0);
    if positions.type_ != c::GGML_TYPE_I32
        || positions.nb[0] != size_of::<i32>()
        || positions.ne[0] != (tokens * parameters.axes()) as i64
    {
        return Err("positions are not one i32 after another for each token and axis".into());
    }
    let pairs = parameters.rotary_dim() / 2;
    if let Some(factors) = factors
        && (factors.type_ != c::GGML_TYPE_F32
            || factors.nb[0] != size_of::<f32>()
            || factors.ne[0] < pairs as i64)
    {
        return Err(format!(
            "frequency factors are not {pairs} f32, one after another"
        ));
    }
    // Factors are unknown so far: a bad one is found when the operator is computed.
    frequencies(&parameters, None).map(drop)
}

/// Returns the source, the positions, and the factors that divide frequencies.
///
/// # Safety
///
/// As [`unsupported`].
unsafe fn sources(
    operator: &c::ggml_tensor,
) -> (&c::ggml_tensor, &c::ggml_tensor, Option<&c::ggml_tensor>) {
    let [x, positions, factors, ..] = operator.src;
    // SAFETY: by contract the first two are tensors, the third is one or null.
    unsafe { (&*x, &*positions, factors.as_ref()) }
}

fn frequencies(
    parameters: &Parameters,
    factors: Option<&[f32]>,
) -> Result<Frequencies<'static>, String> {
    let (axes, inverse): (Vec<u8>, Vec<f64>) = parameters
        .pairs(factors)
        .map(|Pair { axis, inverse }| (axis, inverse))
        .unzip();
    Frequencies::from_inverse(Axes::given(&axes), &inverse, parameters.attention_factor())
        .map_err(|error| error.to_string())
}

/// Computes the rotation.
///
/// # Safety
///
/// [`unsupported`] returned nothing, the tensors have memory that may be accessed, and nobody else accesses it.
pub(crate) unsafe fn compute(operator: &c::ggml_tensor) -> Result<(), String> {
    // SAFETY: by contract.
    unsafe {
        if operator.type_ == c::GGML_TYPE_F16 {
            rotate::<f16>(operator)
        } else {
            rotate::<f32>(operator)
        }
    }
}

/// # Safety
///
/// As [`compute`], and the type is `E`.
unsafe fn rotate<E: Element>(operator: &c::ggml_tensor) -> Result<(), String> {
    let parameters = Parameters::read(operator)?;
    // SAFETY: by contract, as is all of the memory below.
    let (x, positions, factors) = unsafe { sources(operator) };
    let factors = factors.map(|factors| {
        // SAFETY: the tensor has this number of contiguous numbers.
        unsafe { slice::from_raw_parts(factors.data.cast(), parameters.rotary_dim() / 2) }
    });
    let frequencies = frequencies(&parameters, factors)?;
    // The axes that pairs follow, out of four.
    let used = x.ne[2] as usize * frequencies.axes();
    // SAFETY: the positions are one per token of each axis, one axis after another.
    let ids: &[i32] = unsafe { slice::from_raw_parts(positions.data.cast(), used) };
    let message = |error: rope_core::Error| error.to_string();
    let rows = frequencies
        .rows(Positions::axis_major(ids))
        .map_err(message)?;
    let direction = if operator.op == c::GGML_OP_ROPE {
        Direction::Forward
    } else {
        Direction::Transpose
    };
    let rope = Rope::new(parameters.pairing())
        .with_direction(direction)
        .with_window(parameters.offset);

    let (from, to) = (layout::<E>(x)?, layout::<E>(operator)?);
    let source = x.data.cast_const().cast::<E>();
    let target = operator.data.cast::<E>();
    if source == target && from == to {
        // SAFETY: the memory of the tensor.
        let data = unsafe { slice::from_raw_parts_mut(target, to.end()) };
        let y = TensorMut::new(data, to);
        return y
            .and_then(|mut y| rope.rotate(&mut y, &rows))
            .map_err(message);
    }
    let apart = source.wrapping_add(from.end()) <= target.cast_const()
        || target.wrapping_add(to.end()).cast_const() <= source;
    if !apart {
        return Err("the result lies across the source".into());
    }
    // SAFETY: the memories of two tensors, which do not overlap.
    let (x, y) = unsafe {
        (
            slice::from_raw_parts(source, from.end()),
            slice::from_raw_parts_mut(target, to.end()),
        )
    };
    let x = Tensor::new(x, from).map_err(message)?;
    let mut y = TensorMut::new(y, to).map_err(message)?;
    rope.rotate_into(&x, &mut y, &rows).map_err(message)
}

/// ggml's dimensions are head_dim, heads, tokens and batch.
fn layout<E>(tensor: &c::ggml_tensor) -> Result<Layout, String> {
    let [head_dim, heads, tokens, batch] = tensor.ne.map(|extent| extent as usize);
    let [_, head, token, sequence] = tensor.nb.map(|bytes| bytes / size_of::<E>());
    let strides = Strides {
        batch: sequence,
        token,
        head,
    };
    Layout::strided([batch, tokens, heads, head_dim], strides).map_err(|error| error.to_string())
}
