//! Caches of keys or values: their memory, format and layout.

use core::ffi::c_void;

use rope_core::cache::{
    Asymmetric, BlockFormat, Cache, CacheFormat, CacheLayout, CacheMut, CachePartsMut, CacheShape,
    CacheStrides, ChannelCodes, GroupCodes, HeadScales, MxScale, QuantFormat, QuantScale,
    ScaleLayout, ScalePlace, TileScale,
};
use rope_core::internals::AnyScales;

use crate::failure::Failure;
use crate::memory::{Plain, Region, Span, SpanMut, plain};
use crate::names::lookup;

/// The format of the values in a cache. All codes round to nearest.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum rope_cache_format {
    /// IEEE single precision.
    F32 = 701,
    /// IEEE half precision.
    F16 = 702,
    /// bfloat16.
    Bf16 = 703,
    /// Codes of FP8 E4M3FN up to 448; larger values become the largest.
    E4m3 = 704,
    /// Codes of FP8 E5M2 as PyTorch converts; larger values become infinities.
    E5m2 = 705,
    /// Codes of FP8 E5M2 up to 57344; larger values become the largest. vLLM's.
    E5m2Saturating = 706,
    /// Integers of 8 bits, ties to even: ONNX Runtime's.
    Int8Even = 707,
    /// Integers of 8 bits, ties away from zero: vLLM's Triton kernel.
    Int8RoundAway = 708,
    /// ggml's blocks of 32 values in 34 bytes, by its reference formula. The layout counts values.
    Q8_0 = 709,
    /// ggml's Q4_0: 32 values in 18 bytes, likewise.
    Q4_0 = 710,
    /// ggml's Q4_1: 32 values in 20 bytes.
    Q4_1 = 711,
    /// ggml's Q5_0: 32 values in 22 bytes.
    Q5_0 = 712,
    /// ggml's Q5_1: 32 values in 24 bytes.
    Q5_1 = 713,
    /// ggml's IQ4_NL: 32 values in 18 bytes.
    Iq4Nl = 714,
    /// OCP's MXFP4: two codes of E2M1 in a byte, the even channel in its low half, and a power of two for 32 channels.
    Mxfp4 = 715,
    /// OCP's MXFP8: codes of E4M3, and a power of two for 32 channels.
    Mxfp8 = 716,
    /// NVFP4: codes as in MXFP4, a scale of E4M3 for 16 channels, and a factor of the tensor: `scale.same`.
    Nvfp4 = 717,
    /// Codes of E4M3 and a float for 128 channels: the latent channels of DeepSeek's caches.
    E4m3In128 = 718,
    /// Codes of E4M3 and a float for 64 channels.
    E4m3In64 = 719,
    /// OpenVINO's u8, in groups of 32 channels: a scale and a zero point as floats, and 32 codes. The layout counts
    /// channels.
    U8In32 = 720,
    /// Likewise, in groups of 64 channels.
    U8In64 = 721,
    /// Likewise, in groups of 128 channels.
    U8In128 = 722,
    /// OpenVINO's u4, likewise: two codes in a byte, the even channel in its high half.
    U4In32 = 723,
    /// Likewise, in groups of 64 channels.
    U4In64 = 724,
    /// Likewise, in groups of 128 channels.
    U4In128 = 725,
    /// OpenVINO's u8 by channel: for `scale.tokens` slots of a block, a scale and a zero point of each channel as
    /// floats, and codes. The layout is HND, or NHD of one head, and counts channels; for each head and group of slots
    /// lie the scales, the zero points and the codes, slot by slot. A call writes, shifts and moves whole groups, and
    /// reads any slots.
    U8ByChannel = 726,
    /// Likewise with two codes in a byte, the even channel in its high half.
    U4ByChannel = 727,
    /// KIVI's keys of 2 bits, likewise: scales and minima in f16, and the codes of a channel side by side, the first
    /// slot in the lowest bits. `scale.tokens` is a multiple of 16.
    Kivi2 = 728,
    /// Likewise with 4 bits; a multiple of 8.
    Kivi4 = 729,
    /// Unsigned codes in groups of `scale.channels` channels, of which each has two floats: a scale, and a zero point
    /// or a minimum (`scale.group`).
    U8 = 730,
    /// Likewise, two codes in a byte, the even channel in its high half.
    U4 = 731,
}
lookup!(rope_cache_format, "format of a cache":
    F32 F16 Bf16 E4m3 E5m2 E5m2Saturating Int8Even Int8RoundAway Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 Iq4Nl
    Mxfp4 Mxfp8 Nvfp4 E4m3In128 E4m3In64
    U8In32 U8In64 U8In128 U4In32 U4In64 U4In128 U8ByChannel U4ByChannel Kivi2 Kivi4 U8 U4);

