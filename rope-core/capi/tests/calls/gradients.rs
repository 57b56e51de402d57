//! Reductions, and refusals of the backward pass. The bodies have backward passes and gradients of every kind over C.

use rope_core::gradient::{PairGradients, convert_to_base, convert_to_ratio};

use super::*;

const TOKENS: usize = SHAPE[1];
const HEADS: usize = SHAPE[2];
const PAIRS: usize = 24;
const SUMS: [usize; 3] = [TOKENS, HEADS, PAIRS];

/// Returns sums that are not zero, so that a call that overwrites them is found.
fn begun(shape: [usize; 3]) -> Vec<f64> {
    let count: usize = shape.iter().product();
    (0..count).map(|i| f64::from(i as u32 % 13) - 6.0).collect()
}

fn sums(values: &mut [f64], [rows, heads, pairs]: [usize; 3]) -> rope_pair_gradients {
    rope_pair_gradients {
        sums: values.as_mut_ptr(),
        rows,
        heads,
        pairs,
    }
}

#[test]
fn the_reductions_match_rope_core() {
    const SHAPE: [usize; 3] = [4, HEADS, 8];
    const AXES: usize = 2;
    const ROW: usize = HEADS * 8;
    let [mut angles, mut factors] = [(); 2].map(|()| begun(SHAPE));
    let [mut cos, mut sin, mut c_cos, mut c_sin] = [(); 4].map(|()| begun(SHAPE));
    factors.reverse();
    let coordinates: Vec<f64> = (0..4 * AXES).map(|i| i as f64 / 3.0 - 1.0).collect();
    let inverse: Vec<f64> = (0..AXES * ROW).map(|i| 1.0 / (i + 3) as f64).collect();
    let table: Vec<f32> = (0..4 * 16).map(|i| i as f32 / 16.0 - 1.7).collect();
    let rows = Rows::new(&table, [4, 16]).expect("valid");

    let (mut expected, mut of_positions) = ([0.25; AXES * ROW], [0.5; 4 * AXES]);
    let gradients = PairGradients::new(&mut angles, SHAPE).expect("valid");
    let listed = Positions::axis_major(&*coordinates);
    let of_factors = PairGradients::new(&mut factors, SHAPE).expect("valid");
    let done = [
        gradients.frequencies(listed, AXES, &mut expected),
        gradients.positions(&inverse, AXES, &mut of_positions),
        gradients.cos_sin(&of_factors, &rows, &mut cos, &mut sin),
    ];
    assert_eq!(done, [Ok(()); 3]);
    let total = gradients.total();

    let axis_major = rope_positions_kind::AxisMajor;
    let listed = positions(axis_major, &coordinates, rope_number::F64);
    let (c_angles, c_factors) = (sums(&mut angles, SHAPE), sums(&mut factors, SHAPE));
    let (mut got, mut c_positions, mut c_total) = ([0.25; AXES * ROW], [0.5; 4 * AXES], 0.0);
    let (out, list, rows) = (got.as_mut_ptr(), inverse.as_ptr(), joined(&table, 16));
    let (cos_out, sin_out) = (c_cos.as_mut_ptr(), c_sin.as_mut_ptr());
    let positions_out = c_positions.as_mut_ptr();
    ok!(
        rope_pair_gradients_frequencies(&c_angles, &listed, AXES, out, AXES * ROW),
        rope_pair_gradients_positions(&c_angles, list, AXES * ROW, AXES, positions_out, 8),
        rope_pair_gradients_total(&c_angles, &mut c_total),
        rope_pair_gradients_cos_sin(&c_angles, &c_factors, &rows, cos_out, sin_out, 4 * ROW),
    );
    assert_eq!((got, c_positions, c_total), (expected, of_positions, total));
    assert_eq!((c_cos, c_sin), (cos, sin));

    let [mut ratios, mut c_ratios] = [expected; 2];
    convert_to_ratio(&inverse, &mut ratios);
    let (base, mut c_base) = (convert_to_base(7.0, &inverse, &expected), 0.0);
    ok!(
        rope_gradients_to_ratio(list, c_ratios.as_mut_ptr(), AXES * ROW),
        rope_gradients_to_base(7.0, list, got.as_ptr(), AXES * ROW, &mut c_base),
    );
    assert_eq!((c_ratios, c_base), (ratios, base));
}

/// All that a backward pass names, to be spoilt.
#[derive(Clone, Copy)]
struct Named {
    plan: rope_plan,
    y: rope_operand,
    dy: rope_operand,
    dx: rope_operand,
    rows: rope_angles,
    angles: rope_pair_gradients,
}

