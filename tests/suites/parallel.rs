//! A rotation spread over threads: the same bits, and nothing beside the tensor.

use half::bf16;
use rayon::{ThreadPool, ThreadPoolBuilder};
use rope_core::{
    Backend, Error, Frequencies, Layout, Pairing, Positions, Rope, Rows, Scaling, Tensor, TensorMut,
};
use rope_tests::number::{Number, paint};
use rope_tests::{Placed, Rotation, Source, Stored};

/// Below and above what is split; tokens, sequences, heads outermost, and fewer of them than threads.
const SHAPES: [[usize; 4]; 7] = [
    [1, 600, 8, 70],
    [300, 3, 9, 64],
    [1, 1, 9000, 64],
    [2, 1500, 2, 66],
    [3, 5, 4, 38],
    [2, 0, 700, 128],
    [1, 2, 3, 40_000],
];

fn pools() -> [ThreadPool; 4] {
    [1, 2, 3, 8].map(|threads| {
        let pool = ThreadPoolBuilder::new().num_threads(threads).build();
        pool.expect("a few threads")
    })
}

fn bits<T: Number>(x: &[T]) -> Vec<u32> {
    x.iter().map(|x| x.bits()).collect()
}

/// Demands the same bits. A NaN that was computed may be any NaN: parts have other tails than the whole.
#[track_caller]
fn same<T: Number>(got: &[T], expected: &[T], doing: &str) {
    assert_eq!(got.len(), expected.len());
    let differ = |&(got, expected): &(&T, &T)| {
        got.bits() != expected.bits() && !(got.is_nan() && expected.is_nan())
    };
    if let Some((got, expected)) = got.iter().zip(expected).find(differ) {
        panic!("{doing}: {got:?} for {expected:?}");
    }
}

/// Rows for a shape in any form: shared by sequences, by heads, by both, or by neither.
fn rows(source: &mut Source<'_>, shape: [usize; 4]) -> Stored {
    Stored::for_shape(source, shape, 16)
}

#[test]
fn rotate() {
    let source = &mut Source::random("parallel_rotate");
    for pool in pools() {
        for shape in SHAPES {
            let (place, rows) = (Placed::any(source, shape), rows(source, shape));
            let x = paint::<f32>(source, place.len);
            let rotation = source.one_of(&Rotation::in_place().collect::<Vec<_>>());
            let rotation = rotation.allowed(&rows.angles);
            let rope = rotation.plan(Backend::best());
            let (mut expected, mut got) = (x.clone(), x);
            rows.with(|rows| {
                let mut x = TensorMut::new(&mut expected, place.layout).expect("valid");
                rope.rotate(&mut x, rows).expect("rows that fit");
                let mut x = TensorMut::new(&mut got, place.layout).expect("valid");
                pool.install(|| rope.rotate_parallel(&mut x, rows))
                    .expect("rows that fit");
            });
            same(&got, &expected, &format!("{rotation:?}, {shape:?}"));
        }
    }
}

#[test]
fn rotate_qk() {
    let source = &mut Source::random("parallel_rotate_qk");
    for pool in pools() {
        for [batch, tokens, heads, head_dim] in SHAPES {
            let shapes = [heads, heads.div_ceil(4)].map(|heads| [batch, tokens, heads, head_dim]);
            let [q_place, k_place] = shapes.map(|shape| Placed::any(source, shape));
            let rows = rows(source, [batch, tokens, 1, head_dim]);
            let q = paint::<f32>(source, q_place.len);
            let k = paint::<bf16>(source, k_place.len);
            let rope = Rope::new(source.one_of(&Pairing::ALL));
            let (mut expected, mut got) = ((q.clone(), k.clone()), (q, k));
            rows.with(|rows| {
                let mut q = TensorMut::new(&mut expected.0, q_place.layout).expect("valid");
                let mut k = TensorMut::new(&mut expected.1, k_place.layout).expect("valid");
                rope.rotate_qk(&mut q, &mut k, rows).expect("they fit");
                let mut q = TensorMut::new(&mut got.0, q_place.layout).expect("valid");
                let mut k = TensorMut::new(&mut got.1, k_place.layout).expect("valid");
                pool.install(|| rope.rotate_qk_parallel(&mut q, &mut k, rows))
                    .expect("they fit");
            });
            same(&got.0, &expected.0, &format!("q, {shapes:?}"));
            same(&got.1, &expected.1, &format!("k, {shapes:?}"));
        }
    }
}