/// The order of a cache in memory, outermost first: N the slots of a block (page), H the heads, D the channels of a
/// head, x the rest of the dimension before it, which was divided. A cache that is not paged has one block, or one
/// for each sequence.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum rope_cache_layout_kind {
    /// `extents` {blocks, N, H, D}: FlashInfer, vLLM, SGLang (N = 1), llama.cpp's rows, TensorRT.
    Nhd = 801,
    /// `extents` {blocks, H, N, D}: FlashInfer, TensorRT-LLM, OpenVINO; ONNX Runtime and candle (block = sequence).
    Hnd = 802,
    /// `extents` {blocks, H, D, N}: vLLM's keys on CPUs, llama.cpp's transposed values.
    Hdn = 803,
    /// `extents` {blocks, H, D / x, N, x}: vLLM's older keys, mistral.rs.
    Hdnx = 804,
    /// `extents` {blocks, H, N / x, D, x}: interleaved values of vLLM and AITER.
    Hndx = 805,
    /// `extents` {blocks, N, H, D} in any order in memory: `strides`.
    Strided = 806,
}
lookup!(rope_cache_layout_kind, "kind of layout": Nhd Hnd Hdn Hdnx Hndx Strided);

/// The strides of a cache, in its elements (bytes where it keeps codes). Channel d of head h in slot s, which is place
/// p = s % block_size, lies at
///
/// (s / block_size) block + (p / group) group_stride + (p % group) token + h head + (d / chunk) chunk_stride + (d %
/// chunk) channel
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rope_cache_strides {
    /// From a block to the next.
    pub block: usize,
    /// Slots of a group; all of a block where there are no groups.
    pub group: usize,
    /// From a group of slots to the next.
    pub group_stride: usize,
    /// From a slot of a group to the next.
    pub token: usize,
    /// From a head to the next.
    pub head: usize,
    /// Channels of a chunk; all of a head where they lie side by side.
    pub chunk: usize,
    /// From a chunk of channels to the next.
    pub chunk_stride: usize,
    /// From a channel of a chunk to the next.
    pub channel: usize,
}
plain!(rope_cache_strides);

/// Where the elements of a cache lie. The caller fills it in.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rope_cache_layout {
    /// The order in memory (`enum rope_cache_layout_kind`).
    pub kind: i32,
    /// The extents, as the kind names them.
    pub extents: [usize; 5],
    /// STRIDED: the strides. Not used by others.
    pub strides: rope_cache_strides,
    /// The first channel of each head that the cache uses, and the one after its last: where keys and values, or
    /// codes and a scale, lie one after another in a head. {0, 0}: all.
    pub channels: [usize; 2],
}
plain!(rope_cache_layout);

