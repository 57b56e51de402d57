//! The errors of this crate: each is one entry of the list below.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use core::fmt::{self, Write};

use rope_core::internals::Count;

/// The result of reading a file within this crate.
pub(crate) type Result<T, E = Refusal> = core::result::Result<T, E>;

/// Defines the errors, their messages and their names from one list: `Variant { fields } => expression that writes the
/// message`, with `$f` as the formatter and the fields by name.
macro_rules! errors {
    ($f:ident =>
        $(
            $(#[doc = $doc:literal])+
            $name:ident { $($(#[doc = $field_doc:literal])+ $field:ident: $type:ty,)+ } => $message:expr,
        )+
    ) => {
        /// The reason why a file was not read, or a tensor not rotated. A refused call has written nothing.
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum Error {
            /// An error of rope-core: numbers of a file that are invalid for frequencies, and tensors and rows that do
            /// not match.
            Rope(rope_core::Error),
            $(
                $(#[doc = $doc])+
                $name { $($(#[doc = $field_doc])+ $field: $type,)+ },
            )+
        }

        impl Error {
            /// The names of all errors except [`Error::Rope`]. Tests compare translations of errors into another
            /// language with it.
            #[doc(hidden)]
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name)),+];
        }

        impl fmt::Display for Error {
            fn fmt(&self, $f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    Error::Rope(error) => error.fmt($f),
                    $(Error::$name { $($field),+ } => $message,)+
                }
            }
        }
    };
}

errors! { f =>
    /// [`Rotation::rope_for`](crate::Rotation::rope_for): the heads have neither the model's channels nor only its
    /// rotating ones.
    ModelHead {
        /// Channels per head of the tensor.
        given: usize,
        /// Channels per head of the model.
        head_dim: usize,
        /// The first rotated channel, and the one after the last.
        window: (usize, usize),
    } => {
        let &(first, end) = window;
        write!(
            f,
            "the tensor's heads have {}; the model's have {head_dim}, of which {first}..{end} rotate: pass \
             whole heads, or those {} channels alone",
            Count(*given, "channels"),
            end - first
        )
    },
    /// [`Config::from_json`](crate::Config::from_json): the text is not JSON, or not an object.
    Json {
        /// The line of the first error, from 1; 0 if the text is JSON but not an object.
        line: usize,
        /// Its column.
        column: usize,
        /// True if the text ends there, before the object does.
        ends_early: bool,
    } => match (*line, *ends_early) {
        (0, _) => f.write_str("the configuration is JSON, but not an object ({..})"),
        (_, true) => write!(
            f,
            "the configuration ends early, at line {line}, column {column}: it is empty, or cut off"
        ),
        _ => write!(f, "the configuration is not JSON from line {line}, column {column}"),
    },
    /// A required key without a known default is missing.
    Missing {
        /// The key.
        key: Cow<'static, str>,
    } => write!(f, "{key} is missing, and has no known default"),
    /// A key has a value of another type or outside of its range.
    Invalid {
        /// The key.
        key: Cow<'static, str>,
        /// The beginning of its value; empty if no single value is wrong.
        value: String,
        /// The requirement.
        required: &'static str,
    } => match value.as_str() {
        "" => write!(f, "{key} must be {required}"),
        value => write!(f, "{key} is {value}, but must be {required}"),
    },
    /// A name of an unknown variant. The value may be valid, but the rotation would be a guess.
    Unknown {
        /// The key.
        key: Cow<'static, str>,
        /// The beginning of its value.
        value: String,
        /// The known values, if they are few. For `model_type`, the type whose rules apply, if the code of both was
        /// compared. For keys of GGUF files and types of layers, the nearest one, if one is near.
        known: &'static str,
    } => {
        write!(f, "{key} is {value:?}, which is not known here")?;
        match (*known, &**key) {
            ("", _) => {}
            (alike, "model_type") => write!(f, "; it rotates as {alike:?} does")?,
            (nearest, GGUF_KEY) => {
                let (architecture, _) = value.split_once('.').unwrap_or_default();
                write!(f, "; the nearest that is known is \"{architecture}.{nearest}\"")?;
            }
            (known, _) if known.contains(", ") => write!(f, "; there are: {known}")?,
            (nearest, _) => write!(f, "; the nearest that is known is {nearest}")?,
        }
        match &**key {
            "model_type" => f.write_str(
                "; Config::with_model_type reads the file by the rules of another type, Config::frequencies_over takes \
                 its base and scaling alone",
            ),
            GGUF_KEY => f.write_str("; Gguf::without leaves it out"),
            _ => Ok(()),
        }
    },
    /// [`Config`](crate::Config): the file has nothing of the name selected by the caller.
    NoSuch {
        /// The kind of the selection.
        key: &'static str,
        /// The beginning of the name.
        given: String,
        /// The existing names, separated by commas (the beginning of the list); empty if there are none.
        known: String,
    } => match known.as_str() {
        "" => write!(f, "{key} is {given:?}, but the file has none to choose from; leave it out"),
        known => write!(f, "{key} is {given:?}, which the file does not have; it has: {known}"),
    },
    /// [`Config`](crate::Config): the model's code does not read a key about the rotation, or overrides it. It would
    /// rotate otherwise than the file states. [`Config::lenient`](crate::Config::lenient) follows the code,
    /// [`Config::without`](crate::Config::without) removes the key.
    Unread {
        /// The beginning of the key's path, its names joined by dots.
        key: String,
        /// The beginning of its value.
        value: String,
        /// The nearest key that the code reads; empty if none is near.
        nearest: &'static str,
        /// For a type without a rotation: the type, the architectures of the file, and the way out. Empty otherwise.
        unrotated: String,
    } => {
        write!(f, "{key} is {value} in the file, and this model's code ignores it")?;
        match *nearest {
            "" => f.write_str(unrotated)?,
            nearest => write!(f, "; the nearest key that it reads is {nearest}")?,
        }
        f.write_str(" (Config::lenient answers as the code does, Config::without leaves the key out)")
    },
    /// The file has several results, and the caller must select one.
    Ambiguous {
        /// The selector.
        key: &'static str,
        /// The choices, separated by commas (the beginning of the list).
        choices: String,
    } => write!(f, "{key} must be chosen from: {choices}"),
    /// The model's rotation is known but not supported: pairs do not rotate by angles proportional to the position, one
    /// rotation does not cover the request, or the model's own code fails. Or its norm has no
    /// [`NormFormula`](rope_core::norm::NormFormula).
    Unsupported {
        /// The model's type, or the architecture of a GGUF file.
        model: &'static str,
        /// The model's behavior.
        what: &'static str,
    } => write!(f, "{model}: {what}"),
    /// Nothing rotates: neither the model's queries nor its keys, or not the requested ones.
    NothingRotates {
        /// The model's type, or the architecture of a GGUF file.
        model: &'static str,
        /// The model's behavior instead.
        what: &'static str,
    } => write!(f, "{model}: {what}"),
    /// [`Config`](crate::Config): the model has no rotation of its own, but its parts have.
    ChoosePart {
        /// The model's type.
        model: &'static str,
        /// The parts of the file that rotate, separated by commas (the beginning of the list); empty if there are none.
        parts: String,
        /// The type of the text model, if it rotates and is not a part of the file: its keys may be flat in it. Empty
        /// otherwise.
        text: &'static str,
    } => {
        write!(f, "{model}: it holds parts that rotate in their own ways; ")?;
        match parts.as_str() {
            "" => f.write_str("the file has none of them")?,
            parts => write!(f, "choose one with Config::with_part: {parts}")?,
        }
        match *text {
            "" => Ok(()),
            text => write!(
                f,
                "; if the keys of its text model lie beside each other in the file, Config::with_model_type({text:?}) \
                 reads them"
            ),
        }
    },
    /// [`Gguf`](crate::Gguf): files of this architecture may have a tensor of factors on their frequencies, and the
    /// caller has not specified whether this one has.
    FreqFactors {
        /// The architecture.
        architecture: &'static str,
        /// The tensor's name.
        tensor: &'static str,
    } => write!(
        f,
        "a file of the architecture {architecture} may have the tensor {tensor}; pass its values to \
         Gguf::with_freq_factors, or None if the file has none"
    ),
    /// [`Gguf::from_bytes`](crate::Gguf::from_bytes): the bytes are not a GGUF file, or end before its list of tensors.
    GgufFile {
        /// The offset of the error, in bytes.
        at: usize,
        /// The error there.
        what: &'static str,
    } => write!(f, "the GGUF file is wrong from byte {at}: {what}"),
    /// [`Gguf::from_bytes`](crate::Gguf::from_bytes): the bytes end before a tensor of factors that the rotation
    /// depends on.
    TensorData {
        /// The tensor's name.
        tensor: &'static str,
        /// The offset of the tensor's end, in bytes.
        end: u64,
        /// The number of bytes.
        given: u64,
    } => write!(
        f,
        "the tensor {tensor} ends at byte {end} of the GGUF file, and {given} bytes were given: give the file as far as \
         there, or pass the tensor's values to Gguf::with_freq_factors"
    ),
    /// [`Gguf::from_bytes`](crate::Gguf::from_bytes): the given parts of a split file do not list a tensor of factors
    /// that the rotation depends on, and others may.
    SplitFile {
        /// The tensor's name.
        tensor: &'static str,
        /// The number of given parts.
        given: usize,
        /// The number of all parts.
        count: u64,
    } => write!(
        f,
        "{given} of {count} parts of the GGUF file were given, without the tensor {tensor}: give the others \
         (Gguf::with_part), or pass its values, or None, to Gguf::with_freq_factors"
    ),
}

/// The key of [`Error::Unknown`] if a key itself is unknown.
pub(crate) const GGUF_KEY: &str = "a key of the GGUF file";

impl core::error::Error for Error {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Error::Rope(error) => Some(error),
            _ => None,
        }
    }
}

impl From<rope_core::Error> for Error {
    fn from(error: rope_core::Error) -> Self {
        Error::Rope(error)
    }
}

/// An error within the crate: a pointer, because functions on the way out would move the 64 bytes of an [`Error`].
#[derive(Clone, PartialEq)]
pub(crate) struct Refusal(Box<Error>);

impl Refusal {
    pub(crate) fn error(&self) -> &Error {
        &self.0
    }
}

impl fmt::Debug for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<Error> for Refusal {
    #[cold]
    #[inline(never)]
    fn from(error: Error) -> Self {
        Refusal(Box::new(error))
    }
}

impl From<rope_core::Error> for Refusal {
    #[cold]
    #[inline(never)]
    fn from(error: rope_core::Error) -> Self {
        Error::Rope(error).into()
    }
}

impl From<Refusal> for Error {
    #[cold]
    #[inline(never)]
    fn from(refusal: Refusal) -> Self {
        *refusal.0
    }
}

impl From<&Refusal> for Error {
    #[cold]
    #[inline(never)]
    fn from(refusal: &Refusal) -> Self {
        (*refusal.0).clone()
    }
}

/// Returns the error for a missing key.
#[cold]
#[inline(never)]
pub(crate) fn missing(key: impl Into<Cow<'static, str>>) -> Refusal {
    Error::Missing { key: key.into() }.into()
}

/// Returns the error for an unsupported behavior of a model, or a failure of its own code.
#[cold]
#[inline(never)]
pub(crate) fn unsupported(model: &'static str, what: &'static str) -> Refusal {
    Error::Unsupported { model, what }.into()
}

/// Returns the error for a model that does not rotate.
#[cold]
#[inline(never)]
pub(crate) fn still(model: &'static str, what: &'static str) -> Refusal {
    Error::NothingRotates { model, what }.into()
}

/// Returns the error for a key whose value is wrong in combination.
#[cold]
#[inline(never)]
pub(crate) fn must_be(key: impl Into<Cow<'static, str>>, required: &'static str) -> Refusal {
    let value = String::new();
    Error::Invalid {
        key: key.into(),
        value,
        required,
    }
    .into()
}

/// Returns the error for a key whose value is wrong.
#[cold]
#[inline(never)]
pub(crate) fn out_of_range(
    key: impl Into<Cow<'static, str>>,
    value: fmt::Arguments<'_>,
    required: &'static str,
) -> Refusal {
    let value = quoted(value);
    Error::Invalid {
        key: key.into(),
        value,
        required,
    }
    .into()
}

/// Returns the error for a list with one entry per layer that has another length.
pub(crate) fn count_of(name: &'static str, given: usize, needed: usize) -> Refusal {
    Error::Rope(rope_core::Error::Count {
        name,
        given,
        needed,
    })
    .into()
}

/// The most bytes of a file quoted in an error.
const QUOTED: usize = 80;

/// Formats the beginning of a value.
pub(crate) fn quoted(value: fmt::Arguments<'_>) -> String {
    struct Quotation(String);
    impl Write for Quotation {
        /// Appends as much as fits, and never fails: the writer of a JSON value panics on an error.
        fn write_str(&mut self, text: &str) -> fmt::Result {
            let room = QUOTED.saturating_sub(self.0.len());
            self.0.push_str(&text[..text.floor_char_boundary(room)]);
            Ok(())
        }
    }
    let mut quotation = Quotation(String::new());
    let _ = quotation.write_fmt(value);
    quotation.0
}

/// Returns the beginning of a text, cut between characters.
pub(crate) fn beginning(text: &str) -> String {
    quoted(format_args!("{text}"))
}

/// Returns the beginning of a list of names.
pub(crate) fn listed(names: &[&str]) -> String {
    let mut list = String::new();
    for (index, name) in names.iter().enumerate() {
        if list.len() > QUOTED {
            break;
        }
        list.push_str(if index == 0 { "" } else { ", " });
        list.push_str(name);
    }
    beginning(&list)
}

/// Checks that a parameter of a file is positive.
pub(crate) fn positive(name: &'static str, value: f64) -> Result<f64> {
    match value.is_finite() && value > 0.0 {
        true => Ok(value),
        false => Err(rope_core::Error::Parameter {
            name,
            value,
            required: "positive and finite",
        }
        .into()),
    }
}
