//! Every case of `golden/models`: the rotations of the classes of transformers, found by running them, compared with
//! the rotations that the configuration gives. An answer is equal in every field, or there is none.
//!
//! `ROPE_MODELS=cases.jsonl` reads further cases, which `tests/golden/models.py` makes of an installed transformers;
//! `ROPE_MODELS_SHOW=1` prints each refusal.

use rope_core::norm::{NormFormula, NormReach};
use rope_core::stages::StageOrder;
use rope_core::{Direction, Pairing};
use rope_models::{Config, Error, Layers, ModelNorm, NormWeights, Rotation};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

/// The outcome of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Equal in every field.
    Right,
    /// Nothing rotates, or transformers fails, and there is no answer.
    RightlyRefused,
    /// The file has keys that the code ignores; this is the first. The lenient answer is equal in every field.
    Contradicts(String),
    /// The class rotates, and the crate refuses the file for this reason.
    Refused(String),
    /// transformers fails, and the crate has an answer.
    Lenient,
    /// The answer differs from the code's.
    Wrong(String),
}

impl Outcome {
    fn name(&self) -> &'static str {
        match self {
            Outcome::Right => "equal in every field",
            Outcome::RightlyRefused => "refused, as nothing rotates or transformers fails",
            Outcome::Contradicts(_) => {
                "refused for a key that the code ignores, and equal if lenient"
            }
            Outcome::Refused(_) => "refused though they rotate",
            Outcome::Lenient => "answered though transformers fails",
            Outcome::Wrong(_) => "wrong",
        }
    }
}

impl core::fmt::Display for Outcome {
    /// Writes one line for the list.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Outcome::Contradicts(key) => write!(f, "ignored: {key}"),
            Outcome::Refused(why) => write!(f, "refused: {why}"),
            Outcome::Wrong(why) => write!(f, "wrong: {why}"),
            other => f.write_str(other.name()),
        }
    }
}

/// The cases that transformers fails with and the crate answers, by type and variant (`*` stands for any), with the
/// causes of the failures, from the traces. The first that fits counts.
const REASONS: &[(&str, &str)] = &[
    (
        "*/sliding_window",
        "the class or its masks require a window, and no rotation reads its size",
    ),
    (
        "*/all-full",
        "the class or its masks require a window though no layer has one",
    ),
    (
        "qwen3_omni_moe_code2wav/by-type",
        "the class fixes the types of its layers, which rotate alike",
    ),
    ("bitnet/head", NORM_OF_WIDTH),
    ("olmoe/head", NORM_OF_WIDTH),
    ("esmc/head", NORM_OF_WIDTH),
    ("phi/head-on", NORM_OF_WIDTH),
    (
        "*/head",
        "the class makes frequencies for head_dim, which do not fit the channels that it rotates, qk_rope_head_dim",
    ),
    (
        "ministral3/*",
        "the scale of its queries requires keys of its own, and the rotation does not",
    ),
    (
        "mistral4/*",
        "the scale of its queries requires keys of its own, and the rotation does not",
    ),
    (
        "deepseek_v4/partial-beside",
        "its compressors rotate the default number of channels; queries and keys rotate those of the file",
    ),
    (
        "dots3_note_vision_encoder/*",
        "the class changes layers 25 to 41 by default, and refuses these changes in a model with fewer",
    ),
    (
        "*/nested-scalar-beside",
        "the class refuses a key beside the parameters of its types of layers, and reads it for none of them",
    ),
    (
        "published/*",
        "its files bring their own code, with which the suite `own_code` compares",
    ),
    (
        "unknown/*",
        "its files bring their own code, with which the suite `own_code` compares",
    ),
    (
        "qwen4_exp_text/bare",
        "the class requires an index head as wide as the rotated channels",
    ),
    (
        "sapiens2/deep",
        "its middle layers have 8 heads of keys by default, more than the case has of queries",
    ),
    (
        "sarvam_mla/deepseek-yarn",
        "its published files name YaRN so, for code of their own",
    ),
    (
        "zamba2/deep-on",
        "the class compares the number of layers with its default list of their types",
    ),
];

const NORM_OF_WIDTH: &str =
    "a norm beside the rotation has the width of all heads without head_dim";

/// Returns the index of the reason for a case that transformers fails with.
fn reason(id: &str) -> usize {
    let (name, variant) = id.split_once('/').expect("a type and a variant");
    let is = |pattern: &str, part: &str| pattern == "*" || pattern == part;
    let mut reasons = REASONS.iter();
    let found = reasons.position(|(pattern, _)| {
        let (of, variants) = pattern.split_once('/').expect("two patterns");
        is(of, name) && is(variants, variant)
    });
    found.unwrap_or_else(|| {
        panic!("{id}: transformers fails, the crate answers, and REASONS has no reason")
    })
}

/// The file with the outcome of each case that is neither equal nor rightly refused.
const OUTCOMES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/suites/model_outcomes.txt");