impl rope_cache_layout {
    fn layout(&self) -> Result<CacheLayout, Failure> {
        let [a, b, c, d, x] = self.extents;
        let layout = match rope_cache_layout_kind::from_c(self.kind)? {
            rope_cache_layout_kind::Nhd => CacheLayout::nhd([a, b, c, d])?,
            rope_cache_layout_kind::Hnd => CacheLayout::hnd([a, b, c, d])?,
            rope_cache_layout_kind::Hdn => CacheLayout::hdn([a, b, c, d])?,
            rope_cache_layout_kind::Hdnx => CacheLayout::hdnx([a, b, c, d, x])?,
            rope_cache_layout_kind::Hndx => CacheLayout::hndx([a, b, c, d, x])?,
            rope_cache_layout_kind::Strided => {
                let shape = CacheShape {
                    blocks: a,
                    block_size: b,
                    heads: c,
                    head_dim: d,
                };
                let rope_cache_strides {
                    block,
                    group,
                    group_stride,
                    token,
                    head,
                    chunk,
                    chunk_stride,
                    channel,
                } = self.strides;
                let strides = CacheStrides {
                    block,
                    group,
                    group_stride,
                    token,
                    head,
                    chunk,
                    chunk_stride,
                    channel,
                };
                CacheLayout::strided(shape, strides)?
            }
        };
        Ok(match self.channels {
            [0, 0] => layout,
            [first, end] => layout.narrow_channels(first..end)?,
        })
    }
}

/// The scale of numbers before they are rounded to a code.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum rope_quant_scale_kind {
    /// x / s; read as code * s: vLLM on GPUs, LMDeploy.
    Divide = 901,
    /// x (1 / s), the reciprocal rounded; read as code * s: vLLM on CPUs, ONNX Runtime.
    Reciprocal = 902,
    /// x s; read as code * (1 / s), the reciprocal rounded: FlashInfer, TensorRT-LLM.
    Multiply = 903,
    /// Made for each token and head, s = max(largest |x| / largest code, `least`) and x (1 / s), and kept in the cache
    /// as a float, `behind` bytes after the first code of its head.
    MadeInline = 904,
    /// Made likewise, and kept in the cache's `scales`.
    MadeApart = 905,
    /// Made likewise, and kept in the cache from byte `behind` of its memory on, at `strides` in bytes: after all codes
    /// of a block, as in the pages of vLLM's indexers and of its NVFP4.
    MadeInBlock = 906,
}
lookup!(rope_quant_scale_kind, "kind of scale for codes":
    Divide Reciprocal Multiply MadeInline MadeApart MadeInBlock);

/// The scale of a group of channels, from their largest magnitude m.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum rope_group_scale {
    /// MXFP4, MXFP8: a power of two, the exponent of m minus the exponent of the largest code, as OCP defines it.
    Floor = 2701,
    /// MXFP4, MXFP8: likewise, after m was rounded to the mantissa of the code, as in vLLM's MXFP4.
    Even = 2702,
    /// MXFP4, MXFP8: the least power of two that is at least m / largest code, as in NVIDIA's MXFP8.
    Up = 2703,
    /// E4M3_IN128, E4M3_IN64: max(m / 448, `least`), as in vLLM, where `least` is FLT_MIN.
    Quotient = 2704,
    /// E4M3_IN128, E4M3_IN64: the least power of two that is at least max(m / 448, `least`), as in
    /// DeepSeek's code.
    PowerOfTwo = 2705,
    /// E4M3_IN128, E4M3_IN64: the same power of two in a byte, as in the records of DeepSeek-V4.
    E8m0 = 2706,
    /// U8, U4: the scale (max - min) / largest code, and the zero point -min / scale: OpenVINO's.
    ZeroPoint = 2707,
    /// U8, U4: the same scale, and min: tract's.
    Minimum = 2708,
}
lookup!(rope_group_scale, "kind of scale for groups":
    Floor Even Up Quotient PowerOfTwo E8m0 ZeroPoint Minimum);

