//! Bytes on the stack that are not cleared: clearing 64 KiB takes as long as rotating 50 heads.

use core::mem::MaybeUninit;

/// Bytes that are written before they are read, aligned to cache lines.
#[repr(C, align(64))]
pub(crate) struct Scratch<const LEN: usize> {
    /// The first `len` are initialized. Not an array of uninitialized bytes: LLVM clears one among zeros.
    bytes: MaybeUninit<[u8; LEN]>,
    len: usize,
}

impl<const LEN: usize> Scratch<LEN> {
    /// Creates scratch without bytes.
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Scratch {
            bytes: MaybeUninit::uninit(),
            len: 0,
        }
    }

    /// Forgets all bytes.
    #[inline(always)]
    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    /// Writes bytes at an index, and zeros between the written ones and the index.
    #[inline(always)]
    pub(crate) fn write(&mut self, at: usize, bytes: &[u8]) {
        let end = at + bytes.len();
        // SAFETY: an uninitialized array has the layout of an array of uninitialized bytes, and this one stays as it is
        // or becomes initialized.
        let all = unsafe { &mut *(&raw mut self.bytes).cast::<[MaybeUninit<u8>; LEN]>() };
        if at > self.len {
            all[self.len..at].fill(MaybeUninit::new(0));
        }
        all[at..end].write_copy_of_slice(bytes);
        self.len = self.len.max(end);
    }

    /// Returns the written bytes.
    #[inline(always)]
    pub(crate) fn written(&self) -> &[u8] {
        // SAFETY: an uninitialized array has the layout of an array of uninitialized bytes, and `len` grows only in
        // `write`, which initializes all bytes up to it.
        unsafe {
            let all = &*(&raw const self.bytes).cast::<[MaybeUninit<u8>; LEN]>();
            all[..self.len].assume_init_ref()
        }
    }
}
