//! The `rope.*` keys of a GGUF file read into frequencies and a pairing, or a refusal with the reason.
//!
//! The keys are llama.cpp's (`docs/gguf.md`, `src/llama-arch.cpp`), and so are the meanings: `llama_model_rope_type`
//! (`src/llama-model.cpp`) says how an architecture pairs its channels, which is not always how the original model
//! does (converters permute Llama's weights to interleaved pairs). Reading the file is left to the caller: what is
//! needed here are its keys and values, and for some models a tensor.

use crate::error::Name;
use crate::frequencies::Result;
use crate::{Axes, Error, Frequencies, FrequencyBlock, Pairing, Scaling, Yarn};

/// A value of a GGUF file, of the kinds that the keys here have.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum GgufValue<'a> {
    /// Any integer type.
    Integer(i64),
    /// Any float type.
    Float(f64),
    /// A boolean.
    Bool(bool),
    /// A string.
    Text(&'a str),
    /// An array of 32-bit integers, signed or not.
    Integers(&'a [i32]),
}

/// The keys and values of a GGUF file that concern its rotary embedding.
///
/// ```
/// use rope_core::{Gguf, GgufValue, Pairing};
///
/// let keys = [
///     ("general.architecture", GgufValue::Text("llama")),
///     ("llama.rope.dimension_count", GgufValue::Integer(128)),
///     ("llama.rope.freq_base", GgufValue::Float(500_000.0)),
/// ];
/// let gguf = Gguf::new(&keys)?;
/// assert_eq!(gguf.pairing()?, Pairing::Interleaved);
/// # #[cfg(feature = "alloc")]
/// assert_eq!(gguf.frequencies()?.rotary_dim(), 128);
/// # Ok::<(), rope_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Gguf<'a> {
    pairs: &'a [(&'a str, GgufValue<'a>)],
    architecture: &'a str,
    factors: Option<&'a [f32]>,
    sliding_window: bool,
}

/// How llama.cpp pairs the channels and deals out the axes of an architecture: its `llama_rope_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LlamaRopeType {
    Norm,
    Neox,
    Mrope,
    Imrope,
}

impl<'a> Gguf<'a> {
    /// All keys of the file, or those under `rope.` and `attention.` with `general.architecture`.
    ///
    /// # Errors
    ///
    /// [`Error::Missing`] without `general.architecture`, [`Error::Invalid`] if it is no text.
    pub fn new(pairs: &'a [(&'a str, GgufValue<'a>)]) -> Result<Self> {
        let key = "general.architecture";
        match pairs.iter().find(|(name, _)| *name == key) {
            Some((_, GgufValue::Text(architecture))) => Ok(Self {
                pairs,
                architecture,
                factors: None,
                sliding_window: false,
            }),
            Some(_) => Err(Error::Invalid {
                key,
                required: "a text",
            }),
            None => Err(Error::Missing { key }),
        }
    }

    /// The tensor `rope_freqs.weight`, or for LongRoPE the one of `rope_factors_short.weight` and
    /// `rope_factors_long.weight` that the context asks for (llama.cpp takes the long one where the context of a
    /// sequence is above `rope.scaling.original_context_length`).
    #[must_use]
    pub fn with_freq_factors(self, factors: &'a [f32]) -> Self {
        Self {
            factors: Some(factors),
            ..self
        }
    }

    /// The layers with a sliding window, where the file has another base for them (`rope.freq_base_swa`). They are not
    /// scaled.
    #[must_use]
    pub fn for_sliding_window(self) -> Self {
        Self {
            sliding_window: true,
            ..self
        }
    }

    /// The pairing that the file's tensors are in.
    ///
    /// # Errors
    ///
    /// [`Error::Unknown`] for an architecture that is not known here.
    pub fn pairing(&self) -> Result<Pairing> {
        Ok(match self.rope_type()? {
            LlamaRopeType::Norm => Pairing::Interleaved,
            LlamaRopeType::Neox | LlamaRopeType::Mrope | LlamaRopeType::Imrope => Pairing::Half,
        })
    }

    /// How many channels rotate: `rope.dimension_count` (for sliding windows `rope.dimension_count_swa`, if there is
    /// one), or those of a key head.
    ///
    /// # Errors
    ///
    /// [`Error::Missing`] and [`Error::Invalid`] for the keys it follows from.
    pub fn rotary_dim(&self) -> Result<usize> {
        let keys = [
            "rope.dimension_count_swa",
            "rope.dimension_count",
            "attention.key_length",
        ];
        for key in keys.into_iter().skip(usize::from(!self.sliding_window)) {
            if let Some(dim) = self.count(key)? {
                return Ok(dim);
            }
        }
        let width = self.count("embedding_length")?.ok_or(Error::Missing {
            key: "rope.dimension_count",
        })?;
        let heads = self.count("attention.head_count")?.ok_or(Error::Missing {
            key: "attention.head_count",
        })?;
        Ok(width / heads)
    }

