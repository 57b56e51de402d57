use std::boxed::Box;
use std::vec;
use std::vec::Vec;

use super::*;
use crate::Backend;

fn proofs() -> impl Iterator<Item = Proof> {
    Backend::ALL.iter().filter_map(|backend| backend.prove())
}

/// The definition of an 8-bit float: its magnitudes in the order of their codes, and the codes of other values.
struct Float8 {
    numbers: Vec<f64>,
    beyond: u8,
    /// The magnitude from which values round to infinity, if the format has one.
    infinity: Option<f64>,
}

impl Float8 {
    /// Creates a format of `mantissa` bits, exponents from `1 - bias` on, and `numbers` codes that are numbers.
    fn new(mantissa: i32, bias: i32, numbers: u8) -> Self {
        let number = |code: u8| {
            let (exponent, fraction) = (
                i32::from(code) >> mantissa,
                i32::from(code) % (1 << mantissa),
            );
            let implicit = if exponent == 0 { 0 } else { 1 << mantissa };
            f64::from(implicit + fraction) * f64::powi(2.0, exponent.max(1) - bias - mantissa)
        };
        Float8 {
            numbers: (0..numbers).map(number).collect(),
            beyond: numbers - 1,
            infinity: None,
        }
    }

    fn e4m3() -> Self {
        Float8::new(3, 7, 0x7f)
    }

    fn e5m2_saturating() -> Self {
        Float8::new(2, 15, 0x7c)
    }

    fn e5m2() -> Self {
        Float8 {
            beyond: 0x7c,
            infinity: Some(65536.0),
            ..Float8::e5m2_saturating()
        }
    }

    /// Returns the nearest code; the even one of two.
    fn code(&self, x: f32) -> u8 {
        let sign = if x.is_sign_negative() { 0x80 } else { 0 };
        let magnitude = f64::from(x.abs());
        let upper = self.numbers.partition_point(|number| *number <= magnitude);
        let code = if x.is_nan() {
            0x7f
        } else if upper < self.numbers.len() || self.infinity.is_some_and(|end| magnitude < end) {
            let next = self
                .numbers
                .get(upper)
                .copied()
                .or(self.infinity)
                .unwrap_or(f64::NAN);
            let middle = (self.numbers[upper - 1] + next) / 2.0;
            let up = magnitude > middle || (magnitude == middle && upper % 2 == 0);
            (if up { upper } else { upper - 1 }) as u8
        } else {
            self.beyond
        };
        sign | code
    }

    /// Returns numbers at which the code changes, or is likely wrong, with both signs.
    fn boundaries(&self) -> Vec<f32> {
        let end = self.infinity.unwrap_or(480.0);
        let mut all = vec![
            0.0,
            f32::MIN_POSITIVE,
            f32::from_bits(1),
            f32::MAX,
            f32::INFINITY,
        ];
        all.extend([
            f32::NAN,
            f32::from_bits(0x7f80_0001),
            f32::from_bits(0x7fff_ffff),
        ]);
        let mut ends = self.numbers.clone();
        ends.push(end);
        for pair in ends.windows(2) {
            for x in [
                pair[0] as f32,
                ((pair[0] + pair[1]) / 2.0) as f32,
                pair[1] as f32,
            ] {
                all.extend([x.next_down(), x, x.next_up()]);
            }
        }
        let negative: Vec<f32> = all.iter().map(|x| -x).collect();
        all.extend(negative);
        all
    }
}

/// Encodes with saturation, ties to even.
fn int8_even(x: f32) -> u8 {
    (x.round_ties_even() as i8).cast_unsigned()
}

/// Encodes as Triton's `_reshape_cache_per_token_head` of vLLM: adds a half in f32.
fn int8_away(x: f32) -> u8 {
    let sum = if x >= 0.0 { x + 0.5 } else { x - 0.5 };
    (sum.clamp(-128.0, 127.0).trunc() as i8).cast_unsigned()
}

/// The definition of a code.
type Definition = Box<dyn Fn(f32) -> u8>;

