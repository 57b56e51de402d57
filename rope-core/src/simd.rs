//! The operations that a kernel may use, one trait for each kind of kernel: rotations and norms (`Simd`), quantization
//! (`SimdQuant`), sums of gradients (`SimdSums`) and rows (`SimdF64`). An instruction set is one file below, its token
//! here, and its line in `base/backend.rs`. An instruction set whose vectors have no fixed size has `LineKernels`
//! instead.

mod cache_line;
pub(crate) mod convert;
mod double;
pub(crate) mod element;
mod instruction_set;
#[cfg(any(test, target_arch = "aarch64", target_arch = "riscv64"))]
mod linux;
mod portable;
mod quant;
mod scalar;
pub(crate) mod scratch;
pub(crate) mod shared_heads;
pub(crate) mod slices;
pub(crate) mod stream;
mod sums;
mod text;

pub(crate) use cache_line::CacheLine;
pub(crate) use double::SimdF64;
pub(crate) use instruction_set::{InstructionSet, Kernel, LineKernels, MemoryKernel};
pub(crate) use portable::Portable;
pub(crate) use quant::{BELOW_HALF, E2M1_LEAST, NONLINEAR, SimdQuant};
pub(crate) use scalar::Scalar;
pub(crate) use sums::SimdSums;
#[cfg(test)]
pub(crate) use text::operations;
cfg_if::cfg_if! {
    // Targets with soft floats (x86_64-unknown-none, aarch64-unknown-none-softfloat) lack the registers, whatever the
    // CPU has.
    if #[cfg(all(any(target_arch = "x86", target_arch = "x86_64"), target_feature = "sse2"))] {
        mod avx2;
        mod avx512;
        pub(crate) mod cpu;
        mod x86;
        pub(crate) use avx2::Avx2;
        pub(crate) use avx512::{Avx512, Avx512Bf16};
    } else if #[cfg(all(target_arch = "aarch64", target_feature = "neon", target_endian = "little"))] {
        mod line_kernels;
        mod neon;
        mod sve;
        pub(crate) use neon::Neon;
        pub(crate) use sve::Sve;
    } else if #[cfg(target_arch = "riscv64")] {
        mod cpu_riscv;
        mod line_kernels;
        mod rvv;
        pub(crate) use rvv::Rvv;
    }
}

use bytemuck::{Pod, must_cast};

/// The operations of rotations, norms and transforms: pure functions between arrays and registers, so that kernels
/// touch memory through slices only.
///
/// Every operation on values is one IEEE operation per lane, rounded by itself. Nothing fuses.
///
/// Every implementation is `#[inline(always)]`: a call that is not inlined into the backend's entry is compiled without
/// the instruction set (measured: 55 times slower). A closure is such a call, unless it contains only plain arithmetic.
///
/// Elements of 16 bits are read and written as two vectors, the unit of the conversion instructions. "Even and odd":
/// the first vector has the elements 0, 2, 4 and so on, the second 1, 3, 5 and so on.
pub(crate) trait Simd: Copy {
    /// Lanes of a vector.
    const LANES: usize;

    /// The most groups (two vectors of pairs) whose cos and sin stay in registers while the heads of a token pass.
    const GROUPS: usize;

    /// The same where cos and sin take twice the registers.
    const DOUBLED_GROUPS: usize = Self::GROUPS / 2;

    /// The size, in bytes, of the largest elements whose interleaved pairs rotate faster without unzipping; 0 for none.
    /// This way needs twice the registers for cos and sin.
    const INTERLEAVED_MAX_BYTES: usize;

    /// True if widening words in their own order costs no more than widening even and odd ones, and narrowing costs
    /// less.
    const WIDENS_IN_ORDER: bool = false;

    /// True if `store_bf16_even_odd` assumes that a NaN came from bf16 numbers or from arithmetic.
    const NARROWS_ARITHMETIC_NAN: bool = false;

    /// True if, in place, half a group of f32 is written before the next half is read: never four stores in a row.
    const WRITES_HALVES: bool = false;

    /// True if `prefetch` does anything.
    const PREFETCHES: bool = false;

    /// True if the heads of a token are prefetched; false where the CPU's own prefetcher keeps up.
    const PREFETCHES_HEADS: bool = false;

    /// `LANES` f32 lanes.
    type F32: Pod;

    /// `[T; LANES]`.
    type Chunk<T: Pod>: Pod + Lanes<T>;

    /// Returns the whole vectors of a slice.
    #[inline(always)]
    fn chunks<T: Pod>(x: &[T]) -> &[Self::Chunk<T>] {
        Self::Chunk::<T>::chunks(x)
    }

    /// Returns the whole vectors of a slice, to write.
    #[inline(always)]
    fn chunks_mut<T: Pod>(x: &mut [T]) -> &mut [Self::Chunk<T>] {
        Self::Chunk::<T>::chunks_mut(x)
    }

    /// Applies a function to each element: the conversion of an element without instructions of its own.
    fn map<T: Pod, U: Pod>(x: Self::Chunk<T>, f: impl Fn(T) -> U) -> Self::Chunk<U>;

    /// Prefetches the cache line of a value that will be read later. Only time depends on it.
    #[inline(always)]
    fn prefetch<T>(self, _: &T) {}

