//! Prepared calls at other memory, and their refusals. The bodies prepare every call of a verb, and Q and K of packed
//! rows, and run it at a copy of the target.

use std::cell::Cell;

use rope_core::cache::{CacheFormat, CacheLayout, CacheMut, HeadScales, QuantFormat, QuantScale};
use rope_core::norm::{Norm, NormFormula};

use super::*;

const TOKENS: usize = SHAPE[1];

fn rows(first: i64) -> Vec<f32> {
    table(48, first, TOKENS)
}

/// Rotates by joined rows, with rope-core.
fn rotated<E: Number>(x: &[E], rows: &[f32], pairing: Pairing, shape: [usize; 4]) -> Vec<E> {
    let mut x = x.to_vec();
    let rows = Rows::new(rows, [rows.len() / 48, 48]).expect("rows");
    let mut view = TensorMut::new(&mut x, shape).expect("valid");
    Rope::new(pairing).rotate(&mut view, &rows).expect("valid");
    x
}

/// Runs a copy of a call at some memory.
fn run_at(call: &rope_call, memory: &rope_call_memory) -> rope_status {
    let copy = *call;
    call!(rope_call_run_at(&copy, memory))
}

/// Returns memory of which all but the first operand is the call's own.
fn x_at<T>(x: *const T) -> rope_call_memory {
    with!(zero::<rope_call_memory>(); x = x.cast_mut().cast())
}

/// In place, by rows that are joined, apart and listed by ids, and by frequencies at positions: at the prepared memory
/// and at other memory.
#[test]
fn rotations_in_place() {
    let (first, second) = (rows(3), rows(70));
    let apart = |values: &[f32]| -> [Vec<f32>; 2] {
        [0, 24].map(|at| {
            let rows = values.chunks(48);
            rows.flat_map(|row| row[at..][..24].to_vec()).collect()
        })
    };
    let ([cos, sin], [cos_2, sin_2]) = (apart(&first), apart(&second));
    let (ids, turned) = ([0_i32, 1, 2, 3, 4], [4_i32, 3, 2, 1, 0]);
    let listed = by_ids(joined(&first, 48), &ids, rope_number::I32);
    let backwards: Vec<f32> = first.chunks(48).rev().flatten().copied().collect();
    let (made, here) = (Owned::new(48), rope_positions_range(3, TOKENS));
    let there = rope_positions_range(70, TOKENS);
    let apart = rope_rows_apart(cos.as_ptr(), sin.as_ptr(), TOKENS, 24, 48);
    let (x, half) = (values::<bf16>(LEN), Pairing::Half);
    let none = zero::<rope_call_memory>();
    for (angles, memory, other) in rows!(
        joined(&first, 48), with!(none; cos = second.as_ptr()), &second;
        apart, with!(none; cos = cos_2.as_ptr(), sin = sin_2.as_ptr()), &second;
        listed, with!(none; ids = turned.as_ptr().cast()), &backwards;
        rope_angles_at(made.0, &here), with!(none; positions = &raw const there), &second;
    ) {
        let (mut a, mut b, mut call) = (x.clone(), x.clone(), zero());
        {
            // The structs are gone when the call runs.
            let (plan, view) = (plan(rope_pairing::Half), tensor(&mut a, SHAPE));
            ok!(rope_prepare(&plan, &view, &angles, &mut call));
        }
        assert_eq!(a, x, "a call that is prepared writes nothing");
        ok!(rope_call_run(&call));
        let once = rotated(&x, &first, half, SHAPE);
        assert_eq!(a, once);
        ok!(rope_call_run(&call));
        assert_eq!(a, rotated(&once, &first, half, SHAPE));
        ok!(run_at(&call, &with!(memory; x = b.as_mut_ptr().cast())));
        let once = rotated(&x, other, half, SHAPE);
        assert_eq!(b, once);
        ok!(run_at(&call, &x_at(b.as_mut_ptr())));
        assert_eq!(b, rotated(&once, &first, half, SHAPE));
    }
}

