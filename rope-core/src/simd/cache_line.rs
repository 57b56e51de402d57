//! A cache line.

use bytemuck::{Pod, Zeroable};

/// The unit of memory that is written whole.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct CacheLine(pub(super) [u8; 64]);

// SAFETY: these are bytes, and zeros are bytes.
unsafe impl Zeroable for CacheLine {}
// SAFETY: as many bytes as the alignment, so that there is no padding.
unsafe impl Pod for CacheLine {}
