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

use core::slice::ChunksExact;

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
        let zero = s.splat_f64(0.0);
        let mut vectors = SinCosVectors {
            cos: [zero; 7],
            sin: [zero; 6],
        };
        for (vector, x) in vectors.cos.iter_mut().zip(&self.cos) {
            *vector = s.splat_f64(*x);
        }
        for (vector, x) in vectors.sin.iter_mut().zip(&self.sin) {
            *vector = s.splat_f64(*x);
        }
        vectors
    }
}

/// The coefficients of a [`SinCosPolynomials`] in vectors.
#[derive(Clone, Copy)]
pub(crate) struct SinCosVectors<S: SimdF64> {
    cos: [S::F64; 7],
    sin: [S::F64; 6],
}

impl<S: SimdF64> SinCosVectors<S> {
    /// Returns cos and sin of `x * (high + low)` quarter turns, and whether any lane is in doubt.
    #[inline(always)]
    fn at(&self, s: S, x: S::F64, high: S::F64, low: S::F64) -> Doubtful<S> {
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

/// Eight pairs of a token, and the part of them that a vector holds.
#[derive(Clone, Copy)]
pub(crate) struct Octet<'a> {
    /// The position of the token on each axis, for the fast path.
    x: &'a [f64; 4],
    chunks: &'a [FrequencyChunk],
    part: usize,
}

/// cos and sin, and whether any lane is in doubt.
type Doubtful<S> = (<S as SimdF64>::F64, <S as SimdF64>::F64, bool);

/// The definition of the angle of a pair.
pub(crate) trait PairAngle: Copy {
    /// Returns the number of chunks that hold the frequencies of eight pairs.
    #[inline(always)]
    fn chunks(_axes: usize) -> usize {
        1
    }

    /// Returns false if cos and sin are rounded to f32 before they are multiplied by the attention factor. Positions
    /// are then rounded to f32 as well.
    fn is_exact(self) -> bool {
        true
    }

    fn cos_sin<S: SimdF64>(self, s: S, vectors: &SinCosVectors<S>, of: Octet<'_>) -> Doubtful<S>;

    /// Returns the angle of one pair for the oracle, from the positions on each axis.
    fn remainder(self, at: &[AxisPosition; 4], of: Octet<'_>) -> Remainder;
}

/// The exact product of a step and the coordinate on the first axis: the usual case, in a kernel without branches. The
/// kernel of [`RowAngle`] takes 1.2 to 1.3 times as long with AVX-512 and AVX2, as does that of a sum of one term.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OneAxis;

impl PairAngle for OneAxis {
    #[inline(always)]
    fn cos_sin<S: SimdF64>(self, s: S, vectors: &SinCosVectors<S>, of: Octet<'_>) -> Doubtful<S> {
        let high = s.load_f64(&of.chunks[0].high, of.part);
        let low = s.load_f64(&of.chunks[0].low, of.part);
        vectors.at(s, s.splat_f64(of.x[0]), high, low)
    }

    fn remainder(self, at: &[AxisPosition; 4], of: Octet<'_>) -> Remainder {
        Remainder::new(at[0], of.chunks[0].step[of.part])
    }
}

/// The angle of a coordinate and a step, each pair on an axis of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RowAngle {
    /// The exact product of coordinate and step.
    Exact,
    /// The angle of Hugging Face's code: the f32 nearest to `position * inverse frequency`, in radians.
    HuggingFace,
}

impl PairAngle for RowAngle {
    fn is_exact(self) -> bool {
        matches!(self, RowAngle::Exact)
    }

    #[inline(always)]
    fn cos_sin<S: SimdF64>(self, s: S, vectors: &SinCosVectors<S>, of: Octet<'_>) -> Doubtful<S> {
        let (chunk, part) = (&of.chunks[0], of.part);
        let x = s.pick(of.x, &chunk.axis, part);
        let (x, high, low) = match self {
            RowAngle::Exact => (
                x,
                s.load_f64(&chunk.high, part),
                s.load_f64(&chunk.low, part),
            ),
            RowAngle::HuggingFace => {
                let (high, low) = const { quarters(RADIAN) };
                // 24 bits times 24 bits are exact in f64.
                let radians = s.round_to_f32(s.mul_f64(x, s.load_f64(&chunk.inverse_f32, part)));
                (radians, s.splat_f64(high), s.splat_f64(low))
            }
        };
        vectors.at(s, x, high, low)
    }

