//! C calls whose memories overlap or interleave: memories that share a byte are refused and left untouched, and
//! disjoint memories are accepted.

use std::ptr::{null, null_mut};

use rope::*;

use crate::Source;
use crate::c::{PLAN, bshd, full_rows, in_slots, tensor_at, zero};

/// Returns the bytes of an element, by the number of its type.
fn size_of_element(element: i32) -> usize {
    match element == rope_element::F32 as i32 {
        true => 4,
        false => 2,
    }
}

fn element(source: &mut Source<'_>) -> i32 {
    rope_element::ALL[source.within(1, 3) - 1] as i32
}

/// Returns the byte range of each head of a tensor, relative to its first byte.
fn heads(x: &rope_operand) -> impl Iterator<Item = std::ops::Range<usize>> {
    let rope_layout {
        shape: [batch, tokens, heads, head_dim],
        strides: [batch_stride, token_stride, head_stride],
    } = x.layout;
    let size = size_of_element(x.element);
    (0..batch).flat_map(move |b| {
        (0..tokens).flat_map(move |t| {
            (0..heads).map(move |h| {
                let first = (b * batch_stride + t * token_stride + h * head_stride) * size;
                first..first + head_dim * size
            })
        })
    })
}

/// Counts of the outcomes of [`packed`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Packed {
    /// Q and K lay one after another.
    pub apart: usize,
    /// Q and K interleaved and were rotated.
    pub between: usize,
    /// Q and K shared a byte.
    pub shared: usize,
    /// Q and K shared no byte, but their strides do not show it.
    pub unknown: usize,
}

