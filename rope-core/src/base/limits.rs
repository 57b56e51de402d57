//! Sizes that memory on the stack has.

/// Channels of the largest head that a cache may have.
pub(crate) const MOST_CHANNELS: usize = 2048;

/// Heads that are written in one call at most.
pub(crate) const MOST_HEADS: usize = 64;
