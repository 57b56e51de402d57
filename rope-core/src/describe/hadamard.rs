//! A Hadamard transform of heads, after their rotation.

use crate::Error;
use crate::base::limits::MOST_CHANNELS;
use crate::error::PlanError;
use crate::kernel::hadamard::Blocks;

/// A Hadamard transform of the heads of a tensor: a stage of a plan
/// ([`Rope::with_hadamard`](crate::Rope::with_hadamard)). It spreads outliers over a block of channels before a cache
/// quantizes them.
///
/// A head is divided into blocks of `n` channels, a power of two. With `c` the f32 nearest to `1 / sqrt(n)`, a block is
/// transformed in f32 by butterflies of ascending strides, each operation rounded by itself:
///
/// ```text
/// for s in [1, 2, 4, .., n/2]:
///     for every i whose bit s is clear:  (v[i], v[i + s]) = (v[i] + v[i + s], v[i] - v[i + s])
/// ```
///
/// and multiplied by `c` before the butterflies or after them ([`HadamardFactor`]). The matrix is symmetric and its own
/// inverse. Transforming both queries and keys therefore keeps `q . k`, and transforming the attention's output undoes
/// the transform of values ([`Rope::apply`](crate::Rope::apply)).
///
/// ```
/// use rope_core::stages::Hadamard;
/// use rope_core::{Pairing, Rope, TensorMut};
///
/// let rope = Rope::new(Pairing::Half).with_hadamard(Hadamard::new(4)?);
/// let mut head = [1.0_f32, 2.0, 3.0, 4.0];
/// rope.apply(&mut TensorMut::new(&mut head, [1, 1, 1, 4])?)?;
/// assert_eq!(head, [5.0, -1.0, -2.0, 0.0]);
/// rope.apply(&mut TensorMut::new(&mut head, [1, 1, 1, 4])?)?;
/// assert_eq!(head, [1.0, 2.0, 3.0, 4.0]);
/// # Ok::<(), rope_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hadamard {
    block: usize,
    factor: HadamardFactor,
}

/// The place of the factor `1 / sqrt(n)` of a [`Hadamard`] transform. If `n` is a power of four, both give the same
/// results, except for overflow and subnormal numbers; for other blocks they differ in the last bits.
///
/// ```
/// use rope_core::stages::{Hadamard, HadamardFactor};
///
/// // llama.cpp: the largest power of two that divides the head for queries and keys, 64 channels for values. It leaves
/// // heads that 64 does not divide untransformed.
/// let keys = Hadamard::new(1 << 192_usize.trailing_zeros())?.with_factor(HadamardFactor::First);
/// let values = Hadamard::new(64)?.with_factor(HadamardFactor::First);
/// # Ok::<(), rope_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum HadamardFactor {
    /// After the butterflies: DeepSeek, `fast_hadamard_transform`, SGLang, executorch, QuaRot.
    #[default]
    Last,
    /// Before the butterflies: llama.cpp. It rounds nothing between the rotation, the transform and the cache
    /// ([`Normed::without_rounding`](crate::Rope::without_rounding), for 16-bit tensors).
    #[doc(alias("llama_cpp_keys", "llama_cpp_values"))]
    First,
}

impl Hadamard {
    /// Creates a transform of blocks of `block` channels that multiplies by `1 / sqrt(block)` last. The indexers of
    /// DeepSeek-V3.2 and V4 and of GLM transform queries and keys by one block, the head.
    ///
    /// # Errors
    ///
    /// [`PlanError::HadamardBlock`] unless `block` is a power of two from 2 to 2048.
    #[doc(alias = "indexer")]
    pub const fn new(block: usize) -> Result<Self, Error> {
        if !block.is_power_of_two() || block < 2 || block > MOST_CHANNELS {
            return Err(Error::Plan(PlanError::HadamardBlock { block }));
        }
        Ok(Hadamard {
            block,
            factor: HadamardFactor::Last,
        })
    }

    /// Sets the place of the factor.
    #[must_use]
    pub const fn with_factor(self, factor: HadamardFactor) -> Self {
        Hadamard { factor, ..self }
    }

    /// Returns the transform as the kernel runs it, with the f32 nearest to `1 / sqrt(block)`.
    pub(crate) fn blocks(&self) -> Blocks {
        let log = self.block.trailing_zeros();
        let root = if log.is_multiple_of(2) {
            1.0
        } else {
            core::f32::consts::FRAC_1_SQRT_2
        };
        Blocks {
            len: self.block,
            scale: root / (1 << (log / 2)) as f32,
            multiplies_first: self.factor == HadamardFactor::First,
        }
    }

    pub(crate) fn check(&self, head_dim: usize) -> Result<(), Error> {
        let block = self.block;
        if !head_dim.is_multiple_of(block) {
            return Err(Error::Plan(PlanError::HadamardHead { block, head_dim }));
        }
        Ok(())
    }
}
