//! A run: what is measured, in which order, and what is checked before.

use std::hint::black_box;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use rope_core::{Backend, Pairing, Rope, Rows, TensorMut};

use crate::cases::{Alignment, Case, Element};
use crate::formulations::{Formulation, Runner};
use crate::measuring::{Effort, Ratio, Samples, SlowDown, Subject, Time, measure, sample, slowed};
use crate::memory::{self, Memory};
use crate::oracle;
use crate::report::kind::Kind;
use crate::results::{CaseResult, Dispatch, Measurement, RoofResult};
use crate::roof::{self, Roof};
use crate::threads::Team;

/// What ratios call the roof.
pub const ROOF: &str = "roof";

/// Runs cases, one at a time, in one buffer.
#[derive(Debug)]
pub struct Bench {
    memory: Memory,
    copy: Memory,
    values: Vec<f32>,
    roofs: Vec<Roof>,
    effort: Effort,
    slow_down: Option<SlowDown>,
}

impl Bench {
    /// A buffer that is large enough for all of these cases.
    pub fn new<'a>(cases: impl IntoIterator<Item = &'a Case>, effort: Effort) -> Self {
        let sizes = cases
            .into_iter()
            .map(|case| (case.bytes(), case.workload.elements()));
        let (bytes, elements) = sizes.fold((0, 0), |most, size| {
            (most.0.max(size.0), most.1.max(size.1))
        });
        Bench {
            memory: Memory::new(bytes),
            copy: Memory::new(bytes),
            values: memory::values(elements),
            roofs: Roof::available(),
            effort,
            slow_down: None,
        }
    }

    /// With formulations that are made slower.
    #[must_use]
    pub fn slow_down(self, slow_down: Option<SlowDown>) -> Self {
        Bench { slow_down, ..self }
    }

    /// Checks each formulation of each case against the oracle, then measures those of a case against each other and
    /// the roof, case after case, in several passes over all of them. The results of a group of cases come with the
    /// last.
    pub fn run(
        &mut self,
        plan: &[(Case, Vec<&dyn Formulation>)],
        mut measuring: impl FnMut(&Case),
        mut finished: impl FnMut(&[CaseResult]),
    ) -> Result<Vec<CaseResult>> {
        let effort = self.effort.of_a_pass();
        let mut measured: Vec<Measured> = plan.iter().map(|_| Measured::default()).collect();
        let mut results = Vec::new();
        for pass in 1..=self.effort.passes {
            // Where the pages of a buffer lie decides how well a heads-major tensor fits the second cache: the same
            // walk takes up to 1.6 times as long in one process as in another. Each pass has pages of its own, so that
            // a run knows it.
            self.memory = self.memory.elsewhere();
            self.copy = self.copy.elsewhere();
            let mut rest = measured.iter_mut();
            for group in plan.chunk_by(|(a, _), (b, _)| a.group() == b.group()) {
                let first = results.len();
                for ((case, chosen), measured) in group.iter().zip(&mut rest) {
                    measuring(case);
                    self.pass(case, chosen, effort, pass == 1, measured)?;
                    if pass == self.effort.passes {
                        results.push(measured.result(case, chosen));
                    }
                }
                if pass == self.effort.passes {
                    finished(&results[first..]);
                }
            }
        }
        Ok(results)
    }

    /// Measures a case once. The formulations are prepared for each pass, and checked in the first.
    fn pass(
        &mut self,
        case: &Case,
        chosen: &[&dyn Formulation],
        effort: Effort,
        first: bool,
        measured: &mut Measured,
    ) -> Result<()> {
        let Bench {
            memory,
            copy,
            values,
            roofs,
            slow_down,
            ..
        } = self;
        let bytes = memory.slice(case.alignment, case.bytes());
        let values = &values[..case.workload.elements()];
        let mut runners: Vec<(&dyn Formulation, Box<dyn Runner>)> = Vec::new();
        let rotations = oracle::rotations(&case.workload);
        // Of each formulation that measured itself, in a program of its own.
        let mut outside = Vec::new();
        memory::fill(bytes, case.element, values);
        for &formulation in chosen {
            let name = || format!("{} in {case}", formulation.name());
            let begin = Instant::now();
            let mut runner = formulation.prepare(case).with_context(name)?;
            let preparation = begin.elapsed().as_nanos() as f64;
            runner.load(bytes).with_context(name)?;
            let answer = runner.outside(bytes, effort).with_context(name)?;
            // Another process may err another time.
            if first || answer.is_some() {
                if answer.is_none() {
                    runner.run(bytes, 1).with_context(name)?;
                    runner.store(bytes).with_context(name)?;
                }
                let error = oracle::error(case, &rotations, values, bytes).with_context(name)?;
                let limit = formulation.about().limit(case);
                ensure!(
                    error <= limit,
                    "{}: the result is wrong by {error:.1e}, more than {limit:.1e}",
                    name()
                );
                if first {
                    measured.formulations.push(match &answer {
                        Some(answer) => Checked {
                            preparation: answer.preparation,
                            error,
                            version: Some(answer.version.clone()),
                        },
                        None => Checked {
                            preparation,
                            error,
                            version: None,
                        },
                    });
                }
                memory::fill(bytes, case.element, values);
            }
            if answer.is_none() {
                runners.push((formulation, runner));
            }
            outside.push(answer.map(|answer| answer.samples));
        }
        drop(rotations);
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
        let copy = copy.slice(case.alignment, rotated);
        subjects.push(Box::new(|bytes, times| {
            roof::copy(&bytes[..rotated], copy, &teams[0], times);
            Ok(())
        }));
        for (formulation, runner) in &mut runners {
            let slow_down = slow_down.as_ref();
            let factor = slow_down.and_then(|slow_down| slow_down.factor(&formulation.name()));
            subjects.push(match factor {
                Some(factor) => {
                    Box::new(move |bytes, times| slowed(factor, || runner.run(bytes, times)))
                }
                None => Box::new(|bytes, times| runner.run(bytes, times)),
            });
        }
        let mut samples = sample(&mut subjects, bytes, effort)?;
        let mut inside = samples.split_off(names.len() + 1).into_iter();
        samples.extend(
            outside
                .into_iter()
                .filter_map(|own| own.or_else(|| inside.next())),
        );
        measured.roofs = names;
        measured.passes.push(samples);
        Ok(())
    }
}

