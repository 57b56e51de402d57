//! The walk: the order in which a pass visits its heads, as lines, and the prefetch distance. It accesses no memory,
//! and is compiled once per executor.
//!
//! Tensors are read in memory order, and cos and sin as rarely as possible:
//!
//! - *tokens-major*: a line is a token, whose heads share a row that stays in registers. If each head has its own row,
//!   a line is [`CHUNK`] heads of a token. Heads in the slots of a cache have this order in every layout;
//! - *heads-major*: a line is one head of [`CHUNK`] tokens, each with its own row. All heads of a chunk follow one
//!   another, which keeps its rows in the first-level cache. This breaks the streams that the CPU's prefetcher follows,
//!   so the same tokens of the next head are prefetched meanwhile. In place, on some cores, some heads of [`CHUNK`]
//!   tokens are a line, and share the row of each token: fewer rows are read, but more streams.
//!
//! If other elements lie between tokens, as K and V do between the queries of a packed tensor, the same head of the
//! next token is prefetched. Otherwise a rotation into another tensor prefetches nothing. Above a size that depends on
//! the core (`tuning.rs`), heads-major tensors go head by head, and a rotation from a tokens-major into a heads-major
//! tensor goes token by token.

use core::ops::Range;

use crate::Shape;
use crate::describe::address::{Addresses, Steps, TokenAddress};
use crate::describe::rows::View;
use crate::describe::tensor::Layout;
use crate::kernel::line::{Line, LineRows, MoreTokens, SourceLine, Starts};
use crate::kernel::rotation::RowFactors;
use crate::tuning::{Access, Tuning, of_size};

/// The most heads of a line with separate rows: tokens, in a heads-major tensor. Measured on a core with 2 MiB of
/// second-level cache, `[1, 32, 2048, 128]`, times over the machine's limit: 16 tokens with the next head prefetched
/// 1.03, without 1.04 to 1.14; 64 and 256 tokens with prefetch 1.2; whole heads 1.33 to 1.44.
pub(crate) const CHUNK: usize = 16;

/// Visits a tensor in parts of at least one, and at most `most`, sequences, tokens and heads: each as ranges of
/// indices, the heads of a chunk of tokens in sequence. Pass a long `visit` as `dyn`: inlined it has a copy for each
/// first and each later range.
pub(crate) fn parts(shape: Shape, most: [usize; 3], mut visit: impl FnMut([Range<usize>; 3])) {
    let ranges = |extent: usize, most: usize| {
        let starts = (0..extent).step_by(most.max(1));
        starts.map(move |start| start..extent.min(start.saturating_add(most.max(1))))
    };
    for batch in ranges(shape.batch, most[0]) {
        for tokens in ranges(shape.tokens, most[1]) {
            for heads in ranges(shape.heads, most[2]) {
                visit([batch.clone(), tokens.clone(), heads]);
            }
        }
    }
}

impl Steps {
    /// Returns the distance to the head that is prefetched with it.
    #[inline(always)]
    pub(crate) fn ahead(self, prefetch: Prefetch) -> usize {
        if prefetch.over_gaps && self.over_gap > 0 {
            self.over_gap
        } else {
            self.head.wrapping_mul(prefetch.heads)
        }
    }
}

/// The prefetch distance of heads. Instruction sets that gain nothing from it skip it.
#[derive(Clone, Copy)]
pub(crate) struct Prefetch {
    /// The distance in heads, if a line is the heads of a token; 0 for none.
    pub(crate) heads: usize,
    /// True if the distance is one token instead, because other elements lie between tokens.
    pub(crate) over_gaps: bool,
    /// True if the next line is prefetched, if a line is one head of some tokens.
    pub(crate) next_line: bool,
}

impl Prefetch {
    pub(crate) const NONE: Self = Prefetch {
        heads: 0,
        over_gaps: false,
        next_line: false,
    };

    /// Returns the distance that pays on the core, for an access to a tensor of this shape with elements of `size`
    /// bytes.
    #[inline(always)]
    pub(crate) fn of(access: Access, tuning: &Tuning, shape: Shape, size: usize) -> Self {
        let bytes = bytes(shape, size);
        Prefetch {
            heads: tuning.ahead(access, size, bytes),
            // If Q and K are packed with other heads, the CPU's prefetcher restarts at every token, and the elements
            // some heads ahead belong to another tensor.
            over_gaps: tuning.over_gaps(access, size, bytes),
            next_line: access != Access::Another && bytes > tuning.next_line_above,
        }
    }
}

