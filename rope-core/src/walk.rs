//! Which line comes when, and what is asked for ahead: compiled once, for all kernels.
//!
//! The tensor is to be read in its own order, and cos and sin as rarely as possible:
//!
//! - *tokens-major*: a line is a token, all of whose heads share a row, which stays in registers while they pass; where
//!   each head has a row of its own, [`BLOCK`] of its heads;
//! - *heads-major*: a line is one head of [`BLOCK`] tokens, each with its own row. All heads of a block come one after
//!   the other, so that its rows stay in the first cache; and because that breaks the streams which the CPU's own
//!   prefetcher follows, the same tokens of the next head are asked for while these are rotated.

use crate::kernel::line::{Line, LineRows, Starts};
use crate::kernel::rotation::RowFactors;
use crate::rows::View;
use crate::tensor::{Bytes, BytesMut, Layout, Shape};

/// Heads of a line that have a row each: tokens, in a heads-major tensor. (Measured on a core with 2 MiB of
/// second-level cache, `[1, 32, 2048, 128]`, times over the machine's limit: 16 tokens with the next head asked for
/// 1.03, without 1.04 to 1.14; 64 and 256 tokens with it 1.2; whole heads 1.33 to 1.44.)
pub(crate) const BLOCK: usize = 16;

/// Bytes of a tensor from which on the caches close to the core cannot hold it, and the next head is asked for.
const LARGE: usize = 1 << 20;

/// A rotation whose every index has been checked.
pub(crate) struct Walk<'a, 't> {
    /// What is read, if not what is written; or beside it.
    pub(crate) source: Option<&'a Bytes<'a>>,
    /// What is written: its strides decide the order.
    pub(crate) target: &'a mut BytesMut<'t>,
    pub(crate) rows: &'a View<'a>,
    pub(crate) factors: Option<&'a RowFactors>,
}

impl Walk<'_, '_> {
    /// Hands out all lines.
    #[inline(always)]
    pub(crate) fn run(mut self, mut rotate: impl FnMut(&mut Line<'_>)) {
        let shape = self.target.layout.shape();
        // Of its other extents, which may be huge, an empty tensor has no elements to walk.
        if shape.is_empty() {
            return;
        }
        if self.is_by_token() {
            self.tokens(|_, line| rotate(line));
        } else {
            self.each(self.target.layout.is_tokens_major(), rotate);
        }
    }

    /// Whether a line is a token, all of whose heads share a row.
    pub(crate) fn is_by_token(&self) -> bool {
        self.target.layout.is_tokens_major() && self.rows.head_stride().is_none()
    }

    /// Bytes of all that is written, which may be a small part of its memory. No two indices share an element, so they
    /// are no more than there are.
    #[inline(always)]
    fn bytes(&self) -> usize {
        let Shape {
            batch,
            tokens,
            heads,
            head_dim,
        } = self.target.layout.shape();
        batch * tokens * heads * head_dim * self.target.size
    }

    /// Hands out the lines of a tensor that is walked by token, with the sequence and the token of each. The sequences
    /// of a token come one after the other.
    #[inline(always)]
    pub(crate) fn tokens(&mut self, mut rotate: impl FnMut([usize; 2], &mut Line<'_>)) {
        let Shape {
            batch,
            tokens,
            heads,
            ..
        } = self.target.layout.shape();
        let strides = self.target.layout.strides();
        let batch_inside = strides.batch < strides.token;
        let (outer, inner) = if batch_inside {
            (tokens, batch)
        } else {
            (batch, tokens)
        };
        let source_step = self.source.map_or(0, |source| source.layout.strides().head);
        let bytes = self.bytes();
        for i in 0..outer {
            for j in 0..inner {
                let (batch, token) = if batch_inside { (j, i) } else { (i, j) };
                let start = self.rows.start(batch, token);
                let line = &mut self.line(
                    [batch, token, 0],
                    heads,
                    [source_step, strides.head],
                    Starts::Shared(start),
                    bytes,
                    None,
                );
                rotate([batch, token], line);
            }
        }
    }

    /// Each head with its own row: a line is a head of some tokens, or some heads of a token.
    #[inline(never)]
    fn each(&mut self, heads_inside: bool, mut rotate: impl FnMut(&mut Line<'_>)) {
        let Shape {
            batch,
            tokens,
            heads,
            ..
        } = self.target.layout.shape();
        let step = |layout: &Layout| match heads_inside {
            true => layout.strides().head,
            false => layout.strides().token,
        };
        let steps = [
            self.source.map_or(0, |source| step(source.layout)),
            step(self.target.layout),
        ];
        let bytes = self.bytes();
        let head_stride = self.rows.head_stride().unwrap_or(0);
        let mut starts = [0; BLOCK];
        for batch in 0..batch {
            let (mut token, mut head) = (0, 0);
            while token < tokens {
                let count = BLOCK.min(if heads_inside {
                    heads - head
                } else {
                    tokens - token
                });
                let line_starts = &mut starts[..count];
                for (index, start) in line_starts.iter_mut().enumerate() {
                    if heads_inside {
                        *start = self.rows.start(batch, token) + (head + index) * head_stride;
                    } else if head == 0 {
                        *start = self.rows.start(batch, token + index);
                    } else {
                        *start += head_stride;
                    }
                }
                let (inside, outside) = if heads_inside { (BLOCK, 1) } else { (1, BLOCK) };
                let next = match head + inside < heads {
                    true => [batch, token, head + inside],
                    false => [batch, token + outside, 0],
                };
                let ahead = !heads_inside && bytes >= LARGE && next[1] < tokens;
                rotate(&mut self.line(
                    [batch, token, head],
                    count,
                    steps,
                    Starts::Each(line_starts),
                    bytes,
                    ahead.then_some(next),
                ));
                [_, token, head] = next;
            }
        }
    }

    /// The line that begins at a head, and the one that comes after it.
    #[inline(always)]
    fn line<'l>(
        &'l mut self,
        [batch, token, head]: [usize; 3],
        heads: usize,
        [source_step, target_step]: [usize; 2],
        starts: Starts<'l>,
        tensor: usize,
        next: Option<[usize; 3]>,
    ) -> Line<'l> {
        let place = |layout: &Layout, size: usize| {
            let at = |[batch, token, head]: [usize; 3]| layout.head(batch, token, head) * size;
            (at([batch, token, head]), next.map(at))
        };
        let (at, next_at) = place(self.target.layout, self.target.size);
        let (target, next_target) = match next_at {
            Some(next) if next > at => {
                let (target, next) = self.target.bytes.split_at_mut(next);
                (&mut target[at..], &*next)
            }
            Some(next) => {
                let (next_target, target) = self.target.bytes.split_at_mut(at);
                (target, &next_target[next.min(at)..])
            }
            None => (&mut self.target.bytes[at..], &[][..]),
        };
        let (source, next_source) = match self.source {
            Some(source) => {
                let (at, next) = place(source.layout, source.size);
                let next = next.map_or(&[][..], |next| &source.bytes[next..]);
                (Some(&source.bytes[at..]), next)
            }
            None => (None, &[][..]),
        };
        Line {
            source,
            source_step,
            target,
            target_step,
            heads,
            head_dim: self.target.layout.shape().head_dim,
            tensor,
            rows: LineRows::of(self.rows, starts, self.factors),
            next: [next_source, next_target],
        }
    }
}
