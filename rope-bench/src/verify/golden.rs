//! Q and K of real models, with the cos and sin of Hugging Face and the result of PyTorch.
//!
//! Lines of `key value value ...`; numbers are bit patterns in hexadecimal; `#` starts a comment.

use anyhow::{Context, Result, bail, ensure};
use rope_core::Pairing;

use crate::cases::Float;

macro_rules! files {
    ($($name:literal)*) => {
        &[$(($name, include_str!(concat!("../../../tests/golden/apply/", $name, ".txt")))),*]
    };
}

/// The embedded files: name and text.
pub const FILES: &[(&str, &str)] =
    files!("llama3_1_8b" "qwen3_8b" "qwen2_vl_7b_mrope" "gpt_neox_20b" "gptj_6b" "deepseek_v3");

/// A parsed file.
#[derive(Debug)]
pub struct Golden<'a> {
    pub name: &'a str,
    /// The model's pairing.
    pub input: Pairing,
    /// The pairing of its result.
    pub output: Pairing,
    pub head_dim: usize,
    pub rotary_offset: usize,
    pub rotary_dim: usize,
    /// Tokens, each at its own position.
    pub tokens: usize,
    /// cos, `[token][pair]`.
    pub cos: Vec<f32>,
    /// sin, `[token][pair]`.
    pub sin: Vec<f32>,
    file: File<'a>,
}

impl<'a> Golden<'a> {
    /// Reads a file.
    pub fn parse(text: &'a str) -> Result<Self> {
        let file = File(text);
        let (input, output) = match file.value("layout")? {
            "interleaved" => (Pairing::Interleaved, Pairing::Interleaved),
            "interleaved_in_half_out" => (Pairing::Interleaved, Pairing::Half),
            layout if layout.starts_with("half") => (Pairing::Half, Pairing::Half),
            layout => bail!("layout {layout}"),
        };
        let (pairs, tokens) = (file.number("n_freq")?, file.number("tokens")?);
        Ok(Golden {
            name: file.value("name")?,
            input,
            output,
            head_dim: file.number("head_dim")?,
            rotary_offset: file.number("rotary_offset")?,
            rotary_dim: 2 * pairs,
            tokens,
            cos: file.f32("cos_hf_f32", tokens * pairs)?,
            sin: file.f32("sin_hf_f32", tokens * pairs)?,
            file,
        })
    }

    /// Returns the heads of `q` or `k`.
    pub fn heads(&self, tensor: &str) -> Result<usize> {
        self.file.number(&format!("{tensor}_heads"))
    }

    /// Returns Q or K, `[token][head][head_dim]`: the input `in` as this element, or PyTorch's output `hf` in f32.
    pub fn values<E: Float>(&self, tensor: &str, what: &str) -> Result<Vec<E>> {
        let key = format!("{tensor}_{what}_{}", E::ELEMENT);
        let len = self.tokens * self.heads(tensor)? * self.head_dim;
        let bits = self
            .file
            .bits(&key, len, |word| u32::from_str_radix(word, 16))?;
        let size = size_of::<E>();
        let value = |bits: u32| bytemuck::pod_read_unaligned(&bits.to_le_bytes()[..size]);
        Ok(bits.into_iter().map(value).collect())
    }
}

/// The text of a golden file.
#[derive(Debug)]
pub(crate) struct File<'a>(pub(crate) &'a str);

impl<'a> File<'a> {
    fn value(&self, key: &str) -> Result<&'a str> {
        let mut lines = self.0.lines();
        let line = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
        line.map(str::trim)
            .with_context(|| format!("golden file without `{key}`"))
    }

    fn number(&self, key: &str) -> Result<usize> {
        let number = self.value(key)?.parse();
        number.with_context(|| format!("golden file: `{key}`"))
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
        let wrong = || format!("golden file: `{key}`");
        let words = self.value(key)?.split_ascii_whitespace();
        let bits: Vec<T> = words
            .map(parse)
            .collect::<Result<_, _>>()
            .with_context(wrong)?;
        let found = bits.len();
        ensure!(found == len, "{} has {found} values, not {len}", wrong());
        Ok(bits)
    }

    pub(crate) fn f32(&self, key: &str, len: usize) -> Result<Vec<f32>> {
        let bits = self.bits(key, len, |word| u32::from_str_radix(word, 16))?;
        Ok(bits.into_iter().map(f32::from_bits).collect())
    }
}