/// Every case has its recorded outcome; a new refusal is a failure as well. `UPDATE=1` writes the list of unequal
/// cases, and never a wrong one.
#[test]
fn every_case_is_equal_in_every_field_or_refused_as_listed() {
    let further = std::env::var("ROPE_MODELS").ok();
    let read: Vec<(Value, Outcome)>;
    let cases = match &further {
        Some(path) => {
            let text = std::fs::read_to_string(path).expect("the file of further cases");
            let cases = text
                .lines()
                .map(|line| serde_json::from_str(line).expect("JSON"));
            read = cases.map(with_outcome).collect();
            &read
        }
        None => outcomes(),
    };
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut wrong, mut listed) = (Vec::new(), BTreeMap::new());
    let mut reasons = BTreeSet::new();
    for (case, outcome) in cases {
        let id = text(case, "id");
        *counts.entry(outcome.name()).or_default() += 1;
        let outcome = match outcome {
            Outcome::Wrong(why) => {
                wrong.push((case, why.clone()));
                continue;
            }
            Outcome::Right | Outcome::RightlyRefused => continue,
            Outcome::Lenient if further.is_none() => {
                let place = reason(id);
                reasons.insert(place);
                format!("{outcome}: {}", REASONS[place].1)
            }
            outcome => outcome.to_string(),
        };
        // The two files of cases may have one id.
        let joined = match listed.remove(id) {
            Some((_, other)) if other != outcome => format!("{other}; {outcome}"),
            _ => outcome,
        };
        listed.insert(id, (case, joined));
    }
    for (name, count) in &counts {
        println!("{count:5} {name}");
    }
    if further.is_none() {
        for (place, (pattern, _)) in REASONS.iter().enumerate() {
            assert!(
                reasons.contains(&place),
                "no case is of the reason for {pattern}"
            );
        }
        let found = std::fs::read_to_string(OUTCOMES).unwrap_or_default();
        let made: String = listed
            .iter()
            .map(|(id, (_, outcome))| format!("{id}: {outcome}\n"))
            .collect();
        if std::env::var("UPDATE").is_ok() && found != made {
            std::fs::write(OUTCOMES, made).expect("written");
        } else {
            let expected: BTreeMap<&str, &str> = found
                .lines()
                .filter_map(|line| line.split_once(": "))
                .collect();
            for (case, _) in cases {
                let id = text(case, "id");
                let outcome = listed.get(id).map(|(_, outcome)| outcome.as_str());
                if outcome != expected.get(id).copied()
                    && !wrong.iter().any(|(c, _)| std::ptr::eq(*c, case))
                {
                    let expected = expected.get(id).unwrap_or(&"equal or rightly refused");
                    let outcome = outcome.unwrap_or("equal or rightly refused");
                    wrong.push((case, format!("{outcome}; in the list: {expected}")));
                }
            }
        }
    } else if std::env::var("ROPE_MODELS_SHOW").is_ok() {
        for (id, (_, outcome)) in &listed {
            println!("{id}: {outcome}");
        }
    }
    let lines: Vec<String> = wrong
        .iter()
        .map(|(case, why)| {
            let (root, row) = types_of(case);
            format!("wrong: {root} {row} {}: {why}", text(case, "id"))
        })
        .collect();
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        lines.join("\n")
    );
}

/// Returns the type whose row is looked up first, and the type whose row is read; for a composite this is its part's
/// type.
pub(crate) fn types_of(case: &Value) -> (String, String) {
    let root = text(&case["config"], "model_type");
    let mut config = &case["config"];
    let mut key = "text_config";
    match case["part"].as_str() {
        Some(part) => {
            for part in part.split('.') {
                (config, key) = (&config[part], part);
            }
        }
        None if config["text_config"].is_object() => config = &config["text_config"],
        None => return (root.into(), root.into()),
    }
    let own = config["model_type"].as_str().filter(|own| *own != root);
    let made = [root, "_", key.trim_end_matches("_config")].concat();
    (root.into(), own.map_or(made, String::from))
}

