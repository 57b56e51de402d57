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

use super::Kernel;
use super::place::{Head, Line, Memory};
use crate::backend::Proof;
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
    fn load(s: S, [cos, sin]: [&[f32]; 2]) -> Self {
        let (cos, sin) = (S::chunks(&cos[..N * S::LANES]), S::chunks(&sin[..N * S::LANES]));
        let mut held = Held { cos: [s.splat(0.0); N], sin: [s.splat(0.0); N] };
        for i in 0..N {
            (held.cos[i], held.sin[i]) = (s.from_f32(cos[i]), s.from_f32(sin[i]));
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

impl<'a, S: Simd> Streamed<'a, S> {
    /// The whole vectors of a row.
    #[inline(always)]
    fn new((cos, sin): (&'a [f32], &'a [f32])) -> Self {
        let (cos, sin) = (S::chunks(cos), S::chunks(sin));
        Streamed { cos, sin: &sin[..cos.len()] }
    }
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
fn prepare<S: Simd>(s: S, cos: S::F32, sin: S::F32, factors: Factors, shuffled: bool) -> (S::F32, S::F32) {
    let cos = s.mul(cos, s.splat(factors.cos));
    let sin = s.mul(sin, s.splat(factors.sin));
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
        let (cos, sin) = prepare(s, s.from_f32(cos), s.from_f32(sin), factors, shuffled);
        *to_cos = s.to_f32(cos);
        *to_sin = s.to_f32(sin);
    }
    if const { S::LANES > 1 } && !cos_rest.is_empty() {
        prepare_row(s.narrower(), [cos_rest, sin_rest], [to_cos_rest, to_sin_rest], factors, shuffled);
    }
}

/// Floats of the block of rows that is prepared on the stack: 8 tokens of 128 channels.
const BLOCK: usize = 1024;

/// Aligned to a cache line: a vector load that crosses two costs twice as much.
#[repr(align(64))]
struct Buffer([f32; BLOCK]);

/// A rotation whose every index has been checked.
pub(crate) struct Rotate<'a, M> {
    pub(crate) memory: M,
    pub(crate) rows: View<'a>,
    pub(crate) factors: Factors,
}

impl<M: Memory> Rotate<'_, M> {
    pub(crate) fn run(self, proof: Proof) {
        let (shape, strides) = (self.memory.shape(), self.memory.strides());
        let tokens_major = shape.tokens <= 1 || (shape.heads > 1 && strides.head <= strides.token);
        if tokens_major {
            proof.run(TokensMajor(self));
        } else {
            proof.run(HeadsMajor(self));
        }
    }
}

/// One token after the other, in the order of memory, each with all its heads.
struct TokensMajor<'a, M>(Rotate<'a, M>);

impl<M: Memory> Kernel for TokensMajor<'_, M> {
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let TokensMajor(Rotate { mut memory, rows, factors }) = self;
        let Shape { batch, tokens, .. } = memory.shape();
        let strides = memory.strides();
        let batch_inside = strides.batch < strides.token;
        let (outer, inner) = if batch_inside { (tokens, batch) } else { (batch, tokens) };
        let pairs = rows.pairs();
        for i in 0..outer {
            for j in 0..inner {
                let (batch, token) = if batch_inside { (j, i) } else { (i, j) };
                let rows = Shared { row: rows.row(batch, token), factors };
                Sweep { line: memory.heads(batch, token), rows, pairs, piece: (0, pairs) }.run(s);
            }
        }
    }
}

/// A block of tokens at a time: their rows are prepared once, then each head walks through them.
struct HeadsMajor<'a, M>(Rotate<'a, M>);

impl<M: Memory> Kernel for HeadsMajor<'_, M> {
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let HeadsMajor(Rotate { mut memory, rows, factors }) = self;
        let Shape { batch, tokens, heads, .. } = memory.shape();
        let pairs = rows.pairs();
        let mut buffer = Buffer([0.0; BLOCK]);
        let buffer = &mut buffer.0;
        // Rows too long for the buffer are taken in pieces, whole vectors each.
        for start in (0..pairs).step_by(BLOCK / 2) {
            let piece = (start, pairs.min(start + BLOCK / 2));
            let row = 2 * (piece.1 - piece.0);
            for batch in 0..batch {
                for token in (0..tokens).step_by(BLOCK / row) {
                    let block = token..tokens.min(token + BLOCK / row);
                    for (token, prepared) in block.clone().zip(buffer.chunks_exact_mut(row)) {
                        let (cos, sin) = rows.row(batch, token);
                        let (cos, sin) = (&cos[piece.0..piece.1], &sin[piece.0..piece.1]);
                        let shuffled = const { S::SHUFFLES && M::SHUFFLED };
                        prepare_row(s, [cos, sin], prepared.split_at_mut(row / 2).into(), factors, shuffled);
                    }
                    for head in 0..heads {
                        let line = memory.tokens(batch, block.clone(), head);
                        Sweep { line, rows: Each { rows: buffer, len: row / 2 }, pairs, piece }.run(s);
                    }
                }
            }
        }
    }
}

