//! The verbs of a plan, with wrong operands: each returns the error and writes nothing.

use half::bf16;
use rope_core::cache::{Cache, CacheLayout, CacheMut, Slots};
use rope_core::gradient::PairGradients;
use rope_core::stages::{Normed, Stages, Transpose};
use rope_core::{
    Element, Error, NoRotation, Output, Pairing, Rope, Rows, Source, Target, Tensor, TensorMut,
};
use rope_tests::Number;

use super::{refused, untouched};

/// A verb, between tensors or with a cache on one side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Verb {
    Rotate,
    RotateQk,
    RotateInto,
    RotateIntoEach,
    Apply,
    ApplyInto,
    Read,
    Write,
    WriteEach,
    WriteKeysAndValues,
    ApplyRead,
    ApplyWrite,
    Shift,
}

use Verb::*;

pub(crate) const ROTATE: &[Verb] = &[Rotate, RotateQk];
pub(crate) const ROTATE_INTO: &[Verb] = &[RotateInto, RotateIntoEach];
pub(crate) const APPLY: &[Verb] = &[Apply, ApplyInto];
pub(crate) const READ: &[Verb] = &[Read];
pub(crate) const WRITE: &[Verb] = &[Write, WriteEach, WriteKeysAndValues];
pub(crate) const APPLY_CACHE: &[Verb] = &[ApplyRead, ApplyWrite];
/// Rotations of cached keys in place, with a row for each slot.
pub(crate) const SHIFT: &[Verb] = &[Shift];
pub(crate) const ROTATE_QK: &[&[Verb]] = &[&[RotateQk]];
/// The verbs that need rows.
pub(crate) const ROTATIONS: &[&[Verb]] = &[ROTATE, ROTATE_INTO, READ, WRITE, SHIFT];

/// The operands of all verbs: tensors, caches, slots and rows.
#[derive(Clone)]
pub(crate) struct Operands<'a> {
    /// The shape of the source, or of what is rotated in place.
    pub(crate) shape: [usize; 4],
    /// The shape of the target, of K beside Q, or of the values beside the keys.
    pub(crate) other: [usize; 4],
    pub(crate) cache: CacheLayout,
    /// The layout of the second cache that a verb writes.
    pub(crate) second: CacheLayout,
    pub(crate) slots: Slots<'a>,
    pub(crate) rows: Rows<'a>,
}

impl<'a> Operands<'a> {
    /// Rows for tensors of one shape, and for caches with a slot for each token.
    pub(crate) fn new(shape: [usize; 4], rows: Rows<'a>) -> Self {
        let cache = CacheLayout::nhd(shape).expect("a small cache");
        Operands {
            shape,
            other: shape,
            cache,
            second: cache,
            slots: (0..shape[0] * shape[1]).into(),
            rows,
        }
    }

    /// Calls a verb with sources of ones. The target lies in `x`, and K or a second target in `y`.
    fn call<S: Stages, E: Number>(
        &self,
        verb: Verb,
        plan: &Rope<S>,
        [x, y]: [&mut [E]; 2],
    ) -> Result<(), Error> {
        let (slots, rows) = (self.slots, &self.rows);
        let ones = vec![E::from_f32(1.0); x.len()];
        let of_ones = |shape| Tensor::new(&ones[..elements(shape)], shape).expect("valid");
        let (from, values) = (&of_ones(self.shape), &of_ones(self.other));
        let cached = Cache::new(&ones, self.cache).expect("a cache that fits");
        let cached = &cached.slots(slots);
        let (keys, second) = (self.cache, self.second);
        match verb {
            Rotate => rotate(plan, &mut part(x, self.shape), rows),
            RotateQk => plan.rotate_qk(&mut part(x, self.shape), &mut part(y, self.other), rows),
            RotateInto => rotate_into(plan, from, &mut part(x, self.other), rows),
            RotateIntoEach => {
                let (mut x, mut y) = (part(x, self.other), part(y, self.other));
                let outputs = [Output::new(&mut x, rows), Output::new(&mut y, rows)];
                plan.rotate_into_each(from, &mut { outputs })
            }
            Apply => plan.apply(&mut part(x, self.shape)),
            ApplyInto => plan.apply_into(from, &mut part(x, self.other)),
            Read => rotate_into(plan, cached, &mut part(x, self.other), rows),
            Write => rotate_into(plan, from, &mut cache(x, keys).slots(slots), rows),
            WriteEach => {
                let (mut x, mut y) = (cache(x, keys), cache(y, second));
                let (mut x, mut y) = (x.slots(slots), y.slots(slots));
                let outputs = &mut [Output::new(&mut x, rows), Output::new(&mut y, &NoRotation)];
                plan.rotate_into_each(from, outputs)
            }
            // Both, or neither.
            WriteKeysAndValues => {
                let (mut keys, mut second) = (cache(x, keys), cache(y, second));
                let (mut keys, mut second) = (keys.slots(slots), second.slots(slots));
                let unchanged = Rope::new(Pairing::Half);
                let write_keys = plan.prepare_into(from, &mut keys, rows)?;
                let write_values = unchanged.prepare_into(values, &mut second, &NoRotation)?;
                write_keys.run();
                write_values.run();
                Ok(())
            }
            ApplyRead => plan.apply_into(cached, &mut part(x, self.other)),
            ApplyWrite => plan.apply_into(from, &mut cache(x, keys).slots(slots)),
            Shift => rotate(plan, &mut cache(x, keys).slots(slots), rows),
        }
    }

