//! Caches compared bit for bit with those that engines and libraries write: every code of every f32, scales of each
//! kind, rotated keys in each order of roundings, and every layout with its slots.

use half::{bf16, f16};
use rope_core::cache::{
    BlockFormat, Cache, CacheFormat, CacheLayout, CacheMut, CacheShape, CacheStrides, HeadScales,
    QuantFormat, QuantScale, ScaleLayout, ScalePlace, Slots,
};
use rope_core::stages::Normed;
use rope_core::{
    Backend, Dimension, Frequencies, Layout, Pairing, Rope, Rows, Scaling, Tensor, TensorMut,
};
use rope_tests::golden::{self, Bits, Golden};
use rope_tests::quantize::{Factor, Kind};
use rope_tests::{Number, Source, each_element, number, quantize};

use crate::models::{alike, bits};

fn rope(backend: Backend) -> Rope {
    Rope::new(Pairing::Half)
        .with_backend(backend)
        .expect("an available backend")
}

/// Returns a cache of one head for each token, side by side.
fn heads(count: usize, head_dim: usize) -> CacheLayout {
    CacheLayout::nhd([count, 1, 1, head_dim]).expect("a small cache")
}

/// Writes heads through a plan without a rotation into a cache of one head for each token.
fn store<E: Number>(backend: Backend, x: &[E], head_dim: usize, mut cache: CacheMut<'_>) {
    let count = x.len() / head_dim;
    let x = Tensor::new(x, [1, count, 1, head_dim]).expect("a valid tensor");
    rope(backend)
        .apply_into(&x, &mut cache.slots(0..count))
        .expect("slots that are there");
}

/// Returns the numbers of such a cache.
fn load(backend: Backend, cache: &Cache<'_>, [count, head_dim]: [usize; 2]) -> Vec<f32> {
    let mut y = vec![0.5; count * head_dim];
    let mut tensor = TensorMut::new(&mut y, [1, count, 1, head_dim]).expect("a valid tensor");
    rope(backend)
        .apply_into(&cache.slots(0..count), &mut tensor)
        .expect("slots that are there");
    y
}

