//! Prepared calls: checked once, run many times, in the memory that was prepared or in other memory.

use core::ffi::c_void;

use rope_core::internals::TokenHeads;

use crate::angles::{AnglesRecord, RowsRecord, rope_angles};
use crate::failure::Failure;
use crate::memory::{Out, Region, Span, elements_mut, look, plain, read};
use crate::operand::{OperandRecord, rope_operand};
use crate::plan::{PlanRecord, rope_plan};
use crate::positions::rope_positions;
use crate::slots::rope_slots;
use crate::status::{rope_status, status_of};
use crate::verbs::{self, Mode, Parts, QueryKey, Together, Work, apart, call, query_and_key};

const _: () = assert!(size_of::<Record>() <= ROPE_CALL_BYTES);

/// Bytes of a rope_call.
pub const ROPE_CALL_BYTES: usize = 2048;

/// A prepared call, in the caller's storage: rope_prepare and its like fill it in, rope_call_run and rope_call_run_at
/// run it. It allocates nothing, has nothing to free, and may be copied by memcpy.
///
/// It copies the structs of rope_prepare and keeps no pointer to them, except to handles. It borrows their memory:
/// data of tensors, memory and scales of caches, cos and sin, ids, slots, positions, weights, factors, and the
/// frequencies. This memory must exist whenever the call runs, unless rope_call_run_at names other memory. The call
/// reads it anew: an engine writes the cos, sin and slots of the next token to the same arrays, and calls
/// rope_call_run.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rope_call {
    /// For the library.
    pub words: [u64; 256],
}
plain!(rope_call);

const _: () = assert!(size_of::<rope_call>() == ROPE_CALL_BYTES);

impl core::fmt::Debug for rope_call {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("rope_call").finish_non_exhaustive()
    }
}

/// Other memory for a prepared call, of the same shapes.
///
/// `x`, and `y` of a call with two operands, are required: NULL is refused. Any other member may be NULL, for the
/// prepared memory. Memory that the call does not use, as positions of a call that was prepared from rows, is refused
/// (ROPE_STATUS_UNUSED_MEMORY). Lengths, extents, strides and types stay as they were prepared.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rope_call_memory {
    /// The data of the first operand, of a cache its memory: of the tensor in place, of Q, or of the source.
    pub x: *mut c_void,
    /// The data of the second operand: of K, or of the target.
    pub y: *mut c_void,
    /// The cos of rows.
    pub cos: *const f32,
    /// The sin of rows, where they are apart.
    pub sin: *const f32,
    /// The ids of rows.
    pub ids: *const c_void,
    /// Positions of the tokens, of frequencies at positions: as many, of any kind.
    pub positions: *const rope_positions,
    /// Slots of the cache: of the target, or of the source if that alone is a cache. As many, of any kind.
    pub slots: *const rope_slots,
    /// Scales of that cache, where they are made and lie apart.
    pub scales: *mut c_void,
    /// Weights of the norm.
    pub weight: *const c_void,
    /// Biases of the norm.
    pub bias: *const c_void,
    /// The data of the second part of the first operand, where it is not in the memory of the first part. Required
    /// then.
    pub x_next: *mut c_void,
    /// The same of the second operand.
    pub y_next: *mut c_void,
    /// Scales of the second part of the cache, where they are made and lie apart.
    pub scales_next: *mut c_void,
    /// Zero points of the cache, where they have a list of their own.
    pub zeros: *mut c_void,
    /// Zero points of the second part of the cache, likewise.
    pub zeros_next: *mut c_void,
}
plain!(rope_call_memory);

impl rope_call_memory {
    /// Returns true if the memory holds nothing but a token and its row, with a second operand and a sin at most where
    /// the call has them.
    #[inline(always)]
    fn is_token(&self, has_second: bool, has_sin: bool) -> bool {
        let others = self.ids.addr()
            | self.positions.addr()
            | self.slots.addr()
            | self.scales.addr()
            | self.weight.addr()
            | self.bias.addr()
            | self.x_next.addr()
            | self.y_next.addr()
            | self.scales_next.addr()
            | self.zeros.addr()
            | self.zeros_next.addr();
        others == 0 && (has_second || self.y.is_null()) && (has_sin || self.sin.is_null())
    }
}

/// The content of a rope_call.
#[repr(C)]
struct Record {
    /// The mark of a prepared call.
    magic: u64,
    /// The call, if it is no more than this.
    token: Option<Token>,
    verb: Verb,
    plan: PlanRecord,
    angles: AnglesRecord,
    x: OperandRecord,
    y: Option<OperandRecord>,
}

