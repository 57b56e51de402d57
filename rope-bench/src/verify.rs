//! Every backend on the Q and K of real models, bit for bit.
//!
//! f32 is compared with PyTorch's results. bf16 and f16 are compared with the formula evaluated in f32 and rounded once
//! (PyTorch rounds every step, which is worse). If input and output have the same pairing, the rotation runs in place
//! and into another tensor; otherwise only into another.

pub mod golden;
pub mod oracle;

use anyhow::Result;
use rope_core::{Backend, Dimension, Layout, Pairing, Rope, Rows, Tensor, TensorMut};
use rope_report::results::Verified;

use crate::cases::{Element, Float};
use crate::verify::golden::{FILES, Golden};

/// Verifies these backends on all embedded files, and shows each model and backend when it is done.
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

fn element<E: Float>(golden: &Golden<'_>, backend: Backend) -> Result<Verified> {
    let (dim, rotary_dim) = (golden.head_dim, golden.rotary_dim);
    let shape = [golden.tokens, rotary_dim / 2];
    let rows = Rows::from_cos_sin(&golden.cos, &golden.sin, shape, rotary_dim)?;
    let rope = Rope::new(golden.input).with_output_pairing(golden.output);
    let rope = rope.with_backend(backend)?;
    let mut line = Verified {
        model: golden.name.into(),
        layout: layout_name(golden),
        backend: backend.name().into(),
        element: E::ELEMENT.name().into(),
        ..Verified::default()
    };
    for tensor in ["q", "k"] {
        let heads = golden.heads(tensor)?;
        let x: Vec<E> = golden.values(tensor, "in")?;
        let expected = match E::ELEMENT {
            Element::F32 => golden.values(tensor, "hf")?,
            Element::Bf16 | Element::F16 => plain(golden, heads, &x),
        };
        let layout = Layout::bshd([1, golden.tokens, heads, dim])?;
        let layout = layout.narrow(Dimension::Channels, golden.rotary_offset..dim)?;
        let mut compare = |way: &str, result: &[E]| {
            for (index, (result, expected)) in result.iter().zip(&expected).enumerate() {
                line.values += 1;
                if bytemuck::bytes_of(result) != bytemuck::bytes_of(expected) {
                    line.wrong += 1;
                    line.first.get_or_insert_with(|| {
                        let (token, head) = (index / (heads * dim), index / dim % heads);
                        let (channel, result, expected) =
                            (index % dim, result.widen(), expected.widen());
                        let at = format!("{tensor} token {token} head {head} channel {channel}");
                        format!("{way}, {at}: {result:e} instead of {expected:e}")
                    });
                }
            }
        };
        if golden.input == golden.output {
            let mut y = x.clone();
            rope.rotate(&mut TensorMut::new(&mut y, layout)?, &rows)?;
            compare("in place", &y);
        }
        let mut y = x.clone();
        let (from, mut to) = (Tensor::new(&x, layout)?, TensorMut::new(&mut y, layout)?);
        rope.rotate_into(&from, &mut to, &rows)?;
        compare("into another tensor", &y);
    }
    Ok(line)
}

/// Computes the formula, one pair at a time.
fn plain<E: Float>(golden: &Golden<'_>, heads: usize, x: &[E]) -> Vec<E> {
    let (offset, pairs) = (golden.rotary_offset, golden.rotary_dim / 2);
    let channels = |pairing, i| match pairing {
        Pairing::Half => (i, i + pairs),
        Pairing::Interleaved => (2 * i, 2 * i + 1),
    };
    let mut y = x.to_vec();
    let of_heads = x.chunks(golden.head_dim).zip(y.chunks_mut(golden.head_dim));
    for (index, (from, to)) in of_heads.enumerate() {
        let row = index / heads * pairs;
        let (from, to) = (&from[offset..], &mut to[offset..]);
        for i in 0..pairs {
            let (cos, sin) = (golden.cos[row + i], golden.sin[row + i]);
            let (first, second) = channels(golden.input, i);
            let (a, b) = (from[first].widen(), from[second].widen());
            let (first, second) = channels(golden.output, i);
            to[first] = E::round(a * cos - b * sin);
            to[second] = E::round(a * sin + b * cos);
        }
    }
    y
}

fn layout_name(golden: &Golden<'_>) -> String {
    let mut name = golden.input.to_string();
    if golden.input != golden.output {
        name += &format!(" to {}", golden.output);
    }
    let (start, dim) = (golden.rotary_offset, golden.head_dim);
    if golden.rotary_dim != dim {
        name += &format!(", channels {start}..{} of {dim}", start + golden.rotary_dim);
    }
    name
}
