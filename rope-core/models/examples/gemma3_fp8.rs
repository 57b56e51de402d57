//! Gemma 3 into a paged cache of FP8: one call norms and rotates keys, and rounds them to bf16 and to E4M3.
//!
//! Five of six layers have a sliding window and a base of 10,000; the sixth has full attention, a base of 1,000,000 and
//! linear scaling: a step makes rows of each. Queries and keys have norms with separate weights.
//!
//! `cargo run -p rope-models --example gemma3_fp8`

use half::bf16;
use rope_core::cache::{CacheFormat, CacheLayout, CacheMut, QuantFormat, QuantScale};
use rope_core::norm::Norm;
use rope_core::{AnyRows, Rope, Tensor, TensorMut};
use rope_models::{Config, Error};

const CONFIG: &str = r#"{
    "model_type": "gemma3_text", "hidden_size": 2560, "num_attention_heads": 8, "num_key_value_heads": 4,
    "head_dim": 256, "num_hidden_layers": 12, "sliding_window": 1024, "sliding_window_pattern": 6,
    "max_position_embeddings": 131072, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0,
    "rope_local_base_freq": 10000.0, "rope_scaling": { "rope_type": "linear", "factor": 8.0 }
}"#;

/// The pages of one layer: `[pages, page_size, kv_heads, head_dim]` of E4M3, with one scale for all.
pub(crate) struct Pages {
    pub(crate) layout: CacheLayout,
    pub(crate) keys: Vec<u8>,
    pub(crate) values: Vec<u8>,
    pub(crate) scale: f32,
}

/// Runs one layer's step: `q` is `[tokens, heads, head_dim]` and rotates in place; `k` and `v` are `[tokens, kv_heads,
/// head_dim]` and go into the slots of the pages.
pub(crate) fn step(
    rope: Rope,
    [q_norm, k_norm]: [Norm<'_>; 2],
    rows: &AnyRows<'_>,
    q: &mut [bf16],
    [k, v]: [&[bf16]; 2],
    pages: &mut Pages,
    slots: &[i64],
) -> Result<(), Error> {
    let shape = pages.layout.shape();
    let (tokens, head_dim) = (slots.len(), shape.head_dim);
    let heads = q.len() / tokens / head_dim;
    let mut q = TensorMut::new(q, [1, tokens, heads, head_dim])?;
    rope.with_norm(q_norm).rotate(&mut q, rows)?;

    let kv = [1, tokens, shape.heads, head_dim];
    let scale = QuantScale::Divide(pages.scale.into());
    let format = QuantFormat::E4m3;
    let mut keys = CacheMut::coded(
        &mut pages.keys,
        pages.layout,
        CacheFormat::quantized(format, scale),
    )?;
    let mut values = CacheMut::coded(
        &mut pages.values,
        pages.layout,
        CacheFormat::quantized(format, scale),
    )?;
    rope.with_norm(k_norm)
        .rotate_into(&Tensor::new(k, kv)?, &mut keys.slots(slots), rows)?;
    rope.apply_into(&Tensor::new(v, kv)?, &mut values.slots(slots))?;
    Ok(())
}

pub(crate) fn main() -> Result<(), Error> {
    const HEADS: usize = 8;
    const KV_HEADS: usize = 4;
    const HEAD_DIM: usize = 256;
    const PAGE_SIZE: usize = 16;

    // once per model
    let model = Config::from_json(CONFIG)?.model()?;
    let layers = model.layers()?;
    let norm = model.norm()?.expect("Gemma 3 norms queries and keys").norm;
    let numbers = |len: usize, seed: usize| -> Vec<bf16> {
        let number = |i: usize| (i * 7919 % 1009 + seed) as f32 / 512.0 - 1.0;
        (0..len).map(|i| bf16::from_f32(number(i))).collect()
    };
    let layout = CacheLayout::nhd([4, PAGE_SIZE, KV_HEADS, HEAD_DIM])?;
    let mut pages: Vec<Pages> = layers
        .iter()
        .map(|_| Pages {
            layout,
            keys: vec![0; layout.end()],
            values: vec![0; layout.end()],
            scale: 0.0625,
        })
        .collect();

    // A step of three tokens at positions 1000..1003, whose slots are on two pages.
    let slots = [
        2 * PAGE_SIZE as i64 + 14,
        2 * PAGE_SIZE as i64 + 15,
        PAGE_SIZE as i64,
    ];
    let mut rows = Vec::new();
    for rotation in layers.rotations() {
        rows.push(rotation.rows(1000..1003)?);
    }
    assert_eq!(rows.len(), 2);
    for (layer, pages) in layers.iter().zip(&mut pages) {
        let rotation = layer.rotation.expect("every layer of Gemma 3 rotates");
        let of_rotation = layers
            .rotations()
            .iter()
            .position(|other| other == rotation);
        let rows = &rows[of_rotation.expect("it is one of them")];
        let (q_weight, k_weight) = (numbers(HEAD_DIM, 1), numbers(HEAD_DIM, 2));
        let norms = [norm.with_weight(&q_weight), norm.with_weight(&k_weight)];
        let mut q = numbers(slots.len() * HEADS * HEAD_DIM, layer.index);
        let k = numbers(slots.len() * KV_HEADS * HEAD_DIM, layer.index + 100);
        let v = numbers(slots.len() * KV_HEADS * HEAD_DIM, layer.index + 200);
        step(
            rotation.rope(),
            norms,
            rows,
            &mut q,
            [&k, &v],
            pages,
            &slots,
        )?;
        let of_slot = |memory: &[u8], slot: i64| {
            let at = slot as usize * KV_HEADS * HEAD_DIM;
            memory[at..at + KV_HEADS * HEAD_DIM].to_vec()
        };
        assert!(
            slots
                .iter()
                .all(|&slot| of_slot(&pages.keys, slot).iter().any(|&code| code != 0))
        );
        // Only the slots were written.
        let written = pages.keys.iter().filter(|&&code| code != 0).count();
        assert!(written <= slots.len() * KV_HEADS * HEAD_DIM);
    }
    let kinds: Vec<_> = layers.iter().map(|layer| layer.layer_type).collect();
    assert_eq!(
        kinds
            .iter()
            .filter(|kind| **kind == Some("full_attention"))
            .count(),
        2
    );
    println!(
        "{} layers, two of them with full attention: keys and values in E4M3",
        layers.len()
    );
    Ok(())
}
