//! What a configuration file leaves to the model's code: the pairing, the axes, and the defaults of missing keys.
//!
//! Read from Hugging Face transformers 5.23.0, each model's `modeling_*.py` (how `apply_rotary_pos_emb` pairs, how
//! `recomposition_frequencies` deals the axes out) and `configuration_*.py` (the defaults, which a saved configuration
//! omits). A model that is not here is refused by name; adding one is adding its name.

use crate::{Axes, Pairing};

/// How a model deals its axes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AxisScheme {
    Text,
    /// [`Axes::mrope`] with these sections, if the configuration gives none.
    Mrope([usize; 3]),
    /// [`Axes::mrope_interleaved`].
    MropeInterleaved([usize; 3]),
    /// [`Axes::mrope_alternating`].
    MropeAlternating([usize; 3]),
    Vision,
    Pixtral,
}

impl AxisScheme {
    pub(crate) fn axes(self, rotary_dim: usize, sections: Option<[usize; 3]>) -> Axes<'static> {
        match self {
            Self::Text => Axes::from(rotary_dim),
            Self::Mrope(default) => Axes::mrope(sections.unwrap_or(default)),
            Self::MropeInterleaved(default) => Axes::mrope_interleaved(sections.unwrap_or(default)),
            Self::MropeAlternating(default) => Axes::mrope_alternating(sections.unwrap_or(default)),
            Self::Vision => Axes::vision(rotary_dim),
            Self::Pixtral => Axes::pixtral(rotary_dim),
        }
    }
}

/// What one model type does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Model {
    /// The pairing of what goes in and of what comes out. `None` for Gemma 4's vision tower, which has two heads in
    /// one.
    pub(crate) pairing: Option<(Pairing, Pairing)>,
    pub(crate) axis_scheme: AxisScheme,
    /// `rope_theta` where the file has none, and the one of sliding-window layers where that is another.
    pub(crate) base: f64,
    pub(crate) local_base: Option<f64>,
    /// `head_dim` where the file has none and `hidden_size / num_attention_heads` is not meant.
    pub(crate) head_dim: Option<usize>,
    pub(crate) partial_rotary_factor: f64,
    /// GPT-J's `rotary_dim`.
    pub(crate) rotary_dim: Option<usize>,
    /// Multi-head latent attention: `qk_rope_head_dim` channels of each head rotate, 64 where the file does not say.
    pub(crate) mla: bool,
    /// `head_dim` of Gemma 4's full-attention layers where the file has no `global_head_dim`.
    pub(crate) global_head_dim: Option<usize>,
    /// The class has whole `rope_parameters` as its default, scaling included; a file without any is not plain RoPE.
    pub(crate) scaled: bool,
    /// The base frequencies count turns, see [`Scaling::Turns`](crate::Scaling::Turns).
    pub(crate) turns: bool,
}

const HALF: Model = Model {
    pairing: Some((Pairing::Half, Pairing::Half)),
    axis_scheme: AxisScheme::Text,
    base: 10_000.0,
    local_base: None,
    head_dim: None,
    partial_rotary_factor: 1.0,
    rotary_dim: None,
    mla: false,
    global_head_dim: None,
    scaled: false,
    turns: false,
};

/// `repeat_interleave(cos, 2)` and a `rotate_half` of `x[..., 0::2]`, or complex numbers.
const INTERLEAVED: Model = Model {
    pairing: Some((Pairing::Interleaved, Pairing::Interleaved)),
    ..HALF
};

/// `apply_rotary_pos_emb_interleave`: reads neighbours, writes halves.
const MLA: Model = Model {
    pairing: Some((Pairing::Interleaved, Pairing::Half)),
    mla: true,
    ..HALF
};

const VISION: Model = Model {
    axis_scheme: AxisScheme::Vision,
    ..HALF
};

impl Model {
    const fn base(self, base: f64) -> Self {
        Self { base, ..self }
    }

    const fn local_base(self, base: f64) -> Self {
        Self {
            local_base: Some(base),
            ..self
        }
    }

    const fn head_dim(self, dim: usize) -> Self {
        Self {
            head_dim: Some(dim),
            ..self
        }
    }

    const fn partial(self, partial_rotary_factor: f64) -> Self {
        Self {
            partial_rotary_factor,
            ..self
        }
    }

    const fn axis_scheme(self, axis_scheme: AxisScheme) -> Self {
        Self {
            axis_scheme,
            ..self
        }
    }

    const fn scaled(self) -> Self {
        Self {
            scaled: true,
            ..self
        }
    }
}

