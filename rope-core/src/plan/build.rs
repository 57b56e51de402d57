//! A plan: how it is made, and what is set on it.

use super::{Linear, Plain, Rope};
use crate::kernel::rotation::RowFactors;
use crate::proof::{self, Proof};
use crate::tuning::Tuning;
use crate::{Backend, Direction, Error, Pairing};

impl Rope {
    /// A plan that rotates forward, with the fastest backend of this CPU.
    ///
    /// The first plan of a process detects the CPU, which takes microseconds; later plans reuse the answer.
    pub fn new(pairing: Pairing) -> Self {
        Rope {
            input: pairing,
            output: pairing,
            direction: Direction::Forward,
            proof: Proof::best(),
            tuning: proof::tuning(),
            staged: false,
            stages: Plain,
        }
    }
}

/// The rotation's part of a plan, of every kind.
impl<S: Copy> Rope<S> {
    /// Writes another pairing than it reads: for [`Rope::rotate_into`] only.
    ///
    /// Interleaved in and half out is what DeepSeek-V3 and the models that took its code compute in Hugging Face's
    /// code.
    pub fn output_pairing(self, pairing: Pairing) -> Self {
        Rope {
            output: pairing,
            ..self
        }
    }

    /// Rotates this way.
    pub fn direction(self, direction: Direction) -> Self {
        Rope { direction, ..self }
    }

    /// Runs on this backend.
    ///
    /// # Errors
    ///
    /// [`Error::BackendUnavailable`] if this CPU, or this build, cannot run it.
    pub fn backend(self, backend: Backend) -> Result<Self, Error> {
        let proof = backend
            .prove()
            .ok_or(Error::BackendUnavailable { backend })?;
        Ok(Rope { proof, ..self })
    }

    /// Runs the stages of a plan one after the other, over a tile, also where they are fused: the same bits, more
    /// slowly. It shows what fusing gains, and that both agree.
    pub(crate) fn in_stages(self) -> Self {
        Rope {
            staged: true,
            ..self
        }
    }

    /// The pairings of what is read and of what is written.
    pub(crate) fn pairings(&self) -> (Pairing, Pairing) {
        (self.input, self.output)
    }

    /// The same plan with other stages, or none.
    pub(crate) fn with<T>(&self, stages: T) -> Rope<T> {
        let Rope {
            input,
            output,
            direction,
            proof,
            tuning,
            staged,
            ..
        } = *self;
        Rope {
            input,
            output,
            direction,
            proof,
            tuning,
            staged,
            stages,
        }
    }

    /// Whether stages that are fused run one after the other all the same.
    pub(crate) fn is_staged(&self) -> bool {
        self.staged
    }

    pub(crate) fn proof(&self) -> Proof {
        self.proof
    }

    pub(crate) fn tuning(&self) -> &'static Tuning {
        self.tuning
    }

    /// What this core has: the instruction set and the knobs.
    pub(crate) fn core(&self) -> (Proof, &'static Tuning) {
        (self.proof, self.tuning)
    }

    /// The same plan with other knobs.
    pub(crate) fn tuned(self, tuning: &'static Tuning) -> Self {
        Rope { tuning, ..self }
    }

    /// What the direction makes of rows with an attention factor.
    pub(crate) fn factors(&self, attention_factor: f64) -> Option<RowFactors> {
        self.direction.factors(attention_factor)
    }

    /// The backend that runs.
    pub fn backend_in_use(&self) -> Backend {
        self.proof.backend()
    }
}

impl<S: Linear> Rope<S> {
    /// The plan that takes gradients back, of one that rotates forward: its transpose, from its output pairing to its
    /// input pairing.
    pub(crate) fn back(&self) -> Result<Self, Error> {
        let Rope {
            input,
            output,
            direction,
            stages,
            ..
        } = *self;
        if direction != Direction::Forward {
            return Err(Error::BackwardDirection { direction });
        }
        Ok(Rope {
            input: output,
            output: input,
            direction: Direction::Transpose,
            stages: stages.transposed(),
            ..*self
        })
    }
}
