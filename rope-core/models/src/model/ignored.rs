//! A key that the code of a model ignores.

use alloc::string::String;
use core::fmt;

/// A key of a file about the rotation that the code of its model does not read:
/// [`Model::ignored`](crate::Model::ignored).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ignored {
    /// The path of the key, its names joined by dots: `text_config.rope_scaling.factor`.
    pub path: String,
    /// The beginning of its value.
    pub value: String,
    /// True if it states another rotation than the code computes. Such a key is an error, unless
    /// [`Config::lenient`](crate::Config::lenient) was set.
    pub significant: bool,
    /// The reason why it is ignored.
    pub reason: &'static str,
    /// The nearest key that is read; empty if none is near.
    pub(crate) nearest: &'static str,
}

impl fmt::Display for Ignored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}: {}", self.path, self.value, self.reason)
    }
}
