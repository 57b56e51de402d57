//! The arguments of calls: structs that mostly fit each other, and sometimes have any value.

use std::ptr::{null, null_mut};

use rope::*;

use super::{PARTS, World, check, given, given_mut};
use crate::Source;
use crate::bodies::frequencies::number;
use crate::c::{bshd, full_rows, in_slots, strided_rows, tensor_at, zero};

/// Returns mostly one of these values, which follow one another.
pub(super) fn choice(source: &mut Source<'_>, values: &[i32]) -> i32 {
    match source.below(32) {
        1 => source.word() as i32,
        2 => values[0] + source.below(values.len() + 3) as i32 - 2,
        _ => values[source.within(1, values.len()) - 1],
    }
}

/// Returns mostly the number of an integer type.
fn integer_type(source: &mut Source<'_>) -> i32 {
    use rope_number::{I32, I64, U32, U64};
    choice(source, &[I32, I64, U32, U64].map(|number| number as i32))
}

/// Returns mostly 0 or 1, for members that have no more values.
fn flag(source: &mut Source<'_>) -> i32 {
    either(source, 1)
}

/// Returns mostly 0 or the other value of an enumeration of two.
fn either(source: &mut Source<'_>, other: i32) -> i32 {
    match source.below(64) {
        2 => -1,
        3 => other + 1,
        even if even % 2 == 0 => 0,
        _ => other,
    }
}

/// Returns an extent that is mostly small.
pub(super) fn extent(source: &mut Source<'_>) -> usize {
    match source.below(32) {
        1 => usize::MAX - source.below(3),
        2 => (1_usize << source.below(usize::BITS as usize))
            .wrapping_add(source.below(3))
            .wrapping_sub(1),
        3 => source.below(200),
        _ => source.below(5),
    }
}

pub(super) fn some_extents<const N: usize>(source: &mut Source<'_>) -> [usize; N] {
    [(); N].map(|()| extent(source))
}

pub(super) fn product(extents: &[usize]) -> usize {
    extents.iter().copied().fold(1, usize::saturating_mul)
}

/// Limits a count to the available room, unless the room exceeds any memory; then it stays.
pub(super) fn at_most(room: usize, count: usize) -> usize {
    if room < usize::MAX / 64 {
        room.min(count)
    } else {
        room
    }
}

/// Returns the smaller room of two places, or a count beyond any memory if one place has it.
pub(super) fn both(room: usize, other: usize) -> usize {
    at_most(room.max(other), room.min(other))
}

/// Parts of the memory, and what rows are made of.
impl World {
    /// Returns some memory and the number of `T` in it; sometimes a number that no memory can hold.
    pub(super) fn some<T>(&mut self, source: &mut Source<'_>) -> (*mut T, usize) {
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
        let first = self.memory.as_mut_ptr().wrapping_byte_add(at);
        (once_in!(source, 32, null_mut(), first.cast()), len)
    }

    /// Returns a part of the memory and the number of `T` in it; sometimes any memory.
    pub(super) fn part<T>(&mut self, source: &mut Source<'_>, index: usize) -> (*mut T, usize) {
        if source.once_in(24) {
            return self.some(source);
        }
        let bytes = size_of_val(&*self.memory) / PARTS;
        let first = self.memory.as_mut_ptr().wrapping_byte_add(index * bytes);
        (first.cast(), bytes / size_of::<T>())
    }

    pub(super) fn axes(&mut self, source: &mut Source<'_>) -> rope_axes {
        if source.once_in(2) {
            return rope_axes_text(2 * source.below(40));
        }
        let (given, count) = self.some(source);
        let sections = some_extents(source);
        let covered = sections.into_iter().take(source.within(1, 4));
        let covered = covered.fold(0, usize::saturating_add);
        let (few, many) = (source.below(5), count.min(100).max(count & !0xffff));
        rope_axes {
            kind: choice!(source, rope_axes_kind),
            // The channels of M-RoPE's pairs must be that many.
            rotary_dim: once_in!(source, 2, covered.saturating_mul(2), extent(source)),
            sections,
            count: once_in!(source, 2, at_most(count, few), many),
            given,
        }
    }

