//! The module: burn-nn's methods, and those beyond them.

use burn::config::Config;
use burn::module::Module;
use burn::nn::RotaryEncodingConfig as BurnConfig;
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use rope_burn::{RotaryEncoding, RotaryEncodingConfig, rotate};
use rope_core::axes::Axes;
use rope_core::{Direction, Frequencies, LongRope, Pairing, Positions, Scaling, Yarn};

use crate::support::{Source, bits, other, rotated, values};

fn module(config: RotaryEncodingConfig) -> RotaryEncoding {
    config.init(&Device::flex())
}

#[test]
fn apply_shift_and_reset_say_which_positions() {
    let (source, device) = (&mut Source::random("positions"), Device::flex());
    let x = source.tensor([2, 3, 5, 16], DType::F32, &device);
    let frequencies = Frequencies::new(16, 10_000.0, &Scaling::Default).expect("frequencies");
    let at = |positions: std::ops::Range<usize>| {
        let rows = frequencies.rows(positions).expect("rows");
        rotated(&x, &rows, Pairing::Interleaved, Direction::Forward)
    };
    let mut encoding = module(RotaryEncodingConfig::new(10, 16));
    assert_eq!(bits(&encoding.forward(x.clone())), at(0..5));
    // Inside the window, over its end, and after it.
    for start in [0, 3, 5, 6, 9, 10, 1000] {
        assert_eq!(
            bits(&encoding.apply(x.clone(), start)),
            at(start..start + 5),
            "{start}"
        );
    }
    // Forward by less than the window and by more; and back, which burn-nn refuses.
    for window in [4, 4000, 2] {
        encoding.shift(window);
        for start in [0, 5, 6] {
            let first = window + start;
            assert_eq!(
                bits(&encoding.apply(x.clone(), start)),
                at(first..first + 5)
            );
        }
    }
    encoding.reset();
    assert_eq!(bits(&encoding.apply(x.clone(), 1)), at(1..6));
}

/// The window is burn-nn's: both modules are moved and queried alike.
#[test]
fn a_window_moves_as_burn_nns_does() {
    let (source, device) = (&mut Source::random("window"), Device::flex());
    let x = source.tensor([1, 2, 3, 8], DType::F32, &device);
    let mut burn = BurnConfig::new(6, 8).init(&device);
    let mut ours = module(RotaryEncodingConfig::new(6, 8));
    for step in 0..6 {
        if step % 2 == 1 {
            burn.shift(2 * step);
            ours.shift(2 * step);
        }
        if step == 4 {
            burn.reset();
            ours.reset();
        }
        for start in 0..4 {
            let (ours, burn) = (
                values(&ours.apply(x.clone(), start)),
                values(&burn.apply(x.clone(), start)),
            );
            // Positions up to 16: f32 angles are wrong by 1e-5 there; the next position is another by 1e-3 and more.
            let length = values(&x).into_iter().map(f32::abs).fold(0.0, f32::max);
            for (ours, burn) in ours.iter().zip(&burn) {
                assert!(
                    (ours - burn).abs() <= 4e-5 * length,
                    "{step} {start}: {ours} {burn}"
                );
            }
        }
    }
}

#[test]
fn sequences_have_positions_of_their_own() {
    let (source, device) = (&mut Source::random("sequences"), Device::flex());
    let encoding = module(RotaryEncodingConfig::new(64, 16).with_pairing(Pairing::Half));
    let starts = [3, 41, 0];
    let x = source.tensor([3, 2, 4, 16], DType::F32, &device);
    let positions: Vec<usize> = starts.iter().flat_map(|start| *start..start + 4).collect();
    let y = encoding
        .apply_at(x.clone(), &positions)
        .expect("a position for each");
    let ids: Vec<i64> = positions.iter().map(|&position| position as i64).collect();
    let ids = Tensor::<2, Int>::from_data(TensorData::new(ids, [3, 4]), &device);
    for rows in [encoding.rows(&positions, 3), encoding.rows_at(ids)] {
        let rows = rows.expect("a position for each");
        assert_eq!(
            bits(&rotate(x.clone(), &rows, Pairing::Half).expect("rows")),
            bits(&y)
        );
    }
    for (sequence, start) in starts.into_iter().enumerate() {
        let alone = encoding.apply(x.clone().narrow(0, sequence, 1), start);
        assert_eq!(bits(&y.clone().narrow(0, sequence, 1)), bits(&alone));
    }
    // One list for all sequences; and three dimensions, whose first is the batch.
    let y = encoding.apply_at(x.clone(), 7..11).expect("four positions");
    assert_eq!(bits(&y), bits(&encoding.apply(x.clone(), 7)));
    let three = x.clone().narrow(1, 1, 1).squeeze_dim::<3>(1);
    let y = encoding
        .apply_at(three, &positions)
        .expect("a position for each");
    let four = encoding
        .apply_at(x.narrow(1, 1, 1), &positions)
        .expect("a position for each");
    assert_eq!(bits(&y), bits(&four));
}

