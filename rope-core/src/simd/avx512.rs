//! Sixteen lanes: AVX-512 F, BW, DQ, VL, and VBMI2 as the mark of a core where 512-bit registers pay (Intel since Ice
//! Lake, AMD since Zen 4).
//!
//! | operation | instructions | Zen 4 | Zen 5 |
//! |---|---|---|---|
//! | `add`, `sub` | `vaddps` | 1 per cycle | 2 |
//! | `mul` | `vmulps` | 1 | 2 |
//! | `unzip` | 2 `vshufps` | 1/2 | 1 |
//! | `zip` | 2 `vunpck*ps` | 1/2 | 1 |
//! | `to_deinterleaved`, `undo_deinterleaved` | `vpermpd` | 1 | 1 |
//! | `load_f16`, `store_f16` | `vcvtph2ps`, `vcvtps2ph` | 1/2 | 1 |
//! | `load_bf16_even_odd` | `vpslld`, `vpandd` | 2 | 2 |
//! | `store_bf16_even_odd`, a vector | `vptestmd`, 2 `vpaddd`, half a `vpshufb` | | |
//!
//! A second backend, for AVX512-BF16 and VBMI (Intel since Sapphire Rapids, AMD since Zen 4), differs in bf16 only:
//! `VPERMB` widens 16 words in their own order, and `VCVTNE2PS2BF16` rounds two vectors at once. That instruction
//! flushes subnormals to zero, which is wrong for 16,711,678 of the 2^32 floats. A group with such a float is rounded
//! by integers.

use core::hint::{black_box, cold_path};
use core::mem::transmute;

use bytemuck::{Pod, cast_slice_mut, must_cast};
use half::bf16;

use super::avx2::{Avx2, INTERLEAVED};
use super::double::{BELOW_F32, MIDPOINT, SIGN};
use super::quant::{E2M1_LEAST, NONLINEAR, NONLINEAR_LIMITS};
use super::slices::FromF32;
use super::text::{operations, rounding};
use super::x86::arch::*;
use super::x86::arch::{
    __m256 as HalfFloats, __m512 as Floats, __m512d as Doubles, __m512i as Integers,
    _mm512_add_pd as add_pd, _mm512_add_ps as add_ps, _mm512_and_ps as and_ps,
    _mm512_and_si512 as and_si, _mm512_andnot_si512 as andnot_si, _mm512_castps_si512 as castps_si,
    _mm512_castsi512_ps as castsi_ps, _mm512_cvtpd_ps as cvtpd_ps, _mm512_cvtph_ps as cvtph_ps,
    _mm512_cvtps_epi32 as cvtps_epi32, _mm512_cvtps_pd as cvtps_pd, _mm512_cvtps_ph as cvtps_ph,
    _mm512_cvttps_epi32 as cvttps_epi32, _mm512_div_ps as div_ps, _mm512_fmadd_pd as fmadd_pd,
    _mm512_fmadd_ps as fmadd_ps, _mm512_fmsub_pd as fmsub_pd, _mm512_madd_epi16 as madd_epi16,
    _mm512_maddubs_epi16 as maddubs_epi16, _mm512_max_ps as max_ps, _mm512_min_epi16 as min_epi16,
    _mm512_min_epu8 as min_epu8, _mm512_min_ps as min_ps, _mm512_mul_pd as mul_pd,
    _mm512_mul_ps as mul_ps, _mm512_or_ps as or_ps, _mm512_or_si512 as or_si,
    _mm512_packs_epi16 as packs_epi16, _mm512_packs_epi32 as packs_epi32,
    _mm512_packus_epi16 as packus_epi16, _mm512_permute_ps as permute_ps,
    _mm512_set1_epi8 as set1_epi8, _mm512_set1_epi16 as set1_epi16,
    _mm512_set1_epi32 as set1_epi32, _mm512_set1_pd as set1_pd, _mm512_set1_ps as set1_ps,
    _mm512_shuffle_ps as shuffle_ps, _mm512_slli_epi32 as slli_epi32, _mm512_sqrt_ps as sqrt_ps,
    _mm512_srl_epi16 as srl_epi16, _mm512_srli_epi16 as srli_epi16, _mm512_sub_epi16 as sub_epi16,
    _mm512_sub_pd as sub_pd, _mm512_sub_ps as sub_ps, _mm512_unpackhi_pd as unpackhi_pd,
    _mm512_unpackhi_ps as unpackhi_ps, _mm512_unpacklo_pd as unpacklo_pd,
    _mm512_unpacklo_ps as unpacklo_ps,
};
use super::x86::x86_text;
use super::{CacheLine, InstructionSet, MemoryKernel, Simd, SimdF64, SimdQuant, SimdSums, cpu};

