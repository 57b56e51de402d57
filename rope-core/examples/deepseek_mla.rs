//! Rotates what DeepSeek-V3's latent attention rotates: 64 channels of each query head, and one key for all heads.
//!
//! A query head has 192 channels, of which the last 64 are rotated where they lie. The keys' 64 rotated channels come
//! behind the 512 of the latent in one row of the projection, once for all heads, and go into a cache of their own. The
//! weights pair neighbours; Hugging Face's code writes halves, and so does this program, for Q and K alike. (A runtime
//! that keeps interleaved pairs leaves `output_pairing` out, and then Q needs no copy. Scores are the same.)
//!
//! `cargo run -p rope-core --example deepseek_mla`

use half::bf16;
use rope_core::{Error, Frequencies, Layout, Pairing, Rope, Scaling, Tensor, TensorMut, Yarn};

const TOKENS: usize = 3;
const HEADS: usize = 16;
/// Channels of a query head that do not rotate, and that do.
const NOPE: usize = 128;
const ROPE: usize = 64;
/// Channels of the latent, in front of the key's rotated ones.
const LATENT: usize = 512;

pub(crate) fn main() -> Result<(), Error> {
    // once per model: mscale and mscale_all_dim are equal, so cos and sin are not scaled, but the softmax is
    let yarn = Yarn {
        mscale: 1.0,
        mscale_all_dim: 1.0,
        ..Yarn::new(40.0, 4096)
    };
    let frequencies = Frequencies::new(ROPE, 10_000.0, &Scaling::Yarn(yarn))?;
    assert_eq!(frequencies.attention_factor(), 1.0);
    let softmax_scale = ((NOPE + ROPE) as f64).powf(-0.5) * frequencies.softmax_factor();
    println!("scale of the softmax: {softmax_scale:.6}");
    let rope = Rope::new(Pairing::Interleaved).output_pairing(Pairing::Half);

    // what the projections would have given
    let values = |len: usize| (0..len).map(|i| bf16::from_f32((i % 41) as f32 / 41.0 - 0.5));
    let q: Vec<bf16> = values(TOKENS * HEADS * (NOPE + ROPE)).collect();
    let latent_and_key: Vec<bf16> = values(TOKENS * (LATENT + ROPE)).collect();

    // once per forward step
    let rows = frequencies.rows(1000..1000 + TOKENS)?;

    // Q: the window behind the channels that do not rotate, which are copied by whoever needs them in one tensor.
    let window = Layout::bshd([1, TOKENS, HEADS, NOPE + ROPE])?.channels(NOPE..NOPE + ROPE)?;
    let mut rotated = q.clone();
    rope.rotate_into(
        &Tensor::new(&q, window)?,
        &mut TensorMut::new(&mut rotated, window)?,
        &rows,
    )?;
    for (head, untouched) in rotated.chunks(NOPE + ROPE).zip(q.chunks(NOPE + ROPE)) {
        assert_eq!(head[..NOPE], untouched[..NOPE]);
        assert_ne!(head[NOPE..], untouched[NOPE..]);
    }

    // K: one head, from its place behind the latent into the cache.
    let key = Layout::bshd([1, TOKENS, 1, LATENT + ROPE])?.channels(LATENT..LATENT + ROPE)?;
    let mut cache = vec![bf16::ZERO; TOKENS * ROPE];
    rope.rotate_into(
        &Tensor::new(&latent_and_key, key)?,
        &mut TensorMut::new(&mut cache, [1, TOKENS, 1, ROPE])?,
        &rows,
    )?;

    // Half out is a common permutation of both: in place and interleaved, the same numbers lie elsewhere.
    let mut interleaved = q;
    Rope::new(Pairing::Interleaved)
        .rotate(&mut TensorMut::new(&mut interleaved, window)?, &rows)?;
    for (half, interleaved) in rotated
        .chunks(NOPE + ROPE)
        .zip(interleaved.chunks(NOPE + ROPE))
    {
        let (half, interleaved) = (&half[NOPE..], &interleaved[NOPE..]);
        for pair in 0..ROPE / 2 {
            assert_eq!(half[pair], interleaved[2 * pair]);
            assert_eq!(half[pair + ROPE / 2], interleaved[2 * pair + 1]);
        }
    }
    println!("{HEADS} queries of {TOKENS} tokens and their keys rotated");
    Ok(())
}
