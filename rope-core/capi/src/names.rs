//! Enumerations as the integers that cross the boundary.

use core::ffi::{CStr, c_char};
use core::ptr;

use rope_core::axes::MixedAngle;
use rope_core::{Angle, Backend, Direction, Pairing};

use crate::failure::Failure;

/// Makes `rope_x::from_c`, which looks an integer up, and `rope_x::ALL`. A list that lacks a variant does not
/// compile.
macro_rules! lookup {
    ($name:ident, $what:literal: $($variant:ident)+) => {
        impl $name {
            /// All values: tests go through them.
            #[doc(hidden)]
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// The variant with this value; otherwise `ROPE_STATUS_UNKNOWN_VALUE`.
            #[inline]
            pub(crate) fn from_c(value: i32) -> Result<Self, Failure> {
                $(if value == $name::$variant as i32 {
                    return Ok($name::$variant);
                })+
                // A variant that is missing from the list does not compile.
                let _ = |variant: $name| match variant {
                    $($name::$variant => (),)+
                };
                let required = concat!("a value of enum ", stringify!($name));
                Err(Failure::UnknownValue { what: $what, value, required })
            }
        }
    };
}
pub(crate) use lookup;

/// Which two channels of a head form the pair that is rotated by one angle. Nothing in a tensor tells which pairing its
/// model was trained with.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum rope_pairing {
    /// Channels 2i and 2i + 1: GPT-J, Llama as Meta published it, GLM up to GLM-4, Cohere; ggml's NORMAL, ONNX's
    /// `interleaved = 1`.
    Interleaved = 101,
    /// Channels i and i + rotary_dim / 2: GPT-NeoX, the rotate_half models of Hugging Face (Llama, Mistral, Qwen,
    /// Gemma, Phi, GLM-4.5); ggml's NEOX, ONNX's `interleaved = 0`.
    Half = 102,
}
lookup!(rope_pairing, "pairing": Interleaved Half);

impl rope_pairing {
    #[inline]
    pub(crate) fn pairing(self) -> Pairing {
        match self {
            rope_pairing::Interleaved => Pairing::Interleaved,
            rope_pairing::Half => Pairing::Half,
        }
    }
}

impl From<Pairing> for rope_pairing {
    fn from(pairing: Pairing) -> Self {
        match pairing {
            Pairing::Interleaved => rope_pairing::Interleaved,
            Pairing::Half => rope_pairing::Half,
        }
    }
}

#[cfg(feature = "models")]
impl From<Direction> for rope_direction {
    fn from(direction: Direction) -> Self {
        match direction {
            Direction::Forward => rope_direction::Forward,
            Direction::Inverse => rope_direction::Inverse,
            Direction::Transpose => rope_direction::Transpose,
        }
    }
}

/// Which way a pair is rotated. R is the rotation by the angles of the rows, and A is their attention factor.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum rope_direction {
    /// x <- A R x: rotates by the angles of the rows, and scales by their attention factor.
    Forward = 0,
    /// x <- 1/A R^T x, which undoes FORWARD: rotates back, and divides by the attention factor.
    Inverse = 201,
    /// x <- A R^T x, the transpose of FORWARD: rotates back, and multiplies by the attention factor. For
    /// backpropagation. The same as INVERSE where A is 1. A plan reads its pairing and writes its output pairing in
    /// every direction: to undo a plan that changes the pairing, exchange the two.
    Transpose = 202,
}
lookup!(rope_direction, "direction": Forward Inverse Transpose);

impl rope_direction {
    #[inline]
    pub(crate) fn direction(self) -> Direction {
        match self {
            rope_direction::Forward => Direction::Forward,
            rope_direction::Inverse => Direction::Inverse,
            rope_direction::Transpose => Direction::Transpose,
        }
    }
}

/// The type of a tensor's elements. The arithmetic is f32, and its result is rounded to the element once.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum rope_element {
    /// IEEE single precision.
    F32 = 301,
    /// IEEE half precision, 16 bits.
    F16 = 302,
    /// bfloat16, 16 bits.
    Bf16 = 303,
}
lookup!(rope_element, "element": F32 F16 Bf16);

impl rope_element {
    /// Bytes of an element.
    #[inline]
    pub(crate) fn size(self) -> usize {
        match self {
            rope_element::F32 => 4,
            rope_element::F16 | rope_element::Bf16 => 2,
        }
    }
}

/// The type of position ids, coordinates and inverse frequencies. No call can see the type of the memory: int64_t ids
/// that are declared I32 are read as pairs of ids, of which every other one is 0 on little-endian machines.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum rope_number {
    /// int32_t
    I32 = 401,
    /// int64_t
    I64 = 402,
    /// uint32_t
    U32 = 403,
    /// float
    F32 = 404,
    /// double
    F64 = 405,
    /// uint64_t
    U64 = 406,
}
lookup!(rope_number, "number": I32 I64 U32 F32 F64 U64);

impl rope_number {
    /// Bytes of a number.
    #[inline]
    pub(crate) fn size(self) -> usize {
        match self {
            rope_number::I32 | rope_number::U32 | rope_number::F32 => 4,
            rope_number::I64 | rope_number::U64 | rope_number::F64 => 8,
        }
    }

    /// Returns `ROPE_STATUS_UNKNOWN_VALUE`: the call reads no numbers of this type here.
    #[cold]
    pub(crate) fn refused(self, required: &'static str) -> Failure {
        Failure::UnknownValue {
            what: "number",
            value: self as i32,
            required,
        }
    }
}

pub(crate) const INTEGERS: &str =
    "an integer type: ROPE_NUMBER_I32, ROPE_NUMBER_I64, ROPE_NUMBER_U32 or ROPE_NUMBER_U64";
