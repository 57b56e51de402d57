//! GGUF files, byte by byte: the read values and the errors.
//!
//! `gguf.rs` tests the meaning of each key without files. Here the same keys are in files, which must give the same
//! models. The used tensors were read from `get_rope_factors` of llama.cpp's `src/llama-model.cpp` in the crate
//! `llama-cpp-sys-2` 0.1.161, and from the `create_tensor` calls of `src/models`.

use rope_core::{Frequencies, Scaling};
use rope_models::{Error, Gguf, GgufValue, Layers, Rotation};
use rope_tests::gguf::{File, Value};

use crate::models::of_formula;

use Value::{Bool, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};

const FREQS: &str = "rope_freqs.weight";
const LONG: &str = "rope_factors_long.weight";
const SHORT: &str = "rope_factors_short.weight";

/// Returns the keys of a Llama 3.1 of four layers, and keys of all types.
fn llama_keys() -> Vec<(&'static str, Value)> {
    let texts = ["<s>", "", "é", "llama.rope.freq_base"].map(Value::text);
    vec![
        ("general.architecture", Value::text("llama")),
        ("general.name", Value::text("Llama")),
        ("tokenizer.ggml.tokens", Value::array(texts.clone())),
        (
            "tokenizer.ggml.scores",
            Value::array([F32(-1.0), F32(f32::NAN)]),
        ),
        ("tokenizer.ggml.token_type", Value::array([I32(1), I32(-1)])),
        ("general.languages", Value::array(texts)),
        ("general.empty", Value::Array(8, vec![])),
        ("llama.block_count", U32(4)),
        ("llama.context_length", U64(131_072)),
        ("llama.embedding_length", U32(512)),
        ("llama.attention.head_count", U16(8)),
        ("llama.attention.head_count_kv", U8(2)),
        (
            "llama.nested",
            Value::array([Value::array([U8(1)]), Value::Array(9, vec![])]),
        ),
        ("llama.rope.dimension_count", I64(64)),
        ("llama.rope.freq_base", F32(500_000.0)),
        ("llama.some", Value::array([F64(1.5), F64(f64::INFINITY)])),
        ("llama.flag", Bool(true)),
        ("llama.small", I8(-1)),
        ("llama.short", I16(-1)),
    ]
}

/// Returns one factor for each pair, all different.
fn factors() -> Vec<f32> {
    (0..32).map(|pair| 1.0 + pair as f32 / 8.0).collect()
}

/// Returns a Llama 3.1 with its tensors; one of them has the scaling.
fn llama() -> File {
    let others = [7.0_f32; 45];
    File::new(
        &llama_keys(),
        &[
            ("token_embd.weight", &others),
            (FREQS, &factors()),
            ("output.weight", &others),
        ],
    )
}

fn llama_frequencies() -> Frequencies<'static> {
    let factors = factors();
    of_formula(64, 500_000.0, &Scaling::FreqFactors { factors: &factors }).unwrap()
}

fn rotation(bytes: &[u8]) -> Result<Rotation, Error> {
    Gguf::from_bytes(bytes)?.model()?.rotation().cloned()
}

fn layers(bytes: &[u8]) -> Result<Layers, Error> {
    Gguf::from_bytes(bytes)?.model()?.layers().cloned()
}

/// Returns the text of the error of a refused file.
fn refusal(bytes: &[u8]) -> String {
    rotation(bytes).expect_err("a refusal").to_string()
}

/// Returns the file in every version, byte order and alignment.
fn written(file: &File) -> Vec<Vec<u8>> {
    let mut made = Vec::new();
    for version in [2, 3] {
        for big_endian in [false, true] {
            for alignment in [1, 8, 32, 64] {
                let mut file = file.clone();
                (file.version, file.big_endian, file.alignment) = (version, big_endian, alignment);
                made.push(file.write());
            }
        }
    }
    made
}

