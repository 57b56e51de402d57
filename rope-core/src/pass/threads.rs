//! Calls on threads: each thread runs a part of the call on its part of the target's memory. Function pointers reach
//! the code that cuts the target and starts the threads, so that only programs with parallel plans link it.

use crate::Shape;
use crate::describe::cache::SlotsTarget;
use crate::describe::tensor::BytesMut;
use crate::pass::PartOfCall;
use crate::tuning::Tuning;

/// The functions that cut the target of a call, and run the parts.
#[derive(Debug)]
pub(crate) struct Threads {
    /// The flag is `true` if the heads of a token may be in several parts.
    pub(crate) tensor: fn(&Tuning, Shape, bool, &mut BytesMut<'_>, &RunTensor<'_>),
    pub(crate) slots: fn(&Tuning, Shape, &mut SlotsTarget<'_>, &RunSlots<'_>),
}

/// Runs a part of a call on its part of a tensor.
pub(crate) type RunTensor<'r> = dyn Fn(PartOfCall, &mut BytesMut<'_>) + Sync + 'r;

/// Runs a part of a call on its part of a cache.
pub(crate) type RunSlots<'r> = dyn Fn(PartOfCall, &mut SlotsTarget<'_>) + Sync + 'r;
