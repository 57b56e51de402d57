//! Rows that undo others, and refusals of rows. The bodies have rows of every form over C.

use super::*;

/// Rotates by rows of C.
fn call<E: Number>(
    plan: &rope_plan,
    rows: &rope_angles,
    shape: [usize; 4],
) -> (rope_status, Vec<E>) {
    let mut x = values(shape.iter().product());
    let status = call!(rope_rotate(plan, &tensor(&mut x, shape), rows));
    assert!(
        status == rope_status::Ok || x == values(x.len()),
        "it has written"
    );
    (status, x)
}

/// Rows apart, with ids and a factor, of a plan that divides by them.
#[test]
fn rows_of_the_caller() {
    let (sin, cos): (Vec<f32>, Vec<f32>) = (0..4 * 4)
        .map(|i| f64::from(i).sin_cos())
        .map(|(sin, cos)| ((1.5 * sin) as f32, (1.5 * cos) as f32))
        .unzip();
    let (ids, shape) = ([3_u32, 0, 3], [1, 3, 1, 8]);
    let plan = with!(plan(rope_pairing::Half); direction = rope_direction::Inverse as i32);
    let apart = rope_rows_apart(cos.as_ptr(), sin.as_ptr(), 4, 4, 8);
    let apart = with!(apart; attention_factor = 1.5);
    let right = by_ids(apart, &ids, rope_number::U32);
    assert_eq!(call::<f32>(&plan, &right, shape).0, rope_status::Ok);

    let mut refusals = Refusals::default();
    // PyTorch's cos without its sin, as rows of both.
    let twice: Vec<f32> = cos.chunks(4).flat_map(|row| row.repeat(2)).collect();
    spoil!(refusals, right => call::<f32>(&plan, &right, shape).0;
        right.ids_number = rope_number::F32 as i32;
        right.len = 12;
        right.len = 14;
        right.width = 5;
        // Two rows that keep their values twice, which these do not.
        right.width = 8;
        right.attention_factor = 0.0;
        // The rows have another magnitude.
        right.attention_factor = 1.0;
        right.ids_count = usize::MAX;
    );
    for joined in [joined(&twice, 8), joined(&twice[..31], 8)] {
        refusals.add(call::<f32>(&plan, &joined, shape).0, "joined rows");
    }
    let mut x = values::<f32>(3 * 8);
    let view = tensor(&mut x, shape);
    let inside = with!(right; ids = view.data.cast_const());
    refused!(refusals, rope_rotate(&plan, &view, &inside));
    assert_eq!(x, values::<f32>(3 * 8));
    compare!(refusals, "rows");
}

/// Full-width rows, for which what needs a rotation is refused.
#[test]
fn full_width_rows() {
    let (tokens, head_dim, rotary_dim) = (SHAPE[0] * SHAPE[1], SHAPE[3], 48);
    let cos = values::<f32>(tokens * rotary_dim);
    let sin: Vec<f32> = cos.iter().rev().map(|x| x * 0.75).collect();
    let (cos, sin) = (cos.as_ptr(), sin.as_ptr());
    let apart = full_rows(cos, sin, tokens, rotary_dim);
    let mut plan = plan(rope_pairing::Half);
    assert_eq!(call::<f32>(&plan, &apart, SHAPE).0, rope_status::Ok);
    plan.direction = rope_direction::Inverse as i32;
    let (mut storage, mut refusals) = (vec![0.0; 2 * tokens * rotary_dim], Refusals::default());
    let (out, len) = (storage.as_mut_ptr(), storage.len());
    refused!(refusals, rope_rows_invert(&apart, out, len, &mut zero()));
    for rows in [
        apart,
        full_rows(cos, sin, 1, 3),
        full_rows(cos, sin, 0, usize::MAX),
        full_rows(cos, sin, 1, head_dim + 2),
    ] {
        refusals.add(call::<f32>(&plan, &rows, SHAPE).0, "rows");
    }
    compare!(refusals, "full_width");
}

/// Rows that undo one for each head, pair by pair, and refusals.
#[test]
fn rows_of_each_head() {
    const SHAPE: [usize; 4] = [1, TOKENS, HEADS, 2 * PAIRS];
    const HEADS: usize = 3;
    const TOKENS: usize = 4;
    const PAIRS: usize = 2;
    let (cos, sin): (Vec<f32>, Vec<f32>) = (0..HEADS * TOKENS * PAIRS)
        .map(|i| ((1 + i) as f32, -(i as f32)))
        .unzip();
    let lines = cos.chunks(PAIRS).zip(sin.chunks(PAIRS));
    let both: Vec<f32> = lines.flat_map(|(cos, sin)| [cos, sin].concat()).collect();
    // `[heads, tokens, pairs]`.
    let bhsd = Layout::bhsd([1, HEADS, TOKENS, PAIRS]).expect("a layout");
    let of_core = Rows::strided(&cos, &sin, bhsd).expect("valid");
    let (cos, sin, len) = (cos.as_ptr(), sin.as_ptr(), cos.len());
    let strided = strided_rows(cos, sin, len, bhsd.into());
    let (right, plan) = (joined(&both, 2 * PAIRS), plan(rope_pairing::Half));
    let right = with!(right; heads = HEADS);

    let (mut storage, mut inverted) = (vec![f32::NAN; both.len()], zero::<rope_angles>());
    let (out, room) = (storage.as_mut_ptr(), storage.len());
    ok!(rope_rows_invert(&strided, out, room, &mut inverted));
    assert_eq!(inverted.heads, HEADS);
    let mut expected = vec![0.0; both.len()];
    of_core.inverted(&mut expected).expect("valid");
    assert_eq!(storage, expected);

    let (mut refusals, shape) = (Refusals::default(), SHAPE);
    spoil!(refusals, strided => call::<f32>(&plan, &strided, shape).0;
        strided.len -= 1;
        strided.rotary_dim = 2;
        strided.sin = null();
        strided.layout.strides = [usize::MAX; 3];
        // Two sequences that lie apart are no four tokens.
        {
            strided.layout.shape = [2, 2, HEADS, PAIRS];
            strided.layout.strides = [PAIRS, 2 * PAIRS, TOKENS * PAIRS];
        };
    );
    let [mut q, mut k] = [HEADS, 2].map(|heads| values::<f32>(TOKENS * heads * 2 * PAIRS));
    let (whole, two_heads) = (tensor(&mut q, SHAPE), [1, TOKENS, 2, 2 * PAIRS]);
    let (fewer, mut zeros) = (tensor(&mut k, two_heads), vec![0.0; both.len()]);
    let own = rope_rows_joined(out, room, 2 * PAIRS);
    let no_inverse = joined(&zeros, 2 * PAIRS);
    refused!(
        refusals,
        rope_rotate(&plan, &fewer, &strided),
        rope_rotate(&plan, &whole, &with!(right; heads = 5)),
        rope_rotate_qk(&plan, &whole, &fewer, &strided),
        rope_rotate_qk(&plan, &fewer, &whole, &strided),
        rope_rows_invert(&strided, out, room - 1, &mut inverted),
        rope_rows_invert(&no_inverse, out, room, &mut inverted),
        rope_rows_invert(&own, out, room, &mut inverted),
        rope_sinusoidal(&strided, zeros.as_mut_ptr(), room),
    );
    assert!(storage == expected && q == values::<f32>(q.len()) && k == values::<f32>(k.len()));
    compare!(refusals, "rows_of_each_head");
}