#[test]
fn a_file_answers_as_its_keys_and_its_tensor() {
    let factors = factors();
    let keys = [
        ("general.architecture", GgufValue::Text("llama")),
        ("llama.block_count", GgufValue::Integer(4)),
        ("llama.embedding_length", GgufValue::Integer(512)),
        ("llama.attention.head_count", GgufValue::Integer(8)),
        ("llama.rope.dimension_count", GgufValue::Integer(64)),
        ("llama.rope.freq_base", GgufValue::Float(500_000.0)),
    ];
    let expected = Gguf::new(&keys).unwrap().with_freq_factors(Some(&factors));
    let expected = expected.model().unwrap();
    assert_eq!(
        expected.rotation().unwrap().frequencies(),
        &llama_frequencies()
    );
    for bytes in written(&llama()) {
        let model = Gguf::from_bytes(&bytes).unwrap().model().unwrap();
        assert_eq!(model.name(), "llama");
        assert_eq!(
            format!("{:?}", model.layers()),
            format!("{:?}", expected.layers())
        );
        assert_eq!(model.rotation(), expected.rotation());
    }
    // Without the tensor the file is a Llama 3.0, which needs no declaration.
    let plain = of_formula(64, 500_000.0, &Scaling::Default).unwrap();
    for bytes in written(&File::new(&llama_keys(), &[("output.weight", &[1.0; 3])])) {
        assert_eq!(rotation(&bytes).unwrap().frequencies(), &plain);
    }
    for bytes in written(&File::new(&llama_keys(), &[])) {
        assert_eq!(rotation(&bytes).unwrap().frequencies(), &plain);
    }
}

/// Tests numbers of every type, and lists of the types that have lists.
#[test]
fn values_of_every_type_are_read() {
    let with = |key: &str, value: Value| {
        let mut file = File::new(
            &[
                ("general.architecture", Value::text("gemma2")),
                ("gemma2.block_count", U32(3)),
                ("gemma2.attention.key_length", U32(64)),
            ],
            &[],
        );
        file.keys.retain(|(own, _)| own != key);
        file.keys.push((key.into(), value));
        file
    };
    let of = |key: &str, value: Value| {
        let files = written(&with(key, value.clone()));
        let all: Vec<_> = files.iter().map(|bytes| layers(bytes)).collect();
        assert!(
            all.iter()
                .all(|made| format!("{made:?}") == format!("{:?}", all[0])),
            "{key} {value:?}"
        );
        all[0].clone()
    };
    for value in [
        U8(100),
        I8(100),
        U16(100),
        I16(100),
        U32(100),
        I32(100),
        U64(100),
        I64(100),
    ] {
        let made = of("gemma2.block_count", value.clone()).unwrap();
        assert_eq!(made.len(), 100, "{value:?}");
    }
    for value in [
        I8(-100),
        I16(-100),
        I32(-100),
        I64(-100),
        U64(u64::MAX),
        Bool(true),
        F32(1.0),
        F64(1.0),
    ] {
        let text = of("gemma2.block_count", value.clone())
            .unwrap_err()
            .to_string();
        let named = text.strip_prefix("gemma2.block_count is ");
        let required = ", but must be a positive integer below 2^32";
        assert!(named.is_some_and(|rest| rest.ends_with(required)), "{text}");
    }
    for (value, base) in [
        (F32(1.5e6), 1.5e6),
        (F64(1.5e6), 1.5e6),
        (U16(50_000), 50_000.0),
        (U32(4_000_000_000), 4e9),
        (U64(1 << 63), 9223372036854775808.0),
    ] {
        let made = of("gemma2.rope.freq_base", value).unwrap();
        let expected = of_formula(64, base, &Scaling::Default).unwrap();
        assert_eq!(made.rotations()[0].frequencies(), &expected);
    }
    // The windows of three layers.
    let pattern = "gemma2.attention.sliding_window_pattern";
    let types = |layers: &Layers| -> Vec<bool> {
        let sliding = |layer: rope_models::Layer<'_>| layer.layer_type == Some("sliding_attention");
        layers.iter().map(sliding).collect()
    };
    let windows = [true, false, false];
    for list in [
        Value::array(windows.map(Bool)),
        Value::array(windows.map(|own| U8(own.into()))),
        Value::array(windows.map(|own| I8(own.into()))),
        Value::array(windows.map(|own| U16(own.into()))),
        Value::array(windows.map(|own| I16(own.into()))),
        Value::array(windows.map(|own| U32(own.into()))),
        Value::array(windows.map(|own| I32(own.into()))),
        Value::array(windows.map(|own| U64(own.into()))),
        Value::array(windows.map(|own| I64(own.into()))),
    ] {
        assert_eq!(types(&of(pattern, list).unwrap()), windows);
    }
    // A value other than a list of integers is not treated as a missing key.
    for (value, quoted) in [
        (Value::array([F32(1.0), F32(0.0), F32(0.0)]), "[..]"),
        (Value::array([U64(1 << 40), U64(0), U64(0)]), "[..]"),
        (Value::array(["1", "0", "0"].map(Value::text)), "[..]"),
        (Value::array([Value::array([U8(1)])]), "[..]"),
        (Value::array(vec![U8(0); 513]), "[..]"),
        (Value::text("1"), "\"1\""),
    ] {
        let made = of("gemma2.rope.freq_base", value).unwrap_err();
        let expected = format!("gemma2.rope.freq_base is {quoted}, but must be a number");
        assert_eq!(made.to_string(), expected);
    }
}

