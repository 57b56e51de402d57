//! Frequencies of any parameters.

use std::fmt::Display;

use rope_core::axes::Axes;
use rope_core::{Angle, Frequencies, FrequencyChunk, LongRope, Pairing, Scaling, Yarn};
use rope_models::{Gguf, GgufValue};

use crate::Source;

/// Tests any axes, base and scaling, or any GGUF keys: nothing panics, and accepted frequencies are finite, are equal
/// in the caller's storage, and make rows that are rotations.
///
/// # Panics
///
/// If an assertion fails.
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

fn check<E: Display>(
    source: &mut Source<'_>,
    made: Result<Frequencies<'_>, E>,
    in_storage: impl Fn(&mut [FrequencyChunk]) -> Result<(), E>,
) {
    let made = match made {
        Ok(made) => made,
        // The error's text can be formatted.
        Err(error) => {
            assert!(!error.to_string().is_empty());
            let _ = in_storage(&mut [FrequencyChunk::EMPTY; 4]);
            return;
        }
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
    assert_eq!(made.iter().len(), rotary_dim / 2);
    for pair in made.iter() {
        assert!(
            pair.inverse.is_finite() && pair.axis < made.axes(),
            "{pair:?}"
        );
    }
    let _ = in_storage(&mut vec![
        FrequencyChunk::EMPTY;
        FrequencyChunk::count(rotary_dim)
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
        let (cos, sin) = rows.row(token, 0).expect("a row for each");
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

/// Lists of one number per pair, or of a slightly different length.
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

type MakeAxes = for<'a> fn(&mut Source<'_>, [usize; 4], &'a [u8]) -> Axes<'a>;

/// All constructors of axes; text, the most usual one, is listed twice.
const AXES: &[MakeAxes] = &[
    |source, [a, ..], _| Axes::mrope(covered(source, &[a]), [a]),
    |source, [a, b, c, _], _| Axes::mrope(covered(source, &[a, b, c]), [a, b, c]),
    |source, sections, _| Axes::mrope(covered(source, &sections), sections),
    |source, [a, b, c, _], _| Axes::mrope_interleaved(covered(source, &[a, b, c]), [a, b, c]),
    |source, [a, b, c, _], _| {
        let sections = [a, if source.once_in(4) { b } else { a }, c];
        Axes::mrope_alternating(covered(source, &sections), sections)
    },
    |source, [a, b, c, _], _| Axes::mrope_spread(covered(source, &[a, b, c]), [a, b, c]),
    |_, [a, b, c, d], _| Axes::ggml_mrope(a.saturating_mul(2), [b, c, d, a]),
    |_, [a, b, c, d], _| Axes::ggml_imrope(2 * (a % 300), [b, c, d, a]),
    |_, [a, b, ..], _| Axes::per_axis([a, b]),
    |_, sections, _| Axes::per_axis(sections),
    |_, [a, ..], _| Axes::vision(a),
    |_, [a, ..], _| Axes::pixtral(a),
    |_, [a, ..], _| Axes::wan(a),
    |_, _, given| Axes::given(given),
    text,
    text,
];

/// Returns the channels of the pairs of the sections, or any number, which is refused.
fn covered(source: &mut Source<'_>, sections: &[usize]) -> usize {
    if source.once_in(8) {
        return size(source);
    }
    let pairs = sections
        .iter()
        .fold(0_usize, |sum, &pairs| sum.saturating_add(pairs));
    pairs.saturating_mul(2)
}

fn text<'a>(source: &mut Source<'_>, [a, ..]: [usize; 4], _: &'a [u8]) -> Axes<'a> {
    Axes::from(if source.once_in(4) { a } else { a & !1 })
}

fn axes<'a>(source: &mut Source<'_>, given: &'a [u8]) -> Axes<'a> {
    let numbers = [0; 4].map(|_| size(source));
    source.one_of(AXES)(source, numbers, given)
}

/// The numbers of a scaling.
struct Numbers {
    numbers: [f64; 4],
    lengths: [u64; 2],
    attention_factor: Option<f64>,
}

type MakeScaling = for<'a> fn(&mut Source<'_>, &Numbers, &'a Lists) -> Scaling<'a>;

/// All kinds of scaling; YaRN reads the most numbers and is listed three times.
const SCALINGS: &[MakeScaling] = &[
    |_,
     &Numbers {
         numbers: [factor, ..],
         ..
     },
     _| Scaling::Linear { factor },
    |_, numbers, _| Scaling::DynamicNtk {
        factor: numbers.numbers[0],
        max_position_embeddings: numbers.lengths[0],
        length: numbers.lengths[1],
    },
    |_,
     &Numbers {
         numbers: [alpha, ..],
         ..
     },
     _| Scaling::NtkAlpha { alpha },
    |_,
     &Numbers {
         numbers: [factor, ..],
         ..
     },
     _| Scaling::NtkFixed { factor },
    |_,
     &Numbers {
         numbers: [factor, mixed_b, ..],
         ..
     },
     _| Scaling::NtkMixed { factor, mixed_b },
    |_, numbers, _| Scaling::NtkByParts {
        factor: numbers.numbers[0],
        original_context: numbers.lengths[0],
        ntk_factor: numbers.numbers[1],
        extrapolation_factor: numbers.numbers[2],
    },
    yarn_of_published_ends,
    yarn_of_published_ends,
    |_, numbers, _| {
        let [factor, beta_fast, beta_slow, _] = numbers.numbers;
        Scaling::Yarn(Yarn {
            beta_fast,
            beta_slow,
            attention_factor: numbers.attention_factor,
            ..Yarn::new(factor, numbers.lengths[0])
        })
    },
    |_, numbers, lists| {
        Scaling::LongRope(LongRope {
            short_factor: &lists.doubles,
            long_factor: &lists.others,
            original_context: numbers.lengths[0],
            length: numbers.lengths[1],
            factor: numbers.numbers[0],
            attention_factor: numbers.attention_factor,
        })
    },
    |_, numbers, _| {
        let [factor, low_freq_factor, high_freq_factor, _] = numbers.numbers;
        Scaling::Llama3 {
            factor,
            low_freq_factor,
            high_freq_factor,
            original_context: numbers.lengths[0],
        }
    },
    |_,
     &Numbers {
         numbers: [partial_rotary_factor, factor, ..],
         ..
     },
     _| Scaling::Proportional {
        partial_rotary_factor,
        factor,
    },
    |_, _, lists| Scaling::FreqFactors {
        factors: &lists.singles,
    },
    |_, _, lists| Scaling::Learned {
        alphas: &lists.doubles,
    },
    |_, _, _| Scaling::Turns,
    |_,
     &Numbers {
         numbers: [min_period, max_period, ..],
         ..
     },
     _| Scaling::Periods {
        min_period,
        max_period,
    },
    |_, _, _| Scaling::Default,
];

fn yarn_of_published_ends<'a>(
    source: &mut Source<'_>,
    numbers: &Numbers,
    _: &'a Lists,
) -> Scaling<'a> {
    let [factor, _, mscale, mscale_all_dim] = numbers.numbers;
    Scaling::Yarn(Yarn {
        truncate: source.once_in(2),
        attention_factor: numbers.attention_factor,
        mscale,
        mscale_all_dim,
        ..Yarn::new(factor, numbers.lengths[0])
    })
}

fn scaling<'a>(source: &mut Source<'_>, lists: &'a Lists) -> Scaling<'a> {
    let [a, b, c, d, e] = [0; 5].map(|_| number(source));
    let numbers = Numbers {
        numbers: [a, b, c, d],
        lengths: [length(source), length(source)],
        attention_factor: source.once_in(3).then_some(e),
    };
    source.one_of(SCALINGS)(source, &numbers, lists)
}

/// Returns a number that a configuration might hold, and sometimes any f64.
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

/// Returns a size that is mostly small and sometimes huge.
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

type MakeGgufValue = for<'a> fn(&mut Source<'_>, &'a [i32]) -> Option<GgufValue<'a>>;

/// GGUF values of all types, and a missing value.
const GGUF_VALUES: &[MakeGgufValue] = &[
    small_integer,
    small_integer,
    small_integer,
    |source, _| Some(GgufValue::Integer(source.wide() as i64)),
    float,
    float,
    |source, _| {
        let kind = source.one_of(&["none", "linear", "yarn", "longrope", "?"]);
        Some(GgufValue::Text(kind))
    },
    |_, list| Some(GgufValue::Integers(list)),
    |source, _| Some(GgufValue::Bool(source.once_in(2))),
    |source, _| {
        Some(GgufValue::Bools(
            source.one_of(&[&[], &[true, false, false, true]]),
        ))
    },
    |_, _| Some(GgufValue::Others),
    |_, _| None,
];

fn small_integer<'a>(source: &mut Source<'_>, _: &'a [i32]) -> Option<GgufValue<'a>> {
    Some(GgufValue::Integer(size(source) as i64))
}

fn float<'a>(source: &mut Source<'_>, _: &'a [i32]) -> Option<GgufValue<'a>> {
    Some(GgufValue::Float(number(source)))
}

/// Architectures of GGUF files that read different keys, and an unknown one.
pub(super) const ARCHITECTURES: [&str; 20] = [
    "llama",
    "qwen2vl",
    "qwen3vlmoe",
    "deepseek2",
    "gemma3",
    "phi3",
    "gptneox",
    "gemma4",
    "llama4",
    "step35",
    "granite_swa",
    "granitehybrid",
    "qwen3next",
    "smallthinker",
    "cohere2moe",
    "hunyuan-dense",
    "grok",
    "mistral3",
    "bert",
    "none such",
];

/// Keys of these architectures.
pub(super) const KEYS: [&str; 26] = [
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
    "block_count",
    "nextn_predict_layers",
    "attention.sliding_window",
    "attention.sliding_window_pattern",
    "attention.rope_pattern",
    "attention.recurrent_layers",
    "attention.head_count_kv",
    "full_attention_interval",
    "leading_dense_block_count",
    "rope.dimension_count_swa",
    "rope.scaling.finetuned",
    "rope.scaling.alpha",
];

/// Tests keys of a GGUF file with values of any type.
fn gguf(source: &mut Source<'_>) {
    let architecture = source.one_of(&ARCHITECTURES);
    let names: Vec<String> = KEYS.map(|key| format!("{architecture}.{key}")).to_vec();
    let sections: Vec<i32> = (0..source.below(6)).map(|_| size(source) as i32).collect();
    let mut pairs = vec![("general.architecture", GgufValue::Text(architecture))];
    for name in &names {
        if let Some(value) = source.one_of(GGUF_VALUES)(source, &sections) {
            pairs.push((name, value));
        }
    }
    let lists = Lists::any(source);
    let mut gguf = Gguf::new(&pairs).expect("an architecture");
    match source.below(3) {
        0 => gguf = gguf.with_freq_factors(Some(&lists.singles)),
        1 => gguf = gguf.with_freq_factors(None),
        // The file is refused if it may have such a tensor.
        _ => {}
    }
    answers(source, &gguf);
}

/// Returns the layers and the rotation of a file, unless it is refused.
pub(super) fn answers(source: &mut Source<'_>, gguf: &Gguf<'_>) {
    let model = match gguf.model() {
        Ok(model) => model,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    assert!(model.norm().is_err());
    let chosen = match model.layers() {
        Ok(layers) => layers
            .get(source.below(layers.len() + 1))
            .and_then(|layer| layer.rotation),
        Err(_) => None,
    };
    let rotation = chosen.map_or_else(|| model.rotation(), Ok);
    if let Ok(rotation) = rotation {
        let (input, output) = rotation.pairing();
        assert!(Pairing::ALL.contains(&input) && input == output);
        assert!(rotation.window().end <= rotation.head_dim());
    }
    let made = rotation.map(|rotation| rotation.frequencies().clone());
    check(source, made, |_| Ok(()));
}
