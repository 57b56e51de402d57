//! The layout of a cache: from slot, head and channel to element.

use super::MOST_GROUPS;
use super::channels::ChannelFormat;
use super::format::{CacheFormat, Codes, ComputedScales, Format};
use super::quant::{ScaleLayout, ScalePlace};
use crate::Error;
use crate::error::{CacheError, CacheIndex};
use crate::kernel::quantize::BlockFormat;

/// The layout of a KV cache: blocks (pages) of slots, each slot with the heads of one token.
///
/// Channel `d` of head `h` in slot `s`, which is place `p = s mod block_size` of block `s / block_size`, is element
///
/// ```text
/// (s / block_size) block + (p / group) group_stride + (p mod group) token
///     + h head + (d / chunk) chunk_stride + (d mod chunk) channel
/// ```
///
/// This formula covers the caches of all engines but two. The constructors follow the order in memory, in the letters
/// of the engines: `N` the slots of a block, `H` heads, `D` channels, `x` the inner part of a divided dimension. A
/// cache without pages has one block, or one per sequence.
///
/// ```text
/// nhd   [blocks, N, H, D]           FlashInfer, vLLM, SGLang (N = 1), llama.cpp's rows, TensorRT
/// hnd   [blocks, H, N, D]           FlashInfer, TensorRT-LLM, OpenVINO; ONNX Runtime's BNSH, candle (block = sequence)
/// hdn   [blocks, H, D, N]           vLLM's CPU keys and older values, llama.cpp's transposed values
/// hdnx  [blocks, H, D / x, N, x]    vLLM's older keys, mistral.rs
/// hndx  [blocks, H, N / x, D, x]    interleaved values of vLLM and AITER
/// ```
///
/// Strides count elements of the cache: bytes in a cache of 8-bit codes.
///
/// ```
/// use rope_core::cache::CacheLayout;
///
/// // 4 pages of 16 slots, 2 heads of 64 channels: FlashInfer's, and vLLM's older keys.
/// let nhd = CacheLayout::nhd([4, 16, 2, 64])?;
/// let hdnx = CacheLayout::hdnx([4, 2, 8, 16, 8])?;
/// assert_eq!(nhd.shape(), hdnx.shape());
/// # Ok::<(), rope_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CacheLayout {
    pub(crate) shape: CacheShape,
    pub(crate) strides: CacheStrides,
    pub(crate) offset: usize,
}

/// The extents of a cache.
///
/// ```
/// use rope_core::cache::CacheLayout;
///
/// let shape = CacheLayout::nhd([4, 16, 2, 64])?.shape();
/// assert_eq!((shape.blocks, shape.block_size, shape.heads, shape.head_dim), (4, 16, 2, 64));
/// # Ok::<(), rope_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CacheShape {
    /// Blocks, or pages.
    pub blocks: usize,
    /// Slots of a block.
    pub block_size: usize,
    /// Heads of a slot.
    pub heads: usize,
    /// Channels of a head.
    pub head_dim: usize,
}

impl CacheShape {
    /// Returns the number of slots, saturating.
    pub(crate) fn slots(self) -> usize {
        self.blocks.saturating_mul(self.block_size)
    }

    const fn of([blocks, block_size, heads, head_dim]: [usize; 4]) -> Self {
        CacheShape {
            blocks,
            block_size,
            heads,
            head_dim,
        }
    }

    pub(super) fn is_empty(self) -> bool {
        self.slots() == 0 || self.heads == 0 || self.head_dim == 0
    }
}

