//! Keys about the rotation that the code of a model ignores. A key without an effect passes; any other is an error that
//! names a way out. And files that are read as the class reads them: the behavior of the classes of transformers 5.24.0
//! was found by running them.

use crate::models::of_formula;
use rope_core::axes::Axes;
use rope_core::{Frequencies, Scaling};
use rope_models::{Config, Error, Model};
use rope_tests::bodies::config::Questions;

fn read(text: &str) -> Config {
    Config::from_json(text).expect("JSON")
}

/// Returns a small model of a type with these other entries.
fn small(model_type: &str, entries: &str) -> Config {
    read(&format!(
        r#"{{"model_type": "{model_type}", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 4
        {entries}}}"#
    ))
}

fn plain(rotary_dim: usize, base: f64) -> Frequencies<'static> {
    of_formula(rotary_dim, base, &Scaling::Default).expect("frequencies")
}

/// Returns the paths of the ignored keys, each with whether it is significant.
fn ignored(model: &Model) -> Vec<(&str, bool)> {
    let ignored = model.ignored().iter();
    ignored
        .map(|own| (own.path.as_str(), own.significant))
        .collect()
}

/// Asserts that a file is refused because of a key, and that the lenient reading equals the file without the key.
#[track_caller]
fn significant(config: &Config, path: &str, nearest: &str, without: &Frequencies<'_>) {
    match config.rotation() {
        Err(Error::Unread {
            key, nearest: near, ..
        }) => assert_eq!((key.as_str(), near), (path, nearest)),
        other => panic!("{path}: {other:?}"),
    }
    let model = config.clone().lenient().model().expect("a model");
    let rotation = model.rotation().expect(path);
    assert_eq!(rotation.frequencies(), without, "{path}");
    assert!(ignored(&model).contains(&(path, true)), "{path}");
    // The strict model lists it too, and it can be removed by its path.
    let strict = config.model().expect("a model");
    assert_eq!(strict.ignored(), model.ignored(), "{path}");
    assert!(
        !ignored(&config.clone().without(path).model().expect("a model")).contains(&(path, true))
    );
}

