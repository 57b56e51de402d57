//! From a call to its passes: what is checked of the operands, and what runs them.

use super::at::MakeFns;
use super::erased::{AnglesKind, PassSource, SourceKind, TargetKind};
use super::kinds::{Lower, Lowered};
use super::{Rope, check_query_and_key};
use crate::Error;
use crate::base::shape::Shape;
use crate::describe::address::{Addresses, Located};
use crate::describe::cache::{CacheHeadsMut, Format, SlotsTarget};
use crate::describe::frequencies::RowsAt;
use crate::describe::rows::fit::fit;
use crate::describe::rows::{Rotation, RowSharing, Rows};
use crate::describe::tensor::BytesMut;
use crate::execute::choose;
use crate::execute::lines;
use crate::kernel::element::ElementKernels;
use crate::kernel::elements::OutOfPlaceKernels;
use crate::kernel::line::{Line, LineRows, MoreTokens, SourceLine};
use crate::pass::{IoFormats, OperandMut, Pass, PassKernels};

/// The element that a pass reads, and its kernels.
pub(super) type ReadKernels = (&'static OutOfPlaceKernels, PassKernels);

/// What a call has beside its plan and its operands, found to fit them.
pub(super) struct Checked<'a> {
    pub(super) shape: Shape,
    kernels: ReadKernels,
    /// The angles, if it rotates, and how sequences share their rows.
    angles: Option<(AnglesKind<'a>, RowSharing)>,
    skips_identity: bool,
}

impl<'a> Checked<'a> {
    /// Whether the call rotates.
    pub(super) fn rotates(&self) -> bool {
        self.angles.is_some()
    }

    /// Rows that were made before the call.
    fn rows(&self) -> Option<(&'a Rows<'a>, RowSharing)> {
        match self.angles {
            Some((AnglesKind::Rows(rows), sharing)) => Some((rows, sharing)),
            _ => None,
        }
    }
}

impl<S: Lower> Rope<S> {
    /// Runs the plan from a source into a target. (Not inlined: each pair of elements would have it, 6 KB of
    /// librope.so.)
    #[inline(never)]
    pub(super) fn run_into(
        &self,
        source: SourceKind<'_>,
        mut target: TargetKind<'_>,
        angles: Option<AnglesKind<'_>>,
    ) -> Result<(), Error> {
        self.erased(&mut |rope| rope.run_between(&source, &mut target, angles))
    }
}

impl<'p> Rope<Lowered<'p>> {
    /// Runs the plan in place in a tensor.
    #[inline(never)]
    pub(super) fn in_tensor(
        &self,
        x: &mut BytesMut<'_>,
        kernels: ReadKernels,
        angles: Option<AnglesKind<'_>>,
    ) -> Result<(), Error> {
        let checked = &self.check_in_tensor(x, kernels, angles)?;
        self.passes(checked, |pass| choose::in_tensor(pass, x, true));
        Ok(())
    }

    /// Runs the plan in place in Q and in K.
    #[inline(never)]
    pub(super) fn query_and_key(
        &self,
        (q, of_q): (&mut BytesMut<'_>, ReadKernels),
        (k, of_k): (&mut BytesMut<'_>, ReadKernels),
        angles: Option<AnglesKind<'_>>,
    ) -> Result<(), Error> {
        check_query_and_key(q.layout.shape(), k.layout.shape())?;
        let query = &self.check_in_tensor(q, of_q, angles)?;
        let key = &self.check_in_tensor(k, of_k, angles)?;
        self.passes(query, |pass| choose::in_tensor(pass, q, true));
        self.passes(key, |pass| choose::in_tensor(pass, k, true));
        Ok(())
    }

    /// Rotates heads that stay in the slots of a cache.
    #[inline(never)]
    pub(super) fn in_slots(
        &self,
        mut target: SlotsTarget<'_>,
        angles: Option<AnglesKind<'_>>,
    ) -> Result<(), Error> {
        let (checked, shifted) = &self.check_in_slots(&target, angles)?;
        if !checked.rotates() {
            return Ok(());
        }
        let target = &mut OperandMut::Cache(&mut target);
        self.or_with(shifted, |plan| {
            plan.passes(checked, |pass| choose::in_slots(pass, target, true));
        });
        Ok(())
    }

    /// Runs the plan from a source into a target.
    #[inline(never)]
    fn run_between(
        &self,
        source: &SourceKind<'_>,
        target: &mut TargetKind<'_>,
        angles: Option<AnglesKind<'_>>,
    ) -> Result<(), Error> {
        let (checked, other) = &self.check_into(source, target, angles)?;
        if let (SourceKind::Tensor(x), TargetKind::Slots(target), Some((rows, _))) =
            (source, &mut *target, checked.rows())
            && self.rotate_token_into_slot(x, target, rows)
        {
            return Ok(());
        }
        let (source, target) = (&source.operand(), &mut target.operand());
        self.or_with(other, |plan| {
            plan.passes(checked, |pass| {
                choose::out_of_place(pass, source, target, true)
            });
        });
        Ok(())
    }

    /// Runs something with the plan, or with other stages. (It is not copied where they stay.)
    #[inline(always)]
    fn or_with(&self, other: &Option<Lowered<'_>>, run: impl FnOnce(&Rope<Lowered<'_>>)) {
        match other {
            Some(stages) => run(&self.with(*stages)),
            None => run(self),
        }
    }

    /// Whether the plan can run in place in a tensor.
    #[inline(always)]
    pub(super) fn check_in_tensor<'a>(
        &self,
        x: &BytesMut<'_>,
        kernels: ReadKernels,
        angles: Option<AnglesKind<'a>>,
    ) -> Result<Checked<'a>, Error> {
        let shape = x.layout.shape();
        if angles.is_some() {
            self.check_same_pairing()?;
        }
        let checked = Checked {
            shape,
            kernels,
            angles: self.fitting(angles, shape)?,
            skips_identity: false,
        };
        self.stages.check(checked.shape)?;
        self.check_rows(shape, checked.rows())?;
        Ok(checked)
    }

    /// Whether heads can stay in the slots of a cache and rotate there, and by which stages. Without angles nothing
    /// changes: cached heads have the stages of their plan already.
    #[inline(always)]
    pub(super) fn check_in_slots<'a>(
        &self,
        target: &SlotsTarget<'_>,
        angles: Option<AnglesKind<'a>>,
    ) -> Result<(Checked<'a>, Option<Lowered<'p>>), Error> {
        let shifted = match self.has_stages() {
            true => Some(self.stages.shifted()?),
            false => None,
        };
        let tokens = match angles {
            None => target.slots.len(),
            Some(AnglesKind::Rows(rows)) => rows.len(),
            Some(AnglesKind::At(at, fns)) => (fns.tokens)(at)?,
        };
        let shape = target.stored.shape(tokens);
        if angles.is_some() {
            self.check_same_pairing()?;
        }
        let in_place = match target.stored.format {
            Format::Element(_, in_place) => Some(in_place),
            Format::Codes(_) => None,
        };
        let kernels = PassKernels {
            in_place,
            normed: None,
        };
        let checked = Checked {
            shape,
            kernels: (f32::OUT_OF_PLACE, kernels),
            angles: self.fitting(angles, shape)?,
            skips_identity: true,
        };
        match angles {
            None => {}
            Some(AnglesKind::Rows(rows)) => rows.check_moves()?,
            Some(AnglesKind::At(at, _)) => at.check_moves()?,
        }
        target.check(shape)?;
        if angles.is_some() {
            (shifted.as_ref().unwrap_or(&self.stages)).check(shape)?;
            self.check_rows(shape, checked.rows())?;
        }
        Ok((checked, shifted))
    }

    /// Whether the plan can run from a source into a target, and by which stages, if not its own.
    #[inline(always)]
    pub(super) fn check_into<'a>(
        &self,
        source: &SourceKind<'_>,
        target: &TargetKind<'_>,
        angles: Option<AnglesKind<'a>>,
    ) -> Result<(Checked<'a>, Option<Lowered<'p>>), Error> {
        let (shape, kernels) = match (source, target) {
            (SourceKind::Tensor(x), _) => (x.tensor.layout.shape(), (x.element, x.kernels)),
            (SourceKind::Slots(cache, slots), target) => {
                let shape = match target {
                    TargetKind::Tensor(y, _) => y.layout.shape(),
                    TargetKind::Slots(_) => cache.stored().shape(slots.len()),
                };
                (shape, (f32::OUT_OF_PLACE, PassKernels::default()))
            }
        };
        if let (SourceKind::Tensor(_), TargetKind::Tensor(y, _)) = (source, target) {
            shape.check_same(y.layout.shape())?;
        }
        let checked = Checked {
            shape,
            kernels,
            angles: self.fitting(angles, shape)?,
            skips_identity: false,
        };
        if let SourceKind::Slots(cache, slots) = source {
            cache.stored().check(shape, slots, cache.len())?;
        }
        if let TargetKind::Slots(target) = target {
            target.check(shape)?;
        }
        let other = match (source, target) {
            (SourceKind::Tensor(_), _) => None,
            (SourceKind::Slots(..), TargetKind::Tensor(..)) => Some(self.stages.undone()),
            (SourceKind::Slots(..), TargetKind::Slots(_)) => Some(self.stages.shifted()?),
        };
        (other.as_ref().unwrap_or(&self.stages)).check(shape)?;
        self.check_rows(shape, checked.rows())?;
        Ok((checked, other))
    }

    /// Visits the passes of a checked call: one, or where it makes rows itself, one for each block of them. Returns
    /// what the last one returned.
    #[inline(always)]
    pub(super) fn passes(
        &self,
        checked: &Checked<'_>,
        mut run: impl FnMut(&Pass<'_>) -> &'static str,
    ) -> &'static str {
        let Checked {
            shape,
            kernels,
            skips_identity,
            ..
        } = *checked;
        if let Some((AnglesKind::At(at, fns), _)) = checked.angles {
            let mut name = "nothing";
            self.made_passes(shape, kernels, (at, fns), skips_identity, &mut |pass| {
                name = run(pass);
            });
            return name;
        }
        run(&Pass {
            skips_identity,
            ..self.checked_pass(shape, kernels, checked.rows())
        })
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
