//! JSON as Python's `json` writes it, and values of a configuration file by key. `null` counts as missing, as in the
//! models' code.
//!
//! Reading files is not hot, and errors are large: shared code is not inlined.

#[cfg(feature = "config")]
use crate::base::error::Error;
use crate::base::error::{Refusal, Result, out_of_range};
#[cfg(feature = "config")]
use alloc::collections::BinaryHeap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
#[cfg(feature = "config")]
use jiter::{Jiter, JiterError, JiterErrorType, JiterResult, JsonErrorType, Peek};

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    /// Any number, as the nearest f64, which may be infinite or NaN.
    Number(f64),
    Text(String),
    #[cfg_attr(
        not(feature = "config"),
        expect(dead_code, reason = "only a text has lists")
    )]
    Array(Vec<Value>),
    Object(Object),
}

impl Value {
    /// Returns the number if it is finite.
    pub(crate) fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Number(number) if number.is_finite() => Some(*number),
            _ => None,
        }
    }

    /// Returns the number if it is whole, including floats.
    #[inline(never)]
    pub(crate) fn as_u64(&self) -> Option<u64> {
        let number = self.as_f64()?;
        let whole = (0.0..9e15).contains(&number) && number as u64 as f64 == number;
        whole.then_some(number as u64)
    }

    pub(crate) fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }

    pub(crate) fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn as_array(&self) -> Option<&[Value]> {
        match self {
            Self::Array(list) => Some(list),
            _ => None,
        }
    }

    pub(crate) fn as_object(&self) -> Option<&Object> {
        match self {
            Self::Object(object) => Some(object),
            _ => None,
        }
    }

    pub(crate) fn as_object_mut(&mut self) -> Option<&mut Object> {
        match self {
            Self::Object(object) => Some(object),
            _ => None,
        }
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    pub(crate) fn is_object(&self) -> bool {
        matches!(self, Self::Object(_))
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut between = "";
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => f.write_str(if *value { "true" } else { "false" }),
            Self::Number(number) if self.as_u64().is_some() => write!(f, "{number}"),
            Self::Number(number) if number.is_infinite() => {
                let sign = if *number < 0.0 { "-" } else { "" };
                write!(f, "{sign}Infinity")
            }
            Self::Number(number) => write!(f, "{number:?}"),
            Self::Text(text) => write!(f, "{text:?}"),
            Self::Array(list) => {
                f.write_str("[")?;
                for value in list {
                    write!(f, "{between}{value}")?;
                    between = ",";
                }
                f.write_str("]")
            }
            Self::Object(object) => {
                f.write_str("{")?;
                for (key, value) in object.iter() {
                    write!(f, "{between}{key:?}:{value}")?;
                    between = ",";
                }
                f.write_str("}")
            }
        }
    }
}

/// Keys and values in the order of the file. A repeated key has its first place and its last value, as in Python.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Object(Vec<(String, Value)>);

impl Object {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value))
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &Value> {
        self.0.iter().map(|(_, value)| value)
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut Value> {
        self.0.iter_mut().map(|(_, value)| value)
    }

    #[inline(never)]
    fn place(&self, key: &str) -> Option<usize> {
        self.0.iter().position(|(own, _)| own == key)
    }

    #[inline(never)]
    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        Some(&self.0.get(self.place(key)?)?.1)
    }

    #[inline(never)]
    pub(crate) fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        let place = self.place(key)?;
        Some(&mut self.0.get_mut(place)?.1)
    }

    pub(crate) fn contains_key(&self, key: &str) -> bool {
        self.place(key).is_some()
    }

    #[inline(never)]
    pub(crate) fn remove(&mut self, key: &str) {
        self.0.retain(|(own, _)| own != key);
    }

    #[inline(never)]
    pub(crate) fn insert(&mut self, key: &str, value: Value) {
        match self.get_mut(key) {
            Some(place) => *place = value,
            None => self.0.push((key.into(), value)),
        }
    }

    /// Inserts a value unless the key has one.
    pub(crate) fn insert_missing(&mut self, key: &str, value: Value) {
        if !self.contains_key(key) {
            self.insert(key, value);
        }
    }

    /// Inserts all values of another object.
    #[inline(never)]
    pub(crate) fn insert_all(&mut self, others: &Object) {
        for (key, value) in others.iter() {
            self.insert(key, value.clone());
        }
    }
}

