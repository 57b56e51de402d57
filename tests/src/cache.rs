//! Caches from the formulas of the documentation: the places of channels, the slots of tokens, and the kept values.

use rope_core::cache::{
    BlockFormat, Cache, CacheFormat, CacheLayout, CacheMut, CacheShape, CacheStrides, HeadScales,
    QuantFormat, QuantScale, ScaleLayout, ScalePlace, Slots,
};
use rope_core::{Ids, Positions};

use crate::number::{paint, values};
use crate::quantize::{self, Factor, Grouped};
use crate::{Number, Source};

/// The layout of a cache in the harness's own words and arithmetic.
#[derive(Clone, Copy, Debug)]
pub struct Paged {
    /// Blocks, slots of a block, heads and channels.
    pub shape: CacheShape,
    /// Strides, in elements.
    pub strides: CacheStrides,
    /// Index of the first element.
    pub offset: usize,
    /// The crate's layout of the same cache.
    pub layout: CacheLayout,
}

impl Paged {
    fn new(layout: CacheLayout, shape: CacheShape, strides: CacheStrides, offset: usize) -> Self {
        let paged = Paged {
            shape,
            strides,
            offset,
            layout,
        };
        assert_eq!(layout.end(), paged.end(), "{layout:?}");
        paged
    }

    /// Returns the index of the first channel of a slot's first head.
    pub fn slot(&self, slot: usize) -> usize {
        let (block, place) = (slot / self.shape.block_size, slot % self.shape.block_size);
        let group = self.strides.group;
        self.offset
            + block * self.strides.block
            + place / group * self.strides.group_stride
            + place % group * self.strides.token
    }

    /// Returns the distance from a slot's first channel to a channel of a head.
    pub fn channel(&self, head: usize, channel: usize) -> usize {
        let chunk = self.strides.chunk;
        head * self.strides.head
            + channel / chunk * self.strides.chunk_stride
            + channel % chunk * self.strides.channel
    }

    /// Returns the number of slots.
    pub fn slots(&self) -> usize {
        self.shape.blocks * self.shape.block_size
    }

    /// Returns the elements from the first to the last of a slot.
    pub fn extent(&self) -> usize {
        let CacheShape {
            heads, head_dim, ..
        } = self.shape;
        let head = |head| (0..head_dim).map(move |channel| self.channel(head, channel));
        let last = (0..heads).flat_map(head).max();
        last.map_or(0, |last| last + 1)
    }

    /// Returns the elements from the start of the memory to the last one of all slots.
    pub fn end(&self) -> usize {
        let last = (0..self.slots()).map(|slot| self.slot(slot)).max();
        last.map_or(self.offset, |last| last + self.extent())
    }

    /// Returns any layout. `unit` divides all strides; a unit above 1 places the channels side by side.
    pub fn any(
        source: &mut Source<'_>,
        blocks: usize,
        [heads, head_dim]: [usize; 2],
        unit: usize,
    ) -> Self {
        let block_size = source.one_of(&[1, 2, 3, 4, 8, 16]);
        let shape = CacheShape {
            blocks,
            block_size,
            heads,
            head_dim,
        };
        let row = CacheStrides {
            block: block_size * heads * head_dim,
            group: block_size,
            group_stride: 0,
            token: heads * head_dim,
            head: head_dim,
            chunk: head_dim,
            chunk_stride: 0,
            channel: 1,
        };
        let divisors = |n: usize| (1..=n).filter(move |x| n.is_multiple_of(*x));
        let kinds = if unit > 1 { 4 } else { 7 };
        let (layout, strides, offset) = match source.below(kinds) {
            0 => {
                let layout = CacheLayout::nhd([blocks, block_size, heads, head_dim]);
                (layout, row, 0)
            }
            1 => {
                let layout = CacheLayout::hnd([blocks, heads, block_size, head_dim]);
                let strides = CacheStrides {
                    token: head_dim,
                    head: block_size * head_dim,
                    ..row
                };
                (layout, strides, 0)
            }
            2 => {
                // Some channels of longer heads.
                let (before, after) = (unit * source.below(5), unit * source.below(5));
                let long = before + head_dim + after;
                let layout = CacheLayout::nhd([blocks, block_size, heads, long])
                    .and_then(|layout| layout.narrow_channels(before..before + head_dim));
                let strides = CacheStrides {
                    block: block_size * heads * long,
                    token: heads * long,
                    head: long,
                    ..row
                };
                (layout, strides, before)
            }
            3 => {
                let strides = strided(source, shape, unit);
                (CacheLayout::strided(shape, strides), strides, 0)
            }
            4 => {
                let layout = CacheLayout::hdn([blocks, heads, head_dim, block_size]);
                let strides = CacheStrides {
                    token: 1,
                    head: head_dim * block_size,
                    chunk: 1,
                    chunk_stride: block_size,
                    ..row
                };
                (layout, strides, 0)
            }
            5 => {
                let x = source.one_of(&divisors(head_dim).collect::<Vec<_>>());
                let layout = CacheLayout::hdnx([blocks, heads, head_dim / x, block_size, x]);
                let strides = CacheStrides {
                    token: x,
                    head: head_dim * block_size,
                    chunk: x,
                    chunk_stride: block_size * x,
                    ..row
                };
                (layout, strides, 0)
            }
            _ => {
                let x = source.one_of(&divisors(block_size).collect::<Vec<_>>());
                let layout = CacheLayout::hndx([blocks, heads, block_size / x, head_dim, x]);
                let strides = CacheStrides {
                    group: x,
                    group_stride: head_dim * x,
                    token: 1,
                    head: head_dim * block_size,
                    chunk: 1,
                    chunk_stride: x,
                    ..row
                };
                (layout, strides, 0)
            }
        };
        Paged::new(layout.expect("a small cache"), shape, strides, offset)
    }

