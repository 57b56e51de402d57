//! Caches whose slots have parts of several formats.

use super::quant::ScalePlace;
use super::{
    Cache, CacheFormat, CacheLayout, CacheMut, GivenScales, IntoScales, IntoSlots, SlotRange,
    Slots, SlotsTarget, Stored,
};
use crate::Error;
use crate::base::debug::debug;
use crate::base::error::saturated;
use crate::error::{CacheError, ShapeError};

/// A cache whose slots have several parts, each with its own channels, format and place: for reading.
///
/// ```
/// use rope_core::cache::{CacheFormat, CacheLayout, CacheParts};
/// use rope_core::{Pairing, Rope, TensorMut};
///
/// // Latents of 12 channels in f32 and keys of 4 channels in bf16, in one slot of 56 bytes.
/// let latents = CacheLayout::nhd([1, 8, 1, 14])?.narrow_channels(0..12)?;
/// let keys = CacheLayout::nhd([1, 8, 1, 28])?.narrow_channels(24..28)?;
/// let memory = [0.0_f32; 8 * 14];
/// let formats = [CacheFormat::element::<f32>(), CacheFormat::element::<half::bf16>()];
/// let cache = CacheParts::new(bytemuck::cast_slice(&memory), [(latents, formats[0]), (keys, formats[1])])?;
/// // One head of 16 channels per slot.
/// let mut y = [1.0_f32; 3 * 16];
/// Rope::new(Pairing::Half).apply_into(&cache.slots(2..5), &mut TensorMut::new(&mut y, [1, 3, 1, 16])?)?;
/// assert_eq!(y, [0.0; 3 * 16]);
/// # Ok::<(), rope_core::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct CacheParts<'a, const N: usize> {
    parts: [Cache<'a>; N],
}

/// A cache whose slots have several parts, each with its own channels, format and place: for writing.
///
/// A call sees one head per part, side by side: the channels of the first part, then those of the second, and so on.
/// The channels that rotate ([`Rope::with_window`](crate::Rope::with_window)) lie in one part. Calls copy or encode the
/// other parts as values, and a context shift leaves their bits as they are.
///
/// The other operand is one tensor of all channels, an array of tensors with those of some parts each, or a cache of
/// the same parts. All parts are checked before the first is written. The stages of a plan run on whole heads, whose
/// parts are then written; a transformed shift encodes all parts again.
///
/// ```
/// # #[cfg(feature = "alloc")] {
/// use rope_core::cache::{CacheFormat, CacheLayout, CachePartsMut, GroupCodes, ScalePlace, TileScale};
/// use rope_core::{Frequencies, Pairing, Rope, Scaling, Tensor};
///
/// // DeepSeek's 656 bytes: 512 codes of E4M3 in tiles of 128, their four scales, and 64 channels of bf16.
/// let latents = CacheLayout::nhd([1, 64, 1, 656])?.narrow_channels(0..512)?;
/// let keys = CacheLayout::nhd([1, 64, 1, 328])?.narrow_channels(264..328)?;
/// let scale = TileScale::Quotient { least: f32::MIN_POSITIVE };
/// let parts = [
///     (latents, CacheFormat::by_group(GroupCodes::E4m3In128(scale), ScalePlace::Inline(512))),
///     (keys, CacheFormat::element::<half::bf16>()),
/// ];
/// let mut memory = [0_u16; 64 * 328];
/// let mut cache = CachePartsMut::new(bytemuck::cast_slice_mut(&mut memory), parts)?;
///
/// // The latent and the key of three tokens are the outputs of two operations of the model.
/// let (latent, key) = ([1.0_f32; 3 * 512], [1.0_f32; 3 * 64]);
/// let source = [Tensor::new(&latent, [1, 3, 1, 512])?, Tensor::new(&key, [1, 3, 1, 64])?];
/// let frequencies = Frequencies::new(64, 10_000.0, &Scaling::Default)?;
/// let rope = Rope::new(Pairing::Interleaved).with_window(512);
/// rope.rotate_into(&source, &mut cache.slots(7..10), &frequencies.at(7..10)?)?;
/// # }
/// # Ok::<(), rope_core::Error>(())
/// ```
#[doc(alias("fp8_ds_mla", "concat_and_cache_mla"))]
pub struct CachePartsMut<'a, const N: usize> {
    /// The memory of all parts; `None` if each has its own.
    shared: Option<PartMemory<'a>>,
    own: [PartMemory<'a>; N],
    stored: [Stored<'a>; N],
}

/// Slots of a [`CacheParts`], for reading: the source of a call. Made by [`CacheParts::slots`].
///
/// ```
/// use rope_core::cache::{Cache, CacheLayout, CacheParts, PartSlots};
///
/// let (latents, keys) = ([0.0_f32; 8 * 12], [0.0_f32; 8 * 4]);
/// let latents = Cache::new(&latents, CacheLayout::nhd([1, 8, 1, 12])?)?;
/// let keys = Cache::new(&keys, CacheLayout::nhd([1, 8, 1, 4])?)?;
/// let cache = CacheParts::of([latents, keys])?;
/// let slots: PartSlots<'_> = cache.slots(2..5);
/// # Ok::<(), rope_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PartSlots<'c> {
    pub(crate) parts: &'c [Cache<'c>],
    pub(crate) slots: Slots<'c>,
}

