//! The backward pass and its reductions.

use rope_core::gradient::{PairGradients, convert_to_base, convert_to_logarithm, convert_to_ratio};

use super::*;

const TOKENS: usize = SHAPE[1];
const HEADS: usize = SHAPE[2];
const PAIRS: usize = 24;

fn view<E: Number>(x: &[E]) -> rope_operand {
    rope_operand {
        data: x.as_ptr().cast_mut().cast(),
        len: x.len(),
        element: E::ELEMENT as i32,
        layout: layout(SHAPE),
        ..zero()
    }
}

/// Sums that are not zero at first, so that a call that overwrites them is found.
fn begun(shape: [usize; 3]) -> Vec<f64> {
    (0..shape.iter().product())
        .map(|i| f64::from(i as u32 % 13) - 6.0)
        .collect()
}

fn sums(values: &mut [f64], [rows, heads, pairs]: [usize; 3]) -> rope_pair_gradients {
    rope_pair_gradients {
        sums: values.as_mut_ptr(),
        rows,
        heads,
        pairs,
    }
}

/// The gradients by cos and sin, and by angles of the input, of a plan that changes the pairing. The bodies have the
/// backward passes and the other gradients over C.
#[test]
fn the_gradients_match_rope_core() {
    let (y, shape) = (values::<bf16>(LEN), [2 * TOKENS, HEADS, PAIRS]);
    let dy: Vec<bf16> = y.iter().rev().copied().collect();
    let (tensor_y, tensor_dy) = (
        Tensor::new(&y, SHAPE).expect("valid"),
        Tensor::new(&dy, SHAPE).expect("valid"),
    );
    let (rope, c_plan) = (Rope::new(Pairing::Half), plan(rope_pairing::Half));
    let into = rope_plan {
        output_pairing: rope_pairing::Interleaved as i32,
        ..c_plan
    };
    let [mut of_input, mut cos, mut sin] = [(); 3].map(|()| begun(shape));
    let [mut c_of_input, mut c_cos, mut c_sin] = [(); 3].map(|()| begun(shape));
    rope.angle_gradients(
        &tensor_y,
        &tensor_dy,
        &mut PairGradients::new(&mut of_input, shape).expect("valid"),
    )
    .expect("valid");
    rope.cos_sin_gradients(
        &tensor_y,
        &tensor_dy,
        &mut PairGradients::new(&mut cos, shape).expect("valid"),
        &mut PairGradients::new(&mut sin, shape).expect("valid"),
    )
    .expect("valid");
    let c_sums = sums(&mut c_of_input, shape);
    let (first, second) = (sums(&mut c_cos, shape), sums(&mut c_sin, shape));
    let (y, dy) = (view(&y), view(&dy));
    use rope_gradient_kind::{AnglesOfInput, CosSin};
    // SAFETY: what is passed is there.
    let statuses = unsafe {
        [
            rope_gradients(AnglesOfInput as i32, &into, &y, &dy, &c_sums, null()),
            rope_gradients(CosSin as i32, &c_plan, &y, &dy, &first, &second),
        ]
    };
    assert_eq!(statuses, [rope_status::Ok; 2]);
    assert_eq!((c_of_input, c_cos, c_sin), (of_input, cos, sin));
}

