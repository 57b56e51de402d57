//! The groups of [`Error`](crate::Error): the errors of one subject each.

pub use crate::base::error::{
    CacheError, CacheIndex, FrequenciesError, GradientError, PlanError, PositionsError, RowsError,
    ShapeError, ShardError, SlotsError,
};
