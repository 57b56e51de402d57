//! Every pointer of every call, null and misaligned. The calls that read a text or bytes have none that is misaligned.

use super::*;

const ONE: [usize; 4] = [1, 1, 1, 64];

#[test]
fn of_verbs() {
    let (made, mut refusals) = (Owned::new(64), Refusals::default());
    let [mut x, mut y] = [(); 2].map(|()| values::<f32>(64));
    let (view, out, table) = (tensor(&mut x, ONE), tensor(&mut y, ONE), values::<f32>(64));
    let norm = norm(rope_norm_formula::Llama4);
    let (joined, position) = (joined(&table, 64), rope_positions_range(0, 1));
    let (bare, chain) = (plan(rope_pairing::Half), stages(&norm, null()));
    let [mut memory, mut other] = [[0_u32; 64]; 2];
    let [keys, values_of] =
        [&mut memory, &mut other].map(|memory| cache(memory, rope_cache_format::F32, nhd(ONE)));
    let (slots, at) = (range(0, 1), rope_angles_at(made.0, &position));
    let (keys_in, values_in) = (in_slots(&keys, &slots), in_slots(&values_of, &slots));
    let output = with!(zero::<rope_output>(); y = &raw const out, rows = &raw const joined);
    let mut sums = [7.0_f32];
    for plan in [&bare, &chain] {
        for angles in [&joined, &at] {
            each!(rope_rotate(plan, x, angles); plan = plan, x = &view, angles = angles);
            each!(rope_rotate_into(plan, x, y, angles); plan = plan, x = &view, y = &keys_in, angles = angles);
        }
        each!(rope_apply(plan, x); plan = plan, x = &view);
        each!(rope_apply_into(plan, x, y); plan = plan, x = &values_in, y = &out);
        each!(rope_rotate_qk(plan, q, k, angles); plan = plan, q = &view, k = &out, angles = &joined);
        each!(rope_rotate_into_each(plan, x, outputs, 1); plan = plan, x = &view, outputs = &output);
    }
    each!(rope_sum_of_squares(plan, x, sums, 1); plan = &chain, x = &view, sums = &mut sums[0]);
    each!(rope_rotate(&bare, &in_slots(&keys, slots), &joined); slots = &slots);
    let (mut call, size) = (zero::<rope_call>(), ROPE_CALL_BYTES);
    assert_eq!(size_of_val(&call), size);
    // Angles that are null are none.
    each!(rope_prepare(plan, x, &joined, call); plan = &bare, x = &view, call = &mut call);
    each!(rope_prepare_into(plan, x, y, &joined, call); plan = &bare, x = &view, y = &out, call = &mut call);
    each!(
        rope_prepare_qk(plan, q, k, angles, call);
        plan = &bare, q = &view, k = &out, angles = &joined, call = &mut call
    );
    let mut odd = with!(view; data = view.data.wrapping_byte_add(2));
    refused!(
        refusals,
        // An operand without a cache is a tensor, which has no data.
        rope_rotate(&bare, &in_slots(null(), &slots), &joined),
        rope_rotate(
            &bare,
            &in_slots((&raw const keys).wrapping_byte_add(1), &slots),
            &joined
        ),
        rope_rotate(&bare, &odd, &joined),
        // A refused call prepares nothing.
        rope_call_run(&call),
        rope_call_run_at(&call, &zero()),
    );
    // Without elements it may have any address.
    (odd.len, odd.layout.shape[0]) = (0, 0);
    ok!(
        rope_rotate(&bare, &odd, &joined),
        rope_prepare(&bare, &view, &joined, &mut call),
    );
    let memory_of = with!(zero::<rope_call_memory>(); x = view.data);
    each!(rope_call_run(call); call = &call);
    each!(rope_call_run_at(call, memory); call = &call, memory = &memory_of);
    assert_eq!((&x, &y, sums), (&values(64), &values(64), [7.0]));
    assert!(memory == [0; 64] && other == memory);
    compare!(refusals, "pointers");
}

