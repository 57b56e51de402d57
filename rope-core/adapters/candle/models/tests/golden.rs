//! The same models by transformers: logits of `tests/golden/logits`, at positions up to 100,000.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use candle_core::{DType, Result};
use rope_candle::Rotary;
use rope_candle::rope_core::{Angle, Frequencies, Pairing};
use rope_candle_models::{Kind, Model, Rotation, Weights, exact_tables};

const MODELS: [(&str, Kind); 3] = [
    ("llama", Kind::Llama),
    ("llama3", Kind::Llama),
    ("qwen3", Kind::Qwen3),
];
const CASES: [&str; 5] = ["at_0", "at_100", "at_5000", "at_100000", "jumps"];
const VOCABULARY: usize = 128;

/// Matrix products that a logit went through, one after another: of each layer projections, scores, values, output,
/// and two of the MLP; and the last.
const PRODUCTS: f64 = 2.0 * 6.0 + 1.0;
/// Logits are below that.
const SIZE: f64 = 4.0;

/// The error of rounding in f32: a sum of 128 terms is off by some `sqrt(128)` roundings, and so is each product.
fn rounding_of_f32() -> f64 {
    PRODUCTS * 128_f64.sqrt() * 2.0_f64.powi(-24) * SIZE
}

/// The error of rounding in bf16, once for each product.
fn rounding_of_bf16() -> f64 {
    PRODUCTS * 2.0_f64.powi(-9) * SIZE
}

struct Golden {
    config: String,
    values: HashMap<String, Vec<String>>,
}

impl Golden {
    fn read(name: &str) -> Self {
        // A changed copy: tests/tools/blind.py.
        let changed = std::env::var_os("ROPE_GOLDEN").map(PathBuf::from);
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../../tests/golden");
        let folder = changed.unwrap_or(folder).join("logits");
        let file = |ending| {
            let path = folder.join(format!("{name}.{ending}"));
            std::fs::read_to_string(&path)
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        };
        let lines = file("txt");
        let lines = lines.lines().filter(|line| !line.starts_with('#'));
        let values = lines.map(|line| {
            let mut words = line.split_whitespace().map(String::from);
            (words.next().expect("a name"), words.collect())
        });
        Golden {
            config: file("json"),
            values: values.collect(),
        }
    }

    fn integers<T: std::str::FromStr>(&self, name: &str) -> Vec<T> {
        let parse = |word: &String| word.parse().ok().expect("an integer");
        self.values[name].iter().map(parse).collect()
    }

    fn bits(&self, name: &str) -> impl Iterator<Item = u64> {
        let parse = |word: &String| u64::from_str_radix(word, 16).expect("bits");
        self.values[name].iter().map(parse)
    }

    fn singles(&self, name: &str) -> Vec<f32> {
        self.bits(name)
            .map(|bits| f32::from_bits(bits as u32))
            .collect()
    }

    fn doubles(&self, name: &str) -> Vec<f64> {
        self.bits(name).map(f64::from_bits).collect()
    }

    fn model(&self, kind: Kind, dtype: DType) -> Result<Model> {
        kind.load(&self.config, Weights::Golden, dtype)
    }

    fn case(&self, case: &str) -> (Vec<u32>, Vec<usize>) {
        (
            self.integers("tokens"),
            self.integers(&format!("{case}.positions")),
        )
    }
}

fn farthest(given: &[f64], wanted: &[f64]) -> f64 {
    assert_eq!(given.len(), wanted.len());
    let distances = given
        .iter()
        .zip(wanted)
        .map(|(given, wanted)| (given - wanted).abs());
    // The larger of a number and a NaN is the number.
    distances
        .inspect(|distance| assert!(distance.is_finite()))
        .fold(0.0, f64::max)
}

