//! A part of a file, and the types of parts.

use crate::base::error::{Error, Refusal, Result, beginning, listed};
use crate::base::json::{Object, Value};
use crate::base::nearest::sort_nearest;
use crate::types::{Type, derived, model_type, part_of, text_part};
use alloc::string::String;
use alloc::vec::Vec;

/// The key of the text model of a composite.
pub(crate) const TEXT: &str = "text_config";

/// The key of the class in files of diffusers, which have no model type.
pub(crate) const CLASS: &str = "_class_name";

/// A part of a file, and its path.
pub(crate) struct Place<'c> {
    root: &'c Object,
    parts: Vec<&'c str>,
}

impl<'c> Place<'c> {
    /// Locates the description of the rotating model in a file: the part with that path, or the text model.
    #[inline(never)]
    pub(crate) fn find(root: &'c Object, path: Option<&str>) -> Result<Self> {
        let parts = Vec::new();
        let mut place = Place { root, parts };
        let Some(path) = path else {
            // A type without parts is read from the whole file.
            let name = own_type(root);
            let found = name.and_then(model_type);
            let whole = matches!(found, Some((_, Type::Rotating(_) | Type::Still)));
            let mut texts = [TEXT].into_iter().chain(name.and_then(text_part));
            let is_there = |key: &&str| matches!(root.get(key), Some(Value::Object(_)));
            place.parts.extend(texts.find(is_there).filter(|_| !whole));
            return Ok(place);
        };
        let mut rest = path;
        while !rest.is_empty() {
            let object = place.object();
            // Names may have dots.
            let named = |key: &str| {
                let after = rest.strip_prefix(key)?;
                (after.is_empty() || after.starts_with('.')).then_some(key.len())
            };
            let part = object
                .iter()
                .filter(|(_, value)| value.is_object())
                .filter_map(|(key, _)| Some((named(key)?, key)))
                .max();
            let Some((length, key)) = part else {
                let key = rest.split('.').next().unwrap_or_default();
                return Err(no_such_part(path, key, object));
            };
            place.parts.push(key);
            rest = rest[length..].trim_start_matches('.');
        }
        Ok(place)
    }

    /// Returns the part itself and the objects above it, with their paths.
    pub(crate) fn objects(&self) -> Vec<(String, &'c Object)> {
        let (mut path, mut object) = (String::new(), self.root);
        let mut made = alloc::vec![(path.clone(), object)];
        for part in &self.parts {
            let Some(Value::Object(own)) = object.get(part) else {
                break;
            };
            if !path.is_empty() {
                path.push('.');
            }
            path.push_str(part);
            object = own;
            made.push((path.clone(), object));
        }
        made
    }

    /// Iterates over the names of the part and of those above it.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &'c str> {
        self.parts.iter().copied()
    }

    /// Returns the name of the part at a level, from 0.
    pub(crate) fn part(&self, level: usize) -> Option<&'c str> {
        self.parts.get(level).copied()
    }

    pub(crate) fn object(&self) -> &'c Object {
        self.objects().pop().map_or(self.root, |(_, object)| object)
    }

    /// Returns true if a file has the part: the class of the whole makes an omitted one.
    pub(crate) fn is_in(&self, root: &Object) -> bool {
        let mut object = Some(root);
        for part in &self.parts {
            object = object.and_then(|object| object.get(part)?.as_object());
        }
        object.is_some()
    }

    pub(crate) fn path(&self) -> String {
        self.parts.join(".")
    }
}

pub(crate) fn own_type(object: &Object) -> Option<&str> {
    let own = |key| object.get(key).and_then(Value::as_str);
    let own = own("model_type").or_else(|| own(CLASS));
    own.filter(|own| !own.is_empty())
}

/// Returns the type of a part, if it names one or the type of the whole is known.
#[inline(never)]
pub(crate) fn type_of_part(whole: Option<&str>, part: &str, object: &Object) -> Option<String> {
    let own = own_type(object);
    let Some(whole) = whole else {
        return own.map(String::from);
    };
    let known = part_of(whole, part);
    Some(match (known, own) {
        (Some(known), _) if known.fixed => known.name(whole),
        (_, Some(own)) if own != whole => own.into(),
        (Some(known), _) => known.name(whole),
        (None, _) => derived(whole, part),
    })
}

/// Returns the error for a missing part. The parts of an object are its objects with a type, or with the name of a
/// part.
#[cold]
fn no_such_part(part: &str, missing: &str, object: &Object) -> Refusal {
    let mut parts = Vec::new();
    for (key, value) in object.iter() {
        if let Value::Object(value) = value
            && (key.ends_with("_config") || value.contains_key("model_type"))
        {
            parts.push(key);
        }
    }
    sort_nearest(&mut parts, missing);
    Error::NoSuch {
        key: "the part (Config::with_part)",
        given: beginning(part),
        known: listed(&parts),
    }
    .into()
}
