//! Models of candle-transformers behind one face.

use candle_core::{D, DType, Device, Error, Result, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::{gemma, llama, phi3, qwen2, qwen3};
use rope_candle::Rotary;
use serde::de::DeserializeOwned;

use crate::{Rotation, Weights};

/// The code that runs: a module of candle-transformers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Makes angles in f32, and rounds cos and sin to the model's type.
    Llama,
    /// Makes angles in the model's type.
    Qwen2,
    /// Makes angles in the model's type.
    Gemma,
    /// Makes angles in the model's type.
    Phi3,
    /// Makes angles in f32, and rounds cos and sin to the model's type. Takes no f64.
    Qwen3,
}

/// The size of a model that has no file.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Tokens that there are.
    pub vocabulary: usize,
    /// Layers.
    pub layers: usize,
    /// Heads of queries; keys have half as many.
    pub heads: usize,
    /// Channels of a head.
    pub head_dim: usize,
    /// Positions that the model's code makes tables for.
    pub positions: usize,
}

/// A model with its cache.
#[derive(Debug)]
pub struct Model(Code);

#[derive(Debug)]
enum Code {
    /// The model, its cache, and an empty cache.
    Llama(Box<(llama::Llama, llama::Cache, llama::Cache)>),
    Qwen2(qwen2::ModelForCausalLM),
    Gemma(gemma::Model),
    Phi3(phi3::Model),
    Qwen3(qwen3::ModelForCausalLM),
}

const BASE: f64 = 10_000.0;

impl Kind {
    /// All.
    pub const ALL: [Kind; 5] = [
        Kind::Llama,
        Kind::Qwen2,
        Kind::Gemma,
        Kind::Phi3,
        Kind::Qwen3,
    ];

    /// A `config.json` of a small model, without scaling.
    pub fn config(self, size: Size) -> String {
        let (model_type, activation) = match self {
            Kind::Llama => ("llama", "silu"),
            Kind::Qwen2 => ("qwen2", "silu"),
            Kind::Gemma => ("gemma", "gelu_pytorch_tanh"),
            Kind::Phi3 => ("phi3", "silu"),
            Kind::Qwen3 => ("qwen3", "silu"),
        };
        let Size {
            vocabulary,
            layers,
            heads,
            head_dim,
            positions,
        } = size;
        let (width, kv_heads) = (heads * head_dim, heads / 2);
        let inner = 2 * width;
        format!(
            r#"{{"model_type": "{model_type}", "hidden_act": "{activation}", "vocab_size": {vocabulary},
                "hidden_size": {width}, "intermediate_size": {inner}, "num_hidden_layers": {layers},
                "num_attention_heads": {heads}, "num_key_value_heads": {kv_heads}, "head_dim": {head_dim},
                "rope_theta": {BASE:?}, "max_position_embeddings": {positions}, "rms_norm_eps": 1e-6,
                "attention_bias": false, "tie_word_embeddings": false, "use_sliding_window": false,
                "sliding_window": {positions}, "max_window_layers": {layers}}}"#
        )
    }

    /// A small model with even weights.
    ///
    /// # Errors
    ///
    /// The errors of candle-transformers.
    pub fn small(self, size: Size, dtype: DType) -> Result<Model> {
        let weights = match self {
            Kind::Gemma => Weights::EvenNormsFromZero,
            _ => Weights::Even,
        };
        self.load(&self.config(size), weights, dtype)
    }

    /// The model of a `config.json`.
    ///
    /// # Errors
    ///
    /// The errors of candle-transformers.
    pub fn load(self, config: &str, weights: Weights, dtype: DType) -> Result<Model> {
        let weights = VarBuilder::from_backend(Box::new(weights), dtype, Device::Cpu);
        Ok(Model(match self {
            Kind::Llama => {
                let config = read::<llama::LlamaConfig>(config)?.into_config(false);
                let cache = llama::Cache::new(true, dtype, &config, &Device::Cpu)?;
                let model = llama::Llama::load(weights, &config)?;
                Code::Llama(Box::new((model, cache.clone(), cache)))
            }
            Kind::Qwen2 => Code::Qwen2(qwen2::ModelForCausalLM::new(&read(config)?, weights)?),
            Kind::Gemma => Code::Gemma(gemma::Model::new(false, &read(config)?, weights)?),
            Kind::Phi3 => Code::Phi3(phi3::Model::new(&read(config)?, weights)?),
            Kind::Qwen3 => Code::Qwen3(qwen3::ModelForCausalLM::new(&read(config)?, weights)?),
        }))
    }
}

