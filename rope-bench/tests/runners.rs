//! Shell scripts as runners, right ones and wrong ones.
#![cfg(unix)]

mod shared;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use shared::{directory, rope_bench_in};

/// Copies its input to its output: right at position 0, and nowhere else.
const COPY: &str = r#"
line=$(cat)
field() { printf '%s' "$line" | sed "s/.*\"$1\":\"\([^\"]*\)\".*/\1/"; }
cp "$(field input)" "$(field output)"
"#;
const ANSWER: &str =
    r#"echo '{"version": "copy 7", "preparation": 5, "samples": [30, 20, 40, 20, 30, 20]}'"#;

fn runner(name: &str, script: &str) -> PathBuf {
    let directory = directory(&format!("runners-{name}"));
    fs::write(directory.join("run.sh"), script).unwrap();
    let description = serde_json::json!({
        "command": ["sh", "run.sh"],
        "timeout": if name == "hangs" { 1 } else { 60 },
        "formulations": [{
            "name": format!("outside/{name}"), "summary": "a copy", "source": "a test",
            "pairings": ["half"], "elements": ["f32"], "layouts": ["bshd"], "partial": false,
            "own_positions": false, "angle": "f32", "arithmetic": "f32",
        }],
    });
    fs::write(directory.join("runner.json"), description.to_string()).unwrap();
    directory
}

fn run(directory: &Path, shape: &str) -> Output {
    let line = format!("--formulation outside --shape {shape} --json - --runner .");
    rope_bench_in(directory, &line)
}

#[test]
fn a_right_runner_is_measured() {
    let run = run(&runner("right", &format!("{COPY}{ANSWER}")), "1,1,3,4");
    let errors = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{errors}");
    let run: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    let cases = run["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 1);
    let measured = &cases[0]["measurements"][0];
    assert_eq!(measured["formulation"], "outside/right");
    assert_eq!(measured["version"], "copy 7");
    assert_eq!(measured["preparation"], 5.0);
    assert_eq!(measured["error"], 0.0);
    // The program's own samples, of every pass, and not the time of starting it.
    assert_eq!(measured["time"]["minimum"], 20.0);
    assert_eq!(measured["time"]["rounds"], 36);
    assert_eq!(measured["time"]["passes"].as_array().unwrap().len(), 6);
    let roof = cases[0]["roofs"].as_array().unwrap().iter();
    let roof = roof.map(|roof| roof["time"]["minimum"].as_f64().unwrap());
    let over_roof = &measured["ratios"][0];
    assert_eq!(over_roof["over"], "roof");
    // The middle of six passes: no larger than that of the fastest roof.
    let (value, most) = (
        over_roof["value"].as_f64().unwrap(),
        20.0 / roof.fold(f64::INFINITY, f64::min),
    );
    assert!(value > 0.0 && value <= 1.0001 * most, "{value} {most}");
}

#[test]
fn wrong_runners_are_refused_by_name() {
    let right = format!("{COPY}{ANSWER}");
    let copies = |script: &str| format!("{COPY}{script}");
    let four = r#"printf 'four' >"$(field output)""#;
    for (name, script, why) in [
        // Two tokens: the second is at position 1.
        ("wrong", right.clone(), "the result is wrong by"),
        (
            "garbage",
            copies("echo hello"),
            "not the protocol's: \"hello\"",
        ),
        ("quiet", copies(""), "it ended without an answer"),
        (
            "exits",
            "echo no library >&2; exit 3".into(),
            "exit status: 3: no library",
        ),
        ("fails-late", format!("{right}; exit 4"), "exit status: 4"),
        (
            "hangs",
            copies("exec sleep 600"),
            "it had not ended after 1 s",
        ),
        (
            "few-samples",
            copies(&answer("1", "")),
            "0 samples: 1 were asked for",
        ),
        (
            "negative",
            copies(&answer("1", "-1")),
            "a time that is not positive",
        ),
        ("nameless", copies(&answer("", "1")), "names no version"),
        (
            "few-values",
            copies(&format!("{four}\n{ANSWER}")),
            "4 bytes of values: 48 were asked for",
        ),
        ("no-values", ANSWER.into(), "it wrote no values"),
    ] {
        let tokens = if name == "wrong" { 2 } else { 1 };
        let run = run(&runner(name, &script), &format!("1,{tokens},3,4"));
        let errors = String::from_utf8_lossy(&run.stderr);
        assert!(
            !run.status.success() && run.stdout.is_empty(),
            "{name}: {errors}"
        );
        assert!(errors.contains(&format!("outside/{name}")), "{errors}");
        assert!(errors.contains(why), "{name}: {errors}");
    }
}

fn answer(version: &str, samples: &str) -> String {
    format!(r#"echo '{{"version": "{version}", "samples": [{samples}]}}'"#)
}

#[test]
fn descriptions_are_checked() {
    let angles = "expected one of `exact`, `f32`, `f32-iterated`";
    for (key, value, why) in [
        ("pairings", serde_json::json!(["both"]), "both"),
        (
            "layouts",
            serde_json::json!(["sbhd"]),
            "expected `bshd` or `bhsd`",
        ),
        ("angle", serde_json::json!("f16"), angles),
        (
            "arithmetic",
            serde_json::json!("f64"),
            "expected `f32` or `element`",
        ),
        ("treads", serde_json::json!(1), "unknown field"),
    ] {
        let directory = runner(&format!("described-{key}"), "");
        let path = directory.join("runner.json");
        let mut described: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        described["formulations"][0][key] = value;
        fs::write(&path, described.to_string()).unwrap();
        let run = run(&directory, "1,1,1,4");
        let errors = String::from_utf8_lossy(&run.stderr);
        assert!(
            !run.status.success() && errors.contains(why),
            "{key}: {errors}"
        );
        assert!(errors.contains("runner.json"), "{key}: {errors}");
    }
    let nowhere = rope_bench_in(Path::new("."), "--runner /nowhere");
    assert!(String::from_utf8_lossy(&nowhere.stderr).contains("/nowhere/runner.json"));
}
