//! What rope-bench writes is what `schema/run.json` says, and so are the records.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

fn schema() -> Value {
    serde_json::from_str(include_str!("../schema/run.json")).unwrap()
}

/// The part of JSON Schema that the file uses. Any other keyword is an error of the schema.
fn check(value: &Value, schema: &Value, root: &Value, at: &str) -> Result<(), String> {
    let fail = |why: String| Err(format!("{at}: {why}, got {value:.60}"));
    for (keyword, said) in schema.as_object().expect("a schema is an object") {
        match keyword.as_str() {
            "$schema" | "$defs" | "title" | "description" => {}
            "$ref" => {
                let name = said.as_str().and_then(|name| name.strip_prefix('#'));
                let target = root.pointer(name.unwrap()).expect("a definition");
                check(value, target, root, at)?;
            }
            "const" if value != said => return fail(format!("not {said}")),
            "const" => {}
            "enum" if !said.as_array().unwrap().contains(value) => {
                return fail(format!("none of {said}"));
            }
            "enum" => {}
            "pattern" => {
                // The only pattern is that of a date.
                assert_eq!(said, "^[0-9]{4}-[0-9]{2}-[0-9]{2}$");
                let shape: String = value.as_str().unwrap_or_default().chars().collect();
                let shape = shape.replace(|c: char| c.is_ascii_digit(), "9");
                if shape != "9999-99-99" {
                    return fail(format!("not {said}"));
                }
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
                if !several.unwrap_or_else(|| is(said)) {
                    return fail(format!("no {said}"));
                }
            }
            "minimum" => {
                if value.as_f64().is_some_and(|x| x < said.as_f64().unwrap()) {
                    return fail(format!("below {said}"));
                }
            }
            "required" => {
                for key in said.as_array().unwrap() {
                    if value.get(key.as_str().unwrap()).is_none() {
                        return fail(format!("no key {key}"));
                    }
                }
            }
            "properties" => {
                for (key, value) in value.as_object().into_iter().flatten() {
                    if let Some(schema) = said.get(key) {
                        check(value, schema, root, &format!("{at}.{key}"))?;
                    }
                }
            }
            "additionalProperties" => {
                assert_eq!(said, false);
                for key in value
                    .as_object()
                    .into_iter()
                    .flat_map(|object| object.keys())
                {
                    if schema["properties"].get(key).is_none() {
                        return fail(format!("unknown key {key:?}"));
                    }
                }
            }
            "items" => {
                for (index, value) in value.as_array().into_iter().flatten().enumerate() {
                    check(value, said, root, &format!("{at}[{index}]"))?;
                }
            }
            other => panic!("{other} is no keyword that this test knows"),
        }
    }
    Ok(())
}

fn checked(run: &Value) -> Result<(), String> {
    check(run, &schema(), &schema(), "run")
}