/// The scale of a cache of codes. Fields that a kind does not name are not read. Scales of groups of channels are made:
/// they lie one after another where a head has its scale, and are bytes but for U8, U4, and E4M3_IN128 and E4M3_IN64
/// without E8M0.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rope_quant_scale {
    /// `enum rope_quant_scale_kind`.
    pub kind: i32,
    /// DIVIDE, RECIPROCAL, MULTIPLY: s of all heads, where `each` is NULL. NVFP4: the factor of the tensor.
    pub same: f32,
    /// DIVIDE, RECIPROCAL, MULTIPLY: s of each head; NULL: all have `same`.
    pub each: *const f32,
    /// The length of `each`: one number per head of the cache, or 0 if `each` is NULL.
    pub each_count: usize,
    /// MADE_INLINE, MADE_APART: the least scale; vLLM's is 1e-6.
    pub least: f32,
    /// MXFP4, MXFP8, E4M3_IN128, E4M3_IN64, U8, U4: how scales are made (`enum rope_group_scale`).
    pub group: i32,
    /// U8, U4: channels of a group; 0: all of a head.
    pub channels: usize,
    /// MADE_INLINE: bytes from the first code of a head to its scale. For a scale directly after the codes: the
    /// bytes of the head's codes. MADE_IN_BLOCK: bytes from `memory` to the first scale.
    pub behind: usize,
    /// MADE_APART: distances in scales between adjacent blocks, slots and heads. `[blocks][block_size][heads]` has
    /// {block_size * heads, heads, 1}, times the groups of a head. MADE_IN_BLOCK: the same distances in bytes.
    pub strides: [usize; 3],
    /// U8_BY_CHANNEL, U4_BY_CHANNEL, KIVI2, KIVI4: the slots of a group, which share the scale of each channel;
    /// OpenVINO and KIVI have 32. It divides the slots of a block.
    pub tokens: usize,
}
plain!(rope_quant_scale);

impl rope_quant_scale {
    /// The place of scales that are made; none if they are given.
    fn place(&self) -> Result<Option<ScalePlace>, Failure> {
        Ok(match rope_quant_scale_kind::from_c(self.kind)? {
            rope_quant_scale_kind::MadeInline => Some(ScalePlace::Inline(self.behind)),
            rope_quant_scale_kind::MadeApart => {
                let [block, token, head] = self.strides;
                Some(ScalePlace::Separate(ScaleLayout { block, token, head }))
            }
            rope_quant_scale_kind::MadeInBlock => {
                let ([block, token, head], first) = (self.strides, self.behind);
                let strides = ScaleLayout { block, token, head };
                Some(ScalePlace::InBlock { first, strides })
            }
            _ => None,
        })
    }

    /// The format of 8-bit codes.
    fn scaled(&self, codes: QuantFormat) -> Result<Kept, Failure> {
        Ok(match self.place()? {
            Some(at) => {
                let least = self.least;
                let scale = QuantScale::Computed { least, at };
                Kept::Format(CacheFormat::quantized(codes, scale))
            }
            None => Kept::Given(GivenScales {
                codes,
                kind: rope_quant_scale_kind::from_c(self.kind)?,
                same: self.same,
                each: self.each,
                count: self.each_count,
            }),
        })
    }

    /// The format of codes in groups.
    fn by_group(&self, codes: GroupCodes) -> Result<Kept, Failure> {
        let at = self.place()?.ok_or(Failure::UnknownValue {
            what: "kind of scale for groups of codes",
            value: self.kind,
            required: "MADE_INLINE, MADE_APART or MADE_IN_BLOCK of enum rope_quant_scale_kind",
        })?;
        Ok(Kept::Format(CacheFormat::by_group(codes, at)))
    }

    fn unknown(&self, required: &'static str) -> Failure {
        Failure::UnknownValue {
            what: "kind of scale for groups",
            value: self.group,
            required,
        }
    }