fn read<T: DeserializeOwned>(config: &str) -> Result<T> {
    serde_json::from_str(config).map_err(Error::wrap)
}

impl Model {
    /// The logits of the last of some tokens, from a position on, in f64.
    ///
    /// # Errors
    ///
    /// The errors of candle-transformers.
    pub fn forward(
        &mut self,
        tokens: &[u32],
        position: usize,
        rotation: Rotation<'_>,
    ) -> Result<Vec<f64>> {
        let ids = Tensor::new(tokens, &Device::Cpu)?.unsqueeze(0)?;
        let logits = rotation.run(|| match &mut self.0 {
            Code::Llama(llama) => {
                let (model, cache, _) = &mut **llama;
                model.forward(&ids, position, cache)
            }
            Code::Qwen2(model) => model.forward(&ids, position),
            Code::Gemma(model) => model.forward(&ids, position),
            Code::Phi3(model) => model.forward(&ids, position),
            Code::Qwen3(model) => model.forward(&ids, position),
        })?;
        logits.flatten_all()?.to_dtype(DType::F64)?.to_vec1()
    }

    /// Forgets all tokens.
    pub fn clear(&mut self) {
        match &mut self.0 {
            Code::Llama(llama) => {
                let (_, cache, empty) = &mut **llama;
                cache.clone_from(empty);
            }
            Code::Qwen2(model) => model.clear_kv_cache(),
            Code::Gemma(model) => model.clear_kv_cache(),
            Code::Phi3(model) => model.clear_kv_cache(),
            Code::Qwen3(model) => model.clear_kv_cache(),
        }
    }

    /// The logits of each of some tokens, one step for each and nothing before them; with tables of each token, or by
    /// what the model's code makes.
    ///
    /// # Errors
    ///
    /// The errors of candle-transformers.
    pub fn decode(
        &mut self,
        tokens: &[u32],
        positions: &[usize],
        rotation: Rotation<'_>,
    ) -> Result<Vec<f64>> {
        self.clear();
        let mut logits = Vec::new();
        for (index, (&token, &position)) in tokens.iter().zip(positions).enumerate() {
            logits.extend(match rotation {
                Rotation::Tables(cos, sin) => {
                    let (cos, sin) = (cos.narrow(0, index, 1)?, sin.narrow(0, index, 1)?);
                    self.forward(&[token], position, Rotation::Tables(&cos, &sin))?
                }
                own => self.forward(&[token], position, own)?,
            });
        }
        Ok(logits)
    }
}

/// rope-candle's cos and sin of some positions, by a `config.json`: in f32, of exact angles.
///
/// # Errors
///
/// The errors of [`Rotary::from_config`] and [`Rotary::rows`].
pub fn exact_tables(config: &str, positions: &[usize]) -> Result<(Tensor, Tensor)> {
    Rotary::from_config(config)?.rows(positions)?.cos_sin()
}

/// cos and sin of some positions in f64, of products in f64, for a small model; nothing of ours has a part in it.
///
/// # Errors
///
/// The errors of candle.
pub fn double_tables(size: Size, positions: &[usize]) -> Result<(Tensor, Tensor)> {
    let inverse: Vec<f64> = (0..size.head_dim)
        .step_by(2)
        .map(|i| BASE.powf(-(i as f64) / size.head_dim as f64))
        .collect();
    let positions: Vec<f64> = positions.iter().map(|&position| position as f64).collect();
    let positions = Tensor::new(positions, &Device::Cpu)?.unsqueeze(D::Minus1)?;
    let angles = positions.broadcast_mul(&Tensor::new(inverse, &Device::Cpu)?)?;
    Ok((angles.cos()?, angles.sin()?))
}

/// The length of the difference of two vectors, as a part of the length of the second.
///
/// # Panics
///
/// If they differ in length.
pub fn distance(given: &[f64], exact: &[f64]) -> f64 {
    assert_eq!(given.len(), exact.len());
    let square = |sum: f64, value: f64| sum + value * value;
    let difference = given.iter().zip(exact).map(|(given, exact)| given - exact);
    (difference.fold(0.0, square) / exact.iter().copied().fold(0.0, square)).sqrt()
}
