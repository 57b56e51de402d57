//! Tensors, Q and K, several targets, and their refusals. The bodies have the verbs over C.

use rope_core::Output;
use rope_core::cache::{CacheLayout, CacheMut};

use super::*;

const TOKENS: usize = SHAPE[0] * SHAPE[1];
const HEAD_DIM: usize = SHAPE[3];
/// One token of one head.
const ONE: [usize; 4] = [1, 1, 1, HEAD_DIM];

/// Q and K of a packed row lie between one another.
#[test]
fn q_and_k_of_packed_rows() {
    let (tokens, heads, head_dim) = (3, 6, 16);
    let table = table(head_dim, 0, tokens);
    let rows = Rows::new(&table, [tokens, head_dim]).expect("valid");
    let mut x = values::<bf16>(tokens * heads * head_dim);
    let mut expected = x.clone();
    let whole = Layout::bshd([1, tokens, heads, head_dim]).expect("valid");
    for part in [0..3, 3..5] {
        let layout = whole.narrow(Dimension::Heads, part).expect("valid");
        let mut view = TensorMut::new(&mut expected, layout).expect("valid");
        let rope = Rope::new(Pairing::Half);
        rope.rotate(&mut view, &rows).expect("valid");
    }
    let (plan, rows) = (plan(rope_pairing::Half), joined(&table, head_dim));
    let all = tensor(&mut x, [1, tokens, heads, head_dim]);
    let (mut q, mut k, mut refusals) = (all, all, Refusals::default());
    (q.layout.shape[2], k.layout.shape[2]) = (3, 2);
    k.data = k.data.wrapping_byte_add(3 * head_dim * 2);
    k.len -= 3 * head_dim;
    let (mut narrow, short) = (k, rope_operand { len: 10, ..k });
    let element = rope_element::F16 as i32;
    let other = rope_operand { element, ..k };
    narrow.layout.shape[3] = 14;
    refused!(
        refusals,
        rope_rotate_qk(&plan, &q, &narrow, &rows),
        rope_rotate_qk(&plan, &q, &short, &rows),
    );
    ok!(rope_rotate_qk(&plan, &q, &k, &rows));
    assert_eq!(x, expected);
    // Each has its own element.
    let start = values::<bf16>(x.len());
    x.copy_from_slice(&start);
    ok!(
        rope_rotate(&plan, &q, &rows),
        rope_rotate(&plan, &other, &rows)
    );
    let expected = x.clone();
    x.copy_from_slice(&start);
    ok!(rope_rotate_qk(&plan, &q, &other, &rows));
    assert_eq!(x, expected);
    compare!(refusals, "q_and_k");
}

