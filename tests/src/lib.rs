//! The test harness of rope-core, shared by the suites in `tests/` and the fuzz targets.
//!
//! Most rotations have one right answer, and the harness compares them without a tolerance. A test makes a case from a
//! [`Source`] of choices, asks the [`oracle`] for every element of the buffer after the rotation, rotates on every
//! backend, and compares bits.
//!
//! - [`naive`]: every verb by its definition, to read first
//! - [`snapshot`](mod@snapshot): texts that files keep
//! - [`seed`]: the one number that a run depends on
//! - [`source`]: the choices of a test, from a seed or from the bytes of a fuzzer
//! - [`number`]: the element types as bits, with conversions of their own, and their special values
//! - [`generator`]: tensors in any memory layout
//! - [`angles`]: rows, and the ways to store and to select them
//! - [`oracle`]: the results of rotations from the definition
//! - [`chain`], [`norm`], [`mod@cache`], [`quantize`]: the results of stages, norms, caches and 8-bit codes
//! - [`gradient`]: the results of a backward pass
//! - [`full`]: the results of full-width rows
//! - [`mod@compare`]: comparison of bits
//! - [`run`]: one case on all backends
//! - `over_c`: the same cases as structs and handles of the C API
//! - [`bodies`]: whole tests from a source, for loops and for fuzz targets
//! - [`guard`]: buffers beside an unreadable page
//! - [`golden`]: reference data
//! - [`gguf`]: GGUF files
//! - [`bounds`]: error limits
//! - [`exact`]: angles and rotations in f64
//! - [`correctly_rounded`]: cos and sin in 128-bit integers, rounded to the nearest f32
//! - [`backends`]: the available and the expected instruction sets

/// The workspace's README, compiled. (The README of rope-core's package is compiled in rope-core.)
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

pub mod angles;
pub mod backends;
pub mod bodies;
pub mod bounds;
#[cfg(feature = "capi")]
pub mod c;
pub mod cache;
pub mod chain;
pub mod compare;
pub mod correctly_rounded;
pub mod exact;
pub mod full;
pub mod generator;
pub mod gguf;
pub mod golden;
pub mod gradient;
#[cfg(unix)]
pub mod guard;
pub mod hadamard;
pub mod naive;
pub mod norm;
pub mod number;
pub mod oracle;
#[cfg(feature = "capi")]
pub mod over_c;
pub mod quantize;
pub mod run;
pub mod seed;
pub mod snapshot;
pub mod source;

pub use angles::{Angles, Form, Stored};
pub use compare::compare;
pub use generator::{Placed, View};
pub use number::Number;
pub use oracle::{Expected, Rotation};
pub use source::Source;

/// `f::<E>` for every element type, of type `&[F]`.
#[macro_export]
macro_rules! element_functions {
    ($f:ident: $F:ty) => {{
        let functions: &[$F] = &[$f::<f32>, $f::<::half::f16>, $f::<::half::bf16>];
        functions
    }};
}

/// `f::<I, O>` for every pair of element types, of type `&[F]`.
#[macro_export]
macro_rules! element_pair_functions {
    ($f:ident: $F:ty) => {{
        let functions: &[$F] = &[
            $f::<f32, f32>,
            $f::<f32, ::half::f16>,
            $f::<f32, ::half::bf16>,
            $f::<::half::f16, f32>,
            $f::<::half::f16, ::half::f16>,
            $f::<::half::f16, ::half::bf16>,
            $f::<::half::bf16, f32>,
            $f::<::half::bf16, ::half::f16>,
            $f::<::half::bf16, ::half::bf16>,
        ];
        functions
    }};
}

/// Calls `f::<E>(args)` for every element type.
#[macro_export]
macro_rules! each_element {
    ($f:ident($($arg:expr),* $(,)?)) => {
        for f in $crate::element_functions!($f: _) {
            f($($arg),*);
        }
    };
}

/// Calls `f::<I, O>(args)` for every pair of element types.
#[macro_export]
macro_rules! each_element_pair {
    ($f:ident($($arg:expr),* $(,)?)) => {
        for f in $crate::element_pair_functions!($f: _) {
            f($($arg),*);
        }
    };
}