/// The model of that type, if it is known.
pub(crate) fn model(model_type: &str) -> Option<Model> {
    use AxisScheme::{Mrope, MropeAlternating, MropeInterleaved, Pixtral};
    Some(match model_type {
        "llama" | "mistral" | "ministral" | "qwen2" | "qwen2_moe" | "qwen3_moe" | "phi3"
        | "falcon" | "olmo" | "olmo2" | "olmoe" | "starcoder2" | "granite" | "granitemoe"
        | "granitemoeshared" | "granitemoehybrid" | "exaone4" | "dots1" | "arcee"
        | "hunyuan_v1_dense" | "hunyuan_v1_moe" | "diffllama" | "hyperclovax" => HALF,
        "mixtral" | "phimoe" | "minimax" | "lfm2" => HALF.base(1e6),
        "bitnet" | "mllama_text_model" => HALF.base(5e5),
        "smollm3" => HALF.base(2e6),
        "apertus" => HALF.base(1.2e7).scaled(),
        "gpt_oss" => HALF.base(1.5e5).head_dim(64).scaled(),
        "minimax_m2" => HALF.base(5e6).head_dim(128),
        "qwen3" | "seed_oss" => HALF.head_dim(128),
        "ministral3" => HALF.head_dim(128).scaled(),
        "gemma" | "gemma2" => HALF.head_dim(256),
        "gemma3_text" | "gemma3n_text" => HALF.base(1e6).local_base(1e4).head_dim(256),
        "gemma4_text" => Model {
            global_head_dim: Some(512),
            ..HALF.head_dim(256).scaled()
        },
        // The same base, but only full-attention layers are scaled.
        "olmo3" => HALF.base(5e5).local_base(5e5),
        "modernbert" => HALF.base(1.6e5).local_base(1e4),
        "phi" | "persimmon" | "nemotron" | "glm4_moe" => HALF.partial(0.5),
        "stablelm" | "gpt_neox" => HALF.partial(0.25),
        "qwen3_next" => HALF.partial(0.25).head_dim(256),

        "qwen2_vl" | "qwen2_vl_text" | "qwen2_5_vl" | "qwen2_5_vl_text" | "qwen2_5_omni_text" => {
            HALF.base(1e6).axis_scheme(Mrope([16, 24, 24]))
        }
        "qwen3_vl_text" => HALF
            .base(5e5)
            .head_dim(128)
            .axis_scheme(MropeInterleaved([24, 20, 20])),
        "qwen3_vl_moe_text" => HALF.base(5e5).axis_scheme(MropeInterleaved([24, 20, 20])),
        "qwen3_omni_moe_text" => HALF.base(1e6).axis_scheme(MropeInterleaved([24, 20, 20])),
        "qwen3_5_text" | "qwen3_5_moe_text" => HALF
            .head_dim(256)
            .partial(0.25)
            .axis_scheme(MropeInterleaved([11, 11, 10])),
        "glm4v_text" | "glm_ocr_text" => INTERLEAVED.axis_scheme(Mrope([8, 12, 12])),
        // Its pairs are half-split, unlike GLM-4V's.
        "glm4v_moe_text" => HALF.partial(0.5).axis_scheme(Mrope([8, 12, 12])),
        "ernie4_5_vl_moe_text" => INTERLEAVED
            .base(5e5)
            .axis_scheme(MropeAlternating([22, 22, 20])),

        "gptj" | "codegen" => Model {
            rotary_dim: Some(64),
            ..INTERLEAVED
        },
        "cohere" | "ernie4_5_moe" => INTERLEAVED.base(5e5),
        "cohere2" => INTERLEAVED,
        "llama4_text" | "ernie4_5" => INTERLEAVED.base(5e5).head_dim(128),
        "glm" | "glm4" => INTERLEAVED.head_dim(128).partial(0.5),
        "helium" => INTERLEAVED.base(1e5).head_dim(128),
        // Complex numbers: interleaved on both sides, unlike its successor.
        "deepseek_v2" => Model {
            mla: true,
            ..INTERLEAVED
        },

        "deepseek_v3" | "kimi_k2" | "deepseek_v32" | "glm4_moe_lite" | "youtu" => MLA,
        "mistral4" => MLA.scaled(),
        "longcat_flash" => MLA.base(1e7),

        "qwen2_vl_vision"
        | "qwen2_5_vl_vision"
        | "qwen3_vl_vision"
        | "qwen3_vl_moe_vision"
        | "qwen3_5_vision"
        | "qwen3_5_moe_vision"
        | "glm4v_vision"
        | "glm4v_moe_vision"
        | "glm_ocr_vision"
        | "ernie4_5_vl_moe_vision" => VISION,
        "dinov3_vit" => Model {
            turns: true,
            ..VISION.base(100.0)
        },
        "gemma4_vision" => Model {
            pairing: None,
            ..VISION.base(100.0).head_dim(64)
        },
        "llama4_vision_model" => INTERLEAVED.axis_scheme(AxisScheme::Vision),
        "pixtral" => HALF.axis_scheme(Pixtral),
        _ => return None,
    })
}
