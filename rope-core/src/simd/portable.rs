//! Four lanes through `wide`: SSE2, NEON, wasm simd128; the scalar loops where the build's target has none of them.
//! Also the tail of the wider x86 backends, inside which the same code is compiled with their instructions.
//!
//! | operation | SSE2 | wasm |
//! |---|---|---|
//! | `unzip` | `unpcklps`, `unpckhps`, twice | four `i8x16.shuffle` |
//! | `zip` | `unpcklps`, `unpckhps` | two `i8x16.shuffle` |
//! | `to_deinterleaved`, `undo_deinterleaved` | nothing: lanes keep their order | |
//!
//! `wide::mul_add` is not used: it fuses on some builds and not on others. `splat` is called in `const` blocks: it is a
//! loop over lanes, which LLVM would unroll at each use.

use core::hint::cold_path;

use bytemuck::{Pod, must_cast};
use wide::{f32x4, f64x4, i16x8, i32x4, i32x8, u16x8, u32x4};

use super::double::{BELOW_F32, MIDPOINT, SIGN};
use super::scalar::Scalar;
use super::text::{operations, rounding, sums};
use super::{InstructionSet, MemoryKernel, Simd, SimdF64, SimdQuant, SimdSums, scalar};

/// True if the build's target has vectors that `wide` supports. Without them, four lanes are four scalars, and kernels
/// are eight times as large as the plain loops of [`Scalar`], which run instead.
const VECTORS: bool = cfg!(any(
    target_feature = "sse2",
    target_feature = "simd128",
    all(target_feature = "neon", target_arch = "aarch64")
));

/// Requires only the build's target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Portable;

/// Applies one scalar expression to four lanes. `array::map` compiles to the same code, but LLVM first inlines five
/// functions and unrolls a loop at each use.
macro_rules! four {
    ($i:ident => $e:expr) => {
        [
            four!($i = 0 => $e),
            four!($i = 1 => $e),
            four!($i = 2 => $e),
            four!($i = 3 => $e),
        ]
    };
    ($i:ident = $lane:literal => $e:expr) => {{
        const $i: usize = $lane;
        $e
    }};
}

impl Portable {
    pub(crate) fn detect() -> Option<Self> {
        Some(Portable)
    }

    rounding!(f32x4 => u32x4);

    /// Rounds to the upper 16 bits of each lane, to nearest, ties to even, unless it is a NaN. The lower 16 are left
    /// over.
    #[inline(always)]
    fn round_number(self, x: f32x4) -> u32x4 {
        let bits: u32x4 = must_cast(x);
        let odd = (bits >> 16_u32) & const { u32x4::splat(1) };
        bits + (odd + const { u32x4::splat(0x7fff) })
    }

    /// Returns true if one of four vectors has a NaN, or two have opposite infinities: a sum keeps a NaN.
    #[inline(always)]
    fn nan_in_four(self, [a, b, c, d]: [f32x4; 4]) -> bool {
        ((a + b) + (c + d)).is_nan().any()
    }

    /// Replaces the rounded lanes of NaNs by quiet NaNs.
    #[inline(always)]
    fn quiet(self, rounded: u32x4, x: f32x4) -> u32x4 {
        let quiet = must_cast::<_, u32x4>(x) | const { u32x4::splat(0x0040_0000) };
        must_cast::<_, u32x4>(x.is_nan()).bitselect(quiet, rounded)
    }
}

impl InstructionSet for Portable {
    type Narrower = Scalar;

    #[inline(never)]
    fn enter_in<K: MemoryKernel>(self, memory: &mut [u8], from: usize, kernel: K) {
        if const { VECTORS } {
            kernel.run_in(self, memory, from);
        } else {
            Scalar.enter_in(memory, from, kernel);
        }
    }

    #[inline(always)]
    fn narrower(self) -> Scalar {
        Scalar
    }
}

impl Simd for Portable {
    const LANES: usize = 4;
    const GROUPS: usize = 2;
    const INTERLEAVED_MAX_BYTES: usize = 0;
    type F32 = f32x4;
    type Chunk<T: Pod> = [T; 4];

    #[inline(always)]
    fn map<T: Pod, U: Pod>(x: [T; 4], f: impl Fn(T) -> U) -> [U; 4] {
        x.map(f)
    }

    #[inline(always)]
    fn splat(self, x: f32) -> f32x4 {
        f32x4::new([x, x, x, x])
    }