/// The gradients of full-width rows are those of rope-core, and refused as there.
#[test]
fn the_gradients_of_channels() {
    let shape = [TOKENS, HEADS, 2 * PAIRS];
    let (x, dy) = (values::<bf16>(LEN), values::<bf16>(LEN).into_iter().rev());
    let dy: Vec<bf16> = dy.collect();
    let (mut cos, mut sin) = (begun(shape), begun(shape));
    let rope = Rope::new(Pairing::Interleaved);
    rope.channel_gradients(
        &Tensor::new(&x, SHAPE).expect("valid"),
        &Tensor::new(&dy, SHAPE).expect("valid"),
        &mut PairGradients::new(&mut cos, shape).expect("valid"),
        &mut PairGradients::new(&mut sin, shape).expect("valid"),
    )
    .expect("valid");
    let (mut c_cos, mut c_sin) = (begun(shape), begun(shape));
    let (first, second) = (sums(&mut c_cos, shape), sums(&mut c_sin, shape));
    let c_plan = plan(rope_pairing::Interleaved);
    let odd = rope_pair_gradients { pairs: 1, ..first };
    let fewer = rope_pair_gradients { heads: 1, ..second };
    let (x, dy) = (view(&x), view(&dy));
    let sums = [
        (&first, &second),
        (&odd, &second),
        (&first, &fewer),
        (&first, &first),
    ];
    let kind = rope_gradient_kind::Channels as i32;
    let got = sums.map(|(cos, sin)| {
        // SAFETY: what is passed is there.
        unsafe { rope_gradients(kind, &c_plan, &x, &dy, cos, sin) }
    });
    let expected = [
        rope_status::Ok,
        rope_status::GradientShape,
        rope_status::GradientShape,
        rope_status::MemoryOverlap,
    ];
    assert_eq!(got, expected);
    assert_eq!((c_cos, c_sin), (cos, sin));
}

#[test]
fn the_reductions_match_rope_core() {
    let (shape, axes) = ([4, HEADS, 8], 2);
    let row = HEADS * 8;
    let (mut angles, mut factors) = (begun(shape), begun(shape));
    factors.reverse();
    let positions: Vec<f64> = (0..4 * axes).map(|i| i as f64 / 3.0 - 1.0).collect();
    let inverse: Vec<f64> = (0..axes * row).map(|i| 1.0 / (i + 3) as f64).collect();
    let table: Vec<f32> = (0..4 * 16).map(|i| i as f32 / 16.0 - 1.7).collect();
    let rows = Rows::new(&table, [4, 16]).expect("valid");

    let mut expected = [0.25; 2 * HEADS * 8];
    let mut of_positions = [0.5; 8];
    let (mut cos, mut sin) = (begun(shape), begun(shape));
    let gradients = PairGradients::new(&mut angles, shape).expect("valid");
    let listed = Positions::real_axis_major(&*positions);
    gradients
        .frequencies(listed, axes, &mut expected)
        .expect("valid");
    gradients
        .positions(&inverse, axes, &mut of_positions)
        .expect("valid");
    let total = gradients.total();
    let factor_gradients = PairGradients::new(&mut factors, shape).expect("valid");
    gradients
        .cos_sin(&factor_gradients, &rows, &mut cos, &mut sin)
        .expect("valid");

    let listed = rope_positions {
        kind: rope_positions_kind::AxisMajor as i32,
        ..rope_positions_per_token(
            positions.as_ptr().cast(),
            positions.len(),
            rope_number::F64 as i32,
        )
    };
    let c_rows = rope_rows_joined(table.as_ptr(), table.len(), 16);
    let (c_angles, c_factors) = (sums(&mut angles, shape), sums(&mut factors, shape));
    let mut got = [0.25; 2 * HEADS * 8];
    let (mut c_positions, mut c_total) = ([0.5; 8], 0.0);
    let (mut c_cos, mut c_sin) = (begun(shape), begun(shape));
    // SAFETY: what is passed is there.
    unsafe {
        let (out, len) = (got.as_mut_ptr(), got.len());
        let status = rope_pair_gradients_frequencies(&c_angles, &listed, axes, out, len);
        assert_eq!(status, rope_status::Ok);
        let (list, count) = (inverse.as_ptr(), inverse.len());
        let out = c_positions.as_mut_ptr();
        let status = rope_pair_gradients_positions(&c_angles, list, count, axes, out, 8);
        assert_eq!(status, rope_status::Ok);
        let status = rope_pair_gradients_total(&c_angles, &mut c_total);
        assert_eq!(status, rope_status::Ok);
        let (cos, sin, len) = (c_cos.as_mut_ptr(), c_sin.as_mut_ptr(), 4 * row);
        let status = rope_pair_gradients_cos_sin(&c_angles, &c_factors, &c_rows, cos, sin, len);
        assert_eq!(status, rope_status::Ok);
    }
    assert_eq!((got, c_positions, c_total), (expected, of_positions, total));
    assert_eq!((c_cos, c_sin), (cos, sin));

    let (mut logarithms, mut ratios) = (expected, expected);
    convert_to_logarithm(&inverse, &mut logarithms);
    convert_to_ratio(&inverse, &mut ratios);
    let base = convert_to_base(7.0, &inverse, &expected);
    let (mut c_logarithms, mut c_ratios, mut c_base) = (got, got, 0.0);
    let (list, count) = (inverse.as_ptr(), inverse.len());
    // SAFETY: what is passed is there.
    unsafe {
        let status = rope_gradients_to_ratio(list, c_logarithms.as_mut_ptr(), count);
        assert_eq!(status, rope_status::Ok);
        let status = rope_gradients_to_ratio(list, c_ratios.as_mut_ptr(), count);
        assert_eq!(status, rope_status::Ok);
        let status = rope_gradients_to_base(7.0, list, got.as_ptr(), count, &mut c_base);
        assert_eq!(status, rope_status::Ok);
    }
    assert_eq!((c_logarithms, c_ratios, c_base), (logarithms, ratios, base));
}

