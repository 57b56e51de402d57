//! Over a tile of the element that is read: heads are rotated into it, or copied and normed there, by the kernels of
//! lines, and quantized from it.
//!
//! The tile loses nothing where what is quantized is rounded to that element first, or the element is f32; so the bits
//! are those of the stages.

use super::lines::copy_unrotated;
use super::normed::{FusedNorm, NormWeights, copy_heads};
use crate::base::limits::{MOST_CHANNELS, MOST_HEADS};
use crate::describe::cache::Format;
use crate::kernel::element::ElementKernels;
use crate::kernel::elements::OutOfPlaceFn;
use crate::kernel::norm::ROOTS;
use crate::kernel::values::Values;
use crate::pass::walk::Prefetch;
use crate::pass::{Operand, OperandMut, Pass};
use crate::tuning::Access;

/// Bytes of a tile: the longest head of 16 bits. To clear it takes as long as to rotate four heads, once a call.
const TILE: usize = 2 * MOST_CHANNELS;

/// On cache lines of its own: a vector that crosses two costs twice as much.
#[repr(align(64))]
struct ByteTile([u8; TILE]);

/// How heads come to where they are quantized.
enum Way<'w> {
    /// Into the tile, by the kernel of a rotation.
    Rotated(OutOfPlaceFn),
    /// Copied into the tile, and normed and rotated there.
    Normed(FusedNorm<'w>),
}

/// From a tensor into a quantized format.
pub(crate) fn run(pass: &Pass<'_>, source: &Operand<'_>, target: &mut OperandMut<'_, '_>) -> bool {
    let mut walk = pass.walk(Some(source), target);
    let (Operand::Tensor(x, element), OperandMut::Cache(cache)) = (source, target) else {
        return false;
    };
    let Format::Codes(codes) = cache.stored.format else {
        return false;
    };
    let head_dim = pass.shape.head_dim;
    let head_bytes = head_dim * element.size;
    let rounds = |norm| pass.rounds && !pass.promotes(norm);
    let exact = element.is(f32::OUT_OF_PLACE) || pass.norm().map_or(pass.rounds, rounds);
    let (ends, fits) = (pass.ends(element, element), exact && head_bytes <= TILE);
    let mut weights;
    let way = match (&pass.rotation, pass.norm()) {
        _ if pass.stages.is_some_and(|stages| stages.has_linear()) => return false,
        (Some(_), None) if fits => match ends.fused() {
            Some(kernel) => Way::Rotated(kernel),
            None => return false,
        },
        (Some(_), Some(_)) if fits => match pass.fused_norm() {
            Some(norm) => {
                weights = NormWeights::ones();
                Way::Normed(FusedNorm::new(pass, norm, &mut weights))
            }
            None => return false,
        },
        _ => return false,
    };
    let tile = &mut ByteTile([0; TILE]).0;
    let mut kept;
    let side: &mut [u8] = if cache.stored.layout.contiguous() {
        &mut []
    } else {
        kept = [0; MOST_CHANNELS];
        &mut kept
    };
    let mut roots = [0.0; ROOTS];
    walk.most = (TILE / head_bytes.max(1)).min(MOST_HEADS);
    walk.prefetch = Prefetch::of(Access::Tile, pass.tuning, pass.shape, element.size);
    walk.run_dyn(&mut |span| {
        let source = &span.source(x.bytes);
        let line = &mut span.line_in_tile(tile, 0);
        match &way {
            Way::Rotated(kernel) => {
                kernel(pass.proof, source, line);
                copy_unrotated(pass.proof, ends, source, line);
            }
            Way::Normed(norm) => {
                copy_heads(source, line, element.size);
                norm.run(line, 0, &mut roots);
            }
        }
        let values = Values::of(element.element, &tile[..span.count * head_bytes]);
        let heads = [span.first[2], span.count];
        cache.write_codes(pass.proof, codes, span.tokens[1], heads, values, side);
    });
    true
}
