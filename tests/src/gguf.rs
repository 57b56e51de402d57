//! Writer of GGUF files from their definition (`docs/gguf.md` of ggml): a header, keys with values, a list of tensors,
//! and the data of the tensors from the next multiple of the alignment on.

/// A value of a key.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names are those of the definition")]
pub enum Value {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(bool),
    Text(String),
    /// The type of the entries, and the entries.
    Array(u32, Vec<Value>),
    U64(u64),
    I64(i64),
    F64(f64),
}

impl Value {
    /// Returns a text.
    pub fn text(text: &str) -> Self {
        Value::Text(text.into())
    }

    /// Returns an array of values of one type.
    ///
    /// # Panics
    ///
    /// If the array is empty.
    pub fn array(values: impl IntoIterator<Item = Value>) -> Self {
        let values: Vec<Value> = values.into_iter().collect();
        Value::Array(values[0].kind(), values)
    }

    /// Returns the number of the value's type.
    pub fn kind(&self) -> u32 {
        match self {
            Value::U8(_) => 0,
            Value::I8(_) => 1,
            Value::U16(_) => 2,
            Value::I16(_) => 3,
            Value::U32(_) => 4,
            Value::I32(_) => 5,
            Value::F32(_) => 6,
            Value::Bool(_) => 7,
            Value::Text(_) => 8,
            Value::Array(..) => 9,
            Value::U64(_) => 10,
            Value::I64(_) => 11,
            Value::F64(_) => 12,
        }
    }
}

/// A file under construction.
#[derive(Clone, Debug)]
pub struct File {
    /// Version of the format, 2 or 3.
    pub version: u32,
    /// True for big-endian numbers.
    pub big_endian: bool,
    /// Alignment of the tensors' data, in bytes. Values other than 32 are written as a key.
    pub alignment: usize,
    /// Keys and values.
    pub keys: Vec<(String, Value)>,
    /// Names and numbers of the tensors.
    pub tensors: Vec<(String, Vec<f32>)>,
}

impl File {
    /// Returns a file of version 3 in little-endian order.
    pub fn new(keys: &[(&str, Value)], tensors: &[(&str, &[f32])]) -> Self {
        let keys = keys
            .iter()
            .map(|(key, value)| ((*key).into(), value.clone()));
        let tensors = tensors
            .iter()
            .map(|(name, values)| ((*name).into(), values.to_vec()));
        File {
            version: 3,
            big_endian: false,
            alignment: 32,
            keys: keys.collect(),
            tensors: tensors.collect(),
        }
    }

    fn number<const BYTES: usize>(&self, little_endian: [u8; BYTES]) -> [u8; BYTES] {
        let mut bytes = little_endian;
        if self.big_endian {
            bytes.reverse();
        }
        bytes
    }

    fn write_text(&self, to: &mut Vec<u8>, text: &str) {
        to.extend(self.number((text.len() as u64).to_le_bytes()));
        to.extend(text.as_bytes());
    }

    fn write_value(&self, to: &mut Vec<u8>, value: &Value) {
        match value {
            Value::U8(number) => to.push(*number),
            Value::I8(number) => to.push(*number as u8),
            Value::U16(number) => to.extend(self.number(number.to_le_bytes())),
            Value::I16(number) => to.extend(self.number(number.to_le_bytes())),
            Value::U32(number) => to.extend(self.number(number.to_le_bytes())),
            Value::I32(number) => to.extend(self.number(number.to_le_bytes())),
            Value::F32(number) => to.extend(self.number(number.to_le_bytes())),
            Value::Bool(value) => to.push((*value).into()),
            Value::Text(text) => self.write_text(to, text),
            Value::Array(kind, values) => {
                to.extend(self.number(kind.to_le_bytes()));
                to.extend(self.number((values.len() as u64).to_le_bytes()));
                values.iter().for_each(|value| self.write_value(to, value));
            }
            Value::U64(number) => to.extend(self.number(number.to_le_bytes())),
            Value::I64(number) => to.extend(self.number(number.to_le_bytes())),
            Value::F64(number) => to.extend(self.number(number.to_le_bytes())),
        }
    }

    /// Returns the file up to the end of the tensor list; the data of the tensors begins after it.
    pub fn header(&self) -> Vec<u8> {
        let mut keys = self.keys.clone();
        if self.alignment != 32 {
            let alignment = Value::U32(self.alignment as u32);
            keys.push(("general.alignment".into(), alignment));
        }
        let mut made = b"GGUF".to_vec();
        made.extend(self.number(self.version.to_le_bytes()));
        made.extend(self.number((self.tensors.len() as u64).to_le_bytes()));
        made.extend(self.number((keys.len() as u64).to_le_bytes()));
        for (key, value) in &keys {
            self.write_text(&mut made, key);
            made.extend(self.number(value.kind().to_le_bytes()));
            self.write_value(&mut made, value);
        }
        let mut offset = 0;
        for (name, values) in &self.tensors {
            self.write_text(&mut made, name);
            made.extend(self.number(1_u32.to_le_bytes()));
            made.extend(self.number((values.len() as u64).to_le_bytes()));
            made.extend(self.number(0_u32.to_le_bytes()));
            made.extend(self.number((offset as u64).to_le_bytes()));
            offset += (4 * values.len()).next_multiple_of(self.alignment);
        }
        made
    }

    /// Returns the bytes of the file.
    pub fn write(&self) -> Vec<u8> {
        let mut made = self.header();
        for (_, values) in &self.tensors {
            made.resize(made.len().next_multiple_of(self.alignment), 0);
            for value in values {
                made.extend(self.number(value.to_le_bytes()));
            }
        }
        made
    }
}
