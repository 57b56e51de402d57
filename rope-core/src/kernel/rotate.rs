//! The rotation: its arithmetic, and the walk over tokens and heads.
//!
//! cos and sin are to be read as rarely as possible, and the tensor in its own order:
//!
//! - tokens-major: the row of a token stays in registers while its heads pass;
//! - heads-major: a head is walked through its tokens, each with its own row. (Measured on a tensor of the size of the
//!   last cache: to walk a block of tokens through all heads, so that its rows stay in the first cache, breaks the
//!   streams that the prefetcher follows, and takes 2.2 times the machine's limit where this takes 1.4.)

use super::Kernel;
use super::place::{Head, Line, Memory};
use crate::backend::Proof;
use crate::rows::View;
use crate::simd::Simd;
use crate::tensor::Shape;

/// `(x, y) <- (x cos - y sin, x sin + y cos)`: two products and a sum or difference, each rounded by itself.
#[inline(always)]
pub(crate) fn turn<S: Simd>(
    s: S,
    (x, y): (S::F32, S::F32),
    (cos, sin): (S::F32, S::F32),
) -> (S::F32, S::F32) {
    (
        s.sub(s.mul(x, cos), s.mul(y, sin)),
        s.add(s.mul(x, sin), s.mul(y, cos)),
    )
}

/// The same for alternating members, `x y x y ..`, with each cos twice and each sin as `-sin sin`. A difference is the
/// sum with what was negated, and sums commute: these are the bits of [`turn`].
#[inline(always)]
pub(crate) fn turn_alternating<S: Simd>(s: S, xy: S::F32, cos: S::F32, sin: S::F32) -> S::F32 {
    s.add(s.mul(xy, cos), s.mul(s.swap(xy), sin))
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

/// How the arithmetic of a line of heads wants cos and sin.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// One lane per pair, in their own order.
    Plain,
    /// One lane per pair, in the order of [`Simd::unzip`].
    Shuffled,
    /// Two lanes per pair, for [`turn_alternating`].
    Doubled,
}

/// The form that an instruction set wants for a line of heads. To double cos and sin pays where many heads share them.
const fn form<S: Simd, L: Line>(shared: bool) -> Form {
    if S::ALTERNATES && L::ALTERNATING && shared {
        Form::Doubled
    } else if S::SHUFFLES && L::SHUFFLED {
        Form::Shuffled
    } else {
        Form::Plain
    }
}

/// cos and sin of some vectors of pairs.
pub(crate) trait Angles<S: Simd>: Copy {
    fn len(&self) -> usize;

    /// cos and sin of vector `i`, two registers of each if they are doubled.
    fn get(&self, s: S, i: usize) -> ([S::F32; 2], [S::F32; 2]);

    /// Whether their form is [`Form::Doubled`].
    fn doubled(&self) -> bool;
}

/// In registers.
#[derive(Clone, Copy)]
struct Held<S: Simd, const N: usize> {
    cos: [[S::F32; 2]; N],
    sin: [[S::F32; 2]; N],
    form: Form,
}

impl<S: Simd, const N: usize> Held<S, N> {
    /// The first `N` vectors of a row. A product with 1 or -1 is exact.
    #[inline(always)]
    fn load(s: S, (cos, sin): (&[f32], &[f32]), factors: Option<Factors>, form: Form) -> Self {
        let (cos, sin) = (
            S::chunks(&cos[..N * S::LANES]),
            S::chunks(&sin[..N * S::LANES]),
        );
        let zero = s.splat(0.0);
        let mut held = Held {
            cos: [[zero; 2]; N],
            sin: [[zero; 2]; N],
            form,
        };
        for i in 0..N {
            let (mut cos, mut sin) = (s.load_f32(cos[i]), s.load_f32(sin[i]));
            if let Some(factors) = factors {
                cos = s.mul(cos, s.splat(factors.cos));
                sin = s.mul(sin, s.splat(factors.sin));
            }
            (held.cos[i], held.sin[i]) = match form {
                Form::Plain => ([cos, zero], [sin, zero]),
                Form::Shuffled => ([s.order(cos), zero], [s.order(sin), zero]),
                Form::Doubled => {
                    let (cos, sin) = (s.order(cos), s.order(sin));
                    (
                        s.zip(cos, cos).into(),
                        s.zip(s.mul(sin, s.splat(-1.0)), sin).into(),
                    )
                }
            };
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
    fn get(&self, _: S, i: usize) -> ([S::F32; 2], [S::F32; 2]) {
        (self.cos[i], self.sin[i])
    }

    #[inline(always)]
    fn doubled(&self) -> bool {
        matches!(self.form, Form::Doubled)
    }
}

/// In memory, for backends that hold none.
#[derive(Clone, Copy)]
struct Streamed<'a, S: Simd, const AS_IS: bool> {
    cos: &'a [S::Chunk<f32>],
    sin: &'a [S::Chunk<f32>],
    factors: Factors,
}

impl<S: Simd, const AS_IS: bool> Angles<S> for Streamed<'_, S, AS_IS> {
    #[inline(always)]
    fn len(&self) -> usize {
        self.cos.len()
    }

