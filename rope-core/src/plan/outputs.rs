//! Several outputs of one read: a plan writes one source tensor into several targets, each with its own angles.

use core::ops::Range;

use super::check::{Checked, ReadKernels};
use super::kinds::Lowered;
use super::operand::{Angles, AnglesKind};
use super::{Rope, Stages};
use crate::base::debug::debug;
use crate::describe::cache::{CacheMut, CacheSlotsMut, IntoSlots};
use crate::describe::tensor::{Bytes, BytesMut};
use crate::execute::choose;
use crate::kernel::element::Element;
use crate::kernel::elements::OutOfPlaceKernels;
use crate::pass::walk::{CHUNK, parts};
use crate::pass::{Operand, OperandMut, PartOfCall, PassKernels};
use crate::{Dimension, Error, Rows, Shape, Tensor, TensorMut};

/// One target of [`Rope::rotate_into_each`], and its angles.
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
    angles: OutputAngles<'a>,
}

/// The angles of each group of heads of an output.
#[derive(Clone, Copy)]
enum OutputAngles<'a> {
    Groups(&'a [Rows<'a>]),
    One(Option<AnglesKind<'a>>),
}

impl<'a> OutputAngles<'a> {
    fn groups(self) -> usize {
        match self {
            OutputAngles::Groups(rows) => rows.len(),
            OutputAngles::One(_) => 1,
        }
    }

    fn of(self, group: usize) -> Option<AnglesKind<'a>> {
        match self {
            OutputAngles::Groups(rows) => Some(AnglesKind::Rows(&rows[group])),
            OutputAngles::One(angles) => angles,
        }
    }
}

#[allow(clippy::large_enum_variant, reason = "a call has a few of them")]
enum OutputTarget<'a> {
    Tensor(BytesMut<'a>, &'static OutOfPlaceKernels),
    Cache(CacheSlotsMut<'a>),
}

impl<'a> Output<'a> {
    /// Creates an output to a tensor, as in [`Rope::rotate_into`].
    pub fn tensor<E: Element>(y: &'a mut TensorMut<'_, E>, angles: &'a impl Angles) -> Self {
        Output {
            target: OutputTarget::Tensor(y.bytes_mut(), E::OUT_OF_PLACE),
            angles: OutputAngles::One(angles.angles()),
        }
    }

    /// Creates an output to a tensor that holds all heads of the source several times, side by side in each token: one
    /// group per rows in `rows`. `[tokens, 5, heads, head_dim]` of vLLM's and sglang's Dual Chunk Attention is `[1,
    /// tokens, 5 * heads, head_dim]` here.
    pub fn head_groups<E: Element>(y: &'a mut TensorMut<'_, E>, rows: &'a [Rows<'_>]) -> Self {
        Output {
            target: OutputTarget::Tensor(y.bytes_mut(), E::OUT_OF_PLACE),
            angles: OutputAngles::Groups(rows),
        }
    }

    /// Creates an output to the slots of a cache, as in [`Rope::rotate_into`].
    pub fn cache(
        cache: &'a mut CacheMut<'_>,
        slots: impl IntoSlots<'a>,
        angles: &'a impl Angles,
    ) -> Self {
        Output {
            target: OutputTarget::Cache(cache.slots(slots)),
            angles: OutputAngles::One(angles.angles()),
        }
    }

    /// Checks the target against the source tensor.
    fn check(&self, shape: Shape) -> Result<(), Error> {
        match &self.target {
            OutputTarget::Tensor(y, _) => {
                let heads = shape.heads.saturating_mul(self.angles.groups());
                Shape { heads, ..shape }.check_same(y.layout.shape())
            }
            OutputTarget::Cache(slots) => slots.check(shape),
        }
    }

    /// Returns the bytes of a target tensor from its first element to its last.
    fn tensor_bytes(&self) -> usize {
        match &self.target {
            OutputTarget::Tensor(y, _) => y.bytes.len(),
            OutputTarget::Cache(..) => 0,
        }
    }

    /// Visits the target of each group of heads, with its angles: the part of it that belongs to a part of the call.
    fn targets(
        &mut self,
        part: &PartOfCall,
        visit: &mut dyn FnMut(Option<AnglesKind<'a>>, &mut OperandMut<'_>),
    ) {
        match &mut self.target {
            OutputTarget::Cache(slots) => {
                visit(self.angles.of(0), &mut OperandMut::Cache(slots.target()));
            }
            OutputTarget::Tensor(y, element) => {
                let heads = part.call.heads;
                for group in 0..self.angles.groups() {
                    let own = group * heads..(group + 1) * heads;
                    let layout = part.of_tensor(&y.layout.part(Dimension::Heads, own));
                    let target = &mut OperandMut::Tensor(y.part(&layout), element);
                    visit(self.angles.of(group), target);
                }
            }
        }
    }
}

