//! Configurations of any text.

use std::fmt::Write;

use rope_core::{Axes, Config, Error};

use crate::Source;

/// Any bytes: a JSON text if they begin with a brace, otherwise choices from which one with the keys of real
/// configurations is made. Nothing panics; what comes out is finite, or refused.
///
/// # Panics
///
/// If that is not so.
pub fn config(bytes: &[u8]) {
    if let [b'{', ..] = bytes {
        if let Ok(text) = core::str::from_utf8(bytes) {
            check(text, &mut Source::bytes(bytes));
        }
        return;
    }
    let mut source = Source::bytes(bytes);
    made_config(&mut source);
}

/// A configuration with the keys of real ones, and values of any kind.
///
/// # Panics
///
/// As [`config`].
pub fn made_config(source: &mut Source<'_>) {
    let mut text = String::new();
    object(source, &mut text, 0);
    check(&text, source);
}

fn check(text: &str, source: &mut Source<'_>) {
    let mut config = match Config::from_json(text) {
        Ok(config) => config,
        Err(Error::Json { line, column }) => {
            assert!(
                line <= text.lines().count().max(1) + 1,
                "line {line}, column {column}"
            );
            return;
        }
        Err(error) => panic!("{text}: {error}"),
    };
    if source.once_in(4) {
        config = config.with_part(source.one_of(&PARTS));
    }
    if source.once_in(4) {
        config = config.with_model_type(source.one_of(&MODELS));
    }
    if source.once_in(2) {
        config =
            config.with_layer_type(source.one_of(&["full_attention", "sliding_attention", ""]));
    }
    if source.once_in(2) {
        config = config.with_length(source.wide() as u64 >> source.below(64));
    }
    let describe = |error: &Error| assert!(!error.to_string().is_empty());
    match config.frequencies() {
        Ok(made) => {
            let (factor, softmax) = (made.attention_factor(), made.softmax_factor());
            assert!(
                factor.is_finite() && factor > 0.0 && softmax.is_finite(),
                "{text}"
            );
            assert!(
                made.pairs().all(|pair| pair.inverse().is_finite()),
                "{text}"
            );
            assert_eq!(config.rotary_dim(), Ok(made.rotary_dim()), "{text}");
            let head_dim = config.head_dim().expect("rotary_dim needs it");
            assert!(made.rotary_dim() <= head_dim, "{text}");
        }
        Err(error) => describe(&error),
    }
    if let Err(error) = config.pairing() {
        describe(&error);
    }
    if let Err(error) = config.axes() {
        describe(&error);
    }
    if let Ok(types) = config.layer_types() {
        let types: Vec<&str> = types.collect();
        for layer_type in types.into_iter().take(4) {
            let _ = config.clone().with_layer_type(layer_type).frequencies();
        }
    }
    let _ = config.frequencies_over(Axes::from(2 * source.below(200)));
}

const PARTS: [&str; 4] = ["text_config", "vision_config", "thinker_config", "none"];

const MODELS: [&str; 24] = [
    "llama",
    "llama4",
    "mistral",
    "mistral4",
    "qwen2",
    "qwen3",
    "qwen2_vl",
    "qwen3_vl",
    "qwen3_5",
    "glm4v",
    "gpt_neox",
    "gptj",
    "phi3",
    "gemma3_text",
    "gemma4",
    "deepseek_v2",
    "deepseek_v3",
    "ernie4_5_vl_moe",
    "gpt_oss",
    "pixtral",
    "cohere",
    "modernbert",
    "dinov3_vit",
    "none such",
];

const KEYS: [&str; 46] = [
    "model_type",
    "text_config",
    "vision_config",
    "rope_parameters",
    "rope_scaling",
    "full_attention",
    "sliding_attention",
    "rope_type",
    "type",
    "rope_theta",
    "rope_local_base_freq",
    "local_rope_theta",
    "global_rope_theta",
    "rotary_emb_base",
    "head_dim",
    "global_head_dim",
    "qk_rope_head_dim",
    "hidden_size",
    "embed_dim",
    "num_attention_heads",
    "num_heads",
    "n_embd",
    "n_head",
    "rotary_dim",
    "rotary_pct",
    "partial_rotary_factor",
    "rope_interleave",
    "factor",
    "attention_factor",
    "original_max_position_embeddings",
    "max_position_embeddings",
    "low_freq_factor",
    "high_freq_factor",
    "beta_fast",
    "beta_slow",
    "mscale",
    "mscale_all_dim",
    "truncate",
    "short_factor",
    "long_factor",
    "short_mscale",
    "long_mscale",
    "mrope_section",
    "mrope_interleaved",
    "alpha",
    "layer_types",
];

fn object(source: &mut Source<'_>, text: &mut String, depth: usize) {
    text.push('{');
    for index in 0..source.below(12) {
        if index > 0 {
            text.push(',');
        }
        let key = source.one_of(&KEYS);
        // A String takes everything.
        let _ = write!(text, "\"{key}\":");
        let nests = key.ends_with("_config")
            || key.ends_with("_attention")
            || key.starts_with("rope_p")
            || key == "rope_scaling";
        if nests && depth < 3 && !source.once_in(8) {
            object(source, text, depth + 1);
        } else {
            value(source, text, key);
        }
    }
    text.push('}');
}

fn value(source: &mut Source<'_>, text: &mut String, key: &str) {
    let name = match key {
        "model_type" => Some(source.one_of(&MODELS)),
        "rope_type" | "type" => Some(source.one_of(&[
            "default",
            "linear",
            "dynamic",
            "yarn",
            "longrope",
            "su",
            "llama3",
            "mrope",
            "proportional",
            "xdrope",
            "none such",
        ])),
        _ => None,
    };
    if let Some(name) = name.filter(|_| !source.once_in(8)) {
        let _ = write!(text, "\"{name}\"");
        return;
    }
    let _ = match source.below(12) {
        0 => write!(text, "null"),
        1 => write!(text, "{}", source.once_in(2)),
        2 => write!(text, "-{}", source.word()),
        3 => write!(
            text,
            "{}e{}",
            source.below(1000),
            source.below(700) as i32 - 350
        ),
        4 => write!(text, "{}", source.wide()),
        5 => {
            let count = source.below(40);
            let list: Vec<String> = (0..count).map(|_| source.below(50).to_string()).collect();
            write!(text, "[{}]", list.join(","))
        }
        6 => write!(text, "\"yarn\""),
        7 => write!(text, "0.{}", source.below(1000)),
        8 => write!(
            text,
            "{}",
            source.one_of(&[10_000, 500_000, 4096, 8192, 32_768])
        ),
        _ => write!(text, "{}", source.within(1, 130)),
    };
}
