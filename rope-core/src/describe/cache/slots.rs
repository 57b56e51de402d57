//! The slot of each token in a cache.

use core::ops::Range;

use super::channels::GroupSlots;
use super::layout::{CacheLayout, CacheShape};
use super::quant::ScaleLayout;
use crate::base::error::{check_count, saturated};
use crate::describe::address::{Addresses, Steps, TokenAddress};
use crate::describe::ids::{GivenIntegers, Integers, IntoIds};
use crate::error::{CacheError, SlotsError};
use crate::{Error, Ids, IntoPositions, Positions, Shape};

/// The slot of each token, sequence by sequence. A token with a negative slot is skipped: it is neither read nor
/// written. [`Slots::pages`], [`Slots::table`] and [`Slots::sequences`] also skip a token at a negative position; a
/// negative page of a position in use is an error. In a list of slots only the slot counts: the row of a negative
/// position rotates backwards.
///
/// A list of integers by reference holds slots (`block * block_size + place`, a runtime's slot mapping). A range holds
/// consecutive slots. An integer is the slot of a single token. Two tokens may have the same slot; the later one stays.
/// A rotation in place moves a slot once: there the rows of both must be equal.
///
/// ```
/// use rope_core::Positions;
/// use rope_core::cache::Slots;
///
/// let mapping = Slots::from(&[17_i64, 18, -1]); // the third token is skipped
/// let consecutive = Slots::from(100..103);
/// let step = Slots::from(103); // one token
/// let sequences = Slots::sequences(100..103); // each in its own block
/// // Sequence 0 has the pages 7 and 2, sequence 1 has page 5; three tokens, of which the first two
/// // are at the positions 30 and 31 of sequence 0, and the third is at position 4 of sequence 1.
/// let paged = Slots::pages(&[7, 2, 5], &[0, 2, 3], &[0, 0, 1], &[30, 31, 4]);
/// // The same in a table of two lines, by the offsets and the first positions of the packed sequences.
/// let packed = Positions::packed_from(&[0, 2, 3], &[30, 4])?;
/// let table = Slots::table(&[7, 2, /* */ 5, -1], [2, 2], packed);
/// # Ok::<(), rope_core::Error>(())
/// ```
#[doc(alias("out_cache_loc", "IntoSlots"))]
#[derive(Clone, Copy, Debug)]
pub struct Slots<'a>(SlotSource<'a>);

/// Conversion to [`Slots`], from an integer, a range or a list.
///
/// ```
/// use rope_core::cache::{CacheMut, IntoSlots};
/// use rope_core::{Error, Pairing, Rope, Tensor};
///
/// fn values<'s>(v: &[f32], cache: &mut CacheMut<'_>, slots: impl IntoSlots<'s>) -> Result<(), Error> {
///     Rope::new(Pairing::Half).apply_into(&Tensor::new(v, [1, v.len() / 64, 1, 64])?, &mut cache.slots(slots))
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "slots cannot be made of `{Self}`",
    label = "neither `Slots`, nor an integer, a range or a list by reference (`&[..]`, `&Vec`) of integers",
    note = "integers are i32, i64, u32, u64 or usize; page tables go through `Slots::pages` or `Slots::table`, and a \
            block for each sequence through `Slots::sequences`"
)]
pub trait IntoSlots<'a>: Into<Slots<'a>> {}

#[diagnostic::do_not_recommend]
impl<'a, T: Into<Slots<'a>>> IntoSlots<'a> for T {}

