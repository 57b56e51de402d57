//! Construction of a plan, and its settings.

#[cfg(feature = "rayon")]
use super::parallel::THREADS;
use super::{Plain, Rope, Threads, Transpose};
use crate::describe::window::Window;
use crate::error::GradientError;
use crate::kernel::rotation::RowFactors;
use crate::proof::{self, Proof};
use crate::tuning::Tuning;
use crate::{Backend, Direction, Error, Pairing};

impl Rope {
    /// Creates a plan that rotates forward, with the fastest backend of this CPU.
    ///
    /// The first plan of a process detects the CPU, which takes microseconds; later plans reuse the result.
    pub fn new(pairing: Pairing) -> Self {
        Rope::by(pairing, Proof::best())
    }

    /// Creates a plan for a backend, or for the fastest one.
    pub(crate) fn on(pairing: Pairing, backend: Option<Backend>) -> Result<Self, Error> {
        Ok(match backend {
            None => Rope::new(pairing),
            Some(backend) => Rope::by(pairing, backend.required()?),
        })
    }

    #[inline(always)]
    fn by(pairing: Pairing, proof: Proof) -> Self {
        Rope {
            input: pairing,
            output: pairing,
            direction: Direction::Forward,
            proof,
            tuning: proof::tuning(),
            staged: false,
            window: Window::WHOLE,
            threads: None,
            stages: Plain,
        }
    }
}

/// The settings of the rotation, for every kind of plan.
impl<S: Copy> Rope<S> {
    /// Sets the pairing of the output, for [`Rope::rotate_into`] only.
    ///
    /// Interleaved input and half output is what Hugging Face's code computes for DeepSeek-V3 and the models derived
    /// from it.
    pub fn with_output_pairing(self, pairing: Pairing) -> Self {
        Rope {
            output: pairing,
            ..self
        }
    }

    /// Sets the first rotated channel of a head; the width of the rows determines the last. The other channels stay as
    /// they are, or are copied, as bits if the element stays the same. A norm, a scale and a transform cover the whole
    /// head. The default is channel 0.
    ///
    /// In multi-head latent attention the last channels of a head rotate:
    ///
    /// ```
    /// use rope_core::{Error, Pairing, Rope, Rows, Tensor, TensorMut};
    ///
    /// // The last two of four channels rotate by half a turn.
    /// let (x, mut y) = ([1.0_f32, 2.0, 3.0, 4.0], [0.0_f32; 4]);
    /// let (from, mut to) = (Tensor::new(&x, [1, 1, 1, 4])?, TensorMut::new(&mut y, [1, 1, 1, 4])?);
    /// let rows = Rows::new(&[-1.0, 0.0], [1, 2])?;
    /// Rope::new(Pairing::Half).with_window(2).rotate_into(&from, &mut to, &rows)?;
    /// assert_eq!(y, [1.0, 2.0, -3.0, -4.0]);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// Heads may then have any size again ([`Rope::with_head_dim`]). A call returns
    /// [`RowsError::Window`](crate::error::RowsError::Window) if a head ends before the last channel. Plain rotations
    /// of tensors are as fast as at channel 0; all other calls run stage by stage.
    #[doc(alias("partial_rotary_factor", "qk_rope_head_dim", "rotate_window_into"))]
    pub fn with_window(self, first_channel: usize) -> Self {
        let window = Window {
            first: first_channel,
            head_dim: 0,
            ..self.window
        };
        Rope { window, ..self }
    }

    /// Sets the size of the heads that the plan rotates. By default, and after [`Rope::with_window`], heads may have
    /// any. Of heads of another size, the window would rotate other channels:
    ///
    /// ```
    /// use rope_core::error::PlanError;
    /// use rope_core::{Error, Pairing, Rope, Rows, TensorMut};
    ///
    /// // Heads of 128 channels, and 64 that rotate.
    /// let rope = Rope::new(Pairing::Interleaved).with_window(128).with_head_dim(192);
    /// let (mut x, values) = ([1.0_f32; 576], [0.0; 64]);
    /// let rows = Rows::new(&values, [1, 64])?;
    /// // A latent of 512 channels and its key of 64 make another head ..
    /// let mut latent = TensorMut::new(&mut x, [1, 1, 1, 576])?;
    /// let refused = rope.rotate(&mut latent, &rows);
    /// assert!(matches!(refused, Err(Error::Plan(PlanError::HeadDim { given: 576, head_dim: 192, .. }))));
    /// // .. and its key begins at channel 512.
    /// rope.with_window(512).rotate(&mut latent, &rows)?;
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// A rotation returns [`PlanError::HeadDim`](crate::error::PlanError::HeadDim) for other heads. Calls that do not
    /// rotate accept them, as values.
    pub fn with_head_dim(self, head_dim: usize) -> Self {
        let window = Window {
            head_dim,
            ..self.window
        };
        Rope { window, ..self }
    }

