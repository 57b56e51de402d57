//! What the playground of rope-bench's report computes. Numbers in, a number out: no memory is shared with the page.
//!
//! `rotary_dim` is even and at most [`MOST`]; a parameter that rope-core refuses gives NaN.
#![no_std]

use rope_core::{Error, Frequencies, FrequencyBlock, Pairing, Rope, Scaling, TensorMut};

/// The most channels of a head.
const MOST: usize = 256;

/// What is asked of the frequencies of a model.
fn with<T>(
    rotary_dim: u32,
    base: f64,
    ask: impl FnOnce(&Frequencies<'_>) -> Result<T, Error>,
) -> Result<T, Error> {
    let mut storage = [FrequencyBlock::EMPTY; FrequencyBlock::count(MOST)];
    let frequencies =
        Frequencies::new_in(&mut storage, rotary_dim as usize, base, &Scaling::Default)?;
    ask(&frequencies)
}

/// One value of the row of a position: its cosines, then its sines.
fn row(rotary_dim: u32, base: f64, position: i32, index: usize) -> f32 {
    let mut storage = [0.0; MOST];
    let value = with(rotary_dim, base, |frequencies| {
        frequencies.rows_in(&[position], &mut storage).map(|_| ())
    });
    match value {
        Ok(()) => storage.get(index).copied().unwrap_or(f32::NAN),
        Err(_) => f32::NAN,
    }
}

/// The cosine of a pair's angle at a position.
#[unsafe(no_mangle)]
pub extern "C" fn cosine(rotary_dim: u32, base: f64, position: i32, pair: u32) -> f32 {
    row(rotary_dim, base, position, pair as usize)
}

/// The sine of a pair's angle at a position.
#[unsafe(no_mangle)]
pub extern "C" fn sine(rotary_dim: u32, base: f64, position: i32, pair: u32) -> f32 {
    row(rotary_dim, base, position, (rotary_dim / 2 + pair) as usize)
}

/// The angle between one position and the next, in radians.
#[unsafe(no_mangle)]
pub extern "C" fn inverse_frequency(rotary_dim: u32, base: f64, pair: u32) -> f64 {
    let value = with(rotary_dim, base, |frequencies| {
        Ok(frequencies
            .pairs()
            .nth(pair as usize)
            .map_or(f64::NAN, |pair| pair.inverse()))
    });
    value.unwrap_or(f64::NAN)
}

/// The attention score of q at position `m` and k at position `n`: their product, over the number of channels.
///
/// With seed 0 all channels of q and k are 1; with another q and k are the random vectors of that seed, the same for
/// all positions.
#[unsafe(no_mangle)]
pub extern "C" fn score(rotary_dim: u32, base: f64, m: i32, n: i32, seed: u32) -> f64 {
    rotated_score(rotary_dim, base, m, n, seed).unwrap_or(f64::NAN)
}

/// The score of the same q and k without a rotation.
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
        let rope = Rope::new(Pairing::Half);
        let channels = rotary_dim as usize;
        for (vector, position) in [(&mut q, m), (&mut k, n)] {
            let mut tensor = TensorMut::new(&mut vector[..channels], [1, 1, 1, channels])?;
            rope.rotate_at(&mut tensor, frequencies, &[position])?;
        }
        Ok(scaled_product(&q[..channels], &k[..channels]))
    })
}

fn scaled_product(q: &[f32], k: &[f32]) -> f64 {
    let product: f64 = q
        .iter()
        .zip(k)
        .map(|(&q, &k)| f64::from(q) * f64::from(k))
        .sum();
    product / q.len() as f64
}

/// q and k: ones, or uniform between -1 and 1, k leaning towards q so that there is something to attend to.
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
