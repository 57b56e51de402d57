//! KV caches: a destination, and a source, whose tokens lie in slots.

mod code;
mod layout;
mod slots;

pub use code::{Code, CodeScale, HeadScales, ScaleLayout, ScalePlace};
pub use layout::{CacheLayout, CacheShape, CacheStrides};
pub use slots::Slots;

use core::fmt;

use crate::backend::Proof;
use crate::element::Element;
use crate::kernel::chains::{Across, InPlace};
use crate::kernel::quantise::{self, Encoding, Factors, Making};
use crate::kernel::values::Values;
use crate::walk::Located;
use crate::{Error, Shape};
pub(crate) use slots::InSlots;

/// The keys, or the values, of a layer in a cache, to read.
#[derive(Clone, Copy)]
pub struct Cache<'a> {
    memory: &'a [u8],
    scales: &'a [f32],
    stored: Stored<'a>,
}

/// The keys, or the values, of a layer in a cache, to write.
pub struct CacheMut<'a> {
    memory: &'a mut [u8],
    scales: &'a mut [f32],
    stored: Stored<'a>,
}

/// How a cache keeps its heads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stored<'a> {
    pub(crate) layout: CacheLayout,
    pub(crate) format: Format<'a>,
}

/// What a cache is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Format<'a> {
    Element(&'static Across, &'static InPlace),
    Codes(Codes<'a>),
}

/// How codes are made.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Codes<'a> {
    Scaled(Code, CodeScale<'a>),
    /// Blocks of 32 values, [`Q8_0`] bytes each.
    Q8_0,
}

/// Values and bytes of a block of ggml's Q8_0.
const Q8_0: (usize, usize) = (32, 34);

impl<'a> Cache<'a> {
    /// A cache of plain elements.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfBounds`] if the layout reaches past the slice.
    pub fn new<E: Element>(memory: &'a [E], layout: CacheLayout) -> Result<Self, Error> {
        let stored = Stored::elements::<E>(layout, memory.len())?;
        let memory = bytemuck::cast_slice(memory);
        Ok(Cache {
            memory,
            scales: &[],
            stored,
        })
    }

    /// A cache of codes of 8 bits; strides count bytes. `scales` are those that lie apart, or empty.
    ///
    /// # Errors
    ///
    /// Those of [`CacheMut::coded`].
    pub fn coded(
        memory: &'a [u8],
        layout: CacheLayout,
        code: Code,
        scale: CodeScale<'a>,
        scales: &'a [f32],
    ) -> Result<Self, Error> {
        let stored = Stored::coded(layout, code, scale, memory.len(), scales.len())?;
        Ok(Cache {
            memory,
            scales,
            stored,
        })
    }

    /// A cache of ggml's Q8_0.
    ///
    /// # Errors
    ///
    /// Those of [`CacheMut::q8_0`].
    pub fn q8_0(memory: &'a [u8], layout: CacheLayout) -> Result<Self, Error> {
        let stored = Stored::q8_0(layout, memory.len())?;
        Ok(Cache {
            memory,
            scales: &[],
            stored,
        })
    }

    /// Where the elements lie.
    pub fn layout(&self) -> &CacheLayout {
        &self.stored.layout
    }

    pub(crate) fn stored(&self) -> &Stored<'a> {
        &self.stored
    }

    /// Its memory.
    pub(crate) fn memory(&self) -> &'a [u8] {
        self.memory
    }

    /// Elements, or bytes, that there are.
    pub(crate) fn len(&self) -> usize {
        self.memory.len() / self.stored.size()
    }

    /// Reads heads of a slot, one behind the other, as f32.
    pub(crate) fn read(&self, proof: Proof, at: Located, first_head: usize, values: &mut [f32]) {
        let layout = self.stored.layout;
        let (size, head_dim) = (self.stored.size(), self.stored.head_dim());
        let together = self.stored.run(values.len() / head_dim, true);
        for (index, values) in values.chunks_mut(together * head_dim).enumerate() {
            let head = first_head + index * together;
            let start = at.element + head * layout.strides.head;
            let len = size * values.len() / head_dim * layout.shape.head_dim;
            let memory = &self.memory[start * size..];
            let scale = self.scale(at, head);
            if layout.contiguous() {
                self.stored.decode(proof, &memory[..len], scale, values);
            } else {
                let mut scratch = Scratch([0; SCRATCH]);
                layout.gather(memory, size, &mut scratch.0[..len]);
                self.stored.decode(proof, &scratch.0[..len], scale, values);
            }
        }
    }

    /// What the codes of a head are multiplied with.
    fn scale(&self, at: Located, head: usize) -> f32 {
        let Format::Codes(Codes::Scaled(_, scale)) = self.stored.format else {
            return 1.0;
        };
        match scale {
            CodeScale::Divide(scales) | CodeScale::Reciprocal(scales) => scales.of(head),
            CodeScale::Multiply(scales) => 1.0 / scales.of(head),
            CodeScale::Made {
                at: ScalePlace::Inline(behind),
                ..
            } => {
                let start = at.element + head * self.stored.layout.strides.head + behind;
                bytemuck::pod_read_unaligned(&self.memory[start..][..4])
            }
            CodeScale::Made {
                at: ScalePlace::Apart(place),
                ..
            } => self.scales[at.scale + head * place.head],
        }
    }
}

