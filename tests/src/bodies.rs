//! Whole tests from a source of choices: suites call them in a loop, fuzz targets with their bytes.
//!
//! | target of the fuzzer | body |
//! |---|---|
//! | `rotate` | [`rotate`]: rotations, by all backends |
//! | `tensor` | [`tensor`]: shapes, strides and sub-tensors; [`rows`]: rows made of slices |
//! | `frequencies` | [`frequencies`]: axes, bases, scalings, GGUF keys |
//! | `rows` | [`generated_rows`]: rows of frequencies at positions |
//! | `config` | [`config`]: JSON |
//! | `capi` | [`calls`]: the C API |

#[cfg(feature = "capi")]
mod calls;
mod config;
mod frequencies;
mod generated_rows;
mod rotate;
mod rows;
mod tensor;

#[cfg(feature = "capi")]
pub use calls::calls;
pub use config::{config, made_config};
pub use frequencies::frequencies;
pub use generated_rows::generated_rows;
pub use rotate::rotate;
pub use rows::rows;
pub use tensor::tensor;

use crate::Source;

/// Small as a rule, huge now and then.
fn number_of_any_size(source: &mut Source<'_>) -> usize {
    match source.below(24) {
        0 => usize::MAX - source.below(3),
        1 => 1 << source.below(usize::BITS as usize),
        2 => source.below(64),
        _ => source.below(5),
    }
}
