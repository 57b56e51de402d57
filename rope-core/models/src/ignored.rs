//! Keys about the rotation that the code of the model ignores.

use crate::error::{Error, Refusal, Result, beginning, quoted};
use crate::json::{Object, Value};
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::fmt;

/// A key of a file that is about the rotation, and that the code of the file's model does not read:
/// [`Model::ignored`](crate::Model::ignored).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ignored {
    /// The path of the key, its names joined by dots: `text_config.rope_scaling.factor`.
    pub path: String,
    /// The beginning of its value.
    pub value: String,
    /// `true` if it says something else about the rotation than the code does. Such a key is an error, unless
    /// [`Config::lenient`](crate::Config::lenient) was chosen.
    pub significant: bool,
    /// Why it counts for nothing.
    pub reason: &'static str,
    /// The nearest key that is read; empty if none is near.
    pub(crate) nearest: &'static str,
}

impl fmt::Display for Ignored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}: {}", self.path, self.value, self.reason)
    }
}

const NEUTRAL: &str = "it changes nothing, as the model's code does the same without it";
const SIGNIFICANT: &str = "the model's code does not read it, and rotates otherwise than it says";

/// The ignored keys of a file, as they are found. Reading goes on with what the model's code does; what is asked of the
/// file fails afterwards, if one of them is significant.
pub(crate) struct Notes<'c> {
    /// The part that is read.
    config: &'c Object,
    /// Its path, with a dot at the end.
    prefix: String,
    lenient: bool,
    found: RefCell<Vec<Ignored>>,
    /// The first significant one of the answer that is being made.
    first: Cell<Option<usize>>,
}

impl<'c> Notes<'c> {
    pub(crate) fn new(config: &'c Object, part: &str, lenient: bool) -> Self {
        let mut prefix = String::from(part);
        if !part.is_empty() {
            prefix.push('.');
        }
        Self {
            config,
            prefix,
            lenient,
            found: RefCell::new(Vec::new()),
            first: Cell::new(None),
        }
    }

    /// Notes a key of the part.
    pub(crate) fn beside(&self, key: &str, value: &Value, neutral: bool, nearest: &'static str) {
        let path = [&self.prefix, key].concat();
        self.note(path, value, neutral, nearest);
    }

    /// Notes a key of the rope parameters, wherever in the file they were found.
    pub(crate) fn inside(&self, key: &str, value: &Value, neutral: bool, nearest: &'static str) {
        let mut path = self.prefix.clone();
        let sets = ["rope_scaling", "rope_parameters"];
        let place = sets.into_iter().find_map(|name| {
            let set = self.config.get(name)?.as_object()?;
            if set.get(key) == Some(value) {
                return Some((name, ""));
            }
            let mut own = set
                .iter()
                .filter_map(|(kind, own)| Some((kind, own.as_object()?)));
            let (kind, _) = own.find(|(_, own)| own.get(key) == Some(value))?;
            Some((name, kind))
        });
        if let Some((name, kind)) = place {
            for part in [name, kind].into_iter().filter(|part| !part.is_empty()) {
                path.push_str(part);
                path.push('.');
            }
        }
        path.push_str(key);
        self.note(path, value, neutral, nearest);
    }

    /// Notes a key by its whole path.
    #[inline(never)]
    pub(crate) fn note(&self, path: String, value: &Value, neutral: bool, nearest: &'static str) {
        let mut found = self.found.borrow_mut();
        let known = found.iter().position(|own| own.path == path);
        let place = known.unwrap_or(found.len());
        if known.is_none() {
            found.push(Ignored {
                path: beginning(&path),
                value: quoted(format_args!("{value}")),
                significant: false,
                reason: NEUTRAL,
                nearest,
            });
        }
        if !neutral {
            let own = &mut found[place];
            (own.significant, own.reason) = (true, SIGNIFICANT);
            self.first.set(self.first.get().or(Some(place)));
        }
    }

    /// The first significant key so far.
    pub(crate) fn so_far(&self) -> Option<usize> {
        self.first.get()
    }

    /// An answer, or the refusal of the first significant key that it depends on; `before` is one from before.
    #[inline(never)]
    pub(crate) fn settle<T>(
        &self,
        before: Option<usize>,
        answer: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let outer = self.first.replace(before);
        let made = answer();
        let first = self.first.replace(outer);
        let still = |refusal: &Refusal| matches!(refusal.error(), Error::NothingRotates { .. });
        match first.filter(|_| !self.lenient && !made.as_ref().is_err_and(still)) {
            Some(first) => Err(self.refusal(first)),
            None => made,
        }
    }

    fn refusal(&self, place: usize) -> Refusal {
        let own = &self.found.borrow()[place];
        Error::Unread {
            key: own.path.clone(),
            value: own.value.clone(),
            nearest: own.nearest,
        }
        .into()
    }

    pub(crate) fn into_found(self) -> Vec<Ignored> {
        self.found.into_inner()
    }
}