/// Returns the bytes of a tensor. The number wraps for a tensor whose elements coincide and that exceeds memory, which
/// only costs time.
#[inline(always)]
fn bytes(shape: Shape, size: usize) -> usize {
    [shape.tokens, shape.heads, shape.head_dim, size]
        .into_iter()
        .fold(shape.batch, usize::wrapping_mul)
}

/// The order of heads.
#[derive(Clone, Copy)]
pub(crate) enum Order {
    /// A line has heads of one token.
    TokensMajor {
        /// True if the sequences of a token follow one another.
        batch_inside: bool,
    },
    /// A line has one head of some tokens.
    HeadsMajor {
        /// Elements from one token to the next, in the source and in the target.
        token_steps: [usize; 2],
    },
}

impl Order {
    /// The order of slots, and of executors that process all heads of a token together.
    pub(crate) const BY_TOKEN: Self = Order::TokensMajor {
        batch_inside: false,
    };

    /// Returns the order for a target tensor, and a source tensor if there is one.
    #[inline(always)]
    pub(crate) fn of(source: Option<&Layout>, target: &Layout) -> Self {
        let strides = target.strides();
        if target.is_tokens_major() {
            return Order::TokensMajor {
                batch_inside: strides.batch < strides.token,
            };
        }
        let source = source.map_or(0, |source| source.strides().token);
        Order::HeadsMajor {
            token_steps: [source, strides.token],
        }
    }
}

/// A walk over all heads of a pass. Every index has been checked.
#[derive(Clone, Copy)]
pub(crate) struct Walk<'a, S, T> {
    /// The end of the walk is the end of its sequences and tokens.
    pub(crate) shape: Shape,
    /// The first sequence and token of the walk.
    pub(crate) first: [usize; 2],
    pub(crate) order: Order,
    /// The addresses of the source, if it is not the target, or in addition to it.
    pub(crate) source: S,
    /// The addresses of the target.
    pub(crate) target: T,
    pub(crate) rows: &'a View<'a>,
    pub(crate) factors: Option<&'a RowFactors>,
    /// The most heads of a line; at most [`CHUNK`] for heads-major tensors and for heads with separate rows.
    pub(crate) most: usize,
    pub(crate) prefetch: Prefetch,
    /// True if all tokens of a head precede the next head, in a heads-major tensor; nothing is prefetched then.
    pub(crate) by_head: bool,
}

/// A line: heads at equal distances.
#[derive(Clone, Copy)]
pub(crate) struct LineSpan<'s> {
    /// The sequence, token and head of the first.
    pub(crate) first: [usize; 3],
    /// The number of heads.
    pub(crate) count: usize,
    /// True if the heads are one head of consecutive tokens.
    pub(crate) along_tokens: bool,
    /// The address of the first head's token, in the source and in the target.
    pub(crate) tokens: [TokenAddress; 2],
    /// Indices of the first head.
    pub(crate) at: [usize; 2],
    /// Elements from one head to the next.
    pub(crate) steps: [usize; 2],
    /// Elements from a head to the one that is prefetched with it.
    pub(crate) ahead: [usize; 2],
    pub(crate) rows: &'s LineRows<'s>,
    pub(crate) head_dim: usize,
}

