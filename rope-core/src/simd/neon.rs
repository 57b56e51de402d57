//! Four lanes: NEON of AArch64, which every 64-bit ARM core has.
//!
//! | operation | instructions | Neoverse V1 | Apple M1 |
//! |---|---|---|---|
//! | `add`, `sub`, `mul` | `fadd`, `fsub`, `fmul` | 4 per cycle | 4 |
//! | `unzip`, `zip` | `uzp1`, `uzp2`; `zip1`, `zip2` | 2 | 4 |
//! | `to_deinterleaved`, `undo_deinterleaved` | nothing: lanes keep their order | | |
//! | `load_f16`, `store_f16` | `fcvtl`, `fcvtn` | 2 | 4 |
//! | `load_bf16_even_odd` | `shl`, `and` | 2 | 4 |
//! | `store_bf16_even_odd`, a vector | shift, and, 2 add, half a `sri` | | |

use core::arch::aarch64::*;

use core::hint::cold_path;

use bytemuck::{Pod, must_cast};

use super::double::{BELOW_F32, MIDPOINT, SIGN};
use super::scalar::Scalar;
use super::text::{operations, rounding};
use super::{InstructionSet, MemoryKernel, Simd, SimdF64, SimdQuant, SimdSums};

/// The proof that the build's target has NEON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Neon(());

/// Intrinsics of the instruction set that this file's token proves.
macro_rules! op {
    ($operation:expr) => {
        // SAFETY: these intrinsics compute on values and require only NEON, without which this file is not compiled.
        unsafe { $operation }
    };
}

impl Neon {
    pub(crate) fn detect() -> Option<Self> {
        Some(Neon(()))
    }

    /// Rounds to the upper 16 bits of each lane, to nearest, ties to even, unless it is a NaN. The lower 16 are left
    /// over.
    #[inline(always)]
    fn round_number(self, x: float32x4_t) -> uint32x4_t {
        op!({
            let bits = vreinterpretq_u32_f32(x);
            let odd = vandq_u32(vshrq_n_u32::<16>(bits), vdupq_n_u32(1));
            vaddq_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7fff)))
        })
    }

    /// Replaces the rounded lanes of NaNs by quiet NaNs.
    #[inline(always)]
    fn quiet(self, rounded: uint32x4_t, x: float32x4_t) -> uint32x4_t {
        op!({
            let quiet = vorrq_u32(vreinterpretq_u32_f32(x), vdupq_n_u32(0x0040_0000));
            vbslq_u32(vceqq_f32(x, x), rounded, quiet)
        })
    }

    /// Returns true if one of four vectors has a NaN.
    #[inline(always)]
    fn nan_in_four(self, [a, b, c, d]: [float32x4_t; 4]) -> bool {
        let numbers = op!({
            let ab = vandq_u32(vceqq_f32(a, a), vceqq_f32(b, b));
            let cd = vandq_u32(vceqq_f32(c, c), vceqq_f32(d, d));
            vminvq_u32(vandq_u32(ab, cd))
        });
        numbers == 0
    }

    rounding!(float32x4_t => uint32x4_t);
}

impl InstructionSet for Neon {
    type Narrower = Scalar;

    // The build's target has NEON. `#[target_feature]` would compile code that other backends share a second time.
    #[inline(never)]
    fn enter_in<K: MemoryKernel>(self, memory: &mut [u8], from: usize, kernel: K) {
        kernel.run_in(self, memory, from);
    }

    #[inline(always)]
    fn narrower(self) -> Scalar {
        Scalar
    }
}

impl Simd for Neon {
    const LANES: usize = 4;
    // 16 of the 32 registers.
    const GROUPS: usize = 4;
    const INTERLEAVED_MAX_BYTES: usize = 0;
    const NARROWS_ARITHMETIC_NAN: bool = true;
    type F32 = float32x4_t;
    type Chunk<T: Pod> = [T; 4];

    #[inline(always)]
    fn map<T: Pod, U: Pod>(x: [T; 4], f: impl Fn(T) -> U) -> [U; 4] {
        x.map(f)
    }

    #[inline(always)]
    fn splat(self, x: f32) -> float32x4_t {
        op!(vdupq_n_f32(x))
    }

    #[inline(always)]
    fn load_f16(self, x: [[u16; 4]; 2]) -> [float32x4_t; 2] {
        let x: uint16x8_t = must_cast(x);
        op!({
            let x = vreinterpretq_f16_u16(x);
            [vcvt_f32_f16(vget_low_f16(x)), vcvt_high_f32_f16(x)]
        })
    }