    pub(super) fn scaling(&mut self, source: &mut Source<'_>) -> rope_scaling {
        let (kind, mut scaling) = (choice!(source, rope_scaling_kind), zero());
        let status = call!(rope_scaling_init(given_mut(source, &mut scaling), kind));
        check(source, status);
        let [a, b, c, d] = [(); 4].map(|()| number(source));
        if source.once_in(4) {
            (scaling.beta_fast, scaling.beta_slow) = (a, b);
            (scaling.mscale, scaling.mscale_all_dim) = (c, d);
            (scaling.low_freq_factor, scaling.high_freq_factor) = (b, c);
            (scaling.attention_factor, scaling.ntk_factor) = (d, b);
            (scaling.extrapolation_factor, scaling.partial_rotary_factor) = (c, d);
            scaling.untruncated = source.word() as i32;
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
            short_factor: list,
            long_factor: list,
            alphas: list,
            // A float for every double; the counts are equal.
            freq_factors: list.cast(),
            count,
            ..scaling
        }
    }

    pub(super) fn positions(&mut self, source: &mut Source<'_>) -> rope_positions {
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
                dual_chunk: dual_chunk(source),
                ..rope_positions_range(first, count)
            };
        }
        let (values, count) = self.some::<f64>(source);
        let (starts, room) = self.some::<f64>(source);
        rope_positions {
            kind: choice!(source, rope_positions_kind),
            number: choice!(source, rope_number),
            values: values.cast(),
            count: at_most(both(count, room), source.below(8)),
            first: 0,
            starts: once_in!(source, 2, starts.cast(), null_mut()),
            rank: source.below(5),
            ranks: source.one_of(&[1, 2, 3, 4, 0, usize::MAX]),
            dual_chunk: dual_chunk(source),
        }
    }

    pub(super) fn some_rows(&mut self, source: &mut Source<'_>) -> rope_angles {
        let (cos, len) = self.some(source);
        let (sin, room) = self.some(source);
        let both = both(len, room);
        let [width, rotary_dim] = some_extents(source);
        let count = at_most(both, both.checked_div(width).unwrap_or(0));
        let mut rows = match (self.rows, source.below(3)) {
            (Some(rows), 0 | 1) => rows,
            (_, 2) if source.once_in(4) => full_rows(cos, sin, count, width),
            (_, 2) => rope_rows_apart(cos, sin, count, width, rotary_dim),
            _ => rope_rows_joined(cos, len, width),
        };
        if source.once_in(6) {
            rows = strided_rows(cos, sin, both, layout(source));
        }
        if source.once_in(3) {
            let (ids, count) = self.some::<i64>(source);
            (rows.ids, rows.ids_count, rows.ids_number) = (ids.cast(), count, integer_type(source));
        }
        rows.attention_factor = once_in!(source, 4, number(source), rows.attention_factor);
        rows.heads = once_in!(source, 4, extent(source), rows.heads);
        rows.moves = once_in!(source, 4, 1, rows.moves);
        if source.once_in(8) {
            rows.full_width = 1;
            // Full-width rows of half as many channels need the same memory.
            rows.rotary_dim /= once_in!(source, 3, 1, 2);
        }
        rows
    }

    /// Returns rows that mostly fit a tensor.
    fn rows_for(&mut self, source: &mut Source<'_>, shape: [usize; 4]) -> rope_angles {
        let [batch, tokens, heads, head_dim] = shape;
        let (values, room) = self.part(source, 5);
        let rotary_dim = source.one_of(&[head_dim, head_dim, 2]);
        let rows = source.one_of(&[tokens, tokens, batch.saturating_mul(tokens)]);
        if source.once_in(8) {
            return self.some_rows(source);
        }
        // Sometimes a row for each head.
        let heads = once_in!(source, 3, heads, 1);
        let len = at_most(room, product(&[rows, rotary_dim, heads]));
        rope_angles {
            heads,
            ..rope_rows_joined(values, len, rotary_dim)
        }
    }
}

fn dual_chunk(source: &mut Source<'_>) -> rope_dual_chunk {
    rope_dual_chunk {
        query: once_in!(source, 4, choice!(source, rope_dual_chunk_query), 0),
        chunk_size: source.one_of(&[1, 8, 4096, 0, u32::MAX as usize, usize::MAX]),
        local_size: source.one_of(&[0, 1, 3, usize::MAX]),
    }
}

