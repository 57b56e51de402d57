//! Calls of the C API in any order.
//!
//! Pointers are null, misaligned, or lead to existing memory; lengths are of existing memory, or beyond all memory. The
//! caller promises no more than that, and everything else may have any value.

use std::ffi::{CStr, c_char, c_void};
use std::ptr::{null, null_mut};

use rope::*;

use super::frequencies::number;
use crate::Source;
use crate::c::{full_rows, in_slots, moved_by, moved_from, strided_rows, tensor_at, zero};
use crate::gguf::{File, Value};

const FLOATS: usize = 2048;
/// Number of parts of the memory; memories that must be disjoint mostly get separate parts.
const PARTS: usize = 8;
const PLACES: usize = 3;

/// Returns mostly the number of an integer type: one of the first three or the last of `rope_number`.
fn integer_type(source: &mut Source<'_>) -> i32 {
    match choice(source, 4) {
        4 => rope_number::U64 as i32,
        other => other,
    }
}
const PLACE: usize = ROPE_FREQUENCIES_HEAD + 5 * ROPE_FREQUENCIES_CHUNK;

/// The memory that calls may name, and the existing handles.
struct World {
    /// Overlapping tensors, rows, ids and lists.
    memory: Box<[f64; FLOATS / 2]>,
    /// Memory for frequencies; the handle beside each place uses it.
    places: [(Box<[u8; PLACE]>, *mut rope_frequencies); PLACES],
    owned: Vec<*mut rope_frequencies>,
    /// Memory and handle of mixed frequencies.
    mixed_place: (Box<[u8; PLACE]>, *mut rope_frequencies),
    mixed_owned: Vec<*mut rope_frequencies>,
    tables: Vec<*mut rope_table>,
    /// Memory that is no handle.
    garbage: Box<[[u64; 8]; 32]>,
    /// The last rows that a call has described, while their memory exists.
    rows: Option<rope_angles>,
}

/// Makes calls in any order: none crashes, each returns a status that has a message, and refused calls leave every
/// tensor unchanged.
///
/// # Panics
///
/// If an assertion fails.
pub fn calls(source: &mut Source<'_>) {
    let mut world = World {
        memory: Box::new([0.0; FLOATS / 2]),
        places: std::array::from_fn(|_| (Box::new([0x55; PLACE]), null_mut())),
        owned: Vec::new(),
        mixed_place: (Box::new([0x55; PLACE]), null_mut()),
        mixed_owned: Vec::new(),
        tables: Vec::new(),
        garbage: Box::new([[0x5555_5555_5555_5555; 8]; 32]),
        rows: None,
    };
    // Integers, which may be ids; doubles; and pairs of floats, some of them repeated as in PyTorch's cos.
    for (index, value) in world.memory.iter_mut().enumerate() {
        let index = match index / 8 % 12 {
            11 => index & !7,
            _ => index,
        };
        *value = match index / 8 % 3 {
            0 => f64::from_bits(index as u64 % 8),
            1 => index as f64 / 8.0,
            _ => f64::from_bits(0x3f00_0000_3f80_0000 + index as u64),
        };
    }
    for _ in 0..source.within(1, 24) {
        world.call(source);
    }
    for table in world.tables.drain(..) {
        // SAFETY: the table is freed once.
        let status = unsafe { rope_table_free(table) };
        assert_eq!(status, rope_status::Ok);
    }
    for frequencies in world.mixed_owned.drain(..) {
        // SAFETY: the frequencies are freed once.
        let status = unsafe { rope_frequencies_free(frequencies) };
        assert_eq!(status, rope_status::Ok);
    }
    for frequencies in world.owned.drain(..) {
        // SAFETY: the frequencies are freed once.
        let status = unsafe { rope_frequencies_free(frequencies) };
        assert_eq!(status, rope_status::Ok);
    }
}

/// The calls to choose from.
#[derive(Clone, Copy)]
enum Call {
    Rotate,
    RotateQk,
    RotateInto,
    RotateAt,
    Init,
    New,
    NewInverse,
    Configure,
    Free,
    Set,
    Describe,
    Fill,
    Table,
    TableRows,
    TableFreeOrSinusoidal,
    Len,
    Invert,
    FillShift,
    TableShift,
    NormInit,
    Chain,
    ChainInto,
    Squares,
    IntoCache,
    Prepared,
    IntoEach,
    FromCache,
    Shift,
    Backward,
    Terms,
    Reduce,
    Parameters,
    MixedMake,
    MixedFreeOrDescribe,
    MixedRows,
    MixedAt,
    InitialOrGrid,
}

/// All calls; the compiler warns of a missing one. Calls that rotate a tensor, make frequencies in the caller's memory,
/// write a cache, or run the backward pass are listed twice.
const CALLS: &[Call] = &[
    Call::Rotate,
    Call::Rotate,
    Call::RotateQk,
    Call::RotateInto,
    Call::RotateInto,
    Call::RotateAt,
    Call::RotateAt,
    Call::Init,
    Call::Init,
    Call::New,
    Call::NewInverse,
    Call::Configure,
    Call::Free,
    Call::Set,
    Call::Describe,
    Call::Fill,
    Call::Table,
    Call::TableRows,
    Call::TableFreeOrSinusoidal,
    Call::Len,
    Call::Invert,
    Call::FillShift,
    Call::TableShift,
    Call::NormInit,
    Call::Chain,
    Call::ChainInto,
    Call::Squares,
    Call::IntoCache,
    Call::IntoCache,
    Call::Prepared,
    Call::Prepared,
    Call::IntoEach,
    Call::FromCache,
    Call::Shift,
    Call::Backward,
    Call::Backward,
    Call::Terms,
    Call::Reduce,
    Call::Parameters,
    Call::MixedMake,
    Call::MixedMake,
    Call::MixedFreeOrDescribe,
    Call::MixedRows,
    Call::MixedAt,
    Call::InitialOrGrid,
];

/// Returns a pointer to a struct: mostly to this one, otherwise null or misaligned.
fn given<T>(source: &mut Source<'_>, value: &T) -> *const T {
    spoilt(source, (&raw const *value).cast_mut())
}

fn given_mut<T>(source: &mut Source<'_>, value: &mut T) -> *mut T {
    spoilt(source, &raw mut *value)
}

fn spoilt<T>(source: &mut Source<'_>, pointer: *mut T) -> *mut T {
    match source.below(64) {
        1 => null_mut(),
        2 => pointer.wrapping_byte_add(1),
        _ => pointer,
    }
}

/// Returns mostly a value of an enumeration other than 0; other members keep 0.
macro_rules! choice {
    ($source:expr, $kind:ident) => {{
        let values = $kind::ALL.iter().map(|&value| value as usize);
        choice($source, values.max().expect("it has values"))
    }};
}

fn choice(source: &mut Source<'_>, last: usize) -> i32 {
    match source.below(32) {
        1 => source.word() as i32,
        2 => source.below(last + 3) as i32 - 1,
        _ => source.within(1, last) as i32,
    }
}

/// Returns an extent that is mostly small.
fn extent(source: &mut Source<'_>) -> usize {
    match source.below(32) {
        1 => usize::MAX - source.below(3),
        2 => 1 << source.below(usize::BITS as usize),
        3 => source.below(200),
        _ => source.below(5),
    }
}

impl World {
    /// Returns some memory and the number of `T` in it; sometimes a number that no memory can hold.
    fn some<T>(&mut self, source: &mut Source<'_>) -> (*mut c_void, usize) {
        let first = self.memory.as_mut_ptr().cast::<u8>();
        let bytes = size_of_val(&*self.memory);
        let at = match source.below(16) {
            1 => source.below(bytes),
            2 => bytes,
            _ => 8 * source.below(bytes / 8),
        };
        let room = (bytes - at) / size_of::<T>();
        let len = match source.below(24) {
            1 => usize::MAX - source.below(8),
            2 => isize::MAX as usize + 1,
            3..12 => room,
            _ => source.below(room + 1),
        };
        match source.below(32) {
            1 => (null_mut(), len),
            _ => (first.wrapping_add(at).cast(), len),
        }
    }

    fn frequencies(&mut self, source: &mut Source<'_>) -> *mut rope_frequencies {
        let placed = self.places.iter().map(|(_, handle)| *handle);
        let live: Vec<_> = placed
            .filter(|handle| !handle.is_null())
            .chain(self.owned.iter().copied())
            .collect();
        match source.below(24) {
            1 => null_mut(),
            2 => self.garbage.as_mut_ptr().cast(),
            3 => self
                .garbage
                .as_mut_ptr()
                .cast::<u8>()
                .wrapping_add(8)
                .cast(),
            _ if live.is_empty() => null_mut(),
            _ => source.one_of(&live),
        }
    }

