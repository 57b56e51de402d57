//! The cases of the bodies over the C API: chains, tensors, rows, caches and slots as its structs.

pub mod frequencies;

use std::ffi::c_void;
use std::ptr::{null, null_mut};

use half::{bf16, f16};
use rope::*;
use rope_core::cache::{Asymmetric, MxScale, QuantFormat, ScalePlace, TileScale};
use rope_core::norm::{NormReach, NormResult, NormSum};
use rope_core::stages::StageOrder;
use rope_core::{Direction, Pairing};

use crate::c::{PLAN, tensor_at, zero};
use crate::cache::{Coded, Encoding, Paged, Scaling, SlotForm, TokenAddress};
use crate::chain::{Chain, Factors, Scale};
use crate::norm::{List, Norm};
use crate::quantize::Grouped;
use crate::{Number, Placed, Rotation};

fn pairing(pairing: Pairing) -> i32 {
    match pairing {
        Pairing::Half => rope_pairing::Half as i32,
        Pairing::Interleaved => rope_pairing::Interleaved as i32,
    }
}

fn order(order: StageOrder) -> i32 {
    match order {
        StageOrder::BeforeRotation => rope_stage_order::BeforeRotation as i32,
        StageOrder::AfterRotation => rope_stage_order::AfterRotation as i32,
    }
}

fn element<E: Number>() -> i32 {
    match E::NAME {
        "f32" => rope_element::F32 as i32,
        "f16" => rope_element::F16 as i32,
        _ => rope_element::Bf16 as i32,
    }
}

fn weights(list: &Option<List>) -> rope_weights {
    fn of<E: Number>(values: &[E]) -> rope_weights {
        rope_weights {
            data: values.as_ptr().cast(),
            count: values.len(),
            element: element::<E>(),
        }
    }
    match list {
        None => zero(),
        Some(List::F32(values)) => of::<f32>(values),
        Some(List::F16(values)) => of::<f16>(values),
        Some(List::Bf16(values)) => of::<bf16>(values),
    }
}

/// Returns a norm as its struct.
fn norm(norm: &Norm) -> rope_norm {
    let formula = norm.formula;
    let (sums, sums_count, sums_width) = match &norm.given {
        Some((sums, width)) => (sums.as_ptr(), sums.len(), *width),
        None => (null(), 0, 0),
    };
    rope_norm {
        centered: formula.centered.into(),
        weighted: formula.weighted.into(),
        one_plus_weight: formula.one_plus_weight.into(),
        rounds_normed: formula.rounds_normed.into(),
        rounds_product: formula.rounds_product.into(),
        result: match formula.result {
            NormResult::Kept => rope_norm_result::Kept as i32,
            NormResult::Rounded => rope_norm_result::Rounded as i32,
            NormResult::Promoted => rope_norm_result::Promoted as i32,
        },
        eps: norm.eps,
        weight: weights(&norm.weight),
        bias: weights(&norm.bias),
        reach: match norm.reach {
            NormReach::Head => rope_norm_reach::Head as i32,
            NormReach::Token => rope_norm_reach::Row as i32,
        },
        order: order(norm.order),
        sum: match norm.sum {
            NormSum::PyTorch => rope_norm_sum::Pytorch as i32,
            NormSum::F64 => rope_norm_sum::F64 as i32,
        },
        sums,
        sums_count,
        sums_width,
    }
}

fn scale(scale: &Scale) -> rope_scale {
    use rope_scale_kind::{Constant, PerToken, PerTokenAndHead};
    let (kind, factor, factors): (_, _, &[f32]) = match &scale.factors {
        Factors::Constant(factor) => (Constant, *factor, &[]),
        Factors::Tokens(factors) => (PerToken, 0.0, factors),
        Factors::Heads(factors) => (PerTokenAndHead, 0.0, factors),
    };
    rope_scale {
        kind: kind as i32,
        factor,
        factors: factors.as_ptr(),
        count: factors.len(),
        order: order(scale.order),
        unrounded: (!scale.rounds).into(),
    }
}