fn layout(source: &mut Source<'_>) -> rope_layout {
    let mut layout = rope_layout {
        shape: some_extents(source),
        strides: some_extents(source),
    };
    let [batch, tokens, heads, head_dim] = layout.shape;
    let head_dim = once_in!(source, 2, 2 * head_dim.min(64), head_dim);
    let out = given_mut(source, &mut layout);
    if !source.once_in(5) {
        let order = choice!(source, rope_order);
        let status = call!(rope_layout_init(out, order, batch, tokens, heads, head_dim));
        check(source, status);
    }
    layout
}

/// Tensors, caches and plans.
impl World {
    fn tensor(&mut self, source: &mut Source<'_>) -> rope_operand {
        let (data, len) = self.some::<f32>(source);
        let element = choice!(source, rope_element);
        tensor_at(data.cast(), len, element, layout(source))
    }

    /// Returns a tensor in a part of the memory with a few heads of a few channels, which the other arguments fit.
    fn near(&mut self, source: &mut Source<'_>, part: usize) -> rope_operand {
        if source.once_in(16) {
            return self.tensor(source);
        }
        let (data, len) = self.part::<f32>(source, part);
        let [batch, tokens, heads] = [2, 3, 2].map(|most| source.within(1, most));
        let head_dim = source.one_of(&[2, 4, 8, 8, 32]);
        let layout = bshd([batch, tokens, heads, head_dim]);
        tensor_at(data.cast(), len, choice!(source, rope_element), layout)
    }

    /// Returns a tensor like [`World::near`], mostly with the layout of another tensor.
    fn like(&mut self, source: &mut Source<'_>, x: &rope_operand, part: usize) -> rope_operand {
        let mut y = self.near(source, part);
        y.layout = once_in!(source, 8, y.layout, x.layout);
        y.element = once_in!(source, 4, y.element, x.element);
        y
    }

    fn weights(&mut self, source: &mut Source<'_>, shape: [usize; 4]) -> rope_weights {
        if source.once_in(2) {
            return zero();
        }
        let (data, room) = self.part::<f32>(source, 5);
        let [head, row] = [shape[3], product(&shape[2..])];
        rope_weights {
            data: data.cast(),
            count: at_most(room, source.one_of(&[head, row, head, row, room])),
            element: choice!(source, rope_element),
        }
    }

    /// Returns a norm whose lists mostly fit a tensor.
    fn norm(&mut self, source: &mut Source<'_>, shape: [usize; 4]) -> rope_norm {
        let (formula, mut norm) = (choice!(source, rope_norm_formula), zero::<rope_norm>());
        let eps = once_in!(source, 8, number(source) as f32, 1e-6);
        let status = call!(rope_norm_init(given_mut(source, &mut norm), formula, eps));
        check(source, status);
        if source.once_in(8) {
            norm.centered = source.word() as i32;
            norm.result = choice!(source, rope_norm_result);
        }
        (norm.weight, norm.bias) = (self.weights(source, shape), self.weights(source, shape));
        // Half of the norms without weights use a formula without weights.
        if norm.weight.count == 0 && source.once_in(2) {
            norm.weighted = 0;
        }
        norm.reach = either(source, rope_norm_reach::Row as i32);
        norm.order = either(source, rope_stage_order::AfterRotation as i32);
        norm.sum = either(source, rope_norm_sum::F64 as i32);
        if source.once_in(4) {
            let (sums, room) = self.part(source, 5);
            let count = source.one_of(&[product(&shape[..2]), product(&shape[..3])]);
            (norm.sums, norm.sums_count) = (sums, at_most(room, count));
            norm.sums_width = extent(source);
        }
        norm
    }

    /// Returns a scale whose list mostly fits a tensor.
    fn scale(&mut self, source: &mut Source<'_>, shape: [usize; 4]) -> rope_scale {
        let (factors, room) = self.part(source, 5);
        let kind = choice!(source, rope_scale_kind);
        rope_scale {
            kind,
            factor: number(source) as f32,
            factors,
            count: match rope_scale_kind::ALL
                .iter()
                .find(|&&named| named as i32 == kind)
            {
                Some(rope_scale_kind::PerToken) => at_most(room, product(&shape[..2])),
                Some(rope_scale_kind::PerTokenAndHead) => at_most(room, product(&shape[..3])),
                _ => room,
            },
            order: either(source, rope_stage_order::AfterRotation as i32),
            unrounded: flag(source),
        }
    }

