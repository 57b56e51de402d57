//! Published configuration files, as their authors wrote them, and the rotations of the classes that they name: every
//! layer, its window, frequencies, factors and norm. `golden/published/README.md` has the source of each file.
//!
//! The cases are made by running those classes (`tests/golden/models.py published`), never from the crate's table.

use crate::model_types::{Outcome, outcome, types_of};
use rope_models::{Config, Error, Rotation};
use rope_tests::golden;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

fn cases() -> Vec<Value> {
    let lines = golden::read("published/cases.jsonl");
    let cases = lines.lines().map(|line| {
        let mut case: Value = serde_json::from_str(line).expect("JSON");
        let file = case["file"].as_str().expect("a file").to_string();
        let text = golden::read(&format!("published/{file}"));
        Config::from_json(&text).expect("a configuration");
        case["config"] = serde_json::from_str(&text).expect("JSON");
        case["id"] = file.into();
        case
    });
    cases.collect()
}

#[test]
fn every_published_file_is_read_as_its_code_runs() {
    let mut wrong = Vec::new();
    for case in cases() {
        match outcome(&case) {
            Outcome::Right | Outcome::RightlyRefused => {}
            other => {
                let (root, row) = types_of(&case);
                wrong.push(format!("wrong: {root} {row} {}: {other}", case["id"]));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_published_file_has_a_case_and_a_source() {
    let sources = golden::read("published/README.md");
    let cases: BTreeSet<String> = cases().iter().map(|case| case["id"].to_string()).collect();
    assert!(cases.len() >= 30, "{}", cases.len());
    let listed: BTreeSet<String> = sources
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`'))
        .filter(|(file, _)| file.ends_with(".json"))
        .map(|(file, _)| format!("{file:?}"))
        .collect();
    assert_eq!(cases, listed);
}

/// A file of `published/files.jsonl`: the rotation of its class, and its text, which may have Python's `Infinity`.
struct File {
    name: String,
    class: Value,
    config: String,
}

fn files() -> Vec<File> {
    let lines = golden::read("published/files.jsonl");
    let files = lines.lines().map(|line| {
        let (class, config) = line.split_once(r#","config":"#).expect("a configuration");
        let class: Value = serde_json::from_str(&format!("{class}}}")).expect("JSON");
        File {
            name: class["file"].as_str().expect("a file").to_string(),
            class,
            config: config.strip_suffix('}').expect("an object").to_string(),
        }
    });
    files.collect()
}

/// Returns the cases of types outside transformers, each with its configuration.
fn own_code() -> Vec<Value> {
    let files: BTreeMap<String, String> = files()
        .into_iter()
        .map(|file| (file.name, file.config))
        .collect();
    let lines = golden::read("published/own_code.jsonl");
    let cases = lines.lines().map(|line| {
        let mut case: Value = serde_json::from_str(line).expect("JSON");
        if let Some(file) = case["file"].as_str().map(String::from) {
            case["config"] = serde_json::from_str(&files[&file]).expect("JSON");
            case["id"] = file.into();
        }
        case
    });
    cases.collect()
}

#[test]
fn every_type_of_own_code_is_read_as_that_code_runs() {
    let mut wrong = Vec::new();
    for case in own_code() {
        let outcome = outcome(&case);
        if !matches!(outcome, Outcome::Right | Outcome::RightlyRefused) {
            wrong.push(format!("{}: {outcome}", case["id"]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Files that rotate and are refused, with the beginning of the reason.
const REFUSED: [(&str, &str); 5] = [
    (
        "models_Falcon-Perception.json",
        "falcon_perception: the second half of each head rotates by learned frequencies",
    ),
    // Their classes ignore the keys of the text model, which are beside the keys of the whole.
    ("models_GLM4V.json", CHOOSE),
    ("llava_v1.5_7b.json", CHOOSE),
    // Several of its parts rotate.
    ("models_Qwen2_5_Omni.json", CHOOSE),
    // Its class does not read this part, and makes a text model with the base 10,000.
    (
        "models_Qwen3_ASR.json",
        "thinker_config.text_config.rope_scaling is ",
    ),
];

const CHOOSE: &str = "it holds parts that rotate in their own ways";

/// Returns true if an error about a missing choice names a choice with an answer.
fn has_a_choice(config: &Config, error: &Error) -> bool {
    let Error::ChoosePart { parts, text, .. } = error else {
        return true;
    };
    let of_text = parts.split(", ").find(|part| part.contains("text_config"));
    let config = config.clone();
    let chosen = match of_text {
        Some(part) => config.with_part(part),
        None => config.with_model_type(text),
    };
    let layers = chosen.model().and_then(|model| Ok(model.layers()?.len()));
    layers.is_ok_and(|layers| layers > 0)
}

/// Files whose rotation depends on the length.
const BY_LENGTH: [&str; 6] = [
    "mlc_internlm2_5_7b.json",
    "models_InternVL2_compile_files_InternVL2-4B.json",
    "mlc_minicpm_2b.json",
    "models_Qwen_compile_files_Qwen-1_8B-Chat.json",
    "qwen_7b.json",
    "tests_cpu_hfs_qwen.json",
];

/// Files without a class in transformers that do not rotate.
const STILL: [&str; 2] = ["mlc_rwkv5_3b.json", "moonshotai--Kimi-K3.json"];

/// Compares the answers for a file with the rotary modules of its class: the first and the last inverse frequency,
/// their number and the attention factor, by layer type.
fn compared(config: &Config, class: &Value) -> Result<Result<(), String>, Error> {
    for (path, frequencies) in class["rotates"].as_object().expect("modules") {
        let is = |words: &[&str]| words.iter().any(|word| path.contains(word));
        if is(&["token2wav"]) {
            continue;
        }
        let mut config = config.clone();
        let vision = is(&["vision", "visual"]);
        if vision {
            let mut parts = class["types"].as_object().expect("types").keys();
            let part = parts.rfind(|part| part.ends_with("vision_config"));
            config = config.with_part(part.expect("a part"));
        }
        let model = match config.model() {
            // The class makes the part from its defaults if the file has none.
            Err(Error::NoSuch { .. }) if vision => continue,
            model => model?,
        };
        for (kind, truth) in frequencies.as_object().expect("types of layers") {
            let mut found: Vec<&Rotation> = Vec::new();
            match vision {
                true => found.push(model.rotation()?),
                false => {
                    let layers = model.layers()?.iter();
                    let of_kind = layers.filter(|l| kind.is_empty() || l.layer_type == Some(kind));
                    found.extend(of_kind.filter_map(|layer| layer.rotation));
                }
            }
            found.dedup();
            let [rotation] = found[..] else {
                return Ok(Err(format!("{path} {kind}: {} rotations", found.len())));
            };
            if let Err(why) = same(rotation, truth) {
                return Ok(Err(format!("{path} {kind}: {why}")));
            }
        }
    }
    let [kinds, rotate] = ["layer_types", "layer_use_rope"].map(|key| &class[key]);
    if kinds.is_array() || rotate.is_array() {
        let model = config.model()?;
        for layer in model.layers()?.iter() {
            let (kind, rotates) = (&kinds[layer.index], &rotate[layer.index]);
            let same_kind = layer
                .layer_type
                .is_none_or(|own| kind.is_null() || kind == own);
            let same_rotation = rotates.is_null() || (rotates == 1) == layer.rotation.is_some();
            if !same_kind || !same_rotation {
                return Ok(Err(format!("layer {layer:?}: {kind} {rotates}")));
            }
        }
    }
    Ok(Ok(()))
}

fn same(rotation: &Rotation, truth: &Value) -> Result<(), String> {
    let mut ours: Vec<f64> = Vec::new();
    let frequencies = rotation.frequencies();
    for pair in frequencies.iter() {
        // Axes may have the same frequencies.
        if frequencies.axes() == 1 || !ours.contains(&pair.inverse) {
            ours.push(pair.inverse);
        }
    }
    let factor = frequencies.attention_factor();
    let theirs = |index: usize| truth[index].as_f64().unwrap_or(factor);
    let near = |ours: f64, theirs: f64| (ours - theirs).abs() <= 1e-6 * theirs.abs();
    let first = ours.iter().copied().fold(0.0, f64::max);
    let last = ours.iter().copied().fold(f64::INFINITY, f64::min);
    let alike = near(first, theirs(0))
        && near(last, theirs(1))
        && ours.len() as f64 == theirs(2)
        && near(factor, theirs(3));
    match alike {
        true => Ok(()),
        false => Err(format!(
            "{first} .. {last}, {} of them, factor {factor}, for {truth}",
            ours.len()
        )),
    }
}

/// Every published file that rotates gives the rotation of its class, without a length if the answer does not depend on
/// one.
#[test]
fn every_file_loads_or_is_refused_for_a_reason() {
    let cases = own_code();
    let of_own_code = |name: &str| cases.iter().find(|case| case["file"] == name);
    let (mut wrong, mut rotating, mut loaded, mut by_length) = (Vec::new(), 0, 0, Vec::new());
    for file in files() {
        let name = file.name.as_str();
        let modules = file.class["rotates"].as_object();
        let case = of_own_code(name);
        let rotates = match (modules, case) {
            (Some(modules), _) => !modules.is_empty(),
            (None, Some(case)) => case["rotates"] == true,
            (None, None) => !STILL.contains(&name),
        };
        let answer = |config: Config| match (modules, case) {
            (Some(_), _) if rotates => compared(&config, &file.class),
            (None, Some(case)) if rotates => {
                config.model()?.layers()?;
                match outcome(case) {
                    Outcome::Right => Ok(Ok(())),
                    other => Ok(Err(other.to_string())),
                }
            }
            _ => {
                let rotations = config.model()?.layers()?.rotations().len();
                Ok(match rotates == (rotations > 0) {
                    true => Ok(()),
                    false => Err(format!("{rotations} rotations")),
                })
            }
        };
        let read = Config::from_json(&file.config);
        let mut answered = read.clone().and_then(answer);
        if let (Err(Error::Missing { key }), Ok(config)) = (&answered, read)
            && key.contains("with_length")
        {
            by_length.push(name.to_string());
            answered = answer(config.with_length(1));
        }
        let refused = REFUSED.iter().find(|(refused, _)| *refused == name);
        rotating += usize::from(rotates);
        match (answered, refused) {
            (Ok(Ok(())), None) => loaded += usize::from(rotates),
            (Err(Error::NothingRotates { .. }), None) if !rotates => {}
            (Err(error), Some((_, why)))
                if error.to_string().contains(why)
                    && Config::from_json(&file.config)
                        .is_ok_and(|config| has_a_choice(&config, &error)) => {}
            (Ok(Ok(())), Some(_)) => wrong.push(format!("{name}: it is answered now")),
            (Ok(Err(why)), _) => wrong.push(format!("{name}: {why}")),
            (Err(error), _) => wrong.push(format!("{name}: {error}")),
        }
    }
    println!(
        "{loaded} of {rotating} files that rotate load, {} of them by a length",
        by_length.len()
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(by_length, BY_LENGTH);
    assert!(100 * loaded >= 95 * rotating, "{loaded} of {rotating}");
}
