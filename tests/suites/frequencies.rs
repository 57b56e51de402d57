//! Steps, inverse frequencies and factors compared with 400-bit values, and the errors of invalid parameters.

use crate::models::frequencies;
use crate::rows::one_set_of_64_pairs;
use rope_core::axes::Axes;
use rope_core::error::{FrequenciesError, RowsError, ShapeError};
use rope_core::{
    Dimension, Error, Frequencies, Frequency, FrequencyChunk, LongRope, Scaling, Yarn,
};
use rope_tests::bounds;
use rope_tests::golden::{Golden, hex};
use std::f64::consts::TAU;

/// Compares each step of a model without whole turns with the golden one; returns the number of steps that are not the
/// nearest.
fn not_nearest(name: &str, frequencies: &Frequencies<'_>, golden: &[u128]) -> usize {
    assert_eq!(frequencies.iter().len(), golden.len(), "{name}");
    let pairs = frequencies.iter().zip(golden);
    let apart = pairs.filter(|(pair, golden)| {
        assert_eq!(pair.whole_turns, 0, "{name}");
        let distance = pair.step.abs_diff(**golden);
        assert!(
            distance <= bounds::step(pair.inverse / TAU),
            "{name}: {distance}"
        );
        distance != 0
    });
    let count = apart.count();
    println!("{name:30} {count} of {}", golden.len());
    count
}

/// The steps of periods are within three units up to a radian, and not within one, as the documentation of
/// [`Frequency::step`] says. The exact step is `2^128 / (min (max / min)^(13 / 28))`, in 300 bits.
#[test]
fn steps_of_periods() {
    let periods = Scaling::Periods {
        min_period: 0.47903398709904577,
        max_period: 146.77852364493984,
    };
    let frequencies = Frequencies::new(58, 1.0, &periods).expect("sane parameters");
    let pair = frequencies.iter().nth(13).expect("a pair");
    assert!(pair.inverse < 1.0);
    let exact = 49_787_614_268_896_801_699_369_503_654_316_817_445_u128;
    let distance = pair.step.abs_diff(exact);
    assert!((2..=bounds::PERIODS_STEP).contains(&distance), "{distance}");
}

fn inverse(frequencies: &Frequencies<'_>) -> (Vec<f64>, Vec<f32>) {
    let both = |pair: Frequency| (pair.inverse, pair.inverse_f32);
    frequencies.iter().map(both).unzip()
}

#[test]
fn steps_of_golden_models() {
    let (mut apart, mut all) = (0, 0);
    for table in Golden::all("tables") {
        let golden = table.bits("turn_step_u128");
        apart += not_nearest(&table.name, &frequencies(&table, None), &golden);
        all += golden.len();
    }
    let nearest = (all - apart) as f64 / all as f64;
    assert!(nearest >= bounds::NEAREST_STEPS, "{apart} of {all}");
}

#[test]
fn inverse_frequencies_are_correctly_rounded() {
    for table in Golden::all("tables") {
        let (f64s, f32s) = inverse(&frequencies(&table, None));
        assert_eq!(
            f64s,
            table.bits::<f64>("inv_freq_exact_f64"),
            "{}",
            table.name
        );
        assert_eq!(
            f32s,
            table.bits::<f32>("inv_freq_exact_cr_f32"),
            "{}",
            table.name
        );
    }
}

#[test]
fn given_frequencies_are_exact_from_there_on() {
    for table in Golden::all("tables") {
        let given: Vec<f32> = table.bits("inv_freq_hf_f32");
        let rotary_dim = 2 * given.len();
        let frequencies = Frequencies::from_inverse(rotary_dim, &given, 1.0).unwrap();
        let golden = table.bits("turn_step_u128_from_hf_f32");
        not_nearest(&table.name, &frequencies, &golden);
        let (f64s, f32s) = inverse(&frequencies);
        assert_eq!(f32s, given);
        let again = Frequencies::from_inverse(rotary_dim, &f64s, 1.0).unwrap();
        assert_eq!(frequencies, again);
    }
}

#[test]
fn attention_factors_are_correctly_rounded() {
    for table in Golden::all("tables") {
        let golden = table.bits::<f64>("attention_factor_exact_f64")[0];
        let made = frequencies(&table, None).attention_factor();
        assert_eq!(made.to_bits(), golden.to_bits(), "{}", table.name);
    }
}

fn alphas() -> Vec<f64> {
    (0..32).map(|i| 0.0625 * f64::from(i % 5) - 0.1).collect()
}

fn factors() -> Vec<f32> {
    (0..32)
        .map(|i| (1.0 + 0.37 * f64::from(i)) as f32)
        .collect()
}

