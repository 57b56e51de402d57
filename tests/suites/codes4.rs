//! ggml's blocks of 4 and 5 bits in caches: the bytes that ggml writes, the numbers that it reads, rotated keys in both
//! orders of roundings, and the cases that ggml leaves undefined.

use half::bf16;
use rope_core::cache::{BlockFormat, CacheLayout, CacheMut};
use rope_core::stages::Normed;
use rope_core::{Backend, Frequencies, Pairing, Rope, Rows, Scaling, Tensor};
use rope_tests::golden::{Bits, Golden};
use rope_tests::{Number, Source, each_element, quantize};

use crate::cache::{in_blocks, out_of_blocks};
use crate::models::{alike, bits};

fn rope(backend: Backend) -> Rope {
    Rope::new(Pairing::Half)
        .with_backend(backend)
        .expect("an available backend")
}

/// Returns the formats of ggml's blocks except Q8_0.
fn formats() -> impl Iterator<Item = &'static BlockFormat> {
    BlockFormat::ALL
        .into_iter()
        .filter(|format| format.bytes < 32)
}

/// Tests the bytes and numbers of a file, in heads of one block and in longer ones.
fn of_ggml<E: Number + Bits>(file: &Golden) {
    let e = E::NAME;
    let x: Vec<E> = file.bits(&format!("x_{e}"));
    for format in formats() {
        let name = format.name;
        let expected = file.bits::<u8>(&format!("{name}_{e}"));
        let values: Vec<f32> = file.bits(&format!("{name}_dequant_{e}"));
        assert_eq!(x.len(), values.len());
        for backend in Backend::available() {
            let doing = format!("{backend}, {name} of {e}");
            for head_dim in [32, 64] {
                let got = in_blocks(backend, &x, head_dim, format);
                same_blocks(&got, &expected, format, &doing);
                let got = out_of_blocks(backend, &expected, head_dim, format);
                alike(&got, &values, &doing);
            }
        }
        // Tests the harness, the reference for cases without a file.
        let x: Vec<f32> = x.iter().map(|x| x.to_f32()).collect();
        let blocks = x.as_chunks::<32>().0.iter();
        let got: Vec<u8> = blocks
            .flat_map(|block| quantize::encode_block(format, block))
            .collect();
        same_blocks(&got, &expected, format, &format!("the harness, {name}"));
        let blocks = expected.chunks_exact(format.bytes);
        let got: Vec<f32> = blocks
            .flat_map(|block| quantize::decode_block(format, block))
            .collect();
        alike(&got, &values, &format!("the harness, {name}"));
    }
}

fn same_blocks(got: &[u8], expected: &[u8], format: &BlockFormat, doing: &str) {
    assert_eq!(got.len(), expected.len(), "{doing}");
    let blocks = got.chunks(format.bytes).zip(expected.chunks(format.bytes));
    for (index, (got, expected)) in blocks.enumerate() {
        assert!(
            got == expected,
            "{doing}: block {index} is {got:02x?}, not {expected:02x?}"
        );
    }
}

fn rows_of_ggml<E: Number + Bits>() {
    let file = Golden::file("codes4/ggml_rows.txt");
    let [rows, channels] = ["rows", "channels"].map(|key| file.decimal(key));
    assert_eq!(
        file.bits::<E>(&format!("x_{}", E::NAME)).len(),
        rows * channels
    );
    of_ggml::<E>(&file);
}

#[test]
fn blocks_of_ggml() {
    each_element!(rows_of_ggml());
}

/// Zeros with signs, constants, ties of codes and of magnitudes, and scales that f16 cannot represent.
#[test]
fn special_blocks_of_ggml() {
    let file = Golden::file("codes4/ggml_special.txt");
    let x: Vec<f32> = file.bits("x_f32");
    assert!(x.len().is_multiple_of(file.decimal("channels")));
    of_ggml::<f32>(&file);
}