    fn power(&self) -> Result<MxScale, Failure> {
        match rope_group_scale::from_c(self.group)? {
            rope_group_scale::Floor => Ok(MxScale::Floor),
            rope_group_scale::Even => Ok(MxScale::Even),
            rope_group_scale::Up => Ok(MxScale::Up),
            _ => Err(self
                .unknown("ROPE_GROUP_SCALE_FLOOR, ROPE_GROUP_SCALE_EVEN or ROPE_GROUP_SCALE_UP")),
        }
    }

    fn tile(&self) -> Result<TileScale, Failure> {
        let least = self.least;
        match rope_group_scale::from_c(self.group)? {
            rope_group_scale::Quotient => Ok(TileScale::Quotient { least }),
            rope_group_scale::PowerOfTwo => Ok(TileScale::PowerOfTwo { least }),
            rope_group_scale::E8m0 => Ok(TileScale::E8m0 { least }),
            _ => Err(self.unknown(
                "ROPE_GROUP_SCALE_QUOTIENT, ROPE_GROUP_SCALE_POWER_OF_TWO or ROPE_GROUP_SCALE_E8M0",
            )),
        }
    }

    /// The second number of a group of U8 or U4, and the channels of the group in heads of `head_dim`.
    fn asymmetric(&self, head_dim: usize) -> Result<(Asymmetric, usize), Failure> {
        let rule = match rope_group_scale::from_c(self.group)? {
            rope_group_scale::ZeroPoint => Asymmetric::ZeroPoint,
            rope_group_scale::Minimum => Asymmetric::Minimum,
            _ => {
                return Err(self.unknown("ROPE_GROUP_SCALE_ZERO_POINT or ROPE_GROUP_SCALE_MINIMUM"));
            }
        };
        match self.channels {
            0 => Ok((rule, head_dim)),
            channels => Ok((rule, channels)),
        }
    }
}

/// The keys, or the values, of a layer in a cache. Calls that only read it do not write its memory.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rope_cache {
    /// The first byte, aligned as an element is.
    pub memory: *mut c_void,
    /// The length of `memory` in bytes.
    pub bytes: usize,
    /// The format (`enum rope_cache_format`).
    pub format: i32,
    /// Where it lies.
    pub layout: rope_cache_layout,
    /// The scales of codes. Not read for other formats.
    pub scale: rope_quant_scale,
    /// ROPE_QUANT_SCALE_KIND_MADE_APART: the scales, floats or bytes. Not used by others.
    pub scales: *mut c_void,
    /// The number of scales.
    pub scales_count: usize,
    /// ROPE_QUANT_SCALE_KIND_MADE_APART of U8 and U4: the zero points or minima, as many as `scales_count` and at the
    /// strides of the scales. NULL: each follows its scale in `scales`. Not used by others.
    pub zeros: *mut c_void,
}
plain!(rope_cache);

const MEMORY: &str = "cache.memory";
const SCALES: &str = "cache.scales";
const ZEROS: &str = "cache.zeros";

