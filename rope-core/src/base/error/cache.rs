//! Caches.

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
