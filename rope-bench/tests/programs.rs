//! The kept measurements of frameworks' programs.
#![cfg(unix)]

use std::path::PathBuf;

use rope_bench::commands::programs::{ProgramRun, Programs, keep};

fn printed(text: &str) -> [String; 3] {
    ["sh", "-c", text].map(String::from)
}

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

#[test]
fn lines_of_a_program_are_kept() {
    let path = file("kept.json");
    let line = r#"{"name": "bf16, token", "values": {"ours": 0.25, "theirs": 1e-6}}"#;
    keep(&path, &printed(&format!("echo '{line}'; echo '{line}'"))).unwrap();
    let kept = ProgramRun::read(&path).unwrap();
    assert_eq!(kept.lines.len(), 2);
    assert_eq!(kept.lines[1].name, "bf16, token");
    assert_eq!(kept.lines[1].values["theirs"], 1e-6);
    assert_eq!(kept.program[0], "sh");
}

#[test]
fn other_text_and_failures_keep_nothing() {
    let path = file("refused.json");
    for (text, refusal) in [
        ("echo 3", "which is no line of a table"),
        ("true", "printed no line"),
        (
            r#"echo '{"name": "x", "values": {}}'; exit 3"#,
            "sh failed: exit status: 3",
        ),
    ] {
        let error = keep(&path, &printed(text)).unwrap_err().to_string();
        assert!(error.contains(refusal), "{error}");
        assert!(!path.exists(), "{text}");
    }
}

#[test]
fn a_missing_file_is_named() {
    let error = Programs::read(&file("nowhere")).unwrap_err().to_string();
    assert!(error.contains("candle-share.json"), "{error}");
}
