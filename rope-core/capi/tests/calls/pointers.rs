//! Every pointer of every call, null and misaligned. The calls that read a text or bytes have none that is misaligned.

use super::*;

const ONE: [usize; 4] = [1, 1, 1, 64];

#[test]
fn of_verbs() {
    let (made, mut refusals) = (Owned::new(64), Refusals::default());
    let [mut x, mut y] = [(); 2].map(|()| values::<f32>(64));
    let (view, out, table) = (tensor(&mut x, ONE), tensor(&mut y, ONE), values::<f32>(64));
    let (norm, rows, position) = (
        norm(rope_norm_formula::Llama4),
        joined(&table, 64),
        rope_positions_range(0, 1),
    );
    let (bare, chain) = (plan(rope_pairing::Half), stages(&norm, null()));
    let [mut memory, mut other] = [[0_u32; 64]; 2];
    let [keys, values_of] =
        [&mut memory, &mut other].map(|memory| cache(memory, rope_cache_format::F32, nhd(ONE)));
    let (slots, at) = (range(0, 1), rope_angles_at(made.0, &position));
    let (keys_in, values_in) = (in_slots(&keys, &slots), in_slots(&values_of, &slots));
    let output = rope_output {
        y: &raw const out,
        rows: &raw const rows,
        groups: 0,
    };
    let mut sums = [7.0_f32];
    for plan in [&bare, &chain] {
        for rows in [&rows, &at] {
            each!(refusals, rope_rotate(plan, x, rows); plan = plan, x = &view, rows = rows);
            each!(
                refusals, rope_rotate_into(plan, x, y, rows);
                plan = plan, x = &view, y = &keys_in, rows = rows
            );
        }
        each!(refusals, rope_apply(plan, x); plan = plan, x = &view);
        each!(refusals, rope_apply_into(plan, x, y); plan = plan, x = &values_in, y = &out);
        each!(
            refusals, rope_rotate_qk(plan, q, k, rows);
            plan = plan, q = &view, k = &out, rows = &rows
        );
        each!(
            refusals, rope_rotate_into_each(plan, x, outputs, 1);
            plan = plan, x = &view, outputs = &output
        );
    }
    each!(
        refusals, rope_sum_of_squares(plan, x, sums, 1);
        plan = &chain, x = &view, sums = &mut sums[0]
    );
    // The pointers of an operand; one without a cache is a tensor without data.
    each!(
        refusals, rope_rotate(plan, &in_slots(&keys, slots), rows);
        plan = &bare, slots = &slots, rows = &rows
    );
    for cache in [null(), (&raw const keys).wrapping_byte_add(1)] {
        refused!(
            refusals,
            rope_rotate(&bare, &in_slots(cache, &slots), &rows)
        );
    }
    // An operand that is misaligned, without elements, may have any address.
    let mut odd = view;
    odd.data = odd.data.wrapping_byte_add(2);
    refused!(refusals, rope_rotate(&bare, &odd, &rows));
    (odd.len, odd.layout.shape[0]) = (0, 0);
    ok!(rope_rotate(&bare, &odd, &rows));

    let (mut call, size) = (zero::<rope_call>(), ROPE_CALL_BYTES);
    assert_eq!(size_of_val(&call), size);
    // Angles that are null are none.
    each!(
        refusals, rope_prepare(plan, x, &rows, call);
        plan = &bare, x = &view, call = &mut call
    );
    each!(
        refusals, rope_prepare_into(plan, x, y, &rows, call);
        plan = &bare, x = &view, y = &out, call = &mut call
    );
    each!(
        refusals, rope_prepare_qk(plan, q, k, rows, call);
        plan = &bare, q = &view, k = &out, rows = &rows, call = &mut call
    );
    // A refused call prepares nothing.
    refused!(
        refusals,
        rope_call_run(&call),
        rope_call_run_at(&call, &zero())
    );
    ok!(rope_prepare(&bare, &view, &rows, &mut call));
    let at = rope_call_memory {
        x: view.data,
        ..zero()
    };
    each!(refusals, rope_call_run(call); call = &call);
    each!(refusals, rope_call_run_at(call, at); call = &call, at = &at);
    assert_eq!((&x, &y, sums), (&values(64), &values(64), [7.0]));
    assert!(memory == [0; 64] && other == memory);
    compare!(refusals, "pointers_of_verbs");
}

