//! Tests that draw their choices from a source: suites call them in a loop, fuzz targets with their bytes.
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

/// The bodies of the fuzz targets, by name: the file of the target calls the function of its name, and so do
/// the suites that replay its corpus.
pub mod targets {
    use crate::Source;

    /// Rotations, by all backends.
    pub fn rotate(bytes: &[u8]) {
        let source = &mut Source::bytes(bytes);
        if source.once_in(4) {
            super::full_width(source);
        } else {
            super::rotate(source);
        }
    }

    /// Norms, scales and rotations, into several targets too, by all backends.
    pub fn chain(bytes: &[u8]) {
        let source = &mut Source::bytes(bytes);
        if source.once_in(6) {
            super::outputs(source);
        } else {
            super::chain(source);
        }
    }

    /// Tensors into caches, and caches into tensors.
    pub fn cache(bytes: &[u8]) {
        super::cache(&mut Source::bytes(bytes));
    }

    /// Keys that lie in caches, moved.
    pub fn shift(bytes: &[u8]) {
        super::shift(&mut Source::bytes(bytes));
    }

    /// Backward passes.
    pub fn gradient(bytes: &[u8]) {
        super::gradient(&mut Source::bytes(bytes));
    }

    /// Shapes, strides and sub-tensors; and rows made of slices.
    pub fn tensor(bytes: &[u8]) {
        let source = &mut Source::bytes(bytes);
        super::tensor(source);
        super::rows(source);
    }

    /// Axes, bases, scalings, GGUF keys.
    pub fn frequencies(bytes: &[u8]) {
        super::frequencies(&mut Source::bytes(bytes));
    }

    /// Rows of frequencies, mixed ones too, at positions.
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

    /// Configurations in JSON.
    pub fn config(bytes: &[u8]) {
        super::config(bytes);
    }

    /// GGUF files.
    pub fn gguf(bytes: &[u8]) {
        super::gguf(bytes);
    }

    /// The C API.
    #[cfg(feature = "capi")]
    pub fn capi(bytes: &[u8]) {
        super::calls(&mut Source::bytes(bytes));
        super::packed(&mut Source::bytes(bytes));
        super::memories(&mut Source::bytes(bytes));
    }
}

/// A name, and what takes the bytes.
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

/// Small as a rule, huge now and then.
fn number_of_any_size(source: &mut Source<'_>) -> usize {
    match source.below(24) {
        0 => usize::MAX - source.below(3),
        1 => 1 << source.below(usize::BITS as usize),
        2 => source.below(64),
        _ => source.below(5),
    }
}