impl LineSpan<'_> {
    /// Returns the sequence, token and head of one of them.
    pub(crate) fn index(&self, head: usize) -> [usize; 3] {
        let [batch, token, first] = self.first;
        if self.along_tokens {
            [batch, token + head, first]
        } else {
            [batch, token, first + head]
        }
    }

    /// Splits the target's memory, of elements of `size` bytes, before the first head.
    #[inline(always)]
    pub(crate) fn split<'l>(
        &self,
        memory: &'l mut [u8],
        size: usize,
    ) -> (&'l mut [u8], &'l mut [u8]) {
        memory.split_at_mut(self.at[1] * size)
    }

    /// Returns the line in the target's memory, of which a part lies before it.
    #[inline(always)]
    pub(crate) fn line<'l>(&'l self, before: &'l [u8]) -> Line<'l> {
        Line {
            step: self.steps[1],
            heads: self.count,
            head_dim: self.head_dim,
            rows: self.rows,
            ahead: self.ahead[1],
            before,
            more: &MoreTokens::NONE,
        }
    }

    /// Returns the line in a tile, where heads are contiguous, from a channel on, at which its memory begins.
    #[inline(always)]
    pub(crate) fn line_in_tile(&self, first: usize) -> Line<'_> {
        Line {
            step: self.head_dim,
            heads: self.count,
            head_dim: self.head_dim - first,
            rows: self.rows,
            ahead: 0,
            before: &[],
            more: &MoreTokens::NONE,
        }
    }

    /// Returns the heads in the target's memory, for reading.
    #[inline(always)]
    pub(crate) fn written<'l>(&self, memory: &'l [u8]) -> SourceLine<'l> {
        self.read(1, memory)
    }

    /// Returns the heads in the source's memory.
    #[inline(always)]
    pub(crate) fn source<'l>(&self, memory: &'l [u8]) -> SourceLine<'l> {
        self.read(0, memory)
    }

    /// Returns the heads at one end of the walk.
    #[inline(always)]
    fn read<'l>(&self, end: usize, memory: &'l [u8]) -> SourceLine<'l> {
        SourceLine {
            memory,
            at: self.at[end],
            step: self.steps[end],
            ahead: self.ahead[end],
        }
    }
}

impl<'a, S, T> Walk<'a, S, T> {
    /// Creates the walk over all heads of a call of this shape, in lines as long as possible, without prefetching.
    #[inline(always)]
    pub(crate) fn new(
        shape: Shape,
        order: Order,
        (source, target): (S, T),
        rows: &'a View<'a>,
        factors: Option<&'a RowFactors>,
    ) -> Self {
        Walk {
            shape,
            first: [0; 2],
            order,
            source,
            target,
            rows,
            factors,
            most: usize::MAX,
            prefetch: Prefetch::NONE,
            by_head: false,
        }
    }

    /// Narrows the walk to some of its sequences and tokens.
    #[inline(always)]
    pub(crate) fn within(self, [batch, tokens]: &[Range<usize>; 2]) -> Self {
        Walk {
            first: [batch.start, tokens.start],
            shape: Shape {
                batch: batch.end,
                tokens: tokens.end,
                ..self.shape
            },
            ..self
        }
    }
}

impl<'a> Walk<'a, (), &'a Layout> {
    /// Creates the walk of an in-place rotation, over elements of `size` bytes.
    #[inline(always)]
    pub(crate) fn in_place(
        tuning: &Tuning,
        layout: &'a Layout,
        size: usize,
        rows: &'a View<'a>,
        factors: Option<&'a RowFactors>,
    ) -> Self {
        let shape = layout.shape();
        Walk {
            prefetch: Prefetch::of(Access::Rotate, tuning, shape, size),
            by_head: bytes(shape, size) > of_size(tuning.by_head_above, size),
            ..Walk::new(shape, Order::of(None, layout), ((), layout), rows, factors)
        }
    }
}