/// Parses a text as Python's `json` does.
///
/// # Errors
///
/// [`Error::Json`] if the text is not JSON, or nested too deeply for a recursive parser (200 levels).
#[cfg(feature = "config")]
pub(crate) fn parse(text: &str) -> Result<Value> {
    let mut parser = Jiter::new(text.as_bytes()).with_allow_inf_nan();
    let first = parser.peek();
    let parsed = first.and_then(|first| read(&mut parser, first, 0));
    let whole = parsed.and_then(|value| parser.finish().map(|()| value));
    Ok(whole.map_err(|error| {
        let read = text
            .as_bytes()
            .get(..error.index)
            .unwrap_or(text.as_bytes());
        let start = read.iter().rposition(|&byte| byte == b'\n');
        let ends_early = read.len() == text.len();
        Error::Json {
            line: 1 + read.iter().filter(|&&byte| byte == b'\n').count(),
            column: read.len() - start.map_or(0, |newline| newline + 1) + usize::from(!ends_early),
            ends_early,
        }
    })?)
}

/// Parses the value that begins with `first`, within `depth` lists and objects.
#[cfg(feature = "config")]
fn read(parser: &mut Jiter<'_>, first: Peek, depth: usize) -> JiterResult<Value> {
    let inside = |parser: &mut Jiter<'_>, first| match depth < 200 {
        true => read(parser, first, depth + 1),
        false => Err(JiterError {
            error_type: JiterErrorType::JsonError(JsonErrorType::RecursionLimitExceeded),
            index: parser.current_index(),
        }),
    };
    Ok(match first {
        Peek::Null => {
            parser.known_null()?;
            Value::Null
        }
        Peek::True | Peek::False => Value::Bool(parser.known_bool(first)?),
        Peek::String => Value::Text(parser.known_str()?.into()),
        Peek::Array => {
            let (mut list, mut next) = (Vec::new(), parser.known_array()?);
            while let Some(first) = next {
                list.push(inside(parser, first)?);
                next = parser.array_step()?;
            }
            Value::Array(list)
        }
        Peek::Object => {
            let (mut entries, mut next) = (Vec::new(), parser.known_object()?.map(String::from));
            while let Some(key) = next {
                let first = parser.peek()?;
                entries.push((key, inside(parser, first)?));
                next = parser.next_key()?.map(String::from);
            }
            Value::Object(last_of_equal(entries))
        }
        _ => Value::Number(parser.known_number(first)?.into()),
    })
}

/// Merges entries with the same key: the first place and the last value.
#[cfg(feature = "config")]
fn last_of_equal(mut entries: Vec<(String, Value)>) -> Object {
    let keys = entries.iter().enumerate();
    let keys: BinaryHeap<_> = keys
        .map(|(place, (key, _))| (key.as_str(), place))
        .collect();
    let mut equal = Vec::new();
    for pair in keys.into_sorted_vec().windows(2) {
        if pair[0].0 == pair[1].0 {
            equal.push((pair[0].1, pair[1].1));
        }
    }
    if !equal.is_empty() {
        let mut left_out = alloc::vec![false; entries.len()];
        for (earlier, later) in equal.into_iter().rev() {
            entries[earlier].1 = core::mem::replace(&mut entries[later].1, Value::Null);
            left_out[later] = true;
        }
        let mut left_out = left_out.into_iter();
        entries.retain(|_| left_out.next() == Some(false));
    }
    Object(entries)
}

/// Returns the error for an invalid value.
#[cold]
#[inline(never)]
pub(crate) fn invalid(key: &'static str, value: &Value, required: &'static str) -> Refusal {
    out_of_range(key, format_args!("{value}"), required)
}