    #[inline(always)]
    fn get(&self, s: S, i: usize) -> ([S::F32; 2], [S::F32; 2]) {
        let (mut cos, mut sin) = (s.load_f32(self.cos[i]), s.load_f32(self.sin[i]));
        if !AS_IS {
            cos = s.mul(cos, s.splat(self.factors.cos));
            sin = s.mul(sin, s.splat(self.factors.sin));
        }
        ([cos; 2], [sin; 2])
    }

    #[inline(always)]
    fn doubled(&self) -> bool {
        false
    }
}

/// A rotation whose every index has been checked.
pub(crate) struct Rotate<'a, M> {
    pub(crate) memory: M,
    pub(crate) rows: View<'a>,
    pub(crate) factors: Factors,
}

impl<M: Memory> Rotate<'_, M> {
    pub(crate) fn run(self, proof: Proof) {
        let (shape, strides) = (self.memory.shape(), self.memory.strides());
        // Of its other extents, which may be huge, an empty tensor has no elements to walk.
        if shape.is_empty() {
            return;
        }
        if shape.tokens <= 1 || (shape.heads > 1 && strides.head <= strides.token) {
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
        let TokensMajor(Rotate {
            mut memory,
            rows,
            factors,
        }) = self;
        let Shape { batch, tokens, .. } = memory.shape();
        let strides = memory.strides();
        let batch_inside = strides.batch < strides.token;
        let (outer, inner) = if batch_inside {
            (tokens, batch)
        } else {
            (batch, tokens)
        };
        for i in 0..outer {
            for j in 0..inner {
                let (batch, token) = if batch_inside { (j, i) } else { (i, j) };
                let line = memory.heads(batch, token);
                Sweep::<_, true, false> {
                    line,
                    rows,
                    batch,
                    token,
                    factors,
                    ahead: 0,
                }
                .run(s);
            }
        }
    }
}

/// One head after the other, each with all its tokens.
struct HeadsMajor<'a, M>(Rotate<'a, M>);

/// Tokens of a head that are swept at a time, so that a head whose pairs take several passes stays in the first cache.
const BLOCK: usize = 16;

/// Elements of a tensor from which on the caches close to the core cannot hold it, and heads are asked for ahead.
const LARGE: usize = 1 << 21;

/// How many elements ahead. (Measured at 1024, 2048, 4096 and more: 1.51, 1.42, 1.56 times the machine's limit; without,
/// 1.79.)
const AHEAD: usize = 2048;

impl<M: Memory> Kernel for HeadsMajor<'_, M> {
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        if self.0.factors == Factors::FORWARD {
            self.walk::<S, true>(s);
        } else {
            self.walk::<S, false>(s);
        }
    }
}

impl<M: Memory> HeadsMajor<'_, M> {
    #[inline(always)]
    fn walk<S: Simd, const FORWARD: bool>(self, s: S) {
        let HeadsMajor(Rotate {
            mut memory,
            rows,
            factors,
        }) = self;
        let shape @ Shape {
            batch,
            tokens,
            heads,
            head_dim,
        } = memory.shape();
        let large = shape.elements().is_some_and(|elements| elements >= LARGE);
        let ahead = if large { (AHEAD / head_dim).max(1) } else { 0 };
        for batch in 0..batch {
            for head in 0..heads {
                for token in (0..tokens).step_by(BLOCK) {
                    let line = memory.tokens(batch, token..tokens.min(token + BLOCK), head);
                    Sweep::<_, false, FORWARD> {
                        line,
                        rows,
                        batch,
                        token,
                        factors,
                        ahead,
                    }
                    .run(s);
                }
            }
        }
    }
}

