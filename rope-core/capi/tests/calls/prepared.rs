//! Prepared calls: the bits of checked ones, in the memory that was prepared and in other memory.

use rope_core::cache::{CacheFormat, CacheLayout, CacheMut, HeadScales, QuantScale};
use rope_core::norm::{Norm, NormFormula};

use super::*;

const TOKENS: usize = SHAPE[1];

fn table(rotary_dim: usize, first: i64) -> Vec<f32> {
    let frequencies =
        Frequencies::new(rotary_dim, 10_000.0, &Scaling::Default).expect("frequencies");
    let mut values = vec![0.0; TOKENS * rotary_dim];
    frequencies
        .at(first..first + TOKENS as i64)
        .expect("positions")
        .rows_in(&mut values)
        .expect("room");
    values
}

fn rotated<E: Number>(x: &[E], values: &[f32]) -> Vec<E> {
    let (mut x, rows) = (x.to_vec(), Rows::new(values, [TOKENS, 48]).expect("rows"));
    let mut view = TensorMut::new(&mut x, SHAPE).expect("valid");
    Rope::new(Pairing::Half)
        .rotate(&mut view, &rows)
        .expect("valid");
    x
}

/// Runs a call, and one that was copied from it, at some memory.
fn run_at(call: &rope_call, memory: &rope_call_memory) -> rope_status {
    let copy = *call;
    // SAFETY: what is passed is there.
    unsafe { rope_call_run_at(&copy, memory) }
}

fn run(call: &rope_call) -> rope_status {
    // SAFETY: what was prepared is there.
    unsafe { rope_call_run(call) }
}

/// In place, by rows that are joined, apart and listed by ids, and by frequencies at positions.
#[test]
fn rotations_in_place() {
    fn one<E: Number>() {
        let (first, second) = (table(48, 3), table(48, 70));
        let apart = |values: &[f32]| -> [Vec<f32>; 2] {
            let part = |at: usize| {
                let rows = values.chunks(48);
                rows.flat_map(|row| row[24 * at..][..24].to_vec()).collect()
            };
            [part(0), part(1)]
        };
        let ([cos, sin], [cos_2, sin_2]) = (apart(&first), apart(&second));
        let (ids, turned) = ([0_i32, 1, 2, 3, 4], [4_i32, 3, 2, 1, 0]);
        let rows = rope_rows_joined(first.as_ptr(), first.len(), 48);
        let listed = rope_angles {
            ids: ids.as_ptr().cast(),
            ids_count: TOKENS,
            ids_number: rope_number::I32 as i32,
            ..rows
        };
        let backwards: Vec<f32> = first.chunks(48).rev().flatten().copied().collect();
        let made = Owned::new(48);
        let (here, there) = (
            rope_positions_range(3, TOKENS),
            rope_positions_range(70, TOKENS),
        );
        let none: rope_call_memory = zero();
        let cases = [
            (
                rows,
                rope_call_memory {
                    cos: second.as_ptr(),
                    ..none
                },
                &second,
            ),
            (
                rope_rows_apart(cos.as_ptr(), sin.as_ptr(), TOKENS, 24, 48),
                rope_call_memory {
                    cos: cos_2.as_ptr(),
                    sin: sin_2.as_ptr(),
                    ..none
                },
                &second,
            ),
            (
                listed,
                rope_call_memory {
                    ids: turned.as_ptr().cast(),
                    ..none
                },
                &backwards,
            ),
            (
                rope_angles_at(made.0, &here),
                rope_call_memory {
                    positions: &there,
                    ..none
                },
                &second,
            ),
        ];
        let x = values::<E>(LEN);
        for (angles, memory, other) in cases {
            let (mut a, mut b) = (x.clone(), x.clone());
            let (plan, mut call) = (plan(rope_pairing::Half), zero());
            {
                // The structs are gone when the call runs.
                let (plan, view) = (plan, tensor(&mut a, SHAPE));
                // SAFETY: what is passed is there.
                let status = unsafe { rope_prepare(&plan, &view, &angles, &mut call) };
                assert_eq!(status, rope_status::Ok, "{}", detail());
            }
            assert_eq!(a, x, "a call that is prepared writes nothing");
            assert_eq!(run(&call), rope_status::Ok, "{}", detail());
            assert_eq!(a, rotated(&x, &first));
            assert_eq!(run(&call), rope_status::Ok);
            assert_eq!(a, rotated(&rotated(&x, &first), &first));
            let at = rope_call_memory {
                x: b.as_mut_ptr().cast(),
                ..memory
            };
            assert_eq!(run_at(&call, &at), rope_status::Ok, "{}", detail());
            assert_eq!(b, rotated(&x, other));
            let at = rope_call_memory { x: at.x, ..none };
            assert_eq!(run_at(&call, &at), rope_status::Ok);
            assert_eq!(b, rotated(&rotated(&x, other), &first));
        }
    }
    one::<f32>();
    one::<f16>();
    one::<bf16>();
}

