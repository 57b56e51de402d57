//! Strided views of four dimensions, `[batch, tokens, heads, head_dim]`, checked once at construction.

use core::fmt;
use core::ops::Range;

use crate::base::debug::debug;
use crate::base::limits::MOST_CHANNELS;
use crate::error::ShapeError;
use crate::{Dimension, Element, Error, Shape};

impl Shape {
    /// Refuses a target whose shape differs from the source.
    #[inline]
    pub(crate) fn check_same(self, target: Shape) -> Result<(), Error> {
        match self == target {
            true => Ok(()),
            false => Err(self.mismatch(target)),
        }
    }

    /// Refuses heads that do not fit a tile on the stack.
    #[inline]
    pub(crate) fn check_head_on_stack(self) -> Result<(), Error> {
        let (head_dim, limit) = (self.head_dim, MOST_CHANNELS);
        if head_dim > limit {
            return Err(Error::Shape(ShapeError::HeadDimOnStack { head_dim, limit }));
        }
        Ok(())
    }

    /// Refuses a range that is not inside a dimension.
    pub(crate) fn check_range(
        self,
        dimension: Dimension,
        Range { start, end }: Range<usize>,
    ) -> Result<(), Error> {
        let extent = self.extent(dimension);
        match start <= end && end <= extent {
            true => Ok(()),
            false => Err(Error::Shape(ShapeError::Range {
                dimension,
                start,
                end,
                extent,
            })),
        }
    }

    #[cold]
    fn mismatch(self, target: Shape) -> Error {
        let (dimension, source, target) =
            self.difference(target).unwrap_or((Dimension::Batch, 0, 0));
        Error::Shape(ShapeError::Mismatch {
            dimension,
            source,
            target,
        })
    }
}

/// Distances between the indices of each dimension, in elements. The channels of a head are contiguous.
///
/// ```
/// use rope_core::Layout;
///
/// // `[batch, heads, tokens, head_dim]` in memory.
/// let strides = Layout::bhsd([1, 32, 5, 128])?.strides();
/// assert_eq!((strides.head, strides.token), (5 * 128, 128));
/// # Ok::<(), rope_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Strides {
    /// From one sequence to the next.
    pub batch: usize,
    /// From one token to the next.
    pub token: usize,
    /// From one head to the next.
    pub head: usize,
}

impl fmt::Display for Strides {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}, {}, {}, 1]", self.batch, self.token, self.head)
    }
}

/// The layout of a tensor in a slice: shape, strides, and the index of the first element.
///
/// Each constructor takes the extents in the order of its name, the order in memory (and in PyTorch's `tensor.shape`).
/// [`Layout::shape`] returns them in the same order for all.
///
/// ```text
/// bshd  [batch, tokens, heads, head_dim]   tokens-major: PyTorch before the transpose, vLLM, FlashAttention
/// bhsd  [batch, heads, tokens, head_dim]   heads-major: PyTorch's attention, ONNX, KV caches
/// sbhd  [tokens, batch, heads, head_dim]   Megatron, Transformer Engine
/// thd   [tokens, heads, head_dim]          packed sequences; batch is 1
/// ```
///
/// [`narrow`](Layout::narrow) selects sub-tensors:
///
/// ```
/// use rope_core::{Dimension, Layout};
/// // K of a packed row of 32 Q, 8 K and 8 V heads:
/// let k = Layout::bshd([1, 16, 48, 128])?.narrow(Dimension::Heads, 32..40)?;
/// assert_eq!(k.offset(), 32 * 128);
/// // the rotated 64 channels after the 128 others of DeepSeek's heads:
/// let q = Layout::bshd([1, 16, 128, 192])?.narrow(Dimension::Channels, 128..192)?;
/// assert_eq!(q.shape().head_dim, 64);
/// # Ok::<(), rope_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    shape: Shape,
    strides: Strides,
    offset: usize,
    /// One past the last index; `offset` if the tensor is empty.
    end: usize,
    /// True if no two indices name one element. Derived from the fields above, as is the next field.
    disjoint: bool,
    /// True if the heads of a token are nearer to each other than the tokens of a head. Then a line is a token.
    tokens_major: bool,
}

