//! One lane, in plain Rust: the reference, the tail of every other backend, and the fallback of CPUs without vectors.

use bytemuck::Pod;

use super::convert::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};
use super::{BELOW_F32, Kernel, MIDPOINT, SIGN, Simd, SimdF64};

/// Needs nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scalar;

impl Scalar {
    pub(crate) fn detect() -> Option<Self> {
        Some(Scalar)
    }
}

impl Simd for Scalar {
    const LANES: usize = 1;
    // Only the plain loop, which the compiler vectorises for the target's own baseline.
    const GROUPS: usize = 0;
    const ALTERNATES: usize = 0;
    type F32 = f32;
    type Chunk<T: Pod> = [T; 1];
    type Narrower = Scalar;

    #[inline(never)]
    fn enter<K: Kernel>(self, kernel: K) {
        kernel.run(self);
    }

    #[inline(always)]
    fn narrower(self) -> Scalar {
        self
    }

    #[inline(always)]
    fn chunks<T: Pod>(x: &[T]) -> &[[T; 1]] {
        x.as_chunks().0
    }

    #[inline(always)]
    fn chunks_mut<T: Pod>(x: &mut [T]) -> &mut [[T; 1]] {
        x.as_chunks_mut().0
    }

    #[inline(always)]
    fn map<T: Pod, U: Pod>([x]: [T; 1], f: impl Fn(T) -> U) -> [U; 1] {
        [f(x)]
    }

    #[inline(always)]
    fn splat(self, x: f32) -> f32 {
        x
    }

    #[inline(always)]
    fn load_f32(self, [x]: [f32; 1]) -> f32 {
        x
    }

    #[inline(always)]
    fn store_f32(self, x: f32) -> [f32; 1] {
        [x]
    }

    #[inline(always)]
    fn load_f16(self, [[a], [b]]: [[u16; 1]; 2]) -> [f32; 2] {
        [f16_to_f32(a), f16_to_f32(b)]
    }

    #[inline(always)]
    fn store_f16(self, [a, b]: [f32; 2]) -> [[u16; 1]; 2] {
        [[f32_to_f16(a)], [f32_to_f16(b)]]
    }

    #[inline(always)]
    fn load_bf16(self, [[a], [b]]: [[u16; 1]; 2]) -> [f32; 2] {
        [bf16_to_f32(a), bf16_to_f32(b)]
    }

    #[inline(always)]
    fn store_bf16(self, [[a, b], [c, d]]: [[f32; 2]; 2]) -> [[[u16; 1]; 2]; 2] {
        [
            [[f32_to_bf16(a)], [f32_to_bf16(b)]],
            [[f32_to_bf16(c)], [f32_to_bf16(d)]],
        ]
    }

    #[inline(always)]
    fn load_bf16_even_odd(self, x: [[u16; 1]; 2]) -> [f32; 2] {
        self.load_bf16(x)
    }

    #[inline(always)]
    fn store_bf16_even_odd(self, group: [[f32; 2]; 2]) -> [[[u16; 1]; 2]; 2] {
        self.store_bf16(group)
    }

    #[inline(always)]
    fn any_nan(self, x: f32) -> bool {
        x.is_nan()
    }

    #[inline(always)]
    fn add(self, a: f32, b: f32) -> f32 {
        a + b
    }

    #[inline(always)]
    fn sub(self, a: f32, b: f32) -> f32 {
        a - b
    }

    #[inline(always)]
    fn mul(self, a: f32, b: f32) -> f32 {
        a * b
    }

    #[inline(always)]
    fn swap(self, x: f32) -> f32 {
        // One lane holds no pair, and a backend that does not double does not ask.
        x
    }

    #[inline(always)]
    fn unzip(self, ab: [f32; 2]) -> [f32; 2] {
        ab
    }

    #[inline(always)]
    fn zip(self, xy: [f32; 2]) -> [f32; 2] {
        xy
    }

    #[inline(always)]
    fn order(self, x: f32) -> f32 {
        x
    }

    #[inline(always)]
    fn unorder(self, x: f32) -> f32 {
        x
    }
}

impl SimdF64 for Scalar {
    const F64_LANES: usize = 1;
    type F64 = f64;

