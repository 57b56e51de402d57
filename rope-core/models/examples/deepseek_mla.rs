//! Rotates DeepSeek-V3's latent attention: 64 channels of each query head, and one key for all heads.
//!
//! A query head has 192 channels, of which the last 64 rotate in place. The keys' 64 rotated channels follow the 512 of
//! the latent in one row of the projection, once for all heads, and go into a separate cache. The weights pair
//! neighbors; Hugging Face's code writes halves, and so does this program, for Q and K alike. The configuration
//! describes all of this: the plan of a `Rotation` rotates the right channels of whole heads. (A runtime that keeps
//! interleaved pairs makes its own `Rope`, and then Q needs no copy. Scores are the same.)
//!
//! `cargo run -p rope-models --example deepseek_mla`

use half::bf16;
use rope_core::{Dimension, Layout, Pairing, Rope, Tensor, TensorMut};
use rope_models::{Config, Error};

const CONFIG: &str = r#"{
    "model_type": "deepseek_v3", "hidden_size": 7168, "num_attention_heads": 16, "num_hidden_layers": 1,
    "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "max_position_embeddings": 163840, "rope_theta": 10000,
    "rope_scaling": {
        "type": "yarn", "factor": 40, "original_max_position_embeddings": 4096, "beta_fast": 32, "beta_slow": 1,
        "mscale": 1.0, "mscale_all_dim": 1.0
    }
}"#;
const TOKENS: usize = 3;
const HEADS: usize = 16;
/// Channels of a query head that do not rotate, and that do.
const NOPE: usize = 128;
const ROPE: usize = 64;
/// Channels of the latent, before the key's rotated ones.
const LATENT: usize = 512;

pub(crate) fn main() -> Result<(), Error> {
    // once per model: mscale and mscale_all_dim are equal, so cos and sin are not scaled, but the softmax is
    let model = Config::from_json(CONFIG)?.model()?;
    let rotation = model.rotation()?;
    assert_eq!(
        (rotation.head_dim(), rotation.window()),
        (NOPE + ROPE, NOPE..NOPE + ROPE)
    );
    let frequencies = rotation.frequencies();
    assert_eq!(frequencies.attention_factor(), 1.0);
    let softmax_scale = ((NOPE + ROPE) as f64).powf(-0.5) * frequencies.softmax_factor();
    println!("scale of the softmax: {softmax_scale:.6}");

    // the output of the projections
    let values = |len: usize| (0..len).map(|i| bf16::from_f32((i % 41) as f32 / 41.0 - 0.5));
    let q: Vec<bf16> = values(TOKENS * HEADS * (NOPE + ROPE)).collect();
    let latent_and_key: Vec<bf16> = values(TOKENS * (LATENT + ROPE)).collect();

    // once per forward step
    let rows = frequencies.rows(1000..1000 + TOKENS)?;

    // Q: whole heads, whose last channels rotate; the others are copied.
    let heads = [1, TOKENS, HEADS, NOPE + ROPE];
    let mut rotated = vec![bf16::ZERO; q.len()];
    rotation.rope().rotate_into(
        &Tensor::new(&q, heads)?,
        &mut TensorMut::new(&mut rotated, heads)?,
        &rows,
    )?;
    for (head, untouched) in rotated.chunks(NOPE + ROPE).zip(q.chunks(NOPE + ROPE)) {
        assert_eq!(head[..NOPE], untouched[..NOPE]);
        assert_ne!(head[NOPE..], untouched[NOPE..]);
    }

    // K: one head with only the rotating channels, from its place after the latent into the cache.
    let key = Layout::bshd([1, TOKENS, 1, LATENT + ROPE])?
        .narrow(Dimension::Channels, LATENT..LATENT + ROPE)?;
    let mut cache = vec![bf16::ZERO; TOKENS * ROPE];
    rotation.rope_for(ROPE)?.rotate_into(
        &Tensor::new(&latent_and_key, key)?,
        &mut TensorMut::new(&mut cache, [1, TOKENS, 1, ROPE])?,
        &rows,
    )?;

    // Half output is a common permutation of both: in place and interleaved, the same numbers have other places.
    let window = Layout::bshd(heads)?.narrow(Dimension::Channels, rotation.window())?;
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
