//! Every way a call can be refused. [`Error`] has the errors of all calls, and a variant for each group of errors of
//! one subject, whose files are below.

use core::fmt;

pub use self::count::{Are, Count};
use crate::Shape;

#[macro_use]
mod list;

mod cache;
mod count;
mod frequencies;
mod gradient;
mod plan;
mod positions;
mod rows;
mod shape;
mod shard;
mod slots;

pub use cache::{CacheError, CacheIndex};
pub use frequencies::FrequenciesError;
pub use gradient::GradientError;
pub use plan::PlanError;
pub use positions::PositionsError;
pub use rows::RowsError;
pub use shape::ShapeError;
pub use shard::ShardError;
pub use slots::SlotsError;

/// The result of a call that may be refused.
pub(crate) type Result<T, E = Error> = core::result::Result<T, E>;

errors! {
    /// Why a call was refused. A refused call has written nothing.
    ///
    /// ```
    /// use rope_core::{Error, Tensor};
    ///
    /// // A message names the value, what is required, and where it helps the way out.
    /// let error = Tensor::new(&[0.0_f32; 128], [1, 1, 3, 64]).unwrap_err();
    /// assert!(matches!(error, Error::ShapeElements { len: 128, .. }));
    /// let message = "shape [1, 1, 3, 64] has 192 elements, but the slice has 128 (heads would be 2)";
    /// assert_eq!(error.to_string(), message);
    /// ```
    pub enum Error, groups: {
        /// A layout or a tensor: its extents, its strides, or its memory.
        Shape(ShapeError),
        /// Rows of cos and sin: their values, their number, or what they are used for.
        Rows(RowsError),
        /// A plan or one of its stages, or a call that the plan does not support.
        Plan(PlanError),
        /// A backward pass, or the gradients that it sums.
        Gradient(GradientError),
        /// Frequencies: their values, their axes, or the rows that are computed from them.
        Frequencies(FrequenciesError),
        /// A list of positions.
        Positions(PositionsError),
        /// The layout or the memory of a cache, or the heads that a call writes to it.
        Cache(CacheError),
        /// The slots of a call: their number, or one that the cache does not have.
        Slots(SlotsError),
        /// A shard of a sequence.
        Shard(ShardError),
    } =>
    /// [`Tensor::new`](crate::Tensor::new), [`TensorMut::new`](crate::TensorMut::new),
    /// [`Rows::strided`](crate::Rows::strided): a shape has more or fewer elements than the slice.
    ShapeElements {
        /// The shape asked for.
        shape: Shape,
        /// Elements the slice has.
        len: usize,
    }: Shape => |f| {
        // A shape that has no number of elements is refused before.
        let elements = shape.elements().unwrap_or(usize::MAX);
        let counted = Count(elements, "elements");
        write!(f, "shape {shape} has {counted}, but the slice has {len}")?;
        // Of grouped queries: the number of heads that the slice has.
        let head = Shape { heads: 1, ..shape }.elements().unwrap_or(0);
        if len > 0 && head > 0 && len.is_multiple_of(head) {
            write!(f, " (heads would be {})", len / head)?;
        }
        if len > elements {
            f.write_str("; use Layout::bshd for a part of a larger slice")?;
        }
        Ok(())
    },
    /// [`Frequencies::new`](crate::Frequencies::new), `new_in`, `from_inverse`, `from_inverse_in`: a base, factor or
    /// other number that makes no sense.
    Parameter {
        /// The parameter, by its public name.
        name: &'static str,
        /// The given value.
        value: f64,
        /// The requirement.
        required: &'static str,
    }: Value => |f| write!(f, "{name} is {}, but must be {required}", Decimal(value)),
    /// [`Frequencies::new`](crate::Frequencies::new), `new_in`, `from_inverse`, `from_inverse_in`: a number of a list
    /// makes no sense.
    ListEntry {
        /// The list, by its public name.
        name: &'static str,
        /// The index in the list; `u32::MAX` beyond that.
        index: u32,
        /// The given value.
        value: f64,
        /// The requirement.
        required: &'static str,
    }: Value => |f| write!(f, "{name}[{index}] is {}, but must be {required}", Decimal(value)),
    /// [`Frequencies::new`](crate::Frequencies::new): a list with one number for each pair (or sequence) has
    /// another length.
    Count {
        /// The list, by its public name.
        name: &'static str,
        /// The length of the list.
        given: usize,
        /// The required number.
        needed: usize,
    }: Shape => |f| write!(f, "{name} has {}, but {needed} {} needed", Count(given, "numbers"), Are(needed)),
    /// [`Frequencies::new_in`](crate::Frequencies::new_in), `from_inverse_in`, `rows_in`, the scales of
    /// [`CacheMut::coded_with_scales`](crate::cache::CacheMut::coded_with_scales): the caller's storage is too short.
    Storage {
        /// The elements of the storage.
        what: &'static str,
        /// The given number.
        given: usize,
        /// The required number.
        needed: usize,
    }: Capacity => |f| {
        let were = if given == 1 { "was" } else { "were" };
        write!(f, "{} {were} given, but {needed} {} needed", Count(given, what), Are(needed))
    },
    /// [`Frequencies::rows`](crate::Frequencies::rows) and the other calls that allocate: the allocator has no memory.
    /// Nothing has been allocated.
    OutOfMemory {
        /// Bytes asked for.
        bytes: usize,
    }: Capacity =>
        "{bytes} bytes could not be allocated; compute fewer rows at a time, or call the function whose name ends with \
         `_in` (rows_in), which takes the caller's storage",
}

