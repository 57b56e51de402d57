//! Rotates one tensor into another that exceeds the caches: each line goes into a tile, which is written past the
//! caches.

use super::lines::copy_unrotated;
use super::staged::with_tile;
use crate::describe::tensor::{Bytes, BytesMut};
use crate::kernel::elements::OutOfPlaceFn;
use crate::pass::walk::Prefetch;
use crate::pass::{IoFormats, Pass};
use crate::simd::stream::Stream;
use crate::tuning::Access;

/// f32 values in the tile. Measured on Zen 3, a bf16 tensor of `[1, 2048, 32, 128]` into five, relative to calls of
/// `rotate_into`: 4 KiB 0.65, 2 KiB 0.73, 8 KiB 0.69.
const TILE: usize = 1024;

/// Bytes of the tile.
const TILE_BYTES: usize = size_of::<[f32; TILE]>();

/// Returns `true` if the target is written past the caches and its heads fit the tile.
pub(crate) fn takes(pass: &Pass<'_>, ends: IoFormats) -> bool {
    pass.streams && pass.shape.head_dim.saturating_mul(ends.target.size) <= TILE_BYTES
}

/// Rotates a tensor into another by one kernel.
pub(crate) fn run(
    pass: &Pass<'_>,
    (x, y): (Bytes<'_>, &mut BytesMut<'_>),
    ends: IoFormats,
    kernel: OutOfPlaceFn,
) {
    let (read, written) = (ends.source, ends.target);
    let head_bytes = pass.shape.head_dim * written.size;
    let mut walk = pass.walk_between(x.layout, y.layout);
    walk.most = TILE_BYTES / head_bytes;
    walk.prefetch = Prefetch::of(Access::Tile, pass.tuning, pass.shape, read.size);
    Stream::into(y.bytes, pass.proof, &mut |stream| {
        with_tile(TILE, &mut |tile| {
            let tile: &mut [u8] = bytemuck::cast_slice_mut(tile);
            walk.run_dyn(&mut |span| {
                let (source, line) = (&span.source(x.bytes), &span.line_in_tile(0));
                kernel(pass.proof, source, tile, line);
                copy_unrotated(pass.proof, ends, source, tile, line);
                let [at, step] = [span.at[1], span.steps[1]].map(|index| index * written.size);
                let together = if step == head_bytes { span.count } else { 1 };
                let heads = tile[..span.count * head_bytes].chunks_exact(together * head_bytes);
                for (index, bytes) in heads.enumerate() {
                    stream.write(at + index * step, bytes);
                }
            });
        });
    });
}
