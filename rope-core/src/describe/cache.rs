//! KV caches as the destination or the source of a call: tokens lie in slots, and heads may be quantized.
//!
//! A [`CacheLayout`] describes where the channels of a slot lie. [`Slots`] maps tokens to slots. A [`CacheMut`] adds
//! the caller's memory and a [`CacheFormat`]: an element type, an 8-bit format with its scale, or ggml's blocks.
//!
//! ```
//! use rope_core::cache::{CacheFormat, CacheLayout, CacheMut, QuantFormat, QuantScale};
//! use rope_core::{Pairing, Rope, Rows, Tensor};
//!
//! // 4 pages of 16 slots, 2 heads of 64 channels in FP8 (E4M3), one scale for all.
//! let layout = CacheLayout::nhd([4, 16, 2, 64])?;
//! let scale = QuantScale::Divide(0.5.into());
//! let mut memory = [0_u8; 4 * 16 * 2 * 64];
//! let mut keys = CacheMut::coded(&mut memory, layout, CacheFormat::quantized(QuantFormat::E4m3, scale))?;
//!
//! // Rotates the keys of three tokens, and writes them into slots 17, 18 and 40.
//! let rows = [0.0_f32; 3 * 64]; // the cos and sin of three tokens
//! let k = [1.0_f32; 3 * 2 * 64];
//! Rope::new(Pairing::Half).rotate_into(
//!     &Tensor::new(&k, [1, 3, 2, 64])?,
//!     &mut keys.slots(&[17_i64, 18, 40]),
//!     &Rows::new(&rows, [3, 64])?,
//! )?;
//! # Ok::<(), rope_core::Error>(())
//! ```

mod channels;
#[cfg(feature = "rayon")]
mod cut;
mod format;
mod groups;
mod layout;
mod moves;
mod parts;
mod quant;
mod repeats;
pub(crate) mod scales;
mod seen;
mod slots;

use core::ops::Range;

pub use crate::kernel::quantize::BlockFormat;
use format::ComputedScales;
pub use format::{Asymmetric, CacheFormat, ChannelCodes, GroupCodes, MxScale, TileScale};
pub(crate) use format::{Codes, Format};
pub use layout::{CacheLayout, CacheShape, CacheStrides};
pub use parts::{CacheParts, CachePartsMut, PartSlots, PartSlotsMut};
pub use quant::{HeadScales, QuantFormat, QuantScale, ScaleLayout, ScalePlace};
pub use scales::{IntoScales, ScaleUnit};
pub use slots::{IntoSlots, Slots};

use crate::base::debug::debug;
use crate::base::limits::{MOST_CHANNELS, MOST_GROUPS, MOST_HEADS};
use crate::describe::address::TokenAddress;
use crate::error::CacheError;
use crate::kernel::element::Element;
use crate::kernel::elements::OutOfPlaceKernels;
use crate::kernel::quantize::{
    Encoding, GroupEncoding, GroupPlace, NUMBERS, ScaleFactors, ScaleRequest,
};
use crate::kernel::values::Values;
use crate::proof::Proof;
use crate::{Error, Shape};

use channels::{GroupHeads, GroupNumbers};
use scales::GivenScales;
pub(crate) use slots::{SlotAddresses, SlotRange};

/// The keys, or the values, of one layer in a cache, for reading.
///
/// ```
/// use rope_core::cache::{Cache, CacheLayout};
/// use rope_core::{Pairing, Rope, Rows, TensorMut};
///
/// // Keys that were cached before their rotation.
/// let memory = [1.0_f32; 16 * 2 * 64];
/// let keys = Cache::new(&memory, CacheLayout::nhd([1, 16, 2, 64])?)?;
/// let (mut y, rows) = ([0.0_f32; 3 * 2 * 64], [0.0_f32; 3 * 64]);
/// let mut y = TensorMut::new(&mut y, [1, 3, 2, 64])?;
/// Rope::new(Pairing::Half).rotate_into(&keys.slots(4..7), &mut y, &Rows::new(&rows, [3, 64])?)?;
/// # Ok::<(), rope_core::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct Cache<'a> {
    memory: &'a [u8],
    /// Separate scales, and separate zero points.
    scales: [&'a [u8]; 2],
    stored: Stored<'a>,
}

/// The keys, or the values, of one layer in a cache, for writing.
///
/// ```
/// # #[cfg(feature = "alloc")] {
/// use rope_core::cache::{CacheLayout, CacheMut};
/// use rope_core::{Frequencies, Pairing, Rope, Scaling};
///
/// // A context shift: the keys in the slots 4 to 6 move three positions back.
/// let frequencies = Frequencies::new(64, 10_000.0, &Scaling::Default)?;
/// let mut memory = [1.0_f32; 16 * 2 * 64];
/// let mut keys = CacheMut::new(&mut memory, CacheLayout::nhd([1, 16, 2, 64])?)?;
/// Rope::new(Pairing::Half).rotate(&mut keys.slots(4..7), &frequencies.shift(&[-3; 3])?)?;
/// # }
/// # Ok::<(), rope_core::Error>(())
/// ```
#[doc(alias = "kv_cache")]
pub struct CacheMut<'a> {
    memory: &'a mut [u8],
    /// As those of [`Cache`].
    scales: [&'a mut [u8]; 2],
    stored: Stored<'a>,
}