    /// Returns a layout of heads of `long` bytes that begin with their codes.
    pub fn inline(
        source: &mut Source<'_>,
        blocks: usize,
        [heads, head_dim]: [usize; 2],
        long: usize,
    ) -> Self {
        let block_size = source.one_of(&[1, 2, 3, 8]);
        let heads_first = source.once_in(2);
        let layout = match heads_first {
            true => CacheLayout::hnd([blocks, heads, block_size, long]),
            false => CacheLayout::nhd([blocks, block_size, heads, long]),
        };
        let layout = layout.and_then(|layout| layout.narrow_channels(0..head_dim));
        let shape = CacheShape {
            blocks,
            block_size,
            heads,
            head_dim,
        };
        let strides = CacheStrides {
            block: block_size * heads * long,
            group: block_size,
            group_stride: 0,
            token: if heads_first { long } else { heads * long },
            head: if heads_first { block_size * long } else { long },
            chunk: head_dim,
            chunk_stride: 0,
            channel: 1,
        };
        Paged::new(layout.expect("a small cache"), shape, strides, 0)
    }

    /// Returns any place of scales that lie apart, `each` per head.
    fn any_place(&self, source: &mut Source<'_>, each: usize) -> ScaleLayout {
        let CacheShape {
            block_size, heads, ..
        } = self.shape;
        match source.below(3) {
            0 => ScaleLayout::nh([block_size, heads]).with_groups(each),
            1 => ScaleLayout::hn([heads, block_size]).with_groups(each),
            _ => ScaleLayout {
                block: block_size * (2 * heads + 1) * each,
                token: (2 * heads + 1) * each,
                head: 2 * each,
            },
        }
    }

    /// Returns the number of scales in that place.
    fn apart(&self, place: ScaleLayout, each: usize) -> usize {
        let CacheShape {
            blocks,
            block_size,
            heads,
            ..
        } = self.shape;
        (blocks - 1) * place.block
            + (block_size - 1) * place.token
            + (heads - 1) * place.head
            + each
    }

    /// Returns a layout of blocks that have the scales of their heads after all codes, of `each` bytes per head; the
    /// place of the scales, and the bytes of a cache.
    pub fn with_scales(
        source: &mut Source<'_>,
        blocks: usize,
        [heads, head_dim]: [usize; 2],
        each: usize,
    ) -> (Self, ScalePlace, usize) {
        let mut paged = Paged::inline(source, blocks, [heads, head_dim], head_dim);
        let block_size = paged.shape.block_size;
        let first = block_size * heads * head_dim + source.below(4);
        let region = block_size * heads * each;
        paged.strides.block = first + region + source.below(5);
        let layout = CacheLayout::strided(paged.shape, paged.strides);
        paged.layout = layout.expect("a small cache");
        let dense = match source.once_in(2) {
            true => ScaleLayout::nh([block_size, heads]),
            false => ScaleLayout::hn([heads, block_size]),
        };
        let strides = ScaleLayout {
            block: paged.strides.block,
            ..dense.with_groups(each)
        };
        let len = first + (blocks - 1) * strides.block + region + source.below(40);
        (paged, ScalePlace::InBlock { first, strides }, len)
    }

    /// Returns the layout in bytes of blocks.
    pub fn in_blocks(&self, format: &BlockFormat) -> Self {
        let bytes = |values: usize| values / format.values * format.bytes;
        let mut paged = *self;
        paged.shape.head_dim = bytes(self.shape.head_dim);
        let strides = &mut paged.strides;
        for stride in [
            &mut strides.block,
            &mut strides.group_stride,
            &mut strides.token,
            &mut strides.head,
            &mut strides.chunk,
        ] {
            *stride = bytes(*stride);
        }
        paged.offset = bytes(self.offset);
        paged
    }
}

/// Returns strides in any order and with gaps, all multiples of `unit`.
fn strided(source: &mut Source<'_>, shape: CacheShape, unit: usize) -> CacheStrides {
    let CacheShape {
        blocks,
        block_size,
        heads,
        head_dim,
    } = shape;
    let group = source.within(1, block_size);
    let chunk = if unit > 1 {
        head_dim
    } else {
        source.one_of(&[head_dim, 1, 2, 3, 16, head_dim + 5])
    };
    let extents = [
        head_dim.min(chunk),
        head_dim.div_ceil(chunk),
        heads,
        block_size.min(group),
        block_size.div_ceil(group),
        blocks,
    ];
    let mut order = [0, 1, 2, 3, 4, 5];
    // Blocks of 32 values need the channels innermost.
    let first = usize::from(unit > 1);
    for i in (first + 1..6).rev() {
        order.swap(i, first + source.below(i + 1 - first));
    }
    let (mut strides, mut span) = ([0; 6], 1);
    for dimension in order {
        let gap = if source.once_in(3) {
            unit * source.below(4)
        } else {
            0
        };
        let multiple = if dimension == 0 { 1 } else { unit };
        let gap = if dimension == 0 && unit > 1 { 0 } else { gap };
        strides[dimension] = usize::next_multiple_of(span, multiple) + gap;
        span += (extents[dimension] - 1) * strides[dimension];
    }
    let [channel, chunk_stride, head, token, group_stride, block] = strides;
    CacheStrides {
        block,
        group,
        group_stride,
        token,
        head,
        chunk,
        chunk_stride,
        channel,
    }
}