/// A norm, a rotation and a write of E4M3 codes: other slots, other weights, another cache.
#[test]
fn a_norm_into_a_cache() {
    let extents = [4, 8, SHAPE[2], SHAPE[3]];
    let layout = CacheLayout::nhd(extents).expect("valid");
    let shape = [1, TOKENS, SHAPE[2], SHAPE[3]];
    let (count, table) = (TOKENS * SHAPE[2] * SHAPE[3], rows(3));
    let (values, weight) = (values::<bf16>(count + 1), values::<f32>(shape[3] + 3));
    let (x, other) = (&values[..count], &values[1..]);
    let (weight, other_weight) = (&weight[..shape[3]], &weight[3..]);
    let expected = |x: &[bf16], weight: &[f32], slots: &[i64]| {
        let mut memory = vec![0_u8; layout.end()];
        let format = CacheFormat::quantized(
            QuantFormat::E4m3,
            QuantScale::Divide(HeadScales::Same(0.25)),
        );
        let mut cache = CacheMut::coded(&mut memory, layout, format).expect("valid");
        let norm = Norm::new(NormFormula::LLAMA, 1e-6).with_weight(weight);
        let rope = Rope::new(Pairing::Half).with_norm(norm);
        let source = Tensor::new(x, shape).expect("valid");
        let rows = Rows::new(&table, [TOKENS, 48]).expect("rows");
        let done = rope.rotate_into(&source, &mut cache.slots(slots), &rows);
        done.expect("valid");
        memory
    };

    let [mut memory, mut second] = [(); 2].map(|()| vec![0_u8; layout.end()]);
    let (first, elsewhere) = ([3_i64, 4, 31, -1, 0], [9_i64, 1, 2, 3, 4]);
    let slots = &first.map(Cell::new);
    let write = |list: [i64; 5]| {
        let listed = slots.iter().zip(list);
        listed.for_each(|(slot, value)| slot.set(value));
    };
    let mut call = zero();
    {
        let norm = with!(norm(rope_norm_formula::Llama); weight = weights(weight));
        let cache = with!(
            cache(&mut memory, rope_cache_format::E4m3, nhd(extents));
            scale = quant_scale(rope_quant_scale_kind::Divide, 0.25)
        );
        let (plan, list) = (stages(&norm, null()), mapping(slots, rope_number::I64));
        let (from, to, rows) = (view(x, shape), in_slots(&cache, &list), joined(&table, 48));
        ok!(rope_prepare_into(&plan, &from, &to, &rows, &mut call));
    }
    assert!(memory.iter().all(|&code| code == 0));
    ok!(rope_call_run(&call));
    assert_eq!(memory, expected(x, weight, &first));

    // The list of slots is read when the call runs.
    memory.fill(0);
    write(elsewhere);
    ok!(rope_call_run(&call));
    assert_eq!(memory, expected(x, weight, &elsewhere));
    slots[4].set(32);
    memory.fill(0);
    let mut refusals = Refusals::default();
    refused!(refusals, rope_call_run(&call));
    write(first);

    let [others, few] = [5, 4].map(|count| mapping(&elsewhere[..count], rope_number::I64));
    let at = with!(
        x_at(other.as_ptr());
        y = second.as_mut_ptr().cast(), slots = &raw const others, weight = other_weight.as_ptr().cast()
    );
    ok!(run_at(&call, &at));
    assert_eq!(second, expected(other, other_weight, &elsewhere));
    // As many slots, of this cache, which lies over nothing that is read.
    let in_cache = with!(others; slots.values = at.y.cast_const());
    spoil!(refusals, at => run_at(&call, &at);
        at.slots = &few;
        at.slots = &in_cache;
        at.x = at.y;
        at.weight = at.y;
        at.cos = at.y.cast();
    );
    assert_eq!(second, expected(other, other_weight, &elsewhere));
    assert!(memory.iter().all(|&code| code == 0));
    compare!(refusals, "prepared_cache");
}