#[test]
fn a_file_ends_before_its_list_of_tensors_does() {
    for (big_endian, file) in [(false, llama()), (true, llama())] {
        let file = File { big_endian, ..file };
        let (header, bytes) = (file.header(), file.write());
        for len in 0..header.len() {
            let Err(Error::GgufFile { at, what }) = Gguf::from_bytes(&bytes[..len]).map(drop)
            else {
                panic!("{len} bytes are not refused");
            };
            let empty = what.starts_with("it is empty");
            assert!(
                at <= len
                    && (what == "it ends before what begins here" || empty)
                    && empty == (len == 0),
                "{len}: {at}, {what}"
            );
        }
        // From this length on the keys are known, but perhaps not a tensor that the rotation depends on.
        let data = header.len().next_multiple_of(32);
        let end = data + (4_usize * 45).next_multiple_of(32) + 4 * 32;
        for len in header.len()..end {
            let gguf = Gguf::from_bytes(&bytes[..len]).unwrap();
            let error = Error::TensorData {
                tensor: FREQS,
                end: end as u64,
                given: len as u64,
            };
            let model = gguf.model().unwrap();
            assert_eq!(model.rotation(), Err(error.clone()));
            assert_eq!(model.layers().map(drop), Err(error.clone()));
            assert_eq!(
                error.to_string(),
                format!(
                    "the tensor rope_freqs.weight ends at byte {end} of the GGUF file, and {len} bytes were given: \
                     give the file as far as there, or pass the tensor's values to Gguf::with_freq_factors"
                )
            );
            let factors = factors();
            let model = gguf.with_freq_factors(Some(&factors)).model().unwrap();
            assert_eq!(
                model.rotation().unwrap().frequencies(),
                &llama_frequencies()
            );
        }
        // The bytes after the tensor are not read.
        for len in [end, end + 1, bytes.len()] {
            let made = rotation(&bytes[..len]).unwrap();
            assert_eq!(made.frequencies(), &llama_frequencies());
        }
    }
    // An architecture that reads no tensor needs no data.
    let keys = [
        ("general.architecture", Value::text("qwen3")),
        ("qwen3.block_count", U32(2)),
        ("qwen3.attention.key_length", U32(64)),
    ];
    let qwen = File::new(&keys, &[("output.weight", &[1.0; 64])]);
    assert!(rotation(&qwen.header()).is_ok());
}

