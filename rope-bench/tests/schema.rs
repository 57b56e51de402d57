//! The output of rope-bench, and the records, match `schema/run.json`.

mod shared;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use shared::{directory, json_of, printed};

fn schema() -> Value {
    serde_json::from_str(include_str!("../schema/run.json")).unwrap()
}

/// Checks the keywords of JSON Schema that the file uses; panics at any other.
fn check(value: &Value, schema: &Value, root: &Value, at: &str) -> Result<(), String> {
    let keys = || value.as_object().into_iter().flatten();
    for (keyword, said) in schema.as_object().expect("a schema is an object") {
        let list = || said.as_array().expect("a list");
        let holds = match keyword.as_str() {
            "$schema" | "$defs" | "title" | "description" => true,
            "$ref" => {
                let name = said.as_str().and_then(|name| name.strip_prefix('#'));
                let target = root.pointer(name.unwrap()).expect("a definition");
                check(value, target, root, at)?;
                true
            }
            "const" => value == said,
            "enum" => list().contains(value),
            "pattern" => {
                // The only pattern is that of a date.
                assert_eq!(said, "^[0-9]{4}-[0-9]{2}-[0-9]{2}$");
                let date = value.as_str().unwrap_or_default();
                date.replace(|c: char| c.is_ascii_digit(), "9") == "9999-99-99"
            }
            "type" => {
                let is = |name: &Value| match name.as_str().unwrap() {
                    "object" => value.is_object(),
                    "array" => value.is_array(),
                    "string" => value.is_string(),
                    "boolean" => value.is_boolean(),
                    "null" => value.is_null(),
                    "number" => value.is_number(),
                    "integer" => value.is_u64() || value.is_i64(),
                    other => panic!("no type {other}"),
                };
                let several = said.as_array().map(|names| names.iter().any(is));
                several.unwrap_or_else(|| is(said))
            }
            "minimum" => value.as_f64().is_none_or(|x| x >= said.as_f64().unwrap()),
            "required" => {
                let missing = |key: &&Value| value.get(key.as_str().unwrap()).is_none();
                if let Some(key) = list().iter().find(missing) {
                    return Err(format!("{at}: no key {key}"));
                }
                true
            }
            "properties" => {
                let known = keys().filter_map(|(key, value)| Some((key, value, said.get(key)?)));
                for (key, value, schema) in known {
                    check(value, schema, root, &format!("{at}.{key}"))?;
                }
                true
            }
            "additionalProperties" => {
                assert_eq!(said, false);
                let unknown = |key: &&String| schema["properties"].get(*key).is_none();
                if let Some(key) = keys().map(|(key, _)| key).find(unknown) {
                    return Err(format!("{at}: unknown key {key:?}"));
                }
                true
            }
            "items" => {
                for (index, value) in value.as_array().into_iter().flatten().enumerate() {
                    check(value, said, root, &format!("{at}[{index}]"))?;
                }
                true
            }
            other => panic!("{other} is no keyword that this test knows"),
        };
        if !holds {
            return Err(format!("{at}: {keyword} is {said}, got {value:.60}"));
        }
    }
    Ok(())
}

fn checked(run: &Value) -> Result<(), String> {
    check(run, &schema(), &schema(), "run")
}

#[test]
fn runs_are_as_the_schema_says() {
    for line in [
        "--shape 1,2,1,4 --backend scalar",
        "--shape 1,1,1,2 --emulated-by test",
        "accuracy --positions 8",
        "rows --backend scalar --most 1",
        "call --backend scalar --element f32 --passes 2",
    ] {
        checked(&json_of(line)).unwrap();
    }
}

#[test]
fn other_documents_are_refused() {
    let run = json_of("--shape 1,1,1,2 --element f32");
    let refused = |pointer: &str, value: Option<Value>, why: &str| {
        let mut other = run.clone();
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        let parent = other.pointer_mut(parent).unwrap().as_object_mut().unwrap();
        match value {
            Some(value) => parent.insert(key.into(), value),
            None => parent.remove(key),
        };
        let error = checked(&other).expect_err(pointer);
        assert!(error.contains(why), "{error}");
    };
    checked(&run).unwrap();
    refused("/format", Some(json!("rope-bench 2")), "rope-bench 3");
    refused("/date", Some(json!("31.1.2026")), "0-9");
    refused("/machine/cores", None, "no key \"cores\"");
    refused("/machine/cores", Some(json!(0)), "minimum is 1");
    refused("/machine/vendor", Some(json!("x")), "unknown key");
    refused("/cases/0/element", Some(json!("f64")), "f32");
    let measured = "/cases/0/measurements/0";
    refused(
        &format!("{measured}/time/minimum"),
        Some(json!(null)),
        "number",
    );
    refused(
        &format!("{measured}/ratios/0/spread"),
        Some(json!(-1)),
        "minimum is 0",
    );
}

#[test]
fn emulated_runs_have_no_times() {
    let run = json_of("--shape 1,1,1,2 --element f32 --emulated-by test");
    let case = &run["cases"][0];
    assert_eq!(case["roofs"], json!([]));
    let measured = case["measurements"][0].as_object().unwrap();
    assert!(!measured.contains_key("time") && !measured.contains_key("ratios"));
    assert_eq!(measured["error"], 0.0);
}

#[test]
fn a_record_is_a_run() {
    let folder = directory("records");
    printed(&folder, "record --shape 1,16,2,8 --element f32 --records .");
    let records = records(&folder);
    assert_eq!(records.len(), 1);
    let (path, record) = &records[0];
    assert_eq!(path.file_stem().unwrap().to_str(), record["date"].as_str());
    checked(record).unwrap();
    assert!(record["load"]["others"].as_f64() >= Some(0.0));
    let claim = record["record"]["claim"].as_f64();
    let kept = measurements(record);
    for measured in &kept {
        let ratios = measured["ratios"].as_array().unwrap();
        assert_eq!(ratios[0]["over"], "roof");
        assert!(ratios.iter().all(|ratio| ratio["spread"].as_f64() <= claim));
    }
    let refused = record["record"]["refused"].as_array().unwrap();
    assert!(refused.iter().all(|line| line["spread"].as_f64() > claim));
    let of_cases = refused.iter().filter(|line| line["over"] == "roof").count();
    // Each formulation is either kept or refused.
    let all = json_of("--shape 1,16,2,8 --element f32");
    assert_eq!(kept.len() + of_cases, measurements(&all).len());
}

/// Returns the measurements of all cases.
fn measurements(run: &Value) -> Vec<&Value> {
    let cases = run["cases"].as_array().unwrap().iter();
    cases
        .flat_map(|case| case["measurements"].as_array().unwrap())
        .collect()
}

/// Returns the runs below a folder.
fn records(folder: &Path) -> Vec<(PathBuf, Value)> {
    let mut files = Vec::new();
    rope_report::files::recorded(folder, &mut files).unwrap();
    let read = |path: &PathBuf| serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let records = files.into_iter().map(|path| (path.clone(), read(&path)));
    records.collect()
}

#[test]
fn the_records_are_as_the_schema_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("records");
    for (path, record) in records(&folder) {
        if let Err(error) = checked(&record) {
            panic!("{}: {error}", path.display());
        }
        // Both readers agree: the schema, and the program.
        let run: rope_report::results::Run = serde_json::from_value(record).unwrap();
        checked(&serde_json::to_value(&run).unwrap()).unwrap();
    }
}
