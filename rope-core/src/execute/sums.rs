//! The sums that a norm takes over more than a head, or by a rule that is not fused, and what it makes of them.

use super::staged::{Tile, read_heads};
use crate::Shape;
use crate::kernel::chains::Across;
use crate::kernel::line::{LineRows, Starts};
use crate::kernel::norm::{AddToSum, Channelwise, LANES, NormFactors, RootOf, Sum, Term, mean};
use crate::norm::{Norm, NormReach, Place};
use crate::pass::{Operand, OperandMut, Pass};
use crate::rows::View;
use crate::tensor::Bytes;
use crate::walk::{LineSpan, Order, Prefetch, Walk};

impl Pass<'_> {
    /// The sums of squares that a norm takes of a tensor, of each head or of each row.
    pub(crate) fn squares(
        &self,
        (x, element): (&Bytes<'_>, &'static Across),
        norm: Norm<'_>,
        sums: &mut [f32],
    ) {
        let Shape { tokens, heads, .. } = self.shape;
        let whole = norm.reach == NormReach::Row;
        let read = |span: &LineSpan<'_>, values: &mut [f32]| {
            read_heads(self.proof, &span.source(x.bytes), element, span, values);
        };
        let mut tile = Tile::empty();
        Walk {
            shape: self.shape,
            order: Order::BY_TOKEN,
            source: x.layout,
            target: (),
            rows: &View::NONE,
            factors: None,
            most: if whole { usize::MAX } else { 1 },
            prefetch: Prefetch::NONE,
        }
        .run(|span| {
            let [batch, token, head] = span.first;
            let row = batch * tokens + token;
            let index = if whole { row } else { row * heads + head };
            sums[index] = self.sum(&read, norm, span, Term::Square, 0.0, &mut tile) as f32;
        });
    }

    /// The factors of a norm over all heads of a line's token.
    pub(super) fn row_factors(
        &self,
        source: &Operand<'_>,
        target: &OperandMut<'_, '_>,
        norm: Norm<'_>,
        first: &LineSpan<'_>,
        tile: &mut Tile,
    ) -> NormFactors {
        let all = &LineSpan {
            count: self.shape.heads,
            ..*first
        };
        let terms = all.count * self.shape.head_dim;
        let read =
            |span: &LineSpan<'_>, values: &mut [f32]| self.read(source, target, span, values);
        self.factors(norm, |term, center| {
            (self.sum(&read, norm, all, term, center, tile), terms)
        })
    }

    /// The factors of a norm by its sums and how many terms they have.
    pub(super) fn factors(
        &self,
        norm: Norm<'_>,
        mut sum: impl FnMut(Term, f32) -> (f64, usize),
    ) -> NormFactors {
        let mut mean_of = |term, center| {
            let (sum, terms) = sum(term, center);
            mean(sum, terms, norm.sum)
        };
        let (mean, square) = if norm.formula.centred {
            let center = mean_of(Term::Value, 0.0);
            (center, mean_of(Term::Deviation, center))
        } else {
            (0.0, mean_of(Term::Square, 0.0))
        };
        let (eps, mut factors) = (norm.eps, NormFactors::NONE);
        self.proof.run(RootOf {
            mean,
            square,
            eps,
            factors: &mut factors,
        });
        factors
    }

    /// A sum over heads of a token, as they are where the norm stands.
    fn sum(
        &self,
        read: &dyn Fn(&LineSpan<'_>, &mut [f32]),
        norm: Norm<'_>,
        heads: &LineSpan<'_>,
        term: Term,
        mean: f32,
        tile: &mut Tile,
    ) -> f64 {
        let head_dim = self.shape.head_dim;
        let mut sum = Sum::new(heads.count * head_dim, norm.sum);
        let (mut total, last) = (0.0, heads.count - 1);
        // Blocks of terms reach over heads: what fills none waits for the next head.
        let mut waiting = [0.0_f32; LANES];
        let mut held = 0;
        let mut other = Tile::empty();
        for index in 0..heads.count {
            let first @ [batch, token, head] = heads.index(index);
            let span = &LineSpan {
                first,
                count: 1,
                at: [0, 1].map(|end| heads.at[end] + index * heads.steps[end]),
                rows: &LineRows {
                    starts: Starts::Shared(self.rows().head_start(first)),
                    ..*heads.rows
                },
                ..*heads
            };
            let values = &mut tile.0[..head_dim];
            read(span, values);
            let mut values = values;
            if norm.place == Place::AfterRotation {
                if let Some(scale) = self
                    .scale
                    .filter(|scale| scale.place == Place::BeforeRotation)
                {
                    let row = batch * self.shape.tokens + token;
                    let factor = scale.of(row, head, self.shape.heads);
                    self.each(values, Channelwise::TimesEach(&[factor]));
                    if scale.rounds {
                        self.round(self.element, values);
                    }
                }
                self.rotate(span, values, &mut other.0[..head_dim]);
                if self.moves() {
                    values = &mut other.0[..head_dim];
                }
                if self.rotation.is_some() && self.rounds {
                    self.round(self.element, values);
                }
            }
            let mut values = &*values;
            if held > 0 {
                let now = (LANES - held).min(values.len());
                waiting[held..held + now].copy_from_slice(&values[..now]);
                (held, values) = (held + now, &values[now..]);
                if held == LANES {
                    self.proof.run(AddToSum {
                        sum: &mut sum,
                        values: &waiting,
                        term,
                        mean,
                        total: None,
                    });
                    held = 0;
                }
            }
            let (blocks, rest) = values.as_chunks::<LANES>();
            self.proof.run(AddToSum {
                sum: &mut sum,
                values: blocks.as_flattened(),
                term,
                mean,
                total: None,
            });
            if !rest.is_empty() {
                waiting[held..held + rest.len()].copy_from_slice(rest);
                held += rest.len();
            }
            if index == last {
                let values = &waiting[..held];
                self.proof.run(AddToSum {
                    sum: &mut sum,
                    values,
                    term,
                    mean,
                    total: Some(&mut total),
                });
            }
        }
        total
    }
}