/// Compares every `every`th pair of the case.
fn compare(name: &str, frequencies: &Frequencies<'_>, every: usize) {
    let golden = Golden::file("frequencies.txt");
    let turns: Vec<(i16, u128)> = golden
        .text(&format!("{name}.turns"))
        .split(' ')
        .map(|turns| turns.split_once(',').expect("a comma"))
        .map(|(whole, fraction)| (whole.parse().expect("whole turns"), hex(fraction)))
        .collect();
    let pairs: Vec<Frequency> = frequencies.iter().step_by(every).collect();
    assert_eq!(pairs.len(), turns.len(), "{name}");
    let f64s: Vec<f64> = pairs.iter().map(|pair| pair.inverse).collect();
    let f32s: Vec<f32> = pairs.iter().map(|pair| pair.inverse_f32).collect();
    assert_eq!(
        f64s,
        golden.bits::<f64>(&format!("{name}.inverse_f64")),
        "{name}"
    );
    assert_eq!(
        f32s,
        golden.bits::<f32>(&format!("{name}.inverse_f32")),
        "{name}"
    );
    let factors = [frequencies.attention_factor(), frequencies.softmax_factor()];
    assert_eq!(
        factors,
        golden.bits::<f64>(&format!("{name}.factors"))[..],
        "{name}"
    );
    for (pair, &(whole, fraction)) in pairs.iter().zip(&turns) {
        // A fraction next to a whole turn may be rounded to either side of it.
        let step = pair.step;
        let distance = match pair.whole_turns - whole {
            0 => step.abs_diff(fraction),
            1 if step < fraction => step.wrapping_sub(fraction),
            -1 if step > fraction => fraction.wrapping_sub(step),
            turns => panic!("{name}: {turns} turns apart"),
        };
        assert!(
            distance <= bounds::step(pair.inverse / TAU),
            "{name}: {distance}"
        );
    }
}

#[test]
fn every_scaling() {
    let (alphas, factors) = (alphas(), factors());
    let doubles: Vec<f64> = factors.iter().map(|&factor| factor.into()).collect();
    let longrope = |factor, original_context| {
        Scaling::LongRope(LongRope {
            short_factor: &doubles,
            long_factor: &doubles,
            original_context,
            length: 1,
            factor,
            attention_factor: None,
        })
    };
    let by_parts = |ntk_factor, extrapolation_factor| Scaling::NtkByParts {
        factor: 4.0,
        original_context: 2048,
        ntk_factor,
        extrapolation_factor,
    };
    let dynamic = Scaling::DynamicNtk {
        factor: 1.7,
        max_position_embeddings: 3000,
        length: 5000,
    };
    let mscale = Yarn {
        mscale: 0.707,
        mscale_all_dim: 1.25,
        ..Yarn::new(40.0, 4096)
    };
    let narrow = Yarn {
        beta_fast: 2.0,
        beta_slow: 1.9999,
        ..Yarn::new(4.0, 4096)
    };
    let betas = Yarn {
        beta_fast: 20.25,
        beta_slow: 0.5,
        truncate: false,
        ..Yarn::new(3.5, 10000)
    };
    let mixed = Scaling::NtkMixed {
        factor: 8.0,
        mixed_b: 0.625,
    };
    let proportional = Scaling::Proportional {
        partial_rotary_factor: 0.25,
        factor: 1.0,
    };
    let periods = Scaling::Periods {
        min_period: 0.25,
        max_period: 16.5,
    };
    let of = |dim: usize| Axes::from(dim);
    let short = Scaling::Yarn(Yarn::new(4.0, 4));
    let cases: &[(&str, Axes<'_>, f64, Scaling<'_>)] = &[
        ("default_odd_ladder", of(90), 1_234_567.5, Scaling::Default),
        ("default_base_1e300", of(64), 1e300, Scaling::Default),
        ("default_base_below_1", of(64), 0.125, Scaling::Default),
        ("linear_2.5", of(64), 1e4, Scaling::Linear { factor: 2.5 }),
        (
            "ntk_alpha",
            of(128),
            1e4,
            Scaling::NtkAlpha { alpha: 1000.0 },
        ),
        ("ntk_dynamic_1.7", of(96), 1e4, dynamic),
        ("ntk_fixed", of(128), 1e4, Scaling::NtkFixed { factor: 8.0 }),
        ("ntk_mixed", of(128), 1e4, mixed),
        ("ntk_by_parts", of(128), 1e4, by_parts(1.0, 1.0)),
        ("ntk_by_parts_half", of(128), 1e4, by_parts(0.5, 0.75)),
        ("yarn_mscale", of(64), 1e4, Scaling::Yarn(mscale)),
        ("yarn_short_context", of(64), 1e4, short),
        ("yarn_narrow_ramp", of(64), 1e4, Scaling::Yarn(narrow)),
        ("yarn_betas", of(128), 1e6, Scaling::Yarn(betas)),
        ("longrope_factor_1", of(64), 1e4, longrope(1.0, 1)),
        ("longrope_factor_1.75", of(64), 1e4, longrope(1.75, 3)),
        ("proportional", of(256), 1e6, proportional),
        (
            "freq_factors",
            of(64),
            5e5,
            Scaling::FreqFactors { factors: &factors },
        ),
        ("learned", of(64), 5e5, Scaling::Learned { alphas: &alphas }),
        ("turns", Axes::vision(64), 100.0, Scaling::Turns),
        ("periods", Axes::vision(64), 1.0, periods),
        ("vision", Axes::vision(80), 1e4, Scaling::Default),
        ("wan", Axes::wan(128), 1e4, Scaling::Default),
    ];
    for (name, axes, base, scaling) in cases {
        let made = Frequencies::new(*axes, *base, scaling).unwrap();
        compare(name, &made, 1);
        // Also for a step too small for the fast path.
        assert_eq!(made, made.clone(), "{name}");
    }

    let widest = Frequencies::new(65536, 1e4, &Scaling::Default).unwrap();
    compare("default_widest", &widest, 511);

    let given = [1.0, -0.3, 1e-25, 5e-324, 0.0, 100.125];
    let given = Frequencies::from_inverse(12, &given, 1.0).unwrap();
    compare("given_f64", &given, 1);
}

