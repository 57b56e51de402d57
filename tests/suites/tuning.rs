//! Parameters change the time of a call and never its bits: tables with every threshold at one end or the other.

use half::bf16;
use rope_core::cache::{CacheFormat, CacheLayout, CacheMut, QuantFormat, QuantScale};
use rope_core::gradient::PairGradients;
use rope_core::internals::{Ahead, TUNINGS, Tuning, tuned, tuning};
use rope_core::norm::{Norm, NormFormula};
use rope_core::{Backend, Output, Pairing, Rope, Rows, Tensor, TensorMut};
use rope_tests::number::{Number, paint};
use rope_tests::{Placed, Source, Stored};

/// Returns a table with one value for every threshold, and a number of heads ahead.
const fn extreme(size: usize, heads: usize) -> Tuning {
    let ahead = Ahead {
        heads: [heads; 2],
        above: [size; 2],
    };
    let part = if size == 0 { 1 } else { size };
    Tuning {
        core: "extreme",
        rotate: ahead,
        tile: ahead,
        squares: ahead,
        backward: ahead,
        gradients: ahead,
        over_gaps_above: [size; 2],
        over_gaps_into_another_above: [size; 2],
        next_line_above: size,
        heads_together: [heads; 2],
        few_together_above: [size; 2],
        by_head_above: [size; 2],
        by_head_into_another_above: [size; 2],
        by_token_of_source_above: [size; 2],
        backward_part: size,
        output_part: size,
        streamed_part: size,
        stream_above: size,
        thread_part: part,
        thread_part_outside: part,
    }
}

static EXTREMES: [Tuning; 3] = [extreme(0, 3), extreme(usize::MAX, 0), extreme(1 << 12, 1)];

/// Returns the memory after a call with a table.
type Call<E> = fn(&Rope, &Case<E>) -> Vec<u8>;

struct Case<E> {
    places: [Placed; 2],
    x: Vec<E>,
    y: Vec<E>,
    rows: Stored,
}

impl<E: Number> Case<E> {
    /// Returns the bytes of elements. A computed NaN may be any NaN: parts have other remainders than the whole.
    fn bytes(values: &[E]) -> Vec<u8> {
        let bits = |value: &E| {
            if value.is_nan() {
                u32::MAX
            } else {
                value.bits()
            }
        };
        let bits = values.iter().map(bits);
        bits.flat_map(u32::to_ne_bytes).collect()
    }

    /// Returns the bytes of sums.
    fn bytes_of_sums(values: &[f64]) -> Vec<u8> {
        let bits = |sum: &f64| {
            if sum.is_nan() {
                u64::MAX
            } else {
                sum.to_bits()
            }
        };
        values.iter().map(bits).flat_map(u64::to_ne_bytes).collect()
    }

