//! Floats with 128 significant bits in software, from integer arithmetic alone: no `libm`, no hardware float. (IEEE
//! binary128 has 113.)
//!
//! A frequency is stored as the fraction of a turn per position, so that the angle of any position is a wrapping
//! multiplication. To be exact far from the start, the step needs more digits than an `f64` has, and it must be the
//! same on every machine. The oracle has the same needs for cos and sin. [`Float128`] has the few operations that both
//! use.
//!
//! Errors: every operation is within about 2^-127 of its result (`log2`: 2^-126 absolute). The steps of all published
//! models are thus within one unit of 2^-128 turn (`describe/frequencies.rs` has the figures).

use core::cmp::Ordering;

/// `(-1)^negative * mantissa * 2^exponent`; the mantissa is zero or has its top bit set.
///
/// There are no infinities and no NaN: overflow saturates at the largest value, underflow is zero. Both are far outside
/// the range of frequencies, and the conversion to a step refuses or rounds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Float128 {
    negative: bool,
    exponent: i64,
    mantissa: u128,
}

/// Beyond any exponent that two `f64` parameters can reach, and far below an overflow of `i64` sums.
const EXPONENT_LIMIT: i64 = 1 << 40;

/// `1 / k!` in units of 2^-127. The next term would be zero.
const INVERSE_FACTORIALS: [u128; 34] = {
    let mut table = [1 << 127; 34];
    let (mut k, mut factorial) = (1, 1);
    while k < table.len() {
        factorial *= k as u128;
        table[k] = (1 << 127) / factorial;
        k += 1;
    }
    table
};

impl Float128 {
    pub(crate) const ZERO: Self = Self::positive(0, -EXPONENT_LIMIT);
    pub(crate) const ONE: Self = Self::positive(1 << 127, -127);
    pub(crate) const TWO_PI: Self = Self::positive(0xc90f_daa2_2168_c234_c4c6_628b_80dc_1cd1, -125);
    pub(crate) const INVERSE_TWO_PI: Self =
        Self::positive(0xa2f9_836e_4e44_1529_fc27_57d1_f534_ddc1, -130);
    const LN_2: Self = Self::positive(0xb172_17f7_d1cf_79ab_c9e3_b398_03f2_f6af, -128);

    const fn positive(mantissa: u128, exponent: i64) -> Self {
        Self {
            negative: false,
            exponent,
            mantissa,
        }
    }

    /// Normalizes the mantissa, and clamps the exponent.
    #[inline(never)]
    pub(crate) fn new(negative: bool, mantissa: u128, exponent: i64) -> Self {
        let shift = mantissa.leading_zeros();
        Self::normal(
            negative,
            mantissa.checked_shl(shift).unwrap_or(0),
            exponent - i64::from(shift),
        )
    }

    /// Clamps the exponent. The mantissa must be zero or have its top bit set.
    #[inline]
    pub(crate) fn normal(negative: bool, mantissa: u128, exponent: i64) -> Self {
        if mantissa == 0 || exponent < -EXPONENT_LIMIT {
            Self::ZERO
        } else if exponent > EXPONENT_LIMIT {
            Self {
                negative,
                exponent: EXPONENT_LIMIT,
                mantissa: u128::MAX,
            }
        } else {
            Self {
                negative,
                exponent,
                mantissa,
            }
        }
    }

    /// Returns sign, mantissa and exponent: the value is `(-1)^negative * mantissa * 2^exponent`. A nonzero mantissa
    /// has its top bit set.
    pub(crate) fn parts(self) -> (bool, u128, i64) {
        (self.negative, self.mantissa, self.exponent)
    }

    /// Converts a finite float exactly. Infinities and NaN become zero.
    #[inline(never)]
    pub(crate) fn from_f64(value: f64) -> Self {
        let bits = value.to_bits();
        let fraction = u128::from(bits & ((1 << 52) - 1));
        match (bits >> 52 & 0x7ff) as i64 {
            0 => Self::new(value.is_sign_negative(), fraction, -1074),
            0x7ff => Self::ZERO,
            biased => Self::new(value.is_sign_negative(), fraction | 1 << 52, biased - 1075),
        }
    }