pub(crate) const FLOATS: &str = "ROPE_NUMBER_F32 or ROPE_NUMBER_F64";

/// Which angle a position has.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum rope_angle {
    /// The exact product of position and frequency.
    Exact = 0,
    /// The angle of Hugging Face's models: position and inverse frequency as floats, their product rounded to a float,
    /// and that taken as the angle.
    HuggingFaceF32 = 501,
}
lookup!(rope_angle, "angle": Exact HuggingFaceF32);

impl rope_angle {
    pub(crate) fn angle(self) -> Angle {
        match self {
            rope_angle::Exact => Angle::Exact,
            rope_angle::HuggingFaceF32 => Angle::HuggingFaceF32,
        }
    }

    /// The number of an angle.
    pub(crate) fn number(angle: Angle) -> i32 {
        let named = Self::ALL.iter().find(|named| named.angle() == angle);
        named.map_or(-1, |named| *named as i32)
    }
}

/// Which angle a token's coordinates have on mixed axes.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum rope_mixed_angle {
    /// The exact sum of the products of coordinate and frequency.
    Exact = 0,
    /// The angle of timm and rope-vit: coordinates and inverse frequencies as floats, each product rounded to a float,
    /// and each sum, axis 0 first.
    SummedF32 = 1501,
}
lookup!(rope_mixed_angle, "angle of mixed axes": Exact SummedF32);

impl rope_mixed_angle {
    pub(crate) fn angle(self) -> MixedAngle {
        match self {
            rope_mixed_angle::Exact => MixedAngle::Exact,
            rope_mixed_angle::SummedF32 => MixedAngle::SummedF32,
        }
    }

    /// The number of an angle.
    pub(crate) fn number(angle: MixedAngle) -> i32 {
        let named = Self::ALL.iter().find(|named| named.angle() == angle);
        named.map_or(-1, |named| *named as i32)
    }
}

/// An instruction set that the kernels are compiled for. All give the same bits; they differ in speed.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum rope_backend {
    /// The fastest that this CPU can run.
    Best = 0,
    /// Any target, without vectors.
    Scalar = 601,
    /// Any target: 4 lanes of the build's target.
    Portable = 602,
    /// 64-bit ARM: 4 lanes.
    Neon = 603,
    /// x86 with AVX2, FMA and F16C: 8 lanes.
    Avx2 = 604,
    /// x86 with AVX-512 F, BW, DQ, VL and VBMI2: 16 lanes.
    Avx512 = 605,
    /// x86 with all that AVX512 needs, and AVX512-BF16 and VBMI for bf16: 16 lanes.
    Avx512Bf16 = 606,
    /// 64-bit RISC-V with V 1.0: vectors of the CPU's own length.
    Rvv = 607,
    /// 64-bit ARM with SVE: vectors of the CPU's own length.
    Sve = 608,
}

/// Generates the conversions of backends from one list: each but `Best` is rope-core's backend of the same name.
///
/// The enumeration above is written out because cbindgen reads it, and it expands no macro. The compiler holds the
/// list to the enumeration, and to the backends of rope-core.
macro_rules! backends {
    ($($name:ident)+) => {
        lookup!(rope_backend, "backend": Best $($name)+);

        impl rope_backend {
            /// The backend that is named, if one is.
            #[inline]
            pub(crate) fn backend(self) -> Option<Backend> {
                match self {
                    rope_backend::Best => None,
                    $(rope_backend::$name => Some(Backend::$name),)+
                }
            }

            fn name(self) -> &'static CStr {
                match self {
                    rope_backend::Best => {
                        let best = Backend::best();
                        let own = |named: &&Self| named.backend() == Some(best);
                        Self::ALL.iter().find(own).map_or(c"", |named| named.name())
                    }
                    $(rope_backend::$name => {
                        const NAME: &str = Backend::$name.name();
                        const BYTES: [u8; NAME.len() + 1] = with_nul(NAME);
                        const { terminated(&BYTES) }
                    })+
                }
            }
        }

        const _: () = assert!(
            [$(Backend::$name),+].len() == Backend::ALL.len(),
            "a backend of rope-core has no number: give it one in rope_backend, and name it in the list below"
        );
    };
}

backends! { Scalar Portable Neon Avx2 Avx512 Avx512Bf16 Rvv Sve }

/// A name with a NUL after it, which makes it one byte longer.
const fn with_nul<const N: usize>(name: &str) -> [u8; N] {
    let mut bytes = [0; N];
    bytes
        .split_at_mut(name.len())
        .0
        .copy_from_slice(name.as_bytes());
    bytes
}

const fn terminated(bytes: &[u8]) -> &CStr {
    match CStr::from_bytes_with_nul(bytes) {
        Ok(text) => text,
        Err(_) => panic!("a name has one NUL, at its end"),
    }
}

/// 1 if this CPU, and this build of the library, can run a backend (`enum rope_backend`), otherwise 0. A number that
/// names no backend gives 0.
///
/// # Threads
///
/// May be called from any thread at any time.
#[unsafe(no_mangle)]
pub extern "C" fn rope_backend_available(backend: i32) -> i32 {
    let available = rope_backend::from_c(backend)
        .is_ok_and(|named| named.backend().is_none_or(Backend::is_available));
    available.into()
}

/// Returns the name of a backend in lower case; for ROPE_BACKEND_BEST, the name of the fastest backend that this CPU
/// can run; NULL for a number that names no backend. The text is static; do not free it.
///
/// # Threads
///
/// May be called from any thread at any time.
#[unsafe(no_mangle)]
pub extern "C" fn rope_backend_name(backend: i32) -> *const c_char {
    rope_backend::from_c(backend).map_or(ptr::null(), |named| named.name().as_ptr())
}