/// Sizes that no memory has, numbers that name nothing, and arguments that do not fit each other.
#[test]
fn refusals() {
    let (mut x, table) = (values::<f32>(2 * 64), vec![0.5_f32; 128]);
    let right = (
        plan(rope_pairing::Half),
        tensor(&mut x, [1, 2, 1, 64]),
        joined(&table, 64),
    );
    let mut refusals = Refusals::default();
    type Spoil<'a> = &'a dyn Fn(&mut rope_plan, &mut rope_operand, &mut rope_angles);
    let unknown = [
        next(rope_pairing::ALL, |pairing| pairing as i32),
        next(rope_direction::ALL, |direction| direction as i32),
        next(rope_backend::ALL, |backend| backend as i32),
    ];
    let spoils: [Spoil<'_>; 24] = [
        &|plan, _, _| plan.pairing = 0,
        &|plan, _, _| plan.pairing = unknown[0],
        &|plan, _, _| plan.output_pairing = -1,
        &|plan, _, _| plan.output_pairing = rope_pairing::Interleaved as i32,
        &|plan, _, _| plan.direction = unknown[1],
        &|plan, _, _| plan.backend = unknown[2],
        &|plan, _, _| plan.head_dim = 62,
        &|plan, _, _| plan.first_channel = 2,
        &|plan, _, _| plan.parts = 5,
        &|_, x, _| x.element = 0,
        &|_, x, _| x.element = i32::MIN,
        &|_, x, _| x.len -= 1,
        &|_, x, _| x.layout.strides[1] = 63,
        &|_, x, _| x.layout.shape[2] = usize::MAX,
        &|_, x, _| (x.layout.shape, x.len) = ([1, 1, 1, usize::MAX], usize::MAX),
        &|_, x, rows| x.data = rows.cos.cast_mut().cast(),
        &|_, _, rows| rows.len = 64,
        &|_, _, rows| rows.len = 63,
        &|_, _, rows| rows.len = isize::MAX as usize,
        &|_, _, rows| rows.rotary_dim = 63,
        // One row, for two heads.
        &|_, _, rows| rows.heads = 2,
        &|_, _, rows| rows.attention_factor = 0.0,
        &|_, x, _| x.layout.shape[3] = 62,
        // PyTorch's cos without its sin, and rows of another magnitude than a plan divides by.
        &|plan, _, _| plan.direction = rope_direction::Inverse as i32,
    ];
    for spoil in spoils {
        let (mut plan, mut view, mut rows) = right;
        spoil(&mut plan, &mut view, &mut rows);
        refused!(refusals, rope_rotate(&plan, &view, &rows));
    }
    let inverse = rope_plan {
        direction: rope_direction::Inverse as i32,
        ..right.0
    };
    let halves = [1.0_f32, 1.0, 0.5, 0.5].map(|value| [value; 16]).concat();
    let halves = [&halves[..], &halves].concat();
    refused!(
        refusals,
        rope_rotate(&inverse, &right.1, &joined(&halves, 64))
    );
    // Each combination of what only one of the short ways checks.
    let other = rope_plan {
        head_dim: 62,
        first_channel: 2,
        parts: 2,
        ..right.0
    };
    refused!(refusals, rope_rotate(&other, &right.1, &right.2));
    assert_eq!(x, values::<f32>(2 * 64));
    compare!(refusals, "operands");
}