/// The proof that the CPU has AVX-512 F, BW, DQ, VL and VBMI2, and AVX512-BF16 with VBMI if `BF16`. It holds the token
/// of the AVX2 backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token<const BF16: bool> {
    narrower: Avx2,
    /// [`UPPER`], hidden from LLVM, which replaces a shuffle under a constant mask by a shuffle and an `and` (bf16:
    /// 1.15 to 1.25 times the time).
    upper: u64,
}

pub(crate) type Avx512 = Token<false>;
pub(crate) type Avx512Bf16 = Token<true>;

/// f32 lanes of a vector.
const LANES: usize = 16;

/// Intrinsics of the instruction set that this file's token proves.
macro_rules! op {
    ($operation:expr) => {
        // SAFETY: these intrinsics compute on values (a prefetch accepts any address) and require only CPU features
        // that `detect` has found, or there would be no `Token`. Only code for `BF16` calls AVX512-BF16 and VBMI.
        unsafe { $operation }
    };
}

impl<const BF16: bool> Token<BF16> {
    x86_text!(helpers);

    pub(crate) fn detect() -> Option<Self> {
        let found = if BF16 {
            cpu::has_avx512_bf16()
        } else {
            cpu::has_avx512()
        };
        let narrower = Avx2::detect().filter(|_| found)?;
        Some(Token {
            narrower,
            upper: black_box(UPPER),
        })
    }

    /// Returns the token that the kernel is compiled for.
    #[inline(always)]
    fn other<const OTHER: bool>(self) -> Token<OTHER> {
        Token {
            narrower: self.narrower,
            upper: self.upper,
        }
    }

    /// The magnitude mask of a bf16, computed from a value that LLVM cannot see. LLVM would turn a test under a
    /// constant mask into a comparison of widened bf16 numbers.
    #[inline(always)]
    fn magnitude(self) -> i16 {
        const FROM_UPPER: u16 = 0x7fff_u16.wrapping_sub(UPPER as u16);
        (self.upper as u16).wrapping_add(FROM_UPPER) as i16
    }

    /// The number 1, likewise.
    #[inline(always)]
    fn one(self) -> i32 {
        const FROM_UPPER: u32 = 1_u32.wrapping_sub(UPPER as u32);
        (self.upper as u32).wrapping_add(FROM_UPPER) as i32
    }