/// Each refusal of a backward pass has its status, and nothing is written.
#[test]
fn backward_refusals() {
    use rope_status as S;
    let shape = [TOKENS, HEADS, PAIRS];
    let table = vec![0.5_f32; TOKENS * 2 * PAIRS];
    let (mut y, mut dy, mut angles) = (values::<f32>(LEN), values::<f32>(LEN), begun(shape));
    let before = (y.clone(), dy.clone(), angles.clone());
    struct Arguments {
        plan: rope_plan,
        y: rope_operand,
        dy: rope_operand,
        dx: rope_operand,
        rows: rope_angles,
        angles: rope_pair_gradients,
    }
    type Spoil<'a> = &'a dyn Fn(&mut Arguments);
    let mut other = values::<f32>(LEN);
    let (right_y, right_dy) = (tensor(&mut y, SHAPE), tensor(&mut dy, SHAPE));
    let (right_dx, right_angles) = (tensor(&mut other, SHAPE), sums(&mut angles, shape));
    let spoil = |how: Spoil<'_>| {
        let mut arguments = Arguments {
            plan: plan(rope_pairing::Half),
            y: right_y,
            dy: right_dy,
            dx: right_dx,
            rows: rope_rows_joined(table.as_ptr(), table.len(), 2 * PAIRS),
            angles: right_angles,
        };
        how(&mut arguments);
        let Arguments {
            plan,
            y,
            dy,
            dx,
            rows,
            angles,
        } = &arguments;
        // SAFETY: what is passed is there, or more is said than any memory holds.
        let status = unsafe { rope_backward(plan, y, dy, rows, angles) };
        // Where it is read only, `dy` may lie where `y` does.
        if dy.data != y.data {
            // SAFETY: the same.
            let into = unsafe { rope_backward_into(plan, y, dy, dx, rows, angles) };
            assert_eq!(into, status);
        }
        status
    };
    let norm: rope_norm = zero();
    let cases: [(Spoil<'_>, S); 17] = [
        (&|a| a.plan.norm = &norm, S::NotLinear),
        (
            &|a| a.plan.direction = rope_direction::Transpose as i32,
            S::BackwardDirection,
        ),
        (&|a| a.plan.backend = 99, S::UnknownValue),
        (&|a| a.y.layout = layout([2, 5, 3, 32]), S::ShapeMismatch),
        (
            &|a| a.y.element = rope_element::Bf16 as i32,
            S::UnknownValue,
        ),
        (&|a| a.dy.data = null_mut(), S::Null),
        (&|a| a.dy.data = a.y.data, S::MemoryOverlap),
        (&|a| a.rows.len -= 1, S::RowsLength),
        (&|a| a.rows.cos = a.angles.sums.cast(), S::MemoryOverlap),
        (&|a| a.angles.sums = null_mut(), S::Null),
        (
            &|a| a.angles.sums = a.angles.sums.wrapping_byte_add(4),
            S::Misaligned,
        ),
        (&|a| a.angles.rows = usize::MAX, S::Length),
        (
            &|a| (a.angles.rows, a.angles.pairs) = (0, usize::MAX),
            S::Length,
        ),
        (&|a| a.angles.rows -= 1, S::RowCount),
        (&|a| a.angles.heads = 2, S::GradientHeads),
        (&|a| a.angles.pairs -= 1, S::GradientShape),
        (&|a| a.angles.sums = a.y.data.cast(), S::MemoryOverlap),
    ];
    for (case, (how, expected)) in cases.into_iter().enumerate() {
        assert_eq!(spoil(how), expected, "case {case}: {}", detail());
    }
    assert!((y, dy, angles) == before && other == values::<f32>(LEN));
}

