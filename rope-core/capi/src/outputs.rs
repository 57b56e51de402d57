//! Several outputs of one read.

use std::vec::Vec;

use rope_core::cache::CacheMut;
use rope_core::internals::{AnyTarget, head_groups};
use rope_core::{AnyRows, FullRows, Output};

use crate::angles::{RowsRecord, rope_angles};
use crate::failure::Failure;
use crate::memory::{Span, plain, read};
use crate::operand::{OperandRecord, PartsRoom, rope_operand, with_element};
use crate::plan::rope_plan;
use crate::status::{rope_status, status_of};

/// One target of rope_rotate_into_each, and its rows.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rope_output {
    /// The target.
    pub y: *const rope_operand,
    /// The rows: as many structs as there are groups.
    pub rows: *const rope_angles,
    /// Groups of heads in a token of a tensor, one after the other, each with all heads of the source and rows of its
    /// own: vLLM's and sglang's `[tokens][5][heads][head_dim]` is a tensor of `5 * heads` heads in 5 groups. 0 and 1:
    /// one. Not used with a cache, nor with parts.
    pub groups: usize,
}
plain!(rope_output);

impl rope_output {
    /// The target, and the rows of its groups.
    ///
    /// # Safety
    ///
    /// Pointers, also those in structs, are null or valid.
    unsafe fn records(&self) -> Result<(OperandRecord, Vec<GroupRows>), Failure> {
        // SAFETY: the caller promises that pointers, also those in structs, are null or valid.
        unsafe {
            let target = read("y", self.y)?.record("y")?;
            let groups = match target {
                OperandRecord::Tensor(_) => self.groups.max(1),
                OperandRecord::Slots(_) | OperandRecord::Parts(_) => 1,
            };
            let rows = Span::new("rows", self.rows, groups)?.get().iter();
            let group = |rows: &rope_angles| Ok((rows.any_rows()?, rows.full_width != 0));
            let rows: Result<_, Failure> = rows.map(group).collect();
            Ok((target, rows?))
        }
    }
}

/// The rows of a group of heads, and true if they are full-width.
type GroupRows = (RowsRecord, bool);

/// Runs a plan from one tensor into several targets, tensors, caches and parts, each by rows of its own: a call of
/// rope_rotate_into for each of the `count` outputs, which together read the source once, and once more for each target
/// in parts. All of them are checked before any is written. The five queries of Dual Chunk Attention (`dual_chunk` of
/// positions) are one call.
///
/// Targets must not overlap each other, the source or the rows, from the first byte to the last of each. Tensors that
/// lie between one another are groups of heads of one.
///
/// Returns what rope_rotate_into returns, ROPE_STATUS_OPERAND for a source that is a cache, ROPE_STATUS_ANGLES for
/// frequencies at positions. No target is written then. The call allocates, and cannot report a lack of memory: the
/// process ends.
///
/// # Threads
///
/// As rope_rotate_into.
///
/// # Safety
///
/// As rope_rotate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_rotate_into_each(
    plan: *const rope_plan,
    x: *const rope_operand,
    outputs: *const rope_output,
    count: usize,
) -> rope_status {
    status_of(|| {
        // SAFETY: the caller promises that pointers, also those in structs, are null or valid during the call, and that
        // nobody else uses the target. A target becomes a slice only after a check that it is disjoint from all that is
        // read and from the targets before it (see `memory`).
        unsafe {
            let plan = read("plan", plan)?.record()?;
            let x = read("x", x)?.tensor("x")?;
            let outputs = Span::new("outputs", outputs, count)?.get().to_vec();
            let records: Result<Vec<_>, _> =
                outputs.iter().map(|output| output.records()).collect();
            let records = records?;

            let mut taken = Vec::from(plan.used()?);
            taken.push(x.region());
            for (target, rows) in &records {
                taken.extend(target.regions()?.read);
                taken.extend(rows.iter().flat_map(|(rows, _)| rows.regions()));
            }
            for (target, _) in &records {
                for written in target.regions()?.memory {
                    written.apart_from(&taken)?;
                    taken.push(written);
                }
            }
            let mut tables: Vec<Vec<_>> = Vec::new();
            for (_, rows) in &records {
                tables.push(rows.iter().map(|(rows, _)| rows.table()).collect());
            }
            let mut groups: Vec<Vec<AnyRows<'_>>> = Vec::new();
            for ((_, rows), tables) in records.iter().zip(&tables) {
                let mut own = Vec::new();
                for ((rows, is_full), table) in rows.iter().zip(tables) {
                    let rows = match rows.ids()? {
                        Some(ids) => table.gather(ids)?,
                        None => table.clone(),
                    };
                    own.push(match is_full {
                        true => AnyRows::Channels(FullRows::new(rows)?),
                        false => AnyRows::Pairs(rows),
                    });
                }
                groups.push(own);
            }
            let mut rooms: Vec<PartsRoom<'_>> = Vec::new();
            rooms.resize_with(records.len(), PartsRoom::default);
            let mut pairs: Vec<Option<[AnyTarget<'_>; 2]>> = Vec::new();
            pairs.resize_with(records.len(), || None);
            let mut caches: Vec<Option<CacheMut<'_>>> = Vec::new();
            caches.resize_with(records.len(), || None);
            let mut targets = Vec::new();
            let rooms = rooms.iter_mut().zip(&mut pairs).zip(&mut caches);
            for ((target, _), ((room, pair), cache)) in records.iter().zip(rooms) {
                targets.push(match target {
                    OperandRecord::Tensor(y) => y.target()?,
                    OperandRecord::Slots(y) => {
                        let cache = cache.insert(y.cache.write()?);
                        AnyTarget::Slots(cache.slots(y.slots.slots()?.0))
                    }
                    OperandRecord::Parts(y) => y.target(room, pair)?,
                });
            }
            let mut outputs = Vec::new();
            for (target, own) in targets.iter_mut().zip(&groups) {
                outputs.push(match target {
                    AnyTarget::F32(y) => head_groups(y, own),
                    AnyTarget::F16(y) => head_groups(y, own),
                    AnyTarget::Bf16(y) => head_groups(y, own),
                    y => Output::new(y, &own[0]),
                });
            }
            let plan = plan.with_stages()?;
            with_element!(x.element, E => {
                Ok(plan.rotate_into_each(&x.read::<E>()?, &mut outputs)?)
            })
        }
    })
}
