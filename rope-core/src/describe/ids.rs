//! Lists of numbers, in the types that runtimes keep them in.

use crate::Error;
#[cfg(feature = "alloc")]
use alloc::vec::Vec;

/// Position ids in one of the integer types that runtimes keep them in.
///
/// ```
/// use rope_core::{Frequencies, Ids, Positions, Scaling};
///
/// // One id per token on each of three axes: `[3, tokens]`, as Hugging Face keeps `position_ids`.
/// let ids = [0_i64, 1, 1, 0, 1, 1, 0, 1, 2];
/// let axes = rope_core::axes::Axes::mrope(128, [16, 24, 24]);
/// let frequencies = Frequencies::new(axes, 1_000_000.0, &Scaling::Default)?;
/// let rows = frequencies.rows(Positions::axis_major(Ids::I64(&ids)))?;
/// assert_eq!(rows.len(), 3);
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

impl Ids<'_> {
    /// How many.
    pub fn len(&self) -> usize {
        match self {
            Ids::I32(ids) => ids.len(),
            Ids::I64(ids) => ids.len(),
            Ids::U32(ids) => ids.len(),
            Ids::U64(ids) => ids.len(),
            Ids::Usize(ids) => ids.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Id `index`, if there is one; beyond `i64` it wraps.
    pub fn get(&self, index: usize) -> Option<i64> {
        (index < self.len()).then(|| self.at(index))
    }

    /// An id that is there.
    #[inline]
    pub(crate) fn at(&self, index: usize) -> i64 {
        match self {
            Ids::I32(ids) => ids[index].into(),
            Ids::I64(ids) => ids[index],
            Ids::U32(ids) => ids[index].into(),
            Ids::U64(ids) => ids[index] as i64,
            Ids::Usize(ids) => ids[index] as i64,
        }
    }
}

/// A list is taken as a slice, as an array or as a `Vec`, by reference.
macro_rules! from_lists {
    ($list:ident: $($variant:ident $number:ty),*) => {$(
        impl<'a> From<&'a [$number]> for $list<'a> {
            fn from(list: &'a [$number]) -> Self {
                $list::$variant(list)
            }
        }
        impl<'a, const N: usize> From<&'a [$number; N]> for $list<'a> {
            fn from(list: &'a [$number; N]) -> Self {
                $list::$variant(list)
            }
        }
        #[cfg(feature = "alloc")]
        impl<'a> From<&'a Vec<$number>> for $list<'a> {
            fn from(list: &'a Vec<$number>) -> Self {
                $list::$variant(list)
            }
        }
    )*};
}
from_lists!(Ids: I32 i32, I64 i64, U32 u32, U64 u64, Usize usize);
from_lists!(Coordinates: F32 f32, F64 f64);

/// Real-valued coordinates, such as time stamps or the centers of image patches.
///
/// ```
/// use rope_core::{Coordinates, Frequencies, Positions, Scaling};
///
/// let times = [0.0_f64, 0.04, 0.08];
/// let frequencies = Frequencies::new(64, 10_000.0, &Scaling::Default)?;
/// let rows = frequencies.rows(Positions::real(Coordinates::F64(&times)))?;
/// # Ok::<(), rope_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Coordinates<'a> {
    /// Single precision; exact from there on.
    F32(&'a [f32]),
    /// Double precision.
    F64(&'a [f64]),
}

impl Coordinates<'_> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Coordinates::F32(values) => values.len(),
            Coordinates::F64(values) => values.len(),
        }
    }

    pub(crate) fn get(&self, index: usize) -> f64 {
        match self {
            Coordinates::F32(values) => values[index].into(),
            Coordinates::F64(values) => values[index],
        }
    }
}

/// Whether offsets of sequences start at 0 and never fall.
pub(crate) fn check_offsets(offsets: Ids<'_>) -> Result<(), Error> {
    let mut before = 0;
    for index in 0..offsets.len() {
        let offset = offsets.at(index);
        if offset < before || (index == 0 && offset != 0) || usize::try_from(offset).is_err() {
            return Err(Error::Offsets { index, offset });
        }
        before = offset;
    }
    Ok(())
}

/// The sequence of a token that is there: the last that starts at or before it.
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
