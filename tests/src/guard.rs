//! Buffers beside an unreadable page: an access one element too far ends the process.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};
use std::slice;

/// The side of the buffer at the unreadable page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    /// The page ends at the start of the buffer.
    Before,
    /// The page begins at the end of the buffer.
    After,
}

impl Edge {
    /// Both edges.
    pub const ALL: [Edge; 2] = [Edge::Before, Edge::After];
}

/// A slice in its own pages, between two unreadable ones.
pub struct Guarded<E> {
    first: NonNull<E>,
    len: usize,
    map: NonNull<libc::c_void>,
    bytes: usize,
}

impl<E: Copy> Guarded<E> {
    /// Copies values to the edge of an unreadable page.
    ///
    /// # Panics
    ///
    /// If the system has no memory.
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
            // SAFETY: a page of the mapping; no pointer into it exists yet.
            let refused = unsafe { libc::mprotect(map.byte_add(guard), page, libc::PROT_NONE) };
            assert_eq!(refused, 0, "{}", std::io::Error::last_os_error());
        }
        let start = match edge {
            Edge::Before => page,
            Edge::After => page + inner - size,
        };
        // SAFETY: `start` is inside the mapping. Its distance from a page boundary is a multiple of the element size,
        // it is aligned, and the `size` bytes from it are readable and writable.
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
        // SAFETY: `new` has written `len` elements there, and the mapping lives as long as `self`.
        unsafe { slice::from_raw_parts(self.first.as_ptr(), self.len) }
    }
}

impl<E> DerefMut for Guarded<E> {
    fn deref_mut(&mut self) -> &mut [E] {
        // SAFETY: as above, and the slice borrows `self` mutably.
        unsafe { slice::from_raw_parts_mut(self.first.as_ptr(), self.len) }
    }
}

impl<E> Drop for Guarded<E> {
    fn drop(&mut self) {
        // SAFETY: unmaps the mapping of `new`; every slice of it borrows `self`.
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
    // SAFETY: sysconf takes no pointers.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).expect("a page size")
}