    /// As `convert::f16_to_f32`, on integers of 16 bits, eight lanes at a time, up to the product. The arithmetic shift
    /// fills three bits below the sign, which are cleared. Free of branches, like `store_f16`: the cold halves of a
    /// branch made the kernels 2.5 times as large, and calls to them made the loops spill every register.
    #[inline(always)]
    fn load_f16(self, x: [[u16; 4]; 2]) -> [f32x4; 2] {
        let x: i16x8 = must_cast(x);
        let special = (x & const { i16x8::splat(0x7fff) }).simd_gt(const { i16x8::splat(0x7bff) });
        let upper = (x >> 3_u32) & const { i16x8::splat(!0x7000) };
        // Infinities and NaNs get the exponent of an f32's.
        let upper = upper | (special & const { i16x8::splat(0x7f80) });
        let [a, b] = interleave(x << 13_u32, upper);
        let bias = const { f32x4::splat(f32::from_bits((127 + 112) << 23)) };
        [floats(a) * bias, floats(b) * bias]
    }

    /// As `convert::f32_to_f16`. Saturating the bits of an f32 as an integer keeps its sign bit.
    #[inline(always)]
    fn store_f16(self, [a, b]: [f32x4; 2]) -> [[u16; 4]; 2] {
        let saturate = |x: [i32x4; 2]| i16x8::from_i32x8_saturate(must_cast(x));
        let code: u16x8 = must_cast(saturate([f16_magnitude(a), f16_magnitude(b)]));
        let sign: u16x8 = must_cast(saturate([must_cast(a), must_cast(b)]));
        // The minimum of both, which SSE2 lacks for unsigned integers.
        let code = code - code.saturating_sub(const { u16x8::splat(0x7e00) });
        must_cast(code | (sign & const { u16x8::splat(0x8000) }))
    }

    #[inline(always)]
    fn load_bf16(self, x: [[u16; 4]; 2]) -> [f32x4; 2] {
        let [a, b] = widen(x);
        [floats(a << 16_u32), floats(b << 16_u32)]
    }

    #[inline(always)]
    fn store_bf16(self, group: [[f32x4; 2]; 2]) -> [[[u16; 4]; 2]; 2] {
        let [[a, b], [c, d]] = self.round_bf16(group);
        [
            narrow([a >> 16_u32, b >> 16_u32]),
            narrow([c >> 16_u32, d >> 16_u32]),
        ]
    }

    #[inline(always)]
    fn load_bf16_even_odd(self, x: [[u16; 4]; 2]) -> [f32x4; 2] {
        // The even element is in the lower half: what has vectors is little-endian.
        let words: u32x4 = must_cast(x);
        [
            floats(words << 16_u32),
            floats(words & const { u32x4::splat(0xffff_0000) }),
        ]
    }

    #[inline(always)]
    fn store_bf16_even_odd(self, group: [[f32x4; 2]; 2]) -> [[[u16; 4]; 2]; 2] {
        let [[a, b], [c, d]] = self.round_bf16(group);
        let upper = const { u32x4::splat(0xffff_0000) };
        [
            must_cast((a >> 16_u32) | (b & upper)),
            must_cast((c >> 16_u32) | (d & upper)),
        ]
    }

    #[inline(always)]
    fn any_nan(self, x: f32x4) -> bool {
        x.is_nan().any()
    }

    operations! {
        f32x4:
        add(a, b) => a + b;
        sub(a, b) => a - b;
        mul(a, b) => a * b;
        div(a, b) => a / b;
        // The scalar backend runs on targets without vectors.
        sqrt(x) => x.sqrt();
    }

    #[inline(always)]
    fn swap(self, x: f32x4) -> f32x4 {
        let [a, b, c, d] = x.to_array();
        f32x4::new([b, a, d, c])
    }

    #[inline(always)]
    fn butterfly<const STRIDE: usize>(self, x: f32x4) -> f32x4 {
        let [a, b, c, d] = x.to_array();
        if STRIDE == 1 {
            f32x4::new([b, a, d, c]) + (x ^ f32x4::new([0.0, -0.0, 0.0, -0.0]))
        } else {
            f32x4::new([c, d, a, b]) + (x ^ f32x4::new([0.0, 0.0, -0.0, -0.0]))
        }
    }

    #[inline(always)]
    fn unzip(self, [a, b]: [f32x4; 2]) -> [f32x4; 2] {
        // x0 y0 x1 y1, x2 y2 x3 y3 -> x0 x2 y0 y2, x1 x3 y1 y3 -> x0 x1 x2 x3, y0 y1 y2 y3
        let (even, odd) = (a.unpack_lo(b), a.unpack_hi(b));
        [even.unpack_lo(odd), even.unpack_hi(odd)]
    }

