//! From a checked call to its passes and executors.

use core::ops::Range;

use super::Rope;
use super::at::RowMaker;
use super::check::{Checked, ReadKernels, SourceKernels};
use super::kinds::{Lowered, Stages};
use super::operand::{AnglesKind, SourceKind, TargetKind};
use super::outputs::Output;
use super::parts::PartsCall;
use crate::describe::cache::SlotsTarget;
use crate::describe::rows::{RowSharing, View};
use crate::describe::tensor::Bytes;
use crate::execute::choose::{self, Executor};
use crate::kernel::elements::NormRotateKernels;
use crate::pass::walk::{CHUNK, parts};
use crate::pass::{Operand, OperandMut, PartOfCall, Pass, PassKernels};
use crate::{Error, Shape};

impl<S: Stages> Rope<S> {
    /// Returns the plan without the type of its stages, on which no pass depends.
    pub(super) fn lowered(&self) -> Rope<Lowered<'_>> {
        self.with(self.stages.lowered())
    }

    /// Calls `run` with the lowered plan. One copy per kind of plan: inlined there was one per verb and element, 20 KB
    /// of librope.so, and a result through memory waits for its stores, 15 ns.
    #[inline(never)]
    pub(super) fn erased<T>(
        &self,
        run: &mut dyn FnMut(&Rope<Lowered<'_>>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        run(&self.lowered())
    }

    /// Runs the plan in place, on operands of any kind.
    #[inline(always)]
    pub(super) fn run_kind_in_place<'a>(
        &self,
        target: TargetKind<'a>,
        kernels: PassKernels,
        angles: Option<AnglesKind<'a>>,
    ) -> Result<(), Error> {
        match target {
            TargetKind::Whole(mut target) => {
                self.erased(&mut |rope| rope.run_in_place(&mut target, kernels, angles))
            }
            target => {
                let call = &mut PartsCall {
                    source: None,
                    target,
                    kernels,
                    angles,
                };
                self.erased(&mut |rope| call.run(rope))
            }
        }
    }

    /// Runs the plan from a source into a target of any kinds.
    #[inline(always)]
    pub(super) fn run_kinds<'a>(
        &self,
        source: SourceKind<'a>,
        normed: Option<&'static NormRotateKernels>,
        target: TargetKind<'a>,
        angles: Option<AnglesKind<'a>>,
    ) -> Result<(), Error> {
        match (source, target) {
            (SourceKind::Whole(source), TargetKind::Whole(mut target)) => {
                self.run_into(&(source, normed), &mut target, angles)
            }
            (source, target) => {
                let call = &mut PartsCall {
                    source: Some(source),
                    target,
                    kernels: PassKernels::default(),
                    angles,
                };
                self.erased(&mut |rope| call.run(rope))
            }
        }
    }

    /// Runs the plan from a source into a target. Not inlined: each pair of elements would have a copy, 6 KB of
    /// librope.so.
    #[inline(never)]
    pub(super) fn run_into(
        &self,
        source: &SourceKernels<'_>,
        target: &mut OperandMut<'_>,
        angles: Option<AnglesKind<'_>>,
    ) -> Result<(), Error> {
        self.erased(&mut |rope| rope.run_between(source, target, angles))
    }
}

impl<'p> Rope<Lowered<'p>> {
    /// Runs the plan in place.
    #[inline(never)]
    pub(super) fn run_in_place(
        &self,
        target: &mut OperandMut<'_>,
        kernels: PassKernels,
        angles: Option<AnglesKind<'_>>,
    ) -> Result<(), Error> {
        let (checked, other) = &self.check_in_place(target, kernels, angles)?;
        self.or_with(other, |plan| {
            plan.run_checked_in_place(checked, target);
        });
        Ok(())
    }

