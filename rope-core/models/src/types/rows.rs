//! The model types of transformers 5.24.0 that rotate, one row each, in alphabetical order: the behavior of their
//! classes, derived from `configuration_*.py` and `modeling_*.py` of the type, and tested by running that code.
//!
//! A row is `"model_type" = BASE { differences };`. `row.rs` documents the fields, their values and the bases. A type
//! of another project that transformers reads by its own class has the row of that class. Some types are not
//! transformers': their files name code beside them (`auto_map`), which their rows describe (`others::OWN_CODE`).
//! `tests/golden/published/README.md` lists the sources of that code. Classes of diffusers 0.42.1 have the name that
//! their files have under `_class_name`; `tests/golden/diffusers_types.py` runs them.
//!
//! # Surprising types
//!
//! `minimax` and `minimax_m3_vl_text` do not read `rotary_dim`, which `minimax_m2` obeys; the intent of the weights is
//! unknown. Indexers of sparse attention may pair otherwise than the attention; they are not included. `llama4`,
//! `ministral3` and `mistral4` also scale queries by position, `muse_glimmer_text` and `muse_spark_text` multiply them
//! by a number after the norm, and `timesfm2_5` by learned factors. `deepseek_v4` rounds r for queries, and `zaya`
//! divides by a norm with a lower bound. Llama 4's vision tower counts rows and columns from 1, and its axis 0 is the
//! column. `xverse` has code of several versions, some of which change the base beyond the file's context: the row is
//! the rotation within it. A later version of `internlm` does so too, for files with `rotary`. `telechat` requires
//! `base_seqlen`: the code of its first models has other constants in its place, and their files are alike.

use super::columns::{columns, place};
use super::row::LayerType::*;
use super::row::LayerTypes::Rules;
use super::row::When::*;
use super::row::*;

/// The sliding-window and the full-attention layers of Gemma 4.
const GEMMA4: ByType = [
    (sliding_attention, Some(theta(10_000.0))),
    (full_attention, Some(proportional(1_000_000.0, 0.25))),
];

/// The scaling of gpt-oss.
const GPT_OSS: Defaults = Defaults {
    theta: None,
    partial: None,
    scaling: Scaled::Yarn {
        factor: 32.0,
        original: 4096,
        truncate: false,
        mscale: false,
        attention_factor: None,
    },
};

macro_rules! rows {
    ($($name:literal = $base:ident $({ $($field:ident: $value:expr),+ $(,)? })?;)+) => {
        const NAMES: &str = concat!($($name, " "),+);
        pub(super) static BASES: &[BaseRow] = &[$(BaseRow::$base),+];
        pub(super) const NAMED: &[Named] = &[$(Named { $($($field: Some($value),)+)? ..Named::NOTHING }),+];
    };
}

/// Iterates over the model types, in the order of their rows.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    NAMES.split_ascii_whitespace()
}

/// Returns the model type of that name and its row.
pub(super) fn named(name: &str) -> Option<(&'static str, Row)> {
    let (number, name) = names().enumerate().find(|(_, known)| *known == name)?;
    Some((name, Row::at(number)))
}

fields!(columns);