/// Slots of a [`Cache`], for reading: the source of a call. Made by [`Cache::slots`].
///
/// ```
/// use rope_core::cache::{Cache, CacheLayout};
/// use rope_core::{Pairing, Rope, Rows, TensorMut};
///
/// // Keys that were cached before their rotation.
/// let memory = [1.0_f32; 16 * 2 * 64];
/// let keys = Cache::new(&memory, CacheLayout::nhd([1, 16, 2, 64])?)?;
/// let (mut y, rows) = ([0.0_f32; 3 * 2 * 64], [0.0_f32; 3 * 64]);
/// let mut y = TensorMut::new(&mut y, [1, 3, 2, 64])?;
/// Rope::new(Pairing::Half).rotate_into(&keys.slots(4..7), &mut y, &Rows::new(&rows, [3, 64])?)?;
/// # Ok::<(), rope_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct CacheSlots<'c> {
    pub(crate) cache: &'c Cache<'c>,
    pub(crate) slots: Slots<'c>,
}

/// Slots of a [`CacheMut`], for writing or for in-place rotation: the target of a call. Made by [`CacheMut::slots`].
///
/// ```
/// use rope_core::cache::{CacheLayout, CacheMut};
/// use rope_core::{Pairing, Rope, Tensor};
///
/// let mut memory = [0.0_f32; 16 * 2 * 64];
/// let mut values = CacheMut::new(&mut memory, CacheLayout::nhd([1, 16, 2, 64])?)?;
/// let v = [1.0_f32; 3 * 2 * 64];
/// Rope::new(Pairing::Half).apply_into(&Tensor::new(&v, [1, 3, 2, 64])?, &mut values.slots(4..7))?;
/// # Ok::<(), rope_core::Error>(())
/// ```
pub struct CacheSlotsMut<'c> {
    memory: &'c mut [u8],
    scales: [&'c mut [u8]; 2],
    stored: &'c Stored<'c>,
    slots: Slots<'c>,
}

/// The slots of a cache that a call writes.
pub(crate) struct SlotsTarget<'t> {
    memory: &'t mut [u8],
    scales: [&'t mut [u8]; 2],
    pub(crate) stored: &'t Stored<'t>,
    pub(crate) slots: &'t Slots<'t>,
    /// Length of the whole cache, in elements or bytes.
    len: usize,
    /// The slots in `memory`.
    range: SlotRange,
    /// The numbers of the group that is written, in a cache with numbers by channel.
    numbers: Option<&'t mut GroupNumbers>,
}

/// The storage of heads in a cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stored<'a> {
    pub(crate) layout: CacheLayout,
    pub(crate) format: Format<'a>,
    /// Separate zero points have a list of their own, with the layout of the scales.
    is_pair: bool,
}

/// The heads of an operand, for reading.
pub(crate) enum CacheHeads<'h> {
    /// Elements, with the channels of a head contiguous.
    Lines(&'h [u8], &'static OutOfPlaceKernels),
    /// Any other storage.
    Kept(Kept<'h>),
}

/// The heads of an operand, for writing.
pub(crate) enum CacheHeadsMut<'h, 'm> {
    Lines(&'h mut [u8], &'static OutOfPlaceKernels),
    Kept(&'h mut SlotsTarget<'m>),
}

/// Heads of a cache that are codes, or whose channels are not contiguous.
pub(crate) struct Kept<'h> {
    memory: &'h [u8],
    scales: [&'h [u8]; 2],
    stored: &'h Stored<'h>,
}

/// The most bytes of scales of groups that one call computes: at least those of the longest head.
const SCALES: usize = 128;
const _: () = assert!(SCALES >= MOST_CHANNELS / 16 && SCALES >= MOST_CHANNELS / 64 * 4);

