//! From a tensor into slots that keep elements, and within such slots: lines like those of any rotation.

use super::{Source, Stages};
use crate::Pairing;
use crate::cache::{CacheMut, Format, Slots};
use crate::kernel::tile::Ends;
use crate::rows::View;
use crate::walk::{Order, Prefetch, Walk};

impl Stages<'_> {
    /// Rotates, or copies, into slots that keep elements with the channels of a head side by side: line by line, with
    /// the kernels of a rotation from one tensor into another; or in place. The bits are the same.
    pub(crate) fn run_lines(
        &self,
        source: &Source<'_>,
        cache: &mut CacheMut<'_>,
        slots: &Slots<'_>,
    ) -> bool {
        let len = cache.len();
        let (memory, stored) = cache.parts();
        let (None, None, Format::Element(element, in_place)) =
            (self.norm, self.scale, stored.format)
        else {
            return false;
        };
        if self.staged || !stored.layout.contiguous() {
            return false;
        }
        let (rows, factors, [input, output]) = match &self.rotation {
            Some(rotation) => (
                &rotation.rows,
                rotation.factors.as_ref(),
                [rotation.input, rotation.output],
            ),
            None => (&View::NONE, None, [Pairing::Half; 2]),
        };
        let walk = Walk {
            shape: self.shape,
            order: Order::BY_TOKEN,
            source: (),
            target: stored.in_slots(slots, len, self.shape.tokens),
            rows,
            factors,
            most: usize::MAX,
            prefetch: Prefetch::NONE,
        };
        match source {
            Source::Target => {
                let kernel = in_place.kernel(input);
                walk.run(|span| {
                    let [batch, token, _] = span.first;
                    if !self.skips_identity || !rows.is_identity(batch, token) {
                        kernel(self.proof, &mut span.line(memory));
                    }
                });
            }
            // What is not rotated is copied, if it is of the same element.
            Source::Tensor(tensor, from) if self.rotation.is_some() || from.is(element) => {
                let ends = Ends {
                    source: from,
                    input,
                    target: element,
                    output,
                };
                let fused = ends.fused();
                walk.from(tensor.layout).run(|span| {
                    let (source, line) = (&span.source(tensor.bytes), &mut span.line(memory));
                    match fused {
                        _ if rows.pairs() == 0 => {}
                        Some(kernel) => kernel(self.proof, source, line),
                        None => ends.rotate(self.proof, source, line),
                    }
                    ends.copy_unrotated(self.proof, source, line);
                });
            }
            _ => return false,
        }
        true
    }
}
