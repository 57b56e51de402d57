//! The corpus of every fuzz target, replayed through the same bodies without a fuzzer.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use rope_tests::bodies::TARGETS;

fn fuzz(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../fuzz")
        .join(path)
}

/// Returns the sorted entries of a folder of `fuzz/`.
fn entries(folder: &str) -> BTreeSet<PathBuf> {
    let folder = fuzz(folder);
    fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("a directory that can be read").path())
        .collect()
}

fn text(path: &str) -> String {
    let path = fuzz(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn every_input_passes() {
    for (target, body) in TARGETS {
        let paths = entries(&format!("corpus/{target}"));
        assert!(!paths.is_empty(), "{target} has no corpus");
        for path in &paths {
            // Visible if the body fails.
            println!("{}", path.display());
            body(&fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())));
        }
    }
}

/// A target is a file, a binary of the manifest, a corpus, and a function that the target's file and the suites call.
#[test]
fn every_target_is_replayed() {
    let names = |folder| -> BTreeSet<String> {
        let names = entries(folder).into_iter();
        names
            .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
            .collect()
    };
    let mut listed: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).into()).collect();
    // Left out where no library can be linked.
    listed.insert("capi".into());
    assert_eq!(names("fuzz_targets"), listed, "fuzz/fuzz_targets, TARGETS");
    assert_eq!(names("corpus"), listed, "fuzz/corpus, TARGETS");
    let (manifest, readme) = (text("Cargo.toml"), text("README.md"));
    assert_eq!(manifest.matches("[[bin]]").count(), listed.len());
    for name in &listed {
        let path = format!("path = \"fuzz_targets/{name}.rs\"");
        assert!(manifest.contains(&path), "no {path} in fuzz/Cargo.toml");
        let row = format!("| `{name}` |");
        assert!(readme.contains(&row), "no row {row} in fuzz/README.md");
        let call = format!("targets::{name}(bytes)");
        let target = text(&format!("fuzz_targets/{name}.rs"));
        assert!(target.contains(&call), "{name} does not call {call}");
    }
}
