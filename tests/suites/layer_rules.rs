//! Types with rules for layers that no other type has: `golden/types`, made by running their classes.

use half::bf16;
use rope_core::{Pairing, Positions, Rows, Tensor, TensorMut};
use rope_models::{Config, Layers};
use rope_tests::Number;
use rope_tests::golden::{self, Bits, Golden};

/// Returns the layers of a model of a type with these keys.
fn layers(model_type: &str, keys: &str) -> Layers {
    let entries = keys.trim().strip_prefix('{').expect("an object");
    let text = format!(r#"{{"model_type": "{model_type}", {entries}"#);
    let config = Config::from_json(&text).expect("JSON");
    let model = config.model().expect("a model");
    model.layers().expect("layers").clone()
}

/// Asserts that inverse frequencies are near those of a class, which are f32 from f32 arithmetic.
#[track_caller]
fn near(rotation: &rope_models::Rotation, theirs: &[f32]) {
    let pairs = rotation.frequencies().iter();
    assert_eq!(pairs.len(), theirs.len());
    for (pair, theirs) in pairs.zip(theirs) {
        let theirs = f64::from(*theirs);
        let ours = pair.inverse;
        assert!((ours - theirs).abs() <= 1e-6 * theirs, "{ours} {theirs}");
    }
}

#[test]
fn cohere2_moe_rotates_windows_and_dense_layers() {
    let file = golden::read("types/cohere2_moe.txt");
    let cases = file.lines().filter_map(|line| line.strip_prefix("case "));
    let cases: Vec<_> = cases.collect();
    assert_eq!(cases.len(), 4);
    for case in cases {
        let (keys, rotates) = case.split_once(" -> rotates ").expect("a case");
        let layers = layers("cohere2_moe", keys);
        let ours: String = layers
            .iter()
            .map(|layer| char::from(b'0' + u8::from(layer.rotation.is_some())))
            .collect();
        assert_eq!(ours, rotates, "{keys}");
    }
    let none = layers(
        "cohere2_moe",
        r#"{"num_hidden_layers": 5, "sliding_window": null}"#,
    );
    assert!(none.rotations().is_empty());
}

/// Asserts that a tensor rotated by the class's rows equals the class's result bit for bit.
fn rotates<E: Number + Bits>(
    file: &Golden,
    rotation: &rope_models::Rotation,
    shape: [usize; 4],
    within: f32,
) {
    let values = |key| -> Vec<E> { file.bits(&format!("{key}_{}", E::NAME)) };
    let wide = |key| -> Vec<f32> { values(key).into_iter().map(E::to_f32).collect() };
    let (cos, sin) = (wide("cos"), wide("sin"));
    let [_, tokens, _, head_dim] = shape;
    let rows = Rows::from_cos_sin(&cos, &sin, [tokens, head_dim / 2], head_dim).expect("rows");
    let mut q = values("q_in");
    let mut tensor = TensorMut::new(&mut q, shape).expect("a tensor");
    let rope = rotation.rope();
    rope.rotate(&mut tensor, &rows).expect("rotated");
    let bits = |list: Vec<E>| -> Vec<u32> { list.into_iter().map(E::bits).collect() };
    assert_eq!(bits(q), bits(values("q_out")));
    // The crate's own rows equal the class's, except for the rounding of its f32 angles and of its elements.
    let positions: Vec<i64> = file.decimals("positions");
    let made = rotation.rows(&positions[..]).expect("rows");
    for token in 0..tokens {
        let [ours, theirs] = [made.rows(), &rows].map(|rows| rows.row(token, 0).expect("a row"));
        let (ours, theirs) = ([ours.0, ours.1].concat(), [theirs.0, theirs.1].concat());
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert!((ours - theirs).abs() < within, "{ours} {theirs}");
        }
    }
}

