//! cos and sin of a multiple of a turn in 128-bit fixed point, rounded to f32. Shares no code with rope-core.

use rope_core::Frequency;

/// A number on an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Coordinate {
    /// An integer position.
    Integer(i64),
    /// A finite coordinate.
    Real(f64),
}

/// The f32 nearest to a number; two candidates if the error of this arithmetic spans a tie.
#[derive(Clone, Copy, Debug)]
pub struct Nearest([f32; 2]);

impl Nearest {
    /// Returns true if `got` is a candidate. A zero may have any sign.
    pub fn is(self, got: f32) -> bool {
        self.0
            .iter()
            .any(|near| near.to_bits() == got.to_bits() || *near == 0.0 && got == 0.0)
    }
}

/// Returns cos and sin of `coordinate * frequency`, times a positive factor.
pub fn cos_sin(coordinate: Coordinate, frequency: Frequency, factor: f64) -> (Nearest, Nearest) {
    cos_sin_of_turns(product(coordinate, frequency), factor)
}

/// Returns cos and sin of the sum of at most four `coordinate * frequency`, times a positive factor. Coordinates must
/// be multiples of 2^-111.
///
/// # Panics
///
/// If a coordinate is no such multiple.
pub fn cos_sin_of_sum(
    terms: impl Iterator<Item = (Coordinate, Frequency)>,
    factor: f64,
) -> (Nearest, Nearest) {
    // Fractions of a turn, in units of 2^-SCALE.
    const SCALE: u32 = 239;
    let fractions = terms.map(|(coordinate, frequency)| {
        let (negative, product, scale) = product(coordinate, frequency);
        let scale = match u32::try_from(scale) {
            Ok(scale @ 1..) => scale,
            // Whole turns.
            _ => return Wide::ZERO,
        };
        let fraction = match SCALE.checked_sub(scale) {
            Some(up) => product.low_bits(scale).shl(up),
            None => {
                let down = scale - SCALE;
                let fraction = product.shr(down);
                assert_eq!(fraction.shl(down), product, "{coordinate:?}");
                fraction.low_bits(SCALE)
            }
        };
        match negative {
            true => Wide::ONE.shl(SCALE).minus(fraction),
            false => fraction,
        }
    });
    let sum = fractions.fold(Wide::ZERO, Wide::plus).low_bits(SCALE);
    cos_sin_of_turns((false, sum, SCALE as i32), factor)
}

/// Returns the turns of a coordinate: the sign, the magnitude as an integer, and `scale`; the magnitude is multiplied
/// with 2^-scale.
fn product(coordinate: Coordinate, frequency: Frequency) -> (bool, Wide, i32) {
    let (negative, mantissa, exponent) = match coordinate {
        Coordinate::Integer(at) => (at < 0, at.unsigned_abs(), 0),
        Coordinate::Real(at) => {
            let (mantissa, exponent) = parts(at.abs());
            // Drops trailing zero digits.
            let zeros = mantissa.trailing_zeros() % 64;
            (at < 0.0, mantissa >> zeros, exponent + zeros as i32)
        }
    };
    // A coordinate of 1 turns by `whole + step * 2^-128`.
    let (whole, step) = (i32::from(frequency.whole_turns), frequency.step);
    let turns = Wide {
        high: whole.unsigned_abs().into(),
        low: 0,
    };
    let turns = if whole < 0 {
        turns.minus(Wide { high: 0, low: step })
    } else {
        Wide { low: step, ..turns }
    };
    // The product has no more than 64 + 144 bits.
    (
        negative != (whole < 0),
        turns.times(mantissa),
        128 - exponent,
    )
}