/// The same of what only reads tensors, and of the reductions.
#[test]
fn refusals() {
    use rope_status as S;
    let shape = [TOKENS, HEADS, PAIRS];
    let (len, row) = (TOKENS * HEADS * PAIRS, HEADS * PAIRS);
    let (y, mut first, mut second) = (values::<f32>(LEN), begun(shape), begun(shape));
    let (y, c_plan) = (view(&y), plan(rope_pairing::Half));
    let (cos, sin) = (sums(&mut first, shape), sums(&mut second, shape));
    let fewer = rope_pair_gradients { rows: 4, ..sin };
    let changes = rope_plan {
        output_pairing: rope_pairing::Interleaved as i32,
        ..c_plan
    };
    let zeros = vec![0.0_f32; TOKENS * 2 * PAIRS];
    let rows = rope_rows_joined(zeros.as_ptr(), zeros.len(), 2 * PAIRS);
    let positions = rope_positions_range(0, TOKENS);
    let too_many = rope_positions_range(0, TOKENS + 1);
    let (mut a, mut b) = (begun(shape), begun(shape));
    let (a_out, b_out) = (a.as_mut_ptr(), b.as_mut_ptr());
    // SAFETY: what is passed is there, or more is said than any memory holds.
    let got = unsafe {
        [
            rope_gradients(
                rope_gradient_kind::CosSin as i32,
                &changes,
                &y,
                &y,
                &cos,
                &sin,
            ),
            rope_gradients(
                rope_gradient_kind::CosSin as i32,
                &c_plan,
                &y,
                &y,
                &cos,
                &cos,
            ),
            rope_gradients(
                rope_gradient_kind::CosSin as i32,
                &c_plan,
                &y,
                &y,
                &cos,
                &fewer,
            ),
            rope_gradients(
                rope_gradient_kind::Angles as i32,
                &c_plan,
                &y,
                &y,
                &fewer,
                null(),
            ),
            rope_pair_gradients_frequencies(&cos, &too_many, 1, a_out, row),
            rope_pair_gradients_frequencies(&cos, &positions, 1, a_out, row - 1),
            rope_pair_gradients_frequencies(&cos, &positions, 1, cos.sums, row),
            rope_pair_gradients_positions(&cos, a_out, row - 1, 1, b_out, TOKENS),
            rope_pair_gradients_positions(&cos, a_out, row, 1, b_out, TOKENS - 1),
            rope_pair_gradients_positions(&cos, a_out, row, 1, a_out, TOKENS),
            rope_pair_gradients_total(&cos, cos.sums),
            rope_pair_gradients_cos_sin(&cos, &sin, &rows, a_out, b_out, len),
            rope_pair_gradients_cos_sin(&cos, &fewer, &rows, a_out, b_out, len),
            rope_pair_gradients_cos_sin(&cos, &sin, &rows, a_out, b_out, len - 1),
            rope_pair_gradients_cos_sin(&cos, &cos, &rows, a_out, b_out, len),
            rope_pair_gradients_cos_sin(&cos, &sin, &rows, a_out, a_out, len),
            rope_gradients_to_ratio(a_out, a_out, 1),
            rope_gradients_to_ratio(a_out, b_out, usize::MAX),
            rope_gradients_to_base(2.0, a_out, b_out, len, a_out),
        ]
    };
    let expected = [
        S::GradientPairing,
        S::MemoryOverlap,
        S::RowCount,
        S::RowCount,
        S::Count,
        S::Storage,
        S::MemoryOverlap,
        S::Count,
        S::Storage,
        S::MemoryOverlap,
        S::MemoryOverlap,
        S::RowOfZeros,
        S::GradientShape,
        S::Storage,
        S::MemoryOverlap,
        S::MemoryOverlap,
        S::MemoryOverlap,
        S::Length,
        S::MemoryOverlap,
    ];
    assert_eq!(got, expected);
    for unchanged in [first, second, a, b] {
        assert_eq!(unchanged, begun(shape));
    }
}

