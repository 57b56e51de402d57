//! The errors of this crate.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use burn_core::tensor::{DType, Device};
use rope_core::internals::Count;

/// The reason why a call was refused. Nothing was rotated then.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// An error of rope-core: parameters of frequencies, positions, or rows that rotate more channels than a head has.
    Rope(rope_core::Error),
    /// An error of rope-models: a model's file without a rotation for each layer.
    #[cfg(feature = "models")]
    Model(rope_models::Error),
    /// [`RotaryRows::new`](crate::RotaryRows::new): cos and sin differ in shape.
    CosSinShape {
        /// The shape of cos.
        cos: [usize; 4],
        /// The shape of sin.
        sin: [usize; 4],
    },
    /// [`RotaryRows::new`](crate::RotaryRows::new): cos or sin are not `f32`. In 16 bits their error would exceed the
    /// rounding of the rotation.
    RowsType {
        /// The type refused.
        dtype: DType,
    },
    /// [`RotaryRows::from_rows`](crate::RotaryRows::from_rows): the number of rows is not a multiple of the number of
    /// sequences.
    Sequences {
        /// Rows.
        rows: usize,
        /// Sequences that they should divide into.
        sequences: usize,
    },
    /// [`RotaryEncoding::rows_at`](crate::RotaryEncoding::rows_at): positions of a shape other than `[tokens]` or
    /// `[batch, tokens]`, after the axes if there are several.
    PositionsShape {
        /// The shape of the positions.
        dims: Vec<usize>,
        /// The axes of the frequencies.
        axes: usize,
    },
    /// [`rotate`](crate::rotate): the tensor has fewer than two dimensions.
    Dimensions {
        /// The number of its dimensions.
        dimensions: usize,
    },
    /// [`rotate`](crate::rotate): the elements of the tensor are not floating-point numbers.
    TensorType {
        /// The type refused.
        dtype: DType,
    },
    /// [`rotate`](crate::rotate): the rows have other sequences, heads or tokens than the tensor.
    RowsShape {
        /// `[sequences, heads, tokens, pairs]` of the rows.
        rows: [usize; 4],
        /// `[batch, heads, tokens, head_dim]` of the tensor.
        x: [usize; 4],
    },
    /// [`rotate`](crate::rotate): the rows are on another device than the tensor.
    Device {
        /// The device of the rows.
        rows: Box<Device>,
        /// The device of the tensor.
        x: Box<Device>,
    },
    /// `norm_rotate` and `rotate_into_caches`: an unsupported tensor, of another backend, with autodiff, or of another
    /// type.
    #[cfg(feature = "flex")]
    Fused {
        /// The tensor.
        name: &'static str,
        /// Its type.
        dtype: DType,
    },
    /// `read_caches`: the result would exceed memory.
    #[cfg(feature = "flex")]
    Memory {
        /// The shape `[batch, heads, tokens, head_dim]` of the result.
        shape: [usize; 4],
    },
    /// [`RotaryEncoding`](crate::RotaryEncoding): the last dimension of the tensor differs from the module's.
    HeadDim {
        /// The last dimension of the tensor.
        given: usize,
        /// The module's `d_model`.
        needed: usize,
    },
    /// [`RotaryEncoding`](crate::RotaryEncoding): a position does not fit `usize`.
    Position {
        /// The first position of the window.
        window: usize,
        /// The position in the window of the first token, or the number of positions of the window.
        start: usize,
    },
    /// [`RotaryEncodingConfig::init_with_frequencies`](crate::RotaryEncodingConfig::init_with_frequencies): the
    /// frequencies rotate another number of channels than the configuration.
    RotaryDim {
        /// Channels of the frequencies.
        frequencies: usize,
        /// Channels of the configuration.
        config: usize,
    },
    /// [`RotaryEncodingConfig::init_with_frequency_scaling`](crate::RotaryEncodingConfig::init_with_frequency_scaling):
    /// the result of the function is not `f32`.
    Frequencies {
        /// The type of the result.
        dtype: DType,
    },
    /// [`RotaryEncoding::from_rotation`](crate::RotaryEncoding::from_rotation): the model's rotation is more than
    /// frequencies and one pairing of the first channels of a head.
    #[cfg(feature = "models")]
    Rotation {
        /// The additional behavior.
        what: &'static str,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Rope(error) => error.fmt(f),
            Error::CosSinShape { cos, sin } => {
                write!(f, "cos of shape {cos:?} beside sin of shape {sin:?}")
            }
            Error::RowsType { dtype } => write!(f, "cos and sin are {dtype:?}, but have to be F32"),
            Error::Sequences { rows, sequences } => {
                write!(
                    f,
                    "the number of rows is {rows}, which is not a multiple of {}",
                    Count(*sequences, "sequences")
                )
            }
            Error::PositionsShape { dims, axes: 1 } => {
                write!(
                    f,
                    "positions are {dims:?}; they must be [tokens] or [batch, tokens]"
                )
            }
            Error::PositionsShape { dims, axes } => write!(
                f,
                "positions are {dims:?}; on {axes} axes they must be [{axes}, tokens] or [{axes}, batch, tokens]"
            ),
            Error::Dimensions { dimensions } => write!(
                f,
                "a tensor of {} has no tokens; it needs at least 2: [.., tokens, head_dim]",
                Count(*dimensions, "dimensions")
            ),
            Error::TensorType { dtype } => write!(
                f,
                "the tensor is {dtype:?}; what rotates is F32, F16, BF16, Flex32 or F64"
            ),
            Error::RowsShape { rows, x } => write!(
                f,
                "rows [sequences, heads, tokens, pairs] {rows:?} do not fit a tensor [batch, heads, tokens, \
                 head_dim] {x:?}; sequences and heads have to be 1 or the tensor's, tokens the tensor's"
            ),
            Error::Device { rows, x } => {
                write!(f, "the rows are on {rows:?}, the tensor is on {x:?}")
            }
            #[cfg(feature = "flex")]
            Error::Memory { shape } => {
                write!(f, "a tensor {shape:?} is more than memory holds")
            }
            #[cfg(feature = "flex")]
            Error::Fused { name, dtype } => write!(
                f,
                "{name} is {dtype:?}; norms and caches need F32, F16 or BF16 on Flex, and U8 for codes, without \
                 autodiff: Tensor::inner gives a tensor that has no gradient"
            ),
            Error::HeadDim { given, needed } => write!(
                f,
                "the last dimension of the tensor is {given}, but d_model is {needed}"
            ),
            Error::Position { window, start } => write!(
                f,
                "position {start} of a window that begins at {window} is beyond usize::MAX ({})",
                usize::MAX
            ),
            Error::RotaryDim {
                frequencies,
                config,
            } => write!(
                f,
                "the frequencies rotate {frequencies} channels, but rotary_dim is {config}"
            ),
            Error::Frequencies { dtype } => {
                write!(f, "scaled frequencies are {dtype:?}, but have to be F32")
            }
            #[cfg(feature = "models")]
            Error::Model(error) => error.fmt(f),
            #[cfg(feature = "models")]
            Error::Rotation { what } => write!(f, "the model's rotation {what}"),
        }
    }
}

impl core::error::Error for Error {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Error::Rope(error) => Some(error),
            #[cfg(feature = "models")]
            Error::Model(error) => Some(error),
            _ => None,
        }
    }
}

#[cfg(feature = "models")]
impl From<rope_models::Error> for Error {
    fn from(error: rope_models::Error) -> Self {
        Error::Model(error)
    }
}

impl From<rope_core::Error> for Error {
    fn from(error: rope_core::Error) -> Self {
        Error::Rope(error)
    }
}