impl<'a> CacheMut<'a> {
    /// A cache of plain elements.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfBounds`] if the layout reaches past the slice.
    pub fn new<E: Element>(memory: &'a mut [E], layout: CacheLayout) -> Result<Self, Error> {
        let stored = Stored::elements::<E>(layout, memory.len())?;
        let memory = bytemuck::cast_slice_mut(memory);
        Ok(CacheMut {
            memory,
            scales: &mut [],
            stored,
        })
    }

    /// A cache of codes of 8 bits; strides count bytes. `scales` are those that lie apart, or empty.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfBounds`] if the layout, with its inline scales, reaches past the slice; [`Error::Storage`] if
    /// there are fewer scales apart than the layout has; [`Error::CacheLayout`] if an inline scale lies upon codes or
    /// its head is not made of channels side by side; [`Error::Parameter`], [`Error::ListEntry`] and [`Error::Count`]
    /// for given scales that are not finite and above zero, or not one for each head.
    pub fn coded(
        memory: &'a mut [u8],
        layout: CacheLayout,
        code: Code,
        scale: CodeScale<'a>,
        scales: &'a mut [f32],
    ) -> Result<Self, Error> {
        let stored = Stored::coded(layout, code, scale, memory.len(), scales.len())?;
        Ok(CacheMut {
            memory,
            scales,
            stored,
        })
    }

    /// A cache of ggml's Q8_0 by its reference formula (`quantize_row_q8_0_ref`): 32 values are 34 bytes, an f16 scale
    /// `d = largest |x| / 127` and 32 integers `x (1 / d)`, halves away from zero. (ggml's own SIMD paths round
    /// otherwise, each in its way.) The layout is that of the values.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfBounds`] if the layout reaches past the slice; [`Error::CacheLayout`] unless the channels of a
    /// head lie side by side and all strides are multiples of 32.
    pub fn q8_0(memory: &'a mut [u8], layout: CacheLayout) -> Result<Self, Error> {
        let stored = Stored::q8_0(layout, memory.len())?;
        Ok(CacheMut {
            memory,
            scales: &mut [],
            stored,
        })
    }

    /// Where the elements lie.
    pub fn layout(&self) -> &CacheLayout {
        &self.stored.layout
    }

