//! Calls that are checked first and run later.

use super::Rope;
use super::check::{Checked, SourceKernels};
use super::kinds::Lowered;
use super::operand::AnglesKind;
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
    checked: Checked<'a>,
    source: Option<Operand<'a>>,
    target: OperandMut<'a>,
    /// The function that runs the call. A pointer, so that a program links the executors of its own operands.
    run: RunCall,
}

/// Runs a call; returns its executor.
type RunCall = fn(&mut Call<'_>) -> Executor;

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
        Ok(Call {
            plan,
            checked,
            source: None,
            target,
            run: |call| {
                call.plan
                    .run_checked_in_place(&call.checked, &mut call.target)
            },
        })
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
        Ok(Call {
            plan,
            checked,
            source: Some(source.0),
            target,
            run: |call| match &call.source {
                Some(source) => {
                    call.plan
                        .run_checked_between(&call.checked, source, &mut call.target)
                }
                None => unreachable!("the call has a source"),
            },
        })
    }

    /// Runs the call. It cannot fail.
    pub fn run(self) {
        self.executor();
    }

    /// Runs the call, and returns its executor, for the suite `implementations`.
    #[doc(hidden)]
    pub fn executor(mut self) -> Executor {
        (self.run)(&mut self)
    }
}

debug!(Call<'_>, |call| shape: call.checked.shape);
