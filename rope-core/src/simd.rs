//! The operations that a kernel may use. An instruction set is one file below, its token here, and its line in
//! `backend.rs`.

pub(crate) mod convert;
mod portable;
mod scalar;

pub(crate) use portable::Portable;
pub(crate) use scalar::Scalar;
cfg_if::cfg_if! {
    // Targets with soft floats (x86_64-unknown-none, aarch64-unknown-none-softfloat) lack the registers, whatever the
    // CPU has.
    if #[cfg(all(any(target_arch = "x86", target_arch = "x86_64"), target_feature = "sse2"))] {
        mod avx2;
        mod avx512;
        mod cpu;
        pub(crate) use avx2::Avx2;
        pub(crate) use avx512::{Avx512, Avx512Bf16};
    } else if #[cfg(all(target_arch = "aarch64", target_feature = "neon", target_endian = "little"))] {
        mod neon;
        pub(crate) use neon::Neon;
    }
}

use bytemuck::{Pod, Zeroable, cast_slice, cast_slice_mut};

use convert::{f32_to_f8, f32_to_i8_away, f32_to_i8_even};

/// A piece of work, generic over the instruction set. A backend runs it inside a function that has its CPU features;
/// `run` and all that it calls must be `#[inline(always)]` to be compiled with them.
pub(crate) trait Kernel {
    /// Whether it writes bf16: all that `avx512bf16` does otherwise than `avx512`, and so all that is compiled for it.
    #[cfg_attr(
        not(any(target_arch = "x86", target_arch = "x86_64")),
        allow(dead_code, reason = "only x86 has an instruction set for it")
    )]
    const BF16: bool = false;

    fn run<S: Simd>(self, s: S);
}

/// A proof that an instruction set is here, and the operations it offers: pure functions between arrays and registers,
/// so that kernels touch memory through slices only.
///
/// Every operation on values is one IEEE operation per lane, rounded by itself. Nothing fuses.
///
/// Implementations are `#[inline(always)]` without exception: a call that is not inlined into the backend's entry is
/// compiled without the instruction set (measured: 55 times slower). A closure is such a call, unless all that it holds
/// is plain arithmetic.
///
/// Elements of 16 bits are read and written two vectors at a time, because that is what instruction sets convert. "Even
/// and odd" means that the first vector has the elements 0, 2, 4 and so on of the two, and the second the others.
pub(crate) trait Simd: SimdF64 {
    /// Lanes of a vector.
    const LANES: usize;

    /// The most groups (two vectors of pairs) whose cos and sin stay in registers while the heads of a token pass.
    const GROUPS: usize;

    /// The same where cos and sin take twice the registers.
    const DOUBLED_GROUPS: usize = Self::GROUPS / 2;

    /// The largest elements, in bytes, whose alternating pairs are rotated faster as they lie than unzipped; 0 for
    /// none. It takes twice the registers for cos and sin.
    const INTERLEAVED_MAX_BYTES: usize;

    /// Whether words are widened in their own order for no more than even and odd ones, and narrowed for less.
    const WIDENS_IN_ORDER: bool = false;

    /// Whether `store_bf16_even_odd` takes a NaN for one that came from bf16 numbers, or from none.
    const NARROWS_ARITHMETIC_NAN: bool = false;

    /// Whether codes come faster of even and odd elements, where those cost less to read: `interleave_codes` puts them
    /// in order.
    const INTERLEAVES_CODES: bool = false;

    /// Whether half a group of f32 is written before the next is read, in place: not four stores in a row.
    const WRITES_HALVES: bool = false;

    /// Whether `prefetch` does anything.
    const PREFETCHES: bool = false;

    /// Whether a backward pass is one kernel, of 2 to 3 KB for each element and pairing; if not, it is two.
    const BACKWARD: bool = true;

    /// Whether the heads of a token are prefetched; not where the CPU's own prefetcher keeps up.
    const PREFETCHES_HEADS: bool = false;

    /// `LANES` f32 lanes.
    type F32: Copy;

    /// `LANES` f64 lanes.
    type Wide: Copy;

    /// `[T; LANES]`.
    type Chunk<T: Pod>: Pod;

