//! Norms, scales and transforms as operations on a tile, and the sums of norms that no fused kernel computes: over all
//! heads of a token, or in another order.

use super::staged::{Channels, read_lines, with_tile};
use crate::Shape;
use crate::base::stage_order::StageOrder;
use crate::describe::norm::{GivenSums, Norm, NormReach, NormSum, Weights};
use crate::describe::rows::View;
use crate::describe::scale::Scale;
use crate::describe::tensor::Bytes;
use crate::kernel::elements::{ElementType, OutOfPlaceKernels};
use crate::kernel::line::{LineRows, SourceLine, Starts};
use crate::kernel::norm::{
    AddToSum, Channelwise, LANES, NormFactors, PerChannel, ROOTS, RootOf, Scaled, Sum, Term, mean,
};
use crate::kernel::normed::{LineRoots, TOO_LONG};
use crate::pass::transform::Transform;
use crate::pass::walk::{LineSpan, Order, Walk};
use crate::pass::{Operands, Ops, Pass, PassStages};

/// No stages yet, with the functions that run them.
pub(crate) const NO_STAGES: PassStages<'_> = PassStages {
    norm: None,
    scale: None,
    transform: None,
    ops: &OPS,
};

/// The functions that run norms, scales and transforms.
static OPS: Ops = Ops { run, row_factors };

/// Runs the stages of one side on the heads in a tile.
fn run(
    pass: &Pass<'_>,
    &PassStages {
        norm,
        scale,
        transform,
        ..
    }: &PassStages<'_>,
    place: StageOrder,
    span: &LineSpan<'_>,
    row: Option<NormFactors>,
    tile: &mut [f32],
    side: &mut [f32],
) {
    if place == StageOrder::BeforeRotation {
        pass.transform_first(tile, side);
    }
    if let Some(norm) = norm.filter(|norm| norm.order == place) {
        pass.norm_heads(norm, span, row, tile, side);
    }
    if let Some(scale) = scale.filter(|scale| scale.order == place) {
        let element = pass.flowing(place);
        pass.scale_heads(scale, element, span, tile, side);
    }
    let last = |it: &Transform| it.last && place == StageOrder::AfterRotation;
    if let Some(transform) = transform.filter(last) {
        transform.run(pass.proof, tile);
    }
}

/// Computes the factors of a norm over all heads of a token, the first of which begins a line.
pub(super) fn row_factors(
    pass: &Pass<'_>,
    norm: Norm<'_>,
    operands: &Operands<'_, '_>,
    first: &LineSpan<'_>,
    tile: &mut [f32],
    side: &mut [f32],
) -> NormFactors {
    let all = &LineSpan {
        count: pass.shape.heads,
        ..*first
    };
    let terms = all.count * pass.shape.head_dim;
    let read = |span: &LineSpan<'_>, values: &mut [f32], side: &mut [f32]| {
        let channels = Channels::run(0, values.len());
        operands.read(pass.proof, span, channels, values, side);
        pass.transform_first(values, side);
    };
    pass.factors(norm, |term, center| {
        let sum = pass.sum(&read, norm, all, (term, center), tile, side);
        (sum, terms)
    })
}

/// Reads the heads of a line into a tile, with scratch beside it.
type ReadHeads<'r> = dyn Fn(&LineSpan<'_>, &mut [f32], &mut [f32]) + 'r;