    #[inline(always)]
    fn store_f16(self, [a, b]: [float32x4_t; 2]) -> [[u16; 4]; 2] {
        must_cast(op!(vreinterpretq_u16_f16(vcvt_high_f16_f32(
            vcvt_f16_f32(a),
            b
        ))))
    }

    #[inline(always)]
    fn load_bf16(self, x: [[u16; 4]; 2]) -> [float32x4_t; 2] {
        let x: uint16x8_t = must_cast(x);
        op!([
            vreinterpretq_f32_u32(vshll_n_u16::<16>(vget_low_u16(x))),
            vreinterpretq_f32_u32(vshll_high_n_u16::<16>(x)),
        ])
    }

    #[inline(always)]
    fn store_bf16(self, group: [[float32x4_t; 2]; 2]) -> [[[u16; 4]; 2]; 2] {
        let [[a, b], [c, d]] = self.round_bf16(group);
        op!([
            must_cast(vshrn_high_n_u32::<16>(vshrn_n_u32::<16>(a), b)),
            must_cast(vshrn_high_n_u32::<16>(vshrn_n_u32::<16>(c), d)),
        ])
    }

    #[inline(always)]
    fn load_bf16_even_odd(self, x: [[u16; 4]; 2]) -> [float32x4_t; 2] {
        let x: uint32x4_t = must_cast(x);
        op!([
            vreinterpretq_f32_u32(vshlq_n_u32::<16>(x)),
            vreinterpretq_f32_u32(vandq_u32(x, vdupq_n_u32(0xffff_0000))),
        ])
    }

    #[inline(always)]
    fn store_bf16_even_odd(self, group: [[float32x4_t; 2]; 2]) -> [[[u16; 4]; 2]; 2] {
        let [[a, b], [c, d]] = self.round_numbers(group);
        // The upper half of an even lane goes below the upper half of an odd one.
        op!([
            must_cast(vsriq_n_u32::<16>(b, a)),
            must_cast(vsriq_n_u32::<16>(d, c)),
        ])
    }

    #[inline(always)]
    fn any_nan(self, x: float32x4_t) -> bool {
        op!(vminvq_u32(vceqq_f32(x, x))) == 0
    }

    operations! {
        float32x4_t:
        add(a, b) => op!(vaddq_f32(a, b));
        sub(a, b) => op!(vsubq_f32(a, b));
        mul(a, b) => op!(vmulq_f32(a, b));
        div(a, b) => op!(vdivq_f32(a, b));
        sqrt(x) => op!(vsqrtq_f32(x));
        swap(x) => op!(vrev64q_f32(x));
    }

    #[inline(always)]
    fn butterfly<const STRIDE: usize>(self, x: float32x4_t) -> float32x4_t {
        // A product with 1 or -1 is exact: one rounding, and no instruction for the sign.
        op!({
            let other = match STRIDE {
                1 => vrev64q_f32(x),
                _ => vextq_f32::<2>(x, x),
            };
            vfmaq_f32(other, x, must_cast(const { super::signs::<4>(STRIDE) }))
        })
    }

    #[inline(always)]
    fn unzip(self, [a, b]: [float32x4_t; 2]) -> [float32x4_t; 2] {
        op!([vuzp1q_f32(a, b), vuzp2q_f32(a, b)])
    }

    #[inline(always)]
    fn zip(self, [x, y]: [float32x4_t; 2]) -> [float32x4_t; 2] {
        op!([vzip1q_f32(x, y), vzip2q_f32(x, y)])
    }
}

impl SimdQuant for Neon {
    const GROUPS_OF_ELEMENTS: bool = true;

    #[inline(always)]
    fn max_magnitude(self, a: float32x4_t, x: float32x4_t) -> float32x4_t {
        // By integers: LLVM compiles the float form to `fmaxnm`, which returns the number only if the NaN is quiet.
        op!({
            let bits = vreinterpretq_u32_f32(vabsq_f32(x));
            let number = vandq_u32(bits, vcleq_u32(bits, vdupq_n_u32(f32::INFINITY.to_bits())));
            vreinterpretq_f32_u32(vmaxq_u32(number, vreinterpretq_u32_f32(a)))
        })
    }

    #[inline(always)]
    fn truncate(self, x: float32x4_t) -> [i32; 4] {
        must_cast(op!(vcvtq_s32_f32(x)))
    }

