//! Rotations, and copies, line by line in memory.

use crate::backend::Proof;
use crate::kernel::chains::{InPlaceFn, OutOfPlaceFn};
use crate::kernel::line::{Line, LineRows};
use crate::kernel::rotation::RowFactors;
use crate::kernel::tile::Ends;
use crate::pass::{Operand, OperandMut, Pass};
use crate::rows::View;
use crate::tensor::BytesMut;
use crate::walk::{Access, Addresses, Prefetch, Walk};

/// A rotation alone, by one kernel.
pub(crate) fn fused(
    pass: &Pass<'_>,
    source: &Operand<'_>,
    target: &mut OperandMut<'_, '_>,
) -> bool {
    match ends(pass, source, target) {
        Some(ends) if pass.rotation.is_some() && ends.fused().is_some() => {
            rotate(pass, ends, source, target)
        }
        _ => false,
    }
}

/// Heads of one element that are copied, and no more.
pub(crate) fn copied(
    pass: &Pass<'_>,
    source: &Operand<'_>,
    target: &mut OperandMut<'_, '_>,
) -> bool {
    match ends(pass, source, target) {
        Some(ends) if pass.rotation.is_none() && ends.source.is(ends.target) => {
            rotate(pass, ends, source, target)
        }
        _ => false,
    }
}

/// A rotation alone, of elements and pairings without a kernel of their own.
pub(crate) fn converted(
    pass: &Pass<'_>,
    source: &Operand<'_>,
    target: &mut OperandMut<'_, '_>,
) -> bool {
    match ends(pass, source, target) {
        Some(ends) if pass.rotation.is_some() => rotate(pass, ends, source, target),
        _ => false,
    }
}

/// A rotation alone, in place.
pub(crate) fn fused_in_place(
    pass: &Pass<'_>,
    _: &Operand<'_>,
    target: &mut OperandMut<'_, '_>,
) -> bool {
    let (Some(kernels), Some(rotation), false, Some(_)) = (
        pass.kernels.in_place,
        &pass.rotation,
        pass.has_stages(),
        target.elements(),
    ) else {
        return false;
    };
    let (proof, kernel) = (pass.proof, kernels.kernel(rotation.input));
    match target {
        OperandMut::Tensor(x, _) => {
            rotate_in_place(proof, kernel, x, &rotation.rows, rotation.factors.as_ref());
        }
        OperandMut::Cache(..) => {
            let walk = pass.walk(&Operand::Target, target);
            let memory = target.memory();
            walk.run(|span| {
                let [batch, token, _] = span.first;
                if !pass.skips_identity || !rotation.rows.is_identity(batch, token) {
                    kernel(proof, &mut span.line(memory));
                }
            });
        }
    }
    true
}

/// Rotates a tensor in place.
pub(crate) fn rotate_in_place(
    proof: Proof,
    kernel: InPlaceFn,
    x: &mut BytesMut<'_>,
    rows: &View<'_>,
    factors: Option<&RowFactors>,
) {
    let proof = proof.fitting(rows.pairs());
    Walk::in_place(x.layout, x.size, rows, factors)
        .run(|span| kernel(proof, &mut span.line(x.bytes)));
}

/// Rotates the heads of one token, which share a row, in place: a line, and so no walk.
#[inline]
pub(crate) fn rotate_token(
    proof: Proof,
    kernel: InPlaceFn,
    x: &mut BytesMut<'_>,
    rows: &LineRows<'_>,
) {
    let (shape, step) = (x.layout.shape(), x.layout.strides().head);
    if shape.is_empty() {
        return;
    }
    let ahead = Prefetch::of(Access::Rotate, shape, x.size).heads;
    let line = &mut Line {
        memory: x.bytes,
        at: x.layout.offset(),
        step,
        heads: shape.heads,
        head_dim: shape.head_dim,
        rows,
        ahead: step.wrapping_mul(ahead),
    };
    kernel(proof, line);
}

/// The elements and pairings of a pass from lines to lines that has no other stage than a rotation.
fn ends(pass: &Pass<'_>, source: &Operand<'_>, target: &OperandMut<'_, '_>) -> Option<Ends> {
    let elements = source.elements().zip(target.elements());
    let (source, target) = elements.filter(|_| !pass.has_stages())?;
    Some(pass.ends(source, target))
}

fn rotate(
    pass: &Pass<'_>,
    ends: Ends,
    source: &Operand<'_>,
    target: &mut OperandMut<'_, '_>,
) -> bool {
    let walk = &Walk {
        prefetch: pass.prefetch(Access::Rotate, target),
        ..pass.walk(source, target)
    };
    let (from, to) = (source.memory(), target.memory());
    rotate_lines(pass.proof, ends, ends.fused(), from, to, walk);
    true
}

/// Rotates heads from one memory into another by a kernel, or by the stages of one; what does not rotate is copied.
#[inline(never)]
pub(crate) fn rotate_lines<S: Addresses, T: Addresses>(
    proof: Proof,
    ends: Ends,
    fused: Option<OutOfPlaceFn>,
    from: &[u8],
    to: &mut [u8],
    walk: &Walk<'_, S, T>,
) {
    let rotates = walk.rows.pairs() > 0;
    let fitting = proof.fitting(walk.rows.pairs());
    let mut tile = None;
    walk.run(|span| {
        let (source, line) = (&span.source(from), &mut span.line(to));
        match fused {
            _ if !rotates => {}
            Some(kernel) => kernel(fitting, source, line),
            None => ends.rotate(proof, source, line, &mut tile),
        }
        ends.copy_unrotated(proof, source, line, &mut tile);
    });
}
