//! Tests of the oracle against golden data, and of the generator against the oracle on every backend.
//!
//! The golden data here is phases, which no frequency and position produce, so only unit tests can use them. The crate
//! of the tests compares rows of models, also with the oracle's, through the public functions.

extern crate std;

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::prelude::rust_2024::*;
use std::{env, println, vec};

use super::chunk::Step;
use super::consecutive::{self, MakeConsecutive};
use super::oracle::{RADIAN, Remainder, cos_sin, cos_sin_f64};
use super::*;
use crate::proof::Proof;
use crate::simd::operations;
use crate::{Backend, Frequencies, Scaling};

/// Returns the backends available here, the fastest first.
pub(super) fn backends() -> Vec<Proof> {
    Backend::available().filter_map(Backend::prove).collect()
}

/// Positions as integers or real numbers.
trait At: Copy {
    fn at(self) -> AxisPosition;
}

impl At for i64 {
    fn at(self) -> AxisPosition {
        AxisPosition::Integer(self)
    }
}

impl At for f64 {
    fn at(self) -> AxisPosition {
        AxisPosition::Coordinate(self)
    }
}

pub(super) fn step(fraction: u128) -> Step {
    Step {
        negative: false,
        whole: 0,
        fraction,
    }
}

/// Returns the frequencies of eight pairs on the first axis.
pub(super) fn chunk(steps: impl Iterator<Item = Step>) -> FrequencyChunk {
    let mut chunk = FrequencyChunk::EMPTY;
    for (lane, step) in steps.enumerate() {
        chunk.step[lane] = step;
        (chunk.high[lane], chunk.low[lane]) = quarters(step);
    }
    chunk
}

fn chunks(steps: &[Step]) -> Vec<FrequencyChunk> {
    let eights = steps.chunks(8);
    eights.map(|steps| chunk(steps.iter().copied())).collect()
}

/// Returns the rows of some positions.
fn rows<C: At>(backend: Proof, steps: &[Step], factor: f64, positions: &[C]) -> Vec<f32> {
    let chunks = chunks(steps);
    let mut rows = vec![f32::NAN; 2 * steps.len() * positions.len()];
    MakeRows {
        angle: RowAngle::Exact,
        chunks: &chunks,
        reach: FrequencyChunk::reach(&chunks),
        pairs: steps.len(),
        factor,
        axes: 1,
        heads: 1,
        positions: &|token, _| positions[token].at(),
        rows: &mut rows,
    }
    .run(backend);
    rows
}

/// Returns the rows of consecutive positions, computed by the addition theorem.
fn consecutive_rows(
    backend: Proof,
    steps: &[Step],
    factor: f64,
    first: i64,
    tokens: usize,
) -> Vec<f32> {
    let chunks = chunks(steps);
    let mut rows = vec![f32::NAN; 2 * steps.len() * tokens];
    backend.run(MakeConsecutive {
        chunks: &chunks,
        reach: FrequencyChunk::reach(&chunks),
        polynomials: &SinCosPolynomials::new(factor),
        first,
        rows: &mut rows,
    });
    rows
}

fn by_oracle(position: impl At, step: Step, factor: f64) -> (u32, u32) {
    let (cos, sin) = cos_sin(Remainder::new(position.at(), step), factor);
    (cos.to_bits(), sin.to_bits())
}

/// The angle of Hugging Face's models, on all backends and by the oracle.
#[test]
fn hugging_face_angles() {
    let positions = [
        0_u32,
        1,
        2,
        7,
        100,
        4095,
        4096,
        131_071,
        1_048_575,
        (1 << 24) - 1,
        (1 << 24) + 1,
        (1 << 31) - 1,
    ];
    for (base, factor) in [(1e4_f32, 1.0), (5e5, 1.138_629_4), (1e6, 0.7)] {
        let inverse: Vec<f32> = (0..64).map(|i| base.powf(-(i as f32) / 64.0)).collect();
        let chunks: Vec<FrequencyChunk> = inverse
            .chunks(8)
            .map(|f| {
                let mut chunk = FrequencyChunk::EMPTY;
                for (to, &f) in chunk.inverse_f32.iter_mut().zip(f) {
                    *to = f.into();
                }
                chunk
            })
            .collect();
        for backend in backends() {
            let mut made = vec![0.0; 2 * inverse.len() * positions.len()];
            MakeRows {
                angle: RowAngle::HuggingFace,
                chunks: &chunks,
                reach: FrequencyChunk::reach(&chunks),
                pairs: inverse.len(),
                factor: factor.into(),
                axes: 1,
                heads: 1,
                positions: &|token, _| AxisPosition::Coordinate(f64::from(positions[token] as f32)),
                rows: &mut made,
            }
            .run(backend);
            for (row, &p) in made.chunks_exact(2 * inverse.len()).zip(&positions) {
                for (i, f) in inverse.iter().enumerate() {
                    let angle = f64::from(p as f32 * f);
                    let (c, s) = cos_sin(Remainder::new(angle.at(), RADIAN), 1.0);
                    assert_eq!((c * factor).to_bits(), row[i].to_bits());
                    assert_eq!((s * factor).to_bits(), row[i + inverse.len()].to_bits());
                }
            }
        }
    }
}

