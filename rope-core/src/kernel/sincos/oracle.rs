//! cos and sin of a coordinate times a step, correctly rounded to f32, in 128-bit integers.
//!
//! Slow (0.12 microseconds) and simple. The oracle decides the values in doubt of the fast path, and is the reference
//! of every test. It is the same on every machine, because none of its operations depends on a rounding of the machine.
//!
//! # Why the result is correctly rounded
//!
//! [`Remainder::new`] is exact for integer coordinates and within 2^-127 relative otherwise; [`Remainder::sum`] states
//! its own bound. Every later step truncates once in the 128th bit. Summed over the two Taylor series (bounds at
//! [`cos_sin_times`]), the result before rounding is within `2^8` units of its 128th bit, and an f32 keeps 24 of those
//! bits. The rounding is therefore certain unless the 104 bits below them lie within `2^8` of a midpoint.
//!
//! - *On* a midpoint is impossible. cos and sin of a rational part of a turn are irrational, except for multiples of a
//!   quarter and of a twelfth (Niven). A phase is a binary fraction, so a twelfth does not occur, and multiples of a
//!   quarter are computed exactly.
//! - *Near* a midpoint has a probability of 2^-94. Among all positions up to 2^32 of a million different steps, 2^-41
//!   such values are expected.
//! - One kind of value is near a midpoint by construction. For a real coordinate very near to zero, the sine of the
//!   angle is the angle itself, which can be a midpoint in radians: coordinate `2^-60`, frequency `1 + 2^-24`. The
//!   oracle then returns one of the two neighbors, the same on every machine.

use super::chunk::Step;
use super::position::AxisPosition;
use crate::base::float128::{Float128, mul_high};

/// An angle as a number of quarter turns and a remainder, at most an eighth of a turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Remainder {
    /// Quarter turns modulo 4, in the low two bits.
    quarters: u8,
    /// The remainder in turns.
    rest: Float128,
}

impl Remainder {
    /// Returns the angle of `position * step`, exact except below the 128 highest bits of the remainder. A position
    /// that is not finite counts as zero.
    pub(crate) fn new(position: AxisPosition, step: Step) -> Self {
        let (negative, product, exponent) = product(position, step);
        let (quarters, rest, unit) = if exponent < -128 {
            // A position below 2^-64 and a step below 2^32 make no quarter turn.
            (0, (false, product), exponent - 128)
        } else {
            let (quarters, rest) = product.shl((exponent + 128) as u32).quarter_turns();
            (quarters, rest, -256)
        };
        Self::normal(negative, quarters, rest, unit)
    }

    /// Returns the sum of one or more angles. It is exact except below the 128 highest bits of the remainder, if
    /// positions are integers, or coordinates that are multiples of 2^-128. Contributions of other coordinates are cut
    /// off below 2^-256 turn.
    #[inline(never)]
    pub(crate) fn sum(angles: impl Iterator<Item = (AxisPosition, Step)> + Clone) -> Self {
        let mut others = angles
            .clone()
            .filter(|&(position, step)| position.value() != 0.0 && step != Step::default());
        // A single angle may be arbitrarily small.
        if let (Some((position, step)), None) = (others.next(), others.next()) {
            return Self::new(position, step);
        }
        let turns = angles.fold(U256::ZERO, |sum, (position, step)| {
            let (negative, product, exponent) = product(position, step);
            let turns = match exponent + 128 {
                up @ 0.. => product.shl(up as u32),
                down => product.shr(down.unsigned_abs() as u32),
            };
            if negative {
                sum.sub(turns)
            } else {
                // Whole turns overflow at the top.
                sum.sub(U256::ZERO.sub(turns))
            }
        });
        let (quarters, rest) = turns.quarter_turns();
        Self::normal(false, quarters, rest, -256)
    }

    /// Normalizes an angle or its opposite: quarter turns, and a signed rest in units of `2^unit` turns.
    #[inline(always)]
    fn normal(negative: bool, quarters: u8, (minus, rest): (bool, U256), unit: i64) -> Self {
        let zeros = rest.leading_zeros();
        Self {
            quarters: if negative {
                quarters.wrapping_neg()
            } else {
                quarters
            },
            rest: Float128::normal(
                negative != minus,
                rest.shl(zeros).high,
                unit + 128 - i64::from(zeros),
            ),
        }
    }
}

/// Returns the sign and the magnitude of `position * step`, in units of 2^(exponent - 128) turns, and the exponent.
#[inline(always)]
fn product(position: AxisPosition, step: Step) -> (bool, U256, i64) {
    let (negative, mantissa, exponent) = match position {
        AxisPosition::Integer(position) => Float128::from_i64(position),
        AxisPosition::Coordinate(coordinate) => Float128::from_f64(coordinate),
    }
    .parts();
    // No position has more than 64 digits.
    let magnitude = mantissa >> 64;
    let (low, carry) = magnitude.carrying_mul(step.fraction, 0);
    let high = magnitude * u128::from(step.whole) + carry;
    (negative != step.negative, U256 { high, low }, exponent + 64)
}

