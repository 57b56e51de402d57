//! Shapes, layouts and tensors.

use super::count::Count;
use crate::{Dimension, Shape};

errors! {
    /// A layout or a tensor: its extents, its strides, or its memory.
    ///
    /// [`Error::Shape`](crate::Error::Shape) holds it.
    ///
    /// ```
    /// use rope_core::error::ShapeError;
    /// use rope_core::{Error, Layout, Tensor};
    ///
    /// let error = Tensor::new(&[0.0_f32; 8], Layout::bshd([1, 2, 3, 4])?).unwrap_err();
    /// assert_eq!(error, Error::Shape(ShapeError::OutOfBounds { needed: 24, len: 8 }));
    /// # Ok::<(), Error>(())
    /// ```
    pub enum ShapeError =>
    /// A [`Layout`](crate::Layout) constructor, [`Rows::strided`](crate::Rows::strided): the number of elements, or a
    /// stride that follows from the shape, does not fit `usize`.
    Overflow {
        /// The shape asked for.
        shape: Shape,
    }: Capacity => |f| write!(f, "shape {shape} has indices or strides beyond usize::MAX ({})", usize::MAX),
    /// [`Layout::strided`](crate::Layout::strided): the index of the last element does not fit `usize`.
    StrideOverflow {
        /// The dimension that reaches farthest.
        dimension: Dimension,
        /// Its extent.
        extent: usize,
        /// Its stride.
        stride: usize,
    }: Capacity => |f| write!(
        f,
        "stride {stride} of {dimension}, with the extent {extent}, leads to indices beyond usize::MAX ({})",
        usize::MAX
    ),
    /// [`Tensor::new`](crate::Tensor::new), [`TensorMut::new`](crate::TensorMut::new): the layout reaches past
    /// the slice.
    OutOfBounds {
        /// Elements the layout needs.
        needed: usize,
        /// Elements the slice has.
        len: usize,
    }: Shape => |f| write!(f, "the layout needs {}, the slice has {len}", Count(needed, "elements")),
    /// [`TensorMut::new`](crate::TensorMut::new), [`Rope::sum_of_squares`](crate::Rope::sum_of_squares) of rows: a step
    /// along `dimension` lands inside the elements of the dimensions below it, so that two indices could name one
    /// element.
    Overlap {
        /// The dimension whose stride is too short.
        dimension: Dimension,
        /// Its stride, in elements.
        stride: usize,
        /// The least stride with which it nests among the other dimensions, as they are.
        needed: usize,
    }: Shape =>
        "stride {stride} of {dimension} lets elements overlap that must be distinct; it must be at least {needed}",
    /// [`Layout::narrow`](crate::Layout::narrow) and `split_at` of the tensors: the range is not inside the dimension.
    Range {
        /// The dimension.
        dimension: Dimension,
        /// First index asked for.
        start: usize,
        /// End of the range asked for (one past the last).
        end: usize,
        /// Extent of the dimension.
        extent: usize,
    }: Shape => |f| match start <= end {
        true => write!(f, "range {start}..{end} of {dimension} is not inside 0..{extent}"),
        false => write!(f, "range {start}..{end} of {dimension} ends before it starts; it must be inside 0..{extent}"),
    },
    /// [`TensorMut::split_at`](crate::TensorMut::split_at): the two parts interleave in memory, so that they cannot
    /// be two slices. Split the dimension with the largest stride first.
    PartsInterleave {
        /// The dimension that was to be split.
        dimension: Dimension,
    }: Operation =>
        "the parts of a split along {dimension} interleave in memory; \
         split the dimension with the largest stride first",
    /// [`Rope::rotate_into`](crate::Rope::rotate_into): source and target have different shapes.
    Mismatch {
        /// The first dimension in which they differ.
        dimension: Dimension,
        /// Its extent in the source.
        source: usize,
        /// Its extent in the target.
        target: usize,
    }: Shape =>
        "source and target must have one shape, but {dimension} is {source} in the source and {target} in the target",
    /// Arrays of tensors, [`CacheParts`](crate::cache::CacheParts) and
    /// [`CachePartsMut`](crate::cache::CachePartsMut): parts of one operand that differ in more than their channels.
    Part {
        /// The index of the part, at most `u32::MAX`.
        part: u32,
        /// The dimension that differs.
        of: &'static str,
        /// Its extent in this part.
        given: usize,
        /// Its extent in the first part.
        first: usize,
    }: Shape =>
        "the parts of an operand may differ in their channels alone, but part {part} has {given} {of} and the first part \
         {first}",
    /// [`Rope::rotate_qk`](crate::Rope::rotate_qk): Q and K have different numbers of sequences, tokens or channels.
    QueryKeyMismatch {
        /// The first dimension in which they differ.
        dimension: Dimension,
        /// Its extent in Q.
        query: usize,
        /// Its extent in K.
        key: usize,
    }: Shape => "Q and K may differ in their heads alone, but {dimension} is {query} in Q and {key} in K",
    /// [`Normed`](crate::stages::Normed) and caches: a head is longer than what is kept on the stack.
    HeadDimOnStack {
        /// Channels of a head.
        head_dim: usize,
        /// The most there is room for.
        limit: usize,
    }: Capacity => "head_dim is {head_dim}; a norm, a scale and a cache take heads of at most {limit} channels",
}
