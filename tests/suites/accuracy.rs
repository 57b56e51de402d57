//! From a model's configuration to its rotated queries and keys, compared with exact arithmetic.
//!
//! `u` is half a unit in the last place of 1, and `|v|` is the length of a pair; [`bounds`] has the limits.

use half::{bf16, f16};
use rope_core::axes::Axes;
use rope_core::{Backend, Direction, Frequencies, Pairing, Positions, Rope, Tensor, TensorMut};
use rope_tests::bodies::config::Questions;
use rope_tests::golden::{Bits, Golden};
use rope_tests::{Number, Placed, bounds, exact};

use crate::models::{config, config_file, members, placed, same};

/// Returns the ids of all tokens on the first axis, then on the next one.
fn ids(file: &Golden, axes: usize) -> Vec<i64> {
    let axis = |axis| file.decimals::<i64>(&format!("positions_axis{axis}"));
    (0..axes).flat_map(axis).collect()
}

/// Returns Q or K rotated by these frequencies, and asserts that every backend gives the same bits.
fn rotated<E: Number>(
    file: &Golden,
    frequencies: &Frequencies<'static>,
    ((input, output), direction): ((Pairing, Pairing), Direction),
    x: &[E],
    place: &Placed,
) -> Vec<E> {
    let ids = ids(file, frequencies.axes());
    let mut first: Option<Vec<E>> = None;
    for backend in Backend::available() {
        let frequencies = frequencies
            .clone()
            .with_backend(backend)
            .expect("a backend");
        let rows = frequencies.rows(Positions::axis_major(&ids)).expect("ids");
        let rope = Rope::new(input)
            .with_output_pairing(output)
            .with_direction(direction)
            .with_backend(backend);
        let mut y = x.to_vec();
        let source = Tensor::new(x, place.layout).expect("a tensor");
        let mut target = TensorMut::new(&mut y, place.layout).expect("a tensor");
        rope.and_then(|rope| rope.rotate_into(&source, &mut target, &rows))
            .expect("rows that fit");
        if let Some(first) = &first {
            same(&y, first, &format!("{backend}, {}", file.name));
        } else {
            first = Some(y);
        }
    }
    first.expect("a backend")
}

/// A pair of the output: its place, its exact values, and its length.
struct Exact {
    indices: [usize; 2],
    values: [f64; 2],
    length: f64,
}

/// Returns the pairs of a window, rotated in f64 by the file's exact angles.
fn exactly<E: Number>(file: &Golden, x: &[E], place: &Placed) -> Vec<Exact> {
    let (angles, pairs) = (file.exact_angles(), file.decimal("n_freq"));
    let (input, output) = file.pairings();
    let all = place
        .view
        .heads()
        .flat_map(|head| (0..pairs).map(move |pair| (head, pair)));
    all.map(|([batch, token, head], pair)| {
        let index = |channel| place.view.index([batch, token, head, channel]);
        let [a, b] = members(input, pair, pairs).map(|c| f64::from(x[index(c)].to_f32()));
        let (a, b) = exact::rotate((a, b), angles[token * pairs + pair]);
        Exact {
            indices: members(output, pair, pairs).map(index),
            values: [a, b],
            length: a.hypot(b),
        }
    })
    .collect()
}

/// Errors in units of u |v|, and the number of correctly rounded values.
#[derive(Default)]
struct Errors {
    max: f64,
    squares: f64,
    count: usize,
    best: usize,
}

impl Errors {
    fn add(&mut self, error: f64) {
        self.max = self.max.max(error);
        self.squares += error * error;
        self.count += 1;
    }

    fn rms(&self) -> f64 {
        (self.squares / self.count as f64).sqrt()
    }

    fn best(&self) -> f64 {
        self.best as f64 / self.count as f64
    }

    fn say(&self, name: &str) {
        let (max, rms, best) = (self.max, self.rms(), 100.0 * self.best());
        println!(
            "{name}: max {max:.3} u|v|, rms {rms:.3} u|v|, {best:.3} % of {} correctly rounded",
            self.count
        );
    }
}

