//! One case on all backends.

use std::fmt;

use rope_core::{Backend, Tensor, TensorMut};

#[cfg(feature = "capi")]
use crate::chain::Chain;
#[cfg(feature = "capi")]
use crate::over_c;
use crate::{Number, Placed, Rotation, Stored, backends, compare, oracle};

/// Rotates in place on every backend and compares the whole buffer.
///
/// # Panics
///
/// If a bit is wrong.
pub fn in_place<E: Number>(rotation: Rotation, rows: &Stored, x: &[E], place: &Placed) {
    let expected = oracle::rotated(rotation, &rows.angles, (x, &place.view), (x, &place.view));
    let refusal = oracle::refusal(rotation.direction, &rows.angles, place.view.shape);
    rows.with(|given| {
        for backend in backends::tested() {
            let mut got = x.to_vec();
            let mut tensor = TensorMut::new(&mut got, place.layout).expect("a valid tensor");
            oracle::answered(rotation.plan(backend).rotate(&mut tensor, given), refusal);
            let doing = Doing {
                backend,
                elements: (E::NAME, None),
                rotation,
                rows,
                places: [place; 2],
            };
            compare(&got, &expected, &place.view, &doing);
        }
    });
    #[cfg(feature = "capi")]
    {
        let mut got = x.to_vec();
        let target = over_c::tensor(&mut got, place);
        let (plan, angles) = ((&Chain::ALONE, rotation), rows.over_c());
        over_c::run(plan, None, &target, Some(&angles), refusal, E::NAME);
        compare(&got, &expected, &place.view, &"over C");
    }
}

/// Rotates `x` into a painted `y` on every backend and compares the whole buffer.
///
/// # Panics
///
/// If a bit is wrong.
pub fn into<I: Number, O: Number>(
    rotation: Rotation,
    rows: &Stored,
    (x, from): (&[I], &Placed),
    (y, to): (&[O], &Placed),
) {
    let expected = oracle::rotated(rotation, &rows.angles, (x, &from.view), (y, &to.view));
    let refusal = oracle::refusal(rotation.direction, &rows.angles, from.view.shape);
    rows.with(|given| {
        for backend in backends::tested() {
            let mut got = y.to_vec();
            let source = Tensor::new(x, from.layout).expect("a valid tensor");
            let mut target = TensorMut::new(&mut got, to.layout).expect("a valid tensor");
            let plan = rotation.plan(backend);
            oracle::answered(plan.rotate_into(&source, &mut target, given), refusal);
            let doing = Doing {
                backend,
                elements: (I::NAME, Some(O::NAME)),
                rotation,
                rows,
                places: [from, to],
            };
            compare(&got, &expected, &to.view, &doing);
        }
    });
    #[cfg(feature = "capi")]
    {
        let (mut x, mut got) = (x.to_vec(), y.to_vec());
        let (source, target) = (over_c::tensor(&mut x, from), over_c::tensor(&mut got, to));
        let (plan, angles) = ((&Chain::ALONE, rotation), rows.over_c());
        over_c::run(
            plan,
            Some(&source),
            &target,
            Some(&angles),
            refusal,
            I::NAME,
        );
        compare(&got, &expected, &to.view, &"over C");
    }
}

/// The operation, for the message.
struct Doing<'a> {
    backend: Backend,
    elements: (&'static str, Option<&'static str>),
    rotation: Rotation,
    rows: &'a Stored,
    places: [&'a Placed; 2],
}

impl fmt::Display for Doing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Doing {
            backend,
            elements,
            rotation,
            rows,
            places: [from, to],
        } = self;
        let Rotation {
            input,
            output,
            direction,
            parts,
        } = rotation;
        match elements {
            (element, None) => write!(f, "{backend}, {element} in place, {input}, {direction}")?,
            (from, Some(to)) => {
                write!(
                    f,
                    "{backend}, {from} to {to}, {input} to {output}, {direction}"
                )?;
            }
        }
        write!(
            f,
            " in {parts} parts, {} rows of {} heads of {} pairs ({:?}), from {:?} at {:?} to {:?} at {:?}",
            rows.angles.rows,
            rows.angles.heads,
            rows.angles.pairs,
            rows.form,
            from.view.strides,
            from.view.offset,
            to.view.strides,
            to.view.offset,
        )
    }
}
