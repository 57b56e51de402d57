//! The format of the heads of a cache, as one type.

use super::channels::{self, ChannelFormat};
use super::quant::{QuantFormat, QuantScale, ScalePlace};
use crate::Error;
use crate::kernel::element::Element;
use crate::kernel::elements::{InPlaceKernels, OutOfPlaceKernels};
use crate::kernel::quantize::{
    self, AsymmetricGroups, AsymmetricRule, BlockFormat, GroupRule, NUMBERS,
};

/// The format of the heads of a cache: elements, or codes with their scales. A [`BlockFormat`] converts into it. A
/// program links the kernels of the formats that it names.
///
/// ```
/// use rope_core::cache::{BlockFormat, CacheFormat, CacheLayout, CacheMut, QuantFormat, QuantScale};
///
/// let layout = CacheLayout::nhd([1, 16, 2, 64])?;
/// let format = BlockFormat::Q8_0;
/// let mut memory = [0_u8; 16 * 2 * 64 / 32 * 34];
/// assert_eq!(memory.len(), layout.bytes(format)?);
/// let keys = CacheMut::coded(&mut memory, layout, format)?;
/// // `v_scale` of a checkpoint
/// let format = CacheFormat::quantized(QuantFormat::E4m3, QuantScale::Divide(0.5.into()));
/// let mut memory = [0_u8; 16 * 2 * 64];
/// let values = CacheMut::coded(&mut memory, layout, format)?;
/// # Ok::<(), rope_core::Error>(())
/// ```
#[doc(alias("kv_cache_dtype", "cache_dtype"))]
#[derive(Clone, Copy, Debug)]
pub struct CacheFormat<'a>(pub(crate) Format<'a>);

/// The unit of storage of a cache.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Format<'a> {
    Element(&'static OutOfPlaceKernels, &'static InPlaceKernels),
    Codes(Codes<'a>),
}

