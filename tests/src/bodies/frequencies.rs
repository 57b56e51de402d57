//! Frequencies of any parameters.

use std::fmt::Display;

use rope_core::axes::Axes;
use rope_core::{Angle, Frequencies, FrequencyChunk, LongRope, Pairing, Scaling, Yarn};
use rope_models::{Gguf, GgufValue};

use crate::Source;
#[cfg(feature = "capi")]
use crate::over_c::frequencies::{self as over_c, Recipe};

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
    let sizes = [0; 4].map(|_| size(source));
    let &(kind, count, arguments, make) = &AXES[source.below(AXES.len())];
    let (rotary_dim, sections) = arguments(source, sizes);
    let axes = make(rotary_dim, sections, &given);
    let base = number(source);
    let pairs = match kind {
        "Given" => given.len(),
        "PerAxis" => sections[..count]
            .iter()
            .fold(0, |sum: usize, pairs| sum.saturating_add(*pairs)),
        _ => rotary_dim / 2,
    };
    let lists = Lists::any(source, pairs);
    let scaling = scaling(source, &lists);
    let inverse = source.once_in(4).then(|| source.once_in(2));
    let made = match inverse {
        None => Frequencies::new(axes, base, &scaling),
        Some(false) => Frequencies::from_inverse(axes, &lists.doubles, base),
        Some(true) => Frequencies::from_inverse(axes, &lists.singles, base),
    };
    #[cfg(feature = "capi")]
    {
        let axes = rope::rope_axes {
            kind: kind_over_c(kind),
            rotary_dim,
            sections,
            count: if kind == "Given" { given.len() } else { count },
            given: given.as_ptr(),
        };
        let recipe = match inverse {
            None => over_c::scaling(&scaling).map(|scaling| Recipe::Base(axes, base, scaling)),
            Some(false) => Some(Recipe::Doubles(axes, &lists.doubles, base)),
            Some(true) => Some(Recipe::Singles(axes, &lists.singles, base)),
        };
        if let Some(recipe) = recipe {
            let chunks = made
                .as_ref()
                .map_or(0, |made| made.rotary_dim().div_ceil(16));
            match (recipe.make(chunks), &made) {
                (Some(over_c), Ok(made)) => over_c.compare(made),
                (None, Err(_)) => {}
                (over_c, made) => panic!("{recipe:?}: {over_c:?} and {made:?}"),
            }
        }
    }
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
    /// Returns lists that mostly have a valid number for each pair.
    fn any(source: &mut Source<'_>, pairs: usize) -> Self {
        let len = match source.below(4) {
            0 => source.below(40),
            _ => pairs.min(1024),
        };
        let valid = source.once_in(2);
        let mut list = || -> Vec<f64> {
            let value = |_| match valid {
                true => source.within(1, 64) as f64 / 16.0,
                false => number(source),
            };
            (0..len).map(value).collect()
        };
        let (doubles, others) = (list(), list());
        Lists {
            singles: doubles.iter().map(|&value| value as f32).collect(),
            doubles,
            others,
        }
    }
}

/// A constructor of axes: its name and number of sections, arguments that mostly fit, and the call.
type MakeAxes = (
    &'static str,
    usize,
    fn(&mut Source<'_>, [usize; 4]) -> (usize, [usize; 4]),
    for<'a> fn(usize, [usize; 4], &'a [u8]) -> Axes<'a>,
);

/// All constructors of axes; text, the most usual one, is listed twice.
const AXES: &[MakeAxes] = &[
    ("Mrope", 1, covered::<1>, |dim, [a, ..], _| {
        Axes::mrope(dim, [a])
    }),
    ("Mrope", 3, covered::<3>, |dim, [a, b, c, _], _| {
        Axes::mrope(dim, [a, b, c])
    }),
    ("Mrope", 4, covered::<4>, |dim, sections, _| {
        Axes::mrope(dim, sections)
    }),
    (
        "MropeInterleaved",
        3,
        covered::<3>,
        |dim, [a, b, c, _], _| Axes::mrope_interleaved(dim, [a, b, c]),
    ),
    (
        "MropeAlternating",
        3,
        alternating,
        |dim, [a, b, c, _], _| Axes::mrope_alternating(dim, [a, b, c]),
    ),
    ("MropeSpread", 3, covered::<3>, |dim, [a, b, c, _], _| {
        Axes::mrope_spread(dim, [a, b, c])
    }),
    ("GgmlMrope", 4, twice_the_last, |dim, sections, _| {
        Axes::ggml_mrope(dim, sections)
    }),
    ("GgmlImrope", 4, twice_the_last, |dim, sections, _| {
        Axes::ggml_imrope(dim, sections)
    }),
    ("PerAxis", 2, any_dim, |_, [a, b, ..], _| {
        Axes::per_axis([a, b])
    }),
    ("PerAxis", 4, any_dim, |_, sections, _| {
        Axes::per_axis(sections)
    }),
    ("Vision", 0, any_dim, |dim, _, _| Axes::vision(dim)),
    ("Pixtral", 0, any_dim, |dim, _, _| Axes::pixtral(dim)),
    ("Wan", 0, any_dim, |dim, _, _| Axes::wan(dim)),
    ("Given", 0, any_dim, |_, _, given| Axes::given(given)),
    ("Text", 0, even_dim, |dim, _, _| Axes::from(dim)),
    ("Text", 0, even_dim, |dim, _, _| Axes::from(dim)),
];

/// Returns the channels of the pairs of the first sections, or any number, which is refused.
fn covered<const COUNT: usize>(
    source: &mut Source<'_>,
    sections: [usize; 4],
) -> (usize, [usize; 4]) {
    if source.once_in(8) {
        return (size(source), sections);
    }
    let pairs = sections[..COUNT]
        .iter()
        .fold(0_usize, |sum, &pairs| sum.saturating_add(pairs));
    (pairs.saturating_mul(2), sections)
}

/// Returns sections that have as many pairs of height as of width.
fn alternating(source: &mut Source<'_>, [a, b, c, d]: [usize; 4]) -> (usize, [usize; 4]) {
    let b = if source.once_in(4) { b } else { a };
    covered::<3>(source, [a, b, c, d])
}

fn twice_the_last(_: &mut Source<'_>, sections: [usize; 4]) -> (usize, [usize; 4]) {
    (sections[3].saturating_mul(2), sections)
}

fn any_dim(_: &mut Source<'_>, sections: [usize; 4]) -> (usize, [usize; 4]) {
    (sections[0], sections)
}

fn even_dim(source: &mut Source<'_>, sections: [usize; 4]) -> (usize, [usize; 4]) {
    let dim = sections[0];
    (if source.once_in(4) { dim } else { dim & !1 }, sections)
}

#[cfg(feature = "capi")]
fn kind_over_c(name: &str) -> i32 {
    let mut kinds = rope::rope_axes_kind::ALL.iter();
    let kind = kinds.find(|kind| format!("{kind:?}") == name);
    *kind.expect("C has every constructor") as i32
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
    let lists = Lists::any(source, 20);
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