    /// Runs the plan in place in Q and in K, which are tensors.
    #[inline(never)]
    pub(super) fn run_query_and_key(
        &self,
        [q, k]: &mut [OperandMut<'_>; 2],
        [of_q, of_k]: [PassKernels; 2],
        angles: Option<AnglesKind<'_>>,
    ) -> Result<(), Error> {
        let (query, _) = &self.check_in_place(q, of_q, angles)?;
        let (key, _) = &self.check_in_place(k, of_k, angles)?;
        self.run_checked_in_place(query, q);
        self.run_checked_in_place(key, k);
        Ok(())
    }

    /// Runs the plan from a source into a target.
    #[inline(never)]
    pub(super) fn run_between(
        &self,
        source: &SourceKernels<'_>,
        target: &mut OperandMut<'_>,
        angles: Option<AnglesKind<'_>>,
    ) -> Result<(), Error> {
        let (checked, other) = &self.check_into(source, target, angles)?;
        if let (&(Operand::Tensor(x, element), _), OperandMut::Cache(target), Some((rows, _))) =
            (source, &mut *target, checked.rows())
            && self.rotate_token_into_slot((x, element), target, rows)
        {
            return Ok(());
        }
        self.or_with(other, |plan| {
            plan.run_checked_between(checked, &source.0, target);
        });
        Ok(())
    }

    /// Runs a checked call in place; returns its executor.
    #[inline(always)]
    pub(super) fn run_checked_in_place(
        &self,
        checked: &Checked<'_>,
        target: &mut OperandMut<'_>,
    ) -> Executor {
        // Cached heads already have the stages of their plan.
        if matches!(target, OperandMut::Cache(_)) && checked.angles.is_none() {
            return Executor::Nothing;
        }
        if self.run_on_groups(checked, None, target) {
            return Executor::Staged;
        }
        if checked.repeats {
            return self.run_once(checked, target);
        }
        self.run_parts(checked, true, target, |of, target| {
            self.passes(checked, of, |pass| choose::in_place(pass, target))
        })
    }

    /// Rotates each slot of a cache once, by the row of its first token; returns the executor of the last one.
    #[cold]
    #[inline(never)]
    fn run_once(&self, checked: &Checked<'_>, target: &mut OperandMut<'_>) -> Executor {
        let (shape, mut executor) = (checked.shape, Executor::Nothing);
        if let OperandMut::Cache(slots) = &*target {
            slots.in_slots(shape.tokens).each_once(&mut |tokens| {
                let mut of = PartOfCall::whole(shape);
                of.origin[1] = tokens.start;
                of.shape.tokens = tokens.len();
                executor = self.passes(checked, of, |pass| choose::in_place(pass, target));
            });
        }
        executor
    }

    /// Runs a checked call from a source into a target; returns its executor.
    #[inline(always)]
    pub(super) fn run_checked_between(
        &self,
        checked: &Checked<'_>,
        source: &Operand<'_>,
        target: &mut OperandMut<'_>,
    ) -> Executor {
        if self.run_on_groups(checked, Some(source), target) {
            return Executor::Staged;
        }
        // The address of a slot is that of the first head of its token.
        let by_heads = matches!(source, Operand::Tensor(..));
        self.run_parts(checked, by_heads, target, |of, target| {
            let layout;
            let source = match source {
                Operand::Tensor(x, element) if self.threads().is_some() => {
                    layout = of.of_tensor(x.layout);
                    &Operand::Tensor(x.within(&layout), element)
                }
                all => all,
            };
            self.passes(checked, of, |pass| {
                choose::out_of_place(pass, source, target)
            })
        })
    }

    /// Runs a checked call on one group of tokens after another, if its target has numbers by channel; returns whether
    /// it has. Threads each have groups of their own.
    #[inline]
    fn run_on_groups(
        &self,
        checked: &Checked<'_>,
        source: Option<&Operand<'_>>,
        target: &mut OperandMut<'_>,
    ) -> bool {
        match target {
            OperandMut::Cache(slots) if slots.stored.channels().is_some() => {
                match self.threads() {
                    None => self.run_on_each_group(checked, source, slots),
                    Some(threads) => {
                        let run = |target: &mut OperandMut<'_>| {
                            if let OperandMut::Cache(slots) = target {
                                self.run_on_each_group(checked, source, slots);
                            }
                        };
                        let call = checked.shape;
                        (threads.target)(self.tuning, call, false, target, &|_, part| run(part));
                    }
                }
                true
            }
            _ => false,
        }
    }

