//! The verbs: each reads its structs, checks that written memory overlaps no other memory, and calls rope-core's verb.

use rope_core::internals::{
    AnyAngles, AnySource, AnyTarget, RawRows, check_query_and_key, check_query_and_key_by,
};
use rope_core::stages::Normed;
use rope_core::{Rope, Rows, internals};

use crate::angles::{AnglesRecord, RowsRecord, rope_angles};
use crate::failure::Failure;
use crate::memory::{Region, SpanMut, look};
use crate::names::rope_element;
use crate::operand::{OperandRecord, RawRecord, TensorRecord, rope_operand, with_element};
use crate::packed::{Nest, Sharing, of_one_row};
use crate::plan::{PlanRecord, rope_plan};
use crate::status::{rope_status, status_of};

/// The operands of a call, each checked alone.
#[derive(Clone, Copy)]
pub(crate) struct Parts<'p> {
    pub(crate) plan: &'p PlanRecord,
    pub(crate) work: Work<'p>,
    pub(crate) angles: &'p AnglesRecord,
}

/// The operands of a call.
#[derive(Clone, Copy)]
pub(crate) enum Work<'p> {
    InPlace(&'p OperandRecord),
    Into(&'p OperandRecord, &'p OperandRecord),
}

/// The two uses of a call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Run,
    /// Checks it, and writes nothing.
    Check,
}

const IN_PLACE: &str = "they must be disjoint; rope_rotate rotates in place";

/// `ROPE_STATUS_MEMORY_OVERLAP` unless the target shares no byte with all else.
#[inline]
pub(crate) fn apart(parts: &Parts<'_>) -> Result<(), Failure> {
    if let (Work::InPlace(OperandRecord::Tensor(x)), None) = (parts.work, &parts.plan.stages) {
        return x.region().apart_from(&parts.angles.regions()?);
    }
    apart_of_all(parts)
}

#[inline(never)]
fn apart_of_all(parts: &Parts<'_>) -> Result<(), Failure> {
    let (source, target) = match parts.work {
        Work::InPlace(target) => (None, target),
        Work::Into(source, target) => (Some(source), target),
    };
    let target = target.regions()?;
    target.apart()?;
    let (used, angles) = (parts.plan.used()?, parts.angles.regions()?);
    for written in target.memory {
        written.apart_from(&used)?;
        written.apart_from(&target.read)?;
        written.apart_from(&angles)?;
        if let Some(source) = source {
            let source = source.regions()?;
            written
                .apart_from(&source.memory)
                .map_err(|refused| refused.between(["y", "x"], IN_PLACE))?;
            written.apart_from(&source.read)?;
        }
    }
    Ok(())
}

/// Runs or checks a call.
///
/// # Safety
///
/// The memory of the parts is accessible, and [`apart`] has accepted it. During the call nobody writes the operands
/// that are read, and nobody else uses those that are written.
#[inline]
pub(crate) unsafe fn run(parts: &Parts<'_>, mode: Mode) -> Result<(), Failure> {
    if let (Work::InPlace(OperandRecord::Tensor(x)), None, AnglesRecord::Rows(rows), Mode::Run) =
        (parts.work, &parts.plan.stages, parts.angles, mode)
    {
        // SAFETY: the caller promises that the memory of the parts is valid and used by nobody else meanwhile;
        // [`apart`] has checked the target.
        return unsafe { rotate_tensor(&parts.plan.rope, x, rows) };
    }
    // SAFETY: the caller promises that the memory of the parts is valid and used by nobody else meanwhile; [`apart`]
    // has checked the target.
    unsafe { run_any(parts, mode) }
}

/// Rotates a tensor in place by rows, and no more.
///
/// # Safety
///
/// As [`run`].
#[inline]
pub(crate) unsafe fn rotate_tensor(
    rope: &Rope,
    x: &TensorRecord,
    rows: &RowsRecord,
) -> Result<(), Failure> {
    // SAFETY: the caller promises that the memory of the parts is valid, and that nobody else uses the target
    // meanwhile.
    unsafe {
        rows.with(|rows| {
            with_element!(x.element, E => {
                Ok(internals::rotate(rope, x.data_mut::<E>(), &x.layout, rows)?)
            })
        })
    }
}

