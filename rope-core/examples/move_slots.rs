//! Moves keys and values within a cache: a drop after attention sinks whose length is no multiple of a page, the branch
//! of a draft that was accepted, and the latent cache of multi-head latent attention.
//!
//! `cargo run -p rope-core --example move_slots`

use rope_core::cache::{CacheLayout, CacheMut, Slots};
use rope_core::{Error, Frequencies, Pairing, Rope, Scaling, Tensor, TensorMut};

const HEADS: usize = 2;
const HEAD_DIM: usize = 64;
const SLOT: usize = HEADS * HEAD_DIM;
/// Slots of a page.
const PAGE: usize = 16;

/// The pages of the sequence, in a cache of six.
const PAGES: [i32; 3] = [5, 0, 3];

/// Returns numbers that stand for projected heads.
fn heads(len: usize) -> Vec<f32> {
    (0..len).map(|i| (i % 31) as f32 / 16.0 - 0.9).collect()
}

/// Reads the heads at some positions of the sequence.
fn read(cache: &CacheMut<'_>, tokens: usize) -> Result<Vec<f32>, Error> {
    let mut heads = vec![0.0; tokens * SLOT];
    let slots = Slots::table(&PAGES, [1, PAGES.len()], 0..tokens);
    Rope::new(Pairing::Half).apply_into(
        &cache.as_cache().slots(slots),
        &mut TensorMut::new(&mut heads, [1, tokens, HEADS, HEAD_DIM])?,
    )?;
    Ok(heads)
}

fn assert_close(got: &[f32], expected: &[f32]) {
    assert_eq!(got.len(), expected.len());
    for (got, expected) in got.iter().zip(expected) {
        assert!((got - expected).abs() < 1e-5, "{got} for {expected}");
    }
}

/// Drops ten tokens after four sinks. The tokens after those move ten slots back, and their keys ten positions.
fn drop_after_sinks() -> Result<(), Error> {
    let (sinks, dropped, tokens) = (4, 10, 40);
    let frequencies = Frequencies::new(HEAD_DIM, 500_000.0, &Scaling::Default)?;
    let rope = Rope::new(Pairing::Half);
    let at = |positions| Slots::table(&PAGES, [1, PAGES.len()], positions);
    let layout = CacheLayout::nhd([6, PAGE, HEADS, HEAD_DIM])?;
    let mut memory = [
        vec![0.0_f32; 6 * PAGE * SLOT],
        vec![0.0_f32; 6 * PAGE * SLOT],
    ];
    let [keys, values] = &mut memory;
    let mut keys = CacheMut::new(keys, layout)?;
    let mut values = CacheMut::new(values, layout)?;
    let x = heads(tokens * SLOT);
    let all = Tensor::new(&x, [1, tokens, HEADS, HEAD_DIM])?;
    rope.rotate_into(
        &all,
        &mut keys.slots(at(0..tokens)),
        &frequencies.rows(0..tokens)?,
    )?;
    rope.apply_into(&all, &mut values.slots(at(0..tokens)))?;

    // One delta for all tokens that stay; sinks keep their slots, positions and bits.
    let (from, to) = (sinks + dropped..tokens, sinks..tokens - dropped);
    let back = frequencies.shift(-(dropped as i64))?.rows()?;
    values.move_slots(at(from.clone()), at(to.clone()))?;
    keys.move_slots(at(from), at(to.clone()))?;
    rope.rotate(
        &mut keys.slots(at(to.clone())),
        &back.repeated(0, to.len())?,
    )?;

    // The cache is that of a sequence without the dropped tokens.
    let mut kept = x[..sinks * SLOT].to_vec();
    kept.extend_from_slice(&x[(sinks + dropped) * SLOT..]);
    assert_eq!(read(&values, tokens - dropped)?, kept);
    let shape = [1, tokens - dropped, HEADS, HEAD_DIM];
    let rows = frequencies.rows(0..tokens - dropped)?;
    rope.rotate(&mut TensorMut::new(&mut kept, shape)?, &rows)?;
    assert_close(&read(&keys, tokens - dropped)?, &kept);
    println!("dropped {dropped} of {tokens} tokens after {sinks} sinks, in pages of {PAGE}");
    Ok(())
}

