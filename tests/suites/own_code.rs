//! Model types outside transformers: their files name code beside them, which determines their rows. And keys that
//! state the fixed behavior of that code, or of transformers.

use rope_core::axes::Axes;
use rope_core::{Direction, Frequencies, Pairing, Scaling};
use rope_models::{Config, Error, Model, Rotation};

fn model(text: &str) -> Model {
    Config::from_json(text)
        .expect("JSON")
        .model()
        .expect("a model")
}

#[track_caller]
fn rotation(text: &str) -> Rotation {
    model(text).rotation().expect("a rotation").clone()
}

fn frequencies(rotary_dim: usize, base: f64, scaling: &Scaling<'_>) -> Frequencies<'static> {
    Frequencies::new(Axes::from(rotary_dim), base, scaling).expect("frequencies")
}

#[track_caller]
fn is(rotation: &Rotation, pairing: Pairing, window: usize, head_dim: usize, base: f64) {
    assert_eq!(rotation.pairing(), (pairing, pairing));
    assert_eq!(rotation.window(), 0..window);
    assert_eq!(rotation.head_dim(), head_dim);
    assert_eq!(
        *rotation.frequencies(),
        frequencies(window, base, &Scaling::Default)
    );
    assert!(!rotation.rotates_values() && !rotation.unrotates_output());
    assert_eq!(rotation.direction(), Direction::Forward);
}

/// Asserts a number of layers, each with a rotation and without a type or a norm.
#[track_caller]
fn are_alike(model: &Model, layers: usize) {
    let found = model.layers().expect("layers");
    assert_eq!(found.len(), layers);
    for layer in found.iter() {
        assert!(layer.layer_type.is_none() && layer.rotation.is_some());
        assert_eq!(layer.norm(), Ok(None));
    }
}

/// Asserts that other names of the shape of a file, and keys of other classes, are refused or have no effect.
#[track_caller]
fn reads_nothing_of(with: &dyn Fn(&str) -> String, keys: &[&str]) {
    let plain = rotation(&with(""));
    for key in keys {
        let value = match *key {
            "rope_parameters" => r#"{"rope_type": "linear", "rope_theta": 54321.0, "factor": 2.0}"#,
            "layer_rope_theta" => "[8.0, 0.0, 8.0, 8.0]",
            _ => "8",
        };
        let text = with(&format!(r#", "{key}": {value}"#));
        let read = Config::from_json(&text).expect("JSON").model();
        match read.as_ref().map(Model::rotation) {
            Ok(Ok(found)) => assert_eq!(*found, plain, "{key}"),
            Err(Error::Unread { key: own, .. }) => assert_eq!(own, key),
            Ok(Err(Error::Unread { key: own, .. })) => assert_eq!(own, *key),
            Ok(Err(error)) => panic!("{key}: {error}"),
            Err(error) => panic!("{key}: {error}"),
        }
        if let (Ok(Ok(own)), Ok(all)) =
            (read.as_ref().map(Model::layers), model(&with("")).layers())
        {
            assert_eq!(own.len(), all.len(), "{key}");
        }
    }
}

/// Keys that the code does not read unless it names them.
const FOREIGN: [&str; 8] = [
    "layer_rope_theta",
    "n_embd",
    "n_head",
    "n_layer",
    "head_dim",
    "rotary_pct",
    "partial_rotary_factor",
    "rope_parameters",
];

/// ChatGLM 2 and 3, and GLM-4 before transformers had it: half of a head, interleaved, with a base that a ratio raises.
#[test]
fn chatglm() {
    let with = |keys: &str| {
        format!(
            r#"{{"model_type": "chatglm", "hidden_size": 4096, "kv_channels": 128, "num_attention_heads": 32,
            "num_layers": 28, "original_rope": true, "padded_vocab_size": 65024, "seq_length": 8192 {keys}}}"#
        )
    };
    is(
        &rotation(&with("")),
        Pairing::Interleaved,
        64,
        128,
        10_000.0,
    );
    let ratio = rotation(&with(r#", "rope_ratio": 500"#));
    is(&ratio, Pairing::Interleaved, 64, 128, 5_000_000.0);
    are_alike(&model(&with("")), 28);
    reads_nothing_of(&|keys| with(keys), &FOREIGN);
    let other = with("").replace("kv_channels\": 128", "kv_channels\": 96");
    is(&rotation(&other), Pairing::Interleaved, 48, 96, 10_000.0);
    let without = with("").replace("\"kv_channels\": 128,", "");
    is(&rotation(&without), Pairing::Interleaved, 64, 128, 10_000.0);
    let shorter = with("").replace("num_layers", "num_hidden_layers");
    are_alike(&model(&shorter), 28);
    // The first ChatGLM has the same type, and two positions for each token.
    let first = model(&with(r#", "position_encoding_2d": true"#));
    assert!(
        matches!(first.rotation(), Err(Error::Unread { key, .. }) if key == "position_encoding_2d")
    );
    assert!(model(&with(r#", "rope_ratio": 0"#)).rotation().is_err());
}

#[test]
fn internlm2() {
    let with = |keys: &str| {
        format!(
            r#"{{"model_type": "internlm2", "hidden_size": 4096, "num_attention_heads": 32, "num_hidden_layers": 32,
            "max_position_embeddings": 32768, "rope_theta": 1000000 {keys}}}"#
        )
    };
    is(&rotation(&with("")), Pairing::Half, 128, 128, 1e6);
    are_alike(&model(&with("")), 32);
    reads_nothing_of(&|keys| with(keys), &FOREIGN[..7]);
    let plain = with("").replace(", \"rope_theta\": 1000000", "");
    is(&rotation(&plain), Pairing::Half, 128, 128, 1e4);
    let dynamic = with(r#", "rope_scaling": {"type": "dynamic", "factor": 2.0}"#);
    let config = Config::from_json(&dynamic)
        .expect("JSON")
        .with_length(50_000);
    let scaling = Scaling::DynamicNtk {
        factor: 2.0,
        max_position_embeddings: 32_768,
        length: 50_000,
    };
    let found = config.model().expect("a model").rotation().cloned();
    assert_eq!(
        *found.expect("a rotation").frequencies(),
        frequencies(128, 1e6, &scaling)
    );
    let partial = with(
        r#", "rope_scaling": {"type": "linear", "factor": 2.0, "partial_rotary_factor": 0.5}"#,
    );
    assert!(model(&partial).rotation().is_err(), "its code has no part");
    let yarn = with(r#", "rope_scaling": {"type": "yarn", "factor": 2.0}"#);
    assert!(model(&yarn).rotation().is_err(), "its code has no YaRN");
    for kind in ["mrope", "longrope", "su", "axial", "llama3"] {
        let other = with(&format!(
            r#", "rope_scaling": {{"type": "{kind}", "factor": 2.0}}"#
        ));
        assert!(model(&other).rotation().is_err(), "its code has no {kind}");
    }
    let linear = rotation(&with(
        r#", "rope_scaling": {"type": "linear", "factor": 2.0}"#,
    ));
    let by_two = frequencies(128, 1e6, &Scaling::Linear { factor: 2.0 });
    assert_eq!(*linear.frequencies(), by_two);
}

#[test]
fn kimi_k2_is_deepseek_v3() {
    let with = |model_type: &str| {
        rotation(&format!(
            r#"{{"model_type": "{model_type}", "num_hidden_layers": 61, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
            "max_position_embeddings": 131072, "rope_theta": 50000.0, "rope_scaling": {{"type": "yarn", "factor": 32.0,
            "beta_fast": 1.0, "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0,
            "original_max_position_embeddings": 4096}}}}"#
        ))
    };
    assert_eq!(with("kimi_k2"), with("deepseek_v3"));
}

/// MiniMax-Text-01: layers with softmax attention rotate a part of the head, layers with linear attention rotate
/// nothing.
#[test]
fn minimax_text_01() {
    let with = |list: &str| {
        model(&format!(
            r#"{{"model_type": "minimax_text_01", "hidden_size": 6144, "num_attention_heads": 64, "head_dim": 128,
            "num_hidden_layers": 4, "rotary_dim": 64, "rope_theta": 10000000, "attn_type_list": {list}}}"#
        ))
    };
    let made = with("[0, 0, 0, 1]");
    let layers = made.layers().expect("layers");
    let rotating: Vec<bool> = layers
        .iter()
        .map(|layer| layer.rotation.is_some())
        .collect();
    assert_eq!(rotating, [false, false, false, true]);
    is(made.rotation().expect("one"), Pairing::Half, 64, 128, 1e7);
    let types: Vec<Option<&str>> = layers.iter().map(|layer| layer.layer_type).collect();
    let linear = Some("linear_attention");
    assert_eq!(types, [linear, linear, linear, Some("full_attention")]);
    assert!(layers.iter().all(|layer| layer.norm() == Ok(None)));
    for wrong in ["[0, 0, 0, 2]", "[0, 1]", "null"] {
        assert!(with(wrong).layers().is_err(), "{wrong}");
    }
    // A file with fewer keys: whole heads, whose channels are the width over the heads.
    let with = |keys: &str| {
        format!(
            r#"{{"model_type": "minimax_text_01", "hidden_size": 6144, "num_attention_heads": 64,
            "num_hidden_layers": 4, "attn_type_list": [1, 1, 1, 1] {keys}}}"#
        )
    };
    is(&rotation(&with("")), Pairing::Half, 96, 96, 1e6);
    let part = rotation(&with(r#", "rotary_dim": 64"#));
    is(&part, Pairing::Half, 64, 96, 1e6);
    let own = ["head_dim", "partial_rotary_factor"];
    let keys = FOREIGN.into_iter().filter(|key| !own.contains(key));
    let keys: Vec<&str> = keys.collect();
    reads_nothing_of(&with, &keys);
}

/// The first Qwen: its base grows with the length.
#[test]
fn qwen() {
    let with = |keys: &str, length: u64| {
        let text = format!(
            r#"{{"model_type": "qwen", "hidden_size": 4096, "num_attention_heads": 32, "num_hidden_layers": 32,
            "kv_channels": 128, "max_position_embeddings": 32768, "rotary_emb_base": 10000, "rotary_pct": 1.0,
            "seq_length": 8192, "use_logn_attn": true {keys}}}"#
        );
        let config = Config::from_json(&text).expect("JSON").with_length(length);
        config
            .model()
            .expect("a model")
            .rotation()
            .cloned()
            .expect("a rotation")
    };
    for (length, alpha) in [
        (1, 1.0),
        (8192, 1.0),
        (8193, 3.0),
        (16_384, 3.0),
        (16_385, 7.0),
    ] {
        let found = with(r#", "use_dynamic_ntk": true"#, length);
        assert_eq!(found, with("", length), "it is the default");
        let expected = frequencies(128, 1e4, &Scaling::NtkAlpha { alpha });
        assert_eq!(*found.frequencies(), expected, "{length}");
    }
    let plain = with(r#", "use_dynamic_ntk": false"#, 100_000);
    is(&plain, Pairing::Half, 128, 128, 10_000.0);
    let text = r#"{"model_type": "qwen", "hidden_size": 4096, "num_attention_heads": 32, "num_hidden_layers": 32,
        "kv_channels": 96, "seq_length": 8192, "use_dynamic_ntk": false"#;
    let with = |keys: &str| [text, keys, "}"].concat();
    are_alike(&model(&with("")), 32);
    is(&rotation(&with("")), Pairing::Half, 96, 96, 10_000.0);
    is(
        &rotation(&with(r#", "rotary_pct": 0.5"#)),
        Pairing::Half,
        48,
        96,
        10_000.0,
    );
    let base = rotation(&with(r#", "rotary_emb_base": 50000"#));
    is(&base, Pairing::Half, 96, 96, 50_000.0);
    let keys = [
        &FOREIGN[..1],
        &FOREIGN[4..5],
        &FOREIGN[6..],
        &["mrope_section"],
    ]
    .concat();
    reads_nothing_of(&with, &keys);
    // The keys of the shape as in the first files.
    let shape = with("")
        .replace("hidden_size", "n_embd")
        .replace("num_attention_heads", "n_head");
    are_alike(&model(&shape.replace("num_hidden_layers", "n_layer")), 32);
    let without = with("").replace("\"kv_channels\": 96,", "");
    is(&rotation(&without), Pairing::Half, 128, 128, 10_000.0);
}

/// The keys of the code of Nomic Embed's files; transformers' class has other names for them.
#[test]
fn nomic_bert() {
    let nomic = r#"{"model_type": "nomic_bert", "n_embd": 768, "n_head": 12, "n_layer": 12, "n_positions": 8192,
        "max_trained_positions": 2048, "rotary_emb_base": 1000, "rotary_emb_fraction": 1.0,
        "rotary_emb_interleaved": false, "rotary_emb_scale_base": null, "rotary_scaling_factor": null}"#;
    is(&rotation(nomic), Pairing::Half, 64, 64, 1000.0);
    are_alike(&model(nomic), 12);
    for (one, other) in [
        ("base\": 1000", "base\": 10000"),
        ("1.0", "0.5"),
        ("false", "true"),
    ] {
        assert!(
            model(&nomic.replace(one, other)).rotation().is_err(),
            "{other}"
        );
    }
}

/// Keys of published files that state the code's fixed behavior or are never read.
#[test]
fn keys_that_state_what_the_code_does() {
    let bamba = r#"{"model_type": "bamba", "hidden_size": 4096, "num_attention_heads": 32, "num_hidden_layers": 32,
        "attn_layer_indices": [9, 18, 27], "attn_rotary_emb": 64, "rope_theta": 10000.0}"#;
    is(&rotation(bamba), Pairing::Half, 64, 128, 10_000.0);
    assert!(
        model(&bamba.replace("emb\": 64", "emb\": 32"))
            .rotation()
            .is_err()
    );

    let modernbert = r#"{"model_type": "modernbert", "hidden_size": 768, "num_attention_heads": 12,
        "num_hidden_layers": 22, "global_attn_every_n_layers": 3, "global_rope_theta": 160000.0,
        "local_rope_theta": 10000.0, "position_embedding_type": "absolute"}"#;
    let layers = model(modernbert).layers().expect("layers").clone();
    is(
        layers.get(0).unwrap().rotation.unwrap(),
        Pairing::Half,
        64,
        64,
        160_000.0,
    );
    is(
        layers.get(1).unwrap().rotation.unwrap(),
        Pairing::Half,
        64,
        64,
        10_000.0,
    );

    let command_r7b = r#"{"model_type": "cohere2", "hidden_size": 4096, "num_attention_heads": 32, "head_dim": 128,
        "num_hidden_layers": 32, "position_embedding_type": "rope_gptj", "rope_theta": 50000, "rotary_pct": 1.0,
        "sliding_window": 4096, "sliding_window_pattern": 4}"#;
    let layers = model(command_r7b).layers().expect("layers").clone();
    is(
        layers.get(0).unwrap().rotation.unwrap(),
        Pairing::Interleaved,
        128,
        128,
        50_000.0,
    );
    assert_eq!(layers.get(3).unwrap().rotation, None);
    let llama =
        r#"{"model_type": "llama", "head_dim": 64, "position_embedding_type": "rope_gptj"}"#;
    assert!(model(llama).rotation().is_err(), "its pairs are no GPT-J's");

    let gptj = r#"{"model_type": "gptj", "n_embd": 4096, "n_head": 16, "n_layer": 28, "n_positions": 2048,
        "rotary": true, "rotary_dim": 64, "scale_attn_weights": true}"#;
    is(&rotation(gptj), Pairing::Interleaved, 64, 256, 10_000.0);
}

/// SGLang's files of DeepSeek-V4 have another type name, with DeepSeek's keys and values.
#[test]
fn deepseek_v4_has_another_name() {
    let with = |name: &str| {
        let text = format!(
            r#"{{"model_type": "{name}", "architectures": ["DeepseekV4ForCausalLM"], "hidden_size": 4096,
            "num_hidden_layers": 4, "num_attention_heads": 64, "num_key_value_heads": 1, "head_dim": 512,
            "qk_rope_head_dim": 64, "max_position_embeddings": 1048576, "sliding_window": 128,
            "compress_rope_theta": 160000, "compress_ratios": [0, 0, 4, 128, 0], "rope_scaling": {{"beta_fast": 32,
            "beta_slow": 1, "factor": 16, "original_max_position_embeddings": 65536, "type": "yarn"}}}}"#
        );
        model(&text).layers().expect("layers").rotations().to_vec()
    };
    let found = with("deepseek_ref");
    assert_eq!(found.len(), 3);
    assert_eq!(found, with("deepseek_v4"));
}

/// XVERSE's code for a context of 256K has another base than its code for 8K, in files without a base.
#[test]
fn xverse_has_a_base_within_its_context() {
    let with = |context: u32| {
        let text = format!(
            r#"{{"model_type": "xverse", "hidden_size": 4096, "num_attention_heads": 32, "num_hidden_layers": 2,
            "max_position_embeddings": {context}}}"#
        );
        model(&text).rotation().cloned()
    };
    is(
        &with(16384).expect("a rotation"),
        Pairing::Half,
        128,
        128,
        10_000.0,
    );
    assert_eq!(
        with(262_144),
        Err(Error::Missing {
            key: "rope_theta".into()
        })
    );
}