impl Layout {
    /// Creates a layout from any strides, in elements.
    ///
    /// # Errors
    ///
    /// [`ShapeError::StrideOverflow`] if an index does not fit `usize`.
    #[inline]
    pub fn strided(shape: impl Into<Shape>, strides: Strides) -> Result<Self, Error> {
        let shape = shape.into();
        match Layout::of_a_token(shape, strides) {
            Some(layout) => Ok(layout),
            None => Layout::checked(shape, strides),
        }
    }

    /// Creates the contiguous layout `[batch, tokens, heads, head_dim]`, the order of [`Shape`].
    ///
    /// # Errors
    ///
    /// [`ShapeError::Overflow`] if an index or a stride does not fit `usize`.
    pub fn bshd(extents: impl Into<Shape>) -> Result<Self, Error> {
        use Dimension::{Batch, Heads, Tokens};
        Layout::dense(extents.into(), [Batch, Tokens, Heads])
    }

    /// Creates the contiguous layout `[batch, heads, tokens, head_dim]`.
    ///
    /// # Errors
    ///
    /// [`ShapeError::Overflow`] if an index or a stride does not fit `usize`.
    pub fn bhsd([batch, heads, tokens, head_dim]: [usize; 4]) -> Result<Self, Error> {
        use Dimension::{Batch, Heads, Tokens};
        let shape = Shape::from([batch, tokens, heads, head_dim]);
        Layout::dense(shape, [Batch, Heads, Tokens])
    }

    /// Creates the contiguous layout `[tokens, batch, heads, head_dim]`.
    ///
    /// # Errors
    ///
    /// [`ShapeError::Overflow`] if an index or a stride does not fit `usize`.
    pub fn sbhd([tokens, batch, heads, head_dim]: [usize; 4]) -> Result<Self, Error> {
        use Dimension::{Batch, Heads, Tokens};
        let shape = Shape::from([batch, tokens, heads, head_dim]);
        Layout::dense(shape, [Tokens, Batch, Heads])
    }

    /// Creates the contiguous layout `[tokens, heads, head_dim]`: packed sequences, with one row per token.
    ///
    /// # Errors
    ///
    /// [`ShapeError::Overflow`] if an index or a stride does not fit `usize`.
    #[doc(alias = "varlen")]
    pub fn thd([tokens, heads, head_dim]: [usize; 3]) -> Result<Self, Error> {
        Layout::bshd([1, tokens, heads, head_dim])
    }

    /// Creates a contiguous layout with the dimensions in this order, the longest stride first.
    #[inline(always)]
    fn dense(shape: Shape, order: [Dimension; 3]) -> Result<Self, Error> {
        let mut strides = Strides {
            batch: 0,
            token: 0,
            head: 0,
        };
        let mut stride = Some(shape.head_dim);
        for dimension in order.into_iter().rev() {
            let Some(fits) = stride else {
                return Err(Error::Shape(ShapeError::Overflow { shape }));
            };
            match dimension {
                Dimension::Batch => strides.batch = fits,
                Dimension::Tokens => strides.token = fits,
                Dimension::Heads => strides.head = fits,
                Dimension::Channels => {}
            }
            stride = fits.checked_mul(shape.extent(dimension));
        }
        // The number of elements, which may be zero, is the end.
        match stride {
            Some(end) => Ok(Layout::from_checked(shape, strides, 0, end, true)),
            None => Err(Error::Shape(ShapeError::Overflow { shape })),
        }
    }

    /// Creates a layout and derives its remaining fields.
    #[inline(always)]
    fn from_checked(
        shape: Shape,
        strides: Strides,
        offset: usize,
        end: usize,
        disjoint: bool,
    ) -> Self {
        Layout {
            shape,
            strides,
            offset,
            end,
            disjoint,
            tokens_major: shape.tokens == 1 || (shape.heads > 1 && strides.head <= strides.token),
        }
    }

    /// Returns the layout of the heads of one token that do not overlap: a third of the instructions of
    /// [`Layout::checked`].
    #[inline(always)]
    fn of_a_token(shape: Shape, strides: Strides) -> Option<Self> {
        let one_token = shape.batch == 1 && shape.tokens == 1;
        let apart = shape.heads == 1 || strides.head >= shape.head_dim;
        if !one_token || !apart || shape.is_empty() {
            return None;
        }
        let last = (shape.heads - 1).checked_mul(strides.head)?;
        let end = last.checked_add(shape.head_dim)?;
        Some(Layout::from_checked(shape, strides, 0, end, true))
    }

