//! From a tensor into slots that keep codes: heads are rotated as elements into a tile, line by line, and codes are
//! made of what lies there. Where nothing rotates, codes are made of the tensor.

use super::{HEADS, Source, Stages};
use crate::cache::{CacheMut, Format, MOST_CHANNELS, MOST_HEADS, Slots};
use crate::kernel::chains::F32;
use crate::kernel::tile::Ends;
use crate::kernel::values::Values;
use crate::rows::View;
use crate::walk::{Access, Order, Prefetch, Walk};

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
        let (stored, len) = (*cache.stored(), cache.len());
        let (None, None, Source::Tensor(tensor, element), Format::Codes(codes)) =
            (self.norm, self.scale, source, stored.format)
        else {
            return false;
        };
        if self.staged {
            return false;
        }
        let head_dim = self.shape.head_dim;
        let head_bytes = head_dim * element.size;
        let (rotated, rows, factors, most) = match &self.rotation {
            None => {
                let contiguous = tensor.layout.strides().head == head_dim;
                let most = if contiguous { MOST_HEADS } else { 1 };
                (None, &View::NONE, None, most)
            }
            Some(rotation) => {
                let ends = Ends {
                    source: element,
                    input: rotation.input,
                    target: element,
                    output: rotation.output,
                };
                let rounded = self.rounds || element.is(&F32);
                let Some(kernel) = ends.fused().filter(|_| rounded && head_bytes <= TILE) else {
                    return false;
                };
                let most = (TILE / head_bytes.max(1)).min(HEADS);
                let factors = rotation.factors.as_ref();
                (Some((ends, kernel)), &rotation.rows, factors, most)
            }
        };
        let mut tile = Tile([0; TILE]);
        Walk {
            shape: self.shape,
            order: Order::BY_TOKEN,
            source: tensor.layout,
            target: stored.in_slots(slots, len, self.shape.tokens),
            rows,
            factors,
            most,
            prefetch: Prefetch::of(Access::Tile, self.shape, element.size),
        }
        .run(|span| {
            let mut bytes = &tensor.bytes[span.at[0] * element.size..];
            if let Some((ends, kernel)) = rotated {
                let (source, line) = (
                    &span.source(tensor.bytes),
                    &mut span.line_in_tile(&mut tile.0),
                );
                kernel(self.proof, source, line);
                ends.copy_unrotated(self.proof, source, line);
                bytes = &tile.0;
            }
            let values = Values::of(element.kind, &bytes[..span.count * head_bytes]);
            let heads = [span.first[2], span.count];
            cache.write_codes(self.proof, codes, span.tokens[1], heads, values);
        });
        true
    }
}
