//! Whole tests from a source of choices. Suites call them in a loop, fuzz targets with the fuzzer's bytes.
//!
//! [`targets`] has a function for each fuzz target; [`TARGETS`] lists them.

mod cache;
#[cfg(feature = "capi")]
mod calls;
mod chain;
pub mod config;
mod dual_chunk;
mod frequencies;
mod full;
mod generated_rows;
mod gguf;
mod gradient;
#[cfg(feature = "capi")]
mod memories;
mod outputs;
mod rotate;
mod rows;
mod shards;
mod tensor;

pub use cache::{cache, shift};
#[cfg(feature = "capi")]
pub use calls::calls;
pub use chain::chain;
pub use config::{config, made_config};
pub use dual_chunk::dual_chunk;
pub use frequencies::frequencies;
pub use full::full_width;
pub use generated_rows::{generated_rows, mixed_rows};
pub use gguf::{gguf, made_gguf};
pub use gradient::gradient;
#[cfg(feature = "capi")]
pub use memories::{Packed, memories, packed};
pub use outputs::outputs;
pub use rotate::rotate;
pub use rows::rows;
pub use shards::shards;
pub use tensor::tensor;

use crate::Source;

/// The functions of the fuzz targets. A target's file calls the function of its name with the fuzzer's bytes, and the
/// suites replay its corpus through the same function.
pub mod targets {
    use crate::Source;

    /// Tests rotations on all backends.
    pub fn rotate(bytes: &[u8]) {
        let source = &mut Source::bytes(bytes);
        if source.once_in(4) {
            super::full_width(source);
        } else {
            super::rotate(source);
        }
    }

    /// Tests norms, scales and rotations on all backends, also into several targets.
    pub fn chain(bytes: &[u8]) {
        let source = &mut Source::bytes(bytes);
        if source.once_in(6) {
            super::outputs(source);
        } else {
            super::chain(source);
        }
    }

    /// Tests tensors into caches, and caches into tensors.
    pub fn cache(bytes: &[u8]) {
        super::cache(&mut Source::bytes(bytes));
    }

    /// Tests moves of cached keys.
    pub fn shift(bytes: &[u8]) {
        super::shift(&mut Source::bytes(bytes));
    }

    /// Tests backward passes.
    pub fn gradient(bytes: &[u8]) {
        super::gradient(&mut Source::bytes(bytes));
    }

    /// Tests shapes, strides and sub-tensors, and rows made of slices.
    pub fn tensor(bytes: &[u8]) {
        let source = &mut Source::bytes(bytes);
        super::tensor(source);
        super::rows(source);
    }

    /// Tests axes, bases, scalings and GGUF keys.
    pub fn frequencies(bytes: &[u8]) {
        super::frequencies(&mut Source::bytes(bytes));
    }

    /// Tests rows of frequencies and of mixed frequencies at positions.
    pub fn rows(bytes: &[u8]) {
        let source = &mut Source::bytes(bytes);
        if source.once_in(16) {
            super::shards(source);
        } else if source.once_in(16) {
            super::dual_chunk(source);
        } else if source.once_in(3) {
            super::mixed_rows(source);
        } else {
            super::generated_rows(source);
        }
    }

    /// Tests configurations in JSON.
    pub fn config(bytes: &[u8]) {
        super::config(bytes);
    }

    /// Tests GGUF files.
    pub fn gguf(bytes: &[u8]) {
        super::gguf(bytes);
    }

    /// Tests the C API.
    #[cfg(feature = "capi")]
    pub fn capi(bytes: &[u8]) {
        super::calls(&mut Source::bytes(bytes));
        super::packed(&mut Source::bytes(bytes));
        super::memories(&mut Source::bytes(bytes));
    }
}

/// The name of a fuzz target, and its function.
pub type Target = (&'static str, fn(&[u8]));

/// All fuzz targets. `tests/corpus.rs` compares the list with the files of `fuzz/`.
pub const TARGETS: &[Target] = &[
    ("rotate", targets::rotate),
    ("chain", targets::chain),
    ("cache", targets::cache),
    ("shift", targets::shift),
    ("gradient", targets::gradient),
    ("tensor", targets::tensor),
    ("frequencies", targets::frequencies),
    ("rows", targets::rows),
    ("config", targets::config),
    ("gguf", targets::gguf),
    #[cfg(feature = "capi")]
    ("capi", targets::capi),
];

/// Returns a number that is mostly small and sometimes huge.
fn number_of_any_size(source: &mut Source<'_>) -> usize {
    match source.below(24) {
        0 => usize::MAX - source.below(3),
        1 => 1 << source.below(usize::BITS as usize),
        2 => source.below(64),
        _ => source.below(5),
    }
}
