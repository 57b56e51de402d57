//! From a call to its passes: what is checked of the operands, and what runs them.

use super::Rope;
use super::at::MakeFns;
use super::kinds::{Lower, Lowered, run_in_place};
use super::operand::{AnglesKind, PassSource, SourceKind, TargetKind};
use crate::Error;
use crate::base::shape::Shape;
use crate::describe::address::{Addresses, Located};
use crate::describe::cache::{CacheHeadsMut, Format, SlotsTarget};
use crate::describe::frequencies::RowsAt;
use crate::describe::rows::fit::fit;
use crate::describe::rows::{Rotation, RowSharing, Rows};
use crate::describe::tensor::BytesMut;
use crate::execute::choose::{self, SHIFT};
use crate::execute::lines;
use crate::kernel::element::ElementKernels;
use crate::kernel::elements::OutOfPlaceKernels;
use crate::kernel::line::{Line, LineRows, MoreTokens, SourceLine};
use crate::pass::{IoFormats, Operand, OperandMut, Pass, PassKernels};

/// The element that a pass reads, and its kernels.
type ReadKernels = (&'static OutOfPlaceKernels, PassKernels);

/// The name of an implementation, or why there is none.
type Ran = Result<&'static str, Error>;

/// What runs where there is nothing to run.
const NOTHING: &str = "nothing";

impl<S: Lower> Rope<S> {
    /// Runs the plan from a source into a target. (Not inlined: each pair of elements would have it, 6 KB of
    /// librope.so.)
    #[inline(never)]
    pub(super) fn run_into(
        &self,
        source: SourceKind<'_>,
        mut target: TargetKind<'_>,
        angles: Option<AnglesKind<'_>>,
    ) -> Ran {
        self.erased(&mut |rope| rope.run_lowered(&source, &mut target, angles))
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
        self.check_stages(shape, ready_rows(angles).map(|(rows, _)| rows))?;
        if let Some((AnglesKind::At(at, fns), _)) = angles {
            let mut name = NOTHING;
            self.made_passes(shape, kernels, (at, fns), false, &mut |pass| {
                name = run_in_place(pass, x);
            });
            return Ok(name);
        }
        let rows = ready_rows(angles);
        Ok(run_in_place(&self.checked_pass(shape, kernels, rows), x))
    }

    /// Rotates heads that stay in the slots of a cache. Without angles nothing changes: cached heads have the stages of
    /// their plan already.
    #[inline(never)]
    pub(super) fn run_in_slots(
        &self,
        mut target: SlotsTarget<'_>,
        angles: Option<AnglesKind<'_>>,
    ) -> Ran {
        // Not copied where it has no stages.
        let other;
        let plan = if self.has_stages() {
            other = self.with(self.stages.shifted()?);
            &other
        } else {
            self
        };
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
        plan.check_stages(shape, ready_rows(checked).map(|(rows, _)| rows))?;
        let in_place = match target.stored.format {
            Format::Element(_, in_place) => Some(in_place),
            Format::Codes(_) => None,
        };
        let kernels = PassKernels {
            in_place,
            normed: None,
        };
        let target = &mut OperandMut::Cache(&mut target);
        let kernels = (f32::OUT_OF_PLACE, kernels);
        if let Some((AnglesKind::At(at, fns), _)) = checked {
            let mut name = NOTHING;
            plan.made_passes(shape, kernels, (at, fns), true, &mut |pass| {
                name = choose::in_place(SHIFT, pass, target);
            });
            return Ok(name);
        }
        let pass = Pass {
            skips_identity: true,
            ..plan.checked_pass(shape, kernels, ready_rows(checked))
        };
        Ok(choose::in_place(SHIFT, &pass, target))
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
        // Not copied where its stages stay as they are.
        let other;
        let plan = match (source, &*target) {
            (SourceKind::Tensor(_), _) => self,
            (SourceKind::Slots(..), TargetKind::Tensor(..)) => {
                other = self.with(self.stages.undone());
                &other
            }
            (SourceKind::Slots(..), TargetKind::Slots(_)) => {
                other = self.with(self.stages.shifted()?);
                &other
            }
        };
        plan.check_stages(shape, ready_rows(angles).map(|(rows, _)| rows))?;
        let mut target = match target {
            TargetKind::Tensor(y, element) => OperandMut::Tensor(y, element),
            TargetKind::Slots(target) => {
                if let (SourceKind::Tensor(x), Some((rows, _))) = (source, ready_rows(angles))
                    && plan.rotate_token_into_slot(x, target, rows)
                {
                    return Ok("fused");
                }
                OperandMut::Cache(target)
            }
        };
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
        if let Some((AnglesKind::At(at, fns), _)) = angles {
            let mut name = NOTHING;
            plan.made_passes(shape, kernels, (at, fns), false, &mut |pass| {
                name = choose::out_of_place(pass, &source, &mut target);
            });
            return Ok(name);
        }
        let pass = plan.checked_pass(shape, kernels, ready_rows(angles));
        Ok(choose::out_of_place(&pass, &source, &mut target))
    }

    /// Rotates one token whose heads share a row into its slot by one kernel, if there is one: a line, for which
    /// neither a pass nor a walk is built.
    #[inline]
    fn rotate_token_into_slot(
        &self,
        x: &PassSource<'_>,
        target: &mut SlotsTarget<'_>,
        rows: &Rows<'_>,
    ) -> bool {
        let shape = x.tensor.layout.shape();
        let is_a_token = shape.batch == 1 && shape.tokens == 1 && !shape.is_empty();
        let Some(row) = rows.only().filter(|_| is_a_token) else {
            return false;
        };
        if self.has_stages() || self.staged || self.window.is_some() {
            return false;
        }
        let factors = self.factors(rows.attention_factor());
        let row = &LineRows {
            factors: factors.as_ref(),
            ..row
        };
        let located = target.in_slots(1).token(0, 0);
        let step = target.stored.layout.strides().head;
        let CacheHeadsMut::Lines(memory, element) = target.heads_mut() else {
            return false;
        };
        let ends = IoFormats {
            source: x.element,
            input: self.input,
            target: element,
            output: self.output,
        };
        let Some(kernel) = ends.fused() else {
            return false;
        };
        if let Some(Located { element: at, .. }) = located {
            let source = &SourceLine {
                memory: x.tensor.bytes,
                at: x.tensor.layout.offset(),
                step: x.tensor.layout.strides().head,
                ahead: 0,
            };
            let line = &mut Line {
                memory,
                at,
                step,
                heads: shape.heads,
                head_dim: shape.head_dim,
                rows: row,
                ahead: 0,
                more: &MoreTokens::NONE,
            };
            lines::rotate_line(self.proof, ends, kernel, source, line);
        }
        true
    }

    /// Visits the passes of a call that makes its rows itself: one for each block of them.
    #[inline(never)]
    fn made_passes(
        &self,
        shape: Shape,
        kernels: ReadKernels,
        (at, fns): (&RowsAt<'_>, &'static MakeFns),
        skips_identity: bool,
        run: &mut dyn FnMut(&Pass<'_>),
    ) {
        let factors = self.factors(at.attention_factor());
        (fns.each)(at, shape, &mut |rows, sharing, [batch, tokens, _]| {
            let first = [batch.start, tokens.start];
            run(&Pass {
                part: [batch, tokens],
                skips_identity,
                rotation: Some(Rotation {
                    rows: rows.view(sharing).beginning_at(first),
                    factors,
                    input: self.input,
                    output: self.output,
                    first_channel: self.first_channel(),
                }),
                ..self.checked_pass(shape, kernels, None)
            });
        });
    }

    /// Angles with how sequences share their rows, if they fit heads of this shape.
    #[inline]
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

/// Rows that were made before the call, and how sequences share them.
fn ready_rows<'a>(
    angles: Option<(AnglesKind<'a>, RowSharing)>,
) -> Option<(&'a Rows<'a>, RowSharing)> {
    match angles {
        Some((AnglesKind::Rows(rows), sharing)) => Some((rows, sharing)),
        _ => None,
    }
}