    /// Divides the rotated channels of a head into equal parts, each with its own equal share of the pairs of the rows
    /// and paired by itself, as a head of its own. The default is one part.
    ///
    /// Gemma 4's vision tower rotates each half of a head by one axis:
    ///
    /// ```
    /// use rope_core::{Error, Pairing, Rope, Rows, TensorMut};
    ///
    /// // The pairs are channels 0 and 1, and channels 2 and 3. Only the second one turns, by half a turn.
    /// let mut x = [1.0_f32, 2.0, 3.0, 4.0];
    /// let rows = Rows::new(&[1.0, -1.0, 0.0, 0.0], [1, 4])?;
    /// let rope = Rope::new(Pairing::Half).with_parts(2);
    /// rope.rotate(&mut TensorMut::new(&mut x, [1, 1, 1, 4])?, &rows)?;
    /// assert_eq!(x, [1.0, 2.0, -3.0, -4.0]);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// A call returns [`RowsError::Parts`](crate::error::RowsError::Parts) if the parts do not divide the pairs of its
    /// rows. Plain rotations of tensors run part by part; all other calls run stage by stage. Parts of different widths
    /// are calls of their own, by [`Layout::narrow`](crate::Layout::narrow) and
    /// [`Rows::narrow_pairs`](crate::Rows::narrow_pairs).
    pub fn with_parts(self, parts: usize) -> Self {
        let window = Window {
            parts,
            ..self.window
        };
        Rope { window, ..self }
    }

    /// Sets the direction.
    pub fn with_direction(self, direction: Direction) -> Self {
        Rope { direction, ..self }
    }

    /// Sets the backend.
    ///
    /// # Errors
    ///
    /// [`PlanError::BackendUnavailable`](crate::error::PlanError::BackendUnavailable) if this CPU, or this build,
    /// cannot run it.
    pub fn with_backend(self, backend: Backend) -> Result<Self, Error> {
        Ok(Rope {
            proof: backend.required()?,
            ..self
        })
    }

    /// Runs calls on the threads of the current rayon pool: each rotates, or writes, a part of the target. The bits are
    /// the same.
    ///
    /// A tensor is cut along the outermost dimension of its memory, a cache between its blocks, or between the slots of
    /// its only block. If two tokens have the same slot, the later one stays. Calls that cannot be cut run on one
    /// thread: caches whose blocks interleave, slots by [`offsets`](crate::cache::Slots::offsets), and a norm over all
    /// heads of a token if heads are outermost. So do calls with several outputs, and those of gradients.
    ///
    /// Small calls stay on the calling thread: less than 512 KiB if it belongs to the pool (within
    /// `ThreadPool::install`, say), and less than 4 MiB otherwise, because it must wait for the threads that it wakes.
    ///
    /// ```
    /// use rope_core::{Error, Pairing, Rope, Rows, TensorMut};
    ///
    /// let rope = Rope::new(Pairing::Half).with_threads();
    /// let mut x = [1.0_f32, 2.0];
    /// rope.rotate(&mut TensorMut::new(&mut x, [1, 1, 1, 2])?, &Rows::new(&[0.0, 1.0], [1, 2])?)?;
    /// assert_eq!(x, [-2.0, 1.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[cfg(feature = "rayon")]
    #[doc(alias(
        "rotate_parallel",
        "rotate_into_parallel",
        "rotate_qk_parallel",
        "rotate_at_parallel",
        "parallel"
    ))]
    pub fn with_threads(self) -> Self {
        Rope {
            threads: Some(&THREADS),
            ..self
        }
    }

    /// Returns the plan with other stages, or none.
    pub(super) fn with<T>(&self, stages: T) -> Rope<T> {
        Rope {
            input: self.input,
            output: self.output,
            direction: self.direction,
            proof: self.proof,
            tuning: self.tuning,
            staged: self.staged,
            window: self.window,
            threads: self.threads,
            stages,
        }
    }

    /// Returns the instruction set and the tuning of this core.
    pub(super) fn core(&self) -> (Proof, &'static Tuning) {
        (self.proof, self.tuning)
    }

    /// Returns the functions that cut calls for threads. Without the feature that sets them, the compiler sees that
    /// there are none.
    #[inline(always)]
    pub(super) fn threads(&self) -> Option<&'static Threads> {
        match cfg!(feature = "rayon") {
            true => self.threads,
            false => None,
        }
    }

    /// Returns the factors of the direction on cos and sin of rows with an attention factor.
    #[inline]
    pub(super) fn factors(&self, attention_factor: f64) -> Option<RowFactors> {
        let (cos, sin) = match self.direction {
            Direction::Forward => return None,
            Direction::Transpose => (1.0, -1.0),
            Direction::Inverse => {
                let factor = (1.0 / (attention_factor * attention_factor)) as f32;
                (factor, -factor)
            }
        };
        Some(RowFactors { cos, sin })
    }

    /// Returns the backend of the plan.
    pub fn backend(&self) -> Backend {
        self.proof.backend()
    }
}

impl<S: Transpose> Rope<S> {
    /// Returns the plan of the backward pass of a forward plan: its transpose, from its output pairing to its input
    /// pairing.
    pub(super) fn back(&self) -> Result<Self, Error> {
        let direction = self.direction;
        if direction != Direction::Forward {
            return Err(Error::Gradient(GradientError::Direction { direction }));
        }
        Ok(Rope {
            input: self.output,
            output: self.input,
            direction: Direction::Transpose,
            stages: self.stages.transposed(),
            ..*self
        })
    }
}
