//! The traits of kernels, and of the instruction sets and line backends that run them.

use super::shared_heads::{HeadFormat, SharedHeads};
use super::{CacheLine, SimdF64, SimdQuant, SimdSums};

/// Work that is generic over the instruction set. A backend runs it inside a function that enables its CPU features.
/// `run` and its callees must be `#[inline(always)]` to be compiled with these features.
pub(crate) trait Kernel {
    /// True if it writes bf16. `avx512bf16` differs from `avx512` in nothing else, so only these kernels are compiled
    /// for it.
    #[cfg_attr(
        not(any(target_arch = "x86", target_arch = "x86_64")),
        allow(dead_code, reason = "only x86 has an instruction set for it")
    )]
    const BF16: bool = false;

    fn run<S: InstructionSet>(self, s: S);
}

/// A kernel that writes lines in a memory, from a pair or a channel on.
///
/// Memory and start are separate arguments, passed in registers. A kernel of more than two words is passed in memory,
/// so its fields would be loaded just after they were stored. (One head of f32 without a plan: 10.9 ns instead of
/// 14.5, Zen 5.)
pub(crate) trait MemoryKernel: Sized {
    /// [`Kernel::BF16`].
    #[cfg_attr(
        not(any(target_arch = "x86", target_arch = "x86_64")),
        allow(dead_code, reason = "only x86 has an instruction set for it")
    )]
    const BF16: bool = false;

    fn run_in<S: InstructionSet>(self, s: S, memory: &mut [u8], from: usize);

    /// Runs on a line backend: the backend's kernels rotate lines, and its narrower instruction set runs the rest.
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

/// The proof that the CPU has an instruction set, with the operations that kernels use.
pub(crate) trait InstructionSet: SimdQuant + SimdSums + SimdF64 {
    /// The instruction set for the pairs that fill no group; the scalar one's is itself.
    type Narrower: InstructionSet;

    /// The fewest pairs that fill a group. With fewer, the narrower instruction set rotates all of them.
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

    /// Returns the proof of the narrower instruction set.
    fn narrower(self) -> Self::Narrower;

    /// Writes past the caches, if the instruction set can.
    ///
    /// # Safety
    ///
    /// Nobody accesses `to` before a fence.
    #[inline(always)]
    unsafe fn stream(self, to: &mut CacheLine, from: CacheLine) {
        *to = from;
    }
}

/// The proof that the CPU has scalable vectors, whose kernels only rotate lines. The compiler does not know the size of
/// a scalable vector, so no type can hold one and [`Simd`](super::Simd) cannot describe it. Kernels in assembly need no
/// type.
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