    fn table(&mut self, source: &mut Source<'_>) -> *mut rope_table {
        match source.below(24) {
            1 => null_mut(),
            2 => self.garbage.as_mut_ptr().cast(),
            3 => self
                .garbage
                .as_mut_ptr()
                .cast::<u8>()
                .wrapping_add(1)
                .cast(),
            _ if self.tables.is_empty() => null_mut(),
            _ => source.one_of(&self.tables),
        }
    }

    fn axes(&mut self, source: &mut Source<'_>) -> rope_axes {
        if source.once_in(2) {
            return rope_axes_text(2 * source.below(40));
        }
        let (given, count) = self.some::<u8>(source);
        let sections = [(); 4].map(|()| extent(source));
        let covered = sections[..source.within(1, 4)]
            .iter()
            .fold(0_usize, |sum, &pairs| sum.saturating_add(pairs));
        rope_axes {
            kind: choice!(source, rope_axes_kind),
            // The channels of M-RoPE's pairs must be that many.
            rotary_dim: match source.once_in(2) {
                true => covered.saturating_mul(2),
                false => extent(source),
            },
            sections,
            count: if source.once_in(2) {
                at_most(count, source.below(5))
            } else {
                count.min(100).max(count & !0xffff)
            },
            given: given.cast(),
        }
    }

    fn scaling(&mut self, source: &mut Source<'_>) -> rope_scaling {
        let mut scaling: rope_scaling = zero();
        let kind = choice!(source, rope_scaling_kind);
        // SAFETY: `scaling` is a local struct.
        let _ = unsafe { rope_scaling_init(&mut scaling, kind) };
        scaling.kind = kind;
        let [a, b, c, d] = [(); 4].map(|()| number(source));
        (
            scaling.factor,
            scaling.alpha,
            scaling.mixed_b,
            scaling.max_period,
        ) = (a, a, b, b);
        (scaling.min_period, scaling.original_context, scaling.length) =
            (a, source.word().into(), source.word().into());
        if source.once_in(4) {
            (
                scaling.beta_fast,
                scaling.beta_slow,
                scaling.mscale,
                scaling.mscale_all_dim,
            ) = (a, b, c, d);
            (
                scaling.low_freq_factor,
                scaling.high_freq_factor,
                scaling.attention_factor,
            ) = (b, c, d);
            (
                scaling.ntk_factor,
                scaling.extrapolation_factor,
                scaling.partial_rotary_factor,
            ) = (b, c, d);
            scaling.untruncated = source.word() as i32;
        }
        let (list, count) = self.some::<f64>(source);
        (scaling.short_factor, scaling.long_factor, scaling.alphas) =
            (list.cast(), list.cast(), list.cast());
        // A float for every double; the counts are equal.
        scaling.freq_factors = list.cast();
        scaling.count = count;
        scaling
    }

    fn positions(&mut self, source: &mut Source<'_>) -> rope_positions {
        if source.once_in(2) {
            let count = extent(source);
            // As many as memory holds, or more than any memory holds; never a number that takes minutes.
            let count = if count > 1 << 16 {
                count | 1 << (usize::BITS - 2)
            } else {
                count
            };
            let first = (source.wide() as i64) >> source.below(64);
            if source.once_in(4) {
                let kind = choice!(source, rope_positions_kind);
                return rope_positions_shard(kind, count, source.below(4), source.within(1, 4));
            }
            return rope_positions {
                dual_chunk: self.dual_chunk(source),
                ..rope_positions_range(first, count)
            };
        }
        let (values, count) = self.some::<f64>(source);
        let (starts, room) = self.some::<f64>(source);
        rope_positions {
            kind: choice!(source, rope_positions_kind),
            number: choice!(source, rope_number),
            values,
            count: match both(count, room) {
                beyond if beyond > usize::MAX / 64 => beyond,
                count => count.min(source.below(8)),
            },
            first: 0,
            starts: if source.once_in(2) {
                starts
            } else {
                null_mut()
            },
            rank: source.below(5),
            ranks: source.one_of(&[1, 2, 3, 4, 0, usize::MAX]),
            dual_chunk: self.dual_chunk(source),
        }
    }

    fn dual_chunk(&mut self, source: &mut Source<'_>) -> rope_dual_chunk {
        let kind = choice!(source, rope_dual_chunk_query);
        rope_dual_chunk {
            query: if source.once_in(4) { kind } else { 0 },
            chunk_size: source.one_of(&[1, 8, 4096, 0, u32::MAX as usize, usize::MAX]),
            local_size: source.one_of(&[0, 1, 3, usize::MAX]),
        }
    }

    fn layout(&mut self, source: &mut Source<'_>) -> rope_layout {
        let mut layout = rope_layout {
            shape: [(); 4].map(|()| extent(source)),
            strides: [(); 3].map(|()| extent(source)),
        };
        let [batch, tokens, heads, head_dim] = layout.shape;
        let head_dim = if source.once_in(2) {
            2 * head_dim.min(64)
        } else {
            head_dim
        };
        let out = given_mut(source, &mut layout);
        if !source.once_in(5) {
            let order = choice!(source, rope_order);
            // SAFETY: the pointer leads to a struct, is null, or is misaligned.
            let _ = unsafe { rope_layout_init(out, order, batch, tokens, heads, head_dim) };
        }
        layout
    }

    fn tensor(&mut self, source: &mut Source<'_>) -> rope_operand {
        let (data, len) = self.some::<f32>(source);
        let element = choice!(source, rope_element);
        tensor_at(data, len, element, self.layout(source))
    }

    fn some_rows(&mut self, source: &mut Source<'_>) -> rope_angles {
        let mut rows = match (self.rows, source.below(3)) {
            (Some(rows), 0 | 1) => rows,
            (_, 2) => {
                let (cos, len) = self.some::<f32>(source);
                let (sin, room) = self.some::<f32>(source);
                let (width, rotary_dim) = (extent(source), extent(source));
                let rows = match both(len, room) {
                    beyond if beyond > usize::MAX / 64 => beyond,
                    len => len.checked_div(width).unwrap_or(0),
                };
                if source.once_in(4) {
                    full_rows(cos.cast(), sin.cast(), rows, width)
                } else {
                    rope_rows_apart(cos.cast(), sin.cast(), rows, width, rotary_dim)
                }
            }
            _ => {
                let (values, len) = self.some::<f32>(source);
                rope_rows_joined(values.cast(), len, extent(source))
            }
        };
        if source.once_in(6) {
            let (cos, len) = self.some::<f32>(source);
            let (sin, room) = self.some::<f32>(source);
            let layout = self.layout(source);
            rows = strided_rows(cos.cast(), sin.cast(), both(len, room), layout);
        }
        if source.once_in(3) {
            let (ids, count) = self.some::<i64>(source);
            (rows.ids, rows.ids_count, rows.ids_number) = (ids, count, integer_type(source));
        }
        if source.once_in(4) {
            rows.attention_factor = number(source);
        }
        if source.once_in(4) {
            rows.heads = extent(source);
        }
        if source.once_in(4) {
            rows.moves = 1;
        }
        if source.once_in(8) {
            rows.per_channel = 1;
            // Full-width rows of half as many channels need the same memory.
            rows.rotary_dim /= if source.once_in(3) { 1 } else { 2 };
        }
        rows
    }

    fn plan(&mut self, source: &mut Source<'_>) -> rope_plan {
        let directions = rope_direction::ALL.iter().map(|&value| value as i32);
        let directions: Vec<i32> = directions.chain([2, 1, 0, 0, -1]).collect();
        rope_plan {
            pairing: choice!(source, rope_pairing),
            output_pairing: if source.once_in(3) {
                choice!(source, rope_pairing)
            } else {
                0
            },
            direction: source.one_of(&directions),
            backend: if source.once_in(3) {
                choice!(source, rope_backend)
            } else {
                0
            },
            first_channel: match source.below(16) {
                1 => extent(source),
                2 => 2,
                _ => 0,
            },
            ..zero()
        }
    }

