//! Full-width rows.

use rope_core::error::{GradientError, RowsError};
use rope_core::gradient::PairGradients;
use rope_core::internals::in_stages;
use rope_core::{Backend, Direction, Error, Tensor, TensorMut};

use super::gradient::same;
#[cfg(feature = "capi")]
use crate::chain::Chain;
use crate::full::{FullRows, add_gradients, rotated};
use crate::number::{paint, values};
#[cfg(feature = "capi")]
use crate::over_c;
use crate::{
    Number, Placed, Rotation, Source, compare, element_functions, element_pair_functions, oracle,
};

/// Tests any full-width rows on any tensor, and their gradients: every backend gives the bits of the definition and
/// writes nothing else.
///
/// # Panics
///
/// If a bit is wrong.
pub fn full_width(source: &mut Source<'_>) {
    let rotations: Vec<Rotation> = Rotation::all().collect();
    let rotation = source.one_of(&rotations);
    let ([batch, tokens, heads, head_dim], _) = super::rotate::shape_and_rows(source);
    let shape = [batch, tokens, heads, head_dim];
    let rotary_dim = 2 * source.within(1, head_dim / 2);
    let rotation = rotation.in_parts(source, rotary_dim / 2);
    let rows = source.one_of(&[tokens, batch * tokens]);
    let own = source.one_of(&[1, heads.max(1)]);
    let rows = &FullRows::any(source, [rows, own], rotary_dim);
    if source.once_in(3) {
        let bodies = element_functions!(gradients: fn(&mut Source<'_>, Rotation, _, &FullRows));
        source.one_of(bodies)(source, rotation, shape, rows);
    } else if rotation.input == rotation.output && source.once_in(2) {
        let bodies = element_functions!(in_place: fn(&mut Source<'_>, Rotation, _, &FullRows));
        source.one_of(bodies)(source, rotation, shape, rows);
    } else {
        let bodies = element_pair_functions!(into: fn(&mut Source<'_>, Rotation, _, &FullRows));
        source.one_of(bodies)(source, rotation, shape, rows);
    }
}

/// Returns the error of a call, if it must be refused: full-width rows have no inverse.
fn refusal(rotation: Rotation, shape: [usize; 4]) -> Option<Error> {
    let refused = rotation.direction == Direction::Inverse && !shape.contains(&0);
    refused.then_some(Error::Rows(RowsError::FullWidth {
        operation: "Direction::Inverse",
    }))
}

fn in_place<E: Number>(
    source: &mut Source<'_>,
    rotation: Rotation,
    shape: [usize; 4],
    rows: &FullRows,
) {
    let place = Placed::any(source, shape);
    let x = values::<E>(source, place.len);
    let refusal = refusal(rotation, shape);
    let mut expected = rotated(rotation, rows, (&x, &place.view), (&x, &place.view));
    if refusal.is_some() {
        expected.values.clone_from(&x);
    }
    let stored = [source.once_in(2), source.once_in(2)];
    rows.with(stored, |given| {
        for backend in Backend::available() {
            let plan = rotation.plan(backend);
            for (plan, how) in [(plan, ""), (in_stages(plan), ", stage by stage")] {
                let mut got = x.clone();
                let mut tensor = TensorMut::new(&mut got, place.layout).expect("a valid tensor");
                oracle::answered(plan.rotate(&mut tensor, given), refusal);
                let doing = format!("{backend}{how}, {} in place, {rotation:?}", E::NAME);
                compare(&got, &expected, &place.view, &doing);
            }
        }
    });
    #[cfg(feature = "capi")]
    {
        let (mut got, mut memory) = (x.clone(), Vec::new());
        let rows = rows.over_c(source.below(3), &mut memory);
        let (plan, target) = ((&Chain::ALONE, rotation), over_c::tensor(&mut got, &place));
        over_c::run(plan, None, &target, Some(&rows), refusal, "full-width rows");
        compare(&got, &expected, &place.view, &"over C");
    }
}

fn into<I: Number, O: Number>(
    source: &mut Source<'_>,
    rotation: Rotation,
    shape: [usize; 4],
    rows: &FullRows,
) {
    let (from, to) = (Placed::any(source, shape), Placed::any(source, shape));
    let x = values::<I>(source, from.len);
    let y = paint::<O>(source, to.len);
    let refusal = refusal(rotation, shape);
    let mut expected = rotated(rotation, rows, (&x, &from.view), (&y, &to.view));
    if refusal.is_some() {
        expected.values.clone_from(&y);
    }
    let stored = [source.once_in(2), source.once_in(2)];
    rows.with(stored, |given| {
        for backend in Backend::available() {
            let mut got = y.clone();
            let source = Tensor::new(&x, from.layout).expect("a valid tensor");
            let mut target = TensorMut::new(&mut got, to.layout).expect("a valid tensor");
            let result = rotation
                .plan(backend)
                .rotate_into(&source, &mut target, given);
            oracle::answered(result, refusal);
            let doing = format!("{backend}, {} to {}, {rotation:?}", I::NAME, O::NAME);
            compare(&got, &expected, &to.view, &doing);
        }
    });
    #[cfg(feature = "capi")]
    {
        let (mut x, mut got, mut memory) = (x.clone(), y.clone(), Vec::new());
        let rows = rows.over_c(source.below(3), &mut memory);
        let [x, target] = [over_c::tensor(&mut x, &from), over_c::tensor(&mut got, &to)];
        let plan = (&Chain::ALONE, rotation);
        over_c::run(
            plan,
            Some(&x),
            &target,
            Some(&rows),
            refusal,
            "full-width rows",
        );
        compare(&got, &expected, &to.view, &"over C");
    }
}

fn gradients<E: Number>(
    source: &mut Source<'_>,
    rotation: Rotation,
    shape: [usize; 4],
    rows: &FullRows,
) {
    let (from, to) = (Placed::any(source, shape), Placed::any(source, shape));
    let (x, dy) = (values::<E>(source, from.len), values::<E>(source, to.len));
    let before: Vec<f64> = (0..rows.cos.len())
        .map(|_| f64::from(source.unit()))
        .collect();
    let (mut cos, mut sin) = (before.clone(), before.clone());
    let (input, output) = (rotation.input, rotation.output);
    let refusal = match rotation.direction {
        Direction::Forward if input == output => None,
        Direction::Forward => Some(Error::Gradient(GradientError::Pairing { input, output })),
        direction => Some(Error::Gradient(GradientError::Direction { direction })),
    };
    if refusal.is_none() {
        let sums = [&mut cos[..], &mut sin[..]];
        add_gradients(
            (input, rotation.parts),
            rows,
            (&x, &from.view),
            (&dy, &to.view),
            sums,
        );
    }
    let extents = [rows.rows, rows.heads, rows.rotary_dim];
    for backend in Backend::available() {
        let (mut got_cos, mut got_sin) = (before.clone(), before.clone());
        let result = rotation.plan(backend).channel_gradients(
            &Tensor::new(&x, from.layout).expect("a valid tensor"),
            &Tensor::new(&dy, to.layout).expect("a valid tensor"),
            &mut PairGradients::new(&mut got_cos, extents).expect("as many sums"),
            &mut PairGradients::new(&mut got_sin, extents).expect("as many sums"),
        );
        oracle::answered(result, refusal);
        same(&got_cos, &cos, &format!("{backend}, cos of {}", E::NAME));
        same(&got_sin, &sin, &format!("{backend}, sin of {}", E::NAME));
    }
    #[cfg(feature = "capi")]
    {
        let (mut x, mut dy) = (x.clone(), dy.clone());
        let of = [over_c::tensor(&mut x, &from), over_c::tensor(&mut dy, &to)];
        let (mut got_cos, mut got_sin) = (before.clone(), before.clone());
        let into = (&mut got_cos[..], Some(&mut got_sin[..]), extents);
        let kind = rope::rope_gradient_kind::Channels;
        let accepted = over_c::gradients(kind, rotation, [&of[0], &of[1]], into);
        assert_eq!(accepted, refusal.is_none(), "{rotation:?}");
        same(&got_cos, &cos, "cos over C");
        same(&got_sin, &sin, "sin over C");
    }
}