/// A class does not read keys that its source does not name: such keys have no effect in a file, or are refused by
/// name. `models/keys.txt` has, for each type, the keys in its source among all keys of the rows, and for `head_dim`
/// and `partial_rotary_factor` whether they change a built model. A source without `norm` has no norm.
#[test]
fn keys_that_a_class_does_not_name_change_nothing() {
    let text_of_keys = rope_tests::golden::read("models/keys.txt");
    let lists: BTreeMap<&str, BTreeSet<&str>> = text_of_keys
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(' ').or(Some((line, ""))))
        .map(|(name, keys)| (name, keys.split(' ').collect()))
        .collect();
    let all: BTreeSet<&str> = lists.values().flatten().copied().collect();
    // Every name must be in a row; others would be tried for nothing.
    let rows = include_str!("../../rope-core/models/src/types/rows.rs");
    let words: BTreeSet<&str> = rows
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .chain(["layer_types", "head_dim", "norm"])
        .chain(["rope_interleave", "rope_parameters"])
        .collect();
    for name in lists.keys() {
        assert!(rows.contains(&format!("\"{name}\"")), "{name} has no row");
    }
    for key in &all {
        assert!(words.contains(key), "no row names the key {key}");
    }
    let mut plain: BTreeMap<String, (Value, String)> = BTreeMap::new();
    for (case, outcome) in outcomes() {
        let (root, row) = types_of(case);
        if *outcome == Outcome::Right {
            plain.entry(row).or_insert_with(|| (case.clone(), root));
        }
    }
    // The other types have only a shape.
    for line in rope_tests::golden::read("models/defaults.jsonl").lines() {
        let line: Value = serde_json::from_str(line).expect("JSON");
        let row = text(&line["shape"], "model_type").to_string();
        let case = serde_json::json!({"config": line["shape"]});
        if !plain.contains_key(&row) && answers(&case["config"], &case).iter().any(Result::is_ok) {
            plain.insert(row.clone(), (case, row));
        }
    }
    let (mut wrong, mut tried) = (Vec::new(), 0);
    // With null as the head's channels, the width over the heads applies.
    let both = [false, true].into_iter();
    let tries = plain.iter().flat_map(|(row, (case, root))| {
        let tries = both.clone().map(|null| (null, case["config"].clone()));
        tries.map(move |(null, config)| (row, case, root, null, config))
    });
    for (row, case, root, null, mut own) in tries {
        let Some(named) = lists.get(row.as_str()) else {
            continue;
        };
        if null {
            part_of(&mut own, case)["head_dim"] = Value::Null;
        }
        let expected = answers(&own, case);
        let normed = |(_, _, _, norm): &Answer| norm.is_some();
        if !named.contains("norm") && expected.iter().flatten().any(normed) {
            let switches = ["use_qk_norm", "qk_layernorm"];
            let place = part_of(&mut own, case);
            if switches.iter().all(|key| place[*key] != true) {
                wrong.push(format!("wrong: {root} {row} there is a norm"));
            }
        }
        let other = |key: &&&str| !["", "layer_types", "norm"].contains(*key);
        for key in all.difference(named).filter(other) {
            let mut config = own.clone();
            let place = part_of(&mut config, case);
            // Nomic's published files have the keys of their own code.
            let own_code = row == "nomic_bert" && ["n_embd", "n_head", "n_layer"].contains(key);
            // The rotation of GPT-NeoX uses a key that its attention does not read.
            let apart = row == "gpt_neox" && *key == "head_dim";
            if own_code || apart || !place[*key].is_null() {
                continue;
            }
            place[*key] = foreign(key);
            tried += 1;
            let found = std::panic::catch_unwind(|| answers(&config, case));
            let same = found.is_ok_and(|found| {
                let unread =
                    |error: &Error| matches!(error, Error::Unread { key: own, .. } if own.ends_with(*key));
                found.len() == expected.len()
                    && found
                        .iter()
                        .zip(&expected)
                        .all(|(ours, theirs)| ours == theirs || ours.as_ref().is_err_and(unread))
                    || found
                        .iter()
                        .any(|answer| answer.as_ref().is_err_and(unread))
            });
            if !same {
                wrong.push(format!(
                    "wrong: {root} {row} the key {key} changes the answer"
                ));
            }
        }
    }
    println!("{tried} keys of {} types", plain.len());
    assert!(tried > 5000, "{tried}");
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// Returns a value that another class would use.
fn foreign(key: &str) -> Value {
    match key {
        "alibi" | "qk_layernorm" | "rotary_value" | "use_mem_rope" | "use_qk_norm" => true.into(),
        "position_embedding_type" | "qk_norm_type" => "olmo".into(),
        "attn_layer_indices"
        | "attn_type_list"
        | "cross_attention_layers"
        | "full_attn_idxs"
        | "layer_rope_theta"
        | "rope_scaling_layers" => vec![0].into(),
        "head_dim" => 40.into(),
        "partial_rotary_factor" => 0.5.into(),
        "rope_interleave" => false.into(),
        "rope_parameters" => serde_json::json!({"rope_type": "default", "rope_theta": 54321.0}),
        // No class has as many layers or heads by default.
        _ => 11.into(),
    }
}

/// Returns the object of the part that a case describes.
fn part_of<'v>(config: &'v mut Value, case: &Value) -> &'v mut Value {
    let part = case["part"].as_str().unwrap_or("text_config");
    let mut place = config;
    for part in part.split('.') {
        if place[part].is_object() {
            place = &mut place[part];
        }
    }
    place
}

