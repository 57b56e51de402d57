//! Rotates the queries and keys of a Llama 3.1 from its `config.json`.
//!
//! The file describes the rotation of each layer, or none: frequencies with their scaling, the pairing, and the rotated
//! channels. A first step rotates a prompt, a second one the next token. The rows of a step serve every layer with that
//! rotation, and a token gets the same bits in any step.
//!
//! `cargo run -p rope-models --example config`

use rope_core::TensorMut;
use rope_models::{Config, Error};

const CONFIG: &str = r#"{
    "model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8,
    "num_hidden_layers": 2, "rope_theta": 500000.0,
    "rope_scaling": {
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192
    }
}"#;
const HEADS: usize = 32;
const KV_HEADS: usize = 8;

pub(crate) fn main() -> Result<(), Error> {
    // once per model
    let model = Config::from_json(CONFIG)?.model()?;
    // Keys about the rotation that the model's code ignores. This file has none.
    for key in model.ignored() {
        println!("ignored: {key}");
    }
    let layers = model.layers()?;
    // A Llama has one rotation for all layers; a model with sliding windows may have two, each with its rows.
    let [rotation] = layers.rotations() else {
        panic!("a Llama has one rotation");
    };
    let (frequencies, rope) = (rotation.frequencies(), rotation.rope());
    let head_dim = rotation.head_dim();
    println!(
        "head_dim {head_dim}, channels {:?} rotate, backend {}",
        rotation.window(),
        rope.backend()
    );

    // once per forward step: a prompt of four tokens, then the fifth
    let prompt = frequencies.rows(0..4)?;
    let next = frequencies.rows(4..5)?;
    for layer in layers.iter() {
        // Some models have layers that do not rotate; this one has none.
        assert_eq!(layer.rotation, Some(rotation));
        // the output of the projections, the same for every token
        let mut q = vec![0.5_f32; 4 * HEADS * head_dim];
        let mut k = vec![0.25_f32; 4 * KV_HEADS * head_dim];
        let (untouched_q, untouched_k) = (q.clone(), k.clone());
        rope.rotate_qk(
            &mut TensorMut::new(&mut q, [1, 4, HEADS, head_dim])?,
            &mut TensorMut::new(&mut k, [1, 4, KV_HEADS, head_dim])?,
            &prompt,
        )?;
        // Position 0 rotates nothing; all others do.
        assert_eq!(q[..HEADS * head_dim], untouched_q[..HEADS * head_dim]);
        assert_ne!(k[KV_HEADS * head_dim..], untouched_k[KV_HEADS * head_dim..]);

        let mut q = vec![0.5_f32; HEADS * head_dim];
        rope.rotate(&mut TensorMut::new(&mut q, [1, 1, HEADS, head_dim])?, &next)?;
        // The same token in a prompt that is one token longer.
        let mut longer = vec![0.5_f32; 5 * HEADS * head_dim];
        let rows = frequencies.rows(0..5)?;
        rope.rotate(
            &mut TensorMut::new(&mut longer, [1, 5, HEADS, head_dim])?,
            &rows,
        )?;
        assert_eq!(q, longer[4 * HEADS * head_dim..]);
    }
    println!("position 4 alone and behind a prompt: the same bits");
    Ok(())
}
