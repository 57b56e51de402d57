//! Several outputs of one read: a tensor goes through the plan into several targets, each with rows of its own.

use core::ops::Range;
use core::{fmt, slice};

use super::erased::PassSource;
use super::kinds::Lowered;
use super::{Plain, Rope, Stages};
use crate::describe::cache::{CacheMut, CacheSlotsMut, IntoSlots};
use crate::describe::rows::RowSharing;
use crate::describe::rows::fit::fit;
use crate::describe::tensor::BytesMut;
use crate::execute::choose;
use crate::kernel::element::Element;
use crate::kernel::elements::OutOfPlaceKernels;
use crate::pass::walk::{CHUNK, parts};
use crate::pass::{Operand, OperandMut, Pass};
use crate::{Dimension, Error, Rows, Shape, Tensor, TensorMut};

/// One target of [`Rope::rotate_into_each`], and its rows.
///
/// ```
/// use rope_core::cache::{CacheLayout, CacheMut};
/// use rope_core::{Output, Pairing, Rope, Rows, Tensor, TensorMut};
///
/// let (k, values) = ([1.0_f32; 3 * 2 * 64], [0.0_f32; 3 * 64]);
/// let rows = Rows::new(&values, [3, 64])?; // the cos and sin of three tokens
/// let (mut y, mut memory) = ([0.0_f32; 3 * 2 * 64], [0.0_f32; 16 * 2 * 64]);
/// let mut y = TensorMut::new(&mut y, [1, 3, 2, 64])?;
/// let mut cache = CacheMut::new(&mut memory, CacheLayout::nhd([1, 16, 2, 64])?)?;
///
/// // The keys are read once: for this step's attention, and for the cache's slots 4, 5 and 6.
/// let outputs = &mut [Output::tensor(&mut y, &rows), Output::cache(&mut cache, 4..7, &rows)];
/// Rope::new(Pairing::Half).rotate_into_each(&Tensor::new(&k, [1, 3, 2, 64])?, outputs)?;
/// # Ok::<(), rope_core::Error>(())
/// ```
pub struct Output<'a> {
    target: OutputTarget<'a>,
    /// For each of its groups of heads.
    rows: &'a [Rows<'a>],
}

#[allow(clippy::large_enum_variant, reason = "a call has a few of them")]
enum OutputTarget<'a> {
    Tensor(BytesMut<'a>, &'static OutOfPlaceKernels),
    Cache(CacheSlotsMut<'a>),
}

impl<'a> Output<'a> {
    /// A tensor, as [`Rope::rotate_into`] writes it.
    pub fn tensor<E: Element>(y: &'a mut TensorMut<'_, E>, rows: &'a Rows<'_>) -> Self {
        Output::head_groups(y, slice::from_ref(rows))
    }

    /// A tensor with all heads of the source several times, beside one another in each token: one group after the
    /// other, each by its own rows. `[tokens, 5, heads, head_dim]` of vLLM's and sglang's Dual Chunk Attention is
    /// `[1, tokens, 5 * heads, head_dim]` here.
    pub fn head_groups<E: Element>(y: &'a mut TensorMut<'_, E>, rows: &'a [Rows<'_>]) -> Self {
        let target = OutputTarget::Tensor(y.bytes_mut(), E::OUT_OF_PLACE);
        Output { target, rows }
    }

    /// The slots of a cache, as [`Rope::rotate_into`] writes them.
    pub fn cache(
        cache: &'a mut CacheMut<'_>,
        slots: impl IntoSlots<'a>,
        rows: &'a Rows<'_>,
    ) -> Self {
        let target = OutputTarget::Cache(cache.slots(slots));
        let rows = slice::from_ref(rows);
        Output { target, rows }
    }

    /// Whether the target fits a tensor that is read.
    fn check(&self, shape: Shape) -> Result<(), Error> {
        match &self.target {
            OutputTarget::Tensor(y, _) => {
                let heads = shape.heads.saturating_mul(self.rows.len());
                Shape { heads, ..shape }.check_same(y.layout.shape())
            }
            OutputTarget::Cache(slots) => slots.check(shape),
        }
    }

    /// Bytes of a target tensor, from its first element to its last.
    fn tensor_bytes(&self) -> usize {
        match &self.target {
            OutputTarget::Tensor(y, _) => y.bytes.len(),
            OutputTarget::Cache(..) => 0,
        }
    }

    /// Visits the target of each group of `heads` heads, with its rows.
    fn targets(
        &mut self,
        heads: usize,
        visit: &mut dyn FnMut(&'a Rows<'a>, &mut OperandMut<'_, '_>),
    ) {
        match &mut self.target {
            OutputTarget::Cache(slots) => {
                for rows in self.rows {
                    visit(rows, &mut OperandMut::Cache(&mut slots.target()));
                }
            }
            OutputTarget::Tensor(y, element) => {
                for (group, rows) in self.rows.iter().enumerate() {
                    let own = group * heads..(group + 1) * heads;
                    let layout = y.layout.part(Dimension::Heads, own);
                    visit(rows, &mut OperandMut::Tensor(&mut y.part(&layout), element));
                }
            }
        }
    }
}