/// Returns a file from the header's first bytes and other bytes after them.
fn raw(tensors: u64, keys: u64, rest: &[u8]) -> Vec<u8> {
    let mut made = b"GGUF\x03\0\0\0".to_vec();
    made.extend(tensors.to_le_bytes());
    made.extend(keys.to_le_bytes());
    made.extend(rest);
    made
}

/// Returns a key with the given name, type of value, and bytes of the value.
fn raw_key(key: &str, kind: u32, value: &[u8]) -> Vec<u8> {
    let len = (key.len() as u64).to_le_bytes();
    [&len[..], key.as_bytes(), &kind.to_le_bytes(), value].concat()
}

#[test]
fn hostile_files_are_refused() {
    let ends = "it ends before what begins here";
    let huge = u64::MAX.to_le_bytes();
    let array = |kind: u32, len: u64| [&kind.to_le_bytes()[..], &len.to_le_bytes()].concat();
    // Nested arrays of any depth.
    let deep = array(9, 1).repeat(100_000);
    let cases = [
        (
            vec![],
            0,
            "it is empty; give the bytes of the file from its first on",
        ),
        (b"GGU".to_vec(), 0, ends),
        (
            b"GGML\x03\0\0\0".to_vec(),
            0,
            "it does not begin with the letters GGUF",
        ),
        (
            b"{\"model_type\": 1}".to_vec(),
            0,
            "it does not begin with the letters GGUF",
        ),
        (b"GGUF\x01\0\0\0".to_vec(), 4, "its version is not 2 or 3"),
        (b"GGUF\x04\0\0\0".to_vec(), 4, "its version is not 2 or 3"),
        (b"GGUF\0\0\0\x01".to_vec(), 4, "its version is not 2 or 3"),
        (b"GGUF\0\0\0\0".to_vec(), 4, "its version is not 2 or 3"),
        (raw(u64::MAX, 0, &[]), 24, ends),
        (raw(0, u64::MAX, &[]), 24, ends),
        (raw(0, 1, &huge), 32, ends),
        (raw(0, 1, &raw_key("a", 8, &huge)), 45, ends),
        (raw(0, 1, &raw_key("a", 9, &array(8, u64::MAX))), 49, ends),
        (raw(0, 1, &raw_key("a", 9, &array(9, u64::MAX))), 49, ends),
        (raw(0, 1, &raw_key("a", 9, &array(12, u64::MAX))), 49, ends),
        (raw(0, 1, &raw_key("a", 9, &array(0, 1 << 62))), 49, ends),
        (
            raw(0, 1, &raw_key("a", 13, &[0; 64])),
            37,
            "the type of this value is unknown",
        ),
        (
            raw(0, 1, &raw_key("a", 9, &array(13, 1))),
            49,
            "the type of this value is unknown",
        ),
        (
            raw(0, 1, &raw_key("a", 9, &deep)),
            133,
            "it has more than 8 arrays within each other",
        ),
        (
            raw(0, 2, &raw_key("a", 0, &[1]).repeat(2)),
            38,
            "this key is there already",
        ),
        // A tensor without a name, of 2^32 - 1 dimensions.
        (raw(1, 0, &[[0; 8], [0xff; 8]].concat()), 36, ends),
    ];
    for (bytes, at, what) in cases {
        let error = Gguf::from_bytes(&bytes).map(drop).unwrap_err();
        assert_eq!(error, Error::GgufFile { at, what }, "{bytes:?}");
        let text = format!("the GGUF file is wrong from byte {at}: {what}");
        assert_eq!(error.to_string(), text);
    }
    let mut many = llama();
    for key in 0..5000 {
        many.keys.push((format!("llama.key{key}"), U8(0)));
    }
    let error = Gguf::from_bytes(&many.write()).map(drop).unwrap_err();
    assert!(error.to_string().ends_with("it has more than 4096 keys"));
    let mut twice = llama();
    twice.tensors.push((FREQS.into(), vec![1.0]));
    let error = Gguf::from_bytes(&twice.write()).map(drop).unwrap_err();
    assert!(error.to_string().ends_with("this tensor is there already"));

    // Keys with invalid values.
    for (key, value, message) in [
        (
            "general.alignment",
            U32(0),
            "general.alignment is 0, but must be a power of two below 2^32",
        ),
        (
            "general.alignment",
            U32(24),
            "general.alignment is 24, but must be a power of two below 2^32",
        ),
        (
            "general.alignment",
            Value::text("32"),
            "general.alignment is \"32\", but must be a power of two below 2^32",
        ),
        (
            "split.no",
            I32(-1),
            "split.no is -1, but must be the number of a part",
        ),
        (
            "split.count",
            F32(2.0),
            "split.count is 2.0, but must be a number of parts",
        ),
    ] {
        let mut file = llama();
        file.keys.push((key.into(), value));
        assert_eq!(refusal(&file.write()), message);
    }
    assert_eq!(
        refusal(&raw(0, 0, &[])),
        "general.architecture is missing, and has no known default"
    );
    let number = raw_key("general.architecture", 0, &[1]);
    assert_eq!(
        refusal(&raw(0, 1, &number)),
        "general.architecture is 1, but must be a text"
    );
    let no_text = raw_key(
        "general.architecture",
        8,
        &[&1_u64.to_le_bytes()[..], &[0xff]].concat(),
    );
    assert_eq!(
        refusal(&raw(0, 1, &no_text)),
        "general.architecture is [..], but must be a text"
    );
}