    fn call(&mut self, source: &mut Source<'_>) {
        let (plan, x, y) = (self.plan(source), self.tensor(source), self.tensor(source));
        let (plan, q, k) = (given(source, &plan), given(source, &x), given(source, &y));
        let before = self.memory.clone();
        // SAFETY: every pointer is null, misaligned, or leads to as much memory as stated, or the stated length exceeds
        // any memory; handles are live ones, or other memory of the same size.
        let status = unsafe {
            match source.one_of(CALLS) {
                Call::Rotate => {
                    let rows = self.some_rows(source);
                    rope_rotate(plan, q, given(source, &rows))
                }
                Call::RotateQk => {
                    let rows = self.some_rows(source);
                    rope_rotate_qk(plan, q, k, given(source, &rows))
                }
                Call::RotateInto => {
                    let rows = self.some_rows(source);
                    let from = read_only(&x, &y, source);
                    rope_rotate_into(plan, given(source, &from), k, given(source, &rows))
                }
                Call::RotateAt => {
                    let (frequencies, positions) =
                        (self.frequencies(source), self.positions(source));
                    rope_rotate(
                        plan,
                        q,
                        &rope_angles_at(frequencies, given(source, &positions)),
                    )
                }
                Call::Init => self.place(source),
                Call::New => {
                    let (axes, scaling) = (self.axes(source), self.scaling(source));
                    let mut made = null_mut();
                    let scaling = if source.once_in(2) {
                        null()
                    } else {
                        given(source, &scaling)
                    };
                    let out = given_mut(source, &mut made);
                    let status =
                        rope_frequencies_new(given(source, &axes), number(source), scaling, out);
                    self.owned
                        .extend((status == rope_status::Ok).then_some(made));
                    status
                }
                Call::NewInverse => {
                    let (axes, (list, count)) = (self.axes(source), self.some::<f64>(source));
                    let mut made = null_mut();
                    let out = given_mut(source, &mut made);
                    let (kind, factor) = (choice!(source, rope_number), number(source));
                    let status = rope_frequencies_new_inverse(
                        given(source, &axes),
                        list,
                        count,
                        kind,
                        factor,
                        out,
                    );
                    self.owned
                        .extend((status == rope_status::Ok).then_some(made));
                    status
                }
                Call::Configure => self.configure(source),
                Call::Free if !self.owned.is_empty() && source.once_in(2) => {
                    let index = source.below(self.owned.len());
                    rope_frequencies_free(self.owned.swap_remove(index))
                }
                Call::Free => {
                    // A handle that must not be freed.
                    let other = match source.below(3) {
                        0 => null_mut(),
                        1 => self.garbage.as_mut_ptr().cast(),
                        _ => self.places[source.below(PLACES)].1,
                    };
                    rope_frequencies_free(other)
                }
                Call::Set => {
                    let frequencies = self.frequencies(source);
                    if source.once_in(2) {
                        rope_frequencies_set_angle(frequencies, choice!(source, rope_angle))
                    } else {
                        rope_frequencies_set_backend(frequencies, choice!(source, rope_backend))
                    }
                }
                Call::Describe => {
                    let frequencies = self.frequencies(source);
                    let mut info = zero();
                    let out = given_mut(source, &mut info);
                    let status = rope_frequencies_describe(frequencies, out);
                    if status == rope_status::Ok {
                        assert!(
                            info.rotary_dim >= 2 && info.axes >= 1 && info.attention_factor > 0.0
                        );
                    }
                    let (list, len) = self.some::<f64>(source);
                    rope_frequencies_inverse(frequencies, list.cast(), len)
                }
                Call::Fill => {
                    let (frequencies, positions) =
                        (self.frequencies(source), self.positions(source));
                    let (storage, len) = self.some::<f32>(source);
                    let mut rows = zero();
                    let out = given_mut(source, &mut rows);
                    let status = rope_rows_fill(
                        &rope_angles_at(frequencies, given(source, &positions)),
                        storage.cast(),
                        len,
                        out,
                    );
                    if status == rope_status::Ok {
                        assert!(rows.len <= len && rows.cos == storage.cast());
                        self.rows = Some(rows);
                    }
                    status
                }
                Call::Table => {
                    let frequencies = self.frequencies(source);
                    let positions = self.positions(source);
                    let (mut made, mut len) = (null_mut(), 0);
                    let out = given_mut(source, &mut made);
                    // Skips calls that would only test the system's memory.
                    match rope_rows_len(&rope_angles_at(frequencies, &positions), &mut len) {
                        rope_status::Ok if (1 << 20..usize::MAX / 8).contains(&len) => {
                            rope_status::Ok
                        }
                        _ => {
                            let status = rope_table_new(
                                &rope_angles_at(frequencies, given(source, &positions)),
                                out,
                            );
                            self.tables
                                .extend((status == rope_status::Ok).then_some(made));
                            status
                        }
                    }
                }
                Call::TableRows => {
                    let table = self.table(source);
                    let mut rows = zero();
                    let status = rope_table_rows(table, given_mut(source, &mut rows));
                    if status == rope_status::Ok {
                        self.rows = Some(rows);
                    }
                    status
                }
                Call::TableFreeOrSinusoidal if !self.tables.is_empty() && source.once_in(2) => {
                    // The rows of the table are freed with it.
                    self.rows = None;
                    let index = source.below(self.tables.len());
                    rope_table_free(self.tables.swap_remove(index))
                }
                Call::TableFreeOrSinusoidal => {
                    let rows = self.some_rows(source);
                    let (values, len) = self.some::<f32>(source);
                    rope_sinusoidal(given(source, &rows), values.cast(), len)
                }
                Call::Len => {
                    let (frequencies, positions) =
                        (self.frequencies(source), self.positions(source));
                    let mut len = 0;
                    if source.once_in(2) {
                        let (tokens, room) = self.some::<usize>(source);
                        let out = given_mut(source, &mut len);
                        let positions = given(source, &positions);
                        rope_shard_tokens(positions, tokens.cast(), room, out)
                    } else {
                        let out = given_mut(source, &mut len);
                        rope_rows_len(&rope_angles_at(frequencies, given(source, &positions)), out)
                    }
                }
                Call::Invert => {
                    let rows = self.some_rows(source);
                    let (storage, len) = self.some::<f32>(source);
                    let mut inverted = zero();
                    let out = given_mut(source, &mut inverted);
                    let status = rope_rows_invert(given(source, &rows), storage.cast(), len, out);
                    if status == rope_status::Ok {
                        assert!(inverted.len <= len && inverted.cos == storage.cast());
                        self.rows = Some(inverted);
                    }
                    status
                }
                Call::FillShift => self.fill_shift(source),
                Call::TableShift => self.table_shift(source),
                Call::NormInit => {
                    let mut norm = zero();
                    let out = given_mut(source, &mut norm);
                    rope_norm_init(out, choice!(source, rope_norm_formula))
                }
                Call::Chain => {
                    let x = self.near(source);
                    let stages = self.stages(source, x.layout.shape);
                    let chain = stages.chain(source);
                    let rows = self.rows_for(source, x.layout.shape);
                    let (chain, x) = (given(source, &chain), given(source, &x));
                    if source.once_in(3) {
                        rope_apply(chain, x)
                    } else {
                        rope_rotate(chain, x, given(source, &rows))
                    }
                }
                Call::ChainInto => {
                    let (x, mut y) = (self.near(source), self.near(source));
                    (y.data, y.len) = self.part::<f32>(source, 1);
                    if !source.once_in(4) {
                        y.layout = x.layout;
                    }
                    let stages = self.stages(source, x.layout.shape);
                    let chain = stages.chain(source);
                    let rows = self.rows_for(source, x.layout.shape);
                    let x = read_only(&x, &x, source);
                    rope_rotate_into(
                        given(source, &chain),
                        given(source, &x),
                        given(source, &y),
                        given(source, &rows),
                    )
                }
                Call::Squares => {
                    let (x, (sums, len)) = (self.near(source), self.part::<f32>(source, 1));
                    let stages = self.stages(source, x.layout.shape);
                    let chain = stages.chain(source);
                    let [batch, tokens, heads, _] = x.layout.shape;
                    // Mostly the right number of rows.
                    let rows = batch.saturating_mul(tokens);
                    let needed = source.one_of(&[rows, rows.saturating_mul(heads), len]);
                    let len = at_most(len, needed);
                    let x = read_only(&x, &x, source);
                    rope_sum_of_squares(given(source, &chain), given(source, &x), sums.cast(), len)
                }
                Call::IntoCache => {
                    let x = self.near(source);
                    let stages = self.stages(source, x.layout.shape);
                    let chain = stages.chain(source);
                    let cache = self.cache(source, x.layout.shape, [1, 2]);
                    let slots = self.slots(source, x.layout.shape);
                    let x = read_only(&x, &x, source);
                    let rows = self.rows_for(source, x.layout.shape);
                    let (chain, x) = (given(source, &chain), given(source, &x));
                    let (cache, slots) = (given(source, &cache), given(source, &slots));
                    if source.once_in(3) {
                        rope_apply_into(chain, x, &in_slots(cache, slots))
                    } else {
                        rope_rotate_into(chain, x, &in_slots(cache, slots), given(source, &rows))
                    }
                }
                Call::Prepared => self.prepared(source),
                Call::IntoEach => {
                    let x = self.near(source);
                    let stages = self.stages(source, x.layout.shape);
                    let chain = stages.chain(source);
                    let (mut y, groups) = (self.near(source), source.below(4));
                    if !source.once_in(4) {
                        y.layout.shape = x.layout.shape;
                        let heads = &mut y.layout.shape[2];
                        *heads = heads.saturating_mul(groups.max(1));
                    }
                    let cache = self.cache(source, x.layout.shape, [1, 2]);
                    let slots = self.slots(source, x.layout.shape);
                    let rows = [(); 3].map(|()| self.rows_for(source, x.layout.shape));
                    let x = read_only(&x, &x, source);
                    let to = in_slots(given(source, &cache), given(source, &slots));
                    let output = |source: &mut Source<'_>| rope_output {
                        y: if source.once_in(2) {
                            given(source, &to)
                        } else {
                            given(source, &y)
                        },
                        rows: spoilt(source, rows.as_ptr().cast_mut()),
                        groups,
                    };
                    let outputs = [output(source), output(source)];
                    let (chain, x) = (given(source, &chain), given(source, &x));
                    let count = source.below(3);
                    let outputs = spoilt(source, outputs.as_ptr().cast_mut());
                    rope_rotate_into_each(chain, x, outputs, count)
                }
                Call::FromCache => {
                    let y = self.near(source);
                    let stages = self.stages(source, y.layout.shape);
                    let chain = stages.chain(source);
                    let cache = self.cache(source, y.layout.shape, [1, 2]);
                    let slots = self.slots(source, y.layout.shape);
                    let rows = self.rows_for(source, y.layout.shape);
                    let (chain, y) = (given(source, &chain), given(source, &y));
                    let (cache, slots) = (given(source, &cache), given(source, &slots));
                    if source.once_in(3) {
                        rope_apply_into(chain, &in_slots(cache, slots), y)
                    } else {
                        rope_rotate_into(chain, &in_slots(cache, slots), y, given(source, &rows))
                    }
                }
                Call::Shift => {
                    let [batch, tokens, heads, head_dim] = self.near(source).layout.shape;
                    let shape = [1, batch.saturating_mul(tokens), heads, head_dim];
                    let cache = self.cache(source, shape, [1, 2]);
                    let stages = self.stages(source, shape);
                    let chain = rope_plan {
                        norm: null(),
                        ..stages.chain(source)
                    };
                    let (slots, rows) = (self.slots(source, shape), self.rows_for(source, shape));
                    let (cache, slots) = (given(source, &cache), given(source, &slots));
                    let rows = given(source, &rows);
                    rope_rotate(given(source, &chain), &in_slots(cache, slots), rows)
                }
                Call::Backward => self.backward(source),
                Call::Terms => self.terms(source),
                Call::Reduce => self.reduce(source),
                Call::Parameters => self.parameters(source),
                Call::MixedMake => self.mixed_make(source),
                Call::MixedFreeOrDescribe => self.mixed_free_or_describe(source),
                Call::MixedRows => self.mixed_rows(source),
                Call::MixedAt => {
                    let x = if source.once_in(3) {
                        x
                    } else {
                        self.near(source)
                    };
                    let plan = if source.once_in(3) {
                        plan
                    } else {
                        &self.right_plan(source)
                    };
                    let (frequencies, positions) = (self.mixed(source), self.positions(source));
                    let tokens = rope_positions_range(-2, x.layout.shape[1]);
                    let positions = if source.once_in(3) { positions } else { tokens };
                    rope_rotate(
                        plan,
                        given(source, &x),
                        &rope_angles_at(frequencies, given(source, &positions)),
                    )
                }
                Call::InitialOrGrid => self.initial_or_grid(source),
            }
        };
        assert_ne!(status, rope_status::Internal, "a panic");
        assert_ne!(status, rope_status::Refused, "a reason without a name");
        let message = rope_error_message(status as i32);
        // SAFETY: the message is static text.
        assert!(!unsafe { CStr::from_ptr(message) }.is_empty());
        if status != rope_status::Ok {
            detail(source);
            let same = before
                .iter()
                .zip(self.memory.iter())
                .all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(same, "{status:?} has written");
        }
    }

    /// OperandAddresses frequencies in one of the places, which the handle then uses, or in memory that all calls use.
    ///
    /// # Safety
    ///
    /// As for the C calls that it makes.
    unsafe fn place(&mut self, source: &mut Source<'_>) -> rope_status {
        let (axes, scaling, (list, count)) = (
            self.axes(source),
            self.scaling(source),
            self.some::<f64>(source),
        );
        let index = source.below(PLACES);
        let inverse = source.once_in(3);
        let scaling = if source.once_in(2) {
            null()
        } else {
            given(source, &scaling)
        };
        let axes = given(source, &axes);
        let (base, kind) = (number(source), choice!(source, rope_number));
        let (memory, handle) = &mut self.places[index];
        *handle = null_mut();
        let shift = source.below(64);
        let size = match source.below(16) {
            1 => usize::MAX - source.below(64),
            2 => source.below(PLACE - shift),
            _ => PLACE - shift,
        };
        let memory = match source.below(32) {
            1 => null_mut(),
            _ => memory.as_mut_ptr().wrapping_add(shift),
        };
        let mut made = null_mut();
        let out = given_mut(source, &mut made);
        // SAFETY: as for all calls.
        let status = unsafe {
            if inverse {
                rope_frequencies_init_inverse(
                    memory.cast(),
                    size,
                    axes,
                    list,
                    count,
                    kind,
                    base,
                    out,
                )
            } else {
                rope_frequencies_init(memory.cast(), size, axes, base, scaling, out)
            }
        };
        if status == rope_status::Ok {
            *handle = made;
        }
        status
    }

    /// Makes frequencies from the text of a configuration with all kinds of errors.
    ///
    /// # Safety
    ///
    /// As for the C calls that it makes.
    unsafe fn configure(&mut self, source: &mut Source<'_>) -> rope_status {
        const TEXTS: [&[u8]; 6] = [
            br#"{"model_type":"llama","head_dim":64,"rope_theta":10000.0}"#,
            br#"{"model_type":"deepseek_v3","qk_rope_head_dim":64,"rope_theta":10000.0}"#,
            br#"{"model_type":"none","head_dim":64,"rope_theta":10000.0}"#,
            br#"{"head_dim":"x"}"#,
            b"{\xff}",
            b"",
        ];
        let text = source.one_of(&TEXTS);
        let len = if source.once_in(2) {
            text.len()
        } else {
            source.below(text.len() + 1)
        };
        let names = [
            null(),
            c"llama".as_ptr(),
            c"full_attention".as_ptr(),
            c"\xff".as_ptr(),
            c"".as_ptr(),
        ];
        let config = rope_config {
            part: source.one_of(&names),
            model_type: source.one_of(&names),
            layer_type: source.one_of(&names),
            without: source.one_of(&names),
            length: source.word().into(),
            head_dim: source.one_of(&[0, 64, 128, 192]),
            lenient: source.below(2) as i32,
        };
        let config = if source.once_in(2) {
            null()
        } else {
            given(source, &config)
        };
        let (mut made, mut plan) = (null_mut(), zero::<rope_plan>());
        let out = given_mut(source, &mut made);
        let plan = given_mut(source, &mut plan);
        // SAFETY: as for all calls.
        let status =
            unsafe { rope_frequencies_from_config(text.as_ptr().cast(), len, config, out, plan) };
        self.owned
            .extend((status == rope_status::Ok).then_some(made));
        self.read_gguf(source);
        let mut model = null_mut();
        // SAFETY: as for all calls; the model is freed once.
        unsafe {
            if rope_model_from_config(text.as_ptr().cast(), len, config, &mut model)
                == rope_status::Ok
            {
                let (mut count, mut frequencies) = (0, null_mut());
                assert_eq!(rope_model_layers(model, &mut count), rope_status::Ok);
                let mut layer = zero();
                let index = source.below(3);
                let status = rope_model_describe_layer(model, index, &mut layer);
                assert_eq!(status == rope_status::Ok, index < count);
                let (mut text, mut significant) = ([1 as c_char; 24], 7);
                let size = source.below(25);
                let listed =
                    rope_model_ignored(model, index, text.as_mut_ptr(), size, &mut significant);
                assert_eq!(listed == rope_status::Ok, significant < 2);
                assert!(text[size..].iter().all(|&byte| byte == 1));
                if rope_model_frequencies(model, index, &mut frequencies) == rope_status::Ok {
                    assert_eq!(rope_frequencies_free(frequencies), rope_status::Ok);
                }
                assert_eq!(rope_model_free(model), rope_status::Ok);
            }
        }
        status
    }

    /// Reads a model from the bytes of a GGUF file, whole or cut off, with all kinds of errors.
    fn read_gguf(&mut self, source: &mut Source<'_>) {
        let keys = [
            ("general.architecture", Value::text("llama")),
            ("llama.block_count", Value::U32(2)),
            ("llama.attention.key_length", Value::U32(64)),
            ("split.count", Value::U16(source.below(3) as u16)),
        ];
        let file = File::new(&keys, &[("rope_freqs.weight", &[2.0; 32])]).write();
        let cut = |source: &mut Source<'_>| match source.once_in(2) {
            true => file.len(),
            false => source.below(file.len() + 1),
        };
        let parts = [(); 2].map(|()| rope_bytes {
            data: if source.once_in(4) {
                null()
            } else {
                file.as_ptr()
            },
            length: cut(source),
        });
        let (factors, count) = self.some::<f32>(source);
        let gguf = rope_gguf {
            parts: if source.once_in(2) {
                null()
            } else {
                parts.as_ptr()
            },
            part_count: source.below(3),
            without: source.one_of(&[null(), c"llama.x".as_ptr(), c"\xff".as_ptr()]),
            context: source.word().into(),
            freq_factors: factors.cast(),
            freq_factor_count: count,
        };
        let mut model = null_mut();
        let data = if source.once_in(8) {
            null()
        } else {
            file.as_ptr()
        };
        let (length, gguf) = (cut(source), given(source, &gguf));
        // SAFETY: as for all calls; the model is freed once.
        unsafe {
            if rope_model_from_gguf(data, length, gguf, &mut model) == rope_status::Ok {
                assert_eq!(rope_model_free(model), rope_status::Ok);
            }
        }
    }
}

