//! The stages beside the rotation: which a pass has, and in which order they run on the heads in a tile. A stage is
//! here, and in `rope/stages.rs`, where plans are given it.

use crate::backend::Proof;
use crate::kernel::hadamard;
use crate::kernel::norm::NormFactors;
use crate::norm::Norm;
use crate::pass::{Operands, Pass};
use crate::scale::Scale;
use crate::stages::{Hadamard, StageOrder};
use crate::walk::LineSpan;

/// The stages of a pass.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PassStages<'a> {
    pub(crate) norm: Option<Norm<'a>>,
    pub(crate) scale: Option<Scale<'a>>,
    pub(crate) transform: Option<Transform>,
    /// What runs them over a tile.
    pub(crate) ops: &'static Ops,
}

/// Norms and scales as operations on a tile: by reference, so that programs whose plans have neither link neither.
#[derive(Debug)]
pub(crate) struct Ops {
    /// Runs the stages of a place on the heads of a line, which lie in a tile, with room beside it; by the factors of a
    /// norm over the row, if there is one.
    pub(crate) run: RunStages,
    /// The factors of a norm over all heads of the token that a line begins.
    pub(crate) row_factors: RowFactorsOf,
}

/// A Hadamard transform of whole heads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transform {
    pub(crate) hadamard: Hadamard,
    /// What runs it over the blocks of heads: by reference, so that programs whose plans have none do not link it.
    pub(crate) kernel: TransformFn,
    /// Whether it is the first stage.
    pub(crate) first: bool,
    /// Whether it is the last stage.
    pub(crate) last: bool,
}

/// Transforms blocks that lie one after the other.
pub(crate) type TransformFn = fn(Proof, Hadamard, &mut [f32]);

impl PartialEq for Transform {
    // There is one kernel.
    fn eq(&self, other: &Self) -> bool {
        let places = |it: &Self| (it.first, it.last);
        self.hadamard == other.hadamard && places(self) == places(other)
    }
}

impl Transform {
    /// At the end of a plan.
    pub(crate) fn new(hadamard: Hadamard) -> Self {
        Transform {
            hadamard,
            kernel: |proof, hadamard, heads| {
                proof.run(hadamard::HadamardKernel::new(heads, hadamard))
            },
            first: false,
            last: true,
        }
    }

    /// At the beginning instead, where it is undone.
    pub(crate) fn undone(self) -> Self {
        Transform {
            first: true,
            last: false,
            ..self
        }
    }

    /// Transforms whole heads, one after the other.
    pub(crate) fn run(&self, proof: Proof, heads: &mut [f32]) {
        (self.kernel)(proof, self.hadamard, heads);
    }
}

type RunStages = fn(
    &Pass<'_>,
    &PassStages<'_>,
    StageOrder,
    &LineSpan<'_>,
    Option<NormFactors>,
    &mut [f32],
    &mut [f32],
);
type RowFactorsOf = fn(
    &Pass<'_>,
    Norm<'_>,
    &Operands<'_, '_, '_>,
    &LineSpan<'_>,
    &mut [f32],
    &mut [f32],
) -> NormFactors;

impl<'a> PassStages<'a> {
    /// Those that a plan has, if it has any.
    pub(crate) fn of(
        norm: Option<Norm<'a>>,
        scale: Option<Scale<'a>>,
        transform: Option<Transform>,
    ) -> Option<Self> {
        (norm.is_some() || scale.is_some() || transform.is_some()).then_some(PassStages {
            norm,
            scale,
            transform,
            ops: &OPS,
        })
    }

    /// Whether there is one beside a norm.
    pub(crate) fn has_linear(&self) -> bool {
        self.scale.is_some() || self.transform.is_some()
    }

    /// The transform, if it is the only one.
    pub(crate) fn only_transform(&self) -> Option<Transform> {
        let alone = self.norm.is_none() && self.scale.is_none();
        self.transform.filter(|_| alone)
    }

    /// Whether one of them stands there.
    pub(crate) fn stand_at(&self, place: StageOrder) -> bool {
        self.norm.is_some_and(|norm| norm.order == place)
            || self.scale.is_some_and(|scale| scale.order == place)
            || self.transform.is_some_and(|transform| match place {
                StageOrder::BeforeRotation => transform.first,
                StageOrder::AfterRotation => transform.last,
            })
    }
}

/// What runs norms, scales and transforms.
static OPS: Ops = Ops {
    run,
    row_factors: super::ops::row_factors,
};

/// Runs the stages of a place on the heads in a tile.
fn run(
    pass: &Pass<'_>,
    &PassStages {
        norm,
        scale,
        transform,
        ..
    }: &PassStages<'_>,
    place: StageOrder,
    span: &LineSpan<'_>,
    row: Option<NormFactors>,
    tile: &mut [f32],
    side: &mut [f32],
) {
    if place == StageOrder::BeforeRotation {
        pass.transform_first(tile, side);
    }
    if let Some(norm) = norm.filter(|norm| norm.order == place) {
        pass.norm_heads(norm, span, row, tile, side);
    }
    if let Some(scale) = scale.filter(|scale| scale.order == place) {
        let element = pass.flowing(place);
        pass.scale_heads(scale, element, span, tile, side);
    }
    let last = |it: &Transform| it.last && place == StageOrder::AfterRotation;
    if let Some(transform) = transform.filter(last) {
        transform.run(pass.proof, tile);
    }
}
