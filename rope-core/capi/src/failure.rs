//! Why a call was refused.
//!
//! `names` and `memory` refuse with a [`Failure`], and `status` makes a status of it. `status` uses both of them, so
//! the failure stands apart from it and below all three.

use core::fmt;

use rope_core::Error;

/// Why a call was refused, with the values that were in the way.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Failure {
    Core(Error),
    Null {
        name: &'static str,
    },
    Misaligned {
        name: &'static str,
        alignment: usize,
    },
    Length {
        name: &'static str,
        len: usize,
    },
    UnknownValue {
        what: &'static str,
        value: i32,
    },
    MemoryOverlap {
        written: &'static str,
        read: &'static str,
    },
    Handle,
    #[cfg(feature = "std")]
    OutOfMemory {
        bytes: usize,
    },
    #[cfg(feature = "std")]
    Internal,
    #[cfg(feature = "std")]
    Utf8 {
        name: &'static str,
    },
    PositionRange {
        first: i64,
        count: usize,
    },
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Core(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Failure::Core(error) => write!(f, "{error}"),
            Failure::Null { name } => write!(f, "{name} is null"),
            Failure::Misaligned { name, alignment } => {
                write!(f, "{name} is not a multiple of {alignment}")
            }
            Failure::Length { name, len } => {
                write!(f, "{name} cannot have {len} elements there")
            }
            Failure::UnknownValue { what, value } => write!(f, "{value} is no {what} here"),
            Failure::MemoryOverlap { written, read } => {
                write!(f, "{written} is written and overlaps {read}")
            }
            Failure::Handle => {
                f.write_str("not a handle of this library, or not of the kind that the call takes")
            }
            #[cfg(feature = "std")]
            Failure::OutOfMemory { bytes } => write!(f, "no memory for {bytes} bytes"),
            #[cfg(feature = "std")]
            Failure::Internal => f.write_str("an internal error"),
            #[cfg(feature = "std")]
            Failure::Utf8 { name } => write!(f, "{name} is not UTF-8"),
            Failure::PositionRange { first, count } => {
                write!(f, "{count} positions from {first} on end beyond 2^63")
            }
        }
    }
}