/// Operands of which one is written and another read, and stages that do not fit a verb.
#[test]
fn refusals_of_stages() {
    let [mut x, mut y] = [(); 2].map(|()| values::<f32>(HEAD_DIM));
    let (view, out) = (tensor(&mut x, ONE), tensor(&mut y, ONE));
    let inside: *const f32 = view.data.cast_const().cast();
    let table = values::<f32>(HEAD_DIM);
    let (rows, none) = (joined(&table, HEAD_DIM), norm(rope_norm_formula::Llama4));
    let (chain, bare) = (stages(&none, null()), plan(rope_pairing::Half));
    let [mut memory, mut other] = [[0_u32; HEAD_DIM]; 2];
    let keys = cache(&mut memory, rope_cache_format::F32, nhd(ONE));
    let (values_of, slots) = (
        cache(&mut other, rope_cache_format::F32, nhd(ONE)),
        range(0, 1),
    );
    let (keys_in, values_in) = (in_slots(&keys, &slots), in_slots(&values_of, &slots));
    let over = |data: *const f32, from: usize| rope_norm {
        weighted: 1,
        weight: rope_weights {
            data: data.wrapping_add(from).cast(),
            count: HEAD_DIM,
            element: rope_element::F32 as i32,
        },
        ..none
    };
    let [own, later] = [over(inside, 0), over(inside, 16)];
    let [own, later] = [&own, &later].map(|norm| stages(norm, null()));
    let mut sums = [7.0_f32];
    let (forgotten, unused) = (
        rope_norm {
            weighted: 1,
            ..none
        },
        rope_norm {
            weighted: 0,
            ..over(table.as_ptr(), 0)
        },
    );
    let given = rope_norm {
        sums: sums.as_ptr(),
        sums_count: 1,
        sums_width: 1,
        ..none
    };
    let [forgotten, unused, given] = [&forgotten, &unused, &given].map(|norm| stages(norm, null()));
    let factors = |factors: *const f32| rope_scale {
        kind: rope_scale_kind::PerToken as i32,
        factors,
        count: 1,
        ..zero()
    };
    let [scale_in_cache, scale_in_x] = [factors(keys.memory.cast()), factors(inside)];
    let [scale_in_cache, scale_in_x] =
        [&scale_in_cache, &scale_in_x].map(|scale| stages(null(), scale));
    let odd_norm = stages((&raw const none).wrapping_byte_add(1), null());
    let odd_scale = stages(
        null(),
        (&raw const scale_in_x.scale)
            .cast::<rope_scale>()
            .wrapping_byte_add(1),
    );
    let odd_hadamard = rope_plan {
        hadamard: (&raw const none).wrapping_byte_add(1).cast(),
        ..bare
    };
    let row_in_x = rope_rows_joined(inside, HEAD_DIM, HEAD_DIM);
    let row_in_cache = rope_rows_joined(keys.memory.cast(), HEAD_DIM, HEAD_DIM);
    let list = |data: *const c_void| rope_slots {
        kind: rope_slots_kind::Mapping as i32,
        slots: rope_ids {
            values: data,
            count: 1,
            number: rope_number::I32 as i32,
        },
        ..zero()
    };
    let (listed_in_x, listed_in_cache) = (list(view.data), list(keys.memory));
    let upon_cache = rope_operand {
        data: keys.memory,
        ..view
    };
    let (in_x, in_cache) = (
        in_slots(&keys, &listed_in_x),
        in_slots(&keys, &listed_in_cache),
    );
    let mut refusals = Refusals::default();
    refused!(
        refusals,
        rope_rotate(&odd_norm, &view, &rows),
        rope_rotate(&odd_scale, &view, &rows),
        rope_rotate(&odd_hadamard, &view, &rows),
        rope_rotate(&own, &view, &rows),
        rope_rotate(&later, &view, &rows),
        rope_apply(&own, &view),
        rope_rotate(&scale_in_x, &view, &rows),
        rope_rotate_into(&own, &out, &view, &rows),
        rope_rotate_into(&chain, &view, &view, &rows),
        rope_rotate(&forgotten, &view, &rows),
        rope_rotate(&unused, &view, &rows),
        rope_rotate(&chain, &view, &row_in_x),
        rope_rotate_into(&chain, &out, &view, &row_in_x),
        rope_sum_of_squares(&chain, &view, view.data.cast(), 1),
        rope_sum_of_squares(&given, &view, sums.as_mut_ptr(), 1),
        rope_sum_of_squares(&bare, &view, sums.as_mut_ptr(), 1),
        rope_sum_of_squares(&chain, &view, sums.as_mut_ptr(), 0),
        rope_sum_of_squares(&chain, &keys_in, sums.as_mut_ptr(), 1),
        rope_apply_into(&chain, &keys_in, &upon_cache),
        rope_rotate_into(&chain, &keys_in, &upon_cache, &rows),
        rope_rotate_into(&chain, &values_in, &values_in, &rows),
        rope_apply_into(&chain, &in_x, &view),
        rope_apply_into(&own, &keys_in, &view),
        rope_rotate_into(&chain, &keys_in, &view, &row_in_x),
        rope_rotate(&bare, &keys_in, &row_in_cache),
        rope_rotate(&scale_in_cache, &keys_in, &rows),
        rope_rotate(&chain, &keys_in, &rows),
        rope_rotate(&bare, &in_cache, &rows),
        rope_rotate_qk(&chain, &view, &out, &row_in_x),
        rope_rotate_qk(&bare, &view, &keys_in, &rows),
    );
    assert_eq!(
        (&x, &y, sums),
        (&values(HEAD_DIM), &values(HEAD_DIM), [7.0])
    );
    assert!(memory == [0; HEAD_DIM] && other == memory);
    compare!(refusals, "stages");
}