/// Limits a count to the available room, unless the count exceeds any memory; then it stays.
fn at_most(room: usize, count: usize) -> usize {
    if room < usize::MAX / 64 {
        room.min(count)
    } else {
        room
    }
}

/// Returns the smaller room of two places, or a count beyond any memory if one place has it.
fn both(room: usize, other: usize) -> usize {
    if room.max(other) < usize::MAX / 64 {
        room.min(other)
    } else {
        room.max(other)
    }
}

impl World {
    /// Returns a part of the memory and the number of `T` in it; sometimes any memory.
    fn part<T>(&mut self, source: &mut Source<'_>, index: usize) -> (*mut c_void, usize) {
        if source.once_in(24) {
            return self.some::<T>(source);
        }
        let bytes = size_of_val(&*self.memory) / PARTS;
        let first = self.memory.as_mut_ptr().cast::<u8>();
        let first = first.wrapping_add(index * bytes);
        (first.cast(), bytes / size_of::<T>())
    }

    /// Returns a tensor with a few heads of a few channels, which the other arguments fit.
    fn near(&mut self, source: &mut Source<'_>) -> rope_operand {
        if source.once_in(16) {
            return self.tensor(source);
        }
        let (data, len) = self.part::<f32>(source, 0);
        let [batch, tokens, heads, head_dim] = [
            source.within(1, 2),
            source.within(1, 3),
            source.within(1, 2),
            source.one_of(&[2, 4, 8, 8, 32]),
        ];
        let layout = rope_layout {
            shape: [batch, tokens, heads, head_dim],
            strides: [tokens * heads * head_dim, heads * head_dim, head_dim],
        };
        tensor_at(data, len, choice!(source, rope_element), layout)
    }