/// Q and K, one after the other and between one another.
#[test]
fn q_and_k() {
    let (head_dim, values_of_rows) = (48, table(48, 3));
    let rows = rope_rows_joined(values_of_rows.as_ptr(), values_of_rows.len(), head_dim);
    let (plan, mut call) = (plan(rope_pairing::Half), zero());
    let layouts = [
        ([3 * head_dim, 2 * head_dim], TOKENS * 3 * head_dim),
        ([5 * head_dim, 5 * head_dim], 3 * head_dim),
    ];
    for (strides, behind) in layouts {
        let whole = values::<bf16>(TOKENS * 5 * head_dim);
        let (mut a, mut b, mut expected) = (whole.clone(), whole.clone(), whole.clone());
        let part = |x: &mut [bf16], heads: usize, stride: usize| rope_operand {
            layout: rope_layout {
                shape: [1, TOKENS, heads, head_dim],
                strides: [TOKENS * stride, stride, head_dim],
            },
            ..tensor(x, [1, 1, 1, 1])
        };
        let both = |x: &mut [bf16]| {
            [
                part(x, 3, strides[0]),
                part(&mut x[behind..], 2, strides[1]),
            ]
        };
        let [q, k] = both(&mut expected);
        // SAFETY: what is passed is there.
        unsafe {
            assert_eq!(rope_rotate(&plan, &q, &rows), rope_status::Ok);
            assert_eq!(rope_rotate(&plan, &k, &rows), rope_status::Ok);
        }
        let [q, k] = both(&mut a);
        // SAFETY: what is passed is there.
        let status = unsafe { rope_prepare_qk(&plan, &q, &k, &rows, &mut call) };
        assert_eq!(status, rope_status::Ok, "{}", detail());
        assert!(a == whole);
        assert_eq!(run(&call), rope_status::Ok);
        assert!(a == expected);
        let [q, k] = both(&mut b);
        let mut at: rope_call_memory = zero();
        (at.x, at.y) = (q.data, k.data);
        assert_eq!(run_at(&call, &at), rope_status::Ok, "{}", detail());
        assert!(b == expected);
        // K one head earlier lies over Q.
        at.y = at.y.wrapping_byte_sub(2 * head_dim);
        assert_eq!(run_at(&call, &at), rope_status::MemoryOverlap);
        assert!(b == expected);
    }
}

