//! Refusals of tensors, stages and several targets. The bodies have the verbs over C, and Q and K of packed rows.

use super::*;

const TOKENS: usize = SHAPE[0] * SHAPE[1];
const HEAD_DIM: usize = SHAPE[3];
/// One token of one head.
const ONE: [usize; 4] = [1, 1, 1, HEAD_DIM];

/// All that a rotation names, to be spoilt.
#[derive(Clone, Copy)]
struct Named {
    plan: rope_plan,
    x: rope_operand,
    rows: rope_angles,
}

impl Named {
    fn call(&self) -> rope_status {
        call!(rope_rotate(&self.plan, &self.x, &self.rows))
    }
}

/// Sizes that no memory has, numbers that name nothing, and arguments that do not fit each other.
#[test]
fn refusals() {
    let (mut x, table) = (values::<f32>(2 * 64), vec![0.5_f32; 128]);
    let right = Named {
        plan: plan(rope_pairing::Half),
        x: tensor(&mut x, [1, 2, 1, 64]),
        rows: joined(&table, 64),
    };
    let halves = [1.0_f32, 1.0, 0.5, 0.5].map(|value| [value; 16]).concat();
    let halves = [&halves[..], &halves].concat();
    let mut refusals = Refusals::default();
    spoil!(refusals, right => right.call();
        right.plan.pairing = 0;
        right.plan.pairing = next(rope_pairing::ALL, |pairing| pairing as i32);
        right.plan.output_pairing = -1;
        right.plan.output_pairing = rope_pairing::Interleaved as i32;
        right.plan.direction = next(rope_direction::ALL, |direction| direction as i32);
        right.plan.backend = next(rope_backend::ALL, |backend| backend as i32);
        right.plan.head_dim = 62;
        right.plan.first_channel = 2;
        right.plan.parts = 5;
        right.x.element = 0;
        right.x.element = i32::MIN;
        right.x.len -= 1;
        right.x.layout.strides[1] = 63;
        right.x.layout.shape[2] = usize::MAX;
        (right.x.layout.shape, right.x.len) = ([1, 1, 1, usize::MAX], usize::MAX);
        right.x.data = right.rows.cos.cast_mut().cast();
        right.rows.len = 64;
        right.rows.len = 63;
        right.rows.len = isize::MAX as usize;
        right.rows.rotary_dim = 63;
        // One row, for two heads.
        right.rows.heads = 2;
        right.rows.attention_factor = 0.0;
        right.x.layout.shape[3] = 62;
        // PyTorch's cos without its sin, and rows of another magnitude than a plan divides by.
        right.plan.direction = rope_direction::Inverse as i32;
        (right.plan.direction, right.rows) = (rope_direction::Inverse as i32, joined(&halves, 64));
        // Each combination of what only one of the short ways checks.
        (right.plan.head_dim, right.plan.first_channel, right.plan.parts) = (62, 2, 2);
    );
    let (mut q, mut k) = (right.x, right.x);
    (q.layout.shape[3], k.layout.shape[3]) = (32, 32);
    (k.data, k.len) = (k.data.wrapping_byte_add(128), 96);
    spoil!(refusals, k => rope_rotate_qk(&right.plan, &q, &k, &right.rows);
        k.layout.shape[3] = 30;
        k.len = 10;
    );
    assert_eq!(x, values::<f32>(2 * 64));
    compare!(refusals, "operands");
}

