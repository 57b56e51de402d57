//! Lists of numbers, in the types of the runtimes.

use crate::Error;
use crate::error::PositionsError;
#[cfg(feature = "alloc")]
use alloc::vec::Vec;
use core::ops::{Range, RangeInclusive};

/// Position ids in one of the integer types of the runtimes.
///
/// ```
/// # #[cfg(feature = "alloc")] {
/// use rope_core::{Frequencies, Ids, Positions, Scaling};
///
/// // One id per token on each of three axes: `[3, tokens]`, as Hugging Face keeps `position_ids`.
/// let ids = [0_i64, 1, 1, 0, 1, 1, 0, 1, 2];
/// let axes = rope_core::axes::Axes::mrope(128, [16, 24, 24]);
/// let frequencies = Frequencies::new(axes, 1_000_000.0, &Scaling::Default)?;
/// let rows = frequencies.rows(Positions::axis_major(Ids::I64(&ids)))?;
/// assert_eq!(rows.len(), 3);
/// # }
/// # Ok::<(), rope_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Ids<'a> {
    /// ggml, FlashInfer.
    I32(&'a [i32]),
    /// PyTorch, ONNX.
    I64(&'a [i64]),
    /// candle.
    U32(&'a [u32]),
    /// burn's and tch's hosts, and counters.
    U64(&'a [u64]),
    /// Rust's indices.
    Usize(&'a [usize]),
}

/// Implements the length and the numbers of a list.
macro_rules! numbers {
    ($list:ident as $wide:ty: $($variant:ident),+) => {
        impl $list<'_> {
            /// Returns the number of numbers.
            pub(crate) fn len(&self) -> usize {
                match self {
                    $($list::$variant(numbers) => numbers.len(),)+
                }
            }

            /// Returns an existing number.
            #[inline]
            pub(crate) fn at(&self, index: usize) -> $wide {
                match self {
                    $($list::$variant(numbers) => numbers[index] as $wide,)+
                }
            }
        }
    };
}
numbers!(Ids as i64: I32, I64, U32, U64, Usize);
numbers!(Coordinates as f64: F32, F64);

impl Ids<'_> {
    /// Returns the last id, or 0 if there is none.
    pub(crate) fn last(&self) -> i64 {
        self.len().checked_sub(1).map_or(0, |last| self.at(last))
    }

    /// Returns id `index`, or `None` if it is out of range; ids beyond `i64` wrap.
    pub(crate) fn get(&self, index: usize) -> Option<i64> {
        (index < self.len()).then(|| self.at(index))
    }
}

/// An integer type of ids in the runtimes: `i32`, `i64`, `u32`, `u64` or `usize`. Sealed.
///
/// ```
/// use rope_core::{Error, Id, Rows};
///
/// // The rows of some positions, whatever integers a runtime keeps them in.
/// fn gathered<'a, T: Id>(table: &'a Rows<'a>, positions: &'a [T]) -> Result<Rows<'a>, Error> {
///     table.gather(positions)
/// }
/// let values = [1.0_f32, 0.0, 0.0, 1.0];
/// assert_eq!(gathered(&Rows::new(&values, [2, 2])?, &[1_u32, 0, 1])?.len(), 3);
/// # Ok::<(), Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no integer of positions, slots and other ids",
    label = "ids are `i32`, `i64`, `u32`, `u64` or `usize`"
)]
pub trait Id: Number + PartialOrd {
    #[doc(hidden)]
    fn list(ids: &[Self]) -> Ids<'_>;

    #[doc(hidden)]
    fn wide(self) -> i128;
}

macro_rules! ids {
    ($($variant:ident $number:ty),*) => {$(
        impl Number for $number {
            fn listed(list: &[Self]) -> GivenNumbers<'_> {
                GivenNumbers::Integers(GivenIntegers::Ids(Ids::$variant(list)))
            }
        }
        impl Id for $number {
            fn list(ids: &[Self]) -> Ids<'_> {
                Ids::$variant(ids)
            }

            fn wide(self) -> i128 {
                self as i128
            }
        }
        impl<'a> Integers<'a> for $number {
            fn given(self) -> GivenIntegers<'a> {
                GivenIntegers::Range { first: self as i128, len: 1 }
            }
        }
    )*};
}
ids!(I32 i32, I64 i64, U32 u32, U64 u64, Usize usize);

