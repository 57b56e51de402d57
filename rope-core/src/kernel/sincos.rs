//! The row generator: `[cos | sin]` of `coordinate * step` turns, each the f32 nearest to the exact value.
//!
//! # How
//!
//! 1. *Reduce.* With `4 step = high + low`, two f64, the whole quarter turns `k` of `x * 4 step` are rounded off by
//!    adding and subtracting `1.5 * 2^52`. The remainder is `r = x high - k + x low`, within half a quarter turn. This
//!    takes four operations with a fused multiply-add; `mul_sub` gives the same bits without one.
//! 2. *Evaluate.* `sin = r P(r^2)` and `cos = Q(r^2)` in f64. The attention factor is multiplied into the coefficients,
//!    so it is rounded with the value and costs nothing. The low bits of `k` exchange sin and cos and set their signs.
//! 3. *Round, and doubt.* An f64 whose error cannot cross a midpoint of f32 numbers rounds to the right f32 (Ziv). A
//!    pair with a value too near to a midpoint, or with a remainder too small to be trusted, goes to the [`oracle`]:
//!    one in 350 000. Over all positions below 2^20 and 64 frequencies of the bases 1e4, 5e5 and 1e6, 196, 158 and 188
//!    of 2^26 pairs were in doubt, and 3, 6 and 2 of them would have been rounded wrongly.
//!
//! Consecutive positions take two thirds of the time: [`consecutive`]. For angles that are sums over several axes see
//! [`mixed`].
//!
//! A correctly rounded result has one value, so all backends give the same bits although only some fuse operations.
//!
//! A chunk takes 37 vector operations with AVX-512 and 105 with AVX2. Making a [`FrequencyChunk`] takes 5 ns per pair,
//! several times as long as a pair of a row, so frequencies store chunks, not steps.
//!
//! # Error
//!
//! In units in the last place of the f64, `ulp`. [`FrequencyChunk::reach`] ensures `|x * 4 step| <= 2^34`.
//!
//! | source | sin | cos |
//! |---|---|---|
//! | polynomial: sin 2^-47.5 relative, cos 2^-54.1 absolute above 0.707 | 45.3 | 0.5 |
//! | reduction, roundings of `x high - k` and of `r`: 2^-52 relative | 2 | 1.6 |
//! | reduction, `high + low` 2^-106, `x low` 2^-106, `x high - k` again 2^-106 of `x * 4 step`: 3 * 2^-72 of an `r` >= 2^-20 | 6 | 0 |
//! | coefficients times the factor, each rounded | 2 | 1.5 |
//! | Horner and the last product, fused or not | 4 | 3 |
//! | sum | 60 | 7 |
//! | found in 3 million random cases, fused and not | 42 | 2 |
//! | doubted within ([`DOUBT`]) | 128 | 128 |
//!
//! A remainder below 2^-20 of a quarter turn is in doubt unless `k = 0`, when nothing cancels and every error is
//! relative. Results are normal f32 numbers by the limits in [`FrequencyChunk`], [`SinCosPolynomials`] and
//! [`AxisPosition`]. A value beyond them becomes a NaN in the fast path, which is always in doubt.

pub(crate) mod chunk;
pub(crate) mod consecutive;
pub(crate) mod mixed;
pub(crate) mod oracle;
mod position;

pub(crate) use self::position::AxisPosition;

use self::chunk::{FrequencyChunk, power_of_two, quarters};
use self::oracle::{RADIAN, Remainder};
use crate::proof::Proof;
use crate::simd::{InstructionSet, Kernel, Scalar, SimdF64};

/// Values within this distance of a midpoint of f32 numbers, in units in the last place of an f64, go to the oracle:
/// one in 2^21.
const DOUBT: u64 = 128;
/// The least square of a remainder (in quarter turns) after whole quarter turns were subtracted.
const LEAST_SQUARE: f64 = 1.0 / (1_u64 << 40) as f64;
/// `1.5 * 2^52`: adding it rounds to an integer, whose low bits become the low bits of the f64.
const ROUND: f64 = (3_u64 << 51) as f64;

/// Polynomials for cos and sin of a remainder in quarter turns, `factor * Q(r^2)` and `factor * r P(r^2)`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SinCosPolynomials {
    factor: f64,
    /// True if the fast path supports the factor.
    usual: bool,
    cos: [f64; 7],
    sin: [f64; 6],
}

