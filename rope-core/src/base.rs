//! Shapes, names, limits, errors and 128-bit numbers: used by every other layer.

pub(crate) mod backend;
pub(crate) mod debug;
pub(crate) mod direction;
pub(crate) mod error;
pub(crate) mod float128;
pub(crate) mod limits;
pub(crate) mod memory;
pub(crate) mod names;
pub(crate) mod pairing;
pub(crate) mod shape;
pub(crate) mod stage_order;
