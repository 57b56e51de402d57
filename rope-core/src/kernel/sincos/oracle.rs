//! cos and sin of a coordinate times a step, correctly rounded to f32, in 128-bit integers.
//!
//! Slow (0.12 microseconds) and simple: it answers what the fast path cannot be sure of, it is the reference of every
//! test, and it is the same on every machine because no operation in it rounds in a way that a machine could choose.
//!
//! # Why the result is correctly rounded
//!
//! [`Remainder`] is exact for integer coordinates and within 2^-127 relative otherwise. Every later step truncates once
//! in the 128th bit. Summed over the two Taylor series (bounds at [`cos_sin_times`]) the result before rounding is
//! within `2^8` units of its 128th bit, and an f32 keeps 24 of those bits. So the rounding is certain unless the 104
//! bits below it lie within `2^8` of a midpoint. They never lie *on* one: cos and sin of a rational part of a turn are
//! irrational but for multiples of a quarter and a twelfth (Niven), a phase is a binary fraction, and multiples of a
//! quarter are answered exactly. That a value comes so near without being there has the chance 2^-94; among all
//! positions up to 2^32 of a million different steps one expects 2^-41 of them. Not by chance it happens to real
//! coordinates so near to zero that the sine of an angle is the angle, and that in radians is a midpoint: `2^-60` of a
//! frequency of `1 + 2^-24`. There one of the two neighbours is given, the same everywhere.

use super::block::Step;

/// A coordinate `± magnitude * 2^exponent`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Coordinate {
    pub(crate) negative: bool,
    pub(crate) magnitude: u64,
    pub(crate) exponent: i32,
}

impl From<i64> for Coordinate {
    fn from(position: i64) -> Self {
        Self {
            negative: position < 0,
            magnitude: position.unsigned_abs(),
            exponent: 0,
        }
    }
}

/// A finite double; what is not finite counts as zero.
impl From<f64> for Coordinate {
    fn from(x: f64) -> Self {
        let bits = x.to_bits();
        let (field, fraction) = ((bits >> 52 & 0x7ff) as i32, bits & ((1 << 52) - 1));
        let magnitude = match field {
            0 => fraction,
            0x7ff => 0,
            _ => fraction | 1 << 52,
        };
        Self {
            negative: x.is_sign_negative(),
            magnitude,
            exponent: field.max(1) - 1075,
        }
    }
}

/// An angle as a number of quarter turns and what remains of it, at most an eighth of a turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Remainder {
    /// Quarter turns; the low two bits count.
    quarters: u8,
    negative: bool,
    /// The remainder is `mantissa * 2^(exponent - 128)` turns; the highest bit is set unless it is zero.
    mantissa: u128,
    exponent: i32,
}

impl Remainder {
    /// The angle of `coordinate * step`, exact but for what lies below the 128 highest bits of the remainder.
    pub(crate) fn new(coordinate: Coordinate, step: Step) -> Self {
        let Coordinate {
            negative,
            magnitude,
            exponent,
        } = coordinate;
        // The product in units of 2^(exponent - 128) turns.
        let product = {
            let low = u128::from(magnitude) * (step.fraction & u128::from(u64::MAX));
            let middle = u128::from(magnitude) * (step.fraction >> 64) + (low >> 64);
            let high = u128::from(magnitude) * u128::from(step.whole) + (middle >> 64);
            U256 {
                high,
                low: middle << 64 | low & u128::from(u64::MAX),
            }
        };
        let (quarters, minus, rest, unit) = if exponent < -128 {
            // A coordinate below 2^-64 and a step below 2^32: no quarter turn.
            (0, false, product, exponent - 128)
        } else {
            // In units of 2^-256 turn whole turns fall off the top.
            let turns = product.shl((exponent + 128) as u32);
            let rounded = ((turns.high >> 125) + 1) >> 1;
            let rest = turns.sub(U256 {
                high: rounded << 126,
                low: 0,
            });
            let minus = rest.high >> 127 == 1;
            (
                rounded as u8 & 3,
                minus,
                if minus { U256::ZERO.sub(rest) } else { rest },
                -256,
            )
        };
        let zeros = rest.leading_zeros();
        let negative = negative != step.negative;
        Self {
            quarters: if negative {
                quarters.wrapping_neg()
            } else {
                quarters
            },
            negative: negative != minus,
            mantissa: rest.shl(zeros).high,
            exponent: unit + 256 - zeros as i32,
        }
    }
}

