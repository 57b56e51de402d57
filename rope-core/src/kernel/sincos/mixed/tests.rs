//! Tests of the oracle's sums against known phases, and of the generator against the oracle on every backend.

extern crate std;

use std::prelude::rust_2024::*;
use std::{println, vec};

use super::super::chunk::Step;
use super::super::oracle::{cos_sin, cos_sin_f64};
use super::super::tests::{Fused, ROUNDS, Random, WorstErrors, backends, chunk, step};
use super::*;
use crate::kernel::sincos::{MakeRows, SinCosPolynomials};
use crate::proof::Proof;

fn of<'a>(x: &'a [f64; 4], chunks: &'a [FrequencyChunk]) -> Octet<'a> {
    let part = 0;
    Octet { x, chunks, part }
}

/// A coordinate and a step: the term of an axis.
type AxisTerm = (AxisPosition, Step);

/// Frequencies of several heads, `steps[head][pair][axis]`.
struct Case {
    steps: Vec<Vec<Vec<Step>>>,
    /// `[token][axis]`.
    at: Vec<Vec<AxisPosition>>,
    factor: f64,
}

impl Case {
    fn chunks(&self) -> Vec<FrequencyChunk> {
        let axes = self.at[0].len();
        let mut chunks = Vec::new();
        for pairs in self.steps.iter().flat_map(|head| head.chunks(8)) {
            let axes = (0..axes).map(|axis| chunk(pairs.iter().map(|steps| steps[axis])));
            chunks.extend(axes);
        }
        chunks
    }

    fn rows(&self, backend: Proof) -> Vec<f32> {
        let chunks = self.chunks();
        let (heads, pairs) = (self.steps.len(), self.steps[0].len());
        let mut rows = vec![f32::NAN; self.at.len() * heads * 2 * pairs];
        MakeRows {
            angle: MixedSum::Exact,
            chunks: &chunks,
            reach: FrequencyChunk::reach(&chunks),
            axes: self.at[0].len(),
            heads,
            pairs,
            factor: self.factor,
            positions: &|token, axis| self.at[token][axis],
            rows: &mut rows,
        }
        .run(backend);
        rows
    }

    /// Asserts that every backend has the oracle's bits.
    fn agrees(&self) {
        let mut expected = Vec::new();
        for at in &self.at {
            for head in &self.steps {
                let pairs = head.iter().map(|steps| {
                    let terms = at.iter().copied().zip(steps.iter().copied());
                    cos_sin(Remainder::sum(terms), self.factor)
                });
                let (cos, sin): (Vec<f32>, Vec<f32>) = pairs.unzip();
                expected.extend(cos.into_iter().chain(sin).map(f32::to_bits));
            }
        }
        let (heads, pairs) = (self.steps.len(), self.steps[0].len());
        for backend in backends() {
            for (index, (made, expected)) in self.rows(backend).iter().zip(&expected).enumerate() {
                let row = index / (2 * pairs);
                let (token, head, pair) = (row / heads, row % heads, index % pairs);
                assert_eq!(
                    made.to_bits(),
                    *expected,
                    "{backend:?}: {:?} times {:?}, factor {}",
                    self.at[token],
                    self.steps[head][pair],
                    self.factor
                );
            }
        }
    }
}

fn oracle_bits(terms: &[AxisTerm], factor: f64) -> (u32, u32) {
    let (cos, sin) = cos_sin(Remainder::sum(terms.iter().copied()), factor);
    (cos.to_bits(), sin.to_bits())
}

fn any_step(random: &mut Random) -> Step {
    let fraction = match random.next() % 16 {
        0 => 0,
        1 => 1 << (random.next() % 128),
        2 => random.wide() >> (random.next() % 128),
        _ => random.wide() >> (random.next() % 24),
    };
    Step {
        negative: random.next().is_multiple_of(3),
        whole: match random.next() % 4 {
            0 => (random.next() >> (49 + random.next() % 15)) as u32,
            _ => 0,
        },
        fraction,
    }
}

fn any_integer(random: &mut Random) -> i64 {
    match random.next() % 8 {
        0 => 0,
        1 => [i64::MAX, i64::MIN, 1 << 32, -(1 << 32), (1 << 53) + 1][random.next() as usize % 5],
        2 => random.next() as i64 >> (random.next() % 64),
        _ => random.next() as i64 >> (48 + random.next() % 16),
    }
}

fn any_real(random: &mut Random) -> f64 {
    match random.next() % 8 {
        0 => [0.0, -0.0, 1e300, 5e-324, -1e-40, 0.5, -0.25, 1e-11][random.next() as usize % 8],
        1 => (random.next() as i64 as f64) * 2_f64.powi(-(random.next() as i32 & 127)),
        _ => (random.next() as i64 as f64) * 2_f64.powi(-40 - (random.next() as i32 & 31)),
    }
}