    #[inline(never)]
    fn checked(shape: Shape, strides: Strides) -> Result<Self, Error> {
        let end = if shape.is_empty() {
            Some(0)
        } else {
            let last = |end: usize, (_, extent, stride): (Dimension, usize, usize)| {
                end.checked_add((extent - 1).checked_mul(stride)?)
            };
            dimensions(shape, strides)
                .into_iter()
                .try_fold(shape.head_dim, last)
        };
        match end {
            Some(end) => {
                let mut layout = Layout::from_checked(shape, strides, 0, end, true);
                layout.disjoint = layout.first_overlap().is_none();
                Ok(layout)
            }
            None => Err(overflow(shape, strides)),
        }
    }

    /// Returns the extents.
    #[inline]
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Returns the strides, in elements.
    #[inline]
    pub fn strides(&self) -> Strides {
        self.strides
    }

    /// Returns the index of the first element.
    #[inline]
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Returns the fewest elements of a slice with this layout.
    #[inline]
    pub fn end(&self) -> usize {
        self.end
    }

    /// Selects the indices `range` of `dimension`.
    ///
    /// # Errors
    ///
    /// [`ShapeError::Range`] if the range exceeds the dimension.
    pub fn narrow(self, dimension: Dimension, range: Range<usize>) -> Result<Self, Error> {
        self.shape.check_range(dimension, range.clone())?;
        Ok(self.part(dimension, range))
    }

    /// Selects a range ([`Layout::narrow`]) that is inside the dimension.
    pub(crate) fn part(self, dimension: Dimension, range: Range<usize>) -> Self {
        let Range { start, end } = range;
        let mut shape = self.shape;
        *shape.extent_mut(dimension) = end - start;
        let step = match dimension {
            Dimension::Batch => self.strides.batch,
            Dimension::Tokens => self.strides.token,
            Dimension::Heads => self.strides.head,
            Dimension::Channels => 1,
        };
        let mut layout = Layout::from_checked(shape, self.strides, self.offset, self.offset, true);
        // An empty part keeps the offset: `start` may be one past the last index, and its element beyond the slice.
        if !shape.is_empty() {
            layout.offset += start * step;
            // No overflow: a part ends inside the whole.
            let [batch, token, head] = [shape.batch - 1, shape.tokens - 1, shape.heads - 1];
            layout.end = layout.head(batch, token, head) + shape.head_dim;
        }
        // A part of a layout without overlaps has none.
        layout.disjoint = self.disjoint || layout.first_overlap().is_none();
        layout
    }

    /// Selects sequences, tokens and heads by ranges inside their dimensions.
    pub(crate) fn part_of(self, [batch, tokens, heads]: [Range<usize>; 3]) -> Self {
        self.part(Dimension::Batch, batch)
            .part(Dimension::Tokens, tokens)
            .part(Dimension::Heads, heads)
    }

    /// Splits a dimension at an index within its extent.
    pub(crate) fn split(self, dimension: Dimension, at: usize) -> (Self, Self) {
        let extent = self.shape.extent(dimension);
        (
            self.part(dimension, 0..at),
            self.part(dimension, at..extent),
        )
    }

    /// Splits the layout ([`Layout::split`]) and its slice. Each part has its own slice; the offset of the second is
    /// relative to it. Also returns the start of the second part.
    pub(crate) fn split_slice(
        self,
        dimension: Dimension,
        at: usize,
    ) -> Result<(Self, Self, usize), Error> {
        let (first, mut second) = self.split(dimension, at);
        if second.shape.is_empty() {
            (second.offset, second.end) = (0, 0);
            return Ok((first, second, self.end));
        }
        if first.end > second.offset {
            return Err(Error::Shape(ShapeError::PartsInterleave { dimension }));
        }
        let begin = second.offset;
        second.end -= begin;
        second.offset = 0;
        Ok((first, second, begin))
    }

    /// Returns the three strided dimensions, the shortest stride first.
    #[inline]
    fn by_stride(&self) -> [(Dimension, usize, usize); 3] {
        let mut dimensions = dimensions(self.shape, self.strides);
        // Sorted by hand: core has no stable sort.
        for (i, j) in [(0, 1), (1, 2), (0, 1)] {
            if dimensions[i].2 > dimensions[j].2 {
                dimensions.swap(i, j);
            }
        }
        dimensions
    }