    /// Calls each verb with a plan, and with the same plan as a chain.
    #[track_caller]
    pub(crate) fn refused<'s, S: Stages + Copy>(
        &self,
        verbs: &[&[Verb]],
        plan: Rope<S>,
        error: Error,
    ) where
        Rope<S>: Into<Rope<Normed<'s>>>,
    {
        self.refused_as::<f32>(verbs, &plan, error);
        self.refused_as::<bf16>(verbs, &plan.into(), error);
    }

    /// Calls each verb with painted targets: it returns this error, and the targets keep their bits.
    #[track_caller]
    pub(crate) fn refused_as<E: Number>(
        &self,
        verbs: &[&[Verb]],
        plan: &Rope<impl Stages>,
        error: Error,
    ) {
        let tensors = elements(self.shape).max(elements(self.other));
        let len = tensors.max(self.cache.end()).max(self.second.end());
        for verb in verbs.concat() {
            // Visible if the test fails.
            println!("{verb:?}");
            untouched::<E>(len, |x| {
                untouched::<E>(len, |y| refused(self.call(verb, plan, [x, y]), error));
            });
        }
    }

    /// Calls both forms of the backward pass, which leave their sums unchanged, too.
    #[track_caller]
    pub(crate) fn backward_refused<E: Number>(&self, plan: &Rope<impl Transpose>, error: Error) {
        let (rows, pairs) = (&self.rows, self.rows.rotary_dim() / 2);
        let ones = vec![E::from_f32(1.0); elements(self.shape)];
        let y = &Tensor::new(&ones, self.shape).expect("valid");
        let mut sums = vec![0.5; rows.len() * pairs];
        untouched::<E>(ones.len(), |dy| {
            let mut dy = part(dy, self.shape);
            let mut angles = PairGradients::new(&mut sums, [rows.len(), 1, pairs]).expect("sums");
            refused(plan.backward(y, &mut dy, rows, &mut angles), error);
            refused(plan.backward_into(y, y, &mut dy, rows, &mut angles), error);
        });
        assert!(sums.iter().all(|&sum| sum == 0.5));
    }
}

fn elements(shape: [usize; 4]) -> usize {
    shape.iter().product()
}

fn part<E: Element>(memory: &mut [E], shape: [usize; 4]) -> TensorMut<'_, E> {
    TensorMut::new(&mut memory[..elements(shape)], shape).expect("valid")
}

fn cache<E: Element>(memory: &mut [E], layout: CacheLayout) -> CacheMut<'_> {
    CacheMut::new(memory, layout).expect("a cache that fits")
}

/// Rotates in place. The call is prepared, too, which has the same outcome.
fn rotate(plan: &Rope<impl Stages>, x: &mut impl Target, rows: &Rows<'_>) -> Result<(), Error> {
    let prepared = plan.prepare(x, rows).map(|_| ());
    let rotated = plan.rotate(x, rows);
    assert_eq!(format!("{prepared:?}"), format!("{rotated:?}"));
    rotated
}

/// Rotates into a target like [`rotate`].
fn rotate_into(
    plan: &Rope<impl Stages>,
    from: &impl Source,
    target: &mut impl Target,
    rows: &Rows<'_>,
) -> Result<(), Error> {
    let prepared = plan.prepare_into(from, target, rows).map(|_| ());
    let rotated = plan.rotate_into(from, target, rows);
    assert_eq!(format!("{prepared:?}"), format!("{rotated:?}"));
    rotated
}
