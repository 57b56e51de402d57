//! One lane, in plain Rust: the reference, the tail of every other backend, and the fallback of CPUs without vectors.

use bytemuck::Pod;

use super::convert::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};
use super::double::{BELOW_F32, MIDPOINT, SIGN};
use super::text::{operations, sums};
use super::{InstructionSet, MemoryKernel, Simd, SimdF64, SimdQuant, SimdSums};

/// Requires nothing of the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scalar;

impl Scalar {
    pub(crate) fn detect() -> Option<Self> {
        Some(Scalar)
    }
}

impl InstructionSet for Scalar {
    type Narrower = Scalar;

    #[inline(never)]
    fn enter_in<K: MemoryKernel>(self, memory: &mut [u8], from: usize, kernel: K) {
        kernel.run_in(self, memory, from);
    }

    #[inline(always)]
    fn narrower(self) -> Scalar {
        self
    }
}

impl Simd for Scalar {
    const LANES: usize = 1;
    // Only the plain loop, which LLVM vectorizes for the target's baseline.
    const GROUPS: usize = 0;
    const INTERLEAVED_MAX_BYTES: usize = 0;
    type F32 = f32;
    type Chunk<T: Pod> = [T; 1];

    #[inline(always)]
    fn map<T: Pod, U: Pod>([x]: [T; 1], f: impl Fn(T) -> U) -> [U; 1] {
        [f(x)]
    }

    #[inline(always)]
    fn splat(self, x: f32) -> f32 {
        x
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

    operations! {
        f32:
        add(a, b) => a + b;
        sub(a, b) => a - b;
        mul(a, b) => a * b;
        div(a, b) => a / b;
        sqrt(x) => sqrt(x);
        // One lane holds no pair. Only backends with doubled groups call this.
        swap(x) => x;
    }

    #[inline(always)]
    fn butterfly<const STRIDE: usize>(self, x: f32) -> f32 {
        // One lane has no other.
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
}

impl SimdQuant for Scalar {
    operations! {
        f32:
        max_magnitude(a, x) => max_magnitude(a, x);
        max_number(a, x) => max_number(a, x);
        min_number(a, x) => min_number(a, x);
    }

    #[inline(always)]
    fn truncate(self, x: f32) -> [i32; 1] {
        [x as i32]
    }

    #[inline(always)]
    fn max_lane(self, x: f32) -> f32 {
        x
    }
}

impl SimdSums for Scalar {
    const BACKWARD: bool = false;
    type Wide = f64;

    #[inline(always)]
    fn any_not_normal(self, x: [f32; 4]) -> bool {
        x.map(f32::is_normal) != [true; 4]
    }

    #[inline(always)]
    fn unzip_wide(self, x: [f64; 2]) -> [f64; 2] {
        x
    }

    #[inline(always)]
    fn zip_wide(self, x: [f64; 2]) -> [f64; 2] {
        x
    }

    #[inline(always)]
    fn widen(self, x: f32) -> f64 {
        x.into()
    }

    sums!();
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
    operations! {
        f64:
        sub_f64(a, b) => a - b;
        mul_f64(a, b) => a * b;
        mul_add(a, b, c) => a * b + c;
        mul_sub(a, b, c) => mul_sub(a, b, c);
        round_to_f32(v) => f64::from(v as f32);
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

/// Returns the larger of `a`, which is no NaN, and the magnitude of `x`; `a` if `x` is a NaN. By integers: LLVM
/// compiles the float form to AArch64's `fmaxnm`, which returns a NaN if `x` is a signaling one.
#[inline(always)]
pub(crate) fn max_magnitude(a: f32, x: f32) -> f32 {
    let bits = x.to_bits() & 0x7fff_ffff;
    let number = if bits > f32::INFINITY.to_bits() {
        0
    } else {
        bits
    };
    f32::from_bits(number.max(a.to_bits()))
}

/// Returns `x`, or `a` if `x` is a NaN. By integers, for the same reason as `max_magnitude`.
#[inline(always)]
fn number_or(x: f32, a: f32) -> f32 {
    if x.to_bits() & 0x7fff_ffff > f32::INFINITY.to_bits() {
        a
    } else {
        x
    }
}

/// Returns the larger of `a`, which is no NaN, and `x`; `a` if `x` is a NaN.
#[inline(always)]
pub(crate) fn max_number(a: f32, x: f32) -> f32 {
    let x = number_or(x, a);
    if x > a { x } else { a }
}

/// Returns the smaller, likewise.
#[inline(always)]
pub(crate) fn min_number(a: f32, x: f32) -> f32 {
    let x = number_or(x, a);
    if x < a { x } else { a }
}

/// Returns the square root, correctly rounded. `core` has none; the integer square root is exact.
///
/// With `x = m 4^e` and `m` of 50 or 51 bits, the root of `m` has 25 or 26 bits, of which an f32 keeps 24. A remainder
/// breaks a tie.
#[inline(never)]
fn sqrt(x: f32) -> f32 {
    if x.is_nan() || x < 0.0 {
        return f32::NAN;
    }
    if x == 0.0 || x == f32::INFINITY {
        return x;
    }
    // A subnormal is made normal first: 2^24 = 4^12.
    let (normal, scaled) = if x < f32::MIN_POSITIVE {
        (x * 16_777_216.0, 12)
    } else {
        (x, 0)
    };
    let bits = normal.to_bits();
    let exponent = (bits >> 23) as i32 - 150;
    let odd = exponent & 1;
    let mantissa = u64::from(bits & 0x7f_ffff | 0x80_0000) << (26 + odd);
    let root = mantissa.isqrt();
    let sticky = u64::from(root * root != mantissa);
    // `x = mantissa 2^(exponent - odd - 26)`, so its root is `root 2^((exponent - odd) / 2 - 13)`.
    let power = (exponent - odd) / 2 - 13 - scaled - 1;
    (root << 1 | sticky) as f32 * f32::from_bits(((127 + power) as u32) << 23)
}

/// Returns `a b - c`, rounded once, if `fl(a b) - c` is exact: Dekker's product, in 17 operations, for machines without
/// a fused operation.
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

/// Rotates `(cos, sin)` by `quarters mod 4` quarter turns. A mask exchanges them: a branch would be mispredicted every
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

/// Returns true if `v` lies within `REACH` units in the last place of a midpoint of f32 numbers.
#[inline(always)]
pub(crate) fn near_midpoint<const REACH: u64>(v: f64) -> bool {
    v.to_bits().wrapping_sub(MIDPOINT - REACH) & BELOW_F32 < 2 * REACH
}

/// Returns true if `small` is not at least `least` although `whole` is not zero; true for NaN.
#[inline(always)]
#[allow(clippy::neg_cmp_op_on_partial_ord, reason = "a NaN is a doubt")]
pub(crate) fn too_small(whole: f64, small: f64, least: f64) -> bool {
    (whole != 0.0) & !(small >= least)
}
