//! Configuration files compared with the golden data, and their errors.

use crate::models::{config, config_file, of_formula};
use half::bf16;
use rope_core::axes::Axes;
use rope_core::cache::{CacheLayout, CacheMut};
use rope_core::error::PlanError;
use rope_core::norm::{NormFormula, NormReach};
use rope_core::stages::StageOrder;
use rope_core::{
    Dimension, Direction, Frequencies, Layout, Pairing, Rope, Scaling, Tensor, TensorMut,
};
use rope_models::{Config, Error, NormWeights, Rotation};
use rope_tests::bodies::config::Questions;
use rope_tests::golden::Golden;
use rope_tests::number::values;
use rope_tests::{Number, Source};

/// The error for an unknown model type.
const UNKNOWN_TYPE: &str = "model_type is \"new\", which is not known here; Config::with_model_type reads the file by \
    the rules of another type, Config::frequencies_over takes its base and scaling alone";

#[test]
fn golden_configurations_give_the_golden_frequencies() {
    for table in Golden::all("tables") {
        let (name, file) = (&table.name, config_file(&table.name));
        let config = config(&file);
        let frequencies = config.frequencies().unwrap();
        // The same parameters given by hand make an equal model.
        assert_eq!(
            frequencies,
            crate::models::frequencies(&table, None),
            "{name}"
        );

        let inverse: Vec<f64> = frequencies.iter().map(|pair| pair.inverse).collect();
        assert_eq!(inverse, table.bits::<f64>("inv_freq_exact_f64"), "{name}");
        for (pair, step) in frequencies.iter().zip(table.bits::<u128>("turn_step_u128")) {
            assert!(pair.step.abs_diff(step) <= 64, "{name}");
        }
        let factor = file["attention_factor_exact_f64"].as_f64();
        assert_eq!(Some(frequencies.attention_factor()), factor, "{name}");
        // The data of latent attention covers the rotating part of a head.
        let rotation = config.rotation().unwrap();
        let head_dim = rotation.head_dim() - rotation.window().start;
        let dims = [head_dim, rotation.window().len()];
        let golden = ["head_dim", "rotary_dim"].map(|key| file[key].as_u64());
        assert_eq!(dims.map(|dim| Some(dim as u64)), golden, "{name}");

        let layout = file["layout"].as_str().unwrap();
        let pairing = match layout {
            "interleaved_in_half_out" => (Pairing::Interleaved, Pairing::Half),
            _ if layout.starts_with("interleaved") => (Pairing::Interleaved, Pairing::Interleaved),
            _ if layout.starts_with("half") => (Pairing::Half, Pairing::Half),
            other => panic!("{other}"),
        };
        assert_eq!(config.pairing().unwrap(), pairing, "{name}");
        let axes = match layout {
            _ if layout.ends_with("mrope") => 3,
            _ if layout.ends_with("2d") => 2,
            _ => 1,
        };
        assert_eq!(frequencies.axes(), axes, "{name}");
    }
}

#[test]
fn golden_configurations_give_the_golden_axes() {
    let mut several = 0;
    for golden in Golden::all("apply") {
        let frequencies = config(&config_file(&golden.name)).frequencies().unwrap();
        let axes: Vec<usize> = frequencies.iter().map(|pair| pair.axis).collect();
        assert_eq!(
            axes,
            golden.decimals::<usize>("pair_axis"),
            "{}",
            golden.name
        );
        several += usize::from(frequencies.axes() > 1);
    }
    assert!(several >= 3, "{several}");
}

#[test]
fn deepseek_reports_its_softmax_factor() {
    let frequencies = config(&config_file("deepseek_v3")).frequencies().unwrap();
    let magnitude = 0.1 * 40f64.ln() + 1.0;
    assert!((frequencies.softmax_factor() - magnitude * magnitude).abs() < 1e-15);
    assert_eq!(frequencies.attention_factor(), 1.0);
}

/// Returns a configuration of a named model with the keys of its norm and four layers.
fn of_type(model_type: &str, keys: &str) -> Config {
    read(&format!(
        r#"{{"model_type": "{model_type}", "hidden_size": 1024, "num_attention_heads": 8, "num_hidden_layers": 4,
             "sliding_window": 512{}{keys}}}"#,
        if keys.is_empty() { "" } else { ", " }
    ))
}

/// Named models, the keys of their files, and the norm, read by hand from transformers 5.23.0 (`tests/golden/norms.py`
/// reads all of it): the formula, eps, and deviations from a norm of each head, before the rotation, with weights that
/// all heads share.
const NORMS: &str = r#"
    qwen3            |                              | llama 1e-6
    qwen3            | "rms_norm_eps": 3e-5         | llama 3e-5
    qwen3_next       |                              | gemma 1e-6
    gemma3_text      |                              | gemma 1e-6
    gemma3n_text     |                              | gemma3n 1e-6 values
    gemma4_text      |                              | gemma3n 1e-6 values
    glm4_moe         | "use_qk_norm": true          | llama 1e-5
    glm4_moe         | "use_qk_norm": false         | none
    glm4_moe         |                              | none
    olmo2            |                              | olmo2 1e-5 row per-head
    olmoe            |                              | llama 1e-5 row per-head
    minimax_m2       | "use_qk_norm": true          | llama 1e-6 row per-head
    hunyuan_v1_dense | "head_dim": 128              | llama 1e-5 after
    hunyuan_v1_moe   | "head_dim": 128              | llama 1e-5 after
    nanochat         |                              | llama4 1e-6 after weightless
    exaone4          |                              | llama 1e-5
    cohere           | "use_qk_norm": true          | cohere 1e-5 per-head
    cohere           |                              | none
    cohere2          |                              | none
    phi              | "qk_layernorm": true         | layer-norm 1e-5 bias
    phi              |                              | none
    persimmon        |                              | layer-norm 1e-5 bias
    persimmon        | "qk_layernorm": false        | none
    stablelm         | "qk_layernorm": true         | stable-lm 1e-5 per-head
    stablelm         |                              | none
    chameleon        | "rms_norm_eps": 1e-6         | chameleon 1e-5 per-head bias
    lfm2             | "norm_eps": 2e-6             | llama 2e-6
    molmo2_text      |                              | llama 1e-6
    molmo2_text      | "qk_norm_type": "olmo"       | llama 1e-6 row per-head
    molmo2_text      | "layer_norm_eps": 2e-6       | llama 2e-6
    llama4_text      | "use_qk_norm": false         | none
    llama            |                              | none
    mistral          |                              | none
    gpt_oss          |                              | none
    smollm3          |                              | none
    deepseek_v3      |                              | none
"#;

