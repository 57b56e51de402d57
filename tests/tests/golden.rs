//! Queries and keys of real models, as Hugging Face's code rotates them and as exact arithmetic does.
//!
//! What is compared with what:
//!
//! | input | rows | compared with | |
//! |---|---|---|---|
//! | f32 | the file's f32 cos and sin | `*_hf_f32` | bits |
//! | bf16, f16 | the file's f32 cos and sin | one rounding of the f32 oracle | bits |
//! | f32 | correctly rounded from the exact angles | `*_exact_f64` | 2.75 u v, rms 0.51 u v |
//! | bf16, f16 | the same | the exact rotation of that input in f64, which rounds to `*_exact_cr_*` | 1.01 u v |
//!
//! `v` is the length of the exact output pair and `u` half an ulp of 1: 2^-24, 2^-8, 2^-11.

use half::{bf16, f16};
use rope_core::{Backend, Direction, Pairing, Rope, Rows, Tensor, TensorMut};
use rope_tests::golden::{Bits, Golden};
use rope_tests::{
    Angles, Number, Placed, Plan, Rotation, Source, Stored, exact, generator::View, number::paint,
    run,
};

/// Q or K of a file: the rotated window of its heads.
fn placed(file: &Golden, tensor: &str) -> Placed {
    let (tokens, heads) = (
        file.decimal("tokens"),
        file.decimal(&format!("{tensor}_heads")),
    );
    let (head_dim, offset) = (file.decimal("head_dim"), file.decimal("rotary_offset"));
    let layout = rope_core::Layout::thd([tokens, heads, head_dim])
        .and_then(|all| all.channels(offset..head_dim));
    let view = View {
        shape: [1, tokens, heads, head_dim - offset],
        strides: [tokens * heads * head_dim, heads * head_dim, head_dim],
        offset,
    };
    Placed::new(layout.expect("channels that are there"), view, 0)
}

fn rotation(file: &Golden) -> Rotation {
    let (input, output) = file.pairings();
    Rotation {
        input,
        output,
        direction: Direction::Forward,
    }
}

/// The rows that Hugging Face's code made.
fn rows_of_file(file: &Golden) -> Stored {
    Stored::plain(Angles {
        rows: file.decimal("tokens"),
        pairs: file.decimal("n_freq"),
        cos: file.bits("cos_hf_f32"),
        sin: file.bits("sin_hf_f32"),
        attention_factor: file.bits("attention_factor_f64")[0],
    })
}

/// The exact rows, rounded once.
fn exact_rows(file: &Golden) -> Stored {
    let (cos, sin) = file
        .exact_angles()
        .into_iter()
        .map(|(cos, sin)| (cos as f32, sin as f32))
        .unzip();
    Stored::plain(Angles {
        rows: file.decimal("tokens"),
        pairs: file.decimal("n_freq"),
        cos,
        sin,
        attention_factor: file.bits("attention_factor_f64")[0],
    })
}

fn assert_bits<E: Number>(got: &[E], expected: &[E], doing: &str) {
    assert_eq!(got.len(), expected.len(), "{doing}");
    for (index, (got, expected)) in got.iter().zip(expected).enumerate() {
        let (bits, expected_bits) = (got.bits(), expected.bits());
        assert_eq!(
            bits, expected_bits,
            "{doing}: index {index}: expected {expected:?}, got {got:?}"
        );
    }
}

/// Rotates into a copy of the input, or in place if the pairing stays.
fn rotate<E: Number>(
    backend: Backend,
    rotation: Rotation,
    rows: &Rows<'_>,
    x: &[E],
    place: &Placed,
    in_place: bool,
) -> Vec<E> {
    let rope = Plan::new(rotation, backend);
    let mut y = x.to_vec();
    let mut target = TensorMut::new(&mut y, place.layout).expect("a valid tensor");
    if in_place {
        rope.rotate(&mut target, rows).expect("rows that fit");
    } else {
        let source = Tensor::new(x, place.layout).expect("a valid tensor");
        rope.rotate_into(&source, &mut target, rows)
            .expect("rows that fit");
    }
    y
}

#[test]
fn f32_output_is_that_of_hugging_face_bit_for_bit() {
    let mut compared = 0;
    for file in Golden::all("apply") {
        let rotation = rotation(&file);
        let rows = rows_of_file(&file);
        for tensor in ["q", "k"] {
            let place = placed(&file, tensor);
            let x = file.bits::<f32>(&format!("{tensor}_in_f32"));
            let expected = file.bits::<f32>(&format!("{tensor}_hf_f32"));
            for backend in Backend::available() {
                for in_place in [false, true] {
                    if in_place && rotation.input != rotation.output {
                        continue;
                    }
                    let doing = format!("{backend}, {}, {tensor}, in place: {in_place}", file.name);
                    let got =
                        rows.with(|rows| rotate(backend, rotation, rows, &x, &place, in_place));
                    assert_bits(&got, &expected, &doing);
                    compared += got.len();
                }
            }
        }
    }
    println!("{compared} elements");
}