/// Returns the value of a key, unless it is null.
#[inline(never)]
pub(crate) fn given<'o>(object: &'o Object, key: &str) -> Option<&'o Value> {
    object.get(key).filter(|value| !value.is_null())
}

/// Returns the number of a key.
#[inline(never)]
pub(crate) fn number(object: &Object, key: &'static str) -> Result<Option<f64>> {
    given(object, key)
        .map(|value| {
            value.as_f64().ok_or_else(|| {
                let is_number = matches!(value, Value::Number(_));
                invalid(key, value, if is_number { "finite" } else { "a number" })
            })
        })
        .transpose()
}

/// Returns the length of a key.
#[inline(never)]
pub(crate) fn length(object: &Object, key: &'static str) -> Result<Option<u64>> {
    given(object, key)
        .map(|value| {
            value
                .as_u64()
                .ok_or_else(|| invalid(key, value, "a whole number"))
        })
        .transpose()
}

/// Returns a number of channels, heads or layers.
#[inline(never)]
pub(crate) fn count(object: &Object, key: &'static str) -> Result<Option<usize>> {
    match length(object, key)? {
        None => Ok(None),
        Some(value @ 1..=0xffff_ffff) => Ok(Some(value as usize)),
        Some(value) => Err(out_of_range(
            key,
            format_args!("{value}"),
            "positive and below 2^32",
        )),
    }
}

/// Returns the list of numbers of a key; booleans count as 1 or 0.
#[inline(never)]
pub(crate) fn numbers(object: &Object, key: &'static str) -> Result<Option<Vec<f64>>> {
    let Some(value) = given(object, key) else {
        return Ok(None);
    };
    let refusal = || invalid(key, value, "a list of finite numbers");
    let mut made = Vec::new();
    for own in value.as_array().ok_or_else(refusal)? {
        let number = own.as_f64().or(own.as_bool().map(f64::from));
        made.push(number.ok_or_else(refusal)?);
    }
    Ok(Some(made))
}

/// Returns a list of whole numbers, if the value is one.
#[inline(never)]
pub(crate) fn counts(value: &Value) -> Option<Vec<usize>> {
    let mut made = Vec::new();
    for own in value.as_array()? {
        made.push(usize::try_from(own.as_u64()?).ok()?);
    }
    Some(made)
}

/// Returns the boolean of a key.
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

/// Returns the object of a key.
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

#[cfg(all(test, feature = "config"))]
mod tests {
    use super::*;
    use std::format;

    #[track_caller]
    fn object_of(text: &str) -> Object {
        match parse(text) {
            Ok(Value::Object(object)) => object,
            other => panic!("{text}: {other:?}"),
        }
    }

    /// Each value equals that of Python's `json.loads`, as a float.
    #[test]
    fn numbers_are_those_of_python() {
        for (text, expected) in [
            ("0", 0.0),
            ("-1", -1.0),
            ("-2.5e-3", -2.5e-3),
            ("1E+2", 100.0),
            ("0.30000000000000004", 0.30000000000000004),
            ("1.0800000429153442", 1.0800000429153442),
            ("4.9e-324", 5e-324),
            ("1.7976931348623157e308", f64::MAX),
            ("1e22", 1e22),
            ("1e23", 1e23),
            // Halfway between two f64: the even one. Integers may have any number of digits.
            ("9007199254740993", 9007199254740992.0),
            ("9007199254740995", 9007199254740996.0),
            (
                "9007199254740993.0000000000000000000000000001",
                9007199254740994.0,
            ),
            ("9223372036854775807", 9223372036854775807.0),
            ("9223372036854775808", 9223372036854775808.0),
            ("-9223372036854775809", -9223372036854775809.0),
            ("18446744073709551615", 18446744073709551616.0),
            ("1000000000000000019884624838656", 1e30),
            ("-1000000000000000019884624838656", -1e30),
            ("36893488147419107329", 36893488147419111424.0),
            ("Infinity", f64::INFINITY),
            ("-Infinity", f64::NEG_INFINITY),
            ("1e999", f64::INFINITY),
            ("-1e999", f64::NEG_INFINITY),
        ] {
            assert_eq!(parse(text), Ok(Value::Number(expected)), "{text}");
        }
        let nan = parse("NaN").expect("a number");
        assert!(matches!(nan, Value::Number(number) if number.is_nan()));
        assert_eq!(format!("{nan}"), "NaN");
    }