#[derive(Clone, Copy, Debug)]
enum SlotSource<'a> {
    Mapping(Ids<'a>),
    Range {
        first: i64,
        len: usize,
    },
    Pages {
        pages: Ids<'a>,
        starts: Ids<'a>,
        sequences: Ids<'a>,
        positions: Positions<'a>,
    },
    Table {
        table: Ids<'a>,
        shape: [usize; 2],
        positions: Positions<'a>,
    },
    Sequences(Positions<'a>),
    Offsets(&'a [i64]),
}

/// The number of tokens that a call into a cache may have in any case, if no list has their slots. Beyond it, and
/// beyond the slots of the cache, tokens are skipped or share slots, and a loop may be unable to visit them all.
const MOST_UNLISTED: usize = 1 << 24;

/// The place of a token as given by the caller.
pub(super) enum Found {
    Slot(usize),
    Element(usize),
}

/// The checked slots of the tokens of a tensor, as addresses in a cache.
#[derive(Clone, Copy)]
pub(crate) struct SlotAddresses<'a> {
    pub(crate) slots: &'a Slots<'a>,
    pub(crate) layout: CacheLayout,
    /// The layout of scales that slots address, and the index of the first.
    pub(crate) scales: Option<(usize, ScaleLayout)>,
    /// Length of the cache, in elements.
    pub(crate) len: usize,
    /// Tokens per sequence.
    pub(crate) tokens: usize,
    /// Index of the first token, in a part of a call.
    pub(crate) first: usize,
    pub(crate) memory: SlotRange,
}

/// The slots of a cache that one thread may access.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotRange {
    pub(crate) first: usize,
    pub(crate) count: usize,
    /// The first element, and the first scale, of the memory.
    pub(crate) element: usize,
    pub(crate) scale: usize,
}

impl SlotRange {
    /// All slots.
    pub(crate) const WHOLE: Self = SlotRange {
        first: 0,
        count: usize::MAX,
        element: 0,
        scale: 0,
    };

    #[inline(always)]
    fn contains(&self, slot: usize) -> bool {
        slot.wrapping_sub(self.first) < self.count
    }
}

impl SlotAddresses<'_> {
    /// Returns the address of a token, or `None` if it is skipped.
    #[inline(always)]
    pub(super) fn found(&self, index: usize) -> Option<Found> {
        let slot = match self.slots.0 {
            SlotSource::Mapping(ids) => usize::try_from(ids.at(index)).ok()?,
            SlotSource::Range { first, .. } => usize::try_from(first + index as i64).ok()?,
            _ => {
                let found = self.slots.find(index, self.tokens, &self.layout, self.len);
                return match found {
                    Ok(found) => found,
                    Err(_) => unreachable!("slots are checked before a pass is made"),
                };
            }
        };
        Some(Found::Slot(slot))
    }
}

impl GroupSlots for SlotAddresses<'_> {
    fn slot(&self, token: usize) -> Option<usize> {
        match self.found(token)? {
            Found::Slot(slot) => self.memory.contains(slot).then_some(slot),
            Found::Element(_) => None,
        }
    }

    fn after_skipped(&self, token: usize) -> usize {
        self.slots.skipped_around(token).end.max(token + 1)
    }
}

impl Addresses for SlotAddresses<'_> {
    #[inline(always)]
    fn token(&self, batch: usize, token: usize) -> Option<TokenAddress> {
        let slot = match self.found(self.first + batch * self.tokens + token)? {
            Found::Slot(slot) => slot,
            // Tokens addressed by element have no separate scales.
            Found::Element(element) => return Some(TokenAddress { element, scale: 0 }),
        };
        let memory = self.memory;
        if !memory.contains(slot) {
            return None;
        }
        let scales = |(first, scales)| first + self.layout.scale(scales, slot) - memory.scale;
        Some(TokenAddress {
            element: self.layout.slot(slot) - memory.element,
            scale: self.scales.map_or(0, scales),
        })
    }

    #[inline(always)]
    fn steps(&self) -> Steps {
        Steps::to_head(self.layout.strides.head)
    }
}

impl<'a> Slots<'a> {
    /// Slots by the pages of each sequence, as in FlashInfer (CSR): token `i` belongs to sequence `sequences[i]` at
    /// `positions[i]`; the pages of sequence `s` are `pages[starts[s]..starts[s + 1]]`. A token at a negative position
    /// is skipped; the page of any other token must not be negative.
    #[doc(alias = "paged_kv_indices")]
    pub fn pages(
        pages: impl IntoIds<'a>,
        starts: impl IntoIds<'a>,
        sequences: impl IntoIds<'a>,
        positions: impl IntoPositions<'a>,
    ) -> Self {
        Slots(SlotSource::Pages {
            pages: pages.into(),
            starts: starts.into(),
            sequences: sequences.into(),
            positions: positions.into(),
        })
    }

