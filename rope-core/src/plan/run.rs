//! From a checked call to its passes and executors.

use super::Rope;
use super::at::RowMaker;
use super::check::{Checked, ReadKernels, SourceKernels};
use super::kinds::{Lowered, Stages};
use super::operand::AnglesKind;
use crate::Error;
use crate::describe::address::{Addresses, TokenAddress};
use crate::describe::cache::{CacheHeadsMut, SlotsTarget};
use crate::describe::rows::{Rotation, RowSharing, Rows, View};
use crate::describe::tensor::Bytes;
use crate::execute::choose;
use crate::execute::lines;
use crate::kernel::elements::OutOfPlaceKernels;
use crate::kernel::line::{Line, LineRows, MoreTokens, SourceLine};
use crate::pass::{IoFormats, Operand, OperandMut, PartOfCall, Pass, PassKernels};

/// The name of a call on threads; each of its parts has its own executor.
const ON_THREADS: &str = "parallel";

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
            plan.run_checked_in_place(checked, target, true);
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
        self.run_checked_in_place(query, q, true);
        self.run_checked_in_place(key, k, true);
        Ok(())
    }

    /// Runs the plan from a source into a target.
    #[inline(never)]
    fn run_between(
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
            plan.run_checked_between(checked, &source.0, target, true);
        });
        Ok(())
    }

    /// Runs a checked call in place, if it `runs`; returns the name of its executor.
    #[inline(always)]
    pub(super) fn run_checked_in_place(
        &self,
        checked: &Checked<'_>,
        target: &mut OperandMut<'_>,
        runs: bool,
    ) -> &'static str {
        // Cached heads already have the stages of their plan.
        if matches!(target, OperandMut::Cache(_)) && checked.angles.is_none() {
            return "nothing";
        }
        if checked.repeats && runs {
            return self.run_once(checked, target);
        }
        self.run_parts(checked, true, target, runs, |of, target| {
            self.passes(checked, of, |pass| choose::in_place(pass, target, runs))
        })
    }

    /// Rotates each slot of a cache once, by the row of its first token.
    #[cold]
    #[inline(never)]
    fn run_once(&self, checked: &Checked<'_>, target: &mut OperandMut<'_>) -> &'static str {
        let shape = checked.shape;
        if let OperandMut::Cache(slots) = &*target {
            slots.in_slots(shape.tokens).each_once(&mut |tokens| {
                let mut of = PartOfCall::whole(shape);
                of.origin[1] = tokens.start;
                of.shape.tokens = tokens.len();
                self.passes(checked, of, |pass| choose::in_place(pass, target, true));
            });
        }
        "once"
    }

    /// Runs a checked call from a source into a target, if it `runs`; returns the name of its executor.
    #[inline(always)]
    pub(super) fn run_checked_between(
        &self,
        checked: &Checked<'_>,
        source: &Operand<'_>,
        target: &mut OperandMut<'_>,
        runs: bool,
    ) -> &'static str {
        // The address of a slot is that of the first head of its token.
        let by_heads = matches!(source, Operand::Tensor(..));
        self.run_parts(checked, by_heads, target, runs, |of, target| {
            let layout;
            let source = match source {
                Operand::Tensor(x, element) if self.threads().is_some() => {
                    layout = of.of_tensor(x.layout);
                    &Operand::Tensor(x.within(&layout), element)
                }
                all => all,
            };
            self.passes(checked, of, |pass| {
                choose::out_of_place(pass, source, target, runs)
            })
        })
    }

    /// Runs a checked call on its target, if it `runs`: the whole, or on threads parts of it, which may have some heads
    /// of a token if `by_heads` is set. Returns the name of the executor.
    #[inline(always)]
    fn run_parts(
        &self,
        checked: &Checked<'_>,
        by_heads: bool,
        target: &mut OperandMut<'_>,
        runs: bool,
        run: impl Fn(PartOfCall, &mut OperandMut<'_>) -> &'static str + Sync,
    ) -> &'static str {
        match self.threads().filter(|_| runs) {
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
                ON_THREADS
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
    /// the result of the last one.
    #[inline(always)]
    pub(super) fn passes(
        &self,
        checked: &Checked<'_>,
        part: PartOfCall,
        mut run: impl FnMut(&Pass<'_>) -> &'static str,
    ) -> &'static str {
        if let Some((AnglesKind::At(at), sharing)) = checked.angles {
            let mut name = "nothing";
            self.made_passes(part, checked, (at, sharing), &mut |pass| name = run(pass));
            return name;
        }
        run(&Pass {
            skips_identity: checked.skips_identity,
            streams: checked.streams,
            ..self.checked_pass(part, checked.kernels, checked.rows())
        })
    }

    /// Returns the rotation of a pass by these rows.
    #[inline]
    fn rotation<'r>(&self, rows: View<'r>, attention_factor: f64) -> Rotation<'r> {
        Rotation {
            rows,
            factors: self.factors(attention_factor),
            input: self.input,
            output: self.output,
            window: self.window,
        }
    }

    /// Returns the pass of a checked call. Not a `Result`, which would copy the pass.
    pub(super) fn checked_pass<'s>(
        &'s self,
        of: PartOfCall,
        kernels: ReadKernels,
        rows: Option<(&'s Rows<'_>, RowSharing)>,
    ) -> Pass<'s> {
        let rotation = rows.map(|(rows, sharing)| {
            let view = rows.view(sharing).skip(of.origin);
            self.rotation(view, rows.attention_factor())
        });
        // No other kernel supports full-width rows, or a window.
        let staged = self.staged
            || !self.window.is_whole()
            || rows.is_some_and(|(rows, _)| rows.is_full_width());
        Pass {
            stages: self.stages.stages.as_ref(),
            rounds: self.stages.rounds,
            ..Pass::new(self.core(), kernels, of, rotation, staged)
        }
    }

    /// Rotates one token with a shared row into its slot by one kernel, if there is one: a single line, without a pass
    /// or a walk.
    #[inline]
    fn rotate_token_into_slot(
        &self,
        (x, element): (Bytes<'_>, &'static OutOfPlaceKernels),
        target: &mut SlotsTarget<'_>,
        rows: &Rows<'_>,
    ) -> bool {
        let shape = x.layout.shape();
        let is_a_token = shape.batch == 1 && shape.tokens == 1 && !shape.is_empty();
        let Some(row) = rows.only().filter(|_| is_a_token) else {
            return false;
        };
        if !self.stages.is_empty() || self.staged || !self.window.is_whole() {
            return false;
        }
        let factors = self.factors(rows.attention_factor());
        let row = &LineRows {
            factors: factors.as_ref(),
            ..row
        };
        let located = target.in_slots(1).token(0, 0);
        let step = target.stored.layout.strides().head;
        let CacheHeadsMut::Lines(memory, written) = target.heads_mut() else {
            return false;
        };
        let ends = IoFormats {
            source: element,
            input: self.input,
            target: written,
            output: self.output,
        };
        let Some(kernel) = ends.fused() else {
            return false;
        };
        if let Some(TokenAddress { element: at, .. }) = located {
            let source = &SourceLine {
                memory: x.bytes,
                at: x.layout.offset(),
                step: x.layout.strides().head,
                ahead: 0,
            };
            let line = &Line {
                step,
                heads: shape.heads,
                head_dim: shape.head_dim,
                rows: row,
                ahead: 0,
                before: &[],
                more: &MoreTokens::NONE,
            };
            let memory = &mut memory[at * written.size..];
            lines::rotate_line(self.proof, ends, kernel, source, memory, line);
        }
        true
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
}
