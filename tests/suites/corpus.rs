//! The corpus of the fuzz targets, and choices at random, through the same bodies without a fuzzer.

use std::fs;
use std::path::PathBuf;

use rope_tests::{Source, bodies};

/// Calls a body with every file of a target's corpus.
fn replay(target: &str, body: impl Fn(&[u8])) {
    let folder: PathBuf = [env!("CARGO_MANIFEST_DIR"), "..", "fuzz", "corpus", target]
        .iter()
        .collect();
    let entries =
        fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.expect("a directory that can be read").path())
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "{} is empty", folder.display());
    for path in &paths {
        // Seen if the body fails.
        println!("{}", path.display());
        body(&fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())));
    }
}

/// Calls a body with random choices.
fn random(test: &str, body: impl Fn(&mut Source<'_>)) {
    let source = &mut Source::random(test);
    for _ in 0..1000 {
        body(source);
    }
}

#[test]
fn rotate() {
    replay("rotate", |bytes| bodies::rotate(&mut Source::bytes(bytes)));
}

#[test]
fn tensor() {
    replay("tensor", |bytes| {
        let source = &mut Source::bytes(bytes);
        bodies::tensor(source);
        bodies::rows(source);
    });
}

#[test]
fn frequencies() {
    replay("frequencies", |bytes| {
        bodies::frequencies(&mut Source::bytes(bytes));
    });
    random("frequencies", bodies::frequencies);
}

#[test]
fn rows() {
    replay("rows", |bytes| {
        bodies::generated_rows(&mut Source::bytes(bytes));
    });
    random("rows", bodies::generated_rows);
}

#[test]
fn config() {
    replay("config", bodies::config);
    random("config", bodies::made_config);
}

#[cfg(feature = "capi")]
#[test]
fn capi() {
    replay("capi", |bytes| bodies::calls(&mut Source::bytes(bytes)));
    random("capi", bodies::calls);
}
