//! Memory of the caller, and of an allocator.

use crate::base::error::{Error, Result};

/// A borrowed slice, or with an allocator an owned one.
#[cfg(feature = "alloc")]
pub(crate) type MaybeOwned<'a, T> = alloc::borrow::Cow<'a, [T]>;
#[cfg(not(feature = "alloc"))]
pub(crate) type MaybeOwned<'a, T> = &'a [T];

/// Returns the first `needed` elements of a caller's storage. The error calls them `what`.
pub(crate) fn part_of_storage<'s, T>(
    storage: &'s mut [T],
    what: &'static str,
    needed: usize,
) -> Result<&'s mut [T]> {
    let given = storage.len();
    storage.get_mut(..needed).ok_or(Error::Storage {
        what,
        given,
        needed,
    })
}

/// Returns the error of an allocation without memory.
#[cfg(feature = "alloc")]
pub(crate) fn out_of_memory<T>(count: usize) -> Error {
    Error::OutOfMemory {
        bytes: count.saturating_mul(size_of::<T>()),
    }
}
