//! The verbs of a plan, with wrong operands: each returns the error and writes nothing.

use rope_core::cache::{Cache, CacheLayout, CacheMut, Slots};
use rope_core::gradient::PairGradients;
use rope_core::stages::{Linear, Stages};
use rope_core::{Call, Element, Error, NoRotation, Output, Pairing, Rope, Rows, Tensor, TensorMut};
use rope_tests::Number;

use super::{refused, untouched};

/// A verb, between tensors or with a cache on one side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Verb {
    Rotate,
    Prepare,
    RotateQk,
    RotateInto,
    PrepareInto,
    RotateIntoEach,
    Apply,
    ApplyInto,
    Read,
    PrepareRead,
    Write,
    PrepareWrite,
    WriteEach,
    WriteKeysAndValues,
    ApplyRead,
    ApplyWrite,
    Shift,
    PrepareShift,
}

use Verb::*;

pub(crate) const ROTATE: &[Verb] = &[Rotate, Prepare, RotateQk];
pub(crate) const ROTATE_INTO: &[Verb] = &[RotateInto, PrepareInto, RotateIntoEach];
pub(crate) const APPLY: &[Verb] = &[Apply, ApplyInto];
pub(crate) const READ: &[Verb] = &[Read, PrepareRead];
pub(crate) const WRITE: &[Verb] = &[Write, PrepareWrite, WriteEach, WriteKeysAndValues];
pub(crate) const APPLY_CACHE: &[Verb] = &[ApplyRead, ApplyWrite];
/// Rotations of cached keys in place, with a row for each slot.
pub(crate) const SHIFT: &[Verb] = &[Shift, PrepareShift];

/// The operands of all verbs: tensors of one shape, caches of one layout, slots and rows.
#[derive(Clone)]
pub(crate) struct Operands<'a> {
    pub(crate) shape: [usize; 4],
    pub(crate) cache: CacheLayout,
    pub(crate) slots: Slots<'a>,
    pub(crate) rows: Rows<'a>,
}

impl<'a> Operands<'a> {
    /// Rows for tensors of this shape, and for a cache with a slot for each token.
    pub(crate) fn new(shape: [usize; 4], rows: Rows<'a>) -> Self {
        Operands {
            shape,
            cache: CacheLayout::nhd(shape).expect("a small cache"),
            slots: (0..shape[0] * shape[1]).into(),
            rows,
        }
    }

    fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// Calls a verb with a source of ones. Q, or the target, lies in `x`, and K, or the values' cache, in `y`.
    fn call<S: Stages, E: Number>(
        &self,
        verb: Verb,
        plan: &Rope<S>,
        [x, y]: [&mut [E]; 2],
    ) -> Result<(), Error> {
        let (slots, rows) = (self.slots, &self.rows);
        let ones = vec![E::from_f32(1.0); x.len()];
        let from = &Tensor::new(&ones[..self.elements()], self.shape).expect("valid");
        let cached = Cache::new(&ones, self.cache).expect("a cache that fits");
        let cached = &cached.slots(slots);
        match verb {
            Rotate => plan.rotate(&mut self.tensor(x), rows),
            Prepare => plan.prepare(&mut self.tensor(x), rows).map(Call::run),
            RotateQk => plan.rotate_qk(&mut self.tensor(x), &mut self.tensor(y), rows),
            RotateInto => plan.rotate_into(from, &mut self.tensor(x), rows),
            PrepareInto => {
                let mut target = self.tensor(x);
                plan.prepare_into(from, &mut target, rows).map(Call::run)
            }
            RotateIntoEach => {
                let (mut x, mut y) = (self.tensor(x), self.tensor(y));
                let outputs = [Output::tensor(&mut x, rows), Output::tensor(&mut y, rows)];
                plan.rotate_into_each(from, &mut { outputs })
            }
            Apply => plan.apply(&mut self.tensor(x)),
            ApplyInto => plan.apply_into(from, &mut self.tensor(x)),
            Read => plan.rotate_into(cached, &mut self.tensor(x), rows),
            PrepareRead => {
                let mut target = self.tensor(x);
                plan.prepare_into(cached, &mut target, rows).map(Call::run)
            }
            Write => plan.rotate_into(from, &mut self.cache(x).slots(slots), rows),
            PrepareWrite => {
                let mut cache = self.cache(x);
                let target = &mut cache.slots(slots);
                plan.prepare_into(from, target, rows).map(Call::run)
            }
            WriteEach => {
                let (mut x, mut y) = (self.cache(x), self.cache(y));
                let x = Output::cache(&mut x, slots, rows);
                let y = Output::cache(&mut y, slots, &NoRotation);
                plan.rotate_into_each(from, &mut [x, y])
            }
            WriteKeysAndValues => {
                let (mut keys, mut values) = (self.cache(x), self.cache(y));
                keys_and_values(plan, (from, &mut keys), (from, &mut values), slots, rows)
            }
            ApplyRead => plan.apply_into(cached, &mut self.tensor(x)),
            ApplyWrite => plan.apply_into(from, &mut self.cache(x).slots(slots)),
            Shift => plan.rotate(&mut self.cache(x).slots(slots), rows),
            PrepareShift => {
                let mut cache = self.cache(x);
                let target = &mut cache.slots(slots);
                plan.prepare(target, rows).map(Call::run)
            }
        }
    }

