//! The version of this workspace, wherever a file repeats it: the adapters, the Python packages, the header, what one
//! crate requires of another, lock files and the changelog; and the oldest Rust likewise.

use std::fs;
use std::path::Path;

const VERSION: &str = env!("CARGO_PKG_VERSION");
const RUST: &str = env!("CARGO_PKG_RUST_VERSION");

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The text after `before`, up to the next quotation mark, at each place.
fn quoted<'t>(text: &'t str, before: &str) -> Vec<&'t str> {
    text.match_indices(before)
        .filter_map(|(at, _)| text[at + before.len()..].split('"').next())
        .collect()
}

const ADAPTERS: [&str; 5] = ["burn", "candle", "ggml", "onnxruntime", "torch"];

#[test]
fn adapters_have_the_version_of_the_workspace() {
    for adapter in ADAPTERS {
        let manifest = format!("rope-core/adapters/{adapter}/Cargo.toml");
        let text = read(&manifest);
        assert_eq!(quoted(&text, "\nversion = \""), [VERSION], "{manifest}");
        assert_eq!(quoted(&text, "\nrust-version = \""), [RUST], "{manifest}");
    }
}

#[test]
fn crates_require_this_version_of_one_another() {
    let mut found = 0;
    let adapters = ADAPTERS.map(|adapter| format!("rope-core/adapters/{adapter}/Cargo.toml"));
    let others = ["Cargo.toml", "rope-core/capi/Cargo.toml"].map(String::from);
    for manifest in others.iter().chain(&adapters) {
        for line in read(manifest).lines() {
            if line.starts_with("rope-") && line.contains("version = ") {
                assert_eq!(
                    quoted(line, "version = \""),
                    [VERSION],
                    "{manifest}: {line}"
                );
                found += 1;
            }
        }
    }
    assert!(found >= 10, "{found} requirements");
}

#[test]
fn lock_files_have_this_version() {
    let mut found = 0;
    let adapters = ADAPTERS.map(|adapter| format!("rope-core/adapters/{adapter}/Cargo.lock"));
    for lock in adapters.iter().chain(&[String::from("Cargo.lock")]) {
        let text = read(lock);
        for package in ["rope-core", "rope-models", "rope-capi"] {
            for version in quoted(&text, &format!("name = \"{package}\"\nversion = \"")) {
                assert_eq!(version, VERSION, "{lock}: {package}");
                found += 1;
            }
        }
    }
    assert!(found >= 10, "{found} packages");
}

/// A source distribution has its own `setup.py`, so the adapters cannot share one.
#[test]
fn python_packages_are_built_alike() {
    let [torch, onnxruntime] = ["torch", "onnxruntime"]
        .map(|adapter| read(&format!("rope-core/adapters/{adapter}/setup.py")));
    assert!(torch == onnxruntime, "the adapters have different setup.py");
}

#[test]
fn python_packages_have_this_version() {
    for module in [
        "torch/python/rope_kernels",
        "onnxruntime/python/rope_onnxruntime",
    ] {
        let text = read(&format!("rope-core/adapters/{module}/__init__.py"));
        assert_eq!(quoted(&text, "__version__ = \""), [VERSION], "{module}");
    }
}

#[test]
fn the_header_has_this_version() {
    let header = read("rope-core/capi/include/rope.h");
    let parts = ["MAJOR", "MINOR", "PATCH"].map(|part| {
        let define = format!("#define ROPE_VERSION_{part} ");
        let at = header.find(&define).expect("the define is in the header");
        header[at + define.len()..].lines().next().unwrap_or("")
    });
    assert_eq!(parts.join("."), VERSION);
}

#[test]
fn the_newest_entry_of_the_changelog_is_this_version() {
    let changelog = read("CHANGELOG.md");
    let heading = changelog
        .lines()
        .find(|line| line.starts_with("## "))
        .expect("the changelog has an entry");
    // Released, with the day; or not yet.
    if heading == format!("## [Unreleased] {VERSION}") {
        return;
    }
    let date = heading
        .strip_prefix(&format!("## [{VERSION}] - "))
        .unwrap_or_else(|| panic!("{heading}: the version of Cargo.toml is {VERSION}"));
    let parts: Vec<&str> = date.split('-').collect();
    assert_eq!(
        parts.iter().map(|part| part.len()).collect::<Vec<_>>(),
        [4, 2, 2]
    );
    assert!(
        parts.iter().all(|part| part.parse::<u16>().is_ok()),
        "{heading}"
    );
}

#[test]
fn texts_and_workflows_name_the_oldest_rust() {
    for (file, before) in [
        ("CHANGELOG.md", "requires Rust "),
        ("README.md", "| Rust | "),
        ("rope-core/README.md", "minimum supported Rust version is "),
        ("rope-core/adapters/torch/README.md", "Rust "),
        (".github/workflows/platforms.yml", "RUSTUP_TOOLCHAIN: \""),
        ("tests/platforms/interface.sh", "toolchain="),
    ] {
        let text = read(file);
        assert!(
            text.contains(&format!("{before}{RUST}")),
            "{file} has no \"{before}{RUST}\""
        );
    }
}
