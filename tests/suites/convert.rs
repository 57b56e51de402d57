//! Conversions of every value there is, against the crate `half`: from 16 bits always, from 32 bits on demand.
//!
//! A conversion is seen in the channels after `rotary_dim`, which pass; and in pairs that a cos of 1 and a sin of 0 do
//! not rotate: `(v, 0)` gives `v` in its first member, and `(-0, v)` gives `v` in its second, whatever `v` is.

use bytemuck::cast_slice;
use half::{bf16, f16};
use rope_core::{Backend, Pairing, Rows, Tensor, TensorMut};
use rope_tests::{Number, Rotation, each_element_pair};

/// How a value gets through.
#[derive(Clone, Copy, Debug)]
enum Way {
    Passing,
    First(Pairing),
    Second(Pairing),
}

const WAYS: [Way; 5] = [
    Way::Passing,
    Way::First(Pairing::Half),
    Way::Second(Pairing::Interleaved),
    Way::Second(Pairing::Half),
    Way::First(Pairing::Interleaved),
];

/// A head of values, and where they are in it: side by side, or in every other place.
struct Head<I> {
    x: Vec<I>,
    rotary_dim: usize,
    first: usize,
    step: usize,
    pairing: Pairing,
}

impl<I: Number> Head<I> {
    fn new(way: Way, len: usize) -> Self {
        let (pairing, other, rotary_dim, first, step) = match way {
            Way::Passing => (Pairing::Half, 0.0, 2, 2, 1),
            Way::First(Pairing::Half) => (Pairing::Half, 0.0, 2 * len, 0, 1),
            Way::Second(Pairing::Half) => (Pairing::Half, -0.0, 2 * len, len, 1),
            Way::First(pairing) => (pairing, 0.0, 2 * len, 0, 2),
            Way::Second(pairing) => (pairing, -0.0, 2 * len, 1, 2),
        };
        let head_dim = rotary_dim.max(2 + len);
        Head {
            x: vec![I::from_f32(other); head_dim],
            rotary_dim,
            first,
            step,
            pairing,
        }
    }

    fn fill(&mut self, values: &[I]) {
        if self.step == 1 {
            self.x[self.first..][..values.len()].copy_from_slice(values);
            return;
        }
        for (pair, &value) in self.x.as_chunks_mut::<2>().0.iter_mut().zip(values) {
            pair[self.first] = value;
        }
    }

    /// What came out where the values are.
    fn at_places<'a, O>(&self, y: &'a [O]) -> impl Iterator<Item = &'a O> {
        y[self.first..].iter().step_by(self.step)
    }

    /// Returns `true` if these bits are where the values are, without a branch or a step that would be one value at a
    /// time.
    fn has_bits<O: Number>(&self, y: &[O], expected: &[O]) -> bool {
        if self.step == 1 {
            let bytes = cast_slice::<O, u8>;
            return bytes(&y[self.first..][..expected.len()]) == bytes(expected);
        }
        let pairs = y.as_chunks::<2>().0.iter().zip(expected);
        let differing = pairs.fold(0, |differing, ([a, b], expected)| {
            let got = if self.first == 0 { a } else { b };
            differing | (got.bits() ^ expected.bits())
        });
        differing == 0
    }

    fn convert<O: Number>(&self, backend: Backend, row: &[f32], y: &mut [O]) {
        let shape = [1, 1, 1, self.x.len()];
        let rows = Rows::from_cos_sin(
            &row[..self.rotary_dim / 2],
            &row[row.len() / 2..][..self.rotary_dim / 2],
            [1, self.rotary_dim / 2],
            self.rotary_dim,
        )
        .expect("one row");
        let source = Tensor::new(&self.x, shape).expect("a valid tensor");
        let mut target = TensorMut::new(y, shape).expect("a valid tensor");
        let plan = Rotation::forward(self.pairing).plan(backend);
        plan.rotate_into(&source, &mut target, &rows)
            .expect("rows that fit");
    }
}

/// Ones, then zeros: cos and sin of `pairs` pairs that do not rotate.
fn identity(pairs: usize) -> Vec<f32> {
    [vec![1.0; pairs], vec![0.0; pairs]].concat()
}

