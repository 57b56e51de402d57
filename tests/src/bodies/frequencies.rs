//! Parameters of any value.

use rope_core::{
    Angle, Axes, Error, Frequencies, FrequencyBlock, Gguf, GgufValue, LongRope, Pairing, Scaling,
    Yarn,
};

use crate::Source;

/// Any axes, base and scaling, or any GGUF keys: nothing panics; what is not refused is finite, the same in the
/// caller's storage, and makes rows that are rotations.
///
/// # Panics
///
/// If that is not so.
pub fn frequencies(source: &mut Source<'_>) {
    if source.once_in(4) {
        return gguf(source);
    }
    let given: Vec<u8> = (0..source.below(40))
        .map(|_| {
            let axes = if source.once_in(8) { 256 } else { 4 };
            source.below(axes) as u8
        })
        .collect();
    let axes = axes(source, &given);
    let base = number(source);
    let lists = Lists::any(source);
    let scaling = scaling(source, &lists);
    let made = if source.once_in(4) {
        Frequencies::from_inverse(axes, &lists.doubles, base)
    } else {
        Frequencies::new(axes, base, &scaling)
    };
    check(source, made, |storage| {
        Frequencies::new_in(storage, axes, base, &scaling).map(drop)
    });
}

fn check(
    source: &mut Source<'_>,
    made: Result<Frequencies<'_>, Error>,
    in_storage: impl Fn(&mut [FrequencyBlock]) -> Result<(), Error>,
) {
    let Ok(made) = made else {
        // Refused for a reason that can be told.
        let message = made.expect_err("refused").to_string();
        assert!(!message.is_empty());
        let _ = in_storage(&mut [FrequencyBlock::EMPTY; 4]);
        return;
    };
    let (factor, rotary_dim) = (made.attention_factor(), made.rotary_dim());
    assert!(
        factor.is_finite() && factor > 0.0,
        "attention factor {factor}"
    );
    assert!(
        made.softmax_factor().is_finite(),
        "softmax factor {}",
        made.softmax_factor()
    );
    assert!(rotary_dim >= 2 && rotary_dim % 2 == 0 && (1..=4).contains(&made.axes()));
    assert_eq!(made.pairs().len(), rotary_dim / 2);
    for pair in made.pairs() {
        assert!(
            pair.inverse().is_finite() && pair.axis() < made.axes(),
            "{pair:?}"
        );
    }
    let _ = in_storage(&mut vec![
        FrequencyBlock::EMPTY;
        FrequencyBlock::count(rotary_dim)
    ]);
    if rotary_dim > 1024 {
        return;
    }
    let angle = source.one_of(&[Angle::Exact, Angle::HuggingFaceF32]);
    let first = i64::from(source.word() as i32) << source.below(32);
    let rows = made
        .with_angle(angle)
        .rows(first..first.saturating_add(2))
        .expect("a range on any axes");
    let limit = (factor * (1.0 + 1e-6)) as f32;
    for token in 0..rows.len() {
        let (cos, sin) = rows.row(token).expect("a row for each");
        for (cos, sin) in cos.iter().zip(sin) {
            assert!(
                cos.is_finite() && sin.is_finite() && cos.abs().max(sin.abs()) <= limit,
                "{cos} {sin} of {factor}"
            );
            let norm = f64::from(*cos).hypot(f64::from(*sin));
            if (1e-30..1e38).contains(&factor) {
                assert!(
                    (norm / factor - 1.0).abs() < 1e-6,
                    "{cos} {sin} of {factor}"
                );
            }
        }
    }
}

/// Lists of one number for each pair, or not quite.
struct Lists {
    singles: Vec<f32>,
    doubles: Vec<f64>,
    others: Vec<f64>,
}

impl Lists {
    fn any(source: &mut Source<'_>) -> Self {
        let len = source.below(40);
        let mut list = || (0..len).map(|_| number(source)).collect::<Vec<f64>>();
        let (doubles, others) = (list(), list());
        Lists {
            singles: doubles.iter().map(|&value| value as f32).collect(),
            doubles,
            others,
        }
    }
}

fn axes<'a>(source: &mut Source<'_>, given: &'a [u8]) -> Axes<'a> {
    let [a, b, c, d] = [0; 4].map(|_| size(source));
    match source.below(16) {
        0 => Axes::mrope([a]),
        1 => Axes::mrope([a, b, c]),
        2 => Axes::mrope([a, b, c, d]),
        3 => Axes::mrope_interleaved([a, b, c]),
        4 => Axes::mrope_alternating([a, if source.once_in(4) { b } else { a }, c]),
        5 => Axes::mrope_spread([a, b, c]),
        6 => Axes::ggml_mrope(a.saturating_mul(2), [b, c, d, a]),
        7 => Axes::ggml_imrope(2 * (a % 300), [b, c, d, a]),
        8 => Axes::per_axis([a, b]),
        9 => Axes::per_axis([a, b, c, d]),
        10 => Axes::vision(a),
        11 => Axes::pixtral(a),
        12 => Axes::wan(a),
        13 => Axes::given(given),
        _ => Axes::from(if source.once_in(4) { a } else { a & !1 }),
    }
}