/// The tensor list gives the place, the type and the length of each tensor.
#[test]
fn tensors_that_cannot_be_factors_are_refused() {
    let keys = llama_keys();
    let listed = |dimensions: &[u64], kind: u32, offset: u64| {
        let mut bytes = File::new(&keys, &[]).header();
        bytes[8] = 1;
        bytes.extend((FREQS.len() as u64).to_le_bytes());
        bytes.extend(FREQS.as_bytes());
        bytes.extend((dimensions.len() as u32).to_le_bytes());
        dimensions
            .iter()
            .for_each(|own| bytes.extend(own.to_le_bytes()));
        bytes.extend(kind.to_le_bytes());
        bytes.extend(offset.to_le_bytes());
        bytes.resize(bytes.len() + 4096, 0);
        bytes
    };
    for (dimensions, kind, is) in [
        (&[32][..], 1, "32 entries of type 1 in 1 dimension"),
        (&[32, 1], 0, "32 entries of type 0 in 2 dimensions"),
        (&[], 0, "1 entry of type 0 in 0 dimensions"),
        (&[0], 0, "0 entries of type 0 in 1 dimension"),
        (&[1 << 17], 0, "131072 entries of type 0 in 1 dimension"),
        (
            &[u64::MAX, 2],
            0,
            "18446744073709551615 entries of type 0 in 2 dimensions",
        ),
    ] {
        let expected = format!(
            "rope_freqs.weight is {is}, but must be at most 65536 of type 0 (f32) in one dimension, or be passed to \
             Gguf::with_freq_factors"
        );
        assert_eq!(refusal(&listed(dimensions, kind, 0)), expected);
    }
    for offset in [1 << 40, u64::MAX, u64::MAX - 2048] {
        let made = rotation(&listed(&[32], 0, offset));
        assert!(
            matches!(made, Err(Error::TensorData { .. })),
            "{offset}: {made:?}"
        );
    }
    // A length other than the number of pairs.
    let made = rotation(&listed(&[33], 0, 0));
    assert!(
        matches!(made, Err(Error::Rope(rope_core::Error::Count { .. }))),
        "{made:?}"
    );
    // The caller's count replaces the file's.
    let (bytes, factors) = (listed(&[32], 1, 0), factors());
    let gguf = Gguf::from_bytes(&bytes)
        .unwrap()
        .with_freq_factors(Some(&factors));
    let model = gguf.model().unwrap();
    assert_eq!(
        model.rotation().unwrap().frequencies(),
        &llama_frequencies()
    );
}

