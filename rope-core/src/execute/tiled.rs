//! Over a tile of the element that is read: heads are rotated into it, or copied and normed there, by the kernels of
//! lines, and quantized from it. Where nothing rotates, they are quantized where they are read.
//!
//! The tile loses nothing where what is quantized is rounded to that element first, or the element is f32; so the bits
//! are those of the stages.

use super::normed::{FusedNorm, copy_heads};
use crate::cache::{Format, MOST_CHANNELS, MOST_HEADS};
use crate::kernel::chains::F32;
use crate::kernel::values::Values;
use crate::pass::{Operand, OperandMut, Pass};
use crate::walk::{Access, Order, Prefetch, Walk};

/// Bytes of a tile: the longest head of 16 bits. To clear it takes as long as to rotate four heads, once a call.
const TILE: usize = 2 * MOST_CHANNELS;

/// On cache lines of its own: a vector that crosses two costs twice as much.
#[repr(align(64))]
struct Tile([u8; TILE]);

/// From a tensor into a quantized format.
pub(crate) fn run(pass: &Pass<'_>, source: &Operand<'_>, target: &mut OperandMut<'_, '_>) -> bool {
    let (Operand::Tensor(x, element), OperandMut::Cache(cache, slots)) = (source, target) else {
        return false;
    };
    let (stored, len) = (*cache.stored(), cache.len());
    let Format::Codes(codes) = stored.format else {
        return false;
    };
    let head_dim = pass.shape.head_dim;
    let head_bytes = head_dim * element.size;
    let ends = pass.ends(element, element);
    let norm = FusedNorm::of(pass);
    let rounds = |norm| pass.rounds && !pass.promotes(norm);
    let exact = element.is(&F32) || pass.norm.map_or(pass.rounds, rounds);
    let fits = head_bytes <= TILE && exact;
    // How heads come into the tile, if they do.
    let rotated = match &pass.rotation {
        _ if pass.scale.is_some() => return false,
        None if pass.norm.is_none() => None,
        Some(_) if pass.norm.is_some() && norm.is_some() && fits => None,
        Some(_) if pass.norm.is_none() && fits => match ends.fused() {
            None => return false,
            kernel => kernel,
        },
        _ => return false,
    };
    let most = match (rotated, &norm) {
        (None, None) if x.layout.strides().head == head_dim => MOST_HEADS,
        (None, None) => 1,
        _ => (TILE / head_bytes.max(1)).min(MOST_HEADS),
    };
    let mut tile = Tile([0; TILE]);
    let slots = stored.in_slots(slots, len, pass.shape.tokens);
    Walk {
        most,
        prefetch: Prefetch::of(Access::Tile, pass.shape, element.size),
        ..pass.walk(Order::BY_TOKEN, x.layout, slots)
    }
    .run(|span| {
        let source = &span.source(x.bytes);
        let mut bytes = &x.bytes[span.at[0] * element.size..];
        if let Some(norm) = &norm {
            let line = &mut span.line_in_tile(&mut tile.0);
            copy_heads(source, line, element.size);
            norm.run(line, 0);
            bytes = &tile.0;
        } else if let Some(kernel) = rotated {
            let line = &mut span.line_in_tile(&mut tile.0);
            kernel(pass.proof, source, line);
            ends.copy_unrotated(pass.proof, source, line, &mut None);
            bytes = &tile.0;
        }
        let values = Values::of(element.kind, &bytes[..span.count * head_bytes]);
        let heads = [span.first[2], span.count];
        cache.write_codes(pass.proof, codes, span.tokens[1], heads, values);
    });
    true
}