/// A class has no layer types if its source does not name them.
#[test]
fn layers_have_no_types_where_a_class_names_none() {
    let keys = rope_tests::golden::read("models/keys.txt");
    let named: BTreeSet<&str> = keys
        .lines()
        .filter(|line| line.starts_with('#') || line.split(' ').any(|key| key == "layer_types"))
        .filter_map(|line| line.split(' ').next())
        .collect();
    let lists: BTreeSet<&str> = keys.lines().filter_map(|l| l.split(' ').next()).collect();
    let (mut wrong, mut tried) = (BTreeSet::new(), 0);
    for case in golden() {
        let (root, row) = types_of(&case);
        if named.contains(row.as_str()) || !lists.contains(row.as_str()) {
            continue;
        }
        let found = answers(&case["config"], &case);
        let types = found.iter().flatten().filter_map(|answer| answer.1.clone());
        tried += 1;
        if let Some(kind) = types.into_iter().next() {
            wrong.insert(format!("wrong: {root} {row} its layers are of type {kind}"));
        }
    }
    assert!(tried > 1000, "{tried}");
    let wrong: Vec<String> = wrong.into_iter().collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Types with parts that also rotate by their own keys: the class itself has a rotation, or its text model may be flat
/// in the file.
const ROTATE_WITH_PARTS: [&str; 9] = [
    "dots3_note",
    "edgetam_video",
    "fuyu",
    "hunyuan_vl",
    "moonshine_streaming",
    "paddleocr_vl",
    "pe_audio_video_encoder",
    "qwen2_vl",
    "sam3_tracker_video",
];

/// A type rotates by its own keys only if its class does: not if the class has parts, and not if its source has no
/// rotation. `models/without_rotation.txt` has the names of these types.
#[test]
fn types_whose_class_does_not_rotate_are_not_answered() {
    let rotating: BTreeSet<String> = golden()
        .iter()
        .filter(|case| case["rotates"] == true && case["part"].is_null())
        .filter(|case| !case["config"]["text_config"].is_object())
        .map(|case| text(&case["config"], "model_type").to_string())
        .collect();
    let names = rope_tests::golden::read("models/without_rotation.txt");
    let names = names.lines().filter(|line| !line.starts_with('#'));
    let (mut wrong, mut tried) = (Vec::new(), 0);
    for name in names.filter(|name| !rotating.contains(*name)) {
        let config = serde_json::json!({
            "model_type": name, "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2,
            "max_position_embeddings": 128,
        });
        let config = Config::from_json(&config.to_string()).expect("JSON");
        let refused = matches!(
            one_rotation(&config),
            Err(Error::Unsupported { .. }
                | Error::NothingRotates { .. }
                | Error::ChoosePart { .. })
        );
        let still = all_layers(&config).map_or(true, |layers| {
            layers.iter().all(|layer| layer.rotation.is_none())
        });
        tried += 1;
        if (refused && still) == ROTATE_WITH_PARTS.contains(&name) {
            wrong.push(format!(
                "wrong: {name} {name} rotates where its class does not, or not"
            ));
        }
    }
    assert!(tried > 400, "{tried}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A file with the default values of its class gives the answer of a file without them: `models/defaults.jsonl` has
/// both.
#[test]
fn what_a_class_has_by_default_may_be_left_out() {
    let text_of_lines = rope_tests::golden::read("models/defaults.jsonl");
    let mut wrong = Vec::new();
    let mut answered = 0;
    for line in text_of_lines.lines() {
        let line: Value = serde_json::from_str(line).expect("JSON");
        let (shape, said) = (&line["shape"], &line["said"]);
        let name = text(shape, "model_type");
        let of = |said: &Value| {
            let mut config = shape.clone();
            for (key, value) in said.as_object().into_iter().flatten() {
                config[key] = value.clone();
            }
            // Classes have keys that their code ignores.
            let config = Config::from_json(&config.to_string())
                .expect("JSON")
                .lenient();
            std::panic::catch_unwind(|| answers_of(config, &Value::Null)).unwrap_or_default()
        };
        let full = of(said);
        let bare = of(&Value::Null);
        answered += usize::from(bare.iter().any(Result::is_ok));
        let same = bare.len() == full.len()
            && bare.iter().zip(&full).all(|pair| match pair {
                // The types of equal layers have no meaning.
                (Ok((rotation, None, place, norm)), Ok((other, _, other_place, other_norm))) => {
                    (rotation, place, norm) == (other, other_place, other_norm)
                }
                (ours, theirs) => ours == theirs,
            });
        if !same {
            let differ = bare.iter().zip(&full).find(|(ours, theirs)| ours != theirs);
            wrong.push(format!("wrong: {name} {name} {differ:?}"));
        }
    }
    println!("{answered} types");
    assert!(answered > 200, "{answered}");
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// A rotation, a norm, or a layer: its type, the place of its rotation and its norm.
type Answer = (
    Option<Rotation>,
    Option<String>,
    Option<usize>,
    Option<ModelNorm>,
);

/// Returns all answers for a configuration: the rotation and the norm of all layers, then of each layer.
fn answers(config: &Value, case: &Value) -> Vec<Result<Answer, Error>> {
    answers_of(Config::from_json(&config.to_string()).expect("JSON"), case)
}

fn answers_of(mut config: Config, case: &Value) -> Vec<Result<Answer, Error>> {
    if let Some(part) = case["part"].as_str() {
        config = config.with_part(part);
    }
    let model = match config
        .with_length(case["length"].as_u64().unwrap_or(1))
        .model()
    {
        Ok(model) => model,
        Err(error) => return vec![Err(error)],
    };
    let rotation = |rotation: &Rotation| (Some(rotation.clone()), None, None, None);
    let mut found = vec![
        model.rotation().map(rotation),
        model.norm().map(|norm| (None, None, None, norm)),
    ];
    match model.layers() {
        Err(error) => found.push(Err(error)),
        Ok(layers) => {
            found.extend(layers.rotations().iter().map(rotation).map(Ok));
            found.extend(layers.iter().map(|layer| {
                let layer_type = layer.layer_type.map(String::from);
                Ok((None, layer_type, layer.rotation_index, layer.norm()?))
            }));
        }
    }
    found
}

/// The counts of the guide come from the same data; `UPDATE=1` writes them.
#[test]
fn the_guide_has_the_counts() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../rope-core/models/src/guide/models.md"
    );
    let page = std::fs::read_to_string(path).expect("the page");
    let (start, end) = ("<!-- cases -->\n", "<!-- end of cases -->");
    let (before, rest) = page.split_once(start).expect("the table's beginning");
    let (_, after) = rest.split_once(end).expect("its end");
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, outcome) in outcomes() {
        *counts.entry(outcome.name()).or_default() += 1;
    }
    let mut made =
        "| cases of `tests/golden/models`, made by running that code | |\n|---|---|\n".to_string();
    for (name, count) in counts {
        made += &format!("| {name} | {count} |\n");
    }
    let renewed = [before, start, &made, end, after].concat();
    rope_tests::snapshot::compare(path, &page, &renewed);
}

fn text<'v>(case: &'v Value, key: &str) -> &'v str {
    case[key].as_str().unwrap_or_default()
}

