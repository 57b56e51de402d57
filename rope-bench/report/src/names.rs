//! The prefixes of the names of formulations: reports know a formulation by its name alone.

/// rope-core's rotations.
pub const FUSED: &str = "fused/";

/// rope-core's norms with rotations.
pub const NORMED: &str = "normed/";

/// The C loops.
pub const C: &str = "intrinsics/";

/// Calls of the C API.
pub const CAPI: &str = "capi/";
