//! Why a call was refused.
//!
//! `names` and `memory` refuse with a [`Failure`], and `status` makes a status of it. `status` uses both of them, so
//! the failure stands apart from it and below all three.

use core::fmt;

use rope_core::Error;
use rope_core::internals::{Count, Renamed};

use crate::dialect::NAMES;

/// Why a call was refused, with the values that were in the way.
#[derive(Debug)]
pub(crate) enum Failure {
    Core(Error),
    #[cfg(feature = "models")]
    Model(rope_models::Error),
    Null {
        name: &'static str,
    },
    Misaligned {
        name: &'static str,
        alignment: usize,
    },
    /// More elements than an address space holds, or than it holds from their address on.
    Length {
        name: &'static str,
        len: usize,
    },
    UnknownValue {
        what: &'static str,
        value: i32,
        required: &'static str,
    },
    MemoryOverlap {
        written: &'static str,
        other: &'static str,
        /// The bytes that the two spans share, and their start in the written one.
        bytes: usize,
        at: usize,
        required: &'static str,
    },
    Handle {
        name: &'static str,
        required: &'static str,
    },
    #[cfg(feature = "std")]
    OutOfMemory {
        bytes: usize,
    },
    #[cfg(feature = "std")]
    Internal,
    #[cfg(feature = "models")]
    Utf8 {
        name: &'static str,
        /// The first byte that no character has, and its place.
        byte: u8,
        at: usize,
    },
    /// A model whose heads a plan would rotate in other channels than the model.
    #[cfg(feature = "models")]
    ModelHead {
        given: usize,
        head_dim: usize,
        window: (usize, usize),
    },
    PositionRange {
        first: i64,
        count: usize,
    },
    /// A plan with a norm, where a linear one is needed.
    NotLinear,
    /// Memory for a prepared call that does not use it.
    UnusedMemory {
        name: &'static str,
        /// The operand or the memory of the call instead.
        instead: &'static str,
    },
    /// More parts than two.
    MoreParts {
        name: &'static str,
    },
    /// A cache, or parts, where a call takes tensors.
    NotATensor {
        name: &'static str,
    },
    /// Frequencies at positions, where a call takes rows.
    NotRows,
}

impl Failure {
    /// The failure for text that is not UTF-8.
    #[cfg(feature = "models")]
    #[cold]
    pub(crate) fn utf8(name: &'static str, text: &[u8], error: core::str::Utf8Error) -> Self {
        let at = error.valid_up_to();
        let byte = text.get(at).copied().unwrap_or_default();
        Failure::Utf8 { name, byte, at }
    }

    /// Adds `instead`, the way out, to an overlap of two memories, the first of which is written.
    #[cold]
    pub(crate) fn between(self, names: [&str; 2], instead: &'static str) -> Self {
        match self {
            Failure::MemoryOverlap {
                written,
                other,
                bytes,
                at,
                ..
            } if [written, other] == names => Failure::MemoryOverlap {
                written,
                other,
                bytes,
                at,
                required: instead,
            },
            other => other,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Core(error)
    }
}

#[cfg(feature = "models")]
impl From<rope_models::Error> for Failure {
    fn from(error: rope_models::Error) -> Self {
        match error {
            rope_models::Error::Rope(error) => Failure::Core(error),
            error => Failure::Model(error),
        }
    }
}

/// A message that names C's functions.
fn in_c<T: fmt::Display>(text: T) -> Renamed<'static, T> {
    Renamed { text, names: NAMES }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Failure::Core(error) => write!(f, "{}", in_c(error)),
            #[cfg(feature = "models")]
            Failure::Model(ref error) => write!(f, "{}", in_c(error)),
            Failure::Null { name } => write!(
                f,
                "{name} is NULL; it must point to the memory that the call reads or writes there"
            ),
            Failure::Misaligned { name, alignment } => write!(
                f,
                "{name} is misaligned; its address must be a multiple of {alignment}"
            ),
            Failure::Length { name, len } => write!(
                f,
                "{name} has {}, more than the address space holds from its address on; give the number \
                 that its memory has",
                Count(len, "elements")
            ),
            Failure::UnknownValue {
                what,
                value,
                required,
            } => write!(f, "{what} is {value}; it must be {required}"),
            Failure::MemoryOverlap {
                written,
                other,
                bytes,
                at,
                required,
            } => write!(
                f,
                "{written} is written and overlaps {other}, in {} from byte {at} of {written}; {required}",
                Count(bytes, "bytes")
            ),
            Failure::Handle { name, required } => write!(f, "{name} is not a handle {required}"),
            #[cfg(feature = "std")]
            Failure::OutOfMemory { bytes } => write!(
                f,
                "{bytes} bytes could not be allocated; the calls that take memory of the caller (rope_rows_fill, \
                 rope_frequencies_init) allocate none"
            ),
            #[cfg(feature = "std")]
            Failure::Internal => f.write_str("a bug of this library, caught; please report it"),
            #[cfg(feature = "models")]
            Failure::Utf8 { name, byte, at } => write!(
                f,
                "byte {at} of {name} is {byte:#04x}, which belongs to no character of UTF-8; encode {name} in UTF-8"
            ),
            #[cfg(feature = "models")]
            Failure::ModelHead {
                given,
                head_dim,
                window: (first, end),
            } => write!(
                f,
                "config.head_dim is {given}; heads of this model have {head_dim} channels, of which {first}..{end} \
                 rotate, and the plan of this call is for tensors of those channels alone: give head_dim {}, or whole \
                 heads to the plan of rope_model_describe_layer",
                end - first
            ),
            Failure::NotLinear => {
                f.write_str("plan.norm is given; a backward pass requires a plan without a norm")
            }
            Failure::UnusedMemory { name, instead } => write!(
                f,
                "{name} is given, but the prepared call has {instead}; it must be NULL"
            ),
            Failure::MoreParts { name } => write!(
                f,
                "{name}.next.next is given; an operand has at most 2 parts, so it must be NULL"
            ),
            Failure::NotATensor { name } => {
                write!(
                    f,
                    "{name}.cache or {name}.next is given; this call takes tensors: set both to NULL, and {name}.data to \
                     the tensor"
                )
            }
            Failure::NotRows => f.write_str(
                "angles.frequencies is given; this call takes rows, which rope_rows_fill makes",
            ),
            Failure::PositionRange { first, count } => {
                let (positions, most) = (Count(count, "positions"), i64::MAX);
                let exceed = if count == 1 { "exceeds" } else { "exceed" };
                write!(
                    f,
                    "{positions} from {first} on {exceed} the largest position, {most}; begin lower, or give fewer"
                )
            }
        }
    }
}
