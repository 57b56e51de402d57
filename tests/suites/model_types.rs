//! Every case of `golden/models`: what the classes of transformers rotate, by running them, against what the
//! configuration is read as. An answer is equal in every field, or there is none.
//!
//! `ROPE_MODELS=cases.jsonl` reads further cases, which `tests/golden/models.py` makes of an installed transformers;
//! `ROPE_MODELS_SHOW=1` prints each refusal.

use rope_core::{Direction, Pairing};
use rope_models::{Config, Error, Rotation};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What became of a case.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// Equal in every field.
    Right,
    /// Nothing rotates there, or transformers fails: no answer.
    RightlyRefused,
    /// The file says something that the code does not obey; equal in every field without it.
    Contradicts,
    /// It rotates, and is refused with this reason.
    Refused(String),
    /// transformers fails, and there is an answer.
    Lenient,
    /// Another answer than the code's.
    Wrong(String),
}

impl Outcome {
    fn name(&self) -> &'static str {
        match self {
            Outcome::Right => "equal in every field",
            Outcome::RightlyRefused => "refused, as nothing rotates or transformers fails",
            Outcome::Contradicts => {
                "refused for a key that the code does not obey, and equal without it"
            }
            Outcome::Refused(_) => "refused though they rotate",
            Outcome::Lenient => "answered though transformers fails",
            Outcome::Wrong(_) => "wrong",
        }
    }
}

#[test]
fn every_case_is_equal_in_every_field_or_refused() {
    let mut cases = golden();
    if let Ok(path) = std::env::var("ROPE_MODELS") {
        let text = std::fs::read_to_string(path).expect("the file of further cases");
        cases.extend(
            text.lines()
                .map(|line| serde_json::from_str(line).expect("JSON")),
        );
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut wrong, mut rotating, mut refused_types) =
        (Vec::new(), BTreeMap::new(), BTreeSet::new());
    for case in &cases {
        let (id, of_type) = (text(case, "id"), text(case, "model_type"));
        let outcome = outcome(case);
        *counts.entry(outcome.name()).or_default() += 1;
        if case["rotates"] == true {
            let answered =
                outcome != Outcome::Contradicts && !matches!(outcome, Outcome::Refused(_));
            *rotating.entry(of_type).or_insert(false) |= answered;
        }
        match outcome {
            Outcome::Wrong(why) => wrong.push(format!("{id}: {why}")),
            Outcome::Refused(why) => {
                refused_types.insert(of_type);
                if std::env::var("ROPE_MODELS_SHOW").is_ok() {
                    println!("refused {id}: {why}");
                }
            }
            Outcome::Lenient if std::env::var("ROPE_MODELS_SHOW").is_ok() => {
                println!("lenient {id}")
            }
            _ => {}
        }
    }
    for (name, count) in &counts {
        println!("{count:5} {name}");
    }
    let silent: Vec<&&str> = rotating
        .iter()
        .filter(|(_, answered)| !**answered)
        .map(|(name, _)| name)
        .collect();
    println!(
        "{} types rotate; refused in some case: {refused_types:?}; in every case: {silent:?}",
        rotating.len()
    );
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    // Of the golden cases alone: a reading that is lost turns one of these into a refusal, which is not wrong.
    if std::env::var_os("ROPE_MODELS").is_none() {
        let mut count = |outcome: Outcome| counts.remove(outcome.name()).unwrap_or(0);
        let (right, contradict) = (count(Outcome::Right), count(Outcome::Contradicts));
        let lenient = count(Outcome::Lenient);
        assert!(
            right >= 1_162 && right + contradict >= 1_340 && lenient <= 7,
            "{right} equal, {contradict} without a key, {lenient} answered though transformers fails"
        );
    }
    assert!(
        silent.len() * 20 <= rotating.len(),
        "more than 5 % of the types that rotate"
    );
}

/// The guide's table is made from the same data; `UPDATE=1` writes it.
#[test]
fn the_guide_has_the_table() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../rope-core/models/src/guide/models.md"
    );
    let page = std::fs::read_to_string(path).expect("the page");
    let (start, end) = ("<!-- models -->\n", "<!-- end of models -->");
    let (before, rest) = page.split_once(start).expect("the table's beginning");
    let (found, after) = rest.split_once(end).expect("its end");
    let made = table_of_types();
    if std::env::var("UPDATE").is_ok() && found != made {
        std::fs::write(path, [before, start, &made, end, after].concat()).expect("written");
        return;
    }
    assert!(
        found == made,
        "UPDATE=1 cargo test -p rope-tests model_types:: renews the page"
    );
}

