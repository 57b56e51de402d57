//! Caches of keys or values: memory, what it keeps, and where that lies.

use core::ffi::c_void;

use rope_core::cache::{
    BlockFormat, Cache, CacheLayout, CacheMut, CacheShape, CacheStrides, HeadScales, QuantFormat,
    QuantScale, ScaleLayout, ScalePlace,
};

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
}
lookup!(rope_cache_format, "format of a cache":
    F32 F16 Bf16 E4m3 E5m2 E5m2Saturating Int8Even Int8RoundAway Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 Iq4Nl);

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
}
lookup!(rope_quant_scale_kind, "kind of scale for codes": Divide Reciprocal Multiply MadeInline MadeApart);

/// The scale of a cache of codes. Fields that a kind does not name are not read.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rope_quant_scale {
    /// `enum rope_quant_scale_kind`.
    pub kind: i32,
    /// DIVIDE, RECIPROCAL, MULTIPLY: s of all heads, where `each` is NULL.
    pub same: f32,
    /// DIVIDE, RECIPROCAL, MULTIPLY: s of each head; NULL: all have `same`.
    pub each: *const f32,
    /// How many numbers `each` has: one for each head of the cache. 0 where it is NULL.
    pub each_count: usize,
    /// MADE_INLINE, MADE_APART: the least scale; vLLM's is 1e-6.
    pub least: f32,
    /// MADE_INLINE: bytes from the first code of a head to its scale; head_dim for one directly after the codes.
    pub behind: usize,
    /// MADE_APART: floats from the scales of a block, of a slot and of a head to the next ones. {block_size * heads,
    /// heads, 1} for `[blocks][block_size][heads]`.
    pub strides: [usize; 3],
}
plain!(rope_quant_scale);

impl rope_quant_scale {
    /// # Safety
    ///
    /// `each` is null or points to the list, which nobody writes during `'a`.
    unsafe fn scale<'a>(&self) -> Result<(QuantScale<'a>, Region), Failure> {
        let made = |at| QuantScale::Computed {
            least: self.least,
            at,
        };
        let given: fn(HeadScales<'a>) -> QuantScale<'a> =
            match rope_quant_scale_kind::from_c(self.kind)? {
                rope_quant_scale_kind::Divide => QuantScale::Divide,
                rope_quant_scale_kind::Reciprocal => QuantScale::Reciprocal,
                rope_quant_scale_kind::Multiply => QuantScale::Multiply,
                rope_quant_scale_kind::MadeInline => {
                    return Ok((made(ScalePlace::Inline(self.behind)), Region::NONE));
                }
                rope_quant_scale_kind::MadeApart => {
                    let [block, token, head] = self.strides;
                    let place = ScaleLayout { block, token, head };
                    return Ok((made(ScalePlace::Separate(place)), Region::NONE));
                }
            };
        if self.each.is_null() && self.each_count == 0 {
            return Ok((given(HeadScales::Same(self.same)), Region::NONE));
        }
        let each = Span::new("cache.scale.each", self.each, self.each_count)?;
        // SAFETY: the caller promises that the list is readable, and that nobody writes it during `'a`.
        let scales = HeadScales::Each(unsafe { each.get() });
        Ok((given(scales), each.region()))
    }
}

/// The keys, or the values, of a layer in a cache. Calls that only read it do not write its memory.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rope_cache {
    /// The first byte, aligned as an element is.
    pub memory: *mut c_void,
    /// How many bytes may be read and written from there on.
    pub bytes: usize,
    /// The format (`enum rope_cache_format`).
    pub format: i32,
    /// Where it lies.
    pub layout: rope_cache_layout,
    /// Codes: what they are scaled by. Not used by others.
    pub scale: rope_quant_scale,
    /// ROPE_QUANT_SCALE_KIND_MADE_APART: the scales. Not used by others.
    pub scales: *mut f32,
    /// How many scales there are.
    pub scales_count: usize,
}
plain!(rope_cache);

const MEMORY: &str = "cache.memory";
const SCALES: &str = "cache.scales";

impl rope_cache {
    /// A copy of the struct, with what is known of it without its memory.
    ///
    /// # Safety
    ///
    /// The list that it names is null or there.
    pub(crate) unsafe fn record(&self) -> Result<CacheRecord, Failure> {
        let format = rope_cache_format::from_c(self.format)?;
        let kept = match format {
            rope_cache_format::F32 => Kept::F32,
            rope_cache_format::F16 => Kept::F16,
            rope_cache_format::Bf16 => Kept::Bf16,
            rope_cache_format::E4m3 => Kept::Scaled(QuantFormat::E4m3),
            rope_cache_format::E5m2 => Kept::Scaled(QuantFormat::E5m2),
            rope_cache_format::E5m2Saturating => Kept::Scaled(QuantFormat::E5m2Saturating),
            rope_cache_format::Int8Even => Kept::Scaled(QuantFormat::Int8Even),
            rope_cache_format::Int8RoundAway => Kept::Scaled(QuantFormat::Int8RoundAway),
            rope_cache_format::Q8_0 => Kept::Blocks(BlockFormat::Q8_0),
            rope_cache_format::Q4_0 => Kept::Blocks(BlockFormat::Q4_0),
            rope_cache_format::Q4_1 => Kept::Blocks(BlockFormat::Q4_1),
            rope_cache_format::Q5_0 => Kept::Blocks(BlockFormat::Q5_0),
            rope_cache_format::Q5_1 => Kept::Blocks(BlockFormat::Q5_1),
            rope_cache_format::Iq4Nl => Kept::Blocks(BlockFormat::IQ4_NL),
        };
        let scaled = matches!(kept, Kept::Scaled(_));
        let apart = scaled && self.scale.kind == rope_quant_scale_kind::MadeApart as i32;
        let record = CacheRecord {
            memory: self.memory,
            bytes: self.bytes,
            layout: self.layout.layout()?,
            kept,
            scale: self.scale,
            scales: self.scales,
            scales_count: if apart { self.scales_count } else { 0 },
        };
        record.regions()?;
        Ok(record)
    }
}

