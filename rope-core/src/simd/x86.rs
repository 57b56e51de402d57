//! The text that AVX2 and AVX-512 share: the same operations on 256 and on 512 bits. A backend names its vectors
//! (`Floats`, `Integers`, `Doubles`, and `HalfFloats`), their `LANES`, and its intrinsics without the prefix.

#[cfg(target_arch = "x86")]
pub(super) use core::arch::x86 as arch;
#[cfg(target_arch = "x86_64")]
pub(super) use core::arch::x86_64 as arch;

/// Defines the shared operations of one trait, or the shared helpers of a token.
macro_rules! x86_text {
    (helpers) => {
        rounding!(Floats => Integers);

        /// The codes of the magnitudes of four vectors, in the order of packing within 128 bits. A NaN becomes some
        /// code.
        #[inline(always)]
        fn f8_codes<const MANTISSA: u32, const LEAST: u32>(
            self,
            [a, b, c, d]: [Floats; 4],
            most: u32,
        ) -> Integers {
            let ab = self.f8_words::<MANTISSA, LEAST>([a, b], most);
            let cd = self.f8_words::<MANTISSA, LEAST>([c, d], most);
            op!(packus_epi16(ab, cd))
        }

        /// The codes of the magnitudes of two vectors as words, in the order that packing within 128 bits leaves.
        ///
        /// The method of `convert::f32_to_f8`. The lower word of the sum has its units; the upper word has the
        /// exponent, above 7 zeros. One instruction multiplies both words and adds the products:
        /// `1 << (7 - MANTISSA)` times the code, plus a constant. Nothing overflows, not even for infinities.
        #[inline(always)]
        fn f8_words<const MANTISSA: u32, const LEAST: u32>(
            self,
            [a, b]: [Floats; 2],
            most: u32,
        ) -> Integers {
            let unit = 1 << (7 - MANTISSA);
            // The bits of the sum of zero.
            let zero = (LEAST + ((23 - MANTISSA) << 23)) >> 16;
            let a = self.f8_sum::<MANTISSA, LEAST>(a);
            let b = self.f8_sum::<MANTISSA, LEAST>(b);
            op!({
                let weights = set1_epi32(1 << 16 | unit);
                let words = packs_epi32(madd_epi16(a, weights), madd_epi16(b, weights));
                let words = sub_epi16(words, set1_epi16(zero as i16));
                let most = set1_epi16((most as i32 * unit) as i16);
                srl_epi16(
                    min_epi16(words, most),
                    _mm_cvtsi32_si128((7 - MANTISSA) as i32),
                )
            })
        }

        /// The sum of the magnitude and a power of two, so large that the sum has the last place of the code.
        #[inline(always)]
        fn f8_sum<const MANTISSA: u32, const LEAST: u32>(self, x: Floats) -> Integers {
            op!({
                let exponent = and_ps(x, castsi_ps(set1_epi32(0x7f80_0000)));
                let power = max_ps(exponent, set1_ps(f32::from_bits(LEAST)));
                // The product is exact, and the sum rounded once.
                let finer = set1_ps((1 << (23 - MANTISSA)) as f32);
                castps_si(fmadd_ps(power, finer, self.abs(x)))
            })
        }

        /// Packs the bits of four vectors: the signs stay.
        #[inline(always)]
        fn pack_bits(self, [a, b, c, d]: [Floats; 4]) -> Integers {
            self.pack(op!([
                castps_si(a),
                castps_si(b),
                castps_si(c),
                castps_si(d)
            ]))
        }

        /// Bytes of ones for the NaNs of four vectors.
        #[inline(always)]
        fn nan_bytes(self, [a, b, c, d]: [Floats; 4]) -> Integers {
            self.pack([
                self.nan_lanes(a),
                self.nan_lanes(b),
                self.nan_lanes(c),
                self.nan_lanes(d),
            ])
        }

        /// Saturates four vectors of integers to one of bytes, in the order of packing within 128 bits.
        #[inline(always)]
        fn pack(self, [a, b, c, d]: [Integers; 4]) -> Integers {
            op!(packs_epi16(packs_epi32(a, b), packs_epi32(c, d)))
        }

        /// Adds to the magnitude.
        #[inline(always)]
        fn add_to_magnitude(self, x: Floats, by: f32) -> Floats {
            op!({
                let sign = and_ps(x, set1_ps(-0.0));
                add_ps(x, or_ps(sign, set1_ps(by)))
            })
        }

        /// The extremes of two vectors in half the lanes, alternating.
        #[inline(always)]
        fn fold_pair<const LARGEST: bool>(self, a: Floats, b: Floats) -> Floats {
            let [even, odd] = self.unzip([a, b]);
            if LARGEST {
                op!(max_ps(even, odd))
            } else {
                op!(min_ps(even, odd))
            }
        }

        /// The extremes of four vectors within each 128 bits: one lane of each.
        #[inline(always)]
        fn fold<const LARGEST: bool>(self, [a, b, c, d]: [Floats; 4]) -> Floats {
            let (ab, cd) = (
                self.fold_pair::<LARGEST>(a, b),
                self.fold_pair::<LARGEST>(c, d),
            );
            self.fold_pair::<LARGEST>(ab, cd)
        }
    };
    (Simd) => {
        const LANES: usize = LANES;
        type F32 = Floats;
        type Chunk<T: Pod> = [T; LANES];

        #[inline(always)]
        fn map<T: Pod, U: Pod>(x: [T; LANES], f: impl Fn(T) -> U) -> [U; LANES] {
            x.map(f)
        }

        #[inline(always)]
        fn prefetch<T>(self, x: &T) {
            op!(_mm_prefetch::<_MM_HINT_T0>(core::ptr::from_ref(x).cast()))
        }

        #[inline(always)]
        fn splat(self, x: f32) -> Floats {
            op!(set1_ps(x))
        }

        #[inline(always)]
        fn load_f16(self, [a, b]: [[u16; LANES]; 2]) -> [Floats; 2] {
            op!([cvtph_ps(must_cast(a)), cvtph_ps(must_cast(b))])
        }

        #[inline(always)]
        fn store_f16(self, [a, b]: [Floats; 2]) -> [[u16; LANES]; 2] {
            // 0: to nearest even, regardless of MXCSR.
            op!([must_cast(cvtps_ph::<0>(a)), must_cast(cvtps_ph::<0>(b))])
        }

        #[inline(always)]
        fn load_bf16_even_odd(self, x: [[u16; LANES]; 2]) -> [Floats; 2] {
            let x: Integers = must_cast(x);
            op!([
                castsi_ps(slli_epi32::<16>(x)),
                castsi_ps(and_si(x, set1_epi32(-0x1_0000))),
            ])
        }

        operations! {
            Floats:
            add(a, b) => op!(add_ps(a, b));
            sub(a, b) => op!(sub_ps(a, b));
            mul(a, b) => op!(mul_ps(a, b));
            div(a, b) => op!(div_ps(a, b));
            sqrt(x) => op!(sqrt_ps(x));
            swap(x) => op!(permute_ps::<0b10_11_00_01>(x));
        }

        #[inline(always)]
        fn unzip(self, [a, b]: [Floats; 2]) -> [Floats; 2] {
            // Within 128 bits: pairs 0 1 4 5 2 3 6 7 of eight, 0 1 8 9 2 3 10 11 and so on of sixteen.
            [
                op!(shuffle_ps::<0b10_00_10_00>(a, b)),
                op!(shuffle_ps::<0b11_01_11_01>(a, b)),
            ]
        }

        #[inline(always)]
        fn zip(self, [x, y]: [Floats; 2]) -> [Floats; 2] {
            op!([unpacklo_ps(x, y), unpackhi_ps(x, y)])
        }
    };
    (SimdQuant) => {
        const INTERLEAVES_CODES: bool = true;
        const GROUPS_OF_ELEMENTS: bool = true;
        const FUSES: bool = true;

        #[inline(always)]
        fn store_f8<const MANTISSA: u32, const LEAST: u32>(
            self,
            x: [Floats; 4],
            most: u32,
        ) -> [[u8; LANES]; 4] {
            self.store_signed_f8::<MANTISSA, LEAST>(x, x, most)
        }

        #[inline(always)]
        fn store_signed_f8<const MANTISSA: u32, const LEAST: u32>(
            self,
            x: [Floats; 4],
            signs: [Floats; 4],
            most: u32,
        ) -> [[u8; LANES]; 4] {
            let mut magnitudes = self.f8_codes::<MANTISSA, LEAST>(x, most);
            if self.nan_in_four(x) {
                cold_path();
                let nan = self.nan_bytes(x);
                magnitudes = op!(and_si(or_si(magnitudes, nan), set1_epi8(0x7f)));
            }
            // Saturation keeps the sign.
            let signs = self.pack_bits(signs);
            self.in_order(op!(or_si(magnitudes, and_si(signs, set1_epi8(-0x80)))))
        }

        #[inline(always)]
        fn store_e2m1(self, x: [Floats; 4]) -> [[u8; LANES]; 2] {
            let mut magnitudes = self.f8_codes::<1, E2M1_LEAST>(x, 7);
            let mut signs = self.pack_bits(x);
            if self.nan_in_four(x) {
                cold_path();
                let nan = self.nan_bytes(x);
                op!({
                    magnitudes = or_si(andnot_si(nan, magnitudes), and_si(nan, set1_epi8(7)));
                    signs = andnot_si(nan, signs);
                });
            }
            self.pairs_in_order(op!({
                let signs = and_si(srli_epi16::<4>(signs), set1_epi8(8));
                // The even code, and 16 times the odd one.
                maddubs_epi16(or_si(magnitudes, signs), set1_epi16(0x1001))
            }))
        }

        // NaNs and numbers beyond i32 become the least i32, which saturates at 0.
        #[inline(always)]
        fn store_u8_even(self, [a, b, c, d]: [Floats; 4]) -> [[u8; LANES]; 4] {
            self.in_order(op!(packus_epi16(
                packs_epi32(cvtps_epi32(a), cvtps_epi32(b)),
                packs_epi32(cvtps_epi32(c), cvtps_epi32(d)),
            )))
        }

        #[inline(always)]
        fn store_u8_truncated(self, [a, b, c, d]: [Floats; 4]) -> [[u8; LANES]; 4] {
            self.in_order(op!(packus_epi16(
                packs_epi32(cvttps_epi32(a), cvttps_epi32(b)),
                packs_epi32(cvttps_epi32(c), cvttps_epi32(d)),
            )))
        }

        #[inline(always)]
        fn store_i8_even(self, x: [Floats; 4]) -> [[u8; LANES]; 4] {
            self.in_order(self.integers::<true>(x))
        }

        #[inline(always)]
        fn store_i8_away(self, [a, b, c, d]: [Floats; 4], half: f32) -> [[u8; LANES]; 4] {
            self.in_order(self.integers::<false>([
                self.add_to_magnitude(a, half),
                self.add_to_magnitude(b, half),
                self.add_to_magnitude(c, half),
                self.add_to_magnitude(d, half),
            ]))
        }

        #[inline(always)]
        fn pack_u4(self, codes: [[u8; LANES]; 4]) -> [[u8; LANES]; 2] {
            // 16 times the even code, and the odd one.
            must_cast(self.low_bytes(op!({
                let codes = min_epu8(must_cast(codes), set1_epi8(15));
                maddubs_epi16(codes, set1_epi16(0x0110))
            })))
        }

        operations! {
            Floats:
            mul_add_f32(a, b, c) => op!(fmadd_ps(a, b, c));
            add_exact_product(a, b, c) => op!(fmadd_ps(a, b, c));
            // The second operand, where the two do not compare.
            max_number(a, x) => op!(max_ps(x, a));
            min_number(a, x) => op!(min_ps(x, a));
        }

        #[inline(always)]
        fn max_magnitude(self, a: Floats, x: Floats) -> Floats {
            // The second operand, where the two do not compare.
            op!(max_ps(self.abs(x), a))
        }

        #[inline(always)]
        fn truncate(self, x: Floats) -> [i32; LANES] {
            // A NaN becomes the least integer.
            must_cast(op!(cvttps_epi32(x)))
        }
    };
    (SimdSums) => {
        type Wide = [Doubles; 2];

        #[inline(always)]
        fn unzip_wide(self, [[a, b], [c, d]]: [[Doubles; 2]; 2]) -> [[Doubles; 2]; 2] {
            op!([
                [unpacklo_pd(a, b), unpacklo_pd(c, d)],
                [unpackhi_pd(a, b), unpackhi_pd(c, d)],
            ])
        }

        #[inline(always)]
        fn zip_wide(self, [[a, b], [c, d]]: [[Doubles; 2]; 2]) -> [[Doubles; 2]; 2] {
            op!([
                [unpacklo_pd(a, c), unpackhi_pd(a, c)],
                [unpacklo_pd(b, d), unpackhi_pd(b, d)],
            ])
        }

        #[inline(always)]
        fn widen(self, x: Floats) -> [Doubles; 2] {
            let [low, high]: [HalfFloats; 2] = must_cast(x);
            op!([cvtps_pd(low), cvtps_pd(high)])
        }

        #[inline(always)]
        fn load_f32_wide(self, x: [f32; LANES]) -> [Doubles; 2] {
            let [low, high]: [[f32; LANES / 2]; 2] = must_cast(x);
            op!([cvtps_pd(must_cast(low)), cvtps_pd(must_cast(high))])
        }

        #[inline(always)]
        fn add_cross(
            self,
            sums: [Doubles; 2],
            [[x1, y1], [x2, y2]]: [[Doubles; 2]; 2],
            [[g1, h1], [g2, h2]]: [[Doubles; 2]; 2],
        ) -> [Doubles; 2] {
            op!([
                add_pd(sums[0], fmsub_pd(x1, g2, mul_pd(x2, g1))),
                add_pd(sums[1], fmsub_pd(y1, h2, mul_pd(y2, h1))),
            ])
        }

        #[inline(always)]
        fn add_difference(self, sums: [Doubles; 2], a: Floats, b: Floats) -> [Doubles; 2] {
            let ([a, c], [b, d]) = (self.widen(a), self.widen(b));
            op!([add_pd(sums[0], sub_pd(a, b)), add_pd(sums[1], sub_pd(c, d))])
        }

        #[inline(always)]
        fn add_dot(
            self,
            sums: [Doubles; 2],
            [[x1, y1], [x2, y2]]: [[Doubles; 2]; 2],
            [[g1, h1], [g2, h2]]: [[Doubles; 2]; 2],
        ) -> [Doubles; 2] {
            op!([
                add_pd(sums[0], fmadd_pd(x1, g1, mul_pd(x2, g2))),
                add_pd(sums[1], fmadd_pd(y1, h1, mul_pd(y2, h2))),
            ])
        }
    };
    (SimdF64) => {
        const F64_LANES: usize = LANES / 2;
        type F64 = Doubles;

        #[inline(always)]
        fn load_f64(self, block: &[f64; 8], part: usize) -> Doubles {
            must_cast(block.as_chunks::<{ LANES / 2 }>().0[part])
        }
        #[inline(always)]
        fn store_f64(self, v: Doubles, block: &mut [f64; 8], part: usize) {
            block.as_chunks_mut::<{ LANES / 2 }>().0[part] = must_cast(v);
        }
        #[inline(always)]
        fn store_as_f32(self, v: Doubles, block: &mut [f32; 8], part: usize) {
            block.as_chunks_mut::<{ LANES / 2 }>().0[part] = must_cast(op!(cvtpd_ps(v)));
        }
        #[inline(always)]
        fn splat_f64(self, x: f64) -> Doubles {
            op!(set1_pd(x))
        }
        operations! {
            Doubles:
            sub_f64(a, b) => op!(sub_pd(a, b));
            mul_f64(a, b) => op!(mul_pd(a, b));
            mul_add(a, b, c) => op!(fmadd_pd(a, b, c));
            mul_sub(a, b, c) => op!(fmsub_pd(a, b, c));
            round_to_f32(v) => op!(cvtps_pd(cvtpd_ps(v)));
        }
    };
}
pub(super) use x86_text;