/// The class of a MiniCPM-V file depends on its version.
#[test]
fn minicpmv_depends_on_its_version() {
    let with = |version: &str| {
        let text = format!(
            r#"{{"model_type": "minicpmv", "version": {version}, "hidden_size": 96, "num_attention_heads": 4,
            "num_hidden_layers": 2, "rope_theta": 1e6}}"#
        );
        Config::from_json(&text).expect("JSON").model()
    };
    for version in ["2.6", "4.0"] {
        let model = with(version).expect("a model");
        is(
            model.rotation().expect("a rotation"),
            Pairing::Half,
            24,
            24,
            1e6,
        );
    }
    let refused = with("2.0").err().map(|error| error.to_string());
    let why = "minicpmv: the class depends on its version, and this one is not known here";
    assert_eq!(refused.as_deref(), Some(why));
}

/// A scaling that the code reads differently from transformers is refused.
#[test]
fn what_own_code_scales_otherwise_is_refused() {
    let with = |name: &str, keys: &str| {
        let text = format!(
            r#"{{"model_type": "{name}", "hidden_size": 96, "num_attention_heads": 4, "num_hidden_layers": 2,
            "max_position_embeddings": 1024 {keys}}}"#
        );
        let model = Config::from_json(&text).expect("JSON").model();
        let found = model.and_then(|model| model.rotation().cloned());
        found
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default()
    };
    // Its frequencies are rounded to bf16, except those computed with an alpha.
    let bf16 = "hunyuan: its code rounds frequencies without an alpha to bf16";
    assert_eq!(with("hunyuan", ""), bf16);
    let linear = r#", "rope_scaling": {"type": "linear", "factor": 2.0, "alpha": 0.0}"#;
    assert_eq!(with("hunyuan", linear), bf16);
    let su = r#", "rope_scaling": {"type": "su"}"#;
    assert_eq!(
        with("phi3small", su),
        "phi3small: how its code scales is not known here"
    );
    let shrunk = r#", "rope_scaling": {"rope_type": "longrope", "original_max_position_embeddings": 2048,
        "short_factor": [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], "long_factor": [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]}"#;
    let text = with("minicpm", shrunk);
    assert_eq!(
        text,
        "max_position_embeddings is 0.5 times original_max_position_embeddings, but must be at least as large"
    );
    assert_eq!(
        with(
            "internlm",
            r#", "rotary": {"base": 10000, "type": "linear"}"#
        ),
        "rotary is \"linear\", but must be of the type origin or dynamic"
    );
}