/// Heads at equal distances, and their rows: the inner loops.
struct Sweep<L, R> {
    line: L,
    rows: R,
    /// Pairs of a head.
    pairs: usize,
    /// The pairs to rotate: those that the rows are of.
    piece: (usize, usize),
}

impl<L: Line, R: LineRows> Sweep<L, R> {
    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        let mut at = self.piece.0;
        if const { S::HELD == 0 } {
            for index in 0..self.line.len() {
                self.line.head(index).rotate(s, self.pairs, at, self.rows.streamed::<S>(index));
            }
        } else {
            if const { S::HELD >= 8 } {
                while self.piece.1 - at >= 8 * S::LANES {
                    at = self.vectors::<S, 8>(s, at);
                }
            }
            while self.piece.1 - at >= 4 * S::LANES {
                at = self.vectors::<S, 4>(s, at);
            }
            if self.piece.1 - at >= 2 * S::LANES {
                at = self.vectors::<S, 2>(s, at);
            }
            self.remainder(s, at);
        }
        if self.piece.1 == self.pairs {
            self.line.pass(s, 2 * self.pairs);
        }
    }

    /// Fewer than two vectors: this instruction set takes what fills one, the narrower ones the rest.
    #[inline(always)]
    fn remainder<S: Simd>(&mut self, s: S, mut at: usize) {
        while self.piece.1 - at >= S::LANES {
            at = self.vectors::<S, 1>(s, at);
        }
        if const { S::LANES > 1 } && at < self.piece.1 {
            self.remainder(s.narrower(), at);
        }
    }

    /// `N` vectors of pairs, from pair `at`, of all heads. Returns the next pair.
    #[inline(always)]
    fn vectors<S: Simd, const N: usize>(&mut self, s: S, at: usize) -> usize {
        let in_row = at - self.piece.0;
        let mut angles = self.rows.held::<S, L, N>(s, 0, in_row);
        for index in 0..self.line.len() {
            if const { !R::SHARED } {
                angles = self.rows.held::<S, L, N>(s, index, in_row);
            }
            self.line.head(index).rotate(s, self.pairs, at, angles);
        }
        at + N * S::LANES
    }
}

/// The rows of a line of heads.
trait LineRows {
    /// Whether all heads have the same row.
    const SHARED: bool;

    /// `N` vectors of cos and sin, from pair `at` of the row of a head, ready.
    fn held<S: Simd, L: Line, const N: usize>(&self, s: S, index: usize, at: usize) -> Held<S, N>;

    /// The whole row of a head.
    fn streamed<S: Simd>(&self, index: usize) -> Streamed<'_, S>;
}

/// One row, which becomes ready on its way to the registers.
struct Shared<'a> {
    row: (&'a [f32], &'a [f32]),
    factors: Factors,
}

impl LineRows for Shared<'_> {
    const SHARED: bool = true;

    #[inline(always)]
    fn held<S: Simd, L: Line, const N: usize>(&self, s: S, _: usize, at: usize) -> Held<S, N> {
        let (cos, sin) = self.row;
        let mut held = Held::load(s, [&cos[at..], &sin[at..]]);
        for i in 0..N {
            (held.cos[i], held.sin[i]) = prepare(s, held.cos[i], held.sin[i], self.factors, const { S::SHUFFLES && L::SHUFFLED });
        }
        held
    }

    #[inline(always)]
    fn streamed<S: Simd>(&self, _: usize) -> Streamed<'_, S> {
        Streamed::new(self.row)
    }
}

/// A row for each head, `[cos | sin]`, ready.
struct Each<'a> {
    rows: &'a [f32],
    /// Pairs of a row.
    len: usize,
}

impl LineRows for Each<'_> {
    const SHARED: bool = false;

    #[inline(always)]
    fn held<S: Simd, L: Line, const N: usize>(&self, s: S, index: usize, at: usize) -> Held<S, N> {
        let row = &self.rows[index * 2 * self.len..][..2 * self.len];
        Held::load(s, [&row[at..], &row[self.len + at..]])
    }

    #[inline(always)]
    fn streamed<S: Simd>(&self, index: usize) -> Streamed<'_, S> {
        Streamed::new(self.rows[index * 2 * self.len..][..2 * self.len].split_at(self.len))
    }
}
