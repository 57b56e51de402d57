//! Hadamard transforms compared with ggml's CPU backend and `fast_hadamard_transform`, alone and after a rotation: bits
//! everywhere except for the exact sums.

use half::{bf16, f16};
use rope_core::cache::{CacheLayout, CacheMut};
use rope_core::internals::in_stages;
use rope_core::stages::{Hadamard, HadamardFactor, Linear};
use rope_core::{Backend, Dimension, Frequencies, Layout, Rope, Rows, Scaling, Tensor, TensorMut};
use rope_tests::golden::{Bits, Golden};
use rope_tests::{Number, Source, each_element};

const FACTORS: [(HadamardFactor, &str); 2] = [
    (HadamardFactor::Last, "last"),
    (HadamardFactor::First, "first"),
];

fn rope(backend: Backend) -> Rope {
    Rope::new(rope_core::Pairing::Half)
        .with_backend(backend)
        .expect("an available backend")
}

fn transform(block: usize, factor: HadamardFactor) -> Hadamard {
    Hadamard::new(block)
        .expect("a power of two")
        .with_factor(factor)
}

/// Transforms heads of a tensor in place and in a chain, contiguous or with gaps.
fn transformed<E: Number>(
    backend: Backend,
    x: &[E],
    head_dim: usize,
    hadamard: Hadamard,
) -> Vec<E> {
    let heads = x.len() / head_dim;
    let plan = rope(backend).with_hadamard(hadamard);
    let mut y = x.to_vec();
    let mut tensor = TensorMut::new(&mut y, [1, 1, heads, head_dim]).expect("a valid tensor");
    plan.apply(&mut tensor).expect("a block that fits");
    let mut staged = x.to_vec();
    let mut tensor = TensorMut::new(&mut staged, [1, heads, 1, head_dim]).expect("a valid tensor");
    let in_stages = in_stages(plan);
    in_stages.apply(&mut tensor).expect("a block that fits");
    // Heads with gaps of one channel.
    let mut apart = vec![E::from_f32(3.0); heads * (head_dim + 1)];
    for (to, from) in apart.chunks_mut(head_dim + 1).zip(x.chunks(head_dim)) {
        to[..head_dim].copy_from_slice(from);
    }
    let layout = Layout::bshd([1, 1, heads, head_dim + 1])
        .and_then(|it| it.narrow(Dimension::Channels, 0..head_dim));
    let layout = layout.expect("a small layout");
    let mut tensor = TensorMut::new(&mut apart, layout).expect("a valid tensor");
    plan.apply(&mut tensor).expect("a block that fits");
    for (got, expected) in apart.chunks(head_dim + 1).zip(y.chunks(head_dim)) {
        same(&got[..head_dim], expected, "apart");
        assert_eq!(got[head_dim].bits(), E::from_f32(3.0).bits());
    }
    let mut cache = vec![E::from_f32(3.0); x.len()];
    let nhd = CacheLayout::nhd([heads, 1, 1, head_dim]).expect("a small cache");
    let mut kept = CacheMut::new(&mut cache, nhd).expect("a cache that fits");
    let tensor = Tensor::new(x, [1, heads, 1, head_dim]).expect("a valid tensor");
    plan.apply_into(&tensor, &mut kept.slots(0..heads))
        .expect("slots that are there");
    same(&staged, &y, "stage by stage");
    same(&cache, &y, "into a cache");
    y
}

#[track_caller]
fn same<E: Number>(got: &[E], expected: &[E], doing: &str) {
    assert_eq!(got.len(), expected.len(), "{doing}");
    for (index, (got, expected)) in got.iter().zip(expected).enumerate() {
        assert!(
            got.bits() == expected.bits() || got.is_nan() && expected.is_nan(),
            "{doing}: element {index} is {got:?}, not {expected:?}"
        );
    }
}