#[test]
fn named_models_have_the_norms_of_their_code() {
    for line in NORMS.trim().lines() {
        let columns: Vec<&str> = line.split('|').map(str::trim).collect();
        let [name, keys, expected] = columns[..] else {
            panic!("{line}")
        };
        let words: Vec<&str> = expected.split(' ').collect();
        let has = |word: &str| words.contains(&word);
        let config = of_type(name, keys);
        let found = config.norm().expect(line);
        assert_eq!(found.is_none(), has("none"), "{line}");
        if let Some(found) = found {
            let formula = match words[0] {
                "llama" => NormFormula::LLAMA,
                "olmo2" | "gemma3n" => NormFormula::OLMO2,
                "gemma" => NormFormula::GEMMA,
                "llama4" => NormFormula::LLAMA4,
                "cohere" | "layer-norm" | "stable-lm" => NormFormula::LAYER_NORM,
                "chameleon" => NormFormula::CHAMELEON,
                other => panic!("{other}"),
            };
            assert_eq!(found.norm.formula, formula, "{line}");
            assert_eq!(Ok(found.norm.eps), words[1].parse(), "{line}");
            assert_eq!(found.norm.reach == NormReach::Token, has("row"), "{line}");
            let after = found.norm.order == StageOrder::AfterRotation;
            assert_eq!(after, has("after"), "{line}");
            let weights = match (has("weightless"), has("per-head")) {
                (true, _) => NormWeights::None,
                (_, true) => NormWeights::PerHead,
                _ => NormWeights::Shared,
            };
            assert_eq!(found.weights, weights, "{line}");
            assert_eq!(found.bias, has("bias"), "{line}");
            assert_eq!(found.values, has("values"), "{line}");
        }
        for layer in config.layers().expect(line).iter() {
            let attention = layer.layer_type != Some("linear_attention");
            assert_eq!(layer.norm(), Ok(found.filter(|_| attention)), "{line}");
        }
    }
}

#[test]
fn layers_list_which_are_normed() {
    let normed = |config: &Config| -> Vec<bool> {
        let layers = config.layers().unwrap();
        layers
            .iter()
            .map(|layer| layer.norm().unwrap().is_some())
            .collect()
    };
    let rotates = |config: &Config| -> Vec<bool> {
        let layers = config.layers().unwrap();
        layers
            .iter()
            .map(|layer| layer.rotation.is_some())
            .collect()
    };
    let differ =
        |found| matches!(found, Err(Error::Unsupported { what, .. }) if what.contains("layers"));

    let llama4 = of_type("llama4_text", "");
    assert_eq!(normed(&llama4), [true, true, true, false]);
    assert!(differ(llama4.norm()));
    let chunked = llama4
        .with_layer_type("chunked_attention")
        .norm()
        .unwrap()
        .unwrap();
    assert_eq!(chunked.weights, NormWeights::None);
    assert_eq!(
        (chunked.norm.formula, chunked.norm.eps, chunked.norm.order),
        (NormFormula::LLAMA4, 1e-5, StageOrder::AfterRotation)
    );

    let mllama = of_type("mllama_text_model", "");
    assert_eq!(normed(&mllama), [false, false, false, true]);
    assert!(differ(mllama.norm()));

    let exaone4 = of_type("exaone4", "");
    assert_eq!(rotates(&exaone4), [true, true, true, false]);
    assert_eq!(normed(&exaone4), [true; 4]);

    let qwen3_next = of_type("qwen3_next", "");
    assert_eq!(normed(&qwen3_next), [false, false, false, true]);
    let linear = qwen3_next.clone().with_layer_type("linear_attention");
    assert_eq!(linear.norm(), Ok(None));
    assert!(qwen3_next.with_layer_type("bogus").norm().is_err());
}