    operations! {
        float32x4_t:
        mul_add_f32(a, b, c) => op!(vfmaq_f32(c, a, b));
        add_exact_product(a, b, c) => op!(vfmaq_f32(c, a, b));
        // Removes NaNs first: `fmaxnm` skips only quiet ones.
        max_number(a, x) => op!(vmaxq_f32(a, vbslq_f32(vceqq_f32(x, x), x, a)));
        min_number(a, x) => op!(vminq_f32(a, vbslq_f32(vceqq_f32(x, x), x, a)));
    }

    #[inline(always)]
    fn max_lane(self, x: float32x4_t) -> f32 {
        op!(vmaxvq_f32(x))
    }

    #[inline(always)]
    fn extreme_lanes<const LARGEST: bool>(self, [a, b, c, d]: [float32x4_t; 4]) -> [f32; 4] {
        must_cast(if LARGEST {
            op!(vpmaxq_f32(vpmaxq_f32(a, b), vpmaxq_f32(c, d)))
        } else {
            op!(vpminq_f32(vpminq_f32(a, b), vpminq_f32(c, d)))
        })
    }
}

impl SimdSums for Neon {
    type Wide = [float64x2_t; 2];

    #[inline(always)]
    fn any_not_normal(self, [a, b, c, d]: [float32x4_t; 4]) -> bool {
        op!({
            // Compares magnitudes as integers, so that a NaN counts as larger than infinity.
            let (a, b) = (vabsq_f32(a), vabsq_f32(b));
            let (c, d) = (vabsq_f32(c), vabsq_f32(d));
            let (a, b) = (vreinterpretq_u32_f32(a), vreinterpretq_u32_f32(b));
            let (c, d) = (vreinterpretq_u32_f32(c), vreinterpretq_u32_f32(d));
            let most = vmaxq_u32(vmaxq_u32(a, b), vmaxq_u32(c, d));
            let least = vminq_u32(vminq_u32(a, b), vminq_u32(c, d));
            vmaxvq_u32(most) >= f32::INFINITY.to_bits()
                || vminvq_u32(least) < f32::MIN_POSITIVE.to_bits()
        })
    }

    #[inline(always)]
    fn unzip_wide(self, [[a, b], [c, d]]: [[float64x2_t; 2]; 2]) -> [[float64x2_t; 2]; 2] {
        op!([
            [vuzp1q_f64(a, b), vuzp1q_f64(c, d)],
            [vuzp2q_f64(a, b), vuzp2q_f64(c, d)],
        ])
    }

    #[inline(always)]
    fn zip_wide(self, [[a, b], [c, d]]: [[float64x2_t; 2]; 2]) -> [[float64x2_t; 2]; 2] {
        op!([
            [vzip1q_f64(a, c), vzip2q_f64(a, c)],
            [vzip1q_f64(b, d), vzip2q_f64(b, d)],
        ])
    }

    #[inline(always)]
    fn widen(self, x: float32x4_t) -> [float64x2_t; 2] {
        op!([vcvt_f64_f32(vget_low_f32(x)), vcvt_high_f64_f32(x)])
    }

    #[inline(always)]
    fn add_cross(
        self,
        sums: [float64x2_t; 2],
        [[x1, y1], [x2, y2]]: [[float64x2_t; 2]; 2],
        [[g1, h1], [g2, h2]]: [[float64x2_t; 2]; 2],
    ) -> [float64x2_t; 2] {
        op!([
            vaddq_f64(sums[0], vfmsq_f64(vmulq_f64(x1, g2), x2, g1)),
            vaddq_f64(sums[1], vfmsq_f64(vmulq_f64(y1, h2), y2, h1)),
        ])
    }

    #[inline(always)]
    fn add_difference(
        self,
        sums: [float64x2_t; 2],
        a: float32x4_t,
        b: float32x4_t,
    ) -> [float64x2_t; 2] {
        let ([a, c], [b, d]) = (self.widen(a), self.widen(b));
        op!([
            vaddq_f64(sums[0], vsubq_f64(a, b)),
            vaddq_f64(sums[1], vsubq_f64(c, d)),
        ])
    }

