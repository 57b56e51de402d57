//! GGUF keys to layers and frequencies, as llama.cpp reads them.
//!
//! The expected values were read from llama.cpp's own code in the crate `llama-cpp-sys-2` 0.1.161: `load_hparams` and
//! `llama_model_rope_type` in `src/llama-model.cpp`, the constructor of `llama_context` in `src/llama-context.cpp`, and
//! `load_arch_hparams` and the graph of each architecture in `src/models`. A case names the file of its rule.

use rope_core::axes::Axes;
use rope_core::{Frequencies, Pairing, Scaling, Yarn};
use rope_models::{Error, Gguf, GgufValue, Layer, Layers, Rotation};

use crate::models::of_formula;

use serde_json::Value;

use GgufValue::{Bool, Bools, Float, Integer, Integers, Text};

type Keys<'a> = Vec<(&'a str, GgufValue<'a>)>;

fn missing(key: &str) -> Error {
    let key = key.to_owned().into();
    Error::Missing { key }
}

/// Shortcuts for questions about a file.
trait Answers {
    fn rotation(&self) -> Result<Rotation, Error>;
    fn layers(&self) -> Result<Layers, Error>;
    fn frequencies(&self) -> Result<Frequencies<'static>, Error> {
        Ok(self.rotation()?.into_frequencies())
    }
    fn pairing(&self) -> Result<(Pairing, Pairing), Error> {
        Ok(self.rotation()?.pairing())
    }
}

impl Answers for Gguf<'_> {
    fn rotation(&self) -> Result<Rotation, Error> {
        self.model()?.rotation().cloned()
    }

    fn layers(&self) -> Result<Layers, Error> {
        self.model()?.layers().cloned()
    }
}

/// Keys of an architecture, without its name.
type Own<'a> = &'a [(&'a str, GgufValue<'a>)];

fn keys<'a>(architecture: &'a str, own: &[(&'a str, GgufValue<'a>)]) -> Keys<'a> {
    let mut keys = vec![("general.architecture", Text(architecture))];
    keys.extend_from_slice(own);
    keys
}

#[test]
fn scaling_follows_the_keys() {
    let cases: &[(Own<'_>, Scaling<'_>)] = &[
        (&[], Scaling::Default),
        (
            &[("llama.rope.scaling.type", Text("none"))],
            Scaling::Default,
        ),
        (
            &[("llama.rope.scale_linear", Float(4.0))],
            Scaling::Linear { factor: 4.0 },
        ),
        (
            &[
                ("llama.rope.scaling.type", Text("linear")),
                ("llama.rope.scaling.factor", Float(4.0)),
            ],
            Scaling::Linear { factor: 4.0 },
        ),
        (
            &[
                ("llama.rope.scaling.type", Text("yarn")),
                ("llama.rope.scaling.factor", Float(4.0)),
                ("llama.rope.scaling.original_context_length", Integer(32768)),
            ],
            Scaling::Yarn(Yarn::new(4.0, 32768)),
        ),
        (
            &[
                ("llama.rope.scaling.type", Text("yarn")),
                ("llama.rope.scaling.factor", Integer(40)),
                ("llama.context_length", Integer(4096)),
                // Read for other architectures only.
                ("llama.rope.scaling.yarn_log_multiplier", Float(0.125)),
                ("llama.rope.scaling.yarn_beta_fast", Float(8.0)),
            ],
            Scaling::Yarn(Yarn::new(40.0, 4096)),
        ),
    ];
    for (own, scaling) in cases {
        let mut keys = keys("llama", own);
        keys.push(("llama.attention.key_length", Integer(128)));
        let gguf = Gguf::new(&keys).unwrap().with_freq_factors(None);
        assert_eq!(gguf.frequencies(), of_formula(128, 1e4, scaling));
    }
}

#[test]
fn architectures_pair_as_in_llama_cpp() {
    let sections = ("rope.dimension_sections", Integers(&[16, 24, 24, 0]));
    let pairing = |architecture| file(architecture, &[sections], |gguf| gguf.pairing());
    let both = |pairing| Ok((pairing, pairing));
    assert_eq!(pairing("llama"), both(Pairing::Interleaved));
    assert_eq!(pairing("deepseek2"), both(Pairing::Interleaved));
    assert_eq!(pairing("qwen3"), both(Pairing::Half));
    assert_eq!(pairing("qwen2vl"), both(Pairing::Half));
    assert_eq!(
        pairing("novel").unwrap_err().to_string(),
        "general.architecture is \"novel\", which is not known here"
    );
    let key = "general.architecture";
    assert_eq!(Gguf::new(&[]).unwrap_err(), missing(key));
    let number = Gguf::new(&[(key, Integer(1))]).unwrap_err();
    assert_eq!(
        number.to_string(),
        "general.architecture is 1, but must be a text"
    );
}

#[test]
fn sections_deal_out_the_axes() {
    let sections = &[24, 20, 20, 0];
    let qwen = keys(
        "qwen3vl",
        &[
            ("qwen3vl.attention.key_length", Integer(128)),
            ("qwen3vl.rope.freq_base", Float(5e6)),
            ("qwen3vl.rope.dimension_sections", Integers(sections)),
        ],
    );
    let axes = Axes::ggml_imrope(128, [24, 20, 20, 0]);
    let expected = of_formula(axes, 5e6, &Scaling::Default);
    assert_eq!(Gguf::new(&qwen).unwrap().frequencies(), expected);
    let made = Gguf::new(&qwen[..3]).unwrap().frequencies();
    let key = "qwen3vl.rope.dimension_sections";
    assert_eq!(made, Err(missing(key)));
    for sections in [&[24, 20, -1, 0][..], &[24, 20, 20], &[8; 5]] {
        let mut wrong = qwen.clone();
        wrong[3].1 = Integers(sections);
        let made = Gguf::new(&wrong).unwrap().frequencies();
        assert_eq!(
            made.unwrap_err().to_string(),
            format!(
                "qwen3vl.rope.dimension_sections is {sections:?}, but must be four counts of pairs"
            )
        );
    }
}