impl rope_cache {
    /// A copy of the struct with its checked layout and format.
    ///
    /// # Safety
    ///
    /// The list that it names is null or there.
    pub(crate) unsafe fn record(&self) -> Result<CacheRecord, Failure> {
        let format = rope_cache_format::from_c(self.format)?;
        let (scale, layout) = (&self.scale, self.layout.layout()?);
        let is_apart = scale.kind == rope_quant_scale_kind::MadeApart as i32;
        let head_dim = layout.shape().head_dim;
        let scaled = |codes| Ok((scale.scaled(codes)?, is_apart));
        let groups = |codes| Ok((scale.by_group(codes)?, is_apart));
        let plain = |format| Ok((Kept::Format(format), false));
        let blocks = |format: &'static BlockFormat| plain(format.into());
        let by_channel = |codes| plain(CacheFormat::by_channel(codes, scale.tokens));
        let made: Result<_, Failure> = match format {
            rope_cache_format::F32 => plain(CacheFormat::element::<f32>()),
            rope_cache_format::F16 => plain(CacheFormat::element::<half::f16>()),
            rope_cache_format::Bf16 => plain(CacheFormat::element::<half::bf16>()),
            rope_cache_format::E4m3 => scaled(QuantFormat::E4m3),
            rope_cache_format::E5m2 => scaled(QuantFormat::E5m2),
            rope_cache_format::E5m2Saturating => scaled(QuantFormat::E5m2Saturating),
            rope_cache_format::Int8Even => scaled(QuantFormat::Int8Even),
            rope_cache_format::Int8RoundAway => scaled(QuantFormat::Int8RoundAway),
            rope_cache_format::Q8_0 => blocks(BlockFormat::Q8_0),
            rope_cache_format::Q4_0 => blocks(BlockFormat::Q4_0),
            rope_cache_format::Q4_1 => blocks(BlockFormat::Q4_1),
            rope_cache_format::Q5_0 => blocks(BlockFormat::Q5_0),
            rope_cache_format::Q5_1 => blocks(BlockFormat::Q5_1),
            rope_cache_format::Iq4Nl => blocks(BlockFormat::IQ4_NL),
            rope_cache_format::Mxfp4 => groups(GroupCodes::Mxfp4(scale.power()?)),
            rope_cache_format::Mxfp8 => groups(GroupCodes::Mxfp8(scale.power()?)),
            rope_cache_format::Nvfp4 => groups(GroupCodes::Nvfp4(scale.same)),
            rope_cache_format::E4m3In128 => groups(GroupCodes::E4m3In128(scale.tile()?)),
            rope_cache_format::E4m3In64 => groups(GroupCodes::E4m3In64(scale.tile()?)),
            rope_cache_format::U8In32 => blocks(BlockFormat::U8_IN_32),
            rope_cache_format::U8In64 => blocks(BlockFormat::U8_IN_64),
            rope_cache_format::U8In128 => blocks(BlockFormat::U8_IN_128),
            rope_cache_format::U4In32 => blocks(BlockFormat::U4_IN_32),
            rope_cache_format::U4In64 => blocks(BlockFormat::U4_IN_64),
            rope_cache_format::U4In128 => blocks(BlockFormat::U4_IN_128),
            rope_cache_format::U8ByChannel => by_channel(ChannelCodes::U8),
            rope_cache_format::U4ByChannel => by_channel(ChannelCodes::U4),
            rope_cache_format::Kivi2 => by_channel(ChannelCodes::Kivi2),
            rope_cache_format::Kivi4 => by_channel(ChannelCodes::Kivi4),
            rope_cache_format::U8 => {
                let (rule, channels) = scale.asymmetric(head_dim)?;
                groups(GroupCodes::U8(rule, channels))
            }
            rope_cache_format::U4 => {
                let (rule, channels) = scale.asymmetric(head_dim)?;
                groups(GroupCodes::U4(rule, channels))
            }
        };
        let (kept, is_apart) = made?;
        let record = CacheRecord {
            memory: self.memory,
            bytes: self.bytes,
            element: match format {
                rope_cache_format::F32 => size_of::<f32>(),
                rope_cache_format::F16 | rope_cache_format::Bf16 => size_of::<half::f16>(),
                _ => 1,
            },
            layout,
            kept,
            apart: ScalesApart {
                scales: self.scales,
                zeros: self.zeros,
                count: if is_apart { self.scales_count } else { 0 },
                are_bytes: match format {
                    rope_cache_format::Mxfp4
                    | rope_cache_format::Mxfp8
                    | rope_cache_format::Nvfp4 => true,
                    rope_cache_format::E4m3In128 | rope_cache_format::E4m3In64 => {
                        scale.group == rope_group_scale::E8m0 as i32
                    }
                    _ => false,
                },
            },
        };
        record.regions()?;
        Ok(record)
    }
}

