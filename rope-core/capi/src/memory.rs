//! Pointers, and their checks.
//!
//! # No two slices of overlapping memory
//!
//! C lets the memories of a call overlap; two Rust slices of which one is mutable must not. Each call holds to one
//! order: it reads the caller's structs ([`look`], [`read`]), then takes the [`Region`] of everything that it reads or
//! writes, and makes a mutable slice ([`SpanMut::get`]) only once that is apart from the regions of all the others
//! ([`Region::apart_from`]). Of several that are written, each is apart from those before it. An overlap is refused
//! with `ROPE_STATUS_MEMORY_OVERLAP`, and nothing is written. Slices that are read may share memory with one another.
//!
//! Regions reach from the first byte to the last. Only `rope_rotate_qk` and `rope_prepare_qk` accept interleaved
//! tensors; they make the slice of one at a time.

use core::slice;

use half::{bf16, f16};
use rope_core::FrequencyChunk;

use crate::failure::Failure;

/// A type that is valid for all bits, so that it can be read from memory that a caller has filled.
///
/// # Safety
///
/// All bits of the type are valid (padding does not count).
pub(crate) unsafe trait Plain: Copy {}

macro_rules! plain {
    ($($type:ty),* $(,)?) => {$(
        // SAFETY: numbers and pointers.
        unsafe impl $crate::memory::Plain for $type {}
    )*};
}
pub(crate) use plain;
plain!(u8, i32, i64, u32, u64, usize, f32, f64, f16, bf16);

/// The addresses of some bytes, for comparison with other regions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Region {
    name: &'static str,
    start: usize,
    bytes: usize,
}

impl Region {
    /// No bytes: they overlap nothing.
    pub(crate) const NONE: Self = Region::bytes("", 0, 0);

    /// The bytes of a value; none for null.
    pub(crate) fn of<T>(name: &'static str, value: *const T) -> Self {
        Region {
            name,
            start: value.addr(),
            bytes: if value.is_null() { 0 } else { size_of::<T>() },
        }
    }

    /// `bytes` bytes from an address on.
    pub(crate) const fn bytes(name: &'static str, start: usize, bytes: usize) -> Self {
        Region { name, start, bytes }
    }

    /// Returns `true` if it shares a byte with another.
    #[inline]
    pub(crate) fn overlaps(self, other: Region) -> bool {
        // Neither end overflows: `check` refuses such spans, and values lie in memory. So one of the two begins within
        // the other, or the distance is too long, or wraps.
        let begins = |a: Region, b: Region| b.start.wrapping_sub(a.start) < a.bytes;
        self.bytes != 0 && other.bytes != 0 && (begins(self, other) || begins(other, self))
    }

    /// Returns the distance from its first byte to another's. It fits for regions that overlap.
    #[inline]
    pub(crate) fn ahead(self, other: Region) -> isize {
        other.start.wrapping_sub(self.start) as isize
    }

    pub(crate) const fn len(self) -> usize {
        self.bytes
    }

    /// `ROPE_STATUS_MEMORY_OVERLAP` if it shares a byte with one of the others.
    #[inline]
    pub(crate) fn apart_from(self, others: &[Region]) -> Result<(), Failure> {
        for other in others {
            if self.overlaps(*other) {
                return Err(self.overlap(*other, "they must be disjoint"));
            }
        }
        Ok(())
    }

    /// Returns the error of a target that overlaps another region.
    #[cold]
    pub(crate) fn overlap(self, other: Region, required: &'static str) -> Failure {
        let start = self.start.max(other.start);
        let end =
            (self.start.saturating_add(self.bytes)).min(other.start.saturating_add(other.bytes));
        Failure::MemoryOverlap {
            written: self.name,
            other: other.name,
            bytes: end - start,
            at: start - self.start,
            required,
        }
    }
}

/// Elements to read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span<T> {
    name: &'static str,
    first: *const T,
    len: usize,
}

impl<T: Plain> Span<T> {
    /// Checks for null, alignment, and a length that memory can have. Without elements the pointer may be anything.
    #[inline]
    pub(crate) fn new(name: &'static str, first: *const T, len: usize) -> Result<Self, Failure> {
        check(name, first, len)?;
        Ok(Span { name, first, len })
    }

    /// Returns a span of the same length in other memory.
    #[inline]
    pub(crate) fn at(self, first: *const T) -> Result<Self, Failure> {
        Span::new(self.name, first, self.len)
    }

    pub(crate) fn region(&self) -> Region {
        Region::bytes(self.name, self.first.addr(), self.len * size_of::<T>())
    }

    /// The elements.
    ///
    /// # Safety
    ///
    /// They are there, and nobody writes them during `'a`.
    #[inline]
    pub(crate) unsafe fn get<'a>(self) -> &'a [T] {
        // SAFETY: `check` has seen that it is not null, aligned, and no longer than memory. The caller promises the
        // rest.
        unsafe { elements(self.first, self.len) }
    }
}

/// Elements to write.
#[derive(Debug)]
pub(crate) struct SpanMut<T> {
    name: &'static str,
    first: *mut T,
    len: usize,
}

impl<T: Plain> SpanMut<T> {
    /// As [`Span::new`].
    #[inline]
    pub(crate) fn new(name: &'static str, first: *mut T, len: usize) -> Result<Self, Failure> {
        check(name, first, len)?;
        Ok(SpanMut { name, first, len })
    }

    /// Returns the bytes of the elements.
    pub(crate) fn bytes(self) -> SpanMut<u8> {
        SpanMut {
            name: self.name,
            first: self.first.cast(),
            len: self.len * size_of::<T>(),
        }
    }