#[cfg(test)]
impl Remainder {
    /// Returns the exponent: the remainder is below `2^exponent` turns and at least half of that.
    pub(crate) fn exponent(self) -> i64 {
        self.rest.parts().2 + 128
    }
}

/// A 256-bit integer with the operations of a [`Remainder`].
#[derive(Clone, Copy, Debug)]
struct U256 {
    high: u128,
    low: u128,
}

impl U256 {
    const ZERO: Self = Self { high: 0, low: 0 };

    fn shl(self, by: u32) -> Self {
        match by {
            0 => self,
            1..128 => Self {
                high: self.high << by | self.low >> (128 - by),
                low: self.low << by,
            },
            128..256 => Self {
                high: self.low << (by - 128),
                low: 0,
            },
            _ => Self::ZERO,
        }
    }

    fn shr(self, by: u32) -> Self {
        match by {
            0 => self,
            1..128 => Self {
                high: self.high >> by,
                low: self.low >> by | self.high << (128 - by),
            },
            128..256 => Self {
                high: 0,
                low: self.high >> (by - 128),
            },
            _ => Self::ZERO,
        }
    }

    fn sub(self, other: Self) -> Self {
        let (low, borrow) = self.low.borrowing_sub(other.low, false);
        let (high, _) = self.high.borrowing_sub(other.high, borrow);
        Self { high, low }
    }

    /// Splits turns in units of 2^-256 into quarter turns, and the sign and magnitude of the rest.
    #[inline(always)]
    fn quarter_turns(self) -> (u8, (bool, Self)) {
        let rounded = ((self.high >> 125) + 1) >> 1;
        let rest = self.sub(U256 {
            high: rounded << 126,
            low: 0,
        });
        let minus = rest.high >> 127 == 1;
        let rest = if minus { U256::ZERO.sub(rest) } else { rest };
        (rounded as u8 & 3, (minus, rest))
    }

    fn leading_zeros(self) -> u32 {
        if self.high == 0 {
            128 + self.low.leading_zeros()
        } else {
            self.high.leading_zeros()
        }
    }
}

/// Returns `(cos, sin)` of an angle, times `factor`, each correctly rounded to f32.
#[inline(never)]
pub(crate) fn cos_sin(angle: Remainder, factor: f64) -> (f32, f32) {
    let (cos, sin) = cos_sin_times(angle, Float128::from_f64(factor));
    (to_f32(cos), to_f32(sin))
}

/// The turns in a radian, within 2^-129. f32 angles from 1 to 2^32 are at least 2^-31 of a turn away from all quarter
/// turns, and angles to 2^48 at least 2^-32 (`tests::radians` checks them all). Their remainders are therefore right
/// within 2^-66 and 2^-49 of themselves.
pub(crate) const RADIAN: Step = Step {
    negative: false,
    whole: 0,
    fraction: 0x28BE_60DB_9391_054A_7F09_D5F4_7D4D_3770,
};

/// The error bound of [`cos_sin_times`], in units of the 128th bit.
const ERROR: u128 = 1 << 8;

/// Returns `(cos, sin)` of an angle, times `factor`, within [`ERROR`] units of the 128th bit.
///
/// With `a` the remainder in radians (at most pi/4) and `z = a^2`, both in units of 2^-128: the constant pi/4, its
/// product and a real coordinate's remainder cost 3 units in `a`, hence 4 in `z`. A Horner step adds a truncated
/// coefficient, a truncated product and `z`'s error times a value below a half: the sum stays below 10 units, and the
/// products of the last step below 16. Normalizing shifts by at most two bits, the factor costs two units more.
fn cos_sin_times(angle: Remainder, factor: Float128) -> (Float128, Float128) {
    let (negative, mantissa, exponent) = angle.rest.parts();
    let (cos, sin) = if mantissa == 0 {
        (factor, Float128::ZERO)
    } else {
        let radians = mul_high(mantissa, QUARTER_PI); // times 2^(exponent + 3)
        let square = match 2 * (exponent + 131) {
            up @ 0.. => mul_high(radians, radians) << up, // the eighth of a turn itself
            down => mul_high(radians, radians)
                .checked_shr(down.unsigned_abs() as u32)
                .unwrap_or(0),
        };
        let (cos, sin) = series(square);
        // A cosine above 1 - 2^-88 is replaced by that value. Times a factor of 53 bits, both lie below the factor and
        // above every midpoint below it, and a factor on a midpoint certainly rounds down.
        let cos = 0_u128.wrapping_sub(mul_high(square, cos).max(1 << 40));
        let sin = radians - mul_high(radians, mul_high(square, sin));
        (
            Float128::new(false, cos, -128) * factor,
            Float128::new(negative, sin, exponent + 3) * factor,
        )
    };
    match angle.quarters & 3 {
        0 => (cos, sin),
        1 => (-sin, cos),
        2 => (-cos, -sin),
        _ => (sin, -cos),
    }
}

