//! Calls that are checked first and run later.

use super::Rope;
use super::check::{Checked, SourceKernels};
use super::kinds::Lowered;
use super::operand::AnglesKind;
use super::parts::PartsCall;
use crate::Error;
use crate::base::debug::debug;
use crate::execute::choose::Executor;
use crate::pass::{Operand, OperandMut, PassKernels};

/// A checked call: the result of [`Rope::prepare`] and [`Rope::prepare_into`]. It borrows its operands, its angles and
/// its plan until it runs.
///
/// ```
/// use rope_core::norm::{Norm, NormFormula};
/// use rope_core::{Error, Pairing, Rope, Rows, TensorMut};
///
/// // Qwen3 norms Q and K by separate weights. Neither is touched unless both calls are right.
/// let rope = Rope::new(Pairing::Half);
/// let norm = Norm::new(NormFormula::LLAMA, 1e-6);
/// let (query_weights, key_weights) = ([1.0_f32; 64], [0.5_f32; 64]);
/// let query_plan = rope.with_norm(norm.with_weight(&query_weights));
/// let key_plan = rope.with_norm(norm.with_weight(&key_weights));
///
/// let (mut q, mut k, rows) = ([0.5_f32; 4 * 64], [0.5_f32; 2 * 64], [0.0_f32; 64]);
/// let rows = Rows::new(&rows, [1, 64])?;
/// let mut q = TensorMut::new(&mut q, [1, 1, 4, 64])?;
/// let mut k = TensorMut::new(&mut k, [1, 1, 2, 64])?;
/// let queries = query_plan.prepare(&mut q, &rows)?;
/// let keys = key_plan.prepare(&mut k, &rows)?;
/// queries.run();
/// keys.run();
/// # Ok::<(), Error>(())
/// ```
#[must_use = "a call that was prepared does nothing until it runs"]
pub struct Call<'a> {
    plan: Rope<Lowered<'a>>,
    kind: CallKind<'a>,
}

/// The operands of a call, and the function that runs it on them. A pointer, so that a program links the executors of
/// its own operands.
#[allow(clippy::large_enum_variant, reason = "a call has one")]
enum CallKind<'a> {
    InPlace {
        checked: Checked<'a>,
        target: OperandMut<'a>,
        run: fn(&Rope<Lowered<'_>>, &Checked<'_>, &mut OperandMut<'_>) -> Executor,
    },
    Between {
        checked: Checked<'a>,
        source: Operand<'a>,
        target: OperandMut<'a>,
        run: fn(&Rope<Lowered<'_>>, &Checked<'_>, &Operand<'_>, &mut OperandMut<'_>) -> Executor,
    },
    Parts {
        operands: PartsCall<'a>,
        run: fn(&Rope<Lowered<'_>>, &mut PartsCall<'_>) -> Executor,
    },
}

impl<'a> Call<'a> {
    /// Checks an in-place call.
    #[inline(never)]
    pub(super) fn in_place(
        mut plan: Rope<Lowered<'a>>,
        target: OperandMut<'a>,
        kernels: PassKernels,
        angles: Option<AnglesKind<'a>>,
    ) -> Result<Self, Error> {
        let (checked, other) = plan.check_in_place(&target, kernels, angles)?;
        if let Some(stages) = other {
            plan.stages = stages;
        }
        let kind = CallKind::InPlace {
            checked,
            target,
            run: |plan, checked, target| plan.run_checked_in_place(checked, target),
        };
        Ok(Call { plan, kind })
    }

    /// Checks a call from a source into a target.
    #[inline(never)]
    pub(super) fn between(
        mut plan: Rope<Lowered<'a>>,
        source: SourceKernels<'a>,
        target: OperandMut<'a>,
        angles: Option<AnglesKind<'a>>,
    ) -> Result<Self, Error> {
        let (checked, other) = plan.check_into(&source, &target, angles)?;
        if let Some(stages) = other {
            plan.stages = stages;
        }
        let kind = CallKind::Between {
            checked,
            source: source.0,
            target,
            run: |plan, checked, source, target| plan.run_checked_between(checked, source, target),
        };
        Ok(Call { plan, kind })
    }

    /// Checks a call on parts.
    #[inline(never)]
    pub(super) fn on_parts(
        plan: Rope<Lowered<'a>>,
        mut operands: PartsCall<'a>,
    ) -> Result<Self, Error> {
        operands.check(&plan)?;
        let kind = CallKind::Parts {
            operands,
            run: |plan, operands| match operands.run_checked(plan) {
                Ok(()) => Executor::Parts,
                Err(_) => unreachable!("the parts were checked"),
            },
        };
        Ok(Call { plan, kind })
    }

    /// Runs the call. It cannot fail.
    pub fn run(self) {
        self.executor();
    }

    /// Runs the call, and returns its executor, for the suite `implementations`.
    #[doc(hidden)]
    pub fn executor(self) -> Executor {
        let plan = &self.plan;
        match self.kind {
            CallKind::InPlace {
                checked,
                mut target,
                run,
            } => run(plan, &checked, &mut target),
            CallKind::Between {
                checked,
                source,
                mut target,
                run,
            } => run(plan, &checked, &source, &mut target),
            CallKind::Parts { mut operands, run } => run(plan, &mut operands),
        }
    }
}

debug!(Call<'_>, |call| plan: call.plan);