/// Returns the codes of heads.
fn coded<E: Number>(
    backend: Backend,
    x: &[E],
    head_dim: usize,
    (code, scale): (QuantFormat, QuantScale<'_>),
    scales: &mut [f32],
) -> Vec<u8> {
    let mut bytes = vec![0x5a; x.len()];
    let layout = heads(x.len() / head_dim, head_dim);
    let cache = CacheMut::coded_with_scales(
        &mut bytes,
        layout,
        CacheFormat::quantized(code, scale),
        scales,
    );
    store(backend, x, head_dim, cache.expect("a cache that fits"));
    bytes
}

/// Returns the numbers of codes.
fn decoded(
    backend: Backend,
    bytes: &[u8],
    head_dim: usize,
    (code, scale): (QuantFormat, QuantScale<'_>),
    scales: &[f32],
) -> Vec<f32> {
    let count = bytes.len() / head_dim;
    let layout = heads(count, head_dim);
    let cache =
        Cache::coded_with_scales(bytes, layout, CacheFormat::quantized(code, scale), scales)
            .expect("a cache that fits");
    load(backend, &cache, [count, head_dim])
}

/// Returns the bytes of blocks of heads.
pub(crate) fn in_blocks<E: Number>(
    backend: Backend,
    x: &[E],
    head_dim: usize,
    format: &'static BlockFormat,
) -> Vec<u8> {
    let mut bytes = vec![0x5a; x.len() / format.values * format.bytes];
    let cache = CacheMut::coded(&mut bytes, heads(x.len() / head_dim, head_dim), format);
    store(backend, x, head_dim, cache.expect("a cache that fits"));
    bytes
}

/// Returns the numbers of blocks.
pub(crate) fn out_of_blocks(
    backend: Backend,
    bytes: &[u8],
    head_dim: usize,
    format: &'static BlockFormat,
) -> Vec<f32> {
    let count = bytes.len() / format.bytes * format.values / head_dim;
    let cache = Cache::coded(bytes, heads(count, head_dim), format).expect("a cache that fits");
    load(backend, &cache, [count, head_dim])
}

#[track_caller]
fn same_codes(code: QuantFormat, got: &[u8], expected: &[u8], doing: &str) {
    assert_eq!(got.len(), expected.len(), "{doing}");
    for (index, (&got, &expected)) in got.iter().zip(expected).enumerate() {
        assert!(
            quantize::same(code, got, expected),
            "{doing}: code {index} is {got:#04x}, not {expected:#04x}"
        );
    }
}

/// Returns one scale for all heads that changes no number.
fn plain(code: QuantFormat) -> (QuantFormat, QuantScale<'static>) {
    (code, QuantScale::Divide(1.0.into()))
}

/// A code, the f32 values that give it, and the f32 value that it decodes to.
struct Interval {
    bits: u8,
    range: Option<[u32; 2]>,
    value: f32,
}

/// Returns the lines of a table of codes.
fn intervals(file: &str, code: QuantFormat) -> Vec<Interval> {
    let mut found: Vec<Interval> = Vec::new();
    for line in golden::lines(file) {
        let hex = |word: &str| u32::from_str_radix(word, 16).expect("hexadecimal digits");
        let range = |line: &[String]| (line[2] != "none").then(|| [hex(&line[2]), hex(&line[3])]);
        let bits = hex(&line[1]) as u8;
        match &*line[0] {
            "code" => found.push(Interval {
                bits,
                range: range(&line),
                value: f32::from_bits(hex(&line[4])),
            }),
            // With saturation, the codes of the infinities have no interval.
            "sat" if code == QuantFormat::E5m2Saturating => {
                for interval in &mut found {
                    if interval.bits == bits {
                        interval.range = range(&line);
                    } else if bits & 0x7f == 0x7b && interval.bits == bits + 1 {
                        interval.range = None;
                    }
                }
            }
            "sat" => {}
            other => panic!("{file}: {other}"),
        }
    }
    assert_eq!(found.len(), 256, "{file}");
    found
}

const FP8: [(&str, QuantFormat); 3] = [
    ("cache/fp8_e4m3fn.txt", QuantFormat::E4m3),
    ("cache/fp8_e5m2.txt", QuantFormat::E5m2),
    ("cache/fp8_e5m2.txt", QuantFormat::E5m2Saturating),
];

/// Tests both ends of the interval of every code, their neighbors, and the decoded value of each code.
#[test]
fn the_codes_of_fp8() {
    for (file, code) in FP8 {
        let intervals = intervals(file, code);
        let mut covered = 0;
        for backend in Backend::available() {
            let doing = format!("{backend}, {code:?}");
            let ends: Vec<(f32, u8)> = intervals
                .iter()
                .filter_map(|interval| Some((interval.range?, interval.bits)))
                .flat_map(|([first, last], bits)| {
                    let middle = first + (last - first) / 2;
                    [first, first.wrapping_add(1).min(last), middle, last]
                        .map(|value| (f32::from_bits(value), bits))
                })
                .collect();
            let (x, expected): (Vec<f32>, Vec<u8>) = ends.into_iter().unzip();
            // Heads of every length move a number through every lane.
            for head_dim in [1, 7, 64, x.len()] {
                let whole = x.len() / head_dim * head_dim;
                let got = coded(backend, &x[..whole], head_dim, plain(code), &mut []);
                same_codes(code, &got, &expected[..whole], &doing);
            }
            // The harness's definition, the reference of the exhaustive test, agrees with the table.
            for (x, bits) in x.iter().zip(&expected) {
                assert!(
                    quantize::same(code, quantize::encode(code, *x), *bits),
                    "{x:?}"
                );
            }
            let bytes: Vec<u8> = intervals.iter().map(|interval| interval.bits).collect();
            let values: Vec<f32> = intervals.iter().map(|interval| interval.value).collect();
            for head_dim in [1, 4, 256] {
                alike(
                    &decoded(backend, &bytes, head_dim, plain(code), &[]),
                    &values,
                    &doing,
                );
            }
        }
        for interval in &intervals {
            if let Some([first, last]) = interval.range {
                covered += u64::from(last - first) + 1;
            }
        }
        assert_eq!(covered, 1 << 32, "{file}");
    }
}

/// An odd step: its multiples are all 32-bit numbers, with numbers of every kind side by side.
const MIXED: u32 = 0x9e37_79b1;

/// All numbers in ascending order: rounding is monotonic, numbers between two of one code have the same code, and the
/// definition need not be evaluated for each.
const IN_ORDER: u32 = 1;

/// Tests some of the 32-bit numbers against the definition for one number.
fn some_numbers(code: QuantFormat, step: u32, chunks: impl Iterator<Item = u32>) {
    const CHUNK: usize = 1 << 14;
    const HEAD_DIM: usize = 1 << 11;
    let backends: Vec<Backend> = Backend::available().collect();
    let mut x = vec![0.0_f32; CHUNK];
    let mut expected = vec![0; CHUNK];
    for chunk in chunks {
        let first = chunk.wrapping_mul(CHUNK as u32);
        for (index, x) in x.iter_mut().enumerate() {
            *x = f32::from_bits(first.wrapping_add(index as u32).wrapping_mul(step));
        }
        let ends = [x[0], x[CHUNK - 1]].map(|x| quantize::encode(code, x));
        if step == IN_ORDER && ends[0] == ends[1] {
            expected.fill(ends[0]);
        } else {
            for (x, expected) in x.iter().zip(&mut expected) {
                *expected = quantize::encode(code, *x);
            }
        }
        for &backend in &backends {
            let got = coded(backend, &x, HEAD_DIM, plain(code), &mut []);
            if got != expected {
                same_codes(code, &got, &expected, &format!("{backend}, {code:?}"));
            }
        }
    }
}

/// Tests some of the numbers. All of them: `cargo test --release -p rope-tests -- --ignored`.
#[test]
fn many_numbers_by_the_definition() {
    let step = if cfg!(debug_assertions) {
        (1 << 12) + 1
    } else {
        (1 << 10) + 1
    };
    for code in QuantFormat::ALL {
        some_numbers(code, MIXED, (0..1 << 18).step_by(step));
    }
}

#[test]
#[ignore = "minutes, even when optimized"]
fn every_number_is_e4m3() {
    some_numbers(QuantFormat::E4m3, IN_ORDER, 0..1 << 18);
}

#[test]
#[ignore = "minutes, even when optimized"]
fn every_number_is_e5m2() {
    some_numbers(QuantFormat::E5m2, IN_ORDER, 0..1 << 18);
    some_numbers(QuantFormat::E5m2Saturating, IN_ORDER, 0..1 << 18);
}

#[test]
#[ignore = "minutes, even when optimized"]
fn every_number_is_an_integer() {
    some_numbers(QuantFormat::Int8Even, IN_ORDER, 0..1 << 18);
    some_numbers(QuantFormat::Int8RoundAway, IN_ORDER, 0..1 << 18);
}

/// Tests each element of 16 bits in each lane.
fn every_lane<E: Number>() {
    const HEAD_DIM: usize = 1 << 11;
    let elements: Vec<E> = (0..1 << 16).map(E::from_bits).collect();
    let values: Vec<f32> = elements.iter().map(|x| x.to_f32()).collect();
    for code in QuantFormat::ALL {
        for (index, factor) in [1.0, 0.37, 3e5, 1e-30].into_iter().enumerate() {
            let scale = (code, QuantScale::Multiply(factor.into()));
            let mut expected = quantize::encode_head(code, Factor::Multiply(factor), &values);
            let mut x = elements.clone();
            x.rotate_left(index);
            expected.rotate_left(index);
            // The largest group has 64 lanes.
            for _ in 0..16 {
                x.rotate_left(4);
                expected.rotate_left(4);
                for backend in Backend::available() {
                    let got = coded(backend, &x, HEAD_DIM, scale, &mut []);
                    let doing = format!("{backend}, {code:?} of {} times {factor}", E::NAME);
                    same_codes(code, &got, &expected, &doing);
                }
            }
        }
    }
}

#[test]
fn every_element_of_16_bits_in_every_lane() {
    every_lane::<bf16>();
    every_lane::<f16>();
}

/// Tests heads of every length, each with a scale of its own, given and computed, by the definition of one number.
fn any_heads<E: Number>() {
    let source = &mut Source::random("heads_of_every_length");
    for head_dim in 1..200 {
        let x: Vec<E> = number::values(source, 2 * head_dim);
        let values: Vec<f32> = x.iter().map(|x| x.to_f32()).collect();
        let heads = [&values[..head_dim], &values[head_dim..]];
        let scales = [source.one_of(&[1.0, 0.3, 1e-30, 1e30, 1e-37]), 0.5];
        let list = HeadScales::Each(&scales);
        let layout = CacheLayout::nhd([1, 1, 2, head_dim]).expect("a small cache");
        let shape = [1, 1, 2, head_dim];
        for code in QuantFormat::ALL {
            for (scale, factors) in [
                (QuantScale::Divide(list), scales.map(Factor::Divide)),
                (QuantScale::Multiply(list), scales.map(Factor::Multiply)),
                (
                    QuantScale::Reciprocal(list),
                    scales.map(|scale| Factor::Multiply(1.0 / scale)),
                ),
            ] {
                let head = |h: usize| quantize::encode_head(code, factors[h], heads[h]);
                let expected = [head(0), head(1)].concat();
                for backend in Backend::available() {
                    let doing =
                        format!("{backend}, {code:?}, {scale:?}, {head_dim} of {}", E::NAME);
                    let format = CacheFormat::quantized(code, scale);
                    let mut got = vec![0x5a; x.len()];
                    let mut cache = CacheMut::coded(&mut got, layout, format).expect("a cache");
                    rope(backend)
                        .apply_into(
                            &Tensor::new(&x, shape).expect("heads"),
                            &mut cache.slots(0..1),
                        )
                        .expect("a slot that is there");
                    same_codes(code, &got, &expected, &doing);
                    let QuantScale::Divide(_) = scale else {
                        continue;
                    };
                    let mut y = vec![0.5; got.len()];
                    let cache = Cache::coded(&got, layout, format).expect("a cache");
                    let mut tensor = TensorMut::new(&mut y, shape).expect("heads");
                    rope(backend)
                        .apply_into(&cache.slots(0..1), &mut tensor)
                        .expect("a slot that is there");
                    let number = |(i, &bits)| quantize::decode(code, bits) * scales[i / head_dim];
                    let expected: Vec<f32> = got.iter().enumerate().map(number).collect();
                    alike(&y, &expected, &doing);
                }
            }
            let expected = heads.map(|head| quantize::made(code, 1e-6, head));
            let at = ScalePlace::Separate(ScaleLayout::nh([1, 1]));
            for backend in Backend::available() {
                let doing = format!("{backend}, {code:?}, {head_dim} of {}", E::NAME);
                let (mut made, computed) =
                    ([f32::NAN; 2], QuantScale::Computed { least: 1e-6, at });
                let got = coded(backend, &x, head_dim, (code, computed), &mut made);
                alike(&made, &expected, &doing);
                let factor = |h| Factor::Multiply(1.0 / expected[h]);
                let head = |h| quantize::encode_head(code, factor(h), heads[h]);
                same_codes(code, &got, &[head(0), head(1)].concat(), &doing);
            }
        }
    }
}

#[test]
fn heads_of_every_length() {
    each_element!(any_heads());
}

/// Tests given scales as divisors and as factors.
fn given_scales<E: Number + Bits>() {
    let file = Golden::file("cache/fp8_scaled.txt");
    let e = E::NAME;
    let head_dim = file.decimal("head_dim");
    for index in 0..4 {
        let key = |name: &str| format!("{name}_{e}_{index}");
        let x: Vec<E> = file.bits(&key("x"));
        let [scale, reciprocal] = file.bits::<f32>(&key("scale"))[..] else {
            panic!("two numbers");
        };
        let divide = QuantScale::Divide(scale.into());
        let multiply = [
            QuantScale::Reciprocal(scale.into()),
            QuantScale::Multiply(reciprocal.into()),
        ];
        for backend in Backend::available() {
            let check = |name: &str, code, scale| {
                let got = coded(backend, &x, head_dim, (code, scale), &mut []);
                let doing = format!("{backend}, {}, {scale:?}", key(name));
                same_codes(code, &got, &file.bits::<u8>(&key(name)), &doing);
                got
            };
            check("e4m3fn_div", QuantFormat::E4m3, divide);
            check("e5m2_div", QuantFormat::E5m2, divide);
            for scale in multiply {
                check("e5m2_mul", QuantFormat::E5m2, scale);
                check("e5m2_mul_sat", QuantFormat::E5m2Saturating, scale);
                check("e4m3fn_mul", QuantFormat::E4m3, scale);
            }
            let codes = file.bits::<u8>(&key("e4m3fn_mul"));
            for scale in [divide, multiply[0]] {
                let got = decoded(backend, &codes, head_dim, (QuantFormat::E4m3, scale), &[]);
                let expected: Vec<f32> = file.bits(&key("e4m3fn_dequant"));
                alike(&got, &expected, &format!("{backend}, {}", key("dequant")));
            }
        }
    }
}

#[test]
fn given_scales_of_engines() {
    each_element!(given_scales());
}

/// Tests vLLM's scales per token and head, for integers and FP8, and ONNX Runtime's integers with a given scale.
fn rows_of_engines<E: Number + Bits>() {
    let file = Golden::file("cache/int8_rows.txt");
    let e = E::NAME;
    let key = |name: &str| format!("{name}_{e}");
    let head_dim = file.decimal("head_dim");
    let x: Vec<E> = file.bits(&key("x"));
    let count = file.decimal("tokens") * file.decimal("heads");
    assert_eq!(x.len(), count * head_dim);
    let made = QuantScale::Computed {
        least: 1e-6,
        at: ScalePlace::Separate(ScaleLayout::nh([1, 1])),
    };
    for backend in Backend::available() {
        for (name, code) in [
            ("vllm", QuantFormat::Int8RoundAway),
            ("vllm_fp8", QuantFormat::E4m3),
        ] {
            let doing = format!("{backend}, {name} of {e}");
            let mut scales = vec![f32::NAN; count];
            let got = coded(backend, &x, head_dim, (code, made), &mut scales);
            let expected: Vec<f32> = file.bits(&key(&format!("{name}_scale")));
            alike(&scales, &expected, &doing);
            let codes = file.bits::<u8>(&key(&format!("{name}_codes")));
            same_codes(code, &got, &codes, &doing);
            if name == "vllm" {
                let got = decoded(backend, &codes, head_dim, (code, made), &scales);
                let expected: Vec<f32> = file.bits(&key("vllm_dequant"));
                alike(&got, &expected, &doing);
            }
        }
        for index in 0..2 {
            let scale = file.bits::<f32>(&format!("ort_scale_{e}_{index}"))[0];
            let scale = QuantScale::Reciprocal(scale.into());
            let got = coded(
                backend,
                &x,
                head_dim,
                (QuantFormat::Int8Even, scale),
                &mut [],
            );
            let expected = file.bits::<u8>(&format!("ort_even_{e}_{index}"));
            let doing = format!("{backend}, ONNX Runtime's, {e}");
            same_codes(QuantFormat::Int8Even, &got, &expected, &doing);
        }
    }
}

#[test]
fn integers_and_scales_of_engines() {
    each_element!(rows_of_engines());
}

/// Tests the blocks of ggml's reference, in heads of one block and in longer ones.
fn ggml_blocks<E: Number + Bits>() {
    let file = Golden::file("cache/q8_0_rows.txt");
    let of_element = [format!("x_{}", E::NAME), format!("ref_{}", E::NAME)];
    let mut keys = vec![(of_element, "blocks")];
    if E::NAME == "bf16" {
        keys.push((["x_diff", "ref_diff"].map(String::from), "diff_blocks"));
    }
    for ([x, blocks], count) in keys {
        let (x, expected): (Vec<E>, _) = (file.bits(&x), file.bits::<u8>(&blocks));
        assert_eq!(x.len(), 32 * file.decimal(count));
        for backend in Backend::available() {
            for head_dim in [32, 64] {
                let got = in_blocks(backend, &x, head_dim, BlockFormat::Q8_0);
                assert_eq!(got, expected, "{backend}, {blocks}, heads of {head_dim}");
            }
        }
        let values: Vec<f32> = expected
            .as_chunks::<34>()
            .0
            .iter()
            .flat_map(quantize::decode_q8_0)
            .collect();
        for backend in Backend::available() {
            let mut y = vec![0.5; x.len()];
            let count = x.len() / 64;
            let cache = Cache::coded(&expected, heads(count, 64), BlockFormat::Q8_0)
                .expect("a cache that fits");
            let mut tensor = TensorMut::new(&mut y, [1, count, 1, 64]).expect("a valid tensor");
            rope(backend)
                .apply_into(&cache.slots(0..count), &mut tensor)
                .expect("slots that are there");
            alike(&y, &values, &format!("{backend}, {blocks}"));
        }
    }
}

#[test]
fn blocks_of_ggml() {
    each_element!(ggml_blocks());
}

/// Asserts that the rows of a file are the rows of its positions.
fn rows_of_base(file: &Golden, base: f64, rows: &Rows<'_>) {
    let made = Frequencies::new(rows.rotary_dim(), base, &Scaling::Default).expect("a base");
    let positions: Vec<i64> = file.decimals("positions");
    let made = made.rows(&positions).expect("positions");
    assert_eq!(bits(rows), bits(&made), "{}", file.name);
}

/// Tests rotated keys, rounded to their element before they become codes (A), and encoded directly from f32 (B).
fn orders_of_roundings<E: Number + Bits>() {
    let e = E::NAME;
    for name in ["half", "interleaved"] {
        let file = Golden::file(&format!("cache/rotate_quant_{name}.txt"));
        let (pairing, _) = file.pairings();
        let [tokens, heads, head_dim, pairs] =
            ["tokens", "heads", "head_dim", "n_freq"].map(|key| file.decimal(key));
        let (cos, sin) = (file.bits::<f32>("cos_f32"), file.bits::<f32>("sin_f32"));
        let rows = Rows::from_cos_sin(&cos, &sin, [tokens, pairs], 2 * pairs).expect("rows");
        rows_of_base(&file, file.bits::<f64>("base")[0], &rows);
        let scale = QuantScale::Divide(file.bits::<f32>("scale")[0].into());
        let x: Vec<E> = file.bits(&format!("x_{e}"));
        let layout = CacheLayout::nhd([1, tokens, heads, head_dim]).expect("a small cache");
        for backend in Backend::available() {
            let rope = Rope::new(pairing).with_backend(backend).expect("available");
            let x = Tensor::new(&x, [1, tokens, heads, head_dim]).expect("a valid tensor");
            if e != "f32" {
                let mut got = vec![E::from_f32(0.5); x.layout().end()];
                let mut cache = CacheMut::new(&mut got, layout).expect("a cache that fits");
                rope.rotate_into(&x, &mut cache.slots(0..tokens), &rows)
                    .expect("slots that are there");
                let expected: Vec<E> = file.bits(&format!("rot_{e}"));
                alike(&got, &expected, &format!("{backend}, {name}, {e}"));
            }
            for (order, chain) in [
                ("A", Rope::<Normed<'_>>::from(rope)),
                ("B", Rope::<Normed<'_>>::from(rope).without_rounding()),
            ] {
                // For f32 both orders are the same.
                let key = |kind: &str| match e {
                    "f32" => format!("B_{kind}_f32"),
                    _ => format!("{order}_{kind}_{e}"),
                };
                let doing = format!("{backend}, {name}, {order}, {e}");
                let mut got = vec![0x5a; x.layout().end()];
                let mut cache = CacheMut::coded(
                    &mut got,
                    layout,
                    CacheFormat::quantized(QuantFormat::E4m3, scale),
                )
                .expect("fits");
                chain
                    .rotate_into(&x, &mut cache.slots(0..tokens), &rows)
                    .expect("slots that are there");
                same_codes(
                    QuantFormat::E4m3,
                    &got,
                    &file.bits::<u8>(&key("e4m3fn_div")),
                    &doing,
                );

                let made = QuantScale::Computed {
                    least: 1e-6,
                    at: ScalePlace::Separate(ScaleLayout::nh([tokens, heads])),
                };
                let mut scales = vec![f32::NAN; tokens * heads];
                let mut cache = CacheMut::coded_with_scales(
                    &mut got,
                    layout,
                    CacheFormat::quantized(QuantFormat::Int8RoundAway, made),
                    &mut scales,
                )
                .expect("fits");
                chain
                    .rotate_into(&x, &mut cache.slots(0..tokens), &rows)
                    .expect("slots that are there");
                alike(&scales, &file.bits::<f32>(&key("int8_scale")), &doing);
                same_codes(
                    QuantFormat::Int8RoundAway,
                    &got,
                    &file.bits::<u8>(&key("int8_codes")),
                    &doing,
                );

                let mut got = vec![0x5a; x.layout().end() / 32 * 34];
                let mut cache =
                    CacheMut::coded(&mut got, layout, BlockFormat::Q8_0).expect("whole blocks");
                chain
                    .rotate_into(&x, &mut cache.slots(0..tokens), &rows)
                    .expect("slots that are there");
                assert_eq!(got, file.bits::<u8>(&key("q8_0_ref")), "{doing}, Q8_0");
            }
        }
    }
}

#[test]
fn both_orders_of_roundings() {
    each_element!(orders_of_roundings());
}

/// Returns the layout of a file from a named constructor of the crate, if one exists.
fn named(layout: &str, shape: CacheShape, x: usize) -> Option<CacheLayout> {
    let CacheShape {
        blocks,
        block_size,
        heads,
        head_dim,
    } = shape;
    let layout = match layout {
        "nhd" => CacheLayout::nhd([blocks, block_size, heads, head_dim]),
        "hnd" => CacheLayout::hnd([blocks, heads, block_size, head_dim]),
        "cpu_col" | "legacy_v" => CacheLayout::hdn([blocks, heads, head_dim, block_size]),
        "legacy_k" => CacheLayout::hdnx([blocks, heads, head_dim / x, block_size, x]),
        "interleaved_v" => CacheLayout::hndx([blocks, heads, block_size / x, head_dim, x]),
        // Sixteen slots of a group, two channels side by side.
        "amx_k" => CacheLayout::strided(
            shape,
            CacheStrides {
                block: heads * block_size * head_dim,
                group: 16,
                group_stride: 16 * head_dim,
                token: 2,
                head: block_size * head_dim,
                chunk: 2,
                chunk_stride: 32,
                channel: 1,
            },
        ),
        other => panic!("layout {other}"),
    };
    Some(layout.expect("a small cache"))
}

/// Tests elements of 16 bits in every layout: with the file's numbers as strides and offsets, and by slots if the
/// layout has a name.
#[test]
fn every_layout_of_engines() {
    let file = Golden::file("cache/scatter16.txt");
    let mut compared = 0;
    for line in golden::lines("cache/scatter16.txt") {
        if line.first().map(String::as_str) != Some("case") {
            continue;
        }
        let number = |name: &str| -> usize {
            let at = line.iter().position(|word| word == name).expect(name);
            line[at + 1].parse().expect("a number")
        };
        let case = &line[1];
        let shape = CacheShape {
            blocks: number("blocks"),
            block_size: number("block_size"),
            heads: number("heads"),
            head_dim: number("head_dim"),
        };
        let tokens = number("tokens");
        let slots: Vec<i64> = file.decimals(&format!("{case}_slots"));
        let k: Vec<bf16> = file.bits(&format!("{case}_k16"));
        let heads = [1, tokens, shape.heads, shape.head_dim];
        for name in [
            "nhd",
            "hnd",
            "cpu_col",
            "legacy_k",
            "legacy_v",
            "interleaved_v",
            "amx_k",
        ] {
            let key = |what: &str| format!("{case}_{name}_{what}");
            let Some(view) = file.find(&key("view")) else {
                continue;
            };
            let words: Vec<&str> = view.split_ascii_whitespace().collect();
            let stride = |name: &str| -> usize {
                let at = words.iter().position(|word| *word == name).expect(name);
                words[at + 1].parse().expect("a number")
            };
            let expected: Vec<bf16> = file.bits(&key("cache"));
            // A cache of one slot; the offset is its place.
            let one = CacheLayout::strided(
                CacheShape {
                    blocks: 1,
                    block_size: 1,
                    ..shape
                },
                CacheStrides {
                    block: 0,
                    group: 1,
                    group_stride: 0,
                    token: 0,
                    head: stride("head_stride"),
                    chunk: stride("chunk"),
                    chunk_stride: stride("chunk_stride"),
                    channel: stride("element_stride"),
                },
            )
            .expect("a small cache");
            let offsets: Vec<i64> = file.decimals(&key("offsets"));
            let layout = named(name, shape, number("x")).expect("a layout");
            for backend in Backend::available() {
                for (layout, slots) in [(one, Slots::offsets(&offsets)), (layout, (&slots).into())]
                {
                    let doing = format!("{backend}, {}", key("cache"));
                    let mut got = vec![bf16::from_bits(0x5a5a); expected.len()];
                    let mut cache = CacheMut::new(&mut got, layout).expect("a cache that fits");
                    let tensor = Tensor::new(&k, heads).expect("a valid tensor");
                    rope(backend)
                        .apply_into(&tensor, &mut cache.slots(slots))
                        .expect("slots that are there");
                    alike(&got, &expected, &doing);
                    compared += 1;
                    // The written tokens are read back; of two tokens in one slot, the later one is read twice.
                    let cache = Cache::new(&got, layout).expect("a cache that fits");
                    let mut back = vec![bf16::from_bits(0x5a5a); k.len()];
                    let mut tensor = TensorMut::new(&mut back, heads).expect("a valid tensor");
                    rope(backend)
                        .apply_into(&cache.slots(slots), &mut tensor)
                        .expect("slots that are there");
                    let len = shape.heads * shape.head_dim;
                    for (token, &offset) in offsets.iter().enumerate() {
                        let last = offsets.iter().rposition(|&other| other == offset);
                        let last = last.expect("this one at least");
                        let got = &back[token * len..][..len];
                        if offset < 0 {
                            let untouched = got.iter().all(|value| value.to_bits() == 0x5a5a);
                            assert!(untouched, "{doing}, token {token}");
                        } else {
                            alike(got, &k[last * len..][..len], &doing);
                        }
                    }
                }
            }
        }
    }
    assert_eq!(compared, 17 * 2 * Backend::available().count());
}

/// Tests rotated keys as codes in every layout, with separate and inline scales.
#[test]
fn rotated_codes_in_every_layout() {
    let file = Golden::file("cache/scatter_fused.txt");
    let [blocks, block_size, heads, head_dim, pairs, x] =
        ["blocks", "block_size", "heads", "head_dim", "n_freq", "x"].map(|key| file.decimal(key));
    let slots: Vec<i64> = file.decimals("slots");
    let tokens = slots.len();
    let (cos, sin) = (file.bits::<f32>("cos_f32"), file.bits::<f32>("sin_f32"));
    let rows = Rows::from_cos_sin(&cos, &sin, [tokens, pairs], 2 * pairs).expect("rows");
    rows_of_base(&file, 1e4, &rows);
    let k: Vec<bf16> = file.bits("k_bf16");
    let k = Tensor::new(&k, [1, tokens, heads, head_dim]).expect("a valid tensor");
    let shape = CacheShape {
        blocks,
        block_size,
        heads,
        head_dim,
    };
    let divide = QuantScale::Divide(file.bits::<f32>("e4m3fn_scale")[0].into());
    let made = |at| QuantScale::Computed { least: 1e-6, at };
    let apart = made(ScalePlace::Separate(ScaleLayout::nh([block_size, heads])));
    let inline = made(ScalePlace::Inline(head_dim));
    let long = CacheLayout::nhd([blocks, block_size, heads, head_dim + 4])
        .and_then(|layout| layout.narrow_channels(0..head_dim))
        .expect("a small cache");
    let layout = |name| named(name, shape, x).expect("a layout");
    let nhd = layout("nhd");
    for backend in Backend::available() {
        let into = |cache: &mut CacheMut<'_>| {
            rope(backend)
                .rotate_into(&k, &mut cache.slots(&slots), &rows)
                .expect("slots that are there");
        };
        for name in ["nhd", "hnd", "cpu_col", "legacy_k"] {
            let expected = file.bits::<u8>(&format!("e4m3fn_div_{name}"));
            let mut got = vec![0x5a; expected.len()];
            into(
                &mut CacheMut::coded(
                    &mut got,
                    layout(name),
                    CacheFormat::quantized(QuantFormat::E4m3, divide),
                )
                .expect("a cache that fits"),
            );
            same_codes(
                QuantFormat::E4m3,
                &got,
                &expected,
                &format!("{backend}, E4M3 {name}"),
            );
        }
        let expected = file.bits::<u8>("int8_nhd");
        let mut got = vec![0x5a; expected.len()];
        let mut scales = vec![f32::from_bits(0x5a5a_5a5a); blocks * block_size * heads];
        into(
            &mut CacheMut::coded_with_scales(
                &mut got,
                nhd,
                CacheFormat::quantized(QuantFormat::Int8RoundAway, apart),
                &mut scales,
            )
            .expect("a cache that fits"),
        );
        same_codes(
            QuantFormat::Int8RoundAway,
            &got,
            &expected,
            &format!("{backend}, int8"),
        );
        let expected: Vec<f32> = file.bits("int8_nhd_scales");
        alike(&scales, &expected, &format!("{backend}, scales of int8"));

        let mut expected = file.bits::<u8>("int8_nhd_inline");
        if cfg!(target_endian = "big") {
            // The file's scales are little-endian; the crate uses the machine's byte order.
            for (index, head) in expected.chunks_mut(head_dim + 4).enumerate() {
                let slot = index / heads;
                if slots.contains(&(slot as i64)) {
                    head[head_dim..].reverse();
                }
            }
        }
        let mut got = vec![0x5a; expected.len()];
        into(
            &mut CacheMut::coded(
                &mut got,
                long,
                CacheFormat::quantized(QuantFormat::Int8RoundAway, inline),
            )
            .expect("a cache that fits"),
        );
        assert_eq!(got, expected, "{backend}, int8 with scales inline");

        let expected = file.bits::<u8>("q8_0_ref_rows");
        let mut got = vec![0x5a; expected.len()];
        into(&mut CacheMut::coded(&mut got, nhd, BlockFormat::Q8_0).expect("whole blocks"));
        assert_eq!(got, expected, "{backend}, Q8_0");
    }
}

/// Tests caches and tensors of different element types: 16 bits into 32 and back.
fn elements_of_caches<I: Number, O: Number>() {
    let values: Vec<I> = (0..1 << 10)
        .map(|bits| I::from_bits(bits << 6 | 5))
        .collect();
    let layout = heads(16, 64);
    for backend in Backend::available() {
        let mut got = vec![O::from_f32(0.5); values.len()];
        let mut cache = CacheMut::new(&mut got, layout).expect("a cache that fits");
        let tensor = Tensor::new(&values, [1, 16, 1, 64]).expect("a valid tensor");
        rope(backend)
            .apply_into(&tensor, &mut cache.slots(0..16))
            .expect("slots that are there");
        let expected: Vec<O> = values.iter().map(|x| O::from_f32(x.to_f32())).collect();
        alike(
            &got,
            &expected,
            &format!("{backend}, {} to {}", I::NAME, O::NAME),
        );
    }
}

#[test]
fn elements_are_converted() {
    rope_tests::each_element_pair!(elements_of_caches());
}

/// Tests keys rotated out of a cache, with channels that do not rotate, in every pair of pairings: the bits of
/// [`Rope::rotate_into`] from a tensor.
fn parts_of_heads_from_caches<I: Number, O: Number>() {
    let shape = [1, 3, 2, 16];
    let values: Vec<I> = (0..96).map(|i| I::from_f32((i as f32).sin())).collect();
    let angles: Vec<f32> = (0..3 * 6).map(|i| (i as f32).cos()).collect();
    let rows = Rows::new(&angles, [3, 6]).expect("whole rows");
    let layout = CacheLayout::nhd([1, 3, 2, 16]).expect("a small cache");
    let cache = Cache::new(&values, layout).expect("a cache that fits");
    let x = Tensor::new(&values, shape).expect("valid");
    for backend in Backend::available() {
        for input in Pairing::ALL {
            for output in Pairing::ALL {
                let rope = Rope::new(input).with_output_pairing(output);
                let rope = rope.with_backend(backend).expect("an available backend");
                let mut expected = vec![O::from_f32(0.0); 96];
                let mut y = TensorMut::new(&mut expected, shape).expect("valid");
                rope.rotate_into(&x, &mut y, &rows).expect("what fits");
                let mut got = vec![O::from_f32(0.0); 96];
                let mut y = TensorMut::new(&mut got, shape).expect("valid");
                rope.rotate_into(&cache.slots(0..3), &mut y, &rows)
                    .expect("what fits");
                let doing = format!("{backend}, {} {input} to {} {output}", I::NAME, O::NAME);
                alike(&got, &expected, &doing);
            }
        }
    }
}

#[test]
fn parts_of_heads_are_rotated_out_of_caches() {
    rope_tests::each_element_pair!(parts_of_heads_from_caches());
}

/// Returns the index of the scale of a block, slot and head.
type ScaleIndex = fn([usize; 3]) -> usize;

/// Separate scales lie in the order of their layout's name, given here by indices: `[blocks, block_size, heads]` and
/// `[blocks, heads, block_size]`.
#[test]
fn scales_lie_in_the_order_of_their_layout() {
    const HEAD_DIM: usize = 8;
    let [blocks, block_size, heads] = [2, 4, 3];
    let tokens = blocks * block_size;
    // The largest magnitude of head n is 127 (n + 1), and its scale is n + 1.
    let head = |n: usize| {
        let mut head = [0.0; HEAD_DIM];
        head[n % HEAD_DIM] = 127.0 * (n + 1) as f32;
        head
    };
    let x: Vec<f32> = (0..tokens * heads).flat_map(head).collect();
    let layout = CacheLayout::nhd([blocks, block_size, heads, HEAD_DIM]).expect("a small cache");
    let nh = |[block, slot, head]: [usize; 3]| (block * 4 + slot) * 3 + head;
    let hn = |[block, slot, head]: [usize; 3]| (block * 3 + head) * 4 + slot;
    let index: [(ScaleLayout, ScaleIndex); 2] = [
        (ScaleLayout::nh([block_size, heads]), nh),
        (ScaleLayout::hn([heads, block_size]), hn),
    ];
    for (at, index) in index {
        let place = ScalePlace::Separate(at);
        let made = QuantScale::Computed {
            least: 1e-6,
            at: place,
        };
        let mut expected = vec![0.0; tokens * heads];
        for n in 0..tokens * heads {
            let (token, head) = (n / heads, n % heads);
            expected[index([token / block_size, token % block_size, head])] = (n + 1) as f32;
        }
        for backend in Backend::available() {
            let (mut codes, mut scales) = (vec![0x5a; x.len()], vec![f32::NAN; tokens * heads]);
            let mut cache = CacheMut::coded_with_scales(
                &mut codes,
                layout,
                CacheFormat::quantized(QuantFormat::Int8Even, made),
                &mut scales,
            )
            .expect("a cache that fits");
            let shape = [1, tokens, heads, HEAD_DIM];
            rope(backend)
                .apply_into(
                    &Tensor::new(&x, shape).expect("valid"),
                    &mut cache.slots(0..tokens),
                )
                .expect("slots that are there");
            assert_eq!(scales, expected, "{backend}, {at:?}");
            let cache = Cache::coded_with_scales(
                &codes,
                layout,
                CacheFormat::quantized(QuantFormat::Int8Even, made),
                &expected,
            )
            .expect("a cache that fits");
            let mut back = vec![f32::NAN; x.len()];
            let mut tensor = TensorMut::new(&mut back, shape).expect("valid");
            rope(backend)
                .apply_into(&cache.slots(0..tokens), &mut tensor)
                .expect("slots that are there");
            alike(&back, &x, &format!("{backend}, {at:?}"));
        }
    }
}

/// The contents of a written cache: its format and its scales.
#[derive(Clone, Copy, Debug)]
enum Kept<'a> {
    Coded(Kind),
    Scaled(QuantFormat, QuantScale<'a>),
}

impl Kept<'_> {
    /// Returns the bytes and the scales after copies of values into slots.
    fn copied(
        self,
        layout: CacheLayout,
        backend: Backend,
        copies: impl Iterator<Item = (Layout, Vec<i64>)>,
        values: &[f32],
    ) -> (Vec<u8>, Vec<f32>) {
        let shape = layout.shape();
        let slots = shape.blocks * shape.block_size;
        let mut bytes = vec![0x5a; 2 * slots * shape.heads * shape.head_dim];
        let mut scales = vec![f32::NAN; slots * shape.heads];
        let mut cache = match self {
            Kept::Coded(kind) => {
                let CacheShape {
                    blocks, block_size, ..
                } = shape;
                let (layout, format) =
                    kind.dense([blocks, block_size, shape.heads, shape.head_dim]);
                CacheMut::coded(&mut bytes, layout, format)
            }
            Kept::Scaled(code, scale) => CacheMut::coded_with_scales(
                &mut bytes,
                layout,
                CacheFormat::quantized(code, scale),
                &mut scales,
            ),
        }
        .expect("a cache that fits");
        for (layout, slots) in copies {
            let x = Tensor::new(values, layout).expect("values of all heads");
            rope(backend)
                .apply_into(&x, &mut cache.slots(&slots))
                .expect("slots that are there");
        }
        (bytes, scales)
    }
}

/// Tokens of consecutive slots are written as if one after the other: the last token of a slot stays, and each head has
/// its own scale.
#[test]
fn tokens_are_written_as_one_by_one() {
    let [tokens, heads, head_dim] = [70, 3, 64];
    let values: Vec<f32> = number::values(
        &mut Source::random("tokens_are_written_as_one_by_one"),
        tokens * (heads + 1) * head_dim,
    );
    let in_cache = CacheLayout::nhd([5, 16, heads, head_dim]).expect("a small cache");
    let slots: [fn(i64) -> i64; 5] = [
        |token| token,
        |token| 69 - token,
        |token| token / 3,
        |token| if token % 7 == 3 { -1 } else { token },
        |token| (token / 8 * 13 + token % 8) % 80,
    ];
    let all = Layout::bshd([1, tokens, heads, head_dim]);
    let packed = Layout::bshd([1, tokens, heads + 1, head_dim])
        .and_then(|it| it.narrow(Dimension::Heads, 0..heads));
    let by_heads = Layout::bhsd([1, heads, tokens, head_dim]);
    let each = [0.5, 0.25, 2.0];
    let made = QuantScale::Computed {
        least: 1e-6,
        at: ScalePlace::Separate(ScaleLayout::nh([16, heads])),
    };
    let scaled = [
        QuantScale::Multiply(0.5.into()),
        QuantScale::Divide(each.as_slice().into()),
        made,
    ];
    let codes = QuantFormat::ALL
        .into_iter()
        .flat_map(|code| scaled.map(|scale| Kept::Scaled(code, scale)));
    // A call writes whole groups of tokens, never one of them.
    let kept: Vec<Kept<'_>> = Kind::all(head_dim, 16)
        .into_iter()
        .filter(|kind| !kind.is_by_channel())
        .map(Kept::Coded)
        .chain(codes)
        .collect();
    for layout in [all, packed, by_heads] {
        let layout = layout.expect("a small tensor");
        for (index, slots) in slots.into_iter().enumerate() {
            let slots: Vec<i64> = (0..tokens as i64).map(slots).collect();
            for kept in &kept {
                for backend in Backend::available() {
                    let together = [(layout, slots.clone())].into_iter();
                    let one_by_one = slots.iter().enumerate().map(|(token, &slot)| {
                        let token = layout
                            .narrow(Dimension::Tokens, token..token + 1)
                            .expect("a token");
                        (token, vec![slot])
                    });
                    let got = kept.copied(in_cache, backend, together, &values);
                    let expected = kept.copied(in_cache, backend, one_by_one, &values);
                    let doing = format!("{backend}, {kept:?}, {layout:?}, slots {index}");
                    assert_eq!(got.0, expected.0, "{doing}");
                    alike(&got.1, &expected.1, &doing);
                }
            }
        }
    }
}

/// Given scales are one number or a list of any form.
#[test]
fn lists_are_scales() {
    let each = [0.5_f32, 0.25];
    let expected = HeadScales::Each(&each);
    assert_eq!(HeadScales::from(&each), expected);
    assert_eq!(HeadScales::from(&each[..]), expected);
    assert_eq!(HeadScales::from(&each.to_vec()), expected);
    let divide = QuantScale::Divide((&each).into());
    assert_eq!(divide, QuantScale::Divide(expected));
    assert_eq!(HeadScales::from(0.5), HeadScales::Same(0.5));
}

/// The strides are the ones of the shapes in the layouts' names; a layout that exceeds `usize` stays too large.
#[test]
fn strides_of_shapes() {
    let strides = |layout: Result<CacheLayout, _>| layout.expect("a small cache").strides();
    let plain = CacheStrides {
        block: 0,
        group: 5,
        group_stride: 0,
        token: 1,
        head: 0,
        chunk: 8,
        chunk_stride: 0,
        channel: 1,
    };
    let nhd = CacheStrides {
        block: 5 * 3 * 8,
        token: 3 * 8,
        head: 8,
        ..plain
    };
    let hnd = CacheStrides {
        block: 3 * 5 * 8,
        token: 8,
        head: 5 * 8,
        ..plain
    };
    let hdnx = CacheStrides {
        block: 3 * 8 * 5,
        token: 4,
        head: 8 * 5,
        chunk: 4,
        chunk_stride: 5 * 4,
        ..plain
    };
    let hdn = CacheStrides {
        token: 1,
        chunk: 1,
        chunk_stride: 5,
        ..hdnx
    };
    let hndx = CacheStrides {
        block: 3 * 6 * 8,
        group: 2,
        group_stride: 8 * 2,
        token: 1,
        head: 6 * 8,
        chunk: 1,
        chunk_stride: 2,
        channel: 1,
    };
    assert_eq!(strides(CacheLayout::nhd([2, 5, 3, 8])), nhd);
    assert_eq!(strides(CacheLayout::hnd([2, 3, 5, 8])), hnd);
    assert_eq!(strides(CacheLayout::hdn([2, 3, 8, 5])), hdn);
    assert_eq!(strides(CacheLayout::hdnx([2, 3, 2, 5, 4])), hdnx);
    assert_eq!(strides(CacheLayout::hndx([2, 3, 3, 8, 2])), hndx);
    for (layout, token, head) in [
        (ScaleLayout::nh([usize::MAX, 3]), 3, 1),
        (ScaleLayout::hn([3, usize::MAX]), 1, usize::MAX),
    ] {
        let block = usize::MAX;
        assert_eq!(layout, ScaleLayout { block, token, head });
    }
}

/// Channels that do not rotate keep the bits of a NaN in every layout: from a tensor, in place, from cache to cache and
/// back to a tensor; so do all channels of heads that do not rotate.
#[test]
fn nans_of_channels_that_do_not_rotate_keep_their_bits() {
    const SHAPE: [usize; 4] = [1, 3, 2, 24];
    let frequencies = Frequencies::new(8, 1e4, &Scaling::Default).expect("frequencies");
    let (rows, slots) = (frequencies.rows(5..8).expect("rows"), [7_i64, 2, 9]);
    let layouts = [
        CacheLayout::nhd([1, 16, 2, 24]),
        CacheLayout::hdn([1, 2, 24, 16]),
        CacheLayout::hdnx([1, 2, 3, 16, 8]),
        CacheLayout::hdnx([1, 2, 2, 16, 12]),
        CacheLayout::hndx([1, 2, 2, 24, 8]),
    ];
    let layouts = layouts.map(|layout| layout.expect("a cache"));
    for (first, pairing) in
        [0, 5, 16]
            .into_iter()
            .zip([Pairing::Half, Pairing::Interleaved, Pairing::Half])
    {
        let rotates = |index: usize| (first..first + 8).contains(&(index % 24));
        // Numbers where channels rotate; elsewhere NaNs, every other one signaling, of both signs.
        let bits = |index: usize| match rotates(index) {
            true => 0x3c00 + index as u16,
            false => {
                0x7c01 + ((index as u16 % 2) << 9) + index as u16 + ((index as u16 % 3 / 2) << 15)
            }
        };
        let x: Vec<f16> = (0..144).map(|index| f16::from_bits(bits(index))).collect();
        let source = Tensor::new(&x, SHAPE).expect("heads");
        let rope = Rope::new(pairing).with_window(first);
        let (mut once, mut twice) = (x.clone(), x.clone());
        for (times, y) in [(1, &mut once), (2, &mut twice)] {
            let mut y = TensorMut::new(y, SHAPE).expect("heads");
            for _ in 0..times {
                rope.rotate(&mut y, &rows).expect("a rotation");
            }
        }
        let words = |list: &[f16]| -> Vec<u16> { list.iter().map(|x| x.to_bits()).collect() };
        for layout in layouts {
            for other in layouts {
                let [mut one, mut two] = [layout, other].map(|it| vec![f16::ZERO; it.end()]);
                let mut one = CacheMut::new(&mut one, layout).expect("a cache");
                let mut two = CacheMut::new(&mut two, other).expect("a cache");
                let read = |cache: &CacheMut<'_>| {
                    let mut y = vec![f16::ZERO; 144];
                    let mut target = TensorMut::new(&mut y, SHAPE).expect("heads");
                    let cache = cache.as_cache();
                    rope.apply_into(&cache.slots(&slots), &mut target)
                        .expect("a copy");
                    words(&y)
                };
                rope.apply_into(&source, &mut one.slots(&slots))
                    .expect("a copy");
                assert_eq!(read(&one), words(&x), "{layout:?}");
                let from = one.as_cache();
                rope.rotate_into(&from.slots(&slots), &mut two.slots(&slots), &rows)
                    .expect("a rotation");
                assert_eq!(read(&two), words(&once), "{layout:?} {other:?}");
                rope.rotate(&mut two.slots(&slots), &rows)
                    .expect("a rotation");
                assert_eq!(read(&two), words(&twice), "{other:?}");
                rope.rotate_into(&source, &mut one.slots(&slots), &rows)
                    .expect("a rotation");
                assert_eq!(read(&one), words(&once), "{layout:?}");
            }
        }
    }
}

/// A memory of elements may end with a part of one, which no call reads or writes.
#[test]
fn a_part_of_an_element_at_the_end() {
    let layout = CacheLayout::nhd([1, 4, 1, 8]).expect("a small cache");
    let values: Vec<f32> = (0..32).map(|i| i as f32).collect();
    let source = Tensor::new(&values, [1, 4, 1, 8]).expect("heads");
    let rows: Vec<f32> = (0..8).map(|i| if i < 4 { 0.0 } else { 1.0 }).collect();
    let rows = Rows::new(&rows, [1, 8]).expect("a row");
    let rope = Rope::new(Pairing::Half);
    let formats = [
        (CacheFormat::element::<f32>(), 4 * 32),
        (CacheFormat::element::<f16>(), 2 * 32),
    ];
    for (format, bytes) in formats {
        let mut memory = vec![f32::from_bits(0x5a5a_5a5a); 34];
        let memory: &mut [u8] = &mut bytemuck::cast_slice_mut(&mut memory)[..bytes + 1];
        let mut cache = CacheMut::coded(memory, layout, format).expect("room");
        let each = rows.repeated(0, 4).expect("rows");
        rope.rotate_into(&source, &mut cache.slots(0..4), &each)
            .expect("a rotation");
        rope.rotate(&mut cache.slots(2..3), &rows).expect("a shift");
        let mut y = vec![0.0_f32; 32];
        let mut target = TensorMut::new(&mut y, [1, 4, 1, 8]).expect("heads");
        let from = cache.as_cache();
        rope.apply_into(&from.slots(0..4), &mut target)
            .expect("a copy");
        assert_eq!(y[..8], [-4.0, -5.0, -6.0, -7.0, 0.0, 1.0, 2.0, 3.0]);
        assert_eq!(
            y[16..24],
            [-16.0, -17.0, -18.0, -19.0, -20.0, -21.0, -22.0, -23.0]
        );
        assert_eq!(memory[bytes], 0x5a);
    }
}
