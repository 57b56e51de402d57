//! Eight lanes: AVX2 with FMA and F16C (Intel since Haswell, AMD since Excavator).
//!
//! | operation | instructions | Zen 4 | Alder Lake P |
//! |---|---|---|---|
//! | `add`, `sub` | `vaddps` | 2 per cycle | 2 |
//! | `mul` | `vmulps` | 2 | 2 |
//! | `unzip` | 2 `vshufps` | 1 | 1/2 .. 1 |
//! | `zip` | 2 `vunpck*ps` | 1 | 1/2 .. 1 |
//! | `to_deinterleaved`, `undo_deinterleaved` | `vpermpd` | 1 | 1 |
//! | `load_f16`, `store_f16` | `vcvtph2ps`, `vcvtps2ph` | 1 | 1 |
//! | `load_bf16_even_odd` | `vpslld`, `vpand` | 2 | 2 |
//! | `store_bf16_even_odd`, a vector | shift, and, 2 add, half of (shift, `vpblendw`) | | |

use core::hint::cold_path;

use bytemuck::{Pod, must_cast};

use super::double::{BELOW_F32, MIDPOINT, SIGN};
use super::portable::Portable;
use super::quant::{BELOW_HALF, E2M1_LEAST, NONLINEAR, NONLINEAR_LIMITS};
use super::text::{operations, rounding};
use super::x86::arch::*;
use super::x86::arch::{
    __m128 as HalfFloats, __m256 as Floats, __m256d as Doubles, __m256i as Integers,
    _mm256_add_pd as add_pd, _mm256_add_ps as add_ps, _mm256_and_ps as and_ps,
    _mm256_and_si256 as and_si, _mm256_andnot_si256 as andnot_si, _mm256_castps_si256 as castps_si,
    _mm256_castsi256_ps as castsi_ps, _mm256_cvtpd_ps as cvtpd_ps, _mm256_cvtph_ps as cvtph_ps,
    _mm256_cvtps_epi32 as cvtps_epi32, _mm256_cvtps_pd as cvtps_pd, _mm256_cvtps_ph as cvtps_ph,
    _mm256_cvttps_epi32 as cvttps_epi32, _mm256_div_ps as div_ps, _mm256_fmadd_pd as fmadd_pd,
    _mm256_fmadd_ps as fmadd_ps, _mm256_fmsub_pd as fmsub_pd, _mm256_madd_epi16 as madd_epi16,
    _mm256_maddubs_epi16 as maddubs_epi16, _mm256_max_ps as max_ps, _mm256_min_epi16 as min_epi16,
    _mm256_min_epu8 as min_epu8, _mm256_min_ps as min_ps, _mm256_mul_pd as mul_pd,
    _mm256_mul_ps as mul_ps, _mm256_or_ps as or_ps, _mm256_or_si256 as or_si,
    _mm256_packs_epi16 as packs_epi16, _mm256_packs_epi32 as packs_epi32,
    _mm256_packus_epi16 as packus_epi16, _mm256_permute_ps as permute_ps,
    _mm256_set1_epi8 as set1_epi8, _mm256_set1_epi16 as set1_epi16,
    _mm256_set1_epi32 as set1_epi32, _mm256_set1_pd as set1_pd, _mm256_set1_ps as set1_ps,
    _mm256_shuffle_ps as shuffle_ps, _mm256_slli_epi32 as slli_epi32, _mm256_sqrt_ps as sqrt_ps,
    _mm256_srl_epi16 as srl_epi16, _mm256_srli_epi16 as srli_epi16, _mm256_sub_epi16 as sub_epi16,
    _mm256_sub_pd as sub_pd, _mm256_sub_ps as sub_ps, _mm256_unpackhi_pd as unpackhi_pd,
    _mm256_unpackhi_ps as unpackhi_ps, _mm256_unpacklo_pd as unpacklo_pd,
    _mm256_unpacklo_ps as unpacklo_ps,
};
use super::x86::x86_text;
use super::{CacheLine, InstructionSet, MemoryKernel, Simd, SimdF64, SimdQuant, SimdSums, cpu};

/// The proof that the CPU has AVX2, FMA and F16C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Avx2(());