    /// Returns rows that mostly fit a tensor.
    fn rows_for(
        &mut self,
        source: &mut Source<'_>,
        [batch, tokens, heads, head_dim]: [usize; 4],
    ) -> rope_angles {
        let (values, room) = self.part::<f32>(source, 5);
        let rotary_dim = source.one_of(&[head_dim, head_dim, 2]);
        let rows = source.one_of(&[tokens, tokens, batch.saturating_mul(tokens)]);
        if source.once_in(8) {
            return self.some_rows(source);
        }
        // Sometimes a row for each head.
        let of_heads = if source.once_in(3) { heads } else { 1 };
        let needed = rows.saturating_mul(rotary_dim).saturating_mul(of_heads);
        rope_angles {
            heads: of_heads,
            ..rope_rows_joined(values.cast(), at_most(room, needed), rotary_dim)
        }
    }

    /// Returns a plan that mostly works in place.
    fn right_plan(&mut self, source: &mut Source<'_>) -> rope_plan {
        let plan = self.plan(source);
        if source.once_in(8) {
            return plan;
        }
        rope_plan {
            pairing: source.within(1, 2) as i32,
            direction: source.below(3) as i32,
            ..zero()
        }
    }

    fn weights(&mut self, source: &mut Source<'_>, counts: [usize; 2]) -> rope_weights {
        if source.once_in(2) {
            return zero();
        }
        let (data, count) = self.part::<f32>(source, 5);
        let [head, row] = counts;
        rope_weights {
            data,
            count: at_most(count, source.one_of(&[head, row, head, row, count])),
            element: choice!(source, rope_element),
        }
    }