fn table_of_types() -> String {
    const TABLE: &str = include_str!("../../rope-core/models/src/types.txt");
    let mut kinds: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut refused: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        kinds.entry(words[2]).or_default().push(words[0]);
        if let Some((_, why)) = line.split_once(" why=") {
            refused.entry(why).or_default().push(words[0]);
        }
    }
    let of = |kind: &str| kinds.get(kind).map_or(0, Vec::len);
    let paired = ["half", "interleaved", "interleaved>half", "negated"];
    let known: usize = paired.map(of).iter().sum();
    let list = |names: &[&str]| format!("`{}`", names.join("` `"));
    let mut text = format!(
        "`Config` knows the model types of transformers 5.23.0 by what their own code does, layer by layer: {known} that \
         rotate,\n{} that rotate in a way that it refuses by name, {} that do not rotate, and {} composites of parts.\n\
         Another type is refused, and so is a key that the code ignores.\n\n| pairs | model types |\n|---|---|\n",
        of("refused"),
        of("none"),
        of("part"),
    );
    for kind in paired {
        let name = match kind {
            "negated" => "half, by the negated angle",
            "interleaved>half" => "interleaved in, half out",
            kind => kind,
        };
        text += &format!("| {name} | {} |\n", list(&kinds[kind]));
    }
    text += "\n| norm of queries and keys (`NormFormula`) | model types |\n|---|---|\n";
    let mut norms: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some(formula) = words.iter().find_map(|word| word.strip_prefix("norm=")) else {
            continue;
        };
        let mut kind = match formula.split(':').next().unwrap_or_default() {
            "other" => "none of these: refused".to_string(),
            name => format!("`{}`", name.replace('-', "_").to_uppercase()),
        };
        for (word, said) in [
            ("norm-row", ", over all heads"),
            ("norm-after", ", after the rotation"),
        ] {
            if words.contains(&word) {
                kind += said;
            }
        }
        norms.entry(kind).or_default().push(words[0]);
    }
    for (kind, names) in norms {
        text += &format!("| {kind} | {} |\n", list(&names));
    }
    text += "\n| cases of `tests/golden/models`, made by running that code | |\n|---|---|\n";
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for case in golden() {
        *counts.entry(outcome(&case).name()).or_default() += 1;
    }
    for (name, count) in counts {
        text += &format!("| {name} | {count} |\n");
    }
    text += "\n| refused | because |\n|---|---|\n";
    for (why, names) in refused {
        text += &format!("| {} | {why} |\n", list(&names));
    }
    text
}

fn text<'v>(case: &'v Value, key: &str) -> &'v str {
    case[key].as_str().unwrap_or_default()
}

fn outcome(case: &Value) -> Outcome {
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
        rotates => match (config.rotation(), config.layers()) {
            (Ok(_), _) if rotates == Some(false) => Outcome::Wrong("it does not rotate".into()),
            (_, Ok(layers)) if rotates == Some(false) => {
                let chosen = case["layer_type"].as_str();
                let any = layers.iter().any(|layer| {
                    layer.rotation.is_some() && (chosen.is_none() || layer.layer_type == chosen)
                });
                match any {
                    true => Outcome::Wrong("a layer of it does not rotate".into()),
                    false => Outcome::RightlyRefused,
                }
            }
            (Ok(_), _) if text(case, "hf_error").contains("unknown to transformers") => {
                Outcome::Wrong("the type is not known".into())
            }
            (Ok(_), _) => Outcome::Lenient,
            _ => Outcome::RightlyRefused,
        },
    }
}