/// Returns each code with its definition.
fn codes() -> [(&'static str, &'static QuantKernels, Definition); 5] {
    let [e4m3, e5m2, saturating] = [Float8::e4m3(), Float8::e5m2(), Float8::e5m2_saturating()];
    [
        ("e4m3", &E4M3, Box::new(move |x| e4m3.code(x))),
        ("e5m2", &E5M2, Box::new(move |x| e5m2.code(x))),
        (
            "e5m2, saturating",
            &E5M2_SATURATING,
            Box::new(move |x| saturating.code(x)),
        ),
        ("int8, even", &INT8_EVEN, Box::new(int8_even)),
        ("int8, away", &INT8_AWAY, Box::new(int8_away)),
    ]
}

/// Random bits by splitmix64.
struct SplitMix(u64);

impl SplitMix {
    fn bits(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 32) as u32
    }

    /// Returns numbers of any size, or ordinary ones mixed with ties, zeros and special values.
    fn values(&mut self, len: usize) -> Vec<f32> {
        let special = [
            0.0,
            -0.0,
            1e-45,
            -1e-40,
            f32::INFINITY,
            f32::NEG_INFINITY,
            f32::NAN,
        ];
        let kind = self.bits() % 3;
        (0..len)
            .map(|_| match (kind, self.bits() % 16) {
                (0, _) => f32::from_bits(self.bits()),
                (1, 0) => special[self.bits() as usize % special.len()],
                (1, 1) => (self.bits() % 512) as f32 / 2.0 - 128.0,
                _ => (self.bits() as f32 - 2_147_483_648.0) * 2e-9,
            })
            .collect()
    }
}

fn encode(code: &QuantKernels, proof: Proof, values: &[f32], factors: ScaleFactors<'_>) -> Vec<u8> {
    encode_values(code, proof, Values::F32(values), factors)
}

fn encode_values(
    code: &QuantKernels,
    proof: Proof,
    values: Values<'_>,
    factors: ScaleFactors<'_>,
) -> Vec<u8> {
    let mut codes = vec![0x5a; values.len()];
    (code.encode)(
        proof,
        &mut Encoding {
            values,
            factors,
            codes: &mut codes,
        },
    );
    codes
}

fn check(
    name: &str,
    code: &QuantKernels,
    define: &dyn Fn(f32) -> u8,
    proof: Proof,
    values: &[f32],
) {
    let found = encode(code, proof, values, ScaleFactors::Multiply(&[1.0]));
    for (x, found) in values.iter().zip(found) {
        let wanted = define(*x);
        let bits = x.to_bits();
        assert_eq!(
            found,
            wanted,
            "{name} of {x:e} ({bits:08x}) by {}",
            proof.backend()
        );
    }
}

#[test]
fn codes_are_the_nearest_where_they_change() {
    for float in [Float8::e4m3(), Float8::e5m2()] {
        let mut values = float.boundaries();
        for integer in -300..300 {
            let half = integer as f32 / 2.0;
            values.extend([half.next_down(), half, half.next_up()]);
        }
        for (name, code, define) in codes() {
            for proof in proofs() {
                check(name, code, &define, proof, &values);
            }
        }
    }
}

/// Checks one in `stride` of all numbers, in blocks.
fn every(stride: usize) {
    const BLOCK: usize = 1 << 16;
    let all = codes();
    let numbers = (1_u64 << 32).div_ceil(stride as u64);
    for first in (0..numbers).step_by(BLOCK) {
        let block = first..numbers.min(first + BLOCK as u64);
        let values: Vec<f32> = block
            .map(|index| f32::from_bits((index * stride as u64) as u32))
            .collect();
        for (name, code, define) in &all {
            // The suite `cache` checks the 8-bit floats on all numbers, against its own definition.
            if stride == 1 && !name.starts_with("int8") {
                continue;
            }
            let ends = [values[0], values[values.len() - 1]].map(define);
            // Definitions are monotonic, and only a block with an infinity has NaNs and other values.
            let wanted = if stride == 1 && ends[0] == ends[1] {
                vec![ends[0]; values.len()]
            } else {
                values.iter().map(|x| define(*x)).collect()
            };
            for proof in proofs() {
                if encode(code, proof, &values, ScaleFactors::Multiply(&[1.0])) != wanted {
                    check(name, code, define, proof, &values);
                    panic!("a definition of {name} that is not monotonic");
                }
            }
        }
    }
}

#[test]
fn codes_of_some_of_all_numbers_are_the_nearest() {
    every(9973);
}

#[test]
#[ignore = "all 2^32 numbers: minutes"]
fn integers_of_all_numbers_are_the_nearest() {
    every(1);
}

