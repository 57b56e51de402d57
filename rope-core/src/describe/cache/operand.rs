//! Slots of a cache as the operand of a call.

use super::{Cache, CacheMut, IntoSlots, SlotRange, Slots, SlotsTarget, Stored};
use crate::base::debug::debug;
use crate::{Error, Shape};

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

impl Cache<'_> {
    /// Returns the slots to read, one per token of each sequence.
    pub fn slots<'c, 's: 'c>(&'c self, slots: impl IntoSlots<'s>) -> CacheSlots<'c> {
        CacheSlots {
            cache: self,
            slots: slots.into(),
        }
    }
}

impl CacheMut<'_> {
    /// Returns the slots to write, or to rotate in place, one per token of each sequence. The slots borrow the cache
    /// until they are dropped.
    #[inline]
    pub fn slots<'c, 's: 'c>(&'c mut self, slots: impl IntoSlots<'s>) -> CacheSlotsMut<'c> {
        CacheSlotsMut {
            memory: self.memory,
            scales: self.scales,
            stored: &self.stored,
            slots: slots.into(),
        }
    }
}

impl CacheSlotsMut<'_> {
    /// Checks that heads of this shape fit the cache, and that each token has a slot or is skipped.
    pub(crate) fn check(&self, shape: Shape) -> Result<(), Error> {
        let len = self.memory.len() / self.stored.size();
        self.stored.check(shape, &self.slots, len)
    }
}

impl CacheSlotsMut<'_> {
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

debug!(CacheSlotsMut<'_>, |slots| layout: slots.stored.layout, slots: slots.slots);
