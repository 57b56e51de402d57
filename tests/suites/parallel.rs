//! A rotation spread over threads: the same bits, and nothing beside the tensor.

use rope_core::{Backend, Error, Pairing, Rope, Rows, TensorMut};
use rope_tests::number::paint;
use rope_tests::{Form, Placed, Rotation, Source, Stored, compare, oracle};

#[test]
fn same_bits_on_all_threads() {
    let source = &mut Source::random("same_bits_on_all_threads");
    let pool = rayon::ThreadPoolBuilder::new().num_threads(4).build();
    let pool = pool.expect("four threads");
    // Above and below what is split: many tokens, sequences, or heads, and one token.
    for shape in [
        [1, 300, 8, 70],
        [70, 3, 9, 64],
        [1, 1, 2050, 64],
        [3, 5, 4, 38],
        [2, 0, 700, 128],
    ] {
        for rows in [shape[1], shape[0] * shape[1]] {
            for form in Form::all() {
                let place = Placed::any(source, shape);
                let rows = Stored::new(source, rows, 16, form);
                let x = paint::<f32>(source, place.len);
                let rotation = source.one_of(&Rotation::in_place().collect::<Vec<_>>());
                let expected =
                    oracle::rotated(rotation, &rows.angles, (&x, &place.view), (&x, &place.view));
                let mut got = x.clone();
                let rope = rotation.plan(Backend::best());
                rows.with(|rows| {
                    let mut tensor =
                        TensorMut::new(&mut got, place.layout).expect("a valid tensor");
                    pool.install(|| rope.rotate_parallel(&mut tensor, rows))
                        .expect("rows that fit");
                });
                compare(
                    &got,
                    &expected,
                    &place.view,
                    &format!("{rotation:?}, {shape:?}"),
                );
            }
        }
    }
}

#[test]
fn what_does_not_fit_is_refused_before_any_thread_starts() {
    let source = &mut Source::random("refused_before_any_thread_starts");
    let shape = [1, 300, 8, 64];
    let x = paint::<f32>(source, shape.iter().product());
    let mut got = x.clone();
    let table = vec![0.5_f32; 299 * 32];
    let rows = Rows::new(&table, 32).expect("whole rows");
    let rope = Rope::new(Pairing::Half);
    let mut tensor = TensorMut::new(&mut got, shape).expect("a valid tensor");
    let result = rope.rotate_parallel(&mut tensor, &rows);
    assert!(matches!(result, Err(Error::RowCount { .. })), "{result:?}");
    let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&got), bits(&x));
}
