//! Rotations of the classes of transformers for files with few keys: their empty and their default files, and every
//! scaling in every spelling. `golden/models/classes.jsonl` has the cases; `tests/golden/classes.py` makes them from
//! the classes' own modules of rotary embeddings, without the table of types.

use rope_models::{Config, Error, Rotation};
use rope_tests::golden;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// At most ten refused types that rotate, and the types for which the crate accepts a file that their class fails with;
/// each with its reason of [`REASONS`]. `UPDATE=1` writes the file.
const OUTCOMES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/suites/class_outcomes.txt");

/// The beginnings of lines of outcomes, and why the crate is right to differ from the class.
const REASONS: &[(&str, &str)] = &[
    (
        "blt: refused",
        "the whole states another base than its patcher, and the class reads the one of the patcher",
    ),
    (
        "fun_asr_nano: answered",
        "the class compares widths with those of its audio adaptor, which no rotation reads",
    ),
    (
        "glm4_moe: refused",
        "the class rounds 42.67 channels a head down; every published file has a head_dim",
    ),
    (
        "musicflamingo: refused",
        "its positions are times, which a plan of positions cannot rotate by",
    ),
    (
        "qwen3_omni_moe: answered",
        "as qwen3_omni_moe_talker_text, which is a part of it",
    ),
    (
        "qwen3_omni_moe_talker_text: answered",
        "the class lacks the width of an expert and not a key of the rotation; its module of rotary embeddings answers",
    ),
    (
        "qwen3_omni_moe_thinker: refused",
        "the class rounds 73.14 channels a head down; every published file has a head_dim",
    ),
    (
        "vibevoice_asr: refused",
        "the class drops a scaling beside its text model, which the file means for it",
    ),
];

const SIZES: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../rope-core/models/src/types/sizes.rs"
);

/// Types that rotate without a module of their own; `models/types.jsonl` has their rotations.
const UNSEEN: [&str; 3] = ["llama4_vision_model", "roformer", "vjepa2"];