/// Implements the constructors of [`Cache`] and of [`CacheMut`].
macro_rules! constructors {
    ($cache:ident, $cast:path $(, $mutable:tt)?) => {
        impl<'a> $cache<'a> {
            /// Creates a cache of plain elements.
            ///
            /// # Errors
            ///
            /// [`CacheError::Memory`] if the layout reaches past the slice.
            pub fn new<E: Element>(
                memory: &'a $($mutable)? [E],
                layout: CacheLayout,
            ) -> Result<Self, Error> {
                $cache::coded($cast(memory), layout, CacheFormat::element::<E>())
            }

            /// Creates a cache of any format in bytes. The layout counts values, one per byte of 8-bit codes; the cache
            /// converts those of blocks to bytes.
            ///
            /// # Errors
            ///
            /// [`CacheError::Memory`] if the layout, with its inline scales, reaches past the slice;
            /// [`CacheError::ScaleAmongCodes`] and [`CacheError::ScaleRoom`] if inline scales overlap codes,
            /// [`CacheError::ChannelsApart`] if the channels of a head are not contiguous and the format requires it;
            /// [`CacheError::PartOfBlock`] for blocks and groups unless head_dim, all strides and the first channel are
            /// multiples; [`CacheError::TooLarge`] if an index does not fit `usize`; [`CacheError::Layout`] if elements
            /// are not aligned; [`Error::Parameter`], [`Error::ListEntry`] and [`Error::Count`] if given scales are not
            /// finite and above zero, or if their number differs from the heads; [`Error::Storage`] if scales lie
            /// apart.
            #[doc(alias("quantized", "blocks"))]
            pub fn coded(
                memory: &'a $($mutable)? [u8],
                layout: CacheLayout,
                format: impl Into<CacheFormat<'a>>,
            ) -> Result<Self, Error> {
                let scales = [&$($mutable)? [] as &$($mutable)? [u8], &$($mutable)? []];
                $cache::stored_in(memory, layout, format.into(), (scales, GivenScales::NONE))
            }

            /// Creates a cache of codes whose computed scales lie apart ([`ScalePlace::Separate`]): in `scales`, which
            /// is not used otherwise. They are f32, or u8 if a scale is a byte ([`GroupCodes::Mxfp4`]).
            ///
            /// An array of two lists has the scales in the first one, and the zero points or minima in the second
            /// ([`GroupCodes::U8`]), both with the layout of the place.
            ///
            /// # Errors
            ///
            /// The errors of the constructor `coded`; [`Error::Storage`] if a list is shorter than the layout
            /// requires; [`CacheError::Overlap`] if two heads could have one separate scale; [`CacheError::Layout`] if
            /// `scales` has the other type, or two lists without a zero point.
            pub fn coded_with_scales(
                memory: &'a $($mutable)? [u8],
                layout: CacheLayout,
                format: impl Into<CacheFormat<'a>>,
                scales: impl IntoScales<Bytes = &'a $($mutable)? [u8]>,
            ) -> Result<Self, Error> {
                $cache::stored_in(memory, layout, format.into(), scales.lists())
            }

            fn stored_in(
                memory: &'a $($mutable)? [u8],
                layout: CacheLayout,
                format: CacheFormat<'a>,
                (scales, given): ([&'a $($mutable)? [u8]; 2], GivenScales),
            ) -> Result<Self, Error> {
                let stored = Stored::new(layout, format, memory, given)?;
                let whole = stored.whole(memory.len());
                Ok($cache {
                    memory: &$($mutable)? memory[..whole],
                    scales,
                    stored,
                })
            }

            /// Returns the layout.
            pub fn layout(&self) -> &CacheLayout {
                &self.stored.layout
            }
        }
    };
}
constructors!(Cache, bytemuck::cast_slice);
constructors!(CacheMut, bytemuck::cast_slice_mut, mut);

impl<'a> Cache<'a> {
    /// Returns the slots to read, one per token of each sequence.
    pub fn slots<'c, 's: 'c>(&'c self, slots: impl IntoSlots<'s>) -> CacheSlots<'c> {
        CacheSlots {
            cache: self,
            slots: slots.into(),
        }
    }

    pub(crate) fn stored(&self) -> &Stored<'a> {
        &self.stored
    }

    /// Returns the length of the cache, in elements or bytes.
    pub(crate) fn len(&self) -> usize {
        self.memory.len() / self.stored.size()
    }

    /// Returns the memory.
    pub(crate) fn memory(&self) -> &'a [u8] {
        self.memory
    }

    /// Returns the heads.
    pub(crate) fn heads(&self) -> CacheHeads<'_> {
        self.stored.heads(self.memory, self.scales)
    }

    /// Returns the addresses of the tokens of a tensor.
    pub(crate) fn in_slots<'s>(&self, slots: &'s Slots<'s>, tokens: usize) -> SlotAddresses<'s> {
        self.stored.in_slots(slots, self.len(), tokens)
    }
}