/// Each pointer null and misaligned.
#[test]
fn pointers() {
    let shape = [TOKENS, HEADS, PAIRS];
    let (y, mut dx) = (values::<f32>(LEN), values::<f32>(LEN));
    let (mut first, mut second) = (begun(shape), begun(shape));
    let (y, dx) = (view(&y), tensor(&mut dx, SHAPE));
    let c_plan = plan(rope_pairing::Half);
    let (a, b) = (sums(&mut first, shape), sums(&mut second, shape));
    let table = vec![0.5_f32; TOKENS * 2 * PAIRS];
    let rows = rope_rows_joined(table.as_ptr(), table.len(), 2 * PAIRS);
    let positions = rope_positions_range(0, TOKENS);
    let (row, len) = (HEADS * PAIRS, TOKENS * HEADS * PAIRS);
    let (list, mut out, mut other) = (vec![1.0; row], vec![0.0; len], vec![0.0; len]);
    let (c_plan, y, dx) = (&raw const c_plan, &raw const y, &raw const dx);
    let (a, b, rows) = (&raw const a, &raw const b, &raw const rows);
    let (positions, list) = (&raw const positions, list.as_ptr());
    let (out, other) = (out.as_mut_ptr(), other.as_mut_ptr());
    each!(rope_backward(c_plan, y, dx, rows, a;));
    each!(rope_backward_into(c_plan, y, y, dx, rows, a;));
    unsafe fn one(
        plan: *const rope_plan,
        y: *const rope_operand,
        dy: *const rope_operand,
        sums: *const rope_pair_gradients,
    ) -> rope_status {
        // SAFETY: the caller promises it. The sums of sin are not used.
        unsafe { rope_gradients(rope_gradient_kind::Angles as i32, plan, y, dy, sums, null()) }
    }
    unsafe fn two(
        plan: *const rope_plan,
        x: *const rope_operand,
        dy: *const rope_operand,
        cos: *const rope_pair_gradients,
        sin: *const rope_pair_gradients,
    ) -> rope_status {
        // SAFETY: the caller promises it.
        unsafe { rope_gradients(rope_gradient_kind::CosSin as i32, plan, x, dy, cos, sin) }
    }
    each!(one(c_plan, y, y, a;));
    each!(two(c_plan, y, y, a, b;));
    each!(rope_pair_gradients_total(a, out;));
    each!(rope_pair_gradients_cos_sin(a, b, rows, out, other; len));
    each!(rope_gradients_to_ratio(list, out; row));

    // Those with numbers between the pointers.
    const ROW: usize = HEADS * PAIRS;
    unsafe fn frequencies(
        angles: *const rope_pair_gradients,
        positions: *const rope_positions,
        out: *mut f64,
    ) -> rope_status {
        // SAFETY: the caller promises it.
        unsafe { rope_pair_gradients_frequencies(angles, positions, 1, out, ROW) }
    }
    unsafe fn of_positions(
        angles: *const rope_pair_gradients,
        inverse: *const f64,
        out: *mut f64,
    ) -> rope_status {
        // SAFETY: the caller promises it.
        unsafe { rope_pair_gradients_positions(angles, inverse, ROW, 1, out, TOKENS) }
    }
    unsafe fn base(frequencies: *const f64, gradients: *const f64, out: *mut f64) -> rope_status {
        // SAFETY: the caller promises it.
        unsafe { rope_gradients_to_base(2.0, frequencies, gradients, ROW, out) }
    }
    each!(frequencies(a, positions, out;));
    each!(of_positions(a, list, out;));
    each!(base(list, list, out;));
}