    /// Returns a cache, mostly for the heads of a tensor. Its codes have a part of the memory, and its scales the next
    /// one.
    fn cache(&mut self, source: &mut Source<'_>, shape: [usize; 4], part: usize) -> rope_cache {
        let [batch, _, heads, head_dim] = shape;
        let (memory, bytes) = self.part::<u8>(source, part);
        let (scales, scales_count) = self.part::<f32>(source, part + 1);
        // Zero points in a list of their own, mostly after the scales, and mostly of codes that have some.
        let in_two = source.once_in(4);
        let scales_count = scales_count / if in_two { 2 } else { 1 };
        let any_zeros = self.part::<f32>(source, part + 1).0;
        let zeros = match in_two {
            true => once_in!(source, 8, any_zeros, scales.wrapping_add(scales_count)),
            false => null_mut(),
        };
        let with_zeros = in_two && !source.once_in(8);
        let (each, room) = self.part(source, 5);
        let kind = choice!(source, rope_cache_layout_kind);
        let blocks = source.one_of(&[batch, 1, 2, 4]);
        let (size, x) = (source.one_of(&[1, 2, 4]), source.one_of(&[1, 2]));
        use rope_cache_layout_kind::{Hdn, Hdnx, Hnd, Hndx};
        let named = rope_cache_layout_kind::ALL
            .iter()
            .find(|&&named| named as i32 == kind);
        let mut extents = match named {
            Some(Hnd) => [blocks, heads, size, head_dim, 0],
            Some(Hdn) => [blocks, heads, head_dim, size, 0],
            Some(Hdnx) => [blocks, heads, head_dim / x, size, x],
            Some(Hndx) => [blocks, heads, size / x, head_dim, x],
            _ => [blocks, size, heads, head_dim, 0],
        };
        if source.once_in(16) {
            extents[source.below(5)] = extent(source);
        }
        // The strides of nhd, or any.
        let (nhd, token) = (source.once_in(2), heads.wrapping_mul(head_dim));
        let mut or_any = |stride: usize| if nhd { stride } else { extent(source) };
        let strides = rope_cache_strides {
            block: or_any(size.wrapping_mul(token)),
            group: or_any(size),
            group_stride: or_any(0),
            token: or_any(token),
            head: or_any(head_dim),
            chunk: or_any(head_dim),
            chunk_stride: or_any(0),
            channel: or_any(1),
        };
        let inline = source.once_in(4) && !in_two && kind <= Hnd as i32;
        let any = once_in!(source, 16, some_extents(source), [0, 0]);
        let channels = if inline { [0, head_dim] } else { any };
        // Room for a scale after the channels.
        extents[3] = extents[3].saturating_add(if inline { 4 } else { 0 });
        let any_strides = some_extents(source);
        let strides_of_scales = [size.saturating_mul(heads), heads, 1];
        rope_cache {
            memory: memory.cast(),
            bytes,
            format: match with_zeros {
                true => source.one_of(&[rope_cache_format::U8, rope_cache_format::U4]) as i32,
                false => choice!(source, rope_cache_format),
            },
            layout: rope_cache_layout {
                kind,
                extents,
                strides,
                channels,
            },
            scale: rope_quant_scale {
                kind: match (inline, with_zeros) {
                    (true, _) => rope_quant_scale_kind::MadeInline as i32,
                    (false, true) => rope_quant_scale_kind::MadeApart as i32,
                    (false, false) => choice!(source, rope_quant_scale_kind),
                },
                same: once_in!(source, 4, number(source) as f32, 0.5),
                each: once_in!(source, 2, each, null_mut()),
                each_count: at_most(room, source.one_of(&[0, heads, heads])),
                least: once_in!(source, 8, number(source) as f32, 1e-6),
                group: match with_zeros {
                    true => {
                        source.one_of(&[rope_group_scale::ZeroPoint, rope_group_scale::Minimum])
                            as i32
                    }
                    false => choice!(source, rope_group_scale),
                },
                channels: once_in!(source, 4, extent(source), 0),
                behind: once_in!(source, 8, extent(source), head_dim),
                strides: once_in!(source, 8, any_strides, strides_of_scales),
                tokens: once_in!(source, 4, extent(source), 8),
            },
            scales: scales.cast(),
            scales_count,
            zeros: zeros.cast(),
        }
    }

