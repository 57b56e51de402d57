//! Names that a caller gave, and what is said of one that nothing has.

use core::fmt;

/// [`FromStr`](core::str::FromStr) of [`Pairing`](crate::Pairing), [`Backend`](crate::Backend) or
/// [`Direction`](crate::Direction): nothing has that name.
///
/// ```
/// let error = "diagonal".parse::<rope_core::Pairing>().expect_err("no pairing");
/// assert_eq!(error.kind, "pairing");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownName {
    /// What was being read.
    pub kind: &'static str,
    /// The beginning of the text.
    pub name: Name,
    /// The names that exist.
    pub known: &'static str,
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UnknownName { kind, name, known } = self;
        write!(f, "unknown {kind} {name:?}; there are: {known}")
    }
}

impl core::error::Error for UnknownName {}

/// A name that a caller gave, kept without an allocator: its first 80 bytes.
///
/// ```
/// let error = "diagonal".parse::<rope_core::Pairing>().expect_err("no pairing");
/// assert_eq!(error.name.as_str(), "diagonal");
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Name {
    bytes: [u8; 80],
    length: u8,
}

impl Name {
    /// No text.
    pub(crate) const EMPTY: Self = Self {
        bytes: [0; 80],
        length: 0,
    };

    /// The beginning of `text`, cut at a character's end.
    pub(crate) fn new(text: &str) -> Self {
        let mut name = Self::EMPTY;
        let _ = fmt::Write::write_str(&mut name, text);
        name
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.bytes[..usize::from(self.length)]).unwrap_or_default()
    }
}

impl fmt::Write for Name {
    /// Takes what fits, and never fails.
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let start = usize::from(self.length);
        let taken = &text.as_bytes()[..text.floor_char_boundary(self.bytes.len() - start)];
        self.bytes[start..start + taken.len()].copy_from_slice(taken);
        self.length += taken.len() as u8;
        Ok(())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}
