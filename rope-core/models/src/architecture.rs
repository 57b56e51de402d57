//! The architectures of GGUF files, by llama.cpp's code: the table `architectures.txt`, one line an architecture.
//!
//! The table is text so that it can be read, searched and compared with a newer llama.cpp as the one thing that it is;
//! what its words mean is written at its top. An architecture that is not there is refused by name.

/// The table.
const TABLE: &str = include_str!("architectures.txt");

/// How an architecture pairs the channels and deals out the axes: its `llama_model_rope_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RopeType {
    Norm,
    Neox,
    Mrope,
    Imrope,
}

/// The base and the scaling of layers with a sliding window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Local {
    /// Those of the other layers.
    AsOthers,
    Own,
    Unscaled,
    TenThousand,
    Plain,
    OwnPlain,
}

/// The line of one architecture.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Architecture {
    line: &'static str,
}

impl Architecture {
    pub(crate) fn named(name: &str) -> Option<Self> {
        lines().find(|architecture| architecture.name() == name)
    }

    pub(crate) fn name(self) -> &'static str {
        self.columns().next().unwrap_or_default()
    }

    fn columns(self) -> impl Iterator<Item = &'static str> {
        self.line.split_ascii_whitespace()
    }

    fn type_name(self) -> &'static str {
        self.columns().nth(1).unwrap_or_default()
    }

    /// Why it is refused, if it is.
    pub(crate) fn refusal(self) -> Option<&'static str> {
        let file = self.columns().nth(2)?;
        (self.type_name() == "refused")
            .then(|| self.line.split_once(file))?
            .map(|(_, reason)| reason.trim())
    }

    pub(crate) fn rotates(self) -> bool {
        !["none", "refused"].contains(&self.type_name())
    }

    /// `None` if it does not rotate. `sections` says whether the file has sections of the axes.
    pub(crate) fn rope_type(self, sections: bool) -> Option<RopeType> {
        match (self.type_name(), sections) {
            ("norm", _) | ("norm|mrope", false) => Some(RopeType::Norm),
            ("neox", _) | ("neox|mrope", false) => Some(RopeType::Neox),
            ("mrope" | "norm|mrope" | "neox|mrope", _) => Some(RopeType::Mrope),
            ("imrope", _) => Some(RopeType::Imrope),
            _ => None,
        }
    }

    /// Whether its type depends on the sections of the axes that the file has.
    pub(crate) fn may_have_sections(self) -> bool {
        self.type_name().contains('|')
    }

    pub(crate) fn is(self, word: &str) -> bool {
        self.columns().skip(3).any(|other| other == word)
    }

    /// What stands behind `key=`, and whether `:first` follows it.
    pub(crate) fn value(self, key: &str) -> Option<(&'static str, bool)> {
        let values = self
            .columns()
            .skip(3)
            .filter_map(|word| word.split_once('='));
        let value = values
            .filter(|(name, _)| *name == key)
            .map(|(_, value)| value)
            .next()?;
        Some(match value.strip_suffix(":first") {
            Some(value) => (value, true),
            None => (value, false),
        })
    }

    pub(crate) fn local(self) -> Local {
        match self.value("local") {
            Some(("own", _)) => Local::Own,
            Some(("unscaled", _)) => Local::Unscaled,
            Some(("10000", _)) => Local::TenThousand,
            Some(("plain", _)) => Local::Plain,
            Some(("own-plain", _)) => Local::OwnPlain,
            _ => Local::AsOthers,
        }
    }

    /// Whether all its layers rotate, and alike.
    pub(crate) fn all_layers_alike(self) -> bool {
        ["window", "rotates", "skips", "recurrent"]
            .iter()
            .all(|key| self.value(key).is_none())
    }
}

pub(crate) fn lines() -> impl Iterator<Item = Architecture> {
    TABLE
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| Architecture { line })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    /// A word that is misspelled would do nothing.
    #[test]
    fn every_word_of_the_table_is_explained_at_its_top() {
        const TYPES: [&str; 8] = [
            "norm",
            "neox",
            "mrope",
            "imrope",
            "norm|mrope",
            "neox|mrope",
            "none",
            "refused",
        ];
        const WORDS: &[&str] = &[
            "window=2",
            "window=3:first",
            "window=4",
            "window=4:first",
            "window=5",
            "window=6",
            "window=8",
            "window=file",
            "if=window",
            "if=no-zero",
            "if=64-layers",
            "local=own",
            "local=unscaled",
            "local=10000",
            "local=plain",
            "local=own-plain",
            "own-dim",
            "halved",
            "rotates=sliding",
            "rotates=sliding-or-lead",
            "rotates=sliding-or-all",
            "rotates=listed",
            "rotates=switched",
            "rotates=7b",
            "skips=4",
            "skips=4:first",
            "recurrent=kv",
            "recurrent=4",
            "recurrent=8",
            "freqs",
            "freqs=full",
            "freqs=needed",
            "yarn=betas",
            "yarn=grok",
            "yarn=mistral3",
            "yarn=deepseek2",
            "yarn=deepseek",
            "yarn=refused",
            "alpha",
            "fixed",
            "refuses=decision.block_count",
        ];
        let names: Vec<&str> = lines().map(Architecture::name).collect();
        assert!(
            names.is_sorted_by(|one, next| one < next),
            "in their order, each once"
        );
        let mut used = Vec::new();
        for architecture in lines() {
            let (name, kind) = (architecture.name(), architecture.type_name());
            assert!(TYPES.contains(&kind), "{name}: {kind}");
            assert!(
                architecture
                    .columns()
                    .nth(2)
                    .is_some_and(|file| file.ends_with(".cpp")),
                "{name}"
            );
            if kind == "refused" {
                assert!(
                    architecture
                        .refusal()
                        .is_some_and(|reason| reason.len() > 10),
                    "{name}"
                );
                continue;
            }
            assert_eq!(architecture.refusal(), None, "{name}");
            for word in architecture.columns().skip(3) {
                assert!(WORDS.contains(&word), "{name}: {word}");
                used.push(word);
            }
        }
        for word in WORDS {
            assert!(used.contains(word), "{word} is used");
        }
    }
}