impl Named {
    /// Runs a pass in place and one into another tensor, which refuses the same: of overlaps it names another memory.
    fn call(&self) -> rope_status {
        let Named {
            plan,
            y,
            dy,
            dx,
            rows,
            angles,
        } = self;
        // Where it is read only, `dy` may lie where `y` does.
        let into = (dy.data != y.data).then(|| {
            (
                call!(rope_backward_into(plan, y, dy, dx, rows, angles)),
                detail(),
            )
        });
        let status = call!(rope_backward(plan, y, dy, rows, angles));
        if let Some((into, text)) = into {
            assert_eq!(into, status, "{text}");
            assert!(
                status == rope_status::MemoryOverlap || text == detail(),
                "{text}"
            );
        }
        status
    }
}

/// A backward pass is refused, in place and into another tensor alike, and nothing is written.
#[test]
fn backward_refusals() {
    let table = vec![0.5_f32; TOKENS * 2 * PAIRS];
    let [mut y, mut dy, mut dx] = [(); 3].map(|()| values::<f32>(LEN));
    let (mut angles, norm) = (begun(SUMS), norm(rope_norm_formula::Llama4));
    let right = Named {
        plan: plan(rope_pairing::Half),
        y: tensor(&mut y, SHAPE),
        dy: tensor(&mut dy, SHAPE),
        dx: tensor(&mut dx, SHAPE),
        rows: joined(&table, 2 * PAIRS),
        angles: sums(&mut angles, SUMS),
    };
    let mut refusals = Refusals::default();
    spoil!(refusals, right => right.call();
        right.plan.norm = &norm;
        right.plan.direction = rope_direction::Transpose as i32;
        right.plan.backend = 99;
        right.y.layout = layout([2, 5, 3, 32]);
        right.y.element = rope_element::Bf16 as i32;
        right.dy.data = null_mut();
        right.dy.data = right.y.data;
        right.rows.len -= 1;
        right.rows.cos = right.angles.sums.cast();
        right.angles.sums = null_mut();
        right.angles.sums = right.angles.sums.wrapping_byte_add(4);
        right.angles.rows = usize::MAX;
        (right.angles.rows, right.angles.pairs) = (0, usize::MAX);
        right.angles.rows -= 1;
        right.angles.heads = 2;
        right.angles.pairs -= 1;
        right.angles.sums = right.y.data.cast();
        right.angles.sums = right.dy.data.cast();
    );
    for x in [y, dy, dx] {
        assert_eq!(x, values::<f32>(LEN));
    }
    assert_eq!(angles, begun(SUMS));
    compare!(refusals, "backward");
}

/// The same of calls that only read tensors, and of the reductions.
#[test]
fn refusals() {
    use rope_gradient_kind::{Angles, Channels, CosSin};
    let (len, row) = (TOKENS * HEADS * PAIRS, HEADS * PAIRS);
    let [mut first, mut second, mut a, mut b] = [(); 4].map(|()| begun(SUMS));
    let (y, plan) = (values::<f32>(LEN), plan(rope_pairing::Half));
    let y = view(&y, SHAPE);
    let cos = sums(&mut first, SUMS);
    let sin = sums(&mut second, SUMS);
    let (fewer, odd) = (with!(sin; rows = 4), with!(cos; pairs = 1));
    let one_head = with!(sin; heads = 1);
    let changes = with!(plan; output_pairing = rope_pairing::Interleaved as i32);
    let zeros = vec![0.0_f32; TOKENS * 2 * PAIRS];
    let rows = joined(&zeros, 2 * PAIRS);
    let [right, more] = [0, 1].map(|more| rope_positions_range(0, TOKENS + more));
    let (a_out, b_out) = (a.as_mut_ptr(), b.as_mut_ptr());
    let gradients = |kind: rope_gradient_kind, plan: &rope_plan, first, second: Option<_>| {
        let second = second.map_or(null(), |second: &_| &raw const *second);
        call!(rope_gradients(kind as i32, plan, &y, &y, first, second))
    };
    let mut refusals = Refusals::default();
    refused!(
        refusals,
        gradients(CosSin, &changes, &cos, Some(&sin)),
        gradients(CosSin, &plan, &cos, Some(&cos)),
        gradients(CosSin, &plan, &cos, Some(&fewer)),
        gradients(Angles, &plan, &fewer, None),
        gradients(Channels, &plan, &odd, Some(&sin)),
        gradients(Channels, &plan, &cos, Some(&one_head)),
        gradients(Channels, &plan, &cos, Some(&cos)),
        rope_gradients(99, &plan, &y, &y, &cos, null()),
        rope_pair_gradients_frequencies(&cos, &more, 1, a_out, row),
        rope_pair_gradients_frequencies(&cos, &right, 1, a_out, row - 1),
        rope_pair_gradients_frequencies(&cos, &right, 1, cos.sums, row),
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
    );
    for unchanged in [first, second, a, b] {
        assert_eq!(unchanged, begun(SUMS));
    }
    compare!(refusals, "gradients");
}