#[test]
fn every_scaling_and_a_part_of_the_head() {
    let (source, device) = (&mut Source::random("scaling"), Device::flex());
    let factors: Vec<f64> = (0..16).map(|i| 1.0 + 0.25 * f64::from(i)).collect();
    let divisors: Vec<f32> = factors.iter().map(|factor| *factor as f32).collect();
    let length = 9000;
    let scalings = [
        Scaling::Default,
        Scaling::Linear { factor: 4.0 },
        Scaling::DynamicNtk {
            factor: 2.0,
            max_position_embeddings: 4096,
            length,
        },
        Scaling::NtkAlpha { alpha: 8.0 },
        Scaling::NtkFixed { factor: 8.0 },
        Scaling::NtkMixed {
            factor: 8.0,
            mixed_b: 0.6,
        },
        Scaling::NtkByParts {
            factor: 8.0,
            original_context: 4096,
            ntk_factor: 1.0,
            extrapolation_factor: 1.0,
        },
        Scaling::Yarn(Yarn::new(4.0, 4096)),
        Scaling::LongRope(LongRope {
            short_factor: &factors,
            long_factor: &factors,
            original_context: 4096,
            length,
            factor: 4.0,
            attention_factor: None,
        }),
        Scaling::Llama3 {
            factor: 8.0,
            low_freq_factor: 1.0,
            high_freq_factor: 4.0,
            original_context: 8192,
        },
        Scaling::Proportional {
            partial_rotary_factor: 0.5,
            factor: 2.0,
        },
        Scaling::FreqFactors { factors: &divisors },
        Scaling::Learned { alphas: &factors },
        Scaling::Turns,
        Scaling::Periods {
            min_period: 2.0,
            max_period: 1e4,
        },
    ];
    let x = source.tensor([2, 2, 3, 40], DType::F32, &device);
    for pairing in Pairing::ALL {
        let config = RotaryEncodingConfig::new(8, 40)
            .with_theta(500_000.0_f32)
            .with_pairing(pairing)
            .with_rotary_dim(Some(32));
        for scaling in &scalings {
            let encoding = config
                .init_with_scaling(scaling, &device)
                .expect("a module");
            let rows = Frequencies::new(32, 500_000.0, scaling)
                .and_then(|frequencies| frequencies.rows(2..5));
            let expected = rotated(&x, &rows.expect("rows"), pairing, Direction::Forward);
            assert_eq!(
                bits(&encoding.apply(x.clone(), 2)),
                expected,
                "{pairing} {scaling:?}"
            );
        }
    }
}

#[test]
fn a_function_scales_frequencies_as_in_burn_nn() {
    let (source, device) = (&mut Source::random("function"), Device::flex());
    let x = source.tensor([1, 2, 4, 12], DType::F32, &device);
    let config = RotaryEncodingConfig::new(16, 12);
    let encoding = config
        .init_with_frequency_scaling(|frequencies| frequencies / 4.0, &device)
        .expect("a module");
    let unscaled = Frequencies::new(12, 10_000.0, &Scaling::Default).expect("frequencies");
    // A division by 4 is exact, so it is one of the f32 that the function gets.
    let quarters: Vec<f32> = unscaled.iter().map(|pair| pair.inverse_f32 / 4.0).collect();
    let rows = Frequencies::from_inverse(12, &quarters, 1.0)
        .and_then(|frequencies| frequencies.rows(9..13));
    let expected = rotated(
        &x,
        &rows.expect("rows"),
        Pairing::Interleaved,
        Direction::Forward,
    );
    assert_eq!(bits(&encoding.apply(x, 9)), expected);
}

#[test]
fn several_axes_rotate() {
    let (source, device) = (&mut Source::random("axes"), Device::flex());
    let axes = Axes::mrope(16, [2, 3, 3]);
    let frequencies = Frequencies::new(axes, 1e6, &Scaling::Default).expect("frequencies");
    let ids: Vec<i64> = (0..3 * 5).map(|_| source.below(100) as i64).collect();
    let rows = frequencies.rows(Positions::axis_major(&ids)).expect("rows");
    let x = source.tensor([2, 2, 5, 16], DType::F32, &device);
    let encoding = RotaryEncodingConfig::new(8, 16)
        .with_pairing(Pairing::Half)
        .init_with_frequencies(frequencies, &device)
        .expect("a module");
    let expected = rotated(&x, &rows, Pairing::Half, Direction::Forward);
    let y = encoding
        .apply_at(x, Positions::axis_major(&ids))
        .expect("three axes");
    assert_eq!(bits(&y), expected);
}

