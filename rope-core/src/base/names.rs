//! Names given by a caller, and the error for unknown ones.

use core::fmt;

/// Implements `Display` and `FromStr` of an enum by its `ALL` and its `name`.
macro_rules! named {
    ($type:ident, $kind:literal, $known:expr) => {
        #[automatically_derived]
        impl core::fmt::Display for $type {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.pad(self.name())
            }
        }

        #[automatically_derived]
        impl core::str::FromStr for $type {
            type Err = $crate::UnknownName;

            /// Parses the name.
            ///
            /// # Errors
            ///
            /// [`UnknownName`](crate::UnknownName) for any other text.
            fn from_str(name: &str) -> Result<Self, $crate::UnknownName> {
                let mut all = $type::ALL.iter().copied();
                all.find(|value| value.name() == name)
                    .ok_or($crate::UnknownName {
                        kind: $kind,
                        name: $crate::base::names::Name::new(name),
                        known: $known,
                    })
            }
        }
    };
}
pub(crate) use named;

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
    pub(crate) name: Name,
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
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Name {
    bytes: [u8; 80],
    length: u8,
}

impl Name {
    /// Stores the beginning of `text`, cut between characters.
    pub(crate) fn new(text: &str) -> Self {
        let mut name = Self {
            bytes: [0; 80],
            length: 0,
        };
        let taken = &text.as_bytes()[..text.floor_char_boundary(name.bytes.len())];
        name.bytes[..taken.len()].copy_from_slice(taken);
        name.length = taken.len() as u8;
        name
    }

    /// Returns the text.
    fn as_str(&self) -> &str {
        core::str::from_utf8(&self.bytes[..usize::from(self.length)]).unwrap_or_default()
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}
