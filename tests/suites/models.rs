//! The models of the golden tables: their configurations, and their frequencies from the parameters given here.

use rope_core::axes::Axes;
use rope_core::{Dimension, Frequencies, Layout, LongRope, Pairing, Rows, Scaling, Yarn};
use rope_models::Config;
use rope_tests::golden::{self, Golden};
use rope_tests::{Number, Placed, Source, View};
use serde_json::Value;

/// Returns the bits of the rows one after the other, each row as all cos and then all sin.
pub(crate) fn bits(rows: &Rows<'_>) -> Vec<u32> {
    (0..rows.len())
        .flat_map(|index| {
            let (cos, sin) = rows.row(index, 0).expect("a row that is there");
            cos.iter().chain(sin).map(|value| value.to_bits())
        })
        .collect()
}

/// Returns frequencies of a formula, for comparison with those of a file.
pub(crate) fn of_formula<'x>(
    axes: impl Into<Axes<'x>>,
    base: f64,
    scaling: &Scaling<'_>,
) -> Result<Frequencies<'static>, rope_models::Error> {
    Ok(Frequencies::new(axes, base, scaling)?)
}

/// Returns the configuration file of a model.
pub(crate) fn config_file(name: &str) -> Value {
    let text = golden::read(&format!("configs/{name}.json"));
    serde_json::from_str(&text).expect("JSON")
}

/// Returns the configuration of a golden file. Its data was made from configuration classes and has no `model_type`.
pub(crate) fn config(file: &Value) -> Config {
    let model_type = match file["hf_config_class"].as_str().expect("a class") {
        "LlamaConfig" => "llama",
        "Llama4TextConfig" => "llama4_text",
        "Qwen2Config" => "qwen2",
        "Qwen3Config" => "qwen3",
        "Qwen2VLTextConfig" => "qwen2_vl_text",
        "Qwen3VLTextConfig" => "qwen3_vl_text",
        "Gemma3TextConfig" => "gemma3_text",
        "Glm4Config" => "glm4",
        "Glm4vTextConfig" => "glm4v_text",
        "GPTNeoXConfig" => "gpt_neox",
        "GPTJConfig" => "gptj",
        "Phi3Config" => "phi3",
        "PixtralVisionConfig" => "pixtral",
        "DeepseekV3Config" => "deepseek_v3",
        other => panic!("{other}"),
    };
    let mut text = file["config"].clone();
    if model_type == "llama4_text" {
        // Its layers differ; the data covers those that rotate, and the first layer is one of them.
        text["num_hidden_layers"] = 1.into();
    }
    let mut config = Config::from_json(&text.to_string())
        .expect("JSON")
        .with_model_type(model_type);
    if let Some(layer_type) = file["layer_type"].as_str() {
        config = config.with_layer_type(layer_type);
    }
    if let Some(length) = file["seq_len"].as_u64() {
        config = config.with_length(length);
    }
    config
}