#[test]
fn cohere2_moe_rotates_as_its_class() {
    let file = Golden::file("types/cohere2_moe.txt");
    let [head_dim, heads, tokens] = ["head_dim", "heads", "tokens"].map(|key| file.decimal(key));
    let base: f64 = file.bits("base")[0];
    let keys =
        format!(r#"{{"num_hidden_layers": 1, "head_dim": {head_dim}, "rope_theta": {base:?}}}"#);
    let made = layers("cohere2_moe", &keys);
    let rotation = made.get(0).expect("a layer").rotation.expect("a rotation");
    assert_eq!(
        rotation.pairing(),
        (Pairing::Interleaved, Pairing::Interleaved)
    );
    let shape = [1, tokens, heads, head_dim];
    rotates::<f32>(&file, rotation, shape, 1e-3);
    rotates::<bf16>(&file, rotation, shape, 4e-3);
}

#[test]
fn step3p5_has_the_parameters_of_the_first_layer_of_each_type() {
    let file = Golden::file("types/step3p5.txt");
    for case in ["case0", "case1", "case2"] {
        // Heads of 64 channels; the keys of a case omit them.
        let keys = file.text(case).replacen('{', r#"{"head_dim": 64, "#, 1);
        let layers = layers("step3p5", &keys);
        for kind in ["full_attention", "sliding_attention"] {
            let key = format!("{case}_{kind}_inv_freq_f32");
            if file.find(&key).is_none() {
                assert!(layers.iter().all(|layer| layer.layer_type != Some(kind)));
                continue;
            }
            let of_kind = layers.iter().filter(|layer| layer.layer_type == Some(kind));
            for layer in of_kind {
                let rotation = layer.rotation.expect("it rotates");
                near(rotation, &file.bits(&key));
                let factor: Vec<f64> = file.bits(&format!("{case}_{kind}_attention_scaling_f64"));
                assert_eq!([rotation.frequencies().attention_factor()], factor[..]);
                assert_eq!(rotation.pairing(), (Pairing::Half, Pairing::Half));
                assert_eq!((rotation.head_dim(), rotation.window().start), (64, 0));
            }
        }
    }
}

#[test]
fn dots3_note_has_two_shapes_of_latent_attention() {
    let file = Golden::file("types/dots3_note_text.txt");
    for case in ["case0", "case1"] {
        let layers = layers("dots3_note_text", file.text(case));
        let types: Vec<&str> = layers.iter().filter_map(|layer| layer.layer_type).collect();
        assert_eq!(types.join(" "), file.text(&format!("{case}_layer_types")));
        for layer in layers.iter() {
            let kind = layer.layer_type.expect("a type");
            let shape: Vec<&str> = file.text(&format!("{case}_{kind}")).split(' ').collect();
            let number = |name: &str| -> usize {
                let at = shape.iter().position(|word| *word == name).expect("a key");
                shape[at + 1].parse().expect("a number")
            };
            let (rest, rotary_dim) = (number("qk_nope_head_dim"), number("qk_rope_head_dim"));
            let rotation = layer.rotation.expect("it rotates");
            assert_eq!(rotation.window(), rest..rest + rotary_dim, "{case} {kind}");
            assert_eq!(rotation.head_dim(), rest + rotary_dim);
            assert_eq!(rotation.pairing(), (Pairing::Interleaved, Pairing::Half));
            near(rotation, &file.bits(&format!("{case}_{kind}_inv_freq_f32")));
            assert!(
                layer.norm().is_err(),
                "the rotating channels of keys are normed"
            );
        }
    }
}

/// The keys that `save_pretrained` writes for single layers mean the same as the keys of older files.
#[test]
fn keys_of_single_layers_match_their_type() {
    let types = r#""layer_types": ["sliding_attention", "sliding_attention", "full_attention"]"#;
    let same = |model_type: &str, older: &str, saved: &str| {
        let [older, saved] = [older, saved].map(|keys| {
            let keys = format!(r#"{{"num_hidden_layers": 3, {types}, {keys}}}"#);
            layers(model_type, &keys)
        });
        let rotations = |layers: &Layers| -> Vec<_> {
            let one = |layer: rope_models::Layer<'_>| layer.rotation.cloned();
            layers.iter().map(one).collect()
        };
        assert_eq!(rotations(&older), rotations(&saved), "{model_type}");
    };
    same(
        "gemma4_text",
        r#""head_dim": 32, "global_head_dim": 64"#,
        r#""head_dim": 32, "per_layer_config": {"2": {"head_dim": 64, "num_key_value_heads": 2}}"#,
    );
    same(
        "gemma4_text",
        r#""head_dim": 32, "global_head_dim": 32"#,
        r#""head_dim": 32, "per_layer_config": {}"#,
    );
    let own = r#"{"num_attention_heads": 64, "qk_nope_head_dim": 192}"#;
    same(
        "dots3_note_text",
        r#""use_dsa": false"#,
        &format!(r#""per_layer_config": {{"0": {own}, "1": {own}}}"#),
    );
    for wrong in [
        r#"{"full_attention": {}}"#,
        r#"{"0": 64}"#,
        r#"{"0": {"rope_theta": 5.0}}"#,
    ] {
        let text = format!(
            r#"{{"model_type": "gemma4_text", "num_hidden_layers": 3, {types}, "per_layer_config": {wrong}}}"#
        );
        let model = Config::from_json(&text).expect("JSON").model();
        let answers = model.is_ok_and(|model| model.layers().is_ok() || model.rotation().is_ok());
        assert!(!answers, "{wrong}");
    }
}

/// The class of dots3.note checks LongRoPE by one number of heads, and fails if layers with a window have another one.
#[test]
fn longrope_of_dots3_note_needs_equal_heads() {
    let ones = serde_json::json!(vec![1.0; 32]);
    let file = |keys: &str| {
        let text = format!(
            r#"{{"model_type": "dots3_note_text", "num_hidden_layers": 3, "rope_scaling": {{"rope_type": "longrope",
                "factor": 4.0, "original_max_position_embeddings": 4096, "short_factor": {ones},
                "long_factor": {ones}}} {keys}}}"#
        );
        let config = Config::from_json(&text).expect("JSON").with_length(16);
        let model = config.model()?;
        model.layers().map(|layers| layers.len())
    };
    for answered in [
        r#", "num_attention_heads": 64, "num_key_value_heads": 64"#,
        r#", "swa_num_attention_heads": 128, "swa_num_key_value_heads": 128"#,
        r#", "use_sliding_window": false"#,
    ] {
        assert!(file(answered).is_ok(), "{answered}: {:?}", file(answered));
    }
    for refused in [
        "",
        r#", "per_layer_config": {"2": {"num_attention_heads": 8}}"#,
    ] {
        let error = file(refused).expect_err(refused).to_string();
        assert!(error.contains("this rope_type fails"), "{error}");
    }
}