#[test]
fn given_frequencies_come_back_as_given() {
    // Halfway between two f32, next to it, and below the smallest normal f32.
    let halfway = 1.0 + f64::from(f32::EPSILON) / 2.0;
    let tiny = f64::from(f32::from_bits(1));
    let given = [
        halfway,
        3.0 * halfway - 2.0,
        f64::from_bits(halfway.to_bits() + 1),
        f64::from_bits(halfway.to_bits() - 1),
        tiny / 2.0,
        tiny * 0.75,
        tiny * 1.5,
        f64::from_bits(1),
        f64::MIN_POSITIVE / 3.0,
        -0.1,
        200_000.0,
        -200_000.0,
        std::f64::consts::TAU,
        -std::f64::consts::TAU,
    ];
    let frequencies = Frequencies::from_inverse(2 * given.len(), &given, 1.0).unwrap();
    for (pair, given) in frequencies.iter().zip(given) {
        assert_eq!(pair.inverse.to_bits(), given.to_bits());
        assert_eq!(
            pair.inverse_f32.to_bits(),
            (given as f32).to_bits(),
            "{given:e}"
        );
        let turns = f64::from(pair.whole_turns) + pair.step as f64 / 2f64.powi(128);
        let back = turns * std::f64::consts::TAU;
        assert!((back - given).abs() <= 1e-10, "{given:e}: {back:e}");
    }
}

#[test]
fn zero_means_the_default_in_yarn() {
    let yarn = Yarn::new(4.0, 32768);
    let make = |yarn| Frequencies::new(128, 1e6, &Scaling::Yarn(yarn)).unwrap();
    let zeros = Yarn {
        beta_fast: 0.0,
        beta_slow: 0.0,
        ..yarn
    };
    assert_eq!(make(zeros), make(yarn));
    // A single mscale does not change the attention factor.
    let one = make(Yarn {
        mscale_all_dim: 1.0,
        ..yarn
    });
    assert_eq!(one.attention_factor(), make(yarn).attention_factor());
    assert!(one.softmax_factor() > 1.0);
    let replaced = make(Yarn {
        attention_factor: Some(0.75),
        mscale: 1.0,
        mscale_all_dim: 2.0,
        ..yarn
    });
    assert_eq!(replaced.attention_factor(), 0.75);
}

/// A ramp without a width is a step: pairs that turn more often than both betas within the original context keep their
/// frequency, the others are interpolated.
#[test]
fn equal_betas_without_rounding_divide_the_pairs_in_two() {
    let of = |scaling: &Scaling<'_>| -> Vec<f64> {
        let made = Frequencies::new(128, 1e6, scaling).expect("sane parameters");
        made.iter().map(|pair| pair.inverse).collect()
    };
    let plain = of(&Scaling::Default);
    for beta in [2.0, 10.0, 100.0] {
        let scaled = of(&Scaling::Yarn(Yarn {
            beta_fast: beta,
            beta_slow: beta,
            truncate: false,
            ..Yarn::new(4.0, 32768)
        }));
        let expected: Vec<f64> = plain
            .iter()
            .map(|&inverse| match 32768.0 * inverse / TAU > beta {
                true => inverse,
                false => inverse / 4.0,
            })
            .collect();
        assert_eq!(scaled, expected, "{beta}");
        assert!(expected[0] == plain[0] && expected[63] < plain[63]);
    }
}

#[test]
fn longrope_switches_by_length() {
    let (short_factor, long_factor) = (&[1.0; 32][..], &[2.0; 32][..]);
    let first = |length| {
        let scaling = Scaling::LongRope(LongRope {
            short_factor,
            long_factor,
            original_context: 4096,
            length,
            factor: 32.0,
            attention_factor: None,
        });
        let frequencies = Frequencies::new(64, 1e4, &scaling).unwrap();
        frequencies.iter().next().map(|pair| pair.inverse)
    };
    assert_eq!(
        [0, 4096, 4097].map(first),
        [Some(1.0), Some(1.0), Some(0.5)]
    );
}