    /// Returns the dimension that splits a tensor into two parts which do not interleave: the longest stride among
    /// dimensions with more than one index.
    #[cfg(feature = "rayon")]
    pub(crate) fn outermost(&self) -> Option<(Dimension, usize)> {
        let longest = self
            .by_stride()
            .into_iter()
            .rev()
            .find(|&(_, extent, _)| extent > 1);
        longest.map(|(dimension, extent, _)| (dimension, extent))
    }

    /// Returns the dimension with the shortest stride that lets elements overlap, and that stride. Requires nested
    /// dimensions: each stride steps over the reach of all shorter ones. (Other strides can keep elements apart too; no
    /// library makes such tensors.)
    fn first_overlap(&self) -> Option<(Dimension, usize)> {
        if self.shape.is_empty() {
            return None;
        }
        let mut span = self.shape.head_dim;
        for (dimension, extent, stride) in self.by_stride() {
            if extent > 1 {
                if stride < span {
                    return Some((dimension, stride));
                }
                // No overflow: at most `end`.
                span += (extent - 1) * stride;
            }
        }
        None
    }

    /// Checks that no two indices name one element.
    #[inline]
    pub(crate) fn check_disjoint(&self) -> Result<(), Error> {
        if self.disjoint {
            Ok(())
        } else {
            self.overlap()
        }
    }

    /// Checks that the heads of a token do not overlap, which also bounds their number by the slice.
    pub(crate) fn check_heads_disjoint(&self) -> Result<(), Error> {
        let (stride, needed) = (self.strides.head, self.shape.head_dim);
        if self.shape.heads > 1 && stride < needed {
            return Err(Error::Shape(ShapeError::Overlap {
                dimension: Dimension::Heads,
                stride,
                needed,
            }));
        }
        Ok(())
    }

    #[cold]
    fn overlap(&self) -> Result<(), Error> {
        match self.first_overlap() {
            Some((dimension, stride)) => Err(Error::Shape(ShapeError::Overlap {
                dimension,
                stride,
                needed: self.least_stride(dimension, stride),
            })),
            None => Ok(()),
        }
    }

    /// Returns the smallest stride, above its own, with which a dimension nests among the others: inside one that has
    /// room for it, or around all.
    fn least_stride(&self, dimension: Dimension, own: usize) -> usize {
        let extent = self.shape.extent(dimension);
        let mut span = self.shape.head_dim;
        for (_, other, stride) in self
            .by_stride()
            .into_iter()
            .filter(|&(other, extent, _)| other != dimension && extent > 1)
        {
            let fits = span.checked_mul(extent).is_some_and(|all| all <= stride);
            if span > own && fits {
                break;
            }
            // No overflow: at most `end`.
            span += (other - 1) * stride;
        }
        span
    }

    #[inline]
    pub(crate) fn check_inside(&self, len: usize) -> Result<(), Error> {
        if self.end > len && !self.shape.is_empty() {
            return Err(Error::Shape(ShapeError::OutOfBounds {
                needed: self.end,
                len,
            }));
        }
        Ok(())
    }

    /// Returns true if the heads of a token are nearer to each other than the tokens of a head. Then a line is a token.
    #[inline(always)]
    pub(crate) fn is_tokens_major(&self) -> bool {
        self.tokens_major
    }

    /// Returns the index of the first channel of a head.
    #[inline(always)]
    pub(crate) fn head(&self, batch: usize, token: usize, head: usize) -> usize {
        // No overflow: `end` is beyond the index of the last head.
        self.offset
            + batch * self.strides.batch
            + token * self.strides.token
            + head * self.strides.head
    }
}

/// Returns the strided dimensions with their extents and strides.
#[inline]
fn dimensions(shape: Shape, strides: Strides) -> [(Dimension, usize, usize); 3] {
    [
        (Dimension::Heads, shape.heads, strides.head),
        (Dimension::Tokens, shape.tokens, strides.token),
        (Dimension::Batch, shape.batch, strides.batch),
    ]
}