/// Keeps one branch of a draft. Siblings share a position, and each token has a slot of its own.
fn accept_a_branch() -> Result<(), Error> {
    let frequencies = Frequencies::new(HEAD_DIM, 500_000.0, &Scaling::Default)?;
    let rope = Rope::new(Pairing::Half);
    let mut memory = vec![0.0_f32; 3 * PAGE * SLOT];
    let mut keys = CacheMut::new(&mut memory, CacheLayout::nhd([3, PAGE, HEADS, HEAD_DIM])?)?;
    // After 20 cached tokens: a tree of seven, in slots 20 to 26. Slots 21, 24 and 26 are the branch.
    let x = heads(7 * SLOT);
    let draft = Tensor::new(&x, [1, 7, HEADS, HEAD_DIM])?;
    let rows = frequencies.rows(&[20_i64, 20, 21, 21, 21, 22, 22])?;
    rope.rotate_into(&draft, &mut keys.slots(20..27), &rows)?;

    // Their positions stay, so nothing rotates.
    let branch = [21_i64, 24, 26];
    keys.move_slots(&branch, 20..23)?;

    let mut accepted = Vec::new();
    for slot in branch {
        accepted.extend_from_slice(&x[(slot as usize - 20) * SLOT..][..SLOT]);
    }
    let shape = [1, 3, HEADS, HEAD_DIM];
    rope.rotate(
        &mut TensorMut::new(&mut accepted, shape)?,
        &frequencies.rows(20..23)?,
    )?;
    assert_eq!(memory[20 * SLOT..23 * SLOT], accepted);
    println!("kept a branch of {} tokens", branch.len());
    Ok(())
}

/// Writes and shifts a latent cache of DeepSeek-V3, `[slots, 576]`: 512 channels that attention compresses keys and
/// values into, and a key of 64 channels that rotates and that all heads share.
fn latent_cache() -> Result<(), Error> {
    let (latent, rotary_dim, tokens) = (512, 64, 5);
    let width = latent + rotary_dim;
    let frequencies = Frequencies::new(rotary_dim, 10_000.0, &Scaling::Default)?;
    // The key's channels are the last ones of a row.
    let rope = Rope::new(Pairing::Interleaved).with_window(latent);
    let mut memory = vec![0.0_f32; PAGE * width];
    let mut cache = CacheMut::new(&mut memory, CacheLayout::nhd([1, PAGE, 1, width])?)?;
    let x = heads(tokens * width);
    let rows = frequencies.rows(0..tokens)?;
    rope.rotate_into(
        &Tensor::new(&x, [1, tokens, 1, width])?,
        &mut cache.slots(3..8),
        &rows,
    )?;
    // Two tokens at the start were dropped.
    cache.move_slots(5..8, 3..6)?;
    rope.rotate(
        &mut cache.slots(3..6),
        &frequencies.shift(-2)?.rows()?.repeated(0, 3)?,
    )?;

    let mut kept = x[2 * width..].to_vec();
    let mut row = TensorMut::new(&mut kept, [1, 3, 1, width])?;
    rope.rotate(&mut row, &frequencies.rows(0..3)?)?;
    let moved = &memory[3 * width..6 * width];
    assert_close(moved, &kept);
    for (moved, row) in moved.chunks(width).zip(x[2 * width..].chunks(width)) {
        assert_eq!(moved[..latent], row[..latent]);
    }
    println!("shifted a latent cache of {width} channels");
    Ok(())
}

pub(crate) fn main() -> Result<(), Error> {
    drop_after_sinks()?;
    accept_a_branch()?;
    latent_cache()
}