/// The same rows as slices that Python keeps: cos and sin apart, each value twice.
#[test]
fn rows_that_python_keeps_give_the_same() {
    for file in Golden::all("apply") {
        let pairs = file.decimal("n_freq");
        let twice = |key: &str| -> Vec<f32> {
            let values: Vec<f32> = file.bits(key);
            values
                .chunks(pairs)
                .flat_map(|row| [row, row].concat())
                .collect()
        };
        let (cos, sin) = (twice("cos_hf_f32"), twice("sin_hf_f32"));
        let rows = Rows::from_cos_sin(&cos, &sin, 2 * pairs, 2 * pairs).expect("whole rows");
        let got = rotate(
            Backend::best(),
            rotation(&file),
            &rows,
            &file.bits("q_in_f32"),
            &placed(&file, "q"),
            false,
        );
        assert_bits(&got, &file.bits::<f32>("q_hf_f32"), &file.name);
    }
}

fn one_rounding<E: Number + Bits>() {
    let source = &mut Source::random(E::NAME);
    for file in Golden::all("apply") {
        let rotation = rotation(&file);
        let rows = rows_of_file(&file);
        for tensor in ["q", "k"] {
            let place = placed(&file, tensor);
            let x = file.bits::<E>(&format!("{tensor}_in_{}", E::NAME));
            // On every backend, against the oracle.
            run::into::<E, E>(rotation, &rows, (&x, &place), (&x, &place));
            if rotation.input == rotation.output {
                run::in_place(rotation, &rows, &x, &place);
            }
            // A write of an f32 tensor into a 16-bit cache, and of a 16-bit one into f32.
            let wide = file.bits::<f32>(&format!("{tensor}_in_f32"));
            run::into::<f32, E>(rotation, &rows, (&wide, &place), (&x, &place));
            run::into::<E, f32>(
                rotation,
                &rows,
                (&x, &place),
                (&paint(source, place.len), &place),
            );
        }
    }
}

#[test]
fn bf16_output_is_rounded_once() {
    one_rounding::<bf16>();
}

#[test]
fn f16_output_is_rounded_once() {
    one_rounding::<f16>();
}

/// The exact rotation in f64 of the window's rotated channels: for each pair the indices of its output members, their
/// exact values and the length of the pair.
fn exactly<E: Number>(file: &Golden, place: &Placed, x: &[E]) -> Vec<([usize; 2], [f64; 2], f64)> {
    let angles = file.exact_angles();
    let pairs = file.decimal("n_freq");
    let (input, output) = file.pairings();
    let members = |pairing, head: [usize; 3], pair| {
        let channels = match pairing {
            Pairing::Interleaved => [2 * pair, 2 * pair + 1],
            Pairing::Half => [pair, pair + pairs],
        };
        channels.map(|channel| place.view.index([head[0], head[1], head[2], channel]))
    };
    let mut exact = Vec::new();
    for head in place.view.heads() {
        for pair in 0..pairs {
            let [a, b] = members(input, head, pair).map(|index| f64::from(x[index].to_f32()));
            let (a, b) = exact::rotate((a, b), angles[head[1] * pairs + pair]);
            exact.push((members(output, head, pair), [a, b], a.hypot(b)));
        }
    }
    exact
}

/// Of errors in units of u v.
#[derive(Default)]
struct Errors {
    max: f64,
    squares: f64,
    count: usize,
    correctly_rounded: usize,
}

fn errors<E: Number + Bits>(
    u: f64,
    check_exact: impl Fn(&Golden, &str, &[([usize; 2], [f64; 2], f64)]),
) -> Errors {
    let mut errors = Errors::default();
    for file in Golden::all("apply") {
        let rows = exact_rows(&file);
        for tensor in ["q", "k"] {
            let place = placed(&file, tensor);
            let x = file.bits::<E>(&format!("{tensor}_in_{}", E::NAME));
            let best = file.bits::<E>(&format!("{tensor}_exact_cr_{}", E::NAME));
            let exact = exactly(&file, &place, &x);
            check_exact(&file, tensor, &exact);
            // The bits of all backends are the same: see `agree`.
            let got =
                rows.with(|rows| rotate(Backend::best(), rotation(&file), rows, &x, &place, false));
            for (indices, values, length) in exact {
                for (index, value) in indices.into_iter().zip(values) {
                    let error = (f64::from(got[index].to_f32()) - value).abs() / (u * length);
                    errors.max = errors.max.max(error);
                    errors.squares += error * error;
                    errors.count += 1;
                    errors.correctly_rounded +=
                        usize::from(got[index].bits() == best[index].bits());
                }
            }
        }
    }
    println!(
        "{}: max {:.3} u v, rms {:.3} u v, {} of {} correctly rounded",
        E::NAME,
        errors.max,
        errors.rms(),
        errors.correctly_rounded,
        errors.count
    );
    errors
}