/// The format of a checked cache.
#[derive(Clone, Copy)]
enum Kept {
    Format(CacheFormat<'static>),
    /// Codes of 8 bits, whose scales are given.
    Given(GivenScales),
}

/// The scales of 8-bit codes, as they are given.
#[derive(Clone, Copy)]
struct GivenScales {
    codes: QuantFormat,
    kind: rope_quant_scale_kind,
    same: f32,
    /// One for each head; null, with a count of 0: all have `same`.
    each: *const f32,
    count: usize,
}

impl GivenScales {
    /// Returns the scales of heads; nothing if all have one.
    fn each(&self) -> Result<Option<Span<f32>>, Failure> {
        match self.each.is_null() && self.count == 0 {
            true => Ok(None),
            false => Span::new("cache.scale.each", self.each, self.count).map(Some),
        }
    }

    /// # Safety
    ///
    /// The list is readable, and nobody writes it during `'a`.
    unsafe fn format<'a>(&self) -> Result<CacheFormat<'a>, Failure> {
        let scales = match self.each()? {
            None => HeadScales::Same(self.same),
            // SAFETY: the caller promises that the list is readable, and that nobody writes it during `'a`.
            Some(each) => HeadScales::Each(unsafe { each.get() }),
        };
        let scale = match self.kind {
            rope_quant_scale_kind::Multiply => QuantScale::Multiply(scales),
            rope_quant_scale_kind::Reciprocal => QuantScale::Reciprocal(scales),
            _ => QuantScale::Divide(scales),
        };
        Ok(CacheFormat::quantized(self.codes, scale))
    }
}

/// A cache that was checked by itself, without slices of its memory.
#[derive(Clone, Copy)]
pub(crate) struct CacheRecord {
    memory: *mut c_void,
    bytes: usize,
    /// Bytes of an element, which aligns the memory.
    element: usize,
    layout: CacheLayout,
    kept: Kept,
    apart: ScalesApart,
}

/// Scales that lie apart.
#[derive(Clone, Copy)]
struct ScalesApart {
    scales: *mut c_void,
    /// Zero points in a list of their own; null: each follows its scale.
    zeros: *mut c_void,
    /// The length of each list; 0 if no scales lie apart.
    count: usize,
    are_bytes: bool,
}

impl CacheRecord {
    /// The same cache in other memory, with other scales and zero points; null: where they are.
    ///
    /// # Safety
    ///
    /// As [`rope_cache::record`].
    pub(crate) unsafe fn at(
        &self,
        memory: *mut c_void,
        [scales, zeros]: [*mut c_void; 2],
    ) -> Result<Self, Failure> {
        let or = |other: *mut c_void, here| if other.is_null() { here } else { other };
        let record = CacheRecord {
            memory,
            apart: ScalesApart {
                scales: or(scales, self.apart.scales),
                zeros: or(zeros, self.apart.zeros),
                ..self.apart
            },
            ..*self
        };
        record.regions()?;
        Ok(record)
    }

    /// Returns true if another cache has the same memory: both are parts of its slots.
    pub(crate) fn shares_memory(&self, other: &CacheRecord) -> bool {
        (self.memory, self.bytes) == (other.memory, other.bytes)
    }

    /// Returns true if a write makes scales, in memory of their own.
    pub(crate) fn has_scales(&self) -> bool {
        self.apart.count > 0
    }

    /// Returns true if zero points have a list of their own.
    pub(crate) fn has_zeros(&self) -> bool {
        self.has_scales() && !self.apart.zeros.is_null()
    }

    /// Elements of the memory.
    fn span<E: Plain>(&self) -> Result<SpanMut<E>, Failure> {
        SpanMut::new(MEMORY, self.memory.cast(), self.bytes / size_of::<E>())
    }

