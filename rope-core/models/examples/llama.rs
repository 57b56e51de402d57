//! A Llama's prefill and decode with a KV cache, from its `config.json`.
//!
//! Each step rotates the queries in place, and writes the rotated keys and the values into a layer's cache, after its
//! tokens. A prompt in one step and the same tokens one by one give the same attention, bit for bit.
//!
//! `cargo run -p rope-models --example llama`

use rope_core::cache::{CacheLayout, CacheMut};
use rope_core::{AnyRows, Tensor, TensorMut};
use rope_models::{Config, Error, Rotation};

pub(crate) const CONFIG: &str = r#"{
    "model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8,
    "num_hidden_layers": 2, "max_position_embeddings": 131072, "rope_theta": 500000.0,
    "rope_scaling": {
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192
    }
}"#;

/// The keys and values of one layer, `[kv_heads, capacity, head_dim]` each.
pub(crate) struct KvCache {
    layout: CacheLayout,
    pub(crate) keys: Vec<f32>,
    values: Vec<f32>,
    tokens: usize,
}

impl KvCache {
    pub(crate) fn new(kv_heads: usize, capacity: usize, head_dim: usize) -> Result<Self, Error> {
        let layout = CacheLayout::hnd([1, kv_heads, capacity, head_dim])?;
        let memory = || vec![0.0; layout.end()];
        Ok(KvCache {
            layout,
            keys: memory(),
            values: memory(),
            tokens: 0,
        })
    }
}

/// Runs one layer's step, between the projections and the scores: `q` is `[tokens, heads, head_dim]`, `k` and `v` are
/// `[tokens, kv_heads, head_dim]`, and the rows are those of the tokens' positions.
pub(crate) fn step(
    rotation: &Rotation,
    rows: &AnyRows<'_>,
    cache: &mut KvCache,
    q: &mut [f32],
    [k, v]: [&[f32]; 2],
) -> Result<(), Error> {
    let (tokens, head_dim) = (rows.rows().len(), rotation.head_dim());
    let [heads, kv_heads] = [q.len(), k.len()].map(|len| len / tokens / head_dim);
    let shape = [1, tokens, kv_heads, head_dim];
    let rope = rotation.rope();
    rope.rotate(&mut TensorMut::new(q, [1, tokens, heads, head_dim])?, rows)?;
    let slots = cache.tokens..cache.tokens + tokens;
    let mut keys = CacheMut::new(&mut cache.keys, cache.layout)?;
    let mut values = CacheMut::new(&mut cache.values, cache.layout)?;
    rope.rotate_into(
        &Tensor::new(k, shape)?,
        &mut keys.slots(slots.clone()),
        rows,
    )?;
    rope.apply_into(&Tensor::new(v, shape)?, &mut values.slots(slots))?;
    cache.tokens += tokens;
    Ok(())
}

/// Computes causal attention in plain code, for queries that are the last tokens in the cache.
fn attend(cache: &KvCache, q: &[f32], [heads, head_dim]: [usize; 2]) -> Vec<f32> {
    let capacity = cache.layout.shape().block_size;
    let kv_heads = cache.layout.shape().heads;
    let first = cache.tokens - q.len() / heads / head_dim;
    let mut output = vec![0.0; q.len()];
    for (index, (q, output)) in q
        .chunks(head_dim)
        .zip(output.chunks_mut(head_dim))
        .enumerate()
    {
        let (seen, head) = (first + index / heads + 1, index % heads * kv_heads / heads);
        let of_token = |memory: &[f32], token: usize| {
            let at = (head * capacity + token) * head_dim;
            memory[at..at + head_dim].to_vec()
        };
        let score = |token: usize| {
            let k = of_token(&cache.keys, token);
            let dot: f32 = q.iter().zip(&k).map(|(q, k)| q * k).sum();
            (dot / (head_dim as f32).sqrt()).exp()
        };
        let weights: Vec<f32> = (0..seen).map(score).collect();
        let sum: f32 = weights.iter().sum();
        for (token, weight) in weights.iter().enumerate() {
            for (output, v) in output.iter_mut().zip(of_token(&cache.values, token)) {
                *output += weight / sum * v;
            }
        }
    }
    output
}

pub(crate) fn main() -> Result<(), Error> {
    const HEADS: usize = 32;
    const KV_HEADS: usize = 8;
    const TOKENS: usize = 6;

    // once per model
    let model = Config::from_json(CONFIG)?.model()?;
    let layers = model.layers()?;
    let head_dim = model.rotation()?.head_dim();

    // the output of the projections
    let numbers = |heads: usize, seed: usize| -> Vec<f32> {
        let number = |i: usize| (i * 7919 % 1009 + seed) as f32 / 1009.0 - 0.5;
        (0..TOKENS * heads * head_dim).map(number).collect()
    };
    // The steps always sum to the number of tokens: a prompt alone, prefill and decode, one by one.
    let mut outputs = Vec::new();
    for steps in [&[TOKENS][..], &[4, 1, 1], &[1; TOKENS]] {
        let mut caches = Vec::new();
        for _ in 0..layers.len() {
            caches.push(KvCache::new(KV_HEADS, 16, head_dim)?);
        }
        let mut output = Vec::new();
        let mut start = 0;
        for &tokens in steps {
            // once per forward step, shared by all layers
            let rows = model.rotation()?.rows(start..start + tokens)?;
            for (layer, cache) in layers.iter().zip(&mut caches) {
                let part = |all: Vec<f32>, heads: usize| {
                    all[start * heads * head_dim..][..tokens * heads * head_dim].to_vec()
                };
                let mut q = part(numbers(HEADS, layer.index), HEADS);
                let k = part(numbers(KV_HEADS, layer.index + 10), KV_HEADS);
                let v = part(numbers(KV_HEADS, layer.index + 20), KV_HEADS);
                let rotation = layer.rotation.expect("every layer of a Llama rotates");
                step(rotation, &rows, cache, &mut q, [&k, &v])?;
                output.push((layer.index, start, attend(cache, &q, [HEADS, head_dim])));
            }
            start += tokens;
        }
        // by layer, then by token
        output.sort_by_key(|(layer, start, _)| (*layer, *start));
        outputs.push(
            output
                .into_iter()
                .flat_map(|(_, _, values)| values)
                .collect::<Vec<f32>>(),
        );
    }
    assert_eq!(outputs[0], outputs[1]);
    assert_eq!(outputs[0], outputs[2]);
    println!(
        "{} layers: a prompt of {TOKENS}, and decoded token by token: equal",
        layers.len()
    );
    Ok(())
}