    /// Returns the stages of a chain, mostly with numbers that fit a tensor.
    fn stages(
        &mut self,
        source: &mut Source<'_>,
        [batch, tokens, heads, head_dim]: [usize; 4],
    ) -> Stages {
        let rows = batch.saturating_mul(tokens);
        let counts = [rows, rows.saturating_mul(heads)];
        let all = [head_dim, heads.saturating_mul(head_dim)];
        let mut norm: rope_norm = zero();
        // SAFETY: the pointer leads to a local struct.
        let _ = unsafe { rope_norm_init(&mut norm, choice!(source, rope_norm_formula)) };
        if source.once_in(8) {
            (norm.centered, norm.result) =
                (source.word() as i32, choice!(source, rope_norm_result));
        }
        norm.eps = if source.once_in(8) {
            number(source) as f32
        } else {
            1e-6
        };
        (norm.weight, norm.bias) = (self.weights(source, all), self.weights(source, all));
        // Half of the norms without weights use a formula without weights.
        if norm.weight.count == 0 && source.once_in(2) {
            norm.weighted = 0;
        }
        let few = |source: &mut Source<'_>| match source.below(64) {
            2 => -1,
            3 => 2,
            other => other as i32 % 2,
        };
        (norm.reach, norm.order, norm.sum) = (few(source), few(source), few(source));
        if source.once_in(4) {
            let (sums, count) = self.part::<f32>(source, 5);
            (norm.sums, norm.sums_count, norm.sums_width) = (
                sums.cast(),
                at_most(count, source.one_of(&counts)),
                extent(source),
            );
        }
        let (factors, count) = self.part::<f32>(source, 5);
        let kind = choice!(source, rope_scale_kind);
        let block = match source.below(8) {
            0 => 1 << source.below(12),
            1 => extent(source),
            // Mostly a block that divides a head.
            2..4 if head_dim > 0 => 1 << source.below(head_dim.trailing_zeros() as usize + 1),
            _ => 0,
        };
        let mut hadamard = rope_hadamard {
            block,
            factor: few(source),
        };
        if source.once_in(8) {
            let preset = choice!(source, rope_hadamard_preset);
            // SAFETY: the pointer leads to a local struct.
            let status =
                unsafe { rope_hadamard_init(given_mut(source, &mut hadamard), preset, head_dim) };
            assert_ne!(status, rope_status::Internal);
        }
        Stages {
            norm,
            hadamard,
            scale: rope_scale {
                kind,
                factor: number(source) as f32,
                factors: factors.cast(),
                count: match kind {
                    2 => at_most(count, counts[0]),
                    3 => at_most(count, counts[1]),
                    _ => count,
                },
                order: few(source),
                unrounded: few(source),
            },
            plan: self.right_plan(source),
        }
    }

    /// Returns a cache in these parts of the memory, mostly for the heads of a tensor.
    fn cache(
        &mut self,
        source: &mut Source<'_>,
        [batch, _, heads, head_dim]: [usize; 4],
        [codes, scales]: [usize; 2],
    ) -> rope_cache {
        let (memory, bytes) = self.part::<u8>(source, codes);
        let (scales, scales_count) = self.part::<f32>(source, scales);
        let (each, each_count) = self.part::<f32>(source, 5);
        let kind = choice!(source, rope_cache_layout_kind);
        let (blocks, size, x) = (
            source.one_of(&[batch, 1, 2, 4]),
            source.one_of(&[1, 2, 4]),
            source.one_of(&[1, 2]),
        );
        let over = |extent: usize| extent / x;
        let mut extents = match kind {
            2 => [blocks, heads, size, head_dim, 0],
            3 => [blocks, heads, head_dim, size, 0],
            4 => [blocks, heads, over(head_dim), size, x],
            5 => [blocks, heads, over(size), head_dim, x],
            _ => [blocks, size, heads, head_dim, 0],
        };
        if source.once_in(16) {
            extents[source.below(5)] = extent(source);
        }
        let mut layout = rope_cache_layout {
            kind,
            extents,
            strides: zero(),
            channels: [0, 0],
        };
        if source.once_in(2) {
            // The strides of nhd.
            layout.strides.channel = 1;
            layout.strides.head = head_dim;
            layout.strides.token = heads.wrapping_mul(head_dim);
            layout.strides.block = size.wrapping_mul(layout.strides.token);
            (layout.strides.group, layout.strides.chunk) = (size, head_dim);
        } else {
            let [block, group, group_stride, token] = [(); 4].map(|()| extent(source));
            let [head, chunk, chunk_stride, channel] = [(); 4].map(|()| extent(source));
            layout.strides = rope_cache_strides {
                block,
                group,
                group_stride,
                token,
                head,
                chunk,
                chunk_stride,
                channel,
            };
        }
        let inline = source.once_in(4) && kind < 3;
        if inline {
            // Room for a scale behind the channels.
            layout.extents[3] = layout.extents[3].saturating_add(4);
            layout.channels = [0, head_dim];
        } else if source.once_in(16) {
            layout.channels = [extent(source), extent(source)];
        }
        rope_cache {
            memory,
            bytes,
            format: choice!(source, rope_cache_format),
            layout,
            scale: rope_quant_scale {
                kind: if inline {
                    rope_quant_scale_kind::MadeInline as i32
                } else {
                    choice!(source, rope_quant_scale_kind)
                },
                same: if source.once_in(4) {
                    number(source) as f32
                } else {
                    0.5
                },
                each: if source.once_in(2) {
                    each.cast()
                } else {
                    null()
                },
                each_count: at_most(each_count, source.one_of(&[0, heads, heads])),
                least: if source.once_in(8) {
                    number(source) as f32
                } else {
                    1e-6
                },
                behind: if source.once_in(8) {
                    extent(source)
                } else {
                    head_dim
                },
                strides: if source.once_in(8) {
                    [(); 3].map(|()| extent(source))
                } else {
                    [size.saturating_mul(heads), heads, 1]
                },
            },
            scales: scales.cast(),
            scales_count,
        }
    }

    fn ids(&mut self, source: &mut Source<'_>, count: usize) -> rope_ids {
        // The parts with integers.
        let part = source.one_of(&[3, 6]);
        let (values, room) = self.part::<i64>(source, part);
        rope_ids {
            values,
            count: if source.once_in(16) {
                room
            } else {
                at_most(room, count)
            },
            number: integer_type(source),
        }
    }

    /// Returns mostly as many slots as a tensor has tokens.
    fn slots(&mut self, source: &mut Source<'_>, shape: [usize; 4]) -> rope_slots {
        let [batch, tokens, ..] = shape;
        let needed = batch.saturating_mul(tokens);
        let (offsets, room) = self.part::<i64>(source, 3);
        let (slots, positions) = (self.ids(source, needed), self.ids(source, needed));
        let (starts, sequences) = (self.ids(source, 8), self.ids(source, needed));
        let width = source.within(1, 3);
        let kind = choice!(source, rope_slots_kind);
        rope_slots {
            kind,
            slots,
            positions,
            pages: self.ids(source, batch.saturating_mul(width)),
            starts,
            sequences,
            width: if source.once_in(8) {
                extent(source)
            } else {
                width
            },
            first: if source.once_in(4) { extent(source) } else { 0 },
            count: if kind == rope_slots_kind::Offsets as i32 {
                at_most(room, needed)
            } else {
                needed
            },
            offsets: offsets.cast(),
        }
    }

    /// Prepares a call and runs it once: at its own memory, or at memory that may be null, misaligned, or overlap the
    /// call's other memory.
    ///
    /// # Safety
    ///
    /// As for the C calls that it makes.
    unsafe fn prepared(&mut self, source: &mut Source<'_>) -> rope_status {
        let (x, mut y) = (self.near(source), self.near(source));
        (y.data, y.len) = self.part::<f32>(source, 1);
        if !source.once_in(8) {
            y.layout = x.layout;
        }
        let shape = x.layout.shape;
        let stages = self.stages(source, shape);
        let chain = match source.once_in(2) {
            true => stages.plan,
            false => stages.chain(source),
        };
        let (cache, slots) = (self.cache(source, shape, [1, 2]), self.slots(source, shape));
        let (to, rows) = (in_slots(&cache, &slots), self.rows_for(source, shape));
        let into_cache = source.once_in(2);
        let second = if into_cache { &to } else { &y };
        let angles = if source.once_in(8) {
            null()
        } else {
            &raw const rows
        };
        let mut call: rope_call = zero();
        let verb = source.below(3);
        // SAFETY: as for all calls.
        let status = unsafe {
            let (plan, x) = (given(source, &chain), given(source, &x));
            let out = given_mut(source, &mut call);
            match verb {
                0 => rope_prepare(plan, x, angles, out),
                1 => rope_prepare_qk(plan, x, given(source, &y), angles, out),
                _ => rope_prepare_into(plan, x, given(source, second), angles, out),
            }
        };
        if status != rope_status::Ok {
            // A call that was not prepared does not run.
            // SAFETY: the struct of a call that was not prepared.
            assert_eq!(unsafe { rope_call_run(&call) }, rope_status::Handle);
            return status;
        }
        let copied = call;
        if source.once_in(3) {
            // SAFETY: the memory of the prepared call exists.
            return unsafe { rope_call_run(&copied) };
        }
        // Every place has as much memory as the prepared call needs.
        let (first, all) = (self.memory.as_mut_ptr(), size_of_val(&*self.memory));
        let place = |source: &mut Source<'_>, bytes: usize, own: *mut c_void| {
            let last = all.saturating_sub(bytes) / 8;
            match source.below(12) {
                0 => null_mut(),
                1 => own.wrapping_byte_add(1),
                2..6 => own,
                _ => first.wrapping_add(source.below(last + 1)).cast(),
            }
        };
        let other = self.slots(source, shape);
        let in_second = verb == 2 && into_cache;
        let second = if in_second {
            cache.bytes
        } else {
            y.len.saturating_mul(4)
        };
        let second_at = if in_second { cache.memory } else { y.data };
        let memory = rope_call_memory {
            x: place(source, x.len.saturating_mul(4), x.data),
            y: place(source, second, second_at),
            cos: place(
                source,
                rows.len.saturating_mul(4),
                rows.cos.cast_mut().cast(),
            )
            .cast(),
            sin: place(
                source,
                rows.len.saturating_mul(4),
                rows.sin.cast_mut().cast(),
            )
            .cast(),
            ids: place(
                source,
                rows.ids_count.saturating_mul(8),
                rows.ids.cast_mut(),
            ),
            slots: match source.below(4) {
                0 => null(),
                _ => given(source, &other),
            },
            scales: place(
                source,
                cache.scales_count.saturating_mul(4),
                cache.scales.cast(),
            )
            .cast(),
            weight: place(
                source,
                stages.norm.weight.count.saturating_mul(4),
                stages.norm.weight.data.cast_mut(),
            ),
            bias: place(
                source,
                stages.norm.bias.count.saturating_mul(4),
                stages.norm.bias.data.cast_mut(),
            ),
            ..zero()
        };
        let memory = given(source, &memory);
        // SAFETY: pointers are null, misaligned, or lead to as much memory as the prepared call needs.
        unsafe { rope_call_run_at(&copied, memory) }
    }

    /// Fills rows that move keys into memory that all calls use.
    ///
    /// # Safety
    ///
    /// As for the C calls that it makes.
    unsafe fn fill_shift(&mut self, source: &mut Source<'_>) -> rope_status {
        let (frequencies, old) = (self.frequencies(source), self.frequencies(source));
        let (from, to) = (self.positions(source), self.positions(source));
        let (storage, len) = self.some::<f32>(source);
        let storage = storage.cast();
        let (from, to) = (given(source, &from), given(source, &to));
        let mut rows = zero();
        let out = given_mut(source, &mut rows);
        // SAFETY: as for all calls.
        let status = unsafe {
            if source.once_in(2) {
                rope_rows_fill(&moved_by(frequencies, to), storage, len, out)
            } else {
                let from = if source.once_in(2) { to } else { from };
                rope_rows_fill(&moved_from(frequencies, old, from, to), storage, len, out)
            }
        };
        if status == rope_status::Ok {
            assert!(rows.len <= len && rows.cos == storage);
            self.rows = Some(rows);
        }
        status
    }

    /// Makes a table of rows that move keys.
    ///
    /// # Safety
    ///
    /// As for the C calls that it makes.
    unsafe fn table_shift(&mut self, source: &mut Source<'_>) -> rope_status {
        let (frequencies, old) = (self.frequencies(source), self.frequencies(source));
        let (from, to) = (self.positions(source), self.positions(source));
        let (mut made, mut len) = (null_mut(), 0);
        // SAFETY: as for all calls.
        let status = unsafe { rope_rows_len(&rope_angles_at(frequencies, &to), &mut len) };
        // Skips calls that would only test the system's memory, or take long.
        if status == rope_status::Ok && (1 << 14..usize::MAX / 8).contains(&len) {
            return rope_status::Ok;
        }
        let (from, to) = (given(source, &from), given(source, &to));
        let out = given_mut(source, &mut made);
        // SAFETY: as for all calls.
        let status = unsafe {
            if source.once_in(2) {
                rope_table_new(&moved_by(frequencies, to), out)
            } else {
                let from = if source.once_in(2) { to } else { from };
                rope_table_new(&moved_from(frequencies, old, from, to), out)
            }
        };
        self.tables
            .extend((status == rope_status::Ok).then_some(made));
        status
    }
}