/// Operands of which one is written and another read, and stages that do not fit a verb.
#[test]
fn refusals_of_stages() {
    let ([mut x, mut y], table) = ([(); 2].map(|()| values::<f32>(HEAD_DIM)), [1.5; HEAD_DIM]);
    let view = tensor(&mut x, ONE);
    let out = tensor(&mut y, ONE);
    let rows = joined(&table, HEAD_DIM);
    let [mut memory, mut other] = [[0_u32; HEAD_DIM]; 2];
    let [keys, values_of] =
        [&mut memory, &mut other].map(|memory| cache(memory, rope_cache_format::F32, nhd(ONE)));
    let (slots, inside) = (range(0, 1), view.data.cast_const().cast::<f32>());
    let (keys_in, values_in) = (in_slots(&keys, &slots), in_slots(&values_of, &slots));
    let (none, bare) = (norm(rope_norm_formula::Llama4), plan(rope_pairing::Half));
    let weights_at = |data: *const f32| with!(weights(&table); data = data.cast());
    let mut sums = [7.0_f32];
    let weighted = |data| with!(none; weighted = 1, weight = weights_at(data));
    let norms = [
        weighted(inside),
        weighted(inside.wrapping_add(16)),
        with!(none; weighted = 1),
        with!(none; weight = weights(&table)),
        with!(none; sums = sums.as_ptr(), sums_count = 1, sums_width = 1),
        none,
    ];
    let [own, later, forgotten, unused, given, chain] =
        [0, 1, 2, 3, 4, 5].map(|index| stages(&norms[index], null()));
    let factors = |factors: *const f32| {
        let kind = rope_scale_kind::PerToken as i32;
        with!(zero::<rope_scale>(); kind = kind, factors = factors, count = 1)
    };
    let scales = [factors(keys.memory.cast()), factors(inside)];
    let [scale_in_cache, scale_in_x] = [0, 1].map(|index| stages(null(), &scales[index]));
    let odd = (&raw const none).wrapping_byte_add(1);
    let (odd_norm, odd_scale) = (stages(odd, null()), stages(null(), odd.cast()));
    let odd_hadamard = with!(bare; hadamard = odd.cast());
    let [row_in_x, row_in_cache] = [inside, keys.memory.cast()].map(|cos| with!(rows; cos = cos));
    let one_slot = mapping(&[0], rope_number::I32);
    let [listed_in_x, listed_in_cache] =
        [view.data, keys.memory].map(|list| with!(one_slot; slots.values = list.cast_const()));
    let upon_cache = with!(view; data = keys.memory);
    let in_x = in_slots(&keys, &listed_in_x);
    let in_cache = in_slots(&keys, &listed_in_cache);
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

/// Several targets of one read that are refused.
#[test]
fn outputs() {
    let (table, extents) = (table(48, 3, TOKENS), [4, 8, SHAPE[2], HEAD_DIM]);
    let ids: [u32; TOKENS] = core::array::from_fn(|token| (token * 3 % TOKENS) as u32);
    let slots = [9, 4, -1, 31, 0, 17, 18, 3, 30, 12];
    let (x, mut c_y, mut c_z) = (
        values::<bf16>(LEN),
        [0.0_f32; 2 * LEN],
        [f16::ZERO; 4 * 8 * LEN / TOKENS],
    );
    let from = view(&x, SHAPE);
    let wide = [SHAPE[0], SHAPE[1], 2 * SHAPE[2], HEAD_DIM];
    let c_rows = joined(&table, 48);
    let c_other = by_ids(c_rows, &ids, rope_number::U32);
    let (plan, c_groups) = (plan(rope_pairing::Half), [c_rows, c_other]);
    let (to, c_slots) = (tensor(&mut c_y, wide), mapping(&slots, rope_number::I32));
    let cache = cache(&mut c_z, rope_cache_format::F16, nhd(extents));
    let to_slots = in_slots(&cache, &c_slots);
    let output = |y, rows, groups| rope_output { y, rows, groups };
    let first = output(&to, c_groups.as_ptr(), 2);
    let second = output(&to_slots, &c_other, 0);
    let call = |outputs: &[rope_output]| {
        let (outputs, count) = (outputs.as_ptr(), outputs.len());
        call!(rope_rotate_into_each(&plan, &from, outputs, count))
    };
    let element = rope_element::Bf16 as i32;
    let upon_source = with!(view(&c_y[..LEN], SHAPE); data = from.data, element = element);
    let rows_in_cache = rope_rows_joined(cache.memory.cast(), TOKENS * 48, 48);
    let mut refusals = Refusals::default();
    spoil!(refusals, first => call(&[second, first]);
        first.groups = 1;
        first.rows = null();
        (first.y, first.rows, first.groups) = (second.y, second.rows, 0);
        (first.y, first.groups) = (&upon_source, 1);
    );
    spoil!(refusals, second => call(&[first, second]); second.y = null(); second.rows = &rows_in_cache;);
    ok!(call(&[]));
    assert!(
        c_y == [0.0; 2 * LEN] && c_z.iter().all(|&x| x == f16::ZERO) && x == values::<bf16>(LEN)
    );
    compare!(refusals, "outputs");
}
