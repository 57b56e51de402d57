//! Messages in another language name that language's functions. Each language has a table of names, which its
//! translation applies by [`Renamed`]. These tests find names that a table lacks: in every error, and in every text of
//! the sources, because most fields of errors are texts.

use std::collections::HashSet;
use std::path::Path;

use rope_core::internals::Renamed;

use crate::kinds::rust_files;
use crate::messages::{cases, cases_of_models};

#[path = "../../rope-core/capi/src/dialect.rs"]
mod c;
#[path = "../../rope-core/adapters/torch/src/dialect.rs"]
mod python;

/// A language with the table of its names.
struct Language {
    name: &'static str,
    names: &'static [(&'static str, &'static str)],
    /// The sources of its translation, which have messages of their own.
    sources: &'static str,
    /// The text with the language's words.
    vocabulary: &'static str,
    /// Names beyond the vocabulary: Rust names (or a type, as `Type::`) in messages that the language never shows,
    /// because it lacks the refused calls; and names of its own.
    others: &'static [&'static str],
}

const LANGUAGES: &[Language] = &[
    Language {
        name: "C",
        names: c::NAMES,
        sources: "../rope-core/capi/src",
        vocabulary: include_str!("../../rope-core/capi/include/rope.h"),
        others: &[
            "Rotation::",
            "Rows::narrow_pairs",
            "SIZE_MAX",
            "PTRDIFF_MAX",
        ],
    },
    Language {
        name: "Python",
        names: python::NAMES,
        sources: "../rope-core/adapters/torch/src",
        // With its operators, and libtorch's functions and types.
        vocabulary: concat!(
            include_str!("../../rope-core/adapters/torch/src/operators.rs"),
            include_str!("../../rope-core/adapters/torch/src/shim.rs"),
            include_str!("../../rope-core/adapters/torch/src/shim/interface.rs"),
            include_str!("../../rope-core/adapters/torch/src/shim/sys.rs"),
            include_str!("../../rope-core/adapters/torch/src/shim/tangents.rs"),
            include_str!("../../rope-core/adapters/torch/src/shim/versions.rs"),
            "inference_mode",
            "float8_e4m3fn",
            include_str!("../../rope-core/adapters/torch/python/rope_kernels/_config.py"),
            include_str!("../../rope-core/adapters/torch/python/rope_kernels/_plan.py"),
            include_str!("../../rope-core/adapters/torch/python/rope_kernels/_rotate.py"),
            include_str!("../../rope-core/adapters/torch/python/rope_kernels/_stages.py"),
        ),
        others: &[
            // PyTorch's operators.
            "aten::",
            // Functions that its calls lack: GGUF files, sums of squares, offsets, shards, shifts, parts of rows, dual
            // chunks, formats by name; windows of models, which are checked before.
            "Frequencies::shift",
            "Gguf::",
            "Norm::with_sum_of_squares",
            "PairGradients::cos_sin",
            "Rotation::",
            "Rope::with_parts",
            "Rope::with_window",
            "Rows::inverted",
            "Rows::narrow_pairs",
            "ShardKind::Striped",
            "ShardKind::UnevenZigzag",
            "Slots::offsets",
            "IQ4_NL",
            "Q4_0",
            "Q4_1",
            "Q5_0",
            "Q5_1",
            "chunk_size",
            "freq_factors",
            "local_size",
            "mixed_b",
            // Keys of a config.json, and names of the rotation.
            "beta_fast",
            "beta_slow",
            "extrapolation_factor",
            "high_freq_factor",
            "long_factor",
            "low_freq_factor",
            "max_period",
            "max_position_embeddings",
            "min_period",
            "mscale_all_dim",
            "ntk_factor",
            "original_max_position_embeddings",
            "partial_rotary_factor",
            "RoPE",
            "short_factor",
            "softmax_factor",
            "YaRN",
        ],
    },
];