/// A model in f32 with exact angles differs from the model in f64 by the rounding of its products, at any position.
/// With candle's own tables it differs by more.
#[test]
fn exact_angles_are_the_model_in_f64() -> Result<()> {
    for (name, kind) in MODELS {
        let golden = Golden::read(name);
        let mut model = golden.model(kind, DType::F32)?;
        for case in CASES {
            let (tokens, positions) = golden.case(case);
            let wanted = golden.doubles(&format!("{case}.exact_f64"));
            let last = (tokens.len() - 1) * VOCABULARY;
            let mut far = |rotation| -> Result<f64> {
                Ok(farthest(
                    &model.decode(&tokens, &positions, rotation)?[last..],
                    &wanted,
                ))
            };
            let (cos, sin) = exact_tables(&golden.config, &positions)?;
            let (ours, candle) = (far(Rotation::Tables(&cos, &sin))?, far(Rotation::Candle)?);
            println!("{name} {case}: {ours:.1e}, with candle's tables {candle:.1e}");
            assert!(ours <= rounding_of_f32(), "{name} {case}: {ours}");
            if case == "at_100000" {
                assert!(candle > rounding_of_f32(), "{name} {case}: {candle}");
            }
        }
    }
    Ok(())
}

/// A model with transformers' own angles, which are f32, is transformers' model in f32.
#[test]
fn angles_of_transformers_are_its_model_in_f32() -> Result<()> {
    for (name, kind) in MODELS {
        let golden = Golden::read(name);
        let mut model = golden.model(kind, DType::F32)?;
        let inverse = golden.singles("inv_freq_hf_f32");
        let frequencies = Frequencies::from_inverse(2 * inverse.len(), &inverse, 1.0);
        let frequencies = frequencies.map_err(candle_core::Error::wrap)?;
        let rotary = Rotary::new(frequencies.with_angle(Angle::HuggingFaceF32), Pairing::Half);
        for case in CASES {
            let (tokens, positions) = golden.case(case);
            let (cos, sin) = rotary.rows(&positions)?.cos_sin()?;
            let ours = model.decode(&tokens, &positions, Rotation::Tables(&cos, &sin))?;
            let wanted: Vec<f64> = golden
                .singles(&format!("{case}.hf_f32"))
                .into_iter()
                .map(f64::from)
                .collect();
            let far = farthest(&ours, &wanted);
            println!("{name} {case}: {far:.1e}");
            assert!(far <= rounding_of_f32(), "{name} {case}: {far}");
        }
    }
    Ok(())
}

/// A model in bf16, with the weights rounded to bf16, differs by that rounding.
#[test]
fn bf16_is_as_near_as_its_rounding() -> Result<()> {
    for (name, kind) in MODELS {
        let golden = Golden::read(name);
        let mut model = golden.model(kind, DType::BF16)?;
        for case in CASES {
            let Some(_) = golden.values.get(&format!("{case}.exact_of_bf16_f64")) else {
                continue;
            };
            let (tokens, positions) = golden.case(case);
            let wanted = golden.doubles(&format!("{case}.exact_of_bf16_f64"));
            let (cos, sin) = exact_tables(&golden.config, &positions)?;
            let ours = model.decode(&tokens, &positions, Rotation::Tables(&cos, &sin))?;
            let far = farthest(&ours[(tokens.len() - 1) * VOCABULARY..], &wanted);
            println!("{name} {case}: {far:.1e}");
            assert!(far <= rounding_of_bf16(), "{name} {case}: {far}");
        }
    }
    Ok(())
}

/// The formula of the weights.
#[test]
fn weights_match_the_formula() -> Result<()> {
    use candle_nn::var_builder::SimpleBackend;
    for (name, _) in MODELS {
        let golden = Golden::read(name);
        let width = if name == "qwen3" { 64 } else { 128 };
        for (tensor, shape) in [
            ("model.norm.weight", vec![width]),
            ("lm_head.weight", vec![VOCABULARY, width]),
        ] {
            let init = candle_nn::Init::Const(0.0);
            let weight = Weights::Golden.get(
                shape.into(),
                tensor,
                init,
                DType::F32,
                &candle_core::Device::Cpu,
            )?;
            let first: Vec<f32> = weight.flatten_all()?.narrow(0, 0, 16)?.to_vec1()?;
            assert_eq!(
                first,
                golden.singles(&format!("{tensor}_f32")),
                "{name} {tensor}"
            );
        }
    }
    Ok(())
}
