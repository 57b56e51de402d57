//! The golden tables, and the frequencies and configurations of the models in them.
#![allow(dead_code, reason = "each suite uses its part")]

use std::fs;
use std::path::PathBuf;

use rope_core::{Axes, Config, Frequencies, LongRope, Rows, Scaling, Yarn};
use rope_tests::golden::Bits;
use serde_json::Value;

/// Golden data, by its place in `golden/`.
pub(crate) fn path(parts: &[&str]) -> PathBuf {
    let root: PathBuf = [env!("CARGO_MANIFEST_DIR"), "golden"].iter().collect();
    parts.iter().fold(root, |path, part| path.join(part))
}

fn read(parts: &[&str]) -> String {
    let path = path(parts);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The lines of a file that are no comments, as words.
pub(crate) fn lines(file: &str) -> Vec<Vec<String>> {
    let text = read(&[file]);
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| line.split_whitespace().map(str::to_owned).collect())
        .collect()
}

/// A number in hexadecimal bits.
pub(crate) fn hex<T: Bits>(word: &str) -> T {
    T::parse(word).unwrap_or_else(|| panic!("{word:?}"))
}

/// A file whose keys may consist of several words: `cos_cr 4095 ..`.
pub(crate) struct Table {
    pub(crate) name: String,
    text: String,
}

impl Table {
    /// The table of a model.
    pub(crate) fn of(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            text: read(&["tables", &format!("{name}.txt")]),
        }
    }

    /// A file at the top.
    pub(crate) fn file(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            text: read(&[name]),
        }
    }

    /// The tables of all models, by name.
    pub(crate) fn all() -> Vec<Self> {
        let entries = fs::read_dir(path(&["tables"])).expect("golden/tables");
        let mut names: Vec<String> = entries
            .map(|entry| entry.expect("a directory that can be read").path())
            .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
            .collect();
        names.sort();
        assert!(names.len() >= 23, "{names:?}");
        names.iter().map(|name| Self::of(name)).collect()
    }

    pub(crate) fn find(&self, key: &str) -> Option<&str> {
        let after = |line: &'_ str| line.starts_with(key) && line[key.len()..].starts_with(' ');
        let line = self.text.lines().find(|line| after(line))?;
        Some(&line[key.len() + 1..])
    }

    pub(crate) fn text(&self, key: &str) -> &str {
        self.find(key)
            .unwrap_or_else(|| panic!("{} has no {key}", self.name))
    }

    pub(crate) fn bits<T: Bits>(&self, key: &str) -> Vec<T> {
        self.text(key).split_whitespace().map(hex).collect()
    }

    pub(crate) fn decimals<T: std::str::FromStr>(&self, key: &str) -> Vec<T> {
        let word = |word: &str| word.parse().ok();
        let all: Option<Vec<T>> = self.text(key).split_whitespace().map(word).collect();
        all.unwrap_or_else(|| panic!("{}: {key}", self.name))
    }

    /// The bits of all cos and then all sin of a kind (`cr`, `hf`, ..) at a position.
    pub(crate) fn row(&self, kind: &str, position: i64) -> Option<Vec<u32>> {
        let half = |function| {
            let words = self.find(&format!("{function}_{kind} {position}"))?;
            Some(words.split_whitespace().map(hex::<f32>).map(f32::to_bits))
        };
        Some(half("cos")?.chain(half("sin")?).collect())
    }
}

/// The bits of one row after the other, each all cos and then all sin.
pub(crate) fn bits(rows: &Rows<'_>) -> Vec<u32> {
    (0..rows.len())
        .flat_map(|index| {
            let (cos, sin) = rows.row(index).expect("a row that is there");
            cos.iter().chain(sin).map(|value| value.to_bits())
        })
        .collect()
}

/// The configuration file of a model.
pub(crate) fn config_file(name: &str) -> Value {
    let text = read(&["configs", &format!("{name}.json")]);
    serde_json::from_str(&text).expect("JSON")
}

/// The configuration of a golden file. The data was made from configuration classes, so the text has no `model_type`.
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
    let mut config = Config::from_json(&file["config"].to_string())
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

/// The frequencies of a table, from the parameters of its model; `attention_factor` in place of its own.
pub(crate) fn frequencies(table: &Table, attention_factor: Option<f64>) -> Frequencies<'static> {
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
        "qwen2_vl_7b_mrope" => (Axes::mrope([16, 24, 24]), 1e6, Scaling::Default),
        "glm4v_9b_mrope_partial" => (Axes::mrope([8, 12, 12]), 1e4, Scaling::Default),
        "qwen3_vl_8b_imrope" => (Axes::mrope_interleaved([24, 20, 20]), 5e6, Scaling::Default),
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
