//! A run: what is measured, in which order, and what is checked before.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use rope_core::{Backend, Pairing, Rope, Rows, TensorMut};

use crate::cases::{Alignment, Case, Element};
use crate::formulations::{Formulation, Runner};
use crate::measuring::{Effort, Subject, measure};
use crate::memory::{self, Memory};
use crate::oracle;
use crate::results::{CaseResult, Dispatch, Measurement, RoofResult};
use crate::roof::{self, Roof};
use crate::threads::Team;

/// Runs cases, one at a time, in one buffer.
#[derive(Debug)]
pub struct Bench {
    memory: Memory,
    copy: Memory,
    values: Vec<f32>,
    roofs: Vec<Roof>,
    effort: Effort,
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
        }
    }

    /// Checks each formulation against the oracle, then measures all of them against each other and the roof.
    pub fn run(&mut self, case: &Case, formulations: &[&dyn Formulation]) -> Result<CaseResult> {
        let Bench {
            memory,
            copy,
            values,
            roofs,
            effort,
        } = self;
        let bytes = memory.slice(case.alignment, case.bytes());
        let values = &values[..case.workload.elements()];
        let rotations = oracle::rotations(&case.workload);
        let mut runners: Vec<Checked<'_>> = Vec::new();
        for &formulation in formulations {
            let name = || format!("{} in {case}", formulation.name());
            let begin = Instant::now();
            let mut runner = formulation.prepare(case).with_context(name)?;
            let preparation = begin.elapsed().as_nanos() as f64;
            memory::fill(bytes, case.element, values);
            runner.load(bytes).with_context(name)?;
            runner.run(bytes, 1).with_context(name)?;
            runner.store(bytes).with_context(name)?;
            let error = oracle::error(case, &rotations, values, bytes).with_context(name)?;
            let limit = formulation.about().limit(case);
            ensure!(
                error <= limit,
                "{}: the result is wrong by {error:.1e}, more than {limit:.1e}",
                name()
            );
            runners.push(Checked {
                formulation,
                runner,
                preparation,
                error,
            });
        }
        drop(rotations);
        memory::fill(bytes, case.element, values);
        let rotated = case.rotated_bytes();
        let team = Team::new(case.threads)?;
        let mut subjects: Vec<Subject<'_>> = Vec::new();
        for roof in &*roofs {
            let team = &team;
            subjects.push(Box::new(move |bytes, times| {
                roof.run(&mut bytes[..rotated], team, times);
                Ok(())
            }));
        }
        let copy = copy.slice(case.alignment, rotated);
        subjects.push(Box::new(|bytes, times| {
            roof::copy(&bytes[..rotated], copy, &team, times);
            Ok(())
        }));
        for checked in &mut runners {
            subjects.push(Box::new(|bytes, times| checked.runner.run(bytes, times)));
        }
        let times = measure(&mut subjects, bytes, *effort)?;
        drop(subjects);
        let (roof_times, times) = times.split_at(roofs.len());
        let (copy_time, times) = times.split_at(1);
        let roofs: Vec<_> = roofs
            .iter()
            .zip(roof_times)
            .map(|(roof, &time)| RoofResult {
                name: roof.name.into(),
                time,
            })
            .collect();
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
            roofs,
            copy: copy_time.first().copied(),
            measurements: Vec::new(),
        };
        let roof = result.roof();
        for (checked, &time) in runners.into_iter().zip(times) {
            let cost = checked.formulation.cost(case);
            result.measurements.push(Measurement {
                formulation: checked.formulation.name(),
                preparation: checked.preparation,
                time,
                times_roof: time.minimum / roof,
                elements_per_ns: case.workload.rotated() as f64 / time.minimum,
                bytes: cost.bytes,
                gigabytes_per_s: cost.bytes / time.minimum,
                flops: cost.flops,
                error: checked.error,
                instructions: None,
            });
        }
        Ok(result)
    }
}

/// A formulation that the oracle has found right in the case.
struct Checked<'a> {
    formulation: &'a dyn Formulation,
    runner: Box<dyn Runner>,
    preparation: f64,
    error: f64,
}

/// What a call costs before it rotates anything: the time of one pair, in a tensor that is ready.
pub fn dispatch(backends: &[Backend], effort: Effort) -> Result<Vec<Dispatch>> {
    let row = [0.6, 0.8];
    let rows = Rows::new(&row, 2)?;
    let mut subjects: Vec<Subject<'_>> = Vec::new();
    for &backend in backends {
        let rope = Rope::new(Pairing::Half).backend(backend)?;
        let rows = &rows;
        subjects.push(Box::new(move |bytes, times| {
            let mut x = TensorMut::<f32>::new(bytemuck::cast_slice_mut(bytes), [1, 1, 1, 2])?;
            for _ in 0..times {
                rope.rotate(std::hint::black_box(&mut x), std::hint::black_box(rows))?;
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
        .zip(times)
        .map(|(backend, time)| Dispatch {
            backend: backend.name().into(),
            time,
        })
        .collect())
}
