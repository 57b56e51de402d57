//! A norm and the rotation behind it, in place, in one kernel.

use super::Stages;
use crate::kernel::chains::{F32, Normed};
use crate::kernel::line::Source;
use crate::kernel::norm::ROOTS;
use crate::kernel::normed::{LineNorm, TOO_LONG};
use crate::norm::{NormReach, NormSum, Place};
use crate::tensor::BytesMut;
use crate::walk::{Access, Prefetch, Walk};

impl Stages<'_> {
    /// Norms and rotates in place in one kernel, if it is one that is fused: of short heads, each by itself, all of
    /// whose channels rotate, with weights that they share. The bits are the same.
    pub(crate) fn run_fused(&self, x: &mut BytesMut<'_>, normed: &'static Normed) -> bool {
        let (Some(norm), Some(rotation), None) = (self.norm, &self.rotation, self.scale) else {
            return false;
        };
        let head_dim = self.shape.head_dim;
        let shared = norm.weight.is_none_or(|weights| weights.len() == head_dim);
        let plain = !norm.formula.centred && norm.bias.is_none() && norm.given.is_none();
        let over_heads = norm.reach == NormReach::Head && norm.place == Place::BeforeRotation;
        let short = head_dim < TOO_LONG && 2 * rotation.rows.pairs() == head_dim;
        if self.staged || !(shared && plain && over_heads && short && norm.sum == NormSum::PyTorch)
        {
            return false;
        }
        let mut weights = Weighted([1.0; TOO_LONG]);
        let weights = &mut weights.0[..head_dim];
        if let Some(given) = norm.weight {
            self.widen(given, norm.formula.one_plus_weight, 0, weights);
        }
        for weight in &mut *weights {
            // Rounding to bf16 takes no other.
            if weight.is_nan() {
                *weight = f32::NAN;
            }
        }
        let kernel = normed.kernel(rotation.input);
        let squares = Prefetch::of(Access::Squares, self.shape, x.size).heads;
        let mut roots = [0.0; ROOTS];
        Walk {
            most: ROOTS,
            ..Walk::in_place(x.layout, x.size, &rotation.rows, rotation.factors.as_ref())
        }
        .run(|span| {
            let heads = Source {
                ahead: span.steps[1].wrapping_mul(squares),
                ..span.written(x.bytes)
            };
            let extents = [head_dim, span.count];
            (normed.roots)(self.proof, &heads, extents, norm.eps, &mut roots);
            let norm = LineNorm {
                roots: &roots,
                weights,
                rounds_normed: norm.formula.rounds_normed,
                rounds_product: !self.result(norm).is(&F32),
            };
            kernel(self.proof, &mut span.line(x.bytes), &norm);
        });
        true
    }
}

/// On cache lines of its own.
#[repr(align(64))]
struct Weighted([f32; TOO_LONG]);