    #[inline(always)]
    fn load_f64(self, block: &[f64; 8], part: usize) -> f64 {
        block[part]
    }
    #[inline(always)]
    fn store_f64(self, v: f64, block: &mut [f64; 8], part: usize) {
        block[part] = v;
    }
    #[inline(always)]
    fn splat_f64(self, x: f64) -> f64 {
        x
    }
    #[inline(always)]
    fn pick(self, of: &[f64; 4], halves: &[[u32; 2]; 8], part: usize) -> f64 {
        of[halves[part][0] as usize / 2 % 4]
    }
    #[inline(always)]
    fn store_as_f32(self, v: f64, block: &mut [f32; 8], part: usize) {
        block[part] = v as f32;
    }
    #[inline(always)]
    fn differ_as_f32(self, a: f64, b: f64) -> u32 {
        (a as f32 != b as f32).into()
    }
    #[inline(always)]
    fn round_to_f32(self, v: f64) -> f64 {
        f64::from(v as f32)
    }
    #[inline(always)]
    fn sub_f64(self, a: f64, b: f64) -> f64 {
        a - b
    }
    #[inline(always)]
    fn mul_f64(self, a: f64, b: f64) -> f64 {
        a * b
    }
    #[inline(always)]
    fn mul_add(self, a: f64, b: f64, c: f64) -> f64 {
        a * b + c
    }
    #[inline(always)]
    fn mul_sub(self, a: f64, b: f64, c: f64) -> f64 {
        mul_sub(a, b, c)
    }
    #[inline(always)]
    fn quarter_turns(self, quarters: f64, cos: f64, sin: f64) -> (f64, f64) {
        quarter_turns(quarters, cos, sin)
    }
    #[inline(always)]
    fn any_doubt<const REACH: u64>(
        self,
        values: [f64; 2],
        whole: f64,
        small: f64,
        least: f64,
    ) -> bool {
        near_midpoint::<REACH>(values[0])
            | near_midpoint::<REACH>(values[1])
            | too_small(whole, small, least)
    }
}

/// `a b - c`, rounded once, if `fl(a b) - c` is exact. For machines without a fused operation: Dekker's product, in 17
/// operations.
///
/// Exact for `|a|, |b| < 2^995` whose product is above 2^-969.
#[inline(always)]
pub(crate) fn mul_sub(a: f64, b: f64, c: f64) -> f64 {
    let (a1, a2) = halves(a);
    let (b1, b2) = halves(b);
    let product = a * b;
    let error = ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2;
    (product - c) + error
}

/// `x` as the sum of two doubles of 26 bits each (Veltkamp).
#[inline(always)]
fn halves(x: f64) -> (f64, f64) {
    const SPLIT: f64 = ((1_u64 << 27) + 1) as f64;
    let scaled = SPLIT * x;
    let high = scaled - (scaled - x);
    (high, x - high)
}

/// `(cos, sin)` turned by `quarters mod 4` quarter turns. Exchanged by a mask: a branch would be mispredicted every
/// other time.
#[inline(always)]
pub(crate) fn quarter_turns(quarters: f64, cos: f64, sin: f64) -> (f64, f64) {
    let (q, c, s) = (quarters.to_bits(), cos.to_bits(), sin.to_bits());
    let exchange = (c ^ s) & 0_u64.wrapping_sub(q & 1);
    (
        f64::from_bits(c ^ exchange ^ (q.wrapping_add(1) << 62 & SIGN)),
        f64::from_bits(s ^ exchange ^ (q << 62 & SIGN)),
    )
}

/// Whether `v` lies within `REACH` units in the last place of a midpoint of f32 numbers.
#[inline(always)]
pub(crate) fn near_midpoint<const REACH: u64>(v: f64) -> bool {
    v.to_bits().wrapping_sub(MIDPOINT - REACH) & BELOW_F32 < 2 * REACH
}

/// Whether `small` is not at least `least` although `whole` is not zero; true for NaN.
#[inline(always)]
#[allow(clippy::neg_cmp_op_on_partial_ord, reason = "a NaN is a doubt")]
pub(crate) fn too_small(whole: f64, small: f64, least: f64) -> bool {
    (whole != 0.0) & !(small >= least)
}
