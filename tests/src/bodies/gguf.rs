//! GGUF files from any bytes.

use rope_models::{Error, Gguf};

use super::frequencies::{ARCHITECTURES, KEYS, answers};
use crate::Source;
use crate::gguf::{File, Value};

/// Reads any bytes: a file if they begin as one, otherwise choices that make a file with the keys of real ones, in
/// which some bytes are then changed. Asserts that nothing panics and that every accepted answer is finite.
///
/// # Panics
///
/// If an assertion fails.
pub fn gguf(bytes: &[u8]) {
    let source = &mut Source::bytes(bytes);
    match bytes {
        [b'G', b'G', b'U', b'F', ..] => check(bytes, source),
        _ => made_gguf(source),
    }
}

/// Returns a file with the keys of real ones and values of any type.
///
/// # Panics
///
/// As [`gguf`].
pub fn made_gguf(source: &mut Source<'_>) {
    let architecture = source.one_of(&ARCHITECTURES);
    let mut file = File::new(&[("general.architecture", Value::text(architecture))], &[]);
    file.version = source.within(2, 3) as u32;
    file.big_endian = source.once_in(2);
    file.alignment = source.one_of(&[1, 8, 32, 64]);
    for _ in 0..source.below(20) {
        let key = match source.below(16) {
            0 => source
                .one_of(&["split.no", "split.count", "general.alignment"])
                .into(),
            1 => format!("{architecture}.rope.{}", source.below(4)),
            2 => "tokenizer.ggml.tokens".into(),
            _ => format!("{architecture}.{}", source.one_of(&KEYS)),
        };
        file.keys.push((key, value(source, 0)));
    }
    for _ in 0..source.below(4) {
        let name = source.one_of(&[
            "rope_freqs.weight",
            "rope_factors_long.weight",
            "rope_factors_short.weight",
            "output.weight",
        ]);
        let len = source.one_of(&[0, 1, 32, 64, 65]);
        file.tensors.push((
            name.into(),
            vec![source.one_of(&[1.0, 8.0, 0.0, f32::NAN]); len],
        ));
    }
    let mut bytes = file.write();
    if source.once_in(3) {
        for _ in 0..source.within(1, 4) {
            let at = source.below(bytes.len());
            bytes[at] = source.one_of(&[0, 1, 8, 9, 0x7f, 0xff]);
        }
    }
    if source.once_in(3) {
        bytes.truncate(source.below(bytes.len() + 1));
    }
    check(&bytes, source);
}

fn value(source: &mut Source<'_>, depth: u32) -> Value {
    let number = match source.below(4) {
        0 => source.wide() as i64,
        _ => source.within(0, 130) as i64,
    };
    let float = source.one_of(&[1e4, 5e5, 0.5, 1.0, -1.0, 0.0, f64::NAN, f64::INFINITY]);
    match source.below(if depth < 2 { 14 } else { 12 }) {
        0 => Value::U8(number as u8),
        1 => Value::I8(number as i8),
        2 => Value::U16(number as u16),
        3 => Value::I16(number as i16),
        4 => Value::U32(number as u32),
        5 => Value::I32(number as i32),
        6 => Value::F32(float as f32),
        7 => Value::Bool(number & 1 == 1),
        8 => Value::text(source.one_of(&["", "yarn", "linear", "longrope", "é"])),
        9 => Value::U64(number as u64),
        10 => Value::I64(number),
        11 => Value::F64(float),
        _ => {
            let first = value(source, depth + 1);
            Value::Array(first.kind(), vec![first; source.below(9)])
        }
    }
}

fn check(bytes: &[u8], source: &mut Source<'_>) {
    let gguf = match Gguf::from_bytes(bytes) {
        Ok(gguf) => gguf,
        Err(Error::GgufFile { at, .. }) => return assert!(at <= bytes.len(), "{at}"),
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    answers(source, &gguf);
    let factors = [2.0; 64];
    let factors = source.once_in(2).then_some(&factors[..]);
    answers(source, &gguf.clone().with_freq_factors(factors));
    let context = source.wide() as u64 >> source.below(64);
    answers(source, &gguf.clone().with_context(context));
    if let Ok(gguf) = gguf.with_part(bytes) {
        answers(source, &gguf);
    }
}