#[test]
fn rotate_into() {
    let source = &mut Source::random("parallel_rotate_into");
    for pool in pools() {
        for shape in SHAPES {
            let [from, to] = [(); 2].map(|()| Placed::any(source, shape));
            let rows = rows(source, shape);
            let x = paint::<f32>(source, from.len);
            let y = paint::<bf16>(source, to.len);
            let rope = Rope::new(source.one_of(&Pairing::ALL))
                .output_pairing(source.one_of(&Pairing::ALL));
            let x = Tensor::new(&x, from.layout).expect("valid");
            let (mut expected, mut got) = (y.clone(), y);
            rows.with(|rows| {
                let mut y = TensorMut::new(&mut expected, to.layout).expect("valid");
                rope.rotate_into(&x, &mut y, rows).expect("they fit");
                let mut y = TensorMut::new(&mut got, to.layout).expect("valid");
                pool.install(|| rope.rotate_into_parallel(&x, &mut y, rows))
                    .expect("they fit");
            });
            same(&got, &expected, &format!("{rope:?}, {shape:?}"));
        }
    }
}

#[test]
fn rotate_at() {
    let source = &mut Source::random("parallel_rotate_at");
    let frequencies = Frequencies::new(32, 1e4, &Scaling::Default).expect("good frequencies");
    for pool in pools() {
        for shape in SHAPES {
            let place = Placed::any(source, shape);
            let [batch, tokens, heads, head_dim] = shape;
            // Cut along the tokens, a part has some rows of every sequence.
            let tokens_outside = Layout::sbhd([tokens, batch, heads, head_dim]).expect("valid");
            let layout = if source.once_in(3) && tokens_outside.end() <= place.len {
                tokens_outside
            } else {
                place.layout
            };
            let ids: Vec<i64> = (0..batch * tokens)
                .map(|_| i64::from(source.word()) - (1 << 31))
                .collect();
            let rope = Rope::new(source.one_of(&Pairing::ALL));
            let x = paint::<bf16>(source, place.len);
            for positions in [
                Positions::from(-70_000..-70_000 + tokens as i64),
                Positions::from(&ids),
            ] {
                let (mut expected, mut got) = (x.clone(), x.clone());
                let mut x = TensorMut::new(&mut expected, layout).expect("valid");
                rope.rotate(&mut x, &frequencies.at(positions))
                    .expect("they fit");
                let mut x = TensorMut::new(&mut got, layout).expect("valid");
                pool.install(|| rope.rotate_parallel(&mut x, &frequencies.at(positions)))
                    .expect("they fit");
                same(&got, &expected, &format!("{shape:?}"));
            }
        }
    }
}

#[test]
fn what_does_not_fit_is_refused_before_any_thread_starts() {
    let source = &mut Source::random("refused_before_any_thread_starts");
    let shape = [1, 600, 8, 64];
    let x = paint::<f32>(source, shape.iter().product());
    let mut got = x.clone();
    let table: Vec<f32> = (0..599 * 32).map(|i| i as f32).collect();
    let rows = Rows::new(&table, [599, 32]).expect("whole rows");
    let frequencies = Frequencies::new(32, 1e4, &Scaling::Default).expect("good frequencies");
    let rope = Rope::new(Pairing::Half);
    let source_tensor = Tensor::new(&x, shape).expect("valid");
    let mut other = x.clone();
    let mut other = TensorMut::new(&mut other, shape).expect("valid");
    let mut tensor = TensorMut::new(&mut got, shape).expect("a valid tensor");
    for result in [
        rope.rotate_parallel(&mut tensor, &rows),
        rope.rotate_qk_parallel(&mut tensor, &mut other, &rows),
        rope.rotate_into_parallel(&source_tensor, &mut tensor, &rows),
        rope.rotate_parallel(&mut tensor, &frequencies.at(0..599)),
    ] {
        assert!(matches!(result, Err(Error::RowCount { .. })), "{result:?}");
    }
    assert_eq!(bits(&got), bits(&x));
}