impl Walk<'_, (), &Layout> {
    /// Visits all lines of elements of `size` bytes; if heads share rows, up to [`CHUNK`] tokens at once. A call per
    /// token would cost a third of the time of 8 heads of f32.
    #[inline(always)]
    pub(crate) fn run_with_tokens(
        &self,
        tuning: &Tuning,
        size: usize,
        mut line: impl FnMut(&LineSpan<'_>, &MoreTokens<'_>),
    ) {
        let (shape, strides, steps) = (self.shape, self.target.strides(), self.target.steps());
        if shape.is_empty() {
            return;
        }
        let (batch_inside, most, ahead) = match self.order {
            Order::TokensMajor { batch_inside } => (
                batch_inside || shape.tokens == 1,
                usize::MAX,
                steps.ahead(self.prefetch),
            ),
            Order::HeadsMajor { .. } if self.by_head => (false, 1, 0),
            Order::HeadsMajor { .. } => {
                let head = shape.head_dim.wrapping_mul(size);
                let (most, prefetches) =
                    tuning.together(size, bytes(shape, size), head.wrapping_mul(CHUNK));
                let ahead = most.wrapping_mul(steps.head);
                (false, most, if prefetches { ahead } else { 0 })
            }
        };
        if most <= 1 || self.rows.head_stride().is_some() {
            return self.each(&mut |span| line(span, &MoreTokens::NONE));
        }
        let (outer, inner, step) = if batch_inside {
            (shape.tokens, shape.batch, strides.batch)
        } else {
            (shape.batch, shape.tokens, strides.token)
        };
        let mut rows = self.rows.line_rows(Starts::Shared(0), self.factors);
        let mut starts = [0; CHUNK];
        for i in 0..outer {
            let index = |j| if batch_inside { [j, i] } else { [i, j] };
            for first in (0..inner).step_by(CHUNK) {
                let starts = &mut starts[..CHUNK.min(inner - first)];
                let [batch, token] = index(first);
                self.rows.starts([batch, token], batch_inside, starts);
                rows.starts = Starts::Shared(starts[0]);
                let (starts, mut head) = (&starts[1..], 0);
                while head < shape.heads {
                    let count = most.min(shape.heads - head);
                    let element = self.target.head(batch, token, head);
                    let span = &LineSpan {
                        first: [batch, token, head],
                        count,
                        along_tokens: false,
                        tokens: [TokenAddress::NOWHERE, TokenAddress { element, scale: 0 }],
                        at: [0, element],
                        steps: [0, steps.head],
                        ahead: [0, ahead],
                        rows: &rows,
                        head_dim: shape.head_dim,
                    };
                    line(span, &MoreTokens { starts, step });
                    head += count;
                }
            }
        }
    }
}

impl<'a> Walk<'a, &'a Layout, &'a Layout> {
    /// Creates the walk over two tensors.
    #[inline(always)]
    pub(crate) fn between(
        [source, target]: [&'a Layout; 2],
        rows: &'a View<'a>,
        factors: Option<&'a RowFactors>,
    ) -> Self {
        let order = Order::of(Some(source), target);
        Walk::new(target.shape(), order, (source, target), rows, factors)
    }
}

impl<S: Addresses, T: Addresses> Walk<'_, S, T> {
    /// Sets the order of a rotation into another tensor, of elements of `size` bytes. Prefetches over gaps only.
    #[inline(always)]
    pub(crate) fn into_another(self, tuning: &Tuning, size: usize) -> Self {
        let bytes = bytes(self.shape, size);
        let order = match self.order {
            Order::HeadsMajor {
                token_steps: [source, _],
            } if self.source.steps().head < source
                && bytes > of_size(tuning.by_token_of_source_above, size) =>
            {
                Order::BY_TOKEN
            }
            order => order,
        };
        Walk {
            order,
            prefetch: Prefetch::of(Access::Another, tuning, self.shape, size),
            by_head: bytes > of_size(tuning.by_head_into_another_above, size),
            ..self
        }
    }

