//! Handles: on the heap, or frequencies in the caller's memory, with their chunks after them.

use core::ffi::c_void;

use rope_core::{Error, FrequencyChunk};

use crate::failure::Failure;
use crate::memory::{Out, Region, SpanMut, empty_chunks, place};

/// The alignment of every handle.
pub(crate) const ALIGNMENT: usize = align_of::<FrequencyChunk>();

/// The first bytes of every handle, for the library.
#[derive(Debug)]
pub(crate) struct Head {
    magic: u64,
    /// Bytes of the handle and of the chunks after it.
    bytes: usize,
    /// True if the handle is on the heap.
    #[cfg(feature = "std")]
    owned: bool,
}

/// A kind of handle.
///
/// # Safety
///
/// `head` points into the handle, whose alignment is [`ALIGNMENT`].
pub(crate) unsafe trait Handle: Sized {
    /// Its content.
    type Value;
    /// The number that tells this kind from other memory.
    const MAGIC: u64;
    /// The name of the argument in calls.
    const NAME: &'static str = "frequencies";

    fn new(head: Head, value: Self::Value) -> Self;

    /// # Safety
    ///
    /// There is memory for a handle.
    unsafe fn head(handle: *const Self) -> *const Head;

    #[cfg(feature = "std")]
    fn head_mut(&mut self) -> &mut Head;

    fn value(&self) -> &Self::Value;

    fn value_mut(&mut self) -> &mut Self::Value;
}

