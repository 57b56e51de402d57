//! Configurations from any text.

use std::fmt::Write;

use rope_core::axes::Axes;
use rope_core::{Frequencies, Pairing, Tensor, TensorMut};
use rope_models::{Config, Error, Layers, ModelNorm, Rotation};

use crate::Source;

/// Shortcuts for tests that ask a file one question and need its model for nothing else.
#[expect(clippy::missing_errors_doc, reason = "those of the model")]
pub trait Questions {
    /// Returns the rotation of all layers.
    fn rotation(&self) -> Result<Rotation, Error>;
    /// Returns the layers.
    fn layers(&self) -> Result<Layers, Error>;
    /// Returns the norm of all layers.
    fn norm(&self) -> Result<Option<ModelNorm>, Error>;
    /// Returns the frequencies of the rotation.
    fn frequencies(&self) -> Result<Frequencies<'static>, Error> {
        Ok(self.rotation()?.into_frequencies())
    }
    /// Returns the pairing of the rotation.
    fn pairing(&self) -> Result<(Pairing, Pairing), Error> {
        Ok(self.rotation()?.pairing())
    }
}

impl Questions for Config {
    fn rotation(&self) -> Result<Rotation, Error> {
        self.model()?.rotation().cloned()
    }

    fn layers(&self) -> Result<Layers, Error> {
        self.model()?.layers().cloned()
    }

    fn norm(&self) -> Result<Option<ModelNorm>, Error> {
        self.model()?.norm()
    }
}

/// Reads any bytes: a JSON text if they begin with a brace, otherwise choices that make a configuration with the keys
/// of real ones. Asserts that nothing panics and that every accepted answer is finite.
///
/// # Panics
///
/// If an assertion fails.
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

/// Reads a configuration with the keys of real ones and values of any kind.
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
        Err(Error::Json { line, column, .. }) => {
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
    if let Ok(model) = config.model() {
        let named = |path: &str| text.contains(path.rsplit('.').next().unwrap_or_default());
        for own in model.ignored() {
            let whole = own.path.len() < 80 && !text.contains('\\');
            assert!(!whole || named(&own.path), "{text}: {own}");
        }
        // An answer of the strict reader equals the answer of the lenient one.
        if let Ok(rotation) = model.rotation() {
            let lenient = config.clone().lenient().rotation();
            assert_eq!(lenient.as_ref(), Ok(rotation), "{text}");
        }
        if source.once_in(4) {
            config = config.lenient();
        }
    }
    match config.frequencies() {
        Ok(made) => {
            let (factor, softmax) = (made.attention_factor(), made.softmax_factor());
            assert!(
                factor.is_finite() && factor > 0.0 && softmax.is_finite(),
                "{text}"
            );
            assert!(made.iter().all(|pair| pair.inverse.is_finite()), "{text}");
            let rotation = config.rotation().expect("the frequencies are its");
            assert!(rotation.window().end <= rotation.head_dim(), "{text}");
            rotates_in_its_window(&rotation, source);
        }
        Err(error) => describe(&error),
    }
    if let Err(error) = config.norm() {
        describe(&error);
    }
    if let Ok(layers) = config.layers() {
        for layer in layers.iter().take(100) {
            if let Some(rotation) = layer.rotation {
                assert!(rotation.window().end <= rotation.head_dim(), "{text}");
            }
        }
    }
    for layer_type in ["full_attention", "linear_attention"] {
        let _ = config.clone().with_layer_type(layer_type).frequencies();
    }
    nothing_is_dropped(text, source);
    let _ = config.frequencies_over(Axes::from(2 * source.below(200)));
}

/// Asserts that heads of the model and of its rotating channels rotate, and that other sizes are refused.
fn rotates_in_its_window(rotation: &Rotation, source: &mut Source<'_>) {
    let (head_dim, window) = (rotation.head_dim(), rotation.window());
    if head_dim > 1024 {
        return;
    }
    let given = match source.below(4) {
        0 => window.len(),
        1 => source.within(1, 300),
        _ => head_dim,
    };
    let zeros = vec![0_i64; rotation.frequencies().axes()];
    let rows = rotation
        .frequencies()
        .rows(rope_core::Positions::axis_major(&zeros))
        .expect("a row");
    let x: Vec<f32> = (0..given).map(|channel| channel as f32).collect();
    let (mut y, shape) = (vec![-1.0_f32; given], [1, 1, 1, given]);
    let from = Tensor::new(&x, shape).expect("a head");
    let mut tensor = TensorMut::new(&mut y, shape).expect("a head");
    let plan = rotation.rope_for(given);
    let Ok(plan) = plan else {
        assert!(given != head_dim && given != window.len(), "{plan:?}");
        assert!(matches!(plan, Err(Error::ModelHead { .. })), "{plan:?}");
        return;
    };
    assert_eq!(plan.rotate_into(&from, &mut tensor, &rows), Ok(()));
    let window = if given == head_dim { window } else { 0..given };
    for (channel, (x, y)) in x.iter().zip(&y).enumerate() {
        assert!(window.contains(&channel) || x == y, "channel {channel}");
    }
}

