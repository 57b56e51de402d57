//! The slots that a walk over tokens saw, as bits on the stack: there may be no allocator.

/// The slots of a window of `64 * WORDS`, and whether each was seen. A cache of more slots takes several windows.
pub(super) struct SeenSlots<const WORDS: usize> {
    pub(super) first: usize,
    /// The least slot that was given and is after the window.
    next: Option<usize>,
    pub(super) words: [u64; WORDS],
}

impl<const WORDS: usize> SeenSlots<WORDS> {
    const SLOTS: usize = 64 * WORDS;

    /// Visits the windows that have slots in ascending order, until a visit returns a value. Each visit gives all slots
    /// to [`Self::see`].
    pub(super) fn each_window<T>(mut visit: impl FnMut(&mut Self) -> Option<T>) -> Option<T> {
        let mut seen = SeenSlots {
            first: 0,
            next: Some(0),
            words: [0; WORDS],
        };
        while let Some(slot) = seen.next.take() {
            seen.first = slot / Self::SLOTS * Self::SLOTS;
            seen.words.fill(0);
            if let found @ Some(_) = visit(&mut seen) {
                return found;
            }
        }
        None
    }

    /// Returns the word and the bit of a slot, if it is in the window.
    fn place(&self, slot: usize) -> Option<(usize, u64)> {
        let place = slot.checked_sub(self.first)?;
        (place < Self::SLOTS).then_some((place / 64, 1 << (place % 64)))
    }

    /// Returns true if a slot of the window was seen.
    pub(super) fn has_seen(&self, slot: usize) -> bool {
        let place = self.place(slot);
        place.is_some_and(|(word, bit)| self.words[word] & bit != 0)
    }

    /// Notes a slot; returns whether it was seen before, or `None` outside of the window.
    pub(super) fn see(&mut self, slot: usize) -> Option<bool> {
        let Some((word, bit)) = self.place(slot) else {
            if slot > self.first {
                self.next = Some(self.next.map_or(slot, |next| next.min(slot)));
            }
            return None;
        };
        let seen = self.words[word] & bit != 0;
        self.words[word] |= bit;
        Some(seen)
    }
}
