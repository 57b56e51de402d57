//! A norm of each head of Q and K, and their rotation, in one pass.

use rope_core::error::PlanError;
use rope_core::norm::{Norm, NormFormula, NormReach, Weights};
use rope_core::stages::{Normed, StageOrder};
use rope_core::{Dimension, Error, Rope, TensorMut};

use crate::parallel;
use crate::plan::Plan;
use crate::shim::{Failure, RawTensor, Result, Tensor};
use crate::tables::{RawRows, with_rows};
use crate::tensor::{check_apart, extents, layout, with_elements};

/// By their numbers in `rope_kernels.norm`.
const FORMULAS: [NormFormula; 7] = [
    NormFormula::LLAMA,
    NormFormula::OLMO2,
    NormFormula::GEMMA,
    NormFormula::LLAMA4,
    NormFormula::CHAMELEON,
    NormFormula::LAYER_NORM,
    NormFormula::ONCE,
];
const OVER_ROW: i64 = 16;
const AFTER: i64 = 32;

/// A norm as an operator is given it: its formula, with flags, and eps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawNorm {
    pub(crate) formula: i64,
    pub(crate) eps: f64,
}

impl RawNorm {
    /// With these weights, or without any if there are none.
    pub(crate) fn with<'a>(self, weight: &'a Tensor) -> Result<Norm<'a>> {
        let index = usize::try_from(self.formula & !(OVER_ROW | AFTER));
        let Some(formula) = index.ok().and_then(|index| FORMULAS.get(index)) else {
            return Err(Failure::new(format!(
                "formula is {}; it must be a result of rope_kernels.norm",
                self.formula
            )));
        };
        if !(self.eps.is_finite() && self.eps >= 0.0) {
            return Err(Failure::new(format!(
                "eps is {}; it must be finite and not negative",
                self.eps
            )));
        }
        let norm = Norm::new(*formula, self.eps as f32)
            .with_reach(match self.formula & OVER_ROW {
                0 => NormReach::Head,
                _ => NormReach::Token,
            })
            .with_order(match self.formula & AFTER {
                0 => StageOrder::BeforeRotation,
                _ => StageOrder::AfterRotation,
            });
        let (sizes, strides) = (weight.sizes(), weight.strides());
        if sizes.contains(&0) {
            return Ok(norm.without_weight());
        }
        match (sizes, strides) {
            ([_], [1]) => {}
            ([_, channels], [of_head, 1]) if of_head == channels => {}
            _ => {
                return Err(Failure::new(format!(
                    "{} is {sizes:?} with strides {strides:?}; it must be [head_dim] or [heads, head_dim], contiguous",
                    weight.name()
                )));
            }
        }
        let weights: Weights<'a> =
            with_elements!(weight, E => Ok::<_, Failure>(Weights::from(weight.elements::<E>()?)))?;
        Ok(norm.with_weight(weights))
    }
}

impl RawNorm {
    /// The plan of a write into a cache; a formula of -1 is no norm.
    pub(crate) fn rope<'a>(self, plan: &Plan, weight: &'a Tensor) -> Result<Rope<Normed<'a>>> {
        match self.formula {
            -1 => Ok(plan.rope().into()),
            _ => Ok(plan.rope().with_norm(self.with(weight)?)),
        }
    }

    /// The dimensions along which tensors may be cut. A norm over a token needs all of its heads, and so do weights of
    /// each head.
    fn cuts(self, weight: &Tensor) -> &'static [Dimension] {
        match self.formula & OVER_ROW == 0 && weight.sizes().len() < 2 {
            true => &parallel::ANY,
            false => &[Dimension::Batch, Dimension::Tokens],
        }
    }

    /// Weights must not lie in memory that is written.
    pub(crate) fn check_apart(weight: &Tensor, written: &[&Tensor]) -> Result<()> {
        match written.iter().find(|tensor| tensor.overlaps(weight)) {
            None => Ok(()),
            Some(tensor) => Err(Failure::new(format!(
                "{} and {} overlap in memory; clone one of them",
                tensor.name(),
                weight.name()
            ))),
        }
    }
}

/// `rope_kernels::norm_rotate_qk_`
pub(crate) fn norm_rotate_qk_in_place(
    [q, k]: [RawTensor; 2],
    [q_weight, k_weight]: [RawTensor; 2],
    rows: RawRows,
    norm: RawNorm,
    plan: i64,
) -> Result<()> {
    let plan = Plan::new(plan)?;
    let (mut q, mut k) = (q.named_mut("q")?, k.named_mut("k")?);
    let (q_weight, k_weight) = (q_weight.named("q_weight")?, k_weight.named("k_weight")?);
    for weight in [&q_weight, &k_weight] {
        RawNorm::check_apart(weight, &[&q, &k])?;
    }
    if q.dtype() != k.dtype() {
        return Err(Failure::new(format!(
            "q is {:?}, but k is {:?}; they must have one type",
            q.dtype(),
            k.dtype()
        )));
    }
    if plan.eager {
        return Err(Failure::new(
            "rounding is \"eager\"; with a norm it must be \"once\": what is rounded between them is the formula's",
        ));
    }
    let (input, output) = (plan.input, plan.output);
    if input != output {
        return Err(Error::Plan(PlanError::PairingChangesInPlace { input, output }).into());
    }
    let (query, key) = (norm.with(&q_weight)?, norm.with(&k_weight)?);
    let (query, key) = (plan.rope().with_norm(query), plan.rope().with_norm(key));
    with_rows(rows, &plan, 1.0, &[q.memory(), k.memory()], |_, rows| {
        for x in [&q, &k] {
            rows.check_shape(extents(x, &plan)?)?;
        }
        let (q_layout, k_layout) = (layout(&q, &plan)?, layout(&k, &plan)?);
        check_apart((&q, q_layout), (&k, k_layout))?;
        with_elements!(q, E => {
            // Views of one packed projection interleave in memory, so Q is rotated before K is borrowed, which is
            // checked before.
            let _ = key.prepare(&mut TensorMut::new(k.elements_mut::<E>([])?, k_layout)?, rows)?;
            let q = TensorMut::new(q.elements_mut::<E>([])?, q_layout)?;
            parallel::rotate(&query, q, rows, norm.cuts(&q_weight))?;
            let k = TensorMut::new(k.elements_mut::<E>([])?, k_layout)?;
            parallel::rotate(&key, k, rows, norm.cuts(&k_weight))
        })
    })?;
    q.count_write()?;
    k.count_write()
}
