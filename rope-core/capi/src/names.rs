//! Enumerations as the integers that cross the boundary.

use core::ffi::{CStr, c_char};
use core::ptr;

use rope_core::{Angle, Backend, Direction, Pairing};

use crate::status::Failure;

/// Looks an integer up: `rope_x::from_c`.
macro_rules! lookup {
    ($name:ident, $what:literal: $($variant:ident)+) => {
        impl $name {
            /// The variant with this value; otherwise `ROPE_STATUS_UNKNOWN_VALUE`.
            #[inline]
            pub(crate) fn from_c(value: i32) -> Result<Self, Failure> {
                $(if value == $name::$variant as i32 {
                    return Ok($name::$variant);
                })+
                // None is forgotten.
                let _ = |variant: $name| match variant {
                    $($name::$variant => (),)+
                };
                Err(Failure::UnknownValue { what: $what, value })
            }
        }
    };
}
pub(crate) use lookup;

/// Which two channels of a head rotate together. Nothing in a tensor tells which one its model was trained with.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum rope_pairing {
    /// Channels 2i and 2i + 1: GPT-J, Llama as Meta published it, GLM, Cohere; ggml's NORMAL, ONNX's interleaved =
    /// 1.
    Interleaved = 1,
    /// Channels i and i + rotary_dim / 2: GPT-NeoX, the rotate_half models of Hugging Face (Llama, Mistral, Qwen,
    /// Gemma, Phi); ggml's NEOX, ONNX's interleaved = 0.
    Half = 2,
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

/// Which way pairs rotate. With R the rotation by the angles of the rows, and A their attention factor.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum rope_direction {
    /// x <- A R x
    Forward = 0,
    /// x <- 1/A R^T x, which undoes FORWARD: a context shift of cached keys, say.
    Inverse = 1,
    /// x <- A R^T x, the gradient of FORWARD. The same as INVERSE where A is 1.
    Transpose = 2,
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

/// What a tensor is made of. The arithmetic is f32, and its result is rounded to the element once.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum rope_element {
    /// IEEE single precision.
    F32 = 1,
    /// IEEE half precision, 16 bits.
    F16 = 2,
    /// bfloat16, 16 bits.
    Bf16 = 3,
}
lookup!(rope_element, "element": F32 F16 Bf16);

/// What position ids, coordinates and inverse frequencies are.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum rope_number {
    /// int32_t
    I32 = 1,
    /// int64_t
    I64 = 2,
    /// uint32_t
    U32 = 3,
    /// float
    F32 = 4,
    /// double
    F64 = 5,
}
lookup!(rope_number, "number": I32 I64 U32 F32 F64);

/// Which angle a position has.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum rope_angle {
    /// The exact product of position and frequency.
    Exact = 0,
    /// What Hugging Face's models compute: position and inverse frequency as f32, their product rounded to f32.
    HuggingFaceF32 = 1,
}
lookup!(rope_angle, "angle": Exact HuggingFaceF32);

impl rope_angle {
    pub(crate) fn angle(self) -> Angle {
        match self {
            rope_angle::Exact => Angle::Exact,
            rope_angle::HuggingFaceF32 => Angle::HuggingFaceF32,
        }
    }
}

/// An instruction set that the kernels are compiled for. All give the same bits; they differ in speed.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum rope_backend {
    /// The fastest that this CPU can run.
    Best = 0,
    /// Any target, without vectors.
    Scalar = 1,
    /// Any target: 4 lanes of what the build's target has.
    Portable = 2,
    /// 64-bit ARM: 4 lanes.
    Neon = 3,
    /// x86 with AVX2, FMA and F16C: 8 lanes.
    Avx2 = 4,
    /// x86 with AVX-512 F, BW, DQ, VL and VBMI2: 16 lanes.
    Avx512 = 5,
    /// x86 with all that AVX512 wants, and AVX512-BF16 for writing bf16: 16 lanes.
    Avx512Bf16 = 6,
}
lookup!(rope_backend, "backend": Best Scalar Portable Neon Avx2 Avx512 Avx512Bf16);

impl rope_backend {
    /// The backend that is named, if one is.
    #[inline]
    pub(crate) fn backend(self) -> Option<Backend> {
        match self {
            rope_backend::Best => None,
            rope_backend::Scalar => Some(Backend::Scalar),
            rope_backend::Portable => Some(Backend::Portable),
            rope_backend::Neon => Some(Backend::Neon),
            rope_backend::Avx2 => Some(Backend::Avx2),
            rope_backend::Avx512 => Some(Backend::Avx512),
            rope_backend::Avx512Bf16 => Some(Backend::Avx512Bf16),
        }
    }

    const NAMED: [rope_backend; 6] = [
        rope_backend::Avx512Bf16,
        rope_backend::Avx512,
        rope_backend::Avx2,
        rope_backend::Neon,
        rope_backend::Portable,
        rope_backend::Scalar,
    ];

    fn name(self) -> &'static CStr {
        match self {
            rope_backend::Best => c"best",
            rope_backend::Scalar => c"scalar",
            rope_backend::Portable => c"portable",
            rope_backend::Neon => c"neon",
            rope_backend::Avx2 => c"avx2",
            rope_backend::Avx512 => c"avx512",
            rope_backend::Avx512Bf16 => c"avx512bf16",
        }
    }
}

/// Whether this CPU, and this build of the library, can run a backend (`enum rope_backend`): 1 or 0; 0 for a number
/// that names none.
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

/// The fastest backend that this CPU can run: what ROPE_BACKEND_BEST stands for.
///
/// # Threads
///
/// May be called from any thread at any time. The first call of a process asks the CPU, which takes microseconds.
#[unsafe(no_mangle)]
pub extern "C" fn rope_backend_best() -> rope_backend {
    let best = Some(Backend::best());
    rope_backend::NAMED
        .into_iter()
        .find(|named| named.backend() == best)
        .unwrap_or(rope_backend::Best)
}

/// The name of a backend in lower case; NULL for a number that names none. Static; not to be freed.
///
/// # Threads
///
/// May be called from any thread at any time.
#[unsafe(no_mangle)]
pub extern "C" fn rope_backend_name(backend: i32) -> *const c_char {
    rope_backend::from_c(backend).map_or(ptr::null(), |named| named.name().as_ptr())
}