/// The place of a token: its slot or the index of its first element, or `None`.
pub type Place = Option<Found>;

/// The place of a token that has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Index of the token's first element.
    pub element: usize,
    /// Slot of the token, unless the element was given.
    pub slot: Option<usize>,
}

/// The slots of tokens, and the form in which the crate receives them.
#[derive(Clone, Debug)]
pub struct TokenAddress {
    /// The place of each token of each sequence.
    pub places: Vec<Place>,
    pub(crate) form: SlotForm,
}

#[derive(Clone, Debug)]
pub(crate) enum SlotForm {
    I32(Vec<i32>),
    I64(Vec<i64>),
    U32(Vec<u32>),
    U64(Vec<u64>),
    Usize(Vec<usize>),
    Range(i64, i64),
    Pages([Vec<i32>; 4]),
    Table(Vec<i64>, usize, Vec<i32>),
    /// A table, the offsets of packed sequences and the first position of each; the width of the table.
    Packed([Vec<i64>; 3], usize),
    Sequences(Vec<i64>),
    Offsets(Vec<i64>),
}

/// Makes some of the unused pages negative.
fn pad(source: &mut Source<'_>, table: &mut [i64], needed: &[bool]) {
    for (page, _) in table.iter_mut().zip(needed).filter(|(_, needed)| !**needed) {
        if source.once_in(2) {
            *page = -1 - source.below(9) as i64;
        }
    }
}

impl TokenAddress {
    /// Returns slots in any form; some are skipped, some come twice.
    pub fn any(
        source: &mut Source<'_>,
        paged: &Paged,
        [batch, tokens]: [usize; 2],
        (by_slot, len): (bool, usize),
    ) -> Self {
        let (count, slots) = (batch * tokens, paged.slots());
        let CacheShape {
            blocks, block_size, ..
        } = paged.shape;
        let at = |slot: usize| {
            Some(Found {
                element: paged.slot(slot),
                slot: Some(slot),
            })
        };
        let mut places = Vec::new();
        let forms = if by_slot { 10 } else { 11 };
        let form = match source.below(forms) {
            form @ 0..5 => {
                let signed = form < 2;
                let ids: Vec<i64> = (0..count)
                    .map(|_| match signed && source.once_in(5) {
                        true => -1 - source.below(1000) as i64,
                        false => source.below(slots) as i64,
                    })
                    .collect();
                places = ids
                    .iter()
                    .map(|&id| usize::try_from(id).ok().and_then(at))
                    .collect();
                let same = "slots are small";
                match form {
                    0 => SlotForm::I32(ids.iter().map(|&id| id as i32).collect()),
                    1 => SlotForm::I64(ids),
                    2 => SlotForm::U32(ids.iter().map(|&id| id as u32).collect()),
                    3 => SlotForm::U64(ids.iter().map(|&id| id as u64).collect()),
                    _ => {
                        let ids = ids.iter().map(|&id| usize::try_from(id).expect(same));
                        SlotForm::Usize(ids.collect())
                    }
                }
            }
            5 if count <= slots => {
                // The first slots may be negative.
                let skipped = source.below(3).min(count);
                let first = match source.once_in(3) {
                    true => -(skipped as i64),
                    false => source.below(slots - count + 1) as i64,
                };
                let end = first + count as i64;
                places.extend((first..end).map(|slot| usize::try_from(slot).ok().and_then(at)));
                SlotForm::Range(first, end)
            }
            6 => {
                let sequences = source.within(1, 3);
                let (mut pages, mut starts) = (Vec::new(), vec![0]);
                for _ in 0..sequences {
                    let more = source.within(1, 3);
                    pages.extend((0..more).map(|_| source.below(blocks) as i32));
                    starts.push(pages.len() as i32);
                }
                let (mut of, mut positions) = (Vec::new(), Vec::new());
                for _ in 0..count {
                    let sequence = source.below(sequences);
                    let first = starts[sequence] as usize;
                    let room = (starts[sequence + 1] as usize - first) * block_size;
                    let position = source.below(room);
                    let page = pages[first + position / block_size] as usize;
                    let skipped = source.once_in(6);
                    places.push(match skipped {
                        true => None,
                        false => at(page * block_size + position % block_size),
                    });
                    of.push(sequence as i32);
                    positions.push(if skipped { -1 } else { position as i32 });
                }
                SlotForm::Pages([pages, starts, of, positions])
            }
            7 => {
                let width = source.within(1, 3);
                let mut table: Vec<i64> = (0..batch * width)
                    .map(|_| source.below(blocks) as i64)
                    .collect();
                let positions: Vec<i32> = (0..count)
                    .map(|_| match source.once_in(8) {
                        true => -3,
                        false => source.below(width * block_size) as i32,
                    })
                    .collect();
                let mut needed = vec![false; table.len()];
                for (index, &position) in positions.iter().enumerate() {
                    let position = usize::try_from(position).ok();
                    places.push(position.and_then(|position| {
                        let page = index / tokens * width + position / block_size;
                        needed[page] = true;
                        let block = usize::try_from(table[page]).expect("a block of the cache");
                        at(block * block_size + position % block_size)
                    }));
                }
                pad(source, &mut table, &needed);
                SlotForm::Table(table, width, positions)
            }
            9 if batch == 1 => {
                let (width, sequences) = (source.within(1, 3), source.within(1, 3));
                let mut table: Vec<i64> = (0..sequences * width)
                    .map(|_| source.below(blocks) as i64)
                    .collect();
                let mut needed = vec![false; table.len()];
                let (mut offsets, mut starts) = (vec![0], Vec::new());
                for sequence in 0..sequences {
                    let left = count - places.len();
                    let room = width * block_size;
                    let more = match sequence + 1 == sequences {
                        true => left,
                        false => source.below(left.min(room) + 1),
                    };
                    // Tokens that do not fit the pages lie before the first position and are skipped.
                    let start = source.below(room + 1) as i64 - more as i64;
                    for position in start..start + more as i64 {
                        let position = usize::try_from(position).ok();
                        places.push(position.and_then(|position| {
                            let page = sequence * width + position / block_size;
                            needed[page] = true;
                            let block = usize::try_from(table[page]).expect("a block of the cache");
                            at(block * block_size + position % block_size)
                        }));
                    }
                    offsets.push(places.len() as i64);
                    starts.push(start);
                }
                pad(source, &mut table, &needed);
                SlotForm::Packed([table, offsets, starts], width)
            }
            8 if batch <= blocks => {
                let positions: Vec<i64> = (0..count)
                    .map(|_| match source.once_in(8) {
                        true => -1,
                        false => source.below(block_size) as i64,
                    })
                    .collect();
                for (index, &position) in positions.iter().enumerate() {
                    let position = usize::try_from(position).ok();
                    let first = index / tokens * block_size;
                    places.push(position.and_then(|position| at(first + position)));
                }
                SlotForm::Sequences(positions)
            }
            10 => {
                let extent = paged.extent();
                let offsets: Vec<i64> = (0..count)
                    .map(|_| match source.below(6) {
                        0 => -1,
                        1 => source.below(len - extent + 1) as i64,
                        _ => paged.slot(source.below(slots)) as i64,
                    })
                    .collect();
                places = offsets
                    .iter()
                    .map(|&offset| {
                        let element = usize::try_from(offset).ok()?;
                        Some(Found {
                            element,
                            slot: None,
                        })
                    })
                    .collect();
                SlotForm::Offsets(offsets)
            }
            _ => {
                places = (0..count).map(|_| at(source.below(slots))).collect();
                let ids = places.iter().flatten().filter_map(|place| place.slot);
                SlotForm::Usize(ids.collect())
            }
        };
        TokenAddress { places, form }
    }