/// Returns the error for strides that overflow. Names the dimension with the largest reach.
#[cold]
fn overflow(shape: Shape, strides: Strides) -> Error {
    let mut farthest = (Dimension::Channels, shape.head_dim, 1);
    for (dimension, extent, stride) in dimensions(shape, strides) {
        let reach = |extent: usize, stride: usize| (extent as u128) * (stride as u128);
        if reach(extent - 1, stride) > reach(farthest.1 - 1, farthest.2) {
            farthest = (dimension, extent, stride);
        }
    }
    let (dimension, extent, stride) = farthest;
    Error::Shape(ShapeError::StrideOverflow {
        dimension,
        extent,
        stride,
    })
}

/// The argument of [`Tensor::new`] and [`TensorMut::new`]: a [`Layout`], which may cover a part of the slice, or a
/// [`Shape`] or `[batch, tokens, heads, head_dim]`, which covers the whole slice in the order of [`Layout::bshd`].
///
/// ```
/// use rope_core::{Layout, Shape, Tensor};
///
/// let memory = [0.0_f32; 5 * 8 * 64];
/// let shape = Shape::from([1, 5, 8, 64]);
/// Tensor::new(&memory, [1, 5, 8, 64])?;
/// Tensor::new(&memory, shape)?;
/// Tensor::new(&memory, Layout::bshd([1, 4, 8, 64])?)?; // four of the five tokens
/// # Ok::<(), rope_core::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say where the elements of a tensor lie",
    label = "neither a `Layout`, nor a `Shape`, nor `[batch, tokens, heads, head_dim]`",
    note = "four extents of `usize` are a tokens-major tensor without gaps",
    note = "for other orders see `Layout::bhsd`, `Layout::sbhd`, `Layout::thd`, and for any strides `Layout::strided`"
)]
pub trait IntoLayout: Copy {
    /// Returns the layout for a slice of `len` elements.
    #[doc(hidden)]
    fn layout_of(self, len: usize) -> Result<Layout, Error>;
}

impl IntoLayout for Layout {
    #[inline]
    fn layout_of(self, len: usize) -> Result<Layout, Error> {
        self.check_inside(len)?;
        Ok(self)
    }
}

impl IntoLayout for Shape {
    #[inline]
    fn layout_of(self, len: usize) -> Result<Layout, Error> {
        let layout = Layout::bshd(self)?;
        // Without gaps, the end is the number of elements.
        if layout.end != len {
            return Err(Error::ShapeElements { shape: self, len });
        }
        Ok(layout)
    }
}

impl IntoLayout for [usize; 4] {
    #[inline]
    fn layout_of(self, len: usize) -> Result<Layout, Error> {
        Shape::from(self).layout_of(len)
    }
}

/// A tensor for reading.
///
/// ```
/// use rope_core::Tensor;
///
/// let memory = [0.0_f32; 5 * 8 * 64];
/// let x = Tensor::new(&memory, [1, 5, 8, 64])?;
/// assert_eq!(x.head([0, 4, 7]).map(<[f32]>::len), Some(64));
/// # Ok::<(), rope_core::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct Tensor<'a, E> {
    data: &'a [E],
    layout: Layout,
}

impl<'a, E: Element> Tensor<'a, E> {
    /// Views `data` through `layout`: a [`Layout`], which may cover a part of the slice, or a [`Shape`] or `[batch,
    /// tokens, heads, head_dim]`, which covers the whole slice in the order of [`Layout::bshd`]. Elements may coincide
    /// (a broadcast has a stride of zero).
    ///
    /// # Errors
    ///
    /// [`ShapeError::OutOfBounds`] if a layout reaches past the slice; [`Error::ShapeElements`] if a shape and the
    /// slice have different numbers of elements; [`ShapeError::Overflow`] if an index of a shape does not fit `usize`.
    pub fn new(data: &'a [E], layout: impl IntoLayout) -> Result<Self, Error> {
        let layout = layout.layout_of(data.len())?;
        Ok(Tensor { data, layout })
    }

    /// Returns the layout.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the extents.
    pub fn shape(&self) -> Shape {
        self.layout.shape
    }

    /// Splits a dimension into the indices `..at` and the rest.
    ///
    /// # Errors
    ///
    /// [`ShapeError::Range`] if `at` exceeds the dimension.
    pub fn split_at(self, dimension: Dimension, at: usize) -> Result<(Self, Self), Error> {
        self.layout.shape.check_range(dimension, 0..at)?;
        let (first, second) = self.layout.split(dimension, at);
        Ok((
            Tensor {
                layout: first,
                ..self
            },
            Tensor {
                layout: second,
                ..self
            },
        ))
    }

