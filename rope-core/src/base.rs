//! What everything is said in: shapes, names, limits, errors, and numbers of 128 bits.

pub(crate) mod backend;
pub(crate) mod direction;
pub(crate) mod error;
pub(crate) mod float128;
pub(crate) mod limits;
pub(crate) mod names;
pub(crate) mod pairing;
pub(crate) mod shape;
pub(crate) mod stage_order;
