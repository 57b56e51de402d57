//! Where the channels of a head lie in a cache, by its slot.

use super::quant::{QuantFormat, ScaleLayout, ScalePlace};
use crate::Error;
use crate::kernel::element::Element;
use crate::kernel::quantize::BlockFormat;

/// Where the elements of a KV cache lie: blocks (pages) of slots, each slot with the heads of one token.
///
/// Channel `d` of head `h` in slot `s`, which is place `p = s mod block_size` of block `s / block_size`, is element
///
/// ```text
/// (s / block_size) block + (p / group) group_stride + (p mod group) token
///     + h head + (d / chunk) chunk_stride + (d mod chunk) channel
/// ```
///
/// which covers the caches of all engines but two. The constructors are named after the order in memory, as engines do:
/// `N` the slots of a block, `H` heads, `D` channels, `x` what is left of the dimension before it that was divided. A
/// cache that is not paged has one block, or one for each sequence.
///
/// ```text
/// nhd   [blocks, N, H, D]           FlashInfer, vLLM, SGLang (N = 1), llama.cpp's rows, TensorRT
/// hnd   [blocks, H, N, D]           FlashInfer, TensorRT-LLM, OpenVINO; ONNX Runtime's BNSH, candle (block = sequence)
/// hdn   [blocks, H, D, N]           vLLM's CPU keys and older values, llama.cpp's transposed values
/// hdnx  [blocks, H, D / x, N, x]    vLLM's older keys, mistral.rs
/// hndx  [blocks, H, N / x, D, x]    interleaved values of vLLM and AITER
/// ```
///
/// Strides count elements of the cache: bytes where it keeps codes of 8 bits.
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

/// What a cache stores, for [`CacheLayout::bytes`]: elements, codes of 8 bits ([`QuantFormat`], with a [`ScalePlace`]
/// where scales are made), or blocks ([`BlockFormat`]).
///
/// ```
/// use rope_core::cache::{CacheFormat, CacheLayout};
///
/// let bytes = CacheLayout::nhd([1, 16, 2, 64])?.bytes(CacheFormat::element::<f32>())?;
/// assert_eq!(bytes, 16 * 2 * 64 * 4);
/// # Ok::<(), rope_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct CacheFormat(Unit);

#[derive(Clone, Copy, Debug)]
enum Unit {
    /// Bytes of an element, or of a code.
    Element(usize),
    /// Codes, with a scale so many bytes after the first one of a head.
    WithScale(usize),
    Blocks(&'static BlockFormat),
}

impl CacheFormat {
    /// Plain elements.
    pub const fn element<E: Element>() -> Self {
        CacheFormat(Unit::Element(size_of::<E>()))
    }
}

impl From<QuantFormat> for CacheFormat {
    /// Codes alone: their scales are given, or lie apart.
    fn from(_: QuantFormat) -> Self {
        CacheFormat(Unit::Element(1))
    }
}

impl From<(QuantFormat, ScalePlace)> for CacheFormat {
    /// Codes, and the scales that are made for them if these are inline.
    fn from((format, place): (QuantFormat, ScalePlace)) -> Self {
        match place {
            ScalePlace::Inline(behind) => CacheFormat(Unit::WithScale(behind)),
            ScalePlace::Separate(_) => format.into(),
        }
    }
}

impl From<&'static BlockFormat> for CacheFormat {
    fn from(format: &'static BlockFormat) -> Self {
        CacheFormat(Unit::Blocks(format))
    }
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
    /// Slots in all, as many as can be counted.
    pub(crate) fn slots(self) -> usize {
        self.blocks.saturating_mul(self.block_size)
    }