/// Files of dots3.note that are older than its keys by layer call the layers with full attention indexed.
#[test]
fn full_attention_of_older_files_is_indexed() {
    let rotation = |keys: &str| {
        let keys = format!(
            r#"{{"num_hidden_layers": 1, "layer_types": ["full_attention"], "rope_parameters": {{
                "full_attention": {{"rope_type": "default", "rope_theta": 1e4}},
                "indexed_attention": {{"rope_type": "default", "rope_theta": 1e6}},
                "sliding_attention": {{"rope_type": "default", "rope_theta": 1e5}}}} {keys}}}"#
        );
        let layers = layers("dots3_note_text", &keys);
        let layer = layers.get(0).expect("a layer");
        let base = layer
            .rotation
            .expect("a rotation")
            .frequencies()
            .iter()
            .nth(1);
        base.expect("a pair").inverse
    };
    let pairs = 32.0_f64;
    for (keys, base) in [
        ("", 1e6_f64),
        (r#", "use_dsa": true"#, 1e6),
        (r#", "use_dsa": false"#, 1e4),
        (r#", "per_layer_config": {}"#, 1e4),
    ] {
        let expected = base.powf(-1.0 / pairs);
        assert!((rotation(keys) - expected).abs() < 1e-12, "{keys:?}");
    }
}

/// Each half of a head has its own pairing and its own axis.
#[test]
fn gemma4_vision_rotates_as_its_class() {
    let file = Golden::file("types/gemma4_vision.txt");
    let [head_dim, heads, tokens] = ["head_dim", "heads", "tokens"].map(|key| file.decimal(key));
    let base: f64 = file.bits("base")[0];
    let keys =
        format!(r#"{{"num_hidden_layers": 1, "head_dim": {head_dim}, "rope_theta": {base:?}}}"#);
    let made = layers("gemma4_vision", &keys);
    let rotation = made.get(0).expect("a layer").rotation.expect("a rotation");
    assert_eq!(rotation.pairing(), (Pairing::Half, Pairing::Half));
    let values = |key| file.bits::<f32>(key);
    let bits = |list: &[f32]| -> Vec<u32> { list.iter().map(|value| value.to_bits()).collect() };
    // The class's own rows: rows of one axis have both halves of a half, and the second repeats the first.
    let axes = [
        "cos_axis0_f32",
        "cos_axis1_f32",
        "sin_axis0_f32",
        "sin_axis1_f32",
    ]
    .map(values);
    let of_axis = head_dim / 4;
    let width = axes[0].len() / tokens;
    let joined: Vec<f32> = (0..tokens)
        .flat_map(|token| {
            axes.iter()
                .flat_map(move |axis| &axis[token * width..][..of_axis])
        })
        .copied()
        .collect();
    let rows = Rows::new(&joined, [tokens, head_dim]).expect("rows");
    let shape = [1, tokens, heads, head_dim];
    let (q, expected) = (values("q_in_f32"), bits(&values("q_out_f32")));
    let mut rotated = q.clone();
    let mut tensor = TensorMut::new(&mut rotated, shape).expect("a tensor");
    let rope = rotation.rope();
    rope.rotate(&mut tensor, &rows).expect("rotated");
    assert_eq!(bits(&rotated), expected);
    let (mut queries, mut keys) = (q.clone(), q.clone());
    let [mut left, mut right] =
        [&mut queries, &mut keys].map(|list| TensorMut::new(list, shape).expect("a tensor"));
    rope.rotate_qk(&mut left, &mut right, &rows)
        .expect("rotated");
    assert_eq!(
        (bits(&queries), bits(&keys)),
        (expected.clone(), expected.clone())
    );
    let mut into = vec![0.0_f32; q.len()];
    let source = Tensor::new(&q, shape).expect("a tensor");
    let mut target = TensorMut::new(&mut into, shape).expect("a tensor");
    rope.rotate_into(&source, &mut target, &rows)
        .expect("rotated");
    assert_eq!(bits(&into), expected);
    // Rows of the file's frequencies equal the class's up to the last bits of its f32 angles.
    let positions = ["positions_axis0", "positions_axis1"].map(|key| file.decimals::<i64>(key));
    let positions = positions.concat();
    let made = rotation
        .rows(Positions::axis_major(&positions[..]))
        .expect("rows");
    for token in 0..tokens {
        let (ours, theirs) = (
            made.rows().row(token, 0).expect("a row"),
            rows.row(token, 0).expect("a row"),
        );
        for (ours, theirs) in ours
            .0
            .iter()
            .chain(ours.1)
            .zip(theirs.0.iter().chain(theirs.1))
        {
            assert!((ours - theirs).abs() < 1e-5, "{ours} {theirs}");
        }
    }
}
