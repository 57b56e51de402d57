//! The operations that make the codes of a cache.

use core::slice;

use bytemuck::{Zeroable, cast_slice, cast_slice_mut};

use super::Simd;
use super::convert::{f32_to_f8, f32_to_i8_away, f32_to_i8_even, f32_to_u8_even, mul_add};

/// The float below 0.5. With it, a tie still becomes the next integer, because the sum is rounded to even; no smaller
/// fraction does.
pub(crate) const BELOW_HALF: f32 = 0.5_f32.next_down();

/// The values of IQ4_NL's codes, at a distance of 1.
pub(crate) const NONLINEAR: [i8; 16] = [
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113,
];

/// The bounds where the nearest value becomes the next one. Halfway between two values both differences are exact in
/// f32, so comparing with the limit equals ggml's comparison of the differences.
pub(super) const NONLINEAR_LIMITS: [f32; 15] = {
    let mut limits = [0.0; 15];
    let mut code = 0;
    while code < 15 {
        limits[code] = (NONLINEAR[code] as f32 + NONLINEAR[code + 1] as f32) / 2.0;
        code += 1;
    }
    limits
};

/// The least normal number of E2M1, as bits of f32.
pub(crate) const E2M1_LEAST: u32 = 1.0_f32.to_bits();

/// Packs two codes of E2M1, which are a float of 8 bits, into a byte. A NaN has all bits set, and loses its sign, which
/// depends on the machine.
#[inline(always)]
pub(crate) fn pack_e2m1(pair: [u8; 2]) -> u8 {
    let pair = u16::from_le_bytes(pair);
    let halves = pair & 0x0707 | pair >> 4 & !(pair >> 3) & 0x0808;
    (halves | halves >> 4) as u8
}

/// The operations of quantization: codes of 8 bits, and the maxima that scales are computed from.
pub(crate) trait SimdQuant: Simd {
    /// True if codes of even and odd elements are faster, for elements that cost less to read that way.
    /// `interleave_codes` puts them in order.
    const INTERLEAVES_CODES: bool = false;

    /// True if codes with a scale per group are made of elements as they are read. Where vectors are short, elements
    /// become f32 first: a kernel for each takes three times the machine code.
    const GROUPS_OF_ELEMENTS: bool = false;

    /// True if even and odd elements are faster in [`SimdQuant::store_e2m1`] too: then there is
    /// [`SimdQuant::store_e2m1_even_odd`].
    const PAIRS_E2M1: bool = false;

    /// True if two of [`SimdQuant::mul_add_f32`] and a product are faster than a division. Then there is
    /// [`SimdQuant::store_signed_f8`].
    const FUSES: bool = false;

    /// f32 to floats of 8 bits, as `convert::f32_to_f8`.
    #[inline(always)]
    fn store_f8<const MANTISSA: u32, const LEAST: u32>(
        self,
        x: [Self::F32; 4],
        most: u32,
    ) -> [Self::Chunk<u8>; 4] {
        self.store_by(x, |x| f32_to_f8::<MANTISSA, LEAST>(x, most))
    }

    /// `store_f8` of the magnitudes of `x`, with the signs of other numbers, which are NaNs where `x` has one. Used
    /// only with [`SimdQuant::FUSES`].
    #[inline(always)]
    fn store_signed_f8<const MANTISSA: u32, const LEAST: u32>(
        self,
        x: [Self::F32; 4],
        _signs: [Self::F32; 4],
        most: u32,
    ) -> [Self::Chunk<u8>; 4] {
        self.store_f8::<MANTISSA, LEAST>(x, most)
    }

    /// f32 to E2M1, two per byte, the even element in the low half: as [`pack_e2m1`] of `convert::f32_to_f8`.
    #[inline(always)]
    fn store_e2m1(self, x: [Self::F32; 4]) -> [Self::Chunk<u8>; 2] {
        let codes = self.store_by(x, |x| f32_to_f8::<1, E2M1_LEAST>(x, 7));
        let mut packed = [Self::Chunk::<u8>::zeroed(); 2];
        let pairs = cast_slice::<_, u8>(&codes).as_chunks().0;
        for (byte, pair) in cast_slice_mut(&mut packed).iter_mut().zip(pairs) {
            *byte = pack_e2m1(*pair);
        }
        packed
    }