    /// Selects the indices `range` of `dimension`, as [`Layout::narrow`].
    ///
    /// # Errors
    ///
    /// [`ShapeError::Range`] if the range exceeds the dimension.
    pub fn narrow(self, dimension: Dimension, range: Range<usize>) -> Result<Self, Error> {
        let layout = self.layout.narrow(dimension, range)?;
        Ok(Tensor { layout, ..self })
    }

    /// Returns the channels of head `[batch, token, head]`, or `None` if an index is out of range.
    pub fn head(&self, [batch, token, head]: [usize; 3]) -> Option<&'a [E]> {
        let shape = self.layout.shape;
        if batch >= shape.batch || token >= shape.tokens || head >= shape.heads {
            return None;
        }
        match shape.head_dim {
            // Heads without channels may have any index.
            0 => Some(&[]),
            len => self.data[self.layout.head(batch, token, head)..].get(..len),
        }
    }

    #[inline]
    pub(crate) fn bytes(&self) -> Bytes<'_> {
        Bytes {
            bytes: bytemuck::cast_slice(self.data),
            size: size_of::<E>(),
            layout: &self.layout,
        }
    }
}

debug!([E] Tensor<'_, E>, |tensor| layout: tensor.layout);

/// A tensor for in-place rotation, or as a target. No two indices name one element.
///
/// ```
/// use rope_core::{Layout, TensorMut};
///
/// let mut memory = [0.0_f32; 5 * 8 * 64];
/// // Tokens before heads, in this order ..
/// let x = TensorMut::new(&mut memory, [1, 5, 8, 64])?;
/// // .. and heads before tokens.
/// let x = TensorMut::new(&mut memory, Layout::bhsd([1, 8, 5, 64])?)?;
/// assert_eq!(x.shape().tokens, 5);
/// # Ok::<(), rope_core::Error>(())
/// ```
pub struct TensorMut<'a, E> {
    data: &'a mut [E],
    layout: Layout,
}

