//! The implementations of a pass: what runs it, and which passes it takes. Of each list the first that admits a pass
//! runs it; the last admits all. They differ in speed, not in bits.
//!
//! | | runs | what it takes |
//! |---|---|---|
//! | `fused` | a kernel per line | a rotation alone, of elements and pairings with a kernel of their own; any in place |
//! | `copied` | a copy per line | neither a rotation nor another stage, and one element at both ends |
//! | `normed` | two kernels per line | a norm of heads before the rotation of all of their channels, in place |
//! | `copied-normed` | a copy, then `normed` | the same, from one place to another of the same element |
//! | `tiled` | a tile of the source's element | a rotation, after such a norm or none, into a quantized format; after a norm also from f32 into another element |
//! | `converted` | a tile of f32 per line | a rotation alone, of elements and pairings without a kernel of their own |
//! | `staged` | a tile of f32, stage by stage | everything |
//!
//! Elements of a cache are lines where the channels of a head lie side by side.

use crate::execute::{lines, normed, staged, tiled};
use crate::pass::{Operand, OperandMut, Pass};

/// One way to run a pass.
pub(crate) struct Implementation {
    name: &'static str,
    /// Runs a pass that it admits; what it does not admit it does not touch.
    run: fn(&Pass<'_>, &Operand<'_>, &mut OperandMut<'_, '_>) -> bool,
}

macro_rules! implementations {
    ($($(#[$doc:meta])* $list:ident: [$($name:literal $run:expr),* $(,)?];)+) => {$(
        $(#[$doc])*
        pub(crate) static $list: &[Implementation] = &[
            $(Implementation { name: $name, run: $run },)*
        ];
    )+};
}

// The fastest first; `staged` takes what they do not.
implementations! {
    /// In place, in a tensor.
    IN_PLACE: ["fused" lines::fused_in_place, "normed" normed::in_place];
    /// In place, in the slots of a cache.
    SHIFT: ["fused" lines::fused_in_place];
    /// From a tensor or a cache into another.
    OUT_OF_PLACE: [
        "copied" lines::copied,
        "fused" lines::fused,
        "copied-normed" normed::copied,
        "tiled" tiled::run,
        "converted" lines::converted,
    ];
}

/// Runs a pass by the first implementation that admits it, and returns its name.
pub(crate) fn run(
    list: &'static [Implementation],
    pass: &Pass<'_>,
    source: &Operand<'_>,
    target: &mut OperandMut<'_, '_>,
) -> &'static str {
    if pass.shape.is_empty() {
        return "nothing";
    }
    for Implementation { name, run } in list {
        if !pass.staged && run(pass, source, target) {
            return name;
        }
    }
    staged::run(pass, source, target);
    "staged"
}