macro_rules! integers {
    ($([$($generics:tt)*] $integers:ty),*) => {$(
        impl<'a, $($generics)*> Numbers<'a> for $integers {
            fn numbers(self) -> GivenNumbers<'a> {
                GivenNumbers::Integers(self.given())
            }
        }
    )*};
}
integers!([] i32, [] i64, [] u32, [] u64, [] usize, [] Ids<'a>, [T: Id] Range<T>, [T: Id] RangeInclusive<T>);

impl<'a, L: List<'a, Item: Id>> From<L> for Ids<'a> {
    fn from(list: L) -> Self {
        L::Item::list(list.slice())
    }
}

/// Conversion to [`Ids`], from a list by reference.
///
/// ```
/// # #[cfg(feature = "alloc")] {
/// use rope_core::{Error, IntoIds, Positions};
///
/// // The positions of packed sequences, whatever integers a runtime keeps their offsets in.
/// fn positions<'a>(offsets: impl IntoIds<'a>) -> Result<Positions<'a>, Error> {
///     Positions::packed(offsets)
/// }
/// assert!(positions(&[0_i32, 3, 5]).is_ok() && positions(&vec![0_u64, 3, 5]).is_ok());
/// # };
/// ```
#[diagnostic::on_unimplemented(
    message = "ids cannot be made of `{Self}`",
    label = "neither `Ids` nor a list by reference (`&[..]`, `&Vec`) of integers",
    note = "integers are i32, i64, u32, u64 or usize; a range is collected into a list first"
)]
pub trait IntoIds<'a>: Into<Ids<'a>> {}

#[diagnostic::do_not_recommend]
impl<'a, T: Into<Ids<'a>>> IntoIds<'a> for T {}

/// A list by reference: a slice, an array or a `Vec`. Sealed.
///
/// ```
/// # #[cfg(feature = "alloc")] {
/// use rope_core::{Id, List, Positions};
///
/// fn positions<'a>(ids: impl List<'a, Item: Id>) -> Positions<'a> {
///     ids.into()
/// }
/// let (array, vector) = ([3_u32, 4], vec![3_i64, 4]);
/// let lists = [positions(&array), positions(&array[..]), positions(&vector)];
/// # };
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no list",
    label = "lists are `&[T]`, `&[T; N]` and `&Vec<T>`"
)]
pub trait List<'a> {
    /// The type of the elements.
    type Item: 'a;

    #[doc(hidden)]
    fn slice(self) -> &'a [Self::Item];
}

macro_rules! lists {
    ($($(#[$attribute:meta])* [$($generics:tt)*] $list:ty),*) => {$(
        $(#[$attribute])*
        impl<'a, T, $($generics)*> List<'a> for &'a $list {
            type Item = T;

            fn slice(self) -> &'a [T] {
                self
            }
        }
    )*};
}
lists!([] [T], [const N: usize] [T; N], #[cfg(feature = "alloc")] [] Vec<T>);

/// Integers as a caller gives them: one, a range (`a..b` or `a..=b`), or a list. Sealed.
///
/// ```
/// use rope_core::cache::Slots;
/// use rope_core::{Integers, Positions};
///
/// fn both<'a>(tokens: impl Integers<'a> + Copy) -> (Positions<'a>, Slots<'a>) {
///     (tokens.into(), tokens.into())
/// }
/// let (token, list) = (both(7_i64), both(&[3_u32, 4]));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no integer, range or list of integers",
    label = "integers are `i32`, `i64`, `u32`, `u64` or `usize`, and lists are given by reference"
)]
pub trait Integers<'a>: Numbers<'a> {
    #[doc(hidden)]
    fn given(self) -> GivenIntegers<'a>;
}

/// The value of [`Integers`].
#[derive(Clone, Copy, Debug)]
pub enum GivenIntegers<'a> {
    /// Consecutive integers.
    Range {
        /// The first one.
        first: i128,
        /// Their number.
        len: u64,
    },
    /// A list.
    Ids(Ids<'a>),
}

impl<'a> Integers<'a> for Ids<'a> {
    fn given(self) -> GivenIntegers<'a> {
        GivenIntegers::Ids(self)
    }
}

impl<'a, L: List<'a, Item: Id>> Integers<'a> for L {
    fn given(self) -> GivenIntegers<'a> {
        GivenIntegers::Ids(self.into())
    }
}

/// Consecutive integers; an empty range, or one that ends before it starts, has none.
impl<'a, T: Id> Integers<'a> for Range<T> {
    fn given(self) -> GivenIntegers<'a> {
        let (first, end) = (self.start.wide(), self.end.wide());
        let len = (end - first).max(0) as u64;
        GivenIntegers::Range { first, len }
    }
}