#[test]
fn of_frequencies_and_rows() {
    let (made, mut refusals) = (Owned::new(64), Refusals::default());
    let (axes, position) = (rope_axes_text(64), rope_positions_range(0, 1));
    let at = rope_angles_at(made.0, &position);
    let (mut storage, mut list, mut memory) = ([7.0_f32; 64], [7.0_f64; 32], [0_u64; 512]);
    let (out, place) = (storage.as_mut_ptr(), memory.as_mut_ptr().cast::<c_void>());
    let (mut len, mut tokens, mut info) = (7, [7_usize], zero());
    let mut rows = zero::<rope_angles>();
    let (mut layout, mut scaling) = (zero::<rope_layout>(), zero::<rope_scaling>());
    let (mut norm, mut hadamard) = (zero::<rope_norm>(), zero::<rope_hadamard>());
    let (mut frequencies, mut table) = (null_mut(), null_mut());
    let handle = made.0;
    each!(refusals, rope_rows_len(at, len); at = &at, len = &mut len);
    each!(refusals, rope_table_new(at, table); at = &at, table = &mut table);
    each!(refusals, rope_table_rows(table, rows); table = handle.cast(), rows = &mut rows);
    each!(
        refusals, rope_rows_fill(at, storage, 64, rows);
        at = &at, storage = out, rows = &mut rows
    );
    each!(
        refusals, rope_rows_fill(&rope_angles_at(handle, positions), out, 64, &mut rows);
        handle = handle, positions = &position
    );
    // Without old frequencies the positions are deltas.
    each!(
        refusals, rope_rows_fill(&moved_from(new, handle, from, to), out, 64, &mut rows);
        new = handle, from = &position, to = &position
    );
    each!(
        refusals, rope_rows_fill(&moved_by(handle, deltas), out, 64, &mut rows);
        handle = handle, deltas = &position
    );
    let odd = handle.wrapping_byte_add(1);
    let odd = moved_from(handle, odd, &position, &position);
    refused!(refusals, rope_rows_fill(&odd, out, 64, &mut rows));
    let one = joined(&[1.0; 64], 64);
    each!(
        refusals, rope_rows_invert(rows, storage, 64, inverted);
        rows = &one, storage = out, inverted = &mut rows
    );
    each!(refusals, rope_sinusoidal(rows, storage, 64); rows = &one, storage = out);
    let shard = rope_positions_shard(rope_positions_kind::StripedShard as i32, 1, 0, 1);
    each!(
        refusals, rope_shard_tokens(shard, tokens, 1, count);
        shard = &shard, tokens = &mut tokens[0], count = &mut len
    );
    each!(
        refusals, rope_frequencies_describe(handle, info);
        handle = handle, info = &mut info
    );
    each!(refusals, rope_frequencies_set_angle(handle, 0); handle = handle);
    each!(refusals, rope_frequencies_set_backend(handle, 0); handle = handle);
    each!(
        refusals, rope_frequencies_inverse(handle, list, 32);
        handle = handle, list = list.as_mut_ptr()
    );
    each!(refusals, rope_scaling_init(scaling, 0); scaling = &mut scaling);
    each!(refusals, rope_layout_init(layout, 1, 1, 1, 1, 1); layout = &mut layout);
    each!(refusals, rope_norm_init(norm, 1, 1e-6); norm = &mut norm);
    let keys = rope_hadamard_preset::LlamaCppKeys as i32;
    each!(refusals, rope_hadamard_init(hadamard, keys, 128); hadamard = &mut hadamard);
    // Memory of frequencies has any alignment, and scalings may be missing.
    refused!(
        refusals,
        rope_frequencies_init(null_mut(), 4096, &axes, 1e4, null(), &mut frequencies),
    );
    each!(
        refusals, rope_frequencies_init(place, 4096, axes, 1e4, null(), out);
        axes = &axes, out = &mut frequencies
    );
    each!(
        refusals, rope_frequencies_new(axes, 1e4, null(), out);
        axes = &axes, out = &mut frequencies
    );
    let f64 = rope_number::F64 as i32;
    each!(
        refusals, rope_frequencies_new_inverse(axes, list.cast(), 32, f64, 1.0, out);
        axes = &axes, list = list.as_ptr(), out = &mut frequencies
    );
    let learned = rope_mixed_inverse {
        values: list.as_ptr().cast(),
        count: 32,
        number: f64,
        axes: 2,
        heads: 1,
        pairs: 16,
    };
    each!(
        refusals, rope_mixed_frequencies_new(inverse, 1.0, 0, out);
        inverse = &learned, out = &mut frequencies
    );
    each!(
        refusals, rope_mixed_frequencies_init(place, 4096, inverse, 1.0, 0, out);
        inverse = &learned, out = &mut frequencies
    );
    each!(
        refusals, rope_initial_mixed(10.0, list.as_ptr().cast(), 2, f64, 4, inverse, 16);
        inverse = out
    );
    // Directions that are null are none.
    let odd = list.as_ptr().wrapping_byte_add(1).cast();
    refused!(refusals, rope_initial_mixed(10.0, odd, 2, f64, 4, out, 16));
    let (xy, f32) = (rope_grid_indexing::Xy as i32, rope_number::F32 as i32);
    let mut grid = zero::<rope_positions>();
    each!(
        refusals, rope_grid_positions(xy, 2, 3, storage.cast(), 12, f32, positions);
        storage = out, positions = &mut grid
    );
    assert!(frequencies.is_null() && table.is_null() && memory == [0; 512]);
    assert!(storage == [7.0; 64] && list == [7.0; 32] && (len, tokens) == (7, [7]));
    assert!(rows.cos.is_null() && grid.values.is_null() && info.axes == 0);
    compare!(refusals, "pointers_of_frequencies");
}

