//! Operands whose heads are in parts, side by side. Each part is a call of its own; all are checked before one runs.
//! Stages need whole heads, which `plan/gathered.rs` gathers.

use core::ops::Range;

use super::Rope;
use super::kinds::Lowered;
use super::operand::{AnglesKind, SourceKind, TargetKind};
use crate::base::error::saturated;
use crate::describe::tensor::Layout;
use crate::describe::window::Window;
use crate::error::{CacheError, RowsError, ShapeError};
use crate::kernel::elements::OutOfPlaceKernels;
use crate::pass::{Operand, OperandMut, PassKernels};
use crate::{Dimension, Error, Shape};

/// The operands and the angles of a call on parts.
pub(super) struct PartsCall<'a> {
    /// The source, unless the call works in place.
    pub(super) source: Option<SourceKind<'a>>,
    pub(super) target: TargetKind<'a>,
    /// The kernels of tensors that rotate in place.
    pub(super) kernels: PassKernels,
    pub(super) angles: Option<AnglesKind<'a>>,
}

/// The heads of an operand, whose parts are side by side.
#[derive(Clone, Copy)]
pub(super) struct OperandHeads {
    pub(super) shape: Shape,
    /// The element of tensors; `None` for slots of a cache, which may belong to several sequences.
    pub(super) element: Option<&'static OutOfPlaceKernels>,
    /// True if parts have several elements, or are tensors and slots.
    pub(super) mixed: bool,
}

/// Runs the call of a part by the plan of its channels.
type RunPart<'r> = dyn FnMut(
        &Rope<Lowered<'_>>,
        Option<Operand<'_>>,
        &mut OperandMut<'_>,
        Option<AnglesKind<'_>>,
    ) -> Result<(), Error>
    + 'r;

impl<'a> PartsCall<'a> {
    /// Runs the call.
    #[inline(never)]
    pub(super) fn run(&mut self, plan: &Rope<Lowered<'_>>) -> Result<(), Error> {
        self.check(plan)?;
        self.run_checked(plan)
    }

    /// Checks the calls of all parts.
    #[inline(never)]
    pub(super) fn check(&mut self, plan: &Rope<Lowered<'_>>) -> Result<(), Error> {
        let plan = &plan.with(self.stages(plan)?);
        if !plan.stages.is_empty() {
            return self.check_gathered(plan).map(drop);
        }
        let kernels = self.kernels;
        self.each_part(plan, &mut |plan, source, target, angles| match source {
            Some(source) => plan.check_into(&(source, None), target, angles).map(drop),
            None => plan.check_in_place(target, kernels, angles).map(drop),
        })
    }

    /// Runs the calls of all parts, which were checked together. Each is checked again, and none fails.
    #[inline(never)]
    pub(super) fn run_checked(&mut self, plan: &Rope<Lowered<'_>>) -> Result<(), Error> {
        let plan = &plan.with(self.stages(plan)?);
        if !plan.stages.is_empty() {
            return self.run_gathered(plan);
        }
        let kernels = self.kernels;
        self.each_part(plan, &mut |plan, source, target, angles| match source {
            Some(source) => plan.run_between(&(source, None), target, angles),
            None => plan.run_in_place(target, kernels, angles),
        })
    }

    /// Visits the parts of both operands.
    fn each_part(&mut self, plan: &Rope<Lowered<'_>>, run: &mut RunPart<'_>) -> Result<(), Error> {
        let heads = self.target.heads()?;
        if let Some(source) = &self.source {
            source.heads()?.check_same(heads)?;
        }
        let rotated = match self.angles {
            Some(angles) => Some(rotated(plan.window, heads.shape, angles.rotary_dim())?),
            None => None,
        };
        let mut is_rotated = false;
        let mut start = 0;
        for index in 0..self.count() {
            let channels = start..start + self.width(index);
            start = channels.end;
            let (mut source_layout, mut target_layout) = (None, None);
            let source = match &self.source {
                Some(source) => Some(source.part(index, &channels, &mut source_layout)?),
                None => None,
            };
            let mut target = self.target.part(index, &channels, &mut target_layout)?;
            let mut window = Window::WHOLE;
            let mut angles = None;
            if let Some(rotated) = rotated.as_ref().filter(|_| !is_rotated) {
                is_rotated = channels.start <= rotated.start && rotated.end <= channels.end;
                if is_rotated {
                    window = Window {
                        first: rotated.start - channels.start,
                        ..plan.window.at_first()
                    };
                    angles = self.angles;
                } else if rotated.start < channels.end {
                    return Err(divided(rotated.clone(), channels.end));
                }
            }
            run(&Rope { window, ..*plan }, source, &mut target, angles)?;
        }
        Ok(())
    }

