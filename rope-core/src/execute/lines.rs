//! Rotations, copies and transforms, line by line in memory.

use core::ops::Range;

use crate::describe::address::Addresses;
use crate::describe::rows::View;
use crate::describe::tensor::BytesMut;
use crate::kernel::elements::{InPlaceFn, InPlaceKernels, OutOfPlaceFn};
use crate::kernel::line::{Line, SourceLine};
use crate::kernel::rotation::RowFactors;
use crate::pass::transform::Transform;
use crate::pass::walk::Walk;
use crate::pass::{IoFormats, Operand, OperandMut, Pass};
use crate::proof::Proof;
use crate::tuning::Tuning;

/// Copies heads that are lines of one element.
pub(crate) fn copy(
    pass: &Pass<'_>,
    source: &Operand<'_>,
    target: &mut OperandMut<'_>,
    ends: IoFormats,
) {
    // Without pairs, all channels are copied.
    rotate(pass, source, target, ends, |_, _, _, _| {});
}

/// Rotates heads by one kernel, with lines at both ends.
pub(crate) fn rotate(
    pass: &Pass<'_>,
    source: &Operand<'_>,
    target: &mut OperandMut<'_>,
    ends: IoFormats,
    kernel: OutOfPlaceFn,
) {
    let core = (pass.proof, pass.tuning);
    if let (Operand::Tensor(x, _), OperandMut::Tensor(y, _)) = (source, &mut *target) {
        let walk = &pass.walk_between(x.layout, y.layout);
        rotate_lines(core, ends, kernel, x.bytes, y.bytes, walk);
    } else {
        let walk = &pass.walk(Some(source), target);
        let (from, to) = (source.memory(), target.memory_mut());
        rotate_lines(core, ends, kernel, from, to, walk);
    }
}

/// Rotates heads from one memory into another by a kernel, and copies the channels that do not rotate.
#[inline(never)]
pub(crate) fn rotate_lines<S: Addresses, T: Addresses>(
    (proof, tuning): (Proof, &Tuning),
    ends: IoFormats,
    kernel: OutOfPlaceFn,
    from: &[u8],
    to: &mut [u8],
    walk: &Walk<'_, S, T>,
) {
    let walk = walk.into_another(tuning, ends.source.size);
    let rotated = 2 * walk.rows.pairs;
    let (rotates, leaves) = (rotated > 0, rotated < walk.shape.head_dim);
    walk.run(|span| {
        let (before, to) = span.split(to, ends.target.size);
        let (source, line) = (&span.source(from), &span.line(before));
        if rotates {
            kernel(proof, source, to, line);
        }
        if leaves {
            copy_unrotated(proof, ends, source, to, line);
        }
    });
}

/// Rotates a line by a kernel, and copies the channels that do not rotate.
#[inline]
pub(crate) fn rotate_line(
    proof: Proof,
    ends: IoFormats,
    kernel: OutOfPlaceFn,
    source: &SourceLine<'_>,
    memory: &mut [u8],
    line: &Line<'_>,
) {
    let rotated = 2 * line.rows.pairs;
    if rotated > 0 {
        kernel(proof, source, memory, line);
    }
    if rotated < line.head_dim {
        copy_unrotated(proof, ends, source, memory, line);
    }
}

/// Copies the channels after the pairs: as bits if the element stays the same, so that not even a NaN changes;
/// otherwise rounded from f32, as in all kernels that convert.
#[inline(never)]
pub(super) fn copy_unrotated(
    proof: Proof,
    ends: IoFormats,
    source: &SourceLine<'_>,
    memory: &mut [u8],
    line: &Line<'_>,
) {
    let channels = 2 * line.rows.pairs..line.head_dim;
    copy_channels(proof, ends, source, memory, line, channels);
}

/// Copies some channels of each head.
#[inline(always)]
pub(super) fn copy_channels(
    proof: Proof,
    ends: IoFormats,
    source: &SourceLine<'_>,
    memory: &mut [u8],
    line: &Line<'_>,
    channels: Range<usize>,
) {
    let (first, len) = (channels.start, channels.len());
    // An empty copy takes 20 ns per head (Zen 3), half as long as the rotation.
    if len == 0 {
        return;
    }
    let [read, written] = [ends.source.size, ends.target.size];
    for head in 0..line.heads {
        let from = (source.at + head * source.step + first) * read;
        let to = (head * line.step + first) * written;
        let from = &source.memory[from..][..len * read];
        let to = &mut memory[to..][..len * written];
        if ends.source.is(ends.target) {
            to.copy_from_slice(from);
        } else {
            (ends.target.from_f32)(proof, bytemuck::cast_slice(from), to);
        }
    }
}

/// Rotates heads of a tensor in place.
pub(crate) fn in_tensor(pass: &Pass<'_>, x: &mut BytesMut<'_>, kernels: &InPlaceKernels) {
    let [batch, tokens] = &pass.part;
    let layout = x
        .layout
        .part_of([batch.clone(), tokens.clone(), 0..pass.shape.heads]);
    let rows = pass.rows().skip([batch.start, tokens.start, 0]);
    let (x, kernel) = (&mut x.part(&layout), kernels.0.of(pass.pairings()[0]));
    rotate_in_place(
        (pass.proof, pass.tuning),
        kernel,
        x,
        &rows,
        pass.rotation_factors(),
    );
}

/// Rotates heads of a cache in place, if they are lines.
pub(crate) fn in_slots(pass: &Pass<'_>, target: &mut OperandMut<'_>, kernels: &InPlaceKernels) {
    let kernel = kernels.0.of(pass.pairings()[0]);
    let walk = pass.walk(None, target);
    let memory = target.memory_mut();
    walk.run(|span| {
        let [batch, token, _] = span.first;
        if !pass.skips_identity || !walk.rows.is_identity(batch, token) {
            let (before, memory) = span.split(memory, kernels.1.size());
            kernel(pass.proof, memory, &span.line(before));
        }
    });
}

/// Rotates a tensor in place.
pub(crate) fn rotate_in_place(
    (proof, tuning): (Proof, &Tuning),
    kernel: InPlaceFn,
    x: &mut BytesMut<'_>,
    rows: &View<'_>,
    factors: Option<&RowFactors>,
) {
    let proof = proof.fitting(rows.pairs);
    let walk = Walk::in_place(tuning, x.layout, x.size, rows, factors);
    walk.run_with_tokens(tuning, x.size, |span, more| {
        let (before, memory) = span.split(x.bytes, x.size);
        let line = &Line {
            more,
            ..span.line(before)
        };
        kernel(proof, memory, line);
    });
}

/// Transforms the heads of a tensor of f32 in place.
pub(crate) fn transform(pass: &Pass<'_>, x: &mut BytesMut<'_>, transform: Transform) {
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