    /// The same cache, to read.
    pub fn as_cache(&self) -> Cache<'_> {
        Cache {
            memory: self.memory,
            scales: self.scales,
            stored: self.stored,
        }
    }

    pub(crate) fn stored(&self) -> &Stored<'a> {
        &self.stored
    }

    /// Elements, or bytes, that there are.
    pub(crate) fn len(&self) -> usize {
        self.memory.len() / self.stored.size()
    }

    /// Its memory.
    pub(crate) fn memory_mut(&mut self) -> &mut [u8] {
        self.memory
    }

    /// Writes heads of a slot, which lie one behind the other, rounded to its elements.
    pub(crate) fn write_elements(
        &mut self,
        proof: Proof,
        element: &'static Across,
        at: Located,
        first_head: usize,
        values: &[f32],
    ) {
        let head_dim = self.stored.head_dim();
        let together = self.stored.run(values.len() / head_dim, false);
        for (index, values) in values.chunks(together * head_dim).enumerate() {
            let head = first_head + index * together;
            self.put(at, head, values.len() / head_dim, |bytes| {
                (element.from_f32)(proof, values, bytes);
            });
        }
    }

    /// Writes heads of a slot, which lie one behind the other, as its codes: which is the first, and how many.
    pub(crate) fn write_codes(
        &mut self,
        proof: Proof,
        codes: Codes<'_>,
        at: Located,
        [first_head, heads]: [usize; 2],
        values: Values<'_>,
    ) {
        let head_dim = self.stored.head_dim();
        let together = self.stored.run(heads, false);
        for first in (0..heads).step_by(together) {
            let (head, count) = (first_head + first, together.min(heads - first));
            let values = values.part(first * head_dim..(first + count) * head_dim);
            let (code, scale) = match &codes {
                Codes::Scaled(code, scale) => (code.kernels(), scale),
                Codes::Q8_0 => {
                    self.put(at, head, count, |codes| {
                        quantise::encode_q8_0(proof, values, codes);
                    });
                    continue;
                }
            };
            // Not cleared where nothing is made.
            let mut made;
            let factors = match scale {
                CodeScale::Divide(scales) => Factors::Divide(scales.of_heads(head, count)),
                CodeScale::Reciprocal(scales) => Factors::Reciprocal(scales.of_heads(head, count)),
                CodeScale::Multiply(scales) => Factors::Multiply(scales.of_heads(head, count)),
                CodeScale::Made { least, at: place } => {
                    made = [0.0; MOST_HEADS];
                    let scales = &mut made[..count];
                    let making = &mut Making {
                        values,
                        largest: code.largest,
                        least: *least,
                        scales,
                    };
                    quantise::make_scales(proof, making);
                    self.keep_scales(*place, at, head, &made[..count]);
                    Factors::Reciprocal(&made[..count])
                }
            };
            self.put(at, head, count, |codes| {
                (code.encode)(
                    proof,
                    &mut Encoding {
                        values,
                        factors,
                        codes,
                    },
                );
            });
        }
    }

    /// Keeps the scales that were made for heads from one on.
    #[inline]
    fn keep_scales(&mut self, place: ScalePlace, at: Located, head: usize, scales: &[f32]) {
        let layout = &self.stored.layout;
        match place {
            ScalePlace::Inline(behind) => {
                for (index, scale) in scales.iter().enumerate() {
                    let start = at.element + (head + index) * layout.strides.head + behind;
                    self.memory[start..][..4].copy_from_slice(&scale.to_ne_bytes());
                }
            }
            ScalePlace::Apart(place) => {
                for (index, scale) in scales.iter().enumerate() {
                    self.scales[at.scale + (head + index) * place.head] = *scale;
                }
            }
        }
    }

    /// Writes heads of a slot that lie one behind the other, by what is given their bytes as if their channels lay side
    /// by side.
    #[inline(always)]
    fn put(&mut self, at: Located, head: usize, count: usize, write: impl FnOnce(&mut [u8])) {
        let (layout, size) = (&self.stored.layout, self.stored.size());
        let memory = &mut self.memory[(at.element + head * layout.strides.head) * size..];
        let len = count * size * layout.shape.head_dim;
        if layout.contiguous() {
            write(&mut memory[..len]);
        } else {
            let mut scratch = Scratch([0; SCRATCH]);
            let bytes = &mut scratch.0[..len];
            write(bytes);
            layout.scatter(bytes, size, memory);
        }
    }
}

/// Bytes of the largest head that is gathered or scattered.
const SCRATCH: usize = 4 * MOST_CHANNELS;

/// Channels of the largest head that a cache may have.
pub(crate) const MOST_CHANNELS: usize = 2048;

/// Heads that are written in one call at most.
pub(crate) const MOST_HEADS: usize = 64;

#[repr(align(64))]
struct Scratch([u8; SCRATCH]);

impl<'a> Stored<'a> {
    fn elements<E: Element>(layout: CacheLayout, len: usize) -> Result<Self, Error> {
        inside(layout.end(), len)?;
        Ok(Stored {
            layout,
            format: Format::Element(E::ACROSS, E::IN_PLACE),
        })
    }