/// A norm, a rotation and a write of E4M3 codes: other slots, other weights, another cache.
#[test]
fn a_norm_into_a_cache() {
    let (blocks, heads, head_dim) = (4, SHAPE[2], SHAPE[3]);
    let layout = CacheLayout::nhd([blocks, 8, heads, head_dim]).expect("valid");
    let values_of_rows = table(48, 3);
    let rows = Rows::new(&values_of_rows, [TOKENS, 48]).expect("rows");
    let shape = [1, TOKENS, heads, head_dim];
    let (x, other) = (
        values::<bf16>(TOKENS * heads * head_dim),
        values::<bf16>(TOKENS * heads * head_dim + 1)[1..].to_vec(),
    );
    let weights = [
        values::<f32>(head_dim),
        values::<f32>(head_dim + 3)[3..].to_vec(),
    ];
    let expected = |x: &[bf16], weight: &[f32], slots: &[i64]| {
        let mut memory = vec![0_u8; layout.end()];
        let scale = QuantScale::Divide(HeadScales::Same(0.25));
        let mut cache =
            CacheMut::coded(&mut memory, layout, CacheFormat::e4m3(scale)).expect("valid");
        let norm = Norm::new(NormFormula::LLAMA, 1e-6).with_weight(weight);
        Rope::new(Pairing::Half)
            .with_norm(norm)
            .rotate_into(
                &Tensor::new(x, shape).expect("valid"),
                &mut cache.slots(slots),
                &rows,
            )
            .expect("valid");
        memory
    };

    let (mut memory, mut second) = (vec![0_u8; layout.end()], vec![0_u8; layout.end()]);
    let (slots, elsewhere) = ([3_i64, 4, 31, -1, 0], [9_i64, 1, 2, 3, 4]);
    let (first, mut call) = (slots, zero());
    let slots = &slots.map(std::cell::Cell::new);
    let write = |list: [i64; 5]| {
        for (slot, value) in slots.iter().zip(list) {
            slot.set(value);
        }
    };
    let (mut copy, mut other_copy) = (x.clone(), other.clone());
    let list = |slots: *const i64, count| rope_slots {
        kind: rope_slots_kind::Mapping as i32,
        slots: rope_ids {
            values: slots.cast(),
            count,
            number: rope_number::I64 as i32,
        },
        ..zero()
    };
    let c_rows = rope_rows_joined(values_of_rows.as_ptr(), values_of_rows.len(), 48);
    {
        let mut norm: rope_norm = zero();
        // SAFETY: a struct.
        let status = unsafe { rope_norm_init(&mut norm, rope_norm_formula::Llama as i32, 1e-6) };
        assert_eq!(status, rope_status::Ok);
        norm.weight = rope_weights {
            data: weights[0].as_ptr().cast(),
            count: head_dim,
            element: rope_element::F32 as i32,
        };
        let c_plan = rope_plan {
            norm: &norm,
            ..plan(rope_pairing::Half)
        };
        let cache = rope_cache {
            memory: memory.as_mut_ptr().cast(),
            bytes: memory.len(),
            format: rope_cache_format::E4m3 as i32,
            layout: rope_cache_layout {
                kind: rope_cache_layout_kind::Nhd as i32,
                extents: [blocks, 8, heads, head_dim, 0],
                ..zero()
            },
            scale: rope_quant_scale {
                kind: rope_quant_scale_kind::Divide as i32,
                same: 0.25,
                ..zero()
            },
            ..zero()
        };
        let (from, c_slots) = (tensor(&mut copy, shape), list(slots.as_ptr().cast(), 5));
        let to = in_slots(&cache, &c_slots);
        // SAFETY: what is passed is there.
        let status = unsafe { rope_prepare_into(&c_plan, &from, &to, &c_rows, &mut call) };
        assert_eq!(status, rope_status::Ok, "{}", detail());
    }
    assert!(memory.iter().all(|&code| code == 0));
    assert_eq!(run(&call), rope_status::Ok, "{}", detail());
    assert_eq!(memory, expected(&x, &weights[0], &first));

    // The list of slots is read when the call runs.
    memory.fill(0);
    write(elsewhere);
    assert_eq!(run(&call), rope_status::Ok);
    assert_eq!(memory, expected(&x, &weights[0], &elsewhere));
    slots[4].set(32);
    memory.fill(0);
    assert_eq!(run(&call), rope_status::Slot);
    assert!(memory.iter().all(|&code| code == 0));
    write(first);

    let others = list(elsewhere.as_ptr(), 5);
    let mut at: rope_call_memory = zero();
    (at.x, at.y) = (other_copy.as_mut_ptr().cast(), second.as_mut_ptr().cast());
    (at.slots, at.weight) = (&others, weights[1].as_ptr().cast());
    assert_eq!(run_at(&call, &at), rope_status::Ok, "{}", detail());
    assert_eq!(second, expected(&other, &weights[1], &elsewhere));
    assert!(memory.iter().all(|&code| code == 0));

    // As many slots, and of this cache.
    let few = list(elsewhere.as_ptr(), 4);
    at.slots = &few;
    assert_eq!(run_at(&call, &at), rope_status::SlotCount);
    at.slots = null();
    // The cache over what is read.
    let own = at.y;
    for spoil in [
        |at: &mut rope_call_memory| at.x = at.y,
        |at: &mut rope_call_memory| at.weight = at.y,
        |at: &mut rope_call_memory| at.cos = at.y.cast_const().cast(),
    ] {
        let mut spoilt = at;
        spoil(&mut spoilt);
        assert_eq!(run_at(&call, &spoilt), rope_status::MemoryOverlap);
    }
    assert_eq!(own, at.y);
    assert_eq!(second, expected(&other, &weights[1], &elsewhere));
}

