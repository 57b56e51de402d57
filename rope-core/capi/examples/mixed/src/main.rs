//! A program in Rust and C with one copy of rope: Rust calls rope-core, C calls rope-capi, and the bits are the same.

// Links rope-capi, which no Rust here names otherwise.
use rope as _;
use rope_core::{Error, Frequencies, Pairing, Rope, Scaling, TensorMut};

unsafe extern "C" {
    /// A function of keys.c.
    fn rotate_keys(keys: *mut f32, tokens: usize, first: i64) -> i32;
}

const TOKENS: usize = 3;
const HEADS: usize = 2;
const HEAD_DIM: usize = 64;

fn main() -> Result<(), Error> {
    let mut keys: Vec<f32> = (0..TOKENS * HEADS * HEAD_DIM)
        .map(|i| (i % 17) as f32)
        .collect();
    let mut same = keys.clone();

    let frequencies = Frequencies::new(HEAD_DIM, 10_000.0, &Scaling::Default)?;
    let mut tensor = TensorMut::new(&mut keys, [1, TOKENS, HEADS, HEAD_DIM])?;
    Rope::new(Pairing::Half).rotate(
        &mut tensor,
        &frequencies.at(70_000..70_000 + TOKENS as i64)?,
    )?;

    // SAFETY: there are as many tokens as C is told of, and no other thread calls it.
    let status = unsafe { rotate_keys(same.as_mut_ptr(), TOKENS, 70_000) };
    assert_eq!(status, 0, "a rope_status");
    assert_eq!(keys, same);
    println!("Rust and C rotated {} numbers to the same bits", keys.len());
    Ok(())
}
