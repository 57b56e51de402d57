//! The order of a stage and the rotation.

/// The order of a stage and the rotation.
///
/// ```
/// use rope_core::norm::{Norm, NormFormula};
/// use rope_core::stages::StageOrder;
///
/// let norm = Norm::new(NormFormula::LLAMA4, 1e-6).with_order(StageOrder::AfterRotation);
/// assert_eq!(norm.order, StageOrder::AfterRotation);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum StageOrder {
    /// Before the rotation.
    #[default]
    BeforeRotation,
    /// After the rotation: the norms of HunYuan, Llama 4 and nanochat.
    AfterRotation,
}