    /// `store_e2m1` of even and odd elements: two vectors of each, alternating. Used only with
    /// [`SimdQuant::PAIRS_E2M1`].
    #[inline(always)]
    fn store_e2m1_even_odd(self, x: [Self::F32; 4]) -> [Self::Chunk<u8>; 2] {
        self.store_e2m1(x)
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

    /// f32 to unsigned integers of 8 bits, as `convert::f32_to_u8_even`.
    #[inline(always)]
    fn store_u8_even(self, x: [Self::F32; 4]) -> [Self::Chunk<u8>; 4] {
        self.store_by(x, f32_to_u8_even)
    }

    /// f32 from 0 to below 256 to integers of 8 bits, without their fractions.
    #[inline(always)]
    fn store_u8_truncated(self, [a, b, c, d]: [Self::F32; 4]) -> [Self::Chunk<u8>; 4] {
        [
            Self::map(self.truncate(a), |code: i32| code as u8),
            Self::map(self.truncate(b), |code: i32| code as u8),
            Self::map(self.truncate(c), |code: i32| code as u8),
            Self::map(self.truncate(d), |code: i32| code as u8),
        ]
    }

    /// Packs unsigned codes, saturated at 15, two per byte, the even element in the high half.
    #[inline(always)]
    fn pack_u4(self, mut codes: [Self::Chunk<u8>; 4]) -> [Self::Chunk<u8>; 2] {
        for code in cast_slice_mut::<_, u8>(&mut codes) {
            *code = (*code).min(15);
        }
        let mut packed = [Self::Chunk::<u8>::zeroed(); 2];
        let pairs = cast_slice::<_, u8>(&codes).as_chunks().0;
        for (byte, pair) in cast_slice_mut(&mut packed).iter_mut().zip(pairs) {
            let pair = u16::from_le_bytes(*pair);
            *byte = (pair << 4 | pair >> 8) as u8;
        }
        packed
    }

    /// Returns `a b + c`, rounded once.
    #[inline(always)]
    fn mul_add_f32(self, a: Self::F32, b: Self::F32, c: Self::F32) -> Self::F32 {
        let (mut a, b, c) = (self.store_f32(a), self.store_f32(b), self.store_f32(c));
        let bc = cast_slice::<_, f32>(slice::from_ref(&b))
            .iter()
            .zip(cast_slice::<_, f32>(slice::from_ref(&c)));
        for (a, (b, c)) in cast_slice_mut::<_, f32>(slice::from_mut(&mut a))
            .iter_mut()
            .zip(bc)
        {
            *a = mul_add(*a, *b, *c);
        }
        self.load_f32(a)
    }

    /// Returns `a b + c`, where `a b` is exact.
    #[inline(always)]
    fn add_exact_product(self, a: Self::F32, b: Self::F32, c: Self::F32) -> Self::F32 {
        self.add(self.mul(a, b), c)
    }

    /// Products of f32 to integers of 8 bits, rounded to the nearest, ties away from zero.
    #[inline(always)]
    fn store_i8_products(self, x: [Self::F32; 4], by: [Self::F32; 4]) -> [Self::Chunk<u8>; 4] {
        self.store_i8_away(self.products(x, by), BELOW_HALF)
    }

    /// The products of four vectors and four others.
    #[inline(always)]
    fn products(self, mut x: [Self::F32; 4], by: [Self::F32; 4]) -> [Self::F32; 4] {
        for (x, by) in x.iter_mut().zip(by) {
            *x = self.mul(*x, by);
        }
        x
    }

    /// Puts the codes of even and odd elements in order: two vectors of each, alternating. Used only with
    /// [`SimdQuant::INTERLEAVES_CODES`].
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

    /// Returns the largest magnitudes of at most 16 groups of 16-bit floats, as their bits: of the first halves of the
    /// vectors of each group, and of the second ones. Returns `None` if a magnitude is above `infinity`, or without an
    /// operation for it.
    #[inline(always)]
    fn largest_words<const EACH: usize>(
        self,
        _groups: &[[[Self::Chunk<u16>; 2]; EACH]],
        _infinity: u16,
    ) -> Option<[Self::Chunk<u16>; 2]> {
        None
    }

    /// Returns the larger of `a`, which is no NaN, and the magnitude of `x`; `a` where `x` is a NaN.
    fn max_magnitude(self, a: Self::F32, x: Self::F32) -> Self::F32;

    /// Returns the larger of `a`, which is no NaN, and `x`; `a` where `x` is a NaN. Of two zeros it returns either.
    fn max_number(self, a: Self::F32, x: Self::F32) -> Self::F32;

    /// Returns the smaller, likewise.
    fn min_number(self, a: Self::F32, x: Self::F32) -> Self::F32;

    /// Drops the fractions of numbers from 0 to 255. The lowest byte of the result is 0 for a NaN.
    fn truncate(self, x: Self::F32) -> Self::Chunk<i32>;

    /// Returns the nearest codes of IQ4_NL at a distance of 1, and their values ([`NONLINEAR`]). A NaN gets the last
    /// code.
    #[inline(always)]
    fn nearest_nonlinear(self, x: Self::F32) -> (Self::Chunk<i32>, Self::F32) {
        let codes = Self::map(self.store_f32(x), |x| {
            let mut code = 0;
            for limit in NONLINEAR_LIMITS {
                // A NaN is beyond all limits.
                code += if x < limit { 0 } else { 1 };
            }
            code
        });
        let values = Self::map(codes, |code: i32| f32::from(NONLINEAR[code as usize & 15]));
        (codes, self.load_f32(values))
    }

    /// Returns the larger of `largest` and the magnitude of `x`, and `x` where its magnitude is larger, `first`
    /// elsewhere. A NaN is not larger.
    #[inline(always)]
    fn first_largest(self, [largest, first]: [Self::F32; 2], x: Self::F32) -> [Self::F32; 2] {
        // LLVM vectorizes this loop.
        let (mut largest, mut first) = (self.store_f32(largest), self.store_f32(first));
        let x = self.store_f32(x);
        let largest_lanes: &mut [f32] = cast_slice_mut(slice::from_mut(&mut largest));
        let first_lanes: &mut [f32] = cast_slice_mut(slice::from_mut(&mut first));
        let kept = largest_lanes.iter_mut().zip(first_lanes);
        for ((largest, first), x) in kept.zip(cast_slice::<_, f32>(slice::from_ref(&x))) {
            let larger = x.abs() > *largest;
            (*largest, *first) = if larger {
                (x.abs(), *x)
            } else {
                (*largest, *first)
            };
        }
        [self.load_f32(largest), self.load_f32(first)]
    }

    /// Transposes each four lanes of four vectors.
    #[inline(always)]
    fn transpose(self, [a, b, c, d]: [Self::F32; 4]) -> [Self::F32; 4] {
        // Every `zip` interleaves two vectors four lanes at a time.
        let ([ac, ac2], [bd, bd2]) = (self.zip([a, c]), self.zip([b, d]));
        let ([x, y], [z, w]) = (self.zip([ac, bd]), self.zip([ac2, bd2]));
        [x, y, z, w]
    }

    /// Gathers bit 4 of each number; the first number's is the lowest.
    #[inline(always)]
    fn fifth_bits(self, numbers: &[i32; 32]) -> u32 {
        // Moves bit 8 i to 56 + i. The other partial products fall on other bits, each on its own. (A loop becomes
        // shifts of all lanes, which double the time of Q5_0.)
        const GATHER: u64 = 0x0102_0408_1020_4080;
        let bytes = numbers.map(|number| number as u8);
        let mut bits = [0; 4];
        for (bits, eight) in bits.iter_mut().zip(bytes.as_chunks().0) {
            let each = u64::from_le_bytes(*eight) >> 4 & 0x0101_0101_0101_0101;
            *bits = (each.wrapping_mul(GATHER) >> 56) as u8;
        }
        u32::from_le_bytes(bits)
    }

    /// Returns the largest lane; none is a NaN.
    fn max_lane(self, x: Self::F32) -> f32;

    /// Returns the largest lane of each vector, or the smallest; none is a NaN.
    #[inline(always)]
    fn extreme_lanes<const LARGEST: bool>(self, x: [Self::F32; 4]) -> [f32; 4] {
        x.map(|x| {
            if LARGEST {
                self.max_lane(x)
            } else {
                -self.max_lane(self.sub(self.splat(-0.0), x))
            }
        })
    }

    /// Returns a vector with one number in each half.
    #[inline(always)]
    fn splat_halves(self, [low, high]: [f32; 2]) -> Self::F32 {
        let mut x = self.store_f32(self.splat(low));
        let lanes: &mut [f32] = cast_slice_mut(slice::from_mut(&mut x));
        let half = lanes.len() / 2;
        lanes[half..].fill(high);
        self.load_f32(x)
    }

    /// Returns the largest lane of each half of eight vectors; none is a NaN or negative.
    #[inline(always)]
    fn largest_of_halves(self, x: [Self::F32; 8]) -> [f32; 16] {
        let mut largest = [0.0_f32; 16];
        for (largest, x) in largest.as_chunks_mut::<2>().0.iter_mut().zip(x) {
            let x = self.store_f32(x);
            let lanes: &[f32] = cast_slice(slice::from_ref(&x));
            let (low, high) = lanes.split_at(lanes.len() / 2);
            *largest = [low, high].map(|half| half.iter().copied().fold(0.0, f32::max));
        }
        largest
    }

    /// Returns, in each half, the larger lanes of the halves of a vector.
    #[inline(always)]
    fn fold_halves(self, x: [Self::F32; 2]) -> Self::F32 {
        let mut folded = self.store_f32(x[0]);
        let lanes: &mut [f32] = cast_slice_mut(slice::from_mut(&mut folded));
        let half = lanes.len() / 2;
        for (index, x) in x.into_iter().enumerate() {
            let x = self.store_f32(x);
            let (low, high) = cast_slice::<_, f32>(slice::from_ref(&x)).split_at(half);
            for ((lane, low), high) in lanes[index * half..].iter_mut().zip(low).zip(high) {
                *lane = low.max(*high);
            }
        }
        self.load_f32(folded)
    }

    /// Drops the first four lanes, and appends four others.
    #[inline(always)]
    fn append_four(self, x: Self::F32, four: [f32; 4]) -> Self::F32 {
        let old = self.store_f32(x);
        let kept = cast_slice::<_, f32>(slice::from_ref(&old)).get(4..);
        let mut new = old;
        let lanes = kept.unwrap_or(&[]).iter().chain(&four);
        for (new, lane) in cast_slice_mut(slice::from_mut(&mut new))
            .iter_mut()
            .zip(lanes)
        {
            *new = *lane;
        }
        self.load_f32(new)
    }
}