/// Answers `model_type` with the keys, or the error.
fn answer(name: &str, keys: &str) -> Result<Rotation, String> {
    let text = format!(r#"{{"model_type": "{name}", {keys}}}"#);
    let model = Config::from_json(&text).expect("JSON").model();
    let found = model.and_then(|model| model.rotation().cloned());
    found.map_err(|error| error.to_string())
}

/// TeleChat's 7B and 12B rotate differently by constants of their code, and their files are alike.
#[test]
fn telechat_needs_the_length_that_its_first_files_omit() {
    let shape = r#""hidden_size": 96, "n_head": 4, "n_layer": 2, "training_seqlen": 8192"#;
    let missing = answer("telechat", shape).expect_err("two constants");
    assert_eq!(missing, "base_seqlen is missing, and has no known default");
    let shape = format!(r#"{shape}, "base_seqlen": 8192"#);
    let length = answer("telechat", &shape).expect_err("a length");
    assert!(length.contains("with_length"), "{length}");
    let draft = answer("telechat2", &shape).expect_err("two drafts");
    assert!(draft.contains("versions scale differently"), "{draft}");
}

/// YaRN of the first Bailing: each key that its code reads otherwise than transformers is refused or obeyed.
#[test]
fn the_first_bailing_scales_by_its_own_keys() {
    let with = |scaling: &str, beside: &str| {
        let shape = r#""hidden_size": 96, "num_attention_heads": 4, "num_hidden_layers": 2"#;
        answer(
            "bailing_moe",
            &format!(r#"{shape}, "rope_scaling": {{"type": "yarn", {scaling}}} {beside}"#),
        )
    };
    let plain = with(r#""factor": 4.0"#, "").expect("YaRN");
    assert_eq!(
        with(r#""factor": 4.0, "mscale": 1.0"#, ""),
        Ok(plain.clone())
    );
    let original = r#", "original_max_position_embeddings": 4096"#;
    assert_eq!(with(r#""factor": 4.0"#, original), Ok(plain));
    let longer = with(r#""factor": 4.0"#, &original.replace("4096", "8192")).expect_err("unread");
    assert!(
        longer.contains("original_max_position_embeddings"),
        "{longer}"
    );
    let lone = with(r#""factor": 4.0, "mscale": 0.7"#, "").expect_err("mscale");
    assert!(lone.contains("mscale without mscale_all_dim"), "{lone}");
    let factor = with(r#""factor": 4.0, "attention_factor": 1.5"#, "").expect_err("unread");
    assert!(factor.contains("attention_factor"), "{factor}");
    let missing = with(r#""beta_fast": 32"#, "").expect_err("no factor");
    assert!(missing.starts_with("factor is missing"), "{missing}");
}

/// Windows of MiMo-V2 have the base of the other layers without `swa_rope_theta`, and PLaMo 2's without
/// `rope_local_theta`.
#[test]
fn windows_without_a_base_have_that_of_the_others() {
    let shape = r#""hidden_size": 96, "num_attention_heads": 4, "num_hidden_layers": 2, "rope_theta": 50000.0"#;
    let mimo = format!(r#"{shape}, "hybrid_layer_pattern": [0, 1]"#);
    is(
        &answer("mimo_v2", &mimo).expect("one"),
        Pairing::Half,
        24,
        24,
        50000.0,
    );
    let plamo = format!(r#"{shape}, "mamba_enabled": false, "full_attention_idx": [1]"#);
    is(
        &answer("plamo2", &plamo).expect("one"),
        Pairing::Half,
        128,
        128,
        50000.0,
    );
    let step = format!(r#"{shape}, "mamba_step": 1"#);
    let refused = answer("plamo2", &step).expect_err("mamba_step");
    assert_eq!(refused, "mamba_step is 1, but must be at least 2");
    let lacking = answer("mimo_v2", shape).expect_err("a pattern");
    assert!(
        lacking.starts_with("hybrid_layer_pattern is missing"),
        "{lacking}"
    );
}

/// The tower of Kimi-VL pairs neighbors, columns first; its text model is DeepSeek-V3's.
#[test]
fn kimi_vl_has_the_classes_of_its_parts() {
    let text = r#"{"model_type": "kimi_vl", "text_config": {"rope_theta": 800000.0}, "vision_config": {}}"#;
    let config = Config::from_json(text).expect("JSON");
    let own = config.model().expect("a model");
    let text = own.rotation().expect("a rotation");
    assert_eq!(text.pairing(), (Pairing::Interleaved, Pairing::Half));
    assert_eq!((text.head_dim(), text.window()), (192, 128..192));
    let model = config.with_part("vision_config").model().expect("a model");
    let tower = model.rotation().expect("a rotation");
    assert_eq!(
        tower.pairing(),
        (Pairing::Interleaved, Pairing::Interleaved)
    );
    assert_eq!((tower.head_dim(), tower.window()), (72, 0..72));
    let set = frequencies(36, 10000.0, &Scaling::Default);
    let inverse: Vec<f64> = set.iter().map(|pair| pair.inverse).collect();
    for (pair, found) in tower.frequencies().iter().enumerate() {
        assert_eq!(
            (found.inverse, found.axis),
            (inverse[pair / 2], 1 - pair % 2)
        );
    }
}