    #[inline(always)]
    fn zip(self, [x, y]: [f32x4; 2]) -> [f32x4; 2] {
        [x.unpack_lo(y), x.unpack_hi(y)]
    }
}

impl SimdQuant for Portable {
    #[inline(always)]
    fn max_magnitude(self, a: f32x4, x: f32x4) -> f32x4 {
        // A loop over lanes, which LLVM vectorizes.
        let (a, x) = (a.to_array(), x.to_array());
        f32x4::new(four!(I => scalar::max_magnitude(a[I], x[I])))
    }

    #[inline(always)]
    fn max_number(self, a: f32x4, x: f32x4) -> f32x4 {
        let (a, x) = (a.to_array(), x.to_array());
        f32x4::new(four!(I => scalar::max_number(a[I], x[I])))
    }

    #[inline(always)]
    fn min_number(self, a: f32x4, x: f32x4) -> f32x4 {
        let (a, x) = (a.to_array(), x.to_array());
        f32x4::new(four!(I => scalar::min_number(a[I], x[I])))
    }

    #[inline(always)]
    fn truncate(self, x: f32x4) -> [i32; 4] {
        // With SSE2 a NaN becomes the least integer, and 0 elsewhere.
        x.fast_trunc_int().to_array()
    }

    #[inline(always)]
    fn max_lane(self, x: f32x4) -> f32 {
        let [a, b, c, d] = x.to_array();
        let (ab, cd) = (if a > b { a } else { b }, if c > d { c } else { d });
        if ab > cd { ab } else { cd }
    }
}

impl SimdSums for Portable {
    // One kernel takes 0.75 to 0.95 of the time of two; few who train have no other instruction set.
    const BACKWARD: bool = false;
    type Wide = f64x4;

    #[inline(always)]
    fn any_not_normal(self, x: [f32x4; 4]) -> bool {
        let x = four!(I => x[I].to_array());
        let [a, b, c, d] = four!(I => four!(J => !x[I][J].is_normal()));
        let [a, b, c, d] = four!(I => a[I] | b[I] | c[I] | d[I]);
        a | b | c | d
    }

    #[inline(always)]
    fn unzip_wide(self, [a, b]: [f64x4; 2]) -> [f64x4; 2] {
        let ([a, b, c, d], [e, f, g, h]) = (a.to_array(), b.to_array());
        [f64x4::new([a, c, e, g]), f64x4::new([b, d, f, h])]
    }

    #[inline(always)]
    fn zip_wide(self, [a, b]: [f64x4; 2]) -> [f64x4; 2] {
        let ([a, c, e, g], [b, d, f, h]) = (a.to_array(), b.to_array());
        [f64x4::new([a, b, c, d]), f64x4::new([e, f, g, h])]
    }

    #[inline(always)]
    fn widen(self, x: f32x4) -> f64x4 {
        self.load_f32_wide(x.to_array())
    }

    #[inline(always)]
    fn load_f32_wide(self, x: [f32; 4]) -> f64x4 {
        f64x4::new(four!(I => f64::from(x[I])))
    }

    sums!();
}

#[inline(always)]
fn floats(bits: u32x4) -> f32x4 {
    must_cast(bits)
}

/// Each element in the lower half of a lane.
#[inline(always)]
fn widen(x: [[u16; 4]; 2]) -> [u32x4; 2] {
    must_cast(i32x8::from_u16x8(must_cast(x)))
}

/// The lower halves of the lanes of two vectors.
#[inline(always)]
fn narrow(vectors: [u32x4; 2]) -> [[u16; 4]; 2] {
    must_cast(i16x8::from_i32x8_truncate(must_cast(vectors)))
}

/// Lanes of 32 bits from their lower and upper halves.
#[inline(always)]
fn interleave(lower: i16x8, upper: i16x8) -> [u32x4; 2] {
    let [a, b] = widen(must_cast(lower));
    let [c, d] = widen(must_cast(upper));
    [a | (c << 16_u32), b | (d << 16_u32)]
}