/// Stages without a rotation, in place and into a cache.
#[test]
fn stages_alone() {
    let x = values::<f32>(LEN);
    let mut expected = x.clone();
    let mut view = TensorMut::new(&mut expected, SHAPE).expect("valid");
    let norm = Norm::new(NormFormula::LLAMA4, 1e-6);
    Rope::new(Pairing::Half)
        .with_norm(norm)
        .apply(&mut view)
        .expect("valid");
    let mut norm: rope_norm = zero();
    // SAFETY: a struct.
    let status = unsafe { rope_norm_init(&mut norm, rope_norm_formula::Llama4 as i32, 1e-6) };
    assert_eq!(status, rope_status::Ok);
    let c_plan = rope_plan {
        norm: &norm,
        ..plan(rope_pairing::Half)
    };
    let (mut a, mut b, mut call) = (x.clone(), vec![0.0_f32; LEN], zero());
    let (from, to) = (tensor(&mut a, SHAPE), tensor(&mut b, SHAPE));
    // SAFETY: what is passed is there.
    unsafe {
        let status = rope_prepare_into(&c_plan, &from, &to, null(), &mut call);
        assert_eq!(status, rope_status::Ok, "{}", detail());
        assert_eq!(rope_call_run(&call), rope_status::Ok);
        let status = rope_prepare(&c_plan, &from, null(), &mut call);
        assert_eq!(status, rope_status::Ok, "{}", detail());
        assert_eq!(rope_call_run(&call), rope_status::Ok);
    }
    assert!(a == expected && b == expected);
}

