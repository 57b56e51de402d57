//! Slots and pages of caches.

use super::count::Count;

errors! {
    /// The slots of a call: their number, or one that the cache does not have.
    ///
    /// [`Error::Slots`](crate::Error::Slots) holds it.
    ///
    /// ```
    /// use rope_core::cache::{CacheLayout, CacheMut};
    /// use rope_core::error::SlotsError;
    /// use rope_core::{Error, Pairing, Rope, Rows};
    ///
    /// let mut memory = [0.0_f32; 8];
    /// let mut cache = CacheMut::new(&mut memory, CacheLayout::nhd([1, 2, 1, 4])?)?;
    /// let rows = Rows::new(&[1.0, 1.0, 0.0, 0.0], [1, 4])?;
    /// let refused = Rope::new(Pairing::Half).rotate(&mut cache.slots(7), &rows);
    /// assert_eq!(refused, Err(Error::Slots(SlotsError::Slot { index: 0, slot: 7, slots: 2 })));
    /// # Ok::<(), Error>(())
    /// ```
    pub enum SlotsError =>
    /// Not one slot for each token of each sequence.
    Count {
        /// Slots given.
        slots: usize,
        /// Tokens of a sequence.
        tokens: usize,
        /// Sequences of the batch.
        batch: usize,
    }: Shape => |f| write!(
        f,
        "the number of slots is {slots}; for batch {batch} and {} it must be {}, one per token of each sequence, \
         negative where nothing is written",
        Count(tokens, "tokens"),
        batch.saturating_mul(tokens)
    ),
    /// A slot that the cache does not have.
    Slot {
        /// Index of the token.
        index: usize,
        /// The slot.
        slot: i64,
        /// Slots of the cache.
        slots: usize,
    }: Index => "slot {slot} (of token {index}) is outside the cache's 0..{slots}",
    /// [`CacheMut::move_slots`](crate::cache::CacheMut::move_slots): two moves write one slot.
    SameTarget {
        /// The slot.
        slot: usize,
        /// Index of the first move that writes it.
        first: usize,
        /// Index of the next one.
        second: usize,
    }: Value =>
        "slot {slot} is the target of move {first} and of move {second}; give each move a target of its own, or a \
         negative slot to skip it",
    /// [`CacheMut::move_slots`](crate::cache::CacheMut::move_slots): a move reads a slot after another wrote it, in the
    /// order of the lists, and so it is in the reverse order.
    MoveOrder {
        /// The slot.
        slot: usize,
        /// Index of the move that reads it.
        read: usize,
        /// Index of the move that writes it.
        written: usize,
    }: Value =>
        "move {written} writes slot {slot} before move {read} reads it, and the reverse order fits no better; move the \
         slots in several calls, and those of a cycle by a free slot",
    /// A call writes, shifts or moves a part of a group of slots that share the numbers of their channels
    /// ([`CacheFormat::by_channel`](crate::cache::CacheFormat::by_channel)).
    PartOfGroup {
        /// Index of a token; `u32::MAX` beyond that.
        index: u32,
        /// Its slot.
        slot: usize,
        /// The consecutive slots that the call has from there on.
        found: usize,
        /// Slots of a group.
        tokens: usize,
    }: Value => |f| write!(
        f,
        "token {index} begins {found} consecutive slots at slot {slot}, but slots share scales by channel in groups of \
         {tokens}, which begin at multiples of {tokens}; write, shift and move whole groups in order, and keep tokens in \
         a cache of elements until they fill one"
    ),
    /// A rotation in place: two tokens have one slot and different rows. Its heads would move twice. With equal rows
    /// they move once.
    Repeated {
        /// The slot; with [`Slots::offsets`](crate::cache::Slots::offsets) the element that the tokens begin at.
        slot: usize,
        /// Index of the first token.
        first: usize,
        /// Index of the second token.
        second: usize,
    }: Index =>
        "slot {slot} is that of tokens {first} and {second}, whose rows differ; a rotation in place moves a slot once: \
         list it once, or with equal rows",
    /// [`Slots::offsets`](crate::cache::Slots::offsets): a token would reach past the cache.
    Offset {
        /// Index of the token.
        index: usize,
        /// The element it begins at.
        offset: i64,
        /// From its first element to its last.
        extent: usize,
        /// The length of the cache.
        len: usize,
    }: Index =>
        "offset {offset} (of token {index}) leaves no room for the {extent} of its heads in the cache's {len}; offsets count \
         elements, and bytes where the cache has codes",
    /// [`Slots::pages`](crate::cache::Slots::pages), `table` and `sequences`: a position that the sequence has no page
    /// for, or a sequence that is not there.
    PagePosition {
        /// Index of the token.
        index: usize,
        /// Its position.
        position: i64,
        /// Its sequence.
        sequence: i64,
        /// The number of positions that the pages of the sequence hold; 0 if the sequence is not there.
        limit: usize,
    }: Index =>
        "position {position} (of token {index}) is beyond the pages of sequence {sequence}, which hold 0..{limit}; give \
         the sequence more pages, or the token a negative position",
    /// [`Slots::pages`](crate::cache::Slots::pages), `table`: a page that the cache does not have.
    Page {
        /// Index of the token.
        index: usize,
        /// Its position.
        position: i64,
        /// The page of the position.
        page: i64,
        /// Pages of the cache.
        pages: usize,
    }: Index => "page {page} (of token {index}, at position {position}) is outside the cache's 0..{pages}",
    /// [`Slots::pages`](crate::cache::Slots::pages), `table`: the page of a position that is not negative is negative.
    NegativePage {
        /// Index of the token; `u32::MAX` beyond that.
        index: u32,
        /// Its position.
        position: i64,
        /// Its sequence.
        sequence: i64,
        /// The index of the page in its sequence.
        page: i64,
        /// The entry of the table.
        block: i64,
    }: Index =>
        "page {page} of sequence {sequence} is {block}, but position {position} (of token {index}) is in it; a token \
         is skipped by a negative position",
}
