//! Every way a call can be refused.

use core::fmt;

use crate::{Backend, Dimension, Pairing, Shape, Strides};

/// Why a call was refused. A refused call has written nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// A [`Layout`](crate::Layout) constructor: the index of the last element, or a stride, does not fit `usize`.
    ShapeOverflow {
        /// The shape asked for.
        shape: Shape,
        /// The strides, if they fit.
        strides: Option<Strides>,
    },
    /// [`Tensor::new`](crate::Tensor::new), [`TensorMut::new`](crate::TensorMut::new): the layout reaches past
    /// the slice.
    OutOfBounds {
        /// Elements the layout needs.
        needed: usize,
        /// Elements the slice has.
        len: usize,
    },
    /// [`TensorMut::new`](crate::TensorMut::new): a step along `dimension` lands inside the elements of the
    /// dimensions below it, so that two indices could name one element.
    Overlap {
        /// The dimension whose stride is too short.
        dimension: Dimension,
        /// Its stride, in elements.
        stride: usize,
        /// The least stride that keeps its steps apart.
        needed: usize,
    },
    /// [`Layout::narrow`](crate::Layout::narrow) and `split_at` of the tensors: the range is not inside the dimension.
    Range {
        /// The dimension.
        dimension: Dimension,
        /// First index asked for.
        start: usize,
        /// End of the range asked for (one past the last).
        end: usize,
        /// Extent of the dimension.
        extent: usize,
    },
    /// [`TensorMut::split_at`](crate::TensorMut::split_at): the two parts interleave in memory, so that they cannot
    /// be two slices. Split the dimension with the largest stride first.
    Interleaved {
        /// The dimension that was to be split.
        dimension: Dimension,
    },
    /// [`Rows`](crate::Rows) and [`Frequencies`](crate::Frequencies) constructors: the number of rotated channels is
    /// odd, zero or too large, or the scaling needs more of them.
    RotaryDim {
        /// The value refused.
        rotary_dim: usize,
        /// What it has to be.
        required: &'static str,
    },
    /// [`Rope`](crate::Rope)'s rotations: the rows rotate more channels than a head has.
    RotaryDimExceedsHead {
        /// Channels that the rows rotate.
        rotary_dim: usize,
        /// Channels of a head.
        head_dim: usize,
    },
    /// [`Rows`](crate::Rows) constructors: the slice is not a whole number of rows.
    RowsLength {
        /// Length of the slice.
        len: usize,
        /// Length of a row, in elements of that slice.
        row: usize,
    },
    /// [`Rows::from_cos_sin`](crate::Rows::from_cos_sin): the cos and sin slices differ in length.
    CosSinLength {
        /// Length of the cos slice.
        cos: usize,
        /// Length of the sin slice.
        sin: usize,
    },
    /// [`Rows::from_cos_sin`](crate::Rows::from_cos_sin): the stride between rows is shorter than a row.
    RowStride {
        /// The stride, in elements.
        stride: usize,
        /// cos (or sin) values of a row.
        pairs: usize,
    },
    /// [`Rope`](crate::Rope)'s rotations: neither one row per token nor one per token of every sequence.
    RowCount {
        /// Rows given.
        rows: usize,
        /// Tokens of a sequence.
        tokens: usize,
        /// Sequences of the batch.
        batch: usize,
    },
    /// [`Rows::gather`](crate::Rows::gather): an id that names no row of the table.
    PositionOutsideTable {
        /// Index of the id in the list.
        index: usize,
        /// The id.
        id: i64,
        /// Rows of the table.
        rows: usize,
    },
    /// [`Rows::gather`](crate::Rows::gather) of rows that are a gathering themselves.
    GatheredTwice,
    /// [`Rows::range`](crate::Rows::range): the range is not inside the rows.
    RowRange {
        /// First row asked for.
        start: usize,
        /// End of the range asked for (one past the last).
        end: usize,
        /// Rows there are.
        rows: usize,
    },
    /// [`Rows::with_attention_factor`](crate::Rows::with_attention_factor): zero, infinite or not a number.
    AttentionFactor {
        /// The value refused.
        factor: f64,
    },
    /// [`Rope::rotate`](crate::Rope::rotate) and the other verbs that work in place, of a plan whose output pairing
    /// is another than its input pairing: use [`Rope::rotate_into`](crate::Rope::rotate_into).
    PairingChangesInPlace {
        /// The plan's input pairing.
        input: Pairing,
        /// The plan's output pairing.
        output: Pairing,
    },
    /// [`Rope::rotate_into`](crate::Rope::rotate_into): source and target have different shapes.
    ShapeMismatch {
        /// Shape of the source.
        source: Shape,
        /// Shape of the target.
        target: Shape,
    },
    /// [`Rope::rotate_qk`](crate::Rope::rotate_qk): Q and K have different numbers of sequences, tokens or channels.
    QueryKeyMismatch {
        /// Shape of Q.
        query: Shape,
        /// Shape of K.
        key: Shape,
    },
    /// [`Rope::backend`](crate::Rope::backend): this CPU, or this build, lacks the instruction set.
    BackendUnavailable {
        /// The backend asked for.
        backend: Backend,
    },
    /// [`Frequencies::new`](crate::Frequencies::new), `new_in`, `from_inverse`, `from_inverse_in`: a base, factor or
    /// other number that makes no sense.
    Parameter {
        /// The parameter, by its public name.
        name: &'static str,
        /// What was given.
        value: f64,
        /// What it has to be.
        required: &'static str,
    },
    /// [`Frequencies::new`](crate::Frequencies::new): a list with one number for each pair (or sequence) has
    /// another length.
    Count {
        /// The list, by its public name.
        name: &'static str,
        /// How many numbers it has.
        given: usize,
        /// How many are needed.
        needed: usize,
    },
    /// [`Frequencies::new_in`](crate::Frequencies::new_in), `from_inverse_in`, `rows_in`: the caller's storage is too
    /// short.
    Storage {
        /// How many elements it has.
        given: usize,
        /// How many are needed.
        needed: usize,
    },
    /// [`Frequencies::new`](crate::Frequencies::new): one position would turn a pair by 32768 turns or more, which no
    /// model means and no coordinate resolves.
    TooFast {
        /// The pair.
        pair: usize,
        /// Its inverse frequency in radians.
        inverse: f64,
    },
    /// [`Frequencies::new`](crate::Frequencies::new): the [`Axes`](crate::Axes) do not add up.
    Axes {
        /// What is wrong with them.
        required: &'static str,
    },
    /// [`Frequencies::rows`](crate::Frequencies::rows), `rows_in`, `Rope::rotate_at`: a list of positions for several
    /// axes whose length does not divide by their number.
    PositionsPerAxis {
        /// Numbers in the list.
        given: usize,
        /// Axes of the frequencies.
        axes: usize,
    },
    /// [`Frequencies::rows`](crate::Frequencies::rows), `rows_in`, `Rope::rotate_at`: a coordinate that is infinite or
    /// not a number.
    Coordinate {
        /// Index in the list.
        index: usize,
        /// The coordinate.
        value: f64,
    },
    /// [`Positions::packed`](crate::Positions::packed): the first offset is not 0, or one is below the one before.
    Offsets {
        /// Index of the offset.
        index: usize,
        /// The offset.
        offset: i64,
    },
    /// [`Frequencies::rows`](crate::Frequencies::rows), `rows_in`: more values than memory can be asked for.
    RowsTooLong {
        /// Rows asked for.
        tokens: usize,
        /// Values of a row.
        rotary_dim: usize,
    },
    /// [`Rope::rotate_at`](crate::Rope::rotate_at): a row is longer than what is kept on the stack.
    RotaryDimOnStack {
        /// Values of a row.
        rotary_dim: usize,
        /// The most there is room for.
        limit: usize,
    },
    /// `Config::from_json`: the text is not JSON, or not an object.
    #[cfg(feature = "serde")]
    Json {
        /// The line of the first error, from 1; 0 when the text is JSON but no object.
        line: usize,
        /// Its column.
        column: usize,
    },
    /// `Config` and [`Gguf`](crate::Gguf): a key that is needed and has no known default is not there.
    Missing {
        /// The key.
        key: &'static str,
    },
    /// `Config` and [`Gguf`](crate::Gguf): a key has a value of another type or outside of its range.
    Invalid {
        /// The key.
        key: &'static str,
        /// What it has to be.
        required: &'static str,
    },
    /// `Config` and [`Gguf`](crate::Gguf): a name that stands for no known variant. The value may be
    /// perfectly good; rotating by a guess would not be.
    Unknown {
        /// The key.
        key: &'static str,
        /// The beginning of its value.
        value: Name,
    },
    /// `Config`: the file holds several answers, and the caller did not say which one is wanted.
    Ambiguous {
        /// What to choose by.
        key: &'static str,
        /// The choices, separated by commas (the beginning of the list).
        choices: Name,
    },
    /// `Config` and [`Gguf`](crate::Gguf): the model does something that is known, and is not a
    /// rotation of pairs by angles proportional to the position.
    Unsupported {
        /// What the model does.
        what: &'static str,
    },
    /// [`FromStr`](core::str::FromStr) of [`Pairing`], [`Backend`] or [`Direction`](crate::Direction): no such name.
    UnknownName {
        /// What was being read.
        kind: &'static str,
        /// The names that exist.
        known: &'static str,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Error::ShapeOverflow {
                shape,
                strides: Some(strides),
            } => {
                write!(
                    f,
                    "shape {shape} with strides {strides} has indices beyond usize::MAX ({})",
                    usize::MAX
                )
            }
            Error::ShapeOverflow {
                shape,
                strides: None,
            } => {
                write!(
                    f,
                    "shape {shape} has strides beyond usize::MAX ({})",
                    usize::MAX
                )
            }
            Error::OutOfBounds { needed, len } => {
                write!(f, "the layout needs {needed} elements, the slice has {len}")
            }
            Error::Overlap {
                dimension,
                stride,
                needed,
            } => write!(
                f,
                "stride {stride} of {dimension} lets elements of a mutable tensor overlap; it must be at least {needed}"
            ),
            Error::Range {
                dimension,
                start,
                end,
                extent,
            } => {
                write!(
                    f,
                    "range {start}..{end} of {dimension} is not inside 0..{extent}"
                )
            }
            Error::Interleaved { dimension } => write!(
                f,
                "the parts of a split along {dimension} interleave in memory; split the dimension with the largest stride first"
            ),
            Error::RotaryDim {
                rotary_dim,
                required,
            } => {
                write!(f, "rotary_dim is {rotary_dim}, but has to be {required}")
            }
            Error::RotaryDimExceedsHead {
                rotary_dim,
                head_dim,
            } => {
                write!(f, "rotary_dim {rotary_dim} exceeds head_dim {head_dim}")
            }
            Error::RowsLength { len, row } => {
                write!(f, "a slice of {len} is not a whole number of rows of {row}")
            }
            Error::CosSinLength { cos, sin } => {
                write!(f, "{cos} cos values beside {sin} sin values")
            }
            Error::RowStride { stride, pairs } => {
                write!(
                    f,
                    "row stride {stride} is less than the {pairs} values of a row"
                )
            }
            Error::RowCount {
                rows,
                tokens,
                batch,
            } => write!(
                f,
                "{rows} rows for {batch} sequences of {tokens} tokens; give one per token, or one per token of each sequence"
            ),
            Error::PositionOutsideTable { index, id, rows } => {
                write!(
                    f,
                    "position id {id} (at index {index}) is outside the table's 0..{rows}"
                )
            }
            Error::GatheredTwice => f.write_str("the rows are gathered by id already"),
            Error::RowRange { start, end, rows } => {
                write!(f, "rows {start}..{end} are not inside 0..{rows}")
            }
            Error::AttentionFactor { factor } => {
                write!(
                    f,
                    "attention factor {factor} is not a finite number other than zero"
                )
            }
            Error::PairingChangesInPlace { input, output } => {
                write!(
                    f,
                    "in place the pairing cannot change from {input} to {output}"
                )
            }
            Error::ShapeMismatch { source, target } => {
                write!(f, "the source has shape {source}, the target {target}")
            }
            Error::QueryKeyMismatch { query, key } => {
                write!(
                    f,
                    "Q of shape {query} and K of shape {key} differ in more than their heads"
                )
            }
            Error::BackendUnavailable { backend } => {
                write!(f, "backend {backend} is not available here")
            }
            Error::Parameter {
                name,
                value,
                required,
            } => write!(f, "{name} is {value:?}, but has to be {required}"),
            Error::Count {
                name,
                given,
                needed,
            } => write!(f, "{name} has {given} numbers, but {needed} are needed"),
            Error::Storage { given, needed } => write!(
                f,
                "the storage has {given} elements, but {needed} are needed"
            ),
            Error::TooFast { pair, inverse } => {
                write!(
                    f,
                    "the inverse frequency of pair {pair} is {inverse:?}, 32768 turns a position or more"
                )
            }
            Error::Axes { required } => write!(f, "the axes have to be {required}"),
            Error::PositionsPerAxis { given, axes } => {
                write!(f, "{given} positions do not divide among {axes} axes")
            }
            Error::Coordinate { index, value } => {
                write!(f, "coordinate {index} is {value}, which is not finite")
            }
            Error::Offsets { index, offset } => {
                write!(
                    f,
                    "offset {index} is {offset}; offsets start at 0 and never fall"
                )
            }
            Error::RowsTooLong { tokens, rotary_dim } => {
                write!(
                    f,
                    "{tokens} rows of {rotary_dim} values are more than isize::MAX ({}) bytes",
                    isize::MAX
                )
            }
            Error::RotaryDimOnStack { rotary_dim, limit } => {
                write!(
                    f,
                    "rotary_dim {rotary_dim} exceeds the {limit} that rows on the stack have room for"
                )
            }
            #[cfg(feature = "serde")]
            Error::Json { line: 0, .. } => write!(f, "the configuration is not a JSON object"),
            #[cfg(feature = "serde")]
            Error::Json { line, column } => write!(
                f,
                "the configuration is not JSON from line {line}, column {column}"
            ),
            Error::Missing { key } => write!(f, "{key} is missing, and has no known default"),
            Error::Invalid { key, required } => write!(f, "{key} has to be {required}"),
            Error::Unknown { key, value } => {
                write!(f, "{key} is {value:?}, which is not known here")
            }
            Error::Ambiguous { key, choices } => {
                write!(f, "{key} has to be chosen from: {}", choices.as_str())
            }
            Error::Unsupported { what } => write!(f, "not a rotation of pairs: {what}"),
            Error::UnknownName { kind, known } => write!(f, "unknown {kind}; one of: {known}"),
        }
    }
}

impl core::error::Error for Error {}

/// A name out of a caller's file, kept without an allocator: its first 96 bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Name {
    bytes: [u8; 96],
    length: u8,
}

impl Name {
    /// The beginning of `text`, cut at a character's end.
    pub(crate) fn new(text: &str) -> Self {
        let mut name = Self {
            bytes: [0; 96],
            length: 0,
        };
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
