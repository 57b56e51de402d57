//! GGUF keys to frequencies.

use rope_core::{
    Axes, Error, Frequencies, FrequencyBlock, Gguf, GgufValue, Pairing, Scaling, Yarn,
};

use GgufValue::{Float, Integer, Integers, Text};

type Keys<'a> = Vec<(&'a str, GgufValue<'a>)>;

fn keys<'a>(architecture: &'a str, own: &[(&'a str, GgufValue<'a>)]) -> Keys<'a> {
    let mut keys = vec![("general.architecture", Text(architecture))];
    keys.extend_from_slice(own);
    keys
}

#[test]
fn scaling_follows_the_keys() {
    let deepseek = Yarn {
        mscale: 1.0,
        mscale_all_dim: 1.25,
        ..Yarn::new(40.0, 4096)
    };
    let cases: &[(&[(&str, GgufValue<'_>)], Scaling<'_>)] = &[
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
                ("llama.rope.scaling.yarn_log_multiplier", Float(0.125)),
            ],
            Scaling::Yarn(deepseek),
        ),
    ];
    for (own, scaling) in cases {
        let mut keys = keys("llama", own);
        keys.push(("llama.rope.dimension_count", Integer(128)));
        let gguf = Gguf::new(&keys).unwrap();
        let expected = Frequencies::new(128, 1e4, scaling).unwrap();
        assert_eq!(gguf.frequencies().unwrap(), expected);
        let mut storage = [FrequencyBlock::EMPTY; 8];
        assert_eq!(gguf.frequencies_in(&mut storage).unwrap(), expected);
        let short = gguf.frequencies_in(&mut storage[1..]);
        let error = Error::Storage {
            given: 7,
            needed: 8,
        };
        assert_eq!(short, Err(error));
    }
}

#[test]
fn architectures_pair_as_in_llama_cpp() {
    let pairing = |architecture| Gguf::new(&keys(architecture, &[])).unwrap().pairing();
    assert_eq!(pairing("llama"), Ok(Pairing::Interleaved));
    assert_eq!(pairing("deepseek2"), Ok(Pairing::Interleaved));
    assert_eq!(pairing("qwen3"), Ok(Pairing::Half));
    assert_eq!(pairing("qwen2vl"), Ok(Pairing::Half));
    assert_eq!(
        pairing("novel").unwrap_err().to_string(),
        "general.architecture is \"novel\", which is not known here"
    );
    let key = "general.architecture";
    assert_eq!(Gguf::new(&[]).unwrap_err(), Error::Missing { key });
    let required = "a text";
    let number = Gguf::new(&[(key, Integer(1))]).unwrap_err();
    assert_eq!(number, Error::Invalid { key, required });
}

#[test]
fn multimodal_and_sliding_window_keys() {
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
    let expected = Frequencies::new(axes, 5e6, &Scaling::Default);
    assert_eq!(Gguf::new(&qwen).unwrap().frequencies(), expected);
    let missing = Gguf::new(&qwen[..3]).unwrap().frequencies();
    let key = "rope.dimension_sections";
    assert_eq!(missing, Err(Error::Missing { key }));
    for sections in [&[24, 20, -1][..], &[8; 5]] {
        let mut wrong = qwen.clone();
        wrong[3].1 = Integers(sections);
        let made = Gguf::new(&wrong).unwrap().frequencies();
        let required = "up to four counts of pairs";
        assert_eq!(made, Err(Error::Invalid { key, required }));
    }

    let gemma = keys(
        "gemma3",
        &[
            ("gemma3.attention.key_length", Integer(256)),
            ("gemma3.rope.freq_base", Float(1e6)),
            ("gemma3.rope.freq_base_swa", Float(1e4)),
            ("gemma3.rope.scaling.type", Text("linear")),
            ("gemma3.rope.scaling.factor", Float(8.0)),
        ],
    );
    let gemma = Gguf::new(&gemma).unwrap();
    let full = Frequencies::new(256, 1e6, &Scaling::Linear { factor: 8.0 });
    assert_eq!(gemma.frequencies(), full);
    let sliding = Frequencies::new(256, 1e4, &Scaling::Default);
    assert_eq!(gemma.for_sliding_window().frequencies(), sliding);

    let narrower = keys(
        "gemma4",
        &[
            ("gemma4.rope.dimension_count", Integer(512)),
            ("gemma4.rope.dimension_count_swa", Integer(256)),
            ("gemma4.rope.freq_base_swa", Float(1e4)),
        ],
    );
    let narrower = Gguf::new(&narrower).unwrap();
    assert_eq!(narrower.rotary_dim(), Ok(512));
    assert_eq!(narrower.for_sliding_window().frequencies(), sliding);
}

/// It says that the model's own code changes the base.
#[test]
fn alpha_is_refused() {
    let key = "rope.scaling.alpha";
    for (alpha, refused) in [(0.0, false), (1000.0, true)] {
        let keys = keys(
            "hunyuan-dense",
            &[
                ("hunyuan-dense.rope.dimension_count", Integer(128)),
                ("hunyuan-dense.rope.scaling.alpha", Float(alpha)),
            ],
        );
        let made = Gguf::new(&keys).unwrap().frequencies();
        let required = "0, or not there";
        assert_eq!(
            made.err(),
            refused.then_some(Error::Invalid { key, required })
        );
    }
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
    assert!(matches!(gguf.frequencies(), Err(Error::Missing { .. })));
    let made = gguf.with_freq_factors(&factors).frequencies().unwrap();
    let expected = Frequencies::new(96, 1e4, &Scaling::FreqFactors { factors: &factors }).unwrap();
    assert!(made.pairs().eq(expected.pairs()));
    assert_eq!(made.attention_factor(), 1.25);
    let short = gguf.with_freq_factors(&factors[1..]).frequencies();
    assert!(matches!(short, Err(Error::Count { .. })));
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
        match Gguf::new(&keys).unwrap().frequencies() {
            Err(Error::Invalid { key: found, .. }) => assert_eq!(found, key),
            other => panic!("{other:?}"),
        }
    }
    let mut fancy = keys("llama", &[("llama.rope.scaling.type", Text("fancy"))]);
    fancy.push(("llama.attention.key_length", Integer(64)));
    let made = Gguf::new(&fancy).unwrap().frequencies();
    assert!(matches!(
        made,
        Err(Error::Unknown {
            key: "rope.scaling.type",
            ..
        })
    ));
}

#[test]
fn a_tenth_of_one_is_one_again() {
    let tenth = Float(f64::from(0.1f32));
    let context = "deepseek2.rope.scaling.original_context_length";
    let keys = keys(
        "deepseek2",
        &[
            ("deepseek2.rope.dimension_count", Integer(64)),
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