/// Raw phases: the step of each phase at position 1, as f32 and (to the oracle's digits) as f64.
#[test]
fn phases() {
    let mut count = 0;
    // Replaced by a modified copy in tests/tools/blind.py.
    let text = env::var("ROPE_GOLDEN").map_or(include_str!("phases_u128.txt").into(), |folder| {
        std::fs::read_to_string(folder + "/phases_u128.txt").expect("the phases")
    });
    for line in text.lines().filter(|l| !l.starts_with('#')) {
        let w: Vec<&str> = line.split_whitespace().collect();
        let phase = u128::from_str_radix(w[0], 16).unwrap();
        let (sin, cos) = (
            u32::from_str_radix(w[1], 16).unwrap(),
            u32::from_str_radix(w[2], 16).unwrap(),
        );
        let doubles = [3, 4].map(|i| f64::from_bits(u64::from_str_radix(w[i], 16).unwrap()));
        let made = by_oracle(1, step(phase), 1.0);
        for (made, golden, double) in [(made.0, cos, doubles[1]), (made.1, sin, doubles[0])] {
            let golden = if golden == u32::MAX {
                (double as f32).to_bits()
            } else {
                golden
            };
            // Zeros have no sign here.
            let golden = if golden << 1 == 0 { 0 } else { golden };
            assert_eq!(made, golden, "{phase:032x}");
        }
        let (cos, sin) = cos_sin_f64(Remainder::new(1_i64.at(), step(phase)), 1.0);
        assert_eq!((cos, sin), (doubles[1], doubles[0]), "{phase:032x}");
        for backend in backends() {
            let row = rows(backend, &[step(phase); 8], 1.0, &[1_i64]);
            assert_eq!(
                (row[0].to_bits(), row[8].to_bits()),
                made,
                "{phase:032x} {backend:?}"
            );
        }
        count += 1;
    }
    assert_eq!(count, 1228);
}

/// A linear congruential generator of 128 bits that returns the high half.
pub(super) struct Random(u128);

impl Random {
    /// Seeds at random, or from `ROPE_SEED`. A failing test prints the seed.
    pub(super) fn new() -> Self {
        let seed: u64 = match env::var("ROPE_SEED") {
            Ok(seed) => seed.parse().unwrap(),
            Err(_) => RandomState::new().hash_one(0),
        };
        println!("repeat with ROPE_SEED={seed}");
        Self(seed.into())
    }
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(0x2360_ED05_1FC6_5DA4_4385_DF64_9FCC_F645)
            .wrapping_add(0x5851_F42D_4C95_7F2D_1405_7B7E_F767_814F);
        (self.0 >> 64) as u64
    }
    pub(super) fn wide(&mut self) -> u128 {
        u128::from(self.next()) << 64 | u128::from(self.next())
    }
}

fn agree<C: At + core::fmt::Debug>(steps: &[Step], factor: f64, positions: &[C]) {
    let n = steps.len();
    let expected: Vec<(u32, u32)> = positions
        .iter()
        .flat_map(|&p| steps.iter().map(move |&step| by_oracle(p, step, factor)))
        .collect();
    for backend in backends() {
        let made = rows(backend, steps, factor, positions);
        for (t, row) in made.chunks_exact(2 * n).enumerate() {
            for i in 0..n {
                assert_eq!(
                    (row[i].to_bits(), row[n + i].to_bits()),
                    expected[t * n + i],
                    "{backend:?} {:?} {:?} {factor}",
                    positions[t],
                    steps[i]
                );
            }
        }
    }
}

