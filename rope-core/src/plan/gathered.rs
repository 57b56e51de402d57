//! Calls on parts of heads by plans with stages, which need whole heads. The heads of some tokens are gathered on the
//! stack as f32, run the stages there, and are written part by part. No thread divides such a call.

use core::ops::Range;

use super::Rope;
use super::check::Checked;
use super::kinds::Lowered;
use super::parts::{OperandHeads, PartsCall};
use crate::base::limits::{MOST_CHANNELS, MOST_PARTS};
use crate::describe::address::Addresses;
use crate::describe::tensor::{Bytes, BytesMut, Layout};
use crate::describe::window::Window;
use crate::error::PlanError;
use crate::execute::choose::{self, Executor};
use crate::execute::staged::with_tile;
use crate::kernel::element::Element;
use crate::kernel::elements::OutOfPlaceKernels;
use crate::pass::{Operand, OperandMut, PartOfCall, Pass, PassKernels};
use crate::{Dimension, Error, Shape};

/// The gathered heads of some tokens, `[1, tokens, heads, head_dim]`, and the part of the call that they are.
struct Gathered<'t> {
    values: &'t mut [f32],
    layout: &'t Layout,
    of: PartOfCall,
}

impl<'a> PartsCall<'a> {
    /// Returns the stages of a call on parts. Heads from a cache have the norm and the scale already.
    pub(super) fn stages<'p>(&mut self, plan: &Rope<Lowered<'p>>) -> Result<Lowered<'p>, Error> {
        if plan.stages.is_empty() {
            return Ok(plan.stages);
        }
        let target = self.target.heads()?;
        let read = match &self.source {
            Some(source) => source.heads()?,
            None => target,
        };
        // The element of the source rounds between stages, and slots determine which stages run.
        let mixed = read.mixed || read.in_slots() && target.mixed;
        match (read.in_slots(), target.in_slots()) {
            _ if mixed => Err(in_parts(
                "operands side by side have several elements, or are tensors and slots",
            )),
            (false, _) => Ok(plan.stages),
            (true, true) => plan.stages.shifted(),
            (true, false) => Ok(plan.stages.undone()),
        }
    }

    /// Checks a call whose stages are those of the plan.
    pub(super) fn check_gathered(
        &mut self,
        plan: &Rope<Lowered<'_>>,
    ) -> Result<Checked<'a>, Error> {
        let target = self.target.heads()?;
        let source = match &self.source {
            Some(source) => Some(source.heads()?),
            None => None,
        };
        if let Some(source) = source {
            source.check_same(target)?;
        } else if self.angles.is_some() {
            plan.check_same_pairing()?;
        }
        let shape = match source {
            Some(source) if !source.in_slots() || target.in_slots() => source.shape,
            _ => target.shape,
        };
        let element = source
            .unwrap_or(target)
            .element
            .unwrap_or(f32::OUT_OF_PLACE);
        let mut checked = plan.checked(shape, (element, PassKernels::default()), self.angles)?;
        let of_width = |head_dim| Shape { head_dim, ..shape };
        if let Some(source) = &self.source {
            for index in 0..source.count() {
                let part = source.at(index);
                let width = OperandHeads::read(&part).shape.head_dim;
                if let Operand::Cache(cache, slots) = part {
                    cache.stored().check(of_width(width), slots, cache.len())?;
                }
            }
        }
        if source.is_none() && target.in_slots() {
            checked.skips_identity = true;
            if let Some(angles) = self.angles {
                angles.check_moves()?;
            }
        }
        for index in 0..self.target.count() {
            let part = self.target.at(index);
            let part_shape = of_width(OperandHeads::written(&part).shape.head_dim);
            let slots = match part {
                OperandMut::Tensor(y, _) => {
                    part_shape.check_same(y.layout.shape())?;
                    continue;
                }
                OperandMut::Cache(slots) => slots,
            };
            if slots.stored.channels().is_some() {
                return Err(in_parts(
                    "a part has scales by channel, which are computed from whole groups of tokens",
                ));
            }
            slots.check(part_shape)?;
            if let (true, Some(angles)) = (checked.skips_identity, self.angles) {
                checked.repeats =
                    slots.repeats(part_shape, &|first, second| angles.is_same(first, second))?;
            }
        }
        plan.check_stages(&plan.stages, &checked, false)?;
        let channels = shape.heads.saturating_mul(shape.head_dim);
        if channels > MOST_PARTS {
            return Err(Error::Plan(PlanError::PartsOnStack { channels }));
        }
        Ok(checked)
    }

    /// Runs a call whose stages are those of the plan, which was checked before.
    pub(super) fn run_gathered(&mut self, plan: &Rope<Lowered<'_>>) -> Result<(), Error> {
        let checked = &self.check_gathered(plan)?;
        let shape = checked.shape;
        if shape.is_empty() {
            return Ok(());
        }
        // Cached heads stay as they are where no row moves them, token by token.
        let (width, in_cache) = (shape.heads * shape.head_dim, checked.skips_identity);
        if in_cache && self.angles.is_none() {
            return Ok(());
        }
        let most = match in_cache {
            true => 1,
            false => (MOST_CHANNELS / width).max(1),
        };
        with_tile(width * most.min(shape.tokens), &mut |tile| {
            for batch in 0..shape.batch {
                for first in (0..shape.tokens).step_by(most) {
                    if checked.repeats && is_repeated(self, shape, first) {
                        continue;
                    }
                    let tokens = most.min(shape.tokens - first);
                    let block = Shape {
                        batch: 1,
                        tokens,
                        ..shape
                    };
                    let Ok(layout) = Layout::bshd(block) else {
                        unreachable!("the tile holds the block")
                    };
                    let gathered = &mut Gathered {
                        values: &mut tile[..width * tokens],
                        layout: &layout,
                        of: PartOfCall {
                            origin: [batch, first, 0],
                            shape: block,
                            call: shape,
                        },
                    };
                    self.run_block(plan, checked, gathered);
                }
            }
        });
        Ok(())
    }

    /// Gathers some tokens, runs their stages, and writes them.
    fn run_block(
        &mut self,
        plan: &Rope<Lowered<'_>>,
        checked: &Checked<'_>,
        gathered: &mut Gathered<'_>,
    ) {
        let copies = Rope {
            window: Window::WHOLE,
            ..plan.with(Lowered::none())
        };
        let copy = |part: &PartOfCall, source: &Operand<'_>, target: &mut OperandMut<'_>| {
            let kernels = (source.element(), PassKernels::default());
            choose::out_of_place(&copies.checked_pass(*part, kernels, None), source, target);
        };
        let count = match &self.source {
            Some(source) => source.count(),
            None => self.target.count(),
        };
        let mut start = 0;
        for index in 0..count {
            let (own, cache);
            let source = match &self.source {
                Some(source) => source.at(index),
                None => {
                    own = self.target.at(index);
                    match &own {
                        OperandMut::Tensor(x, element) => Operand::Tensor(x.read(), element),
                        OperandMut::Cache(slots) => {
                            cache = slots.as_cache();
                            Operand::Cache(&cache, slots.slots)
                        }
                    }
                }
            };
            let channels = start..start + OperandHeads::read(&source).shape.head_dim;
            start = channels.end;
            let part = &gathered.part(&channels);
            let narrow;
            let source = match source {
                Operand::Tensor(x, element) => {
                    narrow = part.of_tensor(x.layout);
                    Operand::Tensor(x.within(&narrow), element)
                }
                other => other,
            };
            let layout = gathered.layout.part(Dimension::Channels, channels);
            copy(part, &source, &mut gathered.target(&layout));
        }

        let (mut moves, mut rounded) = (true, None);
        let staged = Rope {
            staged: true,
            ..*plan
        };
        staged.passes(checked, gathered.of, |pass| {
            if pass.skips_identity && pass.rows().is_identity(0, 0) {
                moves = false;
                return Executor::Nothing;
            }
            rounded = pass.rounded_for_codes();
            choose::in_place(pass, &mut gathered.target(gathered.layout))
        });
        if !moves {
            return;
        }

        let mut start = 0;
        for index in 0..self.target.count() {
            let mut target = self.target.at(index);
            let channels = start..start + OperandHeads::written(&target).shape.head_dim;
            start = channels.end;
            let part = &gathered.part(&channels);
            if let (Some(element), true) = (rounded, target.is_coded()) {
                let pass = &copies.checked_pass(*part, (element, PassKernels::default()), None);
                gathered.round(pass, element, &channels);
            }
            let layout = gathered.layout.part(Dimension::Channels, channels);
            let source = &gathered.source(&layout);
            match &mut target {
                OperandMut::Tensor(y, element) => {
                    let narrow = part.of_tensor(y.layout);
                    copy(
                        part,
                        source,
                        &mut OperandMut::Tensor(y.part(&narrow), element),
                    );
                }
                slots => copy(part, source, slots),
            }
        }
    }
}

