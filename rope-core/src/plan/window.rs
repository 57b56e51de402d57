//! Plain rotations of tensors with a window that does not start at the first channel, or has several parts.

use super::{DetourFns, InPlaceTensor, Rope};
use crate::describe::rows::View;
use crate::describe::tensor::{Bytes, BytesMut, Layout};
use crate::describe::window::WindowPart;
use crate::kernel::elements::{InPlaceKernels, OutOfPlaceKernels};
use crate::{Dimension, Error, Rows};

pub(super) static WINDOW: DetourFns = DetourFns {
    in_place,
    query_and_key: in_place,
    across,
    at: None,
    threads: None,
};

fn in_place<const N: usize>(
    rope: &Rope,
    tensors: [InPlaceTensor<'_>; N],
    rows: &Rows<'_>,
) -> Result<(), Error> {
    let layouts = rope.windowed(tensors.each_ref().map(|(x, _)| x.layout), rows.rotary_dim())?;
    let mut tensors = narrowed(tensors, &layouts);
    if rope.window.parts == 1 {
        return rope.with_window(0).rotate_tensors(tensors, rows);
    }
    let view = rows.view(rope.check_tensors(&tensors, rows)?);
    for (x, element) in &mut tensors {
        rope.run_in_window(x, element, &view, rows.attention_factor());
    }
    Ok(())
}

/// Returns tensors with other layouts.
pub(super) fn narrowed<'t, const N: usize>(
    mut tensors: [InPlaceTensor<'t>; N],
    layouts: &'t [Layout; N],
) -> [InPlaceTensor<'t>; N] {
    for ((x, _), layout) in tensors.iter_mut().zip(layouts) {
        x.layout = layout;
    }
    tensors
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
    /// Rotates a tensor in place whose heads begin with the window, part by part.
    pub(crate) fn run_in_window(
        &self,
        x: &mut BytesMut<'_>,
        element: &'static InPlaceKernels,
        rows: &View<'_>,
        attention_factor: f64,
    ) {
        let (window, head_dim) = (self.window.at_first(), x.layout.shape().head_dim);
        if window.is_whole() {
            return self.run_in_place(x, element, rows, attention_factor);
        }
        for WindowPart { channels, pairs } in window.parts(head_dim, rows.pairs) {
            let layout = x.layout.part(Dimension::Channels, channels);
            let (mut x, rows) = (x.part(&layout), rows.of_pairs(pairs));
            self.run_in_place(&mut x, element, &rows, attention_factor);
        }
    }

    /// Rotates one tensor into another, part by part of the window; copies the channels before and after it.
    #[inline(never)]
    pub(crate) fn run_windowed(
        &self,
        x: Bytes<'_>,
        y: &mut BytesMut<'_>,
        elements: [&'static OutOfPlaceKernels; 2],
        rows: View<'_>,
        attention_factor: f64,
    ) {
        let before = WindowPart {
            channels: 0..self.window.first,
            pairs: 0..0,
        };
        let parts = (self.window).parts(x.layout.shape().head_dim, rows.pairs);
        for WindowPart { channels, pairs } in parts.chain([before]) {
            let rows = rows.of_pairs(pairs);
            let [source, target] = [x.layout, y.layout]
                .map(|layout| layout.part(Dimension::Channels, channels.clone()));
            let (x, y) = (x.within(&source), &mut y.part(&target));
            self.run_across(x, y, elements, rows, attention_factor);
        }
    }
}