/// How codes are made, or of which element a cache is.
#[derive(Clone, Copy)]
enum Kept {
    F32,
    F16,
    Bf16,
    Scaled(QuantFormat),
    Blocks(&'static BlockFormat),
}

/// A cache that was checked by itself, without slices of its memory.
#[derive(Clone, Copy)]
pub(crate) struct CacheRecord {
    memory: *mut c_void,
    bytes: usize,
    layout: CacheLayout,
    kept: Kept,
    scale: rope_quant_scale,
    scales: *mut f32,
    /// Scales that lie apart.
    scales_count: usize,
}

impl CacheRecord {
    /// The same cache in other memory; null: scales where they are.
    ///
    /// # Safety
    ///
    /// As [`rope_cache::record`].
    pub(crate) unsafe fn at(&self, memory: *mut c_void, scales: *mut f32) -> Result<Self, Failure> {
        let scales = if scales.is_null() {
            self.scales
        } else {
            scales
        };
        let record = CacheRecord {
            memory,
            scales,
            ..*self
        };
        record.regions()?;
        Ok(record)
    }

    /// Returns true if a write makes scales, in memory of their own.
    pub(crate) fn has_scales(&self) -> bool {
        self.scales_count > 0
    }

    /// Elements of the memory.
    fn span<E: Plain>(&self) -> Result<SpanMut<E>, Failure> {
        SpanMut::new(MEMORY, self.memory.cast(), self.bytes / size_of::<E>())
    }

    /// Returns the regions of the memory and of its scales, and the region of given scales.
    pub(crate) fn regions(&self) -> Result<([Region; 2], Region), Failure> {
        let memory = match self.kept {
            Kept::F32 => self.span::<f32>()?.region(),
            Kept::F16 => self.span::<half::f16>()?.region(),
            Kept::Bf16 => self.span::<half::bf16>()?.region(),
            Kept::Scaled(_) | Kept::Blocks(_) => self.span::<u8>()?.region(),
        };
        let scales = SpanMut::new(SCALES, self.scales, self.scales_count)?;
        let given = match self.kept {
            // SAFETY: the slice ends here.
            Kept::Scaled(_) => unsafe { self.scale.scale() }?.1,
            _ => Region::NONE,
        };
        Ok(([memory, scales.region()], given))
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
            let layout = self.layout;
            Ok(match self.kept {
                Kept::F32 => Cache::new(self.span::<f32>()?.read(), layout),
                Kept::F16 => Cache::new(self.span::<half::f16>()?.read(), layout),
                Kept::Bf16 => Cache::new(self.span::<half::bf16>()?.read(), layout),
                Kept::Scaled(code) => {
                    let scales = SpanMut::new(SCALES, self.scales, self.scales_count)?.read();
                    let (scale, _) = self.scale.scale()?;
                    Cache::quantized(self.span()?.read(), layout, code, scale, scales)
                }
                Kept::Blocks(format) => Cache::blocks(self.span()?.read(), layout, format),
            }?)
        }
    }

    /// The cache to write.
    ///
    /// # Safety
    ///
    /// All that it points to is there. During `'a` nobody writes what is read, and nobody else uses what is written,
    /// which is apart from all else.
    pub(crate) unsafe fn write<'a>(&self) -> Result<CacheMut<'a>, Failure> {
        // SAFETY: the caller promises that the cache's memory and scales are accessible, disjoint from all else, and
        // used by nobody else during `'a`.
        unsafe {
            let layout = self.layout;
            Ok(match self.kept {
                Kept::F32 => CacheMut::new(self.span::<f32>()?.get(&[])?, layout),
                Kept::F16 => CacheMut::new(self.span::<half::f16>()?.get(&[])?, layout),
                Kept::Bf16 => CacheMut::new(self.span::<half::bf16>()?.get(&[])?, layout),
                Kept::Scaled(code) => {
                    let scales = SpanMut::new(SCALES, self.scales, self.scales_count)?.get(&[])?;
                    let (scale, _) = self.scale.scale()?;
                    CacheMut::quantized(self.span()?.get(&[])?, layout, code, scale, scales)
                }
                Kept::Blocks(format) => CacheMut::blocks(self.span()?.get(&[])?, layout, format),
            }?)
        }
    }
}
