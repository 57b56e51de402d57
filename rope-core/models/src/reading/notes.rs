//! Collects the keys about the rotation that the code of a model ignores, while its file is read.

use crate::base::error::{Error, Refusal, Result, beginning, quoted};
use crate::base::json::{Object, Value};
use crate::model::Ignored;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

const NEUTRAL: &str = "it changes nothing, as the model's code does the same without it";
const SIGNIFICANT: &str = "the model's code does not read it, and rotates otherwise than it says";

/// The ignored keys of a file, collected while reading. Reading follows the model's code; a result then fails if it
/// depends on a significant key.
pub(crate) struct Notes<'c> {
    /// The part being read.
    config: &'c Object,
    /// Its path, with a dot at the end.
    prefix: String,
    lenient: bool,
    found: RefCell<Vec<Ignored>>,
    /// The first significant key of the current result.
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

    /// Notes a key of the rope parameters, wherever they are in the file.
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

    /// Returns the first significant key so far.
    pub(crate) fn so_far(&self) -> Option<usize> {
        self.first.get()
    }

    /// Returns a result, or the refusal of the first significant key that it depends on; `before` is an earlier one.
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
            unrotated: String::new(),
        }
        .into()
    }

    pub(crate) fn into_found(self) -> Vec<Ignored> {
        self.found.into_inner()
    }
}