fn written(arguments: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_rope-bench"))
        .args(arguments)
        .args(["--json", "-"])
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn runs_are_as_the_schema_says() {
    for arguments in [
        &["--shape", "1,2,1,4", "--backend", "scalar"][..],
        &["--shape", "1,1,1,2", "--slow-down", "fused=1.5"],
        &["--shape", "1,1,1,2", "--emulated-by", "a test"],
        &["accuracy", "--positions", "8"],
        &["rows", "--backend", "scalar", "--most", "1"],
        &[
            "call",
            "--backend",
            "scalar",
            "--element",
            "f32",
            "--passes",
            "2",
        ],
    ] {
        checked(&written(arguments)).unwrap();
    }
}

/// llvm-mca is not everywhere, nor is an emulator: what they say is made up here.
#[test]
fn predictions_and_counts_are_as_the_schema_says() {
    let mut run = written(&[
        "--shape",
        "1,1,1,2",
        "--element",
        "f32",
        "--emulated-by",
        "x",
    ]);
    run["cases"][0]["measurements"][0]["instructions"] = json!(12.5);
    run["cycles"] = json!({
        "tool": "llvm-mca 19", "head_dim": 128,
        "cpus": [{
            "name": "Zen 4", "llvm": "znver4", "architecture": "x86_64", "known": true, "units": "Zn4", "own": true,
            "here": false,
        }],
        "kernels": [{
            "architecture": "x86_64", "backend": "avx2", "element": "f32", "pairing": "half", "elements": 16,
            "instructions": 20, "spills": 0, "slots": 1, "constants": 0, "predicted": [0.5, null], "measured": 0.6,
        }],
        "here": {"cpu": "a CPU", "ns_per_cycle": 0.3},
    });
    checked(&run).unwrap();
    // Both readers agree: the schema, and the program.
    let run: rope_bench::results::Run = serde_json::from_value(run).unwrap();
    checked(&serde_json::to_value(&run).unwrap()).unwrap();
    assert_eq!(run.cycles.unwrap().kernels[0].predicted, [Some(0.5), None]);
}

#[test]
fn other_documents_are_refused() {
    let run = written(&["--shape", "1,1,1,2", "--element", "f32"]);
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
    refused("/machine/cores", Some(json!(0)), "below 1");
    refused("/machine/vendor", Some(json!("x")), "unknown key");
    refused("/cases/0/element", Some(json!("f64")), "f32");
    refused(
        "/cases/0/measurements/0/time/minimum",
        Some(json!(null)),
        "number",
    );
    refused(
        "/cases/0/measurements/0/ratios/0/spread",
        Some(json!(-1)),
        "below 0",
    );
}

#[test]
fn emulated_runs_have_no_times() {
    let run = written(&[
        "--shape",
        "1,1,1,2",
        "--element",
        "f32",
        "--emulated-by",
        "a test",
    ]);
    let case = &run["cases"][0];
    assert_eq!(case["roofs"], json!([]));
    let measured = case["measurements"][0].as_object().unwrap();
    assert!(!measured.contains_key("time") && !measured.contains_key("ratios"));
    assert_eq!(measured["error"], 0.0);
}

#[test]
fn a_record_is_a_run() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("records");
    let _ = fs::remove_dir_all(&folder);
    let output = Command::new(env!("CARGO_BIN_EXE_rope-bench"))
        .args([
            "record",
            "--shape",
            "1,16,2,8",
            "--element",
            "f32",
            "--records",
        ])
        .arg(&folder)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let records = records(&folder);
    assert_eq!(records.len(), 1);
    let (path, record) = &records[0];
    assert_eq!(path.file_stem().unwrap().to_str(), record["date"].as_str());
    checked(record).unwrap();
    assert!(record["load"]["others"].as_f64() >= Some(0.0));
    let claim = record["record"]["claim"].as_f64().unwrap();
    let mut kept = 0;
    for measured in record["cases"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|case| case["measurements"].as_array().unwrap())
    {
        let ratios = measured["ratios"].as_array().unwrap();
        assert_eq!(ratios[0]["over"], "roof");
        assert!(
            ratios
                .iter()
                .all(|ratio| ratio["spread"].as_f64() <= Some(claim))
        );
        kept += 1;
    }
    let refused = record["record"]["refused"].as_array().unwrap();
    assert!(
        refused
            .iter()
            .all(|line| line["spread"].as_f64() > Some(claim))
    );
    let of_cases = refused.iter().filter(|line| line["over"] == "roof").count();
    // Two pairings, and each formulation either kept or refused.
    let all = written(&["--shape", "1,16,2,8", "--element", "f32"]);
    let all = all["cases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|case| case["measurements"].as_array().unwrap().len());
    assert_eq!(kept + of_cases, all.sum::<usize>());
}

/// The runs of the folders in a folder.
fn records(folder: &Path) -> Vec<(PathBuf, Value)> {
    let mut records = Vec::new();
    for machine in fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
    {
        if machine.is_dir() {
            for path in fs::read_dir(machine)
                .unwrap()
                .map(|entry| entry.unwrap().path())
            {
                if path.ends_with(rope_bench::tune::FILE) {
                    continue;
                }
                let text = fs::read_to_string(&path).unwrap();
                records.push((path, serde_json::from_str(&text).unwrap()));
            }
        }
    }
    records
}

#[test]
fn the_records_are_as_the_schema_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("records");
    for (path, record) in records(&folder) {
        if let Err(error) = checked(&record) {
            panic!("{}: {error}", path.display());
        }
    }
}