    /// The instruction set for what a row leaves when whole groups are taken; itself for the scalar one.
    type Narrower: Simd;

    /// Runs a kernel in a function of its own that is compiled for this instruction set.
    fn enter<K: Kernel>(self, kernel: K);

    /// The proof of a wider instruction set is a proof of the narrower.
    fn narrower(self) -> Self::Narrower;

    /// The whole vectors of a slice.
    fn chunks<T: Pod>(x: &[T]) -> &[Self::Chunk<T>];

    /// The whole vectors of a slice, to write.
    fn chunks_mut<T: Pod>(x: &mut [T]) -> &mut [Self::Chunk<T>];

    /// One function of each element: how an element without instructions of its own is converted.
    fn map<T: Pod, U: Pod>(x: Self::Chunk<T>, f: impl Fn(T) -> U) -> Self::Chunk<U>;

    /// Asks for the cache line of a value that will be read later. Nothing but time depends on it.
    #[inline(always)]
    fn prefetch<T>(self, _: &T) {}

    /// The same value in all lanes.
    fn splat(self, x: f32) -> Self::F32;

    /// Array to register.
    fn load_f32(self, x: Self::Chunk<f32>) -> Self::F32;
    /// Register to array.
    fn store_f32(self, x: Self::F32) -> Self::Chunk<f32>;

    /// IEEE binary16 to f32, exactly.
    fn load_f16(self, x: [Self::Chunk<u16>; 2]) -> [Self::F32; 2];
    /// f32 to IEEE binary16, to nearest, ties to even.
    fn store_f16(self, x: [Self::F32; 2]) -> [Self::Chunk<u16>; 2];

    /// bfloat16 to f32, exactly.
    fn load_bf16(self, x: [Self::Chunk<u16>; 2]) -> [Self::F32; 2];
    /// f32 to bfloat16, to nearest, ties to even, subnormals included, of a group: what is rare (a NaN, a subnormal)
    /// may be asked for once.
    fn store_bf16(self, group: [[Self::F32; 2]; 2]) -> [[Self::Chunk<u16>; 2]; 2];

    /// bfloat16 to f32, exactly, even and odd elements.
    fn load_bf16_even_odd(self, x: [Self::Chunk<u16>; 2]) -> [Self::F32; 2];
    /// Undoes `load_bf16_even_odd` on both halves of a group, rounding as `store_bf16`.
    ///
    /// A NaN that arithmetic has made, or passed on from a bf16, has nothing in its lower half that rounding could
    /// carry into the upper one: an instruction set with [`Simd::NARROWS_ARITHMETIC_NAN`] does not ask for it.
    fn store_bf16_even_odd(self, group: [[Self::F32; 2]; 2]) -> [[Self::Chunk<u16>; 2]; 2];

    /// f32 to floats of 8 bits, as `convert::f32_to_f8`.
    #[inline(always)]
    fn store_f8<const MANTISSA: u32, const LEAST: u32, const MOST: u32>(
        self,
        x: [Self::F32; 4],
    ) -> [Self::Chunk<u8>; 4] {
        self.store_by(x, f32_to_f8::<MANTISSA, LEAST, MOST>)
    }

    /// f32 to integers of 8 bits, as `convert::f32_to_i8_even`.
    #[inline(always)]
    fn store_i8_even(self, x: [Self::F32; 4]) -> [Self::Chunk<u8>; 4] {
        self.store_by(x, f32_to_i8_even)
    }

    /// f32 to integers of 8 bits, as `convert::f32_to_i8_away`.
    #[inline(always)]
    fn store_i8_away(self, x: [Self::F32; 4], half: f32) -> [Self::Chunk<u8>; 4] {
        self.store_by(x, |x| f32_to_i8_away(x, half))
    }

    /// The codes of even and of odd elements, and those of more of both, as the codes of elements in their order; with
    /// [`Simd::INTERLEAVES_CODES`] only.
    #[inline(always)]
    fn interleave_codes(self, codes: [Self::Chunk<u8>; 4]) -> [Self::Chunk<u8>; 4] {
        codes
    }