/// The sum of phases of integer positions is a wrapping sum.
#[test]
fn sums_of_integers() {
    let mut random = Random::new();
    for _ in 0..10_000 {
        let terms: Vec<(i64, Step)> = (0..1 + random.next() % 4)
            .map(|_| (any_integer(&mut random), any_step(&mut random)))
            .collect();
        let phase = terms.iter().fold(0_u128, |phase, &(at, step)| {
            let one = step.fraction.wrapping_mul(at as u128);
            match step.negative {
                true => phase.wrapping_sub(one),
                false => phase.wrapping_add(one),
            }
        });
        let whole = Remainder::new(AxisPosition::Integer(1), step(phase));
        let (cos, sin) = cos_sin(whole, 1.0);
        let terms: Vec<AxisTerm> = terms
            .into_iter()
            .map(|(at, step)| (AxisPosition::Integer(at), step))
            .collect();
        assert_eq!(
            oracle_bits(&terms, 1.0),
            (cos.to_bits(), sin.to_bits()),
            "{terms:?}"
        );
    }
}

/// Coordinates of 31 bits, `k / 2^20`, and steps in units of 2^-64 turn: the sum of the products is an integer in units
/// of 2^-84 turn.
#[test]
fn sums_of_reals() {
    let mut random = Random::new();
    for _ in 0..10_000 {
        let mut units = 0_i128;
        let terms: Vec<AxisTerm> = (0..1 + random.next() % 4)
            .map(|_| {
                let k = random.next() as i32 >> (random.next() % 32);
                let (whole, fraction) = ((random.next() >> 54) as u32, random.next());
                let negative = random.next() & 1 == 1;
                let turns = i128::from(whole) << 64 | i128::from(fraction);
                units += i128::from(k) * if negative { -turns } else { turns };
                let step = Step {
                    negative,
                    whole,
                    fraction: u128::from(fraction) << 64,
                };
                let x = f64::from(k) / f64::from(1 << 20);
                (AxisPosition::Coordinate(x), step)
            })
            .collect();
        let whole = Remainder::new(AxisPosition::Integer(1), step((units as u128) << 44));
        let (cos, sin) = cos_sin(whole, 1.0);
        let expected = (cos.to_bits(), sin.to_bits());
        assert_eq!(oracle_bits(&terms, 1.0), expected, "{terms:?}");
    }
}

/// Steps, positions, factors and real coordinates of every size, and special ones; a factor of 2^-30 leaves all of them
/// to the oracle.
#[test]
fn random() {
    let mut random = Random::new();
    for round in 0..if cfg!(debug_assertions) { 40 } else { 1000 } {
        let (axes, heads, pairs) = (
            1 + random.next() % 4,
            1 + random.next() % 3,
            1 + random.next() % 20,
        );
        let mut steps = |_| (0..axes).map(|_| any_step(&mut random)).collect();
        let steps = (0..heads).map(|_| (0..pairs).map(&mut steps).collect());
        let steps = steps.collect();
        let at = (0..14).map(|_| {
            (0..axes)
                .map(|_| match round % 2 {
                    0 => AxisPosition::Integer(any_integer(&mut random)),
                    _ => AxisPosition::Coordinate(any_real(&mut random)),
                })
                .collect()
        });
        Case {
            steps,
            at: at.collect(),
            factor: [1.0, 1.138_629_436, 0.7, 2_f64.powi(-30)][round / 2 % 4],
        }
        .agrees();
    }
}

/// Returns three axes, or two, that nearly cancel, at positions of a grid or a video and at distant ones.
fn cancelling(random: &mut Random) -> ([f64; 3], [Step; 3]) {
    let (mut x, mut steps, mut sum) = ([0.0, 0.0, 1.0], [Step::default(); 3], 0_u128);
    for axis in 0..1 + random.next() as usize % 2 {
        let at = random.next() as i64 >> (31 + random.next() % 32);
        steps[axis] = step(random.wide() >> (random.next() % 24));
        x[axis] = at as f64;
        sum = sum.wrapping_add(steps[axis].fraction.wrapping_mul(at as u128));
    }
    // Within a quarter turn or less of any of the four.
    let rest = random.wide() >> (random.next() % 70);
    steps[2] = step(
        (random.wide() >> 126 << 126)
            .wrapping_add(rest)
            .wrapping_sub(sum),
    );
    (x, steps)
}

fn pair(steps: &[Step]) -> Vec<FrequencyChunk> {
    let chunks = steps.iter().map(|&step| chunk([step].into_iter()));
    chunks.collect()
}

/// Angles that are small because axes cancel.
#[test]
fn cancellation() {
    let mut random = Random::new();
    for _ in 0..if cfg!(debug_assertions) { 300 } else { 20_000 } {
        let (x, steps) = cancelling(&mut random);
        Case {
            steps: vec![vec![steps.to_vec()]],
            at: vec![x.map(AxisPosition::Coordinate).to_vec()],
            factor: 1.0,
        }
        .agrees();
    }
}

