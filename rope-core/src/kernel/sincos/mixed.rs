//! Rows of mixed axes: every pair has a step on every axis, and its angle is the sum over the axes.
//!
//! # How
//!
//! 1. *Reduce.* Of each axis the product `x * high` is taken as the sum of two doubles, rounded and what the rounding
//!    lost, both exact. The whole quarter turns of the first are subtracted exactly. The sum of what is left is kept as
//!    two doubles too (Knuth), and whole quarter turns are subtracted from it once more. So nothing is rounded before
//!    the large parts have canceled, and an angle that is small because two axes cancel is as good as any other.
//! 2. *Evaluate, round, doubt*: as [`sincos`](super), with the same polynomials.
//!
//! An axis that adds nothing, because its coordinate or its step is zero, changes no bit of the sum and makes nothing
//! doubtful: grids have a row and a column of zeros, and frequencies of fixed axes have more zeros than others.
//!
//! A chunk of two axes takes 62 operations where that of a single one takes 37.
//!
//! # Error
//!
//! `p` is the sum over the axes of `|x * 4 step|`, of which each is 2^34 at most; `r` the remainder in quarter turns.
//!
//! | source | absolute |
//! |---|---|
//! | `high + low` is the step within 2^-106 of it | 1 * 2^-106 p |
//! | `x low` below 2^-52 of `x high`, rounded | 2 * 2^-106 p |
//! | its sum with what `x high` lost, below 1.5 * 2^-52, rounded | 3 * 2^-106 p |
//! | six sums of low parts, of 1.5 * 2^-51 p at most, each rounded | 36 * 2^-106 p |
//! | sum | 42 * 2^-106 p |
//!
//! A remainder is doubted unless `r^2 >= 2^-100` times the sum of the squares of `x * 4 step`, which is `p^2 / 4` or
//! more: so `r >= 2^-51 p`, and the error is 42 * 2^-55 of `r`, 11 units in the last place of its sine. The rounding of
//! `r` itself adds one. Where [`sincos`](super) has 8 for the reduction this has 12, and 64 in all where [`DOUBT`] is
//! 128. A cosine is off by 1.2 times the error of `r`, less than a unit.
//!
//! With `p` up to 2^10 that doubts remainders below 2^-41; with 2^36 it doubts those below 2^-15. Results are normal
//! f32 numbers, because a remainder below 2^-100 is doubted as well unless all products are zero.

use super::chunk::{FrequencyChunk, power_of_two, quarters};
use super::oracle::{self, RADIAN, Remainder};
use super::position::AxisPosition;
use super::{DOUBT, ROUND, RowAngle, SinCosPolynomials, SinCosVectors, scale};
use crate::proof::Proof;
use crate::simd::{InstructionSet, Kernel, Scalar, SimdF64};

/// Of the sum of the squares of all products: the least square of a remainder.
const LEAST_RELATIVE: f64 = power_of_two(-100);
/// The least square of a remainder whose products are not all zero.
const LEAST_SQUARE: f64 = power_of_two(-200);

/// What a token's coordinates and a pair's steps make the angle of. The chunks are those of eight pairs, one for each
/// axis.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MixedSum {
    /// Exactly the sum.
    Exact,
    /// The angle in f32 and in radians: each product rounded, and each sum, axis 0 first. Its cos and sin are rounded,
    /// and once more after multiplication by the attention factor. Positions are to be given as f32 values.
    ///
    /// Two numbers of 24 bits have their product in a double exactly. Their sum is rounded to a double first, which
    /// moves no sum across a midpoint of f32 numbers, because 53 bits are twice 24 and two more (Figueroa).
    ///
    /// An angle is 2^36 quarter turns at most in the fast path, four times what [`RowAngle::HuggingFace`] lets through:
    /// the reduction's 6 units in the last place become 24, and the sum 78.
    F32 { factor: f32 },
}