/// Returns the frequencies of a table from the parameters of its model, with `attention_factor` in place of its own.
pub(crate) fn frequencies(table: &Golden, attention_factor: Option<f64>) -> Frequencies<'static> {
    let rotary_dim = table.decimals::<usize>("rotary_dim")[0];
    let config = config_file(&table.name);
    let list = |name: &str| -> Vec<f64> {
        let factors = config["config"]["rope_parameters"][name].as_array();
        let factors = factors.into_iter().flatten();
        factors
            .map(|number| number.as_f64().expect("a number"))
            .collect()
    };
    let (short_factor, long_factor) = (&list("short_factor")[..], &list("long_factor")[..]);
    let longrope = |length| {
        Scaling::LongRope(LongRope {
            short_factor,
            long_factor,
            length,
            original_context: 4096,
            factor: 32.0,
            attention_factor,
        })
    };
    let yarn = |yarn: Yarn| {
        Scaling::Yarn(Yarn {
            attention_factor,
            ..yarn
        })
    };
    let dynamic = |length| Scaling::DynamicNtk {
        factor: 2.0,
        max_position_embeddings: 4096,
        length,
    };
    let llama = |factor, high_freq_factor| Scaling::Llama3 {
        factor,
        low_freq_factor: 1.0,
        high_freq_factor,
        original_context: 8192,
    };
    let text = Axes::from(rotary_dim);
    let (axes, base, scaling) = match table.name.as_str() {
        "llama2_7b" | "glm4_9b_partial" | "gpt_neox_20b" | "gptj_6b" | "gemma3_4b_local" => {
            (text, 1e4, Scaling::Default)
        }
        "qwen3_8b" => (text, 1e6, Scaling::Default),
        "qwen2_vl_7b_mrope" => (Axes::mrope(128, [16, 24, 24]), 1e6, Scaling::Default),
        "glm4v_9b_mrope_partial" => (Axes::mrope(64, [8, 12, 12]), 1e4, Scaling::Default),
        "qwen3_vl_8b_imrope" => (
            Axes::mrope_interleaved(128, [24, 20, 20]),
            5e6,
            Scaling::Default,
        ),
        "pixtral_vision_2d" => (Axes::pixtral(64), 1e4, Scaling::Default),
        "linear_pi_x4" => (text, 1e4, Scaling::Linear { factor: 4.0 }),
        "gemma3_4b_global" => (text, 1e6, Scaling::Linear { factor: 8.0 }),
        "dynamic_ntk_s2048" => (text, 1e4, dynamic(2048)),
        "dynamic_ntk_s4096" => (text, 1e4, dynamic(4096)),
        "dynamic_ntk_s8192" => (text, 1e4, dynamic(8192)),
        "dynamic_ntk_s16384" => (text, 1e4, dynamic(16384)),
        "llama3_1_8b" => (text, 5e5, llama(8.0, 4.0)),
        "llama4_scout" => (text, 5e5, llama(16.0, 1.0)),
        "phi3_128k_longrope_short" => (text, 1e4, longrope(4096)),
        "phi3_128k_longrope_long" => (text, 1e4, longrope(4097)),
        "qwen2_5_7b_yarn128k" => (text, 1e6, yarn(Yarn::new(4.0, 32768))),
        "yarn_no_truncate_gptoss" => (
            text,
            1.5e5,
            yarn(Yarn {
                truncate: false,
                ..Yarn::new(32.0, 4096)
            }),
        ),
        "deepseek_v3" => (
            text,
            1e4,
            yarn(Yarn {
                mscale: 1.0,
                mscale_all_dim: 1.0,
                ..Yarn::new(40.0, 4096)
            }),
        ),
        other => panic!("no parameters for {other}"),
    };
    Frequencies::new(axes, base, &scaling).expect("sane parameters")
}

/// Returns the rotating window of Q's or K's heads.
pub(crate) fn placed(file: &Golden, tensor: &str) -> Placed {
    let (tokens, heads) = (
        file.decimal("tokens"),
        file.decimal(&format!("{tensor}_heads")),
    );
    let (head_dim, offset) = (file.decimal("head_dim"), file.decimal("rotary_offset"));
    let whole = Layout::thd([tokens, heads, head_dim]).expect("a small shape");
    let view = View {
        shape: [1, tokens, heads, head_dim - offset],
        strides: [tokens * heads * head_dim, heads * head_dim, head_dim],
        offset,
    };
    let layout = whole
        .narrow(Dimension::Channels, offset..head_dim)
        .expect("channels");
    Placed::new(layout, view, 0)
}

#[track_caller]
pub(crate) fn same<E: Number>(got: &[E], expected: &[E], doing: &str) {
    assert_eq!(got.len(), expected.len(), "{doing}");
    let differs = |&index: &usize| got[index].bits() != expected[index].bits();
    if let Some(index) = (0..got.len()).find(differs) {
        panic!(
            "{doing}: index {index}: {:?}, not {:?}",
            got[index], expected[index]
        );
    }
}

/// Asserts equal bits, or NaN on both sides.
#[track_caller]
pub(crate) fn alike<E: Number>(got: &[E], expected: &[E], doing: &str) {
    assert_eq!(got.len(), expected.len(), "{doing}");
    let differs = |&index: &usize| {
        let (got, expected) = (got[index], expected[index]);
        got.bits() != expected.bits() && !(got.is_nan() && expected.is_nan())
    };
    let wrong = (0..got.len()).filter(differs).count();
    if let Some(index) = (0..got.len()).find(differs) {
        panic!(
            "{doing}: index {index} of {}: {:?}, not {:?}; {wrong} wrong in all",
            got.len(),
            got[index],
            expected[index]
        );
    }
}

/// Returns the channels of a pair.
pub(crate) fn members(pairing: Pairing, pair: usize, pairs: usize) -> [usize; 2] {
    match pairing {
        Pairing::Interleaved => [2 * pair, 2 * pair + 1],
        Pairing::Half => [pair, pair + pairs],
    }
}

/// Returns values between -4 and 4.
pub(crate) fn ordinary<E: Number>(source: &mut Source<'_>, len: usize) -> Vec<E> {
    (0..len).map(|_| E::from_f32(4.0 * source.unit())).collect()
}

/// Returns positions of either sign below 2^32.
pub(crate) fn far(source: &mut Source<'_>, len: usize) -> Vec<i64> {
    (0..len).map(|_| source.wide() as i64 >> 31).collect()
}
