//! Codes of 8 bits that a cache may keep, and what scales them.

use core::slice;

use crate::Error;
use crate::base::error::list_index;
use crate::kernel::quantize;

/// A code of 8 bits for a number.
///
/// All round to nearest. NaN has a code in the two floating-point formats, and is 0 as an integer.
///
/// ```
/// use rope_core::cache::{CacheLayout, CacheMut, QuantFormat, QuantScale};
///
/// let mut memory = [0_u8; 16 * 2 * 64];
/// let (layout, scale) = (CacheLayout::nhd([1, 16, 2, 64])?, QuantScale::Divide(0.5.into()));
/// let keys = CacheMut::quantized(&mut memory, layout, QuantFormat::E4m3, scale, &mut [])?;
/// # Ok::<(), rope_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum QuantFormat {
    /// FP8 E4M3FN (OCP): up to 448, ties to even. What is beyond, infinities too, becomes the largest; NaN becomes
    /// 0x7f. PyTorch's since 2.12, vLLM's, CUDA's.
    E4m3,
    /// FP8 E5M2 (OCP), ties to even, as PyTorch converts: from 61440 on an infinity, NaN is 0x7f.
    E5m2,
    /// FP8 E5M2 which saturates at 57344, infinities too: vLLM's and CUDA's.
    E5m2Saturating,
    /// An integer from -128 to 127, ties to even: ONNX Runtime's.
    Int8Even,
    /// An integer from -128 to 127 as vLLM's Triton kernel rounds it: 0.5 is added in f32 away from zero, and the
    /// fraction cut off.
    Int8RoundAway,
}

impl QuantFormat {
    /// All codes.
    pub const ALL: [QuantFormat; 5] = [
        QuantFormat::E4m3,
        QuantFormat::E5m2,
        QuantFormat::E5m2Saturating,
        QuantFormat::Int8Even,
        QuantFormat::Int8RoundAway,
    ];

    /// The name in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            QuantFormat::E4m3 => "e4m3",
            QuantFormat::E5m2 => "e5m2",
            QuantFormat::E5m2Saturating => "e5m2-saturating",
            QuantFormat::Int8Even => "int8-even",
            QuantFormat::Int8RoundAway => "int8-away",
        }
    }

    /// Inlined into the caller's crate through the constructors of caches: of a code that is known there, the program
    /// links the kernels of no other.
    #[inline(always)]
    pub(crate) fn kernels(self) -> &'static quantize::QuantKernels {
        match self {
            QuantFormat::E4m3 => &quantize::E4M3,
            QuantFormat::E5m2 => &quantize::E5M2,
            QuantFormat::E5m2Saturating => &quantize::E5M2_SATURATING,
            QuantFormat::Int8Even => &quantize::INT8_EVEN,
            QuantFormat::Int8RoundAway => &quantize::INT8_AWAY,
        }
    }
}

/// What numbers are scaled by before they are rounded to a code, in f32.
///
/// A quotient, a product with the reciprocal and a product with a given multiplier differ in the last bit; engines do
/// each.
///
/// ```
/// use rope_core::cache::{QuantScale, ScaleLayout, ScalePlace};
///
/// // `k_scale` of a checkpoint, as vLLM applies it, ..
/// let given = QuantScale::Divide(0.0625.into());
/// // .. or a scale for each token and head, in a slice of their own: 16 slots in a block, 2 heads.
/// let at = ScalePlace::Separate(ScaleLayout::nh(16, 2));
/// let computed = QuantScale::Computed { at, least: 1e-6 };
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum QuantScale<'a> {
    /// `x / s`; read as `code * s`: vLLM on GPUs, LMDeploy.
    Divide(HeadScales<'a>),
    /// `x (1 / s)`, the reciprocal rounded; read as `code * s`: vLLM on CPUs, ONNX Runtime.
    Reciprocal(HeadScales<'a>),
    /// `x m`; read as `code * (1 / m)`, the reciprocal rounded: FlashInfer, TensorRT-LLM.
    Multiply(HeadScales<'a>),
    /// Computed for each token and head: `s = max(largest |x| / largest code, least)` and `x (1 / s)`; `s` is kept in
    /// the cache: vLLM's scales per token and head, whose `least` is 1e-6. (The largest code is 448, 57344 or 127.)
    /// NaNs are left out of the largest magnitude.
    Computed {
        /// The least scale.
        least: f32,
        /// Where each scale is kept.
        at: ScalePlace,
    },
}

/// A given scale: one for all heads, or one for each.
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
    /// For all heads.
    Same(f32),
    /// For each head.
    Each(&'a [f32]),
}

impl From<f32> for HeadScales<'_> {
    fn from(scale: f32) -> Self {
        HeadScales::Same(scale)
    }
}

impl<'a> From<&'a [f32]> for HeadScales<'a> {
    fn from(scales: &'a [f32]) -> Self {
        HeadScales::Each(scales)
    }
}