    /// Rounds a group by the instruction of AVX512-BF16, and packs each two vectors in their own order.
    ///
    /// The instruction flushes subnormals to zero. A flushed subnormal shows as a zero word; three instructions test
    /// for one. Zeros are common, so a zero word leads to a test of the numbers themselves.
    #[inline(always)]
    fn pack_bf16(self, group: [[__m512; 2]; 2]) -> [__m512i; 2] {
        const SUBNORMAL: i32 = 1 << 5;
        let [[a, b], [c, d]] = group;
        let (words, zero) = op!({
            let ab = transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(b, a));
            let cd = transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(d, c));
            let magnitude = _mm512_set1_epi16(self.magnitude());
            (
                [ab, cd],
                _mm512_testn_epi16_mask(ab, magnitude) | _mm512_testn_epi16_mask(cd, magnitude),
            )
        });
        if zero == 0 {
            return words;
        }
        cold_path();
        let flushed = op!({
            let ab =
                _mm512_fpclass_ps_mask::<SUBNORMAL>(a) | _mm512_fpclass_ps_mask::<SUBNORMAL>(b);
            let cd =
                _mm512_fpclass_ps_mask::<SUBNORMAL>(c) | _mm512_fpclass_ps_mask::<SUBNORMAL>(d);
            ab | cd
        });
        if flushed == 0 {
            return words;
        }
        // Rounds by integers in a separate function: inside the loop, the code would prevent unrolling.
        let values: [[f32; 16]; 4] = must_cast(group);
        let mut words = [[0_u16; 16]; 4];
        let bytes = cast_slice_mut(words.as_flattened_mut());
        // A new mask: sharing the loop's would cost the loop a register.
        let integers = Token::<false> {
            narrower: self.narrower,
            upper: black_box(UPPER),
        };
        integers.enter(FromF32::<bf16>::new(values.as_flattened(), bytes));
        let [ab, cd]: [[[u16; 16]; 2]; 2] = must_cast(words);
        [must_cast(ab), must_cast(cd)]
    }

    /// Rounds to the upper 16 bits of each lane, to nearest, ties to even, unless it is a NaN. The lower 16 are left
    /// over.
    ///
    /// To add the last bit under a mask takes three instructions where shift, mask and two additions take four. If the
    /// compiler knew that bit, it would blend 0x7fff and 0x8000 under the mask, ahead of the addition.
    #[inline(always)]
    fn round_number(self, x: __m512) -> __m512i {
        op!({
            let bits = _mm512_castps_si512(x);
            let odd = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(0x1_0000));
            let up = _mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff));
            _mm512_mask_add_epi32(up, odd, up, _mm512_set1_epi32(self.one()))
        })
    }

    /// Returns true if one of four vectors has a NaN.
    #[inline(always)]
    fn nan_in_four(self, [a, b, c, d]: [__m512; 4]) -> bool {
        let nan = op!(
            _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(a, b) | _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(c, d)
        );
        nan != 0
    }

    /// Replaces the rounded lanes of NaNs by quiet NaNs.
    #[inline(always)]
    fn quiet(self, rounded: __m512i, x: __m512) -> __m512i {
        op!({
            let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x, x);
            let quiet_bit = _mm512_set1_epi32(0x0040_0000);
            _mm512_mask_or_epi32(rounded, nan, _mm512_castps_si512(x), quiet_bit)
        })
    }

    /// Converts four vectors to integers, rounded (ties to even) or truncated, and saturates them to bytes; a NaN
    /// becomes 0. Packs within 128 bits, so the codes are in the order of its lanes.
    #[inline(always)]
    fn integers<const EVEN: bool>(self, x: [__m512; 4]) -> __m512i {
        // Below the range of `i32` is the least `i32`.
        let integers = |x| {
            let inside = op!(_mm512_min_ps(x, _mm512_set1_ps(127.0)));
            if EVEN {
                op!(_mm512_cvtps_epi32(inside))
            } else {
                op!(_mm512_cvttps_epi32(inside))
            }
        };
        let [a, b, c, d] = self.numbers(x);
        self.pack([integers(a), integers(b), integers(c), integers(d)])
    }

    /// Four vectors with zeros instead of NaNs.
    #[inline(always)]
    fn numbers(self, x @ [a, b, c, d]: [__m512; 4]) -> [__m512; 4] {
        if !self.nan_in_four(x) {
            return x;
        }
        cold_path();
        op!([
            _mm512_maskz_mov_ps(_mm512_cmp_ps_mask::<_CMP_ORD_Q>(a, a), a),
            _mm512_maskz_mov_ps(_mm512_cmp_ps_mask::<_CMP_ORD_Q>(b, b), b),
            _mm512_maskz_mov_ps(_mm512_cmp_ps_mask::<_CMP_ORD_Q>(c, c), c),
            _mm512_maskz_mov_ps(_mm512_cmp_ps_mask::<_CMP_ORD_Q>(d, d), d),
        ])
    }

    /// Ones in the lanes of NaNs.
    #[inline(always)]
    fn nan_lanes(self, x: __m512) -> __m512i {
        op!(_mm512_movm_epi32(_mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x, x)))
    }

    /// The magnitudes.
    #[inline(always)]
    fn abs(self, x: __m512) -> __m512 {
        op!(_mm512_abs_ps(x))
    }

    /// Four vectors with 6 instead of NaNs.
    #[inline(always)]
    fn six_for_nan(self, [a, b, c, d]: [__m512; 4]) -> [__m512; 4] {
        op!({
            let six = set1_ps(6.0);
            [
                _mm512_mask_mov_ps(six, _mm512_cmp_ps_mask::<_CMP_ORD_Q>(a, a), a),
                _mm512_mask_mov_ps(six, _mm512_cmp_ps_mask::<_CMP_ORD_Q>(b, b), b),
                _mm512_mask_mov_ps(six, _mm512_cmp_ps_mask::<_CMP_ORD_Q>(c, c), c),
                _mm512_mask_mov_ps(six, _mm512_cmp_ps_mask::<_CMP_ORD_Q>(d, d), d),
            ]
        })
    }

    /// The codes of two pairs of even and odd numbers.
    #[inline(always)]
    fn e2m1_pairs(self, [a, b, c, d]: [__m512; 4]) -> [[u8; 16]; 2] {
        [self.e2m1_pair(a, b), self.e2m1_pair(c, d)]
    }

    /// The codes of even and odd numbers. With the odd ones counted 16 times, no sign moves a bit of a code: a sum has
    /// the even code from bit 6 on, the odd one from bit 10 on, and bits 15 and 19 are 0 for negative numbers.
    #[inline(always)]
    fn e2m1_pair(self, even: __m512, odd: __m512) -> [u8; 16] {
        /// The first input, or, where the third is set, the opposite of the second.
        const SELECT: i32 = 0x72;
        let (even, odd) = (self.e2m1_sum(even), self.e2m1_sum(odd));
        op!({
            let both = _mm512_add_epi32(
                madd_epi16(even, set1_epi32(1 << 16 | 64)),
                madd_epi16(odd, set1_epi32((16 << 16) | (16 * 64))),
            );
            must_cast(_mm512_cvtepi32_epi8(_mm512_ternarylogic_epi32::<SELECT>(
                _mm512_srli_epi32::<6>(both),
                _mm512_srli_epi32::<12>(both),
                set1_epi32(0x88),
            )))
        })
    }

    /// The sum of `f8_sum` for E2M1, with the sign of the number, which saturates at 6. The power of two is larger by a
    /// few of its units, so that the upper word and 64 times the lower one are 64 times the code, plus `2^15` for
    /// positive numbers.
    #[inline(always)]
    fn e2m1_sum(self, x: __m512) -> __m512i {
        const SMALLER: i32 = 0b10;
        const LARGER: i32 = 0b11;
        /// The upper word of the sum of zero.
        const ZERO: u32 = (E2M1_LEAST + (22 << 23)) >> 16;
        const FINER: u32 = (1 << 22) + (0x8000 - ZERO) / 128;
        op!({
            let inside = _mm512_range_ps::<SMALLER>(x, set1_ps(6.0));
            let exponent = and_ps(inside, castsi_ps(set1_epi32(0xff80_0000_u32 as i32)));
            let power = _mm512_range_ps::<LARGER>(exponent, set1_ps(f32::from_bits(E2M1_LEAST)));
            _mm512_castps_si512(fmadd_ps(power, set1_ps(FINER as f32), inside))
        })
    }

    /// The larger lanes of adjacent quarters of two vectors: in each quarter, those of one half.
    #[inline(always)]
    fn fold_quarters(self, a: __m512, b: __m512) -> __m512 {
        op!(max_ps(
            _mm512_shuffle_f32x4::<0b10_00_10_00>(a, b),
            _mm512_shuffle_f32x4::<0b11_01_11_01>(a, b),
        ))
    }

    /// The largest magnitudes of at most eight groups of 16-bit floats in each 128 bits, in the order of the groups.
    ///
    /// A shift across two vectors and a blend bring their halves together, on two ports. Unpacking takes two shuffles,
    /// for which there is one port.
    #[inline(always)]
    fn fold_groups<const EACH: usize>(self, groups: &[[[[u16; 16]; 2]; EACH]]) -> __m512i {
        let mut padded;
        let [a, b, c, d, e, f, g, h] = match groups.first_chunk() {
            Some(groups) => groups,
            None => {
                padded = [[[[0; 16]; 2]; EACH]; 8];
                for (padded, group) in padded.iter_mut().zip(groups) {
                    *padded = *group;
                }
                &padded
            }
        };
        let [ab, cd, ef, gh] = [
            self.fold_word_pairs(self.magnitude_words(a), self.magnitude_words(b)),
            self.fold_word_pairs(self.magnitude_words(c), self.magnitude_words(d)),
            self.fold_word_pairs(self.magnitude_words(e), self.magnitude_words(f)),
            self.fold_word_pairs(self.magnitude_words(g), self.magnitude_words(h)),
        ];
        let [abcd, efgh] = [self.fold_lane_pairs(ab, cd), self.fold_lane_pairs(ef, gh)];
        op!(_mm512_max_epu16(
            _mm512_mask_blend_epi64(0xaa, abcd, efgh),
            _mm512_alignr_epi8::<8>(efgh, abcd),
        ))
    }

    /// The largest magnitudes of vectors of 16-bit floats, as their bits.
    #[inline(always)]
    fn magnitude_words(self, vectors: &[[[u16; 16]; 2]]) -> __m512i {
        let mut largest = op!(_mm512_setzero_si512());
        for vector in vectors {
            largest = op!({
                let magnitudes = and_si(must_cast(*vector), set1_epi16(0x7fff));
                _mm512_max_epu16(largest, magnitudes)
            });
        }
        largest
    }

    /// The larger words of each 32 bits of two vectors, alternating.
    #[inline(always)]
    fn fold_word_pairs(self, a: __m512i, b: __m512i) -> __m512i {
        op!(_mm512_max_epu16(
            _mm512_mask_blend_epi16(0xaaaa_aaaa, a, b),
            _mm512_shldi_epi32::<16>(b, a),
        ))
    }

    /// The larger words of both halves of each 64 bits of two vectors, alternating.
    #[inline(always)]
    fn fold_lane_pairs(self, a: __m512i, b: __m512i) -> __m512i {
        op!(_mm512_max_epu16(
            _mm512_mask_blend_epi32(0xaaaa, a, b),
            _mm512_shldi_epi64::<32>(b, a),
        ))
    }

    /// The low bytes of words.
    #[inline(always)]
    fn low_bytes(self, words: __m512i) -> __m256i {
        op!(_mm512_cvtepi16_epi8(words))
    }

    /// The low bytes of words packed within 128 bits: four pairs of each vector, in the order of the vectors.
    #[inline(always)]
    fn pairs_in_order(self, words: __m512i) -> [[u8; 16]; 2] {
        const IN_ORDER: [u16; 16] = [0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15];
        must_cast(op!(_mm256_permutexvar_epi16(
            must_cast(IN_ORDER),
            self.low_bytes(words)
        )))
    }

    /// Bytes that were packed within 128 bits, in order.
    #[inline(always)]
    fn in_order(self, codes: __m512i) -> [[u8; 16]; 4] {
        const IN_ORDER: [u32; 16] = [0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15];
        must_cast(op!(_mm512_permutexvar_epi32(must_cast(IN_ORDER), codes)))
    }
}