/// Memory that a call does not use is refused by its name, and nothing is written: a call from rows has no positions,
/// one at positions no cos, and one of tensors no slots.
#[test]
fn memory_that_a_call_does_not_use() {
    let made = Owned::new(48);
    let (list, slots) = ([0_i64, 1, 2], zero::<rope_slots>());
    let positions = rope_positions_range(0, TOKENS);
    let joined = table(48, 3);
    let (cos, sin) = (vec![1.0_f32; TOKENS * 24], vec![0.0_f32; TOKENS * 24]);
    let rows = |values: &[f32]| rope_rows_joined(values.as_ptr(), values.len(), 48);
    let apart = rope_rows_apart(cos.as_ptr(), sin.as_ptr(), TOKENS, 24, 48);
    let at = rope_angles_at(made.0, &positions);
    let none: rope_call_memory = zero();
    type Name = fn(&mut rope_call_memory, *const u8);
    let members: [(&str, Name); 9] = [
        ("memory.y", |memory, at| memory.y = at.cast_mut().cast()),
        ("memory.cos", |memory, at| memory.cos = at.cast()),
        ("memory.sin", |memory, at| memory.sin = at.cast()),
        ("memory.ids", |memory, at| memory.ids = at.cast()),
        ("memory.positions", |memory, at| {
            memory.positions = at.cast()
        }),
        ("memory.slots", |memory, at| memory.slots = at.cast()),
        ("memory.scales", |memory, at| {
            memory.scales = at.cast_mut().cast()
        }),
        ("memory.weight", |memory, at| memory.weight = at.cast()),
        ("memory.bias", |memory, at| memory.bias = at.cast()),
    ];
    for (angles, tokens, used) in [
        (rows(&joined), TOKENS, &["memory.cos"][..]),
        // A call of one token runs without the rest of its record.
        (rows(&joined[..48]), 1, &["memory.cos"]),
        (apart, TOKENS, &["memory.cos", "memory.sin"]),
        (at, TOKENS, &["memory.positions"]),
    ] {
        let x = values::<f32>(tokens * 2 * 64);
        let mut data = x.clone();
        let view = tensor(&mut data, [1, tokens, 2, 64]);
        let mut call: rope_call = zero();
        // SAFETY: what is passed is there.
        let status = unsafe { rope_prepare(&plan(rope_pairing::Half), &view, &angles, &mut call) };
        assert_eq!(status, rope_status::Ok, "{}", detail());
        for (name, give) in members {
            if used.contains(&name) {
                continue;
            }
            let mut memory = rope_call_memory {
                x: view.data,
                ..none
            };
            let given: *const u8 = match name {
                "memory.slots" => (&raw const slots).cast(),
                "memory.positions" => (&raw const positions).cast(),
                _ => list.as_ptr().cast(),
            };
            give(&mut memory, given);
            assert_eq!(run_at(&call, &memory), rope_status::UnusedMemory, "{name}");
            assert!(detail().starts_with(&format!("{name} is given, but the prepared call has ")));
            assert_eq!(data, x, "{name}");
        }
    }
}

