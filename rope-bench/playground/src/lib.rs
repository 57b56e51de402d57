//! The computations of the playground in rope-bench's report. Numbers in, a number out: no memory is shared with the
//! page.
//!
//! `rotary_dim` is even and at most [`MOST`]; a parameter that rope-core refuses gives NaN.
#![no_std]

use core::sync::atomic::{AtomicU64, Ordering};

use rope_core::{Error, Frequencies, FrequencyChunk, Pairing, Rope, Scaling, TensorMut};

/// The most channels of a head.
const MOST: usize = 256;

/// The number of distances of [`fill_scores`], from 0.
const DISTANCES: usize = 2080;

/// Tokens per rotation.
const TOKENS: usize = 32;

/// The results of [`fill_scores`] for [`score_at`], as bits. In safe code, atomics are memory that outlives a call.
static SCORES: [AtomicU64; DISTANCES] = [const { AtomicU64::new(0) }; DISTANCES];

/// Calls a function with the frequencies of a model.
fn with<T>(
    rotary_dim: u32,
    base: f64,
    ask: impl FnOnce(&Frequencies<'_>) -> Result<T, Error>,
) -> Result<T, Error> {
    let mut storage = [FrequencyChunk::EMPTY; FrequencyChunk::count(MOST)];
    let frequencies =
        Frequencies::new_in(&mut storage, rotary_dim as usize, base, &Scaling::Default)?;
    ask(&frequencies)
}

/// Returns one value of the row of a position: its cosines, then its sines.
fn row(rotary_dim: u32, base: f64, position: i32, index: usize) -> f32 {
    let mut storage = [0.0; MOST];
    let value = with(rotary_dim, base, |frequencies| {
        frequencies
            .at(&[position])?
            .rows_in(&mut storage)
            .map(|_| ())
    });
    match value {
        Ok(()) => storage.get(index).copied().unwrap_or(f32::NAN),
        Err(_) => f32::NAN,
    }
}

/// Returns the cosine of a pair's angle at a position.
#[unsafe(no_mangle)]
pub extern "C" fn cosine(rotary_dim: u32, base: f64, position: i32, pair: u32) -> f32 {
    row(rotary_dim, base, position, pair as usize)
}

/// Returns the sine of a pair's angle at a position.
#[unsafe(no_mangle)]
pub extern "C" fn sine(rotary_dim: u32, base: f64, position: i32, pair: u32) -> f32 {
    row(rotary_dim, base, position, (rotary_dim / 2 + pair) as usize)
}

/// Returns the angle between one position and the next, in radians.
#[unsafe(no_mangle)]
pub extern "C" fn inverse_frequency(rotary_dim: u32, base: f64, pair: u32) -> f64 {
    let value = with(rotary_dim, base, |frequencies| {
        Ok(frequencies
            .iter()
            .nth(pair as usize)
            .map_or(f64::NAN, |pair| pair.inverse))
    });
    value.unwrap_or(f64::NAN)
}

/// Returns the attention score of q at position `m` and k at position `n`: their product over the number of channels.
///
/// With seed 0 all channels of q and k are 1. With another seed q and k are its random vectors, the same for all
/// positions.
#[unsafe(no_mangle)]
pub extern "C" fn score(rotary_dim: u32, base: f64, m: i32, n: i32, seed: u32) -> f64 {
    rotated_score(rotary_dim, base, m, n, seed).unwrap_or(f64::NAN)
}

/// Computes [`score`] for every distance below the returned number, which is 0 if rope-core refuses a parameter: q at
/// that distance from k at position 0 or, `backwards`, k from q.
///
/// Makes the frequencies once and rotates tokens together: 3.5 ms in Node, where as many calls of [`score`] take 350.
#[unsafe(no_mangle)]
pub extern "C" fn fill_scores(rotary_dim: u32, base: f64, seed: u32, backwards: bool) -> u32 {
    match rotated_scores(rotary_dim as usize, base, seed, backwards) {
        Ok(()) => DISTANCES as u32,
        Err(_) => 0,
    }
}

/// Returns the score at a distance, from the last [`fill_scores`]; 0 before the first.
#[unsafe(no_mangle)]
pub extern "C" fn score_at(distance: u32) -> f64 {
    let score = SCORES.get(distance as usize);
    score.map_or(f64::NAN, |score| {
        f64::from_bits(score.load(Ordering::Relaxed))
    })
}

/// Returns the score of the same q and k without a rotation.
#[unsafe(no_mangle)]
pub extern "C" fn score_without(rotary_dim: u32, seed: u32) -> f64 {
    let (q, k) = vectors(seed);
    match (q.get(..rotary_dim as usize), k.get(..rotary_dim as usize)) {
        (Some(q), Some(k)) => scaled_product(q, k),
        _ => f64::NAN,
    }
}

fn rotated_score(rotary_dim: u32, base: f64, m: i32, n: i32, seed: u32) -> Result<f64, Error> {
    let (mut q, mut k) = vectors(seed);
    with(rotary_dim, base, |frequencies| {
        let channels = rotary_dim as usize;
        rotate(&mut q[..channels], frequencies, &[m])?;
        rotate(&mut k[..channels], frequencies, &[n])?;
        Ok(scaled_product(&q[..channels], &k[..channels]))
    })
}

fn rotated_scores(channels: usize, base: f64, seed: u32, backwards: bool) -> Result<(), Error> {
    let (q, k) = vectors(seed);
    // A rotation by a zero angle keeps a vector.
    let (moved, fixed) = if backwards { (k, q) } else { (q, k) };
    let mut storage = [0.0; MOST * TOKENS];
    with(channels as u32, base, |frequencies| {
        let tokens = &mut storage[..channels * TOKENS];
        for (block, scores) in SCORES.chunks(TOKENS).enumerate() {
            for token in tokens.chunks_exact_mut(channels) {
                token.copy_from_slice(&moved[..channels]);
            }
            let positions: [i32; TOKENS] =
                core::array::from_fn(|token| (block * TOKENS + token) as i32);
            rotate(tokens, frequencies, &positions)?;
            for (score, token) in scores.iter().zip(tokens.chunks_exact(channels)) {
                let product = scaled_product(token, &fixed[..channels]);
                score.store(product.to_bits(), Ordering::Relaxed);
            }
        }
        Ok(())
    })
}

/// Rotates tokens of one head.
fn rotate(
    tokens: &mut [f32],
    frequencies: &Frequencies<'_>,
    positions: &[i32],
) -> Result<(), Error> {
    let shape = [1, positions.len(), 1, tokens.len() / positions.len()];
    let mut tensor = TensorMut::new(tokens, shape)?;
    Rope::new(Pairing::Half).rotate(&mut tensor, &frequencies.at(positions)?)
}

fn scaled_product(q: &[f32], k: &[f32]) -> f64 {
    let product: f64 = q
        .iter()
        .zip(k)
        .map(|(&q, &k)| f64::from(q) * f64::from(k))
        .sum();
    product / q.len() as f64
}

/// Returns q and k: ones, or uniform between -1 and 1, with k leaning towards q for a visible score.
fn vectors(seed: u32) -> ([f32; MOST], [f32; MOST]) {
    if seed == 0 {
        return ([1.0; MOST], [1.0; MOST]);
    }
    let mut state = seed.wrapping_mul(0x9e37_79b9) | 1;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as i32 as f32 / 2_147_483_648.0
    };
    let q = [(); MOST].map(|()| random());
    (q, q.map(|q| (q + random()) / 2.0))
}

#[cfg(target_arch = "wasm32")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    core::arch::wasm32::unreachable()
}