rows! {
    "BriaTransformer2DModel" = INTERLEAVED {
        head: Head::KeyOr(Key::attention_head_dim, 128),
        depth: Name::Sum(Key::num_layers, Key::num_single_layers),
        context: Name::Absent,
        base: Base::Or(10_000),
        parameters: Form::ThetaOnly,
        rope_types: RopeTypes::Default,
        axes: AxesOf::Listed(Key::axes_dims_rope, [16, 56, 56, 0]),
        ignores: Some(Key::time_theta),
        norm: Some(QkNorm { eps_key: Eps::Fixed, ..norm(Formula::Olmo2, 1e-6) }),
    };
    "ChromaTransformer2DModel" = INTERLEAVED {
        head: Head::KeyOr(Key::attention_head_dim, 128),
        depth: Name::Sum(Key::num_layers, Key::num_single_layers),
        context: Name::Absent,
        base: Base::Fixed(10_000),
        parameters: Form::ThetaOnly,
        rope_types: RopeTypes::Default,
        axes: AxesOf::Listed(Key::axes_dims_rope, [16, 56, 56, 0]),
        norm: Some(QkNorm { eps_key: Eps::Fixed, ..norm(Formula::Olmo2, 1e-6) }),
    };
    "Flux2Transformer2DModel" = INTERLEAVED {
        head: Head::KeyOr(Key::attention_head_dim, 128),
        depth: Name::Sum(Key::num_layers, Key::num_single_layers),
        context: Name::Absent,
        base: Base::Or(2000),
        parameters: Form::ThetaOnly,
        rope_types: RopeTypes::Default,
        axes: AxesOf::Listed(Key::axes_dims_rope, [32, 32, 32, 32]),
        norm: Some(QkNorm { eps_key: Eps::Key(Key::eps), ..norm(Formula::Olmo2, 1e-6) }),
    };
    "FluxTransformer2DModel" = INTERLEAVED {
        head: Head::KeyOr(Key::attention_head_dim, 128),
        depth: Name::Sum(Key::num_layers, Key::num_single_layers),
        context: Name::Absent,
        base: Base::Fixed(10_000),
        parameters: Form::ThetaOnly,
        rope_types: RopeTypes::Default,
        axes: AxesOf::Listed(Key::axes_dims_rope, [16, 56, 56, 0]),
        norm: Some(QkNorm { eps_key: Eps::Fixed, ..norm(Formula::Olmo2, 1e-6) }),
    };
    "HunyuanImageTransformer2DModel" = INTERLEAVED {
        head: Head::KeyOr(Key::attention_head_dim, 128),
        depth: Name::Sum(Key::num_layers, Key::num_single_layers),
        context: Name::Absent,
        base: Base::Or(256),
        parameters: Form::ThetaOnly,
        rope_types: RopeTypes::Default,
        axes: AxesOf::Listed(Key::rope_axes_dim, [64, 64, 0, 0]),
        norm: Some(QkNorm { eps_key: Eps::Fixed, ..norm(Formula::Llama, 1e-6) }),
    };
    "HunyuanVideo15Transformer3DModel" = INTERLEAVED {
        head: Head::KeyOr(Key::attention_head_dim, 128),
        depth: Name::Only(Key::num_layers),
        context: Name::Absent,
        base: Base::Or(256),
        parameters: Form::ThetaOnly,
        rope_types: RopeTypes::Default,
        axes: AxesOf::Listed(Key::rope_axes_dim, [16, 56, 56, 0]),
        norm: Some(QkNorm { eps_key: Eps::Fixed, ..norm(Formula::Llama, 1e-6) }),
    };
    "HunyuanVideoTransformer3DModel" = INTERLEAVED {
        head: Head::KeyOr(Key::attention_head_dim, 128),
        depth: Name::Sum(Key::num_layers, Key::num_single_layers),
        context: Name::Absent,
        base: Base::Or(256),
        parameters: Form::ThetaOnly,
        rope_types: RopeTypes::Default,
        axes: AxesOf::Listed(Key::rope_axes_dim, [16, 56, 56, 0]),
        norm: Some(QkNorm { eps_key: Eps::Fixed, ..norm(Formula::Llama, 1e-6) }),
    };
    "LongCatImageTransformer2DModel" = INTERLEAVED {
        head: Head::KeyOr(Key::attention_head_dim, 128),
        depth: Name::Sum(Key::num_layers, Key::num_single_layers),
        context: Name::Absent,
        base: Base::Fixed(10_000),
        parameters: Form::ThetaOnly,
        rope_types: RopeTypes::Default,
        axes: AxesOf::Listed(Key::axes_dims_rope, [16, 56, 56, 0]),
        norm: Some(QkNorm { eps_key: Eps::Fixed, ..norm(Formula::Olmo2, 1e-6) }),
    };
    "Lumina2Transformer2DModel" = INTERLEAVED {
        head: Head::Quotient,
        depth: Name::Only(Key::num_layers),
        context: Name::Absent,
        base: Base::Fixed(10_000),
        parameters: Form::ThetaOnly,
        rope_types: RopeTypes::Default,
        axes: AxesOf::Listed(Key::axes_dim_rope, [32, 32, 32, 0]),
        norm: Some(QkNorm { eps_key: Eps::Fixed, ..norm(Formula::Llama, 1e-5) }),
    };
    "OvisImageTransformer2DModel" = INTERLEAVED {
        head: Head::KeyOr(Key::attention_head_dim, 128),
        depth: Name::Sum(Key::num_layers, Key::num_single_layers),
        context: Name::Absent,
        base: Base::Fixed(10_000),
        parameters: Form::ThetaOnly,
        rope_types: RopeTypes::Default,
        axes: AxesOf::Listed(Key::axes_dims_rope, [16, 56, 56, 0]),
        norm: Some(QkNorm { eps_key: Eps::Fixed, ..norm(Formula::Olmo2, 1e-6) }),
    };
    "SkyReelsV2Transformer3DModel" = INTERLEAVED {
        head: Head::KeyOr(Key::attention_head_dim, 128),
        depth: Name::Only(Key::num_layers),
        context: Name::Absent,
        base: Base::Fixed(10_000),
        parameters: Form::ThetaOnly,
        rope_types: RopeTypes::Default,
        axes: AxesOf::Wan,
        ignores: Some(Key::rope_max_seq_len),
        norm: Some(QkNorm {
            eps_key: Eps::Key(Key::eps),
            reach: Reach::Row,
            ..norm(Formula::Olmo2, 1e-6)
        }),
    };
    "WanTransformer3DModel" = INTERLEAVED {
        head: Head::KeyOr(Key::attention_head_dim, 128),
        depth: Name::Only(Key::num_layers),
        context: Name::Absent,
        base: Base::Fixed(10_000),
        parameters: Form::ThetaOnly,
        rope_types: RopeTypes::Default,
        axes: AxesOf::Wan,
        ignores: Some(Key::rope_max_seq_len),
        norm: Some(QkNorm {
            eps_key: Eps::Key(Key::eps),
            reach: Reach::Row,
            ..norm(Formula::Olmo2, 1e-6)
        }),
    };
    "WanVACETransformer3DModel" = INTERLEAVED {
        head: Head::KeyOr(Key::attention_head_dim, 128),
        depth: Name::Only(Key::num_layers),
        context: Name::Absent,
        base: Base::Fixed(10_000),
        parameters: Form::ThetaOnly,
        rope_types: RopeTypes::Default,
        axes: AxesOf::Wan,
        ignores: Some(Key::rope_max_seq_len),
        norm: Some(QkNorm {
            eps_key: Eps::Key(Key::eps),
            reach: Reach::Row,
            ..norm(Formula::Olmo2, 1e-6)
        }),
    };
    "ZImageTransformer2DModel" = INTERLEAVED {
        width: Name::Only(Key::dim),
        heads: Name::Only(Key::n_heads),
        head: Head::Quotient,
        depth: Name::Only(Key::n_layers),
        context: Name::Absent,
        base: Base::Or(256),
        parameters: Form::ThetaOnly,
        rope_types: RopeTypes::Default,
        axes: AxesOf::Listed(Key::axes_dims, [32, 48, 48, 0]),
        norm: Some(QkNorm {
            eps_key: Eps::Fixed,
            switch: Some((Key::qk_norm, true)),
            ..norm(Formula::Llama, 1e-5)
        }),
    };
    "afmoe" = HALF {
        head: Head::Or(128),
        layers: Rules(&[
            (full_attention, EveryBy(Key::global_attn_every_n_layers, 4)),
            (sliding_attention, Always),
        ]),
        rotates: Rotates::Sliding,
        norm: Some(norm(Formula::Olmo2, 1e-5)),
    };
    "apertus" = HALF {
        base: Base::Or(12_000_000),
        parameters: Form::FlatOr(&Defaults {
            theta: Some(12_000_000.0), partial: None,
            scaling: Scaled::Llama3 { factor: 8.0, low: 1.0, high: 4.0, original: 8192 },
        }),
        norm: Some(norm(Formula::Llama, 1e-5)),
    };
    "apertus1p5_text" = HALF {
        base: Base::Or(12_000_000),
        parameters: Form::FlatOr(&Defaults {
            theta: Some(12_000_000.0), partial: None,
            scaling: Scaled::Llama3 { factor: 8.0, low: 1.0, high: 4.0, original: 8192 },
        }),
        norm: Some(norm(Formula::Llama, 1e-5)),
    };
    "arcee" = HALF;
    "aria_text" = HALF;
    "axk1" = DEEPSEEK { pairs: Pairs::InterleavedToHalfOrHalf };
    "axk2" = DEEPSEEK { head: latent(64, 32), layers: Rules(&[(indexed_attention, Always)]) };
    "baichuan" = HALF {
        head: Head::Quotient,
        base: Base::Fixed(10_000),
        parameters: Form::ThetaOnly,
        rope_types: RopeTypes::Default,
        condition: Condition::Baichuan,
    };
    "bailing_hybrid" = DEEPSEEK {
        context: Name::Or(Key::model_max_length),
        base: Base::Or(6_000_000),
        layers: Rules(&[(full_attention, EveryBy(Key::layer_group_size, 6)), (linear_attention, Always)]),
    };
    "bailing_moe" = HALF { rope_types: RopeTypes::Bailing };
    "bailing_moe_v2" = PARTIAL {
        part: Part::Factor(Key::partial_rotary_factor, 0.5),
        norm: Some(QkNorm { switch: Some((Key::use_qk_norm, false)), ..norm(Formula::Llama, 1e-5) }),
    };
    "bamba" = PARTIAL {
        part: Part::Inside(0.5),
        layers: LayerTypes::Listed(Key::attn_layer_indices, linear_attention, linear_attention),
    };
    "beam" = HALF {
        head: Head::Or(128),
        base: Base::Inside,
        parameters: Form::ByLayerTypeOr(&[(sliding_attention, Some(theta(10_000.0))), (full_attention, None)]),
        layers: Rules(&[(full_attention, Every(6)), (full_attention, Last), (sliding_attention, Always)]),
        rotates: Rotates::Parametrized,
        norm: Some(norm(Formula::Olmo2, 1e-6)),
    };
    "bitnet" = HALF { base: Base::Or(500_000) };
    "blt_global_transformer" = INTERLEAVED { head: Head::Quotient, base: Base::Or(500_000) };
    "blt_local_decoder" = INTERLEAVED { head: Head::Quotient, base: Base::Or(500_000) };
    "blt_local_encoder" = INTERLEAVED { head: Head::Quotient, base: Base::Or(500_000) };
    "blt_patcher" = INTERLEAVED { head: Head::Quotient };
    "chameleon" = HALF {
        head: Head::Quotient,
        norm: Some(QkNorm { eps_key: Eps::Fixed, ..norm(Formula::Chameleon, 1e-5) }),
    };
    "chatglm" = INTERLEAVED {
        depth: Name::Or(Key::num_layers),
        context: Name::Absent,
        head: Head::KeyOr(Key::kv_channels, 128),
        part: Part::Inside(0.5),
        obeys: true,
        window: Window::Part,
        base: Base::Times(Key::rope_ratio, 10_000),
        parameters: Form::ThetaOnly,
        rope_types: RopeTypes::Default,
    };
    "clvp_encoder" = HALF {
        context: Name::Absent,
        head: Head::Quotient,
        part: Part::Clvp,
        base: Base::Fixed(10_000),
        values: Values::Rotated,
        parameters: Form::ThetaOnly,
        rope_types: RopeTypes::Default,
        condition: Condition::UnlessFalse(Key::use_rotary_embedding),
    };
    "codegen" = INTERLEAVED {
        width: Name::Or(Key::n_embd),
        heads: Name::Or(Key::n_head),
        depth: Name::Or(Key::n_layer),
        context: Name::Absent,
        head: Head::Quotient,
        part: Part::Channels(64),
        window: Window::Part,
        base: Base::InsideOr(10_000),
        parameters: Form::ThetaOnly,
        rope_types: RopeTypes::Default,
    };
    "cohere" = INTERLEAVED {
        base: Base::Or(500_000),
        norm: Some(QkNorm {
            eps_key: Eps::Key(Key::layer_norm_eps),
            switch: Some((Key::use_qk_norm, false)),
            ..norm(Formula::Cohere, 1e-5)
        }),
    };
    "cohere2" = INTERLEAVED {
        layers: Rules(&[
            (full_attention, EveryBy(Key::sliding_window_pattern, 4)),
            (sliding_attention, Always),
        ]),
        rotates: Rotates::Sliding,
    };
    "cohere2_moe" = INTERLEAVED {
        head: Head::Or(128),
        part: Part::Inside(1.0),
        parameters: Form::New,
        layers: LayerTypes::DensePrefix,
        rotates: Rotates::SlidingOrDense,
    };
    "cohere_compass_text" = HALF {
        base: Base::Inside,
        parameters: Form::ByLayerType,
        axes: AxesOf::MropeInterleaved([24, 20, 20]),
        layers: Rules(&[(full_attention, Always)]),
        rotates: Rotates::Parametrized,
    };
    "cohere_compass_vision" = QWEN_VISION;
    "cosmos3_edge_text" = HALF {
        head: Head::Or(128),
        base: Base::Or(100_000_000),
        parameters: Form::FlatOr(&theta(100_000_000.0)),
        rope_types: RopeTypes::Default,
        axes: AxesOf::MropeInterleavedWhole([24, 20, 20]),
    };
    "csm" = HALF { base: Base::Or(500_000) };
    "csm_depth_decoder_model" = HALF { base: Base::Or(500_000) };
    "cwm" = HALF {
        head: Head::Or(128),
        base: Base::Or(1_000_000),
        parameters: Form::FlatOr(&Defaults {
            theta: Some(1_000_000.0), partial: None,
            scaling: Scaled::Llama3 { factor: 16.0, low: 1.0, high: 4.0, original: 8192 },
        }),
        layers: Rules(&[(full_attention, Modulo(4, 0)), (sliding_attention, Always)]),
    };
    "dbrx" = HALF {
        width: Name::Or(Key::d_model),
        heads: Name::Or(Key::n_heads),
        depth: Name::Or(Key::n_layers),
        context: Name::Or(Key::max_seq_len),
        head: Head::Quotient,
    };
    "deepseek" = HALF { head: Head::Quotient, rope_types: RopeTypes::Older };
    "deepseek_ocr2_encoder" = HALF;
    "deepseek_ocr2_text" = HALF { head: Head::Quotient };
    "deepseek_v2" = DEEPSEEK { pairs: Pairs::Interleaved };
    "deepseek_v3" = DEEPSEEK { pairs: Pairs::InterleavedToHalfOrHalf };
    "deepseek_v32" = DEEPSEEK { layers: Rules(&[(indexed_attention, Always)]) };
    "deepseek_v4" = INTERLEAVED {
        head: Head::Or(512),
        part: Part::Count(Key::qk_rope_head_dim, 0.125),
        obeys: true,
        window: Window::End,
        base: Base::InsideOr(10_000),
        parameters: Form::Compressed,
        layers: Rules(&[
            (heavily_compressed_attention, First(2)),
            (heavily_compressed_attention, Modulo(2, 0)),
            (compressed_sparse_attention, Always),
        ]),
        norm: Some(norm(Formula::Other, 0.0)),
    };
    "deepseek_vl_v2_language" = DEEPSEEK;
    "dia_decoder" = HALF { head: Head::Or(128) };
    "dia_encoder" = HALF { head: Head::Or(128) };
    "diffllama" = HALF;
    "diffusion_gemma_text" = HALF {
        head: Head::Global(256, 512),
        obeys: true,
        base: Base::Inside,
        parameters: Form::ByLayerTypeOr(&GEMMA4),
        layers: Rules(&[(full_attention, Every(6)), (full_attention, Last), (sliding_attention, Always)]),
        norm: Some(QkNorm { values: true, ..norm(Formula::Gemma3n, 1e-6) }),
    };
    "dinov3_vit" = VISION {
        base: Base::Or(100),
        parameters: Form::ThetaOnly,
        rope_types: RopeTypes::Default,
        turns: true,
    };
    "doge" = HALF { norm: Some(norm(Formula::Llama, 1e-6)) };
    "dots1" = HALF { norm: Some(norm(Formula::Llama, 1e-6)) };
    "dots3_note_audio_encoder" = PARTIAL {
        head: Head::Quotient,
        part: Part::Factor(Key::partial_rotary_factor, 0.5),
    };
    "dots3_note_text" = DEEPSEEK {
        head: Head::Latent { still: 128, rotating: 64, quirk: Latent::OfWindows },
        base: Base::Or(80_000_000),
        parameters: Form::OfWindows(Base::KeyOr(Key::swa_rope_theta, 50_000)),
        softmax: false,
        layers: LayerTypes::SparseOrWindow,
        norm: Some(norm(Formula::Other, 0.0)),
    };
    "dots3_note_vision_encoder" = VISION {
        width: Name::Or(Key::embed_dim),
        heads: Name::Or(Key::num_heads),
        norm: Some(norm(Formula::Llama, 1e-5)),
    };
    "edgetam_video" = VISION { pairs: Pairs::Interleaved, head: Head::Memory };
    "embedding_gemma2_text" = HALF {
        head: Head::Global(256, 512),
        base: Base::Inside,
        parameters: Form::ByLayerTypeOr(&[
            (sliding_attention, Some(theta(10_000.0))),
            (full_attention, Some(theta(1_000_000.0))),
        ]),
        layers: Rules(&[
            (full_attention, EveryBy(Key::sliding_window_pattern, 6)),
            (full_attention, Last),
            (sliding_attention, Always),
        ]),
        norm: Some(QkNorm { values: true, ..norm(Formula::Gemma3n, 1e-6) }),
    };
    "emu3_text_model" = HALF { base: Base::Or(1_000_000) };
    "eomt_dinov3" = VISION { base: Base::Or(100), rope_types: RopeTypes::Default, turns: true };
    "ernie4_5" = INTERLEAVED { head: Head::Or(128), base: Base::Or(500_000) };
    "ernie4_5_moe" = INTERLEAVED { base: Base::Or(500_000) };
    "ernie4_5_vl_moe_text" = INTERLEAVED {
        base: Base::Or(500_000),
        rope_types: RopeTypes::Default,
        axes: AxesOf::MropeAlternating([22, 22, 20]),
    };
    "ernie4_5_vl_moe_vision" = QWEN_VISION;
    "esm" = HALF {
        head: Head::Quotient,
        parameters: Form::ThetaOnly,
        condition: Condition::If(Key::position_embedding_type, Word::rotary),
    };
    "esmc" = HALF { norm: Some(QkNorm { eps_key: Eps::Fixed, reach: Reach::Row, ..norm(Formula::StableLm, 1e-5) }) };
    "eurobert" = HALF;
    "evolla" = HALF { base: Base::Or(500_000) };
    "evolla_protein_encoder" = HALF {
        head: Head::QuotientApart,
        parameters: Form::ThetaOnly,
        condition: Condition::IfOrOmitted(Key::position_embedding_type, Word::rotary),
    };
    "exaone" = HALF { depth: Name::Or(Key::num_layers), base: Base::Or(500_000) };
    "exaone4" = HALF {
        layers: Rules(&[
            (full_attention, EveryBy(Key::sliding_window_pattern, 4)),
            (sliding_attention, Always),
        ]),
        rotates: Rotates::SlidingOrAll,
        norm: Some(norm(Formula::Llama, 1e-5)),
    };
    "exaone4_5_vision" = QWEN_VISION;
    "exaone_moe" = HALF {
        layers: Rules(&[
            (full_attention, EveryBy(Key::sliding_window_pattern, 4)),
            (sliding_attention, Always),
        ]),
        rotates: Rotates::SlidingOrAll,
        norm: Some(norm(Formula::Llama, 1e-5)),
    };
    "falcon" = HALF { head: Head::Quotient, condition: Condition::Unless(Key::alibi) };
    "falcon_h1" = HALF { layers: Rules(&[(hybrid, Always)]) };
    "flex_olmo" = HALF {
        base: Base::Or(500_000),
        norm: Some(QkNorm { reach: Reach::Row, ..norm(Formula::Olmo2, 1e-6) }),
    };
    "flint" = HALF {
        head: Head::Or(128),
        layers: Rules(&[
            (full_attention, First(2)),
            (full_attention, Modulo(4, 1)),
            (full_attention, Last),
            (sliding_attention, Always),
        ]),
        rotates: Rotates::Sliding,
        norm: Some(norm(Formula::Olmo2, 1e-6)),
    };
    "flux" = INTERLEAVED {
        head: Head::KeyOr(Key::attention_head_dim, 128),
        depth: Name::Sum(Key::num_layers, Key::num_single_layers),
        context: Name::Absent,
        base: Base::Fixed(10_000),
        parameters: Form::ThetaOnly,
        rope_types: RopeTypes::Default,
        axes: AxesOf::Flux,
        norm: Some(norm(Formula::Other, 0.0)),
    };
    "gemma" = HALF { head: Head::Or(256) };
    "gemma2" = HALF {
        head: Head::Or(256),
        layers: Rules(&[(sliding_attention, Modulo(2, 0)), (full_attention, Always)]),
    };
    "gemma3_text" = HALF {
        head: Head::Or(256),
        base: Base::Or(1_000_000),
        parameters: Form::Older(Base::KeyOr(Key::rope_local_base_freq, 10_000)),
        layers: Rules(&[
            (full_attention, EveryBy(Key::sliding_window_pattern, 6)),
            (sliding_attention, Always),
        ]),
        norm: Some(norm(Formula::Gemma, 1e-6)),
    };
    "gemma3n_text" = HALF {
        head: Head::Or(256),
        base: Base::Or(1_000_000),
        parameters: Form::Older(Base::KeyOr(Key::rope_local_base_freq, 10_000)),
        layers: Rules(&[(full_attention, Every(5)), (sliding_attention, Always)]),
        norm: Some(QkNorm { values: true, ..norm(Formula::Gemma3n, 1e-6) }),
    };
    "gemma4_text" = HALF {
        head: Head::Global(256, 512),
        base: Base::Inside,
        parameters: Form::ByLayerTypeOr(&GEMMA4),
        layers: Rules(&[(full_attention, Every(6)), (full_attention, Last), (sliding_attention, Always)]),
        norm: Some(QkNorm { values: true, ..norm(Formula::Gemma3n, 1e-6) }),
    };
    "gemma4_unified_text" = HALF {
        head: Head::Global(256, 512),
        base: Base::Inside,
        parameters: Form::ByLayerTypeOr(&GEMMA4),
        layers: Rules(&[(full_attention, Every(6)), (full_attention, Last), (sliding_attention, Always)]),
        norm: Some(QkNorm { values: true, ..norm(Formula::Gemma3n, 1e-6) }),
    };
    "gemma4_vision" = VISION {
        head: Head::Or(64),
        window: Window::Halves,
        base: Base::Or(100),
        norm: Some(QkNorm { values: true, ..norm(Formula::Gemma3n, 1e-6) }),
    };
    "glm" = PARTIAL {
        pairs: Pairs::Interleaved,
        head: Head::Or(128),
        part: Part::Factor(Key::partial_rotary_factor, 0.5),
    };
    "glm4" = PARTIAL {
        pairs: Pairs::Interleaved,
        head: Head::Or(128),
        part: Part::Factor(Key::partial_rotary_factor, 0.5),
    };
    "glm4_moe" = PARTIAL {
        part: Part::Factor(Key::partial_rotary_factor, 0.5),
        norm: Some(QkNorm { switch: Some((Key::use_qk_norm, false)), ..norm(Formula::Llama, 1e-5) }),
    };
    "glm4_moe_lite" = DEEPSEEK {
        pairs: Pairs::InterleavedToHalfOrHalf,
        head: Head::Latent { still: 192, rotating: 64, quirk: Latent::HeadDimRotates },
        obeys: true,
    };
    "glm4v_moe_text" = PARTIAL {
        part: Part::Factor(Key::partial_rotary_factor, 0.5),
        axes: AxesOf::Mrope([8, 12, 12]),
    };
    "glm4v_moe_vision" = QWEN_VISION;
    "glm4v_text" = PARTIAL { pairs: Pairs::Interleaved, head: Head::Quotient, axes: AxesOf::Mrope([8, 12, 12]) };
    "glm4v_vision" = QWEN_VISION;
    "glm5_next_vision" = QWEN_VISION { norm: Some(norm(Formula::Llama, 1e-5)) };
    "glm_image_text" = PARTIAL { axes: AxesOf::Mrope([8, 12, 12]) };
    "glm_moe_dsa" = DEEPSEEK { head: latent(192, 64), layers: Rules(&[(indexed_attention, Always)]) };
    "glm_ocr_text" = PARTIAL { pairs: Pairs::Interleaved, axes: AxesOf::Mrope([8, 12, 12]) };
    "glm_ocr_vision" = QWEN_VISION { norm: Some(norm(Formula::Llama, 1e-5)) };
    "glmasr_encoder" = PARTIAL { part: Part::Factor(Key::partial_rotary_factor, 0.5) };
    "gpt_neox" = PARTIAL {
        head: Head::QuotientApart,
        part: Part::Factor(Key::rotary_pct, 0.25),
        base: Base::KeyOr(Key::rotary_emb_base, 10_000),
    };
    "gpt_neox_japanese" = PARTIAL {
        head: Head::Quotient,
        part: Part::Factor(Key::rotary_pct, 1.0),
        window: Window::ExactPart,
        base: Base::KeyOr(Key::rotary_emb_base, 10_000),
    };
    "gpt_oss" = HALF {
        head: Head::Or(64),
        base: Base::Or(150_000),
        parameters: Form::FlatOr(&GPT_OSS),
        layers: Rules(&[(sliding_attention, Modulo(2, 0)), (full_attention, Always)]),
    };
    "gptj" = INTERLEAVED {
        width: Name::Or(Key::n_embd),
        heads: Name::Or(Key::n_head),
        depth: Name::Or(Key::n_layer),
        context: Name::Absent,
        head: Head::Quotient,
        part: Part::Channels(64),
        window: Window::Part,
        base: Base::InsideOr(10_000),
        parameters: Form::ThetaOnly,
        rope_types: RopeTypes::Default,
    };
    "gradium_phonon_tts" = HALF;
    "granite" = HALF;
    "granite4_vision_text" = HALF;
    "granite_docling_text" = HALF;
    "granite_swa" = HALF {
        layers: Rules(&[(full_attention, Modulo(4, 0)), (sliding_attention, Always)]),
        rotates: Rotates::ByBase(Key::layer_rope_theta),
    };
    "granitemoe" = HALF;
    "granitemoe_swa" = HALF {
        layers: Rules(&[(full_attention, Modulo(4, 0)), (sliding_attention, Always)]),
        rotates: Rotates::ByBase(Key::layer_rope_theta),
    };
    "granitemoehybrid" = HALF {
        layers: Rules(&[(linear_attention, Always)]),
        condition: Condition::If(Key::position_embedding_type, Word::rope),
    };
    "granitemoeshared" = HALF;
    "gte" = HALF { base: Base::Or(160_000) };
    "helium" = INTERLEAVED { head: Head::Quotient, base: Base::Or(100_000) };
    "higgs_audio_v2" = HALF {
        head: Head::Or(128),
        parameters: Form::FlatOr(&Defaults {
            theta: Some(500_000.0), partial: None,
            scaling: Scaled::Llama3 { factor: 32.0, low: 0.125, high: 0.5, original: 1024 },
        }),
    };
    "hrm_text" = HALF { head: Head::Or(128) };
    "hunyuan" = HALF {
        head: Head::Quotient,
        rope_types: RopeTypes::AlphaAlone,
        norm: Some(QkNorm {
            after: true,
            switch: Some((Key::use_qk_norm, false)),
            ..norm(Formula::Llama, 1e-5)
        }),
    };
    "hunyuan_v1_dense" = HALF {
        head: Head::Given,
        rope_types: RopeTypes::Alpha,
        norm: Some(QkNorm { after: true, ..norm(Formula::Llama, 1e-5) }),
    };
    "hunyuan_v1_moe" = HALF {
        head: Head::Given,
        rope_types: RopeTypes::Alpha,
        norm: Some(QkNorm { after: true, ..norm(Formula::Llama, 1e-5) }),
    };
    "hunyuan_vl_text" = HALF {
        head: Head::Given,
        rope_types: RopeTypes::Alpha,
        axes: AxesOf::ChannelSections,
        norm: Some(QkNorm { after: true, ..norm(Formula::Llama, 1e-5) }),
    };
    "hy_v3" = HALF {
        head: Head::Or(128),
        base: Base::Or(11_158_840),
        norm: Some(norm(Formula::Llama, 1e-5)),
    };
    "hy_v4" = HALF { head: latent(192, 64), softmax: true, layers: Rules(&[(indexed_attention, Always)]) };
    "hy_v4_vl_text" = DEEPSEEK {
        pairs: Pairs::Interleaved,
        head: latent(192, 64),
        axes: AxesOf::MropeInterleavedWhole([12, 10, 10]),
        layers: Rules(&[(indexed_attention, Always)]),
    };
    "hyperclovax" = HALF;
    "idefics" = HALF { head: Head::Quotient };
    "inkling2_vision" = VISION { pairs: Pairs::Interleaved, axes: AxesOf::ColumnsFirst };
    "internlm" = HALF {
        head: Head::Quotient,
        base: Base::InsideOr(10_000),
        parameters: Form::Rotary,
        rope_types: RopeTypes::Older,
    };
    "internlm2" = HALF { head: Head::Quotient, rope_types: RopeTypes::Older };
    "internlm3" = HALF { head: Head::Or(128) };
    "iquestcoder" = HALF { head: Head::Or(128) };
    "jais2" = HALF;
    "jetmoe" = HALF { head: Head::KeyOr(Key::kv_channels, 128) };
    "jina_embeddings_v3" = HALF { base: Base::Or(20_000) };
    "kimi_k2" = DEEPSEEK { pairs: Pairs::InterleavedToHalfOrHalf };
    "kimi_k25_vision" = VISION { axes: AxesOf::ColumnsAndRows };
    "kolibri1" = HALF {
        head: Head::Or(128),
        layers: Rules(&[(full_attention, Every(5)), (sliding_attention, Always)]),
        rotates: Rotates::SlidingOrAll,
        norm: Some(norm(Formula::Llama, 1e-6)),
    };
    "kyutai_speech_to_text" = HALF;
    "laguna" = PARTIAL {
        head: Head::Or(128),
        part: Part::Inside(1.0),
        base: Base::Inside,
        parameters: Form::ByLayerTypeOr(&[
            (full_attention, Some(partial(500_000.0, 0.5))),
            (sliding_attention, Some(partial(10_000.0, 1.0))),
        ]),
        layers: Rules(&[(full_attention, Always)]),
        norm: Some(norm(Formula::Llama, 1e-6)),
    };
    "lara_mini" = HALF {
        head: Head::Or(128),
        layers: Rules(&[
            (linear_attention, Modulo(5, 0)),
            (linear_attention, Modulo(5, 2)),
            (full_attention, Modulo(5, 3)),
            (sliding_attention, Always),
        ]),
        rotates: Rotates::Sliding,
        norm: Some(norm(Formula::Olmo2, 1e-6)),
    };
    "lasr_encoder" = HALF;
    "lfm2" = HALF {
        base: Base::Or(1_000_000),
        layers: LayerTypes::Listed(Key::full_attn_idxs, conv, full_attention),
        norm: Some(QkNorm { eps_key: Eps::Key(Key::norm_eps), ..norm(Formula::Llama, 1e-5) }),
    };
    "lfm2_moe" = HALF {
        base: Base::Or(1_000_000),
        layers: LayerTypes::Needed,
        norm: Some(QkNorm { eps_key: Eps::Key(Key::norm_eps), ..norm(Formula::Llama, 1e-5) }),
    };
    "lfm3" = HALF {
        head: Head::Or(128),
        base: Base::Or(1_000_000),
        parameters: Form::ByLayerTypeOr(&[
            (sliding_attention, Some(theta(10_000.0))),
            (full_attention, Some(proportional(1_000_000.0, 0.5))),
        ]),
        layers: Rules(&[
            (full_attention, Modulo(4, 2)),
            (conv, First(1)),
            (sliding_attention, Modulo(4, 0)),
            (conv, Always),
        ]),
        norm: Some(QkNorm { eps_key: Eps::KeyOr(Key::norm_eps, Key::rms_norm_eps), ..norm(Formula::Llama, 1e-5) }),
    };
    "lfm3_vl_vision" = VISION {
        base: Base::Or(1_000_000),
        layers: Rules(&[(conv, First(2)), (conv, Modulo(2, 1)), (full_attention, Always)]),
        norm: Some(QkNorm { eps_key: Eps::Key(Key::norm_eps), ..norm(Formula::Llama, 1e-5) }),
    };
    "llama" = HALF;
    "llama4_text" = INTERLEAVED {
        head: Head::Or(128),
        base: Base::Or(500_000),
        layers: LayerTypes::Chunked,
        rotates: Rotates::ExceptEvery(4),
        norm: Some(QkNorm {
            after: true,
            switch: Some((Key::use_qk_norm, true)),
            layers: NormedLayers::Rotating,
            ..norm(Formula::Llama4, 1e-5)
        }),
    };
    "llama4_vision_model" = VISION { pairs: Pairs::Interleaved };
    "longcat_flash" = DEEPSEEK {
        depth: Name::Twice(Key::num_layers),
        head: Head::Latent { still: 128, rotating: 64, quirk: Latent::HeadDimAlike },
        base: Base::Or(10_000_000),
    };
    "mellum" = HALF {
        head: Head::Or(128),
        obeys: true,
        base: Base::Inside,
        parameters: Form::ByLayerTypeOr(&[
            (full_attention, Some(theta(500_000.0))),
            (sliding_attention, Some(theta(10_000.0))),
        ]),
        layers: Rules(&[(full_attention, Always)]),
        norm: Some(norm(Formula::Llama, 1e-6)),
    };
    "mimi" = HALF;
    "mimi_decoder" = HALF;
    "mimi_encoder" = HALF;
    "mimo_v2" = PARTIAL {
        head: Head::OfWindows(Key::swa_head_dim),
        parameters: Form::OlderAllScaled(Base::KeyOrMain(Key::swa_rope_theta)),
        layers: LayerTypes::Flags(Key::hybrid_layer_pattern, sliding_attention, full_attention),
    };
    "mimo_v2_flash" = PARTIAL {
        head: Head::Or(192),
        part: Part::Unscaled(0.334),
        base: Base::Inside,
        parameters: Form::ByLayerTypeOr(&[
            (full_attention, Some(theta(5_000_000.0))),
            (sliding_attention, Some(theta(10_000.0))),
        ]),
        layers: Rules(&[(full_attention, First(1)), (full_attention, Every(6)), (sliding_attention, Always)]),
    };
    "minicpm" = HALF { head: Head::Quotient, rope_types: RopeTypes::MiniCpm };
    "minicpm3" = HALF { head: latent(64, 32), softmax: true };
    "minimax" = HALF {
        head: Head::Unset,
        base: Base::Or(1_000_000),
        layers: Rules(&[(full_attention, Modulo(2, 0)), (linear_attention, Always)]),
    };
    "minimax_m1" = PARTIAL {
        part: Part::Count(Key::rotary_dim, 1.0),
        base: Base::Or(1_000_000),
        parameters: Form::ThetaOnly,
        rope_types: RopeTypes::Default,
        layers: LayerTypes::Flags(Key::attn_type_list, full_attention, linear_attention),
    };
    "minimax_m2" = PARTIAL {
        head: Head::Or(128),
        part: Part::Count(Key::rotary_dim, 1.0),
        base: Base::Or(5_000_000),
        norm: Some(QkNorm { reach: Reach::Row, ..norm(Formula::Llama, 1e-6) }),
    };
    "minimax_m3" = PARTIAL {
        part: Part::Count(Key::rotary_dim, 1.0),
        base: Base::Or(5_000_000),
        norm: Some(norm(Formula::Other, 0.0)),
    };
    "minimax_m3_vl_text" = PARTIAL {
        head: Head::Or(128),
        base: Base::Or(5_000_000),
        idle: Some((Key::rotary_dim, 64)),
        norm: Some(norm(Formula::Gemma, 1e-6)),
    };
    "minimax_m3_vl_vision" = VISION { axes: AxesOf::Three };
    "minimax_text_01" = PARTIAL {
        part: Part::Count(Key::rotary_dim, 1.0),
        base: Base::Or(1_000_000),
        parameters: Form::ThetaOnly,
        rope_types: RopeTypes::Default,
        layers: LayerTypes::Flags(Key::attn_type_list, full_attention, linear_attention),
    };
    "ministral" = HALF { head: Head::Given };
    "ministral3" = HALF {
        head: Head::Or(128),
        parameters: Form::FlatOr(&Defaults {
            theta: Some(1_000_000.0), partial: None,
            scaling: Scaled::Yarn {
                factor: 16.0, original: 16384,
                truncate: true, mscale: true, attention_factor: None
            },
        }),
    };
    "mistral" = HALF;
    "mistral4" = DEEPSEEK {
        pairs: Pairs::InterleavedToHalfOrHalf,
        head: Head::Latent { still: 64, rotating: 64, quirk: Latent::FactorOfBoth },
        parameters: Form::FlatOr(&Defaults {
            theta: Some(10_000.0), partial: None,
            scaling: Scaled::Yarn {
                factor: 128.0, original: 8192,
                truncate: true, mscale: true, attention_factor: None
            },
        }),
    };
    "mistral_large4_text" = DEEPSEEK {
        head: latent(64, 64),
        parameters: Form::FlatOr(&Defaults {
            theta: Some(10_000.0), partial: None,
            scaling: Scaled::Yarn {
                factor: 2048.0, original: 512,
                truncate: true, mscale: false, attention_factor: Some(1.0)
            },
        }),
        layers: Rules(&[(indexed_attention, Always)]),
        rotates: Rotates::ExceptEvery(4),
    };
    "mixtral" = HALF { head: Head::Unset, base: Base::Or(1_000_000) };
    "mlcd_vision_model" = VISION;
    "mllama_text_model" = HALF {
        head: Head::Quotient,
        base: Base::Or(500_000),
        rotates: Rotates::Except(Key::cross_attention_layers, LayerRun { first: 3, step: 5, count: 8 }),
        norm: Some(QkNorm { layers: NormedLayers::Still, ..norm(Formula::Llama, 1e-5) }),
    };
    "modernbert" = HALF {
        head: Head::Quotient,
        base: Base::KeyOr(Key::global_rope_theta, 160_000),
        parameters: Form::OlderAllScaled(Base::KeyOr(Key::local_rope_theta, 10_000)),
        layers: Rules(&[
            (full_attention, ModuloBy(Key::global_attn_every_n_layers, 3, 0)),
            (sliding_attention, Always),
        ]),
        ignores: Some(Key::position_embedding_type),
    };
    "modernbert-decoder" = HALF {
        head: Head::Quotient,
        base: Base::KeyOr(Key::global_rope_theta, 160_000),
        parameters: Form::OlderAllScaled(Base::KeyOr(Key::local_rope_theta, 10_000)),
        layers: Rules(&[
            (full_attention, ModuloBy(Key::global_attn_every_n_layers, 3, 0)),
            (sliding_attention, Always),
        ]),
        ignores: Some(Key::position_embedding_type),
    };
    "molmo" = HALF {
        head: Head::Quotient,
        parameters: Form::ThetaOnly,
        rope_types: RopeTypes::Default,
        norm: Some(QkNorm {
            eps_key: Eps::Key(Key::layer_norm_eps),
            reach: Reach::Row,
            switch: Some((Key::attention_layer_norm, false)),
            ..norm(Formula::Llama, 1e-5)
        }),
    };
    "molmo2_text" = HALF {
        head: Head::Or(128),
        scaled_layers: Some(Key::rope_scaling_layers),
        norm: Some(QkNorm {
            eps_key: Eps::KeyOr(Key::rms_norm_eps, Key::layer_norm_eps),
            reach: Reach::RowIf(Key::qk_norm_type, [Word::olmo, Word::qwen3]),
            ..norm(Formula::Llama, 1e-6)
        }),
    };
    "moonshine" = PARTIAL {
        pairs: Pairs::Interleaved,
        heads: Name::Or(Key::decoder_num_attention_heads),
        depth: Name::Or(Key::decoder_num_hidden_layers),
        part: Part::Factor(Key::partial_rotary_factor, 0.9),
    };
    "moonshine_streaming" = PARTIAL {
        pairs: Pairs::Interleaved,
        parameters: Form::FlatOr(&partial(10_000.0, 0.8)),
    };
    "moonvit" = VISION {
        pairs: Pairs::Interleaved,
        base: Base::Fixed(10_000),
        parameters: Form::ThetaOnly,
        rope_types: RopeTypes::Default,
        axes: AxesOf::ColumnsAndRows,
    };
    "moshi" = HALF;
    "muse_glimmer_assistant" = HALF {
        head: Head::Or(128),
        base: Base::Or(500_000),
        norm: Some(norm(Formula::Llama, 1e-5)),
    };
    "muse_glimmer_text" = HALF {
        head: Head::Or(128),
        layers: Rules(&[(full_attention, EveryFromEnd(4)), (sliding_attention, Always)]),
        rotates: Rotates::Nonzero(Key::layer_rope_theta),
        norm: Some(norm(Formula::Llama4, 1e-5)),
    };
    "muse_glimmer_vision" = VISION {
        layers: Rules(&[(full_attention, Every(4)), (full_attention, Last), (window_attention, Always)]),
    };
    "muse_spark_text" = HALF {
        head: Head::Or(64),
        parameters: Form::FlatOr(&theta(500_000.0)),
        layers: Rules(&[(full_attention, EveryFromEnd(4)), (sliding_attention, Always)]),
        rotates: Rotates::Nonzero(Key::layer_rope_theta),
        norm: Some(norm(Formula::Llama4, 1e-5)),
    };
    "muse_spark_vision" = VISION {
        layers: Rules(&[(full_attention, Every(4)), (full_attention, Last), (window_attention, Always)]),
    };
    "nanochat" = HALF {
        pairs: Pairs::NegatedHalf,
        norm: Some(QkNorm { after: true, ..norm(Formula::Llama4, 1e-6) }),
    };
    "nemotron" = PARTIAL { part: Part::Factor(Key::partial_rotary_factor, 0.5) };
    "nemotron-nas" = HALF { head: Head::Quotient, rotates: Rotates::Blocks };
    "nemotron3_5_transcribe_asr_audio" = PARTIAL {
        parameters: Form::FlatOr(&partial(10_000.0, 0.5)),
        norm: Some(QkNorm { eps_key: Eps::Fixed, ..norm(Formula::LayerNorm, 1e-5) }),
    };
    "nemotron3_5_transcribe_word_timestamp" = PARTIAL {
        parameters: Form::FlatOr(&partial(10_000.0, 0.5)),
        norm: Some(QkNorm { eps_key: Eps::Fixed, ..norm(Formula::LayerNorm, 1e-5) }),
    };
    "nemotron3_diarization_audio" = PARTIAL;
    "neomme" = PARTIAL {
        head: Head::Or(64),
        part: Part::Inside(1.0),
        parameters: Form::ByLayerTypeFilled(&[
            (full_attention, Some(partial(1_000_000.0, 0.25))),
            (sliding_attention, Some(partial(10_000.0, 1.0))),
        ]),
        axes: AxesOf::RowsAndColumns,
        layers: Rules(&[(full_attention, Every(6)), (full_attention, Last), (sliding_attention, Always)]),
        norm: Some(QkNorm { eps_key: Eps::Key(Key::norm_eps), ..norm(Formula::Llama4, 1e-6) }),
    };
    "nomic_bert" = HALF {
        width: Name::Or(Key::n_embd),
        heads: Name::Or(Key::n_head),
        depth: Name::Or(Key::n_layer),
        base: Base::Or(1000),
    };
    "olmo" = HALF;
    "olmo2" = HALF { norm: Some(QkNorm { reach: Reach::Row, ..norm(Formula::Olmo2, 1e-5) }) };
    "olmo3" = HALF {
        base: Base::Or(500_000),
        parameters: Form::Older(Base::InsideOr(500_000)),
        layers: Rules(&[(full_attention, Every(4)), (sliding_attention, Always)]),
        norm: Some(QkNorm { reach: Reach::Row, ..norm(Formula::Olmo2, 1e-5) }),
    };
    "olmo_hybrid" = HALF {
        layers: Rules(&[(full_attention, Modulo(4, 3)), (linear_attention, Always)]),
        norm: Some(QkNorm { reach: Reach::Row, ..norm(Formula::Olmo2, 1e-6) }),
    };
    "olmoe" = HALF { norm: Some(QkNorm { reach: Reach::Row, ..norm(Formula::Llama, 1e-5) }) };
    "openai_privacy_filter" = INTERLEAVED {
        head: Head::Or(64),
        base: Base::Or(150_000),
        parameters: Form::FlatOr(&GPT_OSS),
    };
    "openelm" = HALF {
        width: Name::Only(Key::model_dim),
        depth: Name::Only(Key::num_transformer_layers),
        context: Name::Absent,
        head: Head::Or(128),
        base: Base::KeyOr(Key::rope_freq_constant, 10_000),
        parameters: Form::ThetaOnly,
        rope_types: RopeTypes::Default,
        ignores: Some(Key::rope_max_length),
        norm: Some(QkNorm {
            eps_key: Eps::Fixed,
            switch: Some((Key::normalize_qk_projections, false)),
            ..norm(Formula::Llama, 1e-6)
        }),
    };
    "orion" = HALF { head: Head::Quotient, rope_types: RopeTypes::Older };
    "paddleocr_vl_text" = HALF {
        head: Head::Or(128),
        base: Base::Or(500_000),
        axes: AxesOf::Mrope([16, 24, 24]),
    };
    "paddleocr_vl_vision" = VISION;
    "pe_audio_encoder" = INTERLEAVED {
        head: Head::Or(128),
        base: Base::Or(20_000),
        norm: Some(norm(Formula::Llama, 1e-5)),
    };
    "pe_audio_video_encoder" = INTERLEAVED {
        head: Head::Or(128),
        base: Base::Or(20_000),
        norm: Some(norm(Formula::Llama, 1e-5)),
    };
    "pe_video_encoder" = INTERLEAVED {
        head: Head::Or(128),
        base: Base::Or(20_000),
        norm: Some(norm(Formula::Llama, 1e-5)),
    };
    "persimmon" = PARTIAL {
        head: Head::Quotient,
        part: Part::Factor(Key::partial_rotary_factor, 0.5),
        window: Window::ExactPart,
        norm: Some(QkNorm {
            eps_key: Eps::Key(Key::layer_norm_eps),
            switch: Some((Key::qk_layernorm, true)),
            ..norm(Formula::LayerNorm, 1e-5)
        }),
    };
    "phi" = PARTIAL {
        part: Part::Factor(Key::partial_rotary_factor, 0.5),
        window: Window::ExactPart,
        norm: Some(QkNorm {
            eps_key: Eps::Key(Key::layer_norm_eps),
            switch: Some((Key::qk_layernorm, false)),
            ..norm(Formula::LayerNorm, 1e-5)
        }),
    };
    "phi-msft" = HALF {
        width: Name::Or(Key::n_embd),
        heads: Name::Or(Key::n_head),
        depth: Name::Or(Key::n_layer),
        context: Name::Absent,
        head: Head::Quotient,
        part: Part::Channels(32),
        window: Window::Part,
        base: Base::Fixed(10_000),
        parameters: Form::ThetaOnly,
        rope_types: RopeTypes::Default,
        ignores: Some(Key::flash_rotary),
    };
    "phi3" = PARTIAL { rope_types: RopeTypes::LongRope(4096) };
    "phi3_v" = HALF { head: Head::Quotient, rope_types: RopeTypes::SuOrYarn(4096) };
    "phi3small" = HALF {
        head: Head::Quotient,
        base: Base::KeyOr(Key::rope_embedding_base, 1_000_000),
        rope_types: RopeTypes::Unscaled,
    };
    "phi4_multimodal" = PARTIAL { rope_types: RopeTypes::LongRope(4096) };
    "phi4mm" = PARTIAL { head: Head::Quotient, rope_types: RopeTypes::LongRope(4096) };
    "phimoe" = HALF { base: Base::Or(1_000_000), rope_types: RopeTypes::PhiMoe };
    "pixtral" = VISION { axes: AxesOf::Pixtral };
    "plamo" = HALF {
        head: Head::Quotient,
        base: Base::Fixed(10_000),
        parameters: Form::ThetaOnly,
        rope_types: RopeTypes::Default,
    };
    "plamo2" = HALF {
        head: Head::KeyOr(Key::hidden_size_per_head, 128),
        parameters: Form::OlderAllScaled(Base::KeyOrMain(Key::rope_local_theta)),
        rope_types: RopeTypes::Default,
        layers: LayerTypes::Steps,
        norm: Some(QkNorm { eps_key: Eps::Fixed, ..norm(Formula::Plamo2, 1e-6) }),
    };
    "pocket_tts" = HALF;
    "pocket_tts_audio_tokenizer" = HALF;
    "pocket_tts_audio_tokenizer_decoder" = HALF;
    "pocket_tts_audio_tokenizer_encoder" = HALF;
    "qwen" = PARTIAL {
        depth: Name::Or(Key::n_layer),
        context: Name::Only(Key::seq_length),
        head: Head::KeyOr(Key::kv_channels, 128),
        part: Part::Factor(Key::rotary_pct, 1.0),
        base: Base::KeyOr(Key::rotary_emb_base, 10_000),
        parameters: Form::ThetaOnly,
        rope_types: RopeTypes::GrowingAlpha,
    };
    "qwen2" = HALF;
    "qwen2_5_omni_talker" = HALF {
        head: Head::Or(128),
        base: Base::Or(1_000_000),
        axes: AxesOf::Mrope([16, 24, 24]),
    };
    "qwen2_5_omni_text" = HALF { base: Base::Or(1_000_000), axes: AxesOf::Mrope([16, 24, 24]) };
    "qwen2_5_omni_vision_encoder" = QWEN_VISION;
    "qwen2_5_vl_text" = HALF {
        head: Head::Quotient,
        base: Base::Or(1_000_000),
        rope_types: RopeTypes::Mrope,
        axes: AxesOf::Mrope([16, 24, 24]),
    };
    "qwen2_5_vl_vision" = QWEN_VISION;
    "qwen2_moe" = HALF;
    "qwen2_vl_text" = HALF {
        head: Head::Quotient,
        base: Base::Or(1_000_000),
        rope_types: RopeTypes::Mrope,
        axes: AxesOf::Mrope([16, 24, 24]),
    };
    "qwen2_vl_vision" = QWEN_VISION { width: Name::Only(Key::embed_dim) };
    "qwen3" = HALF { head: Head::Or(128), norm: Some(norm(Formula::Llama, 1e-6)) };
    "qwen3_5_moe_text" = PARTIAL {
        head: Head::Or(256),
        part: Part::Factor(Key::partial_rotary_factor, 0.25),
        axes: AxesOf::MropeInterleaved([11, 11, 10]),
        layers: Rules(&[
            (full_attention, EveryBy(Key::full_attention_interval, 4)),
            (linear_attention, Always),
        ]),
        norm: Some(norm(Formula::Gemma, 1e-6)),
    };
    "qwen3_5_moe_vision" = QWEN_VISION;
    "qwen3_5_text" = PARTIAL {
        head: Head::Or(256),
        part: Part::Factor(Key::partial_rotary_factor, 0.25),
        axes: AxesOf::MropeInterleaved([11, 11, 10]),
        layers: Rules(&[
            (full_attention, EveryBy(Key::full_attention_interval, 4)),
            (linear_attention, Always),
        ]),
        norm: Some(norm(Formula::Gemma, 1e-6)),
    };
    "qwen3_5_vision" = QWEN_VISION;
    "qwen3_moe" = HALF { norm: Some(norm(Formula::Llama, 1e-6)) };
    "qwen3_next" = PARTIAL {
        head: Head::Or(256),
        part: Part::Factor(Key::partial_rotary_factor, 0.25),
        layers: Rules(&[
            (full_attention, EveryBy(Key::full_attention_interval, 4)),
            (linear_attention, Always),
        ]),
        norm: Some(norm(Formula::Gemma, 1e-6)),
    };
    "qwen3_omni_moe_code2wav" = HALF { layers: Rules(&[(sliding_attention, Always)]) };
    "qwen3_omni_moe_talker_code_predictor" = HALF {
        head: Head::Or(128),
        norm: Some(norm(Formula::Llama, 1e-6)),
    };
    "qwen3_omni_moe_talker_text" = HALF {
        axes: AxesOf::MropeInterleaved([24, 20, 20]),
        norm: Some(norm(Formula::Llama, 1e-6)),
    };
    "qwen3_omni_moe_text" = HALF {
        base: Base::Or(1_000_000),
        axes: AxesOf::MropeInterleaved([24, 20, 20]),
        norm: Some(norm(Formula::Llama, 1e-6)),
    };
    "qwen3_omni_moe_vision_encoder" = QWEN_VISION;
    "qwen3_vl_moe_text" = HALF {
        base: Base::Or(500_000),
        axes: AxesOf::MropeInterleaved([24, 20, 20]),
        norm: Some(norm(Formula::Llama, 1e-6)),
    };
    "qwen3_vl_moe_vision" = QWEN_VISION;
    "qwen3_vl_text" = HALF {
        head: Head::Or(128),
        base: Base::Or(500_000),
        axes: AxesOf::MropeInterleaved([24, 20, 20]),
        norm: Some(norm(Formula::Llama, 1e-6)),
    };
    "qwen3_vl_vision" = QWEN_VISION;
    "qwen4_exp_text" = PARTIAL {
        head: Head::Or(256),
        axes: AxesOf::MropeInterleaved([11, 11, 10]),
        layers: Rules(&[
            (indexed_attention, EveryBy(Key::full_attention_interval, 4)),
            (linear_attention, Always),
        ]),
        norm: Some(norm(Formula::Gemma, 1e-6)),
    };
    "qwen4_exp_vision" = QWEN_VISION;
    "recurrent_gemma" = PARTIAL {
        context: Name::Absent,
        part: Part::Factor(Key::partial_rotary_factor, 0.5),
        rope_types: RopeTypes::Default,
        layers: LayerTypes::Blocks,
    };
    "roformer" = INTERLEAVED {
        head: Head::Quotient,
        values: Values::If(Key::rotary_value),
        parameters: Form::ThetaOnly,
        rope_types: RopeTypes::Default,
    };
    "sam2_video" = VISION { pairs: Pairs::Interleaved, head: Head::Memory };
    "sam3_tracker_video" = VISION { pairs: Pairs::Interleaved, head: Head::Memory };
    "sam3_vit_model" = VISION { pairs: Pairs::Interleaved };
    "sapiens2" = VISION {
        base: Base::Or(100),
        parameters: Form::ThetaOnly,
        rope_types: RopeTypes::Default,
        turns: true,
        norm: Some(QkNorm { switch: Some((Key::use_qk_norm, true)), ..norm(Formula::Llama, 1e-6) }),
    };
    "sarvam_mla" = DEEPSEEK { pairs: Pairs::InterleavedToHalfOrHalf, rope_types: RopeTypes::DeepseekYarn };
    "sarvam_moe" = PARTIAL {
        head: Head::Or(64),
        base: Base::Or(8_000_000),
        norm: Some(QkNorm { switch: Some((Key::use_qk_norm, true)), ..norm(Formula::Llama, 1e-6) }),
    };
    "seed_oss" = HALF { head: Head::Or(128) };
    "smollm3" = HALF { base: Base::Or(2_000_000), rotates: Rotates::ExceptEvery(4) };
    "solar_open" = HALF { head: Head::Or(128), obeys: true, base: Base::Or(1_000_000) };
    "stablelm" = PARTIAL {
        head: Head::Quotient,
        part: Part::Factor(Key::partial_rotary_factor, 0.25),
        window: Window::ExactPart,
        norm: Some(QkNorm {
            eps_key: Eps::Key(Key::layer_norm_eps),
            switch: Some((Key::qk_layernorm, false)),
            ..norm(Formula::StableLm, 1e-5)
        }),
    };
    "starcoder2" = HALF;
    "step3p5" = PARTIAL {
        head: Head::Or(128),
        part: Part::Inside(1.0),
        base: Base::InsideOr(10_000),
        parameters: Form::FirstLayers,
        layers: Rules(&[(full_attention, Always)]),
        norm: Some(norm(Formula::Gemma, 1e-5)),
    };
    "step3p5_vision" = HALF {
        head: Head::Quotient,
        width: Name::Or(Key::width),
        heads: Name::Or(Key::heads),
        depth: Name::Or(Key::layers),
        rope_types: RopeTypes::Images,
        axes: AxesOf::ColumnsFirst,
    };
    "t5_gemma_module" = HALF {
        head: Head::Or(256),
        layers: Rules(&[(sliding_attention, Modulo(2, 0)), (full_attention, Always)]),
    };
    "t5gemma2_decoder" = HALF {
        head: Head::Or(256),
        base: Base::Or(1_000_000),
        parameters: Form::Older(Base::KeyOr(Key::rope_local_base_freq, 10_000)),
        layers: Rules(&[
            (full_attention, EveryBy(Key::sliding_window_pattern, 6)),
            (sliding_attention, Always),
        ]),
        norm: Some(norm(Formula::Gemma, 1e-6)),
    };
    "t5gemma2_text" = HALF {
        head: Head::Or(256),
        base: Base::Or(1_000_000),
        parameters: Form::Older(Base::KeyOr(Key::rope_local_base_freq, 10_000)),
        layers: Rules(&[
            (full_attention, EveryBy(Key::sliding_window_pattern, 6)),
            (sliding_attention, Always),
        ]),
        norm: Some(norm(Formula::Gemma, 1e-6)),
    };
    "telechat" = HALF {
        width: Name::Or(Key::n_embed),
        heads: Name::Or(Key::n_head),
        depth: Name::Or(Key::n_layer),
        context: Name::Only(Key::training_seqlen),
        head: Head::Quotient,
        base: Base::Fixed(10_000),
        parameters: Form::ThetaOnly,
        rope_types: RopeTypes::Telechat,
    };
    "timesfm2_5" = HALF {
        head: Head::Or(80),
        norm: Some(QkNorm { after: true, ..norm(Formula::Llama, 1e-6) }),
    };
    "ultrabert" = HALF {
        base: Base::InsideOr(10_000),
        parameters: Form::ByLayerTypeOr(&[
            (sliding_attention, Some(theta(10_000.0))),
            (full_attention, Some(theta(2_560_000.0))),
        ]),
        layers: Rules(&[(full_attention, Every(3)), (sliding_attention, Always)]),
    };
    "unlimited_ocr_text" = HALF { head: Head::Quotient };
    "vaultgemma" = HALF {
        head: Head::Or(256),
        layers: Rules(&[(sliding_attention, Modulo(2, 0)), (full_attention, Always)]),
    };
    "video_llama_3_vision" = VISION;
    "vjepa2" = INTERLEAVED {
        context: Name::Absent,
        head: Head::Quotient,
        base: Base::Fixed(10_000),
        parameters: Form::ThetaOnly,
        rope_types: RopeTypes::Default,
        axes: AxesOf::ChannelWindows,
    };
    "voxtral_realtime_encoder" = HALF { head: Head::Or(64) };
    "voxtral_realtime_text" = HALF;
    "wan" = INTERLEAVED {
        width: Name::Only(Key::dim),
        heads: Name::Only(Key::num_heads),
        depth: Name::Only(Key::num_layers),
        context: Name::Absent,
        head: Head::Quotient,
        base: Base::Fixed(10_000),
        parameters: Form::ThetaOnly,
        rope_types: RopeTypes::Default,
        axes: AxesOf::Wan,
        norm: Some(QkNorm {
            eps_key: Eps::Key(Key::eps),
            reach: Reach::Row,
            ..norm(Formula::Llama, 1e-6)
        }),
    };
    "xverse" = HALF {
        head: Head::Quotient,
        base: Base::OrWithin(10_000, 16384),
        parameters: Form::ThetaOnly,
        rope_types: RopeTypes::Default,
    };
    "youtu" = DEEPSEEK { pairs: Pairs::InterleavedToHalfOrHalf };
    "yuan" = HALF {
        head: Head::Quotient,
        base: Base::Fixed(10_000),
        parameters: Form::ThetaOnly,
        rope_types: RopeTypes::Default,
    };
    "zamba2" = HALF {
        head: Head::TwiceQuotient,
        layers: Rules(&[(hybrid, In([6, 12, 18, 24, 30, 36, 42, 47, 51])), (linear_attention, Always)]),
        condition: Condition::IfTrue(Key::use_mem_rope),
    };
    "zaya" = PARTIAL {
        head: Head::Or(128),
        part: Part::Inside(1.0),
        base: Base::Inside,
        parameters: Form::ByLayerTypeOr(&[
            (hybrid, Some(partial(5_000_000.0, 0.5))),
            (hybrid_sliding, Some(partial(10_000.0, 0.5))),
        ]),
        layers: Rules(&[(hybrid, Always)]),
        norm: Some(norm(Formula::Other, 0.0)),
    };
}