    /// Slots by a table of pages `[sequences, width]`, one line per sequence of the tensor, and the positions of the
    /// tokens as in [`Frequencies::rows`](crate::Frequencies::rows): one sequence shared by all, or one per sequence. A
    /// token at a negative position is skipped. A page may be negative only if no position uses it, as in the padding
    /// of shorter lines.
    ///
    /// Positions of packed sequences ([`Positions::packed_from`], [`Shard::packed`](crate::shard::Shard::packed))
    /// require a tensor of one batch: the table has one line per packed sequence.
    ///
    /// ```
    /// use rope_core::Positions;
    /// use rope_core::cache::Slots;
    ///
    /// // `cu_seqlens`, and the cached tokens of each sequence: a prompt of 4 tokens beside a decode step
    /// let positions = Positions::packed_from(&[0_i32, 4, 5], &[0_i32, 70])?;
    /// let slots = Slots::table(&[3_i32, -1, /* */ 0, 8], [2, 2], positions); // pages of 64 slots
    /// # Ok::<(), rope_core::Error>(())
    /// ```
    #[doc(alias = "block_table")]
    pub fn table(
        table: impl IntoIds<'a>,
        [sequences, width]: [usize; 2],
        positions: impl IntoPositions<'a>,
    ) -> Self {
        Slots(SlotSource::Table {
            table: table.into(),
            shape: [sequences, width],
            positions: positions.into(),
        })
    }

    /// Slots with one block per sequence of the tensor, and the positions of the tokens in it as in
    /// [`Frequencies::rows`](crate::Frequencies::rows): `start..start + tokens`, shared by all sequences, or a list
    /// with one position per token of each sequence. In a tensor of one batch, each packed sequence has a block. The
    /// caches of ONNX Runtime and candle. A token at a negative position is skipped.
    pub fn sequences(positions: impl IntoPositions<'a>) -> Self {
        Slots(SlotSource::Sequences(positions.into()))
    }

    /// Slots by the index of each token's first element, for a cache that [`CacheLayout`] cannot describe.
    pub fn offsets(offsets: &'a [i64]) -> Self {
        Slots(SlotSource::Offsets(offsets))
    }

    /// Returns true for consecutive slots.
    pub(crate) fn is_range(&self) -> bool {
        matches!(self.0, SlotSource::Range { .. })
    }

    pub(crate) fn len(&self) -> usize {
        match self.0 {
            SlotSource::Mapping(ids) => ids.len(),
            SlotSource::Range { len, .. } => len,
            SlotSource::Pages { positions, .. }
            | SlotSource::Table { positions, .. }
            | SlotSource::Sequences(positions) => positions.len(),
            SlotSource::Offsets(offsets) => offsets.len(),
        }
    }

    /// Checks that every token of a tensor has a slot of the cache, or is skipped.
    ///
    /// `len`: elements of the cache. `by_slot`: the requirement of a call that takes no offsets of
    /// elements.
    pub(crate) fn check(
        &self,
        shape: Shape,
        cache: &CacheLayout,
        len: usize,
        by_slot: Option<&'static str>,
    ) -> Result<(), Error> {
        let Shape { batch, tokens, .. } = shape;
        let (given, needed) = (self.len(), batch.saturating_mul(tokens));
        // Packed sequences have separate pages.
        let shared = matches!(
            self.0,
            SlotSource::Table { positions, .. } | SlotSource::Sequences(positions)
                if positions.packed_len().is_none()
        );
        if given != needed && !(shared && given == tokens) {
            return Err(Error::Slots(SlotsError::Count {
                slots: given,
                tokens,
                batch,
            }));
        }
        if self.is_unlisted(Positions::is_range_of_chunks) {
            self.check_most(shape, cache)?;
        }
        match self.0 {
            SlotSource::Pages { sequences, .. } => {
                check_count("sequences", sequences.len(), needed)?;
            }
            SlotSource::Table {
                table,
                shape: [lines, width],
                positions,
            } => {
                let sequences = positions.packed_len().unwrap_or(batch);
                for needed in [lines, sequences].map(|lines| lines.saturating_mul(width)) {
                    check_count("table", table.len(), needed)?;
                }
            }
            SlotSource::Offsets(_) if let Some(required) = by_slot => {
                return Err(Error::Cache(CacheError::Layout { required }));
            }
            SlotSource::Range { first, .. } => {
                // Computes the first missing slot without a loop: tokens without elements may be any number.
                let index = (cache.shape.slots() as i128 - i128::from(first)).max(0);
                if let Ok(index) = usize::try_from(index)
                    && index < given
                {
                    self.find(index, tokens, cache, len)?;
                }
                return Ok(());
            }
            _ => {}
        }
        // Without elements, tokens may be any number, and so may positions that are not a list.
        if shape.elements() == Some(0) && self.is_unlisted(|positions| !positions.is_list()) {
            return Ok(());
        }
        let slots = i64::try_from(cache.shape.slots()).unwrap_or(i64::MAX);
        let mut index = 0;
        while index < needed {
            // Fast path: ids are usually valid.
            let is_valid = matches!(self.0, SlotSource::Mapping(ids) if ids.at(index) < slots);
            index = match is_valid || self.find(index, tokens, cache, len)?.is_some() {
                true => index + 1,
                false => self.skipped_around(index).end,
            };
        }
        Ok(())
    }