    #[cold]
    #[inline(never)]
    fn run_on_each_group(
        &self,
        checked: &Checked<'_>,
        source: Option<&Operand<'_>>,
        slots: &mut SlotsTarget<'_>,
    ) {
        let call = checked.shape;
        slots.write_groups(
            self.proof,
            call,
            checked.repeats,
            &mut |[index, tokens], skips, target| {
                let part = PartOfCall {
                    origin: [index / call.tokens, index % call.tokens, 0],
                    shape: Shape {
                        batch: 1,
                        tokens,
                        ..call
                    },
                    call,
                };
                let checked = &Checked {
                    skips_identity: checked.skips_identity && skips,
                    ..*checked
                };
                let layout;
                let source = match source {
                    Some(&Operand::Tensor(x, element)) => {
                        layout = part.of_tensor(x.layout);
                        Some(Operand::Tensor(x.within(&layout), element))
                    }
                    other => other.copied(),
                };
                let target = &mut OperandMut::Cache(target.reborrow());
                self.passes(checked, part, |pass| match &source {
                    None => choose::in_place(pass, target),
                    Some(source) => choose::out_of_place(pass, source, target),
                });
            },
        );
    }

    /// Runs a checked call on its target: the whole, or on threads parts of it, which may have some heads of a token if
    /// `by_heads` is set. Returns its executor.
    #[inline(always)]
    fn run_parts(
        &self,
        checked: &Checked<'_>,
        by_heads: bool,
        target: &mut OperandMut<'_>,
        run: impl Fn(PartOfCall, &mut OperandMut<'_>) -> Executor + Sync,
    ) -> Executor {
        match self.threads() {
            None => run(PartOfCall::whole(checked.shape), target),
            Some(threads) => {
                // A norm over all heads of a token reads them together.
                let by_heads = by_heads && !self.stages.norms_tokens();
                (threads.target)(
                    self.tuning,
                    checked.shape,
                    by_heads,
                    target,
                    &|of, target| {
                        run(of, target);
                    },
                );
                Executor::Parallel
            }
        }
    }

    /// Runs `run` with the plan, or with a copy that has other stages.
    #[inline(always)]
    fn or_with(&self, other: &Option<Lowered<'_>>, run: impl FnOnce(&Rope<Lowered<'_>>)) {
        let changed;
        run(match other {
            None => self,
            Some(stages) => {
                changed = self.with(*stages);
                &changed
            }
        });
    }

    /// Visits the passes of a part of a checked call: one, or one per block of rows if the call makes its rows. Returns
    /// the executor of the last one.
    #[inline(always)]
    pub(super) fn passes(
        &self,
        checked: &Checked<'_>,
        part: PartOfCall,
        mut run: impl FnMut(&Pass<'_>) -> Executor,
    ) -> Executor {
        if let Some((AnglesKind::At(at), sharing)) = checked.angles {
            let mut executor = Executor::Nothing;
            self.made_passes(part, checked, (at, sharing), &mut |pass| {
                executor = run(pass)
            });
            return executor;
        }
        run(&Pass {
            skips_identity: checked.skips_identity,
            streams: checked.streams,
            ..self.checked_pass(part, checked.kernels, checked.angles)
        })
    }

    /// Returns the pass of a checked call. Not a `Result`, which would copy the pass.
    pub(super) fn checked_pass<'s>(
        &'s self,
        of: PartOfCall,
        kernels: ReadKernels,
        angles: Option<(AnglesKind<'s>, RowSharing)>,
    ) -> Pass<'s> {
        let (view, rows) = match angles {
            Some((AnglesKind::Rows(rows), sharing)) => (rows.view(sharing), Some(rows)),
            Some((AnglesKind::Full(rows, full), sharing)) => {
                (rows.view(sharing, full), Some(rows.rows()))
            }
            _ => (View::NONE, None),
        };
        let rotation =
            rows.map(|rows| self.rotation(view.skip(of.origin), rows.attention_factor()));
        // No other kernel supports a window, or full-width rows beside a stage.
        let staged = self.staged
            || match view.full {
                Some(_) => !self.stages.is_empty(),
                None => !self.window.is_whole(),
            };
        Pass {
            stages: self.stages.stages.as_ref(),
            rounds: self.stages.rounds,
            ..Pass::new(self.core(), kernels, of, rotation, staged)
        }
    }

