//! The sums that a norm takes over more than a head, or by a rule that is not fused, and what it makes of them.

use super::{Block, Places, Source, Stages, Target, Tile, read_tensor};
use crate::Shape;
use crate::kernel::norm::{AddToSum, Channelwise, LANES, NormFactors, RootOf, Sum, Term, mean};
use crate::norm::{Norm, NormReach, Place};

impl Stages<'_> {
    /// The sums of squares that a norm takes, of each head or of each row.
    pub(crate) fn squares(&self, source: &Source<'_>, norm: Norm<'_>, sums: &mut [f32]) {
        let Shape { tokens, heads, .. } = self.shape;
        let mut tile = Tile::empty();
        let whole = norm.reach == NormReach::Row;
        let read = |block: Block, values: &mut [f32]| {
            if let Source::Tensor(tensor, element) = source {
                read_tensor(self.proof, tensor, element, block, values);
            }
        };
        let each = if whole { 1 } else { heads };
        for (index, sum) in sums.iter_mut().enumerate() {
            let (row, head) = (index / each, index % each);
            let block = Block {
                batch: row / tokens,
                token: row % tokens,
                head,
                count: 1,
                along_tokens: false,
                places: Places::default(),
            };
            let heads = if whole { 0..heads } else { head..head + 1 };
            *sum = self.sum(&read, norm, block, heads, Term::Square, 0.0, &mut tile) as f32;
        }
    }

    /// The factors of a norm over all heads of a block's token.
    pub(super) fn row_factors(
        &self,
        source: &Source<'_>,
        target: &Target<'_, '_>,
        norm: Norm<'_>,
        block: Block,
        tile: &mut Tile,
    ) -> NormFactors {
        let heads = self.shape.heads;
        let terms = heads * self.shape.head_dim;
        let read = |block: Block, values: &mut [f32]| self.read(source, target, block, values);
        self.factors(norm, |term, center| {
            let sum = self.sum(&read, norm, block, 0..heads, term, center, tile);
            (sum, terms)
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

    /// A sum over heads of a block's token, as they are where the norm stands.
    #[allow(clippy::too_many_arguments, reason = "what is summed, and where it is")]
    fn sum(
        &self,
        read: &dyn Fn(Block, &mut [f32]),
        norm: Norm<'_>,
        block: Block,
        heads: core::ops::Range<usize>,
        term: Term,
        mean: f32,
        tile: &mut Tile,
    ) -> f64 {
        let head_dim = self.shape.head_dim;
        let mut sum = Sum::new(heads.len() * head_dim, norm.sum);
        let (mut total, last) = (0.0, heads.end - 1);
        // Blocks of terms reach over heads: what fills none waits for the next head.
        let mut waiting = [0.0_f32; LANES];
        let mut held = 0;
        let mut other = Tile::empty();
        for head in heads {
            let block = Block {
                head,
                count: 1,
                ..block
            };
            let values = &mut tile.0[..head_dim];
            read(block, values);
            let mut values = values;
            if norm.place == Place::AfterRotation {
                if let Some(scale) = self
                    .scale
                    .filter(|scale| scale.place == Place::BeforeRotation)
                {
                    let factor = scale.of(
                        block.batch * self.shape.tokens + block.token,
                        head,
                        self.shape.heads,
                    );
                    self.each(values, Channelwise::TimesEach(&[factor]));
                    if scale.rounds {
                        self.round(self.element, values);
                    }
                }
                self.rotate(block, values, &mut other.0[..head_dim]);
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
            if head == last {
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