/// A case that rotates.
fn rotates(case: &Value, config: &Config) -> Outcome {
    let compared = |config: &Config| -> Result<Result<(), String>, Error> {
        let layers = layers_of(case);
        let chosen = case["layer_type"].as_str();
        let alike = layers.as_ref().is_none_or(|layers| {
            let attention = flags(&case["layers"]["attention"]);
            let alike = |(index, rotates): (usize, &bool)| {
                *rotates || attention.as_ref().is_some_and(|own| !own[index])
            };
            chosen.is_some() || layers.iter().enumerate().all(alike)
        });
        let single = config.rotation();
        if !alike && single.is_ok() {
            return Ok(Err(
                "layers differ, and there is one rotation for all".into()
            ));
        }
        // Where layers have rotations of their own, the case's numbers hold for some of them.
        let some_only = text(case, "note").contains("These numbers hold for layers");
        let mut found = Vec::new();
        let refusal = match single {
            Ok(rotation) => {
                found.extend(alike.then_some(rotation));
                None
            }
            Err(error) => Some(error),
        };
        if layers.is_some() || found.is_empty() {
            // That layers differ says less than what is wrong with each.
            let read = config.layers().map_err(|error| match error {
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
            let mut rotations = of_type.filter_map(|layer| layer.rotation.cloned());
            match some_only {
                true => {
                    let any = rotations.any(|rotation| difference(case, &rotation).is_ok());
                    return Ok(any.then_some(()).ok_or("none of the layers".into()));
                }
                false => found.extend(rotations),
            }
        }
        if found.is_empty() {
            return Ok(Err("no layer rotates".into()));
        }
        found.dedup();
        Ok(found
            .iter()
            .try_for_each(|rotation| difference(case, rotation)))
    };
    let error = match compared(config) {
        Ok(Ok(())) => return Outcome::Right,
        Ok(Err(why)) => return Outcome::Wrong(why),
        Err(error) => error,
    };
    // What contradicts is named, and the answer without it is the code's.
    let (mut config, mut next) = (config.clone(), error.clone());
    for _ in 0..5 {
        let key = match next {
            Error::Unread { key } => key,
            Error::Invalid { key, .. } => key.to_string(),
            Error::Unknown { value, .. } => value,
            Error::Ambiguous {
                key: "the type of scaling",
                ..
            } => "type".to_string(),
            _ => break,
        };
        config = config.without(&key);
        match compared(&config) {
            Ok(Ok(())) => return Outcome::Contradicts,
            Ok(Err(why)) => return Outcome::Wrong(format!("without {key}: {why}")),
            Err(error) => next = error,
        }
    }
    Outcome::Refused(format!("{error}; {next}"))
}

/// The model type of the part that is meant.
fn of_part(case: &Value) -> &str {
    let parts = case["part"]
        .as_str()
        .into_iter()
        .flat_map(|part| part.split('.'));
    let config = parts.fold(&case["config"], |config, part| &config[part]);
    config["model_type"].as_str().unwrap_or_default()
}

fn flags(value: &Value) -> Option<Vec<bool>> {
    let list = value.as_array()?;
    Some(list.iter().map(|flag| flag == true || flag == 1).collect())
}

fn layers_of(case: &Value) -> Option<Vec<bool>> {
    flags(&case["layers"]["rotating"])
}

/// The fields in which a rotation is not that of the case.
fn difference(case: &Value, rotation: &Rotation) -> Result<(), String> {
    let number = |key: &str| case[key].as_u64().unwrap_or(0) as usize;
    let equal = |name: &str, ours: String, theirs: String| match ours == theirs {
        true => Ok(()),
        false => Err(format!("{name} {ours} for {theirs}")),
    };
    let pairing = |key: &str| text(case, key).to_string();
    let name = |pairing| match pairing {
        Pairing::Half => "half".to_string(),
        Pairing::Interleaved => "interleaved".to_string(),
    };
    let frequencies = rotation.frequencies();
    // What models.py makes of a rotary module has no more than its frequencies.
    if text(case, "compare") != "frequencies" {
        let offset = number("offset");
        // The records of two types have the window for the head: what they concatenate it with was not followed.
        let head_dim = match of_part(case) {
            "gpt_neox_japanese" | "clvp_encoder"
                if rotation.window().len() == number("head_dim") =>
            {
                rotation.head_dim()
            }
            _ => number("head_dim"),
        };
        equal(
            "head_dim",
            rotation.head_dim().to_string(),
            head_dim.to_string(),
        )?;
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
            rotation.turns_output_back().to_string(),
            back.to_string(),
        )?;
        let values = text(case, "note").contains("Values are rotated too");
        equal(
            "values",
            rotation.rotates_values().to_string(),
            values.to_string(),
        )?;

        let axes: Vec<u64> = frequencies.pairs().map(|pair| pair.axis() as u64).collect();
        let theirs: Vec<u64> = match case["axes"].as_array() {
            Some(list) => list.iter().filter_map(Value::as_u64).collect(),
            None => vec![0; axes.len()],
        };
        equal("axes", format!("{axes:?}"), format!("{theirs:?}"))?;
    }
    let theirs = inverse(case);
    equal(
        "pairs",
        frequencies.pairs().len().to_string(),
        theirs.len().to_string(),
    )?;
    // The angles of DINOv3 count turns.
    let unit = match text(case, "note").contains("The angle is 2 pi times") {
        true => core::f64::consts::TAU,
        false => 1.0,
    };
    for (index, (pair, theirs)) in frequencies.pairs().zip(theirs).enumerate() {
        let ours = pair.inverse() / unit;
        let near = (ours - theirs).abs() <= 1e-6 * theirs.abs();
        if !near {
            return Err(format!("inverse frequency {index}: {ours} for {theirs}"));
        }
    }
    let factor = |key: &str| case[key].as_f64().unwrap_or(1.0);
    for (name, ours, theirs) in [
        (
            "attention factor",
            frequencies.attention_factor(),
            factor("attention_factor_f64"),
        ),
        (
            "softmax factor",
            frequencies.softmax_factor(),
            factor("softmax_factor"),
        ),
    ] {
        if name == "softmax factor" && text(case, "compare") == "frequencies" {
            continue;
        }
        if (ours - theirs).abs() > 1e-12 * theirs {
            return Err(format!("{name} {ours} for {theirs}"));
        }
    }
    Ok(())
}

/// The inverse frequencies of a case.
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

/// The cases, each list of inverse frequencies put where its number stands.
fn golden() -> Vec<Value> {
    let lists = rope_tests::golden::read("models/inverse_frequencies.txt");
    let lists: Vec<&str> = lists.lines().collect();
    let cases = rope_tests::golden::read("models/cases.jsonl");
    let case = |line: &str| {
        let mut case: Value = serde_json::from_str(line).expect("JSON");
        if let Some(list) = case["inv_freq"].as_u64() {
            case["inv_freq_f32_hex"] = lists[list as usize].into();
        }
        case
    };
    cases.lines().map(case).collect()
}
