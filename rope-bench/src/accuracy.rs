//! The errors of cos and sin by position: of rope-core, and of the methods of today's models.
//!
//! A level is a position, a power of two from 1 to 2^31. The tried positions are below it: all of them if they are few;
//! otherwise half directly below the level and half drawn at random. The result is the largest distance of any cos or
//! sin of any pair from the [reference](exact).

pub mod exact;
pub mod methods;

use anyhow::{Result, ensure};
use rope_core::Scaling;

use crate::golden::File;
use crate::results::{Accuracy, MethodErrors};
use crate::selection::named;
use crate::threads::Team;
use methods::{METHODS, MakeRow, Method};

/// A model with recorded exact frequencies.
#[derive(Clone, Copy, Debug)]
pub struct RecordedModel {
    /// Its name on the command line, as in [`models`](crate::models).
    pub name: &'static str,
    /// `rope_theta`.
    pub base: f64,
    pub rotary_dim: usize,
    /// The scaling of its frequencies: none, or that of Llama 3.1.
    pub scaling: Scaling<'static>,
    pub table: &'static str,
}

/// The factor, the low and the high frequency's factor, and the original context of Llama 3.1.
const LLAMA3: [f64; 4] = [8.0, 1.0, 4.0, 8192.0];

const PLAIN: Scaling<'_> = Scaling::Default;
const SCALED: Scaling<'_> = Scaling::Llama3 {
    factor: LLAMA3[0],
    low_freq_factor: LLAMA3[1],
    high_freq_factor: LLAMA3[2],
    original_context: LLAMA3[3] as u64,
};

macro_rules! models {
    ($($name:literal $base:literal $rotary_dim:literal $scaling:ident $table:literal;)*) => {
        /// The recorded models.
        pub const MODELS: &[RecordedModel] = &[$(RecordedModel {
            name: $name,
            base: $base,
            rotary_dim: $rotary_dim,
            scaling: $scaling,
            table: include_str!(concat!("../../tests/golden/tables/", $table, ".txt")),
        }),*];
    };
}

models! {
    "llama-2-7b"   1e4 128 PLAIN  "llama2_7b";
    "llama-3.1-8b" 5e5 128 SCALED "llama3_1_8b";
    "qwen3-8b"     1e6 128 PLAIN  "qwen3_8b";
    "gpt-neox-20b" 1e4  24 PLAIN  "gpt_neox_20b";
}

/// The models shown by default.
pub const USUAL: [&str; 2] = ["llama-2-7b", "llama-3.1-8b"];

impl RecordedModel {
    /// Returns the model of that name.
    pub fn named(name: &str) -> Result<&'static RecordedModel> {
        named(MODELS, "recorded model", name, |model| model.name)
    }

    /// Returns the number of rotated pairs.
    pub fn pairs(&self) -> usize {
        self.rotary_dim / 2
    }

    /// Returns `round(2^128 * theta / 2 pi)` of every pair, from 400-bit arithmetic.
    pub fn steps(&self) -> Result<Vec<u128>> {
        let parse = |word: &str| u128::from_str_radix(word, 16);
        File(self.table).bits("turn_step_u128", self.pairs(), parse)
    }

    /// Returns the inverse frequencies of PyTorch.
    pub fn inverse_of_torch(&self) -> Result<Vec<f32>> {
        File(self.table).f32("inv_freq_hf_f32", self.pairs())
    }

    fn about(&self) -> String {
        let scaled = match self.scaling {
            Scaling::Default => "",
            _ => ", scaled as Llama 3.1",
        };
        let (base, channels) = (self.base as u64, self.rotary_dim);
        format!("base {base}, {channels} channels{scaled}")
    }
}

/// Iterates over the positions of the levels: 2^0 to 2^31.
pub fn levels() -> impl Iterator<Item = u32> {
    (0..32).map(|power| 1 << power)
}

/// Returns the positions tried for a level, itself included: at most `most`, the same on every machine.
pub fn positions(level: u32, most: u32) -> Vec<u32> {
    if level <= most {
        return (1..=level).collect();
    }
    let near = most / 2;
    let mut state = u64::from(level) ^ 0x9e37_79b9_7f4a_7c15;
    let drawn = (near..most).map(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        1 + ((state >> 32) % u64::from(level)) as u32
    });
    (level - near + 1..=level).chain(drawn).collect()
}

/// Computes the errors of all methods at all levels, on `threads` threads.
pub fn accuracy(model: &RecordedModel, most: u32, threads: usize) -> Result<Accuracy> {
    ensure!(most >= 2, "{most} positions for each level: at least 2");
    let steps = model.steps()?;
    let makers = METHODS
        .iter()
        .map(|method| Ok((method, (method.prepare)(model)?)));
    let makers: Vec<(&Method, MakeRow)> = makers.collect::<Result<_>>()?;
    let worst = levels().map(|level| (level, vec![0.0_f64; makers.len()]));
    let mut worst: Vec<_> = worst.collect();
    Team::new(threads)?.each(&mut worst, 1, |(level, worst)| {
        let mut row = vec![(0.0, 0.0); steps.len()];
        for position in positions(*level, most) {
            let truth = steps.iter().map(|&step| exact::cos_sin(step, position));
            let truth: Vec<_> = truth.collect();
            for ((_, make), worst) in makers.iter().zip(&mut *worst) {
                make(position, &mut row);
                for (&(cos, sin), (exact_cos, exact_sin)) in row.iter().zip(&truth) {
                    for off in [f64::from(cos) - exact_cos, f64::from(sin) - exact_sin] {
                        // `f64::max` would ignore a NaN.
                        let off = if off.is_nan() {
                            off
                        } else {
                            worst.max(off.abs())
                        };
                        *worst = off;
                    }
                }
            }
        }
    });
    let mut methods = Vec::new();
    for (index, (method, _)) in makers.iter().enumerate() {
        let errors: Vec<f64> = worst.iter().map(|(_, worst)| worst[index]).collect();
        let are_numbers = errors.iter().all(|error| error.is_finite());
        let (model, name) = (model.name, method.name);
        ensure!(are_numbers, "{model}, {name}: a cos or sin is no number");
        methods.push(MethodErrors {
            name: method.name.into(),
            about: method.about.into(),
            source: method.source.into(),
            errors,
        });
    }
    Ok(Accuracy {
        model: model.name.into(),
        about: model.about(),
        positions: most as usize,
        reference_error: exact::ERROR,
        levels: levels().collect(),
        methods,
    })
}