#[test]
fn of_frequencies_and_rows() {
    let made = Owned::new(64);
    let (axes, position) = (rope_axes_text(64), rope_positions_range(0, 1));
    let at = rope_angles_at(made.0, &position);
    let (mut storage, mut list, mut memory) = ([7.0_f32; 64], [7.0_f64; 32], [0_u64; 512]);
    let (out, place) = (storage.as_mut_ptr(), memory.as_mut_ptr().cast::<c_void>());
    let (numbers, room) = (list.as_mut_ptr(), 4096);
    let (mut len, mut tokens, mut info) = (7, [7_usize], zero());
    let (mut rows, mut grid) = (zero::<rope_angles>(), zero::<rope_positions>());
    let (mut layout, mut scaling) = (zero::<rope_layout>(), zero::<rope_scaling>());
    let (mut norm, mut hadamard) = (zero::<rope_norm>(), zero::<rope_hadamard>());
    let (mut made_at, mut table) = (null_mut(), null_mut());
    let (handle, one) = (made.0, joined(&[1.0; 64], 64));
    let learned = with!(
        zero::<rope_mixed_inverse>();
        values = list.as_ptr().cast(), count = 32, number = rope_number::F64 as i32, axes = 2, heads = 1, pairs = 16
    );
    let [f32, f64] = [rope_number::F32, rope_number::F64].map(|number| number as i32);
    let keys = rope_hadamard_preset::LlamaCppKeys as i32;
    let xy = rope_grid_indexing::Xy as i32;
    let shard = rope_positions_shard(rope_positions_kind::StripedShard as i32, 1, 0, 1);

    each!(rope_rows_len(angles, len); angles = &at, len = &mut len);
    each!(rope_table_new(angles, table); angles = &at, table = &mut table);
    each!(rope_table_rows(table, rows); table = handle.cast(), rows = &mut rows);
    each!(rope_rows_fill(angles, storage, 64, rows); angles = &at, storage = out, rows = &mut rows);
    each!(
        rope_rows_fill(&rope_angles_at(frequencies, positions), out, 64, &mut rows);
        frequencies = handle, positions = &position
    );
    // Without old frequencies the positions are deltas.
    each!(
        rope_rows_fill(&moved_from(frequencies, handle, old_positions, positions), out, 64, &mut rows);
        frequencies = handle, old_positions = &position, positions = &position
    );
    each!(
        rope_rows_fill(&moved_by(frequencies, positions), out, 64, &mut rows);
        frequencies = handle, positions = &position
    );
    each!(rope_rows_invert(rows, storage, 64, inverted); rows = &one, storage = out, inverted = &mut rows);
    each!(rope_sinusoidal(rows, values, 64); rows = &one, values = out);
    each!(rope_shard_tokens(positions, tokens, 1, count); positions = &shard, tokens = &mut tokens[0], count = &mut len);
    each!(rope_frequencies_describe(frequencies, info); frequencies = handle, info = &mut info);
    each!(rope_frequencies_set_angle(frequencies, 0); frequencies = handle);
    each!(rope_frequencies_set_backend(frequencies, 0); frequencies = handle);
    each!(rope_frequencies_inverse(frequencies, inverse, 32); frequencies = handle, inverse = numbers);
    each!(rope_scaling_init(scaling, 0); scaling = &mut scaling);
    each!(rope_layout_init(layout, 1, 1, 1, 1, 1); layout = &mut layout);
    each!(rope_norm_init(norm, 1, 1e-6); norm = &mut norm);
    each!(rope_hadamard_init(hadamard, keys, 128); hadamard = &mut hadamard);
    // Memory of frequencies has any alignment, and scalings may be missing.
    each!(rope_frequencies_init(place, room, axes, 1e4, null(), frequencies); axes = &axes, frequencies = &mut made_at);
    each!(rope_frequencies_new(axes, 1e4, null(), frequencies); axes = &axes, frequencies = &mut made_at);
    each!(
        rope_frequencies_new_inverse(axes, inverse.cast(), 32, f64, 1.0, frequencies);
        axes = &axes, inverse = numbers, frequencies = &mut made_at
    );
    each!(rope_mixed_frequencies_new(inverse, 1.0, 0, frequencies); inverse = &learned, frequencies = &mut made_at);
    each!(
        rope_mixed_frequencies_init(place, room, inverse, 1.0, 0, frequencies);
        inverse = &learned, frequencies = &mut made_at
    );
    // Directions that are null are none.
    each!(rope_initial_mixed(10.0, numbers.cast(), 2, f64, 4, inverse, 16); inverse = out);
    each!(
        rope_grid_positions(xy, 2, 3, storage.cast(), 12, f32, positions);
        storage = out, positions = &mut grid
    );
    let mut refusals = Refusals::default();
    let odd = moved_from(handle, handle.wrapping_byte_add(1), &position, &position);
    refused!(
        refusals,
        rope_rows_fill(&odd, out, 64, &mut rows),
        rope_frequencies_init(null_mut(), room, &axes, 1e4, null(), &mut made_at),
        rope_initial_mixed(
            10.0,
            numbers.wrapping_byte_add(1).cast(),
            2,
            f64,
            4,
            out,
            16
        ),
    );
    assert!(made_at.is_null() && table.is_null() && memory == [0; 512]);
    assert!(storage == [7.0; 64] && list == [7.0; 32] && (len, tokens) == (7, [7]));
    assert!(rows.cos.is_null() && grid.values.is_null() && info.axes == 0);
    compare!(refusals, "pointers_of_rows");
}