    /// The first `len` of them, if there are more.
    #[inline]
    pub(crate) fn cut(self, len: usize) -> Self {
        let len = len.min(self.len);
        SpanMut { len, ..self }
    }

    pub(crate) fn region(&self) -> Region {
        Region::bytes(self.name, self.first.addr(), self.len * size_of::<T>())
    }

    /// The elements to read.
    ///
    /// # Safety
    ///
    /// They are there, and nobody writes them during `'a`.
    #[inline]
    pub(crate) unsafe fn read<'a>(self) -> &'a [T] {
        let SpanMut { name, first, len } = self;
        // SAFETY: the caller promises that the values are readable, and that nobody writes them during `'a`.
        unsafe {
            Span {
                name,
                first: first.cast_const(),
                len,
            }
            .get()
        }
    }

    /// Returns the elements, unless they share a byte with memory that the call reads.
    ///
    /// # Safety
    ///
    /// They are there, and nobody else reads or writes them during `'a` but through the regions that are listed.
    #[inline]
    pub(crate) unsafe fn get<'a>(self, read: &[Region]) -> Result<&'a mut [T], Failure> {
        self.region().apart_from(read)?;
        // SAFETY: `check` has seen that it is not null, aligned, and no longer than memory; it is apart from what the
        // library reads. The caller promises the rest.
        Ok(unsafe { elements_mut(self.first, self.len) })
    }
}

/// Elements of which a pointer and a length were checked before. (If there are none the pointer may be anything.)
///
/// # Safety
///
/// As [`Span::get`]; the pointer passed [`Span::new`].
#[inline]
pub(crate) unsafe fn elements<'a, T: Plain>(first: *const T, len: usize) -> &'a [T] {
    match len {
        0 => &[],
        // SAFETY: the caller promises that the elements are readable, that nobody writes them during `'a`, and that the
        // pointer passed the checks of `Span::new`.
        _ => unsafe { slice::from_raw_parts(first, len) },
    }
}

/// The same, to write.
///
/// # Safety
///
/// As [`elements`], and nobody else reads or writes them during `'a`.
#[inline]
pub(crate) unsafe fn elements_mut<'a, T: Plain>(first: *mut T, len: usize) -> &'a mut [T] {
    match len {
        0 => &mut [],
        // SAFETY: the caller promises that the elements are accessible, that nobody else uses them during `'a`, and
        // that the pointer passed the checks of `Span::new`.
        _ => unsafe { slice::from_raw_parts_mut(first, len) },
    }
}

#[inline]
fn check<T>(name: &'static str, first: *const T, len: usize) -> Result<(), Failure> {
    if len == 0 {
        return Ok(());
    }
    place(name, first)?;
    let bytes = len.checked_mul(size_of::<T>());
    let fits = bytes.is_some_and(|bytes| {
        bytes <= isize::MAX as usize && first.addr().checked_add(bytes).is_some()
    });
    if fits {
        Ok(())
    } else {
        Err(Failure::Length { name, len })
    }
}

/// Checks for null and alignment.
#[inline]
pub(crate) fn place<T>(name: &'static str, value: *const T) -> Result<(), Failure> {
    if value.is_null() {
        Err(Failure::Null { name })
    } else if value.is_aligned() {
        Ok(())
    } else {
        let alignment = align_of::<T>();
        Err(Failure::Misaligned { name, alignment })
    }
}

/// Copies a struct of the caller's, so that nothing points into it afterwards.
///
/// # Safety
///
/// A pointer that is not null points to a `T`.
#[inline]
pub(crate) unsafe fn read<T: Plain>(name: &'static str, value: *const T) -> Result<T, Failure> {
    // SAFETY: the caller promises that the pointer is null or valid.
    unsafe { look(name, value) }.copied()
}

/// Returns a reference to a struct of the caller, which must end before a call writes anything.
///
/// # Safety
///
/// As [`read`], and nobody writes it during `'a`.
#[inline(always)]
pub(crate) unsafe fn look<'a, T: Plain>(
    name: &'static str,
    value: *const T,
) -> Result<&'a T, Failure> {
    place(name, value)?;
    // SAFETY: neither null nor misaligned, and any bits are a `T`. The caller promises that it is there.
    Ok(unsafe { &*value })
}

/// A place for one result, checked before anything is done.
#[derive(Debug)]
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    pub(crate) fn new(name: &'static str, value: *mut T) -> Result<Self, Failure> {
        place(name, value)?;
        Ok(Out(value))
    }

    /// The same place for another type, which has room there.
    pub(crate) fn cast<U>(self) -> Out<U> {
        const { assert!(size_of::<U>() <= size_of::<T>() && align_of::<U>() <= align_of::<T>()) };
        Out(self.0.cast())
    }

    /// Writes it.
    ///
    /// # Safety
    ///
    /// There is a `T`, and the caller lets it be written.
    pub(crate) unsafe fn write(self, value: T) {
        // SAFETY: `new` has seen that it is neither null nor misaligned. The caller promises that it is there.
        unsafe { self.0.write(value) }
    }
}

/// Makes empty chunks in memory that may hold anything.
///
/// # Safety
///
/// `first` is aligned, and there are `count` chunks' worth of bytes that nobody else reads or writes during `'a`.
pub(crate) unsafe fn empty_chunks<'a>(
    first: *mut FrequencyChunk,
    count: usize,
) -> &'a mut [FrequencyChunk] {
    for index in 0..count {
        // SAFETY: within the bytes that are promised.
        unsafe { first.add(index).write(FrequencyChunk::EMPTY) };
    }
    // SAFETY: all of them have just been written.
    unsafe { slice::from_raw_parts_mut(first, count) }
}
