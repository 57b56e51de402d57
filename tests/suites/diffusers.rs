//! Files of diffusers, which name their class in place of a model type, and files of programs that name neither.
//!
//! The cases are made by running diffusers' classes (`golden/diffusers_types.py`), never from the crate's table.

use crate::model_types::{Outcome, outcome};
use rope_models::{Config, Error};
use rope_tests::golden;
use serde_json::Value;

fn cases() -> Vec<Value> {
    let lines = golden::read("diffusers.jsonl");
    let cases = lines
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"));
    cases.collect()
}

#[test]
fn every_class_is_read_as_it_runs() {
    let cases = cases();
    assert!(cases.len() >= 20, "{}", cases.len());
    let mut wrong = Vec::new();
    for case in &cases {
        let outcome = outcome(case);
        if !matches!(outcome, Outcome::Right) {
            wrong.push(format!("{}: {outcome}", case["id"]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[track_caller]
fn refused(text: &str) -> Error {
    let config = Config::from_json(text).expect("JSON");
    let found = config
        .model()
        .and_then(|model| model.rotation().map(|_| ()));
    found.expect_err("a refusal")
}

/// A list of axes has the channels of a head, which the code adds up.
#[test]
fn axes_that_are_not_those_of_a_head_are_refused() {
    for (axes, part) in [
        ("[16, 56]", "72 channels"),
        ("[16, 56, 57]", "even counts"),
        ("[128, 0, 0]", "even counts"),
        ("[26, 26, 26, 26, 24]", "one to four axes"),
        ("[]", "0 channels"),
        ("7", "even counts"),
        (
            "[9223372036854775806, 9223372036854775806, 130]",
            "axes_dims_rope",
        ),
    ] {
        let text =
            format!(r#"{{"_class_name": "FluxTransformer2DModel", "axes_dims_rope": {axes}}}"#);
        let found = refused(&text).to_string();
        assert!(found.contains(part), "{axes}: {found}");
    }
    let norm = r#"{"_class_name": "HunyuanVideo15Transformer3DModel", "num_layers": 2, "qk_norm": "layer_norm"}"#;
    let model = Config::from_json(norm)
        .expect("JSON")
        .model()
        .expect("a model");
    let found = model.norm().expect_err("another formula").to_string();
    assert!(found.contains("qk_norm"), "{found}");
    assert!(model.rotation().is_ok());
}

/// A class that is not known is refused by the key that names it.
#[test]
fn files_without_a_type_name_the_way() {
    let other = refused(r#"{"_class_name": "MochiTransformer3DModel", "num_layers": 48}"#);
    let known = matches!(&other, Error::Unknown { key, .. } if key == "_class_name");
    assert!(known, "{other}");
    let meta = refused(r#"{"dim": 4096, "n_layers": 32, "n_heads": 32, "rope_theta": 500000.0}"#)
        .to_string();
    for way in [
        "params.json",
        "interleaved pairs",
        "rope_theta",
        "dim / n_heads",
    ] {
        assert!(meta.contains(way), "{meta}");
    }
    let text = r#"{"architectures": ["Eagle3DraftModel"], "speculators_model_type": "eagle3",
        "transformer_layer_config": {"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32,
        "num_hidden_layers": 1, "rope_theta": 500000.0}}"#;
    let drafts = refused(text).to_string();
    assert!(
        drafts.contains(r#"Config::with_part("transformer_layer_config")"#),
        "{drafts}"
    );
    let config = Config::from_json(text).expect("JSON");
    let model = config.with_part("transformer_layer_config").model();
    assert_eq!(
        model.expect("a model").rotation().expect("one").head_dim(),
        128
    );
    let bare = refused(r#"{"hidden_size": 8}"#).to_string();
    assert_eq!(bare, "model_type is missing, and has no known default");
}
