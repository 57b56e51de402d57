//! Tensors: memory, and where the elements lie in it.

use core::ffi::c_void;

use rope_core::{Element, Error, Layout, Shape, Strides, Tensor, TensorMut};

use crate::failure::Failure;
use crate::memory::{Out, Plain, Region, Span, SpanMut, plain};
use crate::rotate::with_element;
use crate::status::{rope_status, status_of};

/// Where the elements of a tensor lie. The caller fills it in, or rope_layout_bshd, _bhsd, _sbhd or _thd does.
///
/// A part of a tensor (K of a packed row of Q, K and V; the rotated window of a longer head) has the strides of the
/// whole and a smaller shape. Its `data` points to the first element of the part.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rope_layout {
    /// Sequences, tokens of a sequence, heads of a token, channels of a head. This order does not depend on the
    /// order in memory.
    pub shape: [usize; 4],
    /// Elements from one sequence, token and head to the next. The channels of a head are contiguous.
    pub strides: [usize; 3],
}
plain!(rope_layout);

impl rope_layout {
    #[inline]
    pub(crate) fn layout(&self) -> Result<Layout, Error> {
        let [batch, token, head] = self.strides;
        Layout::strided(self.shape, Strides { batch, token, head })
    }
}

impl From<Layout> for rope_layout {
    fn from(layout: Layout) -> Self {
        let Shape {
            batch,
            tokens,
            heads,
            head_dim,
        } = layout.shape();
        let strides = layout.strides();
        rope_layout {
            shape: [batch, tokens, heads, head_dim],
            strides: [strides.batch, strides.token, strides.head],
        }
    }
}

/// A tensor to read. Elements may coincide (a broadcast has a stride of zero).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rope_tensor {
    /// The first element, aligned as its type is.
    pub data: *const c_void,
    /// How many elements may be read from there on.
    pub len: usize,
    /// The type of the elements (`enum rope_element`).
    pub element: i32,
    /// Where the elements lie.
    pub layout: rope_layout,
}
plain!(rope_tensor);

/// A tensor to rotate, or to write a rotation to. Every index must have an element of its own.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rope_tensor_mut {
    /// The first element, aligned as its type is.
    pub data: *mut c_void,
    /// How many elements may be read and written from there on.
    pub len: usize,
    /// The type of the elements (`enum rope_element`).
    pub element: i32,
    /// Where the elements lie.
    pub layout: rope_layout,
}
plain!(rope_tensor_mut);

impl rope_tensor {
    /// The elements up to the last that the layout reaches, and the layout.
    pub(crate) fn span<E: Plain>(&self, name: &'static str) -> Result<(Span<E>, Layout), Failure> {
        let (layout, needed) = reach(&self.layout, self.len)?;
        Ok((
            Span::new(name, self.data.cast(), self.len)?.cut(needed),
            layout,
        ))
    }

    /// The bytes that the layout reaches.
    pub(crate) fn region(&self, name: &'static str) -> Result<Region, Failure> {
        with_element!(self.element, E => { Ok(self.span::<E>(name)?.0.region()) })
    }

    /// The tensor.
    ///
    /// # Safety
    ///
    /// As [`rope_tensor::readable`].
    #[inline]
    pub(crate) unsafe fn tensor<'a, E: Element + Plain>(
        &self,
        name: &'static str,
    ) -> Result<Tensor<'a, E>, Failure> {
        // SAFETY: the caller promises it.
        Ok(unsafe { self.readable(name) }?.0)
    }

    /// The tensor, and the bytes that its layout reaches. Not inlined: one copy for each element serves all verbs.
    ///
    /// # Safety
    ///
    /// The elements are there, and nobody writes them during `'a`.
    #[inline(never)]
    pub(crate) unsafe fn readable<'a, E: Element + Plain>(
        &self,
        name: &'static str,
    ) -> Result<(Tensor<'a, E>, Region), Failure> {
        let (span, layout) = self.span::<E>(name)?;
        // SAFETY: the caller promises it.
        Ok((Tensor::new(unsafe { span.get() }, layout)?, span.region()))
    }
}

impl rope_tensor_mut {
    /// The bytes that the layout reaches.
    #[cfg(feature = "std")]
    pub(crate) fn region(&self, name: &'static str) -> Result<Region, Failure> {
        with_element!(self.element, E => { Ok(self.span::<E>(name)?.0.region()) })
    }

    /// As [`rope_tensor::span`].
    #[inline]
    pub(crate) fn span<E: Plain>(
        &self,
        name: &'static str,
    ) -> Result<(SpanMut<E>, Layout), Failure> {
        let (layout, needed) = reach(&self.layout, self.len)?;
        let span = SpanMut::new(name, self.data.cast(), self.len)?;
        Ok((span.cut(needed), layout))
    }