impl Kept<'_> {
    /// Returns the kernels of the element, unless heads are codes.
    pub(crate) fn element(&self) -> Option<&'static OutOfPlaceKernels> {
        match self.stored.format {
            Format::Element(element, _) => Some(element),
            Format::Codes(_) => None,
        }
    }

    /// Gathers channels of a head from channel `first` on.
    pub(crate) fn gather(&self, at: TokenAddress, head: usize, first: usize, channels: &mut [u8]) {
        let Kept { memory, stored, .. } = *self;
        let size = stored.size();
        let memory = &memory[(at.element + head * stored.layout.strides.head) * size..];
        stored.layout.gather(memory, size, first, channels);
    }

    /// Reads channels of consecutive heads of a slot as f32, all of them if heads are codes. `side` has room for one
    /// head, gathered there if channels lie apart.
    pub(crate) fn read(
        &self,
        proof: Proof,
        at: TokenAddress,
        first_head: usize,
        channels: Range<usize>,
        values: &mut [f32],
        side: &mut [u8],
    ) {
        let Kept { memory, stored, .. } = *self;
        let codes = match stored.format {
            Format::Element(element, _) => {
                for (index, values) in values.chunks_mut(channels.len()).enumerate() {
                    let bytes = &mut side[..values.len() * element.size];
                    self.gather(at, first_head + index, channels.start, bytes);
                    (element.to_f32)(proof, bytes, values);
                }
                return;
            }
            Format::Codes(codes) => codes,
        };
        let layout = &stored.layout;
        let (size, head_dim) = (stored.size(), stored.head_dim());
        let together = stored.run(values.len() / head_dim, true);
        for (index, values) in values.chunks_mut(together * head_dim).enumerate() {
            let head = first_head + index * together;
            let memory = &memory[(at.element + head * layout.strides.head) * size..];
            let len = size * values.len() / head_dim * layout.shape.head_dim;
            let bytes = if layout.contiguous() {
                &memory[..len]
            } else {
                layout.gather(memory, size, 0, &mut side[..len]);
                &side[..len]
            };
            match codes {
                Codes::Blocks(format) => (format.decode)(proof, bytes, values),
                Codes::Groups(kernels, rule, place) => {
                    let scales = self.scales(place, at, head);
                    kernels.decode(proof, [bytes, scales], rule, values);
                }
                Codes::Channels(format, tokens) => {
                    let place = GroupPlace {
                        tokens,
                        head_dim,
                        token: at.scale % tokens,
                    };
                    let heads = (bytes, size * layout.shape.head_dim);
                    format.kernels.decode(proof, place, heads, values);
                }
                Codes::Asymmetric(groups, place) => {
                    let mut pairs = [0; MOST_GROUPS * NUMBERS];
                    let numbers = match stored.is_pair {
                        true => self.pairs(place, at, head, &mut pairs),
                        false => self.scales(place, at, head),
                    };
                    groups.decode(proof, [bytes, numbers], values);
                }
                Codes::Scaled(code, scale) => {
                    (code.decode)(proof, bytes, self.scale(scale, at, head), values);
                }
            }
        }
    }

    /// Returns the factor that decodes the codes of a head.
    fn scale(&self, scale: QuantScale<'_>, at: TokenAddress, head: usize) -> f32 {
        match scale {
            QuantScale::Divide(scales) | QuantScale::Reciprocal(scales) => {
                scales.of_heads(head, 1)[0]
            }
            QuantScale::Multiply(scales) => 1.0 / scales.of_heads(head, 1)[0],
            QuantScale::Computed { at: place, .. } => {
                bytemuck::pod_read_unaligned(self.scales(place, at, head))
            }
        }
    }

    /// Returns the bytes of the scales of a head.
    fn scales(&self, place: ScalePlace, at: TokenAddress, head: usize) -> &[u8] {
        let [start, len] = self.stored.scales_of(place, at, head);
        match place {
            ScalePlace::Inline(_) | ScalePlace::InBlock { .. } => &self.memory[start..][..len],
            ScalePlace::Separate(_) => &self.scales[0][start..][..len],
        }
    }

    /// Joins the scales of a head with its zero points, which have a list of their own.
    fn pairs<'p>(
        &self,
        place: ScalePlace,
        at: TokenAddress,
        head: usize,
        pairs: &'p mut [u8],
    ) -> &'p [u8] {
        let [start, len] = self.stored.scales_of(place, at, head);
        let pairs = &mut pairs[..2 * len];
        let [scales, zeros] = self
            .scales
            .map(|list| list[start..][..len].as_chunks::<4>().0);
        let numbers = scales.iter().zip(zeros).flat_map(<[_; 2]>::from);
        for (place, number) in pairs.as_chunks_mut().0.iter_mut().zip(numbers) {
            *place = *number;
        }
        pairs
    }
}

/// Borrows separate scales for a shorter time.
fn reborrowed<'s>(scales: &'s mut [&mut [u8]; 2]) -> [&'s mut [u8]; 2] {
    scales.each_mut().map(|list| &mut **list)
}

impl CacheMut<'_> {
    /// Returns the slots to write, or to rotate in place, one per token of each sequence. The slots borrow the cache
    /// until they are dropped.
    #[doc(alias = "slot_mapping")]
    #[inline]
    pub fn slots<'c, 's: 'c>(&'c mut self, slots: impl IntoSlots<'s>) -> CacheSlotsMut<'c> {
        CacheSlotsMut {
            memory: self.memory,
            scales: reborrowed(&mut self.scales),
            stored: &self.stored,
            slots: slots.into(),
        }
    }

    /// Borrows the cache for reading.
    pub fn as_cache(&self) -> Cache<'_> {
        Cache {
            memory: self.memory,
            scales: self.scales.each_ref().map(|list| &**list),
            stored: self.stored,
        }
    }

    /// Borrows the cache for a shorter time.
    pub fn reborrow(&mut self) -> CacheMut<'_> {
        CacheMut {
            memory: self.memory,
            scales: reborrowed(&mut self.scales),
            stored: self.stored,
        }
    }
}