/// Slots of a [`CachePartsMut`], for writing or for in-place rotation: the target of a call. Made by
/// [`CachePartsMut::slots`].
///
/// ```
/// # #[cfg(feature = "alloc")] {
/// use rope_core::cache::{CacheLayout, CacheMut, CachePartsMut};
/// use rope_core::{Frequencies, Pairing, Rope, Scaling};
///
/// // The keys of three slots move, and their latents do not.
/// let (mut latents, mut keys) = ([0.0_f32; 8 * 12], [0.0_f32; 8 * 4]);
/// let latents = CacheMut::new(&mut latents, CacheLayout::nhd([1, 8, 1, 12])?)?;
/// let keys = CacheMut::new(&mut keys, CacheLayout::nhd([1, 8, 1, 4])?)?;
/// let mut cache = CachePartsMut::of([latents, keys])?;
/// let frequencies = Frequencies::new(4, 10_000.0, &Scaling::Default)?;
/// let rope = Rope::new(Pairing::Half).with_window(12);
/// rope.rotate(&mut cache.slots(2..5), &frequencies.shift(&[-1; 3])?)?;
/// # }
/// # Ok::<(), rope_core::Error>(())
/// ```
pub struct PartSlotsMut<'c, const N: usize> {
    shared: Option<PartMemory<'c>>,
    own: [PartMemory<'c>; N],
    stored: &'c [Stored<'c>; N],
    slots: Slots<'c>,
}