    fn remainder(self, at: &[AxisPosition; 4], of: Octet<'_>) -> Remainder {
        let (chunk, lane) = (&of.chunks[0], of.part);
        let at = at[(chunk.axis[lane][0] as usize / 2).min(3)];
        match self {
            RowAngle::Exact => Remainder::new(at, chunk.step[lane]),
            RowAngle::HuggingFace => {
                let radians = (at.value() * chunk.inverse_f32[lane]) as f32;
                Remainder::new(AxisPosition::Coordinate(radians.into()), RADIAN)
            }
        }
    }
}

/// The generation of rows `[cos of all pairs | sin of all pairs]`, one per token and head, with the heads of a token in
/// sequence.
pub(crate) struct MakeRows<'a, A> {
    pub(crate) angle: A,
    /// The frequencies, `[head][eight pairs][PairAngle::chunks]`.
    pub(crate) chunks: &'a [FrequencyChunk],
    /// The [`FrequencyChunk::reach`] of the chunks, or of more.
    pub(crate) reach: f64,
    pub(crate) axes: usize,
    pub(crate) heads: usize,
    /// Pairs in a row: all of the chunks, except the unused places of the last.
    pub(crate) pairs: usize,
    /// The attention factor.
    pub(crate) factor: f64,
    /// Returns the position of a token on an axis.
    pub(crate) positions: &'a dyn Fn(usize, usize) -> AxisPosition,
    pub(crate) rows: &'a mut [f32],
}

/// Rows per call of a kernel.
const ROWS: usize = 8;

impl<A: PairAngle> MakeRows<'_, A> {
    /// Fills the rows. Kernels compute f64 alone; pairs in doubt are computed again here, in code that is compiled
    /// once.
    #[inline(never)]
    pub(crate) fn run(self, proof: Proof) {
        let Self {
            angle,
            chunks,
            axes,
            heads,
            pairs,
            factor,
            ..
        } = self;
        if heads == 0 || pairs == 0 {
            return;
        }
        let exact = angle.is_exact();
        let polynomials = &SinCosPolynomials::new(if exact { factor } else { 1.0 });
        let reach = polynomials.reach(self.reach);
        for (block, rows) in self.rows.chunks_mut(ROWS * 2 * pairs).enumerate() {
            let (first_token, first_head) = (block * ROWS / heads, block * ROWS % heads);
            let at = |token, axis| match (self.positions)(first_token + token, axis) {
                position if exact => position,
                // Those of models are f32: 2^24 + 1 becomes 2^24.
                position => AxisPosition::Coordinate((position.value() as f32).into()),
            };
            let mut x = [[0.0; 4]; ROWS];
            let tokens = (first_head + rows.len() / (2 * pairs)).div_ceil(heads);
            for (token, x) in x[..tokens].iter_mut().enumerate() {
                for (axis, x) in x[..axes].iter_mut().enumerate() {
                    *x = at(token, axis).within(reach);
                }
            }
            let mut doubted = 0;
            let block = RowBlock {
                chunks,
                axes,
                heads,
                first_head,
                pairs,
                polynomials,
                x: &x,
                rows,
                doubted: &mut doubted,
            };
            if exact && axes == 1 {
                proof.run(FillBlock(OneAxis, block));
            } else {
                proof.run(FillBlock(angle, block));
            }
            for (index, row) in rows.chunks_exact_mut(2 * pairs).enumerate() {
                if doubted >> index & 1 == 1 {
                    let (token, head) =
                        ((first_head + index) / heads, (first_head + index) % heads);
                    let mut positions = [AxisPosition::Integer(0); 4];
                    for (axis, position) in positions[..axes].iter_mut().enumerate() {
                        *position = at(token, axis);
                    }
                    let chunks = &chunks[head * A::chunks(axes) * pairs.div_ceil(8)..];
                    let chunks = chunks.chunks_exact(A::chunks(axes));
                    make_again(angle, chunks, polynomials, &positions, &x[token], row);
                }
            }
            if !exact {
                for value in rows {
                    *value *= factor as f32;
                }
            }
        }
    }
}