    /// Checks that a call visits no more tokens than the cache has slots, or than [`MOST_UNLISTED`], unless a list in
    /// memory has their slots.
    #[inline(always)]
    pub(super) fn check_visits(&self, shape: Shape, cache: &CacheLayout) -> Result<(), Error> {
        match shape.batch.saturating_mul(shape.tokens) > MOST_UNLISTED
            && (self.is_range() || self.is_unlisted(|positions| !positions.is_list()))
        {
            true => self.check_most(shape, cache),
            false => Ok(()),
        }
    }

    #[cold]
    fn check_most(&self, shape: Shape, cache: &CacheLayout) -> Result<(), Error> {
        let tokens = shape.batch.saturating_mul(shape.tokens);
        let required = "at most the slots of the cache, or 2^24, as no list has the slots: leave out skipped tokens";
        match tokens > MOST_UNLISTED.max(cache.shape.slots()) && shape.elements() != Some(0) {
            true => Err(Error::parameter("tokens", tokens as f64, required)),
            false => Ok(()),
        }
    }

    /// Returns true if positions that are so find the slots, without a list of sequences.
    fn is_unlisted(&self, so: impl Fn(&Positions<'a>) -> bool) -> bool {
        matches!(&self.0, SlotSource::Table { positions, .. } | SlotSource::Sequences(positions) if so(positions))
    }

    /// Returns the tokens around a skipped one that a range of positions or slots skips with it: there may be more of
    /// them than a loop can visit.
    pub(super) fn skipped_around(&self, token: usize) -> Range<usize> {
        match self.0 {
            SlotSource::Range { first, len } => {
                let end = first.saturating_add_unsigned(len as u64);
                Positions::from(first..end).negatives_around(token)
            }
            SlotSource::Pages { positions, .. }
            | SlotSource::Table { positions, .. }
            | SlotSource::Sequences(positions) => positions.negatives_around(token),
            SlotSource::Mapping(_) | SlotSource::Offsets(_) => token..token + 1,
        }
    }

    fn find(
        &self,
        index: usize,
        tokens: usize,
        cache: &CacheLayout,
        len: usize,
    ) -> Result<Option<Found>, Error> {
        let size = cache.shape.block_size;
        let slot = match self.0 {
            SlotSource::Mapping(ids) => ids.at(index),
            SlotSource::Range { first, .. } => first.saturating_add_unsigned(index as u64),
            SlotSource::Pages {
                pages,
                starts,
                sequences,
                positions,
            } => {
                let (sequence, position) = (sequences.at(index), positions.integer(index)?);
                let line = usize::try_from(sequence).ok().and_then(|sequence| {
                    let first = usize::try_from(starts.get(sequence)?).ok()?;
                    let end = usize::try_from(starts.get(sequence.checked_add(1)?)?).ok()?;
                    Some(first..end)
                });
                paged_slot(index, [sequence, position], cache.shape, pages, line)?
            }
            SlotSource::Table {
                table,
                shape: [_, width],
                positions,
            } => {
                let (sequence, position) = found_in(positions, index, tokens)?;
                let line = sequence * width..(sequence + 1) * width;
                let place = [sequence as i64, position];
                paged_slot(index, place, cache.shape, table, Some(line))?
            }
            SlotSource::Sequences(positions) => {
                let (sequence, position) = found_in(positions, index, tokens)?;
                if position >= size as i64 {
                    return Err(Error::Slots(SlotsError::PagePosition {
                        index,
                        position,
                        sequence: sequence as i64,
                        limit: size,
                    }));
                }
                match position {
                    ..0 => position,
                    _ => slot_of(sequence as i64, position, size),
                }
            }
            SlotSource::Offsets(offsets) => {
                let offset = offsets[index];
                if offset < 0 {
                    return Ok(None);
                }
                let element = usize::try_from(offset).unwrap_or(usize::MAX);
                let extent = cache.head_extent();
                if element > len || extent > len - element {
                    return Err(Error::Slots(SlotsError::Offset {
                        index,
                        offset,
                        extent,
                        len,
                    }));
                }
                return Ok(Some(Found::Element(element)));
            }
        };
        if slot < 0 {
            return Ok(None);
        }
        let slots = cache.shape.slots();
        match usize::try_from(slot).ok().filter(|&slot| slot < slots) {
            Some(slot) => Ok(Some(Found::Slot(slot))),
            None => Err(Error::Slots(SlotsError::Slot { index, slot, slots })),
        }
    }
}

/// Returns the slot of a position by the pages of its sequence (a range of a list); negative if the token is skipped.
fn paged_slot(
    index: usize,
    [sequence, position]: [i64; 2],
    cache: CacheShape,
    pages: Ids<'_>,
    line: Option<Range<usize>>,
) -> Result<i64, Error> {
    if position < 0 {
        return Ok(position);
    }
    let page = position / cache.block_size.max(1) as i64;
    let range = line.unwrap_or(0..0);
    let block = usize::try_from(page).ok().and_then(|page| {
        let at = range.start.checked_add(page)?;
        pages.get(at).filter(|_| at < range.end)
    });
    match block {
        None => Err(Error::Slots(SlotsError::PagePosition {
            index,
            position,
            sequence,
            limit: (range.end.min(pages.len()))
                .saturating_sub(range.start)
                .saturating_mul(cache.block_size),
        })),
        Some(block @ ..0) => Err(Error::Slots(SlotsError::NegativePage {
            index: saturated(index),
            position,
            sequence,
            page,
            block,
        })),
        Some(block) if block.cast_unsigned() >= cache.blocks as u64 => {
            Err(Error::Slots(SlotsError::Page {
                index,
                position,
                page: block,
                pages: cache.blocks,
            }))
        }
        Some(block) => Ok(slot_of(block, position, cache.block_size)),
    }
}

/// Returns the sequence and position of token `index`, counted over all sequences, which may share their positions.
fn found_in(positions: Positions<'_>, index: usize, tokens: usize) -> Result<(usize, i64), Error> {
    let (sequence, token) = match positions.sequence(index) {
        Some(sequence) => (sequence, index),
        None if positions.len() == tokens => (index / tokens, index % tokens),
        None => (index / tokens, index),
    };
    Ok((sequence, positions.integer(token)?))
}

/// Returns the slot of a position in a block. Slots beyond `i64` exceed every cache.
fn slot_of(block: i64, position: i64, block_size: usize) -> i64 {
    let size = block_size.max(1) as i64;
    block.saturating_mul(size).saturating_add(position % size)
}

/// One slot per token. Ranges are clamped to `i64`: a larger first slot exceeds every cache, and is not negative.
impl<'a, I: Integers<'a>> From<I> for Slots<'a> {
    fn from(integers: I) -> Self {
        Slots(match integers.given() {
            GivenIntegers::Ids(ids) => SlotSource::Mapping(ids),
            GivenIntegers::Range { first, len } => SlotSource::Range {
                first: i64::try_from(first).unwrap_or(i64::MAX),
                len: usize::try_from(len).unwrap_or(usize::MAX),
            },
        })
    }
}
