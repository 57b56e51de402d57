//! A plan: how it is made, what is set on it, and the verbs of every kind of plan.

use super::{Linear, Plain, Rope, Stages};
use crate::kernel::element::Element;
use crate::kernel::rotation::RowFactors;
use crate::proof::{self, Proof};
use crate::tuning::Tuning;
use crate::{Backend, Direction, Error, Pairing, Rows, Tensor, TensorMut};

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

impl<S: Stages> Rope<S> {
    /// Rotates the first `rows.rotary_dim()` channels of every head, in place; the others stay as they are.
    ///
    /// Each output is the f32 that `x cos - y sin` or `x sin + y cos` gives when each of the three operations is
    /// rounded by itself, then rounded to `E`: the same bits on every backend. With `v` the length of the pair and
    /// `u = 2^-24`, an f32 output is within `2 u v` of the exact rotation by the row's cos and sin.
    ///
    /// # Errors
    ///
    /// [`Error::RotaryDimExceedsHead`] if the rows rotate more channels than a head has, [`Error::RowCount`] unless
    /// there is one row per token or one per token of every sequence, [`Error::RowHeads`] if rows of each head are
    /// those of another number of heads, [`Error::RowSequences`] if strided rows are those of other sequences,
    /// [`Error::RowMagnitude`] if the direction is [`Direction::Inverse`] and given rows are no rotations times their
    /// attention factor, [`Error::PairingChangesInPlace`] if the plan's output pairing is another than its input
    /// pairing. The tensor is untouched then.
    pub fn rotate<E: Element>(
        &self,
        x: &mut TensorMut<'_, E>,
        rows: &Rows<'_>,
    ) -> Result<(), Error> {
        S::rotate(self, x, rows)
    }

    /// Rotates Q and K, in place, with the same rows: [`Rope::rotate`] twice, checked before either is touched.
    ///
    /// Rows per head have to have the heads of either; where Q has more heads than K, each is rotated by itself, with
    /// its own rows.
    ///
    /// They are two slices. Where they lie in one, as a packed QKV projection writes them, [`Rope::rotate`] takes both
    /// at once, as one tensor of their heads ([the guide](crate::guide::packed_qkv)).
    ///
    /// # Errors
    ///
    /// Those of [`Rope::rotate`], and [`Error::QueryKeyMismatch`] unless the two differ in their heads only.
    pub fn rotate_qk<Q: Element, K: Element>(
        &self,
        q: &mut TensorMut<'_, Q>,
        k: &mut TensorMut<'_, K>,
        rows: &Rows<'_>,
    ) -> Result<(), Error> {
        S::rotate_qk(self, q, k, rows)
    }

    /// Rotates one tensor into another, whose element type and pairing may differ: a write into a KV cache.
    ///
    /// The channels after `rows.rotary_dim()` are copied; as bits, if the element stays the same.
    ///
    /// # Errors
    ///
    /// [`Error::ShapeMismatch`] if the two have different shapes; [`Error::RotaryDimExceedsHead`],
    /// [`Error::RowCount`], [`Error::RowHeads`], [`Error::RowSequences`] and [`Error::RowMagnitude`] as
    /// [`Rope::rotate`]. The target is untouched then.
    pub fn rotate_into<I: Element, O: Element>(
        &self,
        x: &Tensor<'_, I>,
        y: &mut TensorMut<'_, O>,
        rows: &Rows<'_>,
    ) -> Result<(), Error> {
        S::rotate_into(self, x, y, rows)
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