pub(crate) fn outcome(case: &Value) -> Outcome {
    let mut config = Config::from_json(&case["config"].to_string()).expect("JSON");
    if let Some(part) = case["part"].as_str() {
        config = config.with_part(part);
    }
    if let Some(layer_type) = case["layer_type"].as_str() {
        config = config.with_layer_type(layer_type);
    }
    let config = config.with_length(case["length"].as_u64().unwrap_or(1));
    match case["rotates"].as_bool() {
        Some(true) => rotates(case, &config),
        // The class has parts with different rotations, and the file selects none.
        Some(false) if case["composite"] == true => match one_rotation(&config) {
            Err(Error::ChoosePart { .. } | Error::NothingRotates { .. })
                if all_layers(&config).is_err() =>
            {
                Outcome::RightlyRefused
            }
            _ => Outcome::Wrong("no part was chosen".into()),
        },
        Some(false) => stands_still(case, &config),
        None => match (one_rotation(&config), all_layers(&config)) {
            (Ok(_), _)
                if text(case, "hf_error").contains("unknown to transformers")
                    && !OWN_CODE.contains(&text(case, "model_type")) =>
            {
                Outcome::Wrong("the type is not known".into())
            }
            (Ok(_), _) => Outcome::Lenient,
            (_, Ok(layers)) if !layers.rotations().is_empty() => Outcome::Lenient,
            _ => Outcome::RightlyRefused,
        },
    }
}

/// Types whose files bring their own code; the suite `own_code` compares their rows with it.
const OWN_CODE: [&str; 10] = [
    "baichuan",
    "chatglm",
    "deepseek",
    "internlm2",
    "kimi_k2",
    "minicpm",
    "minimax_text_01",
    "orion",
    "qwen",
    "xverse",
];

fn one_rotation(config: &Config) -> Result<Rotation, Error> {
    config.model()?.rotation().cloned()
}

fn all_layers(config: &Config) -> Result<Layers, Error> {
    config.model()?.layers().cloned()
}

/// Returns the outcome of a case without a rotation: every layer is without one, or the error is about that.
fn stands_still(case: &Value, config: &Config) -> Outcome {
    let chosen = case["layer_type"].as_str();
    let refusal = match one_rotation(config) {
        Ok(_) => return Outcome::Wrong("it does not rotate".into()),
        Err(error) => error,
    };
    match all_layers(config) {
        Ok(layers) => {
            let mut of_type = layers
                .iter()
                .filter(|layer| chosen.is_none() || layer.layer_type == chosen);
            match of_type.any(|layer| layer.rotation.is_some()) {
                true => Outcome::Wrong("a layer of it does not rotate".into()),
                false => Outcome::RightlyRefused,
            }
        }
        // Types that are refused by name may rotate with other keys. A file with keys of a rotation is another
        // program's.
        Err(_)
            if match &refusal {
                Error::NothingRotates { .. } | Error::Unsupported { .. } => true,
                Error::Unread { unrotated, .. } => !unrotated.is_empty(),
                _ => false,
            } =>
        {
            Outcome::RightlyRefused
        }
        // The error must say that nothing rotates; a caller could take another one for a missing key.
        Err(_) => Outcome::Refused(refusal.to_string()),
    }
}

/// Compares all fields of a case with the answers for its configuration. An error is a refusal.
fn compared(case: &Value, config: &Config) -> Result<Result<(), String>, Error> {
    if case["rotations"].is_array() {
        return by_layer(case, config);
    }
    let layers = layers_of(case);
    let chosen = case["layer_type"].as_str();
    let alike = layers.as_ref().is_none_or(|layers| {
        let attention = flags(&case["layers"]["attention"]);
        let alike = |(index, rotates): (usize, &bool)| {
            *rotates || attention.as_ref().is_some_and(|own| !own[index])
        };
        chosen.is_some() || layers.iter().enumerate().all(alike)
    });
    let single = one_rotation(config);
    if !alike && single.is_ok() {
        return Ok(Err(
            "layers differ, and there is one rotation for all".into()
        ));
    }
    let mut found = Vec::new();
    let refusal = match single {
        Ok(rotation) => {
            found.extend(alike.then_some(rotation));
            None
        }
        Err(error) => Some(error),
    };
    // If all layers are alike, the question about all layers must have an answer too.
    if let (Some(layers), Some(error)) = (&layers, &refusal)
        && chosen.is_none()
        && layers.iter().all(|rotates| *rotates)
        && all_layers(config).is_ok_and(|read| {
            read.rotations().len() == 1 && read.iter().all(|layer| layer.rotation.is_some())
        })
    {
        return Err(error.clone());
    }
    if layers.is_some() || found.is_empty() {
        // The errors of single layers say more than the error that layers differ.
        let read = all_layers(config).map_err(|error| match error {
            Error::Missing { .. } => refusal.unwrap_or(error),
            _ => error,
        })?;
        if let Some(layers) = layers {
            let ours: Vec<bool> = read.iter().map(|layer| layer.rotation.is_some()).collect();
            if ours != layers {
                return Ok(Err(format!("layers {ours:?}")));
            }
        }
        let of_type = read
            .iter()
            .filter(|layer| chosen.is_none() || layer.layer_type == chosen);
        found.extend(of_type.filter_map(|layer| layer.rotation.cloned()));
    }
    if found.is_empty() {
        return Ok(Err("no layer rotates".into()));
    }
    found.dedup();
    Ok(found
        .iter()
        .try_for_each(|rotation| difference(case, rotation)))
}

