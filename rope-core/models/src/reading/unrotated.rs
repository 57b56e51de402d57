//! Files of types without a rotation that have keys about one: another program wrote them for code of its own.

use super::children::join;
use super::parameters::{ROTARY, SWITCHES};
use crate::base::error::{Error, Refusal, beginning, listed, quoted};
use crate::base::json::{Object, Value};
use crate::base::words;
use crate::types::keys_of_unrotated;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Keys with such names and another meaning.
const OTHERS: &str = "relation_bias_theta";

/// Keys of the kind of positions, which names a rotation or another kind.
const KINDS: &str = "position_embedding_type position_embeddings_type";

/// Returns the refusal of a type without a rotation whose file has keys about one; `None` if it has none.
#[cold]
#[inline(never)]
pub(crate) fn refusal(
    name: &'static str,
    root: &Object,
    object: &Object,
    path: &str,
) -> Option<Refusal> {
    let mut found = Vec::new();
    collect(keys_of_unrotated(name), object, path, &mut found);
    let (key, value) = found.first()?;
    let mut unrotated = format!("; {name} has no rotation");
    if let [_, others @ ..] = &found[..]
        && !others.is_empty()
    {
        let names: Vec<&str> = others.iter().map(|(key, _)| key.as_str()).collect();
        unrotated += &format!(", nor does it read {}", listed(&names));
    }
    let architectures = root.get("architectures").and_then(Value::as_array);
    let names: Vec<&str> = architectures
        .unwrap_or_default()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    if !names.is_empty() {
        unrotated += &format!(", but the file's architectures are {}", listed(&names));
    }
    unrotated +=
        ": if its code rotates, Config::with_model_type reads it by the rules of another type";
    Some(
        Error::Unread {
            key: beginning(key),
            value: quoted(format_args!("{value}")),
            nearest: "",
            unrotated,
        }
        .into(),
    )
}

/// Collects the keys about a rotation in an object and in the objects within it.
fn collect<'c>(idle: &str, object: &'c Object, path: &str, found: &mut Vec<(String, &'c Value)>) {
    let is_switch = |key: &str| key == "rope" || words::has(SWITCHES, key);
    let off = |(key, value): (&str, &Value)| is_switch(key) && *value == Value::Bool(false);
    if object.iter().any(off) {
        return;
    }
    for (key, value) in object.iter() {
        let path = join(path, key);
        let about =
            words::any_within(ROTARY, key) && !words::has(OTHERS, key) || key == "use_dynamic_ntk";
        match value {
            // Formats of numbers list the names of tensors.
            Value::Object(_) if key.contains("quantization") => {}
            Value::Object(own) if !about => collect(idle, own, &path, found),
            _ if words::has(idle, key) => {}
            _ if about && says_something(value) => found.push((path, value)),
            Value::Text(kind)
                if words::has(KINDS, key) && words::any_within("rope rotary", kind) =>
            {
                found.push((path, value));
            }
            _ => {}
        }
    }
}

/// Returns true unless a value stands for the absence of its key.
fn says_something(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Number(number) => *number != 0.0,
        Value::Text(text) => !text.is_empty() && text != "none",
        Value::Array(list) => !list.is_empty(),
        Value::Object(own) => !own.is_empty(),
        Value::Bool(true) => true,
    }
}
