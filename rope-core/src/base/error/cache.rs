//! Caches.

use core::fmt;

use super::count::Count;

errors! {
    /// The layout or the memory of a cache, or the heads that a call writes to it.
    ///
    /// [`Error::Cache`](crate::Error::Cache) holds it.
    ///
    /// ```
    /// use rope_core::cache::{Cache, CacheLayout};
    /// use rope_core::error::CacheError;
    /// use rope_core::Error;
    ///
    /// // Two pages of 16 tokens, 8 heads and 128 channels of f32.
    /// let layout = CacheLayout::nhd([2, 16, 8, 128])?;
    /// let error = Cache::new(&[0.0_f32; 4096], layout).unwrap_err();
    /// assert_eq!(error, Error::Cache(CacheError::Memory { needed: 131072, given: 16384 }));
    /// # Ok::<(), Error>(())
    /// ```
    pub enum CacheError =>
    /// [`CacheLayout::strided`](crate::cache::CacheLayout::strided): a group or a chunk without a member.
    /// [`Slots::offsets`](crate::cache::Slots::offsets) of a call that requires slots.
    Layout {
        /// The requirement.
        required: &'static str,
    }: Shape => "the layout of a cache must be {required}",
    /// [`CacheLayout`](crate::cache::CacheLayout)'s constructors and its `bytes`, and caches: an index, or a number of
    /// bytes, does not fit `usize`.
    TooLarge {
        /// The extent of a dimension, or the number of elements.
        extent: usize,
        /// Its stride, or the bytes of an element.
        stride: usize,
    }: Shape => |f| write!(
        f,
        "an extent of {extent} at a stride of {stride} leads beyond usize::MAX ({}), the last index of a cache",
        usize::MAX
    ),
    /// [`CacheLayout::narrow_channels`](crate::cache::CacheLayout::narrow_channels): the range is not inside a head.
    Channels {
        /// First channel of the range.
        start: usize,
        /// End of the range (one past the last).
        end: usize,
        /// Channels of a head.
        head_dim: usize,
    }: Shape =>
        "channels is {start}..{end}; it must end where it starts or after, and at most at head_dim ({head_dim})",
    /// [`CacheLayout::narrow_channels`](crate::cache::CacheLayout::narrow_channels), and caches of
    /// blocks or with a scale after the codes of each head: the channels of a head are not contiguous.
    ChannelsApart {
        /// Channels of a head.
        head_dim: usize,
        /// Channels of a chunk.
        chunk: usize,
        /// From one chunk to the next.
        chunk_stride: usize,
        /// From one channel of a chunk to the next.
        channel: usize,
    }: Shape => |f| {
        f.write_str("a range of channels, blocks, and a scale after the codes of a head require contiguous heads, but ")?;
        match chunk < head_dim {
            true => write!(f, "chunk is {chunk} of {head_dim} channels, with the stride {chunk_stride}")?,
            false => write!(f, "the {head_dim} channels of a head have the stride {channel}")?,
        }
        f.write_str("; use an nhd or hnd layout")
    },
    /// A cache with a scale after the codes of each head: the scale would lie among the codes.
    ScaleAmongCodes {
        /// From the first code of a head to its scale, in bytes.
        at: usize,
        /// Bytes of the codes of a head.
        head_dim: usize,
    }: Shape => |f| {
        let codes = Count(head_dim, "codes");
        write!(f, "the scale at byte {at} of a head would lie among its {codes}; it must be at {head_dim} or after")
    },
    /// A cache with scales after the codes of each head: the strides leave no room for the scales.
    ScaleRoom {
        /// From the first code of a head to the end of its scales, in bytes.
        end: usize,
        /// Bytes of the codes of a head.
        head_dim: usize,
        /// The index whose stride is too short.
        index: CacheIndex,
        /// Its stride.
        stride: usize,
        /// The least stride of `index` that leaves room.
        least: usize,
    }: Shape =>
        "the stride of {index} is {stride}, and must be at least {least} for scales that end at byte {end} of each head; \
         an nhd layout of heads of {end} bytes, narrowed to the first {head_dim}, has room for them",
    /// A cache of blocks or groups: a head, or a step of the layout, is not a whole number of them.
    PartOfBlock {
        /// The extent or the step.
        of: &'static str,
        /// Its elements.
        given: usize,
        /// Values of a block.
        values: usize,
    }: Shape =>
        "{of} is {given}, but a cache in blocks of {values} values requires a multiple of {values}; pad it to whole \
         blocks",
    /// [`CacheLayout`](crate::cache::CacheLayout)'s constructors: two indices could name one element. A cache with a
    /// [`ScaleLayout`](crate::cache::ScaleLayout): two heads could have one scale.
    Overlap {
        /// `elements`, or `scales`.
        of: &'static str,
        /// The index with the longer stride.
        index: CacheIndex,
        /// Its stride.
        stride: usize,
        /// The index with the shorter stride; `index` itself if its stride is 0.
        other: CacheIndex,
        /// The least stride of `index` that steps over all shorter ones.
        least: usize,
    }: Shape => |f| {
        match index == other {
            true => write!(f, "two indices of {index} could name the same {of}")?,
            false => write!(f, "two indices of {other} and {index} could name the same {of}")?,
        }
        write!(f, "; the stride of {index} is {stride}, and must be at least {least}")
    },
    /// [`Cache`](crate::cache::Cache) and [`CacheMut`](crate::cache::CacheMut): the layout reaches past the memory.
    Memory {
        /// Bytes that the layout needs, [`CacheLayout::bytes`](crate::cache::CacheLayout::bytes).
        needed: usize,
        /// Bytes that the memory has.
        given: usize,
    }: Shape => |f| write!(f, "the layout of the cache needs {}, the memory has {given}", Count(needed, "bytes")),
    /// [`CacheParts`](crate::cache::CacheParts) and [`CachePartsMut`](crate::cache::CachePartsMut): two parts could
    /// share bytes, or both have separate scales.
    PartOverlap {
        /// `bytes`, or `separate scales`.
        of: &'static str,
        /// The index of a part.
        first: usize,
        /// The index of a later part.
        second: usize,
    }: Shape =>
        "parts {first} and {second} of a cache could share {of}; give each its own place: bytes after the codes and \
         scales of the other at the same strides, or a memory of its own",
    /// A call on a cache of parts: the operands divide channels that are one part, or that rotate together.
    PartDivided {
        /// First channel.
        start: usize,
        /// End of the channels (one past the last).
        end: usize,
        /// The channel at which they are divided.
        at: usize,
    }: Shape =>
        "channels {start}..{end} are one part, or rotate together, but another operand or part divides them at channel \
         {at}; give both operands the same parts, and let the channels that rotate be in one",
    /// The tensor and the cache have different heads.
    Heads {
        /// Heads of the tensor.
        heads: usize,
        /// Channels of a head of the tensor.
        head_dim: usize,
        /// Heads of the cache.
        cache_heads: usize,
        /// Channels of a head of the cache.
        cache_head_dim: usize,
    }: Shape => |f| {
        let (heads, channels) = (Count(heads, "heads"), Count(head_dim, "channels"));
        write!(
            f,
            "the tensor has {heads} of {channels}, the cache {cache_heads} of {cache_head_dim}; they must be as many and \
             as long"
        )
    },
    /// A rotation of keys that stay in a cache: the rows have an attention factor, which cached keys have already.
    ShiftFactor {
        /// The attention factor of the rows.
        factor: f64,
    }: Operation =>
        "the attention factor of the rows is {factor}, but a shift requires 1, as cached keys have the factor already; \
         make the rows by Frequencies::shift",
}

/// An index into a cache, by its stride in [`CacheStrides`](crate::cache::CacheStrides).
///
/// ```
/// use rope_core::cache::CacheLayout;
/// use rope_core::error::{CacheError, CacheIndex};
/// use rope_core::Error;
///
/// let nhd = CacheLayout::nhd([4, 16, 2, 64])?;
/// let mut strides = nhd.strides();
/// strides.token = 64; // as long as a head: the second head of a slot is the first one of the next slot
/// let error = CacheLayout::strided(nhd.shape(), strides).unwrap_err();
/// assert!(matches!(
///     error,
///     Error::Cache(CacheError::Overlap { index: CacheIndex::Token, stride: 64, least: 128, .. })
/// ));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum CacheIndex {
    /// Blocks, or pages.
    Block,
    /// Groups of slots.
    Group,
    /// Slots.
    Token,
    /// Heads.
    Head,
    /// Chunks of channels.
    Chunk,
    /// Channels.
    Channel,
}

impl fmt::Display for CacheIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CacheIndex::Block => "block",
            CacheIndex::Group => "group",
            CacheIndex::Token => "token",
            CacheIndex::Head => "head",
            CacheIndex::Chunk => "chunk",
            CacheIndex::Channel => "channel",
        })
    }
}