    /// Visits all lines.
    #[inline(always)]
    pub(crate) fn run(&self, mut line: impl FnMut(&LineSpan<'_>)) {
        // An empty tensor has no elements, but its other extents may be huge.
        if self.shape.is_empty() {
            return;
        }
        match self.order {
            Order::TokensMajor { batch_inside } if self.rows.head_stride().is_none() => {
                self.tokens(batch_inside, line);
            }
            _ => self.each(&mut line),
        }
    }

    /// Visits all lines, compiled once per kind of addresses: for executors whose work per line outweighs a call.
    #[inline(never)]
    pub(crate) fn run_dyn(&self, line: &mut dyn FnMut(&LineSpan<'_>)) {
        self.run(line);
    }

    /// Returns the number of heads of the longest line.
    pub(crate) fn longest(&self) -> usize {
        let heads = match self.order {
            Order::TokensMajor { .. } => self.shape.heads,
            Order::HeadsMajor { .. } => self.shape.tokens.min(CHUNK),
        };
        heads.min(self.most)
    }

    /// Returns true if the heads of a line share a row.
    pub(crate) fn shares_rows(&self) -> bool {
        matches!(self.order, Order::TokensMajor { .. }) && self.rows.head_stride().is_none()
    }

    #[inline(always)]
    fn steps(&self) -> [Steps; 2] {
        [self.source.steps(), self.target.steps()]
    }

    /// Visits lines of the heads of a token, with their shared row.
    #[inline(always)]
    fn tokens(&self, batch_inside: bool, mut line: impl FnMut(&LineSpan<'_>)) {
        let Shape {
            batch,
            tokens,
            heads,
            head_dim,
        } = self.shape;
        let [first_batch, first_token] = self.first;
        let (batch, tokens) = (first_batch..batch, first_token..tokens);
        let (outer, inner) = if batch_inside {
            (tokens, batch)
        } else {
            (batch, tokens)
        };
        let ahead = self.steps().map(|steps| steps.ahead(self.prefetch));
        let steps = self.steps().map(|steps| steps.head);
        // Written once: a line changes only its start.
        let mut rows = self.rows.line_rows(Starts::Shared(0), self.factors);
        for i in outer {
            for j in inner.clone() {
                let (batch, token) = if batch_inside { (j, i) } else { (i, j) };
                let (Some(read), Some(written)) = (
                    self.source.token(batch, token),
                    self.target.token(batch, token),
                ) else {
                    continue;
                };
                rows.starts = Starts::Shared(self.rows.start(batch, token));
                let mut head = 0;
                while head < heads {
                    let count = self.most.min(heads - head);
                    line(&LineSpan {
                        first: [batch, token, head],
                        count,
                        along_tokens: false,
                        tokens: [read, written],
                        at: [
                            read.element + head * steps[0],
                            written.element + head * steps[1],
                        ],
                        steps,
                        ahead,
                        rows: &rows,
                        head_dim,
                    });
                    head += count;
                }
            }
        }
    }

    /// Visits lines of heads with separate rows: a head of some tokens, or some heads of a token. Each is enough work
    /// to outweigh a call. `self` is a copy, so that the walk above stays in registers.
    #[inline(never)]
    fn each(self, line: &mut dyn FnMut(&LineSpan<'_>)) {
        let Shape {
            batch,
            tokens,
            heads,
            head_dim,
        } = self.shape;
        let head_steps = self.steps().map(|steps| steps.head);
        let (along_tokens, token_steps) = match self.order {
            Order::TokensMajor { .. } => (false, [0; 2]),
            Order::HeadsMajor { token_steps } => (true, token_steps),
        };
        let steps = if along_tokens {
            token_steps
        } else {
            head_steps
        };
        let most = CHUNK.min(self.most);
        let mut starts = [0; CHUNK];
        let [first_batch, first_token] = self.first;
        for batch in first_batch..batch {
            let (mut token, mut head) = (first_token, 0);
            while token < tokens && head < heads {
                let count = most.min(if along_tokens {
                    tokens - token
                } else {
                    heads - head
                });
                let line_starts = &mut starts[..count];
                for (index, start) in line_starts.iter_mut().enumerate() {
                    if !along_tokens {
                        *start = self.rows.head_start([batch, token, head + index]);
                    } else if self.by_head || head == 0 {
                        *start = self.rows.head_start([batch, token + index, head]);
                    } else {
                        // Does not read the table of ids again for every head.
                        *start = self.rows.next_head(*start);
                    }
                }
                let (outside, inside) = if along_tokens { (count, 1) } else { (1, count) };
                let next = if self.by_head && along_tokens {
                    match token + outside < tokens {
                        true => [token + outside, head],
                        false => [first_token, head + 1],
                    }
                } else {
                    match head + inside < heads {
                        true => [token, head + inside],
                        false => [token + outside, 0],
                    }
                };
                let mut ahead = [0; 2];
                if along_tokens && !self.by_head && self.prefetch.next_line && next[0] < tokens {
                    for (ahead, (token_step, head_step)) in
                        ahead.iter_mut().zip(token_steps.iter().zip(head_steps))
                    {
                        let tokens = (next[0] - token).wrapping_mul(*token_step);
                        let heads = next[1].wrapping_sub(head).wrapping_mul(head_step);
                        *ahead = tokens.wrapping_add(heads);
                    }
                }
                if let (Some(read), Some(written)) = (
                    self.source.token(batch, token),
                    self.target.token(batch, token),
                ) {
                    line(&LineSpan {
                        first: [batch, token, head],
                        count,
                        along_tokens,
                        tokens: [read, written],
                        at: [
                            read.element + head * head_steps[0],
                            written.element + head * head_steps[1],
                        ],
                        steps,
                        ahead,
                        rows: &self.rows.line_rows(Starts::Each(line_starts), self.factors),
                        head_dim,
                    });
                }
                [token, head] = next;
            }
        }
    }
}
