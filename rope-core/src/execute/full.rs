//! Full-width rows: f32 tensors rotate in place, everything else in a tile. Calls refer to this module, so programs
//! without such rows do not link it.

use crate::Dimension;
use crate::Pairing;
use crate::describe::rows::{FullHeads, FullWidth, Rotation};
use crate::describe::tensor::BytesMut;
use crate::describe::window::WindowPart;
use crate::kernel::full::FullLine;
use crate::kernel::line::{Line, MoreTokens};
use crate::pass::walk::Walk;
use crate::proof::Proof;
use crate::tuning::Tuning;

/// The code that rotates by full-width rows.
pub(crate) static FULL_WIDTH: FullWidth = FullWidth { in_place, tile };

fn in_place((proof, tuning): (Proof, &Tuning), x: &mut BytesMut<'_>, rotation: &Rotation<'_>) {
    let Rotation { rows, factors, .. } = rotation;
    let parts = (rotation.window).parts(x.layout.shape().head_dim, rows.pairs);
    for WindowPart { channels, pairs } in parts {
        let layout = &x.layout.part(Dimension::Channels, channels);
        let (x, rows) = (x.part(layout), rows.of_pairs(pairs));
        Walk::in_place(tuning, layout, x.size, &rows, factors.as_ref()).run_dyn(&mut |span| {
            let (before, memory) = span.split(x.bytes, x.size);
            rotate(proof, rotation.input, memory, &span.line(before));
        });
    }
}

fn tile(
    proof: Proof,
    rotation: &Rotation<'_>,
    shape: FullHeads<'_>,
    tile: &mut [f32],
    side: &mut [f32],
) {
    let Rotation { input, output, .. } = *rotation;
    let FullHeads {
        rows,
        head_dim,
        first,
    } = shape;
    // The channels of a row are those of the tensor before the rotation, which is the output of a transpose.
    let transposed = rotation.factors.is_some();
    if input == output || !transposed {
        rotate_tile(proof, input, tile, shape);
    }
    if input != output {
        let side = &mut side[..tile.len()];
        for (to, from) in side
            .chunks_exact_mut(head_dim)
            .zip(tile.chunks_exact(head_dim))
        {
            reorder(input, rows.pairs, &from[first..], &mut to[first..]);
        }
        if transposed {
            rotate_tile(proof, output, side, shape);
        }
    }
}

/// Rotates contiguous heads.
fn rotate_tile(proof: Proof, pairing: Pairing, heads: &mut [f32], shape: FullHeads<'_>) {
    let FullHeads {
        rows,
        head_dim,
        first,
    } = shape;
    let line = &Line {
        heads: heads.len() / head_dim,
        step: head_dim,
        head_dim: head_dim - first,
        rows,
        ahead: 0,
        before: &[],
        more: &MoreTokens::NONE,
    };
    let memory = bytemuck::cast_slice_mut(&mut heads[first..]);
    rotate(proof, pairing, memory, line);
}

/// Copies the pairs of a head from this pairing to the other.
fn reorder(input: Pairing, pairs: usize, from: &[f32], to: &mut [f32]) {
    for pair in 0..pairs {
        let (half, interleaved) = ([pair, pairs + pair], [2 * pair, 2 * pair + 1]);
        let (read, written) = match input {
            Pairing::Half => (half, interleaved),
            Pairing::Interleaved => (interleaved, half),
        };
        for (read, written) in read.into_iter().zip(written) {
            to[written] = from[read];
        }
    }
}

#[inline(never)]
fn rotate(proof: Proof, pairing: Pairing, memory: &mut [u8], line: &Line<'_>) {
    proof.run_in(memory, 0, FullLine { line, pairing });
}