    fn is_empty(self) -> bool {
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

impl CacheLayout {
    /// Any strides.
    ///
    /// # Errors
    ///
    /// [`Error::CacheLayout`] if the group or the chunk has no members, if an index would not fit `usize`, or if two
    /// indices could name one element.
    pub fn strided(shape: CacheShape, strides: CacheStrides) -> Result<Self, Error> {
        CacheLayout {
            shape,
            strides,
            offset: 0,
        }
        .checked()
    }

    /// `[blocks, block_size, heads, head_dim]`.
    ///
    /// # Errors
    ///
    /// Those of [`CacheLayout::strided`].
    pub fn nhd([blocks, block_size, heads, head_dim]: [usize; 4]) -> Result<Self, Error> {
        let shape = CacheShape {
            blocks,
            block_size,
            heads,
            head_dim,
        };
        let token = product([heads, head_dim])?;
        CacheLayout::strided(
            shape,
            CacheStrides {
                block: product([block_size, token])?,
                head: head_dim,
                ..CacheStrides::ungrouped(block_size, token, head_dim)
            },
        )
    }

    /// `[blocks, heads, block_size, head_dim]`.
    ///
    /// # Errors
    ///
    /// Those of [`CacheLayout::strided`].
    pub fn hnd([blocks, heads, block_size, head_dim]: [usize; 4]) -> Result<Self, Error> {
        let shape = CacheShape {
            blocks,
            block_size,
            heads,
            head_dim,
        };
        let head = product([block_size, head_dim])?;
        CacheLayout::strided(
            shape,
            CacheStrides {
                block: product([heads, head])?,
                head,
                ..CacheStrides::ungrouped(block_size, head_dim, head_dim)
            },
        )
    }

    /// `[blocks, heads, head_dim, block_size]`: the channels of a token lie apart.
    ///
    /// # Errors
    ///
    /// Those of [`CacheLayout::strided`].
    pub fn hdn([blocks, heads, head_dim, block_size]: [usize; 4]) -> Result<Self, Error> {
        CacheLayout::hdnx([blocks, heads, head_dim, block_size, 1])
    }

    /// `[blocks, heads, head_dim / x, block_size, x]`: `x` channels of a token lie side by side.
    ///
    /// # Errors
    ///
    /// Those of [`CacheLayout::strided`].
    pub fn hdnx([blocks, heads, chunks, block_size, x]: [usize; 5]) -> Result<Self, Error> {
        let head_dim = product([chunks, x])?;
        let shape = CacheShape {
            blocks,
            block_size,
            heads,
            head_dim,
        };
        let head = product([head_dim, block_size])?;
        CacheLayout::strided(
            shape,
            CacheStrides {
                block: product([heads, head])?,
                head,
                chunk: x,
                chunk_stride: product([block_size, x])?,
                ..CacheStrides::ungrouped(block_size, x, x)
            },
        )
    }

    /// `[blocks, heads, block_size / x, head_dim, x]`: each channel of `x` tokens side by side.
    ///
    /// # Errors
    ///
    /// Those of [`CacheLayout::strided`].
    pub fn hndx([blocks, heads, groups, head_dim, x]: [usize; 5]) -> Result<Self, Error> {
        let block_size = product([groups, x])?;
        let shape = CacheShape {
            blocks,
            block_size,
            heads,
            head_dim,
        };
        let group_stride = product([head_dim, x])?;
        let head = product([groups, group_stride])?;
        CacheLayout::strided(
            shape,
            CacheStrides {
                block: product([heads, head])?,
                group: x,
                group_stride,
                token: 1,
                head,
                chunk: 1,
                chunk_stride: x,
                channel: 1,
            },
        )
    }

    /// Channels `start..end` of each head: where keys and values lie one after another, or a scale after the codes.
    ///
    /// # Errors
    ///
    /// [`Error::CacheLayout`] unless they are channels of a head, whose channels lie side by side.
    pub fn channels(mut self, range: core::ops::Range<usize>) -> Result<Self, Error> {
        if range.start > range.end || range.end > self.shape.head_dim {
            return Err(Error::CacheLayout {
                required: "narrowed to channels that a head has",
            });
        }
        if !self.contiguous() {
            return Err(Error::CacheLayout {
                required: "one whose heads have their channels side by side, to be narrowed to some of them",
            });
        }
        self.offset += range.start;
        self.shape.head_dim = range.len();
        self.strides.chunk = range.len().max(1);
        Ok(self)
    }

    /// The extents.
    pub fn shape(&self) -> CacheShape {
        self.shape
    }

    /// The strides, in elements.
    pub fn strides(&self) -> CacheStrides {
        self.strides
    }

    /// Bytes that a cache with this layout must have at least, by what it stores.
    ///
    /// ```
    /// use rope_core::cache::{BlockFormat, CacheFormat, CacheLayout, QuantFormat, ScalePlace};
    ///
    /// // 4 pages of 16 slots, 2 heads of 64 channels.
    /// let layout = CacheLayout::nhd([4, 16, 2, 64])?;
    /// assert_eq!(layout.bytes(CacheFormat::element::<f32>())?, 4 * 16 * 2 * 64 * 4);
    /// assert_eq!(layout.bytes(QuantFormat::E4m3)?, 4 * 16 * 2 * 64);
    /// assert_eq!(layout.bytes(BlockFormat::Q8_0)?, 4 * 16 * 2 * 64 / 32 * 34);
    /// // An f32 scale after the codes of each head.
    /// let layout = CacheLayout::nhd([4, 16, 2, 68])?.channels(0..64)?;
    /// assert_eq!(layout.bytes((QuantFormat::E4m3, ScalePlace::Inline(64)))?, 4 * 16 * 2 * 68);
    /// # Ok::<(), rope_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::CacheLayout`] for a layout that the format cannot have ([`CacheMut::quantized`], [`CacheMut::blocks`]),
    /// and for more bytes than `usize` counts.
    ///
    /// [`CacheMut::quantized`]: super::CacheMut::quantized
    /// [`CacheMut::blocks`]: super::CacheMut::blocks
    pub fn bytes(&self, format: impl Into<CacheFormat>) -> Result<usize, Error> {
        match format.into() {
            CacheFormat(Unit::Element(size)) => self.end().checked_mul(size).ok_or(TOO_LARGE),
            CacheFormat(Unit::WithScale(behind)) => Ok(self.with_scale(behind)?.end()),
            CacheFormat(Unit::Blocks(format)) => Ok(self.in_blocks(format)?.end()),
        }
    }

    /// Elements that a cache must have at least: the index after the last of all slots.
    pub fn end(&self) -> usize {
        if self.shape.is_empty() {
            return self.offset;
        }
        let CacheShape {
            blocks, block_size, ..
        } = self.shape;
        let strides = &self.strides;
        let groups = [strides.group, strides.group_stride, strides.token];
        let slot = (blocks - 1) * strides.block + last(block_size, groups);
        self.offset + slot + self.head_extent()
    }

    /// Whether the channels of a head lie side by side.
    pub(crate) fn contiguous(&self) -> bool {
        self.strides.channel == 1 && self.strides.chunk >= self.shape.head_dim
    }

    /// Elements from the first of a slot to after its last.
    pub(crate) fn head_extent(&self) -> usize {
        let CacheShape {
            heads, head_dim, ..
        } = self.shape;
        let CacheStrides {
            head,
            chunk,
            chunk_stride,
            channel,
            ..
        } = self.strides;
        if heads == 0 || head_dim == 0 {
            return 0;
        }
        (heads - 1) * head + last(head_dim, [chunk, chunk_stride, channel]) + 1
    }

    /// The first element of a slot that there is.
    pub(crate) fn slot(&self, slot: usize) -> usize {
        let CacheStrides {
            block,
            group,
            group_stride,
            token,
            ..
        } = self.strides;
        let (index, place) = (slot / self.shape.block_size, slot % self.shape.block_size);
        let start = self.offset + index * block;
        // Most blocks have no groups, and a division takes as long as a tenth of a head.
        if group >= self.shape.block_size {
            return start + place * token;
        }
        start + grouped(place, [group, group_stride, token])
    }

    /// The index of the first scale of a slot, where scales lie apart.
    pub(crate) fn scale(&self, place: ScaleLayout, slot: usize) -> usize {
        let (block, token) = (slot / self.shape.block_size, slot % self.shape.block_size);
        block * place.block + token * place.token
    }

    /// Collects the channels of a head, elements of `size` bytes, from its first one on.
    pub(crate) fn gather(&self, source: &[u8], size: usize, head: &mut [u8]) {
        match size {
            1 => self.gather_elements::<1>(source, head),
            2 => self.gather_elements::<2>(source, head),
            _ => self.gather_elements::<4>(source, head),
        }
    }

    /// Undoes `gather`.
    pub(crate) fn scatter(&self, head: &[u8], size: usize, target: &mut [u8]) {
        match size {
            1 => self.scatter_elements::<1>(head, target),
            2 => self.scatter_elements::<2>(head, target),
            _ => self.scatter_elements::<4>(head, target),
        }
    }

    fn gather_elements<const SIZE: usize>(&self, source: &[u8], head: &mut [u8]) {
        let (source, head) = (source.as_chunks::<SIZE>().0, head.as_chunks_mut::<SIZE>().0);
        for (index, channels) in head.chunks_mut(self.strides.chunk).enumerate() {
            let at = index * self.strides.chunk_stride;
            for (place, element) in channels.iter_mut().enumerate() {
                *element = source[at + place * self.strides.channel];
            }
        }
    }

    fn scatter_elements<const SIZE: usize>(&self, head: &[u8], target: &mut [u8]) {
        let (head, target) = (head.as_chunks::<SIZE>().0, target.as_chunks_mut::<SIZE>().0);
        for (index, channels) in head.chunks(self.strides.chunk).enumerate() {
            let at = index * self.strides.chunk_stride;
            for (place, element) in channels.iter().enumerate() {
                target[at + place * self.strides.channel] = *element;
            }
        }
    }

    /// The same with heads of more channels, which lie side by side.
    pub(crate) fn widened(mut self, head_dim: usize) -> Result<Self, Error> {
        self.shape.head_dim = head_dim;
        self.strides.chunk = head_dim;
        self.checked()
    }

    /// The same with a scale so many bytes after the first code of each head, as four more channels.
    pub(crate) fn with_scale(self, behind: usize) -> Result<Self, Error> {
        let required = "of heads with their channels side by side, and room for a scale after them";
        let width = behind
            .checked_add(4)
            .filter(|_| behind >= self.shape.head_dim && self.contiguous());
        // No two indices may name one element.
        let wider = width.and_then(|width| self.widened(width).ok());
        wider.ok_or(Error::CacheLayout { required })
    }

    /// The same in bytes of blocks.
    pub(crate) fn in_blocks(self, format: &BlockFormat) -> Result<Self, Error> {
        let blocks = self.of_whole_blocks(format.values, format.bytes);
        blocks.ok_or(Error::CacheLayout {
            required: format.required,
        })
    }

    /// The same in bytes of blocks which `values` channels have `bytes` of, if all of it is made of such blocks.
    fn of_whole_blocks(mut self, values: usize, bytes: usize) -> Option<Self> {
        if !self.contiguous() {
            return None;
        }
        let CacheStrides {
            block,
            group_stride,
            token,
            head,
            chunk,
            ..
        } = &mut self.strides;
        let (head_dim, offset) = (&mut self.shape.head_dim, &mut self.offset);
        for number in [block, group_stride, token, head, head_dim, offset] {
            let whole = number.is_multiple_of(values).then_some(*number / values)?;
            *number = whole.checked_mul(bytes)?;
        }
        *chunk = self.shape.head_dim.max(1);
        self.checked().ok()
    }

    fn checked(mut self) -> Result<Self, Error> {
        let CacheShape {
            blocks,
            block_size,
            heads,
            head_dim,
        } = self.shape;
        let CacheStrides {
            block,
            group,
            group_stride,
            token,
            head,
            chunk,
            chunk_stride,
            channel,
        } = self.strides;
        if (group == 0 && block_size > 0) || (chunk == 0 && head_dim > 0) {
            return Err(Error::CacheLayout {
                required: "of groups and chunks with at least one member",
            });
        }
        // A chunk of more channels than there are is one of all.
        let (group, chunk) = (group.max(1), chunk.clamp(1, head_dim.max(1)));
        (self.strides.group, self.strides.chunk) = (group, chunk);
        let mut dimensions = [
            (channel, head_dim.min(chunk)),
            (chunk_stride, head_dim.div_ceil(chunk)),
            (head, heads),
            (token, block_size.min(group)),
            (group_stride, block_size.div_ceil(group)),
            (block, blocks),
        ];
        dimensions.sort_unstable();
        // Each stride has to step over all that the shorter ones reach; the last is the whole extent.
        let mut reached = 1_usize;
        for (stride, extent) in dimensions {
            if extent > 1 {
                if stride < reached {
                    return Err(Error::CacheLayout {
                        required: "of strides with which no two indices name one element",
                    });
                }
                reached = reached
                    .checked_add(product([extent - 1, stride])?)
                    .ok_or(TOO_LARGE)?;
            }
        }
        self.offset.checked_add(reached).ok_or(TOO_LARGE)?;
        Ok(self)
    }
}

impl CacheStrides {
    /// Those of slots without groups and heads whose channels lie side by side; block and head are to be filled in.
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

const TOO_LARGE: Error = Error::CacheLayout {
    required: "of indices that fit usize",
};

/// The index of a member where `group` members lie `stride` apart and the groups `group_stride`.
#[inline]
fn grouped(member: usize, [group, group_stride, stride]: [usize; 3]) -> usize {
    member / group * group_stride + member % group * stride
}

/// The greatest such index of so many members, at least one: in the last group, which may have fewer, or at the end of
/// the one before.
fn last(members: usize, groups: [usize; 3]) -> usize {
    let before = ((members - 1) / groups[0] * groups[0]).checked_sub(1);
    let before = before.map_or(0, |member| grouped(member, groups));
    grouped(members - 1, groups).max(before)
}

fn product([a, b]: [usize; 2]) -> Result<usize, Error> {
    a.checked_mul(b).ok_or(TOO_LARGE)
}