debug!(Output<'_>, |output| groups: output.angles.groups());

impl<S: Stages> Rope<S> {
    /// Rotates one tensor into several targets, tensors and caches, each with its own angles: one [`Rope::rotate_into`]
    /// per target, which together read the source once. All targets are checked before any is written.
    ///
    /// The targets alternate: a few tokens of the source go into each target while they are in the CPU's caches, then
    /// the next tokens follow. On cores that gain from it, tensors that together exceed the CPU's caches are written
    /// past them. The stages of the plan run per target.
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
    /// The errors of [`Rope::rotate_into`], for the first target that has one. No target is written then.
    pub fn rotate_into_each<I: Element>(
        &self,
        x: &Tensor<'_, I>,
        outputs: &mut [Output<'_>],
    ) -> Result<(), Error> {
        let kernels = PassKernels {
            in_place: None,
            normed: S::normed::<I>(),
        };
        let (x, kernels) = (x.bytes(), (I::OUT_OF_PLACE, kernels));
        self.erased(&mut |rope| rope.run_into_each(x, kernels, outputs))
    }
}

impl Rope<Lowered<'_>> {
    #[inline(never)]
    fn run_into_each(
        &self,
        x: Bytes<'_>,
        kernels: ReadKernels,
        outputs: &mut [Output<'_>],
    ) -> Result<(), Error> {
        let (shape, element) = (x.layout.shape(), kernels.0);
        for output in &*outputs {
            output.check(shape)?;
            let in_tensors = matches!(output.target, OutputTarget::Tensor(..));
            for group in 0..output.angles.groups() {
                let angles = output.angles.of(group);
                let checked = self.checked(shape, kernels, angles)?;
                self.check_stages(&self.stages, &checked, in_tensors)?;
            }
        }
        // A source whose elements coincide may have too many tokens for a loop, even one that writes nothing.
        if shape.is_empty() || outputs.iter().all(|output| output.angles.groups() == 0) {
            return Ok(());
        }
        let source = &Operand::Tensor(x, element);
        let checked = |angles| match self.checked(shape, kernels, angles) {
            Ok(checked) => checked,
            Err(_) => unreachable!("angles are checked before a target is written"),
        };
        // Each target is cut where its own memory can be, so that no part of the source is common to all.
        if self.threads().is_some() {
            for output in outputs {
                output.targets(&PartOfCall::whole(shape), &mut |angles, target| {
                    self.run_checked_between(&checked(angles), source, target, true);
                });
            }
            return Ok(());
        }
        let bytes = (shape.heads.saturating_mul(shape.head_dim)).saturating_mul(x.size);
        let written = outputs.iter().map(Output::tensor_bytes);
        let written = written.fold(0, usize::saturating_add);
        let streams = self.proof.streams() && written > self.tuning.stream_above;
        let part = match streams {
            true => self.tuning.streamed_part,
            false => self.tuning.output_part,
        };
        // A line of a heads-major tensor has up to `CHUNK` tokens.
        let most = (part / bytes).max(CHUNK);
        let each: &mut dyn FnMut(_) = &mut |[batch, tokens, _]: [Range<usize>; 3]| {
            let part = PartOfCall {
                origin: [batch.start, tokens.start, 0],
                shape: Shape {
                    batch: batch.len(),
                    tokens: tokens.len(),
                    ..shape
                },
                call: shape,
            };
            let layout = part.of_tensor(x.layout);
            let source = &Operand::Tensor(x.within(&layout), element);
            for output in &mut *outputs {
                output.targets(&part, &mut |angles, target| {
                    let checked = Checked {
                        streams,
                        ..checked(angles)
                    };
                    self.passes(&checked, part, |pass| {
                        choose::out_of_place(pass, source, target, true)
                    });
                });
            }
        };
        parts(shape, [most / shape.tokens, most, shape.heads], each);
        Ok(())
    }
}