impl SinCosPolynomials {
    /// Minimax polynomials on half a quarter turn (Sollya, fpminimax), lowest degree first.
    const COS: [u64; 7] = [
        0x3ff0_0000_0000_0000,
        0xbff3_bd3c_c9be_45a5,
        0x3fd0_3c1f_081b_14eb,
        0xbf95_5d3c_7dcb_8c78,
        0x3f4e_1f4f_bfe8_f1d0,
        0xbefa_6ca0_1aa0_f500,
        0x3e9f_3ef9_a4d7_4457,
    ];
    const SIN: [u64; 6] = [
        0x3ff9_21fb_5444_2d18,
        0xbfe4_abbc_e625_8ccd,
        0x3fb4_66bc_671e_dce0,
        0xbf73_2d2c_6b44_e860,
        0x3f25_0720_4850_108c,
        0xbecd_d67b_b581_21ec,
    ];

    /// Creates the polynomials of `factor` times cos and sin. A factor outside 2^-20 ..= 2^100, where results might not
    /// be normal, takes the slow path.
    pub(crate) fn new(factor: f64) -> Self {
        Self {
            factor,
            usual: (power_of_two(-20)..=power_of_two(100)).contains(&factor.abs()),
            cos: Self::COS.map(|bits| f64::from_bits(bits) * factor),
            sin: Self::SIN.map(|bits| f64::from_bits(bits) * factor),
        }
    }

    /// Returns the reach of the fast path within that of the frequencies: none with an unusual factor.
    #[inline(always)]
    fn reach(&self, of_frequencies: f64) -> f64 {
        if self.usual { of_frequencies } else { -1.0 }
    }

    /// Returns the coefficients in vectors, for a loop.
    #[inline(always)]
    fn splat<S: SimdF64>(&self, s: S) -> SinCosVectors<S> {
        let [c0, c1, c2, c3, c4, c5, c6] = self.cos;
        let [s0, s1, s2, s3, s4, s5] = self.sin;
        SinCosVectors {
            cos: [
                s.splat_f64(c0),
                s.splat_f64(c1),
                s.splat_f64(c2),
                s.splat_f64(c3),
                s.splat_f64(c4),
                s.splat_f64(c5),
                s.splat_f64(c6),
            ],
            sin: [
                s.splat_f64(s0),
                s.splat_f64(s1),
                s.splat_f64(s2),
                s.splat_f64(s3),
                s.splat_f64(s4),
                s.splat_f64(s5),
            ],
        }
    }
}

/// The coefficients of a [`SinCosPolynomials`] in vectors.
#[derive(Clone, Copy)]
struct SinCosVectors<S: SimdF64> {
    cos: [S::F64; 7],
    sin: [S::F64; 6],
}

impl<S: SimdF64> SinCosVectors<S> {
    /// Returns cos and sin of `x * (high + low)` quarter turns, and whether any lane is in doubt.
    #[inline(always)]
    fn at(&self, s: S, x: S::F64, high: S::F64, low: S::F64) -> (S::F64, S::F64, bool) {
        let rounded = s.mul_add(x, high, s.splat_f64(ROUND));
        let whole = s.sub_f64(rounded, s.splat_f64(ROUND));
        let r = s.mul_add(x, low, s.mul_sub(x, high, whole));
        let square = s.mul_f64(r, r);
        let (cos, sin) = self.evaluate(s, r, square);
        let doubt = s.any_doubt::<DOUBT>([cos, sin], whole, square, LEAST_SQUARE);
        let (cos, sin) = s.quarter_turns(rounded, cos, sin);
        (cos, sin, doubt)
    }

    /// Returns cos and sin of a remainder, given with its square.
    #[inline(always)]
    fn evaluate(&self, s: S, r: S::F64, square: S::F64) -> (S::F64, S::F64) {
        let [c0, c1, c2, c3, c4, c5, c6] = self.cos;
        let [s0, s1, s2, s3, s4, s5] = self.sin;
        let (mut cos, mut sin) = (s.mul_add(c6, square, c5), s5);
        for (c, d) in [(c4, s4), (c3, s3), (c2, s2), (c1, s1), (c0, s0)] {
            cos = s.mul_add(cos, square, c);
            sin = s.mul_add(sin, square, d);
        }
        // Adding zero turns the sine of -0 into +0, as everywhere.
        (cos, s.mul_add(sin, r, s.splat_f64(0.0)))
    }
}

/// The definition of the angle of a coordinate and a pair. Kernels with a constant are compiled for it; others branch.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RowAngle {
    /// The exact product of coordinate and step.
    Exact,
    /// The angle of Hugging Face's code: the f32 nearest to `position * inverse frequency`, in radians. Its cos and sin
    /// are rounded to f32, and once more after multiplication by the attention factor. Positions must be f32 values.
    HuggingFace { factor: f32 },
}

