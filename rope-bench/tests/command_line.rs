//! The command line: what is wrong with a request is said, with a non-zero exit and no file left behind.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

fn rope_bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rope-bench"))
        .args(arguments)
        .output()
        .unwrap()
}

fn refused(arguments: &[&str], because: &str) {
    let Output { status, stderr, .. } = rope_bench(arguments);
    let message = String::from_utf8_lossy(&stderr);
    assert!(!status.success(), "{arguments:?} was accepted");
    assert!(message.contains(because), "{arguments:?}: {message}");
}

fn directory(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}

#[test]
fn unknown_names() {
    refused(
        &["--formulation", "polar"],
        "no formulation \"polar\"; known here are fused/",
    );
    refused(&["--backend", "sse9"], "unknown backend");
    refused(&["--element", "f64"], "f32, bf16, f16");
    refused(&["--pairing", "thirds"], "interleaved, half");
    refused(&["--workload", "W9"], "known are W1, W2");
    refused(&["--model", "gpt-9"], "llama-3.1-8b");
    refused(&["accuracy", "--model", "gpt-9"], "llama-2-7b");
    refused(&["accuracy", "--positions", "1"], "at least 2");
    refused(&["rows", "--backend", "sse9"], "unknown backend");
    refused(&["rows", "--most", "0"], "at least 1");
    refused(&["call", "--element", "f64"], "f32, bf16, f16");
    refused(&["--slow-down", "fused=0.5"], "NAME=FACTOR");
    refused(&["--passes", "0"], "not in 1");
}

#[test]
fn impossible_requests() {
    refused(&["--shape", "1,2,3"], "not four numbers");
    refused(&["--shape", "1,2,3,5"], "channels rotate in pairs");
    refused(&["--shape", "1,0,3,4"], "at least 1");
    refused(
        &["--shape", "99999999999,99999999999,1,2"],
        "more than 4 GiB",
    );
    refused(&["--threads", "0"], "0 threads");
    refused(
        &["--pairing", "half", "--formulation", "complex"],
        "nothing to measure",
    );
}

