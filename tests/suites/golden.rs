//! Queries and keys of real models, rotated by the cos and sin of Hugging Face's code: its bits in f32, and
//! the bits of one rounding in 16 bits. `accuracy` compares the same models with exact arithmetic.
//!
//! Comparisons:
//!
//! | input | rows | compared with | |
//! |---|---|---|---|
//! | f32 | the file's f32 cos and sin | `*_hf_f32` | bits |
//! | bf16, f16 | the file's f32 cos and sin | one rounding of the f32 oracle | bits |

use half::{bf16, f16};
use rope_core::{Backend, Direction, Rows, Tensor, TensorMut};
use rope_tests::golden::{Bits, Golden};
use rope_tests::number::paint;
use rope_tests::{Angles, Number, Placed, Rotation, Source, Stored, run};

use crate::models::{config_file, placed, same};

fn rotation(file: &Golden) -> Rotation {
    let (input, output) = file.pairings();
    Rotation {
        input,
        output,
        direction: Direction::Forward,
        parts: 1,
    }
}

/// Returns the rows that Hugging Face's code made.
fn rows_of_file(file: &Golden) -> Stored {
    Stored::plain(Angles {
        rows: file.decimal("tokens"),
        heads: 1,
        pairs: file.decimal("n_freq"),
        cos: file.bits("cos_hf_f32"),
        sin: file.bits("sin_hf_f32"),
        attention_factor: file.bits("attention_factor_f64")[0],
    })
}

/// Data that several files contain is equal in each: a table, its model's queries and keys, and its configuration.
#[test]
fn files_agree() {
    for folder in ["apply", "grad", "mixed", "norm", "shift", "tables"] {
        for file in Golden::all(folder) {
            assert_eq!(file.text("name"), file.name);
        }
    }
    for table in Golden::all("tables") {
        let config = config_file(&table.name);
        assert_eq!(config["name"], *table.name);
        for key in ["layout", "head_dim", "rotary_dim"] {
            let said = config[key].to_string();
            assert_eq!(table.text(key), said.trim_matches('"'), "{}", table.name);
        }
        for (key, of_table) in [
            ("attention_factor_hf", "attention_factor_hf_f64"),
            ("attention_factor_exact_f64", "attention_factor_exact_f64"),
        ] {
            let said = config[key].as_f64().map(f64::to_bits);
            let factor = table.bits::<f64>(of_table)[0];
            assert_eq!(said, Some(factor.to_bits()), "{}", table.name);
        }
        let pairs = table.bits::<f32>("inv_freq_hf_f32").len();
        assert_eq!(table.decimal("n_freq"), pairs, "{}", table.name);
    }
    for file in Golden::all("apply") {
        let table = Golden::file(&format!("tables/{}.txt", file.name));
        for [of_file, of_table] in [
            ["layout"; 2],
            ["head_dim"; 2],
            ["n_freq"; 2],
            ["inv_freq_hf_f32"; 2],
            ["inv_freq_exact_f64"; 2],
            ["turn_step_u128"; 2],
            ["attention_factor_f64", "attention_factor_exact_f64"],
        ] {
            assert_eq!(file.text(of_file), table.text(of_table), "{}", file.name);
        }
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
    let rope = rotation.plan(backend);
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
fn f32_output_matches_hugging_face_bit_for_bit() {
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
                    same(&got, &expected, &doing);
                    compared += got.len();
                }
            }
        }
    }
    assert_eq!(compared, 93_696 * Backend::available().count());
}

/// The same rows as Python's slices: separate cos and sin, each value twice.
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
        let shape = [cos.len() / (2 * pairs), 2 * pairs];
        let rows = Rows::from_cos_sin(&cos, &sin, shape, 2 * pairs).expect("whole rows");
        let got = rotate(
            Backend::best(),
            rotation(&file),
            &rows,
            &file.bits("q_in_f32"),
            &placed(&file, "q"),
            false,
        );
        same(&got, &file.bits::<f32>("q_hf_f32"), &file.name);
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
            // Every backend agrees with the oracle.
            run::into::<E, E>(rotation, &rows, (&x, &place), (&x, &place));
            if rotation.input == rotation.output {
                run::in_place(rotation, &rows, &x, &place);
            }
            // Writes an f32 tensor into a 16-bit cache, and a 16-bit tensor into f32.
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