    /// Runs a call on a copy of the target.
    fn on_target(
        &self,
        run: impl FnOnce(&Tensor<'_, E>, &mut TensorMut<'_, E>, &Rows<'_>),
    ) -> Vec<u8> {
        let [from, to] = self.places.map(|place| place.layout);
        let mut y = self.y.clone();
        let x = Tensor::new(&self.x, from).expect("valid");
        self.rows
            .with(|rows| run(&x, &mut TensorMut::new(&mut y, to).expect("valid"), rows));
        Self::bytes(&y)
    }
}

fn calls<E: Number>() -> [(&'static str, Call<E>); 7] {
    [
        ("rotate", |rope, case| {
            case.on_target(|_, y, rows| rope.rotate(y, rows).expect("rows that fit"))
        }),
        ("rotate_into", |rope, case| {
            case.on_target(|x, y, rows| rope.rotate_into(x, y, rows).expect("rows that fit"))
        }),
        ("norm", |rope, case| {
            let rope = rope.with_norm(Norm::new(NormFormula::LLAMA, 1e-6).without_weight());
            case.on_target(|_, y, rows| rope.rotate(y, rows).expect("rows that fit"))
        }),
        ("backward", |rope, case| {
            let mut values = Vec::new();
            let mut bytes = case.on_target(|x, y, rows| {
                let shape = [rows.len(), 1, rows.rotary_dim() / 2];
                values.resize(shape.iter().product(), 0.0);
                let mut sums = PairGradients::new(&mut values, shape).expect("a shape");
                rope.backward(x, y, rows, &mut sums).expect("rows that fit");
            });
            bytes.extend(Case::<E>::bytes_of_sums(&values));
            bytes
        }),
        ("gradients", |rope, case| {
            let mut values = Vec::new();
            case.on_target(|x, y, rows| {
                let shape = [rows.len(), 1, rows.rotary_dim() / 2];
                values.resize(shape.iter().product(), 0.0);
                let mut sums = PairGradients::new(&mut values, shape).expect("a shape");
                rope.angle_gradients(x, &y.as_tensor(), &mut sums)
                    .expect("they fit");
            });
            Case::<E>::bytes_of_sums(&values)
        }),
        ("rotate_into_each", |rope, case| {
            let mut other = case.y.clone();
            let mut bytes = case.on_target(|x, y, rows| {
                let mut other = TensorMut::new(&mut other, case.places[1].layout).expect("valid");
                let outputs = &mut [Output::new(y, rows), Output::new(&mut other, rows)];
                rope.rotate_into_each(x, outputs).expect("rows that fit");
            });
            bytes.extend(Case::bytes(&other));
            bytes
        }),
        ("rotate_into_cache", |rope, case| {
            let mut codes = Vec::new();
            case.on_target(|x, _, rows| {
                let shape = x.shape();
                let tokens = shape.batch * shape.tokens;
                let layout =
                    CacheLayout::nhd([1, tokens, shape.heads, shape.head_dim]).expect("a layout");
                codes.resize(layout.end(), 0);
                let scale = QuantScale::Multiply(0.5.into());
                let cache = CacheMut::coded(
                    &mut codes,
                    layout,
                    CacheFormat::quantized(QuantFormat::E4m3, scale),
                );
                rope.rotate_into(x, &mut cache.expect("a cache").slots(0..tokens), rows)
                    .expect("they fit");
            });
            codes
        }),
    ]
}

fn same_bits<E: Number>(source: &mut Source<'_>) {
    let tables: Vec<_> = EXTREMES.iter().chain(TUNINGS).collect();
    // Chunks of 16 tokens, and a remainder; heads in all lanes, and a tail.
    for shape in [
        [1, 37, 5, 70],
        [3, 2, 33, 64],
        [2, 17, 1, 256],
        [1, 0, 3, 64],
    ] {
        let places = [(); 2].map(|()| Placed::any(source, shape));
        let case = Case::<E> {
            x: paint(source, places[0].len),
            y: paint(source, places[1].len),
            places,
            rows: Stored::for_shape(source, [shape[0], shape[1], 1, shape[3]], 16),
        };
        for backend in Backend::available() {
            let rope = Rope::new(source.one_of(&Pairing::ALL));
            let rope = rope.with_backend(backend).expect("available");
            for (name, call) in calls::<E>() {
                let expected = call(&rope, &case);
                for tuning in &tables {
                    let got = call(&tuned(rope, tuning), &case);
                    assert!(got == expected, "{name}, {backend}, {shape:?}, {tuning:?}");
                }
            }
        }
    }
}

#[test]
fn no_knob_changes_a_bit() {
    let source = &mut Source::random("tuning");
    same_bits::<f32>(source);
    same_bits::<bf16>(source);
}

#[test]
fn a_plan_has_a_row_of_the_table() {
    let row = tuning(&Rope::new(Pairing::Half));
    assert!(TUNINGS.contains(&row));
    for (index, row) in TUNINGS.iter().enumerate() {
        assert!(
            !TUNINGS[..index].iter().any(|other| other.core == row.core),
            "{}",
            row.core
        );
    }
}