    /// Visits the passes of a call that makes its rows, one per block of them.
    #[inline(never)]
    fn made_passes(
        &self,
        part: PartOfCall,
        checked: &Checked<'_>,
        (at, sharing): (&(dyn RowMaker + Sync), RowSharing),
        run: &mut dyn FnMut(&Pass<'_>),
    ) {
        let factor = at.angles().kind().attention_factor;
        at.each(sharing, &part, &mut |rows, sharing, [batch, tokens, _]| {
            let first = [batch.start, tokens.start];
            run(&Pass {
                part: [batch, tokens],
                skips_identity: checked.skips_identity,
                streams: checked.streams,
                rotation: Some(self.rotation(rows.view(sharing).beginning_at(first), factor)),
                ..self.checked_pass(part, checked.kernels, None)
            });
        });
    }

    /// Runs the plan from a tensor into several targets.
    #[inline(never)]
    pub(super) fn run_into_each(
        &self,
        x: Bytes<'_>,
        kernels: ReadKernels,
        outputs: &mut [Output<'_>],
    ) -> Result<(), Error> {
        let (shape, element) = (x.layout.shape(), kernels.0);
        for output in &mut *outputs {
            if let Some(mut call) = output.parts_call(x, element) {
                call.check(self)?;
                continue;
            }
            output.check(shape)?;
            let in_tensors = output.is_tensor();
            for group in 0..output.groups() {
                let angles = output.angles_of(group);
                let checked = self.checked(shape, kernels, angles)?;
                self.check_stages(&self.stages, &checked, in_tensors)?;
            }
        }
        // A source whose elements coincide may have too many tokens for a loop, even one that writes nothing.
        if shape.is_empty() || outputs.iter().all(|output| output.groups() == 0) {
            return Ok(());
        }
        let source = &Operand::Tensor(x, element);
        let checked = |angles| match self.checked(shape, kernels, angles) {
            Ok(checked) => checked,
            Err(_) => unreachable!("angles are checked before a target is written"),
        };
        // Each target is cut where its own memory can be, so that no part of the source is common to all. Parts have a
        // call each.
        let threads = self.threads().is_some();
        for output in &mut *outputs {
            if let Some(mut call) = output.parts_call(x, element) {
                call.run_checked(self)?;
            } else if threads || output.is_grouped() {
                output.targets(&PartOfCall::whole(shape), &mut |angles, target| {
                    self.run_checked_between(&checked(angles), source, target);
                });
            }
        }
        if threads {
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
            for output in outputs.iter_mut().filter(|output| !output.is_grouped()) {
                output.targets(&part, &mut |angles, target| {
                    let checked = Checked {
                        streams,
                        ..checked(angles)
                    };
                    self.passes(&checked, part, |pass| {
                        choose::out_of_place(pass, source, target)
                    });
                });
            }
        };
        parts(shape, [most / shape.tokens, most, shape.heads], each);
        Ok(())
    }
}
