//! The bytes of a GGUF file: its keys, and its tensors of factors.
//!
//! A file is a header (magic, version, two counts), keys with values, a list of tensors, and from the next multiple of
//! the alignment on the tensors' data. A text is its length and its bytes; an array is the type of its elements, their
//! number and the elements. Numbers of version 2 and 3 have the byte order of the machine that wrote the file, which
//! the version, a small number, reveals.
//!
//! No allocation depends on a number in the file: the reader stores at most [`MOST_KEYS`] keys, lists of at most
//! [`MOST_ENTRIES`] entries, and existing factors.

use super::value::GgufValue;
use crate::base::error::{Error, Refusal, Result, out_of_range};
use alloc::vec::Vec;

/// The most keys of a file, without those of its tokenizer. Real files have some dozens.
const MOST_KEYS: usize = 4096;
/// The most entries of a list: one per layer, and llama.cpp has at most 512 layers.
const MOST_ENTRIES: u64 = 512;
/// The most entries of a tensor of factors, one per pair.
const MOST_FACTORS: u64 = 1 << 16;
/// The deepest nesting of arrays. llama.cpp has none.
const DEEPEST: u32 = 8;

pub(super) const NUMBER: &str = "split.no";
pub(super) const COUNT: &str = "split.count";
const ALIGNMENT: &str = "general.alignment";

/// The indices of the tensors in [`FilePart::tensors`].
pub(super) const FREQS: usize = 0;
pub(super) const LONG: usize = 1;
pub(super) const SHORT: usize = 2;
pub(super) const TENSORS: [&str; 3] = [
    "rope_freqs.weight",
    "rope_factors_long.weight",
    "rope_factors_short.weight",
];

/// A value of a file. Arrays are decoded: in the file they have any alignment and byte order.
#[derive(Clone, Debug)]
pub(super) enum FileValue<'a> {
    Plain(GgufValue<'a>),
    Integers(Vec<i32>),
    Bools(Vec<bool>),
}

impl FileValue<'_> {
    pub(super) fn value(&self) -> GgufValue<'_> {
        match self {
            Self::Plain(value) => *value,
            Self::Integers(list) => GgufValue::Integers(list),
            Self::Bools(list) => GgufValue::Bools(list),
        }
    }
}

/// A file, or one of the parts that a file was split into.
#[derive(Clone, Debug)]
pub(super) struct FilePart<'a> {
    pub(super) keys: Vec<(&'a str, FileValue<'a>)>,
    /// The number of the part, from 0, and the number of all parts.
    pub(super) number: u64,
    pub(super) count: u64,
    /// The values of the [`TENSORS`] that the part lists, or why they cannot be read.
    pub(super) tensors: [Option<Result<Vec<f32>>>; 3],
}

/// Returns the error for the value of a general key.
pub(super) fn invalid(key: &'static str, value: GgufValue<'_>, required: &'static str) -> Refusal {
    out_of_range(key, format_args!("{value}"), required)
}

/// A tensor in the list of a file.
struct Listed {
    dimensions: u32,
    entries: Option<u64>,
    kind: u32,
    offset: u64,
}

/// A reader of a file.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    big_endian: bool,
}