/// Steps, positions, factors and real coordinates of every size, and special ones.
#[test]
fn random() {
    let mut random = Random::new();
    let rounds = if cfg!(debug_assertions) { 20 } else { 400 };
    for round in 0..rounds {
        let n = 1 + round % 40;
        let mut steps: Vec<Step> = (0..n)
            .map(|_| step(random.wide() >> (random.next() % 64 * (random.next() % 3) % 128)))
            .collect();
        steps[0].fraction = [
            0,
            1,
            1 << 127,
            1 << 126,
            3 << 125,
            1 << 95,
            u128::MAX,
            1 << 77,
        ][round % 8];
        for step in &mut steps {
            step.negative = random.next().is_multiple_of(4);
        }
        let positions: Vec<i64> = (0..16)
            .map(|i| match i {
                0 => 0,
                1 => 1 << 32,
                2 => -(1 << 32),
                3 => i64::MAX,
                4 => i64::MIN,
                5 => 1 << 53,
                6 => (1 << 32) + 1,
                _ => random.next() as i64 >> (random.next() % 64),
            })
            .collect();
        let factor = match round % 8 {
            0..4 => 1.0,
            4 => 1.138_629_436,
            5 => 1.0 + f64::EPSILON * (1 << 28) as f64,
            6 => f64::from_bits(random.next() & !(1 << 62) | 1 << 61),
            _ => f64::from_bits(0x3ff0_0000_0000_0000 | random.next() >> 12),
        };
        agree(&steps, factor, &positions);
        // Steps from one turn up to 2^32 turns.
        for wide in &mut steps[n / 2..] {
            wide.whole = (random.next() >> (32 + random.next() % 32)) as u32;
        }
        let reals: Vec<f64> = (0..16)
            .map(|i| match i {
                0 => 0.0,
                1 => -0.0,
                2 => 1e300,
                3 => 5e-324,
                4 => -1e-40,
                5 => 0.5,
                6 => -0.25,
                7 => 1e-11,
                _ => {
                    let size = f64::from_bits((1023 - 8 + random.next() % 38) << 52);
                    size * (random.next() as i64 as f64) / 9.2e18
                }
            })
            .collect();
        agree(&steps, factor, &reals);
        agree(&steps, factor, &positions);
    }
}

/// Coordinates and steps whose product is a whole number of units, with a known phase.
#[test]
fn real_coordinates() {
    let mut random = Random::new();
    for _ in 0..if cfg!(debug_assertions) { 300 } else { 10_000 } {
        // k / 2^bits, times whole turns and a fraction in units of 2^-64: 109 bits in all.
        let (k, bits) = (random.next() as i32, (random.next() % 21) as u32);
        let (whole, fraction) = ((random.next() >> 49) as u32, random.next());
        let negative = random.next() & 1 == 1;
        let turns = i128::from(whole) << 64 | i128::from(fraction);
        let product = i128::from(k) * if negative { -turns } else { turns };
        let phase = (product as u128) << (64 - bits);
        let expected = by_oracle(1, step(phase), 1.0);
        let step = Step {
            negative,
            whole,
            fraction: u128::from(fraction) << 64,
        };
        let x = f64::from(k) / f64::from(1 << bits);
        assert_eq!(by_oracle(x, step, 1.0), expected, "{x} {step:?}");
        for backend in backends() {
            let row = rows(backend, &[step], 1.0, &[x]);
            let made = (row[0].to_bits(), row[1].to_bits());
            assert_eq!(made, expected, "{backend:?} {x} {step:?}");
        }
    }
}

/// [`Scalar`] with fused operations, as AVX2, AVX-512 and NEON have in f64.
#[derive(Clone, Copy)]
pub(super) struct Fused;

