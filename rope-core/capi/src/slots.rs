//! Which slot of a cache each token has.

use core::ffi::c_void;

use rope_core::cache::Slots;
use rope_core::{Ids, Positions};

use crate::cache::{CacheRecord, rope_cache};
use crate::failure::Failure;
use crate::memory::{Region, Span, look, plain};
use crate::names::{lookup, rope_number};
use crate::positions::ids;
use crate::status::{rope_status, status_of};

/// The form of a list of slots.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum rope_slots_kind {
    /// `slots` has the slot of each token, block * block_size + place: a runtime's slot mapping.
    Mapping = 2601,
    /// `count` slots from `first` on.
    Range = 2602,
    /// By the pages of each sequence (FlashInfer's CSR): token i is of sequence `sequences[i]` at `positions[i]`; the
    /// pages of sequence s are `pages[starts[s]]` to `pages[starts[s + 1] - 1]`.
    Pages = 2603,
    /// By a page table: `pages` is `[batch][width]`, the pages of each sequence of the tensor, and `positions` has
    /// the position of each token.
    Table = 2604,
    /// One block for each sequence of the tensor, and `positions` has the position of each token in it: ONNX Runtime.
    Sequences = 2605,
    /// `offsets` has the index of each token's first element, in elements of the cache: for a cache that
    /// rope_cache_layout cannot describe.
    Offsets = 2606,
    /// By a page table of sequences that are packed one after another in a tensor of one batch: sequence s has the
    /// tokens `starts[s]` to `starts[s + 1] - 1` (FlashAttention's cu_seqlens), the first of them at `positions[s]`;
    /// `pages` is `[sequences][width]`.
    PackedTable = 2607,
}
lookup!(rope_slots_kind, "kind of slots": Mapping Range Pages Table Sequences Offsets PackedTable);

/// A list of integers.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rope_ids {
    /// The integers.
    pub values: *const c_void,
    /// The number of ids.
    pub count: usize,
    /// Their type (ROPE_NUMBER_I32, ROPE_NUMBER_I64, ROPE_NUMBER_U32 or ROPE_NUMBER_U64).
    pub number: i32,
}
plain!(rope_ids);

impl rope_ids {
    /// # Safety
    ///
    /// `values` is null or points to the integers, which nobody writes during `'a`.
    unsafe fn ids<'a>(&self, name: &'static str) -> Result<(Ids<'a>, Region), Failure> {
        let number = rope_number::from_c(self.number)?;
        // SAFETY: the caller promises that `values` is null or has the integers, which nobody writes during `'a`.
        unsafe { ids(name, number, self.values, self.count) }
    }
}

/// The slot of each token, sequence by sequence. Fields that a kind does not name are not
/// read.
///
/// A token with a negative slot or offset is skipped, and with pages, a table or sequences one at a negative position:
/// nothing is written for it, and nothing read. In a mapping only the slot counts: the row of a negative position
/// rotates backwards. A negative page of a position that exists is refused. Of two tokens with one slot the later one
/// stays.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rope_slots {
    /// The form of the list (`enum rope_slots_kind`).
    pub kind: i32,
    /// MAPPING: the slot of each token.
    pub slots: rope_ids,
    /// PAGES, TABLE, SEQUENCES: the position of each token in its sequence. PACKED_TABLE: the position of the first
    /// token of each sequence.
    pub positions: rope_ids,
    /// PAGES: the pages of all sequences. TABLE, PACKED_TABLE: the table.
    pub pages: rope_ids,
    /// PAGES: the first page of each sequence, and the end of the last sequence's pages. PACKED_TABLE: the same for
    /// tokens.
    pub starts: rope_ids,
    /// PAGES: the sequence of each token.
    pub sequences: rope_ids,
    /// TABLE, PACKED_TABLE: pages of a sequence's line.
    pub width: usize,
    /// RANGE: the first slot.
    pub first: usize,
    /// RANGE: how many slots. OFFSETS: how many offsets.
    pub count: usize,
    /// OFFSETS: the offset of each token.
    pub offsets: *const i64,
}
plain!(rope_slots);

impl rope_slots {
    /// The shape of the table.
    fn shape(&self) -> [usize; 2] {
        let lines = self.pages.count.checked_div(self.width);
        [lines.unwrap_or(0), self.width]
    }

    /// The slots, and the bytes they are read from.
    ///
    /// # Safety
    ///
    /// The pointers that the kind names are null or point to their lists, which nobody writes during `'a`.
    pub(crate) unsafe fn slots<'a>(&self) -> Result<(Slots<'a>, [Region; 4]), Failure> {
        let mut regions = [Region::bytes("slots", 0, 0); 4];
        // SAFETY: the caller promises that the list is readable, and that nobody writes it during `'a`.
        let list = |ids: &rope_ids, name| unsafe { ids.ids(name) };
        let slots = match rope_slots_kind::from_c(self.kind)? {
            rope_slots_kind::Mapping => {
                let (slots, region) = list(&self.slots, "slots")?;
                regions[0] = region;
                Slots::from(slots)
            }
            rope_slots_kind::Range => {
                let (name, len) = ("slots", self.count);
                let end = self.first.checked_add(len);
                Slots::from(self.first..end.ok_or(Failure::Length { name, len })?)
            }
            rope_slots_kind::Pages => {
                let (pages, first) = list(&self.pages, "pages")?;
                let (starts, second) = list(&self.starts, "starts")?;
                let (sequences, third) = list(&self.sequences, "sequences")?;
                let (positions, fourth) = list(&self.positions, "positions")?;
                regions = [first, second, third, fourth];
                Slots::pages(pages, starts, sequences, positions)
            }
            rope_slots_kind::Table => {
                let (table, first) = list(&self.pages, "pages")?;
                let (positions, second) = list(&self.positions, "positions")?;
                (regions[0], regions[1]) = (first, second);
                Slots::table(table, self.shape(), positions)
            }
            rope_slots_kind::PackedTable => {
                let (table, first) = list(&self.pages, "pages")?;
                let (starts, second) = list(&self.starts, "starts")?;
                let (positions, third) = list(&self.positions, "positions")?;
                (regions[0], regions[1], regions[2]) = (first, second, third);
                Slots::table(
                    table,
                    self.shape(),
                    Positions::packed_from(starts, positions)?,
                )
            }
            rope_slots_kind::Sequences => {
                let (positions, region) = list(&self.positions, "positions")?;
                regions[0] = region;
                Slots::sequences(positions)
            }
            rope_slots_kind::Offsets => {
                let offsets = Span::new("offsets", self.offsets, self.count)?;
                regions[0] = offsets.region();
                // SAFETY: the caller promises that the list is readable, and that nobody writes it during `'a`.
                Slots::offsets(unsafe { offsets.get() })
            }
        };
        Ok((slots, regions))
    }
}

