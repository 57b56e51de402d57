//! What codes of a cache are made with.

use bytemuck::{Zeroable, cast_slice, cast_slice_mut};

use super::Simd;
use super::convert::{f32_to_f8, f32_to_i8_away, f32_to_i8_even};

/// Before a half: a tie still becomes the next integer, because the sum is rounded to even, and no less does.
pub(super) const BELOW_HALF: f32 = 0.5_f32.next_down();

/// The operations of quantization: codes of 8 bits, and what scales are made of.
pub(crate) trait SimdQuant: Simd {
    /// Whether codes come faster of even and odd elements, where those cost less to read: `interleave_codes` puts them
    /// in order.
    const INTERLEAVES_CODES: bool = false;

    /// f32 to floats of 8 bits, as `convert::f32_to_f8`.
    #[inline(always)]
    fn store_f8<const MANTISSA: u32, const LEAST: u32>(
        self,
        x: [Self::F32; 4],
        most: u32,
    ) -> [Self::Chunk<u8>; 4] {
        self.store_by(x, |x| f32_to_f8::<MANTISSA, LEAST>(x, most))
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

    /// Products of f32 to integers of 8 bits, rounded to the nearest, ties away from zero.
    #[inline(always)]
    fn store_i8_products(self, x: [Self::F32; 4], by: [Self::F32; 4]) -> [Self::Chunk<u8>; 4] {
        self.store_i8_away(self.products(x, by), BELOW_HALF)
    }

    /// The products of four vectors and four others.
    #[inline(always)]
    fn products(
        self,
        [a, b, c, d]: [Self::F32; 4],
        [e, f, g, h]: [Self::F32; 4],
    ) -> [Self::F32; 4] {
        [
            self.mul(a, e),
            self.mul(b, f),
            self.mul(c, g),
            self.mul(d, h),
        ]
    }

    /// The codes of even and of odd elements, and those of more of both, as the codes of elements in their order; with
    /// [`SimdQuant::INTERLEAVES_CODES`] only.
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

    /// Bit 4 of each number, that of the first lowest.
    #[inline(always)]
    fn fifth_bits(self, numbers: &[i32; 32]) -> u32 {
        // Moves bit 8 i to 56 + i; what the other products make lies elsewhere, each in a bit of its own. (Shifts of
        // all lanes, which the compiler makes of a loop, take Q5_0 twice the time.)
        const GATHER: u64 = 0x0102_0408_1020_4080;
        let bytes = numbers.map(|number| number as u8);
        let mut bits = [0; 4];
        for (bits, eight) in bits.iter_mut().zip(bytes.as_chunks().0) {
            let each = u64::from_le_bytes(*eight) >> 4 & 0x0101_0101_0101_0101;
            *bits = (each.wrapping_mul(GATHER) >> 56) as u8;
        }
        u32::from_le_bytes(bits)
    }

    /// The largest lane; none is a NaN.
    fn max_lane(self, x: Self::F32) -> f32;

    /// The largest lane of each vector, or the smallest; none is a NaN.
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
}