/// The error of the f64 values that are not in doubt, before rounding, in units in their last place, against the bound
/// of 64 (and for the cosine 7, as for a single axis).
#[test]
fn error() {
    fn measure<S: SimdF64<F64 = f64>>(s: S) -> WorstErrors {
        let mut random = Random::new();
        let vectors = SinCosPolynomials::new(1.0).splat(s);
        let mut worst = WorstErrors::default();
        for _ in 0..ROUNDS {
            let (x, steps) = cancelling(&mut random);
            let chunks = pair(&steps);
            let [a, b, c] = x;
            let x = [a, b, c, 0.0];
            let (cos, sin, doubt) = MixedSum::Exact.cos_sin(s, &vectors, of(&x, &chunks));
            if doubt {
                continue;
            }
            let at = x.map(AxisPosition::Coordinate);
            let exact = cos_sin_f64(MixedSum::Exact.remainder(&at, of(&x, &chunks)), 1.0);
            worst.add((cos, sin), exact, 1.0);
        }
        worst
    }
    measure(Scalar).check(64.0);
    measure(Fused).check(64.0);
}

/// As few pairs go to the oracle as with one axis: on grids with their rows and columns of zeros, and with some zero
/// frequencies.
#[test]
fn few_are_doubted() {
    let mut random = Random::new();
    let vectors = SinCosPolynomials::new(1.0).splat(Scalar);
    let (mut doubted, mut pairs) = (0, 0);
    for round in 0..if cfg!(debug_assertions) { 100 } else { 2000 } {
        let mut steps = [0, 0].map(|_| Step {
            negative: random.next() & 1 == 1,
            ..step(random.wide() >> (3 + random.next() % 12))
        });
        match round % 4 {
            0 => steps[0] = Step::default(),
            1 => steps = [Step::default(); 2],
            _ => {}
        }
        let chunks = pair(&steps);
        for (x, y) in (0..20).flat_map(|x| (0..20).map(move |y| (x, y))) {
            let x = [f64::from(x), f64::from(y), 0.0, 0.0];
            doubted += u32::from(MixedSum::Exact.cos_sin(Scalar, &vectors, of(&x, &chunks)).2);
            pairs += 1;
        }
    }
    println!("{doubted} of {pairs} pairs are in doubt");
    assert!(doubted <= 3 + pairs / 100_000);
}

/// timm's angles on all backends: each product and each sum in f32.
#[test]
fn f32_angles() {
    let mut random = Random::new();
    for round in 0..if cfg!(debug_assertions) { 50 } else { 1000 } {
        let (axes, heads, pairs) = (1 + round % 4, 1 + round % 3, 1 + round % 19);
        let factor = [1.0_f32, 0.7][round % 2];
        let value = |random: &mut Random| {
            let size = 2_f32.powi((random.next() % 24) as i32 - 16);
            random.next() as i64 as f32 / 2_f32.powi(63) * size
        };
        // `[head][pair][axis]`, `[token][axis]`
        let mut list = |n| (0..n).map(|_| value(&mut random)).collect::<Vec<f32>>();
        let inverse = list(heads * pairs * axes);
        let at: Vec<f32> = list(40 * axes)
            .iter()
            .map(|x| (x * 100.0).round())
            .collect();
        let mut chunks = vec![FrequencyChunk::EMPTY; heads * pairs.div_ceil(8) * axes];
        for (index, &f) in inverse.iter().enumerate() {
            let (axis, pair, head) = (index % axes, index / axes % pairs, index / axes / pairs);
            chunks[(head * pairs.div_ceil(8) + pair / 8) * axes + axis].inverse_f32[pair % 8] =
                f.into();
        }
        for backend in backends() {
            let mut rows = vec![f32::NAN; 40 * heads * 2 * pairs];
            MakeRows {
                angle: MixedSum::F32,
                chunks: &chunks,
                reach: FrequencyChunk::reach(&chunks),
                axes,
                heads,
                pairs,
                factor: factor.into(),
                positions: &|token, axis| AxisPosition::Coordinate(at[token * axes + axis].into()),
                rows: &mut rows,
            }
            .run(backend);
            for (row, made) in rows.chunks_exact(2 * pairs).enumerate() {
                let (token, head) = (row / heads, row % heads);
                for pair in 0..pairs {
                    let products = (0..axes).map(|axis| {
                        at[token * axes + axis] * inverse[(head * pairs + pair) * axes + axis]
                    });
                    let angle = f64::from(products.fold(0.0, |sum, product| sum + product));
                    let exact = Remainder::new(AxisPosition::Coordinate(angle), RADIAN);
                    let (cos, sin) = cos_sin(exact, 1.0);
                    let expected = [cos * factor, sin * factor].map(f32::to_bits);
                    let made = [made[pair], made[pairs + pair]].map(f32::to_bits);
                    assert_eq!(made, expected, "{backend:?}, angle {angle}");
                }
            }
        }
    }
}