/// A number as one writes it: an integer without a fraction.
struct Decimal(f64);

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            // What has more digits than an f64 is written with an exponent.
            integer if integer as i64 as f64 == integer && integer.abs() < 1e16 => {
                write!(f, "{integer}")
            }
            number => write!(f, "{number:?}"),
        }
    }
}

// Every fallible call returns one, so it is kept small: of two shapes it has the dimension in which they differ.
const _: () = assert!(size_of::<Error>() <= 48);

/// The kind of an [`Error`]: a caller treats all errors of one kind alike.
///
/// ```
/// use rope_core::{ErrorKind, Tensor};
///
/// // 3 heads of 64 channels do not fit a slice of 128 elements.
/// let error = Tensor::new(&[0.0_f32; 128], [1, 1, 3, 64]).unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Shape);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Shapes, strides or lengths do not agree with each other. The program passes operands that do not belong
    /// together; the same call fails every time.
    Shape,
    /// A parameter has a value that is not allowed, usually one that was read from a file. Reject the model.
    Value,
    /// A position, a slot or a page does not exist in the table or the cache. Reject the request, or make more room.
    Index,
    /// The plan or the rows do not support this operation. The message names the call that does, where there is one.
    Operation,
    /// A buffer is too short, a size exceeds a fixed limit, or the allocator has no memory. Pass more memory, or use a
    /// call without the limit.
    Capacity,
    /// This CPU or this build lacks the instruction set. Use another one of
    /// [`Backend::available`](crate::Backend::available).
    Backend,
}

impl Error {
    /// Returns the kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.kind_of()
    }

    /// Returns the error of a number with this name.
    pub(crate) const fn parameter(name: &'static str, value: f64, required: &'static str) -> Self {
        Error::Parameter {
            name,
            value,
            required,
        }
    }

    /// The error of a number, said of the number at an index of a list.
    pub(crate) fn in_list(self, index: usize) -> Self {
        let index = saturated(index);
        match self {
            Error::Parameter {
                name,
                value,
                required,
            } => Error::ListEntry {
                name,
                index,
                value,
                required,
            },
            other => other,
        }
    }
}

/// Checks the length of a list with this name.
#[inline]
pub(crate) fn check_count(name: &'static str, given: usize, needed: usize) -> Result<()> {
    match given == needed {
        true => Ok(()),
        false => Err(Error::Count {
            name,
            given,
            needed,
        }),
    }
}

/// A number as errors that are short of room have it: `u32::MAX` beyond that.
pub(crate) fn saturated(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