impl MixedSum {
    /// cos and sin, and whether some lane is in doubt.
    #[inline(always)]
    fn cos_sin<S: SimdF64>(
        self,
        s: S,
        polynomials: &SinCosVectors<S>,
        x: &[f64; 4],
        chunks: &[FrequencyChunk],
        part: usize,
    ) -> (S::F64, S::F64, bool) {
        if let MixedSum::F32 { .. } = self {
            let radians = radians(s, x, chunks, part);
            let (high, low) = const { quarters(RADIAN) };
            return polynomials.at(s, radians, s.splat_f64(high), s.splat_f64(low));
        }
        let first = reduce(s, &chunks[0], x[0], part);
        // What is left of all axes is `sum + low`.
        let (mut sum, mut low, mut whole) = (first.rest, first.below, first.whole);
        let mut squares = s.mul_f64(first.product, first.product);
        for (chunk, &x) in chunks.iter().zip(x).skip(1) {
            let next = reduce(s, chunk, x, part);
            let lost;
            (sum, lost) = exact_sum(s, sum, next.rest);
            low = add(s, low, add(s, lost, next.below));
            whole = add(s, whole, next.whole);
            squares = s.mul_add(next.product, next.product, squares);
        }
        let rounded = add(s, sum, s.splat_f64(ROUND));
        let r = add(
            s,
            s.sub_f64(sum, s.sub_f64(rounded, s.splat_f64(ROUND))),
            low,
        );
        let square = s.mul_f64(r, r);
        let (cos, sin) = polynomials.evaluate(s, r, square);
        let above_least = s.mul_add(squares, s.splat_f64(-LEAST_RELATIVE), square);
        let doubt = s.any_doubt::<DOUBT>([cos, sin], squares, above_least, LEAST_SQUARE);
        let (cos, sin) = s.quarter_turns(add(s, rounded, whole), cos, sin);
        (cos, sin, doubt)
    }

    /// The same angle for the oracle.
    fn remainder(self, at: &[AxisPosition], chunks: &[FrequencyChunk], lane: usize) -> Remainder {
        match self {
            MixedSum::Exact => {
                let steps = chunks.iter().map(|chunk| chunk.step[lane]);
                Remainder::sum(at.iter().copied().zip(steps))
            }
            MixedSum::F32 { .. } => {
                let mut x = [0.0; 4];
                for (x, at) in x.iter_mut().zip(at) {
                    *x = at.value();
                }
                let radians = radians(Scalar, &x, chunks, lane);
                Remainder::new(AxisPosition::Coordinate(radians), RADIAN)
            }
        }
    }
}

/// The quarter turns of one axis: `whole + rest + below`. All but the last of its digits are exact.
struct Reduced<F> {
    /// Rounded to a double.
    product: F,
    whole: F,
    rest: F,
    below: F,
}

#[inline(always)]
fn reduce<S: SimdF64>(s: S, chunk: &FrequencyChunk, x: f64, part: usize) -> Reduced<S::F64> {
    let (x, high) = (s.splat_f64(x), s.load_f64(&chunk.high, part));
    let product = s.mul_f64(x, high);
    let lost = s.mul_sub(x, high, product);
    let whole = s.sub_f64(add(s, product, s.splat_f64(ROUND)), s.splat_f64(ROUND));
    Reduced {
        product,
        whole,
        rest: s.sub_f64(product, whole),
        below: s.mul_add(x, s.load_f64(&chunk.low, part), lost),
    }
}

/// The sum in radians and f32.
#[inline(always)]
fn radians<S: SimdF64>(s: S, x: &[f64; 4], chunks: &[FrequencyChunk], part: usize) -> S::F64 {
    let mut radians = s.splat_f64(0.0);
    for (chunk, &x) in chunks.iter().zip(x) {
        let product = s.mul_f64(s.splat_f64(x), s.load_f64(&chunk.inverse_f32, part));
        radians = s.round_to_f32(add(s, radians, s.round_to_f32(product)));
    }
    radians
}

/// `a + b`, rounded once.
#[inline(always)]
fn add<S: SimdF64>(s: S, a: S::F64, b: S::F64) -> S::F64 {
    s.mul_add(a, s.splat_f64(1.0), b)
}

/// `a + b`, and what its rounding lost (Knuth).
#[inline(always)]
fn exact_sum<S: SimdF64>(s: S, a: S::F64, b: S::F64) -> (S::F64, S::F64) {
    let sum = add(s, a, b);
    let of_b = s.sub_f64(sum, a);
    let of_a = s.sub_f64(sum, of_b);
    (sum, add(s, s.sub_f64(a, of_a), s.sub_f64(b, of_b)))
}