    /// Four vectors to bytes by the definition of one lane.
    #[inline(always)]
    fn store_by(self, [a, b, c, d]: [Self::F32; 4], f: impl Fn(f32) -> u8) -> [Self::Chunk<u8>; 4] {
        let x = [
            self.store_f32(a),
            self.store_f32(b),
            self.store_f32(c),
            self.store_f32(d),
        ];
        let mut codes = [Self::Chunk::<u8>::zeroed(); 4];
        for (code, x) in cast_slice_mut(&mut codes).iter_mut().zip(cast_slice(&x)) {
            *code = f(*x);
        }
        codes
    }

    /// The larger of `a`, which is no NaN, and the magnitude of `x`; `a` where that is a NaN.
    fn max_magnitude(self, a: Self::F32, x: Self::F32) -> Self::F32;

    /// The larger of `a`, which is no NaN, and `x`; `a` where that is a NaN. Of two zeros it is either.
    fn max_number(self, a: Self::F32, x: Self::F32) -> Self::F32;

    /// The smaller, likewise.
    fn min_number(self, a: Self::F32, x: Self::F32) -> Self::F32;

    /// Drops the fractions of numbers from 0 to 255. The lowest byte of what a NaN becomes is 0.
    fn truncate(self, x: Self::F32) -> Self::Chunk<i32>;

    /// The largest lane; none is a NaN.
    fn max_lane(self, x: Self::F32) -> f32;

    /// Whether some lane is a NaN.
    fn any_nan(self, x: Self::F32) -> bool;

    /// Whether some lane is a zero, a subnormal, an infinity or a NaN.
    fn any_not_normal(self, x: [Self::F32; 4]) -> bool;

    /// `a + b`.
    fn add(self, a: Self::F32, b: Self::F32) -> Self::F32;
    /// `a - b`.
    fn sub(self, a: Self::F32, b: Self::F32) -> Self::F32;
    /// `a * b`.
    fn mul(self, a: Self::F32, b: Self::F32) -> Self::F32;
    /// `a / b`.
    fn div(self, a: Self::F32, b: Self::F32) -> Self::F32;

    /// The square root.
    fn sqrt(self, x: Self::F32) -> Self::F32;

    /// Swaps the members of alternating pairs.
    fn swap(self, x: Self::F32) -> Self::F32;

    /// Two vectors of alternating values to first and second members, in whatever lane order is cheapest.
    fn unzip(self, ab: [Self::F32; 2]) -> [Self::F32; 2];
    /// Undoes `unzip`.
    fn zip(self, xy: [Self::F32; 2]) -> [Self::F32; 2];
    /// Array to registers.
    fn load_wide(self, x: Self::Chunk<f64>) -> Self::Wide;
    /// Registers to array.
    fn store_wide(self, x: Self::Wide) -> Self::Chunk<f64>;
    /// Alternating doubles to first and second members, in whatever lane order is cheapest.
    fn unzip_wide(self, ab: [Self::Wide; 2]) -> [Self::Wide; 2];
    /// Undoes `unzip_wide`.
    fn zip_wide(self, xy: [Self::Wide; 2]) -> [Self::Wide; 2];
    /// Puts doubles in the order that `unzip_wide` leaves.
    #[inline(always)]
    fn to_deinterleaved_wide(self, x: Self::Wide) -> Self::Wide {
        x
    }
    /// Undoes `order_wide`.
    #[inline(always)]
    fn unorder_wide(self, x: Self::Wide) -> Self::Wide {
        x
    }
    /// The lanes as doubles.
    fn widen(self, x: Self::F32) -> Self::Wide;
    /// The same from an array: x86 spreads lanes while it loads, where registers take a shuffle for each.
    fn load_f32_wide(self, x: Self::Chunk<f32>) -> Self::Wide;
    /// `sums + (x1 g2 - x2 g1)`: the products, of numbers that were f32, are exact, the difference is rounded, and so
    /// is the sum.
    fn add_cross(self, sums: Self::Wide, x: [Self::Wide; 2], g: [Self::Wide; 2]) -> Self::Wide;
    /// `sums + (a - b)`: the difference is rounded, and so is the sum.
    fn add_difference(self, sums: Self::Wide, a: Self::F32, b: Self::F32) -> Self::Wide;
    /// `sums + (x1 g1 + x2 g2)`, rounded likewise.
    fn add_dot(self, sums: Self::Wide, x: [Self::Wide; 2], g: [Self::Wide; 2]) -> Self::Wide;