#[derive(Clone, Copy)]
enum Verb {
    InPlace,
    Into,
    QueryKey(Together),
}

/// A plain rotation of one token by one row, of one tensor or of Q and K one after the other: it runs without the rest
/// of its record.
#[derive(Clone, Copy)]
struct Token {
    x: Heads,
    k: Option<Heads>,
    cos: Span<f32>,
    sin: Option<Span<f32>>,
}

#[derive(Clone, Copy)]
struct Heads {
    heads: TokenHeads,
    data: *mut c_void,
    /// The bytes of an element.
    size: usize,
}

impl Heads {
    #[inline(always)]
    fn region(&self, data: *mut c_void) -> Region {
        Region::bytes("", data.addr(), self.heads.bytes())
    }

    /// Returns `true` for memory that is neither null nor misaligned, and has an end.
    #[inline(always)]
    fn fit(&self, data: *mut c_void) -> bool {
        let end = data.addr().checked_add(self.heads.bytes());
        !data.is_null() && data.addr() & (self.size - 1) == 0 && end.is_some()
    }
}

impl Token {
    /// The call, if it is no more than this.
    fn new(
        plan: &PlanRecord,
        x: &OperandRecord,
        k: Option<&OperandRecord>,
        angles: &AnglesRecord,
    ) -> Option<Self> {
        let (AnglesRecord::Rows(rows), None) = (angles, &plan.stages) else {
            return None;
        };
        let heads = |x: &OperandRecord| match x {
            OperandRecord::Tensor(x) => Some(Heads {
                heads: rows.token_heads(&plan.rope, x)?,
                data: x.data,
                size: x.element.size(),
            }),
            OperandRecord::Slots(_) | OperandRecord::Parts(_) => None,
        };
        let k = match k {
            None => None,
            Some(k) => Some(heads(k)?),
        };
        let (cos, sin) = rows.spans();
        let x = heads(x)?;
        Some(Token { x, k, cos, sin })
    }

    /// Runs the call in its memory or in other memory, unless that is refused, or written over `place`.
    ///
    /// # Safety
    ///
    /// As [`Record::run_at`].
    #[inline(always)]
    unsafe fn run(&self, memory: Option<&rope_call_memory>, place: Region) -> Option<()> {
        let (x, k) = (&self.x, self.k.as_ref());
        let mut data = (x.data, k.map_or(x.data, |k| k.data));
        let (mut cos, mut sin) = (self.cos, self.sin);
        if let Some(memory) = memory {
            data = (memory.x, memory.y);
            if !memory.is_token(k.is_some(), sin.is_some()) {
                return None;
            }
            if !x.fit(data.0) || k.is_some_and(|k| !k.fit(data.1)) {
                return None;
            }
            if !memory.cos.is_null() {
                cos = cos.at(memory.cos).ok()?;
            }
            if let Some(here) = sin
                && !memory.sin.is_null()
            {
                sin = Some(here.at(memory.sin).ok()?);
            }
        }
        let written = x.region(data.0);
        let second = k.map_or(Region::NONE, |k| k.region(data.1));
        let apart = |read: Region| !written.overlaps(read) && !second.overlaps(read);
        let moved = memory.is_some();
        let read = [cos.region(), sin.map_or(Region::NONE, |sin| sin.region())];
        if !apart(place)
            || moved && (written.overlaps(second) || !apart(read[0]) || !apart(read[1]))
        {
            return None;
        }
        // SAFETY: the caller promises that pointers, also those in structs, are null or valid during the call, and that
        // nobody else uses the target. The tensors share no byte with the row.
        unsafe {
            let row = x.heads.row(cos.get(), sin.map(|sin| sin.get()));
            let memory = elements_mut(data.0.cast(), written.len());
            x.heads.rotate(memory, &row);
            if let Some(k) = k {
                let memory = elements_mut(data.1.cast(), second.len());
                k.heads.rotate(memory, &row);
            }
        }
        Some(())
    }
}

const NO_NEXT: &str = "no second part in memory of its own";
const NO_ZEROS: &str = "no list of its zero points";

const MAGIC: u64 = 0x726f_7065_5f63_616c;

impl Record {
    /// The record in a call.
    ///
    /// # Safety
    ///
    /// `call` is null or points to a rope_call, which nobody writes during `'a`.
    #[inline]
    unsafe fn of<'a>(call: *const rope_call) -> Result<&'a Record, Failure> {
        crate::memory::place("call", call)?;
        // SAFETY: neither null nor misaligned; any bits are a number. The caller promises that it is there.
        if unsafe { (*call).words[0] } != MAGIC {
            return Err(Failure::Handle {
                name: "call",
                required: "of rope_prepare, rope_prepare_into or rope_prepare_qk",
            });
        }
        // SAFETY: `write` wrote it, and there is room for it.
        Ok(unsafe { &*call.cast::<Record>() })
    }