/// Each part is a file; the first part has the keys.
#[test]
fn split_files_answer_when_all_parts_are_given() {
    let split = |number: u16| [("split.no", U16(number)), ("split.count", U16(3))];
    let part = |number, tensors: &[(&str, &[f32])]| File::new(&split(number), tensors).write();
    let mut keys = llama_keys();
    keys.extend(split(0));
    let other = &[1.0_f32; 3][..];
    let factors = factors();
    // The usual case: the first part has the tensor.
    let bytes = File::new(&keys, &[(FREQS, &factors), ("output.weight", other)]).write();
    assert_eq!(
        rotation(&bytes).unwrap().frequencies(),
        &llama_frequencies()
    );

    let first = File::new(&keys, &[]).write();
    let gguf = Gguf::from_bytes(&first).unwrap();
    let of = |gguf: &Gguf<'_>| Ok(gguf.model()?.rotation()?.frequencies().clone());
    let unknown = |gguf: &Gguf<'_>, given| {
        let error = Error::SplitFile {
            tensor: FREQS,
            given,
            count: 3,
        };
        assert_eq!(of(gguf), Err(error.clone()));
        assert_eq!(
            error.to_string(),
            format!(
                "{given} of 3 parts of the GGUF file were given, without the tensor rope_freqs.weight: give the others \
                 (Gguf::with_part), or pass its values, or None, to Gguf::with_freq_factors"
            )
        );
    };
    unknown(&gguf, 1);
    let plain = of_formula(64, 500_000.0, &Scaling::Default);
    assert_eq!(of(&gguf.clone().with_freq_factors(None)), plain);
    let with = [
        part(1, &[("a", other)]),
        part(2, &[("b", other), (FREQS, &factors)]),
    ];
    let without = [part(1, &[("a", other)]), part(2, &[("b", other)])];
    // The other parts in any order.
    for order in [[0, 1], [1, 0]] {
        let one = gguf.clone().with_part(&with[order[0]]).unwrap();
        if order[0] == 0 {
            unknown(&one, 2);
        } else {
            assert_eq!(of(&one), Ok(llama_frequencies()));
        }
        assert_eq!(
            of(&one.with_part(&with[order[1]]).unwrap()),
            Ok(llama_frequencies())
        );
        let none = gguf.clone().with_part(&without[order[0]]).unwrap();
        unknown(&none, 2);
        assert_eq!(of(&none.with_part(&without[order[1]]).unwrap()), plain);
    }
    let refused = |made: Result<Gguf<'_>, Error>| made.map(drop).unwrap_err().to_string();
    assert_eq!(
        refused(Gguf::from_bytes(&with[0])),
        "split.no is 1, but must be 0: Gguf::from_bytes takes the first part of a file, and Gguf::with_part the others"
    );
    let again = gguf
        .clone()
        .with_part(&with[0])
        .unwrap()
        .with_part(&without[0]);
    let required = "but must be below split.count, and of a part that was not given before";
    assert_eq!(refused(again), format!("split.no is 1, {required}"));
    assert_eq!(
        refused(gguf.clone().with_part(&first)),
        format!("split.no is 0, {required}")
    );
    assert_eq!(
        refused(gguf.clone().with_part(&part(3, &[]))),
        format!("split.no is 3, {required}")
    );
    let whole = llama().write();
    assert_eq!(
        refused(gguf.clone().with_part(&whole)),
        "split.count is 1, but must be that of the first part"
    );
    assert!(refused(gguf.with_part(b"GGUF")).starts_with("the GGUF file is wrong from byte 4"));
    let keys = [("general.architecture", GgufValue::Text("llama"))];
    assert_eq!(
        refused(Gguf::new(&keys).unwrap().with_part(&whole)),
        "Gguf::with_part must be called after Gguf::from_bytes"
    );
}

