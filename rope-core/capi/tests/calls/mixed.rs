//! Mixed frequencies, what they start from, and grids.

use rope_core::axes::{MixedAngle, MixedFrequencies};
use rope_models::{GridIndexing, initial_axial, initial_mixed};

use super::*;

const AXES: usize = 2;
const HEADS: usize = SHAPE[2];
const PAIRS: usize = 20;

/// Frequencies on the heap, freed at the end.
struct OwnedMixed(*mut rope_frequencies);

impl Drop for OwnedMixed {
    fn drop(&mut self) {
        // SAFETY: freed once.
        let status = unsafe { rope_frequencies_free(self.0) };
        assert_eq!(status, rope_status::Ok);
    }
}

/// Frequencies of either sign, and a zero.
fn learned(heads: usize) -> Vec<f64> {
    (0..AXES * heads * PAIRS)
        .map(|i| (i % 23) as f64 / 16.0 - 0.5)
        .collect()
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

/// Integers, all on axis 0 and then all on axis 1.
fn per_axis(ids: &[i32]) -> rope_positions {
    rope_positions {
        kind: rope_positions_kind::AxisMajor as i32,
        ..rope_positions_per_token(ids.as_ptr().cast(), ids.len(), rope_number::I32 as i32)
    }
}

/// Handles on the heap and in the caller's memory, from floats and doubles, of each head and of all, with either angle:
/// their rows in storage and in a table, and the rotation that makes them itself.
#[test]
fn mixed_frequencies_match_rope_core() {
    for (heads, c_heads) in [(1, 0), (1, 1), (HEADS, HEADS)] {
        for &angle in rope_mixed_angle::ALL {
            for singles in [false, true] {
                let doubles = learned(heads);
                let floats: Vec<f32> = doubles.iter().map(|&inverse| inverse as f32).collect();
                let shape = [AXES, heads, PAIRS];
                let expected = match singles {
                    true => MixedFrequencies::new(&floats, shape, 1.25),
                    false => MixedFrequencies::new(&doubles, shape, 1.25),
                };
                let expected = expected.expect("valid").with_angle(match angle {
                    rope_mixed_angle::Exact => MixedAngle::Exact,
                    rope_mixed_angle::SummedF32 => MixedAngle::SummedF32,
                });
                let c_inverse = match singles {
                    true => inverse(&floats, rope_number::F32, c_heads),
                    false => inverse(&doubles, rope_number::F64, c_heads),
                };
                let (mut owned, mut placed) = (null_mut(), null_mut());
                let bytes = ROPE_FREQUENCIES_HEAD
                    + ROPE_FREQUENCIES_CHUNK * AXES * heads * PAIRS.div_ceil(8);
                let mut memory = vec![0x55_u8; bytes + 1];
                // SAFETY: what is passed is there.
                let statuses = unsafe {
                    // One byte further, aligned to nothing.
                    let memory = memory.as_mut_ptr().wrapping_add(1).cast();
                    let angle = angle as i32;
                    [
                        rope_mixed_frequencies_new(&c_inverse, 1.25, angle, &mut owned),
                        rope_mixed_frequencies_init(
                            memory,
                            bytes,
                            &c_inverse,
                            1.25,
                            angle,
                            &mut placed,
                        ),
                        rope_frequencies_set_backend(placed, rope_backend::Scalar as i32),
                        rope_frequencies_set_backend(placed, rope_backend::Best as i32),
                        rope_frequencies_free(null_mut()),
                    ]
                };
                assert_eq!(statuses, [rope_status::Ok; 5], "{}", detail());
                let owned = OwnedMixed(owned);
                for handle in [owned.0, placed] {
                    the_same(handle, &expected, angle);
                }
            }
        }
    }
}

/// A handle describes, makes and rotates as frequencies of rope-core do.
fn the_same(
    handle: *const rope_frequencies,
    expected: &MixedFrequencies<'_>,
    angle: rope_mixed_angle,
) {
    let (heads, tokens) = (expected.heads(), SHAPE[1]);
    // Real coordinates.
    let coordinates: Vec<f64> = (0..AXES * tokens).map(|i| i as f64 / 4.0 - 1.0).collect();
    let angles = expected
        .at(Positions::real_axis_major(&*coordinates))
        .expect("valid");
    let mut values = vec![0.0; tokens * heads * 2 * PAIRS];
    angles.rows_in(&mut values).expect("room");
    let rows = angles.rows().expect("memory");
    let positions = rope_positions {
        kind: rope_positions_kind::AxisMajor as i32,
        ..rope_positions_per_token(
            coordinates.as_ptr().cast(),
            coordinates.len(),
            rope_number::F64 as i32,
        )
    };
    let (mut len, mut table, mut table_rows) = (0, null_mut(), zero::<rope_angles>());
    let (mut storage, mut c_rows) = (vec![7.0; values.len() + 1], zero::<rope_angles>());
    let mut info: rope_frequencies_info = zero();
    // SAFETY: what is passed is there.
    let statuses = unsafe {
        let (out, room) = (storage.as_mut_ptr(), storage.len());
        [
            rope_frequencies_describe(handle, &mut info),
            rope_rows_len(&rope_angles_at(handle, &positions), &mut len),
            rope_rows_fill(&rope_angles_at(handle, &positions), out, room, &mut c_rows),
            rope_table_new(&rope_angles_at(handle, &positions), &mut table),
            rope_table_rows(table, &mut table_rows),
        ]
    };
    assert_eq!(statuses, [rope_status::Ok; 5]);
    assert_eq!((info.axes, info.heads), (AXES, heads));
    assert_eq!((info.rotary_dim, info.angle), (2 * PAIRS, angle as i32));
    assert_eq!(info.attention_factor, 1.25);
    assert_eq!((len, c_rows.len), (values.len(), values.len()));
    assert_eq!(storage[..len], values);
    assert_eq!(storage[len], 7.0);
    for made in [c_rows, table_rows] {
        assert_eq!((made.heads, made.rotary_dim), (heads, 2 * PAIRS));
        assert_eq!((made.len, made.attention_factor), (len, 1.25));
    }

    let mut rotated = super::values::<f32>(LEN);
    let mut target = TensorMut::new(&mut rotated, SHAPE).expect("valid");
    Rope::new(Pairing::Half)
        .rotate(&mut target, &rows)
        .expect("valid");
    let c_plan = plan(rope_pairing::Half);
    let [mut a, mut b, mut c] = [(); 3].map(|()| super::values::<f32>(LEN));
    let (x, y, z) = (
        tensor(&mut a, SHAPE),
        tensor(&mut b, SHAPE),
        tensor(&mut c, SHAPE),
    );
    // SAFETY: what is passed is there.
    let statuses = unsafe {
        [
            rope_rotate(&c_plan, &x, &rope_angles_at(handle, &positions)),
            rope_rotate(&c_plan, &y, &c_rows),
            rope_rotate(&c_plan, &z, &table_rows),
            rope_table_free(table),
        ]
    };
    assert_eq!(statuses, [rope_status::Ok; 4]);
    for got in [a, b, c] {
        assert!(got == rotated);
    }
}

#[test]
fn starts_and_grids_match_rope_core() {
    let directions = [0.3_f64, 4.1, 2.0];
    let singles = directions.map(|direction| direction as f32);
    let len = 2 * 3 * 8;
    let [mut axial, mut mixed, mut of_singles] = [(); 3].map(|()| vec![0.0_f32; len]);
    initial_axial(100.0, 3, 8, &mut axial).expect("valid");
    initial_mixed(10.0, &directions, 8, &mut mixed).expect("valid");
    initial_mixed(10.0, &singles, 8, &mut of_singles).expect("valid");
    let [mut a, mut b, mut c] = [(); 3].map(|()| vec![0.0_f32; len]);
    let (doubles, singles) = (directions.as_ptr().cast(), singles.as_ptr().cast());
    let (f64, f32) = (rope_number::F64 as i32, rope_number::F32 as i32);
    // SAFETY: what is passed is there.
    let statuses = unsafe {
        [
            rope_initial_mixed(
                100.0,
                null(),
                3,
                rope_number::F64 as i32,
                8,
                a.as_mut_ptr(),
                len,
            ),
            rope_initial_mixed(10.0, doubles, 3, f64, 8, b.as_mut_ptr(), len),
            rope_initial_mixed(10.0, singles, 3, f32, 8, c.as_mut_ptr(), len),
        ]
    };
    assert_eq!(statuses, [rope_status::Ok; 3]);
    assert_eq!((a, b, c), (axial, mixed, of_singles));

    fn grid<T: Copy + Default + PartialEq + From<u16> + std::fmt::Debug>(number: rope_number) {
        for &c_indexing in rope_grid_indexing::ALL {
            let indexing = match c_indexing {
                rope_grid_indexing::Xy => GridIndexing::Xy,
                rope_grid_indexing::Ij => GridIndexing::Ij,
            };
            let (mut expected, mut got) = ([T::default(); 13], [T::default(); 13]);
            let count = indexing
                .positions_in([2, 3], &mut expected)
                .expect("valid")
                .len();
            let (mut made, c_indexing) = (zero(), c_indexing as i32);
            let storage = got.as_mut_ptr().cast();
            // SAFETY: what is passed is there.
            let status = unsafe {
                rope_grid_positions(c_indexing, 2, 3, storage, 13, number as i32, &mut made)
            };
            assert_eq!((status, got), (rope_status::Ok, expected));
            let rope_positions {
                kind,
                number: of,
                values,
                count: given,
                ..
            } = made;
            assert_eq!(kind, rope_positions_kind::AxisMajor as i32);
            assert_eq!((of, given), (number as i32, count));
            assert_eq!(values, storage.cast_const());
        }
    }
    for &number in rope_number::ALL {
        match number {
            rope_number::I32 => grid::<i32>(number),
            rope_number::I64 => grid::<i64>(number),
            rope_number::U32 => grid::<u32>(number),
            rope_number::U64 => grid::<u64>(number),
            rope_number::F32 => grid::<f32>(number),
            rope_number::F64 => grid::<f64>(number),
        }
    }
}

/// Each refusal has its status, and nothing is made or written.
#[test]
fn refusals() {
    use rope_status as S;
    let list = learned(HEADS);
    let right = inverse(&list, rope_number::F64, HEADS);
    let new = |inverse: rope_mixed_inverse, factor: f64, angle: i32| {
        let mut made = null_mut();
        // SAFETY: what is passed is there, or more is said than any memory holds.
        let status = unsafe { rope_mixed_frequencies_new(&inverse, factor, angle, &mut made) };
        assert!(made.is_null() || status == S::Ok);
        if status == S::Ok {
            drop(OwnedMixed(made));
        }
        status
    };
    let with = |spoil: &dyn Fn(&mut rope_mixed_inverse)| {
        let mut inverse = right;
        spoil(&mut inverse);
        new(inverse, 1.0, 0)
    };
    assert_eq!(with(&|_| ()), S::Ok);
    assert_eq!(with(&|inverse| inverse.values = null()), S::Null);
    assert_eq!(with(&|inverse| inverse.count = usize::MAX), S::Length);
    assert_eq!(with(&|inverse| inverse.count -= 1), S::Count);
    assert_eq!(with(&|inverse| inverse.axes = 5), S::Axes);
    assert_eq!(with(&|inverse| inverse.pairs = 0), S::RotaryDim);
    assert_eq!(with(&|inverse| inverse.heads = usize::MAX), S::Count);
    let integers = rope_number::I64 as i32;
    assert_eq!(with(&|inverse| inverse.number = integers), S::UnknownValue);
    assert_eq!(new(right, 0.0, 0), S::Parameter);
    assert_eq!(new(right, 1.0, 2), S::UnknownValue);
    let mut fast = list.clone();
    fast[7] = 1e6;
    assert_eq!(
        new(inverse(&fast, rope_number::F64, HEADS), 1.0, 0),
        S::TooFast
    );
    fast[7] = f64::NAN;
    assert_eq!(
        new(inverse(&fast, rope_number::F64, HEADS), 1.0, 0),
        S::Parameter
    );

    let plain = Owned::new(2 * PAIRS);
    let (mut made, mut placed) = (null_mut(), null_mut());
    let bytes = ROPE_FREQUENCIES_HEAD + ROPE_FREQUENCIES_CHUNK * AXES * HEADS * PAIRS.div_ceil(8);
    let mut memory = vec![0_u8; bytes];
    let (mut storage, mut rows) = (vec![7.0_f32; 5 * HEADS * 2 * PAIRS], zero::<rope_angles>());
    let (ids, text) = ([0_i32; 5 * AXES], rope_positions_range(0, 5));
    let positions = per_axis(&ids);
    let mut x = values::<f32>(LEN);
    let two_heads = tensor(&mut x, [3, 5, 2, 64]);
    let c_plan = plan(rope_pairing::Half);
    let mut grid = [7_i32; 12];
    let mut c_grid = zero();
    // SAFETY: what is passed is there, or more is said than any memory holds.
    let got = unsafe {
        let memory = memory.as_mut_ptr();
        let ok = rope_mixed_frequencies_new(&right, 1.0, 0, &mut made);
        assert_eq!(ok, S::Ok);
        let ok = rope_mixed_frequencies_init(memory.cast(), bytes, &right, 1.0, 0, &mut placed);
        assert_eq!(ok, S::Ok);
        let inside = rope_mixed_inverse {
            values: storage.as_ptr().cast(),
            number: rope_number::F32 as i32,
            ..right
        };
        let (out, len) = (storage.as_mut_ptr(), storage.len());
        let (numbers, i32) = (grid.as_mut_ptr().cast(), rope_number::I32 as i32);
        [
            rope_frequencies_free(placed),
            rope_frequencies_inverse(made, null_mut(), 0),
            rope_rows_fill(
                &moved_from(plain.0, made, &text, &text),
                out,
                len,
                &mut rows,
            ),
            rope_mixed_frequencies_init(memory.cast(), 256, &right, 1.0, 0, &mut placed),
            rope_mixed_frequencies_init(out.cast(), len, &inside, 1.0, 0, &mut placed),
            rope_rows_fill(&rope_angles_at(made, &positions), out, len - 1, &mut rows),
            rope_rows_fill(&rope_angles_at(made, &text), out, len, &mut rows),
            rope_rows_fill(&moved_by(made, &positions), out, len, &mut rows),
            rope_rotate(&c_plan, &two_heads, &rope_angles_at(made, &positions)),
            rope_rotate(&c_plan, &two_heads, &rope_angles_at(made, &text)),
            rope_frequencies_set_angle(made, 0),
            rope_initial_mixed(10.0, null(), 1, rope_number::F64 as i32, 3, out, len),
            rope_initial_mixed(0.0, null(), 1, rope_number::F64 as i32, 4, out, len),
            rope_initial_mixed(10.0, null(), 1, rope_number::F64 as i32, 4, out, 7),
            rope_initial_mixed(10.0, out.cast(), 1, rope_number::F32 as i32, 4, out, len),
            rope_initial_mixed(10.0, numbers, 1, i32, 4, out, len),
            rope_grid_positions(3, 2, 3, numbers, 12, i32, &mut c_grid),
            rope_grid_positions(
                rope_grid_indexing::Xy as i32,
                65536,
                0,
                numbers,
                12,
                i32,
                &mut c_grid,
            ),
            rope_grid_positions(
                rope_grid_indexing::Xy as i32,
                2,
                3,
                numbers,
                11,
                i32,
                &mut c_grid,
            ),
        ]
    };
    let expected = [
        S::Handle,
        S::Handle,
        S::Handle,
        S::Storage,
        S::MemoryOverlap,
        S::Storage,
        // One number per token, where a token has one on each axis.
        S::PositionsPerAxis,
        S::Handle,
        S::RowHeads,
        S::PositionsPerAxis,
        S::Handle,
        S::RotaryDim,
        S::Parameter,
        S::Storage,
        S::MemoryOverlap,
        S::UnknownValue,
        S::UnknownValue,
        S::Parameter,
        S::Storage,
    ];
    assert_eq!(got, expected);
    assert!(storage.iter().all(|&value| value == 7.0) && grid == [7; 12]);
    assert!(x == values::<f32>(LEN));
    drop(OwnedMixed(made));
}

/// Each pointer null and misaligned.
#[test]
fn pointers() {
    let list = learned(HEADS);
    let ids = [0_i32; 5 * AXES];
    let (right, positions) = (inverse(&list, rope_number::F64, HEADS), per_axis(&ids));
    let mut handle = null_mut();
    // SAFETY: what is passed is there.
    let status = unsafe { rope_mixed_frequencies_new(&right, 1.0, 0, &mut handle) };
    assert_eq!(status, rope_status::Ok);
    let owned = OwnedMixed(handle);
    let (mut info, mut rows, mut made) = (zero(), zero(), null_mut());
    let mut storage = vec![0.0_f32; 5 * HEADS * 2 * PAIRS];
    let (out, room) = (storage.as_mut_ptr(), storage.len());
    let (handle, positions) = (owned.0, &raw const positions);
    each!(rope_frequencies_describe(handle, &raw mut info;));
    each!(rope_initial_axial_into(out; room));
    // Those with numbers between the pointers.
    unsafe fn rope_initial_axial_into(inverse: *mut f32, len: usize) -> rope_status {
        // SAFETY: the caller promises it.
        unsafe { rope_initial_mixed(10.0, null(), 2, rope_number::F64 as i32, 4, inverse, len) }
    }
    unsafe fn fill(
        frequencies: *const rope_frequencies,
        positions: *const rope_positions,
        storage: *mut f32,
        rows: *mut rope_angles,
        len: usize,
    ) -> rope_status {
        // SAFETY: the caller promises it.
        unsafe { rope_rows_fill(&rope_angles_at(frequencies, positions), storage, len, rows) }
    }
    unsafe fn new(
        inverse: *const rope_mixed_inverse,
        out: *mut *mut rope_frequencies,
    ) -> rope_status {
        // SAFETY: the caller promises it.
        unsafe { rope_mixed_frequencies_new(inverse, 1.0, 0, out) }
    }
    unsafe fn start(inverse: *mut f32, directions: *const f64) -> rope_status {
        let number = rope_number::F64 as i32;
        // SAFETY: the caller promises it.
        unsafe { rope_initial_mixed(10.0, directions.cast(), 2, number, 4, inverse, 16) }
    }
    unsafe fn grid(storage: *mut f32, positions: *mut rope_positions) -> rope_status {
        let number = rope_number::F32 as i32;
        // SAFETY: the caller promises it.
        unsafe {
            rope_grid_positions(
                rope_grid_indexing::Xy as i32,
                2,
                3,
                storage.cast(),
                12,
                number,
                positions,
            )
        }
    }
    let mut c_grid = zero();
    each!(fill(handle, positions, out, &raw mut rows; room));
    each!(new(&raw const right, &raw mut made;));
    each!(start(out; list.as_ptr()));
    each!(grid(out, &raw mut c_grid;));
    assert!(made.is_null());
}
