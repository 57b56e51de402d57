//! Nothing in a file is dropped in silence, and nothing right is refused. The truth is transformers 5.24.0, whose
//! classes were run on each file.

use crate::models::of_formula;
use rope_core::{Frequencies, Scaling};
use rope_models::{Config, Error};
use rope_tests::bodies::config::Questions;

fn read(text: &str) -> Config {
    Config::from_json(text).expect(text)
}

fn plain(rotary_dim: usize, base: f64) -> Frequencies<'static> {
    of_formula(rotary_dim, base, &Scaling::Default).expect("frequencies")
}

/// Returns a small model of a type with these other entries.
fn small(model_type: &str, entries: &str) -> Config {
    read(&format!(
        r#"{{"model_type": "{model_type}", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 4,
        {entries}}}"#
    ))
}

/// Returns the path of the key that a file is refused for.
#[track_caller]
fn unread(config: &Config) -> String {
    match config.layers() {
        Err(Error::Unread { key, .. }) => key,
        other => panic!("{other:?}"),
    }
}

/// Every class checks the words (`validate_layer_type`).
#[test]
fn a_word_that_is_no_type_of_layers_is_refused() {
    let two = |model_type: &str, words: &str| {
        let text = format!(
            r#"{{"model_type": "{model_type}", "num_hidden_layers": 2, "layer_types": [{words}]}}"#
        );
        read(&text)
    };
    let error = two("exaone4", r#""full_attention", "sliding_atention""#).layers();
    let said = "layer_types is \"sliding_atention\", which is not known here; the nearest that is known is \
        sliding_attention";
    assert_eq!(error.expect_err("a refusal").to_string(), said);
    let error = two("lfm2", r#""full_attention", "banana""#).layers();
    let said = error.expect_err("a refusal").to_string();
    assert!(
        said.starts_with(
            "layer_types is \"banana\", which is not known here; there are: full_attention, "
        ),
        "{said}"
    );
    // Two classes have fewer types.
    for model_type in ["deepseek_v4", "neomme"] {
        let error = two(model_type, r#""conv", "conv""#).layers();
        assert!(
            matches!(error, Err(Error::Unknown { .. })),
            "{model_type}: {error:?}"
        );
    }
    for words in [
        r#""full_attention", "linear_attention""#,
        r#""attention", "mamba""#,
        r#""conv", "moe""#,
    ] {
        assert!(two("lfm2", words).layers().is_ok(), "{words}");
    }
    let types = r#""sliding_window": 8, "first_k_dense_replace": 1, "mlp_layer_types":"#;
    let cohere = |words: &str| small("cohere2_moe", &format!("{types} [{words}]")).layers();
    assert!(cohere(r#""dense", "sparse", "sparse", "sparse""#).is_ok());
    let error = cohere(r#""dens", "sparse", "sparse", "sparse""#);
    assert!(matches!(error, Err(Error::Invalid { .. })), "{error:?}");
    let error = small(
        "recurrent_gemma",
        r#""block_types": ["recurent", "attention"]"#,
    )
    .layers();
    let said = "block_types is \"recurent\", which is not known here; the nearest that is known is recurrent";
    assert_eq!(error.expect_err("a refusal").to_string(), said);
}

/// Keys that list the layers, or count them: another list than the class has is refused.
#[test]
fn patterns_of_layers_are_keys_of_the_rotation() {
    for (model_type, same, other, path) in [
        (
            "mimo_v2_flash",
            r#""hybrid_layer_pattern": [0, 1, 1, 1]"#,
            r#""hybrid_layer_pattern": [0, 1, 0, 1]"#,
            "hybrid_layer_pattern",
        ),
        (
            "minimax",
            r#""attn_type_list": [1, 0, 1, 0]"#,
            r#""attn_type_list": [0, 1, 1, 1]"#,
            "attn_type_list",
        ),
        (
            "minimax_m2",
            r#""attn_type_list": [1, 1, 1, 1]"#,
            r#""attn_type_list": [1, 0, 1, 1]"#,
            "attn_type_list",
        ),
        (
            "llama4_text",
            r#""nope_layer_interval": 4"#,
            r#""nope_layer_interval": 2"#,
            "nope_layer_interval",
        ),
        (
            "llama",
            r#""nope_layer_interval": 0"#,
            r#""nope_layer_interval": 4"#,
            "nope_layer_interval",
        ),
        (
            "gpt_oss",
            r#""initial_context_length": 4096"#,
            r#""initial_context_length": 2048"#,
            "initial_context_length",
        ),
        (
            "gemma3_text",
            r#""sliding_window_pattern": 2, "layer_types": ["sliding_attention", "full_attention",
            "sliding_attention", "full_attention"]"#,
            r#""sliding_window_pattern": 3, "layer_types": ["sliding_attention", "full_attention",
            "sliding_attention", "full_attention"]"#,
            "sliding_window_pattern",
        ),
    ] {
        let layers = small(model_type, same).layers();
        assert!(layers.is_ok(), "{model_type} {same}: {layers:?}");
        assert_eq!(unread(&small(model_type, other)), path, "{model_type}");
        let lenient = small(model_type, other).lenient().layers();
        assert_eq!(
            lenient.ok().map(|layers| layers.len()),
            Some(4),
            "{model_type}"
        );
    }
}

/// A key that the code ignores and that states what the code does.
#[test]
fn an_ignored_key_that_states_what_holds_passes() {
    // 64 channels of 128 rotate.
    let ling = |part: &str| {
        small(
            "bailing_hybrid",
            &format!(
                r#""partial_rotary_factor": {part}, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "head_dim": 128,
                "layer_types": ["full_attention", "full_attention", "full_attention", "full_attention"]"#
            ),
        )
    };
    assert_eq!(ling("0.5").frequencies(), Ok(plain(64, 6e6)));
    assert_eq!(unread(&ling("0.25")), "partial_rotary_factor");
    for entries in [
        r#""rope_theta": 1000000.0, "rope_scaling": {"rope_type": "linear", "factor": 1.0}"#,
        r#""rope_global_base_freq": 1000000.0"#,
        r#""rope_global_base_freq": 1000000, "rope_scaling": {"rope_type": "linear", "factor": 1.0}"#,
    ] {
        let keys = format!(r#""sliding_window_pattern": 2, {entries}"#);
        let config = small("gemma3_text", &keys);
        let full = config.with_layer_type("full_attention");
        assert_eq!(
            full.rotation().map(|own| own.frequencies().clone()),
            Ok(plain(256, 1e6)),
            "{entries}"
        );
    }
    let entries = r#""rope_global_base_freq": 500000.0"#;
    assert_eq!(
        unread(&small("gemma3_text", entries)),
        "rope_global_base_freq"
    );
    let flux = |axes: &str| {
        read(&format!(
            r#"{{"model_type": "flux", "num_layers": 1, "num_single_layers": 1, "axes_dims_rope": {axes}}}"#
        ))
    };
    let layers = flux("[16, 56, 56]").layers();
    assert!(layers.is_ok(), "{layers:?}");
    assert_eq!(unread(&flux("[32, 48, 48]")), "axes_dims_rope");
    // A scaling by 1 of a class that reads none.
    let entries = r#""rope_scaling": {"type": "linear", "factor": 1.0}"#;
    assert!(
        small("cohere2_moe", &format!(r#""sliding_window": 8, {entries}"#))
            .layers()
            .is_ok()
    );
}

/// `Cohere2MoeRotaryEmbedding` raises KeyError where `rope_parameters` has no `rope_theta` and no scaling.
#[test]
fn parameters_that_fail_in_the_class_are_refused() {
    let cohere = |entries: &str| {
        let config = small("cohere2_moe", &format!(r#""sliding_window": 8, {entries}"#));
        config.with_layer_type("sliding_attention").frequencies()
    };
    assert_eq!(cohere(r#""rope_theta": 50000.0"#), Ok(plain(128, 5e4)));
    assert_eq!(
        cohere(r#""rope_parameters": {"rope_type": "default", "rope_theta": 70000.0}"#),
        Ok(plain(128, 7e4))
    );
    let linear = Scaling::Linear { factor: 2.0 };
    assert_eq!(
        cohere(
            r#""rope_theta": 50000.0, "rope_parameters": {"rope_type": "linear", "factor": 2.0}"#
        ),
        Ok(of_formula(128, 5e4, &linear).expect("frequencies"))
    );
    for parameters in [r#"{"rope_type": "default"}"#, "{}", "null"] {
        let found = cohere(&format!(
            r#""rope_theta": 50000.0, "rope_parameters": {parameters}"#
        ));
        assert_eq!(
            found.expect_err("a refusal").to_string(),
            "cohere2_moe: rope_parameters without rope_theta fail in the model's own code"
        );
    }
}

/// The texts of two refusals name the key that is read, and both numbers.
#[test]
fn texts_name_the_place_that_counts() {
    let error = small("apertus", r#""rope_theta": 500000.0"#).rotation();
    assert_eq!(
        error.expect_err("a refusal").to_string(),
        "rope_theta is 500000 in the file, and this model's code ignores it; the nearest key that it reads is \
        rope_parameters.rope_theta (Config::lenient answers as the code does, Config::without leaves the key out)"
    );
    let error =
        read(r#"{"model_type": "longcat_flash", "num_layers": 28, "num_hidden_layers": 28}"#)
            .layers();
    assert_eq!(
        error.expect_err("a refusal").to_string(),
        "num_hidden_layers must be chosen from: 28 (num_hidden_layers), 56 (2 * num_layers)"
    );
}

/// Another program wrote these files for code of its own: the class of their `model_type` does not rotate.
#[test]
fn a_type_without_a_rotation_is_refused_if_its_file_has_keys_of_one() {
    let chronos = r#"{"architectures": ["Chronos2Model"], "model_type": "t5", "d_model": 768, "d_kv": 64,
        "num_heads": 12, "num_layers": 12, "rope_theta": 10000.0, "chronos_config": {}}"#;
    let error = read(chronos).model().expect_err("a refusal");
    assert_eq!(
        error.to_string(),
        "rope_theta is 10000 in the file, and this model's code ignores it; t5 has no rotation, but the file's \
        architectures are Chronos2Model: if its code rotates, Config::with_model_type reads it by the rules of another \
        type (Config::lenient answers as the code does, Config::without leaves the key out)"
    );
    let grok = r#"{"architectures": ["Grok1ForCausalLM"], "model_type": "git", "rope_theta": 208533496,
        "rope_type": "original", "scaling_factor": 16.0}"#;
    let error = read(grok).model().expect_err("a refusal").to_string();
    for part in [
        "rope_theta is 208533496 ",
        "git has no rotation, nor does it read rope_type, ",
        " Grok1ForCausalLM: ",
    ] {
        assert!(error.contains(part), "{error}");
    }
    for (text, path) in [
        (
            r#"{"model_type": "gpt2", "rotary_emb_fraction": 0.5}"#,
            "rotary_emb_fraction",
        ),
        (
            r#"{"model_type": "bert", "position_embedding_type": "rotary"}"#,
            "position_embedding_type",
        ),
        (
            r#"{"model_type": "opt", "text": {"rope_scaling": {"type": "linear"}}}"#,
            "text.rope_scaling",
        ),
        (
            r#"{"model_type": "mpt", "attn_config": {"rope": true, "rope_theta": 1e4}}"#,
            "attn_config.rope",
        ),
    ] {
        let config = read(text);
        match config.model() {
            Err(Error::Unread { key, .. }) => assert_eq!(key, path, "{text}"),
            other => panic!("{text}: {other:?}"),
        }
        for still in [config.clone().lenient(), config.without(path)] {
            let rest = still.without("rope_theta").model();
            assert!(
                matches!(rest, Err(Error::NothingRotates { .. })),
                "{text}: {rest:?}"
            );
        }
    }
    // Keys that name no rotation, and those of published files whose code does not use them.
    for text in [
        r#"{"model_type": "gpt2", "rotary_emb_fraction": 0.0}"#,
        r#"{"model_type": "bert", "position_embedding_type": "absolute"}"#,
        r#"{"model_type": "t5", "rope_scaling": null, "use_rope": false}"#,
        r#"{"model_type": "mpt", "attn_config": {"alibi": true, "rope": false, "rope_theta": 10000}}"#,
        r#"{"model_type": "nemotron_h", "rope_theta": 10000, "partial_rotary_factor": 1.0}"#,
        r#"{"model_type": "kimi_linear", "rope_theta": 10000.0, "qk_rope_head_dim": 64}"#,
    ] {
        let still = read(text).model();
        assert!(
            matches!(still, Err(Error::NothingRotates { .. })),
            "{text}: {still:?}"
        );
    }
}

/// The names of the composites in the guide.
fn composites() -> Vec<String> {
    let others = include_str!("../../rope-core/models/src/types/others.rs");
    let list = others.split_once("const PARTS").expect("the list").1;
    let list = list.split_once("\n\";").expect("its end").0;
    let wholes = list.split(';').filter_map(|line| line.split_once(':'));
    let name = |whole: &str| {
        whole
            .rsplit(['\n', ' '])
            .next()
            .unwrap_or_default()
            .to_string()
    };
    wholes.map(|(whole, _)| name(whole)).skip(1).collect()
}

/// A class of transformers drops a part that it does not have, and makes its own from its defaults.
#[test]
fn every_object_of_a_file_is_looked_at() {
    let asr = r#"{"model_type": "qwen3_asr", "thinker_config": {"text_config": {"hidden_size": 2048,
        "num_attention_heads": 16, "num_hidden_layers": 28, "head_dim": 128, "rope_theta": 1000000,
        "rope_scaling": {"mrope_section": [24, 20, 20], "mrope_interleaved": true}}}}"#;
    assert_eq!(unread(&read(asr)), "thinker_config.text_config.rope_theta");
    // Sizes count where the file has no other part for the model.
    let sizes =
        r#"{"model_type": "qwen3_asr", "thinker_config": {"text_config": {"head_dim": 64}}}"#;
    assert_eq!(unread(&read(sizes)), "thinker_config.text_config.head_dim");
    let same = r#"{"model_type": "qwen3_asr", "thinker_config": {"text_config": {"rope_theta": 10000, "head_dim": 128}}}"#;
    assert!(read(same).layers().is_ok(), "what the class has by default");
    // Llama's class reads no child, DBRX's class reads no base in its attn_config.
    let llama = small("llama", r#""text_config": {"deep": {"rope_theta": 5e5}}"#);
    assert_eq!(unread(&llama), "text_config.deep.rope_theta");
    let dbrx = r#"{"model_type": "dbrx", "attn_config": {"rope_theta": 500000}}"#;
    assert_eq!(unread(&read(dbrx)), "attn_config.rope_theta");
    let formats = small(
        "llama",
        r#""quantization_config": {"ignore": {"rotary_emb": true}}"#,
    );
    assert!(formats.layers().is_ok());

    let (mut read_ones, mut dropped) = (0, 0);
    for whole in composites() {
        let of = |path: &str, object: &str| {
            read(&format!(
                r#"{{"model_type": "{whole}", "{path}": {object}}}"#
            ))
            .model()
        };
        let Ok(model) = of("none_such", "{}") else {
            continue;
        };
        let plain = model.layers();
        if plain.is_err() {
            continue;
        }
        read_ones += 1;
        for (path, object) in [
            (
                "thinker_config",
                r#"{"text_config": {"rope_theta": 123456}}"#,
            ),
            (
                "none_such",
                r#"{"rope_scaling": {"type": "linear", "factor": 3.0}}"#,
            ),
        ] {
            match of(path, object).and_then(|model| Ok(model.layers()?.len())) {
                Err(Error::Unread { key, .. }) => {
                    assert!(key.starts_with(path), "{whole}: {key}");
                    dropped += 1;
                }
                // The class has such a part.
                other => assert!(
                    whole.ends_with("omni") || whole.ends_with("omni_moe"),
                    "{whole}: {other:?}"
                ),
            }
        }
    }
    assert!(read_ones > 100 && dropped > 200, "{read_ones} {dropped}");
}

/// Strict reading holds where only the base and the scaling are read.
#[test]
fn the_base_and_the_scaling_of_an_unknown_model_are_all_of_the_file() {
    let over = |entries: &str| {
        let text = format!(r#"{{"model_type": "x", "rope_theta": 10000.0, {entries}}}"#);
        read(&text).frequencies_over(64)
    };
    for (entries, path) in [
        (r#""rope_tetha": 500000.0"#, "rope_tetha"),
        (r#""use_scaled_rope": true"#, "use_scaled_rope"),
        (r#""rope_type": "original""#, "rope_type"),
        (r#""yarn": {"factor": 4.0}"#, "yarn"),
        (r#""compress_rope_theta": 160000"#, "compress_rope_theta"),
        (r#""rope_local_base_freq": 5000"#, "rope_local_base_freq"),
        (r#""rope_scaling_factor": 8"#, "rope_scaling_factor"),
        (
            r#""attention": {"rope_theta": 20000}"#,
            "attention.rope_theta",
        ),
        (
            r#""rope_scaling": {"type": "linear", "factor": 2.0}, "rope_parameters": {"rope_type": "default"}"#,
            "rope_parameters",
        ),
    ] {
        match over(entries) {
            Err(Error::Unread { key, .. }) => assert_eq!(key, path, "{entries}"),
            other => panic!("{entries}: {other:?}"),
        }
    }
    // What the caller knows passes, and keys that repeat what is read.
    for entries in [
        r#""partial_rotary_factor": 0.5, "head_dim": 128, "qk_rope_head_dim": 64"#,
        r#""rope_interleave": true, "no_rope_layers": [1, 0], "position_embedding_type": "rope""#,
        r#""rotary_emb_base": 10000, "use_scaled_rope": false, "rope_type": "default""#,
        r#""vision_config": {"rope_theta": 100.0}, "hidden_size": 64"#,
    ] {
        assert_eq!(over(entries), Ok(plain(64, 1e4)), "{entries}");
    }
}

/// Behind `with_model_type`, sizes under the names of another class are dropped.
#[test]
fn sizes_under_other_names_are_refused_by_name() {
    let chronos = r#"{"model_type": "t5", "d_model": 768, "d_kv": 64, "num_heads": 12, "num_layers": 12,
        "rope_theta": 10000.0}"#;
    let config = read(chronos).with_model_type("llama");
    match config.rotation() {
        Err(Error::Unread { key, nearest, .. }) => {
            assert_eq!((key.as_str(), nearest), ("d_model", "hidden_size"));
        }
        other => panic!("{other:?}"),
    }
    for (entries, path) in [
        (
            r#""hidden_size": 768, "num_attention_heads": 12, "d_kv": 128"#,
            "d_kv",
        ),
        (r#""hidden_size": 768, "n_head": 12"#, "n_head"),
        (
            r#""hidden_size": 768, "num_attention_heads": 12, "n_embd": 1024"#,
            "n_embd",
        ),
    ] {
        let text = format!(r#"{{"model_type": "t5", {entries}}}"#);
        match read(&text).with_model_type("llama").rotation() {
            Err(Error::Unread { key, .. }) => assert_eq!(key, path),
            other => panic!("{entries}: {other:?}"),
        }
    }
    let same = r#"{"model_type": "t5", "hidden_size": 768, "num_attention_heads": 12, "d_model": 768, "d_kv": 64}"#;
    assert_eq!(
        read(same).with_model_type("llama").frequencies(),
        Ok(plain(64, 1e4))
    );
    // GPT-J's own names.
    let own = r#"{"model_type": "t5", "n_embd": 2048, "n_head": 16}"#;
    assert!(read(own).with_model_type("gptj").rotation().is_ok());
}

/// Parts whose classes have no type of their own are named by the whole and the part: `Qwen3OmniMoeCode2WavConfig` and
/// `SaProtConfig`, whose rotary embeddings were run.
#[test]
fn parts_without_a_type_are_read_as_their_classes() {
    let part = |whole: &str, part: &str, entries: &str| {
        let text = format!(r#"{{"model_type": "{whole}", "{part}": {{{entries}}}}}"#);
        read(&text).with_part(part).layers()
    };
    let speech = |entries: &str| part("qwen3_omni_moe", "code2wav_config", entries);
    let layers = speech("").expect("its class");
    assert_eq!(layers.len(), 8);
    assert_eq!(
        layers.get(0).and_then(|layer| layer.layer_type),
        Some("sliding_attention")
    );
    assert_eq!(*layers.rotations()[0].frequencies(), plain(64, 1e4));
    let layers = speech(
        r#""model_type": "", "rope_theta": 20000, "num_attention_heads": 8, "hidden_size": 256"#,
    );
    assert_eq!(
        *layers.expect("its class").rotations()[0].frequencies(),
        plain(32, 2e4)
    );
    let protein = |entries: &str| part("evolla", "protein_encoder_config", entries);
    let layers = protein("").expect("its class");
    assert_eq!(layers.len(), 33);
    assert_eq!(*layers.rotations()[0].frequencies(), plain(64, 1e4));
    let layers = protein(r#""rope_theta": 20000.0, "hidden_size": 128, "num_attention_heads": 4"#);
    assert_eq!(
        *layers.expect("its class").rotations()[0].frequencies(),
        plain(32, 2e4)
    );
    let still = protein(r#""position_embedding_type": "absolute""#);
    assert!(
        matches!(still, Err(Error::NothingRotates { .. })),
        "{still:?}"
    );
    // The talker's parts belong to its class, and are no keys of the thinker's.
    let omni = r#"{"model_type": "qwen3_omni_moe", "thinker_config": {"text_config": {"rope_theta": 1000000, "hidden_size": 2048,
        "num_attention_heads": 32}},
        "talker_config": {"text_config": {"rope_theta": 5000, "hidden_size": 1024, "num_attention_heads": 16}}, "code2wav_config": {"rope_theta": 7000}}"#;
    let thinker = read(omni)
        .with_part("thinker_config.text_config")
        .rotation();
    assert!(thinker.is_ok(), "{thinker:?}");
    let talker = read(omni).with_part("talker_config.text_config").rotation();
    assert!(talker.is_ok(), "{talker:?}");
}