/// Places Q and K in one buffer: as parts of a packed row in any order of its dimensions, and with K one head early,
/// with other strides, with another element type, or equal to Q. Finds shared bytes head by head.
///
/// # Panics
///
/// If a call accepts memories that share a byte, refuses disjoint ones, writes to refused memory, or gives other bits
/// than two calls of rope_rotate.
pub fn packed(source: &mut Source<'_>) -> Packed {
    const MIDDLE: usize = 1 << 14;
    let [batch, tokens] = [source.within(1, 3), source.within(1, 3)];
    let counts = [source.below(4), source.below(4)];
    let head_dim = source.one_of(&[2, 4, 8]);
    let elements = {
        let first = element(source);
        let other = element(source);
        [first, if source.once_in(4) { other } else { first }]
    };
    let sizes = elements.map(size_of_element);

    // A packed row with the heads of Q and K, perhaps of V, with or without room after each extent.
    let row = counts[0] + counts[1] + source.below(3);
    let mut order = [(0, batch), (1, tokens), (2, row.max(1))];
    order.swap(0, source.below(3));
    order.swap(1, source.within(1, 2));
    let (mut strides, mut stride) = ([0; 3], head_dim * 4 * source.one_of(&[1, 1, 1, 3]));
    for (dimension, extent) in order {
        strides[dimension] = stride;
        stride *= extent + source.one_of(&[0, 0, 0, 1]);
    }
    let mut tensors = [0, 1].map(|which| {
        let layout = rope_layout {
            shape: [batch, tokens, counts[which], head_dim],
            strides: strides.map(|stride| stride / sizes[which]),
        };
        tensor_at(null_mut(), 0, elements[which], layout)
    });
    let changed = source.once_in(4).then(|| source.below(3));
    if let Some(dimension) = changed {
        let stride = &mut tensors[1].layout.strides[dimension];
        *stride = match source.below(4) {
            0 => source.within(1, 3 * head_dim),
            _ => *stride + head_dim * source.within(1, 4),
        };
    }
    let spans = tensors.map(|x| heads(&x).map(|head| head.end).max().unwrap_or(0));
    let head = strides[2];
    let ahead = match source.below(8) {
        0 => 0,
        1 => counts[0].saturating_sub(1) * head,
        2 => (counts[0] + 1) * head,
        3 => head_dim * sizes[0],
        4 => (head / 2) & !3,
        5 => spans[0] + 4 * source.below(8),
        6 => 4 * source.below(spans[0] / 4 + 1),
        _ => counts[0] * head,
    };
    let ahead = ahead.next_multiple_of(4);
    // Sometimes K comes first.
    let starts = if source.once_in(3) {
        [MIDDLE + ahead, MIDDLE]
    } else {
        [MIDDLE, MIDDLE + ahead]
    };

    let mut memory = vec![0x3c00_3f80_u32; MIDDLE].into_boxed_slice();
    let mut covered = vec![[false; 2]; 4 * MIDDLE];
    for which in 0..2 {
        tensors[which].len = spans[which] / sizes[which];
        for head in heads(&tensors[which]) {
            for byte in &mut covered[starts[which] + head.start..starts[which] + head.end] {
                byte[which] = true;
            }
        }
    }
    let shared = covered.contains(&[true; 2]);
    let behind =
        (0..2).any(|which| starts[which] + spans[which] <= starts[1 - which]) || spans.contains(&0);
    let values: Vec<f32> = (0..tokens * head_dim).map(|i| i as f32 / 8.0).collect();
    let rows = rope_rows_joined(values.as_ptr(), values.len(), head_dim);

    let before = memory.clone();
    let mut place = |memory: &mut [u32]| {
        for (x, start) in tensors.iter_mut().zip(starts) {
            x.data = memory.as_mut_ptr().wrapping_byte_add(start).cast();
        }
        tensors
    };
    let (mut copy, mut call, mut at) = (memory.clone(), zero(), zero::<rope_call_memory>());
    [at.x, at.y] = place(&mut copy).map(|x| x.data);
    let [q, k] = place(&mut memory);
    // SAFETY: the tensors lie in the memory.
    let status = unsafe {
        let prepared = rope_prepare_qk(&PLAN, &q, &k, &rows, &mut call);
        let status = rope_rotate_qk(&PLAN, &q, &k, &rows);
        assert_eq!(prepared, status);
        if status == rope_status::Ok {
            assert_eq!(rope_call_run_at(&call, &at), status);
        }
        status
    };
    assert_eq!(copy, memory, "a prepared call");
    let mut ends = Packed::default();
    if status != rope_status::Ok {
        assert_eq!(memory, before, "{status:?} has written");
    }
    match status {
        rope_status::Ok => {
            assert!(!shared, "rotated what is shared: {q:?} {k:?}");
            let mut expected = before;
            for x in place(&mut expected) {
                // SAFETY: the tensors lie in the memory.
                let status = unsafe { rope_rotate(&PLAN, &x, &rows) };
                assert_eq!(status, rope_status::Ok);
            }
            assert_eq!(memory, expected);
            if behind {
                ends.apart += 1;
            } else {
                ends.between += 1;
            }
        }
        // Randomly changed strides or wider elements may make K overlap itself.
        rope_status::Overlap => assert!(changed.is_some() || sizes[0] < sizes[1]),
        rope_status::MemoryOverlap => {
            assert!(!behind, "spans that are disjoint: {q:?} {k:?}");
            let shown = changed.is_none() && sizes[0] == sizes[1];
            assert!(shared || !shown, "strides that are equal: {q:?} {k:?}");
            if shared {
                ends.shared += 1;
            } else {
                ends.unknown += 1;
            }
        }
        other => panic!("{other:?}: {q:?} {k:?}"),
    }
    ends
}

const WORDS: usize = 1 << 11;
/// -1 as a float; as an integer it is negative, and its slot is skipped.
const CONTENT: u32 = 0xbf80_0000;

/// Memory that is handed out piece by piece.
struct Arena {
    words: Box<[u64; WORDS]>,
    next: usize,
    pieces: Vec<Piece>,
    /// True if pieces may overlap.
    mixed: bool,
}

#[derive(Clone, Copy, Debug)]
struct Piece {
    start: usize,
    bytes: usize,
    written: bool,
}

impl Piece {
    fn overlaps(&self, other: &Piece) -> bool {
        self.bytes.min(other.bytes) > 0
            && self.start < other.start + other.bytes
            && other.start < self.start + self.bytes
    }
}

impl Arena {
    fn new(mixed: bool) -> Self {
        Arena {
            mixed,
            words: Box::new([u64::from(CONTENT) << 32 | u64::from(CONTENT); WORDS]),
            next: 0,
            pieces: Vec::new(),
        }
    }

