//! A decimal number as the nearest f64.
//!
//! The standard library's reader is 5 KB of code and 10 KB of powers of five, for speed that a file of some hundred
//! numbers has no use for. This one multiplies or divides the digits by powers of two until they are a whole number of
//! 53 bits.

use alloc::vec::Vec;

/// No number between two f64 that a rounding depends on has more digits that are not zero (the longest has 767).
const DIGITS: usize = 800;

/// 0.d1d2.. times a power of ten: the digits from the first that is not zero to the last that is not.
struct Decimal {
    digits: Vec<u8>,
    power: i32,
}

impl Decimal {
    /// The magnitude of a number as JSON writes it.
    fn new(number: &str) -> Self {
        let mut made = Self {
            digits: Vec::new(),
            power: 0,
        };
        let (mut before_point, mut bytes) = (true, number.bytes());
        for byte in bytes.by_ref() {
            match byte {
                b'.' => before_point = false,
                b'0' if made.digits.is_empty() => made.power -= i32::from(!before_point),
                b'0'..=b'9' => {
                    made.power += i32::from(before_point);
                    match made.digits.get_mut(DIGITS - 1) {
                        None => made.digits.push(byte - b'0'),
                        // What is cut off only keeps the number apart from one halfway between two.
                        Some(last) => *last |= u8::from(byte != b'0'),
                    }
                }
                b'-' => {}
                _ => break,
            }
        }
        let (mut exponent, mut sign) = (0_i32, 1);
        for byte in bytes {
            match byte {
                b'0'..=b'9' => {
                    let digit = sign * i32::from(byte - b'0');
                    exponent = exponent.saturating_mul(10).saturating_add(digit);
                }
                b'-' => sign = -1,
                _ => {}
            }
        }
        made.power = made.power.saturating_add(exponent);
        made.trim();
        made
    }

    fn trim(&mut self) {
        while self.digits.last() == Some(&0) {
            self.digits.pop();
        }
    }

    /// Multiplies it by two to the power of so many bits, 32 at most.
    fn multiply(&mut self, bits: i32) {
        let mut carry = 0;
        for digit in self.digits.iter_mut().rev() {
            carry += u64::from(*digit) << bits;
            (*digit, carry) = ((carry % 10) as u8, carry / 10);
        }
        while carry > 0 {
            self.digits.insert(0, (carry % 10) as u8);
            carry /= 10;
            self.power += 1;
        }
        self.trim();
    }

    /// Divides it by two to the power of so many bits, 32 at most.
    fn divide(&mut self, bits: i32) {
        let mut rest = 0;
        for digit in &mut self.digits {
            rest = 10 * rest + u64::from(*digit);
            *digit = (rest >> bits) as u8;
            rest &= (1 << bits) - 1;
        }
        while rest > 0 {
            rest *= 10;
            self.digits.push((rest >> bits) as u8);
            rest &= (1 << bits) - 1;
        }
        while self.digits.first() == Some(&0) {
            self.digits.remove(0);
            self.power -= 1;
        }
    }

    /// The whole part, or its first 17 digits, which are more than 2^53.
    fn whole(&self) -> u64 {
        (0..self.power.min(17)).fold(0, |whole, place| whole * 10 + u64::from(self.digit(place)))
    }

    fn digit(&self, place: i32) -> u8 {
        let digit = usize::try_from(place)
            .ok()
            .and_then(|place| self.digits.get(place));
        digit.copied().unwrap_or(0)
    }

    /// The whole number nearest to it, of two the even one.
    fn rounded(&self) -> u64 {
        let (whole, first) = (self.whole(), self.digit(self.power));
        let halfway = first == 5 && self.digits.len() as i32 == self.power + 1;
        match halfway {
            true => whole + whole % 2,
            false => whole + u64::from(first >= 5),
        }
    }
}

/// The f64 nearest to a number as JSON writes it, of two the one with the even mantissa; infinite beyond the largest.
pub(crate) fn nearest(number: &str) -> f64 {
    let mut decimal = Decimal::new(number);
    let magnitude = match decimal.power {
        _ if decimal.digits.is_empty() => 0.0,
        311.. => f64::INFINITY,
        _ => {
            let mut exponent = 0_i32;
            loop {
                let whole = decimal.whole();
                if whole >> 53 != 0 {
                    // From 10^27 on at least 57 bits are left.
                    let bits = if decimal.power > 27 { 32 } else { 1 };
                    decimal.divide(bits);
                    exponent += bits;
                    continue;
                }
                // The least f64 above zero is 2^-1074.
                let missing = whole.leading_zeros() as i32 - 11;
                let bits = missing.min(32).min(exponent + 1074);
                if bits == 0 {
                    break;
                }
                decimal.multiply(bits);
                exponent -= bits;
            }
            let unit = match exponent {
                ..-1022 => f64::from_bits(1 << (exponent + 1074)),
                _ => f64::from_bits(((exponent + 1023) as u64) << 52),
            };
            // Exact: the product has no more bits than the whole number, or is infinite.
            decimal.rounded() as f64 * unit
        }
    };
    match number.starts_with('-') {
        true => -magnitude,
        false => magnitude,
    }
}

