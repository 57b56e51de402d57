//! Runs the program in a directory of its own, so that its arguments are words.
#![allow(dead_code, reason = "not every suite calls all")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// Creates an empty directory.
pub(crate) fn directory(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}

/// Runs a command line in a directory.
pub(crate) fn rope_bench_in(directory: &Path, line: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rope-bench"))
        .args(line.split(' '))
        .current_dir(directory)
        .output()
        .unwrap()
}

/// Returns the output of a command line that must succeed.
pub(crate) fn printed(directory: &Path, line: &str) -> String {
    let output = rope_bench_in(directory, line);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the JSON of a command line.
pub(crate) fn json_of(line: &str) -> Value {
    serde_json::from_str(&printed(Path::new("."), &format!("{line} --json -"))).unwrap()
}

/// Checks that a command line fails, and says why.
pub(crate) fn refused_in(directory: &Path, line: &str, because: &str) {
    let output = rope_bench_in(directory, line);
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{line} was accepted");
    assert!(message.contains(because), "{line}: {message}");
}