/// What was measured of a case so far.
#[derive(Default)]
struct Measured {
    roofs: Vec<String>,
    formulations: Vec<Checked>,
    /// Of each pass: the rounds of the roofs, of the copy, of the formulations.
    passes: Vec<Vec<Samples>>,
}

impl Measured {
    fn result(&self, case: &Case, chosen: &[&dyn Formulation]) -> CaseResult {
        let time = |subject: usize| {
            let passes: Vec<Samples> = self
                .passes
                .iter()
                .map(|pass| pass[subject].clone())
                .collect();
            Time::of(&passes)
        };
        let roofs = self
            .roofs
            .iter()
            .enumerate()
            .map(|(index, name)| RoofResult {
                name: name.clone(),
                time: time(index),
            });
        let copy = self.roofs.len();
        let mut result = CaseResult {
            group: case.group(),
            workload: case.workload.name.clone(),
            about: case.workload.about.clone(),
            shape: case.workload.shape(),
            element: case.element.name().into(),
            pairing: case.pairing.name().into(),
            aligned: case.alignment == Alignment::Line,
            threads: case.threads,
            elements: case.workload.rotated(),
            bytes: case.rotated_bytes(),
            roofs: roofs.collect(),
            copy: Some(time(copy)),
            measurements: Vec::new(),
        };
        let mut roof = vec![f64::INFINITY; self.passes.len()];
        for of_loop in &result.roofs {
            for (fastest, time) in roof.iter_mut().zip(of_loop.time.of_passes()) {
                *fastest = fastest.min(*time);
            }
        }
        for (index, (formulation, checked)) in chosen.iter().zip(&self.formulations).enumerate() {
            let time = time(copy + 1 + index);
            let cost = formulation.cost(case);
            result.measurements.push(Measurement {
                formulation: formulation.name(),
                preparation: checked.preparation,
                ratios: vec![Ratio::of(ROOF, time.of_passes(), &roof)],
                bytes: cost.bytes,
                flops: cost.flops,
                error: checked.error,
                instructions: None,
                version: checked.version.clone(),
                time,
            });
        }
        add_ratios(&mut result.measurements);
        result
    }
}

/// rope-core over the C loop of the same instruction set, and over libraries.
fn add_ratios(measurements: &mut [Measurement]) {
    for index in 0..measurements.len() {
        let Kind::Own { backend } = Kind::of(&measurements[index].formulation) else {
            continue;
        };
        let times = measurements[index].time.of_passes();
        let ratios: Vec<Ratio> = measurements
            .iter()
            .filter(|other| match Kind::of(&other.formulation) {
                Kind::Intrinsics { backend: like } => like == backend,
                kind => kind == Kind::Library,
            })
            .map(|other| Ratio::of(&other.formulation, times, other.time.of_passes()))
            .collect();
        measurements[index].ratios.extend(ratios);
    }
}

/// What the oracle says of a formulation in a case, and how long it took to prepare.
struct Checked {
    preparation: f64,
    error: f64,
    version: Option<String>,
}

/// What a call costs before it rotates anything: the time of one pair, in a tensor that is ready and in one that is
/// made for the call.
pub fn dispatch(backends: &[Backend], effort: Effort) -> Result<Vec<Dispatch>> {
    let row = [0.6, 0.8];
    let rows = Rows::new(&row, [1, 2])?;
    let mut subjects: Vec<Subject<'_>> = Vec::new();
    for &backend in backends {
        let rope = Rope::new(Pairing::Half).backend(backend)?;
        let rows = &rows;
        subjects.push(Box::new(move |bytes, times| {
            let mut x = TensorMut::<f32>::new(bytemuck::cast_slice_mut(bytes), [1, 1, 1, 2])?;
            for _ in 0..times {
                rope.rotate(black_box(&mut x), black_box(rows))?;
            }
            Ok(())
        }));
        subjects.push(Box::new(move |bytes, times| {
            let x: &mut [f32] = bytemuck::cast_slice_mut(bytes);
            for _ in 0..times {
                let mut x = TensorMut::new(black_box(&mut *x), black_box([1, 1, 1, 2]))?;
                rope.rotate(&mut x, black_box(rows))?;
            }
            Ok(())
        }));
    }
    let mut memory = Memory::new(8);
    let bytes = memory.slice(Alignment::Line, 8);
    memory::fill(bytes, Element::F32, &[1.0, 0.5]);
    let times = measure(&mut subjects, bytes, effort)?;
    Ok(backends
        .iter()
        .zip(times.chunks(2))
        .map(|(backend, times)| Dispatch {
            backend: backend.name().into(),
            time: times[0].clone(),
            with_tensor: times.get(1).cloned(),
        })
        .collect())
}