/// f32 lanes of a vector.
const LANES: usize = 8;

/// Intrinsics of the instruction set that this file's token proves.
macro_rules! op {
    ($operation:expr) => {
        // SAFETY: these intrinsics compute on values (a prefetch accepts any address) and require only CPU features
        // that `detect` has found, or there would be no `Avx2`.
        unsafe { $operation }
    };
}

impl Avx2 {
    x86_text!(helpers);

    pub(crate) fn detect() -> Option<Self> {
        cpu::has_avx2().then_some(Avx2(()))
    }

    /// Maps magnitudes so that the least normal number is 0, and zeros and subnormals are the largest.
    #[inline(always)]
    fn above_subnormal(self, x: __m256) -> __m256i {
        op!(_mm256_sub_epi32(
            _mm256_slli_epi32::<1>(_mm256_castps_si256(x)),
            _mm256_set1_epi32(0x0100_0000)
        ))
    }

    /// Rounds to the upper 16 bits of each lane, to nearest, ties to even, unless it is a NaN. The lower 16 are left
    /// over.
    #[inline(always)]
    fn round_number(self, x: __m256) -> __m256i {
        op!({
            let bits = _mm256_castps_si256(x);
            let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
            _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)))
        })
    }

    /// Returns true if one of four vectors has a NaN.
    #[inline(always)]
    fn nan_in_four(self, [a, b, c, d]: [__m256; 4]) -> bool {
        let nan = op!(_mm256_movemask_ps(_mm256_or_ps(
            _mm256_cmp_ps::<_CMP_UNORD_Q>(a, b),
            _mm256_cmp_ps::<_CMP_UNORD_Q>(c, d),
        )));
        nan != 0
    }

    /// Replaces the rounded lanes of NaNs by quiet NaNs.
    #[inline(always)]
    fn quiet(self, rounded: __m256i, x: __m256) -> __m256i {
        op!({
            let quiet_bit = _mm256_castsi256_ps(_mm256_set1_epi32(0x0040_0000));
            _mm256_castps_si256(_mm256_blendv_ps(
                _mm256_castsi256_ps(rounded),
                _mm256_or_ps(x, quiet_bit),
                _mm256_cmp_ps::<_CMP_UNORD_Q>(x, x),
            ))
        })
    }

    /// Converts four vectors to integers, rounded (ties to even) or truncated, and saturates them to bytes; a NaN
    /// becomes 0. Packs within 128 bits, so the codes are in the order of its lanes.
    #[inline(always)]
    fn integers<const EVEN: bool>(self, x @ [a, b, c, d]: [__m256; 4]) -> __m256i {
        let integers = |x| {
            if EVEN {
                op!(_mm256_cvtps_epi32(x))
            } else {
                op!(_mm256_cvttps_epi32(x))
            }
        };
        let codes = self.pack([integers(a), integers(b), integers(c), integers(d)]);
        if !self.has_least(codes) {
            return codes;
        }
        cold_path();
        let [a, b, c, d] = self.numbers(x);
        self.pack([integers(a), integers(b), integers(c), integers(d)])
    }

    /// Returns true if a code is -128, the result for NaNs and values beyond `i32`.
    #[inline(always)]
    fn has_least(self, codes: __m256i) -> bool {
        let least = op!(_mm256_movemask_epi8(_mm256_cmpeq_epi8(
            codes,
            _mm256_set1_epi8(-128)
        )));
        least != 0
    }

    /// Replaces NaNs by zeros, and numbers above 127 by 127.
    #[inline(always)]
    fn numbers(self, [a, b, c, d]: [__m256; 4]) -> [__m256; 4] {
        let number = |x| {
            op!(_mm256_and_ps(
                _mm256_min_ps(x, _mm256_set1_ps(127.0)),
                _mm256_cmp_ps::<_CMP_ORD_Q>(x, x),
            ))
        };
        [number(a), number(b), number(c), number(d)]
    }

    /// Appends a bit to negative codes, set where a comparison holds.
    #[inline(always)]
    fn append_bit(self, code: __m256i, holds: __m256) -> __m256i {
        op!({
            let doubled = _mm256_add_epi32(code, code);
            _mm256_add_epi32(doubled, _mm256_castps_si256(holds))
        })
    }

    /// Ones in the lanes of NaNs.
    #[inline(always)]
    fn nan_lanes(self, x: __m256) -> __m256i {
        op!(castps_si(_mm256_cmp_ps::<_CMP_UNORD_Q>(x, x)))
    }

    /// The magnitudes.
    #[inline(always)]
    fn abs(self, x: __m256) -> __m256 {
        op!(_mm256_andnot_ps(set1_ps(-0.0), x))
    }

    /// The low bytes of words below 256.
    #[inline(always)]
    fn low_bytes(self, words: __m256i) -> __m128i {
        op!(_mm_packus_epi16(
            _mm256_castsi256_si128(words),
            _mm256_extracti128_si256::<1>(words),
        ))
    }

    /// The low bytes of words packed within 128 bits: two pairs of each vector in each half, in the order of the
    /// vectors.
    #[inline(always)]
    fn pairs_in_order(self, words: __m256i) -> [[u8; 8]; 2] {
        const IN_ORDER: [u8; 16] = [0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15];
        must_cast(op!(_mm_shuffle_epi8(
            self.low_bytes(words),
            must_cast(IN_ORDER)
        )))
    }

    /// The extremes of the lanes of both halves.
    #[inline(always)]
    pub(super) fn extreme_halves<const LARGEST: bool>(self, lanes: __m256) -> [f32; 4] {
        let [low, high]: [__m128; 2] = must_cast(lanes);
        must_cast(if LARGEST {
            op!(_mm_max_ps(low, high))
        } else {
            op!(_mm_min_ps(low, high))
        })
    }

    /// Restores the order of bytes that were packed within 128 bits.
    #[inline(always)]
    fn in_order(self, codes: __m256i) -> [[u8; 8]; 4] {
        const IN_ORDER: [u32; 8] = [0, 4, 1, 5, 2, 6, 3, 7];
        must_cast(op!(_mm256_permutevar8x32_epi32(codes, must_cast(IN_ORDER))))
    }
}