#[test]
fn it_is_a_module_of_burn() {
    let (source, device) = (&mut Source::random("module"), Device::flex());
    let x = source.tensor([1, 2, 4, 8], DType::F32, &device);
    let encoding = module(RotaryEncodingConfig::new(16, 8));
    let expected = bits(&encoding.forward(x.clone()));
    assert_eq!(
        encoding.to_string(),
        "RotaryEncoding {d_model: 8, rotary_dim: 8, pairing: Interleaved, max_sequence_length: 16}"
    );
    assert_eq!(encoding.num_params(), 0);
    // To another device with its rows, and into training.
    let elsewhere = other();
    let there = Tensor::<4>::from_data(x.to_data(), (&elsewhere, DType::F32));
    let moved = encoding.clone().to_device(&elsewhere);
    assert_eq!(bits(&moved.forward(there.clone())), expected);
    assert_eq!(
        bits(&moved.apply(there, 14)),
        bits(&encoding.apply(x.clone(), 14))
    );
    let tracked = Tensor::<4>::from_data(x.to_data(), &device.autodiff()).require_grad();
    let gradients = encoding.train().forward(tracked.clone()).sum().backward();
    assert!(tracked.grad(&gradients).is_some());
}

#[test]
fn a_configuration_is_saved_and_read_and_burn_nns_is_too() {
    let ours = RotaryEncodingConfig::new(32, 64)
        .with_theta(5e5)
        .with_pairing(Pairing::Half)
        .with_rotary_dim(Some(48));
    let text = serde_json(&ours);
    assert_eq!(
        RotaryEncodingConfig::load_binary(text.as_bytes()).expect("ours"),
        ours
    );
    let burn = BurnConfig::new(32, 64).with_theta(5e5).to_string();
    let read = RotaryEncodingConfig::load_binary(burn.as_bytes()).expect("burn-nn's");
    assert_eq!(read, RotaryEncodingConfig::new(32, 64).with_theta(5e5));
    let wrong = text.replace("half", "neox");
    let refused = RotaryEncodingConfig::load_binary(wrong.as_bytes()).expect_err("no pairing");
    assert!(refused.to_string().contains("neox"), "{refused}");
}

/// Returns the saved form of a configuration.
fn serde_json(config: &RotaryEncodingConfig) -> String {
    let file = std::env::temp_dir().join(format!("rope-burn-{}.json", std::process::id()));
    config.save(&file).expect("a file");
    let text = std::fs::read_to_string(&file).expect("the file");
    std::fs::remove_file(&file).expect("the file");
    text
}

#[cfg(feature = "models")]
#[test]
fn a_models_file_says_what_rotates() {
    let (source, device) = (&mut Source::random("config.json"), Device::flex());
    let llama = r#"{"model_type": "llama", "hidden_size": 64, "num_attention_heads": 2, "rope_theta": 500000.0,
        "max_position_embeddings": 131072, "rope_scaling": {"rope_type": "llama3", "factor": 8.0,
        "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}}"#;
    let rotation = rope_models::Config::from_json(llama)
        .and_then(|config| config.model()?.rotation().cloned())
        .expect("llama");
    let encoding = RotaryEncoding::from_rotation(&rotation, 16, &device).expect("a module");
    let x = source.tensor([1, 2, 4, 32], DType::F32, &device);
    let rows = rotation.frequencies().rows(3..7).expect("rows");
    let expected = rotated(&x, &rows, Pairing::Half, Direction::Forward);
    assert_eq!(bits(&encoding.apply(x.clone(), 3)), expected);

    let cohere = r#"{"model_type": "cohere2", "hidden_size": 64, "num_attention_heads": 2, "num_hidden_layers": 4}"#;
    let model = rope_models::Config::from_json(cohere)
        .and_then(|config| config.model())
        .expect("cohere2");
    let layers = RotaryEncoding::of_layers(&model, 16, &device).expect("modules");
    let rotating: Vec<bool> = layers.iter().map(Option::is_some).collect();
    assert_eq!(rotating, [true, true, true, false]);
    let of_first = model.layers().expect("layers").rotations()[0].clone();
    let expected = RotaryEncoding::from_rotation(&of_first, 16, &device).expect("a module");
    let first = layers[0].as_ref().expect("a module");
    assert_eq!(
        bits(&first.apply(x.clone(), 3)),
        bits(&expected.apply(x.clone(), 3))
    );

    let deepseek = r#"{"model_type": "deepseek_v3", "hidden_size": 7168, "num_attention_heads": 128,
        "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "rope_theta": 10000,
        "max_position_embeddings": 4096, "rope_interleave": true}"#;
    let rotation = rope_models::Config::from_json(deepseek)
        .and_then(|config| config.model()?.rotation().cloned())
        .expect("deepseek");
    let refused = RotaryEncoding::from_rotation(&rotation, 16, &device).expect_err("two pairings");
    assert_eq!(
        refused.to_string(),
        "the model's rotation changes the pairing"
    );
}