impl RowAngle {
    /// Returns the factors of the angle in quarter turns: a coordinate, and the quarter turns of its unit, high and
    /// low.
    #[inline(always)]
    fn quarters<S: SimdF64>(
        self,
        s: S,
        x: S::F64,
        chunk: &FrequencyChunk,
        part: usize,
    ) -> [S::F64; 3] {
        match self {
            RowAngle::Exact => [
                x,
                s.load_f64(&chunk.high, part),
                s.load_f64(&chunk.low, part),
            ],
            RowAngle::HuggingFace { .. } => {
                let (high, low) = const { quarters(RADIAN) };
                // 24 bits times 24 bits are exact in f64.
                let radians = s.round_to_f32(s.mul_f64(x, s.load_f64(&chunk.inverse_f32, part)));
                [radians, s.splat_f64(high), s.splat_f64(low)]
            }
        }
    }

    /// Returns the angle for the oracle.
    fn remainder(self, at: AxisPosition, chunk: &FrequencyChunk, lane: usize) -> Remainder {
        match self {
            RowAngle::Exact => Remainder::new(at, chunk.step[lane]),
            RowAngle::HuggingFace { .. } => {
                let radians = (at.value() * chunk.inverse_f32[lane]) as f32;
                Remainder::new(AxisPosition::Coordinate(radians.into()), RADIAN)
            }
        }
    }
}

/// The generation of rows `[cos of all pairs | sin of all pairs]`, one per token.
pub(crate) struct MakeRows<'a> {
    pub(crate) angle: RowAngle,
    pub(crate) chunks: &'a [FrequencyChunk],
    /// The [`FrequencyChunk::reach`] of the chunks.
    pub(crate) reach: f64,
    /// Pairs in a row: all of the chunks, except the unused places of the last.
    pub(crate) pairs: usize,
    pub(crate) polynomials: &'a SinCosPolynomials,
    pub(crate) axes: usize,
    /// Returns the position of a token on an axis.
    pub(crate) positions: &'a dyn Fn(usize, usize) -> AxisPosition,
    pub(crate) rows: &'a mut [f32],
}

/// Tokens per call of a kernel.
const TOKENS: usize = 8;

impl MakeRows<'_> {
    /// Fills the rows. Kernels compute f64 alone; pairs in doubt are computed again here, in code that is compiled
    /// once.
    pub(crate) fn run(self, proof: Proof) {
        let Self {
            angle,
            chunks,
            pairs,
            polynomials,
            ..
        } = self;
        if pairs == 0 {
            return;
        }
        let reach = polynomials.reach(self.reach);
        for (index, rows) in self.rows.chunks_mut(TOKENS * 2 * pairs).enumerate() {
            // Missing axes are never selected.
            let mut x = [[f64::NAN; 4]; TOKENS];
            let tokens = rows.len() / (2 * pairs);
            let at = |token, axis| (self.positions)(index * TOKENS + token, axis);
            for (token, x) in x[..tokens].iter_mut().enumerate() {
                for (axis, x) in x[..self.axes].iter_mut().enumerate() {
                    *x = at(token, axis).within(reach);
                }
            }
            let mut doubted = 0;
            let work = TokenBlock {
                angle,
                chunks,
                pairs,
                polynomials,
                x: &x[..tokens],
                rows,
                doubted: &mut doubted,
            };
            if matches!(angle, RowAngle::Exact) && self.axes == 1 && pairs.is_multiple_of(8) {
                proof.run(Usual(work));
            } else {
                proof.run(work);
            }
            for (token, row) in rows.chunks_exact_mut(2 * pairs).enumerate() {
                if doubted >> token & 1 == 1 {
                    make_again(
                        angle,
                        chunks,
                        polynomials,
                        &|axis| at(token, axis),
                        &x[token],
                        row,
                    );
                }
            }
            if let RowAngle::HuggingFace { factor } = angle {
                scale(rows, factor);
            }
        }
    }
}

/// Multiplies rows by the factor after the rounding of their f32 angles.
fn scale(rows: &mut [f32], factor: f32) {
    for value in rows {
        *value *= factor;
    }
}

/// The rows of at most [`TOKENS`] tokens.
struct TokenBlock<'a> {
    angle: RowAngle,
    chunks: &'a [FrequencyChunk],
    pairs: usize,
    polynomials: &'a SinCosPolynomials,
    /// The position of each token on each axis, for the fast path.
    x: &'a [[f64; 4]],
    rows: &'a mut [f32],
    /// One bit per token that has a pair in doubt.
    doubted: &'a mut u32,
}

