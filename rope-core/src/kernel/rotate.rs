//! The rotation: its arithmetic, and the walk over tokens and heads.
//!
//! Two walks, because cos and sin are to be read from memory as rarely as possible, and the tensor in its own order:
//!
//! - tokens-major: the row of a token stays in registers while its heads pass;
//! - heads-major: the rows of a block of tokens stay in the first-level cache while the heads pass, and each head is
//!   walked through the block.
//!
//! What a row is multiplied by for the inverse, and the lane order that the pairs of this instruction set want, are put
//! into the row before the heads see it.

use core::ops::Range;

use super::Kernel;
use super::place::{Head, Memory};
use crate::rows::View;
use crate::simd::Simd;
use crate::tensor::Shape;

/// `(x, y) <- (x cos - y sin, x sin + y cos)`: two products and a sum or difference, each rounded by itself.
#[inline(always)]
pub(crate) fn turn<S: Simd>(s: S, (x, y): (S::F32, S::F32), (cos, sin): (S::F32, S::F32)) -> (S::F32, S::F32) {
    (s.sub(s.mul(x, cos), s.mul(y, sin)), s.add(s.mul(x, sin), s.mul(y, cos)))
}

/// What the direction of a rotation makes of its rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Factors {
    pub(crate) cos: f32,
    pub(crate) sin: f32,
}

impl Factors {
    pub(crate) const FORWARD: Factors = Factors { cos: 1.0, sin: 1.0 };
}

/// cos and sin of some vectors of pairs.
pub(crate) trait Angles<S: Simd>: Copy {
    fn len(&self) -> usize;
    fn get(&self, s: S, i: usize) -> (S::F32, S::F32);
}

/// In registers.
#[derive(Clone, Copy)]
struct Held<S: Simd, const N: usize> {
    cos: [S::F32; N],
    sin: [S::F32; N],
}

impl<S: Simd, const N: usize> Held<S, N> {
    #[inline(always)]
    fn load(s: S, (cos, sin): (&[f32], &[f32]), factors: Factors, shuffled: bool) -> Self {
        let (cos, sin) = (S::chunks(&cos[..N * S::LANES]), S::chunks(&sin[..N * S::LANES]));
        let mut held = Held { cos: [s.splat(0.0); N], sin: [s.splat(0.0); N] };
        for i in 0..N {
            (held.cos[i], held.sin[i]) = prepare(s, (cos[i], sin[i]), factors, shuffled);
        }
        held
    }
}

impl<S: Simd, const N: usize> Angles<S> for Held<S, N> {
    #[inline(always)]
    fn len(&self) -> usize {
        N
    }

    #[inline(always)]
    fn get(&self, _: S, i: usize) -> (S::F32, S::F32) {
        (self.cos[i], self.sin[i])
    }
}

/// In memory, prepared.
#[derive(Clone, Copy)]
struct Streamed<'a, S: Simd> {
    cos: &'a [S::Chunk<f32>],
    sin: &'a [S::Chunk<f32>],
}

impl<S: Simd> Angles<S> for Streamed<'_, S> {
    #[inline(always)]
    fn len(&self) -> usize {
        self.cos.len()
    }

    #[inline(always)]
    fn get(&self, s: S, i: usize) -> (S::F32, S::F32) {
        (s.from_f32(self.cos[i]), s.from_f32(self.sin[i]))
    }
}

/// A vector of a row as the heads want it. A product with 1 or -1 is exact.
#[inline(always)]
fn prepare<S: Simd>(
    s: S,
    (cos, sin): (S::Chunk<f32>, S::Chunk<f32>),
    factors: Factors,
    shuffled: bool,
) -> (S::F32, S::F32) {
    let cos = s.mul(s.from_f32(cos), s.splat(factors.cos));
    let sin = s.mul(s.from_f32(sin), s.splat(factors.sin));
    if shuffled { (s.order(cos), s.order(sin)) } else { (cos, sin) }
}