/// Rows `[cos of all pairs | sin of all pairs]` to be filled, one per token and head, a token's heads one after the
/// other.
pub(crate) struct MakeMixedRows<'a> {
    pub(crate) sum: MixedSum,
    /// `[head][eight pairs][axis]`.
    pub(crate) chunks: &'a [FrequencyChunk],
    /// [`FrequencyChunk::reach`] of the chunks, or of more.
    pub(crate) reach: f64,
    pub(crate) axes: usize,
    pub(crate) heads: usize,
    /// Pairs of a head: all of its chunks but the unused places of the last.
    pub(crate) pairs: usize,
    pub(crate) polynomials: &'a SinCosPolynomials,
    /// Where a token is on an axis.
    pub(crate) positions: &'a dyn Fn(usize, usize) -> AxisPosition,
    pub(crate) rows: &'a mut [f32],
}

/// Rows that a kernel makes at a time.
const ROWS: usize = 32;

impl MakeMixedRows<'_> {
    /// Fills the rows. Kernels see doubles alone; what they doubt is made again here, in code that is compiled once.
    pub(crate) fn run(self, proof: Proof) {
        let Self {
            sum,
            chunks,
            axes,
            heads,
            pairs,
            polynomials,
            ..
        } = self;
        if heads == 0 || pairs == 0 {
            return;
        }
        let reach = polynomials.reach(self.reach);
        let of_head = |head| &chunks[head * axes * pairs.div_ceil(8)..];
        let (mut token, mut head) = (0, 0);
        for rows in self.rows.chunks_mut(ROWS * 2 * pairs) {
            let (first_token, first_head) = (token, head);
            let mut x = [[0.0; 4]; ROWS];
            let count = rows.len() / (2 * pairs);
            for index in 0..count {
                if head == 0 || index == 0 {
                    for (axis, x) in x[index][..axes].iter_mut().enumerate() {
                        *x = (self.positions)(token, axis).within(reach);
                    }
                } else {
                    x[index] = x[index - 1];
                }
                head += 1;
                if head == heads {
                    (token, head) = (token + 1, 0);
                }
            }
            let mut doubted = 0;
            let work = RowBlock {
                sum,
                chunks,
                axes,
                heads,
                first_head,
                pairs,
                polynomials,
                x: &x[..count],
                rows,
                doubted: &mut doubted,
            };
            if matches!(sum, MixedSum::Exact) && axes == 1 {
                proof.run(OneAxis(work));
            } else {
                proof.run(work);
            }
            for (index, row) in rows.chunks_exact_mut(2 * pairs).enumerate() {
                if doubted >> index & 1 == 1 {
                    let row_of_all = first_head + index;
                    let token = first_token + row_of_all / heads;
                    let mut at = [AxisPosition::Integer(0); 4];
                    for (axis, at) in at[..axes].iter_mut().enumerate() {
                        *at = (self.positions)(token, axis);
                    }
                    let (at, chunks) = (&at[..axes], of_head(row_of_all % heads));
                    make_again(sum, chunks, polynomials, at, &x[index], row);
                }
            }
            if let MixedSum::F32 { factor } = sum {
                scale(rows, factor);
            }
        }
    }
}

/// At most [`ROWS`] rows.
struct RowBlock<'a> {
    sum: MixedSum,
    chunks: &'a [FrequencyChunk],
    axes: usize,
    heads: usize,
    /// The head of the first row.
    first_head: usize,
    pairs: usize,
    polynomials: &'a SinCosPolynomials,
    /// Where the token of each row is, on each axis, for the fast path.
    x: &'a [[f64; 4]],
    rows: &'a mut [f32],
    /// A bit for each row that has a pair in doubt.
    doubted: &'a mut u32,
}

/// The same of a single axis, which has no sum: it takes no longer than rows that all heads share. As a sum of one it
/// would take 1.2 to 1.3 times as long.
struct OneAxis<'a>(RowBlock<'a>);

