//! Q and K of real models, with the cos and sin that Hugging Face used and the result that PyTorch gave.
//!
//! Lines of `key value value ...`; numbers are bit patterns in hexadecimal; `#` starts a comment.

use anyhow::{Context, Result, bail, ensure};
use rope_core::Pairing;

macro_rules! files {
    ($($name:literal)*) => {
        &[$(($name, include_str!(concat!("../../tests/golden/apply/", $name, ".txt")))),*]
    };
}

/// The files that the binary carries: name and text.
pub const FILES: &[(&str, &str)] =
    files!("llama3_1_8b" "qwen3_8b" "qwen2_vl_7b_mrope" "gpt_neox_20b" "gptj_6b" "deepseek_v3");

/// One file, read.
#[derive(Debug)]
pub struct Golden {
    /// The model.
    pub name: String,
    /// How the model's channels pair.
    pub input: Pairing,
    /// How its result is laid out.
    pub output: Pairing,
    /// Channels of a head.
    pub head_dim: usize,
    /// First channel that rotates.
    pub rotary_offset: usize,
    /// Channels that rotate.
    pub rotary_dim: usize,
    /// Tokens, each at its own position.
    pub tokens: usize,
    /// cos, `[token][pair]`.
    pub cos: Vec<f32>,
    /// sin, `[token][pair]`.
    pub sin: Vec<f32>,
    /// Q, then K.
    pub tensors: Vec<GoldenTensor>,
}

/// Q or K: what went in, and what came out as f32.
#[derive(Debug)]
pub struct GoldenTensor {
    /// `q` or `k`.
    pub name: &'static str,
    /// Heads.
    pub heads: usize,
    /// `[token][head][head_dim]`.
    pub input_f32: Vec<f32>,
    /// PyTorch's result.
    pub output_f32: Vec<f32>,
    /// The same input as bits of bf16.
    pub input_bf16: Vec<u16>,
    /// The same input as bits of f16.
    pub input_f16: Vec<u16>,
}

impl Golden {
    /// Reads a file.
    pub fn parse(text: &str) -> Result<Self> {
        let file = File(text);
        let (input, output) = match file.value("layout")? {
            "interleaved" => (Pairing::Interleaved, Pairing::Interleaved),
            "interleaved_in_half_out" => (Pairing::Interleaved, Pairing::Half),
            layout if layout.starts_with("half") => (Pairing::Half, Pairing::Half),
            layout => bail!("layout {layout}"),
        };
        let (head_dim, pairs, tokens) = (
            file.number("head_dim")?,
            file.number("n_freq")?,
            file.number("tokens")?,
        );
        let mut tensors = Vec::new();
        for name in ["q", "k"] {
            let heads = file.number(&format!("{name}_heads"))?;
            let len = tokens * heads * head_dim;
            tensors.push(GoldenTensor {
                name,
                heads,
                input_f32: file.f32(&format!("{name}_in_f32"), len)?,
                output_f32: file.f32(&format!("{name}_hf_f32"), len)?,
                input_bf16: file.bits(&format!("{name}_in_bf16"), len, |word| {
                    u16::from_str_radix(word, 16)
                })?,
                input_f16: file.bits(&format!("{name}_in_f16"), len, |word| {
                    u16::from_str_radix(word, 16)
                })?,
            });
        }
        Ok(Golden {
            name: file.value("name")?.to_owned(),
            input,
            output,
            head_dim,
            rotary_offset: file.number("rotary_offset")?,
            rotary_dim: 2 * pairs,
            tokens,
            cos: file.f32("cos_hf_f32", tokens * pairs)?,
            sin: file.f32("sin_hf_f32", tokens * pairs)?,
            tensors,
        })
    }
}

/// The text of a golden file.
pub(crate) struct File<'a>(pub(crate) &'a str);

impl<'a> File<'a> {
    fn value(&self, key: &str) -> Result<&'a str> {
        let line = self
            .0
            .lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
        line.map(str::trim)
            .with_context(|| format!("golden file without `{key}`"))
    }

    fn number(&self, key: &str) -> Result<usize> {
        self.value(key)?
            .parse()
            .with_context(|| format!("golden file: `{key}`"))
    }

    pub(crate) fn bits<T, E>(
        &self,
        key: &str,
        len: usize,
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> Result<Vec<T>>
    where
        E: std::error::Error + Send + Sync + 'static,
    {
        let bits: Vec<T> = self
            .value(key)?
            .split_ascii_whitespace()
            .map(parse)
            .collect::<Result<_, _>>()
            .with_context(|| format!("golden file: `{key}`"))?;
        ensure!(
            bits.len() == len,
            "golden file: `{key}` has {} values, not {len}",
            bits.len()
        );
        Ok(bits)
    }

    pub(crate) fn f32(&self, key: &str, len: usize) -> Result<Vec<f32>> {
        let bits = self.bits(key, len, |word| u32::from_str_radix(word, 16))?;
        Ok(bits.into_iter().map(f32::from_bits).collect())
    }
}
