//! Models of candle-transformers, small, behind one face.

use candle_core::{DType, Device, Result, Tensor};
use candle_nn::{Activation, VarBuilder};
use candle_transformers::models::{gemma, llama, phi3, qwen2, qwen3};

use crate::{Rotation, Seeded};

/// Which.
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

/// How large.
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
    /// Positions that the model makes tables for.
    pub positions: usize,
}

/// A model with its cache.
#[derive(Debug)]
pub struct Model {
    code: Code,
    inverse: Vec<f32>,
}

#[derive(Debug)]
enum Code {
    Llama(Box<llama::Llama>, Box<llama::Cache>, Box<llama::Cache>),
    Qwen2(qwen2::ModelForCausalLM),
    Gemma(gemma::Model),
    Phi3(phi3::Model),
    Qwen3(qwen3::ModelForCausalLM),
}

const BASE: f64 = 10_000.0;
const EPSILON: f64 = 1e-6;

impl Kind {
    /// All.
    pub const ALL: [Kind; 5] = [
        Kind::Llama,
        Kind::Qwen2,
        Kind::Gemma,
        Kind::Phi3,
        Kind::Qwen3,
    ];

    /// The model with weights of a seed.
    ///
    /// # Errors
    ///
    /// Those of candle-transformers.
    pub fn seeded(self, size: Size, seed: u64, dtype: DType) -> Result<Model> {
        let weights = Seeded {
            seed,
            norms_from_zero: self == Kind::Gemma,
        };
        self.load(
            size,
            VarBuilder::from_backend(Box::new(weights), dtype, Device::Cpu),
        )
    }

    /// The model with weights by name.
    ///
    /// # Errors
    ///
    /// Those of candle-transformers.
    pub fn load(self, size: Size, weights: VarBuilder<'static>) -> Result<Model> {
        let dtype = weights.dtype();
        let Size {
            vocabulary: vocab_size,
            layers: num_hidden_layers,
            heads: num_attention_heads,
            head_dim,
            positions: max_position_embeddings,
        } = size;
        let num_key_value_heads = num_attention_heads / 2;
        let hidden_size = num_attention_heads * head_dim;
        let intermediate_size = 2 * hidden_size;
        let (rope_theta, rms_norm_eps) = (BASE, EPSILON);
        let code = match self {
            Kind::Llama => {
                let config = llama::Config {
                    hidden_size,
                    intermediate_size,
                    vocab_size,
                    num_hidden_layers,
                    num_attention_heads,
                    num_key_value_heads,
                    use_flash_attn: false,
                    rms_norm_eps,
                    rope_theta: rope_theta as f32,
                    bos_token_id: None,
                    eos_token_id: None,
                    rope_scaling: None,
                    max_position_embeddings,
                    tie_word_embeddings: false,
                };
                let cache = Box::new(llama::Cache::new(true, dtype, &config, &Device::Cpu)?);
                Code::Llama(
                    Box::new(llama::Llama::load(weights, &config)?),
                    cache.clone(),
                    cache,
                )
            }
            Kind::Qwen2 => {
                let config = qwen2::Config {
                    vocab_size,
                    hidden_size,
                    intermediate_size,
                    num_hidden_layers,
                    num_attention_heads,
                    num_key_value_heads,
                    max_position_embeddings,
                    sliding_window: max_position_embeddings,
                    max_window_layers: num_hidden_layers,
                    tie_word_embeddings: false,
                    rope_theta,
                    rms_norm_eps,
                    use_sliding_window: false,
                    hidden_act: Activation::Silu,
                };
                Code::Qwen2(qwen2::ModelForCausalLM::new(&config, weights)?)
            }
            Kind::Gemma => {
                let config = gemma::Config {
                    attention_bias: false,
                    head_dim,
                    hidden_act: Some(Activation::GeluPytorchTanh),
                    hidden_activation: None,
                    hidden_size,
                    intermediate_size,
                    num_attention_heads,
                    num_hidden_layers,
                    num_key_value_heads,
                    rms_norm_eps,
                    rope_theta,
                    vocab_size,
                    max_position_embeddings,
                };
                Code::Gemma(gemma::Model::new(false, &config, weights)?)
            }
            Kind::Phi3 => {
                let config = phi3::Config {
                    vocab_size,
                    hidden_act: Activation::Silu,
                    hidden_size,
                    intermediate_size,
                    num_hidden_layers,
                    num_attention_heads,
                    num_key_value_heads,
                    rms_norm_eps,
                    rope_theta,
                    bos_token_id: None,
                    eos_token_id: None,
                    rope_scaling: None,
                    max_position_embeddings,
                    original_max_position_embeddings: None,
                    partial_rotary_factor: None,
                    tie_word_embeddings: false,
                };
                Code::Phi3(phi3::Model::new(&config, weights)?)
            }
            Kind::Qwen3 => {
                let config = qwen3::Config {
                    vocab_size,
                    hidden_size,
                    intermediate_size,
                    num_hidden_layers,
                    num_attention_heads,
                    head_dim,
                    attention_bias: false,
                    num_key_value_heads,
                    max_position_embeddings,
                    sliding_window: None,
                    max_window_layers: num_hidden_layers,
                    tie_word_embeddings: false,
                    rope_theta,
                    rms_norm_eps,
                    use_sliding_window: false,
                    hidden_act: Activation::Silu,
                };
                Code::Qwen3(qwen3::ModelForCausalLM::new(&config, weights)?)
            }
        };
        Ok(Model {
            code,
            inverse: self.inverse(head_dim),
        })
    }