#[test]
fn one_set_on_several_axes_has_plain_frequencies() {
    let steps = |axes| -> Vec<u128> {
        let frequencies = Frequencies::new(axes, 1e6, &Scaling::Default).unwrap();
        frequencies.iter().map(|pair| pair.step).collect()
    };
    let one_of_three = Axes::given(&[2; 64]);
    for axes in one_set_of_64_pairs().into_iter().chain([one_of_three]) {
        assert_eq!(steps(axes), steps(128.into()));
    }
}

#[test]
fn axes_are_dealt_out_as_published() {
    let letters = |axes: Axes<'_>| -> String {
        let frequencies = Frequencies::new(axes, 1e6, &Scaling::Default).unwrap();
        let letter = |pair: Frequency| ['T', 'H', 'W', 'e'][pair.axis];
        frequencies.iter().map(letter).collect()
    };
    // Derived from vLLM's get_mrope_interleaved_id_list.
    assert_eq!(
        letters(Axes::mrope_spread(128, [24, 20, 20])),
        "THWTHWTHWTHWTHWTHWTHWTHTWTHWTHWTHWTHWTHWTHWTHTWTHWTHWTHWTHWTHWTT"
    );
    let interleaved = letters(Axes::mrope_interleaved(128, [24, 20, 20]));
    assert_eq!(interleaved, "THW".repeat(20) + "TTTT");
    // ggml leaves two of these pairs to its fourth axis.
    let ggml = letters(Axes::ggml_imrope(128, [24, 20, 20, 0]));
    assert_eq!(ggml, "THW".repeat(20) + "TeeT");
    let alternating = letters(Axes::mrope_alternating(128, [22, 22, 20]));
    assert_eq!(alternating, "HW".repeat(22) + &"T".repeat(20));
    let chunks = |lengths: [usize; 3]| -> String {
        let letters = ["T", "H", "W"].into_iter().zip(lengths);
        letters
            .map(|(letter, length)| letter.repeat(length))
            .collect()
    };
    assert_eq!(letters(Axes::mrope(64, [8, 12, 12])), chunks([8, 12, 12]));
    // Sections that do not cover the head repeat in ggml.
    assert_eq!(letters(Axes::ggml_mrope(16, [1, 1, 1, 0])), "THWTHWTH");
    assert_eq!(letters(Axes::wan(128)), chunks([22, 21, 21]));
    assert_eq!(letters(Axes::vision(16)), "TTTTHHHH");
    assert_eq!(letters(Axes::given(&[3, 0, 1])), "eTH");
    assert_eq!(letters(Axes::mrope_spread(2, [1, 0, 0])), "T");
    assert_eq!(letters(Axes::mrope_spread(6, [3, 0, 0])), "TTT");
}

#[test]
fn the_callers_storage_does_as_well() {
    let made = Frequencies::new(100, 1e4, &Scaling::Default).unwrap();
    assert_eq!(FrequencyChunk::count(100), 7);
    // The storage's previous contents do not matter.
    let mut storage = [FrequencyChunk::EMPTY; 9];
    Frequencies::new_in(&mut storage, 144, 5e5, &Scaling::Default).unwrap();
    let borrowed = Frequencies::new_in(&mut storage, 100, 1e4, &Scaling::Default).unwrap();
    assert_eq!(borrowed, made);
    let given: Vec<f64> = made.iter().map(|pair| pair.inverse).collect();
    let mut storage = [FrequencyChunk::EMPTY; 7];
    let borrowed = Frequencies::from_inverse_in(&mut storage, 100, &given, 1.0).unwrap();
    assert_eq!(
        borrowed,
        Frequencies::from_inverse(100, &given, 1.0).unwrap()
    );
}

const NONSENSE: [f64; 14] = [
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    0.0,
    -0.0,
    -1.0,
    1.0,
    5e-324,
    f64::MIN_POSITIVE,
    f64::MAX,
    -f64::MAX,
    1e300,
    0.9999999999999999,
    std::f64::consts::TAU,
];

/// Returns all scalings with two numbers in every place.
fn scalings<'a>(a: f64, b: f64, pair: &'a [f64; 2], floats: &'a [f32; 2]) -> [Scaling<'a>; 15] {
    let [c, d] = [a.abs() as u64, b.abs() as u64];
    [
        Scaling::Linear { factor: a },
        Scaling::NtkAlpha { alpha: a },
        Scaling::NtkFixed { factor: a },
        Scaling::NtkMixed {
            factor: a,
            mixed_b: b,
        },
        Scaling::Periods {
            min_period: a,
            max_period: b,
        },
        Scaling::Proportional {
            partial_rotary_factor: a,
            factor: b,
        },
        Scaling::DynamicNtk {
            factor: a,
            max_position_embeddings: c,
            length: d,
        },
        Scaling::Yarn(Yarn {
            beta_fast: b,
            beta_slow: a,
            ..Yarn::new(4.0, c)
        }),
        Scaling::Yarn(Yarn {
            mscale: a,
            mscale_all_dim: b,
            ..Yarn::new(a, 4096)
        }),
        Scaling::Yarn(Yarn {
            attention_factor: Some(a),
            truncate: false,
            ..Yarn::new(b, 1)
        }),
        Scaling::NtkByParts {
            factor: a,
            original_context: d,
            ntk_factor: b,
            extrapolation_factor: a,
        },
        Scaling::Llama3 {
            factor: 8.0,
            low_freq_factor: a,
            high_freq_factor: b,
            original_context: c,
        },
        Scaling::FreqFactors { factors: floats },
        Scaling::Learned { alphas: pair },
        Scaling::LongRope(LongRope {
            short_factor: pair,
            long_factor: pair,
            original_context: c,
            length: d,
            factor: a,
            attention_factor: (b > 1.0).then_some(b),
        }),
    ]
}