impl Gathered<'_> {
    /// Returns the part of a call on these channels alone.
    fn part(&self, channels: &Range<usize>) -> PartOfCall {
        let of = |shape| Shape {
            head_dim: channels.len(),
            ..shape
        };
        PartOfCall {
            shape: of(self.of.shape),
            call: of(self.of.call),
            ..self.of
        }
    }

    fn source<'g>(&'g self, layout: &'g Layout) -> Operand<'g> {
        let bytes = Bytes {
            bytes: bytemuck::cast_slice(self.values),
            size: size_of::<f32>(),
            layout,
        };
        Operand::Tensor(bytes, f32::OUT_OF_PLACE)
    }

    fn target<'g>(&'g mut self, layout: &'g Layout) -> OperandMut<'g> {
        let bytes = BytesMut {
            bytes: bytemuck::cast_slice_mut(self.values),
            size: size_of::<f32>(),
            layout,
        };
        OperandMut::Tensor(bytes, f32::OUT_OF_PLACE)
    }

    /// Rounds channels to an element, as before any quantizer.
    fn round(
        &mut self,
        pass: &Pass<'_>,
        element: &'static OutOfPlaceKernels,
        channels: &Range<usize>,
    ) {
        let mut side = [0.0_f32; 64];
        for head in self.values.chunks_exact_mut(self.of.shape.head_dim) {
            for values in head[channels.clone()].chunks_mut(side.len()) {
                pass.round(element, values, &mut side);
            }
        }
    }
}

/// Returns true if an earlier token has the slot of this one.
#[cold]
fn is_repeated(call: &mut PartsCall<'_>, shape: Shape, token: usize) -> bool {
    match call.target.at(0) {
        OperandMut::Cache(slots) => {
            let slots = slots.in_slots(shape.tokens);
            let slot = |token| slots.token(0, token).map(|it| it.element);
            slot(token).is_some() && (0..token).any(|earlier| slot(earlier) == slot(token))
        }
        OperandMut::Tensor(..) => false,
    }
}

#[cold]
fn in_parts(reason: &'static str) -> Error {
    Error::Plan(PlanError::StagesInParts { reason })
}
