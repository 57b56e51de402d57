//! JSON (RFC 8259), and values of a configuration file by their keys. `null` counts as nothing, as it does in the
//! models' code.
//!
//! The parser is the crate's own because of its size: with serde_json a program that reads one file is 100 KB larger.
//! The tests below hold it to serde_json, whose values and refusals it has. Nothing in the reading of files is in a
//! hurry, and errors are large: what stands in several places is not inlined.

use crate::decimal;
use crate::error::{Error, Refusal, Result, out_of_range};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    /// Any number, as the nearest f64: none of a configuration is above 2^53.
    Number(f64),
    Text(String),
    Array(Vec<Value>),
    Object(Object),
}

impl Value {
    pub(crate) fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// A whole number, also where it is written as a float.
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

/// Keys and values in their order in the file. Of a key that stands twice the last value counts.
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
        self.0.iter().rposition(|(own, _)| own == key)
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

/// The value that a text is.
///
/// # Errors
///
/// [`Error::Json`] if it is not JSON.
pub(crate) fn parse(text: &str) -> Result<Value> {
    let mut parser = Parser {
        text,
        at: 0,
        depth: 0,
    };
    let value = parser.value().filter(|_| {
        parser.skip_space();
        parser.at == text.len()
    });
    value.ok_or_else(|| parser.error())
}

/// Objects and lists within each other, which a parser that calls itself has to limit.
const DEEPEST: usize = 127;

/// Where a text is read. What fails leaves `at` where it fails.
struct Parser<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
}

impl Parser<'_> {
    fn error(&self) -> Refusal {
        let read = &self.text.as_bytes()[..self.at];
        let lines = read.iter().filter(|&&byte| byte == b'\n').count();
        let start = read.iter().rposition(|&byte| byte == b'\n');
        let ends_early = self.at == self.text.len();
        let column = self.at - start.map_or(0, |newline| newline + 1);
        Error::Json {
            line: lines + 1,
            column: column + usize::from(!ends_early),
            ends_early,
        }
        .into()
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Goes over a byte, if it is the next.
    #[inline(never)]
    fn skip(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    #[inline(never)]
    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn word(&mut self, word: &str, value: Value) -> Option<Value> {
        word.bytes().try_for_each(|byte| self.skip(byte))?;
        Some(value)
    }

    fn value(&mut self) -> Option<Value> {
        self.skip_space();
        match self.peek()? {
            b'{' => {
                let mut object = Object::new();
                self.list(b'}', |parser| {
                    parser.skip_space();
                    let key = parser.string()?;
                    parser.skip_space();
                    parser.skip(b':')?;
                    object.0.push((key, parser.value()?));
                    Some(())
                })?;
                Some(Value::Object(object))
            }
            b'[' => {
                let mut list = Vec::new();
                self.list(b']', |parser| {
                    list.push(parser.value()?);
                    Some(())
                })?;
                Some(Value::Array(list))
            }
            b'"' => self.string().map(Value::Text),
            b't' => self.word("true", Value::Bool(true)),
            b'f' => self.word("false", Value::Bool(false)),
            b'n' => self.word("null", Value::Null),
            _ => self.number().map(Value::Number),
        }
    }

    /// What stands between a bracket, which is the next byte, and its end, with commas between.
    #[inline(never)]
    fn list(&mut self, end: u8, mut entry: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        if self.depth == DEEPEST {
            return None;
        }
        self.depth += 1;
        self.at += 1;
        self.skip_space();
        if self.peek()? != end {
            loop {
                entry(self)?;
                self.skip_space();
                if self.peek()? == end {
                    break;
                }
                self.skip(b',')?;
            }
        }
        self.depth -= 1;
        self.skip(end)
    }

    #[inline(never)]
    fn string(&mut self) -> Option<String> {
        self.skip(b'"')?;
        let mut made = String::new();
        loop {
            let start = self.at;
            while !matches!(self.peek()?, b'"' | b'\\' | 0..0x20) {
                self.at += 1;
            }
            made.push_str(self.text.get(start..self.at)?);
            match self.peek()? {
                b'"' => {
                    self.at += 1;
                    return Some(made);
                }
                b'\\' => {
                    self.at += 1;
                    made.push(self.escaped()?);
                }
                _ => return None,
            }
        }
    }

    /// The character that the escape after a backslash stands for.
    fn escaped(&mut self) -> Option<char> {
        let letter = self.peek()?;
        let made = match letter {
            b'"' | b'\\' | b'/' => letter,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let first = self.unit()?;
                if !(0xd800..0xdc00).contains(&first) {
                    return char::from_u32(first);
                }
                self.skip(b'\\')?;
                let low = self.unit()?.checked_sub(0xdc00)?;
                let pair = 0x10000 + ((first - 0xd800) << 10) + low;
                return char::from_u32(pair).filter(|_| low < 0x400);
            }
            _ => return None,
        };
        self.at += 1;
        Some(made.into())
    }

    /// `u` and four hexadecimal digits.
    #[inline(never)]
    fn unit(&mut self) -> Option<u32> {
        self.skip(b'u')?;
        let mut unit = 0;
        for _ in 0..4 {
            unit = unit * 16 + char::from(self.peek()?).to_digit(16)?;
            self.at += 1;
        }
        Some(unit)
    }

    #[inline(never)]
    fn digits(&mut self) -> Option<()> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        (self.at > start).then_some(())
    }

    fn number(&mut self) -> Option<f64> {
        let start = self.at;
        self.skip(b'-');
        // No digit comes after a leading zero.
        if self.skip(b'0').is_none() {
            self.digits()?;
        }
        if self.skip(b'.').is_some() {
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        let number = decimal::nearest(self.text.get(start..self.at)?);
        number.is_finite().then_some(number)
    }
}

