//! Runs a Hadamard transform alone, on a tensor of f32 in place, without a tile.

use crate::describe::rows::View;
use crate::describe::tensor::BytesMut;
use crate::pass::Pass;
use crate::pass::transform::Transform;
use crate::pass::walk::Walk;

/// Transforms the heads of a tensor in place.
pub(crate) fn in_place(pass: &Pass<'_>, x: &mut BytesMut<'_>, transform: Transform) {
    let head_dim = pass.shape.head_dim;
    Walk::in_place(pass.tuning, x.layout, x.size, &View::NONE, None).run_dyn(&mut |span| {
        let (at, step) = (span.at[1], span.steps[1]);
        let values: &mut [f32] = bytemuck::cast_slice_mut(x.bytes);
        if step == head_dim {
            transform.run(pass.proof, &mut values[at..][..span.count * head_dim]);
        } else {
            for head in 0..span.count {
                transform.run(pass.proof, &mut values[at + head * step..][..head_dim]);
            }
        }
    });
}