/// The bytes of the upper halves of lanes.
const UPPER: u64 = 0xcccc_cccc_cccc_cccc;

/// Words 0 to 15 to the upper halves of lanes, as bytes; and words 16 to 31.
const WIDEN: [[u8; 64]; 2] = {
    let mut index = [[0; 64]; 2];
    let mut i = 0;
    while i < 64 {
        index[0][i] = (i / 4 * 2 + i % 2) as u8;
        index[1][i] = index[0][i] + 32;
        i += 1;
    }
    index
};

/// Words 0 and 16, 1 and 17, and so on, as bytes.
const ALTERNATE: [u8; 64] = {
    let mut index = [0; 64];
    let mut i = 0;
    while i < 64 {
        index[i] = (i / 2 % 2 * 32 + i / 4 * 2 + i % 2) as u8;
        i += 1;
    }
    index
};

/// The upper half of each lane to the lower, as bytes of a quarter.
const DOWN: [u8; 64] = {
    let mut index = [0; 64];
    let mut i = 0;
    while i < 64 {
        index[i] = (i % 16 / 4 * 4 + 2 + i % 2) as u8;
        i += 1;
    }
    index
};

/// The upper words of 16 lanes, then of 16 more.
const UPPER_WORDS: [u16; 32] = {
    let mut index = [0; 32];
    let mut i = 0;
    while i < 32 {
        index[i] = 2 * i as u16 + 1;
        i += 1;
    }
    index
};