/// [`prepare`] for a whole row, to memory.
#[inline(always)]
fn prepare_row<S: Simd>(s: S, row: [&[f32]; 2], to: [&mut [f32]; 2], factors: Factors, shuffled: bool) {
    let [cos, sin] = row;
    let (cos, cos_rest) = cos.split_at(cos.len() - cos.len() % S::LANES);
    let (sin, sin_rest) = sin.split_at(cos.len());
    let [to_cos, to_sin] = to;
    let (to_cos, to_cos_rest) = to_cos.split_at_mut(cos.len());
    let (to_sin, to_sin_rest) = to_sin.split_at_mut(cos.len());
    let row = S::chunks(cos).iter().zip(S::chunks(sin));
    let to = S::chunks_mut(to_cos).iter_mut().zip(S::chunks_mut(to_sin));
    for ((&cos, &sin), (to_cos, to_sin)) in row.zip(to) {
        let (cos, sin) = prepare(s, (cos, sin), factors, shuffled);
        *to_cos = s.to_f32(cos);
        *to_sin = s.to_f32(sin);
    }
    if const { S::LANES > 1 } && !cos_rest.is_empty() {
        prepare_row(s.narrower(), [cos_rest, sin_rest], [to_cos_rest, to_sin_rest], factors, shuffled);
    }
}

/// Floats of the block of rows that is prepared on the stack: 8 tokens of 128 channels.
const BLOCK: usize = 1024;

/// A rotation whose every index has been checked.
pub(crate) struct Rotate<'a, M> {
    pub(crate) memory: M,
    pub(crate) rows: View<'a>,
    pub(crate) factors: Factors,
}

impl<M: Memory> Kernel for Rotate<'_, M> {
    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        let (shape, strides) = (self.memory.shape(), self.memory.strides());
        let tokens_major = shape.heads == 1 || strides.head <= strides.token;
        if const { S::HELD > 0 } && tokens_major {
            self.by_token(s);
        } else {
            self.by_block(s, if tokens_major { 1 } else { usize::MAX });
        }
        if 2 * self.rows.pairs() < shape.head_dim {
            self.pass(s);
        }
    }
}

