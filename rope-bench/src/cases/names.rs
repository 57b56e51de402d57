//! Items by name, from the command line.

use std::fmt;

use anyhow::{Context, Result};

/// Returns the help of a filter: the names that it accepts.
pub(crate) fn only(what: &str, names: impl IntoIterator<Item = impl fmt::Display>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| name.to_string()).collect();
    format!("Only these {what}: {}", names.join(", "))
}

/// Returns the item of that name, in any case; the error lists all names.
pub(crate) fn named<'a, T>(
    all: &'a [T],
    kind: &str,
    name: &str,
    of: impl Fn(&T) -> &str,
) -> Result<&'a T> {
    let found = all.iter().find(|item| of(item).eq_ignore_ascii_case(name));
    found.with_context(|| {
        let known: Vec<&str> = all.iter().map(of).collect();
        format!("no {kind} {name:?}; known are {}", known.join(", "))
    })
}