    /// Converts an integer exactly.
    pub(crate) fn from_u64(value: u64) -> Self {
        Self::new(false, u128::from(value), 0)
    }

    /// Converts an integer exactly.
    pub(crate) fn from_i64(value: i64) -> Self {
        Self::new(value < 0, u128::from(value.unsigned_abs()), 0)
    }

    /// Returns the quotient of two integers.
    #[inline(never)]
    pub(crate) fn ratio(numerator: u64, denominator: u64) -> Self {
        Self::from_u64(numerator) / Self::from_u64(denominator)
    }

    fn from_fixed(whole: i64, fraction: u128) -> Self {
        Self::from_i64(whole) + Self::new(false, fraction, -128)
    }

    /// Returns the whole part, rounded down, and the fraction in units of 2^-128, rounded to nearest. `None` from 2^62
    /// up.
    #[inline(never)]
    pub(crate) fn to_fixed(self) -> Option<(i64, u128)> {
        let shift = self.exponent + 128;
        let (whole, fraction) = match shift {
            ..=-129 => (0, 0),
            -128..=0 => {
                let dropped = (-shift) as u32;
                let half = if dropped == 0 {
                    0
                } else {
                    self.mantissa >> (dropped - 1) & 1
                };
                (0, self.mantissa.checked_shr(dropped).unwrap_or(0) + half)
            }
            1..=62 => (
                (self.mantissa >> (128 - shift)) as i64,
                self.mantissa << shift,
            ),
            _ => return None,
        };
        Some(match (self.negative, fraction) {
            (false, _) => (whole, fraction),
            (true, 0) => (-whole, 0),
            (true, _) => (-whole - 1, fraction.wrapping_neg()),
        })
    }

    /// Rounds to the nearest `f64`, ties to even.
    pub(crate) fn to_f64(self) -> f64 {
        f64::from_bits(u64::from(self.negative) << 63 | self.round(53, 1023))
    }

    /// Rounds to the nearest `f32`, ties to even. Zero is `+0`.
    pub(crate) fn to_f32(self) -> f32 {
        f32::from_bits(u32::from(self.negative) << 31 | self.round(24, 127) as u32)
    }

    /// Returns the bits, without the sign, of the nearest value in the IEEE format of `digits` significant bits.
    #[inline(never)]
    fn round(self, digits: u32, bias: i64) -> u64 {
        let leading = self.exponent + 127;
        let lowest = 1 - bias;
        if leading > bias {
            return ((2 * bias + 1) as u64) << (digits - 1);
        }
        // Below the smallest normal exponent a float has fewer digits. Dropping 129 bits leaves less than half a unit.
        let dropped = 128 - digits + (lowest - leading).clamp(0, i64::from(digits) + 1) as u32;
        let kept = self.mantissa.checked_shr(dropped).unwrap_or(0) as u64;
        let rest = if dropped > 128 {
            0
        } else {
            self.mantissa << (128 - dropped)
        };
        // Ties round up from odd numbers only.
        let up = u64::from(rest > (1 << 127) - u128::from(kept & 1));
        // The leading one of a normal significand increments the exponent field, and so does a carry.
        ((((leading.max(lowest) + bias - 1) as u64) << (digits - 1)) + kept + up)
            * u64::from(self.mantissa != 0)
    }

    pub(crate) fn is_zero(self) -> bool {
        self.mantissa == 0
    }

    /// Returns the logarithm to base 2 of a positive value: one binary digit per squaring.
    #[inline(never)]
    pub(crate) fn log2(self) -> Self {
        let (mut square, mut fraction) = (self.mantissa, 0u128);
        for _ in 0..128 {
            let (low, high) = square.carrying_mul(square, 0);
            let reached_two = high >> 127;
            fraction = fraction << 1 | reached_two;
            square = if reached_two == 1 {
                high
            } else {
                high << 1 | low >> 127
            };
        }
        Self::from_fixed(self.exponent + 127, fraction)
    }