    /// Returns the given slots as 64-bit integers.
    pub fn mapping(paged: &Paged, slots: &[i64]) -> Self {
        let found = |&slot: &i64| {
            let slot = usize::try_from(slot).ok()?;
            Some(Found {
                element: paged.slot(slot),
                slot: Some(slot),
            })
        };
        TokenAddress {
            places: slots.iter().map(found).collect(),
            form: SlotForm::I64(slots.to_vec()),
        }
    }

    /// Returns the slots in the crate's form.
    pub fn given(&self) -> Slots<'_> {
        match &self.form {
            SlotForm::I32(ids) => Slots::from(ids),
            SlotForm::I64(ids) => Slots::from(ids),
            SlotForm::U32(ids) => Slots::from(ids),
            SlotForm::U64(ids) => Slots::from(ids),
            SlotForm::Usize(ids) => Slots::from(ids),
            &SlotForm::Range(first, end) if first + 1 == end => Slots::from(first),
            &SlotForm::Range(first, end) if first % 2 == 1 => Slots::from(first..=end - 1),
            &SlotForm::Range(first, end) => Slots::from(first..end),
            SlotForm::Pages([pages, starts, sequences, positions]) => {
                Slots::pages(pages, starts, sequences, positions)
            }
            SlotForm::Table(table, width, positions) => {
                let lines = table.len() / width;
                Slots::table(table, [lines, *width], positions)
            }
            SlotForm::Packed([table, offsets, starts], width) => {
                let positions = Positions::packed_from(offsets, starts);
                let lines = table.len() / width;
                let positions = positions.expect("offsets that begin at 0 and never fall");
                Slots::table(table, [lines, *width], positions)
            }
            SlotForm::Sequences(positions) => Slots::sequences(Ids::from(positions)),
            SlotForm::Offsets(offsets) => Slots::offsets(offsets),
        }
    }
}

/// The scale of a code.
#[derive(Clone, Debug)]
pub enum Scaling {
    /// `x / s`, with one scale for all heads or one for each.
    Divide(Vec<f32>),
    /// `x (1 / s)`
    Reciprocal(Vec<f32>),
    /// `x m`
    Multiply(Vec<f32>),
    /// A scale made for each token and head, never below the given one.
    Made(f32, ScalePlace),
}

impl Scaling {
    /// Returns any scaling for a cache.
    pub fn any(source: &mut Source<'_>, paged: &Paged) -> Self {
        let scales = |source: &mut Source<'_>| {
            let len = source.one_of(&[1, paged.shape.heads]);
            let scale = |source: &mut Source<'_>| (4.0 * source.unit()).exp2();
            (0..len).map(|_| scale(source)).collect()
        };
        match source.below(5) {
            0 => Scaling::Divide(scales(source)),
            1 => Scaling::Reciprocal(scales(source)),
            2 => Scaling::Multiply(scales(source)),
            _ => {
                let place = paged.any_place(source, 1);
                let least = source.one_of(&[1e-6, 0.0, 0.01]);
                Scaling::Made(least, ScalePlace::Separate(place))
            }
        }
    }

    /// Returns the scaling in the crate's form.
    pub fn given(&self) -> QuantScale<'_> {
        fn heads(scales: &[f32]) -> HeadScales<'_> {
            match scales {
                [scale] => HeadScales::Same(*scale),
                _ => HeadScales::Each(scales),
            }
        }
        match self {
            Scaling::Divide(scales) => QuantScale::Divide(heads(scales)),
            Scaling::Reciprocal(scales) => QuantScale::Reciprocal(heads(scales)),
            Scaling::Multiply(scales) => QuantScale::Multiply(heads(scales)),
            &Scaling::Made(least, at) => QuantScale::Computed { least, at },
        }
    }

    /// Returns the number of scales that lie apart from the codes.
    pub fn apart(&self, paged: &Paged) -> usize {
        match self {
            Scaling::Made(_, ScalePlace::Separate(place)) => paged.apart(*place, 1),
            _ => 0,
        }
    }
}

