//! What mixed frequencies start from, grids, and refusals. The bodies have mixed frequencies over C.

use rope_models::{GridIndexing, initial_axial, initial_mixed};

use super::*;

const AXES: usize = 2;
const HEADS: usize = SHAPE[2];
const PAIRS: usize = 20;

/// Returns frequencies of either sign, and a zero.
fn learned(heads: usize) -> Vec<f64> {
    let count = AXES * heads * PAIRS;
    (0..count).map(|i| (i % 23) as f64 / 16.0 - 0.5).collect()
}

fn inverse<T>(values: &[T], number: rope_number, heads: usize) -> rope_mixed_inverse {
    rope_mixed_inverse {
        values: values.as_ptr().cast(),
        count: values.len(),
        number: number as i32,
        axes: AXES,
        heads,
        pairs: PAIRS,
    }
}

/// Returns the bytes of ROPE_MIXED_FREQUENCIES_BYTES.
fn bytes(heads: usize) -> usize {
    ROPE_FREQUENCIES_HEAD + ROPE_FREQUENCIES_CHUNK * AXES * heads * PAIRS.div_ceil(8)
}

#[test]
fn starts_and_grids_match_rope_core() {
    let directions = [0.3_f64, 4.1, 2.0];
    let singles = directions.map(|direction| direction as f32);
    const COUNT: usize = 2 * 3 * 8;
    let mut expected = [[0.0_f32; COUNT]; 3];
    initial_axial(100.0, 3, 8, &mut expected[0]).expect("valid");
    initial_mixed(10.0, &directions, 8, &mut expected[1]).expect("valid");
    initial_mixed(10.0, &singles, 8, &mut expected[2]).expect("valid");
    let got = [
        (100.0, null(), rope_number::F64),
        (10.0, directions.as_ptr().cast(), rope_number::F64),
        (10.0, singles.as_ptr().cast(), rope_number::F32),
    ]
    .map(|(theta, directions, number)| {
        let (mut made, number) = ([0.0_f32; COUNT], number as i32);
        let (out, heads) = (made.as_mut_ptr(), 3);
        ok!(rope_initial_mixed(
            theta, directions, heads, number, 8, out, COUNT
        ));
        made
    });
    assert_eq!(got, expected);

    fn grid<T: Copy + Default + PartialEq + From<u16> + std::fmt::Debug>(number: rope_number) {
        for &c_indexing in rope_grid_indexing::ALL {
            let indexing = match c_indexing {
                rope_grid_indexing::Xy => GridIndexing::Xy,
                rope_grid_indexing::Ij => GridIndexing::Ij,
            };
            let [mut expected, mut got] = [[T::default(); 13]; 2];
            let made = indexing.positions_in([2, 3], &mut expected);
            let count = made.expect("valid").len();
            let (mut made, c_indexing) = (zero::<rope_positions>(), c_indexing as i32);
            let (storage, of) = (got.as_mut_ptr().cast(), number as i32);
            let (out, len) = (&mut made, 13);
            ok!(rope_grid_positions(c_indexing, 2, 3, storage, len, of, out));
            assert_eq!(got, expected);
            assert_eq!(made.kind, rope_positions_kind::AxisMajor as i32);
            assert_eq!((made.number, made.count), (of, count));
            assert_eq!(made.values, storage.cast_const());
        }
    }
    grid::<i32>(rope_number::I32);
    grid::<i64>(rope_number::I64);
    grid::<u32>(rope_number::U32);
    grid::<u64>(rope_number::U64);
    grid::<f32>(rope_number::F32);
    grid::<f64>(rope_number::F64);
}

