//! Which slot of a cache each token has.

use core::ops::Range;

use super::layout::CacheLayout;
use super::quant::ScaleLayout;
use crate::walk::{Addresses, Located, Steps};
use crate::{Error, Ids, IntoPositions, Positions, Shape};

/// The slot of each token, sequence by sequence. A negative one is skipped: nothing is written
/// for its token, and nothing read.
///
/// A list of integers by reference has slots (`block * block_size + place`, a runtime's slot mapping); a range has
/// slots that follow one another. Two tokens may have one slot: the later one is what stays.
///
/// ```
/// use rope_core::cache::Slots;
///
/// let mapping = Slots::from(&[17_i64, 18, -1]); // the third token is skipped
/// let consecutive = Slots::from(100..103);
/// let sequences = Slots::sequences(100..103); // each in its own block
/// // Sequence 0 has the pages 7 and 2, sequence 1 has page 5; three tokens, of which the first two
/// // are at the positions 30 and 31 of sequence 0, and the third is at position 4 of sequence 1.
/// let paged = Slots::pages(&[7, 2, 5], &[0, 2, 3], &[0, 0, 1], &[30, 31, 4]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Slots<'a>(SlotSource<'a>);

#[derive(Clone, Copy, Debug)]
enum SlotSource<'a> {
    Mapping(Ids<'a>),
    Range {
        first: usize,
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
        width: usize,
        positions: Positions<'a>,
    },
    Sequences(Positions<'a>),
    Offsets(&'a [i64]),
}

/// What a caller says of a token.
enum Found {
    Slot(usize),
    Element(usize),
}

/// The slots of the tokens of a tensor, which have been checked, in a cache.
#[derive(Clone, Copy)]
pub(crate) struct InSlots<'a> {
    pub(crate) slots: &'a Slots<'a>,
    pub(crate) layout: CacheLayout,
    /// Where the scales lie, if they lie apart.
    pub(crate) scales: Option<ScaleLayout>,
    /// Elements of the cache.
    pub(crate) len: usize,
    /// Tokens of a sequence.
    pub(crate) tokens: usize,
}

impl Addresses for InSlots<'_> {
    #[inline(always)]
    fn token(&self, batch: usize, token: usize) -> Option<Located> {
        let InSlots {
            slots,
            layout,
            scales,
            len,
            tokens,
        } = self;
        let index = batch * *tokens + token;
        let slot = match slots.0 {
            SlotSource::Mapping(ids) => usize::try_from(ids.at(index)).ok()?,
            SlotSource::Range { first, .. } => first + index,
            _ => match slots.find(index, *tokens, layout, *len) {
                Ok(Some(Found::Slot(slot))) => slot,
                // Such tokens have no scales apart.
                Ok(Some(Found::Element(element))) => return Some(Located { element, scale: 0 }),
                Ok(None) => return None,
                Err(_) => unreachable!("slots are checked before a pass is made"),
            },
        };
        Some(Located {
            element: layout.slot(slot),
            scale: scales.map_or(0, |scales| layout.scale(scales, slot)),
        })
    }

    #[inline(always)]
    fn steps(&self) -> Steps {
        Steps::to_head(self.layout.strides.head)
    }
}

impl<'a> Slots<'a> {
    /// By the pages of each sequence, as FlashInfer keeps them (CSR): token `i` is of sequence `sequences[i]` at
    /// `positions[i]`; the pages of sequence `s` are `pages[starts[s]..starts[s + 1]]`. A negative position is skipped.
    pub fn pages(
        pages: impl Into<Ids<'a>>,
        starts: impl Into<Ids<'a>>,
        sequences: impl Into<Ids<'a>>,
        positions: impl IntoPositions<'a>,
    ) -> Self {
        Slots(SlotSource::Pages {
            pages: pages.into(),
            starts: starts.into(),
            sequences: sequences.into(),
            positions: positions.into_positions(),
        })
    }

    /// By a table `[batch, width]` of blocks, a line for each sequence of the tensor, and the positions of the tokens,
    /// as [`Frequencies::rows`](crate::Frequencies::rows) takes them: of a sequence, which all share, or of each. A
    /// negative position, or block, is skipped.
    pub fn table(
        table: impl Into<Ids<'a>>,
        width: usize,
        positions: impl IntoPositions<'a>,
    ) -> Self {
        Slots(SlotSource::Table {
            table: table.into(),
            width,
            positions: positions.into_positions(),
        })
    }

    /// One block for each sequence of the tensor, and the positions of the tokens in it, as
    /// [`Frequencies::rows`](crate::Frequencies::rows) takes them: `start..start + tokens`, which all sequences share,
    /// or a list with one of each token of each sequence. ONNX Runtime's and candle's caches. A negative position is
    /// skipped.
    pub fn sequences(positions: impl IntoPositions<'a>) -> Self {
        Slots(SlotSource::Sequences(positions.into_positions()))
    }

    /// The index of each token's first element, for a cache that [`CacheLayout`] cannot describe.
    pub fn offsets(offsets: &'a [i64]) -> Self {
        Slots(SlotSource::Offsets(offsets))
    }

    /// Whether there is memory for each token.
    fn is_listed(&self) -> bool {
        match self.0 {
            SlotSource::Table { positions, .. } | SlotSource::Sequences(positions) => {
                positions.is_list()
            }
            // A range has been checked already; pages list the sequence of each token.
            _ => true,
        }
    }

    fn len(&self) -> usize {
        match self.0 {
            SlotSource::Mapping(ids) => ids.len(),
            SlotSource::Range { len, .. } => len,
            SlotSource::Pages { positions, .. }
            | SlotSource::Table { positions, .. }
            | SlotSource::Sequences(positions) => positions.len(),
            SlotSource::Offsets(offsets) => offsets.len(),
        }
    }

