//! Buffers that touch an unreadable page: one element too far is the end of the process.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};
use std::slice;

/// On which side the buffer touches the unreadable page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    /// The page ends where the buffer begins.
    Before,
    /// The page begins where the buffer ends.
    After,
}

impl Edge {
    /// Both.
    pub const ALL: [Edge; 2] = [Edge::Before, Edge::After];
}

/// A slice in pages of its own, between two unreadable ones.
pub struct Guarded<E> {
    first: NonNull<E>,
    len: usize,
    map: NonNull<libc::c_void>,
    bytes: usize,
}

impl<E: Copy> Guarded<E> {
    /// Copies values to where they touch the unreadable page.
    ///
    /// # Panics
    ///
    /// If the system gives no memory.
    pub fn new(values: &[E], edge: Edge) -> Self {
        let page = page_size();
        let size = size_of_val(values);
        let inner = size.div_ceil(page).max(1) * page;
        let bytes = inner + 2 * page;
        // SAFETY: an anonymous mapping at an address of the system's choice touches no other memory.
        let map = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert_ne!(map, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
        for guard in [0, page + inner] {
            // SAFETY: a page of the mapping, which nothing points into yet.
            let refused = unsafe { libc::mprotect(map.byte_add(guard), page, libc::PROT_NONE) };
            assert_eq!(refused, 0, "{}", std::io::Error::last_os_error());
        }
        let start = match edge {
            Edge::Before => page,
            Edge::After => page + inner - size,
        };
        // SAFETY: `start` is inside the mapping. It is a multiple of the size of an element from a page boundary, so
        // that it is aligned, and `size` bytes from it are readable and writable.
        let first = unsafe {
            let first = map.byte_add(start).cast::<E>();
            ptr::copy_nonoverlapping(values.as_ptr(), first, values.len());
            first
        };
        Guarded {
            first: NonNull::new(first).expect("mmap gives no null"),
            len: values.len(),
            map: NonNull::new(map).expect("mmap gives no null"),
            bytes,
        }
    }
}

impl<E> Deref for Guarded<E> {
    type Target = [E];

    fn deref(&self) -> &[E] {
        // SAFETY: `new` has put `len` elements there, and the mapping lives as long as `self`.
        unsafe { slice::from_raw_parts(self.first.as_ptr(), self.len) }
    }
}

impl<E> DerefMut for Guarded<E> {
    fn deref_mut(&mut self) -> &mut [E] {
        // SAFETY: as above, and `self` is borrowed for as long as the slice.
        unsafe { slice::from_raw_parts_mut(self.first.as_ptr(), self.len) }
    }
}

impl<E> Drop for Guarded<E> {
    fn drop(&mut self) {
        // SAFETY: the mapping that `new` made; every slice of it has borrowed `self`.
        unsafe { libc::munmap(self.map.as_ptr(), self.bytes) };
    }
}

impl<E> fmt::Debug for Guarded<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guarded")
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

fn page_size() -> usize {
    // SAFETY: asks the system for a constant.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).expect("a page size")
}