/// The strides of a cache, in elements; [`CacheLayout`] has the formula.
///
/// ```
/// use rope_core::cache::CacheLayout;
///
/// let nhd = CacheLayout::nhd([4, 16, 2, 64])?;
/// assert_eq!((nhd.strides().token, nhd.strides().head), (2 * 64, 64));
/// // The same from the strides of a runtime's tensor.
/// assert_eq!(CacheLayout::strided(nhd.shape(), nhd.strides())?, nhd);
/// # Ok::<(), rope_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CacheStrides {
    /// From one block to the next.
    pub block: usize,
    /// Slots of a group; the whole block if there are no groups.
    pub group: usize,
    /// From one group of slots to the next.
    pub group_stride: usize,
    /// From one slot of a group to the next.
    pub token: usize,
    /// From one head to the next.
    pub head: usize,
    /// Channels of a chunk; the whole head if its channels are contiguous.
    pub chunk: usize,
    /// From one chunk of channels to the next.
    pub chunk_stride: usize,
    /// From one channel of a chunk to the next.
    pub channel: usize,
}

impl CacheLayout {
    /// Creates a layout from any strides.
    ///
    /// # Errors
    ///
    /// [`CacheError::Layout`] if a group or chunk is empty; [`CacheError::TooLarge`] if an index does not fit `usize`;
    /// [`CacheError::Overlap`] if two indices could name one element.
    pub fn strided(shape: CacheShape, strides: CacheStrides) -> Result<Self, Error> {
        CacheLayout {
            shape,
            strides,
            offset: 0,
        }
        .checked()
    }

    /// Creates the layout `[blocks, block_size, heads, head_dim]`.
    ///
    /// # Errors
    ///
    /// The errors of [`CacheLayout::strided`].
    pub fn nhd([blocks, block_size, heads, head_dim]: [usize; 4]) -> Result<Self, Error> {
        let shape = CacheShape::of([blocks, block_size, heads, head_dim]);
        let token = product([heads, head_dim])?;
        let strides = CacheStrides {
            block: product([block_size, token])?,
            head: head_dim,
            ..CacheStrides::ungrouped(block_size, token, head_dim)
        };
        CacheLayout::strided(shape, strides)
    }

    /// Creates the layout `[blocks, heads, block_size, head_dim]`.
    ///
    /// # Errors
    ///
    /// The errors of [`CacheLayout::strided`].
    pub fn hnd([blocks, heads, block_size, head_dim]: [usize; 4]) -> Result<Self, Error> {
        let shape = CacheShape::of([blocks, block_size, heads, head_dim]);
        let head = product([block_size, head_dim])?;
        let strides = CacheStrides {
            block: product([heads, head])?,
            head,
            ..CacheStrides::ungrouped(block_size, head_dim, head_dim)
        };
        CacheLayout::strided(shape, strides)
    }

    /// Creates the layout `[blocks, heads, head_dim, block_size]`: the channels of a token lie apart.
    ///
    /// # Errors
    ///
    /// The errors of [`CacheLayout::strided`].
    pub fn hdn([blocks, heads, head_dim, block_size]: [usize; 4]) -> Result<Self, Error> {
        CacheLayout::hdnx([blocks, heads, head_dim, block_size, 1])
    }

    /// Creates the layout `[blocks, heads, head_dim / x, block_size, x]`: `x` channels of a token are contiguous.
    ///
    /// # Errors
    ///
    /// The errors of [`CacheLayout::strided`].
    pub fn hdnx([blocks, heads, chunks, block_size, x]: [usize; 5]) -> Result<Self, Error> {
        let head_dim = product([chunks, x])?;
        let shape = CacheShape::of([blocks, block_size, heads, head_dim]);
        let head = product([head_dim, block_size])?;
        let strides = CacheStrides {
            block: product([heads, head])?,
            head,
            chunk: x,
            chunk_stride: product([block_size, x])?,
            ..CacheStrides::ungrouped(block_size, x, x)
        };
        CacheLayout::strided(shape, strides)
    }

    /// Creates the layout `[blocks, heads, block_size / x, head_dim, x]`: one channel of `x` tokens is contiguous.
    ///
    /// # Errors
    ///
    /// The errors of [`CacheLayout::strided`].
    pub fn hndx([blocks, heads, groups, head_dim, x]: [usize; 5]) -> Result<Self, Error> {
        let block_size = product([groups, x])?;
        let shape = CacheShape::of([blocks, block_size, heads, head_dim]);
        let group_stride = product([head_dim, x])?;
        let head = product([groups, group_stride])?;
        let strides = CacheStrides {
            block: product([heads, head])?,
            group: x,
            group_stride,
            token: 1,
            head,
            chunk: 1,
            chunk_stride: x,
            channel: 1,
        };
        CacheLayout::strided(shape, strides)
    }

