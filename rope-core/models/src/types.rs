//! What a configuration file leaves to the model's code, by model type: the table `types.txt`, one line a type.
//!
//! The table is text so that it can be read, searched, compared with another version of transformers
//! (`tests/golden/models.py`) and shown (`README.md`, [`crate::guide::models`]) as the one thing that it is. A line is
//! looked up and its words are asked for by name; what the words mean is written at the top of the table. A type that
//! is not there is refused by name.

use core::fmt::Debug;

/// The table.
const TABLE: &str = include_str!("types.txt");

/// The line of one model type.
#[derive(Clone, Copy)]
pub(crate) struct Model {
    line: &'static str,
}

impl Debug for Model {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.line)
    }
}

/// A line for a model that is not known, of which nothing is asked but its parameters.
pub(crate) const UNKNOWN: Model = Model {
    line: "unknown - half",
};

/// The line of that type, if it is known.
pub(crate) fn model(model_type: &str) -> Option<Model> {
    lines().find(|model| model.name() == model_type)
}

/// The lines of the table.
pub(crate) fn lines() -> impl Iterator<Item = Model> {
    TABLE
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| Model { line })
}

impl Model {
    #[inline(never)]
    fn word(self, index: usize) -> &'static str {
        self.line
            .split_ascii_whitespace()
            .nth(index)
            .unwrap_or_default()
    }

    /// The model type.
    pub(crate) fn name(self) -> &'static str {
        self.word(0)
    }

    /// How channels are paired, or `refused` or `part`.
    pub(crate) fn pairing(self) -> &'static str {
        self.word(2)
    }

    /// Whether the line has this word.
    #[inline(never)]
    pub(crate) fn is(self, word: &str) -> bool {
        self.line
            .split_ascii_whitespace()
            .skip(3)
            .any(|own| own == word)
    }

    /// Why the type is refused, which ends its line.
    pub(crate) fn why(self) -> &'static str {
        self.line.split_once(" why=").map_or("", |(_, why)| why)
    }

    /// What follows `key=` in the line.
    #[inline(never)]
    pub(crate) fn value(self, key: &str) -> Option<&'static str> {
        self.line
            .split_ascii_whitespace()
            .skip(2)
            .find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
    }

    /// The number that follows `key=`.
    #[inline(never)]
    pub(crate) fn number(self, key: &str) -> Option<f64> {
        self.value(key)?.parse().ok()
    }

    /// What follows `key=`, in two parts around a colon: a key of the file, and what counts without it.
    #[inline(never)]
    pub(crate) fn keyed(self, key: &str) -> Option<(&'static str, &'static str)> {
        let value = self.value(key)?;
        Some(value.split_once(':').unwrap_or((value, "")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn every_line_is_in_order_and_has_known_words_only() {
        let names: Vec<&str> = lines().map(Model::name).collect();
        assert!(names.len() > 400, "{}", names.len());
        assert!(names.is_sorted(), "the table is in alphabetical order");
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
        for model in lines() {
            assert!(
                [
                    "half",
                    "interleaved",
                    "interleaved>half",
                    "negated",
                    "none",
                    "part",
                    "refused"
                ]
                .contains(&model.pairing()),
                "{model:?}"
            );
            let (line, why) = model.line.split_once(" why=").unwrap_or((model.line, ""));
            assert_eq!(why.is_empty(), model.pairing() != "refused", "{model:?}");
            for word in line.split_ascii_whitespace().skip(3) {
                let key = word.split_once('=').map_or(word, |(key, _)| key);
                assert!(WORDS.contains(&key), "{word} in {model:?}");
                let explained = TABLE.lines().any(|line| {
                    line.strip_prefix("#   ")
                        .is_some_and(|line| line.split([' ', '=', ',']).any(|word| word == key))
                });
                assert!(explained, "{key} is not explained");
            }
        }
    }

    #[test]
    fn every_default_is_json() {
        for text in lines().filter_map(|model| model.value("params")) {
            assert!(
                serde_json::from_str::<serde_json::Value>(text).is_ok(),
                "{text}"
            );
        }
        for model in lines() {
            for key in ["base", "partial", "head", "original", "global-head"] {
                if let Some((_, default)) =
                    model.keyed(key).filter(|(_, default)| !default.is_empty())
                {
                    assert!(default.parse::<f64>().is_ok(), "{model:?}");
                }
            }
        }
    }

    const WORDS: [&str; 59] = [
        "alpha",
        "axes",
        "axial",
        "base",
        "bases",
        "by-layer",
        "clvp",
        "compress",
        "context-key",
        "depth",
        "depth-key",
        "end",
        "fills",
        "flat",
        "global-head",
        "head",
        "head-key",
        "heads-key",
        "if",
        "interleave-key",
        "layers",
        "longrope",
        "memory",
        "mla",
        "mrope-type",
        "no-context",
        "no-rope",
        "norm",
        "norm-after",
        "norm-eps",
        "norm-if",
        "norm-layers",
        "norm-row",
        "norm-values",
        "null-stands-still",
        "obeys",
        "original",
        "own-window",
        "params",
        "partial",
        "phimoe",
        "rope-head",
        "rotary-dim",
        "rotates",
        "scaled-layers",
        "scales-sliding",
        "sliding",
        "softmax",
        "still-layers",
        "stills",
        "theta-only",
        "turns",
        "unless",
        "unscaled",
        "values",
        "whole",
        "width",
        "width-key",
        "window",
    ];
}