/// At most [`ROWS`] rows.
struct RowBlock<'a> {
    chunks: &'a [FrequencyChunk],
    axes: usize,
    heads: usize,
    /// The head of the first row.
    first_head: usize,
    pairs: usize,
    polynomials: &'a SinCosPolynomials,
    /// The position of each token on each axis, for the fast path.
    x: &'a [[f64; 4]; ROWS],
    rows: &'a mut [f32],
    /// One bit per row that has a pair in doubt.
    doubted: &'a mut u32,
}

/// A kernel that fills a block with rows of an angle.
struct FillBlock<'a, A>(A, RowBlock<'a>);

impl<A: PairAngle> Kernel for FillBlock<'_, A> {
    #[inline(always)]
    fn run<S: InstructionSet>(self, s: S) {
        let FillBlock(angle, block) = self;
        let (pairs, vectors) = (block.pairs, block.polynomials.splat(s));
        let each = A::chunks(block.axes);
        let of_head = each * pairs.div_ceil(8);
        let (mut token, mut head) = (0, block.first_head);
        for (index, row) in block.rows.chunks_exact_mut(2 * pairs).enumerate() {
            let (chunks, x) = (&block.chunks[head * of_head..][..of_head], &block.x[token]);
            let mut doubt = false;
            let (cos, sin) = row.split_at_mut(pairs);
            let (cos, cos_rest) = cos.as_chunks_mut();
            let (sin, sin_rest) = sin.as_chunks_mut();
            let (mut last_cos, mut last_sin) = ([[0.0; 8]], [[0.0; 8]]);
            let (whole, last) = chunks.split_at(each * cos.len());
            // The last chunk may have fewer pairs: one text for both cases, because it is long.
            for (cos, sin, chunks) in [(cos, sin, whole), (&mut last_cos, &mut last_sin, last)] {
                for ((cos, sin), chunks) in cos.iter_mut().zip(sin).zip(chunks.chunks_exact(each)) {
                    doubt |= make(s, angle, chunks, &vectors, x, cos, sin);
                }
            }
            let rest = cos_rest.len();
            if rest > 0 {
                cos_rest.copy_from_slice(&last_cos[0][..rest]);
                sin_rest.copy_from_slice(&last_sin[0][..rest]);
            }
            *block.doubted |= u32::from(doubt) << index;
            head += 1;
            if head == block.heads {
                (token, head) = (token + 1, 0);
            }
        }
    }
}

/// Computes cos and sin of eight pairs; returns whether any of them is in doubt.
#[inline(always)]
fn make<S: SimdF64>(
    s: S,
    angle: impl PairAngle,
    chunks: &[FrequencyChunk],
    vectors: &SinCosVectors<S>,
    x: &[f64; 4],
    cos: &mut [f32; 8],
    sin: &mut [f32; 8],
) -> bool {
    let mut doubt = false;
    for part in 0..8 / S::F64_LANES {
        let (c, n, unsure) = angle.cos_sin(s, vectors, Octet { x, chunks, part });
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
    angle: impl PairAngle,
    chunks: ChunksExact<'_, FrequencyChunk>,
    polynomials: &SinCosPolynomials,
    at: &[AxisPosition; 4],
    x: &[f64; 4],
    row: &mut [f32],
) {
    let (cos, sin) = row.split_at_mut(row.len() / 2);
    for ((cos, sin), chunks) in cos.chunks_mut(8).zip(sin.chunks_mut(8)).zip(chunks) {
        for (lane, (cos, sin)) in cos.iter_mut().zip(sin).enumerate() {
            (*cos, *sin) = again(angle, chunks, lane, polynomials, at, x);
        }
    }
}

/// Returns cos and sin of a pair, from the oracle if they are in doubt.
///
/// Unfused operations may doubt values that fused ones do not, and the other way round. A value that either trusts is
/// right.
#[inline(never)]
fn again(
    angle: impl PairAngle,
    chunks: &[FrequencyChunk],
    part: usize,
    polynomials: &SinCosPolynomials,
    at: &[AxisPosition; 4],
    x: &[f64; 4],
) -> (f32, f32) {
    let of = Octet { x, chunks, part };
    let (c, s, doubt) = angle.cos_sin(Scalar, &polynomials.splat(Scalar), of);
    if doubt {
        oracle::cos_sin(angle.remainder(at, of), polynomials.factor)
    } else {
        (c as f32, s as f32)
    }
}

#[cfg(test)]
mod tests;
