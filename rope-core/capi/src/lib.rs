//! The C API of rope-core: translation, and nothing else.
//!
//! Programs in C and C++ read `include/rope.h`, which is generated from this crate, and link `librope.a` or
//! `librope.so`. `README.md` shows how.
//!
//! - What allocates is a handle: [`rope_frequencies`] and [`rope_table`].
//! - Everything else is a plain struct over the caller's memory: [`rope_plan`], [`rope_tensor`], [`rope_rows`],
//!   [`rope_positions`].
//! - Firmware allocates nothing: it makes frequencies in memory of its own ([`rope_frequencies_init`]), and fills rows
//!   where it wants them ([`rope_rows_fill`]).
//! - The verbs, [`rope_rotate`], [`rope_rotate_qk`], [`rope_rotate_into`] and [`rope_rotate_at`], are the same for
//!   both.
//!
//! # How a call is made safe
//!
//! Enumerations cross the boundary as integers, and the call looks them up. It checks every pointer for null and
//! alignment, and every length for what an address space can hold. What is written must share no byte with what is
//! read, because Rust's references may not. Only then do slices exist, and rope-core checks the rest. A call cannot
//! know whether the memory behind a pointer is there: that is the only thing that the caller has to promise.
#![cfg_attr(not(feature = "std"), no_std)]
#![allow(
    non_camel_case_types,
    reason = "types have the names that they have in C"
)]

mod axes;
#[cfg(feature = "std")]
mod config;
mod failure;
mod frequencies;
mod memory;
mod names;
mod plan;
mod positions;
mod rotate;
mod rows;
mod scaling;
mod status;
mod tensor;
mod version;

pub use axes::*;
#[cfg(feature = "std")]
pub use config::*;
pub use frequencies::*;
pub use names::*;
pub use plan::*;
pub use positions::*;
pub use rotate::*;
pub use rows::*;
pub use scaling::*;
pub use status::*;
pub use tensor::*;
pub use version::*;

/// A static library has to have a panic handler. No call is known to panic.
#[cfg(not(feature = "std"))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}
