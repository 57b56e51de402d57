//! Several outputs of one read.

use std::vec::Vec;

use half::{bf16, f16};
use rope_core::cache::{CacheMut, Slots};
use rope_core::{Output, Rows, TensorMut};

use crate::cache::{Names, rope_cache};
use crate::chain::{chain, rope_chain};
use crate::memory::{Region, Span, plain, read};
use crate::names::rope_element;
use crate::rotate::with_element;
use crate::rows::rope_rows;
use crate::slots::rope_slots;
use crate::status::{rope_status, status_of};
use crate::tensor::{rope_tensor, rope_tensor_mut};

/// One target of rope_chain_rotate_into_each, and its rows.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rope_output {
    /// The tensor that is written; NULL: a cache.
    pub y: *const rope_tensor_mut,
    /// The cache that is written. Not used with a tensor.
    pub cache: *const rope_cache,
    /// The slots in the cache. Not used with a tensor.
    pub slots: *const rope_slots,
    /// The rows: as many structs as there are groups.
    pub rows: *const rope_rows,
    /// Groups of heads in a token of `y`, one after the other, each with all heads of the source and rows of its own:
    /// vLLM's and sglang's `[tokens][5][heads][head_dim]` is a tensor of `5 * heads` heads in 5 groups. 0 and 1: one.
    /// Not used with a cache.
    pub groups: usize,
}
plain!(rope_output);

impl rope_output {
    /// The rows of its groups.
    ///
    /// # Safety
    ///
    /// `rows` is null or points to as many structs.
    unsafe fn groups(&self) -> Result<Vec<rope_rows>, crate::failure::Failure> {
        let count = if self.y.is_null() {
            1
        } else {
            self.groups.max(1)
        };
        // SAFETY: the caller promises it.
        Ok(unsafe { Span::new("rows", self.rows, count)?.get() }.to_vec())
    }
}

/// A target as the caller describes it.
#[allow(clippy::large_enum_variant, reason = "a call has a few of them")]
enum GivenTarget<'a> {
    Tensor(rope_tensor_mut),
    Cache(rope_cache, Slots<'a>),
}

/// A target as rope-core takes it.
#[allow(clippy::large_enum_variant, reason = "a call has a few of them")]
enum WritableTarget<'a> {
    F32(TensorMut<'a, f32>),
    F16(TensorMut<'a, f16>),
    Bf16(TensorMut<'a, bf16>),
    Cache(CacheMut<'a>, Slots<'a>),
}

/// Runs a chain from one tensor into several targets, tensors and caches, each by rows of its own: a call of
/// rope_chain_rotate_into or rope_chain_rotate_into_cache for each of the `count` outputs, which together read the
/// source once. All of them are checked before any is written.
///
/// Targets must not overlap each other, the source or the rows, from the first byte to the last of each.
/// Tensors that lie between one another are groups of heads of one.
///
/// Returns what rope_chain_rotate_into and rope_chain_rotate_into_cache return. No target is written then. The call
/// allocates, and cannot report a lack of memory: the process ends.
///
/// # Threads
///
/// As rope_chain_rotate_into_cache.
///
/// # Safety
///
/// As rope_rotate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_chain_rotate_into_each(
    chain: *const rope_chain,
    x: *const rope_tensor,
    outputs: *const rope_output,
    count: usize,
) -> rope_status {
    status_of(|| {
        // SAFETY: the caller promises all of it. A target becomes a slice only apart from all that is read and from the
        // targets before it (see `memory`).
        unsafe {
            let (chain, used) = self::chain(chain)?;
            let x = read("x", x)?;
            let outputs = Span::new("outputs", outputs, count)?.get().to_vec();

            // All structs, and the regions of all that is read.
            let mut taken = Vec::from(used);
            taken.push(x.region("x")?);
            let (mut tables, mut groups, mut described) = (Vec::new(), Vec::new(), Vec::new());
            for output in &outputs {
                let given = output.groups()?;
                groups.push(given.len());
                for rows in given {
                    let (table, ids, regions) = rows.table()?;
                    tables.push((table, ids));
                    taken.extend(regions);
                }
                described.push(if output.y.is_null() {
                    let cache = read("cache", output.cache)?;
                    let (slots, listed) = read("slots", output.slots)?.slots()?;
                    taken.push(cache.given(Names::CACHE)?);
                    taken.extend(listed);
                    GivenTarget::Cache(cache, slots)
                } else {
                    GivenTarget::Tensor(read("y", output.y)?)
                });
            }
            let mut rows = Vec::new();
            for (table, ids) in &tables {
                rows.push(match ids {
                    Some(ids) => table.gather(*ids)?,
                    None => table.clone(),
                });
            }

            let mut targets = Vec::new();
            for target in described {
                targets.push(match target {
                    GivenTarget::Cache(cache, slots) => {
                        let (cache, regions) = cache.writable(Names::CACHE, &[&taken])?;
                        taken.extend(regions);
                        WritableTarget::Cache(cache, slots)
                    }
                    GivenTarget::Tensor(y) => {
                        let read: &[&[Region]] = &[&taken];
                        let target = match rope_element::from_c(y.element)? {
                            rope_element::F32 => WritableTarget::F32(y.tensor("y", read)?),
                            rope_element::F16 => WritableTarget::F16(y.tensor("y", read)?),
                            rope_element::Bf16 => WritableTarget::Bf16(y.tensor("y", read)?),
                        };
                        taken.push(y.region("y")?);
                        target
                    }
                });
            }
            let mut left: &[Rows<'_>] = &rows;
            let mut outputs = Vec::new();
            for (target, groups) in targets.iter_mut().zip(groups) {
                let (own, rest) = left.split_at(groups);
                left = rest;
                outputs.push(match target {
                    WritableTarget::F32(y) => Output::head_groups(y, own),
                    WritableTarget::F16(y) => Output::head_groups(y, own),
                    WritableTarget::Bf16(y) => Output::head_groups(y, own),
                    WritableTarget::Cache(cache, slots) => Output::cache(cache, *slots, &own[0]),
                });
            }
            with_element!(x.element, E => {
                Ok(chain.rotate_into_each(&x.tensor::<E>("x")?, &mut outputs)?)
            })
        }
    })
}
