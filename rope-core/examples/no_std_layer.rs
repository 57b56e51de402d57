//! A library that needs neither std nor an allocator: the rotation of a model whose head size is known when it is
//! compiled. This program stands in for the firmware that links it.
//!
//! The library keeps frequencies in an array of its own and rotates by positions, without a table: the rows of a few
//! tokens at a time lie on the stack.
//!
//! `cargo run -p rope-core --example no_std_layer`

/// A module that would be a crate of its own, with `#![no_std]` and rope-core with `default-features = false`.
pub(crate) mod library {
    use rope_core::{Error, Frequencies, FrequencyChunk, Pairing, Rope, Scaling, TensorMut};

    pub(crate) const HEAD_DIM: usize = 128;
    /// [`FrequencyChunk::count`] of the head, which a `const` can call.
    const CHUNKS: usize = FrequencyChunk::count(HEAD_DIM);

    /// Storage for the frequencies; firmware keeps it in a static.
    pub(crate) type Storage = [FrequencyChunk; CHUNKS];
    pub(crate) const EMPTY: Storage = [FrequencyChunk::EMPTY; CHUNKS];

    /// How one model rotates.
    pub(crate) struct Rotary<'a> {
        frequencies: Frequencies<'a>,
        rope: Rope,
    }

    impl<'a> Rotary<'a> {
        pub(crate) fn new(storage: &'a mut Storage, base: f64) -> Result<Self, Error> {
            Ok(Rotary {
                frequencies: Frequencies::new_in(storage, HEAD_DIM, base, &Scaling::Default)?,
                rope: Rope::new(Pairing::Half),
            })
        }

        /// Rotates heads of one token, `[heads, HEAD_DIM]`, in place.
        pub(crate) fn rotate(&self, x: &mut [f32], position: i64) -> Result<(), Error> {
            let heads = x.len() / HEAD_DIM;
            let mut x = TensorMut::new(x, [1, 1, heads, HEAD_DIM])?;
            self.rope.rotate(&mut x, &self.frequencies.at(position)?)
        }
    }
}

use library::{EMPTY, HEAD_DIM, Rotary};

pub(crate) fn main() -> Result<(), rope_core::Error> {
    let mut storage = EMPTY;
    let rotary = Rotary::new(&mut storage, 10_000.0)?;
    // Two heads of ones: the first pair turns by the position itself.
    let mut q = [1.0_f32; 2 * HEAD_DIM];
    rotary.rotate(&mut q, 1_000_000)?;
    let (sin, cos) = 1_000_000_f64.sin_cos();
    let expected = (cos as f32 - sin as f32, sin as f32 + cos as f32);
    for head in q.chunks(HEAD_DIM) {
        assert_eq!((head[0], head[HEAD_DIM / 2]), expected);
    }
    // A slice that is not whole heads is refused, and untouched.
    let mut short = [1.0_f32; HEAD_DIM + 1];
    let error = rotary
        .rotate(&mut short, 7)
        .expect_err("it has a number too many");
    assert_eq!(short, [1.0; HEAD_DIM + 1]);
    println!(
        "two heads at position 1,000,000; and of {} numbers: {error}",
        short.len()
    );
    Ok(())
}
