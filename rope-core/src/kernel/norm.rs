//! The stages of a norm, over heads of f32: the sums, in one order on every backend, and the products.
//!
//! # The order of a sum
//!
//! The order is that of PyTorch's `mean` over the last dimension on x86 (`aten/native/cpu/SumKernel.cpp`, `row_sum` of
//! eight lanes, four at a time), which gives the bits of the eager model. For `n` terms, each rounded to f32:
//!
//! ```text
//! 32 lanes: term i goes to lane i mod 32, for all whole blocks of 32
//!     (from 512 terms on in a cascade of four levels, each a sum of the one below over `step` blocks)
//! whole eights of the rest: to lanes 0 to 7
//! lanes 8 to 15, then 16 to 23, then 24 to 31 are added to lanes 0 to 7
//! the remaining terms, one after the other, from 0 on; then lanes 0 to 7, one after the other
//! ```
//!
//! 32 lanes are two registers of AVX-512, four of AVX2, eight of NEON: every backend keeps the same partial sums. The
//! final fold is serial, 8 additions. The folds of several heads overlap, because the sums of all heads of a tile are
//! computed before the first is used.

use crate::simd::element::Convert;
use crate::simd::{InstructionSet, Kernel, Simd};

/// The order of a norm's sum of squares: fixed, so that every backend returns the same bits.
///
/// ```
/// use rope_core::norm::{Norm, NormFormula, NormSum};
///
/// let weights = [1.0_f32; 128];
/// let exact = Norm::new(NormFormula::LLAMA, 1e-6).with_weight(&weights).with_sum(NormSum::F64);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum NormSum {
    /// In f32, in the order of PyTorch's `mean` on x86 (`aten/native/cpu/SumKernel.cpp`, eight lanes): the bits of the
    /// eager model. (PyTorch has another order for fewer than eight numbers, which are summed one after the other
    /// here.)
    #[default]
    PyTorch,
    /// In f64, in eight lanes, including differences to a mean; the mean is rounded to f32 once. Nearer to the true
    /// mean (0.5 ulp instead of 3.4).
    F64,
}

/// The terms of a sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Term {
    Value,
    Square,
    /// The square of the difference to the mean.
    Deviation,
}

impl Term {
    /// Returns the term of a value.
    #[inline(always)]
    fn of(self, value: f32, mean: f32) -> f32 {
        match self {
            Term::Value => value,
            Term::Square => value * value,
            Term::Deviation => (value - mean) * (value - mean),
        }
    }
}

/// A sum in the fixed order, computed in pieces.
#[derive(Clone)]
pub(crate) struct Sum {
    order: NormSum,
    levels: [[f32; LANES]; LEVELS],
    /// Blocks added so far.
    done: usize,
    /// Blocks in a sum of the first level, as a power of two.
    step: u32,
    /// The lanes of [`NormSum::F64`].
    lanes: [f64; 8],
}

/// Lanes that sum side by side: a block of terms.
pub(crate) const LANES: usize = 32;
/// Levels of the cascade.
const LEVELS: usize = 4;

impl Sum {
    /// Starts a sum of `terms` terms.
    #[inline(always)]
    pub(crate) fn new(terms: usize, order: NormSum) -> Self {
        let blocks = terms / LANES;
        // The binary logarithm, rounded up.
        let log = if blocks <= 1 {
            0
        } else {
            usize::BITS - (blocks - 1).leading_zeros()
        };
        Sum {
            order,
            levels: [[0.0; LANES]; LEVELS],
            done: 0,
            step: (log / LEVELS as u32).max(4),
            lanes: [0.0; 8],
        }
    }