#[cfg(test)]
impl Remainder {
    /// The remainder is below `2^exponent` turns and at least half of that.
    pub(crate) fn exponent(self) -> i32 {
        self.exponent
    }
}

/// Only what [`Remainder::new`] needs.
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

    fn sub(self, other: Self) -> Self {
        let (low, borrow) = self.low.overflowing_sub(other.low);
        Self {
            high: self
                .high
                .wrapping_sub(other.high)
                .wrapping_sub(u128::from(borrow)),
            low,
        }
    }

    fn leading_zeros(self) -> u32 {
        if self.high == 0 {
            128 + self.low.leading_zeros()
        } else {
            self.high.leading_zeros()
        }
    }
}

/// `(cos, sin)` of an angle, times `factor`, each correctly rounded to f32.
pub(crate) fn cos_sin(angle: Remainder, factor: f64) -> (f32, f32) {
    let (cos, sin) = cos_sin_times(angle, Real::from(factor));
    (cos.to_f32(), sin.to_f32())
}

/// `(cos, sin)` of an angle, times `factor`, within `2^8` units of the 128th bit.
///
/// With `a` the remainder in radians (at most pi/4) and `z = a^2`, both in units of 2^-128: the constant pi/4, its
/// product and a real coordinate's remainder cost 3 units in `a`, hence 4 in `z`. A Horner step adds a truncated
/// coefficient, a truncated product and `z`'s error times a value below a half: the sum stays below 10 units, and the
/// products of the last step below 16. Normalising shifts by at most two bits, the factor costs two units more.
fn cos_sin_times(angle: Remainder, factor: Real) -> (Real, Real) {
    let Remainder {
        quarters,
        negative,
        mantissa,
        exponent,
    } = angle;
    let (cos, sin) = if mantissa == 0 {
        (factor, Real::ZERO)
    } else {
        let radians = mul_high(mantissa, QUARTER_PI); // times 2^(exponent + 3 - 128)
        let square = match 2 * (exponent + 3) {
            up @ 0.. => mul_high(radians, radians) << up, // the eighth of a turn itself
            down => mul_high(radians, radians)
                .checked_shr(down.unsigned_abs())
                .unwrap_or(0),
        };
        // A cosine above 1 - 2^-88 counts as that: both times a factor of 53 bits lie below the factor and above every
        // midpoint that is below it, and a factor on a midpoint is rounded down for certain.
        let cos = 0_u128.wrapping_sub(mul_high(square, series(square, &COS)).max(1 << 40));
        let sin = radians - mul_high(radians, mul_high(square, series(square, &SIN)));
        (
            Real::new(false, cos, 0).times(factor),
            Real::new(negative, sin, exponent + 3).times(factor),
        )
    };
    match quarters & 3 {
        0 => (cos, sin),
        1 => (sin.minus(), cos),
        2 => (cos.minus(), sin.minus()),
        _ => (sin, cos.minus()),
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

/// `1 / n!, 1 / (n + 2)!, ..` in units of 2^-128, rounded down, from the first of them. (The floor of a quotient of a
/// floor is the floor of the quotient.)
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

/// `terms[0] - z (terms[1] - z (terms[2] - ..))`.
fn series(z: u128, terms: &[u128; TERMS]) -> u128 {
    terms
        .iter()
        .rev()
        .fold(0, |sum, term| term - mul_high(z, sum))
}

/// The high half of a product of 128-bit numbers.
fn mul_high(a: u128, b: u128) -> u128 {
    const LOW: u128 = u64::MAX as u128;
    let (a1, a0, b1, b0) = (a >> 64, a & LOW, b >> 64, b & LOW);
    let first = a1 * b0 + ((a0 * b0) >> 64);
    let second = a0 * b1 + (first & LOW);
    a1 * b1 + (first >> 64) + (second >> 64)
}

/// `± mantissa * 2^(exponent - 128)`, with the highest bit set unless it is zero.
#[derive(Clone, Copy, Debug)]
struct Real {
    negative: bool,
    mantissa: u128,
    exponent: i32,
}

impl From<f64> for Real {
    fn from(x: f64) -> Self {
        let Coordinate {
            negative,
            magnitude,
            exponent,
        } = x.into();
        Self::new(negative, u128::from(magnitude), exponent + 128)
    }
}

impl Real {
    const ZERO: Self = Self {
        negative: false,
        mantissa: 0,
        exponent: 0,
    };

    fn new(negative: bool, mantissa: u128, exponent: i32) -> Self {
        match mantissa.leading_zeros() {
            128 => Self::ZERO,
            zeros => Self {
                negative,
                mantissa: mantissa << zeros,
                exponent: exponent - zeros as i32,
            },
        }
    }

    fn times(self, other: Self) -> Self {
        Self::new(
            self.negative != other.negative,
            mul_high(self.mantissa, other.mantissa),
            self.exponent + other.exponent,
        )
    }

    fn minus(self) -> Self {
        Self {
            negative: !self.negative,
            ..self
        }
    }

    /// The nearest f32, of two equally near ones the even one. Zero is `+0`, whatever its sign.
    fn to_f32(self) -> f32 {
        /// The error of the mantissa, see [`cos_sin_times`].
        const ERROR: u128 = 1 << 8;
        let Self {
            negative,
            mantissa,
            exponent,
        } = self;
        if mantissa == 0 {
            return 0.0;
        }
        // The value lies in [2^power, 2^(power + 1)).
        let power = exponent - 1;
        let subnormal = (-126 - power).max(0);
        let magnitude = match 104 + subnormal {
            _ if power > 127 => f32::INFINITY.to_bits(),
            below @ ..=127 => {
                let kept = (mantissa >> below) as u32;
                let (rest, half) = (mantissa & ((1 << below) - 1), 1_u128 << (below - 1));
                // An exact midpoint is a factor alone, 53 bits long. The tests meet no other one, nor anything near.
                if cfg!(test) {
                    assert!(
                        rest == half || rest.abs_diff(half) > ERROR,
                        "too near to a midpoint for 128 bits: {self:?}"
                    );
                }
                let kept = kept + u32::from(rest > half || rest == half && kept & 1 == 1);
                // A carry out of the mantissa goes into the exponent, where it belongs.
                if subnormal == 0 {
                    (((power + 126) as u32) << 23) + kept
                } else {
                    kept
                }
            }
            128 => u32::from(mantissa > 1 << 127),
            _ => 0,
        };
        f32::from_bits(magnitude | u32::from(negative) << 31)
    }
}

/// The same rounded to f64 (zero has no sign), as a test wants it. Never subnormal.
#[cfg(test)]
pub(crate) fn cos_sin_f64(angle: Remainder, factor: f64) -> (f64, f64) {
    let (cos, sin) = cos_sin_times(angle, Real::from(factor));
    let to_f64 = |v: Real| {
        // A tie occurs only where nothing is dropped.
        let magnitude = ((v.mantissa >> 74) as u64).div_ceil(2) as f64
            * f64::from_bits(((1023 - 53 + v.exponent) as u64) << 52);
        if v.negative {
            0.0 - magnitude
        } else {
            magnitude
        }
    };
    (to_f64(cos), to_f64(sin))
}