/// Implements [`Handle`] for a struct with the members `head` and `value`. (The struct is written out because cbindgen
/// reads it.)
macro_rules! handle {
    ($name:ident, $value:ty, $magic:literal $(, $called:literal)?) => {
        // SAFETY: `head` is a member.
        unsafe impl $crate::handle::Handle for $name {
            type Value = $value;
            const MAGIC: u64 = $magic;
            $(const NAME: &'static str = $called;)?

            fn new(head: $crate::handle::Head, value: $value) -> Self {
                $name { head, value }
            }

            unsafe fn head(handle: *const Self) -> *const $crate::handle::Head {
                // SAFETY: the caller promises that the pointer has memory for a handle.
                unsafe { &raw const (*handle).head }
            }

            #[cfg(feature = "std")]
            fn head_mut(&mut self) -> &mut $crate::handle::Head {
                &mut self.head
            }

            fn value(&self) -> &$value {
                &self.value
            }

            fn value_mut(&mut self) -> &mut $value {
                &mut self.value
            }
        }

        const _: () = assert!(align_of::<$name>() == $crate::handle::ALIGNMENT);

        // Threads may share it.
        const _: fn() = || {
            fn shared<T: Send + Sync>() {}
            shared::<$name>();
        };
    };
}
pub(crate) use handle;

/// The content of a handle, and its bytes.
///
/// # Safety
///
/// A pointer that is not null points to a handle of this library, which nobody changes or frees during `'a`, or at
/// least to as many bytes as a handle has.
pub(crate) unsafe fn value<'a, H: Handle + 'a>(
    handle: *const H,
) -> Result<(&'a H::Value, Region), Failure> {
    // SAFETY: the caller promises that the pointer is null or has the bytes of a handle, which nobody changes or frees
    // during `'a`.
    unsafe { check(handle) }?;
    // SAFETY: the caller promises that the pointer is null or has the bytes of a handle, which nobody changes or frees
    // during `'a`. The magic number proves that this library made the handle.
    let (value, head) = unsafe { ((*handle).value(), &*H::head(handle)) };
    Ok((value, Region::bytes(H::NAME, handle.addr(), head.bytes)))
}

/// `ROPE_STATUS_HANDLE` unless this library made the handle.
///
/// # Safety
///
/// A pointer that is not null points to as many bytes as a handle has.
unsafe fn check<H: Handle>(handle: *const H) -> Result<(), Failure> {
    place(H::NAME, handle)?;
    // SAFETY: neither null nor misaligned. Any bits are a number. The caller promises that memory is there.
    let magic = unsafe { (&raw const (*H::head(handle)).magic).read() };
    if magic == H::MAGIC {
        Ok(())
    } else {
        Err(Failure::Handle {
            name: H::NAME,
            required: "of the kind that this call takes, or it has been freed",
        })
    }
}

/// Changes the value of a handle.
///
/// # Safety
///
/// As [`value`], and nobody else uses it meanwhile.
pub(crate) unsafe fn change<H: Handle>(
    handle: *mut H,
    how: impl FnOnce(H::Value) -> Result<H::Value, Error>,
) -> Result<(), Failure>
where
    H::Value: Clone,
{
    // SAFETY: the caller promises that the pointer is null or has the bytes of a handle, which nobody else uses
    // meanwhile.
    unsafe { check(handle) }?;
    // SAFETY: the caller promises that the pointer is null or has the bytes of a handle, which nobody else uses
    // meanwhile. The magic number proves that this library made the handle.
    let value = unsafe { (*handle).value_mut() };
    *value = how(value.clone())?;
    Ok(())
}

/// The parameters of frequencies.
pub(crate) trait Recipe {
    type Handle: Handle;

    fn make(
        &self,
        storage: &'static mut [FrequencyChunk],
    ) -> Result<<Self::Handle as Handle>::Value, Error>;

    /// The chunks that are needed.
    fn chunks(&self) -> Result<usize, Error> {
        match self.make(&mut []) {
            Ok(_) => Ok(0),
            Err(Error::Storage { needed, .. }) => Ok(needed),
            Err(error) => Err(error),
        }
    }
}

/// Bytes of a handle and of the chunks after it; more than memory holds, if there are so many.
fn bytes<H>(chunks: usize) -> usize {
    size_of::<H>().saturating_add(chunks.saturating_mul(size_of::<FrequencyChunk>()))
}

/// Makes a handle at the beginning of some memory, and the frequencies after it.
///
/// # Safety
///
/// The address of the memory is a multiple of [`ALIGNMENT`]. The memory has room for a handle and `chunks` chunks.
/// Nobody else uses it as long as the handle is in use, and nothing of the recipe lies in it.
unsafe fn make<R: Recipe>(
    recipe: &R,
    memory: *mut u8,
    chunks: usize,
) -> Result<*mut R::Handle, Error> {
    let handle = memory.cast::<R::Handle>();
    // SAFETY: chunks have the alignment of the handle, whose size is a multiple of it; there is room for both.
    let storage = unsafe { empty_chunks(handle.add(1).cast::<FrequencyChunk>(), chunks) };
    let value = recipe.make(storage)?;
    let head = Head {
        magic: R::Handle::MAGIC,
        bytes: bytes::<R::Handle>(chunks),
        #[cfg(feature = "std")]
        owned: false,
    };
    // SAFETY: there is room, and it is aligned.
    unsafe { handle.write(R::Handle::new(head, value)) };
    Ok(handle)
}

/// Makes frequencies in the caller's memory.
///
/// # Safety
///
/// `memory` is null or points to `size` bytes that the caller gives away. `out` is null or points to a pointer.
pub(crate) unsafe fn init<R: Recipe>(
    memory: *mut c_void,
    size: usize,
    (recipe, read): (R, &[Region]),
    out: *mut *mut R::Handle,
) -> Result<(), Failure> {
    let place = Out::new("frequencies", out)?;
    let memory = SpanMut::new("memory", memory.cast::<u8>(), size)?;
    memory.region().apart_from(read)?;
    memory
        .region()
        .apart_from(&[Region::of("frequencies", out)])?;
    let chunks = recipe.chunks()?;
    // SAFETY: the caller promises that `memory` has `size` bytes, which it gives away. Nothing that is read lies in it,
    // as the lines above have checked.
    let memory = unsafe { memory.get(&[]) }?;
    let padding = memory.as_ptr().addr().wrapping_neg() % ALIGNMENT;
    let needed = bytes::<R::Handle>(chunks).saturating_add(padding);
    let room = memory.get_mut(padding..needed).ok_or(Error::Storage {
        what: "bytes of memory",
        given: size,
        needed,
    })?;
    // SAFETY: aligned, long enough, and the caller's to give away.
    let handle = unsafe { make(&recipe, room.as_mut_ptr(), chunks) }?;
    // SAFETY: the caller promises that the pointer, which was checked, is writable.
    unsafe { place.write(handle) };
    Ok(())
}

#[cfg(feature = "std")]
mod heap {
    use core::alloc::Layout;

    use std::alloc::{alloc, dealloc};

    use super::{ALIGNMENT, Handle, Head, Recipe, bytes, check, make};
    use crate::failure::Failure;

    /// Memory for a handle and chunks after it.
    fn layout<H>(chunks: usize) -> Result<Layout, Failure> {
        let bytes = bytes::<H>(chunks);
        Layout::from_size_align(bytes, ALIGNMENT).map_err(|_| Failure::OutOfMemory { bytes })
    }

    fn allocate<H>(chunks: usize) -> Result<*mut u8, Failure> {
        let layout = layout::<H>(chunks)?;
        // SAFETY: a handle has a size.
        let memory = unsafe { alloc(layout) };
        match memory.is_null() {
            true => Err(Failure::OutOfMemory {
                bytes: layout.size(),
            }),
            false => Ok(memory),
        }
    }

    /// Makes frequencies on the heap.
    pub(crate) fn new<R: Recipe>(recipe: &R) -> Result<*mut R::Handle, Failure> {
        let chunks = recipe.chunks()?;
        let memory = allocate::<R::Handle>(chunks)?;
        // SAFETY: aligned, long enough, and nobody else's.
        let handle = unsafe { make(recipe, memory, chunks) }.map_err(|error| {
            if let Ok(layout) = layout::<R::Handle>(chunks) {
                // SAFETY: it came from `alloc` with this layout, and nothing points into it.
                unsafe { dealloc(memory, layout) };
            }
            Failure::from(error)
        })?;
        // SAFETY: it was made the line before.
        unsafe { (*handle).head_mut().owned = true };
        Ok(handle)
    }

    /// A handle for frequencies that own their chunks.
    pub(crate) fn own<H: Handle>(value: H::Value) -> Result<*mut H, Failure> {
        let handle = allocate::<H>(0)?.cast::<H>();
        let head = Head {
            magic: H::MAGIC,
            bytes: size_of::<H>(),
            owned: true,
        };
        // SAFETY: there is room for a handle, and it is aligned.
        unsafe { handle.write(H::new(head, value)) };
        Ok(handle)
    }

    /// Frees a handle of [`new`] or [`own`]; null is left alone.
    ///
    /// # Safety
    ///
    /// A pointer that is not null points to a handle of this library, which is not used any more, or at least to as
    /// many bytes as a handle has.
    pub(crate) unsafe fn free<H: Handle>(handle: *mut H) -> Result<(), Failure> {
        if handle.is_null() {
            return Ok(());
        }
        // SAFETY: the caller promises that the pointer is null or has the bytes of a handle, which is no longer used.
        unsafe { check(handle) }?;
        // SAFETY: the caller promises that the pointer is null or has the bytes of a handle, which is no longer used.
        // The magic number proves that this library made the handle.
        let head = unsafe { (*handle).head_mut() };
        if !head.owned {
            return Err(Failure::Handle {
                name: H::NAME,
                required: "on the heap: it lies in memory of the caller's, who frees that",
            });
        }
        // SAFETY: a member of the handle. The compiler would leave out a plain write before memory is freed.
        unsafe { (&raw mut head.magic).write_volatile(0) };
        let layout =
            Layout::from_size_align(head.bytes, ALIGNMENT).map_err(|_| Failure::Internal)?;
        // SAFETY: `allocate` made it with this layout, and its value is dropped once, here.
        unsafe {
            handle.drop_in_place();
            dealloc(handle.cast(), layout);
        }
        Ok(())
    }
}
#[cfg(feature = "std")]
pub(crate) use heap::{free, new, own};
