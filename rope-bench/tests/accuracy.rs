//! Tests the judge of accuracy against the tables of the models: 400-bit values, and PyTorch's.

use rope_bench::commands::accuracy::models::{MODELS, RecordedModel};
use rope_bench::commands::accuracy::{exact, levels, methods, positions};

/// Returns the position and the values of all pairs, of each line with this key.
fn lines(model: &RecordedModel, key: &str) -> Vec<(u32, Vec<f32>)> {
    let lines = model.table.lines().filter_map(|line| {
        let (position, values) = line.strip_prefix(key)?.strip_prefix(' ')?.split_once(' ')?;
        let bits = values
            .split_ascii_whitespace()
            .map(|word| f32::from_bits(u32::from_str_radix(word, 16).unwrap()));
        Some((position.parse().unwrap(), bits.collect()))
    });
    let lines: Vec<_> = lines.collect();
    assert!(lines.len() >= 12, "{} {key}", model.name);
    lines
}

#[test]
fn the_reference_rounds_to_the_correctly_rounded_values() {
    for model in MODELS {
        let steps = model.steps().unwrap();
        for (key, is_cos) in [("cos_cr", true), ("sin_cr", false)] {
            for (position, values) in lines(model, key) {
                for (&step, right) in steps.iter().zip(values) {
                    let (cos, sin) = exact::cos_sin(step, position);
                    let found = if is_cos { cos } else { sin } as f32;
                    assert_eq!(found, right, "{} {key} {position}", model.name);
                }
            }
        }
    }
}

#[test]
fn the_f32_angle_is_hugging_faces() {
    let mut methods = methods::METHODS.iter();
    let method = methods.find(|method| method.name == "f32 angle").unwrap();
    for model in MODELS {
        let make = (method.prepare)(model).unwrap();
        let mut row = vec![(0.0, 0.0); model.pairs()];
        let sin_lines = lines(model, "sin_hf");
        for (cos_line, sin_line) in lines(model, "cos_hf").into_iter().zip(sin_lines) {
            make(cos_line.0, &mut row);
            for ((found, cos), sin) in row.iter().zip(cos_line.1).zip(sin_line.1) {
                // A unit in the last place, for another libm.
                let off = (found.0 - cos).abs().max((found.1 - sin).abs());
                assert!(off <= 6e-8, "{} {}: {off}", model.name, cos_line.0);
            }
        }
    }
}

#[test]
fn positions_of_a_level_lie_in_it() {
    for level in levels() {
        let tried = positions(level, 64);
        assert_eq!(tried.len(), level.min(64) as usize);
        assert!(tried.iter().all(|position| (1..=level).contains(position)));
        assert!(tried.contains(&level));
    }
}
