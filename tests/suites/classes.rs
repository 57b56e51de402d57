//! What the classes of transformers answer for files that say little: their empty and their default files, and every
//! scaling in every spelling. `golden/models/classes.jsonl` has the cases; `tests/golden/classes.py` makes them by asking
//! the classes' own modules of rotary embeddings, never the table of types.
//!
//! `UPDATE=1` writes the list of those that are refused though they rotate, and never one with another answer.

use rope_models::{Config, Rotation};
use rope_tests::golden;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The cases that are refused though they rotate, each with its reason.
const REFUSED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/suites/class_refusals.txt");

const SIZES: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../rope-core/models/src/types/sizes.rs"
);

#[test]
fn sizes_are_those_of_the_classes() {
    let source = std::fs::read_to_string(SIZES).expect("the table");
    let parts = source.lines().filter(|line| line.contains("_config "));
    let rows = source
        .lines()
        .filter_map(|line| line.strip_prefix("    \"")?.strip_suffix(';'));
    let rows = rows.map(|row| row.replacen('"', "", 1));
    let rows = rows.chain(parts.map(String::from));
    let golden = golden::read("models/sizes.txt");
    assert!(rows.eq(golden.lines()), "classes.py sizes writes both");
}

#[test]
fn a_file_may_leave_its_sizes_to_the_class() {
    let of = |text: &str| Config::from_json(text).expect("JSON").model();
    for (text, head_dim, layers) in [
        (r#"{"model_type": "llama"}"#, 128, 32),
        (
            r#"{"model_type": "llava", "text_config": {"model_type": "llama", "max_position_embeddings": 4096}}"#,
            128,
            32,
        ),
        (
            r#"{"model_type": "pixtral", "head_dim": 64, "rope_theta": 10000.0}"#,
            64,
            24,
        ),
        (r#"{"model_type": "pixtral"}"#, 64, 24),
        (r#"{"model_type": "llama", "hidden_size": 2048}"#, 64, 32),
        (r#"{"model_type": "gptj", "n_embd": 2048}"#, 128, 28),
        (r#"{"model_type": "gemma3"}"#, 256, 26),
        (r#"{"model_type": "llava"}"#, 128, 32),
    ] {
        let model = of(text).expect(text);
        let found = model.layers().expect(text);
        assert_eq!(found.len(), layers, "{text}");
        assert_eq!(found.rotations()[0].head_dim(), head_dim, "{text}");
    }
    let null = of(r#"{"model_type": "llama", "num_attention_heads": null}"#);
    assert!(
        null.expect("a llama").rotation().is_err(),
        "a null is not an omission"
    );
}

/// The truths and the lists of frequencies that they name.
struct Golden {
    head: Value,
    lists: Vec<Vec<f64>>,
}

/// What becomes of a case that is not equal: another answer than the class's, or none where it has one.
enum Miss {
    Wrong(String),
    Refused(String),
}

impl Golden {
    fn read() -> (Self, Vec<Value>) {
        let bits = |hex: &str| u32::from_str_radix(hex, 16).expect("hex");
        let list = |line: &str| {
            let at = |at: usize| f64::from(f32::from_bits(bits(&line[8 * at..8 * at + 8])));
            (0..line.len() / 8).map(at).collect()
        };
        let lists = golden::read("models/classes_frequencies.txt");
        let text = golden::read("models/classes.jsonl");
        let mut lines = text
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"));
        let head = lines.next().expect("a first line");
        let lists = lists.lines().map(list).collect();
        (Self { head, lists }, lines.collect())
    }

    /// Compares every layer of a file with what its class rotates.
    fn case(&self, config: &Config, truth: &Value) -> Result<(), Miss> {
        let truth = match truth {
            Value::Number(place) => &self.head["truths"][place.as_u64().expect("a place") as usize],
            other => other,
        };
        let length = self.head["length"].as_u64().expect("a length");
        let config = config.clone().with_length(length);
        let strict = config.model().and_then(|model| model.layers().cloned());
        let Some(truth) = truth.as_object() else {
            return match strict {
                Ok(layers) if !layers.rotations().is_empty() => {
                    Err(Miss::Wrong(format!("answered, and the class says {truth}")))
                }
                _ => Ok(()),
            };
        };
        let layers = match strict.or_else(|_| config.lenient().model()?.layers().cloned()) {
            Ok(layers) => layers,
            Err(_) if truth.contains_key("fails") => return Ok(()),
            Err(error) => return Err(Miss::Refused(error.to_string())),
        };
        let mut rotated = false;
        for layer in layers.iter() {
            let Some(rotation) = layer.rotation else {
                continue;
            };
            rotated = true;
            let kind = layer.layer_type.unwrap_or_default();
            let label = if kind == "sliding_attention" {
                "main"
            } else {
                "compress"
            };
            let only = (truth.len() == 1).then(|| truth.values().next()).flatten();
            let own = [kind, "", label]
                .iter()
                .find_map(|name| truth.get(*name))
                .or(only);
            let own = own.ok_or_else(|| Miss::Wrong(format!("{kind} does not rotate")))?;
            let list = &self.lists[own[0].as_u64().expect("a place") as usize];
            let factor = own[1].as_f64().expect("a factor");
            equal(rotation, list, factor).map_err(|why| Miss::Wrong(format!("{kind} {why}")))?;
        }
        match rotated {
            true => Ok(()),
            false => Err(Miss::Wrong("no layer rotates".into())),
        }
    }
}

/// Whether a rotation has these inverse frequencies, in this order or, over several axes, in another, and this factor.
fn equal(rotation: &Rotation, theirs: &[f64], factor: f64) -> Result<(), String> {
    let frequencies = rotation.frequencies();
    let ours: Vec<f64> = frequencies.pairs().map(|pair| pair.inverse()).collect();
    let near = |a: f64, b: f64| (a - b).abs() <= 1e-6 * b.abs();
    let all = |a: &[f64], b: &[f64]| a.iter().all(|a| b.iter().any(|b| near(*a, *b)));
    let same = ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(a, b)| near(*a, *b));
    if !same && !(frequencies.axes() > 1 && all(&ours, theirs) && all(theirs, &ours)) {
        let at = ours
            .iter()
            .zip(theirs)
            .position(|(a, b)| !near(*a, *b))
            .unwrap_or(0);
        let (count, others) = (ours.len(), theirs.len());
        return Err(format!(
            "pair {at} of {count}, {others}: {} for {}",
            ours[at], theirs[at]
        ));
    }
    let own = frequencies.attention_factor();
    match (own - factor).abs() <= 1e-12 * factor {
        true => Ok(()),
        false => Err(format!("attention factor {own} for {factor}")),
    }
}

/// A patch for so many pairs and these types of layers: `short`, `long` and `types` stand for what depends on them.
fn filled(patch: &Value, line: &Value) -> Map<String, Value> {
    let mut made = patch.as_object().expect("an object").clone();
    let pairs = line["pairs"].as_u64().unwrap_or(0);
    for own in made.values_mut().filter(|own| own.is_object()) {
        let mut own = own;
        let nested = own["types"].is_object();
        if nested {
            own = &mut own["types"];
        }
        if own["short_factor"].is_string() {
            own["short_factor"] = (0..pairs).map(|n| 1.0 + n as f64 / 8.0).collect();
            own["long_factor"] = (0..pairs).map(|n| 2.0 + n as f64 / 4.0).collect();
        }
    }
    if let Some(each) = made
        .get_mut("rope_parameters")
        .and_then(|own| own.as_object_mut()?.remove("types"))
    {
        let kinds = line["kinds"].as_array().into_iter().flatten();
        let all = kinds.map(|kind| (kind.as_str().expect("a type").to_string(), each.clone()));
        made["rope_parameters"] = Value::Object(all.collect());
    }
    made
}

#[test]
fn every_class_is_answered_in_every_spelling() {
    let (golden, lines) = Golden::read();
    let patches = golden.head["patches"].as_array().expect("patches");
    let patches: Vec<_> = patches
        .iter()
        .map(|own| (own[0].as_str().expect("a name"), &own[1]))
        .collect();
    let scalings: Vec<_> = patches
        .iter()
        .filter(|(name, _)| name.ends_with("/scaling-type"))
        .collect();
    let (mut wrong, mut refused, mut count) = (Vec::new(), BTreeMap::new(), 0);
    for line in &lines {
        let name = line["model_type"].as_str().expect("a type");
        let mut try_one = |case: &str, file: &Value, part: Option<&str>, truth: &Value| {
            let config = Config::from_json(&file.to_string()).expect("JSON");
            let config = part
                .iter()
                .fold(config, |config, part| config.with_part(part));
            count += 1;
            match golden.case(&config, truth) {
                Ok(()) => {}
                Err(Miss::Wrong(why)) => wrong.push(format!("wrong: {name} {name} {case}: {why}")),
                Err(Miss::Refused(why)) => drop(refused.insert(format!("{name}/{case}"), why)),
            }
        };
        let empty = json!({"model_type": name});
        let with = |patch: Map<String, Value>| {
            let mut file = empty.clone();
            file.as_object_mut().expect("an object").extend(patch);
            file
        };
        for (path, part) in line["parts"].as_object().into_iter().flatten() {
            try_one(&format!("empty, {path}"), &empty, Some(path), &part[1]);
            try_one(
                &format!("saved, {path}"),
                &line["saved"],
                Some(path),
                &part[1],
            );
        }
        for (at, (scaling, patch)) in scalings
            .iter()
            .enumerate()
            .filter(|_| line["inside"].is_array())
        {
            let patch = filled(patch, line);
            let inside = json!({"model_type": name, "text_config": patch});
            try_one(
                &format!("{scaling}, inside"),
                &inside,
                None,
                &line["inside"][at],
            );
            try_one(
                &format!("{scaling}, beside"),
                &with(patch),
                None,
                &line["beside"][at],
            );
        }
        if !line["truth"].is_null() {
            try_one("empty", &empty, None, &line["truth"]);
            try_one("saved", &line["saved"], None, &line["truth"]);
        }
        for (at, (case, patch)) in patches
            .iter()
            .enumerate()
            .filter(|_| line["cases"].is_array())
        {
            try_one(case, &with(filled(patch, line)), None, &line["cases"][at]);
        }
    }
    println!(
        "{count} cases, {} wrong, {} refused",
        wrong.len(),
        refused.len()
    );
    let made: String = refused
        .iter()
        .map(|(case, why)| format!("{case}: {why}\n"))
        .collect();
    if std::env::var("UPDATE").is_ok() {
        std::fs::write(REFUSED, &made).expect("written");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(made, std::fs::read_to_string(REFUSED).expect("the list"));
    let types: BTreeSet<_> = refused
        .keys()
        .filter_map(|case| case.split('/').next())
        .collect();
    assert!(types.len() <= 10, "{types:?}");
}