/// Returns cos and sin of `product * 2^-scale` turns, times a positive factor.
fn cos_sin_of_turns(
    (negative, product, scale): (bool, Wide, i32),
    factor: f64,
) -> (Nearest, Nearest) {
    let fraction = match scale {
        ..=0 => Wide::ZERO,
        1..256 => product.low_bits(scale as u32),
        _ => product,
    };
    // The nearest quarter turn, and the rest.
    let (quarter, rest, below) = if scale < 1 {
        (0, Wide::ZERO, false)
    } else if scale < 240 {
        let (four, scale) = (fraction.shl(2), scale as u32);
        let quarter = four.plus(Wide::ONE.shl(scale - 1)).shr(scale).low;
        let nearest = Wide {
            high: 0,
            low: quarter,
        }
        .shl(scale);
        match four >= nearest {
            true => (quarter, four.minus(nearest), false),
            false => (quarter, nearest.minus(four), true),
        }
    } else {
        (0, fraction.shl(2), false)
    };
    let (cos, sin) = cos_sin_of_rest(rest, -scale);
    let sin = Binary {
        negative: below,
        ..sin
    };
    let (mut cos, mut sin) = match quarter % 4 {
        0 => (cos, sin),
        1 => (sin.negated(), cos),
        2 => (cos.negated(), sin.negated()),
        _ => (sin, cos.negated()),
    };
    if negative {
        sin = sin.negated();
    }
    let factor = parts(factor);
    cos = cos.times(factor);
    sin = sin.times(factor);
    (cos.nearest(), sin.nearest())
}

/// Returns cos and sin of `rest * 2^exponent` quarter turns, at most half a quarter turn.
fn cos_sin_of_rest(rest: Wide, exponent: i32) -> (Binary, Binary) {
    if rest == Wide::ZERO {
        let one = Binary {
            negative: false,
            mantissa: ONE,
            exponent: -127,
            exact: true,
        };
        return (one, Binary { mantissa: 0, ..one });
    }
    let shift = rest.leading_zeros();
    let quarters = rest.shl(shift).high;
    // pi / 2 = HALF_PI * 2^-127; 128 - shift bits of `quarters` are cut off.
    let mut radians = high_product(quarters, HALF_PI);
    let mut exponent = exponent + 129 - shift as i32;
    let shift = radians.leading_zeros();
    radians <<= shift;
    exponent -= shift as i32;
    // The angle is `radians * 2^exponent`, below 1: the exponent is -128 or less.
    let point = (-128 - exponent) as u32;
    let fixed = radians.checked_shr(point).unwrap_or(0);
    let square = high_product(fixed, fixed);
    let (mut cos, mut sinc) = (ONE, ONE);
    for k in (1..=20_u128).rev() {
        cos = ONE - high_product(square, cos) / ((2 * k - 1) * 2 * k);
        sinc = ONE - high_product(square, sinc) / (2 * k * (2 * k + 1));
    }
    let cos = Binary {
        negative: false,
        mantissa: cos,
        exponent: -127,
        exact: false,
    };
    let sin = Binary {
        mantissa: high_product(radians, sinc),
        exponent: exponent + 1,
        ..cos
    };
    (cos, sin)
}

/// One, with 127 fraction bits.
const ONE: u128 = 1 << 127;
/// Half of pi, with 127 fraction bits.
const HALF_PI: u128 = 0xc90f_daa2_2168_c234_c4c6_628b_80dc_1cd1;

/// `(-1)^negative * mantissa * 2^exponent`, with a relative error of at most 2^-112.
#[derive(Clone, Copy, Debug)]
struct Binary {
    negative: bool,
    mantissa: u128,
    exponent: i32,
    /// True if the number has no error.
    exact: bool,
}

impl Binary {
    fn negated(self) -> Self {
        Binary {
            negative: !self.negative,
            ..self
        }
    }

    /// Multiplies with a factor; both mantissas are shifted to the top of their 128 bits first.
    fn times(self, (factor, factor_exponent): (u64, i32)) -> Self {
        let (factor, shift) = (u128::from(factor), self.mantissa.leading_zeros() % 128);
        let factor_shift = factor.leading_zeros() % 128;
        let product = wide_product(self.mantissa << shift, factor << factor_shift);
        let shifts = (shift + factor_shift) as i32;
        Binary {
            mantissa: product.high,
            exponent: self.exponent + factor_exponent - shifts + 128,
            exact: self.exact && product.low == 0,
            ..self
        }
    }