impl<'a> FilePart<'a> {
    /// Reads a file, or a part of one.
    ///
    /// # Errors
    ///
    /// [`Error::GgufFile`] with the offset at which the bytes stop being a file; [`Error::Invalid`] for the alignment,
    /// and for the keys of a part.
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self> {
        let mut reader = Reader {
            bytes,
            at: 0,
            big_endian: false,
        };
        if bytes.is_empty() {
            return Err(wrong(
                0,
                "it is empty; give the bytes of the file from its first on",
            ));
        }
        if reader.take(4)? != b"GGUF" {
            return Err(wrong(0, "it does not begin with the letters GGUF"));
        }
        // A version that is a multiple of 2^16 is a small number in the other byte order.
        let version = reader.take(4)?;
        reader.big_endian = version[..2] == [0, 0];
        if let 1 | 0 | 4.. = number(version, reader.big_endian) {
            return Err(wrong(4, "its version is not 2 or 3"));
        }
        let (tensors, keys) = (reader.u64()?, reader.u64()?);
        let mut part = Self {
            keys: Vec::new(),
            number: 0,
            count: 1,
            tensors: [None, None, None],
        };
        let mut alignment = 32;
        for _ in 0..keys {
            let start = reader.at;
            let (key, kind) = (reader.text()?, reader.u32()?);
            let value = reader.value(kind, 0)?;
            let Ok(key) = core::str::from_utf8(key) else {
                continue;
            };
            if key.starts_with("tokenizer.") {
                continue;
            }
            match (key, value.value()) {
                (ALIGNMENT, GgufValue::Integer(own @ 1..=0xffff_ffff)) if own & (own - 1) == 0 => {
                    alignment = own as u64;
                }
                (ALIGNMENT, value) => {
                    return Err(invalid(ALIGNMENT, value, "a power of two below 2^32"));
                }
                (NUMBER, GgufValue::Integer(own @ 0..)) => part.number = own as u64,
                (NUMBER, value) => return Err(invalid(NUMBER, value, "the number of a part")),
                (COUNT, GgufValue::Integer(own @ 0..)) => part.count = own as u64,
                (COUNT, value) => return Err(invalid(COUNT, value, "a number of parts")),
                _ => {}
            }
            if part.keys.iter().any(|(other, _)| *other == key) {
                return Err(wrong(start, "this key is there already"));
            }
            if part.keys.len() == MOST_KEYS {
                return Err(wrong(start, "it has more than 4096 keys"));
            }
            part.keys.push((key, value));
        }
        let mut listed: [Option<Listed>; 3] = [None, None, None];
        for _ in 0..tensors {
            let start = reader.at;
            let (name, dimensions) = (reader.text()?, reader.u32()?);
            let mut entries = Some(1_u64);
            for _ in 0..dimensions {
                let dimension = reader.u64()?;
                entries = entries.and_then(|entries| entries.checked_mul(dimension));
            }
            let (kind, offset) = (reader.u32()?, reader.u64()?);
            let Some(index) = TENSORS.iter().position(|own| own.as_bytes() == name) else {
                continue;
            };
            let own = Listed {
                dimensions,
                entries,
                kind,
                offset,
            };
            if listed[index].replace(own).is_some() {
                return Err(wrong(start, "this tensor is there already"));
            }
        }
        let data = (reader.at as u64).next_multiple_of(alignment);
        for ((values, listed), name) in part.tensors.iter_mut().zip(listed).zip(TENSORS) {
            *values = listed.map(|listed| listed.values(name, data, &reader));
        }
        Ok(part)
    }
}

impl Listed {
    fn values(&self, name: &'static str, data: u64, reader: &Reader<'_>) -> Result<Vec<f32>> {
        let entries = match (self.kind, self.dimensions, self.entries) {
            (0, 1, Some(entries @ 1..=MOST_FACTORS)) => entries,
            (kind, dimensions, entries) => {
                let entries = entries.unwrap_or(u64::MAX);
                let entry = if entries == 1 { "entry" } else { "entries" };
                let dimension = if dimensions == 1 {
                    "dimension"
                } else {
                    "dimensions"
                };
                return Err(out_of_range(
                    name,
                    format_args!("{entries} {entry} of type {kind} in {dimensions} {dimension}"),
                    "at most 65536 of type 0 (f32) in one dimension, or be passed to Gguf::with_freq_factors",
                ));
            }
        };
        let start = data.checked_add(self.offset);
        let end = start.and_then(|start| start.checked_add(4 * entries));
        let place = |place: Option<u64>| usize::try_from(place?).ok();
        let found = place(start)
            .zip(place(end))
            .and_then(|(start, end)| reader.bytes.get(start..end));
        let found = found.ok_or_else(|| Error::TensorData {
            tensor: name,
            end: end.unwrap_or(u64::MAX),
            given: reader.bytes.len() as u64,
        })?;
        let (values, _) = found.as_chunks::<4>();
        let value = |bytes: &[u8; 4]| f32::from_bits(number(bytes, reader.big_endian) as u32);
        Ok(values.iter().map(value).collect())
    }
}