/// Compares a case with a rotation for each layer: `layers` has for each layer its place in `rotations`, null if
/// queries and keys do not rotate, and -1 if there are none.
fn by_layer(case: &Value, config: &Config) -> Result<Result<(), String>, Error> {
    let rotations = case["rotations"].as_array().expect("a list");
    let Some(layers) = case["layers"].as_array() else {
        let rotation = one_rotation(config)?;
        return match difference(&rotations[0], &rotation) {
            Ok(()) => norm(&case["norm"], config.model()?.norm()),
            wrong => Ok(wrong),
        };
    };
    let read = all_layers(config)?;
    if read.len() != layers.len() {
        return Ok(Err(format!("{} layers for {}", read.len(), layers.len())));
    }
    let types = case["types"].as_array();
    // A case has no types if the class has none, or one for all layers.
    let first = read.get(0).and_then(|layer| layer.layer_type);
    if types.is_none() && read.iter().any(|layer| layer.layer_type != first) {
        return Ok(Err("layers of different types".into()));
    }
    let mut by_type: BTreeMap<Option<&str>, BTreeSet<Option<u64>>> = BTreeMap::new();
    for (layer, rotation) in read.iter().zip(layers) {
        let index = layer.index;
        if let Some(types) = types
            && layer.layer_type != types[index].as_str()
        {
            let (ours, theirs) = (layer.layer_type, &types[index]);
            return Ok(Err(format!("layer {index}: type {ours:?} for {theirs}")));
        }
        let attention = rotation.as_i64() != Some(-1);
        let place = rotation.as_u64();
        if attention {
            by_type.entry(None).or_default().insert(place);
            by_type.entry(layer.layer_type).or_default().insert(place);
        }
        let compared = match (layer.rotation, place) {
            (None, None) => Ok(()),
            (Some(ours), Some(place)) => difference(&rotations[place as usize], ours),
            (Some(_), None) => Err("it does not rotate".to_string()),
            (None, Some(_)) => Err("it rotates".to_string()),
        };
        let of_norm = match attention {
            true => norm(of_layer(&case["norm"], index), layer.norm())?,
            false => Ok(()),
        };
        if let Err(why) = compared.and(of_norm) {
            return Ok(Err(format!("layer {index}: {why}")));
        }
    }
    let one = config.model()?.norm();
    let compared = match case["norm"].is_array() && one.is_ok() {
        true => Err("norms of layers differ, and there is one for all".to_string()),
        false if case["norm"].is_array() => Ok(()),
        false => norm(&case["norm"], one)?,
    };
    if let Err(why) = compared {
        return Ok(Err(why));
    }
    // One answer for all layers, or for the layers of a type, if they are alike; none if they differ.
    for (kind, places) in by_type {
        let config = match kind {
            Some(kind) => config.clone().with_layer_type(kind),
            None => config.clone(),
        };
        let places: Vec<Option<u64>> = places.into_iter().collect();
        match (one_rotation(&config), &places[..]) {
            (Ok(ours), [Some(place)]) => {
                if let Err(why) = difference(&rotations[*place as usize], &ours) {
                    return Ok(Err(format!("{kind:?}: {why}")));
                }
            }
            (Ok(_), _) => return Ok(Err(format!("{kind:?}: layers differ, or stand still"))),
            (Err(error), [Some(_)]) => return Err(error),
            (Err(_), _) => {}
        }
    }
    Ok(Ok(()))
}

/// Returns a field that is one value for all layers or a list with a value for each.
fn of_layer(field: &Value, index: usize) -> &Value {
    field.as_array().map_or(field, |list| &list[index])
}

/// Compares the norm of queries and keys if a case has it; `{}` is no norm.
fn norm(
    theirs: &Value,
    ours: Result<Option<ModelNorm>, Error>,
) -> Result<Result<(), String>, Error> {
    if theirs.is_null() {
        return Ok(Ok(()));
    }
    let ours = match ours {
        Err(Error::Unsupported { .. }) if theirs["formula"] == "other" => return Ok(Ok(())),
        ours => ours?,
    };
    let Some(ours) = ours else {
        return Ok(match theirs.as_object().is_some_and(|own| own.is_empty()) {
            true => Ok(()),
            false => Err(format!("no norm for {theirs}")),
        });
    };
    // The names of two formulas mean that both give the same results.
    let mut names = text(theirs, "formula").split('|');
    let alike = names.all(|name| NORMS.contains(&(ours.norm.formula, name)));
    let fields = serde_json::json!({
        "formula": theirs["formula"],
        "eps": format!("{:08x}", ours.norm.eps.to_bits()),
        "reach": match ours.norm.reach { NormReach::Head => "head", _ => "row" },
        "place": match ours.norm.order { StageOrder::BeforeRotation => "before", _ => "after" },
        "weights": match ours.weights {
            NormWeights::None => "none",
            NormWeights::Shared => "shared",
            NormWeights::PerHead => "per head",
        },
        "bias": ours.bias,
        "values": ours.values,
    });
    Ok(match alike && fields == *theirs {
        true => Ok(()),
        false => Err(format!(
            "norm {:?}, {fields} for {theirs}",
            ours.norm.formula
        )),
    })
}

/// The formulas of the recorded calls, with the names that `models.py` gives them.
const NORMS: [(NormFormula, &str); 9] = [
    (NormFormula::LLAMA, "LLAMA"),
    (NormFormula::OLMO2, "OLMO2"),
    (NormFormula::GEMMA, "GEMMA"),
    (NormFormula::OLMO2, "GEMMA3N"),
    (NormFormula::LLAMA4, "LLAMA4"),
    (NormFormula::LAYER_NORM, "COHERE"),
    (NormFormula::LAYER_NORM, "STABLE_LM"),
    (NormFormula::LAYER_NORM, "LAYER_NORM"),
    (NormFormula::CHAMELEON, "CHAMELEON"),
];

/// Returns the outcome of a case with a rotation.
fn rotates(case: &Value, config: &Config) -> Outcome {
    let error = match compared(case, config) {
        Ok(Ok(())) => return Outcome::Right,
        Ok(Err(why)) => return Outcome::Wrong(why),
        Err(error) => error,
    };
    // The error names the contradicting key, and the lenient answer is the code's.
    let Error::Unread { key, .. } = error else {
        return Outcome::Refused(error.to_string());
    };
    match compared(case, &config.clone().lenient()) {
        Ok(Ok(())) => Outcome::Contradicts(key),
        Ok(Err(why)) => Outcome::Wrong(format!("leniently, without {key}: {why}")),
        Err(other) => Outcome::Refused(format!("{key} is ignored, and then {other}")),
    }
}