#[test]
fn a_norm_without_a_formula_is_refused_and_its_rotation_is_not() {
    let zaya = r#""layer_types": ["hybrid", "hybrid", "hybrid", "hybrid_sliding"]"#;
    for (name, keys) in [("deepseek_v4", ""), ("zaya", zaya)] {
        let config = of_type(name, keys);
        let layers = config.layers().unwrap();
        let layer = layers.get(3).unwrap();
        assert!(layer.rotation.is_some(), "{name}");
        for found in [config.norm(), layer.norm()] {
            assert!(
                matches!(found, Err(Error::Unsupported { what, .. }) if what.contains("NormFormula")),
                "{name}: {found:?}"
            );
        }
    }
    let named = |name: &str, keys: &str| {
        let found = of_type(name, keys);
        assert!(found.layers().is_ok(), "{name}");
        match found.norm() {
            Err(Error::Unread { key, .. }) => key.as_str().to_string(),
            Err(Error::Invalid { key, .. }) => format!("{key}?"),
            other => panic!("{name}: {other:?}"),
        }
    };
    // The code of these models ignores the key.
    assert_eq!(named("qwen3", r#""use_qk_norm": false"#), "use_qk_norm");
    assert_eq!(named("llama", r#""qk_layernorm": true"#), "qk_layernorm");
    assert_eq!(named("lfm2", r#""rms_norm_eps": 1e-6"#), "rms_norm_eps");
    for value in ["null", "-1e-6", "1e300", "\"1e-6\""] {
        let keys = format!(r#""rms_norm_eps": {value}"#);
        assert_eq!(named("qwen3", &keys), "rms_norm_eps?", "{value}");
    }
    assert_eq!(named("glm4_moe", r#""use_qk_norm": null"#), "use_qk_norm?");
    assert_eq!(
        named("molmo2_text", r#""qk_norm_type": "both""#),
        "qk_norm_type?"
    );
}

fn read(text: &str) -> Config {
    Config::from_json(text).unwrap()
}

/// Returns a small model with these other entries; a Llama unless the entries name another type.
fn with(entries: &str) -> Config {
    let llama = match entries.contains("model_type") {
        true => "",
        false => r#", "model_type": "llama""#,
    };
    let text = format!(r#"{{"head_dim": 64, "max_position_embeddings": 4096 {llama} {entries}}}"#);
    read(&text)
}

#[track_caller]
fn same(config: &Config, base: f64, scaling: &Scaling<'_>) {
    let made = config.frequencies().unwrap();
    assert_eq!(made, of_formula(64, base, scaling).unwrap());
}

#[test]
fn old_and_new_spellings_mean_the_same() {
    let linear = Scaling::Linear { factor: 2.0 };
    for (entries, base, scaling) in [
        (
            r#", "rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 2}"#,
            5e5,
            linear,
        ),
        (
            r#", "rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 5e5}"#,
            5e5,
            linear,
        ),
        (
            r#", "rope_theta": 5e5, "rope_scaling": null"#,
            5e5,
            Scaling::Default,
        ),
        (r#", "model_type": "llama""#, 1e4, Scaling::Default),
        (r#", "model_type": "cohere""#, 5e5, Scaling::Default),
        (
            r#", "model_type": "hunyuan_v1_dense", "rope_theta": 1e4,
                "rope_scaling": {"type": "dynamic", "alpha": 1000.0, "factor": 1.0}"#,
            1e4,
            Scaling::NtkAlpha { alpha: 1000.0 },
        ),
    ] {
        same(&with(entries), base, &scaling);
    }
}

#[test]
fn layer_types_are_chosen_by_name() {
    // Gemma 3 as published; almost every value is a default of its class.
    let gemma = read(
        r#"{"model_type": "gemma3", "text_config": {"model_type": "gemma3_text", "hidden_size": 2560,
            "rope_scaling": {"factor": 8.0, "rope_type": "linear"}}}"#,
    );
    assert_eq!(
        gemma.frequencies().unwrap_err().to_string(),
        "layer_type (Config::with_layer_type) must be chosen from: full_attention, sliding_attention"
    );
    let full = of_formula(256, 1e6, &Scaling::Linear { factor: 8.0 });
    let sliding = of_formula(256, 1e4, &Scaling::Default);
    let of = |config: &Config, layer_type| config.clone().with_layer_type(layer_type).frequencies();
    assert_eq!(of(&gemma, "full_attention"), full);
    assert_eq!(of(&gemma, "sliding_attention"), sliding);
    assert!(matches!(of(&gemma, "other"), Err(Error::NoSuch { .. })));

    let nested = with(
        r#", "model_type": "beam", "rope_parameters": {"full_attention": null,
        "sliding_attention": {"rope_type": "linear", "factor": 2, "rope_theta": 1e4}, "rope_theta": 12345.0}"#,
    );
    assert!(matches!(nested.frequencies(), Err(Error::Ambiguous { .. })));
    // Keys that transformers itself writes beside the layer types are not read as flat parameters.
    same(
        &nested.clone().with_layer_type("sliding_attention"),
        1e4,
        &Scaling::Linear { factor: 2.0 },
    );
    let still = of(&nested, "full_attention");
    assert!(matches!(still, Err(Error::NothingRotates { .. })));
    let agreeing = r#", "model_type": "mellum",
        "rope_parameters": {"full_attention": {"rope_theta": 1e6}, "sliding_attention": {"rope_theta": 1e6}}"#;
    same(&with(agreeing), 1e6, &Scaling::Default);
    // A model without layer types refuses one.
    let flat = with("").with_layer_type("sliding_attention");
    assert!(matches!(
        flat.frequencies(),
        Err(Error::NoSuch {
            key: "layer_type (Config::with_layer_type)",
            ..
        })
    ));

    let gemma4 = read(
        r#"{"model_type": "gemma4_text", "head_dim": 256, "rope_parameters": {
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
            "full_attention": {"rope_type": "proportional", "rope_theta": 1e6, "partial_rotary_factor": 0.25}}}"#,
    );
    let proportional = Scaling::Proportional {
        partial_rotary_factor: 0.25,
        factor: 1.0,
    };
    let full = of_formula(512, 1e6, &proportional);
    assert_eq!(of(&gemma4, "full_attention"), full);
    let sliding = gemma4.with_layer_type("sliding_attention");
    assert_eq!(sliding.rotation().unwrap().window(), 0..256);
}

#[test]
fn composite_models_are_read_in_parts() {
    let qwen = read(
        r#"{"model_type": "qwen2_vl", "hidden_size": 3584, "num_attention_heads": 28, "rope_theta": 1e6,
            "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]},
            "vision_config": {"model_type": "qwen2_vl", "embed_dim": 1280, "hidden_size": 3584, "num_heads": 16}}"#,
    );
    let text = of_formula(Axes::mrope(128, [16, 24, 24]), 1e6, &Scaling::Default);
    assert_eq!(qwen.frequencies(), text);
    let vision = of_formula(Axes::vision(80), 1e4, &Scaling::Default);
    assert_eq!(qwen.with_part("vision_config").frequencies(), vision);
    let dino =
        read(r#"{"model_type": "dinov3_vit", "hidden_size": 384, "num_attention_heads": 6}"#);
    let dino = dino.frequencies().unwrap();
    let expected = of_formula(Axes::vision(64), 100.0, &Scaling::Turns).unwrap();
    assert_eq!(dino, expected);
    let first = dino.iter().next().unwrap();
    assert_eq!((first.whole_turns, first.step), (1, 0));
}

#[test]
fn what_a_rotation_is_more_than_frequencies_and_a_pairing() {
    let nanochat =
        read(r#"{"model_type": "nanochat", "hidden_size": 768, "num_attention_heads": 6}"#);
    let rotation = nanochat.rotation().unwrap();
    assert_eq!(
        (rotation.direction(), rotation.window()),
        (Direction::Transpose, 0..128)
    );
    assert_eq!(
        rotation.rope(),
        Rope::new(Pairing::Half)
            .with_direction(Direction::Transpose)
            .with_head_dim(128)
    );

    let deepseek =
        read(r#"{"model_type": "deepseek_v4", "head_dim": 512, "num_hidden_layers": 4}"#);
    let rotation = deepseek.rotation().unwrap();
    assert_eq!((rotation.head_dim(), rotation.window()), (512, 448..512));
    assert!(rotation.unrotates_output() && !rotation.rotates_values());

    let latent = read(r#"{"model_type": "deepseek_v3", "rope_theta": 1e4}"#);
    let rotation = latent.rotation().unwrap();
    assert_eq!((rotation.head_dim(), rotation.window()), (192, 128..192));
}

/// Models that rotate other channels than the first ones of a head, or several parts of it, have plans with a window.
#[test]
fn a_rotation_of_other_channels_has_a_window() {
    let interleaved = Rope::new(Pairing::Interleaved);
    for (text, window, plan) in [
        (
            r#"{"model_type": "deepseek_v2", "rope_theta": 1e4}"#,
            128..192,
            interleaved,
        ),
        (
            r#"{"model_type": "deepseek_v3", "rope_theta": 1e4}"#,
            128..192,
            interleaved.with_output_pairing(Pairing::Half),
        ),
        (
            r#"{"model_type": "deepseek_v4", "head_dim": 512, "num_hidden_layers": 4}"#,
            448..512,
            interleaved,
        ),
    ] {
        let rotation = read(text).rotation().expect(text);
        let (plan_of_heads, size) = (plan.with_window(window.start), rotation.head_dim());
        assert_eq!(rotation.rope(), plan_of_heads.with_head_dim(size), "{text}");
        // Whole heads, and heads in a cache, rotate like the channels alone.
        let (rows, head_dim) = (rotation.rows(5..8).expect("rows"), rotation.head_dim());
        let x: Vec<f32> = (0..3 * head_dim).map(|i| (i % 37) as f32 - 18.0).collect();
        let x = Tensor::new(&x, [1, 3, 1, head_dim]).expect("heads");
        let layout = CacheLayout::nhd([1, 3, 1, head_dim]).expect("a cache");
        let [mut got, mut expected] = [(); 2].map(|()| vec![0.0_f32; 3 * head_dim]);
        let mut cache = CacheMut::new(&mut got, layout).expect("a cache");
        let rope = rotation.rope();
        rope.rotate_into(&x, &mut cache.slots(0..3), &rows)
            .expect("they fit");
        let mut y = TensorMut::new(&mut expected, [1, 3, 1, head_dim]).expect("heads");
        plan.apply_into(&x, &mut y).expect("they fit");
        let mut y = y
            .narrow(Dimension::Channels, window.clone())
            .expect("channels");
        let x = x.narrow(Dimension::Channels, window).expect("channels");
        plan.rotate_into(&x, &mut y, &rows).expect("they fit");
        assert_eq!(got, expected, "{text}");
    }
    let rotation = read(r#"{"model_type": "gemma4_vision", "head_dim": 72}"#)
        .rotation()
        .expect("gemma4_vision");
    assert_eq!(
        rotation.rope(),
        Rope::new(Pairing::Half).with_parts(2).with_head_dim(72)
    );
    // A plan itself rotates a part at the beginning.
    let partial = read(
        r#"{"model_type": "stablelm", "hidden_size": 2560, "num_attention_heads": 32, "rope_theta": 10000}"#,
    );
    let rotation = partial.rotation().expect("stablelm");
    assert_eq!(rotation.rope(), Rope::new(Pairing::Half).with_head_dim(80));
}

/// Keys that agree with the code are accepted.
#[test]
fn keys_that_agree_with_the_code_are_accepted() {
    let of = |model_type: &str, key: &str| {
        let keys = format!(r#""hidden_size": 512, "num_attention_heads": 8, {key}"#);
        let text = format!(r#"{{"model_type": "{model_type}", "rotary_dim": null, {keys}}}"#);
        read(&text).rotation().map(|rotation| rotation.pairing().0)
    };
    assert_eq!(
        of("cohere", r#""rope_gptj": true"#),
        Ok(Pairing::Interleaved)
    );
    assert_eq!(of("llama", r#""rope_gptj": false"#), Ok(Pairing::Half));
    assert_eq!(of("gptj", r#""rotary": true"#), Ok(Pairing::Interleaved));
    for (model_type, entry, key) in [
        ("cohere", r#""rope_gptj": false"#, "rope_gptj"),
        ("llama", r#""rope_gptj": true"#, "rope_gptj"),
        ("gptj", r#""rotary": false"#, "rotary"),
    ] {
        let found = of(model_type, entry);
        assert!(
            matches!(&found, Err(Error::Unread { key: own, .. }) if own == key),
            "{model_type}: {found:?}"
        );
    }
}

#[test]
fn layers_are_looped_over() {
    let granite = read(
        r#"{"model_type": "granite_swa", "hidden_size": 64, "num_attention_heads": 1, "num_hidden_layers": 4,
            "layer_rope_theta": [1e4, 0, 5e6, 1e4]}"#,
    );
    let layers = granite.layers().unwrap();
    assert_eq!(
        (layers.len(), layers.rotations().len(), layers.is_empty()),
        (4, 2, false)
    );
    let bases: Vec<Option<Frequencies<'_>>> = layers
        .iter()
        .map(|layer| {
            layer
                .rotation
                .map(|rotation| rotation.frequencies().clone())
        })
        .collect();
    let of = |base| of_formula(64, base, &Scaling::Default).ok();
    assert_eq!(bases, [of(1e4), None, of(5e6), of(1e4)]);
    let indices: Vec<Option<usize>> = layers.iter().map(|layer| layer.rotation_index).collect();
    assert_eq!(indices, [Some(0), None, Some(1), Some(0)]);
    let types: Vec<Option<&str>> = layers.iter().map(|layer| layer.layer_type).collect();
    let (full, sliding) = (Some("full_attention"), Some("sliding_attention"));
    assert_eq!(types, [full, sliding, sliding, sliding]);
    assert_eq!(layers.get(4), None);
    assert!(matches!(
        granite.frequencies(),
        Err(Error::Unsupported { .. })
    ));

    let missing = read(r#"{"model_type": "chatglm", "kv_channels": 64}"#);
    assert_eq!(
        missing.layers().unwrap_err(),
        Error::Missing {
            key: "num_hidden_layers".into()
        }
    );
    // Layer types determine the number of layers.
    let typed = read(
        r#"{"model_type": "gemma3_text", "head_dim": 64,
        "layer_types": ["full_attention", "sliding_attention", "full_attention"]}"#,
    );
    assert_eq!(typed.layers().unwrap().len(), 3);
    let many = read(r#"{"model_type": "llama", "head_dim": 64, "num_hidden_layers": 100000}"#);
    assert!(matches!(many.layers(), Err(Error::Invalid { .. })));
    let short = read(
        r#"{"model_type": "smollm3", "head_dim": 64, "num_hidden_layers": 3, "no_rope_layers": [1, 0]}"#,
    );
    assert!(matches!(
        short.layers(),
        Err(Error::Rope(rope_core::Error::Count { .. }))
    ));
}

#[test]
fn the_softmax_factor_is_what_the_attention_does() {
    let yarn = r#", "qk_rope_head_dim": 64, "num_hidden_layers": 1, "rope_parameters": {"rope_type": "yarn",
        "rope_theta": 1e4, "factor": 16.0, "original_max_position_embeddings": 4096, "mscale": 1.0,
        "mscale_all_dim": 1.0}"#;
    let of = |model_type: &str| {
        let text = format!(r#"{{"model_type": "{model_type}", "head_dim": 128 {yarn}}}"#);
        read(&text).without(match model_type {
            "ministral3" => "qk_rope_head_dim",
            _ => "none",
        })
    };
    let squared = (0.1 * 16f64.ln() + 1.0).powi(2);
    let factor = |model_type| of(model_type).frequencies().unwrap().softmax_factor();
    assert!((factor("deepseek_v3") - squared).abs() < 1e-12);
    assert_eq!(factor("ministral3"), 1.0);
}

/// A head of 2^31 channels is refused before the list of its pairs, of 16 GB, is made.
#[test]
fn heads_beyond_memory_are_refused() {
    for model_type in ["llama", "qwen3_vl_text", "pixtral"] {
        let text = format!(
            r#"{{"model_type": "{model_type}", "head_dim": {size}, "hidden_size": {size}, "num_attention_heads": 1,
            "num_hidden_layers": 1, "rope_theta": 1e4}}"#,
            size = 1_u64 << 31
        );
        let error = read(&text)
            .frequencies()
            .expect_err("a refusal")
            .to_string();
        let reason = "rotary_dim is 2147483648, but must be even and between 2 and 65536";
        assert_eq!(error, reason, "{model_type}");
    }
}

#[test]
fn refusals_name_the_key() {
    let refusal = |config: Config| config.frequencies().unwrap_err().to_string();
    for (entries, reason) in [
        (
            r#", "model_type": "minimax", "rotary_dim": 32"#,
            "rotary_dim is 32 in the file, and this model's code ignores it \
             (Config::lenient answers as the code does, Config::without leaves the key out)",
        ),
        (
            r#", "partial_rotary_factor": 0.5"#,
            "partial_rotary_factor is 0.5 in the file, and this model's code ignores it \
             (Config::lenient answers as the code does, Config::without leaves the key out)",
        ),
        (
            r#", "rope_none_such": 1"#,
            "rope_none_such is 1 in the file, and this model's code ignores it \
             (Config::lenient answers as the code does, Config::without leaves the key out)",
        ),
        (
            r#", "rope_theta": 1e4, "rope_scaling": {"type": "linear", "factor": 2, "none_such": 1}"#,
            "rope_scaling.none_such is 1 in the file, and this model's code ignores it \
             (Config::lenient answers as the code does, Config::without leaves the key out)",
        ),
        (
            r#", "model_type": "falcon", "hidden_size": 64, "num_attention_heads": 1, "alibi": true"#,
            "falcon: it rotates with another choice of its configuration only, and not with this one",
        ),
        (
            r#", "model_type": "nemotron_h", "rope_theta": 1e4"#,
            "nemotron_h: it has no rotary embedding, so nothing rotates",
        ),
        (
            r#", "rope_theta": "big""#,
            "rope_theta is \"big\", but must be a number",
        ),
        (
            r#", "rope_theta": -1"#,
            "base is -1, but must be positive and finite",
        ),
        (
            r#", "rope_theta": 1e4, "rope_scaling": []"#,
            "rope_scaling is [], but must be an object",
        ),
        (
            r#", "rope_theta": 1e4, "rope_scaling": {"type": "fancy", "factor": 2}"#,
            "rope_type is \"fancy\", which is not known here; there are: default, linear, dynamic, yarn, longrope, llama3, \
             proportional",
        ),
        (
            r#", "rope_theta": 1e4, "rope_scaling": {"factor": 2}"#,
            "rope_scaling.factor is 2 in the file, and this model's code ignores it \
             (Config::lenient answers as the code does, Config::without leaves the key out)",
        ),
        (
            r#", "rope_theta": 1e4, "rope_scaling": {"type": "linear"}"#,
            "factor is missing, and has no known default",
        ),
        (
            r#", "rope_theta": 1e4, "rope_scaling": {"type": "dynamic", "factor": 2}"#,
            "the length of the sequence (Config::with_length) is missing, and has no known default",
        ),
        (
            r#", "rope_theta": 1e4, "rope_scaling": {"type": "llama3", "factor": 2, "low_freq_factor": 1}"#,
            "high_freq_factor is missing, and has no known default",
        ),
        (
            r#", "rope_theta": 1e4, "rope_scaling": {"rope_type": "yarn", "factor": 2, "truncate": 0}"#,
            "truncate is 0, but must be true or false",
        ),
        (
            r#", "rope_theta": 1e4, "rope_scaling": {"type": "mrope", "mrope_section": [8, 12, 12]}"#,
            "rope_type is \"mrope\", which is not known here; there are: default, linear, dynamic, yarn, longrope, llama3, \
             proportional",
        ),
        (
            r#", "model_type": "new", "rope_theta": 1e4, "rope_scaling": {"type": "mrope", "mrope_section": [8, 12, 12]}"#,
            UNKNOWN_TYPE,
        ),
        (
            r#", "model_type": "qwen2_vl", "hidden_size": 64, "num_attention_heads": 1,
               "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}"#,
            "the sections [16, 24, 24] of M-RoPE sum to 64 pairs, but rotary_dim 64 has 32; where the other channels stand \
             still, rotary_dim is 128",
        ),
        (
            r#", "model_type": "cosmos3_edge_text",
               "rope_parameters": {"rope_type": "default", "rope_theta": 1e8, "mrope_section": [24, 20, 19]}"#,
            "mrope_section is [24, 20, 19], but must be three counts of pairs, half of the rotated channels in all",
        ),
        (
            r#", "model_type": "cosmos3_edge_text", "head_dim": 64"#,
            "mrope_section is [24, 20, 20], but must be three counts of pairs, half of the rotated channels in all",
        ),
        (
            r#", "model_type": "hy_v4_vl_text", "qk_rope_head_dim": 128"#,
            "mrope_section is [12, 10, 10], but must be three counts of pairs, half of the rotated channels in all",
        ),
        (
            r#", "model_type": "longcat_flash", "qk_rope_head_dim": 32"#,
            "qk_rope_head_dim is 32, but must be as many channels as head_dim, or as its default of 64",
        ),
        (
            r#", "rope_theta": 1e4, "rope_scaling": {"type": "linear", "factor": 2},
               "rope_parameters": {"rope_type": "linear", "factor": 4}"#,
            "rope_parameters is {\"rope_type\":\"linear\",\"factor\":4} in the file, and this model's code ignores it \
             (Config::lenient answers as the code does, Config::without leaves the key out)",
        ),
        (
            r#", "model_type": "glm", "rope_theta": 1e4, "partial_rotary_factor": 1.5"#,
            "glm: this partial rotation fails in the model's own code",
        ),
        (
            r#", "model_type": "glm", "rope_theta": 1e4, "partial_rotary_factor": 0.02"#,
            "rotary_dim is 1, but must be even, above 0, and not above head_dim",
        ),
        (
            r#", "rope_theta": 1e4, "partial_rotary_factor": 1e300"#,
            "partial_rotary_factor is 1e300, but must be at most 1",
        ),
        (
            r#", "rope_theta": 1e4, "partial_rotary_factor": 67108864"#,
            "partial_rotary_factor is 67108864.0, but must be at most 1",
        ),
    ] {
        assert_eq!(refusal(with(entries)), reason, "{entries}");
    }
    assert_eq!(
        refusal(read("{}")),
        "model_type is missing, and has no known default"
    );
    assert_eq!(
        refusal(read(
            r#"{"model_type": "llama", "hidden_size": 64, "num_attention_heads": 0}"#
        )),
        "num_attention_heads is 0, but must be positive and below 2^32"
    );
    // An unknown type is refused, unless the caller gives the values that the table would have.
    let new = with(r#", "model_type": "new", "rope_theta": 1e4"#);
    assert_eq!(refusal(new.clone()), UNKNOWN_TYPE);
    let made = of_formula(64, 1e4, &Scaling::Default);
    assert_eq!(new.frequencies_over(64), made);
    assert_eq!(new.clone().with_model_type("llama").frequencies(), made);
    let pairing = new.pairing().unwrap_err();
    assert_eq!(pairing.to_string(), UNKNOWN_TYPE);
}

#[test]
fn what_is_no_json_object_is_refused() {
    for (text, line) in [
        ("", 1),
        ("[]", 0),
        ("{", 1),
        ("nonsense", 1),
        ("{\n\"rope_theta\": nan}", 2),
    ] {
        match Config::from_json(text) {
            Err(Error::Json { line: found, .. }) => assert_eq!(found, line, "{text}"),
            other => panic!("{text}: {other:?}"),
        }
    }
    let no_object = Config::from_json("[]").unwrap_err();
    assert_eq!(
        no_object.to_string(),
        "the configuration is JSON, but not an object ({..})"
    );
    let no_json = Config::from_json("{").unwrap_err();
    assert_eq!(
        no_json.to_string(),
        "the configuration ends early, at line 1, column 1: it is empty, or cut off"
    );
}

/// Python writes and reads such numbers, and files have them in keys unrelated to the rotation.
#[test]
fn numbers_beyond_json_are_refused_only_where_the_rotation_reads_them() {
    let bamba = |limit: &str| {
        read(&format!(
            r#"{{"model_type": "bamba", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2,
            "attn_layer_indices": [1], "time_step_limit": [0.0, {limit}]}}"#
        ))
    };
    let expected = bamba("1.0").rotation().unwrap();
    for number in [
        "Infinity",
        "-Infinity",
        "NaN",
        "1e999",
        "1000000000000000019884624838656",
    ] {
        assert_eq!(bamba(number).rotation().unwrap(), expected, "{number}");
    }
    for (number, quoted) in [
        ("Infinity", "Infinity"),
        ("-Infinity", "-Infinity"),
        ("NaN", "NaN"),
        ("1e999", "Infinity"),
    ] {
        for (rest, message) in [
            (r#""rope_theta": #"#, "rope_theta is #, but must be finite"),
            (
                r#""rope_scaling": {"rope_type": "linear", "factor": #}"#,
                "factor is #, but must be finite",
            ),
            (
                r#""partial_rotary_factor": #, "model_type": "phi""#,
                "partial_rotary_factor is #, but must be finite",
            ),
            (
                r#""head_dim": #"#,
                "head_dim is #, but must be a whole number",
            ),
            (
                r#""rope_scaling": {"rope_type": "longrope", "original_max_position_embeddings": 64,
                "factor": 2.0, "short_factor": [1.0, #], "long_factor": [1.0, 1.0]}"#,
                "short_factor is [1,#], but must be a list of finite numbers",
            ),
        ] {
            let config = with(&format!(", {}", rest.replace('#', number))).with_length(1);
            let error = config.rotation().unwrap_err();
            assert_eq!(error.to_string(), message.replace('#', quoted));
        }
    }
    // An integer of any length becomes the nearest f64.
    let long = with(r#", "rope_theta": 100000000000000000000"#);
    let short = with(r#", "rope_theta": 1e20"#);
    assert_eq!(long.rotation().unwrap(), short.rotation().unwrap());
}

#[test]
fn every_kind_of_refusal() {
    let error = |config: Config| config.frequencies().unwrap_err();
    assert_eq!(
        with("").frequencies_over(64).unwrap_err(),
        Error::Missing {
            key: "rope_theta".into()
        }
    );
    assert_eq!(
        error(with(r#", "rope_theta": true"#)).to_string(),
        "rope_theta is true, but must be a number"
    );
    let rest = read(r#"{"model_type": "llama", "hidden_size": 4097, "num_attention_heads": 32}"#);
    assert_eq!(
        rest.rotation().unwrap_err().to_string(),
        "hidden_size is 4097, but must be a multiple of num_attention_heads where head_dim is not given"
    );
    let fancy = with(r#", "rope_theta": 1e4, "rope_scaling": {"rope_type": "fancy"}"#);
    assert_eq!(
        error(fancy).to_string(),
        "rope_type is \"fancy\", which is not known here; there are: default, linear, dynamic, yarn, longrope, llama3, \
         proportional"
    );
    let both = with(r#", "rope_scaling": {"rope_type": "linear", "type": "dynamic", "factor": 2}"#);
    let Error::Unread { key, nearest, .. } = error(both) else {
        panic!();
    };
    assert_eq!((key.as_str(), nearest), ("rope_scaling.type", "rope_type"));
    let two = with(
        r#", "model_type": "mellum", "layer_types": ["full_attention", "sliding_attention"], "num_hidden_layers": 2,
        "rope_parameters": {"full_attention": {"rope_theta": 1e4}, "sliding_attention": {"rope_theta": 1e5}}"#,
    );
    let Error::Ambiguous { key, choices } = error(two) else {
        panic!();
    };
    assert_eq!(
        (key, choices.as_str()),
        (
            "layer_type (Config::with_layer_type)",
            "full_attention, sliding_attention"
        )
    );
    let unread = with(r#", "rope_parameters": {"a": {"rope_theta": 1e4}}"#);
    let Error::Unread { key, .. } = error(unread) else {
        panic!();
    };
    assert_eq!(key.as_str(), "rope_parameters.a");
    let neucodec = read(r#"{"model_type": "neucodec", "head_dim": 64}"#);
    assert!(matches!(
        neucodec.rotation(),
        Err(Error::Unsupported { .. })
    ));

    // A long name is cut at the end of a character.
    let long = "é".repeat(70);
    let named = with(&format!(
        r#", "rope_theta": 1e4, "rope_scaling": {{"type": "{long}"}}"#
    ));
    let Error::Unknown { value, .. } = error(named) else {
        panic!();
    };
    assert_eq!(value.as_str(), "é".repeat(40));
}

#[test]
fn no_value_panics() {
    let keys = [
        "head_dim",
        "hidden_size",
        "num_attention_heads",
        "rope_theta",
        "partial_rotary_factor",
        "rotary_dim",
        "qk_rope_head_dim",
        "max_position_embeddings",
        "original_max_position_embeddings",
        "rope_parameters",
        "rope_scaling",
        "layer_types",
        "text_config",
        "model_type",
    ];
    let mut values: Vec<String> = [
        "null",
        "true",
        "0",
        "-1",
        "1",
        "2",
        "3",
        "64",
        "1e999999",
        "1e-320",
        "1.5",
        "1e18",
        "18446744073709551615",
        "\"\"",
        "\"llama\"",
        "\"qwen2_vl\"",
        "[]",
        "[1]",
        "{}",
    ]
    .map(str::to_owned)
    .to_vec();
    let types = [
        "linear",
        "dynamic",
        "yarn",
        "longrope",
        "llama3",
        "proportional",
        "mrope",
    ];
    for number in [
        "0", "-1", "1", "4096", "1e300", "1e-300", "null", "\"\"", "[]", "[1]",
    ] {
        for kind in types {
            let names = [
                "factor",
                "rope_theta",
                "alpha",
                "low_freq_factor",
                "high_freq_factor",
                "beta_fast",
                "beta_slow",
                "attention_factor",
                "mscale",
                "mscale_all_dim",
                "original_max_position_embeddings",
                "short_factor",
                "long_factor",
                "mrope_section",
                "partial_rotary_factor",
            ];
            let numbers = names
                .map(|name| format!(r#""{name}": {number}"#))
                .join(", ");
            values.push(format!(r#"{{"rope_type": "{kind}", {numbers}}}"#));
        }
    }
    let (mut refused, mut accepted) = (0, 0);
    for key in keys {
        for value in &values {
            for model_type in [
                "llama",
                "qwen2_vl",
                "deepseek_v3",
                "gemma3_text",
                "gpt_oss",
                "new",
            ] {
                let text = format!(
                    r#"{{"{key}": {value}, "head_dim": 64, "max_position_embeddings": 4096, "model_type": "{model_type}"}}"#
                );
                let Ok(config) = Config::from_json(&text) else {
                    refused += 1;
                    continue;
                };
                for config in [
                    config.clone(),
                    config.with_length(9000).with_layer_type("full_attention"),
                ] {
                    match config.frequencies() {
                        Ok(_) => accepted += 1,
                        Err(error) => {
                            refused += 1;
                            assert!(!error.to_string().is_empty());
                        }
                    }
                    let _ = (config.norm(), config.layers());
                }
            }
        }
    }
    println!("{refused} refused, {accepted} accepted");
    assert!(refused > 1000 && accepted > 1000);
}

/// `head_dim` of a class with a default: a missing key gives the default, and null gives the width over the heads
/// (`getattr` finds the null).
#[test]
fn a_null_is_not_an_omission_of_head_dim() {
    let glm = |head_dim: &str| {
        let text = format!(
            r#"{{"model_type": "glm", "hidden_size": 4096, "num_attention_heads": 64 {head_dim}}}"#
        );
        read(&text).rotation().map(|rotation| rotation.head_dim())
    };
    assert_eq!(glm(""), Ok(128));
    assert_eq!(glm(r#", "head_dim": null"#), Ok(64));
    assert_eq!(glm(r#", "head_dim": 96"#), Ok(96));
}

/// Asserts that a file is refused because of a key with a meaning.
#[track_caller]
fn unread(config: &Config, key: &str) {
    match config.rotation() {
        Err(Error::Unread { key: found, .. }) => {
            assert_eq!(found.rsplit('.').next(), Some(key), "{found}");
        }
        other => panic!("{key}: {other:?}"),
    }
}

/// A part of the head that no code reads must be a number of rotating channels; a text is refused.
#[test]
fn a_partial_factor_that_is_no_number_is_refused() {
    for (model_type, key) in [
        ("bamba", "partial_rotary_factor"),
        ("llama", "rope_pct"),
        ("stablelm", "rotary_pct"),
    ] {
        let model = |value: &str| {
            let text = format!(
                r#"{{"model_type": "{model_type}", "hidden_size": 512, "num_attention_heads": 8,
                    "attn_layer_indices": [0], "{key}": {value}}}"#
            );
            read(&text)
        };
        let rotary_dim = model("null").frequencies().expect(model_type).rotary_dim();
        let part = (rotary_dim as f64 / 64.0).to_string();
        let of_part = model(&part).frequencies().expect(model_type).rotary_dim();
        assert_eq!(of_part, rotary_dim, "{model_type}");
        for value in ["\"abc\"", "true", "[0.5]", "0.125"] {
            unread(&model(value), key);
        }
    }
}

/// Parameters beside the layer types are not read; each layer type must have them too.
#[test]
fn keys_beside_types_of_layers_stand_in_all_of_them() {
    let mellum = |beside: &str, full: &str, sliding: &str| {
        let text = format!(
            r#", "model_type": "mellum", "rope_parameters": {{{beside},
                "full_attention": {{"rope_theta": 1e4 {full}}},
                "sliding_attention": {{"rope_theta": 1e4 {sliding}}}}}"#
        );
        with(&text)
    };
    let (new, old) = (r#", "rope_type": "default""#, r#", "type": "default""#);
    for (beside, full, sliding, refused) in [
        (r#""rope_type": "default""#, new, new, None),
        (r#""rope_type": "default""#, old, new, None),
        (r#""rope_type": "default""#, old, old, None),
        (r#""rope_type": "default""#, "", new, Some("rope_type")),
        (r#""rope_type": "default""#, old, "", Some("rope_type")),
        (r#""rope_type": "default""#, "", "", Some("rope_type")),
        // Only `rope_type` has another name.
        (r#""factor": 2.0"#, old, old, Some("factor")),
        (r#""factor": 2.0"#, new, new, Some("factor")),
        (r#""rope_theta": 12345.0"#, "", "", None),
    ] {
        let config = mellum(beside, full, sliding);
        match refused {
            Some(key) => unread(&config, key),
            None => same(&config, 1e4, &Scaling::Default),
        }
    }
    // Without layer types, nothing else can have the key.
    let alone = with(r#", "model_type": "mellum", "rope_parameters": {"rope_theta": 1e4}"#);
    unread(&alone.with_layer_type("full_attention"), "rope_theta");
}

/// The single scaling of an older file is flat; objects by layer types in it are not read.
#[test]
fn an_older_scaling_by_types_of_layers_is_refused() {
    for scaling in [
        r#""full_attention": {"rope_type": "linear", "factor": 8.0}"#,
        r#""full_attention": {"rope_type": "linear", "factor": 8.0}, "rope_type": "default""#,
    ] {
        let text = format!(r#", "model_type": "gemma3_text", "rope_scaling": {{{scaling}}}"#);
        for (layer_type, base) in [("full_attention", 1e6), ("sliding_attention", 1e4)] {
            let config = with(&text).with_layer_type(layer_type);
            unread(&config, "full_attention");
            same(&config.lenient(), base, &Scaling::Default);
        }
    }
    let flat =
        r#", "model_type": "gemma3_text", "rope_scaling": {"rope_type": "linear", "factor": 8.0}"#;
    let full = with(flat).with_layer_type("full_attention");
    same(&full, 1e6, &Scaling::Linear { factor: 8.0 });
}

/// DeepSeek-V4's flat parameters belong to the compressed layers; their base is `compress_rope_theta`, or 160,000.
#[test]
fn the_base_of_compressed_layers_is_a_key_of_its_own() {
    let base = |beside: &str, inside: &str, kind: &str| {
        let text = format!(
            r#"{{"model_type": "deepseek_v4", "head_dim": 512, "num_hidden_layers": 4 {beside},
                "rope_parameters": {{"rope_type": "default" {inside}}}}}"#
        );
        read(&text).with_layer_type(kind).rotation()
    };
    let of = |base| of_formula(64, base, &Scaling::Default).expect("a good base");
    let (compressed, own) = (
        "compressed_sparse_attention",
        r#", "compress_rope_theta": 5e4"#,
    );
    for (beside, inside, expected) in [
        ("", "", Some(1.6e5)),
        ("", r#", "rope_theta": 1.6e5"#, Some(1.6e5)),
        ("", r#", "rope_theta": null"#, Some(1.6e5)),
        ("", r#", "rope_theta": 1e4"#, None),
        ("", r#", "rope_theta": "160000""#, None),
        (own, "", Some(5e4)),
        (own, r#", "rope_theta": 5e4"#, Some(5e4)),
        (own, r#", "rope_theta": 1.6e5"#, None),
    ] {
        match (base(beside, inside, compressed), expected) {
            (Ok(rotation), Some(expected)) => {
                assert_eq!(*rotation.frequencies(), of(expected), "{beside} {inside}");
            }
            (Err(Error::Unread { key, .. }), None) => {
                assert_eq!(key.as_str(), "rope_parameters.rope_theta");
            }
            (made, _) => panic!("{beside} {inside}: {made:?}"),
        }
    }
}

/// A layer type that the model lacks is refused with its name and the list of the existing types, the nearest first. A
/// model without attention has no types to choose from.
#[test]
fn layer_types_that_are_not_there() {
    let choices = |config: &Config| match config.clone().with_layer_type("bogus").rotation() {
        Err(Error::NoSuch { given, known, .. }) => {
            assert_eq!(given, "bogus");
            known
        }
        other => panic!("{other:?}"),
    };
    // By a list or a rule, by parameters, by both, by neither.
    let by_rule = of_type("qwen3_next", "");
    assert_eq!(choices(&by_rule), "full_attention, linear_attention");
    let by_layer = r#""rope_parameters": {"full_attention": {"rope_theta": 1e4},
        "sliding_attention": {"rope_theta": 1e5}}"#;
    let mellum = read(&format!(
        r#"{{"model_type": "mellum", "head_dim": 64, {by_layer}}}"#
    ));
    // Parameters alone create no layer types.
    assert_eq!(choices(&mellum), "full_attention");
    let both = of_type("mellum", by_layer);
    assert_eq!(choices(&both), "full_attention");
    let unused = both.with_layer_type("sliding_attention").rotation();
    let what = "there are parameters for this type of layers, but no layer has the type";
    let model = "mellum";
    assert_eq!(unused, Err(Error::NothingRotates { model, what }));
    assert_eq!(choices(&with("")), "");
    // Layers that differ by their number.
    let smollm3 = of_type("smollm3", "");
    assert_eq!(choices(&smollm3), "");
    let linear = r#""layer_types": ["linear_attention", "linear_attention", "linear_attention", "linear_attention"]"#;
    let still = of_type("qwen3_next", linear).rotation();
    assert!(
        matches!(still, Err(Error::NothingRotates { .. })),
        "{still:?}"
    );
}

/// Returns the rotation of a file with heads of 192 channels, of which the last 64 rotate.
fn latent_attention(model_type: &str) -> Rotation {
    let text = format!(
        r#"{{"model_type": "{model_type}", "hidden_size": 7168, "num_attention_heads": 128, "rope_theta": 10000,
        "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "max_position_embeddings": 4096}}"#
    );
    read(&text).rotation().expect(model_type)
}

/// Whole heads rotate in their window and nowhere else, with the bits of a plan over the window alone.
#[test]
fn a_rotation_applies_its_window() {
    const SHAPE: [usize; 4] = [2, 3, 5, 192];
    let source = &mut Source::random("a_rotation_applies_its_window");
    let x = values::<bf16>(source, 2 * 3 * 5 * 192);
    for (model_type, changes) in [("deepseek_v2", false), ("deepseek_v3", true)] {
        let rotation = latent_attention(model_type);
        assert_eq!((rotation.head_dim(), rotation.window()), (192, 128..192));
        let (input, output) = rotation.pairing();
        assert_eq!(input != output, changes, "{model_type}");
        let rows = rotation.frequencies().rows(40..43).expect("rows");
        let window = Layout::bshd(SHAPE)
            .and_then(|layout| layout.narrow(Dimension::Channels, 128..192))
            .expect("a window");
        let rope = Rope::new(input).with_output_pairing(output);
        let mut expected = x.clone();
        rope.rotate_into(
            &Tensor::new(&x, window).expect("valid"),
            &mut TensorMut::new(&mut expected, window).expect("valid"),
            &rows,
        )
        .expect("a rotation");
        assert!(x != expected);

        let whole = Tensor::new(&x, SHAPE).expect("valid");
        let mut y = vec![bf16::NAN; x.len()];
        let mut target = TensorMut::new(&mut y, SHAPE).expect("valid");
        let plan = rotation.rope_for(192).expect("whole heads");
        assert_eq!(plan.rotate_into(&whole, &mut target, &rows), Ok(()));
        assert!(same_bits(&y, &expected), "{model_type}");
        // An output in f32 converts all channels; a heads-major output has them at other places.
        let mut wide = vec![f32::NAN; x.len()];
        let heads_major = Layout::bhsd([2, 5, 3, 192]).expect("a layout");
        let mut target = TensorMut::new(&mut wide, heads_major).expect("valid");
        assert_eq!(plan.rotate_into(&whole, &mut target, &rows), Ok(()));
        for (index, value) in x.iter().enumerate().filter(|(index, _)| index % 192 < 128) {
            let (channel, head) = (index % 192, index / 192 % 5);
            let (token, batch) = (index / 960 % 3, index / 2880);
            let at = ((batch * 5 + head) * 3 + token) * 192 + channel;
            let same = wide[at].to_bits() == value.to_f32().to_bits();
            assert!(same || value.is_nan() && wide[at].is_nan(), "{index}");
        }

        // In place, unless the pairing changes.
        let mut q = x.clone();
        let mut of_q = TensorMut::new(&mut q, SHAPE).expect("valid");
        let in_place = plan.rotate(&mut of_q, &rows);
        if changes {
            let error = rope_core::Error::Plan(PlanError::PairingChangesInPlace { input, output });
            assert_eq!(in_place, Err(error));
            assert!(same_bits(&q, &x));
        } else {
            assert_eq!(in_place, Ok(()));
            assert!(same_bits(&q, &expected), "{model_type}");
        }
        // Keys often have only the rotating channels.
        assert_eq!(rotation.rope_for(64), Ok(rope.with_head_dim(64)));
    }
    // A part at the beginning of the head rotates there, and the rest passes.
    let partial = read(
        r#"{"model_type": "stablelm", "hidden_size": 2560, "num_attention_heads": 32, "rope_theta": 10000}"#,
    );
    let partial = partial.rotation().expect("stablelm");
    assert_eq!((partial.head_dim(), partial.window()), (80, 0..20));
    let rows = partial.frequencies().rows(7..8).expect("rows");
    let x = values::<f32>(source, 80);
    let (mut expected, mut y, mut z) = (x.clone(), x.clone(), vec![0.0; 80]);
    let mut tensor = TensorMut::new(&mut expected, [1, 1, 1, 80]).expect("valid");
    let rope = Rope::new(Pairing::Half);
    rope.rotate(&mut tensor, &rows).expect("a rotation");
    let mut tensor = TensorMut::new(&mut y, [1, 1, 1, 80]).expect("valid");
    assert_eq!(partial.rope().rotate(&mut tensor, &rows), Ok(()));
    let from = Tensor::new(&x, [1, 1, 1, 80]).expect("valid");
    let mut tensor = TensorMut::new(&mut z, [1, 1, 1, 80]).expect("valid");
    let into = partial.rope().rotate_into(&from, &mut tensor, &rows);
    assert_eq!(into, Ok(()));
    assert!(same_bits(&y, &expected) && same_bits(&z, &expected));
}

fn same_bits<E: Number>(one: &[E], other: &[E]) -> bool {
    one.len() == other.len()
        && one
            .iter()
            .zip(other)
            .all(|(one, other)| one.bits() == other.bits())
}

/// Heads of another model have no plan.
#[test]
fn a_rotation_refuses_other_heads() {
    let rotation = latent_attention("deepseek_v2");
    for given in [0, 63, 128, 256, usize::MAX] {
        let error = Error::ModelHead {
            given,
            head_dim: 192,
            window: (128, 192),
        };
        assert_eq!(rotation.rope_for(given), Err(error));
    }
}

#[test]
fn defaults_and_limits() {
    // Names of LongRoPE: the first one, and Phi-3's.
    let long = |kind: &str| {
        with(&format!(
            r#", "model_type": "phi3", "rope_theta": 1e4,
            "rope_scaling": {{"type": "{kind}", "short_factor": {:?}, "long_factor": {:?}}}"#,
            [1.5; 32], [2.0; 32]
        ))
        .with_length(1)
    };
    let named = |kind: &str| long(kind).frequencies().expect("LongRoPE");
    assert_eq!(named("su"), named("longrope"));
    assert_eq!(named("yarn"), named("longrope"));
    let over = |kind: &str| long(kind).frequencies_over(64).expect("LongRoPE");
    assert_eq!(over("su"), over("longrope"));
    // 768 / 16 channels.
    let clvp = r#"{"model_type": "clvp_encoder", "hidden_size": 512, "num_attention_heads": 8}"#;
    let rotation = read(clvp).rotation().expect("a rotation");
    assert_eq!(rotation.window(), 0..48);
    for (count, good) in [(65_536, true), (65_537, false)] {
        let config = with(&format!(
            r#", "rope_theta": 1e4, "num_hidden_layers": {count}"#
        ));
        assert_eq!(config.layers().is_ok(), good, "{count}");
    }
}
