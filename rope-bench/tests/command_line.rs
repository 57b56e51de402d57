//! The command line: a wrong request fails with a message, and leaves no file.

mod shared;

use std::fs;
use std::path::Path;

use shared::{directory, json_of, printed, refused_in};

fn refused(line: &str, because: &str) {
    refused_in(Path::new("."), line, because);
}

#[test]
fn unknown_names() {
    refused(
        "--formulation polar",
        "no formulation \"polar\"; known here are fused/",
    );
    refused("--backend sse9", "unknown backend");
    refused("--element f64", "f32, bf16, f16");
    refused("--pairing thirds", "interleaved, half");
    refused("--workload W9", "known are W1, W2");
    refused("--model gpt-9", "llama-3.1-8b");
    refused("accuracy --model gpt-9", "llama-2-7b");
    refused("accuracy --positions 1", "at least 2");
    refused("rows --backend sse9", "unknown backend");
    refused("rows --most 0", "at least 1");
    refused("call --element f64", "f32, bf16, f16");
    refused("--passes 0", "not in 1");
}

#[test]
fn impossible_requests() {
    refused("--shape 1,2,3", "not four numbers");
    refused("--shape 1,2,3,5", "channels rotate in pairs");
    refused("--shape 1,0,3,4", "at least 1");
    refused("--shape 99999999999,99999999999,1,2", "more than 4 GiB");
    refused("--threads 0", "0 threads");
    refused("--pairing half --formulation complex", "nothing to measure");
    refused("--shape 1,1,1,4 --workload W1", "cannot be used with");
    refused("--shape 1,1,1,4 --model glm-4-9b", "cannot be used with");
    let workloads = "known are prefill, decode, batch";
    refused("--model glm-4-9b --workload W1", workloads);
}