/// The limits of IQ4_NL that decide the bit of weight `1 << bit`. The index is the last three bits of the negative code
/// found so far.
const fn deciding_limits(bit: u32) -> [f32; 8] {
    let mut limits = [0.0; 8];
    let mut code = 0;
    while code < 8 >> bit {
        limits[(8 - code) % 8] = NONLINEAR_LIMITS[((2 * code + 1) << bit) - 1];
        code += 1;
    }
    limits
}

/// The values of eight codes of IQ4_NL from `first` on. The index is the last three bits of the negative code.
const fn nonlinear_values(first: usize) -> [f32; 8] {
    let mut values = [0.0; 8];
    let mut code = 0;
    while code < 8 {
        values[(8 - code) % 8] = NONLINEAR[first + code] as f32;
        code += 1;
    }
    values
}

/// Alternates the bytes of two halves.
pub(super) const INTERLEAVED: [u8; 16] = [0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15];

impl InstructionSet for Avx2 {
    type Narrower = Portable;
    const STREAMS: bool = true;

    #[inline(always)]
    fn enter_in<K: MemoryKernel>(self, memory: &mut [u8], from: usize, kernel: K) {
        #[target_feature(enable = "avx2,fma,f16c")]
        fn inside<K: MemoryKernel>(token: Avx2, memory: &mut [u8], from: usize, kernel: K) {
            kernel.run_in(token, memory, from);
        }
        // SAFETY: the CPU has the three features, or `self` would not exist.
        unsafe { inside(self, memory, from, kernel) }
    }

    #[inline(always)]
    fn narrower(self) -> Portable {
        Portable
    }

    #[inline(always)]
    unsafe fn stream(self, to: &mut CacheLine, from: CacheLine) {
        let [first, second]: [__m256i; 2] = must_cast(from.0);
        let place: *mut __m256i = (&raw mut *to).cast();
        // SAFETY: the CPU has AVX, or `self` would not exist. A cache line has room for two vectors, and the alignment
        // of one. The caller promises that nobody accesses the line before a fence.
        unsafe {
            _mm256_stream_si256(place, first);
            _mm256_stream_si256(place.add(1), second);
        }
    }
}