#[test]
fn sizes_are_those_of_the_classes() {
    let source = std::fs::read_to_string(SIZES).expect("the table");
    let parts = source.lines().filter(|line| line.contains("_config "));
    let rows = source.lines();
    let rows = rows.filter_map(|line| line.strip_prefix("    \"")?.strip_suffix(';'));
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
        (r#"{"model_type": "llava", "text_config": null}"#, 128, 32),
        (r#"{"model_type": "mistral3"}"#, 128, 40),
    ] {
        let model = of(text).expect(text);
        let found = model.layers().expect(text);
        assert_eq!(found.len(), layers, "{text}");
        assert_eq!(found.rotations()[0].head_dim(), head_dim, "{text}");
    }
    let null = of(r#"{"model_type": "llama", "num_attention_heads": null}"#).expect("a llama");
    assert!(null.rotation().is_err(), "a null is not an omission");
    // These describe their text model by keys that the class does not read.
    for other in [
        r#"{"model_type": "llava", "hidden_size": 5120, "num_hidden_layers": 40}"#,
        r#"{"model_type": "vibevoice", "decoder_config": {"model_type": "qwen2", "hidden_size": 1536}}"#,
    ] {
        assert!(of(other).is_err(), "{other}");
    }
}

struct Golden {
    head: Value,
    lists: Vec<Vec<f64>>,
}

/// The reasons why a case differs.
enum Miss {
    Wrong(String),
    Listed(String),
}

const ANSWERED: &str = "answered, and its class";

impl Golden {
    fn read() -> (Self, Vec<Value>) {
        let bits = |hex: &str| u32::from_str_radix(hex, 16).expect("hex");
        let number = |hex: &str| f64::from(f32::from_bits(bits(hex)));
        let list = |line: &str| {
            let places = (0..line.len()).step_by(8);
            places.map(|at| number(&line[at..at + 8])).collect()
        };
        let lists = golden::read("models/classes_frequencies.txt");
        let lists = lists.lines().map(list).collect();
        let text = golden::read("models/classes.jsonl");
        let mut lines = text
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"));
        let head = lines.next().expect("a first line");
        (Self { head, lists }, lines.collect())
    }

    /// Compares every layer of a file with the rotation of its class; a file with keys that the class ignores is read
    /// by `lenient`. Returns true if it rotates: a file that the class fails with must be refused.
    fn compare(&self, of: &str, config: &Config, truth: &Value, own: bool) -> Result<bool, Miss> {
        let wrong = |why: String| Err(Miss::Wrong(why));
        let truth = &self.head["truths"][truth.as_u64().expect("a place") as usize];
        let config = config.clone();
        let config = config.with_length(self.head["length"].as_u64().expect("a length"));
        let strict = rotations(&config);
        let Some(truth) = truth.as_object() else {
            let answered = strict.is_ok_and(|found| !found.is_empty());
            return match answered && !UNSEEN.contains(&of) {
                true => Err(Miss::Listed(format!(
                    "{ANSWERED} {}",
                    truth.as_str().unwrap_or("does not rotate")
                ))),
                false => Ok(false),
            };
        };
        let found = match strict.or_else(|error| match own {
            true => Err(error),
            false => rotations(&config.lenient()),
        }) {
            Ok(found) => found,
            // The whole model fails, perhaps for another reason.
            Err(_) if truth.contains_key("fails") => return Ok(false),
            Err(error) => return Err(Miss::Listed(format!("refused: {error}"))),
        };
        if found.is_empty() {
            return wrong("no layer rotates".into());
        }
        for (kind, rotation) in found {
            // DeepSeek-V4 and LFM3 label the parameters by the function of the layers.
            let label = match kind.as_str() {
                "sliding_attention" => "main",
                _ => "compress",
            };
            let own = [&*kind, "", label].iter().find_map(|name| truth.get(*name));
            let Some(own) = own else {
                return wrong(format!("{kind} does not rotate"));
            };
            let list = &self.lists[own[0].as_u64().expect("a place") as usize];
            let found = same(&rotation, list, own[1].as_f64().expect("a factor"));
            found.map_err(|why| Miss::Wrong(format!("{kind} {why}")))?;
        }
        Ok(true)
    }
}

/// Returns the rotations of the layer types, or of the file if it does not give the number of layers.
fn rotations(config: &Config) -> Result<BTreeMap<String, Rotation>, Error> {
    let model = config.model()?;
    let layers = match model.layers() {
        Ok(layers) => layers,
        Err(Error::Missing { .. }) => {
            return Ok([(String::new(), model.rotation()?.clone())].into());
        }
        Err(error) => return Err(error),
    };
    let mut found = BTreeMap::new();
    for layer in layers.iter() {
        if let Some(rotation) = layer.rotation {
            let kind = layer.layer_type.unwrap_or_default();
            let known = found.entry(kind.into()).or_insert_with(|| rotation.clone());
            assert!(known == rotation, "{kind} has two rotations");
        }
    }
    Ok(found)
}

/// Returns true if a rotation has these inverse frequencies and this factor; over several axes in any order.
fn same(rotation: &Rotation, theirs: &[f64], factor: f64) -> Result<(), String> {
    let frequencies = rotation.frequencies();
    let ours: Vec<f64> = frequencies.iter().map(|pair| pair.inverse).collect();
    let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-6 * b.abs();
    let all = |a: &[f64], b: &[f64]| a.iter().all(|a| b.iter().any(|b| near((a, b))));
    let same = ours.len() == theirs.len() && ours.iter().zip(theirs).all(near);
    let alike = same || frequencies.axes() > 1 && all(&ours, theirs) && all(theirs, &ours);
    if !alike {
        let at = ours.iter().zip(theirs).position(|pair| !near(pair));
        let of = |list: &[f64]| (list.len(), at.map(|at| list[at]));
        return Err(format!(
            "pair {at:?} is {:?} for {:?}",
            of(&ours),
            of(theirs)
        ));
    }
    let own = frequencies.attention_factor();
    match (own - factor).abs() <= 1e-12 * factor {
        true => Ok(()),
        false => Err(format!("attention factor {own} for {factor}")),
    }
}

/// Returns a file of a type with a patch; `short`, `long` and `types` in the patch stand for values of the class.
fn patched(line: &Value, patch: &Value) -> Value {
    let pairs = line["pairs"].as_u64().unwrap_or(0);
    let list = |first: f64, step: f64| {
        json!(
            (0..pairs)
                .map(|n| first + n as f64 * step)
                .collect::<Vec<_>>()
        )
    };
    let text = patch.to_string();
    let text = text.replace("\"short\"", &list(1.0, 0.125).to_string());
    let text = text.replace("\"long\"", &list(2.0, 0.25).to_string());
    let mut made: Value = serde_json::from_str(&text).expect("JSON");
    if let Some(own) = made
        .get_mut("rope_parameters")
        .and_then(Value::as_object_mut)
        && let Some(each) = own.remove("types")
    {
        let kinds = line["kinds"].as_array().into_iter().flatten();
        own.extend(kinds.map(|kind| (kind.as_str().expect("a type").into(), each.clone())));
    }
    made
}

#[test]
fn every_class_is_answered_in_every_spelling() {
    let (golden, lines) = Golden::read();
    let patches = golden.head["patches"].as_array().expect("patches");
    let (mut wrong, mut listed) = (Vec::new(), BTreeMap::<_, usize>::new());
    let (mut count, mut equal) = (0, 0);
    for line in &lines {
        let name = line["model_type"].as_str().expect("a type");
        let mut compare = |case: &str, file: &Value, part: Option<(&str, &str)>, truth: &Value| {
            let of = part.map_or(name, |(_, own)| own);
            let mut file = file.clone();
            file["model_type"] = name.into();
            let config = Config::from_json(&file.to_string()).expect("JSON");
            let config = part
                .into_iter()
                .fold(config, |config, (path, _)| config.with_part(path));
            count += 1;
            // Files written by their class have no key that the class ignores.
            let own = case.starts_with("empty") || case.starts_with("saved");
            match golden.compare(of, &config, truth, own) {
                Ok(rotates) => equal += usize::from(rotates),
                Err(Miss::Wrong(why)) => wrong.push(format!("wrong: {name} {name} {case}: {why}")),
                Err(Miss::Listed(why)) => *listed.entry(format!("{name}: {why}")).or_insert(0) += 1,
            }
        };
        for (path, part) in line["parts"].as_object().into_iter().flatten() {
            let own = Some((path.as_str(), part[0].as_str().expect("a type")));
            compare(&format!("empty, {path}"), &json!({}), own, &part[1]);
            compare(&format!("saved, {path}"), &line["saved"], own, &part[1]);
        }
        if !line["truth"].is_null() {
            compare("empty", &json!({}), None, &line["truth"]);
            compare("saved", &line["saved"], None, &line["truth"]);
        }
        let of = |list: &str| line[list].as_array().cloned().unwrap_or_default();
        for (patch, truth) in patches.iter().zip(of("cases")) {
            let case = patch[0].as_str().expect("a name");
            compare(case, &patched(line, &patch[1]), None, &truth);
        }
        let scalings = patches.iter().skip(1).step_by(7);
        for ((patch, inside), beside) in scalings.zip(of("inside")).zip(of("beside")) {
            let (case, file) = (&patch[0], patched(line, &patch[1]));
            compare(&format!("{case} beside"), &file, None, &beside);
            compare(
                &format!("{case} inside"),
                &json!({"text_config": file}),
                None,
                &inside,
            );
        }
    }
    println!("{count} cases, {equal} equal, {} wrong", wrong.len());
    assert!(equal > 7_000, "{equal}");
    let made = listed.iter();
    let made: String = made
        .map(|(why, count)| format!("{why} ({count} cases): {}\n", reason(why)))
        .collect();
    let stale = REASONS.iter().find(|(start, _)| {
        let mut lines = listed.keys();
        !lines.any(|line| line.starts_with(start))
    });
    assert!(stale.is_none(), "no outcome begins with {stale:?}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let kept = std::fs::read_to_string(OUTCOMES).unwrap_or_default();
    rope_tests::snapshot::compare(OUTCOMES, &kept, &made);
    let refused = listed.keys().filter(|why| !why.contains(ANSWERED));
    assert!(refused.count() <= 10, "refused though they rotate");
}

fn reason(outcome: &str) -> &'static str {
    let found = REASONS.iter().find(|(start, _)| outcome.starts_with(start));
    let (_, reason) = found.unwrap_or_else(|| panic!("no reason for: {outcome}"));
    reason
}

/// The empty file has the number of layers of its class, with the same types in the same order.
#[test]
fn layers_of_an_empty_file_are_those_of_the_class() {
    let (_, lines) = Golden::read();
    let (mut wrong, mut count) = (Vec::new(), 0);
    for line in lines.iter().filter(|line| line["truth"].is_number()) {
        let name = line["model_type"].as_str().expect("a type");
        let Some(theirs) = line["saved"]["layer_types"].as_array() else {
            continue;
        };
        let config = Config::from_json(&json!({"model_type": name}).to_string()).expect("JSON");
        let Ok(model) = config.model() else { continue };
        let Ok(layers) = model.layers() else { continue };
        count += 1;
        // The types of equal layers have no meaning.
        let ours = layers.iter().map(|layer| layer.layer_type);
        let same = |(own, kind): (Option<&str>, &Value)| own.is_none_or(|own| kind == own);
        if layers.len() != theirs.len() || !ours.zip(theirs).all(same) {
            wrong.push(name);
        }
    }
    assert!(count > 60, "{count}");
    assert!(wrong.is_empty(), "{wrong:?}");
}
