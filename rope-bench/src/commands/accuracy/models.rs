//! Models with recorded exact frequencies.

use anyhow::Result;
use rope_core::Scaling;

use crate::cases::names::named;
use crate::verify::golden::File;

/// A model with recorded exact frequencies.
#[derive(Clone, Copy, Debug)]
pub struct RecordedModel {
    /// Its name on the command line, as in [`models`](crate::cases::models).
    pub name: &'static str,
    /// `rope_theta`.
    pub base: f64,
    pub rotary_dim: usize,
    /// The scaling of its frequencies: none, or that of Llama 3.1.
    pub scaling: Scaling<'static>,
    pub table: &'static str,
}

/// The factor, the low and the high frequency's factor, and the original context of Llama 3.1.
pub(super) const LLAMA3: [f64; 4] = [8.0, 1.0, 4.0, 8192.0];

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
            table: include_str!(concat!("../../../../tests/golden/tables/", $table, ".txt")),
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

    pub(super) fn about(&self) -> String {
        let scaled = match self.scaling {
            Scaling::Default => "",
            _ => ", scaled as Llama 3.1",
        };
        let (base, channels) = (self.base as u64, self.rotary_dim);
        format!("base {base}, {channels} channels{scaled}")
    }
}