#[test]
fn of_gradients() {
    const ROW: usize = 32;
    let (x, mut y) = (values::<f32>(64), values::<f32>(64));
    let (x, y_of, plan) = (view(&x, ONE), tensor(&mut y, ONE), plan(rope_pairing::Half));
    let [mut first, mut second, mut made, mut other] = [[7.0_f64; ROW]; 4];
    let [one, two] = [&mut first, &mut second].map(|sums| {
        let sums = sums.as_mut_ptr();
        with!(zero::<rope_pair_gradients>(); sums = sums, rows = 1, heads = 1, pairs = ROW)
    });
    let (table, position, list) = (values::<f32>(64), rope_positions_range(0, 1), [1.0; ROW]);
    let (rows, list) = (joined(&table, 64), list.as_ptr());
    let (out, more) = (made.as_mut_ptr(), other.as_mut_ptr());
    let [of_angles, of_cos_sin] =
        [rope_gradient_kind::Angles, rope_gradient_kind::CosSin].map(|kind| kind as i32);
    each!(
        rope_backward(plan, y, dy, rows, angles);
        plan = &plan, y = &x, dy = &y_of, rows = &rows, angles = &one
    );
    each!(
        rope_backward_into(plan, y, dy, dx, rows, angles);
        plan = &plan, y = &x, dy = &x, dx = &y_of, rows = &rows, angles = &one
    );
    // The sums of sin are not used.
    each!(rope_gradients(of_angles, plan, a, b, sums, null()); plan = &plan, a = &x, b = &x, sums = &one);
    each!(
        rope_gradients(of_cos_sin, plan, a, b, sums, sin);
        plan = &plan, a = &x, b = &x, sums = &one, sin = &two
    );
    each!(
        rope_pair_gradients_frequencies(angles, positions, 1, out, ROW);
        angles = &one, positions = &position, out = out
    );
    each!(
        rope_pair_gradients_positions(angles, inverse, ROW, 1, out, 1);
        angles = &one, inverse = list, out = out
    );
    each!(rope_pair_gradients_total(gradients, total); gradients = &one, total = out);
    each!(
        rope_pair_gradients_cos_sin(angles, factors, rows, cos, sin, ROW);
        angles = &one, factors = &two, rows = &rows, cos = out, sin = more
    );
    each!(rope_gradients_to_ratio(frequencies, gradients, ROW); frequencies = list, gradients = out);
    each!(
        rope_gradients_to_base(2.0, frequencies, gradients, ROW, gradient);
        frequencies = list, gradients = list, gradient = out
    );
    for unchanged in [first, second, made, other] {
        assert_eq!(unchanged, [7.0; ROW]);
    }
    assert_eq!(y, values::<f32>(64));
}
