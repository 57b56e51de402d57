//! Caches.

use core::fmt;

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
    /// [`CacheLayout`](crate::cache::CacheLayout)'s constructors, and those of caches: strides that make no cache, or
    /// not one for what it is to keep.
    Layout {
        /// The requirement.
        required: &'static str,
    }: Shape => "the layout of a cache must be {required}",
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
    }: Shape => "the layout of the cache needs {needed} bytes, the memory has {given}",
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
    }: Shape => "the tensor has {heads} heads of {head_dim} channels, the cache {cache_heads} of {cache_head_dim}",
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
