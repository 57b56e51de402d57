//! Values of a configuration file, by their keys. `null` counts as nothing, as it does in the models' code.
//!
//! Nothing in the reading of files is in a hurry, and errors are large: what stands in several places is not inlined.

use crate::error::{Error, Result, quoted};
use alloc::string::String;
use alloc::vec::Vec;
use serde_json::{Map, Value};

pub(crate) type Object = Map<String, Value>;

/// Of a value that is not what it has to be.
pub(crate) fn invalid(key: &'static str, value: &Value, required: &'static str) -> Error {
    let value = quoted(format_args!("{value}"));
    Error::Invalid {
        key,
        value,
        required,
    }
}

/// The value under a key that is not null.
#[inline(never)]
pub(crate) fn given<'o>(object: &'o Object, key: &str) -> Option<&'o Value> {
    object.get(key).filter(|value| !value.is_null())
}

/// The number under a key.
#[inline(never)]
pub(crate) fn number(object: &Object, key: &'static str) -> Result<Option<f64>> {
    given(object, key)
        .map(|value| {
            value
                .as_f64()
                .ok_or_else(|| invalid(key, value, "a number"))
        })
        .transpose()
}

/// The length under a key: a whole number, also where it is written as a float.
#[inline(never)]
pub(crate) fn length(object: &Object, key: &'static str) -> Result<Option<u64>> {
    let Some(value) = given(object, key) else {
        return Ok(None);
    };
    let float = || {
        value
            .as_f64()
            .filter(|&float| (0.0..9e15).contains(&float) && float as u64 as f64 == float)
    };
    let whole = value.as_u64().or_else(|| float().map(|float| float as u64));
    whole
        .map(Some)
        .ok_or_else(|| invalid(key, value, "a whole number"))
}

/// A number of channels, heads or layers.
#[inline(never)]
pub(crate) fn count(object: &Object, key: &'static str) -> Result<Option<usize>> {
    match length(object, key)? {
        None => Ok(None),
        Some(value @ 1..=0xffff_ffff) => Ok(Some(value as usize)),
        Some(value) => Err(Error::Invalid {
            key,
            value: quoted(format_args!("{value}")),
            required: "positive and below 2^32",
        }),
    }
}

/// The list of numbers under a key; what is true or false counts as 1 or 0.
#[inline(never)]
pub(crate) fn numbers(object: &Object, key: &'static str) -> Result<Option<Vec<f64>>> {
    let number = |value: &Value| value.as_f64().or(value.as_bool().map(f64::from));
    given(object, key)
        .map(|value| {
            value
                .as_array()
                .and_then(|list| list.iter().map(number).collect())
                .ok_or_else(|| invalid(key, value, "a list of numbers"))
        })
        .transpose()
}

/// What is true or false under a key.
#[inline(never)]
pub(crate) fn flag(object: &Object, key: &'static str) -> Result<Option<bool>> {
    given(object, key)
        .map(|value| {
            value
                .as_bool()
                .ok_or_else(|| invalid(key, value, "true or false"))
        })
        .transpose()
}

/// The object under a key.
#[inline(never)]
pub(crate) fn object<'o>(object: &'o Object, key: &'static str) -> Result<Option<&'o Object>> {
    given(object, key)
        .map(|value| {
            value
                .as_object()
                .ok_or_else(|| invalid(key, value, "an object"))
        })
        .transpose()
}