impl Pass<'_> {
    /// Transforms the heads of a tile, if the transform is the first stage.
    pub(super) fn transform_first(&self, tile: &mut [f32], side: &mut [f32]) {
        if let Some(transform) = self.transform().filter(|it| it.first) {
            transform.run(self.proof, tile);
            if self.rounds {
                self.round(self.element, tile, side);
            }
        }
    }

    /// Scales the heads of a tile.
    pub(super) fn scale_heads(
        &self,
        scale: Scale<'_>,
        element: &'static OutOfPlaceKernels,
        span: &LineSpan<'_>,
        tile: &mut [f32],
        side: &mut [f32],
    ) {
        let mut factors = [1.0; ROOTS];
        for (index, factor) in factors.iter_mut().enumerate().take(span.count) {
            let [token, head] = self.of.index(span.index(index));
            *factor = scale.of(token, head, self.of.call.heads);
        }
        self.each(tile, Channelwise::TimesEach(&factors));
        if scale.rounds {
            self.round(element, tile, side);
        }
    }

    /// Norms the heads of a tile.
    pub(super) fn norm_heads(
        &self,
        norm: Norm<'_>,
        span: &LineSpan<'_>,
        row: Option<NormFactors>,
        tile: &mut [f32],
        side: &mut [f32],
    ) {
        let formula = norm.formula;
        let mut factors = [row.unwrap_or(NormFactors::NONE); ROOTS];
        let factors = &mut factors[..span.count];
        if row.is_none() {
            self.head_factors(norm, span, tile, factors);
        }
        let result = self.result(norm);
        match norm.weight {
            Some(weights) if !formula.rounds_normed => {
                let weights = self.per_channel(weights, formula.one_plus_weight, span, side);
                self.each(tile, Channelwise::NormTimes(factors, weights));
            }
            weights => {
                self.each(tile, Channelwise::Norm(factors));
                if formula.rounds_normed {
                    self.round(self.element, tile, side);
                }
                if let Some(weights) = weights {
                    let weights = self.per_channel(weights, formula.one_plus_weight, span, side);
                    self.each(tile, Channelwise::Times(weights));
                }
            }
        }
        if let Some(biases) = norm.bias {
            if formula.rounds_product && norm.weight.is_some() && !self.promotes(norm) {
                self.round(self.element, tile, side);
            }
            let biases = self.per_channel(biases, false, span, side);
            self.each(tile, Channelwise::Plus(biases));
        }
        self.round(result, tile, side);
    }

    /// Computes the factors of a norm for each head of a tile.
    #[inline(never)]
    fn head_factors(
        &self,
        norm: Norm<'_>,
        span: &LineSpan<'_>,
        tile: &[f32],
        factors: &mut [NormFactors],
    ) {
        let head_dim = self.shape.head_dim;
        if let Some(GivenSums { sums, width }) = norm.given {
            for (index, factors) in factors.iter_mut().enumerate() {
                let [token, head] = self.of.index(span.index(index));
                let sum = match norm.reach {
                    NormReach::Token => sums[token],
                    NormReach::Head => sums[token * self.of.call.heads + head],
                };
                self.root(norm, [0.0, sum / width as f32], factors);
            }
        } else if !norm.formula.centered && norm.sum == NormSum::PyTorch && head_dim < TOO_LONG {
            let mut roots = [0.0; ROOTS];
            let heads = SourceLine {
                memory: bytemuck::cast_slice(tile),
                at: 0,
                step: head_dim,
                ahead: 0,
            };
            self.proof.run(LineRoots {
                element: ElementType::F32,
                heads: &heads,
                head_dim,
                len: span.count,
                eps: norm.eps,
                roots: &mut roots,
            });
            for (factors, root) in factors.iter_mut().zip(roots) {
                factors.root = root;
            }
        } else {
            for (factors, head) in factors.iter_mut().zip(tile.chunks_exact(head_dim)) {
                *factors = self.factors(norm, |term, mean| {
                    let mut sum = Sum::new(head_dim, norm.sum);
                    let mut all = 0.0;
                    self.add(&mut sum, head, (term, mean), Some(&mut all));
                    (all, head_dim)
                });
            }
        }
    }

    #[inline(never)]
    fn each(&self, tile: &mut [f32], what: Channelwise<'_>) {
        let head_dim = self.shape.head_dim;
        self.proof.run(Scaled {
            heads: tile,
            head_dim,
            what,
        });
    }

    /// Returns the weights of the heads of a line as f32: in place, or converted beside the tile.
    #[inline(never)]
    fn per_channel<'w>(
        &self,
        weights: Weights<'w>,
        one_plus: bool,
        span: &LineSpan<'_>,
        side: &'w mut [f32],
    ) -> PerChannel<'w> {
        let head_dim = self.shape.head_dim;
        let shared = weights.len() == head_dim;
        let [_, head] = self.of.index(span.first);
        let start = if shared { 0 } else { head * head_dim };
        let (step, count) = if shared || span.along_tokens {
            (0, 1)
        } else {
            (head_dim, span.count)
        };
        let len = count * head_dim;
        if let (Weights::F32(weights), false) = (weights, one_plus) {
            return PerChannel {
                values: &weights[start..][..len],
                step,
            };
        }
        let values = &mut side[..len];
        self.widen(weights, one_plus, start, values);
        PerChannel { values, step }
    }

    /// Computes the sums of squares of a tensor for a norm, per head or per row.
    pub(crate) fn squares(
        &self,
        (x, element): (&Bytes<'_>, &'static OutOfPlaceKernels),
        norm: Norm<'_>,
        sums: &mut [f32],
    ) {
        let Shape {
            tokens,
            heads,
            head_dim,
            ..
        } = self.shape;
        let whole = norm.reach == NormReach::Token;
        let read = |span: &LineSpan<'_>, values: &mut [f32], _: &mut [f32]| {
            let heads = &span.source(x.bytes);
            let channels = Channels::run(0, values.len());
            read_lines(self.proof, heads, element, channels, values);
        };
        let walk = Walk {
            most: if whole { usize::MAX } else { 1 },
            ..Walk::new(
                self.shape,
                Order::BY_TOKEN,
                (x.layout, ()),
                &View::NONE,
                None,
            )
        };
        with_tile(head_dim, &mut |tile| {
            walk.run_dyn(&mut |span| {
                let [batch, token, head] = span.first;
                let row = batch * tokens + token;
                let index = if whole { row } else { row * heads + head };
                let term = (Term::Square, 0.0);
                sums[index] = self.sum(&read, norm, span, term, tile, &mut []) as f32;
            });
        });
    }

    /// Computes the factors of a norm from its sums and the number of their terms.
    fn factors(
        &self,
        norm: Norm<'_>,
        mut sum: impl FnMut(Term, f32) -> (f64, usize),
    ) -> NormFactors {
        let mut mean_of = |term, center| {
            let (sum, terms) = sum(term, center);
            mean(sum, terms, norm.sum)
        };
        let means = if norm.formula.centered {
            let center = mean_of(Term::Value, 0.0);
            [center, mean_of(Term::Deviation, center)]
        } else {
            [0.0, mean_of(Term::Square, 0.0)]
        };
        let mut factors = NormFactors::NONE;
        self.root(norm, means, &mut factors);
        factors
    }

    /// Computes the factors of a norm from the mean, and the mean of squares.
    #[inline(never)]
    fn root(&self, norm: Norm<'_>, [mean, square]: [f32; 2], factors: &mut NormFactors) {
        let eps = norm.eps;
        self.proof.run(RootOf {
            mean,
            square,
            eps,
            factors,
        });
    }

    /// Adds terms to a sum: whole blocks, or the last ones.
    #[inline(never)]
    fn add(
        &self,
        sum: &mut Sum,
        values: &[f32],
        (term, mean): (Term, f32),
        total: Option<&mut f64>,
    ) {
        self.proof.run(AddToSum {
            sum,
            values,
            term,
            mean,
            total,
        });
    }

    /// Sums over the heads of a token, with their values at the norm.
    fn sum(
        &self,
        read: &ReadHeads<'_>,
        norm: Norm<'_>,
        heads: &LineSpan<'_>,
        term: (Term, f32),
        tile: &mut [f32],
        side: &mut [f32],
    ) -> f64 {
        let head_dim = self.shape.head_dim;
        let mut sum = Sum::new(heads.count * head_dim, norm.sum);
        // Blocks of terms cross heads: the terms of an incomplete block wait for the next head.
        let mut waiting = [0.0_f32; LANES];
        let mut held = 0;
        for index in 0..heads.count {
            let first = heads.index(index);
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
            let mut values = &mut tile[..head_dim];
            read(span, values, side);
            if norm.order == StageOrder::AfterRotation {
                let before = |scale: &Scale<'_>| scale.order == StageOrder::BeforeRotation;
                if let Some(scale) = self.scale().filter(before) {
                    self.scale_heads(scale, self.element, span, values, side);
                }
                let [rotated, side] = self.rotate(span, self.first_channel(), values, side);
                if self.rotation.is_some() && self.rounds {
                    self.round(self.element, rotated, side);
                }
                values = rotated;
            }
            let mut values = &*values;
            if held > 0 {
                let now = (LANES - held).min(values.len());
                waiting[held..held + now].copy_from_slice(&values[..now]);
                (held, values) = (held + now, &values[now..]);
                if held == LANES {
                    self.add(&mut sum, &waiting, term, None);
                    held = 0;
                }
            }
            let (blocks, rest) = values.as_chunks::<LANES>();
            self.add(&mut sum, blocks.as_flattened(), term, None);
            waiting[held..held + rest.len()].copy_from_slice(rest);
            held += rest.len();
        }
        let mut total = 0.0;
        self.add(&mut sum, &waiting[..held], term, Some(&mut total));
        total
    }
}