/// The limit of IQ4_NL that is `more` places after each code.
const fn limits_after(more: usize) -> [f32; 16] {
    let mut limits = [0.0; 16];
    let mut code = 0;
    while code + more < 15 {
        limits[code] = NONLINEAR_LIMITS[code + more];
        code += 1;
    }
    limits
}

/// The values of IQ4_NL's codes as f32.
const fn nonlinear_values() -> [f32; 16] {
    let mut values = [0.0; 16];
    let mut code = 0;
    while code < 16 {
        values[code] = NONLINEAR[code] as f32;
        code += 1;
    }
    values
}

/// The order in which `unzip` leaves two pairs and `unzip_wide` one, and its inverse.
const ORDER: [u64; 8] = [0, 4, 1, 5, 2, 6, 3, 7];
const UNORDER: [u64; 8] = [0, 2, 4, 6, 1, 3, 5, 7];

/// Indices that alternate the lanes of two vectors; 16 is the first lane of the second.
const ALTERNATING: [[u32; 16]; 2] = [
    [0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23],
    [8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31],
];

impl<const BF16: bool> InstructionSet for Token<BF16> {
    type Narrower = Avx2;
    const STREAMS: bool = true;

    #[inline(always)]
    fn enter_in<K: MemoryKernel>(self, memory: &mut [u8], from: usize, kernel: K) {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi2,avx2,fma,f16c")]
        fn inside<K: MemoryKernel>(token: Avx512, memory: &mut [u8], from: usize, kernel: K) {
            kernel.run_in(token, memory, from);
        }
        #[target_feature(
            enable = "avx512bf16,avx512vbmi,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi2,avx2,fma,f16c"
        )]
        fn inside_bf16<K: MemoryKernel>(
            token: Avx512Bf16,
            memory: &mut [u8],
            from: usize,
            kernel: K,
        ) {
            kernel.run_in(token, memory, from);
        }
        if const { BF16 && K::BF16 } {
            // SAFETY: the CPU has these features, or `self` would not exist.
            unsafe { inside_bf16(self.other(), memory, from, kernel) }
        } else {
            // SAFETY: the CPU has these features, or `self` would not exist.
            unsafe { inside(self.other(), memory, from, kernel) }
        }
    }

    #[inline(always)]
    fn narrower(self) -> Avx2 {
        self.narrower
    }

    #[inline(always)]
    unsafe fn stream(self, to: &mut CacheLine, from: CacheLine) {
        // SAFETY: the caller promises that nobody accesses the line before a fence.
        unsafe { self.narrower.stream(to, from) }
    }
}

impl<const BF16: bool> Simd for Token<BF16> {
    x86_text!(Simd);
    // A head of 128 channels. Larger heads take more passes: 8 of some 80 instructions per head, for a tenth less code.
    const GROUPS: usize = 2;
    // 16 of the 32 registers.
    const DOUBLED_GROUPS: usize = 2;
    const PREFETCHES: bool = true;
    const INTERLEAVED_MAX_BYTES: usize = 4;
    const WIDENS_IN_ORDER: bool = BF16;
    const NARROWS_ARITHMETIC_NAN: bool = !BF16;
    const WRITES_HALVES: bool = true;
    // With loads of 64 bytes the CPU's own prefetcher falls behind; it does not with loads of 32 bytes.
    const PREFETCHES_HEADS: bool = true;

