//! A layer with the norms of Qwen3 and a paged KV cache: a prompt of five tokens, and one token after it.
//!
//! One call norms, rotates and writes, so that rotated K exists in the cache alone. The pages of the sequence have any
//! order.
//!
//! `cargo run --example cache`

use burn::tensor::{DType, Device, Distribution, Tensor};
use rope_burn::rope_core::cache::Slots;
use rope_burn::rope_core::norm::{Norm, NormFormula};
use rope_burn::rope_core::{Frequencies, Pairing, Scaling};
use rope_burn::{CacheFormat, Error, RotaryRows, norm_rotate, read_caches, rotate_into_caches};

const KV_HEADS: usize = 8;
const HEAD_DIM: usize = 128;
const BLOCK_SIZE: usize = 4;

fn main() -> Result<(), Error> {
    let device = Device::flex();
    let frequencies = Frequencies::new(HEAD_DIM, 1e6, &Scaling::Default)?;
    // once per model: `k_norm.weight`
    let weight = Tensor::<1>::random([HEAD_DIM], Distribution::Normal(1.0, 0.1), &device).to_data();
    let weight = weight.as_slice::<f32>().expect("f32");
    let norm = Norm::new(NormFormula::LLAMA, 1e-6).with_weight(weight);
    // the pages of the sequence: position 0 is in the first slot of page 6, position 4 in that of page 1
    let table = [6_i64, 1];

    // The output of projections: [batch, heads, tokens, head_dim].
    let projected = || {
        let shape = [1, 6, KV_HEADS, HEAD_DIM];
        let x = Tensor::<4>::random(shape, Distribution::Normal(0.0, 1.0), &device);
        x.cast(DType::BF16).swap_dims(1, 2)
    };
    let (k, v) = (projected(), projected());
    let pages = || Tensor::<4>::zeros([8, KV_HEADS, BLOCK_SIZE, HEAD_DIM], (&device, DType::BF16));
    let (mut keys, mut values) = (pages(), pages());
    for (first, tokens) in [(0, 5), (5, 1)] {
        let positions = first..first + tokens;
        let rows = RotaryRows::at(&frequencies, positions.clone(), 1, &device)?;
        (keys, values) = rotate_into_caches(
            (k.clone().narrow(2, first, tokens), keys),
            (v.clone().narrow(2, first, tokens), values),
            CacheFormat::Elements,
            Slots::table(&table, [1, table.len()], positions),
            &rows,
            Pairing::Half,
            Some(norm),
        )?;
    }

    // The cache holds all six tokens, normed and rotated.
    let rows = RotaryRows::at(&frequencies, 0..6, 1, &device)?;
    let rotated = norm_rotate(k, norm, &rows, Pairing::Half)?;
    let slots = Slots::table(&table, [1, table.len()], 0..6);
    let caches = (&keys, &values);
    let (found_k, found_v) =
        read_caches(caches, CacheFormat::Elements, [1, 6], slots, DType::BF16)?;
    assert_eq!(found_k.to_data(), rotated.to_data());
    assert_eq!(found_v.to_data(), v.to_data());
    println!("6 tokens of {KV_HEADS} heads lie in pages {table:?}");
    Ok(())
}