impl<'a, E: Element> TensorMut<'a, E> {
    /// Views `data` through `layout`, as [`Tensor::new`]: a shape covers the whole slice, a [`Layout`] may cover a
    /// part.
    ///
    /// ```
    /// use rope_core::{Dimension, Error, Layout, TensorMut};
    /// let mut q = vec![0.0_f32; 5 * 32 * 128];
    /// // 8 heads on the memory of 32
    /// let error = TensorMut::new(&mut q, [1, 5, 8, 128]).unwrap_err();
    /// assert!(matches!(error, Error::ShapeElements { len: 20480, .. }));
    /// // the first 8 heads of each token
    /// let first = Layout::bshd([1, 5, 32, 128])?.narrow(Dimension::Heads, 0..8)?;
    /// TensorMut::new(&mut q, first)?;
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`Tensor::new`], and [`ShapeError::Overlap`] if two indices could name one element.
    pub fn new(data: &'a mut [E], layout: impl IntoLayout) -> Result<Self, Error> {
        let layout = layout.layout_of(data.len())?;
        layout.check_disjoint()?;
        Ok(TensorMut { data, layout })
    }

    /// Returns the layout.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the extents.
    pub fn shape(&self) -> Shape {
        self.layout.shape
    }

    /// Borrows the tensor for a shorter time.
    pub fn reborrow(&mut self) -> TensorMut<'_, E> {
        TensorMut {
            data: self.data,
            layout: self.layout,
        }
    }

    /// Borrows the tensor for reading.
    pub fn as_tensor(&self) -> Tensor<'_, E> {
        Tensor {
            data: self.data,
            layout: self.layout,
        }
    }

    /// Selects the indices `range` of `dimension`, as [`Layout::narrow`]. `tensor.reborrow().narrow(..)` keeps the
    /// tensor.
    ///
    /// ```
    /// use rope_core::{Dimension, Error, Pairing, Rope, Rows, TensorMut};
    ///
    /// // The last two of four channels rotate by half a turn.
    /// let mut x = [1.0_f32, 2.0, 3.0, 4.0];
    /// let mut x = TensorMut::new(&mut x, [1, 1, 1, 4])?;
    /// let mut window = x.reborrow().narrow(Dimension::Channels, 2..4)?;
    /// Rope::new(Pairing::Half).rotate(&mut window, &Rows::new(&[-1.0, 0.0], [1, 2])?)?;
    /// assert_eq!(x.as_tensor().head([0, 0, 0]), Some(&[1.0, 2.0, -3.0, -4.0][..]));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ShapeError::Range`] if the range exceeds the dimension.
    pub fn narrow(self, dimension: Dimension, range: Range<usize>) -> Result<Self, Error> {
        let layout = self.layout.narrow(dimension, range)?;
        Ok(TensorMut { layout, ..self })
    }

    /// Splits a dimension into the indices `..at` and the rest, for two threads: the bits do not depend on it. The
    /// dimension with the longest stride always splits.
    ///
    /// Q and K of a packed row interleave. They need no split: [`Layout::narrow`] to the heads of both is one tensor
    /// ([the guide](crate::guide::packed_qkv)).
    ///
    /// # Errors
    ///
    /// [`ShapeError::Range`] if `at` exceeds the dimension; [`ShapeError::PartsInterleave`] if the parts interleave in
    /// memory, as the heads of several tokens of a tokens-major tensor do.
    pub fn split_at(self, dimension: Dimension, at: usize) -> Result<(Self, Self), Error> {
        self.layout.shape.check_range(dimension, 0..at)?;
        let (first, second, begin) = self.layout.split_slice(dimension, at)?;
        // The slice of a tensor without elements may be shorter.
        let (low, high) = self.data.split_at_mut(begin.min(self.data.len()));
        Ok((
            TensorMut {
                data: low,
                layout: first,
            },
            TensorMut {
                data: high,
                layout: second,
            },
        ))
    }

    /// Returns the tensor without its type, for reading.
    #[inline]
    pub(crate) fn bytes(&self) -> Bytes<'_> {
        Bytes {
            bytes: bytemuck::cast_slice(self.data),
            size: size_of::<E>(),
            layout: &self.layout,
        }
    }

    #[inline]
    pub(crate) fn bytes_mut(&mut self) -> BytesMut<'_> {
        BytesMut {
            bytes: bytemuck::cast_slice_mut(self.data),
            size: size_of::<E>(),
            layout: &self.layout,
        }
    }
}

debug!([E] TensorMut<'_, E>, |tensor| layout: tensor.layout);

/// A [`Tensor`] without its type, for code that is compiled once for all elements. Its kernels determine the element.
#[derive(Clone, Copy)]
pub(crate) struct Bytes<'a> {
    pub(crate) bytes: &'a [u8],
    /// Bytes per element.
    pub(crate) size: usize,
    /// The layout, in elements.
    pub(crate) layout: &'a Layout,
}

impl<'a> Bytes<'a> {
    /// Selects a part, by a layout within it.
    pub(crate) fn within<'p>(&self, layout: &'p Layout) -> Bytes<'p>
    where
        'a: 'p,
    {
        Bytes { layout, ..*self }
    }
}

/// A [`TensorMut`] without its type.
pub(crate) struct BytesMut<'a> {
    pub(crate) bytes: &'a mut [u8],
    /// Bytes per element.
    pub(crate) size: usize,
    /// The layout, in elements.
    pub(crate) layout: &'a Layout,
}

impl<'a> BytesMut<'a> {
    /// A tensor that is written, checked as [`TensorMut::new`] does.
    #[inline(always)]
    pub(crate) fn new<E: Element>(data: &'a mut [E], layout: &'a Layout) -> Result<Self, Error> {
        layout.check_inside(data.len())?;
        layout.check_disjoint()?;
        Ok(BytesMut {
            bytes: bytemuck::cast_slice_mut(data),
            size: size_of::<E>(),
            layout,
        })
    }
}

impl BytesMut<'_> {
    /// Borrows the tensor for reading.
    pub(crate) fn read(&self) -> Bytes<'_> {
        Bytes {
            bytes: self.bytes,
            size: self.size,
            layout: self.layout,
        }
    }

    /// Selects a part, by a layout narrowed from that of the tensor.
    pub(crate) fn part<'p>(&'p mut self, layout: &'p Layout) -> BytesMut<'p> {
        BytesMut {
            bytes: self.bytes,
            size: self.size,
            layout,
        }
    }
}
