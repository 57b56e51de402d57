//! Plain rotations of tensors with a window that does not start at the first channel.

use super::{DetourFns, InPlaceTensor, Rope};
use crate::describe::rows::View;
use crate::describe::tensor::{Bytes, BytesMut};
use crate::kernel::elements::OutOfPlaceKernels;
use crate::{Dimension, Error, Rows};

pub(super) static WINDOW: DetourFns = DetourFns {
    in_place,
    query_and_key,
    across,
    at: None,
    threads: None,
};

fn in_place(
    rope: &Rope,
    (x, element): InPlaceTensor<'_, '_>,
    rows: &Rows<'_>,
) -> Result<(), Error> {
    let layout = rope.windowed(x.layout)?;
    rope.window(0)
        .rotate_bytes(&mut x.part(&layout), element, rows)
}

fn query_and_key(
    rope: &Rope,
    [(q, query_element), (k, key_element)]: [InPlaceTensor<'_, '_>; 2],
    rows: &Rows<'_>,
) -> Result<(), Error> {
    let (query, key) = (rope.windowed(q.layout)?, rope.windowed(k.layout)?);
    rope.window(0).rotate_qk_bytes(
        (&mut q.part(&query), query_element),
        (&mut k.part(&key), key_element),
        rows,
    )
}

fn across(
    rope: &Rope,
    x: Bytes<'_>,
    y: &mut BytesMut<'_>,
    elements: [&'static OutOfPlaceKernels; 2],
    rows: &Rows<'_>,
) -> Result<(), Error> {
    let view = rope.check_windows(x.layout.shape(), y.layout.shape(), rows)?;
    rope.run_windowed(x, y, elements, view, rows.attention_factor());
    Ok(())
}

impl Rope {
    /// Rotates one tensor into another from the first channel of the window on; copies the channels before it.
    #[inline(never)]
    pub(crate) fn run_windowed(
        &self,
        x: Bytes<'_>,
        y: &mut BytesMut<'_>,
        elements: [&'static OutOfPlaceKernels; 2],
        rows: View<'_>,
        attention_factor: f64,
    ) {
        let (end, first) = (x.layout.shape().head_dim, self.first_channel);
        for (channels, rows) in [(first..end, rows), (0..first, rows.without_pairs())] {
            let [source, target] = [x.layout, y.layout]
                .map(|layout| layout.part(Dimension::Channels, channels.clone()));
            let (x, y) = (x.within(&source), &mut y.part(&target));
            self.run_across(x, y, elements, rows, attention_factor);
        }
    }
}