impl<'a, const N: usize> From<&'a [f32; N]> for HeadScales<'a> {
    fn from(scales: &'a [f32; N]) -> Self {
        HeadScales::Each(scales)
    }
}

#[cfg(feature = "alloc")]
impl<'a> From<&'a alloc::vec::Vec<f32>> for HeadScales<'a> {
    fn from(scales: &'a alloc::vec::Vec<f32>) -> Self {
        HeadScales::Each(scales)
    }
}

impl HeadScales<'_> {
    pub(crate) fn of(self, head: usize) -> f32 {
        match self {
            HeadScales::Same(scale) => scale,
            HeadScales::Each(scales) => scales[head],
        }
    }

    /// Those of some heads that there are: one for all, or one for each.
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
            HeadScales::Same(scale) if wrong(scale) => Err(Error::Parameter {
                name: "scale",
                value: scale.into(),
                required,
            }),
            HeadScales::Same(_) => Ok(()),
            HeadScales::Each(scales) => {
                let (given, needed) = (scales.len(), heads);
                if given != needed {
                    return Err(Error::Count {
                        name: "scales",
                        given,
                        needed,
                    });
                }
                match scales.iter().position(|&scale| wrong(scale)) {
                    Some(index) => Err(Error::ListEntry {
                        name: "scales",
                        index: list_index(index),
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
    /// Whether all heads have the same.
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
            QuantScale::Computed { least, .. } if !(least >= 0.0 && least.is_finite()) => {
                Err(Error::Parameter {
                    name: "least",
                    value: least.into(),
                    required: "finite and not negative",
                })
            }
            QuantScale::Computed { .. } => Ok(()),
        }
    }
}

/// Where the scales are kept that are computed for each token and head.
///
/// ```
/// use rope_core::cache::{QuantScale, ScalePlace};
///
/// // A float that follows the 64 codes of its head, in the memory of the cache.
/// let computed = QuantScale::Computed { at: ScalePlace::Inline(64), least: 1e-6 };
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ScalePlace {
    /// In the cache, as an f32 that many bytes after the first code of its head: `head_dim` for one directly after the
    /// codes.
    Inline(usize),
    /// In a slice of their own, given beside the cache.
    Separate(ScaleLayout),
}

/// Where the scales of a cache lie in their slice: scale of head `h` in slot `s` is element `(s / block_size) block +
/// (s mod block_size) token + h head`.
///
/// ```
/// use rope_core::cache::ScaleLayout;
///
/// // `[blocks, N, H]`: 16 slots in a block, 2 heads.
/// let layout = ScaleLayout { block: 32, token: 2, head: 1 };
/// assert_eq!(layout, ScaleLayout::nh(16, 2));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScaleLayout {
    /// From a block to the next.
    pub block: usize,
    /// From a slot to the next.
    pub token: usize,
    /// From a head to the next.
    pub head: usize,
}

impl ScaleLayout {
    /// `[blocks, block_size, heads]`.
    pub fn nh(block_size: usize, heads: usize) -> Self {
        ScaleLayout {
            block: block_size.saturating_mul(heads),
            token: heads,
            head: 1,
        }
    }

    /// `[blocks, heads, block_size]`.
    pub fn hn(block_size: usize, heads: usize) -> Self {
        ScaleLayout {
            block: block_size.saturating_mul(heads),
            token: 1,
            head: block_size,
        }
    }
}