#[test]
fn no_number_panics_or_hangs() {
    let (mut refused, mut accepted) = (0, 0);
    let positions = [0, 1, -1, i64::MAX, i64::MIN];
    let mut attempt = |made: Result<Frequencies<'_>, Error>| match made {
        Ok(frequencies) => {
            accepted += 1;
            let factor = frequencies.attention_factor();
            assert!(factor > 0.0 && factor.is_finite());
            assert!(frequencies.iter().all(|pair| pair.inverse.is_finite()));
            // Accepted frequencies make rows.
            let rows = frequencies.rows(&positions).unwrap();
            let (cos, sin) = rows.row(4, 0).unwrap();
            assert!(cos.iter().chain(sin).all(|value| !value.is_nan()));
        }
        Err(error) => {
            refused += 1;
            assert!(!error.to_string().is_empty());
        }
    };
    for dim in [0, 1, 2, 3, 4, 6, 65538, usize::MAX, usize::MAX - 1] {
        for a in NONSENSE {
            attempt(Frequencies::new(dim, a, &Scaling::Default));
            attempt(Frequencies::from_inverse(dim, &[a, a], a));
            for b in NONSENSE {
                for base in [1e4, 1.0, b] {
                    for scaling in scalings(a, b, &[a, b], &[a as f32, b as f32]) {
                        attempt(Frequencies::new(dim, base, &scaling));
                    }
                }
            }
        }
    }
    println!("{refused} refused, {accepted} accepted");
    assert!(refused > 1000 && accepted > 1000);
}

#[test]
fn no_axes_panic_or_hang() {
    let counts = [0, 1, 2, 3, 21, 32768, 32769, usize::MAX / 2, usize::MAX];
    for a in counts {
        for b in counts {
            for c in counts {
                let three = a.saturating_add(b).saturating_add(c).saturating_mul(2);
                let four = three.saturating_add(a.saturating_mul(2));
                for axes in [
                    Axes::mrope(three, [a, b, c]),
                    Axes::mrope(four, [a, b, c, a]),
                    Axes::mrope(64, [a, b, c, a]),
                    Axes::mrope_interleaved(three, [a, b, c]),
                    Axes::mrope_alternating(three, [a, b, c]),
                    Axes::mrope_spread(three, [a, b, c]),
                    Axes::ggml_mrope(64, [a, b, c, a]),
                    Axes::ggml_imrope(64, [a, b, c, a]),
                    Axes::per_axis([a, b, c]),
                    Axes::vision(a),
                    Axes::pixtral(a),
                    Axes::wan(a),
                ] {
                    let mut storage = [FrequencyChunk::EMPTY; 8];
                    if let Ok(made) =
                        Frequencies::new_in(&mut storage, axes, 1e4, &Scaling::Default)
                    {
                        assert!(made.iter().all(|pair| pair.axis < made.axes()));
                        let mut rows = [0.0; 128];
                        made.at(0..1)
                            .expect("positions")
                            .rows_in(&mut rows)
                            .unwrap();
                    }
                }
            }
        }
    }
}

/// Returns a number as messages show it: an integer without a fraction.
fn written(value: f64) -> String {
    let text = format!("{value:?}");
    text.strip_suffix(".0").unwrap_or(&text).into()
}

/// Asserts the error and its text.
#[track_caller]
fn refused(made: Result<Frequencies<'_>, Error>, error: Error, text: &str) {
    let got = made.expect_err("a refusal");
    assert_eq!(got, error);
    assert_eq!(got.to_string(), text);
}

