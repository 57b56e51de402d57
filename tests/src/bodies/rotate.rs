//! Rotations.

use crate::number::{paint, values};
use crate::{
    Number, Placed, Rotation, Source, Stored, element_functions, element_pair_functions, run,
};

/// Tests any rotation of any tensor: every backend gives the bits of the oracle and writes nothing else.
///
/// # Panics
///
/// If a bit is wrong.
pub fn rotate(source: &mut Source<'_>) {
    let rotations: Vec<Rotation> = Rotation::all().collect();
    let rotation = source.one_of(&rotations);
    if rotation.input == rotation.output && source.once_in(2) {
        let bodies = element_functions!(rotate_in_place: fn(&mut Source<'_>, Rotation));
        source.one_of(bodies)(source, rotation);
    } else {
        let bodies = element_pair_functions!(rotate_into: fn(&mut Source<'_>, Rotation));
        source.one_of(bodies)(source, rotation);
    }
}

fn rotate_in_place<E: Number>(source: &mut Source<'_>, rotation: Rotation) {
    let (shape, rows) = shape_and_rows(source);
    let rotation = rotation.in_parts(source, rows.angles.pairs);
    let place = Placed::any(source, shape);
    let x = values::<E>(source, place.len);
    run::in_place(rotation, &rows, &x, &place);
}

fn rotate_into<I: Number, O: Number>(source: &mut Source<'_>, rotation: Rotation) {
    let (shape, rows) = shape_and_rows(source);
    let rotation = rotation.in_parts(source, rows.angles.pairs);
    let (from, to) = (Placed::any(source, shape), Placed::any(source, shape));
    let x = values::<I>(source, from.len);
    let y = paint::<O>(source, to.len);
    run::into(rotation, &rows, (&x, &from), (&y, &to));
}

/// Returns a shape of at most some thousand elements, perhaps empty, and matching rows.
pub(super) fn shape_and_rows(source: &mut Source<'_>) -> ([usize; 4], Stored) {
    let head_dim = match source.below(4) {
        0 => source.one_of(&[64, 72, 80, 96, 112, 128, 160, 192, 256]),
        1 => source.within(2, 300),
        _ => source.within(2, 70),
    };
    let rotary_dim = match source.below(3) {
        0 => 2 * source.within(1, head_dim / 2),
        _ => head_dim & !1,
    };
    let extent = |source: &mut Source<'_>, last: usize| {
        let extent = source.below(last + 1);
        // Empty extents are rare.
        if extent == 0 && !source.once_in(8) {
            1
        } else {
            extent
        }
    };
    // Sometimes more than one block of tokens.
    let most = if source.once_in(4) { 40 } else { 5 };
    // Sometimes more heads than one line has, each with its own row.
    let most_heads = if source.once_in(8) { 20 } else { 4 };
    let (batch, tokens) = (extent(source, 3), extent(source, most));
    let heads = extent(source, most_heads);
    let shape = [batch, tokens, heads, head_dim];
    (shape, Stored::for_shape(source, shape, rotary_dim / 2))
}
