//! A norm and the rotation after it, in place, in one kernel; from one place to another heads are copied first.

use crate::backend::Proof;
use crate::kernel::chains::{F32, Normed, NormedFn};
use crate::kernel::line::{Line, Source};
use crate::kernel::norm::ROOTS;
use crate::kernel::normed::{LineNorm, TOO_LONG};
use crate::pass::{Operand, OperandMut, Pass};
use crate::tensor::Bytes;
use crate::walk::{Access, Addresses, CHUNK, Order, Prefetch, Walk};

/// The kernels of a norm and the rotation after it, with what they need.
pub(super) struct FusedNorm {
    proof: Proof,
    kernels: &'static Normed,
    kernel: NormedFn,
    eps: f32,
    /// On cache lines of their own.
    weights: Weights,
    rounds_normed: bool,
    rounds_product: bool,
}

#[repr(align(64))]
struct Weights([f32; TOO_LONG]);

impl FusedNorm {
    /// Heads of a line at most.
    pub(super) const MOST: usize = ROOTS;

    /// That of a pass, if it is one that is fused.
    pub(super) fn of(pass: &Pass<'_>) -> Option<Self> {
        let (norm, kernels, pairing) = pass.fused_norm()?;
        let mut weights = Weights([1.0; TOO_LONG]);
        if let Some(given) = norm.weight {
            let values = &mut weights.0[..pass.shape.head_dim];
            pass.widen(given, norm.formula.one_plus_weight, 0, values);
            for weight in values {
                // Rounding to bf16 takes no other.
                if weight.is_nan() {
                    *weight = f32::NAN;
                }
            }
        }
        Some(FusedNorm {
            proof: pass.proof,
            kernels,
            kernel: kernels.kernel(pairing),
            eps: norm.eps,
            weights,
            rounds_normed: norm.formula.rounds_normed,
            rounds_product: !pass.result(norm).is(&F32),
        })
    }

    /// Norms and rotates a line, whose squares are prefetched so many elements ahead.
    pub(super) fn run(&self, line: &mut Line<'_>, ahead: usize) {
        let mut roots = [0.0; ROOTS];
        let heads = Source {
            memory: line.memory,
            at: line.at,
            step: line.step,
            ahead,
        };
        let extents = [line.head_dim, line.heads];
        (self.kernels.roots)(self.proof, &heads, extents, self.eps, &mut roots);
        let norm = LineNorm {
            roots: &roots,
            weights: &self.weights.0[..line.head_dim],
            rounds_normed: self.rounds_normed,
            rounds_product: self.rounds_product,
        };
        (self.kernel)(self.proof, line, &norm);
    }
}

/// In place in a tensor.
pub(crate) fn in_place(pass: &Pass<'_>, _: &Operand<'_>, target: &mut OperandMut<'_, '_>) -> bool {
    let (OperandMut::Tensor(x, _), Some(norm)) = (target, FusedNorm::of(pass)) else {
        return false;
    };
    let squares = Prefetch::of(Access::Squares, pass.shape, x.size).heads;
    Walk {
        most: FusedNorm::MOST,
        prefetch: Prefetch::of(Access::Rotate, pass.shape, x.size),
        ..pass.walk(Order::of(None, x.layout), (), x.layout)
    }
    .run(|span| {
        let ahead = span.steps[1].wrapping_mul(squares);
        norm.run(&mut span.line(x.bytes), ahead);
    });
    true
}

/// From a tensor to where heads are lines of the same element.
pub(crate) fn copied(
    pass: &Pass<'_>,
    source: &Operand<'_>,
    target: &mut OperandMut<'_, '_>,
) -> bool {
    let same = target
        .elements()
        .is_some_and(|element| element.is(pass.element));
    let (Operand::Tensor(x, _), true, Some(norm)) = (source, same, FusedNorm::of(pass)) else {
        return false;
    };
    match target {
        OperandMut::Tensor(y, _) => {
            let order = Order::of(Some(x.layout), y.layout);
            copy_and_norm(&norm, x, y.bytes, pass.walk(order, x.layout, y.layout));
        }
        OperandMut::Cache(cache, slots) => {
            let len = cache.len();
            let (memory, stored) = cache.parts();
            let slots = stored.in_slots(slots, len, pass.shape.tokens);
            let walk = pass.walk(Order::BY_TOKEN, x.layout, slots);
            copy_and_norm(&norm, x, memory, walk);
        }
    }
    true
}

fn copy_and_norm<S: Addresses, T: Addresses>(
    norm: &FusedNorm,
    x: &Bytes<'_>,
    memory: &mut [u8],
    walk: Walk<'_, S, T>,
) {
    Walk {
        // As many as the first cache holds, beside where they came from.
        most: CHUNK,
        ..walk
    }
    .run(|span| {
        let line = &mut span.line(memory);
        copy_heads(&span.source(x.bytes), line, x.size);
        norm.run(line, 0);
    });
}

/// Copies the heads of a line, elements of `size` bytes, from those of a source.
pub(super) fn copy_heads(source: &Source<'_>, line: &mut Line<'_>, size: usize) {
    let contiguous = source.step == line.head_dim && line.step == line.head_dim;
    let (calls, heads) = if contiguous {
        (1, line.heads)
    } else {
        (line.heads, 1)
    };
    let len = heads * line.head_dim * size;
    for index in 0..calls {
        let from = (source.at + index * source.step) * size;
        let to = (line.at + index * line.step) * size;
        line.memory[to..][..len].copy_from_slice(&source.memory[from..][..len]);
    }
}