fn flags(value: &Value) -> Option<Vec<bool>> {
    let list = value.as_array()?;
    Some(list.iter().map(|flag| flag == true || flag == 1).collect())
}

fn layers_of(case: &Value) -> Option<Vec<bool>> {
    flags(&case["layers"]["rotating"])
}

/// Compares the fields of a rotation with those of the case; the error has the differences.
fn difference(case: &Value, rotation: &Rotation) -> Result<(), String> {
    let number = |key: &str| case[key].as_u64().unwrap_or(0) as usize;
    let equal = |name: &str, ours: String, theirs: String| match ours == theirs {
        true => Ok(()),
        false => Err(format!("{name} {ours} for {theirs}")),
    };
    let pairing = |key: &str| text(case, key).to_string();
    // V-JEPA 2's pairs have no named pairing: each channel has a frequency of its own.
    let full_width = rotation.is_full_width();
    // Neither have heads whose parts are paired separately.
    let parts = rotation.windows().count();
    let name = |pairing| match pairing {
        Pairing::Half if parts > 1 => "blocks-half".to_string(),
        Pairing::Half => "half".to_string(),
        Pairing::Interleaved if full_width => "other".to_string(),
        Pairing::Interleaved => "interleaved".to_string(),
    };
    let frequencies = rotation.frequencies();
    equal(
        "head_dim",
        rotation.head_dim().to_string(),
        number("head_dim").to_string(),
    )?;
    let offset = number("offset");
    let window = offset..offset + number("rotary_dim");
    equal(
        "window",
        format!("{:?}", rotation.window()),
        format!("{window:?}"),
    )?;
    equal(
        "pairing in",
        name(rotation.pairing().0),
        pairing("pairing_in"),
    )?;
    equal(
        "pairing out",
        name(rotation.pairing().1),
        pairing("pairing_out"),
    )?;
    let direction = match rotation.direction() {
        Direction::Forward => 1,
        _ => -1,
    };
    equal(
        "direction",
        direction.to_string(),
        case["direction"].to_string(),
    )?;
    let back = text(case, "note").contains("also applies the opposite rotation");
    equal(
        "turned back",
        rotation.unrotates_output().to_string(),
        back.to_string(),
    )?;
    let values = text(case, "note").contains("Values are rotated too");
    equal(
        "values",
        rotation.rotates_values().to_string(),
        values.to_string(),
    )?;
    let theirs = inverse(case);
    if full_width {
        return channels(case, &theirs, rotation);
    }
    if parts > 1 {
        for (channels, pairs) in rotation.windows() {
            let half = channels.len() / 2;
            for (place, pair) in pairs.enumerate() {
                let ours =
                    serde_json::json!([channels.start + place, channels.start + place + half]);
                if case["pairs_in"][pair] != ours || case["pairs_out"][pair] != ours {
                    return Err(format!("pair {pair}: channels {ours}"));
                }
            }
        }
    }
    if case["axes_second"].is_array() {
        return Err("one angle for two channels".to_string());
    }
    equal(
        "pairs",
        frequencies.iter().len().to_string(),
        theirs.len().to_string(),
    )?;
    // A pair that does not rotate has no axis.
    for (index, pair) in frequencies.iter().enumerate() {
        let axis = match &case["axes"][index] {
            Value::Null if pair.inverse == 0.0 => continue,
            Value::Null if case["axes"].is_array() => None,
            axis => Some(axis.as_u64().unwrap_or(0)),
        };
        if axis != Some(pair.axis as u64) {
            return Err(format!("pair {index}: axis {} for {axis:?}", pair.axis));
        }
    }
    // The angles of DINOv3 are in turns.
    let unit = match text(case, "note").contains("The angle is 2 pi times") {
        true => core::f64::consts::TAU,
        false => 1.0,
    };
    for (index, (pair, theirs)) in frequencies.iter().zip(theirs).enumerate() {
        let ours = pair.inverse / unit;
        let near = (ours - theirs).abs() <= 1e-6 * theirs.abs();
        if !near {
            return Err(format!("inverse frequency {index}: {ours} for {theirs}"));
        }
    }
    factors(case, rotation)
}

/// Compares the factors of cos and sin, of scores and of logits.
fn factors(case: &Value, rotation: &Rotation) -> Result<(), String> {
    let frequencies = rotation.frequencies();
    let factor = |key: &str| case[key].as_f64().unwrap_or(1.0);
    let (attention, softmax) = (frequencies.attention_factor(), frequencies.softmax_factor());
    // The scale of the scores; cases of models with a scale of their own omit it.
    let scale = case["attention_scale"].as_f64();
    let ours = softmax / (rotation.head_dim() as f64).sqrt();
    for (name, ours, theirs) in [
        (
            "attention factor",
            attention,
            factor("attention_factor_f64"),
        ),
        ("softmax factor", softmax, factor("softmax_factor")),
        ("attention scale", ours, scale.unwrap_or(ours)),
    ] {
        let near = (ours - theirs).abs() <= 1e-12 * theirs;
        if !near {
            return Err(format!("{name} {ours} for {theirs}"));
        }
    }
    Ok(())
}

