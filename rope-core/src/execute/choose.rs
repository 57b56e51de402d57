//! Chooses the executor of a pass. All executors compute the same bits; they differ in speed.
//!
//! | executor | runs | passes |
//! |---|---|---|
//! | `nothing` | | an empty shape; in place neither a rotation nor another stage |
//! | `coded` | a quantizer per run of heads | neither a rotation nor another stage, from a tensor into a quantized format |
//! | `copied` | a copy per line | neither a rotation nor another stage, and the same element at both ends |
//! | `fused` | a kernel per line | a rotation alone, if its elements and pairings have a kernel; any in place |
//! | `streamed` | a kernel per line, into a tile that is written past the caches | the same, into one of several tensors that exceed the caches |
//! | `normed` | two kernels per line, three if not all channels rotate | a norm of heads before their rotation, in place in a tensor |
//! | `copied-normed` | a copy, then `normed` | the same, from a tensor to lines of the same element |
//! | `tiled` | a tile of the source's element | a rotation, after such a norm or none, from a tensor into a quantized format, if the tile loses nothing |
//! | `transformed` | a kernel per line of contiguous heads | a Hadamard transform alone, of f32 in place in a tensor |
//! | `staged` | a tile of f32, stage by stage | everything |
//!
//! Full-width rows and windows run `staged`. A plain plan rotates f32 by full-width rows in place, without a tile
//! (`execute/full.rs`), and windows of tensors as tensors (`plan/window.rs`).
//!
//! Elements of a cache are lines if the channels of a head are contiguous.

use crate::describe::cache::{CacheHeads, Format};
use crate::execute::tiled::Way;
use crate::execute::{coded, lines, normed, staged, streamed, tiled, transformed};
use crate::kernel::element::Element;
use crate::pass::transform::Transform;
use crate::pass::{NormRotate, Operand, OperandMut, Pass};

/// The work of a pass, classified for the choice of its executor.
enum Work<'a> {
    Nothing,
    Rotate,
    NormRotate(NormRotate<'a>),
    Transform(Transform),
    Other,
}

impl<'a> Work<'a> {
    fn of(pass: &Pass<'a>) -> Self {
        match (pass.stages, &pass.rotation) {
            _ if pass.staged => Work::Other,
            (None, None) => Work::Nothing,
            (None, Some(_)) => Work::Rotate,
            (Some(stages), rotation) => match (stages.only_transform(), rotation) {
                (Some(transform), None) => Work::Transform(transform),
                _ => pass.norm_rotate().map_or(Work::Other, Work::NormRotate),
            },
        }
    }
}

/// Runs an executor if `runs` is set; returns its name.
#[inline(always)]
fn executor(name: &'static str, runs: bool, run: impl FnOnce()) -> &'static str {
    if runs {
        run();
    }
    name
}

/// Runs a pass in place, if it `runs`; returns the name of its executor.
#[inline(never)]
pub(crate) fn in_place(pass: &Pass<'_>, target: &mut OperandMut<'_>, runs: bool) -> &'static str {
    if pass.shape.is_empty() {
        return "nothing";
    }
    match (Work::of(pass), pass.kernels.in_place, &mut *target) {
        (Work::Nothing, ..) => "nothing",
        (Work::Rotate, Some(kernels), OperandMut::Tensor(x, _)) => {
            executor("fused", runs, || lines::in_tensor(pass, x, kernels))
        }
        (Work::Rotate, Some(kernels), OperandMut::Cache(slots))
            if matches!(slots.heads(), CacheHeads::Lines(..)) =>
        {
            executor("fused", runs, || lines::in_slots(pass, target, kernels))
        }
        (Work::NormRotate(norm), _, OperandMut::Tensor(x, _)) => {
            executor("normed", runs, || normed::in_place(pass, x, norm))
        }
        (Work::Transform(transform), _, OperandMut::Tensor(x, element))
            if element.is(f32::OUT_OF_PLACE) =>
        {
            executor("transformed", runs, || {
                transformed::in_place(pass, x, transform);
            })
        }
        _ => executor("staged", runs, || staged::run(pass, None, target)),
    }
}

/// Runs a pass out of place, if it `runs`; returns the name of its executor. Not inlined: each of three callers would
/// have a copy of the calls to all executors, 7 to 10 KB.
#[inline(never)]
pub(crate) fn out_of_place(
    pass: &Pass<'_>,
    source: &Operand<'_>,
    target: &mut OperandMut<'_>,
    runs: bool,
) -> &'static str {
    if pass.shape.is_empty() {
        return "nothing";
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
            executor("coded", runs, || {
                coded::run(pass, (x, element), cache, codes)
            })
        }
        (&Operand::Tensor(x, element), OperandMut::Cache(cache), Work::Rotate)
            if let Format::Codes(codes) = cache.stored.format
                && tiled::is_exact(pass, element)
                && let Some(kernel) = pass.ends(element, element).fused() =>
        {
            executor("tiled", runs, || {
                tiled::run(pass, (x, element), cache, codes, Way::Rotate(kernel));
            })
        }
        (&Operand::Tensor(x, element), OperandMut::Cache(cache), Work::NormRotate(norm))
            if let Format::Codes(codes) = cache.stored.format
                && tiled::is_exact(pass, element) =>
        {
            executor("tiled", runs, || {
                tiled::run(pass, (x, element), cache, codes, Way::NormRotate(norm));
            })
        }
        (_, _, Work::Nothing)
            if let Some(ends) = lines
                && ends.source.is(ends.target) =>
        {
            executor("copied", runs, || lines::copy(pass, source, target, ends))
        }
        (&Operand::Tensor(x, _), OperandMut::Tensor(y, _), Work::Rotate)
            if let Some(ends) = lines
                && streamed::takes(pass, ends)
                && let Some(kernel) = ends.fused() =>
        {
            executor("streamed", runs, || {
                streamed::run(pass, (x, y), ends, kernel)
            })
        }
        (_, _, Work::Rotate)
            if let Some(ends) = lines
                && let Some(kernel) = ends.fused() =>
        {
            executor("fused", runs, || {
                lines::rotate(pass, source, target, ends, kernel)
            })
        }
        (&Operand::Tensor(x, _), _, Work::NormRotate(norm))
            if let Some(ends) = lines
                && ends.target.is(pass.element) =>
        {
            executor("copied-normed", runs, || {
                normed::copied(pass, x, target, norm)
            })
        }
        _ => executor("staged", runs, || staged::run(pass, Some(source), target)),
    }
}
