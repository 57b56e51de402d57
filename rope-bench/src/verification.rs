//! Every backend on the Q and K of real models, bit for bit.
//!
//! f32 is compared with what PyTorch computed. bf16 and f16 are compared with the formula evaluated in f32 and rounded
//! once (PyTorch rounds every step, which is worse). Where input and output pair alike the rotation is done in place
//! and into another tensor; where they do not, only into another.

use anyhow::Result;
use rope_core::{Backend, Layout, Rope, Rows, Tensor, TensorMut};
use serde::{Deserialize, Serialize};

use crate::cases::{Element, Float};
use crate::golden::{FILES, Golden};

/// One element on one backend with the data of one model.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Verified {
    /// The model.
    pub model: String,
    /// How its channels pair.
    pub layout: String,
    /// The backend.
    pub backend: String,
    /// The element.
    pub element: String,
    /// Values compared.
    pub values: usize,
    /// Values with a wrong bit.
    pub wrong: usize,
    /// The first of them, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<String>,
}

/// Verifies these backends on all embedded files, and shows each model and backend as it is done.
pub fn verify(backends: &[Backend], mut show: impl FnMut(&[Verified])) -> Result<Vec<Verified>> {
    let mut lines = Vec::new();
    for (_, text) in FILES {
        let golden = Golden::parse(text)?;
        for &backend in backends {
            let elements = [
                element::<f32>(&golden, backend)?,
                element::<half::bf16>(&golden, backend)?,
                element::<half::f16>(&golden, backend)?,
            ];
            show(&elements);
            lines.extend(elements);
        }
    }
    Ok(lines)
}

fn element<E: Float>(golden: &Golden, backend: Backend) -> Result<Verified> {
    let Golden {
        head_dim,
        rotary_offset,
        rotary_dim,
        tokens,
        input,
        output,
        ..
    } = *golden;
    let rows = Rows::from_cos_sin(
        &golden.cos,
        &golden.sin,
        [tokens, rotary_dim / 2],
        rotary_dim,
    )?;
    let rope = Rope::new(input).output_pairing(output).backend(backend)?;
    let mut line = Verified {
        model: golden.name.clone(),
        layout: layout_name(golden),
        backend: backend.name().into(),
        element: E::ELEMENT.name().into(),
        values: 0,
        wrong: 0,
        first: None,
    };
    for tensor in &golden.tensors {
        let x: Vec<E> = match E::ELEMENT {
            Element::F32 => tensor.input_f32.iter().map(|&x| E::round(x)).collect(),
            Element::Bf16 => bytemuck::cast_slice(&tensor.input_bf16).to_vec(),
            Element::F16 => bytemuck::cast_slice(&tensor.input_f16).to_vec(),
        };
        let expected: Vec<E> = match E::ELEMENT {
            Element::F32 => tensor.output_f32.iter().map(|&x| E::round(x)).collect(),
            Element::Bf16 | Element::F16 => plain(golden, tensor.heads, &x),
        };
        let layout =
            Layout::bshd([1, tokens, tensor.heads, head_dim])?.channels(rotary_offset..head_dim)?;
        let mut compare = |way: &str, result: &[E]| {
            for (index, (result, expected)) in result.iter().zip(&expected).enumerate() {
                line.values += 1;
                if bytemuck::bytes_of(result) != bytemuck::bytes_of(expected) {
                    line.wrong += 1;
                    line.first.get_or_insert_with(|| {
                        let (token, head) = (
                            index / (tensor.heads * head_dim),
                            index / head_dim % tensor.heads,
                        );
                        format!(
                            "{way}, {} token {token} head {head} channel {}: {:e} instead of {:e}",
                            tensor.name,
                            index % head_dim,
                            result.widen(),
                            expected.widen()
                        )
                    });
                }
            }
        };
        if input == output {
            let mut y = x.clone();
            rope.rotate(&mut TensorMut::new(&mut y, layout)?, &rows)?;
            compare("in place", &y);
        }
        let mut y = x.clone();
        rope.rotate_into(
            &Tensor::new(&x, layout)?,
            &mut TensorMut::new(&mut y, layout)?,
            &rows,
        )?;
        compare("into another tensor", &y);
    }
    Ok(line)
}

/// The formula, one pair at a time.
fn plain<E: Float>(golden: &Golden, heads: usize, x: &[E]) -> Vec<E> {
    let Golden {
        head_dim,
        rotary_offset,
        rotary_dim,
        ..
    } = *golden;
    let pairs = rotary_dim / 2;
    let channels = |pairing, i| match pairing {
        rope_core::Pairing::Half => (i, i + pairs),
        rope_core::Pairing::Interleaved => (2 * i, 2 * i + 1),
    };
    let mut y = x.to_vec();
    for (index, (from, to)) in x.chunks(head_dim).zip(y.chunks_mut(head_dim)).enumerate() {
        let token = index / heads;
        let (from, to) = (&from[rotary_offset..], &mut to[rotary_offset..]);
        for i in 0..pairs {
            let (cos, sin) = (golden.cos[token * pairs + i], golden.sin[token * pairs + i]);
            let (first, second) = channels(golden.input, i);
            let (a, b) = (from[first].widen(), from[second].widen());
            let (first, second) = channels(golden.output, i);
            to[first] = E::round(a * cos - b * sin);
            to[second] = E::round(a * sin + b * cos);
        }
    }
    y
}

fn layout_name(golden: &Golden) -> String {
    let Golden {
        head_dim,
        rotary_offset,
        rotary_dim,
        input,
        output,
        ..
    } = golden;
    let mut name = if input == output {
        input.to_string()
    } else {
        format!("{input} to {output}")
    };
    if rotary_dim != head_dim {
        name += &format!(
            ", channels {rotary_offset}..{} of {head_dim}",
            rotary_offset + rotary_dim
        );
    }
    name
}