/// Calls a function with the plan of a chain around a rotation.
fn with_plan<T>(chain: &Chain, rotation: Rotation, f: impl FnOnce(&rope_plan) -> T) -> T {
    let norm = chain.norm.as_ref().map(norm);
    let scale = chain.scale.as_ref().map(scale);
    let hadamard = chain.hadamard.map(|hadamard| rope_hadamard {
        block: hadamard.block,
        factor: match hadamard.first {
            true => rope_hadamard_factor::First as i32,
            false => rope_hadamard_factor::Last as i32,
        },
    });
    f(&rope_plan {
        pairing: pairing(rotation.input),
        output_pairing: pairing(rotation.output),
        direction: match rotation.direction {
            Direction::Forward => rope_direction::Forward as i32,
            Direction::Inverse => rope_direction::Inverse as i32,
            Direction::Transpose => rope_direction::Transpose as i32,
        },
        parts: rotation.parts,
        without_rounding: (!chain.rounds).into(),
        norm: norm.as_ref().map_or(null(), |norm| norm),
        scale: scale.as_ref().map_or(null(), |scale| scale),
        hadamard: hadamard.as_ref().map_or(null(), |hadamard| hadamard),
        ..PLAN
    })
}

/// Returns a tensor as an operand that may be written.
pub fn tensor<E: Number>(x: &mut [E], place: &Placed) -> rope_operand {
    let (offset, layout) = (place.view.offset, place.layout.into());
    let memory = &mut x[offset..];
    tensor_at(
        memory.as_mut_ptr().cast(),
        memory.len(),
        element::<E>(),
        layout,
    )
}

/// Returns the channels of a tensor from one on, by the bytes of an element.
pub fn channels_from(x: &rope_operand, size: usize, first: usize) -> rope_operand {
    let mut part = *x;
    part.layout.shape[3] -= first;
    (part.data, part.len) = (x.data.wrapping_byte_add(first * size), x.len - first);
    part
}

fn layout(paged: &Paged) -> rope_cache_layout {
    let (shape, strides) = (paged.shape, paged.strides);
    rope_cache_layout {
        kind: rope_cache_layout_kind::Strided as i32,
        extents: [
            shape.blocks,
            shape.block_size,
            shape.heads,
            shape.head_dim,
            0,
        ],
        strides: rope_cache_strides {
            block: strides.block,
            group: strides.group,
            group_stride: strides.group_stride,
            token: strides.token,
            head: strides.head,
            chunk: strides.chunk,
            chunk_stride: strides.chunk_stride,
            channel: strides.channel,
        },
        channels: [0; 2],
    }
}

/// Returns the layout that counts channels, without its offset.
fn channels(paged: &Paged) -> rope_cache_layout {
    let (shape, strides) = (paged.layout.shape(), paged.layout.strides());
    layout(&Paged {
        shape,
        strides,
        ..*paged
    })
}

/// Returns a cache of elements.
pub fn elements<E: Number>(values: &mut [E], paged: &Paged) -> rope_cache {
    let memory = &mut values[paged.offset..];
    rope_cache {
        memory: memory.as_mut_ptr().cast(),
        bytes: size_of_val(memory),
        format: match E::NAME {
            "f32" => rope_cache_format::F32 as i32,
            "f16" => rope_cache_format::F16 as i32,
            _ => rope_cache_format::Bf16 as i32,
        },
        layout: layout(paged),
        ..zero()
    }
}