fn all_16_bits<I: Number, O: Number>() {
    if size_of::<I>() != 2 {
        return;
    }
    let values: Vec<I> = (0..1 << 16).map(I::from_bits).collect();
    let row = identity(values.len());
    for way in WAYS {
        let mut head = Head::<I>::new(way, values.len());
        head.fill(&values);
        let mut y = vec![O::from_f32(0.0); head.x.len()];
        for backend in Backend::available() {
            head.convert(backend, &row, &mut y);
            for (&value, &got) in values.iter().zip(head.at_places(&y)) {
                let expected = O::from_f32(value.to_f32());
                let same = got.bits() == expected.bits() || got.is_nan() && expected.is_nan();
                let (from, to) = (I::NAME, O::NAME);
                assert!(
                    same,
                    "{backend}, {from} to {to}, {way:?}: {value:?} gave {got:?}, not {expected:?}"
                );
            }
        }
    }
}

#[test]
fn every_value_of_16_bits() {
    each_element_pair!(all_16_bits());
}

/// Odd, so that its multiples are all numbers of 32 bits: in an order that puts values of every kind side by side.
const MIXED: u32 = 0x9e37_79b1;

/// As they are counted: rounding keeps their order, so numbers between two that round alike do as well, and the
/// definition need not be asked for each.
const IN_ORDER: u32 = 1;

fn down<O: Number>(step: u32, numbers: impl Iterator<Item = u32>) {
    const CHUNK: usize = 1 << 12;
    let row = identity(CHUNK);
    let mut heads = WAYS.map(|way| (way, Head::<f32>::new(way, CHUNK)));
    let mut y = [O::from_f32(0.0); 2 * CHUNK];
    let mut values = vec![0.0; CHUNK];
    let mut expected = vec![O::from_f32(0.0); CHUNK];
    let backends: Vec<Backend> = Backend::available().collect();
    for number in numbers {
        let first = number.wrapping_mul(CHUNK as u32);
        for (i, value) in values.iter_mut().enumerate() {
            *value = f32::from_bits(first.wrapping_add(i as u32).wrapping_mul(step));
        }
        let ends = [values[0], values[CHUNK - 1]].map(O::from_f32);
        if step == IN_ORDER && ends[0].bits() == ends[1].bits() {
            expected.fill(ends[0]);
        } else {
            for (value, expected) in values.iter().zip(&mut expected) {
                *expected = O::from_f32(*value);
            }
        }
        for (i, (way, head)) in heads.iter_mut().enumerate() {
            // Passing always. As first members and as second ones of each pairing, which the same operations convert in
            // three times the time, a quarter of some values and a sixteenth of all; from all over, whichever bits of a
            // number say how it is rounded.
            let shift = if step == IN_ORDER { 28 } else { 30 };
            if i > 0 && i as u32 - 1 != number.wrapping_mul(MIXED) >> shift {
                continue;
            }
            head.fill(&values);
            for &backend in &backends {
                let y = &mut y[..head.x.len()];
                head.convert(backend, &row, y);
                // Those of NaNs need not be equal.
                if head.has_bits(y, &expected) {
                    continue;
                }
                let each = values.iter().zip(head.at_places(y)).zip(&expected);
                for ((value, &got), &expected) in each {
                    assert!(
                        got.bits() == expected.bits() || got.is_nan() && expected.is_nan(),
                        "{backend}, f32 to {}, {way:?}: {value:?} ({:#010x}) gave {got:?}, not {expected:?}",
                        O::NAME,
                        value.to_bits(),
                    );
                }
            }
        }
    }
}

/// Some of them. All of them: `cargo test --release -p rope-tests -- --ignored`.
#[test]
fn many_values_of_32_bits() {
    let step = if cfg!(debug_assertions) {
        1 << 13
    } else {
        1 << 8
    };
    down::<f16>(MIXED, (0..1 << 20).step_by(step + 1));
    down::<bf16>(MIXED, (0..1 << 20).step_by(step + 1));
}

#[test]
#[ignore = "takes minutes, and is for optimized code"]
fn every_value_of_32_bits_to_f16() {
    down::<f16>(IN_ORDER, 0..1 << 20);
}

#[test]
#[ignore = "takes minutes, and is for optimized code"]
fn every_value_of_32_bits_to_bf16() {
    down::<bf16>(IN_ORDER, 0..1 << 20);
}
