//! KV caches as the destination or the source of a call: tokens lie in slots, and heads may be quantized.
//!
//! A [`CacheLayout`] describes where the channels of a slot lie. [`Slots`] maps tokens to slots. A [`CacheMut`] adds
//! the caller's memory and the storage format of a head: an element type, an 8-bit format with scales, or ggml blocks.
//!
//! ```
//! use rope_core::cache::{CacheLayout, CacheMut, QuantFormat, QuantScale};
//! use rope_core::{Pairing, Rope, Rows, Tensor};
//!
//! // 4 pages of 16 slots, 2 heads of 64 channels in FP8 (E4M3), one scale for all.
//! let layout = CacheLayout::nhd([4, 16, 2, 64])?;
//! let scale = QuantScale::Divide(0.5.into());
//! let mut memory = [0_u8; 4 * 16 * 2 * 64];
//! let mut keys =
//!     CacheMut::quantized(&mut memory, layout, QuantFormat::E4m3, scale, &mut [])?;
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

#[cfg(feature = "rayon")]
mod cut;
mod layout;
mod moves;
mod quant;
mod repeats;
mod seen;
mod slots;

use core::ops::Range;

pub use crate::kernel::quantize::BlockFormat;
pub use layout::{CacheFormat, CacheLayout, CacheShape, CacheStrides};
pub use quant::{HeadScales, QuantFormat, QuantScale, ScaleLayout, ScalePlace};
pub use slots::{IntoSlots, Slots};

use crate::base::debug::debug;
use crate::base::limits::{MOST_CHANNELS, MOST_HEADS};
use crate::describe::address::TokenAddress;
use crate::error::CacheError;
use crate::kernel::element::Element;
use crate::kernel::elements::{InPlaceKernels, OutOfPlaceKernels};
use crate::kernel::quantize::{self, Encoding, ScaleFactors, ScaleRequest};
use crate::kernel::values::Values;
use crate::proof::Proof;
use crate::{Error, Shape};

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
    scales: &'a [f32],
    stored: Stored<'a>,
}

/// The keys, or the values, of one layer in a cache, for writing.
///
/// ```
/// use rope_core::cache::{CacheLayout, CacheMut};
/// use rope_core::{Frequencies, Pairing, Rope, Scaling};
///
/// // A context shift: the keys in the slots 4 to 6 move three positions back.
/// let frequencies = Frequencies::new(64, 10_000.0, &Scaling::Default)?;
/// let mut memory = [1.0_f32; 16 * 2 * 64];
/// let mut keys = CacheMut::new(&mut memory, CacheLayout::nhd([1, 16, 2, 64])?)?;
/// Rope::new(Pairing::Half).rotate(&mut keys.slots(4..7), &frequencies.shift(&[-3; 3])?)?;
/// # Ok::<(), rope_core::Error>(())
/// ```
#[doc(alias = "kv_cache")]
pub struct CacheMut<'a> {
    memory: &'a mut [u8],
    scales: &'a mut [f32],
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
    scales: &'c mut [f32],
    stored: &'c Stored<'c>,
    slots: Slots<'c>,
}

/// The slots of a cache that a call writes.
pub(crate) struct SlotsTarget<'t> {
    memory: &'t mut [u8],
    scales: &'t mut [f32],
    pub(crate) stored: &'t Stored<'t>,
    pub(crate) slots: &'t Slots<'t>,
    /// Length of the whole cache, in elements or bytes.
    len: usize,
    /// The slots in `memory`.
    range: SlotRange,
}

