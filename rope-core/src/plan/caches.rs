//! Keys and values into caches, in one call.

use super::kinds::check_head;
use super::operand::{AnglesKind, PassSource, SourceKind, TargetKind};
use super::{Plain, Rope, Stages};
use crate::describe::cache::{CacheMut, IntoSlots, Slots};
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
        let (k, v) = (
            PassSource::of::<K, S>(k.bytes()),
            PassSource::of::<V, Plain>(v.bytes()),
        );
        self.keys_and_values((k, keys), (v, values), slots.into_slots(), rows)
    }

    #[inline(never)]
    fn keys_and_values(
        &self,
        (k, keys): (PassSource<'_>, &mut CacheMut<'_>),
        (v, values): (PassSource<'_>, &mut CacheMut<'_>),
        slots: Slots<'_>,
        rows: &Rows<'_>,
    ) -> Result<(), Error> {
        let [key, value] = [&k, &v].map(|source| source.tensor.layout.shape());
        if let Some((dimension @ (Dimension::Batch | Dimension::Tokens), key, value)) =
            key.difference(value)
        {
            return Err(Error::KeyValueMismatch {
                dimension,
                key,
                value,
            });
        }
        let (mut keys, mut values) = (keys.slots(slots), values.slots(slots));
        values.check(value)?;
        check_head(value)?;
        let keys = TargetKind::Slots(keys.target());
        self.run_into(SourceKind::Tensor(k), keys, Some(AnglesKind::Rows(rows)))?;
        let values = TargetKind::Slots(values.target());
        self.with(Plain)
            .run_into(SourceKind::Tensor(v), values, None)
            .map(drop)
    }
}