    fn parts(&self) -> Parts<'_> {
        Parts {
            plan: &self.plan,
            work: match (self.verb, &self.y) {
                (Verb::Into, Some(y)) => Work::Into(&self.x, y),
                _ => Work::InPlace(&self.x),
            },
            angles: &self.angles,
        }
    }

    /// Runs the call, unless it writes over `place`, the memory of the prepared call itself.
    ///
    /// # Safety
    ///
    /// As [`verbs::run`].
    #[inline(never)]
    unsafe fn run(&self, place: Region) -> Result<(), Failure> {
        if !matches!(self.verb, Verb::Into) {
            self.x.written(place)?;
        }
        if let Some(y) = &self.y {
            y.written(place)?;
        }
        // SAFETY: the caller promises that the record's memory is valid, and that nobody else uses the target.
        unsafe {
            match (self.verb, &self.y) {
                (Verb::QueryKey(together), Some(k)) => self.query_key(k).run(together),
                _ => verbs::run(&self.parts(), Mode::Run),
            }
        }
    }

    fn query_key<'r>(&'r self, k: &'r OperandRecord) -> QueryKey<'r> {
        QueryKey {
            plan: &self.plan,
            q: &self.x,
            k,
            angles: &self.angles,
        }
    }

    /// Refuses memory that the call does not use.
    fn check_used(&self, memory: &rope_call_memory) -> Result<(), Failure> {
        let (rows, angles) = match &self.angles {
            AnglesRecord::Rows(rows) | AnglesRecord::Full(rows) => (Some(rows), "rows"),
            AnglesRecord::At(_) => (None, "frequencies at positions"),
            AnglesRecord::None => (None, "no angles"),
        };
        let of_rows = |uses: bool, instead| match rows {
            Some(_) => (uses, instead),
            None => (false, angles),
        };
        let (has_sin, has_ids) = rows.map_or((false, false), RowsRecord::parts);
        let second = self.y.as_ref();
        let cached = second
            .filter(|y| y.has_slots())
            .or(self.x.has_slots().then_some(&self.x));
        let [scales, scales_next] = cached.map_or([[false; 2]; 2], OperandRecord::has_scales);
        let [weight, bias] = self.plan.norm_lists();
        let at = matches!(self.angles, AnglesRecord::At(_));
        for (name, addr, (uses, instead)) in [
            (
                "memory.y",
                memory.y.addr(),
                (self.y.is_some(), "one operand"),
            ),
            ("memory.cos", memory.cos.addr(), of_rows(true, "")),
            (
                "memory.sin",
                memory.sin.addr(),
                of_rows(has_sin, "cos and sin in one memory"),
            ),
            (
                "memory.ids",
                memory.ids.addr(),
                of_rows(has_ids, "rows without ids"),
            ),
            ("memory.positions", memory.positions.addr(), (at, angles)),
            (
                "memory.slots",
                memory.slots.addr(),
                (cached.is_some(), "tensors alone"),
            ),
            (
                "memory.scales",
                memory.scales.addr(),
                (scales[0], "no scales that lie apart"),
            ),
            (
                "memory.x_next",
                memory.x_next.addr(),
                (self.x.has_next(), NO_NEXT),
            ),
            (
                "memory.y_next",
                memory.y_next.addr(),
                (second.is_some_and(OperandRecord::has_next), NO_NEXT),
            ),
            (
                "memory.scales_next",
                memory.scales_next.addr(),
                (scales_next[0], "no scales of a second part that lie apart"),
            ),
            ("memory.zeros", memory.zeros.addr(), (scales[1], NO_ZEROS)),
            (
                "memory.zeros_next",
                memory.zeros_next.addr(),
                (scales_next[1], NO_ZEROS),
            ),
            (
                "memory.weight",
                memory.weight.addr(),
                (weight, "no weights of a norm"),
            ),
            (
                "memory.bias",
                memory.bias.addr(),
                (bias, "no biases of a norm"),
            ),
        ] {
            if addr != 0 && !uses {
                return Err(Failure::UnusedMemory { name, instead });
            }
        }
        Ok(())
    }

    /// Runs the call in other memory.
    ///
    /// # Safety
    ///
    /// Pointers, including those in structs, are null or valid, and nobody else uses the memory that the call writes.
    #[inline(never)]
    unsafe fn run_at(&self, memory: &rope_call_memory, place: Region) -> Result<(), Failure> {
        self.check_used(memory)?;
        // SAFETY: the caller promises that pointers, also those in structs, are null or valid during the call, and that
        // nobody else uses the target. The target becomes a slice only after a check that it is disjoint from all
        // memory that is read.
        unsafe {
            let slots = match memory.slots.is_null() {
                true => None,
                false => Some(read("slots", memory.slots)?),
            };
            let in_target = self.y.as_ref().is_some_and(OperandRecord::has_slots);
            let of = |operand: &OperandRecord, data, own: bool| {
                let scales = [
                    [memory.scales, memory.zeros],
                    [memory.scales_next, memory.zeros_next],
                ];
                match own {
                    true => operand.at(data, slots, scales),
                    false => operand.at(data, None, [[core::ptr::null_mut(); 2]; 2]),
                }
            };
            let plan;
            let plan = match memory.weight.is_null() && memory.bias.is_null() {
                true => &self.plan,
                false => {
                    plan = self.plan.at(memory.weight, memory.bias)?;
                    &plan
                }
            };
            let angles = match &self.angles {
                AnglesRecord::Rows(rows) => {
                    AnglesRecord::Rows(rows.at(memory.cos, memory.sin, memory.ids)?)
                }
                AnglesRecord::Full(rows) => {
                    AnglesRecord::Full(rows.at(memory.cos, memory.sin, memory.ids)?)
                }
                AnglesRecord::At(at) => AnglesRecord::At(at.at(memory.positions)?),
                AnglesRecord::None => AnglesRecord::None,
            };
            let (x, angles) = (
                &of(&self.x, [memory.x, memory.x_next], !in_target)?,
                &angles,
            );
            if !matches!(self.verb, Verb::Into) {
                x.written(place)?;
            }
            let y;
            let work = match (self.verb, &self.y) {
                (Verb::InPlace, _) | (_, None) => Work::InPlace(x),
                (_, Some(second)) => {
                    y = of(second, [memory.y, memory.y_next], in_target)?;
                    y.written(place)?;
                    if let Verb::QueryKey(_) = self.verb {
                        let both = QueryKey {
                            plan,
                            q: x,
                            k: &y,
                            angles,
                        };
                        return both.run(both.apart()?);
                    }
                    Work::Into(x, &y)
                }
            };
            let parts = &Parts { plan, work, angles };
            apart(parts)?;
            verbs::run(parts, Mode::Run)
        }
    }
}