    /// `a + b` and `a - b` of lanes `STRIDE` apart, a power of two below the lanes: the sum in the lane whose bit of
    /// `STRIDE` is clear, the difference in the other.
    fn butterfly<const STRIDE: usize>(self, x: Self::F32) -> Self::F32;

    /// Puts lanes in the order that `unzip` leaves: for cos and sin, once per row, so that the heads need no more.
    fn to_deinterleaved(self, x: Self::F32) -> Self::F32;
    /// Undoes `to_deinterleaved`: for pairs that are read alternating and written apart.
    fn undo_deinterleaved(self, x: Self::F32) -> Self::F32;
}

/// The operations on doubles of an instruction set, for the row generator, which works on chunks, eight pairs at a
/// time; a backend takes a chunk in `8 / F64_LANES` parts.
pub(crate) trait SimdF64: Copy {
    /// Doubles in a vector: 8, 4, 2 or 1.
    const F64_LANES: usize;

    /// A vector of [`SimdF64::F64_LANES`] lanes.
    type F64: Copy;

    /// The lanes of one part of a block.
    fn load_f64(self, block: &[f64; 8], part: usize) -> Self::F64;
    /// Undoes `load_f64`.
    fn store_f64(self, v: Self::F64, block: &mut [f64; 8], part: usize);
    /// One value in every lane.
    fn splat_f64(self, x: f64) -> Self::F64;
    /// Lane `i` is `of[axis of i]`. An axis is given as the two 32-bit halves it takes out of `of`, `[2 axis, 2 axis +
    /// 1]`, which is what makes this a single permutation on x86.
    fn pick(self, of: &[f64; 4], halves: &[[u32; 2]; 8], part: usize) -> Self::F64;
    /// The f32 nearest to each lane, as the lanes of one part of a block.
    fn store_as_f32(self, v: Self::F64, block: &mut [f32; 8], part: usize);
    /// The lanes whose nearest f32 numbers differ between `a` and `b`, a bit each. A NaN differs from everything.
    fn differ_as_f32(self, a: Self::F64, b: Self::F64) -> u32;
    /// The f32 nearest to each lane, as a double.
    fn round_to_f32(self, v: Self::F64) -> Self::F64;

    /// `a - b`.
    fn sub_f64(self, a: Self::F64, b: Self::F64) -> Self::F64;
    /// `a * b`.
    fn mul_f64(self, a: Self::F64, b: Self::F64) -> Self::F64;
    /// `a b + c`, rounded once or twice, whichever is faster.
    fn mul_add(self, a: Self::F64, b: Self::F64, c: Self::F64) -> Self::F64;
    /// `a b - c` rounded once, for a `c` so near to `a b` that `fl(a b) - c` is exact.
    fn mul_sub(self, a: Self::F64, b: Self::F64, c: Self::F64) -> Self::F64;

    /// Rotates `(cos, sin)` by as many quarters as the low two bits of `quarters` say.
    fn quarter_turns(
        self,
        quarters: Self::F64,
        cos: Self::F64,
        sin: Self::F64,
    ) -> (Self::F64, Self::F64);
    /// Whether in some lane one of `values` lies within `REACH` (a power of two) units in its last place of a midpoint
    /// of f32 numbers, or `small` is not at least `least` although `whole` is not zero. A NaN in `whole` or `small` is
    /// a doubt.
    fn any_doubt<const REACH: u64>(
        self,
        values: [Self::F64; 2],
        whole: Self::F64,
        small: Self::F64,
        least: f64,
    ) -> bool;
}

/// 1 in the lanes whose bit of `stride` is clear, -1 in the others.
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

/// The bits of a double below the last bit of an f32.
pub(crate) const BELOW_F32: u64 = (1 << 29) - 1;
/// What they are in a midpoint of (normal) f32 numbers.
pub(crate) const MIDPOINT: u64 = 1 << 28;
/// The sign of a double.
pub(crate) const SIGN: u64 = 1 << 63;
