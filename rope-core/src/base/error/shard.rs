//! Shards of sequences.

use super::count::Count;

errors! {
    /// A shard of a sequence.
    ///
    /// [`Error::Shard`](crate::Error::Shard) holds it.
    ///
    /// ```
    /// use rope_core::error::ShardError;
    /// use rope_core::shard::{Shard, ShardKind};
    /// use rope_core::Error;
    ///
    /// let error = Shard::new(ShardKind::Zigzag, 4, 4).unwrap_err();
    /// assert_eq!(error, Error::Shard(ShardError::Rank { rank: 4, ranks: 4 }));
    /// ```
    pub enum ShardError =>
    /// [`Shard::new`](crate::shard::Shard::new): the rank is not below the number of ranks.
    Rank {
        /// The rank.
        rank: usize,
        /// The number of ranks.
        ranks: usize,
    }: Value => |f| match ranks {
        0 => f.write_str("ranks is 0; it must be at least 1, which is all of the sequence"),
        _ if u32::try_from(ranks).is_err() => write!(f, "ranks is {ranks}; it must be at most {}", u32::MAX),
        _ => write!(f, "rank is {rank}; it must be below ranks ({ranks})"),
    },
    /// [`Shard::tokens`](crate::shard::Shard::tokens), [`Shard::packed`](crate::shard::Shard::packed): tokens that
    /// cannot be divided evenly.
    Tokens {
        /// The sequence; 0 where the whole is divided.
        sequence: usize,
        /// Its tokens.
        tokens: usize,
        /// The required divisor.
        multiple: usize,
    }: Value => |f| write!(
        f,
        "sequence {sequence} has {}, but a shard of this kind requires a multiple of {multiple}; pad it, or use \
         ShardKind::UnevenZigzag or ShardKind::Striped",
        Count(tokens, "tokens")
    ),
}