    fn tensor<'m, E: Element>(&self, memory: &'m mut [E]) -> TensorMut<'m, E> {
        TensorMut::new(&mut memory[..self.elements()], self.shape).expect("valid")
    }

    fn cache<'m, E: Element>(&self, memory: &'m mut [E]) -> CacheMut<'m> {
        CacheMut::new(memory, self.cache).expect("a cache that fits")
    }

    /// Calls each verb with painted targets: it returns this error, and the targets keep their bits.
    #[track_caller]
    pub(crate) fn refused<E: Number>(
        &self,
        verbs: &[&[Verb]],
        plan: &Rope<impl Stages>,
        error: Error,
    ) {
        let len = self.elements().max(self.cache.end());
        for verb in verbs.concat() {
            untouched::<E>(len, |x| {
                untouched::<E>(len, |y| {
                    let result = self.call(verb, plan, [x, y]);
                    assert_eq!(result, Err(error), "{verb:?}");
                    refused(result, error);
                });
            });
        }
    }

    /// Calls both forms of the backward pass, which leave their sums unchanged, too.
    #[track_caller]
    pub(crate) fn backward_refused<E: Number>(&self, plan: &Rope<impl Linear>, error: Error) {
        let (rows, pairs) = (&self.rows, self.rows.rotary_dim() / 2);
        let ones = vec![E::from_f32(1.0); self.elements()];
        let y = &Tensor::new(&ones, self.shape).expect("valid");
        let mut sums = vec![0.5; rows.len() * pairs];
        untouched::<E>(ones.len(), |dy| {
            let mut dy = self.tensor(dy);
            let mut angles = PairGradients::new(&mut sums, [rows.len(), 1, pairs]).expect("sums");
            refused(plan.backward(y, &mut dy, rows, &mut angles), error);
            refused(plan.backward_into(y, y, &mut dy, rows, &mut angles), error);
        });
        assert!(sums.iter().all(|&sum| sum == 0.5));
    }
}

/// Writes keys through a plan and unchanged values into the same slots of two caches: both, or neither.
pub(crate) fn keys_and_values<E: Element>(
    plan: &Rope<impl Stages>,
    (k, keys): (&Tensor<'_, E>, &mut CacheMut<'_>),
    (v, values): (&Tensor<'_, E>, &mut CacheMut<'_>),
    slots: Slots<'_>,
    rows: &Rows<'_>,
) -> Result<(), Error> {
    let unchanged = Rope::new(Pairing::Half);
    let (mut keys, mut values) = (keys.slots(slots), values.slots(slots));
    let write_keys = plan.prepare_into(k, &mut keys, rows)?;
    let write_values = unchanged.prepare_into(v, &mut values, &NoRotation)?;
    write_keys.run();
    write_values.run();
    Ok(())
}