#[test]
fn numbers_of_a_list_are_refused_by_their_index() {
    let refused = |made: Result<Frequencies<'_>, Error>, name: &str, value: f64, required: &str| {
        let text = format!("{name}[3] is {}, but must be {required}", written(value));
        let error = made.expect_err("a refusal");
        assert_eq!(error.to_string(), text);
        let got = match error {
            Error::ListEntry { index, value, .. } => (index, value.to_bits()),
            other => panic!("{other:?}"),
        };
        assert_eq!(got, (3, value.to_bits()));
    };
    let with = |value: f64| [1.0, 2.0, 3.0, value, 5.0, f64::NAN];
    for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let list = with(value);
        let made = Frequencies::from_inverse(12, &list, 1.0);
        refused(made, "inverse", value, "finite");
        // For any number of axes, the index belongs to the list.
        let made = Frequencies::from_inverse(Axes::mrope(12, [3, 3]), &list, 1.0);
        refused(made, "inverse", value, "finite");
        let learned = Scaling::Learned { alphas: &list };
        refused(
            Frequencies::new(12, 1e4, &learned),
            "alphas",
            value,
            "finite",
        );
    }
    for value in [f64::NAN, f64::INFINITY, 0.0, -1.0] {
        let (list, good) = (with(value), [1.0; 6]);
        let required = "positive and finite";
        for (name, short_factor, long_factor) in [
            ("short_factor", &list, &good),
            ("long_factor", &good, &list),
        ] {
            let scaling = Scaling::LongRope(LongRope {
                short_factor,
                long_factor,
                factor: 4.0,
                original_context: 4096,
                length: 10,
                attention_factor: None,
            });
            refused(Frequencies::new(12, 1e4, &scaling), name, value, required);
        }
        let factors = &list.map(|value| value as f32);
        let scaling = Scaling::FreqFactors { factors };
        refused(
            Frequencies::new(12, 1e4, &scaling),
            "freq_factors",
            value,
            required,
        );
    }
}

#[test]
fn debug_is_a_line_and_all_pairs_at_length() {
    let llama = Frequencies::new(128, 1e4, &Scaling::Default).expect("good frequencies");
    let line = format!("{llama:?}");
    assert!(line.len() < 250 && !line.contains('\n'), "{line}");
    for part in [
        "rotary_dim: 128",
        "axes: 1",
        "first_inverse: 1.0",
        "last_inverse: 0.000115",
    ] {
        assert!(line.contains(part), "{part}: {line}");
    }
    assert_eq!(format!("{llama:#?}").matches("whole_turns: 0").count(), 64);
    // The first of one pair is also the last.
    let one = Frequencies::from_inverse(2, &[0.25], 1.0).expect("good frequencies");
    assert!(format!("{one:?}").contains("last_inverse: 0.25"), "{one:?}");
}

#[test]
fn rotary_dim_is_refused() {
    for dim in [0, 1, 127, 65538] {
        let required = "even and between 2 and 65536";
        let error = Error::Rows(RowsError::RotaryDim {
            rotary_dim: dim,
            required,
        });
        let text = format!("rotary_dim is {dim}, but must be {required}");
        refused(Frequencies::new(dim, 1e4, &Scaling::Default), error, &text);
    }
    let error = Error::Rows(RowsError::RotaryDim {
        rotary_dim: 2,
        required: "above 2 for NTK scaling",
    });
    refused(
        Frequencies::new(2, 1e4, &Scaling::NtkAlpha { alpha: 2.0 }),
        error,
        "rotary_dim is 2, but must be above 2 for NTK scaling",
    );
    let error = Error::Rows(RowsError::RotaryDim {
        rotary_dim: 66,
        required: "a multiple of 4 for two axes",
    });
    refused(
        Frequencies::new(Axes::pixtral(66), 1e4, &Scaling::Default),
        error,
        "rotary_dim is 66, but must be a multiple of 4 for two axes",
    );
}

#[test]
fn parameters_are_refused() {
    for (base, scaling, name, value, required) in [
        (-1.0, Scaling::Default, "base", -1.0, "positive and finite"),
        (
            1e4,
            Scaling::Linear { factor: 0.0 },
            "factor",
            0.0,
            "positive and finite",
        ),
        (
            1.0,
            Scaling::Yarn(Yarn::new(4.0, 4096)),
            "base",
            1.0,
            "above 1 for YaRN and NTK by parts",
        ),
        (
            1e4,
            Scaling::Llama3 {
                factor: 8.0,
                low_freq_factor: 4.0,
                high_freq_factor: 1.0,
                original_context: 8192,
            },
            "high_freq_factor",
            1.0,
            "not below low_freq_factor",
        ),
        (
            1e4,
            Scaling::Llama3 {
                factor: 8.0,
                low_freq_factor: 1.0,
                high_freq_factor: 4.0,
                original_context: 0,
            },
            "original_context",
            0.0,
            "positive (and above 1 for a logarithm)",
        ),
        (
            1e4,
            Scaling::Yarn(Yarn::new(4.0, 0)),
            "original_context",
            0.0,
            "positive (and above 1 for a logarithm)",
        ),
    ] {
        let error = Error::Parameter {
            name,
            value,
            required,
        };
        let text = format!("{name} is {}, but must be {required}", written(value));
        refused(Frequencies::new(64, base, &scaling), error, &text);
    }
    let nan = Frequencies::new(64, f64::NAN, &Scaling::Default).unwrap_err();
    assert_eq!(
        nan.to_string(),
        "base is NaN, but must be positive and finite"
    );
    // Rows hold multiples of the value, and it must not exceed an f32 either.
    for value in [0.0, -1.0, 1e39, f64::MAX] {
        let error = Error::Parameter {
            name: "attention_factor",
            value,
            required: "positive and finite as an f32",
        };
        let text = format!(
            "attention_factor is {}, but must be positive and finite as an f32",
            written(value)
        );
        refused(
            Frequencies::from_inverse(4, &[1.0, 1.0], value),
            error,
            &text,
        );
        let yarn = Scaling::Yarn(Yarn {
            attention_factor: Some(value),
            ..Yarn::new(4.0, 4096)
        });
        refused(Frequencies::new(64, 1e4, &yarn), error, &text);
    }
}

