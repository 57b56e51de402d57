//! Every way a file can be refused: an error is one entry of the list below.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use core::fmt::{self, Write};

/// The result of reading a file within this crate.
pub(crate) type Result<T, E = Refusal> = core::result::Result<T, E>;

/// Makes of one list the errors, their messages and their names: `Variant { fields } => what writes the message`, in
/// which `$f` is the formatter and the fields have their names.
macro_rules! errors {
    ($f:ident =>
        $(
            $(#[doc = $doc:literal])+
            $name:ident { $($(#[doc = $field_doc:literal])+ $field:ident: $type:ty,)+ } => $message:expr,
        )+
    ) => {
        /// Why a file was not read, or a tensor not rotated. A refused call has written nothing.
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum Error {
            /// An error of rope-core: numbers of a file that no frequencies are made of, and tensors and rows that do
            /// not fit each other.
            Rope(rope_core::Error),
            $(
                $(#[doc = $doc])+
                $name { $($(#[doc = $field_doc])+ $field: $type,)+ },
            )+
        }

        impl Error {
            /// The names of all errors but [`Error::Rope`]. A translation of errors into another language holds its
            /// list to this one.
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
    /// [`Rotation::rotate`](crate::Rotation::rotate) and the like: the heads have neither the model's channels nor its
    /// rotating ones.
    ModelHead {
        /// Channels of a head of the tensor.
        given: usize,
        /// Channels of the model's heads.
        head_dim: usize,
        /// The first of them that rotates, and the one after the last.
        window: (usize, usize),
    } => {
        let &(first, end) = window;
        write!(
            f,
            "the tensor's heads have {given} channels; the model's have {head_dim}, of which {first}..{end} rotate: \
             pass whole heads, or those {} channels alone",
            end - first
        )
    },
    /// [`Rotation::rope`](crate::Rotation::rope): the channels of a head are paired in several parts, each by itself. A
    /// plan has one.
    Window {
        /// Channels of the model's heads.
        head_dim: usize,
        /// The first of them that rotates, and the one after the last.
        window: (usize, usize),
        /// Parts of these that are paired by themselves.
        parts: usize,
    } => {
        let &(first, end) = window;
        write!(
            f,
            "channels {first}..{end} of the {head_dim} of a head rotate in {parts} parts that are paired by \
             themselves, and a Rope has one part; use Rotation::rotate, rotate_qk or rotate_into"
        )
    },
    /// [`Config::from_json`](crate::Config::from_json): the text is not JSON, or not an object.
    Json {
        /// The line of the first error, from 1; 0 when the text is JSON but no object.
        line: usize,
        /// Its column.
        column: usize,
        /// `true` if the text ends there, before the object does.
        ends_early: bool,
    } => match (*line, *ends_early) {
        (0, _) => f.write_str("the configuration is JSON, but not an object ({..})"),
        (_, true) => write!(
            f,
            "the configuration ends early, at line {line}, column {column}: it is empty, or cut off"
        ),
        _ => write!(f, "the configuration is not JSON from line {line}, column {column}"),
    },
    /// A key that is needed and has no known default is not there.
    Missing {
        /// The key.
        key: Cow<'static, str>,
    } => write!(f, "{key} is missing, and has no known default"),
    /// A key has a value of another type or outside of its range.
    Invalid {
        /// The key.
        key: Cow<'static, str>,
        /// The beginning of its value; empty where no value by itself is wrong.
        value: String,
        /// The requirement.
        required: &'static str,
    } => match value.as_str() {
        "" => write!(f, "{key} must be {required}"),
        value => write!(f, "{key} is {value}, but must be {required}"),
    },
    /// A name that stands for no known variant. The value may be perfectly good; rotating by a guess would not be.
    Unknown {
        /// The key.
        key: Cow<'static, str>,
        /// The beginning of its value.
        value: String,
        /// The values that are known, if they are few; of `model_type` the one by whose rules such files can be read,
        /// if the code of both was compared; of the keys of GGUF files the nearest one, if one is near.
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
            (known, _) => write!(f, "; there are: {known}")?,
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
    /// [`Config`](crate::Config): the file has nothing of the name that the caller chose.
    NoSuch {
        /// The kind of name.
        key: &'static str,
        /// The beginning of the name.
        given: String,
        /// The names that there are, separated by commas (the beginning of the list); empty if there are none.
        known: String,
    } => match known.as_str() {
        "" => write!(f, "{key} is {given:?}, but the file has none to choose from; leave it out"),
        known => write!(f, "{key} is {given:?}, which the file does not have; it has: {known}"),
    },
    /// [`Config`](crate::Config): a key about the rotation that the code of the model does not read, or overrides: it
    /// would rotate otherwise than the file states. [`Config::lenient`](crate::Config::lenient) answers as the code
    /// does, [`Config::without`](crate::Config::without) leaves the key out.
    Unread {
        /// The beginning of the key's path, its names joined by dots.
        key: String,
        /// The beginning of its value.
        value: String,
        /// The nearest key that the code reads; empty if none is near.
        nearest: &'static str,
    } => {
        write!(f, "{key} is {value} in the file, and this model's code ignores it")?;
        match *nearest {
            "" => {}
            nearest => write!(f, "; the nearest key that it reads is {nearest}")?,
        }
        f.write_str(" (Config::lenient answers as the code does, Config::without leaves the key out)")
    },
    /// The file holds several answers, and the caller did not say which one is wanted.
    Ambiguous {
        /// The kind of choice.
        key: &'static str,
        /// The choices, separated by commas (the beginning of the list).
        choices: String,
    } => write!(f, "{key} must be chosen from: {choices}"),
    /// The model rotates in a way that is known and is not answered: not pairs by angles proportional to the position,
    /// or not by one rotation for all that was asked, or its own code fails. Or its norm is not one that
    /// [`NormFormula`](rope_core::norm::NormFormula) says.
    Unsupported {
        /// The model's type, or the architecture of a GGUF file.
        model: &'static str,
        /// The rotation, or the fault of the model's code.
        what: &'static str,
    } => write!(f, "{model}: {what}"),
    /// Nothing rotates: neither the model's queries nor its keys, or not those that were asked for.
    NothingRotates {
        /// The model's type, or the architecture of a GGUF file.
        model: &'static str,
        /// The reason why nothing rotates.
        what: &'static str,
    } => write!(f, "{model}: {what}"),
    /// [`Config`](crate::Config): the model has no rotation of its own, but its parts have.
    ChoosePart {
        /// The model's type.
        model: &'static str,
        /// The parts of the file that rotate, separated by commas (the beginning of the list); empty if there are none.
        parts: String,
        /// The type of the text model, if it rotates and is no part of the file: its keys may lie flat in it. Otherwise
        /// empty.
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
    /// caller has not told whether this one has it.
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
    /// [`Gguf::from_bytes`](crate::Gguf::from_bytes): the bytes are no GGUF file, or end before its list of tensors
    /// does.
    GgufFile {
        /// The offset of the fault, in bytes.
        at: usize,
        /// The fault.
        what: &'static str,
    } => write!(f, "the GGUF file is wrong from byte {at}: {what}"),
    /// [`Gguf::from_bytes`](crate::Gguf::from_bytes): the bytes end before a tensor of factors does, which the rotation
    /// depends on.
    TensorData {
        /// The tensor's name.
        tensor: &'static str,
        /// The offset of the end, in bytes.
        end: u64,
        /// The bytes that were given.
        given: u64,
    } => write!(
        f,
        "the tensor {tensor} ends at byte {end} of the GGUF file, and {given} bytes were given: give the file as far as \
         there, or pass the tensor's values to Gguf::with_freq_factors"
    ),
    /// [`Gguf::from_bytes`](crate::Gguf::from_bytes): the parts of a split file that were given do not list a tensor of
    /// factors, which the rotation depends on, and others may.
    SplitFile {
        /// The tensor's name.
        tensor: &'static str,
        /// The number of given parts.
        given: usize,
        /// Their number.
        count: u64,
    } => write!(
        f,
        "{given} of {count} parts of the GGUF file were given, without the tensor {tensor}: give the others \
         (Gguf::with_part), or pass its values, or None, to Gguf::with_freq_factors"
    ),
}

/// The key of [`Error::Unknown`] for a key itself.
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

/// An error on its way out of the reading of a file: a pointer, where each function between would move the 64 bytes of
/// an [`Error`].
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

/// The error of a missing key.
#[cold]
#[inline(never)]
pub(crate) fn missing(key: impl Into<Cow<'static, str>>) -> Refusal {
    Error::Missing { key: key.into() }.into()
}

/// The error of a rotation that is not supported, or that the model's own code fails at.
#[cold]
#[inline(never)]
pub(crate) fn unsupported(model: &'static str, what: &'static str) -> Refusal {
    Error::Unsupported { model, what }.into()
}

/// The error of a model that does not rotate.
#[cold]
#[inline(never)]
pub(crate) fn still(model: &'static str, what: &'static str) -> Refusal {
    Error::NothingRotates { model, what }.into()
}

/// The error of a key whose value contradicts another.
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

/// The error of a key with an invalid value.
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

/// The most bytes of a file that an error quotes.
const QUOTED: usize = 80;

/// The beginning of what something is written as.
pub(crate) fn quoted(value: fmt::Arguments<'_>) -> String {
    struct Quotation(String);
    impl Write for Quotation {
        /// Takes what fits, and never fails: of an error the writer of a JSON value makes a panic.
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

/// The beginning of a text, cut at a character's end.
pub(crate) fn beginning(text: &str) -> String {
    quoted(format_args!("{text}"))
}

/// The beginning of a list of names.
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

/// The error of a parameter that is not positive.
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