    /// Returns a piece that mostly lies behind all others, and sometimes over or beside one of them.
    fn piece<T>(&mut self, source: &mut Source<'_>, len: usize, written: bool) -> *mut T {
        let bytes = len * size_of::<T>();
        let start = if !self.mixed || self.pieces.is_empty() || !source.once_in(6) {
            self.next
        } else {
            let other = source.one_of(&self.pieces);
            let last = other.start + other.bytes.next_multiple_of(8);
            let first = other.start.saturating_sub(bytes) & !7;
            first + 8 * source.below((last - first) / 8 + 1)
        };
        self.next = self.next.max((start + bytes).next_multiple_of(8));
        assert!(self.next <= 8 * WORDS, "the memory is too small");
        self.pieces.push(Piece {
            start,
            bytes,
            written,
        });
        self.words.as_mut_ptr().wrapping_byte_add(start).cast()
    }

    fn read<T>(&mut self, source: &mut Source<'_>, len: usize) -> *const T {
        self.piece::<T>(source, len, false).cast_const()
    }

    fn written<T>(&mut self, source: &mut Source<'_>, len: usize) -> *mut T {
        self.piece(source, len, true)
    }

    fn tensor(&mut self, source: &mut Source<'_>, element: i32, shape: [usize; 4]) -> rope_operand {
        self.any_tensor(source, element, shape, false)
    }

    fn tensor_mut(
        &mut self,
        source: &mut Source<'_>,
        element: i32,
        shape: [usize; 4],
    ) -> rope_operand {
        self.any_tensor(source, element, shape, true)
    }

    fn any_tensor(
        &mut self,
        source: &mut Source<'_>,
        element: i32,
        shape: [usize; 4],
        written: bool,
    ) -> rope_operand {
        let len = shape.iter().product();
        let bytes = len * size_of_element(element);
        let data = self.piece::<u8>(source, bytes, written).cast();
        tensor_at(data, len, element, bshd(shape))
    }

    fn rows(&mut self, source: &mut Source<'_>, tokens: usize, rotary_dim: usize) -> rope_angles {
        let len = tokens * rotary_dim;
        if source.once_in(2) {
            return rope_rows_joined(self.read(source, len), len, rotary_dim);
        }
        let (pairs, half) = (rotary_dim / 2, len / 2);
        let (cos, sin) = (self.read(source, half), self.read(source, half));
        rope_rows_apart(cos, sin, tokens, pairs, rotary_dim)
    }

    /// Returns rows of cos and sin, or rows of channels.
    fn any_rows(
        &mut self,
        source: &mut Source<'_>,
        tokens: usize,
        rotary_dim: usize,
    ) -> rope_angles {
        if !source.once_in(4) {
            return self.rows(source, tokens, rotary_dim);
        }
        let len = tokens * rotary_dim;
        let (cos, sin) = (self.read(source, len), self.read(source, len));
        full_rows(cos, sin, tokens, rotary_dim)
    }

    fn weights(&mut self, source: &mut Source<'_>, count: usize) -> rope_weights {
        let element = element(source);
        let data = self.read::<u8>(source, count * size_of_element(element));
        rope_weights {
            data: data.cast(),
            count,
            element,
        }
    }

    fn gradients(&mut self, source: &mut Source<'_>, shape: [usize; 3]) -> rope_pair_gradients {
        let [rows, heads, pairs] = shape;
        rope_pair_gradients {
            sums: self.written(source, shape.iter().product()),
            rows,
            heads,
            pairs,
        }
    }

    /// Returns a cache of 8-bit codes with given or stored scales, or a cache of floats.
    fn cache(
        &mut self,
        source: &mut Source<'_>,
        [slots, heads, head_dim]: [usize; 3],
        written: bool,
    ) -> rope_cache {
        let mut cache: rope_cache = zero();
        cache.layout.kind = rope_cache_layout_kind::Nhd as i32;
        cache.layout.extents = [1, slots, heads, head_dim, 0];
        cache.scale.same = 0.5;
        let len = slots * heads * head_dim;
        let (format, size) = source.one_of(&[
            (rope_cache_format::F32, 4),
            (rope_cache_format::Bf16, 2),
            (rope_cache_format::E4m3, 1),
            (rope_cache_format::Int8Even, 1),
        ]);
        (cache.format, cache.bytes) = (format as i32, len * size);
        cache.memory = self.piece::<u8>(source, cache.bytes, written).cast();
        if size > 1 {
            return cache;
        }
        if source.once_in(2) {
            cache.scale.kind = rope_quant_scale_kind::MadeApart as i32;
            (cache.scale.least, cache.scale.strides) = (1e-6, [slots * heads, heads, 1]);
            cache.scales_count = slots * heads;
            cache.scales = self
                .piece::<f32>(source, cache.scales_count, written)
                .cast();
        } else {
            cache.scale.kind = rope_quant_scale_kind::Divide as i32;
            cache.scale.each_count = heads;
            cache.scale.each = self.read(source, heads);
        }
        cache
    }