/// Several targets of one read, and what is refused of them.
#[test]
fn outputs_match_rope_core() {
    let (table, extents) = (table(48, 3, TOKENS), [4, 8, SHAPE[2], HEAD_DIM]);
    let rows = Rows::new(&table, [TOKENS, 48]).expect("valid");
    let ids: [u32; TOKENS] = core::array::from_fn(|token| (token * 3 % TOKENS) as u32);
    let slots = [9, 4, -1, 31, 0, 17, 18, 3, 30, 12];
    let other = rows.gather(&ids).expect("ids of the table");
    let c_rows = joined(&table, 48);
    let c_other = rope_angles {
        ids: ids.as_ptr().cast(),
        ids_count: TOKENS,
        ids_number: rope_number::U32 as i32,
        ..c_rows
    };
    let layout = CacheLayout::nhd(extents).expect("valid");
    let x = values::<bf16>(LEN);
    let (source, from) = (Tensor::new(&x, SHAPE).expect("valid"), view(&x, SHAPE));
    let [batch, tokens, heads, head_dim] = SHAPE;
    let wide = [batch, tokens, 2 * heads, head_dim];
    let [mut y, mut c_y] = [(); 2].map(|()| vec![0.0_f32; 2 * LEN]);
    let [mut z, mut c_z] = [(); 2].map(|()| vec![f16::ZERO; layout.end()]);
    let groups = [rows.clone(), other.clone()];
    let both = &mut TensorMut::new(&mut y, wide).expect("valid");
    let target = &mut CacheMut::new(&mut z, layout).expect("valid");
    let mut outputs = [
        Output::head_groups(both, &groups),
        Output::cache(target, &slots[..], &other),
    ];
    let rope = Rope::new(Pairing::Half);
    rope.rotate_into_each(&source, &mut outputs)
        .expect("targets that fit");

    let (plan, c_groups) = (plan(rope_pairing::Half), [c_rows, c_other]);
    let (to, c_slots) = (tensor(&mut c_y, wide), mapping(&slots, rope_number::I32));
    let cache = cache(&mut c_z, rope_cache_format::F16, nhd(extents));
    let to_slots = in_slots(&cache, &c_slots);
    let first = rope_output {
        y: &to,
        rows: c_groups.as_ptr(),
        groups: 2,
    };
    let second = rope_output {
        y: &to_slots,
        rows: &c_other,
        groups: 0,
    };
    let call = |outputs: &[rope_output]| {
        call!(rope_rotate_into_each(
            &plan,
            &from,
            outputs.as_ptr(),
            outputs.len()
        ))
    };
    ok!(call(&[first, second]));
    assert!(c_y == y && c_z == z);

    let one_group = rope_output { groups: 1, ..first };
    let nowhere = rope_output {
        y: null(),
        ..second
    };
    let without_rows = rope_output {
        rows: null(),
        ..first
    };
    let upon_source = rope_operand {
        data: from.data,
        element: rope_element::Bf16 as i32,
        ..view(&c_y[..LEN], SHAPE)
    };
    let in_place = rope_output {
        y: &upon_source,
        ..one_group
    };
    let rows_in_cache = rope_rows_joined(cache.memory.cast(), TOKENS * 48, 48);
    let upon_rows = rope_output {
        rows: &rows_in_cache,
        ..second
    };
    let mut refusals = Refusals::default();
    refused!(
        refusals,
        call(&[second, one_group]),
        call(&[second, nowhere]),
        call(&[second, without_rows]),
        call(&[second, second]),
        call(&[second, in_place]),
        call(&[first, upon_rows]),
    );
    ok!(call(&[]));
    assert!(c_y == y && c_z == z && x == values::<bf16>(LEN));
    compare!(refusals, "outputs");
}
