//! 8-bit codes of a cache, and their scales.

use core::slice;

use crate::Error;
use crate::base::error::{check_count, saturated};
use crate::describe::ids::List;

/// An 8-bit number format.
///
/// All round to nearest. NaN has a code in the floating-point formats; the integer formats encode it as 0.
///
/// ```
/// use rope_core::cache::{CacheFormat, CacheLayout, CacheMut, QuantFormat, QuantScale};
///
/// let mut memory = [0_u8; 16 * 2 * 64];
/// let (layout, scale) = (CacheLayout::nhd([1, 16, 2, 64])?, QuantScale::Divide(0.5.into()));
/// let keys = CacheMut::coded(&mut memory, layout, CacheFormat::quantized(QuantFormat::E4m3, scale))?;
/// # Ok::<(), rope_core::Error>(())
/// ```
#[doc(alias = "Code")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum QuantFormat {
    /// FP8 E4M3FN (OCP): up to 448, ties to even. Larger magnitudes and infinities saturate at 448; NaN becomes 0x7f.
    /// Used by PyTorch since 2.12, vLLM and CUDA.
    E4m3,
    /// FP8 E5M2 (OCP), ties to even, as PyTorch converts: 61440 and above become infinity, NaN is 0x7f.
    E5m2,
    /// FP8 E5M2 that saturates at 57344, infinities too. Used by vLLM and CUDA.
    E5m2Saturating,
    /// An integer from -128 to 127, ties to even. Used by ONNX Runtime.
    Int8Even,
    /// An integer from -128 to 127, rounded as in vLLM's Triton kernel: adds 0.5 in f32 away from zero, and truncates.
    #[doc(alias = "Int8Away")]
    Int8RoundAway,
}

impl QuantFormat {
    /// All formats.
    pub const ALL: [QuantFormat; 5] = [
        QuantFormat::E4m3,
        QuantFormat::E5m2,
        QuantFormat::E5m2Saturating,
        QuantFormat::Int8Even,
        QuantFormat::Int8RoundAway,
    ];
}

/// The scale applied to numbers, in f32, before they are rounded to a code.
///
/// A quotient, a product with the reciprocal and a product with a given multiplier differ in the last bit. Engines use
/// all three.
///
/// ```
/// use rope_core::cache::{QuantScale, ScaleLayout, ScalePlace};
///
/// // `k_scale` of a checkpoint, as vLLM applies it, ..
/// let given = QuantScale::Divide(0.0625.into());
/// // .. or a scale for each token and head, in a slice of their own: 16 slots in a block, 2 heads.
/// let at = ScalePlace::Separate(ScaleLayout::nh([16, 2]));
/// let computed = QuantScale::Computed { at, least: 1e-6 };
/// ```
#[doc(alias("k_scale", "v_scale", "CodeScale"))]
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum QuantScale<'a> {
    /// `x / s`; decodes as `code * s`. Used by vLLM on GPUs and LMDeploy.
    Divide(HeadScales<'a>),
    /// `x (1 / s)` with the reciprocal rounded; decodes as `code * s`. Used by vLLM on CPUs and ONNX Runtime.
    Reciprocal(HeadScales<'a>),
    /// `x m`; decodes as `code * (1 / m)` with the reciprocal rounded. Used by FlashInfer and TensorRT-LLM.
    Multiply(HeadScales<'a>),
    /// Computed per token and head: `s = max(largest |x| / largest code, least)` and `x (1 / s)`. The cache stores `s`.
    /// The largest code is 448, 57344 or 127; NaNs do not count as a magnitude. Used by vLLM's scales per token and
    /// head, with `least` 1e-6.
    #[doc(alias = "Made")]
    Computed {
        /// The least scale.
        least: f32,
        /// The place of each scale.
        at: ScalePlace,
    },
}

/// A given scale: one for all heads, or one per head.
///
/// ```
/// use rope_core::cache::QuantScale;
///
/// let per_tensor = QuantScale::Divide(0.5.into());
/// let per_head = QuantScale::Divide((&[0.5, 0.25]).into());
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum HeadScales<'a> {
    /// One scale for all heads.
    Same(f32),
    /// One scale per head.
    Each(&'a [f32]),
}

impl From<f32> for HeadScales<'_> {
    fn from(scale: f32) -> Self {
        HeadScales::Same(scale)
    }
}

impl<'a, L: List<'a, Item = f32>> From<L> for HeadScales<'a> {
    fn from(list: L) -> Self {
        HeadScales::Each(list.slice())
    }
}

impl HeadScales<'_> {
    /// Returns the scales of `count` heads from `head` on: one for all, or one per head.
    pub(crate) fn of_heads(&self, head: usize, count: usize) -> &[f32] {
        match self {
            HeadScales::Same(scale) => slice::from_ref(scale),
            HeadScales::Each(scales) => &scales[head..head + count],
        }
    }

    fn check(self, heads: usize) -> Result<(), Error> {
        let required = "finite and above zero";
        let wrong = |scale: f32| !(scale > 0.0 && scale.is_finite());
        match self {
            HeadScales::Same(scale) if wrong(scale) => {
                Err(Error::parameter("scale", scale.into(), required))
            }
            HeadScales::Same(_) => Ok(()),
            HeadScales::Each(scales) => {
                check_count("scales", scales.len(), heads)?;
                match scales.iter().position(|&scale| wrong(scale)) {
                    Some(index) => Err(Error::ListEntry {
                        name: "scales",
                        index: saturated(index),
                        value: scales[index].into(),
                        required,
                    }),
                    None => Ok(()),
                }
            }
        }
    }
}

