//! Calls of the C API in any order.
//!
//! Pointers are null, misaligned, or lead to existing memory; lengths are of existing memory, or beyond all memory. The
//! caller promises no more than that, and everything else may have any value.

use std::ffi::{CStr, c_char, c_void};
use std::iter::repeat_n;
use std::ptr::{eq, null, null_mut};

use rope::*;

use arguments::{Arguments, at_most, both, choice, extent, product};

use super::frequencies::number;
use crate::Source;
use crate::c::{moved_by, moved_from, zero};
use crate::gguf::{File, Value};

/// Makes calls. Every pointer is null, misaligned, or leads to as much memory as stated, or the stated length exceeds
/// any memory; handles are live ones, or other memory of the same size.
macro_rules! call {
    ($calls:expr) => {
        // SAFETY: the arguments are as above, and a freed handle leaves its list.
        unsafe { $calls }
    };
}

/// Evaluates to the first expression one time in `n`, otherwise to the second one.
macro_rules! once_in {
    ($source:expr, $n:expr, $first:expr, $second:expr) => {
        if $source.once_in($n) { $first } else { $second }
    };
}

/// Returns mostly a value of an enumeration other than 0; other members keep 0.
macro_rules! choice {
    ($source:expr, $kind:ident) => {{
        let values = $kind::ALL.iter().map(|&value| value as i32);
        let values: Vec<i32> = values.filter(|&value| value != 0).collect();
        choice($source, &values)
    }};
}

mod arguments;

const FLOATS: usize = 2048;
/// Number of parts of the memory; memories that must be disjoint mostly get separate parts.
const PARTS: usize = 8;
const PLACE: usize = ROPE_FREQUENCIES_HEAD + 5 * ROPE_FREQUENCIES_CHUNK;
/// The index of mixed frequencies in the lists of [`World`]; that of all others is 0.
const MIXED: usize = 1;

/// The memory that calls may name, and the existing handles.
struct World {
    /// Overlapping tensors, rows, ids and lists.
    memory: Box<[f64; FLOATS / 2]>,
    /// Memory for frequencies; the handle beside each place uses it. Mixed frequencies have the last place.
    places: [(Box<[u8; PLACE]>, *mut rope_frequencies); 4],
    owned: [Vec<*mut rope_frequencies>; 2],
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
        owned: [Vec::new(), Vec::new()],
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
    for table in world.tables {
        assert_eq!(call!(rope_table_free(table)), rope_status::Ok);
    }
    for frequencies in world.owned.into_iter().flatten() {
        assert_eq!(call!(rope_frequencies_free(frequencies)), rope_status::Ok);
    }
}