#[test]
fn foreign_files() {
    let directory = directory("foreign");
    let file = |name: &str, text: &str| {
        let path = directory.join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    refused(&["report", "/no/such/file"], "cannot read");
    refused(&["report", directory.to_str().unwrap()], "no .json file");
    refused(&["report", &file("text", "not json")], "is not JSON");
    refused(
        &["report", &file("list", "[1, 2]")],
        "was not written by rope-bench",
    );
    refused(
        &["report", &file("newer", r#"{"format": "rope-bench 9"}"#)],
        "rope-bench 9",
    );
    refused(
        &["report", &file("torn", r#"{"format": "rope-bench 3"}"#)],
        "is damaged",
    );
}

#[test]
fn a_run_and_its_reports() {
    let directory = directory("run");
    let path = |name: &str| directory.join(name).to_str().unwrap().to_owned();
    let (json, page) = (path("run.json"), path("page.html"));
    let run = rope_bench(&["--shape", "1,2,1,4", "--element", "f32", "--json", &json]);
    assert!(
        run.status.success(),
        "{}",
        String::from_utf8_lossy(&run.stderr)
    );
    assert!(String::from_utf8_lossy(&run.stdout).contains("every bit right"));
    assert!(
        rope_bench(&["report", &json, &json, "-o", &page])
            .status
            .success()
    );
    let text = fs::read_to_string(&page).unwrap();
    assert!(
        text.contains("times the roof") && text.contains("<svg") && text.ends_with("</html>\n")
    );
    // One file twice: the letters tell the runs apart.
    assert!(text.contains("limit: A run, B run</title>"));
    assert!(
        !text.contains("http://")
            || !text
                .replace("http://www.w3.org/2000/svg", "")
                .contains("http://")
    );
    // The same runs, as records in a folder, which may hold other files.
    let (records, of_records) = (directory.join("records"), path("records.html"));
    let machine = records.join("machine");
    fs::create_dir_all(&machine).unwrap();
    fs::copy(&json, machine.join("2026-01-01.json")).unwrap();
    fs::copy(&json, machine.join("2026-01-02.json")).unwrap();
    fs::write(records.join("README.md"), "no run").unwrap();
    let records = records.to_str().unwrap();
    assert!(
        rope_bench(&["report", records, "-o", &of_records])
            .status
            .success()
    );
    let of_records = fs::read_to_string(&of_records).unwrap();
    assert!(of_records.contains("limit: A 2026-01-01, B 2026-01-02</title>"));
    // The same drawings, under other names.
    let renamed = of_records
        .replace("2026-01-01", "run")
        .replace("2026-01-02", "run");
    assert_eq!(renamed, text);
    let compared = rope_bench(&["compare", &json, &json]);
    assert!(String::from_utf8_lossy(&compared.stdout).contains("0 faster, 0 slower"));
    refused(
        &["compare", &json, &json, "--passes", "3"],
        "of two programs",
    );
    let program = env!("CARGO_BIN_EXE_rope-bench");
    refused(&["compare", &json, program], "two runs or two programs");
    let left = fs::read_dir(&directory).unwrap().filter(|entry| {
        entry
            .as_ref()
            .unwrap()
            .file_name()
            .to_string_lossy()
            .contains("partial")
    });
    assert_eq!(left.count(), 0);
}

fn json_of(arguments: &[&str]) -> serde_json::Value {
    let Output {
        status,
        stdout,
        stderr,
    } = rope_bench(arguments);
    assert!(
        status.success(),
        "{arguments:?}: {}",
        String::from_utf8_lossy(&stderr)
    );
    serde_json::from_slice(&stdout).unwrap()
}

#[test]
fn two_programs_by_turns() {
    let program = env!("CARGO_BIN_EXE_rope-bench");
    let options = [
        "compare",
        program,
        program,
        "--slow-down",
        "fused=3",
        "--passes",
        "3",
        "--",
    ];
    let measured = [
        "--shape",
        "1,1,2,8",
        "--formulation",
        "fused",
        "--element",
        "f32",
    ];
    let Output { status, stdout, .. } = rope_bench(&[&options[..], &measured].concat());
    let table = String::from_utf8_lossy(&stdout);
    assert!(
        status.success() && table.contains("B was slowed down on purpose: fused=3"),
        "{table}"
    );
    assert!(table.contains("  fused/scalar "), "{table}");
    refused(
        &[&options[..], &["--formulation", "polar"]].concat(),
        "no formulation",
    );
}

#[test]
fn accuracy_against_position() {
    let run = json_of(&[
        "accuracy",
        "--model",
        "llama-2-7b,llama-3.1-8b,qwen3-8b,gpt-neox-20b",
        "--positions",
        "64",
        "--json",
        "-",
    ]);
    let models = run["accuracy"].as_array().unwrap();
    assert_eq!(models.len(), 4);
    for model in models {
        let errors = |name: &str| -> Vec<f64> {
            let methods = model["methods"].as_array().unwrap();
            let method = methods.iter().find(|method| method["name"] == name);
            let errors = method.unwrap()["errors"].as_array().unwrap();
            errors.iter().map(|error| error.as_f64().unwrap()).collect()
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
    let path = |name: &str| directory.join(name).to_str().unwrap().to_owned();
    let (rows, errors, page) = (path("rows.json"), path("errors.json"), path("page.html"));
    let run = json_of(&["rows", "--backend", "scalar", "--most", "16", "--json", "-"]);
    let made = run["rows"]["made"].as_array().unwrap();
    assert_eq!(made.len(), 4);
    assert!(
        made.iter()
            .all(|made| made["ns_per_pair"].as_f64() > Some(0.0))
    );
    let rotated = run["rows"]["rotated"].as_array().unwrap();
    assert!(
        rotated
            .iter()
            .all(|rotated| rotated["ratio"].as_f64() > Some(0.0))
    );
    fs::write(&rows, run.to_string()).unwrap();
    let run = rope_bench(&["accuracy", "--positions", "8", "--json", &errors]);
    assert!(run.status.success());
    assert!(String::from_utf8_lossy(&run.stdout).contains("2147483648"));
    assert!(
        rope_bench(&["report", &rows, &errors, "-o", &page])
            .status
            .success()
    );
    let text = fs::read_to_string(&page).unwrap();
    assert!(text.contains("Making cos and sin") && text.contains("Error against position"));
}

#[test]
fn the_cost_of_a_call() {
    let one = ["call", "--backend", "scalar", "--element", "f32"];
    let run = json_of(
        &[
            &one[..],
            &["--pairing", "half", "--passes", "2", "--json", "-"],
        ]
        .concat(),
    );
    let cases = run["cases"].as_array().unwrap();
    let named = |name: &str| cases.iter().find(|case| case["workload"] == name);
    for workload in ["H1", "H40", "P2", "P128", "W3", "W5"] {
        let measured = &named(workload).unwrap()["measurements"][0];
        assert_eq!(measured["formulation"], "fused/scalar", "{workload}");
    }
    let normed = &named("W3n").unwrap()["measurements"];
    assert_eq!(normed.as_array().unwrap().len(), 2);
    assert_eq!(normed[0]["formulation"], "normed/scalar");
    assert_eq!(normed[1]["formulation"], "normed/scalar/two-calls");
    let calls = run["calls"].as_array().unwrap();
    assert_eq!(calls.len(), 1, "{calls:?}");
    // A head takes a positive time on any machine; times themselves mean nothing here.
    assert!(calls[0]["slope"].as_f64() > Some(0.0), "{calls:?}");
    assert_eq!(calls[0]["formulation"], "fused/scalar");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk() {
    let directory = directory("full");
    let json = directory.join("run.json").to_str().unwrap().to_owned();
    assert!(
        rope_bench(&["--shape", "1,1,1,2", "--element", "f32", "--json", &json])
            .status
            .success()
    );
    refused(
        &["report", &json, "-o", "/dev/full"],
        "cannot write /dev/full",
    );
}
