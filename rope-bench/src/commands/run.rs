//! A run: its measurements, their order, and the checks before them. criterion measures one function after the other; a
//! ratio to the roof needs both in the same rounds, and in several processes.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use rope_report::kind::Kind;
use rope_report::results::{CaseResult, Measurement, RoofResult};
use rope_report::time::{Ratio, Samples, Time};
use serde::{Deserialize, Serialize};

use crate::cases::{Alignment, Case};
use crate::commands::selection::Planned;
use crate::formulations::formulation::{Formulation, Runner};
use crate::measure::memory::{self, Memory};
use crate::measure::roof::Roof;
use crate::measure::threads::Team;
use crate::measure::{Effort, Subject, sample};
use crate::verify::oracle;

/// The name of the roof in ratios.
pub const ROOF: &str = "roof";

/// Runs cases, one at a time, in one buffer.
#[derive(Debug)]
pub struct Bench {
    memory: Memory,
    values: Vec<f32>,
    roofs: Vec<Roof>,
    effort: Effort,
}

/// The result of one pass for a case.
#[derive(Debug, Serialize, Deserialize)]
pub struct CasePass {
    roofs: Vec<String>,
    /// Filled in the first pass.
    formulations: Vec<Checked>,
    /// The rounds of the roofs, then of the formulations.
    samples: Vec<Samples>,
}

/// The oracle's result for a formulation in a case, and the time of its preparation.
#[derive(Debug, Serialize, Deserialize)]
struct Checked {
    preparation: f64,
    error: f64,
    version: Option<String>,
}