impl Simd for Avx2 {
    x86_text!(Simd);
    // 8 of the 16 registers.
    const GROUPS: usize = 2;
    const PREFETCHES: bool = true;
    // f32: unzipping needs twice the shuffles and costs more than the passes it saves (Zen 3: 1.32 times C). f16:
    // conversions and shuffles share a port.
    const INTERLEAVED_MAX_BYTES: usize = 4;
    // Zen 3, in L1: 0.9 of the time.
    const WRITES_HALVES: bool = true;
    const NARROWS_ARITHMETIC_NAN: bool = true;

    #[inline(always)]
    fn load_bf16(self, x: [[u16; 8]; 2]) -> [__m256; 2] {
        let [a, b]: [__m128i; 2] = must_cast(x);
        op!([
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(a))),
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(b))),
        ])
    }

    #[inline(always)]
    fn store_bf16(self, group: [[__m256; 2]; 2]) -> [[[u16; 8]; 2]; 2] {
        let [[a, b], [c, d]] = self.round_bf16(group);
        op!({
            // Packing works within 128-bit halves: a0..3 b0..3 a4..7 b4..7.
            let ab = _mm256_packus_epi32(_mm256_srli_epi32::<16>(a), _mm256_srli_epi32::<16>(b));
            let cd = _mm256_packus_epi32(_mm256_srli_epi32::<16>(c), _mm256_srli_epi32::<16>(d));
            [
                must_cast(_mm256_permute4x64_epi64::<0b11_01_10_00>(ab)),
                must_cast(_mm256_permute4x64_epi64::<0b11_01_10_00>(cd)),
            ]
        })
    }

    #[inline(always)]
    fn store_bf16_even_odd(self, group: [[__m256; 2]; 2]) -> [[[u16; 8]; 2]; 2] {
        let [[a, b], [c, d]] = self.round_numbers(group);
        op!([
            must_cast(_mm256_blend_epi16::<0b1010_1010>(
                _mm256_srli_epi32::<16>(a),
                b
            )),
            must_cast(_mm256_blend_epi16::<0b1010_1010>(
                _mm256_srli_epi32::<16>(c),
                d
            )),
        ])
    }

    #[inline(always)]
    fn any_nan(self, x: __m256) -> bool {
        op!(_mm256_movemask_ps(_mm256_cmp_ps::<_CMP_UNORD_Q>(x, x))) != 0
    }

    #[inline(always)]
    fn butterfly<const STRIDE: usize>(self, x: __m256) -> __m256 {
        // A product with 1 or -1 is exact: one rounding, and no instruction for the sign.
        op!({
            let other = match STRIDE {
                1 => _mm256_permute_ps::<0b10_11_00_01>(x),
                2 => _mm256_permute_ps::<0b01_00_11_10>(x),
                _ => _mm256_permute2f128_ps::<1>(x, x),
            };
            _mm256_fmadd_ps(x, must_cast(const { super::signs::<8>(STRIDE) }), other)
        })
    }

    #[inline(always)]
    fn to_deinterleaved(self, x: __m256) -> __m256 {
        must_cast(op!(_mm256_permute4x64_pd::<0b11_01_10_00>(must_cast(x))))
    }

    #[inline(always)]
    fn undo_deinterleaved(self, x: __m256) -> __m256 {
        // Swapping the middle quarters undoes itself.
        self.to_deinterleaved(x)
    }
}

impl SimdQuant for Avx2 {
    x86_text!(SimdQuant);