    /// Returns two caches of the channels before and after `split`: in one memory, or in two.
    fn cache_parts(
        &mut self,
        source: &mut Source<'_>,
        shape: [usize; 4],
        split: usize,
    ) -> [rope_cache; 2] {
        let [batch, tokens, heads, head_dim] = shape;
        if split == head_dim {
            return [self.cache(source, shape, 1); 2];
        }
        if source.once_in(2) {
            let [first, second] = [(split, 1), (head_dim - split, 6)]
                .map(|(width, part)| self.cache(source, [batch, tokens, heads, width], part));
            return [first, second];
        }
        let mut whole = [self.cache(source, shape, 1); 2];
        whole[0].layout.channels = [0, split];
        whole[1].layout.channels = [split, head_dim];
        whole
    }

    fn ids(&mut self, source: &mut Source<'_>, count: usize) -> rope_ids {
        // The parts with integers.
        let part = source.one_of(&[3, 6]);
        let (values, room) = self.part::<i64>(source, part);
        rope_ids {
            values: values.cast(),
            count: once_in!(source, 16, room, at_most(room, count)),
            number: integer_type(source),
        }
    }

    /// Returns mostly as many slots as a tensor has tokens.
    pub(super) fn slots(&mut self, source: &mut Source<'_>, shape: [usize; 4]) -> rope_slots {
        let needed = product(&shape[..2]);
        let (offsets, room) = self.part(source, 3);
        let width = source.within(1, 3);
        let kind = choice!(source, rope_slots_kind);
        rope_slots {
            kind,
            slots: self.ids(source, needed),
            positions: self.ids(source, needed),
            pages: self.ids(source, shape[0].saturating_mul(width)),
            starts: self.ids(source, 8),
            sequences: self.ids(source, needed),
            width: once_in!(source, 8, extent(source), width),
            first: once_in!(source, 4, extent(source), 0),
            count: match kind == rope_slots_kind::Offsets as i32 {
                true => at_most(room, needed),
                false => needed,
            },
            offsets,
        }
    }

    /// Returns the arguments of a verb, which mostly fit each other.
    pub(super) fn arguments(&mut self, source: &mut Source<'_>) -> Arguments {
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
        let split = once_in!(
            source,
            4,
            2 * source.below(head_dim.min(64) / 2 + 1),
            head_dim
        );
        let [cache, second] = self.cache_parts(source, shape, split);
        let mut plan = plan(source);
        if split < head_dim {
            plan.first_channel = once_in!(source, 2, split, plan.first_channel);
        }
        Arguments {
            x: once_in!(source, 8, self.tensor(source), x),
            y: once_in!(source, 8, self.tensor(source), y),
            dx: self.like(source, &x, 3),
            cache,
            second,
            split,
            parts: [x; 2],
            slots: self.slots(source, shape),
            norm: self.norm(source, shape),
            hadamard: hadamard(source, head_dim),
            scale: self.scale(source, shape),
            plan,
            rows: [(); 3].map(|()| self.rows_for(source, shape)),
            frequencies: self.frequencies(source, kind),
            positions: once_in!(source, 2, self.positions(source), fitting),
        }
    }
}

/// Returns the channels of a tensor from one on, as another operand.
fn channels_from(x: &rope_operand, first: usize) -> rope_operand {
    let size = if x.element == rope_element::F32 as i32 {
        4
    } else {
        2
    };
    let mut rest = *x;
    rest.data = rest.data.wrapping_byte_add(first.wrapping_mul(size));
    rest.len = rest.len.saturating_sub(first);
    rest.layout.shape[3] -= first;
    rest
}