impl fmt::Debug for Output<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Output")
            .field("rows", &self.rows)
            .finish_non_exhaustive()
    }
}

impl<S: Stages> Rope<S> {
    /// Rotates one tensor into several targets, tensors and caches, each by rows of its own: a call of
    /// [`Rope::rotate_into`] for each, which together read the source once. All targets
    /// are checked before any is written.
    ///
    /// The targets take turns: some tokens of the source go into each of them while the caches hold them, then the next
    /// tokens. Tensors that are together larger than the caches are written past them, on cores that gain from it. The
    /// stages of the plan run for each target.
    ///
    /// ```
    /// use rope_core::{Output, Pairing, Rope, Rows, Tensor, TensorMut};
    ///
    /// let (x, mut y, mut z) = ([1.0_f32, 2.0], [0.0_f32; 2], [0.0_f32; 2]);
    /// let x = Tensor::new(&x, [1, 1, 1, 2])?;
    /// let [quarter, half] = [[0.0, 1.0], [-1.0, 0.0]];
    /// let (quarter, half) = (Rows::new(&quarter, [1, 2])?, Rows::new(&half, [1, 2])?);
    /// Rope::new(Pairing::Half).rotate_into_each(
    ///     &x,
    ///     &mut [
    ///         Output::tensor(&mut TensorMut::new(&mut y, [1, 1, 1, 2])?, &quarter),
    ///         Output::tensor(&mut TensorMut::new(&mut z, [1, 1, 1, 2])?, &half),
    ///     ],
    /// )?;
    /// assert_eq!((y, z), ([-2.0, 1.0], [-1.0, -2.0]));
    /// # Ok::<(), rope_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Rope::rotate_into`], for the first target that has one. No target is
    /// written then.
    pub fn rotate_into_each<I: Element>(
        &self,
        x: &Tensor<'_, I>,
        outputs: &mut [Output<'_>],
    ) -> Result<(), Error> {
        let x = PassSource::of::<I, S>(x.bytes());
        self.erased(&mut |rope| rope.run_into_each(x, outputs))
    }
}

impl Rope<Lowered<'_>> {
    #[inline(never)]
    fn run_into_each(&self, x: PassSource<'_>, outputs: &mut [Output<'_>]) -> Result<(), Error> {
        let shape = x.tensor.layout.shape();
        for output in &*outputs {
            output.check(shape)?;
            for rows in output.rows {
                fit(self.windowed_shape(shape)?, rows)?;
                self.stages.check(shape)?;
                self.with(Plain).check_direction(shape, rows)?;
            }
        }
        // A source whose elements coincide may have more tokens than a loop that writes nothing ever ends over.
        if shape.is_empty() || outputs.iter().all(|output| output.rows.is_empty()) {
            return Ok(());
        }
        let bytes = (shape.heads.saturating_mul(shape.head_dim)).saturating_mul(x.tensor.size);
        let written = outputs.iter().map(Output::tensor_bytes);
        let written = written.fold(0, usize::saturating_add);
        let streams = self.proof.streams() && written > self.tuning.stream_above;
        let part = match streams {
            true => self.tuning.streamed_part,
            false => self.tuning.output_part,
        };
        // A line of a heads-major tensor has as many tokens.
        let most = (part / bytes).max(CHUNK);
        let source = &Operand::Tensor(x.tensor, x.element);
        let each: &mut dyn FnMut(_) = &mut |[batch, tokens, _]: [Range<usize>; 3]| {
            for output in &mut *outputs {
                output.targets(shape.heads, &mut |rows, target| {
                    let rows = Some((rows, RowSharing::of(rows.len(), shape)));
                    let pass = Pass {
                        part: [batch.clone(), tokens.clone()],
                        streams,
                        ..self.checked_pass(shape, (x.element, x.kernels), rows)
                    };
                    choose::out_of_place(&pass, source, target, true);
                });
            }
        };
        parts(shape, [most / shape.tokens, most, shape.heads], each);
        Ok(())
    }
}