/// A block with exact angles, one axis and whole chunks: the usual case, in a kernel without branches. Another axis
/// takes 1.2 to 1.3 times as long with AVX-512 and AVX2.
struct Usual<'a>(TokenBlock<'a>);

impl Kernel for TokenBlock<'_> {
    #[inline(always)]
    fn run<S: InstructionSet>(self, s: S) {
        self.make::<S, false>(s);
    }
}

impl Kernel for Usual<'_> {
    #[inline(always)]
    fn run<S: InstructionSet>(self, s: S) {
        self.0.make::<S, true>(s);
    }
}

impl TokenBlock<'_> {
    #[inline(always)]
    fn make<S: SimdF64, const USUAL: bool>(self, s: S) {
        let TokenBlock {
            angle,
            chunks,
            pairs,
            polynomials,
            x,
            rows,
            doubted,
        } = self;
        let angle = if USUAL { RowAngle::Exact } else { angle };
        let vectors = polynomials.splat(s);
        for (token, (row, x)) in rows.chunks_exact_mut(2 * pairs).zip(x).enumerate() {
            let mut doubt = false;
            let (cos, sin) = row.split_at_mut(pairs);
            let (cos, cos_rest) = cos.as_chunks_mut();
            let (sin, sin_rest) = sin.as_chunks_mut();
            for ((chunk, cos), sin) in chunks.iter().zip(cos).zip(sin) {
                doubt |= make::<S, USUAL>(s, angle, chunk, &vectors, x, cos, sin);
            }
            let rest = cos_rest.len();
            if !USUAL && rest > 0 {
                let (chunk, mut cos, mut sin) = (&chunks[pairs / 8], [0.0; 8], [0.0; 8]);
                doubt |= make::<S, USUAL>(s, angle, chunk, &vectors, x, &mut cos, &mut sin);
                cos_rest.copy_from_slice(&cos[..rest]);
                sin_rest.copy_from_slice(&sin[..rest]);
            }
            *doubted |= u32::from(doubt) << token;
        }
    }
}

/// Computes cos and sin of a chunk of pairs; returns whether any of them is in doubt.
#[inline(always)]
fn make<S: SimdF64, const ONE_AXIS: bool>(
    s: S,
    angle: RowAngle,
    chunk: &FrequencyChunk,
    polynomials: &SinCosVectors<S>,
    x: &[f64; 4],
    cos: &mut [f32; 8],
    sin: &mut [f32; 8],
) -> bool {
    let mut doubt = false;
    for part in 0..8 / S::F64_LANES {
        let x = if ONE_AXIS {
            s.splat_f64(x[0])
        } else {
            s.pick(x, &chunk.axis, part)
        };
        let [x, high, low] = angle.quarters(s, x, chunk, part);
        let (c, n, unsure) = polynomials.at(s, x, high, low);
        s.store_as_f32(c, cos, part);
        s.store_as_f32(n, sin, part);
        doubt |= unsure;
    }
    doubt
}

/// Computes a row again, one pair after the other.
#[cold]
#[inline(never)]
fn make_again(
    angle: RowAngle,
    chunks: &[FrequencyChunk],
    polynomials: &SinCosPolynomials,
    at: &dyn Fn(usize) -> AxisPosition,
    x: &[f64; 4],
    row: &mut [f32],
) {
    let (cos, sin) = row.split_at_mut(row.len() / 2);
    for (pair, (cos, sin)) in cos.iter_mut().zip(sin).enumerate() {
        let (chunk, lane) = (&chunks[pair / 8], pair % 8);
        let axis = (chunk.axis[lane][0] as usize / 2).min(3);
        (*cos, *sin) = again(angle, chunk, lane, polynomials, at(axis), x[axis]);
    }
}

/// Returns cos and sin of a pair, from the oracle if they are in doubt.
///
/// Unfused operations may doubt values that fused ones do not, and the other way round. A value that either trusts is
/// right.
#[inline(never)]
fn again(
    angle: RowAngle,
    chunk: &FrequencyChunk,
    lane: usize,
    polynomials: &SinCosPolynomials,
    at: AxisPosition,
    x: f64,
) -> (f32, f32) {
    let [x, high, low] = angle.quarters(Scalar, x, chunk, lane);
    let (c, s, doubt) = polynomials.splat(Scalar).at(Scalar, x, high, low);
    if doubt {
        oracle::cos_sin(angle.remainder(at, chunk, lane), polynomials.factor)
    } else {
        (c as f32, s as f32)
    }
}

#[cfg(test)]
mod tests;
