//! Errors, the values of a JSON text, and lists of words.

pub(crate) mod error;
pub(crate) mod json;
pub(crate) mod nearest;
pub(crate) mod words;