    /// Adds the next whole blocks.
    #[inline(always)]
    fn add<S: InstructionSet>(&mut self, s: S, term: Term, values: &[f32], mean: f32) {
        if self.order == NormSum::F64 {
            self.lanes = wide_sum(term, self.lanes, values, mean);
            return;
        }
        let step = 1 << self.step;
        let mut blocks = values.as_chunks::<LANES>().0;
        while !blocks.is_empty() {
            let until = step - self.done % step;
            let (now, later) = blocks.split_at(until.min(blocks.len()));
            // The only loop worth a copy per term.
            let lanes = self.levels[0];
            self.levels[0] = match term {
                Term::Value => add_blocks::<f32, S>(s, Term::Value, lanes, now, mean),
                Term::Square => add_blocks::<f32, S>(s, Term::Square, lanes, now, mean),
                Term::Deviation => add_blocks::<f32, S>(s, Term::Deviation, lanes, now, mean),
            };
            self.done += now.len();
            blocks = later;
            if self.done.is_multiple_of(step) {
                for level in 1..LEVELS {
                    let (below, above) = self.levels.split_at_mut(level);
                    add_lanes(&mut above[0], &below[level - 1]);
                    below[level - 1] = [0.0; LANES];
                    if self.done & ((step - 1) << (level as u32 * self.step)) != 0 {
                        break;
                    }
                }
            }
        }
    }

    /// Returns the sum, with the remaining terms, fewer than a block.
    #[inline(always)]
    fn finish<S: InstructionSet>(self, s: S, term: Term, rest: &[f32], mean: f32) -> f64 {
        if self.order == NormSum::F64 {
            let lanes = wide_sum(term, self.lanes, rest, mean);
            return lanes.iter().fold(0.0, |sum, lane| sum + lane);
        }
        let [mut sum, above @ ..] = self.levels;
        if self.done >= 1 << self.step {
            for level in &above {
                add_lanes(&mut sum, level);
            }
        }
        let tail = add_rest(term, &mut sum, rest, mean);
        let lanes = fold_lanes(s, &sum);
        lanes.iter().fold(tail, |sum, lane| sum + lane).into()
    }
}

#[inline(always)]
fn add_lanes(sum: &mut [f32; LANES], other: &[f32; LANES]) {
    for (sum, other) in sum.iter_mut().zip(other) {
        *sum += other;
    }
}

/// Adds blocks of elements to 32 lanes, which stay in registers. The term must be a constant.
#[inline(always)]
pub(crate) fn add_blocks<E: Convert, S: Simd>(
    s: S,
    term: Term,
    mut lanes: [f32; LANES],
    blocks: &[[E::Bits; LANES]],
    mean: f32,
) -> [f32; LANES] {
    if const { S::LANES == 1 } {
        for block in blocks {
            for (lane, x) in lanes.iter_mut().zip(block) {
                *lane += term.of(E::to_f32(*x), mean);
            }
        }
        return lanes;
    }
    let doubles = const { LANES / (2 * S::LANES) };
    let mut sums = [[s.splat(0.0); 2]; LANES / 2];
    for (sum, [a, b]) in sums.iter_mut().zip(S::chunks(&lanes).as_chunks().0) {
        *sum = [s.load_f32(*a), s.load_f32(*b)];
    }
    let mean = s.splat(mean);
    for block in blocks {
        let block = S::chunks(block).as_chunks::<2>().0;
        for i in 0..doubles {
            let values = E::read(s, block[i]);
            for (sum, value) in sums[i].iter_mut().zip(values) {
                let term = match term {
                    Term::Value => value,
                    Term::Square => s.mul(value, value),
                    Term::Deviation => {
                        let deviation = s.sub(value, mean);
                        s.mul(deviation, deviation)
                    }
                };
                *sum = s.add(*sum, term);
            }
        }
    }
    let vectors = S::chunks_mut(&mut lanes).as_chunks_mut::<2>().0;
    for (vectors, [a, b]) in vectors.iter_mut().zip(sums) {
        *vectors = [s.store_f32(a), s.store_f32(b)];
    }
    lanes
}