    fn nearest(self) -> Nearest {
        let Binary {
            mantissa, exponent, ..
        } = self;
        if mantissa == 0 {
            return Nearest([0.0; 2]);
        }
        let top = 127 - mantissa.leading_zeros() as i32 + exponent;
        if top > 128 {
            return self.signed([f32::INFINITY; 2]);
        }
        // The unit in the last place.
        let unit = (top - 23).max(-149);
        let shift = unit - exponent;
        let value = |units: u128| (units as f64 * 2.0_f64.powi(unit)) as f32;
        let error = if self.exact { 0 } else { (mantissa >> 112) + 1 };
        let (units, rest, half) = match shift {
            1..128 => (
                mantissa >> shift,
                mantissa & ((1 << shift) - 1),
                1_u128 << (shift - 1),
            ),
            128 => (0, mantissa, 1 << 127),
            // Below half a unit, but perhaps by less than the error.
            129 if mantissa.wrapping_neg() <= error => return self.signed([0.0, value(1)]),
            _ => return self.signed([0.0; 2]),
        };
        if self.exact && rest == half {
            return self.signed([value(units + (units & 1)); 2]);
        }
        if rest.abs_diff(half) <= error {
            return self.signed([value(units), value(units + 1)]);
        }
        self.signed([value(units + u128::from(rest > half)); 2])
    }

    fn signed(self, values: [f32; 2]) -> Nearest {
        Nearest(values.map(|value| if self.negative { -value } else { value }))
    }
}

/// Returns the mantissa and the exponent of a number that is finite and not negative.
fn parts(value: f64) -> (u64, i32) {
    let bits = value.to_bits();
    let (fraction, exponent) = (bits & ((1 << 52) - 1), (bits >> 52 & 0x7ff) as i32);
    match exponent {
        0 => (fraction, -1074),
        _ => (fraction | 1 << 52, exponent - 1075),
    }
}

/// A 256-bit integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Wide {
    high: u128,
    low: u128,
}

impl Wide {
    const ZERO: Wide = Wide { high: 0, low: 0 };
    const ONE: Wide = Wide { high: 0, low: 1 };

    fn leading_zeros(self) -> u32 {
        match self.high {
            0 => 128 + self.low.leading_zeros(),
            high => high.leading_zeros(),
        }
    }

    fn plus(self, other: Wide) -> Wide {
        let (low, carry) = self.low.overflowing_add(other.low);
        Wide {
            high: self.high + other.high + u128::from(carry),
            low,
        }
    }

    fn minus(self, other: Wide) -> Wide {
        let (low, borrow) = self.low.overflowing_sub(other.low);
        Wide {
            high: self.high - other.high - u128::from(borrow),
            low,
        }
    }

    fn shl(self, by: u32) -> Wide {
        match by {
            0 => self,
            1..128 => Wide {
                high: self.high << by | self.low >> (128 - by),
                low: self.low << by,
            },
            128..256 => Wide {
                high: self.low << (by - 128),
                low: 0,
            },
            _ => Wide::ZERO,
        }
    }

    fn shr(self, by: u32) -> Wide {
        match by {
            0 => self,
            1..128 => Wide {
                high: self.high >> by,
                low: self.low >> by | self.high << (128 - by),
            },
            128..256 => Wide {
                high: 0,
                low: self.high >> (by - 128),
            },
            _ => Wide::ZERO,
        }
    }

    fn low_bits(self, bits: u32) -> Wide {
        match bits {
            0 => Wide::ZERO,
            _ => self.shl(256 - bits).shr(256 - bits),
        }
    }

    /// Multiplies and drops the bits beyond 256.
    fn times(self, factor: u64) -> Wide {
        let low = wide_product(self.low, factor.into());
        Wide {
            high: low.high + self.high * u128::from(factor),
            low: low.low,
        }
    }
}

fn wide_product(a: u128, b: u128) -> Wide {
    let halves = |x: u128| (x >> 64, x & u128::from(u64::MAX));
    let ((ah, al), (bh, bl)) = (halves(a), halves(b));
    let (low, middle, other) = (al * bl, ah * bl, al * bh);
    let (middle_high, middle_low) = halves(middle);
    let (other_high, other_low) = halves(other);
    let carry = (low >> 64) + middle_low + other_low;
    Wide {
        high: ah * bh + middle_high + other_high + (carry >> 64),
        low: carry << 64 | low & u128::from(u64::MAX),
    }
}

fn high_product(a: u128, b: u128) -> u128 {
    wide_product(a, b).high
}