    /// Selects the channels `start..end` of each head, for heads that hold keys and values, or codes and a scale.
    ///
    /// # Errors
    ///
    /// [`CacheError::Channels`] if the range exceeds the head; [`CacheError::ChannelsApart`] if the channels of a head
    /// are not contiguous.
    pub fn narrow_channels(mut self, range: core::ops::Range<usize>) -> Result<Self, Error> {
        if range.start > range.end || range.end > self.shape.head_dim {
            return Err(Error::Cache(CacheError::Channels {
                start: range.start,
                end: range.end,
                head_dim: self.shape.head_dim,
            }));
        }
        self.check_contiguous()?;
        self.offset += range.start;
        self.shape.head_dim = range.len();
        self.strides.chunk = range.len().max(1);
        Ok(self)
    }

    /// Begins the cache `offset` elements later in its memory, for the regions of a page.
    ///
    /// ```
    /// use rope_core::cache::{CacheLayout, CacheShape};
    ///
    /// // Pages of 64 slots: 64 latents of 448 channels, then 64 keys of 64.
    /// let page = 64 * (448 + 64);
    /// let region = |head_dim, offset| {
    ///     let mut strides = CacheLayout::nhd([8, 64, 1, head_dim])?.strides();
    ///     strides.block = page;
    ///     let shape = CacheShape { blocks: 8, block_size: 64, heads: 1, head_dim };
    ///     CacheLayout::strided(shape, strides)?.with_offset(offset)
    /// };
    /// let (latents, keys) = (region(448, 0)?, region(64, 64 * 448)?);
    /// assert_eq!(keys.end(), 8 * page);
    /// # Ok::<(), rope_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`CacheError::TooLarge`] if an index does not fit `usize`.
    pub fn with_offset(mut self, offset: usize) -> Result<Self, Error> {
        self.offset = (self.offset.checked_add(offset)).ok_or(too_large(offset, 1))?;
        self.checked()
    }

    /// Returns the extents.
    pub fn shape(&self) -> CacheShape {
        self.shape
    }

    /// Returns the strides, in elements.
    pub fn strides(&self) -> CacheStrides {
        self.strides
    }