/// phi3.cpp, phimoe.cpp and minicpm3.cpp load the long and the short factors for any type of scaling; the others load
/// them for the type longrope, and `rope_freqs` without it.
#[test]
fn the_context_chooses_between_long_and_short_factors() {
    let [freqs, long, short] = [1.5_f32, 2.0, 3.0].map(|factor| [factor; 32]);
    let file = |architecture: &str, kind: Option<&str>, tensors: &[(&str, &[f32])]| {
        let own = |key: &str| format!("{architecture}.{key}");
        let mut file = File::new(
            &[("general.architecture", Value::text(architecture))],
            tensors,
        );
        for (key, value) in [
            ("block_count", U32(2)),
            ("context_length", U32(131_072)),
            ("attention.key_length", U32(64)),
            ("rope.dimension_count", U32(64)),
            ("rope.scaling.original_context_length", U32(4096)),
        ] {
            file.keys.push((own(key), value));
        }
        if let Some(kind) = kind {
            file.keys
                .push((own("rope.scaling.type"), Value::text(kind)));
        }
        file
    };
    let both: &[(&str, &[f32])] = &[(LONG, &long), (SHORT, &short)];
    let all: &[(&str, &[f32])] = &[(LONG, &long), (SHORT, &short), (FREQS, &freqs)];
    let divided = |factors| of_formula(64, 1e4, &Scaling::FreqFactors { factors });
    let of = |bytes: &[u8], context: Option<u64>| {
        let mut gguf = Gguf::from_bytes(bytes)?;
        if let Some(context) = context {
            gguf = gguf.with_context(context);
        }
        Ok(gguf.model()?.rotation()?.frequencies().clone())
    };
    for (architecture, kind) in [
        ("phi3", None),
        ("phi3", Some("longrope")),
        ("phimoe", None),
        ("minicpm3", None),
        ("llama", Some("longrope")),
        ("minicpm", Some("longrope")),
    ] {
        for bytes in written(&file(architecture, kind, both)) {
            // The file's own context is longer than the original one.
            assert_eq!(of(&bytes, None), divided(&long), "{architecture} {kind:?}");
            assert_eq!(of(&bytes, Some(4097)), divided(&long));
            assert_eq!(of(&bytes, Some(4096)), divided(&short));
        }
    }
    for architecture in ["llama", "minicpm"] {
        let bytes = file(architecture, None, all).write();
        assert_eq!(of(&bytes, None), divided(&freqs), "{architecture}");
    }
    // A file without an original context was trained for all of its context.
    let mut trained = file("phi3", None, both);
    trained
        .keys
        .retain(|(key, _)| !key.ends_with("original_context_length"));
    assert_eq!(of(&trained.write(), None), divided(&short));
    trained
        .keys
        .retain(|(key, _)| !key.ends_with("context_length"));
    let missing = "phi3.context_length is missing, and has no known default";
    assert_eq!(of(&trained.write(), None).unwrap_err().to_string(), missing);
    // With only one of the tensors, the other one is missing where the context needs it.
    let bytes = file("phi3", None, &[(SHORT, &short)]).write();
    let missing = "rope_factors_long.weight is missing, and has no known default";
    assert_eq!(of(&bytes, None).unwrap_err().to_string(), missing);
    assert_eq!(of(&bytes, Some(4096)), divided(&short));
    // A Phi-3 of 4096 positions has neither.
    let bytes = file("phi3", None, &[]).write();
    assert_eq!(of(&bytes, None), of_formula(64, 1e4, &Scaling::Default));
    let bytes = file("phi3", Some("longrope"), &[]).write();
    assert!(of(&bytes, None).is_err());
}

