//! The available and the expected instruction sets.

use std::io::Write;

use rope_core::Backend;

/// Environment variable with the names of the backends that must be available, separated by commas.
pub const VARIABLE: &str = "ROPE_EXPECT";

/// Environment variable with the name of the only backend that suites of kernels test, for emulators.
pub const ONLY: &str = "ROPE_ONLY";

/// Returns the backends that suites of kernels test, the fastest first: the available ones, or the one that the
/// environment names.
///
/// # Panics
///
/// If the environment names no available backend.
pub fn tested() -> impl Iterator<Item = Backend> {
    let name = std::env::var(ONLY).ok();
    let is_tested = move |backend: &Backend| name.as_deref().is_none_or(|it| it == backend.name());
    let mut tested = Backend::available().filter(is_tested).peekable();
    assert!(tested.peek().is_some(), "{ONLY} names no available backend");
    tested
}

/// Writes a line that is visible even if the test passes; libtest captures only the output of macros.
pub fn say(line: &str) {
    // A failure cannot be reported.
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Returns the names of the available backends, the fastest first.
pub fn running() -> String {
    let names: Vec<&str> = Backend::available().map(Backend::name).collect();
    names.join(",")
}

/// Returns the backends that `list` names and that are not available.
///
/// # Panics
///
/// If a name is unknown.
pub fn missing(list: &str) -> Vec<Backend> {
    list.split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .map(|name| {
            name.parse::<Backend>()
                .unwrap_or_else(|error| panic!("{VARIABLE}: {name:?}: {error}"))
        })
        .filter(|backend| !backend.is_available())
        .collect()
}