/// # Safety
///
/// As [`run`].
#[inline(never)]
unsafe fn run_any(parts: &Parts<'_>, mode: Mode) -> Result<(), Failure> {
    // SAFETY: the caller promises that the memory of the parts is valid, and that nobody else uses the target
    // meanwhile.
    unsafe {
        let plan = parts.plan.with_stages()?;
        parts.angles.with(|angles| match parts.work {
            Work::InPlace(x) => x.with_target(|x| in_place(parts.plan, &plan, x, angles, mode)),
            Work::Into(x, y) => {
                x.with_source(|x| y.with_target(|y| into(&plan, x, y, angles, mode)))
            }
        })
    }
}

/// Runs a plan in place. One without stages rotates heads longer than those that are kept on the stack.
fn in_place(
    record: &PlanRecord,
    plan: &Rope<Normed<'_>>,
    x: &mut AnyTarget<'_>,
    angles: &AnyAngles<'_>,
    mode: Mode,
) -> Result<(), Failure> {
    Ok(match (mode, &record.stages, angles) {
        (Mode::Check, None, angles) => record.rope.prepare(x, angles).map(drop),
        (Mode::Check, Some(_), angles) => plan.prepare(x, angles).map(drop),
        (Mode::Run, None, AnyAngles::None) => record.rope.apply(x),
        (Mode::Run, None, angles) => record.rope.rotate(x, angles),
        (Mode::Run, Some(_), AnyAngles::None) => plan.apply(x),
        (Mode::Run, Some(_), angles) => plan.rotate(x, angles),
    }?)
}

/// Runs a plan from a source into a target.
fn into(
    plan: &Rope<Normed<'_>>,
    x: &AnySource<'_>,
    y: &mut AnyTarget<'_>,
    angles: &AnyAngles<'_>,
    mode: Mode,
) -> Result<(), Failure> {
    Ok(match (mode, angles) {
        (Mode::Check, angles) => plan.prepare_into(x, y, angles).map(drop),
        (Mode::Run, AnyAngles::None) => plan.apply_into(x, y),
        (Mode::Run, angles) => plan.rotate_into(x, y, angles),
    }?)
}

/// Rotates a tensor, or Q and K one after the other, in place by rows, if the structs say no more and nothing is
/// refused: no record is made, and no struct is moved. Otherwise it has done nothing: [`call`] runs the call, or finds
/// why not.
///
/// # Safety
///
/// As [`call`].
#[inline(always)]
unsafe fn rotate_raw(
    plan: *const rope_plan,
    x: *const rope_operand,
    k: Option<*const rope_operand>,
    angles: *const rope_angles,
) -> Option<()> {
    // SAFETY: the caller promises that pointers, also those in structs, are null or valid during the call, and that
    // nobody else uses the target. The references to structs end before a tensor becomes a slice, which may lie over
    // them; it does so only apart from the rows and from the other tensor.
    unsafe {
        let plan = look("plan", plan).ok()?;
        let head_dim = plan.head_dim;
        let plan = plan.plain()?;
        let other = |x: &RawRecord| head_dim != 0 && x.head_dim() != head_dim;
        let rows = &look("angles", angles).ok()?.raw()?;
        let element = rope_element::from_c(look("x", x).ok()?.element).ok()?;
        let kernels = with_element!(element, E => { internals::InPlace::of::<E>() });
        let x = raw(x, element, rows)?;
        if other(&x) {
            return None;
        }
        let Some(k) = k else {
            return internals::rotate_raw(plan, kernels, &mut [x.tensor()], rows).ok();
        };
        let k = raw(k, element, rows)?;
        if x.region.overlaps(k.region) || other(&k) {
            return None;
        }
        internals::rotate_raw(plan, kernels, &mut [x.tensor(), k.tensor()], rows).ok()
    }
}

