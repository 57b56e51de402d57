//! A Hadamard transform as a stage of a pass.

use crate::describe::hadamard::Hadamard;
use crate::kernel::hadamard::HadamardKernel;
use crate::proof::Proof;

/// A Hadamard transform of whole heads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transform {
    pub(crate) hadamard: Hadamard,
    /// What runs it over the blocks of heads: by reference, so that programs whose plans have none do not link it.
    pub(crate) kernel: TransformFn,
    /// Whether it is the first stage.
    pub(crate) first: bool,
    /// Whether it is the last stage.
    pub(crate) last: bool,
}

/// Transforms blocks that lie one after the other.
pub(crate) type TransformFn = fn(Proof, Hadamard, &mut [f32]);

impl PartialEq for Transform {
    // There is one kernel.
    fn eq(&self, other: &Self) -> bool {
        let places = |it: &Self| (it.first, it.last);
        self.hadamard == other.hadamard && places(self) == places(other)
    }
}

impl Transform {
    /// At the end of a plan.
    pub(crate) fn new(hadamard: Hadamard) -> Self {
        Transform {
            hadamard,
            kernel: |proof, hadamard, heads| {
                proof.run(HadamardKernel::new(heads, hadamard.blocks()))
            },
            first: false,
            last: true,
        }
    }

    /// At the beginning instead, where it is undone.
    pub(crate) fn undone(self) -> Self {
        Transform {
            first: true,
            last: false,
            ..self
        }
    }

    /// Transforms whole heads, one after the other.
    pub(crate) fn run(&self, proof: Proof, heads: &mut [f32]) {
        (self.kernel)(proof, self.hadamard, heads);
    }
}