    /// Returns what a closure makes of the scales that lie apart, and of their zero points.
    fn scales<B>(
        &self,
        make: impl Fn(SpanMut<u8>) -> Result<B, Failure>,
    ) -> Result<AnyScales<B>, Failure> {
        let (apart, count) = (self.apart, self.apart.count);
        let list = |name, first: *mut c_void| {
            make(match apart.are_bytes {
                true => SpanMut::new(name, first.cast(), count)?,
                false => SpanMut::<f32>::new(name, first.cast(), count)?.bytes(),
            })
        };
        let zeros = self.has_zeros().then(|| list(ZEROS, apart.zeros));
        Ok(AnyScales {
            scales: list(SCALES, apart.scales)?,
            zeros: zeros.transpose()?,
            are_bytes: apart.are_bytes,
        })
    }

    /// Returns the regions of the memory, of its scales and of its zero points, and the region of given scales.
    pub(crate) fn regions(&self) -> Result<([Region; 3], Region), Failure> {
        let memory = match self.element {
            4 => self.span::<f32>()?.region(),
            2 => self.span::<half::f16>()?.region(),
            _ => self.span::<u8>()?.region(),
        };
        let lists = self.scales(|list| Ok(list.region()))?;
        let given = match &self.kept {
            Kept::Given(given) => given.each()?.map(|each| each.region()),
            Kept::Format(_) => None,
        };
        let zeros = lists.zeros.unwrap_or(Region::NONE);
        Ok(([memory, lists.scales, zeros], given.unwrap_or(Region::NONE)))
    }

    /// Returns the format of the memory.
    ///
    /// # Safety
    ///
    /// Given scales are readable, and nobody writes them during `'a`.
    unsafe fn format<'a>(&self) -> Result<CacheFormat<'a>, Failure> {
        match &self.kept {
            Kept::Format(format) => Ok(*format),
            // SAFETY: the caller promises that given scales are readable, and that nobody writes them during `'a`.
            Kept::Given(given) => unsafe { given.format() },
        }
    }

    /// The cache to read.
    ///
    /// # Safety
    ///
    /// All that it points to is there, and nobody writes it during `'a`.
    pub(crate) unsafe fn read<'a>(&self) -> Result<Cache<'a>, Failure> {
        // SAFETY: the caller promises that all of the record's memory is readable, and that nobody writes it during
        // `'a`.
        unsafe {
            let (memory, layout, format) = (self.span()?.read(), self.layout, self.format()?);
            let scales = self.scales(|list| Ok(list.read()))?;
            Ok(Cache::coded_with_scales(memory, layout, format, scales)?)
        }
    }

    /// The cache to write.
    ///
    /// # Safety
    ///
    /// The memory of the cache and its scales are accessible, and disjoint from all other operands. During `'a` nobody
    /// else uses them.
    pub(crate) unsafe fn write<'a>(&self) -> Result<CacheMut<'a>, Failure> {
        // SAFETY: the caller promises that the cache's memory and scales are accessible, disjoint from all else, and
        // used by nobody else during `'a`.
        unsafe {
            let (memory, layout, format) = (self.span()?.get(&[])?, self.layout, self.format()?);
            let scales = self.scales(|list| list.get(&[]))?;
            Ok(CacheMut::coded_with_scales(memory, layout, format, scales)?)
        }
    }

    /// Two parts of the slots of one memory to write, of which one may have scales apart.
    ///
    /// # Safety
    ///
    /// As [`CacheRecord::write`], of both.
    pub(crate) unsafe fn write_parts<'a>(
        &self,
        second: &CacheRecord,
    ) -> Result<CachePartsMut<'a, 2>, Failure> {
        let scaled = if second.has_scales() { second } else { self };
        // SAFETY: the caller promises that the memory and the scales of both are accessible, disjoint from all else,
        // and used by nobody else during `'a`. The scales of only one become a slice.
        unsafe {
            let parts = [
                (self.layout, self.format()?),
                (second.layout, second.format()?),
            ];
            let memory = self.span()?.get(&[])?;
            let scales = scaled.scales(|list| list.get(&[]))?;
            Ok(CachePartsMut::new_with_scales(memory, parts, scales)?)
        }
    }
}
