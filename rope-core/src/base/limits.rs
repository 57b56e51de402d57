//! Sizes of buffers on the stack.

/// The most channels of a head in a cache, or in a tile.
pub(crate) const MOST_CHANNELS: usize = 2048;

/// The most channels of all heads of a token whose parts a call with stages gathers on the stack.
pub(crate) const MOST_PARTS: usize = 2 * MOST_CHANNELS;

/// The most heads of one call to a kernel that writes codes.
pub(crate) const MOST_HEADS: usize = 64;

/// The most groups of a head whose scales have zero points, or minima.
pub(crate) const MOST_GROUPS: usize = 64;
