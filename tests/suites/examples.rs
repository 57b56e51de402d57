//! The examples of rope-core and rope-models, as `cargo run --example` runs them; each asserts its claims. They are
//! modules of this suite, which saves a program for each, and the examples that represent an engine's code rotate
//! golden data, too.

use half::bf16;
use rope_core::cache::{CacheLayout, QuantFormat};
use rope_core::norm::{Norm, NormFormula};
use rope_core::{Frequencies, Pairing, Positions, Rope, Rows, Scaling, TensorMut};
use rope_models::Config;
use rope_tests::golden::Golden;
use rope_tests::quantize::{self, Factor};

use crate::models::{config as config_of, config_file};

macro_rules! examples {
    ($($(#[$attribute:meta])* $name:ident: $path:literal;)*) => {
        $(
            $(#[$attribute])*
            #[path = $path]
            mod $name;

            $(#[$attribute])*
            #[test]
            fn $name() {
                $name::main().expect($path);
            }
        )*

        const ALL: &[&str] = &[$($path),*];
    };
}

examples! {
    #[cfg(not(target_family = "wasm"))]
    continuous_batching: "../../rope-core/examples/continuous_batching.rs";
    dual_chunk: "../../rope-core/examples/dual_chunk.rs";
    given_rows: "../../rope-core/examples/given_rows.rs";
    kv_cache: "../../rope-core/examples/kv_cache.rs";
    learn_frequencies: "../../rope-core/examples/learn_frequencies.rs";
    move_slots: "../../rope-core/examples/move_slots.rs";
    no_std_layer: "../../rope-core/examples/no_std_layer.rs";
    one_pass: "../../rope-core/examples/one_pass.rs";
    packed_qkv: "../../rope-core/examples/packed_qkv.rs";
    several_axes: "../../rope-core/examples/several_axes.rs";
    #[cfg(not(target_family = "wasm"))]
    threads: "../../rope-core/examples/threads.rs";
    training: "../../rope-core/examples/training.rs";
    config: "../../rope-core/models/examples/config.rs";
    deepseek_mla: "../../rope-core/models/examples/deepseek_mla.rs";
    explain: "../../rope-core/models/examples/explain.rs";
    gemma3_fp8: "../../rope-core/models/examples/gemma3_fp8.rs";
    gguf: "../../rope-core/models/examples/gguf.rs";
    llama: "../../rope-core/models/examples/llama.rs";
    qwen2_5_vl: "../../rope-core/models/examples/qwen2_5_vl.rs";
}

/// The list of modules above may lack a file of the folder.
#[test]
fn all_are_here() {
    let mut files = Vec::new();
    for folder in [
        "../../rope-core/examples",
        "../../rope-core/models/examples",
    ] {
        let path = format!("{}/suites/{folder}", env!("CARGO_MANIFEST_DIR"));
        for file in std::fs::read_dir(path).expect("the examples") {
            let name = file.expect("a file").file_name().into_string();
            files.push(format!("{folder}/{}", name.expect("a name")));
        }
    }
    files.sort();
    assert_eq!(files, ALL);
}

/// Returns a file's queries or keys and their rotation in half pairs: by the f32 cos and sin nearest to the exact ones,
/// in two products and a sum.
fn rotated(file: &Golden, tensor: &str) -> [Vec<f32>; 2] {
    assert_eq!(file.pairings(), (Pairing::Half, Pairing::Half));
    let x: Vec<f32> = file.bits(&format!("{tensor}_in_f32"));
    let heads = file.decimal(&format!("{tensor}_heads"));
    let angles = file.exact_angles();
    let pairs = file.decimal("n_freq");
    let mut y = x.clone();
    for (index, (x, y)) in x.chunks(2 * pairs).zip(y.chunks_mut(2 * pairs)).enumerate() {
        for pair in 0..pairs {
            let (cos, sin) = angles[index / heads * pairs + pair];
            let (cos, sin) = (cos as f32, sin as f32);
            y[pair] = x[pair] * cos - x[pair + pairs] * sin;
            y[pair + pairs] = x[pair] * sin + x[pair + pairs] * cos;
        }
    }
    [x, y]
}

#[test]
fn llama_decodes_golden_tokens() {
    let file = Golden::file("apply/llama3_1_8b.txt");
    let model = Config::from_json(llama::CONFIG).and_then(|config| config.model());
    let model = model.expect("a configuration");
    let rotation = model.rotation().expect("a Llama has one");
    let [[mut q, expected_q], [k, expected_k]] = ["q", "k"].map(|tensor| rotated(&file, tensor));
    let positions: Vec<i64> = file.decimals("positions_axis0");
    let tokens = positions.len();
    let mut cache = llama::KvCache::new(1, tokens, 128).expect("a cache");
    for (token, position) in positions.into_iter().enumerate() {
        let rows = rotation.rows(&[position]).expect("a position");
        let (q, k) = (&mut q[token * 256..][..256], &k[token * 128..][..128]);
        llama::step(rotation, &rows, &mut cache, q, [k, k]).expect("a step");
    }
    assert_eq!(q, expected_q);
    assert_eq!(cache.keys, expected_k);
}

#[test]
fn gguf_rotates_golden_tokens() {
    let file = Golden::file("apply/llama2_7b.txt");
    let model = gguf::model(&gguf::llama_keys(10_000.0), None).expect("a file");
    let rotation = model.rotation().expect("a Llama has one");
    let permuted = |x: Vec<f32>| gguf::permuted(&x, 128);
    let [[mut q, expected_q], [mut k, expected_k]] =
        ["q", "k"].map(|tensor| rotated(&file, tensor).map(permuted));
    let positions: Vec<i64> = file.decimals("positions_axis0");
    gguf::rotate(rotation, &positions, &mut q, &mut k).expect("a step");
    assert_eq!((q, k), (expected_q, expected_k));
}

#[test]
fn qwen2_5_vl_rotates_golden_tokens() {
    let file = Golden::file("apply/qwen2_vl_7b_mrope.txt");
    let model = config_of(&config_file("qwen2_vl_7b_mrope"))
        .model()
        .expect("a configuration");
    let rotation = model.rotation().expect("it has one");
    let axes = [0, 1, 2].map(|axis| file.decimals::<i64>(&format!("positions_axis{axis}")));
    let ids: Vec<[i64; 3]> = (0..axes[0].len())
        .map(|token| axes.each_ref().map(|ids| ids[token]))
        .collect();
    let [[mut q, expected_q], [mut k, expected_k]] =
        ["q", "k"].map(|tensor| rotated(&file, tensor));
    qwen2_5_vl::rotate(rotation, &ids, &mut q, &mut k).expect("a step");
    assert_eq!((q, k), (expected_q, expected_k));
}

#[test]
fn gemma3_writes_golden_keys() {
    let file = Golden::file("norm/gemma3_d256.txt");
    let [tokens, head_dim] = ["tokens", "head_dim"].map(|key| file.decimal(key));
    let bits = |key: &str| file.bits::<bf16>(key);
    // The rows of the model, which rounds them to bf16.
    let table = |key: &str| {
        bits(key)
            .into_iter()
            .map(bf16::to_f32)
            .collect::<Vec<f32>>()
    };
    let (cos, sin) = (table("cos_bf16_bf16"), table("sin_bf16_bf16"));
    let rows = Rows::from_cos_sin(&cos, &sin, [tokens, head_dim / 2], head_dim)
        .expect("the rows of the file");
    let (q_weight, k_weight) = (bits("q_weight_bf16"), bits("k_weight_bf16"));
    let eps = file.bits::<f32>("eps_f32")[0];
    let norms =
        [&q_weight, &k_weight].map(|weight| Norm::new(NormFormula::GEMMA, eps).with_weight(weight));
    let (mut q, k) = (bits("q_in_bf16"), bits("k_in_bf16"));
    let layout = CacheLayout::nhd([2, 4, 1, head_dim]).expect("a cache");
    let mut pages = gemma3_fp8::Pages {
        layout,
        keys: vec![0; layout.end()],
        values: vec![0; layout.end()],
        scale: 0.0625,
    };
    let slots = [6, 1];
    assert_eq!(slots.len(), tokens);
    gemma3_fp8::step(
        Rope::new(Pairing::Half),
        norms,
        &rows.into(),
        &mut q,
        [&k, &k],
        &mut pages,
        &slots,
    )
    .expect("a step");
    assert_eq!(q, bits("q_rope_once_bf16"));
    let codes = |head: &[bf16]| {
        let values: Vec<f32> = head.iter().map(|x| x.to_f32()).collect();
        quantize::encode_head(QuantFormat::E4m3, Factor::Divide(0.0625), &values)
    };
    let expected = bits("k_rope_once_bf16");
    for (slot, (key, value)) in slots
        .into_iter()
        .zip(expected.chunks(head_dim).zip(k.chunks(head_dim)))
    {
        let at = slot as usize * head_dim..(slot as usize + 1) * head_dim;
        assert_eq!(pages.keys[at.clone()], codes(key));
        assert_eq!(pages.values[at], codes(value));
    }
}

#[test]
#[cfg(not(target_family = "wasm"))]
fn continuous_batching_rotates_golden_tokens() {
    let file = Golden::file("apply/llama2_7b.txt");
    let frequencies = Frequencies::new(128, 10_000.0, &Scaling::Default).expect("a model");
    let positions: Vec<i64> = file.decimals("positions_axis0");
    let starts = &positions;
    let offsets: Vec<i64> = (0..=positions.len() as i64).collect();
    let positions = Positions::packed_from(&offsets, starts).expect("a token of each sequence");
    let rows = frequencies.rows(positions).expect("positions");
    let [original, expected] = rotated(&file, "q");
    for threads in 1..=4 {
        let mut q = original.clone();
        let mut x = TensorMut::new(&mut q, [1, rows.len(), 2, 128]).expect("a tensor");
        continuous_batching::rotate_on_threads(Rope::new(Pairing::Half), &mut x, &rows, threads)
            .expect("parts of it");
        assert_eq!(q, expected, "{threads} threads");
    }
}

#[test]
fn no_std_layer_rotates_golden_tokens() {
    let file = Golden::file("apply/llama2_7b.txt");
    let mut storage = no_std_layer::library::EMPTY;
    let rotary = no_std_layer::library::Rotary::new(&mut storage, 10_000.0).expect("a model");
    let [mut q, expected] = rotated(&file, "q");
    let positions: Vec<i64> = file.decimals("positions_axis0");
    for (heads, position) in q.chunks_mut(2 * 128).zip(positions) {
        rotary.rotate(heads, position).expect("two heads");
    }
    assert_eq!(q, expected);
}