    #[inline(always)]
    fn load_bf16(self, x: [[u16; 16]; 2]) -> [__m512; 2] {
        if BF16 {
            // One shuffle, with zeros below, where a conversion and a shift are two.
            let x: __m512i = must_cast(x);
            return op!([
                must_cast(_mm512_maskz_permutexvar_epi8(
                    self.upper,
                    must_cast(WIDEN[0]),
                    x
                )),
                must_cast(_mm512_maskz_permutexvar_epi8(
                    self.upper,
                    must_cast(WIDEN[1]),
                    x
                )),
            ]);
        }
        let [a, b]: [__m256i; 2] = must_cast(x);
        op!([
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(a))),
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(b))),
        ])
    }

    #[inline(always)]
    fn store_bf16(self, group: [[__m512; 2]; 2]) -> [[[u16; 16]; 2]; 2] {
        if BF16 {
            return must_cast(self.pack_bf16(group));
        }
        let [[a, b], [c, d]] = self.round_bf16(group);
        let upper = must_cast(UPPER_WORDS);
        op!([
            must_cast(_mm512_permutex2var_epi16(a, upper, b)),
            must_cast(_mm512_permutex2var_epi16(c, upper, d)),
        ])
    }

    #[inline(always)]
    fn store_bf16_even_odd(self, group: [[__m512; 2]; 2]) -> [[[u16; 16]; 2]; 2] {
        if BF16 {
            let [ab, cd] = self.pack_bf16(group);
            let alternate = must_cast(ALTERNATE);
            return op!([
                must_cast(_mm512_permutexvar_epi8(alternate, ab)),
                must_cast(_mm512_permutexvar_epi8(alternate, cd)),
            ]);
        }
        // One shuffle under a mask moves the upper word of an even lane below the upper word of an odd lane.
        let (lower, down) = (!self.upper, must_cast(DOWN));
        let [[a, b], [c, d]] = self.round_numbers(group);
        op!([
            must_cast(_mm512_mask_shuffle_epi8(b, lower, a, down)),
            must_cast(_mm512_mask_shuffle_epi8(d, lower, c, down)),
        ])
    }

    #[inline(always)]
    fn any_nan(self, x: __m512) -> bool {
        op!(_mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x, x)) != 0
    }

    #[inline(always)]
    fn butterfly<const STRIDE: usize>(self, x: __m512) -> __m512 {
        // As in `avx2.rs`.
        op!({
            let other = match STRIDE {
                1 => _mm512_permute_ps::<0b10_11_00_01>(x),
                2 => _mm512_permute_ps::<0b01_00_11_10>(x),
                4 => _mm512_shuffle_f32x4::<0b10_11_00_01>(x, x),
                _ => _mm512_shuffle_f32x4::<0b01_00_11_10>(x, x),
            };
            _mm512_fmadd_ps(x, must_cast(const { super::signs::<16>(STRIDE) }), other)
        })
    }

    #[inline(always)]
    fn to_deinterleaved(self, x: __m512) -> __m512 {
        must_cast(op!(_mm512_permutexvar_pd(must_cast(ORDER), must_cast(x))))
    }

    #[inline(always)]
    fn undo_deinterleaved(self, x: __m512) -> __m512 {
        must_cast(op!(_mm512_permutexvar_pd(must_cast(UNORDER), must_cast(x))))
    }

    #[inline(always)]
    fn interleave(self, [x, y]: [__m512; 2]) -> [__m512; 2] {
        op!([
            _mm512_permutex2var_ps(x, must_cast(ALTERNATING[0]), y),
            _mm512_permutex2var_ps(x, must_cast(ALTERNATING[1]), y),
        ])
    }
}

impl<const BF16: bool> SimdQuant for Token<BF16> {
    x86_text!(SimdQuant);
    const PAIRS_E2M1: bool = true;

    #[inline(always)]
    fn store_e2m1_even_odd(self, x: [__m512; 4]) -> [[u8; 16]; 2] {
        if self.nan_in_four(x) {
            cold_path();
            return self.e2m1_pairs(self.six_for_nan(x));
        }
        self.e2m1_pairs(x)
    }

    #[inline(always)]
    fn splat_halves(self, [low, high]: [f32; 2]) -> __m512 {
        op!(_mm512_mask_blend_ps(
            0xff00,
            _mm512_set1_ps(low),
            _mm512_set1_ps(high)
        ))
    }

    #[inline(always)]
    fn fold_halves(self, [a, b]: [__m512; 2]) -> __m512 {
        op!(_mm512_max_ps(
            _mm512_shuffle_f32x4::<0b01_00_01_00>(a, b),
            _mm512_shuffle_f32x4::<0b11_10_11_10>(a, b),
        ))
    }