/// A tensor of this element that shares no byte with the rows.
///
/// # Safety
///
/// As [`call`].
#[inline(always)]
unsafe fn raw(
    x: *const rope_operand,
    element: rope_element,
    rows: &RawRows<'_>,
) -> Option<RawRecord> {
    // SAFETY: the caller promises that pointers, also those in structs, are null or valid during the call, and that
    // nobody else uses the target.
    let x = unsafe { look("x", x) }.ok()?;
    if x.element != element as i32 {
        return None;
    }
    let x = x.raw(element.size())?;
    let read = |values: &[f32]| Region::bytes("", values.as_ptr().addr(), size_of_val(values));
    if x.region.overlaps(read(rows.cos)) || rows.sin.is_some_and(|sin| x.region.overlaps(read(sin)))
    {
        return None;
    }
    Some(x)
}

/// Drops the parts of a call that has run.
fn ignore(_: &Parts<'_>) {}

/// The plan, the operands and the angles of a call. The target overlaps none of them.
///
/// # Safety
///
/// Pointers, also those in structs, are null or valid. With `mode` [`Mode::Run`] nobody else uses what
/// is written.
#[inline(never)]
pub(crate) unsafe fn call(
    plan: *const rope_plan,
    x: Option<*const rope_operand>,
    (name, y): (&'static str, *const rope_operand),
    angles: Option<*const rope_angles>,
    mode: Mode,
    with: impl FnOnce(&Parts<'_>),
) -> Result<(), Failure> {
    // SAFETY: the caller promises that pointers, also those in structs, are null or valid during the call, and that
    // nobody else uses the target. The target becomes a slice only after a check that it is disjoint from all memory
    // that is read (see `memory`).
    unsafe {
        let plan = look("plan", plan)?.record()?;
        let target = look(name, y)?.record(name)?;
        let source;
        let work = match x {
            None => Work::InPlace(&target),
            Some(x) => {
                source = look("x", x)?.record("x")?;
                Work::Into(&source, &target)
            }
        };
        let angles = match angles {
            None => AnglesRecord::None,
            Some(angles) => look("angles", angles)?.record()?,
        };
        let parts = &Parts {
            plan: &plan,
            work,
            angles: &angles,
        };
        apart(parts)?;
        run(parts, mode)?;
        with(parts);
        Ok(())
    }
}

/// Runs a plan in place: rotates the channels from its `first_channel` on, `rotary_dim` of every head, in its `parts`.
/// The other channels stay as they are, but for the plan's stages.
///
/// Each of the three operations of x cos - y sin and x sin + y cos is rounded to a float by itself, and the result
/// is rounded to the element once: the same bits on every machine.
///
/// In the slots of a cache it moves keys, one row for each slot: a context shift by rows with `moves`, or by any rows
/// with an attention factor of 1. A head is read as float, rotated, and rounded once to the cache's format; computed
/// scales are computed again. A row that rotates by nothing leaves the bits of its slot. Cached keys have the scale
/// of their plan, which is not applied; a Hadamard transform is undone before the rotation, and done again after it.
///
/// Returns, of the operand: ROPE_STATUS_SHAPE_OVERFLOW, ROPE_STATUS_OUT_OF_BOUNDS, ROPE_STATUS_OVERLAP.
/// Of the plan: ROPE_STATUS_PAIRING_CHANGES_IN_PLACE, ROPE_STATUS_BACKEND_UNAVAILABLE; with stages
/// ROPE_STATUS_HEAD_DIM_ON_STACK for heads of more than 2048 channels, ROPE_STATUS_PARAMETER, ROPE_STATUS_COUNT,
/// ROPE_STATUS_WEIGHT_MISSING, ROPE_STATUS_WEIGHT_UNUSED, ROPE_STATUS_CENTERED_SUMS, ROPE_STATUS_HADAMARD_BLOCK,
/// ROPE_STATUS_HADAMARD_HEAD.
/// Of the angles: ROPE_STATUS_ROTARY_DIM_EXCEEDS_HEAD, ROPE_STATUS_ROW_COUNT, ROPE_STATUS_ROW_HEADS,
/// ROPE_STATUS_ROW_SEQUENCES, ROPE_STATUS_ROTARY_DIM, ROPE_STATUS_ROWS_LENGTH, ROPE_STATUS_ROW_WIDTH,
/// ROPE_STATUS_HALVES_DIFFER, ROPE_STATUS_HALVES_EQUAL, ROPE_STATUS_ROWS_PER_HEAD, ROPE_STATUS_ATTENTION_FACTOR,
/// ROPE_STATUS_POSITION_OUTSIDE_TABLE; ROPE_STATUS_ROW_MAGNITUDE and ROPE_STATUS_FULL_WIDTH_ROWS of
/// ROPE_DIRECTION_INVERSE; ROPE_STATUS_ROTARY_DIM_ON_STACK; of frequencies at positions what rope_rows_len returns.
/// In a cache: ROPE_STATUS_CACHE_HEADS if it has other heads; ROPE_STATUS_SLOT_COUNT unless there is one slot for each
/// token of each sequence; ROPE_STATUS_SLOT, ROPE_STATUS_SLOT_OFFSET and ROPE_STATUS_PAGE_POSITION for one that
/// the cache, or its sequence, does not have; ROPE_STATUS_NEGATIVE_PAGE; ROPE_STATUS_OFFSETS for packed sequences whose
/// tokens do not follow one another; ROPE_STATUS_CACHE_LAYOUT and ROPE_STATUS_OUT_OF_BOUNDS for a layout that
/// makes no cache, or not one of this memory; ROPE_STATUS_STORAGE for too few scales; ROPE_STATUS_FULL_WIDTH_ROWS,
/// ROPE_STATUS_SHIFT_FACTOR for rows with an attention factor other than 1, which cached keys have already;
/// ROPE_STATUS_NOT_LINEAR for a plan with a norm.
/// In parts: ROPE_STATUS_PARTS, for parts that do not fit each other or the call; with stages, for parts with scales by
/// channel, and for heads of a token with more than 4096 channels together.
/// Of all: ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED, ROPE_STATUS_LENGTH, ROPE_STATUS_UNKNOWN_VALUE, ROPE_STATUS_HANDLE,
/// ROPE_STATUS_MEMORY_OVERLAP. The operand is untouched then.
///
/// # Threads
///
/// May be called from any thread. No other thread may use the operand's memory meanwhile, of a tensor from its first
/// element to its last; others may read the angles. To spread one rotation over threads, give each thread its own
/// tokens, or its own heads of a heads-major tensor. The bits do not depend on the split.
///
/// # Safety
///
/// Pointers, also those in structs, are NULL or valid for the length of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_rotate(
    plan: *const rope_plan,
    x: *const rope_operand,
    angles: *const rope_angles,
) -> rope_status {
    status_of(|| {
        // SAFETY: the caller promises that pointers, also those in structs, are null or valid during the call.
        unsafe {
            match rotate_raw(plan, x, None, angles) {
                Some(()) => Ok(()),
                None => call(plan, None, ("x", x), Some(angles), Mode::Run, ignore),
            }
        }
    })
}

/// Runs a plan from a source into a target: from a tensor into another, whose element and pairing may differ; from a
/// tensor into the slots of a cache, keys as they are projected; out of a cache, keys that were cached before their
/// rotation; or from one cache into another. Copies the channels that do not rotate.
///
/// Tensors have one shape; slots are one for each token of each sequence. A token with a negative slot is left out. Of
/// two tokens with one slot the later one stays. Heads from a cache are floats, so that nothing between the stages is
/// rounded; from one cache into another heads have the scale of their plan already.
///
/// The two must not share memory, a tensor from its first element to its last (not even in one packed row), a cache
/// all of it.
///
/// Returns ROPE_STATUS_SHAPE_MISMATCH, and what rope_rotate returns. The target is untouched then.
///
/// # Threads
///
/// May be called from any thread. No other thread may use the target's memory and scales meanwhile; others may read the
/// source, the slots and the angles.
///
/// # Safety
///
/// As rope_rotate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_rotate_into(
    plan: *const rope_plan,
    x: *const rope_operand,
    y: *const rope_operand,
    angles: *const rope_angles,
) -> rope_status {
    // SAFETY: the caller promises that pointers, also those in structs, are null or valid during the call, and that
    // nobody else uses the target.
    status_of(|| unsafe { call(plan, Some(x), ("y", y), Some(angles), Mode::Run, ignore) })
}

/// Runs the stages of a plan in place, without the rotation: queries and keys of layers that norm and do not rotate;
/// heads of an attention's output, whose Hadamard transform it undoes. Heads in a cache stay as they are: they have
/// the stages already.
///
/// Returns what rope_rotate returns, but for the angles.
///
/// # Threads
///
/// As rope_rotate.
///
/// # Safety
///
/// As rope_rotate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_apply(plan: *const rope_plan, x: *const rope_operand) -> rope_status {
    // SAFETY: the caller promises that pointers, also those in structs, are null or valid during the call, and that
    // nobody else uses the target.
    status_of(|| unsafe { call(plan, None, ("x", x), None, Mode::Run, ignore) })
}

