//! The Hadamard transform of heads that follows a rotation.

use rope_core::stages::{Hadamard, HadamardFactor};

use crate::failure::Failure;
use crate::memory::{Out, plain};
use crate::names::lookup;
use crate::status::{rope_status, status_of};

/// Where a Hadamard transform multiplies by 1 / sqrt(block). For blocks that are a power of four both give the same
/// floats, overflow and subnormal numbers apart.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum rope_hadamard_factor {
    /// After the butterflies: DeepSeek, fast_hadamard_transform, SGLang, executorch, QuaRot.
    Last = 0,
    /// Before the butterflies: llama.cpp.
    First = 1201,
}
lookup!(rope_hadamard_factor, "factor of a Hadamard transform": Last First);

/// The transforms of engines.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum rope_hadamard_preset {
    /// llama.cpp's of queries and of quantized keys: the largest block of 64, 128, 256 .. channels that divides the
    /// head, multiplied first; none where 64 does not divide the head.
    LlamaCppKeys = 1301,
    /// llama.cpp's of quantized values and of the attention's output: blocks of 64 channels, multiplied first; none
    /// where 64 does not divide the head.
    LlamaCppValues = 1302,
    /// The indexers of DeepSeek-V3.2 and V4 and of GLM: the whole head is one block.
    Indexer = 1303,
}
lookup!(rope_hadamard_preset, "preset of a Hadamard transform": LlamaCppKeys LlamaCppValues Indexer);

/// A Hadamard transform of blocks of channels, in float: strides ascend, each operation is rounded by itself. It is its
/// own inverse. Zeros: none.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rope_hadamard {
    /// Channels of a block, a power of two from 2 to 2048 that divides a head; 0: there is no transform.
    pub block: usize,
    /// Where it multiplies (`enum rope_hadamard_factor`).
    pub factor: i32,
}
plain!(rope_hadamard);

impl rope_hadamard {
    /// The transform, if there is one.
    pub(crate) fn hadamard(&self) -> Result<Option<Hadamard>, Failure> {
        let factor = match rope_hadamard_factor::from_c(self.factor)? {
            rope_hadamard_factor::Last => HadamardFactor::Last,
            rope_hadamard_factor::First => HadamardFactor::First,
        };
        match self.block {
            0 => Ok(None),
            block => Ok(Some(Hadamard::new(block)?.with_factor(factor))),
        }
    }
}

/// Fills in the transform that an engine applies to heads of `head_dim` channels (`enum rope_hadamard_preset`).
///
/// Returns ROPE_STATUS_HADAMARD_BLOCK if the block would be longer than 2048 channels, or the indexer's head is no
/// power of two; ROPE_STATUS_UNKNOWN_VALUE, ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED. The struct is untouched then.
///
/// # Threads
///
/// May be called from any thread at any time.
///
/// # Safety
///
/// `hadamard` is NULL or points to a rope_hadamard.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_hadamard_init(
    hadamard: *mut rope_hadamard,
    preset: i32,
    head_dim: usize,
) -> rope_status {
    status_of(|| {
        let out = Out::new("hadamard", hadamard)?;
        // llama.cpp transforms no heads that 64 does not divide.
        let whole = head_dim > 0 && head_dim.is_multiple_of(64);
        let (block, factor) = match rope_hadamard_preset::from_c(preset)? {
            rope_hadamard_preset::LlamaCppKeys => (
                whole.then(|| 1 << head_dim.trailing_zeros()),
                rope_hadamard_factor::First,
            ),
            rope_hadamard_preset::LlamaCppValues => {
                (whole.then_some(64), rope_hadamard_factor::First)
            }
            rope_hadamard_preset::Indexer => (Some(head_dim), rope_hadamard_factor::Last),
        };
        if let Some(block) = block {
            Hadamard::new(block)?;
        }
        let hadamard = rope_hadamard {
            block: block.unwrap_or(0),
            factor: factor as i32,
        };
        // SAFETY: the caller promises that the pointer, which was checked, is writable.
        unsafe { out.write(hadamard) };
        Ok(())
    })
}
