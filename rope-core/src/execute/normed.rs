//! A norm and the rotation after it, in place, in one kernel. Out of place, heads are copied first.

use crate::describe::address::Addresses;
use crate::describe::tensor::{Bytes, BytesMut};
use crate::kernel::element::Element;
use crate::kernel::elements::{ElementType, NormRotateFn, NormRotateKernels};
use crate::kernel::line::{Line, SourceLine};
use crate::kernel::norm::ROOTS;
use crate::kernel::normed::{LineRoots, TOO_LONG};
use crate::kernel::prologue::LineNorm;
use crate::pass::walk::{CHUNK, Prefetch, Walk};
use crate::pass::{NormRotate, Operand, OperandMut, Pass};
use crate::proof::Proof;
use crate::tuning::Access;

/// The kernels of a norm and the rotation after it, with their arguments.
pub(super) struct FusedNorm<'w> {
    proof: Proof,
    element: ElementType,
    kernels: &'static NormRotateKernels,
    kernel: NormRotateFn,
    eps: f32,
    weights: &'w [f32],
    rounds_normed: bool,
    rounds_product: bool,
}

/// Weights as f32, aligned to cache lines.
#[repr(align(64))]
pub(super) struct NormWeights([f32; TOO_LONG]);

impl NormWeights {
    pub(super) fn ones() -> Self {
        NormWeights([1.0; TOO_LONG])
    }
}

impl<'w> FusedNorm<'w> {
    /// The most heads of a line.
    pub(super) const MOST: usize = ROOTS;

    pub(super) fn new(
        pass: &Pass<'_>,
        NormRotate { norm, kernels }: NormRotate<'_>,
        weights: &'w mut NormWeights,
    ) -> Self {
        let weights = &mut weights.0[..pass.shape.head_dim];
        if let Some(given) = norm.weight {
            pass.widen(given, norm.formula.one_plus_weight, 0, weights);
            for weight in &mut *weights {
                // The rounding to bf16 requires the NaN of arithmetic.
                if weight.is_nan() {
                    *weight = f32::NAN;
                }
            }
        }
        FusedNorm {
            proof: pass.proof,
            element: pass.element.element,
            kernels,
            kernel: kernels.rotate.of(pass.pairings()[0]),
            eps: norm.eps,
            weights,
            rounds_normed: norm.formula.rounds_normed,
            rounds_product: !pass.result(norm).is(f32::OUT_OF_PLACE),
        }
    }

    /// Norms and rotates a line. The squares are prefetched `ahead` elements in advance.
    pub(super) fn run(
        &self,
        memory: &mut [u8],
        line: &Line<'_>,
        ahead: usize,
        roots: &mut [f32; ROOTS],
    ) {
        let heads = SourceLine {
            memory: &*memory,
            at: 0,
            step: line.step,
            ahead,
        };
        self.proof.run(LineRoots {
            element: self.element,
            heads: &heads,
            head_dim: line.head_dim,
            len: line.heads,
            eps: self.eps,
            roots,
        });
        let norm = LineNorm {
            roots,
            weights: self.weights,
            rounds_normed: self.rounds_normed,
            rounds_product: self.rounds_product,
        };
        (self.kernel)(self.proof, memory, line, &norm);
        let from = 2 * line.rows.pairs;
        if from < line.head_dim {
            (self.kernels.rest)(self.proof, memory, line, &norm, from);
        }
    }
}

/// Norms and rotates heads of a tensor in place.
pub(crate) fn in_place(pass: &Pass<'_>, x: &mut BytesMut<'_>, norm: NormRotate<'_>) {
    let mut weights = NormWeights::ones();
    let norm = FusedNorm::new(pass, norm, &mut weights);
    let squares = Prefetch::of(Access::Squares, pass.tuning, pass.shape, x.size);
    let to_head = x.layout.steps().ahead(squares);
    let mut roots = [0.0; ROOTS];
    Walk {
        most: FusedNorm::MOST,
        ..Walk::in_place(
            pass.tuning,
            x.layout,
            x.size,
            pass.rows(),
            pass.rotation_factors(),
        )
    }
    .within(&pass.part)
    .run(|span| {
        let ahead = if span.along_tokens {
            span.steps[1].wrapping_mul(squares.heads)
        } else {
            to_head
        };
        let (before, memory) = span.split(x.bytes, x.size);
        norm.run(memory, &span.line(before), ahead, &mut roots);
    });
}

/// Copies heads of a tensor to lines of the same element, and norms and rotates them there.
pub(crate) fn copied(
    pass: &Pass<'_>,
    x: Bytes<'_>,
    target: &mut OperandMut<'_>,
    norm: NormRotate<'_>,
) {
    let mut weights = NormWeights::ones();
    let norm = FusedNorm::new(pass, norm, &mut weights);
    let mut roots = [0.0; ROOTS];
    let walk = Walk {
        // The first-level cache holds as many heads, beside their source.
        most: CHUNK,
        ..pass.walk(Some(&Operand::Tensor(x, pass.element)), target)
    };
    let memory = target.memory_mut();
    walk.run_dyn(&mut |span| {
        let (before, memory) = span.split(memory, x.size);
        let line = &span.line(before);
        copy_heads(&span.source(x.bytes), memory, line, x.size);
        norm.run(memory, line, 0, &mut roots);
    });
}

/// Copies the heads of a line from a source, elements of `size` bytes.
pub(super) fn copy_heads(source: &SourceLine<'_>, memory: &mut [u8], line: &Line<'_>, size: usize) {
    let contiguous = source.step == line.head_dim && line.step == line.head_dim;
    let (calls, heads) = if contiguous {
        (1, line.heads)
    } else {
        (line.heads, 1)
    };
    let len = heads * line.head_dim * size;
    for index in 0..calls {
        let from = (source.at + index * source.step) * size;
        let to = index * line.step * size;
        memory[to..][..len].copy_from_slice(&source.memory[from..][..len]);
    }
}