/// Names outside these languages: an assembler's, PyTorch's, ggml's, and fields that only `Debug` writes.
const ELSEWHERE: &[&str] = &[
    "arch_extension",
    "repeat_interleave",
    "Q8_0",
    "q4_0",
    "q4_1",
    "q5_0",
    "q5_1",
    "q8_0",
    "iq4_nl",
    "u8_in_32",
    "u8_in_64",
    "u8_in_128",
    "u4_in_32",
    "u4_in_64",
    "u4_in_128",
    "first_inverse",
    "last_inverse",
];

/// Returns the names in a text: words with `::`, with an underscore, or with a capital after a small letter; and Rust's
/// types.
fn names_in(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    text.split(move |c| !is_part(c))
        .map(|word| word.trim_matches(':'))
        .filter(|word| {
            let mut letters = word.chars().zip(word.chars().skip(1));
            ["usize", "isize", "slice"].contains(word)
                || word.contains("::")
                || word.trim_matches('_').contains('_')
                || letters.any(|(a, b)| a.is_lowercase() && b.is_uppercase())
        })
}

impl Language {
    /// Asserts that no message has a Rust name in this language. In messages marked `true` only paths are such names,
    /// because these messages name keys of files.
    fn has_no_rust_name(&self, messages: &[(String, bool)]) {
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        let mut known: HashSet<&str> = self.vocabulary.split(|c| !is_part(c)).collect();
        known.extend(self.others.iter().chain(ELSEWHERE));
        let is_known = |name: &str| {
            let mut of_type = self.others.iter().filter(|other| other.ends_with("::"));
            known.contains(name) || of_type.any(|other| name.starts_with(other))
        };
        let mut left = vec![];
        for (text, names_keys) in messages {
            let names = self.names;
            let message = Renamed { text, names }.to_string();
            left.extend(
                names_in(&message)
                    .filter(|name| !is_known(name))
                    .filter(|name| !names_keys || name.contains("::"))
                    .map(|name| format!("{}: {name}, in: {message}", self.name)),
            );
        }
        assert!(left.is_empty(), "{}", left.join("\n"));
    }
}

/// Returns the texts of a source, without comments, attributes and tests.
fn texts(source: &str) -> Vec<String> {
    let source = match source.find("#[cfg(test)]\nmod ") {
        Some(tests) => &source[..tests],
        None => source,
    };
    let mut found = vec![];
    let mut rest = source;
    // The text's prefix, from the beginning of the last line.
    while let Some(at) = rest.find(['"', '\'', '/', '#']) {
        let after = &rest[at + 1..];
        rest = match &rest[at..=at] {
            "/" if after.starts_with('/') => after.split_once('\n').map_or("", |(_, next)| next),
            "\"" => {
                let mut text = String::new();
                let mut letters = after.char_indices();
                let end = loop {
                    match letters.next().expect("the end of a text") {
                        (end, '"') => break end,
                        (_, '\\') => match letters.next().expect("an escape").1 {
                            '\n' => {
                                let spaces = letters.as_str().trim_start();
                                let skipped = letters.as_str().len() - spaces.len();
                                letters.by_ref().take(skipped).for_each(drop);
                            }
                            escaped => text.push(escaped),
                        },
                        (_, letter) => text.push(letter),
                    }
                };
                found.push(text);
                &after[end + 1..]
            }
            // A character, not a lifetime.
            "'" if after.starts_with("\\'") => &after[3..],
            "'" if after.starts_with("\"'") => &after[2..],
            "#" if after.starts_with('[') => {
                let depths = after.chars().scan(0, |depth, c| {
                    *depth += i32::from(c == '[') - i32::from(c == ']');
                    Some(*depth)
                });
                let length = depths.take_while(|depth| *depth > 0).count();
                let bytes = after
                    .char_indices()
                    .nth(length)
                    .map_or(after.len(), |(at, _)| at);
                &after[bytes..]
            }
            _ => after,
        };
    }
    found
}

/// Returns the texts of a crate.
fn texts_of(folder: &str) -> Vec<String> {
    let mut files = vec![];
    rust_files(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join(folder),
        &mut files,
    );
    files
        .iter()
        .filter(|file| !file.ends_with("tests.rs"))
        .flat_map(|file| texts(&std::fs::read_to_string(file).expect("a source")))
        .filter(|text| !is_path_or_type(text))
        .map(|text| without_placeholders(&text))
        .collect()
}

