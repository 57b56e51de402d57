//! The targets of a plan that writes one source tensor into several, each with its own angles.

#[cfg(doc)]
use super::Rope;
use super::operand::{Angles, AnglesKind, SourceKind, Target, TargetKind};
use super::parts::PartsCall;
use crate::base::debug::debug;
use crate::describe::tensor::Bytes;
use crate::kernel::element::Element;
use crate::kernel::elements::OutOfPlaceKernels;
use crate::pass::{Operand, OperandMut, PartOfCall, PassKernels};
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
/// let mut slots = cache.slots(4..7);
///
/// // The keys are read once: for this step's attention, and for three slots of the cache.
/// let outputs = &mut [Output::new(&mut y, &rows), Output::new(&mut slots, &rows)];
/// Rope::new(Pairing::Half).rotate_into_each(&Tensor::new(&k, [1, 3, 2, 64])?, outputs)?;
/// # Ok::<(), rope_core::Error>(())
/// ```
pub struct Output<'a> {
    target: TargetKind<'a>,
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

impl<'a> Output<'a> {
    /// Creates an output to any target of [`Rope::rotate_into`]: a tensor, the slots of a cache, or heads in parts.
    #[doc(alias = "cache")]
    pub fn new(y: &'a mut impl Target, angles: &'a impl Angles) -> Self {
        Output {
            target: y.target(),
            angles: OutputAngles::One(angles.angles()),
        }
    }

    /// Creates an output to a tensor that holds all heads of the source several times, side by side in each token: one
    /// group per rows in `rows`. `[tokens, 5, heads, head_dim]` of vLLM's and sglang's Dual Chunk Attention is `[1,
    /// tokens, 5 * heads, head_dim]` here.
    pub fn head_groups<E: Element>(y: &'a mut TensorMut<'_, E>, rows: &'a [Rows<'_>]) -> Self {
        Output {
            target: y.target(),
            angles: OutputAngles::Groups(rows),
        }
    }

    /// Creates an output like [`Output::head_groups`], for callers that find the kind of rows at run time.
    pub(crate) fn any_head_groups<E: Element>(
        y: &'a mut TensorMut<'_, E>,
        rows: &'a [AnyRows<'_>],
    ) -> Self {
        Output {
            target: y.target(),
            angles: OutputAngles::AnyGroups(rows, AnyRows::angles),
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
        matches!(self.target, TargetKind::Whole(OperandMut::Tensor(..)))
    }

    /// Returns true if the target is a cache with numbers by channel, whose groups a call writes whole.
    pub(super) fn is_grouped(&self) -> bool {
        match &self.target {
            TargetKind::Whole(OperandMut::Cache(slots)) => slots.stored.channels().is_some(),
            _ => false,
        }
    }

    /// Returns the call from a tensor into the target, if the target has heads in parts.
    pub(super) fn parts_call<'c>(
        &'c mut self,
        x: Bytes<'c>,
        element: &'static OutOfPlaceKernels,
    ) -> Option<PartsCall<'c>> {
        let TargetKind::Parts(parts) = &mut self.target else {
            return None;
        };
        Some(PartsCall {
            source: Some(SourceKind::Whole(Operand::Tensor(x, element))),
            target: TargetKind::Parts(&mut **parts),
            kernels: PassKernels::default(),
            angles: self.angles.of(0),
        })
    }

    /// Checks a whole target against the source tensor.
    pub(super) fn check(&self, shape: Shape) -> Result<(), Error> {
        match &self.target {
            TargetKind::Whole(OperandMut::Tensor(y, _)) => {
                let heads = shape.heads.saturating_mul(self.angles.groups());
                Shape { heads, ..shape }.check_same(y.layout.shape())
            }
            TargetKind::Whole(OperandMut::Cache(slots)) => slots.check(shape),
            TargetKind::Parts(_) => Ok(()),
        }
    }

    /// Returns the bytes of a target tensor from its first element to its last.
    pub(super) fn tensor_bytes(&self) -> usize {
        match &self.target {
            TargetKind::Whole(OperandMut::Tensor(y, _)) => y.bytes.len(),
            _ => 0,
        }
    }

    /// Visits the whole target of each group of heads, with its angles: the part of it that belongs to a part of the
    /// call.
    pub(super) fn targets(
        &mut self,
        part: &PartOfCall,
        visit: &mut dyn FnMut(Option<AnglesKind<'a>>, &mut OperandMut<'_>),
    ) {
        match &mut self.target {
            TargetKind::Whole(target @ OperandMut::Cache(_)) => {
                visit(self.angles.of(0), target);
            }
            TargetKind::Whole(OperandMut::Tensor(y, element)) => {
                let heads = part.call.heads;
                for group in 0..self.angles.groups() {
                    let own = group * heads..(group + 1) * heads;
                    let layout = part.of_tensor(&y.layout.part(Dimension::Heads, own));
                    let target = &mut OperandMut::Tensor(y.part(&layout), element);
                    visit(self.angles.of(group), target);
                }
            }
            TargetKind::Parts(_) => {}
        }
    }
}

debug!(Output<'_>, |output| groups: output.angles.groups());
