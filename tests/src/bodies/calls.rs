//! Any calls of the C API, in any order.
//!
//! Pointers are null, misaligned, or lead to memory that is there; lengths are of memory that is there, or beyond all
//! memory. That is all that a caller is asked to promise, so everything else may be anything.

use std::ffi::{CStr, c_void};
use std::mem::zeroed;
use std::ptr::{null, null_mut};

use rope::*;

use super::frequencies::number;
use crate::Source;

const FLOATS: usize = 1024;
const PLACES: usize = 3;

/// The number of an integer type, mostly: three are the first of `rope_number`, and one is its last.
fn integer_type(source: &mut Source<'_>) -> i32 {
    match choice(source, 4) {
        4 => rope_number::U64 as i32,
        other => other,
    }
}
const PLACE: usize = ROPE_FREQUENCIES_HEAD + 5 * ROPE_FREQUENCIES_BLOCK;

/// Memory that calls may name, and the handles that are there.
struct World {
    /// Tensors, rows, ids and lists lie here, over one another.
    memory: Box<[f64; FLOATS / 2]>,
    /// Where frequencies are placed; each is in use by the handle beside it.
    places: [(Box<[u8; PLACE]>, *mut rope_frequencies); PLACES],
    owned: Vec<*mut rope_frequencies>,
    tables: Vec<*mut rope_table>,
    /// What is no handle.
    garbage: Box<[[u64; 8]; 32]>,
    /// The last rows that a call has described, if what they point to is still there.
    rows: Option<rope_rows>,
}

/// Calls in any order: none crashes, each answers with a status that has a message, and what is refused leaves every
/// tensor as it was.
///
/// # Panics
///
/// If that is not so.
pub fn calls(source: &mut Source<'_>) {
    let mut world = World {
        memory: Box::new([0.0; FLOATS / 2]),
        places: std::array::from_fn(|_| (Box::new([0x55; PLACE]), null_mut())),
        owned: Vec::new(),
        tables: Vec::new(),
        garbage: Box::new([[0x5555_5555_5555_5555; 8]; 32]),
        rows: None,
    };
    // Integers, which may be ids; doubles; and pairs of floats.
    for (index, value) in world.memory.iter_mut().enumerate() {
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
        // SAFETY: a table that is freed once.
        let status = unsafe { rope_table_free(table) };
        assert_eq!(status, rope_status::Ok);
    }
    for frequencies in world.owned.drain(..) {
        // SAFETY: frequencies that are freed once.
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
}

/// All of them: the compiler warns of one that is missing. Those that rotate a tensor, and those that make frequencies
/// in the caller's memory, are there twice.
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
];

type MakeLayout = unsafe extern "C" fn(*mut rope_layout, usize, usize, usize, usize) -> rope_status;

/// All calls that fill in a layout, and none.
const LAYOUTS: &[Option<MakeLayout>] = &[
    Some(rope_layout_bshd),
    Some(rope_layout_bhsd),
    Some(rope_layout_sbhd),
    None,
];

/// A pointer to a struct: mostly to this one, otherwise null or misaligned.
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

/// A value of an enumeration other than 0, mostly; 0 is what other members are left at.
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

/// Small as a rule.
fn extent(source: &mut Source<'_>) -> usize {
    match source.below(32) {
        1 => usize::MAX - source.below(3),
        2 => 1 << source.below(usize::BITS as usize),
        3 => source.below(200),
        _ => source.below(5),
    }
}