    /// Copies a value to all lanes.
    fn splat(self, x: f32) -> Self::F32;

    /// Loads an array into a register.
    #[inline(always)]
    fn load_f32(self, x: Self::Chunk<f32>) -> Self::F32 {
        must_cast(x)
    }
    /// Stores a register as an array.
    #[inline(always)]
    fn store_f32(self, x: Self::F32) -> Self::Chunk<f32> {
        must_cast(x)
    }

    /// Converts IEEE binary16 to f32, exactly.
    fn load_f16(self, x: [Self::Chunk<u16>; 2]) -> [Self::F32; 2];
    /// Converts f32 to IEEE binary16, to nearest, ties to even.
    fn store_f16(self, x: [Self::F32; 2]) -> [Self::Chunk<u16>; 2];

    /// Converts bfloat16 to f32, exactly.
    fn load_bf16(self, x: [Self::Chunk<u16>; 2]) -> [Self::F32; 2];
    /// Converts a group of f32 to bfloat16, to nearest, ties to even, subnormals included. Rare values (a NaN, a
    /// subnormal) may be looked for once in the group.
    fn store_bf16(self, group: [[Self::F32; 2]; 2]) -> [[Self::Chunk<u16>; 2]; 2];

    /// Converts bfloat16 to f32, exactly: the even elements, and the odd ones.
    fn load_bf16_even_odd(self, x: [Self::Chunk<u16>; 2]) -> [Self::F32; 2];
    /// Undoes `load_bf16_even_odd` on both halves of a group, rounding as `store_bf16`.
    ///
    /// A NaN that arithmetic made, or propagated from a bf16, has no bits in its lower half that rounding could carry
    /// into the upper half. An instruction set with [`Simd::NARROWS_ARITHMETIC_NAN`] does not test for it.
    fn store_bf16_even_odd(self, group: [[Self::F32; 2]; 2]) -> [[Self::Chunk<u16>; 2]; 2];

    /// Returns true if a lane is a NaN.
    fn any_nan(self, x: Self::F32) -> bool;

    /// Returns `a + b`.
    fn add(self, a: Self::F32, b: Self::F32) -> Self::F32;
    /// Returns `a - b`.
    fn sub(self, a: Self::F32, b: Self::F32) -> Self::F32;
    /// Returns `a * b`.
    fn mul(self, a: Self::F32, b: Self::F32) -> Self::F32;
    /// Returns `a / b`.
    fn div(self, a: Self::F32, b: Self::F32) -> Self::F32;

    /// Returns the square root.
    fn sqrt(self, x: Self::F32) -> Self::F32;

    /// Swaps the members of alternating pairs.
    fn swap(self, x: Self::F32) -> Self::F32;

    /// Separates two vectors of alternating values into first and second members, in the cheapest order of lanes.
    fn unzip(self, ab: [Self::F32; 2]) -> [Self::F32; 2];
    /// Undoes `unzip`.
    fn zip(self, xy: [Self::F32; 2]) -> [Self::F32; 2];

    /// Returns `a + b` and `a - b` of lanes `STRIDE` apart, a power of two below the lanes: the sum in the lane whose
    /// bit of `STRIDE` is clear, the difference in the other.
    fn butterfly<const STRIDE: usize>(self, x: Self::F32) -> Self::F32;

    /// Puts lanes in the order of `unzip`: once per row, so that cos and sin match heads in that order.
    #[inline(always)]
    fn to_deinterleaved(self, x: Self::F32) -> Self::F32 {
        x
    }
    /// Undoes `to_deinterleaved`, for pairs that are read interleaved and written apart.
    #[inline(always)]
    fn undo_deinterleaved(self, x: Self::F32) -> Self::F32 {
        x
    }
    /// Alternates the lanes of two vectors, `x0 y0 x1 y1 ..`, in order.
    #[inline(always)]
    fn interleave(self, [x, y]: [Self::F32; 2]) -> [Self::F32; 2] {
        self.zip([self.to_deinterleaved(x), self.to_deinterleaved(y)])
    }
}

/// An array of lanes, as slices of lanes hold it.
pub(crate) trait Lanes<T>: Sized {
    /// Returns the whole arrays of a slice.
    fn chunks(x: &[T]) -> &[Self];
    /// Returns the whole arrays of a slice, to write.
    fn chunks_mut(x: &mut [T]) -> &mut [Self];
}

impl<T, const N: usize> Lanes<T> for [T; N] {
    #[inline(always)]
    fn chunks(x: &[T]) -> &[Self] {
        x.as_chunks().0
    }

    #[inline(always)]
    fn chunks_mut(x: &mut [T]) -> &mut [Self] {
        x.as_chunks_mut().0
    }
}

/// Returns 1 in the lanes whose bit of `stride` is clear, and -1 in the others.
#[cfg(any(target_arch = "x86", target_arch = "x86_64", target_arch = "aarch64"))]
const fn signs<const LANES: usize>(stride: usize) -> [f32; LANES] {
    let mut signs = [1.0; LANES];
    let mut lane = 0;
    while lane < LANES {
        if lane & stride != 0 {
            signs[lane] = -1.0;
        }
        lane += 1;
    }
    signs
}
