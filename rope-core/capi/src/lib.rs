//! The C API of rope-core: translation, and nothing else.
//!
//! Programs in C and C++ read `include/rope.h`, which is generated from this crate, and link `librope.a` or
//! `librope.so`. `README.md` shows how.
//!
//! - What allocates is a handle: [`rope_frequencies`], [`rope_table`] and [`rope_model`].
//! - Everything else is a plain struct over the caller's memory: [`rope_plan`], [`rope_operand`] (a tensor, or slots of
//!   a [`rope_cache`]), [`rope_angles`] (rows, or frequencies at positions), [`rope_positions`],
//!   [`rope_pair_gradients`].
//! - Firmware allocates nothing: it makes frequencies in memory of its own ([`rope_frequencies_init`]), and fills rows
//!   where it needs them ([`rope_rows_fill`]).
//! - The verbs are rope-core's, [`rope_rotate`] and its like. A prepared one is a [`rope_call`].
//!
//! # How a call is made safe
//!
//! Enumerations cross the boundary as integers, and the call looks them up. It checks every pointer for null and
//! alignment, and every length for what an address space can hold. Written memory must share no byte with read
//! memory, because Rust's references may not. Only then do slices exist, and rope-core checks the rest. A call cannot
//! know whether the memory behind a pointer is there: that is the only thing that the caller has to promise.
//!
//! No two slices of overlapping memory exist at the same time if one of them can be written. A call that writes two
//! memories makes the slice of the second only once it is found apart from the first. Q and K of a packed row overlap,
//! from their first byte to their last, though they share no element: [`rope_rotate_qk`] makes and drops the slice of
//! one, and then the slice of the other.
#![cfg_attr(not(feature = "std"), no_std)]
#![allow(
    non_camel_case_types,
    reason = "types have the names that they have in C"
)]

mod angles;
mod axes;
mod cache;
mod call;
#[cfg(feature = "models")]
mod config;
mod dialect;
mod failure;
mod frequencies;
#[cfg(feature = "models")]
mod gguf;
mod gradient;
mod hadamard;
mod handle;
#[cfg(feature = "models")]
mod initial;
mod memory;
mod mixed;
mod names;
mod norm;
mod operand;
#[cfg(feature = "std")]
mod outputs;
mod packed;
mod plan;
mod positions;
mod rows;
mod scale;
mod scaling;
mod slots;
mod status;
mod verbs;
mod version;

pub use angles::*;
pub use axes::*;
pub use cache::*;
pub use call::*;
#[cfg(feature = "models")]
pub use config::*;
pub use frequencies::*;
#[cfg(feature = "models")]
pub use gguf::*;
pub use gradient::*;
pub use hadamard::*;
#[cfg(feature = "models")]
pub use initial::*;
pub use mixed::*;
pub use names::*;
pub use norm::*;
pub use operand::*;
#[cfg(feature = "std")]
pub use outputs::*;
pub use plan::*;
pub use positions::*;
pub use rows::*;
pub use scale::*;
pub use scaling::*;
pub use slots::*;
pub use status::*;
pub use verbs::*;
pub use version::*;

/// A static library has to have a panic handler. No call is known to panic.
#[cfg(not(feature = "std"))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}
