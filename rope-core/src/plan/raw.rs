//! Plain rotations of tensors and rows that only extents and slices describe: the C API's checked calls. A call of one
//! token makes neither a plan nor a layout nor rows, which would take longer than the rotation of a head.

use super::Rope;
use crate::describe::tensor::BytesMut;
use crate::execute::lines::TokenHeads;
use crate::kernel::element::Element;
use crate::kernel::elements::InPlaceKernels;
use crate::kernel::line::LineRows;
use crate::proof::{self, Proof};
use crate::{Backend, Error, Layout, Pairing, Rows, Shape, Strides};

/// A tensor whose layout is unchecked.
#[derive(Debug)]
pub struct RawTensor<'a> {
    /// The elements as bytes.
    pub memory: &'a mut [u8],
    /// The extents.
    pub shape: Shape,
    /// The strides.
    pub strides: Strides,
}

/// Rows whose shape is unchecked.
#[derive(Clone, Copy, Debug)]
pub struct RawRows<'a> {
    /// The cos of each row, with its sin after them if `sin` is `None`.
    pub cos: &'a [f32],
    /// The sin of each row.
    pub sin: Option<&'a [f32]>,
    /// Channels that rotate.
    pub rotary_dim: usize,
    /// Values of a row of `cos`.
    pub width: usize,
}

/// The kernels that rotate an element in place, and its size.
#[derive(Clone, Copy, Debug)]
pub struct InPlace(&'static InPlaceKernels, usize);

impl InPlace {
    /// Returns the kernels of an element.
    #[inline(always)]
    pub fn of<E: Element>() -> Self {
        InPlace(E::IN_PLACE, size_of::<E>())
    }
}

impl<'a> RawRows<'a> {
    /// Returns the cos and sin of a single row that no check can refuse.
    #[inline(always)]
    fn only(&self) -> Option<[&'a [f32]; 2]> {
        let RawRows {
            cos, rotary_dim, ..
        } = *self;
        let pairs = rotary_dim / 2;
        if pairs == 0 || rotary_dim % 2 != 0 {
            return None;
        }
        match self.sin {
            Some(sin) => (self.width == pairs && cos.len() == pairs && sin.len() == pairs)
                .then_some([cos, sin]),
            None if cos.len() != rotary_dim => None,
            None => {
                let (cos, sin) = cos.split_at(pairs);
                // Equal halves may be PyTorch's, which stores each value twice.
                (cos[0].to_bits() != sin[0].to_bits()).then_some([cos, sin])
            }
        }
    }

    fn rows(&self) -> Result<Rows<'a>, Error> {
        let rows = self.cos.len().checked_div(self.width).unwrap_or(0);
        let shape = [rows, self.width];
        match self.sin {
            None => Rows::new(self.cos, shape),
            Some(sin) => Rows::from_cos_sin(self.cos, sin, shape, self.rotary_dim),
        }
    }
}

impl RawTensor<'_> {
    /// Returns `true` for one token whose heads have at least this number of channels and do not overlap.
    #[inline(always)]
    fn is_token(&self, channels: usize) -> bool {
        let (shape, step) = (self.shape, self.strides.head);
        let apart = shape.heads == 1 || shape.heads > 1 && step >= shape.head_dim;
        shape.batch == 1 && shape.tokens == 1 && apart && shape.head_dim >= channels
    }

    fn layout(&self, size: usize) -> Result<Layout, Error> {
        let layout = Layout::strided(self.shape, self.strides)?;
        layout.check_inside(self.memory.len() / size)?;
        layout.check_disjoint()?;
        Ok(layout)
    }

    fn bytes<'b>(&'b mut self, size: usize, layout: &'b Layout) -> BytesMut<'b> {
        BytesMut {
            bytes: self.memory,
            size,
            layout,
        }
    }
}

/// [`Rope::rotate`] of a tensor, or [`Rope::rotate_qk`] of two, forward.
///
/// # Errors
///
/// The errors of the verbs, and of the constructors of their operands.
///
/// # Panics
///
/// If one token's memory is shorter than its layout.
pub fn rotate_raw(
    plan: (Pairing, Option<Backend>),
    element: InPlace,
    tensors: &mut [RawTensor<'_>],
    rows: &RawRows<'_>,
) -> Result<(), Error> {
    let is_token = |x: &RawTensor<'_>| x.is_token(rows.rotary_dim);
    match rows.only() {
        Some(row) if tensors.iter().all(is_token) => rotate_tokens(plan, element, tensors, row),
        _ => rotate_any(plan, element, tensors, rows),
    }
}

#[inline(always)]
fn rotate_tokens(
    (pairing, backend): (Pairing, Option<Backend>),
    InPlace(kernels, size): InPlace,
    tensors: &mut [RawTensor<'_>],
    [cos, sin]: [&[f32]; 2],
) -> Result<(), Error> {
    let proof = match backend {
        None => Proof::best(),
        Some(backend) => backend.required()?,
    };
    let (pairs, kernel) = (cos.len(), kernels.0.of(pairing));
    let core = (proof.fitting(pairs), proof::tuning());
    let row = &LineRows::shared(cos, sin);
    for x in tensors {
        let (heads, head_dim, step) = (x.shape.heads, x.shape.head_dim, x.strides.head);
        let end = (heads - 1) * step + head_dim;
        let extents = [heads, head_dim, step];
        TokenHeads::within(core, kernel, extents, [0, end], [size, pairs])
            .run(&mut x.memory[..end * size], row);
    }
    Ok(())
}

#[inline(never)]
fn rotate_any(
    (pairing, backend): (Pairing, Option<Backend>),
    InPlace(kernels, size): InPlace,
    tensors: &mut [RawTensor<'_>],
    rows: &RawRows<'_>,
) -> Result<(), Error> {
    let (rope, rows) = (Rope::on(pairing, backend)?, rows.rows()?);
    match tensors {
        [x] => {
            let layout = &x.layout(size)?;
            rope.rotate_bytes(x.bytes(size, layout), kernels, &rows)
        }
        [q, k] => {
            let (query, key) = (q.layout(size)?, k.layout(size)?);
            let tensors = [
                (q.bytes(size, &query), kernels),
                (k.bytes(size, &key), kernels),
            ];
            rope.rotate_qk_bytes(tensors, &rows)
        }
        _ => unreachable!("one tensor, or Q and K"),
    }
}