#[test]
fn what_is_encoded_is_the_f32_product_or_quotient() {
    let mut random = SplitMix(1);
    for len in 0..200 {
        let values = random.values(len);
        for by in [1.0, 0.3, -2.5, 1e-30, 1e30, 1e-44, 0.0, f32::INFINITY] {
            for (name, code, define) in &codes() {
                let products: Vec<u8> = values.iter().map(|x| define(x * by)).collect();
                let inverses: Vec<u8> = values.iter().map(|x| define(x * (1.0 / by))).collect();
                let quotients: Vec<u8> = values.iter().map(|x| define(x / by)).collect();
                for proof in proofs() {
                    // The sign of a NaN of arithmetic is not specified.
                    let same = |factors: ScaleFactors<'_>, wanted: &[u8]| {
                        let found = encode(code, proof, &values, factors);
                        found.iter().zip(wanted).all(|(found, wanted)| {
                            let nan = found & 0x7f == 0x7f && wanted & 0x7f == 0x7f;
                            found == wanted || (nan && !name.starts_with("int8"))
                        })
                    };
                    let backend = proof.backend();
                    assert!(
                        same(ScaleFactors::Multiply(&[by]), &products),
                        "{name} * {by:e}, {len}, {backend}"
                    );
                    assert!(
                        same(ScaleFactors::Divide(&[by]), &quotients),
                        "{name} / {by:e}, {len}, {backend}"
                    );
                    assert!(
                        same(ScaleFactors::Reciprocal(&[by]), &inverses),
                        "{name} * (1 / {by:e}), {len}, {backend}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_code_is_its_value_times_the_scale() {
    let bytes: Vec<u8> = (0..=255).collect();
    for (code, float) in [
        (&E4M3, Some(Float8::e4m3())),
        (&E5M2, Some(Float8::e5m2())),
        (&E5M2_SATURATING, Some(Float8::e5m2())),
        (&INT8_EVEN, None),
        (&INT8_AWAY, None),
    ] {
        let value = |byte: u8| {
            let Some(float) = &float else {
                return f32::from(byte.cast_signed());
            };
            let sign = if byte < 0x80 { 1.0 } else { -1.0 };
            let magnitude = byte & 0x7f;
            let number = match float.numbers.get(usize::from(magnitude)) {
                Some(number) => *number as f32,
                None if float.infinity.is_some() && magnitude == float.beyond => f32::INFINITY,
                None => f32::NAN,
            };
            sign * number
        };
        for proof in proofs() {
            for scale in [1.0, -0.1, 3e38, 1e-44] {
                let mut values = vec![7.0; bytes.len()];
                (code.decode)(proof, &bytes, scale, &mut values);
                for (byte, found) in bytes.iter().zip(values) {
                    let wanted = value(*byte) * scale;
                    assert!(
                        found.to_bits() == wanted.to_bits() || (found.is_nan() && wanted.is_nan()),
                        "{byte:02x} times {scale:e}: {found:e} for {wanted:e} by {}",
                        proof.backend()
                    );
                }
            }
        }
    }
    assert_eq!(E4M3.largest, 448.0);
    assert_eq!([E5M2.largest, E5M2_SATURATING.largest], [57344.0; 2]);
    assert_eq!([INT8_EVEN.largest, INT8_AWAY.largest], [127.0; 2]);
}

#[test]
#[should_panic(expected = "out of range")]
fn codes_without_room_are_not_written() {
    let mut bytes = [0; 5];
    (E4M3.encode)(
        Proof::best(),
        &mut Encoding {
            values: Values::F32(&[1.0; 9]),
            factors: ScaleFactors::Multiply(&[1.0]),
            codes: &mut bytes,
        },
    );
}

/// Returns the largest magnitude. `f32::max` may treat a signaling NaN as larger.
fn largest(values: &[f32]) -> f32 {
    let numbers = values.iter().filter(|x| !x.is_nan());
    numbers.fold(0.0, |largest, x| largest.max(x.abs()))
}

#[test]
fn heads_have_factors_of_their_own() {
    let mut random = SplitMix(4);
    for len in 0..150 {
        let values = random.values(3 * len);
        let factors = [0.5, -3.0, 1e-3];
        for (name, code, _) in &codes() {
            for proof in proofs() {
                for several in [
                    ScaleFactors::Multiply(&factors),
                    ScaleFactors::Divide(&factors),
                    ScaleFactors::Reciprocal(&factors),
                ] {
                    let one = |head: usize| {
                        let factor = &factors[head..=head];
                        let factor = match several {
                            ScaleFactors::Multiply(_) => ScaleFactors::Multiply(factor),
                            ScaleFactors::Divide(_) => ScaleFactors::Divide(factor),
                            ScaleFactors::Reciprocal(_) => ScaleFactors::Reciprocal(factor),
                        };
                        encode(code, proof, &values[head * len..][..len], factor)
                    };
                    let wanted = [one(0), one(1), one(2)].concat();
                    let found = encode(code, proof, &values, several);
                    assert_eq!(found, wanted, "{name}, {len} by {}", proof.backend());
                }
            }
        }
        let wanted = [0, 1, 2].map(|head| largest(&values[head * len..][..len]));
        for proof in proofs() {
            assert_eq!(
                magnitudes(proof, &values),
                wanted,
                "{len} by {}",
                proof.backend()
            );
        }
    }
}

/// Returns the magnitudes of `HEADS` heads.
fn magnitudes<const HEADS: usize>(proof: Proof, heads: &[f32]) -> [f32; HEADS] {
    scales(proof, Values::F32(heads), 1.0, 0.0)
}

fn scales<const HEADS: usize>(
    proof: Proof,
    values: Values<'_>,
    largest: f32,
    least: f32,
) -> [f32; HEADS] {
    let mut scales = [f32::NAN; HEADS];
    (E4M3.make_scales)(
        proof,
        &mut ScaleRequest {
            values,
            largest,
            least,
            scales: &mut scales,
        },
    );
    scales
}

/// Returns words as values of both 16-bit elements, each with its f32 values.
fn of_16_bits(words: &[u16]) -> [(&'static str, Values<'_>, Vec<f32>); 2] {
    let bf16 = words
        .iter()
        .map(|word| half::bf16::from_bits(*word).to_f32());
    let f16 = words
        .iter()
        .map(|word| half::f16::from_bits(*word).to_f32());
    [
        ("bf16", Values::Bf16(words), bf16.collect()),
        ("f16", Values::F16(words), f16.collect()),
    ]
}

/// Each 16-bit word in each lane has the code of its f32.
#[test]
fn codes_of_all_elements_of_16_bits_match_their_f32() {
    let mut words: Vec<u16> = (0..=u16::MAX).collect();
    for lane in 0..64 {
        // Each lane of the largest block meets all words in turn; smaller blocks meet them sooner.
        words.rotate_left(1);
        let factor = [1.0, 0.37, 3e5, 1e-30][lane % 4];
        for (element, values, as_f32) in of_16_bits(&words) {
            for (name, code, _) in &codes() {
                for proof in proofs() {
                    let factors = ScaleFactors::Multiply(slice::from_ref(&factor));
                    let wanted = encode(code, proof, &as_f32, factors);
                    let found = encode_values(code, proof, values, factors);
                    let backend = proof.backend();
                    let both = found.iter().zip(&wanted).position(|(a, b)| a != b);
                    let wrong = both.map(|index| words[index]);
                    assert_eq!(wrong, None, "{name} of {element} * {factor} by {backend}");
                }
            }
        }
    }
}

#[test]
fn elements_of_16_bits_are_read_at_any_length() {
    let mut random = SplitMix(5);
    let special = [
        0, 0x8000, 1, 0x8001, 0x7f80, 0xff80, 0x7f81, 0xffc0, 0x7c00, 0xfc00, 0x7c01, 0xfe00,
    ];
    for len in 0..200 {
        let mut words: Vec<u16> = (0..2 * len).map(|_| random.bits() as u16).collect();
        // Ordinary numbers of both elements, with special values at any place.
        if len % 2 == 0 {
            words
                .iter_mut()
                .for_each(|word| *word = 0x3c00 | *word & 0x81ff);
        }
        if len > 0 {
            words[random.bits() as usize % (2 * len)] = special[len % special.len()];
        }
        let by = [0.5, -3.0];
        for (element, values, as_f32) in of_16_bits(&words) {
            for proof in proofs() {
                let backend = proof.backend();
                for factors in [
                    ScaleFactors::Multiply(&by),
                    ScaleFactors::Divide(&by),
                    ScaleFactors::Reciprocal(&by),
                ] {
                    for (name, code, _) in &codes() {
                        let wanted = encode(code, proof, &as_f32, factors);
                        let found = encode_values(code, proof, values, factors);
                        assert_eq!(
                            found, wanted,
                            "{name} of {len} {element} {factors:?} by {backend}"
                        );
                    }
                }
                let wanted: [f32; 2] = scales(proof, Values::F32(&as_f32), 127.0, 1e-6);
                let found: [f32; 2] = scales(proof, values, 127.0, 1e-6);
                assert_eq!(found, wanted, "scales of {len} {element} by {backend}");
                let magnitudes: [f32; 2] = scales(proof, values, 1.0, 0.0);
                let heads = [&as_f32[..len], &as_f32[len..]].map(largest);
                assert_eq!(
                    magnitudes, heads,
                    "magnitudes of {len} {element} by {backend}"
                );
                let whole = values.part(0..2 * len / Q8_0_VALUES * Q8_0_VALUES);
                let mut bytes = vec![0x5a; whole.len() / Q8_0_VALUES * Q8_0_BYTES];
                encode_q8_0(proof, whole, &mut bytes);
                assert_eq!(
                    bytes,
                    q8_0(&as_f32[..whole.len()]),
                    "Q8_0 of {len} {element} by {backend}"
                );
            }
        }
    }
}

#[test]
fn the_largest_magnitude_leaves_nans_out() {
    let mut random = SplitMix(2);
    for len in 0..300 {
        let values = random.values(len);
        let wanted = largest(&values);
        for proof in proofs() {
            let [found] = magnitudes(proof, &values);
            assert_eq!(
                found.to_bits(),
                wanted.to_bits(),
                "{len} by {}",
                proof.backend()
            );
        }
    }
    for proof in proofs() {
        assert_eq!(magnitudes::<1>(proof, &[f32::NAN; 70])[0].to_bits(), 0);
        assert_eq!(magnitudes::<1>(proof, &[-0.0; 70])[0].to_bits(), 0);
    }
}

/// Encodes by `quantize_row_q8_0_ref` of ggml-quants.c, with definitions for the cases that it leaves undefined.
fn q8_0(values: &[f32]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for block in values.chunks(Q8_0_VALUES) {
        let d = largest(block) / 127.0;
        let id = if d == 0.0 { 0.0 } else { 1.0 / d };
        bytes.extend(half::f16::from_f32(d).to_le_bytes());
        bytes.extend(
            block
                .iter()
                .map(|x| ((x * id).round() as i8).cast_unsigned()),
        );
    }
    bytes
}

#[test]
fn q8_0_is_the_reference_of_ggml() {
    let mut random = SplitMix(3);
    for round in 0..300 {
        let mut values = random.values(round % 9 * Q8_0_VALUES);
        if round % 4 == 0 {
            // Integers and ties, at a distance of 1.
            for block in values.chunks_mut(Q8_0_VALUES) {
                block.fill_with(|| (random.bits() % 507) as f32 / 2.0 - 126.5);
                block[random.bits() as usize % Q8_0_VALUES] = 127.0;
            }
        }
        if round % 4 == 1 {
            // Around the smallest number that has an inverse, and the smallest of f16.
            let size = [1e-44, 1e-36, 4e-6, 1e-2, 1e7][round / 4 % 5];
            values.iter_mut().for_each(|x| *x *= size);
        }
        let wanted = q8_0(&values);
        for proof in proofs() {
            let backend = proof.backend();
            let mut bytes = vec![0x5a; wanted.len()];
            encode_q8_0(proof, Values::F32(&values), &mut bytes);
            assert_eq!(bytes, wanted, "round {round} by {backend}");
            let mut back = vec![7.0; values.len()];
            decode_q8_0(proof, &bytes, &mut back);
            for (block, values) in bytes.chunks(Q8_0_BYTES).zip(back.chunks(Q8_0_VALUES)) {
                let d = half::f16::from_le_bytes([block[0], block[1]]).to_f32();
                for (code, found) in block[2..].iter().zip(values) {
                    let wanted = f32::from(code.cast_signed()) * d;
                    assert!(
                        found.to_bits() == wanted.to_bits() || (found.is_nan() && wanted.is_nan()),
                        "round {round}: {found:e} for {wanted:e} by {backend}"
                    );
                }
            }
        }
    }
}