/// Checks rope_rotate, or with `angles` NULL rope_apply, and prepares it: rope_call_run runs it.
///
/// A prepared call of one token costs as much as the rotation itself. Prepare it once per number of tokens.
///
/// Returns the statuses of rope_rotate. `call` is untouched unless the status is ROPE_STATUS_OK; the operand always is.
///
/// # Threads
///
/// May be called from any thread. No other thread may use the operand meanwhile, nor `call`; others may read the
/// angles.
///
/// # Safety
///
/// Pointers, also those in structs, are NULL or valid for the length of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_prepare(
    plan: *const rope_plan,
    x: *const rope_operand,
    angles: *const rope_angles,
    call: *mut rope_call,
) -> rope_status {
    // SAFETY: the caller promises that pointers, also those in structs, are null or valid during the call.
    status_of(|| unsafe { prepare(plan, None, ("x", x), angles, call) })
}

/// Checks rope_rotate_into, or with `angles` NULL rope_apply_into, and prepares it: rope_call_run runs it.
///
/// Returns what rope_rotate_into returns. `call` is untouched then, and the target always.
///
/// # Threads
///
/// May be called from any thread. No other thread may use the target meanwhile, nor `call`; others may read the source,
/// the slots and the angles.
///
/// # Safety
///
/// As rope_prepare.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_prepare_into(
    plan: *const rope_plan,
    x: *const rope_operand,
    y: *const rope_operand,
    angles: *const rope_angles,
    call: *mut rope_call,
) -> rope_status {
    // SAFETY: the caller promises that pointers, also those in structs, are null or valid during the call.
    status_of(|| unsafe { prepare(plan, Some(x), ("y", y), angles, call) })
}