/// The encoding of a head. The constructor of the cache names the kernels, so a program links only its own formats.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Codes<'a> {
    Scaled(&'static quantize::QuantKernels, QuantScale<'a>),
    Blocks(&'static BlockFormat),
    /// A scale per group of channels.
    Groups(&'static quantize::GroupKernels, GroupRule, ScalePlace),
    /// A scale and an offset per channel of a group of this many tokens.
    Channels(&'static ChannelFormat, usize),
    /// A scale and a zero point, or a minimum, per group of channels.
    Asymmetric(AsymmetricGroups, ScalePlace),
}

impl<'a> CacheFormat<'a> {
    /// Plain elements.
    pub const fn element<E: Element>() -> Self {
        CacheFormat(Format::Element(E::OUT_OF_PLACE, E::IN_PLACE))
    }

    /// Codes of an 8-bit format. A program that selects the format at run time links all of them.
    ///
    /// ```
    /// use rope_core::cache::{CacheFormat, HeadScales, QuantFormat, QuantScale};
    ///
    /// let scale = QuantScale::Divide(HeadScales::Same(0.5));
    /// let format = CacheFormat::quantized(QuantFormat::Int8Even, scale);
    /// ```
    #[doc(alias("e4m3", "e5m2", "e5m2_saturating", "int8_even", "int8_round_away"))]
    #[inline(always)]
    pub const fn quantized(format: QuantFormat, scale: QuantScale<'a>) -> Self {
        match format {
            QuantFormat::E4m3 => CacheFormat::scaled(&quantize::E4M3, scale),
            QuantFormat::E5m2 => CacheFormat::scaled(&quantize::E5M2, scale),
            QuantFormat::E5m2Saturating => CacheFormat::scaled(&quantize::E5M2_SATURATING, scale),
            QuantFormat::Int8Even => CacheFormat::scaled(&quantize::INT8_EVEN, scale),
            QuantFormat::Int8RoundAway => CacheFormat::scaled(&quantize::INT8_AWAY, scale),
        }
    }

    const fn scaled(kernels: &'static quantize::QuantKernels, scale: QuantScale<'a>) -> Self {
        CacheFormat(Format::Codes(Codes::Scaled(kernels, scale)))
    }

    /// Codes with a scale, or with two numbers, per group of channels, which lie at a place. A program that selects the
    /// codes at run time links all of them.
    ///
    /// ```
    /// use rope_core::cache::{CacheFormat, CacheLayout, CacheMut, GroupCodes, MxScale, ScalePlace};
    ///
    /// // 16 slots of 2 heads of 64 channels: 32 bytes of codes, and 2 scales after them.
    /// let layout = CacheLayout::nhd([1, 16, 2, 68])?.narrow_channels(0..64)?;
    /// let format = CacheFormat::by_group(GroupCodes::Mxfp4(MxScale::Floor), ScalePlace::Inline(32));
    /// let mut memory = [0_u8; 16 * 2 * 34];
    /// assert_eq!(memory.len(), layout.bytes(format)?);
    /// let keys = CacheMut::coded(&mut memory, layout, format)?;
    /// # Ok::<(), rope_core::Error>(())
    /// ```
    #[doc(alias("mxfp4", "mxfp8", "nvfp4", "e4m3_in_128", "e4m3_in_64", "u8", "u4"))]
    #[inline(always)]
    pub const fn by_group(codes: GroupCodes, at: ScalePlace) -> Self {
        let (kernels, rule) = match codes {
            GroupCodes::Mxfp4(scale) => (&quantize::MXFP4, scale.rule()),
            GroupCodes::Mxfp8(scale) => (&quantize::MXFP8, scale.rule()),
            GroupCodes::Nvfp4(factor) => (&quantize::NVFP4, GroupRule::Tensor(factor)),
            GroupCodes::E4m3In128(scale) => (&quantize::E4M3_IN_128, scale.rule()),
            GroupCodes::E4m3In64(scale) => (&quantize::E4M3_IN_64, scale.rule()),
            GroupCodes::U8(rule, channels) => {
                return CacheFormat::asymmetric(8, channels, rule, at);
            }
            GroupCodes::U4(rule, channels) => {
                return CacheFormat::asymmetric(4, channels, rule, at);
            }
        };
        CacheFormat(Format::Codes(Codes::Groups(kernels, rule, at)))
    }

    /// Codes with a scale and an offset for each channel of a group of `tokens` slots. A program that selects the codes
    /// at run time links all of them.
    ///
    /// A call writes, moves and shifts whole groups of consecutive slots, each in the order of its tokens. Reads are of
    /// any slots. Tokens stay in a cache of elements until they fill a group; then one call encodes them from there.
    ///
    /// `tokens` divides the slots of a block, whose slots are contiguous in each head ([`CacheLayout::hnd`]).
    ///
    /// ```
    /// use rope_core::cache::{CacheFormat, CacheLayout, CacheMut, ChannelCodes};
    /// use rope_core::{Pairing, Rope, Tensor};
    ///
    /// // 4 pages of 32 slots, 2 heads of 64 channels.
    /// let layout = CacheLayout::hnd([4, 2, 32, 64])?;
    /// let format = CacheFormat::by_channel(ChannelCodes::U8, 32);
    /// assert_eq!(layout.bytes(format)?, 4 * 2 * (32 + 8) * 64);
    /// let mut memory = [0_u8; 4 * 2 * 40 * 64];
    /// let mut keys = CacheMut::coded(&mut memory, layout, format)?;
    /// let k = [1.0_f32; 32 * 2 * 64];
    /// let k = Tensor::new(&k, [1, 32, 2, 64])?;
    /// let rope = Rope::new(Pairing::Half);
    /// rope.apply_into(&k, &mut keys.slots(64..96))?;
    /// assert!(rope.apply_into(&k, &mut keys.slots(60..92)).is_err());
    /// # Ok::<(), rope_core::Error>(())
    /// ```
    ///
    /// [`CacheLayout::hnd`]: super::CacheLayout::hnd
    #[doc(alias("u8_by_channel", "u4_by_channel", "kivi2", "kivi4"))]
    #[inline(always)]
    pub const fn by_channel(codes: ChannelCodes, tokens: usize) -> Self {
        let format = match codes {
            ChannelCodes::U8 => &channels::U8_BY_CHANNEL,
            ChannelCodes::U4 => &channels::U4_BY_CHANNEL,
            ChannelCodes::Kivi2 => &channels::KIVI_2,
            ChannelCodes::Kivi4 => &channels::KIVI_4,
        };
        CacheFormat(Format::Codes(Codes::Channels(format, tokens)))
    }

    const fn asymmetric(bits: usize, channels: usize, rule: Asymmetric, at: ScalePlace) -> Self {
        let rule = match rule {
            Asymmetric::ZeroPoint => AsymmetricRule::ZeroPoint,
            Asymmetric::Minimum => AsymmetricRule::Minimum,
        };
        let groups = AsymmetricGroups::new(bits, channels, rule);
        CacheFormat(Format::Codes(Codes::Asymmetric(groups, at)))
    }

    /// Returns the scales that a call computes.
    pub(super) fn computed_scales(&self) -> Option<ComputedScales> {
        match self.0 {
            Format::Codes(Codes::Scaled(_, QuantScale::Computed { at, .. })) => {
                Some(ComputedScales {
                    at,
                    unit: 4,
                    numbers: 1,
                    values: None,
                })
            }
            Format::Codes(Codes::Groups(kernels, rule, at)) => Some(ComputedScales {
                at,
                unit: rule.bytes(),
                numbers: 1,
                values: Some(kernels.values),
            }),
            Format::Codes(Codes::Asymmetric(groups, at)) => Some(ComputedScales {
                at,
                unit: 4,
                numbers: NUMBERS / 4,
                values: Some(groups.channels),
            }),
            _ => None,
        }
    }

    /// Checks the numbers of a format, for heads of a cache.
    pub(super) fn check(&self, heads: usize) -> Result<(), Error> {
        match self.0 {
            Format::Codes(Codes::Scaled(_, scale)) => scale.check(heads),
            Format::Codes(Codes::Groups(_, rule, _)) => match rule {
                GroupRule::Tensor(factor)
                    if !(factor > 0.0 && factor.is_finite() && (1.0 / factor).is_finite()) =>
                {
                    let required = "finite and above zero, and its reciprocal finite";
                    Err(Error::parameter("factor", factor.into(), required))
                }
                GroupRule::Float(least) | GroupRule::PowerOfTwo(least)
                    if !(least > 0.0 && least.is_finite()) =>
                {
                    Err(Error::parameter(
                        "least",
                        least.into(),
                        "finite and above zero",
                    ))
                }
                GroupRule::Up(least) if !(least >= 0.0 && least.is_finite()) => Err(
                    Error::parameter("least", least.into(), "finite and not negative"),
                ),
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }
}

/// Scales that a call computes.
#[derive(Clone, Copy)]
pub(super) struct ComputedScales {
    pub(super) at: ScalePlace,
    /// Bytes of a scale.
    pub(super) unit: usize,
    /// Numbers per group: a scale, or a scale and a zero point.
    pub(super) numbers: usize,
    /// Channels per group; `None` if a head is one.
    values: Option<usize>,
}

impl ComputedScales {
    /// Selects the scales, or the zero points, of two lists.
    pub(super) fn of_one_list(self) -> Self {
        ComputedScales { numbers: 1, ..self }
    }

    /// Returns the scales of a head.
    pub(super) fn count(&self, head_dim: usize) -> usize {
        self.numbers * self.values.map_or(1, |values| head_dim / values)
    }

    /// Returns the bytes of the scales of a head.
    pub(super) fn bytes(&self, head_dim: usize) -> usize {
        self.count(head_dim) * self.unit
    }
}

/// Codes with a scale, or with two numbers, per group of channels. The layout counts channels.
///
/// ```
/// use rope_core::cache::{Asymmetric, CacheFormat, CacheLayout, CacheMut, GroupCodes};
/// use rope_core::cache::{ScaleLayout, ScalePlace};
///
/// // 16 slots of 2 heads of 80 channels; OpenVINO's `[slots, heads, 2]` of scales and zero points
/// let layout = CacheLayout::nhd([16, 1, 2, 80])?;
/// let (mut codes, mut numbers) = ([0_u8; 16 * 2 * 80], [0.0_f32; 16 * 2 * 2]);
/// let of_head = GroupCodes::U8(Asymmetric::ZeroPoint, 80);
/// let at = ScalePlace::Separate(ScaleLayout::nh([1, 2]).with_groups(2));
/// let format = CacheFormat::by_group(of_head, at);
/// let keys = CacheMut::coded_with_scales(&mut codes, layout, format, &mut numbers)?;
///
/// // Scales and zero points in two tensors `[slots, heads]`.
/// let (mut scales, mut zeros) = ([0.0_f32; 16 * 2], [0.0_f32; 16 * 2]);
/// let format = CacheFormat::by_group(of_head, ScalePlace::Separate(ScaleLayout::nh([1, 2])));
/// let both = [&mut scales, &mut zeros];
/// let keys = CacheMut::coded_with_scales(&mut codes, layout, format, both)?;
///
/// // Its pages, where both numbers lie before the codes of a head.
/// let layout = CacheLayout::nhd([16, 1, 2, 8 + 80])?.narrow_channels(8..88)?;
/// let strides = ScaleLayout { block: 2 * 88, token: 2 * 88, head: 88 };
/// let format = CacheFormat::by_group(of_head, ScalePlace::InBlock { first: 0, strides });
/// let mut pages = [0_u8; 16 * 2 * 88];
/// let keys = CacheMut::coded(&mut pages, layout, format)?;
/// # Ok::<(), rope_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum GroupCodes {
    /// MXFP4 of OCP's Microscaling Formats 1.0: codes of E2M1, two per byte, the even channel in the low half, and a
    /// power of two (E8M0) for 32 channels. Decodes as `code * scale`.
    ///
    /// Codes round to nearest, ties to even, and saturate at 6; a NaN is 6. (ggml's blocks of this name, which it has
    /// for weights, pair other channels and round ties to zero.)
    Mxfp4(MxScale),
    /// MXFP8 of OCP's Microscaling Formats 1.0: codes of E4M3, and a power of two (E8M0) for 32 channels. Decodes as
    /// `code * scale`.
    Mxfp8(MxScale),
    /// NVFP4: codes of E2M1 as in [`GroupCodes::Mxfp4`], a scale of E4M3 for 16 channels, and a factor of the tensor
    /// (`k_scale`). Decodes as `code * scale * factor`, in this order.
    ///
    /// The formulas are those of vLLM's `reshape_and_cache_nvfp4`: with `g = 1 / factor` and `m` the largest magnitude
    /// of a group, `scale = E4M3(g (m (1 / 6)))` and `code = E2M1(x (1 / (scale (1 / g))))`, each operation rounded to
    /// f32. A group whose scale is 0 has codes of 0. A GPU approximates the reciprocals within one unit in the last
    /// place, so its codes and scales differ near ties.
    Nvfp4(f32),
    /// Codes of E4M3 with a scale for 128 channels: the code of `x / scale`, which decodes as `code * scale`. The
    /// latent channels of DeepSeek's caches (`fp8_ds_mla` of vLLM).
    E4m3In128(TileScale),
    /// Codes of E4M3 with a scale for 64 channels, as [`GroupCodes::E4m3In128`].
    E4m3In64(TileScale),
    /// Unsigned codes of 8 bits in groups of this number of channels, which may be a whole head. The place of the
    /// scales has two numbers of f32 for each group: the scale, then the zero point or the minimum. If these have a
    /// slice of their own, each slice has one number for a group.
    ///
    /// A group is a divisor of the head, and a head has at most 64.
    U8(Asymmetric, usize),
    /// Unsigned codes of 4 bits as [`GroupCodes::U8`], two per byte, the even channel in the high half. A group has an
    /// even number of channels.
    U4(Asymmetric, usize),
}

/// Codes with a scale and an offset per channel of a group of tokens ([`CacheFormat::by_channel`]).
///
/// ```
/// use rope_core::cache::{CacheFormat, CacheLayout, ChannelCodes};
///
/// // 4 groups of 32 tokens, 2 heads of 64 channels.
/// let layout = CacheLayout::hnd([1, 2, 128, 64])?;
/// let keys = CacheFormat::by_channel(ChannelCodes::Kivi2, 32);
/// assert_eq!(layout.bytes(keys)?, 4 * 2 * 64 * (2 + 2 + 32 * 2 / 8));
/// # Ok::<(), rope_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ChannelCodes {
    /// OpenVINO's u8 by channel (`BY_CHANNEL`): a scale and a zero point per channel, and a code of 8 bits per slot.
    /// Decodes as `(code - zero point) * scale`.
    ///
    /// A group has `tokens head_dim` codes, the channels of a slot contiguous; before these, the f32 scales of all
    /// channels, then their zero points, in little-endian bytes. With blocks of one group, this is the memory of
    /// OpenVINO's paged keys.
    ///
    /// With `min` and `max` the bounds of a channel over the tokens of a group, ignoring NaNs, `scale = (max - min) (1
    /// / 255)`, or 0.0001 if that is 0, and `zero point = -min / scale`. A code is `x (1 / scale) + zero point` by a
    /// fused multiply-add, to the nearest integer, ties to even; a NaN has code 0. These are the formulas of its vector
    /// code on x86.
    U8,
    /// OpenVINO's u4 by channel: as [`ChannelCodes::U8`] with 15 for 255, and two codes per byte, the even channel in
    /// the high half.
    U4,
    /// KIVI's keys of 2 bits: a scale and a minimum in f16 per channel. The tokens of a group are a multiple of 16.
    /// Decodes as `code * scale + minimum`, in f32.
    ///
    /// A group has the scales of all channels, then their minima, then the codes of one channel after another; the
    /// codes of a channel are contiguous, the first token in the lowest bits, as in KIVI's integers of 32 bits.
    ///
    /// Values are rounded to f16, and so is each operation: `scale = (max - minimum) / 3`, and a code is `(x - minimum)
    /// / scale`, at most 3, to the nearest integer, ties to even. A NaN has code 0, and a constant channel decodes to
    /// its minimum. (In Python, KIVI decodes in f16 too.)
    Kivi2,
    /// KIVI's keys of 4 bits: as [`ChannelCodes::Kivi2`] with 15 for 3, and a multiple of 8 tokens.
    Kivi4,
}

impl ChannelCodes {
    /// All codes.
    pub const ALL: [ChannelCodes; 4] = [
        ChannelCodes::U8,
        ChannelCodes::U4,
        ChannelCodes::Kivi2,
        ChannelCodes::Kivi4,
    ];
}

/// The power of two that scales a group of an MX format. `m` is the largest magnitude of the group, ignoring NaNs.
///
/// OCP's Microscaling Formats 1.0 defines [`MxScale::Floor`]; engines use all three.
///
/// ```
/// use rope_core::cache::{CacheFormat, GroupCodes, MxScale, ScalePlace};
///
/// let format = CacheFormat::by_group(GroupCodes::Mxfp8(MxScale::Floor), ScalePlace::Inline(128));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MxScale {
    /// The exponent of `m` less that of the largest code (2 of E2M1, 8 of E4M3): values up to twice the largest power
    /// of two saturate. OCP's conversion, and torchao's `FLOOR`.
    Floor,
    /// Likewise, after `m` was rounded to the mantissa of the code, halves up. A group whose scale is the least has
    /// codes of 0. vLLM's scales of MXFP4, and torchao's `EVEN`.
    Even,
    /// The least power of two that is at least `m / largest code`: nothing saturates. NVIDIA's conversion of MXFP8
    /// (`cvt.rp.satfinite.ue8m0x2`), and torchao's `RCEIL`.
    Up,
}

impl MxScale {
    /// All rules.
    pub const ALL: [MxScale; 3] = [MxScale::Floor, MxScale::Even, MxScale::Up];

    const fn rule(self) -> GroupRule {
        match self {
            MxScale::Floor => GroupRule::Floor,
            MxScale::Even => GroupRule::Even,
            MxScale::Up => GroupRule::Up(0.0),
        }
    }
}

/// The scale of a tile of E4M3, from its largest magnitude `m`, ignoring NaNs.
///
/// ```
/// use rope_core::cache::{CacheFormat, GroupCodes, ScalePlace, TileScale};
///
/// // vLLM's
/// let scale = TileScale::Quotient { least: f32::MIN_POSITIVE };
/// let format = CacheFormat::by_group(GroupCodes::E4m3In128(scale), ScalePlace::Inline(512));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum TileScale {
    /// `max(m / 448, least)`. vLLM's `fp8_ds_mla`, with the least normal number.
    Quotient {
        /// The least scale, above zero.
        least: f32,
    },
    /// The least power of two that is at least `max(m / 448, least)`. DeepSeek's own code.
    PowerOfTwo {
        /// The least scale before it becomes a power of two, above zero.
        least: f32,
    },
    /// The same power of two as one byte, its biased exponent (E8M0). The records of DeepSeek-V4 in vLLM, FlashMLA and
    /// FlashInfer have one for 64 channels, with a least magnitude of 1e-4: `least` is `1e-4 / 448.0`.
    E8m0 {
        /// The least scale before it becomes a power of two, not negative.
        least: f32,
    },
}