/// Returns a cache of codes, or `None` for formats that C has not.
pub fn codes(cache: &mut Coded) -> Option<rope_cache> {
    use rope_cache_format as Format;
    use rope_quant_scale_kind::{Divide, MadeApart, MadeInBlock, MadeInline, Multiply, Reciprocal};
    let none: rope_quant_scale = zero();
    let given = |kind: rope_quant_scale_kind, scales: &[f32]| rope_quant_scale {
        kind: kind as i32,
        same: scales[0],
        each: if scales.len() == 1 {
            null()
        } else {
            scales.as_ptr()
        },
        each_count: if scales.len() == 1 { 0 } else { scales.len() },
        ..none
    };
    let offset = cache.paged.offset;
    let made = |place: ScalePlace| match place {
        ScalePlace::Inline(behind) => Some(rope_quant_scale {
            kind: MadeInline as i32,
            behind,
            ..none
        }),
        ScalePlace::Separate(place) => Some(rope_quant_scale {
            kind: MadeApart as i32,
            strides: [place.block, place.token, place.head],
            ..none
        }),
        ScalePlace::InBlock { first, strides } => Some(rope_quant_scale {
            kind: MadeInBlock as i32,
            behind: first - offset,
            strides: [strides.block, strides.token, strides.head],
            ..none
        }),
        _ => None,
    };
    let (format, scale) = match &cache.encoding {
        Encoding::Scaled(code, scaling) => {
            let scale = match scaling {
                Scaling::Divide(scales) => given(Divide, scales),
                Scaling::Reciprocal(scales) => given(Reciprocal, scales),
                Scaling::Multiply(scales) => given(Multiply, scales),
                &Scaling::Made(least, place) => rope_quant_scale {
                    least,
                    ..made(place)?
                },
            };
            let format = match code {
                QuantFormat::E4m3 => Format::E4m3,
                QuantFormat::E5m2 => Format::E5m2,
                QuantFormat::E5m2Saturating => Format::E5m2Saturating,
                QuantFormat::Int8Even => Format::Int8Even,
                QuantFormat::Int8RoundAway => Format::Int8RoundAway,
                _ => return None,
            };
            (format, scale)
        }
        Encoding::Blocks(format) => {
            let format = match format.name {
                "q8_0" => Format::Q8_0,
                "q4_0" => Format::Q4_0,
                "q4_1" => Format::Q4_1,
                "q5_0" => Format::Q5_0,
                "q5_1" => Format::Q5_1,
                "iq4_nl" => Format::Iq4Nl,
                "u8_in_32" => Format::U8In32,
                "u8_in_64" => Format::U8In64,
                "u8_in_128" => Format::U8In128,
                "u4_in_32" => Format::U4In32,
                "u4_in_64" => Format::U4In64,
                "u4_in_128" => Format::U4In128,
                name => panic!("{name} has no format in C"),
            };
            (format, none)
        }
        Encoding::Groups(groups, place) => grouped(*groups, made(*place)?),
    };
    let memory = &mut cache.bytes[offset..];
    Some(rope_cache {
        memory: memory.as_mut_ptr().cast(),
        bytes: memory.len(),
        format: format as i32,
        layout: channels(&cache.paged),
        scale,
        scales: cache.scales.as_mut_ptr().cast(),
        scales_count: match cache.zeros.len() {
            0 => cache.scales.len(),
            zeros => zeros.min(cache.scales.len()),
        },
        zeros: match cache.zeros.is_empty() {
            true => null_mut(),
            false => cache.zeros.as_mut_ptr().cast(),
        },
    })
}

/// Returns the format of codes in groups, with the fields of its scales.
fn grouped(groups: Grouped, scale: rope_quant_scale) -> (rope_cache_format, rope_quant_scale) {
    use rope_cache_format as Format;
    use rope_group_scale::{E8m0, Even, Floor, Minimum, PowerOfTwo, Quotient, Up, ZeroPoint};
    let power = |rule: MxScale| rope_quant_scale {
        group: match rule {
            MxScale::Floor => Floor as i32,
            MxScale::Even => Even as i32,
            _ => Up as i32,
        },
        ..scale
    };
    match groups {
        Grouped::Mxfp4(rule) => (Format::Mxfp4, power(rule)),
        Grouped::Mxfp8(rule) => (Format::Mxfp8, power(rule)),
        Grouped::Nvfp4(factor) => {
            let same = factor;
            (Format::Nvfp4, rope_quant_scale { same, ..scale })
        }
        Grouped::Tiles(values, rule) => {
            let (group, least) = match rule {
                TileScale::Quotient { least } => (Quotient, least),
                TileScale::PowerOfTwo { least } => (PowerOfTwo, least),
                TileScale::E8m0 { least } => (E8m0, least),
                _ => unreachable!("no other rule"),
            };
            let format = match values {
                64 => Format::E4m3In64,
                _ => Format::E4m3In128,
            };
            let group = group as i32;
            (
                format,
                rope_quant_scale {
                    group,
                    least,
                    ..scale
                },
            )
        }
        Grouped::Asymmetric(bits, channels, rule) => {
            let group = match rule {
                Asymmetric::ZeroPoint => ZeroPoint as i32,
                _ => Minimum as i32,
            };
            let format = match bits {
                8 => Format::U8,
                _ => Format::U4,
            };
            (
                format,
                rope_quant_scale {
                    group,
                    channels,
                    ..scale
                },
            )
        }
    }
}

