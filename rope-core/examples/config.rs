//! Rotates the queries and keys of a Llama 3.1 from its `config.json`.
//!
//! The file gives the frequencies, their scaling and the pairing. A first step rotates a prompt, a second one the next
//! token: the rows of a step serve every layer, and a token gets the same bits in whatever step it is rotated.
//!
//! `cargo run -p rope-core --features serde --example config`

use rope_core::{Config, Error, Rope, TensorMut};

const CONFIG: &str = r#"{
    "model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8,
    "rope_theta": 500000.0,
    "rope_scaling": {
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192
    }
}"#;
const HEADS: usize = 32;
const KV_HEADS: usize = 8;

pub(crate) fn main() -> Result<(), Error> {
    // once per model
    let config = Config::from_json(CONFIG)?;
    let frequencies = config.frequencies()?;
    let head_dim = config.head_dim()?;
    let (input, output) = config.pairing()?;
    let rope = Rope::new(input).output_pairing(output);
    println!(
        "head_dim {head_dim}, rotary_dim {}, {input} pairs, backend {}",
        frequencies.rotary_dim(),
        rope.backend_in_use()
    );

    // once per forward step: a prompt of four tokens, then the fifth
    let prompt = frequencies.rows(0..4)?;
    let next = frequencies.rows(4..5)?;
    for _layer in 0..2 {
        // what the projections would have given, the same for every token
        let mut q = vec![0.5_f32; 4 * HEADS * head_dim];
        let mut k = vec![0.25_f32; 4 * KV_HEADS * head_dim];
        let (untouched_q, untouched_k) = (q.clone(), k.clone());
        rope.rotate_qk(
            &mut TensorMut::new(&mut q, [1, 4, HEADS, head_dim])?,
            &mut TensorMut::new(&mut k, [1, 4, KV_HEADS, head_dim])?,
            &prompt,
        )?;
        // Position 0 turns nothing; all others do.
        assert_eq!(q[..HEADS * head_dim], untouched_q[..HEADS * head_dim]);
        assert_ne!(k[KV_HEADS * head_dim..], untouched_k[KV_HEADS * head_dim..]);

        let mut q = vec![0.5_f32; HEADS * head_dim];
        rope.rotate(&mut TensorMut::new(&mut q, [1, 1, HEADS, head_dim])?, &next)?;
        // The same token, had the prompt been one longer.
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