#[test]
fn foreign_files() {
    let directory = directory("foreign");
    let refused = |name: &str, text: &str, because: &str| {
        fs::write(directory.join(name), text).unwrap();
        refused_in(&directory, &format!("report {name}"), because);
    };
    refused_in(&directory, "report /no/such/file", "cannot read");
    refused_in(&directory, "report .", "no .json file");
    refused("text", "not json", "is not JSON");
    refused("list", "[1, 2]", "was not written by rope-bench");
    refused("newer", r#"{"format": "rope-bench 9"}"#, "rope-bench 9");
    refused("torn", r#"{"format": "rope-bench 3"}"#, "is damaged");
}

#[test]
fn a_run_and_its_reports() {
    let directory = directory("run");
    let printed = |line: &str| printed(&directory, line);
    let page = |name: &str| fs::read_to_string(directory.join(name)).unwrap();
    let run = printed("--shape 1,2,1,4 --element f32 --json run.json");
    assert!(run.contains("every bit right"), "{run}");
    printed("report run.json run.json -o page.html");
    let text = page("page.html");
    assert!(
        text.contains("times the roof") && text.contains("<svg") && text.ends_with("</html>\n")
    );
    // One file twice: the letters tell the runs apart.
    assert!(text.contains("limit: A run, B run</title>"));
    assert!(
        !text
            .replace("http://www.w3.org/2000/svg", "")
            .contains("http://")
    );
    // The same runs, as records in a folder, which may hold other files.
    let machine = directory.join("records/machine");
    fs::create_dir_all(&machine).unwrap();
    for date in ["2026-01-01.json", "2026-01-02.json"] {
        fs::copy(directory.join("run.json"), machine.join(date)).unwrap();
    }
    fs::write(machine.join("README.md"), "no run").unwrap();
    printed("report records -o records.html");
    let of_records = page("records.html");
    let machine = "records/machine";
    assert!(of_records.contains(&format!(
        "limit: A {machine}/2026-01-01, B {machine}/2026-01-02</title>"
    )));
    // The same drawings, under other names.
    let renamed = of_records
        .replace("records/machine/2026-01-01", "run")
        .replace("records/machine/2026-01-02", "run");
    assert_eq!(renamed, text);
    assert!(printed("compare run.json run.json").contains("0 faster, 0 slower"));
    refused_in(
        &directory,
        "compare run.json run.json --passes 3",
        "of two programs",
    );
    let program = env!("CARGO_BIN_EXE_rope-bench");
    let half = format!("compare run.json {program}");
    refused_in(&directory, &half, "two runs or two programs");
    let left = fs::read_dir(&directory).unwrap();
    let mut names = left.map(|entry| entry.unwrap().file_name());
    assert!(names.all(|name| !name.to_string_lossy().contains("partial")));
}

#[test]
fn a_workload_of_a_model() {
    let run = json_of("--model glm-4-9b --workload decode --element bf16 --passes 1");
    let cases = run["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 1);
    assert_eq!(cases[0]["workload"], "glm-4-9b/decode");
}

#[test]
fn two_programs_by_turns() {
    let program = env!("CARGO_BIN_EXE_rope-bench");
    let compare = format!("compare {program} {program} --passes 3 --");
    let measured = "--shape 1,1,2,8 --formulation fused --element f32";
    let table = printed(Path::new("."), &format!("{compare} {measured}"));
    assert!(table.contains("  fused/scalar "), "{table}");
    refused(&format!("{compare} --formulation polar"), "no formulation");
}

#[test]
fn accuracy_against_position() {
    let models = "llama-2-7b,llama-3.1-8b,qwen3-8b,gpt-neox-20b";
    let run = json_of(&format!("accuracy --model {models} --positions 64"));
    let models = run["accuracy"].as_array().unwrap();
    assert_eq!(models.len(), 4);
    for model in models {
        let errors = |name: &str| -> Vec<f64> {
            let mut methods = model["methods"].as_array().unwrap().iter();
            let method = methods.find(|method| method["name"] == name).unwrap();
            serde_json::from_value(method["errors"].clone()).unwrap()
        };
        let name = &model["model"];
        let ours = errors("rope-core");
        assert_eq!(ours.len(), 32);
        assert!(
            ours.iter().all(|&error| error <= 3.0e-8),
            "{name}: {ours:?}"
        );
        // At 1 M the others are where they are known to be.
        let (f32_angle, iterated) = (errors("f32 angle")[20], errors("iterated multiply")[20]);
        assert!((1e-2..1e-1).contains(&f32_angle), "{name}: {f32_angle}");
        assert!((3e-2..3e-1).contains(&iterated), "{name}: {iterated}");
        assert!(errors("bf16 angle")[20] > 1.9, "{name}");
        assert!(errors("f64 angle")[20] < 3.1e-8, "{name}");
    }
}

#[test]
fn rows_and_the_page_of_both() {
    let directory = directory("rows");
    let run = json_of("rows --backend scalar --most 16");
    let made = run["rows"]["made"].as_array().unwrap();
    let mut times = made.iter().map(|made| made["ns_per_pair"].as_f64());
    assert!(
        times.all(|time| time > Some(0.0)) && made.len() == 4,
        "{made:?}"
    );
    fs::write(directory.join("rows.json"), run.to_string()).unwrap();
    let accuracy = printed(&directory, "accuracy --positions 8 --json errors.json");
    assert!(accuracy.contains("2147483648"));
    printed(&directory, "report rows.json errors.json -o page.html");
    let text = fs::read_to_string(directory.join("page.html")).unwrap();
    assert!(text.contains("Making cos and sin") && text.contains("Error against position"));
}

#[test]
fn the_cost_of_a_call() {
    let run = json_of("call --backend scalar --element f32 --pairing half --passes 2");
    let cases = run["cases"].as_array().unwrap();
    let measured = |name: &str| {
        let case = cases.iter().find(|case| case["workload"] == name).unwrap();
        let measured = case["measurements"].as_array().unwrap().iter();
        let names = measured.map(|one| one["formulation"].as_str().unwrap());
        // With the feature `intrinsics`, C's calls stand beside them.
        names
            .filter(|name| !name.starts_with("capi/") && !name.starts_with("intrinsics/"))
            .collect::<Vec<_>>()
    };
    for workload in ["H1", "H40", "P2", "P128", "W3", "W5"] {
        assert_eq!(measured(workload), ["fused/scalar"], "{workload}");
    }
    assert_eq!(measured("W3n"), ["normed/scalar"]);
    let calls = run["calls"].as_array().unwrap();
    let own = calls
        .iter()
        .find(|call| call["formulation"] == "fused/scalar");
    // A head takes a positive time on any machine; times themselves mean nothing here.
    assert!(own.unwrap()["slope"].as_f64() > Some(0.0), "{calls:?}");
}

/// The passes are compared bit for bit before they are measured.
#[test]
fn gains_are_of_equal_results() {
    let table = printed(Path::new("."), "backward --backend scalar");
    assert!(
        table.contains("backward, f32, half, heads-major"),
        "{table}"
    );
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk() {
    let directory = directory("full");
    printed(&directory, "--shape 1,1,1,2 --element f32 --json run.json");
    refused_in(
        &directory,
        "report run.json -o /dev/full",
        "cannot write /dev/full",
    );
}
