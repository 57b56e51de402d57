//! Tensors and rows that only extents and slices describe: those of the C API's checked calls.

use crate::describe::tensor::BytesMut;
use crate::kernel::element::Element;
use crate::kernel::elements::InPlaceKernels;
use crate::{Error, Layout, Rows, Shape, Strides};

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
pub struct InPlace(pub(super) &'static InPlaceKernels, pub(super) usize);

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
    pub(super) fn only(&self) -> Option<[&'a [f32]; 2]> {
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

    /// Returns the rows, checked.
    pub(super) fn rows(&self) -> Result<Rows<'a>, Error> {
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
    pub(super) fn is_token(&self, channels: usize) -> bool {
        let (shape, step) = (self.shape, self.strides.head);
        let apart = shape.heads == 1 || shape.heads > 1 && step >= shape.head_dim;
        shape.batch == 1 && shape.tokens == 1 && apart && shape.head_dim >= channels
    }

    /// Returns the layout, checked.
    pub(super) fn layout(&self, size: usize) -> Result<Layout, Error> {
        let layout = Layout::strided(self.shape, self.strides)?;
        layout.check_inside(self.memory.len() / size)?;
        layout.check_disjoint()?;
        Ok(layout)
    }

    /// Returns the tensor.
    pub(super) fn bytes<'b>(&'b mut self, size: usize, layout: &'b Layout) -> BytesMut<'b> {
        BytesMut {
            bytes: self.memory,
            size,
            layout,
        }
    }
}