    /// Whether every token of a tensor has a slot in the cache, or none.
    ///
    /// `len`: elements of the cache. `by_slot`: whether something else of the cache is found by the slot.
    pub(crate) fn check(
        &self,
        shape: Shape,
        cache: &CacheLayout,
        len: usize,
        by_slot: bool,
    ) -> Result<(), Error> {
        let Shape { batch, tokens, .. } = shape;
        let (given, needed) = (self.len(), batch.saturating_mul(tokens));
        let shared = matches!(self.0, SlotSource::Table { .. } | SlotSource::Sequences(_));
        if given != needed && !(shared && given == tokens) {
            return Err(Error::SlotCount {
                slots: given,
                tokens,
                batch,
            });
        }
        if let SlotSource::Pages { sequences, .. } = self.0
            && sequences.len() != needed
        {
            return Err(Error::Count {
                name: "sequences",
                given: sequences.len(),
                needed,
            });
        }
        if let SlotSource::Table { table, width, .. } = self.0 {
            let needed = batch.saturating_mul(width);
            if table.len() != needed {
                return Err(Error::Count {
                    name: "table",
                    given: table.len(),
                    needed,
                });
            }
        }
        if by_slot && matches!(self.0, SlotSource::Offsets(_)) {
            return Err(Error::CacheLayout {
                required: "addressed by slots, because its scales lie apart",
            });
        }
        if let SlotSource::Range { first, .. } = self.0 {
            // The first that is not there, without a look at each: tokens without elements may be any number.
            let slots = cache.shape.slots();
            let index = slots.saturating_sub(first);
            if index < given {
                let slot = i64::try_from(first.saturating_add(index)).unwrap_or(i64::MAX);
                return Err(Error::Slot { index, slot, slots });
            }
            return Ok(());
        }
        // Without elements, tokens may be any number, and so may positions that are no list.
        if shape.elements() == Some(0) && !self.is_listed() {
            return Ok(());
        }
        let slots = i64::try_from(cache.shape.slots()).unwrap_or(i64::MAX);
        for index in 0..needed {
            // What a list says needs no more than a look, unless it is wrong.
            let listed = match self.0 {
                SlotSource::Mapping(ids) => ids.at(index) < slots,
                _ => false,
            };
            if !listed {
                self.find(index, tokens, cache, len)?;
            }
        }
        Ok(())
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
            SlotSource::Range { first, .. } => {
                // Beyond `i64` is beyond every cache, and not negative.
                i64::try_from(first.saturating_add(index)).unwrap_or(i64::MAX)
            }
            SlotSource::Pages {
                pages,
                starts,
                sequences,
                positions,
            } => {
                let (sequence, position) = (sequences.at(index), positions.integer(index)?);
                if position < 0 {
                    return Ok(None);
                }
                let beyond = Error::PagePosition {
                    index,
                    position,
                    sequence,
                };
                let at = usize::try_from(sequence).map_err(|_| beyond)?;
                let bounds = starts.get(at).zip(starts.get(at.saturating_add(1)));
                let (first, end) = bounds.ok_or(beyond)?;
                let page = first
                    .checked_add(position / size.max(1) as i64)
                    .ok_or(beyond)?;
                let page = usize::try_from(page)
                    .ok()
                    .filter(|_| first >= 0 && page < end);
                let page = page.and_then(|page| pages.get(page)).ok_or(beyond)?;
                slot_of(page, position, size)
            }
            SlotSource::Table {
                table,
                width,
                positions,
            } => {
                let sequence = index / tokens;
                let position = position_in(positions, sequence, index, tokens)?;
                if position < 0 {
                    return Ok(None);
                }
                let beyond = Error::PagePosition {
                    index,
                    position,
                    sequence: sequence as i64,
                };
                let column = usize::try_from(position / size.max(1) as i64).map_err(|_| beyond)?;
                if column >= width {
                    return Err(beyond);
                }
                slot_of(
                    table.get(sequence * width + column).ok_or(beyond)?,
                    position,
                    size,
                )
            }
            SlotSource::Sequences(positions) => {
                let sequence = index / tokens;
                let position = position_in(positions, sequence, index, tokens)?;
                if position >= size as i64 {
                    return Err(Error::PagePosition {
                        index,
                        position,
                        sequence: sequence as i64,
                    });
                }
                if position < 0 {
                    -1
                } else {
                    slot_of(sequence as i64, position, size)
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
                    return Err(Error::SlotOffset {
                        index,
                        offset,
                        extent,
                        len,
                    });
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
            None => Err(Error::Slot { index, slot, slots }),
        }
    }
}

/// The position of token `index` of all sequences, which may have the same positions.
fn position_in(
    positions: Positions<'_>,
    sequence: usize,
    index: usize,
    tokens: usize,
) -> Result<i64, Error> {
    positions.integer(match positions.len() == tokens {
        true => index - sequence * tokens,
        false => index,
    })
}

/// The slot of a position in a block, or none for a negative block. What is beyond `i64` is beyond every cache.
fn slot_of(block: i64, position: i64, block_size: usize) -> i64 {
    let size = block_size.max(1) as i64;
    if block < 0 {
        return -1;
    }
    block.saturating_mul(size).saturating_add(position % size)
}

impl From<Range<usize>> for Slots<'_> {
    fn from(range: Range<usize>) -> Self {
        Slots(SlotSource::Range {
            first: range.start,
            len: range.len(),
        })
    }
}

impl<'a, T> From<T> for Slots<'a>
where
    Ids<'a>: From<T>,
{
    fn from(slots: T) -> Self {
        Slots(SlotSource::Mapping(slots.into()))
    }
}