/// Returns a transform that mostly has no block, or a block that divides a head.
fn hadamard(source: &mut Source<'_>, head_dim: usize) -> rope_hadamard {
    let block = match source.below(8) {
        0 => 1 << source.below(12),
        1 => extent(source),
        2..4 if head_dim > 0 => 1 << source.below(head_dim.trailing_zeros() as usize + 1),
        _ => 0,
    };
    let factor = either(source, rope_hadamard_factor::First as i32);
    let mut hadamard = rope_hadamard { block, factor };
    if source.once_in(8) {
        let preset = choice!(source, rope_hadamard_preset);
        let out = given_mut(source, &mut hadamard);
        check(source, call!(rope_hadamard_init(out, preset, head_dim)));
    }
    hadamard
}

/// Returns a plan without stages that mostly works in place.
fn plan(source: &mut Source<'_>) -> rope_plan {
    let mut plan: rope_plan = zero();
    plan.pairing = rope_pairing::ALL[source.within(1, 2) - 1] as i32;
    plan.direction = rope_direction::ALL[source.below(3)] as i32;
    if source.once_in(6) {
        plan.pairing = choice!(source, rope_pairing);
        plan.output_pairing = once_in!(source, 3, choice!(source, rope_pairing), 0);
        plan.direction = choice!(source, rope_direction);
        plan.backend = once_in!(source, 3, choice!(source, rope_backend), 0);
        for number in [&mut plan.first_channel, &mut plan.parts] {
            *number = once_in!(source, 8, once_in!(source, 2, extent(source), 2), 0);
        }
    }
    plan
}

/// The structs that a verb points to.
pub(super) struct Arguments {
    pub(super) x: rope_operand,
    pub(super) y: rope_operand,
    pub(super) dx: rope_operand,
    pub(super) cache: rope_cache,
    /// A cache of the channels from `split` on.
    pub(super) second: rope_cache,
    /// Number of channels before the second part of an operand; that of all channels if there is no second part.
    split: usize,
    /// The second parts of a tensor and of slots.
    pub(super) parts: [rope_operand; 2],
    pub(super) slots: rope_slots,
    pub(super) norm: rope_norm,
    hadamard: rope_hadamard,
    scale: rope_scale,
    /// Without stages.
    pub(super) plan: rope_plan,
    pub(super) rows: [rope_angles; 3],
    frequencies: *mut rope_frequencies,
    positions: rope_positions,
}

impl Arguments {
    /// Returns the plan, mostly with stages.
    pub(super) fn plan(&self, source: &mut Source<'_>) -> rope_plan {
        if source.once_in(3) {
            return self.plan;
        }
        rope_plan {
            norm: once_in!(source, 3, null(), given(source, &self.norm)),
            scale: once_in!(source, 2, null(), given(source, &self.scale)),
            without_rounding: source.below(2) as i32,
            hadamard: given(source, &self.hadamard),
            ..self.plan
        }
    }

    /// Returns a source and a target: each a tensor, or slots of the cache, in one part or in two.
    pub(super) fn operands(&mut self, source: &mut Source<'_>) -> [rope_operand; 2] {
        let mut slots = in_slots(given(source, &self.cache), given(source, &self.slots));
        let [mut x, y] = [self.x, self.y];
        if self.split < x.layout.shape[3] {
            let given_slots = once_in!(source, 24, given(source, &self.slots), null());
            self.parts = [
                channels_from(&x, self.split),
                in_slots(given(source, &self.second), given_slots),
            ];
            // Sometimes a third part, or a second part of the other kind.
            self.parts[1].next = once_in!(source, 24, &raw const self.parts[0], null());
            let [tensor, cache] = once_in!(source, 24, [1, 0], [0, 1]);
            slots.next = given(source, &self.parts[cache]);
            if source.once_in(2) {
                x.layout.shape[3] = self.split;
                x.next = given(source, &self.parts[tensor]);
            }
        }
        let others = source.one_of(&[[x, slots], [x, slots], [slots, y], [slots, slots]]);
        once_in!(source, 2, others, [x, y])
    }

    /// Returns rows, or frequencies at positions.
    pub(super) fn angles(&self, source: &mut Source<'_>) -> rope_angles {
        let at = rope_angles_at(self.frequencies, given(source, &self.positions));
        once_in!(source, 3, at, self.rows[0])
    }
}
