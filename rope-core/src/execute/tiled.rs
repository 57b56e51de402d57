//! Runs a pass over a tile of elements: line kernels rotate heads into it, or norm and rotate copies in it; the tile is
//! quantized, or written past the caches.
//!
//! Before a quantizer the tile has the source's element. It loses nothing if the input of the quantizer is rounded to
//! that element anyway, or if the element is f32. The bits are therefore those of the stages.

use super::lines::copy_unrotated;
use super::normed::{FusedNorm, NormWeights, copy_heads};
use crate::base::limits::{MOST_CHANNELS, MOST_HEADS};
use crate::describe::address::Addresses;
use crate::describe::cache::{Codes, SlotsTarget};
use crate::describe::tensor::{Bytes, BytesMut};
use crate::kernel::element::Element;
use crate::kernel::elements::{OutOfPlaceFn, OutOfPlaceKernels};
use crate::kernel::line::{Line, SourceLine};
use crate::kernel::norm::ROOTS;
use crate::kernel::values::Values;
use crate::pass::walk::{LineSpan, Prefetch, Walk};
use crate::pass::{IoFormats, NormRotate, Pass};
use crate::simd::stream::Stream;
use crate::tuning::Access;

/// Bytes of a tile: the longest head of 16-bit elements. Clearing it takes as long as rotating four heads, once per
/// call. Of other sizes, a bf16 tensor of `[1, 2048, 32, 128]` into five, past the caches, takes longer: relative to
/// calls of `rotate_into` 4 KiB 0.65, 2 KiB 0.73, 8 KiB 0.69 (Zen 3).
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

/// Returns `true` if the target is written past the caches and its heads fit the tile.
pub(crate) fn streams(pass: &Pass<'_>, ends: IoFormats) -> bool {
    pass.streams && pass.shape.head_dim.saturating_mul(ends.target.size) <= TILE
}

/// Runs a pass from a tensor into a quantized format.
pub(crate) fn quantize(
    pass: &Pass<'_>,
    (x, element): (Bytes<'_>, &'static OutOfPlaceKernels),
    cache: &mut SlotsTarget<'_>,
    codes: Codes<'_>,
    way: Way<'_>,
) {
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
    walk.most = MOST_HEADS;
    let mut side = None;
    let side = cache.side(&mut side);
    let mut roots = [0.0; ROOTS];
    let fill = |source: &SourceLine<'_>, tile: &mut [u8], line: &Line<'_>| {
        if let Way::Rotate(kernel) = way {
            kernel(pass.proof, source, tile, line);
            copy_unrotated(pass.proof, ends, source, tile, line);
        } else if let Some(norm) = &norm {
            copy_heads(source, tile, line, element.size);
            norm.run(tile, line, 0, &mut roots);
        }
    };
    through_tile(pass, walk, x.bytes, ends, fill, |span, heads| {
        let values = Values::of(element.element, heads);
        let heads = [span.first[2], span.count];
        cache.write_codes(pass.proof, codes, span.tokens[1], heads, values, side);
    });
}

/// Rotates a tensor into another that exceeds the caches, by one kernel.
pub(crate) fn stream(
    pass: &Pass<'_>,
    (x, y): (Bytes<'_>, &mut BytesMut<'_>),
    ends: IoFormats,
    kernel: OutOfPlaceFn,
) {
    let size = ends.target.size;
    let head_bytes = pass.shape.head_dim * size;
    let fill = |source: &SourceLine<'_>, tile: &mut [u8], line: &Line<'_>| {
        kernel(pass.proof, source, tile, line);
        copy_unrotated(pass.proof, ends, source, tile, line);
    };
    Stream::into(y.bytes, pass.proof, &mut |stream| {
        let walk = pass.walk_between(x.layout, y.layout);
        through_tile(pass, walk, x.bytes, ends, fill, |span, heads| {
            let [at, step] = [span.at[1], span.steps[1]].map(|index| index * size);
            let together = if step == head_bytes { span.count } else { 1 };
            for (index, bytes) in heads.chunks_exact(together * head_bytes).enumerate() {
                stream.write(at + index * step, bytes);
            }
        });
    });
}

/// Fills the tile with the heads of each line, and writes it.
#[inline(always)]
fn through_tile<S: Addresses, T: Addresses>(
    pass: &Pass<'_>,
    walk: Walk<'_, S, T>,
    memory: &[u8],
    ends: IoFormats,
    mut fill: impl FnMut(&SourceLine<'_>, &mut [u8], &Line<'_>),
    mut write: impl FnMut(&LineSpan<'_>, &[u8]),
) {
    let head_bytes = pass.shape.head_dim * ends.target.size;
    let tile = &mut ByteTile([0; TILE]).0;
    Walk {
        most: walk.most.min(TILE / head_bytes.max(1)),
        prefetch: Prefetch::of(Access::Tile, pass.tuning, pass.shape, ends.source.size),
        ..walk
    }
    .run_dyn(&mut |span| {
        fill(&span.source(memory), tile, &span.line_in_tile(0));
        write(span, &tile[..span.count * head_bytes]);
    });
}