/// Adds whole eights of the rest to the first lanes, and returns the sum of the remaining terms.
#[inline(always)]
pub(crate) fn add_rest(term: Term, lanes: &mut [f32; LANES], rest: &[f32], mean: f32) -> f32 {
    let (eights, tail) = rest.as_chunks::<8>();
    for eight in eights {
        for (lane, value) in lanes.iter_mut().zip(eight) {
            *lane += term.of(*value, mean);
        }
    }
    tail.iter()
        .fold(0.0, |sum, value| sum + term.of(*value, mean))
}

/// Folds 32 lanes to eight, in vectors of the instruction set or the next narrower one: without them the compiler
/// splits this into 24 additions of one lane.
#[inline(always)]
pub(crate) fn fold_lanes<S: InstructionSet>(s: S, lanes: &[f32; LANES]) -> [f32; 8] {
    if const { S::LANES > 8 } {
        return fold_lanes(s.narrower(), lanes);
    }
    let (vectors, each) = (S::chunks(lanes), const { 8 / S::LANES });
    let mut sum = [0.0; 8];
    for (i, sum) in S::chunks_mut(&mut sum).iter_mut().enumerate() {
        let mut lane = s.load_f32(vectors[i]);
        for group in 1..4 {
            lane = s.add(lane, s.load_f32(vectors[group * each + i]));
        }
        *sum = s.store_f32(lane);
    }
    sum
}

/// Sums in f64: term `i` in lane `i mod 8`. A block is a multiple of eight, so pieces keep the order. Compiled once for
/// all backends, because its speed does not matter.
#[inline(never)]
fn wide_sum(term: Term, mut lanes: [f64; 8], values: &[f32], mean: f32) -> [f64; 8] {
    let wide = |value: f32| match term {
        Term::Value => f64::from(value),
        // Exact: 48 bits.
        Term::Square => f64::from(value) * f64::from(value),
        Term::Deviation => {
            // The difference is in f64 too. (QEMU computes MDEBR, the s390x instruction for the square of an f32
            // difference, wrongly.)
            let deviation = f64::from(value) - f64::from(mean);
            deviation * deviation
        }
    };
    let (eights, tail) = values.as_chunks::<8>();
    for eight in eights {
        for (lane, value) in lanes.iter_mut().zip(eight) {
            *lane += wide(*value);
        }
    }
    for (lane, value) in lanes.iter_mut().zip(tail) {
        *lane += wide(*value);
    }
    lanes
}

/// The factors of a norm: the mean to subtract (0 for none), and the reciprocal root.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NormFactors {
    pub(crate) mean: f32,
    pub(crate) root: f32,
}

impl NormFactors {
    pub(crate) const NONE: Self = NormFactors {
        mean: 0.0,
        root: 1.0,
    };
}

/// The most roots per call: a multiple of every vector's lanes.
pub(crate) const ROOTS: usize = 64;

/// Computes `1 / sqrt(sum / terms + eps)` of the first `len` sums, in place: each of the four operations rounded, as in
/// PyTorch's CPU code. A NaN becomes the NaN of arithmetic, so that no payload depends on the machine.
///
/// Uses vectors: their quotient or root takes as long as that of one number.
#[inline(always)]
pub(crate) fn roots<S: Simd>(s: S, sums: &mut [f32; ROOTS], len: usize, terms: f32, eps: f32) {
    let (terms, eps, one) = (s.splat(terms), s.splat(eps), s.splat(1.0));
    let vectors = len.div_ceil(S::LANES);
    for sums in S::chunks_mut(sums).iter_mut().take(vectors) {
        let mean = s.div(s.load_f32(*sums), terms);
        *sums = s.store_f32(s.div(one, s.sqrt(s.add(mean, eps))));
    }
    for root in sums.iter_mut().take(len) {
        *root = if root.is_nan() { f32::NAN } else { *root };
    }
}

/// Divides a sum once: in f32, or in f64 and rounded.
#[inline(always)]
pub(crate) fn mean(sum: f64, terms: usize, order: NormSum) -> f32 {
    match order {
        NormSum::PyTorch => sum as f32 / terms as f32,
        NormSum::F64 => (sum / terms as f64) as f32,
    }
}