impl SimdF64 for Fused {
    const F64_LANES: usize = 1;
    type F64 = f64;
    fn mul_sub(self, a: f64, b: f64, c: f64) -> f64 {
        let once = a.mul_add(b, -c);
        let unfused = Scalar.mul_sub(a, b, c);
        // The payload of a NaN is not specified: ARM's has another sign.
        assert!(once.to_bits() == unfused.to_bits() || once.is_nan() && unfused.is_nan());
        once
    }
    fn load_f64(self, chunk: &[f64; 8], part: usize) -> f64 {
        Scalar.load_f64(chunk, part)
    }
    fn store_f64(self, v: f64, chunk: &mut [f64; 8], part: usize) {
        Scalar.store_f64(v, chunk, part);
    }
    fn splat_f64(self, x: f64) -> f64 {
        x
    }
    fn pick(self, of: &[f64; 4], halves: &[[u32; 2]; 8], part: usize) -> f64 {
        Scalar.pick(of, halves, part)
    }
    fn store_as_f32(self, v: f64, chunk: &mut [f32; 8], part: usize) {
        Scalar.store_as_f32(v, chunk, part);
    }
    fn differ_as_f32(self, a: f64, b: f64) -> u32 {
        Scalar.differ_as_f32(a, b)
    }
    operations! {
        f64:
        sub_f64(a, b) => a - b;
        mul_f64(a, b) => a * b;
        mul_add(a, b, c) => a.mul_add(b, c);
        round_to_f32(v) => Scalar.round_to_f32(v);
    }
    fn quarter_turns(self, quarters: f64, cos: f64, sin: f64) -> (f64, f64) {
        Scalar.quarter_turns(quarters, cos, sin)
    }
    fn any_doubt<const REACH: u64>(
        self,
        values: [f64; 2],
        whole: f64,
        small: f64,
        least: f64,
    ) -> bool {
        Scalar.any_doubt::<REACH>(values, whole, small, least)
    }
}

/// The largest errors of the polynomials of cosine and sine, in units in the last place.
#[derive(Default)]
pub(super) struct WorstErrors([f64; 2]);

impl WorstErrors {
    /// Adds the errors of a cos and a sin, both times a factor.
    pub(super) fn add(&mut self, made: (f64, f64), exact: (f64, f64), factor: f64) {
        for (made, exact) in [(made.0, exact.0), (made.1, exact.1)] {
            let ulps = made.to_bits().abs_diff(exact.to_bits()) as f64;
            // The polynomial of the sine computes values below half a square root of two.
            let limit = 1.00001 * core::f64::consts::FRAC_1_SQRT_2 * factor;
            let worst = &mut self.0[usize::from(made.abs() < limit)];
            *worst = worst.max(ulps);
        }
    }

    /// Asserts the bounds: 7 units for the cosine.
    pub(super) fn check(&self, sine: f64) {
        let [cos, sin] = self.0;
        println!("cosine's polynomial {cos} ulp, sine's {sin} ulp");
        assert!(cos <= 7.0 && sin <= sine);
    }
}

/// Random cases of an error measurement.
pub(super) const ROUNDS: u32 = if cfg!(debug_assertions) {
    20_000
} else {
    3_000_000
};

/// The error of the f64 values before rounding, in units in their last place, against the module's bounds of 60 and 7.
#[test]
fn error() {
    fn measure<S: SimdF64<F64 = f64>>(s: S, rounds: u32) -> WorstErrors {
        let mut random = Random::new();
        let mut worst = WorstErrors::default();
        for _ in 0..rounds {
            let step = step(random.wide() >> (random.next() % 24));
            let position = random.next() as i64 >> (31 + random.next() % 32);
            let factor = if random.next() & 1 == 0 {
                1.0
            } else {
                1.138_629_436
            };
            let (high, low) = quarters(step);
            let (cos, sin, _) =
                SinCosPolynomials::new(factor)
                    .splat(s)
                    .at(s, position as f64, high, low);
            let exact = cos_sin_f64(Remainder::new(position.at(), step), factor);
            worst.add((cos, sin), exact, factor);
        }
        worst
    }
    measure(Scalar, ROUNDS).check(60.0);
    measure(Fused, ROUNDS).check(60.0);
}

