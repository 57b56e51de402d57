//! Calls of the C API in any order.
//!
//! Pointers are null, misaligned, or lead to existing memory; lengths are of existing memory, or beyond all memory. The
//! caller promises no more than that, and everything else may have any value.

use std::ffi::{CStr, c_char, c_void};
use std::iter::repeat_n;
use std::ptr::{null, null_mut};

use rope::*;

use super::frequencies::number;
use crate::Source;
use crate::c::{full_rows, in_slots, moved_by, moved_from, strided_rows, tensor_at, zero};
use crate::gguf::{File, Value};

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
        // SAFETY: the table is freed once.
        let status = unsafe { rope_table_free(table) };
        assert_eq!(status, rope_status::Ok);
    }
    for frequencies in world.owned.into_iter().flatten() {
        // SAFETY: the frequencies are freed once.
        let status = unsafe { rope_frequencies_free(frequencies) };
        assert_eq!(status, rope_status::Ok);
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
];

/// Evaluates to the first expression one time in `n`, otherwise to the second one.
macro_rules! once_in {
    ($source:expr, $n:expr, $first:expr, $second:expr) => {
        if $source.once_in($n) { $first } else { $second }
    };
}

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

/// Returns mostly the number of an integer type: one of the first three or the last of `rope_number`.
fn integer_type(source: &mut Source<'_>) -> i32 {
    match choice(source, 4) {
        4 => rope_number::U64 as i32,
        other => other,
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

/// Limits a count to the available room, unless the room exceeds any memory; then it stays.
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

/// Memory, handles, and the arguments of frequencies and rows.
impl World {
    fn call(&mut self, source: &mut Source<'_>) {
        let before = self.memory.clone().map(f64::to_bits);
        let calls: Vec<Call> = CALLS
            .iter()
            .flat_map(|&(times, call)| repeat_n(call, times))
            .collect();
        // Every pointer is null, misaligned, or leads to as much memory as stated, or the stated length exceeds any
        // memory; handles are live ones, or other memory of the same size. The methods refer to this as "all calls".
        let status = source.one_of(&calls)(self, source);
        check(source, status);
        let same = before == self.memory.map(f64::to_bits);
        assert!(same || status == rope_status::Ok, "{status:?} has written");
    }

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

    fn axes(&mut self, source: &mut Source<'_>) -> rope_axes {
        if source.once_in(2) {
            return rope_axes_text(2 * source.below(40));
        }
        let (given, count) = self.some::<u8>(source);
        let sections = [(); 4].map(|()| extent(source));
        let covered = sections[..source.within(1, 4)]
            .iter()
            .fold(0_usize, |sum, &pairs| sum.saturating_add(pairs));
        let (few, many) = (source.below(5), count.min(100).max(count & !0xffff));
        rope_axes {
            kind: choice!(source, rope_axes_kind),
            // The channels of M-RoPE's pairs must be that many.
            rotary_dim: once_in!(source, 2, covered.saturating_mul(2), extent(source)),
            sections,
            count: once_in!(source, 2, at_most(count, few), many),
            given: given.cast(),
        }
    }

    fn scaling(&mut self, source: &mut Source<'_>) -> rope_scaling {
        let mut scaling: rope_scaling = zero();
        let kind = choice!(source, rope_scaling_kind);
        let out = given_mut(source, &mut scaling);
        // SAFETY: as for all calls.
        check(source, unsafe { rope_scaling_init(out, kind) });
        let [a, b, c, d] = [(); 4].map(|()| number(source));
        if source.once_in(4) {
            scaling = rope_scaling {
                beta_fast: a,
                beta_slow: b,
                mscale: c,
                mscale_all_dim: d,
                low_freq_factor: b,
                high_freq_factor: c,
                attention_factor: d,
                ntk_factor: b,
                extrapolation_factor: c,
                partial_rotary_factor: d,
                untruncated: source.word() as i32,
                ..scaling
            };
        }
        let (list, count) = self.some::<f64>(source);
        rope_scaling {
            kind,
            factor: a,
            alpha: a,
            mixed_b: b,
            max_period: b,
            min_period: a,
            original_context: source.word().into(),
            length: source.word().into(),
            short_factor: list.cast(),
            long_factor: list.cast(),
            alphas: list.cast(),
            // A float for every double; the counts are equal.
            freq_factors: list.cast(),
            count,
            ..scaling
        }
    }

    fn positions(&mut self, source: &mut Source<'_>) -> rope_positions {
        if source.once_in(2) {
            // As many as memory holds, or more than any memory holds; never a number that takes minutes.
            let count = match extent(source) {
                count if count > 1 << 16 => count | 1 << (usize::BITS - 2),
                count => count,
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
            starts: once_in!(source, 2, starts, null_mut()),
            rank: source.below(5),
            ranks: source.one_of(&[1, 2, 3, 4, 0, usize::MAX]),
            dual_chunk: self.dual_chunk(source),
        }
    }

    fn dual_chunk(&mut self, source: &mut Source<'_>) -> rope_dual_chunk {
        rope_dual_chunk {
            query: once_in!(source, 4, choice!(source, rope_dual_chunk_query), 0),
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
        let head_dim = once_in!(source, 2, 2 * head_dim.min(64), head_dim);
        let out = given_mut(source, &mut layout);
        if !source.once_in(5) {
            let order = choice!(source, rope_order);
            // SAFETY: as for all calls.
            let status = unsafe { rope_layout_init(out, order, batch, tokens, heads, head_dim) };
            check(source, status);
        }
        layout
    }

    fn some_rows(&mut self, source: &mut Source<'_>) -> rope_angles {
        let (cos, len) = self.some::<f32>(source);
        let (sin, room) = self.some::<f32>(source);
        let cos = cos.cast_const().cast::<f32>();
        let (sin, both) = (sin.cast(), both(len, room));
        let (width, rotary_dim) = (extent(source), extent(source));
        let mut rows = match (self.rows, source.below(3)) {
            (Some(rows), 0 | 1) => rows,
            (_, 2) => {
                let rows = match both {
                    beyond if beyond > usize::MAX / 64 => beyond,
                    len => len.checked_div(width).unwrap_or(0),
                };
                if source.once_in(4) {
                    full_rows(cos, sin, rows, width)
                } else {
                    rope_rows_apart(cos, sin, rows, width, rotary_dim)
                }
            }
            _ => rope_rows_joined(cos, len, width),
        };
        if source.once_in(6) {
            rows = strided_rows(cos, sin, both, self.layout(source));
        }
        if source.once_in(3) {
            let (ids, count) = self.some::<i64>(source);
            (rows.ids, rows.ids_count, rows.ids_number) = (ids, count, integer_type(source));
        }
        rows.attention_factor = once_in!(source, 4, number(source), rows.attention_factor);
        rows.heads = once_in!(source, 4, extent(source), rows.heads);
        rows.moves = once_in!(source, 4, 1, rows.moves);
        if source.once_in(8) {
            rows.per_channel = 1;
            // Full-width rows of half as many channels need the same memory.
            rows.rotary_dim /= once_in!(source, 3, 1, 2);
        }
        rows
    }

    /// Returns rows that mostly fit a tensor.
    fn rows_for(&mut self, source: &mut Source<'_>, shape: [usize; 4]) -> rope_angles {
        let [batch, tokens, heads, head_dim] = shape;
        let (values, room) = self.part::<f32>(source, 5);
        let rotary_dim = source.one_of(&[head_dim, head_dim, 2]);
        let rows = source.one_of(&[tokens, tokens, batch.saturating_mul(tokens)]);
        if source.once_in(8) {
            return self.some_rows(source);
        }
        // Sometimes a row for each head.
        let heads = once_in!(source, 3, heads, 1);
        let needed = rows.saturating_mul(rotary_dim).saturating_mul(heads);
        rope_angles {
            heads,
            ..rope_rows_joined(values.cast(), at_most(room, needed), rotary_dim)
        }
    }
}

/// The arguments of the verbs.
impl World {
    fn tensor(&mut self, source: &mut Source<'_>) -> rope_operand {
        let (data, len) = self.some::<f32>(source);
        let element = choice!(source, rope_element);
        tensor_at(data, len, element, self.layout(source))
    }

    /// Returns a tensor in a part of the memory with a few heads of a few channels, which the other arguments fit.
    fn near(&mut self, source: &mut Source<'_>, part: usize) -> rope_operand {
        if source.once_in(16) {
            return self.tensor(source);
        }
        let (data, len) = self.part::<f32>(source, part);
        let [batch, tokens, heads] = [2, 3, 2].map(|most| source.within(1, most));
        let head_dim = source.one_of(&[2, 4, 8, 8, 32]);
        let layout = rope_layout {
            shape: [batch, tokens, heads, head_dim],
            strides: [tokens * heads * head_dim, heads * head_dim, head_dim],
        };
        tensor_at(data, len, choice!(source, rope_element), layout)
    }

    /// Returns a tensor like [`World::near`], mostly with the layout of another tensor.
    fn like(&mut self, source: &mut Source<'_>, x: &rope_operand, part: usize) -> rope_operand {
        let mut y = self.near(source, part);
        y.layout = once_in!(source, 8, y.layout, x.layout);
        y.element = once_in!(source, 4, y.element, x.element);
        y
    }

    fn any_plan(&mut self, source: &mut Source<'_>) -> rope_plan {
        let directions = rope_direction::ALL.iter().map(|&value| value as i32);
        let directions: Vec<i32> = directions.chain([2, 1, 0, 0, -1]).collect();
        rope_plan {
            pairing: choice!(source, rope_pairing),
            output_pairing: once_in!(source, 3, choice!(source, rope_pairing), 0),
            direction: source.one_of(&directions),
            backend: once_in!(source, 3, choice!(source, rope_backend), 0),
            first_channel: match source.below(16) {
                1 => extent(source),
                2 => 2,
                _ => 0,
            },
            parts: match source.below(16) {
                1 => extent(source),
                2 => 2,
                _ => 0,
            },
            ..zero()
        }
    }

    /// Returns a plan that mostly works in place.
    fn plan(&mut self, source: &mut Source<'_>) -> rope_plan {
        if source.once_in(6) {
            return self.any_plan(source);
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
    fn stages(&mut self, source: &mut Source<'_>, shape: [usize; 4]) -> Stages {
        let [batch, tokens, heads, head_dim] = shape;
        let rows = batch.saturating_mul(tokens);
        let counts = [rows, rows.saturating_mul(heads)];
        let all = [head_dim, heads.saturating_mul(head_dim)];
        let few = |source: &mut Source<'_>| match source.below(64) {
            2 => -1,
            3 => 2,
            other => other as i32 % 2,
        };
        let mut norm: rope_norm = zero();
        let (out, formula) = (
            given_mut(source, &mut norm),
            choice!(source, rope_norm_formula),
        );
        // SAFETY: as for all calls.
        check(source, unsafe { rope_norm_init(out, formula) });
        if source.once_in(8) {
            norm.centered = source.word() as i32;
            norm.result = choice!(source, rope_norm_result);
        }
        norm.eps = once_in!(source, 8, number(source) as f32, 1e-6);
        (norm.weight, norm.bias) = (self.weights(source, all), self.weights(source, all));
        // Half of the norms without weights use a formula without weights.
        if norm.weight.count == 0 && source.once_in(2) {
            norm.weighted = 0;
        }
        (norm.reach, norm.order, norm.sum) = (few(source), few(source), few(source));
        if source.once_in(4) {
            let (sums, count) = self.part::<f32>(source, 5);
            norm.sums = sums.cast();
            norm.sums_count = at_most(count, source.one_of(&counts));
            norm.sums_width = extent(source);
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
            let out = given_mut(source, &mut hadamard);
            // SAFETY: as for all calls.
            check(source, unsafe { rope_hadamard_init(out, preset, head_dim) });
        }
        let scale = rope_scale {
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
        };
        Stages {
            norm,
            hadamard,
            scale,
            plan: self.plan(source),
        }
    }

    /// Returns a cache, mostly for the heads of a tensor. Its codes have a part of the memory, and so have its scales.
    fn cache(&mut self, source: &mut Source<'_>, shape: [usize; 4]) -> rope_cache {
        let [batch, _, heads, head_dim] = shape;
        let (memory, bytes) = self.part::<u8>(source, 1);
        let (scales, scales_count) = self.part::<f32>(source, 2);
        let (each, each_count) = self.part::<f32>(source, 5);
        let kind = choice!(source, rope_cache_layout_kind);
        let blocks = source.one_of(&[batch, 1, 2, 4]);
        let (size, x) = (source.one_of(&[1, 2, 4]), source.one_of(&[1, 2]));
        let mut extents = match kind {
            2 => [blocks, heads, size, head_dim, 0],
            3 => [blocks, heads, head_dim, size, 0],
            4 => [blocks, heads, head_dim / x, size, x],
            5 => [blocks, heads, size / x, head_dim, x],
            _ => [blocks, size, heads, head_dim, 0],
        };
        if source.once_in(16) {
            extents[source.below(5)] = extent(source);
        }
        let strides = if source.once_in(2) {
            // The strides of nhd.
            let token = heads.wrapping_mul(head_dim);
            rope_cache_strides {
                channel: 1,
                head: head_dim,
                token,
                block: size.wrapping_mul(token),
                group: size,
                chunk: head_dim,
                ..zero()
            }
        } else {
            rope_cache_strides {
                block: extent(source),
                group: extent(source),
                group_stride: extent(source),
                token: extent(source),
                head: extent(source),
                chunk: extent(source),
                chunk_stride: extent(source),
                channel: extent(source),
            }
        };
        let inline = source.once_in(4) && kind < 3;
        let mut channels = [0, 0];
        if inline {
            // Room for a scale after the channels.
            extents[3] = extents[3].saturating_add(4);
            channels = [0, head_dim];
        } else if source.once_in(16) {
            channels = [extent(source), extent(source)];
        }
        let any_strides = [(); 3].map(|()| extent(source));
        let strides_of_scales = [size.saturating_mul(heads), heads, 1];
        rope_cache {
            memory,
            bytes,
            format: choice!(source, rope_cache_format),
            layout: rope_cache_layout {
                kind,
                extents,
                strides,
                channels,
            },
            scale: rope_quant_scale {
                kind: match inline {
                    true => rope_quant_scale_kind::MadeInline as i32,
                    false => choice!(source, rope_quant_scale_kind),
                },
                same: once_in!(source, 4, number(source) as f32, 0.5),
                each: once_in!(source, 2, each.cast(), null()),
                each_count: at_most(each_count, source.one_of(&[0, heads, heads])),
                least: once_in!(source, 8, number(source) as f32, 1e-6),
                behind: once_in!(source, 8, extent(source), head_dim),
                strides: once_in!(source, 8, any_strides, strides_of_scales),
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
            count: once_in!(source, 16, room, at_most(room, count)),
            number: integer_type(source),
        }
    }

    /// Returns mostly as many slots as a tensor has tokens.
    fn slots(&mut self, source: &mut Source<'_>, [batch, tokens, ..]: [usize; 4]) -> rope_slots {
        let needed = batch.saturating_mul(tokens);
        let (offsets, room) = self.part::<i64>(source, 3);
        let width = source.within(1, 3);
        let kind = choice!(source, rope_slots_kind);
        rope_slots {
            kind,
            slots: self.ids(source, needed),
            positions: self.ids(source, needed),
            pages: self.ids(source, batch.saturating_mul(width)),
            starts: self.ids(source, 8),
            sequences: self.ids(source, needed),
            width: once_in!(source, 8, extent(source), width),
            first: once_in!(source, 4, extent(source), 0),
            count: match kind == rope_slots_kind::Offsets as i32 {
                true => at_most(room, needed),
                false => needed,
            },
            offsets: offsets.cast(),
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
            norm: once_in!(source, 3, null(), given(source, &self.norm)),
            scale: once_in!(source, 2, null(), given(source, &self.scale)),
            without_rounding: source.below(2) as i32,
            hadamard: given(source, &self.hadamard),
            ..self.plan
        }
    }
}

/// The structs that a verb points to.
struct Arguments {
    x: rope_operand,
    y: rope_operand,
    cache: rope_cache,
    slots: rope_slots,
    stages: Stages,
    rows: [rope_angles; 3],
    frequencies: *mut rope_frequencies,
    positions: rope_positions,
}

impl Arguments {
    fn plan(&self, source: &mut Source<'_>) -> rope_plan {
        once_in!(source, 3, self.stages.plan, self.stages.chain(source))
    }

    /// Returns a source and a target: each a tensor, or slots of the cache.
    fn operands(&self, source: &mut Source<'_>) -> [rope_operand; 2] {
        let slots = in_slots(given(source, &self.cache), given(source, &self.slots));
        let [x, y] = [self.x, self.y];
        let others = source.one_of(&[[x, slots], [x, slots], [slots, y], [slots, slots]]);
        once_in!(source, 2, others, [x, y])
    }

    /// Returns rows, or frequencies at positions.
    fn angles(&self, source: &mut Source<'_>) -> rope_angles {
        let at = rope_angles_at(self.frequencies, given(source, &self.positions));
        once_in!(source, 3, at, self.rows[0])
    }
}

/// Verbs, checked or prepared.
impl World {
    fn arguments(&mut self, source: &mut Source<'_>) -> Arguments {
        let x = self.near(source, 0);
        let y = self.like(source, &x, 1);
        let [batch, tokens, heads, head_dim] = x.layout.shape;
        let shape = match source.once_in(4) {
            // The tokens of slots in place are one sequence.
            true => [1, batch.saturating_mul(tokens), heads, head_dim],
            false => x.layout.shape,
        };
        let kind = source.below(2);
        let fitting = rope_positions_range(-2, shape[1]);
        Arguments {
            x: once_in!(source, 8, self.tensor(source), x),
            y: once_in!(source, 8, self.tensor(source), y),
            cache: self.cache(source, shape),
            slots: self.slots(source, shape),
            stages: self.stages(source, shape),
            rows: [(); 3].map(|()| self.rows_for(source, shape)),
            frequencies: self.frequencies(source, kind),
            positions: once_in!(source, 2, self.positions(source), fitting),
        }
    }

    fn verb(&mut self, source: &mut Source<'_>) -> rope_status {
        let arguments = self.arguments(source);
        let (plan, angles) = (arguments.plan(source), arguments.angles(source));
        let [x, y] = arguments.operands(source);
        let groups = source.below(4);
        let mut grouped = arguments.y;
        let [batch, tokens, heads, _] = arguments.x.layout.shape;
        grouped.layout.shape[2] = heads.saturating_mul(groups.max(1));
        let outputs = [&grouped, &y].map(|y| rope_output {
            y: given(source, y),
            rows: spoilt(source, arguments.rows.as_ptr().cast_mut()),
            groups,
        });
        // Mostly as many sums as rows.
        let (sums, room) = self.part::<f32>(source, 1);
        let rows = batch.saturating_mul(tokens);
        let needed = source.one_of(&[rows, rows.saturating_mul(heads), room]);
        let (plan, angles) = (given(source, &plan), given(source, &angles));
        let (x, y) = (given(source, &x), given(source, &y));
        let outputs = spoilt(source, outputs.as_ptr().cast_mut());
        // SAFETY: as for all calls.
        unsafe {
            match source.below(12) {
                0 => rope_apply(plan, x),
                1 => rope_apply_into(plan, x, y),
                2 => rope_rotate_qk(plan, x, y, angles),
                3 => rope_sum_of_squares(plan, x, sums.cast(), at_most(room, needed)),
                4 | 5 => rope_rotate_into_each(plan, x, outputs, source.below(3)),
                6..9 => rope_rotate(plan, x, angles),
                _ => rope_rotate_into(plan, x, y, angles),
            }
        }
    }

    /// Prepares a call and runs it once: at its own memory, or at memory that may be null, misaligned, or overlap the
    /// call's other memory.
    fn prepared(&mut self, source: &mut Source<'_>) -> rope_status {
        let arguments = self.arguments(source);
        let (plan, rows) = (arguments.plan(source), arguments.angles(source));
        let [x, y] = arguments.operands(source);
        let mut call: rope_call = zero();
        // SAFETY: as for all calls.
        let status = unsafe {
            let (plan, x, y) = (given(source, &plan), given(source, &x), given(source, &y));
            let angles = once_in!(source, 8, null(), &raw const rows);
            let out = given_mut(source, &mut call);
            match source.below(3) {
                0 => rope_prepare(plan, x, angles, out),
                1 => rope_prepare_qk(plan, x, y, angles, out),
                _ => rope_prepare_into(plan, x, y, angles, out),
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
        let mut place = |own: *mut c_void, bytes: usize| {
            let last = all.saturating_sub(bytes) / 8;
            match source.below(12) {
                0 => null_mut(),
                1 if bytes < all => first.wrapping_byte_add(1).cast(),
                2..6 => own,
                _ => first.wrapping_add(source.below(last + 1)).cast(),
            }
        };
        let Arguments { cache, stages, .. } = &arguments;
        let mut operand = |operand: &rope_operand| match operand.cache.is_null() {
            true => place(operand.data, operand.len.saturating_mul(4)),
            false => place(cache.memory, cache.bytes),
        };
        let [x, y] = [operand(&x), operand(&y)];
        let floats = rows.len.saturating_mul(4);
        let [cos, sin] = [rows.cos, rows.sin].map(|own| place(own.cast_mut().cast(), floats));
        let ids = place(rows.ids.cast_mut(), rows.ids_count.saturating_mul(8));
        let scales = cache.scales_count.saturating_mul(4);
        let scales = place(cache.scales.cast(), scales);
        let [weight, bias] = [&stages.norm.weight, &stages.norm.bias]
            .map(|own| place(own.data.cast_mut(), own.count.saturating_mul(4)));
        let other = self.slots(source, arguments.x.layout.shape);
        let positions = self.positions(source);
        let memory = rope_call_memory {
            x,
            y,
            cos: cos.cast(),
            sin: sin.cast(),
            ids,
            slots: once_in!(source, 4, null(), given(source, &other)),
            positions: once_in!(source, 2, null(), given(source, &positions)),
            scales: scales.cast(),
            weight,
            bias,
        };
        let memory = given(source, &memory);
        // SAFETY: pointers are null, misaligned, or lead to as much memory as the prepared call needs.
        unsafe { rope_call_run_at(&copied, memory) }
    }
}

/// Frequencies and models.
impl World {
    /// Keeps a handle that a call has made on the heap or in a place.
    fn keep(
        &mut self,
        status: rope_status,
        kind: usize,
        place: usize,
        made: *mut rope_frequencies,
    ) {
        match self.places.get_mut(place) {
            _ if status != rope_status::Ok => {}
            Some((_, handle)) => *handle = made,
            None => self.owned[kind].push(made),
        }
    }

    /// Makes frequencies from axes, or from a list of inverse frequencies, on the heap or in one of the places.
    fn make(&mut self, source: &mut Source<'_>) -> rope_status {
        let (axes, scaling) = (self.axes(source), self.scaling(source));
        let (list, count) = self.some::<f64>(source);
        let axes = given(source, &axes);
        let scaling = once_in!(source, 2, null(), given(source, &scaling));
        let (base, kind) = (number(source), choice!(source, rope_number));
        let (inverse, mut made) = (source.once_in(3), null_mut());
        let out = given_mut(source, &mut made);
        let place = once_in!(source, 2, usize::MAX, source.below(3));
        // SAFETY: as for all calls.
        let status = unsafe {
            if place == usize::MAX && inverse {
                rope_frequencies_new_inverse(axes, list, count, kind, base, out)
            } else if place == usize::MAX {
                rope_frequencies_new(axes, base, scaling, out)
            } else {
                let (to, size) = self.room(source, place);
                if inverse {
                    rope_frequencies_init_inverse(to, size, axes, list, count, kind, base, out)
                } else {
                    rope_frequencies_init(to, size, axes, base, scaling, out)
                }
            }
        };
        self.keep(status, 0, place, made);
        status
    }

    /// Makes mixed frequencies on the heap, or in their place.
    fn make_mixed(&mut self, source: &mut Source<'_>) -> rope_status {
        let part = source.one_of(&[1, 4]);
        let (values, room) = self.part::<f64>(source, part);
        let [axes, heads, pairs] =
            [2, 3, 9].map(|last| once_in!(source, 16, extent(source), source.within(1, last)));
        let each = pairs.saturating_mul(heads.max(1));
        let float = source.one_of(&[rope_number::F32 as i32, rope_number::F64 as i32]);
        let inverse = rope_mixed_inverse {
            values,
            count: at_most(room, axes.saturating_mul(each)),
            number: once_in!(source, 16, choice!(source, rope_number), float),
            axes,
            heads,
            pairs,
        };
        let inverse = given(source, &inverse);
        let factor = once_in!(source, 8, number(source), 1.0);
        let kind = source.below(2) as i32;
        let angle = once_in!(source, 8, choice!(source, rope_mixed_angle), kind);
        let mut made = null_mut();
        let out = given_mut(source, &mut made);
        if source.once_in(2) {
            // SAFETY: as for all calls.
            let status = unsafe { rope_mixed_frequencies_new(inverse, factor, angle, out) };
            self.keep(status, MIXED, usize::MAX, made);
            return status;
        }
        let (memory, mut size) = self.room(source, 3);
        let enough = mixed_bytes(axes, heads.max(1), pairs);
        if size <= PLACE {
            size = size.min(enough);
        }
        // SAFETY: as for all calls.
        let status =
            unsafe { rope_mixed_frequencies_init(memory, size, inverse, factor, angle, out) };
        assert!(status != rope_status::Storage || size < enough);
        self.keep(status, MIXED, 3, made);
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
        let [llama, attention, invalid, empty] = names;
        let names = [null(), llama, attention, invalid, empty];
        let text = source.one_of(&TEXTS);
        let len = once_in!(source, 2, text.len(), source.below(text.len() + 1));
        let text = text.as_ptr().cast();
        let config = rope_config {
            part: source.one_of(&names),
            model_type: source.one_of(&names),
            layer_type: source.one_of(&names),
            without: source.one_of(&names),
            length: source.word().into(),
            head_dim: source.one_of(&[0, 64, 128, 192]),
            lenient: source.below(2) as i32,
        };
        let config = once_in!(source, 2, null(), given(source, &config));
        let (mut made, mut plan) = (null_mut(), zero::<rope_plan>());
        let out = given_mut(source, &mut made);
        let plan = given_mut(source, &mut plan);
        // SAFETY: as for all calls.
        let status = unsafe { rope_frequencies_from_config(text, len, config, out, plan) };
        self.keep(status, 0, usize::MAX, made);
        let mut model = null_mut();
        // SAFETY: as for all calls; the model is freed once.
        unsafe {
            if rope_model_from_config(text, len, config, &mut model) == rope_status::Ok {
                read_model(source, model);
                assert_eq!(rope_model_free(model), rope_status::Ok);
            }
        }
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
        let (factors, count) = self.some::<f32>(source);
        let gguf = rope_gguf {
            parts: once_in!(source, 2, null(), parts.as_ptr()),
            part_count: source.below(3),
            without: source.one_of(&[null(), c"llama.x".as_ptr(), c"\xff".as_ptr()]),
            context: source.word().into(),
            freq_factors: factors.cast(),
            freq_factor_count: count,
        };
        let mut model = null_mut();
        let gguf = given(source, &gguf);
        // SAFETY: as for all calls; the model is freed once.
        unsafe {
            let status = rope_model_from_gguf(whole.data, whole.length, gguf, &mut model);
            if status == rope_status::Ok {
                assert_eq!(rope_model_free(model), rope_status::Ok);
            }
            status
        }
    }

    /// Frees a handle, or refuses to free one that must not be freed.
    fn free(&mut self, source: &mut Source<'_>) -> rope_status {
        let kind = source.below(3);
        // SAFETY: as for all calls; a freed handle leaves its list.
        unsafe {
            if kind == 2 && !self.tables.is_empty() {
                // The rows of the table are freed with it.
                self.rows = None;
                let index = source.below(self.tables.len());
                return rope_table_free(self.tables.swap_remove(index));
            }
            let owned = &mut self.owned[kind % 2];
            if !owned.is_empty() && source.once_in(2) {
                let index = source.below(owned.len());
                return rope_frequencies_free(owned.swap_remove(index));
            }
            rope_frequencies_free(match source.below(3) {
                0 => null_mut(),
                1 => self.garbage.as_mut_ptr().cast(),
                _ => self.places[source.below(4)].1,
            })
        }
    }

    fn set(&mut self, source: &mut Source<'_>) -> rope_status {
        let kind = source.below(2);
        let frequencies = self.frequencies(source, kind);
        // SAFETY: as for all calls.
        unsafe {
            if source.once_in(2) {
                rope_frequencies_set_angle(frequencies, choice!(source, rope_angle))
            } else {
                rope_frequencies_set_backend(frequencies, choice!(source, rope_backend))
            }
        }
    }

    fn describe(&mut self, source: &mut Source<'_>) -> rope_status {
        let kind = source.below(2);
        let frequencies = self.frequencies(source, kind);
        let mut info = zero::<rope_frequencies_info>();
        let out = given_mut(source, &mut info);
        let (list, len) = self.some::<f64>(source);
        // SAFETY: as for all calls.
        unsafe {
            if rope_frequencies_describe(frequencies, out) == rope_status::Ok {
                assert!(info.axes >= 1 && info.heads >= 1 && info.rotary_dim >= 2);
                assert!(info.attention_factor > 0.0 && info.angle >= 0);
            }
            rope_frequencies_inverse(frequencies, list.cast(), len)
        }
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
        let (mut made, mut len) = (null_mut(), 0);
        // SAFETY: as for all calls.
        let status = unsafe { rope_rows_len(&rope_angles_at(frequencies, &to), &mut len) };
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
        let (storage, room) = self.some::<f32>(source);
        let (storage, mut rows) = (storage.cast(), zero::<rope_angles>());
        let mut needed = 0;
        // SAFETY: as for all calls.
        unsafe {
            match source.below(6) {
                0 => rope_rows_len(&angles, given_mut(source, &mut needed)),
                1 | 2 => {
                    let status = rope_table_new(&angles, given_mut(source, &mut made));
                    self.tables
                        .extend((status == rope_status::Ok).then_some(made));
                    status
                }
                _ => {
                    let out = given_mut(source, &mut rows);
                    let status = rope_rows_fill(&angles, storage, room, out);
                    if status == rope_status::Ok {
                        assert!(rows.len == len && len <= room && rows.cos == storage);
                        self.rows = Some(rows);
                    }
                    status
                }
            }
        }
    }

    fn table_rows(&mut self, source: &mut Source<'_>) -> rope_status {
        let tables = self.tables.clone();
        let (table, mut rows) = (self.handle(source, &tables), zero());
        // SAFETY: as for all calls.
        let status = unsafe { rope_table_rows(table, given_mut(source, &mut rows)) };
        if status == rope_status::Ok {
            self.rows = Some(rows);
        }
        status
    }

    fn shard_tokens(&mut self, source: &mut Source<'_>) -> rope_status {
        let positions = self.positions(source);
        let (tokens, room) = self.some::<usize>(source);
        let mut len = 0;
        let out = given_mut(source, &mut len);
        // SAFETY: as for all calls.
        unsafe { rope_shard_tokens(given(source, &positions), tokens.cast(), room, out) }
    }

    fn invert(&mut self, source: &mut Source<'_>) -> rope_status {
        let rows = self.some_rows(source);
        let (storage, len) = self.some::<f32>(source);
        let (storage, mut inverted) = (storage.cast(), zero::<rope_angles>());
        let out = given_mut(source, &mut inverted);
        // SAFETY: as for all calls.
        let status = unsafe { rope_rows_invert(given(source, &rows), storage, len, out) };
        if status == rope_status::Ok {
            assert!(inverted.len <= len && inverted.cos == storage);
            self.rows = Some(inverted);
        }
        status
    }

    fn sinusoidal(&mut self, source: &mut Source<'_>) -> rope_status {
        let (rows, (values, len)) = (self.some_rows(source), self.some::<f32>(source));
        // SAFETY: as for all calls.
        unsafe { rope_sinusoidal(given(source, &rows), values.cast(), len) }
    }

    fn initial(&mut self, source: &mut Source<'_>) -> rope_status {
        let (storage, len) = self.some::<f64>(source);
        let (directions, room) = self.some::<f64>(source);
        let (theta, heads, pairs) = (number(source), extent(source), 2 * source.below(9));
        let (directions, heads) = match source.once_in(2) {
            true => (null_mut(), heads),
            false => (directions, at_most(room, heads)),
        };
        let number = choice!(source, rope_number);
        // SAFETY: as for all calls.
        unsafe { rope_initial_mixed(theta, directions, heads, number, pairs, storage.cast(), len) }
    }

    fn grid(&mut self, source: &mut Source<'_>) -> rope_status {
        let (storage, len) = self.some::<f64>(source);
        let (rows, columns) = (extent(source), extent(source));
        let indexing = choice!(source, rope_grid_indexing);
        let number = choice!(source, rope_number);
        let mut made = rope_positions_range(0, 0);
        let out = given_mut(source, &mut made);
        // SAFETY: as for all calls.
        unsafe { rope_grid_positions(indexing, rows, columns, storage, len, number, out) }
    }
}

/// Gradients: tensors, and the sums of pairs.
impl World {
    /// Returns sums of pairs, mostly of this shape. Fewer rows limit them to the available ones, unless their number
    /// exceeds any memory.
    fn sums(
        &mut self,
        source: &mut Source<'_>,
        part: usize,
        shape: [usize; 3],
    ) -> rope_pair_gradients {
        let sums = self.part::<f64>(source, part).0.cast::<f64>();
        let [rows, heads, pairs] = shape.map(|right| once_in!(source, 24, extent(source), right));
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

    /// Runs a backward pass, sums what it needs, or reduces the sums.
    fn backward(&mut self, source: &mut Source<'_>) -> rope_status {
        let mut arguments = self.arguments(source);
        let [batch, tokens, heads, head_dim] = arguments.x.layout.shape;
        // Read-only tensors may be broadcast; a short memory could make a call of hours.
        if [tokens, heads, head_dim]
            .iter()
            .fold(batch, |all, &extent| all.saturating_mul(extent))
            > 1 << 16
        {
            return rope_status::Ok;
        }
        let direction = &mut arguments.stages.plan.direction;
        *direction = once_in!(source, 8, *direction, 0);
        let plan = once_in!(source, 4, arguments.plan(source), arguments.stages.plan);
        let dx = self.like(source, &arguments.x, 3);
        let shape = [
            source.one_of(&[tokens, tokens, batch.saturating_mul(tokens)]),
            source.one_of(&[heads, 1, 0]),
            source.one_of(&[head_dim / 2, head_dim / 2, 1]),
        ];
        let [angles, factors] = [6, 7].map(|part| self.sums(source, part, shape));
        let axes = source.one_of(&[1, 2, 2, 5]);
        let axes = once_in!(source, 16, extent(source), axes);
        let row = angles.heads.max(1).saturating_mul(angles.pairs);
        let (each, of_rows) = (axes.saturating_mul(row), axes.saturating_mul(angles.rows));
        let all = angles.rows.saturating_mul(row);
        let (out, room) = self.part::<f64>(source, 1);
        let (other, more) = self.part::<f64>(source, 2);
        let (out, other) = (out.cast(), other.cast());
        let range = rope_positions_range(-3, angles.rows);
        let positions = once_in!(source, 4, self.positions(source), range);
        let mut total = f64::NAN;
        let (plan, rows) = (given(source, &plan), given(source, &arguments.rows[0]));
        let (x, dy) = (given(source, &arguments.x), given(source, &arguments.y));
        let (dx, positions) = (given(source, &dx), given(source, &positions));
        let (first, second) = (given(source, &angles), given(source, &factors));
        let kind = choice!(source, rope_gradient_kind);
        // SAFETY: as for all calls.
        unsafe {
            match source.below(8) {
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
                6 => rope_pair_gradients_total(first, given_mut(source, &mut total)),
                _ => {
                    let len = at_most(both(room, more), all);
                    rope_pair_gradients_cos_sin(first, second, rows, out, other, len)
                }
            }
        }
    }

    fn parameters(&mut self, source: &mut Source<'_>) -> rope_status {
        let (frequencies, room) = self.some::<f64>(source);
        let (gradients, more) = self.some::<f64>(source);
        let (frequencies, gradients) = (frequencies.cast(), gradients.cast());
        let (count, base, mut made) = (both(room, more), number(source), 0.0);
        let out = given_mut(source, &mut made);
        // SAFETY: as for all calls.
        unsafe {
            if source.once_in(2) {
                rope_gradients_to_ratio(frequencies, gradients, count)
            } else {
                rope_gradients_to_base(base, frequencies, gradients, count, out)
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

/// Describes a layer of a model, which may lack it.
///
/// # Safety
///
/// The model exists.
unsafe fn read_model(source: &mut Source<'_>, model: *mut rope_model) {
    let (mut count, mut layer, mut frequencies) = (0, zero(), null_mut());
    let (mut text, mut significant) = ([1 as c_char; 24], 7);
    let (index, size) = (source.below(3), source.below(25));
    let text_at = text.as_mut_ptr();
    // SAFETY: the caller promises the model; all other memory is local.
    unsafe {
        assert_eq!(rope_model_layers(model, &mut count), rope_status::Ok);
        let status = rope_model_describe_layer(model, index, &mut layer);
        assert_eq!(status == rope_status::Ok, index < count);
        let listed = rope_model_ignored(model, index, text_at, size, &mut significant);
        assert_eq!(listed == rope_status::Ok, significant < 2);
        assert!(text[size..].iter().all(|&byte| byte == 1));
        if rope_model_frequencies(model, index, &mut frequencies) == rope_status::Ok {
            assert_eq!(rope_frequencies_free(frequencies), rope_status::Ok);
        }
    }
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