/// What is no prepared call; pointers that are null, misaligned, or lead to what is read; and calls that lie in what
/// they write.
#[test]
fn refusals() {
    use rope_status as S;
    let values_of_rows = table(48, 3);
    let rows = rope_rows_joined(values_of_rows.as_ptr(), values_of_rows.len(), 48);
    let x = values::<f32>(LEN);
    let (mut a, mut b) = (x.clone(), x.clone());
    let (view, other) = (tensor(&mut a, SHAPE), tensor(&mut b, SHAPE));
    let (c_plan, mut call): (_, rope_call) = (plan(rope_pairing::Half), zero());
    assert_eq!(run(&call), S::Handle);
    let words = "call is not a handle of rope_prepare, rope_prepare_into or rope_prepare_qk";
    assert_eq!(detail(), words);
    assert_eq!(run_at(&call, &zero()), S::Handle);
    let (plan, q, k) = (&raw const c_plan, &raw const view, &raw const other);
    // Angles that are null are none.
    unsafe fn one(
        plan: *const rope_plan,
        x: *const rope_operand,
        call: *mut rope_call,
        rows: &rope_angles,
    ) -> rope_status {
        // SAFETY: as the caller's.
        unsafe { rope_prepare(plan, x, rows, call) }
    }
    unsafe fn into(
        plan: *const rope_plan,
        x: *const rope_operand,
        y: *const rope_operand,
        call: *mut rope_call,
        rows: &rope_angles,
    ) -> rope_status {
        // SAFETY: as the caller's.
        unsafe { rope_prepare_into(plan, x, y, rows, call) }
    }
    each!(one(plan, q, &raw mut call; &rows));
    each!(into(plan, q, k, &raw mut call; &rows));
    each!(rope_prepare_qk(plan, q, k, &raw const rows, &raw mut call;));
    assert_eq!(run(&call), S::Handle, "a refused call prepares nothing");
    // SAFETY: null and misaligned.
    unsafe {
        assert_eq!(rope_call_run(null()), S::Null);
        let odd = (&raw const call).wrapping_byte_add(1);
        assert_eq!(rope_call_run(odd), S::Misaligned);
        assert_eq!(
            rope_prepare_qk(plan, q, q, &rows, &mut call),
            S::MemoryOverlap
        );
        assert_eq!(
            rope_prepare_into(plan, q, q, &rows, &mut call),
            S::MemoryOverlap
        );
        assert_eq!(rope_prepare(plan, q, &rows, &mut call), S::Ok);
        let memory: rope_call_memory = zero();
        let (call, memory) = (&raw const call, &raw const memory);
        assert_eq!(rope_call_run_at(call, null()), S::Null);
        assert_eq!(rope_call_run_at(null(), memory), S::Null);
        let odd = memory.wrapping_byte_add(1);
        assert_eq!(rope_call_run_at(call, odd), S::Misaligned);
    }
    let mut at: rope_call_memory = zero();
    assert_eq!(run_at(&call, &at), S::Null);
    at.x = view.data.wrapping_byte_add(2);
    assert_eq!(run_at(&call, &at), S::Misaligned);
    at.x = values_of_rows.as_ptr().cast_mut().cast();
    assert_eq!(run_at(&call, &at), S::MemoryOverlap);
    (at.x, at.cos) = (view.data, view.data.cast_const().cast());
    assert_eq!(run_at(&call, &at), S::MemoryOverlap);
    at.cos = values_of_rows.as_ptr().wrapping_byte_add(1);
    assert_eq!(run_at(&call, &at), S::Misaligned);
    at.x = view
        .data
        .wrapping_byte_sub(view.data.addr() % 4096 + usize::MAX / 2 + 1);
    at.cos = null();
    let far = run_at(
        &call,
        &rope_call_memory {
            x: std::ptr::without_provenance_mut(usize::MAX - 3),
            ..at
        },
    );
    assert_eq!(far, S::Length);

    // A call in the memory of its tensor.
    let mut own = vec![0.0_f32; LEN.max(2 * ROPE_CALL_BYTES)];
    let at_eight = own.as_mut_ptr().wrapping_byte_add(own.as_ptr().addr() % 8);
    let inside: *mut rope_call = at_eight.cast();
    let view = tensor(&mut own, SHAPE);
    // SAFETY: there is room for the call.
    unsafe {
        assert_eq!(rope_prepare(&c_plan, &view, &rows, inside), S::Ok);
        assert_eq!(rope_call_run(inside), S::MemoryOverlap);
        let mut at: rope_call_memory = zero();
        at.x = view.data;
        assert_eq!(rope_call_run_at(inside, &at), S::MemoryOverlap);
        at.x = b.as_mut_ptr().cast();
        assert_eq!(rope_call_run_at(inside, &at), S::Ok);
        b.copy_from_slice(&x);
    }
    assert!(a == x && b == x);
}