    /// The tensor, if it shares no byte with what is read meanwhile. Not inlined, as [`rope_tensor::tensor`].
    ///
    /// # Safety
    ///
    /// The elements are there, and nobody else reads or writes them during `'a` but through the regions that are
    /// listed.
    #[inline(never)]
    pub(crate) unsafe fn tensor<'a, E: Element + Plain>(
        &self,
        name: &'static str,
        read: &[&[Region]],
    ) -> Result<TensorMut<'a, E>, Failure> {
        let (span, layout) = self.span::<E>(name)?;
        for read in read {
            span.region().apart_from(read)?;
        }
        // SAFETY: the caller promises it.
        Ok(TensorMut::new(unsafe { span.get(&[]) }?, layout)?)
    }
}

/// The layout, and how many elements it reaches. Only these have to be apart from other memory: source and target
/// may be parts of one allocation.
#[inline]
fn reach(layout: &rope_layout, len: usize) -> Result<(Layout, usize), Error> {
    let layout = layout.layout()?;
    let needed = layout.end();
    if needed > len {
        return Err(Error::OutOfBounds { needed, len });
    }
    Ok((layout, needed))
}

/// # Safety
///
/// `out` is null or points to a struct that may be written.
unsafe fn write(
    out: *mut rope_layout,
    layout: impl FnOnce() -> Result<Layout, Error>,
) -> rope_status {
    status_of(|| {
        let out = Out::new("layout", out)?;
        let layout = layout()?;
        // SAFETY: the caller's struct.
        unsafe { out.write(layout.into()) };
        Ok(())
    })
}

/// `[batch][tokens][heads][head_dim]` without gaps, the extents in this order: PyTorch before the transpose, vLLM,
/// FlashAttention. With `batch` 1 also packed sequences, `[tokens][heads][head_dim]`.
///
/// Returns ROPE_STATUS_SHAPE_OVERFLOW if the elements are more than size_t counts, ROPE_STATUS_NULL,
/// ROPE_STATUS_MISALIGNED.
///
/// # Threads
///
/// May be called from any thread at any time.
///
/// # Safety
///
/// `layout` is NULL or points to a rope_layout.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_layout_bshd(
    layout: *mut rope_layout,
    batch: usize,
    tokens: usize,
    heads: usize,
    head_dim: usize,
) -> rope_status {
    // SAFETY: the caller promises it.
    unsafe { write(layout, || Layout::bshd([batch, tokens, heads, head_dim])) }
}

/// `[batch][heads][tokens][head_dim]` without gaps, the extents in this order: PyTorch's attention, ONNX, KV caches.
///
/// Returns ROPE_STATUS_SHAPE_OVERFLOW if the elements are more than size_t counts, ROPE_STATUS_NULL,
/// ROPE_STATUS_MISALIGNED.
///
/// # Threads
///
/// May be called from any thread at any time.
///
/// # Safety
///
/// `layout` is NULL or points to a rope_layout.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_layout_bhsd(
    layout: *mut rope_layout,
    batch: usize,
    heads: usize,
    tokens: usize,
    head_dim: usize,
) -> rope_status {
    // SAFETY: the caller promises it.
    unsafe { write(layout, || Layout::bhsd([batch, heads, tokens, head_dim])) }
}

/// `[tokens][batch][heads][head_dim]` without gaps, the extents in this order: Megatron.
///
/// Returns ROPE_STATUS_SHAPE_OVERFLOW if the elements are more than size_t counts, ROPE_STATUS_NULL,
/// ROPE_STATUS_MISALIGNED.
///
/// # Threads
///
/// May be called from any thread at any time.
///
/// # Safety
///
/// `layout` is NULL or points to a rope_layout.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_layout_sbhd(
    layout: *mut rope_layout,
    tokens: usize,
    batch: usize,
    heads: usize,
    head_dim: usize,
) -> rope_status {
    // SAFETY: the caller promises it.
    unsafe { write(layout, || Layout::sbhd([tokens, batch, heads, head_dim])) }
}

/// `[tokens][heads][head_dim]` without gaps, the extents in this order: packed sequences of different lengths, as
/// FlashAttention's varlen functions and Transformer Engine's THD take them. The tensor has one sequence, and each of
/// its tokens a row of its own, whose positions are of the kind ROPE_POSITIONS_KIND_PACKED.
///
/// Returns ROPE_STATUS_SHAPE_OVERFLOW if the elements are more than size_t counts, ROPE_STATUS_NULL,
/// ROPE_STATUS_MISALIGNED.
///
/// # Threads
///
/// May be called from any thread at any time.
///
/// # Safety
///
/// `layout` is NULL or points to a rope_layout.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_layout_thd(
    layout: *mut rope_layout,
    tokens: usize,
    heads: usize,
    head_dim: usize,
) -> rope_status {
    // SAFETY: the caller promises it.
    unsafe { write(layout, || Layout::thd([tokens, heads, head_dim])) }
}