fn ids<T>(values: &[T], number: rope_number) -> rope_ids {
    rope_ids {
        values: values.as_ptr().cast::<c_void>(),
        count: values.len(),
        number: number as i32,
    }
}

/// Returns slots, or `None` for forms that C has not: `usize`, a range that begins below zero, and offsets from before
/// the first element of the cache.
pub fn slots(address: &TokenAddress, paged: &Paged) -> Option<rope_slots> {
    use rope_number::{I32, I64, U32, U64};
    use rope_slots_kind as Kind;
    let none: rope_slots = zero();
    let new = |kind: rope_slots_kind| rope_slots {
        kind: kind as i32,
        ..none
    };
    let mapping = |slots| rope_slots {
        slots,
        ..new(Kind::Mapping)
    };
    Some(match &address.form {
        SlotForm::I32(list) => mapping(ids(list, I32)),
        SlotForm::I64(list) => mapping(ids(list, I64)),
        SlotForm::U32(list) => mapping(ids(list, U32)),
        SlotForm::U64(list) => mapping(ids(list, U64)),
        SlotForm::Usize(_) => return None,
        &SlotForm::Range(first, end) => rope_slots {
            first: usize::try_from(first).ok()?,
            count: (end - first) as usize,
            ..new(Kind::Range)
        },
        SlotForm::Pages([pages, starts, sequences, positions]) => rope_slots {
            pages: ids(pages, I32),
            starts: ids(starts, I32),
            sequences: ids(sequences, I32),
            positions: ids(positions, I32),
            ..new(Kind::Pages)
        },
        SlotForm::Table(table, width, positions) => rope_slots {
            pages: ids(table, I64),
            positions: ids(positions, I32),
            width: *width,
            ..new(Kind::Table)
        },
        SlotForm::Packed([table, offsets, starts], width) => rope_slots {
            pages: ids(table, I64),
            starts: ids(offsets, I64),
            positions: ids(starts, I64),
            width: *width,
            ..new(Kind::PackedTable)
        },
        SlotForm::Sequences(positions) => rope_slots {
            positions: ids(positions, I64),
            ..new(Kind::Sequences)
        },
        SlotForm::Offsets(_) if paged.offset > 0 => return None,
        SlotForm::Offsets(offsets) => rope_slots {
            offsets: offsets.as_ptr(),
            count: offsets.len(),
            ..new(Kind::Offsets)
        },
    })
}

/// Runs the verb of a source, a target and rows: in place without a source, and stages alone without rows. The operands
/// lead to memory of the stated sizes.
///
/// # Panics
///
/// If one of C and rope-core refuses the call, and the other does not.
pub fn run(
    plan: (&Chain, Rotation),
    source: Option<&rope_operand>,
    target: &rope_operand,
    rows: Option<&rope_angles>,
    refusal: Option<rope_core::Error>,
    doing: &str,
) {
    let status = verb(plan, source, target, rows);
    let accepted = status == rope_status::Ok;
    let detail = crate::c::detail();
    assert_eq!(accepted, refusal.is_none(), "{doing}, over C: {detail}");
}