    /// Returns two to the power of this value: the Taylor series of `exp` over the fraction.
    #[inline(never)]
    pub(crate) fn exp2(self) -> Self {
        let Some((whole, fraction)) = self.to_fixed() else {
            return if self.negative {
                Self::ZERO
            } else {
                Self::new(false, u128::MAX, EXPONENT_LIMIT + 1)
            };
        };
        let x = mul_high_rounded(fraction, Self::LN_2.mantissa);
        let power = INVERSE_FACTORIALS
            .iter()
            .rev()
            .fold(0, |sum, &term| term + mul_high_rounded(sum, x));
        Self::new(
            false,
            power,
            whole.clamp(-2 * EXPONENT_LIMIT, 2 * EXPONENT_LIMIT) - 127,
        )
    }

    /// Returns the natural logarithm of a positive value.
    #[inline(never)]
    pub(crate) fn ln(self) -> Self {
        self.log2() * Self::LN_2
    }

    /// Returns the natural exponential.
    pub(crate) fn exp(self) -> Self {
        (self / Self::LN_2).exp2()
    }

    /// Raises a positive value to a real power.
    #[inline(never)]
    pub(crate) fn pow(self, exponent: Self) -> Self {
        (self.log2() * exponent).exp2()
    }

    /// Rounds down to an integer.
    pub(crate) fn floor(self) -> Self {
        self.to_fixed()
            .map_or(self, |(whole, _)| Self::from_fixed(whole, 0))
    }

    /// Rounds up to an integer.
    pub(crate) fn ceil(self) -> Self {
        -(-self).floor()
    }

    fn magnitude(&self) -> (bool, i64, u128) {
        (self.mantissa != 0, self.exponent, self.mantissa)
    }
}

/// Returns the upper half of a 256-bit product.
pub(crate) fn mul_high(a: u128, b: u128) -> u128 {
    a.carrying_mul(b, 0).1
}

/// Returns the upper half of a 256-bit product, rounded to nearest.
fn mul_high_rounded(a: u128, b: u128) -> u128 {
    let (low, high) = a.carrying_mul(b, 0);
    high + (low >> 127)
}

impl PartialOrd for Float128 {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Float128 {
    #[inline(never)]
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.negative, other.negative) {
            (false, false) => self.magnitude().cmp(&other.magnitude()),
            (true, true) => other.magnitude().cmp(&self.magnitude()),
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
        }
    }
}

impl core::ops::Neg for Float128 {
    type Output = Self;
    fn neg(self) -> Self {
        Self {
            negative: !self.negative && self.mantissa != 0,
            ..self
        }
    }
}

impl core::ops::Add for Float128 {
    type Output = Self;
    #[inline(never)]
    fn add(self, other: Self) -> Self {
        let (large, small) = if self.magnitude() < other.magnitude() {
            (other, self)
        } else {
            (self, other)
        };
        if small.is_zero() {
            return large;
        }
        let aligned = u32::try_from(large.exponent - small.exponent)
            .ok()
            .and_then(|shift| small.mantissa.checked_shr(shift))
            .unwrap_or(0);
        if large.negative != small.negative {
            return Self::new(large.negative, large.mantissa - aligned, large.exponent);
        }
        match large.mantissa.overflowing_add(aligned) {
            (sum, false) => Self::new(large.negative, sum, large.exponent),
            (sum, true) => Self::new(large.negative, sum >> 1 | 1 << 127, large.exponent + 1),
        }
    }
}