/// Gradients: two tensors that are read, or one that is written, and the sums of pairs.
impl World {
    /// Returns sums of pairs, mostly of a shape that fits a tensor.
    fn gradients(
        &mut self,
        source: &mut Source<'_>,
        [batch, tokens, heads, head_dim]: [usize; 4],
        part: usize,
    ) -> rope_pair_gradients {
        let (sums, _) = self.part::<f64>(source, part);
        let any = source.once_in(16);
        let mut choice = |right: &[usize]| match any {
            true => extent(source),
            false => source.one_of(right),
        };
        let (rows, heads) = (
            choice(&[tokens, tokens, batch.saturating_mul(tokens)]),
            choice(&[heads, 1, 0]),
        );
        let pairs = choice(&[head_dim / 2, head_dim / 2, 1]);
        self.there(sums.cast(), [rows, heads, pairs])
    }

    /// Limits the sums to the available ones by fewer rows, unless their number exceeds any memory.
    fn there(&self, sums: *mut f64, [rows, heads, pairs]: [usize; 3]) -> rope_pair_gradients {
        let end = self.memory.as_ptr_range().end.addr();
        let room = end.saturating_sub(sums.addr()) / size_of::<f64>();
        let row = heads.max(1).saturating_mul(pairs);
        let len = rows.saturating_mul(row);
        let fits = sums.is_null() || len <= room || len >= usize::MAX / 16;
        rope_pair_gradients {
            sums,
            rows: if fits { rows } else { room / row },
            heads,
            pairs,
        }
    }

    /// # Safety
    ///
    /// As for the C calls that it makes.
    unsafe fn backward(&mut self, source: &mut Source<'_>) -> rope_status {
        let plan = self.right_plan(source);
        let plan = rope_plan {
            direction: if source.once_in(8) { plan.direction } else { 0 },
            ..plan
        };
        let (y, mut dy, mut dx) = (self.near(source), self.near(source), self.near(source));
        (dy.data, dy.len) = self.part::<f32>(source, 2);
        (dx.data, dx.len) = self.part::<f32>(source, 3);
        if !source.once_in(16) {
            (dy.element, dy.layout, dx.layout) = (y.element, y.layout, y.layout);
        }
        let shape = y.layout.shape;
        let (rows, angles) = (
            self.rows_for(source, shape),
            self.gradients(source, shape, 6),
        );
        let stages = self.stages(source, shape);
        let chain = rope_plan {
            pairing: plan.pairing,
            output_pairing: plan.output_pairing,
            direction: plan.direction,
            backend: plan.backend,
            norm: if source.once_in(16) {
                &stages.norm
            } else {
                null()
            },
            ..stages.chain(source)
        };
        let (plan, y) = (given(source, &plan), read_only(&y, &y, source));
        let (y, rows) = (given(source, &y), given(source, &rows));
        let angles = given(source, &angles);
        // SAFETY: as for all calls.
        unsafe {
            if source.once_in(2) {
                rope_backward(plan, y, given(source, &dy), rows, angles)
            } else if source.once_in(2) {
                rope_backward(given(source, &chain), y, given(source, &dy), rows, angles)
            } else {
                let dy = read_only(&dy, &dy, source);
                let (dy, dx) = (given(source, &dy), given(source, &dx));
                rope_backward_into(plan, y, dy, dx, rows, angles)
            }
        }
    }

    /// # Safety
    ///
    /// As for the C calls that it makes.
    unsafe fn terms(&mut self, source: &mut Source<'_>) -> rope_status {
        let plan = self.right_plan(source);
        let plan = rope_plan {
            direction: if source.once_in(8) { plan.direction } else { 0 },
            ..plan
        };
        let (x, mut dy) = (self.near(source), self.near(source));
        (dy.data, dy.len) = self.part::<f32>(source, 2);
        if !source.once_in(16) {
            (dy.element, dy.layout) = (x.element, x.layout);
        }
        let shape = x.layout.shape;
        // Read-only tensors may be broadcast; a short memory could make a call of hours.
        if shape
            .iter()
            .fold(1, |all: usize, extent| all.saturating_mul(*extent))
            > 1 << 16
        {
            return rope_status::Ok;
        }
        let (first, second) = (
            self.gradients(source, shape, 6),
            self.gradients(source, shape, 7),
        );
        let (x, dy) = (read_only(&x, &x, source), read_only(&dy, &dy, source));
        let (plan, x, dy) = (given(source, &plan), given(source, &x), given(source, &dy));
        let (first, second) = (given(source, &first), given(source, &second));
        // SAFETY: as for all calls.
        unsafe {
            match source.below(5) {
                4 => rope_gradients(
                    rope_gradient_kind::Channels as i32,
                    plan,
                    x,
                    dy,
                    first,
                    second,
                ),
                0 => rope_gradients(
                    rope_gradient_kind::Angles as i32,
                    plan,
                    x,
                    dy,
                    first,
                    null(),
                ),
                1 => rope_gradients(
                    rope_gradient_kind::AnglesOfInput as i32,
                    plan,
                    x,
                    dy,
                    first,
                    null(),
                ),
                2 => rope_gradients(
                    rope_gradient_kind::Factors as i32,
                    plan,
                    x,
                    dy,
                    first,
                    null(),
                ),
                _ => rope_gradients(
                    rope_gradient_kind::CosSin as i32,
                    plan,
                    x,
                    dy,
                    first,
                    second,
                ),
            }
        }
    }

    /// # Safety
    ///
    /// As for the C calls that it makes.
    unsafe fn reduce(&mut self, source: &mut Source<'_>) -> rope_status {
        let shape = self.near(source).layout.shape;
        let (angles, factors) = (
            self.gradients(source, shape, 6),
            self.gradients(source, shape, 7),
        );
        let factors = rope_pair_gradients {
            rows: angles.rows,
            heads: angles.heads,
            pairs: angles.pairs,
            ..factors
        };
        let factors = self.there(factors.sums, [factors.rows, factors.heads, factors.pairs]);
        let axes = source.one_of(&[1, 2, 2, 5]);
        let axes = if source.once_in(16) {
            extent(source)
        } else {
            axes
        };
        let row = angles.heads.max(1).saturating_mul(angles.pairs);
        let (out, room) = self.part::<f64>(source, 1);
        let (other, more) = self.part::<f64>(source, 2);
        let (out, other) = (out.cast(), other.cast());
        let positions = match source.once_in(4) {
            true => self.positions(source),
            false => rope_positions_range(-3, angles.rows),
        };
        let rows = self.rows_for(source, shape);
        let all = angles.rows.saturating_mul(row);
        let (first, second) = (given(source, &angles), given(source, &factors));
        // SAFETY: as for all calls.
        unsafe {
            match source.below(4) {
                0 => {
                    let len = at_most(room, axes.saturating_mul(row));
                    rope_pair_gradients_frequencies(
                        first,
                        given(source, &positions),
                        axes,
                        out,
                        len,
                    )
                }
                1 => {
                    let count = at_most(more, axes.saturating_mul(row));
                    let len = at_most(room, axes.saturating_mul(angles.rows));
                    rope_pair_gradients_positions(first, other, count, axes, out, len)
                }
                2 => {
                    let mut total = f64::NAN;
                    let total = given_mut(source, &mut total);
                    rope_pair_gradients_total(first, total)
                }
                _ => {
                    let len = at_most(both(room, more), all);
                    rope_pair_gradients_cos_sin(
                        first,
                        second,
                        given(source, &rows),
                        out,
                        other,
                        len,
                    )
                }
            }
        }
    }

    /// # Safety
    ///
    /// As for the C calls that it makes.
    unsafe fn parameters(&mut self, source: &mut Source<'_>) -> rope_status {
        let ((frequencies, room), (gradients, more)) =
            (self.some::<f64>(source), self.some::<f64>(source));
        let (frequencies, gradients) = (frequencies.cast(), gradients.cast());
        let count = both(room, more);
        // SAFETY: as for all calls.
        unsafe {
            match source.below(2) {
                0 => rope_gradients_to_ratio(frequencies, gradients, count),
                _ => {
                    let (base, mut made) = (number(source), 0.0);
                    let out = given_mut(source, &mut made);
                    rope_gradients_to_base(base, frequencies, gradients, count, out)
                }
            }
        }
    }
}

/// ROPE_MIXED_FREQUENCIES_BYTES, or more than any memory has.
fn mixed_bytes(axes: usize, heads: usize, pairs: usize) -> usize {
    let chunks = axes.saturating_mul(heads).saturating_mul(pairs.div_ceil(8));
    let bytes = chunks.saturating_mul(ROPE_FREQUENCIES_CHUNK);
    bytes.saturating_add(ROPE_FREQUENCIES_HEAD)
}