/// Memory that a call does not use is refused by its name, and nothing is written: a call from rows has no positions,
/// one at positions no cos, and one of tensors no slots.
#[test]
fn memory_that_a_call_does_not_use() {
    let (made, words, table) = (Owned::new(48), [0_u64; 64], rows(3));
    let (slots, listed) = (zero::<rope_slots>(), rope_positions_range(0, TOKENS));
    let apart = rope_rows_apart(table.as_ptr(), table.as_ptr(), TOKENS, 24, 48);
    let some = words.as_ptr().cast_mut();
    let refused = |angles: rope_angles, tokens: usize| {
        let (mut x, mut call) = (values::<f32>(tokens * 2 * 64), zero());
        let (view, plan) = (tensor(&mut x, [1, tokens, 2, 64]), plan(rope_pairing::Half));
        ok!(rope_prepare(&plan, &view, &angles, &mut call));
        let (at, mut refusals) = (x_at(view.data), Refusals::default());
        spoil!(refusals, at => run_at(&call, &at);
            at.y = some.cast();
            at.ids = some.cast();
            at.slots = &slots;
            at.scales = some.cast();
            at.weight = some.cast();
            at.bias = some.cast();
            at.x_next = some.cast();
            at.y_next = some.cast();
            at.scales_next = some.cast();
        );
        if angles.positions.is_null() {
            spoil!(refusals, at => run_at(&call, &at); at.positions = &listed;);
        } else {
            spoil!(refusals, at => run_at(&call, &at); at.cos = some.cast(););
        }
        if angles.sin.is_null() {
            spoil!(refusals, at => run_at(&call, &at); at.sin = some.cast(););
        }
        assert_eq!(x, values::<f32>(tokens * 2 * 64));
        refusals.0
    };
    let of_rows = refused(joined(&table, 48), TOKENS);
    // A call of one token runs without the rest of its record.
    assert_eq!(refused(joined(&table[..48], 48), 1), of_rows);
    let others = refused(apart, TOKENS) + &refused(rope_angles_at(made.0, &listed), TOKENS);
    compare!(Refusals(of_rows + &others), "prepared_memory");
}

/// Pointers that lead to memory that is read, and calls that lie in the memory that they write.
#[test]
fn refusals() {
    let (table, x, mut refusals) = (rows(3), values::<f32>(LEN), Refusals::default());
    let rows = joined(&table, 48);
    let [mut a, mut b] = [(); 2].map(|()| x.clone());
    let (view, plan) = (tensor(&mut a, SHAPE), plan(rope_pairing::Half));
    let mut call: rope_call = zero();
    refused!(
        refusals,
        rope_prepare_qk(&plan, &view, &view, &rows, &mut call),
        rope_prepare_into(&plan, &view, &view, &rows, &mut call),
    );
    ok!(rope_prepare(&plan, &view, &rows, &mut call));
    let at = x_at(view.data);
    spoil!(refusals, at => run_at(&call, &at);
        at.x = null_mut();
        at.x = at.x.wrapping_byte_add(2);
        at.x = table.as_ptr().cast_mut().cast();
        at.cos = at.x.cast();
        at.cos = table.as_ptr().wrapping_byte_add(1);
        at.x = std::ptr::without_provenance_mut(usize::MAX - 3);
    );
    // A call in the memory of its tensor, which runs elsewhere.
    let mut own = vec![0.0_f64; LEN.max(2 * ROPE_CALL_BYTES)];
    // SAFETY: doubles are floats, of more alignment.
    let floats = unsafe { std::slice::from_raw_parts_mut(own.as_mut_ptr().cast::<f32>(), LEN) };
    // One token has a way of its own.
    for (shape, table) in [([1, 1, 3, 64], &table[..48]), (SHAPE, &table)] {
        let view = tensor(floats, shape);
        let inside: *mut rope_call = view.data.cast();
        ok!(rope_prepare(&plan, &view, &joined(table, 48), inside));
        refused!(refusals, rope_call_run(inside));
        let text = detail();
        let status = call!(rope_call_run_at(inside, &x_at(view.data)));
        assert_eq!((status, detail()), (rope_status::MemoryOverlap, text));
        b.copy_from_slice(&x);
        ok!(rope_call_run_at(inside, &x_at(b.as_mut_ptr())));
        let (first, rest) = x.split_at(shape.iter().product());
        assert!(b == [rotated(first, table, Pairing::Half, shape), rest.to_vec()].concat());
    }
    assert!(a == x);
    compare!(refusals, "prepared");
}