/// The largest accepted attention factor is `f32::MAX`; the next f64 above it is refused.
#[test]
fn attention_factors_end_at_the_largest_f32() {
    let made = |factor| Frequencies::from_inverse(2, &[1.0], factor);
    let largest = f64::from(f32::MAX);
    for factor in [largest, 1e-320] {
        let frequencies = made(factor).expect("a positive f32, or one that rounds to zero");
        assert_eq!(frequencies.attention_factor(), factor);
    }
    for factor in [largest.next_up(), 0.0, -1.0] {
        assert!(
            matches!(made(factor), Err(Error::Parameter { name: "attention_factor", value, .. }) if value == factor),
            "{factor}"
        );
    }
}

#[test]
fn lists_of_another_length_are_refused() {
    let error = Error::Count {
        name: "freq_factors",
        given: 31,
        needed: 32,
    };
    let factors = &[1.0; 31];
    refused(
        Frequencies::new(64, 1e4, &Scaling::FreqFactors { factors }),
        error,
        "freq_factors has 31 numbers, but 32 are needed",
    );
    let error = Error::Count {
        name: "inverse",
        given: 3,
        needed: 2,
    };
    let text = "inverse has 3 numbers, but 2 are needed";
    refused(Frequencies::from_inverse(4, &[1f32; 3], 1.0), error, text);
    // A list that fits takes precedence over storage that does not.
    let mut storage = [FrequencyChunk::EMPTY; 1];
    refused(
        Frequencies::from_inverse_in(&mut storage, 4, &[1f32; 3], 1.0),
        error,
        text,
    );
}

#[test]
fn short_storage_is_refused() {
    let error = Error::Storage {
        what: "chunks of storage",
        given: 7,
        needed: 8,
    };
    let text = "7 chunks of storage were given, but 8 are needed";
    let mut storage = [FrequencyChunk::EMPTY; 7];
    refused(
        Frequencies::new_in(&mut storage, 128, 1e4, &Scaling::Default),
        error,
        text,
    );
    refused(
        Frequencies::from_inverse_in(&mut storage, 128, &[1.0; 64], 1.0),
        error,
        text,
    );
    assert_eq!(storage, [FrequencyChunk::EMPTY; 7]);
}

/// Arrangements taken from other frequencies, and factors that replace theirs, are checked.
#[test]
fn arrangements_and_factors_are_refused() {
    let set = Frequencies::new(8, 1e4, &Scaling::Default).expect("valid");
    for (given, pairs) in [(5, [(0, 0); 2]), (0, [(0, 0); 2]), (2, [(0, 1), (1, 2)])] {
        let required = "1 to 4, and each pair on one of them";
        let axes = Error::Frequencies(FrequenciesError::Axes { given, required });
        let text = format!("the axes must be {required}; given: {given}");
        refused(set.arranged(given, &pairs), axes, &text);
    }
    let error = Error::Shape(ShapeError::Range {
        dimension: Dimension::Channels,
        start: 8,
        end: 10,
        extent: 8,
    });
    let text = "range 8..10 of channels is not inside 0..8";
    refused(set.arranged(1, &[(3, 0), (4, 0)]), error, text);
    for (pairs, rotary_dim) in [(0, 0), (32769, 65538)] {
        let error = Error::Rows(RowsError::RotaryDim {
            rotary_dim,
            required: "even and between 2 and 65536",
        });
        let text = format!("rotary_dim is {rotary_dim}, but must be even and between 2 and 65536");
        refused(set.arranged(1, &vec![(0, 0); pairs]), error, &text);
    }
    for value in [0.0, -1.0, f64::INFINITY] {
        let softmax = set.clone().with_softmax_factor(value);
        let required = "positive and finite";
        let name = "softmax_factor";
        let text = format!("{name} is {}, but must be {required}", written(value));
        let error = Error::Parameter {
            name,
            value,
            required,
        };
        refused(softmax, error, &text);
        let attention = set.clone().with_attention_factor(value);
        let error = attention.map(drop).expect_err("a refusal");
        assert!(
            matches!(error, Error::Parameter { name: "attention_factor", value: given, .. } if given == value),
            "{error:?}"
        );
    }
    let changed = set.clone().with_attention_factor(1.5).expect("valid");
    let changed = changed.with_softmax_factor(2.5).expect("valid");
    let factors = (changed.attention_factor(), changed.softmax_factor());
    assert_eq!(factors, (1.5, 2.5));
    assert!(changed.iter().eq(set.iter()));
}

