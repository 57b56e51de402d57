//! Rows of the caller: apart, with strides, ids and a factor, full-width, and one for each head.

use super::*;

/// Rotates by rows of rope-core.
fn rotated<E: Number>(rope: Rope, rows: &impl Angles, shape: [usize; 4]) -> Vec<E> {
    let mut x = values(shape.iter().product());
    let mut view = TensorMut::new(&mut x, shape).expect("valid");
    rope.rotate(&mut view, rows).expect("valid");
    x
}

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

/// Returns ids of rows.
fn by_ids<T>(rows: rope_angles, ids: &[T], number: rope_number) -> rope_angles {
    rope_angles {
        ids: ids.as_ptr().cast(),
        ids_count: ids.len(),
        ids_number: number as i32,
        ..rows
    }
}

/// Rows apart, with ids and a factor, of a plan that divides by them.
#[test]
fn rows_of_the_caller() {
    let (sin, cos): (Vec<f32>, Vec<f32>) = (0..4 * 4)
        .map(|i| f64::from(i).sin_cos())
        .map(|(sin, cos)| ((1.5 * sin) as f32, (1.5 * cos) as f32))
        .unzip();
    let (ids, shape) = ([3_u32, 0, 3], [1, 3, 1, 8]);
    let table = Rows::from_cos_sin(&cos, &sin, [4, 4], 8)
        .and_then(|rows| rows.with_attention_factor(1.5))
        .expect("valid");
    let rope = Rope::new(Pairing::Half).with_direction(Direction::Inverse);
    let expected = rotated::<f32>(rope, &table.gather(&ids).expect("valid"), shape);
    let plan = rope_plan {
        direction: rope_direction::Inverse as i32,
        ..plan(rope_pairing::Half)
    };
    let apart = rope_angles {
        attention_factor: 1.5,
        ..rope_rows_apart(cos.as_ptr(), sin.as_ptr(), 4, 4, 8)
    };
    let right = by_ids(apart, &ids, rope_number::U32);
    assert_eq!(call(&plan, &right, shape), (rope_status::Ok, expected));

    let mut refusals = Refusals::default();
    type Spoil = fn(&mut rope_angles);
    let spoils: [Spoil; 8] = [
        |rows| rows.ids_number = rope_number::F32 as i32,
        |rows| rows.len = 12,
        |rows| rows.len = 14,
        |rows| rows.width = 5,
        // Two rows that keep their values twice, which these do not.
        |rows| rows.width = 8,
        |rows| rows.attention_factor = 0.0,
        // The rows have another magnitude.
        |rows| rows.attention_factor = 1.0,
        |rows| rows.ids_count = usize::MAX,
    ];
    let mut refused = |rows: &rope_angles| {
        refusals.add(call::<f32>(&plan, rows, shape).0, "rows");
    };
    for spoil in spoils {
        let mut rows = right;
        spoil(&mut rows);
        refused(&rows);
    }
    // PyTorch's cos without its sin, as rows of both.
    let twice: Vec<f32> = cos.chunks(4).flat_map(|row| row.repeat(2)).collect();
    refused(&joined(&twice, 8));
    refused(&joined(&twice[..31], 8));
    let mut x = values::<f32>(3 * 8);
    let view = tensor(&mut x, shape);
    let inside = rope_angles {
        ids: view.data,
        ..right
    };
    refused!(refusals, rope_rotate(&plan, &view, &inside));
    assert_eq!(x, values::<f32>(3 * 8));
    compare!(refusals, "rows");
}

