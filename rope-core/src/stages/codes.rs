//! From a tensor into slots that keep codes: heads are rotated as elements into a tile, line by line, and codes are
//! made of what lies there. Where nothing rotates, codes are made of the tensor.

use super::{HEADS, Source, Stages};
use crate::Shape;
use crate::cache::{CacheMut, Format, MOST_CHANNELS, MOST_HEADS, Slots};
use crate::kernel::chains::F32;
use crate::kernel::tile::Ends;
use crate::kernel::values::Values;

/// Bytes of a tile: the longest head of 16 bits. To clear it takes as long as to rotate four heads, once a call.
const TILE: usize = 2 * MOST_CHANNELS;

/// On cache lines of its own: a vector that crosses two costs twice as much.
#[repr(align(64))]
struct Tile([u8; TILE]);

impl Stages<'_> {
    /// Rotates, or converts alone, into slots that keep codes, if a code is made of an element: by the kernels from one
    /// tensor into another, and by those of codes, which read elements. The bits are those of the stages.
    pub(crate) fn run_codes(
        &self,
        source: &Source<'_>,
        cache: &mut CacheMut<'_>,
        slots: &Slots<'_>,
    ) -> bool {
        let (None, None, Source::Tensor(tensor, element), Format::Codes(codes)) =
            (self.norm, self.scale, source, cache.stored().format)
        else {
            return false;
        };
        let Shape {
            batch,
            tokens,
            heads,
            head_dim,
        } = self.shape;
        if self.staged {
            return false;
        }
        if self.shape.is_empty() {
            return true;
        }
        let head_bytes = head_dim * element.size;
        let step = tensor.layout.strides().head;
        let (rotated, together) = match &self.rotation {
            None => (None, if step == head_dim { MOST_HEADS } else { 1 }),
            Some(rotation) => {
                let ends = Ends {
                    source: element,
                    input: rotation.input,
                    target: element,
                    output: rotation.output,
                };
                let fused = element.fused(ends.input, element, ends.output);
                let rounded = self.rounds || element.is(&F32);
                let Some(kernel) = fused.filter(|_| rounded && head_bytes <= TILE) else {
                    return false;
                };
                let together = (TILE / head_bytes).min(HEADS);
                (Some((rotation, ends, kernel)), together)
            }
        };
        // Of 16 bits a line takes so long that the CPU's own prefetcher keeps up. (A tensor whose elements coincide may
        // be larger than memory.)
        let all = match element.is(&F32) {
            true => [tokens, heads, head_bytes]
                .into_iter()
                .fold(batch, usize::saturating_mul),
            false => 0,
        };
        let (layout, len) = (*cache.layout(), cache.len());
        let mut tile = Tile([0; TILE]);
        let mut starts = [0; HEADS];
        let each = (0..batch).flat_map(|batch| (0..tokens).map(move |token| (batch, token)));
        for (index, (batch, token)) in each.enumerate() {
            let Some(at) = slots.locate(index, tokens, &layout, len) else {
                continue;
            };
            for head in (0..heads).step_by(together) {
                let count = together.min(heads - head);
                let start = tensor.layout.head(batch, token, head) * element.size;
                let mut bytes = &tensor.bytes[start..];
                if let Some((rotation, ends, kernel)) = rotated {
                    let starts = &mut starts[..count];
                    let line = &mut rotation.line(
                        Some(bytes),
                        &mut tile.0,
                        [count, head_dim],
                        [step, head_dim],
                        rotation.rows.starts([batch, token, head], starts),
                        all,
                    );
                    kernel(self.proof, line);
                    ends.copy_unrotated(self.proof, line);
                    bytes = &tile.0;
                }
                let values = Values::of(element.kind, &bytes[..count * head_bytes]);
                cache.write_codes(self.proof, codes, at, [head, count], values);
            }
        }
        true
    }
}
