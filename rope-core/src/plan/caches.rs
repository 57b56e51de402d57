//! Keys and values into caches, in one call.

use super::kinds::check_head;
use super::{Plain, Rope, Stages};
use crate::describe::cache::{CacheMut, IntoSlots};
use crate::kernel::element::Element;
use crate::{Dimension, Error, Rows, Tensor};

impl<S: Stages> Rope<S> {
    /// Writes keys and values of the same tokens into the same slots: keys through the plan, values converted alone.
    /// (Values with a Hadamard transform of their own take [`Rope::apply_into`].)
    /// Everything is checked before either cache is written.
    ///
    /// # Errors
    ///
    /// Those of [`Rope::rotate_into`] for either, and [`Error::KeyValueMismatch`] if the tokens of the two
    /// tensors are not as many.
    pub fn rotate_into_caches<'s, K: Element, V: Element>(
        &self,
        (k, keys): (&Tensor<'_, K>, &mut CacheMut<'_>),
        (v, values): (&Tensor<'_, V>, &mut CacheMut<'_>),
        slots: impl IntoSlots<'s>,
        rows: &Rows<'_>,
    ) -> Result<(), Error> {
        let slots = slots.into_slots();
        let (key, value) = (k.shape(), v.shape());
        if let Some((dimension @ (Dimension::Batch | Dimension::Tokens), key, value)) =
            key.difference(value)
        {
            return Err(Error::KeyValueMismatch {
                dimension,
                key,
                value,
            });
        }
        values.stored().check(value, &slots, values.len())?;
        check_head(value)?;
        self.rotate_into(k, &mut keys.slots(slots), rows)?;
        self.with(Plain).apply_into(v, &mut values.slots(slots))
    }
}