impl CacheSlotsMut<'_> {
    /// Borrows the slots as the target of one call.
    #[inline]
    pub(crate) fn target(&mut self) -> SlotsTarget<'_> {
        SlotsTarget {
            len: self.memory.len() / self.stored.size(),
            memory: self.memory,
            scales: reborrowed(&mut self.scales),
            stored: self.stored,
            slots: &self.slots,
            range: SlotRange::WHOLE,
            numbers: None,
        }
    }
}

impl CacheHeads<'_> {
    /// Returns the kernels of the element, unless heads are codes.
    pub(crate) fn element(&self) -> Option<&'static OutOfPlaceKernels> {
        match self {
            CacheHeads::Lines(_, element) => Some(element),
            CacheHeads::Kept(kept) => kept.element(),
        }
    }
}

impl<'t> SlotsTarget<'t> {
    /// Checks that heads of this shape fit the cache, and that each token has a slot or is skipped.
    pub(crate) fn check(&self, shape: Shape) -> Result<(), Error> {
        self.stored.check_written(shape, self.slots, self.len)
    }

    /// Borrows the cache for reading.
    pub(crate) fn as_cache(&self) -> Cache<'_> {
        Cache {
            memory: self.memory,
            scales: self.scales.each_ref().map(|list| &**list),
            stored: *self.stored,
        }
    }

    /// Borrows the slots for a shorter time.
    pub(crate) fn reborrow(&mut self) -> SlotsTarget<'_> {
        SlotsTarget {
            memory: self.memory,
            scales: reborrowed(&mut self.scales),
            numbers: self.numbers.as_deref_mut(),
            ..*self
        }
    }

    /// Returns true if tokens share slots. Refuses those that share one and have different rows, for a rotation in
    /// place of heads of this shape.
    pub(crate) fn repeats(
        &self,
        shape: Shape,
        is_same: &dyn Fn(usize, usize) -> bool,
    ) -> Result<bool, Error> {
        if shape.is_empty() || self.slots.is_range() {
            return Ok(false);
        }
        self.in_slots(shape.tokens).repeats(is_same)
    }

    /// Returns the heads, for reading.
    pub(crate) fn heads(&self) -> CacheHeads<'_> {
        let scales = self.scales.each_ref().map(|list| &**list);
        self.stored.heads(self.memory, scales)
    }

    /// Returns the heads, for writing.
    pub(crate) fn heads_mut(&mut self) -> CacheHeadsMut<'_, 't> {
        match self.stored.lines() {
            Some(element) => CacheHeadsMut::Lines(self.memory, element),
            None => CacheHeadsMut::Kept(self),
        }
    }

    /// Returns the memory.
    pub(crate) fn memory_mut(&mut self) -> &mut [u8] {
        self.memory
    }

    /// Returns the addresses of the tokens of a tensor.
    #[inline]
    pub(crate) fn in_slots(&self, tokens: usize) -> SlotAddresses<'t> {
        SlotAddresses {
            memory: self.range,
            ..self.stored.in_slots(self.slots, self.len, tokens)
        }
    }

    /// Scatters channels of a head from channel `first` on.
    pub(crate) fn scatter(&mut self, at: TokenAddress, head: usize, first: usize, channels: &[u8]) {
        let (layout, size) = (&self.stored.layout, self.stored.size());
        let memory = &mut self.memory[(at.element + head * layout.strides.head) * size..];
        layout.scatter(channels, size, first, memory);
    }

    /// Writes channels of heads that are not lines, from f32, all of them if heads are codes. `side` has room for one
    /// head, scattered from there.
    pub(crate) fn write(
        &mut self,
        proof: Proof,
        at: TokenAddress,
        first_head: usize,
        channels: Range<usize>,
        values: &[f32],
        side: &mut [u8],
    ) {
        let head_dim = self.stored.head_dim();
        match self.stored.format {
            Format::Element(element, _) => {
                for (index, values) in values.chunks(channels.len()).enumerate() {
                    let bytes = &mut side[..values.len() * element.size];
                    (element.from_f32)(proof, values, bytes);
                    self.scatter(at, first_head + index, channels.start, bytes);
                }
            }
            Format::Codes(codes) => {
                let heads = [first_head, values.len() / head_dim];
                self.write_codes(proof, codes, at, heads, Values::F32(values), side);
            }
        }
    }

    /// Returns scratch for one head if channels are not contiguous; [`SlotsTarget::write_codes`] scatters it.
    pub(crate) fn side<'s>(&self, room: &'s mut Option<[u8; MOST_CHANNELS]>) -> &'s mut [u8] {
        if self.stored.layout.contiguous() {
            &mut []
        } else {
            room.insert([0; MOST_CHANNELS])
        }
    }

    /// Encodes values as consecutive heads: the index of the first head, and their number. The heads are in one slot,
    /// or continue in the slots after it ([`Stored::joins_tokens`]).
    pub(crate) fn write_codes(
        &mut self,
        proof: Proof,
        codes: Codes<'_>,
        at: TokenAddress,
        [first_head, heads]: [usize; 2],
        values: Values<'_>,
        side: &mut [u8],
    ) {
        let head_dim = match &self.numbers {
            Some(numbers) => numbers.head_dim,
            None => self.stored.head_dim(),
        };
        let mut together = self.stored.run(heads, false);
        if let Codes::Groups(kernels, rule, _) = &codes {
            // A head has at least one group.
            let bytes = kernels.scales(head_dim) * rule.bytes();
            if together * bytes > SCALES {
                together = SCALES / bytes;
            }
        }
        if let Codes::Asymmetric(groups, _) = &codes {
            together = together
                .min(MOST_GROUPS / (head_dim / groups.channels))
                .max(1);
        }
        let mut next = 0;
        while next < heads {
            let first = next;
            next += together;
            let (head, count) = (first_head + first, together.min(heads - first));
            let values = values.part(first * head_dim..(first + count) * head_dim);
            let (code, scale) = match &codes {
                Codes::Scaled(code, scale) => (code, scale),
                Codes::Channels(format, tokens) => {
                    let Some(numbers) = self.numbers.as_deref_mut() else {
                        unreachable!("a call writes these codes group by group");
                    };
                    let heads = &mut GroupHeads {
                        memory: &mut self.memory[at.element..],
                        ..self.stored.group_heads(head_dim, *tokens)
                    };
                    (format.write_token)(
                        format.kernels,
                        numbers,
                        proof,
                        heads,
                        [head, count],
                        values,
                    );
                    continue;
                }
                Codes::Blocks(format) => {
                    self.put(at, [head, count], side, |codes| {
                        (format.encode)(proof, values, codes);
                    });
                    continue;
                }
                Codes::Groups(kernels, rule, place) => {
                    let mut made = [0; SCALES];
                    let scales = &mut made[..kernels.scales(count * head_dim) * rule.bytes()];
                    self.put(at, [head, count], side, |codes| {
                        let groups = &mut GroupEncoding {
                            values,
                            rule: *rule,
                            codes,
                            scales,
                        };
                        kernels.encode(proof, groups);
                    });
                    self.keep_scales(*place, at, head, scales);
                    continue;
                }
                Codes::Asymmetric(groups, place) => {
                    let mut made = [0; MOST_GROUPS * NUMBERS];
                    let numbers = &mut made[..count * head_dim / groups.channels * NUMBERS];
                    self.put(at, [head, count], side, |codes| {
                        groups.encode(proof, values, codes, numbers);
                    });
                    match self.stored.is_pair {
                        true => self.keep_pairs(*place, at, head, numbers),
                        false => self.keep_scales(*place, at, head, numbers),
                    }
                    continue;
                }
            };
            // Uninitialized unless scales are computed.
            let mut made;
            let factors = match scale {
                QuantScale::Divide(scales) => ScaleFactors::Divide(scales.of_heads(head, count)),
                QuantScale::Reciprocal(scales) => {
                    ScaleFactors::Reciprocal(scales.of_heads(head, count))
                }
                QuantScale::Multiply(scales) => {
                    ScaleFactors::Multiply(scales.of_heads(head, count))
                }
                QuantScale::Computed { least, at: place } => {
                    made = [0.0; MOST_HEADS];
                    let scales = &mut made[..count];
                    let making = &mut ScaleRequest {
                        values,
                        largest: code.largest,
                        least: *least,
                        scales,
                    };
                    (code.make_scales)(proof, making);
                    self.keep_scales(*place, at, head, bytemuck::cast_slice(&made[..count]));
                    ScaleFactors::Reciprocal(&made[..count])
                }
            };
            self.put(at, [head, count], side, |codes| {
                let encoding = &mut Encoding {
                    values,
                    factors,
                    codes,
                };
                (code.encode)(proof, encoding);
            });
        }
    }

    /// Stores the scales computed for consecutive heads.
    #[inline]
    fn keep_scales(&mut self, place: ScalePlace, at: TokenAddress, head: usize, scales: &[u8]) {
        let [start, len] = self.stored.scales_of(place, at, head);
        let (memory, step) = match place {
            ScalePlace::Inline(_) => (&mut *self.memory, self.stored.layout.strides.head),
            ScalePlace::InBlock { strides, .. } => (&mut *self.memory, strides.head),
            ScalePlace::Separate(place) => (&mut *self.scales[0], place.head * self.stored.unit()),
        };
        if step == len {
            memory[start..][..scales.len()].copy_from_slice(scales);
            return;
        }
        for (index, scales) in scales.chunks_exact(len).enumerate() {
            memory[start + index * step..][..len].copy_from_slice(scales);
        }
    }

    /// Stores the scales computed for consecutive heads, and their zero points in a list of their own.
    fn keep_pairs(&mut self, place: ScalePlace, at: TokenAddress, first: usize, pairs: &[u8]) {
        for (index, pairs) in pairs
            .chunks_exact(2 * self.stored.scale_bytes())
            .enumerate()
        {
            let [start, len] = self.stored.scales_of(place, at, first + index);
            let [scales, zeros] = &mut self.scales;
            let scales = scales[start..][..len].as_chunks_mut::<4>().0.iter_mut();
            let zeros = zeros[start..][..len].as_chunks_mut::<4>().0;
            let pairs = pairs.as_chunks::<4>().0.as_chunks::<2>().0;
            for ((scale, zero), pair) in scales.zip(zeros).zip(pairs) {
                [*scale, *zero] = *pair;
            }
        }
    }

    /// Writes consecutive heads of a slot: the index of the first head, and their number. `write` fills their bytes in
    /// channel order. If the layout separates channels, they are scattered from `side`.
    #[inline(always)]
    fn put(
        &mut self,
        at: TokenAddress,
        [head, count]: [usize; 2],
        side: &mut [u8],
        write: impl FnOnce(&mut [u8]),
    ) {
        let (layout, size) = (&self.stored.layout, self.stored.size());
        let memory = &mut self.memory[(at.element + head * layout.strides.head) * size..];
        let len = count * size * layout.shape.head_dim;
        if layout.contiguous() {
            write(&mut memory[..len]);
        } else {
            write(&mut side[..len]);
            layout.scatter(&side[..len], size, 0, memory);
        }
    }
}

