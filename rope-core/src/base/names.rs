//! Names given by a caller, and the error for unknown ones.

use core::fmt;

/// The error of [`FromStr`](core::str::FromStr) for [`Pairing`](crate::Pairing), [`Backend`](crate::Backend) or
/// [`Direction`](crate::Direction): an unknown name.
///
/// ```
/// let error = "diagonal".parse::<rope_core::Pairing>().expect_err("no pairing");
/// assert_eq!(error.kind, "pairing");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownName {
    /// The kind of name.
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

/// A name given by a caller, stored without an allocator: its first 80 bytes.
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
    /// The empty name.
    pub(crate) const EMPTY: Self = Self {
        bytes: [0; 80],
        length: 0,
    };

    /// Stores the beginning of `text`, cut between characters.
    pub(crate) fn new(text: &str) -> Self {
        let mut name = Self::EMPTY;
        let _ = fmt::Write::write_str(&mut name, text);
        name
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.bytes[..usize::from(self.length)]).unwrap_or_default()
    }
}

impl fmt::Write for Name {
    /// Appends as much of the text as fits; never fails.
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
