//! Runs a pass over a tile of the source's element: line kernels rotate heads into it, or norm and rotate copies in it;
//! the quantizer reads the tile.
//!
//! The tile loses nothing if the input of the quantizer is rounded to that element anyway, or if the element is f32.
//! The bits are therefore those of the stages.

use super::lines::copy_unrotated;
use super::normed::{FusedNorm, NormWeights, copy_heads};
use crate::base::limits::{MOST_CHANNELS, MOST_HEADS};
use crate::describe::cache::{Codes, SlotsTarget};
use crate::describe::tensor::Bytes;
use crate::kernel::element::Element;
use crate::kernel::elements::{OutOfPlaceFn, OutOfPlaceKernels};
use crate::kernel::norm::ROOTS;
use crate::kernel::values::Values;
use crate::pass::walk::Prefetch;
use crate::pass::{NormRotate, Pass};
use crate::tuning::Access;

/// Bytes of a tile: the longest head of 16-bit elements. Clearing it takes as long as rotating four heads, once per
/// call.
const TILE: usize = 2 * MOST_CHANNELS;

/// Bytes aligned to cache lines: a vector across two lines costs twice as much.
#[repr(align(64))]
struct ByteTile([u8; TILE]);

/// The work on heads before their quantization.
pub(crate) enum Way<'a> {
    /// Rotates into the tile.
    Rotate(OutOfPlaceFn),
    /// Copies into the tile, and norms and rotates there.
    NormRotate(NormRotate<'a>),
}

/// Returns `true` if the tile keeps the bits of the stages: a head fits it, and its element is f32, or the element that
/// values are rounded to before quantization.
pub(crate) fn is_exact(pass: &Pass<'_>, element: &OutOfPlaceKernels) -> bool {
    let rounds = |norm| pass.rounds && !pass.promotes(norm);
    let exact = element.is(f32::OUT_OF_PLACE) || pass.norm().map_or(pass.rounds, rounds);
    exact && pass.shape.head_dim * element.size <= TILE
}

/// Runs a pass from a tensor into a quantized format.
pub(crate) fn run(
    pass: &Pass<'_>,
    (x, element): (Bytes<'_>, &'static OutOfPlaceKernels),
    cache: &mut SlotsTarget<'_>,
    codes: Codes<'_>,
    way: Way<'_>,
) {
    let head_bytes = pass.shape.head_dim * element.size;
    let ends = pass.ends(element, element);
    let mut weights;
    let norm = match way {
        Way::Rotate(_) => None,
        Way::NormRotate(norm) => {
            weights = NormWeights::ones();
            Some(FusedNorm::new(pass, norm, &mut weights))
        }
    };
    let mut walk = pass.walk_into_slots(x.layout, cache);
    let tile = &mut ByteTile([0; TILE]).0;
    let mut side = None;
    let side = cache.side(&mut side);
    let mut roots = [0.0; ROOTS];
    walk.most = (TILE / head_bytes.max(1)).min(MOST_HEADS);
    walk.prefetch = Prefetch::of(Access::Tile, pass.tuning, pass.shape, element.size);
    walk.run_dyn(&mut |span| {
        let source = &span.source(x.bytes);
        let line = &span.line_in_tile(0);
        if let Way::Rotate(kernel) = way {
            kernel(pass.proof, source, tile, line);
            copy_unrotated(pass.proof, ends, source, tile, line);
        } else if let Some(norm) = &norm {
            copy_heads(source, tile, line, element.size);
            norm.run(tile, line, 0, &mut roots);
        }
        let values = Values::of(element.element, &tile[..span.count * head_bytes]);
        let heads = [span.first[2], span.count];
        cache.write_codes(pass.proof, codes, span.tokens[1], heads, values, side);
    });
}