/// Returns true for the path of a page or program, and for the name of a type, which `Debug` writes.
fn is_path_or_type(text: &str) -> bool {
    let is_word = text.chars().all(char::is_alphanumeric);
    text.ends_with(".md")
        || text.ends_with(".rs")
        || is_word && text.starts_with(char::is_uppercase)
}

/// Returns a format string without the names of its values.
fn without_placeholders(text: &str) -> String {
    let parts = text.split(['{', '}']).enumerate();
    parts
        .filter(|(at, _)| at % 2 == 0)
        .map(|(_, part)| part)
        .collect()
}

#[test]
fn no_error_names_a_function_of_rust() {
    let core = cases().into_iter().map(|(_, text)| (text, false));
    let models = cases_of_models().into_iter().map(|(_, text)| (text, true));
    let messages: Vec<_> = core.chain(models).collect();
    for language in LANGUAGES {
        language.has_no_rust_name(&messages);
    }
}

/// Most fields of errors are texts, and no list of errors covers all of them.
#[test]
fn no_text_of_the_sources_names_a_function_of_rust() {
    let of = |folder, names_keys| {
        let texts = texts_of(folder).into_iter();
        texts.map(move |text| (text, names_keys))
    };
    let messages: Vec<_> = of("../rope-core/src", false)
        .chain(of("../rope-core/models/src", true))
        .collect();
    for known in [
        "; use Layout::bshd for a part of a larger slice",
        "its layers rotate differently; use Model::layers",
    ] {
        let found = messages.iter().any(|(text, _)| text == known);
        assert!(found, "{known} is not found in the sources");
    }
    for language in LANGUAGES {
        language.has_no_rust_name(&messages);
        let is_row = |text: &str| language.names.iter().any(|&(name, _)| name == text);
        let own = of(language.sources, false).filter(|(text, _)| !is_row(text));
        let own: Vec<_> = own.collect();
        let untranslated = Language {
            names: &[],
            ..*language
        };
        assert!(own.len() > 100, "{}", language.sources);
        untranslated.has_no_rust_name(&own);
    }
}

/// Texts about the C API name only functions, types, constants and members that the header declares.
#[test]
fn texts_on_c_name_what_is_declared() {
    let header = include_str!("../../rope-core/capi/include/rope.h");
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let code = header
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default());
    let declared: HashSet<&str> = code.flat_map(|line| line.split(|c| !is_part(c))).collect();
    assert!(declared.contains("rope_rotate"));
    for text in [
        header,
        include_str!("../../rope-core/capi/README.md"),
        include_str!("../../rope-core/src/guide/c.md"),
    ] {
        // `rope_x_..` stands for several names.
        let of_files = [
            "rope_theta",
            "rope_freqs",
            "rope_factors_long",
            "rope_factors_short",
        ];
        let names = text
            .split(|c| !is_part(c) && c != '.')
            .filter(|name| name.starts_with("rope_") || name.starts_with("ROPE_"))
            .filter(|name| {
                !name.contains("_.") && !of_files.iter().any(|key| name.starts_with(key))
            })
            .flat_map(|name| name.split('.'))
            .filter(|name| !name.is_empty() && !name.ends_with('_'));
        for name in names {
            assert!(declared.contains(name), "{name} is not declared");
        }
    }
}

/// Names match as whole words, and of two names with the same beginning the table's first one matches.
#[test]
fn names_are_whole_words() {
    let names: &[(&str, &str)] = &[("call Rows::narrow", "pass n"), ("Rows::narrow", "rows")];
    for (text, expected) in [
        ("call Rows::narrow, or Rows::narrow", "pass n, or rows"),
        (
            "Rows::narrows and a_Rows::range",
            "Rows::narrows and a_Rows::range",
        ),
        ("Rows::narrows Rows::narrow", "Rows::narrows rows"),
        ("", ""),
    ] {
        assert_eq!(Renamed { text, names }.to_string(), expected);
    }
}
