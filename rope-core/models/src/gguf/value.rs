//! A value of a GGUF file.

use core::fmt;

/// A value of a GGUF file, of the kinds of the relevant keys.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum GgufValue<'a> {
    /// Any integer type.
    Integer(i64),
    /// Any float type.
    Float(f64),
    /// A boolean.
    Bool(bool),
    /// A string.
    Text(&'a str),
    /// An array of 32-bit integers, signed or not.
    Integers(&'a [i32]),
    /// An array of booleans.
    Bools(&'a [bool]),
    /// A value that no key about the rotation has: any other array, or one with more entries than a model may have
    /// layers.
    Others,
}

impl fmt::Display for GgufValue<'_> {
    /// Formats the value as in a JSON text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GgufValue::Integer(value) => write!(f, "{value}"),
            GgufValue::Float(value) => write!(f, "{value:?}"),
            GgufValue::Bool(value) => write!(f, "{value}"),
            GgufValue::Text(value) => write!(f, "{value:?}"),
            GgufValue::Integers(values) => write!(f, "{values:?}"),
            GgufValue::Bools(values) => write!(f, "{values:?}"),
            GgufValue::Others => f.write_str("[..]"),
        }
    }
}