#[derive(Clone, Copy)]
pub(crate) struct SlotsRecord {
    pub(crate) cache: CacheRecord,
    pub(crate) slots: rope_slots,
}

impl SlotsRecord {
    /// The same slots, or others, of a cache in other memory.
    ///
    /// # Safety
    ///
    /// The memory of the cache and the lists of the slots are there.
    pub(crate) unsafe fn at(
        &self,
        memory: *mut c_void,
        slots: Option<rope_slots>,
        scales: [*mut c_void; 2],
    ) -> Result<Self, Failure> {
        Ok(SlotsRecord {
            // SAFETY: the caller promises that `cache` and `slots` are null or valid.
            cache: unsafe { self.cache.at(memory, scales) }?,
            slots: slots.unwrap_or(self.slots),
        })
    }

    #[inline(never)]
    pub(crate) fn written(&self, read: Region) -> Result<(), Failure> {
        let (written, _) = self.cache.regions()?;
        (written.iter()).try_for_each(|written| written.apart_from(&[read]))
    }

    #[inline(never)]
    pub(crate) fn regions(&self) -> Result<Used, Failure> {
        let (of_cache, given) = self.cache.regions()?;
        // SAFETY: the slices of the lists end here.
        let [a, b, c, d] = unsafe { self.slots.slots() }?.1;
        let mut memory = [Region::NONE; 6];
        memory[..3].copy_from_slice(&of_cache);
        Ok(Used {
            memory,
            read: [a, b, c, d, given, Region::NONE],
        })
    }
}

/// The memory that an operand takes.
pub(crate) struct Used {
    /// The written memory of a target: elements or codes, scales, and zero points, of each part.
    pub(crate) memory: [Region; 6],
    /// The memory that is read besides: slots, and given scales.
    pub(crate) read: [Region; 6],
}

impl Used {
    /// Returns `ROPE_STATUS_MEMORY_OVERLAP` if written memory shares a byte with `read`.
    pub(crate) fn written_apart_from(&self, read: &[Region]) -> Result<(), Failure> {
        (self.memory.iter()).try_for_each(|written| written.apart_from(read))
    }

    /// `ROPE_STATUS_MEMORY_OVERLAP` if two regions of the written memory share a byte.
    pub(crate) fn apart(&self) -> Result<(), Failure> {
        let memory = self.memory.iter().enumerate();
        memory
            .rev()
            .try_for_each(|(index, written)| written.apart_from(&self.memory[..index]))
    }
}

/// Moves heads within a cache: copies the i-th slot of `from` to the i-th of `to`, as bits with their scales, as if all
/// slots were read before the first is written. Slots of `from` alone keep their heads. A move with a negative slot is
/// skipped.
///
/// The branch of a draft that was accepted moves to the slots after its prefix, and the tokens that stay after a drop
/// close the gap. Keys whose positions change also rotate, by rope_rotate of the slots `to`; values only move.
///
/// The moves run in the order of the lists or in its reverse, and nothing is allocated. One of the two fits every list
/// that keeps the order of its tokens. Cycles, as an exchange of two slots, are refused with ROPE_STATUS_MOVE_ORDER.
///
/// Returns ROPE_STATUS_MOVE_ORDER, ROPE_STATUS_SAME_TARGET, ROPE_STATUS_SLOT_COUNT unless the lists have one length,
/// ROPE_STATUS_CACHE_LAYOUT for offsets, and what rope_rotate returns of a cache. The cache is untouched then.
///
/// # Threads
///
/// May be called from any thread. No other thread may use the cache's memory and scales meanwhile.
///
/// # Safety
///
/// As rope_rotate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_move_slots(
    cache: *const rope_cache,
    from: *const rope_slots,
    to: *const rope_slots,
) -> rope_status {
    status_of(|| {
        // SAFETY: the caller promises that pointers, also those in structs, are null or valid during the call, and that
        // nobody else uses the cache. Its memory becomes slices only after a check that it is disjoint from both lists.
        unsafe {
            let cache = look("cache", cache)?.record()?;
            let [from, to] = [("from", from), ("to", to)].map(|(name, slots)| look(name, slots));
            let (from, to) = (*from?, *to?);
            for slots in [from, to] {
                let used = SlotsRecord { cache, slots }.regions()?;
                used.apart()?;
                used.written_apart_from(&used.read)?;
            }
            Ok(cache.write()?.move_slots(from.slots()?.0, to.slots()?.0)?)
        }
    })
}