    /// Returns true if a written piece overlaps another one.
    fn overlap(&self) -> bool {
        let pairs = |(i, piece): (usize, &Piece)| {
            let mut others = self.pieces[..i].iter();
            others.any(|other| (piece.written || other.written) && piece.overlaps(other))
        };
        self.pieces.iter().enumerate().any(pairs)
    }
}

/// Makes any call with several memories; its only possible fault is an overlap.
///
/// # Panics
///
/// If a call accepts memories that share a written byte, writes to memories that it refuses, or refuses disjoint
/// memories with ROPE_STATUS_MEMORY_OVERLAP.
pub fn memories(source: &mut Source<'_>) {
    let mut arena = Arena::new(true);
    let arena = &mut arena;
    let call = source.below(CALLS);
    let before = arena.words.clone();
    // SAFETY: every pointer leads into the arena, and the arena has the stated memory there.
    let status = unsafe { call_with(arena, source, call) };
    let case = || format!("call {call}: {:?}", arena.pieces);
    // A given scale of -1 is invalid; these calls may report it before they have compared all memories.
    let none = (7..=10).contains(&call) && status == rope_status::Parameter;
    if arena.overlap() {
        let refused = status == rope_status::MemoryOverlap || none;
        assert!(refused, "{status:?}: {}", case());
        assert_eq!(before, arena.words, "{} has written", case());
    } else {
        assert!(none || status == rope_status::Ok, "{status:?}: {}", case());
    }
}

const CALLS: usize = 32;

/// Makes frequencies of text, which the caller frees, and a position for each token.
///
/// # Safety
///
/// As for the C calls that it makes.
unsafe fn text(
    arena: &mut Arena,
    source: &mut Source<'_>,
    tokens: usize,
    dim: usize,
) -> (*mut rope_frequencies, rope_positions) {
    let mut frequencies = null_mut();
    let values = arena.read::<i32>(source, tokens).cast();
    let number = rope_number::I32 as i32;
    // SAFETY: locals, and memory of the arena.
    unsafe {
        let status = rope_frequencies_new(&rope_axes_text(dim), 1e4, null(), &mut frequencies);
        assert_eq!(status, rope_status::Ok);
        (
            frequencies,
            rope_positions_per_token(values, tokens, number),
        )
    }
}

