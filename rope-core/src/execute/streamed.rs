//! A rotation from one tensor into another that is in no cache when it is read again: into a tile, which is written
//! past the caches.

use super::lines::copy_unrotated;
use super::staged::with_tile;
use crate::pass::walk::Prefetch;
use crate::pass::{Operand, OperandMut, Pass};
use crate::simd::stream::Stream;
use crate::tuning::Access;

/// f32 of the tile. (A bf16 tensor of `[1, 2048, 32, 128]` into five, beside calls of `rotate_into`, on Zen 3: 4 KiB
/// 0.65, 2 KiB 0.73, 8 KiB 0.69.)
const TILE: usize = 1024;

/// A rotation alone, by one kernel.
pub(crate) fn run(pass: &Pass<'_>, source: &Operand<'_>, target: &mut OperandMut<'_, '_>) -> bool {
    if !pass.streams || pass.rotation.is_none() || pass.stages.is_some() {
        return false;
    }
    let mut walk = pass.walk(Some(source), target);
    let (Operand::Tensor(x, read), OperandMut::Tensor(y, written)) = (source, target) else {
        return false;
    };
    let (ends, head_bytes) = (pass.ends(read, written), pass.shape.head_dim * written.size);
    let tile_bytes = size_of::<[f32; TILE]>();
    let Some(kernel) = ends.fused().filter(|_| head_bytes <= tile_bytes) else {
        return false;
    };
    walk.most = tile_bytes / head_bytes;
    walk.prefetch = Prefetch::of(Access::Tile, pass.tuning, pass.shape, read.size);
    Stream::into(y.bytes, pass.proof, &mut |stream| {
        with_tile(TILE, &mut |tile| {
            let tile: &mut [u8] = bytemuck::cast_slice_mut(tile);
            walk.run_dyn(&mut |span| {
                let (source, line) = (&span.source(x.bytes), &mut span.line_in_tile(tile));
                kernel(pass.proof, source, line);
                copy_unrotated(pass.proof, ends, source, line);
                let [at, step] = [span.at[1], span.steps[1]].map(|index| index * written.size);
                let together = if step == head_bytes { span.count } else { 1 };
                let heads = tile[..span.count * head_bytes].chunks_exact(together * head_bytes);
                for (index, bytes) in heads.enumerate() {
                    stream.write(at + index * step, bytes);
                }
            });
        });
    });
    true
}