/// The addition theorem gives the bits of the usual way: for steps that rotate fast, slowly, backwards or not at all,
/// from any position.
#[test]
fn consecutive_positions() {
    let mut random = Random::new();
    for round in 0..if cfg!(debug_assertions) { 20 } else { 400 } {
        let steps: Vec<Step> = (0..8 * (1 + random.next() % 18))
            .map(|_| Step {
                negative: random.next() & 3 == 0,
                whole: 0,
                fraction: match random.next() % 64 {
                    0 => 0,
                    1 => random.wide() >> (random.next() % 128),
                    _ => random.wide() >> (random.next() % 24),
                },
            })
            .collect();
        let first = match random.next() % 8 {
            0 => i64::MAX - (random.next() % 300) as i64,
            1 => -(random.next() as i64 & 0xff),
            2 => 0,
            // Around the end of the fast path.
            3 => (1 << 32) - (random.next() % 1200) as i64,
            _ => random.next() as i64 >> (31 + random.next() % 32),
        };
        let factor = [1.0, 1.138_629_436, -0.7, 2f64.powi(-30)][round % 4];
        let tokens = 1 + random.next() as usize % 1200;
        let positions: Vec<i64> = (0..tokens as i64).map(|t| first.wrapping_add(t)).collect();
        let bits = |rows: Vec<f32>| rows.into_iter().map(f32::to_bits).collect::<Vec<_>>();
        let expected = bits(rows(Proof::Scalar(Scalar), &steps, factor, &positions));
        for backend in backends() {
            let made = bits(consecutive_rows(backend, &steps, factor, first, tokens));
            let wrong = made.iter().zip(&expected).position(|(a, b)| a != b);
            assert_eq!(
                wrong,
                None,
                "{backend:?}, {} pairs, {tokens} positions from {first}, factor {factor}",
                steps.len()
            );
        }
    }
}

/// An angle summed with zero angles is as exact as by itself, however small: no bits are cut off.
#[test]
fn sums_of_one_angle() {
    let zero = [
        (0_i64.at(), step(u128::MAX / 3)),
        (5_i64.at(), Step::default()),
    ];
    let bits = |angle| {
        let (cos, sin) = cos_sin_f64(angle, 1.0);
        (cos.to_bits(), sin.to_bits())
    };
    for coordinate in [2_f64.powi(-300), 5e-324, -3e-200, 1e-70, 1e-30, 0.75] {
        let one = (coordinate.at(), step(u128::MAX / 7));
        let alone = bits(Remainder::new(one.0, one.1));
        for angles in [
            [one, zero[0], zero[1]],
            [zero[0], one, zero[1]],
            [zero[1], zero[0], one],
        ] {
            let sum = Remainder::sum(angles.into_iter());
            assert_eq!(bits(sum), alone, "{coordinate:e}");
        }
    }
    let nothing = bits(Remainder::sum(zero.into_iter()));
    assert_eq!(nothing, (1_f64.to_bits(), 0));
}

/// The error of sums of angles, in 2^-53, against the module's bound of 134.
#[test]
fn error_of_sums() {
    fn measure<S: SimdF64<F64 = f64>>(s: S, rounds: u32) -> f64 {
        let mut random = Random::new();
        let vectors = SinCosPolynomials::new(1.0).splat(s);
        let mut worst = 0_f64;
        for _ in 0..rounds {
            let step = step(random.wide() >> (random.next() % 24));
            let (anchor, offset) = (random.next() as i64 >> 32, (random.next() % 8) as i64);
            let (high, low) = quarters(step);
            let (cos_a, sin_a, _) = vectors.at(s, anchor as f64, high, low);
            let (cos_b, sin_b, _) = vectors.at(s, offset as f64, high, low);
            let made = [
                s.mul_add(cos_a, cos_b, s.mul_f64(-sin_a, sin_b)),
                s.mul_add(sin_a, cos_b, s.mul_f64(cos_a, sin_b)),
            ];
            let exact = cos_sin_f64(Remainder::new((anchor + offset).at(), step), 1.0);
            for (made, exact) in made.into_iter().zip([exact.0, exact.1]) {
                worst = worst.max((made - exact).abs() * 2f64.powi(53));
            }
        }
        worst
    }
    for worst in [measure(Scalar, ROUNDS), measure(Fused, ROUNDS)] {
        println!("{worst} units of 2^-53");
        assert!(worst <= 134.0 && 134.0 < consecutive::ERROR * 2f64.powi(53));
    }
}

