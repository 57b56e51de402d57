//! From a checked call to its passes and executors.

use super::Rope;
use super::at::MakeFns;
use super::check::{Checked, ReadKernels, check_query_and_key};
use super::erased::{AnglesKind, SourceKind, TargetKind, TensorSource};
use super::kinds::{Lower, Lowered};
use crate::Error;
use crate::describe::address::{Addresses, TokenAddress};
use crate::describe::cache::{CacheHeadsMut, SlotsTarget};
use crate::describe::frequencies::RowsAt;
use crate::describe::rows::Rows;
use crate::describe::tensor::BytesMut;
use crate::describe::window::Window;
use crate::execute::choose;
use crate::execute::lines;
use crate::kernel::line::{Line, LineRows, MoreTokens, SourceLine};
use crate::pass::{IoFormats, Operand, OperandMut, PartOfCall, Pass};

/// The name of a call on threads; each of its parts has its own executor.
const ON_THREADS: &str = "parallel";

impl<S: Lower> Rope<S> {
    /// Runs the plan from a source into a target. Not inlined: each pair of elements would have a copy, 6 KB of
    /// librope.so.
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
        self.run_in_tensor(checked, x, true);
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
        self.run_in_tensor(query, q, true);
        self.run_in_tensor(key, k, true);
        Ok(())
    }

    /// Rotates cached heads in their slots.
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
        self.or_with(shifted, |plan| {
            plan.run_in_slots(checked, &mut target, true);
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
        self.or_with(other, |plan| {
            plan.run_checked_between(checked, &source.operand(), &mut target.operand(), true);
        });
        Ok(())
    }

    /// Runs a checked call in place in a tensor, if it `runs`; returns the name of its executor.
    #[inline(always)]
    pub(super) fn run_in_tensor(
        &self,
        checked: &Checked<'_>,
        x: &mut BytesMut<'_>,
        runs: bool,
    ) -> &'static str {
        let part = |part, x: &mut BytesMut<'_>| {
            self.passes(checked, part, |pass| choose::in_tensor(pass, x, runs))
        };
        match self.threads().filter(|_| runs) {
            None => part(PartOfCall::whole(checked.shape), x),
            Some(threads) => {
                // A norm over all heads of a token reads them together.
                let by_heads = !self.stages.norms_tokens();
                (threads.tensor)(self.tuning, checked.shape, by_heads, x, &|of, x| {
                    part(of, x);
                });
                ON_THREADS
            }
        }
    }

    /// Runs a checked call in the slots of a cache, if it `runs`; returns the name of its executor.
    #[inline(always)]
    pub(super) fn run_in_slots(
        &self,
        checked: &Checked<'_>,
        target: &mut SlotsTarget<'_>,
        runs: bool,
    ) -> &'static str {
        let part = |part, target: &mut SlotsTarget<'_>| {
            let target = &mut OperandMut::Cache(target);
            self.passes(checked, part, |pass| choose::in_slots(pass, target, runs))
        };
        match self.threads().filter(|_| runs) {
            None => part(PartOfCall::whole(checked.shape), target),
            Some(threads) => {
                (threads.slots)(self.tuning, checked.shape, target, &|of, target| {
                    part(of, target);
                });
                ON_THREADS
            }
        }
    }

    /// Runs a checked call from a source into a target, if it `runs`; returns the name of its executor.
    #[inline(always)]
    pub(super) fn run_checked_between(
        &self,
        checked: &Checked<'_>,
        source: &Operand<'_>,
        target: &mut OperandMut<'_, '_>,
        runs: bool,
    ) -> &'static str {
        let part = |of, source: &Operand<'_>, target: &mut OperandMut<'_, '_>| {
            self.passes(checked, of, |pass| {
                choose::out_of_place(pass, source, target, runs)
            })
        };
        let Some(threads) = self.threads().filter(|_| runs) else {
            return part(PartOfCall::whole(checked.shape), source, target);
        };
        let part = |of: PartOfCall, target: &mut OperandMut<'_, '_>| {
            let layout;
            let source = match source {
                Operand::Tensor(x, element) => {
                    layout = of.of_tensor(x.layout);
                    &Operand::Tensor(x.within(&layout), element)
                }
                slots => slots,
            };
            part(of, source, target);
        };
        match target {
            OperandMut::Tensor(y, element) => {
                // The address of a slot is that of the first head of its token.
                let of_tensor = matches!(source, Operand::Tensor(..));
                let by_heads = of_tensor && !self.stages.norms_tokens();
                let element = *element;
                (threads.tensor)(self.tuning, checked.shape, by_heads, y, &|of, y| {
                    part(of, &mut OperandMut::Tensor(y, element));
                });
            }
            OperandMut::Cache(slots) => {
                (threads.slots)(self.tuning, checked.shape, slots, &|of, slots| {
                    part(of, &mut OperandMut::Cache(slots));
                });
            }
        }
        ON_THREADS
    }

    /// Runs `run` with the plan, or with a copy that has other stages.
    #[inline(always)]
    fn or_with(&self, other: &Option<Lowered<'_>>, run: impl FnOnce(&Rope<Lowered<'_>>)) {
        match other {
            Some(stages) => run(&self.with(*stages)),
            None => run(self),
        }
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
        if let Some((AnglesKind::At(at, fns), _)) = checked.angles {
            let mut name = "nothing";
            self.made_passes(part, checked, (at, fns), &mut |pass| name = run(pass));
            return name;
        }
        run(&Pass {
            skips_identity: checked.skips_identity,
            streams: checked.streams,
            ..self.checked_pass(part, checked.kernels, checked.rows())
        })
    }

    /// Rotates one token with a shared row into its slot by one kernel, if there is one: a single line, without a pass
    /// or a walk.
    #[inline]
    fn rotate_token_into_slot(
        &self,
        x: &TensorSource<'_>,
        target: &mut SlotsTarget<'_>,
        rows: &Rows<'_>,
    ) -> bool {
        let shape = x.tensor.layout.shape();
        let is_a_token = shape.batch == 1 && shape.tokens == 1 && !shape.is_empty();
        let Some(row) = rows.only().filter(|_| is_a_token) else {
            return false;
        };
        if self.has_stages() || self.staged || self.window != Window::WHOLE {
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
        if let Some(TokenAddress { element: at, .. }) = located {
            let source = &SourceLine {
                memory: x.tensor.bytes,
                at: x.tensor.layout.offset(),
                step: x.tensor.layout.strides().head,
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
            let memory = &mut memory[at * element.size..];
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
        (at, fns): (&RowsAt<'_>, &'static MakeFns),
        run: &mut dyn FnMut(&Pass<'_>),
    ) {
        let factor = at.attention_factor();
        (fns.each)(at, &part, &mut |rows, sharing, [batch, tokens, _]| {
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
