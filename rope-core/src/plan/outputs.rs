//! The targets of a plan that writes one source tensor into several, each with its own angles.

#[cfg(doc)]
use super::Rope;
use super::operand::{Angles, AnglesKind};
use crate::base::debug::debug;
use crate::describe::cache::{CacheMut, CacheSlotsMut, IntoSlots};
use crate::describe::tensor::BytesMut;
use crate::kernel::element::Element;
use crate::kernel::elements::OutOfPlaceKernels;
use crate::pass::{OperandMut, PartOfCall};
use crate::{AnyRows, Dimension, Error, Rows, Shape, TensorMut};

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
    /// Rows of any kind, and the function that tells which: a program with other groups does not link it.
    AnyGroups(&'a [AnyRows<'a>], AnglesOf<'a>),
    One(Option<AnglesKind<'a>>),
}

type AnglesOf<'a> = fn(&'a AnyRows<'a>) -> Option<AnglesKind<'a>>;

impl<'a> OutputAngles<'a> {
    fn groups(self) -> usize {
        match self {
            OutputAngles::Groups(rows) => rows.len(),
            OutputAngles::AnyGroups(rows, _) => rows.len(),
            OutputAngles::One(_) => 1,
        }
    }

    fn of(self, group: usize) -> Option<AnglesKind<'a>> {
        match self {
            OutputAngles::Groups(rows) => rows[group].angles(),
            OutputAngles::AnyGroups(rows, angles_of) => angles_of(&rows[group]),
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

    /// Creates an output like [`Output::head_groups`], for callers that find the kind of rows at run time.
    pub(crate) fn any_head_groups<E: Element>(
        y: &'a mut TensorMut<'_, E>,
        rows: &'a [AnyRows<'_>],
    ) -> Self {
        Output {
            target: OutputTarget::Tensor(y.bytes_mut(), E::OUT_OF_PLACE),
            angles: OutputAngles::AnyGroups(rows, AnyRows::angles),
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

    /// Returns the angles of a group of heads, of which there are [`Output::groups`].
    pub(super) fn angles_of(&self, group: usize) -> Option<AnglesKind<'a>> {
        self.angles.of(group)
    }

    pub(super) fn groups(&self) -> usize {
        self.angles.groups()
    }

    pub(super) fn is_tensor(&self) -> bool {
        matches!(self.target, OutputTarget::Tensor(..))
    }

    /// Returns true if the target is a cache with numbers by channel, whose groups a call writes whole.
    pub(super) fn is_grouped(&self) -> bool {
        match &self.target {
            OutputTarget::Tensor(..) => false,
            OutputTarget::Cache(slots) => slots.is_grouped(),
        }
    }

    /// Checks the target against the source tensor.
    pub(super) fn check(&self, shape: Shape) -> Result<(), Error> {
        match &self.target {
            OutputTarget::Tensor(y, _) => {
                let heads = shape.heads.saturating_mul(self.angles.groups());
                Shape { heads, ..shape }.check_same(y.layout.shape())
            }
            OutputTarget::Cache(slots) => slots.check(shape),
        }
    }

    /// Returns the bytes of a target tensor from its first element to its last.
    pub(super) fn tensor_bytes(&self) -> usize {
        match &self.target {
            OutputTarget::Tensor(y, _) => y.bytes.len(),
            OutputTarget::Cache(..) => 0,
        }
    }

    /// Visits the target of each group of heads, with its angles: the part of it that belongs to a part of the call.
    pub(super) fn targets(
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