/// # Safety
///
/// As [`rope_prepare`].
unsafe fn prepare(
    plan: *const rope_plan,
    x: Option<*const rope_operand>,
    y: (&'static str, *const rope_operand),
    angles: *const rope_angles,
    place: *mut rope_call,
) -> Result<(), Failure> {
    let out = Out::new("call", place)?.cast::<Record>();
    let angles = (!angles.is_null()).then_some(angles);
    // SAFETY: the caller promises that pointers, also those in structs, are null or valid during the call.
    unsafe {
        call(plan, x, y, angles, Mode::Check, |parts| {
            let (plan, angles) = (parts.plan, parts.angles);
            let (verb, token, x, y) = match parts.work {
                Work::InPlace(x) => (Verb::InPlace, Token::new(plan, x, None, angles), *x, None),
                Work::Into(x, y) => (Verb::Into, None, *x, Some(*y)),
            };
            out.write(Record {
                magic: MAGIC,
                token,
                verb,
                plan: *plan,
                angles: angles.clone(),
                x,
                y,
            });
        })
    }
}

/// Checks rope_rotate_qk, and prepares it: rope_call_run runs it.
///
/// Returns what rope_rotate_qk returns. `call` is untouched then, and Q and K always.
///
/// # Threads
///
/// As rope_prepare.
///
/// # Safety
///
/// As rope_prepare.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_prepare_qk(
    plan: *const rope_plan,
    q: *const rope_operand,
    k: *const rope_operand,
    angles: *const rope_angles,
    call: *mut rope_call,
) -> rope_status {
    status_of(|| {
        let out = Out::new("call", call)?.cast::<Record>();
        // SAFETY: the caller promises that pointers, also those in structs, are null or valid during the call.
        unsafe {
            query_and_key(plan, [q, k], angles, |both, together| {
                both.check()?;
                let token = match together {
                    Together::Disjoint => Token::new(both.plan, both.q, Some(both.k), both.angles),
                    Together::Between => None,
                };
                out.write(Record {
                    magic: MAGIC,
                    token,
                    verb: Verb::QueryKey(together),
                    plan: *both.plan,
                    angles: both.angles.clone(),
                    x: *both.q,
                    y: Some(*both.k),
                });
                Ok(())
            })
        }
    })
}

/// Runs a prepared call in the memory that was prepared.
///
/// It trusts the checks of the preparation: pointers are aligned and lead to memory of these lengths, and the target
/// shares no byte with memory that the call reads. It checks ids of rows, positions and slots again, because an engine
/// may have changed them.
///
/// Returns ROPE_STATUS_HANDLE for storage that holds no prepared call, and the statuses of rope_rotate_into for ids,
/// positions and slots, as ROPE_STATUS_POSITION_OUTSIDE_TABLE and ROPE_STATUS_SLOT. The target is untouched then.
///
/// # Threads
///
/// May be called from any thread, several at once, on one call or on copies of it, if they write memory of their own
/// (rope_call_run_at). No other thread may use the target meanwhile; others may read the memory that the call reads.
///
/// # Safety
///
/// `call` is NULL or points to a rope_call, or at least to as many bytes. All that a prepared call borrows is there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_call_run(call: *const rope_call) -> rope_status {
    // SAFETY: the caller promises that `call` is null or has the bytes of a rope_call, and that the memory of the
    // prepared call is valid.
    status_of(|| unsafe {
        let (record, place) = (Record::of(call)?, Region::of("call", call));
        match record
            .token
            .as_ref()
            .and_then(|token| token.run(None, place))
        {
            Some(()) => Ok(()),
            None => record.run(place),
        }
    })
}

/// Runs a prepared call in other memory of the same shapes, as for another layer or the next token. The prepared call
/// stays unchanged.
///
/// The caller promises that the memory is as long as the prepared memory. The call checks that pointers are not NULL,
/// that they are aligned, that the target shares no byte with memory that the call reads, and that Q and K share no
/// element, as the checked calls do. It also makes the checks of rope_call_run.
///
/// Returns ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED, ROPE_STATUS_LENGTH, ROPE_STATUS_MEMORY_OVERLAP,
/// ROPE_STATUS_UNUSED_MEMORY, ROPE_STATUS_UNKNOWN_VALUE of slots and positions, and what rope_call_run returns. The
/// target is untouched then.
///
/// # Threads
///
/// As rope_call_run.
///
/// # Safety
///
/// As rope_call_run, and pointers in `memory` are NULL or point to as much as was prepared.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_call_run_at(
    call: *const rope_call,
    memory: *const rope_call_memory,
) -> rope_status {
    status_of(|| {
        // SAFETY: the caller promises that `call` is null or has the bytes of a rope_call, and that pointers in
        // `memory` are null or valid for the prepared shapes. The target becomes a slice only after a check that it is
        // disjoint from all memory that is read.
        unsafe {
            // The record is read while the target is written.
            let (record, place) = (Record::of(call)?, Region::of("call", call));
            if let Some(token) = &record.token
                && let Ok(memory) = look("memory", memory)
                && token.run(Some(memory), place).is_some()
            {
                return Ok(());
            }
            record.run_at(&read("memory", memory)?, place)
        }
    })
}