    #[inline(always)]
    fn largest_of_halves(self, [a, b, c, d, e, f, g, h]: [__m512; 8]) -> [f32; 16] {
        // A lane of each vector in each quarter.
        let lanes = self.fold::<true>([
            self.fold_quarters(a, b),
            self.fold_quarters(c, d),
            self.fold_quarters(e, f),
            self.fold_quarters(g, h),
        ]);
        must_cast(self.in_order(op!(_mm512_castps_si512(lanes))))
    }

    #[inline(always)]
    fn largest_words<const EACH: usize>(
        self,
        groups: &[[[[u16; 16]; 2]; EACH]],
        infinity: u16,
    ) -> Option<[[u16; 16]; 2]> {
        // Lanes of 128 bits: both halves of the first eight groups, then of the others.
        let first = self.fold_groups(groups);
        let second = match groups.get(8..) {
            Some(groups) if !groups.is_empty() => self.fold_groups(groups),
            _ => first,
        };
        let (largest, nan) = op!({
            let largest = _mm512_max_epu16(
                _mm512_shuffle_i64x2::<0b10_00_10_00>(first, second),
                _mm512_shuffle_i64x2::<0b11_01_11_01>(first, second),
            );
            let nan = _mm512_cmpgt_epu16_mask(largest, set1_epi16(infinity.cast_signed()));
            (_mm512_shuffle_i64x2::<0b11_01_10_00>(largest, largest), nan)
        });
        (nan == 0).then(|| must_cast(largest))
    }

    #[inline(always)]
    fn interleave_codes(self, codes: [[u8; 16]; 4]) -> [[u8; 16]; 4] {
        // LLVM merges this permutation with the one of `in_order`.
        const HALVES: [u64; 8] = [0, 2, 1, 3, 4, 6, 5, 7];
        op!({
            let halves = _mm512_permutexvar_epi64(must_cast(HALVES), must_cast(codes));
            must_cast(_mm512_shuffle_epi8(halves, must_cast([INTERLEAVED; 4])))
        })
    }

    #[inline(always)]
    fn nearest_nonlinear(self, x: __m512) -> ([i32; 16], __m512) {
        // Bit by bit: the bits found so far select the limit that decides the next one.
        op!({
            let middle = self.splat(NONLINEAR_LIMITS[7]);
            let first = _mm512_cmp_ps_mask::<_CMP_NLT_UQ>(x, middle);
            let code = _mm512_maskz_mov_epi32(first, _mm512_set1_epi32(8));
            let (low, high) = (
                self.splat(NONLINEAR_LIMITS[3]),
                self.splat(NONLINEAR_LIMITS[11]),
            );
            let limits = _mm512_mask_blend_ps(first, low, high);
            let second = _mm512_cmp_ps_mask::<_CMP_NLT_UQ>(x, limits);
            let code = _mm512_mask_or_epi32(code, second, code, _mm512_set1_epi32(4));
            let limits = _mm512_permutexvar_ps(code, must_cast(const { limits_after(1) }));
            let third = _mm512_cmp_ps_mask::<_CMP_NLT_UQ>(x, limits);
            let code = _mm512_mask_or_epi32(code, third, code, _mm512_set1_epi32(2));
            let limits = _mm512_permutexvar_ps(code, must_cast(const { limits_after(0) }));
            let fourth = _mm512_cmp_ps_mask::<_CMP_NLT_UQ>(x, limits);
            let code = _mm512_mask_or_epi32(code, fourth, code, _mm512_set1_epi32(1));
            let values = _mm512_permutexvar_ps(code, must_cast(const { nonlinear_values() }));
            (must_cast(code), values)
        })
    }

    #[inline(always)]
    fn fifth_bits(self, numbers: &[i32; 32]) -> u32 {
        let [low, high]: [__m512i; 2] = must_cast(*numbers);
        let [low, high] = op!({
            let fifth = _mm512_set1_epi32(1 << 4);
            [
                _mm512_test_epi32_mask(low, fifth),
                _mm512_test_epi32_mask(high, fifth),
            ]
        });
        u32::from(low) | u32::from(high) << 16
    }

    #[inline(always)]
    fn max_lane(self, x: __m512) -> f32 {
        op!(_mm512_reduce_max_ps(x))
    }

    #[inline(always)]
    fn extreme_lanes<const LARGEST: bool>(self, x: [__m512; 4]) -> [f32; 4] {
        let [low, high]: [__m256; 2] = must_cast(self.fold::<LARGEST>(x));
        let lanes = if LARGEST {
            op!(_mm256_max_ps(low, high))
        } else {
            op!(_mm256_min_ps(low, high))
        };
        self.narrower.extreme_halves::<LARGEST>(lanes)
    }