    #[test]
    fn texts_and_lists_are_those_of_python() {
        let text = r#" [ "\"\\\/\b\f\n\r\t", "\u0041\u00e9\ud83d\ude00", "é😀", [null, true, false], {} ]"#;
        let texts = ["\"\\/\u{8}\u{c}\n\r\t", "Aé😀", "é😀"].map(|text| Value::Text(text.into()));
        let list = alloc::vec![Value::Null, Value::Bool(true), Value::Bool(false)];
        let mut expected = texts.to_vec();
        expected.extend([Value::Array(list), Value::Object(Object::new())]);
        assert_eq!(parse(text), Ok(Value::Array(expected)));
    }

    #[test]
    fn the_last_of_equal_keys_counts_at_the_place_of_the_first() {
        let object = object_of(r#"{"a": 1, "b": 2, "a": {"c": 3, "\u0063": "d"}, "b": null}"#);
        assert_eq!(
            format!("{}", Value::Object(object)),
            r#"{"a":{"c":"d"},"b":null}"#
        );
    }

    #[test]
    fn many_keys_are_read_in_no_time() {
        let keys: Vec<String> = (0..200_000).map(|key| format!("\"{key}\":0")).collect();
        let object = object_of(&format!("{{{}}}", keys.join(",")));
        assert_eq!(object.iter().count(), keys.len());
    }

    #[test]
    fn what_python_does_not_read_is_refused() {
        for text in [
            " ",
            "{} {}",
            "[1 2]",
            "[,]",
            "{,}",
            "[1,]",
            "{1: 2}",
            "{\"a\" 1}",
            "{\"a\": 1,}",
            "tru",
            "nul",
            "+1",
            ".5",
            "5.",
            "01",
            "-",
            "-NaN",
            "1e",
            "nan",
            "infinity",
            "'a'",
            "\"\u{1f}\"",
            "\u{feff}{}",
            "// a\n{}",
            r#""\u12g4""#,
            r#""\x41""#,
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_within_each_other_is_limited() {
        let nested = |depth| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(parse(&nested(200)).is_ok());
        assert!(parse(&nested(300)).is_err());
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            assert!(parse(&open.repeat(1 << 20)).is_err());
            let text = open.repeat(1 << 20) + "1" + &close.repeat(1 << 20);
            assert!(parse(&text).is_err());
        }
    }

    /// Errors have the line and column of the first wrong byte, or of the end of the text.
    #[test]
    fn errors_are_where_the_text_is_wrong() {
        for (text, line, column, ends_early) in [
            ("", 1, 0, true),
            ("{", 1, 1, true),
            ("{\n  \"a\": 1,,}", 2, 10, false),
            ("[\n1\n2]", 3, 1, false),
            ("{\"a\": tru}", 1, 10, false),
            ("{\"a\": tru", 1, 9, true),
            ("[1]]", 1, 4, false),
            ("{\"a\": x}", 1, 7, false),
            ("{\"a\": \"b\n\"}", 1, 9, false),
        ] {
            let expected = Error::Json {
                line,
                column,
                ends_early,
            };
            assert_eq!(parse(text), Err(expected.into()), "{text}");
        }
    }

    #[test]
    fn values_are_quoted_as_json() {
        let text = r#"{"a":[1,-2.5,1e-5,1e30,Infinity,-Infinity,NaN,null,true,"b"],"c":{}}"#;
        assert_eq!(format!("{}", parse(text).expect("JSON")), text);
    }
}