#[test]
fn pairs_that_turn_too_fast_are_refused() {
    let error = Error::Frequencies(FrequenciesError::TurnsPerPosition {
        pair: 1,
        inverse: 1e150,
    });
    refused(
        Frequencies::new(4, 1e-300, &Scaling::Default),
        error,
        "the inverse frequency of pair 1 is 1e150; its magnitude must be below 205887.4, which is 32768 turns per position",
    );
    for inverse in [206_000.0, -206_000.0] {
        let made = Frequencies::from_inverse(2, &[inverse], 1.0);
        assert_eq!(
            made,
            Err(Error::Frequencies(FrequenciesError::TurnsPerPosition {
                pair: 0,
                inverse
            }))
        );
    }
}

#[test]
fn axes_that_do_not_add_up_are_refused() {
    for (axes, given, required) in [
        (
            Axes::mrope_alternating(12, [2, 3, 1]),
            2,
            "as many pairs of height as of width where they alternate",
        ),
        (
            Axes::mrope_spread(8, [0, 2, 2]),
            0,
            "at least one pair of time, which has the last one",
        ),
        (
            Axes::ggml_mrope(64, [0; 4]),
            0,
            "sections with at least one pair",
        ),
        (Axes::given(&[0, 4]), 4, "numbered 0 to 3"),
        (Axes::given(&[255, 0]), 255, "numbered 0 to 3"),
    ] {
        let text = format!("the axes must be {required}; given: {given}");
        let made = Frequencies::new(axes, 1e4, &Scaling::Default);
        refused(
            made,
            Error::Frequencies(FrequenciesError::Axes { given, required }),
            &text,
        );
    }
    // The largest rotary_dim has valid sections; a larger one has none.
    for (rotary_dim, largest) in [(65536, true), (65538, false)] {
        let made = Frequencies::new(Axes::mrope(rotary_dim, [1, 1, 1]), 1e4, &Scaling::Default);
        let error = made.map(drop).expect_err("sections of three pairs");
        let sections = matches!(error, Error::Frequencies(FrequenciesError::Sections { .. }));
        let given = matches!(error, Error::Rows(RowsError::RotaryDim { rotary_dim: given, .. }) if given == rotary_dim);
        assert_eq!((sections, given), (largest, !largest), "{error}");
    }
    // Pairs without a section would not rotate and would change the frequencies of all others.
    for ([a, b, c], sum) in [
        ([16, 24, 20], 60),
        ([16, 24, 25], 65),
        ([0, 0, 0], 0),
        ([usize::MAX, 2, 3], usize::MAX),
    ] {
        let doubled = sum.saturating_mul(2);
        let refused = |axes: Axes<'_>, sections: &[usize], sum: usize, doubled: usize| {
            let mut named = [0; 4];
            named[..sections.len()].copy_from_slice(sections);
            let error = Error::Frequencies(FrequenciesError::Sections {
                sections: named,
                axes: sections.len() as u8,
                rotary_dim: 128,
            });
            let text = format!(
                "the sections {sections:?} of M-RoPE sum to {sum} pairs, but rotary_dim 128 has 64; where the other \
                 channels stand still, rotary_dim is {doubled}"
            );
            let made = Frequencies::new(axes, 1e4, &Scaling::Default);
            refused(made, error, &text);
        };
        refused(Axes::mrope(128, [a, b, c]), &[a, b, c], sum, doubled);
        refused(
            Axes::mrope_interleaved(128, [a, b, c]),
            &[a, b, c],
            sum,
            doubled,
        );
        if a > 0 {
            refused(Axes::mrope_spread(128, [a, b, c]), &[a, b, c], sum, doubled);
        }
        refused(
            Axes::mrope_alternating(128, [b, b, c]),
            &[b, b, c],
            2 * b + c,
            2 * (2 * b + c),
        );
        refused(Axes::mrope(128, [c]), &[c], c, 2 * c);
    }
    // A rotary_dim that no head has is refused as such.
    for rotary_dim in [0, 127, 65538] {
        let made = Frequencies::new(
            Axes::mrope(rotary_dim, [rotary_dim / 2]),
            1e4,
            &Scaling::Default,
        );
        assert!(matches!(
            made,
            Err(Error::Rows(RowsError::RotaryDim { .. }))
        ));
    }
    for axes in [&[][..], &[0; 32769]] {
        let made = Frequencies::new(Axes::given(axes), 1e4, &Scaling::Default);
        assert!(matches!(
            made,
            Err(Error::Rows(RowsError::RotaryDim { .. }))
        ));
    }
}

/// Twice as many pairs as fit `usize` are refused: neither their sum nor its double wraps.
#[test]
fn axes_with_more_pairs_than_are_counted_are_refused() {
    const HALF: usize = usize::MAX / 2 + 1;
    for axes in [
        Axes::per_axis([HALF, 2]),
        Axes::per_axis([HALF]),
        Axes::per_axis([usize::MAX, 3]),
        Axes::per_axis([HALF, 1, HALF, 1]),
    ] {
        let made = Frequencies::new(axes, 1e4, &Scaling::Default);
        assert!(
            matches!(
                made,
                Err(Error::Rows(RowsError::RotaryDim {
                    rotary_dim: usize::MAX,
                    ..
                }))
            ),
            "{axes:?}: {made:?}"
        );
    }
}