/// Blocks of 8 to 256 channels, and of parts of heads.
#[test]
fn blocks() {
    let file = Golden::file("hadamard/plain.txt");
    let cases: Vec<(String, usize, usize)> = [
        ("h8", 8, 8),
        ("h64", 64, 64),
        ("h128", 128, 128),
        ("h256", 256, 256),
        ("h192b64", 192, 64),
        ("h96b32", 96, 32),
        ("h80b16", 80, 16),
    ]
    .map(|(name, head_dim, block)| {
        let case = format!("head_dim {head_dim} block {block} rows 5");
        assert_eq!(file.text(&format!("case {name}")), case);
        (name.to_owned(), head_dim, block)
    })
    .into();
    assert_eq!(file.decimal("cases"), cases.len());
    fn one<E: Number + Bits>(file: &Golden, (name, head_dim, block): &(String, usize, usize)) {
        let bits = |what: &str| file.bits::<E>(&format!("{name}_{what}_{}", E::NAME));
        let x = bits("x");
        for backend in Backend::available() {
            for (factor, key) in FACTORS {
                let got = transformed(backend, &x, *head_dim, transform(*block, factor));
                let doing = format!("{backend}, {name}, {key} in {}", E::NAME);
                same(&got, &bits(key), &doing);
            }
        }
    }
    for case in &cases {
        each_element!(one(&file, case));
        let (name, head_dim, block) = case;
        // The exact sums, within the roundings of the butterflies.
        let x: Vec<f32> = file.bits(&format!("{name}_x_f32"));
        let exact: Vec<f64> = file.bits(&format!("{name}_exact_f64"));
        let got = transformed(
            Backend::best(),
            &x,
            *head_dim,
            transform(*block, HadamardFactor::Last),
        );
        for (index, block_of) in x.chunks(*block).enumerate() {
            let norm = block_of.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>();
            let bound = error(*block) * norm.sqrt();
            for channel in index * block..(index + 1) * block {
                let off = (f64::from(got[channel]) - exact[channel]).abs();
                assert!(off <= bound, "{name}, {channel}: off by {off:e}");
            }
        }
        let constant: Vec<f32> = file.bits(&format!("{name}_c"));
        assert_eq!(constant, [(1.0 / (*block as f64).sqrt()) as f32]);
    }
}

/// Returns the error of the transform of a block, relative to the block's norm: each stage rounds by at most 2^-24 of
/// it, and the factor twice (itself, and its product).
fn error(block: usize) -> f64 {
    f64::from(2 * (block.trailing_zeros() + 1)) * 2.0_f64.powi(-24)
}

/// Zeros with signs, infinities, NaN, overflow, subnormal numbers, unit vectors.
#[test]
fn special_values() {
    let file = Golden::file("hadamard/special.txt");
    let (head_dim, block) = (file.decimal("head_dim"), file.decimal("block"));
    let x: Vec<f32> = file.bits("x_f32");
    assert_eq!(x.len(), 13 * head_dim);
    for backend in Backend::available() {
        for (factor, key) in FACTORS {
            let got = transformed(backend, &x, head_dim, transform(block, factor));
            let expected: Vec<f32> = file.bits(&format!("{key}_f32"));
            same(&got, &expected, &format!("{backend}, {key}"));
        }
    }
}

/// After a rotation: with a rounding between (A), without one (B), and as in ggml.
#[test]
fn after_rotations() {
    fn one<E: Number + Bits>(file: &Golden) {
        let (head_dim, block) = (file.decimal("head_dim"), file.decimal("block"));
        let (tokens, heads) = (file.decimal("tokens"), file.decimal("heads"));
        let (pairs, (pairing, _)) = (file.decimal("n_freq"), file.pairings());
        let (cos, sin): (Vec<f32>, Vec<f32>) = (file.bits("cos_f32"), file.bits("sin_f32"));
        let rows = Rows::from_cos_sin(&cos, &sin, [tokens, pairs], 2 * pairs).expect("whole rows");
        let bits = |key: &str| file.bits::<E>(&format!("{key}_{}", E::NAME));
        let x = bits("x");
        let shape = [1, tokens, heads, head_dim];
        for backend in Backend::available() {
            let plan = Rope::new(pairing).with_backend(backend).expect("available");
            let run = |plan: Rope<Linear<'_>>, key: &str| {
                let doing = format!("{backend}, {}, {key} in {}", file.name, E::NAME);
                let mut y = x.clone();
                let mut tensor = TensorMut::new(&mut y, shape).expect("a valid tensor");
                plan.rotate(&mut tensor, &rows).expect("rows that fit");
                same(&y, &bits(key), &doing);
                let mut y = vec![E::from_f32(3.0); x.len()];
                let mut tensor = TensorMut::new(&mut y, shape).expect("a valid tensor");
                let from = Tensor::new(&x, shape).expect("a valid tensor");
                plan.rotate_into(&from, &mut tensor, &rows)
                    .expect("rows that fit");
                same(&y, &bits(key), &doing);
            };
            run(Rope::<Linear<'_>>::from(plan), "rot");
            let [last, first] =
                FACTORS.map(|(factor, _)| plan.with_hadamard(transform(block, factor)));
            run(last, "A");
            run(first, "aF");
            run(last.without_rounding(), "B");
            if E::NAME == "f32" {
                run(first, "ggml");
            }
        }
    }
    for file in Golden::all("hadamard") {
        if file.name.starts_with("rotate_") {
            each_element!(one(&file));
            inputs(&file);
            scores(&file);
        }
    }
}