#[cfg(test)]
mod tests {
    use super::nearest;
    use std::format;
    use std::string::String;

    /// The bits of the standard library's reader.
    #[track_caller]
    fn same(number: &str) {
        let expected: f64 = number.parse().expect("a number");
        let found = nearest(number);
        assert_eq!(found.to_bits(), expected.to_bits(), "{number}: {found:e}");
    }

    #[test]
    fn numbers_of_files_are_read_as_the_standard_library_does() {
        for number in [
            "0",
            "-0",
            "-0.0",
            "0.000",
            "0e5",
            "1",
            "-1",
            "10000.0",
            "1e-05",
            "1E+4",
            "1e-6",
            "0.1",
            "-0.3",
            "1.5e300",
            "123456789012345678901234567890",
            "0.30000000000000004",
            "9007199254740992",
            "9007199254740993",
            "9007199254740994.5",
            "9007199254740995",
            "1.7976931348623157e308",
            "1.7976931348623158e308",
            "1.7976931348623159e308",
            "1e308",
            "1e309",
            "1e310",
            "1e311",
            "1e99999999999",
            "-1e400",
            "1e-99999999999",
            "1e-2147483648",
            "1e-2147483649",
            "0.0001e-2147483648",
            "4.9e-324",
            "5e-324",
            "2.4703282292062327e-324",
            "2.4703282292062328e-324",
            "1e-323",
            "1e-330",
            "1e-331",
            "2.2250738585072011e-308",
            "2.2250738585072014e-308",
            "2.225073858507201136e-308",
            "0.0e-400",
            "8.5",
            "4503599627370496.5",
            "4503599627370497.5",
            "4503599627370497.50000000000000000000000000001",
        ] {
            same(number);
        }
    }

    /// Every f64 between two of which the digits are longest, and what differs from it beyond the last digit kept.
    #[test]
    fn numbers_halfway_are_rounded_to_even_however_long() {
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        for round in 0..300 {
            random = random
                .wrapping_mul(0x5851_f42d_4c95_7f2d)
                .wrapping_add(0x1405_7b7e_f767_814f);
            // Subnormals, then any.
            let bits = if round % 3 == 0 {
                random >> 12
            } else {
                random >> 1
            };
            let value = f64::from_bits(bits);
            if !value.is_finite() {
                continue;
            }
            same(&format!("{value:e}"));
            same(&format!("{value:?}"));
            same(&format!("{value:.20e}"));
            let exact = format!("{value:.1200}");
            same(&exact);
            let Some(halfway) = halfway(bits) else {
                continue;
            };
            for tail in ["", "000000000000000000001", "1"] {
                same(&(halfway.clone() + tail));
                same(&(halfway.clone() + &"0".repeat(900) + tail));
            }
        }
    }

    /// The number halfway between a small f64 and the next, all its digits.
    fn halfway(bits: u64) -> Option<String> {
        let (low, high) = (f64::from_bits(bits), f64::from_bits(bits + 1));
        // Twice the numbers are of one exponent, and so the sum of both halves is exact in decimal digits.
        (high < 1.0).then(|| {
            let digits = |value: f64| format!("{value:.1100}");
            let (low, high) = (digits(low), digits(high));
            let (mut sum, mut carry) = (String::new(), 0);
            for (a, b) in low.bytes().rev().zip(high.bytes().rev()) {
                if a == b'.' {
                    sum.insert(0, '.');
                    continue;
                }
                let digit = (a - b'0') + (b - b'0') + carry;
                sum.insert(0, char::from(b'0' + digit % 10));
                carry = digit / 10;
            }
            let mut rest = 0;
            let half: String = (sum.bytes())
                .map(|byte| {
                    if byte == b'.' {
                        return '.';
                    }
                    let value = 10 * rest + (byte - b'0');
                    rest = value % 2;
                    char::from(b'0' + value / 2)
                })
                .collect();
            half + if rest > 0 { "5" } else { "" }
        })
    }
}