impl Kernel for RowBlock<'_> {
    #[inline(always)]
    fn run<S: InstructionSet>(self, s: S) {
        self.make::<S, false>(s);
    }
}

impl Kernel for OneAxis<'_> {
    #[inline(always)]
    fn run<S: InstructionSet>(self, s: S) {
        self.0.make::<S, true>(s);
    }
}

impl RowBlock<'_> {
    #[inline(always)]
    fn make<S: SimdF64, const ONE_AXIS: bool>(self, s: S) {
        let RowBlock {
            sum,
            chunks,
            axes,
            heads,
            first_head,
            pairs,
            polynomials,
            x,
            rows,
            doubted,
        } = self;
        let vectors = polynomials.splat(s);
        let of_head = axes * pairs.div_ceil(8);
        let mut head = first_head;
        for (index, (row, x)) in rows.chunks_exact_mut(2 * pairs).zip(x).enumerate() {
            let chunks = chunks[head * of_head..][..of_head].chunks_exact(axes);
            let mut doubt = false;
            let (cos, sin) = row.split_at_mut(pairs);
            // The last eight may be fewer: one text for both, because it is long.
            for ((cos, sin), chunks) in cos.chunks_mut(8).zip(sin.chunks_mut(8)).zip(chunks) {
                let (mut c, mut n) = ([0.0; 8], [0.0; 8]);
                doubt |= if ONE_AXIS {
                    let (exact, chunk) = (RowAngle::Exact, &chunks[0]);
                    super::make::<S, true>(s, exact, chunk, &vectors, x, &mut c, &mut n)
                } else {
                    make(s, sum, chunks, &vectors, x, &mut c, &mut n)
                };
                match (cos.as_mut_array(), sin.as_mut_array()) {
                    (Some(cos), Some(sin)) => (*cos, *sin) = (c, n),
                    _ => {
                        cos.copy_from_slice(&c[..cos.len()]);
                        sin.copy_from_slice(&n[..sin.len()]);
                    }
                }
            }
            *doubted |= u32::from(doubt) << index;
            head += 1;
            if head == heads {
                head = 0;
            }
        }
    }
}

/// cos and sin of eight pairs, and whether any of them is in doubt.
#[inline(always)]
fn make<S: SimdF64>(
    s: S,
    sum: MixedSum,
    chunks: &[FrequencyChunk],
    polynomials: &SinCosVectors<S>,
    x: &[f64; 4],
    cos: &mut [f32; 8],
    sin: &mut [f32; 8],
) -> bool {
    let mut doubt = false;
    for part in 0..8 / S::F64_LANES {
        let (c, n, unsure) = sum.cos_sin(s, polynomials, x, chunks, part);
        s.store_as_f32(c, cos, part);
        s.store_as_f32(n, sin, part);
        doubt |= unsure;
    }
    doubt
}

/// The same row once more, one pair after the other, by the oracle where it is in doubt. What fused operations doubt
/// others may trust, and the other way round; what either trusts is right.
#[cold]
#[inline(never)]
fn make_again(
    sum: MixedSum,
    chunks: &[FrequencyChunk],
    polynomials: &SinCosPolynomials,
    at: &[AxisPosition],
    x: &[f64; 4],
    row: &mut [f32],
) {
    let (cos, sin) = row.split_at_mut(row.len() / 2);
    for (pair, (cos, sin)) in cos.iter_mut().zip(sin).enumerate() {
        let (chunks, lane) = (&chunks[pair / 8 * at.len()..][..at.len()], pair % 8);
        (*cos, *sin) = again(sum, chunks, lane, polynomials, at, x);
    }
}

#[inline(never)]
fn again(
    sum: MixedSum,
    chunks: &[FrequencyChunk],
    lane: usize,
    polynomials: &SinCosPolynomials,
    at: &[AxisPosition],
    x: &[f64; 4],
) -> (f32, f32) {
    let vectors = polynomials.splat(Scalar);
    let (c, s, doubt) = sum.cos_sin(Scalar, &vectors, x, chunks, lane);
    if doubt {
        oracle::cos_sin(sum.remainder(at, chunks, lane), polynomials.factor)
    } else {
        (c as f32, s as f32)
    }
}

#[cfg(test)]
mod tests;