#[test]
fn keys_that_change_nothing_pass() {
    for (model_type, entry, path) in [
        ("qwen2", r#""use_mrope": false"#, "use_mrope"),
        ("llama", r#""rope_interleaved": false"#, "rope_interleaved"),
        ("llama", r#""rope_scalling": null"#, "rope_scalling"),
        ("llama", r#""rope_none_such": false"#, "rope_none_such"),
        ("llama", r#""rope_none_such": {}"#, "rope_none_such"),
        ("llama", r#""rotary_pct": 1.0"#, "rotary_pct"),
        ("llama", r#""rope_tetha": 10000"#, "rope_tetha"),
        (
            "llama",
            r#""use_rotary_pos_emb": true"#,
            "use_rotary_pos_emb",
        ),
        (
            "llama",
            r#""rope_theta": 1e4, "rotary_emb_base": 1e4"#,
            "rotary_emb_base",
        ),
        ("llama", r#""rope_ratio": 1.0"#, "rope_ratio"),
        (
            "llama",
            r#""rotary_scaling_factor": 1"#,
            "rotary_scaling_factor",
        ),
        (
            "llama",
            r#""no_rope_layers": [1, 1, 1, 1]"#,
            "no_rope_layers",
        ),
        (
            "llama",
            r#""layer_rope_theta": [1e4, 1e4, 1e4, 1e4]"#,
            "layer_rope_theta",
        ),
        (
            "llama",
            r#""rope_scaling": {"rope_type": "default", "facor": null}"#,
            "rope_scaling.facor",
        ),
    ] {
        let model = small(model_type, &format!(", {entry}"))
            .model()
            .expect(entry);
        let rotation = model.rotation().expect(entry);
        assert_eq!(*rotation.frequencies(), plain(16, 1e4), "{entry}");
        assert_eq!(ignored(&model), [(path, false)], "{entry}");
        let own = &model.ignored()[0];
        let said = format!(
            "{path} is {}: it changes nothing, as the model's code does the same without it",
            own.value
        );
        assert_eq!(own.to_string(), said);
    }
    // The list has no keys that are read, and no unrelated keys.
    let model = small(
        "llama",
        r#", "rope_theta": 1e4, "vocab_size": 99, "use_cache": true"#,
    );
    assert_eq!(ignored(&model.model().expect("a model")), []);
    // Gemma 4's vision tower has one head size; its published files name the other one too.
    let vision = r#"{"model_type": "gemma4_vision", "head_dim": 64, "global_head_dim": 64}"#;
    assert!(read(vision).rotation().is_ok());
    let hunyuan = small(
        "hunyuan_v1_dense",
        r#", "head_dim": 16, "use_rotary_pos_emb": true"#,
    );
    assert!(hunyuan.rotation().is_ok());
}

#[test]
fn keys_that_say_something_else_are_refused_unless_lenient() {
    for (entry, path, nearest) in [
        (r#""use_mrope": true"#, "use_mrope", ""),
        (r#""rope_interleaved": true"#, "rope_interleaved", ""),
        (r#""use_rope": false"#, "use_rope", ""),
        (r#""rope_tetha": 5e5"#, "rope_tetha", "rope_theta"),
        (
            r#""rope_scalling": {"type": "linear", "factor": 2.0}"#,
            "rope_scalling",
            "rope_scaling",
        ),
        (
            r#""max_position_embedings": 99"#,
            "max_position_embedings",
            "max_position_embeddings",
        ),
        (r#""rotary_pct": 0.5"#, "rotary_pct", ""),
        (r#""layer_rope_theta": 5"#, "layer_rope_theta", ""),
        (r#""no_rope_layers": [1, 1, 1, 0]"#, "no_rope_layers", ""),
        (
            r#""layer_rope_theta": [1e4, 1e4, 1e4, 0]"#,
            "layer_rope_theta",
            "",
        ),
        (
            r#""rope_scaling": {"rope_type": "default", "facor": 8.0}"#,
            "rope_scaling.facor",
            "",
        ),
        (
            r#""rope_parameters": {"full_attention": {"rope_theta": 5e5}}"#,
            "rope_parameters.full_attention",
            "",
        ),
    ] {
        let config = small("llama", &format!(", {entry}"));
        significant(&config, path, nearest, &plain(16, 1e4));
    }
    // A misspelled key of the scaling is missing.
    let yarn = small(
        "llama",
        r#", "rope_scaling": {"type": "linear", "facor": 2.0}"#,
    );
    let error = yarn.rotation().expect_err("a refusal").to_string();
    assert_eq!(
        error,
        "rope_scaling.facor is 2 in the file, and this model's code ignores it; the nearest key that it reads is \
         factor \
         (Config::lenient answers as the code does, Config::without leaves the key out)"
    );
    let missing = yarn.lenient().rotation();
    assert_eq!(
        missing,
        Err(Error::Missing {
            key: "factor".into()
        })
    );
}

/// GPT-J's code has a number of rotating channels, 64 of its 256.
#[test]
fn gptj_reads_no_part_of_a_head() {
    let of = |part: &str| {
        read(&format!(
            r#"{{"model_type": "gptj", "partial_rotary_factor": {part}}}"#
        ))
    };
    significant(&of("0.5"), "partial_rotary_factor", "", &plain(64, 1e4));
    assert_eq!(
        *of("0.25").rotation().expect("it rotates").frequencies(),
        plain(64, 1e4)
    );
}

/// If a parameter has two values, the class reads the inner one, a set's older name, and its type's newer name.
#[test]
fn of_two_values_the_class_has_one() {
    let linear = of_formula(16, 1e4, &Scaling::Linear { factor: 2.0 }).expect("frequencies");
    for (entries, path, expected) in [
        (
            r#""rope_theta": 5e5, "rope_scaling": {"type": "default", "rope_theta": 1e4}"#,
            "rope_theta",
            plain(16, 1e4),
        ),
        (
            r#""rope_scaling": {"type": "linear", "factor": 2.0},
               "rope_parameters": {"rope_type": "linear", "factor": 4.0}"#,
            "rope_parameters",
            linear.clone(),
        ),
        (
            r#""rope_scaling": {"rope_type": "linear", "type": "yarn", "factor": 2.0}"#,
            "rope_scaling.type",
            linear.clone(),
        ),
    ] {
        let config = small("llama", &format!(", {entries}"));
        let nearest = match path {
            "rope_theta" => "rope_scaling.rope_theta",
            "rope_scaling.type" => "rope_type",
            _ => "",
        };
        significant(&config, path, nearest, &expected);
    }
    // The same set under both names.
    let twice = small(
        "llama",
        r#", "rope_theta": 1e4, "rope_scaling": {"type": "linear", "factor": 2.0},
            "rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}"#,
    );
    assert_eq!(twice.frequencies(), Ok(linear));
    // The original context beside the parameters takes precedence over the one inside.
    let contexts = small(
        "llama",
        r#", "max_position_embeddings": 4096, "original_max_position_embeddings": 1024,
            "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512}"#,
    );
    let original = 1024;
    let yarn = Scaling::Yarn(rope_core::Yarn::new(4.0, original));
    let expected = of_formula(16, 1e4, &yarn)
        .and_then(|made| Ok(made.with_softmax_factor(1.0)?))
        .expect("frequencies");
    let path = "rope_scaling.original_max_position_embeddings";
    significant(&contexts, path, "", &expected);
}

/// Rope parameters beside a part of a composite have no effect, and some make its class fail.
#[test]
fn rope_parameters_beside_a_part() {
    let llava = |entries: &str| {
        read(&format!(
            r#"{{"model_type": "llava", {entries}, "text_config": {{"model_type": "llama", "hidden_size": 64,
            "num_attention_heads": 4, "num_hidden_layers": 2, "rope_theta": 5e5}}}}"#
        ))
    };
    let linear = llava(r#""rope_scaling": {"rope_type": "linear", "factor": 4.0}"#);
    significant(&linear, "rope_scaling", "", &plain(16, 5e5));
    significant(
        &llava(r#""rope_theta": 1e4"#),
        "rope_theta",
        "",
        &plain(16, 5e5),
    );
    for same in [
        r#""rope_theta": 5e5"#,
        r#""rope_scaling": null"#,
        r#""rope_parameters": {"rope_type": "default", "rope_theta": 5e5}"#,
    ] {
        assert_eq!(llava(same).frequencies(), Ok(plain(16, 5e5)), "{same}");
    }
    for fails in [
        r#""rope_scaling": {"rope_type": "linear"}"#,
        r#""rope_scaling": {"rope_type": "yarn", "factor": 4.0}, "rope_theta": 5e5"#,
        r#""rope_parameters": {"rope_type": "yarn", "factor": 4.0}"#,
    ] {
        let found = llava(fails).lenient().rotation();
        assert!(
            matches!(found, Err(Error::Unsupported { .. })),
            "{fails}: {found:?}"
        );
    }
    // Keys beside a text model do not apply to images.
    let vision = read(
        r#"{"model_type": "qwen2_vl", "rope_theta": 1e6, "text_config": {"rope_theta": 1e6},
            "vision_config": {"embed_dim": 1280, "num_heads": 16}}"#,
    );
    assert!(vision.with_part("vision_config").rotation().is_ok());
}

/// transformers reads these keys once for all layers, and fails if a layer has its own.
#[test]
fn keys_of_the_rotation_for_one_layer_are_refused() {
    for own in [
        r#"{"rope_parameters": {"rope_type": "default", "rope_theta": 500000.0}}"#,
        r#"{"rope_theta": 500000.0}"#,
        r#"{"head_dim": 32}"#,
        r#"{"max_position_embeddings": 8}"#,
    ] {
        let config = small("llama", &format!(r#", "per_layer_config": {{"3": {own}}}"#));
        for config in [config.clone(), config.lenient()] {
            assert!(
                matches!(
                    config.rotation(),
                    Err(Error::Invalid { key, .. }) if key == "per_layer_config"
                ),
                "{own}"
            );
        }
    }
    // Equal values are no difference, and other keys do not affect the rotation.
    for own in [r#"{"rope_theta": 10000.0}"#, r#"{"attention_bias": true}"#] {
        let entries = format!(r#", "rope_theta": 10000.0, "per_layer_config": {{"3": {own}}}"#);
        assert_eq!(
            small("llama", &entries).frequencies(),
            Ok(plain(16, 1e4)),
            "{own}"
        );
    }
}

/// Numbers of more than ten layers have leading zeros.
#[test]
fn numbers_of_layers_may_be_padded() {
    let gemma4 = |numbers: [&str; 2]| {
        let [one, other] = numbers;
        read(&format!(
            r#"{{"model_type": "gemma4_text", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 12,
            "head_dim": 16, "per_layer_config": {{"{one}": {{"head_dim": 32}}, "{other}": {{"head_dim": 32}}}}}}"#
        ))
    };
    let heads = |config: &Config| -> Vec<usize> {
        let layers = config.layers().expect("layers");
        let heads = layers
            .iter()
            .map(|layer| layer.rotation.map_or(0, |rotation| rotation.head_dim()));
        heads.collect()
    };
    let mut expected = [16; 12];
    (expected[5], expected[11]) = (32, 32);
    assert_eq!(heads(&gemma4(["05", "11"])), expected);
    assert_eq!(heads(&gemma4(["5", "11"])), expected);
    for wrong in ["12", "-1", "5.0", "five", ""] {
        assert!(gemma4([wrong, "11"]).layers().is_err(), "{wrong}");
    }
}

/// The class of the whole file determines the types of its parts.
#[test]
fn parts_have_the_types_that_their_class_gives_them() {
    let shape = r#""hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 4"#;
    let name = |text: &str, part: &str| {
        let config = read(text).with_part(part);
        config.model().map(|model| model.name())
    };
    for (whole, part, own, expected) in [
        ("exaone4_5", "text_config", r#""exaone4_5_text""#, "exaone4"),
        ("kimi_k25", "text_config", r#""kimi_k2""#, "kimi_k2"),
        ("kimi_k25", "text_config", "null", "deepseek_v3"),
        ("kimi_k25", "vision_config", r#""""#, "kimi_k25_vision"),
        ("kimi_k25", "vision_config", "null", "kimi_k25_vision"),
        (
            "qwen3_asr",
            "thinker_config",
            r#""qwen3_asr_text""#,
            "qwen3",
        ),
        ("llava", "text_config", "null", "llama"),
        ("llava", "text_config", r#""qwen2""#, "qwen2"),
        // A part with its own class, under any name.
        ("qwen2_vl", "text_config", r#""qwen2""#, "qwen2_vl_text"),
        ("gemma3", "text_config", "null", "gemma3_text"),
    ] {
        let text = format!(
            r#"{{"model_type": "{whole}", "{part}": {{"model_type": {own}, {shape}, "sliding_window": 8}}}}"#
        );
        assert_eq!(name(&text, part), Ok(expected), "{text}");
    }
    // A type without parts reads the whole file.
    let ministral = read(&format!(
        r#"{{"model_type": "ministral3", {shape}, "text_config": {{"model_type": "ministral3", "head_dim": 32}}}}"#
    ));
    assert_eq!(ministral.rotation().map(|own| own.head_dim()), Ok(128));
    // The keys of the original Kimi-K2.5 differ from those of its class.
    let vision = r#"{"model_type": "kimi_k25", "vision_config": {"model_type": "", "hidden_size": 1152,
        "num_attention_heads": 16, "vt_hidden_size": 512, "vt_num_attention_heads": 8}}"#;
    let vision = read(vision).with_part("vision_config");
    let expected = of_formula(Axes::vision(72), 1e4, &Scaling::Default).expect("frequencies");
    let found = vision.rotation().expect("a rotation");
    assert_eq!(found.frequencies().rotary_dim(), expected.rotary_dim());
}

#[test]
fn composites_name_their_parts_or_the_type_that_answers() {
    let refusal = |text: &str| read(text).rotation().expect_err(text);
    let omni = refusal(
        r#"{"model_type": "qwen2_5_omni", "thinker_config": {"text_config": {}, "audio_config": {},
            "vision_config": {}},
            "talker_config": {}, "token2wav_config": {"bigvgan_config": {}}}"#,
    );
    let Error::ChoosePart { model, parts, text } = omni else {
        panic!("{omni:?}");
    };
    let expected = "talker_config, thinker_config.text_config, thinker_config.vision_config";
    let mut parts: Vec<&str> = parts.split(", ").collect();
    parts.sort_unstable();
    assert_eq!(
        (model, parts.join(", ").as_str(), text),
        ("qwen2_5_omni", expected, "")
    );
    let shape = r#""hidden_size": 256, "num_attention_heads": 4, "num_hidden_layers": 4"#;
    for (model_type, more, expected) in [
        ("llava", "", "llama"),
        (
            "glm4v",
            r#", "vision_config": {"num_heads": 4}"#,
            "glm4v_text",
        ),
        (
            "vibevoice",
            r#", "decoder_config": {"model_type": "qwen2"}"#,
            "qwen2",
        ),
    ] {
        let file = format!(r#"{{"model_type": "{model_type}", {shape} {more}}}"#);
        match refusal(&file) {
            Error::ChoosePart { text, .. } => assert_eq!(text, expected, "{file}"),
            other => panic!("{file}: {other:?}"),
        }
        assert!(
            read(&file).with_model_type(expected).rotation().is_ok(),
            "{file}"
        );
    }
    // No part of these types rotates.
    for model_type in ["mpt", "git", "clip", "dpt"] {
        let error = refusal(&format!(r#"{{"model_type": "{model_type}", {shape}}}"#));
        let what = "neither it nor its parts have a rotary embedding, so nothing rotates";
        let model = model_type;
        assert_eq!(error, Error::NothingRotates { model, what });
    }
    let refused = refusal(r#"{"model_type": "efficientloftr"}"#);
    assert!(matches!(refused, Error::Unsupported { .. }), "{refused:?}");
}

#[test]
fn names_of_parts_may_have_dots() {
    let text = r#"{"model_type": "llava", "a.b": {"text.config": {"model_type": "llama", "hidden_size": 64,
        "num_attention_heads": 4, "num_hidden_layers": 4}}, "a": {"b": {}}}"#;
    let found = read(text).with_part("a.b.text.config").frequencies();
    assert_eq!(found, Ok(plain(16, 1e4)));
    let plainly = small("llama", r#", "transformers.js_config": {"dtype": "q4"}"#);
    assert_eq!(plainly.frequencies(), Ok(plain(16, 1e4)));
    let missing = small("llama", r#", "transformers.js_config": {"dtype": "q4"}"#)
        .with_part("transformers.js_config.none");
    let error = missing.rotation().expect_err("a refusal").to_string();
    assert!(error.contains("has none to choose from"), "{error}");
}

/// The code of CLVP's encoders reads `use_rotary_embedding`.
#[test]
fn clvp_reads_its_switch() {
    let clvp = |value: &str| {
        small(
            "clvp_encoder",
            &format!(r#", "use_rotary_embedding": {value}"#),
        )
    };
    assert_eq!(
        clvp("true").frequencies(),
        small("clvp_encoder", "").frequencies()
    );
    let off = clvp("false").rotation();
    assert!(matches!(off, Err(Error::NothingRotates { .. })), "{off:?}");
}

/// Cohere 2 MoE does not read `rope_scaling`, nor a base in it, in either spelling.
#[test]
fn cohere2_moe_reads_no_rope_scaling() {
    for scaling in [
        r#"{"rope_type": "linear", "factor": 4.0, "rope_theta": 5e5}"#,
        r#"{"type": "linear", "factor": 4.0, "rope_theta": 5e5}"#,
    ] {
        let config = small(
            "cohere2_moe",
            &format!(r#", "head_dim": 16, "rope_scaling": {scaling}"#),
        );
        let config = config.with_layer_type("sliding_attention");
        significant(&config, "rope_scaling", "", &plain(16, 1e4));
    }
    let beside = small(
        "cohere2_moe",
        r#", "head_dim": 16, "rope_theta": 5e5, "rope_scaling": null"#,
    );
    let beside = beside.with_layer_type("sliding_attention");
    assert_eq!(beside.frequencies(), Ok(plain(16, 5e5)));
}

/// Step 3.5's class writes `default` before it adds an older scaling, whose `type` is then not read.
#[test]
fn step3p5_reads_no_old_type() {
    let step = |scaling: &str| {
        small(
            "step3p5",
            &format!(r#", "head_dim": 16, "rope_scaling": {scaling}"#),
        )
    };
    let old = step(r#"{"type": "linear", "factor": 4.0}"#);
    significant(&old, "rope_scaling.type", "rope_type", &plain(16, 1e4));
    let linear = of_formula(16, 1e4, &Scaling::Linear { factor: 4.0 });
    let new = step(r#"{"rope_type": "linear", "factor": 4.0}"#);
    assert_eq!(new.frequencies(), linear);
}

/// DeepSeek-V4's class scales no layer with a window, and replaces the file's part of the head by its own.
#[test]
fn deepseek_v4_has_its_own_part() {
    let deepseek = small(
        "deepseek_v4",
        r#", "head_dim": 512, "rope_scaling": {"rope_type": "proportional", "partial_rotary_factor": 0.5},
            "layer_types": ["sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention"]"#,
    );
    let path = "rope_scaling.partial_rotary_factor";
    significant(&deepseek, path, "", &plain(64, 1e4));
    // Its own two sets share one base, the base beside them.
    let nested = small(
        "deepseek_v4",
        r#", "head_dim": 512, "rope_theta": 5.0, "compress_rope_theta": 6.0, "rope_parameters": {
            "main": {"rope_type": "default", "rope_theta": 7.0, "partial_rotary_factor": 0.125},
            "compress": {"rope_type": "default", "partial_rotary_factor": 0.125}}"#,
    );
    significant(&nested, "compress_rope_theta", "", &plain(64, 5.0));
}

/// A sequence length is required if two lengths have different answers, and only then.
#[test]
fn the_length_is_asked_for_where_it_matters() {
    let long = |short: f64, long: f64| {
        small(
            "llama",
            &format!(
                r#", "max_position_embeddings": 4096, "rope_scaling": {{"rope_type": "longrope", "factor": 2.0,
                "original_max_position_embeddings": 1024, "short_factor": {:?}, "long_factor": {:?}}}"#,
                [short; 8], [long; 8]
            ),
        )
    };
    let asked = |config: &Config| matches!(config.rotation(), Err(Error::Missing { key }) if key.contains("length"));
    assert!(asked(&long(1.0, 2.0)));
    assert_eq!(
        long(1.5, 1.5).frequencies(),
        long(1.5, 1.5).with_length(9).frequencies()
    );
    let dynamic = small(
        "llama",
        r#", "max_position_embeddings": 4096, "rope_scaling": {"type": "dynamic", "factor": 2.0}"#,
    );
    assert!(asked(&dynamic));
    let mut one = read(
        r#"{"model_type": "llama", "head_dim": 2, "rope_theta": 1e4, "max_position_embeddings": 4096,
            "rope_scaling": {"rope_type": "linear", "factor": 2.0}}"#,
    );
    assert!(one.rotation().is_ok());
    one = one.with_length(9000);
    assert!(one.rotation().is_ok());
}

/// Parameters of YaRN beside another scaling, with values that apply without it.
#[test]
fn parameters_of_another_scaling_may_say_what_counts_anyway() {
    let linear = of_formula(16, 1e4, &Scaling::Linear { factor: 2.0 }).expect("frequencies");
    let config = |entry: &str| {
        let scaling =
            format!(r#", "rope_scaling": {{"rope_type": "linear", "factor": 2.0, {entry}}}"#);
        small("llama", &scaling)
    };
    for (entry, passes) in [
        (r#""truncate": true"#, true),
        (r#""truncate": false"#, false),
        (r#""mscale": 0"#, true),
        (r#""mscale": 1.0"#, false),
        (r#""attention_factor": 1.0"#, true),
        (r#""attention_factor": 0.5"#, false),
        (r#""beta_fast": null"#, true),
        (r#""beta_fast": 32"#, false),
    ] {
        let config = config(entry);
        assert_eq!(config.rotation().is_ok(), passes, "{entry}");
        assert_eq!(
            config.lenient().frequencies(),
            Ok(linear.clone()),
            "{entry}"
        );
    }
}

/// Long values and long lists of names are cut, at the end of a character.
#[test]
fn long_values_and_lists_are_cut() {
    let long: Vec<String> = (0..100).map(|number| number.to_string()).collect();
    let list = format!("[{}]", long.join(","));
    match small("llama", &format!(r#", "rope_theta": {list}"#)).rotation() {
        Err(Error::Invalid { value, .. }) => assert_eq!(value, list[..80]),
        other => panic!("{other:?}"),
    }
    match small("llama", &format!(r#", "rope_none": {list}"#)).rotation() {
        Err(Error::Unread { value, .. }) => assert_eq!(value, list[..80]),
        other => panic!("{other:?}"),
    }
    let part = |length: usize| format!(r#""{}_config": {{}}"#, "é".repeat(length));
    let text = format!(
        r#"{{"model_type": "llava", {}, {}, "a_config": {{}}}}"#,
        part(30),
        part(31)
    );
    let Err(Error::NoSuch { known, .. }) = read(&text).with_part("a").rotation() else {
        panic!();
    };
    let all = [
        "a_config".to_string(),
        "é".repeat(30) + "_config",
        "é".repeat(31) + "_config",
    ]
    .join(", ");
    assert!(known.len() <= 80 && all.starts_with(&known), "{known}");
    assert!(known.len() > 77, "{known}");
    // A text with the maximal length keeps its last name.
    let text = format!(
        r#"{{"model_type": "llava", "{}_config": {{}}, "a_config": {{}}}}"#,
        "b".repeat(63)
    );
    let Err(Error::NoSuch { known, .. }) = read(&text).with_part("a").rotation() else {
        panic!();
    };
    assert_eq!(
        (known.len(), known.ends_with("bb_config")),
        (80, true),
        "{known}"
    );
}

/// transformers warns about factors below 1 and uses them.
#[test]
fn factors_below_one_are_answered() {
    let config = |scaling: &str| {
        small(
            "llama",
            &format!(r#", "max_position_embeddings": 4096, "rope_scaling": {{{scaling}}}"#),
        )
        .with_length(8192)
    };
    let inverse = |config: &Config| -> Vec<f64> {
        let made = config.frequencies().expect("frequencies");
        made.iter().map(|pair| pair.inverse).collect()
    };
    let close = |ours: &[f64], theirs: &[f64]| {
        assert_eq!(ours.len(), theirs.len());
        for (ours, theirs) in ours.iter().zip(theirs) {
            assert!(
                (ours - theirs).abs() <= 1e-6 * theirs.abs(),
                "{ours} for {theirs}"
            );
        }
    };
    for (scaling, theirs, factor) in FACTORS {
        let config = config(scaling);
        close(&inverse(&config), &theirs);
        let made = config.frequencies().expect("frequencies");
        assert!(
            (made.attention_factor() - factor).abs() < 1e-12,
            "{scaling}"
        );
    }
}

/// Scalings of a Llama of 16 channels, with its inverse frequencies and attention factor at 8192 tokens.
const FACTORS: [(&str, [f64; 8], f64); 6] = [
    (
        r#""rope_type": "linear", "factor": 0.5"#,
        [
            2.0,
            0.632455528,
            0.200000003,
            0.0632455572,
            0.0199999996,
            0.00632455572,
            0.00200000009,
            0.000632455572,
        ],
        1.0,
    ),
    (
        r#""rope_type": "dynamic", "factor": 0.5"#,
        [
            1.0,
            0.298431128,
            0.0890611336,
            0.0265786126,
            0.00793188531,
            0.0023671214,
            0.000706422667,
            0.000210818514,
        ],
        1.0,
    ),
    (
        r#""rope_type": "yarn", "factor": 0.5, "original_max_position_embeddings": 1024"#,
        [
            1.0,
            0.316227764,
            0.125,
            0.0474341661,
            0.0175000001,
            0.00632455572,
            0.00200000009,
            0.000632455572,
        ],
        1.0,
    ),
    (
        r#""rope_type": "longrope", "factor": 0.5, "original_max_position_embeddings": 1024,
            "short_factor": [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0],
            "long_factor": [0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5]"#,
        [
            2.0,
            0.632455528,
            0.200000003,
            0.0632455572,
            0.0199999996,
            0.00632455572,
            0.00200000009,
            0.000632455572,
        ],
        1.0,
    ),
    (
        r#""rope_type": "llama3", "factor": 0.5, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 1024"#,
        [
            1.0,
            0.316227764,
            0.100000001,
            0.0316227786,
            0.0179008432,
            0.00632455572,
            0.00200000009,
            0.000632455572,
        ],
        1.0,
    ),
    (
        r#""rope_type": "proportional", "factor": 0.5, "partial_rotary_factor": 0.5"#,
        [
            2.0,
            0.632455528,
            0.200000003,
            0.0632455572,
            0.0,
            0.0,
            0.0,
            0.0,
        ],
        1.0,
    ),
];

/// The ends of YaRN's ramp are rounded unless the file says otherwise.
#[test]
fn the_ramp_is_rounded_unless_the_file_says_otherwise() {
    let yarn = |truncate: &str| {
        small(
            "llama",
            &format!(
                r#", "max_position_embeddings": 4096, "rope_scaling": {{"rope_type": "yarn", "factor": 4.0,
                "original_max_position_embeddings": 1024 {truncate}}}"#
            ),
        )
        .frequencies()
        .expect("frequencies")
    };
    let expected = |truncate| {
        let made = Scaling::Yarn(rope_core::Yarn {
            truncate,
            ..rope_core::Yarn::new(4.0, 1024)
        });
        of_formula(16, 1e4, &made)
            .and_then(|made| Ok(made.with_softmax_factor(1.0)?))
            .expect("frequencies")
    };
    assert!(expected(true) != expected(false));
    assert_eq!(yarn(""), expected(true));
    assert_eq!(yarn(r#", "truncate": null"#), expected(true));
    assert_eq!(yarn(r#", "truncate": true"#), expected(true));
    assert_eq!(yarn(r#", "truncate": false"#), expected(false));
}
