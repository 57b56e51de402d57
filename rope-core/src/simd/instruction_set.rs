//! The traits of a kernel and of what it runs on: an instruction set, or a backend that has kernels of lines alone.

use super::shared_heads::{HeadFormat, SharedHeads};
use super::{CacheLine, SimdF64, SimdQuant, SimdSums};

/// A piece of work, generic over the instruction set. A backend runs it inside a function that has its CPU features;
/// `run` and all that it calls must be `#[inline(always)]` to be compiled with them.
pub(crate) trait Kernel {
    /// True if it writes bf16: all that `avx512bf16` does otherwise than `avx512`, and so all that is compiled for it.
    #[cfg_attr(
        not(any(target_arch = "x86", target_arch = "x86_64")),
        allow(dead_code, reason = "only x86 has an instruction set for it")
    )]
    const BF16: bool = false;

    fn run<S: InstructionSet>(self, s: S);
}

/// A kernel that writes lines in a memory, from a pair or a channel on.
///
/// Both are arguments of their own, which come in registers. A kernel of more than two words comes in memory, and the
/// address would be loaded from it just after it was stored: without a plan, one head of f32 takes 10.9 ns instead of
/// 14.5 (Zen 5).
pub(crate) trait MemoryKernel: Sized {
    /// [`Kernel::BF16`].
    #[cfg_attr(
        not(any(target_arch = "x86", target_arch = "x86_64")),
        allow(dead_code, reason = "only x86 has an instruction set for it")
    )]
    const BF16: bool = false;

    fn run_in<S: InstructionSet>(self, s: S, memory: &mut [u8], from: usize);

    /// Runs on a backend that has kernels of lines alone: a rotation of lines by one of them, everything else on the
    /// backend's other instruction set.
    #[inline(always)]
    fn run_lines<L: LineKernels>(self, lines: L, memory: &mut [u8], from: usize) {
        lines.narrower().enter_in(memory, from, self);
    }
}

impl<K: Kernel> MemoryKernel for K {
    const BF16: bool = K::BF16;

    #[inline(always)]
    fn run_in<S: InstructionSet>(self, s: S, _: &mut [u8], _: usize) {
        self.run(s);
    }
}

/// A proof that an instruction set is here, with all of its operations: what a kernel runs on.
pub(crate) trait InstructionSet: SimdQuant + SimdSums + SimdF64 {
    /// The instruction set for what a row leaves when whole groups are taken; itself for the scalar one.
    type Narrower: InstructionSet;

    /// The fewest pairs that fill a group: with fewer the narrower instruction set would get all of them.
    const LEAST_PAIRS: usize = if Self::LANES > 1 { 2 * Self::LANES } else { 0 };

    /// True if `stream` bypasses the caches.
    const STREAMS: bool = false;

    /// Runs a kernel in a function of its own that is compiled for this instruction set.
    fn enter_in<K: MemoryKernel>(self, memory: &mut [u8], from: usize, kernel: K);

    /// Runs a kernel without a memory likewise.
    #[inline(always)]
    fn enter<K: Kernel>(self, kernel: K) {
        self.enter_in(&mut [], 0, kernel);
    }

    /// The proof of a wider instruction set is a proof of the narrower.
    fn narrower(self) -> Self::Narrower;

    /// Writes past the caches, where the instruction set can.
    ///
    /// # Safety
    ///
    /// Nobody reads or writes the place before a fence.
    #[inline(always)]
    unsafe fn stream(self, to: &mut CacheLine, from: CacheLine) {
        *to = from;
    }
}

/// The proof that a CPU has an instruction set, whose kernels rotate lines and do nothing else. The size of a scalable
/// vector is unknown to the compiler, so no type can be one, and [`Simd`](super::Simd) cannot describe it. A kernel in
/// assembly does not need a type.
#[cfg_attr(
    not(any(target_arch = "riscv64", target_arch = "aarch64")),
    allow(dead_code, reason = "this target has no such backend")
)]
pub(crate) trait LineKernels: Copy {
    /// The instruction set of everything else.
    type Narrower: InstructionSet;

    /// The fewest pairs for which a call begins here.
    const LEAST_PAIRS: usize = 8;

    /// True if stores can bypass the caches: streamed lines are copied by the other instruction set.
    const STREAMS: bool = <Self::Narrower as InstructionSet>::STREAMS;

    /// The proof of the other instruction set.
    fn narrower(self) -> Self::Narrower;

    /// Returns true if there is a kernel from the first format to the second.
    fn has(formats: [HeadFormat; 2]) -> bool;

    /// Rotates heads, from the first format to the second.
    ///
    /// # Panics
    ///
    /// If there is no such kernel, or if a head does not lie in its memory.
    fn rotate(self, formats: [HeadFormat; 2], heads: SharedHeads<'_>);

    /// Runs a kernel.
    #[inline(always)]
    fn enter_in<K: MemoryKernel>(self, memory: &mut [u8], from: usize, kernel: K) {
        kernel.run_lines(self, memory, from);
    }
}
