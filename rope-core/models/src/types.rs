//! The behavior of the models' code that a configuration file omits, by model type.
//!
//! Types that rotate are rows of a table (`types/rows.rs`, stored as described in `types/columns.rs`), whose fields are
//! the enums and numbers of `types/row.rs`. Other types are names with a reason (`types/others.rs`). A type that is in
//! neither is refused by name.

use crate::base::error::{Result, still, unsupported};
use crate::base::json::{Object, Value};
use crate::base::words;
use alloc::string::String;

mod columns;
mod others;
mod row;
mod rows;
mod sizes;

pub(crate) use row::*;
pub(crate) use sizes::{Sizes, otherwise, sizes_of};

/// A model type.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Type {
    Rotating(Row),
    /// Its parts have types of their own; the field is that of the text model, if it may be flat in the file.
    Composite(Option<&'static str>),
    Still,
    /// Its rotation is not supported here.
    Refused(&'static str),
}

/// Returns the type of that name, and the name in the table.
pub(crate) fn model_type(name: &str) -> Option<(&'static str, Type)> {
    let name = words::after(others::ALIASES, name).unwrap_or(name);
    let of = |names: &'static str| names.split_ascii_whitespace().find(|known| *known == name);
    if let Some((name, row)) = rows::named(name) {
        return Some((name, Type::Rotating(row)));
    }
    if let Some((name, why)) = others::REFUSED.iter().find(|(known, _)| *known == name) {
        return Some((name, Type::Refused(why)));
    }
    if let Some(name) = of(others::STILL) {
        return Some((name, Type::Still));
    }
    let (name, _) = with_parts(name)?;
    Some((name, Type::Composite(words::after(others::FLAT, name))))
}

/// Returns true if a composite's class checks the flat parameters of its text model as its own.
pub(crate) fn checks_flat(composite: &str) -> bool {
    words::has(others::FLAT_CHECKED, composite)
}

/// Returns the known type with the same rotation, for an error: only if the code of both was compared.
#[cold]
pub(crate) fn alike(name: &str) -> &'static str {
    words::after(others::ALIKE, name).unwrap_or_default()
}

/// Returns the keys about a rotation in the published files of a type without one.
pub(crate) fn keys_of_unrotated(name: &str) -> &'static str {
    words::after(others::IDLE, name).unwrap_or_default()
}

/// Returns the key of a composite's text model, if it is not `text_config`.
pub(crate) fn text_part(composite: &str) -> Option<&'static str> {
    words::after(others::TEXTS, composite)
}

/// Returns the type whose class reads the file, if that depends on its content.
pub(crate) fn instead(name: &str, config: &Object) -> Option<&'static str> {
    let says = |key, wanted: f64| match config.get(key) {
        Some(Value::Bool(own)) => f64::from(u8::from(*own)) == wanted,
        own => own.and_then(Value::as_f64) == Some(wanted),
    };
    let found = others::INSTEAD
        .iter()
        .find(|(own, key, value, _)| *own == name && says(key, *value));
    found.map(|(.., other)| *other)
}

/// Returns the name of a part without the endings of part names.
pub(crate) fn stem(part: &str) -> &str {
    let mut part = part;
    while let Some(shorter) = part.strip_suffix("_config") {
        part = shorter;
    }
    part
}

/// A part of a composite.
#[derive(Clone, Copy)]
pub(crate) struct PartOf {
    pub(crate) key: &'static str,
    /// True if the class fixes its type, regardless of the file.
    pub(crate) fixed: bool,
    /// True if the class fails on a part in the file that names no type.
    pub(crate) names_its_type: bool,
    named: &'static str,
}

impl PartOf {
    /// Returns the type of the part.
    #[inline(never)]
    pub(crate) fn name(&self, whole: &str) -> String {
        match self.named {
            "" => derived(whole, self.key),
            named if named.starts_with('_') => [whole, named].concat(),
            named => named.into(),
        }
    }
}

/// Returns the type named by a whole and one of its parts.
#[inline(never)]
pub(crate) fn derived(whole: &str, part: &str) -> String {
    [whole, "_", stem(part)].concat()
}

/// Returns the type with that name and its description of parts.
#[inline(never)]
fn with_parts(name: &str) -> Option<(&'static str, &'static str)> {
    others::PARTS.split(';').find_map(|line| {
        let (whole, parts) = line.split_once(':')?;
        let whole = whole.trim_ascii();
        (whole == name).then_some((whole, parts))
    })
}