/// The storage of heads in a cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stored<'a> {
    pub(crate) layout: CacheLayout,
    pub(crate) format: Format<'a>,
}

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
    scales: &'h [f32],
    stored: &'h Stored<'h>,
}

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
                let stored = Stored::elements::<E>(layout, size_of_val(memory))?;
                Ok($cache {
                    memory: $cast(memory),
                    scales: &$($mutable)? [],
                    stored,
                })
            }

            /// Creates a cache of 8-bit codes; strides count bytes. `scales` holds the separate scales, and is empty
            /// otherwise.
            ///
            /// # Errors
            ///
            /// [`CacheError::Memory`] if the layout, with its inline scales, reaches past the slice;
            /// [`Error::Storage`] if `scales` is shorter than the layout requires; [`CacheError::Overlap`] if two heads
            /// could have one separate scale; [`CacheError::ScaleAmongCodes`] and [`CacheError::ScaleRoom`] if an
            /// inline scale overlaps codes, [`CacheError::ChannelsApart`] if channels of its head are not contiguous;
            /// [`CacheError::TooLarge`] if the index of a scale does not fit `usize`; [`Error::Parameter`],
            /// [`Error::ListEntry`] and [`Error::Count`] if given scales are not finite and above zero, or if their
            /// number differs from the heads.
            #[doc(alias = "coded")]
            #[inline(always)]
            pub fn quantized(
                memory: &'a $($mutable)? [u8],
                layout: CacheLayout,
                code: QuantFormat,
                scale: QuantScale<'a>,
                scales: &'a $($mutable)? [f32],
            ) -> Result<Self, Error> {
                let kernels = code.kernels();
                let stored = Stored::quantized(layout, kernels, scale, memory.len(), scales.len())?;
                Ok($cache {
                    memory,
                    scales,
                    stored,
                })
            }

            /// Creates a cache of ggml blocks: 32 contiguous channels are one block of [`BlockFormat::bytes`]. The
            /// layout counts values; the cache converts it to bytes.
            ///
            /// # Errors
            ///
            /// [`CacheError::Memory`] if the layout reaches past the slice; [`CacheError::ChannelsApart`] if the
            /// channels of a head are not contiguous; [`CacheError::PartOfBlock`] unless head_dim, all strides and the
            /// first channel are multiples of 32; [`CacheError::TooLarge`] if the bytes do not fit `usize`.
            #[doc(alias = "q8_0")]
            pub fn blocks(
                memory: &'a $($mutable)? [u8],
                layout: CacheLayout,
                format: &'static BlockFormat,
            ) -> Result<Self, Error> {
                let stored = Stored::blocks(layout, format, memory.len())?;
                Ok($cache {
                    memory,
                    scales: &$($mutable)? [],
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
            QuantScale::Computed {
                at: ScalePlace::Inline(behind),
                ..
            } => {
                let start = at.element + head * self.stored.layout.strides.head + behind;
                bytemuck::pod_read_unaligned(&self.memory[start..][..4])
            }
            QuantScale::Computed {
                at: ScalePlace::Separate(place),
                ..
            } => self.scales[at.scale + head * place.head],
        }
    }
}

impl CacheMut<'_> {
    /// Returns the slots to write, or to rotate in place, one per token of each sequence. The slots borrow the cache
    /// until they are dropped.
    #[doc(alias = "slot_mapping")]
    #[inline]
    pub fn slots<'c, 's: 'c>(&'c mut self, slots: impl IntoSlots<'s>) -> CacheSlotsMut<'c> {
        CacheSlotsMut {
            memory: self.memory,
            scales: self.scales,
            stored: &self.stored,
            slots: slots.into(),
        }
    }

    /// Borrows the cache for reading.
    pub fn as_cache(&self) -> Cache<'_> {
        Cache {
            memory: self.memory,
            scales: self.scales,
            stored: self.stored,
        }
    }

    /// Borrows the cache for a shorter time.
    pub fn reborrow(&mut self) -> CacheMut<'_> {
        CacheMut {
            memory: self.memory,
            scales: self.scales,
            stored: self.stored,
        }
    }
}