/// Asserts that an accepted text has a model type and that each key about a rotation is obeyed or refused, unless the
/// key repeats a number that counts anyway: with two different numbers under one key, a file is not accepted twice with
/// the same answer.
fn nothing_is_dropped(text: &str, source: &mut Source<'_>) {
    // The keys of the root of a composite file are not read.
    let open = text
        .trim_end()
        .strip_suffix('}')
        .filter(|open| open.len() > 1);
    let Some(open) = open.filter(|open| !open.contains("text_config")) else {
        return;
    };
    let read = |entry: &str| {
        let config = Config::from_json(&format!("{open},{entry}}}")).ok()?;
        let rotation = config.with_length(9000).rotation().ok()?;
        Some(rotation)
    };
    if let Some(rotation) = read(r#""other": 1"#) {
        let untyped = Config::from_json(&format!("{open},\"other\": 1}}"))
            .map(|config| config.without("model_type"));
        assert!(
            untyped.is_ok_and(|config| config.rotation().is_err()),
            "{text}: no model type"
        );
        assert!(
            read(r#""rope_none_such": 1"#).is_none(),
            "{text}: a key that nothing reads"
        );
        // With so few pairs, many factors give the same part, and no pair may turn for any base.
        if turning(&rotation) < 16 {
            return;
        }
    }
    let key = source.one_of(&OBEYED);
    // The base of DeepSeek-V4's layers with a window; its class has no such layers where the file names none.
    if key == "rope_theta" && text.contains("deepseek_v4") {
        return;
    }
    let (one, other) = source.one_of(&[("0.5", "0.75"), ("64", "32"), ("10000", "3e5")]);
    let [one, other] = [one, other].map(|number| read(&format!("\"{key}\": {number}")));
    if let (Some(one), Some(other)) = (one, other)
        && turning(&one) >= 16
    {
        assert!(one != other, "{text}: {key} is dropped");
    }
    let number = source.one_of(&["NaN", "Infinity", "-Infinity", "1e999"]);
    assert!(
        read(&format!("\"{key}\": {number}")).is_none(),
        "{text}: {key} is {number}"
    );
}

/// Returns the number of pairs that a position turns.
fn turning(rotation: &Rotation) -> usize {
    let pairs = rotation.frequencies().iter();
    pairs.filter(|pair| pair.inverse > 0.0).count()
}

/// Keys beside the rope parameters that affect the rotation of some model, each with a number.
const OBEYED: [&str; 14] = [
    "rope_theta",
    "partial_rotary_factor",
    "rotary_pct",
    "rope_pct",
    "rope_percent",
    "rotary_dim",
    "rotary_emb_base",
    "rotary_embedding_base",
    "rope_local_base_freq",
    "local_rope_theta",
    "global_rope_theta",
    "swa_rope_theta",
    "qk_rope_head_dim",
    "rope_ratio",
];

const PARTS: [&str; 4] = ["text_config", "vision_config", "thinker_config", "none"];

const MODELS: [&str; 41] = [
    "llama",
    "nanochat",
    "deepseek_v4",
    "cohere2",
    "smollm3",
    "granite_swa",
    "falcon",
    "minimax_m2",
    "stablelm",
    "olmo3",
    "zaya",
    "llama4_text",
    "mistral",
    "mistral4",
    "qwen2",
    "qwen3",
    "qwen2_vl",
    "qwen3_vl_text",
    "qwen3_5_text",
    "glm4v_text",
    "gpt_neox",
    "gptj",
    "phi3",
    "gemma3_text",
    "gemma4_text",
    "deepseek_v2",
    "deepseek_v3",
    "ernie4_5_vl_moe_text",
    "gpt_oss",
    "pixtral",
    "cohere",
    "modernbert",
    "dinov3_vit",
    "flux",
    "hunyuan",
    "internlm",
    "minicpm",
    "nemotron-nas",
    "phi3_v",
    "xverse",
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
        // Writing to a String never fails.
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
    let _ = match source.below(13) {
        12 => {
            let numbers = [
                "NaN",
                "Infinity",
                "-Infinity",
                "100000000000000000000",
                "1e999",
            ];
            write!(text, "{}", source.one_of(&numbers))
        }
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