    /// Returns the number of parts: those of the target, or of the source of a whole one.
    fn count(&self) -> usize {
        match (&self.target, &self.source) {
            (TargetKind::Parts(parts), _) => parts.count(),
            (_, Some(SourceKind::Parts(parts))) => parts.count(),
            _ => 1,
        }
    }

    /// Returns the channels of a part.
    fn width(&mut self, index: usize) -> usize {
        let heads = match (&mut self.target, &self.source) {
            (TargetKind::Parts(parts), _) => OperandHeads::written(&parts.part(index)),
            (_, Some(SourceKind::Parts(parts))) => OperandHeads::read(&parts.part(index)),
            (TargetKind::Whole(target), _) => OperandHeads::written(target),
        };
        heads.shape.head_dim
    }
}

impl SourceKind<'_> {
    /// Returns the number of parts.
    pub(super) fn count(&self) -> usize {
        match self {
            SourceKind::Whole(_) => 1,
            SourceKind::Parts(parts) => parts.count(),
        }
    }

    /// Returns a part.
    pub(super) fn at(&self, index: usize) -> Operand<'_> {
        match *self {
            SourceKind::Whole(operand) => operand,
            SourceKind::Parts(parts) => parts.part(index),
        }
    }

    pub(super) fn heads(&self) -> Result<OperandHeads, Error> {
        match self {
            SourceKind::Whole(operand) => Ok(OperandHeads::read(operand)),
            SourceKind::Parts(parts) => {
                let heads = |index| OperandHeads::read(&parts.part(index));
                OperandHeads::side_by_side((0..parts.count()).map(heads))
            }
        }
    }

    /// Returns the heads of a part, or channels of a tensor.
    fn part<'n>(
        &'n self,
        index: usize,
        channels: &Range<usize>,
        layout: &'n mut Option<Layout>,
    ) -> Result<Operand<'n>, Error> {
        let operand = match *self {
            SourceKind::Parts(parts) => parts.part(index.min(parts.count().saturating_sub(1))),
            SourceKind::Whole(Operand::Tensor(x, element)) => {
                let part = x.layout.part(Dimension::Channels, channels.clone());
                return Ok(Operand::Tensor(x.within(layout.insert(part)), element));
            }
            SourceKind::Whole(operand) => operand,
        };
        OperandHeads::read(&operand).check_channels(channels)?;
        Ok(operand)
    }
}

impl TargetKind<'_> {
    /// Returns the number of parts.
    pub(super) fn count(&self) -> usize {
        match self {
            TargetKind::Whole(_) => 1,
            TargetKind::Parts(parts) => parts.count(),
        }
    }

    /// Borrows a part.
    pub(super) fn at(&mut self, index: usize) -> OperandMut<'_> {
        match self {
            TargetKind::Parts(parts) => parts.part(index),
            TargetKind::Whole(OperandMut::Tensor(y, element)) => {
                OperandMut::Tensor(y.part(y.layout), element)
            }
            TargetKind::Whole(OperandMut::Cache(slots)) => OperandMut::Cache(slots.reborrow()),
        }
    }

    pub(super) fn heads(&mut self) -> Result<OperandHeads, Error> {
        match self {
            TargetKind::Whole(operand) => Ok(OperandHeads::written(operand)),
            TargetKind::Parts(parts) => {
                let count = parts.count();
                OperandHeads::side_by_side(
                    (0..count).map(|index| OperandHeads::written(&parts.part(index))),
                )
            }
        }
    }

    /// Returns the heads of a part, or channels of a tensor.
    fn part<'n>(
        &'n mut self,
        index: usize,
        channels: &Range<usize>,
        layout: &'n mut Option<Layout>,
    ) -> Result<OperandMut<'n>, Error> {
        let operand = match self {
            TargetKind::Parts(parts) => parts.part(index.min(parts.count().saturating_sub(1))),
            TargetKind::Whole(OperandMut::Tensor(y, element)) => {
                let part = y.layout.part(Dimension::Channels, channels.clone());
                return Ok(OperandMut::Tensor(y.part(layout.insert(part)), element));
            }
            TargetKind::Whole(OperandMut::Cache(slots)) => OperandMut::Cache(slots.reborrow()),
        };
        OperandHeads::written(&operand).check_channels(channels)?;
        Ok(operand)
    }
}

