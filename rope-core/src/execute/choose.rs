//! Chooses the executor of a pass, and runs it. All executors compute the same bits; they differ in speed.
//!
//! Windows run `staged`. A plain plan rotates windows of tensors as tensors (`plan/direct.rs`).
//!
//! Elements of a cache are lines if the channels of a head are contiguous.

use crate::describe::cache::{CacheHeads, Format};
use crate::describe::rows::{FullWidth, Rotation};
use crate::execute::tiled::Way;
use crate::execute::{coded, lines, normed, staged, tiled};
use crate::kernel::element::Element;
use crate::pass::transform::Transform;
use crate::pass::{NormRotate, Operand, OperandMut, Pass};

/// An executor, with the passes that it runs: the first one that fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Executor {
    /// Does nothing: for an empty shape, and in place for neither a rotation nor another stage.
    Nothing,
    /// Quantizes each run of heads: neither a rotation nor another stage, from a tensor into a quantized format.
    Coded,
    /// Copies each line: neither a rotation nor another stage, and the same element at both ends.
    Copied,
    /// Runs a kernel per line, into a tile that is written past the caches: a rotation alone, if its elements and
    /// pairings have a kernel, into one of several tensors that together exceed the caches.
    Streamed,
    /// Runs a kernel per line: a rotation alone, if its elements and pairings have a kernel; any in place.
    Fused,
    /// Runs a kernel per line: a rotation alone by full-width rows, of f32 in place in a tensor.
    FullWidth,
    /// Runs two kernels per line, three if not all channels rotate: a norm of heads before their rotation, in place in
    /// a tensor.
    Normed,
    /// Copies, and runs the kernels of [`Executor::Normed`] on the copy: such a norm and rotation, from a tensor to
    /// lines of the same element.
    CopiedNormed,
    /// Runs over a tile of the source's element: a rotation, after such a norm or none, from a tensor into a quantized
    /// format, if the tile loses nothing.
    Tiled,
    /// Runs a kernel per line of contiguous heads: a Hadamard transform alone, of f32 in place in a tensor.
    Transformed,
    /// Runs stage by stage over a tile of f32: everything.
    Staged,
    /// The executors of the threads' parts.
    Parallel,
    /// The executors of operands in parts.
    Parts,
}

/// The work of a pass, classified for the choice of its executor.
enum Work<'a> {
    Nothing,
    Rotate,
    FullWidth(&'a Rotation<'a>, &'static FullWidth),
    NormRotate(NormRotate<'a>),
    Transform(Transform),
    Other,
}

impl<'a> Work<'a> {
    fn of(pass: &'a Pass<'_>) -> Self {
        match (pass.stages, &pass.rotation) {
            _ if pass.staged => Work::Other,
            (None, None) => Work::Nothing,
            (None, Some(rotation)) => match rotation.rows.full {
                None => Work::Rotate,
                Some(full) => Work::FullWidth(rotation, full),
            },
            (Some(stages), rotation) => match (stages.only_transform(), rotation) {
                (Some(transform), None) => Work::Transform(transform),
                _ => pass.norm_rotate().map_or(Work::Other, Work::NormRotate),
            },
        }
    }
}

/// Runs a pass in place; returns its executor.
#[inline(never)]
pub(crate) fn in_place(pass: &Pass<'_>, target: &mut OperandMut<'_>) -> Executor {
    if pass.shape.is_empty() {
        return Executor::Nothing;
    }
    match (Work::of(pass), pass.kernels.in_place, &mut *target) {
        (Work::Nothing, ..) => Executor::Nothing,
        (Work::Rotate, Some(kernels), OperandMut::Tensor(x, _)) => {
            lines::in_tensor(pass, x, kernels);
            Executor::Fused
        }
        (Work::Rotate, Some(kernels), OperandMut::Cache(slots))
            if matches!(slots.heads(), CacheHeads::Lines(..)) =>
        {
            lines::in_slots(pass, target, kernels);
            Executor::Fused
        }
        (Work::FullWidth(rotation, full), _, OperandMut::Tensor(x, element))
            if element.is(f32::OUT_OF_PLACE) =>
        {
            (full.in_place)((pass.proof, pass.tuning), x, rotation);
            Executor::FullWidth
        }
        (Work::NormRotate(norm), _, OperandMut::Tensor(x, _)) => {
            normed::in_place(pass, x, norm);
            Executor::Normed
        }
        (Work::Transform(transform), _, OperandMut::Tensor(x, element))
            if element.is(f32::OUT_OF_PLACE) =>
        {
            lines::transform(pass, x, transform);
            Executor::Transformed
        }
        _ => {
            staged::run(pass, None, target);
            Executor::Staged
        }
    }
}

/// Runs a pass out of place; returns its executor. Not inlined: each of three callers would have a copy of the calls to
/// all executors, 7 to 10 KB.
#[inline(never)]
pub(crate) fn out_of_place(
    pass: &Pass<'_>,
    source: &Operand<'_>,
    target: &mut OperandMut<'_>,
) -> Executor {
    if pass.shape.is_empty() {
        return Executor::Nothing;
    }
    let lines = match (source.heads(), target.heads()) {
        (CacheHeads::Lines(_, read), CacheHeads::Lines(_, written)) => {
            Some(pass.ends(read, written))
        }
        _ => None,
    };
    match (source, &mut *target, Work::of(pass)) {
        (&Operand::Tensor(x, element), OperandMut::Cache(cache), Work::Nothing)
            if let Format::Codes(codes) = cache.stored.format =>
        {
            coded::run(pass, (x, element), cache, codes);
            Executor::Coded
        }
        (&Operand::Tensor(x, element), OperandMut::Cache(cache), Work::Rotate)
            if let Format::Codes(codes) = cache.stored.format
                && tiled::is_exact(pass, element)
                && let Some(kernel) = pass.ends(element, element).fused() =>
        {
            tiled::quantize(pass, (x, element), cache, codes, Way::Rotate(kernel));
            Executor::Tiled
        }
        (&Operand::Tensor(x, element), OperandMut::Cache(cache), Work::NormRotate(norm))
            if let Format::Codes(codes) = cache.stored.format
                && tiled::is_exact(pass, element) =>
        {
            tiled::quantize(pass, (x, element), cache, codes, Way::NormRotate(norm));
            Executor::Tiled
        }
        (_, _, Work::Nothing)
            if let Some(ends) = lines
                && ends.source.is(ends.target) =>
        {
            lines::copy(pass, source, target, ends);
            Executor::Copied
        }
        (&Operand::Tensor(x, _), OperandMut::Tensor(y, _), Work::Rotate)
            if let Some(ends) = lines
                && tiled::streams(pass, ends)
                && let Some(kernel) = ends.fused() =>
        {
            tiled::stream(pass, (x, y), ends, kernel);
            Executor::Streamed
        }
        (_, _, Work::Rotate)
            if let Some(ends) = lines
                && let Some(kernel) = ends.fused() =>
        {
            lines::rotate(pass, source, target, ends, kernel);
            Executor::Fused
        }
        (&Operand::Tensor(x, _), _, Work::NormRotate(norm))
            if let Some(ends) = lines
                && ends.target.is(pass.element) =>
        {
            normed::copied(pass, x, target, norm);
            Executor::CopiedNormed
        }
        _ => {
            staged::run(pass, Some(source), target);
            Executor::Staged
        }
    }
}
