//! A norm and the rotation behind it, in place, in one kernel.

use super::{HEADS, Stages};
use crate::kernel::chains::{F32, Normed};
use crate::kernel::line::Line;
use crate::kernel::norm::ROOTS;
use crate::kernel::normed::{LineNorm, TOO_LONG};
use crate::norm::{NormReach, NormSum, Place};
use crate::tensor::BytesMut;
use crate::walk::Walk;

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
        let (size, kernel) = (x.size, normed.kernel(rotation.input));
        let mut roots = [0.0; ROOTS];
        Walk {
            source: None,
            target: x,
            rows: &rotation.rows,
            factors: rotation.factors.as_ref(),
        }
        .run(|line| {
            for first in (0..line.heads).step_by(HEADS) {
                let heads = HEADS.min(line.heads - first);
                let part = &mut line.target[first * line.target_step * size..];
                let extents = [line.target_step, head_dim, heads];
                (normed.roots)(self.proof, part, extents, norm.eps, &mut roots);
                let mut part = Line {
                    target: part,
                    heads,
                    rows: line.rows.from(first),
                    ..*line
                };
                let norm = LineNorm {
                    roots: &roots,
                    weights,
                    rounds_normed: norm.formula.rounds_normed,
                    rounds_product: !self.result(norm).is(&F32),
                };
                kernel(self.proof, &mut part, &norm);
            }
        });
        true
    }
}

/// On cache lines of its own.
#[repr(align(64))]
struct Weighted([f32; TOO_LONG]);