impl<M: Memory> Rotate<'_, M> {
    /// Whether this instruction set wants cos and sin in another order than their own.
    #[inline(always)]
    fn shuffled<S: Simd>(&self) -> bool {
        const { S::SHUFFLES && M::SHUFFLED }
    }

    /// One token after the other, in the order of memory, each with all its heads.
    #[inline(always)]
    fn by_token<S: Simd>(&mut self, s: S) {
        let Shape { batch, tokens, .. } = self.memory.shape();
        let strides = self.memory.strides();
        if strides.batch < strides.token {
            for token in 0..tokens {
                for batch in 0..batch {
                    self.token(s, batch, token);
                }
            }
        } else {
            for batch in 0..batch {
                for token in 0..tokens {
                    self.token(s, batch, token);
                }
            }
        }
    }

    /// All heads of a token, for as many vectors of pairs at a time as stay in registers.
    #[inline(always)]
    fn token<S: Simd>(&mut self, s: S, batch: usize, token: usize) {
        let pairs = self.rows.pairs();
        let row = self.rows.row(batch, token);
        let mut at = 0;
        if const { S::HELD >= 8 } {
            while pairs - at >= 8 * S::LANES {
                at = self.heads::<S, 8>(s, batch, token, row, at);
            }
        }
        while pairs - at >= 4 * S::LANES {
            at = self.heads::<S, 4>(s, batch, token, row, at);
        }
        if pairs - at >= 2 * S::LANES {
            at = self.heads::<S, 2>(s, batch, token, row, at);
        }
        self.remainder(s, batch, token, row, at);
    }

    /// Fewer than two vectors: this instruction set takes what fills one, the narrower ones the rest.
    #[inline(always)]
    fn remainder<S: Simd>(&mut self, s: S, batch: usize, token: usize, row: (&[f32], &[f32]), mut at: usize) {
        while row.0.len() - at >= S::LANES {
            at = self.heads::<S, 1>(s, batch, token, row, at);
        }
        if const { S::LANES > 1 } && at < row.0.len() {
            self.remainder(s.narrower(), batch, token, row, at);
        }
    }

    /// `N` vectors of pairs, from pair `at`, of all heads of a token. Returns the next pair.
    #[inline(always)]
    fn heads<S: Simd, const N: usize>(
        &mut self,
        s: S,
        batch: usize,
        token: usize,
        (cos, sin): (&[f32], &[f32]),
        at: usize,
    ) -> usize {
        let angles = Held::<S, N>::load(s, (&cos[at..], &sin[at..]), self.factors, self.shuffled::<S>());
        for head in 0..self.memory.shape().heads {
            self.memory.head(batch, token, head).rotate(s, self.rows.pairs(), at, angles);
        }
        at + N * S::LANES
    }

    /// At most `block` tokens at a time: their rows are prepared once, then each head walks through them.
    #[inline(always)]
    fn by_block<S: Simd>(&mut self, s: S, block: usize) {
        let Shape { batch, tokens, .. } = self.memory.shape();
        let pairs = self.rows.pairs();
        let mut buffer = [0.0; BLOCK];
        // Rows too long for the buffer are taken in pieces, whole vectors each.
        for start in (0..pairs).step_by(BLOCK / 2) {
            let piece = start..pairs.min(start + BLOCK / 2);
            let block = block.min(BLOCK / 2 / piece.len());
            for batch in 0..batch {
                for token in (0..tokens).step_by(block) {
                    self.block(s, batch, token..tokens.min(token + block), piece.clone(), &mut buffer);
                }
            }
        }
    }

    /// Pairs `piece` of all heads of a few tokens.
    #[inline(always)]
    fn block<S: Simd>(
        &mut self,
        s: S,
        batch: usize,
        tokens: Range<usize>,
        piece: Range<usize>,
        buffer: &mut [f32; BLOCK],
    ) {
        let (rows, factors, pairs) = (self.rows, self.factors, self.rows.pairs());
        let row = |token| {
            let (cos, sin) = rows.row(batch, token);
            [&cos[piece.clone()], &sin[piece.clone()]]
        };
        let ready = factors == Factors::FORWARD && !self.shuffled::<S>();
        if !ready {
            for (token, to) in tokens.clone().zip(buffer.chunks_exact_mut(2 * piece.len())) {
                prepare_row(s, row(token), to.split_at_mut(piece.len()).into(), factors, self.shuffled::<S>());
            }
        }
        for head in 0..self.memory.shape().heads {
            for (token, prepared) in tokens.clone().zip(buffer.chunks_exact(2 * piece.len())) {
                let row = if ready { row(token) } else { prepared.split_at(piece.len()).into() };
                stream(s, &mut self.memory.head(batch, token, head), pairs, piece.start, row);
            }
        }
    }

    /// Lets the channels behind the rotated ones through.
    #[inline(always)]
    fn pass<S: Simd>(&mut self, s: S) {
        let Shape { batch, tokens, heads, .. } = self.memory.shape();
        for batch in 0..batch {
            for token in 0..tokens {
                for head in 0..heads {
                    self.memory.head(batch, token, head).pass(s, 2 * self.rows.pairs());
                }
            }
        }
    }
}

/// The pairs of one head from pair `at`, with a row that is ready.
#[inline(always)]
fn stream<S: Simd>(s: S, head: &mut impl Head, pairs: usize, at: usize, [cos, sin]: [&[f32]; 2]) {
    let (cos, cos_rest) = cos.split_at(cos.len() - cos.len() % S::LANES);
    let (sin, sin_rest) = sin.split_at(cos.len());
    let (whole, whole_sin) = (S::chunks(cos), S::chunks(sin));
    head.rotate(s, pairs, at, Streamed::<S> { cos: whole, sin: &whole_sin[..whole.len()] });
    if const { S::LANES > 1 } && !cos_rest.is_empty() {
        stream(s.narrower(), head, pairs, at + cos.len(), [cos_rest, sin_rest]);
    }
}