/// Rotates keys in a cache; returns true unless the call is refused.
pub fn shift(plan: (&Chain, Rotation), target: &rope_operand, rows: &rope_angles) -> bool {
    verb(plan, None, target, Some(rows)) == rope_status::Ok
}

/// Moves slots of a cache; returns true unless the call is refused.
pub fn move_slots(cache: &rope_cache, lists: [&[i64]; 2]) -> bool {
    let [from, to] = lists.map(|list| rope_slots {
        kind: rope_slots_kind::Mapping as i32,
        slots: ids(list, rope_number::I64),
        ..zero()
    });
    // SAFETY: the structs lead to memory of the stated sizes.
    let status = unsafe { rope_move_slots(cache, &from, &to) };
    status == rope_status::Ok
}

/// Runs a verb, and the same call prepared, at a copy of the target: both write the same bytes.
fn verb(
    (chain, rotation): (&Chain, Rotation),
    source: Option<&rope_operand>,
    target: &rope_operand,
    rows: Option<&rope_angles>,
) -> rope_status {
    let rows = rows.map_or(null(), |rows| &raw const *rows);
    with_plan(chain, rotation, |plan| {
        let (mut call, mut at): (_, rope_call_memory) = (zero(), zero());
        let written = [Some(target), next(target)].map(|part| part.map_or(NOTHING, written));
        let mut copies = written.map(|part| part.map(copied));
        let [first, second] = copies.each_mut().map(|part| {
            part.each_mut().map(|copy| match copy.is_empty() {
                true => null_mut(),
                false => copy.as_mut_ptr().cast(),
            })
        });
        [at.x, at.scales, at.zeros] = first;
        [at.x_next, at.scales_next, at.zeros_next] = second;
        if let Some(x) = source {
            (at.x, at.y) = (memory_of(x), at.x);
            (at.x_next, at.y_next) = (next(x).map_or(null_mut(), memory_of), at.x_next);
        }
        // SAFETY: the plan, the operands and the rows lead to memory of the stated sizes, and the copies are as large
        // as the target.
        let (prepared, status) = unsafe {
            let prepared = match source {
                None => rope_prepare(plan, target, rows, &mut call),
                Some(x) => rope_prepare_into(plan, x, target, rows, &mut call),
            };
            let status = match (source, rows.is_null()) {
                (None, true) => rope_apply(plan, target),
                (None, false) => rope_rotate(plan, target, rows),
                (Some(x), true) => rope_apply_into(plan, x, target),
                (Some(x), false) => rope_rotate_into(plan, x, target, rows),
            };
            match prepared {
                rope_status::Ok => (rope_call_run_at(&call, &at), status),
                _ => (prepared, status),
            }
        };
        assert_eq!(prepared, status, "a prepared call: {}", crate::c::detail());
        assert!(
            written.map(|part| part.map(copied)) == copies,
            "a prepared call writes other bytes"
        );
        status
    })
}

/// Returns the address of a tensor, or of a cache.
fn memory_of(operand: &rope_operand) -> *mut c_void {
    // SAFETY: a cache that is not null exists.
    unsafe { operand.cache.as_ref() }.map_or(operand.data, |cache| cache.memory)
}

/// Returns the second part of an operand.
fn next(operand: &rope_operand) -> Option<&rope_operand> {
    // SAFETY: a second part that is not null exists.
    unsafe { operand.next.as_ref() }
}

/// The memories of a part that a call writes, with their bytes: elements or codes, scales that lie apart, and zero
/// points in a list of their own.
type Written = [(*const c_void, usize); 3];

const NOTHING: Written = [(null(), 0); 3];