/// Compares the frequencies and axes of the channels of full-width rows. A case has them by halves: in HunYuan-VL
/// halves of the head, in V-JEPA 2 halves of each window, whose channels repeat `n` frequencies.
fn channels(case: &Value, theirs: &[f64], rotation: &Rotation) -> Result<(), String> {
    let axis = |list: &str, index: usize| case[list][index].as_u64();
    let pairs = theirs.len();
    let of_one_axis = (0..pairs).filter(|&pair| axis("axes", pair) == Some(0));
    let (n, two) = match case["axes_second"].is_array() {
        true => (pairs, "axes_second"),
        false => (of_one_axis.count(), "axes"),
    };
    let ours: Vec<_> = rotation.frequencies().iter().collect();
    if ours.len() != 2 * pairs || n == 0 {
        return Err(format!("{} channels for {pairs} pairs", ours.len()));
    }
    for (channel, ours) in ours.iter().enumerate() {
        let place = channel / (2 * n) * n + channel % n;
        let list = if channel % (2 * n) < n { "axes" } else { two };
        if axis(list, place) != Some(ours.axis as u64) {
            return Err(format!("channel {channel}: axis {}", ours.axis));
        }
        if (ours.inverse - theirs[place]).abs() > 1e-6 * theirs[place] {
            let (ours, theirs) = (ours.inverse, theirs[place]);
            return Err(format!("channel {channel}: {ours} for {theirs}"));
        }
    }
    factors(case, rotation)
}

/// Returns the inverse frequencies of a case.
fn inverse(case: &Value) -> Vec<f64> {
    let bits = |hex: &str| f64::from(f32::from_bits(u32::from_str_radix(hex, 16).expect("hex")));
    match &case["inv_freq_f32_hex"] {
        Value::String(all) => (0..all.len() / 8)
            .map(|at| bits(&all[8 * at..8 * at + 8]))
            .collect(),
        list => list
            .as_array()
            .into_iter()
            .flatten()
            .map(|hex| bits(hex.as_str().expect("hex")))
            .collect(),
    }
}

/// Returns a case with its outcome. A row that no code can read may panic; the other cases are still read
/// (tests/tools/model_mutants.py).
fn with_outcome(case: Value) -> (Value, Outcome) {
    let outcome = std::panic::catch_unwind(|| outcome(&case))
        .unwrap_or_else(|_| Outcome::Wrong("it panics".into()));
    (case, outcome)
}

/// Returns the golden cases with their outcomes, shared by three tests.
fn outcomes() -> &'static [(Value, Outcome)] {
    static ALL: OnceLock<Vec<(Value, Outcome)>> = OnceLock::new();
    ALL.get_or_init(|| golden().into_iter().map(with_outcome).collect())
}

/// Returns the cases; each list of inverse frequencies replaces its number.
fn golden() -> Vec<Value> {
    let lists = rope_tests::golden::read("models/inverse_frequencies.txt");
    let lists: Vec<&str> = lists.lines().collect();
    let cases = rope_tests::golden::read("models/cases.jsonl");
    let case = |line: &str| {
        let mut case: Value = serde_json::from_str(line).expect("JSON");
        put_list(&mut case, &lists);
        case
    };
    let mut cases: Vec<Value> = cases.lines().map(case).collect();
    cases.extend(by_type());
    cases
}

fn put_list(rotation: &mut Value, lists: &[&str]) {
    if let Some(list) = rotation["inv_freq"].as_u64() {
        rotation["inv_freq_f32_hex"] = lists[list as usize].into();
    }
}

/// Returns the cases of `models/types.jsonl`. A line has the cases of one type: common values are written once,
/// `config` has the entries that a case adds or changes (null removes a key), and `rotations` and `norms` are looked up
/// by their places.
fn by_type() -> Vec<Value> {
    let lists = rope_tests::golden::read("models/types_frequencies.txt");
    let lists: Vec<&str> = lists.lines().collect();
    let mut cases = Vec::new();
    for line in rope_tests::golden::read("models/types.jsonl").lines() {
        let of: Value = serde_json::from_str(line).expect("JSON");
        let mut rotations = of["rotations"].clone();
        for rotation in rotations.as_array_mut().into_iter().flatten() {
            put_list(rotation, &lists);
        }
        for own in of["cases"].as_array().expect("cases") {
            let mut case = own.clone();
            let name = text(&of, "model_type");
            case["id"] = format!("{name}/{}", text(own, "id")).into();
            case["model_type"] = name.into();
            let mut config = of["config"].clone();
            for (key, value) in own["config"].as_object().into_iter().flatten() {
                config[key] = value.clone();
            }
            if let Some(config) = config.as_object_mut() {
                for key in own["without"].as_array().into_iter().flatten() {
                    let gone = config.remove(key.as_str().expect("a key"));
                    assert!(gone.is_some(), "{name} has no {key} to go without");
                }
            }
            case["config"] = config;
            if let Some(layers) = own["layers"].as_str() {
                let layer = |letter: char| match letter {
                    '-' => Value::from(-1),
                    '.' => Value::Null,
                    place => place.to_digit(36).into(),
                };
                case["layers"] = layers.chars().map(layer).collect();
                case["rotations"] = rotations.clone();
            } else if let Some(place) = own["rotation"].as_u64() {
                case["rotations"] = vec![rotations[place as usize].clone()].into();
            }
            let norm = |place: &Value| match place.as_u64() {
                Some(place) => of["norms"][place as usize].clone(),
                None => Value::Null,
            };
            case["norm"] = match &own["norm"] {
                Value::Array(list) => list.iter().map(norm).collect(),
                place => norm(place),
            };
            cases.push(case);
        }
    }
    cases
}