/// `pi / 4` in units of 2^-128.
const QUARTER_PI: u128 = 0xC90F_DAA2_2168_C234_C4C6_628B_80DC_1CD1;

/// Terms of a series: `0.617^17 / 34!` is below 2^-139.
const TERMS: usize = 16;
/// `1/2!, 1/4!, ..` in units of 2^-128.
const COS: [u128; TERMS] = inverse_factorials(1 << 127, 2);
/// `1/3!, 1/5!, ..` in units of 2^-128.
const SIN: [u128; TERMS] = inverse_factorials((1 << 127) / 3, 3);

/// Returns `1 / n!, 1 / (n + 2)!, ..` in units of 2^-128, rounded down, from the first of them. (The floor of a
/// quotient of a floor is the floor of the quotient.)
const fn inverse_factorials(first: u128, mut n: u128) -> [u128; TERMS] {
    let mut terms = [first; TERMS];
    let mut i = 1;
    while i < TERMS {
        terms[i] = terms[i - 1] / (n + 1) / (n + 2);
        n += 2;
        i += 1;
    }
    terms
}

/// Returns `1/2! - z (1/4! - z (1/6! - ..))` and `1/3! - z (1/5! - z (1/7! - ..))`, computed side by side because each
/// step of either waits for the one before.
#[inline(never)]
fn series(z: u128) -> (u128, u128) {
    let terms = COS.iter().zip(&SIN).rev();
    terms.fold((0, 0), |(cos, sin), (c, s)| {
        (c - mul_high(z, cos), s - mul_high(z, sin))
    })
}

/// Rounds to the nearest f32, ties to even.
fn to_f32(value: Float128) -> f32 {
    // Only a factor alone, 53 bits long, is an exact midpoint. The tests find no other midpoint, nor a value near one.
    if cfg!(test) {
        let (_, mantissa, exponent) = value.parts();
        // A normal f32 drops 104 bits, the first of which is set in a midpoint.
        let certain = if exponent >= -253 {
            (mantissa << 24).abs_diff(1 << 127) > ERROR << 24
        } else {
            let error = Float128::new(false, ERROR, exponent);
            (value - error).to_f32() == (value + error).to_f32()
        };
        assert!(
            certain || mantissa << 53 == 0,
            "too near to a midpoint for 128 bits: {value:?}"
        );
    }
    value.to_f32()
}

/// Returns `(cos, sin)` of an angle rounded to f64, for tests (zero has no sign).
#[cfg(test)]
pub(crate) fn cos_sin_f64(angle: Remainder, factor: f64) -> (f64, f64) {
    let (cos, sin) = cos_sin_times(angle, Float128::from_f64(factor));
    (cos.to_f64(), sin.to_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOME: [U256; 4] = [
        U256 { high: 1, low: 0 },
        U256 {
            high: 1 << 127 | 1,
            low: 1 << 127 | 1,
        },
        U256 {
            high: 0x0123_4567_89ab_cdef_0f1e_2d3c_4b5a_6978,
            low: 0xfedc_ba98_7654_3210_8796_a5b4_c3d2_e1f0,
        },
        U256 {
            high: u128::MAX,
            low: u128::MAX,
        },
    ];

    fn words(x: U256) -> (u128, u128) {
        (x.high, x.low)
    }

    /// A shift by any number of bits equals as many shifts by one.
    #[test]
    fn shifts() {
        for x in SOME {
            let (mut up, mut down) = (x, x);
            for by in 0..300 {
                assert_eq!(words(x.shl(by)), words(up), "{x:?} << {by}");
                assert_eq!(words(x.shr(by)), words(down), "{x:?} >> {by}");
                up = U256 {
                    high: up.high << 1 | up.low >> 127,
                    low: up.low << 1,
                };
                down = U256 {
                    high: down.high >> 1,
                    low: down.low >> 1 | down.high << 127,
                };
            }
        }
    }

    #[test]
    fn leading_zeros() {
        let top = U256 {
            high: 1 << 127,
            low: 0,
        };
        for by in 0..256 {
            assert_eq!(top.shr(by).leading_zeros(), by);
        }
        assert_eq!(U256::ZERO.leading_zeros(), 256);
    }

    /// Quarter turns and the rest sum to the angle, and the rest is at most an eighth of a turn.
    #[test]
    fn quarters_and_rest() {
        for x in SOME {
            for by in 0..256 {
                let turns = x.shl(by);
                let (quarters, (minus, rest)) = turns.quarter_turns();
                assert!(quarters < 4 && rest.high <= 1 << 125, "{turns:?}");
                let whole = U256 {
                    high: u128::from(quarters) << 126,
                    low: 0,
                };
                let again = match minus {
                    true => whole.sub(rest),
                    false => whole.sub(U256::ZERO.sub(rest)),
                };
                assert_eq!(words(again), words(turns), "{turns:?}");
            }
        }
    }
}