/// # Safety
///
/// As for the C calls that it makes.
unsafe fn call_with(arena: &mut Arena, source: &mut Source<'_>, call: usize) -> rope_status {
    let (tokens, heads, dim) = (source.within(1, 3), source.within(1, 2), 8);
    let (shape, element, other) = ([1, tokens, heads, dim], element(source), element(source));
    let sums = [tokens, heads, dim / 2];
    let all = sums.iter().product();
    let mut norm = zero();
    let (mut chain, mut hadamard) = (PLAN, zero::<rope_hadamard>());
    let mut scale: rope_scale = zero();
    // The stages of a chain, with a norm or without.
    let mut chained = |arena: &mut Arena, source: &mut Source<'_>, normed: bool| {
        if normed {
            // SAFETY: `norm` is a local struct.
            let status =
                unsafe { rope_norm_init(&mut norm, rope_norm_formula::Llama as i32, 1e-6) };
            assert_eq!(status, rope_status::Ok);
            norm.weight = arena.weights(source, dim);
            if source.once_in(2) {
                norm.bias = arena.weights(source, dim);
            }
            if source.once_in(2) {
                (norm.sums_count, norm.sums_width) = (tokens * heads, dim);
                norm.sums = arena.read(source, norm.sums_count);
            }
            (norm.eps, chain.norm) = (1e-6, &raw const norm);
        }
        if source.once_in(2) {
            (scale.kind, scale.count) = (rope_scale_kind::PerToken as i32, tokens);
            scale.factors = arena.read(source, tokens);
            chain.scale = &raw const scale;
        }
        if source.once_in(2) {
            hadamard.block = dim;
            chain.hadamard = &raw const hadamard;
        }
        chain
    };
    let linear = source.once_in(2);
    let listed = |arena: &mut Arena, source: &mut Source<'_>| rope_slots {
        kind: rope_slots_kind::Mapping as i32,
        slots: rope_ids {
            values: arena.read::<i32>(source, tokens).cast(),
            count: tokens,
            number: rope_number::I32 as i32,
        },
        ..zero()
    };
    let cached = [4, heads, dim];
    // SAFETY: the caller upholds the contracts of the C calls.
    unsafe {
        match call {
            0 => {
                let (x, rows) = (
                    arena.tensor_mut(source, element, shape),
                    arena.any_rows(source, tokens, dim),
                );
                rope_rotate(&PLAN, &x, &rows)
            }
            1 => {
                let (x, y) = (
                    arena.tensor(source, element, shape),
                    arena.tensor_mut(source, other, shape),
                );
                let rows = arena.any_rows(source, tokens, dim);
                rope_rotate_into(&PLAN, &x, &y, &rows)
            }
            2 => {
                let (q, k) = (
                    arena.tensor_mut(source, element, shape),
                    arena.tensor_mut(source, other, shape),
                );
                let rows = arena.any_rows(source, tokens, dim);
                rope_rotate_qk(&PLAN, &q, &k, &rows)
            }
            3 => {
                let chain = chained(arena, source, true);
                let x = arena.tensor_mut(source, element, shape);
                let rows = arena.any_rows(source, tokens, dim);
                rope_rotate(&chain, &x, &rows)
            }
            4 => {
                let chain = chained(arena, source, true);
                rope_apply(&chain, &arena.tensor_mut(source, element, shape))
            }
            5 => {
                let chain = chained(arena, source, true);
                let (x, y) = (
                    arena.tensor(source, element, shape),
                    arena.tensor_mut(source, other, shape),
                );
                let rows = arena.any_rows(source, tokens, dim);
                rope_rotate_into(&chain, &x, &y, &rows)
            }
            6 => {
                let chain = chained(arena, source, true);
                let x = arena.tensor(source, element, shape);
                let sums = arena.written(source, tokens * heads);
                rope_sum_of_squares(&chain, &x, sums, tokens * heads)
            }
            7 => {
                let (chain, slots) = (chained(arena, source, true), listed(arena, source));
                let x = arena.tensor(source, element, shape);
                let cache = arena.cache(source, cached, true);
                if source.once_in(2) {
                    return rope_apply_into(&chain, &x, &in_slots(&cache, &slots));
                }
                let rows = arena.any_rows(source, tokens, dim);
                rope_rotate_into(&chain, &x, &in_slots(&cache, &slots), &rows)
            }
            8 => {
                let (chain, slots) = (chained(arena, source, true), listed(arena, source));
                let x = arena.tensor(source, element, shape);
                let y = arena.tensor_mut(source, other, shape);
                let (first, second) = (
                    arena.cache(source, cached, true),
                    arena.cache(source, cached, true),
                );
                let rows = [(); 3].map(|()| arena.rows(source, tokens, dim));
                let (first, second) = (in_slots(&first, &slots), in_slots(&second, &slots));
                let output = |y, rows| rope_output { y, rows, groups: 0 };
                let outputs = [
                    output(&first, &rows[0]),
                    output(&y, &rows[1]),
                    output(&second, &rows[2]),
                ];
                rope_rotate_into_each(&chain, &x, outputs.as_ptr(), outputs.len())
            }
            9 => {
                let (chain, slots) = (chained(arena, source, true), listed(arena, source));
                let y = arena.tensor_mut(source, element, shape);
                let cache = arena.cache(source, cached, false);
                if source.once_in(2) {
                    return rope_apply_into(&chain, &in_slots(&cache, &slots), &y);
                }
                let rows = arena.any_rows(source, tokens, dim);
                rope_rotate_into(&chain, &in_slots(&cache, &slots), &y, &rows)
            }
            10 => {
                let (cache, slots) = (arena.cache(source, cached, true), listed(arena, source));
                let rows = arena.rows(source, tokens, dim);
                if linear {
                    let chain = chained(arena, source, false);
                    return rope_rotate(&chain, &in_slots(&cache, &slots), &rows);
                }
                rope_rotate(&PLAN, &in_slots(&cache, &slots), &rows)
            }
            11 => {
                let (y, dy) = (
                    arena.tensor(source, element, shape),
                    arena.tensor_mut(source, element, shape),
                );
                let (rows, angles) = (
                    arena.rows(source, tokens, dim),
                    arena.gradients(source, sums),
                );
                if linear {
                    let chain = chained(arena, source, false);
                    return rope_backward(&chain, &y, &dy, &rows, &angles);
                }
                rope_backward(&PLAN, &y, &dy, &rows, &angles)
            }
            12 => {
                let (y, dy) = (
                    arena.tensor(source, element, shape),
                    arena.tensor(source, element, shape),
                );
                let dx = arena.tensor_mut(source, other, shape);
                let (rows, angles) = (
                    arena.rows(source, tokens, dim),
                    arena.gradients(source, sums),
                );
                rope_backward_into(&PLAN, &y, &dy, &dx, &rows, &angles)
            }
            13..=16 => {
                let (x, dy) = (
                    arena.tensor(source, element, shape),
                    arena.tensor(source, element, shape),
                );
                let first = arena.gradients(source, sums);
                let one = [
                    rope_gradient_kind::Angles,
                    rope_gradient_kind::AnglesOfInput,
                    rope_gradient_kind::Factors,
                ];
                match one.get(call - 13) {
                    Some(&kind) => rope_gradients(kind as i32, &PLAN, &x, &dy, &first, null()),
                    None => {
                        let second = arena.gradients(source, sums);
                        let two = [rope_gradient_kind::CosSin, rope_gradient_kind::Channels];
                        let kind = source.one_of(&two) as i32;
                        rope_gradients(kind, &PLAN, &x, &dy, &first, &second)
                    }
                }
            }
            17 => {
                let angles = arena.gradients(source, sums);
                let values = arena.read::<i32>(source, tokens).cast();
                let number = rope_number::I32 as i32;
                let positions = rope_positions_per_token(values, tokens, number);
                let len = heads * dim / 2;
                let out = arena.written(source, len);
                rope_pair_gradients_frequencies(&angles, &positions, 1, out, len)
            }
            18 => {
                let (angles, len) = (arena.gradients(source, sums), heads * dim / 2);
                let inverse = arena.read(source, len);
                let out = arena.written(source, tokens);
                rope_pair_gradients_positions(&angles, inverse, len, 1, out, tokens)
            }
            19 => {
                let angles = arena.gradients(source, sums);
                rope_pair_gradients_total(&angles, arena.written(source, 1))
            }
            20 => {
                let (angles, factors) = (
                    arena.gradients(source, [tokens, 1, dim / 2]),
                    arena.gradients(source, [tokens, 1, dim / 2]),
                );
                let rows = arena.rows(source, tokens, dim);
                let len = tokens * dim / 2;
                let (cos, sin) = (arena.written(source, len), arena.written(source, len));
                rope_pair_gradients_cos_sin(&angles, &factors, &rows, cos, sin, len)
            }
            21 => {
                let (fixed, gradients) = (arena.read(source, all), arena.written(source, all));
                rope_gradients_to_ratio(fixed, gradients, all)
            }
            22 => {
                let (fixed, gradients) = (arena.read(source, all), arena.read(source, all));
                let gradient = arena.written(source, 1);
                rope_gradients_to_base(1e4, fixed, gradients, all, gradient)
            }
            23 => {
                let rows = arena.rows(source, tokens, dim);
                let values = arena.written(source, tokens * dim);
                if source.once_in(2) {
                    return rope_sinusoidal(&rows, values, tokens * dim);
                }
                let inverted = arena.written(source, 1);
                rope_rows_invert(&rows, values, tokens * dim, inverted)
            }
            24 => {
                let (frequencies, positions) = text(arena, source, tokens, dim);
                let storage = arena.written(source, tokens * dim);
                let rows = arena.written(source, 1);
                let status = rope_rows_fill(
                    &rope_angles_at(frequencies, &positions),
                    storage,
                    tokens * dim,
                    rows,
                );
                assert_eq!(rope_frequencies_free(frequencies), rope_status::Ok);
                status
            }
            25 => {
                let directions = arena.read::<f32>(source, heads).cast();
                let (number, len) = (rope_number::F32 as i32, 2 * heads * 4);
                let inverse = arena.written(source, len);
                rope_initial_mixed(10.0, directions, heads, number, 4, inverse, len)
            }
            26 => {
                let (number, len) = (rope_number::I32 as i32, 2 * tokens * heads);
                let storage = arena.written::<i32>(source, len).cast();
                let positions = arena.written(source, 1);
                rope_grid_positions(
                    rope_grid_indexing::Xy as i32,
                    tokens,
                    heads,
                    storage,
                    len,
                    number,
                    positions,
                )
            }
            27 => {
                let (frequencies, positions) = text(arena, source, tokens, dim);
                let x = arena.tensor_mut(source, element, shape);
                let status = rope_rotate(&PLAN, &x, &rope_angles_at(frequencies, &positions));
                assert_eq!(rope_frequencies_free(frequencies), rope_status::Ok);
                status
            }
            28 => {
                // Prepared in memory that is apart, and run in this one.
                let (mut own, mut call) = (Arena::new(false), zero());
                let own = &mut own;
                let (x, rows) = (
                    own.tensor_mut(source, element, shape),
                    own.any_rows(source, tokens, dim),
                );
                let k = own.tensor_mut(source, element, shape);
                let qk = source.once_in(2);
                let status = if qk {
                    rope_prepare_qk(&PLAN, &x, &k, &rows, &mut call)
                } else {
                    rope_prepare(&PLAN, &x, &rows, &mut call)
                };
                assert_eq!(status, rope_status::Ok);
                let mut at: rope_call_memory = zero();
                at.x = arena.tensor_mut(source, element, shape).data;
                if qk {
                    at.y = arena.tensor_mut(source, element, shape).data;
                }
                at.cos = arena.read(source, rows.len);
                if !rows.sin.is_null() {
                    at.sin = arena.read(source, rows.len);
                }
                rope_call_run_at(&call, &at)
            }
            29 | 30 => {
                let (mut own, mut call) = (Arena::new(false), zero());
                let own = &mut own;
                let (chain, slots) = (chained(own, source, true), listed(own, source));
                let x = own.tensor(source, element, shape);
                let cache = own.cache(source, cached, true);
                let rows = own.rows(source, tokens, dim);
                let to = &in_slots(&cache, &slots);
                let status = rope_prepare_into(&chain, &x, to, &rows, &mut call);
                // What was chosen at random may overlap there too, or be a scale of -1.
                if status != rope_status::Ok {
                    assert!(
                        own.overlap() || status == rope_status::Parameter,
                        "{status:?}"
                    );
                    return rope_status::Ok;
                }
                let mut at: rope_call_memory = zero();
                at.x = arena.tensor(source, element, shape).data;
                at.y = arena.piece::<u8>(source, cache.bytes, true).cast();
                if cache.scales_count > 0 {
                    at.scales = arena.written::<f32>(source, cache.scales_count).cast();
                }
                let others = listed(arena, source);
                at.slots = &others;
                at.cos = arena.read(source, rows.len);
                if !rows.sin.is_null() {
                    at.sin = arena.read(source, rows.len);
                }
                let norm = &*chain.norm;
                let element = |weights: rope_weights| size_of_element(weights.element);
                let bytes = norm.weight.count * element(norm.weight);
                at.weight = arena.read::<u8>(source, bytes).cast();
                if norm.bias.count > 0 {
                    let bytes = norm.bias.count * element(norm.bias);
                    at.bias = arena.read::<u8>(source, bytes).cast();
                }
                rope_call_run_at(&call, &at)
            }
            _ => {
                let kind = rope_positions_kind::StripedShard as i32;
                let positions = rope_positions_shard(kind, tokens, 0, heads);
                let len = tokens.div_ceil(heads);
                let list = arena.written(source, len);
                rope_shard_tokens(&positions, list, len, arena.written(source, 1))
            }
        }
    }
}
