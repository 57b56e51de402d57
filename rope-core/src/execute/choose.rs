//! The implementations of a pass: what runs it, and which passes it takes. Of each list the first that admits a pass
//! runs it; the last admits all. They differ in speed, not in bits.
//!
//! | | runs | what it takes |
//! |---|---|---|
//! | `coded` | a quantizer per run of heads | neither a rotation nor another stage, from a tensor into a quantized format |
//! | `fused` | a kernel per line | a rotation alone, of elements and pairings with a kernel of their own; any in place |
//! | `streamed` | a kernel per line, into a tile that is written past the caches | the same from one tensor into another, several of which are larger than caches |
//! | `copied` | a copy per line | neither a rotation nor another stage, and one element at both ends |
//! | `normed` | two kernels per line, three where not all channels rotate | a norm of heads before their rotation, in place |
//! | `copied-normed` | a copy, then `normed` | the same, from one place to another of the same element |
//! | `tiled` | a tile of the source's element | a rotation, after such a norm or none, into a quantized format; after a norm also from f32 into another element |
//! | `transformed` | a kernel per line of contiguous heads | a Hadamard transform alone, of f32 in place in a tensor |
//! | `staged` | a tile of f32, stage by stage | everything |
//!
//! Full-width rows run `staged`; a plain plan rotates f32 in place by them where it lies (`execute/full.rs`).
//!
//! Elements of a cache are lines where the channels of a head lie side by side.

use crate::execute::{coded, lines, normed, staged, streamed, tiled, transformed};
use crate::pass::{Operand, OperandMut, Pass};

/// One way to run a pass, in place or from one place to another. What it does not admit it does not touch.
pub(crate) struct Implementation<R> {
    name: &'static str,
    /// Whether it admitted the pass, and ran it.
    run: R,
}

type InPlace = fn(&Pass<'_>, &mut OperandMut<'_, '_>) -> bool;
type OutOfPlace = fn(&Pass<'_>, &Operand<'_>, &mut OperandMut<'_, '_>) -> bool;

macro_rules! implementations {
    ($($(#[$doc:meta])* $list:ident, $Run:ident: [$($name:literal $run:expr),* $(,)?];)+) => {$(
        $(#[$doc])*
        pub(crate) static $list: &[Implementation<$Run>] = &[
            $(Implementation { name: $name, run: $run },)*
        ];
    )+};
}

// The fastest first; `staged` takes what they do not.
implementations! {
    /// In a tensor.
    IN_PLACE, InPlace: [
        "fused" lines::fused_in_place,
        "normed" normed::in_place,
        "transformed" transformed::in_place,
    ];
    /// In the slots of a cache.
    SHIFT, InPlace: ["fused" lines::fused_in_place];
    /// From a tensor or a cache into another.
    OUT_OF_PLACE, OutOfPlace: [
        "coded" coded::run,
        "copied" lines::copied,
        "streamed" streamed::run,
        "fused" lines::fused,
        "copied-normed" normed::copied,
        "tiled" tiled::run,
    ];
}

/// Runs a pass in place by the first implementation that admits it, and returns its name.
pub(crate) fn in_place(
    list: &'static [Implementation<InPlace>],
    pass: &Pass<'_>,
    target: &mut OperandMut<'_, '_>,
) -> &'static str {
    first(list, pass, |run| run(pass, target)).unwrap_or_else(|| staged::run(pass, None, target))
}

/// The same from one place to another. (Inlined, each of three callers has what runs all of the list, 7 to 10 KB.)
#[inline(never)]
pub(crate) fn out_of_place(
    pass: &Pass<'_>,
    source: &Operand<'_>,
    target: &mut OperandMut<'_, '_>,
) -> &'static str {
    first(OUT_OF_PLACE, pass, |run| run(pass, source, target))
        .unwrap_or_else(|| staged::run(pass, Some(source), target))
}

/// The name of the first that ran.
#[inline(always)]
fn first<R: Copy>(
    list: &'static [Implementation<R>],
    pass: &Pass<'_>,
    mut runs: impl FnMut(R) -> bool,
) -> Option<&'static str> {
    if pass.shape.is_empty() {
        return Some("nothing");
    }
    let mut list = list.iter().filter(|_| !pass.staged);
    list.find(|it| runs(it.run)).map(|it| it.name)
}
