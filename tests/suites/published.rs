//! Published configuration files, as their authors wrote them, and what the class that each of them names rotates:
//! every layer, its window, frequencies, factors and norm. `golden/published/README.md` has where each file is from.
//!
//! The cases are made by running those classes (`tests/golden/models.py published`), never from the crate's table.

use crate::model_types::{Outcome, outcome, types_of};
use rope_models::Config;
use rope_tests::golden;
use serde_json::Value;
use std::collections::BTreeSet;

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
        .map(|(file, _)| format!("{file:?}"))
        .collect();
    assert_eq!(cases, listed);
}