    #[inline(always)]
    fn append_four(self, x: __m512, four: [f32; 4]) -> __m512 {
        op!(_mm512_castsi512_ps(_mm512_alignr_epi32::<4>(
            _mm512_castps_si512(_mm512_castps128_ps512(must_cast(four))),
            _mm512_castps_si512(x),
        )))
    }
}

impl<const BF16: bool> SimdSums for Token<BF16> {
    x86_text!(SimdSums);

    #[inline(always)]
    fn any_not_normal(self, [a, b, c, d]: [__m512; 4]) -> bool {
        // Every class except negative numbers.
        const CLASSES: i32 = 0b1011_1111;
        op!({
            let [a, b] = [
                _mm512_fpclass_ps_mask::<CLASSES>(a),
                _mm512_fpclass_ps_mask::<CLASSES>(b),
            ];
            let [c, d] = [
                _mm512_fpclass_ps_mask::<CLASSES>(c),
                _mm512_fpclass_ps_mask::<CLASSES>(d),
            ];
            (a | b | c | d) != 0
        })
    }

    #[inline(always)]
    fn to_deinterleaved_wide(self, [a, b]: [__m512d; 2]) -> [__m512d; 2] {
        op!([
            _mm512_permutexvar_pd(must_cast(ORDER), a),
            _mm512_permutexvar_pd(must_cast(ORDER), b),
        ])
    }

    #[inline(always)]
    fn undo_deinterleaved_wide(self, [a, b]: [__m512d; 2]) -> [__m512d; 2] {
        op!([
            _mm512_permutexvar_pd(must_cast(UNORDER), a),
            _mm512_permutexvar_pd(must_cast(UNORDER), b),
        ])
    }
}

impl<const BF16: bool> SimdF64 for Token<BF16> {
    x86_text!(SimdF64);

    #[inline(always)]
    fn pick(self, of: &[f64; 4], halves: &[[u32; 2]; 8], _: usize) -> __m512d {
        op!(_mm512_castps_pd(_mm512_permutexvar_ps(
            must_cast(*halves),
            _mm512_castpd_ps(_mm512_broadcast_f64x4(must_cast(*of))),
        )))
    }
    #[inline(always)]
    fn differ_as_f32(self, a: __m512d, b: __m512d) -> u32 {
        op!({
            let (a, b) = (_mm512_cvtpd_ps(a), _mm512_cvtpd_ps(b));
            _mm256_cmp_ps_mask::<_CMP_NEQ_UQ>(a, b).into()
        })
    }
    /// `vptestmq`, two blends, two shifts, and `vpternlogq` for `value ^ (quarters & sign)`.
    #[inline(always)]
    fn quarter_turns(self, quarters: __m512d, cos: __m512d, sin: __m512d) -> (__m512d, __m512d) {
        const FLIP: i32 = 0x78; // a ^ (b & c)
        op!({
            let q = _mm512_castpd_si512(quarters);
            let one = _mm512_set1_epi64(1);
            let sign = _mm512_set1_epi64(SIGN as i64);
            let odd = _mm512_test_epi64_mask(q, one);
            let c = _mm512_castpd_si512(_mm512_mask_blend_pd(odd, cos, sin));
            let s = _mm512_castpd_si512(_mm512_mask_blend_pd(odd, sin, cos));
            let c_sign = _mm512_slli_epi64::<62>(_mm512_add_epi64(q, one));
            let s_sign = _mm512_slli_epi64::<62>(q);
            (
                _mm512_castsi512_pd(_mm512_ternarylogic_epi64::<FLIP>(c, c_sign, sign)),
                _mm512_castsi512_pd(_mm512_ternarylogic_epi64::<FLIP>(s, s_sign, sign)),
            )
        })
    }
    /// Both values in one vector: what lies below an f32 fits in the low 32 bits of a double.
    #[inline(always)]
    fn any_doubt<const REACH: u64>(
        self,
        [a, b]: [__m512d; 2],
        whole: __m512d,
        small: __m512d,
        least: f64,
    ) -> bool {
        op!({
            let low = _mm512_shuffle_ps::<0x88>(_mm512_castpd_ps(a), _mm512_castpd_ps(b));
            let reach = _mm512_set1_epi32((REACH as i32) - (MIDPOINT as i32));
            let outside = _mm512_set1_epi32((BELOW_F32 & !(2 * REACH - 1)) as i32);
            let near =
                _mm512_testn_epi32_mask(_mm512_add_epi32(_mm512_castps_si512(low), reach), outside);
            let turned = _mm512_cmp_pd_mask::<_CMP_NEQ_UQ>(whole, _mm512_setzero_pd());
            let lost = _mm512_mask_cmp_pd_mask::<_CMP_NGE_UQ>(turned, small, _mm512_set1_pd(least));
            (near | __mmask16::from(lost)) != 0
        })
    }
}