/// Nothing is made or written.
#[test]
fn refusals() {
    let (list, mut refusals) = (learned(HEADS), Refusals::default());
    let right = inverse(&list, rope_number::F64, HEADS);
    let mut made = null_mut();
    let mut new = |inverse: rope_mixed_inverse, factor: f64, angle: i32| {
        let made = &mut made;
        call!(rope_mixed_frequencies_new(&inverse, factor, angle, made))
    };
    spoil!(refusals, right => new(right, 1.0, 0);
        right.values = null();
        right.count = usize::MAX;
        right.count -= 1;
        right.axes = 5;
        right.pairs = 0;
        right.heads = usize::MAX;
        right.number = rope_number::I64 as i32;
    );
    refused!(refusals, new(right, 0.0, 0), new(right, 1.0, 2));
    for wrong in [1e6, f64::NAN] {
        let mut list = list.clone();
        list[7] = wrong;
        let wrong = inverse(&list, rope_number::F64, HEADS);
        refused!(refusals, new(wrong, 1.0, 0));
    }
    assert!(made.is_null());

    let (plain, mut placed, bytes) = (Owned::new(2 * PAIRS), null_mut(), bytes(HEADS));
    let made = Owned::make(|out| call!(rope_mixed_frequencies_new(&right, 1.0, 0, out)));
    let mut memory = vec![0_u8; bytes + 64];
    let (mut storage, mut rows) = (vec![7.0_f32; 5 * HEADS * 2 * PAIRS], zero::<rope_angles>());
    let (ids, text) = ([0_i32; 5 * AXES], rope_positions_range(0, 5));
    let listed = positions(rope_positions_kind::AxisMajor, &ids, rope_number::I32);
    let (mut x, mut grid, mut c_grid) = (values::<f32>(LEN), [7_i32; 12], zero());
    let two_heads = tensor(&mut x, [3, 5, 2, 64]);
    let plan = plan(rope_pairing::Half);
    let memory = aligned(&mut memory);
    let at = &mut placed;
    ok!(rope_mixed_frequencies_init(
        memory, bytes, &right, 1.0, 0, at
    ));
    let (out, len, made) = (storage.as_mut_ptr(), storage.len(), made.0);
    let [i32, f32, f64] =
        [rope_number::I32, rope_number::F32, rope_number::F64].map(|number| number as i32);
    let inside = with!(right; values = out.cast_const().cast(), number = f32);
    let numbers = grid.as_mut_ptr().cast();
    let moved = moved_from(plain.0, made, &text, &text);
    let (at, at_text) = (rope_angles_at(made, &listed), rope_angles_at(made, &text));
    let xy = rope_grid_indexing::Xy as i32;
    refused!(
        refusals,
        rope_frequencies_free(placed),
        rope_frequencies_inverse(made, null_mut(), 0),
        rope_rows_fill(&moved, out, len, &mut rows),
        rope_mixed_frequencies_init(memory, 256, &right, 1.0, 0, &mut placed),
        rope_mixed_frequencies_init(out.cast(), len, &inside, 1.0, 0, &mut placed),
        rope_rows_fill(&at, out, len - 1, &mut rows),
        rope_rows_fill(&at_text, out, len, &mut rows),
        rope_rows_fill(&moved_by(made, &listed), out, len, &mut rows),
        rope_rotate(&plan, &two_heads, &at),
        rope_rotate(&plan, &two_heads, &at_text),
        rope_frequencies_set_angle(made, 0),
        rope_initial_mixed(10.0, null(), 1, f64, 3, out, len),
        rope_initial_mixed(0.0, null(), 1, f64, 4, out, len),
        rope_initial_mixed(10.0, null(), 1, f64, 4, out, 7),
        rope_initial_mixed(10.0, out.cast(), 1, f32, 4, out, len),
        rope_initial_mixed(10.0, numbers, 1, i32, 4, out, len),
        rope_grid_positions(3, 2, 3, numbers, 12, i32, &mut c_grid),
        rope_grid_positions(xy, 65536, 0, numbers, 12, i32, &mut c_grid),
        rope_grid_positions(xy, 2, 3, numbers, 11, i32, &mut c_grid),
    );
    assert!(storage.iter().all(|&value| value == 7.0) && x == values::<f32>(LEN));
    assert!(grid == [7; 12] && rows.cos.is_null() && c_grid.values.is_null());
    compare!(refusals, "mixed");
}