fn scaling<'a>(source: &mut Source<'_>, lists: &'a Lists) -> Scaling<'a> {
    let [a, b, c, d, e] = [0; 5].map(|_| number(source));
    let (n, m) = (length(source), length(source));
    let attention_factor = source.once_in(3).then_some(e);
    match source.below(17) {
        0 => Scaling::Linear { factor: a },
        1 => Scaling::DynamicNtk {
            factor: a,
            max_position_embeddings: n,
            length: m,
        },
        2 => Scaling::NtkAlpha { alpha: a },
        3 => Scaling::NtkFixed { factor: a },
        4 => Scaling::NtkMixed {
            factor: a,
            mixed_b: b,
        },
        5 => Scaling::NtkByParts {
            factor: a,
            original_context: n,
            ntk_factor: b,
            extrapolation_factor: c,
        },
        6 | 7 => Scaling::Yarn(Yarn {
            truncate: source.once_in(2),
            attention_factor,
            mscale: c,
            mscale_all_dim: d,
            ..Yarn::new(a, n)
        }),
        8 => Scaling::Yarn(Yarn {
            beta_fast: b,
            beta_slow: c,
            attention_factor,
            ..Yarn::new(a, n)
        }),
        9 => Scaling::LongRope(LongRope {
            short_factor: &lists.doubles,
            long_factor: &lists.others,
            original_context: n,
            length: m,
            factor: a,
            attention_factor,
        }),
        10 => Scaling::Llama3 {
            factor: a,
            low_freq_factor: b,
            high_freq_factor: c,
            original_context: n,
        },
        11 => Scaling::Proportional {
            partial_rotary_factor: a,
            factor: b,
        },
        12 => Scaling::FreqFactors {
            factors: &lists.singles,
        },
        13 => Scaling::Learned {
            alphas: &lists.doubles,
        },
        14 => Scaling::Turns,
        15 => Scaling::Periods {
            min_period: a,
            max_period: b,
        },
        _ => Scaling::Default,
    }
}

/// A number that a configuration might hold, and now and then any f64 there is.
pub(super) fn number(source: &mut Source<'_>) -> f64 {
    match source.below(12) {
        0 => f64::from_bits(source.wide() as u64),
        1 => source.one_of(&[
            0.0,
            -0.0,
            f64::INFINITY,
            f64::NAN,
            f64::MIN_POSITIVE,
            5e-324,
            f64::MAX,
            -1.0,
            1.0 + f64::EPSILON,
            1.0 - f64::EPSILON / 2.0,
        ]),
        2 => f64::from(source.word()) * 2.0_f64.powi(source.below(200) as i32 - 100),
        3 => source.one_of(&[1e4, 5e5, 1e6, 1.5e5, 100.0, 8.0, 32.0, 40.0, 0.707, 0.1]),
        4..=6 => source.within(1, 64) as f64,
        _ => f64::from(source.unit().abs()) * 8.0,
    }
}

/// Small as a rule, huge now and then.
fn size(source: &mut Source<'_>) -> usize {
    match source.below(32) {
        0 => usize::MAX - source.below(3),
        1 => 1 << source.below(usize::BITS as usize),
        2 => source.below(2_000),
        3..=6 => source.below(300),
        _ => source.below(40),
    }
}

fn length(source: &mut Source<'_>) -> u64 {
    match source.below(8) {
        0 => source.wide() as u64,
        1 => u64::MAX - source.below(2) as u64,
        2 => source.below(3) as u64,
        _ => source.one_of(&[2048, 4096, 8192, 32_768, 131_072, 1_048_576]),
    }
}

/// Keys of a GGUF file, with values of any type.
fn gguf(source: &mut Source<'_>) {
    const ARCHITECTURES: [&str; 8] = [
        "llama",
        "qwen2vl",
        "qwen3vlmoe",
        "deepseek2",
        "gemma3",
        "phi3",
        "gptneox",
        "none such",
    ];
    const KEYS: [&str; 14] = [
        "rope.dimension_count",
        "rope.freq_base",
        "rope.freq_base_swa",
        "rope.scale_linear",
        "rope.scaling.type",
        "rope.scaling.factor",
        "rope.scaling.original_context_length",
        "rope.scaling.attn_factor",
        "rope.scaling.yarn_log_multiplier",
        "rope.dimension_sections",
        "attention.key_length",
        "attention.head_count",
        "embedding_length",
        "context_length",
    ];
    let architecture = source.one_of(&ARCHITECTURES);
    let names: Vec<String> = KEYS.map(|key| format!("{architecture}.{key}")).to_vec();
    let sections: Vec<i32> = (0..source.below(6)).map(|_| size(source) as i32).collect();
    let mut pairs = vec![("general.architecture", GgufValue::Text(architecture))];
    for name in &names {
        let value = match source.below(10) {
            0..=2 => GgufValue::Integer(size(source) as i64),
            3 => GgufValue::Integer(source.wide() as i64),
            4 | 5 => GgufValue::Float(number(source)),
            6 => GgufValue::Text(source.one_of(&["none", "linear", "yarn", "longrope", "?"])),
            7 => GgufValue::Integers(&sections),
            8 => GgufValue::Bool(source.once_in(2)),
            _ => continue,
        };
        pairs.push((name, value));
    }
    let lists = Lists::any(source);
    let mut gguf = Gguf::new(&pairs).expect("an architecture");
    if source.once_in(3) {
        gguf = gguf.with_freq_factors(&lists.singles);
    }
    if source.once_in(3) {
        gguf = gguf.for_sliding_window();
    }
    if let Ok(pairing) = gguf.pairing() {
        assert!(Pairing::ALL.contains(&pairing));
    }
    let (_, _) = (gguf.rotary_dim().is_ok(), gguf.axes().is_ok());
    check(source, gguf.frequencies(), |storage| {
        gguf.frequencies_in(storage).map(drop)
    });
}