    #[inline(always)]
    fn add_dot(
        self,
        sums: [float64x2_t; 2],
        [[x1, y1], [x2, y2]]: [[float64x2_t; 2]; 2],
        [[g1, h1], [g2, h2]]: [[float64x2_t; 2]; 2],
    ) -> [float64x2_t; 2] {
        op!([
            vaddq_f64(sums[0], vfmaq_f64(vmulq_f64(x1, g1), x2, g2)),
            vaddq_f64(sums[1], vfmaq_f64(vmulq_f64(y1, h1), y2, h2)),
        ])
    }
}

impl SimdF64 for Neon {
    const F64_LANES: usize = 2;
    type F64 = float64x2_t;

    #[inline(always)]
    fn load_f64(self, block: &[f64; 8], part: usize) -> float64x2_t {
        must_cast(block.as_chunks::<2>().0[part])
    }
    #[inline(always)]
    fn store_f64(self, v: float64x2_t, block: &mut [f64; 8], part: usize) {
        block.as_chunks_mut::<2>().0[part] = must_cast(v);
    }
    #[inline(always)]
    fn splat_f64(self, x: f64) -> float64x2_t {
        op!(vdupq_n_f64(x))
    }
    #[inline(always)]
    fn pick(self, of: &[f64; 4], halves: &[[u32; 2]; 8], part: usize) -> float64x2_t {
        let at = |lane: usize| of[halves[2 * part + lane][0] as usize / 2 % 4];
        let lanes = [at(0), at(1)];
        must_cast(lanes)
    }
    #[inline(always)]
    fn store_as_f32(self, v: float64x2_t, block: &mut [f32; 8], part: usize) {
        block.as_chunks_mut::<2>().0[part] = must_cast(op!(vcvt_f32_f64(v)));
    }
    #[inline(always)]
    fn differ_as_f32(self, a: float64x2_t, b: float64x2_t) -> u32 {
        op!({
            let same = vceq_f32(vcvt_f32_f64(a), vcvt_f32_f64(b));
            vget_lane_u32::<0>(vbic_u32(vdup_n_u32(1), same))
                | vget_lane_u32::<1>(vbic_u32(vdup_n_u32(2), same))
        })
    }
    operations! {
        float64x2_t:
        sub_f64(a, b) => op!(vsubq_f64(a, b));
        mul_f64(a, b) => op!(vmulq_f64(a, b));
        mul_add(a, b, c) => op!(vfmaq_f64(c, a, b));
        mul_sub(a, b, c) => op!(vfmaq_f64(vnegq_f64(c), a, b));
        round_to_f32(v) => op!(vcvt_f64_f32(vcvt_f32_f64(v)));
    }
    #[inline(always)]
    fn quarter_turns(
        self,
        quarters: float64x2_t,
        cos: float64x2_t,
        sin: float64x2_t,
    ) -> (float64x2_t, float64x2_t) {
        op!({
            let q = vreinterpretq_u64_f64(quarters);
            let one = vdupq_n_u64(1);
            let sign = vdupq_n_u64(SIGN);
            let odd = vtstq_u64(q, one);
            let c = vreinterpretq_u64_f64(vbslq_f64(odd, sin, cos));
            let s = vreinterpretq_u64_f64(vbslq_f64(odd, cos, sin));
            let c_sign = vandq_u64(vshlq_n_u64::<62>(vaddq_u64(q, one)), sign);
            let s_sign = vandq_u64(vshlq_n_u64::<62>(q), sign);
            (
                vreinterpretq_f64_u64(veorq_u64(c, c_sign)),
                vreinterpretq_f64_u64(veorq_u64(s, s_sign)),
            )
        })
    }
    /// Both values in one vector: what lies below an f32 fits in the low 32 bits of a double.
    #[inline(always)]
    fn any_doubt<const REACH: u64>(
        self,
        [a, b]: [float64x2_t; 2],
        whole: float64x2_t,
        small: float64x2_t,
        least: f64,
    ) -> bool {
        op!({
            let low = vcombine_u32(
                vmovn_u64(vreinterpretq_u64_f64(a)),
                vmovn_u64(vreinterpretq_u64_f64(b)),
            );
            let reach = vdupq_n_u32((REACH as u32).wrapping_sub(MIDPOINT as u32));
            let outside = vdupq_n_u32((BELOW_F32 & !(2 * REACH - 1)) as u32);
            let far = vtstq_u32(vaddq_u32(low, reach), outside);
            let kept = vorrq_u64(vceqzq_f64(whole), vcgeq_f64(small, vdupq_n_f64(least)));
            vminvq_u32(vandq_u32(far, vreinterpretq_u32_u64(kept))) == 0
        })
    }
}