/// The magnitude of the f16. For a NaN the result is negative or exceeds 16 bits, by the sign of its sum.
#[inline(always)]
fn f16_magnitude(x: f32x4) -> i32x4 {
    let magnitude: f32x4 =
        must_cast(must_cast::<_, u32x4>(x) & const { u32x4::splat(0x7fff_ffff) });
    // Keeps a NaN, which `fast_min` does on some targets only. This, too, compiles to one instruction.
    let size = magnitude.to_array();
    let size = f32x4::new(four!(I => if size[I] > 65536.0 { 65536.0 } else { size[I] }));
    let power = must_cast::<_, u32x4>(size) & const { u32x4::splat(0x7f80_0000) };
    let power =
        floats(power + const { u32x4::splat(13 << 23) }).fast_max(const { f32x4::splat(0.5) });
    // The exponent, at bit 7 of the upper half, moves to bit 10; the lower half, the units, is added.
    let weights: i16x8 = must_cast(const { u32x4::splat(0x0008_0001) });
    let sum: i16x8 = must_cast(size + power);
    sum.dot(weights) - const { i32x4::splat(126 << 10) }
}

/// Applies one scalar expression to both lanes.
macro_rules! lanes {
    ($i:ident => $e:expr) => {{
        let at = |$i: usize| $e;
        [at(0), at(1)]
    }};
}

impl SimdF64 for Portable {
    const F64_LANES: usize = 2;
    type F64 = [f64; 2];

    #[inline(always)]
    fn load_f64(self, block: &[f64; 8], part: usize) -> [f64; 2] {
        block.as_chunks().0[part]
    }
    #[inline(always)]
    fn store_f64(self, v: [f64; 2], block: &mut [f64; 8], part: usize) {
        block.as_chunks_mut().0[part] = v;
    }
    #[inline(always)]
    fn splat_f64(self, x: f64) -> [f64; 2] {
        [x; 2]
    }
    #[inline(always)]
    fn pick(self, of: &[f64; 4], halves: &[[u32; 2]; 8], part: usize) -> [f64; 2] {
        lanes!(i => of[halves[2 * part + i][0] as usize / 2 % 4])
    }
    #[inline(always)]
    fn store_as_f32(self, v: [f64; 2], block: &mut [f32; 8], part: usize) {
        block.as_chunks_mut().0[part] = lanes!(i => v[i] as f32);
    }
    #[inline(always)]
    fn differ_as_f32(self, a: [f64; 2], b: [f64; 2]) -> u32 {
        let [first, second] = lanes!(i => u32::from(a[i] as f32 != b[i] as f32));
        first | second << 1
    }
    operations! {
        [f64; 2]:
        sub_f64(a, b) => lanes!(i => a[i] - b[i]);
        mul_f64(a, b) => lanes!(i => a[i] * b[i]);
        mul_add(a, b, c) => lanes!(i => a[i] * b[i] + c[i]);
        mul_sub(a, b, c) => lanes!(i => scalar::mul_sub(a[i], b[i], c[i]));
        round_to_f32(v) => lanes!(i => f64::from(v[i] as f32));
    }
    /// Exchanges by masks: SSE2 has no blend.
    #[inline(always)]
    fn quarter_turns(
        self,
        quarters: [f64; 2],
        cos: [f64; 2],
        sin: [f64; 2],
    ) -> ([f64; 2], [f64; 2]) {
        let q = lanes!(i => quarters[i].to_bits());
        let exchange =
            lanes!(i => (cos[i].to_bits() ^ sin[i].to_bits()) & 0_u64.wrapping_sub(q[i] & 1));
        (
            lanes!(i => f64::from_bits(cos[i].to_bits() ^ exchange[i] ^ (q[i].wrapping_add(1) << 62 & SIGN))),
            lanes!(i => f64::from_bits(sin[i].to_bits() ^ exchange[i] ^ (q[i] << 62 & SIGN))),
        )
    }
    /// Compares 32 bits, the most that SSE2 compares. The bits below an f32 lie in the low half of the double.
    #[inline(always)]
    fn any_doubt<const REACH: u64>(
        self,
        [a, b]: [[f64; 2]; 2],
        whole: [f64; 2],
        small: [f64; 2],
        least: f64,
    ) -> bool {
        let near = |v: f64| {
            (v.to_bits() as u32).wrapping_sub((MIDPOINT - REACH) as u32)
                & (BELOW_F32 & !(2 * REACH - 1)) as u32
                == 0
        };
        let near = near(a[0]) | near(a[1]) | near(b[0]) | near(b[1]);
        near | scalar::too_small(whole[0], small[0], least)
            | scalar::too_small(whole[1], small[1], least)
    }
}