impl OperandHeads {
    pub(super) fn read(operand: &Operand<'_>) -> Self {
        match operand {
            Operand::Tensor(x, element) => OperandHeads::of_tensor(x.layout, element),
            Operand::Cache(cache, slots) => OperandHeads {
                shape: cache.stored().shape(slots.len()),
                element: None,
                mixed: false,
            },
        }
    }

    pub(super) fn written(operand: &OperandMut<'_>) -> Self {
        match operand {
            OperandMut::Tensor(y, element) => OperandHeads::of_tensor(y.layout, element),
            OperandMut::Cache(slots) => OperandHeads {
                shape: slots.stored.shape(slots.slots.len()),
                element: None,
                mixed: false,
            },
        }
    }

    fn of_tensor(layout: &Layout, element: &'static OutOfPlaceKernels) -> Self {
        OperandHeads {
            shape: layout.shape(),
            element: Some(element),
            mixed: false,
        }
    }

    /// Returns true for slots of a cache.
    pub(super) fn in_slots(&self) -> bool {
        self.element.is_none()
    }

    /// Returns the heads of all parts, which differ in their channels alone.
    fn side_by_side(mut parts: impl Iterator<Item = OperandHeads>) -> Result<OperandHeads, Error> {
        let Some(mut heads) = parts.next() else {
            let (of, given, first) = ("parts", 0, 1);
            return Err(Error::Shape(ShapeError::Part {
                part: 0,
                of,
                given,
                first,
            }));
        };
        for (index, part) in parts.enumerate() {
            let whole = &mut heads.shape;
            for (of, given, first) in [
                ("sequences", part.shape.batch, whole.batch),
                ("tokens", part.shape.tokens, whole.tokens),
                ("heads", part.shape.heads, whole.heads),
            ] {
                if given != first {
                    let part = saturated(index + 1);
                    return Err(Error::Shape(ShapeError::Part {
                        part,
                        of,
                        given,
                        first,
                    }));
                }
            }
            whole.head_dim = whole.head_dim.saturating_add(part.shape.head_dim);
            heads.mixed |= match (heads.element, part.element) {
                (Some(first), Some(element)) => !first.is(element),
                (None, None) => false,
                _ => true,
            };
        }
        Ok(heads)
    }

    /// Checks the heads of a source against those of its target.
    pub(super) fn check_same(self, target: OperandHeads) -> Result<(), Error> {
        let (x, y) = (self.shape, target.shape);
        if !self.in_slots() && !target.in_slots() {
            return x.check_same(y);
        }
        if (x.heads, x.head_dim) == (y.heads, y.head_dim) {
            return Ok(());
        }
        let (tensor, cache) = match target.in_slots() {
            true => (x, y),
            false => (y, x),
        };
        Err(Error::Cache(CacheError::Heads {
            heads: tensor.heads,
            head_dim: tensor.head_dim,
            cache_heads: cache.heads,
            cache_head_dim: cache.head_dim,
        }))
    }

    /// Checks that a part, or a whole cache, has these channels.
    fn check_channels(self, channels: &Range<usize>) -> Result<(), Error> {
        let (start, head_dim) = (channels.start, self.shape.head_dim);
        match head_dim == channels.len() {
            true => Ok(()),
            false => {
                let end = channels.end.max(start.saturating_add(head_dim));
                Err(divided(
                    start..end,
                    channels.end.min(start.saturating_add(head_dim)),
                ))
            }
        }
    }
}

/// Returns the channels that rotate.
fn rotated(window: Window, shape: Shape, rotary_dim: usize) -> Result<Range<usize>, Error> {
    let head_dim = window.shape(shape, rotary_dim)?.head_dim;
    if rotary_dim > head_dim {
        return Err(Error::Rows(RowsError::RotaryDimExceedsHead {
            rotary_dim,
            head_dim,
        }));
    }
    Ok(window.first..window.first + rotary_dim)
}

#[cold]
fn divided(channels: Range<usize>, at: usize) -> Error {
    Error::Cache(CacheError::PartDivided {
        start: channels.start,
        end: channels.end,
        at,
    })
}