impl<'a> Reader<'a> {
    fn take(&mut self, len: u64) -> Result<&'a [u8]> {
        let rest = &self.bytes[self.at..];
        let taken = usize::try_from(len).ok().and_then(|len| rest.get(..len));
        let taken = taken.ok_or_else(|| wrong(self.at, "it ends before what begins here"))?;
        self.at += taken.len();
        Ok(taken)
    }

    fn u32(&mut self) -> Result<u32> {
        Ok(number(self.take(4)?, self.big_endian) as u32)
    }

    fn u64(&mut self) -> Result<u64> {
        Ok(number(self.take(8)?, self.big_endian))
    }

    fn text(&mut self) -> Result<&'a [u8]> {
        let len = self.u64()?;
        self.take(len)
    }

    /// Reads a value of a type.
    fn value(&mut self, kind: u32, depth: u32) -> Result<FileValue<'a>> {
        Ok(FileValue::Plain(match kind {
            TEXT => match core::str::from_utf8(self.text()?) {
                Ok(text) => GgufValue::Text(text),
                Err(_) => GgufValue::Others,
            },
            ARRAY => return self.array(depth),
            _ => {
                let size = self.size_of(kind)?;
                scalar(kind, number(self.take(size)?, self.big_endian))
            }
        }))
    }

    /// Reads an array. Stores lists of integers and of booleans if they have at most as many entries as layers are
    /// possible; for other arrays it stores only that they exist.
    fn array(&mut self, depth: u32) -> Result<FileValue<'a>> {
        let start = self.at;
        let (kind, len) = (self.u32()?, self.u64()?);
        let others = Ok(FileValue::Plain(GgufValue::Others));
        if kind == ARRAY && depth == DEEPEST {
            return Err(wrong(start, "it has more than 8 arrays within each other"));
        }
        if let TEXT | ARRAY = kind {
            for _ in 0..len {
                match kind {
                    TEXT => self.text().map(drop),
                    _ => self.array(depth + 1).map(drop),
                }?;
            }
            return others;
        }
        let size = self.size_of(kind)?;
        let bytes = self.take(len.saturating_mul(size))?;
        if len > MOST_ENTRIES || depth > 0 {
            return others;
        }
        let values = bytes.chunks_exact(size as usize);
        let values = values.map(|bytes| scalar(kind, number(bytes, self.big_endian)));
        let (mut integers, mut bools) = (Vec::new(), Vec::new());
        for value in values {
            match value {
                GgufValue::Bool(value) => bools.push(value),
                GgufValue::Integer(value) if i32::try_from(value).is_ok() => {
                    integers.push(value as i32);
                }
                _ => return others,
            }
        }
        Ok(match kind {
            BOOL => FileValue::Bools(bools),
            _ => FileValue::Integers(integers),
        })
    }

    /// Returns the bytes of a value of a scalar type.
    fn size_of(&self, kind: u32) -> Result<u64> {
        match kind {
            U8 | I8 | BOOL => Ok(1),
            U16 | I16 => Ok(2),
            U32 | I32 | F32 => Ok(4),
            U64 | I64 | F64 => Ok(8),
            _ => Err(wrong(self.at, "the type of this value is unknown")),
        }
    }
}

const U8: u32 = 0;
const I8: u32 = 1;
const U16: u32 = 2;
const I16: u32 = 3;
const U32: u32 = 4;
const I32: u32 = 5;
const F32: u32 = 6;
const BOOL: u32 = 7;
const TEXT: u32 = 8;
const ARRAY: u32 = 9;
const U64: u32 = 10;
const I64: u32 = 11;
const F64: u32 = 12;

/// Converts at most 8 bytes to a number.
fn number(bytes: &[u8], big_endian: bool) -> u64 {
    let add = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
    match big_endian {
        true => bytes.iter().fold(0, add),
        false => bytes.iter().rev().fold(0, add),
    }
}

/// Converts bits to a value of a type known to [`Reader::size_of`].
fn scalar(kind: u32, bits: u64) -> GgufValue<'static> {
    match kind {
        I8 => GgufValue::Integer((bits as i8).into()),
        I16 => GgufValue::Integer((bits as i16).into()),
        I32 => GgufValue::Integer((bits as i32).into()),
        F32 => GgufValue::Float(f32::from_bits(bits as u32).into()),
        F64 => GgufValue::Float(f64::from_bits(bits)),
        BOOL => GgufValue::Bool(bits != 0),
        U64 if bits >> 63 != 0 => GgufValue::Float(bits as f64),
        _ => GgufValue::Integer(bits as i64),
    }
}

#[cold]
#[inline(never)]
fn wrong(at: usize, what: &'static str) -> Refusal {
    Error::GgufFile { at, what }.into()
}