    fn coded(
        layout: CacheLayout,
        code: Code,
        scale: CodeScale<'a>,
        len: usize,
        scales: usize,
    ) -> Result<Self, Error> {
        let CacheShape {
            blocks,
            block_size,
            heads,
            head_dim,
        } = layout.shape;
        scale.check(heads)?;
        let mut end = layout.end();
        if let CodeScale::Made { at, .. } = scale
            && end > layout.offset
        {
            match at {
                ScalePlace::Inline(behind) => {
                    let required = "of heads with their channels side by side, and room for a scale behind them";
                    let width = behind
                        .checked_add(4)
                        .filter(|_| behind >= head_dim && layout.contiguous());
                    // With the scale as four more channels no two indices may name one element.
                    let wider = width.and_then(|width| layout.widened(width).ok());
                    end = wider.ok_or(Error::CacheLayout { required })?.end();
                }
                ScalePlace::Apart(ScaleLayout { block, token, head }) => {
                    let last = |extent: usize, stride: usize| (extent - 1).checked_mul(stride);
                    let needed = last(blocks, block)
                        .and_then(|sum| sum.checked_add(last(block_size, token)?))
                        .and_then(|sum| sum.checked_add(last(heads, head)?)?.checked_add(1))
                        .unwrap_or(usize::MAX);
                    if scales < needed {
                        return Err(Error::Storage {
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
            format: Format::Codes(Codes::Scaled(code, scale)),
        })
    }

    fn q8_0(layout: CacheLayout, len: usize) -> Result<Self, Error> {
        let layout = layout.in_blocks(Q8_0.0, Q8_0.1).ok_or(Error::CacheLayout {
            required: "of heads with their channels side by side, and strides that are multiples of 32, for Q8_0",
        })?;
        inside(layout.end(), len)?;
        Ok(Stored {
            layout,
            format: Format::Codes(Codes::Q8_0),
        })
    }

    /// Values of heads, as they are kept, with what codes are multiplied with.
    fn decode(&self, proof: Proof, bytes: &[u8], scale: f32, values: &mut [f32]) {
        match self.format {
            Format::Element(element, _) => (element.to_f32)(proof, bytes, values),
            Format::Codes(Codes::Q8_0) => quantise::decode_q8_0(proof, bytes, values),
            Format::Codes(Codes::Scaled(code, _)) => {
                (code.kernels().decode)(proof, bytes, scale, values)
            }
        }
    }

    /// Bytes of an element.
    pub(crate) fn size(&self) -> usize {
        match self.format {
            Format::Element(element, _) => element.size,
            Format::Codes(_) => 1,
        }
    }

    /// Channels of a head, as values.
    pub(crate) fn head_dim(&self) -> usize {
        match self.format {
            Format::Codes(Codes::Q8_0) => self.layout.shape.head_dim / Q8_0.1 * Q8_0.0,
            _ => self.layout.shape.head_dim,
        }
    }

    /// Whether it keeps codes, and not elements.
    pub(crate) fn is_coded(&self) -> bool {
        !matches!(self.format, Format::Element(..))
    }

    /// Where its scales lie, if they lie apart.
    fn scales(&self) -> Option<ScaleLayout> {
        match self.format {
            Format::Codes(Codes::Scaled(
                _,
                CodeScale::Made {
                    at: ScalePlace::Apart(scales),
                    ..
                },
            )) => Some(scales),
            _ => None,
        }
    }

    /// Where the tokens of a tensor lie in a cache of so many elements.
    pub(crate) fn in_slots<'s>(&self, slots: Slots<'s>, len: usize, tokens: usize) -> InSlots<'s> {
        InSlots {
            slots,
            layout: self.layout,
            scales: self.scales(),
            len,
            tokens,
        }
    }

    /// How many heads are read or written in one call, of so many.
    fn run(&self, heads: usize, reading: bool) -> usize {
        let beside =
            self.layout.contiguous() && self.layout.strides.head == self.layout.shape.head_dim;
        let alike = match self.format {
            Format::Element(..) | Format::Codes(Codes::Q8_0) => true,
            Format::Codes(Codes::Scaled(_, scale)) => !reading || scale.is_same(),
        };
        if beside && alike {
            heads.clamp(1, MOST_HEADS)
        } else {
            1
        }
    }

    /// Whether a tensor's heads fit the cache, and each of its tokens has a place there or none.
    pub(crate) fn check(&self, shape: Shape, slots: &Slots<'_>, len: usize) -> Result<(), Error> {
        let (heads, head_dim) = (self.layout.shape.heads, self.head_dim());
        if (shape.heads, shape.head_dim) != (heads, head_dim) {
            return Err(Error::CacheHeads {
                heads: shape.heads,
                head_dim: shape.head_dim,
                cache_heads: heads,
                cache_head_dim: head_dim,
            });
        }
        // An offset has to leave room for a scale behind its codes.
        let layout = match self.format {
            Format::Codes(Codes::Scaled(
                _,
                CodeScale::Made {
                    at: ScalePlace::Inline(behind),
                    ..
                },
            )) => self.layout.widened(behind.saturating_add(4)),
            _ => Ok(self.layout),
        };
        let by_slot = self.scales().is_some();
        slots.check(shape, &layout.unwrap_or(self.layout), len, by_slot)
    }
}

fn inside(needed: usize, len: usize) -> Result<(), Error> {
    if needed > len {
        return Err(Error::OutOfBounds { needed, len });
    }
    Ok(())
}

impl fmt::Debug for Cache<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache")
            .field("layout", &self.stored.layout)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for CacheMut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CacheMut")
            .field("layout", &self.stored.layout)
            .finish_non_exhaustive()
    }
}