/// Of a value that is not what it has to be.
#[cold]
#[inline(never)]
pub(crate) fn invalid(key: &'static str, value: &Value, required: &'static str) -> Refusal {
    out_of_range(key, format_args!("{value}"), required)
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

/// The length under a key.
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

/// A number of channels, heads or layers.
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

/// The list of numbers under a key; what is true or false counts as 1 or 0.
#[inline(never)]
pub(crate) fn numbers(object: &Object, key: &'static str) -> Result<Option<Vec<f64>>> {
    let Some(value) = given(object, key) else {
        return Ok(None);
    };
    let refusal = || invalid(key, value, "a list of numbers");
    let mut made = Vec::new();
    for own in value.as_array().ok_or_else(refusal)? {
        let number = own.as_f64().or(own.as_bool().map(f64::from));
        made.push(number.ok_or_else(refusal)?);
    }
    Ok(Some(made))
}

/// A list of whole numbers, if it is one.
#[inline(never)]
pub(crate) fn counts(value: &Value) -> Option<Vec<usize>> {
    let mut made = Vec::new();
    for own in value.as_array()? {
        made.push(usize::try_from(own.as_u64()?).ok()?);
    }
    Some(made)
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;

    fn same(ours: &Value, theirs: &serde_json::Value) -> bool {
        match (ours, theirs) {
            (Value::Null, serde_json::Value::Null) => true,
            (Value::Bool(ours), serde_json::Value::Bool(theirs)) => ours == theirs,
            (Value::Number(ours), serde_json::Value::Number(theirs)) => {
                theirs.as_f64().map(f64::to_bits) == Some(ours.to_bits())
            }
            (Value::Text(ours), serde_json::Value::String(theirs)) => ours == theirs,
            (Value::Array(ours), serde_json::Value::Array(theirs)) => {
                ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(a, b)| same(a, b))
            }
            (Value::Object(ours), serde_json::Value::Object(theirs)) => {
                let all = |(key, theirs): (&String, &serde_json::Value)| {
                    ours.get(key).is_some_and(|ours| same(ours, theirs))
                };
                ours.iter().all(|(key, _)| theirs.contains_key(key)) && theirs.iter().all(all)
            }
            _ => false,
        }
    }

    /// Whether the text is JSON; if so, its value is serde_json's.
    #[track_caller]
    fn compare(text: &str) -> bool {
        let theirs: Result<serde_json::Value, _> = serde_json::from_str(text);
        match (parse(text), theirs) {
            (Ok(ours), Ok(theirs)) => assert!(same(&ours, &theirs), "{text}: {ours:?}"),
            (Err(_), Err(_)) => return false,
            (ours, theirs) => panic!("{text}: {ours:?} for {theirs:?}"),
        }
        true
    }

    const TEXTS: [&str; 12] = [
        r#"{"a": [1, -2.5e-3, 1E+2, 0, -0, 0.1], "b": {"": null, "c": [true, false, [], {}]}}"#,
        r#" [ "\"\\\/\b\f\n\r\t", "\u0041\u00e9\ud83d\ude00", "é😀" ] "#,
        "{\"a\": 1, \"b\": 2, \"a\": {\"c\": \"d\"}}",
        "[1.0800000429153442, 123456789012345678901234567890, 4.9e-324, 1.7976931348623157e308]",
        "{\"layer_types\":[\"full_attention\",\"sliding_attention\"],\"rope_theta\":1e4}",
        "[9007199254740993, 18446744073709551615, -9223372036854775808, 1e22, 1e23]",
        "null",
        "true",
        "false",
        "\"\"",
        "-0.0",
        "\t\r\n[\n]\n",
    ];

    #[test]
    fn texts_are_what_serde_json_reads() {
        for text in TEXTS {
            assert!(compare(text), "{text}");
            // Every beginning of it, and every text with one byte that is another.
            for at in 0..text.len() {
                compare(text.get(..at).unwrap_or_default());
                for byte in b"\0\t \"\\,:{}[]-+.0159eEtfnu/" {
                    let mut changed = text.as_bytes().to_vec();
                    changed[at] = *byte;
                    compare(core::str::from_utf8(&changed).unwrap_or_default());
                    changed.insert(at, *byte);
                    compare(core::str::from_utf8(&changed).unwrap_or_default());
                }
            }
        }
        for text in [
            "",
            " ",
            "{} {}",
            "[1 2]",
            "[,]",
            "{,}",
            "{1: 2}",
            "{\"a\" 1}",
            "tru",
            "nul",
            "+1",
            ".5",
            "5.",
            "01",
            "1e",
            "1e999",
            "-1e999",
            "NaN",
            "Infinity",
            "'a'",
            r#""\ud800""#,
            r#""\ud800\u0041""#,
            r#""\udc00""#,
            r#""\u12g4""#,
            "\"\u{1f}\"",
            "\u{feff}{}",
            "// a\n{}",
        ] {
            assert!(!compare(text), "{text}");
        }
    }

    #[test]
    fn what_is_within_each_other_is_limited() {
        let nested = |depth| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(compare(&nested(127)));
        assert!(!compare(&nested(128)));
        assert!(!compare(&"[".repeat(1 << 20)));
    }

    #[test]
    fn errors_are_where_serde_json_has_them() {
        for text in [
            "",
            "{",
            "{\n  \"a\": 1,,}",
            "[\n1\n2]",
            "{\"a\": tru}",
            "[1]]",
            "{\"a\": x}",
        ] {
            let theirs = serde_json::from_str::<serde_json::Value>(text).expect_err("a refusal");
            let expected = Error::Json {
                line: theirs.line().max(1),
                column: theirs.column(),
                ends_early: theirs.is_eof(),
            };
            assert_eq!(parse(text), Err(expected.into()), "{text}");
        }
    }

    #[test]
    fn values_are_quoted_as_json() {
        let text = r#"{"a":[1,-2.5,1e-5,null,true,"b"],"c":{}}"#;
        assert_eq!(format!("{}", parse(text).expect("JSON")), text);
    }
}