impl core::ops::Sub for Float128 {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

impl core::ops::Mul for Float128 {
    type Output = Self;
    #[inline(never)]
    fn mul(self, other: Self) -> Self {
        let (low, high) = self.mantissa.carrying_mul(other.mantissa, 0);
        // Mantissas in [2^127, 2^128) give a high half in [2^126, 2^128): at most one bit carries up from the low half.
        let (mantissa, exponent) = match high >> 127 {
            1 => (high, 128),
            _ => (high << 1 | low >> 127, 127),
        };
        Self::normal(
            self.negative != other.negative,
            mantissa,
            self.exponent + other.exponent + exponent,
        )
    }
}

impl core::ops::Div for Float128 {
    type Output = Self;
    /// Divides by binary long division. Callers refuse zero divisors; if one slips through, the result is the largest
    /// value, never a panic.
    #[inline(never)]
    fn div(self, other: Self) -> Self {
        let negative = self.negative != other.negative;
        if other.is_zero() {
            return Self::new(negative, u128::MAX, EXPONENT_LIMIT + 1);
        }
        // If the first digit is before the point, 127 follow it.
        let shift = u32::from(self.mantissa < other.mantissa);
        let (mut rest, mut carry) = (
            self.mantissa << shift,
            shift == 1 && self.mantissa >> 127 == 1,
        );
        let mut quotient = 0;
        for _ in 0..128 {
            let digit = carry || rest >= other.mantissa;
            quotient = quotient << 1 | u128::from(digit);
            if digit {
                rest = rest.wrapping_sub(other.mantissa);
            }
            carry = rest >> 127 == 1;
            rest <<= 1;
        }
        Self::new(
            negative,
            quotient,
            self.exponent - other.exponent - 127 - i64::from(shift),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn real(value: f64) -> Float128 {
        Float128::from_f64(value)
    }

    /// Returns the largest value, at which overflow saturates.
    fn largest() -> Float128 {
        real(2.0).pow(real(1e30))
    }

    #[test]
    fn overflow_saturates() {
        let largest = largest();
        assert_eq!(largest.parts(), (false, u128::MAX, EXPONENT_LIMIT));
        assert_eq!(
            (largest.to_f64(), largest.to_f32()),
            (f64::INFINITY, f32::INFINITY)
        );
        assert_eq!((-largest).to_f64(), f64::NEG_INFINITY);
        assert!(real(f64::MAX) < largest && -largest < real(f64::MIN));
        for same in [
            largest * largest,
            -largest * -largest,
            largest + largest,
            largest + Float128::ONE,
            Float128::ONE / Float128::ZERO,
            largest.floor(),
            // The fixed-point form of the exponent holds 2^61, but not 2^62.
            real(2.0_f64.powi(61)).exp2(),
            real(2.0_f64.powi(62)).exp2(),
        ] {
            assert_eq!(same, largest);
        }
        assert_eq!(-Float128::ONE / Float128::ZERO, -largest);
        assert_eq!(largest - largest, Float128::ZERO);
    }

    #[test]
    fn underflow_is_zero() {
        for zero in [
            Float128::ONE / largest(),
            Float128::ONE / largest() / largest(),
            real(2.0).pow(real(-1e30)),
            real(-2.0_f64.powi(61)).exp2(),
            real(-2.0_f64.powi(62)).exp2(),
        ] {
            assert!(zero.is_zero() && zero == Float128::ZERO, "{zero:?}");
        }
        for value in [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -0.0] {
            assert_eq!(real(value), Float128::ZERO, "{value}");
        }
        assert_eq!((-Float128::ZERO).to_f64().to_bits(), 0);
    }

    #[test]
    fn fixed_point() {
        let power = |exponent: i64| Float128::new(false, 1, exponent);
        assert_eq!(power(61).to_fixed(), Some((1 << 61, 0)));
        assert_eq!(power(62).to_fixed(), None);
        assert_eq!((-power(62)).to_fixed(), None);
        assert_eq!(power(0).to_fixed(), Some((1, 0)));
        assert_eq!(power(-1).to_fixed(), Some((0, 1 << 127)));
        assert_eq!((-power(-1)).to_fixed(), Some((-1, 1 << 127)));
        assert_eq!(power(-128).to_fixed(), Some((0, 1)));
        // Half a unit rounds up, less than half down.
        assert_eq!(power(-129).to_fixed(), Some((0, 1)));
        assert_eq!(power(-130).to_fixed(), Some((0, 0)));
        assert_eq!((-power(0)).to_fixed(), Some((-1, 0)));
    }

    #[test]
    fn floats() {
        // Every exponent, with the shortest significands, and those at a tie of f32.
        for exponent in 0..0x7ff_u64 {
            for fraction in [
                0,
                1,
                (1 << 52) - 1,
                1 << 28,
                3 << 28,
                (1 << 28) + 1,
                1 << 51,
            ] {
                for sign in [0, 1 << 63] {
                    let value = f64::from_bits(sign | exponent << 52 | fraction);
                    let expected = if value == 0.0 { 0.0 } else { value };
                    let made = real(value);
                    assert_eq!(made.to_f64().to_bits(), expected.to_bits(), "{value:e}");
                    let (made, expected) = (made.to_f32(), expected as f32);
                    assert_eq!(made.to_bits(), expected.to_bits(), "{value:e}");
                }
            }
        }
    }
}
