//! Calls on threads: each thread runs a part of the call on its part of the target's memory. Function pointers reach
//! the code that cuts the target and starts the threads, so that only programs with parallel plans link it.

use super::gradient::PairGradients;
use crate::Shape;
use crate::pass::{OperandMut, PartOfCall};
use crate::tuning::Tuning;

/// The functions that cut the target of a call, and run the parts.
#[derive(Debug)]
pub(super) struct Threads {
    /// The flag is `true` if the heads of a token may be in several parts of a tensor.
    pub(super) target: fn(&Tuning, Shape, bool, &mut OperandMut<'_>, &RunTarget<'_>),
    /// Cuts sums of one number of rows, which are added up from tensors of a size in bytes.
    pub(super) sums: fn(&Tuning, Shape, usize, &mut [PairGradients<'_>], &RunSums<'_>),
}

/// Runs a part of a call on its part of the target.
pub(super) type RunTarget<'r> = dyn Fn(PartOfCall, &mut OperandMut<'_>) + Sync + 'r;

/// Adds the tokens of a part to the sums of their rows.
pub(super) type RunSums<'r> = dyn Fn(PartOfCall, &mut [PairGradients<'_>]) + Sync + 'r;