/// Heads at equal distances, and the row that they share, or the rows of a token each.
///
/// `FORWARD` says that the factors are [`Factors::FORWARD`]. It is known where each head has its own row, whose products
/// with them would cost as much as the rotation.
struct Sweep<'a, L, const SHARED: bool, const FORWARD: bool> {
    line: L,
    rows: View<'a>,
    batch: usize,
    /// The token of the first head.
    token: usize,
    factors: Factors,
    /// How many heads ahead of the one that is rotated another is asked for; 0 for none.
    ahead: usize,
}

impl<'a, L: Line, const SHARED: bool, const FORWARD: bool> Sweep<'a, L, SHARED, FORWARD> {
    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        let pairs = self.rows.pairs();
        if const { S::HELD == 0 } {
            if FORWARD || self.factors == Factors::FORWARD {
                self.streamed::<S, true>(s);
            } else {
                self.streamed::<S, false>(s);
            }
        } else {
            let mut at = 0;
            if const { S::HELD >= 8 } {
                while pairs - at >= 8 * S::LANES {
                    at = self.held::<S, 8>(s, at);
                }
            }
            while pairs - at >= 4 * S::LANES {
                at = self.held::<S, 4>(s, at);
            }
            if pairs - at >= 2 * S::LANES {
                at = self.held::<S, 2>(s, at);
            }
            self.remainder(s, at);
        }
        self.line.pass(s, 2 * pairs);
    }

    /// Fewer than two vectors: this instruction set takes what fills one, the narrower ones the rest.
    #[inline(always)]
    fn remainder<S: Simd>(&mut self, s: S, mut at: usize) {
        while self.rows.pairs() - at >= S::LANES {
            at = self.held::<S, 1>(s, at);
        }
        if const { S::LANES > 1 } && at < self.rows.pairs() {
            self.remainder(s.narrower(), at);
        }
    }

    /// `N` vectors of pairs, from pair `at`, of all heads. Returns the next pair.
    #[inline(always)]
    fn held<S: Simd, const N: usize>(&mut self, s: S, at: usize) -> usize {
        let mut angles = self.load::<S, N>(s, 0, at);
        for index in 0..self.line.len() {
            if !SHARED {
                angles = self.load(s, index, at);
                if self.ahead > 0 && at == 0 {
                    self.line.prefetch(s, index + self.ahead);
                }
            }
            self.line
                .head(index)
                .rotate(s, self.rows.pairs(), at, angles);
        }
        at + N * S::LANES
    }

    #[inline(always)]
    fn load<S: Simd, const N: usize>(&self, s: S, index: usize, at: usize) -> Held<S, N> {
        let (cos, sin) = self.row(index);
        let factors = if FORWARD { None } else { Some(self.factors) };
        Held::load(
            s,
            (&cos[at..], &sin[at..]),
            factors,
            const { form::<S, L>(SHARED) },
        )
    }

    /// All pairs of all heads, with rows that are read again for each head.
    #[inline(always)]
    fn streamed<S: Simd, const AS_IS: bool>(&mut self, s: S) {
        for index in 0..self.line.len() {
            let (cos, sin) = self.row(index);
            let (cos, sin) = (S::chunks(cos), S::chunks(sin));
            let angles = Streamed::<S, AS_IS> {
                cos,
                sin: &sin[..cos.len()],
                factors: self.factors,
            };
            self.line
                .head(index)
                .rotate(s, self.rows.pairs(), 0, angles);
        }
    }

    #[inline(always)]
    fn row(&self, index: usize) -> (&'a [f32], &'a [f32]) {
        self.rows.row(
            self.batch,
            if SHARED {
                self.token
            } else {
                self.token + index
            },
        )
    }
}
