//! The errors of cos and sin by position: of rope-core, and of the methods of today's models.
//!
//! A level is a position, a power of two from 1 to 2^31. The tried positions are below it: all of them if they are few;
//! otherwise half directly below the level and half drawn at random. The result is the largest distance of any cos or
//! sin of any pair from the [reference](exact).

pub mod exact;
pub mod methods;
pub mod models;

use anyhow::{Result, ensure};
use rope_report::results::{Accuracy, MethodErrors};

use crate::measure::threads::Team;
use methods::{METHODS, MakeRow, Method};
use models::RecordedModel;

/// Iterates over the positions of the levels: 2^0 to 2^31.
pub fn levels() -> impl Iterator<Item = u32> {
    (0..32).map(|power| 1 << power)
}

/// Returns the positions tried for a level, itself included: at most `most`, the same on every machine.
pub fn positions(level: u32, most: u32) -> Vec<u32> {
    if level <= most {
        return (1..=level).collect();
    }
    let near = most / 2;
    let mut state = u64::from(level) ^ 0x9e37_79b9_7f4a_7c15;
    let drawn = (near..most).map(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        1 + ((state >> 32) % u64::from(level)) as u32
    });
    (level - near + 1..=level).chain(drawn).collect()
}

/// Computes the errors of all methods at all levels, on `threads` threads.
pub fn accuracy(model: &RecordedModel, most: u32, threads: usize) -> Result<Accuracy> {
    ensure!(most >= 2, "{most} positions for each level: at least 2");
    let steps = model.steps()?;
    let makers = METHODS
        .iter()
        .map(|method| Ok((method, (method.prepare)(model)?)));
    let makers: Vec<(&Method, MakeRow)> = makers.collect::<Result<_>>()?;
    let worst = levels().map(|level| (level, vec![0.0_f64; makers.len()]));
    let mut worst: Vec<_> = worst.collect();
    Team::new(threads)?.each(&mut worst, 1, |(level, worst)| {
        let mut row = vec![(0.0, 0.0); steps.len()];
        for position in positions(*level, most) {
            let truth = steps.iter().map(|&step| exact::cos_sin(step, position));
            let truth: Vec<_> = truth.collect();
            for ((_, make), worst) in makers.iter().zip(&mut *worst) {
                make(position, &mut row);
                for (&(cos, sin), (exact_cos, exact_sin)) in row.iter().zip(&truth) {
                    for off in [f64::from(cos) - exact_cos, f64::from(sin) - exact_sin] {
                        // `f64::max` would ignore a NaN.
                        let off = if off.is_nan() {
                            off
                        } else {
                            worst.max(off.abs())
                        };
                        *worst = off;
                    }
                }
            }
        }
    });
    let mut methods = Vec::new();
    for (index, (method, _)) in makers.iter().enumerate() {
        let errors: Vec<f64> = worst.iter().map(|(_, worst)| worst[index]).collect();
        let are_numbers = errors.iter().all(|error| error.is_finite());
        let (model, name) = (model.name, method.name);
        ensure!(are_numbers, "{model}, {name}: a cos or sin is no number");
        methods.push(MethodErrors {
            name: method.name.into(),
            about: method.about.into(),
            source: method.source.into(),
            errors,
        });
    }
    Ok(Accuracy {
        model: model.name.into(),
        about: model.about(),
        positions: most as usize,
        reference_error: exact::ERROR,
        levels: levels().collect(),
        methods,
    })
}
