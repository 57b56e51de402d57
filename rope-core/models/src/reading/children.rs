//! The objects of a file that no class reads: not the part that is read, nor above it, nor another part of its whole.

use super::parameters::SETS;
use super::place::{Place, own_type, type_of_part};
use crate::base::json::{Object, Value};
use crate::base::words;
use crate::types::{model_type, part_of};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Objects that the readers of parameters and layers look into.
const READ: &str = "rotary per_layer_config";

/// Parts of the names of objects about other data than text, and about formats of numbers.
const OTHER_DATA: &str = "vision visual audio image speech quant compression";

/// Returns the objects that no class reads, with their paths, and the objects within them.
pub(crate) fn unread<'c>(place: &Place<'c>) -> Vec<(String, &'c Object)> {
    let mut found = Vec::new();
    let mut name: Option<String> = None;
    for (level, (path, object)) in place.objects().into_iter().enumerate() {
        name = match level.checked_sub(1).and_then(|above| place.part(above)) {
            Some(part) => type_of_part(name.as_deref(), part, object).or(name),
            None => own_type(object).map(String::from),
        };
        for (key, value) in object.iter() {
            let Value::Object(own) = value else { continue };
            let read = place.part(level) == Some(key)
                || words::has(SETS, key)
                || words::has(READ, key)
                || words::any_within(OTHER_DATA, key)
                || is_part(name.as_deref(), key, own);
            if !read {
                collect(&join(&path, key), own, &mut found);
            }
        }
    }
    found
}

/// Joins the names of a path.
pub(crate) fn join(path: &str, key: &str) -> String {
    match path {
        "" => key.into(),
        path => format!("{path}.{key}"),
    }
}

/// Returns true if the class of a whole has that part. A class that is not known here may have any.
fn is_part(whole: Option<&str>, key: &str, own: &Object) -> bool {
    match whole.and_then(model_type) {
        Some((whole, _)) => part_of(whole, key).is_some(),
        None => key.ends_with("_config") || own.contains_key("model_type"),
    }
}

fn collect<'c>(path: &str, object: &'c Object, found: &mut Vec<(String, &'c Object)>) {
    found.push((path.into(), object));
    for (key, value) in object.iter() {
        if let Value::Object(own) = value
            && !words::has(SETS, key)
            && !words::any_within(OTHER_DATA, key)
        {
            collect(&join(path, key), own, found);
        }
    }
}
