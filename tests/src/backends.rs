//! Which instruction sets run, and which are expected to.

use std::io::Write;

use rope_core::Backend;

/// The environment variable with the names of the backends that must run, separated by commas.
pub const VARIABLE: &str = "ROPE_EXPECT";

/// Writes a line that is seen whether or not the test fails: libtest captures what the macros print, not this.
pub fn say(line: &str) {
    // Nobody to tell if it fails.
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// The names of the backends that run, the fastest first.
pub fn running() -> String {
    let names: Vec<&str> = Backend::available().map(Backend::name).collect();
    names.join(",")
}

/// The backends that `list` names and that cannot run here.
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