/// Iterates over the parts of a composite.
pub(crate) fn parts(whole: &str) -> impl Iterator<Item = PartOf> {
    let (_, parts) = with_parts(whole).unwrap_or_default();
    parts.split_ascii_whitespace().filter_map(|part| {
        let (key, own) = part.split_at(part.find(['=', '~', '!'])?);
        Some(PartOf {
            key: match key {
                "t" => "text_config",
                "v" => "vision_config",
                "a" => "audio_config",
                "b" => "backbone_config",
                "e" => "encoder_config",
                key => key,
            },
            fixed: own.starts_with('='),
            names_its_type: own.starts_with('!'),
            named: own.get(1..)?,
        })
    })
}

/// Returns the part of a composite with that key.
#[inline(never)]
pub(crate) fn part_of(whole: &str, key: &str) -> Option<PartOf> {
    parts(whole).find(|part| part.key == key)
}

/// Returns the row of that type if it rotates, and otherwise the error. Composites have a separate error.
pub(crate) fn row_of(name: &'static str, found: Type) -> Result<Row> {
    match found {
        Type::Rotating(row) => Ok(row),
        Type::Still | Type::Composite(_) => Err(still(
            name,
            "it has no rotary embedding, so nothing rotates",
        )),
        Type::Refused(why) => Err(unsupported(name, why)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::format;
    use std::string::ToString;
    use std::vec::Vec;

    fn names(list: &'static str) -> Vec<&'static str> {
        list.split_ascii_whitespace().collect()
    }

    fn rows() -> impl Iterator<Item = (&'static str, Row)> {
        rows::names()
            .enumerate()
            .map(|(number, name)| (name, Row::at(number)))
    }

    fn pairs(list: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
        list.lines().filter_map(|line| line.split_once(' '))
    }

    fn composites() -> Vec<&'static str> {
        let wholes = others::PARTS
            .split(';')
            .filter_map(|line| line.split_once(':'));
        wholes
            .map(|(whole, _)| whole.trim())
            .filter(|whole| matches!(model_type(whole), Some((_, Type::Composite(_)))))
            .collect()
    }

    #[test]
    fn every_type_is_there_once_and_in_order() {
        let lists = [
            rows::names().collect(),
            others::REFUSED.iter().map(|(name, _)| *name).collect(),
            composites(),
            names(others::STILL),
        ];
        for list in &lists {
            assert!(list.is_sorted(), "in alphabetical order");
        }
        let mut all = lists.concat();
        assert!(all.len() > 800, "{}", all.len());
        all.sort_unstable();
        assert!(all.windows(2).all(|pair| pair[0] != pair[1]));
        for name in [names(others::OWN_CODE), names(others::DIFFUSERS)].concat() {
            assert!(model_type(name).is_some(), "{name}");
        }
        for (composite, _) in pairs(others::TEXTS) {
            let found = model_type(composite).map(|(_, found)| found);
            assert!(matches!(found, Some(Type::Composite(_))), "{composite}");
        }
        for (name, _, _, other) in others::INSTEAD {
            for name in [name, other] {
                assert!(model_type(name).is_some(), "{name}");
            }
        }
        for (name, alike) in pairs(others::ALIKE) {
            assert!(model_type(name).is_none(), "{name}");
            assert!(rows::named(alike).is_some(), "{alike}");
        }
        for (composite, text) in pairs(others::FLAT) {
            let found = model_type(composite).map(|(_, found)| found);
            assert!(
                matches!(found, Some(Type::Composite(Some(_)))),
                "{composite}"
            );
            assert!(model_type(text).is_some(), "{text}");
        }
        for (alias, name) in pairs(others::ALIASES) {
            assert!(
                !all.contains(&alias) && all.contains(&name),
                "{alias}: {name}"
            );
        }
        let wholes: Vec<&str> = others::PARTS
            .split(';')
            .filter_map(|line| Some(line.split_once(':')?.0.trim()))
            .collect();
        assert!(wholes.is_sorted() && wholes.len() > 200);
        for whole in wholes {
            assert!(all.contains(&whole), "{whole}");
            for part in parts(whole) {
                let name = part.name(whole);
                assert!(
                    all.contains(&name.as_str()),
                    "{whole}: {} is {name}",
                    part.key
                );
            }
        }
    }

    #[test]
    fn columns_have_what_the_table_says() {
        for (number, name) in rows::names().enumerate() {
            let (found, said) = (Row::at(number), Row::as_named(number));
            assert_eq!(format!("{found:?}"), format!("{said:?}"), "{name}");
        }
    }

    #[test]
    fn sizes_are_those_of_the_rows() {
        assert!(rows::names().eq(sizes::NAMES.iter().copied()));
    }

    #[test]
    fn rows_hold_together() {
        for (name, row) in rows() {
            if let LayerTypes::Rules(rules) = row.layers {
                let (_, last) = rules.last().expect("rules");
                assert_eq!(*last, When::Always, "{name}: every layer has a type");
            }
            let Some(norm) = row.norm else { continue };
            assert_eq!(norm.eps > 0.0, norm.formula != Formula::Other, "{name}");
            let differ = norm.layers != NormedLayers::All;
            assert!(!differ || row.rotates != Rotates::All, "{name}");
        }
    }

    /// The guide's lists are generated from the table; `UPDATE=1` writes them.
    #[test]
    fn the_guide_has_the_types() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/guide/models.md");
        let page = std::fs::read_to_string(path).expect("the page");
        let (start, end) = ("<!-- models -->\n", "<!-- end of models -->");
        let (before, rest) = page.split_once(start).expect("the lists' beginning");
        let (found, after) = rest.split_once(end).expect("their end");
        let made = lists();
        if std::env::var("UPDATE").is_ok() && found != made {
            std::fs::write(path, [before, start, &made, end, after].concat()).expect("written");
            return;
        }
        assert!(
            found == made,
            "UPDATE=1 cargo test -p rope-models renews the page"
        );
    }

    fn list(names: &[&str]) -> String {
        format!("`{}`", names.join("` `"))
    }

    fn lists() -> String {
        let mut text = format!(
            "`Config` knows the model types of transformers 5.24.0, and {} whose files bring their own code. It \
             answers by what that\ncode does, layer by layer. {} types rotate, {} rotate in a way that is refused by \
             name, {} do not rotate, and {} are\ncomposites of parts. Another type is refused.\n\n\
             | types whose files bring their own code |\n|---|\n| {} |\n\n\
             | classes of diffusers 0.42.1, by the `_class_name` of their files |\n|---|\n| {} |\n\n\
             | pairs | model types |\n|---|---|\n",
            names(others::OWN_CODE).len(),
            rows::names().count(),
            others::REFUSED.len(),
            names(others::STILL).len(),
            composites().len(),
            list(&names(others::OWN_CODE)),
            list(&names(others::DIFFUSERS)),
        );
        for (kinds, said) in [
            (&[Pairs::Half][..], "half"),
            (&[Pairs::Interleaved], "interleaved"),
            (
                &[Pairs::InterleavedToHalf, Pairs::InterleavedToHalfOrHalf],
                "interleaved in, half out",
            ),
            (&[Pairs::NegatedHalf], "half, by the negated angle"),
        ] {
            let names: Vec<&str> = rows()
                .filter(|(_, row)| kinds.contains(&row.pairs))
                .map(|(name, _)| name)
                .collect();
            text += &format!("| {said} | {} |\n", list(&names));
        }
        text += "\n| norm of queries and keys (`NormFormula`) | model types |\n|---|---|\n";
        let mut norms: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for (name, row) in rows() {
            let Some(norm) = row.norm else { continue };
            let mut said = match norm.formula {
                Formula::Llama | Formula::Plamo2 => "`LLAMA`",
                Formula::Olmo2 | Formula::Gemma3n => "`OLMO2`",
                Formula::Gemma => "`GEMMA`",
                Formula::Llama4 => "`LLAMA4`",
                Formula::Cohere | Formula::StableLm | Formula::LayerNorm => "`LAYER_NORM`",
                Formula::Chameleon => "`CHAMELEON`",
                Formula::Other => "none of these: refused",
            }
            .to_string();
            if norm.reach == Reach::Row {
                said += ", over all heads";
            }
            if norm.after {
                said += ", after the rotation";
            }
            norms.entry(said).or_default().push(name);
        }
        for (said, names) in norms {
            text += &format!("| {said} | {} |\n", list(&names));
        }
        text += "\n| refused | because |\n|---|---|\n";
        let mut refused: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (name, why) in others::REFUSED {
            refused.entry(why).or_default().push(name);
        }
        for (why, names) in refused {
            let why = why.replace("guide::refused has a", "[`refused`] has a");
            text += &format!("| {} | {why} |\n", list(&names));
        }
        text
    }
}