impl Errors {
    fn rms(&self) -> f64 {
        (self.squares / self.count as f64).sqrt()
    }

    fn correctly_rounded(&self) -> f64 {
        self.correctly_rounded as f64 / self.count as f64
    }
}

#[test]
fn f32_error() {
    let errors = errors::<f32>(2.0_f64.powi(-24), |file, tensor, exact| {
        // The harness's idea of exact is that of the file, to f64.
        let given = file.bits::<f64>(&format!("{tensor}_exact_f64"));
        for (indices, values, length) in exact {
            for (&index, value) in indices.iter().zip(values) {
                assert!(
                    (given[index] - value).abs() <= 1e-14 * length,
                    "{}: {index}",
                    file.name
                );
            }
        }
    });
    assert!(errors.max <= 2.75);
    assert!(errors.rms() <= 0.51);
}

/// The harness's exact rotation rounds to the file's.
fn rounds_to_file<E: Number + Bits>(
    file: &Golden,
    tensor: &str,
    exact: &[([usize; 2], [f64; 2], f64)],
) {
    let given = file.bits::<E>(&format!("{tensor}_exact_cr_{}", E::NAME));
    for (indices, values, length) in exact {
        for (&index, value) in indices.iter().zip(values) {
            let error = (f64::from(given[index].to_f32()) - value).abs();
            // Half an ulp of the value, or of the least normal number.
            let half_ulp = match E::NAME {
                "bf16" => value.abs() * 2.0_f64.powi(-8),
                _ => value.abs().max(2.0_f64.powi(-14)) * 2.0_f64.powi(-11),
            };
            assert!(error <= half_ulp + 1e-14 * length, "{}: {index}", file.name);
        }
    }
}

#[test]
fn bf16_error() {
    let errors = errors::<bf16>(2.0_f64.powi(-8), rounds_to_file::<bf16>);
    assert!(errors.max <= 1.01);
    assert!(errors.correctly_rounded() >= 0.9999);
}

#[test]
fn f16_error() {
    let errors = errors::<f16>(2.0_f64.powi(-11), rounds_to_file::<f16>);
    assert!(errors.max <= 1.01);
    assert!(errors.correctly_rounded() >= 0.9995);
}

/// Inverse undoes forward, the attention factor included.
fn round_trip<E: Number + Bits>(bound: f64) {
    for file in Golden::all("apply") {
        let (input, output) = file.pairings();
        if input != output {
            continue;
        }
        let rows = exact_rows(&file);
        let place = placed(&file, "q");
        let x = file.bits::<E>(&format!("q_in_{}", E::NAME));
        let mut y = x.clone();
        for direction in [Direction::Forward, Direction::Inverse] {
            let mut tensor = TensorMut::new(&mut y, place.layout).expect("a valid tensor");
            let rope = Plan(Rope::new(input).direction(direction));
            rows.with(|rows| rope.rotate(&mut tensor, rows).expect("rows that fit"));
        }
        for (indices, values, _) in exactly(&file, &place, &x) {
            let _ = values;
            let pair = |data: &[E]| indices.map(|index| f64::from(data[index].to_f32()));
            let ([a, b], [c, d]) = (pair(&x), pair(&y));
            assert!(
                (a - c).hypot(b - d) <= bound * a.hypot(b),
                "{}: {indices:?}",
                file.name
            );
        }
    }
}

#[test]
fn inverse_undoes_forward() {
    round_trip::<f32>(2.7e-7);
    round_trip::<bf16>(7.9e-3);
    round_trip::<f16>(9.8e-4);
}

/// `q_inverse_exact_f64` rotates back and multiplies by the attention factor: what the crate calls the transpose.
#[test]
fn transpose_turns_back_and_keeps_the_attention_factor() {
    for file in Golden::all("apply") {
        let Some(_) = file.find("q_inverse_exact_f64") else {
            continue;
        };
        let rotation = Rotation {
            direction: Direction::Transpose,
            ..rotation(&file)
        };
        let place = placed(&file, "q");
        let x = file.bits::<f32>("q_in_f32");
        let exact = file.bits::<f64>("q_inverse_exact_f64");
        let got = exact_rows(&file)
            .with(|rows| rotate(Backend::best(), rotation, rows, &x, &place, false));
        for (indices, _, length) in exactly(&file, &place, &x) {
            for index in indices {
                let error = (f64::from(got[index]) - exact[index]).abs();
                assert!(
                    error <= 2.75 * 2.0_f64.powi(-24) * length,
                    "{}: {index}",
                    file.name
                );
            }
        }
    }
}
