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