/// A kernel that adds whole blocks to a sum in pieces, and the rest after the last piece.
pub(crate) struct AddToSum<'a> {
    pub(crate) sum: &'a mut Sum,
    pub(crate) values: &'a [f32],
    pub(crate) term: Term,
    pub(crate) mean: f32,
    /// Receives the sum after the last values.
    pub(crate) total: Option<&'a mut f64>,
}

impl Kernel for AddToSum<'_> {
    #[inline(always)]
    fn run<S: InstructionSet>(self, s: S) {
        let AddToSum {
            sum,
            values,
            term,
            mean,
            total,
        } = self;
        let (blocks, rest) = values.as_chunks::<LANES>();
        let blocks = blocks.as_flattened();
        sum.add(s, term, blocks, mean);
        if let Some(total) = total {
            *total = sum.clone().finish(s, term, rest, mean);
        }
    }
}

/// A kernel for `1 / sqrt(square + eps)` of given sums.
pub(crate) struct RootOf<'a> {
    pub(crate) mean: f32,
    pub(crate) square: f32,
    pub(crate) eps: f32,
    pub(crate) factors: &'a mut NormFactors,
}

impl Kernel for RootOf<'_> {
    #[inline(always)]
    fn run<S: InstructionSet>(self, s: S) {
        let (mean, mut root) = (self.mean, [self.square; ROOTS]);
        roots(s, &mut root, 1, 1.0, self.eps);
        *self.factors = NormFactors {
            mean,
            root: root[0],
        };
    }
}

/// An operation on each channel of consecutive heads.
pub(crate) struct Scaled<'a> {
    pub(crate) heads: &'a mut [f32],
    pub(crate) head_dim: usize,
    pub(crate) what: Channelwise<'a>,
}

/// An operation on each channel.
#[derive(Clone, Copy)]
pub(crate) enum Channelwise<'a> {
    /// `(x - mean) root`, with factors per head.
    Norm(&'a [NormFactors]),
    /// `x root w`: both products in one pass.
    NormTimes(&'a [NormFactors], PerChannel<'a>),
    /// `x w`
    Times(PerChannel<'a>),
    /// `x + b`
    Plus(PerChannel<'a>),
    /// `x c`, with a factor per head.
    TimesEach(&'a [f32]),
}

/// A value per channel, for all heads or for each.
#[derive(Clone, Copy)]
pub(crate) struct PerChannel<'a> {
    pub(crate) values: &'a [f32],
    /// 0, or channels from one head to the next.
    pub(crate) step: usize,
}

impl<'a> PerChannel<'a> {
    #[inline(always)]
    fn of(self, head: usize, head_dim: usize) -> &'a [f32] {
        &self.values[head * self.step..][..head_dim]
    }
}

impl Kernel for Scaled<'_> {
    #[inline(always)]
    fn run<S: InstructionSet>(self, _: S) {
        let Scaled {
            heads,
            head_dim,
            what,
        } = self;
        for (index, head) in heads.chunks_exact_mut(head_dim).enumerate() {
            match what {
                Channelwise::Norm(factors) => {
                    let NormFactors { mean, root } = factors[index];
                    for x in head {
                        *x = (*x - mean) * root;
                    }
                }
                Channelwise::NormTimes(factors, weights) => {
                    let NormFactors { mean, root } = factors[index];
                    for (x, w) in head.iter_mut().zip(weights.of(index, head_dim)) {
                        *x = (*x - mean) * root * w;
                    }
                }
                Channelwise::Times(weights) => {
                    for (x, w) in head.iter_mut().zip(weights.of(index, head_dim)) {
                        *x *= w;
                    }
                }
                Channelwise::Plus(biases) => {
                    for (x, b) in head.iter_mut().zip(biases.of(index, head_dim)) {
                        *x += b;
                    }
                }
                Channelwise::TimesEach(factors) => {
                    let factor = factors[index];
                    for x in head {
                        *x *= factor;
                    }
                }
            }
        }
    }
}