/// As rope_rotate_into without the rotation: values, which are converted and written (and normed, in some models);
/// heads of a cache as float, half precision or bfloat16.
///
/// Returns what rope_rotate_into returns, but for the angles. The target is untouched then.
///
/// # Threads
///
/// As rope_rotate_into.
///
/// # Safety
///
/// As rope_rotate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_apply_into(
    plan: *const rope_plan,
    x: *const rope_operand,
    y: *const rope_operand,
) -> rope_status {
    // SAFETY: the caller promises that pointers, also those in structs, are null or valid during the call, and that
    // nobody else uses the target.
    status_of(|| unsafe { call(plan, Some(x), ("y", y), None, Mode::Run, ignore) })
}

/// Q and K that were checked by themselves.
pub(crate) struct QueryKey<'p> {
    pub(crate) plan: &'p PlanRecord,
    pub(crate) q: &'p OperandRecord,
    pub(crate) k: &'p OperandRecord,
    pub(crate) angles: &'p AnglesRecord,
}

/// How Q and K lie.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Together {
    /// One after the other: their slices may exist at the same time.
    Disjoint,
    /// Between one another.
    Between,
}

impl<'p> QueryKey<'p> {
    fn of(&self, x: &'p OperandRecord) -> Parts<'p> {
        Parts {
            plan: self.plan,
            work: Work::InPlace(x),
            angles: self.angles,
        }
    }

    fn tensors(&self) -> Result<[&'p TensorRecord; 2], Failure> {
        match (self.q, self.k) {
            (OperandRecord::Tensor(q), OperandRecord::Tensor(k)) => Ok([q, k]),
            (OperandRecord::Slots(_) | OperandRecord::Parts(_), _) => {
                Err(Failure::NotATensor { name: "q" })
            }
            _ => Err(Failure::NotATensor { name: "k" }),
        }
    }

    /// `ROPE_STATUS_MEMORY_OVERLAP` unless Q and K share no element, nor a byte with what is read. Where they are
    /// disjoint that takes 35 instructions, in a packed row 99 (1 to 4 ns more, on Zen 3).
    ///
    /// # Safety
    ///
    /// As [`run`].
    #[inline]
    pub(crate) unsafe fn apart(&self) -> Result<Together, Failure> {
        let [q, k] = self.tensors()?;
        apart(&self.of(self.q))?;
        apart(&self.of(self.k))?;
        let (query, key) = (q.region(), k.region());
        if !query.overlaps(key) {
            return Ok(Together::Disjoint);
        }
        // SAFETY: the caller promises that the memory of the parts is valid, and that nobody else uses the target
        // meanwhile. The slices end here, one after the other.
        unsafe {
            q.target()?;
            k.target()?;
        }
        let (first, second) = (q.layout.into(), k.layout.into());
        if q.element != k.element
            || !of_one_row(&first, &second, q.element.size(), query.ahead(key))
        {
            between((q, query), (k, key))?;
        }
        Ok(Together::Between)
    }

    /// Checks both tensors, their shapes, and the angles.
    ///
    /// # Safety
    ///
    /// As [`run`].
    #[inline(never)]
    pub(crate) unsafe fn check(&self) -> Result<(), Failure> {
        let tensors = self.tensors()?;
        let [query, key] = tensors.map(|x| x.layout.shape());
        check_query_and_key(query, key)?;
        // SAFETY: the caller promises that the memory of the parts is valid, and that nobody else uses the target
        // meanwhile. The slices of Q and of K never exist at the same time.
        unsafe {
            run(&self.of(self.q), Mode::Check)?;
            run(&self.of(self.k), Mode::Check)
        }
    }

    /// Runs both. Where that is two calls, both are checked first.
    ///
    /// # Safety
    ///
    /// As [`run`].
    #[inline]
    pub(crate) unsafe fn run(&self, together: Together) -> Result<(), Failure> {
        // SAFETY: the caller promises that the memory of the parts is valid, and that nobody else uses the target
        // meanwhile. Where Q and K lie between one another, each call makes one slice, which ends with it.
        unsafe {
            if let (OperandRecord::Tensor(q), OperandRecord::Tensor(k), AnglesRecord::Rows(rows)) =
                (self.q, self.k, self.angles)
                && self.plan.stages.is_none()
            {
                let rope = &self.plan.rope;
                if together == Together::Disjoint && q.element == k.element {
                    return rows.with(|rows| run_both(rope, [q, k], rows));
                }
                let [query, key] = [q, k].map(|x| x.layout.shape());
                rows.with(|rows| Ok(check_query_and_key_by(rope, query, key, rows)?))?;
                q.target()?;
                k.target()?;
                // What is left asks the rows alone: K is refused after Q has passed only if Q is empty.
                rotate_tensor(rope, q, rows)?;
                return rotate_tensor(rope, k, rows);
            }
            self.check()?;
            run(&self.of(self.q), Mode::Run)?;
            run(&self.of(self.k), Mode::Run)
        }
    }
}

/// Rotates Q and K that lie one after the other and have one element.
///
/// # Safety
///
/// As [`run`].
#[inline(always)]
unsafe fn run_both(
    rope: &Rope,
    [q, k]: [&TensorRecord; 2],
    rows: &Rows<'_>,
) -> Result<(), Failure> {
    // SAFETY: the caller promises that the memory of the parts is valid, and that nobody else uses the target
    // meanwhile.
    unsafe {
        with_element!(q.element, E => {
            let first = (q.data_mut::<E>(), &q.layout);
            let second = (k.data_mut::<E>(), &k.layout);
            Ok(internals::rotate_qk(rope, first, second, rows)?)
        })
    }
}

/// `ROPE_STATUS_MEMORY_OVERLAP` unless two tensors that are no parts of one row share no element.
#[cold]
fn between(
    (q, query): (&TensorRecord, Region),
    (k, key): (&TensorRecord, Region),
) -> Result<(), Failure> {
    let nest = Nest::new(&q.layout.into(), q.element.size(), query.len());
    let other = Nest::new(&k.layout.into(), k.element.size(), key.len());
    let required = match nest.sharing(other, query.ahead(key)) {
        Sharing::Apart => return Ok(()),
        Sharing::Shared => {
            "they must share no element: in a packed row K begins after the heads of Q"
        }
        Sharing::Unknown => {
            "between one another they need equal strides in bytes, or a call of rope_rotate each"
        }
    };
    Err(query.overlap(key, required))
}

/// Reads Q and K, which share no element, and their plan and angles.
///
/// # Safety
///
/// As [`call`].
#[inline]
pub(crate) unsafe fn query_and_key(
    plan: *const rope_plan,
    [q, k]: [*const rope_operand; 2],
    angles: *const rope_angles,
    with: impl FnOnce(&QueryKey<'_>, Together) -> Result<(), Failure>,
) -> Result<(), Failure> {
    // SAFETY: the caller promises that pointers, also those in structs, are null or valid during the call, and that
    // nobody else uses the target.
    unsafe {
        let plan = look("plan", plan)?.record()?;
        let (q, k) = (look("q", q)?.record("q")?, look("k", k)?.record("k")?);
        let angles = look("angles", angles)?.record()?;
        let both = &QueryKey {
            plan: &plan,
            q: &q,
            k: &k,
            angles: &angles,
        };
        let together = both.apart()?;
        with(both, together)
    }
}

/// Runs a plan in Q and K, in place, by the same angles. Both are checked before either is touched.
///
/// They may lie between one another in memory, as in a packed row of Q, K and V, in whatever order its dimensions are.
/// They must share no byte, and their strides must show it. These always do where Q and K have one element type, and
/// equal strides along each dimension of which both have more than one index. Other strides do if one tensor lies in a
/// gap of the other: the part that does not repeat with the longest stride must be no longer than it, and so on within
/// each stride. If Q and K share no byte and are refused all the same, use two calls of rope_rotate.
///
/// Returns ROPE_STATUS_QUERY_KEY_MISMATCH unless the two differ in their heads (and elements) only,
/// ROPE_STATUS_MEMORY_OVERLAP if they share an element, ROPE_STATUS_OPERAND for a cache, and what rope_rotate returns.
///
/// # Threads
///
/// As rope_rotate.
///
/// # Safety
///
/// As rope_rotate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_rotate_qk(
    plan: *const rope_plan,
    q: *const rope_operand,
    k: *const rope_operand,
    angles: *const rope_angles,
) -> rope_status {
    status_of(|| {
        // SAFETY: the caller promises that pointers, also those in structs, are null or valid during the call, and that
        // nobody else uses the target.
        unsafe {
            match rotate_raw(plan, q, Some(k), angles) {
                Some(()) => Ok(()),
                None => query_and_key(plan, [q, k], angles, |both, together| both.run(together)),
            }
        }
    })
}

/// Writes the sums of squares that the norm of a plan takes of a tensor: one for each token of each sequence where it
/// is over the row, one for each head of those where it is over heads. Ranks that have some heads each add theirs up,
/// and give them to the `sums` of a rope_norm.
///
/// Returns ROPE_STATUS_NULL for a plan without a norm, ROPE_STATUS_STORAGE unless `len` is their number,
/// ROPE_STATUS_CENTERED_SUMS for a norm that is centered, ROPE_STATUS_HEAD_DIM_ON_STACK, ROPE_STATUS_OPERAND for a
/// cache, and what rope_apply returns. Nothing is written then.
///
/// # Threads
///
/// May be called from any thread. No other thread may use the sums meanwhile; others may read the tensor.
///
/// # Safety
///
/// As rope_rotate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_sum_of_squares(
    plan: *const rope_plan,
    x: *const rope_operand,
    sums: *mut f32,
    len: usize,
) -> rope_status {
    status_of(|| {
        // SAFETY: the caller promises that pointers, also those in structs, are null or valid during the call, and that
        // nobody else uses the target. The sums become a slice only after a check that they are disjoint from `x` and
        // from what the plan is read from (see `memory`).
        unsafe {
            let plan = look("plan", plan)?.record()?;
            let norm = plan.stages.and_then(|stages| stages.norm);
            let (norm, _) = norm.ok_or(Failure::Null { name: "norm" })?.norm()?;
            let x = look("x", x)?.tensor("x")?;
            let sums = SpanMut::new("sums", sums, len)?;
            sums.region().apart_from(&plan.used()?)?;
            let sums = sums.get(&[x.region()])?;
            with_element!(x.element, E => {
                Ok(plan.rope.sum_of_squares(norm, &x.read::<E>()?, sums)?)
            })
        }
    })
}