/// Full-width rows in slices of their own, joined and strided; what needs a rotation is refused.
#[test]
fn full_width_rows() {
    let (tokens, head_dim, rotary_dim) = (SHAPE[0] * SHAPE[1], SHAPE[3], 48);
    let cos = values::<f32>(tokens * rotary_dim);
    let sin: Vec<f32> = cos.iter().rev().map(|x| x * 0.75).collect();
    let lines = cos.chunks(rotary_dim).zip(sin.chunks(rotary_dim));
    let both: Vec<f32> = lines.flat_map(|(cos, sin)| [cos, sin].concat()).collect();
    let of_core = Rows::strided(&cos, &sin, [1, tokens, 1, rotary_dim]);
    let of_core = of_core.and_then(FullRows::new).expect("valid");
    let (cos, sin) = (cos.as_ptr(), sin.as_ptr());
    let apart = full_rows(cos, sin, tokens, rotary_dim);
    let layout = layout([1, tokens, 1, rotary_dim]);
    let forms = [
        apart,
        joined(&both, rotary_dim),
        strided_rows(cos, sin, tokens * rotary_dim, layout),
    ];
    let mut plan = plan(rope_pairing::Half);
    for (direction, of_plan) in [
        (rope_direction::Forward, Direction::Forward),
        (rope_direction::Transpose, Direction::Transpose),
    ] {
        plan.direction = direction as i32;
        let rope = Rope::new(Pairing::Half).with_direction(of_plan);
        let expected = rotated::<bf16>(rope, &of_core, SHAPE);
        for form in forms {
            let rows = rope_angles {
                full_width: 1,
                rotary_dim,
                ..form
            };
            assert_eq!(
                call(&plan, &rows, SHAPE),
                (rope_status::Ok, expected.clone())
            );
        }
    }
    plan.direction = rope_direction::Inverse as i32;
    let (mut storage, mut inverted) = (vec![0.0; both.len()], zero());
    let (memory, len) = (storage.as_mut_ptr(), storage.len());
    let mut refusals = Refusals::default();
    refused!(
        refusals,
        rope_rows_invert(&apart, memory, len, &mut inverted)
    );
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

/// A row for each head: one after another, with strides, by ids; and the rows that undo them.
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
    let (plan, rope) = (plan(rope_pairing::Half), Rope::new(Pairing::Half));
    // `[heads, tokens, pairs]`.
    let bhsd = Layout::bhsd([1, HEADS, TOKENS, PAIRS]).expect("a layout");
    let of_core = Rows::strided(&cos, &sin, bhsd).expect("valid");
    let (cos, sin, len) = (cos.as_ptr(), sin.as_ptr(), cos.len());
    let strided = strided_rows(cos, sin, len, bhsd.into());
    let mut x = rotated::<f32>(rope, &of_core, SHAPE);
    assert_eq!(call(&plan, &strided, SHAPE), (rope_status::Ok, x.clone()));
    // `[tokens, heads, 2 * pairs]`, apart and joined.
    let rows = Rows::new(&both, [TOKENS * HEADS, 2 * PAIRS]);
    let rows = rows.and_then(|rows| rows.with_heads(HEADS)).expect("valid");
    let right = rope_angles {
        heads: HEADS,
        ..joined(&both, 2 * PAIRS)
    };
    let apart = rope_angles {
        heads: HEADS,
        ..rope_rows_apart(cos, sin, HEADS * TOKENS, PAIRS, 2 * PAIRS)
    };
    let expected = rotated::<f32>(rope, &rows, SHAPE);
    for rows in [right, apart] {
        assert_eq!(
            call(&plan, &rows, SHAPE),
            (rope_status::Ok, expected.clone())
        );
    }
    // Ids are those of tokens.
    let (ids, two) = ([3, 0], [1, 2, HEADS, 2 * PAIRS]);
    let expected = rotated::<f32>(rope, &rows.gather(&ids).expect("valid"), two);
    let got = call(&plan, &by_ids(right, &ids, rope_number::I32), two);
    assert_eq!(got, (rope_status::Ok, expected));

    // The rows that undo them, pair by pair.
    let (mut storage, mut inverted) = (vec![f32::NAN; both.len()], zero::<rope_angles>());
    let (out, room) = (storage.as_mut_ptr(), storage.len());
    ok!(rope_rows_invert(&strided, out, room, &mut inverted));
    assert_eq!(inverted.heads, HEADS);
    let mut expected = vec![0.0; both.len()];
    of_core.inverted(&mut expected).expect("valid");
    assert_eq!(storage, expected);
    ok!(rope_rotate(&plan, &tensor(&mut x, SHAPE), &inverted));
    for (got, was) in x.iter().zip(values::<f32>(x.len())) {
        assert!(
            (got - was).abs() <= 1e-6 * was.abs().max(1.0),
            "{got} for {was}"
        );
    }

    let mut refusals = Refusals::default();
    let mut refused = |rows: &rope_angles, shape| {
        refusals.add(call::<f32>(&plan, rows, shape).0, "rows");
    };
    refused(&strided, [1, TOKENS, 2, 2 * PAIRS]);
    refused(&rope_angles { heads: 5, ..right }, SHAPE);
    type Spoil = fn(&mut rope_angles);
    let spoils: [Spoil; 5] = [
        |rows| rows.len -= 1,
        |rows| rows.rotary_dim = 2,
        |rows| rows.sin = null(),
        |rows| rows.layout.strides = [usize::MAX; 3],
        // Two sequences that lie apart are no four tokens.
        |rows| {
            rows.layout.shape = [2, 2, HEADS, PAIRS];
            rows.layout.strides = [PAIRS, 2 * PAIRS, TOKENS * PAIRS];
        },
    ];
    for spoil in spoils {
        let mut rows = strided;
        spoil(&mut rows);
        refused(&rows, SHAPE);
    }
    let [mut q, mut k] = [HEADS, 2].map(|heads| values::<f32>(TOKENS * heads * 2 * PAIRS));
    let (whole, fewer) = (
        tensor(&mut q, SHAPE),
        tensor(&mut k, [1, TOKENS, 2, 2 * PAIRS]),
    );
    let (mut zeros, own) = (
        vec![0.0; both.len()],
        rope_rows_joined(out, room, 2 * PAIRS),
    );
    let no_inverse = joined(&zeros, 2 * PAIRS);
    refused!(
        refusals,
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