impl CacheSlotsMut<'_> {
    /// Checks that heads of this shape fit the cache, and that each token has a slot or is skipped.
    pub(crate) fn check(&self, shape: Shape) -> Result<(), Error> {
        let len = self.memory.len() / self.stored.size();
        self.stored.check(shape, &self.slots, len)
    }

    /// Borrows the slots as the target of one call.
    #[inline]
    pub(crate) fn target(&mut self) -> SlotsTarget<'_> {
        SlotsTarget {
            len: self.memory.len() / self.stored.size(),
            memory: self.memory,
            scales: self.scales,
            stored: self.stored,
            slots: &self.slots,
            range: SlotRange::WHOLE,
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
        self.stored.check(shape, self.slots, self.len)
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
        self.stored.heads(self.memory, self.scales)
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
        let head_dim = self.stored.head_dim();
        let together = self.stored.run(heads, false);
        let mut next = 0;
        while next < heads {
            let first = next;
            next += together;
            let (head, count) = (first_head + first, together.min(heads - first));
            let values = values.part(first * head_dim..(first + count) * head_dim);
            let (code, scale) = match &codes {
                Codes::Scaled(code, scale) => (code, scale),
                Codes::Blocks(format) => {
                    self.put(at, [head, count], side, |codes| {
                        (format.encode)(proof, values, codes);
                    });
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
                    self.keep_scales(*place, at, head, &made[..count]);
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
    fn keep_scales(&mut self, place: ScalePlace, at: TokenAddress, head: usize, scales: &[f32]) {
        let layout = &self.stored.layout;
        match place {
            ScalePlace::Inline(behind) => {
                for (index, scale) in scales.iter().enumerate() {
                    let start = at.element + (head + index) * layout.strides.head + behind;
                    self.memory[start..][..4].copy_from_slice(&scale.to_ne_bytes());
                }
            }
            ScalePlace::Separate(place) => {
                for (index, scale) in scales.iter().enumerate() {
                    self.scales[at.scale + (head + index) * place.head] = *scale;
                }
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
    fn elements<E: Element>(layout: CacheLayout, len: usize) -> Result<Self, Error> {
        inside(layout.bytes(CacheFormat::element::<E>())?, len)?;
        Ok(Stored {
            layout,
            format: Format::Element(E::OUT_OF_PLACE, E::IN_PLACE),
        })
    }

    fn quantized(
        layout: CacheLayout,
        kernels: &'static quantize::QuantKernels,
        scale: QuantScale<'a>,
        len: usize,
        scales: usize,
    ) -> Result<Self, Error> {
        let shape = layout.shape;
        scale.check(shape.heads)?;
        let mut end = layout.end();
        if let QuantScale::Computed { at, .. } = scale
            && end > layout.offset
        {
            match at {
                ScalePlace::Inline(behind) => end = layout.with_scale(behind)?.end(),
                ScalePlace::Separate(place) => {
                    let needed = layout.scales_end(place)?;
                    if scales < needed {
                        return Err(Error::Storage {
                            what: "scales",
                            given: scales,
                            needed,
                        });
                    }
                }
            }
        }
        inside(end, len)?;
        Ok(Stored {
            layout,
            format: Format::Codes(Codes::Scaled(kernels, scale)),
        })
    }

    fn blocks(
        layout: CacheLayout,
        format: &'static BlockFormat,
        len: usize,
    ) -> Result<Self, Error> {
        let layout = layout.in_blocks(format)?;
        inside(layout.end(), len)?;
        Ok(Stored {
            layout,
            format: Format::Codes(Codes::Blocks(format)),
        })
    }

    /// Returns the element kernels if heads are lines of elements.
    fn lines(&self) -> Option<&'static OutOfPlaceKernels> {
        match self.format {
            Format::Element(element, _) if self.layout.contiguous() => Some(element),
            _ => None,
        }
    }

    fn heads<'h>(&'h self, memory: &'h [u8], scales: &'h [f32]) -> CacheHeads<'h> {
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

    /// Returns head_dim in values.
    pub(crate) fn head_dim(&self) -> usize {
        match self.format {
            Format::Codes(Codes::Blocks(BlockFormat { values, bytes, .. })) => {
                self.layout.shape.head_dim / bytes * values
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

    /// Returns the place of the scales that a call computes.
    fn computed_scales(&self) -> Option<ScalePlace> {
        match self.format {
            Format::Codes(Codes::Scaled(_, QuantScale::Computed { at, .. })) => Some(at),
            _ => None,
        }
    }

    /// Returns the layout of separate scales.
    fn scales(&self) -> Option<ScaleLayout> {
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
        if self.beside() && (!reading || self.alike()) {
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
        // An offset must leave room for the scale after the codes.
        let wider;
        let layout = match self.computed_scales() {
            Some(ScalePlace::Inline(behind)) => {
                wider = self.layout.widened(behind.saturating_add(4))?;
                &wider
            }
            _ => &self.layout,
        };
        let by_slot = (self.scales().is_some())
            .then_some("addressed by slots, not by Slots::offsets, because its scales lie apart");
        slots.check(shape, layout, len, by_slot)
    }
}

/// Checks that the memory (`given` bytes) holds the layout (`needed` bytes).
fn inside(needed: usize, given: usize) -> Result<(), Error> {
    if needed > given {
        return Err(Error::Cache(CacheError::Memory { needed, given }));
    }
    Ok(())
}

debug!(Cache<'_>, |cache| layout: cache.stored.layout);

debug!(CacheMut<'_>, |cache| layout: cache.stored.layout);

debug!(CacheSlotsMut<'_>, |slots| layout: slots.stored.layout, slots: slots.slots);