    /// Returns the fewest bytes of a cache with this layout and storage format.
    ///
    /// ```
    /// use rope_core::cache::{BlockFormat, CacheFormat, CacheLayout, QuantFormat, QuantScale, ScalePlace};
    ///
    /// // 4 pages of 16 slots, 2 heads of 64 channels.
    /// let layout = CacheLayout::nhd([4, 16, 2, 64])?;
    /// assert_eq!(layout.bytes(CacheFormat::element::<f32>())?, 4 * 16 * 2 * 64 * 4);
    /// let e4m3 = CacheFormat::quantized(QuantFormat::E4m3, QuantScale::Divide(0.5.into()));
    /// assert_eq!(layout.bytes(e4m3)?, 4 * 16 * 2 * 64);
    /// assert_eq!(layout.bytes(BlockFormat::Q8_0)?, 4 * 16 * 2 * 64 / 32 * 34);
    /// // An f32 scale after the codes of each head.
    /// let layout = CacheLayout::nhd([4, 16, 2, 68])?.narrow_channels(0..64)?;
    /// let scale = QuantScale::Computed { at: ScalePlace::Inline(64), least: 1e-6 };
    /// assert_eq!(layout.bytes(CacheFormat::quantized(QuantFormat::E4m3, scale))?, 4 * 16 * 2 * 68);
    /// # Ok::<(), rope_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`CacheMut::coded`] if the format does not support the layout; [`CacheError::TooLarge`] if the
    /// size exceeds `usize`.
    ///
    /// [`CacheMut::coded`]: super::CacheMut::coded
    pub fn bytes<'f>(&self, format: impl Into<CacheFormat<'f>>) -> Result<usize, Error> {
        let format = format.into();
        let layout = self.stored(&format)?;
        if let Format::Element(element, _) = format.0 {
            return product([layout.end(), element.size]);
        }
        // Without elements there are no scales.
        let scales = format.computed_scales();
        match scales.filter(|_| layout.end() > layout.offset) {
            Some(
                scales @ ComputedScales {
                    at: ScalePlace::Inline(behind),
                    ..
                },
            ) => Ok(layout
                .with_scale(behind, scales.bytes(self.shape.head_dim))?
                .end()),
            Some(
                scales @ ComputedScales {
                    at: ScalePlace::InBlock { first, strides },
                    ..
                },
            ) => {
                let scales = layout.scales_end(strides, scales.bytes(self.shape.head_dim))?;
                let end = first.checked_add(scales).ok_or(too_large(scales, 1))?;
                Ok(layout.end().max(end))
            }
            _ => Ok(layout.end()),
        }
    }

    /// Returns the layout in elements or bytes, as a cache of the format stores it.
    pub(super) fn stored(self, format: &CacheFormat<'_>) -> Result<Self, Error> {
        match format.0 {
            Format::Codes(Codes::Blocks(format)) => self.in_blocks(format),
            Format::Codes(Codes::Channels(format, tokens)) => self.in_groups(format, tokens),
            Format::Codes(Codes::Groups(kernels, ..)) => {
                self.in_units([kernels.values, kernels.per_byte], 1)
            }
            Format::Codes(Codes::Asymmetric(groups, _)) => {
                let (channels, per_byte) = (groups.channels, groups.per_byte());
                let is_even = channels.is_multiple_of(per_byte);
                if channels == 0 || !is_even || self.shape.head_dim / channels > MOST_GROUPS {
                    let required = match per_byte {
                        1 => "a divisor of head_dim, with at most 64 groups in a head",
                        _ => "an even divisor of head_dim, with at most 64 groups in a head",
                    };
                    return Err(Error::parameter("channels", channels as f64, required));
                }
                self.in_units([channels, per_byte], 1)
            }
            _ => Ok(self),
        }
    }

    /// Returns the fewest elements of a cache with this layout: one past the largest index.
    pub fn end(&self) -> usize {
        if self.shape.is_empty() {
            return self.offset;
        }
        let (shape, strides) = (&self.shape, &self.strides);
        let groups = [strides.group, strides.group_stride, strides.token];
        let slot = (shape.blocks - 1) * strides.block + last(shape.block_size, groups);
        self.offset + slot + self.head_extent()
    }

    /// Returns true if the channels of a head are contiguous.
    pub(crate) fn contiguous(&self) -> bool {
        self.strides.channel == 1 && self.strides.chunk >= self.shape.head_dim
    }

    /// Returns the elements from the first of a slot to one past its last.
    pub(crate) fn head_extent(&self) -> usize {
        let (shape, strides) = (&self.shape, &self.strides);
        if shape.heads == 0 || shape.head_dim == 0 {
            return 0;
        }
        let chunks = [strides.chunk, strides.chunk_stride, strides.channel];
        (shape.heads - 1) * strides.head + last(shape.head_dim, chunks) + 1
    }

    /// Returns the first element of an existing slot.
    pub(crate) fn slot(&self, slot: usize) -> usize {
        let (block_size, strides) = (self.shape.block_size, &self.strides);
        let (index, place) = (slot / block_size, slot % block_size);
        let start = self.offset + index * strides.block;
        // Most blocks have no groups, and a division takes as long as a tenth of a head.
        if strides.group >= block_size {
            return start + place * strides.token;
        }
        let groups = [strides.group, strides.group_stride, strides.token];
        start + grouped(place, groups)
    }

    /// Returns the index of the first separate scale of a slot.
    pub(crate) fn scale(&self, place: ScaleLayout, slot: usize) -> usize {
        let (block, token) = (slot / self.shape.block_size, slot % self.shape.block_size);
        block * place.block + token * place.token
    }

    /// Returns one past the index of the last separate scale of a cache that has slots and heads, with `count` scales
    /// per head. Refuses strides with which two heads could have one scale.
    pub(super) fn scales_end(&self, place: ScaleLayout, count: usize) -> Result<usize, Error> {
        let dimensions = [
            (1, count, CacheIndex::Channel),
            (place.head, self.shape.heads, CacheIndex::Head),
            (place.token, self.shape.block_size, CacheIndex::Token),
            (place.block, self.shape.blocks, CacheIndex::Block),
        ];
        disjoint_extent("scales", dimensions)
    }

    /// Gathers channels of a head from channel `first` on, elements of `size` bytes. `source` begins with the head.
    pub(crate) fn gather(&self, source: &[u8], size: usize, first: usize, channels: &mut [u8]) {
        match size {
            1 => self.gather_elements::<1>(source, first, channels),
            2 => self.gather_elements::<2>(source, first, channels),
            _ => self.gather_elements::<4>(source, first, channels),
        }
    }

    /// Scatters channels of a head: the inverse of `gather`.
    pub(crate) fn scatter(&self, channels: &[u8], size: usize, first: usize, target: &mut [u8]) {
        match size {
            1 => self.scatter_elements::<1>(channels, first, target),
            2 => self.scatter_elements::<2>(channels, first, target),
            _ => self.scatter_elements::<4>(channels, first, target),
        }
    }

    fn gather_elements<const SIZE: usize>(&self, source: &[u8], first: usize, channels: &mut [u8]) {
        let source = source.as_chunks::<SIZE>().0;
        let CacheStrides { chunk, channel, .. } = self.strides;
        let (mut at, mut place) = (first / chunk * self.strides.chunk_stride, first % chunk);
        let mut rest = channels.as_chunks_mut::<SIZE>().0;
        while !rest.is_empty() {
            let part;
            (part, rest) = rest.split_at_mut(rest.len().min(chunk - place));
            for (index, element) in part.iter_mut().enumerate() {
                *element = source[at + (place + index) * channel];
            }
            (at, place) = (at + self.strides.chunk_stride, 0);
        }
    }

    fn scatter_elements<const SIZE: usize>(
        &self,
        channels: &[u8],
        first: usize,
        target: &mut [u8],
    ) {
        let target = target.as_chunks_mut::<SIZE>().0;
        let CacheStrides { chunk, channel, .. } = self.strides;
        let (mut at, mut place) = (first / chunk * self.strides.chunk_stride, first % chunk);
        let mut rest = channels.as_chunks::<SIZE>().0;
        while !rest.is_empty() {
            let part;
            (part, rest) = rest.split_at(rest.len().min(chunk - place));
            for (index, element) in part.iter().enumerate() {
                target[at + (place + index) * channel] = *element;
            }
            (at, place) = (at + self.strides.chunk_stride, 0);
        }
    }

    /// Widens each head to `head_dim` contiguous channels.
    pub(crate) fn widened(mut self, head_dim: usize) -> Result<Self, Error> {
        self.shape.head_dim = head_dim;
        self.strides.chunk = head_dim;
        self.checked()
    }

    /// Widens each head by the `bytes` of its scales, `behind` bytes after its first code.
    pub(crate) fn with_scale(self, behind: usize, bytes: usize) -> Result<Self, Error> {
        self.check_contiguous()?;
        let head_dim = self.shape.head_dim;
        if behind < head_dim {
            return Err(Error::Cache(CacheError::ScaleAmongCodes {
                at: behind,
                head_dim,
            }));
        }
        let width = behind.checked_add(bytes).ok_or(too_large(behind, 1))?;
        // No two indices may name one element.
        self.widened(width).map_err(|error| match error {
            Error::Cache(CacheError::Overlap {
                index,
                stride,
                least,
                ..
            }) => Error::Cache(CacheError::ScaleRoom {
                end: width,
                head_dim,
                index,
                stride,
                least,
            }),
            other => other,
        })
    }

    /// Converts the layout from values to bytes of blocks.
    pub(crate) fn in_blocks(self, format: &BlockFormat) -> Result<Self, Error> {
        self.in_units([format.values; 2], format.bytes)
    }

    /// Converts the layout from values to bytes: `bytes` for `unit` values. Heads are multiples of `group`.
    fn in_units(mut self, [group, unit]: [usize; 2], bytes: usize) -> Result<Self, Error> {
        self.check_contiguous()?;
        let strides = &mut self.strides;
        for (of, number, values) in [
            ("head_dim", &mut self.shape.head_dim, group),
            ("the first channel", &mut self.offset, unit),
            ("the stride of head", &mut strides.head, unit),
            ("the stride of token", &mut strides.token, unit),
            ("the stride of group", &mut strides.group_stride, unit),
            ("the stride of block", &mut strides.block, unit),
        ] {
            if !number.is_multiple_of(values) {
                return Err(Error::Cache(CacheError::PartOfBlock {
                    of,
                    given: *number,
                    values,
                }));
            }
            *number = product([*number / unit, bytes])?;
        }
        strides.chunk = self.shape.head_dim.max(1);
        self.checked()
    }

    /// Converts the layout from values to bytes of groups of tokens: all slots of a group have its address.
    fn in_groups(mut self, format: &ChannelFormat, tokens: usize) -> Result<Self, Error> {
        format.check_tokens(tokens)?;
        self.check_contiguous()?;
        let (block_size, head_dim) = (self.shape.block_size, self.shape.head_dim);
        let [_, multiple] = format.kernels.multiples();
        let unit = tokens.saturating_mul(head_dim).max(1);
        let strides = &mut self.strides;
        if block_size > 1 && (strides.token != head_dim || strides.group < block_size) {
            return Err(Error::Cache(CacheError::Layout {
                required: "of slots that are contiguous in each head, for scales by channel: an hnd layout, or an nhd \
                           layout of one head",
            }));
        }
        // The stride of one head, or of one block, means nothing.
        if self.shape.heads <= 1 {
            strides.head = 0;
        }
        if self.shape.blocks <= 1 {
            strides.block = 0;
        }
        for (of, given, values) in [
            ("head_dim", head_dim, multiple),
            ("block_size", block_size, tokens),
            ("the first channel", self.offset, unit),
            ("the stride of head", strides.head, unit),
            ("the stride of block", strides.block, unit),
        ] {
            if !given.is_multiple_of(values) {
                return Err(Error::Cache(CacheError::PartOfBlock { of, given, values }));
            }
        }
        let bytes = format.kernels.bytes(tokens, head_dim);
        let bytes = bytes.ok_or(too_large(tokens, head_dim))?;
        for number in [&mut self.offset, &mut strides.head, &mut strides.block] {
            *number = product([*number / unit, bytes])?;
        }
        (strides.group, strides.group_stride, strides.token) = (block_size.max(1), 0, bytes);
        self.shape.head_dim = bytes;
        strides.chunk = bytes.max(1);
        self.shape.block_size = block_size / tokens;
        self = self.checked()?;
        self.shape.block_size = block_size;
        let strides = &mut self.strides;
        (strides.group, strides.group_stride, strides.token) = (tokens, strides.token, 0);
        Ok(self)
    }

    fn check_contiguous(&self) -> Result<(), Error> {
        let CacheStrides {
            chunk,
            chunk_stride,
            channel,
            ..
        } = self.strides;
        match self.contiguous() {
            true => Ok(()),
            false => Err(Error::Cache(CacheError::ChannelsApart {
                head_dim: self.shape.head_dim,
                chunk,
                chunk_stride,
                channel,
            })),
        }
    }

    fn checked(mut self) -> Result<Self, Error> {
        let (shape, strides) = (self.shape, &mut self.strides);
        let (block_size, head_dim) = (shape.block_size, shape.head_dim);
        let required = match (strides.group, strides.chunk) {
            (0, _) if block_size > 0 => {
                "of groups of at least 1 slot, but group is 0; without groups it is block_size"
            }
            (_, 0) if head_dim > 0 => {
                "of chunks of at least 1 channel, but chunk is 0; without chunks it is head_dim"
            }
            _ => "",
        };
        if !required.is_empty() {
            return Err(Error::Cache(CacheError::Layout { required }));
        }
        // A chunk wider than the head is the whole head.
        strides.group = strides.group.max(1);
        strides.chunk = strides.chunk.clamp(1, head_dim.max(1));
        let dimensions = [
            (
                strides.channel,
                head_dim.min(strides.chunk),
                CacheIndex::Channel,
            ),
            (
                strides.chunk_stride,
                head_dim.div_ceil(strides.chunk),
                CacheIndex::Chunk,
            ),
            (strides.head, shape.heads, CacheIndex::Head),
            (
                strides.token,
                block_size.min(strides.group),
                CacheIndex::Token,
            ),
            (
                strides.group_stride,
                block_size.div_ceil(strides.group),
                CacheIndex::Group,
            ),
            (strides.block, shape.blocks, CacheIndex::Block),
        ];
        let extent = disjoint_extent("elements", dimensions)?;
        self.offset
            .checked_add(extent)
            .ok_or(too_large(extent, 1))?;
        Ok(self)
    }
}

