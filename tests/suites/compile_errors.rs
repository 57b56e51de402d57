//! The texts of errors that the compiler reports for common mistakes (`on_unimplemented`), one function of
//! `compile_errors/cases.rs` each. `UPDATE=1` writes `messages.txt`.
//!
//! The compiler runs once, on rope-core as these suites link it. trybuild would check rope-core and its dependencies
//! again in a folder of its own, and compare what the compiler adds as well, which other versions word otherwise.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// Returns the libraries of rope-core beside this program, the newest first: those of other sets of features may be
/// older than the sources.
fn libraries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("the folder of this program");
    let mut libraries: Vec<_> = entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let name = entry.file_name().into_string().ok()?;
            let is_library = name.starts_with("librope_core-") && name.ends_with(".rlib");
            is_library.then_some((entry.metadata().ok()?.modified().ok()?, entry.path()))
        })
        .collect();
    libraries.sort_unstable();
    libraries.into_iter().rev().map(|(_, path)| path).collect()
}

fn compile(folder: &Path, library: &Path) -> Output {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("suites/compile_errors/cases.rs");
    let rustc = std::env::var_os("RUSTC").unwrap_or("rustc".into());
    Command::new(rustc)
        .args([
            "--edition",
            "2024",
            "--crate-type",
            "lib",
            "--emit",
            "metadata",
        ])
        .args(["--error-format", "json", "-o", "/dev/null", "-L"])
        .arg(format!("dependency={}", folder.display()))
        .arg("--extern")
        .arg(format!("rope_core={}", library.display()))
        .arg(cases)
        .output()
        .expect("a compiler")
}

/// Returns the function of `cases.rs` that has a line.
fn function_at(line: u64) -> &'static str {
    let lines = include_str!("compile_errors/cases.rs").lines();
    let names = lines
        .take(line as usize)
        .filter_map(|line| line.strip_prefix("fn "));
    let name = names.last().and_then(|name| name.split_once('('));
    name.expect("errors are in functions").0
}

/// Returns what this crate says of each error, after the name of its function: the message, the label, and the notes.
fn messages(stderr: &str) -> String {
    let mut text = String::new();
    for line in stderr.lines() {
        let diagnostic: Value = serde_json::from_str(line).expect("JSON");
        let message = |diagnostic: &Value| diagnostic["message"].as_str().unwrap_or("").to_string();
        let spans = diagnostic["spans"].as_array().cloned().unwrap_or_default();
        let Some(span) = spans.iter().find(|span| span["is_primary"] == true) else {
            continue;
        };
        let function = function_at(span["line_start"].as_u64().expect("a line"));
        let _ = writeln!(text, "{function}: {}", message(&diagnostic));
        let _ = writeln!(text, "  {}", span["label"].as_str().unwrap_or("no label"));
        for note in diagnostic["children"].as_array().into_iter().flatten() {
            // The compiler's own notes point at code or name a trait's full path.
            let own =
                note["level"] == "note" && note["spans"].as_array().is_some_and(Vec::is_empty);
            let of_compiler = ["required for", "this error originates", "the full name"];
            let note = message(note);
            if own && !of_compiler.iter().any(|begin| note.starts_with(begin)) {
                let _ = writeln!(text, "  note: {note}");
            }
        }
    }
    text
}

#[test]
#[cfg_attr(miri, ignore = "runs the compiler")]
fn each_mistake_has_its_text() {
    let this = std::env::current_exe().expect("a path");
    let folder = this.parent().expect("a folder");
    let libraries = libraries(folder);
    assert!(
        !libraries.is_empty(),
        "{} has no rope-core",
        folder.display()
    );
    let outputs = libraries.iter().map(|library| {
        let output = compile(folder, library);
        String::from_utf8(output.stderr).expect("UTF-8")
    });
    // A library of another compiler is not readable (E0514).
    let stderr = outputs.into_iter().find(|stderr| !stderr.contains("E0514"));
    let found = messages(&stderr.expect("a library of this compiler"));
    rope_tests::snapshot!("suites/compile_errors/messages.txt", &found);
}