/// Consecutive integers, the last included; a range that ends before it starts has none.
impl<'a, T: Id> Integers<'a> for RangeInclusive<T> {
    fn given(self) -> GivenIntegers<'a> {
        let (first, last) = (self.start().wide(), self.end().wide());
        let len = match self.is_empty() {
            true => 0,
            false => ((last - first) as u64).saturating_add(1),
        };
        GivenIntegers::Range { first, len }
    }
}

/// The numbers of tokens as a caller gives them: an integer, a range, or a list of integers or of real numbers. Sealed.
///
/// ```
/// use rope_core::{Numbers, Positions};
///
/// fn on_both_axes<'a>(numbers: impl Numbers<'a>) -> Positions<'a> {
///     Positions::axis_major(numbers)
/// }
/// let (ids, centers) = (on_both_axes(&[0, 1, 7, 7]), on_both_axes(&[-0.5_f32, 0.5, 0.5, 0.5]));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no integer, range or list of numbers",
    label = "numbers are `i32`, `i64`, `u32`, `u64`, `usize`, `f32` or `f64`, and lists are given by reference"
)]
#[doc(alias("IntoCoordinates", "real"))]
pub trait Numbers<'a> {
    #[doc(hidden)]
    fn numbers(self) -> GivenNumbers<'a>;
}

/// The value of [`Numbers`].
#[derive(Clone, Copy, Debug)]
pub enum GivenNumbers<'a> {
    /// Integers.
    Integers(GivenIntegers<'a>),
    /// Real numbers.
    Coordinates(Coordinates<'a>),
}

impl<'a> Numbers<'a> for Coordinates<'a> {
    fn numbers(self) -> GivenNumbers<'a> {
        GivenNumbers::Coordinates(self)
    }
}

impl<'a, L: List<'a, Item: Number>> Numbers<'a> for L {
    fn numbers(self) -> GivenNumbers<'a> {
        L::Item::listed(self.slice())
    }
}

/// A type of positions in the runtimes: that of an [`Id`], or `f32` or `f64` for real-valued coordinates. Sealed.
///
/// ```
/// use rope_core::{Number, Positions};
///
/// fn positions<T: Number>(list: &[T]) -> Positions<'_> {
///     list.into()
/// }
/// let (ids, times) = (positions(&[3_u32, 4]), positions(&[0.04_f64, 0.08]));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no number of positions",
    label = "numbers are `i32`, `i64`, `u32`, `u64`, `usize`, `f32` or `f64`"
)]
#[doc(alias = "Coordinate")]
pub trait Number: Copy {
    #[doc(hidden)]
    fn listed(list: &[Self]) -> GivenNumbers<'_>;
}

macro_rules! coordinates {
    ($($variant:ident $number:ty),*) => {$(
        impl Number for $number {
            fn listed(list: &[Self]) -> GivenNumbers<'_> {
                GivenNumbers::Coordinates(Coordinates::$variant(list))
            }
        }
    )*};
}
coordinates!(F32 f32, F64 f64);

/// Real-valued coordinates, such as time stamps or the centers of image patches.
///
/// ```
/// # #[cfg(feature = "alloc")] {
/// use rope_core::{Coordinates, Frequencies, Scaling};
///
/// let times = [0.0_f64, 0.04, 0.08];
/// let frequencies = Frequencies::new(64, 10_000.0, &Scaling::Default)?;
/// let rows = frequencies.rows(Coordinates::F64(&times))?; // or `&times`
/// # }
/// # Ok::<(), rope_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Coordinates<'a> {
    /// Single precision, exact from there on.
    F32(&'a [f32]),
    /// Double precision.
    F64(&'a [f64]),
}

/// Checks that offsets of sequences start at 0 and never fall.
pub(crate) fn check_offsets(offsets: Ids<'_>) -> Result<(), Error> {
    let mut before = 0;
    for index in 0..offsets.len() {
        let offset = offsets.at(index);
        if offset < before || (index == 0 && offset != 0) || usize::try_from(offset).is_err() {
            return Err(Error::Positions(PositionsError::Offsets { index, offset }));
        }
        before = offset;
    }
    Ok(())
}

/// Returns the sequence of an existing token: the last that starts at or before it.
pub(crate) fn sequence_of(offsets: Ids<'_>, token: i64) -> usize {
    let (mut low, mut high) = (0, offsets.len() - 1);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if offsets.at(middle) <= token {
            low = middle
        } else {
            high = middle
        }
    }
    low
}