    /// Doubles the products, truncates them, moves each number away from zero by one, halves it and truncates again:
    /// the nearest integer. This takes two instructions on 16 bits; adding a half with the product's sign takes three
    /// on 32.
    #[inline(always)]
    fn store_i8_products(self, x: [__m256; 4], by: [__m256; 4]) -> [[u8; 8]; 4] {
        let ([a, b, c, d], [e, f, g, h]) = (x, by);
        let doubled = |x, by| op!(_mm256_cvttps_epi32(_mm256_mul_ps(x, _mm256_add_ps(by, by))));
        let nearest = |a, b| {
            op!({
                let doubled = _mm256_packs_epi32(a, b);
                let positive = _mm256_cmpgt_epi16(doubled, _mm256_set1_epi16(-1));
                _mm256_srai_epi16::<1>(_mm256_sub_epi16(doubled, positive))
            })
        };
        let codes = op!(_mm256_packs_epi16(
            nearest(doubled(a, e), doubled(b, f)),
            nearest(doubled(c, g), doubled(d, h)),
        ));
        if !self.has_least(codes) {
            return self.in_order(codes);
        }
        cold_path();
        self.store_i8_away(self.products(x, by), BELOW_HALF)
    }

    #[inline(always)]
    fn interleave_codes(self, codes: [[u8; 8]; 4]) -> [[u8; 8]; 4] {
        // Eight even ones and eight odd ones are in each half.
        op!(must_cast(_mm256_shuffle_epi8(
            must_cast(codes),
            must_cast([INTERLEAVED; 2])
        )))
    }

    #[inline(always)]
    fn nearest_nonlinear(self, x: __m256) -> ([i32; 8], __m256) {
        // Bit by bit: the bits found so far select the limit that decides the next one. A comparison is -1 where it
        // holds, so codes are negative until the end.
        op!({
            let middle = self.splat(NONLINEAR_LIMITS[7]);
            let first = _mm256_cmp_ps::<_CMP_NLT_UQ>(x, middle);
            let (low, high) = (
                self.splat(NONLINEAR_LIMITS[3]),
                self.splat(NONLINEAR_LIMITS[11]),
            );
            let limits = _mm256_blendv_ps(low, high, first);
            let second = _mm256_cmp_ps::<_CMP_NLT_UQ>(x, limits);
            let code = self.append_bit(_mm256_castps_si256(first), second);
            let limits = _mm256_permutevar8x32_ps(must_cast(const { deciding_limits(1) }), code);
            let third = _mm256_cmp_ps::<_CMP_NLT_UQ>(x, limits);
            let code = self.append_bit(code, third);
            let limits = _mm256_permutevar8x32_ps(must_cast(const { deciding_limits(0) }), code);
            let fourth = _mm256_cmp_ps::<_CMP_NLT_UQ>(x, limits);
            let code = self.append_bit(code, fourth);
            // The permutation takes the last three bits.
            let values = _mm256_blendv_ps(
                _mm256_permutevar8x32_ps(must_cast(const { nonlinear_values(0) }), code),
                _mm256_permutevar8x32_ps(must_cast(const { nonlinear_values(8) }), code),
                first,
            );
            let codes = _mm256_sub_epi32(_mm256_setzero_si256(), code);
            (must_cast(codes), values)
        })
    }

    #[inline(always)]
    fn fifth_bits(self, numbers: &[i32; 32]) -> u32 {
        let mut bits = 0;
        for (index, eight) in numbers.as_chunks::<8>().0.iter().enumerate() {
            // To the place of the sign.
            let signs = op!(_mm256_movemask_ps(_mm256_castsi256_ps(
                _mm256_slli_epi32::<27>(must_cast(*eight))
            )));
            bits |= signs.cast_unsigned() << (8 * index);
        }
        bits
    }

    #[inline(always)]
    fn max_lane(self, x: __m256) -> f32 {
        op!({
            let four = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x));
            let two = _mm_max_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)))
        })
    }

    #[inline(always)]
    fn extreme_lanes<const LARGEST: bool>(self, x: [__m256; 4]) -> [f32; 4] {
        self.extreme_halves::<LARGEST>(self.fold::<LARGEST>(x))
    }

    #[inline(always)]
    fn append_four(self, x: __m256, four: [f32; 4]) -> __m256 {
        op!(_mm256_permute2f128_ps::<0x21>(
            x,
            _mm256_castps128_ps256(must_cast(four))
        ))
    }
}

impl SimdSums for Avx2 {
    x86_text!(SimdSums);