/// One token, which has a path of its own: checked and prepared calls of Q, and of Q and K, and their refusals.
#[test]
fn one_token() {
    fn one<E: Number>(pairing: rope_pairing, with: Pairing) {
        use rope_status as S;
        const HEADS: [usize; 2] = [3, 2];
        let (first, second) = (table(48, 3), table(48, 70));
        let (plan, mut call) = (plan(pairing), zero());
        let start = HEADS.map(|heads| values::<E>(heads * 64));
        let expected = |values: &[f32]| {
            let rows = Rows::new(&values[..48], [1, 48]).expect("rows");
            let mut x = start.clone();
            for (x, heads) in x.iter_mut().zip(HEADS) {
                let mut view = TensorMut::new(x, [1, 1, heads, 64]).expect("valid");
                Rope::new(with).rotate(&mut view, &rows).expect("valid");
            }
            x
        };
        let joined = rope_rows_joined(first.as_ptr(), 48, 48);
        let apart = rope_rows_apart(first.as_ptr(), first[24..].as_ptr(), 1, 24, 48);
        for rows in [joined, apart] {
            let mut x = start.clone();
            let [q, k] = &mut x;
            let (mut q, mut k) = (tensor(q, [1, 1, 3, 64]), tensor(k, [1, 1, 2, 64]));
            // SAFETY: what is passed is there, and what is not is refused.
            unsafe {
                assert_eq!(rope_prepare_qk(&plan, &q, &k, &rows, &mut call), S::Ok);
                assert_eq!(rope_rotate_qk(&plan, &q, &k, &rows), S::Ok);
                assert!(x == expected(&first));
                x.clone_from_slice(&start);
                assert_eq!(run(&call), S::Ok);
                assert!(x == expected(&first));
                x.clone_from_slice(&start);
                assert_eq!(rope_rotate(&plan, &q, &rows), S::Ok);
                assert!(x[0] == expected(&first)[0] && x[1] == start[1]);
                x.clone_from_slice(&start);

                let mut at: rope_call_memory = zero();
                (at.x, at.y) = (q.data, k.data);
                at.cos = second.as_ptr();
                if !rows.sin.is_null() {
                    at.sin = second[24..].as_ptr();
                }
                assert_eq!(run_at(&call, &at), S::Ok, "{}", detail());
                assert!(x == expected(&second));
                x.clone_from_slice(&start);
                let refused = |spoil: fn(&mut rope_call_memory), status| {
                    let mut spoilt = at;
                    spoil(&mut spoilt);
                    assert_eq!(run_at(&call, &spoilt), status);
                };
                refused(|at| at.x = null_mut(), S::Null);
                refused(|at| at.y = null_mut(), S::Null);
                refused(|at| at.y = at.y.wrapping_byte_add(1), S::Misaligned);
                refused(
                    |at| at.y = at.x.wrapping_byte_add(2 * size_of::<f32>()),
                    S::MemoryOverlap,
                );
                refused(|at| at.x = at.cos.cast_mut().cast(), S::MemoryOverlap);
                refused(|at| at.cos = at.y.cast_const().cast(), S::MemoryOverlap);

                let (data, len) = (k.data, k.len);
                k.data = q.data;
                assert_eq!(rope_rotate_qk(&plan, &q, &k, &rows), S::MemoryOverlap);
                k.data = data.wrapping_byte_add(1);
                assert_eq!(rope_rotate_qk(&plan, &q, &k, &rows), S::Misaligned);
                (k.data, k.len) = (data, len - 1);
                assert_eq!(rope_rotate_qk(&plan, &q, &k, &rows), S::OutOfBounds);
                k.len = len;
                let inside = first[8..].as_ptr().cast_mut().cast();
                k.data = inside;
                assert_eq!(rope_rotate_qk(&plan, &q, &k, &rows), S::MemoryOverlap);
                (k.data, q.data) = (data, inside);
                assert_eq!(rope_rotate_qk(&plan, &q, &k, &rows), S::MemoryOverlap);
                assert_eq!(rope_rotate(&plan, &q, &rows), S::MemoryOverlap);
            }
            assert!(x == start);
        }
    }
    for (pairing, with) in [
        (rope_pairing::Half, Pairing::Half),
        (rope_pairing::Interleaved, Pairing::Interleaved),
    ] {
        one::<f32>(pairing, with);
        one::<f16>(pairing, with);
        one::<bf16>(pairing, with);
    }
}

/// Copies on several threads, each at memory of its own.
#[test]
fn threads() {
    struct Shared(rope_call);
    // SAFETY: each thread runs it at memory of its own.
    unsafe impl Sync for Shared {}
    let values_of_rows = table(48, 3);
    let rows = rope_rows_joined(values_of_rows.as_ptr(), values_of_rows.len(), 48);
    let x = values::<f32>(LEN);
    let mut a = x.clone();
    let (view, mut call) = (tensor(&mut a, SHAPE), zero());
    // SAFETY: what is passed is there.
    let status = unsafe { rope_prepare(&plan(rope_pairing::Half), &view, &rows, &mut call) };
    assert_eq!(status, rope_status::Ok);
    let (shared, expected) = (&Shared(call), &rotated(&x, &values_of_rows));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let mut own = x.clone();
            scope.spawn(move || {
                let Shared(call) = shared;
                let at = rope_call_memory {
                    x: own.as_mut_ptr().cast(),
                    ..zero()
                };
                assert_eq!(run_at(call, &at), rope_status::Ok);
                assert!(own == *expected);
            });
        }
    });
}