/// `hunyuan-vl.cpp`, which `hunyuan-dense` inherits; other architectures do not read alpha.
#[test]
fn alpha_changes_the_base() {
    let made = |architecture: &str, others: &[(&str, GgufValue<'_>)]| {
        let names: Vec<String> = others
            .iter()
            .map(|(key, _)| format!("{architecture}.{key}"))
            .collect();
        let mut keys = keys(architecture, &[]);
        for (name, (_, value)) in names.iter().zip(others) {
            keys.push((name, *value));
        }
        Gguf::new(&keys).unwrap().frequencies()
    };
    let dim = ("attention.key_length", Integer(128));
    let alpha = ("rope.scaling.alpha", Float(1000.0));
    let scaled = of_formula(128, 1e4, &Scaling::NtkAlpha { alpha: 1000.0 });
    assert_eq!(made("hunyuan-dense", &[dim, alpha]), scaled);
    let plain = of_formula(128, 1e4, &Scaling::Default);
    assert_eq!(made("hunyuan-dense", &[dim]), plain);
    assert_eq!(made("hunyuan-moe", &[dim, alpha]), plain);
    let refused = "hunyuan-dense.rope.scaling.alpha is 1000.0, but must be alone, and for heads that rotate as a whole";
    let made =
        |architecture, more: &[_]| made(architecture, more).map_err(|error| error.to_string());
    let refused = Err(refused.to_owned());
    let factor = ("rope.scaling.factor", Float(2.0));
    assert_eq!(made("hunyuan-dense", &[dim, alpha, factor]), refused);
    let part = ("rope.dimension_count", Integer(64));
    assert_eq!(made("hunyuan-dense", &[dim, alpha, part]), refused);
}

#[test]
fn tensors_of_factors() {
    let factors = [1.5f32; 48];
    let phi = keys(
        "phi3",
        &[
            ("phi3.embedding_length", Integer(3072)),
            ("phi3.attention.head_count", Integer(32)),
            ("phi3.rope.scaling.type", Text("longrope")),
            ("phi3.rope.scaling.attn_factor", Float(1.25)),
        ],
    );
    let gguf = Gguf::new(&phi).unwrap();
    let tensor = "rope_factors_long.weight or rope_factors_short.weight";
    let architecture = "phi3";
    let untold = Error::FreqFactors {
        architecture,
        tensor,
    };
    assert_eq!(gguf.frequencies(), Err(untold));
    let none = gguf.clone().with_freq_factors(None).frequencies();
    assert_eq!(none, Err(missing(tensor)));
    let made = gguf
        .clone()
        .with_freq_factors(Some(&factors))
        .frequencies()
        .unwrap();
    let expected = of_formula(96, 1e4, &Scaling::FreqFactors { factors: &factors }).unwrap();
    assert!(made.iter().eq(expected.iter()));
    assert_eq!(made.attention_factor(), 1.25);
    let short = gguf.with_freq_factors(Some(&factors[1..])).frequencies();
    assert!(matches!(
        short,
        Err(Error::Rope(rope_core::Error::Count { .. }))
    ));
}

#[test]
fn wrong_types_are_refused() {
    for (own, key) in [
        (
            ("llama.rope.dimension_count", Float(128.0)),
            "rope.dimension_count",
        ),
        (
            ("llama.rope.dimension_count", Integer(-1)),
            "rope.dimension_count",
        ),
        (("llama.rope.scaling.type", Integer(1)), "rope.scaling.type"),
        (("llama.rope.freq_base", Text("1e4")), "rope.freq_base"),
    ] {
        let mut keys = keys("llama", &[own]);
        keys.push(("llama.attention.key_length", Integer(64)));
        match Gguf::new(&keys)
            .unwrap()
            .with_freq_factors(None)
            .frequencies()
        {
            Err(Error::Invalid { key: found, .. }) => assert_eq!(found, format!("llama.{key}")),
            other => panic!("{other:?}"),
        }
    }
    let mut fancy = keys("llama", &[("llama.rope.scaling.type", Text("fancy"))]);
    fancy.push(("llama.attention.key_length", Integer(64)));
    let made = Gguf::new(&fancy).unwrap().frequencies();
    assert_eq!(
        made.unwrap_err().to_string(),
        "llama.rope.scaling.type is \"fancy\", which is not known here; there are: none, linear, yarn, longrope"
    );
}

#[test]
fn a_tenth_of_one_is_one_again() {
    let tenth = Float(f64::from(0.1f32));
    let context = "deepseek2.rope.scaling.original_context_length";
    let keys = keys(
        "deepseek2",
        &[
            ("deepseek2.attention.key_length", Integer(64)),
            ("deepseek2.rope.scaling.type", Text("yarn")),
            ("deepseek2.rope.scaling.factor", Float(40.0)),
            (context, Integer(4096)),
            ("deepseek2.rope.scaling.yarn_log_multiplier", tenth),
        ],
    );
    let made = Gguf::new(&keys).unwrap().frequencies().unwrap();
    assert_eq!(made.attention_factor(), 1.0);
    assert!(made.softmax_factor() > 1.8);
}

/// Calls a function with a file of 128 channels per head, base 1e6, 8 layers, and these keys of its architecture.
fn file<T>(
    architecture: &str,
    own: &[(&str, GgufValue<'_>)],
    ask: impl FnOnce(Gguf<'_>) -> T,
) -> T {
    let mut all = vec![
        ("block_count", Integer(8)),
        ("attention.key_length", Integer(128)),
        ("rope.freq_base", Float(1e6)),
        ("context_length", Integer(4096)),
    ];
    all.retain(|(key, _)| !own.iter().any(|(other, _)| key == other));
    all.extend_from_slice(own);
    let names: Vec<String> = all
        .iter()
        .map(|(key, _)| format!("{architecture}.{key}"))
        .collect();
    let mut keys = keys(architecture, &[]);
    for (name, (_, value)) in names.iter().zip(&all) {
        keys.push((name, *value));
    }
    ask(Gguf::new(&keys).unwrap().with_freq_factors(None))
}

/// Returns a letter for each layer: f full, s sliding, - without queries and keys; a capital if it rotates.
fn letters(layers: &Layers) -> String {
    assert_eq!(
        (layers.len(), layers.is_empty()),
        (layers.iter().count(), false)
    );
    assert!(layers.get(layers.len()).is_none());
    let letter = |layer: Layer<'_>| {
        let letter = match layer.layer_type {
            None | Some("full_attention") => 'f',
            Some("sliding_attention") => 's',
            Some("linear_attention") => '-',
            Some(other) => panic!("{other}"),
        };
        match layer.rotation {
            Some(_) => letter.to_ascii_uppercase(),
            None => letter,
        }
    };
    layers.iter().map(letter).collect()
}

fn letters_of(gguf: Gguf<'_>) -> Result<String, Error> {
    Ok(letters(&gguf.layers()?))
}

#[test]
fn each_layer_is_what_llama_cpp_makes_it() {
    const WINDOW: (&str, GgufValue<'_>) = ("attention.sliding_window", Integer(1024));
    const NONE: (&str, GgufValue<'_>) = ("attention.sliding_window", Integer(0));
    let pattern = |value| ("attention.sliding_window_pattern", value);
    let listed = pattern(Bools(&[true, false, false, true, true, false, true, true]));
    let listed_as_numbers = pattern(Integers(&[1, 0, 0, 1, 1, 0, 1, 1]));
    let kv = |list| ("attention.head_count_kv", Integers(list));
    let sections = ("rope.dimension_sections", Integers(&[16, 24, 24, 0]));
    let cases: &[(&str, Own<'_>, &str)] = &[
        // llama.cpp: all alike; layers of multi-token prediction do not run with the others
        ("llama", &[], "FFFFFFFF"),
        ("qwen3", &[("nextn_predict_layers", Integer(1))], "FFFFFFF"),
        // afmoe.cpp: each fourth layer, counted from 1, does not rotate, window or not
        ("afmoe", &[], "FFFfFFFf"),
        ("afmoe", &[WINDOW], "SSSfSSSf"),
        ("afmoe", &[WINDOW, pattern(Integer(2))], "SFSfSFSf"),
        // baichuan.cpp: LLM_TYPE_7B and LLM_TYPE_13B, by the number of layers
        (
            "baichuan",
            &[("block_count", Integer(32))],
            "FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF",
        ),
        (
            "baichuan",
            &[("block_count", Integer(40))],
            "ffffffffffffffffffffffffffffffffffffffff",
        ),
        // bert.cpp, shared by several architectures: only nomic-bert, nomic-bert-moe and jina-bert-v3; starcoder.cpp
        // has no call
        ("bert", &[], "ffffffff"),
        ("nomic-bert", &[], "FFFFFFFF"),
        ("starcoder", &[], "ffffffff"),
        ("mamba", &[], "ffffffff"),
        // cohere2.cpp, exaone-moe.cpp, muse-glimmer.cpp, maple.cpp: `is_swa(il)`
        ("cohere2", &[], "SSSfSSSf"),
        ("cohere2", &[listed], "SffSSfSS"),
        ("cohere2", &[listed_as_numbers], "SffSSfSS"),
        ("exaone-moe", &[WINDOW], "SSSfSSSf"),
        ("muse-glimmer", &[WINDOW], "SSSfSSSf"),
        ("maple", &[listed], "SffSSfSS"),
        // cohere2moe.cpp: `is_swa || force_rope`; the first of four is full
        (
            "cohere2moe",
            &[("leading_dense_block_count", Integer(1))],
            "FSSSfSSS",
        ),
        ("cohere2moe", &[], "fSSSfSSS"),
        // deci.cpp, lfm2.cpp, granite-hybrid.cpp, plamo2.cpp: `n_head_kv(il) == 0`
        ("deci", &[kv(&[8, 0, 8, 8, 0, 0, 8, 8])], "F-FF--FF"),
        ("lfm2", &[kv(&[0, 0, 8, 0, 0, 8, 0, 0])], "--F--F--"),
        (
            "granitehybrid",
            &[kv(&[0, 0, 8, 0, 0, 8, 0, 0])],
            "--F--F--",
        ),
        ("plamo2", &[kv(&[0, 4, 0, 4, 0, 4, 0, 4])], "-F-F-F-F"),
        // exaone4.cpp: windows in 64 layers, and `is_swa(il) || swa_type == NONE`
        ("exaone4", &[WINDOW], "FFFFFFFF"),
        // gemma2.cpp, gemma3.cpp, gemma3n.cpp, gemma-embedding.cpp, gemma4.cpp, openai-moe.cpp: all rotate
        ("gemma2", &[], "SFSFSFSF"),
        ("gemma3", &[WINDOW], "SSSSSFSS"),
        ("gemma3", &[], "FFFFFFFF"),
        ("gemma3n", &[WINDOW], "SSSSFSSS"),
        ("gemma-embedding", &[WINDOW], "SSSSSFSS"),
        ("gemma4", &[WINDOW, listed], "SFFSSFSS"),
        ("gpt-oss", &[WINDOW], "SFSFSFSF"),
        // set_swa_pattern: a period of 0 makes all slide, of 1 none
        ("gpt-oss", &[WINDOW, pattern(Integer(0))], "SSSSSSSS"),
        ("gpt-oss", &[WINDOW, pattern(Integer(1))], "FFFFFFFF"),
        // granite.cpp: rope_finetuned is the switch, true where it is missing; granite-moe.cpp does not read it
        ("granite", &[], "FFFFFFFF"),
        (
            "granite",
            &[("rope.scaling.finetuned", Bool(false))],
            "ffffffff",
        ),
        (
            "granitemoe",
            &[("rope.scaling.finetuned", Bool(false))],
            "FFFFFFFF",
        ),
        // granite-swa.cpp: rope_pattern
        ("granite_swa", &[listed], "SFFSSFSS"),
        (
            "granite_swa",
            &[
                listed,
                (
                    "attention.rope_pattern",
                    Integers(&[1, 0, 1, 0, 1, 0, 1, 0]),
                ),
            ],
            "SfFsSfSs",
        ),
        // laguna.cpp, modern-bert.cpp: the first of four and of three is full
        ("laguna", &[WINDOW], "FSSSFSSS"),
        ("laguna", &[], "FFFFFFFF"),
        ("modern-bert", &[WINDOW], "FSSFSSFS"),
        // llama4.cpp: `(il + 1) % n_no_rope_layer_step`, which is the number of layers where the window is 0
        ("llama4", &[], "SSSfSSSf"),
        ("llama4", &[NONE], "FFFFFFFf"),
        // mimo2.cpp, step35.cpp, spark2-5.cpp, dots3note.cpp: the file must list them
        ("mimo2", &[WINDOW, listed], "SFFSSFSS"),
        ("step35", &[WINDOW, listed], "SFFSSFSS"),
        ("spark2_5", &[WINDOW, listed], "SFFSSFSS"),
        ("dots3note", &[WINDOW, listed], "SFFSSFSS"),
        // minimax-01.cpp, qwen3next.cpp, qwen35.cpp: each eighth or fourth has queries and keys, or by the list
        ("minimax-01", &[], "-------F"),
        ("qwen3next", &[], "---F---F"),
        (
            "qwen35",
            &[sections, ("full_attention_interval", Integer(2))],
            "-F-F-F-F",
        ),
        (
            "qwen35moe",
            &[
                sections,
                (
                    "attention.recurrent_layers",
                    Bools(&[true, false, true, true, true, true, true, false]),
                ),
            ],
            "-F-----F",
        ),
        // olmo2.cpp, mellum.cpp, plamo3.cpp
        ("olmo2", &[WINDOW], "SSSFSSSF"),
        ("olmo2", &[], "FFFFFFFF"),
        ("mellum", &[WINDOW], "SSSFSSSF"),
        ("plamo3", &[WINDOW], "SSSSSSSF"),
        // phi3.cpp: "Phi SWA is currently disabled"
        ("phi3", &[WINDOW], "FFFFFFFF"),
        // smallthinker.cpp: `il % n_no_rope_layer_step`, and all without windows
        ("smallthinker", &[WINDOW], "fSSSfSSS"),
        ("smallthinker", &[], "FFFFFFFF"),
        (
            "smallthinker",
            &[WINDOW, ("block_count", Integer(4))],
            "FSSS",
        ),
        // smollm3.cpp: `(il + 1) % 4`
        ("smollm3", &[], "FFFfFFFf"),
    ];
    for (architecture, own, expected) in cases {
        // Gemma 4 needs the tensor; most others do not read it.
        let factors = (*architecture == "gemma4").then_some(&[1.0; 64][..]);
        let made = file(architecture, own, |gguf| {
            letters_of(gguf.with_freq_factors(factors))
        });
        assert_eq!(made.as_deref(), Ok(*expected), "{architecture} {own:?}");
    }
    let layers = ("block_count", Integer(64));
    let made = file("exaone4", &[layers], letters_of).unwrap();
    assert_eq!(made, "SSSf".repeat(16));
}

#[test]
fn ambiguous_layers_are_refused() {
    let pattern = "attention.sliding_window_pattern";
    assert_eq!(
        file("gemma4", &[], letters_of),
        Err(missing(&format!("gemma4.{pattern}")))
    );
    let short = (pattern, Bools(&[true; 7]));
    assert_eq!(
        file("gemma4", &[short], letters_of)
            .unwrap_err()
            .to_string(),
        "gemma4.attention.sliding_window_pattern is [true, true, true, true, true, true, true], but must be a count, or a list with an entry for each layer"
    );
    assert!(file("gemma4", &[(pattern, Integer(4))], letters_of).is_err());
    assert!(
        file(
            "gemma3",
            &[("attention.sliding_window", Text("1024"))],
            letters_of
        )
        .is_err()
    );
    for layers in [0, -1, 513, i64::MAX] {
        let made = file("llama", &[("block_count", Integer(layers))], letters_of);
        assert!(made.is_err(), "{layers}");
    }
    let ahead = ("nextn_predict_layers", Integer(8));
    assert!(file("llama", &[ahead], letters_of).is_err());
    let odd = ("block_count", Integer(48));
    let what = "a Baichuan of neither 32 nor 40 layers, which llama.cpp does not run";
    let made = file("baichuan", &[odd], letters_of);
    let model = "baichuan";
    assert_eq!(made, Err(Error::Unsupported { model, what }));
    let zero = ("full_attention_interval", Integer(0));
    assert!(file("qwen3next", &[zero], letters_of).is_err());
    let decisions = ("decision.block_count", Integer(2));
    assert!(file("modern-bert", &[decisions], letters_of).is_err());
}

/// Questions about all layers: `None` for layers that do not rotate, otherwise the axes' frequencies; a question is
/// refused if its answer differs between layers.
#[test]
fn questions_about_all_layers_need_layers_that_are_alike() {
    let window = ("attention.sliding_window", Integer(1024));
    let plain = |base| of_formula(128, base, &Scaling::Default);
    // gemma2.cpp: sliding layers have the base of the others, unless the file gives them their own.
    assert_eq!(file("gemma2", &[], |gguf| gguf.frequencies()), plain(1e6));
    let own = ("rope.freq_base_swa", Float(1e4));
    let choices =
        "the layer (Model::layers) must be chosen from: full_attention, sliding_attention";
    for (architecture, own) in [
        ("gemma2", &[own][..]),
        ("gemma3", &[window]),
        ("cohere2", &[]),
        ("smollm3", &[]),
    ] {
        file(architecture, own, |gguf| {
            let refused = gguf.rotation().map_err(|error| error.to_string());
            assert_eq!(refused.err().as_deref(), Some(choices));
        });
    }
    // Layers without queries and keys make no difference.
    let qwen35 = file("qwen3next", &[], |gguf| gguf.frequencies());
    assert_eq!(qwen35, plain(1e6));
    for architecture in ["bert", "mamba", "starcoder", "nemotron_h"] {
        let model = architecture;
        file(architecture, &[], |gguf| {
            let what = "no layer of this architecture rotates";
            assert_eq!(gguf.rotation(), Err(Error::NothingRotates { model, what }));
        });
    }
    let off = ("rope.scaling.finetuned", Bool(false));
    let what = "no layer of this model rotates";
    let made = file("granite", &[off], |gguf| gguf.frequencies());
    let model = "granite";
    assert_eq!(made, Err(Error::NothingRotates { model, what }));
}

#[test]
fn sliding_layers_have_their_own_numbers() {
    let window = ("attention.sliding_window", Integer(1024));
    let listed = (
        "attention.sliding_window_pattern",
        Bools(&[true, false, false, true, true, false, true, true]),
    );
    let own = ("rope.freq_base_swa", Float(2e4));
    let own_dim = ("rope.dimension_count_swa", Integer(64));
    let linear = ("rope.scaling.factor", Float(8.0));
    let attention = ("rope.scaling.attn_factor", Float(1.5));
    let by_8 = Scaling::Linear { factor: 8.0 };
    let none = Scaling::Default;
    // Architecture, keys; for sliding layers: channels, base, scaling, attention factor; for the others: channels. The
    // others have base 1e6, the scaling, and the factor 1.5.
    type Case<'c> = (&'c str, Own<'c>, usize, f64, Scaling<'c>, f64, usize);
    let cases: &[Case<'_>] = &[
        // gemma3.cpp and similar ones: rope_freq_base_train_swa is 10000 and rope_freq_scale_train_swa 1 by default
        ("gemma3", &[window], 128, 1e4, none, 1.5, 128),
        ("gemma3", &[window, own], 128, 2e4, none, 1.5, 128),
        ("gemma3n", &[window], 128, 1e4, none, 1.5, 128),
        ("mimo2", &[window, listed], 128, 1e4, none, 1.5, 128),
        ("plamo3", &[window], 128, 1e4, none, 1.5, 128),
        ("modern-bert", &[window], 128, 1e4, none, 1.5, 128),
        // gemma2.cpp and similar ones: base and scale are those of the other layers
        ("gemma2", &[own], 128, 2e4, by_8, 1.5, 128),
        ("gpt-oss", &[window, own], 128, 2e4, by_8, 1.5, 128),
        ("afmoe", &[window, own], 128, 2e4, by_8, 1.5, 128),
        ("llama4", &[own], 128, 2e4, by_8, 1.5, 128),
        ("smallthinker", &[window, own], 128, 2e4, by_8, 1.5, 128),
        (
            "dots3note",
            &[window, listed, own],
            128,
            2e4,
            by_8,
            1.5,
            128,
        ),
        // olmo2.cpp, mellum.cpp: ggml_rope_ext with freq_base, 1.0, 0.0, 1.0
        ("olmo2", &[window, own], 128, 1e6, none, 1.0, 128),
        ("mellum", &[window, own], 128, 1e6, none, 1.0, 128),
        // laguna.cpp: freq_base_l, 1.0, 0.0, 1.0, and n_rot_l
        ("laguna", &[window], 128, 1e6, none, 1.0, 128),
        ("laguna", &[window, own, own_dim], 64, 2e4, none, 1.0, 128),
        // granite-swa.cpp: ggml_rope_ext with freq_base and with n_rot of layer 0, a sliding layer
        (
            "granite_swa",
            &[window, listed, own, own_dim],
            64,
            1e6,
            by_8,
            1.5,
            64,
        ),
        // spark2-5.cpp, step35.cpp: n_rot(il); step35 halves n_rot of the other layers
        (
            "spark2_5",
            &[window, listed, own, own_dim],
            64,
            2e4,
            by_8,
            1.5,
            128,
        ),
        ("step35", &[window, listed], 128, 1e4, none, 1.5, 64),
        ("step35", &[window, listed, own_dim], 64, 1e4, none, 1.5, 64),
    ];
    for (architecture, own, dim, base, scaling, factor, others) in cases {
        let mut own = own.to_vec();
        own.extend([linear, attention]);
        file(architecture, &own, |gguf| {
            let mut slides = false;
            for layer in gguf.layers().unwrap().iter() {
                let Some(rotation) = layer.rotation else {
                    continue;
                };
                let made = rotation.frequencies();
                let sliding = layer.layer_type == Some("sliding_attention");
                slides |= sliding;
                let (dim, base, scaling, factor) = match sliding {
                    true => (*dim, *base, scaling, *factor),
                    false => (*others, 1e6, &by_8, 1.5),
                };
                let expected = of_formula(dim, base, scaling).unwrap();
                assert!(
                    made.iter().eq(expected.iter()),
                    "{architecture} {sliding} {own:?}"
                );
                assert_eq!(made.attention_factor(), factor, "{architecture} {sliding}");
            }
            assert!(slides, "{architecture}");
        });
    }
}

/// gemma4.cpp: the tensor applies to layers without a window and must exist.
#[test]
fn a_tensor_of_factors_may_count_in_some_layers() {
    let factors = [2.0_f32; 256];
    let keys = [
        ("attention.key_length", Integer(512)),
        ("attention.sliding_window", Integer(1024)),
        (
            "attention.sliding_window_pattern",
            Bools(&[true, false, false, true, true, false, true, true]),
        ),
        ("rope.dimension_count", Integer(512)),
        ("rope.dimension_count_swa", Integer(256)),
        ("rope.freq_base_swa", Float(1e4)),
    ];
    file("gemma4", &keys, |gguf| {
        let key = "rope_freqs.weight";
        assert_eq!(gguf.layers().err(), Some(missing(key)));
        let layers = gguf.with_freq_factors(Some(&factors)).layers().unwrap();
        let of = |index| {
            let rotation = layers.get(index).unwrap().rotation.unwrap();
            Ok(rotation.frequencies().clone())
        };
        assert_eq!(of(0), of_formula(256, 1e4, &Scaling::Default));
        assert_eq!(
            of(1),
            of_formula(512, 1e6, &Scaling::FreqFactors { factors: &factors })
        );
    });
    let factors = [2.0_f32; 64];
    let given = |architecture, keys: &[_]| {
        file(architecture, keys, |gguf| {
            gguf.with_freq_factors(Some(&factors)).frequencies()
        })
    };
    let divided = of_formula(128, 1e6, &Scaling::FreqFactors { factors: &factors });
    assert_eq!(given("llama", &[]), divided);
    // qwen3.cpp does not load it, deepseek.cpp requests it without loading it, llada.cpp loads it without using it.
    for architecture in ["qwen3", "deepseek", "llada"] {
        assert!(given(architecture, &[]).is_err(), "{architecture}");
    }
    assert!(given("llama", &[("rope.scaling.factor", Float(4.0))]).is_err());
    let longrope = ("rope.scaling.type", Text("longrope"));
    assert_eq!(given("llama", &[longrope]), divided);
    assert!(file("llama", &[longrope], |gguf| gguf.frequencies()).is_err());
}

/// No key tells whether a file has the tensor: a Llama 3.1 without it would rotate as a Llama 3.0.
#[test]
fn an_optional_tensor_must_be_declared() {
    let factors = [2.0_f32; 64];
    let sliding = ("attention.sliding_window_pattern", Bools(&[true; 8]));
    // Nothing is declared here: a method of `Gguf` that loses a declaration has no effect.
    let untold = |architecture: &str, own: &[(&str, GgufValue<'_>)]| {
        let mut keys = keys(architecture, &[]);
        let names: Vec<String> = own
            .iter()
            .map(|(key, _)| format!("{architecture}.{key}"))
            .collect();
        for (name, (_, value)) in names.iter().zip(own) {
            keys.push((name, *value));
        }
        let gguf = Gguf::new(&keys).unwrap();
        let made = gguf.frequencies();
        let of_layers = gguf.layers().map(drop);
        assert_eq!(of_layers, made.as_ref().map(drop).map_err(Error::clone));
        made
    };
    let shape = [
        ("attention.key_length", Integer(128)),
        ("block_count", Integer(8)),
    ];
    let by_context = "rope_factors_long.weight or rope_factors_short.weight";
    for (architecture, tensor) in [
        ("llama", "rope_freqs.weight"),
        ("phi3", by_context),
        ("phimoe", by_context),
        ("minicpm3", by_context),
        ("minicpm", "rope_freqs.weight"),
        ("granite", "rope_freqs.weight"),
        ("exaone", "rope_freqs.weight"),
    ] {
        let error = Error::FreqFactors {
            architecture,
            tensor,
        };
        assert_eq!(untold(architecture, &shape), Err(error.clone()));
        assert_eq!(
            error.to_string(),
            format!(
                "a file of the architecture {architecture} may have the tensor {tensor}; pass its values to \
                 Gguf::with_freq_factors, or None if the file has none"
            )
        );
        let told = |factors: Option<&[f32]>| {
            file(architecture, &shape, |gguf| {
                gguf.with_freq_factors(factors).frequencies()
            })
        };
        let without = of_formula(128, 1e6, &Scaling::Default);
        assert_eq!(told(None), without, "{architecture}");
        let scaling = Scaling::FreqFactors { factors: &factors };
        assert_eq!(
            told(Some(&factors)),
            of_formula(128, 1e6, &scaling),
            "{architecture}"
        );
    }
    // Layers and architectures that read no tensor need no declaration.
    let gemma = [shape[0], shape[1], sliding];
    assert!(untold("gemma4", &gemma).is_ok());
    for architecture in ["qwen3", "deepseek", "llada"] {
        assert!(untold(architecture, &shape).is_ok(), "{architecture}");
        let none = file(architecture, &shape, |gguf| {
            gguf.with_freq_factors(None).frequencies()
        });
        assert!(none.is_ok(), "{architecture}");
    }
}

#[test]
fn yarn_matches_the_architecture() {
    let yarn = |architecture: &str, own: &[(&str, GgufValue<'_>)]| {
        let mut keys = vec![
            ("rope.scaling.type", Text("yarn")),
            ("rope.scaling.factor", Float(16.0)),
        ];
        keys.retain(|(key, _)| !own.iter().any(|(other, _)| key == other));
        keys.extend_from_slice(own);
        file(architecture, &keys, |gguf| gguf.frequencies())
    };
    let with = |change: fn(&mut Yarn)| {
        let mut yarn = Yarn::new(16.0, 4096);
        change(&mut yarn);
        of_formula(128, 1e6, &Scaling::Yarn(yarn))
    };
    let betas = [
        ("rope.scaling.yarn_beta_fast", Float(20.0)),
        ("rope.scaling.yarn_beta_slow", Float(2.0)),
    ];
    let log = |value| ("rope.scaling.yarn_log_multiplier", Float(value));
    // load_hparams reads none of these keys.
    assert_eq!(yarn("qwen3", &[betas[0], betas[1], log(0.5)]), with(|_| {}));
    // grok.cpp: yarn_beta_fast is 8 by default
    assert_eq!(yarn("grok", &[]), with(|yarn| yarn.beta_fast = 8.0));
    assert_eq!(
        yarn("grok", &betas),
        with(|yarn| (yarn.beta_fast, yarn.beta_slow) = (20.0, 2.0))
    );
    assert!(yarn("grok", &[("rope.scaling.yarn_ext_factor", Float(0.5))]).is_err());
    assert_eq!(
        yarn("grok", &[("rope.scaling.yarn_ext_factor", Float(1.0))]),
        yarn("grok", &[])
    );
    // mistral3.cpp: the multiplier unchanged, on the attention factor alone
    assert_eq!(
        yarn("mistral3", &betas),
        with(|yarn| (yarn.beta_fast, yarn.beta_slow) = (20.0, 2.0))
    );
    assert_eq!(
        yarn("mistral3", &[log(1.0)]),
        with(|yarn| yarn.attention_factor = Some(1.0))
    );
    assert!(yarn("mistral3", &[log(0.1)]).is_err());
    // deepseek2.cpp: times ten; llama-context.cpp: mscale is mscale_all_dim for deepseek2 ..
    let tenth = f64::from(0.0707_f32);
    let made = yarn("deepseek2", &[log(tenth)]).unwrap();
    assert_eq!(made.attention_factor(), 1.0);
    let mscale = 0.1 * f64::from(0.0707_f32 / 0.1) * 16_f64.ln() + 1.0;
    assert!((made.softmax_factor() - mscale * mscale).abs() < 1e-12);
    // .. and 1 for the others
    for architecture in ["deepseek32", "mistral4"] {
        assert!(yarn(architecture, &[log(tenth)]).is_err());
        assert!(yarn(architecture, &[log(f64::from(0.1_f32))]).is_ok());
    }
    assert!(yarn("deepseek2", &[]).is_err());
    assert!(yarn("glm-dsa", &[]).is_err());
    assert!(
        yarn(
            "deepseek2",
            &[log(0.1), ("rope.scaling.attn_factor", Float(1.2))]
        )
        .is_err()
    );
    for factor in [0.5, -2.0, f64::NAN] {
        assert!(
            yarn("qwen3", &[("rope.scaling.factor", Float(factor))]).is_err(),
            "{factor}"
        );
    }
    // A factor of 1 changes nothing.
    let one = [
        ("rope.scaling.type", Text("yarn")),
        ("rope.scaling.factor", Float(1.0)),
    ];
    assert_eq!(
        file("qwen3", &one, |gguf| gguf.frequencies()),
        of_formula(128, 1e6, &Scaling::Default)
    );
}

/// grok.cpp loads factors that llama-context.cpp otherwise derives from the type of the scaling: with yarn it computes
/// the attention factor anew, without yarn both factors would contradict the type.
#[test]
fn groks_own_factors_match_the_type_or_are_refused() {
    let grok = |kind, own: &[(&str, GgufValue<'_>)]| {
        let mut keys = vec![
            ("rope.scaling.type", Text(kind)),
            ("rope.scaling.factor", Float(16.0)),
        ];
        keys.extend_from_slice(own);
        file("grok", &keys, |gguf| gguf.frequencies())
    };
    let extrapolation = |value| ("rope.scaling.yarn_ext_factor", Float(value));
    let attention = |value| ("rope.scaling.yarn_attn_factor", Float(value));
    let linear = of_formula(128, 1e6, &Scaling::Linear { factor: 16.0 });
    let yarn = grok("yarn", &[]);
    assert!(yarn.is_ok());
    for (kind, own, expected) in [
        ("linear", extrapolation(0.0), Some(&linear)),
        ("linear", extrapolation(-1.0), Some(&linear)),
        ("linear", extrapolation(1.0), None),
        ("linear", attention(1.0), Some(&linear)),
        ("linear", attention(1.5), None),
        ("yarn", extrapolation(1.0), Some(&yarn)),
        ("yarn", extrapolation(-1.0), Some(&yarn)),
        ("yarn", extrapolation(0.0), None),
        ("yarn", attention(1.0), Some(&yarn)),
        ("yarn", attention(1.5), Some(&yarn)),
    ] {
        let made = grok(kind, &[own]);
        match expected {
            Some(expected) => assert_eq!(made, *expected, "{kind}, {own:?}"),
            None => assert!(
                matches!(&made, Err(Error::Invalid { key, .. }) if *key == format!("grok.{}", own.0)),
                "{kind}, {own:?}: {made:?}"
            ),
        }
    }
}

/// A model has at least one layer, and one layer is not refused.
#[test]
fn the_fewest_layers_are_one() {
    let count = |layers| {
        file("qwen3", &[("block_count", Integer(layers))], |gguf| {
            gguf.layers()
                .map(|layers| (layers.len(), layers.is_empty()))
        })
    };
    assert_eq!(count(1), Ok((1, false)));
    let none = count(0);
    assert!(
        matches!(&none, Err(Error::Invalid { key, .. }) if key == "qwen3.block_count"),
        "{none:?}"
    );
}

/// deepseek2.cpp's branch for OCR, and cogvlm.cpp, call `ggml_rope` with constants.
#[test]
fn fixed_rotations_read_no_key() {
    let keys = [
        ("rope.dimension_count", Integer(64)),
        ("rope.scaling.factor", Float(4.0)),
    ];
    for architecture in ["cogvlm", "deepseek2-ocr"] {
        file(architecture, &keys, |gguf| {
            assert_eq!(gguf.pairing(), Ok((Pairing::Half, Pairing::Half)));
            assert_eq!(gguf.frequencies(), of_formula(128, 1e4, &Scaling::Default));
        });
    }
}

/// `use_mrope`: two sections at least.
#[test]
fn sections_choose_the_type_of_some_architectures() {
    let sections = |list| [("rope.dimension_sections", Integers(list))];
    let both = |architecture, keys: &[_]| {
        file(architecture, keys, |gguf| {
            let pairing = gguf.pairing().map(|(input, _)| input);
            (pairing, gguf.frequencies())
        })
    };
    let plain = of_formula(128, 1e6, &Scaling::Default);
    let by_section = of_formula(
        Axes::ggml_mrope(128, [16, 24, 24, 0]),
        1e6,
        &Scaling::Default,
    );
    for (architecture, pairing) in [("glm4", Pairing::Interleaved), ("glm4moe", Pairing::Half)] {
        assert_eq!(both(architecture, &[]), (Ok(pairing), plain.clone()));
        assert_eq!(
            both(architecture, &sections(&[64, 0, 0, 0])),
            (Ok(pairing), plain.clone())
        );
        assert_eq!(
            both(architecture, &sections(&[16, 24, 24, 0])),
            (Ok(Pairing::Half), by_section.clone())
        );
    }
}

#[test]
fn refused_architectures_give_a_reason() {
    for architecture in ["deepseek4", "eagle3", "gemma4-assistant", "hrm_text"] {
        file(architecture, &[], |gguf| {
            let error = gguf.model().err();
            assert!(
                matches!(error, Some(Error::Unsupported { .. })),
                "{architecture}: {error:?}"
            );
        });
    }
    file("novel", &[], |gguf| {
        let error = gguf.model().err();
        assert!(matches!(error, Some(Error::Unknown { .. })), "{error:?}");
    });
}

/// Every architecture, as `tests/golden/gguf.py` reads llama.cpp: each layer and the parameters of its rotation.
#[test]
fn every_architecture_matches_its_cases() {
    let mut wrong = Vec::new();
    let text = rope_tests::golden::read("models/gguf.jsonl");
    let mut count = 0;
    for line in text.lines() {
        let of: Value = serde_json::from_str(line).expect("JSON");
        let architecture = of["architecture"].as_str().expect("a name");
        for case in of["cases"].as_array().expect("cases") {
            count += 1;
            // A row that no code can read may panic; the other cases are still read (tests/tools/model_mutants.py).
            let compared = std::panic::catch_unwind(|| compare(architecture, case))
                .unwrap_or_else(|_| Err("it panics".into()));
            if let Err(why) = compared {
                let id = case["id"].as_str().unwrap_or_default();
                wrong.push(format!("wrong: {architecture} {architecture} {id}: {why}"));
            }
        }
    }
    println!("{count} cases");
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// Heads of a model: their channels, and the rotating ones.
#[test]
fn a_model_has_the_window_of_its_heads() {
    let of = |architecture: &str, own: &[(&str, GgufValue<'_>)]| {
        file(architecture, own, |gguf| {
            let model = gguf.with_freq_factors(None).model()?;
            model
                .rotation()
                .map(|rotation| (rotation.window(), rotation.head_dim()))
        })
    };
    let key = |name, value| (name, Integer(value));
    let partial = [
        key("attention.key_length", 128),
        key("rope.dimension_count", 64),
    ];
    assert_eq!(of("gptneox", &partial), Ok((0..64, 128)));
    // A current file of DeepSeek-V3: keys of 576 channels in the cache, of 192 in the heads.
    let latent = [
        key("attention.key_length", 576),
        key("attention.key_length_mla", 192),
        key("attention.kv_lora_rank", 512),
        key("rope.dimension_count", 64),
    ];
    assert_eq!(of("deepseek2", &latent), Ok((128..192, 192)));
    // Heads of sliding layers may be shorter.
    let shorter = [
        key("block_count", 2),
        key("attention.key_length", 128),
        key("attention.key_length_swa", 96),
        key("rope.dimension_count", 64),
        key("rope.dimension_count_swa", 32),
        key("attention.sliding_window", 1024),
        ("attention.sliding_window_pattern", Integers(&[1, 0])),
    ];
    let heads = file("spark2_5", &shorter, |gguf| {
        let model = gguf.with_freq_factors(None).model()?;
        let layers = model.layers()?;
        let head = |layer: rope_models::Layer<'_>| {
            let rotation = layer.rotation.expect("a layer that rotates");
            (rotation.window(), rotation.head_dim())
        };
        Ok::<_, Error>(layers.iter().map(head).collect::<Vec<_>>())
    });
    assert_eq!(heads, Ok(vec![(0..32, 96), (0..64, 128)]));
    let narrow = [
        key("attention.key_length", 32),
        key("rope.dimension_count", 64),
    ];
    let refused = of("gptneox", &narrow);
    assert_eq!(
        refused.unwrap_err().to_string(),
        "gptneox.attention.key_length is 32 for 64 channels that rotate, but must be at least as many: \
         rope.dimension_count is too large"
    );
}

/// Compares one case of an architecture; the error is the difference.
fn compare(architecture: &str, case: &Value) -> Result<(), String> {
    let own = case["keys"].as_object().expect("keys");
    let lists: Vec<(String, Vec<i32>)> = own
        .iter()
        .filter_map(|(key, value)| {
            let list = value.as_array()?.iter();
            let list = list.map(|entry| entry.as_i64().map_or(0, |entry| entry as i32));
            Some((key.clone(), list.collect()))
        })
        .collect();
    let keys: Vec<(&str, GgufValue<'_>)> = own
        .iter()
        .map(|(key, value)| {
            let value = match value {
                Value::Bool(value) => Bool(*value),
                Value::String(text) => Text(text),
                Value::Array(_) => Integers(&lists.iter().find(|(own, _)| own == key).unwrap().1),
                number => match number.as_i64() {
                    Some(value) => Integer(value),
                    None => Float(number.as_f64().expect("a number")),
                },
            };
            (key.as_str(), value)
        })
        .collect();
    let factors: Option<Vec<f32>> = case["factors"]
        .as_u64()
        .map(|count| (0..count).map(|n| 1.0 + n as f32 / 8.0).collect());
    file(architecture, &keys, |gguf| {
        let gguf = gguf.with_freq_factors(factors.as_deref());
        if case["refused"] == true {
            return match (gguf.layers(), gguf.rotation()) {
                (Err(_), Err(_)) => Ok(()),
                _ => Err("it is not refused".into()),
            };
        }
        let model = gguf.model().map_err(|error| error.to_string())?;
        if model.norm().is_ok() {
            return Err("there is a norm".into());
        }
        let expected = case["layers"].as_str().expect("letters");
        let kind = case["type"].as_str().unwrap_or("none");
        let numbers = |letter| match letter {
            'F' => &case["full"],
            _ => &case["sliding"],
        };
        let rotating: Vec<char> = ['F', 'S']
            .into_iter()
            .filter(|letter| expected.contains(*letter))
            .collect();
        let mut made = Vec::new();
        for letter in &rotating {
            made.push(of_numbers(numbers(*letter), kind, factors.as_deref()));
        }
        // Either all layers have an answer, or none has one.
        let (layers, made) = match (model.layers(), made.into_iter().collect::<Option<Vec<_>>>()) {
            (Ok(layers), Some(made)) => (layers, made),
            (Err(_), None) => return Ok(()),
            (Ok(_), None) => return Err("there are frequencies".into()),
            (Err(error), Some(_)) => return Err(error.to_string()),
        };
        let ours = letters(layers);
        if ours != expected {
            return Err(format!("layers {ours} for {expected}"));
        }
        let pairing = match kind {
            "norm" => Pairing::Interleaved,
            _ => Pairing::Half,
        };
        for (layer, letter) in layers.iter().zip(expected.chars()) {
            let Some(rotation) = layer.rotation else {
                continue;
            };
            if rotation.pairing() != (pairing, pairing) {
                return Err(format!("pairing {:?}", rotation.pairing()));
            }
            let place = rotating.iter().position(|own| *own == letter);
            let expected = &made[place.expect("a letter")];
            same(rotation.frequencies(), expected).map_err(|why| format!("{letter}: {why}"))?;
        }
        // A question about all layers has an answer if the layers with queries and keys are alike.
        let mut attending = expected.chars().filter(|letter| *letter != '-');
        let first = attending.next();
        let alike = attending.all(|letter| Some(letter) == first);
        match (model.rotation(), made.first()) {
            (Ok(rotation), Some(expected)) => same(rotation.frequencies(), expected),
            (Err(Error::NothingRotates { .. }), None) => Ok(()),
            (Err(Error::Ambiguous { .. }), Some(_)) if !alike => Ok(()),
            (other, _) => Err(format!("all layers at once: {other:?}")),
        }
    })
}

/// Compares frequencies; the error is the difference.
fn same(made: &Frequencies<'_>, expected: &Frequencies<'_>) -> Result<(), String> {
    if !made.iter().eq(expected.iter()) {
        let first = |frequencies: &Frequencies<'_>| {
            let mut pairs = frequencies.iter();
            (pairs.len(), pairs.nth(1).map(|pair| pair.inverse))
        };
        return Err(format!("pairs {:?} for {:?}", first(made), first(expected)));
    }
    let factors = |of: &Frequencies<'_>| (of.attention_factor(), of.softmax_factor());
    match (factors(made), factors(expected)) {
        (ours, theirs) if ours == theirs => Ok(()),
        (ours, theirs) => Err(format!(
            "attention and softmax factor {ours:?} for {theirs:?}"
        )),
    }
}

/// Returns the frequencies of a layer's numbers, if the numbers are valid.
fn of_numbers(
    numbers: &Value,
    kind: &str,
    factors: Option<&[f32]>,
) -> Option<Frequencies<'static>> {
    let dim = numbers["dim"].as_u64()? as usize;
    let number = |key: &str| numbers[key].as_f64();
    let factor = number("factor").unwrap_or(1.0);
    let alpha = number("alpha").unwrap_or(0.0);
    let mut yarn = Yarn::new(factor, 4096);
    if let Some(betas) = numbers["betas"].as_array() {
        (yarn.beta_fast, yarn.beta_slow) = (betas[0].as_f64().unwrap(), betas[1].as_f64().unwrap());
    }
    yarn.attention_factor = number("yarn_attention_factor");
    if let Some(mscale) = number("mscale") {
        (yarn.mscale, yarn.mscale_all_dim) = (mscale, mscale);
    }
    let scaling = match numbers["scaling"].as_str() {
        Some("linear") => Scaling::Linear { factor },
        Some("yarn") => Scaling::Yarn(yarn),
        Some("alpha") => Scaling::NtkAlpha { alpha },
        Some("factors") => match factors {
            Some(factors) if factors.len() == dim / 2 => Scaling::FreqFactors { factors },
            Some(factors) if numbers["first"] == true && factors.len() > dim / 2 => {
                let factors = &factors[..dim / 2];
                Scaling::FreqFactors { factors }
            }
            // A tensor whose length differs from the number of pairs is refused.
            _ => return None,
        },
        _ => Scaling::Default,
    };
    let axes = match kind {
        "mrope" => Axes::ggml_mrope(dim, [16, 24, 24, 0]),
        "imrope" => Axes::ggml_imrope(dim, [16, 24, 24, 0]),
        _ => Axes::from(dim),
    };
    // Sections that do not cover the channels are refused.
    let made = of_formula(axes, number("base").expect("a base"), &scaling).ok()?;
    let factor = made.attention_factor() * number("attention_factor").unwrap_or(1.0);
    made.with_attention_factor(factor).ok()
}