/// Takes all models from the configuration to frequencies, rows, and rotated Q and K.
fn models<E: Number + Bits>() -> Errors {
    let mut errors = Errors::default();
    for file in Golden::all("apply") {
        let config = config(&config_file(&file.name));
        let frequencies = config.frequencies().expect("frequencies");
        let pairing = config.pairing().expect("a pairing");
        assert_eq!(pairing, file.pairings(), "{}", file.name);
        for tensor in ["q", "k"] {
            let place = placed(&file, tensor);
            let x = file.bits::<E>(&format!("{tensor}_in_{}", E::NAME));
            let best = file.bits::<E>(&format!("{tensor}_exact_cr_{}", E::NAME));
            let got = rotated(
                &file,
                &frequencies,
                (pairing, Direction::Forward),
                &x,
                &place,
            );
            let mut rotates = vec![false; x.len()];
            for Exact {
                indices,
                values,
                length,
            } in exactly(&file, &x, &place)
            {
                for (index, value) in indices.into_iter().zip(values) {
                    // The file's own value is the rounding of the reference.
                    let nearest = exact::is_nearest(best[index], value, 1e-14 * length);
                    assert!(nearest, "{}, {tensor}: {index}", file.name);
                    let error = (f64::from(got[index].to_f32()) - value).abs();
                    errors.add(error / (bounds::of::<E>().u * length));
                    errors.best += usize::from(got[index].bits() == best[index].bits());
                    rotates[index] = true;
                }
            }
            // Channels that do not rotate are unchanged.
            for index in (0..x.len()).filter(|&index| !rotates[index]) {
                assert_eq!(got[index].bits(), x[index].bits(), "{}: {index}", file.name);
                assert_eq!(
                    best[index].bits(),
                    x[index].bits(),
                    "{}: {index}",
                    file.name
                );
            }
        }
    }
    errors.say(E::NAME);
    errors
}

fn queries_and_keys<E: Number + Bits>() {
    let (errors, bounds) = (models::<E>(), bounds::of::<E>());
    assert!(errors.max <= bounds.output && errors.rms() <= bounds.output_rms);
    assert!(errors.best() >= bounds.correctly_rounded);
}

#[test]
fn f32_queries_and_keys() {
    queries_and_keys::<f32>();
}

#[test]
fn bf16_queries_and_keys() {
    queries_and_keys::<bf16>();
}

#[test]
fn f16_queries_and_keys() {
    queries_and_keys::<f16>();
}

/// Returns each output of these pairs with its error against the file's value, in u |v|.
fn off(got: &[f32], exact: &[f64], pairs: Vec<Exact>) -> impl Iterator<Item = (usize, f64)> {
    pairs.into_iter().flat_map(move |pair| {
        pair.indices.map(|index| {
            let error = (f64::from(got[index]) - exact[index]).abs();
            (index, error / (bounds::of::<f32>().u * pair.length))
        })
    })
}

/// Compares with the files' own values, also with Hugging Face's frequencies.
#[test]
fn f32_against_the_exact_values_of_the_files() {
    for (kind, given) in [("exact", false), ("exact_f32freq", true)] {
        let mut errors = Errors::default();
        for file in Golden::all("apply") {
            let config = config(&config_file(&file.name));
            let mut frequencies = config.frequencies().expect("frequencies");
            if given {
                let axes: Vec<u8> = file.decimals("pair_axis");
                let inverse: Vec<f32> = file.bits("inv_freq_hf_f32");
                let factor = frequencies.attention_factor();
                let made = Frequencies::from_inverse(Axes::given(&axes), &inverse, factor);
                frequencies = made.expect("frequencies");
            }
            for tensor in ["q", "k"] {
                let place = placed(&file, tensor);
                let x = file.bits::<f32>(&format!("{tensor}_in_f32"));
                let exact = file.bits::<f64>(&format!("{tensor}_{kind}_f64"));
                let got = rotated(
                    &file,
                    &frequencies,
                    (file.pairings(), Direction::Forward),
                    &x,
                    &place,
                );
                let mut rotates = vec![false; x.len()];
                for (index, error) in off(&got, &exact, exactly(&file, &x, &place)) {
                    errors.add(error);
                    rotates[index] = true;
                }
                for index in (0..x.len()).filter(|&index| !rotates[index]) {
                    assert_eq!(exact[index], f64::from(x[index]), "{}: {index}", file.name);
                }
            }
        }
        errors.say(kind);
        let bounds = bounds::of::<f32>();
        let good = errors.max <= bounds.output && errors.rms() <= bounds.output_rms;
        assert!(good, "{kind}");
    }
}

/// The file's `q_inverse_exact_f64` rotates back and multiplies by the attention factor; this is the crate's transpose.
#[test]
fn the_transpose_keeps_the_attention_factor() {
    let mut files = 0;
    for file in Golden::all("apply") {
        if file.find("q_inverse_exact_f64").is_none() {
            continue;
        }
        let exact = file.bits::<f64>("q_inverse_exact_f64");
        let frequencies = config(&config_file(&file.name)).frequencies();
        let place = placed(&file, "q");
        let x = file.bits::<f32>("q_in_f32");
        let got = rotated(
            &file,
            &frequencies.expect("frequencies"),
            (file.pairings(), Direction::Transpose),
            &x,
            &place,
        );
        for (index, error) in off(&got, &exact, exactly(&file, &x, &place)) {
            let bound = bounds::of::<f32>().output;
            assert!(error <= bound, "{}: {index}", file.name);
        }
        files += 1;
    }
    assert!(files > 0);
}