impl TileScale {
    const fn rule(self) -> GroupRule {
        match self {
            TileScale::Quotient { least } => GroupRule::Float(least),
            TileScale::PowerOfTwo { least } => GroupRule::PowerOfTwo(least),
            TileScale::E8m0 { least } => GroupRule::Up(least),
        }
    }
}

/// The two numbers of a group of unsigned codes, from its bounds `min` and `max`, ignoring NaNs. `most` is the largest
/// code, 255 or 15.
///
/// ```
/// use rope_core::cache::{Asymmetric, CacheFormat, GroupCodes, ScalePlace};
///
/// // A head of 96 channels is one group, whose numbers follow its codes.
/// let format = CacheFormat::by_group(GroupCodes::U8(Asymmetric::Minimum, 96), ScalePlace::Inline(96));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Asymmetric {
    /// `scale = (max - min) / most`, or 0.0001 if that is 0, and `zero = -min / scale`. The code of `x` is
    /// `x (1 / scale) + zero` by a fused multiply-add, ties to even, and decodes as `(code - zero) * scale`. OpenVINO's
    /// vector code on x86 ([`BlockFormat::U8_IN_32`] has more of it).
    ZeroPoint,
    /// `scale = (max - min) / most`, or 1 if `max` is not above `min`, and `min` itself. The code of `x` is
    /// `(x - min) / scale`, ties away from zero, and decodes as `min + code * scale`. tract's values.
    Minimum,
}

impl Asymmetric {
    /// All rules.
    pub const ALL: [Asymmetric; 2] = [Asymmetric::ZeroPoint, Asymmetric::Minimum];
}

impl From<&'static BlockFormat> for CacheFormat<'_> {
    fn from(format: &'static BlockFormat) -> Self {
        CacheFormat(Format::Codes(Codes::Blocks(format)))
    }
}
