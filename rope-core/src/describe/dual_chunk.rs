//! The position ids of Dual Chunk Attention: see [`DualChunk`].

use crate::Error;

/// Dual Chunk Attention (Qwen2.5-1M; arXiv:2402.17463) rotates a query to five positions, by the distance between its
/// chunk and that of the key, and a key to one. With `L = chunk_size - local_size`, for the token at position `p`:
///
/// | | position id | for keys |
/// |---|---|---|
/// | `Intra`, and the key's own | `p mod L` | of the same chunk |
/// | `Succ` | `min(p mod L + L, chunk_size)` | of the chunk before |
/// | `Inter` | `min(2 L - 1, chunk_size)` | of earlier chunks |
/// | `SuccCritical` | `p mod L + L` | of the chunk before, to estimate which matter |
/// | `InterCritical` | `p mod L + chunk_size` | of earlier chunks, to estimate which matter |
///
/// [`Rope::rotate_into_each`](crate::Rope::rotate_into_each) writes all five and reads the query once. `Inter` is the
/// same id for all tokens: its row is [`Rows::repeated`](crate::Rows::repeated).
///
/// ```
/// # #[cfg(feature = "alloc")] {
/// use rope_core::dual_chunk::{DualChunk, DualChunkQuery};
/// use rope_core::{Frequencies, Scaling};
///
/// let chunks = DualChunk::new(262_144, 8192)?;                  // Qwen2.5-1M
/// let frequencies = Frequencies::new(128, 1e7, &Scaling::Default)?;
/// let positions = 300_000..300_003;                             // needs no list of ids
/// let succ = frequencies.rows(chunks.positions(DualChunkQuery::Succ, positions)?)?;
/// assert_eq!(chunks.id(DualChunkQuery::Intra, 300_000), 46_048);
/// assert_eq!(succ.len(), 3);
/// # }
/// # Ok::<(), rope_core::Error>(())
/// ```
#[doc(alias = "DualChunkRotaryEmbedding")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DualChunk {
    chunk_size: u32,
    local_size: u32,
}

/// The five positions of a query.
///
/// ```
/// use rope_core::dual_chunk::{DualChunk, DualChunkQuery};
///
/// let chunks = DualChunk::new(256, 32)?; // chunk_size, local_size
/// assert_eq!(chunks.id(DualChunkQuery::Intra, 300), 300 % 224);
/// assert_eq!(chunks.id(DualChunkQuery::Inter, 300), 256);
/// # Ok::<(), rope_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DualChunkQuery {
    /// For keys of the same chunk, and for the keys themselves.
    Intra,
    /// For keys of the previous chunk.
    Succ,
    /// For keys of earlier chunks.
    Inter,
    /// `Succ` without its bound.
    SuccCritical,
    /// `Inter` per token.
    InterCritical,
}

impl DualChunkQuery {
    /// All five, in the order in which vLLM and sglang write them side by side.
    pub const ALL: [DualChunkQuery; 5] = [
        DualChunkQuery::Intra,
        DualChunkQuery::Succ,
        DualChunkQuery::Inter,
        DualChunkQuery::SuccCritical,
        DualChunkQuery::InterCritical,
    ];
}

impl DualChunk {
    /// Creates chunks of `chunk_size` tokens, of which the last `local_size` overlap the next chunk.
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] unless `chunk_size` is 1 to 2^32 - 1, and `local_size` below it.
    pub fn new(chunk_size: usize, local_size: usize) -> Result<Self, Error> {
        let refused = |name, value: usize, required| Error::parameter(name, value as f64, required);
        let chunk = u32::try_from(chunk_size).ok().filter(|&chunk| chunk > 0);
        let Some(chunk) = chunk else {
            return Err(refused("chunk_size", chunk_size, "1 to 2^32 - 1"));
        };
        match u32::try_from(local_size) {
            Ok(local) if local < chunk => Ok(DualChunk {
                chunk_size: chunk,
                local_size: local,
            }),
            _ => Err(refused("local_size", local_size, "below chunk_size")),
        }
    }

    /// Returns the position id of a token.
    pub fn id(self, query: DualChunkQuery, position: i64) -> i64 {
        let chunk = i64::from(self.chunk_size);
        let len = chunk - i64::from(self.local_size);
        let own = position.rem_euclid(len);
        match query {
            DualChunkQuery::Intra => own,
            DualChunkQuery::Succ => (own + len).min(chunk),
            DualChunkQuery::Inter => (2 * len - 1).min(chunk),
            DualChunkQuery::SuccCritical => own + len,
            DualChunkQuery::InterCritical => own + chunk,
        }
    }
}

/// The mapping from positions to ids. A function pointer: programs without such ids do not link it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChunkIds {
    chunks: DualChunk,
    query: DualChunkQuery,
    id: fn(DualChunk, DualChunkQuery, i64) -> i64,
}

impl ChunkIds {
    /// Creates the mapping for one position of a query.
    pub(crate) fn new(chunks: DualChunk, query: DualChunkQuery) -> Self {
        ChunkIds {
            chunks,
            query,
            id: DualChunk::id,
        }
    }

    /// Returns the id of the token at a position.
    pub(crate) fn of(self, position: i64) -> i64 {
        (self.id)(self.chunks, self.query, position)
    }

    /// Returns the id of the first of `count` consecutive positions, if their ids are consecutive.
    pub(crate) fn consecutive(self, first: i64, count: usize) -> Option<i64> {
        let last = first
            .checked_add(i64::try_from(count).ok()?)?
            .checked_sub(1)?;
        // The id rises by at most one per token: either every step is one, or the last id is too low.
        let ids = [first, last].map(|position| self.of(position));
        (ids[1] - ids[0] == last - first).then_some(ids[0])
    }
}
