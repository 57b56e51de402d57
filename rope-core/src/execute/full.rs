//! Full-width rows: f32 in place where it lies, everything else in a tile. The rows refer to what is here, so that
//! programs without such rows do not link it.

use super::staged;
use crate::Pairing;
use crate::backend::Proof;
use crate::kernel::elements::ElementType;
use crate::kernel::full::FullLine;
use crate::kernel::line::Line;
use crate::pass::{OperandMut, Pass, PassKernels, Rotation};
use crate::tensor::BytesMut;
use crate::tuning::Tuning;
use crate::walk::{LineSpan, Walk};

/// What rotates by full-width rows.
#[derive(Debug)]
pub(crate) struct FullWidth {
    /// Rotates a tensor in place.
    pub(crate) in_place:
        fn((Proof, &'static Tuning), bool, &mut BytesMut<'_>, ElementType, Rotation<'_>),
    /// Rotates the heads of a line in a tile, or beside it, where the pairing changes: tells which.
    pub(crate) tile: fn(Proof, &Rotation<'_>, &LineSpan<'_>, &mut [f32], &mut [f32]) -> bool,
}

pub(crate) static FULL_WIDTH: FullWidth = FullWidth { in_place, tile };

fn in_place(
    (proof, tuning): (Proof, &'static Tuning),
    staged: bool,
    x: &mut BytesMut<'_>,
    element: ElementType,
    rotation: Rotation<'_>,
) {
    let pairing = rotation.input;
    if element == ElementType::F32 && !staged {
        Walk::in_place(
            tuning,
            x.layout,
            x.size,
            &rotation.rows,
            rotation.factors.as_ref(),
        )
        .run_dyn(&mut |span| rotate(proof, pairing, &mut span.line(x.bytes)));
        return;
    }
    let element = element.out_of_place();
    let shape = x.layout.shape();
    let pass = Pass {
        proof,
        tuning,
        element,
        kernels: PassKernels::default(),
        shape,
        part: shape.whole(),
        stages: None,
        rotation: Some(rotation),
        rounds: false,
        skips_identity: false,
        staged: true,
        streams: false,
    };
    staged::run(&pass, None, &mut OperandMut::Tensor(x, element));
}

fn tile(
    proof: Proof,
    rotation: &Rotation<'_>,
    span: &LineSpan<'_>,
    tile: &mut [f32],
    side: &mut [f32],
) -> bool {
    let Rotation { input, output, .. } = *rotation;
    let moves = input != output;
    let pairs = span.rows.pairs;
    let mut heads = tile;
    // The channels of a row are those of the tensor before the rotation: a transpose ends there.
    let transposed = rotation.factors.is_some();
    if moves {
        let side = &mut side[..heads.len()];
        if !transposed {
            rotate(
                proof,
                input,
                &mut span.line_in_tile(bytemuck::cast_slice_mut(heads)),
            );
        }
        for (to, from) in side
            .chunks_exact_mut(span.head_dim)
            .zip(heads.chunks_exact(span.head_dim))
        {
            reorder(input, pairs, from, to);
        }
        if !transposed {
            return true;
        }
        heads = side;
    }
    rotate(
        proof,
        output,
        &mut span.line_in_tile(bytemuck::cast_slice_mut(heads)),
    );
    moves
}

/// Copies a head whose pairing was this one into the other.
fn reorder(input: Pairing, pairs: usize, from: &[f32], to: &mut [f32]) {
    to[2 * pairs..].copy_from_slice(&from[2 * pairs..]);
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
fn rotate(proof: Proof, pairing: Pairing, line: &mut Line<'_>) {
    proof.run(FullLine::new(line, pairing));
}
