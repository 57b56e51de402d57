//! One rotation spread over rayon's threads.

use crate::element::Element;
use crate::rows::View;
use crate::{Dimension, Error, Rope, Rows, TensorMut};

/// Elements below which a part is not split further: about as long as it takes to wake a thread.
const GRAIN: usize = 1 << 15;

impl Rope {
    /// [`Rope::rotate`] on the threads of the current rayon pool. The bits are the same.
    ///
    /// A tensor of less than 32,768 elements stays on this thread.
    ///
    /// # Errors
    ///
    /// Those of [`Rope::rotate`].
    pub fn rotate_parallel<E: Element>(
        &self,
        x: &mut TensorMut<'_, E>,
        rows: &Rows<'_>,
    ) -> Result<(), Error> {
        let sharing = self.check_in_place(x.shape(), rows)?;
        self.split(x.reborrow(), rows.view(sharing), rows.attention_factor());
        Ok(())
    }

    fn split<E: Element>(&self, mut x: TensorMut<'_, E>, rows: View<'_>, attention_factor: f64) {
        let large = x
            .shape()
            .elements()
            .is_none_or(|elements| elements >= 2 * GRAIN);
        let Some((dimension, extent)) = x.layout().outermost().filter(|_| large) else {
            return self.run_in_place(&mut x.bytes_mut(), E::IN_PLACE, &rows, attention_factor);
        };
        let at = extent / 2;
        let second_rows = match dimension {
            Dimension::Batch => rows.skip(at, 0),
            Dimension::Tokens => rows.skip(0, at),
            Dimension::Heads | Dimension::Channels => rows,
        };
        // Along the longest stride the parts never interleave.
        match x.reborrow().split_at(dimension, at) {
            Ok((first, second)) => {
                rayon::join(
                    || self.split(first, rows, attention_factor),
                    || self.split(second, second_rows, attention_factor),
                );
            }
            Err(_) => self.run_in_place(&mut x.bytes_mut(), E::IN_PLACE, &rows, attention_factor),
        }
    }
}
