//! The parts of a call: tensors, caches, positions, frequencies and rows, and the stages beside a rotation.

// The inherent methods of these modules come first: rustdoc lists the methods of a type by module.
pub(crate) mod frequencies;
pub(crate) mod rows;

pub(crate) mod address;
pub mod cache;
pub mod dual_chunk;
pub(crate) mod hadamard;
pub(crate) mod ids;
pub mod norm;
pub(crate) mod positions;
pub(crate) mod scale;
pub mod shard;
pub(crate) mod tensor;
pub(crate) mod window;
