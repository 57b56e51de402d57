//! Non-temporal stores, for memory that will have left the caches before it is read again. A cached store reads the
//! cache line first; a non-temporal store does not. (Zen 3: half the time of cached stores for 32 bytes, the same for
//! 16 bytes.)

use bytemuck::pod_align_to_mut;

use super::{CacheLine, InstructionSet, Kernel};
use crate::proof::Proof;

/// Memory that non-temporal stores write.
pub(crate) struct Stream<'m> {
    memory: &'m mut [u8],
    proof: Proof,
}

impl<'m> Stream<'m> {
    /// Calls `run` with memory to write. When this returns, every thread sees the stored bytes.
    pub(crate) fn into(memory: &'m mut [u8], proof: Proof, run: &mut dyn FnMut(&mut Stream<'_>)) {
        run(&mut Stream { memory, proof });
    }

    /// Writes bytes at an index. Bytes that fill no cache line go through the caches.
    // Inlined, because the suite `symbols` accepts no function of this folder in a binary.
    #[inline(always)]
    pub(crate) fn write(&mut self, at: usize, bytes: &[u8]) {
        let to = &mut self.memory[at..][..bytes.len()];
        let (first, lines, last) = pod_align_to_mut::<u8, CacheLine>(to);
        let (start, bytes) = bytes.split_at(first.len());
        let (from, rest) = bytes.as_chunks();
        first.copy_from_slice(start);
        last.copy_from_slice(rest);
        self.proof.run(Lines { to: lines, from });
    }
}

impl Drop for Stream<'_> {
    fn drop(&mut self) {
        fence();
    }
}

/// Whole cache lines of a [`Stream`], and their new content.
struct Lines<'l> {
    to: &'l mut [CacheLine],
    from: &'l [[u8; 64]],
}

impl Kernel for Lines<'_> {
    #[inline(always)]
    fn run<S: InstructionSet>(self, s: S) {
        for (to, from) in self.to.iter_mut().zip(self.from) {
            // SAFETY: the `Stream` borrows the memory exclusively, does not read it, and ends with a fence.
            unsafe { s.stream(to, CacheLine(*from)) };
        }
    }
}

cfg_if::cfg_if! {
    if #[cfg(all(any(target_arch = "x86", target_arch = "x86_64"), target_feature = "sse2"))] {
        #[cfg(target_arch = "x86")]
        use core::arch::x86::_mm_sfence;
        #[cfg(target_arch = "x86_64")]
        use core::arch::x86_64::_mm_sfence;

        /// Orders the non-temporal stores before everything that follows.
        fn fence() {
            // SAFETY: the instruction is part of SSE, and the build has SSE2.
            unsafe { _mm_sfence() }
        }
    } else {
        fn fence() {}
    }
}
