//! The executors of a pass: over lines of memory, over a tile of elements, or over a tile of f32 stage by stage. All
//! give the same bits; [`choose`] says which runs what.

pub(crate) mod choose;
pub(crate) mod coded;
pub(crate) mod full;
pub(crate) mod lines;
pub(crate) mod normed;
pub(crate) mod ops;
pub(crate) mod staged;
pub(crate) mod tiled;