/// Tests an architecture that does not use a tensor of factors.
#[test]
fn a_tensor_that_is_not_read_is_refused() {
    let keys = [
        ("general.architecture", Value::text("qwen3")),
        ("qwen3.block_count", U32(2)),
        ("qwen3.attention.key_length", U32(64)),
    ];
    let bytes = File::new(&keys, &[(FREQS, &factors())]).write();
    assert_eq!(
        refusal(&bytes),
        "the tensor of factors (Gguf::with_freq_factors) must be None: this architecture does not read one"
    );
    let gguf = Gguf::from_bytes(&bytes).unwrap().with_freq_factors(None);
    let model = gguf.model().unwrap();
    let expected = of_formula(64, 1e4, &Scaling::Default).unwrap();
    assert_eq!(model.rotation().unwrap().frequencies(), &expected);
}

#[test]
fn unknown_keys_of_the_rotation_are_refused() {
    for (key, nearest) in [
        (
            "llama.rope.freq_bas",
            "; the nearest that is known is \"llama.rope.freq_base\"",
        ),
        (
            "llama.rope.scaling.original_context_lenght",
            "; the nearest that is known is \"llama.rope.scaling.original_context_length\"",
        ),
        ("llama.rope.xyz", ""),
    ] {
        let mut file = llama();
        file.keys.push((key.into(), F32(1.0)));
        let bytes = file.write();
        assert_eq!(
            refusal(&bytes),
            format!(
                "a key of the GGUF file is \"{key}\", which is not known here{nearest}; Gguf::without leaves it out"
            )
        );
        let gguf = Gguf::from_bytes(&bytes).unwrap().without(key);
        let model = gguf.model().unwrap();
        assert_eq!(
            model.rotation().unwrap().frequencies(),
            &llama_frequencies()
        );
    }
    // Keys of another architecture, or about something else.
    for key in [
        "qwen2.rope.freq_bas",
        "llama.ropes",
        "llama.attention.rope",
        "rope.freq_bas",
    ] {
        let mut file = llama();
        file.keys.push((key.into(), F32(1.0)));
        assert!(rotation(&file.write()).is_ok(), "{key}");
    }
    // An ignored key counts as missing.
    let bytes = llama().write();
    let gguf = Gguf::from_bytes(&bytes)
        .unwrap()
        .without("llama.rope.freq_base");
    let factors = factors();
    let expected = of_formula(64, 1e4, &Scaling::FreqFactors { factors: &factors }).unwrap();
    assert_eq!(
        gguf.model().unwrap().rotation().unwrap().frequencies(),
        &expected
    );
}

/// `load_hparams`: sliding layers rotate `rope.dimension_count_swa` channels, or without that key all channels of a
/// full layer.
#[test]
fn a_gemma_4_without_its_rope_keys_names_the_key_of_its_sliding_layers() {
    let mut file = File::new(
        &[
            ("general.architecture", Value::text("gemma4")),
            ("gemma4.block_count", U32(2)),
            ("gemma4.attention.key_length", U32(512)),
            ("gemma4.attention.key_length_swa", U32(256)),
            ("gemma4.attention.sliding_window", U32(1024)),
            (
                "gemma4.attention.sliding_window_pattern",
                Value::array([Bool(true), Bool(false)]),
            ),
        ],
        &[(FREQS, &[1.0; 256])],
    );
    assert_eq!(
        layers(&file.write()).unwrap_err().to_string(),
        "gemma4.attention.key_length_swa is 256 for 512 channels that rotate, but must be at least as many: \
         rope.dimension_count_swa is too large, or missing"
    );
    file.keys
        .push(("gemma4.rope.dimension_count_swa".into(), U32(256)));
    let made = layers(&file.write()).unwrap();
    let windows: Vec<_> = made.rotations().iter().map(Rotation::window).collect();
    assert_eq!(windows, [0..256, 0..512]);
}
