//! A program for GGUF files: the rotation that llama.cpp computes, from the bytes of the file.
//!
//! `cargo run -p rope-models --example gguf -- MODEL.gguf` prints each layer of a file. Without a file the program has
//! its own keys and tensor, as from another parser.
//!
//! The converter permutes a Llama's projections, so that pairs in two halves in Hugging Face's code are neighbors in
//! the file. Scores are the same: the rotation of permuted heads is the permuted rotation.

use rope_core::{Pairing, TensorMut};
use rope_models::{Error, Gguf, GgufValue, Model, Rotation};

/// Reads a file's bytes, possibly mapped: only the header, and the tensor of factors if there is one.
pub(crate) fn file(bytes: &[u8]) -> Result<Model, Error> {
    Gguf::from_bytes(bytes)?.model()
}

/// Prints one line per layer.
fn show(model: &Model) -> Result<(), Error> {
    println!("{}", model.name());
    for layer in model.layers()?.iter() {
        match layer.rotation {
            None => println!("layer {}: does not rotate", layer.index),
            Some(rotation) => println!(
                "layer {}: channels {:?} of {}, {:?}, attention factor {}",
                layer.index,
                rotation.window(),
                rotation.head_dim(),
                rotation.pairing().0,
                rotation.frequencies().attention_factor(),
            ),
        }
    }
    Ok(())
}

/// Reads the result of another parser: the keys that begin with `general.` or `llama.`, and `rope_freqs.weight`.
pub(crate) fn model(
    keys: &[(&str, GgufValue<'_>)],
    rope_freqs: Option<&[f32]>,
) -> Result<Model, Error> {
    Gguf::new(keys)?.with_freq_factors(rope_freqs).model()
}

/// Returns the keys of a Llama 2 or 3 with heads of 128 channels.
pub(crate) fn llama_keys(base: f64) -> [(&'static str, GgufValue<'static>); 6] {
    [
        ("general.architecture", GgufValue::Text("llama")),
        ("llama.block_count", GgufValue::Integer(32)),
        ("llama.embedding_length", GgufValue::Integer(4096)),
        ("llama.attention.head_count", GgufValue::Integer(32)),
        ("llama.rope.dimension_count", GgufValue::Integer(128)),
        ("llama.rope.freq_base", GgufValue::Float(base)),
    ]
}

/// Rotates a layer's queries and keys, `[tokens, heads, head_dim]` each, in place.
pub(crate) fn rotate(
    rotation: &Rotation,
    positions: &[i64],
    q: &mut [f32],
    k: &mut [f32],
) -> Result<(), Error> {
    let (tokens, head_dim) = (positions.len(), rotation.head_dim());
    let [heads, kv_heads] = [q.len(), k.len()].map(|len| len / tokens / head_dim);
    rotation.rope().rotate_qk(
        &mut TensorMut::new(q, [1, tokens, heads, head_dim])?,
        &mut TensorMut::new(k, [1, tokens, kv_heads, head_dim])?,
        &rotation.rows(positions)?,
    )?;
    Ok(())
}

/// Permutes each head as the converter does: channel `i` of the first half, then channel `i` of the second.
pub(crate) fn permuted(heads: &[f32], head_dim: usize) -> Vec<f32> {
    let pairs_of = |head: &[f32]| -> Vec<f32> {
        let (first, second) = head.split_at(head_dim / 2);
        first
            .iter()
            .zip(second)
            .flat_map(|(x, y)| [*x, *y])
            .collect()
    };
    heads.chunks(head_dim).flat_map(pairs_of).collect()
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    if let Some(path) = std::env::args().find(|name| name.ends_with(".gguf")) {
        show(&file(&std::fs::read(path)?)?)?;
        return Ok(());
    }
    // A Llama 3.1 has its scaling in a tensor that no key names: the keys alone give no result until the program has
    // looked for the tensor.
    let keys = llama_keys(500_000.0);
    let untold = Gguf::new(&keys)?.model()?;
    let error = untold.rotation().expect_err("the tensor may be there");
    println!("without having looked: {error}");

    let factors: Vec<f32> = (0..64)
        .map(|pair| if pair < 32 { 1.0 } else { 8.0 })
        .collect();
    let model = model(&keys, Some(&factors))?;
    let rotation = model.rotation()?;
    assert_eq!(
        rotation.pairing(),
        (Pairing::Interleaved, Pairing::Interleaved)
    );

    // The same model in Hugging Face's layout, with heads that are not permuted.
    let half = rope_core::Rope::new(Pairing::Half);
    let numbers = |heads: usize| -> Vec<f32> {
        (0..3 * heads * 128)
            .map(|i| (i * 7919 % 1009) as f32 / 1009.0 - 0.5)
            .collect()
    };
    let (mut q, mut k) = (numbers(32), numbers(8));
    let (mut file_q, mut file_k) = (permuted(&q, 128), permuted(&k, 128));
    let positions = [0, 7, 100_000];
    rotate(rotation, &positions, &mut file_q, &mut file_k)?;
    let rows = rotation.rows(&positions)?;
    half.rotate(&mut TensorMut::new(&mut q, [1, 3, 32, 128])?, &rows)?;
    half.rotate(&mut TensorMut::new(&mut k, [1, 3, 8, 128])?, &rows)?;
    assert_eq!((file_q, file_k), (permuted(&q, 128), permuted(&k, 128)));
    println!(
        "{} rotates neighbors; halves of unpermuted heads get the same bits",
        model.name()
    );
    Ok(())
}