/// Every position below 2^20, 64 frequencies of three bases, on every backend against the oracle. Takes about a minute:
/// `cargo test --release -- --ignored exhaustive --nocapture`.
#[test]
#[ignore = "a minute"]
fn exhaustive() {
    for (name, steps) in [
        ("1e4", model_frequencies(1e4)),
        ("5e5", base_frequencies(5e5, 64)),
        ("1e6", model_frequencies(1e6)),
    ] {
        let chunks = chunks(&steps);
        let polynomials = SinCosPolynomials::new(1.0);
        let (mut wrong, mut doubted, mut misrounded, mut missed) = (0, 0, 0, 0);
        const BLOCK: i64 = 4096;
        for chunk in 0..(1 << 20) / BLOCK {
            let positions: Vec<i64> = (chunk * BLOCK..(chunk + 1) * BLOCK).collect();
            let mut expected = vec![0_f32; 128 * positions.len()];
            for (row, &p) in expected.chunks_exact_mut(128).zip(&positions) {
                for (i, &step) in steps.iter().enumerate() {
                    let (cos, sin) = cos_sin(Remainder::new(p.at(), step), 1.0);
                    (row[i], row[64 + i]) = (cos, sin);
                    let (o, lane) = (&chunks[i / 8], i % 8);
                    let (c, s, doubt) =
                        polynomials
                            .splat(Scalar)
                            .at(Scalar, p as f64, o.high[lane], o.low[lane]);
                    let off = c as f32 != cos || s as f32 != sin;
                    doubted += u32::from(doubt);
                    misrounded += u32::from(off);
                    missed += u32::from(off && !doubt);
                }
            }
            for backend in backends() {
                let first = chunk * BLOCK;
                for made in [
                    rows(backend, &steps, 1.0, &positions),
                    consecutive_rows(backend, &steps, 1.0, first, positions.len()),
                ] {
                    wrong += made
                        .iter()
                        .zip(&expected)
                        .filter(|(a, b)| a.to_bits() != b.to_bits())
                        .count();
                }
            }
        }
        println!(
            "base {name}: of 2^26 pairs {doubted} doubted, {misrounded} misrounded before, {missed} missed; {wrong} wrong"
        );
        assert_eq!((wrong, missed), (0, 0));
    }
}

/// Random positions to 2^32 and random steps, on the best backend against the oracle.
#[test]
#[ignore = "half a minute"]
fn far() {
    let mut random = Random::new();
    let best = Proof::best();
    let mut values = 0;
    for round in 0..2000 {
        let steps: Vec<Step> = (0..64).map(|i| step(random.wide() >> (i / 3))).collect();
        let positions: Vec<i64> = (0..512).map(|_| random.next() as i64 >> 31).collect();
        let factor = if round % 4 == 0 {
            1.0 + random.next() as f64 / 2e19
        } else {
            1.0
        };
        let made = rows(best, &steps, factor, &positions);
        for (row, &p) in made.chunks_exact(128).zip(&positions) {
            for (i, &step) in steps.iter().enumerate() {
                assert_eq!(
                    (row[i].to_bits(), row[64 + i].to_bits()),
                    by_oracle(p, step, factor)
                );
                values += 2;
            }
        }
    }
    println!("{values} values equal");
}

/// The least distance of f32 angles in radians to quarter turns.
#[test]
#[ignore = "ten seconds"]
fn radians() {
    for (from, to, expected) in [
        (1_f32, 2_f32.powi(32), -31),
        (2_f32.powi(32), 2_f32.powi(48), -32),
    ] {
        let nearest = (from.to_bits()..to.to_bits())
            .map(|bits| {
                let radians = f64::from(f32::from_bits(bits));
                let angle = Remainder::new(radians.at(), RADIAN);
                angle.exponent()
            })
            .min();
        assert_eq!(
            nearest.unwrap() - 1,
            expected,
            "angles from {from} to {to}, as powers of two of a turn"
        );
    }
}

/// Returns the steps of a model with 64 pairs.
fn model_frequencies(base: f64) -> Vec<Step> {
    let chunks = &mut [FrequencyChunk::EMPTY; 8];
    let frequencies = Frequencies::new_in(chunks, 128, base, &Scaling::Default).unwrap();
    frequencies.iter().map(|pair| step(pair.step)).collect()
}

fn base_frequencies(base: f64, n: usize) -> Vec<Step> {
    (0..n)
        .map(|i| {
            let turns = base.powf(-(i as f64) / n as f64) / core::f64::consts::TAU;
            step((turns * 2f64.powi(64)) as u128 * ((1 << 64) + 0x1234_5678_9abc_def0))
        })
        .collect()
}
