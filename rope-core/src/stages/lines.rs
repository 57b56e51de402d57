//! From a tensor into slots that keep elements, and within such slots: lines like those of any rotation.

use super::{HEADS, Source, Stages};
use crate::Shape;
use crate::cache::{CacheMut, Format, Slots};
use crate::kernel::tile::Ends;

impl Stages<'_> {
    /// Rotates, or copies, into slots that keep elements with the channels of a head side by side: line by line, with
    /// the kernels of a rotation from one tensor into another; or in place. The bits are the same.
    pub(crate) fn run_lines(
        &self,
        source: &Source<'_>,
        cache: &mut CacheMut<'_>,
        slots: &Slots<'_>,
    ) -> bool {
        let (None, None, Format::Element(element, in_place)) =
            (self.norm, self.scale, cache.stored().format)
        else {
            return false;
        };
        let layout = *cache.layout();
        // What is not rotated is copied, if it is of the same element.
        let converts = self.rotation.is_none() && !self.element.is(element);
        if self.staged || !layout.contiguous() || converts || matches!(source, Source::Cache(..)) {
            return false;
        }
        let Shape {
            batch,
            tokens,
            heads,
            head_dim,
        } = self.shape;
        if self.shape.is_empty() {
            return true;
        }
        let len = cache.len();
        let ends = self.rotation.as_ref().map(|rotation| Ends {
            source: self.element,
            input: rotation.input,
            target: element,
            output: rotation.output,
        });
        let fused = ends.and_then(|ends| match source {
            Source::Tensor(..) => ends.source.fused(ends.input, ends.target, ends.output),
            _ => Some(in_place.kernel(ends.input)),
        });
        let mut starts = [0; HEADS];
        let each = (0..batch).flat_map(|batch| (0..tokens).map(move |token| (batch, token)));
        for (index, (batch, token)) in each.enumerate() {
            let Some(at) = slots.locate(index, tokens, &layout, len) else {
                continue;
            };
            let (bytes, source_step) = match source {
                Source::Tensor(tensor, element) => {
                    let start = tensor.layout.head(batch, token, 0) * element.size;
                    (Some(&tensor.bytes[start..]), tensor.layout.strides().head)
                }
                _ => (None, 0),
            };
            let target_step = layout.strides().head;
            let (Some(rotation), Some(ends)) = (&self.rotation, ends) else {
                let (bytes, size) = (bytes.unwrap_or_default(), element.size);
                let target = cache.slot(at);
                for head in 0..heads {
                    let from = &bytes[head * source_step * size..][..head_dim * size];
                    target[head * target_step * size..][..head_dim * size].copy_from_slice(from);
                }
                continue;
            };
            let rows = &rotation.rows;
            if self.skips_still && rows.is_still(batch, token) {
                continue;
            }
            // Heads that share their row are one line.
            let together = rows.head_stride().map_or(heads, |_| HEADS);
            let mut head = 0;
            while head < heads {
                let count = together.min(heads - head);
                let starts = &mut starts[..count.min(HEADS)];
                let line = &mut rotation.line(
                    bytes.map(|bytes| &bytes[head * source_step * self.element.size..]),
                    &mut cache.slot(at)[head * target_step * element.size..],
                    [count, head_dim],
                    [source_step, target_step],
                    rows.starts([batch, token, head], starts),
                    0,
                );
                match fused {
                    Some(kernel) => kernel(self.proof, line),
                    None => ends.rotate(self.proof, line),
                }
                if bytes.is_some() {
                    ends.copy_unrotated(self.proof, line);
                }
                head += count;
            }
        }
        true
    }
}
