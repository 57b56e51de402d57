//! Rotates one tensor on four threads, each a part of it.
//!
//! A tensor is split along the dimension that lies outermost in memory (here its tokens), and each part is a tensor.
//! All parts share the plan; parts of the tokens take their own rows, parts of the heads would share all of them.
//! However it is split, the bits are the same. With the feature `rayon`, a plan that is `Rope::with_threads` does all
//! this.
//!
//! `cargo run -p rope-core --example threads`

use std::thread;

use rope_core::{Dimension, Error, Frequencies, Pairing, Rope, Scaling, TensorMut};

const TOKENS: usize = 40;
const THREADS: usize = 4;
const SHAPE: [usize; 4] = [1, TOKENS, 8, 64];

pub(crate) fn main() -> Result<(), Error> {
    let frequencies = Frequencies::new(64, 10_000.0, &Scaling::Default)?;
    let rope = Rope::new(Pairing::Interleaved);
    let rows = frequencies.rows(0..TOKENS)?;
    let x: Vec<f32> = (0..SHAPE.iter().product())
        .map(|i: usize| (i % 89) as f32 - 44.0)
        .collect();

    let mut together = x.clone();
    rope.rotate(&mut TensorMut::new(&mut together, SHAPE)?, &rows)?;

    let mut split = x;
    thread::scope(|scope| {
        let mut rest = TensorMut::new(&mut split, SHAPE)?;
        let mut threads = Vec::new();
        let each = TOKENS / THREADS;
        for first in (0..TOKENS).step_by(each) {
            let (mut part, others) = rest.split_at(Dimension::Tokens, each)?;
            let rows = &rows;
            threads.push(scope.spawn(move || {
                let rows = rows.narrow(first..first + each)?;
                rope.rotate(&mut part, &rows)
            }));
            rest = others;
        }
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().expect("a rotation does not panic"))
    })?;

    let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&together), bits(&split));
    println!("{TOKENS} tokens on one thread and on {THREADS}: the same bits");
    Ok(())
}