/// The memory of a part, and its separate scales and zero points.
type PartMemory<'a> = (&'a mut [u8], [&'a mut [u8]; 2]);

impl<'a, const N: usize> CacheParts<'a, N> {
    /// Creates a cache of parts in one memory, each by its layout and its format. A layout counts the elements of its
    /// own part, from the beginning of the memory, and [`CacheLayout::narrow_channels`] selects the place of the part
    /// in a slot. [`CacheParts::of`] takes parts whose scales lie apart.
    ///
    /// # Errors
    ///
    /// The errors of [`Cache::coded`], of each part; [`ShapeError::Part`] if parts differ in their blocks, slots or
    /// heads, or if there are none; [`CacheError::PartOverlap`] if two parts could share bytes. Parts that interleave
    /// have one stride, in bytes, for each index.
    pub fn new(
        memory: &'a [u8],
        parts: [(CacheLayout, CacheFormat<'a>); N],
    ) -> Result<Self, Error> {
        let stored = in_one_memory(memory, parts, GivenScales::NONE)?;
        Ok(CacheParts {
            parts: stored.map(|stored| Cache {
                memory: &memory[..stored.whole(memory.len())],
                scales: [&[], &[]],
                stored,
            }),
        })
    }

    /// Creates a cache of parts that have a memory each, or share one that is only read.
    ///
    /// # Errors
    ///
    /// [`ShapeError::Part`] if parts differ in their blocks, slots or heads, or if there are none.
    pub fn of(parts: [Cache<'a>; N]) -> Result<Self, Error> {
        check_shapes(&parts.map(|part| part.stored))?;
        Ok(CacheParts { parts })
    }

    /// Returns the slots to read, one per token of each sequence.
    pub fn slots<'c, 's: 'c>(&'c self, slots: impl IntoSlots<'s>) -> PartSlots<'c> {
        PartSlots {
            parts: &self.parts,
            slots: slots.into(),
        }
    }
}

impl<'a, const N: usize> CachePartsMut<'a, N> {
    /// Creates a cache of parts in one memory, as [`CacheParts::new`].
    ///
    /// # Errors
    ///
    /// The errors of [`CacheParts::new`].
    pub fn new(
        memory: &'a mut [u8],
        parts: [(CacheLayout, CacheFormat<'a>); N],
    ) -> Result<Self, Error> {
        let scales: &mut [f32] = &mut [];
        CachePartsMut::new_with_scales(memory, parts, scales)
    }

    /// Creates a cache of parts in one memory, of which one has its computed scales in `scales`
    /// ([`CacheMut::coded_with_scales`]).
    ///
    /// # Errors
    ///
    /// The errors of [`CacheParts::new`] and of [`CacheMut::coded_with_scales`]; [`CacheError::PartOverlap`] if two
    /// parts have separate scales.
    pub fn new_with_scales(
        memory: &'a mut [u8],
        parts: [(CacheLayout, CacheFormat<'a>); N],
        scales: impl IntoScales<Bytes = &'a mut [u8]>,
    ) -> Result<Self, Error> {
        let (scales, given) = scales.lists();
        let stored = in_one_memory(memory, parts, given)?;
        Ok(CachePartsMut {
            shared: Some((memory, scales)),
            own: [(); N].map(|()| (&mut [] as &mut [u8], [&mut [] as &mut [u8], &mut []])),
            stored,
        })
    }

    /// Creates a cache of parts that have a memory each, as FlashInfer's latents and keys.
    ///
    /// # Errors
    ///
    /// The errors of [`CacheParts::of`].
    pub fn of(parts: [CacheMut<'a>; N]) -> Result<Self, Error> {
        let stored = core::array::from_fn(|part| parts[part].stored);
        check_shapes(&stored)?;
        Ok(CachePartsMut {
            shared: None,
            own: parts.map(|part| (part.memory, part.scales)),
            stored,
        })
    }

    /// Returns the slots to write, or to rotate in place, one per token of each sequence. The slots borrow the cache
    /// until they are dropped.
    pub fn slots<'c, 's: 'c>(&'c mut self, slots: impl IntoSlots<'s>) -> PartSlotsMut<'c, N> {
        let reborrowed = |(memory, scales): &'c mut PartMemory<'a>| {
            let memory: &'c mut [u8] = memory;
            (memory, super::reborrowed(scales))
        };
        PartSlotsMut {
            shared: self.shared.as_mut().map(reborrowed),
            own: self.own.each_mut().map(reborrowed),
            stored: &self.stored,
            slots: slots.into(),
        }
    }

    /// Borrows the cache for reading.
    pub fn as_parts(&self) -> CacheParts<'_, N> {
        CacheParts {
            parts: core::array::from_fn(|part| {
                let (memory, scales) = self.shared.as_ref().unwrap_or(&self.own[part]);
                let stored = self.stored[part];
                Cache {
                    memory: &memory[..stored.whole(memory.len())],
                    scales: scales.each_ref().map(|list| &**list),
                    stored,
                }
            }),
        }
    }

    /// Moves all parts of slots within the cache, as [`CacheMut::move_slots`].
    ///
    /// # Errors
    ///
    /// The errors of [`CacheMut::move_slots`]. The cache is untouched then.
    pub fn move_slots<'s>(
        &mut self,
        from: impl IntoSlots<'s>,
        to: impl IntoSlots<'s>,
    ) -> Result<(), Error> {
        let (from, to) = (from.into(), to.into());
        for part in 0..N {
            let stored = self.stored[part];
            let (memory, scales) = of_part(&mut self.shared, &mut self.own[part], &stored);
            // The parts have the same slots: the first one refuses, or none.
            CacheMut {
                memory,
                scales,
                stored,
            }
            .move_slots(from, to)?;
        }
        Ok(())
    }
}

impl<const N: usize> PartSlotsMut<'_, N> {
    /// Returns the slots of a part.
    pub(crate) fn target(&mut self, part: usize) -> SlotsTarget<'_> {
        let stored = &self.stored[part];
        let (memory, scales) = of_part(&mut self.shared, &mut self.own[part], stored);
        SlotsTarget {
            len: memory.len() / stored.size(),
            memory,
            scales,
            stored,
            slots: &self.slots,
            range: SlotRange::WHOLE,
            numbers: None,
        }
    }
}

/// Borrows the memory of a part, in whole elements, and its scales: those that all parts share, or its own.
fn of_part<'m, 'a>(
    shared: &'m mut Option<PartMemory<'a>>,
    own: &'m mut PartMemory<'a>,
    stored: &Stored<'_>,
) -> PartMemory<'m> {
    let (memory, scales) = shared.as_mut().unwrap_or(own);
    let whole = stored.whole(memory.len());
    (&mut memory[..whole], super::reborrowed(scales))
}

/// Checks parts that share a memory, and separate scales by their lengths.
fn in_one_memory<'a, const N: usize>(
    memory: &[u8],
    parts: [(CacheLayout, CacheFormat<'a>); N],
    scales: GivenScales,
) -> Result<[Stored<'a>; N], Error> {
    let mut checked = [None; N];
    for (checked, (layout, format)) in checked.iter_mut().zip(parts) {
        *checked = Some(Stored::new(layout, format, memory, scales)?);
    }
    let stored = checked.map(|stored| match stored {
        Some(stored) => stored,
        None => unreachable!("every part was checked"),
    });
    check_shapes(&stored)?;
    for (second, part) in stored.iter().enumerate() {
        for (first, before) in stored[..second].iter().enumerate() {
            let shared = match part.separate_scales().and(before.separate_scales()) {
                Some(_) => "separate scales",
                None if part.is_apart(before) => continue,
                None => "bytes",
            };
            return Err(Error::Cache(CacheError::PartOverlap {
                of: shared,
                first,
                second,
            }));
        }
    }
    Ok(stored)
}

/// Checks that all parts have the same slots and heads.
fn check_shapes(parts: &[Stored<'_>]) -> Result<(), Error> {
    let Some(first) = parts.first() else {
        return Err(Error::Cache(CacheError::Layout {
            required: "of one part at least",
        }));
    };
    let first = first.layout.shape;
    for (part, stored) in parts.iter().enumerate() {
        let shape = stored.layout.shape;
        for (of, given, first) in [
            ("blocks", shape.blocks, first.blocks),
            ("slots per block", shape.block_size, first.block_size),
            ("heads", shape.heads, first.heads),
        ] {
            if given != first {
                return Err(Error::Shape(ShapeError::Part {
                    part: saturated(part),
                    of,
                    given,
                    first,
                }));
            }
        }
    }
    Ok(())
}

/// Bytes at equal distances: `len` of them at each index.
struct Region {
    start: usize,
    len: usize,
    /// The strides in bytes and the extents, the shortest first.
    dimensions: [(usize, usize); 6],
}

impl Region {
    fn new(start: usize, len: usize, mut dimensions: [(usize, usize); 6]) -> Self {
        for dimension in &mut dimensions {
            // The slots of a group with numbers by channel have one address.
            if dimension.1 <= 1 || dimension.0 == 0 {
                *dimension = (0, 1);
            }
        }
        dimensions.sort_unstable();
        Region {
            start,
            len,
            dimensions,
        }
    }

    /// Returns the first byte and one past the last, at the first index of the `outer` longest strides.
    fn hull(&self, outer: usize) -> [usize; 2] {
        let inner = &self.dimensions[..6 - outer];
        let reach = |reach: usize, &(stride, extent): &(usize, usize)| {
            reach.saturating_add(stride.saturating_mul(extent - 1))
        };
        let len = inner.iter().fold(self.len, reach);
        [self.start, self.start.saturating_add(len)]
    }

    /// Returns true if two regions share no byte, as their strides show: the longest are equal, and the rest of one
    /// ends before the rest of the other begins.
    fn is_apart(&self, other: &Region) -> bool {
        let equal = |outer: &usize| self.dimensions[6 - outer..] == other.dimensions[6 - outer..];
        (0..=6).take_while(equal).any(|outer| {
            let [[start, end], [other_start, other_end]] = [self.hull(outer), other.hull(outer)];
            let mut reached = end.max(other_end) - start.min(other_start);
            let steps_over = self.dimensions[6 - outer..]
                .iter()
                .all(|&(stride, extent)| {
                    let fits = extent == 1 || stride >= reached;
                    reached = reached.saturating_add(stride.saturating_mul(extent - 1));
                    fits
                });
            (end <= other_start || other_end <= start) && steps_over
        })
    }
}

impl Stored<'_> {
    /// Returns the bytes of the heads, and those of scales that are in the cache.
    fn regions(&self) -> [Option<Region>; 2] {
        let CacheLayout {
            shape,
            strides,
            offset,
        } = self.layout;
        if shape.is_empty() {
            return [None, None];
        }
        let size = self.size();
        // No overflow: every index is inside the memory.
        let bytes = |(stride, extent): (usize, usize)| (stride.saturating_mul(size), extent);
        let slots = [
            (strides.block, shape.blocks),
            (
                strides.group_stride,
                shape.block_size.div_ceil(strides.group),
            ),
            (strides.token, shape.block_size.min(strides.group)),
            (strides.head, shape.heads),
        ]
        .map(bytes);
        let [block, group, token, head] = slots;
        let chunk = strides.chunk.min(shape.head_dim);
        let (len, channel) = match strides.channel {
            1 => (chunk * size, (0, 1)),
            stride => (size, bytes((stride, chunk))),
        };
        let chunks = bytes((strides.chunk_stride, shape.head_dim.div_ceil(chunk)));
        let heads = [block, group, token, head, chunks, channel];
        let scales = match self.computed_scales() {
            Some(ScalePlace::Inline(behind)) => {
                let slots = [block, group, token, head, (0, 1), (0, 1)];
                Some(Region::new(offset + behind, self.scale_bytes(), slots))
            }
            Some(ScalePlace::InBlock { first, strides }) => {
                let slots = [
                    (strides.block, shape.blocks),
                    (strides.token, shape.block_size),
                    (strides.head, shape.heads),
                    (0, 1),
                    (0, 1),
                    (0, 1),
                ];
                Some(Region::new(first, self.scale_bytes(), slots))
            }
            _ => None,
        };
        [Some(Region::new(offset * size, len, heads)), scales]
    }

    /// Refuses scales in blocks that could lie among the codes.
    pub(super) fn check_scales_apart(&self) -> Result<(), Error> {
        match (self.computed_scales(), self.regions()) {
            (Some(ScalePlace::InBlock { .. }), [Some(codes), Some(scales)])
                if !codes.is_apart(&scales) =>
            {
                Err(Error::Cache(CacheError::Layout {
                    required: "of codes and scales that share no byte: the scales of a block follow all of its codes, \
                               at the same stride of blocks",
                }))
            }
            _ => Ok(()),
        }
    }

    /// Returns true if two parts of slots in one memory share no byte.
    fn is_apart(&self, other: &Stored<'_>) -> bool {
        let others = other.regions();
        (self.regions().iter().flatten())
            .all(|region| others.iter().flatten().all(|other| region.is_apart(other)))
    }
}

debug!([const N: usize] CacheParts<'_, N>, |cache| parts: cache.parts);

debug!([const N: usize] CachePartsMut<'_, N>, |cache| parts: cache.as_parts().parts);

debug!([const N: usize] PartSlotsMut<'_, N>, |slots| layouts: slots.stored.map(|stored| stored.layout), slots: slots.slots);