impl CacheStrides {
    /// Creates the strides of slots without groups and heads with contiguous channels; the caller fills in block and
    /// head.
    fn ungrouped(block_size: usize, token: usize, head_dim: usize) -> Self {
        CacheStrides {
            block: 0,
            group: block_size,
            group_stride: 0,
            token,
            head: 0,
            chunk: head_dim,
            chunk_stride: 0,
            channel: 1,
        }
    }
}

/// Returns one past the largest index: the stride and the extent of each dimension, and its name. Refuses strides with
/// which two indices could name one element: each must step over the reach of all shorter ones. Without elements no two
/// can.
fn disjoint_extent<const N: usize>(
    of: &'static str,
    mut dimensions: [(usize, usize, CacheIndex); N],
) -> Result<usize, Error> {
    dimensions.sort_unstable();
    let is_empty = dimensions.iter().any(|(_, extent, _)| *extent == 0);
    let (mut reached, mut shorter) = (1_usize, None);
    for (stride, extent, index) in dimensions {
        if extent > 1 {
            if stride < reached && !is_empty {
                return Err(Error::Cache(CacheError::Overlap {
                    of,
                    index,
                    stride,
                    other: shorter.unwrap_or(index),
                    least: reached,
                }));
            }
            reached = reached
                .checked_add(product([extent - 1, stride])?)
                .ok_or(too_large(extent, stride))?;
            shorter = Some(index);
        }
    }
    Ok(reached)
}

const fn too_large(extent: usize, stride: usize) -> Error {
    Error::Cache(CacheError::TooLarge { extent, stride })
}

/// Returns the index of a member: `stride` within a group of `group` members, `group_stride` between groups.
#[inline]
fn grouped(member: usize, [group, group_stride, stride]: [usize; 3]) -> usize {
    member / group * group_stride + member % group * stride
}

/// Returns the largest index ([`grouped`]) among `members` members, at least one. It is in the last group, which may be
/// shorter, or at the end of the group before it.
fn last(members: usize, groups: [usize; 3]) -> usize {
    let before = ((members - 1) / groups[0] * groups[0]).checked_sub(1);
    let before = before.map_or(0, |member| grouped(member, groups));
    grouped(members - 1, groups).max(before)
}

fn product([a, b]: [usize; 2]) -> Result<usize, Error> {
    a.checked_mul(b).ok_or(too_large(a, b))
}