    /// The axes: four for the multimodal architectures, else one.
    ///
    /// # Errors
    ///
    /// Those of [`Gguf::pairing`] and [`Gguf::rotary_dim`]; [`Error::Missing`] and [`Error::Invalid`] for
    /// `rope.dimension_sections`.
    pub fn axes(&self) -> Result<Axes<'static>> {
        let (rope_type, rotary_dim) = (self.rope_type()?, self.rotary_dim()?);
        let over_sections = match rope_type {
            LlamaRopeType::Norm | LlamaRopeType::Neox => return Ok(Axes::from(rotary_dim)),
            LlamaRopeType::Mrope => Axes::ggml_mrope,
            LlamaRopeType::Imrope => Axes::ggml_imrope,
        };
        let key = "rope.dimension_sections";
        let invalid = Error::Invalid {
            key,
            required: "up to four counts of pairs",
        };
        let list = match self.find(key) {
            Some(GgufValue::Integers(list)) if list.len() <= 4 => list,
            Some(_) => return Err(invalid),
            None => return Err(Error::Missing { key }),
        };
        let mut sections = [0; 4];
        for (section, &pairs) in sections.iter_mut().zip(list) {
            *section = usize::try_from(pairs).map_err(|_| invalid)?;
        }
        Ok(over_sections(rotary_dim, sections))
    }

    /// The frequencies, as llama.cpp computes them from the file alone.
    ///
    /// # Errors
    ///
    /// Those of [`Gguf::axes`]; [`Error::Missing`], [`Error::Invalid`] and [`Error::Unknown`] for the keys of the
    /// base and of the scaling; those of [`Frequencies::new`].
    #[cfg(feature = "alloc")]
    pub fn frequencies(&self) -> Result<Frequencies<'static>> {
        let (scaling, attention_factor) = self.scaling()?;
        Frequencies::new(self.axes()?, self.base()?, &scaling)?
            .times_attention_factor("rope.scaling.attn_factor", attention_factor)
    }

    /// [`Gguf::frequencies`] in the caller's storage, of which the first
    /// [`FrequencyBlock::count`] elements are used.
    ///
    /// # Errors
    ///
    /// Those of [`Gguf::frequencies`], and [`Error::Storage`] if the storage is too short.
    pub fn frequencies_in<'s>(&self, storage: &'s mut [FrequencyBlock]) -> Result<Frequencies<'s>> {
        let (scaling, attention_factor) = self.scaling()?;
        Frequencies::new_in(storage, self.axes()?, self.base()?, &scaling)?
            .times_attention_factor("rope.scaling.attn_factor", attention_factor)
    }

    /// The scaling, and the factor on its attention factor.
    fn scaling(&self) -> Result<(Scaling<'a>, f64)> {
        // What an alpha does is left to the code of the model.
        let key = "rope.scaling.alpha";
        if self.number(key)?.is_some_and(|alpha| alpha != 0.0) {
            return Err(Error::Invalid {
                key,
                required: "0, or not there",
            });
        }
        let attention_factor = self.number("rope.scaling.attn_factor")?.unwrap_or(1.0);
        let factor = match self.number("rope.scaling.factor")? {
            Some(factor) => Some(factor),
            // The key's first name.
            None => self.number("rope.scale_linear")?,
        };
        // A factor of 0 is none.
        let factor = factor.filter(|&factor| factor != 0.0);
        let key = "rope.scaling.type";
        let kind = match self.find(key) {
            Some(GgufValue::Text(kind)) => kind,
            Some(_) => {
                return Err(Error::Invalid {
                    key,
                    required: "a text",
                });
            }
            None if factor.is_some() => "linear",
            None => "none",
        };
        if self.local_base()?.is_some() {
            return Ok((Scaling::Default, 1.0));
        }
        let scaling = match (kind, factor, self.factors) {
            ("none" | "longrope", _, Some(factors)) | ("linear", None, Some(factors)) => {
                Scaling::FreqFactors { factors }
            }
            ("longrope", ..) => {
                return Err(Error::Missing {
                    key: "the tensor rope_factors (Gguf::with_freq_factors)",
                });
            }
            ("none", ..) | ("linear", None, None) => Scaling::Default,
            ("linear", Some(factor), None) => Scaling::Linear { factor },
            ("yarn", factor, None) => {
                let key = "rope.scaling.original_context_length";
                let original_context = match self.count(key)? {
                    Some(context) => context,
                    None => self
                        .count("context_length")?
                        .ok_or(Error::Missing { key })?,
                };
                // A tenth of mscale_all_dim as an f32, with an mscale of 1 (deepseek2). Undone in f32 as by llama.cpp,
                // where a tenth of one comes out as one again.
                let tenth = self
                    .number("rope.scaling.yarn_log_multiplier")?
                    .unwrap_or(0.0) as f32;
                let mscale_all_dim = f64::from(tenth / 0.1);
                let factor = factor.ok_or(Error::Missing {
                    key: "rope.scaling.factor",
                })?;
                Scaling::Yarn(Yarn {
                    beta_fast: self.number("rope.scaling.yarn_beta_fast")?.unwrap_or(32.0),
                    beta_slow: self.number("rope.scaling.yarn_beta_slow")?.unwrap_or(1.0),
                    mscale: 1.0,
                    mscale_all_dim,
                    ..Yarn::new(factor, original_context as u64)
                })
            }
            ("linear" | "yarn", _, Some(_)) => {
                return Err(Error::Invalid {
                    key,
                    required: "none or longrope with a tensor of factors",
                });
            }
            (other, ..) => {
                return Err(Error::Unknown {
                    key,
                    value: Name::new(other),
                });
            }
        };
        Ok((scaling, attention_factor))
    }

    fn base(&self) -> Result<f64> {
        // llama.cpp's default is the same for every architecture.
        let base = || Ok(self.number("rope.freq_base")?.unwrap_or(10_000.0));
        self.local_base()?.map_or_else(base, Ok)
    }

    /// The base of sliding-window layers, if they are asked for and have their own.
    fn local_base(&self) -> Result<Option<f64>> {
        if !self.sliding_window {
            return Ok(None);
        }
        // Older files of Gemma 3 leave it to the code.
        let default = match self.architecture {
            "gemma3" | "gemma3n" | "gemma-embedding" => Some(10_000.0),
            _ => None,
        };
        Ok(self.number("rope.freq_base_swa")?.or(default))
    }

    fn rope_type(&self) -> Result<LlamaRopeType> {
        Ok(match self.architecture {
            "glm4" | "glm4moe" | "hunyuan_vl" if self.find("rope.dimension_sections").is_some() => {
                LlamaRopeType::Mrope
            }
            "arcee" | "arctic" | "baichuan" | "bailingmoe" | "chameleon" | "chatglm"
            | "cohere2" | "cohere2moe" | "command-r" | "deci" | "deepseek" | "deepseek2"
            | "deepseek2-ocr" | "deepseek32" | "deepseek4" | "ernie4_5" | "ernie4_5-moe"
            | "glm-dsa" | "glm4" | "granite" | "granitehybrid" | "granitemoe" | "internlm2"
            | "llada" | "llama" | "llama-embed" | "llama4" | "maincoder" | "minicpm"
            | "mistral3" | "mistral4" | "neo-bert" | "olmo" | "plm" | "smollm3" | "starcoder"
            | "xverse" => LlamaRopeType::Norm,
            "afmoe" | "apertus" | "bailingmoe2" | "bert" | "bitnet" | "codeshell" | "cogvlm"
            | "dbrx" | "dots1" | "dream" | "eurobert" | "exaone" | "exaone-moe" | "exaone4"
            | "falcon" | "falcon-h1" | "gemma" | "gemma-embedding" | "gemma2" | "gemma3"
            | "gemma3n" | "gemma4" | "gemma4-assistant" | "glm4moe" | "gpt-oss" | "gptneox"
            | "grok" | "grovemoe" | "hunyuan-dense" | "hunyuan-moe" | "hunyuan_vl" | "hy_v3"
            | "jais2" | "jina-bert-v3" | "laguna" | "lfm2" | "lfm2moe" | "llada-moe" | "mellum"
            | "mimo2" | "minicpm3" | "minimax-m2" | "modern-bert" | "nemotron" | "nomic-bert"
            | "nomic-bert-moe" | "olmo2" | "olmoe" | "openelm" | "orion" | "pangu-embedded"
            | "phi2" | "phi3" | "phimoe" | "plamo" | "plamo2" | "plamo3" | "qwen" | "qwen2"
            | "qwen2moe" | "qwen3" | "qwen3moe" | "qwen3next" | "rnd1" | "seed_oss"
            | "smallthinker" | "stablelm" | "starcoder2" | "step35" | "talkie" => {
                LlamaRopeType::Neox
            }
            "paddleocr" | "qwen2vl" => LlamaRopeType::Mrope,
            "qwen35" | "qwen35moe" | "qwen3vl" | "qwen3vlmoe" => LlamaRopeType::Imrope,
            other => {
                return Err(Error::Unknown {
                    key: "general.architecture",
                    value: Name::new(other),
                });
            }
        })
    }

    /// The value under the architecture's key of that name.
    fn find(&self, key: &str) -> Option<GgufValue<'a>> {
        let own = |name: &str| {
            name.strip_prefix(self.architecture)?
                .strip_prefix('.')
                .map(|rest| rest == key)
        };
        self.pairs
            .iter()
            .find(|(name, _)| own(name) == Some(true))
            .map(|&(_, value)| value)
    }

    fn number(&self, key: &'static str) -> Result<Option<f64>> {
        match self.find(key) {
            None => Ok(None),
            Some(GgufValue::Float(value)) => Ok(Some(value)),
            Some(GgufValue::Integer(value)) => Ok(Some(value as f64)),
            Some(_) => Err(Error::Invalid {
                key,
                required: "a number",
            }),
        }
    }

    fn count(&self, key: &'static str) -> Result<Option<usize>> {
        match self.find(key) {
            None => Ok(None),
            Some(GgufValue::Integer(value @ 1..=0xffff_ffff)) => Ok(usize::try_from(value).ok()),
            Some(_) => Err(Error::Invalid {
                key,
                required: "a positive integer below 2^32",
            }),
        }
    }
}