impl<'a> Stored<'a> {
    /// Checks a layout for a format; and its separate scales, by their lengths.
    fn new(
        layout: CacheLayout,
        format: CacheFormat<'a>,
        memory: &[u8],
        given: GivenScales,
    ) -> Result<Self, Error> {
        format.check(layout.shape.heads)?;
        let needed = layout.bytes(format)?;
        let mut is_pair = false;
        if let Some(computed) = format.computed_scales()
            && let ScalePlace::Separate(place) = computed.at
        {
            is_pair = given.is_pair;
            given.check(computed, &layout, place)?;
        }
        if needed > memory.len() {
            let given = memory.len();
            return Err(Error::Cache(CacheError::Memory { needed, given }));
        }
        if let Format::Element(element, _) = format.0
            && !memory.as_ptr().addr().is_multiple_of(element.size)
        {
            return Err(Error::Cache(CacheError::Layout {
                required: "in memory that is aligned to its elements",
            }));
        }
        let stored = Stored {
            layout: layout.stored(&format)?,
            format: format.0,
            is_pair,
        };
        stored.check_scales_apart()?;
        Ok(stored)
    }

    /// Returns the element kernels if heads are lines of elements.
    fn lines(&self) -> Option<&'static OutOfPlaceKernels> {
        match self.format {
            Format::Element(element, _) if self.layout.contiguous() => Some(element),
            _ => None,
        }
    }

    fn heads<'h>(&'h self, memory: &'h [u8], scales: [&'h [u8]; 2]) -> CacheHeads<'h> {
        match self.lines() {
            Some(element) => CacheHeads::Lines(memory, element),
            None => CacheHeads::Kept(Kept {
                memory,
                scales,
                stored: self,
            }),
        }
    }

    /// Returns the size of an element in bytes.
    pub(crate) fn size(&self) -> usize {
        match self.format {
            Format::Element(element, _) => element.size,
            Format::Codes(_) => 1,
        }
    }

    /// Returns the bytes of whole elements in a memory of `len` bytes: kernels take no part of one.
    fn whole(&self, len: usize) -> usize {
        len - len % self.size()
    }

    /// Returns head_dim in values.
    pub(crate) fn head_dim(&self) -> usize {
        match self.format {
            Format::Codes(Codes::Blocks(BlockFormat { values, bytes, .. })) => {
                self.layout.shape.head_dim / bytes * values
            }
            Format::Codes(Codes::Groups(kernels, ..)) => {
                self.layout.shape.head_dim * kernels.per_byte
            }
            Format::Codes(Codes::Channels(format, tokens)) => {
                (format.kernels).channels(tokens, self.layout.shape.head_dim)
            }
            Format::Codes(Codes::Asymmetric(groups, _)) => {
                self.layout.shape.head_dim * groups.per_byte()
            }
            _ => self.layout.shape.head_dim,
        }
    }

    /// Returns the shape of `tokens` slots.
    pub(crate) fn shape(&self, tokens: usize) -> Shape {
        Shape {
            batch: 1,
            tokens,
            heads: self.layout.shape.heads,
            head_dim: self.head_dim(),
        }
    }

    /// Returns the scales that a call computes.
    fn computed(&self) -> Option<ComputedScales> {
        let computed = CacheFormat(self.format).computed_scales()?;
        Some(match self.is_pair {
            true => computed.of_one_list(),
            false => computed,
        })
    }

    /// Returns the place of the scales that a call computes.
    fn computed_scales(&self) -> Option<ScalePlace> {
        Some(CacheFormat(self.format).computed_scales()?.at)
    }

    /// Returns the bytes of the scales of a head, in one list; 0 if none is computed.
    fn scale_bytes(&self) -> usize {
        let scales = self.computed();
        scales.map_or(0, |scales| scales.bytes(self.head_dim()))
    }

    /// Returns the bytes of a scale; 0 if none is computed.
    fn unit(&self) -> usize {
        let scales = CacheFormat(self.format).computed_scales();
        scales.map_or(0, |scales| scales.unit)
    }

    /// Returns the first byte of the scales of a head, in the memory of their place, and their number of bytes.
    fn scales_of(&self, place: ScalePlace, at: TokenAddress, head: usize) -> [usize; 2] {
        let start = match place {
            ScalePlace::Inline(behind) => at.element + head * self.layout.strides.head + behind,
            ScalePlace::InBlock { strides, .. } => at.scale + head * strides.head,
            ScalePlace::Separate(place) => (at.scale + head * place.head) * self.unit(),
        };
        [start, self.scale_bytes()]
    }

    /// Returns the layout of scales that slots address, and the index of the first; of scales in blocks in bytes.
    fn scales(&self) -> Option<(usize, ScaleLayout)> {
        match self.computed_scales() {
            Some(ScalePlace::Separate(scales)) => Some((0, scales)),
            Some(ScalePlace::InBlock { first, strides }) => Some((first, strides)),
            // The place of a slot in its block.
            _ if self.channels().is_some() => Some((
                0,
                ScaleLayout {
                    block: 0,
                    token: 1,
                    head: 0,
                },
            )),
            _ => None,
        }
    }

    /// Returns the layout of separate scales.
    fn separate_scales(&self) -> Option<ScaleLayout> {
        match self.computed_scales() {
            Some(ScalePlace::Separate(scales)) => Some(scales),
            _ => None,
        }
    }

    /// Returns the addresses of the tokens of a tensor in a cache of `len` elements.
    fn in_slots<'s>(&self, slots: &'s Slots<'s>, len: usize, tokens: usize) -> SlotAddresses<'s> {
        SlotAddresses {
            slots,
            layout: self.layout,
            scales: self.scales(),
            len,
            tokens,
            first: 0,
            memory: SlotRange::WHOLE,
        }
    }

    /// Returns the number of heads, at most `heads`, that one call reads or writes.
    fn run(&self, heads: usize, reading: bool) -> usize {
        if self.beside() && (!reading || self.alike() || self.channels().is_some()) {
            heads.clamp(1, MOST_HEADS)
        } else {
            1
        }
    }

    /// Returns true if the heads of a token are contiguous.
    fn beside(&self) -> bool {
        self.layout.contiguous() && self.layout.strides.head == self.layout.shape.head_dim
    }

    /// Returns true if the encoding of a head does not depend on its index.
    fn alike(&self) -> bool {
        match self.format {
            Format::Element(..) | Format::Codes(Codes::Blocks(_)) => true,
            Format::Codes(Codes::Scaled(_, scale)) => scale.is_same(),
            Format::Codes(Codes::Groups(..) | Codes::Asymmetric(..) | Codes::Channels(..)) => false,
        }
    }

    /// Returns true if one call can write contiguous heads of several tokens.
    pub(crate) fn joins_tokens(&self) -> bool {
        self.beside() && self.alike()
    }

    /// Checks that the heads of a tensor fit the cache, and that each token has a slot or is skipped.
    pub(crate) fn check(&self, shape: Shape, slots: &Slots<'_>, len: usize) -> Result<(), Error> {
        let (heads, head_dim) = (self.layout.shape.heads, self.head_dim());
        if (shape.heads, shape.head_dim) != (heads, head_dim) {
            return Err(Error::Cache(CacheError::Heads {
                heads: shape.heads,
                head_dim: shape.head_dim,
                cache_heads: heads,
                cache_head_dim: head_dim,
            }));
        }
        slots.check_visits(shape, &self.layout)?;
        // An offset must leave room for the scale after the codes.
        let wider;
        let layout = match self.computed_scales() {
            Some(ScalePlace::Inline(behind)) => {
                wider = self
                    .layout
                    .widened(behind.saturating_add(self.scale_bytes()))?;
                &wider
            }
            _ => &self.layout,
        };
        let by_slot = (self.scales().is_some())
            .then_some("addressed by slots, not by Slots::offsets, because its scales lie apart");
        slots.check(shape, layout, len, by_slot)
    }

    /// Checks likewise, for a call that writes the slots.
    fn check_written(&self, shape: Shape, slots: &Slots<'_>, len: usize) -> Result<(), Error> {
        self.check(shape, slots, len)?;
        match self.channels() {
            Some((format, tokens)) if !shape.is_empty() => {
                let count = shape.batch.saturating_mul(shape.tokens);
                let found = self.in_slots(slots, len, shape.tokens);
                (format.check)([tokens, count, shape.tokens], &found)
            }
            _ => Ok(()),
        }
    }
}

debug!(Cache<'_>, |cache| layout: cache.stored.layout);

debug!(CacheMut<'_>, |cache| layout: cache.stored.layout);

debug!(CacheSlotsMut<'_>, |slots| layout: slots.stored.layout, slots: slots.slots);