    /// The inverse frequencies in f32, as the code of candle-transformers computes them: a Llama in f32 throughout.
    fn inverse(self, head_dim: usize) -> Vec<f32> {
        let powers = (0..head_dim).step_by(2);
        match self {
            Kind::Llama => powers
                .map(|i| 1_f32 / (BASE as f32).powf(i as f32 / head_dim as f32))
                .collect(),
            _ => powers
                .map(|i| 1_f32 / BASE.powf(i as f64 / head_dim as f64) as f32)
                .collect(),
        }
    }
}

impl Model {
    /// The logits of the last of some tokens, from a position on, in f64.
    ///
    /// # Errors
    ///
    /// Those of candle-transformers.
    pub fn forward(
        &mut self,
        tokens: &[u32],
        position: usize,
        rotation: Rotation,
    ) -> Result<Vec<f64>> {
        let ids = Tensor::new(tokens, &Device::Cpu)?.unsqueeze(0)?;
        let code = &mut self.code;
        let logits = rotation.run(&self.inverse, position, tokens.len(), || match code {
            Code::Llama(model, cache, _) => model.forward(&ids, position, cache),
            Code::Qwen2(model) => model.forward(&ids, position),
            Code::Gemma(model) => model.forward(&ids, position),
            Code::Phi3(model) => model.forward(&ids, position),
            Code::Qwen3(model) => model.forward(&ids, position),
        })?;
        logits.flatten_all()?.to_dtype(DType::F64)?.to_vec1()
    }

    /// Forgets all tokens.
    pub fn clear(&mut self) {
        match &mut self.code {
            Code::Llama(_, cache, empty) => cache.clone_from(empty),
            Code::Qwen2(model) => model.clear_kv_cache(),
            Code::Gemma(model) => model.clear_kv_cache(),
            Code::Phi3(model) => model.clear_kv_cache(),
            Code::Qwen3(model) => model.clear_kv_cache(),
        }
    }

    /// The logits of each of some tokens, one behind the other from a position on, with nothing before them.
    ///
    /// # Errors
    ///
    /// Those of candle-transformers.
    pub fn decode(
        &mut self,
        tokens: &[u32],
        position: usize,
        rotation: Rotation,
    ) -> Result<Vec<f64>> {
        self.clear();
        let mut logits = Vec::new();
        for (index, &token) in tokens.iter().enumerate() {
            logits.extend(self.forward(&[token], position + index, rotation)?);
        }
        Ok(logits)
    }
}