/// A cache in plain memory with the definition's reads and writes.
pub trait Kept: Clone {
    /// True if the cache keeps codes, false if it keeps elements.
    const CODED: bool;

    /// Returns the layout of the cache.
    fn paged(&self) -> &Paged;

    /// Writes the heads of a token.
    fn write(&mut self, found: Found, heads: &[Vec<f32>]);

    /// Reads the heads of a token.
    fn read(&self, found: Found) -> Vec<Vec<f32>>;

    /// Calls a function with the crate's view of the cache for reading.
    fn with<T>(&self, f: impl FnOnce(&Cache<'_>) -> T) -> T;

    /// Calls a function with the crate's view of the cache for writing.
    fn with_mut<T>(&mut self, f: impl FnOnce(&mut CacheMut<'_>) -> T) -> T;

    /// Returns the cache as a struct of the C API, if C has it in this form.
    #[cfg(feature = "capi")]
    fn over_c(&mut self) -> Option<rope::rope_cache>;

    /// Asserts that another cache has the bits of this one.
    fn compare(&self, got: &Self, doing: &str);

    /// Returns whether slots locate scales, and the number of elements for their heads.
    fn reach(&self) -> (bool, usize);
}

/// A cache of elements.
#[derive(Clone, Debug)]
pub struct Elements<E> {
    /// Layout of the elements.
    pub paged: Paged,
    /// The memory.
    pub values: Vec<E>,
    /// True for each computed element, whose NaN may be any NaN.
    pub computed: Vec<bool>,
}

impl<E: Number> Elements<E> {
    /// Returns a cache of the given elements.
    pub fn new(paged: Paged, values: Vec<E>) -> Self {
        Elements {
            computed: vec![false; values.len()],
            paged,
            values,
        }
    }

    /// Returns any cache, with heads in it if it is to be `read`.
    pub fn any(source: &mut Source<'_>, blocks: usize, heads: [usize; 2], read: bool) -> Self {
        let paged = Paged::any(source, blocks, heads, 1);
        let len = paged.end() + source.below(40);
        let memory = if read {
            values(source, len)
        } else {
            paint(source, len)
        };
        Elements::new(paged, memory)
    }
}

impl<E: Number> Kept for Elements<E> {
    const CODED: bool = false;

    fn paged(&self) -> &Paged {
        &self.paged
    }

    fn write(&mut self, found: Found, heads: &[Vec<f32>]) {
        for (head, values) in heads.iter().enumerate() {
            for (channel, &value) in values.iter().enumerate() {
                let at = found.element + self.paged.channel(head, channel);
                self.values[at] = E::from_f32(value);
                self.computed[at] = true;
            }
        }
    }

    fn read(&self, found: Found) -> Vec<Vec<f32>> {
        let CacheShape {
            heads, head_dim, ..
        } = self.paged.shape;
        let at = |head, channel| found.element + self.paged.channel(head, channel);
        let head = |head| {
            let value = |channel| self.values[at(head, channel)].to_f32();
            (0..head_dim).map(value).collect()
        };
        (0..heads).map(head).collect()
    }

    fn with<T>(&self, f: impl FnOnce(&Cache<'_>) -> T) -> T {
        f(&Cache::new(&self.values, self.paged.layout).expect("a cache that fits"))
    }

    fn with_mut<T>(&mut self, f: impl FnOnce(&mut CacheMut<'_>) -> T) -> T {
        f(&mut CacheMut::new(&mut self.values, self.paged.layout).expect("a cache that fits"))
    }

    #[cfg(feature = "capi")]
    fn over_c(&mut self) -> Option<rope::rope_cache> {
        Some(crate::over_c::elements(&mut self.values, &self.paged))
    }

    fn compare(&self, got: &Self, doing: &str) {
        let right = |index: usize| {
            let (got, wanted) = (got.values[index], self.values[index]);
            let lax = self.computed[index] && got.is_nan() && wanted.is_nan();
            got.bits() == wanted.bits() || lax
        };
        let len = self.values.len();
        if let Some(index) = (0..len).find(|&index| !right(index)) {
            let wrong = (0..len).filter(|&index| !right(index)).count();
            panic!(
                "{doing}: element {index} of {len} is {:?}, not {:?} (computed: {}); {wrong} wrong in all",
                got.values[index], self.values[index], self.computed[index],
            );
        }
    }

    fn reach(&self) -> (bool, usize) {
        (false, self.values.len())
    }
}

/// The encoding of numbers as codes.
#[derive(Clone, Debug)]
pub enum Encoding {
    /// An 8-bit code and its scale.
    Scaled(QuantFormat, Scaling),
    /// Blocks of 32 to 128 codes with a scale each.
    Blocks(&'static BlockFormat),
    /// Codes with a scale for a group of channels, and the place of the scales in the memory.
    Groups(Grouped, ScalePlace),
}

/// A cache of codes, in plain memory.
#[derive(Clone, Debug)]
pub struct Coded {
    /// Layout of the codes; of the bytes of blocks, if the codes are kept in blocks.
    pub paged: Paged,
    /// Encoding of the codes.
    pub encoding: Encoding,
    /// The memory.
    pub bytes: Vec<u8>,
    /// True for each byte of a computed code, whose NaN may be any NaN.
    pub computed: Vec<bool>,
    /// Scales that lie apart from the codes.
    pub scales: Vec<f32>,
    /// Zero points of groups whose scales lie apart, in a list of their own; without any, each follows its scale.
    pub zeros: Vec<f32>,
}

fn of(scales: &[f32], head: usize) -> f32 {
    match scales {
        [scale] => *scale,
        _ => scales[head],
    }
}

impl Coded {
    /// Returns a cache of the given bytes and scales.
    pub fn new(paged: Paged, encoding: Encoding, bytes: Vec<u8>, scales: Vec<f32>) -> Self {
        Coded {
            computed: vec![false; bytes.len()],
            paged,
            encoding,
            bytes,
            scales,
            zeros: Vec::new(),
        }
    }

    /// Returns a cache of codes in groups, with scales after the codes of a head or of a block, or apart from them.
    fn in_groups(
        source: &mut Source<'_>,
        blocks: usize,
        [heads, head_dim]: [usize; 2],
        format: Grouped,
    ) -> Self {
        let per_byte = format.per_byte();
        let codes = head_dim / per_byte;
        let scales = head_dim / format.values() * format.unit();
        // Numbers of a head in each list that lies apart; 0 where they lie in the memory.
        let (mut apart, mut in_two) = (0, false);
        let (mut paged, place, len) = if format.unit() >= 4 && source.once_in(2) {
            in_two = format.unit() == 8 && source.once_in(2);
            apart = scales / 4 / if in_two { 2 } else { 1 };
            let long = codes + source.below(4);
            let paged = Paged::inline(source, blocks, [heads, codes], long);
            let len = paged.end() + source.below(40);
            let place = paged.any_place(source, apart);
            (paged, ScalePlace::Separate(place), len)
        } else if source.once_in(2) {
            let behind = codes + source.below(4);
            let paged = Paged::inline(source, blocks, [heads, codes], behind + scales);
            let len = paged.end() + behind + scales - codes + source.below(40);
            (paged, ScalePlace::Inline(behind), len)
        } else {
            Paged::with_scales(source, blocks, [heads, codes], scales)
        };
        // The crate's layout counts channels.
        let (mut shape, mut strides) = (paged.shape, paged.strides);
        shape.head_dim = head_dim;
        strides.chunk = head_dim;
        for stride in [&mut strides.block, &mut strides.token, &mut strides.head] {
            *stride *= per_byte;
        }
        paged.layout = CacheLayout::strided(shape, strides).expect("a small cache");
        let bytes = bytes(source, len);
        let mut list = |there: bool| -> Vec<f32> {
            let (true, ScalePlace::Separate(place)) = (there, place) else {
                return Vec::new();
            };
            let len = paged.apart(place, apart) + source.below(5);
            (0..len).map(|_| 4.0 * source.unit()).collect()
        };
        let (scales, zeros) = (list(apart > 0), list(in_two));
        let cache = Coded::new(paged, Encoding::Groups(format, place), bytes, scales);
        Coded { zeros, ..cache }
    }

    /// Returns the places of the numbers of a head that lie apart: true for one in the list of zero points.
    pub fn apart_at(&self, found: Found, head: usize) -> Vec<(bool, usize)> {
        let (place, count) = match &self.encoding {
            Encoding::Scaled(_, Scaling::Made(_, ScalePlace::Separate(place))) => (*place, 1),
            Encoding::Groups(format, ScalePlace::Separate(place)) => {
                let channels = self.paged.shape.head_dim * format.per_byte();
                (*place, channels / format.values() * format.unit() / 4)
            }
            _ => return Vec::new(),
        };
        let first = self.scale_place(found, place, head);
        let at = |number| match self.zeros.is_empty() {
            true => (false, first + number),
            false => (number % 2 == 1, first + number / 2),
        };
        (0..count).map(at).collect()
    }

    /// Returns a number that lies apart.
    pub fn number(&mut self, (is_zero, at): (bool, usize)) -> &mut f32 {
        let list = if is_zero {
            &mut self.zeros
        } else {
            &mut self.scales
        };
        &mut list[at]
    }

    /// Returns the first byte of the scales of a head that are in the memory, and their number, if there are any.
    pub fn scales_at(&self, found: Found, head: usize) -> Option<[usize; 2]> {
        let (place, len) = match &self.encoding {
            Encoding::Scaled(_, Scaling::Made(_, place)) => (*place, 4),
            Encoding::Groups(format, place) => {
                let codes = self.paged.shape.head_dim;
                let channels = codes * format.per_byte();
                (*place, channels / format.values() * format.unit())
            }
            _ => return None,
        };
        let at = match place {
            ScalePlace::Inline(behind) => found.element + self.paged.channel(head, 0) + behind,
            ScalePlace::InBlock { first, strides } => {
                first + self.scale_place(found, strides, head)
            }
            _ => return None,
        };
        Some([at, len])
    }

    fn scale_place(&self, found: Found, place: ScaleLayout, head: usize) -> usize {
        let slot = found.slot.expect("scales that lie apart are found by slot");
        let size = self.paged.shape.block_size;
        slot / size * place.block + slot % size * place.token + head * place.head
    }

    /// Returns any cache, with codes in it if it is to be `read`. Heads of whole blocks of channels may use block
    /// formats.
    pub fn any(source: &mut Source<'_>, blocks: usize, [heads, head_dim]: [usize; 2]) -> Self {
        if head_dim.is_multiple_of(32) && source.once_in(3) {
            let fit = quantize::BLOCKS.iter().copied();
            let fit: Vec<_> = fit
                .filter(|format| head_dim.is_multiple_of(format.values))
                .collect();
            let format = source.one_of(&fit);
            let unit = format.values;
            let paged = Paged::any(source, blocks, [heads, head_dim], unit).in_blocks(format);
            let len = paged.end() + source.below(40);
            let bytes = bytes(source, len);
            return Coded::new(paged, Encoding::Blocks(format), bytes, Vec::new());
        }
        if source.once_in(3)
            && let Some(format) = Grouped::any(source, head_dim)
        {
            return Coded::in_groups(source, blocks, [heads, head_dim], format);
        }
        let code = source.one_of(&QuantFormat::ALL);
        if source.once_in(4) {
            // The scale behind the codes of its head.
            let (least, behind) = (1e-6, head_dim + source.below(4));
            let paged = Paged::inline(source, blocks, [heads, head_dim], behind + 4);
            let scaling = Scaling::Made(least, ScalePlace::Inline(behind));
            let len = paged.end() + behind + 4 - head_dim + source.below(40);
            let bytes = bytes(source, len);
            return Coded::new(paged, Encoding::Scaled(code, scaling), bytes, Vec::new());
        }
        if source.once_in(4) {
            let (paged, place, len) = Paged::with_scales(source, blocks, [heads, head_dim], 4);
            let bytes = bytes(source, len);
            let scaling = Scaling::Made(source.one_of(&[1e-6, 0.01]), place);
            return Coded::new(paged, Encoding::Scaled(code, scaling), bytes, Vec::new());
        }
        let paged = Paged::any(source, blocks, [heads, head_dim], 1);
        let scaling = Scaling::any(source, &paged);
        let len = paged.end() + source.below(40);
        let bytes = bytes(source, len);
        let scales = scaling.apart(&paged);
        let scales = (0..scales + source.below(5))
            .map(|_| source.unit())
            .collect();
        Coded::new(paged, Encoding::Scaled(code, scaling), bytes, scales)
    }
}

fn bytes(source: &mut Source<'_>, len: usize) -> Vec<u8> {
    (0..len).map(|_| source.word() as u8).collect()
}

impl Kept for Coded {
    const CODED: bool = true;

    fn paged(&self) -> &Paged {
        &self.paged
    }

    fn write(&mut self, found: Found, heads: &[Vec<f32>]) {
        for (head, values) in heads.iter().enumerate() {
            let codes: Vec<u8> = match &self.encoding {
                Encoding::Blocks(format) => {
                    let blocks = values.chunks_exact(format.values);
                    blocks
                        .flat_map(|block| quantize::encode_block(format, block))
                        .collect()
                }
                &Encoding::Groups(format, place) => {
                    let [codes, scales] = format.encode(values);
                    if let ScalePlace::Separate(_) = place {
                        let numbers = scales.as_chunks().0.iter().copied().map(f32::from_ne_bytes);
                        for (at, number) in self.apart_at(found, head).into_iter().zip(numbers) {
                            *self.number(at) = number;
                        }
                    } else {
                        let [at, len] = self.scales_at(found, head).expect("scales in the memory");
                        self.bytes[at..at + len].copy_from_slice(&scales);
                        self.computed[at..at + len].fill(false);
                    }
                    codes
                }
                Encoding::Scaled(code, scaling) => {
                    let factor = match scaling {
                        Scaling::Divide(scales) => Factor::Divide(of(scales, head)),
                        Scaling::Reciprocal(scales) => Factor::Multiply(1.0 / of(scales, head)),
                        Scaling::Multiply(scales) => Factor::Multiply(of(scales, head)),
                        Scaling::Made(least, _) => {
                            Factor::Multiply(1.0 / quantize::made(*code, *least, values))
                        }
                    };
                    quantize::encode_head(*code, factor, values)
                }
            };
            for (channel, &byte) in codes.iter().enumerate() {
                let at = found.element + self.paged.channel(head, channel);
                self.bytes[at] = byte;
                self.computed[at] = true;
            }
            if let Encoding::Scaled(code, Scaling::Made(least, place)) = &self.encoding {
                let scale = quantize::made(*code, *least, values);
                match (*place, self.scales_at(found, head)) {
                    (_, Some([at, len])) => {
                        self.bytes[at..at + len].copy_from_slice(&scale.to_ne_bytes());
                        self.computed[at..at + len].fill(false);
                    }
                    (ScalePlace::Separate(_), None) => {
                        let at = self.apart_at(found, head)[0];
                        *self.number(at) = scale;
                    }
                    _ => unreachable!("no other place"),
                }
            }
        }
    }

    fn read(&self, found: Found) -> Vec<Vec<f32>> {
        let CacheShape {
            heads, head_dim, ..
        } = self.paged.shape;
        let head = |head: usize| -> Vec<f32> {
            let byte = |channel| self.bytes[found.element + self.paged.channel(head, channel)];
            let bytes: Vec<u8> = (0..head_dim).map(byte).collect();
            let (code, scaling) = match &self.encoding {
                Encoding::Scaled(code, scaling) => (code, scaling),
                Encoding::Blocks(format) => {
                    let blocks = bytes.chunks_exact(format.bytes);
                    return blocks
                        .flat_map(|block| quantize::decode_block(format, block))
                        .collect();
                }
                Encoding::Groups(format, ScalePlace::Separate(_)) => {
                    let number = |(is_zero, at)| {
                        if is_zero {
                            self.zeros[at]
                        } else {
                            self.scales[at]
                        }
                    };
                    let numbers = self.apart_at(found, head).into_iter().map(number);
                    let numbers: Vec<u8> = numbers.flat_map(f32::to_ne_bytes).collect();
                    return format.decode(&bytes, &numbers);
                }
                Encoding::Groups(format, _) => {
                    let [at, len] = self.scales_at(found, head).expect("scales in the memory");
                    return format.decode(&bytes, &self.bytes[at..at + len]);
                }
            };
            let scale = match scaling {
                Scaling::Divide(scales) | Scaling::Reciprocal(scales) => of(scales, head),
                Scaling::Multiply(scales) => 1.0 / of(scales, head),
                Scaling::Made(_, ScalePlace::Separate(place)) => {
                    self.scales[self.scale_place(found, *place, head)]
                }
                Scaling::Made(..) => {
                    let [at, _] = self.scales_at(found, head).expect("a scale in the memory");
                    f32::from_ne_bytes(*self.bytes[at..].first_chunk().expect("four bytes"))
                }
            };
            let value = |&byte| quantize::decode(*code, byte) * scale;
            bytes.iter().map(value).collect()
        };
        (0..heads).map(head).collect()
    }

    fn with<T>(&self, f: impl FnOnce(&Cache<'_>) -> T) -> T {
        let layout = self.paged.layout;
        let cache = match &self.encoding {
            Encoding::Blocks(format) => Cache::coded(&self.bytes, layout, *format),
            Encoding::Groups(format, place) => {
                let (bytes, format) = (&self.bytes, format.at(*place));
                match self.zeros.is_empty() {
                    true => Cache::coded_with_scales(bytes, layout, format, &self.scales),
                    false => {
                        let lists = [&self.scales, &self.zeros];
                        Cache::coded_with_scales(bytes, layout, format, lists)
                    }
                }
            }
            Encoding::Scaled(code, scaling) => Cache::coded_with_scales(
                &self.bytes,
                layout,
                CacheFormat::quantized(*code, scaling.given()),
                &self.scales,
            ),
        };
        f(&cache.expect("a cache that fits"))
    }

    fn with_mut<T>(&mut self, f: impl FnOnce(&mut CacheMut<'_>) -> T) -> T {
        let layout = self.paged.layout;
        let cache = match &self.encoding {
            Encoding::Blocks(format) => CacheMut::coded(&mut self.bytes, layout, *format),
            Encoding::Groups(format, place) => {
                let (bytes, format) = (&mut self.bytes, format.at(*place));
                match self.zeros.is_empty() {
                    true => CacheMut::coded_with_scales(bytes, layout, format, &mut self.scales),
                    false => {
                        let lists = [&mut self.scales, &mut self.zeros];
                        CacheMut::coded_with_scales(bytes, layout, format, lists)
                    }
                }
            }
            Encoding::Scaled(code, scaling) => {
                let scale = scaling.given();
                CacheMut::coded_with_scales(
                    &mut self.bytes,
                    layout,
                    CacheFormat::quantized(*code, scale),
                    &mut self.scales,
                )
            }
        };
        f(&mut cache.expect("a cache that fits"))
    }

    #[cfg(feature = "capi")]
    fn over_c(&mut self) -> Option<rope::rope_cache> {
        crate::over_c::codes(self)
    }

    fn compare(&self, got: &Self, doing: &str) {
        let (bytes, scales) = (&got.bytes, &got.scales);
        assert_eq!(bytes.len(), self.bytes.len(), "{doing}");
        let code = match self.encoding {
            Encoding::Scaled(code, _) => Some(code),
            Encoding::Groups(format, _) if format.is_float() => Some(QuantFormat::E4m3),
            Encoding::Blocks(_) | Encoding::Groups(..) => None,
        };
        let right = |index: usize| {
            let (got, wanted) = (bytes[index], self.bytes[index]);
            let lax = code.is_some_and(|code| quantize::same(code, got, wanted));
            got == wanted || self.computed[index] && lax
        };
        if let Some(index) = (0..bytes.len()).find(|&index| !right(index)) {
            let wrong = (0..bytes.len()).filter(|&index| !right(index)).count();
            panic!(
                "{doing}: {:?} byte {index} of {} is {:#04x}, not {:#04x} (computed: {}); {wrong} wrong in all",
                self.encoding,
                bytes.len(),
                bytes[index],
                self.bytes[index],
                self.computed[index],
            );
        }
        let (scales, wanted) = (
            scales.iter().chain(&got.zeros),
            self.scales.iter().chain(&self.zeros),
        );
        for (index, (got, wanted)) in scales.zip(wanted).enumerate() {
            assert!(
                got.to_bits() == wanted.to_bits(),
                "{doing}: scale {index} is {got:?}, not {wanted:?}"
            );
        }
    }

    fn reach(&self) -> (bool, usize) {
        let (behind, by_slot) = match &self.encoding {
            Encoding::Scaled(_, Scaling::Made(_, ScalePlace::Inline(behind))) => {
                (behind + 4, false)
            }
            Encoding::Groups(format, ScalePlace::Inline(behind)) => {
                let channels = self.paged.shape.head_dim * format.per_byte();
                (behind + channels / format.values() * format.unit(), false)
            }
            Encoding::Scaled(_, Scaling::Made(..)) | Encoding::Groups(..) => (0, true),
            _ => (0, false),
        };
        let head_dim = self.paged.shape.head_dim;
        (by_slot, self.bytes.len() - behind.saturating_sub(head_dim))
    }
}