impl QuantScale<'_> {
    /// Returns true if all heads share one scale.
    pub(crate) fn is_same(self) -> bool {
        matches!(
            self,
            QuantScale::Divide(HeadScales::Same(_))
                | QuantScale::Reciprocal(HeadScales::Same(_))
                | QuantScale::Multiply(HeadScales::Same(_))
        )
    }

    pub(crate) fn check(self, heads: usize) -> Result<(), Error> {
        match self {
            QuantScale::Divide(scales)
            | QuantScale::Reciprocal(scales)
            | QuantScale::Multiply(scales) => scales.check(heads),
            QuantScale::Computed { least, .. } => match least >= 0.0 && least.is_finite() {
                true => Ok(()),
                false => Err(Error::parameter(
                    "least",
                    least.into(),
                    "finite and not negative",
                )),
            },
        }
    }
}

/// The place of scales that are computed per token and head, or per group of its channels. A scale in f32 has the byte
/// order of the machine in every place.
///
/// ```
/// use rope_core::cache::{QuantScale, ScalePlace};
///
/// // A float that follows the 64 codes of its head, in the memory of the cache.
/// let computed = QuantScale::Computed { at: ScalePlace::Inline(64), least: 1e-6 };
/// ```
#[doc(alias = "Place")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ScalePlace {
    /// In the cache, at this distance, in bytes, from the first code of their head: the bytes of its codes place them
    /// directly after these.
    Inline(usize),
    /// In a separate slice, passed with the cache. Zero points and minima follow the scale of their group, or lie in a
    /// second slice of the same layout ([`CacheMut::coded_with_scales`](super::CacheMut::coded_with_scales)).
    #[doc(alias = "Apart")]
    Separate(ScaleLayout),
    /// In the cache, in a region of each block: the scale of the first head begins at byte `first` of the memory, and
    /// the strides of the others are bytes. The pages of vLLM's indexers and of its NVFP4 hold all codes of a block,
    /// and then their scales.
    ///
    /// ```
    /// use rope_core::cache::{CacheFormat, CacheLayout, GroupCodes, ScaleLayout, ScalePlace, TileScale};
    ///
    /// // An indexer's pages of 64 slots: 64 keys of 128 codes, then 64 floats.
    /// let page = 64 * (128 + 4);
    /// let mut strides = CacheLayout::nhd([8, 64, 1, 128])?.strides();
    /// strides.block = page;
    /// let layout = CacheLayout::strided(CacheLayout::nhd([8, 64, 1, 128])?.shape(), strides)?;
    /// let at = ScalePlace::InBlock {
    ///     first: 64 * 128,
    ///     strides: ScaleLayout { block: page, token: 4, head: 4 },
    /// };
    /// let format = CacheFormat::by_group(GroupCodes::E4m3In128(TileScale::PowerOfTwo { least: 1e-4 / 448.0 }), at);
    /// assert_eq!(layout.bytes(format)?, 8 * page);
    /// # Ok::<(), rope_core::Error>(())
    /// ```
    InBlock {
        /// The byte of the first scale in the memory of the cache.
        first: usize,
        /// The strides in bytes.
        strides: ScaleLayout,
    },
}

/// The layout of separate scales: the scale of head `h` in slot `s` is element `(s / block_size) block + (s mod
/// block_size) token + h head` of their slice. The scales of further groups of the head follow it.
///
/// ```
/// use rope_core::cache::ScaleLayout;
///
/// // `[blocks, N, H]`: 16 slots in a block, 2 heads.
/// let layout = ScaleLayout { block: 32, token: 2, head: 1 };
/// assert_eq!(layout, ScaleLayout::nh([16, 2]));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScaleLayout {
    /// From one block to the next.
    pub block: usize,
    /// From one slot to the next.
    pub token: usize,
    /// From one head to the next.
    pub head: usize,
}

impl ScaleLayout {
    /// Creates the layout `[blocks, block_size, heads]`.
    pub fn nh([block_size, heads]: [usize; 2]) -> Self {
        ScaleLayout {
            block: block_size.saturating_mul(heads),
            token: heads,
            head: 1,
        }
    }

    /// Creates the layout `[blocks, heads, block_size]`.
    pub fn hn([heads, block_size]: [usize; 2]) -> Self {
        ScaleLayout {
            block: block_size.saturating_mul(heads),
            token: 1,
            head: block_size,
        }
    }

    /// Multiplies all strides: a head has `count` scales, one after another.
    pub fn with_groups(self, count: usize) -> Self {
        ScaleLayout {
            block: self.block.saturating_mul(count),
            token: self.token.saturating_mul(count),
            head: self.head.saturating_mul(count),
        }
    }
}
