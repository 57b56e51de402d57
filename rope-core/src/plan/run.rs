//! From a call to its passes: what is checked of the operands, and what runs them.

use super::Rope;
use super::kinds::{Lower, Lowered, run_in_place};
use super::operand::{
    AnglesKind, AnglesOf, PassSource, SourceKind, SourceOf, TargetKind, TargetOf,
};
use crate::Error;
use crate::base::shape::Shape;
use crate::describe::cache::{Format, SlotsTarget};
use crate::describe::rows::fit::fit;
use crate::describe::rows::{Rotation, RowSharing, Rows};
use crate::describe::tensor::BytesMut;
use crate::execute::choose::{self, SHIFT};
use crate::kernel::element::ElementKernels;
use crate::kernel::elements::OutOfPlaceKernels;
use crate::pass::{Operand, OperandMut, Pass, PassKernels};

/// The element that a pass reads, and its kernels.
type ReadKernels = (&'static OutOfPlaceKernels, PassKernels);

/// The name of an implementation, or why there is none.
type Ran = Result<&'static str, Error>;

/// What runs where there is nothing to run.
const NOTHING: &str = "nothing";

impl<S: Lower> Rope<S> {
    /// Runs the plan from a source into a target.
    #[inline(always)]
    pub(super) fn run_into(
        &self,
        source: SourceOf<'_>,
        target: TargetOf<'_>,
        angles: Option<AnglesOf<'_>>,
    ) -> Ran {
        let (mut target, angles) = (target.0, angles.map(|angles| angles.0));
        self.erased(&mut |rope| rope.run_lowered(&source.0, &mut target, angles))
    }
}

impl Rope<Lowered<'_>> {
    /// Runs the plan in place in a tensor.
    #[inline(never)]
    pub(super) fn run_in_place(
        &self,
        x: &mut BytesMut<'_>,
        kernels: ReadKernels,
        angles: Option<AnglesKind<'_>>,
    ) -> Ran {
        let shape = x.layout.shape();
        if angles.is_some() {
            self.check_same_pairing()?;
        }
        let angles = self.fitting(angles, shape)?;
        self.check_stages(shape, ready_rows(angles))?;
        let mut name = NOTHING;
        self.passes(shape, kernels, angles, false, &mut |pass| {
            name = run_in_place(pass, x);
        });
        Ok(name)
    }

    /// Rotates heads that stay in the slots of a cache. Without angles nothing changes: cached heads have the stages of
    /// their plan already.
    #[inline(never)]
    pub(super) fn run_in_slots(
        &self,
        mut target: SlotsTarget<'_>,
        angles: Option<AnglesKind<'_>>,
    ) -> Ran {
        let plan = self.with(self.stages.shifted()?);
        let Some(angles) = angles else {
            let shape = target.stored.shape(target.slots.len());
            return target.check(shape).map(|()| NOTHING);
        };
        let tokens = match angles {
            AnglesKind::Rows(rows) => rows.len(),
            AnglesKind::At(at, fns) => (fns.tokens)(at)?,
        };
        let shape = target.stored.shape(tokens);
        self.check_same_pairing()?;
        let checked = self.fitting(Some(angles), shape)?;
        match angles {
            AnglesKind::Rows(rows) => rows.check_moves()?,
            AnglesKind::At(at, _) => at.check_moves()?,
        }
        target.check(shape)?;
        plan.check_stages(shape, ready_rows(checked))?;
        let in_place = match target.stored.format {
            Format::Element(_, in_place) => Some(in_place),
            Format::Codes(_) => None,
        };
        let kernels = PassKernels {
            in_place,
            normed: None,
        };
        let slots = target.slots;
        let mut cache = target.cache();
        let target = &mut OperandMut::Cache(&mut cache, slots);
        let mut name = NOTHING;
        let kernels = (f32::OUT_OF_PLACE, kernels);
        plan.passes(shape, kernels, checked, true, &mut |pass| {
            name = choose::in_place(SHIFT, pass, target);
        });
        Ok(name)
    }

    /// Runs the plan from a source into a target.
    #[inline(never)]
    fn run_lowered(
        &self,
        source: &SourceKind<'_>,
        target: &mut TargetKind<'_>,
        angles: Option<AnglesKind<'_>>,
    ) -> Ran {
        let shape = match (source, &*target) {
            (SourceKind::Tensor(x), _) => x.tensor.layout.shape(),
            (SourceKind::Slots(..), TargetKind::Tensor(y, _)) => y.layout.shape(),
            (SourceKind::Slots(cache, slots), _) => cache.stored().shape(slots.len()),
        };
        if let (SourceKind::Tensor(_), TargetKind::Tensor(y, _)) = (source, &*target) {
            shape.check_same(y.layout.shape())?;
        }
        let angles = self.fitting(angles, shape)?;
        if let SourceKind::Slots(cache, slots) = source {
            cache.stored().check(shape, slots, cache.len())?;
        }
        if let TargetKind::Slots(target) = target {
            target.check(shape)?;
        }
        let stages = match (source, &*target) {
            (SourceKind::Tensor(_), _) => self.stages,
            (SourceKind::Slots(..), TargetKind::Tensor(..)) => self.stages.undone(),
            (SourceKind::Slots(..), TargetKind::Slots(_)) => self.stages.shifted()?,
        };
        let plan = self.with(stages);
        plan.check_stages(shape, ready_rows(angles))?;
        let (source, kernels) = match *source {
            SourceKind::Tensor(PassSource {
                tensor,
                element,
                kernels,
            }) => (Operand::Tensor(tensor, element), (element, kernels)),
            SourceKind::Slots(cache, slots) => (
                Operand::Cache(cache, slots),
                (f32::OUT_OF_PLACE, PassKernels::default()),
            ),
        };
        let (mut tensor, mut cache);
        let mut target = match target {
            TargetKind::Tensor(y, element) => {
                let layout = y.layout;
                tensor = y.part(layout);
                OperandMut::Tensor(&mut tensor, element)
            }
            TargetKind::Slots(target) => {
                let slots = target.slots;
                cache = target.cache();
                OperandMut::Cache(&mut cache, slots)
            }
        };
        let mut name = NOTHING;
        plan.passes(shape, kernels, angles, false, &mut |pass| {
            name = choose::out_of_place(pass, &source, &mut target);
        });
        Ok(name)
    }

    /// Visits the passes of a call whose arguments have been checked: one, or one for each block of rows that the call
    /// makes itself.
    fn passes(
        &self,
        shape: Shape,
        kernels: ReadKernels,
        angles: Option<(AnglesKind<'_>, RowSharing)>,
        skips_identity: bool,
        run: &mut dyn FnMut(&Pass<'_>),
    ) {
        let pass = |rows| Pass {
            skips_identity,
            ..self.checked_pass(shape, kernels, rows)
        };
        let (at, fns) = match angles {
            None => return run(&pass(None)),
            Some((AnglesKind::Rows(rows), sharing)) => return run(&pass(Some((rows, sharing)))),
            Some((AnglesKind::At(at, fns), _)) => (at, fns),
        };
        let factors = self.factors(at.attention_factor());
        (fns.each)(at, shape, &mut |rows, sharing, [batch, tokens, _]| {
            let first = [batch.start, tokens.start];
            let rows = rows.view(sharing).beginning_at(first);
            run(&Pass {
                part: [batch, tokens],
                rotation: Some(Rotation {
                    rows,
                    factors,
                    input: self.input,
                    output: self.output,
                    first_channel: self.window,
                }),
                ..pass(None)
            });
        });
    }

    /// Angles with how sequences share their rows, if they fit heads of this shape.
    fn fitting<'a>(
        &self,
        angles: Option<AnglesKind<'a>>,
        shape: Shape,
    ) -> Result<Option<(AnglesKind<'a>, RowSharing)>, Error> {
        let sharing = match angles {
            None => return Ok(None),
            Some(AnglesKind::Rows(rows)) => fit(self.windowed_shape(shape)?, rows)?,
            Some(AnglesKind::At(at, fns)) => (fns.check)(at, self.windowed_shape(shape)?)?,
        };
        Ok(angles.map(|angles| (angles, sharing)))
    }
}

/// Rows that were made before the call.
fn ready_rows<'a>(angles: Option<(AnglesKind<'a>, RowSharing)>) -> Option<&'a Rows<'a>> {
    match angles {
        Some((AnglesKind::Rows(rows), _)) => Some(rows),
        _ => None,
    }
}