#[test]
fn of_gradients() {
    const ROW: usize = 32;
    let (x, mut y, mut refusals) = (values::<f32>(64), values::<f32>(64), Refusals::default());
    let (x, y_of, plan) = (view(&x, ONE), tensor(&mut y, ONE), plan(rope_pairing::Half));
    let [mut first, mut second, mut made, mut other] = [[7.0_f64; ROW]; 4];
    let sums = |values: &mut [f64; ROW]| rope_pair_gradients {
        sums: values.as_mut_ptr(),
        rows: 1,
        heads: 1,
        pairs: ROW,
    };
    let (a, b) = (sums(&mut first), sums(&mut second));
    let (table, position, list) = (values::<f32>(64), rope_positions_range(0, 1), [1.0; ROW]);
    let (rows, list) = (joined(&table, 64), list.as_ptr());
    let (out, more) = (made.as_mut_ptr(), other.as_mut_ptr());
    each!(
        refusals, rope_backward(plan, y, dy, rows, sums);
        plan = &plan, y = &x, dy = &y_of, rows = &rows, sums = &a
    );
    each!(
        refusals, rope_backward_into(plan, y, dy, dx, rows, sums);
        plan = &plan, y = &x, dy = &x, dx = &y_of, rows = &rows, sums = &a
    );
    use rope_gradient_kind::{Angles, CosSin};
    // The sums of sin are not used.
    each!(
        refusals, rope_gradients(Angles as i32, plan, y, dy, sums, null());
        plan = &plan, y = &x, dy = &x, sums = &a
    );
    each!(
        refusals, rope_gradients(CosSin as i32, plan, x, dy, cos, sin);
        plan = &plan, x = &x, dy = &x, cos = &a, sin = &b
    );
    each!(
        refusals, rope_pair_gradients_frequencies(sums, positions, 1, out, ROW);
        sums = &a, positions = &position, out = out
    );
    each!(
        refusals, rope_pair_gradients_positions(sums, inverse, ROW, 1, out, 1);
        sums = &a, inverse = list, out = out
    );
    each!(refusals, rope_pair_gradients_total(sums, out); sums = &a, out = out);
    each!(
        refusals, rope_pair_gradients_cos_sin(angles, factors, rows, cos, sin, ROW);
        angles = &a, factors = &b, rows = &rows, cos = out, sin = more
    );
    each!(refusals, rope_gradients_to_ratio(list, out, ROW); list = list, out = out);
    each!(
        refusals, rope_gradients_to_base(2.0, list, gradients, ROW, out);
        list = list, gradients = list, out = out
    );
    for unchanged in [first, second, made, other] {
        assert_eq!(unchanged, [7.0; ROW]);
    }
    assert_eq!(y, values::<f32>(64));
    compare!(refusals, "pointers_of_gradients");
}