fn written(target: &rope_operand) -> Written {
    // SAFETY: a cache that is not null exists.
    let Some(cache) = (unsafe { target.cache.as_ref() }) else {
        let size = match target.element == rope_element::F32 as i32 {
            true => size_of::<f32>(),
            false => size_of::<f16>(),
        };
        let [_, scales, zeros] = NOTHING;
        return [(target.data, target.len * size), scales, zeros];
    };
    let apart = cache.scale.kind == rope_quant_scale_kind::MadeApart as i32;
    let list = |list: *mut c_void| match apart && !list.is_null() && cache.scales_count > 0 {
        true => (list.cast_const(), cache.scales_count * size_of::<f32>()),
        false => (null(), 0),
    };
    let (scales, zeros) = (list(cache.scales), list(cache.zeros));
    [(cache.memory, cache.bytes), scales, zeros]
}

/// Returns the bytes of a memory, aligned to words; nothing for null.
fn copied((memory, bytes): (*const c_void, usize)) -> Vec<u64> {
    let least = usize::from(!memory.is_null());
    let mut copy = vec![0_u64; bytes.div_ceil(size_of::<u64>()).max(least)];
    if bytes > 0 {
        // SAFETY: the memory has as many bytes, and the copy has no fewer.
        unsafe { memory.copy_to_nonoverlapping(copy.as_mut_ptr().cast(), bytes) };
    }
    copy
}

/// Runs a backward pass, in place of `dy` or into `dx`, and adds to the sums of this shape.
///
/// # Panics
///
/// If the call is refused.
pub fn backward(
    (chain, rotation): (&Chain, Rotation),
    [y, dy]: [&rope_operand; 2],
    dx: Option<&rope_operand>,
    rows: &rope_angles,
    (sums, shape): (&mut [f64], [usize; 3]),
) {
    let sums = pairs(sums, shape);
    let status = with_plan(chain, rotation, |plan| {
        // SAFETY: the structs lead to memory of the stated sizes.
        unsafe {
            match dx {
                None => rope_backward(plan, y, dy, rows, &sums),
                Some(dx) => rope_backward_into(plan, y, dy, dx, rows, &sums),
            }
        }
    });
    assert_eq!(status, rope_status::Ok, "{}", crate::c::detail());
}

/// Adds gradients of a kind to sums of this shape, of which cos and sin have two; returns true unless the call is
/// refused.
pub fn gradients(
    kind: rope_gradient_kind,
    rotation: Rotation,
    [y, dy]: [&rope_operand; 2],
    (sums, second, shape): (&mut [f64], Option<&mut [f64]>, [usize; 3]),
) -> bool {
    let (sums, second) = (pairs(sums, shape), second.map(|sums| pairs(sums, shape)));
    let second = second.as_ref().map_or(null(), |sums| &raw const *sums);
    let status = with_plan(&Chain::ALONE, rotation, |plan| {
        // SAFETY: the structs lead to memory of the stated sizes.
        unsafe { rope_gradients(kind as i32, plan, y, dy, &sums, second) }
    });
    status == rope_status::Ok
}

/// Rotates into several targets; returns true unless the call is refused.
pub fn into_each(
    (chain, rotation): (&Chain, Rotation),
    source: &rope_operand,
    outputs: &[rope_output],
) -> bool {
    let (targets, count) = (outputs.as_ptr(), outputs.len());
    let status = with_plan(chain, rotation, |plan| {
        // SAFETY: the structs lead to memory of the stated sizes.
        unsafe { rope_rotate_into_each(plan, source, targets, count) }
    });
    status == rope_status::Ok
}

fn pairs(sums: &mut [f64], [rows, heads, pairs]: [usize; 3]) -> rope_pair_gradients {
    rope_pair_gradients {
        sums: sums.as_mut_ptr(),
        rows,
        heads,
        pairs,
    }
}

/// Computes the sums of squares of a norm.
///
/// # Panics
///
/// If the call is refused.
pub fn squares(norm: &Norm, x: &rope_operand, sums: &mut [f32]) {
    let norm = self::norm(norm);
    let plan = rope_plan {
        norm: &norm,
        ..PLAN
    };
    // SAFETY: the structs lead to memory of the stated sizes.
    let status = unsafe { rope_sum_of_squares(&plan, x, sums.as_mut_ptr(), sums.len()) };
    assert_eq!(status, rope_status::Ok, "{}", crate::c::detail());
}