/// One token, which has a way of its own: checked and prepared calls of Q, and of Q and K, and their refusals.
#[test]
fn one_token() {
    fn one<E: Number>(pairing: rope_pairing, with: Pairing) -> String {
        let mut refusals = Refusals::default();
        let (first, second, plan) = (table(48, 3, 1), table(48, 70, 1), plan(pairing));
        let start = [3, 2].map(|heads| values::<E>(heads * 64));
        let expected = |rows: &[f32]| {
            let [q, k] = &start;
            let of = |x: &[E], heads| rotated(x, rows, with, [1, 1, heads, 64]);
            [of(q, 3), of(k, 2)]
        };
        let apart = rope_rows_apart(first.as_ptr(), first[24..].as_ptr(), 1, 24, 48);
        for rows in [joined(&first, 48), apart] {
            let (mut x, mut call) = (start.clone(), zero());
            let [q, k] = &mut x;
            let (q, k) = (tensor(q, [1, 1, 3, 64]), tensor(k, [1, 1, 2, 64]));
            let mut is = |expected: &[Vec<E>; 2]| {
                assert!(x == *expected);
                for (x, start) in x.iter_mut().zip(&start) {
                    x.copy_from_slice(start);
                }
            };
            ok!(
                rope_prepare_qk(&plan, &q, &k, &rows, &mut call),
                rope_rotate_qk(&plan, &q, &k, &rows),
            );
            is(&expected(&first));
            ok!(rope_call_run(&call));
            is(&expected(&first));
            ok!(rope_rotate(&plan, &q, &rows));
            let [one, _] = expected(&first);
            is(&[one, start[1].clone()]);
            let mut at = with!(x_at(q.data); y = k.data, cos = second.as_ptr());
            if !rows.sin.is_null() {
                at.sin = second[24..].as_ptr();
            }
            ok!(run_at(&call, &at));
            is(&expected(&second));

            let into_q = at.x.wrapping_byte_add(2 * size_of::<f32>());
            let inside = first[8..].as_ptr().cast_mut().cast();
            spoil!(refusals, at => run_at(&call, &at);
                at.x = null_mut();
                at.y = null_mut();
                at.y = at.y.wrapping_byte_add(1);
                at.y = into_q;
                at.x = at.cos.cast_mut().cast();
                at.cos = at.y.cast();
            );
            spoil!(refusals, k => rope_rotate_qk(&plan, &q, &k, &rows);
                k.data = q.data;
                k.data = k.data.wrapping_byte_add(1);
                k.len -= 1;
                k.data = inside;
            );
            let q_in_rows = with!(q; data = inside);
            refused!(
                refusals,
                rope_rotate_qk(&plan, &q_in_rows, &k, &rows),
                rope_rotate(&plan, &q_in_rows, &rows),
            );
            is(&start);
        }
        refusals.0
    }
    let of = |pairing, with| [one::<f32>, one::<f16>, one::<bf16>].map(|one| one(pairing, with));
    let half = of(rope_pairing::Half, Pairing::Half);
    let interleaved = of(rope_pairing::Interleaved, Pairing::Interleaved);
    assert_eq!(half, interleaved);
    let [of_f32, of_f16, of_bf16] = half;
    // Messages count bytes, so both 16-bit elements give one text.
    assert_eq!(of_f16, of_bf16);
    compare!(Refusals(of_f32 + &of_f16), "one_token");
}
