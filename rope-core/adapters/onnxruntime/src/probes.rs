//! Operators of a domain `rope.test`, for the tests.

use crate::operator::Operator;
use crate::runtime::{Buffers, Call, Declaration, Parameter, Result};
use crate::tables::Rotated;

/// Copies its input, unless the first element is NaN: then the last of 64 parts panics, on one of the threads.
pub(crate) const PANIC: Declaration = Declaration {
    name: c"Panic",
    since: 1,
    inputs: &[Parameter::ROTATED],
    create: |_, element| Panic.of(element),
};

/// Leaves its input, where its output is in the same place, and otherwise writes its elements in reverse.
pub(crate) const PLACE: Declaration = Declaration {
    name: c"Place",
    since: 1,
    inputs: &[Parameter::ROTATED],
    create: |_, element| Place.of(element),
};

struct Panic;

impl Operator for Panic {
    fn compute<E: Rotated>(&self, call: Call<'_>) -> Result<()> {
        let (output, threads) = (call.output, call.threads);
        let buffers = output.buffers::<E>()?;
        let mut first = [0.0];
        let x = match &buffers {
            Buffers::InPlace(x) => &**x,
            Buffers::Across(x, _) => x,
        };
        E::widen(&x[..1], &mut first);
        threads.run(64, &|index| {
            assert!(index < 63 || !first[0].is_nan(), "the last part");
            Ok(())
        })?;
        if let Buffers::Across(x, y) = buffers {
            y.copy_from_slice(x);
        }
        Ok(())
    }
}

struct Place;

impl Operator for Place {
    fn compute<E: Rotated>(&self, call: Call<'_>) -> Result<()> {
        if let Buffers::Across(x, y) = call.output.buffers::<E>()? {
            y.copy_from_slice(x);
            y.reverse();
        }
        Ok(())
    }
}
