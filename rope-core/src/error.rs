//! Every way a call can be refused.

use core::fmt;

use crate::{Backend, Dimension, Pairing, Shape, Strides};

/// Why a call was refused. A refused call has written nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// A [`Layout`](crate::Layout) constructor: the index of the last element does not fit `usize`.
    ShapeOverflow {
        /// The shape asked for.
        shape: Shape,
        /// The strides asked for, where they could be computed.
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
    /// [`Rows`](crate::Rows) constructors: a rotary dimension of zero, or an odd one.
    RotaryDim {
        /// The value refused.
        rotary_dim: usize,
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
            Error::ShapeOverflow { shape, strides: Some(strides) } => {
                write!(f, "shape {shape} with strides {strides} has indices beyond usize::MAX ({})", usize::MAX)
            }
            Error::ShapeOverflow { shape, strides: None } => {
                write!(f, "shape {shape} has more elements than usize::MAX ({})", usize::MAX)
            }
            Error::OutOfBounds { needed, len } => {
                write!(f, "the layout needs {needed} elements, the slice has {len}")
            }
            Error::Overlap { dimension, stride, needed } => write!(
                f,
                "stride {stride} of {dimension} lets elements of a mutable tensor overlap; it must be at least {needed}"
            ),
            Error::Range { dimension, start, end, extent } => {
                write!(f, "range {start}..{end} of {dimension} is not inside 0..{extent}")
            }
            Error::Interleaved { dimension } => write!(
                f,
                "the parts of a split along {dimension} interleave in memory; split the dimension with the largest stride first"
            ),
            Error::RotaryDim { rotary_dim } => {
                write!(f, "rotary_dim {rotary_dim} is not an even number of at least 2")
            }
            Error::RotaryDimExceedsHead { rotary_dim, head_dim } => {
                write!(f, "rotary_dim {rotary_dim} exceeds head_dim {head_dim}")
            }
            Error::RowsLength { len, row } => {
                write!(f, "a slice of {len} is not a whole number of rows of {row}")
            }
            Error::CosSinLength { cos, sin } => {
                write!(f, "{cos} cos values beside {sin} sin values")
            }
            Error::RowStride { stride, pairs } => {
                write!(f, "row stride {stride} is less than the {pairs} values of a row")
            }
            Error::RowCount { rows, tokens, batch } => write!(
                f,
                "{rows} rows for {batch} sequences of {tokens} tokens; give one per token, or one per token of each sequence"
            ),
            Error::PositionOutsideTable { index, id, rows } => {
                write!(f, "position id {id} (at index {index}) is outside the table's 0..{rows}")
            }
            Error::GatheredTwice => f.write_str("the rows are gathered by id already"),
            Error::RowRange { start, end, rows } => {
                write!(f, "rows {start}..{end} are not inside 0..{rows}")
            }
            Error::AttentionFactor { factor } => {
                write!(f, "attention factor {factor} is not a finite number other than zero")
            }
            Error::PairingChangesInPlace { input, output } => {
                write!(f, "in place the pairing cannot change from {input} to {output}")
            }
            Error::ShapeMismatch { source, target } => {
                write!(f, "the source has shape {source}, the target {target}")
            }
            Error::QueryKeyMismatch { query, key } => {
                write!(f, "Q of shape {query} and K of shape {key} differ in more than their heads")
            }
            Error::BackendUnavailable { backend } => {
                write!(f, "backend {backend} is not available here")
            }
            Error::UnknownName { kind, known } => write!(f, "unknown {kind}; one of: {known}"),
        }
    }
}

impl core::error::Error for Error {}

impl From<core::convert::Infallible> for Error {
    fn from(never: core::convert::Infallible) -> Self {
        match never {}
    }
}