impl Bench {
    /// Creates a buffer for all cases of a plan. A pass has its part of the effort.
    pub fn new(plan: &[Planned<'_>], effort: Effort) -> Self {
        let most = |of: fn(&Case) -> usize| plan.iter().map(|(case, _)| of(case)).max();
        let bytes = most(Case::bytes).unwrap_or(0);
        Bench {
            memory: Memory::new(bytes),
            values: memory::values(most(|case| case.workload.elements()).unwrap_or(0)),
            roofs: Roof::available(),
            effort: effort.of_a_pass(),
        }
    }

    /// Measures the formulations of each case against each other and the roof, case by case. The first pass also checks
    /// each against the oracle.
    pub fn pass(
        &mut self,
        plan: &[Planned<'_>],
        first: bool,
        mut done: impl FnMut(CasePass) -> Result<()>,
    ) -> Result<()> {
        plan.iter()
            .try_for_each(|(case, chosen)| done(self.case(case, chosen, first)?))
    }

    /// Measures a case once. The formulations are prepared for each pass.
    fn case(&mut self, case: &Case, chosen: &[&dyn Formulation], first: bool) -> Result<CasePass> {
        let mut checked = Vec::new();
        let Bench {
            memory,
            values,
            roofs,
            effort,
        } = self;
        let effort = *effort;
        let bytes = memory.slice(case.alignment, case.bytes());
        let values = &values[..case.workload.elements()];
        let mut runners: Vec<Box<dyn Runner>> = Vec::new();
        let mut rotations = None;
        // From each formulation that measured itself, in a separate program.
        let mut outside = Vec::new();
        memory::fill(bytes, case.element, values);
        for &formulation in chosen {
            let name = || format!("{} in {case}", formulation.name());
            let begin = Instant::now();
            let mut runner = formulation.prepare(case).with_context(name)?;
            let preparation = begin.elapsed().as_nanos() as f64;
            runner.load(bytes).with_context(name)?;
            let answer = runner.outside(bytes, effort).with_context(name)?;
            // Another process may fail at another time.
            if first || answer.is_some() {
                if answer.is_none() {
                    runner.run(bytes, 1).with_context(name)?;
                    runner.store(bytes).with_context(name)?;
                }
                let rotations = rotations.get_or_insert_with(|| oracle::rotations(&case.workload));
                let error = oracle::error(case, rotations, values, bytes).with_context(name)?;
                let limit = formulation.about().limit(case);
                let name = name();
                ensure!(
                    error <= limit,
                    "{name}: the result is wrong by {error:.1e}, more than {limit:.1e}"
                );
                if first {
                    let own = answer.as_ref();
                    checked.push(Checked {
                        preparation: own.map_or(preparation, |own| own.preparation),
                        error,
                        version: own.map(|own| own.version.clone()),
                    });
                }
                memory::fill(bytes, case.element, values);
            }
            if answer.is_none() {
                runners.push(runner);
            }
            outside.push(answer.map(|answer| answer.samples));
        }
        let rotated = case.rotated_bytes();
        let teams = match case.threads {
            1 => vec![Team::new(1)?],
            threads => vec![Team::new(threads)?, Team::new(1)?],
        };
        let mut subjects: Vec<Subject<'_>> = Vec::new();
        let mut names = Vec::new();
        for team in &teams {
            for roof in &*roofs {
                names.push(match team.threads() {
                    1 if case.threads > 1 => format!("{}, one thread", roof.name),
                    _ => roof.name.to_owned(),
                });
                subjects.push(Box::new(move |bytes, times| {
                    roof.run(&mut bytes[..rotated], team, times);
                    Ok(())
                }));
            }
        }
        for runner in &mut runners {
            subjects.push(Box::new(|bytes, times| runner.run(bytes, times)));
        }
        let mut samples = sample(&mut subjects, bytes, effort)?;
        let mut inside = samples.split_off(names.len()).into_iter();
        let all = outside.into_iter();
        samples.extend(all.filter_map(|own| own.or_else(|| inside.next())));
        Ok(CasePass {
            roofs: names,
            formulations: checked,
            samples,
        })
    }
}

/// Combines the passes over a plan, which all have the same cases.
pub fn results(plan: &[Planned<'_>], passes: &[Vec<CasePass>]) -> Vec<CaseResult> {
    let results = plan.iter().enumerate().map(|(index, (case, chosen))| {
        let passes: Vec<&CasePass> = passes.iter().filter_map(|pass| pass.get(index)).collect();
        result(case, chosen, &passes)
    });
    results.collect()
}

fn result(case: &Case, chosen: &[&dyn Formulation], passes: &[&CasePass]) -> CaseResult {
    let names = passes.first().map_or(&[][..], |first| &first.roofs);
    let checked = passes.first().map_or(&[][..], |first| &first.formulations);
    let time = |subject: usize| {
        let passes = passes.iter().map(|pass| pass.samples[subject].clone());
        Time::of(&passes.collect::<Vec<_>>())
    };
    let roofs = names.iter().enumerate().map(|(index, name)| RoofResult {
        name: name.clone(),
        time: time(index),
    });
    let mut result = CaseResult {
        group: case.group(),
        workload: case.workload.name.clone(),
        about: case.workload.about.clone(),
        shape: case.workload.shape(),
        element: case.element.name().into(),
        pairing: case.pairing.to_string(),
        aligned: case.alignment == Alignment::Line,
        threads: case.threads,
        elements: case.workload.rotated(),
        bytes: case.rotated_bytes(),
        roofs: roofs.collect(),
        ..CaseResult::default()
    };
    let roof = fastest_roof(&result.roofs);
    for (index, (formulation, checked)) in chosen.iter().zip(checked).enumerate() {
        let time = time(names.len() + index);
        result.measurements.push(Measurement {
            formulation: formulation.name(),
            preparation: checked.preparation,
            ratios: vec![Ratio::of(ROOF, time.of_passes(), &roof)],
            error: checked.error,
            instructions: None,
            version: checked.version.clone(),
            time,
        });
    }
    add_ratios(&mut result.measurements);
    result
}

/// Returns the time of the roof's fastest loop in each pass.
pub(crate) fn fastest_roof(roofs: &[RoofResult]) -> Vec<f64> {
    let mut fastest: Vec<f64> = Vec::new();
    for roof in roofs {
        let passes = roof.time.of_passes();
        fastest.resize(passes.len(), f64::INFINITY);
        for (fastest, time) in fastest.iter_mut().zip(passes) {
            *fastest = fastest.min(*time);
        }
    }
    fastest
}

/// Adds the ratios of rope-core to the C loop of the same instruction set, and to libraries.
fn add_ratios(measurements: &mut [Measurement]) {
    for index in 0..measurements.len() {
        let Kind::Own { backend } = Kind::of(&measurements[index].formulation) else {
            continue;
        };
        let times = measurements[index].time.of_passes();
        let others = measurements
            .iter()
            .map(|other| (&*other.formulation, &other.time));
        let others = others.filter(|(other, _)| match Kind::of(other) {
            Kind::Intrinsics { backend: like } => like == backend,
            kind => kind == Kind::Library,
        });
        let ratios = others.map(|(other, time)| Ratio::of(other, times, time.of_passes()));
        let ratios: Vec<Ratio> = ratios.collect();
        measurements[index].ratios.extend(ratios);
    }
}