/// A method that makes a call with random arguments.
type Call = fn(&mut World, &mut Source<'_>) -> rope_status;

/// All calls, and how often each is made in comparison with the others.
const CALLS: &[(usize, Call)] = &[
    (10, World::verb),
    (4, World::prepared),
    (5, World::make),
    (1, World::configure),
    (1, World::read_gguf),
    (2, World::make_mixed),
    (1, World::free),
    (1, World::set),
    (1, World::describe),
    (4, World::make_rows),
    (1, World::table_rows),
    (1, World::shard_tokens),
    (1, World::invert),
    (1, World::sinusoidal),
    (6, World::backward),
    (1, World::parameters),
    (1, World::initial),
    (1, World::grid),
    (1, World::without_memory),
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

/// Memory and handles.
impl World {
    fn call(&mut self, source: &mut Source<'_>) {
        let before = self.memory.clone().map(f64::to_bits);
        let calls: Vec<Call> = CALLS
            .iter()
            .flat_map(|&(times, call)| repeat_n(call, times))
            .collect();
        let status = source.one_of(&calls)(self, source);
        check(source, status);
        let same = before == self.memory.map(f64::to_bits);
        assert!(same || status == rope_status::Ok, "{status:?} has written");
    }

    /// Returns mostly a live handle, otherwise null or memory that is no handle.
    fn handle<T>(&mut self, source: &mut Source<'_>, live: &[*mut T]) -> *mut T {
        let garbage = self.garbage.as_mut_ptr().cast::<T>();
        match source.below(24) {
            1 => null_mut(),
            2 => garbage,
            3 => garbage.wrapping_byte_add(source.one_of(&[1, 8])),
            _ if live.is_empty() => null_mut(),
            _ => source.one_of(live),
        }
    }

    /// Returns a handle to frequencies of a kind.
    fn frequencies(&mut self, source: &mut Source<'_>, kind: usize) -> *mut rope_frequencies {
        if kind == MIXED && self.owned[MIXED].is_empty() && !source.once_in(8) {
            let status = self.make_mixed(source);
            check(source, status);
        }
        // Sometimes a handle of the other kind.
        let kind = kind ^ usize::from(kind == MIXED && source.once_in(24));
        let (others, mixed) = self.places.split_at(3);
        let placed = [others, mixed][kind].iter().map(|(_, handle)| *handle);
        let live: Vec<_> = placed
            .filter(|handle| !handle.is_null())
            .chain(self.owned[kind].iter().copied())
            .collect();
        self.handle(source, &live)
    }

    /// Returns memory for frequencies at any alignment, and its size; the handle that used it is gone.
    fn room(&mut self, source: &mut Source<'_>, index: usize) -> (*mut c_void, usize) {
        let (memory, handle) = &mut self.places[index];
        *handle = null_mut();
        let shift = source.below(64);
        let size = match source.below(16) {
            1 => usize::MAX - source.below(64),
            2 => source.below(PLACE - shift),
            _ => PLACE - shift,
        };
        let memory = memory.as_mut_ptr().wrapping_add(shift).cast();
        (once_in!(source, 32, null_mut(), memory), size)
    }

    /// Keeps a handle that a call has made in a place, or on the heap.
    fn keep(&mut self, kind: usize, place: usize, made: *mut rope_frequencies) {
        match self.places.get_mut(place) {
            _ if made.is_null() => {}
            Some((_, handle)) => *handle = made,
            None => self.owned[kind].push(made),
        }
    }
}

/// Verbs, checked or prepared.
impl World {
    fn verb(&mut self, source: &mut Source<'_>) -> rope_status {
        let mut arguments = self.arguments(source);
        let (plan, angles) = (arguments.plan(source), arguments.angles(source));
        let [x, y] = arguments.operands(source);
        let groups = source.below(4);
        let mut grouped = arguments.y;
        let shape = arguments.x.layout.shape;
        grouped.layout.shape[2] = shape[2].saturating_mul(groups.max(1));
        let outputs = [&grouped, &y].map(|y| rope_output {
            y: given(source, y),
            rows: spoilt(source, arguments.rows.as_ptr().cast_mut()),
            groups,
        });
        // Mostly as many sums as rows.
        let (sums, room) = self.part(source, 1);
        let needed = source.one_of(&[product(&shape[..2]), product(&shape[..3]), room]);
        let (plan, angles) = (given(source, &plan), given(source, &angles));
        let (x, y) = (given(source, &x), given(source, &y));
        let outputs = spoilt(source, outputs.as_ptr().cast_mut());
        call!(match source.below(12) {
            0 if source.once_in(2) => {
                let to = self.slots(source, shape);
                let (cache, from) = (&arguments.cache, &arguments.slots);
                rope_move_slots(
                    given(source, cache),
                    given(source, from),
                    given(source, &to),
                )
            }
            0 => rope_apply(plan, x),
            1 => rope_apply_into(plan, x, y),
            2 => rope_rotate_qk(plan, x, y, angles),
            3 => rope_sum_of_squares(plan, x, sums, at_most(room, needed)),
            4 | 5 => rope_rotate_into_each(plan, x, outputs, source.below(3)),
            6..9 => rope_rotate(plan, x, angles),
            _ => rope_rotate_into(plan, x, y, angles),
        })
    }

    /// Prepares a call and runs it once: at its own memory, or at memory that may be null, misaligned, or overlap the
    /// call's other memory.
    fn prepared(&mut self, source: &mut Source<'_>) -> rope_status {
        let mut arguments = self.arguments(source);
        let (plan, rows) = (arguments.plan(source), arguments.angles(source));
        let [x, y] = arguments.operands(source);
        let mut call: rope_call = zero();
        let status = {
            let (plan, x, y) = (given(source, &plan), given(source, &x), given(source, &y));
            let angles = once_in!(source, 8, null(), &raw const rows);
            let out = given_mut(source, &mut call);
            call!(match source.below(3) {
                0 => rope_prepare(plan, x, angles, out),
                1 => rope_prepare_qk(plan, x, y, angles, out),
                _ => rope_prepare_into(plan, x, y, angles, out),
            })
        };
        if status != rope_status::Ok {
            // A call that was not prepared does not run.
            assert_eq!(call!(rope_call_run(&call)), rope_status::Handle);
            return status;
        }
        let copied = call;
        if source.once_in(3) {
            return call!(rope_call_run(&copied));
        }
        let slots = self.slots(source, arguments.x.layout.shape);
        let positions = self.positions(source);
        // Every place has as much memory as the prepared call needs.
        let (first, all) = (self.memory.as_mut_ptr(), size_of_val(&*self.memory));
        let mut place = |own: *const c_void, count: usize, size: usize| {
            let bytes = count.saturating_mul(size);
            let last = all.saturating_sub(bytes) / 8;
            match source.below(12) {
                0 => null_mut(),
                1 if bytes < all => first.wrapping_byte_add(1).cast(),
                2..6 => own.cast_mut(),
                _ => first.wrapping_add(source.below(last + 1)).cast(),
            }
        };
        let Arguments {
            cache,
            second,
            norm,
            parts,
            ..
        } = &arguments;
        let next = [&x, &y].map(|operand| parts.iter().find(|part| eq(*part, operand.next)));
        let [x, y] = [x, y].map(|operand| match operand.cache.is_null() {
            true => place(operand.data, operand.len, 4),
            false => place(cache.memory, cache.bytes, 1),
        });
        // Parts of one memory are refused a second one.
        let [x_next, y_next] = next.map(|part| match part {
            Some(part) if part.cache.is_null() => place(part.data, part.len, 4),
            Some(_) if second.memory != cache.memory => place(second.memory, second.bytes, 1),
            _ => null_mut(),
        });
        let memory = rope_call_memory {
            x,
            y,
            cos: place(rows.cos.cast(), rows.len, 4).cast(),
            sin: place(rows.sin.cast(), rows.len, 4).cast(),
            ids: place(rows.ids, rows.ids_count, 8),
            scales: place(cache.scales.cast(), cache.scales_count, 4).cast(),
            x_next,
            y_next,
            scales_next: place(second.scales.cast(), second.scales_count, 4).cast(),
            zeros: place(cache.zeros.cast(), cache.scales_count, 4).cast(),
            zeros_next: place(second.zeros.cast(), second.scales_count, 4).cast(),
            weight: place(norm.weight.data, norm.weight.count, 4),
            bias: place(norm.bias.data, norm.bias.count, 4),
            slots: once_in!(source, 4, null(), given(source, &slots)),
            positions: once_in!(source, 2, null(), given(source, &positions)),
        };
        call!(rope_call_run_at(&copied, given(source, &memory)))
    }
}

/// Frequencies and models.
impl World {
    /// Makes frequencies from axes, or from a list of inverse frequencies, on the heap or in one of the places.
    fn make(&mut self, source: &mut Source<'_>) -> rope_status {
        let (axes, scaling) = (self.axes(source), self.scaling(source));
        let (list, count) = self.some::<f64>(source);
        let (axes, list) = (given(source, &axes), list.cast());
        let scaling = once_in!(source, 2, null(), given(source, &scaling));
        let (base, kind) = (number(source), choice!(source, rope_number));
        let (inverse, mut made) = (source.once_in(3), null_mut());
        let out = given_mut(source, &mut made);
        let place = once_in!(source, 2, usize::MAX, source.below(3));
        let (to, size) = match place {
            usize::MAX => (null_mut(), 0),
            _ => self.room(source, place),
        };
        let status = call!(match (place, inverse) {
            (usize::MAX, true) => rope_frequencies_new_inverse(axes, list, count, kind, base, out),
            (usize::MAX, false) => rope_frequencies_new(axes, base, scaling, out),
            (_, true) =>
                rope_frequencies_init_inverse(to, size, axes, list, count, kind, base, out),
            (_, false) => rope_frequencies_init(to, size, axes, base, scaling, out),
        });
        self.keep(0, place, made);
        status
    }

    /// Makes mixed frequencies on the heap, or in their place.
    fn make_mixed(&mut self, source: &mut Source<'_>) -> rope_status {
        let part = source.one_of(&[1, 4]);
        let (values, room) = self.part::<f64>(source, part);
        let [axes, heads, pairs] =
            [2, 3, 9].map(|last| once_in!(source, 16, extent(source), source.within(1, last)));
        let float = source.one_of(&[rope_number::F32 as i32, rope_number::F64 as i32]);
        let inverse = rope_mixed_inverse {
            values: values.cast(),
            count: at_most(room, product(&[axes, heads.max(1), pairs])),
            number: once_in!(source, 16, choice!(source, rope_number), float),
            axes,
            heads,
            pairs,
        };
        let inverse = given(source, &inverse);
        let factor = once_in!(source, 8, number(source), 1.0);
        let kind = rope_mixed_angle::ALL[source.below(2)] as i32;
        let angle = once_in!(source, 8, choice!(source, rope_mixed_angle), kind);
        let mut made = null_mut();
        let out = given_mut(source, &mut made);
        if source.once_in(2) {
            let status = call!(rope_mixed_frequencies_new(inverse, factor, angle, out));
            self.keep(MIXED, usize::MAX, made);
            return status;
        }
        let (memory, mut size) = self.room(source, 3);
        // ROPE_MIXED_FREQUENCIES_BYTES, or more than any memory has.
        let chunks = product(&[axes, heads.max(1), pairs.div_ceil(8)]);
        let chunks = chunks.saturating_mul(ROPE_FREQUENCIES_CHUNK);
        let enough = chunks.saturating_add(ROPE_FREQUENCIES_HEAD);
        if size <= PLACE {
            size = size.min(enough);
        }
        let status = call!(rope_mixed_frequencies_init(
            memory, size, inverse, factor, angle, out
        ));
        assert!(status != rope_status::Storage || size < enough);
        self.keep(MIXED, 3, made);
        status
    }

    /// Makes frequencies and a model from the text of a configuration with all kinds of errors.
    fn configure(&mut self, source: &mut Source<'_>) -> rope_status {
        const TEXTS: [&[u8]; 6] = [
            br#"{"model_type":"llama","head_dim":64,"rope_theta":10000.0}"#,
            br#"{"model_type":"deepseek_v3","qk_rope_head_dim":64,"rope_theta":10000.0}"#,
            br#"{"model_type":"none","head_dim":64,"rope_theta":10000.0}"#,
            br#"{"head_dim":"x"}"#,
            b"{\xff}",
            b"",
        ];
        let names = [c"llama", c"full_attention", c"\xff", c""].map(CStr::as_ptr);
        let text = source.one_of(&TEXTS);
        let len = once_in!(source, 2, text.len(), source.below(text.len() + 1));
        let text = text.as_ptr().cast();
        let mut name = || once_in!(source, 5, null(), source.one_of(&names));
        let config = rope_config {
            part: name(),
            model_type: name(),
            layer_type: name(),
            without: name(),
            length: source.word().into(),
            head_dim: source.one_of(&[0, 64, 128, 192]),
            lenient: source.below(2) as i32,
        };
        let config = once_in!(source, 2, null(), given(source, &config));
        let (mut made, mut plan) = (null_mut(), zero::<rope_plan>());
        let out = given_mut(source, &mut made);
        let plan = given_mut(source, &mut plan);
        let status = call!(rope_frequencies_from_config(text, len, config, out, plan));
        self.keep(0, usize::MAX, made);
        let mut model = null_mut();
        let of_model = call!(rope_model_from_config(text, len, config, &mut model));
        assert_eq!(of_model == rope_status::Ok, !model.is_null());
        read_model(source, model);
        status
    }

    /// Reads a model from the bytes of a GGUF file, whole or cut off, with all kinds of errors.
    fn read_gguf(&mut self, source: &mut Source<'_>) -> rope_status {
        let keys = [
            ("general.architecture", Value::text("llama")),
            ("llama.block_count", Value::U32(2)),
            ("llama.attention.key_length", Value::U32(64)),
            ("split.count", Value::U16(source.below(3) as u16)),
        ];
        let file = File::new(&keys, &[("rope_freqs.weight", &[2.0; 32])]).write();
        let [whole, first, second] = [8, 4, 4].map(|n| rope_bytes {
            data: once_in!(source, n, null(), file.as_ptr()),
            length: once_in!(source, 2, file.len(), source.below(file.len() + 1)),
        });
        let parts = [first, second];
        let (freq_factors, freq_factor_count) = self.some(source);
        let gguf = rope_gguf {
            parts: once_in!(source, 2, null(), parts.as_ptr()),
            part_count: source.below(3),
            without: source.one_of(&[null(), c"llama.x".as_ptr(), c"\xff".as_ptr()]),
            context: source.word().into(),
            freq_factors,
            freq_factor_count,
        };
        let (gguf, mut model) = (given(source, &gguf), null_mut());
        let rope_bytes { data, length } = whole;
        let status = call!(rope_model_from_gguf(data, length, gguf, &mut model));
        read_model(source, model);
        status
    }

    /// Frees a handle, or refuses to free one that must not be freed.
    fn free(&mut self, source: &mut Source<'_>) -> rope_status {
        let kind = source.below(3);
        if kind == 2 && !self.tables.is_empty() {
            // The rows of the table are freed with it.
            self.rows = None;
            let index = source.below(self.tables.len());
            return call!(rope_table_free(self.tables.swap_remove(index)));
        }
        let owned = &mut self.owned[kind % 2];
        if !owned.is_empty() && source.once_in(2) {
            let index = source.below(owned.len());
            return call!(rope_frequencies_free(owned.swap_remove(index)));
        }
        let other = match source.below(3) {
            0 => null_mut(),
            1 => self.garbage.as_mut_ptr().cast(),
            _ => self.places[source.below(4)].1,
        };
        call!(rope_frequencies_free(other))
    }

    fn set(&mut self, source: &mut Source<'_>) -> rope_status {
        let kind = source.below(2);
        let frequencies = self.frequencies(source, kind);
        call!(match source.once_in(2) {
            true => rope_frequencies_set_angle(frequencies, choice!(source, rope_angle)),
            false => rope_frequencies_set_backend(frequencies, choice!(source, rope_backend)),
        })
    }

    fn describe(&mut self, source: &mut Source<'_>) -> rope_status {
        let kind = source.below(2);
        let frequencies = self.frequencies(source, kind);
        let mut info = zero::<rope_frequencies_info>();
        let out = given_mut(source, &mut info);
        let (list, len) = self.some(source);
        if call!(rope_frequencies_describe(frequencies, out)) == rope_status::Ok {
            assert!(info.axes >= 1 && info.heads >= 1 && info.rotary_dim >= 2);
            assert!(info.attention_factor > 0.0 && info.angle >= 0);
        }
        call!(rope_frequencies_inverse(frequencies, list, len))
    }
}

/// Rows, positions and initial values.
impl World {
    /// Makes rows of frequencies at positions, or rows that move keys, in memory that all calls use or in a table.
    fn make_rows(&mut self, source: &mut Source<'_>) -> rope_status {
        let kind = source.below(2);
        let (frequencies, old) = (self.frequencies(source, kind), self.frequencies(source, 0));
        let (from, mut to) = (self.positions(source), self.positions(source));
        if source.once_in(3) {
            to = rope_positions_range(-3, source.below(5));
        }
        let mut len = 0;
        let status = call!(rope_rows_len(&rope_angles_at(frequencies, &to), &mut len));
        // Skips calls that would only test the system's memory, or take long.
        if status == rope_status::Ok && (1 << 14..usize::MAX / 8).contains(&len) {
            return rope_status::Ok;
        }
        let (from, to) = (given(source, &from), given(source, &to));
        let from = once_in!(source, 2, to, from);
        let angles = match source.below(6) {
            0 => moved_by(frequencies, to),
            1 => moved_from(frequencies, old, from, to),
            _ => rope_angles_at(frequencies, to),
        };
        match source.below(6) {
            0 => call!(rope_rows_len(&angles, given_mut(source, &mut 0))),
            1 | 2 => {
                let mut made = null_mut();
                let status = call!(rope_table_new(&angles, given_mut(source, &mut made)));
                let table = (status == rope_status::Ok).then_some(made);
                self.tables.extend(table);
                status
            }
            _ => {
                let status = self.rows_in(source, |storage, room, out| {
                    call!(rope_rows_fill(&angles, storage, room, out))
                });
                let made = self.rows.is_some_and(|rows| rows.len == len);
                assert!(made || status != rope_status::Ok);
                status
            }
        }
    }

    /// Makes rows in memory that all calls use.
    fn rows_in(
        &mut self,
        source: &mut Source<'_>,
        make: impl FnOnce(*mut f32, usize, *mut rope_angles) -> rope_status,
    ) -> rope_status {
        let (storage, room) = self.some(source);
        let mut rows = zero::<rope_angles>();
        let status = make(storage, room, given_mut(source, &mut rows));
        if status == rope_status::Ok {
            assert!(rows.len <= room && rows.cos == storage);
            self.rows = Some(rows);
        }
        status
    }

    fn table_rows(&mut self, source: &mut Source<'_>) -> rope_status {
        let tables = self.tables.clone();
        let (table, mut rows) = (self.handle(source, &tables), zero());
        let status = call!(rope_table_rows(table, given_mut(source, &mut rows)));
        if status == rope_status::Ok {
            self.rows = Some(rows);
        }
        status
    }

    /// The calls that read through no pointer, with any number.
    fn without_memory(&mut self, source: &mut Source<'_>) -> rope_status {
        let (values, _) = self.some::<f64>(source);
        let (number, count) = (choice!(source, rope_number), extent(source));
        let positions = rope_positions_per_token(values.cast(), count, number);
        assert_eq!((positions.count, positions.number), (count, number));
        let backend = choice!(source, rope_backend);
        let name = rope_backend_name(backend);
        assert!(!name.is_null() || rope_backend_available(backend) == 0);
        assert_ne!(rope_version(), 0);
        rope_status::Ok
    }

    fn shard_tokens(&mut self, source: &mut Source<'_>) -> rope_status {
        let positions = self.positions(source);
        let (tokens, room) = self.some(source);
        let mut len = 0;
        let (positions, out) = (given(source, &positions), given_mut(source, &mut len));
        call!(rope_shard_tokens(positions, tokens, room, out))
    }

    fn invert(&mut self, source: &mut Source<'_>) -> rope_status {
        let rows = self.some_rows(source);
        let rows = given(source, &rows);
        self.rows_in(source, |storage, room, out| {
            call!(rope_rows_invert(rows, storage, room, out))
        })
    }

    fn sinusoidal(&mut self, source: &mut Source<'_>) -> rope_status {
        let (rows, (values, len)) = (self.some_rows(source), self.some(source));
        call!(rope_sinusoidal(given(source, &rows), values, len))
    }

    fn initial(&mut self, source: &mut Source<'_>) -> rope_status {
        let (storage, len) = self.some::<f64>(source);
        let (directions, room) = self.some::<f64>(source);
        let (theta, heads, pairs) = (number(source), extent(source), 2 * source.below(9));
        let (directions, heads) = match source.once_in(2) {
            true => (null_mut(), heads),
            false => (directions.cast(), at_most(room, heads)),
        };
        let (number, storage) = (choice!(source, rope_number), storage.cast());
        call!(rope_initial_mixed(
            theta, directions, heads, number, pairs, storage, len
        ))
    }

    fn grid(&mut self, source: &mut Source<'_>) -> rope_status {
        let (storage, len) = self.some::<f64>(source);
        let (storage, rows, columns) = (storage.cast(), extent(source), extent(source));
        let indexing = choice!(source, rope_grid_indexing);
        let number = choice!(source, rope_number);
        let mut made = zero();
        let out = given_mut(source, &mut made);
        call!(rope_grid_positions(
            indexing, rows, columns, storage, len, number, out
        ))
    }
}

/// Gradients: tensors, and the sums of pairs.
impl World {
    /// Returns two sums of pairs, mostly of this shape. Fewer rows limit them to the available ones, unless their
    /// number exceeds any memory.
    fn sums(&mut self, source: &mut Source<'_>, shape: [usize; 3]) -> [rope_pair_gradients; 2] {
        let end = self.memory.as_ptr_range().end.addr();
        [6, 7].map(|part| {
            let (sums, _) = self.part::<f64>(source, part);
            let [rows, heads, pairs] = shape.map(|it| once_in!(source, 24, extent(source), it));
            let room = end.saturating_sub(sums.addr()) / size_of::<f64>();
            let row = heads.max(1).saturating_mul(pairs);
            let len = rows.saturating_mul(row);
            let most = isize::MAX.unsigned_abs() / size_of::<f64>();
            let fits = sums.is_null() || len <= room || len > most;
            rope_pair_gradients {
                sums,
                rows: if fits { rows } else { room / row },
                heads,
                pairs,
            }
        })
    }

    /// Runs a backward pass, sums what it needs, or reduces the sums.
    fn backward(&mut self, source: &mut Source<'_>) -> rope_status {
        let mut arguments = self.arguments(source);
        let shape = arguments.x.layout.shape;
        let [batch, tokens, heads, head_dim] = shape;
        // Read-only tensors may be broadcast; a short memory could make a call of hours.
        if product(&shape) > 1 << 16 {
            return rope_status::Ok;
        }
        let direction = &mut arguments.plan.direction;
        *direction = once_in!(source, 8, *direction, 0);
        let plan = once_in!(source, 4, arguments.plan(source), arguments.plan);
        let shape = [
            source.one_of(&[tokens, tokens, batch.saturating_mul(tokens)]),
            source.one_of(&[heads, 1, 0]),
            source.one_of(&[head_dim / 2, head_dim / 2, 1]),
        ];
        let [first, second] = self.sums(source, shape);
        let axes = source.one_of(&[1, 2, 2, 5]);
        let axes = once_in!(source, 16, extent(source), axes);
        let row = first.heads.max(1).saturating_mul(first.pairs);
        let [each, of_rows, all] =
            [[axes, row], [axes, first.rows], [row, first.rows]].map(|extents| product(&extents));
        let (out, room) = self.part(source, 1);
        let (other, more) = self.part(source, 2);
        let range = rope_positions_range(-3, first.rows);
        let positions = once_in!(source, 4, self.positions(source), range);
        let (plan, rows) = (given(source, &plan), given(source, &arguments.rows[0]));
        let (x, dy) = (given(source, &arguments.x), given(source, &arguments.y));
        let (dx, positions) = (given(source, &arguments.dx), given(source, &positions));
        let (first, second) = (given(source, &first), given(source, &second));
        let kind = choice!(source, rope_gradient_kind);
        call!(match source.below(8) {
            0 | 1 => rope_backward(plan, x, dy, rows, first),
            2 => rope_backward_into(plan, x, dy, dx, rows, first),
            3 => {
                let second = once_in!(source, 2, second, null());
                rope_gradients(kind, plan, x, dy, first, second)
            }
            4 => {
                let len = at_most(room, each);
                rope_pair_gradients_frequencies(first, positions, axes, out, len)
            }
            5 => {
                let (count, len) = (at_most(more, each), at_most(room, of_rows));
                rope_pair_gradients_positions(first, other, count, axes, out, len)
            }
            6 => rope_pair_gradients_total(first, given_mut(source, &mut 0.0)),
            _ => {
                let len = at_most(both(room, more), all);
                rope_pair_gradients_cos_sin(first, second, rows, out, other, len)
            }
        })
    }

    fn parameters(&mut self, source: &mut Source<'_>) -> rope_status {
        let (frequencies, room) = self.some(source);
        let (gradients, more) = self.some(source);
        let (count, base, mut made) = (both(room, more), number(source), 0.0);
        let out = given_mut(source, &mut made);
        call!(match source.once_in(2) {
            true => rope_gradients_to_ratio(frequencies, gradients, count),
            false => rope_gradients_to_base(base, frequencies, gradients, count, out),
        })
    }
}

/// Describes a layer of a model that a call has made, which may lack the layer, and frees the model.
fn read_model(source: &mut Source<'_>, model: *mut rope_model) {
    if model.is_null() {
        return;
    }
    let (mut count, mut layer, mut frequencies) = (0, zero(), null_mut());
    let (mut text, mut significant) = ([1 as c_char; 24], 7);
    let (index, size) = (source.below(3), source.below(25));
    let text_at = text.as_mut_ptr();
    call!({
        assert_eq!(rope_model_layers(model, &mut count), rope_status::Ok);
        let status = rope_model_describe_layer(model, index, &mut layer);
        assert_eq!(status == rope_status::Ok, index < count);
        let listed = rope_model_ignored(model, index, text_at, size, &mut significant);
        assert_eq!(listed == rope_status::Ok, significant < 2);
        assert!(text[size..].iter().all(|&byte| byte == 1));
        if rope_model_frequencies(model, index, &mut frequencies) == rope_status::Ok {
            assert_eq!(rope_frequencies_free(frequencies), rope_status::Ok);
        }
        assert_eq!(rope_model_free(model), rope_status::Ok);
    });
}

/// Compares a status with its message, and reads the text of a refusal into a buffer of any size.
fn check(source: &mut Source<'_>, status: rope_status) {
    assert_ne!(status, rope_status::Internal, "a panic");
    assert_ne!(status, rope_status::Refused, "a reason without a name");
    let message = rope_error_message(status as i32);
    // SAFETY: the message is static text.
    assert!(!unsafe { CStr::from_ptr(message) }.is_empty());
    let (mut buffer, size) = ([0x7f_u8; 80], source.below(65));
    // SAFETY: the buffer has more room than stated.
    let read = unsafe { rope_error_detail(buffer.as_mut_ptr().cast(), size) };
    assert_eq!(read, rope_status::Ok);
    assert!(buffer[size..].iter().all(|&byte| byte == 0x7f));
    if size > 0 && status != rope_status::Ok {
        let text = CStr::from_bytes_until_nul(&buffer[..size]).expect("it ends");
        assert!(text.to_str().is_ok() && (size < 8 || !text.is_empty()));
    }
}