/// Mixed frequencies, their initial values, and grids.
impl World {
    /// Returns mostly live mixed frequencies: of a previous call, or fixed ones.
    fn mixed(&mut self, source: &mut Source<'_>) -> *mut rope_frequencies {
        if self.mixed_owned.is_empty() && !source.once_in(8) {
            let values = [0.5_f32, 1.0, -0.25, 0.0];
            let inverse = rope_mixed_inverse {
                values: values.as_ptr().cast(),
                count: 4,
                number: rope_number::F32 as i32,
                axes: 1,
                heads: 2,
                pairs: 2,
            };
            let mut made = null_mut();
            // SAFETY: all memory exists.
            let status = unsafe { rope_mixed_frequencies_new(&inverse, 1.0, 0, &mut made) };
            assert_eq!(status, rope_status::Ok);
            self.mixed_owned.push(made);
        }
        let placed = Some(self.mixed_place.1).filter(|handle| !handle.is_null());
        let live: Vec<_> = placed
            .into_iter()
            .chain(self.mixed_owned.iter().copied())
            .collect();
        match source.below(24) {
            1 => null_mut(),
            2 => self.garbage.as_mut_ptr().cast(),
            3 => self
                .garbage
                .as_mut_ptr()
                .cast::<u8>()
                .wrapping_add(8)
                .cast(),
            // A handle of another kind.
            4 => self.frequencies(source).cast(),
            _ if live.is_empty() => null_mut(),
            _ => source.one_of(&live),
        }
    }

    /// Makes mixed frequencies on the heap, or in their place, which the handle then uses.
    ///
    /// # Safety
    ///
    /// As for the C calls that it makes.
    unsafe fn mixed_make(&mut self, source: &mut Source<'_>) -> rope_status {
        let part = source.one_of(&[1, 4]);
        let (values, room) = self.part::<f64>(source, part);
        let mut small = |last: usize| match source.below(16) {
            1 => extent(source),
            _ => source.within(1, last),
        };
        let (axes, heads, pairs) = (small(2), small(3), small(9));
        let needed = axes.saturating_mul(heads.max(1)).saturating_mul(pairs);
        let inverse = rope_mixed_inverse {
            values,
            count: at_most(room, needed),
            number: match source.below(16) {
                1 => choice!(source, rope_number),
                _ => source.one_of(&[rope_number::F32 as i32, rope_number::F64 as i32]),
            },
            axes,
            heads,
            pairs,
        };
        let inverse = given(source, &inverse);
        let factor = if source.once_in(8) {
            number(source)
        } else {
            1.0
        };
        let angle = if source.once_in(8) {
            choice!(source, rope_mixed_angle)
        } else {
            source.below(2) as i32
        };
        let mut made = null_mut();
        if source.once_in(2) {
            let out = given_mut(source, &mut made);
            // SAFETY: as for all calls.
            let status = unsafe { rope_mixed_frequencies_new(inverse, factor, angle, out) };
            self.mixed_owned
                .extend((status == rope_status::Ok).then_some(made));
            return status;
        }
        let (memory, handle) = &mut self.mixed_place;
        *handle = null_mut();
        let shift = source.below(64);
        let enough = mixed_bytes(axes, heads.max(1), pairs);
        let size = match source.below(16) {
            1 => usize::MAX - source.below(64),
            2 => source.below(PLACE - shift),
            _ => (PLACE - shift).min(enough),
        };
        let memory = match source.below(32) {
            1 => null_mut(),
            _ => memory.as_mut_ptr().wrapping_add(shift),
        };
        let out = given_mut(source, &mut made);
        // SAFETY: as for all calls.
        let status = unsafe {
            rope_mixed_frequencies_init(memory.cast(), size, inverse, factor, angle, out)
        };
        assert!(status != rope_status::Storage || size < enough);
        if status == rope_status::Ok {
            *handle = made;
        }
        status
    }

    /// # Safety
    ///
    /// As for the C calls that it makes.
    unsafe fn mixed_free_or_describe(&mut self, source: &mut Source<'_>) -> rope_status {
        let frequencies = self.mixed(source);
        let mut info = zero::<rope_frequencies_info>();
        let out = given_mut(source, &mut info);
        // SAFETY: as for all calls.
        unsafe {
            match source.below(3) {
                0 if !self.mixed_owned.is_empty() => {
                    let index = source.below(self.mixed_owned.len());
                    rope_frequencies_free(self.mixed_owned.swap_remove(index))
                }
                // A handle that must not be freed.
                0 => rope_frequencies_free(self.mixed_place.1),
                1 => rope_frequencies_set_backend(frequencies, choice!(source, rope_backend)),
                _ => {
                    let status = rope_frequencies_describe(frequencies, out);
                    if status == rope_status::Ok {
                        assert!(info.axes >= 1 && info.heads >= 1 && info.rotary_dim >= 2);
                        assert!(info.attention_factor > 0.0 && info.angle >= 0);
                    }
                    status
                }
            }
        }
    }

    /// Makes rows of mixed frequencies in memory that all calls use, or in a table.
    ///
    /// # Safety
    ///
    /// As for the C calls that it makes.
    unsafe fn mixed_rows(&mut self, source: &mut Source<'_>) -> rope_status {
        let frequencies = self.mixed(source);
        let positions = match source.once_in(2) {
            true => self.positions(source),
            false => rope_positions_range(-3, source.below(5)),
        };
        let (mut made, mut len) = (null_mut(), 0);
        // SAFETY: as for all calls.
        let status = unsafe { rope_rows_len(&rope_angles_at(frequencies, &positions), &mut len) };
        // Skips calls that would only test the system's memory, or take long.
        if status == rope_status::Ok && (1 << 16..usize::MAX / 8).contains(&len) {
            return rope_status::Ok;
        }
        let positions = given(source, &positions);
        if source.once_in(2) {
            let out = given_mut(source, &mut made);
            // SAFETY: as for all calls.
            let status = unsafe { rope_table_new(&rope_angles_at(frequencies, positions), out) };
            self.tables
                .extend((status == rope_status::Ok).then_some(made));
            return status;
        }
        let (storage, room) = self.some::<f32>(source);
        let storage = storage.cast();
        let mut rows = zero();
        let out = given_mut(source, &mut rows);
        // SAFETY: as for all calls.
        let status =
            unsafe { rope_rows_fill(&rope_angles_at(frequencies, positions), storage, room, out) };
        if status == rope_status::Ok {
            assert!(rows.len == len && rows.len <= room && rows.cos == storage);
            self.rows = Some(rows);
        }
        status
    }

    /// # Safety
    ///
    /// As for the C calls that it makes.
    unsafe fn initial_or_grid(&mut self, source: &mut Source<'_>) -> rope_status {
        let (storage, len) = self.some::<f64>(source);
        let (theta, heads, pairs) = (number(source), extent(source), 2 * source.below(9));
        // SAFETY: as for all calls.
        unsafe {
            match source.below(3) {
                0 => {
                    let (directions, room) = self.some::<f64>(source);
                    let number = choice!(source, rope_number);
                    let heads = at_most(room, heads);
                    rope_initial_mixed(theta, directions, heads, number, pairs, storage.cast(), len)
                }
                1 => {
                    let number = choice!(source, rope_number);
                    rope_initial_mixed(theta, null(), heads, number, pairs, storage.cast(), len)
                }
                _ => {
                    let (rows, columns) = (extent(source), extent(source));
                    let indexing = choice!(source, rope_grid_indexing);
                    let number = choice!(source, rope_number);
                    let mut made = rope_positions_range(0, 0);
                    let out = given_mut(source, &mut made);
                    rope_grid_positions(indexing, rows, columns, storage, len, number, out)
                }
            }
        }
    }
}

/// The operands that a chain points to.
struct Stages {
    norm: rope_norm,
    scale: rope_scale,
    hadamard: rope_hadamard,
    plan: rope_plan,
}

impl Stages {
    fn chain(&self, source: &mut Source<'_>) -> rope_plan {
        rope_plan {
            norm: if source.once_in(3) {
                null()
            } else {
                given(source, &self.norm)
            },
            scale: if source.once_in(2) {
                null()
            } else {
                given(source, &self.scale)
            },
            without_rounding: source.below(2) as i32,
            hadamard: given(source, &self.hadamard),
            ..self.plan
        }
    }
}

/// Returns a tensor for reading, with its own layout or the layout of another tensor.
fn read_only(x: &rope_operand, other: &rope_operand, source: &mut Source<'_>) -> rope_operand {
    match source.once_in(2) {
        true => rope_operand {
            layout: other.layout,
            ..*x
        },
        false => *x,
    }
}

/// Reads the text of the last refusal into a buffer of any size.
fn detail(source: &mut Source<'_>) {
    let mut buffer = [0x7f_u8; 80];
    let size = source.below(65);
    // SAFETY: the buffer has more room than stated.
    let status = unsafe { rope_error_detail(buffer.as_mut_ptr().cast(), size) };
    assert_eq!(status, rope_status::Ok);
    assert!(buffer[size..].iter().all(|&byte| byte == 0x7f));
    if size > 0 {
        let text = CStr::from_bytes_until_nul(&buffer[..size]).expect("it ends");
        assert!(text.to_str().is_ok() && (size < 8 || !text.is_empty()));
    }
}