    #[inline(always)]
    fn any_not_normal(self, [a, b, c, d]: [__m256; 4]) -> bool {
        let [a, b] = [self.above_subnormal(a), self.above_subnormal(b)];
        let [c, d] = [self.above_subnormal(c), self.above_subnormal(d)];
        op!({
            let most = _mm256_max_epu32(_mm256_max_epu32(a, b), _mm256_max_epu32(c, d));
            let infinity = _mm256_set1_epi32(0xfe00_0000_u32 as i32);
            _mm256_movemask_epi8(_mm256_cmpeq_epi32(_mm256_max_epu32(most, infinity), most)) != 0
        })
    }

    #[inline(always)]
    fn to_deinterleaved_wide(self, [a, b]: [__m256d; 2]) -> [__m256d; 2] {
        // Pairs 0 2 1 3.
        op!([
            _mm256_permute4x64_pd::<0b11_01_10_00>(a),
            _mm256_permute4x64_pd::<0b11_01_10_00>(b),
        ])
    }

    #[inline(always)]
    fn undo_deinterleaved_wide(self, [a, b]: [__m256d; 2]) -> [__m256d; 2] {
        self.to_deinterleaved_wide([a, b])
    }
}

impl SimdF64 for Avx2 {
    x86_text!(SimdF64);

    #[inline(always)]
    fn pick(self, of: &[f64; 4], halves: &[[u32; 2]; 8], part: usize) -> __m256d {
        op!(_mm256_castps_pd(_mm256_permutevar8x32_ps(
            must_cast(*of),
            must_cast(halves.as_chunks::<4>().0[part]),
        )))
    }
    #[inline(always)]
    fn differ_as_f32(self, a: __m256d, b: __m256d) -> u32 {
        op!({
            let apart = _mm_cmpneq_ps(_mm256_cvtpd_ps(a), _mm256_cvtpd_ps(b));
            _mm_movemask_ps(apart) as u32
        })
    }
    #[inline(always)]
    fn quarter_turns(self, quarters: __m256d, cos: __m256d, sin: __m256d) -> (__m256d, __m256d) {
        op!({
            let q = _mm256_castpd_si256(quarters);
            let sign = _mm256_set1_epi64x(SIGN as i64);
            let odd = _mm256_castsi256_pd(_mm256_slli_epi64::<63>(q));
            let c = _mm256_blendv_pd(cos, sin, odd);
            let s = _mm256_blendv_pd(sin, cos, odd);
            let one = _mm256_set1_epi64x(1);
            let c_sign = _mm256_and_si256(_mm256_slli_epi64::<62>(_mm256_add_epi64(q, one)), sign);
            let s_sign = _mm256_and_si256(_mm256_slli_epi64::<62>(q), sign);
            (
                _mm256_xor_pd(c, _mm256_castsi256_pd(c_sign)),
                _mm256_xor_pd(s, _mm256_castsi256_pd(s_sign)),
            )
        })
    }
    /// Both values in one vector: what lies below an f32 fits in the low 32 bits of a double.
    #[inline(always)]
    fn any_doubt<const REACH: u64>(
        self,
        [a, b]: [__m256d; 2],
        whole: __m256d,
        small: __m256d,
        least: f64,
    ) -> bool {
        op!({
            let low = _mm256_shuffle_ps::<0x88>(_mm256_castpd_ps(a), _mm256_castpd_ps(b));
            let reach = _mm256_set1_epi32((REACH as i32) - (MIDPOINT as i32));
            let outside = _mm256_set1_epi32((BELOW_F32 & !(2 * REACH - 1)) as i32);
            let beyond =
                _mm256_and_si256(_mm256_add_epi32(_mm256_castps_si256(low), reach), outside);
            let near = _mm256_cmpeq_epi32(beyond, _mm256_setzero_si256());
            let lost = _mm256_and_pd(
                _mm256_cmp_pd::<_CMP_NEQ_UQ>(whole, _mm256_setzero_pd()),
                _mm256_cmp_pd::<_CMP_NGE_UQ>(small, _mm256_set1_pd(least)),
            );
            let doubt = _mm256_or_pd(_mm256_castsi256_pd(near), lost);
            _mm256_movemask_ps(_mm256_castpd_ps(doubt)) != 0
        })
    }
}