/// Asserts the inputs of a file: its rows are the rows of its base and positions, its factor is the factor of its
/// block.
fn inputs(file: &Golden) {
    let (base, positions): (Vec<f64>, Vec<i64>) = (file.bits("base"), file.decimals("positions"));
    let rotary_dim = 2 * file.decimal("n_freq");
    let rows = Frequencies::new(rotary_dim, base[0], &Scaling::Default)
        .and_then(|set| set.rows(&positions))
        .expect("a base");
    for (token, row) in file
        .bits::<f32>("cos_f32")
        .chunks(rotary_dim / 2)
        .zip(file.bits::<f32>("sin_f32").chunks(rotary_dim / 2))
        .enumerate()
    {
        assert_eq!(rows.row(token, 0), Some(row), "{}, {token}", file.name);
    }
    let block = file.decimal("block") as f64;
    assert_eq!(file.bits::<f32>("c"), [(1.0 / block.sqrt()) as f32]);
}

/// Asserts that scores of transformed queries and keys are those of the exact rotation, within the roundings.
fn scores(file: &Golden) {
    let (head_dim, block) = (file.decimal("head_dim"), file.decimal("block"));
    let tokens = file.decimal("tokens");
    let transformed: Vec<f32> = file.bits("A_f32");
    let heads: Vec<Vec<f64>> = transformed
        .chunks(head_dim)
        .map(|head| head.iter().map(|&x| x.into()).collect())
        .collect();
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    for key in ["scores_f64", "scores_transformed_f64"] {
        let expected: Vec<f64> = file.bits(key);
        for (index, expected) in expected.into_iter().enumerate() {
            let (q, k) = (
                &heads[2 * (index / tokens)],
                &heads[2 * (index % tokens) + 1],
            );
            let bound = error(block) * (dot(q, q) * dot(k, k)).sqrt();
            let off = (dot(q, k) - expected).abs();
            assert!(off <= bound, "{}, {key} {index}: off by {off:e}", file.name);
        }
    }
}

/// Unit vectors give the rows of the matrix, for every block and with every sign.
#[test]
fn rows_of_the_matrix() {
    for log in 1..=11_u32 {
        let block = 1 << log;
        let c = (1.0 / (block as f64).sqrt()) as f32;
        let row = Source::random("rows_of_the_matrix").below(block);
        for backend in Backend::available() {
            for (factor, key) in FACTORS {
                let mut x = vec![0.0_f32; block];
                x[row] = 1.0;
                let got = transformed(backend, &x, block, transform(block, factor));
                for (channel, got) in got.into_iter().enumerate() {
                    let negative = (row & channel).count_ones() % 2 == 1;
                    let expected = if negative { -c } else { c };
                    assert_eq!(got, expected, "{backend}, {block}, {key}, {row}, {channel}");
                }
            }
        }
    }
}

#[test]
fn elements_of_sixteen_bits() {
    // f16 and bf16 are transformed in f32 and rounded once.
    let x: Vec<f32> = (0..256)
        .map(|i| ((i * 37 % 101) as f32 - 50.0) / 64.0)
        .collect();
    let hadamard = transform(128, HadamardFactor::Last);
    let narrow: Vec<bf16> = x.iter().map(|&x| bf16::from_f32(x)).collect();
    let wide: Vec<f32> = narrow.iter().map(|x| x.to_f32()).collect();
    let expected = transformed(Backend::best(), &wide, 128, hadamard);
    let expected: Vec<f16> = expected.into_iter().map(f16::from_f32).collect();
    let from = Tensor::new(&narrow, [1, 1, 2, 128]).expect("a valid tensor");
    let mut kept = vec![f16::ZERO; 256];
    let layout = CacheLayout::nhd([1, 1, 2, 128]).expect("a small cache");
    let mut cache = CacheMut::new(&mut kept, layout).expect("a cache that fits");
    let plan = rope(Backend::best()).with_hadamard(hadamard);
    plan.apply_into(&from, &mut cache.slots(0..1))
        .expect("slots that are there");
    same(&kept, &expected, "bf16 into f16");
}
