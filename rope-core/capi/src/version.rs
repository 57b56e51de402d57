//! Which version this is.

/// The major version of the header. It counts incompatible changes.
pub const ROPE_VERSION_MAJOR: u32 = 0;

/// The minor version of the header. It counts additions; before 1.0 it counts incompatible changes as well.
pub const ROPE_VERSION_MINOR: u32 = 1;

/// The patch version of the header. It counts repairs.
pub const ROPE_VERSION_PATCH: u32 = 0;

/// The version of the library: major * 1000000 + minor * 1000 + patch.
///
/// Programs that link the shared library may compare it with the header's. The two fit if they have the same major
/// version and, before 1.0, the same minor version.
///
/// # Threads
///
/// May be called from any thread at any time.
#[unsafe(no_mangle)]
pub extern "C" fn rope_version() -> u32 {
    ROPE_VERSION_MAJOR * 1_000_000 + ROPE_VERSION_MINOR * 1_000 + ROPE_VERSION_PATCH
}
