//! A Hadamard transform as a stage of a pass.

use crate::describe::hadamard::Hadamard;
use crate::kernel::hadamard::HadamardKernel;
use crate::proof::Proof;

/// A Hadamard transform of whole heads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transform {
    pub(crate) hadamard: Hadamard,
    /// The kernel over the blocks of heads. A pointer, so that programs without transforms do not link it.
    pub(crate) kernel: TransformFn,
    /// True if it is the first stage.
    pub(crate) first: bool,
    /// True if it is the last stage.
    pub(crate) last: bool,
}

/// Transforms contiguous blocks.
pub(crate) type TransformFn = fn(Proof, Hadamard, &mut [f32]);

impl PartialEq for Transform {
    // There is one kernel.
    fn eq(&self, other: &Self) -> bool {
        let places = |it: &Self| (it.first, it.last);
        self.hadamard == other.hadamard && places(self) == places(other)
    }
}

impl Transform {
    /// Creates a transform as the last stage of a plan.
    pub(crate) fn new(hadamard: Hadamard) -> Self {
        Transform {
            hadamard,
            kernel: |proof, hadamard, heads| {
                let blocks = hadamard.blocks();
                proof.run(HadamardKernel { heads, blocks });
            },
            first: false,
            last: true,
        }
    }

    /// Makes it the first stage instead, which undoes a transform.
    pub(crate) fn undone(self) -> Self {
        Transform {
            first: true,
            last: false,
            ..self
        }
    }

    /// Transforms whole contiguous heads.
    pub(crate) fn run(&self, proof: Proof, heads: &mut [f32]) {
        (self.kernel)(proof, self.hadamard, heads);
    }
}