/// Tests rotated keys, rounded to their element before they become codes (NA), and encoded directly from f32 (NB).
fn rotated<E: Number + Bits>() {
    let e = E::NAME;
    for name in ["half_d128", "interleaved_d64"] {
        let file = Golden::file(&format!("codes4/chain_{name}.txt"));
        let (pairing, _) = file.pairings();
        let [tokens, heads, head_dim, pairs] =
            ["tokens", "heads", "head_dim", "n_freq"].map(|key| file.decimal(key));
        let (cos, sin) = (file.bits::<f32>("cos_f32"), file.bits::<f32>("sin_f32"));
        let rows = Rows::from_cos_sin(&cos, &sin, [tokens, pairs], 2 * pairs).expect("rows");
        let base = file.bits::<f64>("base")[0];
        let made = Frequencies::new(2 * pairs, base, &Scaling::Default).expect("a base");
        let positions: Vec<i64> = file.decimals("positions");
        let made = made.rows(&positions).expect("positions");
        assert_eq!(bits(&rows), bits(&made), "{name}");
        let x: Vec<E> = file.bits(&format!("x_{e}"));
        let layout = CacheLayout::nhd([1, tokens, heads, head_dim]).expect("a small cache");
        for (backend, format) in
            Backend::available().flat_map(|backend| formats().map(move |format| (backend, format)))
        {
            let rope = Rope::new(pairing).with_backend(backend).expect("available");
            let x = Tensor::new(&x, [1, tokens, heads, head_dim]).expect("a valid tensor");
            for (order, chain) in [
                ("NA", Rope::<Normed<'_>>::from(rope)),
                ("NB", Rope::<Normed<'_>>::from(rope).without_rounding()),
            ] {
                // For f32 both orders are the same.
                let order = if e == "f32" { "NB" } else { order };
                let key = format!("{order}_{}_{e}", format.name);
                let expected = file.bits::<u8>(&key);
                let mut got = vec![0x5a; expected.len()];
                let mut cache = CacheMut::coded(&mut got, layout, format).expect("whole blocks");
                chain
                    .rotate_into(&x, &mut cache.slots(0..tokens), &rows)
                    .expect("slots that are there");
                same_blocks(
                    &got,
                    &expected,
                    format,
                    &format!("{backend}, {name}, {key}"),
                );
            }
        }
    }
}

#[test]
fn both_orders_of_roundings() {
    each_element!(rotated());
}

/// Tests the rows of a cache of llama.cpp after tokens were written to some of its slots.
#[test]
fn slots_of_llama_cpp() {
    let file = Golden::file("codes4/scatter.txt");
    let [blocks, block_size, heads, head_dim] =
        ["blocks", "block_size", "heads", "head_dim"].map(|key| file.decimal(key));
    let slots: Vec<i64> = file.decimals("slots");
    let k: Vec<bf16> = file.bits("k_bf16");
    let k = Tensor::new(&k, [1, slots.len(), heads, head_dim]).expect("a valid tensor");
    let layout = CacheLayout::nhd([blocks, block_size, heads, head_dim]).expect("a small cache");
    let mut compared = 0;
    for format in formats() {
        let key = format!("{}_rows", format.name);
        if file.find(&key).is_none() {
            continue;
        }
        let expected = file.bits::<u8>(&key);
        for backend in Backend::available() {
            let mut got = vec![0x5a; expected.len()];
            let mut cache = CacheMut::coded(&mut got, layout, format).expect("whole blocks");
            rope(backend)
                .apply_into(&k, &mut cache.slots(&slots))
                .expect("slots that are there");
            assert_eq!(got, expected, "{backend}, {key}");
            compared += 1;
        }
    }
    assert_eq!(compared, 3 * Backend::available().count());
}

/// Cases that ggml leaves undefined follow the documentation.
#[test]
fn nans_and_infinities() {
    for backend in Backend::available() {
        for format in formats() {
            let name = format.name;
            let through = |x: &[f32; 32]| {
                let bytes = in_blocks(backend, x, 32, format);
                assert_eq!(
                    bytes,
                    quantize::encode_block(format, x),
                    "{backend}, {name}"
                );
                out_of_blocks(backend, &bytes, 32, format)
            };
            let plain: [f32; 32] = std::array::from_fn(|i| i as f32 - 12.25);
            let expected = through(&plain);
            // A signaling NaN and a quiet one, with either sign.
            for nan in [0x7f80_0001, 0xff80_0001, 0x7fc0_0000, 0xffff_ffff] {
                let mut x = plain;
                x[5] = f32::from_bits(nan);
                let mut got = through(&x);
                if name == "iq4_nl" {
                    assert!(got.iter().all(|x| *x == 0.0), "{backend}: {got:?}");
                    continue;
                }
                // Code 0.
                let least = if name.ends_with('1') { -12.25 } else { 18.75 };
                assert!((got[5] - least).abs() < 0.01, "{backend}, {name}: {got:?}");
                got[5] = expected[5];
                alike(&got, &expected, &format!("{backend}, {name}"));
            }
            for infinity in [f32::INFINITY, f32::NEG_INFINITY] {
                let mut x = plain;
                (x[5], x[9]) = (infinity, -infinity);
                for (index, value) in through(&x).into_iter().enumerate() {
                    let kept = name.ends_with('0') && [5, 9].contains(&index);
                    assert!(
                        if kept {
                            value == infinity
                        } else {
                            value.is_nan()
                        },
                        "{backend}, {name}: {index} is {value}"
                    );
                }
            }
        }
    }
}

/// Tests blocks of any bits and of sizes around the limits of f32 and f16: every backend gives the harness's blocks.
#[test]
fn any_block() {
    let source = &mut Source::random("any_block");
    for round in 0..600 {
        let size = [1.0, 1e-44, 1e-38, 1e-20, 1e-15, 4e-6, 3e5, 1e18, 1e30][round % 9];
        let x: [f32; 32] = std::array::from_fn(|_| match round % 4 {
            0 => f32::from_bits(source.word()),
            // Few values: largest magnitudes of both signs, zeros of both signs, ties.
            1 => (source.below(9) as f32 - 4.0) * size,
            2 => match source.below(9) {
                0 => -0.0,
                step => (step - 1) as f32 * size,
            },
            _ => source.unit() * size,
        });
        for format in formats().chain([BlockFormat::Q8_0]) {
            let expected = quantize::encode_block(format, &x);
            let values = quantize::decode_block(format, &expected);
            for backend in Backend::available() {
                let doing = format!("{backend}, {} of {x:?}", format.name);
                same_blocks(
                    &in_blocks(backend, &x, 32, format),
                    &expected,
                    format,
                    &doing,
                );
                alike(
                    &out_of_blocks(backend, &expected, 32, format),
                    &values,
                    &doing,
                );
            }
        }
    }
}

/// The values of a block, encoded again, decode to the same values.
#[test]
fn a_second_time_changes_nothing() {
    let source = &mut Source::random("a_second_time_changes_nothing");
    for _ in 0..100 {
        let x: [f32; 32] = std::array::from_fn(|_| source.unit());
        for backend in Backend::available() {
            for format in formats() {
                let once = in_blocks(backend, &x, 32, format);
                let values = out_of_blocks(backend, &once, 32, format);
                let twice = in_blocks(backend, &values, 32, format);
                assert_eq!(once, twice, "{backend}, {}", format.name);
            }
        }
    }
}