impl World {
    /// Some memory, and how many `T` are there; a number that no memory can hold now and then.
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
        rope_axes {
            kind: choice!(source, rope_axes_kind),
            rotary_dim: extent(source),
            sections: [(); 4].map(|()| extent(source)),
            count: if source.once_in(2) {
                source.below(5).min(count)
            } else {
                count.min(100).max(count & !0xffff)
            },
            given: given.cast(),
        }
    }

    fn scaling(&mut self, source: &mut Source<'_>) -> rope_scaling {
        // SAFETY: numbers and pointers, of which zeros are values.
        let mut scaling: rope_scaling = unsafe { zeroed() };
        let kind = choice!(source, rope_scaling_kind);
        // SAFETY: a struct.
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
        // A float for every double: there are as many.
        scaling.freq_factors = list.cast();
        scaling.count = count;
        scaling
    }

    fn positions(&mut self, source: &mut Source<'_>) -> rope_positions {
        if source.once_in(2) {
            let count = extent(source);
            // As many as memory holds, or more than any does: never so many that it takes minutes.
            let count = if count > 1 << 16 {
                count | 1 << (usize::BITS - 2)
            } else {
                count
            };
            let first = (source.wide() as i64) >> source.below(64);
            return rope_positions_range(first, count);
        }
        let (values, count) = self.some::<f64>(source);
        let (starts, room) = self.some::<f64>(source);
        rope_positions {
            kind: choice!(source, rope_positions_kind),
            number: choice!(source, rope_number),
            values,
            count: if count < usize::MAX / 64 {
                count.min(room).min(source.below(8))
            } else {
                count
            },
            first: 0,
            starts: if source.once_in(2) {
                starts
            } else {
                null_mut()
            },
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
        let _ = source.one_of(LAYOUTS).map(|make| {
            // SAFETY: a struct, null, or misaligned.
            unsafe { make(out, batch, tokens, heads, head_dim) }
        });
        layout
    }

    fn tensor(&mut self, source: &mut Source<'_>) -> rope_tensor_mut {
        let (data, len) = self.some::<f32>(source);
        rope_tensor_mut {
            data,
            len,
            element: choice!(source, rope_element),
            layout: self.layout(source),
        }
    }

    fn some_rows(&mut self, source: &mut Source<'_>) -> rope_rows {
        let mut rows = match (self.rows, source.below(3)) {
            (Some(rows), 0 | 1) => rows,
            (_, 2) => {
                let (cos, len) = self.some::<f32>(source);
                let (sin, room) = self.some::<f32>(source);
                let (width, rotary_dim) = (extent(source), extent(source));
                let rows = if len < usize::MAX / 64 {
                    len.min(room).checked_div(width).unwrap_or(0)
                } else {
                    len
                };
                rope_rows_apart(cos.cast(), sin.cast(), rows, width, rotary_dim)
            }
            _ => {
                let (values, len) = self.some::<f32>(source);
                rope_rows_joined(values.cast(), len, extent(source))
            }
        };
        if source.once_in(3) {
            let (ids, count) = self.some::<i64>(source);
            (rows.ids, rows.ids_count, rows.ids_number) = (ids, count, integer_type(source));
        }
        if source.once_in(4) {
            rows.attention_factor = number(source);
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
        }
    }

    fn call(&mut self, source: &mut Source<'_>) {
        let (plan, x, y) = (self.plan(source), self.tensor(source), self.tensor(source));
        let (plan, q, k) = (given(source, &plan), given(source, &x), given(source, &y));
        let before = self.memory.clone();
        // SAFETY: every pointer is null, misaligned, or leads to as much memory as is said, or more is said than any
        // memory holds; handles are live ones, or other memory of the same size.
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
                    let from = rope_tensor {
                        data: x.data,
                        len: x.len,
                        element: x.element,
                        layout: if source.once_in(2) {
                            y.layout
                        } else {
                            x.layout
                        },
                    };
                    rope_rotate_into(plan, given(source, &from), k, given(source, &rows))
                }
                Call::RotateAt => {
                    let (frequencies, positions) =
                        (self.frequencies(source), self.positions(source));
                    rope_rotate_at(plan, q, frequencies, given(source, &positions))
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
                    // What is not to be freed.
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
                    let mut info = zeroed();
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
                    let mut rows = zeroed();
                    let out = given_mut(source, &mut rows);
                    let status = rope_rows_fill(
                        frequencies,
                        given(source, &positions),
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
                    // What would only be a matter of the system's memory is not asked for.
                    match rope_rows_len(frequencies, &positions, &mut len) {
                        rope_status::Ok if (1 << 20..usize::MAX / 8).contains(&len) => {
                            rope_status::Ok
                        }
                        _ => {
                            let status =
                                rope_table_new(frequencies, given(source, &positions), out);
                            self.tables
                                .extend((status == rope_status::Ok).then_some(made));
                            status
                        }
                    }
                }
                Call::TableRows => {
                    let table = self.table(source);
                    let mut rows = zeroed();
                    let status = rope_table_rows(table, given_mut(source, &mut rows));
                    if status == rope_status::Ok {
                        self.rows = Some(rows);
                    }
                    status
                }
                Call::TableFreeOrSinusoidal if !self.tables.is_empty() && source.once_in(2) => {
                    // Its rows are gone with it.
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
                    let out = given_mut(source, &mut len);
                    rope_rows_len(frequencies, given(source, &positions), out)
                }
            }
        };
        assert_ne!(status, rope_status::Internal, "a panic");
        assert_ne!(status, rope_status::Refused, "a reason without a name");
        let message = rope_error_message(status as i32);
        // SAFETY: static text.
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

    /// Frequencies in one of the places, whose handle is then in use, or in memory that is used for all.
    ///
    /// # Safety
    ///
    /// None besides that of the calls.
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

    /// Frequencies from the text of a configuration, with all kinds of errors in it.
    ///
    /// # Safety
    ///
    /// None besides that of the calls.
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
        };
        let config = if source.once_in(2) {
            null()
        } else {
            given(source, &config)
        };
        let (mut made, mut plan) = (
            null_mut(),
            rope_plan {
                pairing: 0,
                output_pairing: 0,
                direction: 0,
                backend: 0,
            },
        );
        let out = given_mut(source, &mut made);
        let plan = given_mut(source, &mut plan);
        // SAFETY: as for all calls.
        let status =
            unsafe { rope_frequencies_from_config(text.as_ptr().cast(), len, config, out, plan) };
        self.owned
            .extend((status == rope_status::Ok).then_some(made));
        status
    }
}

/// The words of the last refusal, in a buffer of any size.
fn detail(source: &mut Source<'_>) {
    let mut buffer = [0x7f_u8; 80];
    let size = source.below(65);
    // SAFETY: there is room for more.
    let status = unsafe { rope_error_detail(buffer.as_mut_ptr().cast(), size) };
    assert_eq!(status, rope_status::Ok);
    assert!(buffer[size..].iter().all(|&byte| byte == 0x7f));
    if size > 0 {
        let text = CStr::from_bytes_until_nul(&buffer[..size]).expect("it ends");
        assert!(text.to_str().is_ok() && (size < 8 || !text.is_empty()));
    }
}
